//! Who gets a number when, who waits, and who is told that it would wait forever.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use ashlar_store::StoreConfig;

use super::*;

const ALONE: Mode = Mode { is_shared: false, of_transaction: false };
const SHARED: Mode = Mode { is_shared: true, of_transaction: false };
const OF_TRANSACTION: Mode = Mode { is_shared: false, of_transaction: true };
const KEY: Key = Key::One(7);
const OTHER: Key = Key::Two(0, 7);

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn is_empty(locks: &AdvisoryLocks) -> bool {
    let table = locks.table.lock();
    table.locks.is_empty() && table.waits.is_empty()
}

#[test]
fn a_number_is_held_as_often_as_it_was_locked() {
    let locks = AdvisoryLocks::default();
    let (mut first, mut second) = (Holder::new(1), Holder::new(2));
    assert!(first.try_lock(&locks, KEY, ALONE).unwrap());
    assert!(first.try_lock(&locks, KEY, ALONE).unwrap());
    assert!(first.try_lock(&locks, KEY, SHARED).unwrap());
    assert!(second.try_lock(&locks, OTHER, ALONE).unwrap());
    for is_shared in [false, false, true] {
        assert!(!second.try_lock(&locks, KEY, ALONE).unwrap());
        assert!(first.unlock(&locks, KEY, is_shared));
    }
    assert!(!first.unlock(&locks, KEY, false));
    assert!(!second.unlock(&locks, KEY, false));
    assert!(second.try_lock(&locks, KEY, ALONE).unwrap());
    second.unlock_all(&locks);
    assert!(is_empty(&locks));
}

#[test]
fn who_shares_a_number_holds_it_beside_others() {
    let locks = AdvisoryLocks::default();
    let (mut first, mut second, mut third) = (Holder::new(1), Holder::new(2), Holder::new(3));
    assert!(first.try_lock(&locks, KEY, SHARED).unwrap());
    assert!(second.try_lock(&locks, KEY, SHARED).unwrap());
    assert!(!third.try_lock(&locks, KEY, ALONE).unwrap());
    assert!(!second.try_lock(&locks, KEY, ALONE).unwrap());
    first.unlock_all(&locks);
    assert!(second.try_lock(&locks, KEY, ALONE).unwrap());
    assert!(!third.try_lock(&locks, KEY, SHARED).unwrap());
}

#[test]
fn who_waits_has_the_number_when_it_is_let_go() {
    let (locks, store) = (AdvisoryLocks::default(), Store::new(StoreConfig::default()));
    let (mut first, mut second, mut third) = (Holder::new(1), Holder::new(2), Holder::new(3));
    assert!(first.try_lock(&locks, KEY, OF_TRANSACTION).unwrap());
    {
        let mut waits = pin!(second.lock(&locks, &store, KEY, ALONE));
        assert!(poll(waits.as_mut()).is_pending());
        // Whoever comes later does not overtake.
        assert!(!third.try_lock(&locks, KEY, SHARED).unwrap());
        first.end_transaction(&locks, 0);
        assert!(!third.try_lock(&locks, KEY, SHARED).unwrap());
        assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(()))));
    }
    assert!(second.unlock(&locks, KEY, false));
    assert!(is_empty(&locks));
}

#[test]
fn who_stops_waiting_leaves_nothing_behind() {
    let (locks, store) = (AdvisoryLocks::default(), Store::new(StoreConfig::default()));
    let (mut first, mut second, mut third) = (Holder::new(1), Holder::new(2), Holder::new(3));
    assert!(first.try_lock(&locks, KEY, SHARED).unwrap());
    {
        let mut gone = pin!(second.lock(&locks, &store, KEY, ALONE));
        assert!(poll(gone.as_mut()).is_pending());
    }
    // Nobody is before the third any more.
    assert!(third.try_lock(&locks, KEY, SHARED).unwrap());
    third.unlock_all(&locks);
    {
        let mut gone = pin!(second.lock(&locks, &store, KEY, ALONE));
        assert!(poll(gone.as_mut()).is_pending());
        // It is given, and not taken.
        first.unlock_all(&locks);
    }
    assert!(is_empty(&locks));
}

#[test]
fn a_circle_of_waits_fails_who_closes_it() {
    let (locks, store) = (AdvisoryLocks::default(), Store::new(StoreConfig::default()));
    let (mut first, mut second) = (Holder::new(1), Holder::new(2));
    assert!(first.try_lock(&locks, KEY, ALONE).unwrap());
    assert!(second.try_lock(&locks, OTHER, ALONE).unwrap());
    {
        let mut waits = pin!(first.lock(&locks, &store, OTHER, ALONE));
        assert!(poll(waits.as_mut()).is_pending());
        {
            let mut closes = pin!(second.lock(&locks, &store, KEY, ALONE));
            let Poll::Ready(Err(error)) = poll(closes.as_mut()) else { panic!("a circle was not seen") };
            assert_eq!(error.code(), ErrorCode::DeadlockDetected);
            let detail = "Process 2 waits for ExclusiveLock on advisory lock [0,0,7,1]; blocked by process 1.\n\
                Process 1 waits for ExclusiveLock on advisory lock [0,0,7,2]; blocked by process 2.";
            assert_eq!(error.fields().detail.as_deref(), Some(detail));
        }
        assert_eq!(store.lock_statistics().deadlocks, 1);
        second.unlock_all(&locks);
        assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(()))));
    }
    first.unlock_all(&locks);
    assert!(is_empty(&locks));
}

/// Whoever shares waits for others that share where somebody between them does not.
#[test]
fn a_circle_goes_through_those_who_stand_before_one() {
    let (locks, store) = (AdvisoryLocks::default(), Store::new(StoreConfig::default()));
    let (mut first, mut second, mut third) = (Holder::new(1), Holder::new(2), Holder::new(3));
    assert!(first.try_lock(&locks, KEY, SHARED).unwrap());
    assert!(third.try_lock(&locks, OTHER, ALONE).unwrap());
    {
        let mut alone = pin!(second.lock(&locks, &store, KEY, ALONE));
        assert!(poll(alone.as_mut()).is_pending());
        let mut waits = pin!(first.lock(&locks, &store, OTHER, ALONE));
        assert!(poll(waits.as_mut()).is_pending());
        let mut closes = pin!(third.lock(&locks, &store, KEY, SHARED));
        assert!(matches!(poll(closes.as_mut()), Poll::Ready(Err(_))));
    }
    [first, second, third].iter_mut().for_each(|holder| holder.unlock_all(&locks));
    assert!(is_empty(&locks));
}

/// Whoever comes looks at those before it once. If it did so for each of them again, this would take minutes.
#[test]
fn thousands_wait_for_one_number() {
    const COUNT: i32 = 3_000;
    let (locks, store) = (AdvisoryLocks::default(), Store::new(StoreConfig::default()));
    let (mut first, mut last) = (Holder::new(COUNT + 1), Holder::new(COUNT + 2));
    assert!(first.try_lock(&locks, KEY, ALONE).unwrap());
    assert!(last.try_lock(&locks, OTHER, ALONE).unwrap());
    let mut others: Vec<Holder> = (1..=COUNT).map(Holder::new).collect();
    {
        let mut waits: Vec<_> =
            others.iter_mut().map(|holder| Box::pin(holder.lock(&locks, &store, KEY, ALONE))).collect();
        for wait in &mut waits {
            assert!(poll(wait.as_mut()).is_pending());
        }
        let mut behind = pin!(last.lock(&locks, &store, KEY, ALONE));
        assert!(poll(behind.as_mut()).is_pending());
        // A circle is found through all of them.
        let mut closes = pin!(first.lock(&locks, &store, OTHER, ALONE));
        assert!(matches!(poll(closes.as_mut()), Poll::Ready(Err(_))));
    }
    first.unlock_all(&locks);
    last.unlock_all(&locks);
    assert!(is_empty(&locks));
}

#[test]
fn what_a_transaction_holds_is_let_go_back_to_a_savepoint() {
    let locks = AdvisoryLocks::default();
    let (mut first, mut second) = (Holder::new(1), Holder::new(2));
    assert!(first.try_lock(&locks, KEY, OF_TRANSACTION).unwrap());
    let mark = first.mark();
    assert!(first.try_lock(&locks, OTHER, OF_TRANSACTION).unwrap());
    // One of the transaction is not let go by hand.
    assert!(!first.unlock(&locks, OTHER, false));
    first.end_transaction(&locks, mark);
    assert!(second.try_lock(&locks, OTHER, ALONE).unwrap());
    assert!(!second.try_lock(&locks, KEY, ALONE).unwrap());
    first.end_transaction(&locks, 0);
    assert!(second.try_lock(&locks, KEY, ALONE).unwrap());
}

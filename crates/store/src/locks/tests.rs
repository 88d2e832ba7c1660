//! The table of locks beside a naive one, and what writers find there.

mod beside;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use ashlar_base::{Datum, Result};
use proptest::prelude::*;

use super::*;
use crate::testing::{numbers, store};
use crate::{Applied, KeyTransaction, Mutation, Region, Store, WriteSet};

const STRENGTHS: [Strength; 4] = [Strength::KeyShare, Strength::Share, Strength::NoKeyUpdate, Strength::Update];

fn key(id: i64) -> [Datum<'static>; 1] {
    [Datum::Int8(id)]
}

fn region() -> (Arc<Store>, Arc<Region>) {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 1..=9 {
        let row = [Datum::Int8(id), Datum::Int8(0)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    (store, region)
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(wait: &mut LockWait<'_>, waker: &Waker) -> Poll<Result<()>> {
    Pin::new(wait).poll(&mut Context::from_waker(waker))
}

#[test]
fn the_strengths_conflict_as_postgresql_says() {
    let conflicts = STRENGTHS.map(|one| STRENGTHS.map(|other| one.conflicts(other)));
    let expected =
        [[false, false, false, true], [false, false, true, true], [false, true, true, true], [true, true, true, true]];
    assert_eq!(conflicts, expected);
}

#[test]
fn a_waiter_is_woken_when_its_turn_comes_and_nothing_is_left_behind() {
    let (store, region) = region();
    let (mut one, mut two, mut three) =
        (LockHolder::new(&region, 1), LockHolder::new(&region, 2), LockHolder::new(&region, 3));
    assert!(one.lock(&region, &key(1), Strength::Update).unwrap().is_none());
    let request = two.lock(&region, &key(1), Strength::Share).unwrap().unwrap();
    let (woken, last) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let mut wait = two.wait(&request);
    assert!(poll(&mut wait, &Waker::from(Arc::clone(&woken))).is_pending());
    let behind = three.lock(&region, &key(1), Strength::Update).unwrap().unwrap();
    let mut later = three.wait(&behind);
    assert!(poll(&mut later, &Waker::from(Arc::clone(&last))).is_pending());
    assert_eq!(store.lock_statistics().waiting, 2);
    one.release_to(0);
    assert_eq!((woken.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(poll(&mut wait, Waker::noop()), Poll::Ready(Ok(())));
    drop(wait);
    // Whoever comes now stands behind the one that waits for more than a share.
    assert!(one.lock(&region, &key(1), Strength::Share).unwrap().is_some());
    drop(later);
    assert!(one.lock(&region, &key(1), Strength::Share).unwrap().is_none());
    let infos: Vec<_> = region.locks().into_iter().map(|lock| (lock.pid, lock.strength)).collect();
    assert_eq!(infos.len(), 2);
    assert!(store.memory_used() > region.bytes());
    drop((one, two, three));
    let statistics = store.lock_statistics();
    assert_eq!((statistics.rows, statistics.waiting, statistics.waits, statistics.abandoned), (0, 0, 2, 1));
    assert_eq!((region.locked_rows(), store.memory_used()), (0, region.bytes()));
}

#[test]
fn a_lock_that_was_given_and_not_taken_goes_on_to_the_next() {
    let (_store, region) = region();
    let (mut one, mut two, mut three) =
        (LockHolder::new(&region, 1), LockHolder::new(&region, 2), LockHolder::new(&region, 3));
    assert!(one.lock(&region, &key(1), Strength::Update).unwrap().is_none());
    let (second, third) = (
        two.lock(&region, &key(1), Strength::Update).unwrap().unwrap(),
        three.lock(&region, &key(1), Strength::Update).unwrap().unwrap(),
    );
    let (mut wait, mut later) = (two.wait(&second), three.wait(&third));
    assert!(poll(&mut wait, Waker::noop()).is_pending() && poll(&mut later, Waker::noop()).is_pending());
    one.release_to(0);
    drop(wait);
    assert_eq!(poll(&mut later, Waker::noop()), Poll::Ready(Ok(())));
}

#[test]
fn who_only_passes_takes_nothing_and_lets_the_next_go_on() {
    let (store, region) = region();
    let mut holders: Vec<LockHolder> = (1..=4).map(|pid| LockHolder::new(&region, pid)).collect();
    assert!(holders[0].lock(&region, &key(1), Strength::Update).unwrap().is_none());
    let request = holders[1].lock(&region, &key(1), Strength::NoKeyUpdate).unwrap().unwrap();
    let [first, second, third, fourth] = &mut holders[..] else { panic!() };
    let mut passing = [second.pass(&request), third.pass(&request)];
    for wait in &mut passing {
        assert!(poll(wait, Waker::noop()).is_pending());
    }
    let mut behind = fourth.wait(&request);
    assert!(poll(&mut behind, Waker::noop()).is_pending());
    first.release_to(0);
    // All at once: nobody is in anybody's way.
    assert_eq!(poll(&mut behind, Waker::noop()), Poll::Ready(Ok(())));
    let [one, other] = &mut passing;
    assert_eq!(poll(one, Waker::noop()), Poll::Ready(Ok(())));
    assert_eq!(poll(other, Waker::noop()), Poll::Ready(Ok(())));
    drop((passing, behind));
    assert_eq!(region.locks().len(), 1);
    drop(holders);
    assert_eq!(store.lock_statistics().rows, 0);
}

#[test]
fn circles_of_two_and_three_are_found_when_they_close() {
    for parties in 2..=3i64 {
        let (store, region) = region();
        let mut holders: Vec<LockHolder> = (1..=parties).map(|pid| LockHolder::new(&region, pid as i32)).collect();
        for (id, holder) in (1..).zip(&mut holders) {
            assert!(holder.lock(&region, &key(id), Strength::Update).unwrap().is_none());
        }
        let requests: Vec<LockRequest> = (1..)
            .zip(&mut holders)
            .map(|(id, holder)| holder.lock(&region, &key(id % parties + 1), Strength::Share).unwrap().unwrap())
            .collect();
        let mut waits: Vec<LockWait<'_>> =
            holders.iter_mut().zip(&requests).map(|(holder, request)| holder.wait(request)).collect();
        let last = waits.len() - 1;
        for wait in &mut waits[..last] {
            assert!(poll(wait, Waker::noop()).is_pending());
        }
        let Poll::Ready(Err(error)) = poll(&mut waits[last], Waker::noop()) else { panic!("no deadlock of {parties}") };
        assert_eq!((error.code(), error.message()), (ErrorCode::DeadlockDetected, "deadlock detected"));
        let detail = error.fields().detail.clone().unwrap();
        assert_eq!(detail.lines().count(), parties as usize, "{detail}");
        assert!(detail.starts_with(&format!("Process {parties} waits for RowShareLock on row ")), "{detail}");
        assert!(detail.ends_with(&format!("blocked by process {parties}.")), "{detail}");
        assert_eq!(store.lock_statistics().deadlocks, 1);
        // The others go on when the victim lets go.
        drop(waits);
        drop(holders);
        assert_eq!(store.lock_statistics().rows, 0);
    }
}

/// Whoever comes looks at those before it once. If it did so for each of them again, this would take minutes.
#[test]
fn thousands_wait_for_one_row() {
    let count: i32 = if cfg!(miri) { 20 } else { 3_000 };
    let (store, region) = region();
    let (mut first, mut last) = (LockHolder::new(&region, 0), LockHolder::new(&region, count + 1));
    assert!(first.lock(&region, &key(1), Strength::Update).unwrap().is_none());
    assert!(last.lock(&region, &key(2), Strength::Update).unwrap().is_none());
    let request = last.lock(&region, &key(1), Strength::Update).unwrap().unwrap();
    let mut others: Vec<LockHolder> = (1..=count).map(|pid| LockHolder::new(&region, pid)).collect();
    let mut waits: Vec<LockWait<'_>> = others.iter_mut().map(|holder| holder.pass(&request)).collect();
    for wait in &mut waits {
        assert!(poll(wait, Waker::noop()).is_pending());
    }
    let mut behind = last.wait(&request);
    assert!(poll(&mut behind, Waker::noop()).is_pending());
    // A circle is found through all of them.
    let closing = first.lock(&region, &key(2), Strength::Share).unwrap().unwrap();
    assert!(matches!(poll(&mut first.wait(&closing), Waker::noop()), Poll::Ready(Err(_))));
    first.release_to(0);
    for wait in &mut waits {
        assert_eq!(poll(wait, Waker::noop()), Poll::Ready(Ok(())));
    }
    assert_eq!(poll(&mut behind, Waker::noop()), Poll::Ready(Ok(())));
    drop((waits, behind));
    drop((first, last, others));
    assert_eq!((store.lock_statistics().rows, store.lock_statistics().waiting), (0, 0));
}

/// Sessions that wait for something else than rows: for whom, and how many of the first of them stand before it.
struct Elsewhere(Vec<(i32, Vec<i32>, usize)>);

impl OtherWaits for Elsewhere {
    fn wait_of(&self, pid: i32) -> Option<OtherWait> {
        let (_, pids, ahead) = self.0.iter().find(|(session, ..)| *session == pid)?;
        Some(OtherWait { what: "something".to_owned(), pids: pids.clone(), ahead: *ahead })
    }

    fn list(&self) -> Vec<OtherLock> {
        let told = |pid| OtherLock { pid, object: (0, 0, 1), is_shared: false, waits_since: None };
        self.0.iter().map(|(pid, ..)| told(*pid)).collect()
    }
}

#[test]
fn a_circle_through_rows_and_something_else_is_found_from_both_sides() {
    let row_before = |detail: &str, pid: i32| {
        detail.contains(&format!("Process {pid} waits for AccessExclusiveLock on row "))
            && detail.contains(&format!(" of relation 1; blocked by process {}.", 3 - pid))
    };
    let (store, rows) = region();
    store.set_other_waits(Arc::new(Elsewhere(vec![(1, vec![7, 2], 1), (7, vec![2], 0)])));
    assert_eq!(store.other_locks().list().iter().map(|lock| lock.pid).collect::<Vec<_>>(), [1, 7]);
    let (mut one, mut two) = (LockHolder::new(&rows, 1), LockHolder::new(&rows, 2));
    assert!(one.lock(&rows, &key(1), Strength::Update).unwrap().is_none());
    let request = two.lock(&rows, &key(1), Strength::Update).unwrap().unwrap();
    let Poll::Ready(Err(error)) = poll(&mut two.wait(&request), Waker::noop()) else { panic!("no deadlock by a row") };
    let detail = error.fields().detail.clone().unwrap();
    assert!(row_before(&detail, 2), "{detail}");
    assert!(detail.ends_with("\nProcess 1 waits for something; blocked by process 2."), "{detail}");
    assert_eq!(store.lock_statistics().deadlocks, 1);

    let (store, rows) = region();
    let (mut one, mut two) = (LockHolder::new(&rows, 1), LockHolder::new(&rows, 2));
    assert!(one.lock(&rows, &key(1), Strength::Update).unwrap().is_none());
    let request = two.lock(&rows, &key(1), Strength::Update).unwrap().unwrap();
    let mut wait = two.wait(&request);
    assert!(poll(&mut wait, Waker::noop()).is_pending());
    let begins = |pid: i32| store.among_row_waits(|rows| rows.deadlock(pid, &Elsewhere(vec![(pid, vec![2], 0)])));
    assert!(begins(3).is_none());
    let detail = begins(1).unwrap().fields().detail.clone().unwrap();
    assert!(detail.starts_with("Process 1 waits for something; blocked by process 2.\n"), "{detail}");
    assert!(row_before(&detail, 2), "{detail}");
    assert_eq!(store.lock_statistics().deadlocks, 1);
}

#[test]
fn two_who_want_more_of_what_they_share_are_a_circle() {
    let (_store, region) = region();
    let (mut one, mut two) = (LockHolder::new(&region, 1), LockHolder::new(&region, 2));
    for holder in [&mut one, &mut two] {
        assert!(holder.lock(&region, &key(1), Strength::Share).unwrap().is_none());
    }
    let first = one.lock(&region, &key(1), Strength::Update).unwrap().unwrap();
    let second = two.lock(&region, &key(1), Strength::Update).unwrap().unwrap();
    let mut wait = one.wait(&first);
    assert!(poll(&mut wait, Waker::noop()).is_pending());
    let mut other = two.wait(&second);
    assert!(matches!(poll(&mut other, Waker::noop()), Poll::Ready(Err(_))));
    drop(other);
    two.release_to(0);
    assert_eq!(poll(&mut wait, Waker::noop()), Poll::Ready(Ok(())));
}

#[test]
fn writers_stop_at_a_lock_and_change_nothing() {
    let (store, region) = region();
    let mut one = LockHolder::new(&region, 1);
    assert!(one.lock(&region, &key(1), Strength::KeyShare).unwrap().is_none());
    let (id, changes) = (key(1), [(1, Datum::Int8(7))]);
    let update = Mutation::Update { key: &id, changes: &changes };
    let delete = Mutation::Delete { key: &id };
    let write = |mutation: &Mutation<'_>| region.entry(&id, |entry| entry.apply(mutation.clone()));
    assert_eq!(write(&update), Ok(Applied::Updated));
    assert_eq!(write(&delete).unwrap_err().code(), ErrorCode::LockNotAvailable);
    assert!(one.lock(&region, &key(1), Strength::Share).unwrap().is_none());
    assert_eq!(write(&update).unwrap_err().code(), ErrorCode::LockNotAvailable);
    // Its own way is free, another's waits.
    let mut way = Way::new(2);
    region.entry_with(&mut way, &id, |entry| entry.apply(update.clone())).unwrap_err();
    assert!(way.is_stopped());
    let request = way.take_stopped().unwrap();
    one.release_to(0);
    assert_eq!(poll(&mut way.holder_for(&request).wait(&request), Waker::noop()), Poll::Ready(Ok(())));
    assert_eq!(region.entry_with(&mut way, &id, |entry| entry.apply(delete.clone())), Ok(Applied::Deleted));
    assert_eq!(write(&update).unwrap_err().code(), ErrorCode::LockNotAvailable);
    way.clear();
    assert_eq!(write(&update), Ok(Applied::Nothing));
    // A commit stops as well, unless the lock is its own, and so does one that empties the table.
    assert!(one.lock(&region, &key(2), Strength::Update).unwrap().is_none());
    let snapshot = store.snapshot();
    let row = [Datum::Int8(2), Datum::Int8(9)];
    let mut writes = WriteSet::new();
    writes.upsert(&region, 1, &snapshot, &row).unwrap();
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
    assert!(writes.take_stopped().is_some());
    let mut emptying = WriteSet::new();
    emptying.truncate(&region, &snapshot).unwrap();
    assert_eq!(store.commit(&mut emptying).unwrap_err().code(), ErrorCode::LockNotAvailable);
    writes.set_owner(one.id());
    store.commit(&mut writes).unwrap();
    let mut transaction = KeyTransaction::new(&store);
    transaction.entry(&region, &key(2), |entry| entry.apply(Mutation::Delete { key: &key(2) })).unwrap().unwrap();
    let failed = transaction.commit(&store).unwrap_err();
    assert!(failed.is_stopped && failed.requests.len() == 1);
}

#[test]
fn locks_beyond_the_memory_bound_are_refused() {
    let store = Store::new(crate::StoreConfig { memory_max: 64 << 10, partition_count: 1, ..Default::default() });
    let region = store.create_region(numbers(1)).unwrap();
    let mut holder = LockHolder::new(&region, 1);
    let refused = (0..100_000).find_map(|id| holder.lock(&region, &key(id), Strength::Update).err());
    assert_eq!(refused.unwrap().code(), ErrorCode::OutOfMemory);
    assert!(store.memory_used() <= 64 << 10);
    holder.release_to(0);
    assert_eq!(store.memory_used(), 0);
}

/// What an owner does.
#[derive(Clone, Debug)]
enum Step {
    Lock(usize, i64, Strength),
    /// Gives up waiting.
    Abandon(usize),
    /// Lets go what it took after its first so many.
    Release(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (owner, row) = (0..4usize, 1..=3i64);
    prop_oneof![
        6 => (owner.clone(), row, 0..4usize).prop_map(|(owner, row, strength)| Step::Lock(owner, row, STRENGTHS[strength])),
        1 => owner.clone().prop_map(Step::Abandon),
        3 => (owner, 0..4usize).prop_map(|(owner, len)| Step::Release(owner, len)),
    ]
}

/// Locks kept in the plainest way: lists that are gone through from the start.
#[derive(Default)]
struct Twin {
    /// By owner, in order: row, how it was held before.
    taken: [Vec<(i64, Option<Strength>)>; 4],
    held: BTreeMap<(i64, usize), Strength>,
    /// Who waits, in the order of the queue.
    queue: Vec<(usize, i64, Strength)>,
}

impl Twin {
    fn is_free(&self, owner: usize, row: i64, strength: Strength) -> bool {
        self.held.iter().all(|((held, by), with)| *held != row || *by == owner || !with.conflicts(strength))
    }

    fn take(&mut self, owner: usize, row: i64, strength: Strength) {
        let before = self.held.insert((row, owner), strength);
        self.taken[owner].push((row, before));
    }

    fn lock(&mut self, owner: usize, row: i64, strength: Strength) -> bool {
        let own = self.held.get(&(row, owner)).copied();
        if own >= Some(strength) {
            return true;
        }
        let overtakes = self.queue.iter().any(|(_, queued, wants)| *queued == row && wants.conflicts(strength));
        if !self.is_free(owner, row, strength) || own.is_none() && overtakes {
            return false;
        }
        self.take(owner, row, strength);
        true
    }

    /// Whom an owner waits for, directly.
    fn waits_for(&self, owner: usize) -> Vec<usize> {
        let Some(place) = self.queue.iter().position(|(queued, ..)| *queued == owner) else { return Vec::new() };
        let (_, row, strength) = self.queue[place];
        let holders =
            self.held.iter().filter(|((held, by), with)| *held == row && *by != owner && with.conflicts(strength));
        let ahead = self.queue[..place].iter().filter(|(_, queued, wants)| *queued == row && wants.conflicts(strength));
        holders.map(|((_, by), _)| *by).chain(ahead.map(|(queued, ..)| *queued)).collect()
    }

    fn is_in_circle(&self, owner: usize) -> bool {
        let mut reached = self.waits_for(owner);
        for _ in 0..4 {
            let next: Vec<usize> = reached.iter().flat_map(|&other| self.waits_for(other)).collect();
            reached.extend(next);
            reached.sort_unstable();
            reached.dedup();
        }
        reached.contains(&owner)
    }

    /// Begins to wait; false: for ever.
    fn wait(&mut self, owner: usize, row: i64, strength: Strength) -> bool {
        let has_some = self.held.contains_key(&(row, owner));
        let front = self.queue.iter().position(|(_, queued, _)| *queued == row).filter(|_| has_some);
        self.queue.insert(front.unwrap_or(self.queue.len()), (owner, row, strength));
        if self.is_in_circle(owner) {
            self.queue.retain(|(queued, ..)| *queued != owner);
            self.grant();
            return false;
        }
        true
    }

    fn grant(&mut self) {
        let mut place = 0;
        while let Some(&(owner, row, strength)) = self.queue.get(place) {
            let has_some = self.held.contains_key(&(row, owner));
            let ahead =
                self.queue[..place].iter().any(|(_, queued, wants)| *queued == row && wants.conflicts(strength));
            if self.is_free(owner, row, strength) && (has_some || !ahead) {
                self.queue.remove(place);
                self.take(owner, row, strength);
                place = 0;
            } else {
                place += 1;
            }
        }
    }

    fn release(&mut self, owner: usize, len: usize) {
        while self.taken[owner].len() > len {
            let (row, before) = self.taken[owner].pop().unwrap();
            match before {
                Some(before) => self.held.insert((row, owner), before),
                None => self.held.remove(&(row, owner)),
            };
            // Locks are given back one by one, and who can go on at once does.
            self.grant();
        }
    }
}

/// What a step does to the table and to its twin, and whether they agree afterwards.
fn check_against_twin(steps: &[Step]) -> std::result::Result<(), TestCaseError> {
    let (_store, region) = region();
    let table = Arc::clone(region.attention().locks());
    let owners: Vec<Owner> = (1..=4).map(|pid| table.next_owner(pid)).collect();
    let mut taken: [Vec<(i64, Option<Strength>)>; 4] = Default::default();
    let mut waiting: [Option<(i64, Strength)>; 4] = Default::default();
    let hash = |row: i64| region.place_of(&key(row)).unwrap().hash;
    let mut twin = Twin::default();
    for step in steps {
        match *step {
            Step::Lock(by, row, strength) if waiting[by].is_none() => {
                let request = region.attention().request(hash(row), strength);
                let found = table.take(&request, owners[by]);
                prop_assert_eq!(found.is_some(), twin.lock(by, row, strength));
                match found {
                    Some(before) if before < Some(strength) => taken[by].push((row, before)),
                    Some(_) => {}
                    None => {
                        let wished = table.wish(&request, owners[by], false, Waker::noop());
                        prop_assert_eq!(wished.is_ok(), twin.wait(by, row, strength));
                        waiting[by] = wished.ok().map(|_| (row, strength));
                    }
                }
            }
            Step::Abandon(by) if waiting[by].is_some() => {
                table.abandon(owners[by]);
                waiting[by] = None;
                twin.queue.retain(|(queued, ..)| *queued != by);
                twin.grant();
            }
            Step::Release(by, len) if waiting[by].is_none() => {
                while taken[by].len() > len {
                    let (row, before) = taken[by].pop().unwrap();
                    table.give_back(region.attention(), hash(row), owners[by], before);
                }
                twin.release(by, len);
            }
            Step::Lock(..) | Step::Abandon(_) | Step::Release(..) => {}
        }
        for by in 0..4 {
            if let Some((row, _)) = waiting[by]
                && let Some(before) = table.ask(owners[by], Waker::noop())
            {
                taken[by].push((row, before));
                waiting[by] = None;
            }
        }
        let mut held: Vec<_> = region
            .locks()
            .into_iter()
            .map(|lock| (lock.row, lock.pid, lock.strength, lock.waits_since.is_some()))
            .collect();
        let of_twin = twin.held.iter().map(|((row, by), strength)| (hash(*row), *by as i32 + 1, *strength, false));
        let queued = twin.queue.iter().map(|(by, row, strength)| (hash(*row), *by as i32 + 1, *strength, true));
        let mut expected: Vec<_> = of_twin.chain(queued).collect();
        held.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(held, expected);
        let rows: std::collections::BTreeSet<i64> =
            twin.held.keys().map(|(row, _)| *row).chain(twin.queue.iter().map(|(_, row, _)| *row)).collect();
        prop_assert_eq!(region.locked_rows() as usize, rows.len());
    }
    // What is held keeps its table: at the end of all owners nothing is left of either.
    owners.iter().for_each(|owner| table.abandon(*owner));
    for (owner, taken) in owners.iter().zip(&mut taken) {
        while let Some((row, before)) = taken.pop() {
            table.give_back(region.attention(), hash(row), *owner, before);
        }
    }
    prop_assert_eq!(region.locked_rows(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn locks_are_those_of_a_twin_that_goes_through_lists(steps in proptest::collection::vec(step(), 0..60)) {
        check_against_twin(&steps)?;
    }
}

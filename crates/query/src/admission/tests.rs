//! Turns: who runs, who waits, who is refused, and that no slot is lost whatever happens to those who wait.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use super::*;

type Waiting = Pin<Box<dyn Future<Output = Result<Slot>> + Send>>;

fn admission(running_max: usize, waiting_max: usize) -> Arc<Admission> {
    Admission::new(AdmissionConfig { running_max, waiting_max, wait_max: None })
}

/// Asks for a slot.
fn ask(admission: &Arc<Admission>, entry: Entry) -> Waiting {
    let admission = Arc::clone(admission);
    Box::pin(async move { admission.enter(entry).await })
}

fn poll(waiting: &mut Waiting) -> Poll<Result<Slot>> {
    waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The slot of who has his turn now.
fn slot(waiting: &mut Waiting) -> Slot {
    match poll(waiting) {
        Poll::Ready(slot) => slot.unwrap(),
        Poll::Pending => panic!("it is not his turn"),
    }
}

#[test]
fn those_who_wait_come_in_in_their_order() {
    let admission = admission(2, 10);
    let first = slot(&mut ask(&admission, Entry::First));
    let second = slot(&mut ask(&admission, Entry::First));
    let mut waiting: Vec<Waiting> = (0..3).map(|_| ask(&admission, Entry::First)).collect();
    waiting.iter_mut().for_each(|waiting| assert!(poll(waiting).is_pending()));
    let now = admission.statistics();
    assert_eq!((now.running, now.waiting, now.admitted), (2, 3, 2));
    drop(second);
    // The slot is the first one's, who has not even looked, and nobody's who comes now.
    let mut late = ask(&admission, Entry::First);
    assert!(poll(&mut late).is_pending());
    assert!(poll(&mut waiting[1]).is_pending());
    let third = slot(&mut waiting[0]);
    drop(first);
    drop(third);
    let (fourth, fifth) = (slot(&mut waiting[1]), slot(&mut waiting[2]));
    assert!(poll(&mut late).is_pending());
    drop(fourth);
    drop(slot(&mut late));
    drop(fifth);
    let now = admission.statistics();
    assert_eq!((now.running, now.waiting, now.admitted, now.waited), (0, 0, 6, 4));
}

#[test]
fn who_has_run_before_goes_on_before_those_who_have_not() {
    let admission = admission(1, 1);
    let running = slot(&mut ask(&admission, Entry::First));
    let mut new = ask(&admission, Entry::First);
    let mut again = ask(&admission, Entry::Again);
    assert!(poll(&mut new).is_pending() && poll(&mut again).is_pending());
    // Nobody who has run is refused.
    assert!(poll(&mut ask(&admission, Entry::Again)).is_pending());
    drop(running);
    assert!(poll(&mut new).is_pending());
    drop(slot(&mut again));
    drop(slot(&mut new));
    assert_eq!(admission.statistics().running, 0);
}

#[test]
fn too_many_are_refused() {
    let admission = admission(1, 1);
    let running = slot(&mut ask(&admission, Entry::First));
    let mut waiting = ask(&admission, Entry::First);
    assert!(poll(&mut waiting).is_pending());
    let Poll::Ready(Err(error)) = poll(&mut ask(&admission, Entry::First)) else { panic!("one more was taken") };
    assert_eq!(error.code(), ErrorCode::TooManyConnections);
    assert!(error.fields().hint.as_deref().unwrap().contains("query.queries_waiting_max"));
    drop(waiting);
    // Who has left has made room.
    let mut waiting = ask(&admission, Entry::First);
    assert!(poll(&mut waiting).is_pending());
    drop(running);
    drop(slot(&mut waiting));
    let now = admission.statistics();
    assert_eq!((now.running, now.waiting, now.refused_full, now.left), (0, 0, 1, 1));
}

#[test]
fn a_slot_that_comes_too_late_goes_to_the_next() {
    let admission = admission(1, 10);
    let running = slot(&mut ask(&admission, Entry::First));
    let (mut gone, mut next) = (ask(&admission, Entry::First), ask(&admission, Entry::First));
    assert!(poll(&mut gone).is_pending() && poll(&mut next).is_pending());
    drop(running);
    // It has been given the slot and leaves without having looked.
    drop(gone);
    drop(slot(&mut next));
    assert_eq!(admission.statistics().running, 0);
}

#[test]
fn who_has_waited_for_too_long_is_told_so() {
    let config = AdmissionConfig { running_max: 1, waiting_max: 10, wait_max: Some(Duration::from_millis(20)) };
    let admission = Admission::new(config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let running = admission.enter(Entry::First).await.unwrap();
        let error = admission.enter(Entry::First).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooManyConnections);
        assert!(error.message().contains("20 ms"), "{error}");
        let now = admission.statistics();
        assert_eq!((now.running, now.waiting, now.refused_late, now.left), (1, 0, 1, 0));
        drop(running);
        drop(admission.enter(Entry::First).await.unwrap());
    });
    assert_eq!(admission.statistics().running, 0);
}

/// One who runs.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(running: &Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self(Arc::clone(running))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn never_more_run_than_may_and_all_come_through() {
    let admission = admission(3, 1000);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..300 {
            let (admission, running, most) = (Arc::clone(&admission), Arc::clone(&running), Arc::clone(&most));
            let task = async move {
                for step in 0..20 {
                    let entry = if step % 3 == 2 { Entry::Again } else { Entry::First };
                    let slot = admission.enter(entry).await.unwrap();
                    let counted = Counted::new(&running, &most);
                    tokio::task::yield_now().await;
                    drop(counted);
                    drop(slot);
                }
            };
            let handle = tasks.spawn(task);
            if number % 7 == 6 {
                // Some leave wherever they are; what they held is given back all the same.
                tokio::task::yield_now().await;
                handle.abort();
            }
        }
        while tasks.join_next().await.is_some() {}
    });
    let now = admission.statistics();
    assert_eq!((now.running, now.waiting), (0, 0));
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

//! What tasks say of themselves before, while and after somebody watches: the only test of its program, for all tasks of a process are
//! watched together.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use ashlar_base::scope::{Name, Watch, enter, scope, task, watch};

/// Counts how often its task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// All tasks: their scopes, and whether they run.
fn seen(watch: &Watch) -> Vec<(Vec<&'static str>, bool)> {
    let mut seen = Vec::new();
    watch.look(|place| seen.push((place.names(), place.runs_on().is_some())));
    seen.sort();
    seen
}

#[test]
fn who_begins_to_watch_sees_what_has_waited_since_before() {
    static TASK: Name = Name::new("task");
    static FIRST: Name = Name::new("first");
    static SECOND: Name = Name::new("second");
    static CHILD: Name = Name::new("child");
    static LOCK: Name = Name::new("lock");
    let (woken, moves_on) = (Arc::new(Woken::default()), AtomicBool::new(false));
    let waker = Waker::from(Arc::clone(&woken));
    let poll = |task: Pin<&mut dyn Future<Output = ()>>| task.poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
    let child = Cell::new(None);
    let mut parent = pin!(task(&TASK, async {
        scope(&FIRST, async {
            child.set(Some(Box::pin(task(&CHILD, pending::<()>()))));
            drop(enter(&LOCK));
            poll_fn(|_| if moves_on.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }).await;
        })
        .await;
        scope(&SECOND, pending::<()>()).await;
    }));
    assert!(!poll(parent.as_mut()));

    // Nobody watched: it is where it began, and so is what it has started, until they are polled.
    let first = watch();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the parent; the child has not been polled yet");
    assert_eq!(seen(&first), [(vec!["task"], false), (vec!["task", "child"], false)]);
    assert!(!poll(parent.as_mut()));
    assert_eq!(seen(&first), [(vec!["task", "child"], false), (vec!["task", "first"], false)]);
    // Another who watches besides changes nothing.
    drop(watch());
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(seen(&first).len(), 2);
    drop(first);

    // What it did meanwhile is not known to who watches again, and what it did before is not said any more.
    moves_on.store(true, Ordering::SeqCst);
    assert!(!poll(parent.as_mut()));
    let again = watch();
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    assert_eq!(seen(&again), [(vec!["task"], false), (vec!["task", "child"], false)]);
    assert!(!poll(parent.as_mut()));
    assert_eq!(seen(&again), [(vec!["task", "child"], false), (vec!["task", "second"], false)]);

    // A task that runs is seen to run, also one that is started now.
    let mut runs = pin!(task(&TASK, async {
        let _entered = enter(&LOCK);
        assert_eq!(seen(&again)[1], (vec!["task", "lock"], true));
    }));
    assert!(poll(runs.as_mut()));
}

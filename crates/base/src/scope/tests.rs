//! Tasks are seen where they are, from outside, and nowhere else. All these tests watch, all the time; that nobody does, and then
//! somebody, is another program's test: `tests/watch.rs`.

use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::sync::LazyLock;

use super::*;

static WATCH: LazyLock<Watch> = LazyLock::new(watch);

/// The tasks whose outermost scope has this name: the scopes further in, and who runs them.
fn seen(outermost: &str) -> Vec<(Vec<&'static str>, Option<&'static str>)> {
    let mut seen = Vec::new();
    WATCH.look(|place| seen.push((place.names(), place.runs_on())));
    let mut of_ours: Vec<_> = seen.into_iter().filter(|(names, _)| names[0] == outermost).collect();
    for (names, _) in &mut of_ours {
        names.remove(0);
    }
    of_ours
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    LazyLock::force(&WATCH);
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits until the flag is set. Nobody is woken: tests poll.
async fn flag(flag: &AtomicBool) {
    poll_fn(|_| if flag.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[test]
fn a_task_is_seen_in_the_chain_of_scopes_that_it_waits_in() {
    static TASK: Name = Name::new("chain");
    static OUTER: Name = Name::new("chain, outer");
    static INNER: Name = Name::new("chain, inner");
    let (first, second) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut task = pin!(task(&TASK, async {
        scope(&OUTER, async {
            scope(&INNER, flag(&first)).await;
            assert_eq!(seen("chain")[0].0, ["chain, outer"]);
            flag(&second).await;
        })
        .await;
        assert!(seen("chain")[0].1.is_some(), "it runs");
        pending::<()>().await;
    }));
    assert_eq!(seen("chain"), [(vec![], None)], "it is there before it is polled");
    assert!(poll(task.as_mut()).is_pending());
    assert_eq!(seen("chain"), [(vec!["chain, outer", "chain, inner"], None)]);
    first.store(true, Ordering::SeqCst);
    assert!(poll(task.as_mut()).is_pending());
    assert_eq!(seen("chain"), [(vec!["chain, outer"], None)]);
    second.store(true, Ordering::SeqCst);
    assert!(poll(task.as_mut()).is_pending());
    assert_eq!(seen("chain"), [(vec![], None)]);
}

#[test]
fn a_scope_that_is_given_up_is_not_waited_in() {
    static TASK: Name = Name::new("given up");
    static LOSER: Name = Name::new("given up, loser");
    static OTHER: Name = Name::new("given up, other");
    let first = AtomicBool::new(false);
    let mut task = pin!(task(&TASK, async {
        tokio::select! {
            biased;
            () = scope(&LOSER, pending()) => {}
            () = flag(&first) => {}
        }
        assert_eq!(seen("given up")[0].0, [] as [&str; 0]);
        // Two at once: the last is seen, and not within the other.
        tokio::join!(biased; scope(&LOSER, pending::<()>()), scope(&OTHER, pending::<()>()));
    }));
    assert!(poll(task.as_mut()).is_pending());
    assert_eq!(seen("given up"), [(vec!["given up, loser"], None)]);
    first.store(true, Ordering::SeqCst);
    assert!(poll(task.as_mut()).is_pending());
    assert_eq!(seen("given up"), [(vec!["given up, other"], None)]);
}

#[test]
fn what_a_task_starts_is_within_its_scopes() {
    static TASK: Name = Name::new("starter");
    static STATEMENT: Name = Name::new("starter, statement");
    static OPERATOR: Name = Name::new("starter, operator");
    let started = Cell::new(None);
    let mut starter = pin!(task(
        &TASK,
        scope(&STATEMENT, async {
            #[expect(clippy::async_yields_async, reason = "a task whose result is a task, to see what becomes of that")]
            let inner = async { Box::pin(task(&OPERATOR, pending::<()>())) };
            started.set(Some(task(&OPERATOR, inner)));
        })
    ));
    assert!(poll(starter.as_mut()).is_ready());
    let mut operator = pin!(started.take().unwrap());
    // It has ended, but is still there.
    assert_eq!(seen("starter").len(), 2);
    let Poll::Ready(mut innermost) = poll(operator.as_mut()) else { panic!("it waits for nothing") };
    assert!(poll(innermost.as_mut()).is_pending());
    let mut places = seen("starter");
    places.sort();
    // One that starts its like does not get deeper.
    let of_operators = vec!["starter, statement", "starter, operator"];
    assert_eq!(places, [(vec![], None), (of_operators.clone(), None), (of_operators, None)]);
}

#[test]
fn blocking_work_is_seen_on_its_thread_while_it_lasts() {
    static WORK: Name = Name::new("work");
    static LOCK: Name = Name::new("work, lock");
    let work = work(&WORK, || {
        {
            let _entered = enter(&LOCK);
            assert_eq!(seen("work"), [(vec!["work, lock"], Some("worker"))]);
        }
        assert_eq!(seen("work"), [(vec![], Some("worker"))]);
    });
    assert_eq!(seen("work"), []);
    std::thread::Builder::new().name("worker-12".into()).spawn(work).unwrap().join().unwrap();
    assert_eq!(seen("work"), []);
}

#[test]
fn a_scope_that_is_too_deep_is_passed_over() {
    static NAMES: [Name; 9] = [
        Name::new("deep"),
        Name::new("deep 1"),
        Name::new("deep 2"),
        Name::new("deep 3"),
        Name::new("deep 4"),
        Name::new("deep 5"),
        Name::new("deep 6"),
        Name::new("deep 7"),
        Name::new("deep 8"),
    ];
    let mut nested: Pin<Box<dyn Future<Output = ()>>> = Box::pin(pending());
    for name in NAMES[1..].iter().rev() {
        nested = Box::pin(scope(name, nested));
    }
    let mut task = pin!(task(&NAMES[0], nested));
    assert!(poll(task.as_mut()).is_pending());
    assert_eq!(seen("deep"), [(vec!["deep 1", "deep 2", "deep 3", "deep 4", "deep 5", "deep 6"], None)]);
}

#[test]
fn outside_of_a_task_a_scope_is_nothing() {
    static NOBODY: Name = Name::new("nobody");
    LazyLock::force(&WATCH);
    let _entered = enter(&NOBODY);
    assert!(poll(pin!(scope(&NOBODY, ready(())))).is_ready());
    assert_eq!(seen("nobody"), []);
}

#[test]
fn slots_of_tasks_that_have_ended_are_used_again() {
    static MANY: Name = Name::new("many");
    // Other tests of this process have some, none of them hundreds.
    for _ in 0..1000 {
        let mut task = pin!(task(&MANY, ready(())));
        assert!(poll(task.as_mut()).is_ready());
    }
    assert!(registry::slots_made() < 500);
}

#[test]
fn a_name_has_one_number_whoever_uses_it_first() {
    let (one, other) = (Name::new("twice"), Name::new("twice"));
    assert_eq!((one.number(), registry::name_of(one.number())), (other.number(), "twice"));
    assert_eq!(registry::name_of(u8::MAX), "others");
}

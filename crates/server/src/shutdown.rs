//! How the server stops: no new connections, idle sessions told to leave, running statements given time, then the end.
//!
//! `runtime` moves the phases; every connection and acceptor watches them. Holds no other state, decides no exit code.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};

/// How far a stop has come. Only ever moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Running,
    /// No new connections; a session leaves as soon as it is between statements.
    Draining,
    /// The grace time is over: statements that still run are abandoned.
    Ending,
}

impl Phase {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Running,
            1 => Self::Draining,
            _ => Self::Ending,
        }
    }
}

/// What both sides share.
#[derive(Debug, Default)]
struct Common {
    /// A [`Phase`]. Read whenever a connection waits, and nearly never written.
    phase: AtomicU8,
    /// Tasks that are woken when it changes, by the number of their [`Stop`].
    waiting: Mutex<HashMap<u64, Waker>>,
    /// Numbers that were given.
    numbers: AtomicU64,
}

/// The side that stops the server.
#[derive(Debug)]
pub struct Stopper(Arc<Common>);

/// The side that is stopped. Cheap to clone, one for each connection. The task that waits by it is known to the other side from its first wait
/// on: to wait once more is to look at the phase.
#[derive(Debug)]
pub struct Stop {
    common: Arc<Common>,
    number: u64,
    /// Who is woken, once there is somebody.
    known: Option<Waker>,
}

/// A pair, in the phase [`Phase::Running`].
pub fn channel() -> (Stopper, Stop) {
    let common = Arc::new(Common::default());
    let stop = Stop::new(&common);
    (Stopper(common), stop)
}

impl Stopper {
    /// Moves to a later phase; an earlier one changes nothing.
    pub fn advance(&self, phase: Phase) {
        if self.0.phase.fetch_max(phase as u8, Ordering::SeqCst) >= phase as u8 {
            return;
        }
        // Woken without the lock. They stay known: there may be another phase.
        let waiting: Vec<Waker> = self.0.waiting.lock().values().cloned().collect();
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Stopper {
    /// Nobody is left who could say more.
    fn drop(&mut self) {
        self.advance(Phase::Ending);
    }
}

impl Stop {
    fn new(common: &Arc<Common>) -> Self {
        let number = common.numbers.fetch_add(1, Ordering::Relaxed);
        Self { common: Arc::clone(common), number, known: None }
    }

    /// How far the stop has come.
    pub fn phase(&self) -> Phase {
        Phase::of(self.common.phase.load(Ordering::SeqCst))
    }

    /// Waits until the phase is reached. A server whose [`Stopper`] is gone has reached every phase.
    pub async fn reached(&mut self, phase: Phase) {
        poll_fn(|context| self.poll_reached(phase, context)).await;
    }

    fn poll_reached(&mut self, phase: Phase, context: &Context<'_>) -> Poll<()> {
        if self.phase() >= phase {
            return Poll::Ready(());
        }
        if self.known.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            return Poll::Pending;
        }
        let waker = context.waker().clone();
        self.known = Some(waker.clone());
        let before = self.common.waiting.lock().insert(self.number, waker);
        // Without the lock: it may be the last that holds its task, and with that another of these, which needs the lock to end.
        drop(before);
        // Who moves on writes the phase before it takes the lock: it finds this task there, or this task finds the phase here.
        if self.phase() >= phase { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Clone for Stop {
    fn clone(&self) -> Self {
        Self::new(&self.common)
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        if self.known.is_some() {
            let waker = self.common.waiting.lock().remove(&self.number);
            // Without the lock, as above.
            drop(waker);
        }
    }
}

/// Resolves at the first SIGTERM or SIGINT that arrives after this call.
pub fn requested() -> io::Result<impl Future<Output = &'static str>> {
    // Registered here and not in the future, so that no signal is lost between the two.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::task::Wake;

    use futures::FutureExt;

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_waits_is_known_once_and_woken_at_each_phase() {
        let (stopper, stop) = channel();
        let (mut one, mut other) = (stop.clone(), stop.clone());
        let counting = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&counting));
        let mut context = Context::from_waker(&waker);
        for phase in [Phase::Ending, Phase::Draining, Phase::Ending] {
            for stop in [&mut one, &mut other] {
                assert_eq!(pin!(stop.reached(phase)).poll(&mut context), Poll::Pending);
            }
        }
        assert_eq!(stopper.0.waiting.lock().len(), 2);
        stopper.advance(Phase::Running);
        assert_eq!((counting.0.load(Ordering::SeqCst), one.phase()), (0, Phase::Running));
        stopper.advance(Phase::Draining);
        stopper.advance(Phase::Draining);
        assert_eq!((counting.0.load(Ordering::SeqCst), one.phase()), (2, Phase::Draining));
        assert_eq!(pin!(one.reached(Phase::Draining)).poll(&mut context), Poll::Ready(()));
        assert_eq!(pin!(one.reached(Phase::Ending)).poll(&mut context), Poll::Pending);
        // Another task: the first is not woken for it any more.
        let second = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&second));
        assert_eq!(pin!(one.reached(Phase::Ending)).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        drop(other);
        assert_eq!(stopper.0.waiting.lock().len(), 1);
        stopper.advance(Phase::Ending);
        assert_eq!((counting.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (2, 1));
        assert!(one.reached(Phase::Ending).now_or_never().is_some());
        drop(one);
        assert!(stopper.0.waiting.lock().is_empty());
        assert!(stop.clone().reached(Phase::Ending).now_or_never().is_some());
    }

    /// A task whose end needs the lock, as that of a task does which has a [`Stop`] of its own.
    struct Ending {
        common: Arc<Common>,
        ended: Arc<AtomicUsize>,
        was_locked: Arc<AtomicBool>,
    }

    impl Wake for Ending {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Ending {
        fn drop(&mut self) {
            self.ended.fetch_add(1, Ordering::SeqCst);
            self.was_locked.fetch_or(self.common.waiting.is_locked(), Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_that_nobody_else_holds_ends_without_the_lock() {
        let (stopper, mut stop) = channel();
        let (ended, was_locked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let wait = |stop: &mut Stop| {
            let task = Ending {
                common: Arc::clone(&stopper.0),
                ended: Arc::clone(&ended),
                was_locked: Arc::clone(&was_locked),
            };
            let waker = Waker::from(Arc::new(task));
            assert_eq!(pin!(stop.reached(Phase::Ending)).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        };
        // The second is known in the place of the first, and nobody in that of the second.
        wait(&mut stop);
        wait(&mut stop);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        drop(stop);
        assert_eq!((ended.load(Ordering::SeqCst), was_locked.load(Ordering::SeqCst)), (2, false));
    }

    #[tokio::test]
    async fn a_server_whose_stopper_is_gone_has_reached_every_phase() {
        let (stopper, stop) = channel();
        let waiting: Vec<_> = [Phase::Draining, Phase::Ending]
            .into_iter()
            .map(|phase| {
                let mut stop = stop.clone();
                tokio::spawn(async move { stop.reached(phase).await })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(stopper);
        for waiting in waiting {
            waiting.await.expect("a task that ends");
        }
        assert_eq!(stop.phase(), Phase::Ending);
    }
}

//! How the server stops: no new connections, idle sessions told to leave, running statements given time, then the end.
//!
//! `runtime` moves the phases; every connection and acceptor watches them. Holds no other state, decides no exit code.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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

/// The side that stops the server.
#[derive(Debug)]
pub struct Stopper(watch::Sender<Phase>);

/// The side that is stopped. Cheap to clone, one for each connection.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Phase>);

/// A pair, in the phase [`Phase::Running`].
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(Phase::Running);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Moves to a later phase; an earlier one changes nothing.
    pub fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let later = phase > *current;
            if later {
                *current = phase;
            }
            later
        });
    }
}

impl Stop {
    /// How far the stop has come.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Waits until the phase is reached. A server whose [`Stopper`] is gone has reached every phase.
    pub async fn reached(&mut self, phase: Phase) {
        if self.0.wait_for(|current| *current >= phase).await.is_err() {
            tracing::debug!("the stopping side is gone");
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

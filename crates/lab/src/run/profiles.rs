//! Profiles of a server while it is measured: asked for at its HTTP door, one after the other, for as long as the window lasts.
//!
//! A thread for each asks when the time of the one before is over, for until it has its answer the server reads the names of
//! functions, and the window goes by.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use ashlar_telemetry::Stacks;
use ashlar_telemetry::profile::Kind;

use crate::clock::pause;
use crate::door::http;
use crate::interrupt;

/// How long a server may take to read its own symbols, beyond the time of the profile.
const PATIENCE: Duration = Duration::from_secs(60);

/// A profile that was taken.
pub(super) struct Taken {
    pub(super) kind: Kind,
    pub(super) seconds: u32,
    pub(super) stacks: Stacks,
}

/// The profiles of one measured window.
pub(super) struct Profiling {
    server: Option<SocketAddr>,
    kinds: Vec<Kind>,
    /// Seconds of each.
    seconds: u32,
    threads: Vec<JoinHandle<Result<Taken>>>,
}

impl Profiling {
    /// These kinds of a server whose HTTP door is there, within a window of so many seconds.
    pub(super) fn new(server: Option<SocketAddr>, kinds: &[Kind], window: u32) -> Self {
        let seconds = window / u32::try_from(kinds.len().max(1)).unwrap_or(u32::MAX);
        Self { server, kinds: kinds.to_vec(), seconds, threads: Vec::new() }
    }

    /// The window begins.
    pub(super) fn begin(&mut self) {
        let Some(server) = self.server else { return };
        let (seconds, mut start) = (self.seconds, Duration::ZERO);
        for kind in self.kinds.clone() {
            let turn = start;
            self.threads.push(std::thread::spawn(move || {
                if wait(turn) { take(server, kind, seconds) } else { Err(anyhow!("interrupted")) }
            }));
            start += Duration::from_secs(seconds.into());
        }
    }

    /// What was taken, after the window. One that ended early leaves them to themselves.
    pub(super) fn taken(self, is_whole: bool) -> Vec<Result<Taken>> {
        if !is_whole {
            return Vec::new();
        }
        let join = |thread: JoinHandle<Result<Taken>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("the thread that asked for a profile has panicked")))
        };
        self.threads.into_iter().map(join).collect()
    }
}

/// Has the server read its table of symbols, which it does for the first profile that it is asked for, and which would take of the
/// time of that.
pub(super) fn prepare(server: SocketAddr, kind: Kind) -> Result<()> {
    take(server, kind, 1).map(drop)
}

/// Waits for a part of the window, unless the run is interrupted.
fn wait(length: Duration) -> bool {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while waited < length && !interrupt::is_set() {
        pause(step.min(length - waited));
        waited += step;
    }
    !interrupt::is_set()
}

fn take(server: SocketAddr, kind: Kind, seconds: u32) -> Result<Taken> {
    let path = format!("/debug/profile/{kind}?seconds={seconds}&format=folded");
    let text = http::get(server, &path, PATIENCE + Duration::from_secs(seconds.into()))?;
    let stacks = Stacks::parse(&text).map_err(anyhow::Error::msg).with_context(|| format!("its {kind} profile"))?;
    Ok(Taken { kind, seconds, stacks })
}

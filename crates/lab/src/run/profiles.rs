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
use crate::say;

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
        let profiling = Self { server, kinds: kinds.to_vec(), seconds, threads: Vec::new() };
        // The server reads its table of symbols for the first that it is asked for, which would take of the time of others.
        if let (Some(server), Some(kind)) = (server, kinds.first())
            && let Err(error) = take(server, *kind, 1)
        {
            say::note(&format!("a first profile fails: {error:#}"));
        }
        profiling
    }

    /// The window begins.
    pub(super) fn begin(&mut self) {
        let Some(server) = self.server else { return };
        let (seconds, mut wait) = (self.seconds, Duration::ZERO);
        for kind in self.kinds.clone() {
            let turn = wait;
            self.threads.push(std::thread::spawn(move || {
                pause(turn);
                take(server, kind, seconds)
            }));
            wait += Duration::from_secs(seconds.into());
        }
    }

    /// What was taken, after the window.
    pub(super) fn taken(self) -> Vec<Result<Taken>> {
        if self.server.is_none() && !self.kinds.is_empty() {
            return vec![Err(anyhow!("it has no HTTP door that would give any"))];
        }
        let join = |thread: JoinHandle<Result<Taken>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("the thread that asked for a profile has panicked")))
        };
        self.threads.into_iter().map(join).collect()
    }
}

fn take(server: SocketAddr, kind: Kind, seconds: u32) -> Result<Taken> {
    let path = format!("/debug/profile/{kind}?seconds={seconds}&format=folded");
    let text = http::get(server, &path, PATIENCE + Duration::from_secs(seconds.into()))?;
    let stacks = Stacks::parse(&text).map_err(anyhow::Error::msg).with_context(|| format!("its {kind} profile"))?;
    Ok(Taken { kind, seconds, stacks })
}

//! Programs that others made to load a server: redis-benchmark and pgbench. They make the requests of a workload as they make requests,
//! and take the time; the lab puts the data there, tells them what to send, and looks at the data afterwards.
//!
//! They judge no answers but errors, so a server that answers quickly and wrongly is found out by what it keeps only. Their figures are for
//! readers who trust these programs more than threads of the lab, and for a client that costs less than so many threads do.
//!
//! ```text
//! run ─▶ Load::measure ─▶ the program, once to warm up, once measured ─▶ its report ─▶ Told
//! ```
//!
//! The time that pgbench is told begins before it connects, so with many connections it is told a longer one; what it says of a second is of the
//! time in which all of them were there.

mod pgbench;
mod redis_benchmark;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use ashlar_base::clock::monotonic;

use crate::clock::{Nanos, pause};
use crate::door::login;
use crate::load::{Observer, Sample, Seen, Windows};
use crate::record::{ClientKind, LatencySummary};
use crate::targets::process::on_path;
use crate::workload::{Kind, Protocol, Sizes, ValueShape};

/// How often somebody looks whether the program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How much longer than it was told to run a program may take: it connects, and waits for the last answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// Values are written as arguments, of which the system takes no longer ones.
const VALUE_BYTES_MAX: u32 = 100_000;

/// Requests of a first call, which tells how many fit into a window.
const REQUESTS_FIRST: u64 = 10_000;

/// From so many on, connecting is measured before anything else. PostgreSQL starts a process for each: 512 of them took it longer than a window.
/// What is before it has a second for so many to do the same, some 16 ms for one.
const CONNECTIONS_MANY: u32 = 64;

/// The first of the servers behind Ashlar.
const UNROUTED: &str = "-c sharded_server=s0";

/// Of a call that counts requests: each connection has some.
const REQUESTS_MIN: u64 = 10_000;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    RedisBenchmark,
    Pgbench,
    /// The same, whose sessions name the server that Ashlar is to send their statements to: what routing costs is what this does not.
    PgbenchUnrouted,
}

/// What a program is told to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// GETs of random keys, or SETs of the same value: how many keys there are, bytes of a value, commands at once; MGETs or MSETs of so
    /// many keys each, if there is a batch.
    Keys { writes: bool, keys: u64, value_bytes: usize, pipeline: usize, batch: Option<usize> },
    /// A script of pgbench.
    Script { text: String, protocol: Protocol },
}

/// What a program said of the requests that it made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) operations: u64,
    pub(crate) operations_per_second: f64,
    /// What it does not say is 0.
    pub(crate) latency: LatencySummary,
    /// How long it took to connect, which is no part of the time that operations are counted in; 0 if it does not say.
    pub(crate) connecting_seconds: f64,
}

impl Told {
    /// Whole seconds that the next call is given to connect: half as long again as it took in this one, for no two are the same.
    fn connecting_next(self) -> u32 {
        (1.5 * self.connecting_seconds).ceil() as u32
    }
}

/// How long a program makes requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// Those in which it connects are among them.
    Seconds(u32),
    Requests(u64),
    /// Each connection makes one request, and stays for so many seconds. A proxy that connects to its server when the first request of a client
    /// comes has then done so for all of them, and keeps what it has.
    Held(u32),
}

impl Program {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::RedisBenchmark, Self::Pgbench, Self::PgbenchUnrouted];

    /// What it is called, and what the names of targets that it loads begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RedisBenchmark => "redis-benchmark",
            Self::Pgbench => "pgbench",
            Self::PgbenchUnrouted => "pgbench-unrouted",
        }
    }

    /// What its sessions set, as libpq has it.
    fn options(self) -> Option<&'static str> {
        match self {
            Self::RedisBenchmark | Self::Pgbench => None,
            Self::PgbenchUnrouted => Some(UNROUTED),
        }
    }

    /// As records have it.
    pub(crate) fn client_kind(self) -> ClientKind {
        match self {
            Self::RedisBenchmark => ClientKind::RedisBenchmark,
            Self::Pgbench | Self::PgbenchUnrouted => ClientKind::Pgbench,
        }
    }

    /// Whether it can make the requests of this workload with these sizes, and is here; else why not.
    pub(crate) fn takes(self, kind: &Kind, sizes: &Sizes) -> Result<(), String> {
        let workloads: &[&str] = match self {
            Self::RedisBenchmark => &["kv-get", "kv-put", "kv-batch"],
            Self::Pgbench | Self::PgbenchUnrouted => &["sql-key", "sql-update", "sql-sum", "sql-fetch"],
        };
        if !workloads.contains(&kind.name) {
            return Err(format!("{} has no {}; it has {}", self.name(), kind.name, workloads.join(", ")));
        }
        if kind.name == "kv-batch" && !matches!(sizes.read_percent, Some(0 | 100)) {
            return Err(format!("{} sends one command again and again; --read-percent takes 0 or 100", self.name()));
        }
        if sizes.value_shape == Some(ValueShape::Structured) {
            return Err(format!("{} has values that are bytes only", self.name()));
        }
        if sizes.value_bytes.is_some_and(|bytes| bytes > VALUE_BYTES_MAX) {
            return Err(format!("{} is told values of {VALUE_BYTES_MAX} bytes at most", self.name()));
        }
        if sizes.is_zipfian() {
            return Err(format!("{} chooses keys in ways of its own", self.name()));
        }
        self.program().map(drop)
    }

    /// What is to be known of it in a record: which it is and how it makes requests.
    pub(crate) fn configuration(self) -> Result<Vec<String>> {
        let program = self.program().map_err(anyhow::Error::msg)?;
        let output = Command::new(&program).arg("--version").output();
        let output = output.with_context(|| program.display().to_string())?;
        let version = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned();
        let threads = "client: one thread, a connection for each of the threads".to_owned();
        let options = self.options().map(|options| format!("client: PGOPTIONS={options}"));
        Ok([format!("client: {version}"), threads].into_iter().chain(options).collect())
    }

    /// The program itself, or why there is none.
    fn program(self) -> Result<PathBuf, String> {
        match self {
            Self::RedisBenchmark => on_path(self.name()),
            Self::Pgbench | Self::PgbenchUnrouted => pgbench::program(),
        }
    }

    /// The command, and what its report says.
    fn command(self, address: SocketAddr, work: &Work, threads: u32, length: Length) -> Result<Command> {
        let mut command = Command::new(self.program().map_err(anyhow::Error::msg)?);
        match (self, work) {
            (Self::RedisBenchmark, Work::Keys { writes, keys, value_bytes, pipeline, batch }) => {
                let Length::Requests(requests) = length else { bail!("redis-benchmark counts requests") };
                let load =
                    redis_benchmark::Keys { writes: *writes, keys: *keys, value_bytes: *value_bytes, batch: *batch };
                redis_benchmark::arguments(&mut command, address, &load, *pipeline, threads, requests);
            }
            (Self::Pgbench | Self::PgbenchUnrouted, Work::Script { protocol, .. }) => {
                let until = match length {
                    Length::Seconds(seconds) => ("-T", seconds),
                    // How long they stay is in the script.
                    Length::Held(_) => ("-t", 1),
                    Length::Requests(_) => bail!("pgbench counts seconds"),
                };
                pgbench::arguments(&mut command, address, *protocol, threads, until, self.options());
            }
            (program, _) => bail!("{} cannot do this work", program.name()),
        }
        Ok(command)
    }
}

/// A program with its work at one target.
pub(crate) struct Load {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    pub(crate) work: Work,
}

impl Load {
    /// Measures once: the whole of one call of the program, after another that warms up. An error means that the target is lost.
    pub(crate) fn measure(
        &self,
        threads: u32,
        windows: Windows,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Sample> {
        let stopped = || Ok(Seen::nothing().sample(0.0, true));
        let length = |seconds: u32, rate: Option<f64>, connecting: u32| match rate {
            Some(rate) => Length::Requests(((rate * f64::from(seconds)) as u64).max(REQUESTS_MIN)),
            None => Length::Seconds(seconds + connecting),
        };
        // redis-benchmark counts requests, so it must be known how many fit into a window.
        let mut rate = None;
        if self.program == Program::RedisBenchmark {
            let Some(told) = self.call(threads, Length::Requests(REQUESTS_FIRST), stop, observer, 0)? else {
                return stopped();
            };
            rate = Some(told.operations_per_second);
        }
        // pgbench counts seconds from before it connects, so it must be known how many of them that takes.
        let mut connecting = 0;
        if rate.is_none() && threads >= CONNECTIONS_MANY {
            let held = Length::Held(threads / CONNECTIONS_MANY);
            let Some(told) = self.call(threads, held, stop, observer, 0)? else {
                return stopped();
            };
            connecting = told.connecting_next();
        }
        if windows.warm_up > 0 {
            let Some(told) = self.call(threads, length(windows.warm_up, rate, connecting), stop, observer, 0)? else {
                return stopped();
            };
            rate = rate.map(|_| told.operations_per_second);
            if connecting > 0 {
                connecting = connecting.max(told.connecting_next());
            }
        }
        observer.begins();
        let measured = length(windows.measured, rate, connecting);
        let told = self.call(threads, measured, stop, observer, windows.begin());
        observer.ends();
        let Some(told) = told? else { return stopped() };
        let mut seen = Seen::nothing();
        seen.told = Some(told);
        Ok(seen.sample(told.operations as f64 / told.operations_per_second.max(f64::MIN_POSITIVE), false))
    }

    /// Runs the program to its end; what it said, or None if it was stopped. `from` is what the clock of the observer shows at its start.
    fn call(
        &self,
        threads: u32,
        length: Length,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
        from: Nanos,
    ) -> Result<Option<Told>> {
        let name = self.program.name();
        let folder = crate::targets::process::folder(name)?;
        let mut command = self.program.command(self.address, &self.work, threads, length)?;
        if let Work::Script { text, .. } = &self.work {
            let file = folder.path().join("script.sql");
            std::fs::write(&file, pgbench::script(text, length))?;
            command.arg("-f").arg(file).arg(login::of(self.address).database);
        }
        let path = |name: &str| folder.path().join(name);
        let (out, errors) = (std::fs::File::create(path("out"))?, std::fs::File::create(path("errors"))?);
        command.stdin(Stdio::null()).stdout(out).stderr(errors).current_dir(folder.path());
        let begun = monotonic();
        let mut child = command.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        let patience = match length {
            Length::Seconds(seconds) | Length::Held(seconds) => Duration::from_secs(seconds.into()) + PATIENCE,
            // As many as fitted into a window before.
            Length::Requests(_) => 5 * PATIENCE,
        };
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let is_late = begun.elapsed() > patience;
            if stop.load(Ordering::Relaxed) || is_late {
                // Fails when it has just ended, which is what is wanted.
                let _ = child.kill();
                child.wait()?;
                if is_late {
                    bail!("{name} did not end within {} s", patience.as_secs());
                }
                return Ok(None);
            }
            observer.tick(from + Nanos::try_from(begun.elapsed().as_nanos()).unwrap_or(Nanos::MAX), 0);
            pause(LOOK);
        };
        let read = |name: &str| std::fs::read(path(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (out, errors) = (read("out")?, read("errors")?);
        if !status.success() {
            let said: Vec<&str> = errors.lines().chain(out.lines()).filter(|line| !line.trim().is_empty()).collect();
            bail!("{name} ended with {status}: {}", said[said.len().saturating_sub(3)..].join("; "));
        }
        let told = match (self.program, length) {
            (Program::RedisBenchmark, Length::Requests(requests)) => redis_benchmark::told(&out, requests),
            _ => pgbench::told(&out),
        };
        // What is wrong comes first: tables show one line.
        told.map(Some).map_err(|error| anyhow!("{name}: {error:#}; its report:\n{out}\n{errors}"))
    }
}

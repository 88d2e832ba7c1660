//! A client in Java: told to load a target and to measure it, and what it saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_base::clock::monotonic;
use serde_json::Value;

use super::{CLIENT_HEAP, Product};
use crate::clock::{Nanos, SECOND};
use crate::door::ANSWER_TIMEOUT;
use crate::load::{Observer, Pace, Sample, Seen, Windows};
use crate::record::histogram;
use crate::targets::process::Process;
use crate::workload::Progress;

/// How long a program may take to be ready: on one core that is busy with its own compiler, long.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(180);

/// How long the preparation may be silent.
const PREPARE_PATIENCE: Duration = Duration::from_secs(600);

/// How long a client may take to end a measurement when it is told to.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How often somebody looks whether a measurement is to be stopped.
const LOOK: Duration = Duration::from_millis(100);

/// A client that is ready. It ends with this.
pub(crate) struct Client {
    process: Process,
    version: String,
    options: Vec<String>,
}

/// How a target is to be measured once.
pub(crate) struct Request {
    pub(crate) pace: Pace,
    pub(crate) windows: Windows,
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    pub(crate) repetition: u32,
    /// Whether the target keeps what is written, so that it can be read back.
    pub(crate) stores: bool,
}

impl Client {
    /// Starts the client of a product on the cores of the lab. The arguments say where the target is.
    pub(crate) fn start(product: Product, arguments: &[String]) -> Result<Self> {
        let options = product.options(std::thread::available_parallelism()?.get(), CLIENT_HEAP);
        let mut process = product.start("Lab", "client", None, &options, arguments).context("its client in Java")?;
        let version = process.ask("version", START_PATIENCE, &mut |_| Ok(()))?;
        Ok(Self { process, version, options })
    }

    /// The process id.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// What it is, line by line.
    pub(crate) fn configuration(&self) -> Vec<String> {
        let lines = [vec![self.version.clone()], self.options.clone()].concat();
        lines.into_iter().map(|line| format!("client: {line}")).collect()
    }

    /// Says which workload it is about: by its name, and its sizes as the record has them.
    pub(crate) fn choose(&mut self, workload: &str, parameters: &BTreeMap<String, Value>) -> Result<()> {
        let mut command = format!("workload {workload}");
        for (name, value) in parameters {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            command.push_str(&format!(" {name}={value}"));
        }
        self.process.ask(&command, START_PATIENCE, &mut |_| Ok(())).map(drop)
    }

    /// Puts the data of the workload into the target; what it declared there besides.
    pub(crate) fn prepare(&mut self, progress: Progress<'_>) -> Result<Vec<String>> {
        let mut declared = Vec::new();
        self.process.ask("prepare", PREPARE_PATIENCE, &mut |line| {
            match line.split_once(' ') {
                Some(("at", counts)) => {
                    let (done, all) = counts.split_once(' ').context("no count of all")?;
                    progress(done.parse()?, all.parse()?)?;
                }
                Some(("set", text)) => declared.push(text.to_owned()),
                _ => bail!("the client said {line:?} while it loaded"),
            }
            Ok(())
        })?;
        Ok(declared)
    }

    /// Does a step of the workload; how many entries it wrote.
    pub(crate) fn step(&mut self, name: &str, progress: Progress<'_>) -> Result<u64> {
        let answer = self.process.ask(&format!("step {name}"), PREPARE_PATIENCE, &mut |line| {
            let counts = line.strip_prefix("at ").and_then(|counts| counts.split_once(' '));
            let (done, all) = counts.with_context(|| format!("the client said {line:?} in a step"))?;
            progress(done.parse()?, all.parse()?)
        })?;
        answer.parse().with_context(|| format!("a step was answered by {answer:?}"))
    }

    /// What is not there that all steps up to this one wrote.
    pub(crate) fn fault(&mut self, _name: &str) -> Result<Option<String>> {
        let fault = self.process.ask("fault", PREPARE_PATIENCE, &mut |_| Ok(()))?;
        Ok(Some(fault).filter(|fault| !fault.is_empty()))
    }

    /// Measures once, as [`crate::load::measure`] does. An error means that the client is lost.
    pub(crate) fn measure(
        &mut self,
        request: &Request,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Sample> {
        let windows = request.windows;
        let rate = match request.pace {
            Pace::Closed => 0.0,
            Pace::Open { per_second } => per_second,
        };
        self.process.tell(&format!(
            "measure threads={} rate={rate} warm_up={} measured={} seed={} repetition={} stores={}",
            request.threads, windows.warm_up, windows.measured, request.seed, request.repetition, request.stores
        ))?;
        let mut seen = Seen::nothing();
        let (mut ended_at, mut told_to_stop) = (windows.end(), false);
        // It ends when what was due has been sent or given up, and the last answer has come.
        let mut deadline = monotonic() + Duration::from_nanos(windows.patience()) + ANSWER_TIMEOUT;
        loop {
            if stop.load(Ordering::Relaxed) && !told_to_stop {
                told_to_stop = true;
                self.process.tell("stop")?;
                deadline = monotonic() + STOP_PATIENCE;
            }
            let Some(line) = self.process.hear(LOOK)? else {
                if monotonic() > deadline {
                    bail!("the client in Java did not end the measurement");
                }
                continue;
            };
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "begins" => observer.begins(),
                "ends" => observer.ends(),
                "at" => {
                    let (now, completed) = rest.split_once(' ').context("no count of answers")?;
                    observer.tick(now.parse()?, completed.parse()?);
                }
                "ended" => ended_at = rest.parse::<Nanos>()?,
                "second" => {
                    let (completed, latencies) = rest.split_once(' ').context("no histogram")?;
                    seen.completed.push(completed.parse()?);
                    seen.latencies.push(histogram::decode_plain(latencies)?);
                }
                "errors" => seen.errors = rest.parse()?,
                "unsent" => seen.unsent = rest.parse()?,
                "first_error" => seen.first_error = Some(rest.to_owned()),
                "broken" => seen.broken = Some(rest.to_owned()),
                "ok" => break,
                "error" => bail!("the client in Java: {rest}"),
                _ => bail!("the client in Java said {line:?}"),
            }
        }
        if seen.latencies.len() != windows.measured as usize {
            bail!("the client in Java told of {} seconds instead of {}", seen.latencies.len(), windows.measured);
        }
        // As with threads of the lab: told to stop when all has been measured is no interruption.
        let interrupted = told_to_stop && seen.broken.is_none() && (ended_at < windows.end() || seen.unsent > 0);
        let seconds = ended_at.saturating_sub(windows.begin()) as f64 / SECOND as f64;
        Ok(seen.sample(seconds, interrupted))
    }
}

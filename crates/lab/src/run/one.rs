//! One measurement: connections, load, and what server and client used meanwhile.

use anyhow::{Context, Result};

use super::profiles::Profiling;
use super::show::Measuring;
use super::{Live, Session};
use crate::clock::{Nanos, RealClock, SECOND};
use crate::interrupt;
use crate::java::{Client, Request};
use crate::load::{Caller, Observer, measure};
use crate::numbers::Numbers;
use crate::record::histogram::Latencies;
use crate::record::{Measurement, MeasurementState, ProfileRecord};
use crate::targets::{Running, Usage, cpu_seconds, cpu_seconds_of_the_machine, cpu_seconds_of_this_process};

/// What is to be measured.
pub(super) struct One<'a> {
    pub(super) session: &'a Session,
    pub(super) target: &'a mut Live,
    pub(super) threads: u32,
    pub(super) repetition: u32,
}

/// The files of a measurement begin with this. The path of a program is part of the name of some targets.
pub(super) fn file_name(measurement: &Measurement) -> String {
    format!("{}-{}-{}", measurement.target.replace('/', "_"), measurement.threads, measurement.repetition)
}

impl One<'_> {
    /// The measurement, and the latencies of its seconds. An error means that the target cannot be reached.
    pub(super) fn measure(&mut self) -> Result<(Measurement, Vec<Latencies>)> {
        let session = self.session;
        let mut callers: Vec<Box<dyn Caller>> = Vec::new();
        if self.target.client.is_none() {
            for thread in 0..self.threads {
                // The same requests for each target, others in each repetition.
                let numbers = Numbers::of(session.record.seed, &[self.repetition.into(), thread.into()]);
                let caller = session.workload.caller(self.target.place, numbers);
                callers.push(caller.with_context(|| format!("connection {} of {}", thread + 1, self.threads))?);
            }
        }
        let metrics_before = self.metrics();
        // Taken out while it is used; one that fails is not put back, for its target is lost.
        let mut client = self.target.client.take();
        let running = &self.target.running;
        let mut watch = Watch {
            running,
            bar: session.show.measuring(&self.target.name, self.threads, self.repetition),
            next_look: 0,
            usage: None,
            server_cpu: None,
            profiling: Profiling::new(running.http, &session.profiles, session.windows.measured),
            client: Meter::of(cpu_seconds_of(client.as_ref().map(Client::process_id))),
            machine: Meter::of(cpu_seconds_of_the_machine),
        };
        let sample = match &mut client {
            None => {
                let clock = RealClock::start();
                measure(&clock, session.pace, session.windows, callers, interrupt::flag(), &mut watch)?
            }
            Some(client) => {
                let request = Request {
                    pace: session.pace,
                    windows: session.windows,
                    threads: self.threads,
                    seed: session.record.seed,
                    repetition: self.repetition,
                    stores: self.target.place.stores,
                };
                client.measure(&request, interrupt::flag(), &mut watch)?
            }
        };
        self.target.client = client;
        watch.bar.end();
        let mut one = Measurement::of(&self.target.name, self.threads, self.repetition, &sample);
        one.server_cpu_seconds = watch.server_cpu;
        one.client_cpu_seconds = watch.client.used;
        one.other_cpu_seconds = match (watch.machine.used, watch.server_cpu, watch.client.used) {
            // The kernel counts each in ticks of its own, so the difference may be a little below nothing.
            (Some(all), Some(server), Some(client)) => Some((all - server - client).max(0.0)),
            _ => None,
        };
        one.server_memory_peak_bytes = watch.usage.as_ref().and_then(Usage::peak_bytes);
        let name = file_name(&one);
        let save = |text: Option<String>, when: &str| -> Result<Option<String>> {
            text.map(|text| session.folder.save_metrics(&format!("{name}-{when}"), &text)).transpose()
        };
        one.metrics_before = save(metrics_before, "before")?;
        one.metrics_after = save(self.metrics(), "after")?;
        for taken in watch.profiling.taken(one.state == MeasurementState::Complete) {
            match taken {
                Ok(taken) => {
                    let file = session.folder.save_profile(&format!("{name}-{}", taken.kind), &taken.stacks)?;
                    let (kind, total) = (taken.kind.to_string(), taken.stacks.total());
                    one.profiles.push(ProfileRecord { kind, file, seconds: f64::from(taken.seconds), total });
                }
                Err(error) => session.show.note(&format!("{name} was not profiled: {error:#}")),
            }
        }
        one.server_live_bytes = self.live_bytes();
        session.show.measured(&one);
        Ok((one, sample.latencies))
    }

    /// What lives in the heap of a JVM. It is no reason to lose the figures.
    fn live_bytes(&mut self) -> Option<u64> {
        match self.target.running.live_bytes()? {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.session.show.note(&format!("the heap of {} cannot be looked at: {error:#}", self.target.name));
                None
            }
        }
    }

    /// The metrics of the server. A page that cannot be read is no reason to lose the figures.
    fn metrics(&self) -> Option<String> {
        match self.target.running.metrics()? {
            Ok(text) => Some(text),
            Err(error) => {
                self.session.show.note(&format!("the metrics of {} cannot be read: {error:#}", self.target.name));
                None
            }
        }
    }
}

/// CPU seconds of the lab, and of the process that loads the target for it, if one does.
fn cpu_seconds_of(client: Option<u32>) -> impl Fn() -> Option<f64> {
    move || Some(cpu_seconds_of_this_process()? + client.map_or(Some(0.0), cpu_seconds)?)
}

/// Looks at server and client while load runs.
struct Watch<'a> {
    running: &'a Running,
    bar: Measuring,
    next_look: Nanos,
    usage: Option<Usage>,
    server_cpu: Option<f64>,
    profiling: Profiling,
    client: Meter,
    machine: Meter,
}

/// Reads CPU seconds.
type Reading = Box<dyn Fn() -> Option<f64>>;

/// What was used between two moments.
struct Meter {
    read: Reading,
    began: Option<f64>,
    used: Option<f64>,
}

impl Meter {
    fn of(read: impl Fn() -> Option<f64> + 'static) -> Self {
        Self { read: Box::new(read), began: None, used: None }
    }

    fn begin(&mut self) {
        self.began = (self.read)();
    }

    fn end(&mut self) {
        self.used = self.began.and_then(|began| Some((self.read)()? - began));
    }
}

impl Observer for Watch<'_> {
    fn begins(&mut self) {
        self.profiling.begin();
        self.usage = self.running.usage();
        self.client.begin();
        self.machine.begin();
    }

    fn ends(&mut self) {
        self.machine.end();
        self.client.end();
        self.server_cpu = self.usage.as_ref().and_then(Usage::cpu_seconds);
        if let Some(usage) = &mut self.usage {
            usage.look();
        }
    }

    fn tick(&mut self, now: Nanos, completed: u64) {
        self.bar.at(now, completed);
        if now >= self.next_look
            && let Some(usage) = &mut self.usage
        {
            self.next_look = now + SECOND;
            usage.look();
        }
    }
}

//! One measurement: connections, load, and what server and client used meanwhile.

use anyhow::{Context, Result};

use super::profiles::Profiling;
use super::show::Measuring;
use super::{Live, Session};
use crate::clock::{Nanos, RealClock, SECOND};
use crate::interrupt;
use crate::load::{Caller, Observer, measure, measure_query};
use crate::numbers::Numbers;
use crate::record::histogram::Latencies;
use crate::record::{Case, Measurement, MeasurementState, ProfileRecord, ServerPart};
use crate::targets::{Running, Usage, cpu_seconds_of_the_machine, cpu_seconds_of_this_process};

/// A query may have its memory for less than a second.
const LOOK_AT_QUERIES: Nanos = SECOND / 50;

/// What is to be measured.
pub(super) struct One<'a> {
    pub(super) session: &'a Session,
    pub(super) target: &'a Live,
    pub(super) case: &'a Case,
    pub(super) repetition: u32,
}

/// The files of a measurement begin with this. The path of a program is part of the name of some targets.
pub(super) fn file_name(measurement: &Measurement) -> String {
    format!("{}-{}-{}", measurement.target.replace('/', "_"), measurement.case().short(), measurement.repetition)
}

impl One<'_> {
    /// The measurement, and the latencies of its seconds. An error means that the target cannot be reached.
    pub(super) fn measure(&self) -> Result<(Measurement, Vec<Latencies>)> {
        let session = self.session;
        let callers = self.callers()?;
        let metrics_before = self.metrics();
        let mut watch = Watch {
            running: &self.target.running,
            bar: session.show.measuring(&self.target.name, self.case, self.repetition),
            next_look: 0,
            look_every: if self.case.query.is_some() { LOOK_AT_QUERIES } else { SECOND },
            usage: None,
            resident: None,
            server_cpu: Vec::new(),
            profiling: Profiling::new(self.target.running.http, &session.profiles, session.windows.measured),
            client: Meter::of(cpu_seconds_of_this_process),
            machine: Meter::of(cpu_seconds_of_the_machine),
        };
        let clock = RealClock::start();
        let sample = match callers {
            Callers::Threads(callers) => {
                measure(&clock, session.pace, session.windows, callers, interrupt::flag(), &mut watch)?
            }
            Callers::Query(caller) => measure_query(&clock, session.windows, caller, interrupt::flag(), &mut watch)?,
        };
        watch.bar.end();
        let mut one = Measurement::of(&self.target.name, self.case, self.repetition, &sample);
        let server_cpu = watch.server_cpu.iter().map(|(_, seconds)| seconds).copied().reduce(|all, part| all + part);
        one.server_cpu_seconds = server_cpu;
        if watch.server_cpu.len() > 1 {
            let part = |(name, seconds): &(&str, f64)| ServerPart { name: (*name).to_owned(), cpu_seconds: *seconds };
            one.server_parts = watch.server_cpu.iter().map(part).collect();
        }
        one.client_cpu_seconds = watch.client.used;
        one.other_cpu_seconds = match (watch.machine.used, server_cpu, watch.client.used) {
            // The kernel counts each in ticks of its own, so the difference may be a little below nothing.
            (Some(all), Some(server), Some(client)) => Some((all - server - client).max(0.0)),
            _ => None,
        };
        one.server_memory_peak_bytes = watch.usage.as_ref().and_then(Usage::peak_bytes);
        let least = [self.target.loaded_bytes, watch.resident].into_iter().flatten().min();
        one.server_memory_loaded_bytes = self.case.query.as_ref().and(least);
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
        session.show.measured(&one);
        Ok((one, sample.latencies))
    }

    fn callers(&self) -> Result<Callers> {
        let (session, place) = (self.session, self.target.place);
        if let Some(query) = &self.case.query {
            return Ok(Callers::Query(session.workload.query_caller(place, query)?));
        }
        let mut callers = Vec::with_capacity(self.case.threads as usize);
        for thread in 0..self.case.threads {
            // The same requests for each target, others in each repetition.
            let numbers = Numbers::of(session.record.seed, &[self.repetition.into(), thread.into()]);
            let caller = session.workload.caller(place, numbers);
            callers.push(caller.with_context(|| format!("connection {} of {}", thread + 1, self.case.threads))?);
        }
        Ok(Callers::Threads(callers))
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

/// Who makes the requests of a measurement.
enum Callers {
    Threads(Vec<Box<dyn Caller>>),
    Query(Box<dyn Caller>),
}

/// Looks at server and client while load runs.
struct Watch<'a> {
    running: &'a Running,
    bar: Measuring,
    next_look: Nanos,
    look_every: Nanos,
    usage: Option<Usage>,
    /// What was resident when the window began: no query runs at that moment.
    resident: Option<u64>,
    /// Of each process of the server, since the window began.
    server_cpu: Vec<(&'static str, f64)>,
    profiling: Profiling,
    client: Meter,
    machine: Meter,
}

/// What was used between two moments.
struct Meter {
    read: fn() -> Option<f64>,
    began: Option<f64>,
    used: Option<f64>,
}

impl Meter {
    fn of(read: fn() -> Option<f64>) -> Self {
        Self { read, began: None, used: None }
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
        self.resident = self.running.resident_bytes();
        self.client.begin();
        self.machine.begin();
    }

    fn ends(&mut self) {
        self.machine.end();
        self.client.end();
        self.server_cpu = self.usage.as_ref().and_then(Usage::parts).unwrap_or_default();
        if let Some(usage) = &mut self.usage {
            usage.look();
        }
    }

    fn tick(&mut self, now: Nanos, completed: u64) {
        self.bar.at(now, completed);
        if now >= self.next_look
            && let Some(usage) = &mut self.usage
        {
            self.next_look = now + self.look_every;
            usage.look();
        }
    }
}

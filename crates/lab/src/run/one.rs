//! One measurement: connections, load, and what server and client used meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use super::profiles::Profiling;
use super::show::Measuring;
use super::{Live, Session};
use crate::clock::{Nanos, RealClock, SECOND};
use crate::foreign;
use crate::interrupt;
use crate::java::{Client, Request};
use crate::load::{Beside, Caller, Observer, Sample, ask_beside, measure, measure_query};
use crate::numbers::Numbers;
use crate::record::folder::InParts;
use crate::record::histogram::Latencies;
use crate::record::{Case, KindRecord, Measurement, MeasurementState, ProfileRecord, ServerPart};
use crate::targets::{
    Resident, Running, Usage, cpu_seconds, cpu_seconds_of_ended_children, cpu_seconds_of_the_machine,
    cpu_seconds_of_this_process,
};

/// A query may have its memory for less than a second.
const LOOK_AT_QUERIES: Nanos = SECOND / 50;

/// What is to be measured.
pub(super) struct One<'a> {
    pub(super) session: &'a Session,
    pub(super) target: &'a mut Live,
    pub(super) case: &'a Case,
    pub(super) repetition: u32,
}

/// The files of a measurement begin with this. The path of a program is part of the name of some targets.
pub(super) fn file_name(measurement: &Measurement) -> String {
    format!("{}-{}-{}", measurement.target.replace('/', "_"), measurement.case().short(), measurement.repetition)
}

impl One<'_> {
    /// The measurement, and its latencies. An error means that the target cannot be reached.
    pub(super) fn measure(&mut self) -> Result<(Measurement, InParts)> {
        let session = self.session;
        let callers = self.callers()?;
        let metrics_before = self.metrics();
        let client = match &callers {
            Callers::Java(client) => Some(client.process_id()),
            Callers::Threads(..) | Callers::Query(_) | Callers::Foreign(_) => None,
        };
        let running = &self.target.running;
        let mut watch = Watch {
            running,
            bar: session.show.measuring(&self.target.name, self.case, self.repetition),
            next_look: 0,
            look_every: if self.case.query.is_some() { LOOK_AT_QUERIES } else { SECOND },
            usage: None,
            resident: None,
            server_cpu: Vec::new(),
            profiling: Profiling::new(running.http, &session.profiles, session.windows.measured),
            client: match &callers {
                Callers::Foreign(_) => Meter::of(cpu_seconds_with_foreign),
                _ => Meter::of(cpu_seconds_of(client)),
            },
            machine: Meter::of(cpu_seconds_of_the_machine),
        };
        let clock = RealClock::start();
        let (pace, windows, stop) = (session.pace, session.windows, interrupt::flag());
        let (mut beside, mut of_others) = (None, None);
        let sample = match callers {
            Callers::Threads(callers, None) => measure(&clock, pace, windows, callers, stop, &mut watch)?,
            Callers::Threads(callers, Some(other)) => {
                let load = || measure(&clock, pace, windows, callers, stop, &mut watch);
                let (sample, seen) = with_another(&clock, other, load);
                let mut sample = sample?;
                of_others = Some((seen.calls.name, seen.calls.latencies.clone()));
                beside = Some(account(seen, &mut sample));
                sample
            }
            Callers::Foreign(load) => {
                let mut sample = load.measure(self.case.threads, windows, stop, &mut watch)?;
                let operations = sample.told.map_or(0, |told| told.operations);
                if self.target.place.stores
                    && operations > 0
                    && let Some(fault) = session.workload.work_fault(self.target.place, operations)?
                {
                    sample.errors += 1;
                    sample.first_error.get_or_insert(fault);
                }
                sample
            }
            Callers::Query(caller) => measure_query(&clock, windows, caller, stop, &mut watch)?,
            Callers::Java(mut client) => {
                let request = Request {
                    pace,
                    windows,
                    threads: self.case.threads,
                    seed: session.record.seed,
                    repetition: self.repetition,
                    stores: self.target.place.stores,
                };
                let sample = client.measure(&request, stop, &mut watch)?;
                self.target.client = Some(client);
                sample
            }
        };
        let Watch { bar, usage, resident, server_cpu: parts, profiling, client, machine, .. } = watch;
        bar.end();
        let mut one = Measurement::of(&self.target.name, self.case, self.repetition, &sample);
        one.beside = beside;
        note_cpu(&mut one, &parts, client.used, machine.used);
        let peak = usage.as_ref().and_then(Usage::peak);
        one.server_memory_peak_bytes = peak.map(|peak| peak.bytes);
        one.server_memory_peak_unfiled_bytes = peak.map(|peak| peak.unfiled_bytes);
        if self.case.query.is_some() {
            self.target.found_loaded(resident);
            one.server_memory_loaded_bytes = self.target.loaded.map(|loaded| loaded.bytes);
            one.server_memory_loaded_unfiled_bytes = self.target.loaded.map(|loaded| loaded.unfiled_bytes);
        }
        let metrics_after = self.metrics();
        (one.metrics_before, one.metrics_after) = self.saved(&one, metrics_before, metrics_after)?;
        self.save_profiles(&mut one, profiling)?;
        one.server_live_bytes = self.live_bytes();
        session.show.measured(&one);
        let mut kinds: Vec<(&str, Latencies)> =
            sample.kinds.into_iter().map(|kind| (kind.name, kind.latencies)).collect();
        kinds.extend(of_others);
        Ok((one, InParts { seconds: sample.latencies, kinds }))
    }

    /// Puts profiles into the folder, and their names into the measurement. One that is missing is no reason to lose the figures.
    fn save_profiles(&self, one: &mut Measurement, profiling: Profiling) -> Result<()> {
        let (session, name) = (self.session, file_name(one));
        for taken in profiling.taken(one.state == MeasurementState::Complete) {
            match taken {
                Ok(taken) => {
                    let file = session.folder.save_profile(&format!("{name}-{}", taken.kind), &taken.stacks)?;
                    let (kind, total) = (taken.kind.to_string(), taken.stacks.total());
                    one.profiles.push(ProfileRecord { kind, file, seconds: f64::from(taken.seconds), total });
                }
                Err(error) => session.show.note(&format!("{name} was not profiled: {error:#}")),
            }
        }
        Ok(())
    }

    fn callers(&mut self) -> Result<Callers> {
        let (session, place) = (self.session, self.target.place);
        // Taken out while it is used; one that fails is not put back, for its target is lost.
        if let Some(client) = self.target.client.take() {
            return Ok(Callers::Java(client));
        }
        if let Some(program) = self.target.foreign {
            let work = session.workload.work().context("no work for a foreign program")?;
            return Ok(Callers::Foreign(foreign::Load { program, address: place.address, work }));
        }
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
        let beside = session.workload.beside(place).context("the connection beside")?;
        Ok(Callers::Threads(callers, beside))
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

    /// Puts metrics into the folder; the names of their files.
    pub(super) fn saved(
        &self,
        one: &Measurement,
        before: Option<String>,
        after: Option<String>,
    ) -> Result<(Option<String>, Option<String>)> {
        let save = |text: Option<String>, when: &str| -> Result<Option<String>> {
            let name = format!("{}-{when}", file_name(one));
            text.map(|text| self.session.folder.save_metrics(&name, &text)).transpose()
        };
        Ok((save(before, "before")?, save(after, "after")?))
    }

    /// The metrics of the server. A page that cannot be read is no reason to lose the figures.
    pub(super) fn metrics(&mut self) -> Option<String> {
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
    /// And one that asks something else meanwhile.
    Threads(Vec<Box<dyn Caller>>, Option<Box<dyn Caller>>),
    Query(Box<dyn Caller>),
    /// A process in Java makes all of them.
    Java(Client),
    /// A program of others does.
    Foreign(foreign::Load),
}

/// Runs a load while a caller on a thread of its own asks beside it, until the load has ended.
fn with_another(
    clock: &RealClock,
    mut other: Box<dyn Caller>,
    load: impl FnOnce() -> Result<Sample>,
) -> (Result<Sample>, Beside) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let asking = scope.spawn(move || ask_beside(clock, other.as_mut(), over));
        let sample = load();
        over.store(true, Ordering::Relaxed);
        match asking.join() {
            Ok(seen) => (sample, seen),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// CPU seconds of the server, which is several processes or one, of the client, and of all others on the machine.
fn note_cpu(one: &mut Measurement, server: &[(&'static str, f64)], client: Option<f64>, machine: Option<f64>) {
    one.server_cpu_seconds = server.iter().map(|(_, seconds)| seconds).copied().reduce(|all, part| all + part);
    if server.len() > 1 {
        let part = |(name, seconds): &(&str, f64)| ServerPart { name: (*name).to_owned(), cpu_seconds: *seconds };
        one.server_parts = server.iter().map(part).collect();
    }
    one.client_cpu_seconds = client;
    one.other_cpu_seconds = match (machine, one.server_cpu_seconds, client) {
        // The kernel counts each in ticks of its own, so the difference may be a little below nothing.
        (Some(all), Some(server), Some(client)) => Some((all - server - client).max(0.0)),
        _ => None,
    };
}

/// What was asked beside the callers; what was wrong with it is wrong with the measurement.
fn account(seen: Beside, sample: &mut Sample) -> KindRecord {
    sample.errors += seen.errors;
    sample.first_error = sample.first_error.take().or(seen.first_error);
    sample.broken = sample.broken.take().or(seen.broken);
    KindRecord::of(&seen.calls)
}

/// CPU seconds of the lab and of foreign programs that have ended.
fn cpu_seconds_with_foreign() -> Option<f64> {
    Some(cpu_seconds_of_this_process()? + cpu_seconds_of_ended_children()?)
}

/// CPU seconds of the lab, and of the process that loads the target for it, if one does.
pub(super) fn cpu_seconds_of(client: Option<u32>) -> impl Fn() -> Option<f64> {
    move || Some(cpu_seconds_of_this_process()? + client.map_or(Some(0.0), cpu_seconds)?)
}

/// Looks at server and client while load runs.
struct Watch<'a> {
    running: &'a Running,
    bar: Measuring,
    next_look: Nanos,
    look_every: Nanos,
    usage: Option<Usage>,
    /// What was resident when the window began: no query runs at that moment.
    resident: Option<Resident>,
    /// Of each process of the server, since the window began.
    server_cpu: Vec<(&'static str, f64)>,
    profiling: Profiling,
    client: Meter,
    machine: Meter,
}

/// Reads CPU seconds.
type Reading = Box<dyn Fn() -> Option<f64>>;

/// What was used between two moments.
pub(super) struct Meter {
    read: Reading,
    began: Option<f64>,
    pub(super) used: Option<f64>,
}

impl Meter {
    pub(super) fn of(read: impl Fn() -> Option<f64> + 'static) -> Self {
        Self { read: Box::new(read), began: None, used: None }
    }

    pub(super) fn begin(&mut self) {
        self.began = (self.read)();
    }

    pub(super) fn end(&mut self) {
        self.used = self.began.and_then(|began| Some((self.read)()? - began));
    }
}

impl Observer for Watch<'_> {
    fn begins(&mut self) {
        self.profiling.begin();
        self.usage = self.running.usage();
        self.resident = self.running.resident();
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

//! `ashlar-lab run WORKLOAD --target T[,T...]`: starts the targets, loads them, measures them in turn, keeps a record.
//!
//! ```text
//! for each repetition
//!   for each target                 A B B A: what drifts in a machine drifts for all of them
//!     start it, load it
//!     for each number of threads    or each query: a sweep is one run; up, and down in the next repetition
//!       warm-up, measured window
//!     stop it
//! ```
//!
//! Each repetition has processes of its own: what differs between two starts of the same program, memory above all, is part of
//! what varies, and repetitions within one process do not show it (Kalibera, Jones: "Rigorous benchmarking in reasonable
//! time", ISMM 2013). And no server that waits for its turn takes time from the one that is measured.
//!
//! The record is saved after every measurement, so that whatever happens next, what has been measured is kept.

mod one;
mod profiles;
mod show;
mod steps;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ashlar_telemetry::profile;

use crate::clock::wake_punctually;
use crate::cores::Cores;
use crate::door::engine::EngineClient;
use crate::foreign::Program;
use crate::interrupt;
use crate::java;
use crate::load::{Pace, Windows};
use crate::record::folder::Folder;
use crate::record::machine::{Commit, Machine, build_of_the_lab};
use crate::record::{self, moment};
use crate::record::{
    Case, Load, Measurement, MeasurementState, Mode, Run, RunState, SCHEMA_VERSION, TargetRecord, TargetState,
};
use crate::targets::{Plant, Resident, Running, Start, Target};
use crate::workload::{Kind, Place, Sizes, Workload};

/// Nothing was measured, because no target is here.
#[derive(Debug)]
pub(crate) struct NobodyHere(String);

impl std::fmt::Display for NobodyHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no target to measure\n{}", self.0)
    }
}

impl std::error::Error for NobodyHere {}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) workload: String,
    pub(crate) targets: Vec<String>,
    /// Empty for the workload's own number.
    pub(crate) threads: Vec<u32>,
    /// Empty for all that the workload has.
    pub(crate) queries: Vec<String>,
    pub(crate) rate: Option<f64>,
    pub(crate) warm_up: u32,
    pub(crate) seconds: u32,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    pub(crate) profiles: Vec<profile::Kind>,
    pub(crate) server_cores: Option<String>,
    pub(crate) client_cores: Option<String>,
    pub(crate) ashlar: Option<PathBuf>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) sizes: Sizes,
    /// Whether what the harness costs is measured beside the targets, where none of them does that.
    pub(crate) harness: bool,
    /// What is planted into `noop`.
    pub(crate) plant: Option<Plant>,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was measured, every answer was right, and every request was sent.
    Whole,
    /// Something is missing or wrong; the record says what.
    Lacking,
}

impl Outcome {
    /// The exit status.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Whole => 0,
            Self::Lacking => 1,
        }
    }
}

/// Threads of a workload without queries.
const THREADS: u32 = 8;

/// What the record says of a target until it is its turn.
const NOT_STARTED: &str = "not started";

/// A target that is running.
struct Live {
    name: String,
    running: Running,
    /// What loads it, where threads of the lab do not.
    client: Option<java::Client>,
    place: Place,
    /// The least that was resident with the data while nothing was asked, if queries are measured.
    loaded: Option<Resident>,
    /// The program of others that loads it, where one does.
    foreign: Option<Program>,
    /// What was resident, and alive in the heap of a JVM, before the first step, where there are steps.
    empty: Option<(u64, Option<u64>)>,
}

impl Live {
    /// Notes what is resident while nothing is asked: the least that there ever is of each number is what the data has.
    fn found_loaded(&mut self, now: Option<Resident>) {
        self.loaded = match (self.loaded, now) {
            (Some(least), Some(now)) => Some(least.each(now, u64::min)),
            (least, now) => least.or(now),
        };
    }

    /// What loading has freed goes back to the operating system, before queries are asked: else it would be part of the data, and a query that
    /// takes it again would seem to need none. Servers do that by themselves within a second or two, engines in the lab's process when they are told: twice,
    /// since some of their allocators give back only when they are used again some time after.
    fn give_back(&self) -> Result<()> {
        for _ in 0..2 {
            if self.place.engine {
                EngineClient::connect(self.place.address)?
                    .trim()
                    .context("giving memory back that loading has freed")?;
            }
            if steps::settled(&self.running).is_none() || !self.place.engine {
                break;
            }
        }
        Ok(())
    }
}

/// A run under way.
struct Session {
    workload: Box<dyn Workload>,
    pace: Pace,
    windows: Windows,
    profiles: Vec<profile::Kind>,
    record: Run,
    folder: Folder,
    show: show::Show,
    /// Targets that were named; those after them in the record are there for what the harness costs.
    named: usize,
}

/// Runs it. An error means that nothing was measured.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let kind = Kind::find(&options.workload)?;
    let workload = kind.with(&options.sizes)?;
    let mut targets = parse_targets(&options.targets)?;
    let harnesses = if options.harness { harnesses(&targets, kind, &options.sizes) } else { Vec::new() };
    targets.extend(harnesses.iter().cloned());
    let queries = queries_or_steps(workload.as_ref(), kind, options)?;
    if options.rate.is_some() && targets.iter().any(|target| target.foreign().is_some()) {
        bail!("redis-benchmark and pgbench send as fast as they can; they have no --rate");
    }
    let machine = Machine::here();
    let cores = Cores::of(options.server_cores.as_deref(), options.client_cores.as_deref(), machine.cores);
    let server_cores = cores.pin_this_process()?;
    wake_punctually();
    interrupt::watch()?;

    let load = load_of(options, queries, &cores);
    let record = new_record(options, kind, workload.as_ref(), load, machine, &targets);
    let path = options.out.clone().unwrap_or_else(|| {
        PathBuf::from("target/lab").join(format!("{}-{}", record.started_at.replace([':', 'Z'], ""), kind.name))
    });
    // Found out before a folder is made: a name that was mistyped leaves nothing behind.
    let presence = |target: &Target| {
        kind.takes(target.server())?;
        target.presence(kind, &options.sizes, options.ashlar.as_ref())
    };
    let presence: Vec<_> = targets.iter().map(presence).collect();
    let named = targets.len() - harnesses.len();
    refuse_all_absent(&targets[..named], &presence[..named])?;
    let folder = Folder::create(&path)?;
    let pace = options.rate.map_or(Pace::Closed, |per_second| Pace::Open { per_second });
    let windows = Windows { warm_up: options.warm_up, measured: options.seconds };
    let show = show::Show::new(&record);
    let mut session =
        Session { workload, pace, windows, profiles: options.profiles.clone(), record, folder, show, named };
    session.show.heading(&session.record);

    let start = Start {
        ashlar: options.ashlar.clone(),
        cores: server_cores.as_deref(),
        value_bytes: options.sizes.value_bytes.unwrap_or(100),
        plant: options.plant,
        unparsed: false,
    };
    let present = session.note_presence(&targets, presence);
    for harness in &harnesses {
        session
            .show
            .note(&format!("{harness} is measured beside: what the harness costs by itself (--no-harness: not)"));
    }
    session.show.length(&session.record, present.len());
    session.folder.save(&session.record)?;
    session.measure_all(present, kind, &start)?;
    if !session.has_figures() && !interrupt::is_set() {
        session.finish("no target could be measured")?;
        bail!("no target could be measured; {} says why", path.join("run.json").display());
    }
    session.end()
}

/// The names of what is measured one after the other: all of a workload's steps, or those of its queries that are asked for; none, where
/// it has neither.
fn queries_or_steps(workload: &dyn Workload, kind: &Kind, options: &Options) -> Result<Vec<String>> {
    let Some(steps) = workload.steps() else { return queries(kind.name, &workload.queries(), options) };
    if !options.queries.is_empty() {
        bail!("{} has steps, all of which are done; it has no --queries", kind.name);
    }
    let names: Vec<String> = steps.names().iter().map(|name| (*name).to_owned()).collect();
    queries(kind.name, &names, options)
}

/// The load as the record says it. Queries are asked by one thread, one after the other.
fn load_of(options: &Options, queries: Vec<String>, cores: &Cores) -> Load {
    let threads = match (&options.threads[..], &queries[..]) {
        (given @ [_, ..], []) => given.to_vec(),
        ([], []) => vec![THREADS],
        (_, [_, ..]) => vec![1],
    };
    Load {
        mode: if options.rate.is_some() { Mode::Open } else { Mode::Closed },
        threads,
        rate_per_second: options.rate,
        warm_up_seconds: options.warm_up,
        measured_seconds: options.seconds,
        repetitions: options.repeat,
        server_cores: cores.server.clone(),
        client_cores: cores.client.clone(),
        profiles: options.profiles.iter().map(profile::Kind::to_string).collect(),
        queries,
    }
}

/// The record of a run that begins now, before anything is measured.
fn new_record(
    options: &Options,
    kind: &Kind,
    workload: &dyn Workload,
    load: Load,
    machine: Machine,
    targets: &[Target],
) -> Run {
    Run {
        schema_version: SCHEMA_VERSION,
        lab_version: env!("CARGO_PKG_VERSION").to_owned(),
        lab_build: build_of_the_lab(),
        lab_debug_assertions: cfg!(debug_assertions),
        started_at: moment::utc(ashlar_base::clock::wall_micros()),
        state: RunState::Partial,
        reason: Some("the lab was ended before the run".to_owned()),
        commit: Commit::here(),
        machine,
        workload: record::Workload {
            name: kind.name.to_owned(),
            question: kind.question.to_owned(),
            parameters: workload.parameters(),
        },
        load,
        seed: options.seed,
        targets: targets.iter().map(|target| absent(target, NOT_STARTED)).collect(),
        measurements: Vec::new(),
    }
}

/// [`NobodyHere`], with the reasons, where none of these targets is present.
fn refuse_all_absent(targets: &[Target], presence: &[Result<PathBuf, String>]) -> Result<()> {
    if !presence.iter().all(Result::is_err) {
        return Ok(());
    }
    let reasons = targets.iter().zip(presence).map(|(target, presence)| {
        format!("{target} is absent: {}", presence.as_ref().err().map_or("", String::as_str))
    });
    Err(NobodyHere(reasons.collect::<Vec<_>>().join("\n")).into())
}

/// Forwards in odd repetitions, backwards in even ones: what comes after another, and finds the machine as that has left it, comes
/// before it as often.
fn in_turn<T: Clone>(all: &[T], repetition: u32) -> Vec<T> {
    let mut order = all.to_vec();
    if repetition.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// The queries that are measured: all that the workload has, or those of them that were named, in its order.
fn queries(workload: &str, all: &[String], options: &Options) -> Result<Vec<String>> {
    if let Some(unknown) = options.queries.iter().find(|query| !all.contains(query)) {
        match all {
            [] => bail!("{workload} has no --queries"),
            _ => bail!("{workload} has no query {unknown:?}; it has {}", all.join(", ")),
        }
    }
    if !all.is_empty() {
        let refused = [("threads", !options.threads.is_empty()), ("rate", options.rate.is_some())];
        if let Some((flag, _)) = refused.into_iter().find(|(_, given)| *given) {
            bail!("{workload} asks one query after the other on one connection; it has no --{flag}");
        }
    }
    let named = |query: &&String| options.queries.is_empty() || options.queries.contains(query);
    Ok(all.iter().filter(named).cloned().collect())
}

fn parse_targets(names: &[String]) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for name in names {
        let target = Target::parse(name)?;
        if targets.contains(&target) {
            bail!("the target {name} is named twice");
        }
        targets.push(target);
    }
    Ok(targets)
}

/// The targets that cost what the harness costs, by each kind of client that these have; those that cannot be asked are left out, and
/// those that are among them.
fn harnesses(targets: &[Target], kind: &Kind, sizes: &Sizes) -> Vec<Target> {
    let through = [
        Target::Noop,
        Target::Lettuce(Box::new(Target::Noop)),
        Target::Foreign(Program::RedisBenchmark, Box::new(Target::Noop)),
    ];
    let is_wanted = |harness: &Target| {
        !targets.contains(harness)
            && targets.iter().any(|target| target.client_kind() == harness.client_kind())
            && kind.takes(harness.server()).is_ok()
            && harness.presence(kind, sizes, None).is_ok()
    };
    through.into_iter().filter(is_wanted).collect()
}

fn absent(target: &Target, reason: &str) -> TargetRecord {
    TargetRecord {
        name: target.to_string(),
        state: TargetState::Absent,
        reason: Some(reason.to_owned()),
        version: None,
        program: None,
        program_changed_at: None,
        client: target.client_kind(),
        configuration: Vec::new(),
        address: None,
        process_id: None,
    }
}

impl Session {
    /// Tells and records which targets are absent, and of which build the others are; returns these with their positions in the record.
    fn note_presence<'t>(
        &mut self,
        targets: &'t [Target],
        presence: Vec<Result<PathBuf, String>>,
    ) -> Vec<(usize, &'t Target)> {
        let mut present = Vec::new();
        for (position, (target, presence)) in targets.iter().zip(presence).enumerate() {
            match presence {
                Err(reason) => {
                    self.show.note(&format!("{target} is absent: {reason}"));
                    self.record.targets[position] = absent(target, &reason);
                }
                Ok(program) => {
                    if let Some(changed) = moment::of_file(&program) {
                        self.show.note(&format!("{target} is {} of {changed}", program.display()));
                    }
                    present.push((position, target));
                }
            }
        }
        present
    }

    /// Starts a target and puts the data into it.
    fn begin(&mut self, target: &Target, position: usize, kind: &Kind, start: &Start<'_>) -> Result<Live> {
        let running = target.start(kind.door, start)?;
        let mut client = target.client(&running)?;
        let mut configuration = running.configuration.clone();
        if let Some(client) = &mut client {
            client.choose(kind.name, &self.workload.parameters())?;
            configuration.extend(client.configuration());
        }
        if let Some(program) = target.foreign() {
            configuration.extend(program.configuration()?);
        }
        self.record.targets[position] = TargetRecord {
            name: target.to_string(),
            state: TargetState::Measured,
            reason: None,
            version: Some(running.version.clone()),
            program: running.program.as_ref().map(|program| program.display().to_string()),
            program_changed_at: running.program.as_deref().and_then(moment::of_file),
            client: target.client_kind(),
            configuration,
            address: Some(running.address.to_string()),
            process_id: running.process_id(),
        };
        // A reader of the folder may want to know the process before the first measurement ends.
        self.folder.save(&self.record)?;
        let bar = self.show.loading(&target.to_string());
        let server = target.server();
        let place = Place {
            address: running.address,
            rows: running.sql,
            postgres: server.is_postgres(),
            stores: !matches!(server, Target::Noop | Target::PlainLoop),
            shards: running.shards,
            engine: matches!(server, Target::Engine(_)),
        };
        let (name, foreign) = (target.to_string(), target.foreign());
        let mut live = Live { name, running, client, place, loaded: None, foreign, empty: None };
        let mut progress = |done, all| {
            bar.at(done, all);
            if interrupt::is_set() { bail!("interrupted while it was loaded") } else { Ok(()) }
        };
        let loaded = match &mut live.client {
            // What is behind a door of the lab's own is filled through it, whoever measures it.
            Some(client) if server == target => client.prepare(&mut progress).map(|declared| {
                self.record.targets[position].configuration.extend(declared);
            }),
            // It counts commands without a look at them, which is no way to be filled.
            _ if foreign.is_some() && *server == Target::Noop => Ok(()),
            _ => self.workload.prepare(place, &mut progress),
        };
        bar.end();
        if let Err(error) = loaded {
            self.leave(&live);
            return Err(match live.running.obituary() {
                Some(end) => error.context(end),
                None => error,
            });
        }
        let is_first = self.record.measurements.iter().all(|one| one.target != live.name);
        match (live.running.http, self.profiles.first()) {
            (Some(server), Some(kind)) => {
                if let Err(error) = profiles::prepare(server, *kind) {
                    self.show.note(&format!("{target} gives no profiles: {error:#}"));
                }
            }
            (None, Some(_)) if is_first => {
                self.show.note(&format!("{target} gives no profiles: it has no HTTP door that would give any"));
            }
            _ => {}
        }
        Ok(live)
    }

    /// All measurements, interleaved between the targets, which are given with their positions in the record.
    fn measure_all(&mut self, mut present: Vec<(usize, &Target)>, kind: &Kind, start: &Start<'_>) -> Result<()> {
        for repetition in 1..=self.record.load.repetitions {
            for (position, target) in in_turn(&present, repetition) {
                let outcome = self.repeat(target, position, kind, start, repetition);
                if interrupt::is_set() {
                    return Ok(());
                }
                if let Err(error) = outcome {
                    self.failed(&target.to_string(), &format!("{error:#}"));
                    present.retain(|(there, _)| *there != position);
                }
                self.folder.save(&self.record)?;
                if present.iter().all(|(there, _)| *there >= self.named) {
                    // The harness alone says nothing of anybody.
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether a target that was named has been measured at all.
    fn has_figures(&self) -> bool {
        let named = &self.record.targets[..self.named];
        self.record.measurements.iter().any(|one| named.iter().any(|target| target.name == one.target))
    }

    /// One repetition of one target: a new process with its data, measured in each case. An error means that
    /// the target is lost.
    fn repeat(
        &mut self,
        target: &Target,
        position: usize,
        kind: &Kind,
        start: &Start<'_>,
        repetition: u32,
    ) -> Result<()> {
        let mut live = self.begin(target, position, kind, start)?;
        let outcome = self.sweep(&mut live, repetition).and_then(|()| self.verify(&live, repetition));
        self.leave(&live);
        outcome
    }

    /// Takes the data out of a server that goes on running; what the lab started goes with its process. An error is no reason to
    /// lose the figures.
    fn leave(&self, live: &Live) {
        if live.running.program.is_none()
            && let Err(error) = self.workload.clear(live.place)
        {
            self.show.note(&format!("the data of the lab is still in {}: {error:#}", live.name));
        }
    }

    /// A target that has its data, measured in each case.
    fn sweep(&mut self, live: &mut Live, repetition: u32) -> Result<()> {
        let cases = self.record.load.cases();
        // Of steps each begins with what the one before has left.
        let has_steps = self.workload.steps().is_some();
        if !has_steps && cases.iter().any(|case| case.query.is_some()) {
            live.give_back()?;
        }
        for case in if has_steps { cases } else { in_turn(&cases, repetition) } {
            if case.query.is_some() {
                // Memory of the load may be given back later, so the least that was there between two queries is what the data has.
                live.found_loaded(live.running.resident());
            }
            self.measure(&mut *live, &case, repetition).map_err(|error| match live.running.obituary() {
                Some(end) => error.context(end),
                None => error,
            })?;
            self.folder.save(&self.record)?;
            if interrupt::is_set() {
                break;
            }
        }
        Ok(())
    }

    /// Has the workload look whether what was written in a repetition is consistent. What is not is a wrong answer in each of its
    /// measurements, for any of them may have caused it.
    fn verify(&mut self, live: &Live, repetition: u32) -> Result<()> {
        let mut all = self.record.repetition(&live.name, repetition);
        // Of a request that was given up nobody knows whether it was done.
        if all.is_empty() || all.iter().any(|one| one.state == MeasurementState::Partial) {
            return Ok(());
        }
        match self.workload.verify(live.place) {
            Ok(None) => Ok(()),
            Ok(Some(fault)) => {
                self.show.note(&format!("{}, repetition {repetition}: NOT CONSISTENT: {fault}", live.name));
                all.iter_mut().for_each(|one| one.mark_wrong(&fault));
                Ok(())
            }
            Err(error) => {
                all.iter_mut().for_each(|one| one.mark_partial(&format!("not verified: {error:#}")));
                Err(error.context("looking whether what was written is consistent"))
            }
        }
    }

    /// One target once. An error means that the target is lost.
    fn measure(&mut self, target: &mut Live, case: &Case, repetition: u32) -> Result<()> {
        let mut one = one::One { session: self, target, case, repetition };
        let (measurement, latencies) =
            if one.session.workload.steps().is_some() { one.step()? } else { one.measure()? };
        let mut lost = measurement.reason.clone();
        if measurement.operations == 0 && measurement.refused.is_none() {
            // Nothing can be said of it, and it would be missing in silence.
            lost = lost.or_else(|| {
                Some(format!(
                    "no request of the measured window was answered: the window is shorter than one answer, or than the time between two requests; --seconds makes it longer than {} s",
                    self.record.load.measured_seconds
                ))
            });
        } else {
            let name = one::file_name(&measurement);
            let seconds_file = self.folder.save_seconds(&name, &latencies)?;
            self.record.measurements.push(Measurement { seconds_file, ..measurement });
        }
        match lost {
            Some(reason) if !interrupt::is_set() => bail!(reason),
            _ => Ok(()),
        }
    }

    /// A target that cannot be measured any more.
    fn failed(&mut self, name: &str, reason: &str) {
        self.show.note(&format!("{name} failed: {reason}"));
        if let Some(target) = self.record.targets.iter_mut().find(|target| target.name == name) {
            target.state = TargetState::Failed;
            target.reason = Some(reason.to_owned());
        }
    }

    /// The last word of the record, and of the terminal.
    fn end(mut self) -> Result<Outcome> {
        let failed: Vec<String> = self
            .record
            .targets
            .iter()
            .filter(|target| target.state == TargetState::Failed)
            .map(|target| format!("{} failed", target.name))
            .collect();
        let not_started = self.record.targets.iter().any(|target| target.reason.as_deref() == Some(NOT_STARTED));
        let outcome = if interrupt::is_set() && (not_started || !self.is_whole()) {
            self.finish("interrupted")?;
            Outcome::Lacking
        } else if !failed.is_empty() {
            self.finish(&failed.join(", "))?;
            Outcome::Lacking
        } else {
            self.record.state = RunState::Complete;
            self.record.reason = None;
            self.folder.save(&self.record)?;
            let sound = self.record.measurements.iter().all(Measurement::is_sound);
            if sound { Outcome::Whole } else { Outcome::Lacking }
        };
        show::summary(&self.record, self.folder.path())?;
        Ok(outcome)
    }

    /// Whether all targets that can be measured have been, as often as was asked for.
    fn is_whole(&self) -> bool {
        let load = &self.record.load;
        let targets = self.record.targets.iter().filter(|target| target.state == TargetState::Measured).count();
        let whole = self.record.measurements.iter().filter(|one| one.state == MeasurementState::Complete).count();
        whole == targets * load.cases().len() * load.repetitions as usize
    }

    fn finish(&mut self, reason: &str) -> Result<()> {
        self.record.state = RunState::Partial;
        self.record.reason = Some(reason.to_owned());
        self.folder.save(&self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_repetition_goes_backwards() {
        let orders: Vec<Vec<u32>> = (1..=3).map(|repetition| in_turn(&[2, 4, 8], repetition)).collect();
        assert_eq!(orders, [[2, 4, 8], [8, 4, 2], [2, 4, 8]]);
    }

    #[test]
    fn the_harness_is_measured_by_each_kind_of_client_where_it_knows_the_answers() {
        let added = |targets: &[&str], workload: &str| {
            let targets: Vec<Target> = targets.iter().map(|name| Target::parse(name).unwrap()).collect();
            let found = harnesses(&targets, Kind::find(workload).unwrap(), &Sizes::default());
            found.iter().map(Target::to_string).collect::<Vec<_>>()
        };
        assert_eq!(added(&["ashlar", "redis"], "kv-get"), ["noop"]);
        assert_eq!(added(&["ashlar", "noop"], "kv-get"), [""; 0]);
        assert_eq!(added(&["postgres"], "sql-key"), ["noop"]);
        for keeps in ["tpcb", "tpcc", "kv-memory", "copy-in", "tpch"] {
            assert_eq!(added(&["ashlar"], keeps), [""; 0], "{keeps}");
        }
        // pgbench asks noop for descriptions of rows, which it has not.
        assert_eq!(added(&["pgbench=ashlar"], "sql-key"), [""; 0]);
    }
}

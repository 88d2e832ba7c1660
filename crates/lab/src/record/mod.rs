//! The record of a run: `run.json` in a folder of its own, with everything that is needed to judge or repeat the run.
//!
//! Written by `run` after every measurement, read by `compare` and `report`. The fields are described in
//! `docs/reference/lab-run.md`; a test keeps the page and these types together.

pub(crate) mod folder;
pub(crate) mod histogram;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod moment;

use std::collections::BTreeMap;
use std::fmt;

use ashlar_telemetry::profile::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::load::{KindSample, Sample};
use crate::say;
use machine::{Commit, Machine};

/// The version of these types. Another shape of the file is another version, and is refused.
pub(crate) const SCHEMA_VERSION: u32 = 6;

/// Everything about one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) schema_version: u32,
    pub(crate) lab_version: String,
    pub(crate) lab_build: String,
    pub(crate) lab_debug_assertions: bool,
    pub(crate) started_at: String,
    pub(crate) state: RunState,
    pub(crate) reason: Option<String>,
    pub(crate) commit: Option<Commit>,
    pub(crate) machine: Machine,
    pub(crate) workload: Workload,
    pub(crate) load: Load,
    pub(crate) seed: u64,
    pub(crate) targets: Vec<TargetRecord>,
    pub(crate) measurements: Vec<Measurement>,
}

/// Whether a run is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunState {
    Complete,
    Partial,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) question: String,
    pub(crate) parameters: BTreeMap<String, Value>,
}

/// How it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) mode: Mode,
    pub(crate) threads: Vec<u32>,
    pub(crate) rate_per_second: Option<f64>,
    pub(crate) warm_up_seconds: u32,
    pub(crate) measured_seconds: u32,
    pub(crate) repetitions: u32,
    pub(crate) server_cores: Option<String>,
    pub(crate) client_cores: Option<String>,
    pub(crate) profiles: Vec<String>,
    pub(crate) queries: Vec<String>,
}

/// Who decides when a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Closed,
    Open,
}

/// What was asked of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetRecord {
    pub(crate) name: String,
    pub(crate) state: TargetState,
    pub(crate) reason: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) program: Option<String>,
    pub(crate) program_changed_at: Option<String>,
    pub(crate) client: ClientKind,
    pub(crate) configuration: Vec<String>,
    pub(crate) address: Option<String>,
    pub(crate) process_id: Option<u32>,
}

/// Who makes the requests and takes the time. What that costs is part of every latency, and differs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientKind {
    /// Threads of the lab.
    Lab,
    /// A process in Java, with the client library of a product.
    Java,
    /// redis-benchmark.
    #[serde(rename = "redis-benchmark")]
    RedisBenchmark,
    /// pgbench.
    Pgbench,
}

impl ClientKind {
    /// For people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lab => "threads of the lab",
            Self::Java => "a client in Java",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Pgbench => "pgbench",
        }
    }
}

/// What became of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TargetState {
    Measured,
    Absent,
    Failed,
}

/// Under what a target is measured: so many threads, or one query, asked again and again on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) threads: u32,
    pub(crate) query: Option<String>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.query {
            Some(query) => write!(f, "query {query}"),
            None => f.write_str(&say::threads(self.threads)),
        }
    }
}

impl Case {
    /// What it is called where the column, or the file, says that it is one.
    pub(crate) fn short(&self) -> String {
        self.query.clone().unwrap_or_else(|| self.threads.to_string())
    }
}

impl Load {
    /// All cases, in the order in which they are shown.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let threads = self.threads.iter().copied();
        if self.queries.is_empty() {
            return threads.map(|threads| Case { threads, query: None }).collect();
        }
        let queries = self.queries.iter().cloned().map(Some);
        queries.flat_map(|query| threads.clone().map(move |threads| Case { threads, query: query.clone() })).collect()
    }
}

/// One target in one case, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    pub(crate) target: String,
    pub(crate) threads: u32,
    pub(crate) query: Option<String>,
    pub(crate) repetition: u32,
    pub(crate) state: MeasurementState,
    pub(crate) reason: Option<String>,
    pub(crate) measured_seconds: f64,
    pub(crate) operations: u64,
    pub(crate) operations_per_second: f64,
    pub(crate) completed_per_second: Vec<u64>,
    pub(crate) latency_per_second: Vec<SecondSummary>,
    pub(crate) unsent: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) refused: Option<String>,
    pub(crate) retries: u64,
    pub(crate) kinds: Vec<KindRecord>,
    pub(crate) beside: Option<KindRecord>,
    pub(crate) latency: LatencySummary,
    pub(crate) histogram: String,
    pub(crate) seconds_file: String,
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) server_parts: Vec<ServerPart>,
    pub(crate) server_memory_peak_bytes: Option<u64>,
    pub(crate) server_memory_peak_unfiled_bytes: Option<u64>,
    pub(crate) server_memory_loaded_bytes: Option<u64>,
    pub(crate) server_memory_loaded_unfiled_bytes: Option<u64>,
    pub(crate) engine_memory_bytes: Option<u64>,
    pub(crate) server_live_bytes: Option<u64>,
    pub(crate) footprint: Option<Footprint>,
    pub(crate) client_cpu_seconds: Option<f64>,
    pub(crate) other_cpu_seconds: Option<f64>,
    pub(crate) metrics_before: Option<String>,
    pub(crate) metrics_after: Option<String>,
    pub(crate) profiles: Vec<ProfileRecord>,
}

/// What entries take, of steps that put them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Footprint {
    pub(crate) entries: u64,
    pub(crate) empty_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) empty_live_bytes: Option<u64>,
    pub(crate) live_bytes: Option<u64>,
}

impl Footprint {
    /// Resident bytes of an entry above the empty state.
    pub(crate) fn per_entry(&self) -> f64 {
        (self.bytes as f64 - self.empty_bytes as f64) / self.entries as f64
    }

    /// Likewise what is alive in the heap of a JVM.
    pub(crate) fn live_per_entry(&self) -> Option<f64> {
        Some((self.live_bytes? as f64 - self.empty_live_bytes? as f64) / self.entries as f64)
    }
}

/// One process of a target that stands before other servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerPart {
    pub(crate) name: String,
    pub(crate) cpu_seconds: f64,
}

/// What a measurement saw of one kind of operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KindRecord {
    pub(crate) name: String,
    pub(crate) operations: u64,
    pub(crate) retries: u64,
    pub(crate) latency: LatencySummary,
}

impl KindRecord {
    /// Of what was seen.
    pub(crate) fn of(kind: &KindSample) -> Self {
        Self {
            name: kind.name.to_owned(),
            operations: kind.latencies.len(),
            retries: kind.retries,
            latency: LatencySummary::of(&kind.latencies),
        }
    }
}

/// A profile of the server, taken while it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileRecord {
    pub(crate) kind: String,
    pub(crate) file: String,
    pub(crate) seconds: f64,
    pub(crate) total: u64,
}

/// Whether a measurement is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MeasurementState {
    Complete,
    Partial,
}

/// A histogram in a few numbers, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LatencySummary {
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

/// The requests of one second in a few numbers, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecondSummary {
    pub(crate) operations: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

impl SecondSummary {
    fn of(latencies: &histogram::Latencies) -> Self {
        let LatencySummary { p50_us, p99_us, p999_us, .. } = LatencySummary::of(latencies);
        Self { operations: latencies.len(), p50_us, p99_us, p999_us }
    }
}

impl LatencySummary {
    /// Of a histogram in nanoseconds.
    pub(crate) fn of(latencies: &histogram::Latencies) -> Self {
        let quantile = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            mean_us: latencies.mean() / 1000.0,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: latencies.max() as f64 / 1000.0,
        }
    }
}

impl Measurement {
    /// What a sample says of a target; what it used is still to be filled in.
    pub(crate) fn of(target: &str, case: &Case, repetition: u32, sample: &Sample) -> Self {
        let whole = sample.broken.is_none() && !sample.interrupted;
        let completed: u64 = sample.completed.iter().sum();
        let counted = if sample.seconds > 0.0 { completed as f64 / sample.seconds } else { 0.0 };
        Self {
            target: target.to_owned(),
            threads: case.threads,
            query: case.query.clone(),
            repetition,
            state: if whole { MeasurementState::Complete } else { MeasurementState::Partial },
            reason: sample.broken.clone().or_else(|| sample.interrupted.then(|| "interrupted".to_owned())),
            measured_seconds: sample.seconds,
            operations: sample.told.map_or(sample.merged.len(), |told| told.operations),
            operations_per_second: sample.told.map_or(counted, |told| told.operations_per_second),
            completed_per_second: sample.completed.clone(),
            latency_per_second: sample.latencies.iter().map(SecondSummary::of).collect(),
            unsent: sample.unsent,
            errors: sample.errors,
            first_error: sample.first_error.clone(),
            refused: sample.refused.clone(),
            retries: sample.retries,
            kinds: sample.kinds.iter().map(KindRecord::of).collect(),
            beside: None,
            latency: sample.told.map_or_else(|| LatencySummary::of(&sample.merged), |told| told.latency),
            histogram: histogram::encode(&sample.merged),
            seconds_file: String::new(),
            server_cpu_seconds: None,
            server_parts: Vec::new(),
            server_memory_peak_bytes: None,
            server_memory_peak_unfiled_bytes: None,
            server_memory_loaded_bytes: None,
            server_memory_loaded_unfiled_bytes: None,
            engine_memory_bytes: sample.engine_memory_bytes,
            server_live_bytes: None,
            footprint: None,
            client_cpu_seconds: None,
            other_cpu_seconds: None,
            metrics_before: None,
            metrics_after: None,
            profiles: Vec::new(),
        }
    }

    /// How many operations of a kind were done in a minute: its part of all that were.
    pub(crate) fn per_minute(&self, kind: &str) -> Option<f64> {
        let kind = self.kinds.iter().find(|found| found.name == kind)?;
        let share = kind.operations as f64 / self.operations as f64;
        (self.operations > 0).then_some(60.0 * self.operations_per_second * share)
    }

    /// One more wrong answer.
    pub(crate) fn mark_wrong(&mut self, what: &str) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| what.to_owned());
    }

    /// It is not whole after all.
    pub(crate) fn mark_partial(&mut self, reason: &str) {
        self.state = MeasurementState::Partial;
        self.reason = Some(reason.to_owned());
    }

    /// Under what it was made.
    pub(crate) fn case(&self) -> Case {
        Case { threads: self.threads, query: self.query.clone() }
    }

    /// Its profile of this kind.
    pub(crate) fn profile(&self, kind: Kind) -> Option<&ProfileRecord> {
        self.profiles.iter().find(|profile| profile.kind == kind.name())
    }

    /// Whether its figures may be judged: nothing is missing or refused, and every answer was right. Requests that were due and never sent are
    /// missing: they are those that would have waited longest.
    pub(crate) fn is_sound(&self) -> bool {
        let is_right = self.errors == 0 && self.refused.is_none();
        self.state == MeasurementState::Complete && is_right && self.operations > 0 && self.unsent == 0
    }
}

impl Run {
    /// What is known of a target.
    pub(crate) fn target(&self, name: &str) -> Option<&TargetRecord> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// Cases that were measured, in their order, and targets likewise.
    pub(crate) fn cells(&self) -> Vec<(String, Case)> {
        let mut cells = Vec::new();
        for case in self.load.cases() {
            for target in &self.targets {
                if self.of(&target.name, &case).next().is_some() {
                    cells.push((target.name.clone(), case.clone()));
                }
            }
        }
        cells
    }

    /// The measurements of a target in one repetition.
    pub(crate) fn repetition(&mut self, target: &str, repetition: u32) -> Vec<&mut Measurement> {
        let of_it = |one: &&mut Measurement| one.target == target && one.repetition == repetition;
        self.measurements.iter_mut().filter(of_it).collect()
    }

    /// The measurements of a target in a case.
    pub(crate) fn of<'a>(&'a self, target: &'a str, case: &'a Case) -> impl Iterator<Item = &'a Measurement> {
        let same = move |one: &&Measurement| one.threads == case.threads && one.query == case.query;
        self.measurements.iter().filter(move |found| found.target == target).filter(same)
    }
}

#[cfg(test)]
pub(crate) mod tests;

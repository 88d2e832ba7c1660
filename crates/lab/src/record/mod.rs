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

use ashlar_telemetry::profile::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::load::Sample;
use machine::{Commit, Machine};

/// The version of these types. Another shape of the file is another version, and is refused.
pub(crate) const SCHEMA_VERSION: u32 = 4;

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
}

impl ClientKind {
    /// For people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lab => "threads of the lab",
            Self::Java => "a client in Java",
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

/// One target under one number of threads, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    pub(crate) target: String,
    pub(crate) threads: u32,
    pub(crate) repetition: u32,
    pub(crate) state: MeasurementState,
    pub(crate) reason: Option<String>,
    pub(crate) measured_seconds: f64,
    pub(crate) operations: u64,
    pub(crate) operations_per_second: f64,
    pub(crate) completed_per_second: Vec<u64>,
    pub(crate) unsent: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) latency: LatencySummary,
    pub(crate) histogram: String,
    pub(crate) seconds_file: String,
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) server_memory_peak_bytes: Option<u64>,
    pub(crate) server_live_bytes: Option<u64>,
    pub(crate) client_cpu_seconds: Option<f64>,
    pub(crate) other_cpu_seconds: Option<f64>,
    pub(crate) metrics_before: Option<String>,
    pub(crate) metrics_after: Option<String>,
    pub(crate) profiles: Vec<ProfileRecord>,
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
    pub(crate) fn of(target: &str, threads: u32, repetition: u32, sample: &Sample) -> Self {
        let whole = sample.broken.is_none() && !sample.interrupted;
        let completed: u64 = sample.completed.iter().sum();
        Self {
            target: target.to_owned(),
            threads,
            repetition,
            state: if whole { MeasurementState::Complete } else { MeasurementState::Partial },
            reason: sample.broken.clone().or_else(|| sample.interrupted.then(|| "interrupted".to_owned())),
            measured_seconds: sample.seconds,
            operations: sample.merged.len(),
            operations_per_second: if sample.seconds > 0.0 { completed as f64 / sample.seconds } else { 0.0 },
            completed_per_second: sample.completed.clone(),
            unsent: sample.unsent,
            errors: sample.errors,
            first_error: sample.first_error.clone(),
            latency: LatencySummary::of(&sample.merged),
            histogram: histogram::encode(&sample.merged),
            seconds_file: String::new(),
            server_cpu_seconds: None,
            server_memory_peak_bytes: None,
            server_live_bytes: None,
            client_cpu_seconds: None,
            other_cpu_seconds: None,
            metrics_before: None,
            metrics_after: None,
            profiles: Vec::new(),
        }
    }

    /// Its profile of this kind.
    pub(crate) fn profile(&self, kind: Kind) -> Option<&ProfileRecord> {
        self.profiles.iter().find(|profile| profile.kind == kind.name())
    }

    /// Whether its figures may be judged: nothing is missing, and every answer was right. Requests that were due and never sent are
    /// missing: they are those that would have waited longest.
    pub(crate) fn is_sound(&self) -> bool {
        self.state == MeasurementState::Complete && self.errors == 0 && self.operations > 0 && self.unsent == 0
    }
}

impl Run {
    /// What is known of a target.
    pub(crate) fn target(&self, name: &str) -> Option<&TargetRecord> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// Threads that were measured, in their order, and targets likewise.
    pub(crate) fn cells(&self) -> Vec<(String, u32)> {
        let mut cells = Vec::new();
        for threads in &self.load.threads {
            for target in &self.targets {
                if self.of(&target.name, *threads).next().is_some() {
                    cells.push((target.name.clone(), *threads));
                }
            }
        }
        cells
    }

    /// The measurements of a target under so many threads.
    pub(crate) fn of<'a>(&'a self, target: &'a str, threads: u32) -> impl Iterator<Item = &'a Measurement> {
        self.measurements.iter().filter(move |found| found.target == target && found.threads == threads)
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! How a run was made, as names and texts: the heading of its pages.

use super::plots::{HARNESS, HARNESS_FOREIGN};
use crate::record::{ClientKind, Mode, Run, TargetState};
use crate::targets::Target;
use crate::workload::Kind;

/// What figures depend on.
pub(super) fn of(run: &Run) -> Vec<(&'static str, String)> {
    let load = &run.load;
    let cores = |cores: &Option<String>| cores.as_ref().map_or("any core".to_owned(), |cores| format!("core {cores}"));
    let sizes: Vec<String> = run
        .workload
        .parameters
        .iter()
        .map(|(name, value)| {
            // A text without its quotes.
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {value}", name.replace('_', " "))
        })
        .collect();
    let how = match (load.mode, load.rate_per_second) {
        (Mode::Open, Some(rate)) => {
            format!("open loop, {rate} requests a second, latencies from the moment each was due")
        }
        _ if !load.queries.is_empty() => "each query again and again on one connection, whole ones only".to_owned(),
        _ => "closed loop, each thread waits for its answer".to_owned(),
    };
    let threads: Vec<String> = load.threads.iter().map(u32::to_string).collect();
    let assertions = if run.lab_debug_assertions { ", with debug assertions" } else { "" };
    let mut facts = vec![
        ("when", run.started_at.clone()),
        (
            "machine",
            format!(
                "{}, {} cores, {:.0} GiB, Linux {}",
                run.machine.cpu,
                run.machine.cores,
                run.machine.memory_bytes as f64 / f64::from(1 << 30),
                run.machine.kernel
            ),
        ),
        ("lab", format!("ashlar-lab {}, build {}{assertions}", run.lab_version, run.lab_build)),
        // Of the folder only: a program may have been built of another source.
        ("folder", run.commit.as_ref().map_or("at no commit".to_owned(), |commit| format!("at commit {commit}"))),
        ("sizes", sizes.join(", ")),
        (
            "load",
            format!(
                "{how}; threads: {}; {} s measured after {} s, {} repetitions, targets in turn; seed {}",
                threads.join(", "),
                load.measured_seconds,
                load.warm_up_seconds,
                load.repetitions,
                run.seed
            ),
        ),
        ("cores", format!("server on {}, client on {}", cores(&load.server_cores), cores(&load.client_cores))),
    ];
    if !load.profiles.is_empty() {
        facts.push((
            "profiles",
            format!("{}, taken in the measured window, which they slow down a little", load.profiles.join(", ")),
        ));
    }
    let has_harness =
        run.measurements.iter().any(|one| [HARNESS, HARNESS_FOREIGN].contains(&&*one.target) && one.is_sound());
    facts.push((
        "harness",
        if has_harness {
            format!("{HARNESS} is a server that stores nothing: its figures are what client, protocol and loopback cost by themselves")
        } else if takes_harness(run) {
            format!("its own cost is not part of this run: --no-harness left {HARNESS} out, or a suite did")
        } else {
            format!("its own cost is not part of this run, for {HARNESS} does not have the answers of this workload")
        },
    ));
    for target in run.targets.iter().filter(|target| target.state == TargetState::Measured) {
        let version = target.version.as_deref().unwrap_or("of unknown version");
        let settings = target.configuration.join("; ");
        let settings = if settings.is_empty() { settings } else { format!(" ({settings})") };
        let built = target.program_changed_at.as_ref().map_or(String::new(), |at| format!(", program of {at}"));
        let client = match target.client {
            ClientKind::Lab => String::new(),
            other => format!(", loaded by {}", other.text()),
        };
        facts.push(("target", format!("{} {version}{built}{client}{settings}", target.name)));
    }
    facts
}

/// Whether the server that stores nothing could have been among the targets.
fn takes_harness(run: &Run) -> bool {
    Kind::find(&run.workload.name).is_ok_and(|kind| kind.takes(&Target::Noop).is_ok())
}

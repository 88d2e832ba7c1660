//! What a reader must know to judge the figures of a run: what is missing, wrong, or not the server's doing.
//!
//! Shown at the end of a run, on the pages of a report, and with a comparison those about its targets.

use crate::cores;
use crate::record::measure::{MEASURES, Measure, median};
use crate::record::{ClientKind, Measurement, Run, RunState, TargetState};

/// A client that used more than this share of its cores held the server up.
const BUSY: f64 = 0.9;

/// Seconds after which a client in Java and its server have mostly compiled what they run.
const WARM_UP_MIN: u32 = 15;

/// Why targets that different clients loaded are not simply compared.
pub(crate) const UNLIKE_CLIENTS: &str = "What a client costs is part of every figure, and a client in Java costs more; lettuce=TARGET measures a server that speaks RESP through one as well";

/// Other processes that used more than this share of the machine disturbed it.
const DISTURBED: f64 = 0.05;

/// What a reader must know to judge the figures.
pub(crate) fn of(run: &Run) -> Vec<String> {
    let mut remarks = Vec::new();
    for target in run.targets.iter().filter(|target| target.state != TargetState::Measured) {
        let state = if target.state == TargetState::Absent { "is absent" } else { "failed" };
        remarks.push(format!("{} {state}: {}", target.name, target.reason.as_deref().unwrap_or("no reason known")));
    }
    if run.state == RunState::Partial {
        remarks.push(format!("PARTIAL: {}", run.reason.as_deref().unwrap_or("no reason known")));
    }
    if run.lab_debug_assertions {
        remarks.push(
            "the lab was built with debug assertions, so its own work is a larger part of these figures than need be"
                .to_owned(),
        );
    }
    remarks.extend(about_clients(run));
    for (target, threads) in run.cells() {
        remarks.extend(about(run, &target, threads));
    }
    for harness in ["noop", "lettuce=noop"] {
        let sound = |threads: u32| run.of(harness, threads).filter(|one| one.is_sound());
        if let Some(threads) = run.load.threads.iter().find(|threads| sound(**threads).next().is_some()) {
            let figures = MEASURES.iter().take(4).filter_map(|measure| {
                let figures: Vec<f64> = sound(*threads).filter_map(|one| measure.of(one)).collect();
                (!figures.is_empty()).then(|| format!("{} {}", measure.name(), measure.shown(median(&figures))))
            });
            let figures: Vec<String> = figures.collect();
            remarks.push(format!("the harness alone ({harness}, {threads} threads): {}", figures.join(", ")));
        }
    }
    remarks
}

/// What is to be known of clients: those of one kind are compared with each other, and a JVM is slow until it has compiled.
fn about_clients(run: &Run) -> Vec<String> {
    let measured = |kind: ClientKind| -> Vec<&str> {
        let those = run.targets.iter().filter(|target| target.state == TargetState::Measured && target.client == kind);
        those.map(|target| target.name.as_str()).collect()
    };
    let (lab, java) = (measured(ClientKind::Lab), measured(ClientKind::Java));
    let mut said = Vec::new();
    if !lab.is_empty() && !java.is_empty() {
        said.push(format!(
            "{}: {}; {}: {}. {UNLIKE_CLIENTS}",
            ClientKind::Lab.text(),
            lab.join(", "),
            ClientKind::Java.text(),
            java.join(", ")
        ));
    }
    if !java.is_empty() && run.load.warm_up_seconds < WARM_UP_MIN {
        said.push(format!(
            "a JVM compiles what it runs often: {} had a warm-up of {} s, and are faster after {WARM_UP_MIN} s or more",
            java.join(", "),
            run.load.warm_up_seconds
        ));
    }
    said
}

/// What a reader must know of one target under so many threads.
pub(crate) fn about(run: &Run, target: &str, threads: u32) -> Vec<String> {
    let all: Vec<&Measurement> = run.of(target, threads).collect();
    let mut said = Vec::new();
    let wrong: u64 = all.iter().map(|one| one.errors).sum();
    if let Some(first) = all.iter().find_map(|one| one.first_error.as_ref()) {
        said.push(format!("{wrong} WRONG ANSWERS, the first: {first}"));
    }
    let unsent: u64 = all.iter().map(|one| one.unsent).sum();
    if unsent > 0 {
        said.push(format!("the rate was not reached, {unsent} requests were never sent"));
    }
    let unsound = all.iter().filter(|one| !one.is_sound()).count();
    if unsound > 0 {
        said.push(format!(
            "{unsound} of {} repetitions are partial or wrong, and are left out of the figures",
            all.len()
        ));
    }
    if let Some(share) = all.iter().filter_map(|one| client_share(run, one)).reduce(f64::max).filter(|s| *s > BUSY) {
        said.push(format!(
            "the client used {:.0} % of its cores, so these figures are as much its own as the server's",
            share * 100.0
        ));
    }
    let live: Vec<f64> = all.iter().filter_map(|one| one.server_live_bytes).map(|bytes| bytes as f64).collect();
    if !live.is_empty() {
        said.push(format!(
            "its memory is mostly the heap that it was given; {} of it were alive",
            Measure::MemoryPeak.shown(median(&live))
        ));
    }
    if let Some(share) = disturbance(run, target, threads) {
        said.push(format!("DISTURBED: other programs used {:.0} % of the machine's cores", share * 100.0));
    }
    said.into_iter().map(|said| format!("{target}, {threads} threads: {said}")).collect()
}

/// The share of the machine that other programs used while a target was measured, if it was more than a little.
fn disturbance(run: &Run, target: &str, threads: u32) -> Option<f64> {
    let share =
        |one: &Measurement| Some(one.other_cpu_seconds? / one.measured_seconds / f64::from(run.machine.cores.max(1)));
    run.of(target, threads).filter_map(share).reduce(f64::max).filter(|share| *share > DISTURBED)
}

/// The share that the client used of the cores that it could use: threads of the lab use no more than they are, a JVM has others.
fn client_share(run: &Run, one: &Measurement) -> Option<f64> {
    let cores = run.load.client_cores.as_deref().map_or(run.machine.cores as usize, cores::count);
    let is_java = run.target(&one.target).is_some_and(|target| target.client == ClientKind::Java);
    let cores = if is_java { cores } else { cores.min(one.threads as usize).max(1) };
    (one.measured_seconds > 0.0).then_some(one.client_cpu_seconds? / one.measured_seconds / cores as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::run;

    #[test]
    fn a_client_with_fewer_threads_than_cores_can_be_busy() {
        let mut run = run(&["redis"], &[1]);
        (run.machine.cores, run.load.client_cores) = (16, None);
        run.measurements[0].client_cpu_seconds = Some(4.9);
        assert!(of(&run).iter().any(|remark| remark.contains("the client used 98 % of its cores")));
    }

    #[test]
    fn clients_that_cost_more_are_named() {
        let mut run = run(&["ashlar", "geode"], &[8]);
        let said = |run: &Run| of(run).join("\n");
        assert!(!said(&run).contains("Java"));
        run.targets[1].client = ClientKind::Java;
        run.measurements[1].server_live_bytes = Some(312 << 20);
        let all = said(&run);
        assert!(all.contains("threads of the lab: ashlar; a client in Java: geode. What a client costs"), "{all}");
        assert!(all.contains("geode had a warm-up of 1 s"), "{all}");
        assert!(all.contains("geode, 8 threads: its memory is mostly the heap that it was given; 312 MiB"), "{all}");
        run.load.warm_up_seconds = 30;
        run.targets[0].client = ClientKind::Java;
        assert!(!said(&run).contains("client"), "{}", said(&run));
    }

    #[test]
    fn what_flatters_is_said() {
        let mut run = run(&["redis", "noop"], &[8]);
        assert_eq!(of(&run).len(), 1, "the harness alone");
        run.measurements[0].client_cpu_seconds = Some(4.9);
        run.measurements[0].other_cpu_seconds = Some(5.0);
        run.measurements[0].unsent = 7;
        run.lab_debug_assertions = true;
        run.measurements[2].errors = 3;
        run.measurements[2].first_error = Some("key 5 was answered by no value".into());
        run.targets[1].state = TargetState::Absent;
        run.targets[1].reason = Some("it is not here".into());
        let said = of(&run).join("\n");
        for part in [
            "noop is absent: it is not here",
            "the lab was built with debug assertions",
            "3 WRONG ANSWERS, the first: key 5",
            "7 requests were never sent",
            "redis, 8 threads: 2 of 2 repetitions are partial or wrong",
            "the client used 98 % of its cores",
            "DISTURBED: other programs used 50 % of the machine's cores",
            "the harness alone (noop, 8 threads): throughput 1.60 K/s",
        ] {
            assert!(said.contains(part), "{part} is not in\n{said}");
        }
    }
}

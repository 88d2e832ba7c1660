//! What a reader must know to judge the figures of a run: what is missing, wrong, or not the server's doing.
//!
//! Shown at the end of a run, on the pages of a report, and with a comparison those about its targets.

use super::figure::Figure;
use super::plots::{HARNESS, HARNESS_FOREIGN, HARNESS_JAVA};
use crate::cores;
use crate::record::measure::MEASURES;
use crate::record::{Case, ClientKind, Measurement, Run, RunState, TargetState};

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
    for target in run.targets.iter().filter(|target| target.state == TargetState::Measured) {
        let mut whole = run.measurements.iter().filter(|one| one.target == target.name && one.is_sound()).peekable();
        if !run.load.profiles.is_empty() && whole.peek().is_some() && whole.all(|one| one.profiles.is_empty()) {
            remarks.push(format!("there are no profiles of {}", target.name));
        }
    }
    remarks.extend(about_clients(run));
    remarks.extend(of_rows(run, &run.cells()));
    remarks
}

/// What is to be known of clients: those of one kind are compared with each other, and a JVM is slow until it has compiled.
fn about_clients(run: &Run) -> Vec<String> {
    let measured = |kind: ClientKind| -> Vec<&str> {
        let those = run.targets.iter().filter(|target| target.state == TargetState::Measured && target.client == kind);
        those.map(|target| target.name.as_str()).collect()
    };
    let mut said = Vec::new();
    let all = [ClientKind::Lab, ClientKind::Java, ClientKind::RedisBenchmark, ClientKind::Pgbench];
    let kinds: Vec<(ClientKind, Vec<&str>)> =
        all.map(|kind| (kind, measured(kind))).into_iter().filter(|(_, targets)| !targets.is_empty()).collect();
    if kinds.len() > 1 {
        let each: Vec<String> =
            kinds.iter().map(|(kind, targets)| format!("{}: {}", kind.text(), targets.join(", "))).collect();
        said.push(format!("{}. {UNLIKE_CLIENTS}", each.join("; ")));
    }
    for (kind, targets) in &kinds {
        if matches!(kind, ClientKind::RedisBenchmark | ClientKind::Pgbench) {
            let (client, targets) = (kind.text(), targets.join(", "));
            said.push(format!(
                "{targets}: {client} judges no answers but errors; what is stored was looked at afterwards"
            ));
        }
    }
    let java = measured(ClientKind::Java);
    if !java.is_empty() && run.load.warm_up_seconds < WARM_UP_MIN {
        said.push(format!(
            "a JVM compiles what it runs often: {} had a warm-up of {} s, and are faster after {WARM_UP_MIN} s or more",
            java.join(", "),
            run.load.warm_up_seconds
        ));
    }
    said
}

/// What a reader must know of one target.
pub(crate) fn about(run: &Run, target: &str) -> Vec<String> {
    let rows: Vec<(String, Case)> = run.cells().into_iter().filter(|(name, _)| name == target).collect();
    of_rows(run, &rows)
}

/// What must be known of some rows of the table; what is true of many of them is said once.
fn of_rows(run: &Run, rows: &[(String, Case)]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (target, case) in rows {
        remarks.extend(faults(run, target, case).into_iter().map(|said| labelled(target, case, &said)));
    }
    for (share, said) in SHARES {
        let found: Vec<(&str, &Case, f64)> =
            rows.iter().filter_map(|(target, case)| Some((&**target, case, share(run, target, case)?))).collect();
        if found.len() <= APART_MAX {
            remarks.extend(found.iter().map(|(target, case, share)| labelled(target, case, &said(&percent(*share)))));
        } else {
            let least = found.iter().map(|(_, _, share)| *share).fold(f64::INFINITY, f64::min);
            let most = found.iter().map(|(_, _, share)| *share).fold(0.0, f64::max);
            let shares = format!("{} to {}", percent(least), percent(most));
            remarks.push(format!("{} of {} rows: {}", found.len(), rows.len(), said(&shares)));
        }
    }
    remarks
}

/// What the harness costs by itself with each kind of client, in the first case that it was measured in; the table has the others.
pub(crate) fn harness(run: &Run) -> Vec<String> {
    [HARNESS, HARNESS_JAVA, HARNESS_FOREIGN].into_iter().filter_map(|harness| harness_alone(run, harness)).collect()
}

fn harness_alone(run: &Run, harness: &str) -> Option<String> {
    run.load.cases().iter().find_map(|case| {
        let figures = MEASURES.iter().take(4).filter_map(|measure| {
            let figure = Figure::of(*measure, run.of(harness, case))?;
            Some(format!("{} {}", measure.name(), figure.shown()))
        });
        let figures: Vec<String> = figures.collect();
        (!figures.is_empty()).then(|| format!("the harness alone ({harness}, {case}): {}", figures.join(", ")))
    })
}

/// What is wrong or missing of one target in one case.
fn faults(run: &Run, target: &str, case: &Case) -> Vec<String> {
    let all: Vec<&Measurement> = run.of(target, case).collect();
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
    said
}

/// So many rows have a line of their own for what may be true of all of them.
const APART_MAX: usize = 2;

/// The share of cores that something had in one row, if it was too much.
type Share = fn(&Run, &str, &Case) -> Option<f64>;

/// How a share is said.
type Said = fn(&str) -> String;

/// What had too much of the cores, and how that is said.
const SHARES: [(Share, Said); 2] = [
    (client, |share| {
        format!("the client used {share} of its cores, so these figures are as much its own as the server's")
    }),
    (disturbance, |share| format!("DISTURBED: other programs used {share} of the machine's cores")),
];

fn labelled(target: &str, case: &Case, said: &str) -> String {
    format!("{target}, {case}: {said}")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The share of its cores that the client used, if it held the server up.
fn client(run: &Run, target: &str, case: &Case) -> Option<f64> {
    run.of(target, case).filter_map(|one| client_share(run, one)).reduce(f64::max).filter(|share| *share > BUSY)
}

/// The share of the machine that other programs used while a target was measured, if it was more than a little.
fn disturbance(run: &Run, target: &str, case: &Case) -> Option<f64> {
    disturbed(run, run.of(target, case))
}

/// Likewise in any of these measurements of a run.
pub(crate) fn disturbed<'a>(run: &Run, all: impl Iterator<Item = &'a Measurement>) -> Option<f64> {
    let share =
        |one: &Measurement| Some(one.other_cpu_seconds? / one.measured_seconds / f64::from(run.machine.cores.max(1)));
    all.filter_map(share).reduce(f64::max).filter(|share| *share > DISTURBED)
}

/// The share that the client used of the cores that it could use: threads of the lab use no more than they are, a JVM has others.
pub(crate) fn client_share(run: &Run, one: &Measurement) -> Option<f64> {
    let cores = run.load.client_cores.as_deref().map_or(run.machine.cores as usize, cores::count);
    let cores = match run.target(&one.target).map(|target| target.client) {
        Some(ClientKind::Java) => cores,
        // One thread, however many connections.
        Some(ClientKind::RedisBenchmark | ClientKind::Pgbench) => 1,
        Some(ClientKind::Lab) | None => cores.min(one.threads as usize).max(1),
    };
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
    fn what_is_true_of_many_rows_is_said_once() {
        let mut run = run(&["redis", "ashlar"], &[1, 2]);
        for (one, share) in run.measurements.iter_mut().step_by(2).zip([6.0, 2.0, 3.0, 9.0]) {
            one.other_cpu_seconds = Some(share);
        }
        assert_eq!(
            of(&run),
            [
                "redis, 1 thread: DISTURBED: other programs used 60 % of the machine's cores",
                "redis, 2 threads: DISTURBED: other programs used 90 % of the machine's cores"
            ]
        );
        run.measurements
            .iter_mut()
            .for_each(|one| one.other_cpu_seconds = Some(one.other_cpu_seconds.unwrap().max(2.0)));
        assert_eq!(of(&run), ["4 of 4 rows: DISTURBED: other programs used 20 % to 90 % of the machine's cores"]);
        assert_eq!(
            about(&run, "ashlar"),
            [
                "ashlar, 1 thread: DISTURBED: other programs used 20 % of the machine's cores",
                "ashlar, 2 threads: DISTURBED: other programs used 20 % of the machine's cores"
            ]
        );
    }

    #[test]
    fn a_disturbance_of_many_queries_is_said_once() {
        let mut run = run(&["ashlar", "duckdb", "chdb"], &[1]);
        run.load.queries = vec!["q01".into(), "q02".into()];
        for one in &mut run.measurements {
            one.query = Some(format!("q0{}", one.repetition));
            one.other_cpu_seconds = Some(if one.repetition == 1 { 4.0 } else { 0.1 });
        }
        let said = of(&run);
        assert_eq!(said, ["3 of 6 rows: DISTURBED: other programs used 40 % to 40 % of the machine's cores"]);
    }

    #[test]
    fn clients_that_cost_more_are_named() {
        let mut run = run(&["ashlar", "geode"], &[8]);
        let said = |run: &Run| of(run).join("\n");
        assert!(!said(&run).contains("Java"));
        run.targets[1].client = ClientKind::Java;
        let all = said(&run);
        assert!(all.contains("threads of the lab: ashlar; a client in Java: geode. What a client costs"), "{all}");
        assert!(all.contains("geode had a warm-up of 1 s"), "{all}");
        run.load.warm_up_seconds = 30;
        run.targets[0].client = ClientKind::Java;
        assert!(!said(&run).contains("client"), "{}", said(&run));
    }

    #[test]
    fn what_flatters_is_said() {
        let mut run = run(&["redis", "noop"], &[8]);
        assert_eq!(of(&run), [""; 0]);
        let alone = harness(&run).pop().unwrap();
        assert!(
            alone.starts_with("the harness alone (noop, 8 threads): throughput 1.60 K/s, mean latency "),
            "{alone}"
        );
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
        ] {
            assert!(said.contains(part), "{part} is not in\n{said}");
        }
    }
}

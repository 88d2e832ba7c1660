//! What a reader must know to judge the figures of a run: what is missing, wrong, or not the server's doing.
//!
//! Shown at the end of a run, on the pages of a report, and with a comparison those about its targets.

use crate::cores;
use crate::record::measure::{MEASURES, median};
use crate::record::{Case, Measurement, Run, RunState, TargetState};

/// A client that used more than this share of its cores held the server up.
const BUSY: f64 = 0.9;

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
    for (target, case) in run.cells() {
        remarks.extend(about(run, &target, &case));
    }
    let cases = run.load.cases();
    // Of many queries it is said once.
    let by_query: Vec<Option<f64>> = run
        .cells()
        .iter()
        .filter(|(_, case)| case.query.is_some())
        .map(|(target, case)| disturbance(run, target, case))
        .collect();
    if let Some(most) = by_query.iter().copied().flatten().reduce(f64::max) {
        remarks.push(format!(
            "DISTURBED: other programs used up to {:.0} % of the machine's cores, and too much in {} of {} lines",
            most * 100.0,
            by_query.iter().flatten().count(),
            by_query.len()
        ));
    }
    let sound = |case| run.of("noop", case).filter(|one| one.is_sound());
    if let Some(case) = cases.iter().find(|case| sound(case).next().is_some()) {
        let figures = MEASURES.iter().take(4).filter_map(|measure| {
            let figures: Vec<f64> = sound(case).filter_map(|one| measure.of(one)).collect();
            (!figures.is_empty()).then(|| format!("{} {}", measure.name(), measure.shown(median(&figures))))
        });
        let figures: Vec<String> = figures.collect();
        remarks.push(format!("the harness alone (noop, {case}): {}", figures.join(", ")));
    }
    remarks
}

/// What a reader must know of one target in one case.
pub(crate) fn about(run: &Run, target: &str, case: &Case) -> Vec<String> {
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
    if let Some(share) = all.iter().filter_map(|one| client_share(run, one)).reduce(f64::max).filter(|s| *s > BUSY) {
        said.push(format!(
            "the client used {:.0} % of its cores, so these figures are as much its own as the server's",
            share * 100.0
        ));
    }
    if let Some(share) = disturbance(run, target, case).filter(|_| case.query.is_none()) {
        said.push(format!("DISTURBED: other programs used {:.0} % of the machine's cores", share * 100.0));
    }
    said.into_iter().map(|said| format!("{target}, {case}: {said}")).collect()
}

/// The share of the machine that other programs used while a target was measured, if it was more than a little.
fn disturbance(run: &Run, target: &str, case: &Case) -> Option<f64> {
    let share =
        |one: &Measurement| Some(one.other_cpu_seconds? / one.measured_seconds / f64::from(run.machine.cores.max(1)));
    run.of(target, case).filter_map(share).reduce(f64::max).filter(|share| *share > DISTURBED)
}

/// The share that the client used of the cores that it could use: no more than it has threads.
fn client_share(run: &Run, one: &Measurement) -> Option<f64> {
    let cores = run.load.client_cores.as_deref().map_or(run.machine.cores as usize, cores::count);
    let cores = cores.min(one.threads as usize).max(1);
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
    fn a_disturbance_of_many_queries_is_said_once() {
        let mut run = run(&["ashlar", "duckdb"], &[1]);
        run.load.queries = vec!["q01".into(), "q02".into()];
        for one in &mut run.measurements {
            one.query = Some(format!("q0{}", one.repetition));
            one.other_cpu_seconds = Some(if one.repetition == 1 { 4.0 } else { 0.1 });
        }
        let said = of(&run);
        assert_eq!(
            said,
            ["DISTURBED: other programs used up to 40 % of the machine's cores, and too much in 2 of 4 lines"]
        );
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

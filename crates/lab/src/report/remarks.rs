//! What a reader must know to judge the figures of a run: what is missing, wrong, or not the server's doing.
//!
//! Shown at the end of a run, on the pages of a report, and with a comparison those about its targets.

use crate::cores;
use crate::record::measure::{MEASURES, Measure, median};
use crate::record::{KindRecord, Measurement, Run, RunState, TargetState};

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
    for (target, threads) in run.cells() {
        remarks.extend(about(run, &target, threads));
    }
    let sound = |threads: u32| run.of("noop", threads).filter(|one| one.is_sound());
    if let Some(threads) = run.load.threads.iter().find(|threads| sound(**threads).next().is_some()) {
        let figures = MEASURES.iter().take(4).filter_map(|measure| {
            let figures: Vec<f64> = sound(*threads).filter_map(|one| measure.of(one)).collect();
            (!figures.is_empty()).then(|| format!("{} {}", measure.name(), measure.shown(median(&figures))))
        });
        let figures: Vec<String> = figures.collect();
        remarks.push(format!("the harness alone (noop, {threads} threads): {}", figures.join(", ")));
    }
    remarks
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
    said.extend(kinds(&all));
    said.extend(parts(&all));
    if let Some(share) = disturbance(run, target, threads) {
        said.push(format!("DISTURBED: other programs used {:.0} % of the machine's cores", share * 100.0));
    }
    said.into_iter().map(|said| format!("{target}, {threads} threads: {said}")).collect()
}

/// How often each kind of operations was done, and how long it took.
fn kinds(all: &[&Measurement]) -> Option<String> {
    let sound: Vec<&&Measurement> = all.iter().filter(|one| one.is_sound()).collect();
    let names = sound.first()?.kinds.iter().map(|kind| kind.name.as_str());
    let said = names.map(|name| {
        let of = |figure: &dyn Fn(&KindRecord) -> f64| {
            let figures = sound.iter().filter_map(|one| one.kinds.iter().find(|kind| kind.name == name));
            median(&figures.filter(|kind| kind.operations > 0).map(figure).collect::<Vec<f64>>())
        };
        let per_minute: Vec<f64> = sound.iter().filter_map(|one| one.per_minute(name)).collect();
        let milliseconds = |us: f64| if us.is_nan() { "-".to_owned() } else { format!("{:.1} ms", us / 1000.0) };
        let (p50, p99) = (of(&|kind| kind.latency.p50_us), of(&|kind| kind.latency.p99_us));
        format!("{name} {:.0}/min, p50 {}, p99 {}", median(&per_minute), milliseconds(p50), milliseconds(p99))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Which part of the server's CPU time each of its processes had.
fn parts(all: &[&Measurement]) -> Option<String> {
    let sound: Vec<&&Measurement> = all.iter().filter(|one| one.is_sound()).collect();
    let names = sound.first()?.server_parts.iter().map(|part| part.name.as_str());
    let said = names.map(|name| {
        let per_operation = |one: &&&Measurement| {
            let part = one.server_parts.iter().find(|part| part.name == name)?;
            Some(part.cpu_seconds * 1e6 / (one.operations_per_second * one.measured_seconds))
        };
        let figures: Vec<f64> = sound.iter().filter_map(per_operation).collect();
        format!("{name} {}", Measure::CpuPerOperation.shown(median(&figures)))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("server CPU per operation: {}", said.join(", ")))
}

/// The share of the machine that other programs used while a target was measured, if it was more than a little.
fn disturbance(run: &Run, target: &str, threads: u32) -> Option<f64> {
    let share =
        |one: &Measurement| Some(one.other_cpu_seconds? / one.measured_seconds / f64::from(run.machine.cores.max(1)));
    run.of(target, threads).filter_map(share).reduce(f64::max).filter(|share| *share > DISTURBED)
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
    fn what_flatters_is_said() {
        let mut run = run(&["redis", "noop"], &[8]);
        assert_eq!(of(&run).len(), 5, "the kinds and the processes of both, and the harness alone");
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

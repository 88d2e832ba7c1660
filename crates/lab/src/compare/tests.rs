//! Words about synthetic runs, whose true difference is known.

use std::sync::LazyLock;

use super::*;
use crate::numbers::Numbers;
use crate::record::tests::run;

const OPTIONS: Options = Options { confidence: 0.99, least: 0.01 };

/// A standard normal number (Box and Muller, 1958).
fn normal(numbers: &mut Numbers) -> f64 {
    let radius = (-2.0 * (1.0 - numbers.fraction()).ln()).sqrt();
    radius * (std::f64::consts::TAU * numbers.fraction()).cos()
}

/// A run of so many repetitions whose every figure has noise of its own, tails more than the middle; times are `slowness`
/// times as long.
fn synthetic(seed: u64, repetitions: u32, noise: f64, slowness: f64) -> Side {
    synthetic_sweep(&[8], seed, repetitions, noise, slowness)
}

/// Likewise, each repetition with these numbers of threads.
fn synthetic_sweep(threads: &[u32], seed: u64, repetitions: u32, noise: f64, slowness: f64) -> Side {
    // Its histograms are not looked at, and take long to make and to copy.
    static EXAMPLE: LazyLock<(Run, Measurement)> = LazyLock::new(|| {
        let mut run = run(&["ashlar"], &[8]);
        let one = Measurement { histogram: String::new(), ..run.measurements[0].clone() };
        run.measurements.clear();
        (run, one)
    });
    let mut numbers = Numbers::new(seed);
    let mut run = EXAMPLE.0.clone();
    run.load.threads = threads.to_vec();
    // The whole repetition was on a good or bad day, and each figure has its own luck.
    let mut day = 0.0;
    for (place, repetition) in
        (1..=repetitions).flat_map(|repetition| (0..threads.len()).map(move |at| (at, repetition)))
    {
        if place == 0 {
            day = noise * normal(&mut numbers);
        }
        let mut vary = |figure: f64, share: f64| figure * (day + noise * share * normal(&mut numbers)).exp();
        let mut one = EXAMPLE.1.clone();
        one.threads = threads[place];
        one.repetition = repetition;
        one.operations = 500_000;
        one.operations_per_second = 100_000.0 / vary(slowness, 0.3);
        one.latency.mean_us = vary(80.0 * slowness, 0.3);
        one.latency.p50_us = vary(70.0 * slowness, 0.5);
        one.latency.p90_us = vary(120.0 * slowness, 0.5);
        one.latency.p99_us = vary(300.0 * slowness, 1.0);
        one.latency.p999_us = vary(900.0 * slowness, 3.0);
        one.server_cpu_seconds = Some(vary(4.0 * slowness, 0.5));
        one.server_memory_peak_bytes = Some(200 << 20);
        run.measurements.push(one);
    }
    Side { run, folder: "synthetic".into(), target: "ashlar".into() }
}

fn words(comparison: &Comparison) -> (Word, Vec<(Measure, Word)>) {
    match comparison {
        Comparison::Unlike(why) => panic!("unlike: {why:?}"),
        Comparison::Alike { rows, word, .. } => (*word, rows.iter().map(|row| (row.measure, row.word)).collect()),
    }
}

#[test]
fn identical_runs_differ_in_about_one_of_a_hundred_trials() {
    // Ninety-nine of a hundred are promised, of which 2,000 trials may miss a half by chance (a little over two deviations).
    const TRIALS: u64 = 2000;
    for (threads, repetitions, noise) in
        [(&[8][..], 3, 0.02), (&[8], 5, 0.01), (&[8], 5, 0.05), (&[8], 10, 0.03), (&[2, 4, 8], 5, 0.03)]
    {
        let side = |seed| synthetic_sweep(threads, seed, repetitions, noise, 1.0);
        let same = (0..TRIALS).filter(|trial| {
            let comparison = compare(&side(2 * trial), &side(2 * trial + 1), OPTIONS).unwrap();
            words(&comparison).0 == Word::NoDifference
        });
        let same = same.count() as f64 / TRIALS as f64;
        assert!(same >= 0.985, "{same} with {threads:?} threads, {repetitions} repetitions and noise {noise}");
    }
}

#[test]
fn a_target_that_is_five_percent_slower_is_called_slower() {
    let slower = (0..100).filter(|trial| {
        let (base, test) = (synthetic(2 * trial, 5, 0.008, 1.0), synthetic(2 * trial + 1, 5, 0.008, 1.05));
        words(&compare(&base, &test, OPTIONS).unwrap()).0 == Word::Slower
    });
    assert!(slower.count() >= 95);
    let (base, test) = (synthetic(1, 10, 0.01, 1.0), synthetic(2, 10, 0.01, 1.05));
    let (word, rows) = words(&compare(&base, &test, OPTIONS).unwrap());
    assert_eq!(word, Word::Slower);
    assert_eq!(rows[0], (Measure::Throughput, Word::Slower));
    assert_eq!(rows[1], (Measure::Mean, Word::Slower));
    assert_eq!(rows[6], (Measure::CpuPerOperation, Word::More));
    assert_eq!(rows[7], (Measure::MemoryPeak, Word::NoDifference));
    // And the other way round it is faster.
    assert_eq!(words(&compare(&test, &base, OPTIONS).unwrap()).0, Word::Faster);
}

#[test]
fn what_is_sure_but_tiny_is_no_difference() {
    let (base, mut test) = (synthetic(1, 5, 0.0, 1.0), synthetic(1, 5, 0.0, 1.0));
    for one in &mut test.run.measurements {
        one.server_memory_peak_bytes = Some((200 << 20) + (1 << 20));
    }
    assert_eq!(words(&compare(&base, &test, OPTIONS).unwrap()).0, Word::NoDifference);
}

#[test]
fn unlike_runs_are_refused_with_what_differs() {
    let base = synthetic(1, 5, 0.01, 1.0);
    let check = |change: &dyn Fn(&mut Run), said: &str| {
        let mut test = synthetic(2, 5, 0.01, 1.0);
        change(&mut test.run);
        match compare(&base, &test, OPTIONS).unwrap() {
            Comparison::Unlike(why) => assert!(why.len() == 1 && why[0].starts_with(said), "{why:?}"),
            Comparison::Alike { .. } => panic!("not noticed: {said}"),
        }
    };
    check(&|run| run.machine.cpu = "another".into(), "processor: ");
    check(&|run| run.machine.kernel = "another".into(), "kernel: ");
    check(&|run| run.machine.memory_bytes *= 2, "memory: ");
    check(&|run| run.lab_version = "another".into(), "lab: ");
    check(&|run| run.lab_debug_assertions = true, "lab: ");
    check(&|run| run.workload.name = "kv-put".into(), "workload: ");
    check(&|run| drop(run.workload.parameters.insert("keys".into(), 5.into())), "sizes: ");
    check(&|run| run.load.rate_per_second = Some(5.0), "load: ");
    check(&|run| run.load.measured_seconds = 77, "load: ");
    // What figures do not depend on.
    let mut test = synthetic(2, 5, 0.01, 1.0);
    test.run.seed += 1;
    test.run.load.repetitions = 9;
    test.run.machine.memory_bytes += 4096;
    assert!(matches!(compare(&base, &test, OPTIONS).unwrap(), Comparison::Alike { .. }));
}

#[test]
fn unsound_repetitions_are_left_out_and_too_few_are_refused() {
    let base = synthetic(1, 5, 0.01, 1.0);
    let mut test = synthetic(2, 3, 0.01, 1.0);
    test.run.measurements[0].unsent = 1;
    assert_eq!(compare(&base, &test, OPTIONS).unwrap().is_worse(), Some(false));
    test.run.measurements[1].state = crate::record::MeasurementState::Partial;
    let refusal = compare(&base, &test, OPTIONS).unwrap_err().to_string();
    assert!(refusal.contains("1 sound repetitions of 3 with 8 threads"), "{refusal}");
}

#[test]
fn nothing_is_sure_of_a_side_with_wrong_answers() {
    let right = synthetic(1, 5, 0.01, 1.0);
    let mut wrong = synthetic(2, 5, 0.01, 1.0);
    wrong.run.measurements[0].errors = 1;
    assert_eq!(compare(&right, &wrong, OPTIONS).unwrap().is_worse(), None);
    assert_eq!(compare(&wrong, &right, OPTIONS).unwrap().is_worse(), None);
}

#[test]
fn what_may_mislead_is_noted() {
    let base = synthetic(1, 5, 0.01, 1.0);
    let mut test = synthetic(2, 5, 0.01, 1.0);
    assert_eq!(notes(&base, &test), [""; 0]);
    test.run.started_at = "2026-11-23T05:57:42Z".into();
    test.run.lab_build = "demo".into();
    test.run.targets[0].configuration.push("maxmemory 5".into());
    test.run.targets[0].client = crate::record::ClientKind::Java;
    let said = notes(&base, &test).join("\n");
    for part in [
        "made at 2026-11-22T05:57:42Z and 2026-11-23T05:57:42Z: what drifted in between is not in the interval",
        "the lab was built as figures and demo",
        "the base was loaded by threads of the lab, the test by a client in Java. What a client costs",
        "ashlar was configured differently: only the base has nothing, only the test has maxmemory 5",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

#[test]
fn a_target_that_is_an_address_can_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["run", "with:colon"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    let (run, colon, both) = (path("run"), path("with:colon"), path("with:colon:redis"));
    assert_eq!(split(&format!("{run}:db.example:6379")), (&run[..], Some("db.example:6379")));
    assert_eq!(split(&run), (&run[..], None));
    assert_eq!(split(&colon), (&colon[..], None));
    assert_eq!(split(&both), (&colon[..], Some("redis")));
    assert_eq!(split("nowhere:redis"), ("nowhere:redis", None));
}

#[test]
fn measures_that_one_side_lacks_are_left_out() {
    let base = synthetic(1, 5, 0.01, 1.0);
    let mut test = synthetic(2, 5, 0.01, 1.0);
    test.run.measurements.iter_mut().for_each(|one| one.server_cpu_seconds = None);
    let (_, rows) = words(&compare(&base, &test, OPTIONS).unwrap());
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|(measure, _)| *measure != Measure::CpuPerOperation));
    // And it is said what it takes to have them.
    test.run.measurements.iter_mut().for_each(|one| one.operations = 5000);
    let Comparison::Alike { missing, .. } = compare(&base, &test, OPTIONS).unwrap() else { unreachable!() };
    let named: Vec<Measure> = missing.iter().map(|(measure, _)| *measure).collect();
    assert_eq!(named, [Measure::P999, Measure::CpuPerOperation, Measure::AllocatedPerOperation]);
    assert_eq!(missing[0].1, "needs 10,000 operations in each repetition");
}

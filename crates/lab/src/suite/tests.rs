//! Suites name workloads, sizes, targets and steps that there are, and rows show what was measured.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::drive::{beside_of, check, filled_in, seconds};
use super::figures::Shape;
use super::select::{Measured, Steps};
use super::*;
use crate::record::tests::run;
use crate::record::{KindRecord, LatencySummary, Run};

const LENGTHS: [Length; 3] = [Length::Quick, Length::Short, Length::Full];

#[test]
fn every_step_can_be_run_and_every_row_is_of_steps() {
    for suite in SUITES {
        let mut groups = BTreeSet::new();
        for group in suite.groups {
            assert!(groups.insert(group.name), "{} is there twice", group.name);
            assert!(!group.rows.is_empty() && !group.steps.is_empty(), "{}", group.name);
            let steps: BTreeSet<&str> = group.steps.iter().map(|step| step.name).collect();
            assert_eq!(steps.len(), group.steps.len(), "{}", group.name);
            for length in LENGTHS {
                for step in group.steps {
                    check(step, length, group.steps.len() == 1)
                        .unwrap_or_else(|error| panic!("{} {} {}: {error:#}", suite.name, group.name, step.name));
                }
                for row in group.rows {
                    assert!(row.of.iter().all(|step| steps.contains(step)), "{}", row.what);
                    assert!(!filled_in(row.what, length).contains(['{', '}']), "{}", row.what);
                }
            }
        }
    }
}

#[test]
fn the_short_length_is_of_half_an_hour_and_the_quick_one_of_minutes() {
    let bench = SUITES.iter().find(|suite| suite.name == "bench").unwrap();
    let lengths = LENGTHS.map(|length| seconds(bench, length).unwrap());
    assert!(lengths[0] < 300.0 && lengths[1] < 1800.0 && lengths[2] > 3600.0, "{lengths:?}");
}

#[test]
fn the_query_beside_has_as_many_rows_as_it_gets_through_in_five_seconds() {
    let bench = SUITES.iter().find(|suite| suite.name == "bench").unwrap();
    let latency = bench.groups.iter().find(|group| group.name == "latency").unwrap();
    let busy = latency.steps.iter().find(|step| step.name == "busy").unwrap();
    let mut run = run(&["ashlar"], &[8]);
    run.workload.parameters = serde_json::from_value(json!({"beside_rows": 1_000_000})).unwrap();
    let latency = LatencySummary { mean_us: 800_000.0, ..LatencySummary::default() };
    for one in &mut run.measurements {
        one.beside = Some(KindRecord { name: "analytic query".to_owned(), operations: 2, retries: 0, latency });
    }
    let rows = |length, run: &Run| {
        let words = beside_of(busy, length, run).unwrap();
        let flag = words.iter().position(|word| word == "--beside-rows").unwrap();
        words[flag + 1].clone()
    };
    assert_eq!(rows(Length::Short, &run), "6250000");
    assert_eq!(rows(Length::Quick, &run), "5000");
    let shown = Shown::Tails { names: &["busy"] };
    let found = shape(shown, &["busy"], vec![Measured { runs: vec![run.clone()], ..Measured::default() }], None);
    assert!(found.figures[0].ends_with(", queries of 800.0ms over 1.00 M rows"), "{found:?}");
    // The first query begins with the warm-up: its end is in the window too.
    for length in [Length::Short, Length::Full] {
        let words = beside_of(busy, length, &run).unwrap();
        let number = |flag: &str| {
            let place = words.iter().position(|word| word == flag).unwrap();
            words[place + 1].parse::<f64>().unwrap()
        };
        assert!(number("--warm-up") + number("--seconds") > 1.5 * length.beside_seconds().unwrap(), "{words:?}");
    }
    // One that asks nothing beside knows nothing of it.
    run.measurements[0].beside = None;
    assert!(beside_of(busy, Length::Short, &run).is_err());
}

#[test]
fn sizes_of_texts_are_those_of_the_length() {
    assert_eq!(filled_in("{keys} keys, {churn} times", Length::Full), "1 M keys, 20 times");
    assert_eq!(filled_in("nothing", Length::Short), "nothing");
}

#[test]
fn tables_of_hashes_have_all_cores_and_the_short_length_is_below_twenty_minutes() {
    let hash = SUITES.iter().find(|suite| suite.name == "hash").unwrap();
    for step in hash.groups.iter().flat_map(|group| group.steps) {
        assert!(step.words.ends_with(" --server-cores all"), "{}", step.words);
    }
    let lengths = LENGTHS.map(|length| seconds(hash, length).unwrap());
    assert!(lengths[0] < 300.0 && lengths[1] < 1200.0, "{lengths:?}");
}

/// What a target used for a query: resident bytes at most and with the data, bytes as it says itself, and the time.
struct Used {
    target: &'static str,
    peak: u64,
    loaded: u64,
    engine: Option<u64>,
    mean_us: f64,
}

const MIB: u64 = 1 << 20;

fn used(target: &'static str, engine: Option<u64>) -> Used {
    Used { target, peak: 430 * MIB, loaded: 400 * MIB, engine, mean_us: 70_000.0 }
}

/// A step in which these were asked a query, of a workload with these numbers.
fn asked(query: &str, parameters: Value, all: &[Used]) -> Measured {
    let names: Vec<&str> = all.iter().map(|used| used.target).collect();
    let mut run = run(&names, &[1]);
    run.workload.parameters = serde_json::from_value(parameters).unwrap();
    for one in &mut run.measurements {
        let used = all.iter().find(|used| used.target == one.target).unwrap();
        one.query = Some(query.to_owned());
        one.server_memory_peak_bytes = Some(used.peak);
        // The half of what a query added is pages of files.
        one.server_memory_peak_unfiled_bytes = Some((used.peak + used.loaded) / 2);
        one.server_memory_loaded_bytes = Some(used.loaded);
        one.server_memory_loaded_unfiled_bytes = Some(used.loaded);
        one.engine_memory_bytes = used.engine;
        one.latency.mean_us = used.mean_us;
    }
    Measured { runs: vec![run], ..Measured::default() }
}

/// A row of these steps.
fn shape(shown: Shown, of: &'static [&'static str], measured: Vec<Measured>, keys: Option<&[u32]>) -> Shape {
    let steps: Steps = of.iter().copied().zip(measured).collect();
    figures::of(&Row { what: "", wanted: "", of, shown }, &steps, keys).unwrap()
}

#[test]
fn memory_is_judged_above_the_data_and_beside_the_least_and_the_fastest() {
    let duckdb = Used { peak: 260 * MIB, loaded: 200 * MIB, mean_us: 80_000.0, ..used("duckdb", None) };
    // One that took nothing is the least of all.
    let chdb = Used { peak: 500 * MIB, loaded: 500 * MIB, mean_us: 35_000.0, ..used("chdb", None) };
    let measured = asked("having", json!({}), &[used("ashlar", None), duckdb, chdb]);
    let found = shape(Shown::Peak { query: "having" }, &["groups"], vec![measured], None);
    assert_eq!(
        found.figures,
        [
            "Ashlar 30 MiB above the data (15 MiB without files), 430 MiB in all, 70.0ms",
            "DuckDB 60 MiB above the data (30 MiB without files), 260 MiB in all, 80.0ms",
            "ClickHouse (chdb) 1 MiB above the data (1 MiB without files), 500 MiB in all, 35.0ms",
        ]
    );
    assert_eq!(
        found.standing,
        "memory above the data 30.00 x ClickHouse (chdb); without files 15.00 x ClickHouse (chdb); time 2.00 x ClickHouse (chdb)"
    );
}

#[test]
fn bytes_are_those_of_a_key_that_is_there() {
    for (parameters, bytes, each) in [
        // Of a thousand keys a thousand rows by chance have 632.
        (json!({"rows": 1000, "items": 1000, "unique_percent": "by chance"}), 6323, "Ashlar 10.0 B ("),
        (json!({"rows": 1000, "items": 1, "unique_percent": "by chance"}), 14, "Ashlar 14.0 B ("),
        (json!({"rows": 1000, "items": 30, "unique_percent": 60}), 8000, "Ashlar 10.0 B ("),
        (json!({"rows": 1000, "items": 30, "distinct_percent": 30}), 4200, "Ashlar 14.0 B ("),
    ] {
        let all = [used("ashlar", Some(bytes)), used("duckdb", Some(3 * bytes)), used("polars", None)];
        let measured = asked("having", parameters, &all);
        let shown = Shown::Structure { query: "having", per: "keys" };
        let found = shape(shown, &["groups"], vec![measured], None);
        assert!(found.figures[0].starts_with(each), "{found:?}");
        assert_eq!(found.standing, "DuckDB 3.00 x, Polars: it says nothing of its memory");
    }
}

#[test]
fn bytes_of_a_row_are_held_against_those_of_another_step_and_of_impala() {
    let measured = |bytes| asked("join", json!({"items": 4096}), &[used("ashlar", Some(bytes))]);
    let shown = Shown::StructureSteps { query: "join", per: "items", names: ["once", "four times"] };
    let found = shape(shown, &["once", "four"], vec![measured(8 * 4096), measured(10 * 4096)], None);
    assert!(found.figures[0].starts_with("once 8.0 B (") && found.figures[1].starts_with("four times 10.0 B ("));
    assert_eq!(found.standing, "1.25 x");

    let keys: Vec<u32> = (0..4096).collect();
    for (key_bytes, bytes, figure) in
        [(4, 13, "Ashlar 13.0 B with the key, 9.0 B without ("), (0, 9, "Ashlar 9.0 B and no key (")]
    {
        let shown = Shown::StructureOfBuckets { query: "join", per: "items", key_bytes };
        let found = shape(shown, &["hashed"], vec![measured(bytes * 4096)], Some(&keys));
        assert!(found.figures[0].starts_with(figure), "{found:?}");
        assert_eq!(found.figures[1], "Ashlar 30 MiB above the data (15 MiB without files), 430 MiB in all, 70.0ms");
        assert_eq!(found.figures[2], "Impala's filled buckets 16.0 B before, 12.0 B after");
        let filling = "Impala's tables at their most, filled by one thread as this is written: 0 MiB in ";
        assert!(found.figures[3].starts_with(filling) && found.figures[3].contains(" before, 0 MiB in "), "{found:?}");
        assert_eq!(found.standing, "0.75 x Impala's filled buckets after its change");
    }
}

#[test]
fn what_keys_cost_is_a_ratio_of_times_and_what_is_allocated_is_of_an_operation() {
    let measured = || {
        let slow = Used { mean_us: 140_000.0, ..used("ashlar", None) };
        vec![asked("join", json!({}), &[used("ashlar", None)]), asked("join", json!({}), &[slow])]
    };
    let shown = Shown::StepTimes { names: ["scattered", "dense"] };
    assert_eq!(shape(shown, &["scattered", "dense"], measured(), None).standing, "2.00 x");
    let of = |query| Shown::QueryTimes { query, names: ["scattered", "dense"] };
    assert_eq!(shape(of("join"), &["scattered", "dense"], measured(), None).standing, "2.00 x");
    assert!(!shape(of("count"), &["scattered", "dense"], measured(), None).standing.contains('x'));

    let mut measured = asked("value", json!({}), &[used("ashlar", None)]);
    for one in &mut measured.runs[0].measurements {
        let (operations, profile) = (one.operations_per_second, &mut one.profiles[0]);
        profile.kind = "allocations".to_owned();
        profile.total = (2048.0 * operations * profile.seconds) as u64;
    }
    assert_eq!(shape(Shown::Allocated, &["value"], vec![measured], None).standing, "2.00 KiB a query");
}

#[test]
fn what_a_proxy_costs_is_its_own_part() {
    let means = [60_000.0, 80_000.0, 83_000.0];
    let mut measured = asked("key", json!({}), &["postgres", "relay", "ashlar-proxy"].map(|target| used(target, None)));
    for one in &mut measured.runs[0].measurements {
        let place = ["postgres", "relay", "ashlar-proxy"].iter().position(|target| one.target == *target).unwrap();
        one.latency.mean_us = means[place];
        // Of five seconds with two hundred requests each: 0.1 and 0.15 ms for one.
        one.server_parts[0].cpu_seconds = [0.0, 0.1, 0.15][place];
        if place == 0 {
            one.server_parts.clear();
        }
    }
    let steps = Steps::from([("key", measured)]);
    let found = |shown| figures::of(&Row { what: "", wanted: "", of: &["key"], shown }, &steps, None).unwrap();
    assert_eq!(found(Shown::Added).standing, "added: null relay 20.0ms, Ashlar as a proxy 23.0ms (1.15 x)");
    let cpu = found(Shown::ProxyCpu);
    assert!(cpu.figures.len() == 2 && cpu.figures[0].starts_with("null relay 100.0us ("), "{cpu:?}");
    assert_eq!(cpu.standing, "1.50 x Ashlar as a proxy");
}

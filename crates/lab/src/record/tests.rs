//! The record comes back as it was written, and its page describes every field of it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A sound measurement.
pub(crate) fn measurement(target: &str, threads: u32, repetition: u32) -> Measurement {
    let mut latencies = histogram::empty();
    for place in 1..=1000u64 {
        latencies.saturating_record(50_000 + place * place + u64::from(repetition));
    }
    Measurement {
        target: target.to_owned(),
        threads,
        query: None,
        repetition,
        state: MeasurementState::Complete,
        reason: None,
        measured_seconds: 5.0,
        operations: 1000,
        operations_per_second: 200.0 * f64::from(threads),
        completed_per_second: vec![190, 200, 210, 200, 200],
        latency_per_second: vec![SecondSummary::of(&latencies); 5],
        unsent: 0,
        errors: 0,
        first_error: None,
        refused: None,
        retries: 0,
        kinds: vec![KindRecord {
            name: "new-order".into(),
            operations: 450,
            retries: 0,
            latency: LatencySummary::of(&latencies),
        }],
        beside: None,
        latency: LatencySummary::of(&latencies),
        histogram: histogram::encode(&latencies),
        seconds_file: format!("seconds/{target}-{threads}-{repetition}.hlog"),
        server_cpu_seconds: Some(4.0),
        server_parts: vec![ServerPart { name: "relay".into(), cpu_seconds: 1.0 }],
        server_memory_peak_bytes: Some(200 << 20),
        server_memory_peak_unfiled_bytes: Some(150 << 20),
        server_memory_loaded_bytes: None,
        server_memory_loaded_unfiled_bytes: None,
        engine_memory_bytes: None,
        server_live_bytes: None,
        footprint: None,
        client_cpu_seconds: Some(2.0),
        other_cpu_seconds: Some(0.1),
        metrics_before: None,
        metrics_after: None,
        profiles: vec![ProfileRecord {
            kind: "cpu".into(),
            file: format!("profiles/{target}-{threads}-{repetition}-cpu.folded"),
            seconds: 5.0,
            total: 4_000_000_000,
        }],
    }
}

/// A run with two repetitions of each.
pub(crate) fn run(targets: &[&str], threads: &[u32]) -> Run {
    let mut measurements = Vec::new();
    for threads in threads {
        for repetition in 1..=2 {
            measurements.extend(targets.iter().map(|target| measurement(target, *threads, repetition)));
        }
    }
    Run {
        schema_version: SCHEMA_VERSION,
        lab_version: "0.1.0".into(),
        lab_build: "figures".into(),
        lab_debug_assertions: false,
        started_at: "2026-11-22T05:57:42Z".into(),
        state: RunState::Complete,
        reason: None,
        commit: Some(Commit { id: "0123456789abcdef".into(), dirty: true }),
        machine: Machine { cpu: "Some <CPU> & more".into(), cores: 2, memory_bytes: 24 << 30, kernel: "6.1".into() },
        workload: Workload {
            name: "kv-get".into(),
            question: "How fast?".into(),
            parameters: BTreeMap::from([("keys".to_owned(), 1000.into())]),
        },
        load: Load {
            mode: Mode::Closed,
            threads: threads.to_vec(),
            rate_per_second: None,
            warm_up_seconds: 1,
            measured_seconds: 5,
            repetitions: 2,
            server_cores: Some("0".into()),
            client_cores: Some("1".into()),
            profiles: Vec::new(),
            queries: Vec::new(),
        },
        seed: 1,
        targets: targets
            .iter()
            .map(|name| TargetRecord {
                name: (*name).to_owned(),
                state: TargetState::Measured,
                reason: None,
                version: Some("1.0".into()),
                program: Some("bin/server".into()),
                program_changed_at: Some("2026-11-22T05:50:00Z".into()),
                client: ClientKind::Lab,
                configuration: vec!["save \"\"".into()],
                address: Some("127.0.0.1:1".into()),
                process_id: Some(1),
            })
            .collect(),
        measurements,
    }
}

#[test]
fn a_run_comes_back_as_it_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let run = run(&["ashlar", "redis"], &[2, 4]);
    let saved = folder::Folder::create(&path).unwrap();
    saved.save(&run).unwrap();
    assert_eq!(folder::load(&path).unwrap(), run);
    assert!(folder::Folder::create(&path).err().unwrap().to_string().contains("has a run in it already"));
}

#[test]
fn what_is_wrong_in_a_repetition_is_wrong_in_its_measurements_only() {
    let mut run = run(&["ashlar", "postgres"], &[2, 4]);
    run.repetition("postgres", 2).iter_mut().for_each(|one| one.mark_wrong("sums differ"));
    for one in &run.measurements {
        let wrong = one.target == "postgres" && one.repetition == 2;
        assert_eq!((one.errors, one.first_error.is_some(), one.is_sound()), (u64::from(wrong), wrong, !wrong));
    }
    run.repetition("ashlar", 1)[0].mark_partial("not verified");
    assert_eq!(run.measurements.iter().filter(|one| one.is_sound()).count(), 8 - 2 - 1);
}

#[test]
fn what_is_no_record_of_this_version_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, said: &str| {
        std::fs::write(folder.path().join("run.json"), text).unwrap();
        let refusal = format!("{:#}", folder::load(folder.path()).unwrap_err());
        assert!(refusal.contains(said), "{refusal}");
    };
    check(
        "{\"schema_version\": 99}",
        &format!("schema version 99, and this ashlar-lab reads version {SCHEMA_VERSION}"),
    );
    check("{}", "no schema_version");
    check(&format!("{{\"schema_version\": {SCHEMA_VERSION}}}"), "damaged: missing field");
    check("not json", "damaged");
    let missing = folder::load(&folder.path().join("nowhere")).unwrap_err().to_string();
    assert!(missing.contains("is no folder of a run"), "{missing}");
}

#[test]
fn seconds_are_written_as_a_log_of_histograms() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder::Folder::create(folder.path()).unwrap();
    let mut second = histogram::empty();
    second.record_n(2_000_000, 3).unwrap();
    let seconds = vec![histogram::empty(), second.clone()];
    let parts = folder::InParts { seconds, kinds: vec![("new-order", second.clone()), ("a query", second.clone())] };
    let name = saved.save_seconds("localhost:6379-8-1", &parts).unwrap();
    assert_eq!(name, "seconds/localhost_6379-8-1.hlog");
    let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(['#', '"'])).collect();
    assert!(lines.len() == 4 && lines[1].starts_with("1.000,1.000,2.00"), "{lines:?}");
    assert!(lines[2].starts_with("Tag=new-order,0.000,2.000,2.00"), "{lines:?}");
    assert!(lines[3].starts_with("Tag=a-query,0.000,2.000,2.00"), "{lines:?}");
    for line in &lines[1..] {
        assert_eq!(histogram::decode(line.rsplit(',').next().unwrap()).unwrap(), second);
    }
}

/// Names of all fields, as `measurements[].latency.p50_us`.
fn fields(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields_of) if path != "workload.parameters" => {
            for (name, value) in fields_of {
                fields(value, &format!("{path}{}{name}", if path.is_empty() { "" } else { "." }), into);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            values.iter().for_each(|value| fields(value, &format!("{path}[]"), into));
        }
        _ => {
            into.insert(path.to_owned());
        }
    }
}

#[test]
fn the_page_describes_every_field_and_no_other() {
    let (mut present, mut run) = (BTreeSet::new(), run(&["ashlar"], &[8]));
    for one in &mut run.measurements {
        one.beside = one.kinds.first().cloned();
        let (empty_bytes, bytes) = (5 << 20, 6 << 20);
        one.footprint = Some(Footprint { entries: 1000, empty_bytes, bytes, empty_live_bytes: None, live_bytes: None });
    }
    fields(&serde_json::to_value(run).unwrap(), "", &mut present);
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/lab-run.md")).unwrap();
    let described: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned()))
        .collect();
    assert_eq!(described, present);
    assert!(page.contains(&format!("schema version {SCHEMA_VERSION}")), "the page is about another version");
}

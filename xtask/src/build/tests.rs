//! The parts of the build that are decided without running cargo.

use super::*;
use serde_json::json;

#[test]
fn the_plan_holds_the_crates_that_are_really_used_and_weighs_the_slow_ones() {
    let dep = |pkg: &str, kind: Value| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]});
    let metadata = json!({
        "packages": [
            {"id": "p1", "name": "sqlparser"}, {"id": "p2", "name": "itoa"}, {"id": "p3", "name": "windows-sys"},
            {"id": "p4", "name": "ashlar-server"}, {"id": "p5", "name": "proptest"},
        ],
        "resolve": {"nodes": [
            {"id": "p1", "deps": [dep("p2", Value::Null)]},
            {"id": "p2", "deps": []},
            {"id": "p4", "deps": [dep("p1", Value::Null), dep("p5", json!("dev"))]},
            {"id": "p5", "deps": []},
        ]},
    });
    let all = Plan::parse(&metadata, &[]);
    assert_eq!(all.weights.len(), 4, "a crate of another platform does not count");
    let slow = SLOW.iter().find(|(name, _)| *name == "sqlparser").unwrap().1;
    assert_eq!((all.weights["p1"], all.weights["p2"]), (slow, 1.0));
    let server = Plan::parse(&metadata, &["ashlar-server"]);
    assert_eq!(server.weights.len(), 3, "what only tests need does not count");
    assert!(!server.weights.contains_key("p5"));
}

#[test]
fn a_crate_counts_once_and_its_build_script_does_not_count() {
    let weights = HashMap::from([("p1".to_owned(), 2.0), ("p2".to_owned(), 3.0)]);
    let progress = Progress::new(&Plan { weights }, false);
    let message =
        |id: &str, kind: &str, fresh: bool| json!({"package_id": id, "target": {"kind": [kind]}, "fresh": fresh});
    progress.artifact(&message("p1", "custom-build", false));
    progress.artifact(&message("p1", "lib", false));
    progress.artifact(&message("p1", "bin", false));
    progress.artifact(&message("p2", "lib", true));
    let state = progress.state.lock().unwrap();
    assert_eq!((state.done.len(), state.compiled, state.fresh), (2, 2.0, 3.0));
}

#[test]
fn the_forecast_waits_until_it_can_know_something() {
    assert_eq!(time_left(Duration::from_secs(5), 50.0, 100.0), None);
    assert_eq!(time_left(Duration::from_secs(60), 1.0, 100.0), None);
    assert_eq!(time_left(Duration::from_secs(60), 60.0, 101.0), Some(Duration::from_secs(110)));
}

#[test]
fn the_readme_promises_what_the_first_line_does() {
    let [least, most] = first_build_minutes(2);
    assert!((least..=most).contains(&18), "{least} to {most}");
    let promise = format!("takes {least} to {most} minutes on two idle cores");
    assert!(include_str!("../../../README.md").contains(&promise), "{promise}");
}

#[test]
fn test_programs_are_called_what_a_person_calls_them() {
    let name = |kind: &str, target: &str, folder: &str| {
        let artifact = json!({
            "profile": {"test": true}, "executable": "/t/x", "manifest_path": format!("/r/{folder}/Cargo.toml"),
            "target": {"kind": [kind], "name": target},
        });
        test_binary(&artifact).unwrap().name
    };
    assert_eq!(name("lib", "ashlar_store", "crates/store"), "store");
    assert_eq!(name("bin", "ashlar-lab", "crates/lab"), "lab (ashlar-lab)");
    assert_eq!(name("bin", "xtask", "xtask"), "xtask");
    assert_eq!(name("test", "it", "tests"), "it");
    assert!(test_binary(&json!({"profile": {"test": false}, "executable": "/t/x"})).is_none());
}

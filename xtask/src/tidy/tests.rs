//! Each rule: a tree that keeps it, and a tree that breaks it.

use super::*;

const PAGE: &str = "# Map\n\n| crate | what | uses |\n|---|---|---|\n| `crates/base` | ids | nothing |\n| `crates/store` | rows | `base` |\n";
const BASE: (&str, &str) = ("crates/base/Cargo.toml", "[package]\nname = \"ashlar-base\"\n[lints]\nworkspace = true\n");
const STORE: (&str, &str) = (
    "crates/store/Cargo.toml",
    "[package]\nname = \"ashlar-store\"\n[lints]\nworkspace = true\n[dependencies]\nashlar-base.workspace = true\n",
);

#[track_caller]
fn holds(rule: fn(&Tree) -> Vec<String>, files: &[(&str, &str)]) {
    assert_eq!(rule(&Tree::of(files)), Vec::<String>::new());
}

/// The rule finds exactly one problem, and its line contains `what`.
#[track_caller]
fn breaks(rule: fn(&Tree) -> Vec<String>, files: &[(&str, &str)], what: &str) {
    let problems = rule(&Tree::of(files));
    assert!(problems.len() == 1 && problems[0].contains(what), "{problems:?}");
}

#[test]
fn the_map_must_equal_the_tree() {
    holds(architecture::map, &[("ARCHITECTURE.md", PAGE), BASE, STORE]);
    breaks(architecture::map, &[("ARCHITECTURE.md", PAGE), BASE], "`crates/store`, which is no crate");
    let more = ("crates/query/Cargo.toml", "[package]\n");
    breaks(architecture::map, &[("ARCHITECTURE.md", PAGE), BASE, STORE, more], "lacks `crates/query`");
}

#[test]
fn dependencies_must_equal_the_table() {
    holds(architecture::directions, &[("ARCHITECTURE.md", PAGE), BASE, STORE]);
    let upwards = ("crates/base/Cargo.toml", "[dev-dependencies]\nashlar-store.workspace = true\n");
    breaks(architecture::directions, &[("ARCHITECTURE.md", PAGE), upwards, STORE], "depends on store");
    let alone = ("crates/store/Cargo.toml", "[package]\n");
    breaks(architecture::directions, &[("ARCHITECTURE.md", PAGE), BASE, alone], "which it does not");
}

#[test]
fn datafusion_stays_in_its_room() {
    let named = "//! x\nuse datafusion::prelude::*;\n";
    holds(architecture::datafusion, &[("crates/query/src/plan.rs", named)]);
    holds(architecture::datafusion, &[("crates/store/src/lib.rs", "//! Like datafusion::x.\n")]);
    breaks(architecture::datafusion, &[("crates/server/src/session.rs", named)], "session.rs:2");
    holds(architecture::datafusion, &[("crates/operators/src/join/exec.rs", named)]);
    breaks(architecture::datafusion, &[("crates/operators/src/hash_table/keys.rs", named)], "keys.rs:2");
    let manifest = "[dependencies]\ndatafusion.workspace = true\n";
    breaks(architecture::datafusion, &[("crates/server/Cargo.toml", manifest)], "depends on DataFusion");
}

#[test]
fn hash_tables_know_arrow_alone() {
    let manifest = (
        "crates/operators/Cargo.toml",
        "[dependencies]\narrow.workspace = true\ndatafusion-common.workspace = true\ntokio.workspace = true\n",
    );
    let good = "use arrow::array::Array;\nuse super::account::Account;\nuse crate::hash_table::hash::Secret;\nlet tokio_like = 1;\n";
    holds(architecture::tables, &[("crates/operators/src/hash_table/keys.rs", good), manifest]);
    // A module of the same crate may know more, and so may whoever uses them.
    let through = "//! x\nuse crate::memory::Charge;\n";
    breaks(architecture::tables, &[("crates/operators/src/hash_table/keys.rs", through), manifest], "crate::memory");
    holds(architecture::tables, &[("crates/operators/src/join/exec.rs", through), manifest]);
    let named = "//! x\nlet failed: datafusion_common::Result<()> = tokio::run();\n";
    let problems = architecture::tables(&Tree::of(&[("crates/operators/src/hash_table/a.rs", named), manifest]));
    assert_eq!(problems.len(), 2, "{problems:?}");
}

#[test]
fn a_door_imports_the_session_only() {
    let good = "use crate::session::SqlSession;\nuse ashlar_protocol::pg;\nuse crate::door::writer;\n";
    holds(architecture::doors, &[("crates/server/src/door/pgwire.rs", good)]);
    holds(architecture::doors, &[("crates/server/src/main.rs", "use crate::wiring::start;\n")]);
    breaks(architecture::doors, &[("crates/server/src/door/resp.rs", "use crate::wiring::start;\n")], "crate::wiring");
    breaks(architecture::doors, &[("crates/server/src/door/resp.rs", "use ashlar_store::Region;\n")], "ashlar_store");
}

#[test]
fn manifests_inherit() {
    holds(architecture::manifests, &[BASE, STORE]);
    breaks(architecture::manifests, &[("crates/base/Cargo.toml", "[package]\n")], "lacks [lints]");
    let own = "[lints]\nworkspace = true\n[dependencies]\nbytes = \"1\"\n";
    breaks(architecture::manifests, &[("crates/base/Cargo.toml", own)], "bytes does not come");
}

#[test]
fn a_file_says_what_it_is() {
    holds(source::headers, &[("a.rs", "//! What it is.\n")]);
    breaks(source::headers, &[("a.rs", "use std::fmt;\n")], "a.rs:1");
}

#[test]
fn long_files_are_listed_and_only_shrink() {
    let long = "//! x\n".repeat(900);
    holds(source::length, &[("a.rs", "//! x\n")]);
    breaks(source::length, &[("a.rs", &long)], "900 lines");
    holds(source::length, &[("a.rs", &long), ("xtask/ratchet.txt", "# why\n900 a.rs\n")]);
    breaks(source::length, &[("a.rs", &long), ("xtask/ratchet.txt", "899 a.rs\n")], "may only shrink");
    breaks(source::length, &[("a.rs", &long), ("xtask/ratchet.txt", "950 a.rs\n")], "write that");
    breaks(source::length, &[("a.rs", "//! x\n"), ("xtask/ratchet.txt", "950 a.rs\n")], "take it out");
    breaks(source::length, &[("xtask/ratchet.txt", "950 a.rs\n")], "does not exist");
}

#[test]
fn unfinished_marks_are_found_as_words() {
    holds(source::words, &[("a.rs", "//! The TODOS of a mastodon, debug!(x), FIXMES.\n")]);
    for mark in ["    todo!()", "// TODO: later", "// FIXME", "dbg!(x)", "#[ignore = \"slow\"]", "unimplemented!()"] {
        breaks(source::words, &[("a.rs", mark)], "a.rs:1");
    }
}

#[test]
fn tests_that_cannot_be_done_say_so_by_a_function() {
    holds(source::skips, &[("a.rs", "return skipped(\"there is no disk\");\neprintln!(\"x: licences: skipped\");\n")]);
    for line in ["eprintln!(\"skipped: {reason}\");\n", "println!(\"SKIPPED  {reason}\");\n", "eprint!(\"skipping\");"]
    {
        breaks(source::skips, &[("a.rs", line)], "a.rs:1");
    }
}

#[test]
fn sleeping_is_refused_outside_the_listed_places() {
    holds(source::sleeps, &[("a.rs", "// never sleep(1) here\n"), ("tests/src/process.rs", "thread::sleep(x);\n")]);
    breaks(source::sleeps, &[("a.rs", "std::thread::sleep(x);\n")], "a.rs:1");
    breaks(source::sleeps, &[("a.rs", "tokio::time::sleep(x).await;\n")], "a.rs:1");
}

#[test]
fn unsafe_code_has_its_rooms() {
    holds(source::unsafe_code, &[("crates/store/src/segment/vector.rs", "unsafe { x() }\n")]);
    holds(source::unsafe_code, &[("a.rs", "#![forbid(unsafe_code)] // no unsafe { }\n")]);
    breaks(source::unsafe_code, &[("crates/store/src/index.rs", "let x = unsafe { x() };\n")], "index.rs:1");
}

#[test]
fn paths_of_one_machine_are_found() {
    holds(source::machine_paths, &[("a.md", "see docs/work/x, https://a.b/home/x, $HOME/work/y")]);
    breaks(source::machine_paths, &[("a.md", "see /home/ann/ashlar")], "a.md:1");
    breaks(source::machine_paths, &[("a.rs", "\"/work/x\"")], "a.rs:1");
}

#[test]
fn packages_are_not_kept() {
    holds(source::packages, &[("data/a.parquet", ""), ("crates/base/src/jar.rs", "//! A jar.\n")]);
    breaks(source::packages, &[("driver-1.0-py3-none-any.whl", "")], "driver-1.0");
}

#[test]
fn links_are_followed() {
    let files = [
        ("docs/a.md", "[b](b.md#part) [up](../README.md) [web](https://x.y/z) [here](#part)"),
        ("docs/b.md", ""),
        ("README.md", ""),
    ];
    holds(documents::links, &files);
    breaks(documents::links, &[("docs/a.md", "[b](c.md)")], "c.md leads nowhere");
    breaks(documents::links, &[("a.md", "<img src=\"x.svg\">")], "x.svg leads nowhere");
    breaks(documents::links, &[("a.md", "[b](../../etc/passwd)")], "leads nowhere");
    holds(documents::links, &[("a.md", "```\n[b](c.md)\n```\n")]);
}

#[test]
fn named_files_and_tests_exist() {
    let code = ("crates/base/src/slot.rs", "fn slots_are_those_of_redis() {}\n");
    holds(
        documents::names,
        &[("a.md", "`crates/base/src/slot.rs::slots_are_those_of_redis`, `text/csv`, `crates/*/x`"), code],
    );
    breaks(documents::names, &[("a.md", "`crates/base/src/gone.rs`"), code], "gone.rs` does not exist");
    breaks(documents::names, &[("a.md", "`crates/base/src/slot.rs::gone`"), code], "no function gone");
}

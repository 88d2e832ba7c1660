//! Rules about the walls between the crates. Their source is the table of ARCHITECTURE.md that starts with `| crate |`:
//! first column the folder, last column the crates of ours that it uses.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Tree, code_lines, has_word};

const PAGE: &str = "ARCHITECTURE.md";

/// Crates that may name DataFusion.
const ENGINE_ROOMS: &[&str] = &["crates/functions/", "crates/operators/", "crates/query/"];

/// What lies in these and knows Arrow alone.
const TABLES: &str = "crates/operators/src/hash_table";

/// Their manifest, their name as a module, and what they may use besides the language's own.
const TABLES_MANIFEST: &str = "crates/operators/Cargo.toml";
const TABLES_MODULE: &str = "hash_table";
const TABLES_USE: &[&str] = &["arrow"];

/// What a door may import of the server: the session, its own room, and what concerns every thread of the process.
const DOOR_IMPORTS: &[&str] = &["session", "door", "shutdown"];

/// What a door may import of our other crates.
const DOOR_CRATES: &[&str] = &["ashlar_base", "ashlar_protocol", "ashlar_telemetry"];

/// The crate map equals the tree.
pub(super) fn map(tree: &Tree) -> Vec<String> {
    let written: BTreeSet<String> = table(tree).into_keys().collect();
    let present: BTreeSet<String> = manifests_of(tree).map(|(folder, _)| folder.to_owned()).collect();
    let mut problems = Vec::new();
    for folder in present.difference(&written) {
        problems.push(format!("{PAGE}: the crate table lacks `{folder}`"));
    }
    for folder in written.difference(&present) {
        problems.push(format!("{PAGE}: the crate table names `{folder}`, which is no crate"));
    }
    problems
}

/// The dependencies between our crates equal the last column of the table.
pub(super) fn directions(tree: &Tree) -> Vec<String> {
    let written = table(tree);
    let mut problems = Vec::new();
    for (folder, manifest) in manifests_of(tree) {
        let Some(allowed) = written.get(folder) else {
            continue;
        };
        let used = ours(&manifest);
        for name in used.difference(allowed) {
            problems.push(format!("{folder}/Cargo.toml: depends on {name}, which {PAGE} does not allow"));
        }
        for name in allowed.difference(&used) {
            problems.push(format!("{PAGE}: says that {folder} uses {name}, which it does not"));
        }
    }
    problems
}

/// DataFusion is named in its rooms only.
pub(super) fn datafusion(tree: &Tree) -> Vec<String> {
    let outside = |path: &str| !ENGINE_ROOMS.iter().any(|room| path.starts_with(room)) || path.starts_with(TABLES);
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| outside(path) && !path.starts_with("xtask/")) {
        for (number, line) in code_lines(text) {
            if line.contains("datafusion::") || line.contains("datafusion_") || line.contains("use datafusion") {
                let rooms = ENGINE_ROOMS.join(", ");
                problems.push(format!("{path}:{number}: DataFusion is named outside of {rooms}, or in {TABLES}"));
            }
        }
    }
    for (folder, manifest) in manifests_of(tree).filter(|(folder, _)| outside(&format!("{folder}/"))) {
        if dependencies(&manifest).iter().any(|(name, _)| name.starts_with("datafusion")) {
            problems.push(format!("{folder}/Cargo.toml: depends on DataFusion"));
        }
    }
    problems
}

/// The hash tables use Arrow and each other: no other crate, and nothing of their own crate through which they would know one.
pub(super) fn tables(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    let manifest: toml::Table = tree.text(TABLES_MANIFEST).and_then(|text| text.parse().ok()).unwrap_or_default();
    let crates: Vec<String> = dependencies(&manifest).iter().map(|(name, _)| name.replace('-', "_")).collect();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with(TABLES)) {
        for (number, line) in code_lines(text) {
            for import in after(line, "crate::").filter(|name| *name != TABLES_MODULE) {
                problems.push(format!("{path}:{number}: the hash tables use crate::{import}; they know Arrow alone"));
            }
            for name in crates.iter().filter(|name| !TABLES_USE.contains(&name.as_str())) {
                if has_word(line, name) {
                    problems.push(format!("{path}:{number}: the hash tables use {name}; they know Arrow alone"));
                }
            }
        }
    }
    problems
}

/// A door turns bytes into requests and back; everything else it asks the session for.
pub(super) fn doors(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    let is_door = |path: &str| path.starts_with("crates/server/src/door") && !path.contains("tests");
    for (path, text) in tree.ending(".rs").filter(|(path, _)| is_door(path)) {
        for (number, line) in code_lines(text) {
            for import in after(line, "crate::").filter(|name| !name.is_empty() && !DOOR_IMPORTS.contains(name)) {
                problems
                    .push(format!("{path}:{number}: a door imports crate::{import}; doors import the session only"));
            }
            for import in after(line, "ashlar_") {
                let name = format!("ashlar_{import}");
                if line.contains(&format!("{name}::")) && !DOOR_CRATES.contains(&name.as_str()) {
                    problems.push(format!("{path}:{number}: a door imports {name}; doors import the session only"));
                }
            }
        }
    }
    problems
}

/// Versions live in the workspace table, and so do the lints.
pub(super) fn manifests(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (folder, manifest) in manifests_of(tree).filter(|(folder, _)| !folder.ends_with("fuzz")) {
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
        if lints != Some(true) {
            problems.push(format!("{folder}/Cargo.toml: lacks [lints] workspace = true"));
        }
        for (name, value) in dependencies(&manifest) {
            if value.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                problems.push(format!("{folder}/Cargo.toml: {name} does not come from the workspace table"));
            }
        }
    }
    problems
}

/// The names right after each `prefix` in a line.
fn after<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(prefix).map(move |(at, _)| {
        let rest = &line[at + prefix.len()..];
        let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Folder -> crates of ours that it uses, as the page says.
fn table(tree: &Tree) -> BTreeMap<String, BTreeSet<String>> {
    let mut rows = BTreeMap::new();
    let page = tree.text(PAGE).unwrap_or("");
    let lines = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            continue;
        };
        let folder = quoted(first).next().unwrap_or("").to_owned();
        rows.insert(folder, quoted(last).map(str::to_owned).collect());
    }
    rows
}

/// The parts of a text that stand between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Folder and manifest of every crate in the tree.
fn manifests_of(tree: &Tree) -> impl Iterator<Item = (&str, toml::Table)> {
    tree.ending("Cargo.toml").filter_map(|(path, text)| {
        let folder = path.strip_suffix("/Cargo.toml")?;
        Some((folder, text.parse().ok()?))
    })
}

/// Name and value of every dependency, of all three kinds.
fn dependencies(manifest: &toml::Table) -> Vec<(&String, &toml::Value)> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|kind| manifest.get(*kind)?.as_table())
        .flatten()
        .collect()
}

/// The dependencies that are ours, without the prefix.
fn ours(manifest: &toml::Table) -> BTreeSet<String> {
    let names = dependencies(manifest).into_iter().filter_map(|(name, _)| name.strip_prefix("ashlar-"));
    names.map(str::to_owned).collect()
}

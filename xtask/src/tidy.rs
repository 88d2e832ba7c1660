//! Tidy: the rules of this repository that no compiler checks, each one a function from the tree to its problems.
//!
//! Run by `./x test` and `./x check`. Reads files and nothing else; every rule has a test that shows it firing.

mod architecture;
mod documents;
mod source;
mod tree;

use std::path::Path;

use anyhow::Result;

use tree::Tree;

/// A rule: its name, what it demands, and the function that finds what breaks it.
struct Rule {
    name: &'static str,
    find: fn(&Tree) -> Vec<String>,
}

const RULES: &[Rule] = &[
    Rule { name: "the map in ARCHITECTURE.md names every crate", find: architecture::map },
    Rule { name: "crates depend on each other as ARCHITECTURE.md says", find: architecture::directions },
    Rule { name: "DataFusion is named in query only", find: architecture::datafusion },
    Rule { name: "hash tables know Arrow alone", find: architecture::tables },
    Rule { name: "doors import the session only", find: architecture::doors },
    Rule { name: "manifests take versions and lints from the workspace", find: architecture::manifests },
    Rule { name: "source files say what they are", find: source::headers },
    Rule { name: "long files do not grow", find: source::length },
    Rule { name: "no unfinished marks", find: source::words },
    Rule { name: "tests that cannot be done are counted", find: source::skips },
    Rule { name: "no sleeping as synchronisation", find: source::sleeps },
    Rule { name: "unsafe code lives in its named modules", find: source::unsafe_code },
    Rule { name: "no path of one machine", find: source::machine_paths },
    Rule { name: "no packages and no compiled programs", find: source::packages },
    Rule { name: "links lead somewhere", find: documents::links },
    Rule { name: "named files and tests exist", find: documents::names },
];

/// What a run found.
pub(crate) struct Report {
    /// One line each.
    pub(crate) problems: Vec<String>,
    /// How many rules hold.
    pub(crate) rules_kept: u64,
    /// The names of those that do not.
    pub(crate) rules_broken: Vec<&'static str>,
}

/// Applies every rule to the repository at `root`.
pub(crate) fn run(root: &Path) -> Result<Report> {
    let tree = Tree::read(root)?;
    let mut report = Report { problems: Vec::new(), rules_kept: 0, rules_broken: Vec::new() };
    for rule in RULES {
        let problems = (rule.find)(&tree);
        if problems.is_empty() {
            report.rules_kept += 1;
        } else {
            report.rules_broken.push(rule.name);
        }
        report.problems.extend(problems);
    }
    Ok(report)
}

#[cfg(test)]
mod tests;

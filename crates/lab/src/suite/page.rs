//! The table of a suite in Markdown, and where it stands in a page.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::drive::filled_in;
use super::figures::Shape;
use super::numbers::spoken;
use super::{Length, Suite};
use crate::record::{Run, TargetState};
use crate::report::remarks::disturbed;
use crate::targets::Target;

/// A row of it.
pub(super) struct Line {
    pub(super) what: String,
    pub(super) wanted: &'static str,
    pub(super) shape: Shape,
}

/// What was measured on what, in how many seconds, and the table.
pub(super) fn text(suite: &Suite, length: Length, runs: &[Run], took: Option<f64>, lines: &[Line]) -> String {
    let mut text = facts(length, runs, took);
    text.push_str(&format!("\n| what | {} | figures | where we stand |\n|---|---|---|---|\n", suite.wanted));
    for Line { what, wanted, shape } in lines {
        let figures = if shape.figures.is_empty() { "-".to_owned() } else { shape.figures.join("<br>") };
        let cells = [what.as_str(), wanted, &figures, &shape.standing].map(|cell| cell.replace(['|', '\n'], " "));
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// What figures depend on, as a list. What differs between runs is said in full.
fn facts(length: Length, runs: &[Run], took: Option<f64>) -> String {
    let each = |of: &dyn Fn(&Run) -> String| {
        let mut all: Vec<String> = Vec::new();
        for text in runs.iter().map(of).filter(|text| !text.is_empty()) {
            if !all.contains(&text) {
                all.push(text);
            }
        }
        all.join("; ")
    };
    let days = each(&|run| run.started_at.split('T').next().unwrap_or_default().to_owned());
    let commits = each(&|run| run.commit.as_ref().map_or_else(String::new, |commit| format!("commit {commit}")));
    let machine = each(&|run| {
        let machine = &run.machine;
        let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
        format!("{} cores ({}), {gib:.0} GiB, Linux {}", machine.cores, machine.cpu, machine.kernel)
    });
    let cores = each(&|run| {
        let named =
            |cores: &Option<String>| cores.as_ref().map_or("any core".to_owned(), |cores| format!("core {cores}"));
        format!("server on {}, client on {}", named(&run.load.server_cores), named(&run.load.client_cores))
    });
    let builds = each(&|run| {
        let assertions = if run.lab_debug_assertions { ", with debug assertions" } else { "" };
        format!("cargo profile `{}`{assertions}", run.lab_build)
    });
    let repetitions = runs.iter().map(|run| run.load.repetitions).max().unwrap_or(0);
    let windows = runs.iter().map(|run| run.load.measured_seconds).max().unwrap_or(0);
    let rounds = repetitions.max(length.repeat());
    let mut text = String::new();
    for line in [
        [days, commits, builds].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "),
        machine,
        cores,
        versions(runs),
        format!(
            "{} length: medians of {rounds} interleaved repetitions, bytes an entry of {}, and of one where a row says once; windows of {windows} s{}",
            length.name(),
            filled_in("{entry-repeats}", length),
            took.map_or_else(String::new, |took| format!("; {} in all, servers started and filled", spoken(took)))
        ),
        disturbance(runs),
    ] {
        if !line.is_empty() {
            text.push_str(&format!("- {line}\n"));
        }
    }
    text
}

/// What others had of the machine meanwhile, if that was more than a little.
fn disturbance(runs: &[Run]) -> String {
    let shares: Vec<f64> = runs.iter().filter_map(|run| disturbed(run, run.measurements.iter())).collect();
    let most = shares.iter().copied().fold(0.0, f64::max);
    match shares.len() {
        0 => String::new(),
        count => format!(
            "DISTURBED: in {count} of {} runs other programs used up to {:.0} % of the machine",
            runs.len(),
            100.0 * most
        ),
    }
}

/// The version of each target, and when its program was built if that is a build of ours.
fn versions(runs: &[Run]) -> String {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let measured = runs.iter().flat_map(|run| &run.targets).filter(|target| target.state == TargetState::Measured);
    for target in measured {
        let Ok(parsed) = Target::parse(&target.name) else { continue };
        let server = parsed.server();
        if matches!(server, Target::Noop | Target::PlainLoop | Target::Relay) {
            continue;
        }
        let mut version = target.version.clone().unwrap_or_else(|| "of unknown version".to_owned());
        if let (Target::Ashlar | Target::Build(_) | Target::AshlarProxy(_), Some(built)) =
            (server, &target.program_changed_at)
        {
            version.push_str(&format!(" built {built}"));
        }
        let said = all.entry(server.to_string()).or_default();
        if !said.contains(&version) {
            if !said.is_empty() {
                said.push_str(" and ");
            }
            said.push_str(&version);
        }
    }
    all.into_iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
}

/// The marks of a suite at a length.
fn marks(suite: &Suite, length: Length) -> [String; 2] {
    ["begin", "end"].map(|which| match length {
        Length::Short | Length::Quick => format!("<!-- {} {which} -->", suite.name),
        Length::Full => format!("<!-- {} full {which} -->", suite.name),
    })
}

/// Replaces what stands between the two marks of a page.
pub(super) fn write(page: &Path, suite: &Suite, length: Length, text: &str) -> Result<()> {
    let [begin, end] = marks(suite, length);
    let found = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let (before, rest) = found.split_once(&begin).with_context(|| format!("{} has no mark {begin}", page.display()))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("{} has no mark {end}", page.display()))?;
    std::fs::write(page, format!("{before}{begin}\n{text}{end}{after}")).with_context(|| page.display().to_string())
}

/// Whether a page has the marks.
pub(super) fn has_marks(page: &Path, suite: &Suite, length: Length) -> Result<()> {
    let [begin, end] = marks(suite, length);
    let found = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let is_there = found.split_once(&begin).is_some_and(|(_, rest)| rest.contains(&end));
    anyhow::ensure!(is_there, "{} has no marks {begin} and {end}", page.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SUITES;

    #[test]
    fn a_table_takes_the_place_of_the_one_that_stood_there() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        std::fs::write(&page, "before\n<!-- bench begin -->\nold\n<!-- bench end -->\nafter\n").unwrap();
        write(&page, &SUITES[0], Length::Short, "new\n").unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert_eq!(text, "before\n<!-- bench begin -->\nnew\n<!-- bench end -->\nafter\n");
        let refusal = write(&page, &SUITES[0], Length::Full, "new\n").unwrap_err().to_string();
        assert!(refusal.contains("has no mark <!-- bench full begin -->"), "{refusal}");
        assert!(has_marks(&page, &SUITES[0], Length::Short).is_ok());
    }

    #[test]
    fn the_page_of_the_repository_has_the_marks_of_every_suite_and_of_both_lengths_of_the_first() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
        for suite in SUITES {
            has_marks(&page, suite, Length::Short).unwrap();
        }
        has_marks(&page, &SUITES[0], Length::Full).unwrap();
    }

    #[test]
    fn how_long_it_took_is_said() {
        let took = |took| text(&SUITES[0], Length::Short, &[], took, &[]);
        assert!(
            took(Some(1620.0)).contains("windows of 0 s; 27 min 00 s in all, servers started and filled\n"),
            "{}",
            took(Some(1620.0))
        );
        assert!(!took(None).contains("in all"));
    }

    #[test]
    fn a_row_without_figures_gives_its_reason() {
        let shape = Shape { figures: Vec::new(), standing: "needs\nindexes".to_owned() };
        let text =
            text(&SUITES[0], Length::Short, &[], None, &[Line { what: "index".to_owned(), wanted: "2 x", shape }]);
        assert!(text.ends_with("| index | 2 x | - | needs indexes |\n"), "{text}");
    }
}

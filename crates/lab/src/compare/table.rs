//! A comparison for people.

use anyhow::Result;

use super::{Comparison, Options, Side, Word};
use crate::record::RunState;
use crate::report::remarks::disturbance;
use crate::say::{note, result};

pub(super) fn show(base: &Side, test: &Side, options: Options, comparison: &Comparison) -> Result<()> {
    for (name, side) in [("base", base), ("test", test)] {
        result(&format!("{name}  {}", describe(side)))?;
        if side.run.state == RunState::Partial {
            let reason = side.run.reason.as_deref().unwrap_or("no reason is known");
            note(&format!("the run of the {name} is partial ({reason}); its sound repetitions are compared"));
        }
    }
    match comparison {
        Comparison::Unlike(differences) => {
            result("\nunlike: these runs cannot be compared")?;
            for difference in differences {
                result(&format!("  {difference}"))?;
            }
        }
        Comparison::Alike { rows, word } => {
            for (name, side) in [("base", base), ("test", test)] {
                let shares = side.run.load.threads.iter();
                let shares = shares.filter_map(|threads| disturbance(&side.run, &side.target, *threads));
                if let Some(share) = shares.reduce(f64::max) {
                    note(&format!(
                        "the {name} was DISTURBED: other programs used up to {:.0} % of the machine's cores, and repetitions do not tell their effect from the target's",
                        share * 100.0
                    ));
                }
            }
            let mut threads = None;
            for row in rows {
                if threads != Some(row.threads) {
                    threads = Some(row.threads);
                    result(&format!(
                        "\n{:<26}{:>12}{:>12}{:>12}  {:<20}",
                        format!("{} threads", row.threads),
                        "base",
                        "test",
                        "difference",
                        "interval"
                    ))?;
                }
                let percent = |ratio: f64| format!("{:+.1} %", ratio * 100.0);
                let interval = format!("{} to {}", percent(row.interval.low), percent(row.interval.high));
                result(&format!(
                    "{:<26}{:>12}{:>12}{:>12}  {interval:<20}  {}",
                    row.measure.name(),
                    row.measure.shown(row.base),
                    row.measure.shown(row.test),
                    percent(row.interval.estimate),
                    row.word.text()
                ))?;
            }
            result(&format!("\n{}{}", word.text(), explanation(rows, *word)))?;
            note(&format!(
                "With {} % confidence none of these {} words is by chance; differences below {} % are none.",
                options.confidence * 100.0,
                rows.len(),
                options.least * 100.0
            ));
        }
    }
    Ok(())
}

/// Which measures made the word.
fn explanation(rows: &[super::Row], word: Word) -> String {
    let named: Vec<String> = rows
        .iter()
        .filter(|row| row.word != Word::NoDifference && row.word.is_worse() == word.is_worse())
        .map(|row| format!("{} with {} threads", row.measure.name(), row.threads))
        .collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

fn describe(side: &Side) -> String {
    let target = side.run.targets.iter().find(|target| target.name == side.target);
    let version = target.and_then(|target| target.version.as_deref()).unwrap_or("of unknown version");
    let commit = side.run.commit.as_ref().map_or(String::new(), |commit| format!(", commit {commit}"));
    format!("{} {version}, {} of {}{commit}", side.target, side.run.workload.name, side.folder.display())
}

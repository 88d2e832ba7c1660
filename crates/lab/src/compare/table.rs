//! A comparison for people.

use anyhow::Result;

use super::{Comparison, Options, Side, Word};
use crate::record::RunState;
use crate::report::remarks;
use crate::say::{note, result};

/// What is compared, and what is to be known of it; before anything is compared, for it may say why that fails.
pub(super) fn heading(base: &Side, test: &Side) -> Result<()> {
    for (name, side) in [("base", base), ("test", test)] {
        result(&format!("{name}  {}", describe(side)))?;
        if side.run.state == RunState::Partial {
            let reason = side.run.reason.as_deref().unwrap_or("no reason is known");
            note(&format!("the run of the {name} is partial ({reason}); its sound repetitions are compared"));
        }
        for remark in remarks::about(&side.run, &side.target) {
            note(&format!("{name}: {remark}"));
        }
    }
    super::notes(base, test).iter().for_each(|text| note(text));
    Ok(())
}

/// Beyond it figures are not written out.
const PERCENT_MAX: f64 = 9999.0;

pub(super) fn show(options: Options, comparison: &Comparison) -> Result<()> {
    match comparison {
        Comparison::Unlike(differences) => {
            result("\nunlike: these runs cannot be compared")?;
            for difference in differences {
                result(&format!("  {difference}"))?;
            }
        }
        Comparison::Alike { rows, word, missing, wrong } => {
            let mut case = None;
            for row in rows {
                if case != Some(&row.case) {
                    case = Some(&row.case);
                    result(&format!(
                        "\n{:<26}{:>12}{:>12}{:>12}  {:<20}",
                        row.case.to_string(),
                        "base",
                        "test",
                        "difference",
                        "interval"
                    ))?;
                }
                // Repetitions that say nothing have an interval that ends nowhere.
                let percent = |ratio: f64| match ratio * 100.0 {
                    percent if percent > PERCENT_MAX => format!("over {PERCENT_MAX} %"),
                    percent => format!("{percent:+.1} %"),
                };
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
            if !missing.is_empty() {
                let each: Vec<String> =
                    missing.iter().map(|(measure, needs)| format!("{} ({needs})", measure.name())).collect();
                result(&format!("\nnot compared: {}", each.join(", ")))?;
            }
            if *wrong > 0 {
                return result(&format!("\nunsure: {wrong} answers were wrong, and what is wrong may be fast for it"));
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
        .map(|row| format!("{} with {}", row.measure.name(), row.case))
        .collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

fn describe(side: &Side) -> String {
    let target = side.run.target(&side.target);
    let version = target.and_then(|target| target.version.as_deref()).unwrap_or("of unknown version");
    let program = target.and_then(|target| target.program.as_ref());
    let changed = target.and_then(|target| target.program_changed_at.as_deref()).unwrap_or("an unknown moment");
    let program = program.map_or(String::new(), |program| format!(", program {program} of {changed}"));
    // Of the folder only: the program may have been built of another source.
    let commit = side.run.commit.as_ref().map_or(String::new(), |commit| format!(", in a folder at commit {commit}"));
    format!("{} {version}, {} of {}{program}{commit}", side.target, side.run.workload.name, side.folder.display())
}

//! The table of measures: one row for each target and case, its figures the medians of the repetitions.

use crate::record::measure::{MEASURES, Measure, median};
use crate::record::{Case, Measurement, Run};

/// Column names and rows of the same length.
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The table of some runs of one workload.
pub(crate) fn of(runs: &[&Run]) -> Table {
    let mut columns: Vec<String> = ["target", case_column(runs), "repetitions"].map(str::to_owned).to_vec();
    // What nobody has measured is no column.
    let is_there = |measure: &Measure| {
        runs.iter().flat_map(|run| &run.measurements).any(|one| one.is_sound() && measure.of(one).is_some())
    };
    let measures: Vec<Measure> = MEASURES.iter().copied().filter(is_there).collect();
    for measure in &measures {
        columns.push(measure.name().to_owned());
        if *measure == Measure::Throughput {
            columns.push("spread".to_owned());
        }
    }
    columns.push("wrong answers".to_owned());
    let rows =
        runs.iter().flat_map(|run| run.cells().into_iter().map(|(target, case)| row(run, &target, &case, &measures)));
    Table { rows: rows.collect(), columns }
}

/// What tells the cases of a workload apart.
fn case_column(runs: &[&Run]) -> &'static str {
    if runs.iter().any(|run| !run.load.queries.is_empty()) { "query" } else { "threads" }
}

fn row(run: &Run, target: &str, case: &Case, measures: &[Measure]) -> Vec<String> {
    let all: Vec<&Measurement> = run.of(target, case).collect();
    // What `compare` refuses is not shown either; a remark says why it is left out.
    let sound: Vec<&Measurement> = all.iter().copied().filter(|one| one.is_sound()).collect();
    let count = match (sound.len(), all.len() - sound.len()) {
        (count, 0) => count.to_string(),
        (count, unsound) => format!("{count}, {unsound} left out"),
    };
    let mut row = vec![target.to_owned(), case.short(), count];
    for measure in measures {
        let figures: Vec<f64> = sound.iter().filter_map(|one| measure.of(one)).collect();
        row.push(if figures.is_empty() { "-".to_owned() } else { measure.shown(median(&figures)) });
        if *measure == Measure::Throughput {
            row.push(spread(&figures));
        }
    }
    row.push(all.iter().map(|one| one.errors).sum::<u64>().to_string());
    row
}

/// The distance from the smallest to the largest in percent of the median.
fn spread(figures: &[f64]) -> String {
    let largest = figures.iter().copied().fold(f64::NAN, f64::max);
    let smallest = figures.iter().copied().fold(f64::NAN, f64::min);
    let percent = 100.0 * (largest - smallest) / median(figures);
    if percent.is_finite() { format!("{percent:.0} %") } else { "-".to_owned() }
}

/// The table as lines of text.
pub(crate) fn text(table: &Table) -> Vec<String> {
    let rows = || std::iter::once(&table.columns).chain(&table.rows);
    let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if place == 0 {
                line.push_str(&format!("{cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        line
    };
    rows().map(line).collect()
}

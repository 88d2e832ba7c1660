//! The table of measures: one row for each target and case, its figures the means of the repetitions.

use super::figure::{Figure, sureness};
use super::kinds;
use crate::record::measure::{MEASURES, Measure};
use crate::record::{Case, Measurement, Run};

/// Column names and rows of the same length.
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column of figures.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column {
    Measure(Measure),
    /// Operations of this kind in a minute: the first of a workload's kinds, which is what it is about.
    PerMinute(String),
    /// Attempts beyond the first, in percent of operations.
    Retries,
}

impl Column {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Measure(measure) => measure.name().to_owned(),
            Self::PerMinute(kind) => format!("{kind}/min"),
            Self::Retries => "retries".to_owned(),
        }
    }

    /// The figure of one row, and how sure it is; None where there is none.
    pub(super) fn figure(&self, run: &Run, target: &str, case: &Case) -> Option<(String, Option<String>)> {
        let all = run.of(target, case);
        match self {
            Self::Measure(measure) => {
                let figure = Figure::of(*measure, all)?;
                Some((figure.shown(), figure.sureness()))
            }
            Self::PerMinute(kind) => {
                let mean = kinds::per_minute(kind, all)?;
                Some((format!("{:.0}", mean.mean), sureness(&mean)))
            }
            Self::Retries => Some((kinds::retries(all.map(|one| (one.retries, one.operations)))?, None)),
        }
    }
}

/// The columns of figures of a run: what nobody has measured is none.
pub(super) fn columns(run: &Run) -> Vec<Column> {
    let is_there = |measure: &&Measure| run.measurements.iter().any(|one| one.is_sound() && measure.of(one).is_some());
    let mut columns: Vec<Column> = MEASURES.iter().filter(is_there).copied().map(Column::Measure).collect();
    if let Some(kind) = run.measurements.iter().find_map(|one| one.kinds.first()) {
        let place = columns.iter().position(|column| *column == Column::Measure(Measure::Throughput));
        columns.insert(place.map_or(0, |place| place + 1), Column::PerMinute(kind.name.clone()));
    }
    // Most workloads have nothing that could be tried again.
    if run.measurements.iter().any(|one| one.retries > 0) {
        columns.push(Column::Retries);
    }
    columns
}

/// The table of a run.
pub(crate) fn of(run: &Run) -> Table {
    let mut names: Vec<String> = ["target", case_column(run), "repetitions"].map(str::to_owned).to_vec();
    let columns = columns(run);
    for column in &columns {
        names.push(column.name());
        if is_shown_with_sureness(column) {
            names.push("95 % sure".to_owned());
        }
    }
    names.push("wrong answers".to_owned());
    let rows = run.cells().into_iter().map(|(target, case)| row(run, &target, &case, &columns));
    Table { rows: rows.collect(), columns: names }
}

/// What tells the cases of a workload apart.
pub(super) fn case_column(run: &Run) -> &'static str {
    if run.load.queries.is_empty() { "threads" } else { "query" }
}

/// Text has room for one; the page says it of all.
fn is_shown_with_sureness(column: &Column) -> bool {
    *column == Column::Measure(Measure::Throughput)
}

fn row(run: &Run, target: &str, case: &Case, columns: &[Column]) -> Vec<String> {
    let missing = || "-".to_owned();
    let mut row = vec![target.to_owned(), case.short(), repetitions(run, target, case)];
    for column in columns {
        let (figure, sureness) = column.figure(run, target, case).unwrap_or_else(|| (missing(), None));
        row.push(figure);
        if is_shown_with_sureness(column) {
            row.push(sureness.unwrap_or_else(missing));
        }
    }
    row.push(wrong(run, target, case).to_string());
    row
}

/// How many repetitions the figures are of. What `compare` refuses is not shown either; a remark says why it is left out.
pub(super) fn repetitions(run: &Run, target: &str, case: &Case) -> String {
    let all: Vec<&Measurement> = run.of(target, case).collect();
    let sound = all.iter().filter(|one| one.is_sound()).count();
    match (sound, all.len() - sound) {
        (count, 0) => count.to_string(),
        (count, unsound) => format!("{count}, {unsound} left out"),
    }
}

/// How many answers were wrong.
pub(super) fn wrong(run: &Run, target: &str, case: &Case) -> u64 {
    run.of(target, case).map(|one| one.errors).sum()
}

/// The table as lines of text. Names of columns are broken into words, so that a column is as wide as its figures.
pub(crate) fn text(table: &Table) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let mut heads = Vec::new();
    let mut widths = Vec::new();
    for (place, name) in table.columns.iter().enumerate() {
        let cells = table.rows.iter().map(|row| length(&row[place]));
        let width = name.split(' ').map(length).chain(cells).max().unwrap_or(0);
        heads.push(broken(name, width));
        widths.push(width);
    }
    let height = heads.iter().map(Vec::len).max().unwrap_or(0);
    // At the bottom, beside the figures.
    let heads = (0..height).map(|line| {
        let part =
            |head: &Vec<String>| (line + head.len()).checked_sub(height).map_or(String::new(), |at| head[at].clone());
        heads.iter().map(part).collect::<Vec<String>>()
    });
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
    heads.collect::<Vec<_>>().iter().chain(&table.rows).map(line).collect()
}

/// A text in lines of this width.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_figures() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let table = Table {
            columns: texts(&["target", "server CPU per operation", "p50"]),
            rows: vec![texts(&["ashlar", "10.0 us", "1.00 ms"]), texts(&["pg", "9.00 us", "\u{b1} 2 %"])],
        };
        let lines = [
            "           server         ",
            "          CPU per         ",
            "target  operation      p50",
            "ashlar    10.0 us  1.00 ms",
            "pg        9.00 us    \u{b1} 2 %",
        ];
        assert_eq!(text(&table), lines);
    }
}

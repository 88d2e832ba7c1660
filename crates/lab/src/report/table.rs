//! The table of measures: one row for each target and number of threads, its figures the means of the repetitions.

use super::figure::Figure;
use crate::record::measure::{MEASURES, Measure};
use crate::record::{Measurement, Run};

/// Column names and rows of the same length.
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// What somebody has measured: what nobody has is no column.
pub(super) fn measures(run: &Run) -> Vec<Measure> {
    let is_there = |measure: &Measure| run.measurements.iter().any(|one| one.is_sound() && measure.of(one).is_some());
    MEASURES.iter().copied().filter(is_there).collect()
}

/// The table of a run.
pub(crate) fn of(run: &Run) -> Table {
    let mut columns: Vec<String> = ["target", "threads", "repetitions"].map(str::to_owned).to_vec();
    let measures = measures(run);
    for measure in &measures {
        columns.push(measure.name().to_owned());
        if *measure == Measure::Throughput {
            columns.push("95 % sure".to_owned());
        }
    }
    columns.push("wrong answers".to_owned());
    let rows = run.cells().into_iter().map(|(target, threads)| row(run, &target, threads, &measures));
    Table { rows: rows.collect(), columns }
}

fn row(run: &Run, target: &str, threads: u32, measures: &[Measure]) -> Vec<String> {
    let mut row = vec![target.to_owned(), threads.to_string(), repetitions(run, target, threads)];
    for measure in measures {
        let figure = Figure::of(*measure, run.of(target, threads));
        row.push(figure.as_ref().map_or("-".to_owned(), Figure::shown));
        if *measure == Measure::Throughput {
            row.push(figure.and_then(|figure| figure.sureness()).unwrap_or_else(|| "-".to_owned()));
        }
    }
    row.push(wrong(run, target, threads).to_string());
    row
}

/// How many repetitions the figures are of. What `compare` refuses is not shown either; a remark says why it is left out.
pub(super) fn repetitions(run: &Run, target: &str, threads: u32) -> String {
    let all: Vec<&Measurement> = run.of(target, threads).collect();
    let sound = all.iter().filter(|one| one.is_sound()).count();
    match (sound, all.len() - sound) {
        (count, 0) => count.to_string(),
        (count, unsound) => format!("{count}, {unsound} left out"),
    }
}

/// How many answers were wrong.
pub(super) fn wrong(run: &Run, target: &str, threads: u32) -> u64 {
    run.of(target, threads).map(|one| one.errors).sum()
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

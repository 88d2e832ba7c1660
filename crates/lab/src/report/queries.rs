//! Queries side by side: a row for each query, a column for each target, once for a time and once for a memory.
//!
//! Where a run has one target more, each of the others has its ratio to the first that `--target` named.

use super::figure::Figure;
use super::table::Table;
use crate::record::Run;
use crate::record::measure::Measure;
use crate::statistics::geometric_mean;

/// What is shown.
const SHOWN: &[Measure] = &[Measure::Mean, Measure::MemoryAboveData, Measure::MemoryPeak, Measure::EngineMemory];

/// The tables of a run over queries with their titles; none of any other.
pub(super) fn of(run: &Run) -> Vec<(String, Table)> {
    if run.load.queries.is_empty() {
        return Vec::new();
    }
    SHOWN.iter().filter_map(|measure| Some((format!("{} by query", measure.name()), table(run, *measure)?))).collect()
}

/// None where nobody has measured it.
fn table(run: &Run, measure: Measure) -> Option<Table> {
    let targets: Vec<&str> = run
        .targets
        .iter()
        .map(|target| target.name.as_str())
        .filter(|name| run.measurements.iter().any(|one| one.target == *name))
        .collect();
    let cases = run.load.cases();
    let figure = |target: &&str, case| Figure::of(measure, run.of(target, case)).map(|figure| figure.mean);
    let figures: Vec<Vec<Option<f64>>> =
        cases.iter().map(|case| targets.iter().map(|target| figure(target, case)).collect()).collect();
    if figures.iter().flatten().all(Option::is_none) {
        return None;
    }
    let mut columns = vec!["query".to_owned()];
    for (place, target) in targets.iter().enumerate() {
        columns.push((*target).to_owned());
        if place > 0 {
            columns.push(format!("{target} by {}", targets[0]));
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (case, figures) in cases.iter().zip(&figures) {
        let mut row = vec![case.short()];
        for (place, figure) in figures.iter().enumerate() {
            let is_refused = run.of(targets[place], case).any(|one| one.refused.is_some());
            let none = if is_refused { "refused" } else { "-" };
            row.push(figure.map_or(none.to_owned(), |figure| measure.shown(figure)));
            if place > 0 {
                row.push(ratio(*figure, figures[0]).map_or("-".to_owned(), shown));
            }
        }
        rows.push(row);
    }
    if targets.len() > 1 && cases.len() > 1 {
        rows.push(geometric_means(&figures, targets.len()));
    }
    Some(Table { columns, rows })
}

fn ratio(figure: Option<f64>, first: Option<f64>) -> Option<f64> {
    Some(figure? / first?)
}

fn shown(ratio: f64) -> String {
    format!("{ratio:.2} x")
}

/// The last row: of the queries that both have, the geometric mean of the ratios, and how many those are.
fn geometric_means(figures: &[Vec<Option<f64>>], targets: usize) -> Vec<String> {
    let mut row = vec!["geometric mean".to_owned()];
    for place in 0..targets {
        row.push(String::new());
        if place > 0 {
            let ratios: Vec<f64> = figures.iter().filter_map(|figures| ratio(figures[place], figures[0])).collect();
            row.push(if ratios.is_empty() {
                "-".to_owned()
            } else {
                format!("{} of {}", shown(geometric_mean(&ratios)), ratios.len())
            });
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::run as example;

    #[test]
    fn targets_stand_side_by_side_with_their_ratios() {
        let mut run = example(&["ashlar", "duckdb"], &[1]);
        assert!(of(&run).is_empty());
        run.load.queries = vec!["q01".into(), "q02".into()];
        for one in &mut run.measurements {
            // The first repetition is of one query, the second of the other, which the second target answered wrongly.
            one.query = Some(format!("q0{}", one.repetition));
            one.latency.mean_us = if one.target == "ashlar" { 2000.0 } else { 1000.0 };
            one.errors = u64::from(one.target == "duckdb" && one.repetition == 2);
        }
        let tables = of(&run);
        assert_eq!(tables.len(), 2, "no memory was measured above the data, and no engine counted its own");
        assert_eq!(tables[0].1.columns, ["query", "ashlar", "duckdb", "duckdb by ashlar"]);
        assert_eq!(tables[0].1.rows[0], ["q01", "2.00 ms", "1.00 ms", "0.50 x"]);
        assert_eq!(tables[0].1.rows[1], ["q02", "2.00 ms", "-", "-"]);
        assert_eq!(tables[0].1.rows[2], ["geometric mean", "", "", "0.50 x of 1"]);
        let refused = run.measurements.iter_mut().find(|one| one.errors > 0).unwrap();
        (refused.errors, refused.refused) = (0, Some("it cannot".into()));
        assert_eq!(of(&run)[0].1.rows[1], ["q02", "2.00 ms", "refused", "-"]);
        run.measurements[0].engine_memory_bytes = Some(5 << 20);
        let (title, table) = &of(&run)[2];
        assert_eq!(title, "engine's memory by query");
        assert_eq!(table.rows[0], ["q01", "5.00 MiB", "-", "-"]);
    }
}

//! What the figures of a row are made of: each kind of a workload's operations, each process of a target that stands before other
//! servers, and what is alive in the heap of a JVM.

use super::figure::CONFIDENCE;
use super::table::{Table, case_column};
use crate::record::measure::{BEYOND_MIN, Measure};
use crate::record::{KindRecord, LatencySummary, Measurement, Run};
use crate::statistics::{Mean, geometric_mean, mean};

/// Where a percentile stands.
type Percentile = fn(&LatencySummary) -> f64;

/// Percentiles of a kind: how rare what lies beyond is, and where it stands.
const PERCENTILES: [(u64, Percentile); 3] =
    [(2, |latency| latency.p50_us), (10, |latency| latency.p90_us), (100, |latency| latency.p99_us)];

/// The tables with their titles, of those runs that have any.
pub(super) fn of(run: &Run) -> Vec<(String, Table)> {
    let tables = [
        ("Each kind of operations", kinds(run)),
        ("Asked beside on a connection of its own", beside(run)),
        ("Server CPU per operation, by process", parts(run)),
        ("Memory of a JVM, which is mostly the heap that it was given", live(run)),
    ];
    tables
        .into_iter()
        .filter(|(_, table)| !table.rows.is_empty())
        .map(|(title, table)| (title.to_owned(), table))
        .collect()
}

/// How many operations of a kind were done in a minute.
pub(super) fn per_minute<'a>(kind: &str, all: impl Iterator<Item = &'a Measurement>) -> Option<Mean> {
    let figures: Vec<f64> = all.filter(|one| one.is_sound()).filter_map(|one| one.per_minute(kind)).collect();
    mean(&figures, CONFIDENCE, 0.0)
}

/// Attempts beyond the first in percent of operations, of pairs of both: all together, for there may be none in a repetition.
pub(super) fn retries(all: impl Iterator<Item = (u64, u64)>) -> Option<String> {
    let (retries, operations) = all.fold((0, 0), |(retries, operations), one| (retries + one.0, operations + one.1));
    (operations > 0).then(|| format!("{:.1} %", 100.0 * retries as f64 / operations as f64))
}

fn kinds(run: &Run) -> Table {
    let columns = ["target", case_column(run), "operation", "a minute", "p50", "p90", "p99", "retries"];
    let mut rows = Vec::new();
    for (target, case) in run.cells() {
        let sound: Vec<&Measurement> = run.of(&target, &case).filter(|one| one.is_sound()).collect();
        let names = sound.first().map(|one| one.kinds.iter().map(|kind| &kind.name));
        for name in names.into_iter().flatten() {
            let of_it: Vec<&KindRecord> =
                sound.iter().filter_map(|one| one.kinds.iter().find(|kind| kind.name == *name)).collect();
            let per_minute = per_minute(name, sound.iter().copied());
            let mut row = vec![target.clone(), case.short(), name.clone()];
            row.push(per_minute.map_or("-".to_owned(), |mean| format!("{:.0}", mean.mean)));
            row.extend(PERCENTILES.iter().map(|(rarity, figure)| percentile(&of_it, *rarity, *figure)));
            let attempts = of_it.iter().map(|kind| (kind.retries, kind.operations));
            row.push(retries(attempts).unwrap_or_else(|| "-".to_owned()));
            rows.push(row);
        }
    }
    Table { columns: columns.map(str::to_owned).to_vec(), rows }
}

fn beside(run: &Run) -> Table {
    let mut rows = Vec::new();
    for (target, case) in run.cells() {
        let sound: Vec<&KindRecord> =
            run.of(&target, &case).filter(|one| one.is_sound()).filter_map(|one| one.beside.as_ref()).collect();
        if let Some(first) = sound.first() {
            let means: Vec<f64> = sound.iter().map(|kind| kind.latency.mean_us).filter(|mean| *mean > 0.0).collect();
            let mean = if means.is_empty() { "-".to_owned() } else { Measure::Mean.shown(geometric_mean(&means)) };
            let answers = sound.iter().map(|kind| kind.operations).sum::<u64>().to_string();
            rows.push(vec![target.clone(), case.short(), first.name.clone(), answers, mean]);
        }
    }
    let columns = ["target", case_column(run), "what", "answers", Measure::Mean.name()];
    Table { columns: columns.map(str::to_owned).to_vec(), rows }
}

/// The mean over the repetitions that have enough operations for it, as with the percentiles of all.
fn percentile(all: &[&KindRecord], rarity: u64, figure: Percentile) -> String {
    let least = if rarity > 2 { rarity * BEYOND_MIN } else { 1 };
    let figures: Vec<f64> =
        all.iter().filter(|kind| kind.operations >= least).map(|kind| figure(&kind.latency)).collect();
    if figures.is_empty() { "-".to_owned() } else { Measure::P50.shown(geometric_mean(&figures)) }
}

fn parts(run: &Run) -> Table {
    let mut rows = Vec::new();
    for (target, case) in run.cells() {
        let sound: Vec<&Measurement> = run.of(&target, &case).filter(|one| one.is_sound()).collect();
        let names = sound.first().map(|one| one.server_parts.iter().map(|part| &part.name));
        // Several processes may have one name: they are told apart by their place.
        for (place, name) in names.into_iter().flatten().enumerate() {
            let figures: Vec<f64> = sound
                .iter()
                .filter_map(|one| {
                    let part = one.server_parts.get(place)?;
                    Some(part.cpu_seconds * 1e6 / (one.operations_per_second * one.measured_seconds))
                })
                .filter(|figure| figure.is_finite() && *figure > 0.0)
                .collect();
            let shown = if figures.is_empty() {
                "-".to_owned()
            } else {
                Measure::CpuPerOperation.shown(geometric_mean(&figures))
            };
            rows.push(vec![target.clone(), case.short(), name.clone(), shown]);
        }
    }
    let columns = ["target", case_column(run), "process", Measure::CpuPerOperation.name()];
    Table { columns: columns.map(str::to_owned).to_vec(), rows }
}

fn live(run: &Run) -> Table {
    let mut rows = Vec::new();
    for (target, case) in run.cells() {
        let sound = run.of(&target, &case).filter(|one| one.is_sound());
        let figures: Vec<f64> = sound.filter_map(|one| one.server_live_bytes).map(|bytes| bytes as f64).collect();
        if !figures.is_empty() {
            let alive = figures.iter().sum::<f64>() / figures.len() as f64;
            rows.push(vec![target, case.short(), Measure::MemoryPeak.shown(alive)]);
        }
    }
    let columns = ["target", case_column(run), "alive after full collections"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ServerPart;
    use crate::record::tests::run as example;

    #[test]
    fn kinds_and_processes_have_a_line_each() {
        let mut run = example(&["relay"], &[8]);
        let second =
            KindRecord { name: "delivery".into(), operations: 40, retries: 10, ..run.measurements[0].kinds[0].clone() };
        for one in &mut run.measurements {
            one.kinds.push(second.clone());
            one.server_parts.push(ServerPart { name: "postgres".into(), cpu_seconds: 3.0 });
        }
        let tables = of(&run);
        assert_eq!(tables[0].1.columns.len(), tables[0].1.rows[0].len());
        let shown = |row: &[String]| row.join(" ");
        let [first, last] = &tables[0].1.rows[..] else { panic!("{:?}", tables[0].1.rows) };
        // 450 of 1,000 operations, at 1,600 a second; too few of them for a p99.
        assert!(shown(first).starts_with("relay 8 new-order 43200 "), "{first:?}");
        assert!(shown(first).ends_with(" - 0.0 %") && !shown(first).contains(" - - "), "{first:?}");
        assert!(shown(last).starts_with("relay 8 delivery 3840 ") && shown(last).ends_with(" - - 25.0 %"), "{last:?}");
        let cpu: Vec<String> = tables[1].1.rows.iter().map(|row| shown(row)).collect();
        assert_eq!(cpu, ["relay 8 relay 125 us", "relay 8 postgres 375 us"]);
        run.measurements.iter_mut().for_each(|one| (one.kinds.clear(), one.server_parts.clear()).1);
        assert!(of(&run).is_empty());
        let query = KindRecord { name: "analytic query".into(), operations: 3, ..second };
        run.measurements[0].beside = Some(query);
        let shown = of(&run);
        assert!(shown[0].1.rows[0].join(" ").starts_with("relay 8 analytic query 3 "), "{:?}", shown[0].1.rows);
        run.measurements[0].beside = None;
        run.measurements[0].server_live_bytes = Some(312 << 20);
        assert_eq!(of(&run)[0].1.rows, [["relay", "8", "312 MiB"]]);
    }
}

//! The plots of a run: each asks a question, and says below how it is read.

use anyhow::Result;

use super::figure::Figure;
use super::svg::{About, Axis, Bars, Look, Plot, Scale, Series};
use crate::record::histogram::{self, Latencies};
use crate::record::measure::{BEYOND_MIN, Measure};
use crate::record::{Case, Measurement, Mode, Run, SecondSummary};

/// What the target is called that costs what the harness costs.
pub(super) const HARNESS: &str = "noop";

/// Likewise, of clients in Java.
pub(super) const HARNESS_JAVA: &str = "lettuce=noop";

/// Likewise, of a foreign program.
pub(super) const HARNESS_FOREIGN: &str = "redis-benchmark=noop";

/// Percentiles that have an interval on the curve: how rare, and which measure.
const MARKED: [(f64, Measure); 4] =
    [(2.0, Measure::P50), (10.0, Measure::P90), (100.0, Measure::P99), (1000.0, Measure::P999)];

/// A percentile whose figure of each second is drawn.
struct Percentile {
    kind: &'static str,
    name: &'static str,
    question: &'static str,
    /// One answer in so many is slower.
    rarity: u64,
    of: fn(&SecondSummary) -> f64,
}

const OVER_TIME: [Percentile; 3] = [
    Percentile {
        kind: "latency-over-time-p50",
        name: "p50",
        question: "is an ordinary answer always as fast?",
        rarity: 2,
        of: |second| second.p50_us,
    },
    Percentile {
        kind: "latency-over-time-p99",
        name: "p99",
        question: "when were slow answers slow?",
        rarity: 100,
        of: |second| second.p99_us,
    },
    Percentile {
        kind: "latency-over-time-p999",
        name: "p99.9",
        question: "when were the slowest?",
        rarity: 1000,
        of: |second| second.p999_us,
    },
];

/// What an interval is, for captions.
const INTERVAL: &str = "Marks are means of the repetitions, upright lines their intervals of 95 % confidence.";

/// All of them, as elements; none of a run over queries, for a curve of a few answers is none.
pub(super) fn html(run: &Run) -> Result<String> {
    if !run.load.queries.is_empty() {
        return Ok(String::new());
    }
    let mut out = String::from("<div class=\"plots\">\n");
    if run.load.threads.len() > 1 {
        out.push_str(&scaling(run, Measure::Throughput).html()?);
        out.push_str(&scaling(run, Measure::P99).html()?);
    }
    for case in &run.load.cases() {
        if run.load.threads.len() == 1 {
            out.push_str(&bars(run, case).html()?);
        }
        // A foreign program tells of none of them, and a second may have too few requests for a percentile.
        let mut plots = vec![percentiles(run, case)?, over_time(run, case)];
        plots.extend(OVER_TIME.iter().map(|percentile| latency_over_time(run, case, percentile)));
        for plot in plots.iter().filter(|plot| !plot.series.is_empty()) {
            out.push_str(&plot.html()?);
        }
    }
    out.push_str("</div>\n");
    Ok(out)
}

/// How a target looks, in every plot of the run.
fn look(run: &Run, target: &str) -> Look {
    if target == HARNESS {
        return Look::Harness;
    }
    let mut others = run.targets.iter().filter(|other| other.name != HARNESS);
    Look::Target(others.position(|other| other.name == target).unwrap_or(0))
}

/// What the legend calls it.
fn name(target: &str) -> String {
    if target == HARNESS { format!("{HARNESS}: the harness alone") } else { target.to_owned() }
}

/// Throughput of each target, where there is but one number of threads.
fn bars(run: &Run, case: &Case) -> Bars {
    let question = match (run.load.mode, run.load.rate_per_second) {
        (Mode::Open, Some(rate)) => format!("was the rate of {} reached?", Measure::Throughput.shown(rate)),
        _ => "how many answers come in a second?".to_owned(),
    };
    let rows = run.targets.iter().filter_map(|target| {
        let figure = Figure::of(Measure::Throughput, run.of(&target.name, case))?;
        Some((name(&target.name), look(run, &target.name), figure))
    });
    Bars {
        about: About {
            kind: "bars",
            threads: Some(case.threads),
            title: format!("Throughput, {}: {question}", case),
            caption: "Answers a second. Bars are means of the repetitions, which are circles; lines across their ends are intervals of \
                      95 % confidence."
                .to_owned(),
        },
        rows: rows.collect(),
    }
}

/// Latencies of all sound repetitions together: across how rare they are, by their logarithm, so that each nine has the same room.
fn percentiles(run: &Run, case: &Case) -> Result<Plot> {
    let mut series = Vec::new();
    let mut rarest = 10.0f64;
    for target in &run.targets {
        let mut merged = histogram::empty();
        for one in run.of(&target.name, case).filter(|one| one.is_sound()) {
            histogram::merge(&mut merged, &histogram::decode(&one.histogram)?);
        }
        if merged.is_empty() {
            continue;
        }
        let points = curve(&merged);
        rarest = points.last().map_or(rarest, |(rarity, _)| rarest.max(*rarity));
        let sure = points.iter().filter(|(rarity, _)| merged.len() as f64 / rarity >= BEYOND_MIN as f64).count();
        let figures = MARKED
            .iter()
            .filter_map(|(rarity, measure)| Some((*rarity, Figure::of(*measure, run.of(&target.name, case))?)));
        series.push(Series {
            name: name(&target.name),
            target: target.name.clone(),
            label: target.name.clone(),
            look: look(run, &target.name),
            points,
            sure,
            figures: figures.collect(),
        });
    }
    // 0 %, 90 %, 99 %, ...
    let nines = rarest.log10().ceil() as i32;
    let counted = match run.load.mode {
        Mode::Open => "from the moment at which each request was due",
        Mode::Closed => {
            "from when each request was sent; the next waits for its answer, so a stall is seen once a thread"
        }
    };
    Ok(Plot {
        about: About {
            kind: "percentiles",
            threads: Some(case.threads),
            title: format!("Latency by percentile, {}: how slow are slow answers?", case),
            caption: format!(
                "Counted {counted}. All repetitions together, dotted where fewer than {BEYOND_MIN} answers were slower. {INTERVAL}"
            ),
        },
        x: Axis {
            name: "percentile: the part of the answers that came at least as fast".to_owned(),
            scale: Scale::Logarithmic,
            shown: |rarity| {
                let percent = 100.0 * (1.0 - 1.0 / rarity);
                let digits = (rarity.log10().ceil() as usize).saturating_sub(2);
                format!("{percent:.digits$} %")
            },
            marks: (0..=nines).map(|power| 10f64.powi(power)).collect(),
        },
        y: latency_axis("latency, on a logarithmic scale"),
        series,
    })
}

/// Points from the fastest up to the rarest latency that was seen: (one in how many, microseconds).
fn curve(latencies: &Latencies) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut step = 0;
    loop {
        // Twenty points for each nine.
        let rarity = 10f64.powf(f64::from(step) / 20.0);
        if rarity >= latencies.len() as f64 {
            break;
        }
        let latency = latencies.value_at_quantile(1.0 - 1.0 / rarity) as f64 / 1000.0;
        points.push((rarity, latency));
        step += 1;
    }
    points.push((latencies.len() as f64, latencies.max() as f64 / 1000.0));
    points
}

/// The line of one repetition.
fn line_of(run: &Run, one: &Measurement, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name(&one.target),
        target: one.target.clone(),
        label: format!("{}, repetition {}", one.target, one.repetition),
        look: look(run, &one.target),
        sure: points.len(),
        points,
        figures: Vec::new(),
    }
}

/// Answers of each second, a line for each repetition, also for those that are left out elsewhere: it shows where they ended.
fn over_time(run: &Run, case: &Case) -> Plot {
    let line = |one: &Measurement| {
        let points: Vec<(f64, f64)> =
            whole_seconds(one).map(|(second, count)| (second as f64 + 0.5, count as f64)).collect();
        line_of(run, one, points)
    };
    let series = run.targets.iter().flat_map(|target| run.of(&target.name, case)).map(line);
    let series = series.filter(|series| !series.points.is_empty());
    Plot {
        about: About {
            kind: "over-time",
            threads: Some(case.threads),
            title: format!("Throughput over time, {}: is it steady?", case),
            caption: "A line for each repetition; a point is the number of answers that came in a second.".to_owned(),
        },
        x: seconds_axis(),
        y: throughput_axis(),
        series: series.collect(),
    }
}

/// A percentile of the requests of each second, a line for each repetition that has seconds with enough of them.
fn latency_over_time(run: &Run, case: &Case, percentile: &Percentile) -> Plot {
    let line = |one: &Measurement| {
        let whole = one.latency_per_second.iter().enumerate().take(one.measured_seconds.floor() as usize);
        let sure = whole.filter(|(_, second)| second.operations / percentile.rarity >= BEYOND_MIN);
        let points: Vec<(f64, f64)> =
            sure.map(|(place, second)| (place as f64 + 0.5, (percentile.of)(second))).collect();
        let series = line_of(run, one, points);
        (!series.points.is_empty()).then_some(series)
    };
    let all = run.targets.iter().flat_map(|target| run.of(&target.name, case));
    let Percentile { kind, name, question, rarity, .. } = *percentile;
    let sent = match run.load.mode {
        Mode::Open => "were due",
        Mode::Closed => "were sent",
    };
    Plot {
        about: About {
            kind,
            threads: Some(case.threads),
            title: format!("{name} over time, {case}: {question}"),
            caption: format!(
                "A line for each repetition; a point is the {name} of the requests that {sent} in a second, if at least {}.",
                rarity * BEYOND_MIN
            ),
        },
        x: seconds_axis(),
        y: latency_axis(&format!("{name}, on a logarithmic scale")),
        series: all.filter_map(line).collect(),
    }
}

/// The last second of an interrupted measurement is shorter than the others, and would look like a dip.
fn whole_seconds(one: &Measurement) -> impl Iterator<Item = (usize, u64)> + '_ {
    one.completed_per_second.iter().copied().enumerate().take(one.measured_seconds.floor() as usize)
}

/// A measure of sound repetitions by the number of threads.
fn scaling(run: &Run, measure: Measure) -> Plot {
    let mut series = Vec::new();
    for target in &run.targets {
        let cases = run.load.cases();
        let figure = |case: &Case| Some((f64::from(case.threads), Figure::of(measure, run.of(&target.name, case))?));
        let figures: Vec<(f64, Figure)> = cases.iter().filter_map(figure).collect();
        if !figures.is_empty() {
            series.push(Series {
                name: name(&target.name),
                target: target.name.clone(),
                label: target.name.clone(),
                look: look(run, &target.name),
                points: figures.iter().map(|(threads, figure)| (*threads, figure.mean)).collect(),
                sure: figures.len(),
                figures,
            });
        }
    }
    let (kind, title, y) = match measure {
        Measure::Throughput => {
            ("scaling", "Throughput by threads: do more threads get more answers?", throughput_axis())
        }
        _ => (
            "scaling-p99",
            "p99 by threads: how long does one answer of a hundred take?",
            latency_axis("p99, on a logarithmic scale"),
        ),
    };
    Plot {
        about: About { kind, threads: None, title: title.to_owned(), caption: INTERVAL.to_owned() },
        x: Axis {
            name: "threads of the client, each with a connection".to_owned(),
            scale: Scale::Logarithmic,
            shown: |threads| format!("{threads}"),
            marks: run.load.threads.iter().map(|threads| f64::from(*threads)).collect(),
        },
        y,
        series,
    }
}

fn seconds_axis() -> Axis {
    Axis {
        name: "seconds of the measured window".to_owned(),
        scale: Scale::Plain,
        shown: |second| format!("{second} s"),
        marks: Vec::new(),
    }
}

fn throughput_axis() -> Axis {
    Axis {
        name: "answers a second".to_owned(),
        scale: Scale::Plain,
        shown: |figure| if figure == 0.0 { "0".to_owned() } else { Measure::Throughput.shown(figure) },
        marks: Vec::new(),
    }
}

fn latency_axis(name: &str) -> Axis {
    Axis {
        name: name.to_owned(),
        scale: Scale::Logarithmic,
        shown: |micros| Measure::P99.shown(micros),
        marks: Vec::new(),
    }
}

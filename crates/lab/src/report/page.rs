//! The HTML page: how it was measured, the table, the plots, the flame graphs. One file; nothing is fetched, and nothing runs but
//! the zoom of flame graphs, each in a frame of its own.

use anyhow::Result;

use super::html::{element, escape, table};
use super::svg::{Axis, Plot, Scale, Series};
use super::table as measures;
use super::{Reported, remarks};
use crate::record::histogram::{self, Latencies};
use crate::record::measure::{Measure, median};
use crate::record::{ClientKind, Measurement, Mode, Run, TargetState};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:920px;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em}h2{margin-top:2.5em;border-top:1px solid #ddd;padding-top:1em}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;white-space:nowrap}\
th,td{padding:.3em .7em;text-align:right;border-bottom:1px solid #e5e5e5}th:first-child,td:first-child{text-align:left}\
dt{font-weight:600}dd{margin:0 0 .4em 0}.remark{color:#8a2b00}\
svg{width:100%;height:auto;margin:1em 0}.title{font-size:15px;font-weight:600}.mark{font-size:12px;fill:#444}\
.grid{stroke:#e5e5e5}.line{fill:none;stroke-width:1.6}\
iframe{width:100%;height:32em;border:1px solid #e5e5e5;resize:vertical}";

/// The page of some runs.
pub(super) fn html(runs: &[Reported]) -> Result<String> {
    let mut body = String::new();
    for reported in runs {
        body.push_str(&section(&reported.name, &reported.run)?);
        for flame in &reported.flames {
            body.push_str(&element("h3", &flame.title));
            body.push_str(&format!(
                "\n<iframe sandbox=\"allow-scripts allow-modals\" title=\"{}\" srcdoc=\"{}\"></iframe>\n",
                escape(&flame.title),
                escape(&flame.page)
            ));
        }
    }
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n<title>Measured by ashlar-lab</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>Measured by ashlar-lab</h1>\n{body}</body>\n</html>\n"
    ))
}

/// How a run was made, as names and texts.
pub(super) fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let load = &run.load;
    let cores = |cores: &Option<String>| cores.as_ref().map_or("any core".to_owned(), |cores| format!("core {cores}"));
    let sizes: Vec<String> =
        run.workload.parameters.iter().map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect();
    let how = match (load.mode, load.rate_per_second) {
        (Mode::Open, Some(rate)) => {
            format!("open loop, {rate} requests a second, latencies from the moment each was due")
        }
        _ => "closed loop, each thread waits for its answer".to_owned(),
    };
    let mut facts = vec![
        ("when", run.started_at.clone()),
        (
            "machine",
            format!(
                "{}, {} cores, {:.0} GiB, Linux {}",
                run.machine.cpu,
                run.machine.cores,
                run.machine.memory_bytes as f64 / f64::from(1 << 30),
                run.machine.kernel
            ),
        ),
        ("folder", run.commit.as_ref().map_or("at no commit".to_owned(), |commit| format!("at commit {commit}"))),
        ("sizes", sizes.join(", ")),
        (
            "load",
            format!(
                "{how}; {:?} threads; {} s measured after {} s, {} repetitions, targets in turn; seed {}",
                load.threads, load.measured_seconds, load.warm_up_seconds, load.repetitions, run.seed
            ),
        ),
        ("cores", format!("server on {}, client on {}", cores(&load.server_cores), cores(&load.client_cores))),
    ];
    for target in run.targets.iter().filter(|target| target.state == TargetState::Measured) {
        let version = target.version.as_deref().unwrap_or("of unknown version");
        let settings = target.configuration.join("; ");
        let settings = if settings.is_empty() { settings } else { format!(" ({settings})") };
        let built = target.program_changed_at.as_ref().map_or(String::new(), |at| format!(", program of {at}"));
        let client = if target.client == ClientKind::Java { ", loaded by a client in Java" } else { "" };
        facts.push(("target", format!("{} {version}{built}{client}{settings}", target.name)));
    }
    facts
}

fn section(name: &str, run: &Run) -> Result<String> {
    let mut out = format!("<h2>{}: {}</h2>\n", escape(name), escape(&run.workload.name));
    out.push_str(&element("p", &run.workload.question));
    out.push_str("\n<dl>\n");
    for (what, text) in facts(run) {
        out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(what), escape(&text)));
    }
    out.push_str("</dl>\n");
    let measures = measures::of(&[run]);
    out.push_str(&table(&measures.columns, &measures.rows));
    for remark in remarks::of(run) {
        out.push_str(&format!("<p class=\"remark\">{}</p>\n", escape(&remark)));
    }
    if run.load.threads.len() > 1 {
        out.push_str(&scaling(run).svg()?);
    }
    for threads in &run.load.threads {
        out.push_str(&percentiles(run, *threads)?.svg()?);
        out.push_str(&over_time(run, *threads).svg()?);
    }
    Ok(out)
}

/// Latencies of all sound repetitions together: across how rare they are, by their logarithm, so that each nine has the same room.
fn percentiles(run: &Run, threads: u32) -> Result<Plot> {
    let mut series = Vec::new();
    let mut rarest = 10.0f64;
    for target in &run.targets {
        let mut merged = histogram::empty();
        for one in run.of(&target.name, threads).filter(|one| one.is_sound()) {
            histogram::merge(&mut merged, &histogram::decode(&one.histogram)?);
        }
        if merged.is_empty() {
            continue;
        }
        let points = curve(&merged);
        rarest = points.last().map_or(rarest, |(rarity, _)| rarest.max(*rarity));
        series.push(Series { name: target.name.clone(), points, bars: Vec::new() });
    }
    // 0 %, 90 %, 99 %, ...
    let nines = rarest.log10().ceil() as i32;
    Ok(Plot {
        title: format!("Latency by percentile, {threads} threads"),
        x: Axis {
            name: "percentile",
            scale: Scale::Logarithmic,
            shown: |rarity| {
                let percent = 100.0 * (1.0 - 1.0 / rarity);
                let digits = (rarity.log10().round() as usize).saturating_sub(2);
                format!("{percent:.digits$} %")
            },
            marks: (0..=nines).map(|power| 10f64.powi(power)).collect(),
        },
        y: Axis {
            name: "latency",
            scale: Scale::Logarithmic,
            shown: |micros| Measure::P99.shown(micros),
            marks: Vec::new(),
        },
        series,
    })
}

/// Points from the median of nothing up to the rarest latency that was seen: (one in how many, microseconds).
fn curve(latencies: &Latencies) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut step = 0;
    loop {
        // Twenty points for each nine.
        let rarity = 10f64.powf(f64::from(step) / 20.0);
        if rarity > latencies.len() as f64 {
            break;
        }
        let latency = latencies.value_at_quantile(1.0 - 1.0 / rarity) as f64 / 1000.0;
        points.push((rarity, latency));
        step += 1;
    }
    points.push((latencies.len() as f64, latencies.max() as f64 / 1000.0));
    points
}

/// Answers of each second, a line for each repetition, also for those that are left out elsewhere: it shows where they ended.
fn over_time(run: &Run, threads: u32) -> Plot {
    let line = |one: &Measurement| Series {
        name: one.target.clone(),
        points: whole_seconds(one).map(|(second, count)| (second as f64 + 0.5, count as f64)).collect(),
        bars: Vec::new(),
    };
    let series = run.targets.iter().flat_map(|target| run.of(&target.name, threads)).map(line);
    Plot {
        title: format!("Throughput over time, {threads} threads, each repetition a line"),
        x: Axis {
            name: "seconds of the measured window",
            scale: Scale::Plain,
            shown: |second| format!("{second}"),
            marks: Vec::new(),
        },
        y: throughput_axis(),
        series: series.collect(),
    }
}

/// The last second of an interrupted measurement is shorter than the others, and would look like a dip.
fn whole_seconds(one: &Measurement) -> impl Iterator<Item = (usize, u64)> + '_ {
    one.completed_per_second.iter().copied().enumerate().take(one.measured_seconds.floor() as usize)
}

/// Throughput of sound repetitions by the number of threads: the median, and a bar from the smallest to the largest.
fn scaling(run: &Run) -> Plot {
    let mut series = Vec::new();
    for target in &run.targets {
        let (mut points, mut bars) = (Vec::new(), Vec::new());
        for threads in &run.load.threads {
            let sound = run.of(&target.name, *threads).filter(|one| one.is_sound());
            let figures: Vec<f64> = sound.filter_map(|one| Measure::Throughput.of(one)).collect();
            if !figures.is_empty() {
                points.push((f64::from(*threads), median(&figures)));
                let smallest = figures.iter().copied().fold(f64::INFINITY, f64::min);
                bars.push((smallest, figures.iter().copied().fold(0.0, f64::max)));
            }
        }
        if !points.is_empty() {
            series.push(Series { name: target.name.clone(), points, bars });
        }
    }
    Plot {
        title: "Throughput by threads".to_owned(),
        x: Axis {
            name: "threads",
            scale: Scale::Logarithmic,
            shown: |threads| format!("{threads}"),
            marks: run.load.threads.iter().map(|threads| f64::from(*threads)).collect(),
        },
        y: throughput_axis(),
        series,
    }
}

fn throughput_axis() -> Axis {
    Axis {
        name: "answers a second",
        scale: Scale::Plain,
        shown: |figure| if figure == 0.0 { "0".to_owned() } else { Measure::Throughput.shown(figure) },
        marks: Vec::new(),
    }
}

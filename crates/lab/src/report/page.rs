//! The HTML page: how it was measured, the table, the plots, the flame graphs. One file, which fetches nothing and is told by its own
//! policy that it may not. What runs is what shows the figures under a pointer, and the zoom of flame graphs, each in a frame.

use anyhow::Result;

use super::figure::Figure;
use super::flames::Flame;
use super::html::{element, escape};
use super::plots::{HARNESS, HARNESS_FOREIGN, HARNESS_JAVA};
use super::table::{Column, Table, case_column, columns, repetitions, wrong};
use super::{Reported, below, facts, is_harness, plots, remarks};
use crate::record::measure::Measure;
use crate::record::{Case, ClientKind, Measurement, MeasurementState, Run};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("hover.js");

/// What a browser lets the page do: its own style and script, and nothing from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// What stands before a flame graph in its frame. Within HTML a drawing takes its whole width only if it is told to. It keeps what is
/// zoomed in the address of the page, which one in a frame does not have, and may not change. And a frame that is folded up has
/// no width to draw in.
const FRAME: &str = "<!DOCTYPE html><style>body{margin:0}body>svg{display:block;width:100%}body>svg>#search{opacity:.8}\
    @media(prefers-color-scheme:dark){:root{color-scheme:dark}svg>rect{fill:#15181c}svg>text{fill:#e6e6e6}}</style>\
    <script>history.replaceState=()=>{};\
    addEventListener('resize',event=>{if(!innerWidth)event.stopImmediatePropagation()})</script>";

/// How a drawing begins by itself, and how it begins in a frame: once the frame has a width, which one that is folded up or far below
/// has not.
const ALONE: &str = " onload=\"init(evt)\"";
const IN_FRAME: &str = "<script>new ResizeObserver((_,observer)=>{if(innerWidth){observer.disconnect();init()}})\
    .observe(document.documentElement)</script>";

/// The page of some runs.
pub(super) fn html(runs: &[Reported]) -> Result<String> {
    let mut body = String::new();
    let names: Vec<String> = runs.iter().map(|reported| reported.run.workload.name.clone()).collect();
    let title = escape(&format!("{}: measured by ashlar-lab", names.join(", ")));
    if runs.len() > 1 {
        body.push_str("<h1>Measured by ashlar-lab</h1>\n<ul>\n");
        for (place, reported) in runs.iter().enumerate() {
            body.push_str(&format!(
                "<li><a href=\"#run-{place}\">{}: {}</a></li>\n",
                escape(&reported.name),
                escape(&reported.run.workload.question)
            ));
        }
        body.push_str("</ul>\n");
    }
    for (place, reported) in runs.iter().enumerate() {
        body.push_str(&section(reported, place, if runs.len() > 1 { "h2" } else { "h1" })?);
    }
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    ))
}

fn section(reported: &Reported, place: usize, heading: &str) -> Result<String> {
    let Reported { name, run, .. } = reported;
    let mut out = format!(
        "<section id=\"run-{place}\">\n<{heading}>{}: {}</{heading}>\n<p class=\"question\">{}</p>\n",
        escape(name),
        escape(&run.workload.name),
        escape(&run.workload.question)
    );
    // What is wrong stands before what it is wrong with.
    for remark in remarks::of(run) {
        out.push_str(&format!("<p class=\"remark\">{}</p>\n", escape(&remark)));
    }
    out.push_str("<dl>\n");
    for (what, text) in facts::of(run) {
        out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(what), escape(&text)));
    }
    out.push_str("</dl>\n");
    out.push_str(&files(reported));
    out.push_str(&figures(run));
    out.push_str(&plots::html(run)?);
    out.push_str(&flames(&reported.flames));
    out.push_str("</section>\n");
    Ok(out)
}

/// The table: each figure with how sure it is, and what the harness alone has there.
fn figures(run: &Run) -> String {
    let figures = columns(run);
    let mut names: Vec<String> = ["target", case_column(run), "repetitions"].map(str::to_owned).to_vec();
    names.extend(figures.iter().map(Column::name));
    let is_right = run.measurements.iter().all(|one| one.errors == 0);
    if !is_right {
        names.push("wrong answers".to_owned());
    }
    let rows = run.cells().into_iter().map(|(target, case)| {
        let mut cells = vec![escape(&target), escape(&case.short()), escape(&repetitions(run, &target, &case))];
        cells.extend(figures.iter().map(|column| cell(run, &target, &case, column)));
        cells.push(wrong(run, &target, &case).to_string());
        (class(&target), cells)
    });
    let mut out = table(&names, rows);
    let right = if is_right && !run.measurements.is_empty() { " Every answer was checked, and was right." } else { "" };
    let harness = if run.target(HARNESS).is_some() {
        format!(" {HARNESS}: what the harness costs by itself; a figure close to it says little of a server.")
    } else {
        String::new()
    };
    out.push_str(&format!(
        "<p class=\"soft\">Means of the repetitions, each with its interval of 95 % confidence.{right}{harness}</p>\n"
    ));
    for (title, Table { columns, rows }) in below(run) {
        out.push_str(&element("h3", &title));
        let rows = rows.iter().map(|row| (class(&row[0]), row.iter().map(|text| escape(text)).collect()));
        out.push_str(&table(&columns, rows));
    }
    out
}

/// How the row of a target looks.
fn class(target: &str) -> &'static str {
    if is_harness(target) { "harness" } else { "target" }
}

fn cell(run: &Run, target: &str, case: &Case, column: &Column) -> String {
    let Some((figure, sureness)) = column.figure(run, target, case) else { return "-".to_owned() };
    let mut cell = format!("<span>{}</span>", escape(&figure));
    if let Some(sureness) = sureness {
        cell.push_str(&element("small", &sureness));
    }
    // What a server keeps in memory is nothing that the harness has a part in.
    let harness = match run.target(target).map(|target| target.client) {
        Some(ClientKind::Java) => HARNESS_JAVA,
        Some(ClientKind::RedisBenchmark) => HARNESS_FOREIGN,
        Some(ClientKind::Lab | ClientKind::Pgbench) | None => HARNESS,
    };
    if target != harness
        && let Column::Measure(measure) = column
        && !measure.is_bytes()
        && let Some(alone) = Figure::of(*measure, run.of(harness, case))
    {
        cell.push_str(&element("small", &format!("{harness} {}", alone.shown())));
    }
    cell
}

/// A table; cells are elements already. Each knows the name of its column, for screens that are too narrow for columns.
fn table<T: AsRef<str>>(columns: &[T], rows: impl Iterator<Item = (&'static str, Vec<String>)>) -> String {
    let head: String = columns.iter().map(|column| element("th", column.as_ref())).collect();
    let mut out = format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n");
    for (class, cells) in rows {
        out.push_str(&format!("<tr class=\"{class}\">"));
        for (column, cell) in columns.iter().zip(cells) {
            out.push_str(&format!("<td data-name=\"{}\">{cell}</td>", escape(column.as_ref())));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

/// Flame graphs; of those of several numbers of threads the largest is open, of those of queries none.
fn flames(flames: &[Flame]) -> String {
    let most = flames.iter().map(|flame| flame.case.threads).max();
    let mut out = String::new();
    if !flames.is_empty() {
        out.push_str(
            "<h3>Where time and memory go</h3>\n<p class=\"soft\">Flame graphs of the servers, all repetitions together: the wider, the more. A \
             click on a function shows it alone; Search marks names.</p>\n",
        );
    }
    for flame in flames {
        let open = if flame.case.query.is_none() && Some(flame.case.threads) == most { " open=\"open\"" } else { "" };
        out.push_str(&format!(
            "<details{open}>{}\n<iframe loading=\"lazy\" sandbox=\"allow-scripts allow-modals\" title=\"{}\" style=\"height:{}px\" \
             srcdoc=\"{}\"></iframe>\n</details>\n",
            element("summary", &flame.title),
            escape(&flame.title),
            flame.height,
            escape(&format!("{FRAME}{}{IN_FRAME}", flame.page.replacen(ALONE, "", 1)))
        ));
    }
    out
}

/// Every repetition, with links to its files.
fn files(reported: &Reported) -> String {
    let Reported { run, links, .. } = reported;
    let link = |file: &str| format!("<a href=\"{}\">{}</a>", escape(&links.to(file)), escape(file));
    let columns = ["target", case_column(run), "repetition", "state", "throughput", "p50", "p99", "longest", "files"];
    let rows = run.measurements.iter().map(|one| {
        // What is left out elsewhere is no figure here either; its files say what it was.
        let shown = |figure: Option<f64>, measure: Measure| {
            figure.filter(|_| one.is_sound()).map_or("-".to_owned(), |figure| escape(&measure.shown(figure)))
        };
        let figure = |measure: Measure| shown(measure.of(one), measure);
        let files = [Some(&one.seconds_file), one.metrics_before.as_ref(), one.metrics_after.as_ref()];
        let files = files.into_iter().flatten().chain(one.profiles.iter().map(|profile| &profile.file));
        let files: Vec<String> = files.map(|file| link(file)).collect();
        let cells = vec![
            escape(&one.target),
            escape(&one.case().short()),
            one.repetition.to_string(),
            escape(&state(one)),
            figure(Measure::Throughput),
            figure(Measure::P50),
            figure(Measure::P99),
            shown(Some(one.latency.max_us), Measure::P99),
            format!("<span>{}</span>", files.join("<br/>")),
        ];
        ("repetition", cells)
    });
    let mut others = vec![link("run.json")];
    others.extend(reported.drawings.iter().map(|file| link(file)));
    format!(
        "<details class=\"files\"><summary>Every repetition, and the files of the run</summary>\n<p>{}</p>\n{}</details>\n",
        others.join(", "),
        table(&columns, rows)
    )
}

fn state(one: &Measurement) -> String {
    match (one.state, &one.reason) {
        (MeasurementState::Partial, Some(reason)) => format!("partial: {reason}"),
        (MeasurementState::Partial, None) => "partial".to_owned(),
        (MeasurementState::Complete, _) if one.errors > 0 => format!("{} wrong answers", one.errors),
        (MeasurementState::Complete, _) if one.refused.is_some() => {
            format!("refused: {}", one.refused.as_deref().unwrap_or_default())
        }
        (MeasurementState::Complete, _) if one.unsent > 0 => format!("{} requests unsent", one.unsent),
        (MeasurementState::Complete, _) => "sound".to_owned(),
    }
}

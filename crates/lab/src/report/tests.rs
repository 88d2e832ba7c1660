//! The pages are well-formed and complete, and need nothing from anywhere.

use ashlar_telemetry::Stacks;

use super::*;
use crate::record::tests::run as example;
use crate::record::{Mode, RunState};

/// Reads a page as XML would be read: every element is closed in order, every attribute is quoted, every text escaped. The names of
/// the elements in their order.
fn well_formed(page: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        for (at, _) in text.match_indices('&') {
            assert!(["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|name| text[at..].starts_with(name)), "{text}");
        }
        let end = start + rest[start..].find('>').expect("an element that ends");
        let inner = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = inner.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in another order");
            continue;
        }
        let (inner, closed) = inner.strip_suffix('/').map_or((inner, false), |inner| (inner, true));
        let (name, attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "{inner}");
        let quotes: Vec<&str> = attributes.split('"').collect();
        assert_eq!(quotes.len() % 2, 1, "{inner}");
        for name in quotes.iter().step_by(2).filter(|name| !name.is_empty()) {
            assert!(name.ends_with('='), "{inner}");
        }
        seen.push(name.to_owned());
        if !closed {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    seen
}

/// A run without profiles, to be reported.
fn reported(run: Run) -> [Reported; 1] {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let links = Links::between(here, here).unwrap();
    [Reported {
        name: "first".to_owned(),
        run,
        flames: Vec::new(),
        links,
        drawings: vec!["difference-a.svg".to_owned()],
    }]
}

#[test]
fn the_page_is_well_formed_and_draws_everything() {
    let page = page::html(&reported(example(&["ashlar", "redis"], &[2, 4, 8]))).unwrap();
    let elements = well_formed(&page);
    // Two curves of scaling, and for each number of threads percentiles, and throughput, p50 and p99 over time; of a p99.9 the thousand
    // requests of a second are too few.
    assert_eq!(elements.iter().filter(|name| *name == "figure").count(), 2 + 3 * 4);
    assert!(
        page.contains("p99 over time, 8 threads: when were slow answers slow?") && !page.contains("p99.9 over time")
    );
    assert!(page.contains("Throughput by threads") && page.contains("Latency by percentile, 8 threads"));
    // Two targets with two repetitions: two lines of percentiles, four of each over time, two of each kind of scaling.
    assert_eq!(page.matches("<g class=\"series").count(), 2 * 2 + 3 * (2 + 3 * 4));
    // Every repetition with its files, and what was drawn of differences.
    assert!(page.contains("<a href=\"seconds/redis-8-2.hlog\">seconds/redis-8-2.hlog</a>"));
    assert!(page.contains("<a href=\"run.json\">") && page.contains("<a href=\"difference-a.svg\">"));
    assert!(page.contains("Some &lt;CPU&gt; &amp; more"));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn one_number_of_threads_has_bars_instead_of_curves() {
    let page = page::html(&reported(example(&["ashlar", "noop"], &[8]))).unwrap();
    let elements = well_formed(&page);
    assert_eq!(elements.iter().filter(|name| *name == "figure").count(), 5);
    assert!(page.contains(">noop: the harness alone: 1.60 K/s \u{b1} 0.0 %</text>"), "{page}");
    // What the harness alone has stands beside the figures of others.
    let row =
        page.lines().find(|line| line.starts_with("<tr class=\"target\"><td data-name=\"target\">ashlar")).unwrap();
    assert!(row.contains("<span>1.60 K/s</span><small>\u{b1} 0.0 %</small><small>noop 1.60 K/s</small>"), "{row}");
    assert!(
        row.contains("<td data-name=\"peak memory\"><span>200 MiB</span><small>\u{b1} 0.0 %</small></td>"),
        "{row}"
    );
    let row = page.lines().find(|line| line.starts_with("<tr class=\"harness\">")).unwrap();
    assert!(!row.contains("noop 1.60 K/s"), "{row}");
}

#[test]
fn a_target_looks_the_same_in_all_plots() {
    let mut run = example(&["redis", "noop", "ashlar"], &[2, 4]);
    // It is not in every plot.
    run.measurements.retain(|one| one.target != "redis" || one.threads == 4);
    let page = page::html(&reported(run)).unwrap();
    for (name, look) in [("redis", "t0"), ("noop", "harness"), ("ashlar", "t1")] {
        let series: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("<g class") && line.contains(&format!("data-name=\"{name}")))
            .collect();
        assert!(
            series.len() > 3 && series.iter().all(|line| line.contains(&format!("\"series {look}\""))),
            "{series:?}"
        );
    }
}

#[test]
fn the_page_needs_nothing_from_anywhere() {
    let page = page::html(&reported(example(&["ashlar"], &[2]))).unwrap();
    assert!(page.contains("content=\"default-src 'none'; "));
    for forbidden in ["<script ", "src=", "url(", "@import", "https://"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // The only address is the name of SVG's namespace, which nobody opens.
    assert_eq!(page.matches("http://").count(), page.matches("http://www.w3.org/2000/svg").count());
}

#[test]
fn the_flame_graphs_of_a_run_are_on_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = example(&["ashlar", "redis"], &[2]);
    let saved = folder::Folder::create(folder.path()).unwrap();
    for one in &mut record.measurements {
        let stacks = Stacks::parse(&format!("door;<{} & co>::run {}\n", one.target, one.repetition)).unwrap();
        one.profiles[0].file = saved.save_profile(&format!("{}-{}-cpu", one.target, one.repetition), &stacks).unwrap();
    }
    record.measurements.iter_mut().filter(|one| one.target == "redis").for_each(|one| one.profiles.clear());
    saved.save(&record).unwrap();
    run(&[folder.path().to_owned()], None).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(well_formed(&page).iter().filter(|name| *name == "iframe").count(), 1);
    assert!(page.contains("<details open=\"open\"><summary>ashlar, 2 threads: processor time</summary>"));
    // Twice escaped: in the drawing, and that in the attribute. Both repetitions are in it.
    assert!(page.contains("&amp;lt;ashlar &amp;amp; co&amp;gt;::run (3 nanoseconds, 100.00%)"), "{page}");
    // A file that is missing is said, not passed over.
    fs::remove_file(folder.path().join(&record.measurements[0].profiles[0].file)).unwrap();
    assert!(run(&[folder.path().to_owned()], None).is_err());
}

#[test]
fn a_partial_run_says_so_on_both_pages() {
    let mut run = example(&["ashlar", "redis"], &[2]);
    run.state = RunState::Partial;
    run.reason = Some("interrupted".into());
    run.measurements.truncate(1);
    run.measurements[0].state = crate::record::MeasurementState::Partial;
    let runs = reported(run);
    let page = page::html(&runs).unwrap();
    well_formed(&page);
    assert!(page.contains("<p class=\"remark\">PARTIAL: interrupted</p>"));
    let page = markdown::page(&runs);
    assert!(page.contains("\nPARTIAL: interrupted") && page.contains("0, 1 left out"), "{page}");
}

#[test]
fn what_is_not_sound_is_in_no_figure() {
    let mut run = example(&["ashlar"], &[2, 4]);
    for one in run.measurements.iter_mut().filter(|one| one.threads == 2) {
        (one.errors, one.operations_per_second) = (1, 77_777.0);
    }
    let runs = reported(run);
    let (page, table) = (page::html(&runs).unwrap(), markdown::page(&runs));
    assert!(table.contains("| ashlar | 2 | 0, 2 left out | - | - | "), "{table}");
    assert!(!page.contains("77.8 K") && !table.contains("77.8 K"));
    // One of each scaling, one of percentiles with four threads, and four of each over time, which show all that was seen.
    assert_eq!(page.matches("<g class=\"series").count(), 2 + 1 + 3 * 4);
}

#[test]
fn what_was_tried_again_is_shown_where_anything_was() {
    let mut run = example(&["ashlar", "postgres"], &[4]);
    assert!(!markdown::page(&reported(run.clone())).contains("| retries | wrong answers |"));
    // Of 1,000 operations each.
    for (one, retries) in run.measurements.iter_mut().filter(|one| one.target == "ashlar").zip([500, 2000]) {
        one.retries = retries;
    }
    let page = markdown::page(&reported(run));
    let ends = |name: &str| page.lines().find(|line| line.starts_with(name)).unwrap().rsplit(" | ").nth(1).unwrap();
    assert_eq!(["| target", "| ashlar", "| postgres"].map(ends), ["retries", "125.0 %", "0.0 %"], "{page}");
}

#[test]
fn an_empty_run_has_a_page_too() {
    let mut run = example(&["ashlar"], &[2]);
    run.measurements.clear();
    run.load.mode = Mode::Open;
    run.load.rate_per_second = Some(100.0);
    assert!(well_formed(&page::html(&reported(run)).unwrap()).iter().all(|name| name != "figure"));
}

#[test]
fn the_markdown_table_has_the_means() {
    let page = markdown::page(&reported(example(&["ashlar"], &[4])));
    let row = page.lines().find(|line| line.starts_with("| ashlar")).unwrap();
    assert!(row.starts_with("| ashlar | 4 | 2 | 800/s | \u{b1} 0.0 % | "), "{row}");
    assert!(row.ends_with("| 1.00 ms | 200 MiB | 0 |"), "{row}");
}

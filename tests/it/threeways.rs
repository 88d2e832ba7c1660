//! A query in three ways: by the operators of the server, by DataFusion's stock ones, and by the former with a tenth of the memory that
//! they took. Every answer is the same.
//!
//! Called by the tests of TPC-H and of TPC-DS; knows no table. Ours have a way with a tenth however little that is, down to [`OURS_KB_MIN`]. Where one of
//! DataFusion's operators beside ours, a sort as a rule, has no way with so little and says so, the query gets [`MEMORY_KB_MIN`], and then twice as much
//! until it has. Two tenths are no fault, as the peak differs from run to run: which queries took them is said. Which queries need more is known: more
//! than is known is a fault, and so is what is not needed any more.
//!
//! What each query held and had is said, and what it wrote to files: of those that had to do with less than half of what they held, most have written some.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context, Result, bail, ensure};
use ashlar_tests::Ashlar;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::http::{get, series};

/// What our operators need whatever they do: each of the 64 partitions of a table of groups that is in files has one open, which takes 1 KiB and 96
/// bytes a column, and so has each of the 32 parts of a join, of both sides. With less than those take, a limit says nothing about groups and rows.
const OURS_KB_MIN: u64 = 128;

/// What DataFusion's need besides: a sort merges no fewer than two files, of each of which it holds a batch at least and charges it twice, and a batch of
/// 8,192 rows of a dozen columns has some hundred kB; a cross join and a lookup by other conditions hold a side's batches whole.
const MEMORY_KB_MIN: u64 = 1024;

/// How often it is looked at what a query took and what it needs: the peak differs from run to run, by what was computed at the same time.
const ATTEMPTS: usize = 4;

/// The operators of the server, as refusals name them: with a tenth they have a way.
const OURS: &[&str] = &["HashJoin", "HashAggregate", "LookupJoin"];

/// Rows as text.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// A query that two tenths of its memory are too little for.
pub(crate) struct Exception {
    pub(crate) query: &'static str,
    /// How many times a tenth do: a power of two. Half of it may do too, as the peak differs from run to run; a quarter does not.
    pub(crate) factor: u64,
    /// DataFusion's operators that are refused with less, one of them at a time.
    pub(crate) operators: &'static [&'static str],
}

impl Exception {
    /// Whether so many times a tenth are no surprise, where this operator was refused with less.
    fn covers(&self, factor: u64, operator: &str) -> bool {
        factor <= self.factor && self.operators.contains(&operator)
    }
}

/// What a query held, and what it had to do with.
struct Outcome {
    /// The most that it held without a limit, kB.
    peak: u64,
    /// The limit with which it was answered, kB.
    limit: u64,
    /// How many times a tenth, or what is needed anyway, that is: 1 for a tenth and less.
    factor: u64,
    /// What it wrote to files with that limit, kB.
    written: u64,
}

impl Outcome {
    /// Whether it had less than half of what it holds if it may: then it is no matter of a peak that differs from run to run.
    fn is_pressed(&self) -> bool {
        2 * self.limit < self.peak
    }
}

/// The server, and those who ask it.
struct Ways<'a> {
    server: &'a Ashlar,
    /// The least that a query gets where a tenth of what it held is less, kB.
    least: u64,
    own: Client,
    stock: Client,
}

/// Asks queries, which have names, in all ways. What is wrong with each. Says what each held, what it had, and what it wrote to files.
/// `is_short`: small queries get no less than what the engine's operators need, for with a few kilobytes each of them reads and writes its rows over
/// and over.
///
/// # Errors
/// Where there is no connection.
pub(crate) async fn compare(
    server: &Ashlar,
    queries: &BTreeMap<String, String>,
    exceptions: &[Exception],
    is_short: bool,
) -> Result<Vec<String>> {
    let connection = server.connection_string();
    let own = connect(&connection, &[]).await?;
    let stock = connect(&connection, &["SET operators = 'stock'"]).await?;
    let least = if is_short { MEMORY_KB_MIN } else { OURS_KB_MIN };
    let ways = Ways { server, least, own, stock };
    let (mut faults, mut doubled) = (Vec::new(), Vec::new());
    let (mut pressed, mut unwritten) = (0, Vec::new());
    for (name, sql) in queries {
        let exception = exceptions.iter().find(|exception| exception.query == name);
        match ways.compare_one(name, sql, exception).await {
            Ok(outcome) => {
                let Outcome { peak, limit, factor, written } = &outcome;
                say(&format!("{name:<5} held {peak:>7} kB, had {limit:>7} kB, wrote {written:>7} kB to files"));
                if *factor == 2 && exception.is_none() {
                    doubled.push(name.as_str());
                }
                if outcome.is_pressed() {
                    pressed += 1;
                    if *written == 0 {
                        unwritten.push(name.as_str());
                    }
                }
            }
            Err(error) => {
                let fault = format!("{name}: {error:#}");
                say(&fault);
                faults.push(fault);
            }
        }
    }
    if !doubled.is_empty() {
        say(&format!("two tenths of their memory, which operators of DataFusion's needed: {}", doubled.join(", ")));
    }
    let (wrote, others) = (pressed - unwritten.len(), unwritten.join(" "));
    say(&format!(
        "of {} queries {pressed} had less than half of what they held; {wrote} of them wrote to files, others: {others}",
        queries.len()
    ));
    if (pressed == 0 && !is_short) || 2 * wrote < pressed {
        faults.push(format!("of {pressed} queries that had to do with less, {wrote} wrote to files; not so: {others}"));
    }
    Ok(faults)
}

/// Says something to whoever runs a test, whether it fails or not.
pub(crate) fn say(line: &str) {
    // Nobody may be listening.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A connection with these settings.
pub(crate) async fn connect(connection: &str, settings: &[&str]) -> Result<Client> {
    let (client, driver) = tokio_postgres::connect(connection, NoTls).await?;
    tokio::spawn(driver);
    for setting in settings {
        client.batch_execute(setting).await?;
    }
    Ok(client)
}

impl Ways<'_> {
    /// Asks a query in all ways; what it needed.
    async fn compare_one(&self, name: &str, sql: &str, exception: Option<&Exception>) -> Result<Outcome> {
        let Self { own, stock, least, .. } = self;
        let expected = ask(stock, sql).await.context("stock operators")?;
        let found = ask(own, sql).await.context("own operators")?;
        same(&found, &expected).context("own operators")?;
        let mut fault = String::new();
        for _ in 0..ATTEMPTS {
            let peak = peak(own, sql).await?;
            let tenth = (peak / 10).max(MEMORY_KB_MIN);
            let (mut limit, mut factor, mut operator) = ((peak / 10).max(*least), 1, String::new());
            let written = loop {
                let before = self.written()?;
                match limited(own, sql, limit).await? {
                    Ok(found) => {
                        same(&found, &expected).with_context(|| format!("with {limit} kB"))?;
                        break self.written()? - before;
                    }
                    Err(message) => {
                        let (is_ours, most) =
                            (OURS.contains(&operator_of(&message)), (2 * peak).max(8 * MEMORY_KB_MIN));
                        ensure!(!is_ours && limit <= most, "with {limit} kB of {peak}: {message}");
                        operator = operator_of(&message).to_owned();
                        if limit < tenth {
                            limit = tenth;
                        } else {
                            factor *= 2;
                            limit = tenth * factor;
                        }
                    }
                }
            };
            let wanted = format!("Exception {{ query: {name:?}, factor: {factor}, operators: &[{operator:?}] }}");
            let is_known = exception.is_some_and(|known| known.covers(factor, &operator));
            if factor > 2 && !is_known {
                fault = format!("{factor} times {tenth} kB of {peak} are needed: {wanted}");
            } else if let Some(known) = exception
                && limited(own, sql, tenth * known.factor / 4).await?.is_ok()
            {
                fault = format!("a quarter of {} times {tenth} kB of {peak} do", known.factor);
            } else {
                return Ok(Outcome { peak, limit, factor, written });
            }
        }
        bail!("{fault}")
    }

    /// What all queries have written to files since the start, kB. Nobody else asks this server.
    fn written(&self) -> Result<u64> {
        let (_, page) = get(self.server.http(), "/metrics");
        let written = series(&page, r#"ashlar_query_spill_written_bytes_total{to="files"}"#);
        Ok((written.context("what was written to files")? / 1024.0).ceil() as u64)
    }
}

/// The answer to a query that may have so many kB, or with what message that is refused.
async fn limited(client: &Client, sql: &str, kilobytes: u64) -> Result<Result<Rows, String>> {
    client.batch_execute(&format!("SET query_memory_max = '{kilobytes}kB'")).await?;
    let found = ask(client, sql).await;
    client.batch_execute("RESET query_memory_max").await?;
    let error = match found {
        Ok(rows) => return Ok(Ok(rows)),
        Err(error) => error,
    };
    let refused = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error);
    match refused {
        Some(refused) if refused.code().code() == "53200" => Ok(Err(refused.message().to_owned())),
        _ => Err(error.context(format!("with {kilobytes} kB"))),
    }
}

/// The operator that a refusal names: `...: NAME[0] has 3 kB and wanted ...`. Some have words of their own.
fn operator_of(message: &str) -> &str {
    let (before, rest) = message.rsplit_once(": ").unwrap_or((message, ""));
    rest.split_once(" has ").map_or(before, |(name, _)| name.split_once('[').map_or(name, |(name, _)| name))
}

/// The rows of a query.
pub(crate) async fn ask(client: &Client, sql: &str) -> Result<Rows> {
    let mut rows = Rows::new();
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
        }
    }
    Ok(rows)
}

/// The most memory that a query took, kB.
async fn peak(client: &Client, sql: &str) -> Result<u64> {
    let lines = ask(client, &format!("EXPLAIN (ANALYZE) {sql}")).await?;
    let lines = lines.iter().filter_map(|row| row.first()?.as_deref());
    let peak = lines.filter_map(|line| line.trim().strip_prefix("Peak Memory: ")?.strip_suffix(" kB")).next_back();
    Ok(peak.context("a line that says it")?.parse()?)
}

/// Whether rows are the same, in any order; sums of floats may differ in their last digits.
fn same(found: &Rows, expected: &Rows) -> Result<()> {
    ensure!(found.len() == expected.len(), "{} rows instead of {}", found.len(), expected.len());
    let sorted = |rows: &Rows| {
        let mut rows = rows.clone();
        rows.sort();
        rows
    };
    for (found, expected) in sorted(found).iter().zip(&sorted(expected)) {
        let is_same = found.iter().zip(expected).all(|(found, expected)| match (found, expected) {
            (Some(found), Some(expected)) => found == expected || are_near(found, expected),
            _ => found == expected,
        });
        ensure!(is_same, "{found:?} instead of {expected:?}");
    }
    Ok(())
}

fn are_near(found: &str, expected: &str) -> bool {
    // Of numerics every digit counts: their scale is at most 16 here, and floats have as many.
    let is_float = |text: &str| text.contains('.') && text.len() > 15;
    match (found.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(found_number), Ok(expected_number)) if is_float(found) || is_float(expected) => {
            (found_number - expected_number).abs() <= expected_number.abs() * 1e-12
        }
        _ => false,
    }
}

#[test]
fn refusals_name_the_operator_that_asks() {
    let pool = "more than its query_memory_max of 9 kB: ExternalSorterMerge[1] has 3 kB and wanted 7 kB more";
    let merge = "Cannot merge sorted runs: a single record batch of 9 bytes exceeds the available merge memory";
    assert_eq!(operator_of(pool), "ExternalSorterMerge");
    assert_eq!(operator_of(merge), "Cannot merge sorted runs");
    let sorts = Exception { query: "q67", factor: 4, operators: &["ExternalSorterMerge"] };
    assert!(sorts.covers(2, operator_of(pool)) && sorts.covers(4, operator_of(pool)));
    assert!(!sorts.covers(8, operator_of(pool)) && !sorts.covers(2, operator_of(merge)));
}

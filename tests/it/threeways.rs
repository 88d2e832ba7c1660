//! A query in three ways: by the operators of the server, by DataFusion's stock ones, and by the former with a tenth of the memory that
//! they took. Every answer is the same.
//!
//! Called by the tests of TPC-H and of TPC-DS; knows no table. Where one of DataFusion's operators beside ours, a sort as a rule, has no way with
//! so little and says so, the query gets twice as much until it has. Two tenths are no fault, as the peak differs from run to run: which queries took them
//! is said. Which queries need more is known: more than is known is a fault, and so is what is not needed any more.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context, Result, bail, ensure};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// With less no operator does anything: batches on their way through a plan take that.
const MEMORY_KB_MIN: u64 = 1024;

/// How often it is looked at what a query took and what it needs: the peak differs from run to run, by what was computed at the same time.
const ATTEMPTS: usize = 4;

/// The operators of the server, as refusals name them: with a tenth they have a way.
const OURS: &[&str] = &["HashJoin", "HashAggregate"];

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

/// Asks queries, which have names, in all ways. What is wrong with each. Says which took two tenths, and where `is_told` what each needed.
///
/// # Errors
/// Where there is no connection.
pub(crate) async fn compare(
    connection: &str,
    queries: &BTreeMap<String, String>,
    exceptions: &[Exception],
    is_told: bool,
) -> Result<Vec<String>> {
    let own = connect(connection, &[]).await?;
    let stock = connect(connection, &["SET operators = 'stock'"]).await?;
    let (mut faults, mut doubled) = (Vec::new(), Vec::new());
    for (name, sql) in queries {
        let exception = exceptions.iter().find(|exception| exception.query == name);
        let told = match compare_one(&own, &stock, name, sql, exception).await {
            Ok((told, factor)) => {
                if factor == 2 && exception.is_none() {
                    doubled.push(name.as_str());
                }
                told
            }
            Err(error) => {
                let fault = format!("{name}: {error:#}");
                faults.push(fault.clone());
                fault
            }
        };
        if is_told {
            say(&told);
        }
    }
    if !doubled.is_empty() {
        say(&format!("two tenths of their memory, which operators of DataFusion's needed: {}", doubled.join(", ")));
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

/// Asks a query in all ways; what it needed, in words and as a factor of a tenth.
async fn compare_one(
    own: &Client,
    stock: &Client,
    name: &str,
    sql: &str,
    exception: Option<&Exception>,
) -> Result<(String, u64)> {
    let expected = ask(stock, sql).await.context("stock operators")?;
    let found = ask(own, sql).await.context("own operators")?;
    same(&found, &expected).context("own operators")?;
    let mut fault = String::new();
    for _ in 0..ATTEMPTS {
        let peak = peak(own, sql).await?;
        let tenth = (peak / 10).max(MEMORY_KB_MIN);
        let (mut factor, mut operator) = (1, String::new());
        loop {
            let kilobytes = tenth * factor;
            match limited(own, sql, kilobytes).await? {
                Ok(found) => {
                    same(&found, &expected).with_context(|| format!("with {kilobytes} kB"))?;
                    break;
                }
                Err(message) => {
                    let (is_ours, most) = (OURS.contains(&operator_of(&message)), (2 * peak).max(8 * MEMORY_KB_MIN));
                    ensure!(!is_ours && kilobytes <= most, "with {kilobytes} kB of {peak}: {message}");
                    operator = operator_of(&message).to_owned();
                    factor *= 2;
                }
            }
        }
        let wanted = format!("Exception {{ query: {name:?}, factor: {factor}, operators: &[{operator:?}] }}");
        let is_known = exception.is_some_and(|known| known.covers(factor, &operator));
        if factor > 2 && !is_known {
            fault = format!("{factor} times {tenth} kB of {peak} are needed: {wanted}");
        } else if let Some(known) = exception
            && limited(own, sql, tenth * known.factor / 4).await?.is_ok()
        {
            fault = format!("a quarter of {} times {tenth} kB of {peak} do", known.factor);
        } else {
            return Ok((format!("{name}: {factor} times {tenth} kB of {peak} do"), factor));
        }
    }
    bail!("{fault}")
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

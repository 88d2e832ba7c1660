//! `tpcb`: the transaction of pgbench that is sort of TPC-B, as PostgreSQL's manual gives it ("pgbench": "What Is the 'Transaction'
//! Actually Performed in pgbench?"), statement by statement, each prepared.
//!
//! An account, its teller and its branch get the same sum, and the history says so: whatever order transactions are done in, and
//! whichever are undone, the four agree. [`Workload::verify`] adds them up, and holds them against what servers have confirmed.
//!
//! ```text
//! branches  bid int primary key | bbalance int                      | filler      1 a scale
//! tellers   tid int primary key | bid int | tbalance int            | filler     10 a scale
//! accounts  aid int primary key | bid int | abalance int            | filler 100,000 a scale
//! history   tid int | bid int | aid int | delta int | mtime timestamp            one a transaction
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::sizes::Sizes;
use super::tables::{Table, drop_all, fill, settle};
use super::transaction::{Transacted, transact};
use super::{Place, Progress, Workload};
use crate::door::pg::PgClient;
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;

const BRANCHES: &str = "ashlar_lab_branches";
const TELLERS: &str = "ashlar_lab_tellers";
const ACCOUNTS: &str = "ashlar_lab_accounts";
const HISTORY: &str = "ashlar_lab_history";

/// Tellers of a branch.
const TELLERS_EACH: u64 = 10;

/// Accounts of a branch.
const ACCOUNTS_EACH: u64 = 100_000;

/// A transaction moves at most so much, in or out.
const DELTA_MAX: u64 = 5000;

/// Blanks that make a row as long as TPC-B asks for.
const FILLER: usize = 84;

/// What a transaction is about.
#[derive(Clone, Copy, Debug)]
enum Param {
    Account,
    Teller,
    Branch,
    Delta,
}

/// More branches are more accounts than fit into a memory.
const SCALE_MAX: f64 = 10_000.0;

/// A statement of the transaction.
struct Step {
    name: &'static str,
    sql: String,
    params: &'static [Param],
    /// The command tag of its success.
    tag: &'static str,
}

/// What all connections share.
struct Plan {
    scale: u64,
    steps: Vec<Step>,
    /// Transactions that the server has confirmed since the tables were filled, and the sum of what they moved.
    confirmed: AtomicU64,
    moved: AtomicI64,
}

struct TpcB {
    plan: Arc<Plan>,
}

pub(super) fn workload(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    use Param::{Account, Branch, Delta, Teller};
    let step = |name, sql: String, params, tag| Step { name, sql, params, tag };
    let add = |name, table: &str, balance: &str, key: &str, params| {
        step(name, format!("UPDATE {table} SET {balance} = {balance} + $1 WHERE {key} = $2"), params, "UPDATE 1")
    };
    let balance = format!("SELECT abalance FROM {ACCOUNTS} WHERE aid = $1");
    let history =
        format!("INSERT INTO {HISTORY} (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)");
    let steps = vec![
        step("lab-begin", "BEGIN".to_owned(), &[], "BEGIN"),
        add("lab-account", ACCOUNTS, "abalance", "aid", &[Delta, Account]),
        step("lab-balance", balance, &[Account], "SELECT 1"),
        add("lab-teller", TELLERS, "tbalance", "tid", &[Delta, Teller]),
        add("lab-branch", BRANCHES, "bbalance", "bid", &[Delta, Branch]),
        step("lab-history", history, &[Teller, Branch, Account, Delta], "INSERT 0 1"),
        step("lab-end", "END".to_owned(), &[], "COMMIT"),
    ];
    let scale = sizes.scale.unwrap_or(10.0);
    ensure!(
        scale.fract() == 0.0 && (1.0..=SCALE_MAX).contains(&scale),
        "--scale {scale}: tpcb has a whole number of branches, from 1 to {SCALE_MAX}"
    );
    let scale = scale as u64;
    let plan = Plan { scale, steps, confirmed: AtomicU64::new(0), moved: AtomicI64::new(0) };
    Ok(Box::new(TpcB { plan: Arc::new(plan) }))
}

impl TpcB {
    fn tables(&self) -> Vec<Table> {
        let scale = self.plan.scale;
        let table = |name, key, columns: String, rows, line| Table { name, columns, key, is_small: false, rows, line };
        // Numbers begin with 1, and every so many belong to the same branch.
        let owned = |name, key: &'static str, balance: &str, each: u64| {
            let columns = format!("{key} int PRIMARY KEY, bid int, {balance} int, filler varchar({FILLER})");
            let line = move |row: u64, out: &mut Vec<u8>| {
                // Writing to a vector cannot fail.
                let _ = writeln!(out, "{}\t{}\t0\t{:FILLER$}", row + 1, row / each + 1, "");
            };
            table(name, key, columns, scale * each, Box::new(line))
        };
        let branch = |row: u64, out: &mut Vec<u8>| drop(writeln!(out, "{}\t0\t{:FILLER$}", row + 1, ""));
        vec![
            table(
                BRANCHES,
                "bid",
                format!("bid int PRIMARY KEY, bbalance int, filler varchar({FILLER})"),
                scale,
                Box::new(branch),
            ),
            owned(TELLERS, "tid", "tbalance", TELLERS_EACH),
            owned(ACCOUNTS, "aid", "abalance", ACCOUNTS_EACH),
            table(
                HISTORY,
                // Beside the account.
                "aid",
                "tid int, bid int, aid int, delta int, mtime timestamp, filler varchar(22)".to_owned(),
                0,
                Box::new(|_, _| {}),
            ),
        ]
    }
}

impl Workload for TpcB {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        let mut client = PgClient::connect(place.address)?;
        let tables = self.tables();
        fill(&mut client, place, &tables, progress)?;
        settle(&mut client, place, &tables)?;
        self.plan.confirmed.store(0, Ordering::Relaxed);
        self.plan.moved.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>> {
        let mut client = PgClient::connect(place.address)?;
        for step in &self.plan.steps {
            client.prepare(step.name, &step.sql).context("preparing a statement")?;
        }
        Ok(Box::new(TpcBCaller {
            client,
            plan: self.plan.clone(),
            numbers,
            chosen: Chosen::default(),
            done: None,
            retries: 0,
        }))
    }

    fn verify(&self, place: Place) -> Result<Option<String>> {
        let mut client = PgClient::connect(place.address)?;
        let mut add_up = |balance: &str, table: &str| -> Result<(i64, i64)> {
            let rows = client.query(&format!("SELECT coalesce(sum({balance}), 0), count(*) FROM {table}"))?;
            let number = |column: usize| rows.first()?.get(column)?.parse().ok();
            number(0).zip(number(1)).with_context(|| format!("the sum of {table} was answered by {rows:?}"))
        };
        let found = Sums {
            branches: add_up("bbalance", BRANCHES)?.0,
            tellers: add_up("tbalance", TELLERS)?.0,
            accounts: add_up("abalance", ACCOUNTS)?.0,
            history: add_up("delta", HISTORY)?,
        };
        let confirmed = self.plan.confirmed.load(Ordering::Relaxed).cast_signed();
        Ok(found.fault(confirmed, self.plan.moved.load(Ordering::Relaxed)))
    }

    fn clear(&self, place: Place) -> Result<()> {
        drop_all(&mut PgClient::connect(place.address)?, place, &self.tables())
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([("scale".to_owned(), self.plan.scale.into())])
    }
}

/// What is in the tables after transactions.
struct Sums {
    branches: i64,
    tellers: i64,
    accounts: i64,
    /// The sum, and the rows.
    history: (i64, i64),
}

impl Sums {
    /// What is wrong with them, where so many transactions were confirmed that moved so much.
    fn fault(&self, confirmed: i64, moved: i64) -> Option<String> {
        let (sum, rows) = self.history;
        let right = [self.branches, self.tellers, self.accounts, sum] == [moved; 4] && rows == confirmed;
        (!right).then(|| {
            format!(
                "{confirmed} transactions that moved {moved} were confirmed, and the history has {rows} that moved {sum}, branches have {}, tellers {}, accounts {}",
                self.branches, self.tellers, self.accounts
            )
        })
    }
}

/// What one transaction is about, as its parameters have it.
#[derive(Debug, Default)]
struct Chosen {
    account: String,
    teller: String,
    branch: String,
    delta: String,
    moved: i64,
}

impl Chosen {
    fn next(numbers: &mut Numbers, scale: u64) -> Self {
        let mut one_of = |count: u64| (numbers.below(count) + 1).to_string();
        let (account, branch, teller) = (one_of(scale * ACCOUNTS_EACH), one_of(scale), one_of(scale * TELLERS_EACH));
        let moved = numbers.below(2 * DELTA_MAX + 1).cast_signed() - DELTA_MAX.cast_signed();
        Self { account, teller, branch, delta: moved.to_string(), moved }
    }

    fn text(&self, param: Param) -> &str {
        match param {
            Param::Account => &self.account,
            Param::Teller => &self.teller,
            Param::Branch => &self.branch,
            Param::Delta => &self.delta,
        }
    }
}

struct TpcBCaller {
    client: PgClient,
    plan: Arc<Plan>,
    numbers: Numbers,
    chosen: Chosen,
    /// None until it came.
    done: Option<Result<(), String>>,
    retries: u64,
}

impl Caller for TpcBCaller {
    fn make(&mut self) {
        self.chosen = Chosen::next(&mut self.numbers, self.plan.scale);
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        let Self { client, plan, chosen, .. } = self;
        (self.done, self.retries) = (None, 0);
        let Transacted { outcome, retries } = transact(client, &mut |client| attempt(client, &plan.steps, chosen))?;
        (self.done, self.retries) = (Some(outcome), retries);
        came();
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        match self.done.take() {
            None => {}
            Some(Err(fault)) => judged(Answer::Wrong(fault)),
            Some(Ok(())) => {
                self.plan.confirmed.fetch_add(1, Ordering::Relaxed);
                self.plan.moved.fetch_add(self.chosen.moved, Ordering::Relaxed);
                judged(Answer::Right);
            }
        }
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}

/// The transaction once, a round trip for each statement.
fn attempt(client: &mut PgClient, steps: &[Step], chosen: &Chosen) -> Result<Result<(), String>> {
    for step in steps {
        let params: Vec<&str> = step.params.iter().map(|param| chosen.text(*param)).collect();
        client.bind(step.name, &params);
        let mut integers = 0;
        match client.run(&mut |mut row| integers += u32::from(row.next_integer().is_some()))? {
            Err(error) => return Ok(Err(error)),
            Ok(tag) if tag != step.tag => return Ok(Err(format!("{} was answered by {tag}", step.sql))),
            Ok(_) if step.tag == "SELECT 1" && integers != 1 => {
                return Ok(Err(format!("account {} has no balance", chosen.account)));
            }
            Ok(_) => {}
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_about_what_there_is() {
        let mut numbers = Numbers::new(5);
        let (mut smallest, mut largest) = (i64::MAX, i64::MIN);
        for _ in 0..100_000 {
            let chosen = Chosen::next(&mut numbers, 3);
            let within = |text: &str, last: u64| (1..=last).contains(&text.parse().unwrap());
            assert!(within(&chosen.account, 300_000) && within(&chosen.teller, 30) && within(&chosen.branch, 3));
            assert_eq!(chosen.text(Param::Delta), chosen.moved.to_string());
            (smallest, largest) = (smallest.min(chosen.moved), largest.max(chosen.moved));
        }
        assert_eq!((smallest, largest), (-5000, 5000));
    }

    #[test]
    fn the_four_sums_agree_with_each_other_and_with_what_was_confirmed() {
        let right = || Sums { branches: -7, tellers: -7, accounts: -7, history: (-7, 3) };
        assert_eq!(right().fault(3, -7), None);
        for wrong in [
            Sums { branches: 0, ..right() },
            Sums { tellers: 0, ..right() },
            Sums { accounts: 0, ..right() },
            Sums { history: (0, 3), ..right() },
            Sums { history: (-7, 2), ..right() },
        ] {
            let fault = wrong.fault(3, -7).unwrap();
            assert!(fault.starts_with("3 transactions that moved -7 were confirmed, and the history has "), "{fault}");
        }
        assert!(right().fault(4, -7).is_some() && right().fault(3, 7).is_some());
    }

    #[test]
    fn accounts_and_tellers_belong_to_branches_that_exist() {
        let plan = Plan { scale: 2, steps: Vec::new(), confirmed: AtomicU64::new(0), moved: AtomicI64::new(0) };
        for table in (TpcB { plan: Arc::new(plan) }).tables() {
            let line = |row: u64| {
                let mut out = Vec::new();
                (table.line)(row, &mut out);
                String::from_utf8(out).unwrap()
            };
            match table.name {
                BRANCHES => assert_eq!((table.rows, &line(1)[..4]), (2, "2\t0\t")),
                TELLERS => assert_eq!((table.rows, &line(19)[..7]), (20, "20\t2\t0\t")),
                ACCOUNTS => assert_eq!((table.rows, &line(99_999)[..11]), (200_000, "100000\t1\t0\t")),
                _ => assert_eq!(table.rows, 0),
            }
        }
    }
}

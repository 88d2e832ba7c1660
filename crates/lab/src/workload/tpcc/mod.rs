//! `tpcc`: the full mix of TPC-C (specification revision 5.11) over prepared statements, without think times.
//!
//! ```text
//! random ─▶ data ─▶ schema (tables, indexes, COPY)
//!      └──▶ requests ─▶ transactions (statements) ─▶ terminal (a connection of the load)
//! consistency: clause 3.3.2, after each repetition
//! ```
//!
//! What makes it no TPC-C that may be published as such: no think and keying times, so a few connections do what thousands of
//! terminals would; the home warehouse is chosen for each transaction; a delivery is done while its terminal waits; tables are
//! unlogged and commits asynchronous where that is a server's setting.

mod consistency;
mod data;
mod random;
mod requests;
mod schema;
mod statements;
mod terminal;
#[cfg(test)]
mod tests;
mod transactions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::shards::REFRESH;
use super::{Place, Progress, Sizes, Workload};
use crate::door::pg::PgClient;
use crate::load::Caller;
use crate::numbers::Numbers;
use consistency::Facts;
use data::{DISTRICTS, Scale, TABLES, Table};
use terminal::Terminal;
use transactions::{Done, Known};

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 10_000;

/// What all transactions of a repetition that were confirmed have left.
#[derive(Debug, Default)]
struct Tally {
    orders: AtomicU64,
    lines: AtomicU64,
    payments: AtomicU64,
    deliveries: AtomicU64,
}

impl Tally {
    fn add(&self, done: Done) {
        for (sum, number) in self.fields().into_iter().zip([done.orders, done.lines, done.payments, done.deliveries]) {
            sum.fetch_add(number, Ordering::Relaxed);
        }
    }

    fn fields(&self) -> [&AtomicU64; 4] {
        [&self.orders, &self.lines, &self.payments, &self.deliveries]
    }

    fn sums(&self) -> Done {
        let [orders, lines, payments, deliveries] = self.fields().map(|sum| sum.load(Ordering::Relaxed));
        Done { orders, lines, payments, deliveries, order: None }
    }

    fn clear(&self) {
        self.fields().into_iter().for_each(|sum| sum.store(0, Ordering::Relaxed));
    }
}

struct Tpcc {
    known: Arc<Known>,
    tally: Arc<Tally>,
}

pub(super) fn workload(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    let tpcc = Tpcc::of(sizes);
    let items = tpcc.known.scale.items;
    ensure!((20..=100_000).contains(&items), "--items {items}: tpcc has from 20 to 100000");
    Ok(Box::new(tpcc))
}

impl Workload for Tpcc {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        self.tally.clear();
        let scale = self.known.scale;
        let all: u64 = TABLES.iter().map(|table| data::row_count(scale, *table)).sum();
        let parts = place.parts();
        for address in place.makers() {
            let mut client = PgClient::connect(address)?;
            for statement in schema::drops() {
                client.query(&statement)?;
            }
            for table in TABLES {
                client.query(&schema::create(place, table))?;
            }
        }
        let mut done = 0;
        for (part, address) in parts.iter().enumerate() {
            let mut client = PgClient::connect(*address)?;
            for table in TABLES {
                let is_here = |warehouse: u64| place.is_in(part, warehouse);
                let mut report = || {
                    done += 1;
                    // Items are in all parts, and order lines are more or fewer than they were counted.
                    if done % PROGRESS_ROWS == 0 { progress(done.min(all), all) } else { Ok(()) }
                };
                load(&mut client, scale, table, &is_here, &mut report)?;
                for statement in schema::finish(place, table) {
                    client.query(&statement)?;
                }
            }
        }
        if place.makes_unseen() {
            PgClient::connect(place.address)?.query(REFRESH)?;
        }
        Ok(())
    }

    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>> {
        Ok(Box::new(self.terminal(place, numbers)?))
    }

    fn verify(&self, place: Place) -> Result<Option<String>> {
        let mut facts = Facts::default();
        for address in place.parts() {
            facts.gather(&mut PgClient::connect(address)?)?;
        }
        Ok(facts.fault(self.known.scale, self.tally.sums()))
    }

    fn clear(&self, place: Place) -> Result<()> {
        for address in place.makers() {
            let mut client = PgClient::connect(address)?;
            for statement in schema::drops() {
                client.query(&statement)?;
            }
        }
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let scale = self.known.scale;
        [("warehouses", scale.warehouses), ("items", scale.items), ("customers", scale.customers)]
            .map(|(name, value)| (name.to_owned(), value.into()))
            .into()
    }
}

impl Tpcc {
    fn of(sizes: &Sizes) -> Self {
        let scale = Scale {
            warehouses: sizes.warehouses.unwrap_or(1),
            items: sizes.items.unwrap_or(100_000),
            customers: sizes.customers.unwrap_or(3_000),
        };
        let mut names = Vec::new();
        for warehouse in 1..=scale.warehouses {
            names.extend((1..=DISTRICTS).map(|district| data::name_counts(scale, warehouse, district)));
        }
        Self { known: Arc::new(Known { scale, names }), tally: Arc::default() }
    }

    fn terminal(&self, place: Place, numbers: Numbers) -> Result<Terminal> {
        let mut client = PgClient::connect(place.address)?;
        // Where texts are sorted by their bytes, a capital is before every small letter.
        let is_bytewise = client.query("SELECT CASE WHEN 'a' < 'B' THEN 0 ELSE 1 END")? == [["1"]];
        for statement in statements::ALL {
            client.prepare_typed(statement.name, &schema::named(statement.sql), statement.types)?;
        }
        Ok(Terminal::new(client, self.known.clone(), self.tally.clone(), is_bytewise, numbers))
    }
}

/// The names of its tables.
#[cfg(test)]
pub(super) fn tables() -> Vec<String> {
    TABLES.iter().map(|table| schema::named(&format!("@{}", table.name()))).collect()
}

/// Fills a table with the rows that belong here; `report` is told of each.
fn load(
    client: &mut PgClient,
    scale: Scale,
    table: Table,
    is_here: &dyn Fn(u64) -> bool,
    report: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut copied = 0u64;
    let name = table.name();
    let tag = client
        .copy_in_from(&schema::named(&format!("COPY @{name} FROM STDIN")), &mut |send| {
            let mut outcome = Ok(());
            data::lines(scale, table, &mut |warehouse, line| {
                if warehouse.is_none_or(is_here) {
                    copied += 1;
                    outcome = send(line.as_bytes()).and_then(|()| report());
                }
                outcome.is_ok()
            });
            outcome
        })
        .with_context(|| format!("loading {name}"))?;
    if tag != format!("COPY {copied}") {
        bail!("COPY of {copied} rows of {name} was answered by {tag}");
    }
    Ok(())
}

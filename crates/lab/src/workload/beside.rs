//! An analytic query that is asked again and again while keys are read: over all rows of the table of `copy-in`, with groups, a distinct
//! count and an order, so that it takes long and holds memory.

use std::collections::HashSet;

use anyhow::{Context, Result};

use super::copy::{TABLE, a_of, table};
use super::tables::{drop_all, fill};
use super::{Place, Progress};
use crate::door::pg::{PgClient, Tag};
use crate::load::{Answer, Caller};

/// What its calls are called.
const KINDS: &[&str] = &["analytic query"];

/// Rows of its answer.
const ROWS: usize = 10;

/// The column `a` falls into so many groups.
const GROUPS: u64 = 1000;

/// The query.
fn query() -> String {
    format!(
        "SELECT a % {GROUPS}, count(*), sum(b), max(c), count(DISTINCT c) FROM {TABLE} GROUP BY 1 ORDER BY 2 DESC LIMIT {ROWS}"
    )
}

/// Puts the rows there.
pub(super) fn prepare(place: Place, rows: u64, progress: Progress<'_>) -> Result<()> {
    let address = place.rows.context("it has no rows beside its keys")?;
    fill(&mut PgClient::connect(address)?, Place { address, ..place }, &[table(rows)], progress)
}

/// Takes them away.
pub(super) fn clear(place: Place) -> Result<()> {
    let address = place.rows.context("it has no rows beside its keys")?;
    drop_all(&mut PgClient::connect(address)?, Place { address, ..place }, &[table(0)])
}

/// Asks the query.
pub(super) fn caller(place: Place, rows: u64) -> Result<Box<dyn Caller>> {
    let address = place.rows.context("it has no rows beside its keys")?;
    let mut counts = vec![0u64; GROUPS as usize];
    (0..rows).for_each(|id| counts[(a_of(id) % GROUPS) as usize] += 1);
    let groups = counts.clone();
    counts.retain(|count| *count > 0);
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    counts.truncate(ROWS);
    Ok(Box::new(Analyst { client: PgClient::connect(address)?, groups, largest: counts, found: Vec::new(), tag: None }))
}

struct Analyst {
    client: PgClient,
    /// How many rows each group has.
    groups: Vec<u64>,
    /// The largest of these, in order.
    largest: Vec<u64>,
    /// Group and rows of each row of the answer.
    found: Vec<(i64, i64)>,
    tag: Option<Tag>,
}

impl Caller for Analyst {
    fn make(&mut self) {}

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        let Self { client, found, .. } = self;
        found.clear();
        let tag = client.ask(&query(), &mut |mut row| {
            let (group, count) = (row.next_integer(), row.next_integer());
            found.push((group.unwrap_or(-1), count.unwrap_or(-1)));
        })?;
        self.tag = Some(tag);
        came();
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        let Some(tag) = self.tag.take() else { return };
        let fault = match tag {
            Err(error) => Some(error),
            Ok(_) => self.fault(),
        };
        judged(fault.map_or(Answer::Right, Answer::Wrong));
    }

    fn kinds(&self) -> &'static [&'static str] {
        KINDS
    }
}

impl Analyst {
    /// What is wrong with the groups that were found: of several that are equally large any may be among the largest.
    fn fault(&self) -> Option<String> {
        let counts: Vec<u64> = self.found.iter().map(|(_, count)| count.cast_unsigned()).collect();
        let own = |(group, count): &(i64, i64)| {
            usize::try_from(*group).ok().and_then(|group| self.groups.get(group)) == Some(&count.cast_unsigned())
        };
        let distinct: HashSet<i64> = self.found.iter().map(|(group, _)| *group).collect();
        let right = counts == self.largest && self.found.iter().all(own) && distinct.len() == self.found.len();
        (!right).then(|| format!("the largest groups are {:?}, of {:?} rows each", self.found, self.largest))
    }
}

//! Approximate row counts of sharded tables: they decide which side of a join is read first and passes its keys to the
//! other.
//!
//! Read from the catalogs of the shards when a query with a join is planned, and cached for a while. No result depends
//! on them: if the count is unknown, or a shard does not answer at once, the query is planned without it. Takes no
//! table lock, so a transaction that has locked a table may ask.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_base::clock::monotonic;
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::tree::each_node_with_subqueries;
use ashlar_shard::backend::{RowReader, Settings};
use ashlar_shard::rules::ShardId;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use super::ShardedTable;
use super::collation::provider_of;
use super::scan::ShardScanExec;
use crate::resources::{Barrier, StatementResources};

/// What is known is taken for true for so long: a table has to grow many times before another plan is the better one.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// The same where a shard has said nothing, as one whose table has never been analyzed.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How long a plan waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The type of the columns of the question.
const INT8: u32 = 20;

/// What is known of a table.
#[derive(Default)]
pub(crate) struct Sizes(Mutex<Known>);

#[derive(Default)]
struct Known {
    asked: Option<Instant>,
    /// By shard.
    rows: Vec<Option<u64>>,
}

impl Known {
    /// Whether it is time to ask.
    fn is_due(&self, now: Instant) -> bool {
        let is_whole = !self.rows.is_empty() && !self.rows.contains(&None);
        let kept = if is_whole { KNOWN_FOR } else { UNKNOWN_FOR };
        self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= kept)
    }
}

impl Sizes {
    /// Rows on some shards together, where each of them has said how many.
    pub(super) fn rows(&self, mut shards: impl Iterator<Item = ShardId>) -> Option<usize> {
        let known = self.0.lock();
        let sum = shards.try_fold(0_u64, |sum, shard| {
            let rows = known.rows.get(shard.index()).copied().flatten()?;
            Some(sum.saturating_add(rows))
        });
        sum.and_then(|sum| usize::try_from(sum).ok())
    }

    /// What was known is no longer true.
    pub(super) fn forget(&self) {
        *self.0.lock() = Known::default();
    }

    /// Whether it is time to ask. Who hears that has to: others plan with what there is meanwhile.
    fn take_turn(&self) -> bool {
        let (mut known, now) = (self.0.lock(), monotonic());
        let is_due = known.is_due(now);
        if is_due {
            known.asked = Some(now);
        }
        is_due
    }

    fn note(&self, shards: usize, shard: usize, rows: u64) {
        let mut known = self.0.lock();
        known.rows.resize(shards, None);
        if let Some(known) = known.rows.get_mut(shard) {
            *known = Some(rows);
        }
    }
}

/// What a plan takes for the size of a table that it reads.
pub(crate) struct Presumed {
    table: Arc<ShardedTable>,
    /// Those that it reads.
    shards: Box<[ShardId]>,
    rows: Option<usize>,
}

impl Presumed {
    /// The rows of the shards, as the plan has them.
    pub(crate) fn rows(&self) -> Option<usize> {
        self.rows
    }

    /// The same, as they are known by now.
    pub(crate) fn rows_now(&self) -> Option<usize> {
        self.table.sizes.rows(self.shards.iter().copied())
    }

    /// Whether it is time to ask the shards again.
    pub(crate) fn is_due(&self) -> bool {
        self.table.sizes.0.lock().is_due(monotonic())
    }
}

/// What a node takes for the size of its table, where it reads a sharded one.
pub(crate) fn presumed(node: &Arc<dyn ExecutionPlan>) -> Option<Presumed> {
    let scan = node.downcast_ref::<ShardScanExec>()?;
    let shards = scan.parts().iter().map(|part| part.shard).collect();
    Some(Presumed { table: Arc::clone(scan.table()), shards, rows: scan.rows() })
}

/// Sharded tables of a plan with a join whose shards are to be asked.
///
/// # Errors
/// As DataFusion's traversal.
pub(crate) fn unknown(plan: &LogicalPlan) -> Result<Vec<Arc<ShardedTable>>> {
    let (mut tables, mut is_joined) = (Vec::new(), false);
    let walked = each_node_with_subqueries(plan, |node| {
        is_joined |= matches!(node, LogicalPlan::Join(_));
        if let Some(provider) = provider_of(node) {
            tables.push(Arc::clone(provider.table()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    if is_joined {
        tables.retain(|table| table.sizes.take_turn());
    } else {
        tables.clear();
    }
    Ok(tables)
}

/// Asks all shards of some tables at once.
pub(crate) async fn ask(tables: Vec<Arc<ShardedTable>>, resources: &StatementResources) {
    if resources.barrier == Barrier::Snapshot {
        return;
    }
    let mut places: BTreeMap<Arc<str>, Vec<(Arc<ShardedTable>, usize)>> = BTreeMap::new();
    for table in &tables {
        for (number, shard) in table.routed.rule.shards().iter().enumerate() {
            places.entry(Arc::clone(&shard.server)).or_default().push((Arc::clone(table), number));
        }
    }
    let (role, reads_replicas) = (Arc::clone(&resources.role), resources.reads_replicas);
    let questions = places.into_iter().map(|(server, places)| {
        let question = Question { server, places, role: Arc::clone(&role), reads_replicas };
        question.ask()
    });
    let all = futures::future::join_all(questions.collect::<Vec<_>>());
    // What a shard does not say is not known; if it matters, who reads it says why.
    let _ = tokio::time::timeout(PATIENCE, all).await;
}

/// What one server is asked.
struct Question {
    server: Arc<str>,
    /// Tables, each with the number of the shard.
    places: Vec<(Arc<ShardedTable>, usize)>,
    role: Arc<str>,
    reads_replicas: bool,
}

impl Question {
    /// Before version 14 a table without rows and one that nobody has counted are alike.
    fn text(&self) -> String {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let place = |(at, (table, number)): (usize, &(Arc<ShardedTable>, usize))| {
            let shard = &table.routed.rule.shards()[*number];
            format!("({at}::int8, {}, {})", literal(&shard.schema), literal(&shard.table))
        };
        let places: Vec<String> = self.places.iter().enumerate().map(place).collect();
        format!(
            "SELECT v.place, c.reltuples::int8 FROM (VALUES {}) AS v (place, schema, name) \
             JOIN pg_catalog.pg_namespace AS n ON n.nspname = v.schema \
             JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = v.name \
             WHERE c.reltuples > 0 OR c.reltuples = 0 AND current_setting('server_version_num')::int4 >= 140000",
            places.join(", ")
        )
    }

    async fn ask(self) -> Result<()> {
        let Some((table, _)) = self.places.first() else { return Ok(()) };
        let (fleet, settings) = (Arc::clone(&table.fleet), Settings::default());
        let from = (fleet.pool_of_queries(), None);
        let mut lease = match self.reads_replicas {
            true => fleet.lend_for_reading(from, &self.server, &self.role, &settings).await?,
            false => fleet.lend(from, &self.server, &self.role, &settings).await?,
        };
        lease.queue_scan(&self.text());
        lease.flush().await?;
        let mut failure = None;
        while let Some(range) = lease.next_row(&[INT8, INT8], &mut failure).await? {
            let numbers = numbers(lease.row(&range)).ok_or_else(|| garbled(&self.server))?;
            lease.consume_row(&range);
            let place = usize::try_from(numbers[0]).ok().and_then(|at| self.places.get(at));
            if let (Some((table, shard)), Ok(rows)) = (place, u64::try_from(numbers[1])) {
                table.sizes.note(table.routed.rule.shards().len(), *shard, rows);
            }
        }
        Ok(())
    }
}

/// The numbers of a row of two.
fn numbers(row: &[u8]) -> Option<[i64; 2]> {
    let mut reader = RowReader::new(row).ok()?;
    let mut next = || reader.value().ok().flatten()?.try_into().ok().map(i64::from_be_bytes);
    Some([next()?, next()?])
}

/// 08P01
fn garbled(server: &str) -> Error {
    let message = format!("shard \"{server}\" sent a row that cannot be read");
    Error::new(ErrorCode::ProtocolViolation, message)
}

#[cfg(test)]
mod tests {
    use ashlar_shard::two_phase::Recovery;
    use datafusion::common::tree_node::TreeNode;

    use super::*;
    use crate::catalog::Table;
    use crate::sharded::open;
    use crate::sharded::test_fleet::{fleet, physical};
    use crate::statement::Kind;
    use crate::testing;

    /// Where what is asked of each shard lies: a plan that is run again asks what it has asked before.
    fn asked(plan: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
        let mut asked = Vec::new();
        let walked = plan.apply(|node| {
            asked.extend(node.downcast_ref::<ShardScanExec>().map(|scan| scan.parts().as_ptr() as usize));
            Ok(TreeNodeRecursion::Continue)
        });
        walked.unwrap();
        asked
    }

    #[test]
    fn plans_are_kept_as_long_as_tables_have_the_sizes_that_they_were_made_for() {
        let dir = std::env::temp_dir().join(format!("ashlar-sizes-test-{}", std::process::id()));
        let engine = testing::engine_with(&[]);
        let few = ("few", "id bigint PRIMARY KEY, m bigint, amount bigint");
        let many = ("many", "id bigint PRIMARY KEY, value bigint");
        let recovery = Recovery { period: Duration::from_secs(3600), after: Duration::from_secs(3600) };
        open(&engine, &fleet(&dir, &[few, many]), recovery).unwrap();
        let catalog = engine.catalog().current();
        let table = |name: &str| match catalog.table(name) {
            Some(Table::Sharded(table)) => Arc::clone(table),
            _ => panic!("{name}"),
        };
        let (few, many) = (table("few"), table("many"));
        let set = |table: &ShardedTable, rows: [u64; 2]| {
            let sizes = rows.into_iter().enumerate();
            sizes.for_each(|(shard, rows)| table.sizes.note(2, shard, rows));
        };
        for sql in [
            "SELECT count(*), sum(f.amount + m.value) FROM few f JOIN many m ON m.id = f.m",
            "SELECT m.value FROM few f LEFT JOIN many m ON m.id = f.m AND m.value > 5",
            "SELECT f.id FROM few f WHERE f.m IN (SELECT value FROM many)",
            "SELECT sum(value)::text FROM many WHERE id < 1000",
        ] {
            let Kind::Select(select) = testing::plan(&engine, sql).kind else { panic!("{sql}") };
            set(&few, [100, 100]);
            set(&many, [10_000, 10_000]);
            // Nobody answers, and that is known then.
            let first = physical(&engine, &select);
            set(&few, [100, 100]);
            set(&many, [10_000, 10_000]);
            let made = physical(&engine, &select);
            assert_eq!(asked(&made), asked(&first), "{sql}");
            assert!(!asked(&made).is_empty(), "{sql}");
            set(&many, [10_000, 25_000]);
            assert_eq!(asked(&physical(&engine, &select)), asked(&made), "{sql}");
            set(&many, [100_000, 100_000]);
            let larger = physical(&engine, &select);
            assert_ne!(asked(&larger), asked(&made), "{sql}");
            assert_eq!(asked(&physical(&engine, &select)), asked(&larger), "{sql}");
            many.sizes.forget();
            assert_ne!(asked(&physical(&engine, &select)), asked(&larger), "{sql}");
        }
        drop(std::fs::remove_dir_all(&dir));
    }

    #[test]
    fn a_plan_is_charged_for_what_it_keeps_for_each_shard() {
        let dir = std::env::temp_dir().join(format!("ashlar-texts-test-{}", std::process::id()));
        let engine = testing::engine_with(&[]);
        let notes = ("notes", "id bigint PRIMARY KEY, n bigint, s text");
        let recovery = Recovery { period: Duration::from_secs(3600), after: Duration::from_secs(3600) };
        open(&engine, &fleet(&dir, &[notes]), recovery).unwrap();
        let long = "x".repeat(200_000);
        for (sql, texts_least) in [
            ("SELECT sum(n)::text FROM notes".to_owned(), 2 * "SELECT n FROM notes".len()),
            (format!("SELECT sum(n)::text FROM notes WHERE s = '{long}'"), 2 * long.len()),
            (format!("SELECT f.id FROM notes f WHERE f.n IN (SELECT n FROM notes WHERE s = '{long}')"), 2 * long.len()),
        ] {
            let shown = &sql[..sql.len().min(80)];
            let Kind::Select(select) = testing::plan(&engine, &sql).kind else { panic!("{shown}") };
            let charged = select.bytes().unwrap();
            let (plan, mut kept, mut texts) = (physical(&engine, &select), 0, 0);
            let walked = plan.apply(|node| {
                for part in node.downcast_ref::<ShardScanExec>().into_iter().flat_map(ShardScanExec::parts) {
                    kept += size_of_val(part) + part.text.capacity();
                    texts += part.text.len();
                }
                Ok(TreeNodeRecursion::Continue)
            });
            walked.unwrap();
            assert!(texts >= texts_least, "{shown}: {texts}");
            let constants = sql.matches(&long).count() * long.len();
            assert!(charged >= kept + constants, "{shown}: {charged} for {kept} and {constants}");
        }
        drop(std::fs::remove_dir_all(&dir));
    }

    fn some(sizes: &Sizes, shards: &[u16]) -> Option<usize> {
        sizes.rows(shards.iter().map(|shard| ShardId(*shard)))
    }

    #[test]
    fn rows_are_known_where_all_shards_have_said_theirs() {
        let sizes = Sizes::default();
        assert_eq!(some(&sizes, &[0]), None);
        assert!(sizes.take_turn());
        assert!(!sizes.take_turn());
        sizes.note(2, 1, 5);
        assert_eq!((some(&sizes, &[1]), some(&sizes, &[0, 1]), some(&sizes, &[])), (Some(5), None, Some(0)));
        sizes.note(2, 0, 7);
        assert_eq!(some(&sizes, &[0, 1]), Some(12));
        sizes.forget();
        assert_eq!(some(&sizes, &[1]), None);
        assert!(sizes.take_turn());
    }

    #[test]
    fn a_row_has_two_numbers() {
        let mut row = vec![0, 2];
        for number in [3_i64, 1 << 40] {
            row.extend_from_slice(&8_i32.to_be_bytes());
            row.extend_from_slice(&number.to_be_bytes());
        }
        assert_eq!(numbers(&row), Some([3, 1 << 40]));
        assert_eq!(numbers(&row[..row.len() - 1]), None);
        assert_eq!(numbers(&[0, 2, 255, 255, 255, 255, 255, 255, 255, 255]), None);
    }
}

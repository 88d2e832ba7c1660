//! What a plan reads from shards while its session waits: from shards that the statement's own transaction has written
//! to, over the transaction's connections, because only these see the changes; and, if other statements may run
//! meanwhile, under fixed snapshots of all other shards (`snapshot_servers`).
//!
//! ```text
//! plan ──▶ each scan of such a shard, once ──▶ asked of the session ──▶ rows come, are charged and kept ──▶ the plan runs
//! ```
//!
//! The session owns the connections, and runs one scan after the other on them. All of that is finished before the plan
//! runs, so no connection is busy with the statement while its rows are read: a cursor sees the data as of when it was
//! opened, and other statements may follow while it is open. Meanwhile the statement gives up its turn among the
//! queries, so that others run while a shard keeps it waiting. A read that no scan of the plan has announced is
//! refused, never sent over another connection. Called by `SelectPlan`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, Result, SqlType};
use ashlar_functions::error::from_datafusion;
use ashlar_shard::backend::{ReadType, check_columns};
use ashlar_shard::snapshot::Reading;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::mpsc;

use super::batches::{Building, garbled};
use super::scan::{Asking, ShardPart, ShardScanExec, other_collation};
use super::snapshot_servers;
use crate::resources::{Barrier, StatementResources};

/// Pieces that wait for whoever puts them into batches.
const PIECES_WAITING_MAX: usize = 1;

static OWN: Name = Name::new("shard scan by its transaction");

/// A scan of one shard that the session is to run on its transaction's connection.
#[derive(Debug)]
pub struct OwnRead {
    /// The shard.
    pub server: Arc<str>,
    /// What it is asked.
    pub text: String,
    /// Takes what it answers, as it comes; closed where nobody wants any more of it.
    pub pieces: mpsc::Sender<Piece>,
    types: Vec<ReadType>,
    orders_text: bool,
}

/// A piece of an answer.
#[derive(Debug)]
pub enum Piece {
    /// Whole DataRows, one after the other, in binary form.
    Rows(Vec<u8>),
    /// That was all of them.
    End,
}

impl OwnRead {
    /// What may keep the rows from being what the plan takes them for.
    ///
    /// # Errors
    /// 0A000 where the order of texts decides, and the shard has another one.
    pub fn check_order(&self, is_c_collated: bool) -> Result<()> {
        if self.orders_text && !is_c_collated { Err(other_collation(&self.server)) } else { Ok(()) }
    }

    /// The same of the RowDescription that comes before the rows.
    ///
    /// # Errors
    /// 42804 where the columns are others.
    pub fn check_columns(&self, description: &[u8]) -> Result<()> {
        check_columns(&self.server, description, &self.types)
    }
}

/// What has been read, for as long as the statement or anybody who gives its rows out is there: that is how long it is charged.
pub(crate) struct Own {
    scans: Vec<Scan>,
    _memory: MemoryReservation,
}

struct Scan {
    part: ShardPart,
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.scans.iter().map(|scan| &scan.part)).finish()
    }
}

impl Own {
    /// What a scan has of one shard.
    pub(super) fn find(self: &Arc<Self>, part: &ShardPart, schema: &SchemaRef) -> Option<OwnRows> {
        let scan = self.scans.iter().position(|scan| scan.part == *part && scan.schema == *schema)?;
        Some(OwnRows { own: Arc::clone(self), scan, next: 0 })
    }
}

/// The rows of one scan, given out batch by batch.
pub(super) struct OwnRows {
    own: Arc<Own>,
    scan: usize,
    next: usize,
}

impl Iterator for OwnRows {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.own.scans[self.scan].batches.get(self.next)?;
        self.next += 1;
        Some(batch.clone())
    }
}

/// What is to be read.
struct Wanted {
    part: ShardPart,
    schema: SchemaRef,
    types: Arc<[SqlType]>,
    orders_text: bool,
}

/// The scans of a plan that only the transaction's connections can answer, those that are alike once.
fn wanted(plan: &Arc<dyn ExecutionPlan>, written: &[Arc<str>]) -> Result<Vec<Wanted>> {
    let mut all: Vec<Wanted> = Vec::new();
    let walked = plan.apply(|node| {
        let Some(scan) = node.downcast_ref::<ShardScanExec>() else { return Ok(TreeNodeRecursion::Continue) };
        let schema = scan.schema();
        for part in scan.parts().iter().filter(|part| written.contains(&part.server)) {
            match all.iter_mut().find(|known| known.part == *part && known.schema == schema) {
                Some(known) => known.orders_text |= scan.orders_text(),
                None => all.push(Wanted {
                    part: part.clone(),
                    schema: Arc::clone(&schema),
                    types: Arc::clone(scan.types()),
                    orders_text: scan.orders_text(),
                }),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    Ok(all)
}

/// What a plan sees of shards that is to be settled while the session waits.
pub(crate) struct Unsettled {
    /// Dropped as soon as nothing more is asked, and on every way out: the session waits for it.
    session: mpsc::Sender<OwnRead>,
    /// What is to be read over the transaction's connections.
    wanted: Vec<Wanted>,
    /// Of which servers what is seen is to be fixed, and how they are read.
    fixed: BTreeMap<Arc<str>, Reading>,
}

/// What is to be settled of a plan, where the session is there for that. `logical`: the same query.
///
/// # Errors
/// As DataFusion's traversal.
pub(crate) fn unsettled(
    plan: &Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    resources: &StatementResources,
) -> Result<Option<Unsettled>> {
    let Some(session) = resources.take_own() else { return Ok(None) };
    let written: &[Arc<str>] = match &resources.barrier {
        Barrier::Written(written) if resources.reads_own() => &written[..],
        // Nothing is read that may not be.
        Barrier::Snapshot => return Ok(None),
        Barrier::None | Barrier::Written(_) => &[],
    };
    let wanted = wanted(plan, written)?;
    let fixed = if resources.is_fixed { snapshot_servers::of_plan(plan, logical, written)? } else { BTreeMap::new() };
    let is_settled = wanted.is_empty() && fixed.is_empty();
    Ok((!is_settled).then_some(Unsettled { session, wanted, fixed }))
}

/// Reads what is to be read over the transaction's connections, and fixes what is seen of other servers.
///
/// # Errors
/// 53200 where there is no memory for it; what a row cannot be read as; as [`Moment::fix`]. What the shard says the session tells.
///
/// [`Moment::fix`]: ashlar_shard::snapshot::Moment::fix
pub(crate) async fn settle(unsettled: Unsettled, context: &TaskContext, resources: &StatementResources) -> Result<()> {
    let Unsettled { session, wanted, fixed } = unsettled;
    // Who waits for a shard has no turn: whatever keeps its rows may wait for one.
    resources.pause();
    let asking = context.session_config().get_extension::<Asking>();
    let asking = asking.ok_or_else(|| Error::internal("a scan of shards runs for nobody"))?;
    if let Some(moment) = resources.moment.as_ref().filter(|_| !fixed.is_empty()) {
        let readers = moment.fix(&fixed).await?;
        // This is the only time that anything of the statement is fixed.
        let _ = asking.readers.set(Arc::new(readers));
    }
    if !wanted.is_empty() {
        let own = read(&session, wanted, context).await?;
        // Nothing has been there before: this is the only reading of the statement.
        let _ = asking.own.set(Arc::new(own));
    }
    // The session's connections are free for it, whether or not it is this statement's turn again.
    drop(session);
    resources.resume().await
}

/// Reads what is wanted, scan by scan.
async fn read(session: &mpsc::Sender<OwnRead>, all: Vec<Wanted>, context: &TaskContext) -> Result<Own> {
    let memory = |name: &str| MemoryConsumer::new(name).register(context.memory_pool());
    let (kept, working) = (memory("ShardScan, kept"), memory("ShardScan"));
    let batch_rows = context.session_config().batch_size();
    let mut scans = Vec::with_capacity(all.len());
    for wanted in all {
        let batches = scope(&OWN, read_one(session, &wanted, batch_rows, &kept, &working)).await?;
        scans.push(Scan { part: wanted.part, schema: wanted.schema, batches: batches.into() });
    }
    Ok(Own { scans, _memory: kept })
}

async fn read_one(
    session: &mpsc::Sender<OwnRead>,
    wanted: &Wanted,
    batch_rows: usize,
    kept: &MemoryReservation,
    working: &MemoryReservation,
) -> Result<Vec<RecordBatch>> {
    let server = &wanted.part.server;
    let (sender, mut pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let asked = OwnRead {
        server: Arc::clone(server),
        text: wanted.part.text.clone(),
        pieces: sender,
        types: wanted.types.iter().map(|sql_type| (*sql_type).into()).collect(),
        orders_text: wanted.orders_text,
    };
    session.send(asked).await.map_err(|_| gone())?;
    let mut building = Building::new(server, &wanted.types, &wanted.schema);
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut keep = |building: &mut Building| -> Result<()> {
        if let Some(batch) = building.finish(working).map_err(from_datafusion)? {
            kept.try_grow(batch.get_array_memory_size()).map_err(from_datafusion)?;
            batches.push(batch);
        }
        working.free();
        Ok(())
    };
    loop {
        match pieces.recv().await {
            Some(Piece::Rows(messages)) => {
                let mut rest = messages.as_slice();
                while let Some(row) = next_row(&mut rest) {
                    building.push(row, working).map_err(from_datafusion)?;
                    if building.is_full(batch_rows) {
                        keep(&mut building)?;
                    }
                }
                if !rest.is_empty() {
                    return Err(garbled(server));
                }
            }
            Some(Piece::End) => {
                keep(&mut building)?;
                return Ok(batches);
            }
            None => return Err(gone()),
        }
    }
}

/// The body of the next DataRow, which is stepped over.
fn next_row<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let ([_, length @ ..], behind) = rest.split_first_chunk::<5>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_sub(4)?;
    let (row, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(row)
}

/// XX000, and nobody is told of it: whoever waits for the statement has ended it.
fn gone() -> Error {
    Error::internal("the session has gone on without what it was asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_out_of_whole_messages_only() {
        let messages = b"D\0\0\0\x06\0\0D\0\0\0\x09\0\x01abc";
        let mut rest = messages.as_slice();
        assert_eq!(next_row(&mut rest), Some(&b"\0\0"[..]));
        assert_eq!(next_row(&mut rest), Some(&b"\0\x01abc"[..]));
        assert_eq!((next_row(&mut rest), rest.len()), (None, 0));
        for cut in 1..messages.len() - 7 {
            let mut rest = &messages[..messages.len() - cut];
            next_row(&mut rest);
            assert_eq!(next_row(&mut rest), None, "{cut}");
            assert!(!rest.is_empty());
        }
        assert_eq!(next_row(&mut &b"D\0\0\0\x03"[..]), None);
    }
}

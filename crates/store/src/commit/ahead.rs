//! Work that a large commit does before it holds the locks of all its partitions: making room, one partition at a time.
//!
//! Called by `commit`. Other threads wait for at most one partition meanwhile. The commit checks again once it holds
//! all locks, because others may have used the room, or written rows, since.

use std::collections::HashMap;
use std::ops::Range;

use ashlar_base::{PartitionId, Result};

use crate::memory::Charge;
use crate::rows::Spares;
use crate::writeset::{Load, Staged};

/// Rows of a partition up to which room for them is made under the commit's locks, behind the rows that are there.
const ROWS_BEHIND: usize = if cfg!(any(test, shuttle)) { 8 } else { 1024 };

/// See the module.
pub(super) struct Ahead {
    /// Rows that were written one by one, by partition: see `Staged::by_partition`.
    pub(super) rows: Vec<u32>,
    pub(super) starts: Vec<u32>,
    /// Segments with room for them, where a partition gets many.
    pub(super) spares: HashMap<PartitionId, Spares>,
    pub(super) charge: Charge,
}

impl Ahead {
    /// Makes room for what was written to a region.
    ///
    /// # Errors
    /// 53200 over the memory bound, 54000 where a row is too large.
    pub(super) fn new(staged: &Staged, loads: &[Load]) -> Result<Self> {
        let charge = Charge::of_statement(staged.account(), staged.list_bytes())?;
        let (rows, starts) = staged.by_partition();
        let mut ahead = Self { rows, starts, spares: HashMap::new(), charge };
        let region = staged.region();
        for partition in (0..region.partition_count()).map(PartitionId) {
            let written = &ahead.rows[ahead.range(partition)];
            let loaded: usize =
                loads.iter().filter_map(|load| load.part(partition)).map(|part| part.live() as usize).sum();
            // A row that ends takes no room.
            let rows = || written.iter().filter(|&&row| !staged.state(row).is_deleted());
            let made = Some(rows().count()).filter(|made| *made > ROWS_BEHIND);
            let coming = loaded + made.unwrap_or(0);
            // An index that grows asks for every key that is there.
            if coming > 0
                && !staged.truncates()
                && let Some(stored) = region.lock(partition).as_mut()
            {
                stored.expect_adoption(coming)?;
            }
            if made.is_some() {
                let columns = staged.schema().columns.len();
                let needs = rows().map(|&row| (0..columns).map(move |ordinal| staged.need(row, ordinal)));
                let spares = region.partition_alone(partition, staged.shape()).into_spares(needs)?;
                ahead.spares.insert(partition, spares);
            }
        }
        Ok(ahead)
    }

    /// Which of the rows are of a partition.
    pub(super) fn range(&self, partition: PartitionId) -> Range<usize> {
        let at = usize::from(partition.0);
        self.starts[at] as usize..self.starts[at + 1] as usize
    }
}

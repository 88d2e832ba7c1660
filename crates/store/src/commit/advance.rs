//! Unique values that a large commit claims in advance, before it locks any partition.
//!
//! Called by `commit`. Claiming is most of the work of such a commit, and this way the locks of all partitions are not
//! held during it. Another writer that finds one of these values claimed, but no row that has it, waits until the
//! commit has finished or has released the value (`Region::bury_holder`), and then tries again. A region has at most
//! one such commit at a time.

use std::sync::Arc;

use ashlar_base::{IndexDef, PartitionId, Result, TableId};

use super::checks::{self, Written};
use super::{Ahead, Failed};
use crate::memory::Charge;
use crate::partition::Examined;
use crate::region::Region;
use crate::sync::MutexGuard;
use crate::taken::{Claim, Claimed, claim_in_parts, unclaim};
use crate::writeset::{Load, Staged};

/// Rows from which on it is worth while.
const ROWS_MIN: usize = if cfg!(any(test, shuttle)) { 4 } else { 4096 };

/// See the module. What was taken is given back when this is dropped, unless it is kept.
pub(super) struct Advance<'r> {
    /// Nobody else has taken values so meanwhile.
    _alone: MutexGuard<'r, ()>,
    claims: Vec<Claim>,
    indexes: Arc<[Arc<IndexDef>]>,
    is_kept: bool,
    _charge: Charge,
}

impl<'r> Advance<'r> {
    /// Takes what the rows want, those that were written one by one (`ahead`) and those of the loads. `None`: the commit has to, under
    /// its locks, because it also gives values back, or because an index is not done yet or computes something. `ignored` are
    /// indexes that the same transaction drops.
    ///
    /// # Errors
    /// 23505 where somebody has a value; 53200.
    pub(super) fn take(
        staged: &'r Staged,
        ahead: &Ahead,
        loads: &[Load],
        ignored: &[TableId],
    ) -> Result<Option<Self>, Failed> {
        let region = staged.region();
        let rows = ahead.rows.len() + loads.iter().map(Load::row_count).sum::<usize>();
        if rows < ROWS_MIN || !region.has_checks() || region.lives().is_on() || !ignored.is_empty() {
            return Ok(None);
        }
        let is_new = |&row: &u32| staged.state(row).is_inserted() && !staged.state(row).is_deleted();
        if staged.truncates() || staged.altered_at().is_some() || !ahead.rows.iter().all(is_new) {
            return Ok(None);
        }
        let alone = region.claim_alone();
        let indexes = region.every_index();
        // The commit says what is wrong where the table is another one.
        let is_known = region.version() == staged.base_version() && !region.is_dropped();
        if !is_known || !indexes.iter().all(|index| index.is_plain() && region.is_complete(index)) {
            return Ok(None);
        }
        let uniques = indexes.iter().filter(|index| index.unique.is_some()).count();
        let bytes = rows * (uniques * size_of::<Claim>() + size_of::<Written>());
        let charge = Charge::of_statement(staged.account(), bytes)?;
        let mut taken = Self { _alone: alone, claims: Vec::new(), indexes, is_kept: false, _charge: charge };
        let (mut examined, mut claimants) = (Examined::default(), Vec::with_capacity(rows));
        for partition in (0..region.partition_count()).map(PartitionId) {
            // It has these indexes and no rows: what it says of a row it says for the partition that is there.
            let asked = region.partition_with(partition, staged.shape(), &taken.indexes);
            for (load, loaded) in loads.iter().enumerate().filter_map(|(at, load)| Some((at, load.part(partition)?))) {
                for row in loaded.living() {
                    let new = loaded.row_as(staged.shape(), row);
                    asked.examine_new(None, &|ordinal| new.get(ordinal), claimants.len(), &mut examined)?;
                    claimants.push(Written::Loaded(load as u32, partition, row));
                }
            }
            for &row in &ahead.rows[ahead.range(partition)] {
                let new = staged.row(row);
                asked.examine_new(None, &|ordinal| new.get(ordinal), claimants.len(), &mut examined)?;
                claimants.push(Written::Row(row));
            }
        }
        let mut claims = examined.claims;
        match claim_in_parts(&mut claims)? {
            Claimed::All => {
                taken.claims = claims;
                Ok(Some(taken))
            }
            Claimed::Clash { index, number, is_own } => {
                Err(checks::clash(staged, loads, index, claimants[number], is_own))
            }
        }
    }

    /// Whether the region has the indexes still whose values were taken: asked with its partitions locked.
    pub(super) fn holds(&self, region: &Region) -> bool {
        Arc::ptr_eq(&self.indexes, &region.every_index())
    }

    /// The rows are there.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Advance<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            unclaim(&self.claims);
        }
    }
}

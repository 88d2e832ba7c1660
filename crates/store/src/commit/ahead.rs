//! Work that a large commit does before it holds the locks of all its partitions: making room, and looking whether others have
//! changed what it writes, one partition at a time.
//!
//! Called by `commit`. Other threads wait for at most one partition meanwhile. The commit checks again once it holds
//! all locks, because others may have used the room, or written rows, since; it looks only at what they have written then.

use std::collections::HashMap;
use std::ops::Range;

use ashlar_base::{PartitionId, Result, Timestamp};

use super::read_key;
use super::work::{ROWS_AT_ONCE, ROWS_IN_PIECE};
use crate::life::Deadline;
use crate::memory::Charge;
use crate::partition::Partition;
use crate::rows::Spares;
use crate::segment::Need;
use crate::writeset::{Load, Staged};

/// Rows of a partition up to which they go behind the rows that are there.
const ROWS_BEHIND: usize = if cfg!(any(test, shuttle)) { 8 } else { 1024 };

/// See the module.
pub(super) struct Ahead {
    /// Rows that were written one by one, by partition: see `Staged::by_partition`.
    pub(super) rows: Vec<u32>,
    pub(super) starts: Vec<u32>,
    /// Room for them, by partition.
    pub(super) rooms: HashMap<PartitionId, Room>,
    /// What is known of the rows of each partition; empty where they are so few that all are looked at.
    pub(super) briefs: Vec<Brief>,
    pub(super) charge: Charge,
}

/// Room for the rows of a partition.
pub(super) enum Room {
    /// Segments of their own.
    Made(Spares),
    /// What they take in each column. There was so much behind the rows that were there.
    Behind(Vec<Need>),
}

/// What is known of the rows that are written in a partition.
#[derive(Clone, Copy)]
pub(super) struct Brief {
    /// How many are not deletions.
    pub(super) kept: usize,
    /// When the first of their keys was read.
    pub(super) read_at: Timestamp,
    /// Nobody else had changed any of the keys. `None`: nobody has looked, or somebody had.
    pub(super) same: Option<Same>,
}

/// Keys that are what they were when they were read.
#[derive(Clone, Copy)]
pub(super) struct Same {
    /// When they were.
    at: Timestamp,
    /// Before it none of their rows ends by itself: nothing is written when the time of one comes.
    until: Deadline,
}

impl Ahead {
    /// Makes room for what was written to a region and, unless the commit does not care, looks whether others have changed that.
    ///
    /// # Errors
    /// 53200 over the memory bound, 54000 where a row is too large.
    pub(super) fn new(staged: &Staged, loads: &[Load], is_blind: bool) -> Result<Self> {
        let charge = Charge::of_statement(staged.account(), staged.list_bytes())?;
        let (rows, starts) = staged.by_partition();
        let mut ahead = Self { rows, starts, rooms: HashMap::new(), briefs: Vec::new(), charge };
        let is_large = ahead.rows.len() > ROWS_AT_ONCE;
        let stands = !staged.truncates() && staged.altered_at().is_none();
        let region = staged.region();
        let columns = staged.schema().columns.len();
        if is_large {
            // Over the bound too: it is little beside the rows, and a full store must be able to delete.
            let partitions = usize::from(region.partition_count());
            let room = size_of::<(PartitionId, Room)>() + columns * size_of::<Need>();
            let known = partitions * size_of::<Brief>() + ahead.rows.len().min(partitions) * room;
            ahead.charge.resize(staged.list_bytes() + known);
        }
        for partition in (0..region.partition_count()).map(PartitionId) {
            let written = &ahead.rows[ahead.range(partition)];
            let loaded: usize =
                loads.iter().filter_map(|load| load.part(partition)).map(|part| part.live() as usize).sum();
            // A row that ends takes no room.
            let rows = || written.iter().filter(|&&row| !staged.state(row).is_deleted());
            let needs = || rows().map(move |&row| (0..columns).map(move |ordinal| staged.need(row, ordinal)));
            let kept = rows().count();
            let made = Some(kept).filter(|made| *made > ROWS_BEHIND);
            let coming = loaded + made.unwrap_or(0);
            // An index that grows asks for every key that is there.
            if coming > 0
                && !staged.truncates()
                && let Some(stored) = region.lock(partition).as_mut()
            {
                stored.expect_adoption(coming)?;
            }
            if made.is_some() {
                let spares = region.partition_alone(partition, staged.shape()).into_spares(needs())?;
                ahead.rooms.insert(partition, Room::Made(spares));
            } else if is_large && kept > 0 && stands {
                let mut sum = vec![Need::default(); columns];
                needs().for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, need)| sum.add(need)));
                if let Some(stored) = region.lock(partition).as_mut() {
                    stored.expect_rows(&sum)?;
                }
                ahead.rooms.insert(partition, Room::Behind(sum));
            }
            if is_large {
                let reads = written.iter().map(|&row| staged.state(row).read_at);
                let read_at = reads.min().unwrap_or(Timestamp(u64::MAX));
                let same = if stands && !is_blind { find_same(staged, partition, written, read_at) } else { None };
                ahead.briefs.push(Brief { kept, read_at, same });
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

impl Brief {
    /// Whether it is known that nobody else has changed a key of the rows, so that they need not be looked at one by one. Asked with the
    /// partition locked.
    pub(super) fn is_same(&self, stored: &Partition, staged: &Staged, rows: usize) -> bool {
        stored.is_present(self.read_at)
            || self.same.is_some_and(|Same { at, until }| {
                !staged.region().lives().has_come(until)
                    && !stored.any_changed_since(at, rows, |hash, key| staged.writes_key(hash, key))
            })
    }
}

/// How it stands with the keys if nobody has changed any of the rows, which were all read at `read_at` or later; `None` if somebody has, or
/// if it cannot be told. The partition is locked for some of the rows at a time: what happens to the others meanwhile has happened
/// after the time that is given.
fn find_same(staged: &Staged, partition: PartitionId, rows: &[u32], read_at: Timestamp) -> Option<Same> {
    let region = staged.region();
    let mut same = None;
    let mut key = Vec::new();
    for piece in rows.chunks(ROWS_IN_PIECE) {
        let guard = region.lock(partition);
        let stored = guard.as_deref()?;
        // Whoever writes here from now on gets a later timestamp, and whoever has got an earlier one is through.
        let last = || Same { at: region.common().registry.last(), until: Deadline::NONE };
        let same: &mut Same = same.get_or_insert_with(last);
        if stored.is_present(read_at) {
            return Some(*same);
        }
        for &row in piece {
            read_key(staged, row, &mut key);
            let located = stored.locate(region.hash(&key), &key);
            if !stored.since(located, &key, staged.state(row).read_at).is_same() {
                return None;
            }
            if let Some(row) = located.row {
                same.until = same.until.min(stored.lives_until(row));
            }
        }
        guard.unlock_fair();
    }
    same
}

#[cfg(test)]
mod tests;

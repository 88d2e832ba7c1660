//! The store of one member: its regions, its clock, its snapshots and its memory bound.
//!
//! Called by the query engine and the sessions. Holds no lock while a region works.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_base::clock::{Wall, millis_of};
use ashlar_base::slot::SLOT_COUNT;
use ashlar_base::{Error, ErrorCode, Result, TableId, TableSchema, Timestamp};
use foldhash::fast::RandomState;

use crate::commit;
use crate::compactor::{self, CompactionReport, CompactorHandle};
use crate::life::Ended;
use crate::locks::{LockStatistics, LockTable, OtherLocks, OtherWaits, RowWaits};
use crate::memory::{Reservation, Total};
use crate::region::{Common, Region};
use crate::segment::ROWS_MAX;
use crate::snapshot::{Registry, Snapshot};
use crate::sync::{Mutex, RwLock};
use crate::writeset::WriteSet;

/// How often a commit is tried again after rows of other tables have been evicted to make room for it.
const REFUSED_MAX: u32 = 4;

/// The configuration of a store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Partitions of every region: a power of two, at most 16384.
    pub partition_count: u16,
    /// Bytes that rows, indexes, versions and buffered writes may take.
    pub memory_max: u64,
    /// Rows of a segment, at most 65,536.
    pub segment_rows_max: u32,
    /// Dead rows from which rewriting segments is worth it, if they are a quarter of all rows.
    pub compaction_rows_min: u32,
    /// Milliseconds between two rounds of the background compactor.
    pub compaction_interval_ms: u64,
    /// The wall clock.
    pub wall: Wall,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            partition_count: 256,
            memory_max: u64::MAX,
            segment_rows_max: ROWS_MAX,
            compaction_rows_min: 64,
            compaction_interval_ms: 250,
            wall: Wall::Machine,
        }
    }
}

/// See the module.
pub struct Store {
    common: Arc<Common>,
    regions: RwLock<BTreeMap<TableId, Arc<Region>>>,
    compaction_interval_ms: u64,
    /// Held during a round of compaction: two at once would build the same segments.
    compacting: Mutex<()>,
    /// Counts of regions that have been dropped.
    dropped: Mutex<Ended>,
}

impl Store {
    /// A store without regions.
    ///
    /// # Panics
    /// If the partition count is not a power of two up to 16384, or segments have no rows or too many: the configuration is checked
    /// before.
    pub fn new(config: StoreConfig) -> Arc<Self> {
        let partitions = config.partition_count;
        assert!(partitions.is_power_of_two() && partitions <= SLOT_COUNT, "partition_count is a power of two");
        assert!((1..=ROWS_MAX).contains(&config.segment_rows_max), "segment_rows_max is 1 to 65536");
        let total = Total::new(config.memory_max);
        Arc::new(Self {
            common: Arc::new(Common {
                registry: Registry::following(config.wall.clone()),
                locks: LockTable::new(&total),
                total,
                hasher: RandomState::default(),
                partition_count: partitions,
                segment_rows: config.segment_rows_max,
                compaction_rows_min: config.compaction_rows_min,
            }),
            regions: RwLock::new(BTreeMap::new()),
            compaction_interval_ms: config.compaction_interval_ms,
            compacting: Mutex::new(()),
            dropped: Mutex::default(),
        })
    }

    /// Creates a table's region. 0A000 for a key of a type that cannot be one.
    pub fn create_region(&self, schema: Arc<TableSchema>) -> Result<Arc<Region>> {
        let region = Region::new(schema, &self.common)?;
        let mut regions = self.regions.write();
        if regions.contains_key(&region.id()) {
            return Err(Error::internal(format!("table {} exists", region.id())));
        }
        regions.insert(region.id(), Arc::clone(&region));
        Ok(region)
    }

    /// Drops a region with its rows. Scans that have begun continue; transactions that wrote to it fail with 40001.
    pub fn drop_region(&self, id: TableId) {
        let region = self.regions.write().remove(&id);
        if let Some(region) = region {
            region.drop_rows();
            let mut dropped = self.dropped.lock();
            *dropped = dropped.plus(region.ended());
        }
    }

    /// A region by its id.
    pub fn region(&self, id: TableId) -> Option<Arc<Region>> {
        self.regions.read().get(&id).cloned()
    }

    /// All regions, by id.
    pub fn regions(&self) -> Vec<Arc<Region>> {
        self.regions.read().values().cloned().collect()
    }

    /// The number of partitions of every region.
    pub fn partition_count(&self) -> u16 {
        self.common.partition_count
    }

    /// Registers a read timestamp: a snapshot of everything that is committed now.
    pub fn snapshot(&self) -> Snapshot {
        self.common.registry.open()
    }

    /// Applies a transaction's writes: all of them, at one timestamp, or none. 40001 if a row that it writes has changed since it was
    /// read; 23505 if an inserted key exists by now; 53200 over the memory bound; 55P03 if another owner has locked a row, which
    /// [`WriteSet::take_stopped`] then names.
    pub fn commit(&self, writes: &mut WriteSet) -> Result<Timestamp> {
        let mut refused = 0;
        loop {
            match commit::commit(&self.common, writes) {
                Err(error) if error.code() == ErrorCode::OutOfMemory && self.make_room(writes, refused) => refused += 1,
                done => return done,
            }
        }
    }

    /// Evicts rows of tables that allow it if there is little room, for a commit that has been refused `refused` times for lack of room.
    /// Returns whether the commit is to be tried again. The commit may run on a thread with other clients, so this takes as long as the
    /// commit does.
    fn make_room(&self, writes: &WriteSet, refused: u32) -> bool {
        if refused >= REFUSED_MAX {
            return false;
        }
        let evicting: Vec<_> = self.regions().into_iter().filter(|region| region.evicts()).collect();
        let bytes = writes.row_bytes() as u64;
        evicting.iter().for_each(|region| region.relieve_for(bytes));
        !evicting.is_empty()
    }

    /// How many rows of all tables have expired and been evicted since the start, including those of tables that were dropped.
    pub fn ended(&self) -> Ended {
        let dropped = *self.dropped.lock();
        self.regions().iter().fold(dropped, |sum, region| sum.plus(region.ended()))
    }

    /// The time by which rows expire: milliseconds since 1970-01-01 00:00 UTC. It never goes back.
    pub fn now_millis(&self) -> i64 {
        i64::try_from(millis_of(self.common.registry.peek())).unwrap_or(i64::MAX)
    }

    /// Counts of row locks and of waits for them.
    pub fn lock_statistics(&self) -> LockStatistics {
        self.common.locks.statistics()
    }

    /// Tells where sessions wait for something else than rows, once: circles of waits are looked for there too.
    pub fn set_other_waits(&self, others: Arc<dyn OtherWaits>) {
        self.common.locks.set_other_waits(others);
    }

    /// The locks of sessions that are of no row, as [`Self::set_other_waits`] lets them be known.
    pub fn other_locks(&self) -> OtherLocks {
        OtherLocks::of(&self.common.locks)
    }

    /// Does something while nobody begins or ends to wait for a row.
    pub fn among_row_waits<R>(&self, work: impl FnOnce(&RowWaits<'_>) -> R) -> R {
        self.common.locks.among_waits(work)
    }

    /// Bytes charged in all, buffered writes included.
    pub fn memory_used(&self) -> u64 {
        self.common.total.used()
    }

    /// Bytes that rows, indexes, versions and buffered writes may take.
    pub fn memory_max(&self) -> u64 {
        self.common.total.max()
    }

    /// Changes the bound. Memory above it stays until rows are deleted, or evicted where their table allows it.
    pub fn set_memory_max(&self, bytes: u64) {
        self.common.total.set_max(bytes);
    }

    /// An account for memory that a statement holds beside the rows; nothing is charged yet.
    pub fn reservation(&self) -> Reservation {
        Reservation::new(&self.common.total)
    }

    /// Lets the commit clock catch up with the wall clock.
    pub(crate) fn advance_clock(&self) {
        self.common.registry.advance();
    }

    /// Runs one round of compaction over all regions, after any that is running.
    pub fn compact(&self) -> CompactionReport {
        let _compacting = self.compacting.lock();
        compactor::round(&self.regions())
    }

    /// Compacts in the background until the handle is dropped.
    pub fn start_compactor(self: &Arc<Self>) -> CompactorHandle {
        CompactorHandle::start(self, self.compaction_interval_ms)
    }
}

#[cfg(test)]
mod tests;

//! Buffered writes of one transaction, or of one statement that writes several rows.
//!
//! Filled by sessions and by DML plans; `commit` applies it. Pending rows are kept in the same kinds of segments and index
//! as those of partitions. Others see nothing before the commit, and everything after a mark can be undone.
//!
//! ```text
//!   rows    one per write, in order; a later write of the same key ends the earlier row
//!   states  beside each row: read timestamp, the row it replaced, partition, what it means
//! ```

mod batch;
mod load;
mod overlay;
mod staged;
mod unique;

#[cfg(test)]
use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::{Datum, Error, IndexDef, Result, TableId, TableSchema};

pub use batch::RowBatch;
pub(crate) use load::Load;
pub use overlay::{Overlay, ReadView};
pub(crate) use staged::{Retirement, Staged};

use crate::life::{Deadline, Expiry};
use crate::locks::{LockRequest, Watch};
use crate::region::{Region, changed};
use crate::row::RowRef;
use crate::shape::Passed;
use crate::snapshot::{Hold, Snapshot};

/// See the module.
#[derive(Default)]
pub struct WriteSet {
    /// Shared with a commit that is through alone.
    staged: Vec<Arc<Staged>>,
    /// The snapshot of the first write: old versions are kept for it, and for every later timestamp.
    first_read: Option<(Snapshot, Hold)>,
    /// See [`WriteSet::blind`].
    is_blind: bool,
    /// See [`WriteSet::ignore_indexes`].
    ignored: Vec<TableId>,
    /// The id of the [`LockHolder`](crate::LockHolder) whose locks do not stop its commit.
    owner: u64,
    /// The lock that has stopped its last commit.
    stopped: Option<LockRequest>,
}

/// The pending state of a key.
pub enum Pending<'a> {
    /// There is no write of this key: the committed row counts.
    Untouched,
    /// The row will be deleted.
    Deleted,
    /// This will be the row.
    Row(RowRef<'a>),
}

/// A place in the order of a write set's writes.
#[derive(Clone, Debug, Default)]
pub struct Mark(Vec<staged::Length>);

impl WriteSet {
    /// An empty write set.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty write set for writes that do not depend on anything that was read: they replace what others have committed meanwhile,
    /// and the commit does not fail because of it.
    pub fn blind() -> Self {
        Self { is_blind: true, ..Self::default() }
    }

    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Sets the holder whose locks do not stop the commit.
    pub fn set_owner(&mut self, holder: u64) {
        self.owner = holder;
    }

    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    pub(crate) fn stop(&mut self, request: LockRequest) {
        self.stopped = Some(request);
    }

    /// Takes the request for the lock that has stopped the last commit. Once that lock is taken, the commit can be tried again.
    pub fn take_stopped(&mut self) -> Option<LockRequest> {
        self.stopped.take()
    }

    /// A lock for every key that was read or written and that nobody else may change, in the order in which to take them.
    pub(crate) fn requests(&self) -> Vec<LockRequest> {
        let mut requests: Vec<LockRequest> = self.staged.iter().flat_map(|staged| staged.requests()).collect();
        requests.sort_by_key(LockRequest::order);
        requests.dedup_by_key(|request| request.order());
        requests
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.staged.iter().all(|staged| staged.is_empty())
    }

    /// Whether a commit has at most this many rows and bytes to apply, and no table to truncate.
    pub fn is_within(&self, rows_max: usize, bytes_max: usize) -> bool {
        let rows: usize = self.staged.iter().map(|staged| staged.row_count()).sum();
        let truncates = self.staged.iter().any(|staged| staged.truncates());
        !truncates && rows <= rows_max && self.row_bytes() <= bytes_max
    }

    /// The approximate size of the pending rows in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        self.staged.iter().map(|staged| staged.row_bytes()).sum()
    }

    /// The pending state of a key.
    pub fn get(&self, region: &Region, key: &[Datum<'_>]) -> Pending<'_> {
        match self.staged_for(region) {
            Some(staged) => staged.get(key),
            None => Pending::Untouched,
        }
    }

    fn staged_for(&self, region: &Region) -> Option<&Staged> {
        self.staged.iter().map(Arc::as_ref).find(|staged| staged.region().id() == region.id())
    }

    /// The writes of a region, to be added to: 40001 where it has another shape than the one of `version`, which
    /// the caller's rows are in the order of.
    fn staged_mut(&mut self, region: &Arc<Region>, version: u32, read_at: &Snapshot) -> Result<&mut Staged> {
        if self.first_read.as_ref().is_none_or(|(first, _)| read_at.timestamp() < first.timestamp()) {
            self.first_read = Some((read_at.clone(), read_at.registry().hold()));
        }
        let index = match self.staged.iter().position(|staged| staged.region().id() == region.id()) {
            Some(index) => index,
            None => {
                self.staged.push(Arc::new(Staged::new(&region.committed())));
                self.staged.len() - 1
            }
        };
        let staged = own(&mut self.staged[index]);
        let is_known = version == staged.schema().version && version == region.version() && !region.is_stale();
        if region.is_dropped() || !is_known || region.is_younger_than(read_at) {
            return Err(changed(staged.schema()));
        }
        Ok(staged)
    }

    /// Adds a row or replaces the row with its key, whose deadline it keeps. `version` is the version of the schema that the row was made
    /// for: 40001 if the table has another one by now. `read_at` is the snapshot of the statement: the commit fails with 40001 if another
    /// commit has changed this key after it.
    pub fn upsert(&mut self, region: &Arc<Region>, version: u32, read_at: &Snapshot, row: &[Datum<'_>]) -> Result<()> {
        self.put(region, version, read_at, row, Expiry::Keep)
    }

    /// Like [`WriteSet::upsert`], but also sets the lifetime of the row.
    pub fn put(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        row: &[Datum<'_>],
        expiry: Expiry,
    ) -> Result<()> {
        self.put_passed(region, version, read_at, row, expiry, None)
    }

    /// Like [`WriteSet::put`], for a row that may have passed [`Region::check_together`].
    pub fn put_passed(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        row: &[Datum<'_>],
        expiry: Expiry,
        passed: Option<&Passed>,
    ) -> Result<()> {
        self.staged_mut(region, version, read_at)?.upsert(read_at.timestamp(), row, expiry, None, passed)
    }

    /// Like [`WriteSet::put`], but the row keeps the deadline of the existing one.
    pub(crate) fn put_over(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        row: &[Datum<'_>],
        life: (Expiry, Deadline),
    ) -> Result<()> {
        self.staged_mut(region, version, read_at)?.upsert(read_at.timestamp(), row, life.0, Some(life.1), None)
    }

    /// Adds a row whose key must be new: 23505 at once if the snapshot sees a row with this key or one is pending, and at commit if one
    /// has appeared since. `version` and `read_at` are as for [`WriteSet::upsert`].
    pub fn insert(&mut self, region: &Arc<Region>, version: u32, read_at: &Snapshot, row: &[Datum<'_>]) -> Result<()> {
        self.insert_living(region, version, read_at, row, Expiry::Table)
    }

    /// Like [`WriteSet::insert_living`], for a row that may have passed [`Region::check_together`].
    pub fn insert_passed(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        row: &[Datum<'_>],
        expiry: Expiry,
        passed: Option<&Passed>,
    ) -> Result<()> {
        self.staged_mut(region, version, read_at)?.insert(read_at.timestamp(), row, expiry, passed)
    }

    /// Like [`WriteSet::insert`], but also sets the lifetime of the row.
    pub fn insert_living(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        row: &[Datum<'_>],
        expiry: Expiry,
    ) -> Result<()> {
        self.insert_passed(region, version, read_at, row, expiry, None)
    }

    /// Like [`WriteSet::insert`], for rows that have waited, as they came, at most so many of them: whether all of them are
    /// through.
    ///
    /// # Errors
    /// Those of the first row that is refused, with its number among those that have waited. None behind it is inserted.
    pub fn insert_batch(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        batch: &mut RowBatch,
        rows_max: usize,
    ) -> Result<bool, (usize, Error)> {
        let staged = self.staged_mut(region, version, read_at).map_err(|error| (0, error))?;
        staged.insert_batch(read_at.timestamp(), batch, rows_max);
        batch.finish()
    }

    /// Many rows are about to come for [`WriteSet::load_batch`]. `false`: not in bulk, and they are to be inserted. `version`
    /// and `read_at` as for [`WriteSet::upsert`]. What was loaded is taken back only as a whole: a mark must not be set
    /// before the last row has come.
    pub fn start_load(&mut self, region: &Arc<Region>, version: u32, read_at: &Snapshot) -> Result<bool> {
        self.staged_mut(region, version, read_at)?.start_load(read_at.timestamp())
    }

    /// Like [`WriteSet::insert`], for rows that have waited, at most so many of them: whether all of them are through. After
    /// [`WriteSet::start_load`].
    ///
    /// # Errors
    /// Those of the first row that is refused, with its number among those that have waited, once all others are through.
    pub fn load_batch(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        batch: &mut RowBatch,
        rows_max: usize,
    ) -> Result<bool, (usize, Error)> {
        let staged = self.staged_mut(region, version, read_at).map_err(|error| (0, error))?;
        staged.load_batch(read_at.timestamp(), batch, rows_max);
        batch.finish()
    }

    /// Removes the row of a key. `version` and `read_at` are as for [`WriteSet::upsert`].
    pub fn delete(&mut self, region: &Arc<Region>, version: u32, read_at: &Snapshot, key: &[Datum<'_>]) -> Result<()> {
        self.staged_mut(region, version, read_at)?.delete(read_at.timestamp(), key)
    }

    /// Removes all rows of a region, including pending ones and those that others commit before this is committed.
    pub fn truncate(&mut self, region: &Arc<Region>, read_at: &Snapshot) -> Result<()> {
        let version = region.version();
        self.staged_mut(region, version, read_at)?.truncate();
        Ok(())
    }

    /// Gives a table another shape, on top of the one of `version`: 40001 if that is not the table's any more, and at
    /// commit if somebody else has written to the table since `read_at`. Returns the region as this transaction sees it
    /// from now on. No row is copied.
    pub fn alter(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        new: Arc<TableSchema>,
        read_at: &Snapshot,
    ) -> Result<Arc<Region>> {
        let staged = self.staged_mut(region, version, read_at)?;
        staged.alter(new, read_at.timestamp())?;
        Ok(Region::altered(staged.region(), staged.base_version(), staged.shape()))
    }

    /// Ends a table with the commit, because `heir` has its rows as of `read_at`, and these indexes: 40001 if it has another shape
    /// than that of `version`, and at commit if somebody else has written to it since, or it has other indexes by then. Nobody writes
    /// to it, or begins to read it, once this is committed; the heir, whose columns count on from there, is not read at an older
    /// snapshot. The region is still to be dropped.
    pub fn retire(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        (heir, indexes): (&Arc<Region>, Arc<[Arc<IndexDef>]>),
        read_at: &Snapshot,
    ) -> Result<()> {
        let retirement = Retirement { heir: Arc::clone(heir), indexes };
        self.staged_mut(region, version, read_at)?.retire(retirement, read_at.timestamp())
    }

    /// Reads without writing: at commit 40001, if another commit changed this key after `read_at`. `version` as for
    /// [`WriteSet::upsert`].
    pub(crate) fn expect(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        key: &[Datum<'_>],
    ) -> Result<()> {
        self.staged_mut(region, version, read_at)?.expect(read_at.timestamp(), key)
    }

    /// Watches a key: the commit fails with 40001 if somebody else has touched it.
    pub(crate) fn expect_untouched(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        watch: &Watch,
    ) -> Result<()> {
        self.staged_mut(region, version, read_at)?.expect_untouched(watch)
    }

    /// Whether a commit changes anything. It does not if there are only keys that must not have changed.
    pub(crate) fn changes_anything(&self) -> bool {
        self.staged.iter().any(|staged| staged.changes_anything())
    }

    /// Whether a region may hold rows for this transaction. It may say so although all rows have been deleted one by one.
    pub fn may_hold_rows(&self, region: &Region) -> bool {
        let staged = self.staged_for(region);
        staged.is_some_and(Staged::has_rows) || (!staged.is_some_and(Staged::truncates) && region.row_count() > 0)
    }

    /// A mark of the present point.
    pub fn mark(&self) -> Mark {
        Mark(self.staged.iter().map(|staged| staged.length()).collect())
    }

    /// Undoes every write since a mark.
    pub fn rollback_to(&mut self, mark: Mark) {
        for (index, staged) in self.staged.iter_mut().enumerate() {
            own(staged).rollback_to(mark.0.get(index).copied().unwrap_or_default());
        }
    }

    /// A frozen picture of the pending writes of a region, for scans on other threads. `None` if there are none.
    pub fn overlay(&self, region: &Region) -> Option<Arc<Overlay>> {
        self.staged_for(region).filter(|staged| !staged.is_empty()).map(Staged::overlay)
    }

    /// The overlays of all regions that have pending writes, as a [`ReadView`] takes them.
    #[cfg(test)]
    pub(crate) fn overlays(&self) -> HashMap<TableId, Arc<Overlay>> {
        let written = self.staged.iter().filter(|staged| !staged.is_empty());
        written.map(|staged| (staged.region().id(), staged.overlay())).collect()
    }

    /// The writes to be committed, by table, and the snapshot that is kept for them.
    pub(crate) fn parts(&mut self) -> (&mut [Arc<Staged>], &mut Option<(Snapshot, Hold)>) {
        self.staged.sort_by_key(|staged| staged.region().id());
        (&mut self.staged, &mut self.first_read)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The writes of a region, to be changed.
pub(crate) fn own(staged: &mut Arc<Staged>) -> &mut Staged {
    Arc::get_mut(staged).expect("a commit that is not through shares nothing")
}

impl std::fmt::Debug for WriteSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteSet").field("regions", &self.staged.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

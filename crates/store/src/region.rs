//! A region: one grid table's rows in this member, in partitions behind a lock each.
//!
//! Called by sessions for the key path (`get`, `entry`), by table providers for scans, by the catalog for changes
//! of the table's shape. A lock is held for one key operation, or while a scan picks up what it will read, and
//! never across anything that waits. Lock order: table id, then partition, then the shape.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use ashlar_base::{Datum, Error, ErrorCode, IndexDef, PartitionId, Result, SqlType, TableId, TableSchema, Timestamp};
use foldhash::fast::RandomState;

use crate::arrow_types::to_arrow_field;
use crate::counters::Counters;
use crate::directory::ByIndex;
use crate::key::{self, Placement};
use crate::life::{Deadline, EXPIRES_AT, Ended, Expiring, Lives, expires_at_column};
use crate::locks::{Attention, LockTable, stopped};
use crate::memory::{Account, Total};
use crate::partition::{Listeners, Partition, Probe, Shared, Stamp, record_batch};
use crate::row::RowRef;
use crate::shape::Shape;
use crate::snapshot::{Registry, Snapshot};
use crate::statistics::TableStatistics;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::taken::Taken;
use crate::writeset::ReadView;

mod analysed;
mod indexes;
mod numbers;
mod place;
mod reading;
mod unique;
pub(crate) mod wanted;
mod writing;

use place::Place;
pub(crate) use place::{Guard, Rest};

/// How often a thread that wants the locks of several partitions releases all of them to do work that a commit has left in one.
const ROUNDS: usize = 3;

/// What the regions of a store share.
pub(crate) struct Common {
    pub(crate) registry: Arc<Registry>,
    pub(crate) total: Arc<Total>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) hasher: RandomState,
    pub(crate) partition_count: u16,
    pub(crate) segment_rows: u32,
    pub(crate) compaction_rows_min: u32,
}

/// See the module.
pub struct Region {
    id: TableId,
    shape: RwLock<Arc<Shape>>,
    key_types: Box<[SqlType]>,
    placement: Placement,
    places: Arc<[Place]>,
    account: Arc<Account>,
    common: Arc<Common>,
    lives: Arc<Lives>,
    listeners: Listeners,
    life: Arc<Life>,
    /// Set for the region as a transaction sees it that has altered its shape.
    altered: Option<Altered>,
}

/// The parts of a region, beside its rows and its shape, that change.
#[derive(Default)]
struct Life {
    counters: Counters,
    /// Secondary indexes. A new partition gets them when it is made, existing ones one after the other.
    indexes: RwLock<Arc<[Arc<IndexDef>]>>,
    /// For each index, which partitions have which values. New partitions fill them as well.
    directories: RwLock<ByIndex>,
    /// For each unique index, which values are taken.
    taken: RwLock<HashMap<TableId, Arc<Taken>>>,
    /// Held by a commit that claims values before it has the locks of their partitions.
    claiming: Mutex<()>,
    /// Whether there are indexes that are unique or that compute expressions.
    has_checks: AtomicBool,
    /// What ANALYZE has found.
    statistics: RwLock<Option<Arc<TableStatistics>>>,
    /// What the partitions that were freed had counted of rows that came and went.
    turnover_freed: AtomicU64,
    /// Whether the region was dropped. Set with every partition locked.
    dropped: AtomicBool,
    /// The region that has had the rows and the indexes since this one was dropped, if there is one.
    heir: Mutex<Option<Weak<Region>>>,
    /// When it took over the rows of another region; zero if it never did.
    born: AtomicU64,
}

/// A region with a shape that is not committed yet: the same partitions, read under that shape.
struct Altered {
    base: Arc<Region>,
    /// The version of the shape that the transaction built on. If the region has another one by now, nothing can be read.
    version: u32,
    shape: Arc<Shape>,
}

/// The hash and the partition of a key, computed once for all operations on it.
#[derive(Clone, Copy)]
pub(crate) struct KeyPlace {
    pub(crate) partition: PartitionId,
    pub(crate) hash: u64,
}

/// One batch of a scan.
#[derive(Clone, Debug)]
pub struct ScanBatch {
    /// The requested columns, in memory that is shared with the store.
    pub batch: RecordBatch,
    /// The rows of the batch that the view sees; `None` if it sees all.
    pub visible: Option<BooleanBuffer>,
}

impl Region {
    pub(crate) fn new(schema: Arc<TableSchema>, common: &Arc<Common>) -> Result<Arc<Self>> {
        let shape = Shape::new(schema)?;
        let schema = &shape.schema;
        let key_types: Box<[SqlType]> = schema.key.iter().map(|&ordinal| schema.columns[ordinal].sql_type).collect();
        let by = if schema.partition_by.is_empty() { &schema.key } else { &schema.partition_by };
        let position = |ordinal: &usize| schema.key.iter().position(|key| key == ordinal);
        let positions = by.iter().filter_map(position).collect();
        let placement = Placement::new(&schema.name, positions, &key_types, common.partition_count);
        let life = schema.life;
        let region = Arc::new(Self {
            id: schema.id,
            key_types,
            placement,
            places: (0..common.partition_count).map(|_| Place::default()).collect(),
            account: Account::new(&common.total),
            common: Arc::clone(common),
            lives: Lives::new(&common.registry),
            listeners: Listeners::new(Attention::new(schema.id, &common.locks)),
            life: Arc::default(),
            shape: RwLock::new(Arc::new(shape)),
            altered: None,
        });
        region.set_bounds(&life);
        Ok(region)
    }

    /// The region as seen by a transaction that gives it another shape, built on the one of `version`.
    pub(crate) fn altered(base: &Arc<Self>, version: u32, shape: &Arc<Shape>) -> Arc<Self> {
        Arc::new(Self {
            id: base.id,
            key_types: base.key_types.clone(),
            placement: base.placement.clone(),
            places: Arc::clone(&base.places),
            account: Arc::clone(&base.account),
            common: Arc::clone(&base.common),
            lives: Arc::clone(&base.lives),
            listeners: base.listeners.clone(),
            life: Arc::clone(&base.life),
            shape: RwLock::new(Arc::clone(shape)),
            altered: Some(Altered { base: Arc::clone(base), version, shape: Arc::clone(shape) }),
        })
    }

    /// The region as all other sessions see it.
    pub fn committed(self: &Arc<Self>) -> Arc<Self> {
        Arc::clone(self.altered.as_ref().map_or(self, |altered| &altered.base))
    }

    /// Whether the shape that a transaction has altered has been replaced since.
    pub(crate) fn is_stale(&self) -> bool {
        self.altered.as_ref().is_some_and(|altered| altered.base.version() != altered.version)
    }

    /// The table's id.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The table's present shape.
    pub fn schema(&self) -> Arc<TableSchema> {
        Arc::clone(&self.shape.read().schema)
    }

    /// The version of the table's present shape.
    pub(crate) fn version(&self) -> u32 {
        self.shape.read().schema.version
    }

    /// The present shape as an Arrow schema: with every column, hidden ones included.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.read().arrow)
    }

    pub(crate) fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape.read())
    }

    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// The number of partitions.
    pub fn partition_count(&self) -> u16 {
        self.common.partition_count
    }

    /// The number of rows that are committed and not ended.
    pub fn row_count(&self) -> u64 {
        let count = |partition: &Partition| partition.live() - partition.over_count();
        self.places.iter().map(|place| place.lock().as_deref().map_or(0, count)).sum()
    }

    /// The number of rows as [`Self::row_count`] counts them, together with expired rows that have not been removed. No row is read for
    /// it.
    pub fn row_estimate(&self) -> u64 {
        self.places.iter().map(|place| place.lock().as_ref().map_or(0, |partition| partition.live())).sum()
    }

    /// Among the rows of [`Self::row_estimate`], those that have a deadline. No row is read for it.
    pub fn expiring(&self) -> Expiring {
        let of = |place: &Place| place.lock().as_deref().map_or_else(Expiring::default, Partition::expiring);
        self.places.iter().map(of).fold(Expiring::default(), Expiring::plus)
    }

    /// The numbers of rows that expired and that were evicted.
    pub fn ended(&self) -> Ended {
        self.lives.ended()
    }

    pub(crate) fn lives(&self) -> &Arc<Lives> {
        &self.lives
    }

    /// Bytes charged for the region's rows, indexes and versions, including memory that readers still borrow.
    pub fn bytes(&self) -> u64 {
        self.account.used()
    }

    /// Whether the region was dropped.
    pub fn is_dropped(&self) -> bool {
        self.life.dropped.load(Ordering::Acquire)
    }

    /// The error for reading or writing a region that was dropped.
    pub(crate) fn gone(&self) -> Error {
        if self.life.heir.lock().is_some() {
            return changed(&self.schema());
        }
        let name = &self.shape.read().schema.name;
        Error::new(ErrorCode::UndefinedTable, format!("relation \"{name}\" does not exist"))
    }

    /// The partition that owns a key; `None` if no row can have this key.
    pub fn partition_of(&self, key: &[Datum<'_>]) -> Option<PartitionId> {
        self.is_key(key).then(|| self.placement.partition(key))
    }

    /// The partition that owns every key with these values in the columns of `partition_by`; other values are ignored.
    pub(crate) fn partition_of_parts(&self, key: &[Datum<'_>]) -> PartitionId {
        self.placement.partition(key)
    }

    /// The hash and the partition of a key; `None` if no row can have this key.
    pub(crate) fn place_of(&self, key: &[Datum<'_>]) -> Option<KeyPlace> {
        let partition = self.partition_of(key)?;
        Some(KeyPlace { partition, hash: self.hash(key) })
    }

    /// The same for a key that is one integer of its column's type; `None` if [`Region::place_of`] has to be asked.
    #[inline]
    pub(crate) fn place_of_integer(&self, value: i64) -> Option<KeyPlace> {
        let partition = self.placement.partition_of_integer(value)?;
        Some(KeyPlace { partition, hash: key::hash_integer(&self.common.hasher, value) })
    }

    fn is_key(&self, key: &[Datum<'_>]) -> bool {
        key.len() == self.key_types.len()
            && key.iter().zip(&self.key_types).all(|(datum, &sql_type)| key::has_key_type(sql_type, datum))
    }

    pub(crate) fn hash(&self, key: &[Datum<'_>]) -> u64 {
        match key {
            [Datum::Int8(value)] => key::hash_integer(&self.common.hasher, *value),
            _ => key::hash(&self.common.hasher, key.iter().cloned()),
        }
    }

    pub(crate) fn lock(&self, partition: PartitionId) -> Guard<'_> {
        self.places[usize::from(partition.0)].lock()
    }

    /// Locks several partitions, given in ascending order.
    pub(crate) fn lock_several(&self, partitions: &[PartitionId]) -> Vec<Guard<'_>> {
        for _ in 0..ROUNDS {
            let guards = partitions.iter().map(|partition| self.places[usize::from(partition.0)].lock_done());
            if let Some(guards) = guards.collect() {
                return guards;
            }
            // What a commit has left is done with one of them locked at a time: others wait for a piece of that one alone.
            partitions.iter().for_each(|partition| drop(self.lock(*partition)));
        }
        partitions.iter().map(|partition| self.lock(*partition)).collect()
    }

    /// The partition behind a guard, created if it does not exist yet.
    pub(crate) fn partition_mut<'g>(
        &self,
        id: PartitionId,
        guard: &'g mut Option<Box<Partition>>,
    ) -> &'g mut Partition {
        guard.get_or_insert_with(|| self.partition_empty(id))
    }

    /// A partition without rows, with the region's indexes.
    fn partition_empty(&self, id: PartitionId) -> Box<Partition> {
        Box::new(self.partition_with(id, &self.shape(), &self.every_index()))
    }

    /// The same with a shape and indexes that were read from the region before.
    pub(crate) fn partition_with(&self, id: PartitionId, shape: &Arc<Shape>, indexes: &[Arc<IndexDef>]) -> Partition {
        let mut partition = self.partition_alone(id, shape);
        let (directories, taken) = (self.directories().read(), self.life.taken.read());
        partition.start_indexes(indexes, |index| Shared {
            taken: taken.get(&index.id).cloned(),
            directories: directories.get(&index.id).cloned().unwrap_or_default(),
        });
        partition
    }

    /// A partition that is not part of the region yet, without indexes. Its memory is charged to the region.
    pub(crate) fn partition_alone(&self, id: PartitionId, shape: &Arc<Shape>) -> Partition {
        let hasher = self.common.hasher.clone();
        Partition::new(id, shape, &self.account, hasher, self.common.segment_rows, &self.lives, &self.listeners)
    }

    /// Does a piece of what a commit has left in a partition, and returns whether there is more.
    pub(crate) fn do_piece(&self, partition: PartitionId) -> bool {
        self.places[usize::from(partition.0)].do_piece()
    }

    /// The lock of a partition, unless another thread holds it.
    #[inline]
    pub(crate) fn try_lock(&self, partition: PartitionId) -> Option<Guard<'_>> {
        self.places[usize::from(partition.0)].try_lock()
    }

    /// Whether another thread holds the lock of a partition, or has left work there.
    pub(crate) fn is_busy(&self, partition: PartitionId) -> bool {
        self.places[usize::from(partition.0)].is_busy()
    }

    pub(crate) fn directories(&self) -> &RwLock<ByIndex> {
        &self.life.directories
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// A row in this region's shape or, if that is stale, in the present one, whose version tells the difference.
    pub(crate) fn row<'p>(&'p self, partition: &'p Partition, row: u32) -> RowRef<'p> {
        match &self.altered {
            Some(altered) if altered.version == partition.shape().schema.version => {
                partition.row_as(&altered.shape, row)
            }
            _ => partition.row(row),
        }
    }

    /// Whether a key has a row at a timestamp that is registered.
    pub(crate) fn has_at(&self, place: KeyPlace, key: &[Datum<'_>], at: Timestamp) -> bool {
        let guard = self.lock(place.partition);
        guard.as_deref().is_some_and(|partition| partition.locate_at(place.hash, key, at).is_some())
    }

    /// The deadline of the row that a key has at a timestamp that is registered.
    pub(crate) fn deadline_at(&self, place: KeyPlace, key: &[Datum<'_>], at: Timestamp) -> Option<Deadline> {
        let guard = self.lock(place.partition);
        guard.as_deref().and_then(|partition| partition.deadline_at(place.hash, key, at))
    }

    /// Visits the latest rows of one partition whose key hash starts with the `bucket_bits` bits of `bucket`, while it holds the lock
    /// once, until `f` returns false. Returns whether it never did. The time that it takes depends on the rows in the bucket, not on
    /// those of the partition. A key keeps its bucket for the life of the store. `f` must not use the store in any other way.
    pub fn keys_in_bucket(
        &self,
        partition: PartitionId,
        bucket: u64,
        bucket_bits: u32,
        mut f: impl FnMut(RowRef<'_>) -> bool,
    ) -> bool {
        self.lock(partition).as_deref().is_none_or(|partition| partition.for_bucket(bucket, bucket_bits, &mut f))
    }

    /// What a view sees of one partition: columns by their ordinals in the current schema, the view's own
    /// uncommitted writes included.
    pub fn scan(&self, view: &ReadView, partition: PartitionId, columns: &[usize]) -> Result<Vec<ScanBatch>> {
        self.scan_version(view, partition, columns, None)
    }

    /// Like [`Region::scan`], for ordinals of a schema of this version: 40001 if the table has changed since.
    pub fn scan_version(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
    ) -> Result<Vec<ScanBatch>> {
        self.scan_probed(view, partition, columns, version, &[])
    }

    /// Like [`Region::scan_version`], for callers that want only rows which each of the probes finds. The result may contain others: an
    /// index is used only if few rows of the partition are left.
    pub fn scan_probed(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        probes: &[Probe],
    ) -> Result<Vec<ScanBatch>> {
        let asked: Vec<Vec<Probe>> = probes.iter().map(|probe| vec![probe.clone()]).collect();
        self.scan_searched(view, partition, columns, version, &asked)
    }

    /// Like [`Region::scan_version`], for callers that want only rows which one probe of each list finds. The result may contain others:
    /// indexes are used only if few rows of the partition are left.
    pub fn scan_searched(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        asked: &[Vec<Probe>],
    ) -> Result<Vec<ScanBatch>> {
        self.scan_found(view, partition, columns, version, |stored, at| stored.searched(asked, at))
    }

    /// Like [`Region::scan_version`], for callers that want only the row of one key. The result may contain other rows that the view's
    /// own transaction has written.
    pub fn scan_key(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        key: &[Datum<'_>],
    ) -> Result<Vec<ScanBatch>> {
        self.scan_found(view, partition, columns, version, |stored, at| {
            Some(stored.find_at(key, at).into_iter().collect())
        })
    }

    /// Scans the rows that `find` names, or all rows if it returns `None`.
    fn scan_found(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        find: impl FnOnce(&Partition, Timestamp) -> Option<Vec<u32>>,
    ) -> Result<Vec<ScanBatch>> {
        let overlay = view.overlays.get(&self.id);
        let at = view.snapshot.timestamp();
        let (shape, picture, probed) = {
            let guard = self.lock(partition);
            let shape = match (&self.altered, guard.as_deref()) {
                (Some(altered), _) if self.is_stale() => return Err(changed(&altered.shape.schema)),
                (Some(altered), _) => Arc::clone(&altered.shape),
                (None, Some(partition)) => Arc::clone(partition.shape()),
                (None, None) => self.shape(),
            };
            let known = version.is_none_or(|version| version == shape.schema.version)
                && overlay.is_none_or(|overlay| overlay.version() == shape.schema.version);
            if !known {
                return Err(changed(&shape.schema));
            }
            if self.is_dropped() {
                return Err(self.gone());
            }
            self.check_birth(&view.snapshot)?;
            if let Some(wrong) = columns.iter().find(|&&ordinal| !shape.has(ordinal)) {
                return Err(Error::internal(format!("table \"{}\" has no column {wrong}", shape.schema.name)));
            }
            let hides_all = overlay.is_some_and(|overlay| overlay.truncated());
            let stored = guard.as_deref().filter(|_| !hides_all);
            let probed = match stored.and_then(|stored| Some((stored, find(stored, at)?))) {
                Some((stored, mut rows)) => {
                    if let Some(overlay) = overlay.filter(|_| !rows.is_empty()) {
                        let mut hidden = HashSet::new();
                        overlay.for_keys(partition, stored, |key| hidden.extend(stored.find_at(key, at)))?;
                        rows.retain(|row| !hidden.contains(row));
                    }
                    // Most partitions have none: nothing is made for them.
                    let is_none = rows.is_empty();
                    let arrays = if is_none { Some(Vec::new()) } else { stored.gather(&shape, &rows, columns)? };
                    arrays.map(|arrays| (arrays, rows.len()))
                }
                None => None,
            };
            let picture = match stored.filter(|_| probed.is_none()) {
                Some(stored) => {
                    let mut picture = stored.picture(&shape, at, columns);
                    if let Some(overlay) = overlay {
                        overlay.for_keys(partition, stored, |key| stored.hide(&mut picture, key, at))?;
                    }
                    Some(picture)
                }
                None => None,
            };
            (shape, picture, probed)
        };
        if overlay.is_none() && probed.as_ref().is_some_and(|(_, rows)| *rows == 0) {
            return Ok(Vec::new());
        }
        let schema = Arc::new(project(&shape.arrow, columns));
        let mut batches = match picture {
            Some(picture) => picture.batches(columns, &schema)?,
            None => Vec::new(),
        };
        if let Some((arrays, rows)) = probed.filter(|(_, rows)| *rows > 0) {
            batches.push(ScanBatch { batch: record_batch(&schema, arrays, rows)?, visible: None });
        }
        if let Some(overlay) = overlay {
            overlay.batches(partition, columns, &schema, &mut batches)?;
        }
        Ok(batches)
    }

    /// Visits the rows of one partition that an index finds and a snapshot sees. Returns false, and has visited none, if there are more
    /// than `rows_max`, if the partition has no such index, or if the table's shape is not that of `version`. `f` must not use the store
    /// in any other way.
    pub fn probe(
        &self,
        snapshot: &Snapshot,
        partition: PartitionId,
        version: u32,
        probe: &Probe,
        rows_max: usize,
        f: &mut dyn FnMut(RowRef<'_>),
    ) -> bool {
        let guard = self.lock(partition);
        let Some(stored) = guard.as_deref() else { return true };
        stored.shape().schema.version == version && stored.visit_probed(probe, snapshot.timestamp(), rows_max, f)
    }

    /// Checks that a row may be stored: types, NULLs and limits, with PostgreSQL's errors.
    pub fn check_row(&self, row: &[Datum<'_>]) -> Result<()> {
        self.shape.read().check_row(row)
    }

    /// Locks every partition, in order.
    pub(crate) fn lock_all(&self) -> Vec<Guard<'_>> {
        self.lock_several(&(0..self.partition_count()).map(PartitionId).collect::<Vec<_>>())
    }

    /// Gives the table another shape, for ALTER TABLE. Columns with equal ids are the same column. No row is rewritten: existing rows
    /// read an added column as its constant default, or NULL. Transactions that wrote under the old shape fail with 40001 at commit.
    pub fn alter(&self, new: Arc<TableSchema>) -> Result<()> {
        self.alter_after(new, None)
    }

    /// The same where its new CHECK constraints are known to let the rows be there that a snapshot sees.
    pub fn alter_after(&self, new: Arc<TableSchema>, checked: Option<&Snapshot>) -> Result<()> {
        let mut guards = self.lock_all();
        if self.is_dropped() {
            return Err(self.gone());
        }
        let old = self.shape();
        // Rows that only an older snapshot sees are rows: it must not find a value in them that they never had.
        let oldest = self.common.registry.oldest();
        for partition in guards.iter_mut().filter_map(|guard| guard.as_mut()) {
            partition.trim(oldest, usize::MAX);
        }
        let has_rows = guards.iter().any(|guard| guard.as_ref().is_some_and(|partition| partition.has_rows()));
        let shape = Arc::new(old.altered(new, has_rows)?);
        for (ordinal, column) in shape.schema.columns.iter().enumerate().filter(|(_, column)| !column.nullable) {
            let before = old.schema.columns.iter().position(|before| before.id == column.id && before.nullable);
            let holds_null = |before: usize| {
                guards.iter().any(|guard| guard.as_ref().is_some_and(|partition| partition.has_null(before)))
            };
            if before.is_some_and(holds_null) {
                return Err(shape.contains_null(ordinal));
            }
        }
        if shape.has_more_conditions(&old) {
            let mut partitions = guards.iter().filter_map(|guard| guard.as_ref());
            partitions.try_for_each(|partition| partition.check_stored(&shape, checked))?;
        }
        self.set_shape(&shape);
        for partition in guards.iter_mut().filter_map(|guard| guard.as_mut()) {
            partition.set_shape(&shape);
            partition.settle_indexes();
        }
        Ok(())
    }

    /// Replaces the shape, also of every partition. Called with all of them locked.
    pub(crate) fn set_shape(&self, shape: &Arc<Shape>) {
        *self.shape.write() = Arc::clone(shape);
        self.set_bounds(&shape.schema.life);
        // An index goes with any of its columns.
        let stands = |index: &Arc<IndexDef>| shape.schema.has_columns_of(index);
        let standing: Arc<[Arc<IndexDef>]> = {
            let mut indexes = self.life.indexes.write();
            if indexes.iter().all(stands) {
                return;
            }
            let left = indexes.iter().filter(|index| stands(index)).cloned().collect();
            self.life.set_indexes(&mut indexes, left);
            Arc::clone(&indexes)
        };
        self.life.taken.write().retain(|id, _| standing.iter().any(|index| index.id == *id));
        self.directories().write().retain(|id, _| standing.iter().any(|index| index.id == *id));
    }

    /// Whether there are rows, including those that only an older snapshot sees.
    pub(crate) fn has_rows(&self) -> bool {
        let mut guards = self.lock_all();
        let oldest = self.common.registry.oldest();
        guards.iter_mut().filter_map(|guard| guard.as_mut()).any(|partition| {
            partition.trim(oldest, usize::MAX);
            !partition.can_go()
        })
    }

    /// Removes all rows at once, and returns how many there were. Open snapshots still see them.
    ///
    /// # Errors
    /// 42P01 if the table was dropped, 55P03 if another owner has locked a row.
    pub fn truncate(&self) -> Result<u64> {
        let guards = self.lock_all();
        if self.is_dropped() {
            return Err(self.gone());
        }
        if self.attention().is_wanted() && self.attention().request_any(0).is_some() {
            return Err(stopped());
        }
        let stamp = self.common.stamp();
        let rows = guards.iter().filter_map(|guard| guard.as_deref()).map(Partition::live).sum();
        let there = guards.into_iter().filter(|guard| guard.is_some());
        there.for_each(|guard| guard.leave(Box::new(Truncation(stamp))));
        self.places.iter().for_each(|place| drop(place.lock()));
        Ok(rows)
    }

    /// From now on nothing writes to the region or begins to read it, because another one has its rows and counters. Called with every
    /// partition locked, with the timestamp of the commit that moves the rows.
    pub(crate) fn retire_for(&self, other: &Arc<Self>, at: Timestamp) {
        *self.life.heir.lock() = Some(Arc::downgrade(other));
        self.life.dropped.store(true, Ordering::Release);
        other.life.born.store(at.0, Ordering::Release);
        other.take_numbers_of(self);
    }

    /// Checks that a snapshot can be read here.
    ///
    /// # Errors
    /// 40001 for a snapshot from before the region took over the rows of another one: it would not find the rows that it sees.
    pub fn check_birth(&self, snapshot: &Snapshot) -> Result<()> {
        if self.is_younger_than(snapshot) { Err(changed(&self.schema())) } else { Ok(()) }
    }

    /// Whether the region has taken over the rows of another one after a snapshot.
    pub(crate) fn is_younger_than(&self, snapshot: &Snapshot) -> bool {
        snapshot.timestamp().0 < self.life.born.load(Ordering::Acquire)
    }

    /// Drops the rows: no write and no scan finds the region any more, and memory is released as readers finish.
    pub(crate) fn drop_rows(&self) {
        let mut guards = self.lock_all();
        self.life.dropped.store(true, Ordering::Release);
        self.directories().write().clear();
        self.life.taken.write().clear();
        for guard in &mut guards {
            **guard = None;
        }
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        for guard in self.lock_all() {
            if let Some(partition) = guard.as_deref() {
                partition.check();
            }
        }
        self.check_taken();
        self.check_told();
    }
}

/// What TRUNCATE leaves in each partition.
struct Truncation(Stamp);

impl Rest for Truncation {
    fn step(&mut self, partition: &mut Option<Box<Partition>>) -> bool {
        if let Some(partition) = partition {
            partition.truncate(self.0);
            partition.settle_indexes();
        }
        true
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({} \"{}\")", self.id, self.shape.read().schema.name)
    }
}

impl Common {
    /// A timestamp for a write, and the horizon of versions that it must keep. Called with every lock of the write held.
    pub(crate) fn stamp(&self) -> Stamp {
        let timestamp: Timestamp = self.registry.tick();
        Stamp { timestamp, horizon: self.registry.horizon(timestamp) }
    }
}

/// 40001 for work that was planned for an older shape of the table.
pub(crate) fn changed(schema: &TableSchema) -> Error {
    Error::new(ErrorCode::SerializationFailure, "could not serialize access due to a change of the table")
        .with_hint("retry the transaction")
        .with_table(&schema.name)
}

fn project(schema: &Schema, columns: &[usize]) -> Schema {
    let field = |&ordinal: &usize| match ordinal {
        EXPIRES_AT => Arc::new(to_arrow_field(&expires_at_column())),
        ordinal => Arc::clone(&schema.fields()[ordinal]),
    };
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;

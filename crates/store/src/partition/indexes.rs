//! The secondary indexes of a partition.
//!
//! An index has an entry for every row that the key index has one for: those that are there, and those that are ended and
//! that a snapshot still sees. A row whose indexed values change is another row, so an entry never changes. While an index
//! is made it has not got all of them yet: see `building`. Called by `apply` and `compact` where rows come and go, and by
//! `scan` for the rows of a probe.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::ArrayRef;
use ashlar_base::{Datum, IndexDef, IndexKind, PartitionId, Result, TableId, Timestamp, Value};

use super::Partition;
use super::computed::Computed;
use crate::build::build_array;
use crate::directory::{Directories, Directory, hashed_lengths};
use crate::key_parts::{KeyPart, KeyParts};
use crate::life::EXPIRES_AT;
use crate::order::{bytes_of, compare, is_identical, prefix_behind};
use crate::ordered::{Entry, OrderedRows, Reached};
use crate::row::RowRef;
use crate::rows::{Rows, split};
use crate::segment::Need;
use crate::shape::Shape;
use crate::taken::Taken;

mod building;

use building::Awaited;

/// Bytes of a partition's rows that may be copied at once. They are not charged, because they are few and soon released.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// Entries that are sorted and entered together. They are not charged either.
const ENTRIES_SORTED: usize = 8192;

/// Rows that are looked at for what values begin with, and the most bytes of that.
const SAMPLED_ROWS: usize = 64;
const COMMON_BYTES_MAX: usize = 64;

/// One index of the partition.
pub(super) struct Index {
    pub(super) definition: Arc<IndexDef>,
    /// What most values of its first column begin with, as far as was known when it came: prefixes of entries are what comes behind.
    common: Box<[u8]>,
    /// The parts of its key in the present shape; `None` if a column is gone. Then the index is removed, unless the shape is restored
    /// before any row is written.
    pub(super) key_parts: Option<KeyParts>,
    entries: OrderedRows,
    /// For an index with expressions or a predicate: the rows that it has, and the values of the expressions.
    pub(super) computed: Option<Computed>,
    /// For a unique index: the values that are taken, in all partitions.
    pub(super) taken: Option<Arc<Taken>>,
    /// The directories that tell which partitions have a value: see `directory`.
    directories: Directories,
    /// The number of entries that the current directory has received from this partition.
    told: u64,
    /// Where the next directory has to go on with the entries; `None` if it has all, or there is none.
    telling: Option<Reached>,
    /// The rows that the index does not have yet. Queries do not use it until there are none.
    awaited: Option<Awaited>,
    /// Rows of a commit that are entered together, while it is applied.
    collected: Option<Vec<u32>>,
}

/// What an index shares with its parts in other partitions.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) taken: Option<Arc<Taken>>,
    pub(crate) directories: Directories,
}

/// A lookup in an index: rows with these values in its first columns, and with a range of values in the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The index.
    pub index: Arc<IndexDef>,
    /// Values of its first columns; NULL finds NULLs.
    pub equal: Vec<Value>,
    /// Bounds of the next column; both unbounded if it does not matter. NULLs sort above all values, and are within the range only if
    /// NULL is a bound or there is none.
    pub range: (Bound<Value>, Bound<Value>),
}

/// Reads indexed values of rows.
#[derive(Clone, Copy)]
pub(super) struct Reader<'p> {
    shape: &'p Shape,
    rows: &'p Rows,
    key_parts: &'p KeyParts,
    computed: Option<&'p Computed>,
    common: &'p [u8],
}

impl<'p> Reader<'p> {
    /// A value of the row that an entry refers to.
    pub(super) fn value(self, entry: u32, position: usize) -> Datum<'p> {
        match self.key_parts.keys[position] {
            KeyPart::Column(ordinal) => {
                let (slot, offset) = split(self.rows.present(entry));
                self.shape.datum(self.rows.segment(slot), offset, ordinal)
            }
            KeyPart::Computed(expression) => self.computed.map_or(Datum::Null, |values| values.get(entry, expression)),
        }
    }

    pub(super) fn values(self, entry: u32) -> impl Iterator<Item = Datum<'p>> + Clone {
        (0..self.key_parts.keys.len()).map(move |position| self.value(entry, position))
    }

    /// Whether the key has a part at this position.
    pub(super) fn has_position(self, position: usize) -> bool {
        position < self.key_parts.keys.len()
    }

    /// The order of the values of two rows.
    fn compare(self, left: u32, right: u32) -> Ordering {
        let pairs = self.values(left).zip(self.values(right));
        pairs.map(|(left, right)| compare(&left, &right)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// The entry of a row, by its present id.
    fn entry(self, kind: IndexKind, row: u32) -> Entry {
        self.named(kind, self.rows.entry_of(row))
    }

    /// The entry that refers to a row by this id.
    fn named(self, kind: IndexKind, row: u32) -> Entry {
        let prefix = match kind {
            IndexKind::Btree => prefix_behind(self.common, &self.value(row, 0)),
            IndexKind::Hash => self.rows.hash(self.values(row)),
        };
        Entry { prefix, row }
    }

    /// Notes in a directory that a partition has the values of an entry.
    fn tell(self, kind: IndexKind, entry: u32, partition: PartitionId, directory: &Directory) {
        for length in hashed_lengths(kind, self.key_parts.keys.len()) {
            directory.add(self.rows.hash(self.values(entry).take(length)), partition);
        }
    }

    /// Whether an entry of the same prefix comes before that of `row`.
    fn is_before(self, entry: u32, row: u32) -> bool {
        self.compare(entry, row).then(entry.cmp(&row)).is_lt()
    }

    /// The order of two entries.
    fn order(self, left: Entry, right: Entry) -> Ordering {
        let by_value = left.prefix.cmp(&right.prefix).then_with(|| self.compare(left.row, right.row));
        by_value.then_with(|| left.row.cmp(&right.row))
    }
}

impl Index {
    /// An index of a partition without rows.
    fn new(definition: &Arc<IndexDef>, shape: &Shape, rows: &Rows, shared: Shared) -> Self {
        Self {
            definition: Arc::clone(definition),
            common: Box::default(),
            key_parts: KeyParts::of(definition, shape),
            entries: OrderedRows::new(rows.account()),
            computed: definition.rows.as_ref().map(|_| Computed::new(rows.account())),
            taken: shared.taken,
            directories: shared.directories,
            told: 0,
            telling: None,
            awaited: None,
            collected: None,
        }
    }

    /// Notes what most values begin with of a column that it gets the rows of.
    fn note_common(&mut self, shape: &Shape, rows: &Rows) {
        let Some(Reader { key_parts, .. }) = self.reader(shape, rows) else { return };
        let KeyPart::Column(ordinal) = key_parts.keys[0] else { return };
        let mut common: Option<Vec<u8>> = None;
        // They come in the order of their hashes: any of them.
        for row in rows.indexed().take(SAMPLED_ROWS) {
            let (slot, offset) = split(row);
            let datum = shape.datum(rows.segment(slot), offset, ordinal);
            let Some(bytes) = bytes_of(&datum) else { continue };
            let known = common.get_or_insert_with(|| bytes[..bytes.len().min(COMMON_BYTES_MAX)].to_vec());
            let same = known.iter().zip(bytes).take_while(|(left, right)| left == right).count();
            known.truncate(same);
        }
        self.common = common.unwrap_or_default().into();
    }

    pub(super) fn reader<'p>(&'p self, shape: &'p Shape, rows: &'p Rows) -> Option<Reader<'p>> {
        let (key_parts, computed) = (self.key_parts.as_ref()?, self.computed.as_ref());
        Some(Reader { shape, rows, key_parts, computed, common: &self.common })
    }

    /// Whether it has a row, by the id that entries use.
    pub(super) fn has(&self, entry: u32) -> bool {
        self.computed.as_ref().is_none_or(|computed| computed.has(entry))
    }

    /// Whether a row is still to be entered.
    pub(super) fn awaits(&self, rows: &Rows, row: u32) -> bool {
        self.awaited.is_some_and(|awaited| awaited.has(rows, row))
    }

    pub(super) fn kind(&self) -> IndexKind {
        self.definition.kind
    }

    pub(super) fn entries(&self) -> &OrderedRows {
        &self.entries
    }

    fn add(&mut self, id: PartitionId, shape: &Shape, rows: &Rows, row: u32) {
        if !self.has(rows.entry_of(row)) {
            return;
        }
        if let Some(collected) = &mut self.collected {
            collected.push(row);
            if collected.len() == ENTRIES_SORTED {
                let full = std::mem::take(collected);
                self.add_all(id, shape, rows, &full);
            }
            return;
        }
        let Self { definition, common, key_parts: Some(key_parts), entries, computed, directories, told, .. } = self
        else {
            return;
        };
        let reader = Reader { shape, rows, key_parts, computed: computed.as_ref(), common };
        let new = reader.entry(definition.kind, row);
        entries.insert(new, |entry| reader.is_before(entry, new.row));
        *told += 1;
        for directory in directories.current.iter().chain(&directories.next) {
            reader.tell(definition.kind, new.row, id, directory);
        }
    }

    /// Adds many rows, whose expressions have been computed.
    fn add_all(&mut self, id: PartitionId, shape: &Shape, rows: &Rows, added: &[u32]) {
        let Self { definition, common, key_parts: Some(key_parts), entries, computed, directories, told, .. } = self
        else {
            return;
        };
        let computed = computed.as_ref();
        let reader = Reader { shape, rows, key_parts, computed, common };
        let named = added.iter().map(|&row| rows.entry_of(row));
        let named = named.filter(|&entry| computed.is_none_or(|computed| computed.has(entry)));
        let mut new: Vec<Entry> = named.map(|entry| reader.named(definition.kind, entry)).collect();
        new.sort_unstable_by(|left, right| reader.order(*left, *right));
        entries.insert_sorted(&new, |left, right| reader.order(left, right));
        *told += new.len() as u64;
        for directory in directories.current.iter().chain(&directories.next) {
            new.iter().for_each(|entry| reader.tell(definition.kind, entry.row, id, directory));
        }
    }

    fn drop(&mut self, shape: &Shape, rows: &Rows, row: u32) {
        let entry = rows.entry_of(row);
        if !self.has(entry) || self.awaits(rows, row) {
            return;
        }
        let Self { definition, common, key_parts: Some(key_parts), entries, computed, telling, .. } = self else {
            return;
        };
        let reader = Reader { shape, rows, key_parts, computed: computed.as_ref(), common };
        let old = reader.entry(definition.kind, row);
        let found = entries.remove(old, |entry| reader.is_before(entry, old.row));
        assert!(found, "a row that is looked up is in every index");
        telling.iter_mut().for_each(|telling| telling.forget(old.prefix));
        if let Some(computed) = computed {
            computed.remove(entry);
        }
    }

    /// Where an entry is relative to a probe: before what it asks for, in it, or after it.
    pub(super) fn side<'p>(&'p self, reader: Reader<'p>, probe: &'p Probe) -> impl Fn(Entry) -> Ordering + 'p {
        let is_hash = self.definition.kind == IndexKind::Hash;
        let hash = is_hash.then(|| reader.rows.hash(probe.equal.iter().map(Value::as_datum)));
        let prefix = |value: &Value| prefix_behind(reader.common, &value.as_datum());
        let bound = |bound: &Bound<Value>| match bound {
            Bound::Included(value) | Bound::Excluded(value) => Some(prefix(value)),
            Bound::Unbounded => None,
        };
        // Prefixes outside of these decide without a look at the row.
        let (low, high) = match (hash, probe.equal.first()) {
            (Some(hash), _) => (hash, hash),
            (None, Some(first)) => (prefix(first), prefix(first)),
            (None, None) => (bound(&probe.range.0).unwrap_or(0), bound(&probe.range.1).unwrap_or(u64::MAX)),
        };
        move |entry: Entry| {
            if entry.prefix < low {
                return Ordering::Less;
            }
            if entry.prefix > high {
                return Ordering::Greater;
            }
            for (position, value) in probe.equal.iter().enumerate() {
                let order = compare(&reader.value(entry.row, position), &value.as_datum());
                if order.is_ne() {
                    return order;
                }
            }
            if probe.equal.len() == reader.key_parts.keys.len() {
                return Ordering::Equal;
            }
            let value = reader.value(entry.row, probe.equal.len());
            let is_low = match &probe.range.0 {
                Bound::Included(low) => compare(&value, &low.as_datum()).is_lt(),
                Bound::Excluded(low) => compare(&value, &low.as_datum()).is_le(),
                Bound::Unbounded => false,
            };
            let is_high = match &probe.range.1 {
                Bound::Included(high) => compare(&value, &high.as_datum()).is_gt(),
                Bound::Excluded(high) => compare(&value, &high.as_datum()).is_ge(),
                // Without bounds the probe is about the columns before; else NULLs, which come last, are above any.
                Bound::Unbounded => value.is_null() && probe.range.0 != Bound::Unbounded,
            };
            match (is_low, is_high) {
                (true, _) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => Ordering::Equal,
            }
        }
    }
}

impl Partition {
    /// Gives a partition without rows these indexes.
    pub(crate) fn start_indexes(&mut self, definitions: &[Arc<IndexDef>], shared: impl Fn(&IndexDef) -> Shared) {
        for definition in definitions {
            self.indexes.push(Index::new(definition, &self.shape, &self.rows, shared(definition)));
        }
    }

    /// The number of entries of an index, and of those that its directory has received; `None` if the index is not here yet, or not
    /// complete.
    pub(crate) fn index_counts(&self, definition: &IndexDef) -> Option<(u64, u64)> {
        let index = self.indexes.iter().find(|index| index.definition.id == definition.id)?;
        index.awaited.is_none().then_some((index.entries.len() as u64, index.told))
    }

    /// Adds the next `count` entries to a directory, which also receives all that come from now on. Returns true when it has all.
    pub(crate) fn fill(&mut self, index: TableId, next: &Arc<Directory>, count: usize) -> bool {
        let Self { id, indexes, shape, rows, .. } = self;
        let Some(index) = indexes.iter_mut().find(|there| there.definition.id == index) else { return true };
        if index.directories.next.as_ref().is_none_or(|known| !Arc::ptr_eq(known, next)) {
            index.directories.next = Some(Arc::clone(next));
            index.telling = Some(Reached::default());
        }
        let (kind, telling) = (index.definition.kind, index.telling);
        let (Some(telling), Some(reader)) = (telling, index.reader(shape, rows)) else { return true };
        let left = index.entries.visit_from(telling, count, |entry| reader.tell(kind, entry, *id, next));
        index.telling = left;
        left.is_none()
    }

    /// Replaces the current directory by one that has all entries.
    pub(crate) fn settle_directory(&mut self, index: TableId, current: &Arc<Directory>) {
        if let Some(index) = self.indexes.iter_mut().find(|there| there.definition.id == index) {
            index.directories = Directories { current: Some(Arc::clone(current)), next: None };
            index.told = index.entries.len() as u64;
        }
    }

    /// Has an index go by the name that it has got.
    pub(crate) fn rename_index(&mut self, definition: &Arc<IndexDef>) {
        if let Some(index) = self.indexes.iter_mut().find(|index| index.definition.id == definition.id) {
            index.definition = Arc::clone(definition);
        }
    }

    /// Removes an index.
    pub(crate) fn drop_index(&mut self, definition: &IndexDef) {
        self.indexes.retain(|index| index.definition.id != definition.id);
    }

    /// Recomputes the parts of keys after the shape has changed: columns may have other ordinals, or be gone.
    pub(super) fn reshape_indexes(&mut self) {
        for index in &mut self.indexes {
            index.key_parts = KeyParts::of(&index.definition, &self.shape);
        }
    }

    /// Charges the memory of entries for this many more rows.
    pub(super) fn reserve_indexes(&mut self, rows: usize) -> Result<()> {
        self.indexes.iter_mut().try_for_each(|index| index.entries.reserve(rows))
    }

    /// Called when the shape is final and no more rows come: removes indexes that have lost a column, and releases what was charged for
    /// rows that did not come.
    pub(crate) fn settle_indexes(&mut self) {
        self.indexes.retain(|index| index.key_parts.is_some());
        self.indexes.iter_mut().for_each(|index| index.entries.settle());
    }

    /// Stops filling directories of an index.
    pub(crate) fn forget_directory(&mut self, index: TableId) {
        if let Some(index) = self.indexes.iter_mut().find(|there| there.definition.id == index) {
            index.directories = Directories::default();
        }
    }

    /// Begins to collect the entries of a commit that writes this many rows: they are entered by [`Self::enter_collected`] at the latest.
    /// Each row has a key of its own, so none of them ends another.
    pub(crate) fn collect_entries(&mut self, count: usize) {
        if count > 1 {
            self.indexes.iter_mut().for_each(|index| index.collected = Some(Vec::new()));
        }
    }

    /// Enters the collected entries: see [`Self::collect_entries`].
    pub(crate) fn enter_collected(&mut self) {
        let Self { id, indexes, shape, rows, .. } = self;
        for index in indexes {
            if let Some(collected) = index.collected.take() {
                index.add_all(*id, shape, rows, &collected);
            }
        }
    }

    pub(super) fn add_to_indexes(&mut self, row: u32) {
        self.add_computed(row);
        let Self { id, indexes, shape, rows, .. } = self;
        indexes.iter_mut().for_each(|index| index.add(*id, shape, rows, row));
    }

    /// The same for many rows, whose expressions have been computed: they are entered in the order of each index, not in the order in
    /// which they lie.
    pub(super) fn add_all_to_indexes(&mut self, added: &[u32]) {
        let Self { id, indexes, shape, rows, .. } = self;
        for added in added.chunks(ENTRIES_SORTED) {
            indexes.iter_mut().for_each(|index| index.add_all(*id, shape, rows, added));
        }
    }

    pub(super) fn drop_from_indexes(&mut self, row: u32) {
        let Self { indexes, shape, rows, .. } = self;
        indexes.iter_mut().for_each(|index| index.drop(shape, rows, row));
    }

    pub(super) fn clear_indexes(&mut self) {
        for index in &mut self.indexes {
            index.entries.clear();
            index.telling = None;
            index.computed.iter_mut().for_each(Computed::clear);
        }
    }

    /// Whether values, given with their ordinals, differ from a row's in an indexed column, even if only in how they are written, which
    /// an expression may reveal.
    pub(super) fn changes_index<'v, 'd: 'v>(
        &self,
        row: u32,
        values: impl Iterator<Item = (usize, &'v Datum<'d>)> + Clone,
    ) -> bool {
        let (slot, offset) = split(row);
        self.indexes.iter().filter_map(|index| index.key_parts.as_ref()).flat_map(KeyParts::watched).any(|indexed| {
            let changed = values.clone().filter(|(ordinal, _)| *ordinal == indexed).last();
            changed.is_some_and(|(_, value)| {
                !is_identical(&self.shape.datum(self.rows.segment(slot), offset, indexed), value)
            })
        })
    }

    /// Calls `f` with the rows that a probe finds and a snapshot sees. Returns false, without a call, if the index finds more than
    /// `rows_max`, or if there is no such index.
    pub(crate) fn visit_probed(
        &self,
        probe: &Probe,
        at: Timestamp,
        rows_max: usize,
        f: &mut dyn FnMut(RowRef<'_>),
    ) -> bool {
        let is_few = self.count_probed(probe).is_some_and(|count| count <= rows_max);
        if is_few {
            self.for_probed(probe, at, |row| f(self.row(row)));
        }
        is_few
    }

    /// Copies of columns of rows, under a shape: one array each. `None` if they are so large that they should be borrowed instead.
    ///
    /// # Errors
    /// XX000 if a stored value does not have its column's type.
    pub(crate) fn gather(&self, shape: &Shape, rows: &[u32], columns: &[usize]) -> Result<Option<Vec<ArrayRef>>> {
        let value = |row: u32, ordinal: usize| {
            if ordinal == EXPIRES_AT {
                return self.rows.deadline(row).datum();
            }
            let (slot, offset) = split(row);
            shape.datum(self.rows.segment(slot), offset, ordinal)
        };
        let mut bytes = 0;
        for (&row, &ordinal) in rows.iter().flat_map(|row| columns.iter().map(move |ordinal| (row, ordinal))) {
            let need = Need::of(&value(row, ordinal));
            bytes += need.bytes + need.items * size_of::<u64>();
            if bytes > GATHERED_BYTES_MAX {
                return Ok(None);
            }
        }
        let column =
            |&ordinal: &usize| build_array(shape.type_of(ordinal), rows.iter().map(|&row| value(row, ordinal)));
        columns.iter().map(column).collect::<Result<_>>().map(Some)
    }

    /// The number of rows that a probe finds, ended ones included; `None` if there is no such index, or it is not complete.
    pub(super) fn count_probed(&self, probe: &Probe) -> Option<usize> {
        let (index, reader) = self.index(probe)?;
        let side = index.side(reader, probe);
        Some(index.entries.count(|entry| side(entry).is_lt(), |entry| side(entry).is_le()))
    }

    /// Calls `f` with the rows that a probe finds and a snapshot sees, in the order of the index.
    pub(super) fn for_probed(&self, probe: &Probe, at: Timestamp, mut f: impl FnMut(u32)) {
        let Some((index, reader)) = self.index(probe) else { return };
        let side = index.side(reader, probe);
        for entry in index.entries.range(|entry| side(entry).is_lt(), |entry| side(entry).is_le()) {
            let row = self.rows.present(entry);
            if self.is_visible(self.rows.segment(split(row).0), row, at) {
                f(row);
            }
        }
    }

    /// The present row with these values; neither an ended nor an expired one.
    pub(crate) fn find_live(&self, index: &Arc<IndexDef>, values: &[Value]) -> Option<u32> {
        self.find_not_ended(index, values, |row| !self.is_over(row))
    }

    /// The expired row with these values that has not been removed yet.
    pub(super) fn find_over(&self, index: &Arc<IndexDef>, values: &[Value]) -> Option<u32> {
        self.find_not_ended(index, values, |row| self.is_over(row))
    }

    fn find_not_ended(&self, index: &Arc<IndexDef>, values: &[Value], wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let open = (Bound::Unbounded, Bound::Unbounded);
        let probe = Probe { index: Arc::clone(index), equal: values.to_vec(), range: open };
        // Rows that it is still to get have no values for themselves.
        let (index, reader) = self.index_so_far(&probe)?;
        let side = index.side(reader, &probe);
        let found = index.entries.range(|entry| side(entry).is_lt(), |entry| side(entry).is_le());
        found.map(|entry| self.rows.present(entry)).find(|&row| !self.rows.is_dead(row) && wanted(row))
    }

    pub(super) fn index(&self, probe: &Probe) -> Option<(&Index, Reader<'_>)> {
        self.index_so_far(probe).filter(|(index, _)| index.awaited.is_none())
    }

    /// The same, even if the index is not complete.
    fn index_so_far(&self, probe: &Probe) -> Option<(&Index, Reader<'_>)> {
        let index = self.indexes.iter().find(|index| index.definition.id == probe.index.id)?;
        Some((index, index.reader(&self.shape, &self.rows)?))
    }

    /// Changes the ids of rows in entries: pairs of old and new id.
    pub(super) fn rename_in_indexes(&mut self, renamed: &[(u32, u32)]) {
        let Self { id, indexes, shape, rows, .. } = self;
        for index in indexes {
            let Index {
                definition, common, key_parts: Some(key_parts), entries, computed, telling, directories, ..
            } = index
            else {
                continue;
            };
            for &(old, new) in renamed {
                if computed.as_mut().is_some_and(|computed| !computed.copy(old, new)) {
                    continue;
                }
                let reader = Reader { shape, rows, key_parts, computed: computed.as_ref(), common };
                let entry = reader.named(definition.kind, old);
                let found = entries.remove(entry, |entry| reader.is_before(entry, old));
                assert!(found, "a row that moves is in every index");
                entries.insert(reader.named(definition.kind, new), |entry| reader.is_before(entry, new));
                // It may be among those by now that the next directory was told of.
                telling.iter_mut().for_each(|telling| telling.forget(entry.prefix));
                if let Some(directory) = &directories.next {
                    reader.tell(definition.kind, new, *id, directory);
                }
                if let Some(computed) = computed {
                    computed.remove(old);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn check_indexes(&self) {
        for index in &self.indexes {
            let Some(reader) = index.reader(&self.shape, &self.rows) else { continue };
            let all: Vec<u32> = index.entries.range(|_| false, |_| true).collect();
            assert_eq!(all.len(), index.entries.len());
            let mut found: Vec<u32> = all.iter().map(|&entry| self.rows.present(entry)).collect();
            self.check_computed(index);
            let is_in = |row: &u32| index.has(self.rows.entry_of(*row)) && !index.awaits(&self.rows, *row);
            let mut expected: Vec<u32> = self.rows.indexed().filter(is_in).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "an index has the rows that the key index has");
            for pair in all.windows(2) {
                let (left, right) = (self.rows.present(pair[0]), self.rows.present(pair[1]));
                let entries = (reader.entry(index.definition.kind, left), reader.entry(index.definition.kind, right));
                let by_prefix = entries.0.prefix.cmp(&entries.1.prefix);
                let order = by_prefix.then_with(|| reader.compare(pair[0], pair[1])).then(pair[0].cmp(&pair[1]));
                assert_eq!(order, Ordering::Less, "an index is in order");
            }
        }
    }
}

#[cfg(test)]
mod tests;

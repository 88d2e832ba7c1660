//! The secondary indexes of a partition.
//!
//! An index has an entry for every row that the key index has one for: those that are there, and those that are ended and
//! that a snapshot still sees. A row whose indexed values change is another row, so an entry never changes. Called by
//! `apply` and `compact` where rows come and go, and by `scan` for the rows of a probe.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::ArrayRef;
use ashlar_base::{ColumnId, Datum, IndexDef, IndexKind, Result, Timestamp, Value};

use super::Partition;
use crate::build::build_array;
use crate::memory::Charge;
use crate::order::{compare, prefix};
use crate::ordered::{Entry, OrderedRows};
use crate::row::RowRef;
use crate::rows::{Rows, split};
use crate::shape::Shape;

/// Rows of a partition that are looked up and copied one by one, under its lock.
const PROBED_MAX: usize = 4096;
/// So few are looked up whatever else there is.
const PROBED_FEW: usize = 16;
/// Looking a row up takes as long as reading so many in their order.
const PROBED_SHARE: u64 = 16;

/// One of them.
pub(super) struct Index {
    definition: Arc<IndexDef>,
    /// The ordinals of its columns in the shape of now.
    ordinals: Vec<usize>,
    entries: OrderedRows,
}

/// What a query asks of an index: rows with these values in its first columns, and a range in the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Which index.
    pub index: Arc<IndexDef>,
    /// Values of its first columns; none is NULL.
    pub equal: Vec<Value>,
    /// Bounds of the next column; both open where there is none. NULLs are never within.
    pub range: (Bound<Value>, Bound<Value>),
}

/// Reads indexed values of rows.
#[derive(Clone, Copy)]
struct Reader<'p> {
    shape: &'p Shape,
    rows: &'p Rows,
    ordinals: &'p [usize],
}

impl<'p> Reader<'p> {
    /// A value of the row that an entry names.
    fn value(self, entry: u32, position: usize) -> Datum<'p> {
        let (slot, offset) = split(self.rows.present(entry));
        self.shape.datum(self.rows.segment(slot), offset, self.ordinals[position])
    }

    fn values(self, entry: u32) -> impl Iterator<Item = Datum<'p>> + Clone {
        (0..self.ordinals.len()).map(move |position| self.value(entry, position))
    }

    /// The order of the values of two rows.
    fn compare(self, left: u32, right: u32) -> Ordering {
        let pairs = self.values(left).zip(self.values(right));
        pairs.map(|(left, right)| compare(&left, &right)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn entry(self, kind: IndexKind, row: u32) -> Entry {
        let row = self.rows.entry_of(row);
        let prefix = match kind {
            IndexKind::Btree => prefix(&self.value(row, 0)),
            IndexKind::Hash => self.rows.hash(self.values(row)),
        };
        Entry { prefix, row }
    }

    /// Whether an entry of the same prefix comes before that of `row`.
    fn is_before(self, entry: u32, row: u32) -> bool {
        self.compare(entry, row).then(entry.cmp(&row)).is_lt()
    }
}

fn ordinals_of(definition: &IndexDef, shape: &Shape) -> Option<Vec<usize>> {
    let ordinal = |id: &ColumnId| shape.schema.columns.iter().position(|column| column.id == *id);
    definition.columns.iter().map(ordinal).collect()
}

impl Index {
    fn reader<'p>(&'p self, shape: &'p Shape, rows: &'p Rows) -> Reader<'p> {
        Reader { shape, rows, ordinals: &self.ordinals }
    }

    fn add(&mut self, shape: &Shape, rows: &Rows, row: u32) {
        let Self { definition, ordinals, entries } = self;
        let reader = Reader { shape, rows, ordinals };
        let new = reader.entry(definition.kind, row);
        entries.insert(new, |entry| reader.is_before(entry, new.row));
    }

    fn drop(&mut self, shape: &Shape, rows: &Rows, row: u32) {
        let Self { definition, ordinals, entries } = self;
        let reader = Reader { shape, rows, ordinals };
        let old = reader.entry(definition.kind, row);
        let found = entries.remove(old, |entry| reader.is_before(entry, old.row));
        assert!(found, "a row that is looked up is in every index");
    }

    /// Rows of a probe: their number, or themselves.
    fn side<'p>(&'p self, probe: &'p Probe, shape: &'p Shape, rows: &'p Rows) -> impl Fn(Entry) -> Ordering + 'p {
        let reader = self.reader(shape, rows);
        let kind = self.definition.kind;
        let hash = matches!(kind, IndexKind::Hash).then(|| rows.hash(probe.equal.iter().map(Value::as_datum)));
        let bound = |bound: &Bound<Value>| match bound {
            Bound::Included(value) | Bound::Excluded(value) => Some(prefix(&value.as_datum())),
            Bound::Unbounded => None,
        };
        // Prefixes outside of these decide without a look at the row.
        let (low, high) = match (hash, probe.equal.first()) {
            (Some(hash), _) => (hash, hash),
            (None, Some(first)) => (prefix(&first.as_datum()), prefix(&first.as_datum())),
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
            if probe.equal.len() == reader.ordinals.len() {
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
    /// Makes an index of the rows that are there.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(crate) fn build_index(&mut self, definition: &Arc<IndexDef>) -> Result<()> {
        if self.indexes.iter().any(|index| index.definition.id == definition.id) {
            return Ok(());
        }
        let Some(ordinals) = ordinals_of(definition, &self.shape) else { return Ok(()) };
        let reader = Reader { shape: &self.shape, rows: &self.rows, ordinals: &ordinals };
        let count = self.rows.total() as usize;
        let _charge = Charge::new(self.rows.account(), count * size_of::<Entry>())?;
        let mut entries = Vec::with_capacity(count);
        entries.extend(self.rows.indexed().map(|row| reader.entry(definition.kind, row)));
        let entries = OrderedRows::of(self.rows.account(), entries, |left, right| reader.compare(left, right))?;
        self.indexes.push(Index { definition: Arc::clone(definition), ordinals, entries });
        Ok(())
    }

    /// Has these indexes, as a partition without rows.
    pub(crate) fn start_indexes(&mut self, definitions: &[Arc<IndexDef>]) {
        for definition in definitions {
            if let Some(ordinals) = ordinals_of(definition, &self.shape) {
                let entries = OrderedRows::new(self.rows.account());
                self.indexes.push(Index { definition: Arc::clone(definition), ordinals, entries });
            }
        }
    }

    /// Forgets an index.
    pub(crate) fn drop_index(&mut self, definition: &IndexDef) {
        self.indexes.retain(|index| index.definition.id != definition.id);
    }

    /// Columns may be at other ordinals, and an index whose column is gone is gone too.
    pub(super) fn reshape_indexes(&mut self) {
        self.indexes.retain_mut(|index| match ordinals_of(&index.definition, &self.shape) {
            Some(ordinals) => {
                index.ordinals = ordinals;
                true
            }
            None => false,
        });
    }

    /// Charges what entries for so many more rows may need.
    pub(super) fn reserve_indexes(&mut self, rows: usize) -> Result<()> {
        self.indexes.iter_mut().try_for_each(|index| index.entries.reserve(rows))
    }

    /// Gives back what was charged for rows that did not come.
    pub(crate) fn settle_indexes(&mut self) {
        self.indexes.iter_mut().for_each(|index| index.entries.settle());
    }

    pub(super) fn add_to_indexes(&mut self, row: u32) {
        let Self { indexes, shape, rows, .. } = self;
        indexes.iter_mut().for_each(|index| index.add(shape, rows, row));
    }

    pub(super) fn drop_from_indexes(&mut self, row: u32) {
        let Self { indexes, shape, rows, .. } = self;
        indexes.iter_mut().for_each(|index| index.drop(shape, rows, row));
    }

    pub(super) fn clear_indexes(&mut self) {
        self.indexes.iter_mut().for_each(|index| index.entries.clear());
    }

    /// Whether values, given with their ordinals, are other than a row's in a column that an index is on.
    pub(super) fn changes_index<'v, 'd: 'v>(
        &self,
        row: u32,
        values: impl Iterator<Item = (usize, &'v Datum<'d>)> + Clone,
    ) -> bool {
        let (slot, offset) = split(row);
        self.indexes.iter().flat_map(|index| &index.ordinals).any(|&indexed| {
            let changed = values.clone().filter(|(ordinal, _)| *ordinal == indexed).last();
            changed.is_some_and(|(_, value)| {
                compare(&self.shape.datum(self.rows.segment(slot), offset, indexed), value).is_ne()
            })
        })
    }

    /// The rows of the probe that finds the fewest, as far as a snapshot sees them and in the order of the index.
    /// `None`: reading all rows is no more work.
    pub(crate) fn probed(&self, probes: &[Probe], at: Timestamp) -> Option<Vec<u32>> {
        let counted = probes.iter().filter_map(|probe| Some((self.count_probed(probe)?, probe)));
        let (count, probe) = counted.min_by_key(|(count, _)| *count)?;
        if count > PROBED_MAX || count as u64 * PROBED_SHARE > self.rows.live() && count > PROBED_FEW {
            return None;
        }
        let mut rows = Vec::with_capacity(count);
        self.for_probed(probe, at, |row| rows.push(row));
        Some(rows)
    }

    /// Calls `f` with the rows of a probe that a snapshot sees; false, without a call, where an index would name more
    /// than `rows_max`, or where there is none.
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

    /// Leaves the row of a key out of rows that were probed under the same lock.
    pub(crate) fn leave_out(&self, rows: &mut Vec<u32>, key: &[Datum<'_>], at: Timestamp) {
        let hash = self.rows.hash(key.iter().cloned());
        if let Some(row) = self.locate_at(hash, key, at) {
            rows.retain(|&found| found != row);
        }
    }

    /// Columns of a shape, copied from rows: one array each, and how many rows they have.
    ///
    /// # Errors
    /// XX000 where a stored value is not of its column's type.
    pub(crate) fn gather(&self, shape: &Shape, rows: &[u32], columns: &[usize]) -> Result<(Vec<ArrayRef>, usize)> {
        let column = |&ordinal: &usize| {
            let values = rows.iter().map(|&row| {
                let (slot, offset) = split(row);
                shape.datum(self.rows.segment(slot), offset, ordinal)
            });
            build_array(shape.schema.columns[ordinal].sql_type, values)
        };
        Ok((columns.iter().map(column).collect::<Result<_>>()?, rows.len()))
    }

    /// How many rows a probe finds, ended ones included; `None`: there is no such index.
    fn count_probed(&self, probe: &Probe) -> Option<usize> {
        let index = self.index(probe)?;
        let side = index.side(probe, &self.shape, &self.rows);
        Some(index.entries.count(|entry| side(entry).is_lt(), |entry| side(entry).is_le()))
    }

    /// Calls `f` with the rows of a probe that a snapshot sees, in the order of the index.
    fn for_probed(&self, probe: &Probe, at: Timestamp, mut f: impl FnMut(u32)) {
        let Some(index) = self.index(probe) else { return };
        let side = index.side(probe, &self.shape, &self.rows);
        for entry in index.entries.range(|entry| side(entry).is_lt(), |entry| side(entry).is_le()) {
            let row = self.rows.present(entry);
            if self.is_visible(self.rows.segment(split(row).0), row, at) {
                f(row);
            }
        }
    }

    fn index(&self, probe: &Probe) -> Option<&Index> {
        self.indexes.iter().find(|index| index.definition.id == probe.index.id)
    }

    /// Entries of rows that have other ids from now on, given as the index has known them and knows them now.
    pub(super) fn rename_in_indexes(&mut self, renamed: &[(u32, u32)]) {
        let Self { indexes, shape, rows, .. } = self;
        for Index { definition, ordinals, entries } in indexes {
            let reader = Reader { shape, rows, ordinals };
            for &(old, new) in renamed {
                let prefix = match definition.kind {
                    IndexKind::Btree => prefix(&reader.value(new, 0)),
                    IndexKind::Hash => rows.hash(reader.values(new)),
                };
                let found = entries.remove(Entry { prefix, row: old }, |entry| reader.is_before(entry, old));
                assert!(found, "a row that moves is in every index");
                entries.insert(Entry { prefix, row: new }, |entry| reader.is_before(entry, new));
            }
            entries.settle();
        }
    }

    #[cfg(test)]
    pub(super) fn check_indexes(&self) {
        for index in &self.indexes {
            let reader = index.reader(&self.shape, &self.rows);
            let all: Vec<u32> = index.entries.range(|_| false, |_| true).collect();
            assert_eq!(all.len(), index.entries.len());
            let mut found: Vec<u32> = all.iter().map(|&entry| self.rows.present(entry)).collect();
            let mut expected: Vec<u32> = self.rows.indexed().collect();
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

//! The buffered writes of one region.
//!
//! Called by `writeset` and `commit`.

use std::sync::Arc;

use ashlar_base::{Datum, Error, PartitionId, Result, TableSchema, Timestamp};
use parking_lot::Mutex;

use super::{Overlay, Pending};
use crate::memory::{Account, Charge};
use crate::region::Region;
use crate::row::RowRef;
use crate::rows::{Rows, split};
use crate::segment::{Need, Segment};
use crate::shape::Shape;

/// No row was replaced.
const NONE: u32 = u32::MAX;

/// See the module.
pub(crate) struct Staged {
    region: Arc<Region>,
    shape: Arc<Shape>,
    rows: Rows,
    /// By segment slot (slots are not reused here), then by offset.
    states: Vec<Vec<State>>,
    length: Length,
    truncations: Vec<Truncation>,
    charge: Charge,
    /// The picture of the writes so far, once somebody asked.
    overlay: Mutex<Option<Arc<Overlay>>>,
}

/// What a pending row means.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// When the key was first read by this transaction.
    pub(crate) read_at: Timestamp,
    /// The pending row of this key that this one ended.
    replaced: u32,
    pub(crate) partition: PartitionId,
    flags: u8,
}

/// The key is to be deleted: the row holds nothing else.
const DELETED: u8 = 1;
/// The key must be new.
const INSERTED: u8 = 2;
/// Taken back.
const UNDONE: u8 = 4;

// Ten million of them lie beside the rows of a large load.
const _: () = assert!(size_of::<State>() == 16);

impl State {
    /// The key is to be deleted.
    pub(crate) fn is_deleted(self) -> bool {
        self.flags & DELETED != 0
    }

    /// The key must be new.
    pub(crate) fn is_inserted(self) -> bool {
        self.flags & INSERTED != 0
    }
}

struct Truncation {
    at: Length,
    killed: Vec<u32>,
}

/// How much was written: rows and truncations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Length {
    rows: u64,
    truncations: usize,
}

impl Staged {
    pub(crate) fn new(region: &Arc<Region>) -> Self {
        let common = region.common();
        let account = Account::new(&common.total);
        Self {
            region: Arc::clone(region),
            shape: region.shape(),
            rows: Rows::new(&account, common.hasher.clone(), common.segment_rows),
            states: Vec::new(),
            length: Length::default(),
            truncations: Vec::new(),
            charge: Charge::empty(&account),
            overlay: Mutex::new(None),
        }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    pub(crate) fn schema(&self) -> &TableSchema {
        &self.shape.schema
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.live() == 0 && self.truncations.is_empty()
    }

    /// Whether the committed rows are to go.
    pub(crate) fn truncates(&self) -> bool {
        !self.truncations.is_empty()
    }

    pub(crate) fn length(&self) -> Length {
        self.length
    }

    pub(crate) fn get(&self, key: &[Datum<'_>]) -> Pending<'_> {
        match self.rows.find(self.rows.hash(key.iter().cloned()), key) {
            Some(row) if self.state(row).is_deleted() => Pending::Deleted,
            Some(row) => Pending::Row(self.row(row)),
            None if self.truncates() => Pending::Deleted,
            None => Pending::Untouched,
        }
    }

    pub(crate) fn row(&self, row: u32) -> RowRef<'_> {
        let (slot, offset) = split(row);
        RowRef::new(&self.shape, self.rows.segment(slot), offset)
    }

    pub(crate) fn state(&self, row: u32) -> State {
        let (slot, offset) = split(row);
        self.states[usize::from(slot)][offset as usize]
    }

    /// What a copy of a pending row takes in a column.
    pub(crate) fn need(&self, row: u32, ordinal: usize) -> Need {
        let (slot, offset) = split(row);
        self.rows.segment(slot).need(offset, ordinal)
    }

    pub(crate) fn upsert(&mut self, read_at: Timestamp, row: &[Datum<'_>], inserted: bool) -> Result<()> {
        // Keys have few columns; one is the rule.
        if let [ordinal] = *self.shape.schema.key {
            let key = std::slice::from_ref(&row[ordinal]);
            return self.write(read_at, key, row, false, inserted);
        }
        let key: Vec<_> = self.shape.key_of(row).cloned().collect();
        self.write(read_at, &key, row, false, inserted)
    }

    pub(crate) fn delete(&mut self, read_at: Timestamp, key: &[Datum<'_>]) -> Result<()> {
        if self.region.partition_of(key).is_none() {
            // No row can have this key.
            return Ok(());
        }
        let mut row = vec![Datum::Null; self.shape.schema.columns.len()];
        for (&ordinal, datum) in self.shape.schema.key.iter().zip(key) {
            row[ordinal] = widen(self.shape.schema.columns[ordinal].sql_type, datum);
        }
        self.write(read_at, key, &row, true, false)
    }

    fn write(
        &mut self,
        read_at: Timestamp,
        key: &[Datum<'_>],
        row: &[Datum<'_>],
        deleted: bool,
        inserted: bool,
    ) -> Result<()> {
        let Some(partition) = self.region.partition_of(key) else {
            return Err(Error::internal("a row was checked, and its key is not"));
        };
        self.rows.reserve(&self.shape.layout, row.iter().map(Need::of))?;
        let hash = self.rows.hash(key.iter().cloned());
        let old = self.rows.find(hash, key);
        let new = self.rows.push(row.iter());
        // The first write of a key says since when nobody else may have changed it, and whether it is new.
        let (read_at, inserted) = match old {
            Some(old) => (self.state(old).read_at, inserted && self.state(old).is_inserted()),
            None => (read_at, inserted),
        };
        match old {
            Some(old) => {
                self.rows.kill(old);
                self.rows.reindex(hash, old, new);
            }
            None => self.rows.index(hash, new),
        }
        let replaced = old.unwrap_or(NONE);
        let flags = if deleted { DELETED } else { 0 } | if inserted { INSERTED } else { 0 };
        self.push_state(new, State { read_at, replaced, partition, flags });
        self.length.rows += 1;
        *self.overlay.get_mut() = None;
        Ok(())
    }

    fn push_state(&mut self, row: u32, state: State) {
        let slot = usize::from(split(row).0);
        while self.states.len() <= slot {
            self.states.push(Vec::new());
        }
        let states = &mut self.states[slot];
        let before = states.capacity();
        states.push(state);
        let grown = states.capacity() - before;
        if grown > 0 {
            self.charge.resize(self.charge.bytes() as usize + grown * size_of::<State>());
        }
    }

    pub(crate) fn truncate(&mut self) {
        let killed: Vec<u32> = self.rows.indexed().collect();
        for &row in &killed {
            let hash = self.rows.hash_of(row);
            self.rows.unindex(hash, row);
            self.rows.kill(row);
        }
        self.truncations.push(Truncation { at: self.length, killed });
        self.length.truncations += 1;
        *self.overlay.get_mut() = None;
    }

    pub(crate) fn rollback_to(&mut self, to: Length) {
        if self.length == to {
            return;
        }
        while self.truncations.len() > to.truncations {
            let Some(truncation) = self.truncations.pop() else { break };
            self.undo_rows(truncation.at.rows.max(to.rows));
            for row in truncation.killed {
                self.rows.revive(row);
                let hash = self.rows.hash_of(row);
                self.rows.index(hash, row);
            }
        }
        self.undo_rows(to.rows);
        self.length = to;
        *self.overlay.get_mut() = None;
    }

    /// Takes back the last writes, so that `rows` are left. Their rows stay where they are, dead: a reader may have
    /// a picture of them.
    fn undo_rows(&mut self, rows: u64) {
        let mut slot = self.states.len();
        while self.length.rows > rows && slot > 0 {
            slot -= 1;
            for offset in (0..self.states[slot].len()).rev() {
                if self.length.rows == rows {
                    return;
                }
                let row = (slot as u32) << 16 | offset as u32;
                let state = &mut self.states[slot][offset];
                if state.flags & UNDONE != 0 {
                    continue;
                }
                state.flags |= UNDONE;
                let replaced = state.replaced;
                let hash = self.rows.hash_of(row);
                self.rows.kill(row);
                if replaced == NONE {
                    self.rows.unindex(hash, row);
                } else {
                    self.rows.revive(replaced);
                    self.rows.reindex(hash, row, replaced);
                }
                self.length.rows -= 1;
            }
        }
    }

    /// Segments in order, for a picture.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u16, &Segment)> {
        self.rows.in_order()
    }

    /// Pending rows in the order they were written, by partition: `rows[starts[p]..starts[p + 1]]`.
    pub(crate) fn by_partition(&self) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0u32; usize::from(self.region.partition_count()) + 1];
        let pending = || {
            self.rows.in_order().flat_map(|(slot, segment)| {
                let alive = (0..segment.len()).filter(|&offset| !segment.is_dead(offset));
                alive.map(move |offset| u32::from(slot) << 16 | offset)
            })
        };
        for row in pending() {
            starts[usize::from(self.state(row).partition.0) + 1] += 1;
        }
        for partition in 1..starts.len() {
            starts[partition] += starts[partition - 1];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; self.rows.live() as usize];
        for row in pending() {
            let place = &mut next[usize::from(self.state(row).partition.0)];
            rows[*place as usize] = row;
            *place += 1;
        }
        (rows, starts)
    }

    pub(crate) fn overlay(&self) -> Arc<Overlay> {
        let mut overlay = self.overlay.lock();
        Arc::clone(overlay.get_or_insert_with(|| Arc::new(Overlay::new(self))))
    }
}

/// A key may be asked for with another integer type than its column's; it is stored with the column's.
fn widen<'d>(sql_type: ashlar_base::SqlType, datum: &Datum<'d>) -> Datum<'d> {
    use ashlar_base::ScalarType::{Int2, Int4, Int8};
    let value = match datum {
        Datum::Int2(value) => i64::from(*value),
        Datum::Int4(value) => i64::from(*value),
        Datum::Int8(value) => *value,
        other => return other.clone(),
    };
    match sql_type.scalar() {
        Int2 => i16::try_from(value).map_or(Datum::Null, Datum::Int2),
        Int4 => i32::try_from(value).map_or(Datum::Null, Datum::Int4),
        Int8 => Datum::Int8(value),
        _ => datum.clone(),
    }
}

//! The buffered writes of one region.
//!
//! Called by `writeset` and `commit`.

use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, IndexDef, PartitionId, Result, TableSchema, Timestamp, Value};

use super::load::{Load, LoadedRow};
use super::unique::PendingValues;
use super::{Overlay, Pending};
use crate::life::{Deadline, Expiry, Keep};
use crate::locks::{LockRequest, Sight, Strength, Watch};
use crate::memory::{Account, Charge};
use crate::region::{KeyPlace, Region};
use crate::row::RowRef;
use crate::rows::{Rows, split};
use crate::segment::{Need, ROWS_MAX, Segment};
use crate::shape::{Passed, Place, Shape};
use crate::sync::Mutex;

mod loading;

/// No row was replaced.
const NONE: u32 = u32::MAX;

/// See the module.
pub(crate) struct Staged {
    region: Arc<Region>,
    shape: Arc<Shape>,
    rows: Rows,
    /// By segment slot (slots are not reused here), then by offset.
    states: Vec<Vec<State>>,
    /// The row id after the last row that is not taken back: rows above are not looked at again.
    written: u64,
    length: Length,
    truncations: Vec<Truncation>,
    alterations: Vec<Alteration>,
    /// What arrived in bulk, a load for each statement.
    loads: Vec<Load>,
    /// Rows of loads that were written again, in order.
    taken_out: Vec<LoadedRow>,
    expected: Vec<Expected>,
    watched: Vec<Sight>,
    charge: Charge,
    /// Rows were given a life of their own.
    says_life: bool,
    /// The picture of the writes so far, once somebody asked.
    overlay: Mutex<Option<Arc<Overlay>>>,
    /// What pending rows have in unique indexes, as far as somebody asked.
    pub(super) values: PendingValues,
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
/// The row lives as its table says; without this and the next one it keeps what the row has that it replaces.
const LIFE_OF_TABLE: u8 = 8;
/// The row was given a life of its own, which is that of the pending row.
const LIFE_OF_ROW: u8 = 16;

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
    loads: Vec<Load>,
    taken_out: Vec<LoadedRow>,
}

/// The table was given another shape. Rows from before stay as they are, and read as the shape of now.
struct Alteration {
    before: Arc<Shape>,
    /// Nobody else may have written to the table since.
    read_at: Timestamp,
    /// Another table has its rows from the commit on, and these indexes; `None`: it stays.
    retires: Option<Retirement>,
}

/// What a table gives its rows to, and what that has taken over of it.
pub(crate) struct Retirement {
    pub(crate) heir: Arc<Region>,
    pub(crate) indexes: Arc<[Arc<IndexDef>]>,
}

/// A key that was read, and that nobody else may have changed since.
pub(crate) struct Expected {
    pub(crate) place: KeyPlace,
    pub(crate) read_at: Timestamp,
    key: Box<[Value]>,
}

impl Expected {
    /// The key's values in key order.
    pub(crate) fn read_key<'a>(&'a self, key: &mut Vec<Datum<'a>>) {
        key.clear();
        key.extend(self.key.iter().map(Value::as_datum));
    }
}

/// How much was written: rows, truncations, alterations, loads, and rows that were taken out of loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Length {
    rows: u64,
    truncations: usize,
    alterations: usize,
    loads: usize,
    taken_out: usize,
}

impl Staged {
    pub(crate) fn new(region: &Arc<Region>) -> Self {
        let common = region.common();
        let account = Account::of_statement(&common.total);
        Self {
            region: Arc::clone(region),
            shape: region.shape(),
            rows: Rows::new(&account, common.hasher.clone(), common.segment_rows),
            states: Vec::new(),
            written: 0,
            length: Length::default(),
            truncations: Vec::new(),
            alterations: Vec::new(),
            loads: Vec::new(),
            taken_out: Vec::new(),
            expected: Vec::new(),
            watched: Vec::new(),
            charge: Charge::empty(&account),
            says_life: false,
            overlay: Mutex::new(None),
            values: PendingValues::default(),
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
        !self.changes_anything() && self.expected.is_empty() && self.watched.is_empty()
    }

    /// Whether there is more to commit than keys that must not have changed.
    pub(crate) fn changes_anything(&self) -> bool {
        self.rows.live() > 0 || self.truncates() || !self.alterations.is_empty() || self.has_loaded()
    }

    /// The keys that nobody else may have changed.
    pub(crate) fn expected(&self) -> &[Expected] {
        &self.expected
    }

    /// The keys that nobody may have touched.
    pub(crate) fn watched(&self) -> &[Sight] {
        &self.watched
    }

    /// The keys that nobody else may have changed, as locks.
    pub(crate) fn requests(&self) -> impl Iterator<Item = LockRequest> {
        let attention = self.region.attention();
        self.expected.iter().map(|expected| attention.request(expected.place.hash, Strength::Update))
    }

    /// Whether the committed rows are to go.
    pub(crate) fn truncates(&self) -> bool {
        !self.truncations.is_empty()
    }

    /// The version of the table's shape that the writes are on top of.
    pub(crate) fn base_version(&self) -> u32 {
        self.alterations.first().map_or(self.schema().version, |first| first.before.schema.version)
    }

    /// Whether the table is to have another shape, and since when nobody else may have written to it.
    pub(crate) fn altered_at(&self) -> Option<Timestamp> {
        self.alterations.iter().map(|alteration| alteration.read_at).min()
    }

    /// Whether rows are pending that are not deletions.
    pub(crate) fn has_rows(&self) -> bool {
        self.rows.indexed().any(|row| !self.rows.is_dead(row) && !self.state(row).is_deleted()) || self.has_loaded()
    }

    /// Whether rows that arrived in bulk are pending.
    fn has_loaded(&self) -> bool {
        self.loads.iter().any(|load| load.row_count() > 0)
    }

    /// Gives the table another shape, for the rows to come and those that are pending.
    pub(crate) fn alter(&mut self, new: Arc<TableSchema>, read_at: Timestamp) -> Result<()> {
        let has_pending = self.has_rows();
        let shape =
            self.shape.altered(new, has_pending || self.region.has_rows()).map_err(|error| match error.code() {
                // Rows that this transaction does not see any more, and others still do.
                ErrorCode::NotNullViolation if !has_pending => {
                    Error::unsupported("a column without NULLs cannot be added in the block that removes the rows")
                        .with_hint("Give the column a default, or commit first.")
                }
                _ => error,
            })?;
        let before = std::mem::replace(&mut self.shape, Arc::new(shape));
        self.alterations.push(Alteration { before, read_at, retires: None });
        self.values.forget();
        self.length.alterations += 1;
        *self.overlay.get_mut() = None;
        Ok(())
    }

    /// The table goes with the commit: another one has its rows, and its indexes.
    pub(crate) fn retire(&mut self, retirement: Retirement, read_at: Timestamp) -> Result<()> {
        // Whoever has planned with the shape that there is finds another one.
        let mut schema = TableSchema::clone(self.schema());
        schema.version += 1;
        self.alter(Arc::new(schema), read_at)?;
        if let Some(last) = self.alterations.last_mut() {
            last.retires = Some(retirement);
        }
        Ok(())
    }

    /// What has the rows from the commit on, where that is another table.
    pub(crate) fn retires(&self) -> Option<&Retirement> {
        self.alterations.iter().find_map(|alteration| alteration.retires.as_ref())
    }

    /// The row of a key that is pending, a deletion included.
    pub(super) fn pending_row(&self, key: &[Datum<'_>]) -> Option<u32> {
        self.rows.find(self.region.hash(key), key)
    }

    /// Pending rows that were written at or after a place, in order, and the place after the last.
    pub(super) fn written_since(&self, from: u64) -> (Vec<u32>, u64) {
        let mut written = Vec::new();
        for (slot, segment) in self.rows.in_order() {
            let first = u64::from(slot) << 16;
            let start = from.saturating_sub(first).min(u64::from(segment.len())) as u32;
            let alive = (start..segment.len()).filter(|&offset| !segment.is_dead(offset));
            written.extend(alive.map(|offset| u32::from(slot) << 16 | offset));
        }
        (written, self.written)
    }

    /// Whether a pending row still stands for its key.
    pub(super) fn is_pending(&self, row: u32) -> bool {
        !self.rows.is_dead(row)
    }

    pub(crate) fn length(&self) -> Length {
        self.length
    }

    pub(crate) fn get(&self, key: &[Datum<'_>]) -> Pending<'_> {
        let loaded = || self.find_loaded(self.region.place_of(key)?, key);
        let loaded_row = || loaded().and_then(|row| self.loads[row.load].row(&self.shape, row));
        match self.rows.find(self.region.hash(key), key) {
            Some(row) if self.state(row).is_deleted() => Pending::Deleted,
            Some(row) => Pending::Row(self.row(row)),
            None if !self.loads.is_empty()
                && let Some(row) = loaded_row() =>
            {
                Pending::Row(row)
            }
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

    /// Whether a write of a key is pending, a deletion included. `hash` is the key's.
    pub(crate) fn writes_key(&self, hash: u64, key: &[Datum<'_>]) -> bool {
        self.rows.find(hash, key).is_some()
    }

    /// Whether a deletion, or another write, of a key with this hash is pending.
    pub(crate) fn writes_hash(&self, hash: u64, deletes: bool) -> bool {
        self.rows.has_hash(hash, |row| !self.rows.is_dead(row) && self.state(row).is_deleted() == deletes)
    }

    /// What a copy of a pending row takes in a column.
    pub(crate) fn need(&self, row: u32, ordinal: usize) -> Need {
        let (slot, offset) = split(row);
        let segment = self.rows.segment(slot);
        match self.shape.place(&segment.layout, ordinal) {
            Place::At(position) => segment.need(offset, position),
            Place::Missing(datum) => Need::of(&datum),
        }
    }

    /// Writes a row in the place of whatever has its key, and says how long it lives. `known` is the deadline of the
    /// committed row, where somebody has looked. The row is checked here, as far as it has not passed.
    pub(crate) fn upsert(
        &mut self,
        read_at: Timestamp,
        row: &[Datum<'_>],
        expiry: Expiry,
        known: Option<Deadline>,
        passed: Option<&Passed>,
    ) -> Result<()> {
        self.with_key(row, passed, |staged, key, place| {
            let old = staged.rows.find(place.hash, key);
            let known = || match known {
                None if !staged.truncates() => staged.region.deadline_at(place, key, read_at),
                known => known,
            };
            let (life, deadline) = staged.life(old, expiry, known);
            staged.write_living(read_at, place, row, old, life, deadline)
        })
    }

    /// What a pending row says about its life, and when that ends as far as is known: that of a committed row may be
    /// looked up.
    fn life(&self, old: Option<u32>, expiry: Expiry, committed: impl FnOnce() -> Option<Deadline>) -> (u8, Deadline) {
        let ttl_ms = self.shape.schema.life.ttl_ms;
        let lives = self.region.lives();
        let given = |expiry, old| Deadline::given(expiry, old, ttl_ms, if ttl_ms > 0 { lives.now() } else { 0 });
        match (expiry, old) {
            (Expiry::Keep, Some(old)) if !self.state(old).is_deleted() => {
                let flags = self.state(old).flags & (LIFE_OF_TABLE | LIFE_OF_ROW);
                (flags, given(Expiry::Keep, Some(self.rows.deadline(old))))
            }
            (Expiry::Keep, None) if ttl_ms == 0 && !lives.is_on() => (0, Deadline::NONE),
            (Expiry::Keep, None) => (0, given(Expiry::Keep, committed())),
            // Behind a pending deletion there is a new row.
            (Expiry::Keep | Expiry::Table, _) => (LIFE_OF_TABLE, given(Expiry::Table, None)),
            (Expiry::At(_) | Expiry::Never, _) => (LIFE_OF_ROW, given(expiry, None)),
        }
    }

    fn write_living(
        &mut self,
        read_at: Timestamp,
        place: KeyPlace,
        row: &[Datum<'_>],
        old: Option<u32>,
        flags: u8,
        deadline: Deadline,
    ) -> Result<()> {
        if deadline < Deadline::NONE {
            let growth = self.rows.life_growth(None, true, Keep::default());
            drop(Charge::new(self.charge.account(), growth)?);
        }
        let new = self.write(read_at, place, row, old, flags)?;
        self.rows.set_deadline(new, deadline);
        self.says_life |= flags & LIFE_OF_ROW != 0;
        Ok(())
    }

    /// What a pending row says about its life.
    pub(crate) fn expiry(&self, row: u32) -> Expiry {
        match self.state(row).flags & (LIFE_OF_TABLE | LIFE_OF_ROW) {
            0 => Expiry::Keep,
            LIFE_OF_TABLE => Expiry::Table,
            _ => self.rows.deadline(row).expiry(),
        }
    }

    /// What a pending row says that keeps the life of its key's row, once there is none: where that was the row's own, the
    /// new one ends with it, as its time came before the commit was through. What the table gives it gets anew.
    pub(crate) fn kept(&self, row: u32) -> Expiry {
        let deadline = self.rows.deadline(row);
        if deadline.is_own() { deadline.expiry() } else { Expiry::Keep }
    }

    /// Whether rows were given a life of their own.
    pub(crate) fn says_life(&self) -> bool {
        self.says_life
    }

    /// Writes a row whose key must be new: 23505 if it is pending, or there at `read_at`.
    pub(crate) fn insert(
        &mut self,
        read_at: Timestamp,
        row: &[Datum<'_>],
        expiry: Expiry,
        passed: Option<&Passed>,
    ) -> Result<()> {
        self.with_key(row, passed, |staged, key, place| staged.insert_at(read_at, place, key, row, expiry))
    }

    /// Likewise, of a row that was checked.
    fn insert_at(
        &mut self,
        read_at: Timestamp,
        place: KeyPlace,
        key: &[Datum<'_>],
        row: &[Datum<'_>],
        expiry: Expiry,
    ) -> Result<()> {
        let old = self.rows.find(place.hash, key);
        let exists = match old {
            Some(old) => !self.state(old).is_deleted(),
            None if self.find_loaded(place, key).is_some() => true,
            None => !self.truncates() && self.region.has_at(place, key, read_at),
        };
        if exists {
            return Err(self.shape.duplicate(key));
        }
        let (life, deadline) = self.life(old, expiry, || None);
        self.write_living(read_at, place, row, old, INSERTED | life, deadline)
    }

    /// The error of a commit that somebody else was faster than.
    pub(crate) fn conflict(&self) -> Error {
        Error::new(ErrorCode::SerializationFailure, "could not serialize access due to concurrent update")
            .with_table(&self.schema().name)
    }

    /// Checks a row, and hands out its key and where that lives.
    fn with_key<R>(
        &mut self,
        row: &[Datum<'_>],
        passed: Option<&Passed>,
        f: impl FnOnce(&mut Self, &[Datum<'_>], KeyPlace) -> Result<R>,
    ) -> Result<R> {
        self.shape.check_row_of(row, passed.is_some_and(|passed| passed.is_of(&self.shape)))?;
        // Keys have few columns; one is the rule.
        let many: Vec<Datum<'_>>;
        let key = match self.shape.schema.key[..] {
            [ordinal] => std::slice::from_ref(&row[ordinal]),
            _ => {
                many = self.shape.key_of(row).cloned().collect();
                &many[..]
            }
        };
        match self.region.place_of(key) {
            Some(place) => f(self, key, place),
            None => Err(Error::internal("a row was checked, and its key is not")),
        }
    }

    pub(crate) fn delete(&mut self, read_at: Timestamp, key: &[Datum<'_>]) -> Result<()> {
        // No row can have a key of another type, or one out of the range of its column.
        let Some(place) = self.region.place_of(key) else { return Ok(()) };
        let mut row = vec![Datum::Null; self.shape.schema.columns.len()];
        for (&ordinal, datum) in self.shape.schema.key.iter().zip(key) {
            let Some(datum) = widen(self.shape.schema.columns[ordinal].sql_type, datum) else { return Ok(()) };
            row[ordinal] = datum;
        }
        let old = self.rows.find(place.hash, key);
        self.as_statement(|staged| staged.write(read_at, place, &row, old, DELETED).map(drop))
    }

    /// Takes what is kept for statements, for what a full store must still do.
    fn as_statement<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.charge.account().take_kept(true);
        let done = f(self);
        self.charge.account().take_kept(false);
        done
    }

    /// Nobody else may change this key after `read_at`. A savepoint does not take this back: what was read was read.
    pub(crate) fn expect(&mut self, read_at: Timestamp, key: &[Datum<'_>]) -> Result<()> {
        // No row can have a key of another type, or one out of the range of its column.
        let Some(place) = self.region.place_of(key) else { return Ok(()) };
        self.as_statement(|staged| {
            if staged.expected.len() == staged.expected.capacity() {
                let more = (staged.expected.len() / 2).max(4);
                staged.charge.try_resize(staged.charge.bytes() as usize + more * size_of::<Expected>())?;
                staged.expected.reserve_exact(more);
            }
            let bytes: usize = key.iter().map(|datum| size_of::<Value>() + Need::of(datum).bytes).sum();
            staged.charge.try_resize(staged.charge.bytes() as usize + bytes)?;
            staged.expected.push(Expected { place, read_at, key: key.iter().map(Datum::to_value).collect() });
            Ok(())
        })
    }

    /// Nobody may touch a watched key.
    pub(crate) fn expect_untouched(&mut self, watch: &Watch) -> Result<()> {
        self.charge.try_resize(self.charge.bytes() as usize + 2 * size_of::<Sight>())?;
        self.watched.push(watch.sight());
        Ok(())
    }

    /// Appends a row, which takes the place of the pending row `old` of its key.
    fn write(
        &mut self,
        read_at: Timestamp,
        place: KeyPlace,
        row: &[Datum<'_>],
        old: Option<u32>,
        flags: u8,
    ) -> Result<u32> {
        self.rows.reserve(&self.shape.layout, row.iter().map(Need::of))?;
        self.reserve_state()?;
        let loaded_at = if old.is_none() { self.take_out(place, row) } else { None };
        let new = self.rows.push(row.iter());
        // The first write of a key says since when nobody else may have changed it, and whether it is new.
        let (read_at, flags) = match old {
            Some(old) if self.state(old).is_inserted() => (self.state(old).read_at, flags),
            Some(old) => (self.state(old).read_at, flags & !INSERTED),
            None => (loaded_at.unwrap_or(read_at), flags),
        };
        match old {
            Some(old) => {
                self.rows.kill(old);
                self.rows.reindex(place.hash, old, new);
            }
            None => self.rows.index(place.hash, new),
        }
        let replaced = old.unwrap_or(NONE);
        self.states[usize::from(split(new).0)].push(State { read_at, replaced, partition: place.partition, flags });
        self.written = u64::from(new) + 1;
        self.length.rows += 1;
        *self.overlay.get_mut() = None;
        Ok(new)
    }

    /// A row's key is written again: what had arrived in bulk for it goes. Says when that key was new to the table.
    fn take_out(&mut self, place: KeyPlace, row: &[Datum<'_>]) -> Option<Timestamp> {
        if self.loads.is_empty() {
            return None;
        }
        let key: Vec<Datum<'_>> = self.shape.key_of(row).cloned().collect();
        let loaded = self.find_loaded(place, &key)?;
        self.taken_out.push(loaded);
        self.length.taken_out += 1;
        let load = &mut self.loads[loaded.load];
        load.take_out(loaded);
        Some(load.read_at())
    }

    /// Room for the state of the next row, which goes to the newest segment.
    fn reserve_state(&mut self) -> Result<()> {
        while self.states.len() < self.rows.slot_count() {
            self.states.push(Vec::new());
        }
        let Some(states) = self.states.last_mut().filter(|states| states.len() == states.capacity()) else {
            return Ok(());
        };
        let more = (states.len() / 2).max(4).min((ROWS_MAX as usize).saturating_sub(states.len()).max(1));
        self.charge.try_resize(self.charge.bytes() as usize + more * size_of::<State>())?;
        states.reserve_exact(more);
        Ok(())
    }

    pub(crate) fn truncate(&mut self) {
        let killed: Vec<u32> = self.rows.indexed().collect();
        for &row in &killed {
            let hash = self.rows.hash_of(row);
            self.rows.unindex(hash, row);
            self.rows.kill(row);
        }
        self.values.forget();
        let (loads, taken_out) = (std::mem::take(&mut self.loads), std::mem::take(&mut self.taken_out));
        self.truncations.push(Truncation { at: self.length, killed, loads, taken_out });
        self.length.truncations += 1;
        (self.length.loads, self.length.taken_out) = (0, 0);
        *self.overlay.get_mut() = None;
    }

    pub(crate) fn rollback_to(&mut self, to: Length) {
        if self.length == to {
            return;
        }
        self.values.forget();
        while self.truncations.len() > to.truncations {
            let Some(truncation) = self.truncations.pop() else { break };
            self.undo_rows(truncation.at.rows.max(to.rows));
            (self.loads, self.taken_out) = (truncation.loads, truncation.taken_out);
            for row in truncation.killed {
                self.rows.revive(row);
                let hash = self.rows.hash_of(row);
                self.rows.index(hash, row);
            }
        }
        self.undo_rows(to.rows);
        self.loads.truncate(to.loads);
        while self.taken_out.len() > to.taken_out {
            let Some(row) = self.taken_out.pop() else { break };
            if let Some(load) = self.loads.get_mut(row.load) {
                load.put_back(row);
            }
        }
        while self.alterations.len() > to.alterations {
            let Some(alteration) = self.alterations.pop() else { break };
            self.shape = alteration.before;
        }
        self.length = to;
        *self.overlay.get_mut() = None;
    }

    /// Takes back the last writes, so that `rows` are left. Their rows stay where they are, dead: a reader may have
    /// a picture of them.
    fn undo_rows(&mut self, rows: u64) {
        while self.length.rows > rows && self.written > 0 {
            self.written -= 1;
            let row = self.written as u32;
            let (slot, offset) = split(row);
            let states = &mut self.states[usize::from(slot)];
            if offset as usize >= states.len() {
                // Segments have fewer rows than row ids have room for.
                self.written -= u64::from(offset) - states.len() as u64;
                continue;
            }
            let state = &mut states[offset as usize];
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

    /// Segments in order, for a picture.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u16, &Segment)> {
        self.rows.in_order()
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        self.charge.account()
    }

    /// Pending rows, deletions included.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.live() as usize + self.loads.iter().map(Load::row_count).sum::<usize>()
    }

    /// Bytes of the rows written, those that were replaced or taken back among them.
    pub(crate) fn row_bytes(&self) -> usize {
        let loaded: usize = self.loads.iter().map(Load::row_bytes).sum();
        self.rows.in_order().map(|(_, segment)| segment.bytes()).sum::<usize>() + loaded
    }

    /// Bytes of the lists of `by_partition`.
    pub(crate) fn list_bytes(&self) -> usize {
        (self.rows.live() as usize + usize::from(self.region.partition_count()) + 1) * size_of::<u32>()
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

/// A key may be asked for with another integer type than its column's; it is stored with the column's. `None`: it is
/// out of that type's range.
fn widen<'d>(sql_type: ashlar_base::SqlType, datum: &Datum<'d>) -> Option<Datum<'d>> {
    use ashlar_base::ScalarType::{Int2, Int4, Int8};
    let value = match datum {
        Datum::Int2(value) => i64::from(*value),
        Datum::Int4(value) => i64::from(*value),
        Datum::Int8(value) => *value,
        other => return Some(other.clone()),
    };
    match sql_type.scalar() {
        Int2 => i16::try_from(value).ok().map(Datum::Int2),
        Int4 => i32::try_from(value).ok().map(Datum::Int4),
        Int8 => Some(Datum::Int8(value)),
        _ => Some(datum.clone()),
    }
}

//! The one place that changes rows.
//!
//! Called with the partition's lock held: by an entry for the key path, by `commit` for transactions. Each change is told
//! to whoever listens, by `changed`. Nothing is changed when an error comes back.

use std::sync::Arc;

use ashlar_base::{Datum, Error, Result, Timestamp};

use super::changed::{Changed, End};
use super::versions::Stamp;
use super::{Located, Partition, Prepared};
use crate::life::Expiry;
use crate::mutation::{Applied, Mutation};
use crate::rows::{Spares, split};
use crate::segment::{Column, Need};

/// Old versions that each write forgets, so that a long log shrinks little by little.
const TRIM_PER_WRITE: usize = 16;

/// Updates of up to this many columns allocate nothing for them.
const COLUMNS_FEW: usize = 32;

/// How many appended rows ahead the key index is prefetched: about as many cache lines as a core requests at once.
const AHEAD: usize = 16;

/// The effect of `Partition::apply`, and the row that the key has now.
pub(crate) struct Change {
    pub(crate) applied: Applied,
    pub(crate) row: Option<u32>,
}

impl Partition {
    /// Applies one write to a key that was located. The caller has checked the row against the shape.
    pub(crate) fn apply(&mut self, mutation: &Mutation<'_>, key: Located, stamp: Stamp) -> Result<Change> {
        self.trim(stamp.horizon.oldest, TRIM_PER_WRITE);
        let change = match mutation {
            Mutation::Living { write, expiry: Expiry::Keep | Expiry::Table } if !self.has_life() => {
                self.write(write, key, stamp)
            }
            Mutation::Living { write, expiry } => self.apply_living(write, *expiry, key, stamp),
            Mutation::Update { .. } if self.has_life() => self.apply_living(mutation, Expiry::Keep, key, stamp),
            _ if self.has_life() => self.apply_living(mutation, Expiry::Table, key, stamp),
            _ => self.write(mutation, key, stamp),
        }?;
        match (change.row, key.row) {
            (Some(row), old) => self.tell(Changed::Written { hash: key.hash, row, old }),
            (None, Some(row)) => self.tell(Changed::Ended { hash: Some(key.hash), row, why: End::Deleted }),
            // There was nothing to change.
            (None, None) => {}
        }
        Ok(change)
    }

    /// Applies the values of a write, of which [`Self::apply`] tells.
    pub(super) fn write(&mut self, mutation: &Mutation<'_>, key: Located, stamp: Stamp) -> Result<Change> {
        match (mutation, key.row) {
            (Mutation::Insert { row }, Some(_)) => {
                let key: Vec<_> = self.shape.key_of(row).cloned().collect();
                Err(self.shape.duplicate(&key))
            }
            (Mutation::Upsert { row }, Some(old)) if self.overwrite(old, row.iter().enumerate(), stamp) => {
                Ok(Change { applied: Applied::Updated, row: Some(old) })
            }
            (Mutation::Insert { row } | Mutation::Upsert { row }, old) => {
                self.rows.reserve(&self.shape.layout, row.iter().map(Need::of))?;
                self.versions.mark(stamp, self.rows.end());
                let new = self.rows.push(row.iter());
                Ok(self.succeed(key.hash, old, new, stamp))
            }
            (Mutation::Update { changes, .. }, Some(old))
                if self.overwrite(old, changes.iter().map(|(ordinal, datum)| (*ordinal, datum)), stamp) =>
            {
                Ok(Change { applied: Applied::Updated, row: Some(old) })
            }
            (Mutation::Update { changes, .. }, Some(old)) => {
                self.reserve_changed(old, changes)?;
                self.versions.mark(stamp, self.rows.end());
                let shape = &self.shape;
                let new = self
                    .rows
                    .push_changed(old, changes, |segment, offset, ordinal| shape.datum(segment, offset, ordinal));
                Ok(self.succeed(key.hash, Some(old), new, stamp))
            }
            (Mutation::Delete { .. }, Some(old)) => {
                if self.end(old, None, stamp) {
                    self.unindex(key.hash, old);
                }
                Ok(Change { applied: Applied::Deleted, row: None })
            }
            (Mutation::Update { .. } | Mutation::Delete { .. }, None) => {
                Ok(Change { applied: Applied::Nothing, row: None })
            }
            (Mutation::Living { write, expiry }, _) => self.apply_living(write, *expiry, key, stamp),
        }
    }

    /// Appends rows, given as columns of the shape, to a partition that no other thread knows yet. The caller has checked them. A row is
    /// refused if its key exists, or if there is no memory for it.
    pub(crate) fn append(
        &mut self,
        source: &[Column],
        rows: &[u32],
        hash_of: impl Fn(u32) -> u64,
        mut refuse: impl FnMut(u32, Error),
    ) {
        let layout = Arc::clone(&self.shape.layout);
        // They come while the columns are copied.
        rows.iter().take(AHEAD).for_each(|&row| self.rows.prefetch_index(hash_of(row)));
        // All that are left, and one by itself where they do not go into the segment, or into memory.
        let (mut left, mut at_once) = (rows, rows.len());
        while !left.is_empty() {
            let (now, later) = left.split_at(at_once.min(left.len()));
            match self.rows.append(&layout, source, now) {
                Ok(Some(first)) => self.index_appended(first, source, now, &hash_of, &mut refuse),
                Err(error) if now.len() == 1 => refuse(now[0], error),
                Ok(None) | Err(_) => {
                    at_once = 1;
                    continue;
                }
            }
            (left, at_once) = (later, later.len());
        }
    }

    /// Enters appended rows into the key index; the first one has this id.
    fn index_appended(
        &mut self,
        first: u32,
        source: &[Column],
        rows: &[u32],
        hash_of: &impl Fn(u32) -> u64,
        refuse: &mut impl FnMut(u32, Error),
    ) {
        for (at, &row) in rows.iter().enumerate() {
            if let Some(&ahead) = rows.get(at + AHEAD) {
                self.rows.prefetch_index(hash_of(ahead));
            }
            let new = first + at as u32;
            if !self.rows.index_new(hash_of(row), new) {
                self.rows.kill(new);
                let key = self.shape.schema.key.iter().map(|&column| source[column].datum(row as usize));
                refuse(row, self.shape.duplicate(&key.collect::<Vec<_>>()));
            }
        }
    }

    /// Removes a row from a partition that no other thread knows yet.
    pub(crate) fn retract(&mut self, hash: u64, row: u32) {
        self.rows.kill(row);
        self.rows.unindex(hash, row);
    }

    /// Restores a row that was removed by [`Self::retract`]: its place in the index is still free.
    pub(crate) fn restore(&mut self, hash: u64, row: u32) {
        self.rows.revive(row);
        self.rows.index(hash, row);
    }

    /// Makes room for the rows of a partition that no other thread knows, so that [`Self::adopt`] cannot fail, and in the key index for
    /// this many others.
    pub(crate) fn reserve_adoption(&mut self, loaded: &mut Self, others: usize) -> Result<()> {
        if !self.indexes.is_empty() {
            self.reserve_indexes(loaded.rows.live() as usize + others)?;
        }
        self.rows.reserve_adoption(&mut loaded.rows, others, self.indexes.is_empty())
    }

    /// Makes the room in the key index that [`Self::reserve_adoption`] will need for this many rows, unless other writes use it first.
    pub(crate) fn expect_adoption(&mut self, rows: usize) -> Result<()> {
        self.rows.expect_adoption(rows)
    }

    /// Takes over the rows of a partition that no other thread knows; they are copied only if they are few. Their keys are new here.
    /// `prepared` has the results of indexes' expressions for each row, in the order of [`Self::living`].
    pub(crate) fn adopt(
        &mut self,
        loaded: Self,
        stamp: Stamp,
        mut prepared: impl FnMut() -> Option<Prepared>,
    ) -> Result<()> {
        self.trim(stamp.horizon.oldest, TRIM_PER_WRITE);
        if self.has_life() {
            self.bury_keys_of(&loaded, stamp);
        }
        self.tell(Changed::Adopted(&loaded));
        self.versions.mark(stamp, self.rows.end());
        // Indexes are told of whole segments.
        let slots = self.rows.adopt(loaded.rows, self.indexes.is_empty())?;
        if !self.indexes.is_empty() {
            let has_checks = self.has_checks();
            for slot in slots {
                let adopted: Vec<u32> = self.rows.alive_in(slot).collect();
                for &row in adopted.iter().filter(|_| has_checks) {
                    self.set_prepared(prepared());
                    self.add_computed(row);
                }
                self.add_all_to_indexes(&adopted);
            }
        }
        Ok(())
    }

    /// Overwrites values of a row, given with their ordinals. Returns false, and has changed nothing, if a reader could notice: if a
    /// snapshot, or a transaction that will compare versions, must find the row as it was (which is when its end would have to be
    /// remembered), or if a reader borrows the memory. Also if values have other sizes, or the row an older shape; if an index would have
    /// to find the row elsewhere, or does not have a row yet whose value was claimed for this write.
    fn overwrite<'v, 'd: 'v>(
        &mut self,
        row: u32,
        values: impl Iterator<Item = (usize, &'v Datum<'d>)> + Clone,
        stamp: Stamp,
    ) -> bool {
        let (slot, offset) = split(row);
        let segment = self.rows.segment(slot);
        Arc::ptr_eq(&segment.layout, &self.shape.layout)
            && !self.versions.is_seen(stamp, segment.sequence, offset)
            && !self.changes_index(row, values.clone())
            && !self.is_awaited(row)
            && self.rows.overwrite(row, values)
    }

    /// Makes room for a copy of a row with changes.
    fn reserve_changed(&mut self, old: u32, changes: &[(usize, Datum<'_>)]) -> Result<()> {
        let (slot, offset) = split(old);
        let layout = Arc::clone(&self.shape.layout);
        // On the stack, because this is the key path.
        let (mut few, mut many) = ([Need::default(); COLUMNS_FEW], Vec::new());
        let columns = layout.columns.len();
        let needs = if columns <= COLUMNS_FEW {
            &mut few[..columns]
        } else {
            many.resize(columns, Need::default());
            &mut many[..]
        };
        let (shape, segment) = (&self.shape, self.rows.segment(slot));
        for (ordinal, need) in needs.iter_mut().enumerate() {
            *need = match changes.iter().rfind(|(changed, _)| *changed == ordinal) {
                Some((_, datum)) => Need::of(datum),
                None if Arc::ptr_eq(&segment.layout, &layout) => segment.need(offset, ordinal),
                None => Need::of(&shape.datum(segment, offset, ordinal)),
            };
        }
        self.rows.reserve(&layout, needs.iter().copied())
    }

    /// Replaces the row of a key, if there is one, by a new row.
    fn succeed(&mut self, hash: u64, old: Option<u32>, new: u32, stamp: Stamp) -> Change {
        // First, because the old row's end looks at what both have in unique indexes.
        self.add_to_indexes(new);
        match old {
            Some(old) if self.end(old, Some(new), stamp) => {
                self.drop_from_indexes(old);
                self.rows.reindex(hash, old, new);
            }
            _ => self.rows.index(hash, new),
        }
        let applied = if old.is_some() { Applied::Updated } else { Applied::Inserted };
        Change { applied, row: Some(new) }
    }

    /// Removes a row from the key index.
    pub(super) fn unindex(&mut self, hash: u64, row: u32) {
        self.drop_from_indexes(row);
        self.rows.unindex(hash, row);
    }

    /// Ends a row, whose successor is `new`; whoever calls this tells of it. Returns true if no snapshot sees it, so that the
    /// index need not keep it.
    pub(super) fn end(&mut self, row: u32, new: Option<u32>, stamp: Stamp) -> bool {
        if !self.indexes.is_empty() {
            self.release_values(row, new);
        }
        let (slot, offset) = split(row);
        let seen = self.versions.is_seen(stamp, self.rows.segment(slot).sequence, offset);
        self.rows.kill(row);
        if seen {
            self.versions.end(stamp.timestamp, row);
        }
        !seen
    }

    /// Makes room for the rows of a transaction, given by what each needs in each column, so that applying them cannot fail, even if the
    /// partition is truncated first.
    pub(crate) fn reserve_rows<N: Iterator<Item = Need> + Clone>(
        &mut self,
        rows: impl Iterator<Item = N> + Clone,
        truncates: bool,
    ) -> Result<()> {
        let layout = Arc::clone(&self.shape.layout);
        if !self.indexes.is_empty() {
            self.reserve_indexes(rows.clone().count())?;
        }
        self.rows.reserve_rows(&layout, rows, truncates)
    }

    /// The same for rows that take this much in each column, if they go behind the rows that are there; false, and nothing has changed,
    /// if they do not.
    pub(crate) fn reserve_behind(&mut self, sum: &[Need]) -> Result<bool> {
        let layout = Arc::clone(&self.shape.layout);
        let fits = self.rows.reserve_behind(&layout, sum)?;
        if fits && !self.indexes.is_empty() {
            self.reserve_indexes(sum[0].rows)?;
        }
        Ok(fits)
    }

    /// Makes the room that [`Self::reserve_behind`] will need, unless other writes use it first.
    pub(crate) fn expect_rows(&mut self, sum: &[Need]) -> Result<()> {
        let layout = Arc::clone(&self.shape.layout);
        self.rows.reserve_behind(&layout, sum).map(drop)
    }

    /// The same for this many rows, if [`Self::into_spares`] has made the room.
    pub(crate) fn reserve_made(&mut self, spares: Spares, rows: usize) -> Result<()> {
        if !self.indexes.is_empty() {
            self.reserve_indexes(rows)?;
        }
        self.rows.reserve_made(spares, rows)
    }

    /// Turns this partition, which no other thread knows, into segments for the rows of another one, given by what each needs in each
    /// column.
    pub(crate) fn into_spares<N: Iterator<Item = Need> + Clone>(
        mut self,
        rows: impl Iterator<Item = N>,
    ) -> Result<Spares> {
        let layout = Arc::clone(&self.shape.layout);
        self.rows.make_spares(&layout, rows)
    }

    /// Releases segments that were made for rows that did not come.
    pub(crate) fn unreserve(&mut self) {
        self.rows.unreserve();
        self.set_prepared(None);
        self.settle_indexes();
    }

    /// Removes all rows, and returns how many there were.
    pub(crate) fn truncate(&mut self, stamp: Stamp) -> u64 {
        let live = self.rows.live();
        self.tell(Changed::Truncated);
        if stamp.horizon.oldest >= stamp.timestamp {
            self.release_all();
            self.rows.clear();
            self.versions.clear();
            self.clear_indexes();
            return live;
        }
        self.rows.seal();
        let rows: Vec<u32> = self.rows.indexed().filter(|&row| !self.rows.is_dead(row)).collect();
        for row in rows {
            if self.end(row, None, stamp) {
                let hash = self.rows.hash_of(row);
                self.unindex(hash, row);
            }
        }
        live
    }

    /// Forgets old versions that no snapshot sees, at most `count_max`. Returns false if there may be more.
    pub(crate) fn trim(&mut self, oldest: Timestamp, count_max: usize) -> bool {
        if self.versions.is_empty() {
            return true;
        }
        self.versions.trim_marks(oldest);
        for _ in 0..count_max {
            let Some(row) = self.versions.trim_end(oldest) else { return true };
            let hash = self.rows.hash_of(row);
            self.unindex(hash, row);
        }
        false
    }
}

//! Putting buffered rows away: those of a bulk load into partitions of their own until the commit, others by inserting
//! one after the other.
//!
//! Called by `writeset` for COPY, and by `commit` for what was loaded. Rows were checked when they were buffered.

use std::sync::Arc;

use ashlar_base::{Datum, Error, LifeOptions, PartitionId, Result, Timestamp};

use super::{INSERTED, Staged};
use crate::life::Expiry;
use crate::region::KeyPlace;
use crate::writeset::batch::{Refused, RowBatch, Waiting};
use crate::writeset::load::{Load, LoadedRow};

/// How far ahead key indexes are looked at.
const AHEAD: usize = 8;

impl Staged {
    /// From now on [`Self::load_batch`] takes rows. `false`: it does not, and the rows are to be inserted one by one.
    pub(crate) fn start_load(&mut self, read_at: Timestamp) -> Result<bool> {
        // What an index that is unique or computes, or the table's options, have to say of a row is said of rows that were inserted.
        if self.region.has_checks() || self.shape.schema.life != LifeOptions::default() {
            return Ok(false);
        }
        self.loads.push(Load::new(&self.region, read_at)?);
        self.length.loads += 1;
        Ok(true)
    }

    /// Like [`Self::insert`]: the next rows of those that wait, as they came, at most so many, and none behind one that is refused.
    pub(crate) fn insert_batch(&mut self, read_at: Timestamp, batch: &mut RowBatch, rows_max: usize) {
        let next = batch.next(rows_max);
        let (waiting, refused) = batch.parts();
        let (mut key, mut values) = (Vec::new(), Vec::new());
        for row in next.start as u32..next.end as u32 {
            key.clear();
            key.extend(waiting.key(row));
            values.clear();
            values.extend(waiting.row(row));
            if let Err(error) = self.insert_at(read_at, waiting.place(row), &key, &values, Expiry::Table) {
                refused.note(row, error);
                drop((key, values));
                return batch.give_up();
            }
        }
    }

    /// Like [`Self::insert`], into the load that was started last: the next rows of those that wait, at most so many.
    pub(crate) fn load_batch(&mut self, read_at: Timestamp, batch: &mut RowBatch, rows_max: usize) {
        let next = batch.next_ordered(rows_max, usize::from(self.region.partition_count()));
        let (waiting, refused) = batch.parts();
        let mut new = Vec::new();
        for (partition, rows) in waiting.runs(next) {
            new.clear();
            self.sift(read_at, partition, rows, &waiting, &mut new, refused);
            let Self { loads, region, shape, .. } = self;
            match loads.last_mut() {
                Some(load) => load.append(region, shape, partition, &waiting, &new, refused),
                None => refused.note(rows[0], Error::internal("rows in bulk without a load")),
            }
        }
        *self.overlay.get_mut() = None;
    }

    /// Adds those rows of a partition to `new` whose keys neither the table has nor the transaction, as far as it was written
    /// before the load. Where it has deleted a row, the new one takes the place of that, and is no part of the load.
    fn sift(
        &mut self,
        read_at: Timestamp,
        partition: PartitionId,
        rows: &[u32],
        waiting: &Waiting<'_>,
        new: &mut Vec<u32>,
        refused: &mut Refused,
    ) {
        let region = Arc::clone(&self.region);
        let guard = region.lock(partition);
        let stored = guard.as_deref().filter(|stored| stored.has_rows() && !self.truncates());
        let before = self.loads.len().saturating_sub(1);
        if stored.is_none() && self.rows.live() == 0 && before == 0 {
            return new.extend_from_slice(rows);
        }
        let mut key = Vec::new();
        for (at, &row) in rows.iter().enumerate() {
            if let Some(&ahead) = rows.get(at + AHEAD) {
                let hash = waiting.place(ahead).hash;
                self.rows.prefetch_index(hash);
                if let Some(stored) = stored {
                    stored.prefetch_index(hash);
                }
            }
            let place = waiting.place(row);
            key.clear();
            key.extend(waiting.key(row));
            let checked = match self.rows.find(place.hash, &key) {
                Some(old) if self.state(old).is_deleted() => {
                    self.write_over(read_at, place, &waiting.row(row).collect::<Vec<_>>(), old)
                }
                Some(_) => Err(self.shape.duplicate(&key)),
                None if self.has_loaded_key(before, place, &key) => Err(self.shape.duplicate(&key)),
                None if stored.is_some_and(|stored| stored.locate_at(place.hash, &key, read_at).is_some()) => {
                    Err(self.shape.duplicate(&key))
                }
                None => {
                    new.push(row);
                    Ok(())
                }
            };
            if let Err(error) = checked {
                refused.note(row, error);
            }
        }
    }

    /// Writes a new row in the place of a pending deletion.
    fn write_over(&mut self, read_at: Timestamp, place: KeyPlace, row: &[Datum<'_>], old: u32) -> Result<()> {
        let (life, deadline) = self.life(Some(old), Expiry::Table, || None);
        self.write_living(read_at, place, row, Some(old), INSERTED | life, deadline)
    }

    /// Whether one of the first loads has a row of a key.
    fn has_loaded_key(&self, loads: usize, place: KeyPlace, key: &[Datum<'_>]) -> bool {
        self.loads[..loads].iter().enumerate().any(|(index, load)| load.find(index, place, key).is_some())
    }

    /// The row of a key that arrived in bulk.
    pub(super) fn find_loaded(&self, place: KeyPlace, key: &[Datum<'_>]) -> Option<LoadedRow> {
        self.loads.iter().enumerate().find_map(|(index, load)| load.find(index, place, key))
    }

    /// What arrived in bulk.
    pub(crate) fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Hands out what arrived in bulk, for the commit, without which there is nothing of it here.
    pub(crate) fn take_loads(&mut self) -> Vec<Load> {
        if self.loads.is_empty() {
            return Vec::new();
        }
        *self.overlay.get_mut() = None;
        std::mem::take(&mut self.loads)
    }

    /// Takes back what a commit was handed that did nothing.
    pub(crate) fn put_loads(&mut self, loads: Vec<Load>) {
        self.loads = loads;
    }
}

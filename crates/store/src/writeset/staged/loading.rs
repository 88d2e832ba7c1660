//! Rows that have waited for each other: those of a bulk load, kept in partitions of their own until the commit, and others,
//! inserted one after the other.
//!
//! Called by `writeset` for COPY, and by `commit` for what was loaded. Rows were checked when they began to wait.

use ashlar_base::{Datum, Error, LifeOptions, Result, Timestamp};

use super::{INSERTED, Staged};
use crate::life::Expiry;
use crate::region::KeyPlace;
use crate::writeset::batch::{self, RowBatch};
use crate::writeset::load::{Load, LoadedRow};

impl Staged {
    /// From now on [`Self::load_batch`] takes rows. `false`: it does not, and the rows are to be inserted one by one.
    pub(crate) fn start_load(&mut self, read_at: Timestamp) -> Result<bool> {
        // What an index or the table's options have to say of a row is said of rows that were inserted.
        if !self.region.every_index().is_empty() || self.shape.schema.life != LifeOptions::default() {
            return Ok(false);
        }
        self.loads.push(Load::new(&self.region, read_at)?);
        self.length.loads += 1;
        Ok(true)
    }

    /// Like [`Self::insert`]: the next rows of those that wait, as they came, at most so many, and none behind one that is refused.
    pub(crate) fn insert_batch(&mut self, read_at: Timestamp, batch: &mut RowBatch, rows_max: usize) {
        let mut refused: Option<(usize, Error)> = None;
        let next = batch.next(rows_max);
        let (mut row, mut key): (Vec<Datum<'_>>, Vec<Datum<'_>>) = (Vec::new(), Vec::new());
        for number in next {
            row.clear();
            row.extend(batch.row(number));
            key.clear();
            key.extend(batch.key(number));
            if let Err(error) = self.insert_at(read_at, batch.place(number), &key, &row, Expiry::Table) {
                refused = Some((number, error));
                break;
            }
        }
        drop((row, key));
        if let Some((number, error)) = refused {
            batch.refuse(number, error);
            batch.give_up();
        }
    }

    /// Like [`Self::insert`], into the load that was started last: the next rows of those that wait, at most so many.
    pub(crate) fn load_batch(&mut self, read_at: Timestamp, batch: &mut RowBatch, rows_max: usize) {
        let places = batch.next_ordered(rows_max, usize::from(self.region.partition_count()));
        let mut refused: Option<(usize, Error)> = None;
        let (mut row, mut key): (Vec<Datum<'_>>, Vec<Datum<'_>>) = (Vec::new(), Vec::new());
        for at in places {
            if let (Some((_, ahead)), Some(load)) = (batch.at(at + batch::AHEAD), self.loads.last()) {
                load.prefetch_index(ahead);
            }
            let Some((number, place)) = batch.at(at) else { break };
            row.clear();
            row.extend(batch.row(number));
            key.clear();
            key.extend(batch.key(number));
            if let Err(error) = self.load_at(read_at, place, &key, &row)
                && refused.as_ref().is_none_or(|(first, _)| number < *first)
            {
                refused = Some((number, error));
            }
        }
        drop((row, key));
        if let Some((number, error)) = refused {
            batch.refuse(number, error);
        }
    }

    /// Loads a row that was checked.
    fn load_at(&mut self, read_at: Timestamp, place: KeyPlace, key: &[Datum<'_>], row: &[Datum<'_>]) -> Result<()> {
        // What the transaction did to the key before, if only to delete it, is in the other rows.
        let old = if self.rows.live() > 0 { self.rows.find(place.hash, key) } else { None };
        let exists = match old {
            Some(old) => !self.state(old).is_deleted(),
            None => {
                self.find_loaded(place, key).is_some() || (!self.truncates() && self.region.has_at(place, key, read_at))
            }
        };
        if exists {
            return Err(self.shape.duplicate(key));
        }
        let Self { loads, region, shape, .. } = self;
        match loads.last_mut() {
            Some(load) if old.is_none() => {
                load.push(region, shape, place, row)?;
                *self.overlay.get_mut() = None;
                Ok(())
            }
            _ => {
                let (life, deadline) = self.life(old, Expiry::Table, || None);
                self.write_living(read_at, place, row, old, INSERTED | life, deadline)
            }
        }
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

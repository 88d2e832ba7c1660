//! What unique indexes and expressions say of the rows of a commit, before anything is changed.
//!
//! Called by `commit` with all its partitions locked and with room for its rows made. All values that the commit's rows
//! will have are taken at once, or none; those that it gives back are given back as rows end.

use std::sync::Arc;

use ashlar_base::{Datum, Error, Result, TableId};

use super::{Locked, Stopped, read_key};
use crate::memory::Charge;
use crate::partition::Examined;
use crate::places::{Clash, Places, taken_error};
use crate::taken::{Claim, Claimed, claim};

/// Takes the values of all rows. `ignored` are indexes that the same transaction drops.
///
/// # Errors
/// 23505 where somebody has a value, 40001 where the statement that wrote the row wants to be tried again then; 53200, and
/// what expressions find.
pub(super) fn take_values(locked: &mut [Locked<'_>], ignored: &[TableId]) -> Result<(), Stopped> {
    let mut examined = Examined::default();
    // By the number of a claim: which of `locked`, and its row.
    let mut rows: Vec<(usize, Written)> = Vec::new();
    let mut charges = Vec::new();
    for (number, locked) in locked.iter_mut().enumerate() {
        let staged = locked.staged;
        if !staged.region().has_checks() {
            continue;
        }
        let indexes = staged.region().every_index();
        let uniques = indexes.iter().filter(|index| index.unique.is_some()).count();
        let bytes = uniques * (size_of::<Claim>() + 32) + size_of::<(usize, Written)>() + 64;
        let loaded: usize = locked.loaded.iter().flatten().map(|(_, loaded)| loaded.live() as usize).sum();
        charges.push(Charge::new(staged.account(), bytes * (staged.row_count() + loaded))?);
        locked.examine(number, &mut rows, &mut examined)?;
    }
    let Examined { mut claims, released } = examined;
    claims.retain(|claim| !ignored.contains(&claim.taken.index()));
    if claims.is_empty() {
        return Ok(());
    }
    for claim in &mut claims {
        let truncates = rows.get(claim.number).is_some_and(|(number, _)| locked[*number].staged.truncates());
        claim.is_released = truncates || released.contains(&(claim.taken.index(), claim.value));
    }
    let indexes: Vec<TableId> = claims.iter().map(|claim| claim.taken.index()).collect();
    let numbers: Vec<usize> = claims.iter().map(|claim| claim.number).collect();
    // A row may want values of several indexes: from here on a claim's number is its own.
    claims.iter_mut().enumerate().for_each(|(number, claim)| claim.number = number);
    let (number, is_own) = match claim(&mut claims)? {
        Claimed::All => return Ok(()),
        Claimed::Clash(number) => (number, false),
        Claimed::Twice(number) => (number, true),
    };
    let (locked_number, row) = rows[numbers[number]];
    Err(locked[locked_number].clash(indexes[number], row, is_own))
}

/// A row of a commit.
#[derive(Clone, Copy)]
enum Written {
    /// Of the rows that were written one by one.
    Row(u32),
    /// One that arrived in bulk: the place of its partition's guard, which of the loads there, and its id in that.
    Loaded(u32, u32, u32),
}

impl Locked<'_> {
    fn examine(&mut self, number: usize, rows: &mut Vec<(usize, Written)>, examined: &mut Examined) -> Result<()> {
        let staged = self.staged;
        let mut key: Vec<Datum<'_>> = Vec::new();
        for (index, (partition, guard)) in self.guards.iter().enumerate() {
            let Some(stored) = guard.as_deref().filter(|stored| stored.has_checks()) else { continue };
            for (which, (_, loaded)) in self.loaded[index].iter().enumerate() {
                for row in loaded.living() {
                    let new = loaded.row_as(staged.shape(), row);
                    rows.push((number, Written::Loaded(index as u32, which as u32, row)));
                    let prepared = stored.examine_new(None, &|ordinal| new.get(ordinal), rows.len() - 1, examined)?;
                    self.prepared.push_back(prepared);
                }
            }
            for &row in &self.rows[self.range(*partition)] {
                read_key(staged, row, &mut key);
                // Rows that were over are ended already.
                let old = stored.locate_unended(staged.region().hash(&key), &key).row;
                let old = old.filter(|_| !staged.truncates());
                if staged.state(row).is_deleted() {
                    old.iter().for_each(|old| stored.examine_old(*old, examined));
                    continue;
                }
                let new = staged.row(row);
                rows.push((number, Written::Row(row)));
                let prepared = stored.examine_new(old, &|ordinal| new.get(ordinal), rows.len() - 1, examined)?;
                self.prepared.push_back(prepared);
            }
        }
        Ok(())
    }

    /// What is said of a row whose value somebody else has.
    fn clash(&self, index: TableId, row: Written, is_own: bool) -> Stopped {
        let shape = self.staged.shape();
        let row = match row {
            Written::Row(row) => self.staged.row(row),
            Written::Loaded(guard, which, row) => self.loaded[guard as usize][which as usize].1.row_as(shape, row),
        };
        let indexes = self.staged.region().every_index();
        let clash = indexes.iter().find(|known| known.id == index).and_then(|definition| {
            let places = Places::of(definition, shape)?;
            let computed = places.compute(definition, |ordinal| row.get(ordinal)).ok()??;
            let values = places.values(&computed, |ordinal| row.get(ordinal));
            let error =
                if self.staged.yields() { self.conflict() } else { taken_error(definition, shape, values.clone()) };
            let values = values.map(|value| value.to_value()).collect();
            Some(Clash { index: Arc::clone(definition), values, is_own, error })
        });
        match clash {
            Some(clash) => Stopped::Clash(Arc::clone(self.staged.region()), Box::new(clash)),
            None => Stopped::Error(Error::internal("a value is one of an index")),
        }
    }
}

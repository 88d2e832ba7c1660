//! What unique indexes and expressions say of the rows of a commit, before anything is changed.
//!
//! Called by `commit` with all its partitions locked and with room for its rows made. All values that the commit's rows
//! will have are taken at once, or none; those that it gives back are given back as rows end.

use ashlar_base::{Datum, Error, Result, TableId};

use super::{Locked, read_key};
use crate::memory::Charge;
use crate::partition::Examined;
use crate::places::{Places, taken_error};
use crate::taken::{Claim, Claimed, claim};

/// Takes the values of all rows. `ignored` are indexes that the same transaction drops.
///
/// # Errors
/// 23505 where somebody has a value, 40001 where the statement that wrote the row wants to be tried again then; 53200, and
/// what expressions find.
pub(super) fn take_values(locked: &mut [Locked<'_>], ignored: &[TableId]) -> Result<()> {
    let mut examined = Examined::default();
    // By the number of a claim: which of `locked`, and its row.
    let mut rows: Vec<(usize, u32)> = Vec::new();
    let mut charges = Vec::new();
    for (number, locked) in locked.iter_mut().enumerate() {
        let staged = locked.staged;
        if !staged.region().has_checks() {
            continue;
        }
        let indexes = staged.region().every_index();
        let uniques = indexes.iter().filter(|index| index.unique.is_some()).count();
        let bytes = uniques * (size_of::<Claim>() + 32) + size_of::<(usize, u32)>() + 64;
        charges.push(Charge::new(staged.account(), bytes * staged.row_count())?);
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
    match claim(&mut claims)? {
        Claimed::All => Ok(()),
        Claimed::Clash(number) => {
            let (locked_number, row) = rows[numbers[number]];
            Err(locked[locked_number].clash(indexes[number], row))
        }
    }
}

impl Locked<'_> {
    fn examine(&mut self, number: usize, rows: &mut Vec<(usize, u32)>, examined: &mut Examined) -> Result<()> {
        let staged = self.staged;
        let mut key: Vec<Datum<'_>> = Vec::new();
        for (partition, guard) in &self.guards {
            let Some(stored) = guard.as_deref().filter(|stored| stored.has_checks()) else { continue };
            for &row in &self.rows[self.range(*partition)] {
                read_key(staged, row, &mut key);
                let old = stored.locate(staged.region().hash(&key), &key).row.filter(|_| !staged.truncates());
                if staged.state(row).is_deleted() {
                    old.iter().for_each(|old| stored.examine_old(*old, examined));
                    continue;
                }
                let new = staged.row(row);
                rows.push((number, row));
                let prepared = stored.examine_new(old, &|ordinal| new.get(ordinal), rows.len() - 1, examined)?;
                self.prepared.push_back(prepared);
            }
        }
        Ok(())
    }

    /// What is said of a row whose value somebody else has.
    fn clash(&self, index: TableId, row: u32) -> Error {
        if self.staged.yields() {
            return self.conflict();
        }
        let shape = self.staged.shape();
        let indexes = self.staged.region().every_index();
        let error = indexes.iter().find(|known| known.id == index).and_then(|definition| {
            let (places, row) = (Places::of(definition, shape)?, self.staged.row(row));
            let computed = places.compute(definition, |ordinal| row.get(ordinal)).ok()??;
            Some(taken_error(definition, shape, places.values(&computed, |ordinal| row.get(ordinal))))
        });
        error.unwrap_or_else(|| Error::internal("a value is one of an index"))
    }
}

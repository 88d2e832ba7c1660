//! Checks of unique indexes and index expressions for the rows of a commit, before anything is changed.
//!
//! Called by `commit` with all its partitions locked and room made for its rows. The values of all new rows are claimed
//! together, or none are; values that the commit gives up are released as their rows end.

use std::sync::Arc;

use ashlar_base::{Datum, Error, PartitionId, Result, TableId};

use super::{Failed, Held, Locked, read_key};
use crate::key_parts::{Clash, KeyParts, taken_error};
use crate::memory::Charge;
use crate::partition::Examined;
use crate::taken::{Claim, Claimed, claim};
use crate::writeset::{Load, Staged};

/// Takes the values of all rows. `ignored` are indexes that the same transaction drops.
///
/// # Errors
/// 23505 where somebody has a value, 40001 where the statement that wrote the row wants to be tried again then; 53200, and
/// what expressions find.
pub(super) fn take_values(locked: &mut [Locked<'_>], ignored: &[TableId]) -> Result<(), Failed> {
    let mut examined = Examined::default();
    // By the number of claims: which of `locked`, and its row.
    let mut rows: Vec<(usize, Written)> = Vec::new();
    let mut charges = Vec::new();
    for (number, locked) in locked.iter_mut().enumerate() {
        let staged = locked.staged;
        if locked.advance.is_some() || !staged.region().has_checks() {
            continue;
        }
        let indexes = staged.region().every_index();
        let uniques = indexes.iter().filter(|index| index.unique.is_some()).count();
        let bytes = uniques * (size_of::<Claim>() + 32) + size_of::<(usize, Written)>() + 64;
        let loaded = locked.loads.iter().map(Load::row_count).sum::<usize>();
        charges.push(Charge::of_statement(staged.account(), bytes * (staged.row_count() + loaded))?);
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
    let Claimed::Clash { index, number, is_own } = claim(&mut claims)? else { return Ok(()) };
    let (locked_number, row) = rows[number];
    let Locked { staged, loads, .. } = &locked[locked_number];
    Err(clash(staged, loads, index, row, is_own))
}

/// A row of a commit.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// Of the rows that were written one by one.
    Row(u32),
    /// One that arrived in bulk: in which load, in which partition of it, and its id there.
    Loaded(u32, PartitionId, u32),
}

impl Locked<'_> {
    fn examine(&mut self, number: usize, rows: &mut Vec<(usize, Written)>, examined: &mut Examined) -> Result<()> {
        let mut guards = std::mem::take(&mut self.guards);
        let done = guards.iter_mut().try_for_each(|held| self.examine_partition(held, number, rows, examined));
        self.guards = guards;
        done
    }

    fn examine_partition(
        &self,
        held: &mut Held<'_>,
        number: usize,
        rows: &mut Vec<(usize, Written)>,
        examined: &mut Examined,
    ) -> Result<()> {
        let staged = self.staged;
        let mut key: Vec<Datum<'_>> = Vec::new();
        let Held { partition, guard, prepared, .. } = held;
        let Some(stored) = guard.as_deref().filter(|stored| stored.has_checks()) else { return Ok(()) };
        for (load, loads) in self.loads.iter().enumerate() {
            let Some(loaded) = loads.part(*partition) else { continue };
            for row in loaded.living() {
                let new = loaded.row_as(staged.shape(), row);
                rows.push((number, Written::Loaded(load as u32, *partition, row)));
                let computed = stored.examine_new(None, &|ordinal| new.get(ordinal), rows.len() - 1, examined)?;
                prepared.push_back(computed);
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
            let computed = stored.examine_new(old, &|ordinal| new.get(ordinal), rows.len() - 1, examined)?;
            prepared.push_back(computed);
        }
        Ok(())
    }
}

/// What is said of a row whose value somebody else has.
pub(super) fn clash(staged: &Staged, loads: &[Load], index: TableId, row: Written, is_own: bool) -> Failed {
    let shape = staged.shape();
    let row = match row {
        Written::Row(row) => Some(staged.row(row)),
        Written::Loaded(load, partition, row) => loads[load as usize].row_at(shape, partition, row),
    };
    let indexes = staged.region().every_index();
    let clash = indexes.iter().find(|known| known.id == index).and_then(|definition| {
        let (key_parts, row) = (KeyParts::of(definition, shape)?, row?);
        let computed = key_parts.compute(definition, |ordinal| row.get(ordinal)).ok()??;
        let values = key_parts.values(&computed, |ordinal| row.get(ordinal));
        let shown = key_parts.shown(&computed, |ordinal| row.get(ordinal));
        let error = if staged.yields() { staged.conflict() } else { taken_error(definition, shape, shown) };
        let values = values.map(|value| value.to_value()).collect();
        Some(Clash { index: Arc::clone(definition), values, is_own, error })
    });
    match clash {
        Some(clash) => Failed::Clash(Arc::clone(staged.region()), Box::new(clash)),
        None => Failed::Error(Error::internal("a value is one of an index")),
    }
}

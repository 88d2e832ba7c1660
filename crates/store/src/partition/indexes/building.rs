//! How an index gets the rows that were there before it: some at a time, while others write.
//!
//! ```text
//!   rows as they lie   | entered        | awaited              | entered by those who write them |
//!                                       next                   end: where the rows ended when the index came
//! ```
//! The index is there from the first step on. Whoever writes enters what he writes, behind the end. A row that is awaited has no
//! entry, and no values for itself in a unique index, until its turn comes. Whoever writes it again takes its values for a new row,
//! which has an entry: it is not overwritten where it lies. Rows do not move from one segment to another meanwhile.
//!
//! Called by `region::indexes`, once in each hold of the partition's lock: what is read, computed, claimed and entered in one step is
//! bounded, and so small that nobody charges what it takes beside what the index keeps.

use std::sync::Arc;

use ashlar_base::{IndexDef, Result, Value};

use super::{Index, Shared};
use crate::directory::Directories;
use crate::memory::Charge;
use crate::partition::computed::bytes_of;
use crate::partition::{Partition, Refused, Stamp};
use crate::places::{Clash, may_repeat, repeated_error};
use crate::rows::{Rows, Spot};
use crate::taken::{Claim, Claimed, Taken, claim};

/// Leaves that are packed in one step: those of some thousand entries, which are moved and not compared.
const LEAVES_PACKED: usize = 32;

/// Rows that an index is still to get, and leaves that are still to be packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    next: Spot,
    end: Spot,
    /// The first of the leaves, which are split as they get more and more: they are packed once no row is awaited.
    leaf: usize,
}

impl Awaited {
    pub(super) fn has(self, rows: &Rows, row: u32) -> bool {
        (self.next..self.end).contains(&rows.spot(row))
    }
}

/// A row that an index has, and the values of its expressions.
type Entering = (u32, Box<[Value]>);

impl Partition {
    /// Has an index, new here at the first call, get the next of the rows that were there before it: so many are looked at. True when it has all
    /// of them. `stamp` is asked for where rows end because their time has come.
    ///
    /// # Errors
    /// 53200 over the memory bound, 23505 where values that are to be unique are not, and what its expressions find. The index has what
    /// it had then.
    pub(crate) fn build_index(
        &mut self,
        definition: &Arc<IndexDef>,
        taken: Option<Arc<Taken>>,
        stamp: impl FnOnce() -> Stamp,
        rows_max: usize,
    ) -> Result<bool, Refused> {
        if self.indexes.iter().all(|index| index.definition.id != definition.id) {
            if self.rows.is_moving() {
                // First they are all where they stay.
                self.move_rows(rows_max);
                return Ok(false);
            }
            let shared = Shared { taken, directories: Directories::default() };
            let mut index = Index::new(definition, &self.shape, &self.rows, shared);
            if index.places.is_none() {
                return Ok(true);
            }
            index.awaited = Some(Awaited { next: (0, 0), end: self.rows.end(), leaf: 0 });
            self.indexes.push(index);
        }
        let found = self.indexes.iter().position(|index| index.definition.id == definition.id);
        let found = found.and_then(|at| Some((at, self.indexes[at].awaited?)));
        let Some((at, awaited)) = found else { return Ok(true) };
        if awaited.next < awaited.end {
            let (rows, next) = self.rows.walk(awaited.next, awaited.end, rows_max);
            if definition.unique.is_some() {
                // Rows whose time has come are in nobody's way.
                self.bury_some(&rows, stamp);
            }
            self.enter(at, &rows)?;
            self.indexes[at].awaited = Some(Awaited { next: next.unwrap_or(awaited.end), ..awaited });
            if next.is_some() {
                return Ok(false);
            }
        }
        let index = &mut self.indexes[at];
        let leaf = index.entries.pack(awaited.leaf, LEAVES_PACKED);
        index.awaited = leaf.map(|leaf| Awaited { next: awaited.end, leaf, ..awaited });
        Ok(leaf.is_none())
    }

    /// Whether an index is being made.
    pub(in crate::partition) fn is_building(&self) -> bool {
        self.indexes.iter().any(|index| index.awaited.is_some())
    }

    /// Whether an index of unique values is still to get a row.
    pub(in crate::partition) fn is_awaited(&self, row: u32) -> bool {
        self.indexes.iter().any(|index| index.taken.is_some() && index.awaits(&self.rows, row))
    }

    /// Enters those of some rows that are looked up, or none.
    fn enter(&mut self, at: usize, rows: &[u32]) -> Result<(), Refused> {
        let is_looked_up = |row: &u32| !self.rows.is_dead(*row) || self.versions.end_of(*row).is_some();
        let looked_up: Vec<u32> = rows.iter().copied().filter(is_looked_up).collect();
        if looked_up.is_empty() {
            return Ok(());
        }
        let entering = self.entering(&self.indexes[at], &looked_up)?;
        let computes = self.indexes[at].computed.is_some();
        let bytes = |(_, values): &Entering| bytes_of(values) + size_of::<Entering>();
        let bytes: usize = if computes { entering.iter().map(bytes).sum() } else { 0 };
        let _charge = Charge::new(self.rows.account(), bytes)?;
        self.indexes[at].entries.reserve(entering.len())?;
        let claimed = self.claim_values(&self.indexes[at], &entering);
        let Self { id, indexes, shape, rows, .. } = self;
        let index = &mut indexes[at];
        if claimed.is_ok() {
            let entered: Vec<u32> = entering.iter().map(|(row, _)| *row).collect();
            if let Some(computed) = &mut index.computed {
                entering.into_iter().for_each(|(row, values)| computed.add(rows.entry_of(row), values));
            }
            index.add_all(*id, shape, rows, &entered);
        }
        index.entries.settle();
        claimed
    }

    /// Those of some rows that an index has, and what it computes of each.
    fn entering(&self, index: &Index, rows: &[u32]) -> Result<Vec<Entering>> {
        let Some(places) = &index.places else { return Ok(Vec::new()) };
        let Some(expressions) = &index.definition.rows else {
            return Ok(rows.iter().map(|&row| (row, Box::default())).collect());
        };
        let inputs = |&row: &u32| {
            let row = self.row(row);
            places.inputs(|ordinal| row.get(ordinal))
        };
        let found = expressions.compute(&rows.iter().map(inputs).collect::<Vec<_>>())?;
        Ok(rows.iter().copied().zip(found).filter_map(|(row, values)| Some((row, values?))).collect())
    }

    /// Takes the values of rows for an index that is to get them, of all or of none.
    ///
    /// # Errors
    /// 23505 where one of them is taken, 53200.
    fn claim_values(&self, index: &Index, entering: &[Entering]) -> Result<(), Refused> {
        let (Some(taken), Some(places)) = (&index.taken, &index.places) else { return Ok(()) };
        let mut claims: Vec<Claim> = Vec::new();
        for (number, (row, computed)) in entering.iter().enumerate().filter(|(_, (row, _))| !self.rows.is_dead(*row)) {
            let row = self.row(*row);
            let values = places.values(computed, |ordinal| row.get(ordinal));
            if !may_repeat(&index.definition, values.clone()) {
                claims.push(Claim::new(taken, taken.fingerprint(values), self.id, number));
            }
        }
        let (number, is_own) = match claim(&mut claims)? {
            Claimed::All => return Ok(()),
            Claimed::Clash(number) => (number, false),
            Claimed::Twice(number) => (number, true),
        };
        let (row, computed) = &entering[number];
        let row = self.row(*row);
        let values = places.values(computed, |ordinal| row.get(ordinal));
        let shown = places.shown(computed, |ordinal| row.get(ordinal));
        let error = repeated_error(&index.definition, &self.shape, shown);
        let (index, values) = (Arc::clone(&index.definition), values.map(|value| value.to_value()).collect());
        Err(Refused::Clash(Box::new(Clash { index, values, is_own, error })))
    }
}

#[cfg(test)]
mod tests;

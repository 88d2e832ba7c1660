//! How an index gets the rows that existed before it: a few at a time, while others write.
//!
//! ```text
//!   rows as they lie   | entered        | awaited              | entered by those who write them |
//!                                       next                   end: where the rows ended when the index came
//! ```
//!
//! The index exists from the first step on. A writer enters the rows that it writes, behind the end. A row that is
//! still awaited has no entry, and holds no values of a unique index, until its turn comes. If it is written again
//! before that, the new version is a new row with an entry of its own, and is not overwritten in place. Rows do not
//! move between segments meanwhile.
//!
//! Called by `region::indexes`, once each time that it holds the partition's lock. What one step reads, computes,
//! claims and enters is bounded by rows and by bytes. Copies of what expressions read are charged before they are
//! made. So are the results if several rows are computed together; the result for a row that is computed alone has no
//! known bound, and is charged before the next row is computed.

use std::sync::Arc;

use ashlar_base::{IndexDef, IndexRows, Result, Value};

use super::{Index, Shared};
use crate::directory::Directories;
use crate::key_parts::{Clash, KeyParts, may_repeat, repeated_error};
use crate::memory::Charge;
use crate::partition::computed::bytes_of;
use crate::partition::{Partition, Refused, Stamp};
use crate::rows::{Rows, Spot};
use crate::segment::Need;
use crate::taken::{Claim, Claimed, Taken, claim};

/// Leaves that are packed in one step: those of some thousand entries, which are moved and not compared.
const LEAVES_PACKED: usize = 32;

/// Bytes of values that are read and computed in one step, and that are charged where rows are computed together. The last row of a step may
/// go beyond them.
const STEP_BYTES: usize = 256 << 10;

/// What an expression reads is there twice: as values, and as columns.
const COPIES: usize = 2;

/// A step has so many times fewer rows where each is computed alone, which takes some microseconds.
const ALONE_SHARE: usize = 8;

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

/// What a step has found, as far as it came.
struct Found {
    entering: Vec<Entering>,
    /// For what was computed.
    charge: Charge,
    /// Bytes that were read.
    bytes: usize,
    /// Rows that were looked at.
    passed: usize,
}

/// Rows that are looked at together.
struct Group {
    /// Those of them that are looked up.
    rows: Vec<u32>,
    /// Bytes of their values that the index reads.
    bytes: usize,
    /// How many were looked at.
    passed: usize,
}

impl Index {
    /// Makes room for so many more rows, without the values of their expressions.
    fn reserve(&mut self, rows: usize) -> Result<()> {
        self.entries.reserve(rows)?;
        self.computed.as_mut().map_or(Ok(()), |computed| computed.reserve(rows))
    }
}

impl Partition {
    /// Has an index, new here at the first call, get the next of the rows that were there before it: so many are looked at, or fewer where they
    /// are long or each is computed alone. True when it has all of them. `stamp` is asked for where rows end because their time has come.
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
            if index.key_parts.is_none() {
                return Ok(true);
            }
            index.awaited = Some(Awaited { next: (0, 0), end: self.rows.end(), leaf: 0 });
            index.note_common(&self.shape, &self.rows);
            self.indexes.push(index);
        }
        let found = self.indexes.iter().position(|index| index.definition.id == definition.id);
        let found = found.and_then(|at| Some((at, self.indexes[at].awaited?)));
        let Some((at, awaited)) = found else { return Ok(true) };
        if awaited.next < awaited.end {
            let is_alone = definition.rows.as_ref().is_some_and(|rows| rows.growth().is_none());
            let rows_max = if is_alone { rows_max.div_ceil(ALONE_SHARE) } else { rows_max };
            let (rows, behind) = self.rows.walk(awaited.next, awaited.end, rows_max);
            if definition.unique.is_some() || definition.rows.is_some() {
                // Rows whose time has come are in nobody's way: their values are free, and expressions need not be possible of them.
                self.bury_some(&rows, stamp);
            }
            let passed = self.enter(at, &rows)?;
            let next = rows.get(passed).map(|&row| self.rows.spot(row)).or(behind);
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

    /// Enters those of some rows that are looked up, or none: of the first ones, as many as one step is for. How many were looked at.
    fn enter(&mut self, at: usize, rows: &[u32]) -> Result<usize, Refused> {
        let Found { entering, mut charge, passed, .. } = self.look_at(&self.indexes[at], rows)?;
        if entering.is_empty() {
            return Ok(passed);
        }
        let room = self.indexes[at].reserve(entering.len()).map_err(Refused::Error);
        let claimed = room.and_then(|()| self.claim_values(&self.indexes[at], &entering));
        let Self { id, indexes, shape, rows, .. } = self;
        let index = &mut indexes[at];
        if claimed.is_ok() {
            let entered: Vec<u32> = entering.iter().map(|(row, _)| *row).collect();
            if let Some(computed) = &mut index.computed {
                let add = |(row, values)| computed.add_charged(rows.entry_of(row), values, &mut charge);
                entering.into_iter().for_each(add);
            }
            index.add_all(*id, shape, rows, &entered);
        }
        index.entries.settle();
        claimed.map(|()| passed)
    }

    /// What an index has of the first of some rows: of as many as one step is for.
    fn look_at(&self, index: &Index, rows: &[u32]) -> Result<Found> {
        let charge = Charge::empty(self.rows.account());
        let mut found = Found { entering: Vec::with_capacity(rows.len()), charge, bytes: 0, passed: 0 };
        let Some(key_parts) = &index.key_parts else { return Ok(Found { passed: rows.len(), ..found }) };
        let expressions = index.definition.rows.as_deref();
        let bytes_max = match expressions {
            None => STEP_BYTES,
            Some(rows) => rows.growth().map_or(0, |growth| STEP_BYTES / (COPIES + growth)),
        };
        while found.passed < rows.len() {
            let left = STEP_BYTES.saturating_sub(found.bytes + found.charge.bytes() as usize);
            if left == 0 {
                break;
            }
            let group = self.group(key_parts, &rows[found.passed..], bytes_max.min(left));
            found.bytes += group.bytes;
            found.passed += group.passed;
            match expressions {
                None => found.entering.extend(group.rows.into_iter().map(|row| (row, Box::default()))),
                Some(expressions) => self.compute(expressions, key_parts, &group, &mut found)?,
            }
        }
        Ok(found)
    }

    /// The first of some rows, until the index reads so many bytes of them; one that is looked up in any case, if there is any.
    fn group(&self, key_parts: &KeyParts, rows: &[u32], bytes_max: usize) -> Group {
        let mut group = Group { rows: Vec::new(), bytes: 0, passed: rows.len() };
        for (passed, &row) in rows.iter().enumerate() {
            if self.rows.is_dead(row) && self.versions.end_of(row).is_none() {
                continue;
            }
            let bytes = group.bytes + self.bytes_read(key_parts, row);
            if !group.rows.is_empty() && bytes >= bytes_max {
                return Group { passed, ..group };
            }
            group.rows.push(row);
            group.bytes = bytes;
        }
        group
    }

    /// Bytes of the values that an index reads of a row.
    fn bytes_read(&self, key_parts: &KeyParts, row: u32) -> usize {
        let row = self.row(row);
        let bytes = |ordinal: usize| {
            let need = Need::of(&row.get(ordinal));
            need.bytes + (1 + need.items) * size_of::<Value>()
        };
        key_parts.watched().map(bytes).sum()
    }

    /// Computes what an index has of rows.
    ///
    /// # Errors
    /// What its expressions find, 53200.
    fn compute(
        &self,
        expressions: &dyn IndexRows,
        key_parts: &KeyParts,
        group: &Group,
        found: &mut Found,
    ) -> Result<()> {
        if group.rows.is_empty() {
            return Ok(());
        }
        // A row alone may be a long one: it needs no more memory than it takes.
        let growth = expressions.growth().filter(|_| group.rows.len() > 1).unwrap_or(0);
        let _taken = Charge::new(self.rows.account(), group.bytes * (COPIES + growth))?;
        let inputs = |&row: &u32| {
            let row = self.row(row);
            key_parts.inputs(|ordinal| row.get(ordinal))
        };
        let computed = expressions.compute(&group.rows.iter().map(inputs).collect::<Vec<_>>())?;
        let bytes: usize = computed.iter().flatten().map(|values| bytes_of(values) + size_of::<Entering>()).sum();
        found.charge.try_resize(found.charge.bytes() as usize + bytes)?;
        let pairs = group.rows.iter().copied().zip(computed);
        found.entering.extend(pairs.filter_map(|(row, values)| Some((row, values?))));
        Ok(())
    }

    /// Takes the values of rows for an index that is to get them, of all or of none.
    ///
    /// # Errors
    /// 23505 where one of them is taken, 53200.
    fn claim_values(&self, index: &Index, entering: &[Entering]) -> Result<(), Refused> {
        let (Some(taken), Some(key_parts)) = (&index.taken, &index.key_parts) else { return Ok(()) };
        let mut claims: Vec<Claim> = Vec::new();
        for (number, (row, computed)) in entering.iter().enumerate().filter(|(_, (row, _))| !self.rows.is_dead(*row)) {
            let row = self.row(*row);
            let values = key_parts.values(computed, |ordinal| row.get(ordinal));
            if !may_repeat(&index.definition, values.clone()) {
                claims.push(Claim::new(taken, taken.fingerprint(values), self.id, number));
            }
        }
        let Claimed::Clash { number, is_own, .. } = claim(&mut claims)? else { return Ok(()) };
        let (row, computed) = &entering[number];
        let row = self.row(*row);
        let values = key_parts.values(computed, |ordinal| row.get(ordinal));
        let shown = key_parts.shown(computed, |ordinal| row.get(ordinal));
        let error = repeated_error(&index.definition, &self.shape, shown);
        let (index, values) = (Arc::clone(&index.definition), values.map(|value| value.to_value()).collect());
        Err(Refused::Clash(Box::new(Clash { index, values, is_own, error })))
    }
}

#[cfg(test)]
mod tests;

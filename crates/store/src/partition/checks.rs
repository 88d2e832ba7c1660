//! What must be known of a row before it is written: the values of expressions, whether those of unique indexes are
//! free, and what CHECK constraints say of it.
//!
//! Called by `entry` and `commit` before they apply a write, by `apply` where a row ends, and where a table is altered. Tables without
//! such indexes and constraints pay for one look at an empty list.

use std::collections::HashSet;
use std::sync::Arc;

use ashlar_base::{Datum, Error, Result, TableId, Value};

use super::Partition;
use super::computed::bytes_of;
use super::indexes::Index;
use crate::key_parts::{Clash, may_repeat, taken_error};
use crate::memory::Charge;
use crate::mutation::Mutation;
use crate::shape::Shape;
use crate::snapshot::Snapshot;
use crate::taken::{Claim, Claimed, Fingerprint, Taken, claim};

/// Rows that are there are looked at so many at a time.
const CHECKED_TOGETHER: usize = 1024;

/// What the indexes with expressions or predicates compute of a row, in their order; `None`: the row is not in the index.
pub(crate) struct Prepared {
    values: Vec<Option<Box<[Value]>>>,
    _charge: Charge,
}

/// What writes will take and give back of the values of unique indexes.
#[derive(Default)]
pub(crate) struct Examined {
    pub(crate) claims: Vec<Claim>,
    pub(crate) released: HashSet<(TableId, Fingerprint)>,
}

/// Why a write, or an index, is refused.
pub(crate) enum Refused {
    /// Somebody has its values.
    Clash(Box<Clash>),
    /// Anything else.
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Partition {
    #[inline]
    pub(crate) fn has_indexes(&self) -> bool {
        !self.indexes.is_empty()
    }

    /// Whether a write has to be looked at before it is made.
    #[inline]
    pub(crate) fn has_checks(&self) -> bool {
        !self.indexes.is_empty()
            && self.indexes.iter().any(|index| index.taken.is_some() || index.definition.rows.is_some())
    }

    /// Whether the table's CHECK constraints let a row become what a change makes of it; a new row was looked at as a whole.
    ///
    /// # Errors
    /// 23514, and what computing finds.
    pub(crate) fn check_update(&self, mutation: &Mutation<'_>, old: Option<u32>) -> Result<()> {
        let (Mutation::Update { changes, .. }, Some(old)) = (mutation, old) else { return Ok(()) };
        let before = self.row(old);
        self.shape.check_changed(changes, |ordinal| before.get(ordinal))
    }

    /// Whether the CHECK constraints that a table gets with a shape let its rows be there; those that a snapshot sees are known to be fine.
    ///
    /// # Errors
    /// As [`Shape::check_stored`].
    pub(crate) fn check_stored(&self, shape: &Shape, checked: Option<&Snapshot>) -> Result<()> {
        let is_known = |row: u32| checked.is_some_and(|checked| self.is_seen_at(row, checked.timestamp()));
        let mut piece: Vec<u32> = Vec::with_capacity(CHECKED_TOGETHER);
        let check = |piece: &[u32]| {
            shape.check_stored(&self.shape, 0..piece.len(), |at, ordinal| self.row_as(shape, piece[at]).get(ordinal))
        };
        for row in self.rows.living().filter(|&row| !self.is_over(row) && !is_known(row)) {
            piece.push(row);
            if piece.len() == CHECKED_TOGETHER {
                check(&piece)?;
                piece.clear();
            }
        }
        check(&piece)
    }

    /// Takes the values that a write of one key will have, and computes what its row needs. No row is there of the key, not
    /// even one that is over, unless it is `old`.
    ///
    /// # Errors
    /// 23505 where a value is taken, 53200, and what expressions find; nothing is taken then.
    pub(crate) fn check_write(&mut self, mutation: &Mutation<'_>, old: Option<u32>) -> Result<Vec<Claim>, Refused> {
        self.prepared = None;
        let mut examined = Examined::default();
        let prepared = match mutation {
            // The key is found to be there before anything else.
            Mutation::Insert { .. } if old.is_some() => return Ok(Vec::new()),
            Mutation::Delete { .. } => return Ok(Vec::new()),
            Mutation::Insert { row } | Mutation::Upsert { row } => {
                self.examine_new(old, &|ordinal| row[ordinal].clone(), 0, &mut examined)?
            }
            Mutation::Update { changes, .. } => {
                let Some(old) = old else { return Ok(Vec::new()) };
                let before = self.row(old);
                let value = |ordinal| {
                    let changed = changes.iter().rfind(|(changed, _)| *changed == ordinal);
                    changed.map_or_else(|| before.get(ordinal), |(_, value)| value.clone())
                };
                self.examine_new(Some(old), &value, 0, &mut examined)?
            }
            Mutation::Living { .. } => return Err(Error::internal("a write is looked at without its expiry").into()),
        };
        if let Claimed::Clash { index, .. } = claim(&mut examined.claims)? {
            let index = self.indexes.iter().find(|known| known.definition.id == index);
            let index = index.ok_or_else(|| Error::internal("a value is one of an index"))?;
            let old = old.map(|old| self.row(old));
            return Err(self.clash(index, &prepared, &|ordinal| match mutation {
                Mutation::Insert { row } | Mutation::Upsert { row } => row[ordinal].clone(),
                Mutation::Update { changes, .. } => {
                    let changed = changes.iter().rfind(|(changed, _)| *changed == ordinal);
                    match (changed, &old) {
                        (Some((_, value)), _) => value.clone(),
                        (None, Some(old)) => old.get(ordinal),
                        (None, None) => Datum::Null,
                    }
                }
                Mutation::Delete { .. } | Mutation::Living { .. } => Datum::Null,
            }));
        }
        self.prepared = Some(Box::new(prepared));
        Ok(examined.claims)
    }

    /// Computes what the indexes need of a row that will be written, and notes which values it will take, and which the
    /// row of its key gives back. `number` is what the claims are known by.
    ///
    /// # Errors
    /// What expressions find, 53200.
    #[expect(
        clippy::redundant_closure,
        reason = "the closure's values live as long as what is computed, which the function's do not say"
    )]
    pub(crate) fn examine_new<'d>(
        &self,
        old: Option<u32>,
        value: &impl Fn(usize) -> Datum<'d>,
        number: usize,
        examined: &mut Examined,
    ) -> Result<Prepared> {
        let prepared = self.prepare(value)?;
        let mut computed = prepared.values.iter();
        for index in &self.indexes {
            let nothing: &[Value] = &[];
            let values = match &index.definition.rows {
                None => Some(nothing),
                Some(_) => computed.next().and_then(|values| values.as_deref()),
            };
            let (Some(taken), Some(key_parts)) = (&index.taken, &index.key_parts) else { continue };
            let wanted = values.and_then(|computed| {
                let values = key_parts.values(computed, |ordinal| value(ordinal));
                (!may_repeat(&index.definition, values.clone())).then(|| taken.fingerprint(values))
            });
            let given = old.and_then(|old| self.taken_by(index, taken, old));
            if wanted == given {
                continue;
            }
            examined.claims.extend(wanted.map(|wanted| Claim::new(taken, wanted, self.id, number)));
            examined.released.extend(given.map(|given| (index.definition.id, given)));
        }
        Ok(prepared)
    }

    /// Notes which values a row gives back that will end.
    pub(crate) fn examine_old(&self, old: u32, examined: &mut Examined) {
        for index in &self.indexes {
            let Some(taken) = &index.taken else { continue };
            let given = self.taken_by(index, taken, old);
            examined.released.extend(given.map(|given| (index.definition.id, given)));
        }
    }

    /// Computes what the indexes need of a row.
    fn prepare<'d>(&self, value: &impl Fn(usize) -> Datum<'d>) -> Result<Prepared> {
        let mut values = Vec::new();
        for index in self.indexes.iter().filter(|index| index.definition.rows.is_some()) {
            values.push(match &index.key_parts {
                Some(key_parts) => key_parts.compute(&index.definition, value)?,
                None => None,
            });
        }
        let bytes = values.iter().flatten().map(|values| bytes_of(values)).sum();
        Ok(Prepared { values, _charge: Charge::new(self.rows.account(), bytes)? })
    }

    /// What the indexes need of the next row that is written.
    pub(crate) fn set_prepared(&mut self, prepared: Option<Prepared>) {
        self.prepared = prepared.map(Box::new);
    }

    /// Indexes with expressions get to know a row, before it is added to them.
    pub(super) fn add_computed(&mut self, row: u32) {
        let Some(prepared) = self.prepared.take() else { return };
        let entry = self.rows.entry_of(row);
        let computing = self.indexes.iter_mut().filter_map(|index| index.computed.as_mut());
        for (computed, values) in computing.zip(prepared.values) {
            if let Some(values) = values {
                computed.add(entry, values);
            }
        }
    }

    /// A row ends: its values are free, those aside that the row in its place has.
    pub(super) fn release_values(&self, old: u32, new: Option<u32>) {
        for index in &self.indexes {
            let Some(taken) = &index.taken else { continue };
            let Some(value) = self.taken_by(index, taken, old) else { continue };
            if new.and_then(|new| self.taken_by(index, taken, new)) != Some(value) {
                taken.release(value);
            }
        }
    }

    /// The rows that are there are about to be forgotten all at once.
    pub(super) fn release_all(&self) {
        if self.indexes.iter().any(|index| index.taken.is_some()) {
            let live = self.rows.indexed().filter(|&row| !self.rows.is_dead(row));
            live.for_each(|row| self.release_values(row, None));
        }
    }

    /// The value of a unique index that a row has for itself. One that the index is still to get has none.
    fn taken_by(&self, index: &Index, taken: &Taken, row: u32) -> Option<Fingerprint> {
        let entry = self.rows.entry_of(row);
        if !index.has(entry) || index.awaits(&self.rows, row) {
            return None;
        }
        let values = index.reader(&self.shape, &self.rows)?.values(entry);
        (!may_repeat(&index.definition, values.clone())).then(|| taken.fingerprint(values))
    }

    #[expect(
        clippy::redundant_closure,
        reason = "the closure's values live as long as what is computed, which the function's do not say"
    )]
    fn clash<'d>(&self, index: &Index, prepared: &Prepared, value: &impl Fn(usize) -> Datum<'d>) -> Refused {
        let before = self.indexes.iter().take_while(|other| other.definition.id != index.definition.id);
        let computed = before.filter(|other| other.definition.rows.is_some()).count();
        let computed = match &index.definition.rows {
            Some(_) => prepared.values.get(computed).and_then(|values| values.as_deref()).unwrap_or_default(),
            None => &[],
        };
        let Some(key_parts) = &index.key_parts else {
            return Error::internal("an index without its columns has no values").into();
        };
        let values = key_parts.values(computed, |ordinal| value(ordinal));
        let shown = key_parts.shown(computed, |ordinal| value(ordinal));
        let error = taken_error(&index.definition, &self.shape, shown);
        let (index, values) = (Arc::clone(&index.definition), values.map(|value| value.to_value()).collect());
        Refused::Clash(Box::new(Clash { index, values, is_own: false, error }))
    }

    #[cfg(test)]
    pub(super) fn check_computed(&self, index: &Index) {
        let (Some(key_parts), Some(computed)) = (&index.key_parts, &index.computed) else { return };
        for row in self.rows.indexed().filter(|&row| !index.awaits(&self.rows, row)) {
            let stored = self.row(row);
            let expected = key_parts.compute(&index.definition, |ordinal| stored.get(ordinal)).unwrap();
            assert_eq!(computed.values(self.rows.entry_of(row)), expected.as_deref(), "what is computed stays so");
        }
    }

    /// The values of a unique index that rows of this partition have for themselves.
    #[cfg(test)]
    pub(crate) fn taken_here(&self, id: TableId) -> Vec<Fingerprint> {
        let Some(index) = self.indexes.iter().find(|index| index.definition.id == id) else { return Vec::new() };
        let Some(taken) = &index.taken else { return Vec::new() };
        let live = self.rows.indexed().filter(|&row| !self.rows.is_dead(row));
        live.filter_map(|row| self.taken_by(index, taken, row)).collect()
    }
}

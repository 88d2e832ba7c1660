//! One key under its partition's lock: the key path, and whatever reads a row in order to change it.

use ashlar_base::{Datum, Error, Result, TableSchema};

use crate::key;
use crate::mutation::{Applied, Mutation};
use crate::partition::{Located, Partition, Stamp};
use crate::region::Region;
use crate::row::RowRef;

/// See the module. All writes of one entry have one timestamp: others see all of them or none.
pub struct Entry<'a> {
    region: &'a Region,
    partition: &'a mut Option<Box<Partition>>,
    key: &'a [Datum<'a>],
    located: Located,
    /// A row can have this key.
    possible: bool,
    stamp: Option<Stamp>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(
        region: &'a Region,
        partition: &'a mut Option<Box<Partition>>,
        key: &'a [Datum<'a>],
        hash: u64,
        possible: bool,
    ) -> Self {
        let located = match partition.as_deref() {
            Some(partition) => partition.locate(hash, key),
            None => Located { hash, row: None },
        };
        Self { region, partition, key, located, possible, stamp: None }
    }

    /// The row, if there is one.
    pub fn row(&self) -> Option<RowRef<'_>> {
        let partition = self.partition.as_deref()?;
        self.located.row.map(|row| partition.row(row))
    }

    /// The schema that rows and changes are in the order of.
    pub fn schema(&self) -> std::sync::Arc<TableSchema> {
        self.region.schema()
    }

    /// Applies one write of this key. Nothing is changed when an error comes back.
    pub fn apply(&mut self, mutation: Mutation<'_>) -> Result<Applied> {
        if self.region.is_dropped() {
            return Err(self.region.gone());
        }
        if self.partition.is_none() && matches!(mutation, Mutation::Update { .. } | Mutation::Delete { .. }) {
            return Ok(Applied::Nothing);
        }
        if !self.possible {
            // The row's check names the column that is wrong.
            if let Mutation::Insert { row } | Mutation::Upsert { row } = mutation {
                self.region.check_row(row)?;
            }
            return match mutation {
                Mutation::Update { .. } | Mutation::Delete { .. } => Ok(Applied::Nothing),
                _ => Err(Error::internal("a write to a key that no row can have")),
            };
        }
        let partition = self.region.partition_mut(self.partition);
        check(partition, self.key, &mutation)?;
        let stamp = *self.stamp.get_or_insert_with(|| self.region.common().stamp());
        let change = partition.apply(&mutation, self.located, stamp)?;
        if change.applied != Applied::Nothing {
            self.located.row = change.row;
        }
        Ok(change.applied)
    }
}

/// The write is of this key, and what it stores may be stored.
fn check(partition: &Partition, key: &[Datum<'_>], mutation: &Mutation<'_>) -> Result<()> {
    let shape = partition.shape();
    let same = |other: &[Datum<'_>]| other.len() == key.len() && other.iter().zip(key).all(|(a, b)| key::equal(a, b));
    let right_key = match mutation {
        Mutation::Insert { row } | Mutation::Upsert { row } => {
            shape.check_row(row)?;
            shape.key_of(row).zip(key).all(|(a, b)| key::equal(a, b))
        }
        Mutation::Update { key: other, changes } => {
            for (ordinal, datum) in *changes {
                shape.check_column(*ordinal, datum)?;
                if shape.schema.key.contains(ordinal) {
                    return Err(Error::internal("an update does not change the key"));
                }
            }
            same(other)
        }
        Mutation::Delete { key: other } => same(other),
    };
    if right_key { Ok(()) } else { Err(partition.wrong_key()) }
}

#[cfg(test)]
mod tests;

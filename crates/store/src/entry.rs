//! One key under its partition's lock: the key path, and whatever reads a row in order to change it.

use ashlar_base::{Datum, Error, PartitionId, Result, TableSchema};

use crate::key;
use crate::key_transaction::PendingEntry;
use crate::mutation::{Applied, Mutation};
use crate::partition::{Located, Partition, Stamp};
use crate::region::Region;
use crate::row::RowRef;
use crate::shape::Shape;
use crate::taken::unclaim;

/// See the module. All writes of one entry have one timestamp: others see all of them or none.
pub struct Entry<'a>(Place<'a>);

/// Where the writes of an entry go.
enum Place<'a> {
    /// To the partition, at once.
    Stored(StoredEntry<'a>),
    /// To a transaction.
    Pending(PendingEntry<'a>),
}

struct StoredEntry<'a> {
    region: &'a Region,
    id: PartitionId,
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
        (id, partition): (PartitionId, &'a mut Option<Box<Partition>>),
        key: &'a [Datum<'a>],
        hash: u64,
        possible: bool,
    ) -> Self {
        let located = match partition.as_deref() {
            Some(partition) => partition.locate(hash, key),
            None => Located { hash, row: None },
        };
        Self(Place::Stored(StoredEntry { region, id, partition, key, located, possible, stamp: None }))
    }

    pub(crate) fn pending(entry: PendingEntry<'a>) -> Self {
        Self(Place::Pending(entry))
    }

    /// The row, if there is one.
    #[inline]
    pub fn row(&self) -> Option<RowRef<'_>> {
        match &self.0 {
            Place::Stored(entry) => {
                let partition = entry.partition.as_deref()?;
                entry.located.row.map(|row| partition.row(row))
            }
            Place::Pending(entry) => entry.row(),
        }
    }

    /// The schema that rows and changes are in the order of.
    pub fn schema(&self) -> std::sync::Arc<TableSchema> {
        match &self.0 {
            Place::Stored(entry) => entry.region.schema(),
            Place::Pending(entry) => entry.schema(),
        }
    }

    /// Applies one write of this key. Nothing is changed when an error comes back.
    #[inline]
    pub fn apply(&mut self, mutation: Mutation<'_>) -> Result<Applied> {
        match &mut self.0 {
            Place::Stored(entry) => entry.apply(mutation),
            Place::Pending(entry) => entry.apply(mutation),
        }
    }
}

impl StoredEntry<'_> {
    fn apply(&mut self, mutation: Mutation<'_>) -> Result<Applied> {
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
        let partition = self.region.partition_mut(self.id, self.partition);
        check(partition.shape(), self.key, &mutation)?;
        // Before the timestamp: whoever gave back a value that is taken here has an earlier one.
        let claims = partition.check_write(&mutation, self.located.row)?;
        let stamp = *self.stamp.get_or_insert_with(|| self.region.common().stamp());
        let change = partition.apply(&mutation, self.located, stamp).inspect_err(|_| unclaim(&claims))?;
        if change.applied != Applied::Nothing {
            self.located.row = change.row;
        }
        Ok(change.applied)
    }
}

/// The write is of this key, and what it stores may be stored.
pub(crate) fn check(shape: &Shape, key: &[Datum<'_>], mutation: &Mutation<'_>) -> Result<()> {
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
    if right_key { Ok(()) } else { Err(shape.wrong_key()) }
}

#[cfg(test)]
mod tests;

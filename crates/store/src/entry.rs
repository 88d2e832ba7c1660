//! One key under its partition's lock: the key path, and whatever reads a row in order to change it.

use ashlar_base::{Datum, Error, PartitionId, Result, TableSchema};

use crate::key;
use crate::key_transaction::PendingEntry;
use crate::locks::{Forbidden, LockRequest, Strength, stopped};
use crate::mutation::{Applied, Mutation};
use crate::partition::{Located, Partition, Stamp};
use crate::region::Region;
use crate::row::RowRef;
use crate::shape::Shape;

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
    obstacle: Obstacle,
    /// A write was refused because of a lock that forbids it.
    stopped: Option<Strength>,
    stamp: Option<Stamp>,
}

/// What a write of an entry must look at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Nothing: nearly always.
    None,
    /// Somebody may watch the key.
    Watched,
    /// Somebody else has locked the row.
    Locked(Forbidden),
    /// No row can have this key.
    NoSuchKey,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(
        region: &'a Region,
        (id, partition): (PartitionId, &'a mut Option<Box<Partition>>),
        key: &'a [Datum<'a>],
        hash: u64,
        obstacle: Obstacle,
    ) -> Self {
        let located = match partition.as_deref() {
            Some(partition) => {
                let located = partition.locate(hash, key);
                partition.touch(located.row);
                located
            }
            None => Located { hash, row: None },
        };
        Self(Place::Stored(StoredEntry { region, id, partition, key, located, obstacle, stopped: None, stamp: None }))
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

    /// Whether the row may be deleted: what is done before a DELETE must not be done twice.
    ///
    /// # Errors
    /// 55P03 where somebody else has locked it.
    pub fn check_delete(&mut self) -> Result<()> {
        match &mut self.0 {
            Place::Stored(entry) if entry.obstacle != Obstacle::None => entry.check_lock(true),
            Place::Stored(_) | Place::Pending(_) => Ok(()),
        }
    }

    /// The lock because of which the last write was refused.
    pub(crate) fn stopped_by(&self) -> Option<LockRequest> {
        match &self.0 {
            Place::Stored(entry) => {
                let strength = entry.stopped?;
                Some(entry.region.attention().request(entry.located.hash, strength))
            }
            Place::Pending(_) => None,
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
        let write = mutation.write();
        if self.partition.is_none() && matches!(write, Mutation::Update { .. } | Mutation::Delete { .. }) {
            return Ok(Applied::Nothing);
        }
        if self.obstacle != Obstacle::None {
            // A key that is taken is refused at once, unless somebody may be changing its row.
            let is_taken = matches!(write, Mutation::Insert { .. })
                && self.located.row.is_some()
                && self.obstacle != Obstacle::Locked(Forbidden::Change);
            if !is_taken {
                self.check_lock(matches!(write, Mutation::Delete { .. }))?;
            }
        }
        if self.obstacle == Obstacle::NoSuchKey {
            // The row's check names the column that is wrong.
            if let Mutation::Insert { row } | Mutation::Upsert { row } = write {
                self.region.check_row(row)?;
            }
            return match write {
                Mutation::Update { .. } | Mutation::Delete { .. } => Ok(Applied::Nothing),
                _ => Err(Error::internal("a write to a key that no row can have")),
            };
        }
        let partition = self.region.partition_mut(self.id, self.partition);
        check(partition.shape(), self.key, write)?;
        partition.check_life(&mutation, self.located)?;
        let stamp = *self.stamp.get_or_insert_with(|| self.region.common().stamp());
        let change = partition.apply(&mutation, self.located, stamp)?;
        if change.applied != Applied::Nothing {
            self.located.row = change.row;
            if self.obstacle != Obstacle::None {
                self.region.attention().touch(self.located.hash);
            }
        }
        Ok(change.applied)
    }

    #[cold]
    fn check_lock(&mut self, deletes: bool) -> Result<()> {
        match self.obstacle {
            Obstacle::Locked(forbidden) if forbidden.covers(deletes) => {
                self.stopped = Some(if deletes { Strength::Update } else { Strength::NoKeyUpdate });
                Err(stopped())
            }
            _ => Ok(()),
        }
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
        Mutation::Living { write, .. } => return check(shape, key, write),
    };
    if right_key { Ok(()) } else { Err(shape.wrong_key()) }
}

#[cfg(test)]
mod tests;

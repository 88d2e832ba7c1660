//! One key under its partition's lock: the key path, and whatever reads a row in order to change it.

use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, PartitionId, Result, TableSchema};

use crate::key;
use crate::key_parts::Clash;
use crate::key_transaction::PendingEntry;
use crate::locks::{Forbidden, LockRequest, Strength, stopped};
use crate::mutation::{Applied, Mutation};
use crate::partition::{Change, Located, Refused, Stamp};
use crate::region::{Guard, Region};
use crate::row::RowRef;
use crate::shape::Shape;
use crate::taken::unclaim;

/// See the module. All writes of one entry have one timestamp: others see all of them or none.
pub struct Entry<'a>(Place<'a>);

/// The target of an entry's writes.
enum Place<'a> {
    /// The partition, at once.
    Stored(StoredEntry<'a>),
    /// The buffered writes of a transaction.
    Pending(PendingEntry<'a>),
    /// None: no row can have the key.
    Nowhere(&'a Region),
}

struct StoredEntry<'a> {
    region: &'a Region,
    id: PartitionId,
    partition: Guard<'a>,
    key: &'a [Datum<'a>],
    located: Located,
    /// The owner whose locks do not stop the entry; 0 is nobody.
    owner: u64,
    obstacle: Obstacle,
    /// The strength of lock that the last write needed and was refused.
    stopped: Option<Strength>,
    stamp: Option<Stamp>,
}

/// What stands in the way of a write to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Nothing: the usual case.
    None,
    /// Another owner has locked the row.
    Locked(Forbidden),
}

impl<'a> Entry<'a> {
    pub(crate) fn new(
        region: &'a Region,
        (id, partition): (PartitionId, Guard<'a>),
        key: &'a [Datum<'a>],
        hash: u64,
        owner: u64,
    ) -> Self {
        let obstacle = region.obstacle(hash, owner);
        let located = match partition.as_deref() {
            Some(partition) => {
                let located = partition.locate(hash, key);
                partition.touch(located.row);
                located
            }
            None => Located { hash, row: None },
        };
        Self(Place::Stored(StoredEntry {
            region,
            id,
            partition,
            key,
            located,
            owner,
            obstacle,
            stopped: None,
            stamp: None,
        }))
    }

    /// An entry of a key that no row can have.
    pub(crate) fn nowhere(region: &'a Region) -> Self {
        Self(Place::Nowhere(region))
    }

    pub(crate) fn pending(entry: PendingEntry<'a>) -> Self {
        Self(Place::Pending(entry))
    }

    /// The row of the key, if there is one.
    #[inline]
    pub fn row(&self) -> Option<RowRef<'_>> {
        match &self.0 {
            Place::Stored(entry) => entry.row(),
            Place::Pending(entry) => entry.row(),
            Place::Nowhere(_) => None,
        }
    }

    /// Checks that the row may be deleted, before work that must be done once for a DELETE.
    ///
    /// # Errors
    /// 55P03 if another owner has locked the row.
    pub fn check_delete(&mut self) -> Result<()> {
        match &mut self.0 {
            Place::Stored(entry) if entry.obstacle != Obstacle::None => entry.check_lock(true),
            Place::Stored(_) | Place::Pending(_) | Place::Nowhere(_) => Ok(()),
        }
    }

    /// The lock that the last write was refused for.
    pub(crate) fn stopped_by(&self) -> Option<LockRequest> {
        match &self.0 {
            Place::Stored(entry) => {
                let strength = entry.stopped?;
                Some(entry.region.attention().request(entry.located.hash, strength))
            }
            Place::Pending(_) | Place::Nowhere(_) => None,
        }
    }

    /// The schema that gives the order of values in rows and changes.
    pub fn schema(&self) -> Arc<TableSchema> {
        match &self.0 {
            Place::Stored(entry) => entry.region.schema(),
            Place::Pending(entry) => entry.schema(),
            Place::Nowhere(region) => region.schema(),
        }
    }

    /// Applies one write of this key. An error leaves everything as it was.
    #[inline]
    pub fn apply(&mut self, mutation: Mutation<'_>) -> Result<Applied> {
        match &mut self.0 {
            Place::Stored(entry) => entry.apply(mutation),
            Place::Pending(entry) => entry.apply(mutation),
            Place::Nowhere(region) => apply_nowhere(region, mutation.write()),
        }
    }
}

impl StoredEntry<'_> {
    fn row(&self) -> Option<RowRef<'_>> {
        let partition = self.partition.as_deref()?;
        self.located.row.map(|row| partition.row(row))
    }

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
        let partition = self.region.partition_mut(self.id, &mut self.partition);
        check(partition.shape(), self.key, write)?;
        if partition.shape().has_conditions() {
            partition.check_update(write, self.located.row)?;
        }
        partition.check_life(&mutation, self.located)?;
        if partition.has_checks() {
            return self.apply_checked(&mutation);
        }
        let stamp = *self.stamp.get_or_insert_with(|| self.region.common().stamp());
        let change = partition.apply(&mutation, self.located, stamp)?;
        Ok(self.note(&change))
    }

    /// Makes a change known to this entry.
    #[inline]
    fn note(&mut self, change: &Change) -> Applied {
        if change.applied != Applied::Nothing {
            self.located.row = change.row;
        }
        change.applied
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

    /// The same for a table with indexes that are unique or that compute expressions.
    fn apply_checked(&mut self, mutation: &Mutation<'_>) -> Result<Applied> {
        let write = mutation.write();
        let claims = loop {
            let partition = self.region.partition_mut(self.id, &mut self.partition);
            if self.located.row.is_none()
                && partition.has_life()
                && matches!(write, Mutation::Insert { .. } | Mutation::Upsert { .. })
            {
                // What the row of the key that is over has is free.
                let stamp = self.stamp.unwrap_or_else(|| self.region.common().stamp());
                partition.bury_key(self.key, self.located.hash, stamp);
            }
            match partition.check_write(write, self.located.row) {
                Ok(claims) => break claims,
                Err(Refused::Error(error)) => return Err(error),
                Err(Refused::Clash(clash)) => {
                    if !self.bury_holder(&clash, matches!(write, Mutation::Insert { .. }))? {
                        return Err(clash.error);
                    }
                }
            }
        };
        // After the values: whoever gave back one that is taken here has an earlier timestamp.
        let stamp = *self.stamp.get_or_insert_with(|| self.region.common().stamp());
        let partition = self.region.partition_mut(self.id, &mut self.partition);
        let change = partition.apply(mutation, self.located, stamp).inspect_err(|_| unclaim(&claims))?;
        Ok(self.note(&change))
    }

    /// Removes the expired row that still has the unique values of this write, and returns whether there was one. That row may be in
    /// another partition. Because no thread that holds one partition's lock may wait for another, this entry's lock is released
    /// meanwhile.
    ///
    /// # Errors
    /// 40001 if this key's row or the table has changed by then; 55P03 if another owner has locked the expired row.
    fn bury_holder(&mut self, clash: &Clash, is_insert: bool) -> Result<bool> {
        let region = self.region;
        if !region.may_lose(clash, self.id) {
            return Ok(false);
        }
        let conflict = || {
            let message = "could not serialize access due to concurrent update";
            Error::new(ErrorCode::SerializationFailure, message).with_table(&region.schema().name)
        };
        if self.stamp.is_some() {
            // Others must not see what was written already without the rest.
            return Err(conflict());
        }
        let shape = self.partition.as_deref().map(|partition| Arc::clone(partition.shape()));
        let before = self.row().map(|row| (row.to_values(), row.expires_at()));
        let has_buried = self.partition.unlocked(|| region.bury_holder(clash));
        if region.is_dropped() {
            return Err(region.gone());
        }
        let (key, hash) = (self.key, self.located.hash);
        let partition = region.partition_mut(self.id, &mut self.partition);
        self.located = partition.locate(hash, key);
        let is_same_shape = shape.is_some_and(|shape| Arc::ptr_eq(&shape, partition.shape()));
        let now = self.row().map(|row| (row.to_values(), row.expires_at()));
        // An insert says itself what is wrong where the key has got a row.
        let is_same_row = now == before || is_insert && before.is_none();
        if !is_same_shape || !is_same_row {
            return Err(conflict());
        }
        // Somebody may have locked the row by now. Rows are not deleted here.
        self.obstacle = region.obstacle(hash, self.owner);
        self.check_lock(false).map(|()| has_buried)
    }
}

/// Answers a write to a key that no row can have.
fn apply_nowhere(region: &Region, write: &Mutation<'_>) -> Result<Applied> {
    if region.is_dropped() {
        return Err(region.gone());
    }
    match write {
        Mutation::Update { .. } | Mutation::Delete { .. } => Ok(Applied::Nothing),
        Mutation::Insert { row } | Mutation::Upsert { row } => {
            // The row's check names the column that is wrong.
            region.check_row(row)?;
            Err(Error::internal("a write to a key that no row can have"))
        }
        Mutation::Living { write, .. } => apply_nowhere(region, write),
    }
}

/// Checks that a write is of this key and that the values it stores are allowed.
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

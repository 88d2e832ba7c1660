//! The secondary indexes of a region: how one is created and removed.
//!
//! Called by DDL. The entries of an index are in the partitions: see `partition::indexes`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use ashlar_base::{IndexDef, PartitionId, Result, TableId};

use super::{Life, Region};
use crate::partition::Refused;
use crate::taken::Taken;

/// Rows that an index gets in one hold of a partition's lock.
const ROWS_PER_LOCK: usize = 512;

impl Region {
    /// The secondary indexes that are on columns and have every row: what finds rows whatever a query asks.
    pub fn indexes(&self) -> Arc<[Arc<IndexDef>]> {
        let indexes = self.every_index();
        if indexes.iter().all(|index| index.is_plain()) {
            return indexes;
        }
        indexes.iter().filter(|index| index.is_plain()).cloned().collect()
    }

    /// The secondary indexes, those with expressions or predicates included.
    pub fn every_index(&self) -> Arc<[Arc<IndexDef>]> {
        Arc::clone(&self.life.indexes.read())
    }

    /// The secondary indexes, with expressions, with predicates or without, whose columns are all there in the shape that
    /// this region has.
    pub fn standing_indexes(&self) -> Vec<Arc<IndexDef>> {
        let indexes = self.every_index();
        if indexes.is_empty() {
            return Vec::new();
        }
        let schema = self.schema();
        indexes.iter().filter(|index| schema.has_columns_of(index)).cloned().collect()
    }

    /// Has one more index, which [`Self::build_index`] then makes in the partitions that are there.
    pub fn add_index(&self, definition: &Arc<IndexDef>) {
        if definition.unique.is_some() {
            let taken = Taken::new(definition.id, &self.account, &self.common.hasher);
            self.life.taken.write().insert(definition.id, taken);
        }
        let mut indexes = self.life.indexes.write();
        let more = indexes.iter().cloned().chain([Arc::clone(definition)]).collect();
        self.life.set_indexes(&mut indexes, more);
    }

    /// Makes an index in every partition: see [`Self::build_index_step`].
    ///
    /// # Errors
    /// As there.
    pub fn build_index(&self, definition: &Arc<IndexDef>) -> Result<()> {
        for partition in (0..self.partition_count()).map(PartitionId) {
            while !self.build_index_step(partition, definition)? {}
        }
        self.complete_index(definition);
        Ok(())
    }

    /// Does the next step of making an index in a partition that is there, with the partition locked for no longer than some
    /// hundred rows take: true when it is made. Others write meanwhile, and queries use the index where it is made. One that was
    /// dropped meanwhile is not made, and one that is not made to its end has to be dropped.
    ///
    /// # Errors
    /// 53200 over the memory bound, 42P01 where the table was dropped, 23505 where values that are to be unique are not,
    /// and what expressions find.
    pub fn build_index_step(&self, partition: PartitionId, definition: &Arc<IndexDef>) -> Result<bool> {
        self.build_index_of(partition, definition, ROWS_PER_LOCK)
    }

    /// The same with so many rows.
    pub(crate) fn build_index_of(
        &self,
        partition: PartitionId,
        definition: &Arc<IndexDef>,
        rows_max: usize,
    ) -> Result<bool> {
        let clash = {
            let mut guard = self.lock(partition);
            if self.is_dropped() {
                return Err(self.gone());
            }
            // It may have got another name meanwhile.
            let wanted = self.every_index().iter().find(|index| index.id == definition.id).cloned();
            let (Some(stored), Some(wanted)) = (guard.as_mut(), wanted) else { return Ok(true) };
            let taken = self.taken(definition.id);
            let built = stored.build_index(&wanted, taken, || self.common.stamp(), rows_max);
            // Whoever waits for the lock goes first.
            guard.unlock_fair();
            match built {
                Ok(is_done) => return Ok(is_done),
                Err(Refused::Error(error)) => return Err(error),
                Err(Refused::Clash(clash)) => clash,
            }
        };
        // A row whose time has come is in nobody's way, in any partition.
        if self.bury_holder(&clash) { Ok(false) } else { Err(clash.error) }
    }

    /// Gives an index another name; one that was dropped meanwhile has none.
    pub fn rename_index(&self, id: TableId, name: &str) {
        let renamed = {
            let mut indexes = self.life.indexes.write();
            let Some(known) = indexes.iter().find(|index| index.id == id) else { return };
            let renamed = Arc::new(IndexDef { name: name.to_owned(), ..IndexDef::clone(known) });
            let all = indexes.iter().map(|index| Arc::clone(if index.id == id { &renamed } else { index })).collect();
            self.life.set_indexes(&mut indexes, all);
            renamed
        };
        // A partition that is made meanwhile has the new name already.
        for place in self.places.iter() {
            if let Some(partition) = place.lock().as_mut() {
                partition.rename_index(&renamed);
            }
        }
        let heir = self.life.heir.lock().as_ref().and_then(Weak::upgrade);
        if let Some(heir) = heir {
            heir.rename_index(id, name);
        }
    }

    /// Forgets an index.
    pub fn drop_index(&self, definition: &IndexDef) {
        {
            // Both at once: a partition that is made meanwhile has the index, or nobody asks the directory any more.
            let mut directories = self.directories().write();
            let mut indexes = self.life.indexes.write();
            let left = indexes.iter().filter(|index| index.id != definition.id).cloned().collect();
            self.life.set_indexes(&mut indexes, left);
            directories.remove(&definition.id);
        }
        for place in self.places.iter() {
            if let Some(partition) = place.lock().as_mut() {
                partition.drop_index(definition);
            }
        }
        self.life.taken.write().remove(&definition.id);
        // Whoever has become the heir before one of the locks above was had has the index too; who comes later sees that it is gone.
        let heir = self.life.heir.lock().as_ref().and_then(Weak::upgrade);
        if let Some(heir) = heir {
            heir.drop_index(definition);
        }
    }
}

impl Life {
    pub(super) fn set_indexes(&self, indexes: &mut Arc<[Arc<IndexDef>]>, new: Arc<[Arc<IndexDef>]>) {
        let has_checks = new.iter().any(|index| index.unique.is_some() || !index.is_plain());
        self.has_checks.store(has_checks, Ordering::Release);
        *indexes = new;
    }
}

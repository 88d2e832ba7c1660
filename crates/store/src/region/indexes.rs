//! The secondary indexes of a region: which there are, and how one is made and forgotten.
//!
//! Called by DDL. What an index holds is in the partitions: see `partition::indexes`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_base::{IndexDef, PartitionId, Result};

use super::{Life, Region};
use crate::partition::Refused;
use crate::taken::Taken;

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

    /// Makes an index in every partition: see [`Self::build_index_in`].
    ///
    /// # Errors
    /// As there.
    pub fn build_index(&self, definition: &Arc<IndexDef>) -> Result<()> {
        (0..self.partition_count())
            .map(PartitionId)
            .try_for_each(|partition| self.build_index_in(partition, definition))?;
        self.complete_index(definition);
        Ok(())
    }

    /// Makes an index in a partition that is there: writes to the others go on meanwhile, and queries use the index where
    /// it is. One that was dropped meanwhile is not made.
    ///
    /// # Errors
    /// 53200 over the memory bound, 42P01 where the table was dropped, 23505 where values that are to be unique are not,
    /// and what expressions find.
    pub fn build_index_in(&self, partition: PartitionId, definition: &Arc<IndexDef>) -> Result<()> {
        loop {
            let clash = {
                let mut guard = self.lock(partition);
                if self.is_dropped() {
                    return Err(self.gone());
                }
                let is_wanted = self.every_index().iter().any(|index| index.id == definition.id);
                let Some(partition) = guard.as_mut().filter(|_| is_wanted) else { return Ok(()) };
                match partition.build_index(definition, self.taken(definition.id)) {
                    Ok(()) => return Ok(()),
                    Err(Refused::Error(error)) => return Err(error),
                    // Rows whose time has come are in nobody's way: here, and in another partition.
                    Err(Refused::Clash(_)) if partition.bury_all(self.common.stamp())? > 0 => continue,
                    Err(Refused::Clash(clash)) => clash,
                }
            };
            if !self.bury_holder(&clash) {
                return Err(clash.error);
            }
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
    }
}

impl Life {
    pub(super) fn set_indexes(&self, indexes: &mut Arc<[Arc<IndexDef>]>, new: Arc<[Arc<IndexDef>]>) {
        let has_checks = new.iter().any(|index| index.unique.is_some() || !index.is_plain());
        self.has_checks.store(has_checks, Ordering::Release);
        *indexes = new;
    }
}

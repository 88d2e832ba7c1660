//! The statistics of a region, as ANALYZE has gathered them, and how many rows have come and gone meanwhile.

use std::sync::Arc;

use super::Region;
use crate::partition::Partition;
use crate::statistics::TableStatistics;
use crate::sync::atomic::Ordering;

impl Region {
    /// What ANALYZE found, if it ever ran. Columns that are gone may be among those it knows.
    pub fn statistics(&self) -> Option<Arc<TableStatistics>> {
        self.life.statistics.read().clone()
    }

    /// Keeps what ANALYZE found.
    pub fn set_statistics(&self, statistics: TableStatistics) {
        *self.life.statistics.write() = Some(Arc::new(statistics));
    }

    /// How many rows have come or gone since the region was made: one for each that is added, removed, ended by itself or replaced
    /// by another one. A row that is overwritten in place does not count. One partition is looked at after the other, while
    /// others write.
    pub fn turnover(&self) -> u64 {
        // First: of a partition that is freed meanwhile too little is counted rather than twice as much, and the next who asks
        // has it all.
        let freed = self.life.turnover_freed.load(Ordering::Acquire);
        let counted = self.places.iter().map(|place| place.lock().as_deref().map_or(0, Partition::turnover));
        freed + counted.sum::<u64>()
    }

    /// Keeps what a partition has counted that is freed. Called with its lock held.
    pub(crate) fn keep_turnover(&self, freed: &Partition) {
        self.life.turnover_freed.fetch_add(freed.turnover(), Ordering::AcqRel);
    }
}

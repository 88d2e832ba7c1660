//! The statistics of a region, as ANALYZE has gathered them.

use std::sync::Arc;

use super::Region;
use crate::statistics::TableStatistics;

impl Region {
    /// What ANALYZE found, if it ever ran. Columns that are gone may be among those it knows.
    pub fn statistics(&self) -> Option<Arc<TableStatistics>> {
        self.life.statistics.read().clone()
    }

    /// Keeps what ANALYZE found.
    pub fn set_statistics(&self, statistics: TableStatistics) {
        *self.life.statistics.write() = Some(Arc::new(statistics));
    }
}

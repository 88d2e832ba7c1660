//! Scans that want only some rows of a partition, and counts: what a view sees, without reading everything.
//!
//! Called by table providers. The result may contain rows that were not asked for: those of the view's own transaction,
//! and all rows of a partition when so many are wanted that reading all is no more work.

use std::collections::HashSet;

use ashlar_base::{PartitionId, Result, Value};

use super::{Region, ScanBatch, changed};
use crate::partition::{Probe, Walk};
use crate::writeset::ReadView;

impl Region {
    /// Like [`Region::scan_version`], for somebody who wants the rows of these keys only, all of them of this partition.
    ///
    /// # Errors
    /// As there.
    pub fn scan_keys(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        keys: &[Box<[Value]>],
    ) -> Result<Vec<ScanBatch>> {
        self.scan_found(view, partition, columns, version, |stored, at| stored.of_keys(keys, at))
    }

    /// Like [`Region::scan_version`], for somebody who wants only rows that any of these probes finds.
    ///
    /// # Errors
    /// As there.
    pub fn scan_any(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        probes: &[Probe],
    ) -> Result<Vec<ScanBatch>> {
        self.scan_found(view, partition, columns, version, |stored, at| stored.probed_by_any(probes, at))
    }

    /// Like [`Region::scan_version`], for somebody who wants the first rows of each of these walks only.
    ///
    /// # Errors
    /// As there.
    pub fn scan_walks(
        &self,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: Option<u32>,
        walks: &[Walk],
    ) -> Result<Vec<ScanBatch>> {
        self.scan_found(view, partition, columns, version, |stored, at| {
            // What the transaction has replaced or deleted must not take a place among the first.
            let mut hidden = HashSet::new();
            if let Some(overlay) = view.overlays.get(&self.id) {
                overlay.for_keys(partition, stored, |key| hidden.extend(stored.find_at(key, at))).ok()?;
            }
            let mut rows = Vec::new();
            for walk in walks {
                rows.extend(stored.walked(walk, at, &hidden)?);
            }
            rows.sort_unstable();
            rows.dedup();
            Some(rows)
        })
    }

    /// How many rows of a partition a view sees.
    ///
    /// # Errors
    /// As [`Region::scan_version`].
    pub fn count(&self, view: &ReadView, partition: PartitionId, version: u32) -> Result<u64> {
        if !view.overlays.contains_key(&self.id) && self.altered.is_none() {
            let guard = self.lock(partition);
            if self.is_dropped() {
                return Err(self.gone());
            }
            self.check_birth(&view.snapshot)?;
            let known = guard.as_deref().map_or_else(|| self.version(), |stored| stored.shape().schema.version);
            if known != version {
                return Err(changed(&self.schema()));
            }
            match guard.as_deref() {
                None => return Ok(0),
                // Nothing was committed that the view does not see, and nothing ended that it does.
                Some(stored) if stored.is_present(view.snapshot.timestamp()) => return Ok(stored.live()),
                Some(_) => {}
            }
        }
        let batches = self.scan_version(view, partition, &[], Some(version))?;
        let rows = |batch: &ScanBatch| {
            batch.visible.as_ref().map_or(batch.batch.num_rows(), arrow::buffer::BooleanBuffer::count_set_bits) as u64
        };
        Ok(batches.iter().map(rows).sum())
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Rows that arrive in bulk, kept in partitions of their own until the commit.
//!
//! Called by `Staged`. A row lies where it will stay: the commit hands whole segments, and where the table's
//! partition is empty the key index with them, to the table instead of copying rows. All keys are new, to the
//! table and to the transaction. A later write of the transaction to one of them takes the row out again.

use std::sync::Arc;

use ashlar_base::{Datum, PartitionId, Result, Timestamp};

use super::batch::{Refused, Waiting};
use super::overlay::Loaded;
use crate::memory::Charge;
use crate::partition::Partition;
use crate::region::{KeyPlace, Region};
use crate::row::RowRef;
use crate::shape::Shape;

/// See the module.
pub(crate) struct Load {
    parts: Vec<Option<Box<Partition>>>,
    /// When the keys were new to the table.
    read_at: Timestamp,
    _charge: Charge,
}

/// A row of a load.
#[derive(Clone, Copy)]
pub(crate) struct LoadedRow {
    /// Which load of the write set's region.
    pub(crate) load: usize,
    place: KeyPlace,
    row: u32,
}

impl Load {
    /// Without rows.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(crate) fn new(region: &Region, read_at: Timestamp) -> Result<Self> {
        let count = usize::from(region.partition_count());
        let charge = Charge::new(region.account(), count * size_of::<Option<Box<Partition>>>())?;
        Ok(Self { parts: std::iter::repeat_with(|| None).take(count).collect(), read_at, _charge: charge })
    }

    /// When the keys were new to the table.
    pub(crate) fn read_at(&self) -> Timestamp {
        self.read_at
    }

    /// Adds rows of a partition, whose keys are new but for each other and for what was loaded before. Some are refused: with
    /// 23505 where they are not, with 53200 over the memory bound, with 54000 where a row or the partition becomes too large.
    pub(crate) fn append(
        &mut self,
        region: &Region,
        shape: &Arc<Shape>,
        partition: PartitionId,
        waiting: &Waiting<'_>,
        rows: &[u32],
        refused: &mut Refused,
    ) {
        if rows.is_empty() {
            return;
        }
        let part = &mut self.parts[usize::from(partition.0)];
        let part = part.get_or_insert_with(|| Box::new(region.partition_alone(partition, shape)));
        part.append(waiting.columns(), rows, |row| waiting.place(row).hash, |row, error| refused.note(row, error));
    }

    /// The row of a key.
    pub(crate) fn find(&self, load: usize, place: KeyPlace, key: &[Datum<'_>]) -> Option<LoadedRow> {
        let part = self.part(place.partition)?;
        part.locate(place.hash, key).row.map(|row| LoadedRow { load, place, row })
    }

    /// A row that was found, as a shape has it.
    pub(crate) fn row<'l>(&'l self, shape: &'l Shape, row: LoadedRow) -> Option<RowRef<'l>> {
        self.part(row.place.partition).map(|part| part.row_as(shape, row.row))
    }

    /// Takes a row out.
    pub(crate) fn take_out(&mut self, row: LoadedRow) {
        if let Some(part) = &mut self.parts[usize::from(row.place.partition.0)] {
            part.retract(row.place.hash, row.row);
        }
    }

    /// Puts a row back that was taken out.
    pub(crate) fn put_back(&mut self, row: LoadedRow) {
        if let Some(part) = &mut self.parts[usize::from(row.place.partition.0)] {
            part.restore(row.place.hash, row.row);
        }
    }

    /// The rows of a partition.
    pub(crate) fn part(&self, partition: PartitionId) -> Option<&Partition> {
        self.parts[usize::from(partition.0)].as_deref()
    }

    /// The same, for the commit to make room.
    pub(crate) fn part_mut(&mut self, partition: PartitionId) -> Option<&mut Partition> {
        self.parts[usize::from(partition.0)].as_deref_mut()
    }

    /// Hands out the rows of a partition.
    pub(crate) fn take_part(&mut self, partition: PartitionId) -> Option<Box<Partition>> {
        self.parts[usize::from(partition.0)].take()
    }

    /// The rows that were not taken out, with their partitions.
    pub(crate) fn living(&self) -> impl Iterator<Item = (PartitionId, u32)> {
        self.filled().flat_map(|(id, part)| part.living().map(move |row| (id, row)))
    }

    /// Whether a row is there that was not taken out.
    pub(crate) fn is_living(&self, partition: PartitionId, row: u32) -> bool {
        self.part(partition).is_some_and(|part| !part.is_dead(row))
    }

    /// A row by its partition, as a shape has it.
    pub(crate) fn row_at<'l>(&'l self, shape: &'l Shape, partition: PartitionId, row: u32) -> Option<RowRef<'l>> {
        self.part(partition).map(|part| part.row_as(shape, row))
    }

    fn filled(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        (0..self.parts.len() as u16).map(PartitionId).filter_map(|id| Some((id, self.part(id)?)))
    }

    /// Rows.
    pub(crate) fn row_count(&self) -> usize {
        self.filled().map(|(_, part)| part.live() as usize).sum()
    }

    /// Bytes of the rows, those that were taken out among them.
    pub(crate) fn row_bytes(&self) -> usize {
        self.filled().map(|(_, part)| part.row_bytes()).sum()
    }

    /// A picture of the rows as a shape has them, for scans of the transaction.
    pub(crate) fn picture(&self, shape: &Arc<Shape>) -> impl Iterator<Item = Loaded> {
        self.filled().map(|(partition, part)| Loaded { partition, rows: part.everything(shape) })
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("rows", &self.row_count()).finish_non_exhaustive()
    }
}

//! Rows of both sides in files, divided by bits of a hash that no table uses: where memory has no room for the build side.
//!
//! Called by `run` while rows come, and by `parts` for what is still too much.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_execution::SpillFile;
use datafusion_physical_plan::SpillManager;
use parking_lot::Mutex;

use super::chunk::Rows;
use super::spec::Spec;
use crate::growing::Growing;
use crate::hash_table::hash::Secret;
use crate::memory::{Charge, Memory};

/// Bits of the hash that say which file a row goes to.
const BITS: u32 = if cfg!(test) { 2 } else { 5 };
/// Files of a side.
pub(crate) const FILES: usize = 1 << BITS;

/// Rows that are divided at once: some hundreds for each file.
const ROWS: usize = 16 << 10;

/// How the files of a side are written and read.
pub(crate) struct Side {
    pub(crate) manager: SpillManager,
    memory: Arc<Memory>,
}

impl Side {
    pub(crate) fn new(manager: SpillManager, memory: &Arc<Memory>) -> Self {
        Self { manager, memory: Arc::clone(memory) }
    }
}

/// A file that grows.
#[derive(Default)]
struct Open {
    file: Growing,
    rows: u64,
}

/// A file that is whole.
#[derive(Clone, Default)]
pub(crate) struct Written {
    /// None of no rows.
    pub(crate) file: Option<Arc<dyn SpillFile>>,
    pub(crate) rows: u64,
}

/// The files of a side.
pub(crate) struct Files {
    open: Vec<Mutex<Open>>,
    secret: Secret,
}

impl Files {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { open: (0..FILES).map(|_| Mutex::default()).collect(), secret }
    }

    /// Writes rows of the build side.
    ///
    /// # Errors
    /// Where the disk has no room for them.
    pub(crate) fn write_left(&self, spec: &Spec, side: &Side, rows: &Rows) -> Result<()> {
        // Of a chunk not all rows at once: they are held twice meanwhile.
        for start in (0..rows.count).step_by(ROWS) {
            let rows = rows.slice(start, ROWS.min(rows.count - start));
            let columns: Vec<ArrayRef> = rows.kept.iter().chain(&rows.keys).cloned().collect();
            self.write(spec, side, &spec.left_schema, &columns, &rows.keys)?;
        }
        Ok(())
    }

    /// Writes rows of the probe side.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn write_right(&self, spec: &Spec, side: &Side, batch: &RecordBatch, keys: &[ArrayRef]) -> Result<()> {
        let columns: Vec<ArrayRef> = batch.columns().iter().chain(keys).cloned().collect();
        self.write(spec, side, &spec.right_schema, &columns, keys)
    }

    fn write(
        &self,
        spec: &Spec,
        side: &Side,
        schema: &SchemaRef,
        columns: &[ArrayRef],
        keys: &[ArrayRef],
    ) -> Result<()> {
        let packed = spec.packing.pack(keys)?;
        let mut hashes = Vec::new();
        packed.hashes(self.secret, &mut hashes);
        let part_of = |hash: u64| (hash >> (64 - BITS)) as usize;
        let mut ends = [0_u32; FILES];
        hashes.iter().for_each(|hash| ends[part_of(*hash)] += 1);
        let mut total = 0;
        let starts = ends.map(|count| {
            total += count;
            total - count
        });
        let mut next = starts;
        let mut order = vec![0; hashes.len()];
        for (row, hash) in hashes.iter().enumerate() {
            let next = &mut next[part_of(*hash)];
            order[*next as usize] = row as u32;
            *next += 1;
        }
        let order = UInt32Array::from(order);
        // Held beside the batch while it is written.
        let mut charge: Charge = side.memory.charge();
        let mut ordered = Vec::with_capacity(columns.len());
        for column in columns {
            let taken = take(column, &order, None)?;
            charge.take(taken.get_array_memory_size());
            ordered.push(taken);
        }
        for (part, (start, end)) in starts.iter().zip(next).enumerate() {
            let (start, count) = (*start as usize, (end - start) as usize);
            if count == 0 {
                continue;
            }
            let columns = ordered.iter().map(|column| column.slice(start, count)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
            let mut open = self.open[part].lock();
            open.file.append(&side.manager, "rows of a join", &batch)?;
            open.file.charge(&side.memory);
            open.rows += count as u64;
        }
        Ok(())
    }

    /// The files, when all rows are written.
    ///
    /// # Errors
    /// Where the disk has no room for the last of them.
    pub(crate) fn finish(self) -> Result<Vec<Written>> {
        self.open.into_iter().map(Mutex::into_inner).map(Open::finish).collect()
    }

    /// The same by somebody who is not the only one to hold them, and the last to want them.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn finish_shared(&self) -> Result<Vec<Written>> {
        self.open.iter().map(|open| std::mem::take(&mut *open.lock())).map(Open::finish).collect()
    }
}

impl Open {
    fn finish(self) -> Result<Written> {
        Ok(Written { file: self.file.finish()?, rows: self.rows })
    }
}

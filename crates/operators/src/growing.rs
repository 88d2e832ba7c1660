//! A file that batches are appended to until it is complete: for rows and groups that do not fit in memory.
//!
//! Called by `aggregate` and `join`. The file is created by the first write and removed when its last reader is
//! dropped. Groups that leave memory later are appended to the same file; otherwise there would be one more file each time
//! memory runs out. The buffers of an open file are charged.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::Result;
use datafusion_execution::SpillFile;
use datafusion_physical_plan::SpillManager;

use crate::memory::{Charge, Memory};

/// Bytes of a file that is read into memory whether the pool has as much or not: to divide it would make many files of a few rows
/// each, of which most would be what the engine says of their columns.
const LITTLE_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 16 << 10 };

/// Bytes that a file takes while it is open: Arrow's writer with the engine's around it takes 0.4 KiB, the copy of the manager 0.1, the file
/// with its name and its own writer 0.2, and what a head of a batch is built in 0.3 for no columns.
const FILE_BYTES: usize = 1 << 10;
/// For each column beside that: in the head of a batch it has 16 bytes, and as many for each of its two or three buffers; where
/// that is built doubles as it grows.
const COLUMN_BYTES: usize = 96;

/// Whether there is so little in a file that it is not divided any further.
pub(crate) fn is_little(file: &Arc<dyn SpillFile>) -> bool {
    file.size().is_some_and(|bytes| bytes <= LITTLE_BYTES)
}

/// Appends a batch to a file, or makes it whole: the engine's type for that has no name outside of it.
type Append = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct Growing(Option<Open>);

/// A file that has been begun.
struct Open {
    append: Append,
    /// Bytes that it takes until it is whole.
    bytes: usize,
    charge: Option<Charge>,
}

impl Growing {
    /// Whether nothing has been written.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Writes a batch; `what` says to the engine what is in the file.
    ///
    /// # Errors
    /// Where the disk has no room for it.
    pub(crate) fn append(&mut self, manager: &SpillManager, what: &str, batch: &RecordBatch) -> Result<()> {
        if self.0.is_none() {
            self.0 = Some(Open::new(manager, what)?);
        }
        if let Some(open) = &mut self.0 {
            (open.append)(Some(batch))?;
        }
        Ok(())
    }

    /// Charges what it takes while it is open, if that is not charged. Called after something was written rather than before: what has left
    /// memory for it may be given back first, so that to leave it needs none.
    pub(crate) fn charge(&mut self, memory: &Arc<Memory>) {
        if let Some(open) = &mut self.0
            && open.charge.is_none()
        {
            let mut charge = memory.charge();
            charge.take(open.bytes);
            open.charge = Some(charge);
        }
    }

    /// The file, when all is written; none where nothing was. What it took is given back.
    ///
    /// # Errors
    /// Where the disk has no room for its end.
    pub(crate) fn finish(self) -> Result<Option<Arc<dyn SpillFile>>> {
        match self.0 {
            Some(mut open) => (open.append)(None),
            None => Ok(None),
        }
    }
}

impl Open {
    fn new(manager: &SpillManager, what: &str) -> Result<Self> {
        let mut file = manager.create_in_progress_file(what)?;
        let append: Append = Box::new(move |batch| match batch {
            Some(batch) => {
                file.append_batch(batch)?;
                // Else each file that is open would hold back what its writer puts together.
                file.flush()?;
                Ok(None)
            }
            None => file.finish(),
        });
        let bytes = FILE_BYTES + manager.schema().flattened_fields().len() * COLUMN_BYTES;
        Ok(Self { append, bytes, charge: None })
    }
}

#[cfg(test)]
mod tests;

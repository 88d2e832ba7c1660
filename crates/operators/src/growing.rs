//! A file that batches are appended to until it is whole: where rows and groups go that have no room in memory.
//!
//! Called by `aggregate` and `join`. There is no file before something is written, and it goes with the last who wants to read it. What
//! leaves memory again goes to the same file: else there would be as many as memory has run out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::Result;
use datafusion_execution::SpillFile;
use datafusion_physical_plan::SpillManager;

/// Bytes of a file that is read into memory whether the pool has as much or not: to divide it would make many files of a few rows
/// each, of which most would be what the engine says of their columns.
const LITTLE_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 16 << 10 };

/// Whether there is so little in a file that it is not divided any further.
pub(crate) fn is_little(file: &Arc<dyn SpillFile>) -> bool {
    file.size().is_some_and(|bytes| bytes <= LITTLE_BYTES)
}

/// Appends a batch to a file, or makes it whole: the engine's type for that has no name outside of it.
type Append = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct Growing(Option<Append>);

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
            let mut file = manager.create_in_progress_file(what)?;
            self.0 = Some(Box::new(move |batch| match batch {
                Some(batch) => {
                    file.append_batch(batch)?;
                    // Else each file that is open would hold back what its writer puts together.
                    file.flush()?;
                    Ok(None)
                }
                None => file.finish(),
            }));
        }
        if let Some(append) = &mut self.0 {
            append(Some(batch))?;
        }
        Ok(())
    }

    /// The file, when all is written; none where nothing was.
    ///
    /// # Errors
    /// Where the disk has no room for its end.
    pub(crate) fn finish(self) -> Result<Option<Arc<dyn SpillFile>>> {
        match self.0 {
            Some(mut append) => append(None),
            None => Ok(None),
        }
    }
}

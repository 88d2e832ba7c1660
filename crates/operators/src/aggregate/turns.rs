//! What is left to be given out by an aggregation, and whose turn it is: the outputs take tables and files from here one by one until there
//! are none.
//!
//! A file may have one group that is nearly as large as memory. While another output holds such a group too, neither has room, though each has
//! it alone. So a file that had no room is given back, and the output that had it has ended: another one, which is not done yet, comes for it
//! when what that one holds has gone. Nobody waits for anybody: who reads outputs may want the end of one before it asks for more of another.
//! Only what has no room where nobody else holds anything has none at all.
//!
//! Called by `run`.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use parking_lot::Mutex;

use super::run::Work;

/// See the module.
pub(crate) struct Turns(Mutex<Shared>);

struct Shared {
    work: Vec<Work>,
    /// Outputs that will come for more.
    outputs: usize,
    /// All that ever came.
    came: usize,
}

impl Turns {
    pub(crate) fn new(work: Vec<Work>) -> Self {
        Self(Mutex::new(Shared { work, outputs: 0, came: 0 }))
    }

    /// More work, which was made of some that was taken.
    pub(super) fn add(&self, more: Vec<Work>) {
        self.0.lock().work.extend(more);
    }
}

/// An output that takes work.
pub(super) struct Turn {
    turns: Arc<Turns>,
    /// Whether it will not come again.
    has_ended: bool,
}

/// Work that an output has taken.
pub(super) struct Taken {
    pub(super) work: Work,
    /// How many outputs had come, where all others had ended.
    alone: Option<usize>,
}

impl Turn {
    pub(super) fn of(turns: &Arc<Turns>) -> Self {
        let mut shared = turns.0.lock();
        shared.outputs += 1;
        shared.came += 1;
        drop(shared);
        Self { turns: Arc::clone(turns), has_ended: false }
    }

    /// Takes work: a table as long as there is one, so that there is room when files are read. `None`: there is no work, and the output has
    /// ended.
    pub(super) fn take(&mut self) -> Option<Taken> {
        let mut shared = self.turns.0.lock();
        let table = shared.work.iter().rposition(|work| matches!(work, Work::Table(_)));
        let Some(at) = table.or(shared.work.len().checked_sub(1)) else {
            // Before anybody else gives something back.
            if !self.has_ended {
                self.has_ended = true;
                shared.outputs -= 1;
            }
            return None;
        };
        let alone = (shared.outputs == 1).then_some(shared.came);
        Some(Taken { work: shared.work.remove(at), alone })
    }

    /// Gives a file back that had no room, to be read behind all others. Whether another output will come for it, so that this one has ended.
    ///
    /// # Errors
    /// `why` it had none, where nobody else has held anything since it was taken.
    pub(super) fn give_back(&mut self, taken: Taken, why: DataFusionError) -> Result<bool> {
        let mut shared = self.turns.0.lock();
        if taken.alone == Some(shared.came) {
            return Err(why);
        }
        shared.work.insert(0, taken.work);
        if shared.outputs > 1 {
            self.has_ended = true;
            shared.outputs -= 1;
        }
        Ok(self.has_ended)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.has_ended {
            self.turns.0.lock().outputs -= 1;
        }
    }
}

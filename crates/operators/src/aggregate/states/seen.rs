//! Which groups have a value. Takes no memory while every group has one.

use arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion_common::Result;

use crate::hash_table::account::Account;
use crate::memory::{Charge, Wish};

/// See the module.
#[derive(Default)]
pub(super) struct Seen(Option<Vec<bool>>);

impl Seen {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity)
    }

    /// Room for so many groups, charged before it is taken.
    ///
    /// # Errors
    /// Where the pool has none left.
    pub(super) fn reserve(&mut self, groups: usize, charge: &mut Charge, wish: Wish) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |seen| charge.room(seen, groups, wish))
    }

    /// Rows of these groups are about to come, after which there are so many groups; of `before` there were rows until now.
    /// Where all rows have a value, their groups have one.
    pub(super) fn expect(&mut self, are_all: bool, ids: &[usize], before: usize, groups: usize) {
        if !are_all && self.0.is_none() {
            self.0 = Some(vec![true; before]);
        }
        if let Some(seen) = &mut self.0 {
            seen.resize(groups, false);
            if are_all {
                ids.iter().for_each(|&id| seen[id] = true);
            }
        }
    }

    /// A group has a value.
    #[inline]
    pub(super) fn mark(&mut self, id: usize) {
        if let Some(seen) = &mut self.0 {
            seen[id] = true;
        }
    }

    /// The NULLs of the groups, of which none are left.
    pub(super) fn take(&mut self) -> Option<NullBuffer> {
        let nulls = self.0.take().map(|seen| NullBuffer::new(BooleanBuffer::from(seen)));
        nulls.filter(|nulls| nulls.null_count() > 0)
    }
}

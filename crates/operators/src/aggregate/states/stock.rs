//! Aggregates that have no state of ours.

use arrow::array::{ArrayRef, BooleanArray};
use datafusion_common::Result;
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::State;
use crate::memory::{Charge, Wish};

/// An accumulator of the engine's.
pub(crate) struct Stock {
    inner: Box<dyn GroupsAccumulator>,
    /// Groups that it has room for, as far as it is known: its vectors double.
    room: usize,
    charge: Charge,
}

impl Stock {
    pub(crate) fn new(inner: Box<dyn GroupsAccumulator>, charge: Charge) -> Self {
        Self { inner, room: 0, charge }
    }

    /// Rows have come. The engine asks for the size after each batch too: some accumulators keep rows, and where others have doubled
    /// is not to be told.
    fn settle(&mut self) {
        self.charge.settle(self.inner.size());
    }
}

impl State for Stock {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        if groups > self.room {
            // The doubled vectors, beside those that there are.
            self.charge.grow(2 * self.inner.size(), wish)?;
            self.room = groups.next_power_of_two();
        }
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, ids, filter, groups)?;
        self.settle();
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        self.inner.merge_batch(states, ids, groups)?;
        self.settle();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.inner.evaluate(EmitTo::All)
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        self.inner.state(EmitTo::All)
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

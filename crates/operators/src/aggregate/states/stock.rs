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
    /// Rows since its size was looked at.
    rows: usize,
    charge: Charge,
}

/// Rows after which the size of an accumulator is looked at: some of them keep rows.
const LOOKED_AT: usize = 8192;

impl Stock {
    pub(crate) fn new(inner: Box<dyn GroupsAccumulator>, charge: Charge) -> Self {
        Self { inner, room: 0, rows: 0, charge }
    }

    fn came(&mut self, rows: usize) {
        self.rows += rows;
        if self.rows >= LOOKED_AT {
            self.rows = 0;
            self.charge.settle(self.inner.size());
        }
    }
}

impl State for Stock {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        if groups > self.room {
            // The doubled vectors, beside those that there are.
            self.charge.grow(2 * self.inner.size(), wish)?;
            self.room = groups.next_power_of_two();
            // Looked at when the next rows have come.
            self.rows = LOOKED_AT;
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
        self.came(ids.len());
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        self.inner.merge_batch(states, ids, groups)?;
        self.came(ids.len());
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

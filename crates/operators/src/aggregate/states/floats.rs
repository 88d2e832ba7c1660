//! Sums of `double precision`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::Float64Type;
use datafusion_common::Result;

use super::seen::Seen;
use super::{State, counted};
use crate::memory::{Charge, Wish};

/// See the module.
pub(crate) struct FloatSums {
    sums: Vec<f64>,
    seen: Seen,
    charge: Charge,
}

impl FloatSums {
    pub(crate) fn new(charge: Charge) -> Self {
        Self { sums: Vec::new(), seen: Seen::default(), charge }
    }

    fn settle(&mut self) {
        self.charge.settle(self.sums.capacity() * size_of::<f64>() + self.seen.bytes());
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(Float64Array::new(std::mem::take(&mut self.sums).into(), self.seen.take()))
    }
}

impl State for FloatSums {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        self.charge.room(&mut self.sums, groups, wish)?;
        self.seen.reserve(groups, &mut self.charge, wish)?;
        self.settle();
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        let array = values[0].as_primitive::<Float64Type>();
        let counted = counted(array.nulls(), filter);
        self.seen.expect(counted.is_none(), ids, self.sums.len(), groups);
        self.sums.resize(groups, 0.0);
        self.settle();
        let rows = array.values().iter().zip(ids);
        match counted {
            None => rows.for_each(|(value, &id)| self.sums[id] += value),
            Some(is_counted) => {
                for (_, (value, &id)) in rows.enumerate().filter(|(row, _)| is_counted(*row)) {
                    self.sums[id] += value;
                    self.seen.mark(id);
                }
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        self.update(states, ids, None, groups)
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        Ok(self.take())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take()])
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

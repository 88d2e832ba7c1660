//! `count(*)` and `count(column)`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::Int64Type;
use datafusion_common::Result;

use super::numbers::Numbers;
use super::{State, counted};
use crate::memory::{Charge, Wish};

/// See the module.
pub(crate) struct Counts {
    /// Until more rows have come than 32 bits count.
    counts: Numbers<u32, i64>,
    /// Rows that came, which no count is greater than.
    rows: u64,
    charge: Charge,
}

impl Counts {
    pub(crate) fn new(charge: Charge) -> Self {
        Self { counts: Numbers::new(), rows: 0, charge }
    }

    /// So many rows are about to come.
    fn expect(&mut self, rows: u64, groups: usize) {
        self.rows = self.rows.saturating_add(rows);
        if self.rows > u64::from(u32::MAX) {
            self.counts.widen(&mut self.charge);
        }
        self.counts.resize(groups);
        self.charge.settle(self.counts.bytes());
    }
}

impl State for Counts {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        self.counts.reserve(groups, &mut self.charge, wish)?;
        self.charge.settle(self.counts.bytes());
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.expect(ids.len() as u64, groups);
        let nulls = values.first().and_then(|array| array.logical_nulls());
        match (counted(nulls.as_ref(), filter), &mut self.counts) {
            (None, Numbers::Narrow(counts)) => ids.iter().for_each(|&id| counts[id] += 1),
            (None, Numbers::Wide(counts)) => ids.iter().for_each(|&id| counts[id] += 1),
            (Some(is_counted), Numbers::Narrow(counts)) => {
                ids.iter().enumerate().for_each(|(row, &id)| counts[id] += u32::from(is_counted(row)));
            }
            (Some(is_counted), Numbers::Wide(counts)) => {
                ids.iter().enumerate().for_each(|(row, &id)| counts[id] += i64::from(is_counted(row)));
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        let known = states[0].as_primitive::<Int64Type>().values();
        self.expect(known.iter().map(|count| *count as u64).sum(), groups);
        match &mut self.counts {
            // Below 2^32, as all of them together are.
            Numbers::Narrow(counts) => known.iter().zip(ids).for_each(|(count, &id)| counts[id] += *count as u32),
            Numbers::Wide(counts) => known.iter().zip(ids).for_each(|(count, &id)| counts[id] += count),
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.rows = 0;
        Ok(Arc::new(Int64Array::new(self.counts.take().into(), None)))
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

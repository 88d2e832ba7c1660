//! Aggregate states: what one aggregate keeps for each group.

mod byte_extremes;
mod counts;
mod distinct;
mod folds;
mod numbers;
mod seen;
mod stock;
mod sums;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use datafusion_common::Result;

use crate::memory::Wish;

pub(crate) use counts::Counts;
pub(crate) use distinct::{Distinct, packing_of as pairs_of, state_type as lists_of};
pub(crate) use folds::{is_ordered, of_extremes, of_float_sums};
pub(crate) use stock::{Habit, Stock};
pub(crate) use sums::Sums;

/// The states of the groups 0, 1, ... for one aggregate.
pub(crate) trait State: Send {
    /// Makes sure that there may be so many groups: what they take is charged.
    ///
    /// # Errors
    /// Where the pool has not as much; then nothing changed.
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()>;

    /// The same for so many rows with these values, or with these states, which are about to come: for those who keep more for rows than for
    /// groups, or do not say beforehand what they take.
    ///
    /// # Errors
    /// As there.
    fn ready_for(&mut self, _values: &[ArrayRef], _rows: usize, _is_partial: bool, _wish: Wish) -> Result<()> {
        Ok(())
    }

    /// Rows of these groups, of which there are so many by now.
    ///
    /// # Errors
    /// What the aggregate finds.
    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()>;

    /// The same of what [`Self::state`] gave: values like others, unless somebody knows better.
    ///
    /// # Errors
    /// As there.
    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        self.update(states, ids, None, groups)
    }

    /// The result for each group, which are gone then.
    ///
    /// # Errors
    /// What the aggregate finds.
    fn evaluate(&mut self) -> Result<ArrayRef>;

    /// What is known of each group, which are gone then: the result, unless more is.
    ///
    /// # Errors
    /// What the aggregate finds.
    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate()?])
    }

    /// Bytes that are charged.
    fn bytes(&self) -> usize;

    /// Those of them that values have which are kept, of which a group may have very many or very long ones: not what there is for each group.
    fn bytes_of_values(&self) -> usize {
        0
    }
}

/// Which rows an aggregate takes: `None` where it takes all of them.
fn counted<'a>(
    nulls: Option<&'a NullBuffer>,
    filter: Option<&'a BooleanArray>,
) -> Option<impl Fn(usize) -> bool + use<'a>> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    (nulls.is_some() || filter.is_some()).then_some(move |row| {
        nulls.is_none_or(|nulls| nulls.is_valid(row))
            && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
    })
}

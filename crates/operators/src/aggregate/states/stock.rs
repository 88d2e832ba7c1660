//! Aggregates without a state of our own, run by the engine's accumulators.
//!
//! These report their memory only after they have taken rows. So before they are given rows, an upper bound for their
//! kind is charged; afterwards, the charge is set to what they report. Called by `Spec`, which creates one for each
//! table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::{Result, internal_err};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::State;
use crate::memory::{Charge, Wish};

/// What an accumulator of the engine's does with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// It has some numbers for each group, of so many bytes together.
    Numbers(usize),
    /// It keeps the arrays that it is given, and for each row its group and its place.
    Rows,
    /// It has a text for each group, and says how many bytes they have, not how many there is room for: up to as many again, where texts
    /// were added to texts.
    Texts,
    /// Anything.
    Any,
}

impl Habit {
    /// Of the accumulator that the engine has for groups.
    ///
    /// # Errors
    /// What the aggregate says of its state.
    pub(crate) fn of(expr: &AggregateFunctionExpr) -> Result<Self> {
        if !expr.groups_accumulator_supported() {
            return Ok(Self::Any);
        }
        let width = |data_type: &DataType| match data_type {
            DataType::Boolean => Some(1),
            other => other.primitive_width(),
        };
        Ok(match expr.fun().name() {
            "array_agg" => Self::Rows,
            "string_agg" => Self::Texts,
            _ => {
                let widths = expr.state_fields()?;
                let widths = widths.iter().map(|field| width(field.data_type())).sum::<Option<usize>>();
                widths.map_or(Self::Any, Self::Numbers)
            }
        })
    }
}

/// Bytes that an accumulator may have for a group beside its numbers: whether it has any, and places that it uses again.
const BESIDE_BYTES: usize = 32;
/// Bytes that a row may make of a group that is new, beside its values: of texts their place in a vector, and else what there is for a group of
/// which somebody else says everything, with boxes, vectors and sets of its own.
const TEXT_GROUP_BYTES: usize = 64;
const ANY_GROUP_BYTES: usize = 256;
/// Of a row that is kept: its group, and its place.
const ENTRY_BYTES: usize = 8;
/// Of arrays that are kept, for each time: where they are known by, and what is around their buffers.
const BATCH_BYTES: usize = 40 + 192;
/// Some accumulators ask every group what they take: when for so many groups a row has come.
const GROUPS_PER_ROW: usize = 8;

/// An accumulator of the engine's.
pub(crate) struct Stock {
    inner: Box<dyn GroupsAccumulator>,
    habit: Habit,
    /// Groups that there are, and those that its vectors have room for: they double.
    groups: usize,
    room: usize,
    /// Rows that came, and those of them since it was asked what it takes.
    rows: usize,
    unasked: usize,
    /// Bytes that it takes, and those of them for a row when it was asked.
    taken: usize,
    of_row: usize,
    /// Bytes of texts that it was given.
    texts: usize,
    charge: Charge,
}

impl Stock {
    pub(crate) fn new(inner: Box<dyn GroupsAccumulator>, habit: Habit, charge: Charge) -> Self {
        Self { inner, habit, groups: 0, room: 0, rows: 0, unasked: 0, taken: 0, of_row: 0, texts: 0, charge }
    }

    /// Bytes that it may take beside those that it has while it is given rows: vectors double, and the old one is there until the new one is
    /// filled.
    fn may_take(&self, values: &[ArrayRef], rows: usize, is_partial: bool) -> usize {
        let bytes = || values.iter().map(bytes_of).sum::<usize>();
        match self.habit {
            Habit::Numbers(_) if self.groups + rows <= self.room => 0,
            Habit::Numbers(width) => 2 * (self.taken + rows * (width + BESIDE_BYTES)),
            Habit::Rows => {
                let entries = if is_partial { values.first().map_or(0, elements_of) } else { rows };
                bytes() + entries_bytes(entries) * 3 / 2 + BATCH_BYTES
            }
            Habit::Texts => 2 * (self.room_bytes() + bytes()) + rows * TEXT_GROUP_BYTES,
            Habit::Any => 2 * (self.taken + bytes()) + rows * ANY_GROUP_BYTES,
        }
    }

    /// Bytes that it takes, with what it may have room for.
    fn room_bytes(&self) -> usize {
        // As long as a text was added to one in two, there is next to none.
        if self.habit == Habit::Texts && self.rows > 2 * self.groups { self.taken + self.texts } else { self.taken }
    }

    /// Charges what it has become with these rows, of so many groups by now.
    fn came(&mut self, values: &[ArrayRef], rows: usize, groups: usize) {
        self.rows += rows;
        self.unasked += rows;
        self.groups = groups;
        if groups > self.room {
            self.room = groups.max(2 * self.room);
        }
        if self.habit == Habit::Texts {
            self.texts += values.first().map_or(0, bytes_of);
        }
        if self.unasked >= groups / GROUPS_PER_ROW {
            self.unasked = 0;
            self.taken = self.inner.size();
            self.of_row = self.taken / self.rows.max(1);
        } else {
            self.taken += rows * self.of_row;
        }
        self.charge.settle(self.room_bytes());
    }

    /// Gives it rows that it keeps: copies of them, since a part of a batch would hold all of that.
    fn keep(&mut self, values: &[ArrayRef], ids: &[usize], filter: Option<&BooleanArray>, groups: usize) -> Result<()> {
        let is_wanted = |row: &usize| filter.is_none_or(|filter| filter.is_valid(*row) && filter.value(*row));
        let rows: Vec<usize> = (0..ids.len()).filter(is_wanted).collect();
        let own = values.iter().map(|array| copied(array, &rows)).collect::<Result<Vec<_>>>()?;
        let ids: Vec<usize> = rows.iter().map(|row| ids[*row]).collect();
        self.inner.update_batch(&own, &ids, None, groups)?;
        self.kept(ids.len(), own.iter().map(|own| own.get_array_memory_size()).sum());
        Ok(())
    }

    /// The same of lists of such rows. Of a part of lists it would keep, and count, the values of all.
    fn keep_lists(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        let [state] = states else { return internal_err!("lists of rows in {} columns", states.len()) };
        let narrow = narrowed(state)?;
        let Some(lists) = narrow.as_list_opt::<i32>() else { return internal_err!("rows that are not in lists") };
        let (field, offsets, values, nulls) = lists.clone().into_parts();
        let rows: Vec<usize> = (0..values.len()).collect();
        let values = copied(&values, &rows)?;
        let (entries, bytes) = (values.len(), values.get_array_memory_size());
        let own = ListArray::try_new(field, offsets, values, nulls)?;
        self.inner.merge_batch(&[Arc::new(own)], ids, groups)?;
        self.kept(entries, bytes);
        Ok(())
    }

    /// Charges what was kept of so many rows, and their groups and places. It is known to the byte here, and nobody is asked.
    fn kept(&mut self, entries: usize, bytes: usize) {
        if entries > 0 {
            self.taken += bytes + entries_bytes(entries) + BATCH_BYTES;
        }
        self.charge.settle(self.taken);
    }

    /// What is made of all its groups, which are gone then. It is there beside them for a while: charged whether the pool has it or not, since
    /// this is the way out of memory too.
    fn leave<T>(
        &mut self,
        make: impl FnOnce(&mut dyn GroupsAccumulator) -> Result<T>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T> {
        self.charge.take(self.charge.bytes());
        let made = make(self.inner.as_mut())?;
        (self.groups, self.room, self.rows, self.unasked, self.texts) = (0, 0, 0, 0, 0);
        self.taken = if self.habit == Habit::Rows { 0 } else { self.inner.size() };
        self.charge.settle(self.taken + bytes(&made));
        Ok(made)
    }
}

/// Bytes of what is known of so many rows that are kept: a vector that has grown one by one.
fn entries_bytes(entries: usize) -> usize {
    entries.next_power_of_two().max(4) * ENTRY_BYTES
}

/// The values in lists.
fn elements_of(lists: &ArrayRef) -> usize {
    let Some(lists) = lists.as_list_opt::<i32>() else { return lists.len() };
    let offsets = lists.offsets();
    let ends = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    (ends.1 - ends.0) as usize
}

/// Bytes of values: of a part of an array only those of the part, in lists too.
fn bytes_of(array: &ArrayRef) -> usize {
    let Some(lists) = array.as_list_opt::<i32>() else {
        return array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
    };
    let first = lists.offsets().first().copied().unwrap_or(0);
    let values = lists.values().slice(first as usize, elements_of(array));
    (lists.len() + 1) * size_of::<i32>() + bytes_of(&values)
}

/// Lists whose values are those of their own and no others; what is not lists stays as it is. A copy of lists would have room for all values
/// that there are behind them.
fn narrowed(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = array.as_list_opt::<i32>() else { return Ok(Arc::clone(array)) };
    let (field, offsets, values, nulls) = lists.clone().into_parts();
    let first = offsets.first().copied().unwrap_or(0);
    let values = values.slice(first as usize, elements_of(array));
    let offsets: Vec<i32> = offsets.iter().map(|offset| offset - first).collect();
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(offsets.into()), values, nulls)?))
}

/// Some rows of an array, which nobody else holds.
fn copied(array: &ArrayRef, rows: &[usize]) -> Result<ArrayRef> {
    let places = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
    Ok(take(&narrowed(array)?, &places, None)?)
}

impl State for Stock {
    fn reserve(&mut self, _: usize, _: Wish) -> Result<()> {
        // It is not asked how many groups it makes room for.
        Ok(())
    }

    fn ready_for(&mut self, values: &[ArrayRef], rows: usize, is_partial: bool, wish: Wish) -> Result<()> {
        let most = self.room_bytes() + self.may_take(values, rows, is_partial);
        // Where others were refused, it may be charged already.
        self.charge.grow(most.saturating_sub(self.charge.bytes()), wish)
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        if self.habit == Habit::Rows {
            return self.keep(values, ids, filter, groups);
        }
        self.inner.update_batch(values, ids, filter, groups)?;
        self.came(values, ids.len(), groups);
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        if self.habit == Habit::Rows {
            return self.keep_lists(states, ids, groups);
        }
        self.inner.merge_batch(states, ids, groups)?;
        self.came(states, ids.len(), groups);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.leave(|inner| inner.evaluate(EmitTo::All), |made: &ArrayRef| made.get_array_memory_size())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        let bytes = |made: &Vec<ArrayRef>| made.iter().map(|made| made.get_array_memory_size()).sum::<usize>();
        self.leave(|inner| inner.state(EmitTo::All), bytes)
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    fn bytes_of_values(&self) -> usize {
        self.charge.bytes()
    }
}

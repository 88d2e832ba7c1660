//! Aggregates with DISTINCT, such as `count(DISTINCT ...)`.
//!
//! ```text
//!   (group, value)  ->  a table of such pairs  ->  those that are new  ->  the state of the aggregate without DISTINCT
//! ```
//!
//! There is one table for all groups of a partition, with the same kinds of keys as groups: a pair of integers is a word of 8 bytes. The state of a group is the list of its values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, UInt32Type};
use datafusion_common::{Result, internal_err, resources_err};

use super::{State, counted};
use crate::hash_table::groups::Groups;
use crate::hash_table::hash::Secret;
use crate::hash_table::keys::{Keys, Packing};
use crate::memory::{Charge, Wish};

/// Bytes that a pair takes beside its value where it is kept as bytes: of its group, of a length and of flags.
const BESIDE: usize = 9;

/// How pairs of groups and values of a type are kept; `None` of a type that is not.
pub(crate) fn packing_of(value: &DataType) -> Option<Packing> {
    Packing::of(&[(DataType::UInt32, false), (value.clone(), false)])
}

/// What is known of groups: lists of values of a type.
pub(crate) fn state_type(value: &DataType) -> DataType {
    DataType::List(item(value))
}

fn item(value: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(value.clone(), true))
}

/// See the module.
pub(crate) struct Distinct {
    pairs: Groups<Charge>,
    packing: Packing,
    secret: Secret,
    value: DataType,
    inner: Box<dyn State>,
    /// Groups that there have been rows of.
    groups: usize,
    scratch: Scratch,
}

/// Kept to be used again, and charged.
struct Scratch {
    hashes: Vec<u64>,
    rows: Vec<u32>,
    numbers: Vec<usize>,
    charge: Charge,
}

impl Distinct {
    /// Of values of a type, of which each new one of a group is given to `inner`.
    pub(crate) fn new(
        packing: Packing,
        value: DataType,
        inner: Box<dyn State>,
        pairs: Charge,
        scratch: Charge,
    ) -> Self {
        let secret = Secret::random();
        Self {
            pairs: Groups::new(&packing, secret, pairs),
            packing,
            secret,
            value,
            inner,
            groups: 0,
            scratch: Scratch { hashes: Vec::new(), rows: Vec::new(), numbers: Vec::new(), charge: scratch },
        }
    }

    /// Makes room for so many more pairs.
    fn room(&mut self, rows: usize, values: &ArrayRef, wish: Wish) -> Result<()> {
        let bytes = match self.packing.none() {
            Keys::Bytes(_) => values.to_data().get_slice_memory_size()? + rows * BESIDE,
            _ => 0,
        };
        let pairs = self.pairs.len();
        self.pairs.reserve(rows, bytes, pairs + pairs / 2, wish)
    }

    fn add(&mut self, values: &ArrayRef, ids: &[usize], filter: Option<&BooleanArray>, groups: usize) -> Result<()> {
        // Made sure of before, but for what only looked smaller.
        self.room(ids.len(), values, Wish::Anyway)?;
        let Scratch { hashes, rows, numbers, charge } = &mut self.scratch;
        let nulls = values.logical_nulls();
        rows.clear();
        match counted(nulls.as_ref(), filter) {
            None => rows.extend(0..ids.len() as u32),
            Some(is_counted) => rows.extend((0..ids.len()).filter(|row| is_counted(*row)).map(|row| row as u32)),
        }
        // A table has fewer than 2^32 groups.
        let of_groups: UInt32Array = ids.iter().map(|id| *id as u32).collect();
        let packed = self.packing.pack(&[Arc::new(of_groups), Arc::clone(values)])?;
        packed.hashes(self.secret, hashes);
        let mut next = self.pairs.len();
        self.pairs.of_rows(&packed, hashes, rows, numbers);
        let new = rows.iter().zip(numbers.iter()).filter(|(_, number)| {
            let is_new = **number == next;
            next += usize::from(is_new);
            is_new
        });
        let new: UInt32Array = new.map(|(row, _)| *row).collect();
        let bytes = hashes.capacity() * size_of::<u64>()
            + rows.capacity() * size_of::<u32>()
            + numbers.capacity() * size_of::<usize>();
        charge.settle(bytes);
        self.give(values, ids, &new, groups)
    }

    /// Gives the values of some rows to the aggregate. Groups that are new have perhaps none: it is told then that rows
    /// are left out.
    fn give(&mut self, values: &ArrayRef, ids: &[usize], new: &UInt32Array, groups: usize) -> Result<()> {
        let of_rows: Vec<usize> = new.values().iter().map(|row| ids[*row as usize]).collect();
        let before = std::mem::replace(&mut self.groups, groups);
        let mut has_value = vec![false; groups.saturating_sub(before)];
        for id in of_rows.iter().filter(|id| **id >= before) {
            has_value[*id - before] = true;
        }
        if has_value.iter().all(|has_value| *has_value) {
            if of_rows.is_empty() {
                return Ok(());
            }
            return self.inner.update(&[take(values, new, None)?], &of_rows, None, groups);
        }
        if of_rows.is_empty() {
            // One row that is left out: of none at all accumulators take it that every group has a value.
            let none = BooleanArray::from(vec![false]);
            return self.inner.update(&[new_null_array(&self.value, 1)], &[0], Some(&none), groups);
        }
        let all = BooleanArray::from(vec![true; of_rows.len()]);
        self.inner.update(&[take(values, new, None)?], &of_rows, Some(&all), groups)
    }
}

impl State for Distinct {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        self.inner.reserve(groups, wish)
    }

    fn ready_for(&mut self, values: &[ArrayRef], _: usize, is_partial: bool, wish: Wish) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        let values = if is_partial { listed(values).0 } else { Arc::clone(values) };
        self.room(values.len(), &values, wish)?;
        // All of them may be new.
        let rows = values.len();
        self.inner.ready_for(&[values], rows, false, wish)
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.add(&values[0], ids, filter, groups)
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        let (values, lengths) = listed(&states[0]);
        let of_values = ids.iter().zip(lengths).flat_map(|(id, length)| std::iter::repeat_n(*id, length));
        let of_values: Vec<usize> = of_values.collect();
        self.add(&values, &of_values, None, groups)
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.groups = 0;
        self.pairs.clear();
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        // What it made of the values is made again.
        self.inner.state()?;
        let groups = std::mem::take(&mut self.groups);
        let taken = self.pairs.take();
        let columns = self.packing.unpack(taken.keys, None)?;
        let [of_groups, values] = &columns[..] else { return internal_err!("a pair of something else") };
        if i32::try_from(values.len()).is_err() {
            return resources_err!("a partition of an aggregation has more than 2^31 distinct values");
        }
        let of_groups = of_groups.as_primitive::<UInt32Type>().values();
        let mut lengths = vec![0; groups];
        of_groups.iter().for_each(|group| lengths[*group as usize] += 1);
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        let mut next: Vec<usize> = offsets.iter().map(|offset| *offset as usize).collect();
        let mut order = vec![0; values.len()];
        for (pair, group) in of_groups.iter().enumerate() {
            let next = &mut next[*group as usize];
            order[*next] = pair as u32;
            *next += 1;
        }
        let values = take(values, &UInt32Array::from(order), None)?;
        Ok(vec![Arc::new(ListArray::try_new(item(&self.value), offsets, values, None)?)])
    }

    fn bytes(&self) -> usize {
        self.pairs.bytes() + self.inner.bytes() + self.scratch.charge.bytes()
    }
}

/// The values of lists, one list behind the other, and how long each is.
fn listed(lists: &ArrayRef) -> (ArrayRef, impl Iterator<Item = usize> + '_) {
    let lists = lists.as_list::<i32>();
    let offsets = lists.offsets();
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let values = lists.values().slice(first as usize, (last - first) as usize);
    (values, offsets.windows(2).map(|two| (two[1] - two[0]) as usize))
}

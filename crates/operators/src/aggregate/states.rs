//! What is known of each group for one aggregate.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion_common::Result;
use datafusion_expr::{EmitTo, GroupsAccumulator};

use crate::memory::{Charge, Wish};

/// What is known of the groups 0, 1, ... for one aggregate.
pub(crate) trait State: Send {
    /// Makes sure that there may be so many groups: what they take is charged.
    ///
    /// # Errors
    /// Where the pool has not as much; then nothing changed.
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()>;

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

    /// The same of what [`Self::state`] gave.
    ///
    /// # Errors
    /// As there.
    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()>;

    /// The result for each group, which are gone then.
    ///
    /// # Errors
    /// What the aggregate finds.
    fn evaluate(&mut self) -> Result<ArrayRef>;

    /// What is known of each group, which are gone then.
    ///
    /// # Errors
    /// What the aggregate finds.
    fn state(&mut self) -> Result<Vec<ArrayRef>>;

    /// Bytes that are charged.
    fn bytes(&self) -> usize;
}

/// Room for so many values, charged before it is taken; the old ones are held meanwhile.
fn room<T>(values: &mut Vec<T>, groups: usize, charge: &mut Charge, wish: Wish) -> Result<()> {
    if groups <= values.capacity() {
        return Ok(());
    }
    let wanted = groups.max(values.len() + values.len() / 4);
    charge.grow(wanted * size_of::<T>(), wish)?;
    values.reserve_exact(wanted - values.len());
    Ok(())
}

/// `count(*)` and `count(column)`.
pub(crate) struct Counts {
    /// Until more rows have come than 32 bits count.
    narrow: Vec<u32>,
    wide: Vec<i64>,
    /// Rows that came, which no count is greater than.
    rows: u64,
    charge: Charge,
}

impl Counts {
    pub(crate) fn new(charge: Charge) -> Self {
        Self { narrow: Vec::new(), wide: Vec::new(), rows: 0, charge }
    }

    fn is_wide(&self) -> bool {
        self.rows > u64::from(u32::MAX)
    }

    /// So many rows are about to come.
    fn expect(&mut self, rows: u64, groups: usize) {
        let was_wide = self.is_wide();
        self.rows = self.rows.saturating_add(rows);
        if self.is_wide() {
            if !was_wide {
                self.wide = std::mem::take(&mut self.narrow).into_iter().map(i64::from).collect();
            }
            self.wide.resize(groups, 0);
        } else {
            self.narrow.resize(groups, 0);
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.charge.settle(self.narrow.capacity() * size_of::<u32>() + self.wide.capacity() * size_of::<i64>());
    }

    #[inline]
    fn add(&mut self, id: usize, rows: i64) {
        if self.is_wide() {
            self.wide[id] += rows;
        } else {
            // Below 2^32, as all of them together are.
            self.narrow[id] += rows as u32;
        }
    }

    fn take(&mut self) -> Int64Array {
        let counts = match self.is_wide() {
            true => std::mem::take(&mut self.wide),
            false => std::mem::take(&mut self.narrow).into_iter().map(i64::from).collect(),
        };
        self.rows = 0;
        Int64Array::new(counts.into(), None)
    }
}

impl State for Counts {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        match self.is_wide() {
            true => room(&mut self.wide, groups, &mut self.charge, wish)?,
            false => room(&mut self.narrow, groups, &mut self.charge, wish)?,
        }
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
        self.expect(ids.len() as u64, groups);
        let nulls = values.first().and_then(|array| array.logical_nulls()).filter(|nulls| nulls.null_count() > 0);
        match (nulls, filter) {
            (None, None) if self.is_wide() => ids.iter().for_each(|&id| self.wide[id] += 1),
            (None, None) => ids.iter().for_each(|&id| self.narrow[id] += 1),
            (nulls, filter) => {
                for (row, &id) in ids.iter().enumerate() {
                    let is_counted = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                        && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
                    self.add(id, i64::from(is_counted));
                }
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        let counts = states[0].as_primitive::<Int64Type>().values();
        self.expect(counts.iter().map(|count| *count as u64).sum(), groups);
        counts.iter().zip(ids).for_each(|(count, &id)| self.add(id, *count));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.take()))
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take())])
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

/// `sum(bigint)`, whose result is a whole number of 38 digits.
pub(crate) struct Sums {
    /// Until a sum might need more than 64 bits.
    narrow: Vec<i64>,
    wide: Vec<i128>,
    /// No sum is further from zero than this.
    bound: u128,
    /// Which groups have a value; `None`: all.
    seen: Option<Vec<bool>>,
    charge: Charge,
}

/// What a sum is.
pub(crate) const SUM_TYPE: DataType = DataType::Decimal128(38, 0);

impl Sums {
    pub(crate) fn new(charge: Charge) -> Self {
        Self { narrow: Vec::new(), wide: Vec::new(), bound: 0, seen: None, charge }
    }

    fn is_wide(&self) -> bool {
        self.bound > i64::MAX as u128
    }

    fn len(&self) -> usize {
        if self.is_wide() { self.wide.len() } else { self.narrow.len() }
    }

    /// Values are about to come whose distances from zero add up to no more than this.
    fn expect(&mut self, bound: u128, groups: usize, are_all_seen: bool) {
        if !are_all_seen && self.seen.is_none() {
            self.seen = Some(vec![true; self.len()]);
        }
        let was_wide = self.is_wide();
        self.bound = self.bound.saturating_add(bound);
        if self.is_wide() {
            if !was_wide {
                self.wide = std::mem::take(&mut self.narrow).into_iter().map(i128::from).collect();
            }
            self.wide.resize(groups, 0);
        } else {
            self.narrow.resize(groups, 0);
        }
        if let Some(seen) = &mut self.seen {
            seen.resize(groups, false);
        }
        self.settle();
    }

    fn settle(&mut self) {
        let sums = self.narrow.capacity() * size_of::<i64>() + self.wide.capacity() * size_of::<i128>();
        self.charge.settle(sums + self.seen.as_ref().map_or(0, Vec::capacity));
    }

    fn take(&mut self) -> Result<Decimal128Array> {
        let sums: ScalarBuffer<i128> = match self.is_wide() {
            true => std::mem::take(&mut self.wide).into(),
            false => std::mem::take(&mut self.narrow).into_iter().map(i128::from).collect::<Vec<i128>>().into(),
        };
        self.bound = 0;
        let nulls = self.seen.take().map(|seen| NullBuffer::new(BooleanBuffer::from(seen)));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(Decimal128Array::new(sums, nulls).with_data_type(SUM_TYPE))
    }
}

impl State for Sums {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        match self.is_wide() {
            true => room(&mut self.wide, groups, &mut self.charge, wish)?,
            false => room(&mut self.narrow, groups, &mut self.charge, wish)?,
        }
        if let Some(seen) = &mut self.seen {
            room(seen, groups, &mut self.charge, wish)?;
        }
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
        let array = values[0].as_primitive::<Int64Type>();
        let (values, nulls) = (array.values(), array.nulls().filter(|nulls| nulls.null_count() > 0));
        let furthest = values.iter().fold(0, |furthest: u64, value| furthest.max(value.unsigned_abs()));
        self.expect(u128::from(furthest) * values.len() as u128, groups, nulls.is_none() && filter.is_none());
        if nulls.is_none() && filter.is_none() {
            match self.is_wide() {
                true => values.iter().zip(ids).for_each(|(value, &id)| self.wide[id] += i128::from(*value)),
                false => values.iter().zip(ids).for_each(|(value, &id)| self.narrow[id] += value),
            }
            if let Some(seen) = &mut self.seen {
                ids.iter().for_each(|&id| seen[id] = true);
            }
            return Ok(());
        }
        for (row, (value, &id)) in values.iter().zip(ids).enumerate() {
            let is_counted = nulls.is_none_or(|nulls| nulls.is_valid(row))
                && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_counted {
                match self.is_wide() {
                    true => self.wide[id] += i128::from(*value),
                    false => self.narrow[id] += value,
                }
                self.seen.iter_mut().for_each(|seen| seen[id] = true);
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal128Type>();
        let bound = sums.iter().flatten().fold(0, |bound: u128, sum| bound.saturating_add(sum.unsigned_abs()));
        self.expect(bound, groups, sums.null_count() == 0);
        for (sum, &id) in sums.iter().zip(ids) {
            let Some(sum) = sum else { continue };
            match self.is_wide() {
                true => self.wide[id] += sum,
                // Within 64 bits, as all of them together are.
                false => self.narrow[id] += sum as i64,
            }
            self.seen.iter_mut().for_each(|seen| seen[id] = true);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.take()?))
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take()?)])
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

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

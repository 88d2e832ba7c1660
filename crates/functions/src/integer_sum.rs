//! `sum(bigint)` as PostgreSQL has it: numeric, exact, and never beyond its range; averages of integers are made of it.
//!
//! The rule `NumericAggregates` puts it in place of the engine's. A sum is kept in 128 bits, for which 2^64 rows of the greatest
//! bigint are not enough to overflow; values are added in two halves of 64 bits, which the compiler turns into
//! vector instructions, where an addition in 128 bits or of decimals is done one by one.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal128Builder, Int64Array, Int64Builder,
};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

/// Digits of a sum: all that an i128 of whole numbers can have.
const SUM_DIGITS: u8 = 38;
/// Rows of which the halves are added in 64 bits without overflow.
const ROWS_OF_HALVES: usize = 1 << 31;

/// `sum(bigint)`.
pub fn udaf() -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
    Arc::new(AggregateUDF::from(IntegerSum { signature }))
}

const SUM_TYPE: DataType = DataType::Decimal128(SUM_DIGITS, 0);

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntegerSum {
    signature: Signature,
}

impl AggregateUDFImpl for IntegerSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SUM_TYPE)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Total { sum: 0, count: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new(format!("{}[sum]", args.name), SUM_TYPE, true)),
            Arc::new(Field::new(format!("{}[count]", args.name), DataType::Int64, true)),
        ])
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Totals { sums: Vec::new(), counts: Vec::new() }))
    }
}

/// The sum of values without NULLs.
fn sum_of(values: &[i64]) -> i128 {
    let mut total = 0;
    for chunk in values.chunks(ROWS_OF_HALVES) {
        let (mut low, mut high) = (0_u64, 0_i64);
        for value in chunk {
            low += *value as u64 & 0xFFFF_FFFF;
            high += value >> 32;
        }
        total += (i128::from(high) << 32) + i128::from(low);
    }
    total
}

/// The sum of an array's values, and how many there are.
fn total_of(values: &Int64Array) -> (i128, i64) {
    match values.nulls() {
        None => (sum_of(values.values()), values.len() as i64),
        Some(nulls) => {
            let sum = nulls.valid_slices().map(|(start, end)| sum_of(&values.values()[start..end])).sum();
            (sum, (values.len() - nulls.null_count()) as i64)
        }
    }
}

fn integers(array: &ArrayRef) -> &Int64Array {
    array.as_primitive::<Int64Type>()
}

fn sums_of(array: &ArrayRef) -> &Decimal128Array {
    array.as_primitive::<Decimal128Type>()
}

/// Without groups, and over the frames of a window.
#[derive(Debug)]
struct Total {
    sum: i128,
    count: i64,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total_of(integers(&values[0]));
        self.sum += sum;
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total_of(integers(&values[0]));
        self.sum -= sum;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128((self.count > 0).then_some(self.sum), SUM_DIGITS, 0))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128(Some(self.sum), SUM_DIGITS, 0), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.sum += sums_of(&states[0]).iter().flatten().sum::<i128>();
        self.count += integers(&states[1]).iter().flatten().sum::<i64>();
        Ok(())
    }
}

/// With groups: a sum and a count each.
#[derive(Debug)]
struct Totals {
    sums: Vec<i128>,
    counts: Vec<i64>,
}

impl Totals {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }

    fn add(&mut self, group: usize, sum: i128, count: i64) {
        self.sums[group] += sum;
        self.counts[group] += count;
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.grow(groups);
        let values = integers(&values[0]);
        if values.null_count() == 0 && filter.is_none() {
            for (group, value) in group_indices.iter().zip(values.values()) {
                self.add(*group, i128::from(*value), 1);
            }
            return Ok(());
        }
        for (row, group) in group_indices.iter().enumerate() {
            let is_taken = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_taken && values.is_valid(row) {
                self.add(*group, i128::from(values.value(row)), 1);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let mut results = Decimal128Builder::with_capacity(sums.len()).with_data_type(SUM_TYPE);
        for (sum, count) in sums.into_iter().zip(counts) {
            results.append_option((count > 0).then_some(sum));
        }
        Ok(Arc::new(results.finish()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let sums = Decimal128Array::new(sums.into(), None).with_data_type(SUM_TYPE);
        Ok(vec![Arc::new(sums), Arc::new(Int64Array::new(counts.into(), None))])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.grow(groups);
        let (sums, counts) = (sums_of(&values[0]), integers(&values[1]));
        for (row, group) in group_indices.iter().enumerate() {
            if counts.is_valid(row) {
                self.add(*group, sums.value(row), counts.value(row));
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = integers(&values[0]);
        let mut sums = Decimal128Builder::with_capacity(values.len()).with_data_type(SUM_TYPE);
        let mut counts = Int64Builder::with_capacity(values.len());
        for row in 0..values.len() {
            let is_taken =
                filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) && values.is_valid(row);
            sums.append_value(if is_taken { i128::from(values.value(row)) } else { 0 });
            counts.append_value(i64::from(is_taken));
        }
        Ok(vec![Arc::new(sums.finish()), Arc::new(counts.finish())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_add_up_to_the_plain_sum() {
        let values = [i64::MIN, -1, 0, 1, i64::MAX, i64::MAX, 1 << 32, -(1 << 32) - 1, 0xFFFF_FFFF];
        for start in 0..values.len() {
            for end in start..=values.len() {
                let plain: i128 = values[start..end].iter().map(|value| i128::from(*value)).sum();
                assert_eq!(sum_of(&values[start..end]), plain, "{start}..{end}");
            }
        }
    }

    #[test]
    fn nulls_count_for_nothing() {
        let array = Int64Array::from(vec![Some(5), None, Some(-7), None, None, Some(3)]);
        assert_eq!(total_of(&array), (1, 3));
        let mut nothing = Total { sum: 0, count: 0 };
        assert!(nothing.evaluate().unwrap().is_null());
    }

    #[test]
    fn groups_and_states_agree_with_the_plain_sum() {
        let mut totals = Totals { sums: Vec::new(), counts: Vec::new() };
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX), Some(i64::MAX), Some(9)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), Some(true), None]);
        totals.update_batch(&[Arc::clone(&values)], &[0, 1, 2, 2, 0], Some(&filter), 3).unwrap();
        let state = totals.convert_to_state(&[values], Some(&filter)).unwrap();
        totals.merge_batch(&state, &[0, 1, 2, 2, 0], 3).unwrap();
        let sums = totals.evaluate(EmitTo::All).unwrap();
        let sums: Vec<Option<i128>> = sums_of(&sums).iter().collect();
        assert_eq!(sums, [Some(2), None, Some(4 * i128::from(i64::MAX))]);
    }
}

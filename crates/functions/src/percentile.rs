//! `percentile_cont` of doubles, as PostgreSQL computes it: the engine knows where a percentile lies between two values to six digits only.
//!
//! The rule `NumericAggregates` puts it in place of the engine's. Source: PostgreSQL's `percentile_cont_final_common` and `float8_lerp`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::error::external;

/// The aggregate of values and of the part of them that is wanted, from the greatest value on where `is_descending`.
pub fn udaf(is_descending: bool) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64, DataType::Float64], Volatility::Immutable);
    Arc::new(AggregateUDF::from(Percentile { is_descending, signature }))
}

/// A part that is wanted.
///
/// # Errors
/// 22003
pub fn check(part: f64) -> Result<()> {
    if (0.0..=1.0).contains(&part) {
        return Ok(());
    }
    let message = format!("percentile value {part} is not between 0 and 1");
    Err(external(Error::new(ErrorCode::NumericOutOfRange, message)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    is_descending: bool,
    signature: Signature,
}

fn element() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float64, true))
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        if self.is_descending { "float_percentile_descending" } else { "float_percentile" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Values { is_descending: self.is_descending, values: Vec::new(), part: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| Arc::new(Field::new(format!("{}[{name}]", args.name), data_type, true));
        Ok(vec![field("values", DataType::List(element())), field("part", DataType::Float64)])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// All values of a group.
#[derive(Debug)]
struct Values {
    is_descending: bool,
    values: Vec<f64>,
    part: Option<f64>,
}

/// NaN is above all others.
fn order(left: &f64, right: &f64) -> Ordering {
    left.is_nan().cmp(&right.is_nan()).then_with(|| left.partial_cmp(right).unwrap_or(Ordering::Equal))
}

impl Values {
    fn see(&mut self, parts: &ArrayRef) {
        self.part = parts.as_primitive::<Float64Type>().iter().flatten().next().or(self.part);
    }

    fn result(&mut self) -> Result<Option<f64>> {
        let Some(part) = self.part else { return Ok(None) };
        check(part)?;
        let Some(last) = self.values.len().checked_sub(1) else { return Ok(None) };
        let is_descending = self.is_descending;
        let compare = |left: &f64, right: &f64| if is_descending { order(right, left) } else { order(left, right) };
        let place = part * last as f64;
        let (lower, upper) = (place.floor() as usize, place.ceil() as usize);
        let (_, first, rest) = self.values.select_nth_unstable_by(lower.min(last), compare);
        let first = *first;
        if lower == upper {
            return Ok(Some(first));
        }
        let second = rest.iter().copied().min_by(compare).unwrap_or(first);
        Ok(Some(first + (place - lower as f64) * (second - first)))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, parts] = values else { return internal_err!("a percentile is of values and a part") };
        self.see(parts);
        self.values.extend(values.as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists, parts] = states else { return internal_err!("a percentile has two states") };
        self.see(parts);
        let lists = lists.as_list::<i32>();
        for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
            self.values.extend(lists.value(row).as_primitive::<Float64Type>().iter().flatten());
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Float64Array::from(std::mem::take(&mut self.values));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(element(), offsets, Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list)), ScalarValue::Float64(self.part)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.result()?))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(values: &[Option<f64>], part: f64, is_descending: bool) -> Option<f64> {
        // In two parts, one of which comes as a state.
        let (left, right) = values.split_at(values.len() / 2);
        let column = |values: &[Option<f64>]| -> [ArrayRef; 2] {
            [Arc::new(Float64Array::from(values.to_vec())), Arc::new(Float64Array::from(vec![part; values.len()]))]
        };
        let mut other = Values { is_descending, values: Vec::new(), part: None };
        other.update_batch(&column(left)).unwrap();
        let states: Vec<ArrayRef> = other.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
        let mut whole = Values { is_descending, values: Vec::new(), part: None };
        whole.update_batch(&column(right)).unwrap();
        whole.merge_batch(&states).unwrap();
        whole.result().unwrap()
    }

    #[test]
    fn a_percentile_lies_between_two_values() {
        let values = [Some(8.0), None, Some(0.5), Some(7.0), Some(1.5), Some(2.5)];
        // As PostgreSQL 15 says.
        assert_eq!(percentile(&values, 0.95, false), Some(7.8));
        assert_eq!(percentile(&values, 0.0, false), Some(0.5));
        assert_eq!(percentile(&values, 1.0, false), Some(8.0));
        assert_eq!(percentile(&values, 0.5, false), Some(2.5));
        assert_eq!(percentile(&values, 0.0, true), Some(8.0));
        let numbers: Vec<Option<f64>> = (1..=6).map(|number| Some(f64::from(number))).collect();
        assert_eq!(percentile(&numbers, 0.123_456_789_1, false), Some(1.617_283_945_5));
        assert_eq!(percentile(&numbers, 0.37, true), Some(4.15));
    }

    #[test]
    fn nothing_has_no_percentile_and_nan_is_the_greatest() {
        assert_eq!(percentile(&[None, None], 0.5, false), None);
        assert_eq!(percentile(&[Some(f64::NAN), Some(1.0), Some(2.0)], 0.5, false), Some(2.0));
        assert!(percentile(&[Some(f64::NAN), Some(1.0)], 1.0, false).unwrap().is_nan());
        assert!(check(1.5).is_err() && check(f64::NAN).is_err() && check(1.0).is_ok());
    }
}

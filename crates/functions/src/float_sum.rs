//! `sum(double precision)` over the frames of a window: each is added up anew, from its first row, as PostgreSQL does it. The engine takes away
//! what leaves a frame, which leaves what its digits had displaced, and NaN for ever.
//!
//! The rule `NumericAggregates` puts it in place of the engine's in windows alone; averages are made of it.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

/// The aggregate.
pub fn udaf() -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    Arc::new(AggregateUDF::from(FloatSum { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatSum {
    signature: Signature,
}

impl AggregateUDFImpl for FloatSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Total { sum: None }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { values: VecDeque::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", args.name), DataType::Float64, true))])
    }
}

fn floats(array: &ArrayRef) -> impl Iterator<Item = f64> {
    array.as_primitive::<Float64Type>().iter().flatten()
}

/// Of a frame that only grows. What is added to nothing keeps its sign, as a negative zero.
#[derive(Debug)]
struct Total {
    sum: Option<f64>,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in floats(&values[0]) {
            self.sum = Some(self.sum.map_or(value, |sum| sum + value));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.sum))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Float64(self.sum)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Of a frame that loses rows: its values, eight bytes for each that the window holds as a row.
#[derive(Debug)]
struct Frame {
    values: VecDeque<f64>,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(floats(&values[0]));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = floats(&values[0]).count().min(self.values.len());
        self.values.drain(..gone);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.values.iter().copied().reduce(|sum, value| sum + value)))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    fn column(values: &[Option<f64>]) -> [ArrayRef; 1] {
        [Arc::new(Float64Array::from(values.to_vec()))]
    }

    #[test]
    fn what_leaves_a_frame_leaves_nothing_behind() {
        let mut frame = Frame { values: VecDeque::new() };
        frame.update_batch(&column(&[Some(1e20), None, Some(f64::NAN), Some(1.0)])).unwrap();
        frame.retract_batch(&column(&[Some(1e20), None, Some(f64::NAN)])).unwrap();
        frame.update_batch(&column(&[Some(2.0)])).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(3.0)));
        frame.retract_batch(&column(&[Some(1.0), Some(2.0)])).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(None));
    }

    #[test]
    fn a_frame_that_grows_is_added_up_in_its_order() {
        let mut total = Total { sum: None };
        total.update_batch(&column(&[None, Some(0.1), Some(0.2)])).unwrap();
        total.update_batch(&column(&[Some(0.3)])).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Float64(Some(0.1 + 0.2 + 0.3)));
    }
}

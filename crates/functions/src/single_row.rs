//! The one row of a subquery that stands where a value is wanted: an aggregate, because that is how DataFusion joins
//! such a subquery to the rows around it, and a function of what it gives.
//!
//! Such a join groups all rows of the subquery, those too that belong to no row around it, or to one whose value is not asked for, as in
//! a branch of CASE. So the aggregate never fails: it gives what it has seen, and the function, which stands where the value does, refuses
//! what is more than one row.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::format_state_name;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::error::external;

/// The rows of a subquery: none or one with its value, or two where there are more.
pub static SINGLE_ROW: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(AggregateUDF::from(SingleRow { signature: Signature::any(1, Volatility::Immutable) })));

/// The name of the function that [`value_of_one`] calls.
pub const VALUE_OF_ONE: &str = "value_of_one_row";

/// The value of what [`SINGLE_ROW`] gives: NULL of no row, the value of one, 21000 of more.
pub fn value_of_one(rows: Expr) -> Expr {
    let func = Arc::new(ScalarUDF::from(ValueOfOne { signature: Signature::any(1, Volatility::Immutable) }));
    Expr::ScalarFunction(ScalarFunction { func, args: vec![rows] })
}

/// The aggregate. Its result is an array whose metadata are those of the value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

/// The array of values of a type.
fn list_of(value: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(value.clone(), true)))
}

impl AggregateUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(list_of(types.first().unwrap_or(&DataType::Null)))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = fields.first().map_or_else(|| Field::new("", DataType::Null, true), |field| Field::clone(field));
        let rows = list_of(field.data_type());
        Ok(Arc::new(field.with_name(self.name()).with_data_type(rows).with_nullable(true)))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let DataType::List(item) = args.return_field.data_type() else { return exec_err!("rows are an array") };
        Ok(Box::new(Row { value: ScalarValue::try_from(item.data_type())?, item: Arc::clone(item), rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let DataType::List(item) = args.return_field.data_type() else { return exec_err!("rows are an array") };
        let value = Field::new(format_state_name(args.name, "value"), item.data_type().clone(), true);
        let rows = Field::new(format_state_name(args.name, "rows"), DataType::Int64, false);
        Ok(vec![Arc::new(value), Arc::new(rows)])
    }
}

/// What one group has seen: of several rows the first one's value.
#[derive(Debug)]
struct Row {
    value: ScalarValue,
    item: FieldRef,
    rows: i64,
}

impl Row {
    fn see(&mut self, values: &ArrayRef, row: usize, rows: i64) -> Result<()> {
        if self.rows == 0 {
            self.value = ScalarValue::try_from_array(values, row)?;
        }
        self.rows = self.rows.saturating_add(rows);
        Ok(())
    }
}

impl Accumulator for Row {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values[0].len();
        if rows == 0 { Ok(()) } else { self.see(&values[0], 0, i64::try_from(rows).unwrap_or(i64::MAX)) }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let rows = usize::from(self.rows > 0) + usize::from(self.rows > 1);
        let value = self.value.to_array()?;
        let values = match rows {
            0 => new_empty_array(self.item.data_type()),
            1 => value,
            _ => concat(&[value.as_ref(), value.as_ref()])?,
        };
        let list = ListArray::try_new(Arc::clone(&self.item), OffsetBuffer::from_lengths([rows]), values, None)?;
        Ok(ScalarValue::List(Arc::new(list)))
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.rows)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<Int64Type>();
        (0..rows.len())
            .filter(|row| rows.value(*row) > 0)
            .try_for_each(|row| self.see(&states[0], row, rows.value(row)))
    }
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueOfOne {
    signature: Signature,
}

impl ScalarUDFImpl for ValueOfOne {
    fn name(&self) -> &str {
        VALUE_OF_ONE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of a value follows from its rows")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let rows = &args.arg_fields[0];
        match rows.data_type() {
            DataType::List(item) => {
                let value = rows.as_ref().clone().with_name(self.name()).with_data_type(item.data_type().clone());
                Ok(Arc::new(value.with_nullable(true)))
            }
            other => plan_err!("a value of type {other} is no array of rows"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[0].to_array(args.number_rows)?;
        let Some(rows) = rows.as_list_opt::<i32>() else { return exec_err!("rows are an array") };
        let mut places = Vec::with_capacity(rows.len());
        for (at, start) in rows.value_offsets().iter().take(rows.len()).enumerate() {
            let count = if rows.is_null(at) { 0 } else { rows.value_length(at) };
            if count > 1 {
                return Err(external(Error::new(
                    ErrorCode::CardinalityViolation,
                    "more than one row returned by a subquery used as an expression",
                )));
            }
            places.push(if count == 1 { u64::try_from(*start).ok() } else { None });
        }
        Ok(ColumnarValue::Array(take(rows.values().as_ref(), &UInt64Array::from(places), None)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    fn seen(values: &[i32]) -> ScalarValue {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let mut first = Row { value: ScalarValue::Int32(None), item: Arc::clone(&item), rows: 0 };
        let column: ArrayRef = Arc::new(Int32Array::from(values.to_vec()));
        first.update_batch(&[column]).unwrap();
        let states = first.state().unwrap();
        let mut merged = Row { value: ScalarValue::Int32(None), item, rows: 0 };
        let states: Vec<ArrayRef> = states.iter().map(|state| state.to_array().unwrap()).collect();
        merged.merge_batch(&states).unwrap();
        assert_eq!(first.evaluate().unwrap(), merged.evaluate().unwrap());
        merged.evaluate().unwrap()
    }

    #[test]
    fn no_row_is_nothing_one_its_value_and_more_are_two() {
        let list = |values: Vec<Option<i32>>| {
            let item = Arc::new(Field::new_list_field(DataType::Int32, true));
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            ScalarValue::List(Arc::new(ListArray::new(item, offsets, Arc::new(Int32Array::from(values)), None)))
        };
        assert_eq!(seen(&[]), list(vec![]));
        assert_eq!(seen(&[7]), list(vec![Some(7)]));
        assert_eq!(seen(&[7, 8, 9]), list(vec![Some(7), Some(7)]));
    }
}

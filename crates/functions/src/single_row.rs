//! The one row of a subquery that stands where a value is wanted: an aggregate, because that is how DataFusion joins
//! such a subquery to the rows around it.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::format_state_name;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::error::external;

/// NULL of no row, the value of one, 21000 of more.
pub static SINGLE_ROW: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(AggregateUDF::from(SingleRow { signature: Signature::any(1, Volatility::Immutable) })));

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl AggregateUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = fields.first().map_or_else(|| Field::new("", DataType::Null, true), |field| Field::clone(field));
        Ok(Arc::new(field.with_name(self.name()).with_nullable(true)))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Row { value: ScalarValue::try_from(args.return_field.data_type())?, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = Field::new(format_state_name(args.name, "value"), args.return_field.data_type().clone(), true);
        let rows = Field::new(format_state_name(args.name, "rows"), DataType::Int64, false);
        Ok(vec![Arc::new(value), Arc::new(rows)])
    }
}

/// What one group has seen.
#[derive(Debug)]
struct Row {
    value: ScalarValue,
    rows: i64,
}

impl Row {
    fn see(&mut self, values: &ArrayRef, row: usize) -> Result<()> {
        self.rows += 1;
        if self.rows > 1 {
            return Err(external(Error::new(
                ErrorCode::CardinalityViolation,
                "more than one row returned by a subquery used as an expression",
            )));
        }
        self.value = ScalarValue::try_from_array(values, row)?;
        Ok(())
    }
}

impl Accumulator for Row {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|row| self.see(&values[0], row))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.rows)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<Int64Type>();
        (0..rows.len()).filter(|row| rows.value(*row) > 0).try_for_each(|row| self.see(&states[0], row))
    }
}

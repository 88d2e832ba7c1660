//! `+ - *` on integers that fail on overflow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Datum};
use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::external;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckedOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// The operation as a function of two integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedOperation {
    operator: CheckedOperator,
    signature: Signature,
}

impl CheckedOperation {
    /// The function for plans.
    pub fn udf(operator: CheckedOperator) -> ScalarUDF {
        let types = vec![DataType::Int16, DataType::Int32, DataType::Int64];
        ScalarUDF::from(Self { operator, signature: Signature::uniform(2, types, Volatility::Immutable) })
    }

    fn apply(&self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self.operator {
            CheckedOperator::Add => numeric::add(left, right),
            CheckedOperator::Subtract => numeric::sub(left, right),
            CheckedOperator::Multiply => numeric::mul(left, right),
        }
    }
}

impl ScalarUDFImpl for CheckedOperation {
    fn name(&self) -> &str {
        match self.operator {
            CheckedOperator::Add => "checked_add",
            CheckedOperator::Subtract => "checked_subtract",
            CheckedOperator::Multiply => "checked_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Int64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let out_of_range = |error: ArrowError| match error {
            ArrowError::ArithmeticOverflow(_) => external(Error::new(
                ErrorCode::NumericOutOfRange,
                match args.return_field.data_type() {
                    DataType::Int16 => "smallint out of range",
                    DataType::Int32 => "integer out of range",
                    _ => "bigint out of range",
                },
            )),
            other => other.into(),
        };
        let [left, right] = &args.args[..] else {
            return datafusion_common::internal_err!("{} takes two arguments", self.name());
        };
        match (left, right) {
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
                Ok(ColumnarValue::Array(self.apply(left, right).map_err(out_of_range)?))
            }
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => {
                Ok(ColumnarValue::Array(self.apply(left, &right.to_scalar()?).map_err(out_of_range)?))
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => {
                Ok(ColumnarValue::Array(self.apply(&left.to_scalar()?, right).map_err(out_of_range)?))
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let result = self.apply(&left.to_scalar()?, &right.to_scalar()?).map_err(out_of_range)?;
                let result: Arc<dyn Array> = result;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
            }
        }
    }
}

/// A float that divides: 22012 where it is zero.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NonZero {
    signature: Signature,
}

impl NonZero {
    /// The function for plans.
    pub fn udf() -> ScalarUDF {
        let types = vec![DataType::Float32, DataType::Float64];
        ScalarUDF::from(Self { signature: Signature::uniform(1, types, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for NonZero {
    fn name(&self) -> &str {
        "nonzero"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Float64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        use arrow::array::AsArray;
        use arrow::datatypes::{Float32Type, Float64Type};
        let Some(divisor) = args.args.first() else {
            return datafusion_common::internal_err!("nonzero takes one argument");
        };
        let array = divisor.to_array(args.number_rows)?;
        let has_zero = match array.data_type() {
            DataType::Float32 => array.as_primitive::<Float32Type>().iter().any(|value| value == Some(0.0)),
            _ => array.as_primitive::<Float64Type>().iter().any(|value| value == Some(0.0)),
        };
        if has_zero {
            return Err(external(Error::new(ErrorCode::DivisionByZero, "division by zero")));
        }
        Ok(divisor.clone())
    }
}

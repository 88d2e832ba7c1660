//! `+ - * /` of floats that fail where the result is out of range, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use ashlar_base::{Error, ErrorCode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::math::{overflow, underflow};
use crate::error::external;

/// An operation on two floats of one width.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatOperation {
    operator: Operator,
    signature: Signature,
}

impl FloatOperation {
    /// The function for plans.
    pub fn udf(operator: Operator) -> ScalarUDF {
        let types = vec![DataType::Float32, DataType::Float64];
        ScalarUDF::from(Self { operator, signature: Signature::uniform(2, types, Volatility::Immutable) })
    }
}

/// What the checks need of a float.
trait Float: Copy {
    const ZERO: Self;
    fn operate(self, operator: Operator, other: Self) -> Self;
    fn is_infinite(self) -> bool;
    fn is_nan(self) -> bool;
    fn is_zero(self) -> bool;
}

macro_rules! float {
    ($native:ty) => {
        impl Float for $native {
            const ZERO: Self = 0.0;
            fn operate(self, operator: Operator, other: Self) -> Self {
                match operator {
                    Operator::Plus => self + other,
                    Operator::Minus => self - other,
                    Operator::Multiply => self * other,
                    _ => self / other,
                }
            }
            fn is_infinite(self) -> bool {
                <$native>::is_infinite(self)
            }
            fn is_nan(self) -> bool {
                <$native>::is_nan(self)
            }
            fn is_zero(self) -> bool {
                self == Self::ZERO
            }
        }
    };
}
float!(f32);
float!(f64);

/// One result. Source: PostgreSQL's `float8_mul` and its like.
fn checked<F: Float>(operator: Operator, left: F, right: F) -> ashlar_base::Result<F> {
    if operator == Operator::Divide && right.is_zero() && !left.is_nan() {
        return Err(Error::new(ErrorCode::DivisionByZero, "division by zero"));
    }
    let result = left.operate(operator, right);
    if result.is_infinite() && !left.is_infinite() && !right.is_infinite() {
        return Err(overflow());
    }
    if result.is_zero() {
        let is_lost = match operator {
            Operator::Multiply => !left.is_zero() && !right.is_zero(),
            Operator::Divide => !left.is_zero() && !right.is_infinite(),
            _ => false,
        };
        if is_lost {
            return Err(underflow());
        }
    }
    Ok(result)
}

fn apply<T: ArrowPrimitiveType>(operator: Operator, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef>
where
    T::Native: Float,
{
    let operate = |left: T::Native, right: T::Native| {
        checked(operator, left, right).map_err(|error| arrow::error::ArrowError::ExternalError(Box::new(error)))
    };
    let result: PrimitiveArray<T> = try_binary(left.as_primitive::<T>(), right.as_primitive::<T>(), operate)?;
    Ok(Arc::new(result))
}

impl ScalarUDFImpl for FloatOperation {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "float_add",
            Operator::Minus => "float_sub",
            Operator::Multiply => "float_mul",
            _ => "float_div",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Float64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else { return internal_err!("{} takes two arguments", self.name()) };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let array = match left.data_type() {
            DataType::Float32 => apply::<Float32Type>(self.operator, &left, &right),
            _ => apply::<Float64Type>(self.operator, &left, &right),
        };
        let array = array.map_err(|error| external(crate::error::from_datafusion(error)))?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

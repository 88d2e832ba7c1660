//! `+ - * /` of floats, and their sums and averages, that fail where the result is out of range, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::kernels::arity::{binary, try_binary};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

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
    const NAN: Self;
    fn operate(self, operator: Operator, other: Self) -> Self;
    fn is_infinite(self) -> bool;
    fn is_nan(self) -> bool;
    fn is_finite(self) -> bool;
    fn is_zero(self) -> bool;
}

macro_rules! float {
    ($native:ty) => {
        impl Float for $native {
            const ZERO: Self = 0.0;
            const NAN: Self = <$native>::NAN;
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
            fn is_finite(self) -> bool {
                <$native>::is_finite(self)
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
    if result.is_nan() {
        // Processors make NaN with either sign, which groups and lists would tell apart.
        return Ok(F::NAN);
    }
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
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    if left.null_count() == 0
        && right.null_count() == 0
        && let Some(values) = plain(operator, left.values(), right.values())
    {
        return Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), None)));
    }
    let operate = |left: T::Native, right: T::Native| {
        checked(operator, left, right).map_err(|error| arrow::error::ArrowError::ExternalError(Box::new(error)))
    };
    let result: PrimitiveArray<T> = try_binary(left, right, operate)?;
    Ok(Arc::new(result))
}

/// The results of a batch, if there is nothing to be checked about any of them: as a rule, and then several at once.
fn plain<F: Float>(operator: Operator, left: &[F], right: &[F]) -> Option<Vec<F>> {
    // A loop for each operator, which decides nothing between rows.
    match operator {
        Operator::Plus => all_plain(left, right, |left, right| left.operate(Operator::Plus, right)),
        Operator::Minus => all_plain(left, right, |left, right| left.operate(Operator::Minus, right)),
        Operator::Multiply => products(left, right, |left, right| left.operate(Operator::Multiply, right)),
        _ => products(left, right, |left, right| left.operate(Operator::Divide, right)),
    }
}

/// Sums: what is finite is right.
#[inline]
fn all_plain<F: Float>(left: &[F], right: &[F], operate: impl Fn(F, F) -> F) -> Option<Vec<F>> {
    in_steps(left, right, operate, |result, _, _| result.is_finite())
}

/// Products: zero is right where a factor is. A quotient by zero is not finite.
#[inline]
fn products<F: Float>(left: &[F], right: &[F], operate: impl Fn(F, F) -> F) -> Option<Vec<F>> {
    in_steps(left, right, operate, |result, left, right| {
        result.is_finite() & (!result.is_zero() | left.is_zero() | right.is_zero())
    })
}

/// Rows whose results are looked at as soon as they are there: with what they are made of, they are in the processor's nearest cache then.
const TOGETHER: usize = 512;

/// The results, where all of them are plain.
#[inline]
fn in_steps<F: Float>(
    left: &[F],
    right: &[F],
    operate: impl Fn(F, F) -> F,
    is_plain: impl Fn(F, F, F) -> bool,
) -> Option<Vec<F>> {
    let mut results = Vec::with_capacity(left.len());
    for (left, right) in left.chunks(TOGETHER).zip(right.chunks(TOGETHER)) {
        let start = results.len();
        results.extend(left.iter().zip(right).map(|(left, right)| operate(*left, *right)));
        let each = results[start..].iter().zip(left.iter().zip(right));
        if !each.fold(true, |all, (result, (left, right))| all & is_plain(*result, *left, *right)) {
            return None;
        }
    }
    Some(results)
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

/// What stands beside a float's sum, to tell a result that grew out of range from one of an infinite input.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum FloatCheck {
    /// 0 of a finite number, NaN of any other: added up they are 0 where all were finite.
    Mark(Signature),
    /// A result, with the sum of its inputs' marks.
    Result(Signature),
    /// Likewise, divided by the number of inputs: however small that is, as PostgreSQL's `float8_avg`.
    Average(Signature),
}

impl FloatCheck {
    /// `0` or NaN of a float.
    pub fn mark() -> ScalarUDF {
        ScalarUDF::from(Self::Mark(Signature::exact(vec![DataType::Float64], Volatility::Immutable)))
    }

    /// The result, where it is finite or its inputs were not.
    pub fn result() -> ScalarUDF {
        let types = vec![DataType::Float64, DataType::Float64];
        ScalarUDF::from(Self::Result(Signature::exact(types, Volatility::Immutable)))
    }

    /// The same of a sum, divided by a number of inputs.
    pub fn average() -> ScalarUDF {
        let types = vec![DataType::Float64, DataType::Float64, DataType::Int64];
        ScalarUDF::from(Self::Average(Signature::exact(types, Volatility::Immutable)))
    }
}

impl ScalarUDFImpl for FloatCheck {
    fn name(&self) -> &str {
        match self {
            Self::Mark(_) => "float_mark",
            Self::Result(_) => "float_result",
            Self::Average(_) => "float_average",
        }
    }

    fn signature(&self) -> &Signature {
        let (Self::Mark(signature) | Self::Result(signature) | Self::Average(signature)) = self;
        signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let values = arrays[0].as_primitive::<Float64Type>();
        if let Self::Mark(_) = self {
            let marks: PrimitiveArray<Float64Type> =
                values.unary(|value| if value.is_finite() { 0.0 } else { f64::NAN });
            return Ok(ColumnarValue::Array(Arc::new(marks)));
        }
        let marks = arrays[1].as_primitive::<Float64Type>();
        let is_lost = |(value, mark): (Option<f64>, Option<f64>)| matches!((value, mark), (Some(value), Some(mark)) if !value.is_finite() && mark.is_finite());
        if values.iter().zip(marks).any(is_lost) {
            return Err(external(overflow()));
        }
        if let Self::Average(_) = self {
            let counts = arrays[2].as_primitive::<Int64Type>();
            let averages: PrimitiveArray<Float64Type> = binary(values, counts, |sum, count| sum / count as f64)?;
            return Ok(ColumnarValue::Array(Arc::new(averages)));
        }
        Ok(ColumnarValue::Array(Arc::clone(&arrays[0])))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    #[test]
    fn batches_are_as_row_by_row() {
        let few = [0.0, -0.0, 1.5, -2.0, 1e200, -1e200, 1e-200, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for operator in [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide] {
            for left in few {
                for right in few {
                    let one = checked(operator, left, right).map(f64::to_bits).ok();
                    // Among rows that are nothing out of the ordinary, few of them and more than are looked at together, and alone.
                    for beside in [vec![], vec![3.0; 9], vec![3.0; TOGETHER + 100]] {
                        let with = |value: f64| -> ArrayRef {
                            let rows = beside.iter().chain([&value]).chain(&beside);
                            Arc::new(Float64Array::from_iter_values(rows.copied()))
                        };
                        let all = apply::<Float64Type>(operator, &with(left), &with(right)).ok();
                        let all = all.map(|all| all.as_primitive::<Float64Type>().value(beside.len()).to_bits());
                        assert_eq!(all, one, "{left} {operator} {right}");
                    }
                }
            }
        }
    }
}

//! `+ - * / %` of numerics whose result may have more digits than the engine checks for.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef};
use ashlar_base::{Error, ErrorCode, ScalarType, SqlType};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::catalog::numeric;
use super::wide;
use crate::error::external;
use crate::fields::field_of;

/// Digits after the point of a quotient where they fit: what PostgreSQL gives a quotient below one.
pub(crate) const QUOTIENT_SCALE: i32 = 20;
/// And where they do not: what it gives from one on.
pub(crate) const QUOTIENT_SCALE_MIN: i32 = 16;

/// Digits after the point of an average, as PostgreSQL has of averages from one to ten thousand.
pub const AVERAGE_SCALE: i32 = 16;

/// An operation on two numerics with a result of this type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NumericOperation {
    operator: Operator,
    to: SqlType,
    signature: Signature,
}

/// The type of a result, of operands with these precisions and scales.
pub fn result_type(operator: Operator, left: (i32, i32), right: (i32, i32)) -> SqlType {
    let scale = left.1.max(right.1);
    let whole = (left.0 - left.1).max(right.0 - right.1);
    match operator {
        // Quotients, averages and roots are rounded, and take all digits there are: so is a product of two of them, which needs digits
        // before the point.
        Operator::Multiply if left.0 == 38 && right.0 == 38 && left.1.min(right.1) >= QUOTIENT_SCALE_MIN => {
            numeric(38, QUOTIENT_SCALE)
        }
        Operator::Multiply => numeric(left.0 + right.0, left.1 + right.1),
        Operator::Divide => {
            let whole = left.0 - left.1 + right.1;
            numeric(38, (38 - whole).clamp(QUOTIENT_SCALE_MIN, QUOTIENT_SCALE).max(scale))
        }
        Operator::Modulo => numeric(whole + scale, scale),
        _ => numeric(whole + scale + 1, scale),
    }
}

/// Whether the engine's own operation cannot go wrong: every result fits 38 digits, and none is rounded.
pub fn is_native(operator: Operator, left: (i32, i32), right: (i32, i32)) -> bool {
    let aligned = (left.0 - left.1).max(right.0 - right.1) + left.1.max(right.1);
    match operator {
        Operator::Multiply => left.0 + right.0 < 38,
        Operator::Divide => false,
        Operator::Modulo => aligned <= 38,
        _ => aligned < 38,
    }
}

/// The operation on unscaled values.
///
/// # Errors
/// 22003, 22012
pub fn operate(operator: Operator, left: (i128, i32), right: (i128, i32), to: SqlType) -> ashlar_base::Result<i128> {
    let is_zero = matches!(operator, Operator::Divide | Operator::Modulo) && right.0 == 0;
    if is_zero {
        return Err(Error::new(ErrorCode::DivisionByZero, "division by zero"));
    }
    match operator {
        Operator::Multiply => wide::product(left, right, to),
        Operator::Divide => wide::quotient(left, right, to),
        Operator::Modulo => wide::remainder(left, right, to),
        Operator::Minus => wide::sum(left, (-right.0, right.1), to),
        _ => wide::sum(left, right, to),
    }
}

impl NumericOperation {
    /// The function for plans.
    pub fn udf(operator: Operator, to: SqlType) -> ScalarUDF {
        ScalarUDF::from(Self { operator, to, signature: Signature::any(2, Volatility::Immutable) })
    }

    /// Which operation.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The type of its result.
    pub fn result(&self) -> SqlType {
        self.to
    }
}

impl ScalarUDFImpl for NumericOperation {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "numeric_add",
            Operator::Minus => "numeric_sub",
            Operator::Multiply => "numeric_mul",
            Operator::Divide => "numeric_div",
            _ => "numeric_mod",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(field_of(self.name(), self.to).data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(field_of(self.name(), self.to))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else { return internal_err!("{} takes two arguments", self.name()) };
        let scale_of = |at: usize| match args.arg_fields[at].data_type() {
            DataType::Decimal128(_, scale) => Ok(i32::from(*scale)),
            other => internal_err!("{} takes numerics, not {other}", self.name()),
        };
        let ScalarType::Numeric { precision, scale } = self.to.scalar() else {
            return internal_err!("{} gives a numeric", self.name());
        };
        let (left_scale, right_scale) = (scale_of(0)?, scale_of(1)?);
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let pairs = left.as_primitive::<Decimal128Type>().iter().zip(right.as_primitive::<Decimal128Type>());
        let bound = 10u128.pow(precision.into());
        let values = pairs.map(|pair| match pair {
            (Some(left), Some(right)) => {
                // Products of few digits need no more than 128 bits.
                if self.operator == Operator::Multiply
                    && i32::from(scale) == left_scale + right_scale
                    && let Some(product) = left.checked_mul(right)
                    && product.unsigned_abs() < bound
                {
                    return Ok(Some(product));
                }
                operate(self.operator, (left, left_scale), (right, right_scale), self.to).map(Some).map_err(external)
            }
            _ => Ok(None),
        });
        let array: Decimal128Array = values.collect::<Result<Vec<Option<i128>>>>()?.into();
        let array: ArrayRef = Arc::new(array.with_precision_and_scale(precision, scale.cast_signed())?);
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The scale that PostgreSQL gives the quotient of two constants: sixteen significant digits at least, counted in
/// groups of four. Source: `select_div_scale` in PostgreSQL's numeric.c.
pub fn quotient_scale(left: (i128, i32), right: (i128, i32)) -> i32 {
    let (left_weight, left_first) = leading_group(left);
    let (right_weight, right_first) = leading_group(right);
    let weight = left_weight - right_weight - i32::from(left_first <= right_first);
    (16 - 4 * weight).max(left.1).max(right.1).max(0)
}

/// The place of the first group of four digits, counted from the point, and its value.
fn leading_group((unscaled, scale): (i128, i32)) -> (i32, u128) {
    if unscaled == 0 {
        return (0, 0);
    }
    let digits = unscaled.unsigned_abs().ilog10() as i32 + 1;
    let place = digits - 1 - scale;
    let wanted = place.rem_euclid(4) + 1;
    let group = if digits >= wanted {
        unscaled.unsigned_abs() / 10u128.pow((digits - wanted).unsigned_abs())
    } else {
        unscaled.unsigned_abs() * 10u128.pow((wanted - digits).unsigned_abs())
    };
    (place.div_euclid(4), group)
}

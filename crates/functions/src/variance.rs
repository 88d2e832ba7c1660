//! `variance`, `stddev` and their like of exact numbers: numeric, from exact sums, rounded once.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, i256};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::wide;
use crate::error::external;

/// Digits after the point of a result.
pub const SCALE: i8 = 16;

/// One, with these digits.
const ONE: i128 = 10_i128.pow(16);

/// Which of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variance {
    /// Of a sample, divided by one less than the count.
    is_sample: bool,
    /// The square root of it.
    is_deviation: bool,
}

impl Variance {
    /// The function of this name.
    pub fn named(name: &str) -> Option<Self> {
        let (is_sample, is_deviation) = match name {
            "var" | "variance" | "var_samp" => (true, false),
            "var_pop" => (false, false),
            "stddev" | "stddev_samp" => (true, true),
            "stddev_pop" => (false, true),
            _ => return None,
        };
        Some(Self { is_sample, is_deviation })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumericVariance {
    variance: Variance,
    scale: i8,
    signature: Signature,
}

/// The aggregate of numerics with this scale.
pub fn udaf(variance: Variance, scale: i8) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(NumericVariance { variance, scale, signature }))
}

impl AggregateUDFImpl for NumericVariance {
    fn name(&self) -> &str {
        match (self.variance.is_sample, self.variance.is_deviation) {
            (true, false) => "numeric_var_samp",
            (false, false) => "numeric_var_pop",
            (true, true) => "numeric_stddev_samp",
            (false, true) => "numeric_stddev_pop",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, SCALE))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| Arc::new(Field::new(format!("{}[{name}]", args.name), data_type, true));
        Ok(vec![
            field("count", DataType::Int64),
            field("sum", DataType::Decimal256(76, 0)),
            field("squares", DataType::Decimal256(76, 0)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Err(external(ashlar_base::Error::unsupported("variance of distinct numerics is not supported")));
        }
        Ok(Box::new(Sums {
            variance: self.variance,
            scale: self.scale,
            count: 0,
            sum: i256::ZERO,
            squares: i256::ZERO,
        }))
    }
}

/// Unscaled sums of values and of their squares.
#[derive(Debug)]
struct Sums {
    variance: Variance,
    scale: i8,
    count: i64,
    sum: i256,
    squares: i256,
}

impl Sums {
    fn add(&mut self, value: i128, sign: i64) -> ashlar_base::Result<()> {
        let wide = i256::from_i128(value);
        let square = wide.checked_mul(wide).ok_or_else(wide::too_many_digits)?;
        let (value, square) = if sign < 0 { (wide.wrapping_neg(), square.wrapping_neg()) } else { (wide, square) };
        self.count += sign;
        self.sum = self.sum.checked_add(value).ok_or_else(wide::too_many_digits)?;
        self.squares = self.squares.checked_add(square).ok_or_else(wide::too_many_digits)?;
        Ok(())
    }

    fn result(&self) -> ashlar_base::Result<Option<i128>> {
        let divisor = if self.variance.is_sample { self.count - 1 } else { self.count };
        if divisor <= 0 {
            return Ok(None);
        }
        let count = i256::from_i128(self.count.into());
        let whole = self.squares.checked_mul(count).ok_or_else(wide::too_many_digits)?;
        let square = self.sum.checked_mul(self.sum).ok_or_else(wide::too_many_digits)?;
        let numerator = whole.checked_sub(square).ok_or_else(wide::too_many_digits)?;
        let denominator = count.checked_mul(i256::from_i128(divisor.into())).ok_or_else(wide::too_many_digits)?;
        let scale = 2 * i32::from(self.scale);
        if self.variance.is_deviation {
            let digits = i32::from(SCALE);
            // PostgreSQL takes the root of a variance as it shows it: from one on with these digits, below with more.
            if let Ok(shown) = wide::wide_quotient(numerator, denominator, scale, digits)
                && shown >= ONE
            {
                return wide::square_root(shown, digits, digits).map(Some);
            }
            wide::root_of_quotient(numerator, denominator, scale, digits).map(Some)
        } else {
            wide::wide_quotient(numerator, denominator, scale, i32::from(SCALE)).map(Some)
        }
    }

    fn each(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let Some(array) = values.first() else { return internal_err!("variance takes one argument") };
        for value in array.as_primitive::<Decimal128Type>().iter().flatten() {
            self.add(value, sign).map_err(external)?;
        }
        Ok(())
    }
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums, squares] = states else { return internal_err!("variance has three states") };
        let counts = counts.as_primitive::<Int64Type>();
        let (sums, squares) = (sums.as_primitive::<Decimal256Type>(), squares.as_primitive::<Decimal256Type>());
        for row in 0..counts.len() {
            let added =
                |left: i256, right: i256| left.checked_add(right).ok_or_else(|| external(wide::too_many_digits()));
            self.count += counts.value(row);
            self.sum = added(self.sum, sums.value(row))?;
            self.squares = added(self.squares, squares.value(row))?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.count)),
            ScalarValue::Decimal256(Some(self.sum), 76, 0),
            ScalarValue::Decimal256(Some(self.squares), 76, 0),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128(self.result().map_err(external)?, 38, SCALE))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

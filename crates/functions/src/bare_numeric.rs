//! `x::numeric` without a precision, of what is no constant: exact, or refused.
//!
//! PostgreSQL keeps each value's own digits; here a column has one scale. Of integers and numerics that is their own. What
//! floats and texts hold is known when it is read: they get [`SCALE`] digits behind the point, and a value with more of them
//! is refused, never rounded. The type planner marks such a cast by its field; the planner puts the function in its place,
//! whose type follows that of its argument, whatever becomes of it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Datum, Error, ErrorCode, ScalarType, SqlType, Value};
use ashlar_store::ColumnReader;
use ashlar_store::arrow_types::{sql_type_of, to_arrow_type};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::expr::{Cast, ScalarFunction};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::external;
use crate::fields::field_of;

/// Digits behind the point of what is read of a float or a text: a double precision has 15 digits in all.
const SCALE: u8 = 16;
/// The metadata key of the field of such a cast.
const MARK: &str = "ashlar.bare_numeric";

/// The field of a cast whose type is still to be found.
pub fn marked_field() -> FieldRef {
    let metadata = HashMap::from([(MARK.to_owned(), String::new())]);
    Arc::new(Field::new("cast", DataType::Decimal128(38, SCALE.cast_signed()), true).with_metadata(metadata))
}

/// The function in the place of a marked cast; `None` for other expressions.
pub fn of_cast(expr: &Expr) -> Option<Expr> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(BareNumeric { signature: Signature::any(1, Volatility::Immutable) }))
    });
    let Expr::Cast(Cast { expr: inner, field }) = expr else { return None };
    field.metadata().contains_key(MARK).then(|| {
        let args = vec![Expr::clone(inner)];
        Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&FUNCTION), args })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BareNumeric {
    signature: Signature,
}

/// The type of the result for an argument of this one.
fn result_of(data_type: &DataType) -> Result<SqlType> {
    let (precision, scale) = match data_type {
        DataType::Int8 | DataType::Int16 => (5, 0),
        DataType::Int32 | DataType::UInt8 | DataType::UInt16 => (10, 0),
        DataType::Int64 | DataType::UInt32 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal128(precision, scale) => (*precision, u8::try_from(*scale).unwrap_or(0)),
        DataType::Null
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => (38, SCALE),
        other => {
            let known = sql_type_of(&Field::new("value", other.clone(), true));
            let from = known.map_or_else(|| other.to_string(), |sql_type| sql_type.to_string());
            let message = format!("cannot cast type {from} to numeric");
            return Err(external(Error::new(ErrorCode::CannotCoerce, message)));
        }
    };
    Ok(ScalarType::Numeric { precision, scale }.into())
}

impl ScalarUDFImpl for BareNumeric {
    fn name(&self) -> &str {
        "numeric"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(to_arrow_type(result_of(types.first().unwrap_or(&DataType::Null))?))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(field) = args.arg_fields.first() else { return internal_err!("a cast takes one argument") };
        Ok(field_of(self.name(), result_of(field.data_type())?))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(converted(array)?)),
            Some(ColumnarValue::Scalar(scalar)) => {
                let array = converted(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            None => internal_err!("a cast takes one argument"),
        }
    }
}

fn converted(array: &ArrayRef) -> Result<ArrayRef> {
    let to = to_arrow_type(result_of(array.data_type())?);
    match array.data_type() {
        DataType::Null => Ok(new_null_array(&to, array.len())),
        DataType::Decimal128(..) => Ok(Arc::clone(array)),
        // As many digits as PostgreSQL takes of them.
        DataType::Float32 => {
            let texts = array.as_primitive::<Float32Type>().iter();
            read(texts.map(|number| number.map(|number| format!("{number:.5e}"))))
        }
        DataType::Float64 => {
            let texts = array.as_primitive::<Float64Type>().iter();
            read(texts.map(|number| number.map(|number| format!("{number:.14e}"))))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let reader = ColumnReader::new(array, SqlType::Scalar(ScalarType::Text)).map_err(external)?;
            read((0..array.len()).map(|row| match reader.datum(row) {
                Datum::Text(text) => Some(text.to_owned()),
                _ => None,
            }))
        }
        _ => Ok(arrow::compute::cast(array, &to)?),
    }
}

fn read(texts: impl Iterator<Item = Option<String>>) -> Result<ArrayRef> {
    let numbers = texts.map(|text| text.map(|text| number(&text)).transpose());
    let numbers: Decimal128Array =
        numbers.collect::<ashlar_base::Result<Vec<Option<i128>>>>().map_err(external)?.into();
    Ok(Arc::new(numbers.with_precision_and_scale(38, SCALE.cast_signed())?))
}

/// The unscaled value of a text.
fn number(text: &str) -> ashlar_base::Result<i128> {
    let text = match text {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        text => text,
    };
    let sql_type = ScalarType::Numeric { precision: 38, scale: SCALE }.into();
    let value = text::parse(sql_type, text, &TextStyle::default())?;
    if decimals(text) > i64::from(SCALE) {
        return Err(Error::unsupported(format!(
            "a cast to numeric of a value with more than {SCALE} digits behind the point is not supported"
        ))
        .with_hint("Say how many digits: numeric(precision, scale), precision at most 38."));
    }
    match value {
        Value::Numeric(number) => Ok(number),
        other => Err(Error::internal(format!("a numeric was read as {other:?}"))),
    }
}

/// Digits behind the point, without zeros at the end.
fn decimals(text: &str) -> i64 {
    let (mantissa, exponent) = text.trim().split_once(['e', 'E']).unwrap_or((text.trim(), "0"));
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction).trim_end_matches('0');
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let is_zero = mantissa.bytes().all(|byte| !matches!(byte, b'1'..=b'9'));
    if is_zero { 0 } else { fraction.len() as i64 - exponent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray};

    fn shown(array: ArrayRef) -> Vec<String> {
        match converted(&array) {
            Ok(array) => {
                let numbers = array.as_primitive::<arrow::datatypes::Decimal128Type>();
                (0..numbers.len()).map(|row| numbers.value_as_string(row)).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn values_keep_their_digits() {
        assert_eq!(shown(Arc::new(Int32Array::from(vec![7, -1]))), ["7", "-1"]);
        assert_eq!(
            shown(Arc::new(Float64Array::from(vec![0.1, 1.5e10, 0.1 + 0.2]))),
            ["0.1000000000000000", "15000000000.0000000000000000", "0.3000000000000000"]
        );
        assert_eq!(
            shown(Arc::new(StringArray::from(vec![" 2.50 ", "1e-3"]))),
            ["2.5000000000000000", "0.0010000000000000"]
        );
    }

    #[test]
    fn what_would_lose_digits_is_refused() {
        for array in [
            Arc::new(Float64Array::from(vec![1.234e-15])) as ArrayRef,
            Arc::new(StringArray::from(vec!["0.12345678901234567"])),
        ] {
            let told = shown(array);
            assert!(told[0].contains("more than 16 digits behind the point"), "{told:?}");
        }
    }
}

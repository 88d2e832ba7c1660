//! Casts as functions: text to a type, a type to text, and between numbers, by the value codecs of `base`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringBuilder};
use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::value::coerce_with;
use ashlar_base::value::text::{self, TextStyle, Zone};
use ashlar_base::{Datum, Error, ErrorCode, ScalarType, SqlType, Value};
use ashlar_store::arrow_types::sql_type_of;
use ashlar_store::{ColumnReader, build_array};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::error::external;
use crate::fields::field_of;

macro_rules! cast_function {
    ($(#[$doc:meta])* $name:ident, $sql_name:literal) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            target: SqlType,
            zone: Zone,
            signature: Signature,
        }

        impl $name {
            /// The cast to `target`, in a session's time zone.
            pub fn new(target: SqlType, zone: Zone) -> Self {
                Self { target, zone, signature: Signature::any(1, Volatility::Immutable) }
            }
        }

        impl ScalarUDFImpl for $name {
            fn name(&self) -> &str {
                $sql_name
            }

            fn signature(&self) -> &Signature {
                &self.signature
            }

            fn return_type(&self, _: &[DataType]) -> Result<DataType> {
                Ok(field_of(self.name(), self.target).data_type().clone())
            }

            fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
                Ok(field_of(self.name(), self.target))
            }

            fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
                let Some(argument) = args.args.first() else {
                    return internal_err!("a cast takes one argument");
                };
                let field = &args.arg_fields[0];
                match argument {
                    ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.cast(field, array)?)),
                    ColumnarValue::Scalar(scalar) => {
                        let result = self.cast(field, &scalar.to_array()?)?;
                        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
                    }
                }
            }
        }
    };
}

cast_function!(
    /// `text -> type`: PostgreSQL's input function of the type.
    FromText, "from_text"
);
cast_function!(
    /// `type -> text`: PostgreSQL's output function of the type.
    ToText, "to_text"
);
cast_function!(
    /// Among dates, times, timestamps, instants and intervals: with the session's zone in between.
    TimeCast, "time_cast"
);
cast_function!(
    /// Between numbers: rounds half away from zero (from numeric) or to even (from float), 22003 when out of range.
    NumberCast, "number_cast"
);

cast_function!(
    /// `jsonb -> number or boolean`: of a value of that kind.
    FromJsonb, "from_jsonb"
);

impl FromText {
    /// Reads a literal, to say what is wrong with it.
    ///
    /// # Errors
    /// As the type's input function.
    pub fn check(target: SqlType, text: &str) -> ashlar_base::Result<()> {
        match target {
            // An explicit cast cuts these.
            SqlType::Scalar(ScalarType::Varchar { .. } | ScalarType::Char { .. }) => Ok(()),
            target => text::parse(target, text, &TextStyle::default()).map(drop),
        }
    }

    fn cast(&self, _: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
        let text = SqlType::Scalar(ScalarType::Text);
        let reader = ColumnReader::new(array, text).map_err(external)?;
        let style = TextStyle { zone: self.zone };
        let mut values = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            values.push(match reader.datum(row) {
                Datum::Text(text) => match self.target {
                    // An explicit cast to varchar(n) cuts silently.
                    SqlType::Scalar(
                        ScalarType::Varchar { length: Some(length) } | ScalarType::Char { length: Some(length) },
                    ) => {
                        let cut = text.char_indices().nth(length as usize).map_or(text, |(at, _)| &text[..at]);
                        text::parse(self.target, cut, &style).map_err(external)?
                    }
                    target => text::parse(target, text, &style).map_err(external)?,
                },
                _ => Value::Null,
            });
        }
        build_array(self.target, values.iter().map(Value::as_datum)).map_err(external)
    }
}

impl ToText {
    fn cast(&self, field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
        let Some(source) = sql_type_of(field) else {
            return Ok(arrow::compute::cast(array, &DataType::Utf8)?);
        };
        let reader = ColumnReader::new(array, source).map_err(external)?;
        let style = TextStyle { zone: self.zone };
        let mut builder = StringBuilder::new();
        let mut buffer = Vec::new();
        for row in 0..array.len() {
            match reader.datum(row) {
                Datum::Null => builder.append_null(),
                // PostgreSQL spells booleans out in casts, and only there.
                Datum::Bool(value) => builder.append_value(self.limited(if value { "true" } else { "false" })),
                datum => {
                    buffer.clear();
                    text::write(source, &datum, &style, &mut buffer);
                    let text = std::str::from_utf8(&buffer).unwrap_or_default();
                    builder.append_value(self.limited(text));
                }
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

impl ToText {
    /// As an explicit cast to varchar(n) cuts.
    fn limited<'a>(&self, text: &'a str) -> &'a str {
        let (length, is_blank) = match self.target {
            SqlType::Scalar(ScalarType::Varchar { length: Some(length) }) => (length, false),
            SqlType::Scalar(ScalarType::Char { length: Some(length) }) => (length, true),
            _ => return text,
        };
        let end = text.char_indices().nth(length as usize).map_or(text.len(), |(at, _)| at);
        if is_blank { text[..end].trim_end_matches(' ') } else { &text[..end] }
    }
}

impl NumberCast {
    /// Whether Arrow's own cast would wrap, cut or round differently from PostgreSQL.
    pub fn covers(from: &DataType, to: &DataType) -> bool {
        use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64};
        match (from, to) {
            (Float32 | Float64, Int16 | Int32 | Int64 | Decimal128(..)) | (Float64, Float32) => true,
            (Decimal128(..), Float32 | Float64) => true,
            (Decimal128(..), Int16 | Int32 | Int64) => true,
            (Decimal128(from, from_scale), Decimal128(to, to_scale)) => {
                // Digits are cut on either side of the point.
                to_scale < from_scale
                    || i16::from(*to) - i16::from(*to_scale) < i16::from(*from) - i16::from(*from_scale)
            }
            (Int16 | Int32 | Int64, Decimal128(to, to_scale)) => i16::from(*to) - i16::from(*to_scale) < 19,
            (Int64, Int32 | Int16) | (Int32, Int16) => true,
            _ => false,
        }
    }

    fn cast(&self, field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
        match exact_floats(array, self.target) {
            Some(floats) => Ok(floats),
            None => coerced(field, array, self.target, self.zone),
        }
    }
}

impl TimeCast {
    /// Whether Arrow's own cast would not know the session's zone, or cut where PostgreSQL rounds down.
    pub fn covers(from: &DataType, to: &DataType) -> bool {
        use DataType::{Date32, Interval, Time64, Timestamp};
        match (from, to) {
            (Timestamp(_, from), Timestamp(_, to)) => from.is_some() != to.is_some(),
            (Date32, Timestamp(_, to)) => to.is_some(),
            (Timestamp(..), Date32 | Time64(_)) | (Interval(_), Time64(_)) | (Time64(_), Interval(_)) => true,
            _ => false,
        }
    }

    fn cast(&self, field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
        coerced(field, array, self.target, self.zone)
    }
}

impl FromJsonb {
    /// Whether PostgreSQL casts jsonb to this type by its value, not by its text.
    pub fn covers(source: &FieldRef, target: SqlType) -> bool {
        let is_jsonb = sql_type_of(source) == Some(SqlType::Scalar(ScalarType::Jsonb));
        is_jsonb && matches!(target, SqlType::Scalar(scalar) if scalar == ScalarType::Bool || scalar.is_number())
    }

    fn cast(&self, _: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
        let reader = ColumnReader::new(array, SqlType::Scalar(ScalarType::Text)).map_err(external)?;
        let style = TextStyle { zone: self.zone };
        let mut values = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            values.push(match reader.datum(row) {
                Datum::Text(text) => of_jsonb(text, self.target, &style).map_err(external)?,
                _ => Value::Null,
            });
        }
        build_array(self.target, values.iter().map(Value::as_datum)).map_err(external)
    }
}

/// A jsonb value, by its text, as a number or a boolean.
///
/// # Errors
/// 22023 for a value of another kind, 22003 for a number that does not fit.
fn of_jsonb(json: &str, target: SqlType, style: &TextStyle) -> ashlar_base::Result<Value> {
    let kind = match json.bytes().next() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "numeric",
    };
    match (kind, target) {
        ("boolean", SqlType::Scalar(ScalarType::Bool)) => text::parse(target, json, style),
        // A numeric in between: rounded, not refused for its fraction.
        ("numeric", SqlType::Scalar(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8)) => {
            let whole = ScalarType::Numeric { precision: 38, scale: 0 }.into();
            coerce_with(text::parse(whole, json, style)?, whole, target, style)
        }
        ("numeric", SqlType::Scalar(scalar)) if scalar.is_number() => text::parse(target, json, style),
        _ => {
            let name = match target.scalar() {
                ScalarType::Numeric { .. } => "numeric".to_owned(),
                scalar => scalar.to_string(),
            };
            let message = format!("cannot cast jsonb {kind} to type {name}");
            Err(Error::new(ErrorCode::InvalidParameterValue, message))
        }
    }
}

fn coerced(field: &FieldRef, array: &ArrayRef, target: SqlType, zone: Zone) -> Result<ArrayRef> {
    let Some(source) = sql_type_of(field) else {
        return internal_err!("a value of type {} cannot be cast", field.data_type());
    };
    let reader = ColumnReader::new(array, source).map_err(external)?;
    let style = TextStyle { zone };
    let mut values = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        values.push(coerce_with(reader.datum(row).to_value(), source, target, &style).map_err(external)?);
    }
    build_array(target, values.iter().map(Value::as_datum)).map_err(external)
}

/// Numerics as double precision, where every one of them is a quotient of two floats that are exact: the nearest
/// float, as reading the digits would give.
fn exact_floats(array: &ArrayRef, target: SqlType) -> Option<ArrayRef> {
    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::Decimal128Type;
    /// Whole numbers below are exact in a double, and so are powers of ten up to the 22nd.
    const EXACT_BELOW: u128 = 1 << 53;
    const EXACT_POWER_MAX: i8 = 22;
    let DataType::Decimal128(_, scale @ 0..=EXACT_POWER_MAX) = array.data_type() else { return None };
    let values = array.as_primitive::<Decimal128Type>();
    let is_exact = values.values().iter().all(|value| value.unsigned_abs() < EXACT_BELOW);
    if target != SqlType::Scalar(ScalarType::Float8) || !is_exact {
        return None;
    }
    let divisor = 10f64.powi(i32::from(*scale));
    let floats: Float64Array = values.unary(|value| value as f64 / divisor);
    Some(Arc::new(floats))
}

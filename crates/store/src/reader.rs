//! Arrow arrays read as datums: what a query results in, on its way to a client or into a table.
//!
//! Called by doors and by DML for every value, so the array's type is looked at once. Any Arrow array whose values
//! the SQL type can represent is accepted: other widths, other units, other scales, views, dictionaries.

use std::marker::PhantomData;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    LargeBinaryArray, LargeStringArray, ListArray, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, DurationMicrosecondType, IntervalMonthDayNano, TimeUnit};
use arrow::util::display::FormatOptions;
use ashlar_base::{Datum, Error, ErrorCode, Interval, Items, Result, ScalarType, SqlType};

use crate::arrow_types::to_arrow_type;
use crate::segment::NANOS_PER_MICRO;

/// See the module. Cheap to make: it shares the array's memory, unless values must be converted.
pub struct ColumnReader<'a> {
    values: Values,
    nulls: Option<NullBuffer>,
    len: usize,
    array: PhantomData<&'a ArrayRef>,
}

enum Values {
    Null,
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric(Decimal128Array),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytea(BinaryArray),
    LargeBytea(LargeBinaryArray),
    ByteaView(BinaryViewArray),
    FixedBytea(FixedSizeBinaryArray),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    Uuid(FixedSizeBinaryArray),
    List(ListArray, Box<ColumnReader<'static>>),
}

impl<'a> ColumnReader<'a> {
    /// Reads an array as values of a SQL type. 22003 where a value does not fit, 42804 where the array holds
    /// something else.
    pub fn new(array: &'a ArrayRef, sql_type: SqlType) -> Result<Self> {
        Self::shared(array, sql_type)
    }
}

impl ColumnReader<'_> {
    /// Like `new`, and lives as long as it likes.
    pub(crate) fn shared(array: &ArrayRef, sql_type: SqlType) -> Result<Self> {
        let values = Values::new(array, sql_type)?;
        let nulls = match &values {
            Values::Null => None,
            Values::List(list, _) => list.nulls().cloned(),
            // A cast keeps validity; dictionaries and runs have theirs in the values.
            _ => array.logical_nulls(),
        };
        Ok(Self { values, nulls, len: array.len(), array: PhantomData })
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a row. Nothing is copied, but for arrays.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn datum(&self, row: usize) -> Datum<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Datum::Null;
        }
        match &self.values {
            Values::Null => Datum::Null,
            Values::Bool(array) => Datum::Bool(array.value(row)),
            Values::Int2(array) => Datum::Int2(array.value(row)),
            Values::Int4(array) => Datum::Int4(array.value(row)),
            Values::Int8(array) => Datum::Int8(array.value(row)),
            Values::Float4(array) => Datum::Float4(array.value(row)),
            Values::Float8(array) => Datum::Float8(array.value(row)),
            Values::Numeric(array) => Datum::Numeric(array.value(row)),
            Values::Text(array) => Datum::Text(array.value(row)),
            Values::LargeText(array) => Datum::Text(array.value(row)),
            Values::TextView(array) => Datum::Text(array.value(row)),
            Values::Bytea(array) => Datum::Bytea(array.value(row)),
            Values::LargeBytea(array) => Datum::Bytea(array.value(row)),
            Values::ByteaView(array) => Datum::Bytea(array.value(row)),
            Values::FixedBytea(array) => Datum::Bytea(array.value(row)),
            Values::Date(array) => Datum::Date(array.value(row)),
            Values::Time(array) => Datum::Time(array.value(row)),
            Values::Timestamp(array) => Datum::Timestamp(array.value(row)),
            Values::Interval(array) => {
                let value = array.value(row);
                let micros = value.nanoseconds.div_euclid(NANOS_PER_MICRO);
                Datum::Interval(Interval { months: value.months, days: value.days, micros })
            }
            Values::Uuid(array) => {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(array.value(row));
                Datum::Uuid(bytes)
            }
            Values::List(array, items) => {
                let offsets = array.value_offsets();
                let range = offsets[row] as usize..offsets[row + 1] as usize;
                Datum::Array(match &items.values {
                    Values::Int4(numbers) if items.nulls.is_none() => Items::Int4(&numbers.values()[range]),
                    Values::Int8(numbers) if items.nulls.is_none() => Items::Int8(&numbers.values()[range]),
                    _ => Items::Values(range.map(|item| items.datum(item).to_value()).collect()),
                })
            }
        }
    }
}

impl Values {
    fn new(array: &ArrayRef, sql_type: SqlType) -> Result<Self> {
        if *array.data_type() == DataType::Null {
            return Ok(Self::Null);
        }
        if let SqlType::Array(element) = sql_type {
            let list = match array.as_list_opt::<i32>() {
                Some(list) => list.clone(),
                None => as_list(array, sql_type)?,
            };
            // Items of NULL lists may be anything, so only the items in use are looked at.
            let items = ColumnReader::shared(list.values(), SqlType::Scalar(element))?;
            return Ok(Self::List(list, Box::new(items)));
        }
        let scalar = sql_type.scalar();
        if let Some(values) = Self::of(array, scalar) {
            return Ok(values);
        }
        if !can_read(array.data_type(), scalar) {
            return Err(mismatch(array.data_type(), sql_type));
        }
        let to = match array.data_type() {
            // The instant is what counts; another zone would move it.
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            _ => to_arrow_type(sql_type),
        };
        if matches!((array.data_type(), scalar), (DataType::Duration(_), ScalarType::Interval)) {
            return days_and_time(array).map(Self::Interval);
        }
        let cast = cast(array, &to)?;
        Self::of(&cast, scalar).ok_or_else(|| mismatch(array.data_type(), sql_type))
    }

    /// The array as it is, if its type is one of the scalar's own.
    fn of(array: &ArrayRef, scalar: ScalarType) -> Option<Self> {
        Some(match scalar {
            ScalarType::Bool => Self::Bool(array.as_boolean_opt()?.clone()),
            ScalarType::Int2 => Self::Int2(array.as_primitive_opt()?.clone()),
            ScalarType::Int4 => Self::Int4(array.as_primitive_opt()?.clone()),
            ScalarType::Int8 => Self::Int8(array.as_primitive_opt()?.clone()),
            ScalarType::Float4 => Self::Float4(array.as_primitive_opt()?.clone()),
            ScalarType::Float8 => Self::Float8(array.as_primitive_opt()?.clone()),
            ScalarType::Numeric { scale, .. } => match array.data_type() {
                // More digits are only looked at one by one where they may not fit.
                DataType::Decimal128(_, shown) if *shown == scale.cast_signed() => {
                    Self::Numeric(array.as_primitive_opt()?.clone())
                }
                _ => return None,
            },
            ScalarType::Text
            | ScalarType::Varchar { .. }
            | ScalarType::Char { .. }
            | ScalarType::Json
            | ScalarType::Jsonb => match array.data_type() {
                DataType::Utf8 => Self::Text(array.as_string_opt()?.clone()),
                DataType::LargeUtf8 => Self::LargeText(array.as_string_opt()?.clone()),
                DataType::Utf8View => Self::TextView(array.as_string_view_opt()?.clone()),
                _ => return None,
            },
            ScalarType::Bytea => match array.data_type() {
                DataType::Binary => Self::Bytea(array.as_binary_opt()?.clone()),
                DataType::LargeBinary => Self::LargeBytea(array.as_binary_opt()?.clone()),
                DataType::BinaryView => Self::ByteaView(array.as_binary_view_opt()?.clone()),
                DataType::FixedSizeBinary(_) => Self::FixedBytea(array.as_fixed_size_binary_opt()?.clone()),
                _ => return None,
            },
            ScalarType::Date => Self::Date(array.as_primitive_opt()?.clone()),
            ScalarType::Time => Self::Time(array.as_primitive_opt()?.clone()),
            ScalarType::Timestamp | ScalarType::Timestamptz => Self::Timestamp(array.as_primitive_opt()?.clone()),
            ScalarType::Interval => Self::Interval(array.as_primitive_opt()?.clone()),
            ScalarType::Uuid => match array.data_type() {
                DataType::FixedSizeBinary(16) => Self::Uuid(array.as_fixed_size_binary_opt()?.clone()),
                _ => return None,
            },
        })
    }
}

/// Whether Arrow's cast of this type keeps what the values mean. Its casts between text and others, or between
/// dates and numbers, are not what SQL says.
fn can_read(from: &DataType, scalar: ScalarType) -> bool {
    let is_text = |from: &DataType| matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_bytes = |from: &DataType| {
        matches!(from, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
    };
    match from {
        DataType::Dictionary(_, values) => can_read(values, scalar) || is_own(values, scalar),
        DataType::RunEndEncoded(_, values) => {
            can_read(values.data_type(), scalar) || is_own(values.data_type(), scalar)
        }
        from => match scalar {
            ScalarType::Bool | ScalarType::Uuid => false,
            ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8 => from.is_integer(),
            ScalarType::Float4 | ScalarType::Float8 => from.is_floating() || from.is_integer(),
            ScalarType::Numeric { .. } => from.is_integer() || from.is_decimal(),
            ScalarType::Text
            | ScalarType::Varchar { .. }
            | ScalarType::Char { .. }
            | ScalarType::Json
            | ScalarType::Jsonb => is_text(from),
            ScalarType::Bytea => is_bytes(from),
            ScalarType::Date => matches!(from, DataType::Date64),
            ScalarType::Time => matches!(from, DataType::Time32(_) | DataType::Time64(_)),
            ScalarType::Timestamp | ScalarType::Timestamptz => matches!(from, DataType::Timestamp(_, _)),
            ScalarType::Interval => matches!(from, DataType::Interval(_) | DataType::Duration(_)),
        },
    }
}

/// A difference of two timestamps: PostgreSQL counts whole days apart from the time of the day.
fn days_and_time(array: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    const MICROS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000;
    let micros = cast(array, &DataType::Duration(TimeUnit::Microsecond))?;
    let micros = micros
        .as_primitive_opt::<DurationMicrosecondType>()
        .ok_or_else(|| Error::internal("a duration in microseconds is read as one"))?;
    let parts = micros.iter().map(|micros| {
        let micros = micros?;
        let days = i32::try_from(micros / MICROS_PER_DAY).unwrap_or(i32::MAX);
        Some(IntervalMonthDayNano::new(0, days, micros % MICROS_PER_DAY * NANOS_PER_MICRO))
    });
    Ok(parts.collect())
}

/// Whether this is the scalar's own Arrow type.
fn is_own(from: &DataType, scalar: ScalarType) -> bool {
    *from == to_arrow_type(SqlType::Scalar(scalar))
}

/// A list of another make as a list of `i32` offsets, its items as they are.
fn as_list(array: &ArrayRef, sql_type: SqlType) -> Result<ListArray> {
    let item = match array.data_type() {
        DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => item.clone(),
        _ => return Err(mismatch(array.data_type(), sql_type)),
    };
    Ok(cast(array, &DataType::List(item))?.as_list::<i32>().clone())
}

/// A cast that fails where a value does not fit.
fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    cast_with_options(array, to, &options)
        .map_err(|error| Error::new(ErrorCode::NumericOutOfRange, "value out of range").with_detail(error.to_string()))
}

fn mismatch(from: &DataType, to: SqlType) -> Error {
    Error::new(ErrorCode::DatatypeMismatch, format!("values of Arrow type {from} are not of type {to}"))
}

#[cfg(test)]
mod tests;

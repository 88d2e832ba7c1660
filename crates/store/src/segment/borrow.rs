//! Columns as Arrow arrays over the same memory.
//!
//! Called by scans under the partition's lock (active segments) and without it (sealed ones). Copies only bitmaps
//! that still grow. What Arrow would verify byte by byte is known here: only `Column` writes these buffers.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;
use ashlar_base::{ScalarType, SqlType};

use super::arena::Arena;
use super::column::{Column, Data, offset};

static UTC: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(crate::arrow_types::UTC));

/// The bytes of a text column's value as text.
pub(super) fn text<'a>(column: &Column, value: &'a [u8]) -> &'a str {
    debug_assert!(column.sql_type != SqlType::Scalar(ScalarType::Bytea), "bytea is no text");
    // SAFETY: a column that is not bytea takes `Datum::Text` alone (`byte_value`), bytes that were found to be text
    // (`push_text`), or whole values of a column of its own type (`gather`), and `value` is what lies between two neighbouring
    // offsets, so exactly the bytes of one `str` that was pushed, or put over one of its length.
    unsafe { std::str::from_utf8_unchecked(value) }
}

fn offsets_of(offsets: &Arena, len: usize) -> OffsetBuffer<i32> {
    if offsets.len() == 0 {
        return OffsetBuffer::new_empty();
    }
    let values = ScalarBuffer::from(offsets.share((len + 1) * 4));
    // SAFETY: there is at least one offset, the first is zero and every next one is the length of a growing arena.
    unsafe { OffsetBuffer::new_unchecked(values) }
}

fn values_of<T: ArrowNativeType>(values: &Arena, len: usize) -> ScalarBuffer<T> {
    ScalarBuffer::from(values.share(len * size_of::<T>()))
}

impl Column {
    /// The first `len` rows as an array of the column's Arrow type. Where the schema says that there are no NULLs,
    /// there are none among the visible rows, and the validity of the others is left out.
    pub(crate) fn share(&self, len: usize, nullable: bool) -> ArrayRef {
        assert!(len <= self.len, "what is unwritten cannot be shared");
        let validity = self.validity.as_ref().filter(|_| nullable);
        let nulls = validity.map(|validity| NullBuffer::new(validity.share(len)));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match &self.data {
            Data::Bits(bits) => Arc::new(BooleanArray::new(bits.share(len), nulls)),
            Data::Fixed { values, .. } => self.share_fixed(values, len, nulls),
            Data::Bytes { offsets, bytes } => {
                let data = bytes.share(offset(offsets, len));
                let offsets = offsets_of(offsets, len);
                if self.sql_type == SqlType::Scalar(ScalarType::Bytea) {
                    // SAFETY: the offsets are in order and end at the length of `data`; any bytes are valid.
                    Arc::new(unsafe { BinaryArray::new_unchecked(offsets, data, nulls) })
                } else {
                    // SAFETY: as above, and every value is the bytes of one `str`, see `text`.
                    Arc::new(unsafe { StringArray::new_unchecked(offsets, data, nulls) })
                }
            }
            Data::List { offsets, items } => {
                let values = items.share(offset(offsets, len), true);
                let field = crate::arrow_types::item_field(self.sql_type.scalar());
                Arc::new(ListArray::new(field, offsets_of(offsets, len), values, nulls))
            }
        }
    }

    fn share_fixed(&self, values: &Arena, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
        match self.sql_type.scalar() {
            ScalarType::Int2 => Arc::new(Int16Array::new(values_of(values, len), nulls)),
            ScalarType::Int4 => Arc::new(Int32Array::new(values_of(values, len), nulls)),
            ScalarType::Int8 => Arc::new(Int64Array::new(values_of(values, len), nulls)),
            ScalarType::Float4 => Arc::new(Float32Array::new(values_of(values, len), nulls)),
            ScalarType::Float8 => Arc::new(Float64Array::new(values_of(values, len), nulls)),
            ScalarType::Numeric { precision, scale } => {
                let array = Decimal128Array::new(values_of(values, len), nulls);
                let array = array.with_precision_and_scale(precision, scale.cast_signed());
                Arc::new(array.expect("precision and scale were checked when the region was created"))
            }
            ScalarType::Date => Arc::new(Date32Array::new(values_of(values, len), nulls)),
            ScalarType::Time => Arc::new(Time64MicrosecondArray::new(values_of(values, len), nulls)),
            ScalarType::Timestamp => Arc::new(TimestampMicrosecondArray::new(values_of(values, len), nulls)),
            ScalarType::Timestamptz => {
                let array = TimestampMicrosecondArray::new(values_of(values, len), nulls);
                Arc::new(array.with_timezone(Arc::clone(&UTC)))
            }
            ScalarType::Interval => Arc::new(IntervalMonthDayNanoArray::new(values_of(values, len), nulls)),
            ScalarType::Uuid => Arc::new(FixedSizeBinaryArray::new(16, values.share(len * 16), nulls)),
            ScalarType::Bool
            | ScalarType::Text
            | ScalarType::Varchar { .. }
            | ScalarType::Char { .. }
            | ScalarType::Bytea
            | ScalarType::Json
            | ScalarType::Jsonb => unreachable!("these have no fixed width"),
        }
    }
}

//! What rows are grouped by, as one word or one run of bytes a row, and back.
//!
//! ```text
//!   up to 4, 8 or 16 bytes   one word: the columns side by side, behind those that may be NULL a bit that says so
//!   one text or binary       its bytes
//!   anything else            | NULL bits | column | column | ...   a text as its length, 4 bytes, and its bytes
//! ```
//!
//! A column alone has no bit for NULL: the row says so beside its word. Floats are packed as PostgreSQL compares them:
//! both zeros are one, and so is everything that is no number.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, GenericByteArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};
use arrow::error::ArrowError;

use super::direct::Counting;
use super::hash::{Secret, Word, of_bytes};

type Result<T> = std::result::Result<T, ArrowError>;

/// What is a bug.
fn bug<T>(what: &str) -> Result<T> {
    Err(ArrowError::SchemaError(what.to_owned()))
}

/// How a column is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bit,
    /// So many bytes: 1, 2, 4, 8 or 16.
    Fixed(usize),
    Float,
    Double,
    /// A text or binary, with offsets of 32 bits or 64.
    Bytes {
        is_large: bool,
    },
}

impl Form {
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bit,
            DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Int8 | DataType::UInt8 => Self::Fixed(1),
            DataType::Int16 | DataType::UInt16 => Self::Fixed(2),
            DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Time32(_) => Self::Fixed(4),
            DataType::Int64
            | DataType::UInt64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_) => Self::Fixed(8),
            DataType::Decimal128(..) | DataType::FixedSizeBinary(16) => Self::Fixed(16),
            DataType::Utf8 | DataType::Binary => Self::Bytes { is_large: false },
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Bytes { is_large: true },
            _ => return None,
        })
    }

    /// Bits of a value; `None` where they differ from row to row.
    fn bits(self) -> Option<usize> {
        match self {
            Self::Bit => Some(1),
            Self::Fixed(bytes) => Some(8 * bytes),
            Self::Float => Some(32),
            Self::Double => Some(64),
            Self::Bytes { .. } => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Column {
    data_type: DataType,
    form: Form,
    /// Where its value begins in the word, bits.
    shift: usize,
    /// The bit that says NULL, where the word has one.
    null: Option<usize>,
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Word32,
    Word64,
    Word128,
    /// The bytes of the only column.
    Plain,
    Rows,
}

/// How the keys of some columns are packed.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    columns: Vec<Column>,
    shape: Shape,
}

/// Keys of some rows or groups, in order.
#[derive(Debug)]
pub(crate) enum Keys {
    Word32(Vec<u32>),
    Word64(Vec<u64>),
    Word128(Vec<u128>),
    Bytes(ByteKeys),
}

impl Keys {
    /// Keys.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Word32(words) => words.len(),
            Self::Word64(words) => words.len(),
            Self::Word128(words) => words.len(),
            Self::Bytes(keys) => keys.ends.len(),
        }
    }

    /// None yet, of the same kind, with room for so many; of bytes for none.
    pub(crate) fn with_room(&self, count: usize) -> Self {
        match self {
            Self::Word32(_) => Self::Word32(Vec::with_capacity(count)),
            Self::Word64(_) => Self::Word64(Vec::with_capacity(count)),
            Self::Word128(_) => Self::Word128(Vec::with_capacity(count)),
            Self::Bytes(_) => Self::Bytes(ByteKeys { bytes: Vec::new(), ends: Vec::new() }),
        }
    }

    /// Adds those of some rows, packed alike.
    pub(crate) fn push_rows(&mut self, from: &Self, rows: &[u32]) {
        match (self, from) {
            (Self::Word32(words), Self::Word32(from)) => words.extend(rows.iter().map(|&row| from[row as usize])),
            (Self::Word64(words), Self::Word64(from)) => words.extend(rows.iter().map(|&row| from[row as usize])),
            (Self::Word128(words), Self::Word128(from)) => words.extend(rows.iter().map(|&row| from[row as usize])),
            (Self::Bytes(keys), Self::Bytes(from)) => rows.iter().for_each(|&row| keys.push(from.get(row as usize))),
            // A packing packs all batches in one way.
            _ => {}
        }
    }
}

/// Runs of bytes, one behind the other: keys that are texts, or rows of columns of which some are.
///
/// ```text
///   bytes   | k k k | k k k k k | | k k | ...        as long as they are; the third has none
///                   ^           ^ ^     ^
///   ends    |   3   |     8     |8| 10  | ...        4 bytes each: where a key ends, and the next one begins
/// ```
///
/// No key has a pointer or a length of its own: it takes its bytes and 4.
#[derive(Debug)]
pub(crate) struct ByteKeys {
    pub(crate) bytes: Vec<u8>,
    /// Where each ends.
    pub(crate) ends: Vec<u32>,
}

impl ByteKeys {
    #[inline]
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    /// One more. All of them together have less than 4 GiB, which is for the caller to know.
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
    }
}

/// The keys of a batch of rows.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) keys: Keys,
    /// Rows of a column alone that are NULL; their keys mean nothing.
    pub(crate) nulls: Option<NullBuffer>,
}

impl Packed {
    /// The keys of groups, one of which may stand for NULL.
    pub(crate) fn of_groups(keys: Keys, null: Option<usize>) -> Self {
        let mut packed = Self { keys, nulls: None };
        packed.nulls = null.map(|null| one_null(packed.len(), null));
        packed
    }

    /// Rows.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of the keys.
    pub(crate) fn bytes(&self) -> usize {
        match &self.keys {
            Keys::Word32(words) => size_of_val(&words[..]),
            Keys::Word64(words) => size_of_val(&words[..]),
            Keys::Word128(words) => size_of_val(&words[..]),
            Keys::Bytes(keys) => keys.bytes.len() + size_of_val(&keys.ends[..]),
        }
    }

    /// Bytes that the keys hold, with room for more.
    pub(crate) fn held(&self) -> usize {
        match &self.keys {
            Keys::Word32(words) => words.capacity() * size_of::<u32>(),
            Keys::Word64(words) => words.capacity() * size_of::<u64>(),
            Keys::Word128(words) => words.capacity() * size_of::<u128>(),
            Keys::Bytes(keys) => keys.bytes.capacity() + keys.ends.capacity() * size_of::<u32>(),
        }
    }

    /// Bytes of keys that are bytes.
    fn key_bytes(&self) -> usize {
        if let Keys::Bytes(keys) = &self.keys { keys.bytes.len() } else { 0 }
    }

    /// Makes room for others behind these, packed alike, and for no more than that.
    pub(crate) fn make_room<'a>(&mut self, others: impl Iterator<Item = &'a Self>) {
        let (rows, bytes) = others.fold((0, 0), |(rows, bytes), other| (rows + other.len(), bytes + other.key_bytes()));
        match &mut self.keys {
            Keys::Word32(words) => words.reserve_exact(rows),
            Keys::Word64(words) => words.reserve_exact(rows),
            Keys::Word128(words) => words.reserve_exact(rows),
            Keys::Bytes(keys) => {
                keys.bytes.reserve_exact(bytes);
                keys.ends.reserve_exact(rows);
            }
        }
    }

    /// More rows behind these, packed alike.
    ///
    /// # Errors
    /// Where their keys have more than 4 GiB.
    pub(crate) fn append(&mut self, more: Self) -> Result<()> {
        let (before, behind) = (self.len(), more.len());
        match (&mut self.keys, more.keys) {
            (Keys::Word32(words), Keys::Word32(more)) => words.extend(more),
            (Keys::Word64(words), Keys::Word64(more)) => words.extend(more),
            (Keys::Word128(words), Keys::Word128(more)) => words.extend(more),
            (Keys::Bytes(keys), Keys::Bytes(more)) => {
                let start = keys.bytes.len();
                if u32::try_from(start + more.bytes.len()).is_err() {
                    return Err(ArrowError::ComputeError("the keys of a batch have more than 4 GiB".to_owned()));
                }
                keys.bytes.extend(more.bytes);
                // Within 4 GiB.
                keys.ends.extend(more.ends.into_iter().map(|end| end + start as u32));
            }
            _ => return bug("keys of one aggregation are packed in two ways"),
        }
        if self.nulls.is_some() || more.nulls.is_some() {
            let valid = |nulls: Option<NullBuffer>, rows| nulls.unwrap_or_else(|| NullBuffer::new_valid(rows));
            let mut bits = BooleanBufferBuilder::new(before + behind);
            bits.append_buffer(valid(self.nulls.take(), before).inner());
            bits.append_buffer(valid(more.nulls, behind).inner());
            self.nulls = Some(NullBuffer::new(bits.finish()));
        }
        Ok(())
    }

    /// The hashes of the rows.
    pub(crate) fn hashes(&self, secret: Secret, hashes: &mut Vec<u64>) {
        hashes.clear();
        match &self.keys {
            Keys::Word32(words) => hashes.extend(words.iter().map(|word| word.hash(secret))),
            Keys::Word64(words) => hashes.extend(words.iter().map(|word| word.hash(secret))),
            Keys::Word128(words) => hashes.extend(words.iter().map(|word| word.hash(secret))),
            Keys::Bytes(keys) => hashes.extend((0..keys.ends.len()).map(|row| of_bytes(keys.get(row), secret))),
        }
        if let Some(nulls) = &self.nulls {
            let of_null = secret.of_null();
            let rows = hashes.iter_mut().zip(nulls).filter(|(_, is_valid)| !is_valid);
            rows.for_each(|(hash, _)| *hash = of_null);
        }
    }
}

impl Packing {
    /// Of columns of these types, some of which may be NULL; `None` where there is a type that is not packed.
    pub(crate) fn of(types: &[(DataType, bool)]) -> Option<Self> {
        let mut columns = Vec::with_capacity(types.len());
        for (data_type, _) in types {
            columns.push(Column { data_type: data_type.clone(), form: Form::of(data_type)?, shift: 0, null: None });
        }
        let shape = match &mut columns[..] {
            [] => return None,
            [column] => match column.form.bits() {
                None => Shape::Plain,
                Some(bits) => Self::word(bits)?,
            },
            columns => {
                let mut bits = 0;
                let mut is_fixed = true;
                for (column, (_, nullable)) in columns.iter_mut().zip(types) {
                    let Some(width) = column.form.bits() else {
                        is_fixed = false;
                        break;
                    };
                    column.shift = bits;
                    bits += width;
                    if *nullable {
                        column.null = Some(bits);
                        bits += 1;
                    }
                }
                if is_fixed { Self::word(bits).unwrap_or(Shape::Rows) } else { Shape::Rows }
            }
        };
        Some(Self { columns, shape })
    }

    fn word(bits: usize) -> Option<Shape> {
        match bits {
            0..=32 => Some(Shape::Word32),
            33..=64 => Some(Shape::Word64),
            65..=128 => Some(Shape::Word128),
            _ => None,
        }
    }

    /// Whether columns come back from keys as they were. Floats do not: there are several zeros.
    pub(crate) fn gives_back(&self) -> bool {
        self.columns.iter().all(|column| !matches!(column.form, Form::Float | Form::Double))
    }

    /// How keys that are whole numbers are counted; `None` of others.
    pub(crate) fn counting(&self) -> Option<Counting> {
        let [column] = &self.columns[..] else { return None };
        let is_signed = !column.data_type.is_unsigned_integer();
        match column.form {
            Form::Fixed(bytes @ 1..=8) => Some(Counting::of(8 * bytes as u32, is_signed)),
            _ => None,
        }
    }

    /// The columns of some keys.
    ///
    /// # Errors
    /// Where bytes are not what was packed, which is a bug.
    pub(crate) fn columns(&self, packed: Packed) -> Result<Vec<ArrayRef>> {
        let arrays = self.unpack(packed.keys, None)?;
        let Some(nulls) = packed.nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(arrays) };
        let of_column = |array: ArrayRef| {
            let data = array.to_data().into_builder().nulls(Some(nulls.clone()));
            Ok(make_array(data.build()?))
        };
        arrays.into_iter().map(of_column).collect()
    }

    /// No keys yet.
    pub(crate) fn none(&self) -> Keys {
        match self.shape {
            Shape::Word32 => Keys::Word32(Vec::new()),
            Shape::Word64 => Keys::Word64(Vec::new()),
            Shape::Word128 => Keys::Word128(Vec::new()),
            Shape::Plain | Shape::Rows => Keys::Bytes(ByteKeys { bytes: Vec::new(), ends: Vec::new() }),
        }
    }

    /// Packs the rows of some columns, which are as long as each other.
    ///
    /// # Errors
    /// Where a batch has more bytes of keys than 32 bits count.
    pub(crate) fn pack(&self, arrays: &[ArrayRef]) -> Result<Packed> {
        let rows = arrays.first().map_or(0, |array| array.len());
        let keys = match self.shape {
            // A number alone is its own key.
            Shape::Word32 if self.is_only(Form::Fixed(4)) => Keys::Word32(copied(&arrays[0])),
            Shape::Word64 if self.is_only(Form::Fixed(8)) => Keys::Word64(copied(&arrays[0])),
            Shape::Word32 => Keys::Word32(self.words(arrays, rows)),
            Shape::Word64 => Keys::Word64(self.words(arrays, rows)),
            Shape::Word128 => Keys::Word128(self.words(arrays, rows)),
            Shape::Plain => Keys::Bytes(plain(&arrays[0])?),
            Shape::Rows => Keys::Bytes(self.rows(arrays, rows)?),
        };
        let nulls = match (&self.columns[..], arrays) {
            ([_], [array]) => array.logical_nulls().filter(|nulls| nulls.null_count() > 0),
            _ => None,
        };
        Ok(Packed { keys, nulls })
    }

    /// Bytes that the keys of such columns hold when they are packed, at most.
    pub(crate) fn bytes_for(&self, arrays: &[ArrayRef]) -> usize {
        let rows = arrays.first().map_or(0, |array| array.len());
        let of_row = match self.shape {
            Shape::Word32 => size_of::<u32>(),
            Shape::Word64 => size_of::<u64>(),
            Shape::Word128 => size_of::<u128>(),
            Shape::Plain => size_of::<u32>(),
            // Where each ends was counted in words.
            Shape::Rows => {
                let of_columns =
                    self.columns.iter().map(|column| column.form.bits().map_or(4, |bits| bits.div_ceil(8)));
                self.columns.len().div_ceil(8) + size_of::<usize>() + of_columns.sum::<usize>()
            }
        };
        let of_texts = match self.shape {
            Shape::Plain | Shape::Rows => arrays.iter().map(text_bytes).sum::<usize>(),
            Shape::Word32 | Shape::Word64 | Shape::Word128 => 0,
        };
        rows * of_row + of_texts
    }

    /// Whether there is one column, of this form.
    fn is_only(&self, form: Form) -> bool {
        matches!(&self.columns[..], [column] if column.form == form)
    }

    fn words<W: Word + std::ops::Shl<usize, Output = W> + std::ops::BitOrAssign>(
        &self,
        arrays: &[ArrayRef],
        rows: usize,
    ) -> Vec<W> {
        let mut words = vec![W::default(); rows];
        for (column, array) in self.columns.iter().zip(arrays) {
            let nulls = if column.null.is_some() { array.logical_nulls() } else { None };
            let mut put = |row: usize, value: u128| {
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                    words[row] |= W::narrow(value) << column.shift;
                }
            };
            match column.form {
                Form::Bit => array.as_boolean().values().iter().enumerate().for_each(|(row, bit)| put(row, bit.into())),
                Form::Fixed(1) => values(array, |row, value: u8| put(row, value.into())),
                Form::Fixed(2) => values(array, |row, value: u16| put(row, value.into())),
                Form::Fixed(4) => values(array, |row, value: u32| put(row, value.into())),
                Form::Fixed(8) => values(array, |row, value: u64| put(row, value.into())),
                Form::Fixed(_) => wide_values(array, put),
                Form::Float => values(array, |row, bits: u32| put(row, canonical_float(bits).into())),
                Form::Double => values(array, |row, bits: u64| put(row, canonical_double(bits).into())),
                Form::Bytes { .. } => {}
            }
            if let (Some(bit), Some(nulls)) = (column.null, &nulls) {
                let is_null = nulls.iter().enumerate().filter(|(_, is_valid)| !is_valid);
                is_null.for_each(|(row, _)| words[row] |= W::narrow(1) << bit);
            }
        }
        words
    }

    fn rows(&self, arrays: &[ArrayRef], rows: usize) -> Result<ByteKeys> {
        let flags = self.columns.len().div_ceil(8);
        let nulls: Vec<Option<NullBuffer>> = arrays.iter().map(|array| array.logical_nulls()).collect();
        // Column after column is measured, then written behind what its row has: a row is found by its end so far.
        let mut ends = vec![flags; rows];
        let is_null = |column: usize, row: usize| nulls[column].as_ref().is_some_and(|nulls| nulls.is_null(row));
        for (number, (column, array)) in self.columns.iter().zip(arrays).enumerate() {
            match column.form {
                Form::Bytes { .. } => {
                    let length = lengths(column.form, array);
                    let ends = ends.iter_mut().enumerate().filter(|(row, _)| !is_null(number, *row));
                    ends.for_each(|(row, end)| *end += 4 + length(row));
                }
                form => {
                    let width = form.bits().unwrap_or(0).div_ceil(8);
                    let ends = ends.iter_mut().enumerate().filter(|(row, _)| !is_null(number, *row));
                    ends.for_each(|(_, end)| *end += width);
                }
            }
        }
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        if u32::try_from(total).is_err() {
            return Err(ArrowError::OffsetOverflowError(total));
        }
        let mut bytes = vec![0; total];
        let mut at: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(rows).collect();
        at.iter_mut().for_each(|at| *at += flags);
        for (number, (column, array)) in self.columns.iter().zip(arrays).enumerate() {
            if let Some(nulls) = nulls[number].as_ref() {
                let is_null = nulls.iter().enumerate().filter(|(_, is_valid)| !is_valid);
                for (row, _) in is_null {
                    let start = if row == 0 { 0 } else { ends[row - 1] };
                    bytes[start + number / 8] |= 1 << (number % 8);
                }
            }
            let mut put = |row: usize, value: &[u8]| {
                if !is_null(number, row) {
                    bytes[at[row]..at[row] + value.len()].copy_from_slice(value);
                    at[row] += value.len();
                }
            };
            match column.form {
                Form::Bit => {
                    array.as_boolean().values().iter().enumerate().for_each(|(row, bit)| put(row, &[u8::from(bit)]));
                }
                Form::Fixed(1) => values(array, |row, value: u8| put(row, &value.to_le_bytes())),
                Form::Fixed(2) => values(array, |row, value: u16| put(row, &value.to_le_bytes())),
                Form::Fixed(4) => values(array, |row, value: u32| put(row, &value.to_le_bytes())),
                Form::Fixed(8) => values(array, |row, value: u64| put(row, &value.to_le_bytes())),
                Form::Fixed(_) => wide_values(array, |row, value| put(row, &value.to_le_bytes())),
                Form::Float => values(array, |row, bits: u32| put(row, &canonical_float(bits).to_le_bytes())),
                Form::Double => values(array, |row, bits: u64| put(row, &canonical_double(bits).to_le_bytes())),
                Form::Bytes { .. } => texts(column.form, array, |row, value| {
                    // Below 4 GiB, as the whole batch is.
                    put(row, &(value.len() as u32).to_le_bytes());
                    put(row, value);
                }),
            }
        }
        let ends = ends.into_iter().map(|end| end as u32).collect();
        Ok(ByteKeys { bytes, ends })
    }

    /// The columns of some keys. `null` is the one that stands for NULL, of a column alone.
    ///
    /// # Errors
    /// Where bytes are not what was packed, which is a bug.
    pub(crate) fn unpack(&self, keys: Keys, null: Option<usize>) -> Result<Vec<ArrayRef>> {
        match (keys, &self.columns[..]) {
            // Nothing is moved.
            (Keys::Word32(words), [column]) if column.form.bits() == Some(32) => {
                Ok(vec![column.array(words.len(), Buffer::from_vec(words), null)?])
            }
            (Keys::Word64(words), [column]) if column.form.bits() == Some(64) => {
                Ok(vec![column.array(words.len(), Buffer::from_vec(words), null)?])
            }
            (Keys::Word128(words), [column]) if matches!(column.data_type, DataType::Decimal128(..)) => {
                Ok(vec![column.array(words.len(), Buffer::from_vec(words), null)?])
            }
            (Keys::Word32(words), columns) => columns.iter().map(|column| column.of_words(&words, null)).collect(),
            (Keys::Word64(words), columns) => columns.iter().map(|column| column.of_words(&words, null)).collect(),
            (Keys::Word128(words), columns) => columns.iter().map(|column| column.of_words(&words, null)).collect(),
            (Keys::Bytes(keys), [column]) => {
                let nulls = null.map(|null| one_null(keys.ends.len(), null));
                Ok(vec![column.texts(keys.bytes, &keys.ends, nulls)?])
            }
            (Keys::Bytes(keys), columns) => {
                let flags = columns.len().div_ceil(8);
                let rows = keys.ends.len();
                let mut at: Vec<usize> =
                    std::iter::once(0).chain(keys.ends.iter().map(|end| *end as usize)).take(rows).collect();
                let starts = at.clone();
                at.iter_mut().for_each(|at| *at += flags);
                let of_column = |(number, column): (usize, &Column)| {
                    let is_valid = |start: &usize| keys.bytes[start + number / 8] & 1 << (number % 8) == 0;
                    let valid = BooleanBuffer::from_iter(starts.iter().map(is_valid));
                    column.of_rows(&keys.bytes, &mut at, NullBuffer::new(valid))
                };
                columns.iter().enumerate().map(of_column).collect()
            }
        }
    }
}

impl Column {
    fn array(&self, rows: usize, values: Buffer, null: Option<usize>) -> Result<ArrayRef> {
        self.nullable(rows, values, null.map(|null| one_null(rows, null)))
    }

    fn nullable(&self, rows: usize, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let data = ArrayData::builder(self.data_type.clone()).len(rows).add_buffer(values).nulls(nulls);
        Ok(make_array(data.build()?))
    }

    /// This column of words.
    fn of_words<W: Word>(&self, words: &[W], null: Option<usize>) -> Result<ArrayRef> {
        let rows = words.len();
        let nulls = match (self.null, null) {
            (Some(bit), _) => {
                let valid = words.iter().map(|word| word.widen() >> bit & 1 == 0);
                Some(NullBuffer::new(BooleanBuffer::from_iter(valid)))
            }
            (None, null) => null.map(|null| one_null(rows, null)),
        };
        let wide = words.iter().map(|word| word.widen() >> self.shift);
        let values = match self.form {
            Form::Bit => {
                let bits = BooleanBuffer::from_iter(wide.map(|word| word & 1 == 1));
                return Ok(Arc::new(BooleanArray::new(bits, nulls.filter(|nulls| nulls.null_count() > 0))));
            }
            Form::Fixed(1) => Buffer::from_vec(wide.map(|word| word as u8).collect::<Vec<u8>>()),
            Form::Fixed(2) => Buffer::from_vec(wide.map(|word| word as u16).collect::<Vec<u16>>()),
            Form::Fixed(4) | Form::Float => Buffer::from_vec(wide.map(|word| word as u32).collect::<Vec<u32>>()),
            Form::Fixed(8) | Form::Double => Buffer::from_vec(wide.map(|word| word as u64).collect::<Vec<u64>>()),
            Form::Fixed(_) => Buffer::from_vec(wide.collect::<Vec<u128>>()),
            Form::Bytes { .. } => return bug("a text in a word"),
        };
        self.nullable(rows, values, nulls)
    }

    /// This column of rows, which are read from `at` on.
    fn of_rows(&self, bytes: &[u8], at: &mut [usize], nulls: NullBuffer) -> Result<ArrayRef> {
        let rows = at.len();
        let valid = at.iter_mut().zip(&nulls);
        fn fixed<const N: usize>(bytes: &[u8], at: &mut usize) -> [u8; N] {
            let mut value = [0; N];
            value.copy_from_slice(&bytes[*at..*at + N]);
            *at += N;
            value
        }
        macro_rules! words {
            ($word:ty, $width:literal) => {{
                let word = |(at, is_valid): (&mut usize, bool)| match is_valid {
                    true => <$word>::from_le_bytes(fixed::<$width>(bytes, at)),
                    false => 0,
                };
                Buffer::from_vec(valid.map(word).collect::<Vec<$word>>())
            }};
        }
        let values = match self.form {
            Form::Bit => {
                let bit = |(at, is_valid): (&mut usize, bool)| is_valid && fixed::<1>(bytes, at) == [1];
                let bits = BooleanBuffer::from_iter(valid.map(bit));
                return Ok(Arc::new(BooleanArray::new(bits, Some(nulls).filter(|nulls| nulls.null_count() > 0))));
            }
            Form::Fixed(1) => words!(u8, 1),
            Form::Fixed(2) => words!(u16, 2),
            Form::Fixed(4) | Form::Float => words!(u32, 4),
            Form::Fixed(8) | Form::Double => words!(u64, 8),
            Form::Fixed(_) => words!(u128, 16),
            Form::Bytes { .. } => {
                let (mut texts, mut ends) = (Vec::new(), Vec::with_capacity(rows));
                for (at, is_valid) in valid {
                    if is_valid {
                        let length = u32::from_le_bytes(fixed::<4>(bytes, at)) as usize;
                        texts.extend_from_slice(&bytes[*at..*at + length]);
                        *at += length;
                    }
                    ends.push(texts.len() as u32);
                }
                return self.texts(texts, &ends, Some(nulls));
            }
        };
        self.nullable(rows, values, Some(nulls))
    }

    fn texts(&self, bytes: Vec<u8>, ends: &[u32], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let bytes = Buffer::from_vec(bytes);
        let offsets = match self.form {
            Form::Bytes { is_large: false } => {
                if i32::try_from(bytes.len()).is_err() {
                    return Err(ArrowError::OffsetOverflowError(bytes.len()));
                }
                let offsets = std::iter::once(0).chain(ends.iter().map(|end| *end as i32));
                Buffer::from_vec(offsets.collect::<Vec<i32>>())
            }
            _ => {
                Buffer::from_vec(std::iter::once(0).chain(ends.iter().map(|end| i64::from(*end))).collect::<Vec<i64>>())
            }
        };
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let data = ArrayData::builder(self.data_type.clone()).len(ends.len());
        Ok(make_array(data.add_buffer(offsets).add_buffer(bytes).nulls(nulls).build()?))
    }
}

fn one_null(rows: usize, null: usize) -> NullBuffer {
    NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| row != null))
}

#[inline]
fn canonical_float(bits: u32) -> u32 {
    let value = f32::from_bits(bits);
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f32::NAN.to_bits()
    } else {
        bits
    }
}

#[inline]
fn canonical_double(bits: u64) -> u64 {
    let value = f64::from_bits(bits);
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        bits
    }
}

/// The values of an array as words of their width.
fn copied<V: ArrowNativeType>(array: &ArrayRef) -> Vec<V> {
    let data = array.to_data();
    let values: &[V] = data.buffer(0);
    values[..array.len()].to_vec()
}

/// Hands out the values of an array as words of their width.
fn values<V: ArrowNativeType>(array: &ArrayRef, mut put: impl FnMut(usize, V)) {
    let data = array.to_data();
    let values: &[V] = data.buffer(0);
    values.iter().take(array.len()).enumerate().for_each(|(row, value)| put(row, *value));
}

/// The same of 16 bytes, which may lie anywhere.
fn wide_values(array: &ArrayRef, mut put: impl FnMut(usize, u128)) {
    let data = array.to_data();
    let bytes = data.buffers()[0].as_slice();
    let (words, _) = bytes[16 * data.offset()..].as_chunks::<16>();
    words.iter().take(array.len()).enumerate().for_each(|(row, word)| put(row, u128::from_le_bytes(*word)));
}

/// The length of the text of a row, bytes.
fn lengths(form: Form, array: &ArrayRef) -> Box<dyn Fn(usize) -> usize + '_> {
    fn of<T: ByteArrayType>(array: &GenericByteArray<T>) -> Box<dyn Fn(usize) -> usize + '_> {
        Box::new(|row| array.value_length(row).as_usize())
    }
    match (form, array.data_type()) {
        (Form::Bytes { is_large: false }, DataType::Utf8) => of(array.as_bytes::<Utf8Type>()),
        (Form::Bytes { is_large: false }, _) => of(array.as_bytes::<BinaryType>()),
        (_, DataType::LargeUtf8) => of(array.as_bytes::<LargeUtf8Type>()),
        _ => of(array.as_bytes::<LargeBinaryType>()),
    }
}

/// Bytes of the texts of an array; none of one of something else.
fn text_bytes(array: &ArrayRef) -> usize {
    fn of<T: ByteArrayType>(array: &GenericByteArray<T>) -> usize {
        let offsets = array.value_offsets();
        let first = offsets.first().map_or(0, |offset| offset.as_usize());
        offsets.last().map_or(0, |offset| offset.as_usize()) - first
    }
    match array.data_type() {
        DataType::Utf8 => of(array.as_bytes::<Utf8Type>()),
        DataType::Binary => of(array.as_bytes::<BinaryType>()),
        DataType::LargeUtf8 => of(array.as_bytes::<LargeUtf8Type>()),
        DataType::LargeBinary => of(array.as_bytes::<LargeBinaryType>()),
        _ => 0,
    }
}

/// Hands out the texts of an array; those of NULLs are any.
fn texts(form: Form, array: &ArrayRef, mut put: impl FnMut(usize, &[u8])) {
    fn of<T: ByteArrayType>(array: &GenericByteArray<T>, mut put: impl FnMut(usize, &[u8])) {
        (0..array.len()).for_each(|row| put(row, array.value(row).as_ref()));
    }
    match (form, array.data_type()) {
        (Form::Bytes { is_large: false }, DataType::Utf8) => of(array.as_bytes::<Utf8Type>(), &mut put),
        (Form::Bytes { is_large: false }, _) => of(array.as_bytes::<BinaryType>(), &mut put),
        (_, DataType::LargeUtf8) => of(array.as_bytes::<LargeUtf8Type>(), &mut put),
        _ => of(array.as_bytes::<LargeBinaryType>(), &mut put),
    }
}

/// The bytes of a column alone.
fn plain(array: &ArrayRef) -> Result<ByteKeys> {
    fn of<T: ByteArrayType>(array: &GenericByteArray<T>) -> Result<ByteKeys> {
        let first = array.value_offsets().first().map_or(0, |offset| offset.as_usize());
        let last = array.value_offsets().last().map_or(0, |offset| offset.as_usize());
        if u32::try_from(last - first).is_err() {
            return Err(ArrowError::OffsetOverflowError(last - first));
        }
        let ends = array.value_offsets().iter().skip(1).map(|end| (end.as_usize() - first) as u32).collect();
        Ok(ByteKeys { bytes: array.value_data()[first..last].to_vec(), ends })
    }
    match array.data_type() {
        DataType::Utf8 => of(array.as_bytes::<Utf8Type>()),
        DataType::Binary => of(array.as_bytes::<BinaryType>()),
        DataType::LargeUtf8 => of(array.as_bytes::<LargeUtf8Type>()),
        DataType::LargeBinary => of(array.as_bytes::<LargeBinaryType>()),
        _ => bug("a column that is no text"),
    }
}

#[cfg(test)]
mod tests;

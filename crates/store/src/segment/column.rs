//! One typed column of one segment: append a datum, read a datum, lend the values as an Arrow array.
//!
//! Called by `segment`, by `build`, and by `writeset::batch` for rows that wait. The layout is Arrow's own: fixed-width values, `i32` offsets with a byte
//! arena, bit-packed booleans and validity, offsets with a child column. Never checks what a row may hold: that is
//! `Shape::check_row`, before anything is changed.

use std::ops::Range;
use std::sync::Arc;

use ashlar_base::value::plain;
use ashlar_base::value::text::utf8;
use ashlar_base::{Datum, Interval, Items, Result, ScalarType, SqlType};

use super::BYTES_MAX;
use super::arena::Arena;
use super::bitmap::Bitmap;
use super::prefetch;
use crate::memory::Account;

/// Nanoseconds are what Arrow counts in an interval.
pub(crate) const NANOS_PER_MICRO: i64 = 1_000;

/// A column; see the module.
pub(crate) struct Column {
    pub(super) sql_type: SqlType,
    pub(super) len: usize,
    /// Allocated at the first NULL.
    pub(super) validity: Option<Bitmap>,
    pub(super) data: Data,
    account: Arc<Account>,
}

/// The values of a column. NULL rows hold zero, or nothing.
pub(super) enum Data {
    /// `boolean`
    Bits(Bitmap),
    /// Values of one width.
    Fixed { values: Arena, width: usize },
    /// `len + 1` offsets into the bytes; empty while there are no rows.
    Bytes { offsets: Arena, bytes: Arena },
    /// `len + 1` offsets into the items; empty while there are no rows.
    List { offsets: Arena, items: Box<Column> },
}

/// What appending rows to a column takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Rows.
    pub(crate) rows: usize,
    /// Bytes of text or bytea, those in arrays included.
    pub(crate) bytes: usize,
    /// Array elements.
    pub(crate) items: usize,
}

impl Need {
    /// What one value takes.
    pub(crate) fn of(datum: &Datum<'_>) -> Self {
        let (bytes, items) = match datum {
            Datum::Text(text) => (text.len(), 0),
            Datum::Bytea(bytes) => (bytes.len(), 0),
            Datum::Array(items) => (items.iter().map(|item| Self::of(&item).bytes).sum(), items.len()),
            _ => (0, 0),
        };
        Self { rows: 1, bytes, items }
    }

    /// Adds up.
    pub(crate) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.items += other.items;
    }
}

/// Bytes of a value of fixed width; `None` for the others.
fn width(scalar: ScalarType) -> Option<usize> {
    match scalar {
        ScalarType::Int2 => Some(2),
        ScalarType::Int4 | ScalarType::Float4 | ScalarType::Date => Some(4),
        ScalarType::Int8 | ScalarType::Float8 | ScalarType::Time | ScalarType::Timestamp | ScalarType::Timestamptz => {
            Some(8)
        }
        ScalarType::Numeric { .. } | ScalarType::Interval | ScalarType::Uuid => Some(16),
        ScalarType::Bool
        | ScalarType::Text
        | ScalarType::Varchar { .. }
        | ScalarType::Char { .. }
        | ScalarType::Bytea
        | ScalarType::Json
        | ScalarType::Jsonb => None,
    }
}

impl Column {
    /// Without rows and without memory.
    pub(crate) fn new(sql_type: SqlType, account: &Arc<Account>) -> Self {
        let arena = || Arena::new(account);
        let data = match sql_type {
            SqlType::Array(element) => {
                Data::List { offsets: arena(), items: Box::new(Self::new(SqlType::Scalar(element), account)) }
            }
            SqlType::Scalar(ScalarType::Bool) => Data::Bits(Bitmap::new(account)),
            SqlType::Scalar(scalar) => match width(scalar) {
                Some(width) => Data::Fixed { values: arena(), width },
                None => Data::Bytes { offsets: arena(), bytes: arena() },
            },
        };
        Self { sql_type, len: 0, validity: None, data, account: Arc::clone(account) }
    }

    /// Rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the values take.
    pub(crate) fn bytes(&self) -> usize {
        match &self.data {
            Data::Bits(bits) => bits.len().div_ceil(8),
            Data::Fixed { values, .. } => values.len(),
            Data::Bytes { offsets, bytes } => offsets.len() + bytes.len(),
            Data::List { offsets, items } => offsets.len() + items.bytes(),
        }
    }

    /// Brings near what says where a value is, or the value itself where it has a fixed width.
    #[inline]
    pub(crate) fn prefetch_place(&self, row: usize) {
        let (arena, at) = match &self.data {
            Data::Fixed { values, width } => (values, row * width),
            Data::Bytes { offsets, .. } | Data::List { offsets, .. } => (offsets, row * size_of::<i32>()),
            Data::Bits(_) => return,
        };
        if let Some(first) = arena.bytes().get(at) {
            prefetch::line(first);
        }
    }

    /// Brings the bytes of a text near. What says where they are is near already.
    #[inline]
    pub(crate) fn prefetch_bytes(&self, row: usize) {
        if let Data::Bytes { offsets, bytes } = &self.data
            && row < self.len
        {
            let (start, end) = (offset(offsets, row), offset(offsets, row + 1));
            prefetch::bytes(bytes.bytes().get(start..end).unwrap_or_default());
        }
    }

    /// Whether these rows go in: one alone if the offsets can say where it ends, more up to a bound.
    pub(crate) fn fits(&self, need: Need) -> bool {
        let alone = self.len + need.rows <= 1;
        if alone { self.can_hold(need) } else { self.fits_below(need, BYTES_MAX) }
    }

    /// Whether offsets can say where these rows end, however much memory they take.
    pub(crate) fn can_hold(&self, need: Need) -> bool {
        self.fits_below(need, i32::MAX as usize)
    }

    fn fits_below(&self, need: Need, count_max: usize) -> bool {
        match &self.data {
            Data::Bits(_) | Data::Fixed { .. } => true,
            Data::Bytes { bytes, .. } => bytes.len() + need.bytes <= count_max,
            Data::List { items, .. } => items.len + need.items <= count_max && items.fits_below(need, count_max),
        }
    }

    /// Whether rows go in without growing.
    pub(crate) fn has_room(&self, need: Need) -> bool {
        let offsets_have = |offsets: &Arena| offsets.has_room((need.rows + usize::from(offsets.len() == 0)) * 4);
        match &self.data {
            Data::Bits(_) => true,
            Data::Fixed { values, width } => values.has_room(need.rows * width),
            Data::Bytes { offsets, bytes } => offsets_have(offsets) && bytes.has_room(need.bytes),
            Data::List { offsets, items } => {
                offsets_have(offsets) && items.has_room(Need { rows: need.items, bytes: need.bytes, items: 0 })
            }
        }
    }

    /// Makes room for rows; a column of `rows_max` rows in all has no room to spare. Over the memory bound it says
    /// 53200 and the column holds what it held.
    pub(crate) fn reserve(&mut self, need: Need, rows_max: usize) -> Result<()> {
        self.reserve_by(need, rows_max, Arena::reserve)
    }

    /// The same for a column that goes on to grow until it is sealed: see [`Arena::reserve_twice`].
    pub(crate) fn reserve_twice(&mut self, need: Need, rows_max: usize) -> Result<()> {
        self.reserve_by(need, rows_max, Arena::reserve_twice)
    }

    fn reserve_by(&mut self, need: Need, rows_max: usize, by: impl Reserve) -> Result<()> {
        match &mut self.data {
            Data::Bits(_) => Ok(()),
            Data::Fixed { values, width } => by(values, need.rows * *width, rows_max.saturating_mul(*width)),
            Data::Bytes { offsets, bytes } => {
                reserve_offsets(offsets, need.rows, rows_max, by)?;
                by(bytes, need.bytes, BYTES_MAX)
            }
            Data::List { offsets, items } => {
                reserve_offsets(offsets, need.rows, rows_max, by)?;
                items.reserve_by(Need { rows: need.items, bytes: need.bytes, items: 0 }, usize::MAX, by)
            }
        }
    }

    /// Makes room for exactly these rows, even over the memory bound: see `Arena::reserve_exact`.
    pub(crate) fn reserve_exact(&mut self, need: Need) {
        let items = Need { rows: need.items, bytes: need.bytes, items: 0 };
        match &mut self.data {
            Data::Bits(_) => {}
            Data::Fixed { values, width } => values.reserve_exact(need.rows * *width),
            Data::Bytes { offsets, bytes } => {
                offsets.reserve_exact((need.rows + 1) * 4);
                bytes.reserve_exact(need.bytes);
            }
            Data::List { offsets, items: column } => {
                offsets.reserve_exact((need.rows + 1) * 4);
                column.reserve_exact(items);
            }
        }
    }

    #[inline]
    fn push_valid(&mut self, valid: bool) {
        if let Some(validity) = &mut self.validity {
            validity.push(valid);
        } else if !valid {
            let mut validity = Bitmap::filled(&self.account, true, self.len);
            validity.push(false);
            self.validity = Some(validity);
        }
        self.len += 1;
    }

    /// Appends a value of the column's type, or NULL, into room that was reserved.
    pub(crate) fn push(&mut self, datum: &Datum<'_>) {
        let sql_type = self.sql_type;
        match (&mut self.data, datum) {
            (Data::Bits(bits), Datum::Bool(value)) => bits.push(*value),
            (Data::Bits(bits), Datum::Null) => bits.push(false),
            (Data::Fixed { values, width }, Datum::Null) => values.push(&[0; 16][..*width]),
            (Data::Fixed { values, width }, datum) => with_fixed(sql_type, datum, *width, |bytes| values.push(bytes)),
            (Data::Bytes { offsets, bytes }, datum) => {
                if !datum.is_null() {
                    bytes.push(byte_value(sql_type, datum));
                }
                push_offset(offsets, bytes.len());
            }
            (Data::List { offsets, items }, datum) => {
                match datum {
                    Datum::Array(values) => values.iter().for_each(|value| items.push(&value)),
                    Datum::Null => {}
                    datum => wrong_type(sql_type, datum),
                }
                push_offset(offsets, items.len);
            }
            (Data::Bits(_), datum) => wrong_type(sql_type, datum),
        }
        self.push_valid(!datum.is_null());
    }

    /// The short way of what most columns are given: appends a value of the column's type, where that type has no limits and there
    /// is room. False, and nothing has changed: it is another value, or there is none.
    #[inline]
    pub(crate) fn push_plain(&mut self, datum: &Datum<'_>) -> bool {
        let SqlType::Scalar(scalar) = self.sql_type else { return false };
        let is_pushed = match (&mut self.data, scalar, datum) {
            (Data::Fixed { values, .. }, ScalarType::Int8, Datum::Int8(value)) => values.try_push(*value),
            (Data::Fixed { values, .. }, ScalarType::Int4, Datum::Int4(value)) => values.try_push(*value),
            (Data::Fixed { values, .. }, ScalarType::Float8, Datum::Float8(value)) => values.try_push(*value),
            (Data::Bytes { offsets, bytes }, ScalarType::Text, Datum::Text(text)) => {
                try_push_bytes(offsets, bytes, text.as_bytes())
            }
            _ => false,
        };
        if is_pushed {
            self.push_valid(true);
        }
        is_pushed
    }

    /// The same of a value that is a text yet: one of the numbers that `plain` reads, or text without limits. How many bytes of text the
    /// column has more; `None`, and nothing has changed: it is something else, as far as is known here, or there is no room.
    #[inline]
    pub(crate) fn push_text(&mut self, text: &[u8]) -> Option<usize> {
        let SqlType::Scalar(scalar) = self.sql_type else { return None };
        let mut more = 0;
        let is_pushed = match (&mut self.data, scalar) {
            (Data::Fixed { values, .. }, ScalarType::Int8) => {
                plain::integer(text).is_some_and(|number| values.try_push(number))
            }
            (Data::Fixed { values, .. }, ScalarType::Int4) => {
                let number = plain::integer(text).and_then(|number| i32::try_from(number).ok());
                number.is_some_and(|number| values.try_push(number))
            }
            (Data::Fixed { values, .. }, ScalarType::Int2) => {
                let number = plain::integer(text).and_then(|number| i16::try_from(number).ok());
                number.is_some_and(|number| values.try_push(number))
            }
            (Data::Fixed { values, .. }, ScalarType::Float8) => {
                plain::double(text).is_some_and(|number| values.try_push(number))
            }
            (Data::Bytes { offsets, bytes }, ScalarType::Text | ScalarType::Varchar { length: None }) => {
                more = text.len();
                // What is pushed here is lent as text: see `borrow::text`.
                (plain::is_ascii_text(text) || utf8(text).is_ok()) && try_push_bytes(offsets, bytes, text)
            }
            _ => false,
        };
        if !is_pushed {
            return None;
        }
        self.push_valid(true);
        Some(more)
    }

    /// Whether [`Column::overwrite`] may put a value in the place of a row's: NULL stays NULL, a value of the same
    /// number of bytes takes the place of another, and no reader borrows the memory.
    pub(crate) fn can_overwrite(&self, row: usize, datum: &Datum<'_>) -> bool {
        if datum.is_null() || !self.is_valid(row) {
            return datum.is_null() && !self.is_valid(row);
        }
        match &self.data {
            Data::Bits(bits) => bits.is_unshared(),
            Data::Fixed { values, .. } => values.is_unshared(),
            Data::Bytes { offsets, bytes } => {
                let len = offset(offsets, row + 1) - offset(offsets, row);
                Need::of(datum).bytes == len && bytes.is_unshared()
            }
            Data::List { .. } => false,
        }
    }

    /// Puts a value in the place of a row's, where [`Column::can_overwrite`] says that it may.
    pub(crate) fn overwrite(&mut self, row: usize, datum: &Datum<'_>) {
        let sql_type = self.sql_type;
        match (&mut self.data, datum) {
            (_, Datum::Null) => {}
            (Data::Bits(bits), Datum::Bool(value)) => bits.set(row, *value),
            (Data::Fixed { values, width }, datum) => {
                with_fixed(sql_type, datum, *width, |bytes| values.overwrite(row * bytes.len(), bytes));
            }
            (Data::Bytes { offsets, bytes }, datum) => {
                bytes.overwrite(offset(offsets, row), byte_value(sql_type, datum));
            }
            (Data::Bits(_) | Data::List { .. }, datum) => wrong_type(sql_type, datum),
        }
    }

    /// Appends a copy of a row of this column, into room that was reserved.
    pub(crate) fn push_within(&mut self, row: usize) {
        let valid = self.is_valid(row);
        match &mut self.data {
            Data::Bits(bits) => {
                let value = bits.get(row);
                bits.push(value);
            }
            Data::Fixed { values, width } => values.push_within(row * *width, *width),
            Data::Bytes { offsets, bytes } => {
                let (start, end) = (offset(offsets, row), offset(offsets, row + 1));
                bytes.push_within(start, end - start);
                push_offset(offsets, bytes.len());
            }
            Data::List { offsets, items } => {
                for item in offset(offsets, row)..offset(offsets, row + 1) {
                    items.push_within(item);
                }
                push_offset(offsets, items.len);
            }
        }
        self.push_valid(valid);
    }

    /// Appends copies of rows of another column of the type, into room that was reserved: column by column, as a row by itself
    /// would have its type asked for with each value.
    pub(crate) fn gather(&mut self, source: &Self, rows: &[u32]) {
        assert_eq!(self.sql_type, source.sql_type, "values are copied between columns of one type");
        match (&mut self.data, &source.data) {
            (Data::Bits(bits), Data::Bits(from)) => rows.iter().for_each(|&row| bits.push(from.get(row as usize))),
            (Data::Fixed { values, width }, Data::Fixed { values: from, .. }) => match *width {
                2 => values.gather::<i16>(from, rows),
                4 => values.gather::<i32>(from, rows),
                8 => values.gather::<i64>(from, rows),
                _ => values.gather::<i128>(from, rows),
            },
            (Data::Bytes { offsets, bytes }, Data::Bytes { offsets: from_offsets, bytes: from }) => {
                let from = from.bytes();
                for &row in rows {
                    bytes.push(&from[range(from_offsets, row as usize)]);
                    push_offset(offsets, bytes.len());
                }
            }
            (Data::List { offsets, items }, Data::List { offsets: from_offsets, items: from }) => {
                for &row in rows {
                    items.push_range(from, range(from_offsets, row as usize));
                    push_offset(offsets, items.len);
                }
            }
            _ => unreachable!("columns of one type have one layout"),
        }
        if self.validity.is_none() && source.validity.is_none() {
            self.len += rows.len();
        } else {
            rows.iter().for_each(|&row| self.push_valid(source.is_valid(row as usize)));
        }
    }

    /// Appends copies of neighbouring rows of another column of the type, into room that was reserved.
    fn push_range(&mut self, source: &Self, rows: Range<usize>) {
        if self.validity.is_none()
            && source.validity.is_none()
            && let (Data::Fixed { values, width }, Data::Fixed { values: from, .. }) = (&mut self.data, &source.data)
        {
            values.push(&from.bytes()[rows.start * *width..rows.end * *width]);
            self.len += rows.len();
            return;
        }
        rows.for_each(|row| self.push(&source.datum(row)));
    }

    /// What copies of some rows take.
    pub(crate) fn need_of(&self, rows: &[u32]) -> Need {
        let mut sum = Need::default();
        match &self.data {
            Data::Bits(_) | Data::Fixed { .. } => sum.rows = rows.len(),
            Data::Bytes { offsets, .. } => {
                sum.rows = rows.len();
                sum.bytes = rows.iter().map(|&row| range(offsets, row as usize).len()).sum();
            }
            Data::List { .. } => rows.iter().for_each(|&row| sum.add(self.need(row as usize))),
        }
        sum
    }

    /// What a copy of the row takes.
    pub(crate) fn need(&self, row: usize) -> Need {
        match &self.data {
            Data::Bits(_) | Data::Fixed { .. } => Need { rows: 1, ..Need::default() },
            Data::Bytes { offsets, .. } => {
                Need { rows: 1, bytes: offset(offsets, row + 1) - offset(offsets, row), items: 0 }
            }
            Data::List { offsets, items } => {
                let (start, end) = (offset(offsets, row), offset(offsets, row + 1));
                let bytes = match &items.data {
                    Data::Bytes { offsets, .. } => offset(offsets, end) - offset(offsets, start),
                    _ => 0,
                };
                Need { rows: 1, bytes, items: end - start }
            }
        }
    }

    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|validity| validity.get(row))
    }

    /// The value of a row. Nothing is copied, but for arrays.
    #[inline]
    pub(crate) fn datum(&self, row: usize) -> Datum<'_> {
        assert!(row < self.len, "rows are read below the length");
        if !self.is_valid(row) {
            return Datum::Null;
        }
        match &self.data {
            Data::Bits(bits) => Datum::Bool(bits.get(row)),
            Data::Fixed { values, .. } => match self.sql_type.scalar() {
                ScalarType::Int2 => Datum::Int2(values.value(row)),
                ScalarType::Int4 => Datum::Int4(values.value(row)),
                ScalarType::Int8 => Datum::Int8(values.value(row)),
                ScalarType::Float4 => Datum::Float4(values.value(row)),
                ScalarType::Float8 => Datum::Float8(values.value(row)),
                ScalarType::Numeric { .. } => Datum::Numeric(values.value(row)),
                ScalarType::Date => Datum::Date(values.value(row)),
                ScalarType::Time => Datum::Time(values.value(row)),
                ScalarType::Timestamp | ScalarType::Timestamptz => Datum::Timestamp(values.value(row)),
                ScalarType::Interval => Datum::Interval(interval_of(values.value(row))),
                ScalarType::Uuid => Datum::Uuid(values.value(row)),
                ScalarType::Bool
                | ScalarType::Text
                | ScalarType::Varchar { .. }
                | ScalarType::Char { .. }
                | ScalarType::Bytea
                | ScalarType::Json
                | ScalarType::Jsonb => unreachable!("these have no fixed width"),
            },
            Data::Bytes { offsets, bytes } => {
                let (start, end) = (offset(offsets, row), offset(offsets, row + 1));
                let value = &bytes.bytes()[start..end];
                if self.sql_type == SqlType::Scalar(ScalarType::Bytea) {
                    Datum::Bytea(value)
                } else {
                    Datum::Text(super::borrow::text(self, value))
                }
            }
            Data::List { offsets, items } => {
                let range = offset(offsets, row)..offset(offsets, row + 1);
                Datum::Array(Items::Values(range.map(|item| items.datum(item).to_value()).collect()))
            }
        }
    }

    /// Forgets all rows, of which none was lent, and keeps the memory of most.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.validity = None;
        match &mut self.data {
            Data::Bits(bits) => *bits = Bitmap::new(&self.account),
            Data::Fixed { values, .. } => values.clear(),
            Data::Bytes { offsets, bytes } => {
                offsets.clear();
                bytes.clear();
            }
            Data::List { offsets, items } => {
                offsets.clear();
                items.clear();
            }
        }
    }

    /// The value of a row of a key's column, if it is an integer: a key has no NULL.
    #[inline]
    pub(crate) fn integer(&self, row: usize) -> Option<i64> {
        let Data::Fixed { values, .. } = &self.data else { return None };
        match self.sql_type.scalar() {
            ScalarType::Int8 => Some(values.value(row)),
            ScalarType::Int4 => Some(i64::from(values.value::<i32>(row))),
            ScalarType::Int2 => Some(i64::from(values.value::<i16>(row))),
            _ => None,
        }
    }

    /// Rows may come, but have not for a while: gives spare room back.
    pub(crate) fn trim(&mut self) {
        match &mut self.data {
            Data::Bits(_) => {}
            Data::Fixed { values, .. } => values.trim(),
            Data::Bytes { offsets, bytes } => {
                offsets.trim();
                bytes.trim();
            }
            Data::List { offsets, items } => {
                offsets.trim();
                items.trim();
            }
        }
    }

    /// No more rows come: bitmaps can be lent from now on, spare room is given back.
    pub(crate) fn seal(&mut self) {
        if let Some(validity) = &mut self.validity {
            validity.freeze();
        }
        match &mut self.data {
            Data::Bits(bits) => bits.freeze(),
            Data::Fixed { values, .. } => values.shrink(),
            Data::Bytes { offsets, bytes } => {
                offsets.shrink();
                bytes.shrink();
            }
            Data::List { offsets, items } => {
                offsets.shrink();
                items.seal();
            }
        }
    }
}

/// Hands out the bytes of a value of fixed width, as its column holds them.
#[inline]
fn with_fixed(sql_type: SqlType, datum: &Datum<'_>, width: usize, mut f: impl FnMut(&[u8])) {
    match (datum, width) {
        (Datum::Int2(value), 2) => f(&value.to_ne_bytes()),
        (Datum::Int4(value) | Datum::Date(value), 4) => f(&value.to_ne_bytes()),
        (Datum::Float4(value), 4) => f(&value.to_ne_bytes()),
        (Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value), 8) => f(&value.to_ne_bytes()),
        (Datum::Float8(value), 8) => f(&value.to_ne_bytes()),
        (Datum::Numeric(value), 16) => f(&value.to_ne_bytes()),
        (Datum::Interval(value), 16) => f(&interval_bytes(*value)),
        (Datum::Uuid(value), 16) => f(&value[..]),
        (datum, _) => wrong_type(sql_type, datum),
    }
}

/// The bytes of a value of text or bytea. Only bytea goes into a column of bytea alone: what is lent as text was
/// text.
#[inline]
fn byte_value<'d>(sql_type: SqlType, datum: &'d Datum<'_>) -> &'d [u8] {
    match datum {
        Datum::Text(text) => text.as_bytes(),
        Datum::Bytea(value) if sql_type == SqlType::Scalar(ScalarType::Bytea) => value,
        datum => wrong_type(sql_type, datum),
    }
}

#[cold]
fn wrong_type(sql_type: SqlType, datum: &Datum<'_>) -> ! {
    panic!("{datum:?} in a column of type {sql_type}")
}

/// Makes room in an arena for so many bytes more, at most so many in all unless more are needed.
trait Reserve: Fn(&mut Arena, usize, usize) -> Result<()> + Copy {}

impl<F: Fn(&mut Arena, usize, usize) -> Result<()> + Copy> Reserve for F {}

fn reserve_offsets(offsets: &mut Arena, rows: usize, rows_max: usize, by: impl Reserve) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    let first = usize::from(offsets.len() == 0);
    by(offsets, (rows + first) * 4, rows_max.saturating_add(1).saturating_mul(4))
}

/// Appends a value and where it ends; false, and nothing has changed, where there is no room.
#[inline]
fn try_push_bytes(offsets: &mut Arena, bytes: &mut Arena, value: &[u8]) -> bool {
    let end = bytes.len() + value.len();
    // Of the first one, the beginning is an offset too.
    let has_room = offsets.has_room(8) && end <= bytes.capacity().min(i32::MAX as usize);
    if has_room {
        bytes.push(value);
        push_offset(offsets, end);
    }
    has_room
}

#[inline]
fn push_offset(offsets: &mut Arena, end: usize) {
    if offsets.len() == 0 {
        offsets.push_value(0i32);
    }
    offsets.push_value(i32::try_from(end).expect("a segment is sealed before its offsets overflow"));
}

/// Where the row lies.
fn range(offsets: &Arena, row: usize) -> Range<usize> {
    offset(offsets, row)..offset(offsets, row + 1)
}

/// Where the row starts; `row` may be one past the last.
pub(super) fn offset(offsets: &Arena, row: usize) -> usize {
    if offsets.len() == 0 { 0 } else { offsets.value::<i32>(row) as usize }
}

/// Arrow's interval: months, days, nanoseconds. The range was checked with the row.
fn interval_bytes(interval: Interval) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&interval.months.to_ne_bytes());
    bytes[4..8].copy_from_slice(&interval.days.to_ne_bytes());
    bytes[8..].copy_from_slice(&interval.micros.saturating_mul(NANOS_PER_MICRO).to_ne_bytes());
    bytes
}

fn interval_of(bytes: [u8; 16]) -> Interval {
    let [a, b, c, d, e, f, g, h, nanos @ ..] = bytes;
    Interval {
        months: i32::from_ne_bytes([a, b, c, d]),
        days: i32::from_ne_bytes([e, f, g, h]),
        micros: i64::from_ne_bytes(nanos) / NANOS_PER_MICRO,
    }
}

#[cfg(test)]
mod tests;

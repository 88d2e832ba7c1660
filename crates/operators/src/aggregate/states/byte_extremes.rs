//! `min` and `max` of texts and of bytes, compared byte by byte.
//!
//! ```text
//! places   | start, 34 bits | length, 30 bits |   one word a group, all ones where it has no value yet
//! bytes    ...text of group 7|no longer used|text of group 2|...
//! ```
//!
//! A value that is not longer than the one it replaces is written over it. When the bytes have to grow and a quarter of them is
//! unused, the unused ones are left out.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion_common::{Result, exec_err, internal_err};

use super::{State, counted};
use crate::hash_table::account::Account;
use crate::memory::{Charge, Wish};

/// Of a group without a value.
const NOTHING: u64 = u64::MAX;
/// Bits of a length.
const LENGTH_BITS: u32 = 30;
/// Bytes of a value, less one: PostgreSQL has no longer ones.
const LENGTH_MAX: usize = (1 << LENGTH_BITS) - 1;
/// Bytes of the values of all groups of a table: those of one array. More groups leave memory.
const RESULT_BYTES: usize = if cfg!(test) { 16 << 20 } else { i32::MAX as usize };
/// Where a value can begin; one below what [`NOTHING`] would be.
const START_MAX: usize = (1 << (64 - LENGTH_BITS)) - 2;

/// See the module.
pub(crate) struct ByteExtremes {
    places: Vec<u64>,
    bytes: Vec<u8>,
    /// Bytes that no place is of.
    unused: usize,
    is_max: bool,
    is_text: bool,
    charge: Charge,
}

/// Whether values of a type are compared here.
pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Binary)
}

impl ByteExtremes {
    /// `max`, else `min`, of values of a type, which [`is_bytes`].
    pub(crate) fn new(data_type: &DataType, is_max: bool, charge: Charge) -> Self {
        let is_text = *data_type == DataType::Utf8;
        Self { places: Vec::new(), bytes: Vec::new(), unused: 0, is_max, is_text, charge }
    }

    fn settle(&mut self) {
        self.charge.settle(self.places.capacity() * size_of::<u64>() + self.bytes.capacity());
    }

    /// Takes the value of a row for its group, if it is the better one.
    #[inline]
    fn fold(&mut self, id: usize, value: &[u8]) -> Result<()> {
        let place = self.places[id];
        if place == NOTHING {
            return self.append(id, value);
        }
        let old = range_of(place);
        let is_better = if self.is_max { *value > self.bytes[old.clone()] } else { *value < self.bytes[old.clone()] };
        if !is_better {
            return Ok(());
        }
        let spare = old.len().saturating_sub(value.len());
        if value.len() <= old.len() {
            self.bytes[old.start..old.start + value.len()].copy_from_slice(value);
            self.places[id] = place_of(old.start, value.len());
            self.unused += spare;
            return Ok(());
        }
        self.unused += old.len();
        self.places[id] = NOTHING;
        self.append(id, value)
    }

    /// Gives a value to a group that has none.
    fn append(&mut self, id: usize, value: &[u8]) -> Result<()> {
        if value.len() > LENGTH_MAX {
            return exec_err!("a value of {} bytes is too long to be compared", value.len());
        }
        if self.bytes.len() + value.len() > self.bytes.capacity() {
            self.make_room(value.len());
        }
        let start = self.bytes.len();
        if start > START_MAX {
            return exec_err!("the values of groups take more than {START_MAX} bytes");
        }
        self.bytes.extend_from_slice(value);
        self.places[id] = place_of(start, value.len());
        Ok(())
    }

    /// Room for so many bytes more, and for a quarter more than there are. There is no way back from here: they are charged
    /// whether the pool has them or not, before they are taken, and the next reservation finds that it has not.
    fn make_room(&mut self, more: usize) {
        let used = self.bytes.len() - self.unused;
        let room = (used + more).max(used + used / 4);
        self.charge.take(room);
        if self.unused <= self.bytes.len() / 4 {
            self.bytes.reserve_exact(room + self.unused - self.bytes.len());
        } else {
            let mut bytes = Vec::with_capacity(room);
            for place in self.places.iter_mut().filter(|place| **place != NOTHING) {
                let old = range_of(*place);
                *place = place_of(bytes.len(), old.len());
                bytes.extend_from_slice(&self.bytes[old]);
            }
            (self.bytes, self.unused) = (bytes, 0);
        }
        self.settle();
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let places = std::mem::take(&mut self.places);
        let used = self.bytes.len() - self.unused;
        if i32::try_from(used).is_err() {
            return exec_err!("the values of {} groups take {used} bytes: too many for one batch", places.len());
        }
        // The old ones are there until the new ones are.
        self.charge.take(used + (places.len() + 1) * size_of::<i32>());
        let mut values = Vec::with_capacity(used);
        let mut offsets = Vec::with_capacity(places.len() + 1);
        offsets.push(0);
        for &place in &places {
            if place != NOTHING {
                values.extend_from_slice(&self.bytes[range_of(place)]);
            }
            offsets.push(values.len() as i32);
        }
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(places.len(), |id| places[id] != NOTHING));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        (self.bytes, self.unused) = (Vec::new(), 0);
        self.charge.settle(values.capacity() + offsets.capacity() * size_of::<i32>());
        let (offsets, values) = (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values));
        Ok(if self.is_text {
            Arc::new(StringArray::try_new(offsets, values, nulls)?)
        } else {
            Arc::new(BinaryArray::try_new(offsets, values, nulls)?)
        })
    }
}

fn place_of(start: usize, length: usize) -> u64 {
    (start as u64) << LENGTH_BITS | length as u64
}

fn range_of(place: u64) -> Range<usize> {
    let (start, length) = ((place >> LENGTH_BITS) as usize, place as usize & LENGTH_MAX);
    start..start + length
}

impl State for ByteExtremes {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        self.charge.room(&mut self.places, groups, wish)?;
        self.settle();
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.places.resize(groups, NOTHING);
        let array = &values[0];
        let counted = counted(array.nulls(), filter);
        let mut rows =
            ids.iter().enumerate().filter(|(row, _)| counted.as_ref().is_none_or(|is_counted| is_counted(*row)));
        match (array.as_string_opt::<i32>(), array.as_binary_opt::<i32>()) {
            (Some(texts), _) => rows.try_for_each(|(row, &id)| self.fold(id, texts.value(row).as_bytes())),
            (_, Some(bytes)) => rows.try_for_each(|(row, &id)| self.fold(id, bytes.value(row))),
            _ => internal_err!("values of type {} are not compared", array.data_type()),
        }
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.take()
    }

    fn ready_for(&mut self, values: &[ArrayRef], _: usize, _: bool, wish: Wish) -> Result<()> {
        let more = values.first().map_or(0, text_bytes);
        // Groups that leave have room again; where there is nobody who could, it is tried.
        if wish == Wish::IfFree && self.bytes.len() - self.unused + more > RESULT_BYTES {
            let what = format!("the values of {} groups are too long for one batch", self.places.len());
            return Err(ArrowError::MemoryError(what).into());
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    fn bytes_of_values(&self) -> usize {
        self.bytes.len()
    }
}

/// Bytes of the values of an array.
fn text_bytes(array: &ArrayRef) -> usize {
    let between = |offsets: &[i32]| match offsets {
        [first, .., last] => (last - first) as usize,
        _ => 0,
    };
    match (array.as_string_opt::<i32>(), array.as_binary_opt::<i32>()) {
        (Some(texts), _) => between(texts.value_offsets()),
        (_, Some(bytes)) => between(bytes.value_offsets()),
        _ => 0,
    }
}

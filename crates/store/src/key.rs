//! Keys: their hash, their equality, and the partition that owns them.
//!
//! Called by `rows` for its index and by `region` to find the partition. Two key values are equal if their canonical
//! texts are: -0.0 equals 0.0, NaN equals NaN, and integers compare by value. Indexes also hash values of types that
//! cannot be keys; values that are equal in `order` have equal hashes.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

use ashlar_base::slot::{partition_of_slot, slot_of_key, slot_of_row};
use ashlar_base::value::interval::arithmetic::order as length;
use ashlar_base::value::text::canonical_key;
use ashlar_base::{Datum, PartitionId, ScalarType, Slot, SqlType};
use foldhash::fast::{FoldHasher, RandomState};

use crate::shape::has_type;

/// The hash of a key: stable for the life of a store, different in the next one.
pub(crate) fn hash<'d>(state: &RandomState, key: impl Iterator<Item = Datum<'d>>) -> u64 {
    let mut hasher = state.build_hasher();
    for datum in key {
        hash_datum(&mut hasher, &datum);
    }
    hasher.finish()
}

/// The same of one value.
pub(crate) fn hash_one(state: &RandomState, datum: &Datum<'_>) -> u64 {
    let mut hasher = state.build_hasher();
    hash_datum(&mut hasher, datum);
    hasher.finish()
}

/// The same of a key that is one integer, whatever its width.
#[inline]
pub(crate) fn hash_integer(state: &RandomState, value: i64) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write_u64(value.cast_unsigned());
    hasher.finish()
}

fn hash_datum(hasher: &mut FoldHasher<'_>, datum: &Datum<'_>) {
    match datum {
        Datum::Null => hasher.write_u64(0),
        Datum::Bool(value) => hasher.write_u64(u64::from(*value)),
        Datum::Int2(value) => hasher.write_u64(i64::from(*value).cast_unsigned()),
        Datum::Int4(value) | Datum::Date(value) => hasher.write_u64(i64::from(*value).cast_unsigned()),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => hasher.write_u64(value.cast_unsigned()),
        Datum::Float4(value) => hasher.write_u64(canonical_bits(f64::from(*value))),
        Datum::Float8(value) => hasher.write_u64(canonical_bits(*value)),
        Datum::Numeric(value) => hasher.write_u128(value.cast_unsigned()),
        Datum::Text(value) => hash_bytes(hasher, value.as_bytes()),
        Datum::Bytea(value) => hash_bytes(hasher, value),
        Datum::Uuid(value) => hasher.write_u128(u128::from_ne_bytes(*value)),
        Datum::Interval(value) => hasher.write_u128(length(*value).cast_unsigned()),
        Datum::Array(items) => {
            items.iter().for_each(|item| hash_datum(hasher, &item));
            hasher.write_u64(items.len() as u64);
        }
    }
}

fn hash_bytes(hasher: &mut FoldHasher<'_>, bytes: &[u8]) {
    hasher.write(bytes);
    hasher.write_u8(0xff);
}

fn canonical_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    }
}

fn integer(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    }
}

/// Whether two values of one key column are the same key.
#[inline]
pub(crate) fn equal(left: &Datum<'_>, right: &Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Float4(left), Datum::Float4(right)) => {
            canonical_bits(f64::from(*left)) == canonical_bits(f64::from(*right))
        }
        (Datum::Float8(left), Datum::Float8(right)) => canonical_bits(*left) == canonical_bits(*right),
        (Datum::Text(left), Datum::Text(right)) => left == right,
        (Datum::Bytea(left), Datum::Bytea(right)) => left == right,
        (Datum::Null, _) | (_, Datum::Null) => false,
        _ => match (integer(left), integer(right)) {
            (Some(left), Some(right)) => left == right,
            _ => left == right,
        },
    }
}

/// Whether a row's key column of this type can equal the datum: any integer may ask for any integer.
pub(crate) fn has_key_type(sql_type: SqlType, datum: &Datum<'_>) -> bool {
    let is_integer = matches!(sql_type.scalar(), ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8);
    (is_integer && integer(datum).is_some()) || has_type(sql_type, datum)
}

/// The table whose one `bytea` column holds the plain keys of the RESP door.
const PLAIN_KEYS: &str = "kv";

/// How the keys of one region find their partition.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// The name of the table when it was created: a later name must not move rows.
    name: Box<str>,
    /// The keys are names of the RESP door as they are, and not the text between the braces of one.
    is_plain: bool,
    /// Positions within the key.
    positions: Box<[usize]>,
    types: Box<[SqlType]>,
    /// The positions are 0, 1, 2, ... to the key's end.
    is_whole_key: bool,
    partition_count: u16,
}

impl Placement {
    pub(crate) fn new(name: &str, positions: Box<[usize]>, key_types: &[SqlType], partition_count: u16) -> Self {
        let types = positions.iter().map(|&position| key_types[position]).collect();
        let is_whole_key = positions.iter().copied().eq(0..key_types.len());
        let is_plain = name == PLAIN_KEYS;
        Self { name: name.into(), is_plain, positions, types, is_whole_key, partition_count }
    }

    /// The partition of a key, whose values are in key order.
    pub(crate) fn partition(&self, key: &[Datum<'_>]) -> PartitionId {
        partition_of_slot(self.slot(key), self.partition_count)
    }

    /// The same of a key that is one integer, whatever its width; `None`: it is not found by that alone.
    #[inline]
    pub(crate) fn partition_of_integer(&self, value: i64) -> Option<PartitionId> {
        let [0] = *self.positions else { return None };
        let slot = slot_of_row(&self.name, itoa::Buffer::new().format(value).as_bytes());
        Some(partition_of_slot(slot, self.partition_count))
    }

    fn slot(&self, key: &[Datum<'_>]) -> Slot {
        let row = |text: &[u8]| slot_of_row(&self.name, text);
        if let [position] = *self.positions {
            let datum = &key[position];
            return match datum {
                Datum::Bytea(bytes) if self.is_plain => slot_of_key(bytes),
                Datum::Bytea(bytes) => row(bytes),
                Datum::Text(text) => row(text.as_bytes()),
                Datum::Int2(value) => row(itoa::Buffer::new().format(*value).as_bytes()),
                Datum::Int4(value) => row(itoa::Buffer::new().format(*value).as_bytes()),
                Datum::Int8(value) => row(itoa::Buffer::new().format(*value).as_bytes()),
                datum => canonical(&self.types, std::slice::from_ref(datum), row),
            };
        }
        if self.is_whole_key {
            return canonical(&self.types, key, row);
        }
        let datums: Vec<_> = self.positions.iter().map(|&position| key[position].clone()).collect();
        canonical(&self.types, &datums, row)
    }
}

/// Hands out the canonical text, in a buffer that is allocated once a thread.
fn canonical<R>(types: &[SqlType], datums: &[Datum<'_>], f: impl FnOnce(&[u8]) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    SCRATCH.with_borrow_mut(|text| {
        text.clear();
        canonical_key(types, datums, text);
        f(text)
    })
}

#[cfg(test)]
mod tests;

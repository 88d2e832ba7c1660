//! What a statement keeps until its end, charged to the store as it comes.

use std::collections::HashSet;

use ashlar_base::value::binary;
use ashlar_base::{Datum, Result, TableSchema, Value};
use ashlar_store::{Reservation, Store};

/// What a DML statement did.
#[derive(Default)]
pub struct Outcome {
    /// Rows inserted, updated or deleted.
    pub count: u64,
    /// RETURNING, row by row.
    pub rows: Vec<Vec<Value>>,
    /// The memory of the rows; none for the one row of a statement that goes straight to its partition.
    pub held: Option<Reservation>,
}

impl Outcome {
    pub(crate) fn new(store: &Store) -> Self {
        Self { count: 0, rows: Vec::new(), held: Some(store.reservation()) }
    }

    /// Keeps a row.
    pub(crate) fn keep(&mut self, row: Vec<Value>) -> Result<()> {
        self.hold(&row)?;
        self.rows.push(row);
        Ok(())
    }

    /// Charges a row.
    pub(super) fn hold(&mut self, row: &[Value]) -> Result<()> {
        match &mut self.held {
            Some(held) => held.grow(bytes_of(row)),
            None => Ok(()),
        }
    }

    /// Nothing is kept any more.
    pub(super) fn forget(&mut self) {
        self.rows = Vec::new();
        if let Some(held) = &mut self.held {
            held.clear();
        }
    }
}

/// Bytes that a row of values takes: the list, its place in a list of rows that may have grown to twice what it needs, and the
/// texts behind the values.
pub fn bytes_of(row: &[Value]) -> usize {
    2 * size_of::<Vec<Value>>() + row.iter().map(value_bytes).sum::<usize>()
}

fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) => text.len(),
            Value::Bytea(bytes) => bytes.len(),
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            _ => 0,
        }
}

/// Bytes of an entry of a set beside the key's own: the list, and its share of buckets that are half empty.
const ENTRY_BYTES: usize = 2 * (size_of::<Vec<u8>>() + 1);

/// The keys of rows that a statement has met.
pub(super) struct Seen {
    keys: HashSet<Vec<u8>>,
    held: Reservation,
}

impl Seen {
    pub(super) fn new(store: &Store) -> Self {
        Self { keys: HashSet::new(), held: store.reservation() }
    }

    /// Whether a key is known.
    pub(super) fn contains(&self, schema: &TableSchema, key: &[Datum<'_>]) -> bool {
        self.keys.contains(&key_bytes(schema, key))
    }

    /// Adds a key, and tells whether it is new.
    pub(super) fn add(&mut self, schema: &TableSchema, key: &[Datum<'_>]) -> Result<bool> {
        let key = key_bytes(schema, key);
        if self.keys.contains(&key) {
            return Ok(false);
        }
        self.held.grow(key.capacity() + ENTRY_BYTES)?;
        Ok(self.keys.insert(key))
    }
}

/// The key's bytes: of each column its length and its binary form.
fn key_bytes(schema: &TableSchema, key: &[Datum<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (ordinal, datum) in schema.key.iter().zip(key) {
        let before = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        binary::encode(schema.columns[*ordinal].sql_type, datum, &mut bytes);
        let length = u32::try_from(bytes.len() - before - 4).unwrap_or(u32::MAX);
        bytes[before..before + 4].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

//! The results of an index's expressions for the rows of a partition, and which rows the index has at all.
//!
//! Called by `indexes`, which asks for a value whenever it compares rows, so that nothing is computed twice. Rows are
//! named by the ids that the entries of indexes have.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::{Datum, Result, Value};
use foldhash::fast::RandomState;

use crate::memory::{Account, Charge};

/// See the module.
pub(crate) struct Computed {
    rows: HashMap<u32, Box<[Value]>, RandomState>,
    /// Of the values.
    bytes: usize,
    charge: Charge,
}

/// Bytes of a row in the table: its key, a pointer to its values, and a control byte.
const BUCKET_BYTES: usize = size_of::<(u32, Box<[Value]>)>() + 1;

/// The smallest table has no more buckets.
const BUCKETS_MIN: usize = 16;

/// Bytes of the values of a row beside their place in the map.
pub(super) fn bytes_of(values: &[Value]) -> usize {
    let own = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Bytea(bytes) => bytes.len(),
        Value::Array(items) => bytes_of(items),
        _ => 0,
    };
    size_of_val(values) + values.iter().map(own).sum::<usize>()
}

impl Computed {
    /// No rows.
    pub(super) fn new(account: &Arc<Account>) -> Self {
        Self { rows: HashMap::default(), bytes: 0, charge: Charge::empty(account) }
    }

    /// Whether the index has a row.
    pub(super) fn has(&self, entry: u32) -> bool {
        self.rows.contains_key(&entry)
    }

    /// The value of an expression; NULL of a row that the index does not have.
    pub(super) fn get(&self, entry: u32, expression: usize) -> Datum<'_> {
        let values = self.rows.get(&entry);
        values.and_then(|values| values.get(expression)).map_or(Datum::Null, Value::as_datum)
    }

    /// All values of a row.
    #[cfg(test)]
    pub(super) fn values(&self, entry: u32) -> Option<&[Value]> {
        self.rows.get(&entry).map(|values| &**values)
    }

    /// Makes room for so many more rows in the table. What their values take is not among that.
    ///
    /// # Errors
    /// 53200 over the memory bound; nothing is changed.
    pub(super) fn reserve(&mut self, additional: usize) -> Result<()> {
        let (rows, capacity) = (self.rows.len() + additional, self.rows.capacity());
        if rows <= capacity {
            return Ok(());
        }
        // Both tables exist while the rows move.
        let buckets = (rows.max(capacity + 1) * 8 / 7 + 1).next_power_of_two().max(BUCKETS_MIN);
        self.charge.try_resize(self.charge.bytes() as usize + buckets * BUCKET_BYTES)?;
        self.rows.reserve(additional);
        self.recharge();
        Ok(())
    }

    /// Adds a row, for whose values another charge has the bytes: they are charged here from now on.
    pub(super) fn add_charged(&mut self, entry: u32, values: Box<[Value]>, charged: &mut Charge) {
        charged.hand_over(bytes_of(&values), &mut self.charge);
        self.add(entry, values);
    }

    /// Adds a row. What it takes was charged before, or is small: it is charged over the bound.
    pub(super) fn add(&mut self, entry: u32, values: Box<[Value]>) {
        self.bytes += bytes_of(&values);
        self.rows.insert(entry, values);
        self.recharge();
    }

    pub(super) fn remove(&mut self, entry: u32) {
        if let Some(values) = self.rows.remove(&entry) {
            self.bytes -= bytes_of(&values);
            if self.rows.len() * 4 < self.rows.capacity() && self.rows.capacity() > 64 {
                self.rows.shrink_to(self.rows.len() * 2);
            }
            self.recharge();
        }
    }

    /// Knows a row by a second id; false where the index does not have it.
    pub(super) fn copy(&mut self, from: u32, to: u32) -> bool {
        let values = self.rows.get(&from).cloned();
        let has = values.is_some();
        if let Some(values) = values {
            self.add(to, values);
        }
        has
    }

    pub(super) fn clear(&mut self) {
        (self.rows, self.bytes) = (HashMap::default(), 0);
        self.recharge();
    }

    fn recharge(&mut self) {
        // 7/8 full at most.
        let table = self.rows.capacity() * 8 / 7 * BUCKET_BYTES;
        let bytes = table + self.bytes;
        if bytes as u64 != self.charge.bytes() {
            self.charge.resize(bytes);
        }
    }
}

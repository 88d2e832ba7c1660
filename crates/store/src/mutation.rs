//! A write of one row, as the key path, a transaction's commit and, later, logs and backups share it.

use ashlar_base::Datum;

/// One write. Rows are in the order of the region's current schema, keys in key order.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation<'a> {
    /// Adds a row; its key must be new.
    Insert {
        /// A value for every column.
        row: &'a [Datum<'a>],
    },
    /// Adds a row, or puts it in the place of the one with its key.
    Upsert {
        /// A value for every column.
        row: &'a [Datum<'a>],
    },
    /// Changes columns of a row, if it exists.
    Update {
        /// The row's key.
        key: &'a [Datum<'a>],
        /// Ordinals of columns that are not in the key, with their new values.
        changes: &'a [(usize, Datum<'a>)],
    },
    /// Removes a row, if it exists.
    Delete {
        /// The row's key.
        key: &'a [Datum<'a>],
    },
}

/// What a mutation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// A row is there that was not.
    Inserted,
    /// A row has other values.
    Updated,
    /// A row is gone.
    Deleted,
    /// There was no such row.
    Nothing,
}

//! A write of one row, as the key path and a transaction's commit share it.

use ashlar_base::Datum;

use crate::life::Expiry;

/// One write. Rows are in the order of the region's current schema, keys in key order.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation<'a> {
    /// Adds a row; its key must be new.
    Insert {
        /// A value for every column.
        row: &'a [Datum<'a>],
    },
    /// Adds a row, or replaces the one with its key.
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
    /// A write that also sets how long its row lives. Any other write leaves a changed row's deadline as it is ([`Expiry::Keep`]) and
    /// gives a new or replaced row the table's default ([`Expiry::Table`]).
    Living {
        /// A write of another kind. An update without changes sets only the expiry.
        write: &'a Self,
        /// The lifetime.
        expiry: Expiry,
    },
}

impl Mutation<'_> {
    /// The write itself, without its lifetime.
    pub(crate) fn write(&self) -> &Self {
        match self {
            Self::Living { write, .. } => write,
            write => write,
        }
    }

    /// The lifetime that it sets.
    pub(crate) fn expiry(&self) -> Expiry {
        match self {
            Self::Living { expiry, .. } => *expiry,
            Self::Update { .. } | Self::Delete { .. } => Expiry::Keep,
            Self::Insert { .. } | Self::Upsert { .. } => Expiry::Table,
        }
    }
}

/// What a mutation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// A row was added.
    Inserted,
    /// A row was changed.
    Updated,
    /// A row was removed.
    Deleted,
    /// There was no such row.
    Nothing,
}

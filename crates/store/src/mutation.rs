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
    /// A write that says how long its row lives. Without it, a row that is changed keeps what it has ([`Expiry::Keep`]),
    /// and one that is new or replaced gets what its table gives ([`Expiry::Table`]).
    Living {
        /// Not one of this kind. An update without changes sets the expiry alone.
        write: &'a Self,
        /// How long.
        expiry: Expiry,
    },
}

impl Mutation<'_> {
    /// What it writes, whatever it says about the row's life.
    pub(crate) fn write(&self) -> &Self {
        match self {
            Self::Living { write, .. } => write,
            write => write,
        }
    }

    /// What it says about the life of the row.
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
    /// A row is there that was not.
    Inserted,
    /// A row has other values.
    Updated,
    /// A row is gone.
    Deleted,
    /// There was no such row.
    Nothing,
}

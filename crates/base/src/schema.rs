//! What a table is made of, as the catalog, the store and the doors share it.

use crate::{ColumnId, SqlType, TableId, Value};

/// Where the value of a column that an INSERT does not name comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnDefault {
    /// A constant, already of the column's type.
    Constant(Value),
    /// A SQL expression evaluated per row, for example `now()`.
    Expression(String),
    /// The next number of the table's own counter (`serial`, identity, and the hidden key of a table without one).
    Sequence,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// Stable within the table.
    pub id: ColumnId,
    /// As PostgreSQL folds it.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether NULL is allowed; key columns never allow it.
    pub nullable: bool,
    /// The value when an INSERT does not name the column.
    pub default: Option<ColumnDefault>,
}

/// The shape of a grid table. Immutable: a change of the table makes another value with a higher `version`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// The table and its region.
    pub id: TableId,
    /// As PostgreSQL folds it; unique in the catalog.
    pub name: String,
    /// Counts the changes of this table's shape.
    pub version: u32,
    /// Columns in order. Where `hidden_key` is set, the last one is the hidden key.
    pub columns: Vec<ColumnDef>,
    /// Ordinals of the primary key's columns, in key order; never empty.
    pub key: Vec<usize>,
    /// The name of the primary key's constraint; empty where the key is hidden.
    pub key_name: String,
    /// Ordinals of the columns whose text gives the slot: `partition_by`, else the whole key.
    pub partition_by: Vec<usize>,
    /// The table was declared without a primary key, and its rows are numbered in a hidden last column.
    pub hidden_key: bool,
}

impl TableSchema {
    /// The ordinal of a column by its name; hidden columns are not found.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.visible_columns().iter().position(|column| column.name == name)
    }

    /// The columns that a user sees.
    pub fn visible_columns(&self) -> &[ColumnDef] {
        let hidden = usize::from(self.hidden_key);
        &self.columns[..self.columns.len() - hidden]
    }
}

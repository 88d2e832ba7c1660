//! Comments on objects, as set by COMMENT: a part of each catalog version.
//!
//! Changed only by the catalog, in drafts, as names are; read by the system tables. Comments on sharded tables are not
//! here: they are kept with the table's definition, which outlives the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_base::{ColumnId, TableId};

use crate::catalog::Table;

/// What a comment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The database.
    Database,
    /// The schema `public`.
    Schema,
    /// A table or a part of it.
    Of(TableId, Part),
}

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// All of it.
    Table,
    /// A column.
    Column(ColumnId),
    /// The index of its primary key.
    KeyIndex,
    /// Another index, by its number.
    Index(TableId),
    /// The constraint that is its primary key.
    Key,
    /// A UNIQUE constraint, by the number of its index.
    Unique(TableId),
    /// A CHECK constraint, by its number.
    Check(TableId),
    /// The NOT NULL of a column.
    NotNull(ColumnId),
}

/// All comments of a picture; a picture that says the same shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comments(Arc<BTreeMap<Subject, Arc<str>>>);

impl Comments {
    /// Says something of an object, or nothing more.
    pub(crate) fn set(&mut self, subject: Subject, text: Option<Arc<str>>) {
        let all = Arc::make_mut(&mut self.0);
        match text {
            Some(text) => all.insert(subject, text),
            None => all.remove(&subject),
        };
    }

    /// What is said of an object.
    pub(crate) fn of(&self, subject: Subject) -> Option<&Arc<str>> {
        self.0.get(&subject)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Subject, &Arc<str>)> {
        self.0.iter().map(|(subject, text)| (*subject, text))
    }

    /// What is said of a table is said of another one.
    pub(crate) fn inherit(&mut self, of: TableId, table: TableId) {
        let is_of = |subject: &Subject| matches!(subject, Subject::Of(id, _) if *id == of);
        if !self.0.keys().any(is_of) {
            return;
        }
        let moved = |(subject, text): (Subject, Arc<str>)| match subject {
            Subject::Of(id, part) if id == of => (Subject::Of(table, part), text),
            other => (other, text),
        };
        let all = std::mem::take(Arc::make_mut(&mut self.0));
        self.0 = Arc::new(all.into_iter().map(moved).collect());
    }

    /// Forgets what is said of tables and parts that these tables are not and do not have.
    pub(crate) fn forget_gone<'t>(&mut self, tables: impl Iterator<Item = &'t Table>) {
        if !self.0.keys().any(|subject| matches!(subject, Subject::Of(..))) {
            return;
        }
        let tables: BTreeMap<TableId, &Table> = tables.map(|table| (table.id(), table)).collect();
        let stands = |subject: &Subject| match subject {
            Subject::Database | Subject::Schema => true,
            Subject::Of(id, part) => tables.get(id).is_some_and(|table| has(table, *part)),
        };
        if !self.0.keys().all(stands) {
            Arc::make_mut(&mut self.0).retain(|subject, _| stands(subject));
        }
    }
}

/// Whether a table has a part.
pub(crate) fn has(table: &Table, part: Part) -> bool {
    let region = match table {
        Table::Grid(region) => region,
        // Its columns are those of its files for good.
        Table::File(_) => return matches!(part, Part::Table | Part::Column(_) | Part::NotNull(_)),
        Table::Sharded(_) => return false,
    };
    let schema = region.schema();
    match part {
        Part::Table => true,
        Part::Column(id) => schema.columns.iter().any(|column| column.id == id),
        Part::NotNull(id) => schema.columns.iter().any(|column| column.id == id && !column.nullable),
        Part::Check(id) => schema.checks.iter().any(|check| check.id == id),
        Part::KeyIndex | Part::Key => !schema.hidden_key,
        Part::Index(id) | Part::Unique(id) => region.standing_indexes().iter().any(|index| index.id == id),
    }
}

#[cfg(test)]
mod tests;

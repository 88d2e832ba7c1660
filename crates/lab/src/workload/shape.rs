//! The statements of the SQL workloads.
//!
//! Used by `sql` to ask, and by the target noop, which knows them by their texts, to answer.

use super::documents;
use super::rows::{GROUPS, PICKS, TABLE};
use super::sizes::{Columns, Counted, Field};

/// The field of a document that is summed up.
pub(super) const SUMMED: &str = "value";

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One row by its key.
    Key,
    /// Two columns of one row by its key.
    Update,
    /// The sum of a column over all rows.
    Sum,
    /// Rows between two keys.
    Range,
    /// All rows.
    Fetch(Columns),
    /// How many rows there are.
    Count(Counted),
    /// The sum of a field over all documents.
    JsonSum(Field),
    /// One row by a column that is not its key.
    Value,
    /// Rows between two values of a column that is not the key.
    ValueRange,
    /// Two tables by key.
    Join,
    /// Sums and counts of all rows, by groups.
    Groups,
}

impl Shape {
    const ALL: [Self; 16] = [
        Self::Key,
        Self::Update,
        Self::Sum,
        Self::Range,
        Self::Fetch(Columns::All),
        Self::Fetch(Columns::Narrow),
        Self::Fetch(Columns::Pair),
        Self::Count(Counted::Rows),
        Self::Count(Counted::Keys),
        Self::Count(Counted::Matching),
        Self::JsonSum(Field::Literal),
        Self::JsonSum(Field::Parameter),
        Self::Value,
        Self::ValueRange,
        Self::Join,
        Self::Groups,
    ];

    /// Whose statement this is.
    pub(crate) fn of(statement: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.statement() == statement)
    }

    /// The statement with its only parameter written into it, and the other way round: the number that was written there.
    pub(super) fn with(self, number: u64) -> String {
        self.statement().replace("$1", &number.to_string())
    }

    /// Likewise: whose statement this is, and the number in it.
    pub(crate) fn of_text(text: &str) -> Option<(Self, u64)> {
        let statement = Self::Key.statement();
        let (before, after) = statement.split_once("$1")?;
        let number = text.strip_prefix(before)?.strip_suffix(after)?;
        Some((Self::Key, number.parse().ok()?))
    }

    pub(super) fn statement(self) -> String {
        let documents = documents::TABLE;
        match self {
            Self::Key => format!("SELECT value, label FROM {TABLE} WHERE id = $1"),
            Self::Update => format!("UPDATE {TABLE} SET value = $2, label = $3 WHERE id = $1"),
            Self::Sum => format!("SELECT sum(value) FROM {TABLE}"),
            Self::Range => format!("SELECT id, value FROM {TABLE} WHERE id BETWEEN $1 AND $2"),
            Self::Fetch(Columns::All) => format!("SELECT id, value, label, numbers FROM {TABLE}"),
            Self::Fetch(Columns::Narrow) => format!("SELECT id, value, label FROM {TABLE}"),
            Self::Fetch(Columns::Pair) => format!("SELECT id, value FROM {TABLE}"),
            Self::Count(Counted::Rows) => format!("SELECT count(*) FROM {TABLE}"),
            Self::Count(Counted::Keys) => format!("SELECT count(id) FROM {TABLE}"),
            Self::Count(Counted::Matching) => format!("SELECT count(*) FROM {TABLE} WHERE value < $1"),
            Self::JsonSum(Field::Literal) => {
                format!("SELECT sum((document->>'{SUMMED}')::bigint) FROM {documents}")
            }
            Self::JsonSum(Field::Parameter) => format!("SELECT sum((document->>$1)::bigint) FROM {documents}"),
            Self::Value => format!("SELECT id, value FROM {TABLE} WHERE label = $1"),
            // Whole rows, as Geode's query gives whole values.
            Self::ValueRange => format!("SELECT value, id, label, numbers FROM {TABLE} WHERE value BETWEEN $1 AND $2"),
            Self::Join => {
                format!("SELECT count(*), sum(p.amount + r.value) FROM {PICKS} p JOIN {TABLE} r ON r.id = p.row_id")
            }
            // ShardingSphere-Proxy finds what it groups by by the name of its column.
            Self::Groups => {
                let group = format!("value % {GROUPS}");
                format!("SELECT {group} AS remainder, sum(value), count(*) FROM {TABLE} GROUP BY {group}")
            }
        }
    }

    /// The column that an index may be on.
    pub(super) fn indexed(self) -> Option<&'static str> {
        match self {
            Self::Value => Some("label"),
            Self::ValueRange => Some("value"),
            Self::Key
            | Self::Update
            | Self::Sum
            | Self::Range
            | Self::Fetch(_)
            | Self::Count(_)
            | Self::JsonSum(_)
            | Self::Join
            | Self::Groups => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_found_by_its_statement() {
        for shape in Shape::ALL {
            assert_eq!(Shape::of(&shape.statement()), Some(shape));
        }
        assert_eq!(Shape::of("SELECT 1"), None);
        assert_eq!(Shape::of_text(&Shape::Key.with(42)), Some((Shape::Key, 42)));
        assert_eq!(Shape::of_text("SELECT 1"), None);
    }
}

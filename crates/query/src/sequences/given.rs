//! The numbers that a session was given by columns that count: what `currval` and `lastval` tell.
//!
//! A session has one of these for its life. Whatever takes a number for it notes that here: INSERT, COPY, `nextval`.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnId, Error, Result, TableId, Value};
use ashlar_store::Region;
use parking_lot::Mutex;

use crate::ddl::HIDDEN_KEY;

/// Columns whose numbers a session keeps in mind. Of more it forgets all but the last one, and `currval` fails as it does of columns that
/// have given nothing.
const COLUMNS_MAX: usize = 10_000;

/// A column that counts, in the table that [`Region::counts_as`] tells: it stays the same when another table takes over the rows.
pub(crate) type CountingColumn = (TableId, ColumnId);

/// See the module. Two are equal where they are one.
#[derive(Clone, Debug, Default)]
pub struct Numbers(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    by_column: HashMap<CountingColumn, i64>,
    last: Option<CountingColumn>,
    /// Columns of which an INSERT takes numbers while it computes its values.
    expected: Vec<CountingColumn>,
}

impl PartialEq for Numbers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Numbers {}

impl Numbers {
    /// The next number of a column, for this session.
    ///
    /// # Errors
    /// As the region's own.
    pub fn take(&self, region: &Region, column: &ColumnDef) -> Result<Value> {
        let value = region.next_number(column)?;
        // The numbers of rows without a primary key are nobody's who asks.
        let is_shown = column.name != HIDDEN_KEY;
        if let Some(number) = whole(&value).filter(|_| is_shown) {
            let counting = (region.counts_as(), column.id);
            let mut given = self.0.lock();
            given.put(counting, number);
            given.last = Some(counting);
        }
        Ok(value)
    }

    /// What `setval` says that a column has given: it is not the last number for that.
    pub(crate) fn set(&self, column: CountingColumn, number: i64) {
        self.0.lock().put(column, number);
    }

    /// The number that a column has given last.
    pub(crate) fn of(&self, column: CountingColumn) -> Option<i64> {
        self.0.lock().by_column.get(&column).copied()
    }

    /// The column that has given a number last.
    pub(crate) fn last(&self) -> Option<CountingColumn> {
        self.0.lock().last
    }

    /// An INSERT takes numbers of these columns until what comes back is dropped. PostgreSQL takes them between the values of a row, which here
    /// are computed before: a value that would tell is refused.
    pub(crate) fn expecting(&self, columns: Vec<CountingColumn>) -> Expecting {
        self.0.lock().expected = columns;
        Expecting(self.clone())
    }

    /// Refuses a value that tells when an INSERT takes its numbers; `None` is any of them.
    ///
    /// # Errors
    /// 0A000
    pub(super) fn check(&self, column: Option<CountingColumn>) -> Result<()> {
        let given = self.0.lock();
        let is_expected = match column {
            Some(column) => given.expected.contains(&column),
            None => !given.expected.is_empty(),
        };
        if !is_expected {
            return Ok(());
        }
        Err(Error::unsupported("a sequence by whose numbers an INSERT numbers its rows cannot be asked in its values")
            .with_hint("Ask the sequence before, or write nextval for the column too."))
    }

    /// As if there had been none: DISCARD ALL.
    pub fn forget(&self) {
        *self.0.lock() = Given::default();
    }
}

/// See [`Numbers::expecting`].
pub(crate) struct Expecting(Numbers);

impl Drop for Expecting {
    fn drop(&mut self) {
        self.0.0.lock().expected.clear();
    }
}

impl Given {
    fn put(&mut self, column: CountingColumn, number: i64) {
        if self.by_column.len() >= COLUMNS_MAX {
            let last = self.last;
            self.by_column.retain(|known, _| Some(*known) == last);
        }
        self.by_column.insert(column, number);
    }
}

/// A number of any of the widths of integers.
pub(super) fn whole(value: &Value) -> Option<i64> {
    Some(match value {
        Value::Int2(number) => i64::from(*number),
        Value::Int4(number) => i64::from(*number),
        Value::Int8(number) => *number,
        _ => return None,
    })
}

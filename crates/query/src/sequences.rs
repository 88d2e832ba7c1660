//! Named sequences, as CREATE SEQUENCE and dumps use them: a part of each catalog version.
//!
//! The counters belong to columns. A sequence describes how one is to count until it becomes a column's default; from
//! then on it is a name for that column's counter. `ddl::named_sequence` creates and changes sequences, in drafts as
//! tables are.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, ColumnId, Error, ErrorCode, Result, Sequence, TableId};
use ashlar_functions::error::undefined_table;
use ashlar_store::Region;
use pg_query::protobuf::RangeVar;

use crate::catalog::{CatalogState, Table};
use crate::comments::{self, Part};
use crate::ddl::{free_name, relation_name};
use crate::system_tables::objects;

pub mod given;

pub use given::Numbers;

/// A sequence with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedSequence {
    /// How it counts.
    pub(crate) counts: Sequence,
    /// The column that it goes with.
    pub(crate) column: Option<(TableId, ColumnId)>,
}

/// All sequences of a picture; a picture that has the same shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequences(Arc<BTreeMap<String, NamedSequence>>);

impl Sequences {
    /// The sequence of a name.
    pub(crate) fn get(&self, name: &str) -> Option<NamedSequence> {
        self.0.get(name).copied()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, NamedSequence)> {
        self.0.iter().map(|(name, sequence)| (name.as_str(), *sequence))
    }

    /// Gives a name to a sequence, or takes it away.
    pub(crate) fn set(&mut self, name: &str, sequence: Option<NamedSequence>) {
        let all = Arc::make_mut(&mut self.0);
        match sequence {
            Some(sequence) => all.insert(name.to_owned(), sequence),
            None => all.remove(name),
        };
    }

    /// Those of a table's columns are those of another one's, which have their numbers.
    pub(crate) fn inherit(&mut self, of: TableId, table: TableId) {
        let is_of = |sequence: &NamedSequence| sequence.column.is_some_and(|(id, _)| id == of);
        if !self.0.values().any(is_of) {
            return;
        }
        for sequence in Arc::make_mut(&mut self.0).values_mut() {
            sequence.column = sequence.column.map(|(id, column)| (if id == of { table } else { id }, column));
        }
    }

    /// Forgets those of columns that these tables do not have.
    pub(crate) fn forget_gone<'t>(&mut self, tables: impl Iterator<Item = &'t Table>) {
        if self.0.is_empty() {
            return;
        }
        let tables: BTreeMap<TableId, &Table> = tables.map(|table| (table.id(), table)).collect();
        let stands = |sequence: &NamedSequence| {
            sequence.column.is_none_or(|(table, column)| {
                tables.get(&table).is_some_and(|table| comments::has(table, Part::Column(column)))
            })
        };
        if !self.0.values().all(stands) {
            Arc::make_mut(&mut self.0).retain(|_, sequence| stands(&*sequence));
        }
    }
}

/// The name of the sequence that PostgreSQL makes for a column.
pub(crate) fn name_of(table: &str, column: &str) -> String {
    free_name(table, &[column.to_owned()], "seq", |_| false)
}

/// A column that counts.
struct Counting {
    region: Arc<Region>,
    column: ColumnDef,
    counts: Sequence,
}

impl Counting {
    /// The column of a table, where it counts.
    fn new(region: &Arc<Region>, is_it: impl Fn(&ColumnDef) -> bool) -> Option<Self> {
        let schema = region.schema();
        schema.visible_columns().iter().filter(|&column| is_it(column)).find_map(|column| match column.default {
            Some(ColumnDefault::Sequence(counts)) => {
                Some(Self { region: Arc::clone(region), column: column.clone(), counts })
            }
            _ => None,
        })
    }

    /// As sessions keep its numbers in mind.
    fn remembered(&self) -> given::CountingColumn {
        (self.region.counts_as(), self.column.id)
    }
}

/// The tables in memory.
fn regions(state: &CatalogState) -> impl Iterator<Item = &Arc<Region>> {
    state.tables().filter_map(|(_, table)| match table {
        Table::Grid(region) => Some(region),
        Table::File(_) | Table::Sharded(_) => None,
    })
}

/// The column that has a sequence for its default.
fn counting(state: &CatalogState, sequence: NamedSequence) -> Option<Counting> {
    let (table, column) = sequence.column?;
    let region = regions(state).find(|region| region.id() == table)?;
    Counting::new(region, |known| known.id == column)
}

/// What takes its numbers from a sequence, as `column c of table t`; `None`: nothing does.
pub(crate) fn user_of(state: &CatalogState, sequence: NamedSequence) -> Option<String> {
    let found = counting(state, sequence)?;
    Some(format!("column {} of table {}", found.column.name, found.region.schema().name))
}

/// The column that counts by a sequence of this name, as it is written, and the name as it is.
///
/// # Errors
/// 42P01 and 42809 for a name, 0A000 for a sequence that is no column's.
fn named(state: &CatalogState, written: &str) -> Result<(Counting, String)> {
    let mut parts = objects::names(written)?;
    let relname = parts.pop().unwrap_or_default();
    let schemaname = parts.pop().unwrap_or_default();
    let name = relation_name(Some(&RangeVar { schemaname, relname, ..RangeVar::default() }))?;
    let found = match state.sequence(&name) {
        Some(sequence) => counting(state, sequence).ok_or_else(|| {
            Error::unsupported(format!("sequence \"{name}\" gives no numbers before it is the default of a column"))
        })?,
        None => {
            let of_column = |region: &Arc<Region>| {
                let table = region.schema().name.clone();
                Counting::new(region, |column| name_of(&table, &column.name) == name)
            };
            match regions(state).find_map(of_column) {
                Some(found) => found,
                None if state.is_relation(&name) => {
                    return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not a sequence")));
                }
                None => return Err(undefined_table(&name)),
            }
        }
    };
    Ok((found, name))
}

/// The name of a sequence that an expression names, and the column that counts by it; `None` where there is none.
pub(crate) fn column_of(state: &CatalogState, written: &str) -> Option<(String, (TableId, ColumnId))> {
    let (found, name) = named(state, written).ok()?;
    Some((name, (found.region.id(), found.column.id)))
}

/// `setval`: the next number of the column that counts by a sequence follows `value`, or is it where it is not called yet. At once, as in
/// PostgreSQL, whatever becomes of the transaction.
///
/// # Errors
/// 42P01 and 42809 for a name, 22003 for a number out of bounds, 0A000 for a sequence that is no column's.
pub fn set_number(state: &CatalogState, name: &str, value: i64, is_called: bool, numbers: &Numbers) -> Result<()> {
    let (found, name) = named(state, name)?;
    let (min, max) = (found.counts.min, found.counts.max);
    if !(min..=max).contains(&value) {
        let message = format!("setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})");
        return Err(Error::new(ErrorCode::NumericOutOfRange, message));
    }
    let column = found.remembered();
    numbers.check(Some(column))?;
    found.region.restart_numbers(found.column.id, value);
    if is_called {
        numbers.set(column, value);
        found.region.next_number(&found.column)?;
    }
    // Another table may have taken over the numbers meanwhile, and has not got this one then.
    check_stands(&found.region, &name)
}

/// 40001 where the table of a sequence has been dropped, or another one made in its place.
fn check_stands(region: &Region, name: &str) -> Result<()> {
    if !region.is_dropped() {
        return Ok(());
    }
    let message = format!("could not use sequence \"{name}\" due to a change of its table");
    Err(Error::new(ErrorCode::SerializationFailure, message).with_hint("retry the transaction"))
}

/// `nextval`
///
/// # Errors
/// As [`set_number`]; 2200H after the last number.
pub(crate) fn next_number(state: &CatalogState, name: &str, numbers: &Numbers) -> Result<i64> {
    let (found, _) = named(state, name)?;
    numbers.check(Some(found.remembered()))?;
    let value = numbers.take(&found.region, &found.column)?;
    // Whoever has taken the numbers over may give this one to others.
    check_stands(&found.region, name)?;
    given::whole(&value).ok_or_else(|| Error::internal("a column counts in integers"))
}

/// `currval`
///
/// # Errors
/// As [`set_number`] for the name; 55000 where the session has been given no number.
pub(crate) fn current_number(state: &CatalogState, name: &str, numbers: &Numbers) -> Result<i64> {
    let (found, name) = named(state, name)?;
    let column = found.remembered();
    numbers.check(Some(column))?;
    numbers.of(column).ok_or_else(|| {
        let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
        Error::new(ErrorCode::ObjectNotInPrerequisiteState, message)
    })
}

/// `lastval`
///
/// # Errors
/// 55000 where the session has been given no number, or by what is gone.
pub(crate) fn last_number(state: &CatalogState, numbers: &Numbers) -> Result<i64> {
    numbers.check(None)?;
    let stands = |column: &given::CountingColumn| regions(state).any(|region| region.counts_as() == column.0);
    let last = numbers.last().filter(stands).and_then(|column| numbers.of(column));
    last.ok_or_else(|| {
        Error::new(ErrorCode::ObjectNotInPrerequisiteState, "lastval is not yet defined in this session")
    })
}

/// `pg_get_serial_sequence`: the sequence by which a column of a table in memory counts; `None` where it does not.
///
/// # Errors
/// 42703
pub(crate) fn serial_of(state: &CatalogState, table: TableId, column: &str) -> Result<Option<String>> {
    let Some(region) = regions(state).find(|region| region.id() == table) else { return Ok(None) };
    let schema = region.schema();
    if !schema.visible_columns().iter().any(|known| known.name == column) {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", schema.name);
        return Err(Error::new(ErrorCode::UndefinedColumn, message));
    }
    let Some(found) = Counting::new(region, |known| known.name == column) else { return Ok(None) };
    let place = Some((region.id(), found.column.id));
    let given =
        state.sequences().iter().find(|(_, sequence)| sequence.column == place).map(|(name, _)| name.to_owned());
    Ok(Some(given.unwrap_or_else(|| name_of(&schema.name, column))))
}

//! From a name to a row: which table, which key, and whether the name is one that a row can have.
//!
//! Called by every command that takes a key name. Every row has exactly one name, `table:{canonical key}`, and every
//! name of that shape belongs to the table if there is one, whether or not the row exists.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use ashlar_base::value::text;
use ashlar_base::{Datum, Error, SqlType, TableSchema, Value};
use ashlar_query::Engine;
use ashlar_store::{Entry, Region, RowRef};

use super::access::{self, Running};
use super::error::{KeyError, Outcome};
use super::{KeySession, row_name};

/// A table whose rows have names, as a session keeps it at hand.
pub(super) struct RowTable {
    pub(super) region: Arc<Region>,
    pub(super) schema: Arc<TableSchema>,
    key_types: Box<[SqlType]>,
}

/// The tables that a session has used, of one epoch of the catalog. Bounded by the number of tables.
#[derive(Default)]
pub(super) struct TableCache {
    epoch: u64,
    by_name: HashMap<Box<str>, Rc<RowTable>>,
}

/// One row, there or not.
pub(super) struct Row {
    pub(super) table: Rc<RowTable>,
    key: Vec<Value>,
}

/// What a name stands for.
pub(super) enum Target {
    /// A plain key, there or not.
    Plain,
    /// A row, there or not.
    Row(Row),
}

impl RowTable {
    /// The region's rows as named things; none where they cannot be addressed.
    pub(super) fn new(region: Arc<Region>) -> Self {
        let schema = region.schema();
        let key_types = schema.key.iter().map(|&ordinal| schema.columns[ordinal].sql_type).collect();
        Self { region, schema, key_types }
    }

    /// Whether rows have names: the key is visible, and the table's name leaves the name unambiguous.
    pub(super) fn is_addressable(&self) -> bool {
        !self.schema.hidden_key && row_name::is_addressable(&self.schema.name)
    }

    /// Appends the name of the row with this key.
    pub(super) fn write_name(&self, key: &[Datum<'_>], out: &mut Vec<u8>) {
        out.extend_from_slice(self.schema.name.as_bytes());
        out.extend_from_slice(b":{");
        text::canonical_key(&self.key_types, key, out);
        out.push(b'}');
    }

    /// Appends the name of this row.
    pub(super) fn write_name_of(&self, row: &RowRef<'_>, out: &mut Vec<u8>) {
        let key: Vec<_> = row.schema().key.iter().map(|&ordinal| row.get(ordinal)).collect();
        self.write_name(&key, out);
    }

    /// A change of the table's shape since this was made would make ordinals point elsewhere. Asked under the lock
    /// of the partition, which such a change takes too.
    fn check_version(&self, version: u32) -> Outcome {
        if version == self.schema.version {
            return Ok(());
        }
        Err(KeyError::Redis("TRYAGAIN the table is being changed"))
    }
}

impl TableCache {
    fn get(&mut self, engine: &Engine, name: &str) -> Option<Rc<RowTable>> {
        let epoch = engine.catalog().epoch();
        if epoch != self.epoch {
            self.by_name.clear();
            self.epoch = epoch;
        }
        if let Some(table) = self.by_name.get(name) {
            return Some(Rc::clone(table));
        }
        let table = Rc::new(RowTable::new(engine.catalog().grid_table(name)?));
        self.by_name.insert(name.into(), Rc::clone(&table));
        Some(table)
    }
}

impl Row {
    /// The value of a key column.
    pub(super) fn key_value(&self, column: usize) -> Option<&Value> {
        let position = self.table.schema.key.iter().position(|&ordinal| ordinal == column)?;
        Some(&self.key[position])
    }

    /// Reads the row under the lock of its partition.
    pub(super) fn read<R>(&self, running: &mut Running, f: impl FnOnce(Option<RowRef<'_>>) -> R) -> Outcome<R> {
        self.with_key(|key| access::read(running, &self.table.region, key, |row| self.check(row, f)))?
    }

    /// Like [`Self::read`], and the row does not count as used.
    pub(super) fn peek<R>(&self, running: &mut Running, f: impl FnOnce(Option<RowRef<'_>>) -> R) -> Outcome<R> {
        self.with_key(|key| access::peek(running, &self.table.region, key, |row| self.check(row, f)))?
    }

    fn check<R>(&self, row: Option<RowRef<'_>>, f: impl FnOnce(Option<RowRef<'_>>) -> R) -> Outcome<R> {
        if let Some(row) = &row {
            self.table.check_version(row.schema().version)?;
        }
        Ok(f(row))
    }

    /// Reads and changes the row under the lock of its partition; `f` also gets the key's values in key order.
    pub(super) fn change<R>(
        &self,
        running: &mut Running,
        f: impl FnOnce(&mut Entry<'_>, &[Datum<'_>]) -> Outcome<R>,
    ) -> Outcome<R> {
        self.with_key(|key| {
            access::change(running, &self.table.region, key, |entry| {
                self.table.check_version(entry.schema().version)?;
                f(entry, key)
            })
        })
    }

    /// The key's values in key order. Nearly always it is one, and nothing is allocated.
    pub(super) fn with_key<R>(&self, f: impl FnOnce(&[Datum<'_>]) -> R) -> R {
        match &self.key[..] {
            [only] => f(&[only.as_datum()]),
            all => f(&all.iter().map(Value::as_datum).collect::<Vec<_>>()),
        }
    }

    /// Where the row is, and its key.
    pub(super) fn into_parts(self) -> (Arc<Region>, Box<[Value]>) {
        (Arc::clone(&self.table.region), self.key.into())
    }
}

impl KeySession {
    /// Whether the name belongs to a table, so that no plain key can have it.
    #[inline]
    pub(super) fn is_row_name(&mut self, name: &[u8]) -> bool {
        match row_name::split(name) {
            Some(row) => self.tables.get(&self.service.shared.engine, row.table).is_some(),
            None => false,
        }
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// The name belongs to a table and no row can have it.
    pub(super) fn target(&mut self, name: &[u8]) -> Outcome<Target> {
        let Some(parts) = row_name::split(name) else {
            return Ok(Target::Plain);
        };
        let Some(table) = self.tables.get(&self.service.shared.engine, parts.table) else {
            return Ok(Target::Plain);
        };
        if !table.is_addressable() {
            let table = &table.schema.name;
            return Err(
                Error::unsupported(format!("rows of \"{table}\" have no names: the table has no primary key")).into()
            );
        }
        let key = text::parse_canonical_key(&table.key_types, parts.key)?;
        let row = Row { table, key };
        self.scratch.clear();
        row.with_key(|key| row.table.write_name(key, &mut self.scratch));
        if self.scratch != name {
            // One row, one name: cluster clients compute a row's slot from its name.
            let mut line = b"ERR the row has another name: ".to_vec();
            line.extend_from_slice(&self.scratch);
            return Err(KeyError::line(line));
        }
        Ok(Target::Row(row))
    }

    /// The row that a hash command names; none where there is nothing of this name.
    pub(super) fn row(&mut self, name: &[u8]) -> Outcome<Option<Row>> {
        match self.target(name)? {
            Target::Row(row) => Ok(Some(row)),
            Target::Plain if self.plain_exists(name)? => Err(KeyError::WRONG_TYPE),
            Target::Plain => Ok(None),
        }
    }

    /// The row that a hash command is going to write.
    pub(super) fn row_to_write(&mut self, name: &[u8]) -> Outcome<Row> {
        self.row(name)?.ok_or_else(|| {
            let mut line = b"ERR no such table \"".to_vec();
            line.extend_from_slice(row_name::split(name).map_or(name, |row| row.table.as_bytes()));
            line.extend_from_slice(
                b"\" (a hash is a row of a table: CREATE TABLE it in SQL, and name the row table:{key})",
            );
            KeyError::line(line)
        })
    }

    /// Whether there is a plain key of this name.
    pub(super) fn plain_exists(&mut self, name: &[u8]) -> Outcome<bool> {
        access::peek(&mut self.running, &self.service.kv, &[Datum::Bytea(name)], |row| row.is_some())
    }
}

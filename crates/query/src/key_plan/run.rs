//! Running a statement about one row: straight to the partition that owns the key.

use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, Value};
use ashlar_store::{Applied, Mutation, Pending, RowRef};

use super::computed::Made;
use super::{Arithmetic, KeyAction, KeyPlan, NewValue, Operand, altered, not_null};
use crate::columns::Column;
use crate::engine::Engine;
use crate::transaction::Transaction;

impl KeyPlan {
    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        matches!(self.action, KeyAction::Read)
    }

    /// Bytes that it holds, as estimated.
    pub fn bytes(&self) -> usize {
        let columns = self.columns.as_ref().map_or(0, |columns| columns.len());
        let assignments = match &self.action {
            KeyAction::Update(assignments) => assignments.len(),
            KeyAction::Read | KeyAction::Delete => 0,
        };
        size_of::<Self>()
            + columns * (size_of::<Column>() + 32)
            + self.key.len() * (size_of::<Operand>() + 32)
            + assignments * (size_of::<NewValue>() + 32)
            + self.computed.as_ref().map_or(0, |computed| computed.bytes())
    }

    /// The word that its command tag begins with.
    pub fn verb(&self) -> &'static str {
        match self.action {
            KeyAction::Read => "SELECT",
            KeyAction::Update(_) => "UPDATE",
            KeyAction::Delete => "DELETE",
        }
    }

    /// What EXPLAIN shows.
    pub fn describe(&self) -> Vec<String> {
        let verb = match self.action {
            KeyAction::Read => "Key Lookup",
            KeyAction::Update(_) => "Key Update",
            KeyAction::Delete => "Key Delete",
        };
        let names: Vec<&str> =
            self.schema.key.iter().map(|ordinal| self.schema.columns[*ordinal].name.as_str()).collect();
        let mut lines = vec![format!("{verb} on {}", self.schema.name), format!("  Key: ({})", names.join(", "))];
        lines.extend(self.computed.iter().filter_map(|computed| computed.describe()));
        lines
    }

    /// The key under these parameters; `None` where a part is NULL, which equals nothing.
    fn key(&self, parameters: &[Value]) -> Result<Option<Vec<Value>>> {
        let mut key = Vec::with_capacity(self.key.len());
        for operand in &self.key {
            let value = operand.value(parameters)?;
            if value.is_null() {
                return Ok(None);
            }
            key.push(value);
        }
        Ok(Some(key))
    }

    /// Runs outside of any transaction: one trip to the partition, under its lock. `emit` gets the row that comes
    /// back, column by column. Returns how many rows there were: 0 or 1.
    ///
    /// # Errors
    /// 23502, 22003 and the like; then nothing changed.
    pub fn run(&self, parameters: &[Value], emit: &mut dyn FnMut(&mut dyn Iterator<Item = Datum<'_>>)) -> Result<u64> {
        let Some(key) = self.key(parameters)? else { return Ok(0) };
        let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
        match &self.action {
            KeyAction::Read => self.region.get(&key, |row| {
                self.check_shape(row.as_ref())?;
                self.show(row, parameters, emit)
            }),
            KeyAction::Update(assignments) => self.region.entry(&key, |entry| {
                self.check_shape(entry.row().as_ref())?;
                let Some(row) = entry.row() else { return Ok(0) };
                let Some(made) = self.changes(assignments, &row, parameters)? else { return Ok(0) };
                let changes: Vec<(usize, Datum<'_>)> =
                    made.changes.iter().map(|(column, value)| (*column, value.as_datum())).collect();
                entry.apply(Mutation::Update { key: &key, changes: &changes })?;
                if let Some(returned) = &made.returned {
                    emit(&mut returned.iter().map(Value::as_datum));
                }
                Ok(if self.outputs.is_some() { self.emit(entry.row(), emit) } else { 1 })
            }),
            KeyAction::Delete => self.region.entry(&key, |entry| {
                self.check_shape(entry.row().as_ref())?;
                if self.show(entry.row(), parameters, emit)? == 0 {
                    return Ok(0);
                }
                let applied = entry.apply(Mutation::Delete { key: &key })?;
                Ok(u64::from(applied == Applied::Deleted))
            }),
        }
    }

    /// Runs as part of a transaction.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_in(
        &self,
        engine: &Engine,
        transaction: &mut Transaction,
        parameters: &[Value],
        emit: &mut dyn FnMut(&mut dyn Iterator<Item = Datum<'_>>),
    ) -> Result<u64> {
        let Some(key) = self.key(parameters)? else { return Ok(0) };
        let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
        let snapshot = transaction.snapshot(engine.store());
        if self.is_read() {
            return Ok(match transaction.writes.get(&self.region, &key) {
                Pending::Deleted => 0,
                Pending::Row(row) => {
                    self.check_shape(Some(&row))?;
                    self.show(Some(row), parameters, emit)?
                }
                Pending::Untouched => self.region.get_at(&snapshot, &key, |row| {
                    self.check_shape(row.as_ref())?;
                    self.show(row, parameters, emit)
                })?,
            });
        }
        let current = match transaction.writes.get(&self.region, &key) {
            Pending::Deleted => None,
            Pending::Row(row) => {
                self.check_shape(Some(&row))?;
                Some(row.to_values())
            }
            Pending::Untouched => self.region.get_at(&snapshot, &key, |row| {
                self.check_shape(row.as_ref())?;
                Ok::<_, Error>(row.map(|row| row.to_values()))
            })?,
        };
        let Some(mut row) = current else { return Ok(0) };
        let mut returned = None;
        if let KeyAction::Update(assignments) = &self.action {
            let made = self.changes_of(assignments, |column| row[column].as_datum(), parameters)?;
            let Some(made) = made else { return Ok(0) };
            for (column, value) in made.changes {
                row[column] = value;
            }
            returned = made.returned;
            let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
            self.region.check_row(&datums)?;
            transaction.writes.upsert(&self.region, self.schema.version, &snapshot, &datums)?;
            transaction.check_values(&self.region)?;
        } else {
            if let Some(computed) = &self.computed {
                let Some(made) = computed.of(&self.schema, |column| row[column].as_datum(), parameters)? else {
                    return Ok(0);
                };
                returned = made.returned;
            }
            transaction.writes.delete(&self.region, self.schema.version, &snapshot, &key)?;
        }
        if let Some(returned) = &returned {
            emit(&mut returned.iter().map(Value::as_datum));
        }
        if let Some(outputs) = &self.outputs {
            emit(&mut outputs.iter().map(|ordinal| row[*ordinal].as_datum()));
        }
        Ok(1)
    }

    /// 40001 where the table was altered since this statement was planned: its ordinals mean other columns now.
    fn check_shape(&self, row: Option<&RowRef<'_>>) -> Result<()> {
        match row {
            Some(row) if row.schema().version != self.schema.version => Err(altered(&self.schema)),
            _ => Ok(()),
        }
    }

    fn emit(&self, row: Option<RowRef<'_>>, emit: &mut dyn FnMut(&mut dyn Iterator<Item = Datum<'_>>)) -> u64 {
        let Some(row) = row else { return 0 };
        if let Some(outputs) = &self.outputs {
            emit(&mut outputs.iter().map(|ordinal| row.get(*ordinal)));
        }
        1
    }

    /// Hands out what comes back of a row as it is: how many there were. None where it does not fulfil the conditions.
    fn show(
        &self,
        row: Option<RowRef<'_>>,
        parameters: &[Value],
        emit: &mut dyn FnMut(&mut dyn Iterator<Item = Datum<'_>>),
    ) -> Result<u64> {
        let (Some(computed), Some(read)) = (&self.computed, &row) else { return Ok(self.emit(row, emit)) };
        let Some(made) = computed.of(&self.schema, |column| read.get(column), parameters)? else { return Ok(0) };
        let Some(returned) = made.returned else { return Ok(self.emit(row, emit)) };
        emit(&mut returned.iter().map(Value::as_datum));
        Ok(1)
    }

    fn changes(
        &self,
        assignments: &[(usize, NewValue)],
        row: &RowRef<'_>,
        parameters: &[Value],
    ) -> Result<Option<Made>> {
        self.changes_of(assignments, |column| row.get(column), parameters)
    }

    fn changes_of<'r>(
        &self,
        assignments: &[(usize, NewValue)],
        read: impl Fn(usize) -> Datum<'r>,
        parameters: &[Value],
    ) -> Result<Option<Made>> {
        if let Some(computed) = &self.computed {
            let made = computed.of(&self.schema, read, parameters)?;
            for (column, value) in made.iter().flat_map(|made| &made.changes) {
                self.check_null(*column, value)?;
            }
            return Ok(made);
        }
        let mut changes = Vec::with_capacity(assignments.len());
        for (column, value) in assignments {
            let value = match value {
                NewValue::Operand(operand) => operand.value(parameters)?,
                NewValue::Arithmetic { column, operator, operand, scalar } => {
                    arithmetic(&read(*column), *operator, &operand.value(parameters)?, *scalar)?
                }
            };
            self.check_null(*column, &value)?;
            changes.push((*column, value));
        }
        Ok(Some(Made { changes, returned: None }))
    }

    /// 23502 for NULL in a column that allows none.
    fn check_null(&self, column: usize, value: &Value) -> Result<()> {
        let is_missing = value.is_null() && !self.schema.columns[column].nullable;
        if is_missing { Err(not_null(&self.schema, column)) } else { Ok(()) }
    }
}

fn arithmetic(left: &Datum<'_>, operator: Arithmetic, right: &Value, scalar: ScalarType) -> Result<Value> {
    let wide = |datum: &Datum<'_>| match datum {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    };
    let (Some(left), Some(right)) = (wide(left), wide(&right.as_datum())) else { return Ok(Value::Null) };
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
    };
    let out_of_range = || Error::new(ErrorCode::NumericOutOfRange, format!("{scalar} out of range"));
    let result = result.ok_or_else(out_of_range)?;
    match scalar {
        ScalarType::Int2 => i16::try_from(result).map(Value::Int2).map_err(|_| out_of_range()),
        ScalarType::Int4 => i32::try_from(result).map(Value::Int4).map_err(|_| out_of_range()),
        _ => Ok(Value::Int8(result)),
    }
}

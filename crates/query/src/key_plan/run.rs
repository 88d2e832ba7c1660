//! Running a statement about one row: straight to the partition that owns the key.

use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, Value};
use ashlar_store::{Applied, Mutation, Pending, RowRef, Snapshot, Strength, Way};

use super::computed::Made;
use super::{Arithmetic, KeyAction, KeyPlan, NewValue, Operand, altered, not_null};
use crate::columns::Column;
use crate::engine::Engine;
use crate::transaction::{Locked, Policy, Transaction};

impl KeyPlan {
    /// The same query, locking its row.
    pub(crate) fn locking(self, strength: Strength, policy: Policy) -> Self {
        Self { lock: Some((strength, policy)), ..self }
    }

    /// How it locks its row, where it is a query that does.
    pub fn locks(&self) -> Option<Strength> {
        self.lock.map(|(strength, _)| strength)
    }

    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        matches!(self.action, KeyAction::Read) && self.lock.is_none()
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
            KeyAction::Read if self.lock.is_some() => "Key Lock",
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
    /// back, column by column. Returns how many rows there were: 0 or 1. Not for a query that locks.
    ///
    /// # Errors
    /// 23502, 22003 and the like; then nothing changed. 55P03 where somebody else has locked the row: `way` knows it then.
    pub fn run(
        &self,
        way: &mut Way,
        parameters: &[Value],
        emit: &mut dyn FnMut(&mut dyn Iterator<Item = Datum<'_>>),
    ) -> Result<u64> {
        let Some(key) = self.key(parameters)? else { return Ok(0) };
        let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
        match &self.action {
            KeyAction::Read => self.region.get(&key, |row| {
                self.check_shape(row.as_ref())?;
                self.show(row, parameters, emit)
            }),
            KeyAction::Update(assignments) => self.region.entry_with(way, &key, |entry| {
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
            KeyAction::Delete => self.region.entry_with(way, &key, |entry| {
                self.check_shape(entry.row().as_ref())?;
                // A row that does not fulfil the conditions is not waited for, and one that is waited for is not shown.
                let Some(returned) = self.returned(entry.row().as_ref(), parameters)? else { return Ok(0) };
                entry.check_delete()?;
                match &returned {
                    Some(returned) => emit(&mut returned.iter().map(Value::as_datum)),
                    None => drop(self.emit(entry.row(), emit)),
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
        self.region.check_birth(&snapshot)?;
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
        let read = |column: usize| row[column].as_datum();
        let made = match &self.action {
            KeyAction::Update(assignments) => self.changes_of(assignments, read, parameters)?,
            KeyAction::Read | KeyAction::Delete => self.made(read, parameters)?,
        };
        // Only a row that fulfils the conditions is locked.
        let Some(Made { changes, returned }) = made else { return Ok(0) };
        if !self.lock_in(transaction, &key, &snapshot)? {
            return Ok(0);
        }
        if matches!(self.action, KeyAction::Update(_)) {
            for (column, value) in changes {
                row[column] = value;
            }
            let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
            self.region.check_row(&datums)?;
            transaction.writes.upsert(&self.region, self.schema.version, &snapshot, &datums)?;
            transaction.check_values(&self.region)?;
        } else if matches!(self.action, KeyAction::Delete) {
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

    /// Locks the row as the clause says, or because it is to be changed. False: it is not there for this statement.
    fn lock_in(&self, transaction: &mut Transaction, key: &[Datum<'_>], snapshot: &Snapshot) -> Result<bool> {
        let Some((strength, policy)) = self.lock else {
            return transaction.lock_to_write(&self.region, key, matches!(self.action, KeyAction::Delete), snapshot);
        };
        match transaction.lock_row(&self.region, key, strength, policy, snapshot)? {
            Locked::Current => Ok(true),
            Locked::Changed => Err(transaction.begin_again()),
            Locked::Gone | Locked::Taken => Ok(false),
        }
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
        match self.returned(row.as_ref(), parameters)? {
            None => Ok(0),
            Some(None) => Ok(self.emit(row, emit)),
            Some(Some(returned)) => {
                emit(&mut returned.iter().map(Value::as_datum));
                Ok(1)
            }
        }
    }

    /// What is computed of a row as it is: within, `None` where its plain columns come back. `None` where there is no row, or
    /// one that does not fulfil the conditions.
    fn returned(&self, row: Option<&RowRef<'_>>, parameters: &[Value]) -> Result<Option<Option<Vec<Value>>>> {
        let Some(row) = row else { return Ok(None) };
        if self.computed.is_none() {
            return Ok(Some(None));
        }
        Ok(self.made(|column| row.get(column), parameters)?.map(|made| made.returned))
    }

    /// What is computed of a row that is not changed.
    fn made<'r>(&self, read: impl Fn(usize) -> Datum<'r>, parameters: &[Value]) -> Result<Option<Made>> {
        match &self.computed {
            Some(computed) => computed.of(&self.schema, read, parameters),
            None => Ok(Some(Made { changes: Vec::new(), returned: None })),
        }
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

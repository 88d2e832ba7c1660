//! CHECK constraints: which rows a table must not have.
//!
//! Called by every write before anything is changed, by bulk loads for the rows that wait, and by ALTER TABLE for the rows that are
//! there. A condition that is NULL forbids nothing. One that is simple is known of the values as they are (`known`), all others are
//! computed. Tables without constraints pay for one look at an empty list.

use std::ops::Range;

use ashlar_base::{CheckDef, ColumnId, Datum, Error, ErrorCode, Result, SqlType, TableSchema, Value};

use super::Shape;

mod known;
mod together;

pub use known::holds;
pub use together::Passed;

/// Bytes of a value that are shown of a row that is refused, as in PostgreSQL.
const SHOWN_BYTES_MAX: usize = 64;

/// A constraint, and where in a row is what it reads.
pub(super) struct Check {
    definition: CheckDef,
    inputs: Box<[usize]>,
}

impl Check {
    /// The constraints of a table, in the order in which they are asked: by name.
    ///
    /// # Errors
    /// XX000 where one reads a column that is not there.
    pub(super) fn of(schema: &TableSchema) -> Result<Box<[Self]>> {
        let check = |definition: &CheckDef| -> Result<Self> {
            let ordinal = |id: &ColumnId| schema.columns.iter().position(|column| column.id == *id);
            let inputs = definition.condition.inputs().iter().map(ordinal).collect::<Option<Box<[usize]>>>();
            let missing = || Error::internal(format!("constraint \"{}\" has lost a column", definition.name));
            Ok(Self { definition: definition.clone(), inputs: inputs.ok_or_else(missing)? })
        };
        let mut checks = schema.checks.iter().map(check).collect::<Result<Vec<_>>>()?;
        checks.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
        Ok(checks.into())
    }

    /// What is read of a row.
    fn inputs<'d>(&self, value: impl Fn(usize) -> Datum<'d>) -> Vec<Value> {
        self.inputs.iter().map(|&ordinal| value(ordinal).to_value()).collect()
    }

    /// Whether a row may not be there, where that is known without computing.
    fn known<'d>(&self, value: &impl Fn(usize) -> Datum<'d>) -> Option<bool> {
        let condition = self.definition.condition.condition()?;
        Some(holds(condition, &|place: usize| value(self.inputs[place])) == Some(false))
    }

    /// Whether a row may not be there.
    fn forbids<'d>(&self, value: impl Fn(usize) -> Datum<'d>) -> Result<bool> {
        if let Some(forbidden) = self.known(&value) {
            return Ok(forbidden);
        }
        let computed = self.definition.condition.compute(&[self.inputs(value)])?;
        Ok(computed.iter().any(|values| is_false(values.as_deref())))
    }

    /// Whether several rows are known to be fine, which are computed together. False: each has to be looked at.
    fn is_fine<'d>(&self, mut rows: Range<usize>, value: &impl Fn(usize, usize) -> Datum<'d>) -> bool {
        let condition = &self.definition.condition;
        if condition.condition().is_some() {
            return rows.all(|row| self.known(&|ordinal: usize| value(row, ordinal)) == Some(false));
        }
        if condition.growth().is_none() {
            return false;
        }
        let inputs: Vec<Vec<Value>> = rows.map(|row| self.inputs(|ordinal| value(row, ordinal))).collect();
        condition.compute(&inputs).is_ok_and(|computed| !computed.iter().any(|values| is_false(values.as_deref())))
    }
}

fn is_false(values: Option<&[Value]>) -> bool {
    matches!(values, Some([Value::Bool(false)]))
}

impl Shape {
    /// Whether there are constraints.
    #[inline]
    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Whether the constraints let a row be there whose values are of the right types.
    ///
    /// # Errors
    /// 23514 where one does not, and what computing finds.
    pub(crate) fn check_conditions<'d>(&self, value: impl Fn(usize) -> Datum<'d>) -> Result<()> {
        self.ask(self.conditions.iter(), &value)
    }

    /// The same of a row that was fine before these changes.
    ///
    /// # Errors
    /// As [`Self::check_conditions`].
    pub(crate) fn check_changed<'d>(
        &self,
        changes: &[(usize, Datum<'d>)],
        before: impl Fn(usize) -> Datum<'d>,
    ) -> Result<()> {
        let value = |ordinal: usize| {
            let changed = changes.iter().rfind(|(changed, _)| *changed == ordinal);
            changed.map_or_else(|| before(ordinal), |(_, value)| value.clone())
        };
        let is_asked =
            |check: &&Check| check.inputs.iter().any(|input| changes.iter().any(|(changed, _)| changed == input));
        self.ask(self.conditions.iter().filter(is_asked), &value)
    }

    /// The first of several rows that the constraints do not let be there, and why; `value` gives what a row has in a column.
    pub(crate) fn first_forbidden<'d>(
        &self,
        mut rows: Range<usize>,
        value: impl Fn(usize, usize) -> Datum<'d>,
    ) -> Option<(usize, Error)> {
        if self.conditions.iter().all(|check| check.is_fine(rows.clone(), &value)) {
            return None;
        }
        rows.find_map(|row| self.check_conditions(|ordinal| value(row, ordinal)).err().map(|error| (row, error)))
    }

    /// Whether the constraints that another shape of the table does not have let rows be there that the table has; `value` gives what a row
    /// has in a column.
    ///
    /// # Errors
    /// 23514 in the words of ALTER TABLE, and what computing finds.
    pub(crate) fn check_stored<'d>(
        &self,
        before: &Self,
        rows: Range<usize>,
        value: impl Fn(usize, usize) -> Datum<'d>,
    ) -> Result<()> {
        for check in self.conditions.iter().filter(|check| check.is_new_to(before)) {
            if check.is_fine(rows.clone(), &value) {
                continue;
            }
            rows.clone().try_for_each(|row| match check.forbids(|ordinal| value(row, ordinal))? {
                true => Err(violated_by_some_row(&self.schema.name, &check.definition.name)),
                false => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Whether it has constraints that another shape of the table does not have.
    pub(crate) fn has_more_conditions(&self, before: &Self) -> bool {
        self.conditions.iter().any(|check| check.is_new_to(before))
    }

    fn ask<'c, 'd>(&self, checks: impl Iterator<Item = &'c Check>, value: &impl Fn(usize) -> Datum<'d>) -> Result<()> {
        for check in checks {
            if check.forbids(value)? {
                let (table, name) = (&self.schema.name, &check.definition.name);
                let message = format!("new row for relation \"{table}\" violates check constraint \"{name}\"");
                let columns = self.schema.visible_columns().iter().enumerate();
                let shown = failing_row(columns.map(|(ordinal, column)| (column.sql_type, value(ordinal))));
                let error = Error::new(ErrorCode::CheckViolation, message).with_detail(shown);
                return Err(error.with_table(table).with_constraint(name));
            }
        }
        Ok(())
    }
}

impl Check {
    fn is_new_to(&self, shape: &Shape) -> bool {
        !shape.conditions.iter().any(|known| known.definition.id == self.definition.id)
    }
}

/// 23514 for a constraint that cannot be added, as PostgreSQL words it.
pub fn violated_by_some_row(table: &str, constraint: &str) -> Error {
    let message = format!("check constraint \"{constraint}\" of relation \"{table}\" is violated by some row");
    Error::new(ErrorCode::CheckViolation, message).with_table(table).with_constraint(constraint)
}

/// `Failing row contains (1, null).`: the detail of an error about a row. What is long is cut.
pub(super) fn failing_row<'d>(values: impl Iterator<Item = (SqlType, Datum<'d>)>) -> String {
    let mut out = String::from("Failing row contains (");
    for (index, (sql_type, datum)) in values.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        let shown = Shape::list(std::iter::once((sql_type, &datum)));
        if shown.len() > SHOWN_BYTES_MAX {
            out.push_str(&shown[..shown.floor_char_boundary(SHOWN_BYTES_MAX)]);
            out.push_str("...");
        } else {
            out.push_str(&shown);
        }
    }
    out.push_str(").");
    out
}

#[cfg(test)]
mod tests;

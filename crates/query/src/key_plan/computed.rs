//! Statements about one row by its key whose values are expressions: the engine's own, evaluated over the row.
//!
//! Called by `statement` with what the planner has made of a statement that `key_plan` does not recognise by its text,
//! and by `key_plan` under the lock of the row's partition. An expression is the one that the engine would run: it has
//! been through the same analysis and the same optimiser, so that types, values and errors are the same.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Result, ScalarType, SqlType, TableSchema, Value};
use ashlar_store::ColumnReader;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

use super::{KeyAction, KeyPlan, Operand};
use crate::assign::Assigned;
use crate::dml::{DeletePlan, Outputs, Returning, UpdatePlan};
use crate::engine::Engine;
use crate::parameters::number_of;
use crate::program::Program;
use crate::select::SelectPlan;

/// What is computed from a row.
pub(super) struct Computed {
    program: Program,
    /// The types of the table's columns.
    types: Vec<SqlType>,
    /// The first outputs: the column that each is for, and the type that it has before it is assigned.
    assigned: Vec<(usize, Field)>,
    /// The outputs behind them, which come back.
    returned: Option<Vec<SqlType>>,
    zone: Zone,
}

/// What becomes of a row.
pub(super) struct Made {
    /// New values by the ordinals of their columns.
    pub(super) changes: Vec<(usize, Value)>,
    /// What comes back of it; `None` where plain columns do, or nothing.
    pub(super) returned: Option<Vec<Value>>,
}

impl Computed {
    /// What becomes of a row, whose values `read` gives by their ordinals; `None` where it does not fulfil the
    /// conditions.
    ///
    /// # Errors
    /// What evaluating and assigning find.
    pub(super) fn of<'r>(
        &self,
        schema: &TableSchema,
        read: impl Fn(usize) -> Datum<'r>,
        parameters: &[Value],
    ) -> Result<Option<Made>> {
        self.program.with_values(parameters, || {
            let row = self.program.wanted(self.program.batch_of(read, &self.types)?)?;
            if row.num_rows() == 0 {
                return Ok(None);
            }
            let made = self.program.run(row)?;
            let mut changes = Vec::with_capacity(self.assigned.len());
            for (place, (ordinal, field)) in self.assigned.iter().enumerate() {
                let assigned = Assigned::new(made.column(place), field, &schema.columns[*ordinal], self.zone)?;
                changes.push((*ordinal, assigned.value(0)?));
            }
            let returned = self.returned.as_ref().map(|types| {
                let outputs = made.columns().iter().skip(self.assigned.len()).zip(types);
                outputs
                    .map(|(array, sql_type)| {
                        Ok::<_, ashlar_base::Error>(ColumnReader::new(array, *sql_type)?.datum(0).to_value())
                    })
                    .collect()
            });
            Ok(Some(Made { changes, returned: returned.transpose()? }))
        })
    }

    /// What EXPLAIN shows of the conditions beside the key.
    pub(super) fn describe(&self) -> Option<String> {
        let conditions: Vec<String> = self.program.conditions.iter().map(ToString::to_string).collect();
        (!conditions.is_empty()).then(|| format!("  Filter: {}", conditions.join(" AND ")))
    }

    /// Bytes that it holds, as estimated.
    pub(super) fn bytes(&self) -> usize {
        let of_field = size_of::<Field>() + 64;
        size_of::<Self>()
            + self.program.bytes()
            + self.assigned.len() * of_field
            + self.types.len() * size_of::<SqlType>()
    }
}

/// An UPDATE of one row by its key.
pub(crate) fn of_update(engine: &Engine, plan: &UpdatePlan) -> Option<KeyPlan> {
    let schema = &plan.schema;
    let writes_key = plan.assigned.iter().any(|ordinal| schema.key.contains(ordinal));
    if plan.has_sources || !plan.locked.is_empty() || plan.expiry.is_some() || writes_key {
        return None;
    }
    let row = schema.columns.len();
    let fields = plan.select.schema();
    let assigned: Vec<(usize, Field)> = plan
        .assigned
        .iter()
        .enumerate()
        .map(|(place, ordinal)| (*ordinal, fields.field(row + place).clone()))
        .collect();
    let outputs = (row..row + assigned.len()).collect();
    make(engine, &plan.select, schema, KeyAction::Update(Vec::new()), (assigned, outputs), plan.returning.as_ref())
}

/// A DELETE of one row by its key.
pub(crate) fn of_delete(engine: &Engine, plan: &DeletePlan) -> Option<KeyPlan> {
    if plan.has_sources || !plan.locked.is_empty() {
        return None;
    }
    make(engine, &plan.select, &plan.schema, KeyAction::Delete, (Vec::new(), Vec::new()), plan.returning.as_ref())
}

fn make(
    engine: &Engine,
    select: &SelectPlan,
    schema: &Arc<TableSchema>,
    action: KeyAction,
    (assigned, mut wanted): (Vec<(usize, Field)>, Vec<usize>),
    returning: Option<&Returning>,
) -> Option<KeyPlan> {
    let (plain, found) = match returning.map(|returning| &returning.outputs) {
        None => (None, None),
        Some(Outputs::Plain(ordinals)) => (Some(ordinals.clone()), None),
        Some(Outputs::Found(found)) => (None, Some(found)),
        Some(Outputs::Query(_)) => return None,
    };
    wanted.extend(found.into_iter().flatten());
    let program = select.program(engine.state(), Some(&wanted))?;
    let returned = found.map(|found| found.iter().map(|output| select.columns[*output].sql_type).collect());
    let columns = returning.map(|returning| Arc::clone(&returning.columns));
    let plan = of_program(program, select, schema, action, engine.zone(), (assigned, returned))?;
    Some(KeyPlan { outputs: plain, columns, ..plan })
}

/// A query for one row by its key.
pub(crate) fn of_select(engine: &Engine, select: &SelectPlan) -> Option<KeyPlan> {
    let program = select.program(engine.state(), None)?;
    let schema = program.region.schema();
    let returned = select.columns.iter().map(|column| column.sql_type).collect();
    let plan = of_program(program, select, &schema, KeyAction::Read, engine.zone(), (Vec::new(), Some(returned)))?;
    Some(KeyPlan { columns: Some(Arc::clone(&select.columns)), ..plan })
}

fn of_program(
    program: Program,
    select: &SelectPlan,
    schema: &Arc<TableSchema>,
    action: KeyAction,
    zone: Zone,
    (assigned, returned): (Vec<(usize, Field)>, Option<Vec<SqlType>>),
) -> Option<KeyPlan> {
    if schema.hidden_key || schema.version != program.version || !program.is_row_by_row() {
        return None;
    }
    let (key, is_all) = key_of(&program, schema, &select.parameter_types)?;
    let program = if is_all { program.without_conditions() } else { program };
    let types = schema.columns.iter().map(|column| column.sql_type).collect();
    Some(KeyPlan {
        region: Arc::clone(&program.region),
        schema: Arc::clone(schema),
        key,
        action,
        lock: None,
        outputs: None,
        parameter_types: select.parameter_types.clone(),
        columns: None,
        computed: Some(Arc::new(Computed { program, types, assigned, returned, zone })),
    })
}

/// The operands that the conditions compare the key's columns with, and whether there are no other conditions.
fn key_of(program: &Program, schema: &TableSchema, types: &[SqlType]) -> Option<(Vec<Operand>, bool)> {
    let arrow = program.region.arrow_schema();
    let mut operands: Vec<Option<Operand>> = vec![None; schema.key.len()];
    let mut is_all = true;
    for condition in program.conditions.iter().flat_map(split_conjunction) {
        let found = equality(condition).and_then(|(column, operand, width)| {
            let ordinal = schema.column(column)?;
            let place = schema.key.iter().position(|key| *key == ordinal)?;
            let found =
                operand_of(arrow.field(ordinal).data_type(), schema.columns[ordinal].sql_type, operand, width, types);
            // Two values for one column: the second is looked at in the row.
            Some((operands.get_mut(place).filter(|known| known.is_none())?, found?))
        });
        match found {
            Some((place, operand)) => *place = Some(operand),
            None => is_all = false,
        }
    }
    Some((operands.into_iter().collect::<Option<_>>()?, is_all))
}

/// A column, what it has to be equal to, and the type that it is widened to for that.
fn equality(condition: &Expr) -> Option<(&str, &Expr, Option<&DataType>)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    fn column(expr: &Expr) -> Option<(&str, Option<&DataType>)> {
        match expr {
            Expr::Column(column) => Some((column.name.as_str(), None)),
            Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
                Expr::Column(column) => Some((column.name.as_str(), Some(field.data_type()))),
                _ => None,
            },
            _ => None,
        }
    }
    match (column(left), column(right)) {
        (Some((name, width)), None) => Some((name, right, width)),
        (None, Some((name, width))) => Some((name, left, width)),
        _ => None,
    }
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// What a key's column is compared with, where that finds the rows that the comparison finds.
fn operand_of(
    column: &DataType,
    to: SqlType,
    operand: &Expr,
    width: Option<&DataType>,
    types: &[SqlType],
) -> Option<Operand> {
    // Of two floats that are equal, one may be written otherwise.
    if matches!(to, SqlType::Array(_) | SqlType::Scalar(ScalarType::Float4 | ScalarType::Float8)) {
        return None;
    }
    let parameter = |expr: &Expr| match expr {
        Expr::Placeholder(placeholder) => {
            let number = number_of(&placeholder.id)?;
            Some((number, placeholder.field.as_ref()?.data_type().clone(), *types.get(number)?))
        }
        _ => None,
    };
    if let Some((number, data_type, from)) = parameter(operand) {
        return match width {
            None if data_type == *column => Some(Operand::Parameter { number, from, to: from }),
            Some(width) if data_type == *width && is_integer(column) && is_integer(width) => {
                Some(Operand::Narrowed { number, to })
            }
            _ => None,
        };
    }
    match (operand, width) {
        (Expr::Literal(literal, _), None) => constant(column, to, literal).map(Operand::Constant),
        (Expr::Cast(Cast { expr, field }), None) if field.data_type() == column && is_integer(column) => {
            let (number, data_type, from) = parameter(expr)?;
            // A cast that may fail is looked at where it stands.
            let widens = is_integer(&data_type) && from.typlen() <= to.typlen();
            widens.then_some(Operand::Parameter { number, from, to })
        }
        _ => None,
    }
}

fn constant(column: &DataType, sql_type: SqlType, literal: &ScalarValue) -> Option<Value> {
    if literal.is_null() || literal.data_type() != *column {
        return None;
    }
    let array = literal.to_array().ok()?;
    Some(ColumnReader::new(&array, sql_type).ok()?.datum(0).to_value())
}

#[cfg(test)]
mod tests;

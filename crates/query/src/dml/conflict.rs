//! Plans ON CONFLICT: what happens to an existing row with the key or the unique values of a proposed one. `arbiters`
//! decides which keys and unique indexes are checked.

use std::ops::ControlFlow;
use std::sync::Arc;

use ashlar_base::{ColumnDef, Error, ErrorCode, Result, ScalarType, SqlType, TableSchema};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::{guards, walk};
use ashlar_store::expires_at_column;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    Assignment, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart,
    OnConflictAction, OnInsert,
};

use super::assignments::{assigned_twice, check_calls};
use super::change::{default_of, is_default, names_expiry};
use super::parameters::{ParametersRead, parameter_schema};
use super::{Builder, Conflict, End, assigned_column, refuse_row, split_assignments, typed};
use crate::assign::{assignable, mismatch};
use crate::expressions::sql_type_of;
use crate::key_plan;
use crate::select::names::folded;
use crate::select::{Planner, expiry};

/// Values of columns, by their ordinals.
type Assigned = Vec<(usize, Expr)>;

/// Whether the arguments of a function are all of one type.
fn is_of_one_type_of(function: &ObjectName) -> bool {
    let [ObjectNamePart::Identifier(name)] = &function.0[..] else { return false };
    matches!(folded(name).as_str(), "coalesce" | "nullif" | "greatest" | "least")
}

fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// The type of a parameter that stands for a value of this one: a text without a length, a number of any scale.
fn without_size(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::Scalar(ScalarType::Varchar { .. } | ScalarType::Char { .. }) => ScalarType::Text.into(),
        SqlType::Scalar(ScalarType::Numeric { scale, .. }) => {
            let scale = scale.max(SqlType::NUMERIC_PARAMETER_SCALE);
            ScalarType::Numeric { precision: 38, scale }.into()
        }
        other => other,
    }
}

/// Whether an operator takes a parameter beside a column to be of the column's type.
fn is_of_one_type(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::StringConcat
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

impl Builder<'_> {
    /// `has_target`: it names what it is about, which is the primary key where `is_of_key`.
    pub(super) fn conflict(
        &mut self,
        on: Option<OnInsert>,
        has_target: bool,
        is_of_key: bool,
        alias: &str,
    ) -> Result<Conflict> {
        let on = match on {
            None => return Ok(Conflict::Fail),
            Some(OnInsert::OnConflict(on)) => on,
            Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY is not supported")),
        };
        let update = match on.action {
            OnConflictAction::DoNothing => return Ok(Conflict::Nothing),
            OnConflictAction::DoUpdate(update) => update,
        };
        if !has_target {
            return Err(Error::new(
                ErrorCode::SyntaxError,
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            ));
        }
        let mut values = update.assignments.iter().map(|assignment| &assignment.value).chain(&update.selection);
        if values.any(holds_query) {
            return Err(Error::unsupported("a subquery in ON CONFLICT is not supported")
                .with_hint("Run an UPDATE of its own, in the same transaction."));
        }
        let row = self.engine_schema();
        let existing = DFSchema::try_from_qualified_schema(alias, &row).map_err(from_datafusion)?;
        let excluded = DFSchema::try_from_qualified_schema("excluded", &row).map_err(from_datafusion)?;
        let (mut split, end) = self.split_values(update.assignments, is_of_key, alias)?;
        let (mut end, mut end_at) = match end {
            Some(value) if is_default(&value) => (Some(End::OfTable), None),
            Some(value) if is_excluded_end(&value) => (Some(End::OfExcluded), None),
            end_at => (None, end_at),
        };
        if let Some(selection) = &update.selection {
            check_calls(self.engine, selection, "WHERE")?;
        }
        let mut met = Vec::new();
        for value in split.iter().map(|(_, value)| value).chain(&end_at).chain(&update.selection) {
            if self.has_expiry && expiry::is_named(value) {
                let message = format!("{} in an expression of ON CONFLICT is not supported", expiry::NAME);
                return Err(Error::unsupported(message));
            }
            self.met_parameters(value, &mut met);
        }
        let mut read = ParametersRead::default();
        split.iter_mut().map(|(_, value)| value).chain(&mut end_at).for_each(|value| read.replace_in(value));
        let mut selection = update.selection;
        selection.iter_mut().for_each(|selection| read.replace_in(selection));
        let parameters = self.types_of_parameters(&read.numbers, &met)?;
        let both = existing.join(&excluded).map_err(from_datafusion)?;
        let both = both.join(&parameter_schema(&parameters)?).map_err(from_datafusion)?;
        let planner = Planner::new(self.engine, self.catalog);
        let mut assignments = Vec::new();
        for (ordinal, value) in split {
            check_names(&value, self.schema)?;
            let value = typed(value, self.schema.columns[ordinal].sql_type);
            let (expr, sql_type) = self.physical(&planner, value, &both)?;
            assignments.push((ordinal, expr, sql_type));
        }
        if let Some(value) = end_at {
            check_names(&value, self.schema)?;
            let column = expires_at_column();
            let (expr, sql_type) = self.physical(&planner, typed(value, column.sql_type), &both)?;
            if !assignable(sql_type, column.sql_type) {
                return Err(mismatch(&column, sql_type));
            }
            end = Some(End::At(expr, sql_type));
        }
        let filter = match selection {
            Some(selection) => {
                check_names(&selection, self.schema)?;
                Some(self.physical(&planner, selection, &both)?.0)
            }
            None => None,
        };
        Ok(Conflict::Update { assignments, end, filter, parameters })
    }

    /// The values that DO UPDATE assigns, each with the ordinal of its column; and that of the system column that says when the row
    /// ends.
    fn split_values(
        &mut self,
        assignments: Vec<Assignment>,
        is_of_key: bool,
        alias: &str,
    ) -> Result<(Assigned, Option<Expr>)> {
        let (mut split, mut end) = (Vec::new(), None);
        let mut assigned = Vec::new();
        for Assignment { target, value } in split_assignments(self.engine, None, assignments)? {
            if self.has_expiry && names_expiry(&target, self.schema) {
                let column = expires_at_column();
                refuse_row(&column, &value)?;
                if let Some(number) = key_plan::parameter(&value) {
                    self.know_parameter(number, column.sql_type);
                }
                if end.replace(value).is_some() {
                    return Err(assigned_twice(expiry::NAME));
                }
                continue;
            }
            let ordinal = assigned_column(self.schema, &target, &value)?;
            if assigned.contains(&ordinal) {
                return Err(assigned_twice(&self.schema.columns[ordinal].name));
            }
            assigned.push(ordinal);
            if self.schema.key.contains(&ordinal) {
                let column = &self.schema.columns[ordinal];
                // The key of the row that is met is the proposed one already; and what it is may be set anew.
                if is_own(&value, column, alias) || is_of_key && is_same_key(&value, column) {
                    continue;
                }
                return Err(Error::unsupported("ON CONFLICT DO UPDATE of a key column is not supported"));
            }
            let value = if is_default(&value) { default_of(&self.schema.columns[ordinal])? } else { value };
            // Alone, a parameter is of the column's type.
            if let Some(number) = key_plan::parameter(&value) {
                self.know_parameter(number, self.schema.columns[ordinal].sql_type);
            }
            split.push((ordinal, value));
        }
        Ok((split, end))
    }

    /// The types of the parameters with these numbers: known, declared, or in `met`, which has the types of columns beside them.
    fn types_of_parameters(&mut self, numbers: &[usize], met: &[(usize, SqlType)]) -> Result<Vec<(usize, SqlType)>> {
        let mut parameters = Vec::new();
        for &number in numbers {
            let known = self.parameter_types.get(number).copied().flatten();
            let declared = self.declared.get(number).and_then(|oid| SqlType::from_oid(*oid));
            let beside = met.iter().find(|(beside, _)| *beside == number).map(|(_, sql_type)| *sql_type);
            let sql_type = known.or(declared).or(beside).ok_or_else(|| {
                let message = format!("could not determine data type of parameter ${}", number + 1);
                Error::new(ErrorCode::IndeterminateDatatype, message)
                    .with_hint(format!("Cast it: ${}::integer.", number + 1))
            })?;
            self.know_parameter(number, sql_type);
            parameters.push((number, sql_type));
        }
        Ok(parameters)
    }

    /// The parameters that are cast, with the type that they are cast to; and those on one side of an operator, or among the arguments of
    /// `coalesce` and its like, with the type of the column beside them.
    fn met_parameters(&self, value: &Expr, met: &mut Vec<(usize, SqlType)>) {
        let column = |expr: &Expr| -> Option<SqlType> {
            let ident = match expr {
                Expr::Identifier(ident) => ident,
                Expr::CompoundIdentifier(idents) => idents.last()?,
                _ => return None,
            };
            let ordinal = self.schema.column(&folded(ident))?;
            Some(without_size(self.schema.columns[ordinal].sql_type))
        };
        let _: ControlFlow<()> = walk::expressions(value, |expr| {
            if let Expr::BinaryOp { left, op, right } = expr
                && is_of_one_type(op)
            {
                for (one, other) in [(left, right), (right, left)] {
                    if let (Some(number), Some(sql_type)) = (key_plan::parameter(one), column(other.as_ref())) {
                        met.push((number, sql_type));
                    }
                }
            }
            if let Expr::Cast { expr: cast, data_type, .. } = expr
                && let Some(number) = key_plan::parameter(cast)
                && let Ok(Some(sql_type)) = sql_type_of(data_type)
            {
                met.push((number, without_size(sql_type)));
            }
            if let Expr::Function(function) = expr
                && is_of_one_type_of(&function.name)
                && let FunctionArguments::List(list) = &function.args
            {
                let given = || list.args.iter().filter_map(argument);
                if let Some(sql_type) = given().find_map(column) {
                    met.extend(given().filter_map(key_plan::parameter).map(|number| (number, sql_type)));
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Gives a parameter a type, unless it has one.
    fn know_parameter(&mut self, number: usize, sql_type: SqlType) {
        if self.parameter_types.len() <= number {
            self.parameter_types.resize(number + 1, None);
        }
        self.parameter_types[number].get_or_insert(sql_type);
    }

    fn engine_schema(&self) -> arrow::datatypes::Schema {
        let fields: Vec<arrow::datatypes::Field> =
            self.schema.columns.iter().map(ashlar_store::arrow_types::to_arrow_field).collect();
        arrow::datatypes::Schema::new(fields)
    }

    fn physical(
        &self,
        planner: &Planner<'_>,
        expr: Expr,
        schema: &DFSchema,
    ) -> Result<(Arc<dyn PhysicalExpr>, SqlType)> {
        use datafusion::logical_expr::ExprSchemable;
        let logical = planner.expression(expr, schema)?;
        let logical = crate::expressions::analysed(self.engine.state(), logical, schema)?;
        let (_, field) = logical.to_field(schema).map_err(from_datafusion)?;
        let sql_type = ashlar_store::arrow_types::sql_type_of(&field)
            .ok_or_else(|| Error::unsupported(format!("type {} is not supported", field.data_type())))?;
        let logical = guards::value(logical).map_err(from_datafusion)?.data;
        let logical = crate::expressions::with_cases(logical)?;
        let physical = self.engine.state().create_physical_expr(logical, schema).map_err(from_datafusion)?;
        Ok((physical, sql_type))
    }
}

/// Whether a value is `excluded.column` of the column itself, whose equal values are one and the same: zeros of floats have two signs.
fn is_same_key(value: &Expr, column: &ColumnDef) -> bool {
    let Expr::CompoundIdentifier(parts) = value else { return false };
    let [table, name] = &parts[..] else { return false };
    let is_float = matches!(column.sql_type.scalar(), ScalarType::Float4 | ScalarType::Float8);
    !is_float && folded(table) == "excluded" && folded(name) == column.name
}

/// Whether a value is the column itself, of the row that is met.
fn is_own(value: &Expr, column: &ColumnDef, alias: &str) -> bool {
    let Expr::CompoundIdentifier(parts) = value else { return false };
    matches!(&parts[..], [table, name] if folded(table) == alias && folded(name) == column.name)
}

/// Whether a value is when the proposed row would end.
fn is_excluded_end(value: &Expr) -> bool {
    let Expr::CompoundIdentifier(parts) = value else { return false };
    matches!(&parts[..], [table, name] if folded(table) == "excluded" && expiry::is_it(name))
}

fn holds_query(expr: &Expr) -> bool {
    use std::ops::ControlFlow;
    let found = walk::expressions(expr, |node| match node {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// 42702 for a bare name: the existing row and the excluded one both have it.
fn check_names(expr: &Expr, schema: &TableSchema) -> Result<()> {
    use std::ops::ControlFlow;
    let found = walk::expressions(expr, |node| match node {
        Expr::Identifier(name) if schema.column(&folded(name)).is_some() => ControlFlow::Break(folded(name)),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(name) => {
            Err(Error::new(ErrorCode::AmbiguousColumn, format!("column reference \"{name}\" is ambiguous")))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

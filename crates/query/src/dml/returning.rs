//! Plans RETURNING: how its values are computed from the rows that were changed.
//!
//! Plain columns of the target are read from the rows. Everything else is computed, for UPDATE and DELETE, by the query that
//! finds the rows, which has the columns of other tables; for INSERT, by a query over the rows once they are
//! known. Both see parameters, subqueries and the statement's WITH, and tables as they were before the statement.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, TableSchema};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::fields::field_of;
use ashlar_functions::names::NAME_END;
use ashlar_functions::tree::{any_expression, any_part};
use ashlar_functions::walk;
use ashlar_store::arrow_types::to_arrow_field;
use datafusion::common::Column as PlanColumn;
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder, Projection, Subquery};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SelectItem, SelectItemQualifiedWildcardKind, Statement as AstStatement,
};

use super::{Builder, Outputs, Returning, cast, select_of, table_as};
use crate::columns::Column;
use crate::ddl::HIDDEN_KEY;
use crate::engine::Engine;
use crate::key_plan::{single, table_columns};
use crate::select::names::folded;
use crate::select::{Planner, SelectPlan, expiry};

/// The inserted rows as a table, by a name that no user can write; behind their columns the number of the row.
pub(super) const ROWS: &str = "\u{1}rows";
const ROW_NUMBER: &str = "\u{1}number";

/// RETURNING of an UPDATE or a DELETE, on its way to be planned.
pub(super) enum Requested {
    /// There is none.
    Nothing,
    /// Plain columns of the target.
    Plain(Returning),
    /// To be computed with the rows.
    Items(Vec<SelectItem>),
}

impl Requested {
    pub(super) fn new(
        engine: &Engine,
        items: Option<Vec<SelectItem>>,
        schema: &TableSchema,
        alias: &str,
        has_sources: bool,
    ) -> Result<Self> {
        let Some(items) = items else { return Ok(Self::Nothing) };
        if let Some(returning) = plain(schema, alias, &items, has_sources) {
            return Ok(Self::Plain(returning));
        }
        check_items(engine, &items)?;
        Ok(Self::Items(items))
    }

    /// What the query that finds the rows has to compute behind what it gives anyway.
    pub(super) fn items(&self) -> &[SelectItem] {
        match self {
            Self::Items(items) => items,
            Self::Nothing | Self::Plain(_) => &[],
        }
    }

    /// The columns of the target that come back as they are.
    pub(super) fn columns(&self) -> &[usize] {
        match self {
            Self::Plain(Returning { outputs: Outputs::Plain(ordinals), .. }) => ordinals,
            Self::Plain(_) | Self::Nothing | Self::Items(_) => &[],
        }
    }

    /// The outputs of that query, from `first` on, that come back.
    pub(super) fn outputs(&self, plan: &LogicalPlan, first: usize) -> Result<Vec<usize>> {
        if self.items().is_empty() {
            return Ok(Vec::new());
        }
        let projection = row_by_row(plan)?;
        // A star means the hidden key too, where that is visible to the query.
        let is_hidden = |expr: &PlanExpr| matches!(expr, PlanExpr::Column(column) if column.name == HIDDEN_KEY);
        let shown =
            projection.expr.iter().enumerate().skip(first).filter(|(_, expr)| !is_hidden(&(*expr).clone().unalias()));
        Ok(shown.map(|(number, _)| number).collect())
    }

    pub(super) fn finish(self, outputs: Vec<usize>, select: &SelectPlan) -> Option<Returning> {
        match self {
            Self::Nothing => None,
            Self::Plain(returning) => Some(returning),
            Self::Items(_) => {
                let columns = outputs.iter().map(|number| select.columns[*number].clone()).collect();
                Some(Returning { outputs: Outputs::Found(outputs), columns })
            }
        }
    }
}

/// The items as columns of the target, where all are.
fn plain(schema: &TableSchema, alias: &str, items: &[SelectItem], has_sources: bool) -> Option<Returning> {
    let visible = schema.visible_columns().len();
    let of_target = |expr: &Expr| match expr {
        // A bare name could be a column of another table.
        Expr::Identifier(name) if !has_sources => schema.column(&folded(name)),
        Expr::CompoundIdentifier(names) => match &names[..] {
            [table, column] if folded(table) == alias => schema.column(&folded(column)),
            _ => None,
        },
        _ => None,
    };
    let of_target = |expr: &Expr| of_target(expr).filter(|ordinal| *ordinal < visible);
    let mut ordinals = Vec::new();
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |found: &[usize], label: Option<String>| {
        ordinals.extend(found);
        columns.extend(table_columns(schema, found).iter().cloned());
        if let (Some(label), Some(column)) = (label, columns.last_mut()) {
            column.name = label;
        }
    };
    let all: Vec<usize> = (0..visible).collect();
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => add(&[of_target(expr)?], None),
            SelectItem::ExprWithAlias { expr, alias } => add(&[of_target(expr)?], Some(folded(alias))),
            SelectItem::Wildcard(_) if !has_sources => add(&all, None),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                if single(name).as_deref() == Some(alias) =>
            {
                add(&all, None);
            }
            _ => return None,
        }
    }
    Some(Returning { outputs: Outputs::Plain(ordinals), columns: columns.into() })
}

/// 42803 and 42P20 for aggregates and window functions, outside of subqueries.
fn check_items(engine: &Engine, items: &[SelectItem]) -> Result<()> {
    let check = |expr: &Expr| {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if function.over.is_some() {
            let message = "window functions are not allowed in RETURNING";
            return ControlFlow::Break(Error::new(ErrorCode::WindowingError, message));
        }
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        if engine.state().aggregate_functions().contains_key(&name) {
            let message = "aggregate functions are not allowed in RETURNING";
            return ControlFlow::Break(Error::new(ErrorCode::GroupingError, message));
        }
        ControlFlow::Continue(())
    };
    for item in items {
        if let ControlFlow::Break(error) = walk::own_expressions(item, check) {
            return Err(error);
        }
    }
    Ok(())
}

/// The projection on top of a plan whose outputs are computed from one row each.
///
/// # Errors
/// 0A000 for functions that give rows.
fn row_by_row(plan: &LogicalPlan) -> Result<&Projection> {
    let mut node = plan;
    loop {
        node = match node {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Unnest(_) => {
                return Err(Error::unsupported("set-returning functions are not allowed in RETURNING"));
            }
            _ => break,
        };
    }
    match plan {
        LogicalPlan::Projection(projection) => Ok(projection),
        _ => Err(Error::unsupported("this form of RETURNING is not supported")),
    }
}

/// The query that finds the rows of an UPDATE, with the outputs behind the new values computed from a row that has those values. So many
/// outputs are columns of the old row.
///
/// ```text
///   outputs      old row | new values | RETURNING over the row below
///   row          old row | new values | columns of all tables, those assigned to as their new values
///   new values             new values | columns of all tables
///   what finds the rows
/// ```
pub(super) fn with_new_values(
    planner: &Planner<'_>,
    plan: LogicalPlan,
    columns: usize,
    schema: &TableSchema,
    alias: &str,
    assigned: &[usize],
) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
        return Err(Error::internal("the query of an UPDATE ends in its outputs"));
    };
    let (row, rest) = expr.split_at(columns);
    let (values, shown) = rest.split_at(assigned.len());
    let is_new = |column: &PlanColumn| {
        column.relation.as_ref().is_some_and(|table| table.table() == alias)
            && assigned.iter().any(|ordinal| schema.columns[*ordinal].name == column.name)
    };
    for expr in shown {
        check_subqueries(expr, &is_new)?;
    }
    let columns: Vec<PlanExpr> = input.schema().iter().map(PlanExpr::from).collect();
    let computed = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input))
        .project(values.iter().cloned().chain(columns))
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    let mut outputs: Vec<PlanExpr> = row.to_vec();
    for (number, (qualifier, field)) in computed.schema().iter().enumerate() {
        let place = assigned
            .iter()
            .position(|ordinal| schema.columns[*ordinal].name == *field.name())
            .filter(|_| number >= assigned.len() && qualifier.is_some_and(|table| table.table() == alias));
        outputs.push(match place {
            None => PlanExpr::from((qualifier, field)),
            Some(place) => {
                let value = Expr::Identifier(Ident::with_quote('"', computed.schema().field(place).name().clone()));
                let value = cast(value, schema.columns[assigned[place]].sql_type);
                planner.expression(value, computed.schema())?.alias_qualified(qualifier.cloned(), field.name())
            }
        });
    }
    let settled = LogicalPlanBuilder::from(computed)
        .project(outputs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    let kept = settled.schema().iter().take(row.len() + values.len()).map(PlanExpr::from);
    let outputs: Vec<PlanExpr> = kept.chain(shown.iter().cloned()).collect();
    LogicalPlanBuilder::from(settled).project(outputs).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// 0A000 where a subquery reads a new value: the engine would give it the old one.
fn check_subqueries(expr: &PlanExpr, is_new: &impl Fn(&PlanColumn) -> bool) -> Result<()> {
    let reads_new = |subquery: &Subquery| {
        any_expression(&subquery.subquery, |expr| {
            Ok(matches!(expr, PlanExpr::OuterReferenceColumn(_, column) if is_new(column)))
        })
    };
    let found = any_part(expr, |expr| match expr {
        PlanExpr::ScalarSubquery(subquery) => reads_new(subquery),
        PlanExpr::Exists(exists) => reads_new(&exists.subquery),
        PlanExpr::InSubquery(within) => reads_new(&within.subquery),
        _ => Ok(false),
    });
    if found.map_err(from_datafusion)? {
        return Err(Error::unsupported(
            "a subquery in RETURNING that reads a value which the UPDATE sets is not supported",
        ));
    }
    Ok(())
}

/// The columns of the inserted rows as [`ROWS`] has them.
pub(super) fn rows_schema(schema: &TableSchema) -> SchemaRef {
    let number = field_of(ROW_NUMBER, SqlType::Scalar(ScalarType::Int8));
    let columns = schema.visible_columns().iter().map(|column| Arc::new(to_arrow_field(column)));
    Arc::new(Schema::new(columns.chain([number]).collect::<Vec<_>>()))
}

/// The inserted rows as a table, before there are any.
fn no_rows(schema: &TableSchema) -> Result<Arc<dyn TableProvider>> {
    let table = MemTable::try_new(rows_schema(schema), vec![Vec::new()]).map_err(from_datafusion)?;
    Ok(Arc::new(table))
}

impl Builder<'_> {
    /// RETURNING of an INSERT.
    pub(super) fn returning(&mut self, items: Option<Vec<SelectItem>>, alias: &str) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        if let Some(returning) = plain(self.schema, alias, &items, false) {
            return Ok(Some(returning));
        }
        check_items(self.engine, &items)?;
        // What its table gives it, a row has once it is there.
        if self.has_expiry && items.iter().any(expiry::is_named_outside) {
            return Err(Error::unsupported(format!("RETURNING {} of an INSERT is not supported", expiry::NAME))
                .with_hint("SELECT it in the same transaction."));
        }
        let column = |table: &str, column: &str| {
            Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::with_quote('"', column)])
        };
        let visible = self.schema.visible_columns().iter();
        let star: Vec<SelectItem> =
            visible.map(|visible| SelectItem::UnnamedExpr(column(alias, &visible.name))).collect();
        let mut outputs = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(_) => outputs.extend_from_slice(&star),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                    if single(&name).as_deref() == Some(alias) =>
                {
                    outputs.extend_from_slice(&star);
                }
                other => outputs.push(other),
            }
        }
        outputs.push(SelectItem::ExprWithAlias {
            expr: column(alias, ROW_NUMBER),
            alias: Ident::with_quote('"', format!("n{NAME_END}")),
        });
        let query = select_of(self.with.clone(), outputs, vec![table_as(ROWS, alias)], None)?;
        let declared = self.known_oids();
        let planner = Planner::with_table(self.engine, self.catalog, ROWS, no_rows(self.schema)?);
        let logical = planner.logical(AstStatement::Query(Box::new(query)), &declared)?;
        row_by_row(&logical)?;
        let plan = SelectPlan::from_logical(self.engine.state(), logical)?;
        self.check_parameters(&plan)?;
        self.merge_parameters(&plan);
        let columns = Arc::from(&plan.columns[..plan.columns.len() - 1]);
        Ok(Some(Returning { outputs: Outputs::Query(Box::new(plan)), columns }))
    }

    /// The types of the parameters as far as they are known, as a client would declare them.
    fn known_oids(&self) -> Vec<u32> {
        let count = self.declared.len().max(self.parameter_types.len());
        let oid = |number: usize| match self.parameter_types.get(number).copied().flatten() {
            Some(known) => known.oid(),
            None => self.declared.get(number).copied().unwrap_or(0),
        };
        (0..count).map(oid).collect()
    }

    /// A parameter that stands for a column's value and in RETURNING is one value: 0A000 where it would be read as two.
    fn check_parameters(&self, plan: &SelectPlan) -> Result<()> {
        let is_text =
            |sql_type: SqlType| matches!(sql_type, SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. }));
        for (number, (found, used)) in plan.parameter_types.iter().zip(&plan.parameters_used).enumerate() {
            let known = self.parameter_types.get(number).copied().flatten();
            let Some(known) = known.filter(|known| *used && known != found) else { continue };
            if !(is_text(known) && is_text(*found)) {
                let message = format!("parameter ${} of type {known} is not supported in RETURNING", number + 1);
                return Err(Error::unsupported(message).with_hint("Use the column that it is for."));
            }
        }
        Ok(())
    }
}

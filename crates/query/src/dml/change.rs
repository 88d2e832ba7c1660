//! UPDATE and DELETE: the query that finds the rows and computes what becomes of them.
//!
//! Called by `statement`. Runs nothing: `run` does.

use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, Error, ErrorCode, Result, ScalarType, SqlType, TableSchema, Value};
use ashlar_functions::names::NAME_END;
use ashlar_store::{Region, expires_at_column};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, SelectItem, SetExpr, Statement as AstStatement,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind, Value as AstValue, With,
};

use super::returning::{Requested, with_new_values};
use super::{DeletePlan, UpdatePlan, assigned_column, refuse, select_of, split_assignments, table_as, typed};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::grid_table::GridTable;
use crate::key_plan::single;
use crate::locking::Subqueries;
use crate::select::names::folded;
use crate::select::{Planner, SelectPlan, expiry};

/// The name of the target in the query that finds the rows, which no user can write: there, and nowhere else in the
/// statement, its hidden key is visible, and no WITH query stands for it.
const TARGET: &str = "\u{1}target";

/// The target of an UPDATE or DELETE.
struct Target {
    region: Arc<Region>,
    schema: Arc<TableSchema>,
    /// The name by which its columns are meant.
    alias: String,
}

impl Target {
    fn new(catalog: &CatalogState, table: &TableWithJoins) -> Result<Self> {
        refuse(!table.joins.is_empty(), "a join as the target")?;
        let TableFactor::Table { name, alias, .. } = &table.relation else {
            return Err(Error::unsupported("this target is not supported"));
        };
        let name = single(name).ok_or_else(|| ashlar_functions::error::undefined_table(&name.to_string()))?;
        let region = Arc::clone(catalog.grid(&name)?);
        let schema = region.schema();
        let alias = alias.as_ref().map_or(name, |alias| folded(&alias.name));
        Ok(Self { region, schema, alias })
    }

    fn planner<'a>(&self, engine: &'a Engine, catalog: &'a Arc<CatalogState>) -> Planner<'a> {
        Planner::with_table(engine, catalog, TARGET, Arc::new(GridTable::new(&self.region, true)))
    }

    /// All columns of the row, hidden ones too.
    fn row_items(&self) -> Vec<SelectItem> {
        let item = |(ordinal, column): (usize, &ColumnDef)| SelectItem::ExprWithAlias {
            expr: Expr::CompoundIdentifier(vec![
                Ident::with_quote('"', self.alias.clone()),
                Ident::with_quote('"', column.name.clone()),
            ]),
            alias: Ident::with_quote('"', format!("r{NAME_END}{ordinal}")),
        };
        self.schema.columns.iter().enumerate().map(item).collect()
    }
}

impl UpdatePlan {
    /// Plans an UPDATE.
    ///
    /// # Errors
    /// What names and types find.
    pub fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        with: Option<With>,
        update: Update,
        declared: &[u32],
    ) -> Result<Self> {
        refuse(update.limit.is_some() || !update.order_by.is_empty(), "UPDATE with ORDER BY or LIMIT")?;
        let target = Target::new(catalog, &update.table)?;
        let schema = &target.schema;
        let mut items = target.row_items();
        let mut assigned = Vec::new();
        let mut ends = None;
        for Assignment { target, value } in split_assignments(update.assignments)? {
            if names_expiry(&target, schema) {
                let value = if is_default(&value) { Expr::value(AstValue::Null) } else { value };
                if ends.replace(typed(value, SqlType::Scalar(ScalarType::Timestamptz))).is_some() {
                    let message = format!("multiple assignments to same column \"{}\"", expiry::NAME);
                    return Err(Error::new(ErrorCode::SyntaxError, message));
                }
                continue;
            }
            let ordinal = assigned_column(schema, &target, &value)?;
            if assigned.contains(&ordinal) {
                return Err(Error::new(
                    ErrorCode::SyntaxError,
                    format!("multiple assignments to same column \"{}\"", schema.columns[ordinal].name),
                ));
            }
            let column = &schema.columns[ordinal];
            let value = if is_default(&value) { default_of(column)? } else { value };
            items.push(SelectItem::ExprWithAlias {
                expr: typed(value, column.sql_type),
                alias: Ident::with_quote('"', format!("s{NAME_END}{}", assigned.len())),
            });
            assigned.push(ordinal);
        }
        let mut from = vec![table_as(TARGET, &target.alias)];
        let has_sources = update.from.is_some();
        match update.from {
            None => {}
            Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => from.extend(tables),
        }
        let requested = Requested::new(engine, update.returning, schema, &target.alias, has_sources)?;
        let first = items.len();
        items.extend_from_slice(requested.items());
        refuse(
            ends.is_some() && !requested.items().is_empty(),
            "RETURNING of more than columns beside SET _expires_at",
        )?;
        let expiry = ends.map(|expr| {
            items.push(SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("e{NAME_END}")) });
            items.len() - 1
        });
        let query = select_of(with, items, from, update.selection)?;
        let planner = target.planner(engine, catalog);
        let mut logical = planner.logical(AstStatement::Query(Box::new(query)), declared)?;
        let outputs = requested.outputs(&logical, first)?;
        if !requested.items().is_empty() {
            logical = with_new_values(&planner, logical, schema, &target.alias, &assigned)?;
        }
        let select = SelectPlan::from_logical(engine.state(), logical)?;
        let row = schema.columns.len();
        for (number, ordinal) in assigned.iter().enumerate() {
            // Types that cannot be assigned are found before anything runs.
            let field = select.schema().field(row + number).clone();
            let empty = arrow::array::new_empty_array(field.data_type());
            crate::assign::Assigned::new(&empty, &field, &schema.columns[*ordinal], engine.zone()).map(drop)?;
        }
        if let Some(place) = expiry {
            let field = select.schema().field(place).clone();
            let empty = arrow::array::new_empty_array(field.data_type());
            crate::assign::Assigned::new(&empty, &field, &expires_at_column(), engine.zone()).map(drop)?;
        }
        let returning = requested.finish(outputs, &select);
        let locked = Subqueries::default();
        let (region, schema) = (target.region, target.schema);
        Ok(Self { region, schema, select, assigned, expiry, returning, has_sources, locked })
    }
}

/// Whether an assignment is to the system column.
fn names_expiry(target: &AssignmentTarget, schema: &TableSchema) -> bool {
    let AssignmentTarget::ColumnName(name) = target else { return false };
    schema.column(expiry::NAME).is_none() && matches!(&name.0[..], [part] if part.as_ident().is_some_and(expiry::is_it))
}

/// Whether a value is the word DEFAULT.
pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// What `SET column = DEFAULT` assigns.
///
/// # Errors
/// 0A000 for the next number of a sequence.
pub(super) fn default_of(column: &ColumnDef) -> Result<Expr> {
    match &column.default {
        None => Ok(Expr::value(AstValue::Null)),
        Some(ColumnDefault::Expression(sql)) => expression(sql),
        Some(ColumnDefault::Constant(value)) => constant(value, column.sql_type),
        Some(ColumnDefault::Sequence(_)) => {
            Err(Error::unsupported("SET ... = DEFAULT of a column that numbers itself is not supported"))
        }
    }
}

fn expression(sql: &str) -> Result<Expr> {
    let AstStatement::Query(query) = crate::select::parse(&format!("SELECT ({sql})"))? else {
        return Err(Error::internal("a SELECT is a query"));
    };
    match *query.body {
        SetExpr::Select(mut select) => match select.projection.pop() {
            Some(SelectItem::UnnamedExpr(expr)) => Ok(expr),
            _ => Err(Error::internal("a default is one expression")),
        },
        _ => Err(Error::internal("a default is one expression")),
    }
}

/// A constant default, written as its text in quotes, to be read as its type.
fn constant(value: &Value, sql_type: SqlType) -> Result<Expr> {
    if value.is_null() {
        return Ok(Expr::value(AstValue::Null));
    }
    let mut text = Vec::new();
    ashlar_base::value::text::write(
        sql_type,
        &value.as_datum(),
        &ashlar_base::value::text::TextStyle::default(),
        &mut text,
    );
    let text = String::from_utf8(text).map_err(|_| Error::internal("the text of a value is UTF-8"))?;
    Ok(Expr::value(AstValue::SingleQuotedString(text)))
}

impl DeletePlan {
    /// Plans a DELETE.
    ///
    /// # Errors
    /// What names and types find.
    pub fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        with: Option<With>,
        delete: Delete,
        declared: &[u32],
    ) -> Result<Self> {
        refuse(delete.limit.is_some() || !delete.order_by.is_empty(), "DELETE with ORDER BY or LIMIT")?;
        let (FromTable::WithFromKeyword(mut tables) | FromTable::WithoutKeyword(mut tables)) = delete.from;
        refuse(tables.len() != 1, "DELETE from several tables")?;
        let target = Target::new(catalog, &tables[0])?;
        let has_sources = delete.using.is_some();
        tables[0] = table_as(TARGET, &target.alias);
        tables.extend(delete.using.unwrap_or_default());
        let requested = Requested::new(engine, delete.returning, &target.schema, &target.alias, has_sources)?;
        let mut items = target.row_items();
        let first = items.len();
        items.extend_from_slice(requested.items());
        let query = select_of(with, items, tables, delete.selection)?;
        let planner = target.planner(engine, catalog);
        let logical = planner.logical(AstStatement::Query(Box::new(query)), declared)?;
        let outputs = requested.outputs(&logical, first)?;
        let select = SelectPlan::from_logical(engine.state(), logical)?;
        let returning = requested.finish(outputs, &select);
        let locked = Subqueries::default();
        Ok(Self { region: target.region, schema: target.schema, select, returning, has_sources, locked })
    }
}

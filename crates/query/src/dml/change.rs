//! Plans UPDATE and DELETE: the query that finds the rows and computes their new values.
//!
//! Called by `statement` for tables in memory, and by `shard_change` for sharded ones. Runs nothing: `run` does.

use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, Error, Result, ScalarType, SqlType, TableSchema, Value};
use ashlar_functions::names::NAME_END;
use ashlar_store::{Region, expires_at_column};
use datafusion::datasource::TableProvider;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, SelectItem, SetExpr, Statement as AstStatement,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind, Value as AstValue, With,
};

use super::assignments::assigned_twice;
use super::returning::{Requested, with_new_values};
use super::{
    DeletePlan, Returning, SetExpiry, UpdatePlan, assigned_column, refuse, refuse_row, select_of, split_assignments,
    table_as, typed,
};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::grid_table::GridTable;
use crate::key_plan::single;
use crate::locking::Subqueries;
use crate::select::names::folded;
use crate::select::{Planner, SelectPlan, expiry};
use crate::sharded::ShardedTable;

/// The name of the target in the query that finds the rows, which no user can write: there, and nowhere else in the
/// statement, its hidden column is visible, and no WITH query stands for it.
const TARGET: &str = "\u{1}target";

/// The target of an UPDATE or DELETE.
pub(super) struct Target {
    /// Its columns; a hidden one at their end tells its rows, or their versions, apart.
    schema: Arc<TableSchema>,
    /// The name by which its columns are meant.
    alias: String,
    /// Its rows.
    rows: Arc<dyn TableProvider>,
    /// Whether a row may have an end of its own.
    has_expiry: bool,
}

impl Target {
    /// A table in memory.
    fn of_grid(catalog: &CatalogState, table: &TableWithJoins) -> Result<(Arc<Region>, Self)> {
        let (name, alias) = names(table)?;
        let region = Arc::clone(catalog.grid(&name)?);
        let rows = Arc::new(GridTable::new(&region, true));
        let target = Self { schema: region.schema(), alias, rows, has_expiry: true };
        Ok((region, target))
    }

    /// A sharded table.
    pub(super) fn of_shards(sharded: &Arc<ShardedTable>, table: &TableWithJoins) -> Result<Self> {
        let (_, alias) = names(table)?;
        let (schema, rows) = sharded.versioned();
        Ok(Self { schema, alias, rows, has_expiry: false })
    }

    fn planner<'a>(&self, engine: &'a Engine, catalog: &'a Arc<CatalogState>) -> Planner<'a> {
        Planner::with_table(engine, catalog, TARGET, Arc::clone(&self.rows))
    }

    /// All columns of the row, hidden ones too.
    fn all_columns(&self) -> Vec<usize> {
        (0..self.schema.columns.len()).collect()
    }

    /// Some columns of the row as outputs.
    fn items(&self, ordinals: &[usize]) -> Vec<SelectItem> {
        let item = |ordinal: &usize| SelectItem::ExprWithAlias {
            expr: Expr::CompoundIdentifier(vec![
                Ident::with_quote('"', self.alias.clone()),
                Ident::with_quote('"', self.schema.columns[*ordinal].name.clone()),
            ]),
            alias: Ident::with_quote('"', format!("r{NAME_END}{ordinal}")),
        };
        ordinals.iter().map(item).collect()
    }
}

/// The name of a target, and the one by which its columns are meant.
fn names(table: &TableWithJoins) -> Result<(String, String)> {
    refuse(!table.joins.is_empty(), "a join as the target")?;
    let TableFactor::Table { name, alias, .. } = &table.relation else {
        return Err(Error::unsupported("this target is not supported"));
    };
    let name = single(name).ok_or_else(|| ashlar_functions::error::undefined_table(&name.to_string()))?;
    let alias = alias.as_ref().map_or_else(|| name.clone(), |alias| folded(&alias.name));
    Ok((name, alias))
}

/// The query that finds the rows, and what its outputs are: columns of each row, then the new values, then the rest.
pub(super) struct Finding {
    /// The query.
    pub(super) select: SelectPlan,
    /// Ordinals of the columns that it gives of each row.
    pub(super) row: Vec<usize>,
    /// Ordinals of the columns that the new values are for.
    pub(super) assigned: Vec<usize>,
    /// When rows end, where the statement says that.
    expiry: Option<SetExpiry>,
    /// RETURNING
    pub(super) returning: Option<Returning>,
    /// Other tables stand beside the target.
    has_sources: bool,
}

impl Finding {
    /// Plans the query of an UPDATE. `row`: which columns of a row are wanted, in ascending order, where these are assigned to and
    /// these come back.
    ///
    /// # Errors
    /// What names and types find.
    pub(super) fn updated(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        with: Option<With>,
        update: Update,
        declared: &[u32],
        target: &Target,
        row: impl FnOnce(&[usize], &[usize]) -> Vec<usize>,
    ) -> Result<Self> {
        refuse(update.limit.is_some() || !update.order_by.is_empty(), "UPDATE with ORDER BY or LIMIT")?;
        let schema = &target.schema;
        let mut values = Vec::new();
        let mut assigned = Vec::new();
        let mut ends = None;
        for Assignment { target: column, value } in split_assignments(engine, with.as_ref(), update.assignments)? {
            if target.has_expiry && names_expiry(&column, schema) {
                refuse_row(&expires_at_column(), &value)?;
                let value = (!is_default(&value)).then(|| typed(value, SqlType::Scalar(ScalarType::Timestamptz)));
                if ends.replace(value).is_some() {
                    return Err(assigned_twice(expiry::NAME));
                }
                continue;
            }
            let ordinal = assigned_column(schema, &column, &value)?;
            if assigned.contains(&ordinal) {
                return Err(assigned_twice(&schema.columns[ordinal].name));
            }
            let column = &schema.columns[ordinal];
            let value = if is_default(&value) { default_of(column)? } else { value };
            values.push(SelectItem::ExprWithAlias {
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
        let row = row(&assigned, requested.columns());
        let mut items = target.items(&row);
        items.append(&mut values);
        let first = items.len();
        items.extend_from_slice(requested.items());
        refuse(
            ends.is_some() && !requested.items().is_empty(),
            "RETURNING of more than columns beside SET _expires_at",
        )?;
        let expiry = ends.map(|value| match value {
            None => SetExpiry::OfTable,
            Some(expr) => {
                items.push(SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("e{NAME_END}")) });
                SetExpiry::Output(items.len() - 1)
            }
        });
        let query = select_of(with, items, from, update.selection)?;
        let planner = target.planner(engine, catalog);
        let mut logical = planner.logical(AstStatement::Query(Box::new(query)), declared)?;
        let outputs = requested.outputs(&logical, first)?;
        if !requested.items().is_empty() {
            logical = with_new_values(&planner, logical, row.len(), schema, &target.alias, &assigned)?;
        }
        let select = SelectPlan::from_logical(engine.state(), logical)?;
        for (number, ordinal) in assigned.iter().enumerate() {
            // Types that cannot be assigned are found before anything runs.
            let field = select.schema().field(row.len() + number).clone();
            let empty = arrow::array::new_empty_array(field.data_type());
            crate::assign::Assigned::new(&empty, &field, &schema.columns[*ordinal], engine.zone()).map(drop)?;
        }
        if let Some(SetExpiry::Output(place)) = expiry {
            let field = select.schema().field(place).clone();
            let empty = arrow::array::new_empty_array(field.data_type());
            crate::assign::Assigned::new(&empty, &field, &expires_at_column(), engine.zone()).map(drop)?;
        }
        let returning = requested.finish(outputs, &select);
        Ok(Self { select, row, assigned, expiry, returning, has_sources })
    }

    /// Plans the query of a DELETE from [`deleted_from`]. `row` as for an UPDATE.
    ///
    /// # Errors
    /// What names and types find.
    pub(super) fn deleted(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        with: Option<With>,
        delete: Delete,
        declared: &[u32],
        target: &Target,
        row: impl FnOnce(&[usize], &[usize]) -> Vec<usize>,
    ) -> Result<Self> {
        refuse(delete.limit.is_some() || !delete.order_by.is_empty(), "DELETE with ORDER BY or LIMIT")?;
        let has_sources = delete.using.is_some();
        let mut tables = vec![table_as(TARGET, &target.alias)];
        tables.extend(delete.using.unwrap_or_default());
        let requested = Requested::new(engine, delete.returning, &target.schema, &target.alias, has_sources)?;
        let row = row(&[], requested.columns());
        let mut items = target.items(&row);
        let first = items.len();
        items.extend_from_slice(requested.items());
        let query = select_of(with, items, tables, delete.selection)?;
        let planner = target.planner(engine, catalog);
        let logical = planner.logical(AstStatement::Query(Box::new(query)), declared)?;
        let outputs = requested.outputs(&logical, first)?;
        let select = SelectPlan::from_logical(engine.state(), logical)?;
        let returning = requested.finish(outputs, &select);
        Ok(Self { select, row, assigned: Vec::new(), expiry: None, returning, has_sources })
    }
}

/// The table that a DELETE is about.
///
/// # Errors
/// 0A000 where there are several.
pub(super) fn deleted_from(delete: &Delete) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    match &tables[..] {
        [table] => Ok(table),
        _ => Err(Error::unsupported("DELETE from several tables is not supported")),
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
        let (region, target) = Target::of_grid(catalog, &update.table)?;
        let all = |_: &[usize], _: &[usize]| target.all_columns();
        let found = Finding::updated(engine, catalog, with, update, declared, &target, all)?;
        let Finding { select, assigned, expiry, returning, has_sources, .. } = found;
        let (schema, locked) = (target.schema, Subqueries::default());
        Ok(Self { region, schema, select, assigned, expiry, returning, has_sources, locked })
    }
}

/// Whether an assignment is to the system column.
pub(super) fn names_expiry(target: &AssignmentTarget, schema: &TableSchema) -> bool {
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
        let (region, target) = Target::of_grid(catalog, deleted_from(&delete)?)?;
        let all = |_: &[usize], _: &[usize]| target.all_columns();
        let found = Finding::deleted(engine, catalog, with, delete, declared, &target, all)?;
        let Finding { select, returning, has_sources, .. } = found;
        let (schema, locked) = (target.schema, Subqueries::default());
        Ok(Self { region, schema, select, returning, has_sources, locked })
    }
}

//! INSERT, UPDATE and DELETE: planned here; run in `dml::run`, or by the session if shards change their rows.
//!
//! The rows to change are found by a query (the statement rewritten as a SELECT of the target's rows and the new
//! values). The changes themselves are rows put into the transaction's write set, so every statement is atomic.

use std::sync::Arc;

use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode, IndexDef, Result, ScalarType, SqlType, TableSchema};
use ashlar_store::Region;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, Ident, Query, SelectItem, SetExpr, Statement as AstStatement, TableAlias, TableWithJoins,
    With,
};

use self::assignments::split_assignments;
use crate::assign::Literal;
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::engine::Engine;
use crate::key_plan::{self, Operand};
use crate::locking::Subqueries;
use crate::select::SelectPlan;
use crate::select::names::folded;
use crate::select::nodes::{self, cast};

pub(crate) mod arbiters;
mod assignments;
mod change;
mod conflict;
mod insert;
mod literal;
mod parameters;
mod returning;
pub mod run;
mod shard_change;
mod spread;
mod with;

pub(crate) use insert::default_plans;
pub use shard_change::{Batch, ChangedRows, ShardChangePlan, Step};
pub use spread::{Piece, SpreadPlan, SpreadRows};
pub use with::split as split_with;

/// A cell of a VALUES list.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A constant or a parameter.
    Operand(Operand),
    /// The column's default.
    Default,
    /// Output number so much of the plan that computes the other cells.
    Computed(usize),
}

/// Where inserted rows come from.
pub enum Source {
    /// A VALUES list: a cell per target column and row.
    Values {
        /// Row by row.
        rows: Vec<Vec<Cell>>,
        /// One row with the cells that are expressions.
        computed: Option<Box<SelectPlan>>,
    },
    /// A query with an output per target column.
    Query(Box<SelectPlan>),
}

/// What is done about a row whose key exists.
pub enum Conflict {
    /// 23505
    Fail,
    /// DO NOTHING
    Nothing,
    /// DO UPDATE
    Update {
        /// Column and expression over the existing row followed by the excluded one.
        assignments: Vec<(usize, Arc<dyn PhysicalExpr>, SqlType)>,
        /// WHERE
        filter: Option<Arc<dyn PhysicalExpr>>,
        /// Parameters that these read, as columns behind those of the two rows: number from 0 and type.
        parameters: Vec<(usize, SqlType)>,
    },
}

/// What tells that a proposed row exists already: ON CONFLICT.
#[derive(Clone, Debug)]
pub enum Arbiters {
    /// The primary key, and every unique index that there is when the statement runs.
    Any,
    /// The primary key.
    Key,
    /// Unique indexes.
    Indexes(Vec<Arc<IndexDef>>),
}

/// RETURNING: what comes back of each row.
pub struct Returning {
    /// Where it comes from.
    pub outputs: Outputs,
    /// Result columns.
    pub columns: Arc<[Column]>,
}

/// Where the columns of RETURNING come from.
pub enum Outputs {
    /// The row as it is stored now, or was: its columns by their ordinals.
    Plain(Vec<usize>),
    /// The query that finds the rows computes them: its outputs.
    Found(Vec<usize>),
    /// A query over the rows computes them, and tells behind them which row each is of.
    Query(Box<SelectPlan>),
}

/// INSERT
pub struct InsertPlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Ordinals of the target columns.
    pub targets: Vec<usize>,
    /// The rows.
    pub source: Source,
    /// ON CONFLICT
    pub conflict: Conflict,
    /// What it is about.
    pub arbiters: Arbiters,
    /// RETURNING
    pub returning: Option<Returning>,
    /// Defaults that are expressions: ordinal and query of one value.
    pub defaults: Vec<(usize, SelectPlan)>,
    /// Types of the parameters.
    pub parameter_types: Vec<SqlType>,
    /// The time zone that it was planned in.
    pub zone: Zone,
}

/// UPDATE: the query gives all columns of each target row, then the new values.
pub struct UpdatePlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Finds rows and computes.
    pub select: SelectPlan,
    /// Ordinals of the columns that the outputs behind the row are for.
    pub assigned: Vec<usize>,
    /// The output that says when rows end, where the statement sets that.
    pub expiry: Option<usize>,
    /// RETURNING
    pub returning: Option<Returning>,
    /// Other tables stand beside the target, which may find a row several times.
    pub has_sources: bool,
    /// Subqueries that lock rows: their values are parameters behind the statement's own.
    pub locked: Subqueries,
}

/// DELETE: the query gives all columns of each target row.
pub struct DeletePlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Finds rows.
    pub select: SelectPlan,
    /// RETURNING
    pub returning: Option<Returning>,
    /// As in an [`UpdatePlan`].
    pub has_sources: bool,
    /// As in an [`UpdatePlan`].
    pub locked: Subqueries,
}

fn refuse(condition: bool, what: &str) -> Result<()> {
    if condition { Err(Error::unsupported(format!("{what} is not supported"))) } else { Ok(()) }
}

fn target_column(schema: &TableSchema, name: &str) -> Result<usize> {
    schema.column(name).ok_or_else(|| no_column(schema, name))
}

fn no_column(schema: &TableSchema, name: &str) -> Error {
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", schema.name);
    Error::new(ErrorCode::UndefinedColumn, message)
}

/// What the parts of a statement are planned with.
struct Builder<'a> {
    engine: &'a Engine,
    catalog: &'a Arc<CatalogState>,
    schema: &'a Arc<TableSchema>,
    /// The WITH before the statement.
    with: Option<With>,
    declared: &'a [u32],
    parameter_types: Vec<Option<SqlType>>,
}

/// The column that an assignment is for.
fn assigned_column(schema: &TableSchema, target: &AssignmentTarget, value: &Expr) -> Result<usize> {
    let AssignmentTarget::ColumnName(name) = target else {
        return Err(Error::unsupported("assigning several columns at once is not supported"));
    };
    // Of more than one part, the first would be a column of a composite type.
    let first = name.0.first().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
    match name.0.len() {
        1 => {
            let ordinal = target_column(schema, &first)?;
            if schema.columns[ordinal].is_always_generated() && !change::is_default(value) {
                return Err(Error::new(
                    ErrorCode::GeneratedAlways,
                    format!("column \"{first}\" can only be updated to DEFAULT"),
                )
                .with_detail(format!("Column \"{first}\" is an identity column defined as GENERATED ALWAYS.")));
            }
            Ok(ordinal)
        }
        _ => Err(no_column(schema, &first)),
    }
}

/// A quoted string or a parameter takes the type of the column that it is assigned to, whose length is checked later: a
/// cast would cut the text.
fn typed(expr: Expr, sql_type: SqlType) -> Expr {
    let open = matches!(key_plan::literal(&expr), Some(Literal::String(_) | Literal::Null))
        || key_plan::parameter(&expr).is_some();
    if open { cast(expr, unlimited(sql_type)) } else { expr }
}

/// The type without its length.
fn unlimited(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::Scalar(ScalarType::Varchar { .. }) => SqlType::Scalar(ScalarType::Varchar { length: None }),
        SqlType::Array(ScalarType::Varchar { .. }) => SqlType::Array(ScalarType::Varchar { length: None }),
        SqlType::Scalar(ScalarType::Char { .. }) => SqlType::Scalar(ScalarType::Text),
        other => other,
    }
}

/// A bare SELECT of items.
fn select_of(
    with: Option<With>,
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<Query> {
    let AstStatement::Query(mut query) = crate::select::parse("SELECT 1")? else {
        return Err(Error::internal("a SELECT is a query"));
    };
    query.with = with;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
        select.selection = selection;
    }
    Ok(*query)
}

/// `name AS alias`, of a table that a [`Planner`](crate::select::Planner) knows beside the catalog's.
fn table_as(name: &str, alias: &str) -> TableWithJoins {
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', alias), columns: Vec::new(), at: None };
    TableWithJoins { relation: nodes::table(Ident::with_quote('"', name), alias, None), joins: Vec::new() }
}

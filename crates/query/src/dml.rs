//! INSERT, UPDATE and DELETE: planned here; run in `dml::run`, or by the session if shards change their rows.
//!
//! The rows to change are found by a query (the statement rewritten as a SELECT of the target's rows and the new
//! values). The changes themselves are rows put into the transaction's write set, so every statement is atomic.

use std::sync::Arc;

use ashlar_base::value::text::Zone;
use ashlar_base::{ColumnDef, Error, ErrorCode, IndexDef, Result, ScalarType, SqlType, TableSchema};
use ashlar_store::Region;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, Ident, Query, SelectItem, SetExpr, Statement as AstStatement, TableAlias, TableWithJoins,
    With,
};

use self::assignments::split_assignments;
use crate::assign::{Literal, mismatch_of};
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
    /// The output with this number of the plan that computes the row's expressions.
    Computed(usize),
}

/// Where inserted rows come from.
pub enum Source {
    /// A VALUES list: a cell per target column and row.
    Values {
        /// The cells, by row.
        rows: Vec<Vec<Cell>>,
        /// A plan that returns one row: the values of all cells that are expressions.
        computed: Option<Box<SelectPlan>>,
    },
    /// A query with an output per target column.
    Query(Box<SelectPlan>),
}

/// What INSERT does with a row whose key exists already.
pub enum Conflict {
    /// It fails with 23505.
    Fail,
    /// DO NOTHING
    Nothing,
    /// DO UPDATE
    Update {
        /// By column: an expression over the existing row, followed by the excluded one, and its type.
        assignments: Vec<(usize, Arc<dyn PhysicalExpr>, SqlType)>,
        /// When the row ends from then on; `None`: as before.
        end: Option<End>,
        /// WHERE
        filter: Option<Arc<dyn PhysicalExpr>>,
        /// The parameters that the expressions read, by number from 0, with their types. Their values are columns behind those of the two
        /// rows.
        parameters: Vec<(usize, SqlType)>,
    },
}

/// What DO UPDATE says about when its row ends.
pub enum End {
    /// As the table says, counted from then on.
    OfTable,
    /// As the proposed row would have.
    OfExcluded,
    /// At a time, or never where it is NULL: an expression like those of the assignments, and its type.
    At(Arc<dyn PhysicalExpr>, SqlType),
}

/// The keys that ON CONFLICT checks for an existing row.
#[derive(Clone, Debug)]
pub enum Arbiters {
    /// The primary key, and every unique index that exists when the statement runs.
    Any,
    /// The primary key.
    Key,
    /// Unique indexes.
    Indexes(Vec<Arc<IndexDef>>),
}

/// A planned RETURNING clause.
pub struct Returning {
    /// How its values are computed.
    pub outputs: Outputs,
    /// Result columns.
    pub columns: Arc<[Column]>,
}

/// Where the columns of RETURNING come from.
pub enum Outputs {
    /// From the row as it is stored after the change, or was stored before a DELETE: the ordinals of its columns.
    Plain(Vec<usize>),
    /// By the query that finds the rows: the numbers of its outputs.
    Found(Vec<usize>),
    /// By a query over the changed rows. Its last output is the number of the row that the values belong to.
    Query(Box<SelectPlan>),
}

/// A planned INSERT.
pub struct InsertPlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Ordinals of the target columns.
    pub targets: Vec<usize>,
    /// The output of a query with the deadline of each row, if the statement sets one. A row of a VALUES list has it in a cell behind
    /// those of the targets.
    pub expiry: Option<usize>,
    /// The rows.
    pub source: Source,
    /// ON CONFLICT
    pub conflict: Conflict,
    /// The keys that ON CONFLICT checks.
    pub arbiters: Arbiters,
    /// RETURNING
    pub returning: Option<Returning>,
    /// Defaults that are expressions: the column's ordinal, and a query that returns one value.
    pub defaults: Vec<(usize, SelectPlan)>,
    /// Types of the parameters.
    pub parameter_types: Vec<SqlType>,
    /// The time zone in which it was planned.
    pub zone: Zone,
}

/// What UPDATE says about when its rows end.
#[derive(Clone, Copy, Debug)]
pub enum SetExpiry {
    /// DEFAULT: as the table says, counted from then on.
    OfTable,
    /// The output of its query with the deadline of each row.
    Output(usize),
}

/// A planned UPDATE. Its query returns all columns of each target row, followed by the new values.
pub struct UpdatePlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Finds rows and computes.
    pub select: SelectPlan,
    /// Ordinals of the columns to which the new values are assigned.
    pub assigned: Vec<usize>,
    /// When its rows end, if the statement says that.
    pub expiry: Option<SetExpiry>,
    /// RETURNING
    pub returning: Option<Returning>,
    /// Whether other tables are joined to the target, so that a row may be found several times.
    pub has_sources: bool,
    /// Subqueries that lock rows. Their values become parameters, numbered after the statement's own.
    pub locked: Subqueries,
}

/// A planned DELETE. Its query returns all columns of each target row.
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

/// The context in which the parts of a statement are planned.
struct Builder<'a> {
    engine: &'a Engine,
    catalog: &'a Arc<CatalogState>,
    schema: &'a Arc<TableSchema>,
    /// The WITH before the statement.
    with: Option<With>,
    declared: &'a [u32],
    parameter_types: Vec<Option<SqlType>>,
    /// Whether the table has the system column that says when rows end.
    has_expiry: bool,
}

/// The column that an assignment is for.
fn assigned_column(schema: &TableSchema, target: &AssignmentTarget, value: &Expr) -> Result<usize> {
    let AssignmentTarget::ColumnName(name) = target else {
        return Err(Error::internal("an assignment to several columns has been split"));
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
            refuse_row(&schema.columns[ordinal], value)?;
            Ok(ordinal)
        }
        _ => Err(no_column(schema, &first)),
    }
}

/// 42804 where a column is assigned a row, which is of no column's type.
fn refuse_row(column: &ColumnDef, value: &Expr) -> Result<()> {
    if is_row(value) { Err(mismatch_of(column, "record")) } else { Ok(()) }
}

/// Whether a value is a row, as `(1, 2)` is.
fn is_row(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_row(inner),
        Expr::Tuple(_) => true,
        _ => false,
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

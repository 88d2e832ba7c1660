//! Indexes on expressions and with predicates: computes their expressions for a row, and recognises the conditions that they answer.
//! The conditions of CHECK constraints are computed the same way.
//!
//! Created by `ddl::index` and `ddl::check`. The store calls `compute` for each row that is written, and knows nothing else of it;
//! `probes` asks which parts of a query's conditions an index answers. An expression is planned like a query over its table, so that the
//! same expression in a query has the same plan.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use ashlar_base::{
    ColumnId, Condition, Error, ErrorCode, IndexDef, IndexRows, Result, ScalarType, SqlType, TableSchema, Value,
};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::quoting::quote_ident;
use ashlar_functions::tree::{any_part, each_part, rewrite_parts};
use ashlar_functions::{guards, json, walk};
use ashlar_store::{ColumnReader, build_array};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Projection, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{Expr as AstExpr, Statement};

use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::index_text::Text;
use crate::select::names::folded;
use crate::select::{self, Planner, SelectPlan};

mod growth;
mod simple;

/// Parts of an expression at most: it is computed on threads with small stacks.
const PARTS_MAX: usize = 100;

/// Rows that a predicate lets in are there once more: as values, and as columns.
const LET_IN: usize = 2;

/// See the module.
pub(crate) struct IndexExpressions {
    inputs: Vec<ColumnId>,
    input_types: Vec<SqlType>,
    input_schema: SchemaRef,
    types: Vec<SqlType>,
    /// Those that were stated, and then one for each of `documents`.
    expressions: Vec<Expression>,
    /// The columns and the stated expressions of jsonb, or of arrays of it, that the index is on: their texts say nothing of their order.
    documents: Vec<ColumnId>,
    predicate: Option<Predicate>,
    /// See [`IndexRows::growth`].
    growth: Option<usize>,
    /// See [`IndexRows::condition`].
    condition: Option<Condition>,
}

/// Columns in it have the names of [`by_id`].
struct Expression {
    name: String,
    logical: Expr,
    physical: Arc<dyn PhysicalExpr>,
    text: Text,
}

struct Predicate {
    conjuncts: Vec<Expr>,
    physical: Arc<dyn PhysicalExpr>,
    text: Text,
}

impl fmt::Debug for IndexExpressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexExpressions").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

/// What an expression of an index came to.
pub(crate) enum Planned {
    /// It is one of the table's columns.
    Column(usize),
    /// It has to be computed.
    Expression(Expr, SqlType),
}

/// The name of a column that stays when the column gets another one.
fn by_id(id: ColumnId) -> String {
    format!("#{id}")
}

/// A column under that name.
pub(crate) fn column_by_id(id: ColumnId) -> Expr {
    Expr::Column(Column::new_unqualified(by_id(id)))
}

/// An expression with its columns named by their ids.
///
/// # Errors
/// 42703 for a column that the table does not have.
pub(crate) fn named_by_ids(expr: Expr, schema: &TableSchema) -> Result<Expr> {
    let mut missing = None;
    let renamed = rewrite_parts(expr, |part| {
        Ok(match part {
            Expr::Column(column) => match schema.column(&column.name) {
                Some(ordinal) => Transformed::yes(column_by_id(schema.columns[ordinal].id)),
                None => {
                    missing = Some(column.name.clone());
                    Transformed::no(Expr::Column(column))
                }
            },
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            // Whether a column is NOT NULL may change, and with it what is said of its cast; the expression is the same.
            Expr::Cast(Cast { expr, field }) if !field.is_nullable() => {
                let field = Arc::new(field.as_ref().clone().with_nullable(true));
                Transformed::yes(Expr::Cast(Cast { expr, field }))
            }
            other => Transformed::no(other),
        })
    });
    let renamed = renamed.map_err(from_datafusion)?.data;
    match missing {
        None => Ok(renamed),
        Some(name) => Err(Error::new(ErrorCode::UndefinedColumn, format!("column \"{name}\" does not exist"))),
    }
}

/// What the planner is told about, and how it calls that in errors.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Expression,
    Predicate,
    Check,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Expression => "index expression",
            Self::Predicate => "index predicate",
            Self::Check => "check constraint",
        }
    }
}

/// Plans an expression over a table: the optimised plan of a query of it.
fn plan(planner: &Planner<'_>, query: &str, part: Part) -> Result<SelectPlan> {
    let parsed = select::parse(query)?;
    if asks_session(&parsed) {
        return Err(mutable(part));
    }
    let plan = SelectPlan::new(planner, parsed, &[])?;
    let mut refused = None;
    let walked = ashlar_functions::tree::each_node_with_subqueries(plan.logical(), |node| {
        let found = match node {
            LogicalPlan::Aggregate(_) => Some((ErrorCode::GroupingError, "aggregate functions are")),
            LogicalPlan::Window(_) => Some((ErrorCode::WindowingError, "window functions are")),
            LogicalPlan::Unnest(_) => Some((ErrorCode::FeatureNotSupported, "set-returning functions are")),
            _ => None,
        };
        refused = refused.or(found);
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    if let Some((code, what)) = refused {
        return Err(Error::new(code, format!("{what} not allowed in {}s", part.name())));
    }
    if !plan.parameter_types.is_empty() {
        return Err(Error::new(ErrorCode::UndefinedParameter, "there is no parameter $1"));
    }
    if plan.reads_clock() {
        return Err(mutable(part));
    }
    Ok(plan)
}

/// Whether a statement calls a function whose answer hangs on who asks: the planner would put in what it is told here.
fn asks_session(statement: &Statement) -> bool {
    const OF_SESSION: [&str; 10] = [
        "current_user",
        "session_user",
        "user",
        "current_role",
        "current_catalog",
        "current_database",
        "current_schema",
        "current_schemas",
        "current_setting",
        "pg_backend_pid",
    ];
    let found = walk::expressions(statement, |expr| match expr {
        AstExpr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
            match name {
                Some(name) if OF_SESSION.contains(&name.as_str()) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// 42P17 as PostgreSQL has it for indexes; 0A000 for a constraint, of which it would not be known whether it still holds.
fn mutable(part: Part) -> Error {
    if matches!(part, Part::Check) {
        let message = "a CHECK constraint whose value depends on the time or on settings is not supported";
        return Error::unsupported(message);
    }
    let message = format!("functions in {} must be marked IMMUTABLE", part.name());
    Error::new(ErrorCode::InvalidObjectDefinition, message)
}

fn too_hard(part: Part) -> Error {
    Error::unsupported(format!("this {} is not supported", part.name()))
}

/// Plans an expression of an index, given as its text.
///
/// # Errors
/// What planning finds, 42P17 for one whose value may change, 0A000 for what an index cannot compute.
pub(crate) fn expression(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    schema: &TableSchema,
    text: &str,
) -> Result<Planned> {
    computed(&Planner::new(engine, catalog), schema, text, Part::Expression)
}

/// The condition of a CHECK constraint, given as its text, with columns named by their ids. The table need not be in the catalog. Columns
/// may be NULL to it that must not be now: that may change.
///
/// # Errors
/// As [`expression`], and 42804 for what is no condition.
pub(crate) fn condition(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    schema: &TableSchema,
    text: &str,
) -> Result<Expr> {
    let nullable = |column| ashlar_store::arrow_types::to_arrow_field(column).with_nullable(true);
    let fields: Vec<Field> = schema.visible_columns().iter().map(nullable).collect();
    let rows = MemTable::try_new(Arc::new(Schema::new(fields)), vec![Vec::new()]).map_err(from_datafusion)?;
    let planner = Planner::with_table(engine, catalog, &schema.name, Arc::new(rows));
    let (expr, sql_type) = match computed(&planner, schema, text, Part::Check)? {
        Planned::Column(ordinal) => {
            let column = &schema.columns[ordinal];
            (column_by_id(column.id), column.sql_type)
        }
        Planned::Expression(expr, sql_type) => (expr, sql_type),
    };
    if sql_type != SqlType::Scalar(ScalarType::Bool) {
        let message = format!("argument of CHECK must be type boolean, not type {sql_type}");
        return Err(Error::new(ErrorCode::DatatypeMismatch, message));
    }
    guards::value(expr).map(|guarded| guarded.data).map_err(from_datafusion)
}

/// What an expression over a table comes to.
fn computed(planner: &Planner<'_>, schema: &TableSchema, text: &str, part: Part) -> Result<Planned> {
    let query = format!("SELECT ({text}) AS value FROM {}", quote_ident(&schema.name));
    let plan = plan(planner, &query, part)?;
    let sql_type = plan.columns.first().map(|column| column.sql_type);
    let sql_type = sql_type.ok_or_else(|| Error::internal("a query of an expression has an output"))?;
    match plan.logical() {
        LogicalPlan::TableScan(scan) if scan.filters.is_empty() => {
            let name = scan.projected_schema.field(0).name();
            schema.column(name).map(Planned::Column).ok_or_else(|| too_hard(part))
        }
        LogicalPlan::Projection(projection) => {
            let mut expr = projection.expr.first().cloned().ok_or_else(|| too_hard(part))?;
            let mut input = projection.input.as_ref();
            // What stands in a condition more than once is computed beneath. Of an index nobody would find that again.
            while let (LogicalPlan::Projection(beneath), Part::Check) = (input, part) {
                expr = inlined(expr.unalias(), beneath)?;
                input = beneath.input.as_ref();
            }
            if !matches!(input, LogicalPlan::TableScan(_)) {
                return Err(too_hard(part));
            }
            if let Expr::Column(column) = expr.clone().unalias() {
                return schema.column(&column.name).map(Planned::Column).ok_or_else(|| too_hard(part));
            }
            check(&expr, input.schema(), part)?;
            Ok(Planned::Expression(named_by_ids(expr, schema)?, sql_type))
        }
        _ => Err(too_hard(part)),
    }
}

/// An expression over what a projection gives, as one over what that reads.
fn inlined(expr: Expr, projection: &Projection) -> Result<Expr> {
    let inlined = rewrite_parts(expr, |part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let place = projection.schema.index_of_column(column)?;
        Ok(Transformed::yes(projection.expr[place].clone().unalias()))
    });
    inlined.map(|inlined| inlined.data).map_err(from_datafusion)
}

/// The conditions that a predicate consists of, all of which hold where it does.
///
/// # Errors
/// As [`expression`].
pub(crate) fn conjuncts(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    schema: &TableSchema,
    text: &str,
) -> Result<Vec<Expr>> {
    let query = format!("SELECT 1 AS one FROM {} WHERE {text}", quote_ident(&schema.name));
    let plan = plan(&Planner::new(engine, catalog), &query, Part::Predicate)?;
    let mut found: Vec<Expr> = Vec::new();
    let mut input = plan.logical();
    loop {
        input = match input {
            LogicalPlan::Projection(projection) => projection.input.as_ref(),
            LogicalPlan::Filter(filter) => {
                found.extend(split_conjunction(&filter.predicate).into_iter().cloned());
                filter.input.as_ref()
            }
            LogicalPlan::TableScan(scan) => {
                found.extend(scan.filters.iter().flat_map(split_conjunction).cloned());
                break;
            }
            // It never holds.
            LogicalPlan::EmptyRelation(_) => {
                found = vec![Expr::Literal(datafusion::common::ScalarValue::Boolean(Some(false)), None)];
                break;
            }
            _ => return Err(too_hard(Part::Predicate)),
        };
    }
    let visible = ashlar_store::arrow_types::to_arrow_field;
    let fields: Vec<Field> = schema.visible_columns().iter().map(visible).collect();
    let table = DFSchema::try_from(Schema::new(fields)).map_err(from_datafusion)?;
    let mut named = Vec::with_capacity(found.len());
    for condition in found {
        check(&unqualified(condition.clone())?, &table, Part::Predicate)?;
        named.push(named_by_ids(condition, schema)?);
    }
    Ok(named)
}

fn unqualified(expr: Expr) -> Result<Expr> {
    let bare = rewrite_parts(expr, |part| {
        Ok(match part {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    });
    bare.map(|bare| bare.data).map_err(from_datafusion)
}

/// 42P17 for what is not the same whenever it is computed, 0A000 and 54001 for what is too much.
fn check(expr: &Expr, schema: &DFSchema, part: Part) -> Result<()> {
    let has_query = any_part(expr, |part| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    });
    if has_query.map_err(from_datafusion)? {
        return Err(Error::unsupported(format!("cannot use subquery in {}", part.name())));
    }
    let (mut parts, mut is_mutable) = (0, false);
    let walked = each_part(expr, |node| {
        parts += 1;
        is_mutable |= match node {
            Expr::ScalarFunction(call) => {
                let given = node.get_type(schema)?;
                let taken = call.args.iter().map(|argument| argument.get_type(schema));
                let taken = taken.collect::<datafusion::common::Result<Vec<DataType>>>()?;
                // What reads or gives a time with a zone may depend on that of the session, and dates written or read as
                // text on how they are written.
                let reads_zone = is_zoned(&given) || taken.iter().any(is_zoned);
                let (takes_time, takes_text) = (taken.iter().any(DataType::is_temporal), taken.iter().any(is_text));
                let writes = is_text(&given) && takes_time;
                let reads = given.is_temporal() && takes_text && !takes_time;
                call.func.signature().volatility != Volatility::Immutable || reads_zone || writes || reads
            }
            Expr::Cast(cast) => depends_on_settings(&cast.expr.get_type(schema)?, cast.field.data_type()),
            Expr::TryCast(cast) => depends_on_settings(&cast.expr.get_type(schema)?, cast.field.data_type()),
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    if is_mutable {
        return Err(mutable(part));
    }
    if parts > PARTS_MAX {
        return Err(Error::new(ErrorCode::StatementTooComplex, format!("the {} is too complex", part.name())));
    }
    Ok(())
}

fn is_zoned(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, Some(_)))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether a cast depends on the time zone or on how dates are written.
fn depends_on_settings(from: &DataType, to: &DataType) -> bool {
    is_zoned(from) != is_zoned(to) || is_text(from) && to.is_temporal() || from.is_temporal() && is_text(to)
}

impl IndexExpressions {
    /// `None` where there is nothing to compute. `documents` are the columns and the expressions of jsonb, or of arrays of it, that the
    /// index is on.
    ///
    /// # Errors
    /// What the engine finds wrong with the expressions.
    pub(crate) fn plan(
        engine: &Engine,
        schema: &TableSchema,
        mut expressions: Vec<(String, Expr, SqlType, Text)>,
        documents: Vec<ColumnId>,
        predicate: Option<(Vec<Expr>, Text)>,
    ) -> Result<Option<Arc<dyn IndexRows>>> {
        let key = |id: &ColumnId| {
            let document = match IndexDef::expression(*id) {
                None => {
                    let column = schema.columns.iter().find(|column| column.id == *id);
                    column.map(|column| (column_by_id(*id), column.sql_type))
                }
                Some(stated) => expressions.get(stated).map(|(_, expr, sql_type, _)| (expr.clone(), *sql_type)),
            };
            let document = document.map(|(expr, sql_type)| json::key_of_type(expr, sql_type));
            document.ok_or_else(|| Error::internal("a document is a column or an expression of its index"))
        };
        let keys = documents.iter().map(key).collect::<Result<Vec<Expr>>>()?;
        let bytes = SqlType::Scalar(ScalarType::Bytea);
        expressions.extend(keys.into_iter().map(|key| (String::new(), key, bytes, Text::default())));
        if expressions.is_empty() && predicate.is_none() {
            return Ok(None);
        }
        let mut inputs = Vec::new();
        let conditions = predicate.iter().flat_map(|(conjuncts, _)| conjuncts);
        for expr in expressions.iter().map(|(_, expr, ..)| expr).chain(conditions) {
            for column in expr.column_refs() {
                let known = schema.columns.iter().find(|known| by_id(known.id) == column.name);
                let known = known.ok_or_else(|| Error::internal("an index reads the table's columns"))?;
                if !inputs.contains(&known.id) {
                    inputs.push(known.id);
                }
            }
        }
        // Of a predicate that reads nothing, so that there is a column for each row.
        let columns = inputs.iter().filter_map(|id| schema.columns.iter().find(|column| column.id == *id));
        let input_types: Vec<SqlType> = columns.clone().map(|column| column.sql_type).collect();
        let field = |column: &ashlar_base::ColumnDef| {
            let field = ashlar_store::arrow_types::to_arrow_field(column);
            field.with_name(by_id(column.id)).with_nullable(true)
        };
        let input_schema = Arc::new(Schema::new(columns.map(field).collect::<Vec<Field>>()));
        let df_schema = DFSchema::try_from(input_schema.as_ref().clone()).map_err(from_datafusion)?;
        let physical =
            |expr: &Expr| engine.state().create_physical_expr(expr.clone(), &df_schema).map_err(from_datafusion);
        let growth = |expressions: &[&Expr]| growth::of(expressions, &df_schema).map_err(from_datafusion);
        let mut taken = growth(&expressions.iter().map(|(_, expr, ..)| expr).collect::<Vec<_>>())?;
        let columns = simple::Columns { ids: &inputs, types: &input_types };
        let condition = match (&expressions[..], &predicate) {
            ([(_, expr, SqlType::Scalar(ScalarType::Bool), _)], None) => simple::of(expr, &columns),
            _ => None,
        };
        let types = expressions.iter().map(|(_, _, sql_type, _)| *sql_type).collect();
        let expressions = expressions
            .into_iter()
            .map(|(name, logical, _, text)| Ok(Expression { name, physical: physical(&logical)?, logical, text }))
            .collect::<Result<_>>()?;
        let predicate = match predicate {
            None => None,
            Some((conjuncts, text)) => {
                let all = datafusion::logical_expr::utils::conjunction(conjuncts.iter().cloned());
                let always = Expr::Literal(datafusion::common::ScalarValue::Boolean(Some(true)), None);
                let all = guards::condition(all.unwrap_or(always)).map_err(from_datafusion)?;
                taken = taken.zip(growth(&[&all])?).map(|(taken, more)| taken + more + LET_IN);
                let physical = physical(&all)?;
                Some(Predicate { conjuncts, physical, text })
            }
        };
        // What reads nothing is not measured by it.
        let growth = taken.filter(|_| !inputs.is_empty());
        Ok(Some(Arc::new(Self {
            inputs,
            input_types,
            input_schema,
            types,
            expressions,
            documents,
            predicate,
            growth,
            condition,
        })))
    }

    /// What an index computes, as this module made it.
    pub(crate) fn of(index: &IndexDef) -> Option<&Self> {
        index.rows.as_ref()?.as_any().downcast_ref()
    }

    /// The same of a CHECK constraint.
    pub(crate) fn of_check(check: &ashlar_base::CheckDef) -> Option<&Self> {
        check.condition.as_any().downcast_ref()
    }

    /// The expressions, with columns named by their ids.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.expressions.iter().map(|expression| &expression.logical)
    }

    /// Those of them that were stated.
    pub(crate) fn stated(&self) -> impl Iterator<Item = &Expr> {
        self.expressions().take(self.expressions.len() - self.documents.len())
    }

    /// What must hold of every row that is asked for, with columns named by their ids.
    pub(crate) fn conditions(&self) -> &[Expr] {
        self.predicate.as_ref().map_or(&[], |predicate| &predicate.conjuncts)
    }

    /// An expression as PostgreSQL prints it.
    pub(crate) fn expression_text(&self, expression: usize, schema: &TableSchema, is_pretty: bool) -> String {
        self.expressions.get(expression).map_or_else(String::new, |found| found.text.show(schema, is_pretty))
    }

    /// The name of the index's column that an expression is.
    pub(crate) fn name(&self, expression: usize) -> &str {
        self.expressions.get(expression).map_or("expr", |found| found.name.as_str())
    }

    /// The predicate as PostgreSQL prints it.
    pub(crate) fn predicate_text(&self, schema: &TableSchema, is_pretty: bool) -> Option<String> {
        self.predicate.as_ref().map(|predicate| predicate.text.show(schema, is_pretty))
    }

    fn batch(&self, rows: &[Vec<Value>]) -> Result<RecordBatch> {
        let array = |(position, sql_type): (usize, &SqlType)| {
            build_array(*sql_type, rows.iter().map(|row| row[position].as_datum()))
        };
        let arrays = self.input_types.iter().enumerate().map(array).collect::<Result<Vec<ArrayRef>>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.input_schema), arrays, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    let value = expr.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()));
    value.map_err(from_datafusion)
}

impl IndexRows for IndexExpressions {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn compute(&self, rows: &[Vec<Value>]) -> Result<Vec<Option<Box<[Value]>>>> {
        let batch = self.batch(rows)?;
        let is_in: Vec<bool> = match &self.predicate {
            None => vec![true; rows.len()],
            Some(predicate) => {
                let held = evaluate(&predicate.physical, &batch)?;
                let held = held.as_boolean_opt().ok_or_else(|| Error::internal("a predicate is a boolean"))?;
                held.iter().map(|held| held == Some(true)).collect()
            }
        };
        // Expressions are computed of the rows alone that the predicate has let in.
        let wanted: Vec<Vec<Value>>;
        let batch = if is_in.iter().all(|is_in| *is_in) || self.expressions.is_empty() {
            batch
        } else {
            wanted = rows.iter().zip(&is_in).filter(|(_, is_in)| **is_in).map(|(row, _)| row.clone()).collect();
            self.batch(&wanted)?
        };
        let mut arrays = Vec::with_capacity(self.expressions.len());
        if batch.num_rows() > 0 {
            for expression in &self.expressions {
                arrays.push(evaluate(&expression.physical, &batch)?);
            }
        }
        let readers = arrays.iter().zip(&self.types).map(|(array, sql_type)| ColumnReader::new(array, *sql_type));
        let readers = readers.collect::<Result<Vec<_>>>()?;
        let mut next = 0;
        let values = is_in.iter().map(|is_in| {
            is_in.then(|| {
                let row = next;
                next += 1;
                readers.iter().map(|reader| reader.datum(row).to_value()).collect()
            })
        });
        Ok(values.collect())
    }

    fn growth(&self) -> Option<usize> {
        self.growth
    }

    fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    fn has_all_rows(&self) -> bool {
        self.predicate.is_none()
    }

    fn types(&self) -> &[SqlType] {
        &self.types
    }

    fn key_of(&self, column: ColumnId) -> Option<usize> {
        let document = self.documents.iter().position(|known| *known == column)?;
        Some(self.expressions.len() - self.documents.len() + document)
    }

    fn text(&self, expression: usize, schema: &TableSchema) -> String {
        self.expression_text(expression, schema, true)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

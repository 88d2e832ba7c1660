//! Aggregates right above a scan of shards: each shard is asked for its groups, with what it has of each, instead of for its rows.
//!
//! ```text
//!   AggregateExec: Final                     AggregateExec: Final
//!     AggregateExec: Partial          ──▶      ShardScanExec: SELECT g, count(*) FROM t WHERE n > 3 GROUP BY g
//!       FilterExec: n > 3
//!         ShardScanExec: SELECT g, n FROM t WHERE n > 3
//! ```
//!
//! An optimizer rule, which runs before the one that puts our own aggregation in place of the engine's. What a shard computes has to be what the
//! engine's first stage would have computed, to the last digit, in the columns that its second stage reads: where that is not certain, of
//! columns, functions or conditions, rows are fetched as before.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use ashlar_base::{ColumnDef, ScalarType, SqlType, TableSchema};
use ashlar_functions::quoting::quote_ident;
use ashlar_store::arrow_types::to_arrow_type;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use super::scan::ShardScanExec;

const BIGINT: SqlType = SqlType::Scalar(ScalarType::Int8);

/// The rule; see the module.
#[derive(Debug)]
pub(crate) struct ShardAggregates;

impl PhysicalOptimizerRule for ShardAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|node| {
            let scan = node.downcast_ref::<AggregateExec>().and_then(in_place_of);
            Ok(match scan {
                Some(scan) => Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        replaced.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "shard_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan that gives what the first stage of an aggregation would make of the rows of one.
fn in_place_of(aggregate: &AggregateExec) -> Option<ShardScanExec> {
    let is_plain = *aggregate.mode() == AggregateMode::Partial
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && aggregate.group_expr().is_single()
        && aggregate.filter_expr().iter().all(Option::is_none);
    if !is_plain {
        return None;
    }
    let (scan, conditions) = scan_beneath(aggregate.input())?;
    let of = Input { columns: aggregate.input().schema(), table: &scan.table().schema };
    let (mut asked, mut ordinals) = (Asked::default(), Vec::new());
    for (group, _) in aggregate.group_expr().expr() {
        let (ordinal, column) = of.column(group)?;
        if !is_group(column.sql_type) {
            return None;
        }
        ordinals.push(ordinal);
        asked.push(quote_ident(&column.name), column.sql_type);
    }
    let groups = asked.outputs.join(", ");
    let grouping = if groups.is_empty() { String::new() } else { format!(" GROUP BY {groups}") };
    for function in aggregate.aggr_expr() {
        asked.aggregate(function, &of, scan.orders_text())?;
    }
    let Asked { outputs, types } = asked;
    let schema = aggregate.schema();
    let read = types.iter().map(|sql_type| to_arrow_type(*sql_type));
    if !read.eq(schema.fields().iter().map(|field| field.data_type().clone())) {
        return None;
    }
    let selected = outputs.join(", ");
    scan.grouped((selected.as_str(), grouping), ordinals, types.into(), schema, conditions)
}

/// The scan whose rows a node has, and how many conditions choose them. Columns may be left out on the way, and keep their names.
fn scan_beneath(node: &Arc<dyn ExecutionPlan>) -> Option<(&ShardScanExec, usize)> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let is_as_named =
            |expr: &ProjectionExpr| expr.expr.downcast_ref::<Column>().is_some_and(|of| of.name() == expr.alias);
        return if projection.expr().iter().all(is_as_named) { scan_beneath(projection.input()) } else { None };
    }
    match node.downcast_ref::<FilterExec>() {
        Some(filter) if filter.fetch().is_none() => {
            let conditions = split_conjunction(filter.predicate()).len();
            filter.input().downcast_ref::<ShardScanExec>().map(|scan| (scan, conditions))
        }
        Some(_) => None,
        None => node.downcast_ref::<ShardScanExec>().map(|scan| (scan, 0)),
    }
}

/// Whether PostgreSQL tells values of a type apart as we do, and all that are equal look alike but for digits that are zero.
fn is_group(sql_type: SqlType) -> bool {
    let SqlType::Scalar(scalar) = sql_type else { return false };
    match scalar {
        ScalarType::Bool
        | ScalarType::Int2
        | ScalarType::Int4
        | ScalarType::Int8
        | ScalarType::Numeric { .. }
        | ScalarType::Text
        | ScalarType::Varchar { .. }
        | ScalarType::Bytea
        | ScalarType::Date
        | ScalarType::Time
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::Uuid => true,
        ScalarType::Float4
        | ScalarType::Float8
        | ScalarType::Char { .. }
        | ScalarType::Interval
        | ScalarType::Json
        | ScalarType::Jsonb => false,
    }
}

/// The rows that are aggregated.
struct Input<'a> {
    columns: Arc<Schema>,
    table: &'a TableSchema,
}

impl<'a> Input<'a> {
    /// The column of the table that an expression is.
    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, &'a ColumnDef)> {
        let column = expr.downcast_ref::<Column>()?;
        let name = self.columns.fields().get(column.index())?.name();
        self.table.columns.iter().enumerate().find(|(_, known)| known.name == *name)
    }

    /// The same of whole numbers, and where they are cast to `bigint`.
    fn integer(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<&'a ColumnDef> {
        let column = match expr.downcast_ref::<CastExpr>() {
            Some(cast) if *cast.cast_type() == DataType::Int64 => self.column(cast.expr())?.1,
            Some(_) => return None,
            None => self.column(expr)?.1,
        };
        let SqlType::Scalar(scalar) = column.sql_type else { return None };
        matches!(scalar, ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8).then_some(column)
    }
}

/// A number with as many digits as it is read with, or an error that shows it: a shard whose column is another one by now may have more of them,
/// which a cast would round away.
fn unrounded(number: &str, precision: u8, scale: u8) -> String {
    let numeric = format!("pg_catalog.numeric({precision}, {scale})");
    format!(
        "CASE WHEN pg_catalog.scale({number}) <= {scale} THEN {number}::{numeric} \
         ELSE ('more digits than those of the column: ' || {number})::{numeric} END"
    )
}

/// What a shard is asked for.
#[derive(Default)]
struct Asked {
    outputs: Vec<String>,
    types: Vec<SqlType>,
}

impl Asked {
    fn push(&mut self, output: String, sql_type: SqlType) {
        self.outputs.push(output);
        self.types.push(sql_type);
    }

    /// Adds what the engine's first stage knows of an aggregate. `is_by_bytes`: a shard is asked only if it compares texts as we do.
    fn aggregate(&mut self, function: &AggregateFunctionExpr, of: &Input<'_>, is_by_bytes: bool) -> Option<()> {
        if function.is_distinct() || function.ignore_nulls() || !function.order_bys().is_empty() {
            return None;
        }
        let states = function.state_fields().ok()?;
        let states: Vec<&DataType> = states.iter().map(|field| field.data_type()).collect();
        let args = function.expressions();
        let [arg] = &args[..] else { return None };
        match (function.fun().name(), &states[..]) {
            ("count", [DataType::Int64]) => {
                let counted = match arg.downcast_ref::<Literal>() {
                    Some(literal) if literal.value().is_null() => return None,
                    Some(_) => "*".to_owned(),
                    None => quote_ident(&of.column(arg)?.1.name),
                };
                self.push(format!("pg_catalog.count({counted})"), BIGINT);
            }
            ("sum", [DataType::Int64]) => {
                let column = of.integer(arg).filter(|column| column.sql_type != BIGINT)?;
                self.push(format!("pg_catalog.sum({})", quote_ident(&column.name)), BIGINT);
            }
            // With the number of its values: of none the sum is not looked at.
            ("sum", [DataType::Decimal128(precision, 0), DataType::Int64]) => {
                let column = of.integer(arg)?;
                let name = quote_ident(&column.name);
                // They take whole numbers only: a shard whose column is another one by now says so.
                let whole = if column.sql_type == BIGINT { "int8up" } else { "int4up" };
                let sum = format!("pg_catalog.sum(pg_catalog.{whole}({name}))");
                let sql_type = SqlType::Scalar(ScalarType::Numeric { precision: *precision, scale: 0 });
                self.push(format!("coalesce({sum}, 0)::pg_catalog.numeric({precision}, 0)"), sql_type);
                self.push(format!("pg_catalog.count({name})"), BIGINT);
            }
            ("sum", [DataType::Decimal128(precision, scale)]) => {
                let (_, column) = of.column(arg)?;
                let SqlType::Scalar(ScalarType::Numeric { scale: own, .. }) = column.sql_type else { return None };
                let scale = u8::try_from(*scale).ok().filter(|scale| *scale >= own)?;
                let sum = format!("pg_catalog.sum({})", quote_ident(&column.name));
                let sql_type = SqlType::Scalar(ScalarType::Numeric { precision: *precision, scale });
                self.push(unrounded(&sum, *precision, scale), sql_type);
            }
            (name @ ("min" | "max"), [_]) => {
                let (_, column) = of.column(arg)?;
                let SqlType::Scalar(scalar) = column.sql_type else { return None };
                let call = format!("pg_catalog.{name}({})", quote_ident(&column.name));
                match scalar {
                    ScalarType::Int2
                    | ScalarType::Int4
                    | ScalarType::Int8
                    | ScalarType::Date
                    | ScalarType::Time
                    | ScalarType::Timestamp
                    | ScalarType::Timestamptz => self.push(call, column.sql_type),
                    ScalarType::Numeric { precision, scale } => {
                        self.push(unrounded(&call, precision, scale), column.sql_type);
                    }
                    ScalarType::Text | ScalarType::Varchar { .. } if is_by_bytes => {
                        self.push(call, SqlType::Scalar(ScalarType::Text));
                    }
                    // PostgreSQL has none of them, or its order of what is equal is not ours.
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

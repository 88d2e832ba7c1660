//! Sorts of which the first rows are wanted, right above a scan of shards: each shard is asked for its own first rows, instead of for all.
//!
//! ```text
//!   SortExec: n, fetch=10                    SortExec: n, fetch=10
//!     FilterExec: g > 3               ──▶      FilterExec: g > 3
//!       ShardScanExec:                           ShardScanExec:
//!         SELECT g, n FROM t WHERE g > 3           SELECT g, n FROM t WHERE g > 3 ORDER BY n LIMIT 10
//! ```
//!
//! An optimizer rule, which runs beside the one of aggregates. The sort stays, and chooses among what the shards give: whatever is among the
//! first of all rows is among the first of its shard, if the shard sorts as we do and leaves out by itself what a condition leaves out. Where
//! either is not certain, of columns, types or conditions, all rows are fetched as before. Of rows that are equal any may be the first ones.

use std::sync::Arc;

use arrow::compute::SortOptions;
use ashlar_base::{ScalarType, SqlType};
use ashlar_functions::quoting::quote_ident;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalSortExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::scan::ShardScanExec;

/// The rule; see the module.
#[derive(Debug)]
pub(crate) struct ShardFirstRows;

impl PhysicalOptimizerRule for ShardFirstRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|node| {
            let Some(scan) = node.downcast_ref::<SortExec>().and_then(in_place_of) else {
                return Ok(Transformed::no(node));
            };
            // It is the only one beneath the sort.
            let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
            node.transform_up(|beneath| {
                let is_scan = beneath.is::<ShardScanExec>();
                Ok(if is_scan { Transformed::yes(Arc::clone(&scan)) } else { Transformed::no(beneath) })
            })
        });
        replaced.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "shard_first_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan that gives the first rows of each shard, of which a sort wants the first ones.
fn in_place_of(sort: &SortExec) -> Option<ShardScanExec> {
    // PostgreSQL counts in bigint.
    let fetch = i64::try_from(sort.fetch()?).ok()?;
    let key = |key: &PhysicalSortExpr| Some((key.expr.downcast_ref::<Column>()?.index(), key.options));
    let mut keys: Vec<(usize, SortOptions)> = sort.expr().iter().map(key).collect::<Option<_>>()?;
    let mut node = sort.input();
    // Whatever else is computed: no row comes or goes.
    while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        for (index, _) in &mut keys {
            *index = projection.expr().get(*index)?.expr.downcast_ref::<Column>()?.index();
        }
        node = projection.input();
    }
    let mut conditions = 0;
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        if filter.fetch().is_some() {
            return None;
        }
        if let Some(kept) = filter.projection() {
            for (index, _) in &mut keys {
                *index = *kept.get(*index)?;
            }
        }
        conditions = split_conjunction(filter.predicate()).len();
        node = filter.input();
    }
    let scan = node.downcast_ref::<ShardScanExec>()?;
    let key = |(index, options): &(usize, SortOptions)| {
        let column = scan.column(*index)?;
        let is_known = is_ordered_alike(column.sql_type, scan.orders_text());
        is_known.then(|| format!("{}{}", quote_ident(&column.name), direction(*options)))
    };
    let keys: Vec<String> = keys.iter().map(key).collect::<Option<_>>()?;
    scan.first_rows(keys.join(", "), fetch, conditions)
}

/// Whether PostgreSQL puts values of a type in our order. `is_by_bytes`: a shard is asked only if it compares texts as we do.
fn is_ordered_alike(sql_type: SqlType, is_by_bytes: bool) -> bool {
    let SqlType::Scalar(scalar) = sql_type else { return false };
    match scalar {
        ScalarType::Bool
        | ScalarType::Int2
        | ScalarType::Int4
        | ScalarType::Int8
        // There is one NaN, and it is above all. Zeros of both signs are equal to PostgreSQL: what a shard takes of them is right.
        | ScalarType::Float4
        | ScalarType::Float8
        | ScalarType::Numeric { .. }
        | ScalarType::Bytea
        | ScalarType::Date
        | ScalarType::Time
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::Uuid => true,
        ScalarType::Text | ScalarType::Varchar { .. } => is_by_bytes,
        ScalarType::Char { .. } | ScalarType::Interval | ScalarType::Json | ScalarType::Jsonb => false,
    }
}

/// What stands behind a key, where that is not what PostgreSQL takes for said anyway.
fn direction(options: SortOptions) -> &'static str {
    match (options.descending, options.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

#[cfg(test)]
mod tests;

//! Which of a plan's filters a scan accepts: the query's own conditions on one table, and filters that joins above
//! produce while they run.
//!
//! Called by the scans of tables in memory and of shards, which decide themselves what to do with them.

use std::sync::Arc;

use ashlar_functions::tree::any_part;
use ashlar_operators::is_of_join;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase};

/// What a table says to the filters of a query: it takes those that ask nothing but its own rows, and the same each time.
pub(crate) fn taken(filters: &[&Expr], how: &TableProviderFilterPushDown) -> Vec<TableProviderFilterPushDown> {
    let support = |filter: &&Expr| {
        if filter.is_volatile() || holds_query(filter) { TableProviderFilterPushDown::Unsupported } else { how.clone() }
    };
    filters.iter().map(support).collect()
}

/// Whether a condition asks another query, or reads the row of the query around: a scan knows its own columns only.
fn holds_query(filter: &Expr) -> bool {
    let found = any_part(filter, |expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ))
    });
    found.unwrap_or(true)
}

/// What joins tell a scan, with what of these filters it `takes`; `None`: nothing that it was not told before. Who tells does not rely
/// on it.
pub(crate) fn told_by_joins(
    told: &[Arc<dyn PhysicalExpr>],
    phase: FilterPushdownPhase,
    result: &ChildPushdownResult,
    takes: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    if phase != FilterPushdownPhase::Post {
        return None;
    }
    let filters = result.parent_filters.iter().map(|parent| &parent.filter);
    let more: Vec<_> = filters.filter(|&filter| is_of_join(filter) && takes(filter)).cloned().collect();
    (!more.is_empty()).then(|| told.iter().cloned().chain(more).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, col, exists, lit};

    use super::*;
    use crate::testing;

    #[test]
    fn a_scan_takes_what_asks_its_own_rows_the_same_each_time() {
        use TableProviderFilterPushDown::{Exact, Inexact, Unsupported};
        let engine = testing::engine_with(&[]);
        let random = engine.state().scalar_functions()["random"].call(Vec::new());
        let one_row = LogicalPlanBuilder::empty(true).build().unwrap();
        let filters = [
            col("id").gt(lit(1)),
            random.gt(lit(0.5)),
            exists(Arc::new(one_row)),
            col("id").is_null().or(col("id").eq(lit(2))),
        ];
        let filters: Vec<&Expr> = filters.iter().collect();
        assert_eq!(taken(&filters, &Exact), [Exact, Unsupported, Unsupported, Exact]);
        assert_eq!(taken(&filters, &Inexact), [Inexact, Unsupported, Unsupported, Inexact]);
    }
}

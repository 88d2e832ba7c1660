//! Aggregates whose PostgreSQL type differs from DataFusion's.

use datafusion::logical_expr::AggregateUDF;

/// All of them.
pub fn all() -> Vec<AggregateUDF> {
    Vec::new()
}

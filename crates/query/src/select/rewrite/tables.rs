//! Items of FROM: a join with an alias becomes a query.

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement, TableFactor, TableWithJoins};

/// What a table in FROM stands for.
///
/// # Errors
/// 0A000 for what would be answered as if it were not there.
pub(super) fn factor(factor: &mut TableFactor) -> Result<()> {
    match factor {
        // A join with a name is what a query of all its columns is.
        TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } => {
            let Ok(Statement::Query(mut query)) = crate::select::parse("SELECT * FROM t") else { return Ok(()) };
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.from = vec![TableWithJoins::clone(table_with_joins)];
            }
            *factor = TableFactor::Derived { lateral: false, subquery: query, alias: alias.take(), sample: None };
            Ok(())
        }
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
            Err(Error::unsupported("TABLESAMPLE is not supported"))
        }
        _ => Ok(()),
    }
}

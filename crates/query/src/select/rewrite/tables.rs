//! What stands in FROM: a join with a name is a query, windows are spelled out.

use ashlar_base::{Error, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, NamedWindowExpr, Select, SetExpr, Statement, TableFactor, TableWithJoins, VisitorMut, WindowSpec, WindowType,
};

use crate::select::names::folded;

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

/// A window that is based on a named one takes over what the name stands for: `OVER (w ROWS ...)`.
pub(super) fn windows(select: &mut Select) {
    let mut named: Vec<(String, WindowSpec)> = Vec::new();
    for definition in &select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &definition.1 {
            let mut spec = spec.clone();
            based_on(&mut spec, &named);
            named.push((folded(&definition.0), spec));
        }
    }
    if named.is_empty() {
        return;
    }
    struct Windows(Vec<(String, WindowSpec)>, usize);
    impl VisitorMut for Windows {
        type Break = ();
        fn pre_visit_query(&mut self, _: &mut datafusion::sql::sqlparser::ast::Query) -> std::ops::ControlFlow<()> {
            self.1 += 1;
            std::ops::ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut datafusion::sql::sqlparser::ast::Query) -> std::ops::ControlFlow<()> {
            self.1 -= 1;
            std::ops::ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
            // Windows are named in the query that they belong to.
            if self.1 == 0
                && let Expr::Function(function) = expr
                && let Some(WindowType::WindowSpec(spec)) = &mut function.over
            {
                based_on(spec, &self.0);
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut windows = Windows(named, 0);
    for item in &mut select.projection {
        let _ = walk::visit_mut(item, &mut windows);
    }
}

fn based_on(spec: &mut WindowSpec, named: &[(String, WindowSpec)]) {
    let Some(name) = &spec.window_name else { return };
    let Some((_, base)) = named.iter().find(|(known, _)| *known == folded(name)) else { return };
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    spec.window_name = None;
}

//! Column names of an alias: `FROM t AS x (a, b)`, `WITH q (a, b) AS (...)`. They name the first columns; the others
//! keep their own names. The engine wants names for all columns.
//!
//! Called by the planner for each query, before any pass asks which columns FROM has.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, VisitorMut,
};

use super::Planner;
use super::casts::is_over_rows;
use super::names::{folded, label_of};
use super::sources::Sources;

/// The rows of a subquery that a row is compared with, as many columns as that has: see `rewrite`.
pub(super) const ROWS_OF_SUBQUERY: &str = "rows\u{1}";

/// A part of INTERSECT ALL or EXCEPT ALL, of as many columns as the first.
pub(super) const PART_OF_SET: &str = "part\u{1}";

/// Gives all columns names where some have.
///
/// # Errors
/// 42P10 for more names than columns, 42601 for a row and a subquery of other columns, 0A000 for such a row with an aggregate.
pub(super) fn fill(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    walk::outcome(walk::visit_mut(query, &mut Fill { state: planner.state, sources: Sources::new(planner) }))
}

struct Fill<'a, 'b> {
    state: &'a SessionState,
    sources: Sources<'a, 'b>,
}

impl VisitorMut for Fill<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Err(error) = check_row(self.state, query) {
            return ControlFlow::Break(error);
        }
        for cte in query.with.iter_mut().flat_map(|with| with.cte_tables.iter_mut()) {
            if !cte.alias.columns.is_empty()
                && let Some(names) = outputs(&cte.query.body)
                && let Err(error) = named(&mut cte.alias, names, "WITH query")
            {
                return ControlFlow::Break(error);
            }
        }
        self.sources.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.sources.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let Some(names) = self.names(factor) else { return ControlFlow::Continue(()) };
        let alias = match factor {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => alias,
            _ => return ControlFlow::Continue(()),
        };
        walk::flow(named(alias, names, "table"))
    }
}

impl Fill<'_, '_> {
    /// The names of the columns of an item whose alias names some.
    fn names(&self, factor: &TableFactor) -> Option<Vec<Ident>> {
        let mut bare = match factor {
            TableFactor::Derived { subquery, alias: Some(alias), .. } if !alias.columns.is_empty() => {
                if let Some(names) = outputs(&subquery.body) {
                    return Some(names);
                }
                factor.clone()
            }
            TableFactor::Table { alias: Some(alias), args: None, .. } if !alias.columns.is_empty() => factor.clone(),
            _ => return None,
        };
        if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } =
            &mut bare
        {
            alias.columns = Vec::new();
        }
        let columns = self.sources.of_factor(&bare, &[])?;
        Some(columns.into_iter().map(|column| Ident::with_quote('"', column.name)).collect())
    }
}

/// The names of a query's outputs, where no star hides them.
pub(super) fn outputs(body: &SetExpr) -> Option<Vec<Ident>> {
    let name = |name: String| Ident::with_quote('"', name);
    match body {
        SetExpr::Select(select) => {
            let label = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) => Some(name(label_of(expr))),
                SelectItem::ExprWithAlias { alias, .. } => Some(name(folded(alias))),
                _ => None,
            };
            select.projection.iter().map(label).collect()
        }
        SetExpr::Values(values) => {
            let width = values.rows.first()?.content.len();
            Some((1..=width).map(|number| name(format!("column{number}"))).collect())
        }
        SetExpr::Query(query) => outputs(&query.body),
        SetExpr::SetOperation { left, .. } => outputs(left),
        _ => None,
    }
}

/// The names of columns behind an alias that has others for the first of them.
pub(super) fn renamed(mut names: Vec<String>, alias: Option<&TableAlias>) -> Vec<String> {
    let known = alias.into_iter().flat_map(|alias| &alias.columns);
    for (name, column) in names.iter_mut().zip(known) {
        *name = folded(&column.name);
    }
    names
}

fn named(alias: &mut TableAlias, names: Vec<Ident>, what: &str) -> Result<()> {
    let (available, specified) = (names.len(), alias.columns.len());
    if available != specified {
        match alias.name.value.as_str() {
            ROWS_OF_SUBQUERY => return Err(wrong_width(available > specified)),
            PART_OF_SET => {
                let message = "each INTERSECT or EXCEPT query must have the same number of columns";
                return Err(Error::new(ErrorCode::SyntaxError, message));
            }
            _ => {}
        }
    }
    if available < specified {
        let message = format!(
            "{what} \"{}\" has {available} columns available but {specified} columns specified",
            folded(&alias.name)
        );
        return Err(Error::new(ErrorCode::InvalidColumnReference, message));
    }
    let rest = names.into_iter().skip(specified).map(|name| TableAliasColumnDef { name, data_type: None });
    alias.columns.extend(rest);
    Ok(())
}

/// 42601 for a subquery of more columns than the row that it is compared with, or of fewer.
pub(super) fn wrong_width(is_wide: bool) -> Error {
    let message = if is_wide { "subquery has too many columns" } else { "subquery has too few columns" };
    Error::new(ErrorCode::SyntaxError, message)
}

/// 0A000 for a row that is looked for among those of a subquery and holds an aggregate or a window function: it stands in the query in which it
/// is compared now, and would be of that one.
fn check_row(state: &SessionState, query: &Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let [TableWithJoins { relation: TableFactor::Derived { alias: Some(alias), .. }, .. }] = &select.from[..] else {
        return Ok(());
    };
    if alias.name.value != ROWS_OF_SUBQUERY {
        return Ok(());
    }
    let found = walk::own_expressions(&select.selection, |expr| match expr {
        Expr::Function(function) if is_over_rows(state, function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if found.is_continue() {
        return Ok(());
    }
    let message = "looking for a row with an aggregate or a window function in a subquery is not supported";
    Err(Error::unsupported(message).with_hint("Compute the row in a query in FROM, and look for it around that."))
}

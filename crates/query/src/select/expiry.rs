//! `_expires_at`, the system column of every table in memory: when a row ends, NULL where it does not. A star does not
//! show it, as it does not show PostgreSQL's `xmin`.
//!
//! Tables have the column in statements that name it, and there every star over a table leaves it out. Called by the
//! planner before anything else.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use super::names::folded;
use crate::catalog::{CatalogState, Table};
use crate::key_plan::single;

/// Its name. A table whose user has a column of this name has that one.
pub(crate) const NAME: &str = "_expires_at";

/// Whether a name is the system column's.
pub(crate) fn is_it(name: &Ident) -> bool {
    folded(name) == NAME
}

/// Whether a statement names the column.
pub(super) fn is_named(statement: &Statement) -> bool {
    struct Names;
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let name = match expr {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(names) => names.last(),
                _ => None,
            };
            if name.is_some_and(is_it) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    walk::visit(statement, &mut Names).is_break()
}

/// Leaves the column out of every star. `own`: the name of a table with the column that the catalog does not know.
///
/// # Errors
/// 0A000 where nobody could tell which of several tables' columns a star is to leave out.
pub(super) fn hide(catalog: &CatalogState, own: Option<&str>, query: &mut Query) -> Result<()> {
    struct Hide<'a> {
        catalog: &'a CatalogState,
        own: Option<&'a str>,
        with: Vec<String>,
    }
    impl VisitorMut for Hide<'_> {
        type Break = Error;
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            let names = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name));
            self.with.extend(names);
            walk::flow(self.each_select(query.body.as_mut()))
        }
    }
    impl Hide<'_> {
        fn each_select(&self, body: &mut SetExpr) -> Result<()> {
            match body {
                SetExpr::Select(select) => self.hide(select),
                SetExpr::SetOperation { left, right, .. } => {
                    self.each_select(left)?;
                    self.each_select(right)
                }
                _ => Ok(()),
            }
        }

        /// Whether a table of FROM has the column.
        fn has_it(&self, table: &TableFactor) -> bool {
            let TableFactor::Table { name, args: None, .. } = table else { return false };
            let Some(name) = single(name).filter(|name| !self.with.contains(name)) else { return false };
            if self.own == Some(name.as_str()) {
                return true;
            }
            let Some(Table::Grid(region)) = self.catalog.table(&name) else { return false };
            region.schema().column(NAME).is_none()
        }

        fn hide(&self, select: &mut Select) -> Result<()> {
            let tables = select
                .from
                .iter()
                .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
            let tables: Vec<&TableFactor> = tables.collect();
            let count = tables.iter().filter(|table| self.has_it(table)).count();
            if count == 0 {
                return Ok(());
            }
            let is_natural = select.from.iter().flat_map(|from| &from.joins).any(|join| {
                matches!(
                    &join.join_operator,
                    JoinOperator::Join(JoinConstraint::Natural)
                        | JoinOperator::Inner(JoinConstraint::Natural)
                        | JoinOperator::Left(JoinConstraint::Natural)
                        | JoinOperator::LeftOuter(JoinConstraint::Natural)
                        | JoinOperator::Right(JoinConstraint::Natural)
                        | JoinOperator::RightOuter(JoinConstraint::Natural)
                        | JoinOperator::FullOuter(JoinConstraint::Natural)
                )
            });
            if is_natural {
                return Err(unsupported("NATURAL JOIN"));
            }
            let is_alone = tables.len() == 1;
            let with_it = tables.iter().filter(|table| self.has_it(table));
            let qualified: Vec<String> = with_it.filter_map(|table| name_of(table)).collect();
            for item in &mut select.projection {
                match item {
                    SelectItem::Wildcard(options) if is_alone => except(options),
                    SelectItem::Wildcard(_) => return Err(unsupported("* over several tables")),
                    SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                        if single(name).is_some_and(|name| qualified.contains(&name)) =>
                    {
                        except(options);
                    }
                    _ => {}
                }
            }
            Ok(())
        }
    }
    walk::outcome(walk::visit_mut(query, &mut Hide { catalog, own, with: Vec::new() }))
}

/// The name by which a table's columns are meant.
fn name_of(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(alias), .. } => Some(folded(&alias.name)),
        TableFactor::Table { name, .. } => single(name),
        _ => None,
    }
}

fn except(options: &mut WildcardAdditionalOptions) {
    let first_element = Ident::with_quote('"', NAME);
    options.opt_except = Some(ExceptSelectItem { first_element, additional_elements: Vec::new() });
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("{what} in a statement that names {NAME} is not supported"))
        .with_hint("Name the columns.")
}

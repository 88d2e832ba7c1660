//! `_expires_at`, the system column of every table in memory: when a row expires, NULL if it does not. A star does not
//! include it, as PostgreSQL's does not include `xmin`.
//!
//! Tables have the column in statements that name it, and there every star over a table leaves it out. Called by the
//! planner before anything else.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::walk::{self, Root, flow};
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

use super::levels::{self, Levels, Named, Pass, called, factors};
use super::names::folded;
use crate::catalog::{CatalogState, Table};
use crate::key_plan::single;

/// Its name. A table whose user has a column of this name has that one.
pub(crate) const NAME: &str = "_expires_at";

/// Whether a name is the system column's.
pub(crate) fn is_it(name: &Ident) -> bool {
    folded(name) == NAME
}

/// Stops at an expression that is the column's name.
fn stop_at_it(expr: &Expr) -> ControlFlow<()> {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    if name.is_some_and(is_it) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Whether a statement, or a part of it, names the column.
pub(crate) fn is_named(node: &impl Root) -> bool {
    walk::expressions(node, stop_at_it).is_break()
}

/// Whether a node names the column outside of the queries in it.
pub(crate) fn is_named_outside(node: &impl Root) -> bool {
    walk::own_expressions(node, stop_at_it).is_break()
}

/// Leaves the column out of every star. `own`: the name of a table with the column that the catalog does not know.
///
/// # Errors
/// 0A000 where nobody could tell which of several tables' columns a star is to leave out.
pub(super) fn hide(catalog: &CatalogState, own: Option<&str>, query: &mut Query) -> Result<()> {
    walk::outcome(levels::visit(query, &mut Hide { catalog, own, levels: Levels::default() }))
}

struct Hide<'a> {
    catalog: &'a CatalogState,
    own: Option<&'a str>,
    levels: Levels<Held>,
}

/// A table of FROM.
struct Held {
    /// What it is called; empty where it has no name.
    name: String,
    /// Whether it has the column.
    has_it: bool,
}

impl Named for Held {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Hide<'_> {
    fn has_it(&self, table: &TableFactor) -> bool {
        let TableFactor::Table { name, args: None, .. } = table else { return false };
        let Some(name) = single(name).filter(|name| !self.levels.is_with(name)) else { return false };
        if self.own == Some(name.as_str()) {
            return true;
        }
        let Some(Table::Grid(region)) = self.catalog.table(&name) else { return false };
        region.schema().column(NAME).is_none()
    }
}

impl Pass for Hide<'_> {
    type Break = Error;
    type Table = Held;

    fn levels(&mut self) -> &mut Levels<Held> {
        &mut self.levels
    }

    fn tables_of(&self, select: &Select) -> Vec<Held> {
        let held = |factor: &TableFactor| {
            let name = called(factor).map(|(name, _)| name).unwrap_or_default();
            Held { name, has_it: self.has_it(factor) }
        };
        factors(&select.from).into_iter().map(held).collect()
    }

    fn select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        flow(leave_out(self.levels.own(), select))
    }

    fn expression(&mut self, _: &mut Expr) -> ControlFlow<Error> {
        ControlFlow::Continue(())
    }
}

fn leave_out(tables: &[Held], select: &mut Select) -> Result<()> {
    if !tables.iter().any(|table| table.has_it) {
        return Ok(());
    }
    if select.from.iter().any(is_natural) {
        return Err(unsupported("NATURAL JOIN"));
    }
    let has_it = |name: String| tables.iter().any(|table| table.has_it && table.name == name);
    for item in &mut select.projection {
        match item {
            SelectItem::Wildcard(options) if tables.len() == 1 => except(options),
            SelectItem::Wildcard(_) => return Err(unsupported("* over several tables")),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if single(name).is_some_and(has_it) =>
            {
                except(options);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether columns of a name are merged, of which this is one.
fn is_natural(table: &TableWithJoins) -> bool {
    let is_inside = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => is_natural(table_with_joins),
        _ => false,
    };
    let is_said = |join: &JoinOperator| {
        matches!(
            join,
            JoinOperator::Join(JoinConstraint::Natural)
                | JoinOperator::Inner(JoinConstraint::Natural)
                | JoinOperator::Left(JoinConstraint::Natural)
                | JoinOperator::LeftOuter(JoinConstraint::Natural)
                | JoinOperator::Right(JoinConstraint::Natural)
                | JoinOperator::RightOuter(JoinConstraint::Natural)
                | JoinOperator::FullOuter(JoinConstraint::Natural)
        )
    };
    is_inside(&table.relation)
        || table.joins.iter().any(|join| is_said(&join.join_operator) || is_inside(&join.relation))
}

fn except(options: &mut WildcardAdditionalOptions) {
    let first_element = Ident::with_quote('"', NAME);
    options.opt_except = Some(ExceptSelectItem { first_element, additional_elements: Vec::new() });
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("{what} in a statement that names {NAME} is not supported"))
        .with_hint("Name the columns.")
}

//! GROUP BY the primary key: the other columns of the table depend on it and may be selected as they are. They are
//! added to GROUP BY, which changes no group. Also HAVING without GROUP BY: all rows are one group, which the engine
//! does not form unless there is an aggregate.
//!
//! Called by the planner for each query, after the outputs that GROUP BY names have been found.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, Ident, OrderBy, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, Value as AstValue, Visitor, VisitorMut,
};

use super::Planner;
use super::aliases::renamed;
use super::levels::{factors, with_names};
use super::names::folded;
use super::sources::selects;
use crate::catalog::CatalogState;
use crate::key_plan::single;

/// Adds dependent columns to each GROUP BY of a query, and an aggregate to each HAVING that has no other.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query) {
    struct Groups<'a, 'b> {
        planner: &'a Planner<'b>,
        hidden: Vec<Vec<String>>,
    }
    impl VisitorMut for Groups<'_, '_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.hidden.push(with_names(query));
            let Query { body, order_by, .. } = query;
            for select in selects(body) {
                if is_grouped(select) {
                    let mut used = Used::default();
                    let _ = walk::visit(&*order_by, &mut used);
                    group(self.planner.catalog, &self.hidden, select, used);
                } else if select.having.is_some() {
                    count_all(self.planner, select, order_by);
                }
            }
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.hidden.pop();
            ControlFlow::Continue(())
        }
    }
    let _ = walk::visit_mut(query, &mut Groups { planner, hidden: Vec::new() });
}

fn is_grouped(select: &Select) -> bool {
    !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty())
}

/// `HAVING c` as `HAVING c AND count(*) >= 0`, where nothing makes one group of all rows but HAVING.
fn count_all(planner: &Planner<'_>, select: &mut Select, order_by: &Option<OrderBy>) {
    let in_list = select.projection.iter().any(|item| has_aggregate(planner, item));
    if in_list || has_aggregate(planner, &select.having) || has_aggregate(planner, order_by) {
        return;
    }
    let Ok(Statement::Query(template)) = super::parse("SELECT 1 HAVING count(*) >= 0") else { return };
    let SetExpr::Select(template) = *template.body else { return };
    let Some(counted) = template.having else { return };
    select.having = select.having.take().map(|condition| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(condition))),
        op: BinaryOperator::And,
        right: Box::new(counted),
    });
}

/// Whether there is an aggregate in a node that is not one of a query inside.
pub(super) fn has_aggregate(planner: &Planner<'_>, node: &impl walk::Root) -> bool {
    let is_known = |name: String| planner.get_aggregate_meta(&name).is_some();
    let found = walk::own_expressions(node, |expr| match expr {
        Expr::Function(function) if function.over.is_none() && single(&function.name).is_some_and(is_known) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Names of columns, with the table's where it is said.
#[derive(Default)]
struct Used(Vec<(Option<String>, String)>);

impl Visitor for Used {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.extend(named(expr));
        ControlFlow::Continue(())
    }
}

fn named(expr: &Expr) -> Option<(Option<String>, String)> {
    match expr {
        Expr::Nested(inner) => named(inner),
        Expr::Identifier(name) => Some((None, folded(name))),
        Expr::CompoundIdentifier(names) => match &names[..] {
            [table, name] => Some((Some(folded(table)), folded(name))),
            _ => None,
        },
        _ => None,
    }
}

/// The item of the select list that `GROUP BY 1` is about.
pub(super) fn item_of<'a>(expr: &Expr, items: &'a [SelectItem]) -> Option<&'a Expr> {
    let Expr::Value(value) = expr else { return None };
    let AstValue::Number(digits, _) = &value.value else { return None };
    let number: usize = digits.to_string().parse().ok()?;
    match items.get(number.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn group(catalog: &CatalogState, hidden: &[Vec<String>], select: &mut Select, mut used: Used) {
    let GroupByExpr::Expressions(exprs, modifiers) = &mut select.group_by else { return };
    let grouped: Vec<(Option<String>, String)> =
        exprs.iter().filter_map(|expr| named(item_of(expr, &select.projection).unwrap_or(expr))).collect();
    if grouped.is_empty() || !modifiers.is_empty() {
        return;
    }
    if exprs.iter().any(|expr| matches!(expr, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))) {
        return;
    }
    let tables: Vec<Keyed> =
        factors(&select.from).into_iter().filter_map(|factor| keyed(catalog, hidden, factor)).collect();
    // A bare name belongs to the one table that has such a column.
    let owner = |name: &(Option<String>, String)| match name {
        (Some(alias), column) => {
            tables.iter().position(|table| table.alias == *alias && table.columns.contains(column))
        }
        (None, column) => {
            let mut owners = tables.iter().enumerate().filter(|(_, table)| table.columns.contains(column));
            match (owners.next(), owners.next()) {
                (Some((owner, _)), None) => Some(owner),
                _ => None,
            }
        }
    };
    let _ = walk::visit(&select.having, &mut used);
    for item in &select.projection {
        let _ = walk::visit(item, &mut used);
    }
    if let Some(Distinct::On(on)) = &select.distinct {
        for expr in on {
            let _ = walk::visit(expr, &mut used);
        }
    }
    for (number, Keyed { alias, columns, key }) in tables.iter().enumerate() {
        let is_grouped = |column: &str| grouped.iter().any(|name| name.1 == column && owner(name) == Some(number));
        if key.is_empty() || !key.iter().all(|&ordinal| is_grouped(&columns[ordinal])) {
            continue;
        }
        let has_star = select.projection.iter().any(|item| match item {
            SelectItem::Wildcard(_) => true,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                single(name).as_deref() == Some(alias)
            }
            _ => false,
        });
        for column in columns {
            let is_used = has_star || used.0.iter().any(|name| name.1 == *column && owner(name) == Some(number));
            if is_used && !is_grouped(column) {
                exprs.push(Expr::CompoundIdentifier(vec![
                    Ident::with_quote('"', alias.clone()),
                    Ident::with_quote('"', column.clone()),
                ]));
            }
        }
    }
}

/// A table of FROM.
struct Keyed {
    alias: String,
    /// Names of its columns, behind an alias that has others.
    columns: Vec<String>,
    /// Places of those that are its primary key; empty where it has none.
    key: Vec<usize>,
}

/// The table that an item of FROM is, where its columns are known here.
fn keyed(catalog: &CatalogState, hidden: &[Vec<String>], factor: &TableFactor) -> Option<Keyed> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
    let name = single(name)?;
    if hidden.iter().any(|names| names.contains(&name)) {
        return None;
    }
    let schema = catalog.table(&name)?.schema()?;
    let columns = schema.visible_columns().iter().map(|column| column.name.clone()).collect();
    let key = if schema.hidden_key { Vec::new() } else { schema.key.clone() };
    let columns = renamed(columns, alias.as_ref());
    let alias = alias.as_ref().map_or(name, |alias| folded(&alias.name));
    Some(Keyed { alias, columns, key })
}

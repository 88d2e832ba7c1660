//! `USING` and `NATURAL`: which columns are merged, where they stand, and what a merged column is worth.
//!
//! PostgreSQL puts merged columns first; of an outer join it takes the side that is always there, of a full join
//! whichever is. The joins are spelled out here, with every column named, before DataFusion plans them.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins, Value, VisitorMut,
};

use super::Planner;
use super::names::{call, folded, label_of};
use super::sources::{Source, Sources};

/// Spells out the joins of a query and of the queries inside it.
pub(super) fn expand(planner: &Planner<'_>, query: &mut Query) {
    let _ = walk::visit_mut(query, &mut Expand { sources: Sources::new(planner) });
}

struct Expand<'a, 'b> {
    sources: Sources<'a, 'b>,
}

impl VisitorMut for Expand<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.sources.enter(query);
        let mut order_by: Vec<&mut Expr> = Vec::new();
        if let Some(ordering) = &mut query.order_by
            && let OrderByKind::Expressions(items) = &mut ordering.kind
        {
            order_by.extend(items.iter_mut().map(|item| &mut item.expr));
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.select(select, order_by);
        } else {
            self.operands(&mut query.body);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.sources.leave();
        ControlFlow::Continue(())
    }
}

/// A column of what is joined so far.
#[derive(Clone)]
struct Joined {
    name: String,
    expr: Expr,
    is_merged: bool,
}

impl Expand<'_, '_> {
    fn operands(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select, Vec::new()),
            SetExpr::SetOperation { left, right, .. } => {
                self.operands(left);
                self.operands(right);
            }
            _ => {}
        }
    }

    fn select(&self, select: &mut Select, order_by: Vec<&mut Expr>) {
        if !select.from.iter().any(merges) {
            return;
        }
        let from = select.from.clone();
        let mut columns: Vec<Joined> = Vec::new();
        let mut before: Vec<TableWithJoins> = Vec::new();
        for mut table in from {
            match self.joined(&mut table, &before) {
                Some(found) => columns.extend(found),
                // What is wrong is found when the query is planned as it was.
                None => return,
            }
            before.push(table);
        }
        select.from = before;
        let merged = merged_of(&columns);
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in select.projection.drain(..) {
            match item {
                SelectItem::Wildcard(_) => projection.extend(columns.iter().map(|column| match &column.expr {
                    Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(column.expr.clone()),
                    expr => SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: Ident::with_quote('"', column.name.clone()),
                    },
                })),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    let found = merged.iter().find(|column| column.name == folded(&name));
                    projection.push(match found {
                        Some(column) => SelectItem::ExprWithAlias { expr: column.expr.clone(), alias: name },
                        None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
                    });
                }
                other => projection.push(other),
            }
        }
        select.projection = projection;
        let mut names = Names::new(merged, &self.sources);
        for item in &mut select.projection {
            let _ = walk::visit_mut(item, &mut names);
        }
        let _ = walk::visit_mut(&mut select.selection, &mut names);
        let _ = walk::visit_mut(&mut select.group_by, &mut names);
        let _ = walk::visit_mut(&mut select.having, &mut names);
        // A bare name in ORDER BY is that of an output first.
        let is_output = |name: &Ident, items: &[SelectItem]| {
            items.iter().any(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => folded(alias) == folded(name),
                SelectItem::UnnamedExpr(expr) => label_of(expr) == folded(name),
                _ => false,
            })
        };
        let has_star = select
            .projection
            .iter()
            .any(|item| !matches!(item, SelectItem::ExprWithAlias { .. } | SelectItem::UnnamedExpr(_)));
        for expr in order_by {
            if !has_star && matches!(&*expr, Expr::Identifier(name) if is_output(name, &select.projection)) {
                continue;
            }
            let _ = walk::visit_mut(expr, &mut names);
        }
    }

    /// Spells out the joins of one item of FROM, and tells its columns; `before` are the items that it may read.
    fn joined(&self, table: &mut TableWithJoins, before: &[TableWithJoins]) -> Option<Vec<Joined>> {
        let mut columns = self.factor(&mut table.relation, before)?;
        for number in 0..table.joins.len() {
            let (done, rest) = table.joins.split_at_mut(number);
            let join = rest.first_mut()?;
            let right = if is_lateral(&join.relation) {
                let mut read = before.to_vec();
                read.push(TableWithJoins { relation: table.relation.clone(), joins: done.to_vec() });
                self.factor(&mut join.relation, &read)?
            } else {
                self.factor(&mut join.relation, before)?
            };
            let (constraint, side) = match &mut join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, Side::Left),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, Side::Left),
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, Side::Right),
                JoinOperator::FullOuter(constraint) => (constraint, Side::Both),
                JoinOperator::CrossJoin(constraint) => (constraint, Side::Left),
                _ => return None,
            };
            let names: Vec<String> = match constraint {
                JoinConstraint::Using(names) => {
                    let name = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(folded);
                    names.iter().map(name).collect::<Option<Vec<String>>>()?
                }
                JoinConstraint::Natural => columns
                    .iter()
                    .filter(|left| right.iter().any(|right| right.name == left.name))
                    .map(|left| left.name.clone())
                    .collect(),
                JoinConstraint::On(condition) => {
                    columns.extend(right);
                    let _ = walk::visit_mut(condition, &mut Names::new(merged_of(&columns), &self.sources));
                    continue;
                }
                JoinConstraint::None => {
                    columns.extend(right);
                    continue;
                }
            };
            let mut merged = Vec::with_capacity(names.len());
            let mut condition: Option<Expr> = None;
            for name in &names {
                let left = only(&columns, name)?;
                let right = only(&right, name)?;
                let equal = Expr::BinaryOp {
                    left: Box::new(left.clone()),
                    op: BinaryOperator::Eq,
                    right: Box::new(right.clone()),
                };
                condition = Some(match condition {
                    None => equal,
                    Some(so_far) => {
                        Expr::BinaryOp { left: Box::new(so_far), op: BinaryOperator::And, right: Box::new(equal) }
                    }
                });
                let expr = match side {
                    Side::Left => left,
                    Side::Right => right,
                    Side::Both => call("coalesce", vec![left, right]),
                };
                merged.push(Joined { name: name.clone(), expr, is_merged: true });
            }
            *constraint = JoinConstraint::On(condition.unwrap_or_else(|| Expr::value(Value::Boolean(true))));
            let rest = columns.into_iter().chain(right).filter(|column| !names.contains(&column.name));
            columns = merged.into_iter().chain(rest).collect();
        }
        Some(columns)
    }

    /// The columns of one table, function or query in FROM.
    fn factor(&self, factor: &mut TableFactor, before: &[TableWithJoins]) -> Option<Vec<Joined>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.joined(table_with_joins, before);
        }
        let joined = |Source { table, name }: Source| {
            let ident = Ident::with_quote('"', name.clone());
            let expr = match table {
                Some(table) => Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), ident]),
                None => Expr::Identifier(ident),
            };
            Joined { name, expr, is_merged: false }
        };
        Some(self.sources.of_factor(factor, before)?.into_iter().map(joined).collect())
    }
}

enum Side {
    Left,
    Right,
    Both,
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}

fn merges(table: &TableWithJoins) -> bool {
    let inside = |factor: &TableFactor| matches!(factor, TableFactor::NestedJoin { table_with_joins, alias: None } if merges(table_with_joins));
    inside(&table.relation)
        || table.joins.iter().any(|join| {
            inside(&join.relation)
                || matches!(
                    &join.join_operator,
                    JoinOperator::Join(JoinConstraint::Using(_) | JoinConstraint::Natural)
                        | JoinOperator::Inner(JoinConstraint::Using(_) | JoinConstraint::Natural)
                        | JoinOperator::Left(JoinConstraint::Using(_) | JoinConstraint::Natural)
                        | JoinOperator::LeftOuter(JoinConstraint::Using(_) | JoinConstraint::Natural)
                        | JoinOperator::Right(JoinConstraint::Using(_) | JoinConstraint::Natural)
                        | JoinOperator::RightOuter(JoinConstraint::Using(_) | JoinConstraint::Natural)
                        | JoinOperator::FullOuter(JoinConstraint::Using(_) | JoinConstraint::Natural)
                )
        })
}

fn only(columns: &[Joined], name: &str) -> Option<Expr> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Some(column.expr.clone()),
        _ => None,
    }
}

/// The merged columns that a bare name can mean: whose name no other column has.
fn merged_of(columns: &[Joined]) -> Vec<Joined> {
    let is_only = |column: &&Joined| column.is_merged && only(columns, &column.name).is_some();
    columns.iter().filter(is_only).cloned().collect()
}

/// Bare names of merged columns, in the queries inside an expression too.
struct Names<'s, 'a, 'b> {
    merged: Vec<Joined>,
    sources: &'s Sources<'a, 'b>,
    /// What names mean in the queries inside, from the outermost: one for what a query is sorted by, and one for each SELECT of it.
    inner: Vec<Inner>,
}

/// A query inside.
struct Inner {
    labels: Vec<String>,
    from: Vec<TableWithJoins>,
    /// What FROM gives, when it was asked for; `None` within where that is not known.
    columns: Option<Option<Vec<Source>>>,
}

impl Inner {
    fn of(select: &Select) -> Self {
        let label = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            SelectItem::UnnamedExpr(expr) => Some(label_of(expr)),
            _ => None,
        };
        Self { labels: select.projection.iter().filter_map(label).collect(), from: select.from.clone(), columns: None }
    }
}

impl<'s, 'a, 'b> Names<'s, 'a, 'b> {
    fn new(merged: Vec<Joined>, sources: &'s Sources<'a, 'b>) -> Self {
        Self { merged, sources, inner: Vec::new() }
    }

    /// Whether a name is, or may be, one of a query inside.
    fn is_inner(&mut self, name: &str) -> bool {
        let sources = self.sources;
        self.inner.iter_mut().any(|inner| {
            if inner.labels.iter().any(|label| label == name) {
                return true;
            }
            let from = &inner.from;
            let columns = inner.columns.get_or_insert_with(|| sources.of_from(from));
            columns.as_ref().is_none_or(|columns| columns.iter().any(|column| column.name == name))
        })
    }
}

impl VisitorMut for Names<'_, '_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.inner.push(match query.body.as_ref() {
            SetExpr::Select(select) => Inner::of(select),
            _ => Inner { labels: Vec::new(), from: Vec::new(), columns: None },
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.inner.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.inner.push(Inner::of(select));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.inner.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr {
            let name = folded(name);
            let found = self.merged.iter().position(|column| column.name == name);
            if let Some(found) = found
                && !self.is_inner(&name)
            {
                *expr = self.merged[found].expr.clone();
            }
        }
        ControlFlow::Continue(())
    }
}

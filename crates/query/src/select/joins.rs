//! `USING` and `NATURAL`: which columns are merged, where they stand, and what a merged column is worth.
//!
//! PostgreSQL puts merged columns first; of an outer join it takes the side that is always there, of a full join
//! whichever is. The joins are spelled out here, with every column named, before DataFusion plans them.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TableWithJoins, Value, VisitorMut,
    WildcardAdditionalOptions, With,
};

use super::Planner;
use super::names::{call, folded};

/// Spells out the joins of a query and of the queries inside it.
pub(super) fn expand(planner: &Planner<'_>, query: &mut Query) {
    let _ = walk::visit_mut(query, &mut Expand { planner, scopes: Vec::new() });
}

struct Expand<'a, 'b> {
    planner: &'a Planner<'b>,
    /// The WITH of the queries around, from the outermost.
    scopes: Vec<Option<With>>,
}

impl VisitorMut for Expand<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(query.with.clone());
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
        self.scopes.pop();
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
                    let merged = columns.iter().find(|column| column.is_merged && column.name == folded(&name));
                    projection.push(match merged {
                        Some(column) => SelectItem::ExprWithAlias { expr: column.expr.clone(), alias: name },
                        None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
                    });
                }
                other => projection.push(other),
            }
        }
        select.projection = projection;
        let merged: Vec<Joined> = columns.into_iter().filter(|column| column.is_merged).collect();
        let mut names = Names { merged, depth: 0 };
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
                JoinConstraint::On(_) | JoinConstraint::None => {
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
        let mut with: Option<With> = None;
        for scope in self.scopes.iter().flatten() {
            match &mut with {
                None => with = Some(scope.clone()),
                Some(with) => {
                    with.recursive |= scope.recursive;
                    with.cte_tables.extend(scope.cte_tables.iter().cloned());
                }
            }
        }
        let Ok(Statement::Query(mut query)) = super::parse("SELECT * FROM t") else { return None };
        query.with = with;
        if let SetExpr::Select(select) = query.body.as_mut() {
            let own = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
            if let TableFactor::Derived { lateral: true, alias: Some(alias), .. } = factor {
                let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![alias.name.clone()]));
                select.projection = vec![SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions::default())];
                select.from = before.to_vec();
            } else {
                select.from = Vec::new();
            }
            select.from.push(own);
        }
        let plan = self.planner.logical(Statement::Query(query), &[]).ok()?;
        let column =
            |(qualifier, field): (Option<&datafusion::common::TableReference>, &arrow::datatypes::FieldRef)| {
                let name = field.name().clone();
                let ident = Ident::with_quote('"', name.clone());
                let expr = match qualifier {
                    Some(table) => Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.table()), ident]),
                    None => Expr::Identifier(ident),
                };
                Joined { name, expr, is_merged: false }
            };
        Some(plan.schema().iter().map(column).collect())
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

/// Bare names of merged columns.
struct Names {
    merged: Vec<Joined>,
    depth: usize,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && let Some(column) = self.merged.iter().find(|column| column.name == folded(name))
        {
            *expr = column.expr.clone();
        }
        ControlFlow::Continue(())
    }
}

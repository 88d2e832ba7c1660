//! `USING` and `NATURAL`: which columns are merged, their positions, and the value of a merged column.
//!
//! PostgreSQL puts merged columns first. Their value is, in an outer join, that of the side that is always present; in a full
//! join, that of either side that is present. The joins are spelled out here, with every column named, before DataFusion plans them.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result, ScalarType, SqlType};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByKind,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, Value,
    VisitorMut,
};

use super::Planner;
use super::aliases::outputs;
use super::names::{folded, label_of};
use super::nodes::{call, cast};
use super::sources::{Source, Sources};
use crate::key_plan::single;

/// Spells out the joins of a query and of the queries inside it.
///
/// # Errors
/// 0A000 where nothing tells which query the name of a merged column is of.
pub(super) fn expand(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    walk::outcome(walk::visit_mut(query, &mut Expand { sources: Sources::new(planner), refused: None }))
}

/// Which sides of a join are nullable: whether its left one, and whether its right one may be NULLs in place of a row without a match.
pub(crate) fn nullable_sides(join: &JoinOperator) -> (bool, bool) {
    match join {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
        JoinOperator::FullOuter(_) => (true, true),
        _ => (false, false),
    }
}

struct Expand<'a, 'b> {
    sources: Sources<'a, 'b>,
    /// Why the query that is looked at cannot be told.
    refused: Option<Error>,
}

impl VisitorMut for Expand<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.sources.enter(query);
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.select(select, sorted_by(&mut query.order_by));
        } else {
            self.operands(&mut query.body);
        }
        match self.refused.take() {
            Some(error) => ControlFlow::Break(error),
            None => ControlFlow::Continue(()),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.sources.leave();
        ControlFlow::Continue(())
    }
}

/// A column of what is joined so far.
#[derive(Clone)]
struct Joined {
    name: String,
    expr: Expr,
    /// `None` where it is not known.
    sql_type: Option<SqlType>,
    is_merged: bool,
}

impl Expand<'_, '_> {
    fn operands(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select, Vec::new()),
            SetExpr::SetOperation { left, right, .. } => {
                self.operands(left);
                self.operands(right);
            }
            _ => {}
        }
    }

    fn select(&mut self, select: &mut Select, order_by: Vec<&mut Expr>) {
        if !select.from.iter().any(merges) {
            return;
        }
        let from = select.from.clone();
        let mut columns: Vec<Joined> = Vec::new();
        let mut before: Vec<TableWithJoins> = Vec::new();
        for mut table in from {
            self.spell_lateral(&mut table.relation, &columns);
            match self.joined(&mut table, &before, &columns) {
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
        if let ControlFlow::Break(error) = Names::new(merged, &mut self.sources).spell(select, order_by) {
            self.refused = Some(error);
        }
    }

    /// Says which columns are meant by the names of merged ones in a query that reads the items before it. Where nothing tells whether a name
    /// is one of these, it stays as it is.
    fn spell_lateral(&mut self, factor: &mut TableFactor, seen: &[Joined]) {
        let TableFactor::Derived { lateral: true, subquery, .. } = factor else { return };
        let merged = merged_of(seen);
        if !merged.is_empty() {
            let mut names = Names { keeps_unsure: true, ..Names::new(merged, &mut self.sources) };
            let _ = walk::visit_mut(subquery.as_mut(), &mut names);
        }
    }

    /// Spells out the joins of one item of FROM, and tells its columns; `before` are the items that it may read, and `seen` their columns.
    fn joined(
        &mut self,
        table: &mut TableWithJoins,
        before: &[TableWithJoins],
        seen: &[Joined],
    ) -> Option<Vec<Joined>> {
        let mut columns = self.factor(&mut table.relation, before, seen)?;
        for number in 0..table.joins.len() {
            let (done, rest) = table.joins.split_at_mut(number);
            let join = rest.first_mut()?;
            let right = if is_lateral(&join.relation) {
                let mut read = before.to_vec();
                read.push(TableWithJoins { relation: table.relation.clone(), joins: done.to_vec() });
                let seen: Vec<Joined> = seen.iter().chain(&columns).cloned().collect();
                self.spell_lateral(&mut join.relation, &seen);
                self.factor(&mut join.relation, &read, &seen)?
            } else {
                self.factor(&mut join.relation, before, seen)?
            };
            let (constraint, side) = match &mut join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, Side::Either),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, Side::Left),
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, Side::Right),
                JoinOperator::FullOuter(constraint) => (constraint, Side::Neither),
                JoinOperator::CrossJoin(constraint) => (constraint, Side::Either),
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
                    let mut names = Names::new(merged_of(&columns), &mut self.sources);
                    if let ControlFlow::Break(error) = walk::visit_mut(condition, &mut names) {
                        self.refused = Some(error);
                        return None;
                    }
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
                let (left, right) = (only(&columns, name)?, only(&right, name)?);
                let equal = Expr::BinaryOp {
                    left: Box::new(left.expr.clone()),
                    op: BinaryOperator::Eq,
                    right: Box::new(right.expr.clone()),
                };
                condition = Some(match condition {
                    None => equal,
                    Some(so_far) => {
                        Expr::BinaryOp { left: Box::new(so_far), op: BinaryOperator::And, right: Box::new(equal) }
                    }
                });
                let (expr, sql_type) = merge(&side, left, right);
                merged.push(Joined { name: name.clone(), expr, sql_type, is_merged: true });
            }
            *constraint = JoinConstraint::On(condition.unwrap_or_else(|| Expr::value(Value::Boolean(true))));
            let rest = columns.into_iter().chain(right).filter(|column| !names.contains(&column.name));
            columns = merged.into_iter().chain(rest).collect();
        }
        Some(columns)
    }

    /// The columns of one table, function or query in FROM.
    fn factor(&mut self, factor: &mut TableFactor, before: &[TableWithJoins], seen: &[Joined]) -> Option<Vec<Joined>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.joined(table_with_joins, before, seen);
        }
        let joined = |(Source { table, name }, sql_type): (Source, Option<SqlType>)| {
            let ident = Ident::with_quote('"', name.clone());
            let expr = match table {
                Some(table) => Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), ident]),
                None => Expr::Identifier(ident),
            };
            Joined { name, expr, sql_type, is_merged: false }
        };
        let types = self.sources.types_of(factor, before).unwrap_or_default();
        let found = self.sources.of_factor(factor, before).or_else(|| written(factor))?;
        let types = if types.len() == found.len() { types } else { vec![None; found.len()] };
        Some(found.into_iter().zip(types).map(joined).collect())
    }
}

/// The columns of a query in FROM as they are written: one that reads the queries around it cannot be planned by itself.
fn written(factor: &TableFactor) -> Option<Vec<Source>> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    let mut names = outputs(&subquery.body)?;
    for (name, column) in names.iter_mut().zip(&alias.columns) {
        name.clone_from(&column.name);
    }
    let source = |name: &Ident| Source { table: Some(folded(&alias.name)), name: folded(name) };
    Some(names.iter().map(source).collect())
}

/// The side of a join that is always there.
enum Side {
    Left,
    Right,
    /// Of an inner join.
    Either,
    /// Of a full join, where either may be missing.
    Neither,
}

/// What a merged column is worth, and its type: the wider one of the two.
fn merge(side: &Side, left: &Joined, right: &Joined) -> (Expr, Option<SqlType>) {
    let wider = match (left.sql_type, right.sql_type) {
        (Some(left), Some(right)) => wider_of(left, right),
        _ => None,
    };
    let as_type = |column: &Joined, sql_type: SqlType| cast(column.expr.clone(), sql_type);
    // Of varchars the engine's function makes a text.
    let both = |left: Expr, right: Expr, sql_type: Option<SqlType>| {
        let either = call("coalesce", vec![left, right]);
        match sql_type {
            Some(SqlType::Scalar(ScalarType::Varchar { .. })) => {
                cast(either, SqlType::Scalar(ScalarType::Varchar { length: None }))
            }
            _ => either,
        }
    };
    let is_numeric = |sql_type: SqlType| matches!(sql_type, SqlType::Scalar(ScalarType::Numeric { .. }));
    match (side, wider) {
        (Side::Neither, Some(Wider { is_right: true, sql_type })) => {
            (both(as_type(left, sql_type), right.expr.clone(), right.sql_type), right.sql_type)
        }
        (Side::Neither, Some(Wider { is_right: false, sql_type })) => {
            (both(left.expr.clone(), as_type(right, sql_type), left.sql_type), left.sql_type)
        }
        (Side::Neither, None) => (both(left.expr.clone(), right.expr.clone(), left.sql_type), left.sql_type),
        // A numeric with its digits is converted to one without, so that neither side is the column itself: the left one is taken.
        (Side::Either, Some(Wider { is_right: true, sql_type })) if is_numeric(sql_type) => {
            (as_type(left, sql_type), Some(sql_type))
        }
        (Side::Either, Some(Wider { is_right: true, .. })) => (right.expr.clone(), right.sql_type),
        (Side::Left, Some(Wider { is_right: true, sql_type })) => (as_type(left, sql_type), Some(sql_type)),
        (Side::Right, Some(Wider { is_right: false, sql_type })) => (as_type(right, sql_type), Some(sql_type)),
        (Side::Right, _) => (right.expr.clone(), right.sql_type),
        (Side::Left | Side::Either, _) => (left.expr.clone(), left.sql_type),
    }
}

/// That one of two types is wider.
struct Wider {
    is_right: bool,
    /// What values of the other type become.
    sql_type: SqlType,
}

/// Which of two types the other one's values are converted to, as PostgreSQL's `select_common_type` has it; `None` where none are. `text` and
/// `varchar` are converted to each other: the first one stays.
fn wider_of(left: SqlType, right: SqlType) -> Option<Wider> {
    let (SqlType::Scalar(left), SqlType::Scalar(right)) = (left, right) else { return None };
    let ((family, place), (other_family, other_place)) = (place_of(left)?, place_of(right)?);
    if family != other_family || place == other_place {
        return None;
    }
    let is_right = other_place > place && family != TEXTS;
    let (narrow, wide) = if is_right { (left, right) } else { (right, left) };
    // A whole number keeps its digits, and has none behind the point.
    let digits = match narrow {
        ScalarType::Int2 => Some(5),
        ScalarType::Int4 => Some(10),
        ScalarType::Int8 => Some(19),
        _ => None,
    };
    let scalar = match (wide, digits) {
        (ScalarType::Numeric { .. }, Some(precision)) => ScalarType::Numeric { precision, scale: 0 },
        (ScalarType::Varchar { .. }, _) => ScalarType::Varchar { length: None },
        (wide, _) => wide,
    };
    Some(Wider { is_right, sql_type: SqlType::Scalar(scalar) })
}

/// The family of types that are converted to each other both ways.
const TEXTS: u8 = 1;

/// The family of a type whose members are converted to each other, and its place there: to those behind it.
fn place_of(scalar: ScalarType) -> Option<(u8, u8)> {
    Some(match scalar {
        ScalarType::Int2 => (0, 0),
        ScalarType::Int4 => (0, 1),
        ScalarType::Int8 => (0, 2),
        ScalarType::Numeric { .. } => (0, 3),
        ScalarType::Float4 => (0, 4),
        ScalarType::Float8 => (0, 5),
        ScalarType::Varchar { .. } => (TEXTS, 0),
        ScalarType::Text => (TEXTS, 1),
        ScalarType::Date => (2, 0),
        ScalarType::Timestamp => (2, 1),
        ScalarType::Timestamptz => (2, 2),
        _ => return None,
    })
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}

/// Whether columns of an item of FROM are merged: its joins are not spelled out.
pub(super) fn merges(table: &TableWithJoins) -> bool {
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

fn only<'c>(columns: &'c [Joined], name: &str) -> Option<&'c Joined> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Some(column),
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
    sources: &'s mut Sources<'a, 'b>,
    /// What names mean in the queries inside, from the outermost: one for what a query is sorted by, and one for each SELECT of it.
    inner: Vec<Inner>,
    /// Whether a name stays as it is where that is not known, and is not refused.
    keeps_unsure: bool,
}

/// A query inside.
struct Inner {
    /// What FROM gives; `None` where that is not known.
    columns: Option<Vec<Source>>,
    /// Whether what is looked at sees that: a WITH query does not, nor does a query in FROM without LATERAL.
    is_seen: bool,
    /// What it is sorted or grouped by that is the name of an output, taken out of the clause, with its place there.
    outputs: Vec<(usize, Expr)>,
}

impl<'s, 'a, 'b> Names<'s, 'a, 'b> {
    fn new(merged: Vec<Joined>, sources: &'s mut Sources<'a, 'b>) -> Self {
        Self { merged, sources, inner: Vec::new(), keeps_unsure: false }
    }

    /// Says which columns are meant in the clauses of the query whose joins are spelled out.
    fn spell(&mut self, select: &mut Select, order_by: Vec<&mut Expr>) -> ControlFlow<Error> {
        for item in &mut select.projection {
            self.spell_output(item)?;
        }
        walk::visit_mut(&mut select.selection, self)?;
        walk::visit_mut(&mut select.group_by, self)?;
        walk::visit_mut(&mut select.having, self)?;
        // A bare name in ORDER BY and DISTINCT ON is that of an output first.
        let mut labels = labels_of(select);
        if select.distinct.is_some() || !order_by.is_empty() {
            labels.extend(self.starred(select));
        }
        let mut on = Vec::new();
        if let Some(Distinct::On(exprs)) = &mut select.distinct {
            on.extend(exprs);
        }
        for expr in on.into_iter().chain(order_by) {
            if matches!(&*expr, Expr::Identifier(name) if labels.contains(&folded(name))) {
                continue;
            }
            walk::visit_mut(expr, self)?;
        }
        ControlFlow::Continue(())
    }

    /// The names of the outputs that stars of single tables stand for, where FROM is known.
    fn starred(&self, select: &Select) -> Vec<String> {
        let table = |item: &SelectItem| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => single(name),
            _ => None,
        };
        let tables: Vec<String> = select.projection.iter().filter_map(table).collect();
        if tables.is_empty() {
            return Vec::new();
        }
        let columns = self.sources.of_from(&select.from).unwrap_or_default();
        let is_starred = |column: &Source| column.table.as_ref().is_some_and(|table| tables.contains(table));
        columns.into_iter().filter(is_starred).map(|column| column.name).collect()
    }

    /// Says which columns are meant in an output, which keeps its label: `id::text` is called `id`, whatever `id` is.
    fn spell_output(&mut self, item: &mut SelectItem) -> ControlFlow<Error> {
        let SelectItem::UnnamedExpr(expr) = item else { return walk::visit_mut(item, self) };
        let label = label_of(expr);
        walk::visit_mut(expr, self)?;
        if label_of(expr) != label {
            let alias = Ident::with_quote('"', label);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        ControlFlow::Continue(())
    }

    /// Whether a name is one of a query inside.
    ///
    /// # Errors
    /// 0A000 where that is not known.
    fn is_inner(&self, name: &str) -> Result<bool> {
        for inner in self.inner.iter().rev().filter(|inner| inner.is_seen) {
            let Some(columns) = &inner.columns else {
                return Err(Error::unsupported(format!(
                    "\"{name}\" may be a column of a subquery and one that a join around it merges: say the column with its table"
                )));
            };
            if columns.iter().any(|column| column.name == name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Hides from a query in FROM what is in FROM beside it, or shows it again.
    fn see(&mut self, factor: &TableFactor, is_seen: bool) {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.inner.iter_mut().rev().take(2).for_each(|inner| inner.is_seen = is_seen);
        }
    }
}

impl VisitorMut for Names<'_, '_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.sources.enter(query);
        let (columns, labels) = match query.body.as_ref() {
            SetExpr::Select(select) => (self.sources.of_from(&select.from), Some(labels_of(select))),
            _ => (Some(Vec::new()), None),
        };
        // What a union is sorted by is an output.
        let is_output = |name: &Ident| labels.as_ref().is_none_or(|labels| labels.contains(&folded(name)));
        let outputs = take_outputs(sorted_by(&mut query.order_by), is_output);
        self.inner.push(Inner { columns, is_seen: false, outputs });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.sources.leave();
        if let Some(inner) = self.inner.pop() {
            put_back(sorted_by(&mut query.order_by), inner.outputs);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let Some(query) = self.inner.last_mut() {
            query.is_seen = true;
        }
        let columns = self.sources.of_from(&select.from);
        let labels = labels_of(select);
        let outputs = take_outputs(grouped_by(select), |name| labels.contains(&folded(name)));
        self.inner.push(Inner { columns, is_seen: true, outputs });
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let Some(inner) = self.inner.pop() {
            put_back(grouped_by(select), inner.outputs);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.see(factor, false);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.see(factor, true);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Identifier(name) = expr {
            let name = folded(name);
            if let Some(found) = self.merged.iter().find(|column| column.name == name) {
                match self.is_inner(&name) {
                    Ok(true) => {}
                    Ok(false) => *expr = found.expr.clone(),
                    Err(_) if self.keeps_unsure => {}
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names of the outputs of a select list but those of its stars.
pub(super) fn labels_of(select: &Select) -> Vec<String> {
    let label = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => Some(label_of(expr)),
        _ => None,
    };
    select.projection.iter().filter_map(label).collect()
}

/// What a query is sorted by.
fn sorted_by(order_by: &mut Option<OrderBy>) -> Vec<&mut Expr> {
    match order_by.as_mut().map(|order_by| &mut order_by.kind) {
        Some(OrderByKind::Expressions(items)) => items.iter_mut().map(|item| &mut item.expr).collect(),
        _ => Vec::new(),
    }
}

/// What a query is grouped by, and DISTINCT ON: there too, a name by itself may be that of an output.
fn grouped_by(select: &mut Select) -> Vec<&mut Expr> {
    let mut items = Vec::new();
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        for expr in exprs {
            add_items(expr, &mut items);
        }
    }
    if let Some(Distinct::On(exprs)) = &mut select.distinct {
        for expr in exprs {
            add_items(expr, &mut items);
        }
    }
    items
}

fn add_items<'e>(expr: &'e mut Expr, items: &mut Vec<&'e mut Expr>) {
    match expr {
        Expr::Nested(inner) => add_items(inner, items),
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => items.extend(sets.iter_mut().flatten()),
        other => items.push(other),
    }
}

fn take_outputs(items: Vec<&mut Expr>, is_output: impl Fn(&Ident) -> bool) -> Vec<(usize, Expr)> {
    let mut outputs = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        if matches!(&*item, Expr::Identifier(name) if is_output(name)) {
            outputs.push((place, std::mem::replace(item, Expr::value(Value::Null))));
        }
    }
    outputs
}

fn put_back(mut items: Vec<&mut Expr>, outputs: Vec<(usize, Expr)>) {
    for (place, output) in outputs {
        if let Some(item) = items.get_mut(place) {
            **item = output;
        }
    }
}

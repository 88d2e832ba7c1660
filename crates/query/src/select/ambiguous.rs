//! Bare names that columns of several tables have. PostgreSQL means the nearest query that knows the name, and a name
//! that this query knows twice is an error. The engine takes the first of these columns if WHERE names all of them
//! with their tables as well, and in a subquery it goes on to look in the outer queries.
//!
//! Called by the planner for each query, after joins have been spelled out.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Distinct, Expr, GroupByExpr, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SetExpr,
    TableFactor, TableWithJoins, Visitor,
};

use super::Planner;
use super::joins::{labels_of, merges};
use super::names::folded;
use super::sources::{Part, Source, Sources};

/// Looks at a query and the queries inside it.
///
/// # Errors
/// 42702
pub(super) fn check(planner: &Planner<'_>, query: &Query) -> Result<()> {
    let is_nested = queries_in(query) > 1;
    let mut check = Check { sources: Sources::new(planner), is_nested, queries: 0, levels: Vec::new() };
    walk::outcome(walk::visit(query, &mut check))
}

/// How many queries there are in a part of a statement, itself among them.
fn queries_in(node: &impl walk::Root) -> usize {
    struct Queries(usize);
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut queries = Queries(0);
    let _ = walk::visit(node, &mut queries);
    queries.0
}

/// Whether a SELECT has queries elsewhere than in FROM.
fn says_queries(select: &Select) -> bool {
    let said = select.projection.iter().map(queries_in).sum::<usize>();
    said + queries_in(&select.selection) + queries_in(&select.having) > 0
}

struct Check<'a, 'b> {
    sources: Sources<'a, 'b>,
    is_nested: bool,
    /// Queries around what is looked at.
    queries: usize,
    /// What names may mean, from the outermost: a query has a level for what it is sorted by, each SELECT of it one of its own, and so has
    /// a part of FROM that sees other columns than the rest.
    levels: Vec<Level>,
}

#[derive(Default)]
struct Level {
    /// `None` where they are not known, and where no query around it has several tables.
    columns: Option<Vec<Source>>,
    is_several: bool,
    is_seen: bool,
    /// Whether it is that of a query which is one SELECT.
    is_of_select: bool,
    /// Names that are no columns, by where they stand.
    others: Vec<usize>,
    /// Parts of FROM that see these columns alone, by where they stand.
    parts: Vec<(usize, Vec<Source>)>,
    /// The part of FROM that it is of.
    part: Option<usize>,
}

/// Where a node stands: the tree stays as it is while it is looked at.
fn place<T>(node: &T) -> usize {
    std::ptr::from_ref(node).addr()
}

impl Visitor for Check<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        self.sources.enter(query);
        self.queries += 1;
        let others = sorted_outputs(query);
        let is_of_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        self.levels.push(Level { is_of_select, others, ..Level::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.sources.leave();
        self.queries -= 1;
        self.levels.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let is_several = is_of_several(&select.from);
        if is_several && self.queries == 1 {
            self.outermost(select)?;
        }
        let mut level = Level { is_several, is_seen: true, ..Level::default() };
        let is_asked = self.is_nested && (is_several || self.levels.iter().any(|around| around.is_several));
        if is_asked && !select.from.iter().any(merges) {
            let is_said = self.queries > 1 || says_queries(select);
            level.columns = self.of_from(&select.from, is_said, &mut level.parts);
        }
        level.others = grouped_outputs(select, level.columns.as_deref().unwrap_or_default());
        self.levels.push(level);
        ControlFlow::Continue(())
    }

    /// What a query is sorted by stands behind its SELECT.
    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<Error> {
        if let Some(level) = self.levels.pop()
            && let Some(query) = self.levels.last_mut()
            && query.is_of_select
        {
            query.columns = level.columns;
            query.is_several = level.is_several;
            query.is_seen = true;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        self.enter_part(place(factor));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        self.leave_part(place(factor));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        self.enter_part(place(expr));
        match expr {
            Expr::CompoundFieldAccess { root, access_chain } => {
                // `t.tags[1]`: a table, and names of fields.
                let fields = access_chain.iter().filter_map(|access| match access {
                    AccessExpr::Dot(field) => Some(place(field)),
                    AccessExpr::Subscript(_) => None,
                });
                let table = matches!(access_chain.first(), Some(AccessExpr::Dot(_))).then(|| place(&**root));
                if let Some(level) = self.levels.last_mut() {
                    level.others.extend(fields.chain(table));
                }
                ControlFlow::Continue(())
            }
            // Of names that the outermost query says itself, see below.
            Expr::Identifier(name) if self.queries > 1 => {
                let is_other = self.levels.last().is_some_and(|level| level.others.contains(&place(expr)));
                if is_other { ControlFlow::Continue(()) } else { self.nearest(&folded(name)) }
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        self.leave_part(place(expr));
        ControlFlow::Continue(())
    }
}

impl Check<'_, '_> {
    /// Looks for a name in the nearest query that knows it.
    fn nearest(&self, name: &str) -> ControlFlow<Error> {
        for level in self.levels.iter().rev().filter(|level| level.is_seen) {
            let Some(columns) = &level.columns else { break };
            if columns.iter().any(|column| column.name == name) {
                return only_one(columns, name);
            }
        }
        ControlFlow::Continue(())
    }

    /// Goes into a part of FROM, where it sees other columns than the rest.
    fn enter_part(&mut self, part: usize) {
        let Some(level) = self.levels.last_mut() else { return };
        let Some(found) = level.parts.iter().position(|(place, _)| *place == part) else { return };
        let (_, columns) = level.parts.swap_remove(found);
        level.is_seen = false;
        self.levels.push(Level { columns: Some(columns), is_seen: true, part: Some(part), ..Level::default() });
    }

    /// Goes out of it again.
    fn leave_part(&mut self, part: usize) {
        if self.levels.last().is_some_and(|level| level.part == Some(part)) {
            self.levels.pop();
            if let Some(level) = self.levels.last_mut() {
                level.is_seen = true;
            }
        }
    }

    /// Names that the outermost query says itself. Of others than these the engine says so.
    fn outermost(&self, select: &Select) -> ControlFlow<Error> {
        let (mut bare, mut qualified) = (Vec::new(), HashSet::new());
        let _: ControlFlow<()> = walk::own_expressions(&select.selection, |expr| {
            match expr {
                Expr::Identifier(name) => bare.push(folded(name)),
                Expr::CompoundIdentifier(names) => qualified.extend(names.last().map(folded)),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        bare.retain(|name| qualified.contains(name));
        if bare.is_empty() {
            return ControlFlow::Continue(());
        }
        let Some(columns) = self.sources.of_from(&select.from) else { return ControlFlow::Continue(()) };
        bare.iter().try_for_each(|name| only_one(&columns, name))
    }

    /// The columns of a FROM, and of the parts of it that see others. `is_said`: somebody may say those of its last item.
    fn of_from(
        &self,
        from: &[TableWithJoins],
        is_said: bool,
        parts: &mut Vec<(usize, Vec<Source>)>,
    ) -> Option<Vec<Source>> {
        let mut note = |part: Part<'_>| match part {
            Part::Item(factor, before) => {
                if let TableFactor::Derived { lateral, .. } = factor {
                    parts.push((place(factor), if *lateral { before.to_vec() } else { Vec::new() }));
                }
            }
            Part::Condition(join, joined) => {
                if let Some(condition) = condition_of(join) {
                    parts.push((place(condition), joined.to_vec()));
                }
            }
        };
        // The query that is planned to know the columns of such an item ends with it: to ask for them there would never end.
        if !is_said
            && let Some((last, before)) = from.split_last()
            && last.joins.is_empty()
            && matches!(last.relation, TableFactor::Derived { lateral: true, .. })
        {
            let columns = self.sources.of_parts(before, &mut note)?;
            note(Part::Item(&last.relation, &columns));
            return None;
        }
        self.sources.of_parts(from, &mut note)
    }
}

fn only_one(columns: &[Source], name: &str) -> ControlFlow<Error> {
    if columns.iter().filter(|column| column.name == name).count() < 2 {
        return ControlFlow::Continue(());
    }
    let message = format!("column reference \"{name}\" is ambiguous");
    ControlFlow::Break(Error::new(ErrorCode::AmbiguousColumn, message))
}

fn is_of_several(from: &[TableWithJoins]) -> bool {
    match from {
        [] => false,
        [table] => !table.joins.is_empty() || matches!(table.relation, TableFactor::NestedJoin { .. }),
        _ => true,
    }
}

fn condition_of(join: &JoinOperator) -> Option<&Expr> {
    match join {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

/// Where names stand that a query is sorted by and that are outputs. What a union is sorted by always is.
fn sorted_outputs(query: &Query) -> Vec<usize> {
    let Some(OrderByKind::Expressions(items)) = query.order_by.as_ref().map(|order_by| &order_by.kind) else {
        return Vec::new();
    };
    let labels = match query.body.as_ref() {
        SetExpr::Select(select) => Some(labels_of(select)),
        _ => None,
    };
    let is_output = |name: &String| labels.as_ref().is_none_or(|labels| labels.contains(name));
    items.iter().filter_map(|item| bare(&item.expr)).filter(|(name, _)| is_output(name)).map(|(_, at)| at).collect()
}

/// The same of what a SELECT is grouped by, which is a column first, and of what it is DISTINCT on.
fn grouped_outputs(select: &Select, columns: &[Source]) -> Vec<usize> {
    let labels = labels_of(select);
    let mut outputs = Vec::new();
    if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
        let is_column = |name: &String| columns.iter().any(|column| column.name == *name);
        let named = exprs.iter().filter_map(bare).filter(|(name, _)| labels.contains(name) && !is_column(name));
        outputs.extend(named.map(|(_, at)| at));
    }
    if let Some(Distinct::On(exprs)) = &select.distinct {
        outputs.extend(exprs.iter().filter_map(bare).filter(|(name, _)| labels.contains(name)).map(|(_, at)| at));
    }
    outputs
}

/// A name by itself, and where it stands.
fn bare(expr: &Expr) -> Option<(String, usize)> {
    match expr {
        Expr::Nested(inner) => bare(inner),
        Expr::Identifier(name) => Some((folded(name), place(expr))),
        _ => None,
    }
}

//! WITH RECURSIVE: its queries in an order in which each reads those before it, and the form of one that reads itself.
//!
//! Called by the planner for each query, when no two WITH queries around each other have one name. Sources: PostgreSQL's `TopologicalSort`,
//! `checkWellFormedRecursion` and `parseCheckAggregates`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::names::shown_name;
use ashlar_functions::walk::{self, flow};
use datafusion::sql::sqlparser::ast::{
    Cte, LimitClause, Query, Select, SetExpr, SetOperator, TableFactor, TableWithJoins, VisitorMut,
};

use super::Planner;
use super::aliases::PART_OF_SET;
use super::grouping::has_aggregate;
use super::joins::nullable_sides;
use super::names::folded;
use super::scopes::bare;
use super::sources::names_in;
use super::with_once::{Reads, read};

pub(super) mod types;

/// Sorts the queries of each WITH RECURSIVE, and puts unions among them that do not read themselves in parentheses: of others the engine sees the
/// two parts alone, and would take the second one's rows for some of the first one's types.
///
/// # Errors
/// 42P19 for a query that reads itself elsewhere than PostgreSQL lets it, 0A000 for some that read each other, for one with more around its
/// union than PostgreSQL has, and for WITH in it.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    struct Settle<'a, 'b>(&'a Planner<'b>);
    impl VisitorMut for Settle<'_, '_> {
        type Break = Error;
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            flow(settle_one(self.0, query))
        }
    }
    walk::outcome(walk::visit_mut(query, &mut Settle(planner)))
}

fn settle_one(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    sort(&mut with.cte_tables)?;
    for cte in &mut with.cte_tables {
        let name = folded(&cte.alias.name);
        if Reads::of(&cte.query, &name).count == 0 {
            if matches!(cte.query.body.as_ref(), SetExpr::SetOperation { .. }) {
                *cte.query = bare(&SetExpr::Query(cte.query.clone()));
            }
            continue;
        }
        while let SetExpr::Query(inner) = cte.query.body.as_ref()
            && *cte.query == bare(&cte.query.body)
        {
            let inner = inner.clone();
            cte.query = inner;
        }
        check(planner, &cte.query, &name)?;
    }
    Ok(())
}

/// Puts each query behind those that it reads, and leaves them as they are otherwise.
///
/// # Errors
/// 0A000 for some that read each other.
fn sort(tables: &mut Vec<Cte>) -> Result<()> {
    let names: HashSet<String> = tables.iter().map(|cte| folded(&cte.alias.name)).collect();
    let waiting = tables.drain(..).map(|cte| {
        let name = folded(&cte.alias.name);
        let mut unread = names_in(&cte.query);
        unread.retain(|other| *other != name && names.contains(other));
        (name, unread, cte)
    });
    let mut waiting: Vec<(String, HashSet<String>, Cte)> = waiting.collect();
    while !waiting.is_empty() {
        let Some(next) = waiting.iter().position(|(_, unread, _)| unread.is_empty()) else {
            return Err(Error::unsupported("mutual recursion between WITH items is not implemented"));
        };
        let (name, _, cte) = waiting.remove(next);
        for (_, unread, _) in &mut waiting {
            unread.remove(&name);
        }
        tables.push(cte);
    }
    Ok(())
}

/// The form of a query that reads itself.
fn check(planner: &Planner<'_>, query: &Query, name: &str) -> Result<()> {
    let shown = shown_name(name);
    let clause = match &query.limit_clause {
        _ if query.order_by.is_some() => Some("ORDER BY"),
        Some(LimitClause::LimitOffset { offset: Some(_), .. }) => Some("OFFSET"),
        Some(_) => Some("LIMIT"),
        None => None,
    };
    if let Some(clause) = clause
        && !matches!(query.body.as_ref(), SetExpr::Select(_))
    {
        return Err(Error::unsupported(format!("{clause} in a recursive query is not implemented")));
    }
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_ref() else {
        return Err(invalid(format!(
            "recursive query \"{shown}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        )));
    };
    if query.with.is_some() {
        return Err(Error::unsupported("WITH in a recursive query is not supported")
            .with_hint("Say it before the recursive query, in the same WITH."));
    }
    if Reads::of(&bare(left), name).count > 0 {
        return Err(misplaced(name, "within its non-recursive term"));
    }
    if Reads::of(&bare(right), name).in_expressions > 0 {
        return Err(misplaced(name, "within a subquery"));
    }
    let mut term = Term { planner, name, count: 0, is_aggregated: false };
    term.body(right, None)?;
    if term.is_aggregated {
        return Err(invalid("aggregate functions are not allowed in a recursive query's recursive term".to_owned()));
    }
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::InvalidRecursion, message)
}

fn misplaced(name: &str, place: &str) -> Error {
    invalid(format!("recursive reference to query \"{}\" must not appear {place}", shown_name(name)))
}

/// The second part of a query that reads itself. Each `place` says where it must not, for what is being looked at.
struct Term<'a, 'b> {
    planner: &'a Planner<'b>,
    name: &'a str,
    /// How often the query was found.
    count: usize,
    /// Whether an aggregate is over its rows.
    is_aggregated: bool,
}

impl Term<'_, '_> {
    fn query(&mut self, query: &Query, place: Option<&'static str>) -> Result<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.query(&cte.query, place)?;
        }
        let is_read = self.body(&query.body, place)?;
        self.is_aggregated |= is_read && has_aggregate(self.planner, &query.order_by);
        Ok(())
    }

    /// Whether it is a SELECT that has the recursive query in its own FROM.
    fn body(&mut self, body: &SetExpr, place: Option<&'static str>) -> Result<bool> {
        match body {
            SetExpr::Select(select) => return self.select(select, place),
            SetExpr::Query(query) => self.query(query, place)?,
            SetExpr::SetOperation { op, left, right, .. } => {
                let is_all = is_part_of_all(left);
                let (first, second) = match op {
                    SetOperator::Union => (None, None),
                    SetOperator::Intersect => {
                        let place = is_all.then_some("within INTERSECT");
                        (place, place)
                    }
                    SetOperator::Except | SetOperator::Minus => {
                        (is_all.then_some("within EXCEPT"), Some("within EXCEPT"))
                    }
                };
                self.body(left, place.or(first))?;
                self.body(right, place.or(second))?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn select(&mut self, select: &Select, place: Option<&'static str>) -> Result<bool> {
        let mut is_read = false;
        for table in &select.from {
            is_read |= self.table(table, place)?;
        }
        if is_read {
            let in_list = select.projection.iter().any(|item| has_aggregate(self.planner, item));
            self.is_aggregated |= in_list || has_aggregate(self.planner, &select.having);
        }
        Ok(is_read)
    }

    /// Joins from the left to the right: what stands before one that keeps its right side's rows is what may be left out, too.
    fn table(&mut self, table: &TableWithJoins, place: Option<&'static str>) -> Result<bool> {
        let outer = place.or(Some("within an outer join"));
        let is_left_nullable =
            |from: usize| table.joins[from..].iter().any(|join| nullable_sides(&join.join_operator).0);
        let mut is_read = self.factor(&table.relation, if is_left_nullable(0) { outer } else { place })?;
        for (number, join) in table.joins.iter().enumerate() {
            let is_nullable = nullable_sides(&join.join_operator).1 || is_left_nullable(number + 1);
            is_read |= self.factor(&join.relation, if is_nullable { outer } else { place })?;
        }
        Ok(is_read)
    }

    /// Whether it is the recursive query, or joins that one.
    fn factor(&mut self, factor: &TableFactor, place: Option<&'static str>) -> Result<bool> {
        match factor {
            TableFactor::Derived { subquery, .. } => {
                self.query(subquery, place)?;
                Ok(false)
            }
            TableFactor::NestedJoin { table_with_joins, .. } => self.table(table_with_joins, place),
            _ if read(factor).is_some_and(|found| found == self.name) => {
                self.count += 1;
                match place {
                    Some(place) => Err(misplaced(self.name, place)),
                    None if self.count > 1 => Err(misplaced(self.name, "more than once")),
                    None => Ok(true),
                }
            }
            _ => Ok(false),
        }
    }
}

/// Whether it is a part of INTERSECT ALL or EXCEPT ALL, as `rewrite` says those.
fn is_part_of_all(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else { return false };
    match &select.from[..] {
        [TableWithJoins { relation: TableFactor::Derived { alias: Some(alias), .. }, .. }] => {
            alias.name.value == PART_OF_SET
        }
        _ => false,
    }
}

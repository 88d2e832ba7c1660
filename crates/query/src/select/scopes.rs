//! WITH: an inner name hides an outer one.
//!
//! Called by the planner for each query before it is planned.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::names::NAME_END;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, SetExpr, TableAlias, TableFactor, Visitor, VisitorMut, With,
};

use super::names::folded;

/// Gives a name of its own to each WITH query that has the name of one around it.
///
/// # Errors
/// 42712 for two of the same name in one WITH.
pub(super) fn rename_hidden(query: &mut Query) -> Result<()> {
    if count_of_with(query) == 0 {
        return Ok(());
    }
    let mut renaming = Renaming { outer: Vec::new(), number: 0 };
    walk::outcome(walk::visit_mut(query, &mut renaming))
}

fn count_of_with(query: &Query) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.0 += usize::from(query.with.is_some());
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(0);
    let _ = walk::visit(query, &mut count);
    count.0
}

struct Renaming {
    /// Names of the queries around, a list for each.
    outer: Vec<Vec<String>>,
    number: usize,
}

impl VisitorMut for Renaming {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut names = Vec::new();
        if let Some(mut with) = query.with.take() {
            for index in 0..with.cte_tables.len() {
                let name = folded(&with.cte_tables[index].alias.name);
                if names.contains(&name) {
                    let message = format!("WITH query name \"{name}\" specified more than once");
                    return ControlFlow::Break(Error::new(ErrorCode::DuplicateAlias, message));
                }
                if self.outer.iter().any(|known| known.contains(&name)) {
                    self.number += 1;
                    let hidden = format!("{name}{NAME_END}{}", self.number);
                    with.cte_tables[index].alias.name = Ident::with_quote('"', hidden.clone());
                    let mut rename = Rename { name: &name, hidden: &hidden, shadows: 0 };
                    // With RECURSIVE each of them sees all.
                    let unseen = if with.recursive { 0 } else { index + 1 };
                    for seeing in &mut with.cte_tables[unseen..] {
                        let _ = walk::visit_mut(seeing.query.as_mut(), &mut rename);
                    }
                    let _ = walk::visit_mut(query, &mut rename);
                }
                names.push(name);
            }
            query.with = Some(with);
        }
        self.outer.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.outer.pop();
        ControlFlow::Continue(())
    }
}

struct Rename<'a> {
    name: &'a str,
    hidden: &'a str,
    /// Queries around with a WITH query of that name of their own.
    shadows: usize,
}

impl Rename<'_> {
    /// Which of a query's WITH queries has the name.
    fn place_in(&self, query: &Query) -> Option<usize> {
        query.with.as_ref()?.cte_tables.iter().position(|cte| folded(&cte.alias.name) == self.name)
    }
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(place) = self.place_in(query) else { return ControlFlow::Continue(()) };
        if self.shadows == 0
            && let Some(with) = &mut query.with
        {
            // Before its own name is known, the outer one is meant.
            let seen = if with.recursive { 0 } else { place + 1 };
            for cte in &mut with.cte_tables[..seen] {
                let mut outer = Rename { shadows: 0, ..*self };
                let _ = walk::visit_mut(cte.query.as_mut(), &mut outer);
            }
        }
        self.shadows += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.place_in(query).is_some() {
            self.shadows -= 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.shadows == 0
            && let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(ident)] = &name.0[..]
            && folded(ident) == self.name
        {
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: ident.clone(),
                columns: Vec::new(),
                at: None,
            });
            *name = ObjectName::from(vec![Ident::with_quote('"', self.hidden)]);
        }
        ControlFlow::Continue(())
    }
}

/// A query of nothing but a body.
pub(super) fn bare(body: &SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body.clone()),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// A query in others with these WITH, from the outermost; it has none itself.
pub(super) fn inside(mut around: Vec<With>, query: Query) -> Query {
    let mut query = Query { with: around.pop(), ..query };
    while let Some(with) = around.pop() {
        query = Query { with: Some(with), ..bare(&SetExpr::Query(Box::new(query))) };
    }
    query
}

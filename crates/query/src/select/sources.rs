//! The columns that FROM has, for passes that need them before a query is planned: each item is planned by itself.
//!
//! Used by walks over a query, which tell which outer queries there are. An item that cannot be planned by itself has
//! no columns here; its error is reported when the query is planned.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use ashlar_base::{Error, Result, SqlType};
use ashlar_functions::walk;
use ashlar_store::arrow_types::sql_type_of;
use datafusion::common::DFSchema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Cte, JoinOperator, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableFactor, TableWithJoins, Visitor, VisitorMut, WildcardAdditionalOptions, With,
};

use super::Planner;
use super::aliases::ROWS_OF_SUBQUERY;
use super::names::folded;
use super::scopes::inside;

/// A column of FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The name of its table, where that has one.
    pub(super) table: Option<String>,
    pub(super) name: String,
}

/// The types of columns: `None` for one that is open, or that is no type of ours.
type Types = Vec<Option<SqlType>>;

/// What was asked of parts of a statement, by their text.
#[derive(Default)]
pub(super) struct Answers {
    columns: HashMap<String, Option<Vec<Source>>>,
    types: HashMap<String, Option<Types>>,
}

/// A part of FROM, with columns.
pub(super) enum Part<'p> {
    /// An item, and the columns of those before it, which it sees where it is LATERAL.
    Item(&'p TableFactor, &'p [Source]),
    /// A join, and the columns of what it joins, which its condition sees.
    Condition(&'p JoinOperator, &'p [Source]),
}

/// See the module.
pub(super) struct Sources<'a, 'b> {
    planner: &'a Planner<'b>,
    /// The queries around, from the outermost.
    scopes: Vec<Scope>,
}

/// A query that a walk is in.
struct Scope {
    with: Option<With>,
    /// Which of the WITH queries of the query around it is, where it is one: it sees those before it.
    place: Option<usize>,
}

impl<'a, 'b> Sources<'a, 'b> {
    pub(super) fn new(planner: &'a Planner<'b>) -> Self {
        Self { planner, scopes: Vec::new() }
    }

    /// Goes into a query, before anything of it is changed.
    pub(super) fn enter(&mut self, query: &Query) {
        let around = self.scopes.last().and_then(|scope| scope.with.as_ref());
        let place = around.and_then(|with| with.cte_tables.iter().position(|cte| *cte.query == *query));
        self.scopes.push(Scope { with: query.with.clone(), place });
    }

    /// Goes out of it again.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// The columns of all items of a FROM, none of which merges any.
    pub(super) fn of_from(&self, from: &[TableWithJoins]) -> Option<Vec<Source>> {
        self.of_parts(from, &mut |_: Part<'_>| {})
    }

    /// The same; `note` is shown the parts of FROM that see other columns than the rest, each before its own are known.
    pub(super) fn of_parts(&self, from: &[TableWithJoins], note: &mut dyn FnMut(Part<'_>)) -> Option<Vec<Source>> {
        let mut columns = Vec::new();
        for (number, table) in from.iter().enumerate() {
            self.of_table(table, &from[..number], &mut columns, note)?;
        }
        Some(columns)
    }

    /// Adds the columns of a table, and of those that are joined to it, to those before it.
    fn of_table(
        &self,
        table: &TableWithJoins,
        before: &[TableWithJoins],
        columns: &mut Vec<Source>,
        note: &mut dyn FnMut(Part<'_>),
    ) -> Option<()> {
        let first = columns.len();
        self.of_item(&table.relation, before, columns, note)?;
        for (number, join) in table.joins.iter().enumerate() {
            let mut read = before.to_vec();
            read.push(TableWithJoins { relation: table.relation.clone(), joins: table.joins[..number].to_vec() });
            self.of_item(&join.relation, &read, columns, note)?;
            note(Part::Condition(&join.join_operator, &columns[first..]));
        }
        Some(())
    }

    fn of_item(
        &self,
        factor: &TableFactor,
        before: &[TableWithJoins],
        columns: &mut Vec<Source>,
        note: &mut dyn FnMut(Part<'_>),
    ) -> Option<()> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.of_table(table_with_joins, before, columns, note);
        }
        note(Part::Item(factor, columns));
        columns.extend(self.of_factor(factor, before)?);
        Some(())
    }

    /// The columns of one table, function or query in FROM; `before` are the items that it may read.
    pub(super) fn of_factor(&self, factor: &TableFactor, before: &[TableWithJoins]) -> Option<Vec<Source>> {
        // It may read the queries around, but has names for all of its columns.
        if let TableFactor::Derived { alias: Some(alias), .. } = factor
            && alias.name.value == ROWS_OF_SUBQUERY
            && !alias.columns.is_empty()
        {
            let table = Some(alias.name.value.clone());
            let names = alias.columns.iter().map(|column| column.name.value.clone());
            return Some(names.map(|name| Source { table: table.clone(), name }).collect());
        }
        self.of_query(self.reading(factor, before)?)
    }

    /// The types of the columns that [`Self::of_factor`] gives, in its order; `None` where they are not known. Who wants both asks for these first:
    /// the item is planned once then.
    pub(super) fn types_of(&self, factor: &TableFactor, before: &[TableWithJoins]) -> Option<Types> {
        let query = self.reading(factor, before)?;
        let text = query.to_string();
        let known = self.planner.sources.lock().types.get(&text).cloned();
        if let Some(known) = known {
            return known;
        }
        let plan = self.planner.logical(query, &[]).ok();
        let columns = plan.as_ref().map(|plan| columns_of(plan.schema()));
        let found = plan.and_then(|plan| self.types_in(plan));
        let mut answers = self.planner.sources.lock();
        answers.columns.insert(text.clone(), columns);
        answers.types.insert(text, found.clone());
        found
    }

    fn types_in(&self, plan: LogicalPlan) -> Option<Types> {
        let plan = self.planner.analysed(plan).ok()?;
        let types = plan.schema().fields().iter().map(|field| match field.data_type() {
            DataType::Null => None,
            _ => sql_type_of(field),
        });
        Some(types.collect())
    }

    /// The query of all columns of an item of FROM.
    fn reading(&self, factor: &TableFactor, before: &[TableWithJoins]) -> Option<Statement> {
        let Ok(Statement::Query(mut query)) = super::parse("SELECT * FROM t") else { return None };
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
        let around = self.with_for(&names_in(&query))?;
        Some(Statement::Query(Box::new(inside(around, *query))))
    }

    /// The WITH, from the outermost, that somebody sees who reads tables of these names, and none where none of theirs is read; `None` for who
    /// reads one of which it is a part itself.
    fn with_for(&self, names: &HashSet<String>) -> Option<Vec<With>> {
        let is_read = |cte: &Cte| names.contains(&folded(&cte.alias.name));
        let mut seen: Vec<With> = Vec::new();
        let mut is_any_read = false;
        for (number, scope) in self.scopes.iter().enumerate() {
            let Some(with) = &scope.with else { continue };
            let place = self.scopes.get(number + 1).and_then(|inner| inner.place);
            let (before, behind) = with.cte_tables.split_at(place.unwrap_or(with.cte_tables.len()));
            if with.recursive && behind.iter().any(is_read) {
                return None;
            }
            is_any_read |= before.iter().any(is_read);
            if !before.is_empty() {
                seen.push(With { cte_tables: before.to_vec(), ..with.clone() });
            }
        }
        Some(if is_any_read { seen } else { Vec::new() })
    }

    /// The columns that a query gives. A walk asks again for what another one has asked for, and so does each query around an item for
    /// those inside it: the planner, which is made for one statement, knows what it has answered.
    fn of_query(&self, query: Statement) -> Option<Vec<Source>> {
        let text = query.to_string();
        let known = self.planner.sources.lock().columns.get(&text).cloned();
        if let Some(known) = known {
            return known;
        }
        let found = self.planner.logical(query, &[]).ok().map(|plan| columns_of(plan.schema()));
        self.planner.sources.lock().columns.insert(text, found.clone());
        found
    }
}

fn columns_of(schema: &DFSchema) -> Vec<Source> {
    let columns = schema.iter().map(|(qualifier, field)| Source {
        table: qualifier.map(|table| table.table().to_owned()),
        name: field.name().clone(),
    });
    columns.collect()
}

/// The tables that a query reads by a name alone.
pub(super) fn names_in(query: &Query) -> HashSet<String> {
    struct Names(HashSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: None, .. } = factor
                && let [part] = &name.0[..]
            {
                self.0.extend(part.as_ident().map(folded));
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    let _ = walk::visit(query, &mut names);
    names.0
}

/// The SELECTs that a query's body is made of: the one that it is, or the parts of a union that are no queries of their own.
pub(super) fn selects(body: &mut SetExpr) -> Vec<&mut Select> {
    match body {
        SetExpr::Select(select) => vec![select.as_mut()],
        SetExpr::SetOperation { left, right, .. } => {
            let mut found = selects(left);
            found.extend(selects(right));
            found
        }
        _ => Vec::new(),
    }
}

/// Does something to a query and to every query inside it, the outer one first, with what its tables show.
///
/// # Errors
/// The first that it finds.
pub(super) fn in_each_query(
    planner: &Planner<'_>,
    query: &mut Query,
    settle: fn(&Sources<'_, '_>, &mut Query) -> Result<()>,
) -> Result<()> {
    struct Each<'a, 'b>(Sources<'a, 'b>, fn(&Sources<'_, '_>, &mut Query) -> Result<()>);
    impl VisitorMut for Each<'_, '_> {
        type Break = Error;
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            self.0.enter(query);
            walk::flow((self.1)(&self.0, query))
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
            self.0.leave();
            ControlFlow::Continue(())
        }
    }
    walk::outcome(walk::visit_mut(query, &mut Each(Sources::new(planner), settle)))
}

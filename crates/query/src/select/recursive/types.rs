//! The columns of a recursive query get the types of its first part.
//!
//! Called by the planner for each query, after the form of its WITH RECURSIVE has been checked. A part is planned by
//! itself, beside the WITH queries that it sees. Its conditions are left out, because they do not affect types and
//! may read outer queries.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use ashlar_functions::catalog::name_of;
use ashlar_functions::names::{NAME_END, shown_name};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SelectItem, SetExpr, SetOperator,
    SetQuantifier, Statement, TableFactor, TableWithJoins, Visitor, VisitorMut, With,
};

use crate::columns::{self, Column};
use crate::select::names::{folded, label_of};
use crate::select::nodes::cast;
use crate::select::scopes::{bare, inside};
use crate::select::sources::selects;
use crate::select::{Planner, parse, signed_outputs};

/// Casts both parts of each recursive query to the types of the first, in a query and in those inside it, and says whether it has: not where
/// that was done, or is being done, for the query that this one is a part of. `declared` are the types of the statement's parameters.
/// [`leave`] ends what it has begun.
///
/// # Errors
/// As [`check_parts`] and [`check_distinct`]; 0A000 where the types depend on the query around.
pub(in crate::select) fn settle(planner: &Planner<'_>, query: &mut Query, declared: &[u32]) -> Result<bool> {
    // Whoever asks for the types of one has settled those before it.
    if planner.is_typing.swap(true, Ordering::Relaxed) {
        return Ok(false);
    }
    let settled = settle_all(planner, query, declared);
    if settled.is_err() {
        leave(planner);
    }
    settled.map(|()| true)
}

/// No parts of the query that was settled are planned any more.
pub(in crate::select) fn leave(planner: &Planner<'_>) {
    planner.is_typing.store(false, Ordering::Relaxed);
}

fn settle_all(planner: &Planner<'_>, query: &mut Query, declared: &[u32]) -> Result<()> {
    if !is_recursive(query) {
        return Ok(());
    }
    let mut typing = Typing { planner, declared, around: Vec::new(), tables: Vec::new(), is_open: false };
    typing.inner(query)?;
    if typing.is_open {
        // What is wrong with the query itself comes first.
        planner.logical(Statement::Query(Box::new(query.clone())), declared)?;
        let message = "a recursive query that selects these columns of the query around it is not supported";
        return Err(Error::unsupported(message).with_hint("Read them in its WHERE, or beside it."));
    }
    Ok(())
}

/// Whether there is a WITH RECURSIVE in a query.
fn is_recursive(query: &Query) -> bool {
    struct Recursive;
    impl Visitor for Recursive {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match &query.with {
                Some(with) if with.recursive => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::visit(query, &mut Recursive).is_break()
}

struct Typing<'a, 'b> {
    planner: &'a Planner<'b>,
    declared: &'a [u32],
    /// The WITH of the queries around, from the outermost, as far as their queries are typed.
    around: Vec<Option<With>>,
    /// The FROM of the SELECTs around, and how many of `around` are in force there.
    tables: Vec<(usize, Vec<TableWithJoins>)>,
    /// Whether a part selects columns of which nobody knows whose they are.
    is_open: bool,
}

impl VisitorMut for Typing<'_, '_> {
    type Break = Error;

    /// What is in a WITH is typed here, in its order, and then taken away from the walk.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match query.with.take().map(|with| self.with(with)).transpose() {
            Ok(with) => {
                self.around.push(with);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        query.with = self.around.pop().flatten();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.tables.push((self.around.len(), select.from.clone()));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        self.tables.pop();
        ControlFlow::Continue(())
    }
}

impl Typing<'_, '_> {
    fn inner(&mut self, query: &mut Query) -> Result<()> {
        walk::outcome(walk::visit_mut(query, self))
    }

    fn with(&mut self, with: With) -> Result<With> {
        let With { with_token, recursive, cte_tables } = with;
        let seen = With { with_token, recursive, cte_tables: Vec::with_capacity(cte_tables.len()) };
        self.around.push(Some(seen));
        for mut cte in cte_tables {
            if recursive {
                self.recursive(&mut cte)?;
            } else {
                self.inner(&mut cte.query)?;
            }
            self.see(cte);
        }
        self.around.pop().flatten().ok_or_else(|| Error::internal("a WITH is in force until its queries are typed"))
    }

    fn recursive(&mut self, cte: &mut Cte) -> Result<()> {
        let mut beside = cte.clone();
        let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = cte.query.body.as_mut()
        else {
            return self.inner(&mut cte.query);
        };
        let is_distinct = !matches!(set_quantifier, SetQuantifier::All);
        self.part(left)?;
        let Some(first) = self.columns_of(left) else { return self.part(right) };
        if is_distinct {
            check_distinct(&first)?;
        }
        let types: Vec<Option<SqlType>> = first.iter().map(|column| castable(column.sql_type)).collect();
        cast_outputs(left, &types, true);
        // The other part reads the rows of the first as those of a query that is not recursive.
        *beside.query = bare(&SetExpr::Query(Box::new(bare(left))));
        let name = folded(&beside.alias.name);
        self.see(beside);
        self.part(right)?;
        let then = self.columns_of(right);
        if let Some(Some(with)) = self.around.last_mut() {
            with.cte_tables.pop();
        }
        if let Some(then) = then {
            check_parts(shown_name(&name), &first, &then)?;
        }
        cast_outputs(right, &types, false);
        Ok(())
    }

    /// Adds a query to the innermost WITH.
    fn see(&mut self, cte: Cte) {
        if let Some(Some(with)) = self.around.last_mut() {
            with.cte_tables.push(cte);
        }
    }

    /// Types what is inside a part.
    fn part(&mut self, body: &mut SetExpr) -> Result<()> {
        let mut query = bare(body);
        self.inner(&mut query)?;
        *body = *query.body;
        Ok(())
    }

    /// The columns of a part; `None` for what cannot be planned: what is wrong with it is found when all of it is.
    fn columns_of(&mut self, body: &SetExpr) -> Option<Vec<Column>> {
        let mut query = bare(body);
        for select in selects(&mut query.body) {
            select.selection = None;
        }
        match self.planned(inside(all_of(&self.around), query.clone())) {
            Ok(columns) => Some(columns),
            Err(error) if matches!(error.code(), ErrorCode::UndefinedColumn | ErrorCode::UndefinedTable) => {
                let columns = self.beside_tables(query).and_then(|query| self.planned(query).ok());
                self.is_open |= columns.is_none();
                columns
            }
            Err(_) => None,
        }
    }

    fn planned(&self, query: Query) -> Result<Vec<Column>> {
        let plan = self.planner.logical(Statement::Query(Box::new(query)), self.declared)?;
        let plan = signed_outputs(self.planner.analysed(plan)?)?;
        columns::of_schema(plan.schema().as_arrow())
    }

    /// A part beside the tables around it, whose columns it may select. What is recursive there is left out: it may be the part itself.
    fn beside_tables(&self, part: Query) -> Option<Query> {
        let text = format!("SELECT \"beside{NAME_END}\".* FROM t, LATERAL (SELECT 1) AS \"beside{NAME_END}\"");
        let Ok(Statement::Query(mut query)) = parse(&text) else { return None };
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        let mut beside = select.from.pop()?;
        let (outer, inner) = self.around.split_at_checked(self.tables.last()?.0)?;
        let TableFactor::Derived { subquery, .. } = &mut beside.relation else { return None };
        **subquery = inside(all_of(inner), part);
        select.from = self.tables.iter().flat_map(|(_, tables)| tables).flat_map(apart).collect();
        select.from.push(beside);
        Some(inside(all_of(outer), *query))
    }
}

/// The WITH that have queries.
fn all_of(around: &[Option<With>]) -> Vec<With> {
    around.iter().flatten().filter(|with| !with.cte_tables.is_empty()).cloned().collect()
}

/// The tables of an item of FROM that are not recursive, each by itself.
fn apart(table: &TableWithJoins) -> Vec<TableWithJoins> {
    let factors = std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation));
    let alone = factors.map(|factor| TableWithJoins { relation: factor.clone(), joins: Vec::new() });
    let is_plain = |table: &TableWithJoins| match parse("SELECT 1") {
        Ok(Statement::Query(mut query)) => {
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.from = vec![table.clone()];
            }
            !is_recursive(&query)
        }
        _ => false,
    };
    alone.filter(is_plain).collect()
}

/// The engine tells the rows of a recursive UNION apart by their bytes.
///
/// # Errors
/// 0A000 for types whose values may be equal and look different.
fn check_distinct(columns: &[Column]) -> Result<()> {
    let is_told_by_bytes =
        |column: &Column| !matches!(column.sql_type.scalar(), ScalarType::Interval | ScalarType::Jsonb);
    if columns.iter().all(is_told_by_bytes) {
        return Ok(());
    }
    Err(Error::unsupported("UNION of intervals or jsonb in a recursive query is not supported")
        .with_hint("Write UNION ALL, or cast them to text."))
}

/// The engine makes what the other part of a recursive query gives one of the first part's types, whatever that takes.
///
/// # Errors
/// 42804 for a type that has values which that of the first part has not; 0A000 for a numeric of more digits behind the point, which
/// PostgreSQL keeps.
fn check_parts(name: &str, first: &[Column], then: &[Column]) -> Result<()> {
    use ScalarType::{Date, Float4, Float8, Int2, Int4, Int8, Numeric, Timestamp, Timestamptz};
    for (number, (first, then)) in (1..).zip(first.iter().zip(then)) {
        let (SqlType::Scalar(one), SqlType::Scalar(other)) = (first.sql_type, then.sql_type) else { continue };
        let is_wider = match one {
            Int2 | Int4 | Int8 => matches!(other, Numeric { .. } | Float4 | Float8),
            Numeric { .. } => matches!(other, Float4 | Float8),
            Float4 => other == Float8,
            Date => matches!(other, Timestamp | Timestamptz),
            Timestamp => other == Timestamptz,
            _ => false,
        };
        if is_wider {
            let (one, other) = (name_of(first.sql_type), name_of(then.sql_type));
            let message = format!(
                "recursive query \"{name}\" column {number} has type {one} in non-recursive term but type {other} overall"
            );
            return Err(Error::new(ErrorCode::DatatypeMismatch, message)
                .with_hint("Cast the output of the non-recursive term to the correct type."));
        }
        if let (Numeric { scale: digits, .. }, Numeric { scale: wanted, .. }) = (one, other)
            && wanted > digits
        {
            let message = format!(
                "column {number} of the recursive query \"{name}\" with more digits behind the point than in its first part is not supported"
            );
            return Err(Error::unsupported(message).with_hint("Cast it to one numeric(p, s) in both parts."));
        }
    }
    Ok(())
}

/// Types that a cast neither cuts nor rounds.
fn castable(sql_type: SqlType) -> Option<SqlType> {
    match sql_type.scalar() {
        ScalarType::Numeric { .. } | ScalarType::Varchar { .. } | ScalarType::Char { .. } => None,
        _ => Some(sql_type),
    }
}

/// `nullable`: what comes out may be NULL, whatever goes in; the first part decides that for both.
fn cast_outputs(body: &mut SetExpr, types: &[Option<SqlType>], nullable: bool) {
    match body {
        SetExpr::Select(select) if select.projection.len() == types.len() => {
            let plain =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            if !select.projection.iter().all(plain) {
                return;
            }
            let mut labels: Vec<String> = Vec::new();
            for (ordinal, (item, sql_type)) in select.projection.iter_mut().zip(types).enumerate() {
                let Some(sql_type) = sql_type else { continue };
                match item {
                    SelectItem::UnnamedExpr(expr) => {
                        let mut label = label_of(expr);
                        if label == "?column?" || labels.contains(&label) {
                            label = format!("{label}{NAME_END}{ordinal}");
                        }
                        labels.push(label.clone());
                        let expr = settled(expr.clone(), *sql_type, nullable);
                        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', label) };
                    }
                    SelectItem::ExprWithAlias { expr, .. } => *expr = settled(expr.clone(), *sql_type, nullable),
                    _ => {}
                }
            }
        }
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (cell, sql_type) in row.content.iter_mut().zip(types) {
                    if let Some(sql_type) = sql_type {
                        *cell = settled(cell.clone(), *sql_type, nullable);
                    }
                }
            }
        }
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            cast_outputs(left, types, nullable);
            cast_outputs(right, types, nullable);
        }
        SetExpr::Query(query) if query.with.is_none() => cast_outputs(&mut query.body, types, nullable),
        _ => {}
    }
}

/// The expression as a type; `NULLIF(expr, NULL)` is the same value that may be NULL.
fn settled(expr: Expr, sql_type: SqlType, nullable: bool) -> Expr {
    if !nullable {
        return cast(expr, sql_type);
    }
    let Ok(Statement::Query(query)) = parse("SELECT nullif(NULL, NULL)") else { return expr };
    let SetExpr::Select(mut select) = *query.body else { return expr };
    let Some(SelectItem::UnnamedExpr(Expr::Function(mut function))) = select.projection.pop() else { return expr };
    if let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
    {
        *first = expr;
    }
    cast(Expr::Function(function), sql_type)
}

//! WITH: an inner name hides an outer one, and the columns of a recursive query have the types of its first part.
//!
//! Called by the planner for each query before it is planned.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use ashlar_functions::catalog::name_of;
use ashlar_functions::names::{NAME_END, shown_name};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    CastKind, Cte, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query,
    SelectItem, SetExpr, SetOperator, Statement, TableAlias, TableFactor, Visitor, VisitorMut, With,
};

use super::names::{folded, label_of};
use super::{Planner, SelectPlan};
use crate::columns::Column;
use crate::sql_types::ast_of;

/// Gives a name of its own to each WITH query that has the name of one around it.
///
/// # Errors
/// 42712 for two of the same name in one WITH.
pub(super) fn rename_hidden(query: &mut Query) -> Result<()> {
    if count_of_with(query) == 0 {
        return Ok(());
    }
    let mut renaming = Renaming { outer: Vec::new(), number: 0 };
    match walk::visit_mut(query, &mut renaming) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
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

/// Casts both parts of each recursive query of a WITH to the types of the first.
///
/// # Errors
/// As [`check_parts`].
pub(super) fn type_recursive(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    // Whoever asks for the types of one has settled those before it.
    if planner.is_typing.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let typed = type_each(planner, query);
    planner.is_typing.store(false, Ordering::Relaxed);
    typed
}

fn type_each(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    let Some(with) = &mut query.with else { return Ok(()) };
    if !with.recursive {
        return Ok(());
    }
    for index in 0..with.cte_tables.len() {
        let (before, rest) = with.cte_tables.split_at_mut(index);
        let mut beside = before.to_vec();
        beside.push(rest[0].clone());
        let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = rest[0].query.body.as_mut() else {
            continue;
        };
        let seeing = |cte_tables: Vec<Cte>| With { with_token: with.with_token.clone(), recursive: true, cte_tables };
        let first = Query { with: (!before.is_empty()).then(|| seeing(before.to_vec())), ..bare(left) };
        // What is wrong with it is found when all of it is planned.
        let Ok(plan) = SelectPlan::new(planner, Statement::Query(Box::new(first)), &[]) else { continue };
        let types: Vec<Option<SqlType>> = plan.columns.iter().map(|column| castable(column.sql_type)).collect();
        cast_outputs(left, &types, true);
        // The other part reads the rows of the first as those of a query that is not recursive.
        if let Some(cte) = beside.last_mut() {
            *cte.query = bare(&SetExpr::Query(Box::new(bare(left))));
            let name = folded(&cte.alias.name);
            let then = Query { with: Some(seeing(beside)), ..bare(right) };
            if let Ok(then) = SelectPlan::new(planner, Statement::Query(Box::new(then)), &[]) {
                check_parts(shown_name(&name), &plan.columns, &then.columns)?;
            }
        }
        cast_outputs(right, &types, false);
    }
    Ok(())
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
        SetExpr::Query(query) if query.with.is_none() => cast_outputs(&mut query.body, types, nullable),
        _ => {}
    }
}

/// The expression as a type; `NULLIF(expr, NULL)` is the same value that may be NULL.
fn settled(expr: Expr, sql_type: SqlType, nullable: bool) -> Expr {
    if !nullable {
        return cast(expr, sql_type);
    }
    let Ok(Statement::Query(query)) = super::parse("SELECT nullif(NULL, NULL)") else { return expr };
    let SetExpr::Select(mut select) = *query.body else { return expr };
    let Some(SelectItem::UnnamedExpr(Expr::Function(mut function))) = select.projection.pop() else { return expr };
    if let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
    {
        *first = expr;
    }
    cast(Expr::Function(function), sql_type)
}

/// `CAST(expr AS type)`
pub(super) fn cast(expr: Expr, sql_type: SqlType) -> Expr {
    let data_type = ast_of(sql_type);
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

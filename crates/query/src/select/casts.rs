//! Casts that distinguish groups, aggregates or window functions of one SELECT: `min(a), min(a::text)`, `GROUP BY a,
//! a::text`. The engine names these by their text without casts, and refuses two of one name. If that would happen,
//! each cast of a column gets its type into its name.
//!
//! Called by the planner for each query, after its outputs have been named: the names of outputs do not change.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use ashlar_functions::named_casts::NAMED_CAST;
use ashlar_functions::walk;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, OrderBy, Query, Select,
    SetExpr, Value, VisitorMut,
};

use super::grouping::item_of;
use super::names::folded;
use super::nodes::call;
use super::reading::without_tables;
use super::sources::selects;
use crate::expressions::sql_type_of;
use crate::sql_types::ast_of;

/// Names the casts of a query and of the queries inside it, where it takes that.
pub(super) fn tell_apart(state: &SessionState, query: &mut Query) {
    struct Each<'s>(&'s SessionState);
    impl VisitorMut for Each<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
            // What a union is sorted by are outputs.
            let mut nothing = None;
            let order_by = if is_select { &mut query.order_by } else { &mut nothing };
            for select in selects(query.body.as_mut()) {
                if is_concerned(self.0, select, order_by) {
                    name_casts(select, order_by);
                }
            }
            ControlFlow::Continue(())
        }
    }
    if walk::expressions(&*query, is_cast).is_break() {
        let _ = walk::visit_mut(query, &mut Each(state));
    }
}

/// Stops at a cast.
fn is_cast(expr: &Expr) -> ControlFlow<()> {
    if matches!(expr, Expr::Cast { .. }) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Calls `f` with every expression of a SELECT that may hold a group or an aggregate, and is not one of a query inside.
fn each(select: &Select, order_by: &Option<OrderBy>, f: &mut dyn FnMut(&Expr) -> ControlFlow<()>) -> ControlFlow<()> {
    for item in &select.projection {
        walk::own_expressions(item, &mut *f)?;
    }
    walk::own_expressions(&select.group_by, &mut *f)?;
    walk::own_expressions(&select.having, &mut *f)?;
    if let Some(Distinct::On(on)) = &select.distinct {
        for expr in on {
            walk::own_expressions(expr, &mut *f)?;
        }
    }
    walk::own_expressions(order_by, f)
}

/// Whether two groups or two aggregates differ by their casts alone.
fn is_concerned(state: &SessionState, select: &Select, order_by: &Option<OrderBy>) -> bool {
    if each(select, order_by, &mut is_cast).is_continue() {
        return false;
    }
    let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else { return false };
    let is_set = |expr: &Expr| matches!(expr, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
    // What the optimiser makes of sets of groups keeps no names.
    if !modifiers.is_empty() || groups.iter().any(is_set) {
        return false;
    }
    let mut known = Known::default();
    for group in groups {
        known.see(item_of(group, &select.projection).unwrap_or(group));
    }
    let _ = each(select, order_by, &mut |expr: &Expr| {
        if matches!(expr, Expr::Function(function) if is_over_rows(state, function)) {
            known.see(expr);
        }
        ControlFlow::Continue(())
    });
    known.is_shared
}

/// Whether a call is one of an aggregate or of a window function.
pub(super) fn is_over_rows(state: &SessionState, function: &Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    function.over.is_some() || name.is_some_and(|name| state.aggregate_functions().contains_key(&name))
}

/// What was seen, by its text without casts.
#[derive(Default)]
struct Known {
    texts: HashMap<String, String>,
    /// Two of them differ by their casts alone.
    is_shared: bool,
}

impl Known {
    fn see(&mut self, expr: &Expr) {
        let text = without_tables(expr);
        let mut bare = expr.clone();
        let _: ControlFlow<()> = walk::expressions_mut(&mut bare, |expr| {
            if let Expr::Cast { expr: inner, .. } = expr {
                *expr = Expr::clone(inner);
            }
            ControlFlow::Continue(())
        });
        match self.texts.entry(without_tables(&bare)) {
            Entry::Vacant(entry) => {
                entry.insert(text);
            }
            Entry::Occupied(entry) => self.is_shared |= *entry.get() != text,
        }
    }
}

fn name_casts(select: &mut Select, order_by: &mut Option<OrderBy>) {
    for item in &mut select.projection {
        let _ = walk::own_expressions_mut(item, name_cast);
    }
    let _ = walk::own_expressions_mut(&mut select.group_by, name_cast);
    let _ = walk::own_expressions_mut(&mut select.having, name_cast);
    if let Some(Distinct::On(on)) = &mut select.distinct {
        for expr in on {
            let _ = walk::own_expressions_mut(expr, name_cast);
        }
    }
    let _ = walk::own_expressions_mut(order_by, name_cast);
}

/// Aggregates that take a constant as they take any other value.
const OF_VALUES: [&str; 5] = ["sum", "avg", "min", "max", "count"];

/// A cast of a column gets its type into its name; a constant is wanted as one in places, but not by these.
fn name_cast(expr: &mut Expr) -> ControlFlow<()> {
    match expr {
        Expr::Cast { expr: inner, .. } if reads_column(inner) => named(expr),
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
            if name.is_some_and(|name| OF_VALUES.contains(&name.as_str()))
                && let FunctionArguments::List(list) = &mut function.args
            {
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg {
                        named(arg);
                    }
                }
            }
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// Gives a cast a name with its type.
fn named(expr: &mut Expr) {
    let Expr::Cast { data_type, .. } = &*expr else { return };
    // However it is spelled.
    let known = sql_type_of(data_type).ok().flatten().map(ast_of);
    let name = known.as_ref().unwrap_or(data_type).to_string();
    let cast = std::mem::replace(expr, Expr::value(Value::Null));
    *expr = call(NAMED_CAST, vec![cast, Expr::value(Value::SingleQuotedString(name))]);
}

fn reads_column(expr: &Expr) -> bool {
    let is_name = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    walk::expressions(expr, is_name).is_break()
}

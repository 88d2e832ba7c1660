//! CASE, COALESCE, NULLIF, GREATEST and LEAST of json values. The engine stores json as text, and forgets which of
//! the two a value is when values of several branches are combined.
//!
//! Runs right before the engine's planner, over a query whose names are settled. It passes the type of one of the
//! values on as a second argument of a function that is removed again: see `ashlar_functions::kin`.

use std::ops::ControlFlow;

use arrow::datatypes::Fields;
use ashlar_base::{ScalarType, SqlType};
use ashlar_functions::kin::KIN;
use ashlar_functions::walk;
use ashlar_store::arrow_types::sql_type_of;
use datafusion::common::{DFSchema, TableReference};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, Value, Visitor,
};

use super::Planner;
use super::names::folded;
use super::nodes::call;

/// Functions of values that meet.
const MEETING: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];

/// Marks what a query says of values that meet, if it may be about json.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query) {
    if says_json(&query.to_string()) || walk::visit(query, &mut Tables(planner)).is_break() {
        // It goes through to the end.
        let _ = walk::expressions_mut(query, mark);
    }
}

/// The same of an expression over columns of a schema.
pub(super) fn settle_expression(expr: &mut Expr, schema: &DFSchema) {
    if says_json(&expr.to_string()) || has_json(schema.fields()) {
        let _ = walk::expressions_mut(expr, mark);
    }
}

fn says_json(text: &str) -> bool {
    text.to_ascii_lowercase().contains("json")
}

fn has_json(fields: &Fields) -> bool {
    let is_json = |found: SqlType| matches!(found.scalar(), ScalarType::Json | ScalarType::Jsonb);
    fields.iter().any(|field| sql_type_of(field).is_some_and(is_json))
}

/// Looks for tables that have columns of json.
struct Tables<'a, 'b>(&'a Planner<'b>);

impl Visitor for Tables<'_, '_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let Some(name) = relation.0.last().and_then(|part| part.as_ident()) else { return ControlFlow::Continue(()) };
        match self.0.provider(&TableReference::bare(folded(name))) {
            Ok(table) if has_json(table.schema().fields()) => ControlFlow::Break(()),
            // A name of another kind is for the planner to know.
            _ => ControlFlow::Continue(()),
        }
    }
}

fn mark(expr: &mut Expr) -> ControlFlow<()> {
    let known = match expr {
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
            known_of(results)
        }
        Expr::Function(function) if is_meeting(function) => {
            let known = known_of(args_of(function));
            if let Some(known) = &known {
                mark_quoted(function, known);
            }
            known
        }
        _ => None,
    };
    if let Some(known) = known {
        let value = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = call(KIN, vec![value, known]);
    }
    ControlFlow::Continue(())
}

/// Marks quoted literals among arguments that are compared: beside an array they are arrays.
fn mark_quoted(function: &mut Function, known: &Expr) {
    let is_compared = function.name.0.last().and_then(|part| part.as_ident());
    let is_compared = is_compared.is_some_and(|name| folded(name) != "coalesce");
    let FunctionArguments::List(list) = &mut function.args else { return };
    for arg in list.args.iter_mut().filter(|_| is_compared) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg
            && matches!(value, Expr::Value(of) if matches!(of.value, Value::SingleQuotedString(_)))
        {
            let quoted = std::mem::replace(value, Expr::value(Value::Null));
            *value = call(KIN, vec![quoted, known.clone()]);
        }
    }
}

/// The first value whose type does not follow from the others'.
fn known_of<'e>(mut values: impl Iterator<Item = &'e Expr>) -> Option<Expr> {
    values.find(|value| !is_open(value)).cloned()
}

fn is_open(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_open(inner),
        Expr::Value(value) => {
            matches!(value.value, Value::SingleQuotedString(_) | Value::Null | Value::Placeholder(_))
        }
        _ => false,
    }
}

fn is_meeting(function: &Function) -> bool {
    let [part] = &function.name.0[..] else { return false };
    part.as_ident().is_some_and(|name| MEETING.contains(&folded(name).as_str()))
}

fn args_of(function: &Function) -> impl Iterator<Item = &Expr> {
    let args = match &function.args {
        FunctionArguments::List(list) => &list.args[..],
        _ => &[],
    };
    args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

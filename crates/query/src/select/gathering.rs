//! Calls that are rewritten with arrays: functions in the select list that return rows, by `unnest`; and aggregates
//! that are functions of all their inputs, by `array_agg`. Called while a statement is rewritten.

use std::ops::ControlFlow;

use ashlar_base::Error;
use ashlar_functions::matches::REPLACE_FROM;
use ashlar_functions::walk::{self, flow};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value,
};

use super::from_functions::{array_type, json_type, unnested};
use super::names::folded;
use super::nodes::call;
use super::rewrite::copies::{Copies, nodes_of};
use super::rewrite::refuse;

/// Functions that give a row for each element of an array; `unnest` is the engine's own.
const ROWS: [&str; 11] = [
    "generate_series",
    "generate_subscripts",
    "string_to_table",
    "regexp_matches",
    "regexp_split_to_table",
    "json_object_keys",
    "jsonb_object_keys",
    "json_array_elements",
    "jsonb_array_elements",
    "json_array_elements_text",
    "jsonb_array_elements_text",
];

/// The last argument of functions whose values differ from row to row: the engine takes a call of constants for a constant, whatever is said of the
/// function, and drops an ORDER BY of it.
const EACH_ROW: &str = "random";

fn is_mark(arg: &FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(function))) = arg else { return false };
    matches!(&function.name.0[..], [part] if part.as_ident().is_some_and(|ident| ident.value == EACH_ROW))
}

/// What a call stands for; `None` where it stands for itself.
pub(super) fn call_of_array(function: &Function, copies: &mut Copies) -> ControlFlow<Error, Option<Expr>> {
    let [part] = &function.name.0[..] else { return ControlFlow::Continue(None) };
    let Some(name) = part.as_ident().map(folded) else { return ControlFlow::Continue(None) };
    let FunctionArguments::List(list) = &function.args else { return ControlFlow::Continue(None) };
    let refused = |form: &str| match refuse(&format!("{form} of {name}")) {
        ControlFlow::Break(error) => ControlFlow::Break(error),
        ControlFlow::Continue(()) => ControlFlow::Continue(None),
    };
    let marked = format!("{name}\u{1}");
    ControlFlow::Continue(Some(match (name.as_str(), &list.args[..]) {
        (rows, _) if ROWS.contains(&rows) => {
            let is_json = rows.ends_with("_elements");
            let array = Expr::Function(Function { name: named(&marked), ..function.clone() });
            let cast = if is_json { json_type(rows) } else { array_type(rows) };
            unnested(array, cast)
        }
        ("regexp_replace", args) if says_where(args) => {
            Expr::Function(Function { name: named(REPLACE_FROM), ..function.clone() })
        }
        ("nextval" | "currval" | "setval", [FunctionArg::Unnamed(FunctionArgExpr::Expr(sequence)), others @ ..])
            if !others.iter().any(is_mark) =>
        {
            // The sequence is said by its name, which is what a cast is of.
            let sequence = match sequence {
                Expr::Cast { expr, data_type: DataType::Regclass, .. } => expr,
                other => other,
            };
            let mut args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(sequence.clone()))];
            args.extend_from_slice(others);
            args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(call(EACH_ROW, Vec::new()))));
            let args = FunctionArguments::List(FunctionArgumentList { args, ..list.clone() });
            Expr::Function(Function { args, ..function.clone() })
        }
        ("json_agg" | "jsonb_agg", [_]) => call(&marked, vec![gathered(function, list.clone())]),
        ("json_object_agg" | "jsonb_object_agg", [key, value]) => {
            if list.duplicate_treatment.is_some() {
                return refused("DISTINCT");
            }
            flow(copies.take(nodes_of(function)))?;
            let one = |arg: &FunctionArg| {
                gathered(function, FunctionArgumentList { args: vec![arg.clone()], ..list.clone() })
            };
            call(&marked, vec![one(key), one(value)])
        }
        ("mode", []) | ("percentile_disc", [_]) if !function.within_group.is_empty() => {
            let [order] = &function.within_group[..] else { return refused("this form") };
            flow(copies.take(nodes_of(function)))?;
            let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(order.expr.clone()))];
            let clauses = vec![FunctionArgumentClause::OrderBy(vec![order.clone()])];
            let sorted = gathered(function, FunctionArgumentList { duplicate_treatment: None, args, clauses });
            match &list.args[..] {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(_)))] => return refused("several parts"),
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(part))] => call(&marked, vec![sorted, part.clone()]),
                _ => call(&marked, vec![sorted]),
            }
        }
        ("pg_typeof", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))])
            if matches!(value.value, Value::SingleQuotedString(_) | Value::Null) =>
        {
            Expr::value(Value::SingleQuotedString("unknown".to_owned()))
        }
        _ => return ControlFlow::Continue(None),
    }))
}

/// Whether `regexp_replace` is told a place to begin at: its fourth argument may be flags too.
fn says_where(args: &[FunctionArg]) -> bool {
    let is_number = |arg: &FunctionArg| {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return false };
        let expr = if let Expr::UnaryOp { expr, .. } = expr { expr.as_ref() } else { expr };
        matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
    };
    args.len() > 4 || args.get(3).is_some_and(is_number)
}

fn named(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', name)])
}

/// `array_agg` over the rows that the aggregate is over.
fn gathered(function: &Function, args: FunctionArgumentList) -> Expr {
    let name = named("array_agg");
    Expr::Function(Function { name, args: FunctionArguments::List(args), within_group: Vec::new(), ..function.clone() })
}

/// Whether an expression holds a function that gives rows, outside of its subqueries.
pub(super) fn gives_rows(expr: &Expr) -> bool {
    let found = walk::own_expressions(expr, |expr| {
        if let Expr::Function(function) = expr
            && let [part] = &function.name.0[..]
            && let Some(name) = part.as_ident().map(folded)
            && (name == "unnest" || ROWS.contains(&name.as_str()))
        {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found.is_break()
}

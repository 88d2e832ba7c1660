//! Parameters as arguments of functions that take a number or a boolean: puts a cast with the type around each.
//!
//! Called before the other passes over a query. The engine asks these functions for their types before the types of
//! parameters are known, and finds none for an argument without a type. A type that the client has declared stays.

use std::ops::ControlFlow;

use ashlar_base::{ScalarType, SqlType};
use ashlar_functions::series::SERIES;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value, VisitorMut,
};

use super::names::folded;
use super::nodes::cast;
use crate::parameters::number_of;

const INTEGER: Option<ScalarType> = Some(ScalarType::Int4);
const DOUBLE: Option<ScalarType> = Some(ScalarType::Float8);
const NUMBER: Option<ScalarType> = Some(ScalarType::Int8);
const WHETHER: Option<ScalarType> = Some(ScalarType::Bool);

/// Functions with the types of their first arguments; `None` for one that may be of any.
static PLACES: [(&str, &[Option<ScalarType>]); 10] = [
    ("make_date", &[INTEGER, INTEGER, INTEGER]),
    ("make_time", &[INTEGER, INTEGER, DOUBLE]),
    ("make_timestamp", &[INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, DOUBLE]),
    ("make_interval", &[INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, DOUBLE]),
    ("ntile", &[INTEGER]),
    ("lag", &[None, INTEGER]),
    ("lead", &[None, INTEGER]),
    ("nth_value", &[None, INTEGER]),
    ("percentile_cont", &[DOUBLE]),
    ("setval", &[None, NUMBER, WHETHER]),
];

/// Puts the casts in. To do it again changes nothing.
pub(super) fn settle(query: &mut Query, declared: &[u32]) {
    let _ = walk::visit_mut(query, &mut Places { declared });
}

struct Places<'a> {
    /// Types of the statement's parameters.
    declared: &'a [u32],
}

impl Places<'_> {
    /// Whether it is a parameter of which the client has not said what it is.
    fn is_open(&self, expr: &Expr) -> bool {
        let Expr::Value(value) = expr else { return false };
        let Value::Placeholder(id) = &value.value else { return false };
        let declared = number_of(id).and_then(|number| self.declared.get(number));
        declared.is_none_or(|oid| SqlType::from_oid(*oid).is_none())
    }

    fn arguments(&self, function: &mut Function) {
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
        let FunctionArguments::List(list) = &mut function.args else { return };
        if name.as_deref() == Some(SERIES) {
            return self.series(&mut list.args);
        }
        let Some((_, types)) = PLACES.iter().find(|(known, _)| name.as_deref() == Some(*known)) else { return };
        for (arg, wanted) in list.args.iter_mut().zip(*types) {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg
                && let Some(wanted) = wanted
                && self.is_open(expr)
            {
                *expr = cast(expr.clone(), SqlType::Scalar(*wanted));
            }
        }
    }
}

impl Places<'_> {
    /// Beside whole numbers that are written out the bounds of a series are integers, and so is the series.
    fn series(&self, args: &mut [FunctionArg]) {
        let mut bounds = Vec::new();
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return };
            bounds.push(expr);
        }
        let open = bounds.iter().filter(|expr| self.is_open(expr)).count();
        let whole = bounds.iter().filter(|expr| is_integer(expr)).count();
        if open > 0 && whole > 0 && open + whole == bounds.len() {
            for expr in bounds {
                *expr = cast(expr.clone(), ScalarType::Int4.into());
            }
        }
    }
}

fn is_integer(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else { return false };
    matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok())
}

impl VisitorMut for Places<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            self.arguments(function);
        }
        ControlFlow::Continue(())
    }
}

//! Replaces PostgreSQL spellings that DataFusion's planner does not know by equivalent ones: names in `pg_catalog`,
//! `OPERATOR(...)`, `COLLATE`, `ARRAY(SELECT ...)`, functions in `FROM`.
//!
//! Called for every expression and every item of `FROM` while a statement is rewritten. Looks at syntax only: what
//! depends on a type or a table comes later.

use std::ops::ControlFlow;

use ashlar_base::Error;
use ashlar_functions::array_rows::{ARRAY_OR_EMPTY, NUMBERED};
use ashlar_functions::walk::flow;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Distinct, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByExpr,
    OrderByKind, Query, SelectItem, SetExpr, Subscript, TableAlias, TableFactor, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::Postgres;
use super::names::folded;
use super::nodes::{call, call_of, call_with};
use super::rewrite::copies::{Copies, nodes_of};
use super::rewrite::refuse;
use super::{array_subqueries, from_functions, gathering};

/// The schema whose names are found without it.
const SYSTEM_SCHEMA: &str = "pg_catalog";

/// Lowers one expression; what is inside it is looked at by the caller afterwards.
pub(super) fn expression(expr: &mut Expr, copies: &mut Copies) -> ControlFlow<Error> {
    while let Expr::Collate { expr: inner, collation } = expr {
        check_collation(collation)?;
        *expr = Expr::clone(inner);
    }
    if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
        access_chain.iter_mut().for_each(say_bounds);
        access_chain.iter_mut().for_each(say_index);
    }
    match expr {
        Expr::Case { .. } if gathering::gives_rows(expr) => {
            let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
            let error = Error::unsupported("set-returning functions are not allowed in CASE").with_hint(hint);
            return ControlFlow::Break(error);
        }
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
                *op = operator(parts)?;
            }
        }
        Expr::Cast { data_type, .. } => strip_type(data_type)?,
        Expr::TypedString(typed) => strip_type(&mut typed.data_type)?,
        Expr::Function(function) => {
            strip(&mut function.name);
            if is_expandarray(&function.name) {
                // A row for each element: one function that gives an array of them, and one that makes rows of it.
                let array = call_of(NUMBERED, std::mem::replace(&mut function.args, FunctionArguments::None));
                *expr = call("unnest", vec![array]);
            } else if let Some(literal) = date_of_literal(function) {
                *expr = literal;
            } else if let Some(replaced) = gathering::call_of_array(function, copies)? {
                *expr = replaced;
            } else if let FunctionArguments::Subquery(query) = &mut function.args
                && is_named(&function.name, "array")
            {
                *expr = array_of(query, copies)?;
            }
        }
        // The planner wants the name of a field as a string; behind a name it is a column of a table.
        Expr::CompoundFieldAccess { root, access_chain }
            if !matches!(root.as_ref(), Expr::Identifier(_) | Expr::CompoundIdentifier(_)) =>
        {
            for access in access_chain {
                if let AccessExpr::Dot(field) = access
                    && let Expr::Identifier(name) = field
                {
                    *field = Expr::value(Value::SingleQuotedString(folded(name)));
                }
            }
        }
        // Reserved words in PostgreSQL: no column has such a name unquoted.
        Expr::Identifier(name) if name.quote_style.is_none() && is_bare_function(name) => {
            *expr = call_of(&name.value.to_ascii_lowercase(), FunctionArguments::None);
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// `date('2024-01-05')` is a literal of the type, as of a function that has its name.
fn date_of_literal(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = &list.args[..] else { return None };
    let is_open = matches!(value.value, Value::SingleQuotedString(_) | Value::Null);
    (is_open && is_named(&function.name, "date")).then(|| Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(Expr::Value(value.clone())),
        data_type: DataType::Date,
        array: false,
        format: None,
    })
}

/// `a[:2]` is `a[0:2]`, where no array begins before, and `a[2:]` goes to where no array is longer.
fn say_bounds(access: &mut AccessExpr) {
    let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access else { return };
    let number = |digits: String| Expr::value(Value::Number(digits, false));
    lower_bound.get_or_insert_with(|| number("0".to_owned()));
    upper_bound.get_or_insert_with(|| number(i32::MAX.to_string()));
}

/// A quoted subscript is an index, of an array or of `jsonb`: bare, the planner would take it for the name of a field.
fn say_index(access: &mut AccessExpr) {
    if let AccessExpr::Subscript(Subscript::Index { index }) = access
        && matches!(index, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
    {
        *index = Expr::Nested(Box::new(index.clone()));
    }
}

/// Lowers one item of `FROM`.
pub(super) fn table_factor(factor: &mut TableFactor, copies: &mut Copies) -> ControlFlow<Error> {
    if let TableFactor::Table { name, alias, args: Some(args), .. } = factor {
        strip(name);
        if is_named(name, "pg_options_to_table")
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(options))] = &args.args[..]
        {
            *factor = options_table(options, alias.take())?;
        }
    }
    flow(from_functions::lower(factor, copies))
}

fn is_bare_function(name: &Ident) -> bool {
    let word = name.value.to_ascii_lowercase();
    matches!(word.as_str(), "current_role" | "current_schema")
}

pub(super) fn is_named(name: &ObjectName, expected: &str) -> bool {
    matches!(&name.0[..], [part] if part.as_ident().is_some_and(|ident| folded(ident) == expected))
}

fn is_expandarray(name: &ObjectName) -> bool {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    parts == ["information_schema", "_pg_expandarray"]
}

/// `pg_catalog.name` is `name`.
pub(super) fn strip(name: &mut ObjectName) {
    let is_system = |ident: &Ident| folded(ident) == SYSTEM_SCHEMA;
    if let [schema, _] = &name.0[..]
        && schema.as_ident().is_some_and(is_system)
    {
        name.0.remove(0);
    }
}

/// `pg_catalog.int4` is `int4`.
fn strip_type(data_type: &mut DataType) -> ControlFlow<Error> {
    match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() && name.0.len() == 2 => {
            strip(name);
            let [part] = &name.0[..] else { return ControlFlow::Continue(()) };
            // A quoted "char" is not the keyword.
            if let Some(ident) = part.as_ident()
                && (ident.quote_style.is_none() || ident.value != "char")
                && let Ok(parsed) =
                    Parser::new(&Postgres).try_with_sql(&ident.value).and_then(|mut parser| parser.parse_data_type())
            {
                *data_type = parsed;
            }
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => strip_type(element)?,
        _ => {}
    }
    ControlFlow::Continue(())
}

/// Text is ordered by its bytes here, as by these collations in a database whose own is `C`.
fn check_collation(collation: &ObjectName) -> ControlFlow<Error> {
    let mut name = collation.clone();
    strip(&mut name);
    match &name.0[..] {
        [part]
            if part
                .as_ident()
                .is_some_and(|ident| matches!(folded(ident).as_str(), "default" | "C" | "POSIX" | "ucs_basic")) =>
        {
            ControlFlow::Continue(())
        }
        _ => refuse(&format!("COLLATE {collation}")),
    }
}

/// The operator that `OPERATOR(schema.symbol)` names.
fn operator(parts: &[String]) -> ControlFlow<Error, BinaryOperator> {
    let symbol = match parts {
        [symbol] => symbol,
        [schema, symbol] if schema == SYSTEM_SCHEMA => symbol,
        _ => return refuse_value(&format!("OPERATOR({})", parts.join("."))),
    };
    ControlFlow::Continue(match symbol.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return refuse_value(&format!("OPERATOR({})", parts.join("."))),
    })
}

fn refuse_value<T>(what: &str) -> ControlFlow<Error, T> {
    ControlFlow::Break(Error::unsupported(format!("{what} is not supported")))
}

/// `ARRAY(SELECT x ... ORDER BY y)` is `(SELECT array_or_empty(array_agg(x ORDER BY y)) ...)`.
fn array_of(query: &Query, copies: &mut Copies) -> ControlFlow<Error, Expr> {
    let refused = "ARRAY of this form of a subquery";
    let mut query = query.clone();
    let order_by = match query.order_by.take().map(|order_by| order_by.kind) {
        None => Vec::new(),
        Some(OrderByKind::Expressions(items)) => items,
        Some(OrderByKind::All(_)) => return refuse_value(refused),
    };
    // PostgreSQL calls the column "array".
    let alias = Ident::with_quote('"', "array");
    if query.fetch.is_some() || query.with.is_some() {
        return refuse_value(refused);
    }
    if query.limit_clause.is_some() || chooses(&query.body) {
        let (array, mut around) = match array_subqueries::of_rows(query, order_by, copies) {
            Ok(Some(found)) => found,
            Ok(None) => return refuse_value(refused),
            Err(error) => return ControlFlow::Break(error),
        };
        if let SetExpr::Select(select) = around.body.as_mut() {
            select.projection = vec![SelectItem::ExprWithAlias { expr: array, alias }];
        }
        return ControlFlow::Continue(Expr::Subquery(around));
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return refuse_value(refused) };
    let item = match &mut select.projection[..] {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => expr.clone(),
        _ => return refuse_value(refused),
    };
    let copied = order_by.iter().filter(|item_order| is_one(&item_order.expr)).count();
    flow(copies.take(nodes_of(&item).saturating_mul(copied)))?;
    let order_by = order_by.into_iter().map(|item_order| OrderByExpr {
        expr: if is_one(&item_order.expr) { item.clone() } else { item_order.expr },
        ..item_order
    });
    let order_by: Vec<OrderByExpr> = order_by.collect();
    let clauses = if order_by.is_empty() { Vec::new() } else { vec![FunctionArgumentClause::OrderBy(order_by)] };
    let array = call(ARRAY_OR_EMPTY, vec![call_with("array_agg", vec![item], clauses)]);
    select.projection = vec![SelectItem::ExprWithAlias { expr: array, alias }];
    ControlFlow::Continue(Expr::Subquery(Box::new(query)))
}

/// Whether a SELECT makes other rows of those that it reads.
fn chooses(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else { return false };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    is_grouped || select.having.is_some() || matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_)))
}

/// `ORDER BY 1` means the one column there is.
fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if digits == "1"))
}

/// `pg_options_to_table`: options as `name=value`, each a row of its name and its value.
fn options_table(options: &Expr, alias: Option<TableAlias>) -> ControlFlow<Error, TableFactor> {
    let text = format!(
        "SELECT split_part(o, '=', 1) AS option_name, substr(o, strpos(o, '=') + 1) AS option_value \
         FROM (SELECT unnest({options}) AS o) AS options"
    );
    let parsed = Parser::new(&Postgres).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let Ok(subquery) = parsed else { return refuse_value("this call of pg_options_to_table") };
    let alias = alias.or_else(|| {
        Some(TableAlias { explicit: true, name: Ident::new("pg_options_to_table"), columns: Vec::new(), at: None })
    });
    ControlFlow::Continue(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
}

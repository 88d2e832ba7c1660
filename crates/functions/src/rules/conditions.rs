//! Conditions are boolean, and the branches of CASE, COALESCE and the like have one type, by PostgreSQL's rules.
//!
//! Runs before type coercion, which would take numbers for conditions and anything for text.

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{Error, ErrorCode, ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator, WindowFunctionDefinition};
use datafusion_optimizer::AnalyzerRule;

use crate::array_order;
use crate::catalog::{common_numeric, name_of};
use crate::error::external;
use crate::fields::field_of;
use crate::json::{is_jsonb, key_of, keyed_type};

/// See the module.
#[derive(Debug)]
pub struct Conditions;

impl AnalyzerRule for Conditions {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        crate::tree::rewrite_expressions(plan, |expr, schema| match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let context = if op == Operator::And { "AND" } else { "OR" };
                let left = condition(*left, context, schema)?;
                let right = condition(*right, context, schema)?;
                let changed = left.transformed || right.transformed;
                let expr = Expr::BinaryExpr(BinaryExpr { left: Box::new(left.data), op, right: Box::new(right.data) });
                Ok(Transformed::new_transformed(expr, changed))
            }
            Expr::Not(inner) => {
                let inner = condition(*inner, "NOT", schema)?;
                Ok(Transformed::new_transformed(Expr::Not(Box::new(inner.data)), inner.transformed))
            }
            Expr::Case(case) => branches(case, schema),
            Expr::AggregateFunction(mut function) => {
                check_aggregate(function.func.name(), &function.params.args, schema)?;
                let Some(filter) = function.params.filter.take() else {
                    return Ok(Transformed::no(Expr::AggregateFunction(function)));
                };
                let filter = condition(*filter, "FILTER", schema)?;
                function.params.filter = Some(Box::new(filter.data));
                Ok(Transformed::new_transformed(Expr::AggregateFunction(function), filter.transformed))
            }
            Expr::WindowFunction(function) => {
                if let WindowFunctionDefinition::AggregateUDF(of) = &function.fun {
                    check_aggregate(of.name(), &function.params.args, schema)?;
                }
                Ok(Transformed::no(Expr::WindowFunction(function)))
            }
            Expr::ScalarFunction(function)
                if matches!(function.func.name(), "coalesce" | "greatest" | "least") && !function.args.is_empty() =>
            {
                let context = function.func.name().to_uppercase();
                let args = one_type(&context, function.args.clone(), schema)?;
                // The engine would compare their texts.
                if context != "COALESCE"
                    && let Some(sql_type) = args.iter().find_map(|arg| keyed_type(arg, schema))
                {
                    return Err(external(Error::unsupported(format!("{context} of {sql_type} is not supported"))));
                }
                if context != "COALESCE"
                    && let Some(sql_type) = args.iter().find_map(|arg| json_type(arg, schema))
                {
                    return Err(external(no_order(sql_type)));
                }
                if context != "COALESCE"
                    && let Some(extreme) = array_order::extreme(context == "GREATEST", &args, schema)
                {
                    return Ok(Transformed::yes(extreme));
                }
                let changed = args != function.args;
                let call = Expr::ScalarFunction(ScalarFunction { func: function.func, args });
                Ok(Transformed::new_transformed(call, changed))
            }
            Expr::ScalarFunction(mut function) if function.func.name() == "nullif" && function.args.len() == 2 => {
                let right = function.args.remove(1);
                let left = function.args.remove(0);
                let own = left.to_field(schema).ok().and_then(|(_, field)| sql_type_of(&field));
                let right = super::operators::meet(right, &left, "=", schema)?;
                let left = super::operators::meet(left, &right.data, "=", schema)?;
                super::operators::check_items(&left.data, "=", &right.data, schema)?;
                if is_jsonb(&left.data, schema) && is_jsonb(&right.data, schema) {
                    return Ok(Transformed::yes(null_if_same(left.data, right.data)));
                }
                if let Some(sql_type) = keyed_type(&left.data, schema).filter(|sql_type| sql_type.is_array()) {
                    return Err(external(Error::unsupported(format!("NULLIF of {sql_type} is not supported"))));
                }
                let changed = left.transformed || right.transformed;
                let other = right.data.to_field(schema).ok().and_then(|(_, field)| sql_type_of(&field));
                function.args = vec![left.data, right.data];
                let call = Expr::ScalarFunction(function);
                // It is the left value or none, of the type that it has: numbers of other widths are compared as they are.
                Ok(match (own, other) {
                    (Some(own), Some(other)) if own != other && is_of_one_kind(own, other) => {
                        let field = field_of("nullif", own);
                        Transformed::yes(Expr::Cast(Cast { expr: Box::new(call), field }))
                    }
                    _ => Transformed::new_transformed(call, changed),
                })
            }
            Expr::InList(list) if list.list.iter().any(is_null) => Ok(Transformed::yes(null_apart(list))),
            Expr::ScalarFunction(function) if function.func.name() == "make_array" && !function.args.is_empty() => {
                let args = one_type("ARRAY", function.args.clone(), schema)?;
                let changed = args != function.args;
                let call = Expr::ScalarFunction(ScalarFunction { func: function.func, args });
                Ok(Transformed::new_transformed(call, changed))
            }
            other => Ok(Transformed::no(other)),
        })
    }

    fn name(&self) -> &str {
        "conditions"
    }
}

/// `nullif` of jsonb, whose values may be equal where their texts are not.
fn null_if_same(left: Expr, right: Expr) -> Expr {
    let same = BinaryExpr { left: Box::new(key_of(left.clone())), op: Operator::Eq, right: Box::new(key_of(right)) };
    let null = Expr::Literal(ScalarValue::Utf8(None), None);
    Expr::Case(Case::new(None, vec![(Box::new(Expr::BinaryExpr(same)), Box::new(null))], Some(Box::new(left))))
}

/// json, or an array of it, where an expression is of one of these: PostgreSQL compares neither.
fn json_type(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    let (_, field) = expr.to_field(schema).ok()?;
    sql_type_of(&field).filter(|sql_type| sql_type.scalar() == ScalarType::Json)
}

/// 42883 for values of which none is the greatest.
fn no_order(sql_type: SqlType) -> Error {
    let message = format!("could not identify a comparison function for type {}", name_of(sql_type));
    Error::new(ErrorCode::UndefinedFunction, message)
}

/// Whether both are integers, or both floats: operators compare such without casting one of them.
fn is_of_one_kind(a: SqlType, b: SqlType) -> bool {
    let kind = |sql_type| match sql_type {
        SqlType::Scalar(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8) => 1,
        SqlType::Scalar(ScalarType::Float4 | ScalarType::Float8) => 2,
        _ => 0,
    };
    kind(a) != 0 && kind(a) == kind(b)
}

/// NULL, or a cast of it.
fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// `x IN (1, NULL)` is `x IN (1) OR NULL`, and `x NOT IN (1, NULL)` is `x NOT IN (1) AND NULL`: the optimiser makes one list of
/// two, and would take NULL for a value like others.
fn null_apart(list: InList) -> Expr {
    let InList { expr, list, negated } = list;
    let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
    let others: Vec<Expr> = list.into_iter().filter(|item| !is_null(item)).collect();
    if others.is_empty() {
        return unknown;
    }
    let op = if negated { Operator::And } else { Operator::Or };
    let left = Box::new(Expr::InList(InList { expr, list: others, negated }));
    Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(unknown) })
}

/// Takes NULL out of the lists of a plan whose parameters have become constants.
///
/// # Errors
/// As DataFusion's traversal.
pub fn nulls_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    crate::tree::rewrite_expressions(plan, |expr, _| match expr {
        Expr::InList(list) if list.list.iter().any(is_null) => Ok(Transformed::yes(null_apart(list))),
        other => Ok(Transformed::no(other)),
    })
}

/// Aggregates that PostgreSQL has of some types only, and the engine of all.
///
/// # Errors
/// 42883
fn check_aggregate(name: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let Some(Ok((_, field))) = args.first().map(|arg| arg.to_field(schema)) else { return Ok(()) };
    let Some(found) = sql_type_of(&field) else { return Ok(()) };
    if matches!(name, "min" | "max") && found == SqlType::Array(ScalarType::Jsonb) {
        // The engine would compare the texts of the items.
        return Err(external(Error::unsupported(format!("{name}({found}) is not supported"))));
    }
    if matches!(name, "min" | "max") && found == SqlType::Array(ScalarType::Json) {
        // The aggregate is one of all arrays, and compares their items.
        return Err(external(no_order(ScalarType::Json.into())));
    }
    let is_open = args.first().is_some_and(|arg| is_open(arg, &field) || matches!(arg, Expr::Placeholder(_)));
    let is_missing = match name {
        "min" | "max" => matches!(
            found,
            SqlType::Scalar(
                ScalarType::Bool | ScalarType::Json | ScalarType::Jsonb | ScalarType::Uuid | ScalarType::Bytea
            )
        ),
        "string_agg" => !matches!(
            found,
            SqlType::Scalar(
                ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. } | ScalarType::Bytea
            )
        ),
        _ => false,
    };
    if !is_missing || is_open {
        return Ok(());
    }
    let more = if name == "string_agg" { ", unknown" } else { "" };
    let message = format!("function {name}({}{more}) does not exist", name_of(found));
    Err(external(Error::new(ErrorCode::UndefinedFunction, message).with_hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )))
}

/// Whether an expression's type is still open: a quoted literal, NULL, or a parameter.
fn is_open(expr: &Expr, field: &FieldRef) -> bool {
    *field.data_type() == DataType::Null
        || matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _)) && !field.metadata().contains_key("ashlar.type")
}

/// An expression as a condition.
///
/// # Errors
/// 42804 where it is none.
pub(crate) fn condition(expr: Expr, context: &str, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Ok((_, field)) = expr.to_field(schema) else { return Ok(Transformed::no(expr)) };
    if *field.data_type() == DataType::Boolean || *field.data_type() == DataType::Null {
        return Ok(Transformed::no(expr));
    }
    if is_open(&expr, &field) {
        let to = field_of("condition", ScalarType::Bool.into());
        return Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(expr), field: to })));
    }
    let found = sql_type_of(&field).map_or_else(|| field.data_type().to_string(), name_of);
    Err(external(not_boolean(context, &found)))
}

/// 42804 `argument of AND must be type boolean, not type integer`
pub(crate) fn not_boolean(context: &str, found: &str) -> Error {
    Error::new(ErrorCode::DatatypeMismatch, format!("argument of {context} must be type boolean, not type {found}"))
}

/// CASE whose branches have one type.
///
/// # Errors
/// 42804, 42883
pub(super) fn branches(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let original = case.clone();
    match case.expr.take() {
        None => {
            for (when, _) in &mut case.when_then_expr {
                **when = condition(when.as_ref().clone(), "CASE/WHEN", schema)?.data;
            }
        }
        Some(mut base) => {
            for (when, _) in &mut case.when_then_expr {
                **when = super::operators::meet(when.as_ref().clone(), &base, "=", schema)?.data;
                base = Box::new(super::operators::meet(*base, when, "=", schema)?.data);
                super::operators::check_items(&base, "=", when, schema)?;
            }
            case.expr = Some(base);
        }
    }
    // PostgreSQL looks at ELSE first.
    let mut results: Vec<Expr> = case.else_expr.iter().map(|result| result.as_ref().clone()).collect();
    results.extend(case.when_then_expr.iter().map(|(_, then)| then.as_ref().clone()));
    let mut results = one_type("CASE", results, schema)?.into_iter();
    if case.else_expr.is_some() {
        case.else_expr = results.next().map(Box::new);
    }
    for (_, then) in &mut case.when_then_expr {
        if let Some(result) = results.next() {
            **then = result;
        }
    }
    let changed = case != original;
    Ok(Transformed::new_transformed(Expr::Case(case), changed))
}

/// The type in which all of these meet; `None` where all are open, or where it is not ours to say.
pub fn common_type(context: &str, types: &[SqlType]) -> std::result::Result<Option<SqlType>, Error> {
    let mut common: Option<SqlType> = None;
    for found in types {
        common = Some(match common {
            None => *found,
            Some(known) if known == *found => known,
            Some(known) if is_character(known) || is_character(*found) => {
                let message = format!("{context} of type {} and another one is not supported", name_of(known));
                return Err(Error::unsupported(message).with_hint("Cast character(n) to text."));
            }
            Some(known) => joined(known, *found).ok_or_else(|| {
                Error::new(
                    ErrorCode::DatatypeMismatch,
                    format!("{context} types {} and {} cannot be matched", name_of(known), name_of(*found)),
                )
            })?,
        });
    }
    Ok(common)
}

/// Whether values of the type end in blanks that do not count.
fn is_character(sql_type: SqlType) -> bool {
    matches!(sql_type.scalar(), ScalarType::Char { .. })
}

fn joined(left: SqlType, right: SqlType) -> Option<SqlType> {
    use ScalarType::{Date, Text, Timestamp, Timestamptz, Varchar};
    if let Some(number) = common_numeric(left, right) {
        return Some(number);
    }
    if left.is_array() != right.is_array() {
        return None;
    }
    let scalar = match (left.scalar(), right.scalar()) {
        (Varchar { .. }, Text | Varchar { .. }) => Varchar { length: None },
        (Text, Varchar { .. }) => Text,
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        (Date | Timestamp, Timestamptz) | (Timestamptz, Date | Timestamp) => Timestamptz,
        (ScalarType::Numeric { .. }, ScalarType::Numeric { .. }) => {
            common_numeric(left.scalar().into(), right.scalar().into())?.scalar()
        }
        _ => return None,
    };
    Some(if left.is_array() { SqlType::Array(scalar) } else { SqlType::Scalar(scalar) })
}

/// Gives expressions one type.
fn one_type(context: &str, exprs: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let mut fields = Vec::with_capacity(exprs.len());
    for expr in &exprs {
        match expr.to_field(schema) {
            Ok((_, field)) => fields.push(field),
            Err(_) => return Ok(exprs),
        }
    }
    let mut types = Vec::new();
    for (expr, field) in exprs.iter().zip(&fields) {
        if !is_open(expr, field) {
            match sql_type_of(field) {
                Some(sql_type) => types.push(sql_type),
                None => return Ok(exprs),
            }
        }
    }
    let Some(common) = common_type(context, &types).map_err(external)? else { return Ok(exprs) };
    let wanted = field_of("branch", common);
    let convert = |(expr, field): (Expr, &FieldRef)| {
        let is_null = *field.data_type() == DataType::Null;
        if !is_open(&expr, field) && field.data_type() == wanted.data_type() || is_null {
            return expr;
        }
        Expr::Cast(Cast { expr: Box::new(expr), field: FieldRef::clone(&wanted) })
    };
    Ok(exprs.into_iter().zip(&fields).map(convert).collect())
}

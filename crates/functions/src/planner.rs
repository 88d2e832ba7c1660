//! What DataFusion's SQL planner asks before it makes operators and calls of its own.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use ashlar_base::value::text::Zone;
use ashlar_base::{ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion_expr::expr::{Placeholder, ScalarFunction};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion_expr::sqlparser::ast::BinaryOperator;
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, GetFieldAccess, Operator, ScalarUDF};

use super::catalog::{PgFunction, all, digits_of, pg_function};
use super::json;
use super::quantified::Quantified;
use super::series::SERIES;
use crate::bare_numeric;
use crate::error::external;
use crate::fields::field_of;
use crate::rules::conditions::condition;
use crate::rules::operators::binary;

static FUNCTIONS: LazyLock<HashMap<&'static str, Arc<ScalarUDF>>> =
    LazyLock::new(|| all().map(|function| (function.name, Arc::new(pg_function(function)))).collect());

/// A call of a function of the catalog.
pub fn call(name: &str, args: Vec<Expr>) -> Option<Expr> {
    let func = Arc::clone(FUNCTIONS.get(name)?);
    Some(Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// PostgreSQL's functions and operators, before any other planner.
#[derive(Debug)]
pub struct PgPlanner;

impl ExprPlanner for PgPlanner {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        // The digits of a result follow from those of its operands.
        for operand in [&mut expr.left, &mut expr.right] {
            if let Some(call) = bare_numeric::of_cast(operand) {
                *operand = call;
            }
        }
        let operator = match expr.op {
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::Divide => Operator::Divide,
            BinaryOperator::Modulo => Operator::Modulo,
            BinaryOperator::Eq => Operator::Eq,
            BinaryOperator::NotEq => Operator::NotEq,
            BinaryOperator::Lt => Operator::Lt,
            BinaryOperator::LtEq => Operator::LtEq,
            BinaryOperator::Gt => Operator::Gt,
            BinaryOperator::GtEq => Operator::GtEq,
            BinaryOperator::And => Operator::And,
            BinaryOperator::Or => Operator::Or,
            BinaryOperator::StringConcat => return concatenation(expr, schema),
            BinaryOperator::Arrow
            | BinaryOperator::LongArrow
            | BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::Question
            | BinaryOperator::QuestionPipe
            | BinaryOperator::QuestionAnd
            | BinaryOperator::HashMinus => return Ok(named(&expr.op.to_string(), expr)),
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt if !has_list(&expr, schema) => {
                return Ok(named(&expr.op.to_string(), expr));
            }
            BinaryOperator::AtArrow => return Ok(named("array contains", expr)),
            BinaryOperator::ArrowAt => {
                let RawBinaryExpr { op, left, right } = expr;
                return Ok(named("array contains", RawBinaryExpr { op, left: right, right: left }));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_jsonb = |expr: &Expr| json::is_jsonb(expr, schema);
        if operator == Operator::Minus && is_jsonb(&expr.left) {
            return Ok(named("-", expr));
        }
        let (left, right) = (narrowed(expr.left), narrowed(expr.right));
        if matches!(operator, Operator::And | Operator::Or) {
            let context = if operator == Operator::And { "AND" } else { "OR" };
            let left = condition(left, context, schema)?.data;
            let right = condition(right, context, schema)?.data;
            let expr = BinaryExpr { left: Box::new(left), op: operator, right: Box::new(right) };
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(expr)));
        }
        Ok(PlannerResult::Planned(binary(left, operator, right, schema)?.data))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if json::is_jsonb(&expr.expr, schema) {
            let step = match &expr.field_access {
                GetFieldAccess::ListIndex { key } => path_step(key.as_ref(), schema),
                GetFieldAccess::ListRange { .. } | GetFieldAccess::NamedStructField { .. } => None,
            };
            let call = step.and_then(|step| call("jsonb_extract_path", vec![expr.expr.clone(), step]));
            return Ok(call.map_or(PlannerResult::Original(expr), PlannerResult::Planned));
        }
        if !matches!(expr.expr.get_type(schema), Ok(DataType::List(_) | DataType::LargeList(_))) {
            return Ok(PlannerResult::Original(expr));
        }
        let call = match &expr.field_access {
            GetFieldAccess::ListIndex { key } => call("array subscript", vec![expr.expr.clone(), place(key)]),
            GetFieldAccess::ListRange { start, stop, .. } => {
                let bounds = [start, stop].map(|bound| place(bound));
                let [start, stop] = bounds;
                call("array slice", vec![expr.expr.clone(), start, stop])
            }
            GetFieldAccess::NamedStructField { .. } => None,
        };
        Ok(call.map_or(PlannerResult::Original(expr), PlannerResult::Planned))
    }

    /// `a.b` is a column of a table `a`, whatever column has that name: its field is `(a).b`. That there is no such table is found when the
    /// column is looked for.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let table = TableReference::bare(field.name().as_str());
        let column = nested_names.first().cloned().unwrap_or_default();
        Ok(PlannerResult::Planned(Expr::Column(Column::new(Some(table), column))))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(planned("position", args))
    }

    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(planned("substring", args))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(planned("overlay", args))
    }
}

/// A place in an array: a parameter there is an integer.
fn place(expr: &Expr) -> Expr {
    as_parameter(narrowed(expr.clone()), ScalarType::Int4.into())
}

/// An open parameter is of this type.
fn as_parameter(expr: Expr, sql_type: SqlType) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            Expr::Placeholder(Placeholder { id, field: Some(field_of("parameter", sql_type)) })
        }
        other => other,
    }
}

fn has_list(expr: &RawBinaryExpr, schema: &DFSchema) -> bool {
    let is_list = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::List(_) | DataType::LargeList(_)));
    is_list(&expr.left) || is_list(&expr.right)
}

/// An operator that is a function of the catalog under its own sign.
fn named(sign: &str, expr: RawBinaryExpr) -> PlannerResult<RawBinaryExpr> {
    match call(sign, vec![narrowed(expr.left.clone()), narrowed(expr.right.clone())]) {
        Some(call) => PlannerResult::Planned(call),
        None => PlannerResult::Original(expr),
    }
}

fn planned(name: &str, args: Vec<Expr>) -> PlannerResult<Vec<Expr>> {
    match call(name, args.clone()) {
        Some(expr) => PlannerResult::Planned(expr),
        None => PlannerResult::Original(args),
    }
}

/// `||` of arrays and items is a function; of anything else it is checked here.
fn concatenation(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let (left, right) = (narrowed(expr.left), narrowed(expr.right));
    let array_type = |expr: &Expr| {
        let (_, field) = expr.to_field(schema).ok()?;
        match sql_type_of(&field)? {
            SqlType::Array(ScalarType::Varchar { .. }) => Some(SqlType::Array(ScalarType::Varchar { length: None })),
            // Items are not rounded to the column's scale.
            SqlType::Scalar(_) | SqlType::Array(ScalarType::Numeric { .. }) => None,
            array @ SqlType::Array(_) => Some(array),
        }
    };
    // A parameter beside an array is one too.
    let (left, right) = match (array_type(&left), array_type(&right)) {
        (Some(array), None) => (left, as_parameter(right, array)),
        (None, Some(array)) => (as_parameter(left, array), right),
        _ => (left, right),
    };
    let is_list = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::List(_) | DataType::LargeList(_)));
    let is_open = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _));
    let name = match (is_list(&left), is_list(&right)) {
        (true, true) => "array_cat",
        // A quoted literal beside an array is an array.
        (true, false) if is_open(&right) => "array_cat",
        (false, true) if is_open(&left) => "array_cat",
        (true, false) => "array_append",
        (false, true) => "array_prepend",
        (false, false) if json::is_jsonb(&left, schema) || json::is_jsonb(&right, schema) => "||",
        (false, false) => {
            let is_bytea = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Binary));
            // A quoted literal beside a bytea is one.
            let read = |expr: Expr, is_beside: bool| {
                if !is_beside || !is_open(&expr) {
                    return expr;
                }
                Expr::Cast(Cast { expr: Box::new(expr), field: field_of("literal", ScalarType::Bytea.into()) })
            };
            let (beside_left, beside_right) = (is_bytea(&right), is_bytea(&left));
            let (left, right) = (read(left, beside_left), read(right, beside_right));
            return Ok(PlannerResult::Planned(binary(left, Operator::StringConcat, right, schema)?.data));
        }
    };
    Ok(match call(name, vec![left.clone(), right.clone()]) {
        Some(call) => PlannerResult::Planned(call),
        None => PlannerResult::Original(RawBinaryExpr { op: BinaryOperator::StringConcat, left, right }),
    })
}

/// A subscript of `jsonb` as the step of a path that it is: the key of an object, or the place in an array, as text.
fn path_step(key: &Expr, schema: &DFSchema) -> Option<Expr> {
    let text = |text: Option<String>| Some(Expr::Literal(ScalarValue::Utf8(text), None));
    match key {
        Expr::Literal(ScalarValue::Int64(Some(place)), _) => text(Some(place.to_string())),
        Expr::Placeholder(placeholder) if placeholder.field.is_none() => Some(key.clone()),
        _ => match key.get_type(schema).ok()? {
            DataType::Utf8 => Some(key.clone()),
            DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                Some(Expr::Cast(Cast::new(Box::new(key.clone()), DataType::Utf8)))
            }
            DataType::Null => text(None),
            _ => None,
        },
    }
}

/// A whole number that fits is an integer.
fn narrowed(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(value) {
            Ok(value) => Expr::Literal(ScalarValue::Int32(Some(value)), metadata),
            Err(_) => Expr::Literal(ScalarValue::Int64(Some(value)), metadata),
        },
        other => other,
    }
}

/// The values of those arguments that are literals.
pub fn literals(args: &[Expr]) -> Vec<Option<&ScalarValue>> {
    args.iter()
        .map(|arg| match arg {
            Expr::Literal(scalar, _) => Some(scalar),
            _ => None,
        })
        .collect()
}

/// The types that a call wants of its arguments, as far as it tells: what an open parameter among them is.
///
/// # Errors
/// 42883, 42725
pub fn argument_types(function: &ScalarFunction, fields: &[FieldRef]) -> Result<Vec<Option<SqlType>>> {
    if let Some(named) = function.func.inner().downcast_ref::<PgFunction>() {
        let chosen = named.choose(fields, &literals(&function.args), false).map_err(external)?;
        return Ok(chosen.args.into_iter().map(Some).collect());
    }
    if function.func.inner().downcast_ref::<Quantified>().is_some()
        && let [needle, array] = fields
    {
        let (needle, array) = (open_type(needle), open_type(array));
        return Ok(vec![
            array.map(|array| SqlType::Scalar(array.scalar())),
            needle.map(|needle| SqlType::Array(needle.scalar())),
        ]);
    }
    if function.func.name() == SERIES {
        // A bound without a type has that of the others; of times, the step has not.
        let known = fields.iter().find_map(open_type);
        let is_number = known.is_some_and(|known| digits_of(known).is_some());
        return Ok(fields.iter().map(|_| known.filter(|_| is_number)).collect());
    }
    Ok(vec![None; fields.len()])
}

/// A field's type; `None` where it is open.
fn open_type(field: &FieldRef) -> Option<SqlType> {
    if *field.data_type() == DataType::Null { None } else { sql_type_of(field) }
}

/// A call whose arguments have these very types already, none of which is of a time zone.
pub fn settled(name: &str, args: Vec<Expr>, types: &[SqlType]) -> Option<Expr> {
    let func = FUNCTIONS.get(name)?;
    let named = func.inner().downcast_ref::<PgFunction>()?;
    let fields: Vec<FieldRef> = types.iter().map(|sql_type| field_of("argument", *sql_type)).collect();
    let chosen = named.choose(&fields, &vec![None; fields.len()], true).ok()?;
    Some(Expr::ScalarFunction(ScalarFunction { func: named.settled(chosen, Zone::Utc), args }))
}

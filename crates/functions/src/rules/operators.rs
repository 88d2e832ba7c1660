//! Operators between types as PostgreSQL resolves them, before DataFusion's own coercion sees them.
//!
//! A quoted string compared with something is read as that thing's type; a float and a numeric meet as floats; a date
//! plus an interval is a timestamp; text is not compared with numbers; a date or a timestamp meets an instant as an
//! instant; intervals are compared by the order that `intervals` gives them, arrays by that of `array_order`.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{Error, ErrorCode, ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, InSubquery, ScalarFunction};
use datafusion_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, Like, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
};
use datafusion_optimizer::AnalyzerRule;

use crate::array_order;
use crate::error::external;
use crate::json;
use crate::patterns::check_pattern;
use crate::regular::{self, Wanted};
use crate::times::operators::ordered;

use super::intervals::{self, is_interval};

/// Runs before type coercion.
#[derive(Debug)]
pub struct PgOperators;

impl AnalyzerRule for PgOperators {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = intervals::order_nodes(plan)?;
        crate::tree::rewrite_expressions(plan, |expr, schema| match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_match(op) => matching(*left, op, *right),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => binary(*left, op, *right, schema),
            Expr::InList(InList { mut expr, list, negated }) => {
                let mut changed = false;
                // A quoted literal on the left is of the list's type.
                if matches!(expr.as_ref(), Expr::Literal(ScalarValue::Utf8(_), _))
                    && let Some(item) = list.iter().find(|item| {
                        !matches!(
                            item,
                            Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _) | Expr::Placeholder(_)
                        )
                    })
                {
                    let met = meet(*expr, item, "=", schema)?;
                    changed |= met.transformed;
                    expr = Box::new(met.data);
                }
                let mut items = Vec::with_capacity(list.len());
                for item in list {
                    let met = meet(item, &expr, "=", schema)?;
                    check_items(&expr, "=", &met.data, schema)?;
                    changed |= met.transformed;
                    items.push(met.data);
                }
                if is_interval(&expr, schema) {
                    let list = items.into_iter().map(ordered).collect();
                    let expr = Box::new(ordered(*expr));
                    return Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })));
                }
                if let Some(sql_type) = keyed(&expr, items.iter(), schema) {
                    let list = items.into_iter().map(|item| json::key_of_type(item, sql_type)).collect();
                    let expr = Box::new(json::key_of_type(*expr, sql_type));
                    return Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })));
                }
                if is_float(&expr, schema) || items.iter().any(|item| is_float(item, schema)) {
                    let list = items.into_iter().map(|item| one_zero(item, schema)).collect();
                    let expr = Box::new(one_zero(*expr, schema));
                    return Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })));
                }
                let expr = Expr::InList(InList { expr, list: items, negated });
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let low = meet(*low, &expr, ">=", schema)?;
                let high = meet(*high, &expr, "<=", schema)?;
                check_items(&expr, ">=", &low.data, schema)?;
                check_items(&expr, "<=", &high.data, schema)?;
                if is_interval(&expr, schema) {
                    return Ok(Transformed::yes(Expr::Between(Between {
                        expr: Box::new(ordered(*expr)),
                        negated,
                        low: Box::new(ordered(low.data)),
                        high: Box::new(ordered(high.data)),
                    })));
                }
                if let Some(sql_type) = keyed(&expr, [&low.data, &high.data].into_iter(), schema) {
                    return Ok(Transformed::yes(Expr::Between(Between {
                        expr: Box::new(json::key_of_type(*expr, sql_type)),
                        negated,
                        low: Box::new(json::key_of_type(low.data, sql_type)),
                        high: Box::new(json::key_of_type(high.data, sql_type)),
                    })));
                }
                let bound = |op: Operator, bound: &Expr| array_order::comparison(&expr, op, bound, schema);
                if let (Some(above), Some(below)) =
                    (bound(Operator::GtEq, &low.data), bound(Operator::LtEq, &high.data))
                {
                    let within = above.and(below);
                    return Ok(Transformed::yes(if negated { Expr::Not(Box::new(within)) } else { within }));
                }
                let changed = low.transformed || high.transformed;
                let expr = Expr::Between(Between { expr, negated, low: Box::new(low.data), high: Box::new(high.data) });
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            Expr::Like(like) => pattern(like, schema),
            Expr::InSubquery(found) => within(found, schema),
            other => intervals::order_expression(other, schema),
        })
    }

    fn name(&self) -> &str {
        "pg_operators"
    }
}

/// A binary operator between types as PostgreSQL resolves it.
///
/// # Errors
/// 42883 where PostgreSQL has no such operator, 42725 where both sides are open.
pub(crate) fn binary(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_arithmetic =
        matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo);
    if is_comparison(op) {
        let new_right = meet(right, &left, &sign_of(op), schema)?;
        let new_left = meet(left, &new_right.data, &sign_of(op), schema)?;
        if is_interval(&new_left.data, schema) && is_interval(&new_right.data, schema) {
            return Ok(Transformed::yes(rebuilt(ordered(new_left.data), op, ordered(new_right.data))));
        }
        let changed = new_left.transformed || new_right.transformed;
        let (left, right) = (new_left.data, new_right.data);
        check_items(&left, &sign_of(op), &right, schema)?;
        let by_key = match (json::keyed_type(&left, schema), json::keyed_type(&right, schema)) {
            (Some(one), Some(other)) => (one == other).then_some(one),
            (Some(one), None) => is_parameter_of(&right, one).then_some(one),
            (None, Some(one)) => is_parameter_of(&left, one).then_some(one),
            (None, None) => None,
        };
        if let Some(sql_type) = by_key {
            let (left, right) = (json::key_of_type(left, sql_type), json::key_of_type(right, sql_type));
            return Ok(Transformed::yes(rebuilt(left, op, right)));
        }
        if let Some(expr) = array_order::comparison(&left, op, &right, schema) {
            return Ok(Transformed::yes(expr));
        }
        let expr = rebuilt(left, op, right);
        return Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) });
    }
    let (Ok((_, left_field)), Ok((_, right_field))) = (left.to_field(schema), right.to_field(schema)) else {
        return Ok(Transformed::no(rebuilt(left, op, right)));
    };
    if op == Operator::StringConcat {
        check_concatenation((&left, &left_field), (&right, &right_field))?;
        return Ok(Transformed::no(rebuilt(left, op, right)));
    }
    if matches!(
        op,
        Operator::BitwiseAnd
            | Operator::BitwiseOr
            | Operator::BitwiseXor
            | Operator::BitwiseShiftLeft
            | Operator::BitwiseShiftRight
    ) {
        let is_fractional = |of: &DataType| of.is_floating() || matches!(of, DataType::Decimal128(..));
        if is_fractional(left_field.data_type()) || is_fractional(right_field.data_type()) {
            return Err(external(no_operator(&left_field, op, &right_field)));
        }
    }
    if !is_arithmetic {
        return Ok(Transformed::no(rebuilt(left, op, right)));
    }
    let (left_open, right_open) = (is_open(&left, &left_field), is_open(&right, &right_field));
    let (left_type, right_type) = (left_field.data_type().clone(), right_field.data_type().clone());
    match (left_open, right_open) {
        (true, true) if is_text(&left_type) && is_text(&right_type) => {
            let message = format!("operator is not unique: unknown {} unknown", sign_of(op));
            return Err(external(
                Error::new(ErrorCode::AmbiguousFunction, message).with_hint(
                    "Could not choose a best candidate operator. You might need to add explicit type casts.",
                ),
            ));
        }
        // A quoted number takes the type of the other side.
        (true, false) if is_text(&left_type) && is_number(&right_type) => {
            let left = read_as(left, &right_field)?;
            return Ok(Transformed::yes(rebuilt(left, op, right)));
        }
        (false, true) if is_text(&right_type) && is_number(&left_type) => {
            let right = read_as(right, &left_field)?;
            return Ok(Transformed::yes(rebuilt(left, op, right)));
        }
        _ => {}
    }
    let never_counts = |expr: &Expr, of: &DataType| {
        !matches!(expr, Expr::Placeholder(_)) && (is_text(of) || matches!(of, DataType::Boolean | DataType::Binary))
    };
    if !left_open && never_counts(&left, &left_type) || !right_open && never_counts(&right, &right_type) {
        return Err(external(no_operator(&left_field, op, &right_field)));
    }
    if let Some(expr) = super::numbers::arithmetic(&left, op, &right, (&left_type, &right_type))? {
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::no(rebuilt(left, op, right)))
}

/// Whether an expression is a parameter that is taken for one of this type beside it. An array says by itself if it is another one.
fn is_parameter_of(expr: &Expr, sql_type: SqlType) -> bool {
    matches!(expr, Expr::Placeholder(placeholder) if !sql_type.is_array() || placeholder.field.is_none())
}

/// The type by whose keys an expression is compared with others; `None`: they are compared as they are.
fn keyed<'e>(expr: &Expr, mut others: impl Iterator<Item = &'e Expr>, schema: &DFSchema) -> Option<SqlType> {
    let sql_type = json::keyed_type(expr, schema)?;
    let is_null = |other: &Expr| matches!(other, Expr::Literal(value, _) if value.is_null());
    let goes = |other: &Expr| {
        is_parameter_of(other, sql_type) || is_null(other) || json::keyed_type(other, schema) == Some(sql_type)
    };
    (!sql_type.is_array() || others.all(goes)).then_some(sql_type)
}

/// `x IN (SELECT ...)` compares x with the column that comes out.
fn within(found: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let column = Arc::clone(found.subquery.subquery.schema().field(0));
    let Ok((_, field)) = found.expr.to_field(schema) else { return Ok(Transformed::no(Expr::InSubquery(found))) };
    let of_same = |sql_type: &SqlType| {
        !sql_type.is_array() || is_open(&found.expr, &field) || json::keyed_type(&found.expr, schema) == Some(*sql_type)
    };
    let of_jsonb = sql_type_of(&column).filter(|sql_type| sql_type.scalar() == ScalarType::Jsonb).filter(of_same);
    let is_unknown = |field: &FieldRef| *field.data_type() == DataType::Null;
    if is_unknown(&column) || is_unknown(&field) {
        return Ok(Transformed::no(Expr::InSubquery(found)));
    }
    if matches!(found.expr.as_ref(), Expr::Placeholder(_)) {
        return match of_jsonb {
            Some(sql_type) => by_key(found, sql_type),
            None => Ok(Transformed::no(Expr::InSubquery(found))),
        };
    }
    if is_open(&found.expr, &field) {
        if is_plain_text(&column) {
            return Ok(Transformed::no(Expr::InSubquery(found)));
        }
        let expr = Box::new(read_as(*found.expr, &column)?);
        let found = InSubquery { expr, ..found };
        return match of_jsonb {
            Some(sql_type) => by_key(found, sql_type),
            None => Ok(Transformed::yes(Expr::InSubquery(found))),
        };
    }
    if !is_comparable(&field, &column) {
        return Err(external(no_operator(&field, Operator::Eq, &column)));
    }
    check_item_fields(&field, "=", &column)?;
    match of_jsonb {
        Some(sql_type) => by_key(found, sql_type),
        None => Ok(Transformed::no(Expr::InSubquery(found))),
    }
}

/// A jsonb, or an array of it, among those of a subquery, all by their keys: their texts differ where their values are equal.
fn by_key(found: InSubquery, sql_type: SqlType) -> Result<Transformed<Expr>> {
    let InSubquery { expr, subquery: Subquery { subquery: plan, outer_ref_columns, spans }, negated } = found;
    let (qualifier, field) = plan.schema().qualified_field(0);
    let key = json::key_of_type(Expr::from((qualifier, field)), sql_type).alias(field.name());
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(plan)).project(vec![key])?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
    let expr = Box::new(json::key_of_type(*expr, sql_type));
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

/// The pattern of a regular expression in the engine's words.
fn matching(left: Expr, op: Operator, right: Expr) -> Result<Transformed<Expr>> {
    let spelt = regular::pattern(right.clone(), Wanted::Answer).map_err(external)?;
    Ok(match spelt {
        Some(right) => Transformed::yes(rebuilt(left, op, right)),
        None => Transformed::no(rebuilt(left, op, right)),
    })
}

/// Whether an operator compares two values by their order, or as equal.
pub fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// LIKE is of text; a pattern that ends in its escape is no pattern.
fn pattern(like: Like, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (Ok((_, field)), Ok((_, pattern))) = (like.expr.to_field(schema), like.pattern.to_field(schema)) else {
        return Ok(Transformed::no(Expr::Like(like)));
    };
    let is_textual = |expr: &Expr, field: &FieldRef| {
        is_open(expr, field) || matches!(expr, Expr::Placeholder(_)) || is_plain_text(field)
    };
    if !is_textual(&like.expr, &field) || !is_textual(&like.pattern, &pattern) {
        let sign = match (like.negated, like.case_insensitive) {
            (false, false) => "~~",
            (true, false) => "!~~",
            (false, true) => "~~*",
            (true, true) => "!~~*",
        };
        let shown =
            |expr: &Expr, field: &FieldRef| if is_open(expr, field) { "unknown".to_owned() } else { name_of(field) };
        let (left, right) = (shown(&like.expr, &field), shown(&like.pattern, &pattern));
        let message = format!("operator does not exist: {left} {sign} {right}");
        return Err(external(Error::new(ErrorCode::UndefinedFunction, message).with_hint(
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        )));
    }
    if like.escape_char.is_some_and(|escape| escape != '\\') {
        return Ok(Transformed::no(Expr::Like(like)));
    }
    match like.pattern.as_ref() {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
            check_pattern(text).map_err(external)?;
            Ok(Transformed::no(Expr::Like(like)))
        }
        Expr::Literal(..) => Ok(Transformed::no(Expr::Like(like))),
        Expr::ScalarFunction(function) if function.func.name() == "like_pattern" => {
            Ok(Transformed::no(Expr::Like(like)))
        }
        other => {
            let checked = crate::patterns::checked(other.clone());
            Ok(Transformed::yes(Expr::Like(Like { pattern: Box::new(checked), ..like })))
        }
    }
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|found| found.is_floating())
}

/// A float with a plus for zero's sign, as lists compare bits: `-0 + 0` is `0`.
fn one_zero(expr: Expr, schema: &DFSchema) -> Expr {
    let zero = match expr.get_type(schema) {
        Ok(DataType::Float32) => ScalarValue::Float32(Some(0.0)),
        Ok(DataType::Float64) => ScalarValue::Float64(Some(0.0)),
        _ => return expr,
    };
    let func = Arc::new(crate::floats::FloatOperation::udf(Operator::Plus));
    Expr::ScalarFunction(ScalarFunction { func, args: vec![expr, Expr::Literal(zero, None)] })
}

/// As SQL writes it.
fn sign_of(op: Operator) -> String {
    match op {
        Operator::NotEq => "<>".to_owned(),
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".to_owned(),
        other => other.to_string(),
    }
}

/// Whether an expression is a quoted literal or NULL, whose type is open.
fn is_open(expr: &Expr, field: &FieldRef) -> bool {
    *field.data_type() == DataType::Null
        || matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _)) && !field.metadata().contains_key("ashlar.type")
}

/// 42883 with both types.
fn no_operator(left: &FieldRef, op: Operator, right: &FieldRef) -> Error {
    let message = format!("operator does not exist: {} {} {}", name_of(left), sign_of(op), name_of(right));
    Error::new(ErrorCode::UndefinedFunction, message)
        .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

/// `||` joins anything with text, bytes with bytes, arrays with arrays and items; nothing else.
fn check_concatenation(left: (&Expr, &FieldRef), right: (&Expr, &FieldRef)) -> Result<()> {
    let is_textual = |(expr, field): (&Expr, &FieldRef)| {
        is_open(expr, field) || matches!(expr, Expr::Placeholder(_)) || is_plain_text(field)
    };
    let is_free = |of: &DataType| matches!(of, DataType::List(_) | DataType::Binary | DataType::Null);
    if is_textual(left) || is_textual(right) || is_free(left.1.data_type()) || is_free(right.1.data_type()) {
        return Ok(());
    }
    Err(external(no_operator(left.1, Operator::StringConcat, right.1)))
}

fn is_plain_text(field: &FieldRef) -> bool {
    matches!(
        sql_type_of(field),
        Some(SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. }))
    )
}

/// `~` and its like.
fn is_match(op: Operator) -> bool {
    matches!(op, Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch)
}

fn rebuilt(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to))
}

/// A numeric as a float; a constant by its digits, which is exact where dividing by a power of ten is not.
pub(super) fn as_float(expr: Expr) -> Expr {
    if let Expr::Literal(ScalarValue::Decimal128(Some(unscaled), _, scale), _) = &expr
        && let Ok(value) = format!("{unscaled}e{}", -i32::from(*scale)).parse::<f64>()
    {
        return Expr::Literal(ScalarValue::Float64(Some(value)), None);
    }
    cast(expr, DataType::Float64)
}

/// An operand as what it is compared with wants it.
///
/// # Errors
/// 42883 where PostgreSQL does not compare the two types.
pub(super) fn meet(expr: Expr, other: &Expr, op: &str, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (Ok((_, field)), Ok((_, other_field))) = (expr.to_field(schema), other.to_field(schema)) else {
        return Ok(Transformed::no(expr));
    };
    let (from, to) = (field.data_type(), other_field.data_type());
    // A date is its midnight; DataFusion would count nanoseconds, which end in the year 2262.
    let is_earlier = match (from, to) {
        (DataType::Date32, DataType::Timestamp(..)) => true,
        (DataType::Timestamp(_, from), DataType::Timestamp(_, to)) => from.is_none() && to.is_some(),
        _ => false,
    };
    if is_earlier {
        return Ok(Transformed::yes(read_as(expr, &other_field)?));
    }
    let is_open_parameter = |expr: &Expr| matches!(expr, Expr::Placeholder(placeholder) if placeholder.field.is_none());
    if is_open_parameter(&expr) || is_open_parameter(other) {
        return Ok(Transformed::no(expr));
    }
    if is_open(&expr, &field) {
        return Ok(if is_text(from) && !is_open(other, &other_field) && !is_plain_text(&other_field) {
            Transformed::yes(read_as(expr, &other_field)?)
        } else {
            Transformed::no(expr)
        });
    }
    if !is_open(other, &other_field) && !is_comparable(&field, &other_field) {
        let error = Error::new(
            ErrorCode::UndefinedFunction,
            format!("operator does not exist: {} {op} {}", name_of(&other_field), name_of(&field)),
        );
        return Err(external(error.with_hint(
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        )));
    }
    if super::numbers::meet_as_double(from, to) && *from != DataType::Float64 {
        return Ok(Transformed::yes(as_float(expr)));
    }
    Ok(Transformed::no(expr))
}

/// Whether PostgreSQL compares values of two types; types of ours only, the rest is the engine's to say.
pub(super) fn is_comparable(left: &FieldRef, right: &FieldRef) -> bool {
    let (Some(left_type), Some(right_type)) = (sql_type_of(left), sql_type_of(right)) else { return true };
    let (SqlType::Scalar(left), SqlType::Scalar(right)) = (left_type, right_type) else {
        let is_of_documents =
            |of: SqlType| of.is_array() && matches!(of.scalar(), ScalarType::Json | ScalarType::Jsonb);
        return left_type == right_type || !is_of_documents(left_type) || !is_of_documents(right_type);
    };
    let kind = |scalar: ScalarType| match scalar {
        ScalarType::Int2
        | ScalarType::Int4
        | ScalarType::Int8
        | ScalarType::Float4
        | ScalarType::Float8
        | ScalarType::Numeric { .. } => 1,
        ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. } => 2,
        ScalarType::Date | ScalarType::Timestamp | ScalarType::Timestamptz => 3,
        ScalarType::Bool => 4,
        ScalarType::Bytea => 5,
        ScalarType::Uuid => 6,
        ScalarType::Jsonb => 7,
        ScalarType::Time => 8,
        ScalarType::Interval => 9,
        // PostgreSQL has no operator that compares json.
        ScalarType::Json => 0,
    };
    kind(left) == kind(right) && kind(left) != 0
}

/// Arrays of json: PostgreSQL has the operator that compares two arrays, which finds that it cannot compare their items.
///
/// # Errors
/// 42883 where both sides are such, or one is and the other one a parameter.
pub(super) fn check_items(left: &Expr, sign: &str, right: &Expr, schema: &DFSchema) -> Result<()> {
    let is_open = |expr: &Expr| matches!(expr, Expr::Placeholder(placeholder) if placeholder.field.is_none());
    match (left.to_field(schema), right.to_field(schema)) {
        (Ok((_, array)), _) if is_open(right) => check_item_fields(&array, sign, &array),
        (_, Ok((_, array))) if is_open(left) => check_item_fields(&array, sign, &array),
        (Ok((_, left)), Ok((_, right))) => check_item_fields(&left, sign, &right),
        _ => Ok(()),
    }
}

/// The same of two fields.
///
/// # Errors
/// As there.
pub(super) fn check_item_fields(left: &FieldRef, sign: &str, right: &FieldRef) -> Result<()> {
    let is_of_json = |field: &FieldRef| sql_type_of(field) == Some(SqlType::Array(ScalarType::Json));
    if !is_of_json(left) || !is_of_json(right) {
        return Ok(());
    }
    let what = if matches!(sign, "=" | "<>") { "an equality operator" } else { "a comparison function" };
    let message = format!("could not identify {what} for type json");
    Err(external(Error::new(ErrorCode::UndefinedFunction, message)))
}

/// An operand, to be read as the type of a field.
///
/// # Errors
/// 0A000 for a number of more digits than there are.
fn read_as(expr: Expr, like: &FieldRef) -> Result<Expr> {
    let field = match sql_type_of(like) {
        // A constant keeps its own digits.
        Some(SqlType::Scalar(ScalarType::Numeric { .. })) => {
            let digits = match &expr {
                Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
                    if !crate::catalog::is_exact(text) {
                        let message = format!("the numeric \"{text}\" has more digits than are supported");
                        return Err(external(Error::unsupported(message)));
                    }
                    crate::catalog::digits_in(text)
                }
                _ => crate::catalog::numeric(38, 10),
            };
            crate::fields::field_of("literal", digits)
        }
        Some(sql_type) => crate::fields::field_of("literal", sql_type),
        None => like.clone(),
    };
    Ok(Expr::Cast(Cast { expr: Box::new(expr), field }))
}

fn name_of(field: &FieldRef) -> String {
    if *field.data_type() == DataType::Null {
        return "unknown".to_owned();
    }
    sql_type_of(field).map_or_else(|| field.data_type().to_string(), crate::catalog::name_of)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

use super::numbers::is_number;

//! LIMIT and OFFSET count in bigint: a quoted number is read as one, other numbers are cast, a parameter is one.
//!
//! Runs before the types of parameters are settled. That a count is not negative is found when its value is known.

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, ScalarType, Value};
use ashlar_functions::catalog::name_of;
use ashlar_functions::error::external;
use ashlar_functions::fields::field_of;
use ashlar_functions::tree::rewrite_nodes_with_subqueries;
use ashlar_store::arrow_types::sql_type_of;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};

/// Makes the counts of a plan's LIMIT and OFFSET bigint.
///
/// # Errors
/// 42804 for what is no number, 22P02 for a quoted literal that is none.
pub(super) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| {
        let LogicalPlan::Limit(mut limit) = node else { return Ok(Transformed::no(node)) };
        limit.skip = limit.skip.map(|skip| count(*skip, "OFFSET").map(Box::new)).transpose()?;
        limit.fetch = limit.fetch.map(|fetch| count(*fetch, "LIMIT").map(Box::new)).transpose()?;
        Ok(Transformed::yes(LogicalPlan::Limit(limit)))
    })
}

fn count(expr: Expr, clause: &str) -> Result<Expr> {
    let (_, field) = expr.to_field(&DFSchema::empty())?;
    let bigint = ScalarType::Int8.into();
    if let Expr::Literal(ScalarValue::Utf8(Some(quoted)), _) = &expr
        && !field.metadata().contains_key("ashlar.type")
    {
        let read = text::parse(bigint, quoted, &TextStyle::default()).map_err(external)?;
        let value = if let Value::Int8(value) = read { Some(value) } else { None };
        return Ok(Expr::Literal(ScalarValue::Int64(value), None));
    }
    let found = field.data_type();
    if found.is_integer() || found.is_floating() || found.is_decimal() || found.is_null() {
        return Ok(Expr::Cast(Cast { expr: Box::new(expr), field: field_of("count", bigint) }));
    }
    let found = sql_type_of(&field).map_or_else(|| found.to_string(), name_of);
    let message = format!("argument of {clause} must be type bigint, not type {found}");
    Err(external(Error::new(ErrorCode::DatatypeMismatch, message)))
}

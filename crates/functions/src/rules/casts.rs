//! Casts from and to text go through PostgreSQL's own text forms, with its errors. And what remains of the others is NULL where
//! the logical plan says so, in the plan that runs too.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{Cast, ScalarFunction};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion_optimizer::AnalyzerRule;

use crate::casts::{FromJsonb, FromText, NumberCast, TimeCast, ToText};
use crate::error::external;
use crate::tree::{any_part, rewrite_expressions};

/// Runs after type coercion, so that its casts are covered too.
#[derive(Debug)]
pub struct TextCasts {
    /// Of the sessions that plan with it.
    pub zone: Zone,
}

impl AnalyzerRule for TextCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, |expr, schema| {
            let Expr::Cast(Cast { expr: inner, field }) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let Ok((_, source)) = inner.to_field(schema) else {
                return Ok(Transformed::no(expr));
            };
            let Some(target) = sql_type_of(field) else {
                return Ok(Transformed::no(expr));
            };
            let has_type = field.metadata().contains_key("ashlar.type");
            if has_type && !is_castable(source.data_type(), field.data_type()) {
                let from =
                    sql_type_of(&source).map_or_else(|| source.data_type().to_string(), |found| found.to_string());
                let message = format!("cannot cast type {from} to {target}");
                return Err(external(Error::new(ErrorCode::CannotCoerce, message)));
            }
            if !has_type && is_text(field.data_type()) && is_bytes(source.data_type()) {
                // Not written by anybody: a function for text was given bytes.
                return Err(external(
                    Error::new(ErrorCode::UndefinedFunction, "this function does not take bytea").with_hint(
                        "No function matches the given name and argument types. You might need to add explicit type casts.",
                    ),
                ));
            }
            // A quoted literal is read when the statement is planned, whether its value will be asked for or not.
            if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = inner.as_ref()
                && has_type
            {
                FromText::check(target, text).map_err(external)?;
            }
            let function = match (is_text(source.data_type()), is_text(field.data_type())) {
                // varchar(n) cuts, json checks; a plain text to text cast is nothing.
                (true, true) if has_type => ScalarUDF::from(FromText::new(target, self.zone)),
                (true, false) if has_type && FromJsonb::covers(&source, target) => {
                    ScalarUDF::from(FromJsonb::new(target, self.zone))
                }
                (true, false) => ScalarUDF::from(FromText::new(target, self.zone)),
                (false, true) if !matches!(source.data_type(), DataType::Null) => {
                    ScalarUDF::from(ToText::new(target, self.zone))
                }
                (false, false) if NumberCast::covers(source.data_type(), field.data_type()) => {
                    ScalarUDF::from(NumberCast::new(target, self.zone))
                }
                (false, false) if TimeCast::covers(source.data_type(), field.data_type()) => {
                    ScalarUDF::from(TimeCast::new(target, self.zone))
                }
                _ if says_more_than_a_type(field) && !source.is_nullable() && !may_become_null(inner)? => {
                    let field = Arc::new(field.as_ref().clone().with_nullable(false));
                    return Ok(Transformed::yes(Expr::Cast(Cast { expr: inner.clone(), field })));
                }
                _ => return Ok(Transformed::no(expr)),
            };
            let args = vec![inner.as_ref().clone()];
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::new(function), args })))
        })
    }

    fn name(&self) -> &str {
        "text_casts"
    }
}

/// Whether a cast is to this very field, and not just to its type. The engine's logical plan takes such a cast to be NULL where its
/// operand is, and the plan that runs where the field may be: with a field that may be NULL around what is none, the one would say
/// of a column that it is never NULL and the other that it may be, and the engine plans no aggregate over such a column.
fn says_more_than_a_type(field: &FieldRef) -> bool {
    field.is_nullable() && (!field.name().is_empty() || !field.metadata().is_empty())
}

/// Whether an operand may be NULL later: rows that it is computed from are joined to it, and NULL where there are none; a parameter
/// gets its value.
fn may_become_null(operand: &Expr) -> Result<bool> {
    any_part(operand, |part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        ))
    })
}

/// Whether PostgreSQL has the cast: none between times and numbers or booleans, none of a boolean but to integer, and
/// none between a time of day or an interval and a date.
fn is_castable(from: &DataType, to: &DataType) -> bool {
    let is_number = |of: &DataType| of.is_integer() || of.is_floating() || matches!(of, DataType::Decimal128(..));
    let is_time = |of: &DataType| of.is_temporal();
    match (from, to) {
        (DataType::Boolean, to) => matches!(to, DataType::Boolean | DataType::Int32) || is_text(to),
        (from, DataType::Boolean) => matches!(from, DataType::Int32 | DataType::Null) || is_text(from),
        (DataType::Date32 | DataType::Timestamp(..), DataType::Interval(_))
        | (DataType::Interval(_) | DataType::Time64(_), DataType::Date32 | DataType::Timestamp(..))
        | (DataType::Date32, DataType::Time64(_)) => false,
        // Bytes are bytes, and identifiers are identifiers.
        (from, to) if is_bytes(from) != is_bytes(to) && !is_text(from) && !is_text(to) => {
            matches!(from, DataType::Null)
        }
        (DataType::FixedSizeBinary(_), to) => matches!(to, DataType::FixedSizeBinary(_)) || is_text(to),
        (from, DataType::FixedSizeBinary(_)) => matches!(from, DataType::Null) || is_text(from),
        (from, to) => !(is_number(from) && is_time(to) || is_time(from) && is_number(to)),
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

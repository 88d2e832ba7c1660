//! PostgreSQL's types for DataFusion's SQL planner, and expressions that stand outside of a plan.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use ashlar_base::{Error, ScalarType, SqlType};
use ashlar_functions::bare_numeric;
use ashlar_functions::error::{external, from_datafusion};
use ashlar_functions::fields::field_of;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as AstType, ExactNumberInfo, TimezoneInfo,
};

use crate::system_tables::bound::object_field;
use crate::system_tables::objects::ObjectKind;

/// An expression outside of a plan, with what the analyzer does to expressions inside one.
///
/// # Errors
/// As the analyzer's.
pub fn analysed(state: &SessionState, expr: Expr, schema: &DFSchema) -> ashlar_base::Result<Expr> {
    let input = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema: Arc::new(schema.clone()) });
    let plan = LogicalPlanBuilder::from(input)
        .project(vec![expr])
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).map_err(from_datafusion)?;
    match plan {
        LogicalPlan::Projection(mut projection) if projection.expr.len() == 1 => {
            Ok(projection.expr.remove(0).unalias())
        }
        _ => Err(Error::internal("an expression is analysed as a projection")),
    }
}

/// `coalesce` as the CASE that the engine's optimiser makes of it: it evaluates nothing else. For expressions that no optimiser sees.
///
/// # Errors
/// None of its own.
pub fn with_cases(expr: Expr) -> ashlar_base::Result<Expr> {
    let unfold = |expr: Expr| match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == "coalesce" => {
            let Some(last) = call.args.pop() else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
            if call.args.is_empty() {
                return Ok(Transformed::yes(last));
            }
            let branch = |value: Expr| (Box::new(value.clone().is_not_null()), Box::new(value));
            let branches = call.args.into_iter().map(branch).collect();
            Ok(Transformed::yes(Expr::Case(Case::new(None, branches, Some(Box::new(last))))))
        }
        other => Ok(Transformed::no(other)),
    };
    expr.transform_up(unfold).map(|unfolded| unfolded.data).map_err(from_datafusion)
}

/// Type names in casts -> the very types that columns have.
#[derive(Debug)]
pub struct PgTypePlanner;

impl TypePlanner for PgTypePlanner {
    fn plan_type_field(&self, ast: &AstType) -> Result<Option<FieldRef>> {
        // The planner finds out which one it is.
        if matches!(
            ast,
            AstType::Numeric(ExactNumberInfo::None)
                | AstType::Decimal(ExactNumberInfo::None)
                | AstType::Dec(ExactNumberInfo::None)
        ) {
            return Ok(Some(bare_numeric::marked_field()));
        }
        let name = match ast {
            AstType::Regclass => Some("regclass".to_owned()),
            AstType::Custom(name, modifiers) if modifiers.is_empty() => Some(name.to_string().to_ascii_lowercase()),
            _ => None,
        };
        if let Some(kind) = name.and_then(|name| ObjectKind::of_type(&name)) {
            return Ok(Some(object_field(kind)));
        }
        Ok(sql_type_of(ast)?.map(|sql_type| field_of("cast", sql_type)))
    }
}

/// The type that a name means; `None` where there is none of ours.
///
/// # Errors
/// 0A000 and 42704 for types that are not offered.
pub fn sql_type_of(ast: &AstType) -> Result<Option<SqlType>> {
    Ok(match ast {
        AstType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => scalar_of(element)?.map(SqlType::Array),
        other => scalar_of(other)?.map(SqlType::Scalar),
    })
}

fn scalar_of(ast: &AstType) -> Result<Option<ScalarType>> {
    Ok(Some(match ast {
        AstType::Boolean | AstType::Bool => ScalarType::Bool,
        AstType::SmallInt(None) | AstType::Int2(None) => ScalarType::Int2,
        AstType::Int(None) | AstType::Integer(None) | AstType::Int4(None) => ScalarType::Int4,
        AstType::BigInt(None) | AstType::Int8(None) => ScalarType::Int8,
        AstType::Real | AstType::Float4 => ScalarType::Float4,
        AstType::Double(_) | AstType::DoublePrecision | AstType::Float8 => ScalarType::Float8,
        AstType::Float(ExactNumberInfo::None) => ScalarType::Float8,
        AstType::Float(ExactNumberInfo::Precision(digits)) => {
            if *digits <= 24 {
                ScalarType::Float4
            } else {
                ScalarType::Float8
            }
        }
        AstType::Numeric(info) | AstType::Decimal(info) | AstType::Dec(info) => match info {
            ExactNumberInfo::None => {
                return Err(external(
                    Error::unsupported("numeric without a precision is not supported")
                        .with_hint("Say how many digits: numeric(precision, scale), precision at most 38."),
                ));
            }
            ExactNumberInfo::Precision(precision) => numeric(*precision, 0)?,
            ExactNumberInfo::PrecisionAndScale(precision, scale) => numeric(*precision, *scale)?,
        },
        AstType::Text => ScalarType::Text,
        AstType::Varchar(length) | AstType::CharacterVarying(length) | AstType::CharVarying(length) => match length {
            None => ScalarType::Varchar { length: None },
            Some(CharacterLength::IntegerLength { length, .. }) => {
                ScalarType::Varchar { length: u32::try_from(*length).ok() }
            }
            Some(CharacterLength::Max) => ScalarType::Varchar { length: None },
        },
        AstType::Bytea => ScalarType::Bytea,
        AstType::Date => ScalarType::Date,
        AstType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ScalarType::Time,
        AstType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ScalarType::Timestamp,
        AstType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => ScalarType::Timestamptz,
        AstType::Interval { .. } => ScalarType::Interval,
        AstType::Uuid => ScalarType::Uuid,
        AstType::JSON => ScalarType::Json,
        AstType::JSONB => ScalarType::Jsonb,
        AstType::Char(length) | AstType::Character(length) => ScalarType::Char {
            length: match length {
                None => Some(1),
                Some(CharacterLength::IntegerLength { length, .. }) => Some(character_length(*length)?),
                Some(CharacterLength::Max) => return Ok(None),
            },
        },
        AstType::Custom(name, _) => match name.to_string().to_ascii_lowercase().as_str() {
            "name" | "\"char\"" => ScalarType::Text,
            "oid" => ScalarType::Int8,
            "bpchar" => {
                return Err(external(
                    Error::unsupported("type bpchar is not supported")
                        .with_hint("Use character(n), varchar(n) or text."),
                ));
            }
            other => {
                return Err(external(Error::new(
                    ashlar_base::ErrorCode::UndefinedObject,
                    format!("type \"{other}\" does not exist"),
                )));
            }
        },
        _ => return Ok(None),
    }))
}

fn character_length(length: u64) -> Result<u32> {
    let wrong = |message: &str| external(Error::new(ashlar_base::ErrorCode::InvalidParameterValue, message));
    match u32::try_from(length) {
        Ok(length @ 1..=10_485_760) => Ok(length),
        Ok(0) => Err(wrong("length for type char must be at least 1")),
        _ => Err(wrong("length for type char cannot exceed 10485760")),
    }
}

fn numeric(precision: u64, scale: i64) -> Result<ScalarType> {
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(ScalarType::Numeric { precision, scale }),
        _ => Err(external(
            Error::unsupported(format!("numeric({precision},{scale}) is not supported"))
                .with_hint("The precision can be at most 38, the scale from 0 to the precision."),
        )),
    }
}

//! Calls of the catalog's functions get their signature, and arguments of exactly its types.
//!
//! Runs after literals are narrowed and before type coercion: what PostgreSQL would not convert is refused here.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::value::text::Zone;
use ashlar_base::{Comparison, Error, ErrorCode, ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::{PgFunction, common_numeric, name_of};
use crate::error::external;
use crate::fields::field_of;
use crate::json;
use crate::planner::literals;
use crate::quantified::Quantified;
use crate::regular::{self, Wanted};

/// See the module.
#[derive(Debug)]
pub struct SettleFunctions {
    /// Of the sessions that plan with it.
    pub zone: Zone,
}

impl AnalyzerRule for SettleFunctions {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        crate::tree::rewrite_expressions(plan, |expr, schema| match expr {
            Expr::ScalarFunction(function) => settle(function, schema, self.zone),
            other => Ok(Transformed::no(other)),
        })
    }

    fn name(&self) -> &str {
        "settle_functions"
    }
}

fn settle(function: ScalarFunction, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    if let Some(quantified) = function.func.inner().downcast_ref::<Quantified>() {
        let (comparison, is_all) = (quantified.comparison, quantified.is_all);
        return quantify(function, comparison, is_all, schema);
    }
    let (function, is_spelt) = with_pattern(function, schema)?;
    if function.func.name() == "regexp_replace" && function.args.len() >= 3 {
        let replaced = replacement(function);
        return Ok(if is_spelt { Transformed::yes(replaced.data) } else { replaced });
    }
    let Some(named) = function.func.inner().downcast_ref::<PgFunction>() else {
        return Ok(Transformed::new_transformed(Expr::ScalarFunction(function), is_spelt));
    };
    let fields = function
        .args
        .iter()
        .map(|arg| arg.to_field(schema).map(|(_, field)| field))
        .collect::<Result<Vec<FieldRef>>>()?;
    let chosen = named.choose(&fields, &literals(&function.args), true).map_err(external)?;
    let (ret, types) = (chosen.ret, chosen.args.clone());
    let settled = named.settled(chosen, zone);
    let args = function.args.iter().zip(&fields).zip(types).map(|((arg, field), to)| fitted(arg, field, to)).collect();
    let call = Expr::ScalarFunction(ScalarFunction { func: settled, args });
    // The engine's own function may count in another width than PostgreSQL.
    let wanted = field_of("result", ret);
    let found = call.get_type(schema)?;
    Ok(Transformed::yes(if found == *wanted.data_type() {
        call
    } else if found == DataType::Utf8View || found == DataType::LargeUtf8 {
        Expr::Cast(Cast::new(Box::new(call), DataType::Utf8))
    } else {
        Expr::Cast(Cast { expr: Box::new(call), field: wanted })
    }))
}

/// Functions of the engine's whose second argument is a regular expression.
const OF_PATTERNS: [&str; 2] = ["regexp_replace", "regexp_like"];

/// The function with its pattern in the engine's words, and whether that is new.
fn with_pattern(mut function: ScalarFunction, schema: &DFSchema) -> Result<(ScalarFunction, bool)> {
    let name = function.func.name();
    // A number is a place in the text.
    let is_text = |arg: &Expr| matches!(arg.get_type(schema), Ok(DataType::Utf8));
    let is_concerned = OF_PATTERNS.contains(&name) && function.args.len() >= 2 && is_text(&function.args[1]);
    if !is_concerned {
        return Ok((function, false));
    }
    let wanted = if name == "regexp_like" { Wanted::Answer } else { Wanted::Match };
    match regular::pattern(function.args[1].clone(), wanted).map_err(external)? {
        Some(pattern) => {
            function.args[1] = pattern;
            Ok((function, true))
        }
        None => Ok((function, false)),
    }
}

/// What the engine's `regexp_replace` puts in, in its own spelling.
fn replacement(mut function: ScalarFunction) -> Transformed<Expr> {
    const SPELLING: &str = "regexp replacement";
    let is_spelt = matches!(&function.args[2], Expr::ScalarFunction(inner) if inner.func.name() == SPELLING);
    let text = SqlType::Scalar(ScalarType::Text);
    // With flags, which may say that every match is replaced, the length of what comes of it counts.
    let mut args = vec![function.args[2].clone()];
    if function.args.len() > 3 {
        args.push(function.args[0].clone());
    }
    let types = vec![text; args.len()];
    let spelt = crate::planner::settled(SPELLING, args, &types);
    match spelt {
        Some(spelt) if !is_spelt => {
            function.args[2] = spelt;
            Transformed::yes(Expr::ScalarFunction(function))
        }
        _ => Transformed::no(Expr::ScalarFunction(function)),
    }
}

/// An argument as the signature wants it.
fn fitted(arg: &Expr, field: &FieldRef, to: SqlType) -> Expr {
    let wanted = field_of("argument", to);
    let is_literal = matches!(arg, Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _));
    if field.data_type() == wanted.data_type() && !(is_literal && sql_type_of(field) != Some(to)) {
        return arg.clone();
    }
    Expr::Cast(Cast { expr: Box::new(arg.clone()), field: wanted })
}

/// Gives `x op ANY (array)` sides of one type.
fn quantify(
    function: ScalarFunction,
    comparison: Comparison,
    is_all: bool,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    let [needle, array] = &function.args[..] else { return Ok(Transformed::no(Expr::ScalarFunction(function))) };
    // A list of expressions says what IN says.
    let negated = match (comparison, is_all) {
        (Comparison::Equal, false) => Some(false),
        (Comparison::NotEqual, true) => Some(true),
        _ => None,
    };
    if let (Some(negated), Expr::ScalarFunction(items)) = (negated, array)
        && items.func.name() == "make_array"
        && !items.args.is_empty()
    {
        let list = InList { expr: Box::new(needle.clone()), list: items.args.clone(), negated };
        return Ok(Transformed::yes(Expr::InList(list)));
    }
    let (needle_field, array_field) = (needle.to_field(schema)?.1, array.to_field(schema)?.1);
    let is_open = |expr: &Expr, field: &FieldRef| {
        *field.data_type() == DataType::Null
            || matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _)) && !field.metadata().contains_key("ashlar.type")
    };
    let refuse = |error: Error| Err(external(error));
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let (from, items) = match (is_open(needle, &needle_field), is_open(array, &array_field)) {
        // Two literals without a type are texts.
        (true, true) if is_literal(needle) && is_literal(array) => {
            (SqlType::Scalar(ScalarType::Text), SqlType::Array(ScalarType::Text))
        }
        (true, true) => return Ok(Transformed::no(Expr::ScalarFunction(function))),
        (false, true) => match sql_type_of(&needle_field) {
            Some(from @ SqlType::Scalar(item)) => (from, SqlType::Array(item)),
            _ => return Ok(Transformed::no(Expr::ScalarFunction(function))),
        },
        (is_needle_open, false) => match (sql_type_of(&array_field), sql_type_of(&needle_field)) {
            (Some(items @ SqlType::Array(item)), _) if is_needle_open => (SqlType::Scalar(item), items),
            (Some(items @ SqlType::Array(_)), Some(from)) => (from, items),
            _ => {
                let message = "op ANY/ALL (array) requires array on right side";
                return refuse(Error::new(ErrorCode::WrongObjectType, message));
            }
        },
    };
    let item = SqlType::Scalar(items.scalar());
    let arrow = |sql_type: SqlType| field_of("item", sql_type).data_type().clone();
    // Nobody compares json.
    let common = if arrow(from) == arrow(item) && is_kin(from, item) && from != SqlType::Scalar(ScalarType::Json) {
        from
    } else {
        match common_numeric(from, item) {
            Some(common) => common,
            None => {
                let (left, right) = (name_of(from), name_of(item));
                let message = format!("operator does not exist: {left} {} {right}", comparison.sign());
                return refuse(Error::new(ErrorCode::UndefinedFunction, message).with_hint(
                    "No operator matches the given name and argument types. You might need to add explicit type casts.",
                ));
            }
        }
    };
    let mut args =
        vec![fitted(needle, &needle_field, common), fitted(array, &array_field, SqlType::Array(common.scalar()))];
    if common == SqlType::Scalar(ScalarType::Jsonb)
        && let [needle, array] = &args[..]
        && let Some(keys) = json::keys_of(array.clone())
    {
        // Texts of documents differ where their values are equal.
        args = vec![json::key_of(needle.clone()), keys];
    }
    let changed = args != function.args;
    let call = Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&function.func), args });
    Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
}

/// Types of one Arrow type that PostgreSQL compares too: text with varchar, not with json.
fn is_kin(left: SqlType, right: SqlType) -> bool {
    use ashlar_base::ScalarType::{Text, Varchar};
    let plain = |of: SqlType| matches!(of.scalar(), Text | Varchar { .. });
    left == right || plain(left) && plain(right) || !matches!(field_of("", left).data_type(), DataType::Utf8)
}

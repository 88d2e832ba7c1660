//! `SELECT setval('sequence', number, is_called)`, as dumps write it: a command of the session, since it changes what the next row is given.
//!
//! Called when a SELECT is planned for tables in memory. Anywhere else, and of anything but constants, it is an expression like others.

use ashlar_base::{Error, ErrorCode, Result, ScalarType};
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, SelectStmt, a_const};

use super::SessionCommand;
use crate::columns::Column;
use crate::ddl::named_sequence::text_of;
use crate::sql_types;

/// The command and its column, where a SELECT is nothing but that call.
///
/// # Errors
/// 22003 for a number that is none of a bigint.
pub(super) fn recognise(select: &SelectStmt) -> Result<Option<(SessionCommand, Column)>> {
    let is_bare = select.from_clause.is_empty()
        && select.where_clause.is_none()
        && select.values_lists.is_empty()
        && select.with_clause.is_none()
        && select.larg.is_none()
        && select.limit_count.is_none()
        && select.limit_offset.is_none();
    let [target] = &select.target_list[..] else { return Ok(None) };
    let Some(NodeEnum::ResTarget(target)) = target.node.as_ref().filter(|_| is_bare) else { return Ok(None) };
    let Some(NodeEnum::FuncCall(call)) = target.val.as_ref().and_then(|value| value.node.as_ref()) else {
        return Ok(None);
    };
    if !is_setval(call) {
        return Ok(None);
    }
    let (sequence, value, is_called) = match &call.args[..] {
        [sequence, value] => (sequence, value, Some(true)),
        [sequence, value, is_called] => (sequence, value, boolean(is_called)),
        _ => return Ok(None),
    };
    let (Some(sequence), Some(digits), Some(is_called)) = (text_of(sequence), digits(value), is_called) else {
        return Ok(None);
    };
    let sequence = sequence.to_owned();
    let value = digits.parse::<i64>().map_err(|_| {
        Error::new(ErrorCode::NumericOutOfRange, format!("value \"{digits}\" is out of range for type bigint"))
    })?;
    let name = if target.name.is_empty() { "setval" } else { target.name.as_str() };
    let column = Column::new(name, ScalarType::Int8.into());
    Ok(Some((SessionCommand::SetNumber { sequence, value, is_called }, column)))
}

fn is_setval(call: &FuncCall) -> bool {
    let names: Vec<&str> = call.funcname.iter().filter_map(sql_types::string_of).collect();
    let is_plain = call.over.is_none() && call.agg_filter.is_none() && !call.agg_distinct && !call.func_variadic;
    is_plain && matches!(names[..], ["setval"] | ["pg_catalog", "setval"])
}

/// The digits of a whole number.
fn digits(node: &pg_query::Node) -> Option<String> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Ival(value) => Some(value.ival.to_string()),
            // A number that is too large for an integer.
            a_const::Val::Fval(value) if value.fval.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(value.fval.clone())
            }
            _ => None,
        },
        NodeEnum::AExpr(expr)
            if expr.lexpr.is_none() && expr.name.iter().filter_map(sql_types::string_of).eq(["-"]) =>
        {
            Some(format!("-{}", digits(expr.rexpr.as_ref()?)?))
        }
        _ => None,
    }
}

fn boolean(node: &pg_query::Node) -> Option<bool> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Boolval(value) => Some(value.boolval),
            _ => None,
        },
        _ => None,
    }
}

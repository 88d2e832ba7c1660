//! `SELECT set_config(...)` and `SELECT pg_notify(...)`: SET and NOTIFY in the form of a function, as drivers and dumps write them.
//!
//! Called when a SELECT is planned. A function that changes the session cannot run on the query pool, so a SELECT of
//! nothing but these and `current_setting` is a command of the session; anywhere else they are unknown.

use ashlar_base::{Error, Result, ScalarType, SqlType, Value};
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, SelectStmt, a_const};

use crate::columns::Column;
use crate::sql_types;

/// PostgreSQL's OID of `void`, whose only value is an empty text.
const VOID: u32 = 2278;

/// A column of the SELECT.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name of the result column.
    pub column: String,
    /// What it does, with the arguments it was given.
    pub function: Function,
}

/// A function that is called.
#[derive(Clone, Debug)]
pub enum Function {
    /// Name, new value, whether the value is the transaction's only.
    SetConfig([Argument; 3]),
    /// Channel, payload.
    Notify([Argument; 2]),
    /// Name, and whether NULL is the answer where there is no such setting.
    CurrentSetting(Argument, Option<Argument>),
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// NULL
    Null,
    /// A text, or a Boolean as text.
    Text(String),
    /// `$1` is number 0.
    Parameter(usize),
}

impl Argument {
    /// The text of an argument; of a parameter among its values.
    pub fn text(&self, parameters: &[Value]) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Text(text) => Some(text.clone()),
            Self::Parameter(number) => match parameters.get(*number)? {
                Value::Text(text) => Some(text.to_string()),
                Value::Bool(value) => Some(value.to_string()),
                _ => None,
            },
        }
    }
}

/// The calls of a SELECT that is nothing but such calls, `set_config` among them.
///
/// # Errors
/// 0A000 for arguments that are neither constants nor parameters.
pub fn recognise(select: &SelectStmt) -> Result<Option<Vec<Item>>> {
    let is_bare = select.from_clause.is_empty()
        && select.where_clause.is_none()
        && select.values_lists.is_empty()
        && select.with_clause.is_none()
        && select.larg.is_none()
        && select.sort_clause.is_empty()
        && select.group_clause.is_empty()
        && select.distinct_clause.is_empty()
        && select.having_clause.is_none()
        && select.limit_count.is_none()
        && select.limit_offset.is_none();
    if !is_bare {
        return Ok(None);
    }
    let mut calls = Vec::new();
    for target in &select.target_list {
        let Some(NodeEnum::ResTarget(target)) = &target.node else { return Ok(None) };
        let Some(NodeEnum::FuncCall(call)) = target.val.as_ref().and_then(|value| value.node.as_ref()) else {
            return Ok(None);
        };
        let Some(name) = function_name(call) else { return Ok(None) };
        calls.push((if target.name.is_empty() { name.to_owned() } else { target.name.clone() }, name, call));
    }
    if !calls.iter().any(|(_, name, _)| matches!(*name, "set_config" | "pg_notify")) {
        return Ok(None);
    }
    let mut items = Vec::new();
    for (column, name, call) in calls {
        let arguments: Option<Vec<Argument>> = call.args.iter().map(argument).collect();
        let Some(arguments) = arguments else {
            let message = format!("arguments of {name} that are not constants are not supported");
            return Err(Error::unsupported(message));
        };
        let function = match (name, arguments.as_slice()) {
            ("set_config", [name, value, local]) => Function::SetConfig([name.clone(), value.clone(), local.clone()]),
            ("pg_notify", [channel, payload]) => Function::Notify([channel.clone(), payload.clone()]),
            ("current_setting", [name]) => Function::CurrentSetting(name.clone(), None),
            ("current_setting", [name, missing]) => Function::CurrentSetting(name.clone(), Some(missing.clone())),
            // The planner says what is wrong with it.
            _ => return Ok(None),
        };
        items.push(Item { column, function });
    }
    Ok(Some(items))
}

/// The column of a call.
pub fn column_of(item: &Item) -> Column {
    let column = Column::text(&item.column);
    match item.function {
        Function::Notify(_) => Column { oid: VOID, typlen: 4, ..column },
        Function::SetConfig(_) | Function::CurrentSetting(..) => column,
    }
}

/// The types of the parameters that the calls take.
pub fn parameter_types(items: &[Item]) -> Vec<SqlType> {
    let mut types = Vec::new();
    let mut note = |argument: &Argument, scalar: ScalarType| {
        if let Argument::Parameter(number) = argument {
            while types.len() <= *number {
                types.push(SqlType::Scalar(ScalarType::Text));
            }
            types[*number] = SqlType::Scalar(scalar);
        }
    };
    for item in items {
        match &item.function {
            Function::SetConfig([name, value, local]) => {
                note(name, ScalarType::Text);
                note(value, ScalarType::Text);
                note(local, ScalarType::Bool);
            }
            Function::Notify([channel, payload]) => {
                note(channel, ScalarType::Text);
                note(payload, ScalarType::Text);
            }
            Function::CurrentSetting(name, missing) => {
                note(name, ScalarType::Text);
                missing.iter().for_each(|missing| note(missing, ScalarType::Bool));
            }
        }
    }
    types
}

fn function_name(call: &FuncCall) -> Option<&str> {
    let names: Vec<&str> = call.funcname.iter().filter_map(sql_types::string_of).collect();
    let is_plain = call.agg_order.is_empty()
        && call.agg_filter.is_none()
        && call.over.is_none()
        && !call.agg_distinct
        && !call.func_variadic;
    match names.as_slice() {
        [name] | ["pg_catalog", name]
            if is_plain && matches!(*name, "set_config" | "current_setting" | "pg_notify") =>
        {
            Some(name)
        }
        _ => None,
    }
}

fn argument(node: &pg_query::Node) -> Option<Argument> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => Some(Argument::Null),
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(text) => Some(Argument::Text(text.sval.clone())),
            a_const::Val::Boolval(value) => Some(Argument::Text(value.boolval.to_string())),
            _ => None,
        },
        NodeEnum::TypeCast(cast) => argument(cast.arg.as_ref()?),
        NodeEnum::ParamRef(parameter) => {
            Some(Argument::Parameter(usize::try_from(parameter.number).ok()?.checked_sub(1)?))
        }
        _ => None,
    }
}

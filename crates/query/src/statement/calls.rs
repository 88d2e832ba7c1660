//! A SELECT of nothing but functions that change the session or wait for others: `setval`, `set_config` and `pg_notify`, advisory locks, and
//! `pg_sleep`. It is a command of the session, since none of them can run on the query pool.
//!
//! Called when a SELECT is planned for tables in memory. Anywhere else, advisory locks and `pg_sleep` are unknown.

use std::sync::Arc;

use ashlar_base::{Error, Result, ScalarType, SqlType, Value};
use ashlar_functions::hashes;
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, SelectStmt, a_const};

use super::{SessionCommand, configure, setval};
use crate::columns::Column;
use crate::sql_types;

/// PostgreSQL's OID of `void`, whose only value is an empty text.
const VOID: u32 = 2278;

/// A column of the SELECT.
#[derive(Clone, Debug)]
pub struct Item {
    /// What is called.
    pub function: Function,
    /// With what: `$1` and the like are of the types that [`Function`] names.
    pub arguments: Vec<Argument>,
}

/// A function that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `pg_advisory_lock` and its kin: of one bigint or of two integers.
    Lock {
        /// Beside others of its kind.
        is_shared: bool,
        /// Until the end of the transaction.
        of_transaction: bool,
        /// Without waiting: the answer says whether there is one.
        tries: bool,
    },
    /// `pg_advisory_unlock`
    Unlock {
        /// One that is beside others.
        is_shared: bool,
    },
    /// `pg_advisory_unlock_all`
    UnlockAll,
    /// `pg_sleep`, of seconds.
    Sleep,
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A value of the function's type, or NULL.
    Value(Value),
    /// `$1` is number 0.
    Parameter(usize),
    /// `hashtext` of a text, or `hashtextextended` with this seed.
    Hash(Box<Argument>, Option<i64>),
}

impl Argument {
    /// The value; of a parameter among those of the statement.
    fn value<'a>(&'a self, parameters: &'a [Value]) -> &'a Value {
        match self {
            Self::Value(value) => value,
            Self::Parameter(number) => parameters.get(*number).unwrap_or(&Value::Null),
            // It is of its text.
            Self::Hash(..) => &Value::Null,
        }
    }

    /// The value as a whole number; `None` for NULL.
    pub fn whole(&self, parameters: &[Value]) -> Option<i64> {
        if let Self::Hash(text, seed) = self {
            let Value::Text(text) = text.value(parameters) else { return None };
            return Some(match seed {
                Some(seed) => hashes::hash_extended(text.as_bytes(), *seed),
                None => i64::from(hashes::hash(text.as_bytes())),
            });
        }
        match self.value(parameters) {
            Value::Int2(number) => Some(i64::from(*number)),
            Value::Int4(number) => Some(i64::from(*number)),
            Value::Int8(number) => Some(*number),
            _ => None,
        }
    }

    /// The value as a number; `None` for NULL.
    pub fn number(&self, parameters: &[Value]) -> Option<f64> {
        match self.value(parameters) {
            Value::Float4(number) => Some(f64::from(*number)),
            Value::Float8(number) => Some(*number),
            _ => self.whole(parameters).map(|number| number as f64),
        }
    }
}

impl Function {
    fn of_name(name: &str) -> Option<Self> {
        let lock = |is_shared, of_transaction, tries| Some(Self::Lock { is_shared, of_transaction, tries });
        match name {
            "pg_advisory_lock" => lock(false, false, false),
            "pg_advisory_lock_shared" => lock(true, false, false),
            "pg_advisory_xact_lock" => lock(false, true, false),
            "pg_advisory_xact_lock_shared" => lock(true, true, false),
            "pg_try_advisory_lock" => lock(false, false, true),
            "pg_try_advisory_lock_shared" => lock(true, false, true),
            "pg_try_advisory_xact_lock" => lock(false, true, true),
            "pg_try_advisory_xact_lock_shared" => lock(true, true, true),
            "pg_advisory_unlock" => Some(Self::Unlock { is_shared: false }),
            "pg_advisory_unlock_shared" => Some(Self::Unlock { is_shared: true }),
            "pg_advisory_unlock_all" => Some(Self::UnlockAll),
            "pg_sleep" => Some(Self::Sleep),
            _ => None,
        }
    }

    /// The type of its arguments, where it takes so many.
    fn argument_type(self, count: usize) -> Option<ScalarType> {
        match (self, count) {
            (Self::Lock { .. } | Self::Unlock { .. }, 1) => Some(ScalarType::Int8),
            (Self::Lock { .. } | Self::Unlock { .. }, 2) => Some(ScalarType::Int4),
            (Self::Sleep, 1) => Some(ScalarType::Float8),
            // Of none.
            (Self::UnlockAll, 0) => Some(ScalarType::Int8),
            _ => None,
        }
    }

    fn column(self, name: &str) -> Column {
        match self {
            Self::Lock { tries: true, .. } | Self::Unlock { .. } => Column::new(name, ScalarType::Bool.into()),
            Self::Lock { .. } | Self::UnlockAll | Self::Sleep => Column { oid: VOID, typlen: 4, ..Column::text(name) },
        }
    }
}

/// A command, the types of its parameters and its columns.
type Recognised = (SessionCommand, Vec<SqlType>, Arc<[Column]>);

/// The command, where a SELECT is nothing but such calls.
///
/// # Errors
/// As [`setval::recognise`] and [`configure::recognise`]; 0A000 for arguments of advisory locks and `pg_sleep` that are neither constants nor
/// parameters.
pub(super) fn recognise(select: &SelectStmt, declared: &[u32]) -> Result<Option<Recognised>> {
    if let Some((command, column)) = setval::recognise(select)? {
        return Ok(Some((command, Vec::new(), vec![column].into())));
    }
    if let Some(items) = configure::recognise(select)? {
        let columns = items.iter().map(configure::column_of).collect();
        let types = configure::parameter_types(&items);
        return Ok(Some((SessionCommand::Configure(items), types, columns)));
    }
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
    if !is_bare || select.target_list.is_empty() {
        return Ok(None);
    }
    let (mut items, mut types, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for target in &select.target_list {
        let Some(NodeEnum::ResTarget(target)) = &target.node else { return Ok(None) };
        let Some(NodeEnum::FuncCall(call)) = target.val.as_ref().and_then(|value| value.node.as_ref()) else {
            return Ok(None);
        };
        let Some((name, function)) = function_of(call) else { return Ok(None) };
        // The planner says what is wrong with it.
        let Some(of) = function.argument_type(call.args.len()) else { return Ok(None) };
        let mut arguments = Vec::with_capacity(call.args.len());
        for node in &call.args {
            let Some(argument) = argument(node, of) else {
                let message = format!("arguments of {name} that are not constants are not supported");
                return Err(Error::unsupported(message).with_hint("Compute them before, and give them as parameters."));
            };
            let (parameter, of) = match &argument {
                Argument::Hash(text, _) => (text.as_ref(), ScalarType::Text),
                other => (other, of),
            };
            if let Argument::Parameter(number) = *parameter {
                while types.len() <= number {
                    types.push(SqlType::Scalar(ScalarType::Text));
                }
                let Some(given) = given_type(of, declared.get(number).copied().unwrap_or(0)) else { return Ok(None) };
                types[number] = given;
            }
            arguments.push(argument);
        }
        columns.push(function.column(if target.name.is_empty() { name } else { &target.name }));
        items.push(Item { function, arguments });
    }
    Ok(Some((SessionCommand::Call(items), types, columns.into())))
}

/// The type of a parameter that the client may have declared: one whose values become the argument's without being asked.
fn given_type(of: ScalarType, declared: u32) -> Option<SqlType> {
    use ScalarType::{Float4, Float8, Int2, Int4, Int8, Text, Varchar};
    if declared == 0 {
        return Some(SqlType::Scalar(of));
    }
    let SqlType::Scalar(given) = SqlType::from_oid(declared)? else { return None };
    let fits = match of {
        Int8 => matches!(given, Int2 | Int4 | Int8),
        Int4 => matches!(given, Int2 | Int4),
        Text => matches!(given, Text | Varchar { .. }),
        _ => matches!(given, Int2 | Int4 | Int8 | Float4 | Float8),
    };
    fits.then_some(SqlType::Scalar(given))
}

fn function_of(call: &FuncCall) -> Option<(&str, Function)> {
    let names: Vec<&str> = call.funcname.iter().filter_map(sql_types::string_of).collect();
    let is_plain = call.agg_order.is_empty()
        && call.agg_filter.is_none()
        && call.over.is_none()
        && !call.agg_distinct
        && !call.func_variadic;
    match names[..] {
        [name] | ["pg_catalog", name] if is_plain => Some((name, Function::of_name(name)?)),
        _ => None,
    }
}

fn argument(node: &pg_query::Node, of: ScalarType) -> Option<Argument> {
    let digits = match node.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => return Some(Argument::Value(Value::Null)),
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Ival(value) => value.ival.to_string(),
            // A number that is too large for an integer, or has a point.
            a_const::Val::Fval(value) => value.fval.clone(),
            a_const::Val::Sval(value) => value.sval.trim().to_owned(),
            _ => return None,
        },
        NodeEnum::AExpr(expr)
            if expr.lexpr.is_none() && expr.name.iter().filter_map(sql_types::string_of).eq(["-"]) =>
        {
            return match argument(expr.rexpr.as_ref()?, of)? {
                Argument::Value(Value::Int8(value)) => Some(Argument::Value(Value::Int8(value.checked_neg()?))),
                Argument::Value(Value::Int4(value)) => Some(Argument::Value(Value::Int4(value.checked_neg()?))),
                Argument::Value(Value::Float8(value)) => Some(Argument::Value(Value::Float8(-value))),
                _ => None,
            };
        }
        NodeEnum::TypeCast(cast) => {
            // What another type makes of the value is not known here.
            let names = &cast.type_name.as_ref()?.names;
            let name = names.last().and_then(sql_types::string_of)?;
            let is_kept = match of {
                ScalarType::Int8 => matches!(name, "int8" | "int4"),
                ScalarType::Int4 => name == "int4",
                _ => name == "float8",
            };
            return if is_kept { argument(cast.arg.as_ref()?, of) } else { None };
        }
        NodeEnum::FuncCall(call) => return hash(call, of),
        NodeEnum::ParamRef(parameter) => {
            return Some(Argument::Parameter(usize::try_from(parameter.number).ok()?.checked_sub(1)?));
        }
        _ => return None,
    };
    Some(Argument::Value(match of {
        ScalarType::Int8 => Value::Int8(digits.parse().ok()?),
        ScalarType::Int4 => Value::Int4(digits.parse().ok()?),
        _ => Value::Float8(digits.parse::<f64>().ok().filter(|seconds| seconds.is_finite())?),
    }))
}

/// The hash of a text, where a number is wanted that it fits into.
fn hash(call: &FuncCall, of: ScalarType) -> Option<Argument> {
    let names: Vec<&str> = call.funcname.iter().filter_map(sql_types::string_of).collect();
    let text = |node: &pg_query::Node| match node.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => Some(Argument::Value(Value::Null)),
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(text) => Some(Argument::Value(Value::Text(text.sval.as_str().into()))),
            _ => None,
        },
        NodeEnum::ParamRef(parameter) => {
            Some(Argument::Parameter(usize::try_from(parameter.number).ok()?.checked_sub(1)?))
        }
        _ => None,
    };
    match (&names[..], &call.args[..], of) {
        (["hashtext"] | ["pg_catalog", "hashtext"], [of_text], ScalarType::Int4 | ScalarType::Int8) => {
            Some(Argument::Hash(Box::new(text(of_text)?), None))
        }
        (["hashtextextended"] | ["pg_catalog", "hashtextextended"], [of_text, seed], ScalarType::Int8) => {
            let Argument::Value(Value::Int8(seed)) = argument(seed, ScalarType::Int8)? else { return None };
            Some(Argument::Hash(Box::new(text(of_text)?), Some(seed)))
        }
        _ => None,
    }
}

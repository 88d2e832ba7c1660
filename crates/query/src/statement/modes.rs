//! BEGIN, SET and their like: turns the parse tree of a statement about the session or its transaction into a command.
//!
//! Called when such a statement is planned.

use ashlar_base::{Error, ErrorCode, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, TransactionStmtKind, VariableSetKind};

use super::{SessionCommand, TransactionModes};
use crate::sql_types;
use crate::transaction::Isolation;

pub(super) fn transaction_command(node: &protobuf::TransactionStmt) -> Result<SessionCommand> {
    let savepoint = || node.savepoint_name.clone();
    Ok(match TransactionStmtKind::try_from(node.kind).unwrap_or(TransactionStmtKind::Undefined) {
        TransactionStmtKind::TransStmtCommit if node.chain => SessionCommand::Chain { commits: true },
        TransactionStmtKind::TransStmtRollback if node.chain => SessionCommand::Chain { commits: false },
        TransactionStmtKind::TransStmtBegin => SessionCommand::Begin(modes(&node.options)?),
        TransactionStmtKind::TransStmtStart => SessionCommand::Start(modes(&node.options)?),
        TransactionStmtKind::TransStmtCommit => SessionCommand::Commit,
        TransactionStmtKind::TransStmtRollback => SessionCommand::Rollback,
        TransactionStmtKind::TransStmtSavepoint => SessionCommand::Savepoint(savepoint()),
        TransactionStmtKind::TransStmtRelease => SessionCommand::Release(savepoint()),
        TransactionStmtKind::TransStmtRollbackTo => SessionCommand::RollbackTo(savepoint()),
        _ => return Err(Error::unsupported("two-phase commit is not supported")),
    })
}

fn modes(options: &[pg_query::Node]) -> Result<TransactionModes> {
    let mut modes = TransactionModes::default();
    for option in options {
        let Some(NodeEnum::DefElem(element)) = &option.node else { continue };
        let value = crate::ddl::option_text(element).unwrap_or_default();
        match element.defname.as_str() {
            parameter @ "transaction_isolation" => modes.isolation = Some(isolation(parameter, &value)?),
            "transaction_read_only" => modes.read_only = Some(value == "1" || value == "true"),
            "transaction_deferrable" => modes.deferrable = Some(value == "1" || value == "true"),
            other => return Err(Error::unsupported(format!("{other} is not supported"))),
        }
    }
    Ok(modes)
}

/// The isolation level of this name, for a setting.
///
/// # Errors
/// 0A000 for `serializable`, 22023 for an unknown name.
pub fn isolation(parameter: &str, name: &str) -> Result<Isolation> {
    match name.to_ascii_lowercase().as_str() {
        "read uncommitted" => Ok(Isolation::ReadUncommitted),
        "read committed" => Ok(Isolation::ReadCommitted),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        "serializable" => Err(Error::unsupported("isolation level SERIALIZABLE is not supported")
            .with_hint("Use REPEATABLE READ: it reads one snapshot and refuses conflicting writes.")),
        _ => Err(Error::new(
            ErrorCode::InvalidParameterValue,
            format!("invalid value for parameter \"{parameter}\": \"{name}\""),
        )
        .with_hint("Available values: serializable, repeatable read, read committed, read uncommitted.")),
    }
}

pub(super) fn set_command(node: &protobuf::VariableSetStmt) -> Result<SessionCommand> {
    let kind = VariableSetKind::try_from(node.kind).unwrap_or(VariableSetKind::Undefined);
    match kind {
        VariableSetKind::VarSetValue => {
            if let Some(zone) = zone_of_interval(node)? {
                return Ok(SessionCommand::Set { name: node.name.clone(), value: Some(zone), local: node.is_local });
            }
            if node.args.len() > 1 && node.name.contains('.') {
                let message = format!("SET {} takes only one argument", node.name);
                return Err(Error::new(ErrorCode::InvalidParameterValue, message));
            }
            let values: Vec<String> = node.args.iter().filter_map(argument_text).collect();
            Ok(SessionCommand::Set { name: node.name.clone(), value: Some(values.join(", ")), local: node.is_local })
        }
        VariableSetKind::VarSetDefault => {
            Ok(SessionCommand::Set { name: node.name.clone(), value: None, local: node.is_local })
        }
        VariableSetKind::VarReset => Ok(SessionCommand::Reset(node.name.clone())),
        VariableSetKind::VarSetMulti => match node.name.as_str() {
            "TRANSACTION" => Ok(SessionCommand::SetTransaction(modes(&node.args)?)),
            "SESSION CHARACTERISTICS" => Ok(SessionCommand::SetCharacteristics(modes(&node.args)?)),
            other => Err(Error::unsupported(format!("SET {other} is not supported"))),
        },
        VariableSetKind::VarResetAll => Ok(SessionCommand::ResetAll),
        _ => Err(Error::unsupported("this form of SET is not supported")),
    }
}

/// The zone of `SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE`, as a value of the setting.
fn zone_of_interval(node: &protobuf::VariableSetStmt) -> Result<Option<String>> {
    let Some(NodeEnum::TypeCast(cast)) = node.args.first().and_then(|node| node.node.as_ref()) else {
        return Ok(None);
    };
    let is_interval = cast
        .type_name
        .as_ref()
        .is_some_and(|name| name.names.iter().filter_map(sql_types::string_of).next_back() == Some("interval"));
    if !is_interval {
        return Ok(None);
    }
    let text = cast.arg.as_ref().and_then(|arg| argument_text(arg)).unwrap_or_default();
    // Without a colon the number counts what the fields behind it say.
    if !text.contains(':') {
        return Err(Error::unsupported("this form of SET TIME ZONE INTERVAL is not supported"));
    }
    let interval = ashlar_base::value::interval::parse(&text)?;
    let zone = ashlar_base::value::datetime::arithmetic::zone_of_interval(interval)?;
    Ok(Some(zone.to_string()))
}

fn argument_text(node: &pg_query::Node) -> Option<String> {
    use protobuf::a_const::Val;
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            Val::Sval(value) => Some(value.sval.clone()),
            Val::Ival(value) => Some(value.ival.to_string()),
            Val::Fval(value) => Some(value.fval.clone()),
            Val::Boolval(value) => Some(value.boolval.to_string()),
            Val::Bsval(_) => None,
        },
        NodeEnum::TypeCast(cast) => argument_text(cast.arg.as_ref()?),
        NodeEnum::String(string) => Some(string.sval.clone()),
        _ => None,
    }
}

//! Statements about the session and its transaction, as commands.
//!
//! Called by `statement` for every statement that has no kind of its own. Runs nothing.

use ashlar_base::{Error, Result};
use pg_query::NodeEnum;
use pg_query::protobuf;

use super::modes::{set_command, transaction_command};
use super::{SessionCommand, expression_text, statement_text, unsupported};
use crate::ddl::{option_text, relation_name};
use crate::{analyze, sql_types};

/// What a session does for a statement.
///
/// # Errors
/// 0A000 for a statement, or a form of one, that is not supported.
pub(super) fn session_command(node: &NodeEnum, text: &str) -> Result<SessionCommand> {
    Ok(match node {
        NodeEnum::TransactionStmt(node) => transaction_command(node)?,
        NodeEnum::VariableSetStmt(node) => set_command(node)?,
        NodeEnum::VariableShowStmt(node) if node.name == "all" => SessionCommand::ShowAll,
        NodeEnum::VariableShowStmt(node) => SessionCommand::Show(shown_name(&node.name)),
        NodeEnum::DiscardStmt(node) => match protobuf::DiscardMode::try_from(node.target) {
            // Plans are kept for all sessions, and are made anew by themselves.
            Ok(protobuf::DiscardMode::DiscardPlans) => SessionCommand::Nothing("DISCARD PLANS"),
            Ok(protobuf::DiscardMode::DiscardSequences) => SessionCommand::Nothing("DISCARD SEQUENCES"),
            Ok(protobuf::DiscardMode::DiscardTemp) => SessionCommand::Nothing("DISCARD TEMP"),
            _ => SessionCommand::DiscardAll,
        },
        NodeEnum::ListenStmt(node) => SessionCommand::Listen(node.conditionname.clone()),
        NodeEnum::UnlistenStmt(node) => {
            SessionCommand::Unlisten((!node.conditionname.is_empty()).then(|| node.conditionname.clone()))
        }
        NodeEnum::NotifyStmt(node) => {
            SessionCommand::Notify { channel: node.conditionname.clone(), payload: node.payload.clone() }
        }
        NodeEnum::PrepareStmt(node) => prepare(node)?,
        NodeEnum::ExecuteStmt(node) => {
            let mut arguments = Vec::new();
            for argument in &node.params {
                arguments.push(expression_text(argument)?);
            }
            SessionCommand::Execute { name: node.name.clone(), arguments }
        }
        NodeEnum::DeallocateStmt(node) => SessionCommand::Deallocate((!node.isall).then(|| node.name.clone())),
        NodeEnum::DeclareCursorStmt(node) => declare(node)?,
        NodeEnum::FetchStmt(node) => fetch(node)?,
        NodeEnum::ClosePortalStmt(node) => {
            SessionCommand::Close((!node.portalname.is_empty()).then(|| node.portalname.clone()))
        }
        NodeEnum::VacuumStmt(node) if node.is_vacuumcmd => {
            let analyses = node.options.iter().any(|option| {
                matches!(&option.node, Some(NodeEnum::DefElem(option)) if option.defname == "analyze" && !is_off(option))
            });
            SessionCommand::Vacuum(if analyses { Some(analyzed(&node.rels)?) } else { None })
        }
        NodeEnum::VacuumStmt(node) => SessionCommand::Analyze(analyzed(&node.rels)?),
        _ => return Err(unsupported::refusal(node, text)),
    })
}

/// PREPARE
fn prepare(node: &protobuf::PrepareStmt) -> Result<SessionCommand> {
    let mut types = Vec::new();
    for argument in &node.argtypes {
        if let Some(NodeEnum::TypeName(name)) = &argument.node {
            // Bare numeric is allowed here: a parameter has the precision of its value.
            types.push(match sql_types::resolve(name) {
                Ok(sql_type) => sql_type.oid(),
                Err(error) if error.message().starts_with("numeric without") => 1700,
                Err(error) => return Err(error),
            });
        }
    }
    let inner = node.query.as_ref().and_then(|query| query.node.as_ref());
    let inner = inner.ok_or_else(|| Error::internal("PREPARE without a statement"))?;
    Ok(SessionCommand::Prepare { name: node.name.clone(), types, text: statement_text(inner)? })
}

/// DECLARE
fn declare(node: &protobuf::DeclareCursorStmt) -> Result<SessionCommand> {
    // CURSOR_OPT_HOLD and CURSOR_OPT_BINARY of PostgreSQL's parsenodes.h.
    const HOLD: i32 = 0x0020;
    const BINARY: i32 = 0x0001;
    let inner = node.query.as_ref().and_then(|query| query.node.as_ref());
    let inner = inner.ok_or_else(|| Error::internal("DECLARE without a query"))?;
    if node.options & BINARY != 0 {
        return Err(Error::unsupported("a binary cursor is not supported"));
    }
    Ok(SessionCommand::Declare {
        name: node.portalname.clone(),
        text: statement_text(inner)?,
        hold: node.options & HOLD != 0,
    })
}

/// FETCH and MOVE
fn fetch(node: &protobuf::FetchStmt) -> Result<SessionCommand> {
    if node.direction != i32::from(protobuf::FetchDirection::FetchForward) || node.how_many < 0 {
        return Err(Error::unsupported("only FETCH forward is supported"));
    }
    let all = node.how_many == i64::MAX;
    Ok(SessionCommand::Fetch {
        name: node.portalname.clone(),
        count: (!all).then(|| u64::try_from(node.how_many).unwrap_or(0)),
        is_move: node.ismove,
    })
}

/// Whether an option says no.
fn is_off(option: &protobuf::DefElem) -> bool {
    matches!(option_text(option).as_deref(), Some("false" | "off" | "0"))
}

/// The tables that ANALYZE names.
fn analyzed(relations: &[pg_query::Node]) -> Result<Vec<analyze::Target>> {
    let named = relations.iter().filter_map(|relation| match &relation.node {
        Some(NodeEnum::VacuumRelation(relation)) => Some(relation),
        _ => None,
    });
    let target = |relation: &protobuf::VacuumRelation| {
        let columns = relation.va_cols.iter().filter_map(sql_types::string_of).map(str::to_owned).collect();
        Ok(analyze::Target { table: relation_name(relation.relation.as_ref())?, columns })
    };
    named.map(target).collect()
}

/// The name of a setting as its result column has it: PostgreSQL writes three of its own in capitals.
fn shown_name(name: &str) -> String {
    let canonical =
        ["TimeZone", "DateStyle", "IntervalStyle"].into_iter().find(|known| known.eq_ignore_ascii_case(name));
    canonical.unwrap_or(name).to_owned()
}

//! Planning for a session whose `sharded_server` names one server for all its statements: which of them are sent
//! there, and which remain the session's own.
//!
//! Called by sessions in place of all other planning. A statement whose effect others than that server would have to
//! know of is refused here and runs nowhere.

use std::sync::Arc;

use ashlar_base::{Error, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{ExplainStmt, SelectStmt};

use super::{Kind, STATEMENT_BYTES, Statement, configure, statement_text, unsupported};
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::explain;
use crate::grammar::{self, ParsedStatement};
use crate::lift::{Lifting, Shape};
use crate::sharded::ShardedPlan;

/// 0A000 for what is not done while a session names a server.
pub fn refused_by_name(what: &str) -> Error {
    Error::unsupported(format!("{what} is not supported while sharded_server is set"))
        .with_hint("RESET sharded_server first.")
}

impl Statement {
    /// Plans a statement for the server that its session names, and says how others of its shape are told to be for its plan; `None` for a
    /// command of the session itself.
    ///
    /// # Errors
    /// 0A000 for what is neither.
    pub fn plan_named(
        catalog: &CatalogState,
        parsed: &ParsedStatement,
        server: &Arc<str>,
        shape: Option<&Shape<'_>>,
    ) -> Result<Option<(Self, Option<Lifting>)>> {
        match &parsed.node {
            NodeEnum::SelectStmt(select) if configure::recognise(select)?.is_some() => Ok(None),
            NodeEnum::SelectStmt(select) if makes_table(select) => Err(refused_by_name("SELECT INTO")),
            // DECLARE is refused when it is run: it may have been prepared before.
            NodeEnum::TransactionStmt(_)
            | NodeEnum::VariableSetStmt(_)
            | NodeEnum::VariableShowStmt(_)
            | NodeEnum::DiscardStmt(_)
            | NodeEnum::ListenStmt(_)
            | NodeEnum::UnlistenStmt(_)
            | NodeEnum::NotifyStmt(_)
            | NodeEnum::PrepareStmt(_)
            | NodeEnum::ExecuteStmt(_)
            | NodeEnum::DeallocateStmt(_)
            | NodeEnum::DeclareCursorStmt(_)
            | NodeEnum::FetchStmt(_)
            | NodeEnum::ClosePortalStmt(_) => Ok(None),
            NodeEnum::ExplainStmt(explained) => Self::explain_named(catalog, parsed, explained, server),
            other => {
                let plan = ShardedPlan::of_server(parsed, server)
                    .ok_or_else(|| refused_by_name(&unsupported::command(other, &parsed.text)))?;
                // It would stay with the connection, which others have next.
                if parsed.text.to_ascii_lowercase().contains("set_config") {
                    return Err(refused_by_name("set_config beside anything else"));
                }
                Ok(Some(Self::of_shards(catalog, parsed, plan, shape)))
            }
        }
    }

    /// EXPLAIN of such a statement; `None` for EXPLAIN EXECUTE, whose statement is planned by then.
    fn explain_named(
        catalog: &CatalogState,
        parsed: &ParsedStatement,
        explained: &ExplainStmt,
        server: &Arc<str>,
    ) -> Result<Option<(Self, Option<Lifting>)>> {
        let options = explain::options(explained)?;
        let inner = explained.query.as_ref().and_then(|query| query.node.as_ref());
        let inner = inner.ok_or_else(|| Error::internal("EXPLAIN without a statement"))?;
        if options.analyze {
            return Err(refused_by_name("EXPLAIN ANALYZE"));
        }
        if matches!(inner, NodeEnum::ExecuteStmt(_)) {
            return Ok(None);
        }
        let again = grammar::only_one(grammar::parse(&statement_text(inner)?)?)?;
        let again = again.ok_or_else(|| Error::internal("EXPLAIN without a statement"))?;
        let plan = ShardedPlan::of_server(&again, server).ok_or_else(|| {
            refused_by_name(&format!("EXPLAIN of {}", unsupported::command(&again.node, &again.text)))
        })?;
        let (inner, _) = Self::of_shards(catalog, &again, plan, None);
        let columns: Arc<[Column]> = vec![Column::text("QUERY PLAN")].into();
        let planned = Self {
            bytes: STATEMENT_BYTES + 2 * parsed.text.len() + inner.bytes,
            text: parsed.text.clone(),
            kind: Kind::Explain { inner: Arc::new(inner), options, because: Vec::new() },
            parameter_types: Vec::new(),
            columns: Some(columns),
            epoch: catalog.epoch(),
            zone: None,
            asked_by: None,
        };
        Ok(Some((planned, None)))
    }
}

/// Whether it is SELECT INTO: of several queries the first one has the table's name.
fn makes_table(select: &SelectStmt) -> bool {
    let mut first = select;
    while let Some(before) = first.larg.as_deref() {
        first = before;
    }
    first.into_clause.is_some()
}

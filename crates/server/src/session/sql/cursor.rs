//! SQL cursors: DECLARE, FETCH, MOVE. A cursor is a portal with a name.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, SqlType, Value};
use ashlar_protocol::pg::CommandTag;
use ashlar_query::key_plan::KeyPlan;
use ashlar_query::quote_ident;
use ashlar_query::statement::{Kind, refused_by_name};

use super::portal::{Hold, Portal, Progress, Source, Tag};
use super::rows::RowSource;
use super::{Executed, NAMED_MAX, RowSink, SqlSession};

/// The parameters that came with a DECLARE.
pub(super) struct Given {
    /// The types that the client has declared.
    declared: Vec<u32>,
    /// Those that they were read as.
    types: Vec<SqlType>,
    values: Vec<Value>,
}

impl Given {
    /// Those of the portal of a DECLARE.
    pub(super) fn of(portal: &Portal) -> Self {
        let declared = portal.source.as_ref().map_or_else(Vec::new, |source| source.declared.clone());
        let types = portal.statement.as_ref().map_or_else(Vec::new, |statement| statement.parameter_types.clone());
        Self { declared, types, values: portal.parameters.clone() }
    }
}

impl SqlSession {
    pub(super) async fn declare(&mut self, name: &str, text: &str, hold: bool, given: Given) -> Result<Executed> {
        if self.settings.sharded_server.is_some() {
            return Err(refused_by_name("DECLARE CURSOR"));
        }
        if !hold && !self.is_in_block() {
            return Err(Error::new(
                ErrorCode::NoActiveTransaction,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.portals.contains(name) {
            return Err(Error::new(ErrorCode::DuplicateCursor, format!("cursor \"{name}\" already exists")));
        }
        if self.portals.len() >= NAMED_MAX {
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, "too many portals"));
        }
        let Given { declared, types, values } = given;
        let mut planned =
            self.plan_prepared(text, &declared).await?.ok_or_else(|| Error::internal("a cursor has a query"))?;
        // Before it is planned for the engine: what is kept of that is also for drivers, who say what their parameters are.
        let count = match &planned.kind {
            Kind::Sharded(plan) => plan.described().map_or(0, |(types, _)| types.len()),
            _ => planned.parameter_types.len(),
        };
        if count > values.len() {
            return Err(Error::new(ErrorCode::UndefinedParameter, "there is no parameter $1"));
        }
        if let Kind::Sharded(plan) = &planned.kind {
            if plan.route.is_write() {
                return Err(locks_rows());
            }
            // Its rows wait here, and not on connections.
            planned = self.plan_for_engine(&planned, &declared).await?;
        }
        // They were read when it was bound, as the engine's plan has them.
        if planned.parameter_types != types {
            let message = "cached plan must not change the types of its parameters";
            return Err(Error::unsupported(message).with_hint("Prepare the cursor's statement again."));
        }
        let columns = planned.columns.as_ref().map_or(0, |columns| columns.len());
        let mut portal = Portal::new(planned, Vec::new(), super::expand_formats(&[], columns)?);
        portal.is_cursor = true;
        // What the cursor sees is settled now.
        if let Some(statement) = portal.statement.clone() {
            self.check_moment(&statement)?;
            let mut source = match &statement.kind {
                Kind::Select(_) => self.query(&statement, values, true).await?,
                Kind::Key(plan) if plan.locks().is_none() => self.row_now(plan, &values)?,
                Kind::Key(_) | Kind::Lock(_) => return Err(locks_rows()),
                Kind::WithChanges(_) => {
                    let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                    return Err(Error::unsupported(message));
                }
                _ => return Err(Error::internal("a cursor has a query")),
            };
            if hold {
                // Its transaction may end before its rows are asked for.
                source.keep(self.shared.engine.store().reservation(), &self.cancel).await?;
                portal.hold = Hold::Declared;
            }
            portal.progress = Progress::Open(source, Tag::Counted("FETCH"));
        }
        portal.source = Some(Arc::new(Source { sql: declaration(name, text, hold).into(), declared, held: None }));
        self.insert_portal(name, Box::new(portal))?;
        Ok(Executed::Complete("DECLARE CURSOR".into()))
    }

    /// FETCH and MOVE. One that sends rows may be run again, for none of them.
    pub(super) async fn fetch<S: RowSink>(
        &mut self,
        own: &mut Portal,
        name: &str,
        count: Option<u64>,
        is_move: bool,
        sink: &mut S,
    ) -> Result<Executed> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        if portal.is_done() {
            self.portals.insert(name, portal);
            return Err(super::cannot_run(name));
        }
        let verb = if is_move { "MOVE" } else { "FETCH" };
        let rows_max = usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX);
        let result = if count == Some(0) { Ok(0) } else { self.fetch_rows(&mut portal, rows_max, is_move, sink).await };
        if result.is_err() {
            portal.progress = Progress::Done;
        }
        self.portals.insert(name, portal);
        let fetched = result?;
        own.progress = if is_move { Progress::Done } else { Progress::Ended(Tag::Counted("FETCH")) };
        Ok(Executed::Complete(CommandTag::counted(verb, fetched)))
    }

    async fn fetch_rows<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        is_move: bool,
        sink: &mut S,
    ) -> Result<u64> {
        let Some(statement) = portal.statement.clone() else { return Ok(0) };
        let columns = statement.columns.clone().unwrap_or_else(|| Vec::new().into());
        let Progress::Open(source, _) = &mut portal.progress else { return Ok(0) };
        if is_move {
            return source.skip(rows_max, &self.cancel).await;
        }
        let (sent, ended) = source.send(&columns, rows_max, sink, &self.cancel).await?;
        if ended {
            portal.progress = Progress::Ended(Tag::Counted("FETCH"));
        }
        Ok(sent)
    }

    /// The row of a query by key, as this transaction sees it now.
    fn row_now(&mut self, plan: &KeyPlan, parameters: &[Value]) -> Result<RowSource> {
        let engine = Arc::clone(&self.shared.engine);
        let mut transaction = self.take_transaction();
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let done = plan.run_in(&engine, &mut transaction, parameters, &mut |values| {
            rows.push(values.map(|datum| datum.to_value()).collect());
        });
        self.transaction = Some(transaction);
        done?;
        Ok(RowSource::values(rows))
    }
}

/// A cursor's statement, as `pg_cursors` tells it.
fn declaration(name: &str, text: &str, hold: bool) -> String {
    let hold = if hold { " WITH HOLD" } else { "" };
    format!("DECLARE {} CURSOR{hold} FOR {text}", quote_ident(name))
}

/// 0A000
fn locks_rows() -> Error {
    Error::unsupported("a cursor that locks rows is not supported")
}

/// 34000
pub(super) fn no_cursor(name: &str) -> Error {
    Error::new(ErrorCode::InvalidCursorName, format!("cursor \"{name}\" does not exist"))
}

//! `sharded_server`: a server that a session names for its statements, which are sent there as they are written.
//!
//! Called by settings, which refuse names of no such server, and before a plan is used. Plans are made by `plans`, and
//! run like those of routed statements: on the transaction's connection to the server, so that all rules of
//! transactions hold.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::statement::{Kind, SessionCommand};

use super::SqlSession;
use crate::session::Shared;

/// Whether statements can be sent to this server by its name; an empty one names none.
///
/// # Errors
/// 42704 where there is no such server, 22023 for a replica, which nobody may write to.
pub(in crate::session::sql) fn check_named(shared: &Shared, server: &str) -> Result<()> {
    if server.is_empty() {
        return Ok(());
    }
    let known = shared.engine.catalog().fleet()?.catalog().known();
    let Some(primary) = &known.server(server)?.primary else { return Ok(()) };
    let message = format!("server \"{server}\" is a replica, and cannot be the value of sharded_server");
    Err(Error::new(ErrorCode::InvalidParameterValue, message)
        .with_hint(format!("Name \"{primary}\", and SET read_from = 'replica' in transactions that only read.")))
}

impl SqlSession {
    /// Whether a statement was planned for the server that is named now, or for none where none is. Commands of the session are for any.
    pub(in crate::session::sql) fn is_for_named(&self, planned: &ashlar_query::Statement) -> bool {
        let kind = match &planned.kind {
            Kind::Explain { inner, .. } => &inner.kind,
            kind => kind,
        };
        let named = match kind {
            Kind::Sharded(plan) => plan.route.named(),
            Kind::Session(SessionCommand::Vacuum(_) | SessionCommand::Analyze(_)) => None,
            Kind::Session(_) | Kind::Empty => return true,
            _ => None,
        };
        named.map(|server| &**server) == self.settings.sharded_server.as_deref()
    }
}

//! The extended protocol: Describe, Execute and Close; Parse and Bind are one call each, in the connection's loop.
//!
//! Called by the connection's loop. Errors are returned to it: it reports them to the client and skips the messages up
//! to Sync.

use std::pin::pin;

use ashlar_base::Result;
use ashlar_protocol::pg::backend::{self, ColumnDescription};
use ashlar_protocol::pg::frontend::Frontend;
use ashlar_protocol::pg::{Target, ValueFormat};

use super::sink::Sink;
use super::{Connection, FLUSH_BYTES, Failure, attended};
use crate::session::{Column, Executed, SqlSession};

/// The Sync message.
const SYNC: &[u8] = &[b'S', 0, 0, 0, 4];

/// When the portal of an Execute message is executed.
pub(super) enum Due {
    /// What follows the message decides, and has not arrived. The message is still in the inbox.
    Undecided,
    /// With the statements that are ahead of their answers, and after them. The message has been consumed.
    Later,
    /// After these have been answered. The message is still in the inbox, and is handled once more then.
    AfterAnswers,
    /// At once. The message has been consumed.
    Now,
}

/// Whether a message can be taken while statements are ahead of their answers: so many bytes wait to be told behind these, and there is a
/// portal without a name that is not one of them, or none.
pub(super) fn stays_ahead(message: &Frontend<'_>, told_bytes: usize, has_portal: bool) -> bool {
    told_bytes < FLUSH_BYTES
        && match message {
            Frontend::Bind(bind) => bind.portal.is_empty(),
            // The portal that is ahead is there again once it is answered.
            Frontend::Describe { kind, name } => *kind == Target::Portal && name.is_empty() && has_portal,
            Frontend::Execute { .. } => true,
            _ => false,
        }
}

/// Answers Describe.
pub(super) fn describe(session: &mut SqlSession, kind: Target, name: &str, out: &mut Vec<u8>) -> Result<()> {
    match kind {
        Target::Statement => {
            let (parameters, columns) = session.describe_statement(name)?;
            backend::parameter_description(out, parameters.iter().copied());
            match columns {
                // The formats are chosen by Bind; until then PostgreSQL says text.
                Some(columns) => row_description(out, &columns, &[]),
                None => backend::no_data(out),
            }
        }
        Target::Portal => match session.describe_portal(name)? {
            Some((columns, formats)) => row_description(out, &columns, &formats),
            None => backend::no_data(out),
        },
    }
    Ok(())
}

/// Answers Close; closing what does not exist is no error.
pub(super) fn close(session: &mut SqlSession, kind: Target, name: &str, out: &mut Vec<u8>) {
    match kind {
        Target::Statement => session.close_statement(name),
        Target::Portal => session.close_portal(name),
    }
    backend::close_complete(out);
}

/// Writes RowDescription; a column without a format of its own is text.
pub(super) fn row_description(out: &mut Vec<u8>, columns: &[Column], formats: &[ValueFormat]) {
    let described = columns.iter().enumerate().map(|(place, column)| ColumnDescription {
        name: &column.name,
        table_oid: column.table_oid,
        column_number: column.column_number,
        type_oid: column.oid,
        typlen: column.typlen,
        typmod: column.typmod,
        format: formats.get(place).copied().unwrap_or_default(),
    });
    backend::row_description(out, described);
}

impl Connection {
    /// Decides about an Execute message of `used` bytes in the inbox, for the portal whose name is in `self.portal`.
    pub(super) fn due(&mut self, session: &mut SqlSession, max_rows: i32, used: usize) -> Due {
        // Whether Sync comes next must not depend on how the client's bytes were cut into packets.
        let next = &self.inbox.unread()[used..];
        let may_be_sync = next.len() < SYNC.len() && SYNC.starts_with(next);
        if may_be_sync && !self.mid_transaction && session.may_stand_alone(&self.portal) {
            return Due::Undecided;
        }
        // Nothing but another Bind is a sign that the answer can wait, unless answers wait already.
        let may_wait = self.portal.is_empty() && max_rows <= 0 && (session.is_ahead() || next.starts_with(b"B"));
        if may_wait && session.queue_ahead(&self.told) {
            self.told.clear();
            self.inbox.consume(used);
            self.mid_transaction = true;
            self.statements += 1;
            return Due::Later;
        }
        if session.is_ahead() {
            return Due::AfterAnswers;
        }
        self.inbox.consume(used);
        // One statement and then Sync is a transaction of its own, which the session can shorten.
        session.set_alone(!self.mid_transaction && self.inbox.unread().starts_with(SYNC));
        self.mid_transaction = true;
        Due::Now
    }

    /// Executes the portal whose name is in `self.portal`.
    pub(super) async fn execute(&mut self, session: &mut SqlSession, max_rows: i32) -> Result<(), Failure> {
        self.statements += 1;
        let formats = Some(session.portal_formats(&self.portal)?);
        // Zero and less mean: all.
        let max_rows = usize::try_from(max_rows).unwrap_or(0);
        let mut sink = Sink::extended(&mut self.outbox, &self.stream, &self.context, session, &self.cancel, formats);
        // Pinned where they are: each function that they were handed to would copy them.
        let executed = {
            let work = pin!(session.execute(&self.portal, max_rows, &mut sink));
            pin!(attended(work, &self.stream, &mut self.context)).await
        };
        self.rows += sink.finish()?;
        let executed = match executed? {
            Executed::CopyIn { binary, columns } => {
                Executed::Complete(pin!(self.copy_in(session, binary, columns)).await?.as_str().into())
            }
            executed => executed,
        };
        self.notices(session);
        let out = self.outbox.buffer();
        match executed {
            Executed::Complete(tag) => backend::command_complete(out, &tag),
            Executed::Suspended => backend::portal_suspended(out),
            Executed::Empty | Executed::CopyIn { .. } => backend::empty_query(out),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

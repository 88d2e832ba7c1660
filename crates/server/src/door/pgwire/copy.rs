//! COPY FROM STDIN: the part of the protocol where the client talks and we listen.
//!
//! Called by the simple and the extended protocol when a statement turns out to be such a COPY. Reads messages itself
//! until the data ends; what the client still sends after a failure is passed over by the connection's loop.

use ashlar_base::{Error, ErrorCode};
use ashlar_protocol::pg::frontend::{self, Frontend};
use ashlar_protocol::pg::{ValueFormat, backend};

use super::{Connection, End, Failure, attended, shutting_down};
use crate::session::SqlSession;
use crate::shutdown::Phase;

impl Connection {
    /// Takes the data of a COPY and returns its command tag.
    pub(super) async fn copy_in(
        &mut self,
        session: &mut SqlSession,
        binary: bool,
        columns: usize,
    ) -> Result<String, Failure> {
        let format = if binary { ValueFormat::Binary } else { ValueFormat::Text };
        self.notices(session);
        backend::copy_in_response(self.outbox.buffer(), format, columns);
        self.outbox.seal();
        self.outbox.flush(&self.stream).await?;
        self.inbox.set_stream(true);
        let taken = self.take_pieces(session).await;
        self.inbox.set_stream(false);
        taken
    }

    /// Takes pieces up to the end of the data.
    async fn take_pieces(&mut self, session: &mut SqlSession) -> Result<String, Failure> {
        let limit = self.context.shared.config.server.pg_message_bytes_max as usize;
        loop {
            let (message, used) = match frontend::decode(self.inbox.unread(), limit) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => {
                    self.more_copy_data(session).await?;
                    continue;
                }
                Err(error) => {
                    let Some((_, used)) = error.resume() else { return Err(End::Fatal(error.into()).into()) };
                    self.inbox.consume(used);
                    return Err(Failure::Statement(error.into()));
                }
            };
            match message {
                Frontend::CopyData(bytes) => {
                    let taken = attended(session.copy_data(bytes), &self.stream, &mut self.context).await;
                    self.inbox.consume(used);
                    taken?;
                }
                Frontend::CopyDone => {
                    self.inbox.consume(used);
                    return attended(session.copy_done(), &self.stream, &mut self.context).await;
                }
                Frontend::CopyFail(reason) => {
                    let error = session.copy_fail(reason).await;
                    self.inbox.consume(used);
                    return Err(Failure::Statement(error));
                }
                // Clients send these right after Execute, before they know that it was a COPY.
                Frontend::Flush | Frontend::Sync => self.inbox.consume(used),
                Frontend::Terminate => return Err(End::Left.into()),
                Frontend::Query(_)
                | Frontend::Parse { .. }
                | Frontend::Bind(_)
                | Frontend::Describe { .. }
                | Frontend::Execute { .. }
                | Frontend::Close { .. }
                | Frontend::Password(_)
                | Frontend::FunctionCall => {
                    let tag = self.inbox.unread().first().copied().unwrap_or(0);
                    let message = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
                    return Err(End::Fatal(Error::new(ErrorCode::ProtocolViolation, message)).into());
                }
            }
        }
    }

    /// Waits for more; a cancel request ends a COPY whose client has fallen silent.
    async fn more_copy_data(&mut self, session: &SqlSession) -> Result<(), Failure> {
        self.count();
        let filled = tokio::select! {
            biased;
            error = session.interrupted() => return Err(error.into()),
            filled = self.inbox.fill(&mut self.stream) => filled?,
            () = self.context.stop.reached(Phase::Ending) => return Err(End::Fatal(shutting_down()).into()),
        };
        if filled { Ok(()) } else { Err(End::Left.into()) }
    }
}

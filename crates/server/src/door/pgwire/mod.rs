//! The PostgreSQL door: one connection from its first byte to its last.
//!
//! ```text
//! startup ──▶ loop: every whole message in the inbox ──▶ session ──▶ outbox, then one write, then wait for bytes
//! ```
//!
//! Called by `door`. Speaks the protocol and drives one [`SqlSession`]; never looks into SQL or values.

mod copy;
mod extended;
mod simple;
mod sink;
mod startup;

use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode};
use ashlar_protocol::pg::frontend::{self, Frontend};
use ashlar_protocol::pg::{ValueFormat, backend};
use futures::FutureExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use self::extended::Due;
use self::sink::Sink;
use super::idle::IdleTimer;
use super::meters::Counted;
use super::seats::Seat;
use super::turn::Turn;
use super::wire::{Inbox, Outbox, reset_by_client};
use super::{Context, FAREWELL};
use crate::session::registry::Registration;
use crate::session::{CancelToken, SqlSession};
use crate::shutdown::Phase;

/// Replies that collect before they are written although more requests wait in the inbox.
const FLUSH_BYTES: usize = 64 * 1024;

/// What a client that is being closed may still send into the void, so that the close does not tear up our last
/// message on its way.
const LINGER_BYTES: usize = 1024 * 1024;

static STATEMENT: Name = Name::new("statement");

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client said goodbye, or went without a word.
    Left,
    /// The socket failed.
    Broken(io::Error),
    /// We end it, and say why.
    Fatal(Error),
}

/// Why a message was not carried out.
#[derive(Debug)]
enum Failure {
    /// An error for the client; the connection goes on.
    Statement(Error),
    /// The connection ends.
    End(End),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::OutOfMemory {
            let detail = "The message is longer than the memory that is left.";
            return Self::Fatal(Error::new(ErrorCode::OutOfMemory, "out of memory").with_detail(detail));
        }
        Self::Broken(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::End(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

/// One client.
struct Connection {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
    context: Context,
    /// Held from the startup message on.
    seat: Option<Seat>,
    /// How a cancel request finds the session.
    registration: Option<Registration>,
    /// What it stops then: the session's own.
    cancel: CancelToken,
    /// After an error in the extended protocol everything up to the next Sync is passed over.
    skip_to_sync: bool,
    /// Something has been executed since the last Sync.
    mid_transaction: bool,
    /// The client has been told that it may speak, and has not sent a whole message since.
    is_ready: bool,
    /// Closes the connection when it has been idle for long, where that is configured.
    idle: Option<IdleTimer>,
    /// Statements and rows since they were last counted.
    statements: u64,
    rows: u64,
    /// What the client is told behind the statements that are ahead of their answers.
    told: Vec<u8>,
    /// The portal of the last Execute and the formats of a Bind: kept for their memory.
    portal: String,
    formats: Vec<ValueFormat>,
}

/// Serves one client to its end, whatever happens: a panic ends this connection and no other.
pub(crate) async fn serve(stream: TcpStream, context: Context) {
    let mut connection = Connection {
        stream,
        inbox: Inbox::charged_to(context.shared.engine.store().reservation()),
        outbox: Outbox::default(),
        idle: IdleTimer::new(context.shared.config.server.idle_timeout_ms),
        context,
        seat: None,
        registration: None,
        cancel: CancelToken::new(),
        skip_to_sync: false,
        mid_transaction: false,
        is_ready: true,
        statements: 0,
        rows: 0,
        told: Vec::new(),
        portal: String::new(),
        formats: Vec::new(),
    };
    let end = match AssertUnwindSafe(connection.run()).catch_unwind().await {
        Ok(Err(end)) => end,
        Ok(Ok(never)) => match never {},
        // The panic's own message is in the log already.
        Err(_) => {
            tracing::error!("a session panicked and was closed");
            End::Fatal(Error::internal("the server failed while it carried out this request").with_hint(
                "the connection is closed; whether a transaction that was committing is complete is for you to check",
            ))
        }
    };
    connection.close(end).await;
}

impl Connection {
    async fn run(&mut self) -> Result<std::convert::Infallible, End> {
        let mut session = self.greet().await?;
        loop {
            let mut turn = Turn::default();
            // Futures are made where they stay, here and in what is called here: who awaits one otherwise copies it, and they are large.
            while pin!(self.step(&mut session)).await? {
                self.outbox.seal();
                if self.outbox.pending() >= FLUSH_BYTES {
                    pin!(self.flush()).await?;
                }
                if turn.counts(0) {
                    turn.look().await;
                }
            }
            if session.is_ahead() {
                pin!(self.answer_ahead(&mut session)).await?;
            }
            self.pass_notifications(&mut session);
            if !self.outbox.try_flush(&self.stream)? {
                pin!(self.flush()).await?;
            }
            self.count();
            pin!(self.wait(&session)).await?;
        }
    }

    /// Sends everything, however long the client takes to read it.
    async fn flush(&mut self) -> Result<(), End> {
        if self.outbox.try_flush(&self.stream)? {
            return Ok(());
        }
        tokio::select! {
            biased;
            flushed = self.outbox.flush(&self.stream) => Ok(flushed?),
            () = self.context.stop.reached(Phase::Ending) => Err(End::Left),
        }
    }

    /// Handles the next message of the inbox; false when it has not arrived as a whole, or what decides about it has
    /// not.
    async fn step(&mut self, session: &mut SqlSession) -> Result<bool, End> {
        let limit = self.context.shared.config.server.pg_message_bytes_max as usize;
        let (message, used) = match frontend::decode(self.inbox.unread(), limit) {
            Ok(Some(decoded)) => decoded,
            Ok(None) => return Ok(false),
            Err(_) if session.is_ahead() => return pin!(self.answer_ahead(session)).await.map(|()| true),
            Err(error) => {
                let Some((tag, used)) = error.resume() else { return Err(End::Fatal(error.into())) };
                self.inbox.consume(used);
                self.malformed(session, tag, error.into()).await?;
                return Ok(true);
            }
        };
        self.is_ready = false;
        if self.skip_to_sync && !matches!(message, Frontend::Sync | Frontend::Terminate) {
            self.inbox.consume(used);
            return Ok(true);
        }
        if session.is_ahead() && !extended::stays_ahead(&message, self.told.len(), session.has_portal("")) {
            // And then the same message again.
            return pin!(self.answer_ahead(session)).await.map(|()| true);
        }
        // What needs time is done after the message has been consumed: it is borrowed from the inbox until then.
        let done = match message {
            Frontend::Query(sql) => {
                let statements = attended(pin!(session.parse_simple(sql)), &self.stream, &mut self.context).await;
                self.inbox.consume(used);
                return pin!(self.query(session, statements)).await.map(|()| true);
            }
            Frontend::Parse { name, sql, param_types } => {
                let prepared =
                    attended(pin!(session.prepare(name, sql, param_types)), &self.stream, &mut self.context).await;
                self.inbox.consume(used);
                let done = prepared.map(|()| backend::parse_complete(self.outbox.buffer()));
                return self.settle(session, done).map(|()| true);
            }
            Frontend::Bind(bind) => {
                self.formats.clear();
                self.formats.extend(bind.result_formats());
                session.bind(bind.portal, bind.statement, bind.params(), &self.formats).map(|()| {
                    backend::bind_complete(if session.is_ahead() { &mut self.told } else { self.outbox.buffer() })
                })
            }
            Frontend::Describe { kind, name } => {
                let out = if session.is_ahead() { &mut self.told } else { self.outbox.buffer() };
                extended::describe(session, kind, name, out)
            }
            Frontend::Close { kind, name } => {
                extended::close(session, kind, name, self.outbox.buffer());
                Ok(())
            }
            Frontend::Execute { portal, max_rows } => {
                self.portal.clear();
                self.portal.push_str(portal);
                match self.due(session, max_rows, used) {
                    Due::Undecided => return Ok(false),
                    Due::Later => return Ok(true),
                    Due::AfterAnswers => return pin!(self.answer_ahead(session)).await.map(|()| true),
                    Due::Now => {
                        let executed = pin!(self.execute(session, max_rows)).await;
                        return self.settle(session, executed).map(|()| true);
                    }
                }
            }
            Frontend::Sync => {
                self.inbox.consume(used);
                self.skip_to_sync = false;
                self.mid_transaction = false;
                if session.sync_now() {
                    self.ready(session);
                } else {
                    pin!(self.end_turn(session)).await;
                }
                return Ok(true);
            }
            Frontend::Flush => {
                self.inbox.consume(used);
                self.outbox.seal();
                self.outbox.flush(&self.stream).await?;
                return Ok(true);
            }
            Frontend::Terminate => {
                // What was asked before is answered before the connection goes.
                self.outbox.seal();
                self.outbox.flush(&self.stream).await?;
                return Err(End::Left);
            }
            // Left over from a COPY that failed on our side.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::FunctionCall => {
                self.inbox.consume(used);
                let error = Error::unsupported("function call messages are not supported")
                    .with_hint("call the function with SELECT");
                self.report(session, &error);
                pin!(self.end_turn(session)).await;
                return Ok(true);
            }
            Frontend::Password(_) => {
                return Err(End::Fatal(Error::new(ErrorCode::ProtocolViolation, "unexpected password message")));
            }
        };
        self.inbox.consume(used);
        if done.is_err() {
            // Those before it come first, and if one of them fails, it has never been.
            pin!(self.answer_ahead(session)).await?;
            if self.skip_to_sync {
                return Ok(true);
            }
        }
        self.settle(session, done.map_err(Failure::Statement)).map(|()| true)
    }

    /// Waits for the answers to what is ahead of them. An error is told, and the rest up to Sync passed over.
    async fn answer_ahead(&mut self, session: &mut SqlSession) -> Result<(), End> {
        if !session.is_ahead() {
            return Ok(());
        }
        let mut sink = Sink::extended(&mut self.outbox, &self.stream, &self.context, session, &self.cancel, None);
        let answered = {
            let work = pin!(session.answer_ahead(&mut sink));
            pin!(attended(work, &self.stream, &mut self.context)).await
        };
        self.rows += sink.finish()?;
        if answered.is_ok() {
            self.notices(session);
            self.outbox.buffer().extend_from_slice(&self.told);
        }
        self.told.clear();
        self.settle(session, answered)
    }

    /// A message whose end is known but whose contents make no sense.
    async fn malformed(&mut self, session: &mut SqlSession, tag: u8, error: Error) -> Result<(), End> {
        match tag {
            // Ends the passing over, whatever else is in it.
            b'S' => {
                (self.skip_to_sync, self.mid_transaction) = (false, false);
                self.report(session, &error);
                self.end_turn(session).await;
            }
            _ if self.skip_to_sync => {}
            b'Q' | b'F' => {
                self.report(session, &error);
                self.end_turn(session).await;
            }
            b'P' | b'B' | b'D' | b'E' | b'C' | b'H' => {
                self.report(session, &error);
                self.skip_to_sync = true;
            }
            _ => return Err(End::Fatal(error)),
        }
        Ok(())
    }

    /// The end of a message of the extended protocol: an error is told, and the rest up to Sync passed over.
    fn settle(&mut self, session: &mut SqlSession, done: Result<(), Failure>) -> Result<(), End> {
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Statement(error)) => {
                self.report(session, &error);
                self.skip_to_sync = true;
                Ok(())
            }
            Err(Failure::End(end)) => Err(end),
        }
    }

    /// Tells the client of an error and the session that the client knows.
    fn report(&mut self, session: &mut SqlSession, error: &Error) {
        self.notices(session);
        self.context.meters.error(error.code());
        tracing::debug!(sqlstate = error.code().sqlstate(), message = error.message(), "statement failed");
        backend::error_response(self.outbox.buffer(), "ERROR", error);
        session.fail();
    }

    /// Passes on what the session has to say beside its result.
    fn notices(&mut self, session: &mut SqlSession) {
        for notice in session.take_notices() {
            backend::notice_response(self.outbox.buffer(), notice.severity, &notice.error);
        }
    }

    /// Ends the implicit transaction and lets the client speak.
    async fn end_turn(&mut self, session: &mut SqlSession) {
        let done = pin!(session.sync()).await;
        if let Err(error) = done {
            self.report(session, &error);
        }
        self.ready(session);
    }

    /// What others have said on channels that this client listens to, where it waits for nothing else.
    fn pass_notifications(&mut self, session: &mut SqlSession) {
        if !self.is_ready {
            return;
        }
        for notification in session.take_notifications() {
            let (pid, channel) = (notification.pid, &notification.channel);
            backend::notification_response(self.outbox.buffer(), pid, channel, &notification.payload);
            self.outbox.seal();
        }
    }

    /// Settings that changed, and ReadyForQuery.
    fn ready(&mut self, session: &mut SqlSession) {
        self.notices(session);
        for (name, value) in session.take_parameter_changes() {
            session.note_parameter(name, &value);
            backend::parameter_status(self.outbox.buffer(), name, &value);
        }
        self.is_ready = true;
        self.pass_notifications(session);
        session.note_waiting();
        backend::ready_for_query(self.outbox.buffer(), session.status());
    }

    /// Waits, idle, for more from the client.
    async fn wait(&mut self, session: &SqlSession) -> Result<(), End> {
        // One client whose requests never pause must not keep the others of this thread waiting.
        tokio::task::consume_budget().await;
        if let Some(idle) = &mut self.idle {
            idle.touch();
        }
        // The session's own limit is for one that has been told that it may speak.
        let patience = if self.is_ready { session.patience() } else { None };
        // Nearly no session waits for more than its client and the end of the server: for what it does not wait for nothing is made.
        let filled = if self.idle.is_none() && patience.is_none() && !session.has_mailbox() {
            tokio::select! {
                biased;
                filled = self.inbox.fill(&mut self.stream) => filled?,
                () = self.context.stop.reached(Phase::Draining) => return Err(End::Fatal(shutting_down())),
            }
        } else {
            tokio::select! {
                biased;
                filled = self.inbox.fill(&mut self.stream) => filled?,
                () = session.notified() => return Ok(()),
                () = self.context.stop.reached(Phase::Draining) => return Err(End::Fatal(shutting_down())),
                () = IdleTimer::expired(&mut self.idle) => return Err(End::Fatal(session.out_of_patience())),
                () = IdleTimer::over(patience) => return Err(End::Fatal(session.out_of_patience())),
            }
        };
        session.forget_cancel();
        if filled { Ok(()) } else { Err(End::Left) }
    }

    /// Hands what was counted to the counters of the door.
    fn count(&mut self) {
        let (received, sent, writes) = (self.inbox.take_read(), self.outbox.take_written(), self.outbox.take_writes());
        let (statements, rows) = (std::mem::take(&mut self.statements), std::mem::take(&mut self.rows));
        self.context.meters.count(Counted { received, sent, writes, statements, rows });
    }

    /// Says why, if there is something to say, and closes.
    async fn close(mut self, end: End) {
        match end {
            End::Left => tracing::debug!("the client left"),
            End::Broken(error) => tracing::debug!(%error, "the connection broke"),
            // In the middle of a row nothing can be said.
            End::Fatal(error) if self.outbox.is_cut() => tracing::debug!(%error, "closing in the middle of a row"),
            End::Fatal(error) => {
                self.context.meters.error(error.code());
                tracing::debug!(sqlstate = error.code().sqlstate(), message = error.message(), "closing");
                self.outbox.drop_unsealed();
                backend::error_response(self.outbox.buffer(), "FATAL", &error);
                let lingers = may_still_send(error.code());
                let said = tokio::time::timeout(FAREWELL, self.farewell(lingers)).await;
                if !matches!(said, Ok(Ok(()))) {
                    tracing::debug!("the client did not take its last message");
                }
            }
        }
        self.count();
    }

    async fn farewell(&mut self, lingers: bool) -> io::Result<()> {
        self.outbox.flush(&self.stream).await?;
        self.stream.shutdown().await?;
        let mut lingered = 0;
        while lingers && lingered < LINGER_BYTES {
            self.inbox.consume(self.inbox.unread().len());
            if !self.inbox.fill(&mut self.stream).await? {
                break;
            }
            lingered += self.inbox.unread().len();
        }
        Ok(())
    }
}

/// Runs a statement while watching for what makes its result pointless: a connection that is no more, or the end of the
/// server's patience. A cancel request reaches the statement through its own token. A client that has only said all it
/// has to say gets its statement done, as in PostgreSQL, whether or not it still reads the answer.
async fn attended<T>(
    work: impl Future<Output = ashlar_base::Result<T>>,
    stream: &TcpStream,
    context: &mut Context,
) -> Result<T, Failure> {
    tokio::select! {
        // A statement that is done at the first poll, as key statements are, pays nothing for the watch.
        biased;
        result = scope(&STATEMENT, work) => result.map_err(Failure::Statement),
        () = reset_by_client(stream) => Err(Failure::End(End::Left)),
        () = context.stop.reached(Phase::Ending) => Err(Failure::End(End::Fatal(shutting_down()))),
    }
}

/// Whether the client may be in the middle of sending when it is closed for this reason. A socket closed with unread
/// bytes resets the connection, and the client may never see why; one that is idle reads, and need not be waited for.
fn may_still_send(reason: ErrorCode) -> bool {
    !matches!(
        reason,
        ErrorCode::AdminShutdown
            | ErrorCode::IdleSessionTimeout
            | ErrorCode::IdleInTransactionSessionTimeout
            | ErrorCode::CannotConnectNow
            | ErrorCode::TooManyConnections
    )
}

fn shutting_down() -> Error {
    Error::new(ErrorCode::AdminShutdown, "terminating connection due to administrator command")
}

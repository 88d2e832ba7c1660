//! The RESP door: one connection of a Redis client from its first byte to its last.
//!
//! ```text
//! loop: every whole command in the inbox ──▶ session ──▶ outbox, then one write, then wait for bytes
//! ```
//!
//! Called by `door`. Speaks the protocol and drives one [`KeySession`]; never looks into commands or values. While
//! a client does not read its replies nothing more is read from it, so it holds a bounded amount of memory.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ashlar_base::ErrorCode;
use ashlar_base::scope::{Name, scope};
use ashlar_protocol::resp::{CommandDecoder, DecodeError, Limits};
use futures::FutureExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::idle::IdleTimer;
use super::meters::Counted;
use super::turn::Turn;
use super::wire::{Inbox, Outbox};
use super::{Context, FAREWELL};
use crate::session::keys::{Answered, KeySession};
use crate::shutdown::Phase;

/// Arguments of one command: as many as Redis takes.
const ARGS_MAX: usize = 1024 * 1024;

/// What a client that is being closed may still send into the void, so that the close does not tear up our last
/// reply on its way.
const LINGER_BYTES: usize = 1024 * 1024;

static COMMANDS: Name = Name::new("commands");

/// Why a connection ends.
enum End {
    /// The client has gone.
    Left,
    /// The socket failed.
    Broken(io::Error),
    /// What was written still leaves, then we close.
    Close,
    /// As [`End::Close`], with this as the last reply.
    Error(ErrorCode, String),
    /// Another connection killed this one.
    Killed,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::OutOfMemory {
            let text = "OOM command not allowed when used memory > 'maxmemory'.";
            return Self::Error(ErrorCode::OutOfMemory, text.to_owned());
        }
        Self::Broken(error)
    }
}

impl From<DecodeError> for End {
    fn from(error: DecodeError) -> Self {
        Self::Error(ErrorCode::ProtocolViolation, format!("ERR {error}"))
    }
}

/// One client.
struct Connection {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
    decoder: CommandDecoder,
    limits: Limits,
    /// Replies that collect before they are written although more commands wait in the inbox.
    flush_bytes: usize,
    idle: Option<IdleTimer>,
    context: Context,
    /// Commands since they were last counted.
    commands: u64,
}

/// Serves one client to its end, whatever happens: a panic ends this connection and no other.
pub(crate) async fn serve(stream: TcpStream, context: Context) {
    let config = &context.shared.config.server;
    let bulk_bytes_max = config.resp_bulk_bytes_max as usize;
    let mut connection = Connection {
        stream,
        inbox: Inbox::charged_to(context.shared.engine.store().reservation()),
        outbox: Outbox::default(),
        decoder: CommandDecoder::new(),
        // A command of one value of the full size, and room for its key and for many smaller values.
        limits: Limits { args_max: ARGS_MAX, bulk_bytes_max, command_bytes_max: bulk_bytes_max.saturating_mul(2) },
        flush_bytes: config.write_buffer_kib_max as usize * 1024,
        idle: IdleTimer::new(config.idle_timeout_ms),
        context,
        commands: 0,
    };
    let end = match AssertUnwindSafe(connection.run()).catch_unwind().await {
        Ok(Err(end)) => end,
        Ok(Ok(never)) => match never {},
        // The panic's own message is in the log already.
        Err(_) => {
            tracing::error!("a session panicked and was closed");
            End::Error(ErrorCode::InternalError, "ERR the server failed while it ran this command".to_owned())
        }
    };
    connection.close(end).await;
}

impl Connection {
    async fn run(&mut self) -> Result<std::convert::Infallible, End> {
        let Some(_seat) = self.context.seats.sit() else {
            self.context.meters.refused.increment(1);
            let text = "ERR max number of clients reached".to_owned();
            return Err(End::Error(ErrorCode::TooManyConnections, text));
        };
        let (peer, local) = (self.stream.peer_addr()?, self.stream.local_addr()?);
        let mut session = KeySession::new(self.context.keys.clone(), peer, local);
        loop {
            session.deliver(self.outbox.buffer());
            self.outbox.seal();
            scope(&COMMANDS, self.run_commands(&mut session)).await?;
            session.end_batch();
            self.flush(&session).await?;
            session.replies_sent();
            self.count();
            self.wait(&session).await?;
        }
    }

    /// Runs every whole command of the inbox.
    async fn run_commands(&mut self, session: &mut KeySession) -> Result<(), End> {
        let mut turn = Turn::default();
        let mut looked_ahead = 0;
        loop {
            let Some((command, used)) = self.decoder.decode(self.inbox.unread(), &self.limits)? else {
                return Ok(());
            };
            let is_empty = command.is_empty();
            let before = self.outbox.buffer().len();
            let mut executed = session.execute(command, self.outbox.buffer());
            if executed.waits {
                executed = Box::pin(self.run_waiting(session)).await?;
            }
            self.inbox.consume(used);
            // The first command of a read goes alone, as it mostly is.
            if looked_ahead == 0 && !self.inbox.unread().is_empty() {
                looked_ahead = session.look_ahead(self.inbox.unread());
            } else {
                looked_ahead = looked_ahead.saturating_sub(1);
            }
            self.outbox.seal();
            self.commands += u64::from(!is_empty);
            let copied = used + self.outbox.buffer().len().saturating_sub(before);
            turn.work(copied as u64 + session.take_work()).await;
            if let Some(code) = executed.error {
                self.context.meters.error(code);
            }
            if executed.close {
                session.end_batch();
                return Err(End::Close);
            }
            if self.outbox.pending() >= self.flush_bytes {
                self.flush(session).await?;
                session.replies_sent();
            }
        }
    }

    /// Runs the first command of the inbox, which waits for a row that somebody has locked. What came before it is sent.
    async fn run_waiting(&mut self, session: &mut KeySession) -> Result<Answered, End> {
        self.flush(session).await?;
        session.replies_sent();
        let client = Arc::clone(session.client());
        let mut patience = session.patience();
        loop {
            let waited = tokio::select! {
                biased;
                waited = session.wait(&mut patience) => waited,
                () = self.context.stop.reached(Phase::Ending) => return Err(End::Left),
                () = client.killed() => return Err(End::Killed),
            };
            let Some((command, _)) = self.decoder.decode(self.inbox.unread(), &self.limits)? else {
                return Err(End::Left);
            };
            let out = self.outbox.buffer();
            let executed = match waited {
                Ok(()) => session.execute(command, out),
                Err(error) => session.refuse_waiting(command, error, out),
            };
            if !executed.waits {
                session.end_waiting();
                return Ok(executed);
            }
        }
    }

    /// Sends everything, however long the client takes to read it.
    async fn flush(&mut self, session: &KeySession) -> Result<(), End> {
        // Nearly always the kernel takes it all at once.
        if self.outbox.try_flush(&self.stream)? {
            return Ok(());
        }
        tokio::select! {
            biased;
            flushed = self.outbox.flush(&self.stream) => Ok(flushed?),
            () = self.context.stop.reached(Phase::Ending) => Err(End::Left),
            () = session.client().killed() => Err(End::Killed),
        }
    }

    /// Waits, idle, for more from the client, or for something to deliver to it.
    async fn wait(&mut self, session: &KeySession) -> Result<(), End> {
        // One client whose commands never pause must not keep the others of this thread waiting.
        tokio::task::consume_budget().await;
        if let Some(idle) = &mut self.idle {
            idle.touch();
        }
        if session.client().is_killed() {
            return Err(End::Killed);
        }
        let filled = tokio::select! {
            biased;
            filled = self.inbox.fill(&mut self.stream) => filled?,
            // Everything has been sent: no last words, and no waiting for the client to hear them.
            () = self.context.stop.reached(Phase::Draining) => return Err(End::Left),
            () = session.client().killed() => return Err(End::Killed),
            () = session.published() => true,
            // Who listens has nothing to say, and is no less there.
            () = IdleTimer::expired(&mut self.idle), if !session.is_subscribed() => return Err(End::Close),
        };
        if filled { Ok(()) } else { Err(End::Left) }
    }

    /// Hands what was counted to the counters of the door.
    fn count(&mut self) {
        let (received, sent, writes) = (self.inbox.take_read(), self.outbox.take_written(), self.outbox.take_writes());
        let statements = std::mem::take(&mut self.commands);
        self.context.meters.count(Counted { received, sent, writes, statements, rows: 0 });
    }

    /// Sends the last words, if there are any, and closes.
    async fn close(mut self, end: End) {
        self.outbox.drop_unsealed();
        let speaks = match end {
            End::Left => {
                tracing::debug!("the client left");
                false
            }
            End::Broken(error) => {
                tracing::debug!(%error, "the connection broke");
                false
            }
            End::Killed => {
                tracing::debug!("killed by another connection");
                false
            }
            End::Close => true,
            End::Error(code, text) => {
                self.context.meters.error(code);
                tracing::debug!(sqlstate = code.sqlstate(), text, "closing");
                let out = self.outbox.buffer();
                out.push(b'-');
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
                true
            }
        };
        if speaks {
            let said = tokio::time::timeout(FAREWELL, self.farewell()).await;
            if !matches!(said, Ok(Ok(()))) {
                tracing::debug!("the client did not take its last reply");
            }
        }
        self.count();
    }

    async fn farewell(&mut self) -> io::Result<()> {
        self.outbox.flush(&self.stream).await?;
        self.stream.shutdown().await?;
        // A socket closed with unread bytes resets the connection, and the client may never see the reply.
        let mut lingered = 0;
        while lingered < LINGER_BYTES {
            self.inbox.consume(self.inbox.unread().len());
            if !self.inbox.fill(&mut self.stream).await? {
                break;
            }
            lingered += self.inbox.unread().len();
        }
        Ok(())
    }
}

//! The first messages of a connection, up to the first ReadyForQuery.
//!
//! Called by the connection's loop, once. A client that does not finish in time is closed; one that only wants to
//! cancel is served even when every seat is taken.

use std::time::Duration;

use ashlar_base::{Error, ErrorCode};
use ashlar_protocol::pg::frontend::{self, Startup};
use ashlar_protocol::pg::{DecodeError, backend};

use super::{Connection, End};
use crate::session::SqlSession;
use crate::shutdown::Phase;

/// PostgreSQL's own bound on the startup packet.
const STARTUP_BYTES_MAX: usize = 10_000;

/// The protocol that we speak; later minor versions are negotiated down to it.
const MAJOR: u16 = 3;
const MINOR: u16 = 2;

/// Bytes of a cancel secret. Clients of protocol 3.0 have room for four, later ones for up to 256.
const SECRET_BYTES_OLD: usize = 4;
const SECRET_BYTES: usize = 32;

impl Connection {
    /// Brings a connection to its first ReadyForQuery.
    pub(super) async fn greet(&mut self) -> Result<SqlSession, End> {
        let limit = Duration::from_millis(self.context.shared.config.server.startup_timeout_ms);
        match tokio::time::timeout(limit, self.negotiate()).await {
            Ok(session) => session,
            Err(_) => {
                tracing::debug!("no startup message in time");
                Err(End::Left)
            }
        }
    }

    async fn negotiate(&mut self) -> Result<SqlSession, End> {
        // Each kind of encryption may be asked for once, as in PostgreSQL: more is a client gone mad.
        let mut requests_left = 2;
        loop {
            match frontend::decode_startup(self.inbox.unread(), STARTUP_BYTES_MAX) {
                Ok(None) => self.await_startup().await?,
                Ok(Some((Startup::SslRequest | Startup::GssEncRequest, used))) => {
                    if requests_left == 0 {
                        let message = "too many requests for encryption";
                        return Err(End::Fatal(Error::new(ErrorCode::ProtocolViolation, message)));
                    }
                    requests_left -= 1;
                    self.inbox.consume(used);
                    self.outbox.buffer().push(b'N');
                    self.outbox.seal();
                    self.outbox.flush(&self.stream).await?;
                }
                Ok(Some((Startup::Cancel { pid, secret }, _))) => {
                    let found = self.context.shared.sessions.cancel(pid, secret);
                    tracing::debug!(pid, found, "cancel request");
                    return Err(End::Left);
                }
                Ok(Some((Startup::Startup { minor, parameters, .. }, used))) => {
                    self.seat = self.context.seats.sit();
                    if self.seat.is_none() {
                        self.context.meters.refused.increment(1);
                        let message = "sorry, too many clients already";
                        return Err(End::Fatal(Error::new(ErrorCode::TooManyConnections, message)));
                    }
                    let out = self.outbox.buffer();
                    let unknown: Vec<&str> =
                        parameters.iter().map(|(name, _)| *name).filter(|name| name.starts_with("_pq_.")).collect();
                    if minor > MINOR || !unknown.is_empty() {
                        backend::negotiate_protocol_version(out, MAJOR, minor.min(MINOR), &unknown);
                    }
                    let mut session = SqlSession::new(self.context.shared.clone(), &parameters).map_err(End::Fatal)?;
                    self.inbox.consume(used);
                    self.welcome(&mut session, minor);
                    return Ok(session);
                }
                // Bytes that are no startup packet mostly come from no PostgreSQL client: say nothing, as PostgreSQL does.
                Err(DecodeError::StartupLength) => {
                    tracing::debug!("no startup message");
                    return Err(End::Left);
                }
                Err(error) => return Err(End::Fatal(error.into())),
            }
        }
    }

    async fn await_startup(&mut self) -> Result<(), End> {
        let filled = tokio::select! {
            biased;
            filled = self.inbox.fill(&mut self.stream) => filled?,
            () = self.context.stop.reached(Phase::Draining) => {
                let message = "the database system is shutting down";
                return Err(End::Fatal(Error::new(ErrorCode::CannotConnectNow, message)));
            }
        };
        if filled { Ok(()) } else { Err(End::Left) }
    }

    /// AuthenticationOk up to ReadyForQuery.
    fn welcome(&mut self, session: &mut SqlSession, minor: u16) {
        let out = self.outbox.buffer();
        backend::authentication_ok(out);
        for (name, value) in session.parameters() {
            session.note_parameter(name, &value);
            backend::parameter_status(out, name, &value);
        }
        let secret_bytes = if minor >= MINOR { SECRET_BYTES } else { SECRET_BYTES_OLD };
        self.cancel = session.cancel_token();
        let who = session.who(self.stream.peer_addr().ok());
        let registration = self.context.shared.sessions.register(self.cancel.clone(), secret_bytes, who);
        backend::backend_key_data(out, registration.pid(), registration.secret());
        session.set_pid(registration.pid());
        self.registration = Some(registration);
        self.ready(session);
        self.outbox.seal();
    }
}

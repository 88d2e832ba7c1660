//! Connections that a session keeps from its first statement on a server until the session ends, so that PostgreSQL's
//! session state there belongs to its client.
//!
//! Called by the fleet for sessions that ask for it. A connection that comes back from a statement waits here for the
//! next one; a lost one is reported once; and when the session ends, its connections are reset and returned to their
//! pool. Never lends two connections to one server: a request waits while the connection is in use.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Lease, Pool, Slot, is_as_declared};
use crate::backend::{Backend, Settings};
use crate::health::is_away;
use crate::server::{Mapping, Server};

static RENEW: Name = Name::new("shard connections of a session that has ended");

/// See the module.
#[derive(Default)]
pub struct Keep {
    /// By server.
    places: Mutex<HashMap<String, Place>>,
    came: Notify,
}

enum Place {
    /// It is lent, or being made.
    Out,
    Here(Box<Backend>, Slot),
    /// It is gone, and nobody has been told.
    Lost,
}

/// What a session has of a server.
pub(crate) enum Held {
    /// Its connection, which is lent now.
    Connection(Lease),
    /// The right to keep one, which is to be lent by its pool.
    Nothing(Ticket),
}

/// The right to bring a connection back.
pub(crate) struct Ticket {
    keep: Arc<Keep>,
    /// Empty where it has been used.
    server: String,
}

impl Keep {
    /// The connection to a server that the session has; where it has none yet, the right to have one.
    ///
    /// # Errors
    /// 08006 where the session had one that is lost, with what the server kept for it; 53300 where it is under way for too long; what the server
    /// says to its settings.
    pub(crate) async fn lend(
        self: &Arc<Self>,
        pool: &Arc<Pool>,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
    ) -> Result<Held> {
        let (ticket, kept) = self.enter(pool, server).await?;
        let Some((backend, slot)) = kept else { return Ok(Held::Nothing(ticket)) };
        if !(is_as_declared(&backend, server, mapping) && backend.is_clean()) {
            return Err(lost(&server.name));
        }
        slot.count(|counts| counts.lent += 1);
        // From here on it comes back, or is lost and told of, where this is dropped too.
        let mut lease = Lease { backend: Some(backend), slot, home: Some(ticket), since: clock::monotonic() };
        match pool.adopt(&mut lease, settings).await {
            Ok(()) => Ok(Held::Connection(lease)),
            Err(error) => {
                // A setting that is refused says nothing of what goes with the connection.
                if !is_away(&error)
                    && let Some(ticket) = lease.home.take()
                {
                    ticket.lose(true);
                }
                Err(error)
            }
        }
    }

    /// The right to have the connection to a server, with the one that is there.
    async fn enter(self: &Arc<Self>, pool: &Pool, server: &Server) -> Result<(Ticket, Option<(Box<Backend>, Slot)>)> {
        let waits = async {
            loop {
                let mut came = std::pin::pin!(self.came.notified());
                // From here on nothing that comes is missed.
                came.as_mut().enable();
                if let Some(found) = self.take(&server.name) {
                    return found;
                }
                came.await;
            }
        };
        let entered = tokio::time::timeout(pool.config.wait_max, waits).await;
        entered.unwrap_or_else(|_| {
            let message = format!("the session's connection to shard \"{}\" did not come free in time", server.name);
            Err(Error::new(ErrorCode::TooManyConnections, message))
        })
    }

    /// `None`: it is out.
    #[expect(clippy::type_complexity, reason = "it is named once, by whom it is for")]
    fn take(self: &Arc<Self>, server: &str) -> Option<Result<(Ticket, Option<(Box<Backend>, Slot)>)>> {
        let mut places = self.places.lock();
        let kept = match places.remove(server) {
            Some(Place::Out) => {
                places.insert(server.to_owned(), Place::Out);
                return None;
            }
            Some(Place::Lost) => return Some(Err(lost(server))),
            Some(Place::Here(backend, slot)) => Some((backend, slot)),
            None => None,
        };
        places.insert(server.to_owned(), Place::Out);
        Some(Ok((Ticket { keep: Arc::clone(self), server: server.to_owned() }, kept)))
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        for place in std::mem::take(self.places.get_mut()).into_values() {
            if let Place::Here(backend, slot) = place {
                release(Lease { backend: Some(backend), slot, home: None, since: clock::monotonic() });
            }
        }
    }
}

/// Makes a connection as new, beside whoever had it, and gives it to its pool.
fn release(mut lease: Lease) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        lease.discard();
        return;
    };
    drop(runtime.spawn(scope::task(&RENEW, async move {
        let patience = lease.slot.pool.config.limits.connect;
        if !matches!(tokio::time::timeout(patience, lease.renew()).await, Ok(Ok(()))) {
            // Nobody shall find what is left there.
            lease.discard();
        }
    })));
}

/// 08006
fn lost(server: &str) -> Error {
    let message = format!("the session's connection to shard \"{server}\" was lost");
    Error::new(ErrorCode::ConnectionFailure, message)
        .with_detail("What the shard kept for the session is gone: its settings, locks and temporary tables there.")
        .with_hint("The next statement has a new connection.")
        .with_context(format!("shard {server}"))
}

impl Ticket {
    /// The connection is back.
    pub(super) fn give(mut self, backend: Box<Backend>, slot: Slot) {
        if let Some(card) = &backend.card {
            card.keep();
        }
        let server = std::mem::take(&mut self.server);
        self.keep.places.lock().insert(server, Place::Here(backend, slot));
        self.keep.came.notify_waiters();
    }

    /// The connection is gone; `is_news`: nobody has said so.
    pub(super) fn lose(mut self, is_news: bool) {
        if is_news {
            let server = std::mem::take(&mut self.server);
            self.keep.places.lock().insert(server, Place::Lost);
            self.keep.came.notify_waiters();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.server.is_empty() {
            self.keep.places.lock().remove(&self.server);
            self.keep.came.notify_waiters();
        }
    }
}

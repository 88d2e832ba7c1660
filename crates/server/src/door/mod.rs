//! The doors: bytes from a client become requests to `session`, and its answers become bytes.
//!
//! `runtime` accepts connections and starts [`serve`] for each on the thread where it will stay. Inside this crate a
//! door imports `session` only; what it must know of the server around it is in [`Context`].

pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod meters;
pub(crate) mod pgwire;
pub(crate) mod resp;
pub(crate) mod seats;
pub(crate) mod turn;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::session::Shared;
use crate::session::keys::KeyService;
use crate::shutdown::Stop;
use meters::Meters;
use seats::Seats;

/// The doors whose connections are spread over the door threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// PostgreSQL's protocol.
    Pg,
    /// Redis's protocol.
    Resp,
}

impl Door {
    /// The word for it in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pg => "pg",
            Self::Resp => "resp",
        }
    }
}

/// What a connection knows of the server around it.
#[derive(Clone)]
pub(crate) struct Context {
    /// The engine, the configuration and the sessions.
    pub(crate) shared: Arc<Shared>,
    /// What the sessions of the RESP door share.
    pub(crate) keys: Arc<KeyService>,
    /// Unique over the life of the server; the log's `session{id}`.
    pub(crate) id: u64,
    /// A session leaves when it is between statements and this says so.
    pub(crate) stop: Stop,
    /// Counters of this door.
    pub(crate) meters: Meters,
    /// Who may still come in through this door.
    pub(crate) seats: Arc<Seats>,
}

/// A client that does not read its last message gets this long before the connection is closed on it.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// An accept that fails (mostly: too many open files) is tried again after this long.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves one connection to its end.
pub(crate) async fn serve(door: Door, stream: TcpStream, context: Context) {
    if let Err(error) = ashlar_base::net::tune(&stream) {
        // The client has left between connecting and being accepted.
        tracing::debug!(%error, "connection ended before it was served");
        return;
    }
    match door {
        Door::Pg => pgwire::serve(stream, context).await,
        Door::Resp => resp::serve(stream, context).await,
    }
}

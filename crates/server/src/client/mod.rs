//! The small clients of the command line: PostgreSQL's simple protocol and RESP, each over one connection.
//!
//! Used by `ashlar sql` and by the demo, which reach the server through its doors like any other client. A caller
//! waits asynchronously, for one request at a time.

pub mod pg;
pub mod resp;
pub mod table;

use std::net::SocketAddr;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection could not be made.
    #[error("cannot connect to {0} (`ashlar serve` starts a server)")]
    Connect(SocketAddr, #[source] std::io::Error),
    /// The connection was lost.
    #[error("the connection was lost")]
    Io(#[from] std::io::Error),
    /// The server refused.
    #[error("{0}")]
    Refused(String),
    /// What came is not the protocol.
    #[error("the server sent something unexpected: {0}")]
    Protocol(String),
}

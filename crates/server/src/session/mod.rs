//! What the doors drive: SQL sessions and key-value sessions on one engine.
//!
//! A door knows this module and nothing behind it. Sessions know neither sockets nor protocols.

pub mod activity;
pub mod advisory;
pub mod channels;
pub mod keys;
pub mod registry;
pub mod sql;

use std::sync::Arc;

use ashlar_base::config::Config;
use ashlar_query::Engine;

pub use activity::Activity;
pub use ashlar_store::Reservation;
pub use registry::{CancelToken, SessionRegistry};
pub use sql::{Column, Executed, Notice, RowSink, SimpleStatement, SqlSession};

/// What all sessions share.
pub struct Shared {
    /// Tables, plans and the threads that run queries.
    pub engine: Arc<Engine>,
    /// What is configured.
    pub config: Arc<Config>,
    /// The open SQL sessions, for cancel requests and for those who ask what is done.
    pub sessions: SessionRegistry,
    /// Who listens to what.
    pub channels: channels::Channels,
    /// Who holds which advisory locks.
    pub advisory: Arc<advisory::AdvisoryLocks>,
}

//! The identity behind a statement: the user, the database, the process number and the settings of the session it is
//! planned for.
//!
//! It travels with the catalog version. A plan that depends on it is valid for this session only, so the catalog
//! version records whether it was read.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_shard::backend::Carried;

use crate::sequences::Numbers;

/// A session, as `current_user`, `pg_backend_pid()` and the system tables tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user of the startup message: the one role there is.
    pub user: String,
    /// The database of the startup message: the one database there is.
    pub database: String,
    /// The number that a cancel request names.
    pub pid: i32,
    /// Its settings, by name.
    pub settings: Arc<[Setting]>,
    /// Parameters of its user's own, which no list has.
    pub parameters: Carried,
    /// Its cursors, in any order.
    pub cursors: Vec<OpenCursor>,
    /// The numbers that it was given.
    pub numbers: Numbers,
    /// All sessions of the server.
    pub sessions: OpenSessions,
}

/// A cursor of the session, as `pg_cursors` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCursor {
    /// Its name.
    pub name: String,
    /// Its DECLARE. The text is shared, for an identity is made for each statement that is planned.
    pub statement: Arc<str>,
    /// Whether it was declared `WITH HOLD`.
    pub is_holdable: bool,
}

/// A session that is open, as `pg_stat_activity` tells it. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// The number that a cancel request names.
    pub pid: i32,
    /// The user of its startup message.
    pub user: String,
    /// The database of its startup message.
    pub database: String,
    /// What it is called by its client.
    pub application: String,
    /// Where its client is, if that is known.
    pub client: Option<SocketAddr>,
    /// When it began.
    pub begun: i64,
    /// When its transaction began, if it is in one.
    pub transaction_begun: Option<i64>,
    /// When its last statement began, if there was one.
    pub statement_begun: Option<i64>,
    /// Since when it is in its state.
    pub changed: i64,
    /// In PostgreSQL's words what it is doing.
    pub state: &'static str,
    /// The beginning of its last statement.
    pub statement: String,
}

/// Who knows the open sessions.
pub trait ListSessions: fmt::Debug + Send + Sync {
    /// The sessions that are open now.
    fn open_sessions(&self) -> Vec<OpenSession>;
}

/// The open sessions, whenever they are asked for. Two are equal where they are one.
#[derive(Clone, Debug, Default)]
pub struct OpenSessions(Option<Arc<dyn ListSessions>>);

impl OpenSessions {
    /// Those that somebody knows.
    pub fn of(known: Arc<dyn ListSessions>) -> Self {
        Self(Some(known))
    }

    /// Those of now.
    pub(crate) fn list(&self) -> Vec<OpenSession> {
        self.0.as_ref().map_or_else(Vec::new, |known| known.open_sessions())
    }
}

impl PartialEq for OpenSessions {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Eq for OpenSessions {}

/// A setting of the session, as `pg_settings` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As it is told.
    pub name: &'static str,
    /// The value, in the unit of the setting where it has one.
    pub value: String,
    /// The value as SHOW writes it.
    pub shown: String,
    /// What RESET goes back to.
    pub reset: String,
    /// The unit.
    pub unit: Option<&'static str>,
    /// `bool`, `enum`, `integer`, `real` or `string`.
    pub kind: &'static str,
    /// Whether a session can change it.
    pub is_fixed: bool,
    /// What it is for.
    pub about: &'static str,
}

impl Default for Identity {
    /// Where nobody has introduced himself.
    fn default() -> Self {
        Self {
            user: "ashlar".to_owned(),
            database: "ashlar".to_owned(),
            pid: 0,
            settings: Vec::new().into(),
            parameters: Carried::default(),
            cursors: Vec::new(),
            numbers: Numbers::default(),
            sessions: OpenSessions::default(),
        }
    }
}

/// An identity, and whether it was looked at.
#[derive(Debug, Default)]
pub(crate) struct Asker {
    identity: Identity,
    was_read: AtomicBool,
}

impl Asker {
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, was_read: AtomicBool::new(false) }
    }

    /// The identity; whoever plans with it makes the plan this session's own.
    pub(crate) fn read(&self) -> &Identity {
        self.was_read.store(true, Ordering::Relaxed);
        &self.identity
    }

    pub(crate) fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed)
    }
}

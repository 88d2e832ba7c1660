//! The identity behind a statement: the user, the database, the process number and the settings of the session it is
//! planned for.
//!
//! It travels with the catalog version. A plan that depends on it is valid for this session only, so the catalog
//! version records whether it was read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Its cursors, in any order.
    pub cursors: Vec<OpenCursor>,
    /// The numbers that it was given.
    pub numbers: Numbers,
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
    /// `bool`, `enum`, `integer` or `string`.
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
            cursors: Vec::new(),
            numbers: Numbers::default(),
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

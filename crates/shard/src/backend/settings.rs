//! The settings of a connection: of whoever borrows it, and of a transaction in which they change.
//!
//! Called by `pool`, which lends connections with the settings of their borrowers, and by sessions before each statement of a transaction.

use std::sync::Arc;

use ashlar_base::Result;

use super::{Backend, login};

/// Settings that a statement's result depends on: of the session that borrows, or of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `TimeZone`
    pub time_zone: Arc<str>,
    /// `application_name`
    pub application_name: Arc<str>,
    /// `lock_timeout`
    pub lock_timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { time_zone: "UTC".into(), application_name: "ashlar".into(), lock_timeout_ms: 0 }
    }
}

impl Backend {
    /// Whether whoever borrows it with these settings has nothing to change.
    pub fn has_settings(&self, settings: &Settings) -> bool {
        !self.is_unsure && self.settings == *settings
    }

    /// Makes the settings of whoever borrows it its own, where they differ.
    ///
    /// # Errors
    /// What the shard says, which may not know a time zone; then it has some of them, and is not lent again.
    pub(crate) async fn adopt(&mut self, settings: &Settings) -> Result<()> {
        if self.has_settings(settings) {
            return Ok(());
        }
        // Before the statement and not with it: it would run all the same where one of these is refused.
        let done = self.run(&login::set_all("SET", settings)).await;
        self.is_broken |= done.is_err();
        self.settings = settings.clone();
        done.map(drop)
    }

    /// Queues what makes these settings those of the transaction that is open there, to its end, where they differ. Where one of them is
    /// refused the transaction has failed: what is queued behind is not carried out.
    pub fn queue_settings(&mut self, settings: &Settings) {
        if self.has_settings(settings) {
            return;
        }
        self.queue_query(&login::set_all("SET LOCAL", settings));
        let before = std::mem::replace(&mut self.settings, settings.clone());
        self.lasting.get_or_insert(before);
        self.is_unsure = false;
    }

    /// A savepoint is gone back to: what was told behind it is not in force any more.
    pub fn doubt_settings(&mut self) {
        self.is_unsure = self.lasting.is_some();
    }
}

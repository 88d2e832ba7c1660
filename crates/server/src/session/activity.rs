//! What SQL sessions are doing, as `pg_stat_activity` tells it.
//!
//! A session notes each statement that begins, and its door that the client may speak again: both on the connection's own thread. Who asks
//! gets a copy, by way of the registry.

use std::sync::Arc;

use ashlar_base::clock;
use ashlar_protocol::pg::TransactionStatus;
use parking_lot::Mutex;

/// Bytes of a statement that are told, as in PostgreSQL where nobody says otherwise.
const STATEMENT_BYTES_MAX: usize = 1023;

/// Bytes of the name of an application that are told, as in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// What one session is doing.
#[derive(Debug, Default)]
pub struct Activity(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    doing: Doing,
    /// The last statement where it is a whole text that is kept anyway, and then not copied. `None`: it is in `doing`.
    text: Option<Arc<str>>,
}

/// The same, at one moment. Times are microseconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Doing {
    /// What it is called by its client.
    pub(super) application: String,
    /// The beginning of its last statement.
    pub(super) statement: String,
    /// What its client knows of it that may speak; `None` while a statement runs.
    pub(super) waits: Option<TransactionStatus>,
    /// When its transaction began.
    pub(super) transaction_begun: Option<i64>,
    /// When its last statement began.
    pub(super) statement_begun: Option<i64>,
    /// Since when it is in its state.
    pub(super) changed: i64,
}

impl Activity {
    /// A statement begins.
    pub(super) fn begin(&self, statement: &str) {
        let now = clock::wall_micros();
        let mut noted = self.0.lock();
        noted.doing.begin(now);
        noted.text = None;
        // Kept for its memory: of most statements nothing is allocated.
        let told = &mut noted.doing.statement;
        told.clear();
        told.push_str(&statement[..statement.floor_char_boundary(STATEMENT_BYTES_MAX)]);
    }

    /// The same of one whose text is kept: it is shared where all of it is told, so that no text that is long outlives its statement here.
    pub(super) fn begin_kept(&self, statement: &Arc<str>) {
        if statement.len() > STATEMENT_BYTES_MAX {
            return self.begin(statement);
        }
        let now = clock::wall_micros();
        let mut noted = self.0.lock();
        noted.doing.begin(now);
        if noted.text.as_ref().is_none_or(|text| !Arc::ptr_eq(text, statement)) {
            noted.text = Some(Arc::clone(statement));
        }
    }

    /// The client may speak, and knows this of the session.
    pub(super) fn wait(&self, status: TransactionStatus) {
        let now = clock::wall_micros();
        let mut noted = self.0.lock();
        let doing = &mut noted.doing;
        (doing.waits, doing.changed) = (Some(status), now);
        if status == TransactionStatus::Idle {
            doing.transaction_begun = None;
        }
    }

    /// The client gives the session a name.
    pub(super) fn call(&self, application: &str) {
        let application = &application[..application.floor_char_boundary(NAME_BYTES_MAX)];
        application.clone_into(&mut self.0.lock().doing.application);
    }

    /// Does something while nobody can look.
    #[cfg(test)]
    pub(super) fn held<R>(&self, work: impl FnOnce() -> R) -> R {
        let _doing = self.0.lock();
        work()
    }

    /// What it is doing now.
    pub(super) fn now(&self) -> Doing {
        let noted = self.0.lock();
        let mut doing = noted.doing.clone();
        if let Some(text) = &noted.text {
            doing.statement.clear();
            doing.statement.push_str(text);
        }
        doing
    }
}

impl Doing {
    /// A statement begins at this time.
    fn begin(&mut self, now: i64) {
        self.transaction_begun = self.transaction_begun.or(Some(now));
        (self.statement_begun, self.changed, self.waits) = (Some(now), now, None);
    }

    /// The same in PostgreSQL's words.
    pub(super) fn state(&self) -> &'static str {
        match self.waits {
            None => "active",
            Some(TransactionStatus::Idle) => "idle",
            Some(TransactionStatus::InBlock) => "idle in transaction",
            Some(TransactionStatus::Failed) => "idle in transaction (aborted)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_begins_with_its_first_statement_and_ends_when_the_client_is_told() {
        let activity = Activity::default();
        activity.begin("BEGIN");
        let first = activity.now();
        assert_eq!((first.state(), first.statement.as_str()), ("active", "BEGIN"));
        assert_eq!(first.transaction_begun, first.statement_begun);
        activity.wait(TransactionStatus::InBlock);
        assert_eq!(activity.now().state(), "idle in transaction");
        activity.begin("SELECT 1");
        assert_eq!(activity.now().transaction_begun, first.transaction_begun);
        activity.wait(TransactionStatus::Failed);
        assert_eq!(activity.now().state(), "idle in transaction (aborted)");
        activity.begin("ROLLBACK");
        activity.wait(TransactionStatus::Idle);
        let last = activity.now();
        assert_eq!((last.state(), last.statement.as_str(), last.transaction_begun), ("idle", "ROLLBACK", None));
        assert!(last.statement_begun >= first.statement_begun);
    }

    #[test]
    fn of_a_long_statement_the_beginning_is_told() {
        let activity = Activity::default();
        activity.begin(&"\u{e4}".repeat(STATEMENT_BYTES_MAX));
        assert_eq!(activity.now().statement.len(), STATEMENT_BYTES_MAX - 1);
        activity.begin("short");
        assert_eq!(activity.now().statement, "short");
    }

    #[test]
    fn a_text_that_is_kept_is_shared_unless_it_is_long_and_the_last_one_is_told() {
        let activity = Activity::default();
        let (one, other, long): (Arc<str>, Arc<str>, Arc<str>) =
            ("one".into(), "other".into(), "x".repeat(STATEMENT_BYTES_MAX + 1).into());
        for _ in 0..2 {
            activity.begin_kept(&one);
            assert_eq!((activity.now().statement.as_str(), activity.now().state()), ("one", "active"));
            assert_eq!(Arc::strong_count(&one), 2);
        }
        activity.begin("copied");
        assert_eq!((activity.now().statement.as_str(), Arc::strong_count(&one)), ("copied", 1));
        activity.begin_kept(&one);
        activity.begin_kept(&other);
        assert_eq!((activity.now().statement.as_str(), Arc::strong_count(&one)), ("other", 1));
        activity.begin_kept(&long);
        assert_eq!((activity.now().statement.len(), Arc::strong_count(&long)), (STATEMENT_BYTES_MAX, 1));
        assert_eq!(Arc::strong_count(&other), 1);
    }
}

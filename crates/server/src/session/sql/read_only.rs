//! What a read-only transaction refuses: 25006, in PostgreSQL's words.
//!
//! Called before a statement writes, wherever its rows are. It changes nothing.

use std::borrow::Cow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::sharded::ShardedPlan;
use ashlar_query::statement::Kind;
use ashlar_store::Strength;

use super::SqlSession;

/// 25006 for a statement that writes, by its first words.
pub(super) fn only_reads(what: &str) -> Error {
    Error::new(ErrorCode::ReadOnlyTransaction, format!("cannot execute {what} in a read-only transaction"))
}

/// The first words of a statement that writes or locks.
pub(super) fn words_of(kind: &Kind) -> Cow<'static, str> {
    match kind {
        Kind::Insert(_) | Kind::Spread(_) => "INSERT".into(),
        Kind::Update(_) => "UPDATE".into(),
        Kind::Delete(_) => "DELETE".into(),
        Kind::ShardChange(plan) => plan.verb().into(),
        Kind::Sharded(plan) => words_of_sharded(plan).into(),
        Kind::Key(plan) => with_clause(plan.verb(), plan.locks()),
        Kind::Lock(plan) => with_clause("SELECT", Some(plan.strength())),
        Kind::Copy(_) => "COPY FROM".into(),
        Kind::WithChanges(plan) => match plan.main_kind() {
            Kind::Select(_) => "SELECT".into(),
            main => words_of(main),
        },
        Kind::Select(_) | Kind::Ddl(_) | Kind::Explain { .. } | Kind::Session(_) | Kind::Empty => {
            "this statement".into()
        }
    }
}

/// The same for a statement that a shard runs.
pub(super) fn words_of_sharded(plan: &ShardedPlan) -> &'static str {
    plan.route.verb().unwrap_or("SELECT FOR UPDATE")
}

fn with_clause(verb: &'static str, locks: Option<Strength>) -> Cow<'static, str> {
    locks.map_or(Cow::Borrowed(verb), |strength| format!("{verb} {}", strength.clause()).into())
}

impl SqlSession {
    /// Whether nothing may be written now.
    pub(super) fn is_read_only(&self) -> bool {
        self.transaction.as_ref().map_or(self.settings.modes.read_only, |transaction| transaction.read_only)
    }

    /// What may keep a statement from writing to tables of this server.
    ///
    /// # Errors
    /// 25006 in a read-only transaction, 0A000 where the transaction has written to a shard.
    pub(super) fn refuse_write(&self, writes: bool, kind: &Kind) -> Result<()> {
        if !writes {
            return Ok(());
        }
        if self.is_read_only() {
            return Err(only_reads(&words_of(kind)));
        }
        self.refuse_mixed()
    }
}

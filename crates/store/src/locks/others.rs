//! Waits of sessions for something else than rows, so that a circle which goes through both is found.
//!
//! A session of the PostgreSQL door waits for one thing at a time: for a row, or for what somebody outside keeps a list of. Both
//! sides are known by its process number here. Whoever begins to wait holds the mutex of the row waits meanwhile, and looks at the
//! other side after it is on its own: of two who close a circle at the same time, the second one sees the first.

use std::sync::Arc;
use std::time::Instant;

use ashlar_base::Error;

use super::Owner;
use super::deadlock::Graph;
use super::table::{LockTable, Waits};

/// A list of such waits. Asked while the row waits are locked, so it must not wait for anything that asks for those.
pub trait OtherWaits: Send + Sync {
    /// What a session waits for; `None`: it does not.
    fn wait_of(&self, pid: i32) -> Option<OtherWait>;

    /// Everything that is held or waited for there.
    fn list(&self) -> Vec<OtherLock>;
}

/// What a session waits for that is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherWait {
    /// In PostgreSQL's words.
    pub what: String,
    /// The sessions that it waits for: those who stand before it in the queue, and behind them who holds what it or one of those wants.
    pub pids: Vec<i32>,
    /// How many of them stand before it.
    pub ahead: usize,
}

/// A lock of something else than a row, or a request that waits for one, as `pg_locks` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherLock {
    /// The session's process number.
    pub pid: i32,
    /// PostgreSQL's `classid`, `objid` and `objsubid` of an advisory lock.
    pub object: (u32, u32, i16),
    /// Whether others may hold it in the same way.
    pub is_shared: bool,
    /// Since when the session waits for it; `None` if it is held.
    pub waits_since: Option<Instant>,
}

impl OtherLock {
    /// The mode that PostgreSQL shows for it.
    pub fn mode(&self) -> &'static str {
        if self.is_shared { "ShareLock" } else { "ExclusiveLock" }
    }
}

/// The locks of sessions that are of no row, whenever they are asked for.
#[derive(Clone)]
pub struct OtherLocks(Arc<LockTable>);

impl OtherLocks {
    pub(crate) fn of(table: &Arc<LockTable>) -> Self {
        Self(Arc::clone(table))
    }

    /// What is held and waited for now.
    pub fn list(&self) -> Vec<OtherLock> {
        self.0.others().map_or_else(Vec::new, OtherWaits::list)
    }
}

/// The row waits, which nobody begins or ends while this is there.
pub struct RowWaits<'l> {
    table: &'l LockTable,
    waits: &'l Waits,
}

impl<'l> RowWaits<'l> {
    pub(super) fn new(table: &'l LockTable, waits: &'l Waits) -> Self {
        Self { table, waits }
    }

    /// 40P01, where a session that has begun to wait for something else than a row is waited for by somebody whom it waits for. It is
    /// among the deadlocks that are counted.
    pub fn deadlock(&self, pid: i32, others: &dyn OtherWaits) -> Option<Error> {
        let owner = Owner { id: Owner::NOBODY.id, pid };
        let error = Graph::new(self.table, self.waits, Some(others)).deadlock(owner)?;
        self.table.count_deadlock();
        Some(error)
    }
}

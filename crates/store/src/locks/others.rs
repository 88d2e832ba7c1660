//! Waits of sessions for something else than rows, so that a circle which goes through both is found.
//!
//! A session of the PostgreSQL door waits for one thing at a time: for a row, or for what somebody outside keeps a list of. Both
//! sides are known by its process number here. Whoever begins to wait holds the mutex of the row waits meanwhile, and looks at the
//! other side after it is on its own: of two who close a circle at the same time, the second one sees the first.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use super::deadlock::waits_for_rows;
use super::table::{LockTable, Waits};

/// A list of such waits. Asked while the row waits are locked, so it must not wait for anything that asks for those.
pub trait OtherWaits: Send + Sync {
    /// What a session waits for, in PostgreSQL's words, and the sessions that it waits for; `None`: it does not.
    fn wait_of(&self, pid: i32) -> Option<(String, Vec<i32>)>;

    /// Everything that is held or waited for there.
    fn list(&self) -> Vec<OtherLock>;
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

/// The row waits, which nobody begins or ends while this is there.
pub struct RowWaits<'l> {
    table: &'l LockTable,
    waits: &'l Waits,
}

impl<'l> RowWaits<'l> {
    pub(super) fn new(table: &'l LockTable, waits: &'l Waits) -> Self {
        Self { table, waits }
    }

    /// The sessions that a session waits for because of rows: directly, and through others who wait for rows themselves. Those
    /// through whom it goes on elsewhere are among them.
    pub fn blockers(&self, pid: i32) -> Vec<i32> {
        let mut queue: VecDeque<u64> =
            self.waits.iter().filter(|(_, waiting)| waiting.pid() == pid).map(|(id, _)| *id).collect();
        let mut known: HashSet<u64> = queue.iter().copied().collect();
        let mut found = Vec::new();
        while let Some(id) = queue.pop_front() {
            for next in waits_for_rows(self.table, self.waits, id).0 {
                if known.insert(next.id) {
                    queue.push_back(next.id);
                    if next.pid != 0 {
                        found.push(next.pid);
                    }
                }
            }
        }
        found
    }
}

//! Row locks: who holds a row and how, who waits for it, and who wants to hear of its next change.
//!
//! ```text
//!   Attention   one a region: how many of its rows somebody locks or watches. A writer of a table that nobody has locked
//!               a row of looks at this number and at nothing else
//!   shards      (table, hash of the key) -> who holds the row, who waits in which order, who watches
//!   waits       who waits for which row: one map, because two who wait for each other may wait in different shards
//! ```
//! Used by the key path and by commits, which must not write what somebody else has locked, and by sessions, which lock
//! and wait. Rows carry nothing: a row that nobody has locked has no entry anywhere. A key is known by its hash: should two
//! keys of a table ever share one, they share their locks too, which makes somebody wait and nobody wrong.
//!
//! **What makes a lock hold.** A writer looks at the attention with the partition locked. Whoever has taken a lock passes
//! through that partition's lock before it relies on the row. So a writer that did not see the row lock has finished by
//! then and is read, and one that comes later sees it.
//!
//! Order of the mutexes: partition, then waits, then a shard or a list of [other waits](OtherWaits). Nothing here blocks: to wait is to return a future.

mod deadlock;
mod holder;
mod others;
mod table;
mod watch;

use std::sync::Arc;
use std::time::Instant;

use ashlar_base::{Error, ErrorCode, TableId};

use crate::sync::atomic::{AtomicU32, Ordering};

pub use holder::{LockHolder, LockWait, Way};
pub use others::{OtherLock, OtherLocks, OtherWait, OtherWaits, RowWaits};
pub use table::LockStatistics;
pub(crate) use table::LockTable;
pub(crate) use watch::Sight;
pub use watch::Watch;

/// The strength of a row lock. PostgreSQL has four; each conflicts with everything that the one before it conflicts with, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// FOR KEY SHARE: the row keeps its key and is not deleted.
    KeyShare,
    /// FOR SHARE: the row does not change.
    Share,
    /// FOR NO KEY UPDATE, and UPDATE of columns that are not in the key.
    NoKeyUpdate,
    /// FOR UPDATE, and DELETE.
    Update,
}

impl Strength {
    /// Whether two transactions cannot hold locks of these strengths on one row at the same time: PostgreSQL's manual, table "Conflicting
    /// Row-Level Locks".
    pub fn conflicts(self, other: Self) -> bool {
        self.mask() & other.bit() != 0
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The strengths that it conflicts with, as bits.
    fn mask(self) -> u8 {
        match self {
            Self::KeyShare => 0b1000,
            Self::Share => 0b1100,
            Self::NoKeyUpdate => 0b1110,
            Self::Update => 0b1111,
        }
    }

    /// The clause of SELECT that asks for it.
    pub fn clause(self) -> &'static str {
        match self {
            Self::KeyShare => "FOR KEY SHARE",
            Self::Share => "FOR SHARE",
            Self::NoKeyUpdate => "FOR NO KEY UPDATE",
            Self::Update => "FOR UPDATE",
        }
    }

    /// The mode that PostgreSQL shows for it in `pg_locks`.
    pub fn mode(self) -> &'static str {
        match self {
            Self::KeyShare => "AccessShareLock",
            Self::Share => "RowShareLock",
            Self::NoKeyUpdate => "ExclusiveLock",
            Self::Update => "AccessExclusiveLock",
        }
    }
}

/// An owner of locks, which holds them and waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Unique for the life of the store; 0 is no owner.
    pub(crate) id: u64,
    /// The process number of the session, as its client knows it; 0 for a session of the RESP door.
    pub(crate) pid: i32,
}

impl Owner {
    /// No owner.
    pub(crate) const NOBODY: Self = Self { id: 0, pid: 0 };
}

/// The name of a row in the table of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowId {
    pub(crate) table: TableId,
    pub(crate) hash: u64,
}

/// The rows of one region that are locked or watched.
pub(crate) struct Attention {
    table: TableId,
    /// The number of the region's entries in the shards.
    rows: AtomicU32,
    locks: Arc<LockTable>,
}

impl Attention {
    pub(crate) fn new(table: TableId, locks: &Arc<LockTable>) -> Arc<Self> {
        Arc::new(Self { table, rows: AtomicU32::new(0), locks: Arc::clone(locks) })
    }

    /// Whether a writer must look at the locks. Asked with the partition locked.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.rows.load(Ordering::Relaxed) != 0
    }

    /// How many rows are locked or watched.
    pub(crate) fn rows(&self) -> u32 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The key hashes of these rows.
    pub(crate) fn hashes(&self) -> Vec<u64> {
        self.locks.hashes(self.table)
    }

    pub(crate) fn locks(&self) -> &Arc<LockTable> {
        &self.locks
    }

    fn row(&self, hash: u64) -> RowId {
        RowId { table: self.table, hash }
    }

    /// What the locks of other owners forbid to do with a row.
    pub(crate) fn forbidden(&self, hash: u64, owner: u64) -> Forbidden {
        self.locks.forbidden(self.row(hash), owner)
    }

    /// The request by which a writer waits for a row that another owner has locked.
    pub(crate) fn request(self: &Arc<Self>, hash: u64, strength: Strength) -> LockRequest {
        LockRequest { attention: Arc::clone(self), hash, strength }
    }

    /// The request for any row of the region that another owner has locked.
    pub(crate) fn request_any(self: &Arc<Self>, owner: u64) -> Option<LockRequest> {
        let hash = self.locks.any_held(self.table, owner)?;
        Some(self.request(hash, Strength::Update))
    }

    /// Tells the watchers of a row that it was written. Called with the partition locked.
    #[cold]
    pub(crate) fn touch(&self, hash: u64) {
        self.locks.touch(self.row(hash));
    }

    /// Whether a row may be evicted, which it may not while it is locked. Called with the partition locked.
    #[cold]
    pub(crate) fn lets_go(&self, hash: u64) -> bool {
        self.forbidden(hash, Owner::NOBODY.id) == Forbidden::Nothing
    }

    /// The owners of the region's locks, and those that wait.
    pub(crate) fn list(&self) -> Vec<LockInfo> {
        self.locks.list(self.table)
    }
}

/// What the locks of other owners forbid to do with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Nothing.
    Nothing,
    /// Deleting it.
    Delete,
    /// Writing it.
    Write,
    /// Writing it, because the owner may be changing it or is about to.
    Change,
}

impl Forbidden {
    /// Whether it covers a write.
    pub(crate) fn covers(self, deletes: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Delete => deletes,
            Self::Write | Self::Change => true,
        }
    }
}

/// A request to lock a row.
#[derive(Clone)]
pub struct LockRequest {
    attention: Arc<Attention>,
    hash: u64,
    strength: Strength,
}

impl LockRequest {
    fn row(&self) -> RowId {
        self.attention.row(self.hash)
    }

    /// The order in which several locks are taken, so that two owners never wait for each other.
    pub fn order(&self) -> (TableId, u64) {
        (self.attention.table, self.hash)
    }
}

impl std::fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockRequest({:?} {:?})", self.row(), self.strength)
    }
}

/// A lock, or a request that waits for one, as `pg_locks` shows it.
#[derive(Clone, Debug)]
pub struct LockInfo {
    /// The session's process number; 0 for a session of the RESP door.
    pub pid: i32,
    /// The hash of the row's key: equal for equal rows, and without any other meaning.
    pub row: u64,
    /// Its strength.
    pub strength: Strength,
    /// Since when its owner waits for it; `None` if it is held.
    pub waits_since: Option<Instant>,
}

/// 55P03: a lock stopped a write before it changed anything. Callers that can wait do so and try again; otherwise the client gets this
/// error.
pub(crate) fn stopped() -> Error {
    Error::new(ErrorCode::LockNotAvailable, "could not obtain lock on row: another transaction has locked it")
        .with_hint("retry the statement")
}

#[cfg(test)]
mod tests;

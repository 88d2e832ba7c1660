//! Advisory locks: numbers that sessions of the PostgreSQL door hold, each alone or beside others, and wait for.
//!
//! One table for a server; a session asks through its [`Holder`]. Who waits does so as a future on its connection's thread, in a queue for
//! each number, and gives its place up when the future is dropped. Knows neither statements nor transactions, and of the locks of rows
//! nothing: a circle that goes through both is not seen, and ends by `lock_timeout`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Locks that one session holds at once.
const HELD_MAX: usize = 10_000;

/// What is locked: one number, or a pair of them, which is another space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `pg_advisory_lock(bigint)`
    One(i64),
    /// `pg_advisory_lock(integer, integer)`
    Two(i32, i32),
}

/// How a number is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// Beside others who share it.
    pub is_shared: bool,
    /// Until the end of the transaction, or until it is let go.
    pub of_transaction: bool,
}

/// The locks of a server.
#[derive(Default)]
pub struct AdvisoryLocks {
    table: Mutex<Table>,
    sessions: AtomicU64,
}

#[derive(Default)]
struct Table {
    locks: HashMap<Key, Lock>,
    /// What each session waits for that does.
    waits: HashMap<u64, Key>,
    tickets: u64,
}

/// A number that somebody holds or waits for.
#[derive(Default)]
struct Lock {
    holders: HashMap<u64, Counts>,
    queue: VecDeque<Waiter>,
}

/// How often a session holds a number, by whether it shares it.
#[derive(Clone, Copy, Default)]
struct Counts {
    shared: u32,
    alone: u32,
}

struct Waiter {
    ticket: u64,
    session: u64,
    is_shared: bool,
    granted: oneshot::Sender<()>,
}

impl Lock {
    /// Whether a session may hold it beside the others who do.
    fn fits(&self, session: u64, is_shared: bool) -> bool {
        let mut others = self.holders.iter().filter(|(holder, _)| **holder != session);
        others.all(|(_, counts)| is_shared && counts.alone == 0)
    }

    fn hold(&mut self, session: u64, is_shared: bool) {
        let counts = self.holders.entry(session).or_default();
        if is_shared { counts.shared += 1 } else { counts.alone += 1 }
    }

    fn release(&mut self, session: u64, is_shared: bool) {
        let Some(counts) = self.holders.get_mut(&session) else { return };
        let count = if is_shared { &mut counts.shared } else { &mut counts.alone };
        *count = count.saturating_sub(1);
        if counts.shared == 0 && counts.alone == 0 {
            self.holders.remove(&session);
        }
    }

    /// Whether somebody waits whom a newcomer would overtake. Who holds the number already may: the others wait for him.
    fn is_contended(&self, session: u64, is_shared: bool) -> bool {
        !self.holders.contains_key(&session) && self.queue.iter().any(|waiter| !(is_shared && waiter.is_shared))
    }
}

impl Table {
    /// Gives a number to those at the head of its queue who may have it now.
    fn pass_on(&mut self, key: Key) {
        let Some(lock) = self.locks.get_mut(&key) else { return };
        while let Some(first) = lock.queue.front() {
            if !lock.fits(first.session, first.is_shared) {
                break;
            }
            let Some(waiter) = lock.queue.pop_front() else { break };
            self.waits.remove(&waiter.session);
            lock.hold(waiter.session, waiter.is_shared);
            if waiter.granted.send(()).is_err() {
                // It has gone meanwhile.
                lock.release(waiter.session, waiter.is_shared);
            }
        }
        if lock.holders.is_empty() && lock.queue.is_empty() {
            self.locks.remove(&key);
        }
    }

    fn release(&mut self, key: Key, session: u64, is_shared: bool) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.release(session, is_shared);
        }
        self.pass_on(key);
    }

    /// Those whom a session waits for: who holds what it wants, and who stands before it.
    fn waits_for(&self, session: u64) -> Vec<u64> {
        let Some(lock) = self.waits.get(&session).and_then(|key| self.locks.get(key)) else { return Vec::new() };
        let Some(place) = lock.queue.iter().position(|waiter| waiter.session == session) else { return Vec::new() };
        let is_shared = lock.queue[place].is_shared;
        let holders =
            lock.holders.iter().filter(|(holder, counts)| **holder != session && !(is_shared && counts.alone == 0));
        let before = lock.queue.iter().take(place).map(|waiter| waiter.session);
        holders.map(|(holder, _)| *holder).chain(before).collect()
    }

    /// Whether a session that has begun to wait is waited for by somebody whom it waits for.
    fn is_in_a_circle(&self, session: u64) -> bool {
        let mut known = HashSet::new();
        let mut steps = self.waits_for(session);
        while let Some(next) = steps.pop() {
            if next == session {
                return true;
            }
            if known.insert(next) {
                steps.extend(self.waits_for(next));
            }
        }
        false
    }
}

impl AdvisoryLocks {
    /// Somebody who may hold locks.
    pub fn holder(&self) -> Holder {
        Holder { session: self.sessions.fetch_add(1, Ordering::Relaxed), held: HashMap::new(), transaction: Vec::new() }
    }
}

/// What a session holds. Its owner lets everything go before it drops this.
pub struct Holder {
    session: u64,
    /// Those that it holds until it lets them go, each so often.
    held: HashMap<(Key, bool), u32>,
    /// Those that it holds until the transaction ends, in the order in which it got them.
    transaction: Vec<(Key, bool)>,
}

impl Holder {
    /// Locks a number without waiting; false where somebody else has it.
    ///
    /// # Errors
    /// 53200 beyond what a session may hold.
    pub fn try_lock(&mut self, locks: &AdvisoryLocks, key: Key, mode: Mode) -> Result<bool> {
        self.check_room()?;
        let mut table = locks.table.lock();
        let lock = table.locks.entry(key).or_default();
        if lock.is_contended(self.session, mode.is_shared) || !lock.fits(self.session, mode.is_shared) {
            return Ok(false);
        }
        lock.hold(self.session, mode.is_shared);
        drop(table);
        self.note(key, mode);
        Ok(true)
    }

    /// Locks a number, after all who have it in a way that does not allow that, or wait for it.
    ///
    /// # Errors
    /// 40P01 where somebody whom it waits for waits for it; 53200 beyond what a session may hold.
    pub async fn lock(&mut self, locks: &AdvisoryLocks, key: Key, mode: Mode) -> Result<()> {
        if self.try_lock(locks, key, mode)? {
            return Ok(());
        }
        let (granted, grant) = oneshot::channel();
        let ticket = {
            let mut table = locks.table.lock();
            table.tickets += 1;
            let ticket = table.tickets;
            table.waits.insert(self.session, key);
            let lock = table.locks.entry(key).or_default();
            let waiter = Waiter { ticket, session: self.session, is_shared: mode.is_shared, granted };
            // Who has it already is waited for by the others.
            if lock.holders.contains_key(&self.session) {
                lock.queue.push_front(waiter);
            } else {
                lock.queue.push_back(waiter);
            }
            // Whoever had it may have let it go in between.
            table.pass_on(key);
            if table.is_in_a_circle(self.session) {
                table.leave(key, self.session, ticket);
                return Err(Error::new(ErrorCode::DeadlockDetected, "deadlock detected"));
            }
            ticket
        };
        let (session, is_shared) = (self.session, mode.is_shared);
        let mut place = Place { locks, key, session, ticket, is_shared, grant, is_taken: false };
        (&mut place.grant).await.map_err(|_| Error::internal("a lock was given to nobody"))?;
        place.is_taken = true;
        self.note(key, mode);
        Ok(())
    }

    /// Lets a number go that is locked until then; false where it is not.
    pub fn unlock(&mut self, locks: &AdvisoryLocks, key: Key, is_shared: bool) -> bool {
        let Some(count) = self.held.get_mut(&(key, is_shared)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.held.remove(&(key, is_shared));
        }
        locks.table.lock().release(key, self.session, is_shared);
        true
    }

    /// Lets all go that are locked until then.
    pub fn unlock_all(&mut self, locks: &AdvisoryLocks) {
        if self.held.is_empty() {
            return;
        }
        let mut table = locks.table.lock();
        for ((key, is_shared), count) in self.held.drain() {
            for _ in 0..count {
                table.release(key, self.session, is_shared);
            }
        }
    }

    /// How many the transaction has: [`Self::end_transaction`] goes back to so many.
    pub fn mark(&self) -> usize {
        self.transaction.len()
    }

    /// Lets those of the transaction go that it has got since there were so many.
    pub fn end_transaction(&mut self, locks: &AdvisoryLocks, left: usize) {
        if self.transaction.len() <= left {
            return;
        }
        let mut table = locks.table.lock();
        for (key, is_shared) in self.transaction.drain(left..) {
            table.release(key, self.session, is_shared);
        }
    }

    fn check_room(&self) -> Result<()> {
        if self.held.len() + self.transaction.len() < HELD_MAX {
            return Ok(());
        }
        Err(Error::new(ErrorCode::OutOfMemory, "out of shared memory")
            .with_hint(format!("A session holds at most {HELD_MAX} advisory locks.")))
    }

    fn note(&mut self, key: Key, mode: Mode) {
        if mode.of_transaction {
            self.transaction.push((key, mode.is_shared));
        } else {
            *self.held.entry((key, mode.is_shared)).or_default() += 1;
        }
    }
}

impl Table {
    /// Takes somebody out of a queue, or what it was given back.
    fn leave(&mut self, key: Key, session: u64, ticket: u64) {
        let Some(lock) = self.locks.get_mut(&key) else { return };
        if let Some(place) = lock.queue.iter().position(|waiter| waiter.ticket == ticket) {
            lock.queue.remove(place);
            self.waits.remove(&session);
        }
        self.pass_on(key);
    }
}

/// A place in a queue, given up when it is dropped.
struct Place<'l> {
    locks: &'l AdvisoryLocks,
    key: Key,
    session: u64,
    ticket: u64,
    is_shared: bool,
    grant: oneshot::Receiver<()>,
    /// The lock is the session's.
    is_taken: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let mut table = self.locks.table.lock();
        // What was given and not taken.
        if self.grant.try_recv().is_ok() {
            table.release(self.key, self.session, self.is_shared);
        } else {
            table.leave(self.key, self.session, self.ticket);
        }
    }
}

#[cfg(test)]
mod tests;

//! Advisory locks: numbers that sessions of the PostgreSQL door lock, exclusively or shared.
//!
//! One table for a server; a session uses it through its [`Holder`]. A session waits as a future on its connection's
//! thread, in a queue for each number, and leaves the queue when the future is dropped. Knows neither statements nor
//! transactions. A session is known by its process number, as in the store's waits for rows: whoever begins to wait, here or there,
//! has the store look for a circle that may go through both.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use ashlar_base::{Error, ErrorCode, Result, clock};
use ashlar_store::{OtherLock, OtherWait, OtherWaits, Store};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Advisory locks that one session may hold at once.
const HELD_MAX: usize = 10_000;

/// The number that is locked: a bigint, or a pair of integers, which never equals a bigint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `pg_advisory_lock(bigint)`
    One(i64),
    /// `pg_advisory_lock(integer, integer)`
    Two(i32, i32),
}

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// Whether other sessions may hold the number in the same mode.
    pub is_shared: bool,
    /// Whether the lock ends with the transaction; otherwise it is held until it is unlocked.
    pub of_transaction: bool,
}

/// The locks of a server.
#[derive(Default)]
pub struct AdvisoryLocks {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    locks: HashMap<Key, Lock>,
    /// For each waiting session, the number that it waits for.
    waits: HashMap<i32, Key>,
    tickets: u64,
}

/// A number that sessions hold or wait for.
#[derive(Default)]
struct Lock {
    holders: HashMap<i32, Counts>,
    queue: VecDeque<Waiter>,
}

/// How often a session holds a number, in each mode.
#[derive(Clone, Copy, Default)]
struct Counts {
    shared: u32,
    alone: u32,
}

struct Waiter {
    ticket: u64,
    session: i32,
    is_shared: bool,
    since: Instant,
    granted: oneshot::Sender<()>,
}

impl Key {
    /// The three numbers by which PostgreSQL tells it.
    fn object(self) -> (u32, u32, i16) {
        let halves = |number: i64| {
            let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
        };
        match self {
            Self::One(number) => {
                let (high, low) = halves(number);
                (high, low, 1)
            }
            Self::Two(first, second) => (first.cast_unsigned(), second.cast_unsigned(), 2),
        }
    }
}

impl Waiter {
    fn told(&self, key: Key) -> OtherLock {
        let (pid, is_shared) = (self.session, self.is_shared);
        OtherLock { pid, object: key.object(), is_shared, waits_since: Some(self.since) }
    }
}

impl Lock {
    /// Whether a session may hold the number beside its other holders.
    fn fits(&self, session: i32, is_shared: bool) -> bool {
        let mut others = self.holders.iter().filter(|(holder, _)| **holder != session);
        others.all(|(_, counts)| is_shared && counts.alone == 0)
    }

    fn hold(&mut self, session: i32, is_shared: bool) {
        let counts = self.holders.entry(session).or_default();
        if is_shared { counts.shared += 1 } else { counts.alone += 1 }
    }

    fn release(&mut self, session: i32, is_shared: bool) {
        let Some(counts) = self.holders.get_mut(&session) else { return };
        let count = if is_shared { &mut counts.shared } else { &mut counts.alone };
        *count = count.saturating_sub(1);
        if counts.shared == 0 && counts.alone == 0 {
            self.holders.remove(&session);
        }
    }

    /// Whether a newcomer would overtake a waiting session. A session that already holds the number may, because the waiting ones wait
    /// for it.
    fn is_contended(&self, session: i32, is_shared: bool) -> bool {
        !self.holders.contains_key(&session) && self.queue.iter().any(|waiter| !(is_shared && waiter.is_shared))
    }
}

impl Table {
    /// Gives a number to the sessions at the head of its queue that may have it now.
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

    fn release(&mut self, key: Key, session: i32, is_shared: bool) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.release(session, is_shared);
        }
        self.pass_on(key);
    }

    /// What a session waits for: that those before it in the queue go on, and the holders of the number. Who waits behind somebody that
    /// does not share waits for those who share, too.
    fn wait_of(&self, session: i32) -> Option<OtherWait> {
        let key = self.waits.get(&session)?;
        let lock = self.locks.get(key)?;
        let place = lock.queue.iter().position(|waiter| waiter.session == session)?;
        let share = lock.queue.iter().take(place + 1).all(|waiter| waiter.is_shared);
        let holders =
            lock.holders.iter().filter(|(holder, counts)| **holder != session && !(share && counts.alone == 0));
        let before = lock.queue.iter().take(place).map(|waiter| waiter.session);
        let pids = before.chain(holders.map(|(holder, _)| *holder)).collect();
        let mode = lock.queue[place].told(*key).mode();
        let (class, object, part) = key.object();
        // As PostgreSQL writes it, with 0 for the database: there is one.
        let what = format!("{mode} on advisory lock [0,{class},{object},{part}]");
        Some(OtherWait { what, pids, ahead: place })
    }
}

impl AdvisoryLocks {
    /// Puts a session into the queue of a number that others hold, and gives the ticket of its place.
    fn enter(&self, key: Key, session: i32, is_shared: bool, granted: oneshot::Sender<()>) -> u64 {
        let mut table = self.table.lock();
        table.tickets += 1;
        let ticket = table.tickets;
        table.waits.insert(session, key);
        let lock = table.locks.entry(key).or_default();
        let waiter = Waiter { ticket, session, is_shared, since: clock::monotonic(), granted };
        // Who has it already is waited for by the others.
        if lock.holders.contains_key(&session) {
            lock.queue.push_front(waiter);
        } else {
            lock.queue.push_back(waiter);
        }
        // Whoever had it may have let it go in between.
        table.pass_on(key);
        ticket
    }
}

impl OtherWaits for AdvisoryLocks {
    fn wait_of(&self, pid: i32) -> Option<OtherWait> {
        self.table.lock().wait_of(pid)
    }

    fn list(&self) -> Vec<OtherLock> {
        let table = self.table.lock();
        let mut list = Vec::new();
        for (key, lock) in &table.locks {
            for (&pid, counts) in &lock.holders {
                let held = |is_shared| OtherLock { pid, object: key.object(), is_shared, waits_since: None };
                list.extend((counts.shared > 0).then(|| held(true)));
                list.extend((counts.alone > 0).then(|| held(false)));
            }
            list.extend(lock.queue.iter().map(|waiter| waiter.told(*key)));
        }
        list
    }
}

/// The advisory locks of one session. The session releases them all before it drops this.
pub struct Holder {
    /// Its process number.
    session: i32,
    /// The locks that are held until they are unlocked, with the number of times.
    held: HashMap<(Key, bool), u32>,
    /// The locks that are held until the transaction ends, in the order in which they were taken.
    transaction: Vec<(Key, bool)>,
}

impl Holder {
    /// A holder for the session with this number, which no other session has.
    pub fn new(session: i32) -> Self {
        Self { session, held: HashMap::new(), transaction: Vec::new() }
    }

    /// Locks a number without waiting; false if another session has it.
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

    /// Locks a number, after all sessions that hold it in a conflicting mode or wait for it.
    ///
    /// # Errors
    /// 40P01 if that would close a cycle of waiting sessions; 53200 beyond what a session may hold.
    pub async fn lock(&mut self, locks: &AdvisoryLocks, store: &Store, key: Key, mode: Mode) -> Result<()> {
        if self.try_lock(locks, key, mode)? {
            return Ok(());
        }
        let (granted, grant) = oneshot::channel();
        let ticket = store.among_row_waits(|rows| {
            let ticket = locks.enter(key, self.session, mode.is_shared, granted);
            // The table is not locked meanwhile, for the search asks it; nobody begins to wait before it is done.
            match rows.deadlock(self.session, locks) {
                Some(error) if locks.table.lock().leave(key, self.session, ticket) => Err(error),
                // Or it was given the lock meanwhile, because another one of the circle was told to wait no more.
                _ => Ok(ticket),
            }
        })?;
        let (session, is_shared) = (self.session, mode.is_shared);
        let mut place = Place { locks, key, session, ticket, is_shared, grant, is_taken: false };
        (&mut place.grant).await.map_err(|_| Error::internal("a lock was given to nobody"))?;
        place.is_taken = true;
        self.note(key, mode);
        Ok(())
    }

    /// Unlocks a number that is held until it is unlocked; false if it is not held.
    pub fn unlock(&mut self, locks: &AdvisoryLocks, key: Key, is_shared: bool) -> bool {
        let Some(count) = self.held.get_mut(&(key, is_shared)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.held.remove(&(key, is_shared));
        }
        locks.table.lock().release(key, self.session, is_shared);
        true
    }

    /// Unlocks all numbers that are held until they are unlocked.
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

    /// The number of locks that the transaction holds: a mark for [`Self::end_transaction`].
    pub fn mark(&self) -> usize {
        self.transaction.len()
    }

    /// Whether the session holds none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.transaction.is_empty()
    }

    /// Releases the locks that the transaction has taken since it had `left`.
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
    /// Removes a session from a queue; false if it stands there no more.
    fn leave(&mut self, key: Key, session: i32, ticket: u64) -> bool {
        let Some(lock) = self.locks.get_mut(&key) else { return false };
        let Some(place) = lock.queue.iter().position(|waiter| waiter.ticket == ticket) else { return false };
        lock.queue.remove(place);
        self.waits.remove(&session);
        self.pass_on(key);
        true
    }
}

/// A place in a queue. Dropping it leaves the queue.
struct Place<'l> {
    locks: &'l AdvisoryLocks,
    key: Key,
    session: i32,
    ticket: u64,
    is_shared: bool,
    grant: oneshot::Receiver<()>,
    /// Whether the session has the lock.
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

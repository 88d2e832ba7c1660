//! The table of locks: entries in shards, and the one map of waiting owners.
//!
//! Called by holders, writers and watches. An operation on a lock that nobody waits for locks one shard. Beginning to
//! wait, ceasing to wait, and releasing a lock that others wait for take the mutex of the map of waits first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

use ashlar_base::{Error, TableId, clock};
use foldhash::fast::RandomState;

use super::deadlock::Graph;
use super::others::{OtherWaits, RowWaits};
use super::{Attention, Forbidden, LockInfo, LockRequest, Owner, RowId, Strength};
use crate::memory::{Account, Total};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Shards: a power of two.
const SHARDS: usize = 64;

/// Entries of a shard.
pub(super) type Rows = HashMap<RowId, Row, RandomState>;

/// A shard, on a cache line of its own.
#[repr(align(64))]
struct Shard(Mutex<Rows>);

/// See the module.
pub(crate) struct LockTable {
    shards: Box<[Shard]>,
    waits: Mutex<Waits>,
    /// Where sessions wait for something else than rows.
    others: OnceLock<Arc<dyn OtherWaits>>,
    owners: AtomicU64,
    account: Arc<Account>,
    /// Rows in the shards.
    entries: AtomicU32,
    begun: AtomicU64,
    deadlocks: AtomicU64,
    abandoned: AtomicU64,
    waited_micros: AtomicU64,
}

/// Who waits, by owner: each for one row.
pub(super) type Waits = HashMap<u64, Waiting, RandomState>;

/// One who waits.
pub(super) struct Waiting {
    pub(super) request: LockRequest,
    pid: i32,
    waker: Waker,
    since: Instant,
    /// It has the lock, and what it had before.
    granted: Option<Option<Strength>>,
}

impl Waiting {
    /// Whether it waits still.
    pub(super) fn is_queued(&self) -> bool {
        self.granted.is_none()
    }

    /// The process number of who waits; 0 for a session of the RESP door.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }
}

/// One owner's lock of a row, or its place in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) owner: Owner,
    pub(super) strength: Strength,
    /// In the queue: wants to find the row free, and not to have it.
    passes: bool,
}

/// A row that somebody locks or watches. Nearly always one does, and that takes no memory beside the entry.
#[derive(Default)]
pub(super) struct Row {
    first: Option<Held>,
    rest: Option<Box<Rest>>,
}

#[derive(Default)]
struct Rest {
    others: Vec<Held>,
    queue: VecDeque<Held>,
    watchers: Vec<Arc<AtomicBool>>,
}

// A transaction that changes many rows has one for each.
const _: () = assert!(size_of::<(RowId, Row)>() <= 48);

impl Row {
    /// Who holds it.
    pub(super) fn holders(&self) -> impl Iterator<Item = Held> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| &rest.others)).copied()
    }

    /// Who waits, the first first.
    pub(super) fn queue(&self) -> impl Iterator<Item = Held> {
        self.rest.iter().flat_map(|rest| &rest.queue).copied()
    }

    fn has_queue(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| !rest.queue.is_empty())
    }

    fn is_empty(&self) -> bool {
        let is_idle = |rest: &Rest| rest.others.is_empty() && rest.queue.is_empty() && rest.watchers.is_empty();
        self.first.is_none() && self.rest.as_deref().is_none_or(is_idle)
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// How an owner holds it.
    fn held_by(&self, owner: u64) -> Option<Strength> {
        self.holders().find(|held| held.owner.id == owner).map(|held| held.strength)
    }

    /// The bits of the ways in which others hold it.
    fn others(&self, owner: u64) -> u8 {
        let others = self.holders().filter(|held| held.owner.id != owner);
        others.fold(0, |bits, held| bits | held.strength.bit())
    }

    /// Lets an owner hold it so, or not at all.
    fn set(&mut self, owner: Owner, strength: Option<Strength>) {
        let others = || self.rest.as_ref().map_or(&[][..], |rest| &rest.others);
        let in_others = others().iter().position(|held| held.owner.id == owner.id);
        let is_first = self.first.is_some_and(|held| held.owner.id == owner.id);
        match (strength, in_others) {
            (Some(strength), _) if is_first || self.first.is_none() && in_others.is_none() => {
                self.first = Some(Held { owner, strength, passes: false });
            }
            (Some(strength), Some(place)) => self.rest().others[place].strength = strength,
            (Some(strength), None) => self.rest().others.push(Held { owner, strength, passes: false }),
            (None, _) if is_first => self.first = None,
            (None, Some(place)) => {
                self.rest().others.swap_remove(place);
            }
            (None, None) => {}
        }
    }

    /// Takes it, unless somebody else has it or is to have it first: what the owner had before.
    fn take(&mut self, owner: Owner, strength: Strength) -> Option<Option<Strength>> {
        let own = self.held_by(owner.id);
        if own >= Some(strength) {
            return Some(own);
        }
        let waits = own.is_none() && self.queue().any(|queued| queued.strength.conflicts(strength));
        if waits || self.others(owner.id) & strength.mask() != 0 {
            return None;
        }
        self.set(owner, Some(strength));
        Some(own)
    }

    /// Lets those have it whose turn it is. Nobody overtakes one whom it would hold up, but who holds the row already.
    fn grant(&mut self, waits: &mut Waits, woken: &mut Vec<Waker>) {
        let (mut place, mut ahead) = (0, 0);
        while let Some(queued) = self.rest.as_ref().and_then(|rest| rest.queue.get(place).copied()) {
            let own = self.held_by(queued.owner.id);
            let is_free = self.others(queued.owner.id) & queued.strength.mask() == 0;
            if is_free && (own.is_some() || ahead & queued.strength.mask() == 0) {
                self.rest().queue.remove(place);
                if !queued.passes {
                    self.set(queued.owner, Some(queued.strength));
                }
                if let Some(waiting) = waits.get_mut(&queued.owner.id) {
                    waiting.granted = Some(own);
                    woken.push(waiting.waker.clone());
                }
                continue;
            }
            ahead |= queued.strength.bit();
            if ahead & Strength::Update.bit() != 0 && !is_free {
                // Whoever comes behind waits for this one, but for those who only want more of what they have; they stand
                // in front.
                break;
            }
            place += 1;
        }
    }
}

/// What became of a wish for a lock.
pub(super) enum Wished {
    /// It is held now; how it was before.
    Granted(Option<Strength>),
    /// It will be; the waker is called.
    Queued,
}

/// What the locks of a store are doing, since its start where it is a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStatistics {
    /// Rows that are locked or watched.
    pub rows: u64,
    /// Owners that wait.
    pub waiting: u64,
    /// Waits that have begun.
    pub waits: u64,
    /// Waits that ended without the lock: a timeout, a cancel request, a client that left.
    pub abandoned: u64,
    /// Waits that would have been for ever, for something else than rows too.
    pub deadlocks: u64,
    /// Microseconds that were waited, of waits that have ended.
    pub waited_micros: u64,
}

impl LockTable {
    pub(crate) fn new(total: &Arc<Total>) -> Arc<Self> {
        let hasher = RandomState::default();
        let shard = |_| Shard(Mutex::new(HashMap::with_hasher(hasher.clone())));
        let account = Account::of_statement(total);
        account.take_kept(true);
        Arc::new(Self {
            shards: (0..SHARDS).map(shard).collect(),
            waits: Mutex::default(),
            others: OnceLock::new(),
            owners: AtomicU64::new(0),
            account,
            entries: AtomicU32::new(0),
            begun: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            waited_micros: AtomicU64::new(0),
        })
    }

    /// Rows that are locked or watched.
    pub(crate) fn entries(&self) -> u32 {
        self.entries.load(Ordering::Relaxed)
    }

    /// What locks are charged to.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// See [`Store::set_other_waits`](crate::Store::set_other_waits).
    pub(crate) fn set_other_waits(&self, others: Arc<dyn OtherWaits>) {
        // Whoever came first stays.
        let _ = self.others.set(others);
    }

    /// The list of other waits, if there is one.
    pub(super) fn others(&self) -> Option<&dyn OtherWaits> {
        self.others.get().map(Arc::as_ref)
    }

    /// See [`Store::among_row_waits`](crate::Store::among_row_waits).
    pub(crate) fn among_waits<R>(&self, work: impl FnOnce(&RowWaits<'_>) -> R) -> R {
        let waits = self.waits.lock();
        work(&RowWaits::new(self, &waits))
    }

    pub(super) fn next_owner(&self, pid: i32) -> Owner {
        Owner { id: self.owners.fetch_add(1, Ordering::Relaxed) + 1, pid }
    }

    pub(super) fn shard(&self, row: RowId) -> MutexGuard<'_, Rows> {
        self.shards[row.hash as usize % SHARDS].0.lock()
    }

    /// The entry of a row, made if need be.
    fn entry<'r>(rows: &'r mut Rows, attention: &Attention, hash: u64) -> &'r mut Row {
        match rows.entry(attention.row(hash)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                attention.rows.fetch_add(1, Ordering::SeqCst);
                attention.locks.entries.fetch_add(1, Ordering::Relaxed);
                entry.insert(Row::default())
            }
        }
    }

    /// Forgets a row that nobody locks or watches any more.
    fn sweep(rows: &mut Rows, attention: &Attention, hash: u64) {
        if rows.get(&attention.row(hash)).is_some_and(Row::is_empty) {
            rows.remove(&attention.row(hash));
            attention.rows.fetch_sub(1, Ordering::SeqCst);
            attention.locks.entries.fetch_sub(1, Ordering::Relaxed);
            if rows.is_empty() && rows.capacity() > 64 {
                rows.shrink_to_fit();
            }
        }
    }

    /// Takes a lock if it is free: how the owner held it before. `None`: somebody else has it.
    pub(super) fn take(&self, request: &LockRequest, owner: Owner) -> Option<Option<Strength>> {
        let mut rows = self.shard(request.row());
        // A row that is refused is there already: nothing to sweep.
        Self::entry(&mut rows, &request.attention, request.hash).take(owner, request.strength)
    }

    /// Takes a lock, or enters the queue: with `passes` to be told when the row is free, and not to take it.
    ///
    /// # Errors
    /// 40P01: somebody in front of it waits for this owner.
    pub(super) fn wish(
        &self,
        request: &LockRequest,
        owner: Owner,
        passes: bool,
        waker: &Waker,
    ) -> Result<Wished, Error> {
        let mut waits = self.waits.lock();
        {
            let mut rows = self.shard(request.row());
            let row = Self::entry(&mut rows, &request.attention, request.hash);
            if let Some(before) = row.take(owner, request.strength) {
                if passes {
                    row.set(owner, before);
                    Self::sweep(&mut rows, &request.attention, request.hash);
                }
                return Ok(Wished::Granted(before));
            }
            let queued = Held { owner, strength: request.strength, passes };
            // Who has the row and wants more of it is in everybody's way already.
            match row.held_by(owner.id) {
                Some(_) => row.rest().queue.push_front(queued),
                None => row.rest().queue.push_back(queued),
            }
        }
        let since = clock::monotonic();
        let waiting = Waiting { request: request.clone(), pid: owner.pid, waker: waker.clone(), since, granted: None };
        waits.insert(owner.id, waiting);
        self.begun.fetch_add(1, Ordering::Relaxed);
        let Some(error) = Graph::new(self, &waits, self.others()).deadlock(owner) else { return Ok(Wished::Queued) };
        self.count_deadlock();
        let woken = self.leave(&mut waits, owner);
        drop(waits);
        woken.into_iter().for_each(Waker::wake);
        Err(error)
    }

    /// Looks whether an owner that waits has its lock by now, and how it held it before.
    pub(super) fn ask(&self, owner: Owner, waker: &Waker) -> Option<Option<Strength>> {
        let mut waits = self.waits.lock();
        let waiting = waits.get_mut(&owner.id)?;
        let Some(before) = waiting.granted else {
            waiting.waker.clone_from(waker);
            return None;
        };
        self.count_end(waiting);
        waits.remove(&owner.id);
        Some(before)
    }

    /// An owner does not wait any more, and does not want what it may have been given meanwhile.
    pub(super) fn abandon(&self, owner: Owner) {
        let mut waits = self.waits.lock();
        let woken = self.leave(&mut waits, owner);
        self.abandoned.fetch_add(1, Ordering::Relaxed);
        drop(waits);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Who is to be woken.
    fn leave(&self, waits: &mut Waits, owner: Owner) -> Vec<Waker> {
        let mut woken = Vec::new();
        let Some(waiting) = waits.remove(&owner.id) else { return woken };
        self.count_end(&waiting);
        let request = &waiting.request;
        let mut rows = self.shard(request.row());
        if let Some(row) = rows.get_mut(&request.row()) {
            match waiting.granted {
                // What it has not taken it need not give back.
                Some(before) => row.set(owner, before),
                None => row.rest().queue.retain(|queued| queued.owner != owner),
            }
            row.grant(waits, &mut woken);
        }
        Self::sweep(&mut rows, &request.attention, request.hash);
        woken
    }

    pub(super) fn count_deadlock(&self) {
        self.deadlocks.fetch_add(1, Ordering::Relaxed);
    }

    fn count_end(&self, waiting: &Waiting) {
        let waited = clock::monotonic().saturating_duration_since(waiting.since);
        self.waited_micros.fetch_add(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// An owner holds a row as it did before, or not any more.
    pub(super) fn give_back(&self, attention: &Attention, hash: u64, owner: Owner, before: Option<Strength>) {
        let row = attention.row(hash);
        {
            let mut rows = self.shard(row);
            let Some(found) = rows.get_mut(&row) else { return };
            if !found.has_queue() {
                found.set(owner, before);
                Self::sweep(&mut rows, attention, hash);
                return;
            }
        }
        let mut woken = Vec::new();
        {
            let mut waits = self.waits.lock();
            let mut rows = self.shard(row);
            if let Some(found) = rows.get_mut(&row) {
                found.set(owner, before);
                found.grant(&mut waits, &mut woken);
            }
            Self::sweep(&mut rows, attention, hash);
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// See [`Attention::forbidden`].
    pub(super) fn forbidden(&self, row: RowId, owner: u64) -> Forbidden {
        let others = self.shard(row).get(&row).map_or(0, |row| row.others(owner));
        if others & (Strength::NoKeyUpdate.bit() | Strength::Update.bit()) != 0 {
            Forbidden::Change
        } else if others & Strength::NoKeyUpdate.mask() != 0 {
            Forbidden::Write
        } else if others != 0 {
            Forbidden::Delete
        } else {
            Forbidden::Nothing
        }
    }

    /// The hash of a row of a table that somebody else has locked.
    pub(super) fn any_held(&self, table: TableId, owner: u64) -> Option<u64> {
        self.shards.iter().find_map(|shard| {
            let rows = shard.0.lock();
            rows.iter().find(|(id, row)| id.table == table && row.others(owner) != 0).map(|(id, _)| id.hash)
        })
    }

    /// The hashes of the keys of a table's rows that are locked or watched.
    pub(super) fn hashes(&self, table: TableId) -> Vec<u64> {
        let mut hashes = Vec::new();
        for shard in &self.shards {
            hashes.extend(shard.0.lock().keys().filter(|id| id.table == table).map(|id| id.hash));
        }
        hashes
    }

    pub(super) fn watch(&self, attention: &Attention, hash: u64, flag: &Arc<AtomicBool>) {
        let mut rows = self.shard(attention.row(hash));
        Self::entry(&mut rows, attention, hash).rest().watchers.push(Arc::clone(flag));
    }

    pub(super) fn unwatch(&self, attention: &Attention, hash: u64, flag: &Arc<AtomicBool>) {
        let mut rows = self.shard(attention.row(hash));
        if let Some(row) = rows.get_mut(&attention.row(hash)) {
            row.rest().watchers.retain(|known| !Arc::ptr_eq(known, flag));
        }
        Self::sweep(&mut rows, attention, hash);
    }

    /// See [`Attention::touch`].
    pub(super) fn touch(&self, row: RowId) {
        if let Some(row) = self.shard(row).get(&row) {
            row.tell();
        }
    }

    /// See [`Attention::list`].
    pub(super) fn list(&self, table: TableId) -> Vec<LockInfo> {
        let waits = self.waits.lock();
        let mut list = Vec::new();
        for shard in &self.shards {
            let rows = shard.0.lock();
            for (id, row) in rows.iter().filter(|(id, _)| id.table == table) {
                let info = |held: Held, waits_since: Option<Instant>| LockInfo {
                    pid: held.owner.pid,
                    row: id.hash,
                    strength: held.strength,
                    waits_since,
                };
                list.extend(row.holders().map(|held| info(held, None)));
                let since = |queued: &Held| waits.get(&queued.owner.id).map(|waiting| waiting.since);
                list.extend(row.queue().map(|queued| info(queued, since(&queued))));
            }
        }
        list
    }

    /// What the locks are doing.
    pub(crate) fn statistics(&self) -> LockStatistics {
        LockStatistics {
            rows: self.shards.iter().map(|shard| shard.0.lock().len() as u64).sum(),
            waiting: self.waits.lock().values().filter(|waiting| waiting.is_queued()).count() as u64,
            waits: self.begun.load(Ordering::Relaxed),
            abandoned: self.abandoned.load(Ordering::Relaxed),
            deadlocks: self.deadlocks.load(Ordering::Relaxed),
            waited_micros: self.waited_micros.load(Ordering::Relaxed),
        }
    }
}

impl Row {
    /// Tells whoever watches.
    fn tell(&self) {
        for watcher in self.rest.iter().flat_map(|rest| &rest.watchers) {
            watcher.store(true, Ordering::Release);
        }
    }
}

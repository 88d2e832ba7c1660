//! The locks of one owner, in the order in which it took them, and the lock that it waits for.
//!
//! Owned by a transaction, or by a write that goes straight to its partition and has found a lock there. Dropping it
//! releases all locks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ashlar_base::{Datum, Result};

use super::table::{LockTable, Wished};
use super::{Attention, LockRequest, Owner, Strength};
use crate::memory::Charge;
use crate::region::Region;

/// The size of a lock in bytes: its place in the holder's list, and its entry in the table with the empty places beside it.
const LOCK_BYTES: usize = size_of::<Taken>() + 2 * 48;

/// See the module.
pub struct LockHolder {
    table: Arc<LockTable>,
    owner: Owner,
    taken: Vec<Taken>,
    charge: Charge,
}

/// A lock that was taken or strengthened.
struct Taken {
    attention: Arc<Attention>,
    hash: u64,
    /// The strength with which it was held before.
    before: Option<Strength>,
}

impl LockHolder {
    /// A holder without locks, for the session with this number; 0 for a session of the RESP door.
    pub fn new(region: &Region, pid: i32) -> Self {
        Self::of(region.attention().locks(), pid)
    }

    /// A holder that is to wait for this request.
    pub fn for_request(request: &LockRequest, pid: i32) -> Self {
        Self::of(request.attention.locks(), pid)
    }

    fn of(table: &Arc<LockTable>, pid: i32) -> Self {
        let charge = Charge::empty(table.account());
        Self { table: Arc::clone(table), owner: table.next_owner(pid), taken: Vec::new(), charge }
    }

    /// The owner's id, for [`WriteSet::set_owner`](crate::WriteSet::set_owner).
    pub fn id(&self) -> u64 {
        self.owner.id
    }

    /// The number of locks that were taken or strengthened.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Locks the row of a key, whether or not the row exists, unless another owner has locked it: then returns the request to wait for.
    /// Read the row after this, not before.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub fn lock(&mut self, region: &Region, key: &[Datum<'_>], strength: Strength) -> Result<Option<LockRequest>> {
        // No row can have another key, so there is nothing to lock.
        let Some(place) = region.place_of(key) else { return Ok(None) };
        let request = region.attention().request(place.hash, strength);
        self.reserve()?;
        match self.table.take(&request, self.owner) {
            Some(before) => {
                self.note(&request, before);
                Ok(None)
            }
            None => Ok(Some(request)),
        }
    }

    /// Resolves when the lock is taken.
    ///
    /// # Errors
    /// 40P01 on a deadlock; 53200 over the memory bound.
    pub fn wait<'h>(&'h mut self, request: &LockRequest) -> LockWait<'h> {
        LockWait { holder: self, request: request.clone(), passes: false, is_queued: false }
    }

    /// Resolves when the row is free for such a lock, but does not take it: single writes that held locks would delay each other without
    /// end.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn pass<'h>(&'h mut self, request: &LockRequest) -> LockWait<'h> {
        LockWait { holder: self, request: request.clone(), passes: true, is_queued: false }
    }

    /// Charges one more lock.
    fn reserve(&mut self) -> Result<()> {
        if self.taken.len() == self.taken.capacity() {
            let more = (self.taken.len() / 2).max(4);
            self.charge.try_resize((self.taken.len() + more) * LOCK_BYTES)?;
            self.taken.reserve_exact(more);
        }
        Ok(())
    }

    fn note(&mut self, request: &LockRequest, before: Option<Strength>) {
        if before < Some(request.strength) {
            self.taken.push(Taken { attention: Arc::clone(&request.attention), hash: request.hash, before });
        }
    }

    /// Releases all locks but the first `len`.
    pub fn release_to(&mut self, len: usize) {
        while self.taken.len() > len {
            let Some(taken) = self.taken.pop() else { break };
            self.table.give_back(&taken.attention, taken.hash, self.owner, taken.before);
        }
        if self.taken.is_empty() {
            self.taken = Vec::new();
            self.charge.resize(0);
        }
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        self.release_to(0);
    }
}

impl std::fmt::Debug for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockHolder({} of {}, {} locks)", self.owner.id, self.owner.pid, self.taken.len())
    }
}

/// See [`LockHolder::wait`]. Leaves the queue when it is dropped.
#[must_use = "a future does nothing unless it is polled"]
pub struct LockWait<'h> {
    holder: &'h mut LockHolder,
    request: LockRequest,
    passes: bool,
    is_queued: bool,
}

impl Future for LockWait<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let granted = if this.is_queued {
            this.holder.table.ask(this.holder.owner, context.waker())
        } else {
            if let Err(error) = this.holder.reserve() {
                return Poll::Ready(Err(error));
            }
            match this.holder.table.wish(&this.request, this.holder.owner, this.passes, context.waker()) {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(Wished::Granted(before)) => Some(before),
                Ok(Wished::Queued) => {
                    this.is_queued = true;
                    None
                }
            }
        };
        match granted {
            Some(before) => {
                this.is_queued = false;
                if !this.passes {
                    this.holder.note(&this.request, before);
                }
                Poll::Ready(Ok(()))
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        if self.is_queued {
            self.holder.table.abandon(self.holder.owner);
        }
    }
}

/// The lock waits of a write that goes straight to its partition: the locks that it has waited for, and the one that has stopped it.
/// Costs nothing while nothing is locked.
#[derive(Debug, Default)]
pub struct Way {
    pid: i32,
    holder: Option<LockHolder>,
    stopped: Option<LockRequest>,
    waits: u32,
    has_made_room: bool,
}

/// How often a write waits for a row and finds it locked again before it takes the lock itself.
const PASSES_MAX: u32 = 3;

impl Way {
    /// For the session with this number; 0 for a session of the RESP door.
    pub fn new(pid: i32) -> Self {
        Self { pid, holder: None, stopped: None, waits: 0, has_made_room: false }
    }

    /// Who its locks are of.
    #[inline]
    pub(crate) fn owner(&self) -> u64 {
        self.holder.as_ref().map_or(Owner::NOBODY.id, LockHolder::id)
    }

    /// Notes the lock that has stopped a write.
    pub fn stop(&mut self, request: LockRequest) {
        self.stopped = Some(request);
    }

    /// Whether the last write was stopped, and changed nothing.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Takes the lock that has stopped the write, which is no longer stopped then.
    #[cfg(test)]
    pub(crate) fn take_stopped(&mut self) -> Option<LockRequest> {
        self.stopped.take()
    }

    /// Notes that a write had to evict other rows first.
    pub(crate) fn note_room(&mut self) {
        self.has_made_room = true;
    }

    /// Whether a write has had to let other rows go since this was last asked: work that a connection is to be charged for.
    #[inline]
    pub fn take_made_room(&mut self) -> bool {
        std::mem::take(&mut self.has_made_room)
    }

    /// Waits until the row is free. If others were faster several times, takes the lock and keeps it until this is dropped.
    ///
    /// # Errors
    /// As [`LockHolder::wait`].
    pub async fn wait(&mut self) -> Result<()> {
        let Some(request) = self.stopped.take() else { return Ok(()) };
        self.waits += 1;
        let passes = self.waits <= PASSES_MAX;
        let holder = self.holder_for(&request);
        if passes { holder.pass(&request).await } else { holder.wait(&request).await }
    }

    /// The holder of its locks, created now if there is none.
    pub fn holder_for(&mut self, request: &LockRequest) -> &mut LockHolder {
        let pid = self.pid;
        self.holder.get_or_insert_with(|| LockHolder::for_request(request, pid))
    }

    /// The holder of its locks, if it has waited for any.
    pub fn holder(&self) -> Option<&LockHolder> {
        self.holder.as_ref()
    }

    /// Releases all locks.
    pub fn clear(&mut self) {
        (self.holder, self.stopped, self.waits) = (None, None, 0);
    }
}

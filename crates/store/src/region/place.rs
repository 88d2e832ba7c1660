//! A partition's place in its region: its lock, and work that an earlier commit has left there.
//!
//! A commit of many rows holds the locks of all its partitions. While it does, it performs only the steps that can
//! fail; the rest it leaves in each place ([`Guard::leave`]) before it releases all locks. The next thread that locks a
//! place first does the work that was left there, so no thread ever sees a partition without it, and none waits for the
//! rows of more than one partition. The commit itself then locks one place after the other until no work is left.

use std::ops::{Deref, DerefMut};

use ashlar_base::scope::{self, Name};

use crate::partition::Partition;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

/// What is still to be done in a place. It takes no lock of another place.
pub(crate) type Rest = Box<dyn FnOnce(&mut Option<Box<Partition>>) + Send>;

/// See the module. Nothing is allocated before the partition's first row. On a cache line of its own, because its neighbours
/// belong to other cores' keys.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Place {
    content: Mutex<Content>,
    /// There is a rest. Changed with the lock held alone, for those who do not take it.
    has_rest: AtomicBool,
}

#[derive(Default)]
struct Content {
    partition: Option<Box<Partition>>,
    rest: Option<Rest>,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Place>() == 64);

static LOCK: Name = Name::new("partition lock");
static REST: Name = Name::new("rest of a commit");

impl Place {
    /// Locks it. Whoever has to wait is seen to do so.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.guard(self.content.try_lock().unwrap_or_else(|| self.wait()))
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, Content> {
        let _waits = scope::enter(&LOCK);
        self.content.lock()
    }

    /// Locks it, unless somebody holds the lock or has left something to be done.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        self.content.try_lock().and_then(|content| self.without_rest(content))
    }

    /// Locks it, unless something is left to be done there: for those who have locked others.
    pub(crate) fn lock_done(&self) -> Option<Guard<'_>> {
        self.without_rest(self.content.try_lock().unwrap_or_else(|| self.wait()))
    }

    fn without_rest<'p>(&'p self, content: MutexGuard<'p, Content>) -> Option<Guard<'p>> {
        content.rest.is_none().then_some(Guard { content, place: self })
    }

    #[inline]
    fn guard<'p>(&'p self, content: MutexGuard<'p, Content>) -> Guard<'p> {
        let mut guard = Guard { content, place: self };
        guard.do_rest();
        guard
    }

    /// Whether somebody holds the lock, or has left something to be done.
    pub(crate) fn is_busy(&self) -> bool {
        // In this order: it is left before the lock is let go, and done before that is let go again.
        self.content.is_locked() || {
            fence(Ordering::Acquire);
            self.has_rest.load(Ordering::Acquire)
        }
    }
}

/// A locked place, where nothing is left to be done.
pub(crate) struct Guard<'p> {
    content: MutexGuard<'p, Content>,
    place: &'p Place,
}

impl Guard<'_> {
    /// Leaves something to be done, and lets go.
    pub(crate) fn leave(mut self, rest: Rest) {
        self.content.rest = Some(rest);
        self.place.has_rest.store(true, Ordering::Release);
    }

    #[inline]
    fn do_rest(&mut self) {
        if self.content.rest.is_some() {
            self.take_rest();
        }
    }

    #[cold]
    fn take_rest(&mut self) {
        let _works = scope::enter(&REST);
        // Also where it panics.
        let _done = NoRest(self.place);
        if let Some(rest) = self.content.rest.take() {
            rest(&mut self.content.partition);
        }
    }

    /// Lets go; whoever waits is next.
    pub(crate) fn unlock_fair(self) {
        MutexGuard::unlock_fair(self.content);
    }

    /// Lets go of the lock while `f` runs.
    pub(crate) fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let done = MutexGuard::unlocked(&mut self.content, f);
        self.do_rest();
        done
    }
}

/// Nothing is left in a place when this is dropped.
struct NoRest<'p>(&'p Place);

impl Drop for NoRest<'_> {
    fn drop(&mut self) {
        self.0.has_rest.store(false, Ordering::Release);
    }
}

impl Deref for Guard<'_> {
    type Target = Option<Box<Partition>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.content.partition
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.content.partition
    }
}

//! A partition's place in its region: its lock, and work that an earlier commit has left there.
//!
//! A commit of many rows holds the locks of all its partitions. While it does, it performs only the steps that can
//! fail; the rest it leaves in each place ([`Guard::leave`]) before it releases all locks. The next thread that locks a
//! place first does the work that was left there, so no thread ever sees a partition without it, and none waits for the
//! rows of more than one partition. The commit itself then locks one place after the other until no work is left.
//!
//! What is left is done in pieces, and the lock is let go of between two of them. Whoever reads one key comes in there
//! ([`Place::lock_to_read`]): most rests can be asked what they make of a key, and nobody has written to the partition since
//! one was left there, because a writer does all of it first.

use std::ops::{Deref, DerefMut};

use ashlar_base::Timestamp;
use ashlar_base::scope::{self, Name};

use crate::partition::Partition;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};
use crate::writeset::Staged;

/// What is still to be done in a place. It takes no lock of another place.
pub(crate) trait Rest: Send {
    /// Does a piece of it, which takes no longer than a reader should wait. Returns whether that was the last.
    fn step(&mut self, partition: &mut Option<Box<Partition>>) -> bool;

    /// What it writes, and when that was committed, if these writes alone tell what a key has once all is done: a key that they say
    /// nothing of has what the partition has, however much is done. `None`: it cannot be told before.
    fn writes(&self) -> Option<(&Staged, Timestamp)> {
        None
    }
}

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
    rest: Option<Box<dyn Rest>>,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Place>() == 64);

static LOCK: Name = Name::new("partition lock");
static REST: Name = Name::new("rest of a commit");

impl Place {
    /// Locks it, and does first what is left there. Whoever has to wait is seen to do so.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        loop {
            let content = self.content.try_lock().unwrap_or_else(|| self.wait());
            if content.rest.is_none() {
                return Guard { content, place: self };
            }
            self.go_on(content);
        }
    }

    /// Locks it to read keys. What is left there is done first if it cannot be asked, or if the caller does not.
    #[inline]
    pub(crate) fn lock_to_read(&self, asks: bool) -> Reading<'_> {
        loop {
            let content = self.content.try_lock().unwrap_or_else(|| self.wait());
            if content.rest.as_ref().is_none_or(|rest| asks && rest.writes().is_some()) {
                return Reading(content);
            }
            self.go_on(content);
        }
    }

    /// Does a piece of what is left, if anything is. Returns whether there is more.
    pub(crate) fn do_piece(&self) -> bool {
        self.go_on(self.content.try_lock().unwrap_or_else(|| self.wait()))
    }

    /// Does a piece of what is left, if anything is, and lets go; whoever waits is next. Returns whether there is more.
    #[cold]
    fn go_on(&self, mut content: MutexGuard<'_, Content>) -> bool {
        self.step(&mut content);
        let has_more = content.rest.is_some();
        MutexGuard::unlock_fair(content);
        has_more
    }

    /// Does a piece of what is left, if anything is, with the lock held.
    #[cold]
    fn step(&self, content: &mut Content) {
        let Some(mut rest) = content.rest.take() else { return };
        let _works = scope::enter(&REST);
        // Also where it panics: then nothing is left.
        let mut ends = Ends { place: self, is_last: true };
        ends.is_last = rest.step(&mut content.partition);
        if !ends.is_last {
            content.rest = Some(rest);
        }
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
    pub(crate) fn leave(mut self, rest: Box<dyn Rest>) {
        self.content.rest = Some(rest);
        self.place.has_rest.store(true, Ordering::Release);
    }

    /// Lets go; whoever waits is next.
    pub(crate) fn unlock_fair(self) {
        MutexGuard::unlock_fair(self.content);
    }

    /// Lets go of the lock while `f` runs.
    pub(crate) fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let done = MutexGuard::unlocked(&mut self.content, f);
        while self.content.rest.is_some() {
            self.place.step(&mut self.content);
        }
        done
    }
}

/// A locked place, where keys are read. What is left to be done there can be asked.
pub(crate) struct Reading<'p>(MutexGuard<'p, Content>);

impl Reading<'_> {
    /// What is left to be written, and when it was committed. Whoever sees that asks there for a key first.
    #[inline]
    pub(crate) fn left(&self) -> Option<(&Staged, Timestamp)> {
        self.0.rest.as_ref()?.writes()
    }

    /// The partition, without what is left.
    #[inline]
    pub(crate) fn partition(&self) -> Option<&Partition> {
        self.0.partition.as_deref()
    }
}

/// A piece of what is left in a place; nothing is left after the last one.
struct Ends<'p> {
    place: &'p Place,
    is_last: bool,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if self.is_last {
            self.place.has_rest.store(false, Ordering::Release);
        }
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

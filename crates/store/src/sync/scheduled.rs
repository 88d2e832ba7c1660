//! The calls of `parking_lot` that the store makes, on shuttle's locks: each is a place where the schedule may go on with another thread.
//!
//! No lock is poisoned: a thread that panics ends the test.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A lock that one thread holds.
pub(crate) struct Mutex<T> {
    lock: shuttle::sync::Mutex<T>,
    /// Somebody has come in and has not begun to go out: shuttle's own lock cannot be asked. What the holder does, it does meanwhile.
    is_held: AtomicBool,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { lock: shuttle::sync::Mutex::new(value), is_held: AtomicBool::new(false) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard::new(self, self.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.lock.try_lock() {
            Ok(guard) => Some(MutexGuard::new(self, guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(MutexGuard::new(self, poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// The lock is held while it lives.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// None while it is let go of for a moment.
    guard: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<'a, T> MutexGuard<'a, T> {
    fn new(mutex: &'a Mutex<T>, guard: shuttle::sync::MutexGuard<'a, T>) -> Self {
        mutex.is_held.store(true, Ordering::SeqCst);
        Self { mutex, guard: Some(guard) }
    }

    /// Whoever waits is as likely to be next as after any other end.
    pub(crate) fn unlock_fair(guard: Self) {
        drop(guard);
    }

    /// Lets go of the lock while `f` runs.
    pub(crate) fn unlocked<R>(guard: &mut Self, f: impl FnOnce() -> R) -> R {
        guard.let_go();
        let (mutex, done) = (guard.mutex, f());
        *guard = mutex.lock();
        done
    }

    fn let_go(&mut self) {
        if let Some(guard) = self.guard.take() {
            self.mutex.is_held.store(false, Ordering::SeqCst);
            drop(guard);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_deref().expect("nobody looks while the lock is let go of")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_deref_mut().expect("nobody looks while the lock is let go of")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A lock that many threads hold to read, or one to write.
#[derive(Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Rows that a transaction locks: by SELECT ... FOR UPDATE and its like, and by changing them.
//!
//! Called by statements, on any thread. Nothing waits here: a statement that finds a row locked by somebody else ends with
//! an error, and [`Transaction::is_stopped`] says that its session has to wait, with [`Transaction::wait`], and to begin the
//! statement again. The same where a row was free and has changed since the statement's snapshot was taken: the next one
//! sees it as it is.

use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use ashlar_store::{LockHolder, LockRequest, Pending, Region, Snapshot, Strength};

use super::{Isolation, Transaction, TransactionMark};

/// The number of rows that a transaction locks because it changes them. A transaction that changes more is a bulk change: further rows
/// are compared at COMMIT instead, where the first writer wins.
const LOCKED_BY_WRITES_MAX: usize = 10_000;

/// What to do about a row that another transaction has locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Wait for it.
    #[default]
    Wait,
    /// Skip the row: SKIP LOCKED.
    Skip,
    /// Fail: NOWAIT.
    Fail,
}

/// The outcome of locking a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The row is locked, and is as the statement's snapshot sees it.
    Current,
    /// The row has changed since the snapshot. It is locked, unless the policy is to skip it.
    Changed,
    /// The row is gone.
    Gone,
    /// Another transaction has locked it, and the policy is to skip it.
    Taken,
}

/// The locks of a transaction.
#[derive(Default)]
pub(super) struct Locks {
    holder: Option<LockHolder>,
    stopped: Option<Stopped>,
    pid: i32,
    /// Changing a row does not lock it: the transaction is one statement, which is tried again after a conflict.
    is_optimistic: bool,
}

/// Why a statement has to begin again.
enum Stopped {
    /// Another transaction has locked a row.
    Row(LockRequest, Option<(Arc<Region>, Box<[Value]>)>),
    /// A row has changed since its snapshot.
    Changed,
}

impl Transaction {
    /// Sets the number of the session that the locks belong to.
    pub fn set_pid(&mut self, pid: i32) {
        self.locks.pid = pid;
    }

    /// Sets whether changing a row locks it.
    pub fn set_optimistic(&mut self, is_optimistic: bool) {
        self.locks.is_optimistic = is_optimistic;
    }

    /// Whether the last statement, or COMMIT, ended because it has to begin again after [`Self::wait`].
    pub fn is_stopped(&self) -> bool {
        self.locks.stopped.is_some()
    }

    /// Waits for the lock that has stopped the statement. The transaction then holds it.
    ///
    /// # Errors
    /// 40P01 on a deadlock; 53200 over the memory bound.
    pub async fn wait(&mut self) -> Result<()> {
        let pid = self.locks.pid;
        let Some(Stopped::Row(request, row)) = self.locks.stopped.take() else { return Ok(()) };
        let holder = self.locks.holder.get_or_insert_with(|| LockHolder::for_request(&request, pid));
        self.writes.set_owner(holder.id());
        let before = holder.len();
        holder.wait(&request).await?;
        // Who had it may have deleted it: nobody is to wait for a row that there is none of.
        if let Some((region, key)) = row {
            let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
            if region.peek(&key, |row| row.is_none()) {
                holder.release_to(before);
            }
        }
        Ok(())
    }

    /// Locks the row of a key that a statement has found, and that is to be as its snapshot has it.
    ///
    /// # Errors
    /// 55P03 where somebody else has it and the policy is to fail, or, with [`Self::is_stopped`], to wait; 40001 where it has
    /// changed and the isolation level is repeatable read; 53200 over the memory bound.
    pub fn lock_row(
        &mut self,
        region: &Arc<Region>,
        key: &[Datum<'_>],
        strength: Strength,
        policy: Policy,
        read_at: &Snapshot,
    ) -> Result<Locked> {
        let pid = self.locks.pid;
        let holder = self.locks.holder.get_or_insert_with(|| LockHolder::new(region, pid));
        self.writes.set_owner(holder.id());
        let before = holder.len();
        if let Some(request) = holder.lock(region, key, strength)? {
            let name = &region.schema().name;
            let message = format!("could not obtain lock on row in relation \"{name}\"");
            let error = Error::new(ErrorCode::LockNotAvailable, message);
            return match policy {
                Policy::Skip => Ok(Locked::Taken),
                Policy::Fail => Err(error),
                Policy::Wait => {
                    let key = key.iter().map(Datum::to_value).collect();
                    self.locks.stopped = Some(Stopped::Row(request, Some((Arc::clone(region), key))));
                    Err(error)
                }
            };
        }
        if !region.has_changed(read_at, key) {
            return Ok(Locked::Current);
        }
        let is_there = region.peek(key, |row| row.is_some());
        let is_fixed = self.isolation == Isolation::RepeatableRead;
        // The statement finds it once more, with another snapshot. Did it let it go until then, others who change it all the
        // time might be faster each time.
        if !is_there || is_fixed || policy == Policy::Skip {
            // Where it was its own before, it has not been changed by anybody else: this is about a lock that is new.
            holder.release_to(before);
        }
        if is_fixed {
            let message = "could not serialize access due to concurrent update";
            return Err(Error::new(ErrorCode::SerializationFailure, message).with_table(&region.schema().name));
        }
        Ok(if is_there { Locked::Changed } else { Locked::Gone })
    }

    /// Locks a row that is to be changed, if changes lock. False: it is gone.
    ///
    /// # Errors
    /// As [`Self::lock_row`].
    pub(crate) fn lock_to_write(
        &mut self,
        region: &Arc<Region>,
        key: &[Datum<'_>],
        deletes: bool,
        read_at: &Snapshot,
    ) -> Result<bool> {
        let is_full = self.locks.holder.as_ref().is_some_and(|holder| holder.len() >= LOCKED_BY_WRITES_MAX);
        if self.locks.is_optimistic || is_full {
            return Ok(true);
        }
        let strength = if deletes { Strength::Update } else { Strength::NoKeyUpdate };
        // What it has written before it has locked before, or made itself.
        if !deletes && !matches!(self.writes.get(region, key), Pending::Untouched) {
            return Ok(true);
        }
        match self.lock_row(region, key, strength, Policy::Wait, read_at)? {
            Locked::Changed => Err(self.begin_again()),
            Locked::Gone => Ok(false),
            Locked::Current | Locked::Taken => Ok(true),
        }
    }

    /// The error of an INSERT whose key is taken: first somebody else's end has to be waited for who may be changing its row.
    pub(crate) fn taken(&mut self, region: &Arc<Region>, key: &[Datum<'_>], error: Error, read_at: &Snapshot) -> Error {
        if error.code() != ErrorCode::UniqueViolation || region.locked_rows() == 0 {
            return error;
        }
        match self.lock_row(region, key, Strength::Share, Policy::Wait, read_at) {
            Ok(Locked::Current | Locked::Taken) => error,
            Ok(Locked::Changed | Locked::Gone) => self.begin_again(),
            Err(stopped) => stopped,
        }
    }

    /// The error that ends a statement which has to begin again with another snapshot.
    pub(crate) fn begin_again(&mut self) -> Error {
        self.locks.stopped = Some(Stopped::Changed);
        Error::new(ErrorCode::SerializationFailure, "could not serialize access due to concurrent update")
    }

    pub(super) fn locks_mark(&self) -> usize {
        self.locks.holder.as_ref().map_or(0, LockHolder::len)
    }

    /// Releases the locks that were taken after a mark.
    pub fn release_to(&mut self, mark: &TransactionMark) {
        self.locks.stopped = None;
        if let Some(holder) = &mut self.locks.holder {
            holder.release_to(mark.locks);
        }
    }

    /// Releases all locks: nothing of this transaction will be committed.
    pub fn release_all(&mut self) {
        self.locks.stopped = None;
        self.locks.holder = None;
    }

    /// Remembers what a COMMIT was stopped by.
    pub(super) fn note_stop(&mut self) {
        if let Some(request) = self.writes.take_stopped() {
            self.locks.stopped = Some(Stopped::Row(request, None));
        }
    }
}

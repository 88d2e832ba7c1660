//! Reads and changes of one row: in the store, or in the transaction that EXEC is running.
//!
//! Called by every handler that touches a key, so that no command knows whether it runs alone or had to wait for a row
//! lock. A command that meets a lock fails with nothing changed; its connection waits, and the command runs again. So
//! does a command whose work another thread does in the meantime.

use std::sync::Arc;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Datum, Error, ErrorCode};
use ashlar_store::{Entry, Failed, KeyTransaction, LockRequest, Region, RowRef, Way};
use tokio::task::JoinHandle;

use super::KeyService;
use super::error::Outcome;
use super::pubsub::Said;

/// What commands run in.
#[derive(Default)]
pub(super) struct Running {
    /// The transaction that commands are part of while EXEC runs them; none for a command by itself.
    pub(super) transaction: Option<Box<KeyTransaction>>,
    /// What the command has waited for, and what has stopped it.
    pub(super) way: Way,
    /// Locks that the command wants before it runs once more, in the order in which to take them.
    pub(super) wanted: Vec<LockRequest>,
    /// What the transaction publishes once it is committed.
    pub(super) said: Vec<Said>,
    /// What the command has found of what it looked for.
    looked: Lookups,
    /// The same of all commands since they were last taken.
    lookups: Lookups,
    /// Bytes that commands have gone through since that was last taken.
    work: u64,
    /// What is done for the command by another thread.
    pub(super) beside: Beside,
}

/// Work that would keep the other connections of the thread waiting.
#[derive(Default)]
pub(super) enum Beside {
    #[default]
    Nothing,
    /// The connection waits for it.
    Running(JoinHandle<Result<(), Error>>),
    /// The command is to run once more, and to answer.
    Done(Result<(), Error>),
}

static BESIDE: Name = Name::new("beside other connections");

/// A write that had to let other rows go has done as much as somebody who goes through so many bytes.
const MADE_ROOM_BYTES: u64 = 4 << 20;

/// Reads by key: how many have found a row, and how many have not.
#[derive(Clone, Copy, Default)]
pub(super) struct Lookups {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Lookups {
    #[inline]
    fn add(&mut self, is_there: bool) {
        self.hits += u64::from(is_there);
        self.misses += u64::from(!is_there);
    }
}

/// Attempts of a command on several keys whose snapshot others overtake, before it locks them.
const ATTEMPTS_FEW: usize = 3;

/// Attempts with the keys locked, before it says so: by then it is not others' writes.
const ATTEMPTS_MAX: usize = 100;

impl Running {
    /// A transaction that may write what the command has locked.
    pub(super) fn begin(&self, service: &KeyService) -> KeyTransaction {
        let mut transaction = KeyTransaction::new(service.shared.engine.store());
        if let Some(holder) = self.way.holder() {
            transaction.allow(holder);
        }
        transaction
    }

    /// A row was looked for.
    #[inline]
    pub(super) fn look(&mut self, is_there: bool) {
        self.looked.add(is_there);
    }

    /// The command is done: what it has looked for counts where it is one that reads.
    #[inline]
    pub(super) fn settle(&mut self, is_read: bool) {
        let looked = std::mem::take(&mut self.looked);
        if is_read {
            self.lookups.hits += looked.hits;
            self.lookups.misses += looked.misses;
        }
    }

    /// A command that writes has answered with what was there.
    pub(super) fn count_lookup(&mut self, is_there: bool) {
        self.lookups.add(is_there);
    }

    /// What counts so far.
    pub(super) fn lookups(&mut self) -> &mut Lookups {
        &mut self.lookups
    }

    /// The command has gone through so many bytes, or has done what takes as long.
    #[inline]
    pub(super) fn charge_work(&mut self, bytes: u64) {
        self.work = self.work.saturating_add(bytes);
    }

    /// What commands have done since this was last asked.
    #[inline]
    pub(super) fn take_work(&mut self) -> u64 {
        let made_room = if self.way.take_made_room() { MADE_ROOM_BYTES } else { 0 };
        std::mem::take(&mut self.work).saturating_add(made_room)
    }

    /// Whether the command was stopped and is to run once more.
    pub(super) fn is_stopped(&self) -> bool {
        self.way.is_stopped() || !self.wanted.is_empty() || matches!(self.beside, Beside::Running(_))
    }

    /// Has another thread do something. The command is stopped: its answer is that it will run once more.
    pub(super) fn begin_beside(&mut self, work: impl FnOnce() -> Result<(), Error> + Send + 'static) {
        self.beside = Beside::Running(tokio::task::spawn_blocking(scope::work(&BESIDE, work)));
    }

    /// Waits for what another thread does: whether it does anything.
    pub(super) async fn wait_beside(&mut self) -> bool {
        let Beside::Running(task) = std::mem::take(&mut self.beside) else { return false };
        let done = scope::scope(&BESIDE, task).await;
        self.beside =
            Beside::Done(done.unwrap_or_else(|error| Err(Error::internal(format!("a command failed: {error}")))));
        true
    }

    /// What came of what another thread has done for the command, once.
    pub(super) fn take_beside(&mut self) -> Option<Result<(), Error>> {
        match std::mem::take(&mut self.beside) {
            Beside::Done(done) => Some(done),
            Beside::Nothing | Beside::Running(_) => None,
        }
    }

    /// What is to become of the `attempt`th try, from 1, which has failed: true for another one at once.
    pub(super) fn tries_again(&mut self, failed: &mut Failed, attempt: usize) -> bool {
        let is_conflict = failed.error.code() == ErrorCode::SerializationFailure;
        let is_locked = self.way.holder().is_some_and(|holder| !holder.is_empty());
        let attempts_max = if is_locked { ATTEMPTS_MAX } else { ATTEMPTS_FEW };
        if is_conflict && attempt < attempts_max {
            return true;
        }
        if failed.is_stopped || is_conflict && !is_locked {
            self.wanted = std::mem::take(&mut failed.requests);
        }
        false
    }
}

/// Reads the row of a key under the lock of its partition.
#[inline]
pub(super) fn read<R>(
    running: &mut Running,
    region: &Arc<Region>,
    key: &[Datum<'_>],
    f: impl FnOnce(Option<RowRef<'_>>) -> R,
) -> Outcome<R> {
    let mut is_there = false;
    let noted = |row: Option<RowRef<'_>>| {
        is_there = row.is_some();
        f(row)
    };
    let done = match &mut running.transaction {
        None => region.get(key, noted),
        Some(transaction) => transaction.get(region, key, noted)?,
    };
    running.look(is_there);
    Ok(done)
}

/// Like [`read`], and the row does not count as used.
pub(super) fn peek<R>(
    running: &mut Running,
    region: &Arc<Region>,
    key: &[Datum<'_>],
    f: impl FnOnce(Option<RowRef<'_>>) -> R,
) -> Outcome<R> {
    let mut is_there = false;
    let noted = |row: Option<RowRef<'_>>| {
        is_there = row.is_some();
        f(row)
    };
    let done = match &mut running.transaction {
        None => region.peek(key, noted),
        Some(transaction) => transaction.peek(region, key, noted)?,
    };
    running.look(is_there);
    Ok(done)
}

/// Reads and changes the row of a key under the lock of its partition.
#[inline]
pub(super) fn change<R, E: From<Error>>(
    running: &mut Running,
    region: &Arc<Region>,
    key: &[Datum<'_>],
    f: impl FnOnce(&mut Entry<'_>) -> Result<R, E>,
) -> Result<R, E> {
    match &mut running.transaction {
        None => region.entry_with(&mut running.way, key, f),
        Some(transaction) => transaction.entry(region, key, f)?,
    }
}

/// Runs a command on several keys as one commit, or as a part of the one that is running. `work` runs again when one of
/// the keys was changed by somebody else meanwhile.
pub(super) fn atomically<R>(
    service: &KeyService,
    running: &mut Running,
    mut work: impl FnMut(&mut KeyTransaction) -> Result<R, Error>,
) -> Outcome<R> {
    if let Some(transaction) = &mut running.transaction {
        return Ok(work(transaction)?);
    }
    let store = service.shared.engine.store();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut transaction = running.begin(service);
        let mut failed = match work(&mut transaction) {
            Err(error) => Failed { error, is_stopped: false, requests: transaction.requests() },
            Ok(result) => match transaction.commit(store) {
                Ok(()) => return Ok(result),
                Err(failed) => failed,
            },
        };
        if !running.tries_again(&mut failed, attempt) {
            return Err(failed.error.into());
        }
    }
}

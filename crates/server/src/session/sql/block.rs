//! The transaction block: BEGIN, COMMIT, ROLLBACK, savepoints, and the implicit transaction between two Syncs.

use std::pin::pin;
use std::sync::Arc;

use ashlar_base::clock;
use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::CatalogState;
use ashlar_query::statement::{self, TransactionModes};
use ashlar_query::transaction::{Isolation, Transaction, TransactionMark};

use super::carried::Carried;
use super::run::lost;
use super::settings::{Modes, boolean};
use super::{Block, Executed, Notice, SqlSession};

/// Savepoints that a block may have at once. Each takes some hundred bytes.
const SAVEPOINTS_MAX: usize = 10_000;

static COMMIT: Name = Name::new("commit");

/// A savepoint of the block.
pub(super) struct Savepoint {
    name: String,
    mark: TransactionMark,
    /// The mark of the settings.
    settings: usize,
    /// Whether the transaction was read-only; restored when the savepoint ends, in whichever way.
    read_only: bool,
    /// The number of LISTEN, UNLISTEN and NOTIFY that the transaction had asked for before it.
    wishes: usize,
    /// The number of advisory locks that the transaction held before it.
    advisory: usize,
    /// The number of portals made before it: a rollback to the savepoint leaves these alone.
    portals_made: u64,
}

impl Savepoint {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mark(&self) -> &TransactionMark {
        &self.mark
    }
}

impl SqlSession {
    /// The version of the catalog that the next statement sees.
    pub(super) fn catalog(&self) -> Arc<CatalogState> {
        let catalog = self.shared.engine.catalog();
        match &self.transaction {
            Some(transaction) => transaction.catalog(catalog),
            None => catalog.current(),
        }
    }

    /// The epoch of that version.
    pub(super) fn epoch(&self) -> u64 {
        let catalog = self.shared.engine.catalog();
        match &self.transaction {
            Some(transaction) => transaction.epoch(catalog),
            None => catalog.epoch(),
        }
    }

    /// Refuses everything in a failed block but its end.
    ///
    /// # Errors
    /// 25P02
    pub(super) fn check_block(&self, ends_failed_block: bool) -> Result<()> {
        if self.block == Block::Failed && !ends_failed_block { Err(aborted()) } else { Ok(()) }
    }

    /// A new transaction in the modes that the session's settings say.
    pub(super) fn fresh_transaction(&self) -> Transaction {
        let Modes { isolation, read_only, deferrable } = self.settings.modes;
        let mut transaction = Transaction::new(isolation, read_only, deferrable);
        transaction.set_pid(self.identity.pid);
        transaction.numbers = Some(self.identity.numbers.clone());
        transaction
    }

    /// The current transaction, begun now if there is none.
    pub(super) fn take_transaction(&mut self) -> Transaction {
        match self.transaction.take() {
            Some(mut transaction) => {
                transaction.time.statement = clock::wall_micros();
                transaction
            }
            None => self.fresh_transaction(),
        }
    }

    /// Ends an implicit transaction: commits it. Does nothing inside a block.
    ///
    /// # Errors
    /// 40001 if another transaction committed a conflicting change first.
    pub async fn sync(&mut self) -> Result<()> {
        if self.sync_now() {
            return Ok(());
        }
        pin!(self.finish()).await
    }

    /// The same where nothing is left to be committed, as nearly always; `false`: [`Self::sync`] has to be called.
    pub fn sync_now(&mut self) -> bool {
        (self.copy, self.remote_copy, self.deadline) = (None, None, None);
        if self.block != Block::None {
            return true;
        }
        // Nearly every statement of a shard was a transaction of its own there: nothing is left to be committed.
        if self.transaction.is_none() && !self.has_remote() && self.wishes() == 0 {
            self.savepoints.clear();
            self.portals.end_transaction();
            self.portals.settle();
            self.common = None;
            self.settings.end_transaction(true);
            self.advisory.end_transaction(&self.shared.advisory, 0);
            return true;
        }
        false
    }

    /// Commits the current transaction. Settings are kept if it succeeds, and restored if it fails.
    async fn finish(&mut self) -> Result<()> {
        self.savepoints.clear();
        self.portals.end_transaction();
        let outgoing = match self.prepare_wishes() {
            Ok(outgoing) => outgoing,
            Err(error) => {
                self.rollback();
                return Err(error);
            }
        };
        // A transaction has written to a shard or to this server, but never to both.
        let remote = pin!(self.commit_remote()).await;
        let done = match self.transaction.take() {
            Some(transaction) if remote.is_err() => {
                let engine = &self.shared.engine;
                transaction.rollback(engine.catalog(), engine.store());
                remote
            }
            Some(transaction) => pin!(self.commit(transaction)).await,
            None => remote,
        };
        self.settings.end_transaction(done.is_ok());
        match done.is_ok() {
            true => self.portals.settle(),
            false => self.portals.roll_back(),
        }
        if outgoing.is_some() {
            self.settle_wishes(outgoing, done.is_ok());
        }
        self.advisory.end_transaction(&self.shared.advisory, 0);
        done
    }

    /// Commits a transaction on this thread or, if that takes long, beside it, so that the thread's other clients do not wait.
    ///
    /// # Errors
    /// 40001 if another transaction committed a conflicting change first; errors of waiting for a row lock.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<()> {
        let engine = &self.shared.engine;
        // The client may go while this waits: what the transaction has made goes with it.
        let mut carried = Carried::new(transaction, engine);
        loop {
            let Some(transaction) = carried.get() else { return Err(lost()) };
            let done = if transaction.is_light() {
                let _commit = scope::enter(&COMMIT);
                transaction.commit(engine.catalog(), engine.store())
            } else {
                // Not on the query pool, whose threads yield to those of the doors: a commit holds locks that these wait
                // for.
                let engine = Arc::clone(engine);
                let work = scope::work(&COMMIT, move || {
                    let done = match carried.get() {
                        Some(transaction) => transaction.commit(engine.catalog(), engine.store()),
                        None => Err(lost()),
                    };
                    (carried, done)
                });
                let done;
                (carried, done) = scope::scope(&COMMIT, tokio::task::spawn_blocking(work))
                    .await
                    .map_err(|error| Error::internal(format!("a commit failed: {error}")))?;
                done
            };
            if done.is_ok() || carried.get().is_none_or(|transaction| !transaction.is_stopped()) {
                carried.take();
                return done;
            }
            let Some(transaction) = carried.get() else { return done };
            Box::pin(self.wait_to_commit(transaction)).await?;
        }
    }

    fn rollback(&mut self) {
        self.savepoints.clear();
        self.portals.roll_back();
        self.settings.end_transaction(false);
        self.forget_wishes(0);
        self.advisory.end_transaction(&self.shared.advisory, 0);
        self.rollback_remote();
        if let Some(transaction) = self.transaction.take() {
            let engine = &self.shared.engine;
            transaction.rollback(engine.catalog(), engine.store());
        }
    }

    /// Called when the client has been told of an error: the implicit transaction is undone, or the block has failed.
    pub fn fail(&mut self) {
        (self.copy, self.remote_copy, self.deadline) = (None, None, None);
        self.leave_copies();
        // Whoever asked for an end has got one.
        self.cancel.reset();
        match self.block {
            Block::None => self.rollback(),
            Block::Open | Block::Failed => {
                self.release_failed();
                let left = self.savepoints.last().map_or(0, |savepoint| savepoint.advisory);
                self.advisory.end_transaction(&self.shared.advisory, left);
                if self.savepoints.is_empty() {
                    // Nothing can bring it back, and others may wait for its rows.
                    self.rollback_remote();
                }
                self.block = Block::Failed;
            }
        }
    }

    pub(super) fn begin(&mut self, modes: TransactionModes) -> Result<Executed> {
        if self.block != Block::None {
            self.warn(ErrorCode::ActiveTransaction, "there is already a transaction in progress");
        }
        self.set_modes(modes)?;
        self.block = Block::Open;
        Ok(Executed::Complete("BEGIN".into()))
    }

    pub(super) async fn commit_block(&mut self) -> Result<Executed> {
        match std::mem::take(&mut self.block) {
            Block::None => self.warn(ErrorCode::NoActiveTransaction, "there is no transaction in progress"),
            Block::Failed => {
                self.rollback();
                return Ok(Executed::Complete("ROLLBACK".into()));
            }
            Block::Open => {}
        }
        pin!(self.finish()).await?;
        Ok(Executed::Complete("COMMIT".into()))
    }

    pub(super) fn rollback_block(&mut self) -> Executed {
        if std::mem::take(&mut self.block) == Block::None {
            self.warn(ErrorCode::NoActiveTransaction, "there is no transaction in progress");
        }
        self.rollback();
        Executed::Complete("ROLLBACK".into())
    }

    /// COMMIT or ROLLBACK, AND CHAIN: the next block begins at once, in the modes of the one that ends.
    pub(super) async fn end_and_chain(&mut self, commits: bool) -> Result<Executed> {
        self.needs_block(if commits { "COMMIT AND CHAIN" } else { "ROLLBACK AND CHAIN" })?;
        let modes = self.transaction.as_ref().map(|transaction| TransactionModes {
            isolation: Some(transaction.isolation),
            read_only: Some(transaction.read_only),
            deferrable: Some(transaction.deferrable),
        });
        let executed = if commits { pin!(self.commit_block()).await? } else { self.rollback_block() };
        self.block = Block::Open;
        if let Some(modes) = modes {
            self.set_modes(modes)?;
        }
        Ok(executed)
    }

    pub(super) fn savepoint(&mut self, name: String) -> Result<Executed> {
        self.needs_block("SAVEPOINT")?;
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, "too many savepoints")
                .with_hint("RELEASE those that are not needed any more."));
        }
        let transaction = self.take_transaction();
        self.savepoints.push(Savepoint {
            name,
            mark: transaction.mark(),
            settings: self.settings.mark(),
            read_only: transaction.read_only,
            wishes: self.wishes(),
            advisory: self.advisory.mark(),
            portals_made: self.portals_made,
        });
        self.transaction = Some(transaction);
        Ok(Executed::Complete("SAVEPOINT".into()))
    }

    pub(super) fn release(&mut self, name: &str) -> Result<Executed> {
        self.needs_block("RELEASE SAVEPOINT")?;
        let place = self.savepoint_place(name)?;
        if let Some(transaction) = &mut self.transaction {
            transaction.read_only = self.savepoints[place].read_only;
        }
        self.savepoints.truncate(place);
        self.settings.release(self.savepoints.last().map_or(0, |outer| outer.settings));
        Ok(Executed::Complete("RELEASE".into()))
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<Executed> {
        self.needs_block("ROLLBACK TO SAVEPOINT")?;
        let place = self.savepoint_place(name)?;
        self.savepoints.truncate(place + 1);
        let savepoint = &self.savepoints[place];
        let Some(transaction) = &mut self.transaction else {
            return Err(Error::internal("the transaction was lost by an internal error: only ROLLBACK is left"));
        };
        let engine = &self.shared.engine;
        transaction.rollback_to(&savepoint.mark, engine.catalog(), engine.store());
        transaction.read_only = savepoint.read_only;
        self.settings.rollback_to(savepoint.settings);
        let (wishes, advisory) = (savepoint.wishes, savepoint.advisory);
        self.advisory.end_transaction(&self.shared.advisory, advisory);
        self.portals.retain(|portal| portal.number <= savepoint.portals_made);
        self.forget_wishes(wishes);
        self.block = Block::Open;
        Ok(Executed::Complete("ROLLBACK".into()))
    }

    pub(super) fn set_transaction(&mut self, modes: TransactionModes) -> Result<Executed> {
        if !self.is_in_block() {
            self.warn(ErrorCode::NoActiveTransaction, "SET TRANSACTION can only be used in transaction blocks");
        }
        self.set_modes(modes)?;
        Ok(Executed::Complete("SET".into()))
    }

    /// SET, RESET and SET ... TO DEFAULT of a setting that belongs to the transaction; `None` for other settings.
    pub(super) fn set_own_mode(&mut self, name: &str, value: Option<&str>) -> Option<Result<()>> {
        let name = name.to_ascii_lowercase();
        let read = |value: Option<&str>| match value.map_or(Some(false), boolean) {
            Some(on) => Ok(Some(on)),
            None => {
                let message = format!("parameter \"{name}\" requires a Boolean value");
                Err(Error::new(ErrorCode::InvalidParameterValue, message))
            }
        };
        let mut modes = TransactionModes::default();
        let written = match name.as_str() {
            "transaction_isolation" => value
                .map_or(Ok(Isolation::default()), |value| statement::isolation(&name, value))
                .map(|isolation| modes.isolation = Some(isolation)),
            "transaction_read_only" => read(value).map(|on| modes.read_only = on),
            "transaction_deferrable" => read(value).map(|on| modes.deferrable = on),
            _ => return None,
        };
        if value.is_none() && !self.is_in_block() {
            self.warn(ErrorCode::NoActiveTransaction, "RESET TRANSACTION can only be used in transaction blocks");
        }
        Some(written.and_then(|()| self.set_modes(modes)))
    }

    /// SHOW of a setting that belongs to the transaction; `None` for other settings.
    pub(super) fn show_own_mode(&self, name: &str) -> Option<&'static str> {
        let Modes { isolation, read_only, deferrable } = match &self.transaction {
            Some(transaction) => Modes {
                isolation: transaction.isolation,
                read_only: transaction.read_only,
                deferrable: transaction.deferrable,
            },
            None => self.settings.modes,
        };
        let on = |on: bool| if on { "on" } else { "off" };
        Some(match name.to_ascii_lowercase().as_str() {
            "transaction_isolation" => isolation.name(),
            "transaction_read_only" => on(read_only),
            "transaction_deferrable" => on(deferrable),
            _ => return None,
        })
    }

    /// Changes the modes of the current transaction, if it may still change them.
    ///
    /// # Errors
    /// 25001
    fn set_modes(&mut self, modes: TransactionModes) -> Result<()> {
        if (self.has_remote() || self.common.is_some()) && (modes.isolation.is_some() || modes.read_only.is_some()) {
            let message = "SET TRANSACTION must be called before any query";
            return Err(Error::new(ErrorCode::ActiveTransaction, message));
        }
        let is_inner = !self.savepoints.is_empty();
        let mut transaction = self.take_transaction();
        let changed = change_modes(&mut transaction, modes, is_inner);
        self.transaction = Some(transaction);
        changed
    }

    /// Whether later statements belong to the same transaction: in a block, or in a query string of several statements.
    pub(super) fn is_in_block(&self) -> bool {
        self.block != Block::None || self.in_string
    }

    fn needs_block(&self, what: &str) -> Result<()> {
        if self.block == Block::None {
            return Err(Error::new(
                ErrorCode::NoActiveTransaction,
                format!("{what} can only be used in transaction blocks"),
            ));
        }
        Ok(())
    }

    fn savepoint_place(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| Error::new(ErrorCode::InvalidSavepoint, format!("savepoint \"{name}\" does not exist")))
    }

    pub(super) fn warn(&mut self, code: ErrorCode, message: &str) {
        self.notices.push(Notice { severity: "WARNING", error: Error::new(code, message) });
    }
}

impl Drop for SqlSession {
    /// Rolls back when a client disconnects in a transaction: with the tables that it made, and what is running for it.
    fn drop(&mut self) {
        self.cancel.cancel();
        self.rollback();
        self.advisory.unlock_all(&self.shared.advisory);
        self.listen_to_nothing();
    }
}

/// 25P02
pub(super) fn aborted() -> Error {
    Error::new(
        ErrorCode::FailedTransaction,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

fn change_modes(transaction: &mut Transaction, modes: TransactionModes, is_inner: bool) -> Result<()> {
    let refused = |message: &str| Err(Error::new(ErrorCode::ActiveTransaction, message));
    if let Some(isolation) = modes.isolation
        && isolation != transaction.isolation
    {
        if transaction.has_begun() {
            return refused("SET TRANSACTION ISOLATION LEVEL must be called before any query");
        }
        if is_inner {
            return refused("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction");
        }
        transaction.isolation = isolation;
    }
    if let Some(read_only) = modes.read_only
        && read_only != transaction.read_only
    {
        if !read_only && is_inner {
            return refused("cannot set transaction read-write mode inside a read-only transaction");
        }
        if !read_only && transaction.has_begun() {
            return refused("transaction read-write mode must be set before any query");
        }
        transaction.read_only = read_only;
    }
    if let Some(deferrable) = modes.deferrable {
        if is_inner {
            return refused("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction");
        }
        if transaction.has_begun() {
            return refused("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
        }
        transaction.deferrable = deferrable;
    }
    Ok(())
}

//! The transaction block: BEGIN, COMMIT, ROLLBACK, savepoints, and the implicit transaction between two Syncs.

use std::sync::Arc;

use ashlar_base::clock;
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::CatalogState;
use ashlar_query::statement::TransactionModes;
use ashlar_query::transaction::Transaction;

use super::{Block, Executed, Notice, SqlSession};

impl SqlSession {
    /// The picture of the catalog that the next statement sees.
    pub(super) fn catalog(&self) -> Arc<CatalogState> {
        let catalog = self.shared.engine.catalog();
        match &self.transaction {
            Some(transaction) => transaction.catalog(catalog),
            None => catalog.current(),
        }
    }

    /// The epoch of that picture.
    pub(super) fn epoch(&self) -> u64 {
        let catalog = self.shared.engine.catalog();
        match &self.transaction {
            Some(transaction) => transaction.epoch(catalog),
            None => catalog.epoch(),
        }
    }

    /// Refuses everything but the end of a block that has failed.
    ///
    /// # Errors
    /// 25P02
    pub(super) fn check_block(&self, ends_failed_block: bool) -> Result<()> {
        if self.block == Block::Failed && !ends_failed_block { Err(aborted()) } else { Ok(()) }
    }

    /// A transaction as this session's settings want it.
    pub(super) fn fresh_transaction(&self) -> Transaction {
        Transaction::new(self.settings.isolation, self.settings.read_only)
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

    /// The end of an implicit transaction: commits it. Inside a block nothing happens.
    ///
    /// # Errors
    /// 40001 where another transaction was first.
    pub async fn sync(&mut self) -> Result<()> {
        self.copy = None;
        if self.block != Block::None {
            return Ok(());
        }
        self.portals.clear();
        self.settings.end_transaction(true);
        match self.transaction.take() {
            Some(transaction) => self.commit(transaction),
            None => Ok(()),
        }
    }

    fn commit(&self, transaction: Transaction) -> Result<()> {
        let engine = &self.shared.engine;
        transaction.commit(engine.catalog(), engine.store())
    }

    fn rollback(&mut self) {
        self.savepoints.clear();
        self.portals.clear();
        self.settings.end_transaction(false);
        if let Some(transaction) = self.transaction.take() {
            let engine = &self.shared.engine;
            transaction.rollback(engine.catalog(), engine.store());
        }
    }

    /// An error was told to the client: the implicit transaction is undone, or the block has failed.
    pub fn fail(&mut self) {
        self.copy = None;
        match self.block {
            Block::None => self.rollback(),
            Block::Open | Block::Failed => self.block = Block::Failed,
        }
    }

    pub(super) fn begin(&mut self, modes: TransactionModes) -> Result<Executed> {
        if self.block == Block::None {
            let mut transaction = self.take_transaction();
            apply(&mut transaction, modes);
            self.transaction = Some(transaction);
            self.block = Block::Open;
        } else {
            self.warn(ErrorCode::ActiveTransaction, "there is already a transaction in progress");
        }
        Ok(Executed::Complete("BEGIN".to_owned()))
    }

    pub(super) fn commit_block(&mut self) -> Result<Executed> {
        match std::mem::take(&mut self.block) {
            Block::None => {
                self.warn(ErrorCode::NoActiveTransaction, "there is no transaction in progress");
                if let Some(transaction) = self.transaction.take() {
                    self.commit(transaction)?;
                }
                Ok(Executed::Complete("COMMIT".to_owned()))
            }
            Block::Failed => {
                self.rollback();
                Ok(Executed::Complete("ROLLBACK".to_owned()))
            }
            Block::Open => {
                self.savepoints.clear();
                self.portals.clear();
                self.settings.end_transaction(true);
                if let Some(transaction) = self.transaction.take() {
                    self.commit(transaction)?;
                }
                Ok(Executed::Complete("COMMIT".to_owned()))
            }
        }
    }

    pub(super) fn rollback_block(&mut self) -> Executed {
        if std::mem::take(&mut self.block) == Block::None {
            self.warn(ErrorCode::NoActiveTransaction, "there is no transaction in progress");
        }
        self.rollback();
        Executed::Complete("ROLLBACK".to_owned())
    }

    pub(super) fn savepoint(&mut self, name: String) -> Result<Executed> {
        self.needs_block("SAVEPOINT")?;
        let transaction = self.take_transaction();
        self.savepoints.push((name, transaction.mark()));
        self.transaction = Some(transaction);
        Ok(Executed::Complete("SAVEPOINT".to_owned()))
    }

    pub(super) fn release(&mut self, name: &str) -> Result<Executed> {
        self.needs_block("RELEASE SAVEPOINT")?;
        let place = self.savepoint_place(name)?;
        self.savepoints.truncate(place);
        Ok(Executed::Complete("RELEASE".to_owned()))
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<Executed> {
        self.needs_block("ROLLBACK TO SAVEPOINT")?;
        let place = self.savepoint_place(name)?;
        self.savepoints.truncate(place + 1);
        let mark = self.savepoints[place].1.clone();
        let Some(mut transaction) = self.transaction.take() else {
            return Err(Error::internal("the transaction was lost by an internal error: only ROLLBACK is left"));
        };
        let engine = &self.shared.engine;
        transaction.rollback_to(&mark, engine.catalog(), engine.store());
        self.transaction = Some(transaction);
        self.block = Block::Open;
        self.portals.clear();
        Ok(Executed::Complete("ROLLBACK".to_owned()))
    }

    pub(super) fn set_transaction(&mut self, modes: TransactionModes) -> Result<Executed> {
        if self.block == Block::None {
            self.warn(ErrorCode::NoActiveTransaction, "SET TRANSACTION can only be used in transaction blocks");
        } else {
            let mut transaction = self.take_transaction();
            if modes.isolation.is_some_and(|isolation| isolation != transaction.isolation) && !transaction.is_clean() {
                self.transaction = Some(transaction);
                return Err(Error::new(
                    ErrorCode::ActiveTransaction,
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            apply(&mut transaction, modes);
            self.transaction = Some(transaction);
        }
        Ok(Executed::Complete("SET".to_owned()))
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
            .rposition(|(known, _)| known == name)
            .ok_or_else(|| Error::new(ErrorCode::InvalidSavepoint, format!("savepoint \"{name}\" does not exist")))
    }

    pub(super) fn warn(&mut self, code: ErrorCode, message: &str) {
        self.notices.push(Notice { severity: "WARNING", error: Error::new(code, message) });
    }
}

impl Drop for SqlSession {
    /// A client that goes in the middle of a transaction takes it along, the tables that it made, and what is running
    /// for it.
    fn drop(&mut self) {
        self.cancel.cancel();
        self.rollback();
    }
}

/// 25P02
pub(super) fn aborted() -> Error {
    Error::new(
        ErrorCode::FailedTransaction,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

fn apply(transaction: &mut Transaction, modes: TransactionModes) {
    if let Some(isolation) = modes.isolation {
        transaction.isolation = isolation;
    }
    if let Some(read_only) = modes.read_only {
        transaction.read_only = read_only;
    }
}

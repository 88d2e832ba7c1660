//! A transaction while the query pool has it.
//!
//! A statement takes its session's transaction along and brings it back. If nobody waits for it any more, because the
//! client has disconnected or the task has failed, the transaction is rolled back, and the tables it created are
//! dropped.

use std::sync::Arc;

use ashlar_query::Engine;
use ashlar_query::transaction::Transaction;

/// A transaction that is rolled back unless it is taken.
pub(super) struct Carried {
    transaction: Option<Transaction>,
    engine: Arc<Engine>,
}

impl Carried {
    pub(super) fn new(transaction: Transaction, engine: &Arc<Engine>) -> Self {
        Self { transaction: Some(transaction), engine: Arc::clone(engine) }
    }

    /// The transaction, for what runs on the pool; `None` only after [`Self::take`].
    pub(super) fn get(&mut self) -> Option<&mut Transaction> {
        self.transaction.as_mut()
    }

    /// Takes the transaction back.
    pub(super) fn take(mut self) -> Option<Transaction> {
        self.transaction.take()
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback(self.engine.catalog(), self.engine.store());
        }
    }
}

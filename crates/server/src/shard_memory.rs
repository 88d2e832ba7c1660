//! Charges rows of shards that are longer than a connection may keep to the statements' share of the store's memory.

use std::sync::Arc;

use ashlar_base::Result;
use ashlar_shard::backend::{Memory, Payer};
use ashlar_store::{Reservation, Store};

struct Statements(Arc<Store>);

struct Account(Reservation);

/// Accounts within the bound of a store.
pub(crate) fn payer(store: &Arc<Store>) -> Arc<dyn Payer> {
    Arc::new(Statements(Arc::clone(store)))
}

impl Payer for Statements {
    fn account(&self) -> Box<dyn Memory> {
        Box::new(Account(self.0.reservation()))
    }
}

impl Memory for Account {
    fn grow(&mut self, bytes: usize) -> Result<()> {
        self.0.grow(bytes)
    }
}

//! A transaction as the session holds it: buffered writes, the snapshot it reads, its draft of the catalog.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::Result;
use ashlar_store::{Mark, ReadView, Snapshot, Store, WriteSet};

use crate::catalog::{Catalog, CatalogDraft, CatalogState, Table};
use crate::functions::times::StatementTime;

/// Which snapshot statements read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement its own.
    #[default]
    ReadCommitted,
    /// All that of the first statement.
    RepeatableRead,
}

/// Where a savepoint or a statement began.
#[derive(Clone)]
pub struct TransactionMark {
    writes: Mark,
    catalog: usize,
}

/// The buffered work of one transaction.
pub struct Transaction {
    /// Rows and keys not yet committed.
    pub writes: WriteSet,
    /// Which snapshot statements read.
    pub isolation: Isolation,
    /// Refuses to write.
    pub read_only: bool,
    /// What `now()` and its like tell.
    pub time: StatementTime,
    fixed: Option<Snapshot>,
    catalog: Option<CatalogDraft>,
}

impl Transaction {
    /// An empty one.
    pub fn new(isolation: Isolation, read_only: bool) -> Self {
        let time = StatementTime::now();
        Self { writes: WriteSet::new(), isolation, read_only, time, fixed: None, catalog: None }
    }

    /// Whether nothing was done in it.
    pub fn is_clean(&self) -> bool {
        self.writes.is_empty() && self.catalog.is_none()
    }

    /// The snapshot that the next statement reads.
    pub fn snapshot(&mut self, store: &Store) -> Snapshot {
        match (self.isolation, &self.fixed) {
            (Isolation::ReadCommitted, _) => store.snapshot(),
            (Isolation::RepeatableRead, Some(fixed)) => fixed.clone(),
            (Isolation::RepeatableRead, None) => {
                let fixed = store.snapshot();
                self.fixed = Some(fixed.clone());
                fixed
            }
        }
    }

    /// The picture of the catalog that statements see.
    pub fn catalog(&self, catalog: &Catalog) -> Arc<CatalogState> {
        match &self.catalog {
            Some(draft) => Arc::clone(draft.state()),
            None => catalog.current(),
        }
    }

    /// The epoch of that picture.
    pub fn epoch(&self, catalog: &Catalog) -> u64 {
        match &self.catalog {
            Some(draft) => draft.state().epoch(),
            None => catalog.epoch(),
        }
    }

    /// The draft, begun now if there is none.
    pub fn draft(&mut self, catalog: &Catalog) -> &mut CatalogDraft {
        self.catalog.get_or_insert_with(|| catalog.draft())
    }

    /// The snapshot with what this transaction wrote on top, for scans.
    pub fn view(&self, snapshot: Snapshot, catalog: &CatalogState) -> Arc<ReadView> {
        let mut overlays = HashMap::new();
        if !self.writes.is_empty() {
            for (_, table) in catalog.tables() {
                if let Table::Grid(region) = table
                    && let Some(overlay) = self.writes.overlay(region)
                {
                    overlays.insert(region.id(), overlay);
                }
            }
        }
        Arc::new(ReadView { snapshot, overlays })
    }

    /// Remembers this point.
    pub fn mark(&self) -> TransactionMark {
        TransactionMark { writes: self.writes.mark(), catalog: self.catalog.as_ref().map_or(0, CatalogDraft::mark) }
    }

    /// Undoes what came after a mark.
    pub fn rollback_to(&mut self, mark: &TransactionMark, catalog: &Catalog, store: &Store) {
        self.writes.rollback_to(mark.writes.clone());
        if let Some(draft) = &mut self.catalog {
            for table in catalog.rollback_to(draft, mark.catalog) {
                store.drop_region(table);
            }
        }
    }

    /// Makes everything visible at once.
    ///
    /// # Errors
    /// 40001 where another transaction changed what this one built on; then nothing was done.
    pub fn commit(mut self, catalog: &Catalog, store: &Store) -> Result<()> {
        let draft = self.catalog.take();
        let writes = &mut self.writes;
        let mut commit_rows = || if writes.is_empty() { Ok(()) } else { store.commit(writes).map(drop) };
        let Some(draft) = draft else {
            return commit_rows();
        };
        match catalog.publish(&draft, commit_rows) {
            Ok(dropped) => {
                for table in dropped {
                    store.drop_region(table);
                }
                Ok(())
            }
            Err(error) => {
                Self::discard(draft, catalog, store);
                Err(error)
            }
        }
    }

    /// Forgets everything.
    pub fn rollback(mut self, catalog: &Catalog, store: &Store) {
        if let Some(draft) = self.catalog.take() {
            Self::discard(draft, catalog, store);
        }
    }

    fn discard(mut draft: CatalogDraft, catalog: &Catalog, store: &Store) {
        for table in catalog.rollback_to(&mut draft, 0) {
            store.drop_region(table);
        }
    }
}

#[cfg(test)]
mod tests;

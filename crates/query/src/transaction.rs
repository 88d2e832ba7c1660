//! A transaction as the session holds it: buffered writes, the snapshot it reads, its draft of the catalog.

mod locking;

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::scope::{self, Name};
use ashlar_base::{ColumnDefault, IndexDef, Result};
use ashlar_functions::times::StatementTime;
use ashlar_store::{Mark, ReadView, Region, Snapshot, Store, WriteSet};

use crate::catalog::{Catalog, CatalogDraft, CatalogState, Table, was_changed};
use crate::sequences::Numbers;

use locking::Locks;
pub use locking::{Locked, Policy};

/// Which snapshot statements read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// As [`Self::ReadCommitted`], under the name that the client has chosen.
    ReadUncommitted,
    /// Each statement its own.
    #[default]
    ReadCommitted,
    /// All that of the first statement.
    RepeatableRead,
}

impl Isolation {
    /// PostgreSQL's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "read uncommitted",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
        }
    }
}

/// Rows that a commit applies in about a millisecond.
const LIGHT_ROWS_MAX: usize = 1024;

/// Bytes of rows that a commit copies in about a millisecond.
const LIGHT_BYTES_MAX: usize = 1 << 20;

static SNAPSHOT: Name = Name::new("snapshot");

/// Where a savepoint or a statement began.
#[derive(Clone)]
pub struct TransactionMark {
    writes: Mark,
    locks: usize,
    catalog: usize,
    indexes: (usize, usize),
}

/// An index and its table.
type TableIndex = (Arc<Region>, Arc<IndexDef>);

/// The buffered work of one transaction.
pub struct Transaction {
    /// Rows and keys not yet committed.
    pub writes: WriteSet,
    /// Which snapshot statements read.
    pub isolation: Isolation,
    /// Refuses to write.
    pub read_only: bool,
    /// Shown to who asks, and without a meaning at the isolation levels that there are.
    pub deferrable: bool,
    /// What `now()` and its like tell.
    pub time: StatementTime,
    fixed: Option<Snapshot>,
    has_read: bool,
    catalog: Option<CatalogDraft>,
    /// Tables that number their rows from the start again once this has committed.
    restarts: Vec<Arc<Region>>,
    /// Indexes that are taken away again if this does not commit.
    made: Vec<TableIndex>,
    /// Indexes that go when this commits.
    dropped: Vec<TableIndex>,
    /// It is committed as soon as one statement has run.
    pub is_one_statement: bool,
    /// The numbers that its session is given; `None` where no session keeps them in mind.
    pub numbers: Option<Numbers>,
    locks: Locks,
}

impl Transaction {
    /// An empty one.
    pub fn new(isolation: Isolation, read_only: bool, deferrable: bool) -> Self {
        Self {
            writes: WriteSet::new(),
            isolation,
            read_only,
            deferrable,
            time: StatementTime::now(),
            fixed: None,
            has_read: false,
            catalog: None,
            restarts: Vec::new(),
            made: Vec::new(),
            dropped: Vec::new(),
            is_one_statement: false,
            numbers: None,
            locks: Locks::default(),
        }
    }

    /// Whether nothing was done in it.
    pub fn is_clean(&self) -> bool {
        let has_indexes = !self.made.is_empty() || !self.dropped.is_empty();
        self.writes.is_empty() && self.catalog.is_none() && self.restarts.is_empty() && !has_indexes
    }

    /// Whether a statement of it has run that reads or writes tables: its modes are settled then.
    pub fn has_begun(&self) -> bool {
        self.has_read || !self.is_clean()
    }

    /// Whether its commit is done so soon that a thread with other clients can do it.
    pub fn is_light(&self) -> bool {
        self.catalog.is_none() && self.writes.is_within(LIGHT_ROWS_MAX, LIGHT_BYTES_MAX)
    }

    /// The snapshot that the next statement reads.
    pub fn snapshot(&mut self, store: &Store) -> Snapshot {
        self.has_read = true;
        let _snapshot = scope::enter(&SNAPSHOT);
        match (self.isolation, &self.fixed) {
            (Isolation::ReadUncommitted | Isolation::ReadCommitted, _) => store.snapshot(),
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

    /// The snapshot with what this transaction wrote to one table on top.
    pub fn view_of(&self, snapshot: Snapshot, region: &Arc<Region>) -> ReadView {
        let overlay = if self.writes.is_empty() { None } else { self.writes.overlay(region) };
        ReadView { snapshot, overlays: overlay.into_iter().map(|overlay| (region.id(), overlay)).collect() }
    }

    /// Remembers this point.
    pub fn mark(&self) -> TransactionMark {
        TransactionMark {
            writes: self.writes.mark(),
            locks: self.locks_mark(),
            catalog: self.catalog.as_ref().map_or(0, CatalogDraft::mark),
            indexes: (self.made.len(), self.dropped.len()),
        }
    }

    /// Undoes what came after a mark, and lets go the rows that were locked after it.
    pub fn rollback_to(&mut self, mark: &TransactionMark, catalog: &Catalog, store: &Store) {
        self.undo_to(mark, catalog, store);
        self.release_to(mark);
    }

    /// Undoes what came after a mark: what was locked stays locked, for the statement to begin again.
    pub fn undo_to(&mut self, mark: &TransactionMark, catalog: &Catalog, store: &Store) {
        let (made, dropped) = mark.indexes;
        for (region, index) in self.made.drain(made.min(self.made.len())..) {
            region.drop_index(&index);
        }
        self.dropped.truncate(dropped);
        self.ignore_dropped();
        self.writes.rollback_to(mark.writes.clone());
        if let Some(draft) = &mut self.catalog {
            for table in catalog.rollback_to(draft, mark.catalog) {
                store.drop_region(table);
            }
        }
    }

    /// Makes everything visible at once. Locks go with the transaction.
    ///
    /// # Errors
    /// 40001 where another transaction changed what this one built on; then nothing was done. 55P03 where it has to wait
    /// first, as [`Self::is_stopped`] tells; then it can be tried again.
    pub fn commit(&mut self, catalog: &Catalog, store: &Store) -> Result<()> {
        let done = self.commit_work(catalog, store);
        if done.is_err() && self.is_stopped() {
            return done;
        }
        let restarts = std::mem::take(&mut self.restarts);
        let made = std::mem::take(&mut self.made);
        self.dropped.clear();
        if let Err(error) = done {
            made.iter().for_each(|(region, index)| region.drop_index(index));
            return Err(error);
        }
        for region in restarts {
            for column in &region.schema().columns {
                if let Some(ColumnDefault::Sequence(sequence)) = &column.default {
                    region.restart_numbers(column.id, sequence.start);
                }
            }
        }
        Ok(())
    }

    /// The next numbers of a table's columns are their first ones, once this has committed.
    pub(crate) fn restart_numbers(&mut self, region: &Arc<Region>) {
        self.restarts.push(Arc::clone(region));
    }

    /// An index was made, to be taken away again if this does not commit.
    pub(crate) fn made_index(&mut self, region: Arc<Region>, index: Arc<IndexDef>) {
        self.made.push((region, index));
    }

    /// An index goes when this commits.
    pub(crate) fn drop_index(&mut self, region: Arc<Region>, index: Arc<IndexDef>) {
        self.dropped.push((region, index));
        self.ignore_dropped();
    }

    /// What is written from now on need not be unique in indexes that go.
    fn ignore_dropped(&mut self) {
        self.writes.ignore_indexes(self.dropped.iter().map(|(_, index)| index.id));
    }

    /// What was written to a table is looked at by its unique indexes, at the end of a statement: by the commit, where that
    /// follows at once. Not after ON CONFLICT: the commit takes no value that is there for a violation then.
    ///
    /// # Errors
    /// 23505, 40001
    pub fn check_values(&mut self, region: &Region) -> Result<()> {
        if self.is_one_statement && !self.writes.yields(region) { Ok(()) } else { self.writes.check_values(region) }
    }

    /// Whether an index goes when this commits: by itself, or with its table or a column.
    pub(crate) fn has_dropped_index(&self, index: &IndexDef) -> bool {
        self.dropped.iter().any(|(_, dropped)| dropped.id == index.id)
            || self.catalog.as_ref().is_some_and(|draft| draft.has_lost(index))
    }

    fn commit_work(&mut self, catalog: &Catalog, store: &Store) -> Result<()> {
        // An index goes as names do: whoever gives the rows to another table, with the index, does so before or after.
        let draft = self.catalog.take().or_else(|| (!self.dropped.is_empty()).then(|| catalog.draft()));
        // What is validated is held by the writes themselves, until the store has validated it. This snapshot would
        // outlive that, and every row that the commit changes would have to be kept for it.
        self.fixed = None;
        let (writes, dropped) = (&mut self.writes, &self.dropped);
        let mut commit_rows = || {
            if let Some((region, _)) = dropped.iter().find(|(region, _)| region.is_dropped()) {
                return Err(was_changed(&region.schema().name));
            }
            if !writes.is_empty() {
                store.commit(writes)?;
            }
            dropped.iter().for_each(|(region, index)| region.drop_index(index));
            Ok(())
        };
        let Some(draft) = draft else {
            let done = commit_rows();
            self.note_stop();
            return done;
        };
        let done = catalog.publish(&draft, commit_rows);
        self.note_stop();
        match done {
            Ok(dropped) => {
                for table in dropped {
                    store.drop_region(table);
                }
                Ok(())
            }
            Err(error) if self.is_stopped() => {
                self.catalog = Some(draft);
                Err(error)
            }
            Err(error) => {
                Self::discard(draft, catalog, store);
                Err(error)
            }
        }
    }

    /// Forgets everything.
    pub fn rollback(mut self, catalog: &Catalog, store: &Store) {
        self.made.drain(..).for_each(|(region, index)| region.drop_index(&index));
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

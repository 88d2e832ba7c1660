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

/// The isolation level: which snapshot each statement reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// As [`Self::ReadCommitted`], under the name that the client has chosen.
    ReadUncommitted,
    /// Each statement reads a snapshot of its own.
    #[default]
    ReadCommitted,
    /// All statements read the snapshot of the first one.
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

/// A point in a transaction to which it can be rolled back: the beginning of a savepoint or a statement.
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
    /// Rows and keys that are not committed yet.
    pub writes: WriteSet,
    /// Which snapshot statements read.
    pub isolation: Isolation,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Shown to clients; without effect at the isolation levels that exist here.
    pub deferrable: bool,
    /// The time that `now()` and functions like it return.
    pub time: StatementTime,
    fixed: Option<Snapshot>,
    has_read: bool,
    catalog: Option<CatalogDraft>,
    /// Tables whose counters restart once this has committed.
    restarts: Vec<Arc<Region>>,
    /// Indexes that are removed again if this does not commit.
    made: Vec<TableIndex>,
    /// Indexes that are removed when this commits.
    dropped: Vec<TableIndex>,
    /// Whether it is committed as soon as one statement has run.
    pub is_one_statement: bool,
    /// The numbers of sequences that its session has been given; `None` if there is no session to remember them.
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

    /// Whether it has done nothing.
    pub fn is_clean(&self) -> bool {
        let has_indexes = !self.made.is_empty() || !self.dropped.is_empty();
        self.writes.is_empty() && self.catalog.is_none() && self.restarts.is_empty() && !has_indexes
    }

    /// Whether a statement that reads or writes tables has run in it: its modes cannot change any more.
    pub fn has_begun(&self) -> bool {
        self.has_read || !self.is_clean()
    }

    /// Whether it commits so quickly that a thread with other clients may do it.
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

    /// The version of the catalog that its statements see.
    pub fn catalog(&self, catalog: &Catalog) -> Arc<CatalogState> {
        match &self.catalog {
            Some(draft) => Arc::clone(draft.state()),
            None => catalog.current(),
        }
    }

    /// The epoch of that version.
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

    /// The snapshot with this transaction's writes on top, for scans.
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

    /// The snapshot with this transaction's writes to one table on top.
    pub fn view_of(&self, snapshot: Snapshot, region: &Arc<Region>) -> ReadView {
        let overlay = if self.writes.is_empty() { None } else { self.writes.overlay(region) };
        ReadView { snapshot, overlays: overlay.into_iter().map(|overlay| (region.id(), overlay)).collect() }
    }

    /// A mark of this point.
    pub fn mark(&self) -> TransactionMark {
        TransactionMark {
            writes: self.writes.mark(),
            locks: self.locks_mark(),
            catalog: self.catalog.as_ref().map_or(0, CatalogDraft::mark),
            indexes: (self.made.len(), self.dropped.len()),
        }
    }

    /// Undoes everything after a mark, and releases the row locks that were taken after it.
    pub fn rollback_to(&mut self, mark: &TransactionMark, catalog: &Catalog, store: &Store) {
        self.undo_to(mark, catalog, store);
        self.release_to(mark);
    }

    /// Undoes everything after a mark but keeps the row locks, so that the statement can begin again.
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

    /// Makes everything visible at once. Locks end with the transaction.
    ///
    /// # Errors
    /// 40001 if another transaction has changed what this one built on; nothing has been done then. 55P03 if it has to wait for a lock
    /// first, as [`Self::is_stopped`] tells; it can be tried again then.
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

    /// Restarts the counters of a table's columns once this has committed.
    pub(crate) fn restart_numbers(&mut self, region: &Arc<Region>) {
        self.restarts.push(Arc::clone(region));
    }

    /// Notes that an index was created, so that it is removed again if this does not commit.
    pub(crate) fn made_index(&mut self, region: Arc<Region>, index: Arc<IndexDef>) {
        self.made.push((region, index));
    }

    /// Notes that an index is removed when this commits.
    pub(crate) fn drop_index(&mut self, region: Arc<Region>, index: Arc<IndexDef>) {
        self.dropped.push((region, index));
        self.ignore_dropped();
    }

    /// From now on, writes are not checked against unique indexes that will be removed.
    fn ignore_dropped(&mut self) {
        self.writes.ignore_indexes(self.dropped.iter().map(|(_, index)| index.id));
    }

    /// Checks what was written to a table against its unique indexes, at the end of a statement; if the commit follows at once, the
    /// commit checks. Except after ON CONFLICT, where the commit does not report an existing value as a violation.
    ///
    /// # Errors
    /// 23505, 40001
    pub fn check_values(&mut self, region: &Region) -> Result<()> {
        if self.is_one_statement && !self.writes.yields(region) { Ok(()) } else { self.writes.check_values(region) }
    }

    /// Whether an index is removed when this commits: by itself, or with its table or a column.
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

    /// Rolls everything back.
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

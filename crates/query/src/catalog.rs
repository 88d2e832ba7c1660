//! The names that SQL sees: immutable versions of the catalog, replaced as a whole by every change.
//!
//! A statement is planned against one [`CatalogState`]; a transaction that runs DDL works on a version of its own and
//! publishes its changes at COMMIT. The epoch of a version is unique, so cached plans know whether they are still
//! valid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use ashlar_base::{
    ColumnDef, ColumnId, Error, ErrorCode, Eviction, IndexDef, LifeOptions, Result, ScalarType, SqlType, TableId,
    TableSchema,
};
use ashlar_functions::error::undefined_table;
use ashlar_shard::fleet::Fleet;
use ashlar_store::{OtherLock, OtherLocks, Region, Store};
use datafusion::datasource::TableProvider;
use parking_lot::Mutex;

use crate::comments::{Comments, Subject};
use crate::files::FileTable;
use crate::identity::{Asker, Identity};
use crate::sequences::{NamedSequence, Sequences};
use crate::sharded::ShardedTable;

/// Table ids below this are PostgreSQL's own objects, so that a table's id can serve as its OID.
const FIRST_TABLE_ID: u32 = 16_384;

/// A table, by the home of its rows.
#[derive(Clone)]
pub enum Table {
    /// Rows in the memory of the members.
    Grid(Arc<Region>),
    /// Parquet files, read in place.
    File(Arc<FileTable>),
    /// Rows in a fleet of PostgreSQL servers.
    Sharded(Arc<ShardedTable>),
}

impl Table {
    /// The table as all sessions see it, even if this transaction has altered it.
    fn committed(&self) -> Self {
        match self {
            Self::Grid(region) => Self::Grid(region.committed()),
            Self::File(_) | Self::Sharded(_) => self.clone(),
        }
    }

    /// Whether its key or a secondary index has this name.
    fn names_index(&self, name: &str) -> bool {
        match self {
            Self::Grid(region) => {
                region.schema().key_name == name || region.standing_indexes().iter().any(|index| index.name == name)
            }
            Self::Sharded(table) => !name.is_empty() && table.schema.key_name == name,
            Self::File(_) => false,
        }
    }

    /// The id, unique over the life of the server.
    pub fn id(&self) -> TableId {
        match self {
            Self::Grid(region) => region.id(),
            Self::File(file) => file.id,
            Self::Sharded(table) => table.schema.id,
        }
    }

    /// Its shape; `None` for files, which describe themselves.
    pub(crate) fn schema(&self) -> Option<Arc<TableSchema>> {
        match self {
            Self::Grid(region) => Some(region.schema()),
            Self::Sharded(table) => Some(Arc::clone(&table.schema)),
            Self::File(_) => None,
        }
    }
}

/// One version of the catalog.
#[derive(Clone, Default)]
pub struct CatalogState {
    epoch: u64,
    tables: BTreeMap<String, Table>,
    asker: Arc<Asker>,
    /// The servers with sharded tables.
    fleet: Option<Arc<Fleet>>,
    comments: Comments,
    sequences: Sequences,
    /// The store's locks of sessions that are of no row.
    other_locks: Option<OtherLocks>,
    /// What WITH queries of the statement that is planned give, by names that nobody else has.
    given: BTreeMap<String, Arc<dyn TableProvider>>,
}

impl CatalogState {
    /// The epoch, unique to this version.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The same version with the identity of a session.
    pub fn seen_by(&self, identity: Identity) -> Arc<Self> {
        Arc::new(Self { asker: Arc::new(Asker::new(identity)), ..self.clone() })
    }

    /// The same version for a statement that has one more table by this name.
    pub(crate) fn with_given(&self, name: String, table: Arc<dyn TableProvider>) -> Arc<Self> {
        let mut state = self.clone();
        state.given.insert(name, table);
        Arc::new(state)
    }

    /// The table by this name that only the statement has which is planned.
    pub(crate) fn given(&self, name: &str) -> Option<&Arc<dyn TableProvider>> {
        self.given.get(name)
    }

    /// The session's identity. A plan that reads it is valid for that session only.
    pub fn identity(&self) -> &Identity {
        self.asker.read()
    }

    /// The session's identity, if it has been read.
    pub fn asked_by(&self) -> Option<Identity> {
        self.asker.was_read().then(|| self.asker.read().clone())
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// Whether a table, an index or a sequence has this name: they share one space of names.
    pub fn is_relation(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || self.sequences.get(name).is_some()
            || self.tables.values().any(|table| table.names_index(name))
    }

    /// The sequence of this name.
    pub(crate) fn sequence(&self, name: &str) -> Option<NamedSequence> {
        self.sequences.get(name)
    }

    /// All sequences by name.
    pub(crate) fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// Whether any table has a secondary index.
    pub(crate) fn has_indexes(&self) -> bool {
        self.tables.values().any(|table| matches!(table, Table::Grid(region) if !region.every_index().is_empty()))
    }

    /// The secondary index of this name, and its table. `is_gone` tells which indexes no longer count.
    pub fn index(&self, name: &str, is_gone: impl Fn(&IndexDef) -> bool) -> Option<(Arc<Region>, Arc<IndexDef>)> {
        self.tables.values().find_map(|table| match table {
            Table::Grid(region) => {
                let indexes = region.standing_indexes();
                let index = indexes.iter().find(|index| index.name == name && !is_gone(index))?;
                Some((Arc::clone(region), Arc::clone(index)))
            }
            Table::File(_) | Table::Sharded(_) => None,
        })
    }

    /// Whether an index belongs to a table of this version.
    fn has_index(&self, index: &IndexDef) -> bool {
        self.tables.values().any(|table| {
            matches!(table, Table::Grid(region) if region.standing_indexes().iter().any(|known| known.id == index.id))
        })
    }

    /// 42P07 if the name of the table, of its key or of one of its indexes is the name of something else.
    fn check_names(&self, name: &str, region: &Region) -> Result<()> {
        let others = || self.tables.iter().filter(|(other, _)| *other != name);
        let is_index = |wanted: &str| others().any(|(_, table)| table.names_index(wanted));
        if is_index(name) || self.sequences.get(name).is_some() {
            return Err(is_taken(name));
        }
        let schema = region.schema();
        let indexes = region.standing_indexes();
        // A table without a key has no name for it.
        let key = Some(schema.key_name.as_str()).filter(|name| !name.is_empty());
        let mut wanted = key.into_iter().chain(indexes.iter().map(|index| index.name.as_str()));
        let is_other =
            |wanted: &str| self.tables.contains_key(wanted) || self.sequences.get(wanted).is_some() || is_index(wanted);
        match wanted.find(|wanted| is_other(wanted)) {
            Some(wanted) => Err(is_taken(wanted)),
            None => Ok(()),
        }
    }

    /// All tables by name.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.tables.iter().map(|(name, table)| (name.as_str(), table))
    }

    /// The comments of objects, except of sharded tables, which keep their own.
    pub(crate) fn comments(&self) -> &Comments {
        &self.comments
    }

    /// The grid table of this name, as the target of DML.
    ///
    /// # Errors
    /// 42P01 if there is no such table, 42809 if it is a foreign table.
    pub fn grid(&self, name: &str) -> Result<&Arc<Region>> {
        match self.tables.get(name) {
            Some(Table::Grid(region)) => Ok(region),
            Some(Table::File(_)) => Err(Error::new(
                ErrorCode::WrongObjectType,
                format!("\"{name}\" is a foreign table over files and cannot be changed"),
            )),
            Some(Table::Sharded(_)) => {
                Err(Error::unsupported(format!("this statement on the sharded table \"{name}\" is not supported")))
            }
            None => Err(undefined_table(name)),
        }
    }

    /// The locks of sessions that are of no row, and who waits for them, as they are now.
    pub(crate) fn other_locks(&self) -> Vec<OtherLock> {
        self.other_locks.as_ref().map_or_else(Vec::new, OtherLocks::list)
    }

    /// The servers with sharded tables, if there can be any.
    pub(crate) fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.as_ref()
    }

    /// Gives a table the comments of another one, and its sequences.
    fn inherit(&mut self, of: TableId, table: TableId) {
        self.comments.inherit(of, table);
        self.sequences.inherit(of, table);
    }

    /// Whether there is a sharded table.
    pub(crate) fn has_sharded(&self) -> bool {
        self.tables.values().any(|table| matches!(table, Table::Sharded(_)))
    }
}

/// One change, kept until its transaction commits.
#[derive(Clone)]
enum Change {
    /// A name gets another table, or none.
    Name { name: String, before: Option<TableId>, after: Option<Table> },
    /// An object gets another comment, or none.
    Comment { subject: Subject, text: Option<Arc<str>> },
    /// A sequence is created, changed or dropped.
    Sequence { name: String, before: Option<NamedSequence>, after: Option<NamedSequence> },
    /// A table takes over the comments and sequences that another one has at COMMIT.
    Heir { of: TableId, table: TableId },
}

/// The changes of one transaction on top of a version.
#[derive(Clone)]
pub struct CatalogDraft {
    /// The version that the draft began with.
    base: Arc<CatalogState>,
    state: Arc<CatalogState>,
    changes: Vec<Change>,
}

impl CatalogDraft {
    /// The version with the changes.
    pub fn state(&self) -> &Arc<CatalogState> {
        &self.state
    }

    /// Whether an index that existed when the draft began is gone with its changes.
    pub(crate) fn has_lost(&self, index: &IndexDef) -> bool {
        self.base.has_index(index) && !self.state.has_index(index)
    }

    /// The number of changes: a mark for [`Catalog::rollback_to`].
    pub fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Checks that the tables which get comments or sequences still exist or are created here: a comment on any other would be lost.
    ///
    /// # Errors
    /// 40001 if one has been dropped or replaced.
    fn check_tables(&self, current: &CatalogState) -> Result<()> {
        for change in &self.changes {
            let table = match change {
                Change::Comment { subject: Subject::Of(table, _), text: Some(_) } => *table,
                Change::Sequence { after: Some(NamedSequence { column: Some((table, _)), .. }), .. } => *table,
                Change::Comment { .. } | Change::Sequence { .. } | Change::Name { .. } | Change::Heir { .. } => {
                    continue;
                }
            };
            let is_made =
                |change: &Change| matches!(change, Change::Name { after: Some(made), .. } if made.id() == table);
            if !current.tables.values().any(|known| known.id() == table) && !self.changes.iter().any(is_made) {
                let was = self.base.tables.iter().find(|(_, known)| known.id() == table);
                return Err(was_changed(was.map_or("", |(name, _)| name.as_str())));
            }
        }
        Ok(())
    }
}

/// The catalog: the current version, and the way to change it.
pub struct Catalog {
    current: ArcSwap<CatalogState>,
    /// Its epoch by itself: each statement that was planned before asks for that, and for nothing else of it.
    epoch: AtomicU64,
    epochs: AtomicU64,
    ids: AtomicU32,
    /// Held while a version is replaced. It contains the names that are reserved for tables being created on shards.
    publishing: Mutex<BTreeSet<String>>,
    /// The servers with sharded tables; set once, at startup.
    fleet: OnceLock<Arc<Fleet>>,
}

impl Catalog {
    /// A catalog with the table `kv`, where the plain keys of the RESP door live, of which these make room for others.
    ///
    /// # Errors
    /// As [`Store::create_region`].
    pub fn new(store: &Store, eviction: Eviction) -> Result<Self> {
        let empty = CatalogState { other_locks: Some(store.other_locks()), ..CatalogState::default() };
        let catalog = Self {
            epoch: AtomicU64::new(empty.epoch),
            current: ArcSwap::from_pointee(empty),
            epochs: AtomicU64::new(1),
            ids: AtomicU32::new(FIRST_TABLE_ID),
            publishing: Mutex::default(),
            fleet: OnceLock::new(),
        };
        let schema = kv_schema(catalog.next_id(), eviction);
        let region = store.create_region(Arc::new(schema))?;
        let mut draft = catalog.draft();
        catalog.put(&mut draft, "kv", Some(Table::Grid(region)));
        // As PostgreSQL says it from its birth.
        catalog.comment(&mut draft, Subject::Schema, Some("standard public schema".into()));
        catalog.publish(&draft, || Ok(()))?;
        Ok(catalog)
    }

    /// The version that new statements see.
    pub fn current(&self) -> Arc<CatalogState> {
        self.current.load_full()
    }

    /// The epoch of the current version.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The region of the grid table of this name.
    pub fn grid_table(&self, name: &str) -> Option<Arc<Region>> {
        match self.current.load().tables.get(name)? {
            Table::Grid(region) => Some(Arc::clone(region)),
            Table::File(_) | Table::Sharded(_) => None,
        }
    }

    /// All grid tables, by name.
    pub fn grid_tables(&self) -> Vec<Arc<Region>> {
        let grid = |table: &Table| match table {
            Table::Grid(region) => Some(Arc::clone(region)),
            Table::File(_) | Table::Sharded(_) => None,
        };
        self.current.load().tables.values().filter_map(grid).collect()
    }

    /// The servers with sharded tables.
    ///
    /// # Errors
    /// 0A000 if there are none: an engine without a server around it.
    pub fn fleet(&self) -> Result<&Arc<Fleet>> {
        self.fleet.get().ok_or_else(|| Error::unsupported("tables in other servers are not supported here"))
    }

    /// Sets the servers with sharded tables; only the first call counts.
    pub(crate) fn set_fleet(&self, fleet: Arc<Fleet>) {
        let _publishing = self.publishing.lock();
        let state = CatalogState { fleet: Some(Arc::clone(&fleet)), ..CatalogState::clone(&self.current.load()) };
        let _ = self.fleet.set(fleet);
        self.renew(&state);
    }

    /// An id for a new table.
    pub fn next_id(&self) -> TableId {
        TableId(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds an index to a table, which [`Region::build_index_step`] then fills. `is_gone` tells which other indexes no longer count.
    ///
    /// # Errors
    /// 42P07 if the name has been taken meanwhile, 42703 if a column is gone, 40001 if the table is.
    pub fn add_index(
        &self,
        region: &Arc<Region>,
        index: &Arc<IndexDef>,
        is_gone: impl Fn(&IndexDef) -> bool,
    ) -> Result<()> {
        let reserved = self.publishing.lock();
        let state = self.current.load();
        let is_key = |table: &Table| matches!(table, Table::Grid(region) if region.schema().key_name == index.name);
        if region.is_dropped() {
            return Err(was_changed(&region.schema().name));
        }
        let is_relation = reserved.contains(&index.name)
            || state.tables.contains_key(&index.name)
            || state.sequences.get(&index.name).is_some()
            || state.tables.values().any(is_key)
            || state.index(&index.name, is_gone).is_some();
        if is_relation {
            return Err(is_taken(&index.name));
        }
        let schema = region.committed().schema();
        if !schema.has_columns_of(index) {
            return Err(Error::new(ErrorCode::UndefinedColumn, "a column of the index does not exist any more"));
        }
        region.add_index(index);
        self.renew(&state);
        Ok(())
    }

    /// Gives an index of a table another name, for everybody at once.
    ///
    /// # Errors
    /// 42P07 if the name has been taken meanwhile, 40001 if the table or the index is gone.
    pub(crate) fn rename_index(&self, region: &Arc<Region>, index: &IndexDef, name: &str) -> Result<()> {
        let reserved = self.publishing.lock();
        let state = self.current.load();
        if region.is_dropped() || !region.every_index().iter().any(|known| known.id == index.id) {
            return Err(was_changed(&index.name));
        }
        if reserved.contains(name) || state.is_relation(name) {
            return Err(is_taken(name));
        }
        region.rename_index(index.id, name);
        self.renew(&state);
        Ok(())
    }

    /// Invalidates plans after an index has been created or dropped.
    pub(crate) fn replan(&self) {
        let _publishing = self.publishing.lock();
        self.renew(&self.current.load());
    }

    /// Replaces a version by an equal one with a new epoch.
    fn renew(&self, state: &CatalogState) {
        let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        self.replace(CatalogState { epoch, ..CatalogState::clone(state) });
    }

    /// Makes this the version that new statements see. Called while a version is replaced.
    fn replace(&self, state: CatalogState) {
        let epoch = state.epoch;
        self.current.store(Arc::new(state));
        self.epoch.store(epoch, Ordering::Release);
    }

    /// A draft on top of the current version.
    pub fn draft(&self) -> CatalogDraft {
        let base = self.current.load_full();
        CatalogDraft { state: Arc::clone(&base), base, changes: Vec::new() }
    }

    /// Gives a name to a table, or takes it away, in a draft.
    pub fn put(&self, draft: &mut CatalogDraft, name: &str, after: Option<Table>) {
        let mut next = CatalogState::clone(&draft.state);
        let before = match &after {
            Some(table) => next.tables.insert(name.to_owned(), table.clone()),
            None => next.tables.remove(name),
        };
        next.epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        draft.state = Arc::new(next);
        draft.changes.push(Change::Name { name: name.to_owned(), before: before.map(|table| table.id()), after });
    }

    /// Sets the comment of an object, or removes it, in a draft.
    pub(crate) fn comment(&self, draft: &mut CatalogDraft, subject: Subject, text: Option<Arc<str>>) {
        let mut next = CatalogState::clone(&draft.state);
        next.comments.set(subject, text.clone());
        next.epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        draft.state = Arc::new(next);
        draft.changes.push(Change::Comment { subject, text });
    }

    /// Gives a name to a sequence, or takes it away, in a draft.
    pub(crate) fn put_sequence(&self, draft: &mut CatalogDraft, name: &str, after: Option<NamedSequence>) {
        let mut next = CatalogState::clone(&draft.state);
        let before = next.sequences.get(name);
        next.sequences.set(name, after);
        next.epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        draft.state = Arc::new(next);
        draft.changes.push(Change::Sequence { name: name.to_owned(), before, after });
    }

    /// Gives a table the comments and the sequences of another one, in a draft.
    pub(crate) fn inherit(&self, draft: &mut CatalogDraft, of: TableId, table: TableId) {
        let mut next = CatalogState::clone(&draft.state);
        next.inherit(of, table);
        next.epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        draft.state = Arc::new(next);
        draft.changes.push(Change::Heir { of, table });
    }

    /// Undoes the changes of a draft after `mark`; returns the tables that it had created and no longer needs.
    pub fn rollback_to(&self, draft: &mut CatalogDraft, mark: usize) -> Vec<TableId> {
        let undone = draft.changes.split_off(mark.min(draft.changes.len()));
        let kept = std::mem::take(&mut draft.changes);
        // On the picture that the draft was begun on: what others have published since is a conflict at COMMIT.
        draft.state = Arc::clone(&draft.base);
        for change in kept {
            match change {
                Change::Name { name, after, .. } => self.put(draft, &name, after),
                Change::Comment { subject, text } => self.comment(draft, subject, text),
                Change::Sequence { name, after, .. } => self.put_sequence(draft, &name, after),
                Change::Heir { of, table } => self.inherit(draft, of, table),
            }
        }
        let is_known = |id: &TableId| {
            let names = |state: &CatalogState| state.tables.values().any(|table| table.id() == *id);
            names(&draft.base) || names(&draft.state)
        };
        let made = undone.into_iter().filter_map(|change| match change {
            Change::Name { after, .. } => after.map(|table| table.id()),
            Change::Comment { .. } | Change::Sequence { .. } | Change::Heir { .. } => None,
        });
        made.filter(|id| !is_known(id)).collect()
    }

    /// Reserves names for a table that is being created on shards: until the result is dropped, nothing else can get one of them.
    ///
    /// # Errors
    /// 42P07 if a name is taken or reserved.
    pub(crate) fn reserve(&self, names: Vec<String>) -> Result<Reserved<'_>> {
        let mut reserved = self.publishing.lock();
        let state = self.current.load();
        if let Some(taken) = names.iter().find(|name| reserved.contains(*name) || state.is_relation(name)) {
            return Err(is_taken(taken));
        }
        reserved.extend(names.iter().cloned());
        Ok(Reserved { catalog: self, names })
    }

    /// Publishes the changes of a draft together with the rows that `commit_rows` commits: both or none. Returns the tables that lost
    /// their name.
    ///
    /// # Errors
    /// 40001 if another transaction has changed one of the names since the draft began, or replaced a table that gets a comment; 42P07 if
    /// a new name has been taken or reserved since; and the errors of `commit_rows`.
    pub fn publish(&self, draft: &CatalogDraft, commit_rows: impl FnOnce() -> Result<()>) -> Result<Vec<TableId>> {
        self.publish_with(draft, &[], commit_rows)
    }

    /// The same; `own`: names that are kept for these changes.
    fn publish_with(
        &self,
        draft: &CatalogDraft,
        own: &[String],
        commit_rows: impl FnOnce() -> Result<()>,
    ) -> Result<Vec<TableId>> {
        let reserved = self.publishing.lock();
        let mut next = CatalogState::clone(&self.current.load());
        draft.check_tables(&next)?;
        let is_reserved = |name: &String| reserved.contains(name) && !own.contains(name);
        let mut dropped = Vec::new();
        for change in &draft.changes {
            let (name, before, after) = match change {
                Change::Name { name, before, after } => (name, before, after),
                Change::Comment { subject, text } => {
                    next.comments.set(*subject, text.clone());
                    continue;
                }
                Change::Sequence { name, before, after } => {
                    let is_new = before.is_none() && after.is_some();
                    if is_new && (next.is_relation(name) || is_reserved(name)) {
                        return Err(is_taken(name));
                    }
                    if next.sequences.get(name) != *before {
                        return Err(was_changed(name));
                    }
                    next.sequences.set(name, *after);
                    continue;
                }
                Change::Heir { of, table } => {
                    next.inherit(*of, *table);
                    continue;
                }
            };
            let found = next.tables.get(name).map(Table::id);
            if found != *before {
                return Err(was_changed(name));
            }
            dropped.extend(found);
            match after {
                Some(table) => next.tables.insert(name.clone(), table.committed()),
                None => next.tables.remove(name),
            };
        }
        for change in &draft.changes {
            let Change::Name { name: own_name, after: Some(table), .. } = change else { continue };
            // The last of several changes counts.
            if next.tables.get(own_name).map(Table::id) != Some(table.id()) {
                continue;
            }
            let mut others = reserved.iter().filter(|name| is_reserved(name));
            if let Some(name) = others.find(|name| *name == own_name || table.names_index(name)) {
                return Err(is_taken(name));
            }
            match table {
                Table::Grid(region) => next.check_names(own_name, region)?,
                Table::File(_) | Table::Sharded(_) if next.sequences.get(own_name).is_some() => {
                    return Err(is_taken(own_name));
                }
                Table::File(_) | Table::Sharded(_) => {}
            }
        }
        dropped.retain(|id| !next.tables.values().any(|table| table.id() == *id));
        commit_rows()?;
        // After the rows: with them tables have got their new columns.
        next.comments.forget_gone(next.tables.values());
        next.sequences.forget_gone(next.tables.values());
        next.epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        self.replace(next);
        Ok(dropped)
    }
}

/// Names that are kept for a table that is being made elsewhere, until this is dropped.
#[must_use]
pub(crate) struct Reserved<'c> {
    catalog: &'c Catalog,
    names: Vec<String>,
}

impl Reserved<'_> {
    /// As [`Catalog::publish`], of the table that they are kept for.
    pub(crate) fn publish(&self, draft: &CatalogDraft) -> Result<()> {
        self.catalog.publish_with(draft, &self.names, || Ok(())).map(drop)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut reserved = self.catalog.publishing.lock();
        for name in &self.names {
            reserved.remove(name);
        }
    }
}

fn is_taken(name: &str) -> Error {
    Error::new(ErrorCode::DuplicateTable, format!("relation \"{name}\" already exists"))
}

/// 40001: somebody else was faster.
pub(crate) fn was_changed(name: &str) -> Error {
    let message = format!("relation \"{name}\" was changed by a concurrent transaction");
    Error::new(ErrorCode::SerializationFailure, message)
}

fn kv_schema(id: TableId, eviction: Eviction) -> TableSchema {
    let column = |ordinal: u32, name: &str| ColumnDef {
        id: ColumnId(ordinal),
        name: name.to_owned(),
        sql_type: SqlType::Scalar(ScalarType::Bytea),
        nullable: false,
        default: None,
    };
    TableSchema {
        id,
        name: "kv".to_owned(),
        version: 0,
        columns: vec![column(0, "key"), column(1, "value")],
        key: vec![0],
        key_name: "kv_pkey".to_owned(),
        partition_by: vec![0],
        hidden_key: false,
        life: LifeOptions { eviction, ..LifeOptions::default() },
        checks: Vec::new(),
    }
}

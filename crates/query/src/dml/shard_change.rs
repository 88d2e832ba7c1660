//! UPDATE and DELETE of rows of a sharded table that no shard can find by itself, or that move to another shard: the
//! engine finds the rows and computes their new values, and each shard changes its own rows by primary key.
//!
//! ```text
//! query ──▶ rows, each with its version ──▶ locked on their shards ──▶ each as it was read ──▶ DELETE, UPDATE, INSERT of constants
//!   ▲                                                │
//!   └──────────── once more, for those that are not ─┘
//! ```
//!
//! Planned by `statement` when the router has found no way to the shards; run by the session, which has the
//! connections. All rows are locked, and everything is computed, before the first row is changed: a statement does not
//! see its own changes, and one that fails has changed nothing. The rows are charged to the query's memory while they
//! are held. Defaults, and columns that are not set, keep their values even when a row moves to another shard.
//!
//! **Concurrent changes.** At READ COMMITTED, PostgreSQL finds a row by the statement's snapshot and locks it, which
//! waits for a transaction that is changing it. If the row has changed, PostgreSQL evaluates WHERE and SET again on the
//! new version; if it is gone, it skips the row. The same happens here:
//!
//! - A row that is locked in the version that was read is what the query saw, and stays so until the transaction ends,
//!   so the values computed from it hold.
//! - If a shard returns another version, or none, the query runs again. By then the shard holds the lock, so the query
//!   reads the current version or no longer finds the row.
//! - A row that is missing has been deleted or has another key now. In the latter case the second run finds it under
//!   the new key, as PostgreSQL finds it by following the row; it is locked then.
//! - A second run may find rows that the first could not have found yet. The statement would have found them, too, had
//!   it run a moment later.
//! - If a row has moved to another shard, the second run begins only when everything that is committed on some shards
//!   is committed on all of them.
//! - Rows that have not changed keep the values computed first, so a volatile expression such as `random()` is
//!   evaluated once for each version of a row.
//!
//! A statement that each shard runs by itself does not follow rows: one that has already run on the new shard, and then
//! waits for the row on the old one, would miss it. So rows move between shards only while nobody else can change or
//! lock rows of the table on either shard.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Error, ErrorCode, Result, SqlType, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::route::no_key;
use ashlar_shard::rules::{Placement, Shard, ShardId};
use ashlar_store::{ColumnReader, ReadView, Store};
use datafusion::sql::sqlparser::ast::{Statement as AstStatement, With};
use futures::StreamExt;

pub use self::rows::{Batch, ChangedRows};
use self::rows::{Row, State};
use super::change::{Finding, Target, deleted_from};
use super::literal::{no_text, type_name, write_literal};
use super::run::Outcome;
use super::spread::WHOLE_BYTES_MAX;
use super::{Outputs, Returning};
use crate::assign::Assigned;
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::resources::StatementResources;
use crate::select::SelectPlan;
use crate::sharded::ddl::physical;
use crate::sharded::{ShardedTable, VERSION_TYPE, version};

/// A planned UPDATE or DELETE of rows that the engine finds and shards change; see the module.
pub struct ShardChangePlan {
    /// The table.
    pub table: Arc<ShardedTable>,
    /// Types of the parameters.
    pub parameter_types: Vec<SqlType>,
    verb: Verb,
    found: Finding,
    /// Whether a row may move to another shard.
    moves: bool,
    /// Whether a row may get another primary key.
    changes_key: bool,
    /// Whether the statement has a WHERE clause.
    is_conditional: bool,
    zone: Zone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Update,
    Delete,
}

/// The steps of a change. All shards complete one step before any of them begins the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Deletes rows, among them those that move to another shard.
    Delete,
    /// Updates rows in place.
    Update,
    /// Inserts rows that have left another shard.
    Insert,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 3] = [Self::Delete, Self::Update, Self::Insert];
}

impl ShardChangePlan {
    /// Plans the statement.
    ///
    /// # Errors
    /// Errors of names and types; 0A000 if a shard could not identify the rows.
    pub(crate) fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        table: &Arc<ShardedTable>,
        (with, change): (Option<With>, AstStatement),
        declared: &[u32],
    ) -> Result<Self> {
        let (schema, rule) = (&table.schema, &table.routed.rule);
        let moves = |assigned: &[usize]| assigned.iter().any(|ordinal| rule.key().contains(ordinal));
        let row = |assigned: &[usize], returned: &[usize]| {
            // What goes to another shard goes there whole.
            let (is_whole, version) = (moves(assigned), schema.columns.len());
            let is_read = |ordinal: &usize| is_whole || schema.key.contains(ordinal) || returned.contains(ordinal);
            (0..version).filter(is_read).chain([version]).collect::<Vec<usize>>()
        };
        let (verb, is_conditional, found) = match change {
            AstStatement::Update(update) => {
                let (target, is_conditional) = (Target::of_shards(table, &update.table)?, update.selection.is_some());
                (Verb::Update, is_conditional, Finding::updated(engine, catalog, with, update, declared, &target, row)?)
            }
            AstStatement::Delete(delete) => {
                let target = Target::of_shards(table, deleted_from(&delete)?)?;
                (
                    Verb::Delete,
                    delete.selection.is_some(),
                    Finding::deleted(engine, catalog, with, delete, declared, &target, row)?,
                )
            }
            _ => return Err(Error::internal("this is no UPDATE and no DELETE")),
        };
        if schema.key.is_empty() {
            return Err(Error::unsupported(format!(
                "rows of table \"{}\" that no shard finds by itself cannot be changed: it has no primary key",
                schema.name
            ))
            .with_hint("Give the table a primary key, or the statement conditions that a shard can answer."));
        }
        let (moves, zone) = (moves(&found.assigned), engine.zone());
        let changes_key = moves || found.assigned.iter().any(|ordinal| schema.key.contains(ordinal));
        let (table, parameter_types) = (Arc::clone(table), found.select.parameter_types.clone());
        Ok(Self { table, parameter_types, verb, found, moves, changes_key, is_conditional, zone })
    }

    /// Checks a statement in a session that refuses changes without the sharding key. Only a statement without any condition is refused:
    /// which keys a condition on other tables selects is not known before their rows are read.
    ///
    /// # Errors
    /// 21000
    pub fn check_key(&self) -> Result<()> {
        let rule = &self.table.routed.rule;
        if self.is_conditional || rule.placement() != Placement::Sharded || rule.shards().len() < 2 {
            return Ok(());
        }
        let columns = &self.table.schema.columns;
        let names: Vec<&str> = rule.key().iter().map(|at| columns[*at].name.as_str()).collect();
        Err(no_key(&self.table.schema.name, &names))
    }

    /// The query that finds the rows.
    pub fn select(&self) -> &SelectPlan {
        &self.found.select
    }

    /// The RETURNING clause.
    pub fn returning(&self) -> Option<&Returning> {
        self.found.returning.as_ref()
    }

    /// The statement's first word.
    pub fn verb(&self) -> &'static str {
        match self.verb {
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        }
    }

    /// What happens to the rows, for EXPLAIN.
    pub fn describe(&self) -> String {
        let what = match (self.verb, self.moves) {
            (Verb::Delete, _) => "deleted",
            (Verb::Update, false) => "updated",
            (Verb::Update, true) => "updated, or moved to another shard,",
        };
        format!("Route: engine, whose rows of {} are locked, and {what} by primary key", self.table.schema.name)
    }

    /// The estimated size of the plan in bytes.
    pub(crate) fn bytes(&self) -> Result<usize> {
        Ok(size_of::<Self>() + self.found.select.bytes()?)
    }

    /// Finds the rows and computes their new values, in addition to rows that were found before and are locked. Must run on the engine's
    /// pool.
    ///
    /// # Errors
    /// Errors of evaluation and assignment; 23502 and 22023 for a key that no shard takes; 53200 if the rows do not fit in memory.
    pub async fn find(
        &self,
        engine: &Engine,
        parameters: &[Value],
        view: Arc<ReadView>,
        resources: &StatementResources,
        before: Option<ChangedRows>,
    ) -> Result<ChangedRows> {
        let mut rows = before.unwrap_or_else(|| ChangedRows::new(&resources.runtime().memory_pool));
        rows.begin();
        let mut stream = self.found.select.stream(engine, parameters, view, resources).await?;
        while let Some(batch) = stream.next().await {
            self.take(&batch.map_err(from_datafusion)?, &mut rows)?;
        }
        Ok(rows)
    }

    /// The rows that the query returns.
    fn take(&self, batch: &RecordBatch, rows: &mut ChangedRows) -> Result<()> {
        let reading = Reading::new(self, batch)?;
        for place in 0..batch.num_rows() {
            let (shard, version) = reading.version(place)?;
            let key: Arc<str> = reading.key(place)?.into();
            // A row that several rows of other tables find is changed once.
            if !rows.is_wanted(shard, &key, version) {
                continue;
            }
            let set = reading.set.iter().map(|assigned| assigned.value(place)).collect::<Result<Vec<Value>>>()?;
            let target = reading.target(place, shard, &set)?;
            rows.push(Row {
                shard,
                target,
                key,
                version: version.into(),
                values: reading.values(place, target != shard, &set)?.into(),
                returned: reading.returned(place, &set)?,
                state: State::Asked,
            })?;
        }
        Ok(())
    }

    /// The numbers of the shards that rows move from or to.
    pub fn moving(&self, rows: &ChangedRows) -> BTreeSet<usize> {
        rows.present().filter(|row| row.target != row.shard).flat_map(|row| [row.shard, row.target]).collect()
    }

    /// The statement that keeps others from changing or locking rows of a shard's table, but not from reading them.
    pub fn closing(&self, shard: &Shard) -> String {
        format!("LOCK TABLE {} IN EXCLUSIVE MODE", physical(shard))
    }

    /// The statement that locks rows which were read. It returns each row's number in the batch, and the version that is locked.
    pub fn locking(&self, rows: &ChangedRows, batch: &Batch) -> String {
        // As PostgreSQL's own UPDATE, which lets others refer to the row as long as its key stays.
        let strength = match (self.verb, self.changes_key) {
            (Verb::Update, false) => "NO KEY UPDATE",
            _ => "UPDATE",
        };
        let given = rows.list(batch, |number, row| format!("({number}, {})", row.key));
        let names: Vec<String> = std::iter::once("n".to_owned()).chain(self.key_names()).collect();
        let version = version(ShardId(u16::try_from(batch.shard).unwrap_or(u16::MAX)), "target.");
        format!(
            "SELECT CAST(given.n AS text) || ' ' || {version} FROM {} AS target, (VALUES {given}) AS given ({}) \
             WHERE {} ORDER BY given.n FOR {strength} OF target",
            physical(&self.table.routed.rule.shards()[batch.shard]),
            names.join(", "),
            self.is_given()
        )
    }

    /// Divides the rows of a step into batches, each for one statement on one shard. Rows of a shard stay in the order in which they were
    /// found.
    ///
    /// # Errors
    /// 54000 if rows that have to be in one statement are too long for it.
    pub fn batches(&self, step: Step, rows: &ChangedRows) -> Result<Vec<Batch>> {
        let is_move = |row: &Row| row.target != row.shard;
        let batches = match (step, self.verb) {
            (Step::Delete, verb) => {
                rows.batches(|row| verb == Verb::Delete || is_move(row), |row| (row.shard, row.key.len()), false)
            }
            // Of rows whose keys change a later statement might find one under its new key.
            (Step::Update, Verb::Update) => {
                let size = |row: &Row| (row.shard, row.key.len() + row.values.len());
                rows.batches(|row| !is_move(row), size, self.changes_key)
            }
            (Step::Insert, Verb::Update) => rows.batches(is_move, |row| (row.target, row.values.len()), false),
            (Step::Update | Step::Insert, Verb::Delete) => Vec::new(),
        };
        if batches.iter().any(|batch| batch.count() > 1 && batch.bytes() > WHOLE_BYTES_MAX) {
            return Err(Error::new(
                ErrorCode::ProgramLimitExceeded,
                format!("rows of one shard whose keys change can have at most {WHOLE_BYTES_MAX} bytes"),
            )
            .with_hint("Use several statements, in one transaction."));
        }
        Ok(batches)
    }

    /// The statement that a shard is sent for a batch of rows.
    pub fn text(&self, step: Step, shard: &Shard, rows: &ChangedRows, batch: &Batch) -> String {
        let table = physical(shard);
        let columns = &self.table.schema.columns;
        match step {
            Step::Delete => {
                let given = rows.list(batch, |_, row| format!("({})", row.key));
                let names: Vec<String> = self.key_names().collect();
                let names = names.join(", ");
                let condition = self.is_given();
                format!("DELETE FROM {table} AS target USING (VALUES {given}) AS given ({names}) WHERE {condition}")
            }
            Step::Update => {
                let given = rows.list(batch, |_, row| format!("({}, {})", row.key, row.values));
                let assigned = &self.found.assigned;
                let set = assigned.iter().enumerate().map(|(number, ordinal)| {
                    let column = &columns[*ordinal];
                    format!("{} = CAST(given.s{number} AS {})", quote_ident(&column.name), type_name(column.sql_type))
                });
                let set: Vec<String> = set.collect();
                let values = (0..assigned.len()).map(|number| format!("s{number}"));
                let names: Vec<String> = self.key_names().chain(values).collect();
                format!(
                    "UPDATE {table} AS target SET {} FROM (VALUES {given}) AS given ({}) WHERE {}",
                    set.join(", "),
                    names.join(", "),
                    self.is_given()
                )
            }
            Step::Insert => {
                let given = rows.list(batch, |_, row| format!("({})", row.values));
                let names: Vec<String> = columns.iter().map(|column| quote_ident(&column.name)).collect();
                format!("INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE VALUES {given}", names.join(", "))
            }
        }
    }

    /// Names of the primary key's values among those that are given.
    fn key_names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.table.schema.key.len()).map(|number| format!("k{number}"))
    }

    /// That a row is one that is given.
    fn is_given(&self) -> String {
        let equal = self.table.schema.key.iter().enumerate().map(|(number, ordinal)| {
            let column = &self.table.schema.columns[*ordinal];
            format!("target.{} = CAST(given.k{number} AS {})", quote_ident(&column.name), type_name(column.sql_type))
        });
        equal.collect::<Vec<String>>().join(" AND ")
    }

    /// Whether the rows of a step count for the command tag. A row that moves is counted when it is inserted.
    pub fn is_counted(&self, step: Step) -> bool {
        step != Step::Delete || self.verb == Verb::Delete
    }

    /// Whether a shard has to carry out a step for each of its rows: half of a move would lose a row, and RETURNING was computed here.
    pub fn is_exact(&self, step: Step) -> bool {
        let is_move = match step {
            Step::Delete => self.verb == Verb::Update,
            Step::Update => false,
            Step::Insert => true,
        };
        is_move || self.returning().is_some()
    }

    /// The numbers of the shards that must be asked whether their tables do more than they are told (triggers, foreign keys, generated
    /// columns), and whether rows move from or to each.
    pub fn in_question(&self, rows: &ChangedRows) -> BTreeMap<usize, bool> {
        let mut shards = BTreeMap::new();
        for row in rows.settled() {
            if row.target != row.shard {
                shards.insert(row.shard, true);
                shards.insert(row.target, true);
            } else if self.returning().is_some() {
                shards.entry(row.shard).or_insert(false);
            }
        }
        shards
    }

    /// The query that asks a shard what its table does in addition; each row of the result is a reason to refuse. If a row moves, no trigger
    /// may fire for its DELETE and INSERT, no foreign key may refer to it, and the shard's table must have no other columns. If rows are
    /// returned, nothing there may change the values that were computed here.
    pub fn question(&self, shard: &Shard, is_move: bool) -> String {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let table = format!("{}::pg_catalog.regclass", literal(&physical(shard)));
        let fires = match (is_move, self.verb) {
            (true, _) => "",
            // BEFORE, for each row: of an UPDATE, or of a DELETE.
            (false, Verb::Update) => " AND (t.tgtype & 19) = 19",
            (false, Verb::Delete) => " AND (t.tgtype & 11) = 11",
        };
        let mut question = format!(
            "SELECT 'it has a trigger' FROM pg_catalog.pg_trigger t \
             WHERE (t.tgrelid = {table} OR t.tgrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree({table}) p)) \
             AND NOT t.tgisinternal AND t.tgenabled <> 'D'{fires} \
             UNION ALL SELECT 'it has a rule' FROM pg_catalog.pg_rewrite r WHERE r.ev_class = {table} \
             UNION ALL SELECT 'it has a generated column' FROM pg_catalog.pg_attribute a \
             WHERE a.attrelid = {table} AND a.attgenerated <> '' AND NOT a.attisdropped"
        );
        if is_move {
            let names: Vec<String> = self.table.schema.columns.iter().map(|column| literal(&column.name)).collect();
            question.push_str(&format!(
                " UNION ALL SELECT 'another table refers to it' FROM pg_catalog.pg_constraint c \
                 WHERE c.confrelid = {table} AND c.contype = 'f' \
                 UNION ALL SELECT 'it has a column that is not known here' FROM pg_catalog.pg_attribute a \
                 WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped AND a.attname NOT IN ({})",
                names.join(", ")
            ));
        }
        question
    }

    /// The error (0A000) for a reason that a shard has given.
    pub fn refusal(&self, shard: &Shard, is_move: bool, why: &str) -> Error {
        let (table, server) = (&self.table.schema.name, &shard.server);
        if is_move {
            let message = format!("rows of table \"{table}\" cannot go to another shard: on shard \"{server}\" {why}");
            return Error::unsupported(message).with_hint("Delete the rows and insert them anew, in one transaction.");
        }
        let message =
            format!("what RETURNING gives of rows of table \"{table}\" is not known: on shard \"{server}\" {why}");
        Error::unsupported(message).with_hint("Read the rows by a statement of its own, in the same transaction.")
    }

    /// The error (55000) for rows of a shard with the same primary key: the constraint was dropped on the server itself.
    pub fn not_unique(&self, shard: &Shard) -> Error {
        let (table, server) = (&self.table.schema.name, &shard.server);
        let message = format!("shard \"{server}\" has rows of table \"{table}\" with one primary key");
        Error::new(ErrorCode::ObjectNotInPrerequisiteState, message)
            .with_hint("Where the key was dropped on the shard, drop it here as well.")
    }

    /// Whether the table is copied to all servers, which are then all sent the same.
    pub fn is_copied(&self) -> bool {
        self.table.routed.rule.placement() == Placement::Broadcast
    }

    /// The outcome of the statement, which has changed `count` rows.
    ///
    /// # Errors
    /// 53200
    pub fn outcome(&self, rows: ChangedRows, store: &Store, count: u64) -> Result<Outcome> {
        let mut outcome = Outcome::new(store);
        outcome.count = count;
        if self.returning().is_some() {
            rows.into_settled().try_for_each(|row| outcome.keep(row.returned))?;
        }
        Ok(outcome)
    }
}

/// A batch of the query's rows.
struct Reading<'b> {
    plan: &'b ShardChangePlan,
    /// Columns of the row, then its version.
    read: Vec<ColumnReader<'b>>,
    /// New values.
    set: Vec<Assigned<'b>>,
    /// What comes back, where the query computes it.
    shown: Vec<ColumnReader<'b>>,
}

impl<'b> Reading<'b> {
    fn new(plan: &'b ShardChangePlan, batch: &'b RecordBatch) -> Result<Self> {
        let Finding { select, row, assigned, returning, .. } = &plan.found;
        let (columns, output) = (&plan.table.schema.columns, select.schema());
        let mut read = Vec::with_capacity(row.len());
        for (place, ordinal) in row.iter().enumerate() {
            let sql_type = columns.get(*ordinal).map_or(VERSION_TYPE, |column| column.sql_type);
            read.push(ColumnReader::new(batch.column(place), sql_type)?);
        }
        let mut set = Vec::with_capacity(assigned.len());
        for (number, ordinal) in assigned.iter().enumerate() {
            let place = row.len() + number;
            set.push(Assigned::new(batch.column(place), output.field(place), &columns[*ordinal], plan.zone)?);
        }
        let shown = match returning.as_ref().map(|returning| &returning.outputs) {
            Some(Outputs::Found(outputs)) => {
                let reader =
                    |output: &usize| ColumnReader::new(batch.column(*output), select.columns[*output].sql_type);
                outputs.iter().map(reader).collect::<Result<_>>()?
            }
            Some(Outputs::Plain(_)) | None => Vec::new(),
            Some(Outputs::Query(_)) => return Err(Error::internal("a query over changed rows is for INSERT")),
        };
        Ok(Self { plan, read, set, shown })
    }

    /// The shard that a row was read from, and its version.
    fn version(&self, place: usize) -> Result<(usize, &str)> {
        let shards = self.plan.table.routed.rule.shards().len();
        let number = |version: &str| version.split_once(' ')?.0.parse::<usize>().ok().filter(|shard| *shard < shards);
        let found = match self.read.last().map(|version| version.datum(place)) {
            Some(Datum::Text(version)) => number(version).map(|shard| (shard, version)),
            _ => None,
        };
        found.ok_or_else(|| Error::internal("a row of a shard came without its version"))
    }

    /// The value of a column before the change.
    fn old(&self, ordinal: usize, place: usize) -> Result<Datum<'_>> {
        match self.plan.found.row.binary_search(&ordinal) {
            Ok(at) => Ok(self.read[at].datum(place)),
            Err(_) => Err(Error::internal("a column of a row was not read")),
        }
    }

    /// The same after it.
    fn new_value<'v>(&'v self, ordinal: usize, place: usize, set: &'v [Value]) -> Result<Datum<'v>> {
        match self.plan.found.assigned.iter().position(|assigned| *assigned == ordinal) {
            Some(at) => Ok(set[at].as_datum()),
            None => self.old(ordinal, place),
        }
    }

    /// The primary key as constants.
    fn key(&self, place: usize) -> Result<String> {
        self.constants(&self.plan.table.schema.key, |ordinal| self.old(ordinal, place))
    }

    /// What a shard is given of a row besides: the values that are set; all of them where it does not have the row yet.
    fn values(&self, place: usize, is_move: bool, set: &[Value]) -> Result<String> {
        let all: Vec<usize> = (0..self.plan.table.schema.columns.len()).collect();
        let ordinals = if is_move { &all } else { &self.plan.found.assigned };
        self.constants(ordinals, |ordinal| self.new_value(ordinal, place, set))
    }

    fn constants<'v>(&self, ordinals: &[usize], value: impl Fn(usize) -> Result<Datum<'v>>) -> Result<String> {
        let (mut out, mut scratch) = (Vec::new(), Vec::new());
        for (number, ordinal) in ordinals.iter().enumerate() {
            if number > 0 {
                out.extend_from_slice(b", ");
            }
            let sql_type = self.plan.table.schema.columns[*ordinal].sql_type;
            write_literal(sql_type, &value(*ordinal)?, &mut scratch, &mut out);
        }
        String::from_utf8(out).map_err(|_| no_text())
    }

    /// Which of the rule's shards is to have a row.
    fn target(&self, place: usize, shard: usize, set: &[Value]) -> Result<usize> {
        if !self.plan.moves {
            return Ok(shard);
        }
        let routed = &self.plan.table.routed;
        let key = routed.rule.key().iter().map(|ordinal| self.new_value(*ordinal, place, set));
        Ok(routed.shard_of(&key.collect::<Result<Vec<_>>>()?)?.index())
    }

    /// What comes back of a row.
    fn returned(&self, place: usize, set: &[Value]) -> Result<Vec<Value>> {
        match self.plan.returning().map(|returning| &returning.outputs) {
            Some(Outputs::Plain(ordinals)) => {
                let value = |ordinal: &usize| self.new_value(*ordinal, place, set).map(|datum| datum.to_value());
                ordinals.iter().map(value).collect()
            }
            _ => Ok(self.shown.iter().map(|reader| reader.datum(place).to_value()).collect()),
        }
    }
}

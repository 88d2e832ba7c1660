//! TRUNCATE and ALTER TABLE of sharded tables: in a transaction on every shard, which commits on all or on none.
//!
//! A change is noted on disk after its last shard has made it: what a crash leaves behind the same statement makes known, ADD COLUMN
//! with IF NOT EXISTS.

use std::slice;
use std::sync::Arc;

use ashlar_base::{ColumnDefault, Error, ErrorCode, Result, TableSchema};
use ashlar_shard::fleet::Fleet;
use ashlar_shard::rules::{Extension, Placement, Shard};
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint, ObjectType, TruncateStmt,
};
use pg_query::{Node, NodeEnum};
use tokio::sync::MutexGuard;

use super::checks::{Names, constraints, is_kind};
use super::ddl::{at_shard, define_in, done_but, everywhere, for_each_server, physical};
use super::dropped_keys::DroppedKeys;
use super::maintain::{in_block_refused, on_shard};
use super::rule::quoted;
use super::stored_definition::{BETWEEN, StoredKey, StoredTable, changed, keep, kept_of};
use super::{ShardedTable, attach, retyped};
use crate::catalog::{CatalogState, Table};
use crate::ddl::{Done, relation_name};
use crate::engine::Engine;
use crate::resources::StatementResources;
use crate::statement::statement_text;

/// What a shard says of a constraint that it has already.
const DUPLICATE_OBJECT: &str = "42710";

/// The same of a key, and of a primary key.
const DUPLICATE_KEY: [&str; 2] = ["42P07", "42P16"];

/// The sharded table of a name.
pub(crate) fn find(state: &CatalogState, name: &str) -> Option<Arc<ShardedTable>> {
    match state.table(name)? {
        Table::Sharded(table) => Some(Arc::clone(table)),
        Table::Grid(_) | Table::File(_) => None,
    }
}

/// Waits until nobody else changes what tables are, and lets nobody do so while the guard is held.
///
/// # Errors
/// 55000 where one of these, which the statement has found before, is not the table of its name any more.
pub(super) async fn altering<'f>(
    engine: &Engine,
    fleet: &'f Fleet,
    tables: &[Arc<ShardedTable>],
) -> Result<MutexGuard<'f, ()>> {
    let altering = fleet.altering().lock().await;
    let state = engine.catalog().current();
    tables.iter().try_for_each(|table| check_same(&state, table))?;
    Ok(altering)
}

/// 55000 where another table has the name of one that was found before, or none.
fn check_same(state: &CatalogState, table: &Arc<ShardedTable>) -> Result<()> {
    let name = &table.schema.name;
    if find(state, name).is_some_and(|now| Arc::ptr_eq(&now, table)) { Ok(()) } else { Err(changed(name)) }
}

/// The sharded table that a TRUNCATE is about; `None` where it names none.
///
/// # Errors
/// 0A000 where it is not all that it is about.
pub(crate) fn truncated(
    state: &CatalogState,
    statement: &TruncateStmt,
    in_block: bool,
) -> Result<Option<Arc<ShardedTable>>> {
    let mut found = None;
    for relation in &statement.relations {
        if let Some(NodeEnum::RangeVar(relation)) = &relation.node {
            found = found.or(find(state, &relation_name(Some(relation))?));
        }
    }
    if found.is_some() && (statement.relations.len() > 1 || in_block) {
        return Err(Error::unsupported("TRUNCATE of a sharded table together with others is not supported")
            .with_hint("Truncate it by a statement of its own, or DELETE its rows."));
    }
    Ok(found)
}

/// What a shard is sent to empty tables of these names. CASCADE is not sent: a shard that would empty another table as well, maybe a part of
/// one that others have, too, refuses instead.
pub(super) fn truncate_text(statement: &TruncateStmt, names: &str) -> String {
    let end = if statement.restart_seqs { " RESTART IDENTITY" } else { "" };
    format!("TRUNCATE {names}{end}")
}

/// TRUNCATE of a sharded table.
///
/// # Errors
/// What a shard says; then no row is gone.
pub(crate) async fn truncate(
    table: &ShardedTable,
    statement: &TruncateStmt,
    resources: &StatementResources,
) -> Result<Done> {
    let work = for_each_server(table, |shard| Ok(format!("{};", truncate_text(statement, &physical(shard)))))?;
    let left = everywhere(&table.fleet, resources, &work).await?;
    Ok(done_but(Done::tag("TRUNCATE TABLE"), &left))
}

/// ALTER TABLE of a sharded table: columns, CHECK constraints and keys that come and go, types, defaults and NOT NULL.
///
/// # Errors
/// 0A000 for another change, of columns of the rule, and for a default that copies would compute; 55000 where the table is not what it was;
/// 42701, 42703, 42704, 42710; what is wrong with a column, and what a shard says. Then nothing has changed on any.
pub(crate) async fn alter(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &AlterTableStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    if in_block {
        return Err(in_block_refused("ALTER TABLE"));
    }
    let fleet = &table.fleet;
    let name = &table.schema.name;
    // One after the other: the second is to find the first's columns, or that there is nothing to do.
    let _altering = altering(engine, fleet, slice::from_ref(table)).await?;
    let before = kept_of(fleet, name)?;
    let now = StoredTable::read(name, &before)?;
    let (cmds, notices) = Changes::of(table, &now, statement)?;
    let done = Done { notices, ..Done::tag("ALTER TABLE") };
    if cmds.is_empty() {
        return Ok(done);
    }
    let plain = AlterTableStmt { cmds, missing_ok: false, ..statement.clone() };
    let text = format!("{before}{BETWEEN}{}", statement_text(&NodeEnum::AlterTableStmt(plain.clone()))?);
    let altered = redefined(engine, table, &text)?;
    check_rule(table, &altered)?;
    check_copies(table, &altered.schema)?;
    retyped::check(table, &altered, &plain.cmds, resources).await?;
    let keys = DroppedKeys::of(table, &now, &plain.cmds, resources).await?;
    let mut work = for_each_server(&altered, |shard| {
        let mut sent = plain.clone();
        sent.cmds = keys.at(shard, &plain.cmds);
        if sent.cmds.is_empty() {
            return Ok(String::new());
        }
        name_keys_at(shard, table, &mut sent.cmds)?;
        at_shard(&mut sent.relation, shard);
        statement_text(&NodeEnum::AlterTableStmt(sent)).map(|text| format!("{text};"))
    })?;
    work.retain(|(_, text)| !text.is_empty());
    if retyped::retypes(&plain.cmds) {
        // What a time without a zone means as one with it.
        let zone = format!("SET LOCAL TimeZone TO {};", quoted(&engine.zone().to_string()));
        work.iter_mut().for_each(|(_, text)| text.insert_str(0, &zone));
    }
    let left = match everywhere(fleet, resources, &work).await {
        // A constraint that a crash has left is made known, where all shards have it and nothing else differs.
        Err(error) if error.sqlstate() == DUPLICATE_OBJECT || is_of_key(&error, &plain.cmds) => {
            let then = StoredTable::read(name, &text)?;
            if error.sqlstate() != DUPLICATE_OBJECT && then.has_twins() {
                return Err(error);
            }
            attach::check(&altered, &then.made, resources, false, &Extension::default()).await.map_err(|_| error)?;
            Vec::new()
        }
        Err(error) if error.code() == ErrorCode::TransactionResolutionUnknown => {
            return Err(error.with_hint("Alter the table again, with IF EXISTS and IF NOT EXISTS."));
        }
        ended => ended?,
    };
    // What they have prepared has other columns now, and would be refused there.
    work.iter().for_each(|(server, _)| fleet.forget(server));
    make_known(engine, altered, &before, &text)?;
    Ok(done_but(done, &left))
}

/// What an ALTER TABLE changes, one command after the other.
struct Changes<'a> {
    table: &'a ShardedTable,
    /// The table as it is.
    now: &'a StoredTable,
    /// The columns after those commands.
    columns: Vec<&'a str>,
    /// The names of its constraints.
    names: Names<'a>,
    notices: Vec<Error>,
}

impl<'a> Changes<'a> {
    /// The commands in the order in which PostgreSQL runs them, without what is so already, and what is said of that.
    fn of(
        table: &'a ShardedTable,
        now: &'a StoredTable,
        statement: &'a AlterTableStmt,
    ) -> Result<(Vec<Node>, Vec<Error>)> {
        if statement.objtype != ObjectType::ObjectTable as i32 {
            return Err(other_form());
        }
        let mut commands: Vec<&'a AlterTableCmd> = Vec::new();
        for command in &statement.cmds {
            if let Some(NodeEnum::AlterTableCmd(command)) = &command.node {
                commands.push(command);
            }
        }
        commands.sort_by_key(|command| pass(command));
        let columns = table.schema.columns.iter().map(|column| column.name.as_str()).collect();
        let names = Names::of(&table.schema.name, now);
        let mut changes = Self { table, now, columns, names, notices: Vec::new() };
        let mut wanted = Vec::new();
        for command in commands {
            let change = changes.change(command)?.map(|command| NodeEnum::AlterTableCmd(Box::new(command)));
            wanted.extend(change.map(|node| Node { node: Some(node) }));
        }
        if changes.columns.is_empty() {
            return Err(Error::unsupported("a sharded table without columns is not supported"));
        }
        Ok((wanted, changes.notices))
    }

    /// A command as all shards are to carry it out; `None`: it changes nothing.
    fn change(&mut self, command: &'a AlterTableCmd) -> Result<Option<AlterTableCmd>> {
        let mut sent = command.clone();
        let def = sent.def.as_mut().and_then(|def| def.node.as_mut());
        let is_change = match (AlterTableType::try_from(command.subtype), def) {
            (Ok(AlterTableType::AtAddColumn), Some(NodeEnum::ColumnDef(column))) => {
                let adds = self.adds(command)?;
                if adds {
                    self.names.give_all(&mut column.constraints)?;
                }
                adds
            }
            (Ok(AlterTableType::AtAddConstraint), Some(NodeEnum::Constraint(constraint)))
                if constraint.contype == ConstrType::ConstrCheck as i32 =>
            {
                self.names.give(constraint)?;
                true
            }
            // Each shard names those that were given no name.
            (Ok(AlterTableType::AtAddConstraint), Some(NodeEnum::Constraint(constraint)))
                if is_key(constraint) && !constraint.deferrable && constraint.indexname.is_empty() =>
            {
                // Whether another key has the name the shards say.
                let name = &constraint.conname;
                if !name.is_empty() && self.now.key(name).is_none() {
                    self.names.take(name)?;
                }
                true
            }
            (Ok(AlterTableType::AtColumnDefault | AlterTableType::AtSetNotNull | AlterTableType::AtDropNotNull), _) => {
                if !self.columns.contains(&command.name.as_str()) {
                    return Err(self.no_column(&command.name));
                }
                if command.subtype == AlterTableType::AtColumnDefault as i32 {
                    check_free(self.table, &command.name, "given another default")?;
                }
                true
            }
            (Ok(AlterTableType::AtAlterColumnType), _) => {
                if !self.columns.contains(&command.name.as_str()) {
                    return Err(self.no_column(&command.name));
                }
                check_free(self.table, &command.name, "given another type")?;
                true
            }
            // What a crash has left is dropped again.
            (Ok(AlterTableType::AtDropColumn), _) => {
                sent.missing_ok = true;
                self.drops(command)?
            }
            (Ok(AlterTableType::AtDropConstraint), _) => {
                sent.missing_ok = true;
                let dropped = self.drops_constraint(command)?;
                let drops = dropped.is_some();
                sent.name = dropped.unwrap_or_default();
                drops
            }
            _ => return Err(other_form()),
        };
        Ok(is_change.then_some(sent))
    }

    /// Whether ADD COLUMN adds one.
    fn adds(&mut self, command: &'a AlterTableCmd) -> Result<bool> {
        let def = command.def.as_ref().and_then(|def| def.node.as_ref());
        let Some(NodeEnum::ColumnDef(column)) = def else { return Err(other_form()) };
        if self.columns.contains(&column.colname.as_str()) {
            return self.skip(command, duplicate(self.table, &column.colname));
        }
        check_default(self.table, column)?;
        self.columns.push(&column.colname);
        Ok(true)
    }

    /// Whether DROP COLUMN drops one.
    fn drops(&mut self, command: &AlterTableCmd) -> Result<bool> {
        let name = &command.name;
        let Some(place) = self.columns.iter().position(|column| column == name) else {
            return self.skip(command, self.no_column(name));
        };
        check_free(self.table, name, "dropped")?;
        self.columns.remove(place);
        Ok(true)
    }

    /// The constraint that DROP CONSTRAINT drops, if there is one, by the name that it is kept with.
    fn drops_constraint(&mut self, command: &AlterTableCmd) -> Result<Option<String>> {
        let name = command.name.as_str();
        let check = ConstrType::ConstrCheck as i32;
        let is_check = |constraint: &Constraint| constraint.contype == check && constraint.conname == *name;
        if constraints(&self.now.made).any(is_check) {
            self.names.forget(name);
            return Ok(Some(name.to_owned()));
        }
        let own = &self.table.schema;
        // A primary key that was given no name has one that follows the table's where it is shown.
        let is_shown = |key: &&StoredKey| key.is_primary && own.key_name == *name;
        let Some(key) = self.now.key(name).or_else(|| self.now.keys.iter().find(is_shown)) else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", own.name);
            return self.skip(command, Error::new(ErrorCode::UndefinedObject, message)).map(|_| None);
        };
        // Shards have made one of them where both came with the table, and two where one came later.
        let is_twin = |other: &StoredKey| !other.is_primary && other.columns == key.columns;
        if key.is_primary && self.now.keys.iter().any(is_twin) {
            let why = "a UNIQUE constraint has the columns of this primary key";
            return Err(Error::unsupported(format!("dropping constraint \"{name}\" is not supported: {why}"))
                .with_hint("Drop that one before."));
        }
        self.names.forget(&key.name);
        Ok(Some(key.name.clone()))
    }

    /// What there is already, or is not there: nothing to do where the command says so, else an error.
    fn skip(&mut self, command: &AlterTableCmd, error: Error) -> Result<bool> {
        if !command.missing_ok {
            return Err(error);
        }
        // What is there already has its code; what is not there is no error at all.
        let is_there = error.code() == ErrorCode::DuplicateColumn;
        let code = if is_there { error.code() } else { ErrorCode::SuccessfulCompletion };
        self.notices.push(Error::new(code, format!("{}, skipping", error.message())));
        Ok(false)
    }

    fn no_column(&self, name: &str) -> Error {
        let own = &self.table.schema.name;
        let message = format!("column \"{name}\" of relation \"{own}\" does not exist");
        Error::new(ErrorCode::UndefinedColumn, message)
    }
}

fn is_key(constraint: &Constraint) -> bool {
    [ConstrType::ConstrPrimary as i32, ConstrType::ConstrUnique as i32].contains(&constraint.contype)
}

/// Whether it may be a key that is added of which a shard says that it has it.
fn is_of_key(error: &Error, cmds: &[Node]) -> bool {
    let adds_key = |command: &Node| {
        let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { return false };
        let def = command.def.as_ref().and_then(|def| def.node.as_ref());
        matches!(def, Some(NodeEnum::Constraint(constraint)) if is_key(constraint))
    };
    DUPLICATE_KEY.contains(&error.sqlstate()) && cmds.iter().any(adds_key)
}

/// Gives keys that come the names that they have on a shard.
fn name_keys_at(shard: &Shard, table: &ShardedTable, cmds: &mut [Node]) -> Result<()> {
    for command in cmds {
        if let Some(NodeEnum::AlterTableCmd(command)) = &mut command.node
            && let Some(def) = &mut command.def
            && let Some(NodeEnum::Constraint(constraint)) = &mut def.node
            && is_key(constraint)
            && !constraint.conname.is_empty()
        {
            constraint.conname = on_shard(&constraint.conname, table, shard)?;
        }
    }
    Ok(())
}

/// When PostgreSQL runs a command among those of its statement.
fn pass(command: &AlterTableCmd) -> u8 {
    match AlterTableType::try_from(command.subtype) {
        Ok(AlterTableType::AtDropColumn | AlterTableType::AtDropConstraint | AlterTableType::AtDropNotNull) => 0,
        Ok(AlterTableType::AtColumnDefault) if command.def.is_none() => 0,
        Ok(AlterTableType::AtAlterColumnType) => 1,
        Ok(AlterTableType::AtAddColumn) => 2,
        _ => 3,
    }
}

/// The table as it would be with what is kept of it then.
///
/// # Errors
/// 55000 where the table is not what it was; what is wrong with it.
pub(super) fn redefined(engine: &Engine, table: &Arc<ShardedTable>, text: &str) -> Result<ShardedTable> {
    redefined_as(engine, table, text, &table.schema.name)
}

/// The same with another name for the table.
///
/// # Errors
/// As [`redefined`].
pub(super) fn redefined_as(engine: &Engine, table: &Arc<ShardedTable>, text: &str, name: &str) -> Result<ShardedTable> {
    // Beside the tables that stay: what it is called is not taken by itself.
    let mut draft = engine.catalog().draft();
    check_same(draft.state(), table)?;
    engine.catalog().put(&mut draft, &table.schema.name, None);
    // As it is read again at start.
    let kept = StoredTable::read(name, text)?;
    let defined = define_in(engine, &table.fleet, draft.state(), name, &kept.made, kept.keys)?;
    Ok(ShardedTable { comments: kept.comments, ..defined })
}

/// Keeps what a table has become on its shards, and shows it to everybody.
///
/// # Errors
/// 55000 where what was kept is not `before`; 58030.
pub(super) fn make_known(engine: &Engine, altered: ShardedTable, before: &str, text: &str) -> Result<()> {
    let name = altered.schema.name.clone();
    keep(&altered.fleet, &name, before, text)?;
    let mut draft = engine.catalog().draft();
    engine.catalog().put(&mut draft, &name, Some(Table::Sharded(Arc::new(altered))));
    engine.catalog().publish(&draft, || Ok(())).map(drop)
}

pub(super) fn other_form() -> Error {
    Error::unsupported("this form of ALTER TABLE of a sharded table is not supported")
}

pub(super) fn duplicate(table: &ShardedTable, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" already exists", table.schema.name);
    Error::new(ErrorCode::DuplicateColumn, message)
}

/// The column that a rule makes values for.
fn generated(table: &ShardedTable) -> Option<&str> {
    let (ordinal, _) = table.routed.rule.generated()?;
    table.schema.columns.get(ordinal).map(|column| column.name.as_str())
}

/// 0A000 for columns that the rule of a table names: who has read the rule as it was would look for rows on the wrong shards.
pub(super) fn check_free(table: &ShardedTable, column: &str, what: &str) -> Result<()> {
    let is_key = |ordinal: &usize| table.schema.columns.get(*ordinal).is_some_and(|key| key.name == column);
    if !table.routed.rule.key().iter().any(is_key) && generated(table) != Some(column) {
        return Ok(());
    }
    let own = &table.schema.name;
    let message = format!("column \"{column}\" is of the rule of table \"{own}\", and cannot be {what}");
    let hint = "Make a table with the new rule, and INSERT the rows of this one into it.";
    Err(Error::unsupported(message).with_hint(hint))
}

/// 0A000 where columns that have changed would give a table another rule.
pub(super) fn check_rule(table: &ShardedTable, altered: &ShardedTable) -> Result<()> {
    if generated(table) == generated(altered) && table.routed.rule.shards() == altered.routed.rule.shards() {
        return Ok(());
    }
    Err(Error::unsupported("another key that is generated cannot be given to a table by a change of its columns")
        .with_hint("Name the column: ALTER TABLE ... SET (generated_column = '...')."))
}

/// 0A000 for a default that each copy of a table would compute by itself.
fn check_default(table: &ShardedTable, column: &ColumnDef) -> Result<()> {
    let is_default = |node: &Node| is_kind(node, ConstrType::ConstrDefault);
    if table.routed.rule.placement() == Placement::Broadcast && column.constraints.iter().any(is_default) {
        return Err(Error::unsupported("a column with a default cannot be added to a table that is on all servers")
            .with_hint("Add it without a default, and UPDATE the table."));
    }
    Ok(())
}

/// 0A000 where columns of copies are to have a computed default from now on: an INSERT that was planned before, and waits behind the change,
/// leaves such a column out, and each copy would compute a value of its own.
fn check_copies(table: &ShardedTable, altered: &TableSchema) -> Result<()> {
    if table.routed.rule.placement() != Placement::Broadcast {
        return Ok(());
    }
    let is_computed = |default: &Option<ColumnDefault>| matches!(default, Some(ColumnDefault::Expression(_)));
    let was_computed =
        |name: &str| table.schema.columns.iter().any(|column| column.name == name && is_computed(&column.default));
    match altered.columns.iter().find(|column| is_computed(&column.default) && !was_computed(&column.name)) {
        None => Ok(()),
        Some(column) => {
            let name = &column.name;
            let message =
                format!("column \"{name}\" of a table that is on all servers cannot be given a computed default");
            Err(Error::unsupported(message).with_hint("Make a table with it, and INSERT the rows of this one into it."))
        }
    }
}

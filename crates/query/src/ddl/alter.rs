//! ALTER TABLE: columns come, go and get other names and defaults; tables and keys get other names.
//!
//! No row is rewritten, but for a primary key and for most types: see `primary_key` and `retype`. On its own a statement is
//! done when it returns; in a block it is part of the transaction: the block sees the table in its new shape, everybody
//! else from the commit on.

use std::sync::Arc;

use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, Error, ErrorCode, Eviction, IndexDef, Result, Sequence, SequenceKind,
    TableSchema,
};
use ashlar_functions::error::undefined_table;
use ashlar_store::{Region, Snapshot};
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, ObjectType, RenameStmt,
};

use super::{
    Done, check, constraint_kind, defaults, definition, dependents, exists, index, named_sequence, options,
    primary_key, relation_name, retype, sequence, unique,
};
use crate::catalog::{Catalog, CatalogDraft, CatalogState, Table};
use crate::engine::Engine;
use crate::key_plan::altered;
use crate::resources::StatementResources;
use crate::sequences::NamedSequence;
use crate::transaction::Transaction;

/// More than a table can have columns.
const IDS_PER_VERSION: u32 = 1 << 12;

/// The table of the RESP door's plain keys.
pub(super) const PLAIN_KEYS: &str = "kv";

/// 42501: the RESP door counts on the table as it is.
pub(super) fn no_alter() -> Error {
    Error::new(ErrorCode::InsufficientPrivilege, "cannot alter table kv")
}

/// 0A000 for ALTER INDEX, which is parsed as ALTER TABLE; RENAME is a statement of its own.
fn refuse_index(kind: i32) -> Result<()> {
    if kind == ObjectType::ObjectIndex as i32 {
        return Err(Error::unsupported("ALTER INDEX of anything but the name is not supported")
            .with_hint("DROP INDEX, then CREATE INDEX."));
    }
    Ok(())
}

/// The region whose shape may be changed. `is_kept`: its columns stay as they are.
fn alterable(state: &CatalogState, name: &str, missing_ok: bool, is_kept: bool) -> Result<Option<Arc<Region>>> {
    match state.table(name) {
        None if missing_ok => Ok(None),
        None => Err(undefined_table(name)),
        Some(Table::File(_)) => Err(Error::unsupported("ALTER of a foreign table is not supported")),
        Some(Table::Sharded(_)) => Err(Error::internal("a sharded table is altered on its shards")),
        Some(Table::Grid(_)) if name == PLAIN_KEYS && !is_kept => Err(no_alter()),
        Some(Table::Grid(region)) => Ok(Some(Arc::clone(region))),
    }
}

/// What a new shape changes of how columns count.
#[derive(Default)]
struct Counting {
    /// Sequences that go with columns from now on.
    sequences: Vec<(String, NamedSequence)>,
    /// Columns that begin to count, and with which number; none in a block.
    begins: Vec<(ColumnId, i64)>,
}

impl Counting {
    fn put(&self, catalog: &Catalog, draft: &mut CatalogDraft) {
        for (name, sequence) in &self.sequences {
            catalog.put_sequence(draft, name, Some(*sequence));
        }
    }
}

/// When a table gets its new shape.
enum When<'s> {
    /// Now. New CHECK constraints are known to let the rows be there that the snapshot sees.
    AtOnce(Option<&'s Snapshot>),
    /// When the block ends that the statement is part of.
    InBlock,
}

/// Gives a table its new shape, and in it its new name.
fn apply(
    engine: &Engine,
    transaction: &mut Transaction,
    name: &str,
    region: &Arc<Region>,
    mut schema: TableSchema,
    counting: &Counting,
    when: When<'_>,
) -> Result<()> {
    if let When::AtOnce(checked) = when {
        return apply_at_once(engine, name, region, schema, counting, checked);
    }
    let catalog = engine.catalog();
    if schema != *region.schema() {
        let version = schema.version;
        schema.version += 1;
        let schema = Arc::new(schema);
        let snapshot = transaction.snapshot(engine.store());
        let region = transaction.writes.alter(region, version, Arc::clone(&schema), &snapshot)?;
        name_it(catalog, transaction.draft(catalog), (name, &schema.name), region);
    }
    if !counting.sequences.is_empty() {
        counting.put(catalog, transaction.draft(catalog));
    }
    Ok(())
}

/// Gives a table its new shape, and in it its new name, for everybody.
fn apply_at_once(
    engine: &Engine,
    name: &str,
    region: &Arc<Region>,
    mut schema: TableSchema,
    counting: &Counting,
    checked: Option<&Snapshot>,
) -> Result<()> {
    let before = region.schema();
    let version = schema.version;
    let is_same = schema == *before;
    if is_same && counting.sequences.is_empty() {
        return Ok(());
    }
    let catalog = engine.catalog();
    // Shape, name and sequences change together or not at all, whoever takes the name meanwhile.
    let mut draft = catalog.draft();
    if !is_same {
        schema.version += 1;
        name_it(catalog, &mut draft, (name, &schema.name), Arc::clone(region));
    }
    counting.put(catalog, &mut draft);
    let schema = Arc::new(schema);
    let counts = |id: ColumnId| {
        let mut columns = before.columns.iter();
        columns.any(|column| column.id == id && matches!(column.default, Some(ColumnDefault::Sequence(_))))
    };
    let begin = |are_counting: bool| {
        let begins = counting.begins.iter().filter(|(column, _)| counts(*column) == are_counting);
        begins.for_each(|(column, number)| region.restart_numbers(*column, *number));
    };
    let alter = || {
        if region.schema().version != version {
            return Err(altered(&schema));
        }
        // Before anybody can be given a number; of a column that counts only once nothing can fail any more.
        begin(false);
        if !is_same {
            region.alter_after(Arc::clone(&schema), checked)?;
        }
        begin(true);
        Ok(())
    };
    catalog.publish(&draft, alter).map(drop)
}

/// Has a table that was called `from` be called `to`, which may be the same.
fn name_it(catalog: &Catalog, draft: &mut CatalogDraft, (from, to): (&str, &str), region: Arc<Region>) {
    if to != from {
        catalog.put(draft, from, None);
    }
    catalog.put(draft, to, Some(Table::Grid(region)));
}

/// Says which plain keys of the RESP door make room for others: `ALTER TABLE kv SET (eviction = ...)` by itself.
///
/// # Errors
/// 40001 where somebody else alters the table at the same time.
pub fn set_eviction_of_plain_keys(engine: &Engine, eviction: Eviction) -> Result<()> {
    let region = engine.catalog().grid_table(PLAIN_KEYS).ok_or_else(|| undefined_table(PLAIN_KEYS))?;
    let mut schema = TableSchema::clone(&region.schema());
    schema.life.eviction = eviction;
    apply_at_once(engine, PLAIN_KEYS, &region, schema, &Counting::default(), None)
}

/// ALTER TABLE
pub(super) async fn alter(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &AlterTableStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    refuse_index(statement.objtype)?;
    let name = relation_name(statement.relation.as_ref())?;
    let state = transaction.catalog(engine.catalog());
    let is_kept = statement.cmds.iter().all(sets_options);
    let Some(region) = alterable(&state, &name, statement.missing_ok, is_kept)? else {
        return Ok(Done::notice(
            "ALTER TABLE",
            ErrorCode::SuccessfulCompletion,
            format!("relation \"{name}\" does not exist, skipping"),
        ));
    };
    if retype::rewrites(&region.schema(), &statement.cmds)? {
        Box::pin(retype::rewrite(engine, transaction, &region, &statement.cmds, in_block, resources)).await?;
        return Ok(Done::tag("ALTER TABLE"));
    }
    let mut alteration = Alteration {
        engine,
        state: &state,
        name: &name,
        in_block,
        schema: TableSchema::clone(&region.schema()),
        done: Done::tag("ALTER TABLE"),
        restarts: Vec::new(),
        counting: Counting::default(),
        added: Vec::new(),
        dropped: Vec::new(),
        checks: Vec::new(),
    };
    for command in &statement.cmds {
        let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
        if let Some(key) = added_primary_key(command) {
            if statement.cmds.len() > 1 {
                return Err(beside_others());
            }
            check::refuse_name(&alteration.schema, &key.conname)?;
            Box::pin(primary_key::add(engine, transaction, &region, key, in_block, resources)).await?;
            return Ok(alteration.done);
        }
        alteration.take(command, &region, transaction)?;
    }
    let Alteration { schema, done, restarts, counting, added, dropped, checks, .. } = alteration;
    // What a constraint finds in the rows must not come after another part of the statement is done.
    if !added.is_empty() && (added.len() > 1 || schema != *region.schema()) {
        return Err(beside_others());
    }
    // Outside of a block most rows are looked at before the table is locked: the store looks at those that come meanwhile. It looks at all
    // where a constraint may read a column that comes with the statement.
    let before = region.schema();
    let is_there = |column: &ColumnDef| before.columns.iter().any(|known| known.id == column.id);
    let mut checked = None;
    if !in_block && schema.columns.iter().all(is_there) {
        for check in &checks {
            let seen = Box::pin(check::check_rows(engine, transaction, &name, check, resources)).await?;
            checked = checked.or(Some(seen));
        }
    }
    let when = if in_block { When::InBlock } else { When::AtOnce(checked.as_ref()) };
    apply(engine, transaction, &name, &region, schema, &counting, when)?;
    for check in checks.iter().filter(|_| in_block) {
        Box::pin(check::check_rows(engine, transaction, &name, check, resources)).await?;
    }
    for index in dropped {
        transaction.drop_index(Arc::clone(&region), index);
    }
    for constraint in added {
        unique::add(engine, transaction, &region, constraint).await?;
    }
    for (column, number) in restarts {
        region.restart_numbers(column, number);
    }
    Ok(done)
}

/// The constraint of ADD PRIMARY KEY.
fn added_primary_key(command: &AlterTableCmd) -> Option<&Constraint> {
    let is_added = command.subtype == AlterTableType::AtAddConstraint as i32;
    constraint_of(command)
        .filter(|constraint| is_added && matches!(constraint_kind(constraint.contype), ConstrType::ConstrPrimary))
}

/// What the commands of one ALTER TABLE add up to. Nothing is changed until all of them have been read.
struct Alteration<'a> {
    engine: &'a Engine,
    state: &'a Arc<CatalogState>,
    name: &'a str,
    in_block: bool,
    /// The shape that the table gets.
    schema: TableSchema,
    done: Done,
    /// Columns whose counters go on with another number.
    restarts: Vec<(ColumnId, i64)>,
    counting: Counting,
    /// Unique constraints.
    added: Vec<unique::Stated>,
    /// The indexes of unique constraints.
    dropped: Vec<Arc<IndexDef>>,
    /// CHECK constraints, which the shape has already.
    checks: Vec<check::Added>,
}

impl Alteration<'_> {
    /// Notes what one command changes. ADD PRIMARY KEY is not among them: it stands by itself.
    fn take(&mut self, command: &AlterTableCmd, region: &Arc<Region>, transaction: &Transaction) -> Result<()> {
        match AlterTableType::try_from(command.subtype).unwrap_or(AlterTableType::Undefined) {
            AlterTableType::AtAddColumn => self.add_column(command, region, transaction.writes.may_hold_rows(region)),
            AlterTableType::AtDropColumn => self.drop_column(command),
            AlterTableType::AtColumnDefault => self.set_default(command),
            AlterTableType::AtAlterColumnType => retype::in_place(&mut self.schema, command, region),
            AlterTableType::AtAddIdentity => self.add_identity(command),
            AlterTableType::AtSetIdentity => self.restart(command),
            AlterTableType::AtSetNotNull => self.set_not_null(command),
            AlterTableType::AtDropNotNull => self.drop_not_null(command),
            AlterTableType::AtAddConstraint => match constraint_of(command) {
                Some(constraint) => self.add_constraint(constraint, region),
                None => Ok(()),
            },
            AlterTableType::AtDropConstraint => {
                self.drop_constraint(command, unique::find(region, transaction, &command.name))
            }
            AlterTableType::AtSetRelOptions => options::set(&mut self.schema.life, list_of(command)),
            AlterTableType::AtResetRelOptions => options::reset(&mut self.schema.life, list_of(command)),
            _ => Err(Error::unsupported("this form of ALTER TABLE is not supported")),
        }
    }

    fn add_constraint(&mut self, constraint: &Constraint, region: &Region) -> Result<()> {
        match constraint_kind(constraint.contype) {
            ConstrType::ConstrCheck => self.add_check(constraint, region),
            ConstrType::ConstrUnique => {
                check::refuse_name(&self.schema, &constraint.conname)?;
                self.added.push(unique::stated(constraint, None)?);
                Ok(())
            }
            other => Err(definition::unsupported_constraint(other)),
        }
    }

    /// The column that a command names.
    fn ordinal(&self, command: &AlterTableCmd) -> Result<usize> {
        self.schema.column(&command.name).ok_or_else(|| no_column(&self.schema, &command.name))
    }

    fn add_check(&mut self, constraint: &Constraint, region: &Region) -> Result<()> {
        self.checks.push(check::added(self.engine, self.state, region, &mut self.schema, constraint)?);
        Ok(())
    }

    fn add_column(&mut self, command: &AlterTableCmd, region: &Region, has_rows: bool) -> Result<()> {
        let Some(NodeEnum::ColumnDef(column)) = command.def.as_ref().and_then(|def| def.node.as_ref()) else {
            return Ok(());
        };
        if self.schema.column(&column.colname).is_none() {
            for constraint in add_column(self.engine, self.state, has_rows, &mut self.schema, column)? {
                self.add_check(&constraint, region)?;
            }
            return Ok(());
        }
        let message = format!("column \"{}\" of relation \"{}\" already exists", column.colname, self.name);
        if !command.missing_ok {
            return Err(Error::new(ErrorCode::DuplicateColumn, message));
        }
        self.done.notices.push(Error::new(ErrorCode::DuplicateColumn, format!("{message}, skipping")));
        Ok(())
    }

    fn drop_column(&mut self, command: &AlterTableCmd) -> Result<()> {
        match self.schema.column(&command.name) {
            Some(ordinal) => {
                let place = (self.schema.id, self.schema.columns[ordinal].id);
                let named = dependents::of(self.state, |table, column| (table, column) == place)?;
                if !named.is_empty() {
                    let object = format!("column {} of table {}", command.name, self.name);
                    return Err(dependents::refusal(&object, &named).with_hint("Drop these defaults before."));
                }
                drop_column(&mut self.schema, ordinal)
            }
            None if command.missing_ok => {
                self.done.notices.push(Error::new(
                    ErrorCode::SuccessfulCompletion,
                    format!("column \"{}\" of relation \"{}\" does not exist, skipping", command.name, self.name),
                ));
                Ok(())
            }
            None => Err(no_column(&self.schema, &command.name)),
        }
    }

    /// SET DEFAULT and DROP DEFAULT.
    fn set_default(&mut self, command: &AlterTableCmd) -> Result<()> {
        let ordinal = self.ordinal(command)?;
        refuse_identity(&self.schema, ordinal)?;
        let column = &self.schema.columns[ordinal];
        let default = match &command.def {
            None => None,
            Some(def) => match named_sequence::called(self.state, def, self.schema.id, column)? {
                Some((name, sequence)) => {
                    // A sequence that is the column's already goes on where it is.
                    let is_new = self.state.sequence(&name).is_none_or(|known| known.column.is_none());
                    if !self.in_block && is_new {
                        self.counting.begins.push((column.id, sequence.counts.start));
                    }
                    let counts = sequence.counts;
                    self.counting.sequences.push((name, sequence));
                    Some(ColumnDefault::Sequence(counts))
                }
                None => defaults::of(self.engine, self.state, def, column)?,
            },
        };
        self.schema.columns[ordinal].default = default;
        Ok(())
    }

    fn add_identity(&mut self, command: &AlterTableCmd) -> Result<()> {
        let ordinal = self.ordinal(command)?;
        let Some(constraint) = constraint_of(command) else { return Ok(()) };
        let counts = added_identity(&self.schema, ordinal, constraint)?;
        let column = self.schema.columns[ordinal].id;
        if let Some(name) = named_sequence::given_name(self.state, &constraint.options)? {
            let sequence = NamedSequence { counts, column: Some((self.schema.id, column)) };
            self.counting.sequences.push((name, sequence));
        }
        if !self.in_block {
            self.counting.begins.push((column, counts.start));
        }
        self.schema.columns[ordinal].default = Some(ColumnDefault::Sequence(counts));
        Ok(())
    }

    /// RESTART of an identity column.
    fn restart(&mut self, command: &AlterTableCmd) -> Result<()> {
        let ordinal = self.ordinal(command)?;
        let number = restart(&self.schema, ordinal, command, self.in_block)?;
        self.restarts.push((self.schema.columns[ordinal].id, number));
        Ok(())
    }

    fn set_not_null(&mut self, command: &AlterTableCmd) -> Result<()> {
        let ordinal = self.ordinal(command)?;
        // The table's own rows are checked when it gets its shape.
        if self.in_block && self.schema.columns[ordinal].nullable {
            return Err(Error::unsupported("SET NOT NULL in a transaction block is not supported")
                .with_hint("Use a statement of its own."));
        }
        self.schema.columns[ordinal].nullable = false;
        Ok(())
    }

    fn drop_not_null(&mut self, command: &AlterTableCmd) -> Result<()> {
        let ordinal = self.ordinal(command)?;
        if self.schema.key.contains(&ordinal) {
            return Err(Error::new(
                ErrorCode::InvalidTableDefinition,
                format!("column \"{}\" is in a primary key", command.name),
            ));
        }
        refuse_identity(&self.schema, ordinal)?;
        self.schema.columns[ordinal].nullable = true;
        Ok(())
    }

    /// `index` is that of the unique constraint of the name that the command says, where there is one.
    fn drop_constraint(&mut self, command: &AlterTableCmd, index: Option<Arc<IndexDef>>) -> Result<()> {
        let name = &command.name;
        if let Some(index) = index {
            self.dropped.push(index);
            return Ok(());
        }
        if let Some(at) = self.schema.checks.iter().position(|check| check.name == *name) {
            self.schema.checks.remove(at);
            return Ok(());
        }
        if !self.schema.hidden_key && self.schema.key_name == *name {
            return Err(Error::unsupported("dropping the primary key of a table is not supported"));
        }
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", self.schema.name);
        if !command.missing_ok {
            return Err(Error::new(ErrorCode::UndefinedObject, message));
        }
        self.done.notices.push(Error::new(ErrorCode::SuccessfulCompletion, format!("{message}, skipping")));
        Ok(())
    }
}

/// The constraint that a command is about.
fn constraint_of(command: &AlterTableCmd) -> Option<&Constraint> {
    match command.def.as_ref().and_then(|def| def.node.as_ref()) {
        Some(NodeEnum::Constraint(constraint)) => Some(constraint),
        _ => None,
    }
}

fn beside_others() -> Error {
    Error::unsupported("adding a constraint beside other changes in one ALTER TABLE is not supported")
        .with_hint("Use statements of their own.")
}

/// Whether a command is about the options of a table only.
fn sets_options(command: &pg_query::Node) -> bool {
    let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { return false };
    let subtype = AlterTableType::try_from(command.subtype);
    matches!(subtype, Ok(AlterTableType::AtSetRelOptions | AlterTableType::AtResetRelOptions))
}

/// The elements of a command's list.
fn list_of(command: &AlterTableCmd) -> &[pg_query::Node] {
    match command.def.as_ref().and_then(|def| def.node.as_ref()) {
        Some(NodeEnum::List(list)) => list.items.as_slice(),
        _ => &[],
    }
}

/// 42601 for what an identity column cannot lose.
fn refuse_identity(schema: &TableSchema, ordinal: usize) -> Result<()> {
    let column = &schema.columns[ordinal];
    match &column.default {
        Some(ColumnDefault::Sequence(sequence)) if sequence.kind != SequenceKind::Serial => Err(Error::new(
            ErrorCode::SyntaxError,
            format!("column \"{}\" of relation \"{}\" is an identity column", column.name, schema.name),
        )),
        _ => Ok(()),
    }
}

/// `ALTER COLUMN ... ADD GENERATED ... AS IDENTITY`: how the column counts.
///
/// # Errors
/// 55000 where it can be NULL or has a default; as for an identity column of a new table.
fn added_identity(schema: &TableSchema, ordinal: usize, constraint: &Constraint) -> Result<Sequence> {
    let column = &schema.columns[ordinal];
    let is_wrong = |what: &str| {
        let message = format!("column \"{}\" of relation \"{}\" {what}", column.name, schema.name);
        Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message))
    };
    let counts = sequence::of_added_identity(constraint, column.sql_type)?;
    if column.nullable {
        return is_wrong("must be declared NOT NULL before identity can be added");
    }
    match &column.default {
        Some(ColumnDefault::Sequence(known)) if known.kind != SequenceKind::Serial => {
            is_wrong("is already an identity column")
        }
        Some(_) => is_wrong("already has a default value"),
        None => Ok(counts),
    }
}

/// `ALTER COLUMN ... RESTART [WITH n]`: gives the number that the column's counter goes on with.
fn restart(schema: &TableSchema, ordinal: usize, command: &AlterTableCmd, in_block: bool) -> Result<i64> {
    let column = &schema.columns[ordinal];
    let Some(ColumnDefault::Sequence(counts)) = &column.default else {
        let message = format!("column \"{}\" of relation \"{}\" is not an identity column", column.name, schema.name);
        return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message));
    };
    match sequence::restart(list_of(command), counts)? {
        Some(_) if in_block => Err(Error::unsupported("RESTART in a transaction block is not supported")),
        Some(number) => Ok(number),
        None => Err(Error::unsupported("only RESTART [WITH number] of an identity column can be altered")),
    }
}

pub(super) fn no_column(schema: &TableSchema, name: &str) -> Error {
    Error::new(ErrorCode::UndefinedColumn, format!("column \"{name}\" of relation \"{}\" does not exist", schema.name))
}

/// Adds a column: the CHECK constraints that stand with it, which are still to be added.
fn add_column(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    has_rows: bool,
    schema: &mut TableSchema,
    column: &pg_query::protobuf::ColumnDef,
) -> Result<Vec<Constraint>> {
    let next = schema.columns.iter().map(|column| column.id.0 + 1).max().unwrap_or(0);
    // Ids are never used twice: segments may still hold a dropped column's values. Each version of a shape has ids of
    // its own.
    let first = (schema.version + 1).checked_mul(IDS_PER_VERSION).ok_or_else(|| {
        let message = format!("table \"{}\" has been altered too often", schema.name);
        Error::new(ErrorCode::ProgramLimitExceeded, message).with_hint("CREATE TABLE ... AS makes a fresh one.")
    })?;
    let id = ColumnId(next.max(first));
    let (mut definition, constraints) = definition::column_def(engine, catalog, &schema.name, column, 0)?;
    definition.id = id;
    if constraints.primary_key.is_some() {
        return Err(Error::unsupported("adding a primary key to a table is not supported"));
    }
    if !constraints.uniques.is_empty() {
        return Err(Error::unsupported("adding a column with a UNIQUE constraint is not supported")
            .with_hint("Add the column, then the constraint."));
    }
    match &definition.default {
        Some(ColumnDefault::Constant(_)) | None => {}
        Some(ColumnDefault::Expression(_) | ColumnDefault::Sequence(_)) => {
            if has_rows {
                return Err(Error::unsupported(
                    "adding a column with a default that is not a constant is not supported",
                )
                .with_hint("Add it without a default, set the values with UPDATE, then SET DEFAULT."));
            }
        }
    }
    if !definition.nullable && definition.default.is_none() && has_rows {
        return Err(Error::new(
            ErrorCode::NotNullViolation,
            format!("column \"{}\" of relation \"{}\" contains null values", definition.name, schema.name),
        ));
    }
    let place = schema.visible_columns().len();
    schema.columns.insert(place, definition);
    if schema.hidden_key {
        let last = schema.columns.len() - 1;
        schema.key = vec![last];
        schema.partition_by = vec![last];
    }
    Ok(constraints.checks)
}

fn drop_column(schema: &mut TableSchema, ordinal: usize) -> Result<()> {
    if schema.key.contains(&ordinal) || schema.partition_by.contains(&ordinal) {
        return Err(Error::unsupported("dropping a column of the primary key is not supported"));
    }
    let removed = schema.columns.remove(ordinal);
    schema.checks.retain(|known| !check::is_about(known, removed.id));
    for place in schema.key.iter_mut().chain(schema.partition_by.iter_mut()) {
        if *place > ordinal {
            *place -= 1;
        }
    }
    Ok(())
}

/// ALTER TABLE ... RENAME
pub(super) fn rename(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &RenameStmt,
    in_block: bool,
) -> Result<Done> {
    let name = relation_name(statement.relation.as_ref())?;
    let state = transaction.catalog(engine.catalog());
    // By either word, PostgreSQL renames either.
    let (is_named, tag) = match ObjectType::try_from(statement.rename_type) {
        Ok(ObjectType::ObjectIndex) => (true, "ALTER INDEX"),
        Ok(ObjectType::ObjectTable) => (true, "ALTER TABLE"),
        _ => (false, "ALTER TABLE"),
    };
    if is_named
        && state.table(&name).is_none()
        && index::rename::rename(engine, transaction, (&name, statement), in_block)?
    {
        return Ok(Done::tag(tag));
    }
    let Some(region) = alterable(&state, &name, statement.missing_ok, false)? else {
        return Ok(Done::notice(
            tag,
            ErrorCode::SuccessfulCompletion,
            format!("relation \"{name}\" does not exist, skipping"),
        ));
    };
    let mut schema = TableSchema::clone(&region.schema());
    let check_at = schema.checks.iter().position(|check| check.name == statement.subname);
    match ObjectType::try_from(statement.rename_type) {
        Ok(ObjectType::ObjectColumn) => {
            let ordinal = schema.column(&statement.subname).ok_or_else(|| {
                Error::new(ErrorCode::UndefinedColumn, format!("column \"{}\" does not exist", statement.subname))
            })?;
            if schema.column(&statement.newname).is_some() {
                return Err(Error::new(
                    ErrorCode::DuplicateColumn,
                    format!("column \"{}\" of relation \"{name}\" already exists", statement.newname),
                ));
            }
            schema.columns[ordinal].name.clone_from(&statement.newname);
        }
        Ok(ObjectType::ObjectTable | ObjectType::ObjectIndex) => {
            if state.is_relation(&statement.newname) {
                return Err(exists(&statement.newname));
            }
            schema.name.clone_from(&statement.newname);
        }
        Ok(ObjectType::ObjectTabconstraint) if check_at.is_some() => {
            check::rename(&region, &mut schema, check_at.unwrap_or_default(), &statement.newname)?;
        }
        Ok(ObjectType::ObjectTabconstraint) => {
            if schema.hidden_key || schema.key_name != statement.subname {
                return Err(Error::new(
                    ErrorCode::UndefinedObject,
                    format!("constraint \"{}\" for table \"{name}\" does not exist", statement.subname),
                ));
            }
            if state.is_relation(&statement.newname) {
                return Err(exists(&statement.newname));
            }
            check::refuse_name(&schema, &statement.newname)?;
            schema.key_name.clone_from(&statement.newname);
        }
        _ => return Err(Error::unsupported("this form of ALTER TABLE is not supported")),
    }
    let when = if in_block { When::InBlock } else { When::AtOnce(None) };
    apply(engine, transaction, &name, &region, schema, &Counting::default(), when)?;
    Ok(Done::tag(tag))
}

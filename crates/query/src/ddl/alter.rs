//! ALTER TABLE: columns come, go and get other names and defaults; tables and keys get other names.
//!
//! No row is rewritten. On its own a statement is done when it returns; in a block it is part of the transaction: the
//! block sees the table in its new shape, everybody else from the commit on.

use std::sync::Arc;

use ashlar_base::{ColumnDefault, ColumnId, Error, ErrorCode, Eviction, Result, Sequence, SequenceKind, TableSchema};
use ashlar_functions::error::undefined_table;
use ashlar_store::Region;
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, ObjectType, RenameStmt,
};

use super::{
    Done, constraint_kind, defaults, definition, exists, named_sequence, options, primary_key, relation_name, sequence,
    unique,
};
use crate::catalog::{Catalog, CatalogDraft, CatalogState, Table};
use crate::engine::Engine;
use crate::key_plan::altered;
use crate::means::Means;
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

/// 0A000 for ALTER INDEX, which is parsed as ALTER TABLE.
fn refuse_index(kind: i32) -> Result<()> {
    if kind == ObjectType::ObjectIndex as i32 {
        return Err(Error::unsupported("ALTER INDEX is not supported").with_hint("DROP INDEX, then CREATE INDEX."));
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

/// Gives a table its new shape, and in it its new name: at once, or as part of a block that ends later.
fn apply(
    engine: &Engine,
    transaction: &mut Transaction,
    name: &str,
    region: &Arc<Region>,
    mut schema: TableSchema,
    in_block: bool,
) -> Result<()> {
    if !in_block {
        return apply_at_once(engine, name, region, schema);
    }
    let version = schema.version;
    if schema == *region.schema() {
        return Ok(());
    }
    schema.version += 1;
    let schema = Arc::new(schema);
    let snapshot = transaction.snapshot(engine.store());
    let region = transaction.writes.alter(region, version, Arc::clone(&schema), &snapshot)?;
    let catalog = engine.catalog();
    name_it(catalog, transaction.draft(catalog), (name, &schema.name), region);
    Ok(())
}

/// Gives a table its new shape, and in it its new name, for everybody.
fn apply_at_once(engine: &Engine, name: &str, region: &Arc<Region>, mut schema: TableSchema) -> Result<()> {
    let version = schema.version;
    if schema == *region.schema() {
        return Ok(());
    }
    schema.version += 1;
    let schema = Arc::new(schema);
    let catalog = engine.catalog();
    // Shape and name change together or not at all, whoever takes the name meanwhile.
    let mut draft = catalog.draft();
    name_it(catalog, &mut draft, (name, &schema.name), Arc::clone(region));
    let alter =
        || if region.schema().version == version { region.alter(Arc::clone(&schema)) } else { Err(altered(&schema)) };
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
    apply_at_once(engine, PLAIN_KEYS, &region, schema)
}

/// ALTER TABLE
pub(super) async fn alter(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &AlterTableStmt,
    in_block: bool,
    means: &Means,
) -> Result<Done> {
    refuse_index(statement.objtype)?;
    let name = relation_name(statement.relation.as_ref())?;
    let state = transaction.catalog(engine.catalog());
    let is_kept = statement.cmds.iter().all(sets_options);
    let Some(region) = alterable(&state, &name, statement.missing_ok, is_kept)? else {
        return Ok(Done::notice(
            "ALTER TABLE",
            ErrorCode::UndefinedTable,
            format!("relation \"{name}\" does not exist, skipping"),
        ));
    };
    let mut schema = TableSchema::clone(&region.schema());
    let mut done = Done::tag("ALTER TABLE");
    let mut restarts = Vec::new();
    let (mut added, mut dropped) = (Vec::new(), Vec::new());
    let mut named: Vec<(String, NamedSequence)> = Vec::new();
    for command in &statement.cmds {
        let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
        let subtype = AlterTableType::try_from(command.subtype).unwrap_or(AlterTableType::Undefined);
        match subtype {
            AlterTableType::AtAddColumn => {
                let Some(NodeEnum::ColumnDef(column)) = command.def.as_ref().and_then(|def| def.node.as_ref()) else {
                    continue;
                };
                if schema.column(&column.colname).is_some() {
                    let message = format!("column \"{}\" of relation \"{name}\" already exists", column.colname);
                    if command.missing_ok {
                        done.notices.push(Error::new(ErrorCode::DuplicateColumn, format!("{message}, skipping")));
                        continue;
                    }
                    return Err(Error::new(ErrorCode::DuplicateColumn, message));
                }
                let has_rows = transaction.writes.may_hold_rows(&region);
                add_column(engine, &state, has_rows, &mut schema, column)?;
            }
            AlterTableType::AtDropColumn => match schema.column(&command.name) {
                Some(ordinal) => drop_column(&mut schema, ordinal)?,
                None if command.missing_ok => done.notices.push(Error::new(
                    ErrorCode::UndefinedColumn,
                    format!("column \"{}\" of relation \"{name}\" does not exist, skipping", command.name),
                )),
                None => return Err(no_column(&schema, &command.name)),
            },
            AlterTableType::AtColumnDefault => {
                let ordinal = schema.column(&command.name).ok_or_else(|| no_column(&schema, &command.name))?;
                refuse_identity(&schema, ordinal)?;
                let column = &schema.columns[ordinal];
                let default = match &command.def {
                    None => None,
                    Some(def) => match named_sequence::called(&state, def, schema.id, column)? {
                        Some((name, sequence)) => {
                            // One that is the column's already goes on where it is.
                            let is_new = state.sequence(&name).is_none_or(|known| known.column.is_none());
                            if !in_block && is_new {
                                restarts.push((column.id, sequence.counts.start));
                            }
                            let counts = sequence.counts;
                            named.push((name, sequence));
                            Some(ColumnDefault::Sequence(counts))
                        }
                        None => defaults::of(engine, &state, def, column)?,
                    },
                };
                schema.columns[ordinal].default = default;
            }
            AlterTableType::AtAddIdentity => {
                let ordinal = schema.column(&command.name).ok_or_else(|| no_column(&schema, &command.name))?;
                let constraint = command.def.as_ref().and_then(|def| def.node.as_ref());
                let Some(NodeEnum::Constraint(constraint)) = constraint else { continue };
                let counts = added_identity(&schema, ordinal, constraint)?;
                let column = schema.columns[ordinal].id;
                if let Some(name) = named_sequence::given_name(&state, &constraint.options)? {
                    named.push((name, NamedSequence { counts, column: Some((schema.id, column)) }));
                }
                if !in_block {
                    restarts.push((column, counts.start));
                }
                schema.columns[ordinal].default = Some(ColumnDefault::Sequence(counts));
            }
            AlterTableType::AtSetNotNull => {
                let ordinal = schema.column(&command.name).ok_or_else(|| no_column(&schema, &command.name))?;
                // The table's own rows are looked at when it gets its shape.
                if in_block && schema.columns[ordinal].nullable {
                    return Err(Error::unsupported("SET NOT NULL in a transaction block is not supported")
                        .with_hint("Use a statement of its own."));
                }
                schema.columns[ordinal].nullable = false;
            }
            AlterTableType::AtDropNotNull => {
                let ordinal = schema.column(&command.name).ok_or_else(|| no_column(&schema, &command.name))?;
                if schema.key.contains(&ordinal) {
                    return Err(Error::new(
                        ErrorCode::InvalidTableDefinition,
                        format!("column \"{}\" is in a primary key", command.name),
                    ));
                }
                refuse_identity(&schema, ordinal)?;
                schema.columns[ordinal].nullable = true;
            }
            AlterTableType::AtSetIdentity => {
                let ordinal = schema.column(&command.name).ok_or_else(|| no_column(&schema, &command.name))?;
                restarts.push((schema.columns[ordinal].id, restart(&schema, ordinal, command, in_block)?));
            }
            AlterTableType::AtAddConstraint => {
                let constraint = command.def.as_ref().and_then(|def| def.node.as_ref());
                let Some(NodeEnum::Constraint(constraint)) = constraint else { continue };
                match constraint_kind(constraint.contype) {
                    ConstrType::ConstrUnique => added.push(unique::stated(constraint, None)?),
                    ConstrType::ConstrPrimary if statement.cmds.len() == 1 => {
                        Box::pin(primary_key::add(engine, transaction, &region, constraint, in_block, means)).await?;
                        return Ok(done);
                    }
                    ConstrType::ConstrPrimary => return Err(beside_others()),
                    other => return Err(definition::unsupported_constraint(other)),
                }
            }
            AlterTableType::AtDropConstraint => match unique::find(&region, transaction, &command.name) {
                Some(index) => dropped.push(index),
                None if !schema.hidden_key && schema.key_name == command.name => {
                    return Err(Error::unsupported("dropping the primary key of a table is not supported"));
                }
                None => {
                    let name = &command.name;
                    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", schema.name);
                    if !command.missing_ok {
                        return Err(Error::new(ErrorCode::UndefinedObject, message));
                    }
                    done.notices.push(Error::new(ErrorCode::SuccessfulCompletion, format!("{message}, skipping")));
                }
            },
            AlterTableType::AtSetRelOptions => options::set(&mut schema.life, list_of(command))?,
            AlterTableType::AtResetRelOptions => options::reset(&mut schema.life, list_of(command))?,
            _ => return Err(Error::unsupported("this form of ALTER TABLE is not supported")),
        }
    }
    // What a constraint finds in the rows must not come after another part of the statement is done.
    if !added.is_empty() && (added.len() > 1 || schema != *region.schema()) {
        return Err(beside_others());
    }
    apply(engine, transaction, &name, &region, schema, in_block)?;
    for (name, sequence) in named {
        engine.catalog().put_sequence(transaction.draft(engine.catalog()), &name, Some(sequence));
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

fn no_column(schema: &TableSchema, name: &str) -> Error {
    Error::new(ErrorCode::UndefinedColumn, format!("column \"{name}\" of relation \"{}\" does not exist", schema.name))
}

fn add_column(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    has_rows: bool,
    schema: &mut TableSchema,
    column: &pg_query::protobuf::ColumnDef,
) -> Result<()> {
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
    Ok(())
}

fn drop_column(schema: &mut TableSchema, ordinal: usize) -> Result<()> {
    if schema.key.contains(&ordinal) || schema.partition_by.contains(&ordinal) {
        return Err(Error::unsupported("dropping a column of the primary key is not supported"));
    }
    schema.columns.remove(ordinal);
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
    refuse_index(statement.rename_type)?;
    let name = relation_name(statement.relation.as_ref())?;
    let state = transaction.catalog(engine.catalog());
    let Some(region) = alterable(&state, &name, statement.missing_ok, false)? else {
        return Ok(Done::notice(
            "ALTER TABLE",
            ErrorCode::UndefinedTable,
            format!("relation \"{name}\" does not exist, skipping"),
        ));
    };
    let mut schema = TableSchema::clone(&region.schema());
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
        Ok(ObjectType::ObjectTable) => {
            if state.is_relation(&statement.newname) {
                return Err(exists(&statement.newname));
            }
            schema.name.clone_from(&statement.newname);
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
            schema.key_name.clone_from(&statement.newname);
        }
        _ => return Err(Error::unsupported("this form of ALTER TABLE is not supported")),
    }
    apply(engine, transaction, &name, &region, schema, in_block)?;
    Ok(Done::tag("ALTER TABLE"))
}

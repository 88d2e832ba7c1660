//! CREATE, ALTER, DROP and TRUNCATE: changes of the catalog's draft inside a transaction.

use std::sync::Arc;

use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, Error, ErrorCode, LifeOptions, Result, ScalarType, Sequence, SqlType,
    TableSchema,
};
use ashlar_store::{ReadView, Region, Snapshot};
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableStmt, CommentStmt, ConstrType, CreateForeignTableStmt, CreateStmt, DropStmt, IndexStmt, ObjectType,
    RangeVar, ReindexStmt, RenameStmt, TruncateStmt, VacuumStmt,
};

use crate::catalog::{CatalogState, Table};
use crate::engine::Engine;
use crate::files::FileTable;
use crate::resources::StatementResources;
use crate::select::SelectPlan;
use crate::sharded::{alter as altering, ddl as sharded, maintain, rename, rule};
use crate::sql_types;
use crate::transaction::Transaction;

mod alter;
mod check;
mod comment;
mod defaults;
mod definition;
mod dependents;
mod index;
pub(crate) mod named_sequence;
pub(crate) mod options;
mod owner;
mod primary_key;
mod retype;
mod sequence;
mod unique;

pub use alter::set_eviction_of_plain_keys;
pub(crate) use index::free_name;

/// The name of the hidden key of a table without a primary key: one that no user's column has.
pub const HIDDEN_KEY: &str = "\u{1}rowid";

/// A DDL statement, ready to run.
#[derive(Clone)]
pub enum Ddl {
    /// CREATE TABLE
    Create(Box<CreateStmt>),
    /// CREATE TABLE ... USING sharded, and its text
    CreateSharded(Box<CreateStmt>, String),
    /// CREATE TABLE AS
    CreateAs(CreateAs),
    /// CREATE FOREIGN TABLE ... SERVER files
    CreateForeign(Box<CreateForeignTableStmt>),
    /// CREATE INDEX
    CreateIndex(Box<IndexStmt>),
    /// DROP TABLE, DROP FOREIGN TABLE, DROP INDEX
    Drop(DropStmt),
    /// ALTER TABLE
    Alter(AlterTableStmt),
    /// ALTER TABLE ... RENAME and ALTER INDEX ... RENAME
    Rename(Box<RenameStmt>),
    /// COMMENT ON
    Comment {
        /// What it says.
        statement: Box<CommentStmt>,
        /// The database of the session.
        database: String,
    },
    /// REINDEX
    Reindex {
        /// What it says.
        statement: Box<ReindexStmt>,
        /// The database of the session.
        database: String,
    },
    /// CREATE SEQUENCE and ALTER SEQUENCE
    Sequence(Box<NodeEnum>),
    /// TRUNCATE
    Truncate(TruncateStmt),
    /// VACUUM and ANALYZE of sharded tables
    Upkeep(VacuumStmt),
    /// CREATE and ALTER SERVER, and the same of USER MAPPING with DROP
    Server(Box<NodeEnum>),
}

/// CREATE TABLE ... AS a query.
#[derive(Clone)]
pub struct CreateAs {
    /// The new table.
    pub name: String,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Names for the columns, where given.
    pub columns: Vec<String>,
    /// WITH NO DATA
    pub skip_data: bool,
    /// How long rows live, and how much memory they may take.
    pub life: LifeOptions,
    /// The rows.
    pub select: Box<SelectPlan>,
}

/// What a DDL statement did.
pub struct Done {
    /// The command tag.
    pub tag: String,
    /// NOTICE messages: code, message.
    pub notices: Vec<Error>,
    /// WARNING messages: the same.
    pub warnings: Vec<Error>,
}

impl Done {
    pub(crate) fn tag(tag: &str) -> Self {
        Self { tag: tag.to_owned(), notices: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn notice(tag: &str, code: ErrorCode, message: String) -> Self {
        Self { notices: vec![Error::new(code, message)], ..Self::tag(tag) }
    }
}

/// The plain name of a relation.
///
/// # Errors
/// 3F000 for a schema that does not exist, 0A000 for another database.
pub fn relation_name(relation: Option<&RangeVar>) -> Result<String> {
    let relation = relation.ok_or_else(|| Error::internal("a statement without its relation"))?;
    if !matches!(relation.schemaname.as_str(), "" | "public") {
        let schema = &relation.schemaname;
        return Err(match schema.as_str() {
            "pg_catalog" | "information_schema" | "ashlar" => {
                Error::new(ErrorCode::InsufficientPrivilege, format!("permission denied for schema {schema}"))
            }
            _ => Error::new(ErrorCode::InvalidSchemaName, format!("schema \"{schema}\" does not exist")),
        });
    }
    Ok(relation.relname.clone())
}

/// Runs a DDL statement in a transaction. `in_block` tells that more statements may follow before the commit.
///
/// # Errors
/// What PostgreSQL finds wrong with it; then the draft is as before.
pub async fn run(
    engine: &Engine,
    transaction: &mut Transaction,
    ddl: &Ddl,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    match ddl {
        Ddl::CreateSharded(statement, text) => sharded::create(engine, statement, text, in_block, resources).await,
        Ddl::Create(statement) => create(engine, transaction, statement),
        Ddl::CreateAs(table) => create_as(engine, transaction, table, resources).await,
        Ddl::CreateForeign(statement) => create_foreign(engine, transaction, statement).await,
        Ddl::CreateIndex(statement) => {
            let name = relation_name(statement.relation.as_ref())?;
            match altering::find(&transaction.catalog(engine.catalog()), &name) {
                Some(table) => maintain::create_index(engine, &table, statement, in_block, resources).await,
                None => index::create(engine, transaction, statement, in_block).await,
            }
        }
        Ddl::Drop(statement) if statement.remove_type == ObjectType::ObjectIndex as i32 => {
            match maintain::dropped(engine, statement)? {
                Some(indexes) => maintain::drop_indexes(engine, &indexes, statement, in_block, resources).await,
                None => index::drop(engine, transaction, statement, in_block),
            }
        }
        Ddl::Drop(statement) if statement.remove_type == ObjectType::ObjectForeignServer as i32 => {
            sharded::drop_servers(engine, statement, in_block)
        }
        Ddl::Drop(statement) if statement.remove_type == ObjectType::ObjectSequence as i32 => {
            named_sequence::drop(engine, transaction, statement)
        }
        Ddl::Drop(statement) => drop_tables(engine, transaction, statement, in_block, resources).await,
        Ddl::Sequence(statement) => named_sequence::run(engine, transaction, statement),
        Ddl::Alter(statement) => {
            if let Some(done) = owner::alter(&transaction.catalog(engine.catalog()), statement, &resources.role)? {
                return Ok(done);
            }
            let name = relation_name(statement.relation.as_ref())?;
            match altering::find(&transaction.catalog(engine.catalog()), &name) {
                Some(table) if rule::changes_rule(statement) => {
                    rule::change(engine, &table, statement, in_block, resources).await
                }
                Some(table) => altering::alter(engine, &table, statement, in_block, resources).await,
                None => alter::alter(engine, transaction, statement, in_block, resources).await,
            }
        }
        Ddl::Rename(statement) => {
            let name = relation_name(statement.relation.as_ref())?;
            match altering::find(&transaction.catalog(engine.catalog()), &name) {
                Some(table) => rename::rename(engine, &table, statement, in_block, resources).await,
                None => alter::rename(engine, transaction, statement, in_block),
            }
        }
        Ddl::Comment { statement, database } => {
            comment::comment(engine, transaction, statement, database, in_block).await
        }
        Ddl::Reindex { statement, database } => {
            index::reindex::reindex(engine, transaction, statement, database, in_block)
        }
        Ddl::Truncate(statement) => {
            match altering::truncated(&transaction.catalog(engine.catalog()), statement, in_block)? {
                Some(table) => altering::truncate(&table, statement, resources).await,
                None => truncate(engine, transaction, statement, in_block),
            }
        }
        Ddl::Upkeep(statement) => maintain::upkeep(engine, statement, in_block, resources).await,
        Ddl::Server(statement) => sharded::server(engine, statement, in_block, resources),
    }
}

fn exists(name: &str) -> Error {
    Error::new(ErrorCode::DuplicateTable, format!("relation \"{name}\" already exists"))
}

fn skipping(tag: &str, name: &str) -> Done {
    Done::notice(tag, ErrorCode::DuplicateTable, format!("relation \"{name}\" already exists, skipping"))
}

fn create(engine: &Engine, transaction: &mut Transaction, statement: &CreateStmt) -> Result<Done> {
    let name = relation_name(statement.relation.as_ref())?;
    let state = transaction.catalog(engine.catalog());
    if state.is_relation(&name) {
        return if statement.if_not_exists { Ok(skipping("CREATE TABLE", &name)) } else { Err(exists(&name)) };
    }
    let (mut schema, uniques) = definition::table(engine, &state, engine.catalog().next_id(), &name, statement)?;
    if !schema.hidden_key {
        schema.key_name = key_name(&state, &schema)?;
    }
    let indexes = unique::of_table(engine, &state, &schema, uniques, transaction)?;
    let is_taken = |name: &str| name == schema.key_name || indexes.iter().any(|index| index.name == name);
    if let Some(twice) = schema.checks.iter().find(|check| is_taken(&check.name)) {
        return Err(check::exists(&name, &twice.name));
    }
    let region = put_region(engine, transaction, &name, schema)?;
    for index in indexes {
        let index = Arc::new(index);
        region.add_index(&index);
        region.complete_index(&index);
    }
    Ok(Done::tag("CREATE TABLE"))
}

/// The name that a new table's primary key was given, or else the first of `table_pkey`, `table_pkey1`, ... that is
/// free.
///
/// # Errors
/// 42P07 where something has the given name.
fn key_name(state: &CatalogState, schema: &TableSchema) -> Result<String> {
    let is_taken = |name: &str| name == schema.name || state.is_relation(name);
    if !schema.key_name.is_empty() {
        return if is_taken(&schema.key_name) { Err(exists(&schema.key_name)) } else { Ok(schema.key_name.clone()) };
    }
    let mut name = format!("{}_pkey", schema.name);
    let mut number = 0u32;
    while is_taken(&name) {
        number += 1;
        name = format!("{}_pkey{number}", schema.name);
    }
    Ok(name)
}

fn put_region(engine: &Engine, transaction: &mut Transaction, name: &str, schema: TableSchema) -> Result<Arc<Region>> {
    let region = engine.store().create_region(Arc::new(schema))?;
    let draft = transaction.draft(engine.catalog());
    engine.catalog().put(draft, name, Some(Table::Grid(Arc::clone(&region))));
    Ok(region)
}

async fn create_as(
    engine: &Engine,
    transaction: &mut Transaction,
    table: &CreateAs,
    resources: &StatementResources,
) -> Result<Done> {
    let CreateAs { name, columns: names, life, select, .. } = table;
    if transaction.catalog(engine.catalog()).is_relation(name) {
        return if table.if_not_exists { Ok(skipping("CREATE TABLE AS", name)) } else { Err(exists(name)) };
    }
    if names.len() > select.columns.len() {
        return Err(Error::new(ErrorCode::SyntaxError, "too many column names were specified"));
    }
    let mut columns: Vec<ColumnDef> = Vec::new();
    for (ordinal, column) in select.columns.iter().enumerate() {
        let column_name = names.get(ordinal).unwrap_or(&column.name).clone();
        if columns.iter().any(|known| known.name == column_name) {
            return Err(Error::new(
                ErrorCode::DuplicateColumn,
                format!("column \"{column_name}\" specified more than once"),
            ));
        }
        columns.push(definition::column(ordinal, column_name, column.sql_type));
    }
    let schema = definition::finish(engine.catalog().next_id(), name, columns, Vec::new(), None)?;
    let region = put_region(engine, transaction, name, TableSchema { life: *life, ..schema })?;
    if table.skip_data {
        return Ok(Done::tag("CREATE TABLE AS"));
    }
    let snapshot = transaction.snapshot(engine.store());
    let catalog = transaction.catalog(engine.catalog());
    let view = transaction.view(snapshot.clone(), &catalog);
    let count = copy_rows(engine, transaction, &region, select, (&snapshot, view), false, resources).await?;
    Ok(Done::tag(&format!("SELECT {count}")))
}

/// 0A000 where a table cannot take over the rows of one: they end by themselves, and their ends are not copied. `change` is what was to be
/// done to a table, `with` what the new one would have.
fn check_life(region: &Region, schema: &TableSchema, (change, with): (&str, &str)) -> Result<()> {
    if schema.life == LifeOptions::default() && region.expiring().rows == 0 {
        return Ok(());
    }
    let message = format!("{change} a table whose rows end by themselves is not supported");
    let hint = format!("Make a table with {with}, and INSERT the rows of this one into it.");
    Err(Error::unsupported(message).with_hint(hint))
}

/// Inserts what a query gives into a new table: how many rows. It can be canceled between batches. With `has_new_values` unique indexes
/// of the table may forbid what they were not asked before: each batch is looked at when it has come.
async fn copy_rows(
    engine: &Engine,
    transaction: &mut Transaction,
    region: &Arc<Region>,
    select: &SelectPlan,
    (snapshot, view): (&Snapshot, Arc<ReadView>),
    has_new_values: bool,
    resources: &StatementResources,
) -> Result<u64> {
    use futures::StreamExt;
    let mut stream = select.stream(engine, &[], view, resources).await?;
    let output = select.schema();
    let schema = region.schema();
    let mut count = 0u64;
    while let Some(batch) = stream.next().await {
        // Whoever wants to cancel, or has something else to do, gets a turn.
        tokio::task::yield_now().await;
        let batch = batch.map_err(ashlar_functions::error::from_datafusion)?;
        let mut readers = Vec::with_capacity(batch.num_columns());
        for (ordinal, array) in batch.columns().iter().enumerate() {
            readers.push(crate::assign::Assigned::new(
                array,
                output.field(ordinal),
                &schema.columns[ordinal],
                engine.zone(),
            )?);
        }
        for row in 0..batch.num_rows() {
            let mut values = Vec::with_capacity(schema.columns.len());
            for reader in &readers {
                values.push(reader.value(row)?);
            }
            for hidden in &schema.columns[readers.len()..] {
                values.push(region.next_number(hidden)?);
            }
            let datums: Vec<ashlar_base::Datum<'_>> = values.iter().map(ashlar_base::Value::as_datum).collect();
            transaction.writes.insert(region, schema.version, snapshot, &datums)?;
            count += 1;
        }
        if has_new_values {
            transaction.writes.check_values(region)?;
        }
    }
    Ok(count)
}

async fn create_foreign(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &CreateForeignTableStmt,
) -> Result<Done> {
    let base = statement.base_stmt.as_ref().ok_or_else(|| Error::internal("a foreign table without its name"))?;
    let name = relation_name(base.relation.as_ref())?;
    if transaction.catalog(engine.catalog()).is_relation(&name) {
        return if base.if_not_exists { Ok(skipping("CREATE FOREIGN TABLE", &name)) } else { Err(exists(&name)) };
    }
    if statement.servername != "files" {
        return Err(Error::new(
            ErrorCode::UndefinedObject,
            format!("server \"{}\" does not exist", statement.servername),
        )
        .with_hint("Parquet files are read through the server \"files\"."));
    }
    if !base.table_elts.is_empty() {
        return Err(Error::unsupported("a column list of a table over files is not supported")
            .with_hint("Leave the parentheses empty: the columns come from the files."));
    }
    let (path, format) = options::file(&statement.options)?;
    let file = FileTable::open(engine.state(), engine.catalog().next_id(), &name, &path, &format).await?;
    crate::columns::of_schema(&file.schema())?;
    let draft = transaction.draft(engine.catalog());
    engine.catalog().put(draft, &name, Some(Table::File(Arc::new(file))));
    Ok(Done::tag("CREATE FOREIGN TABLE"))
}

async fn drop_tables(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &DropStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    let (tag, kind) = match ObjectType::try_from(statement.remove_type) {
        Ok(ObjectType::ObjectTable) => ("DROP TABLE", "table"),
        Ok(ObjectType::ObjectForeignTable) => ("DROP FOREIGN TABLE", "foreign table"),
        _ => return Err(Error::unsupported("DROP of this kind of object is not supported")),
    };
    let mut done = Done::tag(tag);
    let (mut names, mut elsewhere) = (Vec::new(), Vec::new());
    for object in &statement.objects {
        let Some(name) = object_name(object, statement.missing_ok, &mut done)? else { continue };
        let state = transaction.catalog(engine.catalog());
        match state.table(&name) {
            None if state.is_relation(&name) => {
                let hint = match state.sequence(&name) {
                    Some(_) => "Use DROP SEQUENCE to remove a sequence.",
                    None => "Use DROP INDEX to remove an index.",
                };
                return Err(
                    Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not a {kind}")).with_hint(hint)
                );
            }
            None if statement.missing_ok => done.notices.push(Error::new(
                ErrorCode::SuccessfulCompletion,
                format!("{kind} \"{name}\" does not exist, skipping"),
            )),
            None => {
                return Err(Error::new(ErrorCode::UndefinedTable, format!("{kind} \"{name}\" does not exist")));
            }
            Some(table) => {
                if matches!(table, Table::File(_)) != (kind == "foreign table") {
                    return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not a {kind}")));
                }
                if name == "kv" {
                    return Err(Error::new(
                        ErrorCode::InsufficientPrivilege,
                        "cannot drop table kv: the plain keys of the RESP door live in it",
                    ));
                }
                if let Table::Sharded(table) = table {
                    elsewhere.push(Arc::clone(table));
                } else {
                    names.push(name);
                }
            }
        }
    }
    if let [table] = &elsewhere[..]
        && names.is_empty()
        && !in_block
    {
        sharded::drop_table(engine, table, resources).await?;
    } else if elsewhere.len() > 1 && names.is_empty() && !in_block {
        maintain::drop_tables(engine, &elsewhere, resources).await?;
    } else if !elsewhere.is_empty() {
        return Err(Error::unsupported(
            "DROP of a sharded table together with others or in a transaction block is not supported",
        )
        .with_hint("Drop it by a statement of its own."));
    }
    dependents::before_tables(engine, transaction, (names.as_slice(), statement.behavior), resources, &mut done)
        .await?;
    for name in names {
        let draft = transaction.draft(engine.catalog());
        engine.catalog().put(draft, &name, None);
    }
    Ok(done)
}

/// The name of an object of `public` that a DROP names; `None`, with a notice, for one of a schema that there is not,
/// where that does not matter.
///
/// # Errors
/// 3F000 where it does.
pub(crate) fn object_name(object: &pg_query::Node, missing_ok: bool, done: &mut Done) -> Result<Option<String>> {
    let Some(NodeEnum::List(list)) = &object.node else { return Ok(None) };
    let parts: Vec<&str> = list.items.iter().filter_map(sql_types::string_of).collect();
    match parts[..] {
        [name] | ["public", name] => Ok(Some(name.to_owned())),
        [schema, _] if missing_ok => {
            let message = format!("schema \"{schema}\" does not exist, skipping");
            done.notices.push(Error::new(ErrorCode::SuccessfulCompletion, message));
            Ok(None)
        }
        _ => {
            let schema = parts.first().unwrap_or(&"");
            let message = format!("schema \"{schema}\" does not exist");
            Err(Error::new(ErrorCode::InvalidSchemaName, message))
        }
    }
}

fn truncate(engine: &Engine, transaction: &mut Transaction, statement: &TruncateStmt, in_block: bool) -> Result<Done> {
    if statement.restart_seqs && in_block {
        return Err(Error::unsupported("TRUNCATE ... RESTART IDENTITY in a transaction block is not supported"));
    }
    let state = transaction.catalog(engine.catalog());
    let mut regions = Vec::new();
    for relation in &statement.relations {
        if let Some(NodeEnum::RangeVar(relation)) = &relation.node {
            regions.push(Arc::clone(state.grid(&relation_name(Some(relation))?)?));
        }
    }
    for region in regions {
        // On its own and of one table, all rows go at once, and nobody's snapshot asks for them, this statement's neither; in a block they
        // are deletes that can be rolled back.
        let is_alone = !in_block && statement.relations.len() == 1;
        match is_alone.then(|| region.truncate()) {
            // Somebody has locked a row: COMMIT waits for that.
            Some(Err(error)) if error.code() != ErrorCode::LockNotAvailable => return Err(error),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => {
                let snapshot = transaction.snapshot(engine.store());
                transaction.writes.truncate(&region, &snapshot)?;
            }
        }
        if statement.restart_seqs {
            transaction.restart_numbers(&region);
        }
    }
    Ok(Done::tag("TRUNCATE TABLE"))
}

/// The shape that a plain CREATE TABLE describes, without a hidden key, and what is unique in it: ordinals of columns.
///
/// # Errors
/// As CREATE TABLE.
pub(crate) fn described(
    engine: &Engine,
    state: &Arc<CatalogState>,
    name: &str,
    statement: &CreateStmt,
) -> Result<(TableSchema, Vec<Vec<usize>>)> {
    let id = engine.catalog().next_id();
    let (mut schema, stated) = definition::table(engine, state, id, name, statement)?;
    if schema.hidden_key {
        let visible = schema.visible_columns().len();
        schema.columns.truncate(visible);
        (schema.key, schema.partition_by, schema.hidden_key) = (Vec::new(), Vec::new(), false);
    } else {
        schema.key_name = key_name(state, &schema)?;
    }
    let mut unique: Vec<Vec<usize>> = Vec::new();
    unique.extend(Some(schema.key.clone()).filter(|key| !key.is_empty()));
    for constraint in stated {
        let ordinal = |name: &String| {
            schema.column(name).ok_or_else(|| {
                let message = format!("column \"{name}\" named in key does not exist");
                Error::new(ErrorCode::UndefinedColumn, message)
            })
        };
        unique.push(constraint.columns.iter().map(ordinal).collect::<Result<_>>()?);
    }
    Ok((schema, unique))
}

/// What WITH says, as it stands there.
pub(crate) fn given_options(options: &[pg_query::Node]) -> Vec<(String, String)> {
    let given = |element: &pg_query::protobuf::DefElem| {
        (element.defname.clone(), options::value_of(element).unwrap_or_else(|| "true".to_owned()))
    };
    options::elements(options).map(given).collect()
}

/// What CREATE TABLE AS may say about how its table is kept: how long rows live, and what is so anyway.
///
/// # Errors
/// 42704 for another access method, 22023 and 0A000 for options, `partition_by` among them: the table has a hidden key.
pub(crate) fn check_storage(access_method: &str, options: &[pg_query::Node]) -> Result<LifeOptions> {
    definition::check_access_method(access_method)?;
    let options = options::table(options)?;
    match options.partition_by {
        None => Ok(options.life),
        Some(_) => Err(Error::unsupported("partition_by of CREATE TABLE AS is not supported")),
    }
}

/// The value of an option as text.
pub(crate) fn option_text(element: &pg_query::protobuf::DefElem) -> Option<String> {
    options::value_of(element)
}

/// The constraint kinds that a column or table can state.
pub(crate) fn constraint_kind(contype: i32) -> ConstrType {
    ConstrType::try_from(contype).unwrap_or(ConstrType::Undefined)
}

/// The hidden key of a table without a primary key.
pub(crate) fn hidden_key(id: ColumnId) -> ColumnDef {
    ColumnDef {
        id,
        name: HIDDEN_KEY.to_owned(),
        sql_type: SqlType::Scalar(ScalarType::Int8),
        nullable: false,
        default: Some(ColumnDefault::Sequence(Sequence::BY_ONES)),
    }
}

//! COMMENT ON: the comments of tables, columns, indexes, constraints, the schema and the database.
//!
//! A comment is part of its transaction, as names are. The comments of a sharded table are stored with the table's
//! definition, by `sharded`.

use std::sync::Arc;

use ashlar_base::{ColumnId, Error, ErrorCode, Result};
use ashlar_functions::error::undefined_table;
use ashlar_store::arrow_types::sql_type_of;
use pg_query::NodeEnum;
use pg_query::protobuf::{CommentStmt, ObjectType, RangeVar};

use super::{Done, relation_name, unique};
use crate::catalog::{CatalogState, Table};
use crate::comments::{Part, Subject};
use crate::engine::Engine;
use crate::sharded::ShardedTable;
use crate::sharded::comments::{self, TablePart};
use crate::sql_types;
use crate::system_tables;
use crate::transaction::Transaction;

/// Whose comment it is to be.
enum Found {
    /// Kept with the names.
    Here(Subject),
    /// Kept with a sharded table.
    Sharded(Arc<ShardedTable>, TablePart),
    /// There is no such object, which is no error.
    Nobody(Error),
}

/// COMMENT ON; `database` is the one that the session is in.
///
/// # Errors
/// 42P01, 42703, 42704, 42809, 3F000: there is nothing of the name, or something else; 0A000 for other kinds of objects.
pub(super) async fn comment(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &CommentStmt,
    database: &str,
    in_block: bool,
) -> Result<Done> {
    let state = transaction.catalog(engine.catalog());
    let mut done = Done::tag("COMMENT");
    let subject = match find(&state, transaction, statement, database)? {
        Found::Here(subject) => subject,
        Found::Sharded(table, part) => {
            return comments::comment(engine, &table, &part, &statement.comment, in_block).await;
        }
        Found::Nobody(warning) => {
            done.warnings.push(warning);
            return Ok(done);
        }
    };
    // An empty text takes the comment away, as NULL does.
    let text: Option<Arc<str>> = Some(statement.comment.as_str()).filter(|text| !text.is_empty()).map(Arc::from);
    let draft = transaction.draft(engine.catalog());
    engine.catalog().comment(draft, subject, text);
    Ok(done)
}

fn find(state: &CatalogState, transaction: &Transaction, statement: &CommentStmt, database: &str) -> Result<Found> {
    let parts = names_of(statement);
    let kind = ObjectType::try_from(statement.objtype).unwrap_or(ObjectType::Undefined);
    match kind {
        ObjectType::ObjectTable => table(state, &relation_of(&parts, database)?, "table"),
        ObjectType::ObjectForeignTable => table(state, &relation_of(&parts, database)?, "foreign table"),
        ObjectType::ObjectView => table(state, &relation_of(&parts, database)?, "view"),
        ObjectType::ObjectMatview => table(state, &relation_of(&parts, database)?, "materialized view"),
        ObjectType::ObjectSequence => table(state, &relation_of(&parts, database)?, "sequence"),
        ObjectType::ObjectIndex => index(state, transaction, &relation_of(&parts, database)?),
        ObjectType::ObjectColumn | ObjectType::ObjectTabconstraint => {
            let (part, relation) = parts.split_last().ok_or_else(|| Error::internal("a comment on nothing"))?;
            if relation.is_empty() {
                return Err(Error::new(ErrorCode::SyntaxError, "column name must be qualified"));
            }
            let relation = relation_of(relation, database)?;
            if kind == ObjectType::ObjectColumn {
                column(state, &relation, part)
            } else {
                constraint(state, transaction, &relation, part)
            }
        }
        ObjectType::ObjectSchema => {
            let schemaname = parts.first().map_or_else(String::new, |name| (*name).to_owned());
            // Says what is wrong with another schema.
            relation_name(Some(&RangeVar { schemaname, ..RangeVar::default() }))?;
            Ok(Found::Here(Subject::Schema))
        }
        ObjectType::ObjectDatabase => match parts.first() {
            Some(name) if *name == database => Ok(Found::Here(Subject::Database)),
            name => {
                // As PostgreSQL, where a dump is read into a database of another name.
                let message = format!("database \"{}\" does not exist", name.unwrap_or(&""));
                Ok(Found::Nobody(Error::new(ErrorCode::InvalidCatalogName, message)))
            }
        },
        _ => Err(Error::unsupported("COMMENT on an object of this kind is not supported")
            .with_hint("Comments are kept of tables, columns, indexes, constraints, the schema and the database.")),
    }
}

/// The parts of the name of what a comment is about.
fn names_of(statement: &CommentStmt) -> Vec<&str> {
    match statement.object.as_ref().and_then(|object| object.node.as_ref()) {
        Some(NodeEnum::List(list)) => list.items.iter().filter_map(sql_types::string_of).collect(),
        Some(NodeEnum::String(name)) => vec![name.sval.as_str()],
        _ => Vec::new(),
    }
}

/// The plain name of a relation.
fn relation_of(parts: &[&str], database: &str) -> Result<String> {
    let (schema, name) = match parts {
        [name] => ("", *name),
        [schema, name] => (*schema, *name),
        [named, schema, name] if *named == database => (*schema, *name),
        _ => {
            let name = parts.join(".");
            return Err(Error::unsupported(format!("cross-database references are not implemented: \"{name}\"")));
        }
    };
    let relation = RangeVar { schemaname: schema.to_owned(), relname: name.to_owned(), ..RangeVar::default() };
    relation_name(Some(&relation))
}

fn is_no(name: &str, kind: &str) -> Error {
    let article = if kind == "index" { "an" } else { "a" };
    Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not {article} {kind}"))
}

fn table(state: &CatalogState, name: &str, kind: &str) -> Result<Found> {
    match state.table(name) {
        Some(Table::Sharded(table)) if kind == "table" => Ok(Found::Sharded(Arc::clone(table), TablePart::Table)),
        Some(table @ Table::Grid(_)) if kind == "table" => Ok(Found::Here(Subject::Of(table.id(), Part::Table))),
        Some(table @ Table::File(_)) if kind == "foreign table" => {
            Ok(Found::Here(Subject::Of(table.id(), Part::Table)))
        }
        Some(Table::File(_)) => Err(is_no(name, kind).with_hint("Use COMMENT ON FOREIGN TABLE.")),
        Some(_) => Err(is_no(name, kind)),
        None if kind == "sequence" && state.sequence(name).is_some() => {
            Err(Error::unsupported("COMMENT on a sequence is not supported"))
        }
        None if state.is_relation(name) => Err(is_no(name, kind)),
        None => Err(undefined_table(name)),
    }
}

fn index(state: &CatalogState, transaction: &Transaction, name: &str) -> Result<Found> {
    if let Some((region, index)) = state.index(name, |index| transaction.has_dropped_index(index)) {
        return Ok(Found::Here(Subject::Of(region.id(), Part::Index(index.id))));
    }
    for (_, table) in state.tables() {
        match table {
            Table::Grid(region) => {
                let schema = region.schema();
                if !schema.hidden_key && schema.key_name == name {
                    return Ok(Found::Here(Subject::Of(region.id(), Part::KeyIndex)));
                }
            }
            Table::Sharded(table) if !table.schema.key.is_empty() && table.schema.key_name == name => {
                return Ok(Found::Sharded(Arc::clone(table), TablePart::KeyIndex));
            }
            Table::Sharded(_) | Table::File(_) => {}
        }
    }
    comments::refuse_index(state, name)?;
    Err(if state.table(name).is_some() { is_no(name, "index") } else { undefined_table(name) })
}

fn column(state: &CatalogState, relation: &str, name: &str) -> Result<Found> {
    let missing = || {
        let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
        Error::new(ErrorCode::UndefinedColumn, message)
    };
    let (table, id) = match state.table(relation) {
        Some(table @ Table::Grid(region)) => {
            let schema = region.schema();
            (table, schema.column(name).map(|ordinal| schema.columns[ordinal].id))
        }
        Some(table @ Table::File(file)) => {
            let schema = file.schema();
            let fields = schema.fields();
            // Only columns that can be selected have a number.
            let is_it = |field: &arrow::datatypes::FieldRef| field.name() == name && sql_type_of(field).is_some();
            let ordinal = fields.iter().position(is_it);
            (table, ordinal.and_then(|ordinal| u32::try_from(ordinal).ok()).map(ColumnId))
        }
        Some(Table::Sharded(table)) => {
            table.schema.column(name).ok_or_else(missing)?;
            return Ok(Found::Sharded(Arc::clone(table), TablePart::Column(name.to_owned())));
        }
        None if state.is_relation(relation) => {
            let message = format!("cannot set comment on relation \"{relation}\"");
            return Err(Error::new(ErrorCode::WrongObjectType, message)
                .with_detail("This operation is not supported for indexes."));
        }
        None => return Err(undefined_table(relation)),
    };
    Ok(Found::Here(Subject::Of(table.id(), Part::Column(id.ok_or_else(missing)?))))
}

fn constraint(state: &CatalogState, transaction: &Transaction, relation: &str, name: &str) -> Result<Found> {
    let missing = || {
        let message = format!("constraint \"{name}\" for table \"{relation}\" does not exist");
        Error::new(ErrorCode::UndefinedObject, message)
    };
    let Some(table) = state.table(relation) else {
        if state.is_relation(relation) {
            return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{relation}\" is an index")));
        }
        return Err(undefined_table(relation));
    };
    let part = system_tables::constraint_named(state, relation, name);
    match (table, part) {
        (Table::Sharded(table), Some(Part::Key)) => Ok(Found::Sharded(Arc::clone(table), TablePart::Key)),
        (Table::Sharded(table), part) => {
            comments::refuse_constraint(table, name, part.is_some())?;
            Err(missing())
        }
        (_, None) => Err(missing()),
        // It may have been dropped by the same transaction.
        (Table::Grid(region), Some(Part::Unique(_))) if unique::find(region, transaction, name).is_none() => {
            Err(missing())
        }
        (table, Some(part)) => Ok(Found::Here(Subject::Of(table.id(), part))),
    }
}

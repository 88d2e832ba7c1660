//! COMMENT on sharded tables: stored among the statements of the table's definition, and sent to no shard.
//!
//! Called by `ddl::comment`. A column's comment follows the column when it is renamed, because the statements of a
//! definition are read in the order in which they were made.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ashlar_base::{Error, Result};
use ashlar_functions::quoting::quote_ident;
use pg_query::NodeEnum;
use pg_query::protobuf::{CommentStmt, ObjectType};

use super::ShardedTable;
use super::alter::{altering, make_known};
use super::maintain::{in_block_refused, indexes};
use super::rule::quoted;
use super::sizes::Sizes;
use super::stored_definition::{BETWEEN, StoredTable, kept_of};
use crate::catalog::CatalogState;
use crate::ddl::Done;
use crate::engine::Engine;
use crate::grammar::{self, ParsedStatement};
use crate::sql_types::string_of;

/// What a comment of a sharded table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TablePart {
    /// All of it.
    Table,
    /// The column of this name.
    Column(String),
    /// The index of its primary key.
    KeyIndex,
    /// The constraint that is its primary key.
    Key,
}

/// What is said of a table and its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableComments(BTreeMap<TablePart, Arc<str>>);

impl TableComments {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TablePart, &Arc<str>)> {
        self.0.iter()
    }

    /// What a kept COMMENT says.
    pub(super) fn say(&mut self, statement: &CommentStmt) {
        let Some(part) = part_of(statement) else { return };
        if statement.comment.is_empty() {
            self.0.remove(&part);
        } else {
            self.0.insert(part, statement.comment.as_str().into());
        }
    }

    /// A column is gone.
    pub(super) fn drop_column(&mut self, column: &str) {
        self.0.remove(&TablePart::Column(column.to_owned()));
    }

    /// The primary key is gone.
    pub(super) fn drop_key(&mut self) {
        self.0.remove(&TablePart::KeyIndex);
        self.0.remove(&TablePart::Key);
    }

    /// A column has another name.
    pub(super) fn rename_column(&mut self, from: &str, to: &str) {
        if let Some(text) = self.0.remove(&TablePart::Column(from.to_owned())) {
            self.0.insert(TablePart::Column(to.to_owned()), text);
        }
    }
}

/// What a kept COMMENT is about.
fn part_of(statement: &CommentStmt) -> Option<TablePart> {
    let object = statement.object.as_ref().and_then(|object| object.node.as_ref());
    match ObjectType::try_from(statement.objtype) {
        Ok(ObjectType::ObjectTable) => Some(TablePart::Table),
        Ok(ObjectType::ObjectIndex) => Some(TablePart::KeyIndex),
        Ok(ObjectType::ObjectTabconstraint) => Some(TablePart::Key),
        Ok(ObjectType::ObjectColumn) => match object {
            Some(NodeEnum::List(list)) => {
                list.items.last().and_then(string_of).map(|name| TablePart::Column(name.to_owned()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The statement that says something of a part, or nothing more.
fn statement(table: &ShardedTable, part: &TablePart, text: &str) -> String {
    let (own, key) = (quote_ident(&table.schema.name), quote_ident(&table.schema.key_name));
    let object = match part {
        TablePart::Table => format!("TABLE {own}"),
        TablePart::Column(column) => format!("COLUMN {own}.{}", quote_ident(column)),
        TablePart::KeyIndex => format!("INDEX {key}"),
        TablePart::Key => format!("CONSTRAINT {key} ON {own}"),
    };
    let text = if text.is_empty() { "NULL".to_owned() } else { quoted(text) };
    format!("COMMENT ON {object} IS {text}")
}

/// What is kept of a table once something else is said of a part. Of what was said since the last change of the table's shape only the last
/// is kept: before, a column of the same name may have been another one.
fn kept_with(before: &str, part: &TablePart, said: String) -> Result<String> {
    let statements = grammar::parse(before)?;
    let is_comment = |kept: &ParsedStatement| matches!(kept.node, NodeEnum::CommentStmt(_));
    let shaped = statements.iter().rposition(|kept| !is_comment(kept)).map_or(0, |last| last + 1);
    let is_replaced = |place: usize, kept: &ParsedStatement| match &kept.node {
        NodeEnum::CommentStmt(statement) => place >= shaped && part_of(statement).as_ref() == Some(part),
        _ => false,
    };
    let mut texts: Vec<String> = Vec::with_capacity(statements.len() + 1);
    for (place, kept) in statements.into_iter().enumerate() {
        if !is_replaced(place, &kept) {
            texts.push(kept.text);
        }
    }
    texts.push(said);
    Ok(texts.join(BETWEEN))
}

/// COMMENT of a sharded table or a part of it; an empty text says nothing more.
///
/// # Errors
/// 0A000 in a transaction block; 55000 where the table is not what it was; 58030.
pub(crate) async fn comment(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    part: &TablePart,
    text: &str,
    in_block: bool,
) -> Result<Done> {
    if in_block {
        return Err(in_block_refused("COMMENT"));
    }
    let _altering = altering(engine, &table.fleet, slice::from_ref(table)).await?;
    let name = &table.schema.name;
    let before = kept_of(&table.fleet, name)?;
    let after = kept_with(&before, part, statement(table, part, text))?;
    // Nothing else of it has changed.
    let commented = ShardedTable {
        schema: Arc::clone(&table.schema),
        routed: Arc::clone(&table.routed),
        attached: table.attached,
        fleet: Arc::clone(&table.fleet),
        sizes: Sizes::default(),
        is_in_bytes: AtomicBool::new(false),
        comments: StoredTable::read(name, &after)?.comments,
    };
    make_known(engine, commented, &before, &after)?;
    Ok(Done::tag("COMMENT"))
}

/// 0A000 where a name is that of an index which only shards have: nothing here has a number of it.
///
/// # Errors
/// That one.
pub(crate) fn refuse_index(catalog: &CatalogState, name: &str) -> Result<()> {
    let Some(fleet) = catalog.fleet().filter(|_| catalog.has_sharded()) else { return Ok(()) };
    if indexes(&fleet.catalog().known())?.iter().any(|(index, _)| index == name) {
        return Err(Error::unsupported("COMMENT on an index of a sharded table is not supported")
            .with_hint("Comment on its primary key, on the table or on a column."));
    }
    Ok(())
}

/// 0A000 where a sharded table has a constraint of a name, as `is_known` tells or as its shards have it: nobody keeps what is said of that.
///
/// # Errors
/// That one.
pub(crate) fn refuse_constraint(table: &ShardedTable, name: &str, is_known: bool) -> Result<()> {
    let kept = StoredTable::read(&table.schema.name, &kept_of(&table.fleet, &table.schema.name)?)?;
    if is_known || kept.has_constraint(name) {
        return Err(Error::unsupported("COMMENT on this constraint of a sharded table is not supported")
            .with_hint("Comment on its primary key, on the table or on a column."));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

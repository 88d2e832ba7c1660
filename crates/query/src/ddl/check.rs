//! CHECK constraints of tables in memory: of CREATE TABLE, and those that ALTER TABLE adds, drops and renames.
//!
//! A constraint is part of the table's shape; the store asks it of every row, whoever writes. What is kept is the condition as it was planned:
//! nothing of its text is planned again.

use std::borrow::Cow;
use std::sync::Arc;

use ashlar_base::{CheckDef, ColumnId, Error, ErrorCode, Result, ScalarType, SqlType, TableSchema};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::route::column_references;
use ashlar_store::{Region, Snapshot, violated_by_some_row};
use futures::StreamExt;
use pg_query::protobuf::{Constraint, TypeCast, TypeName};
use pg_query::{Node, NodeEnum, NodeRef};

use super::index::free_name;
use crate::catalog::{CatalogState, Table};
use crate::engine::Engine;
use crate::index_rows::{self, IndexExpressions};
use crate::index_text::Text;
use crate::resources::StatementResources;
use crate::select::{self, Planner, SelectPlan};
use crate::sharded::free_of_table;
use crate::sql_types::string_of;
use crate::statement::{expression_text, selecting};
use crate::transaction::Transaction;

mod numbers;

/// What the names of constraints without one end with.
const LABEL: &str = "check";

/// Gives a new table the constraints that were stated, in their order.
///
/// # Errors
/// 42710 for a name that two of them have, and what is wrong with a condition: 42703, 42804, 42803, 42P20, 0A000.
pub(super) fn of_table(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    schema: &mut TableSchema,
    stated: &[Constraint],
) -> Result<()> {
    for constraint in stated {
        if schema.checks.iter().any(|known| known.name == constraint.conname) {
            let message = format!("check constraint \"{}\" already exists", constraint.conname);
            return Err(Error::new(ErrorCode::DuplicateObject, message));
        }
        let check = define(engine, catalog, schema, constraint)?;
        schema.checks.push(check);
    }
    Ok(())
}

/// Gives a table that there is one more constraint: what it is called, and its condition. Its rows are not looked at.
///
/// # Errors
/// 42710 for a name that another of its constraints has, 0A000 for NOT VALID, and what is wrong with the condition.
pub(super) fn added(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    region: &Region,
    schema: &mut TableSchema,
    constraint: &Constraint,
) -> Result<Added> {
    if constraint.skip_validation {
        return Err(Error::unsupported("CHECK ... NOT VALID is not supported")
            .with_hint("Leave NOT VALID out: the rows that there are must fulfil the condition."));
    }
    refuse_name(schema, &constraint.conname)?;
    if !constraint.conname.is_empty() && names_other(region, schema, &constraint.conname) {
        return Err(exists(&schema.name, &constraint.conname));
    }
    let check = define(engine, catalog, schema, constraint)?;
    let condition = condition_of(constraint)?;
    let added = Added { name: check.name.clone(), condition: planned_text(&condition)? };
    schema.checks.push(check);
    Ok(added)
}

/// A constraint that a statement has added.
pub(super) struct Added {
    name: String,
    /// Its text.
    condition: String,
}

/// 42710 where a constraint has a name that another kind of constraint is to have.
pub(super) fn refuse_name(schema: &TableSchema, name: &str) -> Result<()> {
    match schema.checks.iter().find(|check| check.name == name) {
        Some(known) => Err(exists(&schema.name, &known.name)),
        None => Ok(()),
    }
}

/// Gives the constraint at a place among those of the table another name.
///
/// # Errors
/// 42710 where another constraint has it.
pub(super) fn rename(region: &Region, schema: &mut TableSchema, place: usize, name: &str) -> Result<()> {
    refuse_name(schema, name)?;
    if names_other(region, schema, name) {
        return Err(exists(&schema.name, name));
    }
    name.clone_into(&mut schema.checks[place].name);
    Ok(())
}

/// 42710
pub(super) fn exists(table: &str, name: &str) -> Error {
    Error::new(ErrorCode::DuplicateObject, format!("constraint \"{name}\" for relation \"{table}\" already exists"))
}

/// Whether a constraint of another kind has a name: the primary key, or a UNIQUE constraint.
fn names_other(region: &Region, schema: &TableSchema, name: &str) -> bool {
    let is_constraint = |index: &Arc<ashlar_base::IndexDef>| index.unique.is_some_and(|unique| unique.is_constraint);
    schema.key_name == name || region.standing_indexes().iter().any(|index| index.name == name && is_constraint(index))
}

/// Whether any constraint has a name.
fn is_used(catalog: &CatalogState, name: &str) -> bool {
    catalog.tables().any(|(_, table)| match table {
        Table::Grid(region) => {
            let schema = region.schema();
            schema.checks.iter().any(|check| check.name == name) || names_other(region, &schema, name)
        }
        Table::Sharded(table) => table.schema.key_name == name,
        Table::File(_) => false,
    })
}

/// The condition that is stated; NULL by itself is one that is never false.
fn condition_of(constraint: &Constraint) -> Result<Cow<'_, Node>> {
    let node = constraint.raw_expr.as_deref();
    let node = node.ok_or_else(|| Error::internal("a CHECK constraint without its condition"))?;
    if !matches!(&node.node, Some(NodeEnum::AConst(constant)) if constant.isnull) {
        return Ok(Cow::Borrowed(node));
    }
    let name = |name: &str| Node { node: Some(NodeEnum::String(pg_query::protobuf::String { sval: name.to_owned() })) };
    let names = vec![name("pg_catalog"), name("bool")];
    let boolean = TypeName { names, typemod: -1, location: -1, ..TypeName::default() };
    let cast = TypeCast { arg: Some(Box::new(node.clone())), type_name: Some(boolean), location: -1 };
    Ok(Cow::Owned(Node { node: Some(NodeEnum::TypeCast(Box::new(cast))) }))
}

/// A condition as it is planned.
fn planned_text(condition: &Node) -> Result<String> {
    let mut condition = condition.clone();
    numbers::settle(&mut condition);
    expression_text(&condition)
}

fn define(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    schema: &TableSchema,
    constraint: &Constraint,
) -> Result<CheckDef> {
    if constraint.is_no_inherit {
        return Err(Error::unsupported("CHECK ... NO INHERIT is not supported")
            .with_hint("Leave NO INHERIT out: no table inherits from another one."));
    }
    let node = condition_of(constraint)?;
    let columns = columns(schema, &node)?;
    let expr = index_rows::condition(engine, catalog, schema, &planned_text(&node)?)?;
    let name = match constraint.conname.as_str() {
        "" => {
            let is_taken = |name: &str| {
                schema.checks.iter().any(|check| check.name == name)
                    || schema.key_name == name
                    || is_used(catalog, name)
            };
            match columns[..] {
                [column] => {
                    let column = schema.columns.iter().find(|known| known.id == column);
                    let column = column.map_or_else(String::new, |column| column.name.clone());
                    free_name(&schema.name, &[column], LABEL, is_taken)
                }
                _ => free_of_table(&schema.name, LABEL, is_taken),
            }
        }
        given => given.to_owned(),
    };
    let expression = (name.clone(), expr, SqlType::Scalar(ScalarType::Bool), Text::of(&node, schema)?);
    let condition = IndexExpressions::plan(engine, schema, vec![expression], Vec::new(), None)?;
    let condition = condition.ok_or_else(|| Error::internal("a condition is an expression"))?;
    Ok(CheckDef { id: engine.catalog().next_id(), name, columns, condition })
}

/// The columns that a condition names, each once, as they stand there.
fn columns(schema: &TableSchema, condition: &Node) -> Result<Vec<ColumnId>> {
    let Some(mut references) = column_references(condition) else {
        let has_query = selecting(condition).nodes().iter().any(|(node, ..)| matches!(node, NodeRef::SubLink(_)));
        let message = if has_query {
            "cannot use subquery in check constraint"
        } else {
            "this check constraint is not supported"
        };
        return Err(Error::unsupported(message));
    };
    references.sort_by_key(|reference| reference.location);
    let mut found = Vec::new();
    for reference in references {
        let name = reference.fields.iter().filter_map(string_of).next_back().unwrap_or_default();
        let Some(ordinal) = schema.column(name) else {
            if name == schema.name {
                return Err(Error::unsupported("a CHECK constraint of the row as a whole is not supported")
                    .with_hint("Name its columns."));
            }
            // What is no column the planner refuses.
            continue;
        };
        let id = schema.columns[ordinal].id;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Whether a constraint reads or names a column.
pub(super) fn is_about(check: &CheckDef, column: ColumnId) -> bool {
    check.columns.contains(&column) || check.condition.inputs().contains(&column)
}

/// Looks at the rows that a transaction sees, its own among them, for one that a constraint forbids which it adds: it can be canceled
/// meanwhile. What is returned sees these rows. In a block others' rows cannot come in between: their writes make the commit of the new
/// shape fail.
///
/// # Errors
/// 23514 where there is one, and what computing the condition finds.
pub(super) async fn check_rows(
    engine: &Engine,
    transaction: &mut Transaction,
    table: &str,
    added: &Added,
    resources: &StatementResources,
) -> Result<Snapshot> {
    let snapshot = transaction.snapshot(engine.store());
    let catalog = transaction.catalog(engine.catalog());
    let view = transaction.view(snapshot.clone(), &catalog);
    let text = format!("SELECT 1 AS one FROM {} WHERE NOT ({}) LIMIT 1", quote_ident(table), added.condition);
    let select = SelectPlan::new(&Planner::new(engine, &catalog), select::parse(&text)?, &[])?;
    let mut found = select.stream(engine, &[], view, resources).await?;
    while let Some(batch) = found.next().await {
        if batch.map_err(from_datafusion)?.num_rows() > 0 {
            return Err(violated_by_some_row(table, &added.name));
        }
    }
    Ok(snapshot)
}

#[cfg(test)]
mod tests;

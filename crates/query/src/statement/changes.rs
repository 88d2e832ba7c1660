//! INSERT, UPDATE and DELETE: which home the target table has, and how the statement is carried out there.
//!
//! Called by `statement` for what cannot be sent to shards as text. Runs nothing.

use std::sync::Arc;

use ashlar_base::{Error, Result, SqlType};
use datafusion::sql::sqlparser::ast::{Insert, Statement as AstStatement, With};
use pg_query::NodeEnum;
use pg_query::protobuf::{InsertStmt, OverridingKind, RangeVar};

use super::{Kind, Statement, statement_text};
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::dml::{DeletePlan, InsertPlan, Returning, ShardChangePlan, SpreadPlan, UpdatePlan, arbiters, split_with};
use crate::engine::Engine;
use crate::grammar::ParsedStatement;
use crate::key_plan::{self, computed};
use crate::sharded::{ShardedTable, written_to};
use crate::{locking, select};

/// Plans an INSERT.
///
/// # Errors
/// What planning finds.
pub(super) fn insert(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    node: &InsertStmt,
    declared: &[u32],
) -> Result<Statement> {
    if let Some(table) = written_to(catalog, node.relation.as_ref()) {
        let (change, _) = parts(parsed, node)?;
        let plan = SpreadPlan::new(engine, catalog, table, parsed, change, arbiters::target(node), declared)?;
        let (types, columns) = (plan.parameter_types.clone(), plan.returning.clone());
        return Ok(Statement::of_kind(engine, catalog, parsed, Kind::Spread(Box::new(plan)), types, columns));
    }
    let plan = insert_plan(engine, catalog, parsed, node, declared)?;
    let types = plan.parameter_types.clone();
    let columns = plan.returning.as_ref().map(|returning| Arc::clone(&returning.columns));
    Ok(Statement::of_kind(engine, catalog, parsed, Kind::Insert(Box::new(plan)), types, columns))
}

/// Plans an INSERT into a table in memory.
///
/// # Errors
/// What planning finds.
pub(super) fn insert_plan(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    node: &InsertStmt,
    declared: &[u32],
) -> Result<InsertPlan> {
    let ((with, insert), overriding) = parts(parsed, node)?;
    InsertPlan::new(engine, catalog, with, insert, overriding, arbiters::target(node), declared)
}

/// The WITH before an INSERT and the INSERT; and whether it is one OVERRIDING SYSTEM VALUE.
fn parts(parsed: &ParsedStatement, node: &InsertStmt) -> Result<((Option<With>, Insert), bool)> {
    let text = match arbiters::target(node) {
        Some(named) if !arbiters::is_plain(named) => without_target(node)?,
        _ => parsed.text.clone(),
    };
    let (with, AstStatement::Insert(insert)) = split_with(select::parse(&text)?) else {
        return Err(Error::internal("an INSERT is parsed as one"));
    };
    let overriding = match OverridingKind::try_from(node.r#override) {
        Ok(OverridingKind::OverridingSystemValue) => true,
        Ok(OverridingKind::OverridingUserValue) => {
            return Err(Error::unsupported("OVERRIDING USER VALUE is not supported")
                .with_hint("Leave the column out of the INSERT."));
        }
        _ => false,
    };
    Ok(((with, insert), overriding))
}

/// Plans an UPDATE or a DELETE: `target` is the table that it is about.
///
/// # Errors
/// What planning finds.
pub(super) fn change(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    target: Option<&RangeVar>,
    declared: &[u32],
) -> Result<Statement> {
    refuse_cursor(&parsed.node)?;
    if let Some(table) = written_to(catalog, target) {
        return of_shards(engine, catalog, parsed, table, declared);
    }
    let found = locking::take_out(engine, catalog, &parsed.text, declared)?;
    if let Some(plan) = key_plan::recognise(catalog, &found.statement, declared)?
        && found.subqueries.is_empty()
    {
        return Ok(Statement::of_key(catalog, &parsed.text, plan));
    }
    let planned = change_plan(engine, catalog, found.statement, &found.declared)?;
    let (kind, types) = match planned.kind {
        Kind::Update(mut plan) => {
            let types = found.subqueries.parameter_types(&plan.select)?;
            plan.locked = found.subqueries;
            let of_key = computed::of_update(engine, &plan).map(|plan| Kind::Key(Box::new(plan)));
            (of_key.unwrap_or(Kind::Update(plan)), types)
        }
        Kind::Delete(mut plan) => {
            let types = found.subqueries.parameter_types(&plan.select)?;
            plan.locked = found.subqueries;
            let of_key = computed::of_delete(engine, &plan).map(|plan| Kind::Key(Box::new(plan)));
            (of_key.unwrap_or(Kind::Delete(plan)), types)
        }
        kind => (kind, planned.types),
    };
    Ok(Statement::of_kind(engine, catalog, parsed, kind, types, planned.columns))
}

/// What a statement was planned as, the types of its parameters, and its columns.
pub(super) struct Planned {
    pub(super) kind: Kind,
    pub(super) types: Vec<SqlType>,
    pub(super) columns: Option<Arc<[Column]>>,
}

/// Plans an UPDATE or a DELETE of a table in memory whose rows a query finds, and which locks none but those that it changes.
///
/// # Errors
/// What planning finds.
pub(super) fn change_plan(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    statement: AstStatement,
    declared: &[u32],
) -> Result<Planned> {
    match split_with(statement) {
        (with, AstStatement::Update(update)) => {
            let plan = UpdatePlan::new(engine, catalog, with, update, declared)?;
            let (types, columns) = (plan.select.parameter_types.clone(), columns_of(&plan.returning));
            Ok(Planned { kind: Kind::Update(Box::new(plan)), types, columns })
        }
        (with, AstStatement::Delete(delete)) => {
            let plan = DeletePlan::new(engine, catalog, with, delete, declared)?;
            let (types, columns) = (plan.select.parameter_types.clone(), columns_of(&plan.returning));
            Ok(Planned { kind: Kind::Delete(Box::new(plan)), types, columns })
        }
        _ => Err(Error::internal("an UPDATE or a DELETE is parsed as one")),
    }
}

pub(super) fn columns_of(returning: &Option<Returning>) -> Option<Arc<[Column]>> {
    returning.as_ref().map(|known| Arc::clone(&known.columns))
}

/// 0A000 for an UPDATE or a DELETE of the row that a cursor stands on.
pub(super) fn refuse_cursor(statement: &NodeEnum) -> Result<()> {
    if is_of_cursor(statement) {
        return Err(Error::unsupported("WHERE CURRENT OF a cursor is not supported")
            .with_hint("FETCH the key of the row too, and name the row by it."));
    }
    Ok(())
}

/// Whether it is an UPDATE or a DELETE of the row that a cursor stands on.
pub(super) fn is_of_cursor(statement: &NodeEnum) -> bool {
    let condition = match statement {
        NodeEnum::UpdateStmt(statement) => statement.where_clause.as_ref(),
        NodeEnum::DeleteStmt(statement) => statement.where_clause.as_ref(),
        _ => None,
    };
    condition.is_some_and(|condition| matches!(condition.node, Some(NodeEnum::CurrentOfExpr(_))))
}

/// Plans an UPDATE or a DELETE of a sharded table whose rows are found here.
fn of_shards(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    table: &Arc<ShardedTable>,
    declared: &[u32],
) -> Result<Statement> {
    let change = split_with(select::parse(&parsed.text)?);
    let plan = ShardChangePlan::new(engine, catalog, table, change, declared)?;
    let types = plan.parameter_types.clone();
    let columns = plan.returning().map(|returning| Arc::clone(&returning.columns));
    Ok(Statement::of_kind(engine, catalog, parsed, Kind::ShardChange(Box::new(plan)), types, columns))
}

/// An INSERT without what its ON CONFLICT names, which DataFusion's parser does not know.
fn without_target(node: &InsertStmt) -> Result<String> {
    let mut node = node.clone();
    if let Some(conflict) = &mut node.on_conflict_clause {
        conflict.infer = None;
    }
    statement_text(&NodeEnum::InsertStmt(Box::new(node)))
}

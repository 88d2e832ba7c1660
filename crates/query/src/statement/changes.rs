//! INSERT, UPDATE and DELETE: which home the target table has, and how the statement is carried out there.
//!
//! Called by `statement` for what cannot be sent to shards as text. Runs nothing.

use std::sync::Arc;

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::Statement as AstStatement;
use pg_query::NodeEnum;
use pg_query::protobuf::{InsertStmt, OverridingKind, RangeVar, WithClause};

use super::{Kind, Statement, check_with, statement_text};
use crate::catalog::CatalogState;
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
    check_with(node.with_clause.as_ref())?;
    let target = arbiters::target(node);
    let text = match target {
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
    if let Some(table) = written_to(catalog, node.relation.as_ref()) {
        let plan = SpreadPlan::new(engine, catalog, table, parsed, (with, insert), target, declared)?;
        let (types, columns) = (plan.parameter_types.clone(), plan.returning.clone());
        return Ok(Statement::of_kind(engine, catalog, parsed, Kind::Spread(Box::new(plan)), types, columns));
    }
    let plan = InsertPlan::new(engine, catalog, with, insert, overriding, target, declared)?;
    let types = plan.parameter_types.clone();
    let columns = plan.returning.as_ref().map(|returning| Arc::clone(&returning.columns));
    Ok(Statement::of_kind(engine, catalog, parsed, Kind::Insert(Box::new(plan)), types, columns))
}

/// Plans an UPDATE or a DELETE: `with` is what stands before it, and `target` the table that it is about.
///
/// # Errors
/// What planning finds.
pub(super) fn change(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    with: Option<&WithClause>,
    target: Option<&RangeVar>,
    declared: &[u32],
) -> Result<Statement> {
    if is_of_cursor(&parsed.node) {
        return Err(Error::unsupported("WHERE CURRENT OF a cursor is not supported")
            .with_hint("FETCH the key of the row too, and name the row by it."));
    }
    check_with(with)?;
    if let Some(table) = written_to(catalog, target) {
        return of_shards(engine, catalog, parsed, table, declared);
    }
    let found = locking::take_out(engine, catalog, &parsed.text, declared)?;
    if let Some(plan) = key_plan::recognise(catalog, &found.statement, declared)?
        && found.subqueries.is_empty()
    {
        return Ok(Statement::of_key(catalog, &parsed.text, plan));
    }
    let columns_of = |returning: &Option<Returning>| returning.as_ref().map(|known| Arc::clone(&known.columns));
    let (kind, types, columns) = match split_with(found.statement) {
        (with, AstStatement::Update(update)) => {
            let mut plan = UpdatePlan::new(engine, catalog, with, update, &found.declared)?;
            let types = found.subqueries.parameter_types(&plan.select)?;
            plan.locked = found.subqueries;
            let columns = columns_of(&plan.returning);
            let of_key = computed::of_update(engine, &plan).map(|plan| Kind::Key(Box::new(plan)));
            (of_key.unwrap_or_else(|| Kind::Update(Box::new(plan))), types, columns)
        }
        (with, AstStatement::Delete(delete)) => {
            let mut plan = DeletePlan::new(engine, catalog, with, delete, &found.declared)?;
            let types = found.subqueries.parameter_types(&plan.select)?;
            plan.locked = found.subqueries;
            let columns = columns_of(&plan.returning);
            let of_key = computed::of_delete(engine, &plan).map(|plan| Kind::Key(Box::new(plan)));
            (of_key.unwrap_or_else(|| Kind::Delete(Box::new(plan))), types, columns)
        }
        _ => return Err(Error::internal("an UPDATE or a DELETE is parsed as one")),
    };
    Ok(Statement::of_kind(engine, catalog, parsed, kind, types, columns))
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

//! Queries, and the statements that contain one: SELECT, EXPLAIN, CREATE TABLE AS.
//!
//! Called by `statement` for what cannot be sent to shards as text. Runs nothing.

use std::sync::Arc;

use ashlar_base::{Error, Result, SqlType};
use datafusion::sql::sqlparser::ast::Statement as AstStatement;
use pg_query::NodeEnum;
use pg_query::protobuf::{CreateTableAsStmt, ExplainStmt, ObjectType, SelectStmt};

use super::{Kind, Statement, calls, statement_text};
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::ddl::{CreateAs, Ddl, check_storage, relation_name};
use crate::engine::Engine;
use crate::explain;
use crate::grammar::{self, ParsedStatement};
use crate::index_plan::IndexPlan;
use crate::key_plan::{self, computed};
use crate::locking::{self, Planned};
use crate::select::{self, Planner, SelectPlan};
use crate::sharded::why_by_engine;
use crate::sql_types;

/// Plans a query: as a lookup by key, by an index or by the engine, whichever is the shortest way.
///
/// # Errors
/// What planning finds.
pub(super) fn select(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    node: &SelectStmt,
    declared: &[u32],
) -> Result<Statement> {
    let make = |kind: Kind, parameter_types: Vec<SqlType>, columns: Arc<[Column]>| {
        Statement::of_kind(engine, catalog, parsed, kind, parameter_types, Some(columns))
    };
    if node.into_clause.is_some() {
        return Err(Error::unsupported("SELECT INTO is not supported").with_hint("Use CREATE TABLE ... AS SELECT ..."));
    }
    if !node.locking_clause.is_empty() {
        return Ok(match locking::plan(engine, catalog, &parsed.text, declared)? {
            Planned::Key(plan) => Statement::of_key(catalog, &parsed.text, plan),
            Planned::Rows(plan) => {
                let (types, columns) = (plan.parameter_types.clone(), Arc::clone(&plan.columns));
                make(Kind::Lock(plan), types, columns)
            }
        });
    }
    if let Some((command, types, columns)) = calls::recognise(node, declared)? {
        return Ok(make(Kind::Session(command), types, columns));
    }
    let ast = select::parse(&parsed.text)?;
    if let Some(plan) = key_plan::recognise(catalog, &ast, declared)? {
        return Ok(Statement::of_key(catalog, &parsed.text, plan));
    }
    let asked = match &ast {
        AstStatement::Query(query) if catalog.has_indexes() => Some(query.clone()),
        _ => None,
    };
    let planner = Planner::new(engine, catalog).of_text(&parsed.text);
    let mut plan = SelectPlan::new(&planner, ast, declared)?;
    let indexed = asked.and_then(|query| IndexPlan::recognise(catalog, &query, &plan.parameter_types));
    plan.indexed = indexed.filter(|indexed| indexed.gives(&plan.columns)).map(Arc::new);
    let (types, columns) = (plan.parameter_types.clone(), Arc::clone(&plan.columns));
    if let Some(plan) = computed::of_select(engine, &plan) {
        return Ok(make(Kind::Key(Box::new(plan)), types, columns));
    }
    Ok(make(Kind::Select(Box::new(plan)), types, columns))
}

/// Plans the statement inside an EXPLAIN.
///
/// # Errors
/// What planning finds, and options that EXPLAIN does not know.
pub(super) fn explain(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    node: &ExplainStmt,
    declared: &[u32],
) -> Result<Statement> {
    let options = explain::options(node)?;
    let inner = node.query.as_ref().and_then(|query| query.node.clone());
    let inner = inner.ok_or_else(|| Error::internal("EXPLAIN without a statement"))?;
    let text = statement_text(&inner)?;
    let mut inner = ParsedStatement { text, offset: 0, node: inner };
    // The router looks at places of its text.
    if catalog.has_sharded()
        && let Some(again) = grammar::only_one(grammar::parse(&inner.text)?)?
    {
        inner = again;
    }
    let planned = Statement::plan_inner(engine, catalog, &inner, declared)?;
    let is_by_engine = catalog.has_sharded() && !matches!(planned.kind, Kind::Sharded(_));
    let because = if is_by_engine { why_by_engine(catalog, &inner) } else { Vec::new() };
    let types = planned.parameter_types.clone();
    let columns: Arc<[Column]> = vec![Column::text("QUERY PLAN")].into();
    let kind = Kind::Explain { inner: Arc::new(planned), options, because };
    Ok(Statement::of_kind(engine, catalog, parsed, kind, types, Some(columns)))
}

/// Plans the query of CREATE TABLE AS.
///
/// # Errors
/// 0A000 for what is not supported; what planning finds.
pub(super) fn create_as(engine: &Engine, catalog: &Arc<CatalogState>, node: &CreateTableAsStmt) -> Result<Ddl> {
    if node.objtype != i32::from(ObjectType::ObjectTable) {
        return Err(Error::unsupported("materialized views are not supported"));
    }
    let into = node.into.as_ref().ok_or_else(|| Error::internal("CREATE TABLE AS without a name"))?;
    if into.rel.as_ref().is_some_and(|relation| relation.relpersistence == "t") {
        return Err(Error::unsupported("temporary tables are not supported"));
    }
    let life = check_storage(&into.access_method, &into.options)?;
    let inner = node.query.as_ref().and_then(|query| query.node.clone());
    let inner = inner.ok_or_else(|| Error::internal("CREATE TABLE AS without a query"))?;
    if !matches!(inner, NodeEnum::SelectStmt(_)) {
        return Err(Error::unsupported("CREATE TABLE AS of this statement is not supported"));
    }
    let text = statement_text(&inner)?;
    let plan = SelectPlan::new(&Planner::new(engine, catalog).of_text(&text), select::parse(&text)?, &[])?;
    Ok(Ddl::CreateAs(CreateAs {
        name: relation_name(into.rel.as_ref())?,
        if_not_exists: node.if_not_exists,
        columns: into.col_names.iter().filter_map(sql_types::string_of).map(str::to_owned).collect(),
        skip_data: into.skip_data,
        life,
        select: Box::new(plan),
    }))
}

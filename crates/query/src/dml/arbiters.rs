//! ON CONFLICT (...): which of the table's unique indexes is meant.
//!
//! As in PostgreSQL, an index is identified by its columns and expressions, in any order; a partial index matches only
//! if the WHERE of the ON CONFLICT clause implies its predicate.

use std::collections::BTreeSet;
use std::sync::Arc;

use ashlar_base::{ColumnId, Error, ErrorCode, IndexDef, Result, TableSchema};
use ashlar_store::Region;
use datafusion::logical_expr::Expr;
use pg_query::NodeEnum;
use pg_query::protobuf::{InferClause, InsertStmt};

use super::Arbiters;
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::index_rows::{self, IndexExpressions, Planned};
use crate::probes::implies;
use crate::statement::expression_text;

/// What ON CONFLICT of an INSERT names; `None` where it names nothing, or there is none.
pub(crate) fn target(statement: &InsertStmt) -> Option<&InferClause> {
    statement.on_conflict_clause.as_ref()?.infer.as_deref()
}

/// Whether DataFusion's parser knows what ON CONFLICT names.
pub(crate) fn is_plain(target: &InferClause) -> bool {
    let is_column = |element: &pg_query::Node| matches!(&element.node, Some(NodeEnum::IndexElem(element)) if element.expr.is_none());
    target.where_clause.is_none() && target.index_elems.iter().all(is_column)
}

/// The indexes that ON CONFLICT is about.
///
/// # Errors
/// 42P10 where there is none, 42704 for a constraint that there is not, and what planning the expressions finds.
pub(super) fn of(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    region: &Arc<Region>,
    target: Option<&InferClause>,
) -> Result<Arbiters> {
    let Some(target) = target else { return Ok(Arbiters::Any) };
    let schema = region.schema();
    let uniques: Vec<Arc<IndexDef>> = region
        .standing_indexes()
        .into_iter()
        .filter(|index| index.unique.is_some() && region.is_complete(index))
        .collect();
    if !target.conname.is_empty() {
        return constraint(&schema, &uniques, &target.conname);
    }
    let (mut columns, mut expressions): (BTreeSet<ColumnId>, Vec<Expr>) = (BTreeSet::new(), Vec::new());
    for element in &target.index_elems {
        let Some(NodeEnum::IndexElem(element)) = &element.node else { continue };
        if !element.collation.is_empty() || !element.opclass.is_empty() {
            return Err(Error::unsupported("ON CONFLICT with a collation or an operator class is not supported"));
        }
        match &element.expr {
            None => {
                columns.insert(schema.columns[super::target_column(&schema, &element.name)?].id);
            }
            Some(expr) => match index_rows::expression(engine, catalog, &schema, &expression_text(expr)?)? {
                Planned::Column(ordinal) => drop(columns.insert(schema.columns[ordinal].id)),
                Planned::Expression(expr, _) => expressions.push(expr),
            },
        }
    }
    let known = match &target.where_clause {
        None => Vec::new(),
        Some(node) => index_rows::conjuncts(engine, catalog, &schema, &expression_text(node)?)?,
    };
    let key: BTreeSet<ColumnId> = schema.key.iter().map(|&ordinal| schema.columns[ordinal].id).collect();
    if expressions.is_empty() && columns == key && !schema.hidden_key {
        return Ok(Arbiters::Key);
    }
    let matches = |index: &Arc<IndexDef>| {
        let on: BTreeSet<ColumnId> =
            index.columns.iter().copied().filter(|id| IndexDef::expression(*id).is_none()).collect();
        let computes = IndexExpressions::of(index);
        let computed: Vec<&Expr> = computes.iter().flat_map(|computes| computes.stated()).collect();
        let conditions = computes.map_or(&[][..], IndexExpressions::conditions);
        on == columns
            && computed.len() == expressions.len()
            && computed.iter().all(|expr| expressions.contains(expr))
            && implies(&known, conditions)
    };
    let found: Vec<Arc<IndexDef>> = uniques.into_iter().filter(matches).collect();
    if found.is_empty() {
        return Err(Error::new(
            ErrorCode::InvalidColumnReference,
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        ));
    }
    Ok(Arbiters::Indexes(found))
}

/// ON CONFLICT ON CONSTRAINT
fn constraint(schema: &TableSchema, uniques: &[Arc<IndexDef>], name: &str) -> Result<Arbiters> {
    if !schema.hidden_key && schema.key_name == name {
        return Ok(Arbiters::Key);
    }
    let is_it = |index: &&Arc<IndexDef>| index.name == name && index.unique.is_some_and(|unique| unique.is_constraint);
    match uniques.iter().find(is_it) {
        Some(index) => Ok(Arbiters::Indexes(vec![Arc::clone(index)])),
        None => Err(Error::new(
            ErrorCode::UndefinedObject,
            format!("constraint \"{name}\" for table \"{}\" does not exist", schema.name),
        )),
    }
}

//! What the conditions of a scan ask of a table's indexes.
//!
//! Called by `grid_table` when a scan is planned, with the statement's parameters already in their places. A condition
//! that no index helps with is left out: the scan looks at every condition again, row by row.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ashlar_base::{ColumnId, IndexDef, IndexKind, TableSchema, Value};
use ashlar_store::{ColumnReader, Probe, Region};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

/// What the conditions say about one column.
struct Said {
    equal: Option<Value>,
    low: Bound<Value>,
    high: Bound<Value>,
}

impl Default for Said {
    fn default() -> Self {
        Self { equal: None, low: Bound::Unbounded, high: Bound::Unbounded }
    }
}

/// One probe for each index that the conditions, all of which hold for a wanted row, can be asked of.
pub(crate) fn of(region: &Region, conditions: &[Expr]) -> Vec<Probe> {
    let indexes = region.indexes();
    if indexes.is_empty() {
        return Vec::new();
    }
    let (schema, arrow) = (region.schema(), region.arrow_schema());
    let mut said: HashMap<ColumnId, Said> = HashMap::new();
    for condition in conditions.iter().flat_map(split_conjunction) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (column, op, literal) = match (left.as_ref(), right.as_ref()) {
                    (column @ Expr::Column(_), Expr::Literal(literal, _)) => (column, Some(*op), literal),
                    (Expr::Literal(literal, _), column @ Expr::Column(_)) => (column, op.swap(), literal),
                    _ => continue,
                };
                if let (Some(op), Some((id, value))) = (op, value_of(&schema, &arrow, column, literal)) {
                    note(said.entry(id).or_default(), op, value);
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                for (bound, op) in [(low, Operator::GtEq), (high, Operator::LtEq)] {
                    let Expr::Literal(literal, _) = bound.as_ref() else { continue };
                    if let Some((id, value)) = value_of(&schema, &arrow, expr, literal) {
                        note(said.entry(id).or_default(), op, value);
                    }
                }
            }
            _ => {}
        }
    }
    indexes.iter().filter_map(|index| probe(index, &said)).collect()
}

fn note(said: &mut Said, op: Operator, value: Value) {
    match op {
        Operator::Eq => said.equal = Some(value),
        Operator::Gt => said.low = Bound::Excluded(value),
        Operator::GtEq => said.low = Bound::Included(value),
        Operator::Lt => said.high = Bound::Excluded(value),
        Operator::LtEq => said.high = Bound::Included(value),
        _ => {}
    }
}

/// A column and a constant of its very type: another type may order otherwise.
fn value_of(
    schema: &TableSchema,
    arrow: &SchemaRef,
    column: &Expr,
    literal: &ScalarValue,
) -> Option<(ColumnId, Value)> {
    let Expr::Column(column) = column else { return None };
    let ordinal = schema.column(&column.name)?;
    if literal.is_null() || literal.data_type() != *arrow.fields().get(ordinal)?.data_type() {
        return None;
    }
    let column = &schema.columns[ordinal];
    let array = literal.to_array().ok()?;
    let reader = ColumnReader::new(&array, column.sql_type).ok()?;
    Some((column.id, reader.datum(0).to_value()))
}

fn probe(index: &Arc<IndexDef>, said: &HashMap<ColumnId, Said>) -> Option<Probe> {
    let mut equal = Vec::new();
    let mut range = (Bound::Unbounded, Bound::Unbounded);
    for column in &index.columns {
        let Some(said) = said.get(column) else { break };
        if let Some(value) = &said.equal {
            equal.push(value.clone());
            continue;
        }
        range = (said.low.clone(), said.high.clone());
        break;
    }
    let is_useful = match index.kind {
        IndexKind::Hash => equal.len() == index.columns.len(),
        IndexKind::Btree => !equal.is_empty() || range != (Bound::Unbounded, Bound::Unbounded),
    };
    is_useful.then(|| Probe { index: Arc::clone(index), equal, range })
}

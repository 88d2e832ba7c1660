//! What the conditions of a scan ask of a table's key and indexes.
//!
//! Called by `grid_table` when a scan is planned, with the statement's parameters already in their places. A condition
//! that no index helps with is left out: the scan looks at every condition again, row by row.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ashlar_base::{ColumnId, Datum, IndexDef, IndexKind, PartitionId, Result, TableSchema, Value};
use ashlar_store::{ColumnReader, Partitions, Probe, ReadView, Region, ScanBatch};
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

/// What the conditions of a scan, all of which hold for a wanted row, leave of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Values of the primary key, in its order: one row at most.
    pub(crate) key: Option<Box<[Value]>>,
    /// One probe for each index that can be asked; none where the key is known.
    pub(crate) probes: Box<[Probe]>,
}

impl Asked {
    /// The partitions that can have such rows; `None`: all.
    pub(crate) fn candidates(&self, region: &Region, view: &ReadView) -> Option<Partitions> {
        if let Some(key) = &self.key {
            return Some(Partitions::with_key(region, &datums(key)));
        }
        // What the transaction itself has written is not in the indexes.
        let is_committed = !view.overlays.contains_key(&region.id());
        is_committed.then(|| region.candidates(&view.snapshot, &self.probes)).flatten()
    }

    /// What a view sees of one partition; rows that are not wanted may be among them.
    pub(crate) fn scan(
        &self,
        region: &Region,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: u32,
    ) -> Result<Vec<ScanBatch>> {
        match &self.key {
            Some(key) => region.scan_key(view, partition, columns, Some(version), &datums(key)),
            None => region.scan_probed(view, partition, columns, Some(version), &self.probes),
        }
    }
}

fn datums(key: &[Value]) -> Vec<Datum<'_>> {
    key.iter().map(Value::as_datum).collect()
}

/// What conditions ask.
pub(crate) fn of(region: &Region, conditions: &[Expr]) -> Asked {
    if conditions.is_empty() {
        return Asked::default();
    }
    let indexes = region.indexes();
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
    let of_key = |ordinal: &usize| said.get(&schema.columns[*ordinal].id)?.equal.clone();
    match schema.key.iter().map(of_key).collect() {
        key @ Some(_) => Asked { key, probes: Box::default() },
        None => Asked { key: None, probes: indexes.iter().filter_map(|index| probe(index, &said)).collect() },
    }
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
pub(crate) fn value_of(
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

//! Queries that find a few rows by the values of an index: planned once, then answered by the connection's own
//! thread.
//!
//! `SELECT columns FROM table WHERE indexed = $1` is tried here before DataFusion. DataFusion's plan of it is kept as
//! well, and runs when the index is gone or when there are more rows than a connection's thread should collect.

use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{ColumnId, Datum, IndexDef, IndexKind, PartitionId, SqlType, TableSchema, Value};
use ashlar_store::{Partitions, Probe, Region, Snapshot};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, LimitClause, Query, SetExpr, Value as AstValue};

use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::key_plan::{Builder, Operand, is_plain, split_and};

/// Bytes of rows that are collected there.
const BYTES_MAX: usize = 256 << 10;

/// Rows that are collected on a connection's thread, which others wait for meanwhile.
const ROWS_MAX: usize = 64;

/// See the module.
pub struct IndexPlan {
    region: Arc<Region>,
    schema: Arc<TableSchema>,
    index: Arc<IndexDef>,
    /// One for each column of the index, from the first on.
    operands: Vec<Operand>,
    /// Ordinals of the columns that come back.
    outputs: Vec<usize>,
    limit: Option<usize>,
}

impl IndexPlan {
    /// Recognises a query whose conditions are equalities with the first columns of an index, and nothing else.
    /// `parameters` are the types that its parameters have.
    pub(crate) fn recognise(catalog: &CatalogState, query: &Query, parameters: &[SqlType]) -> Option<Self> {
        let declared: Vec<u32> = parameters.iter().map(|sql_type| sql_type.oid()).collect();
        let is_alone = query.with.is_none()
            && query.fetch.is_none()
            && query.locks.is_empty()
            && query.for_clause.is_none()
            && query.order_by.is_none();
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        if !is_alone || !is_plain(select) {
            return None;
        }
        let [table] = &select.from[..] else { return None };
        let mut builder = Builder::for_table(catalog, table, &declared)?;
        let indexes = builder.region().indexes();
        if indexes.is_empty() {
            return None;
        }
        let limit = limit_of(query.limit_clause.as_ref())?;
        let mut conjuncts = Vec::new();
        split_and(select.selection.as_ref()?, &mut conjuncts);
        let mut said: Vec<(usize, Operand)> = Vec::new();
        for conjunct in conjuncts {
            let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = conjunct else { return None };
            let (column, other) = match (builder.column(left), builder.column(right)) {
                (Some(column), None) => (column, right),
                (None, Some(column)) => (column, left),
                _ => return None,
            };
            if said.iter().any(|(known, _)| *known == column) {
                return None;
            }
            said.push((column, builder.key_operand(column, other).ok()??));
        }
        let schema = Arc::clone(builder.schema());
        let outputs = builder.outputs(&select.projection)?;
        let index = indexes.iter().find(|index| covers(index, &schema, &said))?;
        let operands = index.columns.iter().take(said.len()).filter_map(|id| {
            let known = said.iter().find(|(ordinal, _)| schema.columns[*ordinal].id == *id);
            known.map(|(_, operand)| operand.clone())
        });
        let operands = operands.collect();
        Some(Self { region: Arc::clone(builder.region()), schema, index: Arc::clone(index), operands, outputs, limit })
    }

    /// Bytes that it holds, as estimated.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.operands.len() * (size_of::<Operand>() + 32) + self.outputs.len() * size_of::<usize>()
    }

    /// Whether its rows are what was announced of the query.
    pub(crate) fn gives(&self, columns: &[Column]) -> bool {
        let types = self.outputs.iter().map(|ordinal| self.schema.columns[*ordinal].sql_type);
        types.eq(columns.iter().map(|column| column.sql_type))
    }

    /// The table, and the index that is asked: for EXPLAIN.
    pub(crate) fn describe(&self) -> String {
        let rows = self.limit.map_or(ROWS_MAX, |limit| limit.min(ROWS_MAX));
        format!(
            "Index Lookup on {} using {}, where it finds at most {rows} rows; else",
            self.schema.name, self.index.name
        )
    }

    /// The rows that a snapshot sees, each handed to `emit` column by column: how many there were. `None`, and
    /// nothing was handed out, where the query has to run as any other.
    pub fn run(
        &self,
        snapshot: &Snapshot,
        parameters: &[Value],
        emit: &mut dyn FnMut(&mut dyn Iterator<Item = Datum<'_>>),
    ) -> Option<u64> {
        // A snapshot that the table is too young for is told so by the plan that runs instead.
        self.region.check_birth(snapshot).ok()?;
        let mut equal = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            // What does not fit the column is compared in another type.
            let value = operand.value(parameters).ok()?;
            if value.is_null() {
                return Some(0);
            }
            equal.push(value);
        }
        let probe = Probe { index: Arc::clone(&self.index), equal, range: (Bound::Unbounded, Bound::Unbounded) };
        let wanted = self.limit.unwrap_or(usize::MAX);
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let mut bytes = 0;
        let probes = [probe];
        let candidates = self.region.candidates(snapshot, &probes);
        let [probe] = probes;
        let all = candidates.is_none().then(|| (0..self.region.partition_count()).map(PartitionId));
        for partition in candidates.iter().flat_map(Partitions::iter).chain(all.into_iter().flatten()) {
            if rows.len() >= wanted {
                break;
            }
            let left = ROWS_MAX - rows.len();
            let found = self.region.probe(snapshot, partition, self.schema.version, &probe, left, &mut |row| {
                bytes += self.outputs.iter().map(|ordinal| bytes_of(&row.get(*ordinal))).sum::<usize>();
                if bytes <= BYTES_MAX {
                    rows.push(self.outputs.iter().map(|ordinal| row.get(*ordinal).to_value()).collect());
                }
            });
            if !found || bytes > BYTES_MAX {
                return None;
            }
        }
        if self.region.is_dropped() {
            return None;
        }
        rows.truncate(wanted);
        for row in &rows {
            emit(&mut row.iter().map(Value::as_datum));
        }
        Some(rows.len() as u64)
    }
}

/// Whether the columns are the first ones of an index, each of them; of one by hash, all of them.
fn covers(index: &IndexDef, schema: &TableSchema, said: &[(usize, Operand)]) -> bool {
    let is_whole = index.kind == IndexKind::Btree || index.columns.len() == said.len();
    let is_first = |first: &[ColumnId]| said.iter().all(|(ordinal, _)| first.contains(&schema.columns[*ordinal].id));
    is_whole && index.columns.get(..said.len()).is_some_and(is_first)
}

/// Bytes of a value that its own size does not count.
fn bytes_of(datum: &Datum<'_>) -> usize {
    match datum {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Array(items) => items.iter().map(|item| size_of::<Value>() + bytes_of(&item)).sum(),
        _ => 0,
    }
}

/// The rows that a LIMIT leaves; `None` where it is none that can be counted here.
fn limit_of(limit: Option<&LimitClause>) -> Option<Option<usize>> {
    match limit {
        None => Some(None),
        Some(LimitClause::LimitOffset { limit: Some(Expr::Value(value)), offset: None, limit_by })
            if limit_by.is_empty() =>
        {
            match &value.value {
                AstValue::Number(digits, _) => digits.parse().ok().map(Some),
                _ => None,
            }
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;

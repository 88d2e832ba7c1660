//! Estimates of how many rows satisfy conditions, from what ANALYZE has found. They decide which plan is tried first;
//! no answer depends on one.
//!
//! Follows PostgreSQL's `selfuncs.c` in outline: common values count as often as they were seen, the other rows are
//! spread evenly over the remaining distinct values, ranges are read off the histogram, and conditions are taken to
//! be independent.

use std::ops::Bound;

use arrow::datatypes::SchemaRef;
use ashlar_base::{TableSchema, Value};
use ashlar_store::{ColumnReader, ColumnStatistics, Probe, Region, TableStatistics};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics as EngineColumn, ScalarValue, Statistics};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::{split_binary, split_conjunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

use crate::index_rows::column_by_id;

/// What is assumed of a condition that nobody knows anything about.
const UNKNOWN: f64 = 1.0 / 3.0;
/// The same of an equality, and of a range that is bounded on both sides.
const UNKNOWN_EQUAL: f64 = 0.005;

/// A table and what is known of it.
pub(crate) struct Estimator<'s> {
    pub(crate) schema: &'s TableSchema,
    pub(crate) known: &'s TableStatistics,
}

impl Estimator<'_> {
    /// The part of the rows for which all of these hold, from 0 to 1. Columns are named by their ids.
    pub(crate) fn all<'e>(&self, conditions: impl IntoIterator<Item = &'e Expr>) -> f64 {
        conditions.into_iter().map(|condition| self.one(condition)).product()
    }

    /// The part of the rows for which a condition holds.
    pub(crate) fn one(&self, condition: &Expr) -> f64 {
        let part = match condition {
            Expr::Literal(ScalarValue::Boolean(holds), _) => f64::from(u8::from(*holds == Some(true))),
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => self.all(split_conjunction(condition)),
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
                let none = split_binary(condition, Operator::Or).into_iter().map(|part| 1.0 - self.one(part));
                1.0 - none.product::<f64>()
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
                (target, Expr::Literal(literal, _)) => self.comparison(target, *op, literal),
                (Expr::Literal(literal, _), target) => match op.swap() {
                    Some(op) => self.comparison(target, op, literal),
                    None => UNKNOWN,
                },
                _ if *op == Operator::Eq => UNKNOWN_EQUAL,
                _ => UNKNOWN,
            },
            Expr::Between(Between { expr, negated: false, low, high }) => match (low.as_ref(), high.as_ref()) {
                (Expr::Literal(low, _), Expr::Literal(high, _)) => {
                    let (from, to) =
                        (self.comparison(expr, Operator::GtEq, low), self.comparison(expr, Operator::LtEq, high));
                    // Both leave out what the other takes, and both the NULLs.
                    let nulls = self.column(expr).map_or(0.0, |column| column.null_fraction);
                    (from + to - 1.0 + nulls).max(UNKNOWN_EQUAL)
                }
                _ => UNKNOWN_EQUAL,
            },
            Expr::InList(InList { expr, list, negated }) => {
                let of = |item: &Expr| match item {
                    Expr::Literal(literal, _) => self.comparison(expr, Operator::Eq, literal),
                    _ => UNKNOWN_EQUAL,
                };
                let part: f64 = list.iter().map(of).sum();
                if *negated { 1.0 - part } else { part }
            }
            Expr::IsNull(target) => self.column(target).map_or(UNKNOWN_EQUAL, |column| column.null_fraction),
            Expr::IsNotNull(target) => self.column(target).map_or(1.0, |column| 1.0 - column.null_fraction),
            Expr::Column(_) => self.equal(condition, &Value::Bool(true)),
            Expr::Not(inner) => 1.0 - self.one(inner),
            _ => UNKNOWN,
        };
        part.clamp(0.0, 1.0)
    }

    /// The part of the rows that an index would name; nothing is assumed of expressions and predicates.
    pub(crate) fn probe(&self, probe: &Probe) -> f64 {
        let mut columns = probe.index.columns.iter();
        let mut part = 1.0;
        for (value, id) in probe.equal.iter().zip(columns.by_ref()) {
            let column = column_by_id(*id);
            part *= match (value, self.column(&column)) {
                (_, None) => UNKNOWN_EQUAL,
                (Value::Null, Some(known)) => known.null_fraction,
                (value, Some(_)) => self.equal(&column, value),
            };
        }
        let Some(known) = columns.next().and_then(|id| self.known.column(*id)) else { return part };
        let from = match &probe.range.0 {
            Bound::Included(value) => below(known, value, false),
            Bound::Excluded(value) => below(known, value, true),
            Bound::Unbounded => 0.0,
        };
        let to = match &probe.range.1 {
            Bound::Included(value) => below(known, value, true),
            Bound::Excluded(Value::Null) => 1.0 - known.null_fraction,
            Bound::Excluded(value) => below(known, value, false),
            Bound::Unbounded if probe.range.0 == Bound::Unbounded => 1.0,
            Bound::Unbounded => 1.0 - known.null_fraction,
        };
        if probe.index.is_plain() { part * (to - from).max(0.0) } else { part.min(UNKNOWN) }
    }

    fn column(&self, target: &Expr) -> Option<&ColumnStatistics> {
        let column = self.schema.columns.iter().find(|column| column_by_id(column.id) == *target)?;
        self.known.column(column.id)
    }

    fn value(&self, target: &Expr, literal: &ScalarValue) -> Option<Value> {
        let column = self.schema.columns.iter().find(|column| column_by_id(column.id) == *target)?;
        let array = literal.to_array().ok()?;
        let reader = ColumnReader::new(&array, column.sql_type).ok()?;
        Some(reader.datum(0).to_value()).filter(|value| !value.is_null())
    }

    fn comparison(&self, target: &Expr, op: Operator, literal: &ScalarValue) -> f64 {
        if literal.is_null() {
            return 0.0;
        }
        let unknown = if op == Operator::Eq { UNKNOWN_EQUAL } else { UNKNOWN };
        let (Some(column), Some(value)) = (self.column(target), self.value(target, literal)) else { return unknown };
        let not_null = 1.0 - column.null_fraction;
        match op {
            Operator::Eq => self.equal(target, &value),
            Operator::NotEq => not_null - self.equal(target, &value),
            Operator::Lt | Operator::LtEq => below(column, &value, op == Operator::LtEq),
            Operator::Gt | Operator::GtEq => not_null - below(column, &value, op == Operator::Gt),
            _ => unknown,
        }
    }

    fn equal(&self, target: &Expr, value: &Value) -> f64 {
        let Some(column) = self.column(target) else { return UNKNOWN_EQUAL };
        let is_it = |other: &Value| order(other, value) == Some(std::cmp::Ordering::Equal);
        if let Some((_, part)) = column.common.iter().find(|(other, _)| is_it(other)) {
            return *part;
        }
        let common: f64 = column.common.iter().map(|(_, part)| part).sum();
        let others = column.distinct - column.common.len() as f64;
        let rest = (1.0 - column.null_fraction - common).max(0.0);
        if others < 1.0 { rest } else { rest / others }
    }
}

/// The part of all rows whose value is below another, or that one itself.
fn below(column: &ColumnStatistics, value: &Value, or_equal: bool) -> f64 {
    let is_below = |other: &Value| match order(other, value) {
        Some(std::cmp::Ordering::Less) => true,
        Some(std::cmp::Ordering::Equal) => or_equal,
        _ => false,
    };
    let common: f64 = column.common.iter().filter(|(other, _)| is_below(other)).map(|(_, part)| part).sum();
    let all_common: f64 = column.common.iter().map(|(_, part)| part).sum();
    let rest = (1.0 - column.null_fraction - all_common).max(0.0);
    let parts = column.bounds.len().saturating_sub(1);
    let part = match column.bounds.iter().filter(|bound| is_below(bound)).count() {
        _ if parts == 0 => UNKNOWN,
        0 => 0.0,
        count if count > parts => 1.0,
        // Half of the part that the value is in.
        count => (count as f64 - 0.5) / parts as f64,
    };
    common + rest * part
}

/// The order of two values of one column; `None` where they are of types that are not compared.
fn order(left: &Value, right: &Value) -> Option<std::cmp::Ordering> {
    ashlar_store::compare_values(left, right)
}

/// What the engine is told of a table: estimates all, because rows come and go.
pub(crate) fn of_table(region: &Region, schema: &SchemaRef, ordinals: &[usize], part: Option<f64>) -> Statistics {
    let now = region.row_estimate() as f64;
    let rows = part.map_or(now, |part| (now * part).ceil());
    let mut statistics = Statistics::new_unknown(schema).with_num_rows(Precision::Inexact(rows as usize));
    let (Some(known), table) = (region.statistics(), region.schema()) else { return statistics };
    let mut bytes = 0.0;
    let columns = ordinals.iter().map(|ordinal| {
        let column = table.columns.get(*ordinal);
        let Some(found) = column.and_then(|column| known.column(column.id)) else { return EngineColumn::new_unknown() };
        bytes += rows * found.width.max(1.0);
        let sql_type = column.map(|column| column.sql_type);
        let scalar = |value: Option<&Value>| {
            let array = ashlar_store::build_array(sql_type?, std::iter::once(value?.as_datum())).ok()?;
            ScalarValue::try_from_array(&array, 0).ok()
        };
        let ends = ends(found);
        let precise = |value: Option<ScalarValue>| value.map_or(Precision::Absent, Precision::Inexact);
        EngineColumn {
            null_count: Precision::Inexact((found.null_fraction * rows) as usize),
            distinct_count: Precision::Inexact(found.distinct.min(rows).max(1.0) as usize),
            min_value: precise(scalar(ends.0)),
            max_value: precise(scalar(ends.1)),
            byte_size: Precision::Inexact((rows * found.width) as usize),
            ..EngineColumn::new_unknown()
        }
    });
    statistics.column_statistics = columns.collect();
    statistics.total_byte_size = Precision::Inexact(bytes as usize);
    statistics
}

/// The least and the greatest value that is known.
fn ends(column: &ColumnStatistics) -> (Option<&Value>, Option<&Value>) {
    let common = column.common.iter().map(|(value, _)| value);
    let known = || common.clone().chain(column.bounds.first()).chain(column.bounds.last());
    let by = |left: &&Value, right: &&Value| order(left, right).unwrap_or(std::cmp::Ordering::Equal);
    (known().min_by(by), known().max_by(by))
}

#[cfg(test)]
mod tests;

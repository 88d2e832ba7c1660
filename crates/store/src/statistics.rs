//! The statistics that ANALYZE gathers of a table: the number of rows and, for each column, the numbers of NULLs and of distinct
//! values, the most common values, and a histogram of the others.
//!
//! ```text
//!   all rows     counted; of each column NULLs, and distinct values: exactly while they are few, then by HyperLogLog
//!   a sample     every nth row: the most common values, and bounds between which equally many of the others lie
//! ```
//! Driven partition by partition by the query crate, which lets others run in between. Only estimates depend on it, never answers.
//! HyperLogLog is that of Flajolet et al. ("HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", 2007);
//! the criterion for a common value and the number of bounds are those of PostgreSQL's `analyze.c`.

use std::collections::HashSet;
use std::sync::Arc;

use ashlar_base::{ColumnId, Datum, PartitionId, Result, TableSchema, Value};
use foldhash::fast::RandomState;

use crate::key;
use crate::memory::{Account, Charge};
use crate::order::compare;
use crate::reader::ColumnReader;
use crate::region::Region;
use crate::writeset::ReadView;

/// Rows of the sample: as many as PostgreSQL takes with its default target of 100.
const SAMPLE_ROWS: u64 = 30_000;
/// Most common values at most, and parts of a histogram.
const TARGET: usize = 100;
/// Distinct values that are counted exactly.
const EXACT_DISTINCT: usize = 10_000;
/// Registers of HyperLogLog: a standard error of 1.6 in a hundred.
const REGISTERS: usize = 1 << 12;
/// A value of more bytes is none that anybody asks for by comparing: it is counted, and not kept.
const WIDTH_MAX: usize = 1024;

/// See the module.
#[derive(Clone, Debug)]
pub struct TableStatistics {
    /// The number of rows when the statistics were gathered.
    pub rows: u64,
    /// [`Region::turnover`] when it was begun to gather them.
    pub turnover: u64,
    /// The statistics of the columns, in their order at that time.
    pub columns: Vec<ColumnStatistics>,
}

/// What is known of a column.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// The id of the column.
    pub column: ColumnId,
    /// The part of the rows that is NULL, from 0 to 1.
    pub null_fraction: f64,
    /// The average size of a value that is not NULL, in bytes.
    pub width: f64,
    /// The number of distinct values that are not NULL.
    pub distinct: f64,
    /// Whether distinct values were counted, and not estimated.
    pub is_exact: bool,
    /// The most common values, each with its fraction of all rows; the most frequent first.
    pub common: Vec<(Value, f64)>,
    /// The bounds of the histogram, in ascending order: between any two neighbours lie equally many of the rows whose values are not
    /// common. Empty if there are too few such rows.
    pub bounds: Vec<Value>,
}

impl TableStatistics {
    /// What is known of a column.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnStatistics> {
        self.columns.iter().find(|column| column.column == id)
    }
}

impl ColumnStatistics {
    /// Distinct values as in PostgreSQL's `n_distinct`: a number or, if they grow with the rows, the negative fraction of the rows.
    pub fn distinct_as_postgres(&self, rows: u64) -> f64 {
        let rows = rows as f64;
        if self.distinct > 0.1 * rows { -(self.distinct / rows).min(1.0) } else { self.distinct }
    }
}

/// Statistics that are being gathered.
pub struct Analysis {
    region: Arc<Region>,
    schema: Arc<TableSchema>,
    columns: Vec<Column>,
    rows: u64,
    turnover: u64,
    /// One row in this many is in the sample.
    stride: u64,
    charge: Charge,
}

struct Column {
    nulls: u64,
    hashes: Option<HashSet<u64, RandomState>>,
    registers: Box<[u8]>,
    sample: Vec<Value>,
    sampled: u64,
    sampled_bytes: usize,
}

impl Analysis {
    /// Begins to gather statistics of a table in its present shape.
    pub fn new(region: &Arc<Region>) -> Self {
        let schema = region.schema();
        let columns = schema.visible_columns().iter().map(|_| Column {
            nulls: 0,
            hashes: Some(HashSet::default()),
            registers: vec![0; REGISTERS].into(),
            sample: Vec::new(),
            sampled: 0,
            sampled_bytes: 0,
        });
        let charge = Charge::empty(&Account::new(&region.common().total));
        let stride = region.row_estimate().div_ceil(SAMPLE_ROWS).max(1);
        // Before a row is read: what changes meanwhile has changed since.
        let turnover = region.turnover();
        Self { region: Arc::clone(region), columns: columns.collect(), schema, rows: 0, turnover, stride, charge }
    }

    /// Reads the rows of a partition.
    ///
    /// # Errors
    /// 40001 if the table was altered meanwhile; 53200 over the memory bound.
    pub fn add(&mut self, view: &ReadView, partition: PartitionId) -> Result<()> {
        let ordinals: Vec<usize> = (0..self.columns.len()).collect();
        let hasher = self.region.common().hasher.clone();
        for scanned in self.region.scan_version(view, partition, &ordinals, Some(self.schema.version))? {
            let is_visible = |row: usize| scanned.visible.as_ref().is_none_or(|visible| visible.value(row));
            let rows: Vec<u32> =
                (0..scanned.batch.num_rows()).filter(|&row| is_visible(row)).map(|row| row as u32).collect();
            for (ordinal, column) in self.columns.iter_mut().enumerate() {
                let sql_type = self.schema.columns[ordinal].sql_type;
                let reader = ColumnReader::new(scanned.batch.column(ordinal), sql_type)?;
                for (number, &row) in (self.rows..).zip(&rows) {
                    let datum = reader.datum(row as usize);
                    column.count(&hasher, &datum);
                    if number % self.stride == 0 {
                        column.keep(&datum);
                    }
                }
            }
            self.rows += rows.len() as u64;
            let bytes: usize = self.columns.iter().map(Column::bytes).sum();
            self.charge.try_resize(bytes)?;
        }
        Ok(())
    }

    /// The statistics, for the table to keep.
    pub fn finish(self) -> TableStatistics {
        let (rows, turnover) = (self.rows, self.turnover);
        let ids = self.schema.visible_columns().iter().map(|column| column.id);
        let columns = ids.zip(self.columns).map(|(id, column)| column.finish(id, rows)).collect();
        TableStatistics { rows, turnover, columns }
    }
}

fn width(datum: &Datum<'_>) -> usize {
    match datum {
        Datum::Null => 0,
        Datum::Bool(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Float4(_) | Datum::Date(_) => 4,
        Datum::Int8(_) | Datum::Float8(_) | Datum::Time(_) | Datum::Timestamp(_) => 8,
        Datum::Numeric(_) | Datum::Interval(_) | Datum::Uuid(_) => 16,
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Array(items) => items.iter().map(|item| width(&item)).sum(),
    }
}

impl Column {
    fn count(&mut self, hasher: &RandomState, datum: &Datum<'_>) {
        if datum.is_null() {
            self.nulls += 1;
            return;
        }
        let hash = mixed(key::hash_one(hasher, datum));
        if let Some(hashes) = &mut self.hashes {
            hashes.insert(hash);
            if hashes.len() > EXACT_DISTINCT {
                self.hashes = None;
            }
        }
        let register = &mut self.registers[hash as usize % REGISTERS];
        *register = (*register).max((hash >> REGISTERS.ilog2()).trailing_zeros() as u8 + 1);
    }

    fn keep(&mut self, datum: &Datum<'_>) {
        let width = width(datum);
        self.sampled += 1;
        if !datum.is_null() {
            self.sampled_bytes += width;
            if width <= WIDTH_MAX && is_ordered(datum) {
                self.sample.push(datum.to_value());
            }
        }
    }

    fn bytes(&self) -> usize {
        let hashes = self.hashes.as_ref().map_or(0, |hashes| hashes.capacity() * 10);
        self.sample.capacity() * size_of::<Value>() + self.sampled_bytes + hashes + REGISTERS
    }

    fn finish(mut self, column: ColumnId, rows: u64) -> ColumnStatistics {
        let counted = rows - self.nulls;
        let is_exact = self.hashes.is_some();
        let distinct = match &self.hashes {
            Some(hashes) => hashes.len() as f64,
            None => estimate(&self.registers).min(counted as f64),
        };
        let null_fraction = if rows == 0 { 0.0 } else { self.nulls as f64 / rows as f64 };
        let kept = self.sample.len();
        let width = if kept == 0 { 0.0 } else { self.sampled_bytes as f64 / kept as f64 };
        self.sample.sort_by(|left, right| compare(&left.as_datum(), &right.as_datum()));
        let (common, bounds) = shape_of(&self.sample, self.sampled, distinct);
        ColumnStatistics { column, null_fraction, width, distinct, is_exact, common, bounds }
    }
}

/// Whether values of this type are kept: the engine, which is told the least and the greatest, orders these otherwise.
fn is_ordered(datum: &Datum<'_>) -> bool {
    !matches!(datum, Datum::Array(_) | Datum::Interval(_))
}

/// Every bit depends on every other: the finaliser of SplitMix64.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Distinct values, from the registers.
fn estimate(registers: &[u8]) -> f64 {
    let count = registers.len() as f64;
    let sum: f64 = registers.iter().map(|register| 2f64.powi(-i32::from(*register))).sum();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let empty = registers.iter().filter(|register| **register == 0).count() as f64;
    if raw <= 2.5 * count && empty > 0.0 { count * (count / empty).ln() } else { raw }
}

/// The common values of a sorted sample, and bounds between the others. `sampled` counts NULLs too.
fn shape_of(sample: &[Value], sampled: u64, distinct: f64) -> (Vec<(Value, f64)>, Vec<Value>) {
    let same = |left: &Value, right: &Value| compare(&left.as_datum(), &right.as_datum()).is_eq();
    let runs: Vec<&[Value]> = sample.chunk_by(same).collect();
    let repeated = runs.iter().filter(|run| run.len() > 1).count();
    // In PostgreSQL's words: all values that there are were seen, and each of them is there again and again.
    let are_all = repeated == runs.len() && runs.len() <= TARGET && distinct <= runs.len() as f64;
    let average = sample.len() as f64 / runs.len().max(1) as f64;
    let mut common: Vec<&[Value]> =
        runs.iter().copied().filter(|run| are_all || run.len() > 1 && run.len() as f64 > average * 1.25).collect();
    common.sort_by_key(|run| std::cmp::Reverse(run.len()));
    common.truncate(TARGET);
    let is_common = |run: &[Value]| common.iter().any(|other| std::ptr::eq(*other, run));
    let rest: Vec<&Value> = runs.iter().filter(|run| !is_common(run)).flat_map(|run| run.iter()).collect();
    let values = runs.len() - common.len();
    let parts = values.saturating_sub(1).min(TARGET);
    let bounds = if parts == 0 {
        Vec::new()
    } else {
        (0..=parts).map(|part| rest[part * (rest.len() - 1) / parts].clone()).collect()
    };
    let frequency = |run: &&[Value]| (run[0].clone(), run.len() as f64 / sampled.max(1) as f64);
    (common.iter().map(frequency).collect(), bounds)
}

#[cfg(test)]
mod tests;

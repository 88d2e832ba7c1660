//! Rows of a shard, in binary form, on their way into Arrow batches.
//!
//! Used by `scan` and `transaction_reads`, whichever way the rows come. What a batch takes is charged before it is built.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use ashlar_base::value::binary;
use ashlar_base::{Datum, Error, ErrorCode, SqlType, Value};
use ashlar_functions::error::external;
use ashlar_shard::backend::RowReader;
use ashlar_store::ArrayBuilder;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

/// Rows between two charges.
const ROWS_PER_CHARGE: usize = 256;

/// Bytes of rows that make a batch, however few they are.
const BATCH_BYTES: usize = 4 << 20;

/// A batch that is being made, and the next one after it.
pub(super) struct Building {
    server: Arc<str>,
    types: Arc<[SqlType]>,
    schema: SchemaRef,
    columns: Vec<ArrayBuilder>,
    rows: usize,
    bytes: usize,
    uncharged: usize,
}

impl Building {
    pub(super) fn new(server: &Arc<str>, types: &Arc<[SqlType]>, schema: &SchemaRef) -> Self {
        Self {
            server: Arc::clone(server),
            types: Arc::clone(types),
            schema: Arc::clone(schema),
            columns: builders(types),
            rows: 0,
            bytes: 0,
            uncharged: 0,
        }
    }

    /// Whether it has what a batch of so many rows has.
    pub(super) fn is_full(&self, batch_rows: usize) -> bool {
        self.rows >= batch_rows || self.bytes >= BATCH_BYTES
    }

    /// Adds a row: the body of its DataRow.
    pub(super) fn push(&mut self, row: &[u8], memory: &MemoryReservation) -> Result<()> {
        let taken = row.len() + self.types.len() * size_of::<Value>();
        self.uncharged += taken;
        if self.rows.is_multiple_of(ROWS_PER_CHARGE) || self.uncharged > BATCH_BYTES / 16 {
            // Arrays grow by half.
            memory.try_grow(2 * std::mem::take(&mut self.uncharged))?;
        }
        let mut reader = RowReader::new(row).map_err(|_| external(garbled(&self.server)))?;
        if reader.left() != self.types.len() {
            return Err(external(garbled(&self.server)));
        }
        for (column, sql_type) in self.columns.iter_mut().zip(self.types.iter()) {
            let value = reader.value().map_err(|_| external(garbled(&self.server)))?;
            let pushed = match value.map(|bytes| (bytes, binary::borrow(*sql_type, bytes))) {
                Some((_, Some(borrowed))) => borrowed.and_then(|datum| column.push(&datum)),
                Some((bytes, None)) => {
                    binary::decode(*sql_type, bytes).and_then(|value: Value| column.push(&value.as_datum()))
                }
                None => column.push(&Datum::Null),
            };
            pushed.map_err(external)?;
        }
        self.rows += 1;
        self.bytes += taken;
        Ok(())
    }

    /// The batch; `None` where there is no row.
    pub(super) fn finish(&mut self, memory: &MemoryReservation) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows == 0 {
            return Ok(None);
        }
        memory.try_grow(2 * std::mem::take(&mut self.uncharged))?;
        let columns = std::mem::replace(&mut self.columns, builders(&self.types));
        let arrays = columns.into_iter().map(ArrayBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?))
    }
}

fn builders(types: &[SqlType]) -> Vec<ArrayBuilder> {
    types.iter().map(|sql_type| ArrayBuilder::new(*sql_type)).collect()
}

/// 08P01
pub(super) fn garbled(server: &str) -> Error {
    let message = format!("shard \"{server}\" sent a row that does not fit its table");
    Error::new(ErrorCode::ProtocolViolation, message)
}

//! Rows on their way to a client: batches from the query pool through a bounded channel, or rows that have been
//! computed.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayData, RecordBatch};
use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, Result, Value};
use ashlar_query::dml::run::bytes_of;
use ashlar_query::select::SelectPlan;
use ashlar_query::{Column, Engine, StatementResources};
use ashlar_store::{ColumnReader, ReadView, Reservation};
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{Notice, RowSink};
use crate::session::CancelToken;

/// Batches that may wait between the query pool and the connection: enough that neither waits for the other.
const BATCHES_WAITING_MAX: usize = 2;
/// Rows after which is checked whether the client keeps up, and bytes of long rows after which it is.
const ROWS_PER_LOOK: usize = 64;
const BYTES_PER_LOOK: usize = 1 << 20;
/// Rows after which the thread's other connections have a turn: some tenths of a millisecond.
const ROWS_PER_TURN: usize = 1024;

static TO_CONNECTION: Name = Name::new("rows to the connection");
static FROM_QUERY: Name = Name::new("rows from the query");

/// The source of a portal's rows.
pub(super) enum RowSource {
    /// A running query.
    Query(QueryRows),
    /// Rows that have been computed (RETURNING, SHOW, EXPLAIN), and the charge for them until they are sent.
    Values { rows: std::vec::IntoIter<Vec<Value>>, _memory: Option<Reservation> },
}

/// A running query, as its connection sees it. Dropping it ends the query.
pub(super) struct QueryRows {
    batches: mpsc::Receiver<Result<RecordBatch>>,
    current: Option<(RecordBatch, usize)>,
    /// Those that were read ahead of time, and the charge for them.
    kept: VecDeque<RecordBatch>,
    _memory: Option<Reservation>,
    /// Rows sent since other connections had a turn.
    unyielded: usize,
    task: tokio::task::JoinHandle<()>,
    /// Whether the task has ended and its result has been taken.
    is_over: bool,
}

impl Drop for QueryRows {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RowSource {
    /// A few rows, which are not charged.
    pub(super) fn values(rows: Vec<Vec<Value>>) -> Self {
        Self::Values { rows: rows.into_iter(), _memory: None }
    }

    /// Starts a query on the pool.
    pub(super) fn query(
        engine: &Arc<Engine>,
        select: Arc<ashlar_query::Statement>,
        plan: fn(&ashlar_query::Statement) -> Option<&SelectPlan>,
        parameters: Vec<Value>,
        view: Arc<ReadView>,
        resources: StatementResources,
    ) -> Result<Self> {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let pool = Arc::clone(engine);
        let task = engine.spawn(async move {
            let outcome = async {
                let plan = plan(&select).ok_or_else(|| Error::internal("a query without a plan"))?;
                let mut stream = plan.stream_by_engine(&pool, &parameters, view, &resources).await?;
                while let Some(batch) = stream.next().await {
                    let batch = batch.map_err(ashlar_query::from_datafusion)?;
                    if batch.num_rows() > 0 && !hand_over(&sender, batch, &resources).await? {
                        // The connection has lost interest.
                        return Ok(());
                    }
                }
                Ok(())
            };
            if let Err(error) = outcome.await {
                resources.pause();
                // If nobody listens any more, nobody has to be told.
                let _ = sender.send(Err(error)).await;
            }
        })?;
        Ok(Self::Query(QueryRows::of(batches, task)))
    }

    /// Reads all rows, and keeps them here until they are asked for: nothing runs for them afterwards.
    ///
    /// # Errors
    /// Errors of the query, 57014 if it is cancelled, 53200 over the memory bound.
    pub(super) async fn keep(&mut self, mut memory: Reservation, cancel: &CancelToken) -> Result<()> {
        match self {
            Self::Values { rows, _memory: charged } => {
                if charged.is_none() {
                    memory.grow(rows.as_slice().iter().map(|row| bytes_of(row)).sum())?;
                    *charged = Some(memory);
                }
                Ok(())
            }
            Self::Query(query) => query.keep(memory, cancel).await,
        }
    }

    /// Sends up to `rows_max` rows (0 for all). Returns how many, and whether the end was reached.
    ///
    /// # Errors
    /// Errors of the query, 57014 if it is cancelled, and errors of the sink.
    pub(super) async fn send<S: RowSink>(
        &mut self,
        columns: &[Column],
        rows_max: usize,
        sink: &mut S,
        cancel: &CancelToken,
    ) -> Result<(u64, bool)> {
        let rows_max = if rows_max == 0 { usize::MAX } else { rows_max };
        match self {
            Self::Values { rows, .. } => {
                let mut sent = 0;
                while sent < rows_max {
                    let Some(row) = rows.next() else { return Ok((sent as u64, true)) };
                    sink.row(columns, &mut row.iter().map(Value::as_datum));
                    sent += 1;
                    // After each: one row may be long.
                    sink.ready().await?;
                    if sent % ROWS_PER_TURN == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Ok((sent as u64, false))
            }
            Self::Query(query) => query.send(columns, rows_max, sink, cancel).await,
        }
    }

    /// The error with which a query has ended before its first row, if it has.
    pub(super) async fn failure(&mut self) -> Option<Error> {
        match self {
            Self::Values { .. } => None,
            Self::Query(query) => match query.batches.recv().await {
                Some(batch) => batch.err(),
                None => query.end().await.err(),
            },
        }
    }

    /// Skips rows, for MOVE.
    pub(super) async fn skip(&mut self, rows_max: usize, cancel: &CancelToken) -> Result<u64> {
        struct Nowhere;
        impl RowSink for Nowhere {
            fn forward(&mut self, _: &[u8], _: u64) {}
            fn forward_part(&mut self, _: &[u8], _: usize) {}
            fn notice(&mut self, _: &Notice) {}

            fn columns(&mut self, _: &Arc<[Column]>) {}
            fn row(&mut self, _: &[Column], _: &mut dyn Iterator<Item = ashlar_base::Datum<'_>>) {}
            fn copy_out_start(&mut self, _: bool, _: usize) {}
            fn copy_out_data(&mut self, _: &[u8]) {}
            fn copy_out_done(&mut self) {}
            async fn ready(&mut self) -> Result<()> {
                Ok(())
            }
        }
        Ok(self.send(&[], rows_max, &mut Nowhere, cancel).await?.0)
    }
}

/// Hands a batch to the connection; returns whether the connection wants more. While there is no room for it, other queries may run.
async fn hand_over(
    sender: &mpsc::Sender<Result<RecordBatch>>,
    batch: RecordBatch,
    resources: &StatementResources,
) -> Result<bool> {
    let batch = match sender.try_send(Ok(batch)) {
        Ok(()) => return Ok(true),
        Err(TrySendError::Closed(_)) => return Ok(false),
        Err(TrySendError::Full(batch)) => batch,
    };
    resources.pause();
    if scope(&TO_CONNECTION, sender.send(batch)).await.is_err() {
        return Ok(false);
    }
    resources.resume().await?;
    Ok(true)
}

impl QueryRows {
    fn of(batches: mpsc::Receiver<Result<RecordBatch>>, task: tokio::task::JoinHandle<()>) -> Self {
        let kept = VecDeque::new();
        Self { batches, current: None, kept, _memory: None, unyielded: 0, task, is_over: false }
    }

    async fn keep(&mut self, mut memory: Reservation, cancel: &CancelToken) -> Result<()> {
        let (mut kept, mut seen) = (VecDeque::new(), HashSet::new());
        while let Some(batch) = self.next(cancel).await? {
            let columns = batch.columns().iter().map(|column| column.to_data());
            memory.grow(columns.map(|data| new_bytes(&data, &mut seen)).sum())?;
            kept.push_back(batch);
        }
        (self.kept, self._memory) = (kept, Some(memory));
        Ok(())
    }

    async fn next(&mut self, cancel: &CancelToken) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.kept.pop_front() {
            return Ok(Some(batch));
        }
        let batch = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancel.error()),
            batch = scope(&FROM_QUERY, self.batches.recv()) => batch,
        };
        match batch {
            Some(batch) => batch.map(Some),
            None => self.end().await.map(|()| None),
        }
    }

    /// Called when no more batches come: the end of the rows, or an error if the task has died.
    async fn end(&mut self) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        let ended = (&mut self.task).await;
        // Nobody may wait for it once more.
        self.is_over = true;
        ended.map_err(|error| Error::internal(format!("a query task failed: {error}")))
    }

    async fn send<S: RowSink>(
        &mut self,
        columns: &[Column],
        rows_max: usize,
        sink: &mut S,
        cancel: &CancelToken,
    ) -> Result<(u64, bool)> {
        let mut sent = 0;
        loop {
            // At the limit nobody looks whether more would come: the client is told of a portal that is suspended.
            if sent == rows_max {
                return Ok((sent as u64, false));
            }
            let (batch, start) = match self.current.take() {
                Some(current) => current,
                None => match self.next(cancel).await? {
                    Some(batch) => (batch, 0),
                    None => return Ok((sent as u64, true)),
                },
            };
            let end = batch.num_rows().min(start.saturating_add(rows_max - sent));
            send_batch(&batch, start, end, columns, sink, &mut self.unyielded).await?;
            sent += end - start;
            if end < batch.num_rows() {
                self.current = Some((batch, end));
            }
        }
    }
}

/// Bytes of an array's buffers that were not seen before: batches are often slices of the same ones.
fn new_bytes(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let buffers = data.buffers().iter().chain(nulls);
    let own: usize =
        buffers.filter(|buffer| seen.insert(buffer.data_ptr().as_ptr() as usize)).map(|buffer| buffer.capacity()).sum();
    own + data.child_data().iter().map(|child| new_bytes(child, seen)).sum::<usize>()
}

/// Sends the rows of a small batch at once.
///
/// # Errors
/// XX000 if a column has another type than was announced.
pub(super) fn put_all<S: RowSink>(batch: &RecordBatch, columns: &[Column], sink: &mut S) -> Result<()> {
    let readers = batch
        .columns()
        .iter()
        .zip(columns)
        .map(|(array, column)| ColumnReader::new(array, column.sql_type))
        .collect::<Result<Vec<ColumnReader<'_>>>>()?;
    for row in 0..batch.num_rows() {
        sink.row(columns, &mut readers.iter().map(|reader| reader.datum(row)));
    }
    Ok(())
}

async fn send_batch<S: RowSink>(
    batch: &RecordBatch,
    start: usize,
    end: usize,
    columns: &[Column],
    sink: &mut S,
    unyielded: &mut usize,
) -> Result<()> {
    let readers = batch
        .columns()
        .iter()
        .zip(columns)
        .map(|(array, column)| ColumnReader::new(array, column.sql_type))
        .collect::<Result<Vec<ColumnReader<'_>>>>()?;
    let row_bytes = batch.get_array_memory_size() / batch.num_rows().max(1);
    let rows_per_look = (BYTES_PER_LOOK / row_bytes.max(1)).clamp(1, ROWS_PER_LOOK);
    let mut row = start;
    while row < end {
        let look = end.min(row + rows_per_look);
        for place in row..look {
            sink.row(columns, &mut readers.iter().map(|reader| reader.datum(place)));
        }
        *unyielded += look - row;
        row = look;
        sink.ready().await?;
        if *unyielded >= ROWS_PER_TURN {
            *unyielded = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ashlar_base::ErrorCode;
    use ashlar_store::{Store, StoreConfig};

    use super::*;

    fn dying() -> RowSource {
        let (sender, batches) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let _sender: mpsc::Sender<Result<RecordBatch>> = sender;
            panic!("as the test wants it");
        });
        RowSource::Query(QueryRows::of(batches, task))
    }

    #[test]
    fn a_query_that_dies_has_not_come_to_its_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let error = dying().skip(0, &CancelToken::new()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InternalError);
            let error = dying().failure().await.unwrap();
            assert_eq!(error.code(), ErrorCode::InternalError);
        });
    }

    #[test]
    fn rows_that_are_kept_are_charged() {
        let store = Store::new(StoreConfig { memory_max: 1 << 20, ..StoreConfig::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let keep = |bytes: usize| {
            let mut rows = RowSource::values(vec![vec![Value::Text("x".repeat(bytes).into())]]);
            runtime.block_on(rows.keep(store.reservation(), &CancelToken::new())).map(|()| rows)
        };
        let held = keep(600 << 10).unwrap();
        assert_eq!(keep(600 << 10).err().map(|error| error.code()), Some(ErrorCode::OutOfMemory));
        drop(held);
        keep(600 << 10).unwrap();
    }
}

//! COPY FROM STDIN and TO STDOUT: bytes of the door <-> rows of the store.

use std::sync::Arc;

use ashlar_base::value::{binary, text};
use ashlar_base::{ColumnDef, ColumnDefault, Datum, Error, ErrorCode, Result, TableSchema, Value};
use ashlar_protocol::copy::{Format, Header, Options, Row, RowDecoder, RowEncoder};
use ashlar_protocol::pg::CommandTag;
use ashlar_query::copy::{self, CopyFormat, CopyOptions, CopyPlan, Field};
use ashlar_query::select::SelectPlan;
use ashlar_query::sequences::Numbers;
use ashlar_query::transaction::Transaction;
use ashlar_query::transaction::TransactionMark;
use ashlar_store::{Region, RowBatch, Snapshot};

use super::read_only::only_reads;
use super::rows::RowSource;
use super::run::select_of;
use super::{Executed, Notice, RowSink, SqlSession};

mod lines;

use lines::Lines;

/// Work of a COPY FROM STDIN between two turns of the thread's other connections, some tenths of a millisecond: rows with few columns
/// that are read, or stored in bulk.
const WORK_PER_TURN: usize = 512;

/// Columns that are read in the time of one unit of that work.
const COLUMNS_FEW: usize = 4;

/// Rows that are inserted between two turns if they are not stored in bulk.
const ROWS_INSERTED: usize = 256;

/// Rows from which on a COPY FROM STDIN stores them in bulk: some dozens for each partition. They wait until there are so many, or until
/// the data has ended.
const ROWS_IN_BULK: usize = 1 << 13;

/// How a row of the data becomes a row of the table.
struct Conversion {
    region: Arc<Region>,
    schema: Arc<TableSchema>,
    /// Ordinals of the columns of the data.
    targets: Vec<usize>,
    /// Columns that are not in the data: those with a counter, and the others with the value that they have in all rows.
    sequences: Vec<usize>,
    defaults: Vec<(usize, Value)>,
    is_binary: bool,
    style: text::TextStyle,
    /// The sequence numbers that the session is given.
    numbers: Numbers,
}

/// A running COPY FROM STDIN.
pub(super) struct CopyIn {
    conversion: Conversion,
    decoder: RowDecoder,
    snapshot: Snapshot,
    mark: TransactionMark,
    count: u64,
    /// The work since the last turn of other connections, and the work that one row adds.
    unyielded: usize,
    row_work: usize,
    /// Whether rows are stored in bulk; `None` while that is not decided.
    in_bulk: Option<bool>,
    /// Rows that wait to be stored, with their line numbers.
    waiting: RowBatch,
    lines: Lines,
    /// Whether the waiting rows are being stored, before any other is read.
    is_putting_away: bool,
    /// The error of the row behind the waiting ones, which is reported if none of these fails.
    failure: Option<Error>,
    /// Whether the data has ended.
    is_ended: bool,
}

pub(super) fn options_of(options: &CopyOptions) -> Result<Options> {
    let format = match options.format {
        CopyFormat::Text => Format::Text,
        CopyFormat::Csv => Format::Csv,
        CopyFormat::Binary => Format::Binary,
    };
    let mut result = Options::new(format);
    result.delimiter = options.delimiter;
    result.null = options.null.clone().into_bytes();
    result.header = if options.header { Header::Present } else { Header::Absent };
    result.quote = options.quote;
    result.escape = options.escape;
    result.check()?;
    Ok(result)
}

impl SqlSession {
    pub(super) async fn run_copy<S: RowSink>(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        sink: &mut S,
    ) -> Result<Executed> {
        let ashlar_query::statement::Kind::Copy(plan) = &statement.kind else {
            return Err(Error::internal("a COPY has a COPY plan"));
        };
        match plan.as_ref() {
            CopyPlan::In { region, schema, targets, defaults, options } => {
                let computed = self.defaults_of(statement, defaults).await?;
                self.start_copy_in(region, schema, targets, computed, options)
            }
            CopyPlan::Into(into) => Box::pin(self.start_remote_copy(into)).await,
            CopyPlan::Out { options, .. } => self.copy_out(statement, options, sink).await,
        }
    }

    /// Computes the defaults of a COPY FROM on the query pool: ordinals and values.
    async fn defaults_of(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        defaults: &[(usize, SelectPlan)],
    ) -> Result<Vec<(usize, Value)>> {
        if defaults.is_empty() {
            return Ok(Vec::new());
        }
        let transaction = self.take_transaction();
        let (transaction, outcome) = self.on_pool(transaction, statement, &[]).await?;
        self.transaction = Some(transaction);
        let values = outcome?.rows.pop().unwrap_or_default();
        Ok(defaults.iter().map(|(ordinal, _)| *ordinal).zip(values).collect())
    }

    fn start_copy_in(
        &mut self,
        region: &Arc<Region>,
        schema: &Arc<TableSchema>,
        targets: &[usize],
        computed: Vec<(usize, Value)>,
        options: &CopyOptions,
    ) -> Result<Executed> {
        let sequences = sequences_of(schema, targets);
        let is_left = |ordinal: &usize| !targets.contains(ordinal) && !sequences.contains(ordinal);
        let default_of = |ordinal: usize| {
            let computed = computed.iter().find(|(computed, _)| *computed == ordinal);
            computed.map_or_else(|| constant_of(&schema.columns[ordinal]), |(_, value)| value.clone())
        };
        let left = (0..schema.columns.len()).filter(is_left);
        let defaults = left.map(|ordinal| (ordinal, default_of(ordinal))).collect();
        let names = targets.iter().map(|ordinal| schema.columns[*ordinal].name.clone()).collect();
        let row_bytes_max = self.shared.config.server.pg_message_bytes_max as usize;
        let decoder = RowDecoder::new(options_of(options)?, names, row_bytes_max);
        let mut transaction = self.take_transaction();
        if transaction.read_only {
            self.transaction = Some(transaction);
            return Err(only_reads("COPY FROM"));
        }
        let snapshot = transaction.snapshot(self.shared.engine.store());
        let mark = transaction.mark();
        self.transaction = Some(transaction);
        let is_binary = options.format == CopyFormat::Binary;
        let columns = targets.len();
        self.copy = Some(CopyIn {
            conversion: Conversion {
                region: Arc::clone(region),
                schema: Arc::clone(schema),
                targets: targets.to_vec(),
                sequences,
                defaults,
                is_binary,
                style: *self.style(),
                numbers: self.identity.numbers.clone(),
            },
            decoder,
            snapshot,
            mark,
            count: 0,
            unyielded: 0,
            row_work: columns.div_ceil(COLUMNS_FEW).max(1),
            in_bulk: None,
            waiting: RowBatch::new(region, schema.version),
            lines: Lines::charged_to(self.shared.engine.store().reservation()),
            is_putting_away: false,
            failure: None,
            is_ended: false,
        });
        Ok(Executed::CopyIn { binary: is_binary, columns })
    }

    /// Takes a piece of the data of COPY FROM STDIN, cut anywhere.
    ///
    /// # Errors
    /// Errors of its rows; the COPY has ended then.
    pub async fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        if self.remote_copy.is_some() {
            return Box::pin(self.take_remote_copy(bytes)).await;
        }
        match &mut self.copy {
            Some(copy) => copy.decoder.push(bytes),
            None => return Err(Error::internal("data without a COPY")),
        }
        self.take_rows().await
    }

    /// Ends the data. Returns the command tag.
    ///
    /// # Errors
    /// As [`Self::copy_data`].
    pub async fn copy_done(&mut self) -> Result<String> {
        if self.remote_copy.is_some() {
            return Box::pin(self.end_remote_copy()).await;
        }
        match &mut self.copy {
            Some(copy) => {
                copy.decoder.finish();
                copy.is_ended = true;
            }
            None => return Err(Error::internal("the end of data without a COPY")),
        }
        self.take_rows().await?;
        if let (Some(copy), Some(transaction)) = (&self.copy, &mut self.transaction)
            && let Err(error) = transaction.check_values(&copy.conversion.region)
        {
            self.end_copy();
            return Err(error);
        }
        self.deadline = None;
        let count = self.copy.take().map_or(0, |copy| copy.count);
        Ok(format!("COPY {count}"))
    }

    /// The client aborts the COPY. Returns the error for it.
    pub async fn copy_fail(&mut self, message: &str) -> Error {
        Box::pin(self.give_up_copy()).await;
        self.end_copy();
        Error::new(ErrorCode::QueryCanceled, format!("COPY from stdin failed: {message}"))
    }

    fn end_copy(&mut self) {
        let Some(copy) = self.copy.take() else { return };
        if let Some(transaction) = &mut self.transaction {
            let engine = &self.shared.engine;
            transaction.rollback_to(&copy.mark, engine.catalog(), engine.store());
        }
    }

    /// Takes the rows that have arrived completely, with turns for other connections of the thread in between.
    async fn take_rows(&mut self) -> Result<()> {
        loop {
            let Some(copy) = &mut self.copy else { return Err(Error::internal("rows without a COPY")) };
            let Some(transaction) = &mut self.transaction else {
                return Err(Error::internal("a COPY without a transaction"));
            };
            let taken = copy.take_rows(transaction).and_then(|is_all| self.check_interrupts().map(|()| is_all));
            match taken {
                Ok(true) => return Ok(()),
                Ok(false) => tokio::task::yield_now().await,
                Err(error) => {
                    self.end_copy();
                    return Err(error);
                }
            }
        }
    }

    async fn copy_out<S: RowSink>(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        options: &CopyOptions,
        sink: &mut S,
    ) -> Result<Executed> {
        let select = select_of(statement).ok_or_else(|| Error::internal("a COPY has a query"))?;
        let columns = Arc::clone(&select.columns);
        let format = options_of(options)?;
        let is_binary = options.format == CopyFormat::Binary;
        let mut source = self.query(statement, Vec::new(), false).await?;
        sink.copy_out_start(is_binary, columns.len());
        let mut out = CopyOut {
            encoder: RowEncoder::new(format, columns.len()),
            is_binary,
            style: *self.style(),
            buffer: Vec::new(),
            sink,
        };
        out.encoder.start(columns.iter().map(|column| column.name.as_str()), &mut out.buffer);
        // A header line is a message of its own, as each row is: drivers hand them out one by one.
        if !is_binary && !out.buffer.is_empty() {
            out.sink.copy_out_data(&out.buffer);
            out.buffer.clear();
        }
        let (count, _) = source.send(&columns, 0, &mut out, &self.cancel).await?;
        out.encoder.finish(&mut out.buffer);
        if !out.buffer.is_empty() {
            out.sink.copy_out_data(&out.buffer);
        }
        let _: RowSource = source;
        sink.copy_out_done();
        Ok(Executed::Complete(CommandTag::counted("COPY", count)))
    }
}

fn constant_of(column: &ColumnDef) -> Value {
    match &column.default {
        Some(ColumnDefault::Constant(value)) => value.clone(),
        _ => Value::Null,
    }
}

fn sequences_of(schema: &TableSchema, targets: &[usize]) -> Vec<usize> {
    let counts = |ordinal: &usize| matches!(schema.columns[*ordinal].default, Some(ColumnDefault::Sequence(_)));
    (0..schema.columns.len()).filter(|ordinal| counts(ordinal) && !targets.contains(ordinal)).collect()
}

impl CopyIn {
    /// Takes rows until there are no more, and then returns true, or until other connections of the thread should have a turn.
    fn take_rows(&mut self, transaction: &mut Transaction) -> Result<bool> {
        while self.unyielded < WORK_PER_TURN {
            if self.is_putting_away {
                self.put_away(transaction)?;
                continue;
            }
            match self.take_row() {
                Ok(true) => self.is_putting_away = self.is_full(),
                // Others wait for those of the next piece: it may be known then that they go in bulk.
                Ok(false) if !self.waiting.is_empty() && (self.is_ended || self.in_bulk == Some(false)) => {
                    self.is_putting_away = true;
                }
                Ok(false) => return Ok(true),
                // One of those that wait comes before it.
                Err(error) if !self.waiting.is_empty() => {
                    self.failure = Some(error);
                    self.is_putting_away = true;
                }
                Err(error) => return Err(error),
            }
        }
        self.unyielded = 0;
        Ok(false)
    }

    /// Whether no other row may be added to those that wait.
    fn is_full(&mut self) -> bool {
        match self.in_bulk {
            None => self.waiting.is_full() && !self.waiting.grow(ROWS_IN_BULK),
            Some(in_bulk) => self.waiting.is_full() || (!in_bulk && self.waiting.len() >= ROWS_INSERTED),
        }
    }

    /// Stores some of the waiting rows.
    fn put_away(&mut self, transaction: &mut Transaction) -> Result<()> {
        let (writes, waiting) = (&mut transaction.writes, &mut self.waiting);
        let Conversion { region, schema, .. } = &self.conversion;
        let (version, snapshot) = (schema.version, &self.snapshot);
        if self.in_bulk.is_none() && self.count >= ROWS_IN_BULK as u64 {
            let started = writes.start_load(region, version, snapshot);
            self.in_bulk = Some(started.map_err(|error| at_line(error, schema, self.lines.of(0)))?);
        }
        let rows = waiting.len();
        let done = if self.in_bulk == Some(true) {
            self.unyielded += rows.min(WORK_PER_TURN);
            writes.load_batch(region, version, snapshot, waiting, WORK_PER_TURN)
        } else {
            self.unyielded += rows.min(ROWS_INSERTED) * WORK_PER_TURN / ROWS_INSERTED;
            writes.insert_batch(region, version, snapshot, waiting, ROWS_INSERTED)
        };
        match done {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.lines.clear();
                self.is_putting_away = false;
                if self.in_bulk.is_some() {
                    self.waiting.expect_many();
                }
                self.failure.take().map_or(Ok(()), Err)
            }
            Err((row, error)) => Err(at_line(error, schema, self.lines.of(row))),
        }
    }

    /// Adds the next row to those that wait, if there is one.
    fn take_row(&mut self) -> Result<bool> {
        let Some(row) = self.decoder.next_row()? else { return Ok(false) };
        self.unyielded += self.row_work;
        self.lines.push(row.line())?;
        let conversion = &self.conversion;
        let put = conversion.put(row, &mut self.waiting);
        put.map_err(|error| at_row(error, &conversion.schema, row, conversion.is_binary))?;
        self.count += 1;
        Ok(true)
    }
}

impl Conversion {
    /// Adds a row to those that wait.
    fn put(&self, row: Row<'_>, waiting: &mut RowBatch) -> Result<()> {
        let schema = &self.schema;
        for (field, &ordinal) in row.iter().zip(&self.targets) {
            // Of nearly all fields no value is made.
            if !self.is_binary && field.is_some_and(|text| waiting.put_text(ordinal, text)) {
                continue;
            }
            let field = if self.is_binary {
                copy::binary_field(schema, ordinal, field)
            } else {
                copy::text_field(schema, ordinal, field, &self.style)
            };
            match field? {
                Field::Datum(datum) => waiting.put(ordinal, &datum)?,
                Field::Value(value) => waiting.put(ordinal, &value.as_datum())?,
            }
        }
        for &ordinal in &self.sequences {
            waiting.put(ordinal, &self.numbers.take(&self.region, &schema.columns[ordinal])?.as_datum())?;
        }
        for (ordinal, value) in &self.defaults {
            waiting.put(*ordinal, &value.as_datum())?;
        }
        waiting.end_row()
    }
}

/// The error of a row: that it is not valid text comes before errors of its values.
pub(super) fn at_row(error: Error, schema: &TableSchema, row: Row<'_>, is_binary: bool) -> Error {
    match row.check_text() {
        Err(no_text) if !is_binary && error.code() != ErrorCode::CharacterNotInRepertoire => no_text.into(),
        _ => at_line(error, schema, row.line()),
    }
}

/// Adds the line of the data to an error, in its detail, because there is no context field.
fn at_line(error: Error, schema: &TableSchema, line: u64) -> Error {
    let place = match &error.fields().column {
        Some(column) => format!("COPY {}, line {line}, column {column}", schema.name),
        None => format!("COPY {}, line {line}", schema.name),
    };
    let detail = match &error.fields().detail {
        Some(detail) => format!("{detail} ({place})"),
        None => place,
    };
    error.with_detail(detail)
}

/// Encodes each row as one CopyData message.
struct CopyOut<'s, S> {
    encoder: RowEncoder,
    is_binary: bool,
    style: text::TextStyle,
    buffer: Vec<u8>,
    sink: &'s mut S,
}

impl<S: RowSink> RowSink for CopyOut<'_, S> {
    fn forward(&mut self, messages: &[u8], rows: u64) {
        self.sink.forward(messages, rows);
    }

    fn forward_part(&mut self, part: &[u8], left: usize) {
        self.sink.forward_part(part, left);
    }

    fn notice(&mut self, notice: &Notice) {
        self.sink.notice(notice);
    }

    fn columns(&mut self, _: &Arc<[super::Column]>) {}

    fn row(&mut self, columns: &[super::Column], values: &mut dyn Iterator<Item = Datum<'_>>) {
        self.encoder.begin_row(&mut self.buffer);
        for (column, value) in columns.iter().zip(values) {
            if value.is_null() {
                self.encoder.null(&mut self.buffer);
            } else if self.is_binary {
                self.encoder.value(&mut self.buffer, |out| binary::encode(column.sql_type, &value, out));
            } else {
                self.encoder.value(&mut self.buffer, |out| text::write(column.sql_type, &value, &self.style, out));
            }
        }
        self.encoder.end_row(&mut self.buffer);
        self.sink.copy_out_data(&self.buffer);
        self.buffer.clear();
    }

    fn copy_out_start(&mut self, _: bool, _: usize) {}
    fn copy_out_data(&mut self, _: &[u8]) {}
    fn copy_out_done(&mut self) {}

    async fn ready(&mut self) -> Result<()> {
        self.sink.ready().await
    }
}

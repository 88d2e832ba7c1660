//! COPY FROM STDIN of a sharded table: each row goes to its shard, in a COPY of the transaction's connection there.
//!
//! ```text
//! data of the client ──▶ rows ──▶ a buffer for each shard ──▶ COPY on its connection, when it is full
//! ```
//!
//! A server has one COPY under way at a time: where it has several of the shards, one gives way to the next when that one's buffer
//! is full. The client waits while a shard does. All rows are the transaction's, which commits on all shards or on none.

use std::sync::Arc;

use ashlar_base::value::text::TextStyle;
use ashlar_base::value::{binary, text};
use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use ashlar_protocol::copy::{Format, Options, RowDecoder, RowEncoder};
use ashlar_query::copy::{self, CopyFormat, Field};
use ashlar_query::sharded::{CopyInto, KeySource};
use ashlar_shard::backend::{Ended, check_columns};
use ashlar_shard::route::told_here;
use ashlar_shard::rules::{Placement, Shard};
use ashlar_shard::workers::Keys;
use ashlar_store::Reservation;

use super::super::copy::{at_row, options_of};
use super::super::limit::in_time;
use super::super::{Executed, SqlSession};
use super::compare::Description;
use super::stoppable;

/// Bytes of rows that wait for a shard before it is sent them.
const BUFFER_BYTES: usize = 32 * 1024;

/// Rows between two turns of the thread's other connections.
const ROWS_PER_TURN: usize = 256;

/// What a shard is told where the COPY has failed elsewhere.
const GIVEN_UP: &str = "the COPY has failed";

/// See the module.
pub(in crate::session::sql) struct RemoteCopy {
    into: Arc<CopyInto>,
    /// Makes the values of the column that the data has not.
    keys: Option<Keys>,
    is_binary: bool,
    /// Nothing is read where one shard takes all as it is.
    decoder: Option<RowDecoder>,
    encoder: RowEncoder,
    style: TextStyle,
    /// By shard, or one for all of them: rows that have not been sent.
    buffers: Vec<Vec<u8>>,
    /// The COPY that is under way on each server: its shard.
    open: Vec<(Arc<str>, usize)>,
    /// Rows that shards say they have taken: all together, and those of the first that has told.
    taken: u64,
    taken_first: Option<u64>,
    /// Pays for the buffers, and for the longest row beside them.
    memory: Reservation,
    longest: usize,
}

/// What became of the rows that have arrived.
enum Read {
    /// There are no more whole ones.
    All,
    /// This buffer is to be sent first.
    Full(usize),
    /// Others of this thread are to have their turn.
    Turn,
}

impl SqlSession {
    /// Starts a COPY into a sharded table.
    pub(in crate::session::sql) async fn start_remote_copy(&mut self, into: &Arc<CopyInto>) -> Result<Executed> {
        self.check_remote_write("COPY FROM")?;
        let rule = &into.table.routed.rule;
        let mut servers: Vec<&str> = rule.shards().iter().map(|shard| &*shard.server).collect();
        servers.dedup();
        self.check_several(&servers)?;
        let keys = match into.made {
            Some((_, generator)) => Some(self.keys(rule, generator).await?),
            None => None,
        };
        let options = options_of(&into.options)?;
        let is_binary = into.options.format == CopyFormat::Binary;
        let columns = into.targets.len();
        let names = into.targets.iter().map(|ordinal| into.table.schema.columns[*ordinal].name.clone()).collect();
        let row_bytes_max = self.shared.config.server.pg_message_bytes_max as usize;
        let decoder = (!into.is_passed_on()).then(|| RowDecoder::new(options, names, row_bytes_max));
        let plain = Options::new(if is_binary { Format::Binary } else { Format::Text });
        let buffers = match rule.placement() {
            Placement::Sharded if decoder.is_some() => rule.shards().len(),
            _ => 1,
        };
        self.remote_copy = Some(RemoteCopy {
            into: Arc::clone(into),
            keys,
            is_binary,
            decoder,
            encoder: RowEncoder::new(plain, columns + usize::from(into.made.is_some())),
            style: *self.style(),
            buffers: vec![Vec::new(); buffers],
            open: Vec::new(),
            taken: 0,
            taken_first: None,
            memory: self.shared.engine.store().reservation(),
            longest: 0,
        });
        Ok(Executed::CopyIn { binary: is_binary, columns })
    }

    /// Takes a piece of the data.
    pub(in crate::session::sql) async fn take_remote_copy(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(mut copy) = self.remote_copy.take() else { return Err(Error::internal("data without a COPY")) };
        let limit = self.limit();
        let taken = in_time(limit, Box::pin(self.take_piece(&mut copy, bytes))).await;
        self.keep_copy(copy, taken).await
    }

    /// The end of the data: the command tag.
    pub(in crate::session::sql) async fn end_remote_copy(&mut self) -> Result<String> {
        let Some(mut copy) = self.remote_copy.take() else {
            return Err(Error::internal("the end of data without a COPY"));
        };
        let limit = self.limit();
        let ended = in_time(limit, Box::pin(self.end_pieces(&mut copy))).await;
        let rows = match copy.into.table.routed.rule.placement() {
            Placement::Broadcast => copy.taken_first.unwrap_or(0),
            Placement::Sharded | Placement::Single => copy.taken,
        };
        self.keep_copy(copy, ended).await?;
        self.remote_copy = None;
        self.deadline = None;
        Ok(format!("COPY {rows}"))
    }

    /// Gives the COPY up, on every shard that has one under way.
    pub(in crate::session::sql) async fn give_up_copy(&mut self) {
        if let Some(copy) = self.remote_copy.take() {
            self.fail_copies(copy).await;
        }
    }

    /// Keeps a COPY for its next piece, unless it has failed.
    async fn keep_copy(&mut self, copy: RemoteCopy, done: Result<()>) -> Result<()> {
        let done = done.map_err(|error| told_here(error, std::slice::from_ref(&copy.into.table.routed)));
        match done {
            Ok(()) => self.remote_copy = Some(copy),
            Err(_) => self.fail_copies(copy).await,
        }
        done
    }

    async fn fail_copies(&mut self, copy: RemoteCopy) {
        for (server, _) in &copy.open {
            let Some(remote) = self.remotes.iter_mut().find(|remote| remote.server == *server) else { continue };
            let patience = remote.lease.canceller().patience();
            if tokio::time::timeout(patience, remote.lease.fail_copy(GIVEN_UP)).await.is_err() {
                remote.lease.give_up();
            }
        }
    }

    async fn take_piece(&mut self, copy: &mut RemoteCopy, bytes: &[u8]) -> Result<()> {
        match &mut copy.decoder {
            Some(decoder) => decoder.push(bytes),
            None => {
                copy.put_raw(bytes)?;
                return if copy.buffers[0].len() >= BUFFER_BYTES { self.send_buffer(copy, 0).await } else { Ok(()) };
            }
        }
        self.take_whole_rows(copy).await
    }

    async fn take_whole_rows(&mut self, copy: &mut RemoteCopy) -> Result<()> {
        loop {
            self.check_interrupts()?;
            match copy.read_rows()? {
                Read::All => return Ok(()),
                Read::Full(buffer) => self.send_buffer(copy, buffer).await?,
                Read::Turn => tokio::task::yield_now().await,
            }
        }
    }

    async fn end_pieces(&mut self, copy: &mut RemoteCopy) -> Result<()> {
        if let Some(decoder) = &mut copy.decoder {
            decoder.finish();
            self.take_whole_rows(copy).await?;
        } else {
            // A shard says what is wrong with data that is none, too.
            self.send_buffer(copy, 0).await?;
        }
        for buffer in 0..copy.buffers.len() {
            if !copy.buffers[buffer].is_empty() {
                self.send_buffer(copy, buffer).await?;
            }
        }
        while let Some((server, _)) = copy.open.last().cloned() {
            self.end_copy_on(copy, &server).await?;
        }
        Ok(())
    }

    /// Sends the rows of a buffer to the shards that they are for.
    async fn send_buffer(&mut self, copy: &mut RemoteCopy, buffer: usize) -> Result<()> {
        let count = copy.into.table.routed.rule.shards().len();
        let shards = if copy.buffers.len() == 1 { 0..count } else { buffer..buffer + 1 };
        for shard in shards {
            let place = self.copy_on(copy, shard).await?;
            let cancel = self.cancel.clone();
            let lease = &mut self.remotes[place].lease;
            if !copy.buffers[buffer].is_empty() {
                lease.queue_copy(&copy.buffers[buffer]);
                stoppable(lease.send_copy(), &cancel).await?;
            }
        }
        copy.buffers[buffer].clear();
        copy.buffers[buffer].shrink_to(2 * BUFFER_BYTES);
        Ok(())
    }

    /// The place of the connection on which a shard's COPY is under way; started now where it is not.
    async fn copy_on(&mut self, copy: &mut RemoteCopy, shard: usize) -> Result<usize> {
        let into = Arc::clone(&copy.into);
        let shard_of = &into.table.routed.rule.shards()[shard];
        match copy.open.iter().find(|(server, _)| *server == shard_of.server) {
            Some((_, open)) if *open == shard => {}
            Some((server, _)) => {
                let server = Arc::clone(server);
                self.end_copy_on(copy, &server).await?;
            }
            None => {}
        }
        let place = self.begin_remote(&shard_of.server).await?;
        if copy.open.iter().any(|(server, _)| *server == shard_of.server) {
            return Ok(place);
        }
        if copy.is_binary {
            self.check_copied(place, &into, shard_of).await?;
        }
        let cancel = self.cancel.clone();
        let remote = &mut self.remotes[place];
        if remote.lease.is_broken() {
            let message = format!("the connection to shard \"{}\" was lost with the transaction on it", remote.server);
            return Err(Error::new(ErrorCode::ConnectionFailure, message));
        }
        remote.wrote = true;
        let started = stoppable(remote.lease.start_copy(&into.text(shard_of)), &cancel).await;
        let notices = remote.lease.take_notices();
        self.pass_notices(notices);
        started?;
        if copy.is_binary && copy.decoder.is_some() {
            let mut head = Vec::new();
            copy.encoder.start(std::iter::empty(), &mut head);
            self.remotes[place].lease.queue_copy(&head);
        }
        copy.open.push((Arc::clone(&shard_of.server), shard));
        Ok(place)
    }

    /// Bytes of a value may be another value of another type: makes sure that a shard reads them as what they are.
    async fn check_copied(&mut self, place: usize, into: &CopyInto, shard: &Shard) -> Result<()> {
        self.remotes[place].lease.queue_look(&into.look(shard));
        let mut description = Description::default();
        let ended = self.on_remote(place, false, &mut description, |_| {}).await;
        // The text is none of the client's.
        ended.map_err(Error::nowhere)?;
        check_columns(&shard.server, &description.0, &into.types())
    }

    /// Ends the COPY that is under way on a server.
    async fn end_copy_on(&mut self, copy: &mut RemoteCopy, server: &Arc<str>) -> Result<()> {
        let cancel = self.cancel.clone();
        let Some(remote) = self.remotes.iter_mut().find(|remote| remote.server == *server) else {
            return Err(Error::internal("a COPY without its connection"));
        };
        if copy.is_binary && copy.decoder.is_some() {
            let mut tail = Vec::new();
            copy.encoder.finish(&mut tail);
            remote.lease.queue_copy(&tail);
        }
        stoppable(remote.lease.send_copy(), &cancel).await?;
        let ended = stoppable(remote.lease.end_copy(), &cancel).await;
        let notices = remote.lease.take_notices();
        self.pass_notices(notices);
        let ended = ended?;
        copy.open.retain(|(open, _)| open != server);
        let rows = match &ended {
            Ended::Complete(tag) => tag.strip_prefix("COPY ").and_then(|rows| rows.parse::<u64>().ok()),
            Ended::Suspended | Ended::Empty => None,
        };
        let rows = rows.ok_or_else(|| Error::internal("a shard has not said how many rows it has taken"))?;
        copy.taken += rows;
        // A server of a table that is on all of them has one COPY.
        copy.taken_first.get_or_insert(rows);
        Ok(())
    }
}

impl RemoteCopy {
    fn put_raw(&mut self, bytes: &[u8]) -> Result<()> {
        let buffer = &mut self.buffers[0];
        let wanted = buffer.len() + bytes.len();
        if wanted > buffer.capacity() {
            self.memory.grow(wanted - buffer.capacity())?;
            buffer.reserve_exact(bytes.len());
        }
        buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Divides rows that have arrived among the buffers.
    fn read_rows(&mut self) -> Result<Read> {
        let Self { into, keys, is_binary, decoder, encoder, style, buffers, memory, longest, .. } = self;
        let Some(decoder) = decoder else { return Ok(Read::All) };
        let (schema, routed) = (&into.table.schema, &into.table.routed);
        for _ in 0..ROWS_PER_TURN {
            let Some(row) = decoder.next_row()? else { return Ok(Read::All) };
            let wrong = |error: Error| at_row(error, schema, row, *is_binary);
            let made = match (into.made, &*keys) {
                (Some((_, generator)), Some(keys)) => Some(keys.make(generator)?),
                _ => None,
            };
            let mut key: Vec<Field<'_>> = Vec::with_capacity(into.key.len());
            for source in &into.key {
                key.push(match source {
                    KeySource::Field(place) => {
                        let (ordinal, field) = (into.targets[*place], row.get(*place));
                        let read = if *is_binary {
                            copy::binary_field(schema, ordinal, field)
                        } else {
                            copy::text_field(schema, ordinal, field, style)
                        };
                        read.map_err(wrong)?
                    }
                    KeySource::Constant(value) => Field::Value(value.clone()),
                    KeySource::Made => Field::Value(made.clone().unwrap_or(Value::Null)),
                });
            }
            let buffer = if buffers.len() == 1 {
                0
            } else {
                let datums: Vec<Datum<'_>> = key.iter().map(datum_of).collect();
                routed.shard_of(&datums).map_err(wrong)?.index()
            };
            let out = buffers.get_mut(buffer).ok_or_else(|| Error::internal("a row for no shard"))?;
            if out.capacity() == 0 {
                memory.grow(2 * BUFFER_BYTES)?;
                out.reserve(2 * BUFFER_BYTES);
            }
            // Escaped, text has twice the bytes at the most.
            let bytes = 2 * row.iter().flatten().map(<[u8]>::len).sum::<usize>();
            if bytes > BUFFER_BYTES.max(*longest) {
                memory.grow(bytes - *longest)?;
                *longest = bytes;
            }
            encoder.begin_row(out);
            for field in row.iter() {
                match field {
                    Some(bytes) => encoder.value(out, |out| out.extend_from_slice(bytes)),
                    None => encoder.null(out),
                }
            }
            if let (Some(value), Some((ordinal, _))) = (&made, into.made) {
                let sql_type = schema.columns[ordinal].sql_type;
                encoder.value(out, |out| match *is_binary {
                    true => binary::encode(sql_type, &value.as_datum(), out),
                    false => text::write(sql_type, &value.as_datum(), style, out),
                });
            }
            encoder.end_row(out);
            if out.len() >= BUFFER_BYTES {
                return Ok(Read::Full(buffer));
            }
        }
        Ok(Read::Turn)
    }
}

fn datum_of<'a>(field: &'a Field<'_>) -> Datum<'a> {
    match field {
        Field::Datum(datum) => datum.clone(),
        Field::Value(value) => value.as_datum(),
    }
}

//! Rows of several shards that are locked in an order, and come back in it.
//!
//! Called by `run_several`. Each shard locks its rows in the order of the statement, as PostgreSQL does, and one shard comes after the other,
//! as with all that locks on several: two statements that lock the same rows meet them in the same order. All rows are kept until the last
//! shard has locked its own. Never locks a row before it is known that all shards answer with the same columns here, and that these can be
//! put in order.

use std::borrow::Cow;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_protocol::pg::client::{HEADER_BYTES, header};
use ashlar_protocol::pg::{CommandTag, ValueFormat};
use ashlar_shard::backend::{Ended, Taker};
use ashlar_shard::merge::{Field, Gathering, Merger, TextOrder};
use ashlar_store::Reservation;

use super::gather::{HANDED_BYTES, cut, names_a_collation};
use super::{Executed, Portal, RowSink, Sending, Several, SqlSession, ended_as, is_kept, placed, stoppable};

/// Rows as they have come, shard by shard.
struct Held {
    memory: Reservation,
    /// By shard: DataRow messages.
    answers: Vec<Vec<u8>>,
    /// How the first of the simple protocol describes them.
    description: Vec<u8>,
    failure: Option<Error>,
}

impl Held {
    fn keep(&mut self, messages: &[u8]) -> Result<()> {
        let Some(bytes) = self.answers.last_mut() else { return Ok(()) };
        // Twice: it grows by doubling.
        self.memory.grow(messages.len().saturating_mul(2))?;
        bytes.extend_from_slice(messages);
        Ok(())
    }
}

impl Taker for Held {
    fn describe(&mut self, message: &[u8]) {
        if self.description.is_empty() {
            self.description = message.to_vec();
        }
    }

    fn rows(&mut self, messages: &[u8], _: u64) {
        if self.failure.is_none() {
            self.failure = self.keep(messages).err();
        }
    }

    async fn ready(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl SqlSession {
    /// Locks rows of several shards, and puts them in their order.
    pub(super) async fn lock_in_order<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        several: &Several<'_>,
        gathering: &Gathering<'_>,
        sink: &mut S,
    ) -> Result<Executed> {
        let Several { forward, rows_max, describe, .. } = *several;
        if rows_max > 0 {
            return Err(Error::unsupported(
                "a row limit for a statement that writes to several shards is not supported",
            ));
        }
        let hidden = gathering.merge.hidden;
        let first = &forward.statements[0];
        let mut is_c_collated = true;
        for sent in &forward.statements {
            let place = self.begin_remote(sent.server).await?;
            is_c_collated &= self.remotes[place].lease.is_c_collated();
        }
        let place = self.begin_remote(first.server).await?;
        let (_, types) = several.own(first);
        let cancel = self.cancel.clone();
        let described = stoppable(self.remotes[place].lease.describe(&first.text, &types), &cancel).await;
        let described = described.map_err(|error| placed(error, matches!(first.text, Cow::Borrowed(_))))?;
        if let Some(told) = several.expected {
            told.check_shown(first.server, &described, hidden)?;
        }
        let described = Arc::new(described);
        let mut formats: Vec<ValueFormat> = portal.formats.to_vec();
        formats.resize(formats.len() + hidden, ValueFormat::Text);
        let is_binary = |at: usize| !describe && formats.get(at) == Some(&ValueFormat::Binary);
        let columns = described.columns.iter().flatten().enumerate();
        let fields: Vec<Field> =
            columns.map(|(at, column)| Field { oid: column.oid, is_binary: is_binary(at) }).collect();
        let is_named = names_a_collation(&first.text);
        let columns = gathering.merge.text_columns(&fields, is_named).into_iter().filter(|_| is_named);
        // A sub-query may have given them another order than the servers' own: nobody is asked for it here.
        let orders: Vec<(usize, TextOrder)> = columns.map(|column| (column, TextOrder::Unknown)).collect();
        let mut merger = Merger::ordered(gathering, &fields, forward.statements.len(), is_c_collated, &orders)?;
        let memory = self.shared.engine.store().reservation();
        let mut held = Held { memory, answers: Vec::new(), description: Vec::new(), failure: None };
        for sent in &forward.statements {
            let (own, types) = several.own(sent);
            let is_first = held.answers.is_empty();
            let sending = Sending {
                text: &sent.text,
                is_kept: is_kept(sent, true),
                types: &types,
                extended: (!describe).then_some((own.as_slice(), formats.as_slice())),
                // The first of the simple protocol tells the client of the columns.
                expected: Some(&described).filter(|_| !describe || !is_first),
                portal: "",
                rows_max: 0,
            };
            held.answers.push(Vec::new());
            let place = self.begin_remote(sent.server).await?;
            let ended = self.on_remote(place, true, &mut held, |lease| sending.queue(lease)).await;
            let ended = ended.map_err(|error| placed(error, matches!(sent.text, Cow::Borrowed(_))))?;
            let Ended::Complete(_) = ended else {
                return Err(Error::internal("a statement on several shards has not come to its end"));
            };
            if describe && is_first {
                described.check_answer(sent.server, &held.description)?;
            }
        }
        if describe {
            sink.forward(&cut(&held.description, hidden)?, 0);
        }
        let rows = send(&held, &mut merger, sink).await?;
        Ok(ended_as(Ended::Complete(CommandTag::counted("SELECT", rows)), portal, "", ""))
    }
}

/// Hands the rows out in their order: how many.
async fn send<S: RowSink>(held: &Held, merger: &mut Merger, sink: &mut S) -> Result<u64> {
    let mut left: Vec<&[u8]> = held.answers.iter().map(Vec::as_slice).collect();
    let (mut out, mut waiting, mut rows) = (Vec::new(), 0, 0);
    loop {
        while let Some(at) = merger.needs() {
            match header(left[at]).map_err(|_| broken())? {
                Some((_, length)) => {
                    let (row, behind) = left[at].split_at_checked(length).ok_or_else(broken)?;
                    merger.push(at, row.get(HEADER_BYTES..).ok_or_else(broken)?)?;
                    left[at] = behind;
                }
                None => merger.finish(at),
            }
        }
        match merger.pop()? {
            Some(body) => {
                let length = u32::try_from(body.len() + 4).map_err(|_| broken())?;
                out.push(b'D');
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&body);
                (waiting, rows) = (waiting + 1, rows + 1);
                if out.len() >= HANDED_BYTES {
                    sink.forward(&out, std::mem::take(&mut waiting));
                    out.clear();
                    sink.ready().await?;
                }
            }
            None if merger.is_done() => break,
            None => {}
        }
    }
    sink.forward(&out, waiting);
    sink.ready().await?;
    Ok(rows)
}

/// 08P01
fn broken() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent what cannot be read")
}

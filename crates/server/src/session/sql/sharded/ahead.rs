//! Pipelined statements that are sent to the shard one after the other, without waiting for the answers.
//!
//! Called by the door between Bind and Execute when the client has already sent more: in a transaction block whose
//! shard has a connection, for statements that this connection knows. The client sees what PostgreSQL would show:
//! answers in order and, after an error, nothing more up to its Sync. Any other message ends the pipeline, which is
//! then sent and answered first.

use std::pin::pin;
use std::time::Instant;

use ashlar_base::{Result, clock};
use ashlar_protocol::pg::{CommandTag, ValueFormat};
use ashlar_shard::backend::{self, Ended, Taker};
use ashlar_shard::route::{Request, told_here};

use super::super::Notice;
use super::super::settings::MinSeverity;
use super::at_once::Given;
use super::{Block, Executed, Portal, RawParameters, RowSink, SqlSession, ended_as, placed};

/// Bytes that may be queued before they are sent: what sockets take without anybody reading, so that a shard that waits for us to read cannot
/// keep us from it.
const QUEUED_BYTES_MAX: usize = 16 * 1024;

/// What Bind and Execute have beside values and formats: lengths, counts, and the name by which a connection knows the statement.
const MESSAGES_BYTES: usize = 64;

/// Statements that may be.
const QUEUED_MAX: usize = 256;

/// Bytes that clients may be told before their rows.
const TOLD_BYTES_MAX: usize = 64 * 1024;

/// Statements that are queued on a connection of the transaction, and not sent.
#[derive(Default)]
pub(in crate::session::sql) struct Ahead {
    /// Which connection.
    place: usize,
    queued: Vec<Queued>,
    /// What the client is told before their rows, one behind the other.
    told: Vec<u8>,
}

struct Queued {
    portal: Box<Portal>,
    /// Whether the shard is sent the client's own text.
    is_as_sent: bool,
    /// Where its part of `told` ends.
    told: usize,
}

/// Hands answers to the client, each behind what it is told before.
struct Answers<'a, S> {
    sink: &'a mut S,
    ahead: &'a Ahead,
    begun: usize,
    /// What the client wants to be told beside.
    min_severity: MinSeverity,
    /// Tags of those that have come to their end, and when they have.
    ended: Vec<(CommandTag, Instant)>,
}

impl<S: RowSink> Taker for Answers<'_, S> {
    const IN_PARTS: bool = true;

    fn describe(&mut self, _: &[u8]) {}

    fn rows(&mut self, messages: &[u8], count: u64) {
        self.sink.forward(messages, count);
    }

    fn part(&mut self, part: &[u8], left: usize) {
        self.sink.forward_part(part, left);
    }

    fn begin(&mut self) {
        let start = self.begun.checked_sub(1).map_or(0, |before| self.ahead.queued[before].told);
        if let Some(one) = self.ahead.queued.get(self.begun) {
            self.sink.forward(&self.ahead.told[start..one.told], 0);
            self.begun += 1;
        }
    }

    fn notices(&mut self, notices: &mut Vec<backend::Notice>) {
        for notice in notices.drain(..) {
            if self.min_severity.tells(notice.severity) {
                self.sink.notice(&Notice::from(notice));
            }
        }
    }

    fn complete(&mut self, message: &[u8], tag: &CommandTag) {
        self.sink.forward(message, 0);
        self.ended.push((*tag, clock::monotonic()));
    }

    fn has_room(&self) -> bool {
        self.sink.has_room()
    }

    async fn ready(&mut self) -> Result<()> {
        self.sink.ready().await
    }
}

impl SqlSession {
    /// Whether statements are queued that are not answered.
    pub fn is_ahead(&self) -> bool {
        !self.ahead.queued.is_empty()
    }

    /// Queues the portal without a name behind those that are queued, if it can be: `told` is what the client is told before its rows.
    /// `false`, and nothing has happened: it has to be executed.
    pub fn queue_ahead(&mut self, told: &[u8]) -> bool {
        // Who has a time for each statement, or is told how long each took, has them one by one.
        let is_timed = self.settings.statement_timeout_ms > 0 || self.settings.log_min_duration_ms.is_some();
        let is_plain = self.is_plain() && !is_timed;
        if self.block != Block::Open || !is_plain || self.ahead.told.len() + told.len() > TOLD_BYTES_MAX {
            return false;
        }
        let Some(mut portal) = self.portals.remove("") else { return false };
        let queued = self.try_ahead(&portal);
        let Some((place, is_as_sent)) = queued else {
            self.portals.insert("", portal);
            return false;
        };
        // Those behind it begin when it is answered, and are not noted.
        if !self.is_ahead() {
            self.note_portal(&portal);
        }
        self.spare = portal.raw.take().map(RawParameters::emptied);
        self.ahead.place = place;
        self.ahead.told.extend_from_slice(told);
        let told = self.ahead.told.len();
        self.ahead.queued.push(Queued { portal, is_as_sent, told });
        true
    }

    fn try_ahead(&mut self, portal: &Portal) -> Option<(usize, bool)> {
        if !portal.is_fresh() || portal.sent.is_some() || self.cancel.is_cancelled() || !self.is_current(portal) {
            return None;
        }
        let plan = portal.sharded()?;
        let raw = portal.raw.as_ref()?;
        let ((types, _), expected) = (plan.described()?, plan.expected()?);
        let given = Given { raw, types };
        let one = plan.route.at_once(&Request { parameters: &given, style: *self.style(), ..Request::default() })?;
        let place = self.connection_of_transaction(one.server, plan.route.is_write())?;
        if self.is_ahead() && (place != self.ahead.place || self.ahead.queued.len() >= QUEUED_MAX) {
            return None;
        }
        let lease = &mut self.remotes[place].lease;
        if lease.queued() + sent_bytes(raw, &portal.formats) > QUEUED_BYTES_MAX {
            return None;
        }
        let declared = portal.source.as_ref().map_or(&[][..], |source| &source.declared);
        let is_queued = lease.queue_ahead((one.text, one.number), declared, raw.iter(), &portal.formats, expected);
        is_queued.then_some((place, one.is_as_sent))
    }

    /// Sends what is queued, and passes on what is answered: all of it, or up to the first error.
    ///
    /// # Errors
    /// The first error; what is queued behind it has not been carried out.
    pub async fn answer_ahead<S: RowSink>(&mut self, sink: &mut S) -> Result<()> {
        let mut ahead = std::mem::take(&mut self.ahead);
        let is_write = ahead.queued.iter().any(|one| one.portal.sharded().is_some_and(|plan| plan.route.is_write()));
        let (sent, min_severity) = (clock::monotonic(), self.settings.min_severity);
        let ended = Vec::with_capacity(ahead.queued.len());
        let mut answers = Answers { sink, ahead: &ahead, begun: 0, min_severity, ended };
        let answered = pin!(self.on_remote(ahead.place, is_write, &mut answers, |lease| lease.queue_sync())).await;
        let mut ended = answers.ended;
        let done = self.note_ahead(&ahead.queued, &ended, sent, answered);
        // The last one is still there, unless another has its name.
        if done.is_ok()
            && !self.portals.contains("")
            && let (Some(mut last), Some((tag, _))) = (ahead.queued.pop(), ended.pop())
        {
            ended_as(Ended::Complete(tag), &mut last.portal, "", "");
            self.portals.insert("", last.portal);
        }
        ahead.queued.drain(..).for_each(|one| self.portals.recycle(one.portal));
        ahead.told.clear();
        self.ahead = ahead;
        done
    }

    /// Counts what statements have cost that were sent together: each from the end of the one before it. Returns how they ended, with the
    /// error in its place in the text of the one that failed.
    fn note_ahead(
        &mut self,
        queued: &[Queued],
        ended: &[(CommandTag, Instant)],
        sent: Instant,
        answered: Result<Ended>,
    ) -> Result<()> {
        let mut begun = sent;
        for (one, (tag, end)) in queued.iter().zip(ended) {
            if let Some(plan) = one.portal.sharded() {
                let taken = end.duration_since(begun);
                self.note_taken(plan, plan.kind_of_one(), taken, &Ok(Executed::Complete(*tag)));
            }
            begun = *end;
        }
        let Err(error) = answered else { return Ok(()) };
        let Some(failed) = queued.get(ended.len()) else { return Err(error) };
        let error = placed(error, failed.is_as_sent);
        let Some(plan) = failed.portal.sharded() else { return Err(error) };
        let failure = Err(told_here(error, plan.route.tables()));
        self.note_route(plan, plan.kind_of_one(), begun, &failure);
        failure.map(drop)
    }
}

/// Bytes that a statement takes on its way to a shard, at most.
fn sent_bytes(raw: &RawParameters, formats: &[ValueFormat]) -> usize {
    raw.sent_bytes() + formats.len() * size_of::<i16>() + MESSAGES_BYTES
}

#[cfg(test)]
mod tests;

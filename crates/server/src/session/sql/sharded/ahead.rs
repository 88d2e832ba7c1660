//! Statements of a pipeline that go to the shard one behind the other: none waits for the answer to the one before it.
//!
//! Called by the door between Bind and Execute, where the client has sent more already: in a transaction block whose shard has a connection,
//! for statements that this connection knows. What the client sees is what it sees of PostgreSQL: answers in its order, and after an error
//! nothing of the rest, up to its Sync. Everything else ends the row: it is sent and answered first.

use std::pin::pin;
use std::time::Instant;

use ashlar_base::{Result, clock};
use ashlar_protocol::pg::CommandTag;
use ashlar_query::sharded::ShardedPlan;
use ashlar_query::statement::Kind;
use ashlar_shard::backend::{Ended, Taker};
use ashlar_shard::route::Request;
use ashlar_shard::routes::RouteKind;

use super::super::limit::in_time;
use super::at_once::{Given, On};
use super::{Block, Executed, Portal, RawParameters, RowSink, SqlSession, ended_as, placed};

/// Bytes that may be queued before they are sent: what sockets take without anybody reading, so that a shard that waits for us to read cannot
/// keep us from it.
const QUEUED_BYTES_MAX: usize = 16 * 1024;

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
    portal: Portal,
    started: Instant,
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
    /// Tags of those that have come to their end.
    tags: Vec<CommandTag>,
}

impl<S: RowSink> Taker for Answers<'_, S> {
    fn describe(&mut self, _: &[u8]) {}

    fn rows(&mut self, messages: &[u8], count: u64) {
        self.sink.forward(messages, count);
    }

    fn begin(&mut self) {
        let start = self.begun.checked_sub(1).map_or(0, |before| self.ahead.queued[before].told);
        if let Some(one) = self.ahead.queued.get(self.begun) {
            self.sink.forward(&self.ahead.told[start..one.told], 0);
            self.begun += 1;
        }
    }

    fn complete(&mut self, message: &[u8], tag: &CommandTag) {
        self.sink.forward(message, 0);
        self.tags.push(tag.clone());
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
        let is_plain = self.is_plain() && self.settings.log_min_duration_ms.is_none();
        if self.block != Block::Open || !is_plain || self.ahead.told.len() + told.len() > TOLD_BYTES_MAX {
            return false;
        }
        let Some(mut portal) = self.portals.remove("") else { return false };
        let queued = self.try_ahead(&mut portal);
        let Some((place, started, is_as_sent)) = queued else {
            self.portals.insert("", portal);
            return false;
        };
        self.spare = portal.raw.take().map(RawParameters::emptied);
        self.ahead.place = place;
        self.ahead.told.extend_from_slice(told);
        let told = self.ahead.told.len();
        self.ahead.queued.push(Queued { portal, started, is_as_sent, told });
        true
    }

    fn try_ahead(&mut self, portal: &mut Portal) -> Option<(usize, Instant, bool)> {
        if !portal.is_fresh() || portal.sent.is_some() || self.cancel.is_cancelled() || !self.is_current(portal) {
            return None;
        }
        let statement = portal.statement.clone()?;
        let Kind::Sharded(plan) = &statement.kind else { return None };
        let raw = portal.raw.as_ref()?;
        let ((types, _), expected) = (plan.described()?, plan.expected()?);
        let started = clock::monotonic();
        let given = Given { raw, types };
        let one = plan.route.at_once(&Request { parameters: &given, style: *self.style(), ..Request::default() })?;
        let On::Transaction(place) = self.connection(one.server, plan.route.is_write())? else { return None };
        if self.is_ahead() && (place != self.ahead.place || self.ahead.queued.len() >= QUEUED_MAX) {
            return None;
        }
        let lease = &mut self.remotes[place].lease;
        if lease.queued() + raw.len() > QUEUED_BYTES_MAX {
            return None;
        }
        let declared = portal.source.as_ref().map_or(&[][..], |source| &source.declared);
        let is_queued = lease.queue_ahead(one.text, declared, raw.iter(), &portal.formats, expected);
        is_queued.then_some((place, started, one.is_as_sent))
    }

    /// Sends what is queued, and passes on what is answered: all of it, or up to the first error.
    ///
    /// # Errors
    /// The first error; what is queued behind it has not been carried out.
    pub async fn answer_ahead<S: RowSink>(&mut self, sink: &mut S) -> Result<()> {
        let mut ahead = std::mem::take(&mut self.ahead);
        let (deadline, cancel) = (self.arrive(), self.cancel.clone());
        let is_write = ahead.queued.iter().any(|one| plan_of(&one.portal).is_some_and(|plan| plan.route.is_write()));
        let mut answers = Answers { sink, ahead: &ahead, begun: 0, tags: Vec::with_capacity(ahead.queued.len()) };
        let ended = {
            let place = ahead.place;
            let work = pin!(self.on_remote(place, is_write, &mut answers, |lease| lease.queue_sync()));
            in_time(deadline, cancel, work).await
        };
        self.deadline = None;
        let tags = answers.tags;
        for (one, tag) in ahead.queued.iter().zip(&tags) {
            if let Some(plan) = plan_of(&one.portal) {
                self.note_route(plan, RouteKind::OneShard, one.started, &Ok(Executed::Complete(tag.clone())));
            }
        }
        let done = match ended {
            Err(error) => Err(match ahead.queued.get(tags.len()) {
                Some(failed) => {
                    let error = placed(error, failed.is_as_sent);
                    if let Some(plan) = plan_of(&failed.portal) {
                        self.note_route(plan, RouteKind::OneShard, failed.started, &Err(error.clone()));
                    }
                    error
                }
                None => error,
            }),
            Ok(_) => Ok(()),
        };
        // The last one is still there, unless another has its name.
        if done.is_ok()
            && !self.portals.contains("")
            && let (Some(mut last), Some(tag)) = (ahead.queued.pop(), tags.into_iter().next_back())
        {
            ended_as(Ended::Complete(tag), &mut last.portal, "", "");
            self.portals.insert("", last.portal);
        }
        ahead.queued.clear();
        ahead.told.clear();
        self.ahead = ahead;
        done
    }
}

fn plan_of(portal: &Portal) -> Option<&ShardedPlan> {
    match &portal.statement.as_ref()?.kind {
        Kind::Sharded(plan) => Some(plan),
        _ => None,
    }
}

//! The fast path of most statements about shards: one shard runs it, and a connection to that shard is idle.
//!
//! Called by `run` before anything else is tried. From Bind to the command tag everything it needs has been allocated
//! before, as `tests/allocations.rs` of this crate verifies. It refuses nothing: a statement that is not this simple
//! takes the general path, and so does a change that its connection does not know yet.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use ashlar_base::{Result, clock};
use ashlar_protocol::pg::ValueFormat;
use ashlar_query::sharded::ShardedPlan;
use ashlar_query::statement::Kind;
use ashlar_query::transaction::Isolation;
use ashlar_shard::pool::Lease;
use ashlar_shard::route::{Parameter, Parameters, Request, Sent, told_here};

use super::{Executed, Forwarding, Portal, Progress, RawParameters, RowSink, SqlSession, ended_as, placed};

/// Bytes of parameters, and their number, that a session keeps room for.
const KEPT_BYTES_MAX: usize = 4096;
const KEPT_VALUES_MAX: usize = 128;

/// Parameters of a portal with the types that a shard has said.
pub(super) struct Given<'a> {
    pub(super) raw: &'a RawParameters,
    pub(super) types: &'a [u32],
}

impl Parameters for Given<'_> {
    fn get(&self, number: usize) -> Option<Parameter<'_>> {
        if number >= self.raw.values.len() {
            return None;
        }
        let (format, bytes) = self.raw.get(number);
        let oid = self.types.get(number).copied().unwrap_or(0);
        Some(Parameter { oid, is_binary: format == ValueFormat::Binary, bytes })
    }
}

/// A statement that is queued on the connection that it runs on.
pub(in crate::session::sql) struct Queued {
    on: On,
    is_write: bool,
    /// Whether the shard is sent the client's own text.
    is_as_sent: bool,
    started: Instant,
}

enum On {
    /// It is a transaction of its own.
    Lent(Lease),
    /// The connection of the transaction at this place.
    Transaction(usize),
}

impl SqlSession {
    /// Queues the statement of a portal that has not begun on the connection to the one shard that carries it out. `None`, and nothing has
    /// happened: that is not certain, or there is no such connection yet. `describe`: the simple protocol.
    pub(in crate::session::sql) fn queue_at_once(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        describe: bool,
    ) -> Option<Queued> {
        // Each by itself: the plan stays where it is, and is not counted up and down.
        let Portal { statement: Some(statement), raw: kept, sent, formats, source, progress: Progress::Fresh, .. } =
            portal
        else {
            return None;
        };
        let Kind::Sharded(plan) = &statement.kind else { return None };
        if let Some(sent) = sent {
            return self.queue_text(sent, plan);
        }
        if describe || rows_max > 0 || !self.is_plain() {
            return None;
        }
        let raw = kept.as_ref()?;
        let ((types, _), expected) = (plan.described()?, plan.expected()?);
        let started = clock::monotonic();
        let given = Given { raw, types };
        let one = plan.route.at_once(&Request { parameters: &given, style: *self.style(), ..Request::default() })?;
        let is_write = plan.route.is_write();
        let mut on = self.connection(one.server, is_write, started)?;
        let declared = source.as_ref().map_or(&[][..], |source| &source.declared);
        // Nothing takes back what it would change where it turned out to be another statement than its client has been told.
        let is_final = is_write && matches!(on, On::Lent(_));
        let lease = self.lease_of(&mut on);
        if !lease.queue_known((one.text, one.number), declared, raw.iter(), formats, expected) {
            if is_final {
                return None;
            }
            lease.queue_checked((one.text, true), declared, ("", 0), raw.iter(), formats, expected);
        }
        let queued = Queued { on, is_write, is_as_sent: one.is_as_sent, started };
        self.spare = kept.take().map(RawParameters::emptied);
        Some(queued)
    }

    /// The same for a text of the simple protocol whose shard is known without its having been parsed.
    fn queue_text(&mut self, sent: &Sent, plan: &ShardedPlan) -> Option<Queued> {
        if !self.is_plain() {
            return None;
        }
        let (started, is_write) = (clock::monotonic(), plan.route.is_write());
        let mut on = self.connection(&sent.server, is_write, started)?;
        self.lease_of(&mut on).queue_query(sent.written());
        Some(Queued { on, is_write, is_as_sent: sent.is_as_sent(), started })
    }

    /// Whether the session takes its connections as they come.
    pub(super) fn is_plain(&self) -> bool {
        // Replicas are chosen among, and connections that a session keeps are its own.
        let is_chosen = self.settings.reads_replicas || self.settings.keeps_connections || self.keep.is_some();
        !is_chosen && self.isolation() != Isolation::RepeatableRead
    }

    /// A connection to a server that is there and may be used. `now`: what the clock says.
    fn connection(&mut self, server: &Arc<str>, is_write: bool, now: Instant) -> Option<On> {
        if self.is_direct() {
            // Borrowed: counts of what all threads share are written by each of them.
            let fleet = self.shared.engine.catalog().fleet().ok()?;
            let pool = self.pool.get_or_insert_with(|| fleet.pool_of_thread());
            let to = (server, &mut self.ways);
            let lease = fleet.lend_idle(pool, to, &self.role, &self.settings.of_shards, now)?;
            self.note_asked(&lease.server().name);
            return Some(On::Lent(lease));
        }
        let place = self.connection_of_transaction(server, is_write)?;
        self.note_remote(place);
        Some(On::Transaction(place))
    }

    /// The place of the transaction's connection to a server, where it has one that may be used.
    pub(super) fn connection_of_transaction(&self, server: &Arc<str>, is_write: bool) -> Option<usize> {
        let place = self.remotes.iter().position(|remote| remote.server == *server)?;
        let lease = &self.remotes[place].lease;
        // One that is to be told settings first is told them on the way of all others.
        let is_ready = !lease.is_broken() && lease.has_settings(&self.settings.of_shards);
        let is_usable = is_ready && (!is_write || self.check_remote_write("").is_ok());
        is_usable.then_some(place)
    }

    fn lease_of<'l>(&'l mut self, on: &'l mut On) -> &'l mut Lease {
        match on {
            On::Lent(lease) => lease,
            On::Transaction(place) => &mut self.remotes[*place].lease,
        }
    }

    /// Waits for the answer to what is queued, and passes it on.
    pub(in crate::session::sql) async fn answer_at_once<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        queued: Queued,
        sink: &mut S,
    ) -> Result<Executed> {
        let Queued { on, is_write, is_as_sent, started } = queued;
        let (ended, now) = match on {
            On::Lent(mut lease) => {
                let ended = pin!(self.on_lent(&mut lease, is_write, sink)).await;
                let now = clock::monotonic();
                lease.give_back(now);
                (ended, now)
            }
            On::Transaction(place) => {
                let mut taker = Forwarding(sink);
                let ended = pin!(self.on_remote(place, is_write, &mut taker, |_| {})).await;
                (ended, clock::monotonic())
            }
        };
        let done = ended.map(|ended| ended_as(ended, portal, "", ""));
        let Some(plan) = portal.sharded() else { return done };
        let done = done.map_err(|error| told_here(placed(error, is_as_sent), plan.route.tables()));
        self.note_taken(plan, plan.kind_of_one(), now.duration_since(started), &done);
        done
    }
}

impl RawParameters {
    /// Its memory, for those of another statement.
    pub(super) fn emptied(mut self) -> Self {
        self.bytes.clear();
        self.values.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.values.shrink_to(KEPT_VALUES_MAX);
        self
    }
}

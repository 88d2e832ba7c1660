//! Statements that one shard answers: the client's bytes are forwarded to it, and its answer is forwarded back.
//!
//! Called by `run`. A statement that is a transaction of its own borrows a connection while it runs. In a longer
//! transaction the connection to the first shard stays with the session until the end; BEGIN and COMMIT are sent on it.
//! Statements that need more than one shard are merged by `gather` if that is enough, and otherwise read by the engine.

mod ahead;
mod at_once;
mod change;
mod compare;
pub(super) mod copy;
mod ddl;
mod explain;
mod gather;
mod lending;
mod named;
mod ordered;
mod own;
mod remotes;
mod repeatable;
mod spread;
mod texts;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_base::{Error, ErrorCode, Result, clock};
use ashlar_protocol::pg::{CommandTag, ValueFormat};
use ashlar_query::sharded::{ShardedPlan, is_gathered, is_one_shard};
use ashlar_query::statement::Kind;
use ashlar_query::transaction::Isolation;
use ashlar_query::{Barrier, StatementResources};
use ashlar_shard::backend::{Described, Ended, KEPT_TEXT_BYTES_MAX, Nothing, Taker};
use ashlar_shard::fleet::Fleet;
use ashlar_shard::pool::Lease;
use ashlar_shard::route::{Decision, Forward, Merge, Parameter, Request, ShardStatement, told_here};
use ashlar_shard::routes::RouteKind;
use ashlar_shard::rules::{Generator, Rule};
use ashlar_shard::workers::Keys;

pub(super) use self::ahead::Ahead;
pub(super) use self::at_once::Queued;
use self::gather::Kept;
pub(super) use self::named::check_named;
pub(super) use self::remotes::Remote;
use self::remotes::stoppable;
use super::parameters::{Charges, read_parameters};
use super::portal::{Portal, Progress, Tag};
use super::read_only::words_of_sharded;
use super::{Block, Executed, Prepared, RowSink, SqlSession};

/// SQLSTATEs of a statement whose tables are not what they were when it was described: a shard says the first, which may mean something else
/// too, and the connection to it the second.
const OTHERWISE: [&str; 2] = ["0A000", "42804"];

/// Values of parameters as the client sent them.
#[derive(Default)]
pub(super) struct RawParameters {
    bytes: Vec<u8>,
    values: Vec<(ValueFormat, Option<Range<usize>>)>,
}

impl RawParameters {
    fn get(&self, place: usize) -> (ValueFormat, Option<&[u8]>) {
        let (format, range) = &self.values[place];
        (*format, range.clone().map(|range| &self.bytes[range]))
    }

    /// Bytes that Bind takes for them: each has a format and a length, NULL too.
    fn sent_bytes(&self) -> usize {
        self.bytes.len() + self.values.len() * (size_of::<i16>() + size_of::<i32>())
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = (ValueFormat, Option<&[u8]>)> + Clone {
        (0..self.values.len()).map(|place| self.get(place))
    }
}

/// Hands a shard's messages to the client.
struct Forwarding<'s, S>(&'s mut S);

impl<S: RowSink> Taker for Forwarding<'_, S> {
    const IN_PARTS: bool = true;

    fn describe(&mut self, message: &[u8]) {
        self.0.forward(message, 0);
    }

    fn rows(&mut self, messages: &[u8], count: u64) {
        self.0.forward(messages, count);
    }

    fn part(&mut self, part: &[u8], left: usize) {
        self.0.forward_part(part, left);
    }

    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    async fn ready(&mut self) -> Result<()> {
        self.0.ready().await
    }
}

/// A statement for shards, with what its client gave.
#[derive(Clone, Copy)]
struct Several<'a> {
    forward: &'a Forward<'a>,
    /// What each shard is asked by itself, where those of one server are asked together; otherwise none.
    parts: &'a [ShardStatement<'a>],
    values: &'a [ValueOf<'a>],
    /// Types of parameters as they are declared to shards that know the statement by its text.
    declared: &'a [u32],
    /// All of them, as far as a shard has said them.
    types: &'a [u32],
    /// What its client has been told that it looks like.
    expected: Option<&'a Arc<Described>>,
    has_rows: bool,
    rows_max: usize,
    describe: bool,
}

/// The value of a parameter as the client has sent it; None: NULL.
type ValueOf<'a> = (ValueFormat, Option<&'a [u8]>);

/// Values of parameters, and the types that were declared for them.
type Given<'a> = (Vec<ValueOf<'a>>, Vec<u32>);

impl<'a> Several<'a> {
    /// What one of its statements takes. One that will not come again leaves no type open.
    fn own(&self, sent: &ShardStatement<'_>) -> Given<'a> {
        let types = if sent.is_made { self.types } else { self.declared };
        let Some(places) = &sent.parameters else { return (self.values.to_vec(), types.to_vec()) };
        let value = |place: &u16| self.values.get(usize::from(*place)).copied();
        let own = |place: &u16| types.get(usize::from(*place)).copied().unwrap_or(0);
        (places.iter().filter_map(value).collect(), places.iter().map(own).collect())
    }

    /// What one of its statements is expected to look like, which has these types of parameters; `None` where its client has been told
    /// nothing, or there is nothing in which it could differ.
    fn expected_of(&self, sent: &ShardStatement<'_>, types: &[u32]) -> Option<Arc<Described>> {
        let expected = self.expected?;
        if !sent.is_made {
            return Some(Arc::clone(expected));
        }
        let columns = expected.columns.clone()?;
        Some(Arc::new(Described { parameters: types.to_vec(), columns: Some(columns) }))
    }
}

/// How a statement is run on the connection that it has.
struct Sending<'a> {
    text: &'a str,
    /// Whether the text is likely to come again.
    is_kept: bool,
    types: &'a [u32],
    /// None: the simple protocol, whose answer describes itself.
    extended: Option<(&'a [ValueOf<'a>], &'a [ValueFormat])>,
    /// What it has to look like on its shard. None: nothing is expected, or that is known by now.
    expected: Option<&'a Arc<Described>>,
    portal: &'a str,
    rows_max: usize,
}

impl Sending<'_> {
    fn queue(&self, lease: &mut Lease) {
        let portal = (self.portal, i32::try_from(self.rows_max).unwrap_or(0));
        match (self.extended, self.expected) {
            (None, None) => lease.queue_query(self.text),
            (None, Some(expected)) => lease.queue_query_expecting(self.text, expected),
            (Some((values, formats)), None) => {
                lease.queue_once(self.text, self.types, portal, values.iter().copied(), formats);
            }
            (Some((values, formats)), Some(expected)) => {
                let statement = (self.text, self.is_kept);
                lease.queue_checked(statement, self.types, portal, values.iter().copied(), formats, expected);
            }
        }
    }
}

/// Values of parameters with their types, as a route reads them.
fn parameters<'a>(values: &[ValueOf<'a>], types: &[u32]) -> Vec<Parameter<'a>> {
    let parameter = |(place, (format, bytes)): (usize, &ValueOf<'a>)| Parameter {
        oid: types.get(place).copied().unwrap_or(0),
        is_binary: *format == ValueFormat::Binary,
        bytes: *bytes,
    };
    values.iter().enumerate().map(parameter).collect()
}

/// Whether a shard is likely to be sent the same text again, and its connections remember it.
fn is_kept(sent: &ShardStatement<'_>, is_write: bool) -> bool {
    let is_own = matches!(sent.text, Cow::Borrowed(_));
    sent.text.len() <= KEPT_TEXT_BYTES_MAX && (!is_write || is_own || !sent.is_made)
}

impl SqlSession {
    /// What the engine cannot read of shards now, at the isolation level of the transaction.
    pub(super) fn set_barrier(&self, resources: &mut StatementResources, isolation: Isolation) {
        resources.role = Arc::clone(&self.role);
        resources.carried = self.settings.of_shards.carried.clone();
        if self.settings.sharded_snapshots {
            resources.moment = ashlar_query::sharded::moment(&self.catalog(), &self.role);
        }
        resources.reads_replicas = self.may_read_replicas();
        resources.barrier = if isolation == Isolation::RepeatableRead { Barrier::Snapshot } else { self.written() };
    }

    /// What the transaction has written to shards keeps others' connections from reading there.
    fn written(&self) -> Barrier {
        if self.remotes.is_empty() {
            return Barrier::None;
        }
        let written = self.remotes.iter().filter(|remote| remote.wrote);
        Barrier::Written(written.map(|remote| Arc::clone(&remote.server)).collect())
    }

    /// The isolation level of the statement to come.
    pub(super) fn isolation(&self) -> Isolation {
        self.transaction.as_ref().map_or(self.settings.modes.isolation, |transaction| transaction.isolation)
    }

    /// Whether a transaction has a connection to a shard.
    pub(super) fn has_remote(&self) -> bool {
        !self.remotes.is_empty()
    }

    /// 0A000 where a shard has been written to: two homes do not commit as one.
    pub(super) fn refuse_mixed(&self) -> Result<()> {
        match self.remotes.iter().find(|remote| remote.wrote) {
            Some(remote) => Err(Error::unsupported(format!(
                "a transaction that has written to shard \"{}\" cannot write to tables of this server",
                remote.server
            ))
            .with_hint("Write to them in a transaction of its own.")),
            None => Ok(()),
        }
    }

    /// Whether a statement of one shard is read by the engine, over other connections: the transaction's own are to other servers,
    /// and need not be more for that.
    pub(super) fn is_read_elsewhere(&self, plan: &ShardedPlan, server: &str) -> bool {
        let is_known = || self.remotes.iter().any(|remote| *remote.server == *server);
        !plan.route.is_write() && !self.remotes.is_empty() && !is_known()
    }

    fn fleet(&self) -> Result<Arc<Fleet>> {
        self.shared.engine.catalog().fleet().cloned()
    }

    /// Makes keys for rows of a table with this rule, once that can be done.
    ///
    /// # Errors
    /// 55000 where no worker number can be leased; 57014.
    async fn keys(&self, rule: &Rule, generator: Generator) -> Result<Keys> {
        let keys = self.fleet()?.keys(rule)?;
        stoppable(keys.ready(generator, &self.role), &self.cancel).await?;
        Ok(keys)
    }

    /// Has a statement described by a shard, once for all sessions.
    pub(super) async fn describe_sharded(&mut self, plan: &ShardedPlan, declared: &[u32]) -> Result<()> {
        if plan.described().is_some() {
            return Ok(());
        }
        let sample = plan.route.sample();
        let cancel = self.cancel.clone();
        let described = match self.remotes.iter_mut().find(|remote| *remote.server == *sample.server) {
            Some(remote) => {
                remote.lease.queue_settings(&self.settings.of_shards);
                stoppable(remote.lease.describe(&sample.text, declared), &cancel).await?
            }
            None => {
                let is_write = plan.route.is_write();
                let mut lease = match is_write {
                    true => self.lend(sample.server).await?,
                    false => self.lend_to_read(sample.server).await?,
                };
                stoppable(lease.describe(&sample.text, declared), &cancel).await?
            }
        };
        plan.describe(described);
        Ok(())
    }

    /// Runs a statement about shards, and counts what it costs.
    pub(super) async fn run_sharded<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        rows_max: usize,
        sink: &mut S,
        describe: bool,
    ) -> Result<Executed> {
        let Kind::Sharded(plan) = &statement.kind else { return Err(Error::internal("this is not about shards")) };
        let (started, mut kind) = (clock::monotonic(), plan.kind_of_one());
        let done = self.run_routed(portal, (statement, plan), rows_max, sink, describe, &mut kind).await;
        let done = done.map_err(|error| told_here(error, plan.route.tables()));
        self.note_route(plan, kind, started, &done);
        done
    }

    /// Counts what a statement has cost that began then, and notes where a shard does not see it as it is described.
    fn note_route(&mut self, plan: &ShardedPlan, kind: RouteKind, started: Instant, done: &Result<Executed>) {
        self.note_taken(plan, kind, clock::monotonic().duration_since(started), done);
    }

    /// The same of one that took so long.
    fn note_taken(&mut self, plan: &ShardedPlan, kind: RouteKind, taken: Duration, done: &Result<Executed>) {
        if let Err(error) = done
            && kind != RouteKind::Engine
            && OTHERWISE.contains(&error.sqlstate())
        {
            plan.outdate();
        }
        let counters = match plan.known_counters(kind) {
            Some(counters) => counters,
            None => match self.shared.engine.catalog().fleet() {
                Ok(fleet) => plan.counters(fleet.routes(), kind),
                Err(_) => return,
            },
        };
        self.route = Some(kind);
        counters.note(taken, done.as_ref().ok().map(rows_of));
    }

    async fn run_routed<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        (statement, plan): (&Arc<ashlar_query::Statement>, &ShardedPlan),
        rows_max: usize,
        sink: &mut S,
        describe: bool,
        kind: &mut RouteKind,
    ) -> Result<Executed> {
        // It is run once: more of its rows are asked for by its portal.
        let raw = portal.raw.take();
        if !describe && raw.is_none() {
            return Err(Error::unsupported("EXECUTE of a statement on sharded tables is not supported")
                .with_hint("Prepare it by the protocol, as drivers do, or run it as it is."));
        }
        let declared: Vec<u32> = portal.source.as_ref().map_or_else(Vec::new, |source| source.declared.clone());
        let types: Vec<u32> = plan.described().map_or_else(|| declared.clone(), |(types, _)| types.to_vec());
        let expected = if describe { None } else { plan.expected() };
        let values: Vec<ValueOf<'_>> = raw.as_ref().map_or_else(Vec::new, |raw| raw.iter().collect());
        let given = parameters(&values, &types);
        let preferred = self.remotes.first().map(|remote| Arc::clone(&remote.server));
        let keys = self.generated_keys(plan).await?;
        let make = |generator| match &keys {
            Some(keys) => keys.make(generator),
            None => Err(Error::internal("a key is made that nobody has asked for")),
        };
        let request = Request {
            parameters: &given,
            preferred: preferred.as_deref(),
            style: *self.style(),
            generate: Some(&make),
        };
        if self.settings.refuses_keyless {
            plan.route.check_key(&request)?;
        }
        let sent = portal.sent.take();
        let decision = match &sent {
            Some(sent) => Ok(Decision::Forward(sent.forward())),
            None => plan.route.decide(&request),
        };
        if let Err(error) = &decision
            && plan.is_computed_here(error)
        {
            *kind = RouteKind::Engine;
            return Box::pin(self.run_by_engine(portal, statement, (&types, &values), rows_max, sink, describe)).await;
        }
        let decision = decision?;
        let is_write = plan.route.is_write();
        let Some(forward) = self.forwarded(plan, &decision) else {
            if sent.is_some() {
                return Err(Error::internal("the plan of another text was to be run by the engine"));
            }
            if is_write {
                return Err(Error::unsupported("locking rows of several shards is not supported")
                    .with_hint("Name the sharding key, so that one shard has all of the rows."));
            }
            if let Decision::Forward(forward) = &decision
                && is_gathered(&decision)
            {
                let several = Several {
                    forward,
                    parts: &[],
                    values: &values,
                    declared: &types,
                    types: &types,
                    expected,
                    has_rows: true,
                    rows_max,
                    describe,
                };
                *kind = RouteKind::Shards;
                if let Some(executed) = self.gather_by_server(portal, plan, &several, sink).await? {
                    return Ok(executed);
                }
            }
            *kind = RouteKind::Engine;
            return Box::pin(self.run_by_engine(portal, statement, (&types, &values), rows_max, sink, describe)).await;
        };
        if is_write {
            self.check_one_snapshot(forward)?;
        }
        let has_rows = plan.route.has_rows();
        let several = Several {
            forward,
            parts: &[],
            values: &values,
            declared: &declared,
            types: &types,
            expected,
            has_rows,
            rows_max,
            describe,
        };
        if !is_one_shard(&decision) {
            *kind = RouteKind::Shards;
            self.check_remote_write(words_of_sharded(plan))?;
            return Box::pin(self.run_several(portal, &several, sink)).await;
        }
        self.run_one(portal, plan, &several, sink).await
    }

    /// The keys of the rows to be inserted, if the statement leaves them to their table's generator.
    async fn generated_keys(&self, plan: &ShardedPlan) -> Result<Option<Keys>> {
        match plan.route.generator() {
            Some(generator) => Ok(Some(Box::pin(self.keys(&plan.route.tables()[0].rule, generator)).await?)),
            None => Ok(None),
        }
    }

    /// What is forwarded to shards as it is: a statement for one shard, and every write. `None`: rows are merged here or by the engine.
    fn forwarded<'d, 'r>(&self, plan: &ShardedPlan, decision: &'d Decision<'r>) -> Option<&'d Forward<'r>> {
        match decision {
            Decision::Forward(forward) if is_one_shard(decision) => {
                Some(forward).filter(|forward| !self.is_read_elsewhere(plan, forward.statements[0].server))
            }
            Decision::Forward(forward) if plan.route.is_write() => Some(forward),
            _ => None,
        }
    }

    /// Merges the rows of several shards, and asks those of one server in one statement. `None`: the engine has to merge them.
    async fn gather_by_server<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        plan: &ShardedPlan,
        several: &Several<'_>,
        sink: &mut S,
    ) -> Result<Option<Executed>> {
        let joined = several.forward.by_server();
        let several = match &joined {
            Some(joined) => Several { forward: joined, parts: several.forward.statements.as_slice(), ..*several },
            None => *several,
        };
        Box::pin(self.gather(portal, plan, &several, sink)).await
    }

    /// 0A000 where a REPEATABLE READ transaction would write to several shards of which it has no common snapshot.
    fn check_one_snapshot(&mut self, forward: &Forward<'_>) -> Result<()> {
        let is_known = |server: &str| self.remotes.iter().any(|remote| *remote.server == *server);
        let others = forward.statements.iter().any(|sent| !is_known(sent.server));
        let is_second = forward.statements.len() > 1 || !self.remotes.is_empty();
        if others && is_second && self.isolation() == Isolation::RepeatableRead && self.common().is_none() {
            return Err(Error::unsupported(
                "writing to several shards at isolation level REPEATABLE READ is not supported",
            )
            .with_hint("Begin the transaction with this statement, or after SET sharded_reads = 'snapshot'."));
        }
        Ok(())
    }

    /// Runs a statement that one shard answers: on a connection of the pool, or on the transaction's own.
    async fn run_one<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        plan: &ShardedPlan,
        several: &Several<'_>,
        sink: &mut S,
    ) -> Result<Executed> {
        let Several { forward, rows_max, describe, .. } = *several;
        let is_write = plan.route.is_write();
        let sent = &forward.statements[0];
        let (own, types) = several.own(sent);
        let expected = several.expected_of(sent, &types);
        if is_write {
            self.check_write_of(plan)?;
        }
        self.check_moment_of(sent.server, is_write)?;
        let name = if rows_max == 0 { String::new() } else { format!("p{}", portal.number) };
        let is_direct = self.is_direct() && self.isolation() != Isolation::RepeatableRead;
        let formats = Arc::clone(&portal.formats);
        let is_as_sent = matches!(sent.text, Cow::Borrowed(_));
        let mut sending = Sending {
            text: &sent.text,
            is_kept: is_kept(sent, is_write),
            types: &types,
            extended: (!describe).then_some((own.as_slice(), formats.as_ref())),
            expected: expected.as_ref(),
            portal: if is_direct { "" } else { &name },
            rows_max,
        };
        let ended = if is_direct {
            let mut lease =
                if is_write { self.lend(sent.server).await? } else { self.lend_to_read(sent.server).await? };
            if let Some(expected) = sending.expected.filter(|_| is_write) {
                // Nothing takes back what it would have changed.
                let checked = lease.check((sending.text, sending.is_kept), sending.types, expected);
                stoppable(checked, &self.cancel).await.map_err(|error| placed(error, is_as_sent))?;
                // A text that will not come again is not known by now all the same.
                sending.expected = sending.expected.filter(|_| sending.is_kept);
            }
            sending.queue(&mut lease);
            self.on_lent(&mut lease, is_write, sink).await
        } else {
            let place = self.begin_remote(sent.server).await?;
            self.on_remote(place, is_write, &mut Forwarding(sink), |lease| sending.queue(lease)).await
        };
        let ended = ended.map_err(|error| placed(error, is_as_sent))?;
        Ok(ended_as(ended, portal, &name, sent.server))
    }

    /// Runs a statement that writes to several shards: on one after the other, in the transaction's connections to them. They commit
    /// as one.
    async fn run_several<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        several: &Several<'_>,
        sink: &mut S,
    ) -> Result<Executed> {
        let Several { forward, has_rows, rows_max, describe, .. } = *several;
        let (is_identical, order) = match &forward.merge {
            Merge::Count | Merge::Concat | Merge::Pass => (false, None),
            Merge::Identical => (true, None),
            Merge::Interleave(order) => (false, Some(order)),
            Merge::Rows(gathering) => return Box::pin(self.lock_in_order(portal, several, gathering, sink)).await,
        };
        let mut kept: Option<Kept> = order.map(|_| Kept::new(self.shared.engine.store().reservation()));
        if has_rows && rows_max > 0 {
            return Err(Error::unsupported(
                "a row limit for a statement that writes to several shards is not supported",
            ));
        }
        // What is kept is not passed on before all shards have answered.
        let is_passed_on = has_rows && kept.is_none();
        let mut told = if is_passed_on { self.compare_shards(several).await? } else { None };
        let formats = Arc::clone(&portal.formats);
        let mut tags: Vec<CommandTag> = Vec::new();
        for sent in &forward.statements {
            let (own, types) = several.own(sent);
            let is_first = tags.is_empty();
            // In the simple protocol the first tells the client of the columns that all have.
            let expected = match describe {
                true => told.clone().filter(|_| !is_first),
                false => several.expected_of(sent, &types),
            };
            let sending = Sending {
                text: &sent.text,
                is_kept: is_kept(sent, true),
                types: &types,
                extended: (!describe).then_some((own.as_slice(), formats.as_ref())),
                expected: expected.as_ref(),
                portal: "",
                rows_max: 0,
            };
            let place = self.begin_remote(sent.server).await?;
            let ended = if let Some(kept) = &mut kept {
                kept.next();
                let mut taker = gather::Keeping { kept, sink, is_first };
                self.on_remote(place, true, &mut taker, |lease| sending.queue(lease)).await
            } else if is_first || !is_identical {
                self.on_remote(place, true, &mut Forwarding(sink), |lease| sending.queue(lease)).await
            } else {
                self.on_remote(place, true, &mut Nothing, |lease| sending.queue(lease)).await
            };
            let ended = ended.map_err(|error| placed(error, matches!(sent.text, Cow::Borrowed(_))))?;
            if let Some(kept) = kept.as_mut().filter(|_| describe && is_first) {
                told = kept.described(sent.server)?.map(Arc::new);
            }
            let Ended::Complete(tag) = ended else {
                return Err(Error::internal("a statement on several shards has not come to its end"));
            };
            tags.push(tag);
        }
        if let (Some(kept), Some(order)) = (kept, order) {
            let order: Vec<u32> = order.iter().map(|statement| u32::from(*statement)).collect();
            kept.send(&order, sink).await?;
        }
        if is_identical && tags.iter().any(|tag| *tag != tags[0]) {
            return Err(Error::new(
                ErrorCode::InternalError,
                format!(
                    "copies of a table differ: their servers say {}",
                    tags.iter().map(|tag| &**tag).collect::<Vec<&str>>().join(", ")
                ),
            ));
        }
        let tag = if is_identical { tags.swap_remove(0) } else { sum_of(&tags)? };
        Ok(ended_as(Ended::Complete(tag), portal, "", ""))
    }

    /// More of a portal that has stopped at its limit.
    pub(super) async fn run_remote_on<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let Progress::Remote { server, portal: name } = &portal.progress else {
            return Err(Error::internal("a portal is elsewhere"));
        };
        let (server, name) = (Arc::clone(server), name.clone());
        let rows_max = i32::try_from(rows_max).unwrap_or(0);
        let place = self.remotes.iter().position(|remote| remote.server == server).ok_or_else(|| {
            Error::new(ErrorCode::ConnectionFailure, "the transaction has no connection to its shard any more")
        })?;
        self.remotes[place].lease.queue_settings(&self.settings.of_shards);
        let mut taker = Forwarding(sink);
        let ended = self.on_remote(place, false, &mut taker, |lease| lease.queue_more(&name, rows_max)).await?;
        Ok(ended_as(ended, portal, &name, &server))
    }

    /// A statement about shards as the engine runs it.
    pub(super) async fn plan_for_engine(
        &self,
        statement: &Arc<ashlar_query::Statement>,
        types: &[u32],
    ) -> Result<Arc<ashlar_query::Statement>> {
        let engine = self.engine()?;
        let catalog = self.catalog().seen_by(self.identity());
        let (own, types) = (Arc::clone(statement), types.to_vec());
        self.beside_pool(move || match &own.kind {
            Kind::Sharded(plan) => plan.by_engine(&engine, &catalog, &types),
            _ => Err(Error::internal("this is not about shards")),
        })
        .await?
    }

    /// Runs a statement that more than one shard has to be asked for.
    async fn run_by_engine<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        (types, values): (&[u32], &[ValueOf<'_>]),
        rows_max: usize,
        sink: &mut S,
        describe: bool,
    ) -> Result<Executed> {
        let planned = self.plan_for_engine(statement, types).await?;
        let told = |columns: Option<&Arc<[ashlar_query::Column]>>| {
            columns.map(|columns| {
                columns.iter().map(|column| (column.name.clone(), column.oid)).collect::<Vec<(String, u32)>>()
            })
        };
        if let Kind::Sharded(plan) = &statement.kind
            && !describe
            && let Some((_, columns)) = plan.described()
            && told(columns.as_ref()) != told(planned.columns.as_ref())
        {
            return Err(Error::unsupported("this query over several shards has columns of other types than on one")
                .with_hint("Cast its columns to the types that are wanted."));
        }
        // It keeps the charge for what it was bound with; what is charged here is for the engine's plan and its values.
        portal.pay_for(planned.bytes())?;
        let mut charges = Charges::of_portal(self.shared.engine.store(), portal.has_name());
        let (values, given) =
            read_parameters(&planned.parameter_types, values.iter().copied(), self.style(), &mut charges)?;
        let held = charges.finish()?;
        if given != planned.parameter_types.len() {
            return Err(Error::new(ErrorCode::UndefinedParameter, "there is no parameter with such a number"));
        }
        let mut inner = Portal::new(planned, values, Arc::clone(&portal.formats));
        (inner.source, inner.held, inner.number) = (portal.source.clone(), held, portal.number);
        let executed = Box::pin(self.run(&mut inner, rows_max, sink, describe)).await?;
        inner.own = portal.own.take();
        *portal = inner;
        Ok(executed)
    }
}

/// Bind of a statement about shards, which the client calls `name`, to an empty portal: its values stay what they are. `spare` is the memory
/// of others.
///
/// # Errors
/// 08P01 for a wrong number of values or formats; 53200.
pub(super) fn bind<'a>(
    portal: &mut Portal,
    spare: &mut Option<RawParameters>,
    mut charges: Charges<'_>,
    (name, prepared): (&str, &mut Prepared),
    parameters: impl Iterator<Item = ValueOf<'a>>,
    result_formats: &[ValueFormat],
) -> Result<()> {
    let not_sharded = || Error::internal("this is not about shards");
    let planned = prepared.planned.as_ref().ok_or_else(not_sharded)?;
    let Kind::Sharded(plan) = &planned.kind else { return Err(not_sharded()) };
    let (types, columns) = plan.described().ok_or_else(|| Error::internal("a shard has not been asked"))?;
    let mut raw = spare.take().unwrap_or_default();
    for (format, value) in parameters {
        charges.add(size_of::<(ValueFormat, Option<Range<usize>>)>() + value.map_or(0, <[u8]>::len))?;
        let range = match value {
            Some(value) => {
                let start = raw.bytes.len();
                raw.bytes.extend_from_slice(value);
                Some(start..raw.bytes.len())
            }
            None => None,
        };
        raw.values.push((format, range));
    }
    if raw.values.len() != types.len() {
        return Err(Error::new(
            ErrorCode::ProtocolViolation,
            format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                raw.values.len(),
                types.len()
            ),
        ));
    }
    let columns = columns.as_ref().map_or(0, |columns| columns.len());
    let (planned, source) = (Arc::clone(planned), Arc::clone(&prepared.source));
    portal.formats = prepared.formats_for(columns, result_formats)?;
    (portal.statement, portal.source) = (Some(planned), Some(source));
    (portal.held, portal.raw) = (charges.finish()?, Some(raw));
    Ok(())
}

/// An error of a shard, whose place in the statement is one in the client's own text.
fn placed(error: Error, is_as_sent: bool) -> Error {
    if is_as_sent { error } else { error.nowhere() }
}

/// Notes how far a portal has come, which a shard may know by a name.
fn ended_as(ended: Ended, portal: &mut Portal, name: &str, server: &str) -> Executed {
    // Where rows come back it may be run again, for none.
    let has_rows = portal.statement.as_ref().is_some_and(|statement| match &statement.kind {
        Kind::Sharded(plan) => plan.route.has_rows(),
        _ => statement.columns.is_some(),
    });
    let progress = &mut portal.progress;
    match ended {
        Ended::Complete(tag) => {
            let counted = match tag.first_word() {
                _ if !has_rows => None,
                b"SELECT" => Some(Tag::Counted("SELECT")),
                b"UPDATE" => Some(Tag::Counted("UPDATE")),
                b"DELETE" => Some(Tag::Counted("DELETE")),
                b"INSERT" => Some(Tag::Counted("INSERT 0")),
                _ => None,
            };
            *progress = counted.map_or(Progress::Done, Progress::Ended);
            Executed::Complete(tag)
        }
        Ended::Suspended if name.is_empty() => {
            *progress = Progress::Done;
            Executed::Suspended
        }
        Ended::Suspended => {
            *progress = Progress::Remote { server: Arc::from(server), portal: name.to_owned() };
            Executed::Suspended
        }
        Ended::Empty => {
            *progress = Progress::Done;
            Executed::Empty
        }
    }
}

/// The rows that a statement has given or changed, as its tag says.
fn rows_of(executed: &Executed) -> u64 {
    match executed {
        Executed::Complete(tag) => tag.count().unwrap_or(0),
        Executed::Empty | Executed::Suspended | Executed::CopyIn { .. } => 0,
    }
}

/// The tag of a statement that several shards have carried out: its rows are theirs together.
fn sum_of(tags: &[CommandTag]) -> Result<CommandTag> {
    let mut rows = 0u64;
    for tag in tags {
        rows += tag.count().ok_or_else(|| Error::internal("a shard has not said how many rows it has changed"))?;
    }
    let words = tags.first().and_then(|tag| tag.rsplit_once(' ')).map_or("", |(words, _)| words);
    Ok(CommandTag::counted(words, rows))
}

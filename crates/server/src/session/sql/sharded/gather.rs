//! Merges the answers of several shards without the engine: concatenated, sorted, limited or aggregated.
//!
//! All shards are asked at once, each on a connection of its own. Rows that are not needed yet stay in the shard's
//! socket, so little more than one row of each is held here, or a block of each where one of them has to say the order
//! of texts (`ranked`). No row is passed on before all shards are known to answer with the same columns. Called by
//! `run_sharded`, for statements that only read and do not need a transaction's own connections; and by `run_several`
//! and `spread`, for the rows returned by an INSERT.

mod ranked;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_protocol::pg::{CommandTag, ValueFormat};
use ashlar_query::sharded::ShardedPlan;
use ashlar_query::transaction::Isolation;
use ashlar_shard::backend::{Described, Ended, Progress, Step, Taker};
use ashlar_shard::merge::{Field, Gathering, Merger, TextOrder};
use ashlar_shard::pool::Lease;
use ashlar_shard::route::{Merge, ShardStatement};
use ashlar_shard::snapshot::Snapshots;
use ashlar_store::Reservation;

use self::ranked::{FIRST_ROWS, PORTAL, Ranker, TextOrders, text_orders};
use super::remotes::answered;
use super::{Executed, Forwarding, Portal, RowSink, Sending, Several, SqlSession, stoppable};
use crate::session::CancelToken;

/// Bytes of rows that are handed on together.
pub(super) const HANDED_BYTES: usize = 8 * 1024;

/// Rows between two turns of the thread's other connections.
const ROWS_PER_TURN: u64 = 1024;

/// Bytes of groups that are put together here; where there are more, the engine does it, which has files for them.
const GROUP_BYTES_MAX: usize = 64 << 20;

/// What the shard that sends its rows in portions is told before them: a portal is there until the end of its transaction.
const BEGIN: &str = "BEGIN";

/// Tag and length of a message.
const HEADER_BYTES: usize = 5;

impl SqlSession {
    /// Runs a SELECT over several shards; `None`, before the client was told anything: the engine has to.
    pub(super) async fn gather<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        plan: &ShardedPlan,
        several: &Several<'_>,
        sink: &mut S,
    ) -> Result<Option<Executed>> {
        let Several { forward, rows_max, .. } = *several;
        // Other connections do not read what the transaction's own have written, or would all be as of one moment.
        if rows_max > 0 || !self.remotes.is_empty() || self.isolation() == Isolation::RepeatableRead {
            return Ok(None);
        }
        // Borrowed in one order by all, so that none holds what another one waits for.
        let mut servers: Vec<&str> = forward.statements.iter().map(|sent| sent.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let mut leases = self.lend_each(&servers).await?;
        let lines: Vec<usize> = forward.statements.iter().map(|sent| line_of(&servers, sent.server)).collect();
        let mut formats: Vec<ValueFormat> = portal.formats.to_vec();
        // What all of them answer with; where nobody knows, it is what the first says.
        let mut expected = several.expected.cloned();
        let (mut merger, mut ranker, mut collations) = (None, None, Vec::new());
        if let Merge::Rows(gathering) = &forward.merge {
            let columns = (&mut formats, &mut expected);
            let connections = (servers.as_slice(), leases.as_mut_slice());
            let Some(made) = self.row_merger(plan, several, gathering, connections, columns).await? else {
                return Ok(None);
            };
            ranker = made.merger.is_ranked().then(|| Ranker::new(forward.statements.len()));
            (merger, collations) = (Some((made.merger, gathering.merge.hidden)), made.collations);
        }
        let ranked = ranker.as_ref().map(|ranker| ranker.at);
        let collations = collations.as_slice();
        let mut asked = Asked { several, formats: &formats, lines: &lines, plan, expected, collations, ranked };
        stoppable(asked.check_later(&mut leases), &self.cancel).await?;
        let snapshots = self.common_snapshots(&servers, &mut leases).await?;
        let in_portions = ranked.map(|at| lines[at]);
        if let (Some(line), None) = (in_portions, &snapshots) {
            leases[line].queue_query(BEGIN);
        }
        let held = self.shared.engine.store().reservation();
        let cancel = self.cancel.clone();
        let mut ended = match &mut merger {
            Some((merger, hidden)) => tokio::select! {
                biased;
                ended = asked.merge(&mut leases, (merger, ranker.as_mut()), *hidden, held, sink) => ended,
                () = cancel.cancelled() => Err(cancel.error()),
            },
            None => asked.follow(&mut leases, sink, &cancel).await.map(Some),
        };
        if let (Some(line), None, Ok(Some(_))) = (in_portions, &snapshots, &ended)
            && let Err(error) = stoppable(leases[line].run("COMMIT"), &cancel).await
        {
            ended = Err(error);
        }
        if ended.is_err() && cancel.is_cancelled() {
            // Whoever stopped it finds it stopped on the shards.
            for lease in &mut leases {
                if !lease.canceller().cancel().await {
                    lease.doubt();
                }
            }
        }
        for (line, mut lease) in leases.into_iter().enumerate() {
            self.pass_notices(lease.take_notices());
            if snapshots.is_some() || in_portions == Some(line) {
                lease.abandon();
            }
        }
        // What the shards are still at is stopped with their connections.
        Ok(ended?.map(|ended| super::ended_as(ended, portal, "", "")))
    }

    /// Borrows a connection to each of these servers, in this order.
    async fn lend_each(&mut self, servers: &[&str]) -> Result<Vec<Lease>> {
        let mut leases: Vec<Lease> = Vec::with_capacity(servers.len());
        for server in servers {
            // A moment is one of servers that write.
            let lent = match self.settings.sharded_snapshots {
                true => self.lend(server).await,
                false => self.lend_to_read(server).await,
            };
            leases.push(lent?);
        }
        Ok(leases)
    }

    /// Takes snapshots of one moment on all of these servers, and begins to read them, if the session wants that.
    async fn common_snapshots(&mut self, servers: &[&str], leases: &mut [Lease]) -> Result<Option<Snapshots>> {
        if !self.settings.sharded_snapshots {
            return Ok(None);
        }
        let (fleet, pool) = self.pool()?;
        let taken = Snapshots::take(&fleet, &pool, &self.role, servers);
        let taken = stoppable(taken, &self.cancel).await?;
        leases.iter_mut().zip(servers).try_for_each(|(lease, server)| taken.begin(server, lease))?;
        Ok(Some(taken))
    }

    /// Makes the merger of the shards' rows; `None` if the engine has to merge them.
    /// The formats of these columns, and what the shards answer with if that matters, are put into `formats` and `expected`.
    async fn row_merger(
        &self,
        plan: &ShardedPlan,
        several: &Several<'_>,
        gathering: &Gathering<'_>,
        (servers, leases): (&[&str], &mut [Lease]),
        (formats, expected): (&mut Vec<ValueFormat>, &mut Option<Arc<Described>>),
    ) -> Result<Option<Made>> {
        let statements = &several.forward.statements;
        let merge = gathering.merge;
        let mut fields = Vec::new();
        // Columns of several shards of a server are counted in one statement: each has to have the same ones.
        let is_counted = !several.parts.is_empty();
        if !(merge.keys.is_empty() && merge.aggregates.is_empty()) || is_counted {
            let first = &statements[0];
            let gathered = self.gathered(plan, several, &mut leases[line_of(servers, first.server)]).await?;
            if let Some(told) = expected.as_ref() {
                told.check_shown(first.server, &gathered, merge.hidden)?;
            }
            formats.resize(formats.len() + merge.hidden, ValueFormat::Text);
            let is_binary = |at: usize| !several.describe && formats.get(at) == Some(&ValueFormat::Binary);
            let columns = gathered.columns.iter().flatten().enumerate();
            fields.extend(columns.map(|(at, column)| Field { oid: column.oid, is_binary: is_binary(at) }));
            for part in several.parts {
                let lease = &mut leases[line_of(servers, part.server)];
                let (_, types) = several.own(part);
                let checked = lease.check((&part.text, true), &types, &gathered);
                stoppable(checked, &self.cancel).await.map_err(|error| own_place(error, plan, part))?;
            }
            if gathered.has_own_types() && !self.has_one_type(plan, several, servers, leases).await? {
                return Ok(None);
            }
            *expected = Some(gathered);
        }
        let is_c_collated = leases.iter().all(|lease| lease.is_c_collated());
        let is_named = !merge.text_columns(&fields, true).is_empty() && names_a_collation(plan.text());
        let columns = merge.text_columns(&fields, is_named);
        let is_sole = statements.len() == 1;
        let told = match columns.is_empty() || (is_c_collated && !is_named) {
            true => TextOrders::default(),
            // The rows of one statement come in their order, and are compared for ties and groups only.
            false if is_sole && !merge.has_ties && merge.aggregates.is_empty() => {
                let orders = columns.iter().map(|column| (*column, TextOrder::Bytes)).collect();
                TextOrders { orders, ..TextOrders::default() }
            }
            false => {
                let asked = text_orders(several, &columns, fields.len(), (servers, leases));
                stoppable(asked, &self.cancel).await?
            }
        };
        match Merger::ordered(gathering, &fields, statements.len(), is_c_collated, &told.orders) {
            Ok(merger) => Ok(Some(Made { merger, collations: told.collations })),
            Err(error) if error.code() == ErrorCode::FeatureNotSupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What shards answer with where their rows are put together: the first of them is asked, once for a plan.
    async fn gathered(&self, plan: &ShardedPlan, several: &Several<'_>, lease: &mut Lease) -> Result<Arc<Described>> {
        if let Some(known) = plan.gathered() {
            return Ok(Arc::clone(known));
        }
        let first = &several.forward.statements[0];
        // One shard's own: whether they can be asked in one statement is seen when it is known what each of them says.
        let first = several.parts.iter().find(|part| part.server == first.server).unwrap_or(first);
        let (_, types) = several.own(first);
        let described = stoppable(lease.describe(&first.text, &types), &self.cancel).await;
        let described = Arc::new(described.map_err(|error| own_place(error, plan, first))?);
        plan.describe_gathered(&described);
        Ok(described)
    }

    /// Whether the shards of each server that are asked together answer with the same types. A row of one of their tables is of another type
    /// than a row of the next, and both are no column of one statement (42846).
    async fn has_one_type(
        &self,
        plan: &ShardedPlan,
        several: &Several<'_>,
        servers: &[&str],
        leases: &mut [Lease],
    ) -> Result<bool> {
        let mut known: Vec<Option<Vec<u32>>> = vec![None; servers.len()];
        for part in several.parts {
            let line = line_of(servers, part.server);
            let (_, types) = several.own(part);
            let described = stoppable(leases[line].describe(&part.text, &types), &self.cancel).await;
            let described = described.map_err(|error| own_place(error, plan, part))?;
            let found: Vec<u32> = described.columns.iter().flatten().map(|column| column.oid).collect();
            match &known[line] {
                Some(first) if *first != found => return Ok(false),
                Some(_) => {}
                None => known[line] = Some(found),
            }
        }
        Ok(true)
    }
}

/// A merger, and the collations by which its texts are ranked.
struct Made {
    merger: Merger,
    collations: Vec<String>,
}

/// Whether a text may say in which order texts are.
pub(super) fn names_a_collation(text: &str) -> bool {
    const WORD: &[u8] = b"collate";
    text.as_bytes().windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD))
}

/// The place of the connection to a server among those of these servers.
fn line_of(servers: &[&str], server: &str) -> usize {
    servers.iter().position(|known| *known == server).unwrap_or(0)
}

/// A SELECT on its way to several shards.
struct Asked<'a> {
    several: &'a Several<'a>,
    /// Of the shards' columns.
    formats: &'a [ValueFormat],
    /// By statement: which connection it runs on.
    lines: &'a [usize],
    plan: &'a ShardedPlan,
    /// What all answer with, where that is known.
    expected: Option<Arc<Described>>,
    /// Those by which texts are ranked, as the shard of the last statement knows them.
    collations: &'a [String],
    /// The statement that is asked for its rows in portions.
    ranked: Option<usize>,
}

impl Asked<'_> {
    /// Whether a statement is the first of its connection.
    fn is_first(&self, at: usize) -> bool {
        !self.lines[..at].contains(&self.lines[at])
    }

    /// Whether a statement is run by the simple protocol. Those that have to wait for their connection never are: a shard runs a prepared
    /// one as what it was when it was looked at, or refuses to.
    fn is_simple(&self, at: usize) -> bool {
        self.several.describe && self.is_first(at) && self.ranked != Some(at)
    }

    /// Makes sure that shards whose turn on their connection comes later answer with the same columns, while no row is there yet.
    async fn check_later(&mut self, leases: &mut [Lease]) -> Result<()> {
        for at in 0..self.lines.len() {
            if self.is_first(at) {
                continue;
            }
            let statements = &self.several.forward.statements;
            let expected = match &self.expected {
                Some(expected) => Arc::clone(expected),
                None => {
                    let (_, types) = self.several.own(&statements[0]);
                    let described = leases[self.lines[0]].describe(&statements[0].text, &types).await;
                    Arc::new(described.map_err(|error| self.placed(error, 0))?)
                }
            };
            let (_, types) = self.several.own(&statements[at]);
            let checked = leases[self.lines[at]].check((&statements[at].text, true), &types, &expected).await;
            checked.map_err(|error| self.placed(error, at))?;
            self.expected = Some(expected);
        }
        Ok(())
    }

    /// Sends a statement without waiting for anything but that it is sent.
    async fn send(&self, at: usize, leases: &mut [Lease]) -> Result<()> {
        let sent = &self.several.forward.statements[at];
        let (own, types) = self.several.own(sent);
        let is_simple = self.is_simple(at);
        let (portal, rows_max) = if self.ranked == Some(at) { (PORTAL, FIRST_ROWS) } else { ("", 0) };
        // Beside the simple protocol of the others, all values are texts.
        let is_text = self.several.describe && self.ranked == Some(at);
        let formats = if is_text { &[][..] } else { self.formats };
        let sending = Sending {
            text: &sent.text,
            is_kept: true,
            types: &types,
            extended: (!is_simple).then_some((own.as_slice(), formats)),
            // What answers in the simple protocol says what it looks like in any case.
            expected: self.expected.as_ref().filter(|_| !is_simple),
            portal,
            rows_max,
        };
        let lease = &mut leases[self.lines[at]];
        sending.queue(lease);
        lease.flush().await
    }

    /// Waits until all shards that have been asked have said that their rows have the columns of all, or, where that is known, that they run
    /// the statement as what it was.
    async fn heads(&self, leases: &mut [Lease], progress: &mut [Progress]) -> Result<Heads> {
        let mut expected = self.expected.clone();
        let mut heads = Heads { description: None, ended: progress.iter().map(|_| None).collect() };
        for (at, progress) in progress.iter_mut().enumerate() {
            if !self.is_first(at) {
                continue;
            }
            let (lease, is_simple) = (&mut leases[self.lines[at]], self.is_simple(at));
            let message = match lease.next_head(progress).await.map_err(|error| self.placed(error, at))? {
                Step::Description(message) => message,
                // The row stays where it is.
                Step::Row(_) if !is_simple => continue,
                Step::End(ended) if !is_simple => {
                    heads.ended[at] = Some(ended);
                    continue;
                }
                Step::Row(_) | Step::End(_) => return Err(broken()),
            };
            // What is prepared has been compared where it was read.
            if is_simple {
                let (server, message) = (self.several.forward.statements[at].server, lease.row(&message));
                match &expected {
                    Some(expected) => expected.check_answer(server, message)?,
                    None => expected = Some(Arc::new(Described::of_answer(server, message)?)),
                }
                if at == 0 {
                    heads.description = Some(message.to_vec());
                }
            }
        }
        Ok(heads)
    }

    fn placed(&self, error: Error, at: usize) -> Error {
        own_place(error, self.plan, &self.several.forward.statements[at])
    }

    /// Asks the first shard of each connection, and waits for what all of them say before their rows.
    async fn begin(&self, leases: &mut [Lease], progress: &mut [Progress]) -> Result<Heads> {
        for at in 0..self.lines.len() {
            if self.is_first(at) {
                self.send(at, leases).await?;
            }
        }
        self.heads(leases, progress).await
    }

    /// One answer after the other, while the shards behind are at work. Where it is to be stopped, a row that was begun comes to its end.
    async fn follow<S: RowSink>(&self, leases: &mut [Lease], sink: &mut S, cancel: &CancelToken) -> Result<Ended> {
        let count = self.lines.len();
        let mut progress: Vec<Progress> = self.lines.iter().map(|_| Progress::default()).collect();
        let mut heads = stoppable(self.begin(leases, &mut progress), cancel).await?;
        if let Some(description) = heads.description {
            sink.forward(&description, 0);
        }
        let mut tags = Vec::with_capacity(count);
        for at in 0..count {
            let lease = &mut leases[self.lines[at]];
            let ended = match heads.ended[at].take() {
                Some(ended) => Ok(ended),
                None => answered(lease, &mut Forwarding(sink), cancel, std::future::pending()).await,
            };
            let Ended::Complete(tag) = ended.map_err(|error| self.placed(error, at))? else {
                return Err(Error::internal("a query on several shards has not come to its end"));
            };
            tags.push(tag);
            // A server with several shards answers for one after the other.
            if let Some(next) = (at + 1..count).find(|next| self.lines[*next] == self.lines[at]) {
                stoppable(self.send(next, leases), cancel).await?;
            }
        }
        super::sum_of(&tags).map(Ended::Complete)
    }

    /// The rows of all in their order, or what they add up to. Every statement has a connection of its own. `None`: what it would
    /// take is more than is done here.
    async fn merge<S: RowSink>(
        &self,
        leases: &mut [Lease],
        (merger, mut ranker): (&mut Merger, Option<&mut Ranker>),
        hidden: usize,
        held: Reservation,
        sink: &mut S,
    ) -> Result<Option<Ended>> {
        for at in 0..self.lines.len() {
            self.send(at, leases).await?;
        }
        let mut progress: Vec<Progress> = self.lines.iter().map(|_| Progress::default()).collect();
        let sources = self.lines.iter().map(|_| Source::default()).collect();
        let mut merging = Merging { merger, sources, held, charged: 0 };
        let heads = self.heads(leases, &mut progress).await?;
        // Kept until there is an answer: until then the engine can still give it.
        let description = heads.description.map(|message| cut(&message, hidden)).transpose()?;
        let mut description = description.unwrap_or_default();
        for at in (0..heads.ended.len()).filter(|at| heads.ended[*at].is_some()) {
            merging.end(at);
        }
        let mut rows = Outgoing::default();
        let mut taken = 0_u64;
        loop {
            while let Some(at) = merging.merger.needs() {
                if let Some(ranker) = &mut ranker {
                    let is_begun = rows.count > 0;
                    if !self.advance(at, ranker, leases, &mut progress, &mut merging, is_begun).await? {
                        return Ok(None);
                    }
                    continue;
                }
                let lease = &mut leases[self.lines[at]];
                match lease.next_step(&mut progress[at]).await.map_err(|error| self.placed(error, at))? {
                    // Each has said it by now.
                    Step::Description(_) => {}
                    Step::Row(row) => {
                        if !merging.take(at, lease.row(&row), rows.count > 0)? {
                            return Ok(None);
                        }
                        lease.consume_row(&row);
                        taken += 1;
                        if taken.is_multiple_of(ROWS_PER_TURN) {
                            tokio::task::yield_now().await;
                        }
                    }
                    Step::End(_) => merging.end(at),
                }
            }
            let next = match self.next(leases, &mut merging).await {
                Err(error) if rows.count == 0 && error.code() == ErrorCode::FeatureNotSupported => return Ok(None),
                next => next?,
            };
            match next {
                Some(body) => {
                    if !description.is_empty() {
                        sink.forward(&std::mem::take(&mut description), 0);
                    }
                    rows.push(&body, sink).await?;
                }
                None if merging.merger.is_done() => break,
                None => {}
            }
        }
        if let Some(ranker) = ranker.filter(|ranker| ranker.is_suspended) {
            // Nothing is on its way: what it has not been asked for goes with its portal.
            merging.sources[ranker.at].is_ended = true;
        }
        self.read_rest(leases, &mut merging.sources, &mut progress).await?;
        if !description.is_empty() {
            sink.forward(&description, 0);
        }
        sink.forward(&rows.messages, rows.waiting);
        sink.ready().await?;
        Ok(Some(Ended::Complete(CommandTag::counted("SELECT", rows.count))))
    }

    /// The next row for the client, where no shard has to say anything before.
    async fn next(&self, leases: &mut [Lease], merging: &mut Merging<'_>) -> Result<Option<Vec<u8>>> {
        while let Some(texts) = merging.merger.wanted_texts(self.collations.len())? {
            self.rank_groups(texts, leases, merging).await.map_err(Error::nowhere)?;
        }
        merging.merger.pop()
    }

    /// Reads what is left of the answers. It is no more than LIMIT lets each shard send: the connection is of use again afterwards.
    async fn read_rest(&self, leases: &mut [Lease], sources: &mut [Source], progress: &mut [Progress]) -> Result<()> {
        for (at, source) in sources.iter_mut().enumerate() {
            let lease = &mut leases[self.lines[at]];
            while !source.is_ended {
                match lease.next_step(&mut progress[at]).await.map_err(|error| self.placed(error, at))? {
                    Step::Description(_) => {}
                    Step::Row(row) => lease.consume_row(&row),
                    Step::End(_) => source.is_ended = true,
                }
            }
        }
        Ok(())
    }
}

/// What shards have said before their first rows.
struct Heads {
    /// How the first one of the simple protocol describes them to its client.
    description: Option<Vec<u8>>,
    /// By statement: how it has ended, where it has no rows.
    ended: Vec<Option<Ended>>,
}

/// A shard whose rows are put together with others'.
#[derive(Default)]
struct Source {
    /// Bytes that its rows may take.
    charged: usize,
    is_ended: bool,
}

/// Rows of shards on their way to the merger, with the memory for what it keeps of them.
struct Merging<'m> {
    merger: &'m mut Merger,
    /// By statement.
    sources: Vec<Source>,
    held: Reservation,
    /// Bytes of groups that `held` pays for.
    charged: usize,
}

impl Merging<'_> {
    /// Takes a row of a statement. `false`: it would take more than is done here. `is_begun`: the client has been sent rows.
    fn take(&mut self, at: usize, row: &[u8], is_begun: bool) -> Result<bool> {
        // As it came, and what of it is compared.
        self.charge(at, 2 * row.len())?;
        match self.merger.push(at, row) {
            // Such a value is not known here.
            Err(error) if !is_begun && error.code() == ErrorCode::FeatureNotSupported => return Ok(false),
            pushed => pushed?,
        }
        let bytes = self.merger.bytes();
        // Of groups that come one after the other little is held, and some may have been given out.
        if bytes > GROUP_BYTES_MAX && !self.merger.is_streaming() {
            return Ok(false);
        }
        if bytes > self.charged {
            self.held.grow(bytes - self.charged)?;
            self.charged = bytes;
        }
        Ok(true)
    }

    /// Rows of a statement take so many bytes.
    fn charge(&mut self, at: usize, bytes: usize) -> Result<()> {
        let source = &mut self.sources[at];
        if bytes > source.charged {
            self.held.grow(bytes - source.charged)?;
            source.charged = bytes;
        }
        Ok(())
    }

    /// A statement has no more rows.
    fn end(&mut self, at: usize) {
        self.sources[at].is_ended = true;
        self.merger.finish(at);
    }
}

/// Rows on their way to the client: handed on some at a time.
#[derive(Default)]
struct Outgoing {
    messages: Vec<u8>,
    /// Rows in `messages`.
    waiting: u64,
    /// All rows, those that were handed on among them.
    count: u64,
}

impl Outgoing {
    async fn push<S: RowSink>(&mut self, body: &[u8], sink: &mut S) -> Result<()> {
        let length = u32::try_from(body.len() + 4).map_err(|_| too_long())?;
        self.messages.push(b'D');
        self.messages.extend_from_slice(&length.to_be_bytes());
        self.messages.extend_from_slice(body);
        (self.waiting, self.count) = (self.waiting + 1, self.count + 1);
        if self.messages.len() >= HANDED_BYTES {
            sink.forward(&self.messages, std::mem::take(&mut self.waiting));
            self.messages.clear();
            self.messages.shrink_to(2 * HANDED_BYTES);
            sink.ready().await?;
        }
        if self.count.is_multiple_of(ROWS_PER_TURN) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// An error whose place is one in the client's text, where the shard has been sent that.
fn own_place(error: Error, plan: &ShardedPlan, sent: &ShardStatement<'_>) -> Error {
    if *sent.text == *plan.text() { error } else { error.nowhere() }
}

fn too_long() -> Error {
    Error::new(ErrorCode::ProgramLimitExceeded, "a row is too long")
}

fn broken() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent what cannot be read")
}

/// A RowDescription without its last columns.
pub(super) fn cut(message: &[u8], hidden: usize) -> Result<Vec<u8>> {
    let body = message.get(HEADER_BYTES..).ok_or_else(broken)?;
    let count = usize::from(u16::from_be_bytes(*body.first_chunk().ok_or_else(broken)?));
    let kept = count.checked_sub(hidden).ok_or_else(broken)?;
    let mut end = 2;
    for _ in 0..kept {
        let rest = body.get(end..).ok_or_else(broken)?;
        // After the name: table, column, type, length, modifier, format.
        end += rest.iter().position(|byte| *byte == 0).ok_or_else(broken)? + 1 + 18;
    }
    let columns = body.get(2..end).ok_or_else(broken)?;
    let mut made = vec![b'T'];
    made.extend_from_slice(&u32::try_from(end + 4).map_err(|_| broken())?.to_be_bytes());
    made.extend_from_slice(&u16::try_from(kept).map_err(|_| broken())?.to_be_bytes());
    made.extend_from_slice(columns);
    Ok(made)
}

/// Rows that an INSERT has given back on several shards, kept until all have: the client gets them in the order of VALUES.
pub(super) struct Kept {
    memory: Reservation,
    /// By statement: messages, and where each of them lies.
    answers: Vec<(Vec<u8>, VecDeque<Range<usize>>)>,
    /// How the first of them describes its rows, where it does.
    description: Vec<u8>,
    failure: Option<Error>,
}

impl Kept {
    pub(super) fn new(memory: Reservation) -> Self {
        Self { memory, answers: Vec::new(), description: Vec::new(), failure: None }
    }

    /// What the first statement's rows look like, if its server has said so.
    pub(super) fn described(&self, server: &str) -> Result<Option<Described>> {
        let is_there = !self.description.is_empty();
        is_there.then(|| Described::of_answer(server, &self.description)).transpose()
    }

    /// What comes now is the next statement's.
    pub(super) fn next(&mut self) {
        self.answers.push((Vec::new(), VecDeque::new()));
    }

    fn keep(&mut self, messages: &[u8], count: u64) -> Result<()> {
        let Some((bytes, places)) = self.answers.last_mut() else { return Ok(()) };
        let rows = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<Range<usize>>());
        // Twice: both grow by doubling.
        self.memory.grow(messages.len().saturating_add(rows).saturating_mul(2))?;
        let mut rest = messages;
        while !rest.is_empty() {
            let length: [u8; 4] = *rest.get(1..).and_then(<[u8]>::first_chunk).ok_or_else(broken)?;
            let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| broken())? + 1;
            let (row, behind) = rest.split_at_checked(length).ok_or_else(broken)?;
            places.push_back(bytes.len()..bytes.len() + length);
            bytes.extend_from_slice(row);
            rest = behind;
        }
        Ok(())
    }

    /// Hands all of them out: the n-th row is the next one of the n-th statement in `order`. Where a shard has left rows out, as
    /// ON CONFLICT DO NOTHING does, nobody knows which: then those of each shard follow one another.
    pub(super) async fn send<S: RowSink>(mut self, order: &[u32], sink: &mut S) -> Result<()> {
        let mut wanted = vec![0_usize; self.answers.len()];
        for statement in order {
            wanted[*statement as usize] += 1;
        }
        let is_whole = self.answers.iter().zip(wanted).all(|((_, places), wanted)| places.len() == wanted);
        if !is_whole {
            for (bytes, places) in &self.answers {
                sink.forward(bytes, places.len() as u64);
                sink.ready().await?;
            }
            return Ok(());
        }
        for statement in order {
            let Some((bytes, places)) = self.answers.get_mut(*statement as usize) else { continue };
            let Some(place) = places.pop_front() else { continue };
            sink.forward(&bytes[place], 1);
            sink.ready().await?;
        }
        Ok(())
    }
}

/// Keeps the rows of a statement, and hands on how the first describes them.
pub(super) struct Keeping<'s, S> {
    pub(super) kept: &'s mut Kept,
    pub(super) sink: &'s mut S,
    pub(super) is_first: bool,
}

impl<S: RowSink> Taker for Keeping<'_, S> {
    fn describe(&mut self, message: &[u8]) {
        if self.is_first {
            self.kept.description = message.to_vec();
            self.sink.forward(message, 0);
        }
    }

    fn rows(&mut self, messages: &[u8], count: u64) {
        if self.kept.failure.is_none() {
            self.kept.failure = self.kept.keep(messages, count).err();
        }
    }

    async fn ready(&mut self) -> Result<()> {
        self.kept.failure.take().map_or(Ok(()), Err)
    }
}

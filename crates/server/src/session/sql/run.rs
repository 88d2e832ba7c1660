//! Executes a portal: one way for each kind of statement. Commands about the session itself are in `commands`.

use std::pin::pin;
use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use ashlar_query::CatalogState;
use ashlar_query::dml::InsertPlan;
use ashlar_query::dml::run::{self as dml, Outcome, Run};
use ashlar_query::key_plan::KeyPlan;
use ashlar_query::select::SelectPlan;
use ashlar_query::sharded::{Homes, OwnRead};
use ashlar_query::statement::{Kind, SessionCommand};
use ashlar_query::transaction::{Isolation, Transaction, TransactionMark};
use ashlar_store::{ReadView, Way};
use tokio::sync::mpsc;

use super::block::aborted;
use super::carried::Carried;
use super::limit::{Limit, in_time};
use super::portal::{Portal, Progress, Tag};
use super::rows::RowSource;
use super::sharded::Queued;
use super::{Block, Executed, RowSink, SqlSession, cannot_run, no_portal};

/// How often a statement outside of a block is tried again after a conflict, before the client is told.
const CONFLICT_RETRIES_MAX: u32 = 20;

/// Rows of a VALUES list that are inserted on the connection's own thread: some tenths of a millisecond.
const INLINE_ROWS_MAX: usize = 256;

impl SqlSession {
    /// Executes a portal, up to `rows_max` rows; 0 for all.
    ///
    /// # Errors
    /// 34000, and errors of running it.
    pub async fn execute<S: RowSink>(&mut self, name: &str, rows_max: usize, sink: &mut S) -> Result<Executed> {
        self.check_cancel()?;
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if portal.is_done() {
            self.portals.insert(name, portal);
            return Err(cannot_run(name));
        }
        self.note_portal(&portal);
        let (limit, watch) = (self.arrive(), self.watch());
        // Futures are made where they stay: who awaits one otherwise copies it.
        let executed = match self.ask_first(limit.is_some(), &mut portal, rows_max) {
            Some(Some(queued)) => pin!(self.answer_at_once(&mut portal, queued, sink)).await,
            Some(None) => pin!(self.run_asked(&mut portal, rows_max, sink, false)).await,
            None => pin!(self.run_in_time(limit, &mut portal, rows_max, sink)).await,
        };
        self.tell_slow(watch, portal.statement.as_deref().map(|planned| (planned, None)), executed.is_ok());
        let executed = self.done(executed);
        // What is refused because the block has failed has not failed itself.
        if executed.is_err() && self.block != Block::Failed {
            portal.progress = Progress::Done;
        }
        // What gives no rows is done once.
        if matches!(executed, Ok(Executed::Complete(_)))
            && portal.is_fresh()
            && portal.statement.as_ref().is_some_and(|statement| statement.columns.is_none())
        {
            portal.progress = Progress::Done;
        }
        // COMMIT and ROLLBACK close all portals, their own too.
        match portal.ends_block() {
            true => self.portals.recycle(portal),
            false => self.portals.insert(name, portal),
        }
        executed
    }

    /// Queues the statement of a portal on the shard that carries it out, before anything is made of what other statements need. `None`: it
    /// is not about shards, or something comes before that; `Some(None)`: it has been asked for, and cannot be.
    fn ask_first(&mut self, has_limit: bool, portal: &mut Portal, rows_max: usize) -> Option<Option<Queued>> {
        let is_plain = !has_limit && self.block != Block::Failed && portal.sharded().is_some();
        (is_plain && portal.is_fresh() && self.is_current(portal)).then(|| self.queue_at_once(portal, rows_max, false))
    }

    /// Runs a portal on, within its time: planned anew where it has to be.
    async fn run_in_time<S: RowSink>(
        &mut self,
        limit: Option<Limit>,
        portal: &mut Portal,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let work = pin!(async {
            if portal.is_fresh() && !self.is_current(portal) {
                Box::pin(self.refresh(portal)).await?;
            }
            pin!(self.run(portal, rows_max, sink, false)).await
        });
        in_time(limit, work).await
    }

    /// Runs a portal on. `describe` asks for the columns to be announced: the simple protocol.
    pub(super) async fn run<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        sink: &mut S,
        describe: bool,
    ) -> Result<Executed> {
        let Some(statement) = &portal.statement else { return Ok(Executed::Empty) };
        if self.block == Block::Failed && !ends_failed_block(&statement.kind) {
            return Err(aborted());
        }
        if let Some(queued) = self.queue_at_once(portal, rows_max, describe) {
            return pin!(self.answer_at_once(portal, queued, sink)).await;
        }
        pin!(self.run_asked(portal, rows_max, sink, describe)).await
    }

    /// The same of a portal that cannot be queued at once.
    async fn run_asked<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        sink: &mut S,
        describe: bool,
    ) -> Result<Executed> {
        let Some(statement) = portal.statement.clone() else { return Ok(Executed::Empty) };
        match &portal.progress {
            Progress::Fresh => {}
            Progress::Open(..) => return Box::pin(self.send_rows(portal, &statement, rows_max, sink)).await,
            Progress::Remote { .. } => return Box::pin(self.run_remote_on(portal, rows_max, sink)).await,
            Progress::Ended(tag) => return Ok(Executed::Complete(tag.after(0))),
            Progress::Done => return Err(Error::internal("a portal that is done was run again")),
        }
        if matches!(statement.kind, Kind::Sharded(_)) {
            return Box::pin(self.run_sharded(portal, &statement, rows_max, sink, describe)).await;
        }
        if describe
            && let Some(columns) = self.columns_of(&statement)
            && !matches!(statement.kind, Kind::Copy(_))
        {
            sink.columns(&columns);
        }
        pin!(self.start(portal, &statement, rows_max, sink)).await
    }

    async fn start<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        self.check_moment(statement)?;
        // Boxed is what keeps much across its waits and takes its time anyway: a connection that waits stays small.
        match &statement.kind {
            Kind::Key(_) => self.run_key(portal, statement, rows_max, sink).await,
            Kind::Select(plan) => {
                // A portal with a limit goes on where it stopped: it needs rows that wait.
                if rows_max == 0
                    && let Some(count) = match self.run_indexed(plan, portal, statement, sink) {
                        None => self.run_short(plan, portal, statement, sink)?,
                        found => found,
                    }
                {
                    sink.ready().await?;
                    let tag = Tag::Counted("SELECT");
                    portal.progress = Progress::Ended(tag);
                    return Ok(Executed::Complete(tag.after(count)));
                }
                let source = self.query(statement, portal.parameters.clone(), rows_max > 0).await?;
                portal.progress = Progress::Open(source, Tag::Counted("SELECT"));
                self.send_rows(portal, statement, rows_max, sink).await
            }
            Kind::Lock(_) => {
                self.refuse_write(true, &statement.kind)?;
                let outcome = self.run_in_transaction(statement, None, &portal.parameters).await?;
                let rows = RowSource::Values { rows: outcome.rows.into_iter(), _memory: outcome.held };
                self.send_values(portal, statement, rows, Tag::Counted("SELECT"), rows_max, sink).await
            }
            Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) | Kind::WithChanges(_) => {
                let is_direct = self.is_direct();
                let outcome = self.run_dml(statement, &portal.parameters).await?;
                if is_direct {
                    sink.settled();
                }
                let done = match &statement.kind {
                    Kind::WithChanges(plan) => plan.main_kind(),
                    kind => kind,
                };
                let tag = Tag::Counted(match done {
                    Kind::Select(_) | Kind::Lock(_) => "SELECT",
                    Kind::Insert(_) => "INSERT 0",
                    Kind::Update(_) => "UPDATE",
                    _ => "DELETE",
                });
                self.send_outcome(portal, statement, outcome, tag, rows_max, sink).await
            }
            Kind::ShardChange(plan) => {
                let outcome = Box::pin(self.change_shards(statement, &portal.parameters)).await?;
                self.send_outcome(portal, statement, outcome, Tag::Counted(plan.verb()), rows_max, sink).await
            }
            Kind::Spread(_) => Box::pin(self.run_spread(portal, statement, rows_max, sink)).await,
            Kind::Ddl(statement) => {
                portal.progress = Progress::Done;
                Box::pin(self.run_ddl(statement)).await
            }
            Kind::Copy(_) => {
                portal.progress = Progress::Done;
                Box::pin(self.run_copy(statement, sink)).await
            }
            Kind::Explain { inner, options, because } => {
                let mut lines = match &inner.kind {
                    Kind::Session(SessionCommand::Execute { name, arguments }) => {
                        let prepared = Box::pin(self.bound(name, arguments, &portal.formats, false)).await?;
                        let Some(inner) = &prepared.statement else { return Ok(Executed::Empty) };
                        let (values, raw) = (&prepared.parameters, prepared.raw.as_ref());
                        Box::pin(self.run_explain(inner, *options, values, raw)).await?
                    }
                    _ => Box::pin(self.run_explain(inner, *options, &portal.parameters, None)).await?,
                };
                // Of what changes rows the first line says what the engine does for the shards.
                let at = usize::from(matches!(inner.kind, Kind::ShardChange(_) | Kind::Spread(_)));
                lines.splice(at..at, because.iter().cloned());
                let rows: Vec<Vec<Value>> = lines.into_iter().map(|line| vec![Value::Text(line.into())]).collect();
                let rows = RowSource::values(rows);
                self.send_values(portal, statement, rows, Tag::Plain("EXPLAIN"), rows_max, sink).await
            }
            Kind::Sharded(_) => Err(Error::internal("a statement about shards does not get here")),
            // Every block begins and ends so: no box is made for these, or one that has room for nothing else.
            Kind::Session(SessionCommand::Begin(modes)) => self.begin(*modes),
            Kind::Session(SessionCommand::Commit) => Box::pin(self.commit_block()).await,
            Kind::Session(SessionCommand::Rollback) => Ok(self.rollback_block()),
            Kind::Session(command) => Box::pin(self.run_command(portal, command, rows_max, sink)).await,
            Kind::Empty => Ok(Executed::Empty),
        }
    }

    /// Sends what comes back of a change.
    async fn send_outcome<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        outcome: Outcome,
        tag: Tag,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        if statement.columns.is_none() {
            portal.progress = Progress::Done;
            return Ok(Executed::Complete(tag.after(outcome.count)));
        }
        let rows = RowSource::Values { rows: outcome.rows.into_iter(), _memory: outcome.held };
        self.send_values(portal, statement, rows, tag, rows_max, sink).await
    }

    /// Answers a query by an index, where its rows are few: how many there were.
    fn run_indexed<S: RowSink>(
        &mut self,
        plan: &SelectPlan,
        portal: &Portal,
        statement: &Arc<ashlar_query::Statement>,
        sink: &mut S,
    ) -> Option<u64> {
        let indexed = plan.indexed.as_ref()?;
        // What the transaction has written is in no index.
        if self.transaction.as_ref().is_some_and(|transaction| !transaction.writes.is_empty()) {
            return None;
        }
        let columns = portal.columns().or_else(|| self.columns_of(statement)).unwrap_or_else(|| Vec::new().into());
        let is_idle = self.alone && self.block == Block::None && self.transaction.is_none();
        let mut transaction = self.take_transaction();
        let snapshot = transaction.snapshot(self.shared.engine.store());
        if !is_idle {
            self.transaction = Some(transaction);
        }
        indexed.run(&snapshot, &portal.parameters, &mut |values| sink.row(&columns, values))
    }

    /// Answers a query that looks at few rows: how many it gave. None: the engine has to run it.
    fn run_short<S: RowSink>(
        &mut self,
        plan: &SelectPlan,
        portal: &Portal,
        statement: &Arc<ashlar_query::Statement>,
        sink: &mut S,
    ) -> Result<Option<u64>> {
        let Some(short) = &plan.short else { return Ok(None) };
        let columns = portal.columns().or_else(|| self.columns_of(statement)).unwrap_or_else(|| Vec::new().into());
        let is_idle = self.alone && self.block == Block::None && self.transaction.is_none();
        let mut transaction = self.take_transaction();
        let snapshot = transaction.snapshot(self.shared.engine.store());
        let view = match short.region() {
            Some(region) => transaction.view_of(snapshot, region),
            None => ReadView::committed(snapshot),
        };
        if !is_idle {
            self.transaction = Some(transaction);
        }
        let Some(rows) = short.run(self.shared.engine.store(), &view, &portal.parameters)? else { return Ok(None) };
        super::rows::put_all(&rows, &columns, sink)?;
        Ok(Some(rows.num_rows() as u64))
    }

    /// Starts a query on the pool, under the transaction's view. What it reads over the transaction's connections to shards has been
    /// read when this returns; and what it sees of all others is settled, where it `stays` while other statements run.
    pub(super) async fn query(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        parameters: Vec<Value>,
        stays: bool,
    ) -> Result<RowSource> {
        let (source, asked) = self.start_query(statement, parameters, stays)?;
        match asked {
            None => Ok(source),
            Some(asked) => Box::pin(self.read_own(source, asked)).await,
        }
    }

    fn start_query(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        parameters: Vec<Value>,
        stays: bool,
    ) -> Result<(RowSource, Option<mpsc::Receiver<OwnRead>>)> {
        let catalog = self.catalog();
        let engine = self.engine()?;
        let is_idle = self.alone && self.block == Block::None && self.transaction.is_none();
        let is_asked = stays || self.isolation() == Isolation::RepeatableRead;
        let homes = select_of(statement).filter(|_| is_asked).map_or_else(Homes::default, Homes::of);
        let common = self.common_of(homes)?;
        let mut transaction = self.take_transaction();
        let snapshot = match &common {
            None => transaction.snapshot(engine.store()),
            // It reads no table of this server: what the transaction sees of these is open.
            Some(_) => engine.store().snapshot(),
        };
        let view = transaction.view(snapshot, &catalog);
        let time = transaction.time;
        if !is_idle {
            self.transaction = Some(transaction);
        }
        let mut resources = self.resources(&engine, time);
        self.settle_moment(&mut resources, common, stays, homes);
        let asked = self.offer_own(&mut resources);
        let source = RowSource::query(&engine, Arc::clone(statement), select_of, parameters, view, resources)?;
        Ok((source, asked))
    }

    async fn send_rows<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let columns = portal.columns().or_else(|| self.columns_of(statement)).unwrap_or_else(|| Vec::new().into());
        let Progress::Open(source, tag) = &mut portal.progress else {
            return Err(Error::internal("a portal without rows was asked for rows"));
        };
        let tag = *tag;
        let (sent, ended) = source.send(&columns, rows_max, sink, &self.cancel).await?;
        if !ended {
            return Ok(Executed::Suspended);
        }
        portal.progress = Progress::Ended(tag);
        Ok(Executed::Complete(tag.after(sent)))
    }

    pub(super) async fn send_values<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        rows: RowSource,
        tag: Tag,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        portal.progress = Progress::Open(rows, tag);
        self.send_rows(portal, statement, rows_max, sink).await
    }

    /// Whether a write may go straight to the store: it is the whole transaction.
    pub(super) fn is_direct(&self) -> bool {
        self.alone
            && self.block == Block::None
            && self.transaction.is_none()
            && !self.has_remote()
            && !self.settings.modes.read_only
    }

    async fn run_key<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let Kind::Key(plan) = &statement.kind else {
            return Err(Error::internal("a key statement has a key plan"));
        };
        let columns = statement.columns.as_deref().unwrap_or_default();
        let is_first = self.block == Block::None && self.transaction.is_none();
        // Others of this transaction may follow, and read what this one did.
        let is_fixed = !self.alone && self.settings.modes.isolation == Isolation::RepeatableRead;
        let reads_latest = plan.is_read() && is_first && !is_fixed;
        let count = if reads_latest || self.is_direct() && plan.locks().is_none() {
            let count = self.key_alone(plan, &portal.parameters, |values| sink.row(columns, values)).await?;
            if !plan.is_read() {
                sink.settled();
            }
            count
        } else {
            self.refuse_write(!plan.is_read(), &statement.kind)?;
            self.key_in_transaction(plan, &portal.parameters, |values| sink.row(columns, values)).await?
        };
        sink.ready().await?;
        let tag = Tag::Counted(plan.verb());
        let sends_rows = statement.columns.is_some();
        portal.progress = if sends_rows { Progress::Ended(tag) } else { Progress::Done };
        let reached_limit = sends_rows && rows_max == 1 && count == 1;
        Ok(if reached_limit { Executed::Suspended } else { Executed::Complete(tag.after(count)) })
    }

    /// Runs a statement about one row by itself: once more after each wait for the row.
    pub(super) async fn key_alone(
        &self,
        plan: &KeyPlan,
        parameters: &[Value],
        mut emit: impl FnMut(&mut dyn Iterator<Item = Datum<'_>>),
    ) -> Result<u64> {
        let mut way = Way::new(self.identity.pid);
        loop {
            match plan.run(&mut way, parameters, &mut emit) {
                Err(_) if way.is_stopped() => Box::pin(self.wait_on(&mut way)).await?,
                done => return done,
            }
        }
    }

    /// The same as a part of a transaction.
    pub(super) async fn key_in_transaction(
        &mut self,
        plan: &KeyPlan,
        parameters: &[Value],
        mut emit: impl FnMut(&mut dyn Iterator<Item = Datum<'_>>),
    ) -> Result<u64> {
        let engine = Arc::clone(&self.shared.engine);
        loop {
            let mut transaction = self.take_transaction();
            let mark = transaction.mark();
            let done = plan.run_in(&engine, &mut transaction, parameters, &mut emit);
            let is_stopped = self.end_attempt(transaction, &mark, done.is_err());
            if !is_stopped {
                return done;
            }
            Box::pin(self.wait_for_locks()).await?;
        }
    }

    pub(super) async fn run_dml(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        parameters: &[Value],
    ) -> Result<Outcome> {
        self.refuse_write(true, &statement.kind)?;
        let inline = match &statement.kind {
            Kind::Insert(plan) if plan.is_inline() && dml::value_rows(plan) <= Some(INLINE_ROWS_MAX) => {
                Some(plan.as_ref())
            }
            _ => None,
        };
        if !self.is_direct() {
            return self.run_in_transaction(statement, inline, parameters).await;
        }
        if let Some(plan) = inline
            && dml::value_rows(plan) == Some(1)
            && plan.is_one_trip()
        {
            let mut way = Way::new(self.identity.pid);
            loop {
                match dml::insert_one(plan, &mut way, parameters, &self.identity.numbers) {
                    Err(_) if way.is_stopped() => Box::pin(self.wait_on(&mut way)).await?,
                    done => return done,
                }
            }
        }
        // The statement is a transaction of its own: a conflict is nobody's business but ours, and nor is a deadlock, which is
        // over once its own locks are gone, if the session keeps no other. At first it locks nothing; after a conflict it locks what it changes, so that
        // nobody is faster once more.
        let mut tries = 0;
        loop {
            let mut transaction = self.fresh_transaction();
            transaction.is_one_statement = true;
            transaction.set_optimistic(tries == 0);
            self.transaction = Some(transaction);
            let outcome = self.run_in_transaction(statement, inline, parameters).await;
            let Some(transaction) = self.transaction.take() else { return Err(outcome.err().unwrap_or_else(lost)) };
            let done = match outcome {
                Ok(outcome) => self.commit(transaction).await.map(|()| outcome),
                Err(error) => Err(error),
            };
            match done {
                Err(error)
                    if (error.code() == ErrorCode::SerializationFailure
                        || error.code() == ErrorCode::DeadlockDetected && self.advisory.is_empty())
                        && tries < CONFLICT_RETRIES_MAX =>
                {
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    /// Runs DML, or a query that locks its rows, as a part of a transaction: once more after each wait for a row.
    pub(super) async fn run_in_transaction(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        inline: Option<&InsertPlan>,
        parameters: &[Value],
    ) -> Result<Outcome> {
        loop {
            let transaction = self.take_transaction();
            let mark = transaction.mark();
            let (transaction, outcome) = match inline {
                Some(plan) => insert_here(self, transaction, plan, parameters),
                None => match self.few_here(transaction, statement, parameters)? {
                    (transaction, Some(outcome)) => (transaction, outcome),
                    (transaction, None) => Box::pin(self.on_pool(transaction, statement, parameters)).await?,
                },
            };
            let is_stopped = self.end_attempt(transaction, &mark, outcome.is_err());
            if !is_stopped {
                return outcome;
            }
            Box::pin(self.wait_for_locks()).await?;
        }
    }

    /// Takes the transaction back from a statement, and undoes what that did if it has failed. True where the statement has
    /// to begin again after a wait: what it has locked stays locked then.
    fn end_attempt(&mut self, mut transaction: Transaction, mark: &TransactionMark, has_failed: bool) -> bool {
        let engine = &self.shared.engine;
        let is_stopped = has_failed && transaction.is_stopped();
        if is_stopped {
            transaction.undo_to(mark, engine.catalog(), engine.store());
        } else if has_failed {
            transaction.rollback_to(mark, engine.catalog(), engine.store());
        }
        self.transaction = Some(transaction);
        is_stopped
    }

    /// Changes few rows where it is called, as operations by key do: locks that are held meanwhile are soon free again. `None`:
    /// the query pool has to do it, and nothing was changed.
    fn few_here(
        &self,
        mut transaction: Transaction,
        statement: &Arc<ashlar_query::Statement>,
        parameters: &[Value],
    ) -> Result<(Transaction, Option<Result<Outcome>>)> {
        let engine = self.engine()?;
        let catalog: Arc<CatalogState> = transaction.catalog(engine.catalog());
        let resources = self.resources_to_write(&engine, &transaction);
        let mut run = Run::new(&engine, &catalog, &mut transaction, parameters, &resources);
        let outcome = run.change_few(&statement.kind).transpose();
        Ok((transaction, outcome))
    }

    /// Runs DML on the query pool, or computes the defaults of a COPY; the transaction goes there and comes back.
    pub(super) async fn on_pool(
        &mut self,
        transaction: Transaction,
        statement: &Arc<ashlar_query::Statement>,
        parameters: &[Value],
    ) -> Result<(Transaction, Result<Outcome>)> {
        let engine = self.engine()?;
        let catalog: Arc<CatalogState> = transaction.catalog(engine.catalog());
        let (statement, parameters) = (Arc::clone(statement), parameters.to_vec());
        let (pool, cancel) = (Arc::clone(&engine), self.cancel.clone());
        let mut resources = self.resources_to_write(&engine, &transaction);
        let _interest = resources.watch();
        let mut carried = Carried::new(transaction, &engine);
        let (carried, outcome) = engine
            .on_pool(async move {
                let Some(transaction) = carried.get() else { return (carried, Err(lost())) };
                let (catalog, parameters, resources) = (&catalog, &parameters, &resources);
                let mut run = Run::new(&pool, catalog, transaction, parameters, resources);
                let work = async {
                    match &statement.kind {
                        Kind::Insert(plan) => run.insert(plan).await,
                        Kind::Update(plan) => run.update(plan).await,
                        Kind::Delete(plan) => run.delete(plan).await,
                        Kind::WithChanges(plan) => run.with_changes(plan).await,
                        Kind::Lock(plan) => run.lock(plan).await,
                        Kind::Copy(plan) => run.copy_defaults(plan).await,
                        _ => Err(Error::internal("only DML runs as DML")),
                    }
                };
                let outcome = tokio::select! {
                    biased;
                    () = cancel.cancelled() => Err(cancel.error()),
                    outcome = work => outcome,
                };
                (carried, outcome)
            })
            .await?;
        Ok((carried.take().ok_or_else(lost)?, outcome))
    }
}

/// XX000: a transaction that went to the pool and is not there.
pub(super) fn lost() -> Error {
    Error::internal("the transaction was lost on the query pool")
}

fn insert_here(
    session: &SqlSession,
    mut transaction: Transaction,
    plan: &InsertPlan,
    parameters: &[Value],
) -> (Transaction, Result<Outcome>) {
    let outcome = dml::insert_inline(&session.shared.engine, &mut transaction, plan, parameters);
    (transaction, outcome)
}

/// The query behind a statement, where it has one.
pub(super) fn select_of(statement: &ashlar_query::Statement) -> Option<&SelectPlan> {
    match &statement.kind {
        Kind::Select(plan) => Some(plan),
        Kind::Lock(plan) => Some(plan.select()),
        Kind::Spread(plan) => plan.select(),
        Kind::Update(plan) => Some(&plan.select),
        Kind::Delete(plan) => Some(&plan.select),
        Kind::ShardChange(plan) => Some(plan.select()),
        Kind::Insert(plan) => match &plan.source {
            ashlar_query::dml::Source::Query(select) => Some(select),
            ashlar_query::dml::Source::Values { .. } => None,
        },
        Kind::Copy(plan) => match plan.as_ref() {
            ashlar_query::copy::CopyPlan::Out { select, .. } => Some(select),
            ashlar_query::copy::CopyPlan::In { .. } | ashlar_query::copy::CopyPlan::Into(_) => None,
        },
        _ => None,
    }
}

pub(super) fn ends_failed_block(kind: &Kind) -> bool {
    use SessionCommand::{Chain, Commit, Rollback, RollbackTo};
    matches!(kind, Kind::Session(Commit | Rollback | Chain { .. } | RollbackTo(_)))
}

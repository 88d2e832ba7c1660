//! UPDATE and DELETE of rows that the engine finds: locked on their shards as they were read, then changed there, over
//! the transaction's connections.
//!
//! Called by `run`. Shards are asked and changed one after the other, as by every statement that writes to several;
//! they commit as one. No shard is told to change anything until all rows are locked, and every shard is known to
//! change exactly what it is told to.

use std::collections::BTreeSet;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, Value};
use ashlar_query::dml::run::Outcome;
use ashlar_query::dml::{Batch, ChangedRows, ShardChangePlan, Step};
use ashlar_query::statement::Kind;
use ashlar_shard::backend::{Ended, Nothing};
use ashlar_shard::route::told_here;
use ashlar_shard::routes::RouteKind;
use ashlar_shard::rules::Shard;
use ashlar_shard::snapshot::Snapshots;
use ashlar_store::Reservation;

use super::super::read_only::words_of;
use super::SqlSession;
use super::remotes::stoppable;

/// How often rows are read and locked before the client is told that others have changed them each time.
const PASSES_MAX: usize = 20;

/// Bytes of a statement besides its rows, and of each of its columns: names, casts, conditions.
const STATEMENT_BYTES: usize = 1024;
const COLUMN_BYTES: usize = 512;

impl SqlSession {
    /// Finds the rows of an UPDATE or a DELETE, and has their shards change them.
    pub(in crate::session::sql) async fn change_shards(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        parameters: &[Value],
    ) -> Result<Outcome> {
        let Kind::ShardChange(plan) = &statement.kind else { return Err(no_change()) };
        self.route = Some(RouteKind::Engine);
        if self.settings.refuses_keyless {
            plan.check_key()?;
        }
        self.check_remote_write(&words_of(&statement.kind))?;
        let mut servers: Vec<&str> = plan.table.routed.rule.shards().iter().map(|shard| &*shard.server).collect();
        servers.dedup();
        self.check_several(&servers)?;
        let rows = self.lock_rows(statement, plan, parameters).await?;
        self.check_tables(plan, &rows).await?;
        let count = self.tell_shards(plan, &rows).await?;
        plan.outcome(rows, self.shared.engine.store(), count)
    }

    /// The rows, each of them locked as it is known here.
    async fn lock_rows(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        plan: &ShardChangePlan,
        parameters: &[Value],
    ) -> Result<ChangedRows> {
        let mut before: Option<ChangedRows> = None;
        let mut closed: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..PASSES_MAX {
            let (own, parameters, before_this) = (Arc::clone(statement), parameters.to_vec(), before.take());
            let found = self.work_with_own(move |engine, view, resources| async move {
                let Kind::ShardChange(plan) = &own.kind else { return Err(no_change()) };
                plan.find(&engine, &parameters, view, &resources, before_this).await
            });
            let mut rows = found.await?;
            // Before any row is locked: who waits for the table has none that another one waits for.
            for number in plan.moving(&rows) {
                if closed.insert(number) {
                    self.close(plan, number).await?;
                }
            }
            for batch in rows.to_lock() {
                self.lock_batch(plan, &mut rows, &batch).await?;
            }
            if !rows.is_again() {
                return Ok(rows);
            }
            // What was read as of one moment is not read as of another one.
            if self.settings.sharded_snapshots {
                return Err(overtaken().with_hint("Try again, or SET sharded_reads = 'each'."));
            }
            if rows.has_gone() {
                self.wait_for_commits(plan).await?;
            }
            before = Some(rows);
        }
        Err(overtaken())
    }

    /// Keeps all others from changing or locking rows of a shard's table until the transaction ends: who waited for a row that goes to
    /// another shard would find it gone, and may have been there before it came.
    async fn close(&mut self, plan: &ShardChangePlan, number: usize) -> Result<()> {
        let shard = &plan.table.routed.rule.shards()[number];
        let place = self.begin_remote(&shard.server).await?;
        let text = plan.closing(shard);
        let ended = self.on_remote(place, false, &mut Nothing, |lease| lease.queue_query(&text)).await;
        // The text is none of the client's.
        ended.map(drop).map_err(Error::nowhere)
    }

    /// Waits until nothing is committed on some shards of the table and only promised on others: a row that has gone with such a transaction
    /// is to be found where that has taken it.
    async fn wait_for_commits(&mut self, plan: &ShardChangePlan) -> Result<()> {
        let (fleet, pool) = self.pool()?;
        let servers: Vec<&str> = plan.table.routed.rule.shards().iter().map(|shard| &*shard.server).collect();
        let taken = Snapshots::take(&fleet, &pool, &self.role, &servers);
        stoppable(taken, &self.cancel).await.map(drop)
    }

    async fn lock_batch(&mut self, plan: &ShardChangePlan, rows: &mut ChangedRows, batch: &Batch) -> Result<()> {
        let _held = self.room_for(plan, batch)?;
        let text = plan.locking(rows, batch);
        let shard = &plan.table.routed.rule.shards()[batch.shard];
        let place = self.begin_remote(&shard.server).await?;
        // A write: from now on the engine reads the shard over this connection, and no other one waits there for who waits for it.
        let answers = self.texts_of(place, true, &text).await?;
        rows.locked(batch, &answers.values, || plan.not_unique(shard))
    }

    /// What a statement about some rows takes, and the message that it is sent in.
    fn room_for(&self, plan: &ShardChangePlan, batch: &Batch) -> Result<Reservation> {
        let mut held = self.shared.engine.store().reservation();
        held.grow(2 * (batch.bytes() + STATEMENT_BYTES + COLUMN_BYTES * plan.table.schema.columns.len()))?;
        Ok(held)
    }

    /// 0A000 where a table of a shard would do something else than it is told.
    async fn check_tables(&mut self, plan: &ShardChangePlan, rows: &ChangedRows) -> Result<()> {
        for (number, is_move) in plan.in_question(rows) {
            let shard = &plan.table.routed.rule.shards()[number];
            let place = self.begin_remote(&shard.server).await?;
            let reasons = self.texts_of(place, false, &plan.question(shard, is_move)).await?;
            if let Some(why) = reasons.values.first() {
                return Err(plan.refusal(shard, is_move, why));
            }
        }
        Ok(())
    }

    /// Has the shards change their rows: how many there were.
    async fn tell_shards(&mut self, plan: &ShardChangePlan, rows: &ChangedRows) -> Result<u64> {
        let shards = plan.table.routed.rule.shards();
        // Before the first is told anything it is known what all are told.
        let steps = Step::ALL.into_iter().map(|step| plan.batches(step, rows).map(|batches| (step, batches)));
        let steps = steps.collect::<Result<Vec<(Step, Vec<Batch>)>>>()?;
        let copies = if plan.is_copied() { shards.len() } else { 1 };
        let mut counted: Option<u64> = None;
        for copy in 0..copies {
            let mut count = 0;
            for (step, batches) in &steps {
                for batch in batches {
                    let shard = &shards[if plan.is_copied() { copy } else { batch.shard }];
                    let changed = self.tell_shard(plan, *step, shard, rows, batch).await?;
                    if plan.is_counted(*step) {
                        count += changed;
                    }
                }
            }
            if *counted.get_or_insert(count) != count {
                return Err(Error::new(
                    ErrorCode::InternalError,
                    format!("copies of a table differ: a server has changed {count} rows, and another one has not"),
                ));
            }
        }
        Ok(counted.unwrap_or(0))
    }

    async fn tell_shard(
        &mut self,
        plan: &ShardChangePlan,
        step: Step,
        shard: &Shard,
        rows: &ChangedRows,
        batch: &Batch,
    ) -> Result<u64> {
        let _held = self.room_for(plan, batch)?;
        let text = plan.text(step, shard, rows, batch);
        let place = self.begin_remote(&shard.server).await?;
        let ended = self.on_remote(place, true, &mut Nothing, |lease| lease.queue_query(&text)).await;
        // The text is none of the client's.
        let tables = std::slice::from_ref(&plan.table.routed);
        let Ended::Complete(tag) = ended.map_err(|error| told_here(error.nowhere(), tables))? else {
            return Err(Error::internal("a statement on several shards has not come to its end"));
        };
        let unknown = || Error::internal("a shard has not said how many rows it has changed");
        let changed = tag.count().ok_or_else(unknown)?;
        let told = batch.count() as u64;
        if changed > told {
            return Err(plan.not_unique(shard));
        }
        if plan.is_exact(step) && changed != told {
            return Err(Error::unsupported(format!(
                "shard \"{}\" has changed {changed} rows of table \"{}\" of {told} that are locked",
                shard.server, plan.table.schema.name
            ))
            .with_hint("Policies of the table there may keep it from changing all rows that it lets be locked."));
        }
        Ok(changed)
    }
}

/// 40001
fn overtaken() -> Error {
    Error::new(ErrorCode::SerializationFailure, "could not serialize access due to concurrent update")
}

fn no_change() -> Error {
    Error::internal("these are no rows of shards to change")
}

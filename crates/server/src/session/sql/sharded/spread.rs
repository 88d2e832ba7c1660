//! INSERT of rows that the engine computes: each shard is sent its own rows, over the transaction's connection to it.
//!
//! Called by `run`. All rows are computed before the first is sent, so their query reads the data as of before the
//! statement, and a statement that fails has asked no shard to change anything. Shards are written to one after the
//! other, as by every statement that writes to several; they commit as one.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, Value};
use ashlar_protocol::pg::{CommandTag, ValueFormat};
use ashlar_query::dml::{SpreadPlan, SpreadRows};
use ashlar_query::statement::Kind;
use ashlar_shard::backend::{Described, Ended, Nothing};
use ashlar_shard::pool::Lease;
use ashlar_shard::route::told_here;
use ashlar_shard::routes::RouteKind;
use ashlar_shard::rules::Placement;

use super::super::read_only::words_of;
use super::gather::{Keeping, Kept};
use super::remotes::stoppable;
use super::{Executed, Portal, RowSink, SqlSession, ended_as};

/// Numbers of types in PostgreSQL's catalog.
const TEXT: u32 = 25;
const VARCHAR: u32 = 1043;

impl SqlSession {
    /// Computes the rows of an INSERT, and has its shards insert them.
    pub(in crate::session::sql) async fn run_spread<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<ashlar_query::Statement>,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let Kind::Spread(plan) = &statement.kind else { return Err(not_spread()) };
        self.route = Some(RouteKind::Engine);
        self.check_remote_write(&words_of(&statement.kind))?;
        let rule = &plan.table.routed.rule;
        let mut servers: Vec<&str> = rule.shards().iter().map(|shard| &*shard.server).collect();
        servers.dedup();
        self.check_several(&servers)?;
        if plan.returning.is_some() && rows_max > 0 {
            return Err(Error::unsupported(
                "a row limit for a statement that writes to several shards is not supported",
            ));
        }
        if let Some(generator) = plan.generator() {
            self.keys(rule, generator).await?;
        }
        let mut written = self.shared.engine.store().reservation();
        let tail = plan.tail(&portal.parameters, |bytes| written.grow(bytes))?;
        let rows = self.compute_rows(statement, &portal.parameters).await?;
        let mut expected = None;
        if plan.is_unchecked() || (plan.returning.is_some() && !rows.pieces.is_empty()) {
            let shard = rows.pieces.first().map_or(0, |piece| piece.shard);
            expected = Some(self.check_tail(plan, shard).await?);
        }
        let mut kept = plan.returning.is_some().then(|| Kept::new(self.shared.engine.store().reservation()));
        let mut held = self.shared.engine.store().reservation();
        let formats = Arc::clone(&portal.formats);
        let is_copied = rule.placement() == Placement::Broadcast;
        let copies = if is_copied { rule.shards().len() } else { 1 };
        let mut counted: Option<u64> = None;
        for copy in 0..copies {
            let mut count = 0;
            for piece in &rows.pieces {
                let shard = &rule.shards()[if is_copied { copy } else { piece.shard }];
                // The text, and the message that it is sent in.
                held.clear();
                held.grow(2 * (piece.bytes() + tail.len()))?;
                let text = plan.text(shard, piece, &tail);
                let place = self.begin_remote(&shard.server).await?;
                let queue = |lease: &mut Lease| {
                    let none = std::iter::empty::<(ValueFormat, Option<&[u8]>)>();
                    match &expected {
                        Some(expected) => lease.queue_checked((&text, false), &[], ("", 0), none, &formats, expected),
                        None => lease.queue_once(&text, &[], ("", 0), none, &formats),
                    }
                };
                let ended = match &mut kept {
                    Some(kept) if copy == 0 => {
                        kept.next();
                        let mut taker = Keeping { kept, sink, is_first: false };
                        self.on_remote(place, true, &mut taker, queue).await
                    }
                    _ => self.on_remote(place, true, &mut Nothing, queue).await,
                };
                // The text is none of the client's.
                let tables = std::slice::from_ref(&plan.table.routed);
                let Ended::Complete(tag) = ended.map_err(|error| told_here(error.nowhere(), tables))? else {
                    return Err(Error::internal("a statement on several shards has not come to its end"));
                };
                count +=
                    tag.count().ok_or_else(|| Error::internal("a shard has not said how many rows it has changed"))?;
            }
            if *counted.get_or_insert(count) != count {
                return Err(Error::new(
                    ErrorCode::InternalError,
                    format!("copies of a table differ: a server has taken {count} rows, and another one has not"),
                ));
            }
        }
        if let Some(kept) = kept {
            kept.send(&rows.order, sink).await?;
        }
        let tag = CommandTag::counted("INSERT 0", counted.unwrap_or(0));
        Ok(ended_as(Ended::Complete(tag), portal, "", ""))
    }

    /// All rows of an INSERT, as this transaction sees what they are computed from.
    async fn compute_rows(
        &mut self,
        statement: &Arc<ashlar_query::Statement>,
        parameters: &[Value],
    ) -> Result<SpreadRows> {
        let (own, parameters) = (Arc::clone(statement), parameters.to_vec());
        let rows = self.work_with_own(move |engine, view, resources| async move {
            let Kind::Spread(plan) = &own.kind else { return Err(not_spread()) };
            plan.compute(&engine, &parameters, view, &resources).await
        });
        rows.await
    }

    /// Asks a shard, before any has a row, whether it takes what stands behind the rows, and whether what comes back is what the client
    /// is told that it will be: what it has to be on all others too.
    async fn check_tail(&mut self, plan: &SpreadPlan, shard: usize) -> Result<Arc<Described>> {
        let shard = &plan.table.routed.rule.shards()[shard];
        let place = self.begin_remote(&shard.server).await?;
        let text = plan.sample(shard)?;
        let cancel = self.cancel.clone();
        let described = stoppable(self.remotes[place].lease.describe_once(&text), &cancel).await;
        let described = described.map_err(Error::nowhere)?;
        // The client is told of columns by their names here.
        let told = described.columns.iter().flatten().map(|column| alike(column.oid));
        let known = plan.returning.iter().flat_map(|columns| columns.iter()).map(|column| alike(column.oid));
        if !told.eq(known) {
            return Err(Error::unsupported("RETURNING has columns of other types here than on a shard")
                .with_hint("Cast its columns to the types that are wanted."));
        }
        plan.note_checked();
        Ok(Arc::new(described))
    }
}

/// One number for the two types of text, whose values are the same bytes.
fn alike(oid: u32) -> u32 {
    if oid == VARCHAR { TEXT } else { oid }
}

fn not_spread() -> Error {
    Error::internal("these are no rows for shards")
}

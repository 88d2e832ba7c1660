//! EXPLAIN of statements about shards: which shards are asked, and what. With ANALYZE, a statement that one shard
//! answers is explained and run by that shard, and its lines follow those of the route.
//!
//! Called by `explain`. Runs nothing that writes.

use std::future::pending;
use std::sync::Arc;

use ashlar_base::{Error, Result};
use ashlar_query::explain::ExplainOptions;
use ashlar_query::sharded::{ShardedPlan, is_one_shard};
use ashlar_query::transaction::Isolation;
use ashlar_shard::route::{Decision, Request};

use super::at_once::Given;
use super::remotes::answered;
use super::texts::Texts;
use super::{RawParameters, SqlSession};

impl SqlSession {
    /// The lines that say where a statement goes, under the parameters that EXECUTE gives it.
    ///
    /// # Errors
    /// As [`ashlar_shard::route::Route::decide`].
    pub(in crate::session::sql) fn explain_route(
        &self,
        plan: &ShardedPlan,
        raw: Option<&RawParameters>,
    ) -> Result<Vec<String>> {
        let types = plan.described().map_or(&[][..], |(types, _)| types.as_slice());
        let given = raw.map(|raw| Given { raw, types });
        let preferred = self.remotes.first().map(|remote| &*remote.server);
        let mut request = Request { preferred, style: *self.style(), ..Request::default() };
        if let Some(given) = &given {
            request.parameters = given;
        }
        Ok(plan.route.explain(&plan.route.decide(&request)?))
    }

    /// The lines for a statement that one shard answers, after it has; `None`, and nothing has been run: the engine reads it.
    ///
    /// # Errors
    /// 0A000 for what writes, and what a shard says.
    pub(in crate::session::sql) async fn explain_on_shard(
        &mut self,
        plan: &ShardedPlan,
        options: ExplainOptions,
    ) -> Result<Option<Vec<String>>> {
        if plan.route.is_write() {
            return Err(Error::unsupported(
                "EXPLAIN ANALYZE of a statement that changes or locks rows of shards is not supported",
            )
            .with_hint("EXPLAIN shows where it goes."));
        }
        if plan.described().is_some_and(|(types, _)| !types.is_empty()) {
            return Err(Error::unsupported("EXPLAIN ANALYZE with parameters is not supported for sharded tables")
                .with_hint("Write the values into the statement."));
        }
        let preferred = self.remotes.first().map(|remote| Arc::clone(&remote.server));
        let request = Request { preferred: preferred.as_deref(), style: *self.style(), ..Request::default() };
        let decision = plan.route.decide(&request)?;
        let Decision::Forward(forward) = &decision else { return Ok(None) };
        let sent = &forward.statements[0];
        let is_known = self.remotes.iter().any(|remote| *remote.server == *sent.server);
        // Other connections read what the transaction's own do not have to.
        if !is_one_shard(&decision) || (self.has_remote() && !is_known) {
            return Ok(None);
        }
        if options.memory {
            return Err(Error::unsupported("EXPLAIN (ANALYZE, MEMORY) of what a shard answers is not supported"));
        }
        let text = format!("EXPLAIN ({}) {}", options.at_shard(), sent.text);
        let mut own = Texts::new(self.shared.engine.store().reservation());
        let ended = if self.is_direct() && self.isolation() != Isolation::RepeatableRead {
            let mut lease = self.lend_to_read(sent.server).await?;
            lease.queue_query(&text);
            let ended = answered(&mut lease, &mut own, &self.cancel, pending()).await;
            self.pass_notices(lease.take_notices());
            ended
        } else {
            let place = self.begin_remote(sent.server).await?;
            self.on_remote(place, false, &mut own, |lease| lease.queue_query(&text)).await
        };
        // The text is none of the client's.
        ended.map_err(Error::nowhere)?;
        let mut lines = plan.route.explain(&decision);
        lines.extend(own.values.iter().map(|line| format!("  {line}")));
        Ok(Some(lines))
    }
}

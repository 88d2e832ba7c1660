//! EXPLAIN and EXPLAIN ANALYZE: what a session shows of a statement, and runs in order to measure it.
//!
//! Called by `run`. The lines of the plan come from the query crate.

use std::sync::Arc;

use ashlar_base::{Error, Result, Value};
use ashlar_query::dml::Source;
use ashlar_query::explain;
use ashlar_query::statement::Kind;

use super::run::select_of;
use super::sharded::RawParameters;
use super::{Block, SqlSession};

impl SqlSession {
    /// The lines of EXPLAIN for a statement. `raw`: the parameters in the form that shards read, if EXECUTE has given any.
    ///
    /// # Errors
    /// 0A000 for statements without a plan to show; errors of planning and, with ANALYZE, of running them.
    pub(super) async fn run_explain(
        &mut self,
        inner: &Arc<ashlar_query::Statement>,
        options: explain::ExplainOptions,
        parameters: &[Value],
        raw: Option<&RawParameters>,
    ) -> Result<Vec<String>> {
        let writes = match &inner.kind {
            Kind::Key(plan) => !plan.is_read(),
            kind => matches!(kind, Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) | Kind::Lock(_)),
        };
        let locked = match &inner.kind {
            Kind::Update(plan) => !plan.locked.is_empty(),
            Kind::Delete(plan) => !plan.locked.is_empty(),
            _ => false,
        };
        if locked {
            return Err(Error::unsupported("EXPLAIN of a statement whose subqueries lock rows is not supported"));
        }
        if options.analyze {
            self.check_moment(inner)?;
        }
        if options.analyze && writes {
            let planned = explain::ExplainOptions { analyze: false, ..options };
            let mut lines = Box::pin(self.run_explain(inner, planned, parameters, raw)).await?;
            let started = ashlar_base::clock::monotonic();
            let rows = Box::pin(self.run_unseen(inner, parameters)).await?;
            lines.push(format!("Rows: {rows}"));
            lines.push(format!("Execution Time: {:.3} ms", started.elapsed().as_secs_f64() * 1000.0));
            return Ok(lines);
        }
        if let Kind::Sharded(plan) = &inner.kind {
            if options.analyze {
                if let Some(lines) = Box::pin(self.explain_on_shard(plan, options)).await? {
                    return Ok(lines);
                }
                let planned = self.plan_for_engine(inner, &[]).await?;
                let mut lines = Box::pin(self.run_explain(&planned, options, parameters, None)).await?;
                lines.insert(0, "Route: engine, because no shard measures it by itself".to_owned());
                return Ok(lines);
            }
            return match self.explain_route(plan, raw) {
                Err(error) if plan.is_computed_here(&error) => {
                    if plan.described().is_some_and(|(types, _)| !types.is_empty()) {
                        return Err(Error::unsupported(
                            "EXPLAIN with parameters is not supported for rows of sharded tables that the engine computes",
                        )
                        .with_hint("Write the values into the statement."));
                    }
                    let planned = self.plan_for_engine(inner, &[]).await?;
                    Box::pin(self.run_explain(&planned, options, parameters, None)).await
                }
                lines => lines,
            };
        }
        let head = match shown(&inner.kind, options.analyze)? {
            Shown::Whole(lines) => return Ok(lines),
            Shown::Query(head) => head,
        };
        let engine = self.engine()?;
        let mut transaction = self.take_transaction();
        let time = transaction.time;
        let catalog = transaction.catalog(engine.catalog());
        let snapshot = transaction.snapshot(engine.store());
        let view = transaction.view(snapshot, &catalog);
        if self.block != Block::None || !transaction.is_clean() {
            self.transaction = Some(transaction);
        }
        let (pool, inner, parameters) = (Arc::clone(&engine), Arc::clone(inner), parameters.to_vec());
        let cancel = self.cancel.clone();
        let mut resources = self.resources(&engine, time);
        let _interest = resources.watch();
        let lines = engine
            .on_pool(async move {
                let select = select_of(&inner).ok_or_else(|| Error::internal("a statement without its query"))?;
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => Err(cancel.error()),
                    lines = explain::query(&pool, select, &parameters, view, &resources, options) => lines,
                }
            })
            .await??;
        Ok(match head {
            None => lines,
            Some(head) => std::iter::once(head).chain(lines.into_iter().map(|line| format!("  {line}"))).collect(),
        })
    }

    /// Runs a statement that writes or locks, for EXPLAIN ANALYZE, and discards what it returns. Returns the number of its rows.
    async fn run_unseen(&mut self, statement: &Arc<ashlar_query::Statement>, parameters: &[Value]) -> Result<u64> {
        self.refuse_write(true, &statement.kind)?;
        match &statement.kind {
            Kind::Key(plan) if self.is_direct() && plan.locks().is_none() => {
                self.key_alone(plan, parameters, |_| {}).await
            }
            Kind::Key(plan) => self.key_in_transaction(plan, parameters, |_| {}).await,
            Kind::Lock(_) => Ok(self.run_in_transaction(statement, None, parameters).await?.rows.len() as u64),
            _ => Ok(self.run_dml(statement, parameters).await?.count),
        }
    }
}

/// The plan of a statement that this server runs, as EXPLAIN shows it.
enum Shown {
    /// The complete text.
    Whole(Vec<String>),
    /// The plan of a query, perhaps below a line that says what is done with its rows.
    Query(Option<String>),
}

/// The part of the output that is known before the engine is asked.
///
/// # Errors
/// 0A000 if there is no plan to show.
fn shown(kind: &Kind, is_analyze: bool) -> Result<Shown> {
    let head = match kind {
        Kind::Key(plan) => return Ok(Shown::Whole(plan.describe())),
        Kind::Spread(_) if is_analyze => {
            return Err(Error::unsupported("EXPLAIN ANALYZE of an INSERT into a sharded table is not supported"));
        }
        Kind::ShardChange(_) if is_analyze => {
            return Err(Error::unsupported("EXPLAIN ANALYZE of a change of a sharded table is not supported"));
        }
        Kind::ShardChange(plan) => plan.describe(),
        Kind::Spread(plan) if plan.select().is_none() => return Ok(Shown::Whole(vec![plan.describe()])),
        Kind::Spread(plan) => plan.describe(),
        Kind::Insert(plan) => {
            let head = format!("Insert on {}", plan.schema.name);
            match &plan.source {
                Source::Values { rows, .. } => {
                    return Ok(Shown::Whole(vec![head, format!("  Values: rows={}", rows.len())]));
                }
                Source::Query(_) => head,
            }
        }
        Kind::Update(plan) => format!("Update on {}", plan.schema.name),
        Kind::Delete(plan) => format!("Delete on {}", plan.schema.name),
        Kind::Lock(_) => "LockRows".to_owned(),
        Kind::Select(_) => return Ok(Shown::Query(None)),
        _ => return Err(Error::unsupported("EXPLAIN of this statement is not supported")),
    };
    Ok(Shown::Query(Some(head)))
}

//! DDL as a part of a session's transaction.
//!
//! Called by `run`. The work is done in the query crate; `sharded` handles what depends on the session: which new
//! tables are sharded by its settings, and TRUNCATE of sharded tables.

use std::sync::Arc;

use ashlar_base::Result;
use ashlar_query::ddl;
use ashlar_query::statement::Kind;

use super::carried::Carried;
use super::run::lost;
use super::{Block, Executed, Notice, SqlSession};

impl SqlSession {
    /// Runs DDL on the query pool; the transaction goes there and comes back.
    pub(super) async fn run_ddl(&mut self, statement: &ddl::Ddl) -> Result<Executed> {
        if let Some(placed) = self.placed(statement)? {
            return Box::pin(self.run_ddl(&placed)).await;
        }
        let in_block = self.block != Block::None || !self.alone;
        if let Some(executed) = self.truncate_remote(statement, in_block).await? {
            return Ok(executed);
        }
        self.refuse_write(true, &Kind::Empty)?;
        let transaction = self.take_transaction();
        let mark = transaction.mark();
        let engine = self.engine()?;
        let (pool, statement, cancel) = (Arc::clone(&engine), statement.clone(), self.cancel.clone());
        let mut resources = self.resources_to_write(&engine, &transaction);
        let _interest = resources.watch();
        let mut carried = Carried::new(transaction, &engine);
        let (carried, done) = engine
            .on_pool(async move {
                let Some(transaction) = carried.get() else { return (carried, Err(lost())) };
                let done = {
                    let work = ddl::run(&pool, transaction, &statement, in_block, &resources);
                    tokio::pin!(work);
                    let done = tokio::select! {
                        biased;
                        () = cancel.cancelled() => Err(cancel.error()),
                        done = &mut work => Ok(done),
                    };
                    match done {
                        Ok(done) => done,
                        // What changes other servers says itself whether it has.
                        Err(why) if resources.stop(&why) => work.await,
                        Err(why) => Err(why),
                    }
                };
                (carried, done)
            })
            .await?;
        let mut transaction = carried.take().ok_or_else(lost)?;
        if done.is_err() {
            transaction.rollback_to(&mark, engine.catalog(), engine.store());
        }
        self.transaction = Some(transaction);
        let done = done?;
        self.notices.extend(done.notices.into_iter().map(|error| Notice { severity: "NOTICE", error }));
        self.notices.extend(done.warnings.into_iter().map(|error| Notice { severity: "WARNING", error }));
        Ok(Executed::Complete(done.tag.as_str().into()))
    }
}

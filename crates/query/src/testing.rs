//! What unit tests share: an engine, and statements that run in it as a session runs them.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use ashlar_base::{Eviction, Result};
use ashlar_store::{Store, StoreConfig};
use datafusion::physical_plan::{ExecutionPlan, collect};

use crate::admission::AdmissionConfig;
use crate::dml::run::{Outcome, Run};
use crate::engine::{Engine, EngineConfig};
use crate::spill::SpillConfig;
use crate::statement::{Kind, Statement};
use crate::transaction::{Isolation, Transaction};
use crate::{ddl, grammar};

/// An engine with an empty store of at most so many bytes.
pub(crate) fn engine(memory_max: u64) -> Arc<Engine> {
    let config = EngineConfig {
        memory_bytes_max: 256 << 20,
        threads: 2,
        batch_rows: 1024,
        plan_cache_bytes_max: 1 << 20,
        spill: SpillConfig { dir: None, bytes_max: 1 << 30 },
        admission: AdmissionConfig { running_max: 4, waiting_max: 100, wait_max: None },
        plain_keys_eviction: Eviction::None,
    };
    Engine::new(Store::new(StoreConfig { memory_max, ..StoreConfig::default() }), &config).unwrap()
}

/// An engine in which these statements have run.
pub(crate) fn engine_with(statements: &[&str]) -> Arc<Engine> {
    let engine = engine(StoreConfig::default().memory_max);
    for sql in statements {
        alone(&engine, sql).unwrap();
    }
    engine
}

pub(crate) fn transaction() -> Transaction {
    Transaction::new(Isolation::ReadCommitted, false, false)
}

/// A statement as it is planned now.
pub(crate) fn plan(engine: &Engine, sql: &str) -> Statement {
    let parsed = grammar::only_one(grammar::parse(sql).unwrap()).unwrap().unwrap();
    Statement::plan(engine, &engine.catalog().current(), &parsed, &[]).unwrap()
}

/// Runs a query: its plan, which knows what happened, and its rows in an order.
pub(crate) async fn answered(engine: &Engine, sql: &str) -> (Arc<dyn ExecutionPlan>, Vec<String>) {
    let Kind::Select(select) = plan(engine, sql).kind else { panic!("{sql}") };
    let mut transaction = transaction();
    let resources = engine.resources(transaction.time, None);
    let snapshot = transaction.snapshot(engine.store());
    let view = transaction.view(snapshot, &engine.catalog().current());
    let plan = select.physical(engine, &[], &resources, &view).await.unwrap();
    let batches = collect(Arc::clone(&plan), engine.task_context(view, &resources)).await.unwrap();
    let mut rows: Vec<String> = pretty_format_batches(&batches).unwrap().to_string().lines().map(Into::into).collect();
    rows.sort();
    (plan, rows)
}

/// Runs a statement; after an error the transaction is as before.
pub(crate) fn run(engine: &Engine, transaction: &mut Transaction, sql: &str, in_block: bool) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mark = transaction.mark();
    let done = runtime.block_on(async {
        let catalog = transaction.catalog(engine.catalog());
        let parsed = grammar::only_one(grammar::parse(sql)?)?.unwrap();
        let statement = Statement::plan(engine, &catalog, &parsed, &[])?;
        let resources = engine.resources(transaction.time, None);
        let mut run = Run::new(engine, &catalog, transaction, &[], &resources);
        match &statement.kind {
            Kind::Ddl(ddl) => {
                ddl::run(engine, run.transaction, ddl, in_block, &resources).await?;
                Ok(Outcome::default())
            }
            Kind::Key(plan) => plan.run_in(engine, run.transaction, &[], &mut |_| {}).map(|_| Outcome::default()),
            Kind::Insert(plan) => run.insert(plan).await,
            Kind::Update(plan) => run.update(plan).await,
            Kind::Delete(plan) => run.delete(plan).await,
            Kind::WithChanges(plan) => run.with_changes(plan).await,
            _ => panic!("{sql}"),
        }
    });
    if done.is_err() {
        transaction.rollback_to(&mark, engine.catalog(), engine.store());
    }
    done
}

/// Runs a statement that is a transaction of its own.
pub(crate) fn alone(engine: &Engine, sql: &str) -> Result<Outcome> {
    let mut transaction = transaction();
    let outcome = run(engine, &mut transaction, sql, false)?;
    transaction.commit(engine.catalog(), engine.store())?;
    Ok(outcome)
}

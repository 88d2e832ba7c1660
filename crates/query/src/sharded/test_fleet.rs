//! What unit tests of plans over shards share: a fleet that answers nothing, and plans as they are run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ashlar_shard::backend::Limits;
use ashlar_shard::catalog::ShardCatalog;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::health::HealthConfig;
use ashlar_shard::pool::PoolConfig;
use ashlar_shard::server::Server;
use ashlar_shard::workers::Workers;
use datafusion::physical_plan::ExecutionPlan;

use crate::engine::Engine;
use crate::select::SelectPlan;
use crate::testing;

/// A fleet of two servers to which nobody may log in, with tables of these columns.
pub(super) fn fleet(dir: &Path, tables: &[(&str, &str)]) -> Arc<Fleet> {
    let second = Duration::from_secs(1);
    let limits = Limits { connect: second, silence: second, message_bytes_max: 1 << 20, statements_max: 16 };
    let config = PoolConfig {
        connections_max: 8,
        connections_of_queries: 4,
        connections_min: 0,
        waiting_max: 16,
        wait_max: second,
        idle_max: None,
        life_max: None,
        limits,
    };
    let health = HealthConfig { period: 3600 * second, failures_max: 3, lag_max: None };
    let catalog = ShardCatalog::open(dir).unwrap();
    let declared = catalog.change(|known| {
        for name in ["s0", "s1"] {
            let (name, host, dbname) = (name.to_owned(), "127.0.0.1".to_owned(), "postgres".to_owned());
            let server = Server { name: name.clone(), host, port: 1, dbname, primary: None };
            known.servers.insert(name, Arc::new(server));
        }
        for (name, columns) in tables {
            let by = "PARTITION BY HASH (id) USING sharded WITH (servers = 's0,s1', algorithm = 'mod')";
            known.tables.insert((*name).to_owned(), format!("CREATE TABLE {name} ({columns}) {by}"));
        }
        Ok(())
    });
    declared.unwrap();
    Fleet::new(catalog, config, Workers::configured(0).unwrap(), None, health)
}

/// The plan of a query, as it is run.
pub(super) fn physical(engine: &Engine, select: &SelectPlan) -> Arc<dyn ExecutionPlan> {
    let mut transaction = testing::transaction();
    let resources = engine.resources(transaction.time, None);
    let snapshot = transaction.snapshot(engine.store());
    let view = transaction.view(snapshot, &engine.catalog().current());
    engine.block_on(select.physical(engine, &[], &resources, &view)).unwrap().unwrap()
}

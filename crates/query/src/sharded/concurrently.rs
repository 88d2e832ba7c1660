//! CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY of sharded tables: each shard executes it by itself, one after
//! the other, because it cannot run in a transaction. Writers are not blocked.
//!
//! If one shard fails to create the index, it is dropped on the shards before it. If one shard fails to drop it, it is
//! gone on the shards before it but still known here, and the same statement continues. Called by `maintain`, while
//! nobody else changes tables.

use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::backend::Nothing;
use ashlar_shard::fleet::Fleet;
use pg_query::NodeEnum;
use pg_query::protobuf::IndexStmt;

use super::ShardedTable;
use super::ddl::at_shard;
use super::maintain::on_shard;
use super::rename::is_there;
use crate::resources::StatementResources;
use crate::statement::statement_text;

/// How long a shard may take to drop an index again that was made in vain: who waits for that is told of an error either way.
const UNDO_MAX: Duration = Duration::from_secs(10);

/// What a DROP INDEX CONCURRENTLY begins with. What is dropped already, as by one that has failed, is left out.
const DROPPING: &str = "DROP INDEX CONCURRENTLY IF EXISTS";

/// What a name means that something has.
const DUPLICATE_TABLE: &str = "42P07";

/// An index that a shard is to make.
struct Step {
    server: Arc<str>,
    /// Its name there, with its schema.
    index: String,
    text: String,
}

/// Has every shard make an index of its table.
///
/// # Errors
/// 42P07 where a shard has something of its name; what a shard says. Then none has it, unless the detail says where it may be left.
pub(super) async fn create(table: &ShardedTable, index: &IndexStmt, resources: &StatementResources) -> Result<()> {
    let mut steps = Vec::new();
    for shard in table.routed.rule.shards() {
        let mut sent = IndexStmt { concurrent: true, ..index.clone() };
        sent.idxname = on_shard(&index.idxname, table, shard)?;
        let name = format!("{}.{}", quote_ident(&shard.schema), quote_ident(&sent.idxname));
        at_shard(&mut sent.relation, shard);
        if is_there(table, shard, &name, resources).await? {
            let error = Error::new(ErrorCode::DuplicateTable, format!("relation \"{}\" already exists", sent.idxname));
            let hint = format!("Drop it there, if it is what a killed server has left: {DROPPING} {name}.");
            return Err(error.with_hint(hint).with_context(format!("shard {}", shard.server)));
        }
        let text = statement_text(&NodeEnum::IndexStmt(Box::new(sent)))?;
        steps.push(Step { server: Arc::clone(&shard.server), index: name, text });
    }
    // Who asks to stop waits until it is known what has become of it.
    let ending = resources.ending();
    for (number, step) in steps.iter().enumerate() {
        if let Err(error) = run(&table.fleet, resources, &step.server, &step.text, ending.asked()).await {
            // What failed leaves its index behind, which is not valid; what has its name is another one's.
            let count = number + usize::from(error.sqlstate() != DUPLICATE_TABLE);
            return Err(undo(&table.fleet, resources, &steps[..count], error).await);
        }
    }
    Ok(())
}

/// Has every shard drop an index of its table.
///
/// # Errors
/// What a shard says: then those before it have dropped it.
pub(super) async fn drop_index(table: &ShardedTable, name: &str, resources: &StatementResources) -> Result<()> {
    let ending = resources.ending();
    for shard in table.routed.rule.shards() {
        let index = quote_ident(&on_shard(name, table, shard)?);
        let text = format!("{DROPPING} {}.{index}", quote_ident(&shard.schema));
        let dropped = run(&table.fleet, resources, &shard.server, &text, ending.asked()).await;
        dropped.map_err(|error| error.with_hint("Drop it again: that goes on where this has ended."))?;
    }
    Ok(())
}

/// Drops again what was made in vain, as far as there is time for it; what is told then.
async fn undo(fleet: &Arc<Fleet>, resources: &StatementResources, steps: &[Step], error: Error) -> Error {
    let mut left: Vec<&str> = Vec::new();
    for step in steps {
        let text = format!("{DROPPING} {}", step.index);
        let dropping = run(fleet, resources, &step.server, &text, future::pending());
        if !matches!(tokio::time::timeout(UNDO_MAX, dropping).await, Ok(Ok(()))) && !left.contains(&&*step.server) {
            left.push(&step.server);
        }
    }
    if left.is_empty() {
        return error;
    }
    error.with_detail(format!("The index may be left on these shards, and is of no use there: {}.", left.join(", ")))
}

/// Runs a statement on a server that is a transaction by itself.
async fn run(
    fleet: &Arc<Fleet>,
    resources: &StatementResources,
    server: &str,
    text: &str,
    stop: impl Future<Output = Error> + Send,
) -> Result<()> {
    let mut stop = pin!(stop);
    let settings = resources.settings_of_shards();
    let lent = tokio::select! {
        biased;
        lent = fleet.lend((fleet.pool_of_queries(), None), server, &resources.role, &settings) => lent,
        why = &mut stop => Err(why),
    };
    let mut lease = lent?;
    lease.queue_query(text);
    lease.answer_unless(&mut Nothing, stop).await.map(drop)
}

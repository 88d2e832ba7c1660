//! ANALYZE: gathers what the store keeps of a table for estimates, on the query pool and with a turn for others after each
//! partition.
//!
//! Tables that were analysed once are looked at again in the background when many rows have come or gone, also where as many
//! have come as have gone.

use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_base::{Error, ErrorCode, PartitionId, Result};
use ashlar_functions::error::undefined_table;
use ashlar_store::{Analysis, ReadView, Region, TableStatistics};

use crate::catalog::{CatalogState, Table};
use crate::engine::Engine;

/// How often tables are looked at in the background.
const INTERVAL: Duration = Duration::from_secs(15);
/// So many rows that have come or gone make it worth it, and one of so many that there were: as PostgreSQL's autovacuum has it.
const CHANGED_MIN: u64 = 500;
const CHANGED_SHARE: u64 = 10;

/// A table that ANALYZE names, and the columns, none for all.
#[derive(Clone, Debug)]
pub struct Target {
    /// The table.
    pub table: String,
    /// Columns that it must have. All are looked at in any case.
    pub columns: Vec<String>,
}

/// Runs ANALYZE of these tables, or of all where there are none.
///
/// # Errors
/// 42P01 and 42703 for names, 53200 over the memory bound, 40001 where a table was altered meanwhile.
pub async fn run(engine: &Engine, catalog: &CatalogState, targets: &[Target]) -> Result<()> {
    let mut regions = Vec::new();
    for target in targets {
        let found = catalog.table(&target.table).ok_or_else(|| undefined_table(&target.table))?;
        // Of files the engine asks the files themselves.
        let Table::Grid(region) = found else { continue };
        let schema = region.schema();
        if let Some(missing) = target.columns.iter().find(|name| schema.column(name).is_none()) {
            let message = format!("column \"{missing}\" of relation \"{}\" does not exist", target.table);
            return Err(Error::new(ErrorCode::UndefinedColumn, message));
        }
        regions.push(region.committed());
    }
    if targets.is_empty() {
        regions.extend(catalog.tables().filter_map(|(_, table)| match table {
            Table::Grid(region) => Some(region.committed()),
            Table::File(_) | Table::Sharded(_) => None,
        }));
    }
    for region in regions {
        analyse(engine, &region).await?;
    }
    Ok(())
}

async fn analyse(engine: &Engine, region: &Arc<Region>) -> Result<()> {
    let view = ReadView::committed(engine.store().snapshot());
    let mut analysis = Analysis::new(region);
    for partition in (0..region.partition_count()).map(PartitionId) {
        analysis.add(&view, partition)?;
        tokio::task::yield_now().await;
    }
    region.set_statistics(analysis.finish());
    Ok(())
}

/// Whether many rows of a table have come or gone since these statistics of it were gathered. A queue has as many rows as before, and
/// others.
fn are_old(known: &TableStatistics, region: &Region) -> bool {
    region.turnover().saturating_sub(known.turnover) > CHANGED_MIN + known.rows / CHANGED_SHARE
}

/// Looks at tables again until the engine is gone.
pub(crate) async fn refresh(engine: Weak<Engine>) {
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        interval.tick().await;
        let Some(engine) = engine.upgrade() else { return };
        round(&engine).await;
    }
}

/// Looks again at each table that was analysed and has other rows by now.
async fn round(engine: &Engine) {
    for region in engine.store().regions() {
        let is_due = region.statistics().is_some_and(|known| are_old(&known, &region));
        if !region.is_dropped()
            && is_due
            && let Err(error) = analyse(engine, &region).await
        {
            // It was altered, or dropped, or there is no memory for it now: the next round tries again.
            tracing::debug!(table = %region.id(), %error, "statistics were not refreshed");
        }
    }
}

#[cfg(test)]
mod tests;

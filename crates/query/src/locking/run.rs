//! Runs queries that lock: inside a transaction, on the query pool.

use ashlar_base::{Datum, ErrorCode, Result, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_store::ColumnReader;
use futures::StreamExt;

use super::LockPlan;
use crate::dml::run::{Outcome, Run};
use crate::transaction::{Locked, Policy};

/// How a pass over a query's rows ended.
struct Pass {
    outcome: Outcome,
    /// Rows that the query gave.
    found: usize,
    /// Rows that others have changed since: with another snapshot they may be there, or not.
    changed: bool,
    /// LIMIT was reached.
    is_full: bool,
}

impl Run<'_> {
    /// SELECT ... FOR UPDATE and its like: the rows, each of them locked.
    ///
    /// # Errors
    /// 55P03 where a row is locked by somebody else and may not be waited for; the same, and 40001, where the transaction is
    /// stopped and the statement has to begin again; what evaluating finds.
    pub async fn lock(&mut self, plan: &LockPlan) -> Result<Outcome> {
        let offset = plan.offset.value(self.parameters, ErrorCode::InvalidOffset, "OFFSET")?.unwrap_or(0);
        let limit = plan.limit.value(self.parameters, ErrorCode::InvalidLimit, "LIMIT")?;
        let wanted = limit.map(|limit| limit.saturating_add(offset));
        // More rows than are wanted only where some may have to be passed over.
        let locked: usize = plan.targets.iter().map(|target| target.region.locked_rows() as usize).sum();
        let mut asked = wanted.map(|wanted| wanted.saturating_add(locked));
        loop {
            let pass = self.pass(plan, asked, wanted, offset).await?;
            let is_all = pass.is_full || asked.is_none_or(|asked| pass.found < asked);
            if is_all && (pass.is_full || !pass.changed) {
                return Ok(pass.outcome);
            }
            // Other parts of the statement read the same picture: all of them begin again with another one.
            if pass.changed && self.is_part() {
                return Err(self.transaction.begin_again());
            }
            if !is_all {
                asked = asked.map(|asked| asked.saturating_mul(2).saturating_add(16));
            }
        }
    }

    /// Locks rows in their order, as many as are wanted, of as many as are asked for.
    async fn pass(
        &mut self,
        plan: &LockPlan,
        asked: Option<usize>,
        wanted: Option<usize>,
        offset: usize,
    ) -> Result<Pass> {
        let outcome = Outcome::new(self.engine.store());
        let mut pass = Pass { outcome, found: 0, changed: false, is_full: wanted == Some(0) };
        if pass.is_full {
            return Ok(pass);
        }
        let snapshot = self.snapshot();
        let limited;
        let select = match asked.filter(|asked| i64::try_from(*asked).is_ok()) {
            Some(asked) => {
                limited = plan.select.limited(asked)?;
                &limited
            }
            None => &plan.select,
        };
        let mut stream = self.start(select, snapshot.clone()).await?;
        let mut locked = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(from_datafusion)?;
            let columns = batch.columns().iter().zip(select.columns.iter());
            let readers =
                columns.map(|(array, column)| ColumnReader::new(array, column.sql_type)).collect::<Result<Vec<_>>>()?;
            'rows: for row in 0..batch.num_rows() {
                pass.found += 1;
                for target in &plan.targets {
                    let key: Vec<Datum<'_>> = target.key.iter().map(|&output| readers[output].datum(row)).collect();
                    let (region, policy) = (&target.region, target.policy);
                    match self.transaction.lock_row(region, &key, target.strength, policy, &snapshot)? {
                        Locked::Current => {}
                        Locked::Gone | Locked::Taken => continue 'rows,
                        // It was locked a moment ago: nobody can tell whether it still was when this statement came.
                        Locked::Changed if policy == Policy::Skip => {
                            pass.changed = true;
                            continue 'rows;
                        }
                        Locked::Changed => return Err(self.transaction.begin_again()),
                    }
                }
                locked += 1;
                if locked > offset {
                    let values: Vec<Value> =
                        plan.outputs.iter().map(|&output| readers[output].datum(row).to_value()).collect();
                    pass.outcome.keep(values)?;
                }
                if wanted == Some(locked) {
                    pass.is_full = true;
                    return Ok(pass);
                }
            }
        }
        Ok(pass)
    }
}

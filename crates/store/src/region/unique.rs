//! Unique indexes of a region: whether they are complete yet, and which row has a value.
//!
//! Called by commits and by the buffered writes of transactions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_base::scope::{self, Name};
use ashlar_base::{IndexDef, PartitionId, TableId, Value};

use super::Region;
use crate::key_parts::Clash;
use crate::partition::Partition;
use crate::sync::MutexGuard;
use crate::taken::{Fingerprint, Taken};

static CLAIMS: Name = Name::new("values of another commit");

impl Region {
    /// Whether writes have to be looked at before they are made: an index is unique, or has expressions or a predicate.
    pub fn has_checks(&self) -> bool {
        self.life.has_checks.load(Ordering::Acquire)
    }

    /// Which values of a unique index are taken.
    pub(crate) fn taken(&self, index: TableId) -> Option<Arc<Taken>> {
        self.life.taken.read().get(&index).cloned()
    }

    /// Whether an index is done: one that is unique holds for all rows.
    pub fn is_complete(&self, index: &IndexDef) -> bool {
        index.unique.is_none() || self.taken(index.id).is_some_and(|taken| taken.is_complete())
    }

    /// An index was made in every partition.
    pub fn complete_index(&self, index: &IndexDef) {
        if let Some(taken) = self.taken(index.id) {
            taken.complete();
        }
    }

    /// The row that has values of a unique index for itself now; `f` gets its partition, locked, and its id there, and
    /// must not touch the store in any other way.
    pub(crate) fn holder<R>(
        &self,
        index: &Arc<IndexDef>,
        taken: &Taken,
        value: Fingerprint,
        values: &[Value],
        f: impl FnOnce(&Partition, u32) -> R,
    ) -> Option<R> {
        let mut partition = taken.holder(value)?;
        loop {
            let guard = self.lock(partition);
            let stored = guard.as_deref().and_then(|stored| Some((stored, stored.find_live(index, values)?)));
            if let Some((stored, row)) = stored {
                return Some(f(stored, row));
            }
            // It has ended, or another partition has the value by now.
            let now = taken.holder(value)?;
            if now == partition {
                return None;
            }
            partition = now;
        }
    }

    /// Ends the row for good that has the values of a clash for itself, if its time has come. With no partition locked. False:
    /// a row has them, and it is no use to try again.
    pub(crate) fn bury_holder(&self, clash: &Clash) -> bool {
        if clash.is_own {
            return false;
        }
        // Dropped meanwhile, or free.
        let Some(taken) = self.taken(clash.index.id) else { return true };
        let value = taken.fingerprint(clash.values.iter().map(Value::as_datum));
        let Some(mut partition) = taken.holder(value) else { return true };
        loop {
            // Whatever a commit has left to be done there is done then: it may end the row.
            let mut guard = self.lock(partition);
            if self.lives().is_on()
                && let Some(stored) = guard.as_mut()
                && stored.bury_value(&clash.index, &clash.values, self.common.stamp())
            {
                return true;
            }
            match taken.holder(value) {
                None => return true,
                Some(now) if now != partition => partition = now,
                Some(_) => {
                    let row = guard.as_deref().and_then(|stored| stored.find_live(&clash.index, &clash.values));
                    drop(guard);
                    if row.is_some() {
                        return false;
                    }
                    // The row is to come with a commit that has not decided yet; once it has, the row is there or the value is free.
                    let _alone = self.claim_alone();
                    let guard = self.lock(partition);
                    let row = guard.as_deref().and_then(|stored| stored.find_live(&clash.index, &clash.values));
                    return row.is_none() && taken.holder(value) != Some(partition);
                }
            }
        }
    }

    /// Takes values before their partitions are locked, as nobody else does meanwhile; held until the rows are there, or the values
    /// given back. Where several regions' are held, in the order of the tables.
    pub(crate) fn claim_alone(&self) -> MutexGuard<'_, ()> {
        self.life.claiming.try_lock().unwrap_or_else(|| {
            let _waits = scope::enter(&CLAIMS);
            self.life.claiming.lock()
        })
    }

    /// Whether the row that has the values of a clash may be about to lose them: its time may have come, it may not be there
    /// yet, or somebody is at work in its partition, which is not `own`.
    pub(crate) fn may_lose(&self, clash: &Clash, own: PartitionId) -> bool {
        self.lives().is_on()
            || self.life.claiming.is_locked()
            || self.taken(clash.index.id).is_some_and(|taken| {
                let holder = taken.holder(taken.fingerprint(clash.values.iter().map(Value::as_datum)));
                holder.is_none_or(|holder| holder != own && self.is_busy(holder))
            })
    }

    /// What is taken is what rows have.
    #[cfg(test)]
    pub(super) fn check_taken(&self) {
        for (id, taken) in self.life.taken.read().iter() {
            let guards = self.lock_all();
            let stored = guards.iter().filter_map(|guard| guard.as_deref());
            let found: Vec<Fingerprint> = stored.flat_map(|partition| partition.taken_here(*id)).collect();
            assert!(taken.is_settled(), "every value has one row");
            assert_eq!(found.len(), taken.len(), "what is taken is what rows have");
            assert!(found.into_iter().all(|value| taken.holder(value).is_some()), "what rows have is taken");
        }
    }
}

#[cfg(test)]
mod tests;

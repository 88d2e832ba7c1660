//! Watches of keys: whether a key has been written since, even with the same value, or its row has expired.
//!
//! Made by WATCH of the RESP door. A watch holds no snapshot, so a client that watches and never returns keeps no old
//! version alive.

use std::sync::Arc;

use ashlar_base::{Datum, Value};

use super::Attention;
use crate::partition::Partition;
use crate::region::{KeyPlace, Region};
use crate::sync::atomic::{AtomicBool, Ordering};

/// A key that is watched until this is dropped.
pub struct Watch {
    attention: Arc<Attention>,
    sight: Sight,
}

impl Watch {
    /// Bytes that a watch takes, its entry in the table of locks included, and beside them those of the key.
    pub const BYTES: usize = 256;

    /// Whether somebody has written the key, or its row has ended by itself. `region` is the one that made the watch.
    pub fn is_touched(&self, region: &Region) -> bool {
        // A row that only somebody could end needs no look.
        self.sight.is_touched()
            || self.sight.mortal.is_some() && {
                let guard = region.lock(self.sight.place.partition);
                self.sight.has_ended(guard.as_deref())
            }
    }

    /// What a commit looks at with the key's partition locked: from then on nobody touches it.
    pub(crate) fn sight(&self) -> Sight {
        self.sight.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.attention.locks().unwatch(&self.attention, self.sight.place.hash, &self.sight.flag);
    }
}

/// A watched key as a commit knows it.
#[derive(Clone)]
pub(crate) struct Sight {
    pub(crate) place: KeyPlace,
    flag: Arc<AtomicBool>,
    /// The key, where there was a row of it whose life ends by itself: no write tells that it has.
    mortal: Option<Arc<[Value]>>,
}

impl Sight {
    pub(crate) fn is_touched(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Whether the row that was there is gone, with its partition locked: nobody has written it, so its time has come.
    pub(crate) fn has_ended(&self, stored: Option<&Partition>) -> bool {
        let Some(key) = &self.mortal else { return false };
        let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
        stored.is_none_or(|stored| stored.locate(self.place.hash, &key).row.is_none())
    }
}

impl Region {
    /// Watches a key, whether or not there is a row of it. `None`: no row can have this key.
    pub fn watch(&self, key: &[Datum<'_>]) -> Option<Watch> {
        let place = self.place_of(key)?;
        let attention = Arc::clone(self.attention());
        let flag = Arc::new(AtomicBool::new(false));
        attention.locks().watch(&attention, place.hash, &flag);
        // A writer that did not see the watch has finished when its partition's lock is free.
        let guard = self.lock(place.partition);
        let is_mortal = |stored: &Partition| {
            let row = stored.locate(place.hash, key).row;
            row.is_some_and(|row| stored.is_mortal(row))
        };
        let mortal = guard.as_deref().is_some_and(is_mortal).then(|| key.iter().map(Datum::to_value).collect());
        // Whoever has touched it until now had this lock before: what a commit had left here was committed before the watch began.
        flag.store(false, Ordering::Release);
        drop(guard);
        Some(Watch { attention, sight: Sight { place, flag, mortal } })
    }
}

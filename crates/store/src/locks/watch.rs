//! Watches of keys: whether somebody has written a key since, be it with the value that it had.
//!
//! Made by WATCH of the RESP door. Keeps no snapshot: a client that watches and never comes back holds no old version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_base::Datum;

use super::Attention;
use crate::region::{KeyPlace, Region};

/// A key that is watched until this is dropped.
pub struct Watch {
    attention: Arc<Attention>,
    place: KeyPlace,
    flag: Arc<AtomicBool>,
}

impl Watch {
    /// Bytes that a watch takes, its entry in the table of locks included.
    pub const BYTES: usize = 256;

    /// Whether somebody has written the key.
    pub fn is_touched(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// What a commit looks at with the key's partition locked: from then on nobody touches it.
    pub(crate) fn sight(&self) -> Sight {
        Sight { place: self.place, flag: Arc::clone(&self.flag) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.attention.locks().unwatch(&self.attention, self.place.hash, &self.flag);
    }
}

/// A watched key as a commit knows it.
pub(crate) struct Sight {
    pub(crate) place: KeyPlace,
    flag: Arc<AtomicBool>,
}

impl Sight {
    pub(crate) fn is_touched(&self) -> bool {
        self.flag.load(Ordering::Acquire)
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
        drop(self.lock(place.partition));
        Some(Watch { attention, place, flag })
    }
}

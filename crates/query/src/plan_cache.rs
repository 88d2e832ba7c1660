//! Plans by the text of their statement: shared by all sessions, bounded in bytes, least recently used out first.
//!
//! Called by sessions before they parse. An entry is found by a key: for statements with parameters their text and declared
//! types, for plain statements the shape of their text (see [`crate::lift`]), under which several plans may stand that
//! differ in the constants that were not lifted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ashlar_base::Value;
use ashlar_base::value::text::{TextStyle, Zone};
use ashlar_shard::route::Sent;
use parking_lot::Mutex;

use crate::lift::{Lifting, Shape};
use crate::statement::{Kind, Statement};

/// Plans that may be cached under one shape, for different constants that were not lifted and different time zones. Texts that differ in
/// more ways hardly come again.
const PLANS_OF_SHAPE_MAX: usize = 16;

/// Bytes of an entry beside its plan: key, map slots, age.
const ENTRY_BYTES: usize = 256;

/// A cached plan for a plain statement.
pub struct Found {
    /// The plan of a text of that shape.
    pub statement: Arc<Statement>,
    /// The values of the parameters that this text's constants became.
    pub values: Vec<Value>,
    /// The text for one shard, if the plan is for shards and the plan's own text is another one.
    pub sent: Option<Sent>,
}

/// The cache.
pub struct PlanCache {
    entries: Mutex<Entries>,
    bytes_max: usize,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Arc<str>, Vec<Entry>>,
    /// The key of each entry, by the time of its last use.
    by_age: BTreeMap<u64, Arc<str>>,
    clock: u64,
    bytes: usize,
    /// The newest epoch of the catalog that was seen: plans for older versions are dropped when it changes.
    epoch: u64,
}

struct Entry {
    lifting: Arc<Lifting>,
    statement: Arc<Statement>,
    bytes: usize,
    used: u64,
}

/// A plan that may fit a text: its position, its lifting, and itself.
type Candidate = (usize, Arc<Lifting>, Arc<Statement>);

/// The values of a text's constants for a plan of its shape, and the text for one shard; `None` if the plan does not fit.
fn applied(
    lifting: &Lifting,
    statement: &Statement,
    shape: &Shape<'_>,
    style: &TextStyle,
) -> Option<(Vec<Value>, Option<Sent>)> {
    let values = lifting.values(&shape.constants, &statement.parameter_types, style)?;
    let sent = match &statement.kind {
        Kind::Sharded(plan) => Some(plan.sent(shape, plan.shard_of(shape)?)?),
        _ => None,
    };
    Some((values, sent))
}

impl Entry {
    /// Whether the plan was made for this version of the catalog and, if that matters, for this time zone, and what it says of shards is
    /// still true.
    fn is_for(&self, epoch: u64, zone: Zone) -> bool {
        let is_outdated = matches!(&self.statement.kind, Kind::Sharded(plan) if plan.is_outdated());
        !is_outdated && self.statement.epoch == epoch && self.statement.zone.is_none_or(|planned| planned == zone)
    }
}

impl PlanCache {
    /// A cache for plans of this many bytes in all; 0 for none.
    pub fn new(bytes_max: usize) -> Self {
        Self { entries: Mutex::new(Entries::default()), bytes_max }
    }

    /// The plan of a statement with parameters, if it was made for this version of the catalog.
    pub fn prepared(&self, key: &str, epoch: u64, zone: Zone) -> Option<Arc<Statement>> {
        let mut entries = self.entries.lock();
        let place = entries.by_key.get(key)?.iter().position(|entry| entry.is_for(epoch, zone))?;
        entries.touch(key, place)
    }

    /// A plan for a plain statement, if the plan of another text of its shape fits it. Whether it fits is decided without the lock,
    /// because constants are read and a shard is chosen meanwhile.
    pub fn lifted(&self, shape: &Shape<'_>, epoch: u64, style: &TextStyle) -> Option<Found> {
        let mut next = 0;
        loop {
            let candidate = self.entries.lock().candidate(&shape.key, next, epoch, style.zone);
            let (place, lifting, statement) = candidate?;
            next = place + 1;
            if let Some((values, sent)) = applied(&lifting, &statement, shape, style) {
                self.entries.lock().touch_plan(&shape.key, &statement);
                return Some(Found { statement, values, sent });
            }
        }
    }

    /// Whether a text of this shape was planned and none of its constants could be lifted. That is then true of every such text.
    pub fn is_fixed(&self, shape: &Shape<'_>, epoch: u64, zone: Zone) -> bool {
        let entries = self.entries.lock();
        let plans = entries.by_key.get(shape.key.as_str());
        plans.is_some_and(|plans| plans.iter().any(|entry| entry.is_for(epoch, zone) && !entry.lifting.is_any_lifted()))
    }

    /// Caches a plan under a key.
    pub fn put(&self, key: &str, lifting: Lifting, statement: Arc<Statement>) {
        let bytes = ENTRY_BYTES + 2 * key.len() + lifting.bytes() + statement.bytes();
        if bytes > self.bytes_max {
            return;
        }
        let mut entries = self.entries.lock();
        entries.follow(statement.epoch);
        entries.drop_same(key, &lifting, statement.zone);
        while entries.bytes + bytes > self.bytes_max && entries.drop_oldest() {}
        entries.insert(key, Entry { lifting: Arc::new(lifting), statement, bytes, used: 0 });
    }

    /// Bytes of all plans, as estimated.
    pub fn bytes(&self) -> usize {
        self.entries.lock().bytes
    }

    /// The number of plans.
    pub fn len(&self) -> usize {
        self.entries.lock().by_age.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Entries {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The position of the first plan, from `from` on, among those of a key that was made for this version of the catalog and this time
    /// zone.
    fn candidate(&self, key: &str, from: usize, epoch: u64, zone: Zone) -> Option<Candidate> {
        let mut plans = self.by_key.get(key)?.iter().enumerate().skip(from);
        let (place, entry) = plans.find(|(_, entry)| entry.is_for(epoch, zone))?;
        Some((place, Arc::clone(&entry.lifting), Arc::clone(&entry.statement)))
    }

    /// Notes that a plan was used, if it is still there.
    fn touch_plan(&mut self, key: &str, statement: &Arc<Statement>) {
        let plans = self.by_key.get(key);
        let place = plans.and_then(|plans| plans.iter().position(|entry| Arc::ptr_eq(&entry.statement, statement)));
        if let Some(place) = place {
            self.touch(key, place);
        }
    }

    fn touch(&mut self, key: &str, place: usize) -> Option<Arc<Statement>> {
        let now = self.tick();
        let entry = self.by_key.get_mut(key)?.get_mut(place)?;
        let before = std::mem::replace(&mut entry.used, now);
        let statement = Arc::clone(&entry.statement);
        if let Some(key) = self.by_age.remove(&before) {
            self.by_age.insert(now, key);
        }
        Some(statement)
    }

    /// Drops all plans for older versions of the catalog: they hold tables that may be gone. A version that a transaction has drafted
    /// counts from when it is published.
    fn follow(&mut self, epoch: u64) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        *self = Self { epoch, clock: self.clock, ..Self::default() };
    }

    fn insert(&mut self, key: &str, mut entry: Entry) {
        let key: Arc<str> = match self.by_key.get_key_value(key) {
            Some((known, _)) => Arc::clone(known),
            None => key.into(),
        };
        let now = self.tick();
        entry.used = now;
        self.bytes += entry.bytes;
        self.by_age.insert(now, Arc::clone(&key));
        let plans = self.by_key.entry(key).or_default();
        plans.push(entry);
        if plans.len() > PLANS_OF_SHAPE_MAX {
            let oldest = plans.remove(0);
            self.bytes -= oldest.bytes;
            self.by_age.remove(&oldest.used);
        }
    }

    /// Drops an equal plan, because two sessions may have planned the same text at once.
    fn drop_same(&mut self, key: &str, lifting: &Lifting, zone: Option<Zone>) {
        let Some(plans) = self.by_key.get_mut(key) else { return };
        if let Some(place) = plans.iter().position(|entry| *entry.lifting == *lifting && entry.statement.zone == zone) {
            let entry = plans.remove(place);
            self.bytes -= entry.bytes;
            self.by_age.remove(&entry.used);
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((used, key)) = self.by_age.pop_first() else { return false };
        if let Some(plans) = self.by_key.get_mut(&key) {
            if let Some(place) = plans.iter().position(|entry| entry.used == used) {
                self.bytes -= plans.remove(place).bytes;
            }
            if plans.is_empty() {
                self.by_key.remove(&key);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;

//! The life of rows in a partition: whose time has come, what a write gives a row, and who ends rows for good.
//!
//! A row whose time has come is one that was deleted then, for everybody: the key path, scans, indexes, checks for
//! conflicts. It is ended like a deleted one by the next write of its key or by the compactor, whoever is first. A
//! partition in which no row has a life of its own asks one question of one flag. Called by `apply`, `region` and
//! `compactor`.

use std::sync::Arc;

use ashlar_base::clock::millis_of;
use ashlar_base::{Datum, Eviction, IndexDef, LifeOptions, Result, Timestamp, Value};

use super::apply::Change;
use super::changed::{Changed, End};
use super::versions::Stamp;
use super::{Located, Partition};
use crate::life::{Deadline, Expiring, Expiry, Keep, Lives, Unit};
use crate::memory::Charge;
use crate::mutation::{Applied, Mutation};
use crate::rows::split;
use crate::segment::Segment;

/// What a partition knows of the life of its rows.
pub(super) struct Life {
    shared: Arc<Lives>,
    /// What the table says; none where it says nothing.
    said: Option<Box<Said>>,
    /// Something is kept of the life of a row, or will be of the next.
    is_on: bool,
}

struct Said {
    options: LifeOptions,
    keep: Keep,
    unit: Unit,
}

impl Life {
    pub(super) fn new(shared: &Arc<Lives>, options: LifeOptions) -> Self {
        if options.ttl_ms > 0 || options.max_idle_ms > 0 {
            shared.start();
        }
        let said = Said { keep: Keep::of(&options), unit: Unit::of(&options), options };
        let is_on = options.ttl_ms > 0 || said.keep.used;
        let said = (options != LifeOptions::default()).then(|| Box::new(said));
        Self { shared: Arc::clone(shared), said, is_on }
    }

    #[inline]
    fn options(&self) -> LifeOptions {
        self.said.as_ref().map_or_else(LifeOptions::default, |said| said.options)
    }

    #[inline]
    fn keep(&self) -> Keep {
        self.said.as_ref().map_or_else(Keep::default, |said| said.keep)
    }

    fn unit(&self) -> Unit {
        self.said.as_ref().map_or_else(|| Unit::of(&LifeOptions::default()), |said| said.unit)
    }

    /// How long a row lives without use.
    #[inline]
    fn idle(&self) -> Option<(u64, Unit)> {
        let said = self.said.as_ref().filter(|said| said.options.max_idle_ms > 0)?;
        Some((said.options.max_idle_ms, said.unit))
    }
}

impl Partition {
    /// The table says other things about the life of rows.
    pub(super) fn set_life(&mut self, options: LifeOptions) {
        if options == self.life.options() {
            return;
        }
        let was_on = self.life.is_on;
        let life = Life::new(&self.life.shared, options);
        if let Some(idle) = self.life.idle() {
            // What nobody has used in time has ended, whatever is said from now on.
            let now = life.shared.now();
            let over: Vec<u32> = self.rows.indexed().filter(|&row| self.is_over(row)).collect();
            for row in over {
                let (slot, offset) = split(row);
                let ends = self.rows.segment(slot).ends(offset, Some(idle), now);
                self.rows.set_deadline(row, ends);
            }
        }
        if (life.keep(), options.max_idle_ms) != (self.life.keep(), self.life.options().max_idle_ms) {
            self.rows.start_uses(life.keep(), life.unit(), options.max_idle_ms, life.shared.now());
        }
        self.life = life;
        self.life.is_on |= was_on;
    }

    /// Whether anything may be kept of the life of a row.
    #[inline]
    pub(crate) fn has_life(&self) -> bool {
        self.life.is_on
    }

    /// Whether the life of a row of a segment had ended at a time.
    #[inline]
    pub(super) fn has_passed(&self, segment: &Segment, row: u32, at: Timestamp) -> bool {
        if !segment.has_life() {
            return false;
        }
        let at = millis_of(at);
        segment.ends(split(row).1, self.life.idle(), at).has_passed(at)
    }

    /// Whether the life of a row has ended by now.
    #[inline]
    pub(crate) fn is_over(&self, row: u32) -> bool {
        self.life.is_on && self.is_over_by_now(row)
    }

    fn is_over_by_now(&self, row: u32) -> bool {
        let (slot, offset) = split(row);
        let segment = self.rows.segment(slot);
        match self.life.idle() {
            None => self.life.shared.has_come(segment.deadline(offset)),
            Some(idle) => self.life.shared.has_come(segment.ends(offset, Some(idle), self.life.shared.now())),
        }
    }

    /// Before it the life of a row does not end, unless a write says so: that it is used meanwhile makes it longer.
    pub(crate) fn lives_until(&self, row: u32) -> Deadline {
        if !self.life.is_on {
            return Deadline::NONE;
        }
        let (slot, offset) = split(row);
        let segment = self.rows.segment(slot);
        match self.life.idle() {
            None => segment.deadline(offset),
            // Within the unit in which uses are kept the end that is told moves with the time of asking.
            Some((idle, unit)) => {
                let idle = Some((idle.saturating_sub(unit.millis()), unit));
                segment.ends(offset, idle, self.life.shared.now())
            }
        }
    }

    /// Sets the bits of rows of a segment whose life had ended at a time: see [`Segment::add_passed`].
    pub(super) fn add_passed(&self, slot: u16, at: Timestamp, rows: u32, words: &mut Vec<u64>) {
        self.rows.segment(slot).add_passed(self.life.idle(), millis_of(at), rows, words);
    }

    /// When the life of a row ends that a snapshot sees, as it was said of the row itself or by its table's `ttl_ms`.
    pub(crate) fn deadline_at(&self, hash: u64, key: &[Datum<'_>], at: Timestamp) -> Option<Deadline> {
        self.locate_at(hash, key, at).map(|row| self.rows.deadline(row))
    }

    /// A row is used, which counts where the table says so.
    #[inline]
    pub(crate) fn touch(&self, row: Option<u32>) {
        if self.life.keep().used
            && let Some(row) = row
        {
            self.touch_one(row);
        }
    }

    fn touch_one(&self, row: u32) {
        let (slot, offset) = split(row);
        let (segment, shared) = (self.rows.segment(slot), &self.life.shared);
        let now = match self.life.idle() {
            None => shared.about_now(),
            Some(idle) => {
                let now = shared.now();
                // An old snapshot still sees it: nobody brings it back.
                if segment.ends(offset, Some(idle), now).has_passed(now) {
                    return;
                }
                now
            }
        };
        segment.touch(offset, self.life.unit(), now, || shared.random());
    }

    /// Whether the life of a row ends by itself, as far as is said now.
    pub(crate) fn is_mortal(&self, row: u32) -> bool {
        self.life.is_on && (self.life.idle().is_some() || self.rows.deadline(row) < Deadline::NONE)
    }

    /// Rows whose life has ended by now, and that nobody has ended for good.
    pub(crate) fn over_count(&self) -> u64 {
        if !self.life.is_on {
            return 0;
        }
        let now = self.life.shared.now();
        self.rows.in_order().map(|(_, segment)| segment.passed_count(self.life.idle(), now)).sum()
    }

    /// Rows whose life ends at a time that is known, those among them whose time has come and that nobody has ended yet. No row
    /// is looked at.
    pub(crate) fn expiring(&self) -> Expiring {
        self.rows.in_order().map(|(_, segment)| segment.expiring()).fold(Expiring::default(), Expiring::plus)
    }

    /// Whether the room is there for what a write keeps of its row's life: see [`Partition::apply`], which keeps it over the
    /// bound too.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(crate) fn check_life(&self, mutation: &Mutation<'_>, key: Located) -> Result<()> {
        let says = matches!(mutation, Mutation::Living { expiry: Expiry::At(_) | Expiry::Never, .. });
        // A full store must be able to give memory back.
        if !says && !self.life.is_on || matches!(mutation.write(), Mutation::Delete { .. }) {
            return Ok(());
        }
        let has_deadline = says || self.life.options().ttl_ms > 0;
        // So must one whose rows are told to end.
        let ends_only = matches!(mutation.write(), Mutation::Update { changes, .. } if changes.is_empty());
        match self.rows.life_growth(key.row, has_deadline, self.life.keep()) {
            0 => Ok(()),
            bytes if ends_only => Charge::of_statement(self.rows.account(), bytes).map(drop),
            bytes => Charge::new(self.rows.account(), bytes).map(drop),
        }
    }

    /// Applies a write, and gives its row the life that it is to have.
    pub(super) fn apply_living(
        &mut self,
        write: &Mutation<'_>,
        expiry: Expiry,
        key: Located,
        stamp: Stamp,
    ) -> Result<Change> {
        if key.row.is_none() {
            self.bury(write, key.hash, stamp);
        }
        let old = key.row.map(|row| self.rows.deadline(row));
        let change = self.write(write, key, stamp)?;
        let (Some(row), Applied::Inserted | Applied::Updated) = (change.row, change.applied) else { return Ok(change) };
        let now = self.life.shared.now();
        let deadline = Deadline::given(expiry, old, self.life.options().ttl_ms, now);
        if deadline < Deadline::NONE {
            self.life.shared.start();
            self.life.is_on = true;
        }
        self.rows.set_deadline(row, deadline);
        self.rows.begin_use(row, self.life.keep(), self.life.unit(), self.life.options().max_idle_ms, now);
        Ok(change)
    }

    /// Ends the row of a key for good whose time has come, so that the key can have another.
    fn bury(&mut self, write: &Mutation<'_>, hash: u64, stamp: Stamp) {
        if let Mutation::Insert { row } | Mutation::Upsert { row } = write {
            let key: Vec<Datum<'_>> = self.shape.key_of(row).cloned().collect();
            self.bury_key(&key, hash, stamp);
        }
    }

    /// Ends the row of a key for good: one whose time has come, for the key is about to be that of another row.
    pub(crate) fn bury_key(&mut self, key: &[Datum<'_>], hash: u64, stamp: Stamp) {
        if let Some(row) = self.rows.find(hash, key) {
            self.end_for_good(row, Some(hash), stamp, End::Expired);
            self.life.shared.count_expired(1);
        }
    }

    /// Ends the rows of the keys for good that another partition's rows have: they are over, for those keys are new.
    pub(crate) fn bury_keys_of(&mut self, loaded: &Self, stamp: Stamp) {
        let keys = loaded.shape.schema.key.clone();
        for row in loaded.rows.indexed() {
            let key: Vec<_> = keys.iter().map(|&ordinal| loaded.row(row).get(ordinal)).collect();
            self.bury_key(&key, loaded.rows.hash_of(row), stamp);
        }
    }

    /// Ends a row for good that has values of a unique index and whose time has come: whether there was one.
    pub(crate) fn bury_value(&mut self, index: &Arc<IndexDef>, values: &[Value], stamp: Stamp) -> bool {
        let Some(row) = self.find_over(index, values) else { return false };
        self.end_for_good(row, None, stamp, End::Expired);
        self.life.shared.count_expired(1);
        true
    }

    /// Ends those of some rows for good whose time has come. `stamp` is asked for where there are any.
    pub(super) fn bury_some(&mut self, rows: &[u32], stamp: impl FnOnce() -> Stamp) {
        if !self.life.is_on {
            return;
        }
        let is_left_over = |row: &u32| !self.rows.is_dead(*row) && self.is_over(*row);
        let over: Vec<u32> = rows.iter().copied().filter(is_left_over).collect();
        if over.is_empty() {
            return;
        }
        let stamp = stamp();
        for &row in &over {
            self.end_for_good(row, None, stamp, End::Expired);
        }
        self.life.shared.count_expired(over.len() as u64);
    }

    fn end_for_good(&mut self, row: u32, hash: Option<u64>, stamp: Stamp, why: End) {
        if self.end(row, None, stamp) {
            let hash = hash.unwrap_or_else(|| self.rows.hash_of(row));
            self.unindex(hash, row);
        }
        self.tell(Changed::Ended { hash, row, why });
    }

    /// Ends rows of one segment for good whose time has come, at most so many: `place` is the segment's in their order.
    /// Gives the place to go on with; `None`: all have been looked at.
    pub(crate) fn reap(&mut self, place: usize, stamp: Stamp, count_max: usize) -> Option<usize> {
        if !self.life.is_on {
            return None;
        }
        if place >= self.rows.segment_count() {
            // Nothing is asked any more once nothing is kept.
            self.life.is_on = self.life.options().ttl_ms > 0 || self.life.keep().used || self.rows.have_life();
            return None;
        }
        let mut rows = Vec::new();
        let is_all = self.rows.passed(place, self.life.idle(), self.life.shared.now(), count_max, &mut rows);
        for &row in &rows {
            self.end_for_good(row, None, stamp, End::Expired);
        }
        self.life.shared.count_expired(rows.len() as u64);
        Some(if is_all { place + 1 } else { place })
    }

    /// Ends rows for good so that others have room: about as many as said, the least wanted of several times as many that
    /// are picked at random. Rows that are locked stay. Gives how many went.
    pub(crate) fn evict(&mut self, count: usize, stamp: Stamp) -> usize {
        let Some(mut sample) = self.sample(count) else { return 0 };
        let attention = self.listeners.attention();
        // With the partition locked, as every writer asks.
        if attention.is_wanted() {
            sample.retain(|&row| attention.lets_go(self.rows.hash_of(row)));
        }
        for &row in &sample {
            self.end_for_good(row, None, stamp, End::Evicted);
        }
        self.life.shared.count_evicted(sample.len() as u64);
        sample.len()
    }

    fn sample(&self, count: usize) -> Option<Vec<u32>> {
        let eviction = self.life.options().eviction;
        let total = usize::try_from(self.rows.total()).unwrap_or(usize::MAX);
        if eviction == Eviction::None || total == 0 || count == 0 {
            return None;
        }
        let wanted = match eviction {
            Eviction::Random => count,
            Eviction::None | Eviction::Lru | Eviction::Lfu => count.saturating_mul(SAMPLE_SHARE).max(SAMPLE_MIN),
        };
        let mut sample: Vec<u32> = if wanted * 2 >= self.rows.live() as usize {
            self.rows.living().collect()
        } else {
            let ends: Vec<usize> = self
                .rows
                .in_order()
                .scan(0, |end, (_, segment)| {
                    *end += segment.len() as usize;
                    Some(*end)
                })
                .collect();
            // Half of the places may be of rows that are ended.
            let picks = (0..wanted * 2).map(|_| (self.life.shared.random() % total as u64) as usize);
            let mut picked: Vec<u32> = picks.filter_map(|pick| self.rows.living_at(&ends, pick)).collect();
            picked.sort_unstable();
            picked.dedup();
            picked
        };
        let now = self.life.shared.about_now();
        match eviction {
            Eviction::Random => {
                // In the order of their ids they are not.
                for index in (1..sample.len()).rev() {
                    sample.swap(index, (self.life.shared.random() % (index as u64 + 1)) as usize);
                }
            }
            Eviction::None | Eviction::Lru | Eviction::Lfu => sample.sort_by_cached_key(|&row| {
                let (slot, offset) = split(row);
                self.rows.segment(slot).worth(offset, self.life.unit(), now)
            }),
        }
        sample.truncate(count);
        Some(sample)
    }
}

/// Rows that are looked at for each that goes: Redis's `maxmemory-samples` is five too.
const SAMPLE_SHARE: usize = 5;
/// And at least so many.
const SAMPLE_MIN: usize = 16;

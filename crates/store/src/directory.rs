//! Which partitions may hold rows of an indexed value: a question about one value need not be asked of every partition.
//!
//! ```text
//!   line      a bit for each partition of the region
//!   value     hashes to three lines; a partition has the value only if its bit is set in all of them
//!   directory sixteen lines for each value that a partition is expected to have: two bytes an entry with 256 partitions
//! ```
//! A Bloom filter for each partition (Bloom: "Space/time trade-offs in hash coding with allowable errors", 1970), bits of the
//! same place side by side, as BitFunnel has them for documents (Goodwin et al., SIGIR 2017): three reads answer for all
//! partitions. Bits are set under the partition's lock, when an entry comes, and never taken back: when entries have come
//! and gone for long, the compactor makes a new directory beside the old one.
//!
//! A reader takes no lock. What it must not do is to pass over a partition whose writer has its timestamp already, within
//! the reader's snapshot, and has not come to its bits yet. Such a writer holds the partition's lock, or has left its work
//! in the partition's place: see [`Region::candidates`].

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::{Datum, IndexKind, PartitionId, Result, TableId, Value};

use crate::key;
use crate::memory::{Account, Charge};
use crate::partition::Probe;
use crate::region::Region;
use crate::shape::has_type;
use crate::snapshot::Snapshot;
use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Lines that a value hashes to.
const LINES: u64 = 3;
/// Lines for each value that a partition is expected to have: about one partition in two hundred is then asked although it lacks the
/// value.
const LINES_PER_VALUE: u64 = 16;
/// Capacity of the smallest directory, in values.
const VALUES_MIN: u64 = 1024;
/// Entries whose bits are set while a partition's lock is held once.
const ENTRIES_PER_LOCK: usize = 1024;

/// See the module.
pub(crate) struct Directory {
    words: Box<[AtomicU64]>,
    words_per_line: usize,
    lines: u64,
    /// Values of all partitions that it is sized for; beyond that, more and more partitions are asked in vain.
    values_max: u64,
    _charge: Charge,
}

/// A set of partitions of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions(Box<[u64]>);

/// The directories of one index.
#[derive(Clone, Default)]
pub(crate) struct Directories {
    /// The complete directory, which readers use.
    pub(crate) current: Option<Arc<Directory>>,
    /// The directory that is being built: it has every entry added since the building began, and some of the older ones.
    pub(crate) next: Option<Arc<Directory>>,
}

/// The directories of a region's indexes, by index.
pub(crate) type ByIndex = HashMap<TableId, Directories>;

impl Directory {
    /// An empty directory, sized for this many values and partitions.
    ///
    /// # Errors
    /// 53200 if it does not fit within the memory bound.
    pub(crate) fn new(account: &Arc<Account>, partition_count: u16, values: u64) -> Result<Arc<Self>> {
        let values_max = values.max(VALUES_MIN);
        let words_per_line = usize::from(partition_count).div_ceil(64);
        let lines = LINES_PER_VALUE * values_max.div_ceil(u64::from(partition_count)).max(4);
        let words = lines as usize * words_per_line;
        let charge = Charge::new(account, words * size_of::<u64>())?;
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Self { words, words_per_line, lines, values_max, _charge: charge }))
    }

    /// Values that it is sized for.
    pub(crate) fn values_max(&self) -> u64 {
        self.values_max
    }

    /// The positions of the first words of a value's lines.
    fn lines(&self, hash: u64) -> impl Iterator<Item = usize> {
        let (lines, words_per_line) = (u128::from(self.lines), self.words_per_line);
        (0..LINES).map(move |number| {
            let line = (u128::from(mixed(hash.wrapping_add(number.wrapping_mul(GOLDEN)))) * lines) >> 64;
            line as usize * words_per_line
        })
    }

    /// Notes that a partition has a value of this hash.
    pub(crate) fn add(&self, hash: u64, partition: PartitionId) {
        let (word, bit) = (usize::from(partition.0) / 64, 1 << (partition.0 % 64));
        for line in self.lines(hash) {
            let word = &self.words[line + word];
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Removes from `partitions` all but those that may have a value of this hash and those in `always`.
    fn keep(&self, hash: u64, partitions: &mut Partitions, always: &Partitions) {
        for line in self.lines(hash) {
            let words = &self.words[line..line + self.words_per_line];
            for ((kept, always), word) in partitions.0.iter_mut().zip(&always.0).zip(words) {
                *kept &= word.load(Ordering::Relaxed) | always;
            }
        }
    }
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

impl Partitions {
    /// The partition that owns a key; no partition if no row can have the key.
    pub fn with_key(region: &Region, key: &[Datum<'_>]) -> Self {
        let mut partitions = Self::of(region.partition_count(), 0);
        if let Some(owner) = region.partition_of(key) {
            partitions.insert(owner.0);
        }
        partitions
    }

    /// The empty set.
    pub fn none(region: &Region) -> Self {
        Self::of(region.partition_count(), 0)
    }

    /// Adds a partition.
    pub fn add(&mut self, partition: PartitionId) {
        self.insert(partition.0);
    }

    /// Adds the partitions of another set.
    pub fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    fn of(count: u16, value: u64) -> Self {
        Self(vec![value; usize::from(count).div_ceil(64)].into())
    }

    fn insert(&mut self, partition: u16) {
        self.0[usize::from(partition) / 64] |= 1 << (partition % 64);
    }

    /// Whether a partition is in the set.
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.0.get(usize::from(partition.0) / 64).is_some_and(|word| word & 1 << (partition.0 % 64) != 0)
    }

    /// The partitions in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.0.iter().zip(0u16..).flat_map(|(word, place)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as u16)?;
                left &= left - 1;
                Some(PartitionId(place * 64 + bit))
            })
        })
    }
}

/// How many leading columns are hashed for the directories of an index: one, and all of them. An index by hash can only be asked for all.
pub(crate) fn hashed_lengths(kind: IndexKind, columns: usize) -> impl Iterator<Item = usize> {
    let first = (kind == IndexKind::Btree && columns > 1).then_some(1);
    first.into_iter().chain([columns])
}

impl Region {
    /// The partitions that may have a row which is visible to the snapshot and found by all of these probes; `None` if it can be any
    /// partition.
    pub fn candidates(&self, snapshot: &Snapshot, probes: &[Probe]) -> Option<Partitions> {
        let asked: Vec<&[Probe]> = probes.iter().map(std::slice::from_ref).collect();
        self.candidates_of(snapshot, &asked)
    }

    /// The partitions that may have a row which is visible to the snapshot and found by one probe of each of these lists; `None` if it
    /// can be any partition.
    pub fn candidates_of(&self, snapshot: &Snapshot, asked: &[&[Probe]]) -> Option<Partitions> {
        if self.is_younger_than(snapshot) {
            // Whoever reads any of them is told so.
            return None;
        }
        let count = self.partition_count();
        // Where the probe says which partition a row would be in, no directory knows better.
        let alone =
            asked.iter().find_map(|union| if let [probe] = union { self.partition_of_probe(probe) } else { None });
        if let Some(alone) = alone {
            let mut partitions = Partitions::of(count, 0);
            partitions.add(alone);
            return Some(partitions);
        }
        let mut known: Vec<Vec<(Arc<Directory>, u64)>> = Vec::new();
        {
            let directories = self.directories().read();
            let of = |probe: &Probe| {
                let current = directories.get(&probe.index.id)?.current.as_ref()?;
                let lengths = hashed_lengths(probe.index.kind, probe.index.columns.len());
                let length = lengths.filter(|length| *length <= probe.equal.len()).max()?;
                Some((Arc::clone(current), self.hash_values(&probe.equal[..length])))
            };
            // A list of which one probe says nothing says nothing.
            known.extend(asked.iter().filter_map(|union| union.iter().map(of).collect::<Option<Vec<_>>>()));
        }
        if known.is_empty() {
            return None;
        }
        // The snapshot has read the clock, and so knows of every writer with an earlier timestamp that it has the lock.
        // Where it has it no longer, its bits are there: it let go after setting them, or after leaving that to be done.
        let mut busy = Partitions::of(count, 0);
        (0..count).filter(|partition| self.is_busy(PartitionId(*partition))).for_each(|busy_one| busy.insert(busy_one));
        fence(Ordering::Acquire);
        let mut partitions = Partitions::of(count, u64::MAX);
        for union in known {
            if let [(directory, hash)] = &union[..] {
                directory.keep(*hash, &mut partitions, &busy);
                continue;
            }
            let mut any = Partitions::of(count, 0);
            for (directory, hash) in &union {
                let mut one = Partitions::of(count, u64::MAX);
                directory.keep(*hash, &mut one, &busy);
                any.0.iter_mut().zip(&one.0).for_each(|(any, one)| *any |= one);
            }
            partitions.0.iter_mut().zip(&any.0).for_each(|(kept, any)| *kept &= any);
        }
        if count < 64 {
            partitions.0[0] &= (1 << count) - 1;
        }
        Some(partitions)
    }

    /// The partition of all rows that a probe finds, if the probe has values for every column of `partition_by`.
    fn partition_of_probe(&self, probe: &Probe) -> Option<PartitionId> {
        let shape = self.shape();
        let schema = &shape.schema;
        if schema.partition_by.len() >= schema.key.len() {
            return None;
        }
        let mut key = vec![Datum::Null; schema.key.len()];
        for ordinal in &schema.partition_by {
            let place = schema.key.iter().position(|known| known == ordinal)?;
            let column = schema.columns.get(*ordinal)?;
            let value = probe.equal.get(probe.index.columns.iter().position(|known| *known == column.id)?)?.as_datum();
            // What is no value of the column, such as NULL, says nothing of a partition.
            if value.is_null() || !has_type(column.sql_type, &value) {
                return None;
            }
            key[place] = value;
        }
        Some(self.partition_of_parts(&key))
    }

    fn hash_values(&self, values: &[Value]) -> u64 {
        key::hash(&self.common().hasher, values.iter().map(Value::as_datum))
    }

    /// Builds the directories that are missing, too full or too large. Called by one thread at a time.
    pub(crate) fn refresh_directories(&self) {
        let indexes = self.every_index();
        if indexes.is_empty() && self.directories().read().is_empty() {
            return;
        }
        self.directories().write().retain(|id, _| indexes.iter().any(|index| index.id == *id));
        for index in indexes.iter() {
            if let Some(taken) = self.taken(index.id) {
                taken.shrink();
            }
            let (mut entries, mut added) = (0, 0);
            let complete = self.all_partitions().all(|partition| {
                let guard = self.lock(partition);
                guard.as_deref().is_none_or(|stored| {
                    let counts = stored.index_counts(index);
                    let (has, came) = counts.unwrap_or_default();
                    (entries, added) = (entries + has, added + came);
                    counts.is_some()
                })
            });
            // An index that is still being made gets its directory in a later round.
            if !complete {
                continue;
            }
            let per_entry = hashed_lengths(index.kind, index.columns.len()).count() as u64;
            let current = self.directories().read().get(&index.id).and_then(|found| found.current.clone());
            let fits = current.is_some_and(|current| {
                let is_large = current.values_max() > 8 * (entries * per_entry).max(VALUES_MIN);
                added * per_entry <= current.values_max() && !is_large
            });
            if entries == 0 {
                self.forget_directory(index.id);
                continue;
            }
            // One partition is asked in any case.
            if fits || self.partition_count() == 1 {
                continue;
            }
            let values = (entries + entries / 2) * per_entry;
            // Without memory for it more partitions are asked.
            if let Ok(next) = Directory::new(self.account(), self.partition_count(), values) {
                self.change_directory(index.id, &next);
            }
        }
    }

    /// Replaces the directory of an index by one that has been filled from its entries.
    fn change_directory(&self, index: TableId, next: &Arc<Directory>) {
        // First for the partitions that will come, then for those that are there: from then on none misses an entry.
        self.directories().write().entry(index).or_default().next = Some(Arc::clone(next));
        for partition in self.all_partitions() {
            loop {
                let mut guard = self.lock(partition);
                let is_told = guard.as_mut().is_none_or(|stored| stored.fill(index, next, ENTRIES_PER_LOCK));
                guard.unlock_fair();
                if is_told {
                    break;
                }
            }
        }
        {
            let mut directories = self.directories().write();
            // One that was dropped meanwhile, or that is being dropped, must not have one that nobody fills.
            if !self.every_index().iter().any(|there| there.id == index) {
                directories.remove(&index);
                return;
            }
            directories.insert(index, Directories { current: Some(Arc::clone(next)), next: None });
        }
        // Readers that still have the old one took it before its entries could be missing in it: no snapshot of theirs
        // sees what comes from now on.
        for partition in self.all_partitions() {
            if let Some(stored) = self.lock(partition).as_mut() {
                stored.settle_directory(index, next);
            }
        }
    }

    /// Removes the directory of an index without entries: every partition is asked, which is cheap then.
    fn forget_directory(&self, index: TableId) {
        if self.directories().write().remove(&index).is_none() {
            return;
        }
        for partition in self.all_partitions() {
            if let Some(stored) = self.lock(partition).as_mut() {
                stored.forget_directory(index);
            }
        }
    }

    fn all_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partition_count()).map(PartitionId)
    }
}

#[cfg(test)]
mod tests;

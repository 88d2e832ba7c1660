//! The values of a unique index that are taken, across all partitions of a region.
//!
//! ```text
//!   value        up to 15 bytes that are the values themselves, else 15 bytes of a keyed hash of them
//!   slot         value, partition of the row that has it, how many rows have it
//!   stripe       a part of all values, behind a lock of its own
//! ```
//! A row claims its values before it is written and releases them when it ends, both with the lock of its partition
//! held. Stripe locks are the last in the lock order, sorted by (index, stripe), and no partition is locked while one
//! is held, so writers cannot deadlock. All values of a commit are checked and claimed under the locks of their
//! stripes: of two commits that want the same value one gets it, and the other has claimed nothing.
//!
//! A value has two rows only while a commit is applied that ends one and begins the other. An expired row keeps its
//! values until it is removed: a writer that wants one of them removes it first (`region::unique`). Longer values are
//! compared by 120 bits of SipHash under two random keys that never leave the process: a collision is less likely than
//! a memory error.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use ashlar_base::value::interval::arithmetic::order as length;
use ashlar_base::{Datum, PartitionId, Result, TableId};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::memory::{Account, Charge};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Parts of the values of an index.
const STRIPES: usize = 64;

/// Claims that are taken in one hold of their stripes' locks.
const CLAIMS_AT_ONCE: usize = if cfg!(any(test, shuttle)) { 3 } else { 1024 };

/// The most bytes of values that are kept as they are.
const EXACT_BYTES: usize = 15;

/// Bytes that a thread keeps between two fingerprints: nobody charges them.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// The values of a row in the columns of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint([u8; EXACT_BYTES + 1]);

/// See the module.
pub(crate) struct Taken {
    index: TableId,
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
    long: [std::collections::hash_map::RandomState; 2],
    /// Every partition has taken its values: whoever finds none knows that there is none.
    complete: AtomicBool,
}

struct Stripe {
    table: HashTable<Slot>,
    charge: Charge,
}

/// Bytes without gaps: there are many of them.
struct Slot {
    value: Fingerprint,
    partition: [u8; 2],
    rows: u8,
}

const _: () = assert!(size_of::<Slot>() == 19);

/// A value that a row is about to have.
pub(crate) struct Claim {
    pub(crate) taken: Arc<Taken>,
    pub(crate) value: Fingerprint,
    hash: u64,
    partition: PartitionId,
    /// The commit that takes it ends the row that has it.
    pub(crate) is_released: bool,
    /// Whoever had it before.
    before: Option<PartitionId>,
    /// What the caller knows its row by: claims of one row have the same, those of two rows never do.
    pub(crate) number: usize,
}

/// What became of claims.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// All of them are taken.
    All,
    /// None is, because of one of them: its index, and the number of its row. `is_own`: another one of the same claims
    /// wants the value, nobody has it yet.
    Clash { index: TableId, number: usize, is_own: bool },
}

impl Claim {
    pub(crate) fn new(taken: &Arc<Taken>, value: Fingerprint, partition: PartitionId, number: usize) -> Self {
        let hash = taken.hash(value);
        Self { taken: Arc::clone(taken), value, hash, partition, is_released: false, before: None, number }
    }

    /// Where it stands in the order of locks.
    fn place(&self) -> (TableId, usize) {
        (self.taken.index, stripe_of(self.hash))
    }
}

/// Not the bits that the tables themselves use.
fn stripe_of(hash: u64) -> usize {
    (hash >> 32) as usize % STRIPES
}

/// Takes values, all of them or none. Their order is changed.
///
/// # Errors
/// 53200 over the memory bound; nothing is taken then.
pub(crate) fn claim(claims: &mut [Claim]) -> Result<Claimed> {
    claims.sort_unstable_by_key(|claim| (claim.place(), claim.value));
    // The guards borrow them while the claims are changed.
    let tables: Vec<Arc<Taken>> =
        claims.chunk_by(|left, right| left.place() == right.place()).map(|group| Arc::clone(&group[0].taken)).collect();
    let groups = claims.chunk_by_mut(|left, right| left.place() == right.place());
    let mut groups: Vec<&mut [Claim]> = groups.collect();
    let mut guards: Vec<MutexGuard<'_, Stripe>> = Vec::with_capacity(groups.len());
    for (group, taken) in groups.iter().zip(&tables) {
        guards.push(taken.stripes[group[0].place().1].lock());
    }
    for (group, stripe) in groups.iter().zip(&guards) {
        // All claims of a group are of one index.
        let clash = |number, is_own| Ok(Claimed::Clash { index: group[0].taken.index, number, is_own });
        if let Some(pair) = group.windows(2).find(|pair| pair[0].value == pair[1].value) {
            return clash(pair[0].number.max(pair[1].number), true);
        }
        let has_it = |claim: &&Claim| !claim.is_released && stripe.find(claim.hash, claim.value).is_some();
        if let Some(number) = group.iter().filter(has_it).map(|claim| claim.number).min() {
            return clash(number, false);
        }
    }
    for ((group, stripe), taken) in groups.iter().zip(&mut guards).zip(&tables) {
        stripe.reserve(group.len(), &taken.hasher)?;
    }
    for ((group, stripe), taken) in groups.iter_mut().zip(&mut guards).zip(&tables) {
        for claim in group.iter_mut() {
            stripe.take(claim, &taken.hasher);
        }
    }
    Ok(Claimed::All)
}

/// Like [`claim`], under the locks of some stripes at a time: somebody else may find values taken that are given back at once.
pub(crate) fn claim_in_parts(claims: &mut [Claim]) -> Result<Claimed> {
    claims.sort_unstable_by_key(|claim| (claim.place(), claim.value));
    let mut start = 0;
    while start < claims.len() {
        let is_same = |left: &Claim, right: &Claim| (left.place(), left.value) == (right.place(), right.value);
        let mut end = (start + CLAIMS_AT_ONCE).min(claims.len());
        // Two that want the same value are to be found out together.
        while end < claims.len() && is_same(&claims[end - 1], &claims[end]) {
            end += 1;
        }
        match claim(&mut claims[start..end]) {
            Ok(Claimed::All) => start = end,
            refused => {
                unclaim(&claims[..start]);
                return refused;
            }
        }
    }
    Ok(Claimed::All)
}

/// Gives claims back whose rows did not come.
pub(crate) fn unclaim(claims: &[Claim]) {
    for claim in claims {
        let mut stripe = claim.taken.stripes[claim.place().1].lock();
        if let Some(before) = claim.before
            && let Some(slot) = stripe.find_mut(claim.hash, claim.value)
        {
            slot.partition = before.0.to_ne_bytes();
        }
        stripe.give_back(claim.hash, claim.value);
    }
}

impl Taken {
    /// No value.
    pub(crate) fn new(index: TableId, account: &Arc<Account>, hasher: &RandomState) -> Arc<Self> {
        let stripe = |_| Mutex::new(Stripe { table: HashTable::new(), charge: Charge::empty(account) });
        Arc::new(Self {
            index,
            stripes: (0..STRIPES).map(stripe).collect(),
            hasher: hasher.clone(),
            long: Default::default(),
            complete: AtomicBool::new(false),
        })
    }

    pub(crate) fn index(&self) -> TableId {
        self.index
    }

    /// Every partition has taken its values.
    pub(crate) fn complete(&self) {
        self.complete.store(true, Ordering::Release);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    fn hash(&self, value: Fingerprint) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(&value.0);
        hasher.finish()
    }

    /// The fingerprint of values in the order of the index's columns.
    pub(crate) fn fingerprint<'d>(&self, values: impl Iterator<Item = Datum<'d>>) -> Fingerprint {
        thread_local! {
            static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        SCRATCH.with_borrow_mut(|bytes| {
            bytes.clear();
            values.for_each(|value| write(&value, bytes));
            let fingerprint = self.fingerprint_of(bytes);
            bytes.clear();
            bytes.shrink_to(SCRATCH_BYTES_MAX);
            fingerprint
        })
    }

    fn fingerprint_of(&self, bytes: &[u8]) -> Fingerprint {
        let mut fingerprint = [0; EXACT_BYTES + 1];
        if bytes.len() <= EXACT_BYTES {
            fingerprint[0] = bytes.len() as u8;
            fingerprint[1..=bytes.len()].copy_from_slice(bytes);
            return Fingerprint(fingerprint);
        }
        for (half, state) in fingerprint.chunks_exact_mut(8).zip(&self.long) {
            let mut hasher = state.build_hasher();
            hasher.write(bytes);
            half.copy_from_slice(&hasher.finish().to_ne_bytes());
        }
        // No length of what is kept as it is.
        fingerprint[0] = u8::MAX;
        Fingerprint(fingerprint)
    }

    /// The partition with the row that has a value.
    pub(crate) fn holder(&self, value: Fingerprint) -> Option<PartitionId> {
        let hash = self.hash(value);
        let stripe = self.stripes[stripe_of(hash)].lock();
        stripe.find(hash, value).map(|slot| PartitionId(u16::from_ne_bytes(slot.partition)))
    }

    /// A row that had a value is ended.
    pub(crate) fn release(&self, value: Fingerprint) {
        let hash = self.hash(value);
        self.stripes[stripe_of(hash)].lock().give_back(hash, value);
    }

    /// Gives memory back where most values are gone.
    pub(crate) fn shrink(&self) {
        for stripe in &self.stripes {
            stripe.lock().shrink(&self.hasher);
        }
    }

    /// Values that are taken.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().table.len()).sum()
    }

    /// Whether no value has more than one row.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.stripes.iter().all(|stripe| stripe.lock().table.iter().all(|slot| slot.rows == 1))
    }
}

/// Bytes of a table of so many slots and a control byte each.
fn table_bytes(buckets: usize) -> usize {
    buckets * (size_of::<Slot>() + 1) + 32
}

fn buckets_for(entries: usize) -> usize {
    (entries * 8 / 7 + 1).next_power_of_two().max(4)
}

fn hash_of(hasher: &RandomState, slot: &Slot) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(&slot.value.0);
    hasher.finish()
}

impl Stripe {
    fn find(&self, hash: u64, value: Fingerprint) -> Option<&Slot> {
        self.table.find(hash, |slot| slot.value == value)
    }

    fn find_mut(&mut self, hash: u64, value: Fingerprint) -> Option<&mut Slot> {
        self.table.find_mut(hash, |slot| slot.value == value)
    }

    fn reserve(&mut self, additional: usize, hasher: &RandomState) -> Result<()> {
        let (entries, capacity) = (self.table.len() + additional, self.table.capacity());
        if entries <= capacity {
            return Ok(());
        }
        // Both tables exist while the slots move.
        let grown = table_bytes(buckets_for(entries.max(capacity + 1)));
        self.charge.try_resize(self.table.allocation_size() + grown)?;
        self.table.reserve(additional, |slot| hash_of(hasher, slot));
        self.charge.resize(self.table.allocation_size());
        Ok(())
    }

    /// Room is reserved.
    fn take(&mut self, claim: &mut Claim, hasher: &RandomState) {
        let partition = claim.partition.0.to_ne_bytes();
        if let Some(slot) = self.find_mut(claim.hash, claim.value) {
            claim.before = Some(PartitionId(u16::from_ne_bytes(slot.partition)));
            slot.partition = partition;
            slot.rows += 1;
            return;
        }
        let slot = Slot { value: claim.value, partition, rows: 1 };
        self.table.insert_unique(claim.hash, slot, |slot| hash_of(hasher, slot));
    }

    /// One row less has a value. None has it where the index is about to be dropped by the commit that wrote the row.
    fn give_back(&mut self, hash: u64, value: Fingerprint) {
        let Ok(mut entry) = self.table.find_entry(hash, |slot| slot.value == value) else { return };
        if entry.get().rows > 1 {
            entry.get_mut().rows -= 1;
        } else {
            entry.remove();
        }
    }

    fn shrink(&mut self, hasher: &RandomState) {
        if self.table.is_empty() {
            self.table = HashTable::new();
            self.charge.resize(0);
            return;
        }
        let buckets = self.table.num_buckets();
        if buckets <= 16 || self.table.len() * 4 > buckets {
            return;
        }
        let entries = self.table.len() + self.table.len() / 4;
        self.charge.resize(self.table.allocation_size() + table_bytes(buckets_for(entries)));
        self.table.shrink_to(entries, |slot| hash_of(hasher, slot));
        self.charge.resize(self.table.allocation_size());
    }
}

/// Appends a value: bytes that are those of no other values, where what stands before is the same. Values that are equal
/// have the same, as `order::compare` has it.
fn write(value: &Datum<'_>, out: &mut Vec<u8>) {
    match value {
        Datum::Null => out.push(0x00),
        Datum::Bool(value) => out.push(0x01 + u8::from(*value)),
        Datum::Int2(value) => write_integer(i128::from(*value), out),
        Datum::Int4(value) | Datum::Date(value) => write_integer(i128::from(*value), out),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => write_integer(i128::from(*value), out),
        Datum::Numeric(value) => write_integer(*value, out),
        Datum::Float4(value) => write_float(f64::from(*value), out),
        Datum::Float8(value) => write_float(*value, out),
        Datum::Text(value) => write_bytes(value.as_bytes(), out),
        Datum::Bytea(value) => write_bytes(value, out),
        Datum::Uuid(value) => {
            out.push(0x05);
            out.extend_from_slice(value);
        }
        Datum::Interval(value) => write_integer(length(*value), out),
        Datum::Array(items) => {
            out.push(0x06);
            write_length(items.len(), out);
            items.iter().for_each(|item| write(&item, out));
        }
    }
}

/// As few bytes as it has, after their count.
fn write_integer(value: i128, out: &mut Vec<u8>) {
    // Small ones are small, below zero too.
    let folded = ((value << 1) ^ (value >> 127)).cast_unsigned();
    let bytes = folded.to_le_bytes();
    let len = 16 - folded.leading_zeros() as usize / 8;
    out.push(0x10 + len as u8);
    out.extend_from_slice(&bytes[..len]);
}

fn write_float(value: f64, out: &mut Vec<u8>) {
    let value = if value.is_nan() { f64::NAN } else { value };
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    out.push(0x03);
    out.extend_from_slice(&bits.to_be_bytes());
}

/// Texts of up to 13 bytes are kept as they are.
fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(0x04);
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_length(mut len: usize, out: &mut Vec<u8>) {
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

#[cfg(test)]
mod tests;

//! A partition of a region: its rows, their versions, and everything that happens under its lock.
//!
//! Called by `region` (key path, scans), `commit` (transactions) and `compactor`. `apply` changes rows, and `life` ends
//! them by itself; nothing else does, and both tell `changed`, where others listen; `versions` says who sees which row;
//! `indexes` finds rows by other columns than the key; `scan` lends columns; `compact` gives memory back. Never waits for
//! anything, and never takes the lock of another partition.

mod apply;
mod changed;
mod checks;
mod compact;
mod computed;
mod indexes;
mod life;
mod scan;
mod search;
mod versions;
mod walk;

use std::sync::Arc;

use ashlar_base::{Datum, PartitionId, Timestamp};
use foldhash::fast::RandomState;

pub(crate) use apply::Change;
pub(crate) use changed::Listeners;
pub(crate) use checks::{Examined, Prepared, Refused};
pub(crate) use compact::Limits;
pub use indexes::Probe;
pub(crate) use indexes::Shared;
pub(crate) use scan::{Picture, record_batch};
pub(crate) use versions::Stamp;
pub use walk::Walk;

use crate::life::Lives;
use crate::memory::{Account, Charge};
use crate::row::RowRef;
use crate::rows::{Rows, join, split};
use crate::segment::Segment;
use crate::shape::Shape;
use indexes::Index;
use life::Life;
use versions::Versions;

/// See the module.
pub(crate) struct Partition {
    id: PartitionId,
    shape: Arc<Shape>,
    rows: Rows,
    versions: Versions,
    indexes: Vec<Index>,
    /// The values of indexes' expressions for the row that is about to be written.
    prepared: Option<Box<Prepared>>,
    life: Life,
    listeners: Listeners,
    /// See [`Self::turnover`].
    turnover: u64,
    /// The end of the rows at the last round of the compactor.
    last_end: (u64, u32),
    _charge: Charge,
}

/// A key's hash, and the id of its present row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) hash: u64,
    pub(crate) row: Option<u32>,
}

/// What has happened to a key since a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Nothing: the row visible then is the present one, or there was none and is none.
    Same,
    /// There was no row, and there is one now.
    Appeared,
    /// There was a row, and it has been replaced or is gone.
    Changed,
}

impl Since {
    /// Whether nothing has happened.
    pub(crate) fn is_same(self) -> bool {
        self == Self::Same
    }
}

impl Partition {
    pub(crate) fn new(
        id: PartitionId,
        shape: &Arc<Shape>,
        account: &Arc<Account>,
        hasher: RandomState,
        segment_rows: u32,
        lives: &Arc<Lives>,
        listeners: &Listeners,
    ) -> Self {
        Self {
            id,
            shape: Arc::clone(shape),
            rows: Rows::new(account, hasher, segment_rows),
            versions: Versions::new(account),
            indexes: Vec::new(),
            prepared: None,
            life: Life::new(lives, shape.schema.life),
            listeners: listeners.clone(),
            turnover: 0,
            last_end: (0, 0),
            // The partition itself and its first lists of segments.
            _charge: Charge::forced(account, size_of::<Self>() + 64),
        }
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The number of rows that are not ended.
    pub(crate) fn live(&self) -> u64 {
        self.rows.live()
    }

    /// The number of rows, ended ones included.
    pub(crate) fn total(&self) -> u64 {
        self.rows.total()
    }

    /// Bytes of the rows, ended ones included.
    pub(crate) fn row_bytes(&self) -> usize {
        self.rows.in_order().map(|(_, segment)| segment.bytes()).sum()
    }

    /// Whether the partition can be freed: it has no row, and no snapshot sees one.
    pub(crate) fn can_go(&self) -> bool {
        self.rows.live() == 0 && self.versions.is_empty()
    }

    /// Whether any reader may still see a row.
    pub(crate) fn has_rows(&self) -> bool {
        self.rows.has_indexed()
    }

    /// Replaces the shape of rows. Segments stay as they are; new rows go to a new one.
    pub(crate) fn set_shape(&mut self, shape: &Arc<Shape>) {
        self.shape = Arc::clone(shape);
        self.reshape_indexes();
        self.set_life(shape.schema.life);
    }

    /// Finds a key.
    #[inline]
    pub(crate) fn locate(&self, hash: u64, key: &[Datum<'_>]) -> Located {
        Located { hash, row: self.rows.find(hash, key).filter(|&row| !self.is_over(row)) }
    }

    /// The first of three steps that prefetch the row of a key: see `lookahead`.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.rows.prefetch_index(hash);
    }

    /// The second step: the row that a search for a hash would visit first, and its segment.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<(&Segment, u32)> {
        self.rows.guess(hash)
    }

    /// The row with this id.
    #[inline]
    pub(crate) fn row(&self, row: u32) -> RowRef<'_> {
        self.row_as(&self.shape, row)
    }

    /// The row with this id, read under another shape than the partition's.
    pub(crate) fn row_as<'p>(&'p self, shape: &'p Shape, row: u32) -> RowRef<'p> {
        let (slot, offset) = split(row);
        RowRef::new(shape, self.rows.segment(slot), offset)
    }

    /// The rows that are not ended, in the order in which they lie.
    pub(crate) fn living(&self) -> impl Iterator<Item = u32> {
        self.rows.living()
    }

    /// Whether a row is ended.
    pub(crate) fn is_dead(&self, row: u32) -> bool {
        self.rows.is_dead(row)
    }

    /// Finds a key, even if its row has expired.
    pub(crate) fn locate_unended(&self, hash: u64, key: &[Datum<'_>]) -> Located {
        Located { hash, row: self.rows.find(hash, key) }
    }

    /// Whether a snapshot at a timestamp sees a row.
    fn is_visible(&self, segment: &Segment, row: u32, at: Timestamp) -> bool {
        let (_, offset) = split(row);
        self.versions.prefix(at).contains(segment.sequence, offset)
            && (!segment.is_dead(offset) || self.versions.end_of(row).is_some_and(|end| end > at))
            && !self.has_passed(segment, row, at)
    }

    /// Whether a snapshot at a timestamp that is registered or held sees a row.
    pub(crate) fn is_seen_at(&self, row: u32, at: Timestamp) -> bool {
        self.is_visible(self.rows.segment(split(row).0), row, at)
    }

    /// Finds the row of a key that a snapshot at a timestamp sees.
    pub(crate) fn locate_at(&self, hash: u64, key: &[Datum<'_>], at: Timestamp) -> Option<u32> {
        self.rows.find_where(hash, key, |row, segment| self.is_visible(segment, row, at))
    }

    /// Whether nothing has happened after a timestamp that is registered or held. If rows have deadlines, that cannot be said without
    /// reading them.
    pub(crate) fn is_present(&self, at: Timestamp) -> bool {
        self.versions.is_present(at) && !self.has_life()
    }

    /// Whether nothing was written after a timestamp that is registered or held.
    pub(crate) fn is_unwritten(&self, at: Timestamp) -> bool {
        self.versions.is_present(at)
    }

    /// What has happened to a key after a timestamp that is registered or held.
    pub(crate) fn since(&self, located: Located, key: &[Datum<'_>], at: Timestamp) -> Since {
        match (self.locate_at(located.hash, key, at), located.row) {
            (then, now) if then == now => Since::Same,
            (None, _) => Since::Appeared,
            (Some(_), _) => Since::Changed,
        }
    }

    /// A key that a row written here after a timestamp (registered or held) has in common with a row of `other`, whose keys were all new
    /// here at that timestamp. Visits the rows of whichever has fewer: beside a large load few have come.
    pub(crate) fn first_key_since<'p>(&'p self, at: Timestamp, other: &'p Self) -> Option<Vec<Datum<'p>>> {
        let prefix = self.versions.prefix(at);
        let later = |segment: &Segment| prefix.of_segment(segment.sequence, segment.len())..segment.len();
        let count: u64 = self.rows.in_order().map(|(_, segment)| later(segment).len() as u64).sum();
        if count > other.live() {
            return other.first_key_in(self);
        }
        let rows = self.rows.in_order().flat_map(|(slot, segment)| {
            let living = later(segment).filter(|&offset| !segment.is_dead(offset));
            living.map(move |offset| join(slot, offset))
        });
        let mut rows = rows.filter(|&row| !self.is_over(row));
        rows.find_map(|row| {
            let key: Vec<_> = self.shape.schema.key.iter().map(|&ordinal| self.row(row).get(ordinal)).collect();
            other.locate(self.rows.hash_of(row), &key).row.is_some().then_some(key)
        })
    }

    /// Whether a key for which `is_meant` holds was written here, or lost its row, after a timestamp (registered or held). Says so of any
    /// key if more than `rows_max` rows have come and gone. Rows that have ended by themselves are not among them.
    pub(crate) fn any_changed_since(
        &self,
        at: Timestamp,
        rows_max: usize,
        is_meant: impl Fn(u64, &[Datum<'_>]) -> bool,
    ) -> bool {
        let prefix = self.versions.prefix(at);
        let come = self.rows.in_order().flat_map(|(slot, segment)| {
            let later = prefix.of_segment(segment.sequence, segment.len())..segment.len();
            later.map(move |offset| join(slot, offset))
        });
        let changed = come.chain(self.versions.ended_after(at));
        changed.enumerate().any(|(number, row)| {
            number >= rows_max || {
                let columns = self.shape.schema.key.iter();
                let key: Vec<_> = columns.map(|&ordinal| self.row(row).get(ordinal)).collect();
                is_meant(self.rows.hash_of(row), &key)
            }
        })
    }

    /// A key that another partition has as well.
    fn first_key_in<'p>(&'p self, other: &Self) -> Option<Vec<Datum<'p>>> {
        self.rows.indexed().find_map(|row| {
            let key: Vec<_> = self.shape.schema.key.iter().map(|&ordinal| self.row(row).get(ordinal)).collect();
            other.locate(self.rows.hash_of(row), &key).row.is_some().then_some(key)
        })
    }

    /// Visits the rows whose key hash starts with these bits, until `f` returns false. Returns whether it never did.
    pub(crate) fn for_bucket(&self, bucket: u64, bucket_bits: u32, f: &mut dyn FnMut(RowRef<'_>) -> bool) -> bool {
        let (first, last) = match bucket_bits {
            0 => (0, u64::MAX),
            bits => (bucket << (64 - bits), bucket << (64 - bits) | u64::MAX >> bits),
        };
        let is_meant = |row: u32| bucket_bits == 0 || (first..=last).contains(&self.rows.hash_of(row));
        let mut rows = self.rows.indexed_between(first, last);
        rows.all(|row| !is_meant(row) || self.rows.is_dead(row) || self.is_over(row) || f(self.row(row)))
    }

    /// Whether a column is NULL in any row that a reader may still see.
    pub(crate) fn has_null(&self, ordinal: usize) -> bool {
        self.rows.indexed().any(|row| self.row(row).get(ordinal).is_null())
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.rows.check();
        self.check_indexes();
    }
}

#[cfg(test)]
mod tests;

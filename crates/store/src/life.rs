//! Lifetimes of rows: what a write may say about them, the deadline that a row keeps, and what a region's partitions
//! share for them.
//!
//! A deadline is a time of the commit clock that is known beforehand: a snapshot sees the row if the snapshot is
//! older. So nothing has to be written for a row to expire for everybody, and nothing that an open snapshot sees
//! changes. Called by `partition::life`, `segment::life` and `writeset`.

use std::sync::Arc;

use ashlar_base::clock::millis_of;
use ashlar_base::{ColumnDef, ColumnId, Datum, Eviction, LifeOptions, ScalarType, SqlType};

use crate::snapshot::Registry;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The ordinal by which a scan asks for the time at which rows expire; NULL for rows that do not.
pub const EXPIRES_AT: usize = usize::MAX;

/// The column that a scan of [`EXPIRES_AT`] returns. No table has it among its columns.
pub fn expires_at_column() -> ColumnDef {
    ColumnDef {
        id: ColumnId(u32::MAX),
        name: "_expires_at".to_owned(),
        sql_type: SqlType::Scalar(ScalarType::Timestamptz),
        nullable: true,
        default: None,
    }
}

/// The last instant of PostgreSQL's timestamps, in microseconds since 1970: the end of the year 294276.
const LAST_MICROS: i64 = 9_223_371_331_199_999_999;

/// What a write says about the lifetime of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// An existing row keeps its deadline; a new one gets the table's default.
    Keep,
    /// The table's default.
    Table,
    /// A deadline of the row's own, in milliseconds since 1970-01-01 00:00 UTC.
    At(i64),
    /// No deadline, whatever the table's default is.
    Never,
}

/// When a row expires: milliseconds since 1970 less one, so that the last possible time differs from "never". The lowest bit says whether
/// the deadline is the row's own. Deadlines compare as their times do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(u64);

impl Deadline {
    /// No deadline, because the table has no default.
    pub(crate) const NONE: Self = Self(u64::MAX - 1);
    /// No deadline, because a write said so.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// A deadline by the table's default.
    pub(crate) fn of_table(millis: u64) -> Self {
        Self(millis.saturating_sub(1).saturating_mul(2).min(Self::NONE.0))
    }

    /// A deadline of the row's own.
    pub(crate) fn of_row(millis: i64) -> Self {
        Self((millis.max(1) as u64 - 1) << 1 | 1)
    }

    /// Whether the deadline is the row's own.
    pub(crate) fn is_own(self) -> bool {
        self.0 & 1 == 1
    }

    /// Milliseconds since 1970; `None`: never.
    pub(crate) fn millis(self) -> Option<i64> {
        (self < Self::NONE).then(|| (self.0 >> 1) as i64 + 1)
    }

    /// The value that [`EXPIRES_AT`] shows.
    pub(crate) fn datum(self) -> Datum<'static> {
        match self.millis() {
            Some(millis) => Datum::Timestamp(millis.saturating_mul(1000).min(LAST_MICROS)),
            None => Datum::Null,
        }
    }

    /// Whether the deadline has passed at a time, in milliseconds since 1970.
    #[inline]
    pub(crate) fn has_passed(self, millis: u64) -> bool {
        self.0 >> 1 < millis
    }

    /// The deadline of a row after a write, if it had `old` before, in a table with this `ttl_ms`.
    pub(crate) fn given(expiry: Expiry, old: Option<Self>, ttl_ms: u64, now: u64) -> Self {
        let of_table = || if ttl_ms == 0 { Self::NONE } else { Self::of_table(now.saturating_add(ttl_ms)) };
        match (expiry, old) {
            (Expiry::Keep, Some(old)) if old.is_own() || ttl_ms == 0 => old,
            (Expiry::Keep | Expiry::Table, _) => of_table(),
            (Expiry::At(millis), _) => Self::of_row(millis),
            (Expiry::Never, _) if ttl_ms == 0 => Self::NONE,
            (Expiry::Never, _) => Self::NEVER,
        }
    }

    /// The [`Expiry`] that a write would need to give a row this deadline.
    pub(crate) fn expiry(self) -> Expiry {
        match self.millis() {
            Some(millis) => Expiry::At(millis),
            None => Expiry::Never,
        }
    }
}

/// What a table keeps for each row beside its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// The time of the last use: 4 bytes a row.
    pub(crate) used: bool,
    /// The number of uses, on a logarithmic scale: 1 byte a row.
    pub(crate) counts: bool,
}

impl Keep {
    pub(crate) fn of(options: &LifeOptions) -> Self {
        let counts = options.eviction == Eviction::Lfu;
        Self { used: counts || options.eviction == Eviction::Lru || options.max_idle_ms > 0, counts }
    }
}

/// The unit in which the time of a row's last use is kept: 2^shift milliseconds.
///
/// Such a time has 32 bits and wraps after 2^32 units. A unit is at most 2^-23 of `max_idle_ms`, or an eighth of a second without that
/// option. So a row would have to be unused for 128 times `max_idle_ms`, or for 8 years, before it could be mistaken for a younger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit(u32);

impl Unit {
    const COARSE: Self = Self(7);

    pub(crate) fn of(options: &LifeOptions) -> Self {
        match options.max_idle_ms {
            0 => Self::COARSE,
            idle => Self((u64::BITS - idle.leading_zeros()).saturating_sub(24)),
        }
    }

    /// How long it is.
    pub(crate) fn millis(self) -> u64 {
        1 << self.0
    }

    /// The units of a time in milliseconds since 1970.
    #[inline]
    pub(crate) fn stamp(self, millis: u64) -> u32 {
        (millis >> self.0) as u32
    }

    /// Milliseconds from a use to a time, to the precision of a unit; 0 if the time is before the use.
    #[inline]
    pub(crate) fn since(self, used: u32, millis: u64) -> u64 {
        let units = self.stamp(millis).wrapping_sub(used);
        if units > u32::MAX / 2 { 0 } else { u64::from(units) << self.0 }
    }
}

/// Numbers of rows that ended without being deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Rows that expired.
    pub expired: u64,
    /// Rows that were evicted.
    pub evicted: u64,
}

impl Ended {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { expired: self.expired + other.expired, evicted: self.evicted + other.evicted }
    }
}

/// The rows that have a deadline, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    /// How many there are.
    pub rows: u64,
    /// The sum of their deadlines, in milliseconds since 1970.
    millis: u128,
}

impl Expiring {
    /// Adds a row.
    pub(crate) fn add(&mut self, deadline: Deadline) {
        if let Some(millis) = deadline.millis() {
            self.rows += 1;
            self.millis += u128::from(millis.unsigned_abs());
        }
    }

    /// Removes a row that was added.
    pub(crate) fn remove(&mut self, deadline: Deadline) {
        if let Some(millis) = deadline.millis() {
            self.rows -= 1;
            self.millis -= u128::from(millis.unsigned_abs());
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, millis: self.millis + other.millis }
    }

    /// Their average remaining lifetime in milliseconds, from `now` in milliseconds since 1970; 0 without rows.
    pub fn average_left(self, now: u64) -> u64 {
        let rows = u128::from(self.rows);
        let left = self.millis.saturating_sub(rows * u128::from(now));
        left.checked_div(rows).map_or(0, |left| u64::try_from(left).unwrap_or(u64::MAX))
    }
}

/// What the partitions of a region share about the lifetimes of rows.
pub(crate) struct Lives {
    registry: Arc<Registry>,
    /// Whether any row has, or may have, a deadline.
    is_on: AtomicBool,
    /// Rows that expired.
    expired: AtomicU64,
    /// Rows that were evicted.
    evicted: AtomicU64,
    /// The state of the generator of random numbers.
    seed: AtomicU64,
    /// Whether the table evicts rows when memory runs short.
    pub(crate) evicts: AtomicBool,
    /// Held by the thread that evicts.
    pub(crate) relieving: Mutex<()>,
    /// A counter; modulo the number of partitions it is the next one to evict from.
    pub(crate) next_place: AtomicU64,
}

impl Lives {
    pub(crate) fn new(registry: &Arc<Registry>) -> Arc<Self> {
        Arc::new(Self {
            registry: Arc::clone(registry),
            is_on: AtomicBool::new(false),
            expired: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            seed: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
            evicts: AtomicBool::new(false),
            relieving: Mutex::new(()),
            next_place: AtomicU64::new(0),
        })
    }

    /// Now, in milliseconds since 1970.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        millis_of(self.registry.peek())
    }

    /// The commit clock as it was left last, in milliseconds since 1970: at most some hundred behind.
    #[inline]
    pub(crate) fn about_now(&self) -> u64 {
        millis_of(self.registry.last())
    }

    /// Whether a deadline has passed now. A caller that is told so gets later timestamps than the deadline.
    #[inline]
    pub(crate) fn has_come(&self, deadline: Deadline) -> bool {
        deadline < Deadline::NONE && deadline.has_passed(self.now()) && {
            self.registry.advance();
            true
        }
    }

    /// Whether any row has, or may have, a deadline.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Notes that rows may have deadlines from now on, so that snapshots read the clock.
    pub(crate) fn start(&self) {
        if !self.is_on() {
            self.registry.read_time();
            self.is_on.store(true, Ordering::Release);
        }
    }

    pub(crate) fn count_expired(&self, rows: u64) {
        self.expired.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn count_evicted(&self, rows: u64) {
        self.evicted.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) -> Ended {
        Ended { expired: self.expired.load(Ordering::Relaxed), evicted: self.evicted.load(Ordering::Relaxed) }
    }

    /// A random number: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
    pub(crate) fn random(&self) -> u64 {
        let mut number = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
}

/// How often a row is used, on the scale that Redis uses for `allkeys-lfu`: a logarithm that loses one for each minute without use.
pub(crate) mod frequency {
    /// The count of a new row: not 0, so that it is not the first to be evicted.
    pub(crate) const NEW: u8 = 5;
    const LOG_FACTOR: u64 = 10;
    const DECAY_MS: u64 = 60_000;

    /// The count after this many milliseconds without use.
    pub(crate) fn decayed(count: u8, idle_ms: u64) -> u8 {
        count.saturating_sub(u8::try_from(idle_ms / DECAY_MS).unwrap_or(u8::MAX))
    }

    /// The count after one more use: the higher it is, the less likely it rises.
    pub(crate) fn used(count: u8, random: u64) -> u8 {
        let above = u64::from(count.saturating_sub(NEW));
        if random.is_multiple_of(above * LOG_FACTOR + 1) { count.saturating_add(1) } else { count }
    }
}

#[cfg(test)]
mod tests;

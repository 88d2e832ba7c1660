//! How long rows live: what a write says about it, the one number that each row keeps of it, and what a region's
//! partitions share for it.
//!
//! A row's deadline is a time of the commit clock, known beforehand: a snapshot sees the row if it is older than that. So
//! a deadline that has passed needs no write to be seen by everybody, and nothing that a snapshot sees changes while it
//! is open. Called by `partition::life`, `segment::life` and `writeset`.

use std::sync::Arc;

use ashlar_base::clock::millis_of;
use ashlar_base::{ColumnDef, ColumnId, Datum, Eviction, LifeOptions, ScalarType, SqlType};

use crate::snapshot::Registry;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The ordinal by which a scan is asked for when the life of rows ends; NULL where it does not.
pub const EXPIRES_AT: usize = usize::MAX;

/// What [`EXPIRES_AT`] reads as: no column of a table, but it has a name and a type.
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

/// What a write says about the life of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// A row that is there keeps what it has; a new one gets what its table gives.
    Keep,
    /// What the table gives.
    Table,
    /// A time of the row's own: milliseconds since 1970-01-01 00:00 UTC.
    At(i64),
    /// None, whatever the table gives.
    Never,
}

/// When a row's life ends: milliseconds since 1970 less one, so that the last time there is differs from none, and in the lowest
/// bit whether the row was given it for itself. Greater means later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(u64);

impl Deadline {
    /// The table gives none.
    pub(crate) const NONE: Self = Self(u64::MAX - 1);
    /// None, whatever the table gives.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// What the table gives.
    pub(crate) fn of_table(millis: u64) -> Self {
        Self(millis.saturating_sub(1).saturating_mul(2).min(Self::NONE.0))
    }

    /// The row's own.
    pub(crate) fn of_row(millis: i64) -> Self {
        Self((millis.max(1) as u64 - 1) << 1 | 1)
    }

    /// Whether the row was given it for itself.
    pub(crate) fn is_own(self) -> bool {
        self.0 & 1 == 1
    }

    /// Milliseconds since 1970; `None`: never.
    pub(crate) fn millis(self) -> Option<i64> {
        (self < Self::NONE).then(|| (self.0 >> 1) as i64 + 1)
    }

    /// As [`EXPIRES_AT`] shows it.
    pub(crate) fn datum(self) -> Datum<'static> {
        match self.millis() {
            Some(millis) => Datum::Timestamp(millis.saturating_mul(1000).min(LAST_MICROS)),
            None => Datum::Null,
        }
    }

    /// Whether it has come at a time, in milliseconds since 1970.
    #[inline]
    pub(crate) fn has_passed(self, millis: u64) -> bool {
        self.0 >> 1 < millis
    }

    /// What a write gives a row that had `old`, in a table of this `ttl_ms`.
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

    /// What a write would have said that gave a row this.
    pub(crate) fn expiry(self) -> Expiry {
        match self.millis() {
            Some(millis) => Expiry::At(millis),
            None => Expiry::Never,
        }
    }
}

/// What rows of a table keep beside their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// When they were used last: 4 bytes a row.
    pub(crate) used: bool,
    /// How often they are used: a byte a row.
    pub(crate) counts: bool,
}

impl Keep {
    pub(crate) fn of(options: &LifeOptions) -> Self {
        let counts = options.eviction == Eviction::Lfu;
        Self { used: counts || options.eviction == Eviction::Lru || options.max_idle_ms > 0, counts }
    }
}

/// The unit in which the last use of rows is kept: 2^shift milliseconds.
///
/// A use has 32 bits and begins again after 2^32 units. Units are 2^-23 of `max_idle_ms` at most, or an eighth of a second
/// without one: a row would have to lie for 128 times `max_idle_ms`, or for 8 years, to be taken for younger than it is.
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

    /// A time, in milliseconds since 1970.
    #[inline]
    pub(crate) fn stamp(self, millis: u64) -> u32 {
        (millis >> self.0) as u32
    }

    /// Milliseconds, to a unit, from a use to a time; none to a time before the use.
    #[inline]
    pub(crate) fn since(self, used: u32, millis: u64) -> u64 {
        let units = self.stamp(millis).wrapping_sub(used);
        if units > u32::MAX / 2 { 0 } else { u64::from(units) << self.0 }
    }
}

/// Rows that nobody has deleted and that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Their time had come.
    pub expired: u64,
    /// They made room for others.
    pub evicted: u64,
}

impl Ended {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { expired: self.expired + other.expired, evicted: self.evicted + other.evicted }
    }
}

/// Rows whose life ends at a time that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    /// How many.
    pub rows: u64,
    /// The sum of their times, in milliseconds since 1970.
    millis: u128,
}

impl Expiring {
    /// One more.
    pub(crate) fn add(&mut self, deadline: Deadline) {
        if let Some(millis) = deadline.millis() {
            self.rows += 1;
            self.millis += u128::from(millis.unsigned_abs());
        }
    }

    /// One that was added is gone.
    pub(crate) fn remove(&mut self, deadline: Deadline) {
        if let Some(millis) = deadline.millis() {
            self.rows -= 1;
            self.millis -= u128::from(millis.unsigned_abs());
        }
    }

    /// These and others.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, millis: self.millis + other.millis }
    }

    /// How long they live on average from a time on, both in milliseconds, that since 1970; 0 without rows.
    pub fn average_left(self, now: u64) -> u64 {
        let rows = u128::from(self.rows);
        let left = self.millis.saturating_sub(rows * u128::from(now));
        left.checked_div(rows).map_or(0, |left| u64::try_from(left).unwrap_or(u64::MAX))
    }
}

/// What the partitions of a region share.
pub(crate) struct Lives {
    registry: Arc<Registry>,
    /// Whether any row has, or may have, a deadline.
    is_on: AtomicBool,
    /// Rows that ended because their time had come.
    expired: AtomicU64,
    /// Rows that made room for others.
    evicted: AtomicU64,
    /// What random choices are made from.
    seed: AtomicU64,
    /// Rows make room for others.
    pub(crate) evicts: AtomicBool,
    /// Held by whoever lets rows go.
    pub(crate) relieving: Mutex<()>,
    /// The partition that is next to let rows go, counted on for ever.
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

    /// Whether a deadline has come now. Whoever was told so has later timestamps than it.
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

    /// Rows have deadlines from now on: snapshots read the time.
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

/// How often a row is used, as Redis counts it for `allkeys-lfu`: a logarithm, of which time takes one away a minute.
pub(crate) mod frequency {
    /// What a new row begins with, so that it is not the first to go.
    pub(crate) const NEW: u8 = 5;
    const LOG_FACTOR: u64 = 10;
    const DECAY_MS: u64 = 60_000;

    /// A count after so many milliseconds without use.
    pub(crate) fn decayed(count: u8, idle_ms: u64) -> u8 {
        count.saturating_sub(u8::try_from(idle_ms / DECAY_MS).unwrap_or(u8::MAX))
    }

    /// A count after one more use: the higher it is, the less likely it rises.
    pub(crate) fn used(count: u8, random: u64) -> u8 {
        let above = u64::from(count.saturating_sub(NEW));
        if random.is_multiple_of(above * LOG_FACTOR + 1) { count.saturating_add(1) } else { count }
    }
}

#[cfg(test)]
mod tests;

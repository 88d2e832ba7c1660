//! Keys that are made here: ordered by time, the same on no two servers.
//!
//! Called for rows of an INSERT that leave out the column of `key_generator`. One of these serves all threads of a process;
//! processes that insert into the same tables have different worker numbers.
//!
//! ```text
//!   snowflake   0 | milliseconds since 2024: 41 bits | worker: 10 | counter: 12         a bigint, positive until 2093
//!   uuidv7      milliseconds since 1970: 48 | 7 | counter: 12 | 10 | random: 62         RFC 9562, method 1
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode, Result, Value};

use super::Generator;

/// 2024-01-01 00:00 UTC, in milliseconds since 1970.
const EPOCH_MILLIS: u64 = 1_704_067_200_000;
const COUNTER_BITS: u32 = 12;
const WORKER_BITS: u32 = 10;
/// Of a new millisecond, the counter begins in its lowest quarter, where the last one has ended: so that keys modulo a
/// number are spread even where each is the only one of its millisecond, and three quarters are left.
const START_MASK: u64 = (1 << (COUNTER_BITS - 2)) - 1;

/// Worker numbers are below this.
pub const WORKERS: u16 = 1 << WORKER_BITS;

/// Makes keys.
pub struct Generators {
    worker: u64,
    /// Milliseconds since 1970 and the counter: each key has one of its own, greater than those before it.
    last: AtomicU64,
    random: RandomState,
    /// Milliseconds since 1970.
    now: fn() -> u64,
}

impl Generators {
    /// For the process of this number.
    ///
    /// # Errors
    /// 22023 for a number that is not below [`WORKERS`].
    pub fn new(worker: u16) -> Result<Self> {
        Self::with_clock(worker, || u64::try_from(ashlar_base::clock::wall_micros() / 1000).unwrap_or(0))
    }

    fn with_clock(worker: u16, now: fn() -> u64) -> Result<Self> {
        if worker >= WORKERS {
            return Err(Error::new(
                ErrorCode::InvalidParameterValue,
                format!("worker number {worker} must be between 0 and {}", WORKERS - 1),
            ));
        }
        Ok(Self { worker: u64::from(worker), last: AtomicU64::new(0), random: RandomState::new(), now })
    }

    /// The next key.
    ///
    /// # Errors
    /// 2200H when the time of snowflakes is over, or has not begun.
    pub fn make(&self, generator: Generator) -> Result<Value> {
        let ticket = self.ticket();
        let (millis, counter) = (ticket >> COUNTER_BITS, ticket & ((1 << COUNTER_BITS) - 1));
        match generator {
            Generator::Snowflake => {
                let since = millis.checked_sub(EPOCH_MILLIS).filter(|since| *since < 1 << 41);
                let since = since.ok_or_else(|| {
                    Error::new(
                        ErrorCode::SequenceLimitExceeded,
                        "the clock is outside of the time that snowflakes can say",
                    )
                })?;
                let key = since << (WORKER_BITS + COUNTER_BITS) | self.worker << COUNTER_BITS | counter;
                Ok(Value::Int8(i64::try_from(key).unwrap_or(i64::MAX)))
            }
            Generator::UuidV7 => {
                let random = u128::from(self.random.hash_one((ticket, self.worker)) >> 2);
                let high = u128::from(millis) << 80 | 7 << 76 | u128::from(counter) << 64;
                Ok(Value::Uuid((high | 0b10 << 62 | random).to_be_bytes()))
            }
        }
    }

    /// A number that nobody else gets. It runs ahead of a clock that stands still, and never back.
    fn ticket(&self) -> u64 {
        let now = (self.now)() << COUNTER_BITS;
        let next = |last: u64| if last < now { now | (last + 1) & START_MASK } else { last + 1 };
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            match self.last.compare_exchange_weak(last, next(last), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(last) => return next(last),
                Err(other) => last = other,
            }
        }
    }
}

impl std::fmt::Debug for Generators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generators").field("worker", &self.worker).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ashlar_base::Value;

    use super::{Generator, Generators};

    fn number(value: &Value) -> i64 {
        match value {
            Value::Int8(number) => *number,
            other => panic!("{other:?} is no bigint"),
        }
    }

    #[test]
    fn keys_of_all_threads_are_different_and_ascend_in_each() {
        let generators = Generators::new(3).unwrap();
        let made: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let make = || (0..20_000).map(|_| number(&generators.make(Generator::Snowflake).unwrap())).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|keys: &Vec<i64>| keys.is_sorted()));
        assert_eq!(made.iter().flatten().collect::<BTreeSet<_>>().len(), 80_000);
        assert!(made.iter().flatten().all(|key| key >> 12 & 1023 == 3 && *key > 0));
    }

    #[test]
    fn keys_have_their_form_when_the_clock_stands_still_or_is_wrong() {
        let still = Generators::with_clock(1023, || 1_704_067_200_001).unwrap();
        let keys: Vec<i64> = (0..5000).map(|_| number(&still.make(Generator::Snowflake).unwrap())).collect();
        assert_eq!(keys[0], 1 << 22 | 1023 << 12 | 1);
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "more than a millisecond has room for");
        let Value::Uuid(uuid) = still.make(Generator::UuidV7).unwrap() else { panic!("no uuid") };
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (7, 0b10));
        let early = Generators::with_clock(0, || 0).unwrap();
        assert!(early.make(Generator::Snowflake).is_err());
        assert!(Generators::new(1024).is_err());
    }

    #[test]
    fn lonely_keys_are_spread() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NOW: AtomicU64 = AtomicU64::new(1_704_067_200_000);
        let generators = Generators::with_clock(0, || NOW.fetch_add(5, Ordering::Relaxed)).unwrap();
        let mut shards = [0; 4];
        for _ in 0..400 {
            shards[(number(&generators.make(Generator::Snowflake).unwrap()) % 4) as usize] += 1;
        }
        assert_eq!(shards, [100; 4]);
    }
}

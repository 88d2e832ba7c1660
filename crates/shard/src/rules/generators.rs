//! Keys that are made here: ordered by time, the same on no two servers.
//!
//! Called for rows of an INSERT that leave out the column of `key_generator`. Processes that insert into the same tables have
//! different worker numbers, which are leased (`workers`) unless they are configured.
//!
//! ```text
//!   snowflake   0 | milliseconds since 2024: 41 bits | worker: 10 | counter: 12         a bigint, positive until 2093
//!   uuidv7      milliseconds since 1970: 48 | 7 | counter: 12 | 10 | random: 62         RFC 9562, method 1
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode, Result, Value};

/// 2024-01-01 00:00 UTC, in milliseconds since 1970.
const EPOCH_MILLIS: u64 = 1_704_067_200_000;
const COUNTER_BITS: u32 = 12;
const WORKER_BITS: u32 = 10;
/// Of a new millisecond, the counter begins in its lowest quarter, where the last one has ended: so that keys modulo a
/// number are spread even where each is the only one of its millisecond, and three quarters are left.
const START_MASK: u64 = (1 << (COUNTER_BITS - 2)) - 1;

/// Worker numbers are below this.
pub(crate) const WORKERS: u16 = 1 << WORKER_BITS;

/// A time and a counter, which one of [`Tickets`] gives out once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Milliseconds since 1970.
    pub(crate) fn millis(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    /// The key that a worker makes of it.
    ///
    /// # Errors
    /// 2200H when the time of snowflakes is over, or has not begun.
    pub(crate) fn snowflake(self, worker: u16) -> Result<Value> {
        let since = self.millis().checked_sub(EPOCH_MILLIS).filter(|since| *since < 1 << 41);
        let since = since.ok_or_else(|| {
            Error::new(ErrorCode::SequenceLimitExceeded, "the clock is outside of the time that snowflakes can say")
        })?;
        let key = since << (WORKER_BITS + COUNTER_BITS) | u64::from(worker) << COUNTER_BITS | self.counter();
        Ok(Value::Int8(i64::try_from(key).unwrap_or(i64::MAX)))
    }
}

/// Gives out tickets, each greater than those before it, to all threads of a process.
#[derive(Debug, Default)]
pub(crate) struct Tickets(AtomicU64);

impl Tickets {
    /// The next one, at this time in milliseconds since 1970. It runs ahead of a clock that stands still, and never back.
    pub(crate) fn next(&self, now: u64) -> Ticket {
        let now = now << COUNTER_BITS;
        let next = |last: u64| if last < now { now | (last + 1) & START_MASK } else { last + 1 };
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            match self.0.compare_exchange_weak(last, next(last), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(last) => return Ticket(next(last)),
                Err(other) => last = other,
            }
        }
    }
}

/// Makes keys for which no number has to be leased, by the clock of this machine.
pub(crate) struct Generators {
    tickets: Tickets,
    random: RandomState,
    /// Milliseconds since 1970.
    now: fn() -> u64,
}

impl Generators {
    pub(crate) fn new() -> Self {
        Self::with_clock(|| u64::try_from(ashlar_base::clock::wall_micros() / 1000).unwrap_or(0))
    }

    fn with_clock(now: fn() -> u64) -> Self {
        Self { tickets: Tickets::default(), random: RandomState::new(), now }
    }

    /// The next snowflake of a worker whose number is nobody else's for good.
    ///
    /// # Errors
    /// As [`Ticket::snowflake`].
    pub(crate) fn snowflake(&self, worker: u16) -> Result<Value> {
        self.tickets.next((self.now)()).snowflake(worker)
    }

    /// The next uuid of version 7.
    pub(crate) fn uuid(&self) -> Value {
        let ticket = self.tickets.next((self.now)());
        let random = u128::from(self.random.hash_one(ticket) >> 2);
        let high = u128::from(ticket.millis()) << 80 | 7 << 76 | u128::from(ticket.counter()) << 64;
        Value::Uuid((high | 0b10 << 62 | random).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ashlar_base::Value;

    use super::Generators;

    fn number(value: &Value) -> i64 {
        match value {
            Value::Int8(number) => *number,
            other => panic!("{other:?} is no bigint"),
        }
    }

    #[test]
    fn keys_of_all_threads_are_different_and_ascend_in_each() {
        let generators = Generators::new();
        let made: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let make = || (0..20_000).map(|_| number(&generators.snowflake(3).unwrap())).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|keys: &Vec<i64>| keys.is_sorted()));
        assert_eq!(made.iter().flatten().collect::<BTreeSet<_>>().len(), 80_000);
        assert!(made.iter().flatten().all(|key| key >> 12 & 1023 == 3 && *key > 0));
    }

    #[test]
    fn keys_have_their_form_when_the_clock_stands_still_or_is_wrong() {
        let still = Generators::with_clock(|| 1_704_067_200_001);
        let keys: Vec<i64> = (0..5000).map(|_| number(&still.snowflake(1023).unwrap())).collect();
        assert_eq!(keys[0], 1 << 22 | 1023 << 12 | 1);
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "more than a millisecond has room for");
        let Value::Uuid(uuid) = still.uuid() else { panic!("no uuid") };
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (7, 0b10));
        let early = Generators::with_clock(|| 0);
        assert!(early.snowflake(0).is_err());
    }

    #[test]
    fn lonely_keys_are_spread() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NOW: AtomicU64 = AtomicU64::new(1_704_067_200_000);
        let generators = Generators::with_clock(|| NOW.fetch_add(5, Ordering::Relaxed));
        let mut shards = [0; 4];
        for _ in 0..400 {
            shards[(number(&generators.snowflake(0).unwrap()) % 4) as usize] += 1;
        }
        assert_eq!(shards, [100; 4]);
    }
}

//! A day of a table that more is written to than it may hold: what is charged is what is allocated, and what is read is what a
//! twin holds.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_base::clock::Wall;
use ashlar_base::{Datum, ErrorCode, Eviction, IndexKind, LifeOptions, PartitionId};
use ashlar_store::{ColumnReader, Expiry, Mutation, Probe, ReadView, Region, RowRef, Store, StoreConfig, WriteSet};

use super::{BYTEA, COUNTED, INT8, assert_agrees, index, key_name, table};

const DAY_MS: i64 = 86_400_000;
const STEP_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const DAY_KEYS: u32 = 16_000;
const DAY_BYTES: u64 = 12 << 20;
const PARTITIONS: u16 = 16;

/// Hours between which little is done: something every so many steps.
const NIGHT: (i64, i64) = (12, 20);
const STEPS_OF_NIGHT: i64 = 20;
/// Rows that are used in the last hours of a night, at most: all that are left then.
const ROWS_OF_NIGHT: u64 = 2_000;

/// Bytes of the longest value.
const VALUE_BYTES_MAX: u64 = 20_000;
/// Values of one length that differ.
const VALUES: u64 = 4_096;
/// Values of the column that has an index.
const NUMBERS: u64 = 500;

/// Every second rows come, are written over, leave or are given a time to end; every minute there is a round of compaction;
/// readers keep their snapshots, and columns that they were lent, for up to an hour. The clock is one that the test moves.
#[test]
fn a_day_of_churn_is_charged_as_it_is_allocated() {
    for eviction in [Eviction::None, Eviction::Lru, Eviction::Lfu] {
        day(Rules { eviction, bytes: DAY_BYTES, idle_ms: 0 });
    }
}

/// Likewise where rows end that nobody has used for hours: by day there is no room for as many, and at night hardly anybody uses any.
#[test]
fn a_day_and_a_night_without_use_leave_what_is_used() {
    for eviction in [Eviction::Lru, Eviction::Lfu, Eviction::Random] {
        day(Rules { eviction, bytes: DAY_BYTES * 5 / 6, idle_ms: 5 * HOUR_MS });
    }
}

/// Which rows of the table leave by themselves.
#[derive(Clone, Copy, Debug)]
struct Rules {
    eviction: Eviction,
    /// Bytes of the table at most.
    bytes: u64,
    /// How long a row may be unused; 0 for ever.
    idle_ms: i64,
}

impl Rules {
    /// Whether nothing is done in this step: in the night of those days whose rows may not be unused for long.
    fn rests(self, step: i64) -> bool {
        let is_night = (NIGHT.0..NIGHT.1).contains(&(step * STEP_MS / HOUR_MS));
        self.idle_ms > 0 && is_night && step % STEPS_OF_NIGHT != 0
    }
}

/// Knuth's linear congruential generator. `ASHLAR_SEED` says where it begins.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("ASHLAR_SEED").map_or(7, |seed| seed.parse().expect("ASHLAR_SEED is a number"));
        eprintln!("ASHLAR_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What a row was last given.
#[derive(Clone, Copy, Debug)]
struct Written {
    n: i64,
    /// Where its value is in the bytes that all values are cut out of.
    from: usize,
    length: usize,
    /// Milliseconds since 1970; none for a row that does not end.
    ends: Option<i64>,
    /// When it was last used, likewise.
    used: i64,
}

/// What the rows were given, by the numbers in their keys. Made beforehand: it allocates nothing later.
struct Twin<'b> {
    rows: Vec<Option<Written>>,
    bytes: &'b [u8],
    /// Rows may have to make room for others.
    evicts: bool,
    /// How long a row may be unused; 0 for ever.
    idle_ms: i64,
}

impl<'b> Twin<'b> {
    fn value(&self, written: Written) -> &'b [u8] {
        &self.bytes[written.from..written.from + written.length]
    }

    fn holds(&self, number: u32, n: &Datum<'_>, value: &Datum<'_>) -> bool {
        self.rows[number as usize]
            .is_some_and(|written| *n == Datum::Int8(written.n) && *value == Datum::Bytea(self.value(written)))
    }

    /// What is found of a key is what it was given, until that ends; a row that had to make room is gone until the key is written
    /// again.
    fn meets(&mut self, number: u32, found: Option<RowRef<'_>>, now: i64) {
        let kept = &mut self.rows[number as usize];
        if kept.and_then(|kept| kept.ends).is_some_and(|ends| ends <= now) {
            *kept = None;
        }
        match found {
            Some(row) => {
                let has_same_end = kept.is_some_and(|kept| kept.ends == row.expires_at());
                let is_same = has_same_end && self.holds(number, &row.get(1), &row.get(2));
                let kept = self.rows[number as usize];
                assert!(is_same, "row {number}, {:?} until {:?}, was {kept:?}", row.get(1), row.expires_at());
                // Uses are kept to the precision of a few milliseconds.
                let idle = kept.map_or(0, |kept| now - kept.used);
                assert!(self.idle_ms == 0 || idle < self.idle_ms + STEP_MS, "row {number} is unused for {idle} ms");
            }
            None => {
                assert!(self.evicts || kept.is_none(), "row {number} is gone, it was {kept:?}");
                *kept = None;
            }
        }
    }

    /// When a row ends that was written over by a transaction: when it did before, unless it had to make room for that.
    fn kept_end(&self, number: u32, found: Option<i64>) -> Option<i64> {
        let before = self.rows[number as usize].and_then(|written| written.ends);
        assert!(found == before || (self.evicts && found.is_none()), "row {number} ends at {found:?}, not {before:?}");
        found
    }

    /// Rows by their keys, by a look at all of them, and in the order of the index.
    fn meets_all(&mut self, store: &Store, region: &Arc<Region>, now: i64) {
        let mut buffer = [0; 8];
        for number in 0..DAY_KEYS {
            region.peek(&[Datum::Bytea(key_name(number, &mut buffer))], |row| self.meets(number, row, now));
        }
        let there = self.rows.iter().filter(|row| row.is_some()).count();
        let snapshot = store.snapshot();
        let open = (Bound::Unbounded, Bound::Unbounded);
        let all = Probe { index: Arc::clone(&region.indexes()[0]), equal: Vec::new(), range: open };
        let mut indexed = 0;
        for partition in 0..PARTITIONS {
            let mut last = i64::MIN;
            let is_read = region.probe(&snapshot, PartitionId(partition), 1, &all, usize::MAX, &mut |row| {
                let Datum::Int8(n) = row.get(1) else { panic!("no number: {:?}", row.get(1)) };
                assert!(last <= n, "{n} comes after {last}");
                self.meets(number_of(&row.get(0)), Some(row), now);
                (indexed, last) = (indexed + 1, n);
            });
            assert!(is_read, "a partition has no index");
        }
        let view = ReadView::committed(snapshot);
        let scanned: usize = (0..PARTITIONS).map(|partition| self.scanned(region, &view, PartitionId(partition))).sum();
        assert_eq!((indexed, scanned, region.row_count()), (there, there, there as u64));
    }

    /// Rows of one partition, by a look at all of them.
    fn scanned(&self, region: &Arc<Region>, view: &ReadView, partition: PartitionId) -> usize {
        let mut count = 0;
        for scanned in region.scan(view, partition, &[0, 1, 2]).expect("the table is there") {
            let column = |ordinal: usize, sql_type| ColumnReader::new(scanned.batch.column(ordinal), sql_type);
            let (keys, numbers, values) = (column(0, BYTEA), column(1, INT8), column(2, BYTEA));
            let (keys, numbers, values) = (keys.expect("keys"), numbers.expect("numbers"), values.expect("values"));
            for row in 0..scanned.batch.num_rows() {
                if scanned.visible.as_ref().is_none_or(|visible| visible.value(row)) {
                    let number = number_of(&keys.datum(row));
                    assert!(self.holds(number, &numbers.datum(row), &values.datum(row)), "row {number} of a scan");
                    count += 1;
                }
            }
        }
        count
    }
}

/// The number in a key.
fn number_of(key: &Datum<'_>) -> u32 {
    let Datum::Bytea(digits) = key else { panic!("no key: {key:?}") };
    let digits = std::str::from_utf8(digits).expect("digits");
    u32::from_str_radix(digits, 16).expect("a number")
}

/// A table, its twin, and the time.
struct Day<'b> {
    wall: Arc<AtomicI64>,
    store: Arc<Store>,
    region: Arc<Region>,
    twin: Twin<'b>,
}

impl<'b> Day<'b> {
    fn new(bytes: &'b [u8], rules: Rules) -> Self {
        // A time in 2027.
        let wall = Arc::new(AtomicI64::new(1_800_000_000_000_000));
        let config = StoreConfig { partition_count: PARTITIONS, segment_rows_max: 4096, ..StoreConfig::default() };
        let store = Store::new(StoreConfig { wall: Wall::Moved(Arc::clone(&wall)), ..config });
        let mut schema = Arc::unwrap_or_clone(table("kv", &[("key", BYTEA), ("n", INT8), ("value", BYTEA)]));
        let (eviction, max_idle_ms) = (rules.eviction, rules.idle_ms.unsigned_abs());
        schema.life = LifeOptions { memory_max: rules.bytes, eviction, max_idle_ms, ..LifeOptions::default() };
        let region = store.create_region(Arc::new(schema)).expect("the table can be made");
        let evicts = eviction != Eviction::None;
        let twin = Twin { rows: vec![None; DAY_KEYS as usize], bytes, evicts, idle_ms: rules.idle_ms };
        Self { wall, store, region, twin }
    }

    /// Milliseconds since 1970.
    fn now(&self) -> i64 {
        self.wall.load(Ordering::SeqCst) / 1000
    }

    /// Does something with the row of one key: whether there was no room for it.
    fn step(&mut self, random: &mut Random) -> bool {
        let now = self.now();
        let Self { store, region, twin, .. } = self;
        let number = random.below(u64::from(DAY_KEYS)) as u32;
        let mut buffer = [0; 8];
        let key = [Datum::Bytea(key_name(number, &mut buffer))];
        region.peek(&key, |row| twin.meets(number, row, now));
        let length = match random.below(20) {
            0..12 => random.below(400),
            12..19 => random.below(3_000),
            _ => random.below(VALUE_BYTES_MAX),
        };
        let (n, from) = (random.below(NUMBERS) as i64, random.below(VALUES) as usize);
        let given = Written { n, from, length: length as usize, ends: None, used: now };
        let row = [key[0].clone(), Datum::Int8(n), Datum::Bytea(twin.value(given))];
        let done = match random.below(10) {
            0 => region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).map(|_| None),
            1 => {
                region.get(&key, |row| twin.meets(number, row, now));
                Ok(twin.rows[number as usize].map(|kept| Written { used: now, ..kept }))
            }
            2 => {
                let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
                let put = writes.upsert(region, 1, &snapshot, &row).and_then(|()| store.commit(&mut writes));
                put.map(|_| {
                    let found = region.peek(&key, |row| row.and_then(|row| row.expires_at()));
                    Some(Written { ends: twin.kept_end(number, found), ..given })
                })
            }
            3 | 4 => {
                let ends = now + random.below(2 * HOUR_MS as u64) as i64;
                let (write, expiry) = (Mutation::Upsert { row: &row }, Expiry::At(ends));
                let put = region.entry(&key, |entry| entry.apply(Mutation::Living { write: &write, expiry }));
                put.map(|_| Some(Written { ends: Some(ends), ..given }))
            }
            _ => region.entry(&key, |entry| entry.apply(Mutation::Upsert { row: &row })).map(|_| Some(given)),
        };
        let is_refused = match done {
            Ok(written) => {
                twin.rows[number as usize] = written;
                false
            }
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::OutOfMemory, "{error}");
                // It has been looked for, which is a use.
                if let Some(kept) = &mut twin.rows[number as usize] {
                    kept.used = now;
                }
                true
            }
        };
        // What was refused has changed nothing.
        region.peek(&key, |row| twin.meets(number, row, now));
        is_refused
    }

    /// Every key is deleted, and all memory comes back.
    fn end(&self, before: i64) {
        self.wall.fetch_add(3 * HOUR_MS * 1000, Ordering::SeqCst);
        let mut buffer = [0; 8];
        for number in 0..DAY_KEYS {
            let key = [Datum::Bytea(key_name(number, &mut buffer))];
            let done = self.region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key }));
            done.expect("a delete does not fail");
        }
        self.store.compact();
        assert_eq!((self.store.memory_used(), self.region.row_count()), (0, 0));
        let left = COUNTED.get().1 - before;
        assert!(left < 10_000, "{left} bytes are left");
    }
}

fn day(rules: Rules) {
    let mut random = Random::new();
    let bytes: Vec<u8> = (0..VALUE_BYTES_MAX + VALUES).map(|_| random.below(256) as u8).collect();
    let mut day = Day::new(&bytes, rules);
    let before = COUNTED.get().1;
    index(&day.region, 2, IndexKind::Btree);
    let mut readers = VecDeque::new();
    let (mut refused, mut most) = (0, 0);
    for step in 1..=DAY_MS / STEP_MS {
        if !rules.rests(step) {
            refused += u32::from(day.step(&mut random));
        }
        day.wall.fetch_add(STEP_MS * 1000, Ordering::SeqCst);
        most = most.max(day.region.bytes());
        if step * STEP_MS % (15 * MINUTE_MS) == 0 {
            let view = ReadView::committed(day.store.snapshot());
            let partition = PartitionId(random.below(u64::from(PARTITIONS)) as u16);
            let lent = day.region.scan(&view, partition, &[0, 1, 2]).expect("the table is there");
            readers.push_back((view, lent));
            if readers.len() > 4 {
                readers.pop_front();
            }
        }
        if step * STEP_MS % MINUTE_MS == 0 {
            day.store.compact();
        }
        if step * STEP_MS % HOUR_MS == 0 {
            let (hour, now) = (step * STEP_MS / HOUR_MS, day.now());
            // Of little what nobody charges is a larger part.
            let is_much = rules.idle_ms == 0 || day.region.bytes() > rules.bytes / 2;
            if is_much {
                assert_agrees(&day.store, before, &format!("{rules:?}, hour {hour}, with readers"));
            }
            if hour % 6 == 0 {
                readers.clear();
                day.store.compact();
                if is_much {
                    assert_agrees(&day.store, before, &format!("{rules:?}, hour {hour}, without"));
                }
            }
            day.twin.meets_all(&day.store, &day.region, now);
            let left = day.region.row_count();
            assert!(rules.idle_ms == 0 || hour != NIGHT.1 || left < ROWS_OF_NIGHT, "{rules:?}: {left} rows are left");
        }
    }
    let ended = day.region.ended();
    // Above the bound is what was copied to give more back, while a reader still held what it takes the place of.
    let bound = rules.bytes;
    assert!(most <= bound + bound / 4 && most > bound * 9 / 10, "{most} bytes of {bound}");
    assert!(ended.expired > 1_000, "{ended:?}");
    match rules.eviction {
        _ if rules.idle_ms > 0 => assert!(ended.evicted > 100, "{refused} refused, {ended:?}"),
        Eviction::None => assert!(refused > 1_000 && ended.evicted == 0, "{refused} refused, {ended:?}"),
        _ => assert!(ended.evicted > 1_000, "{refused} refused, {ended:?}"),
    }
    drop(readers);
    day.end(before);
}

//! The life of rows against a naive twin: random histories of writes with and without expiry, of time that passes, of
//! options that change, of transactions, snapshots, evictions and compactions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_base::clock::Wall;
use ashlar_base::{Datum, ErrorCode, Eviction, IndexDef, IndexKind, LifeOptions, PartitionId, TableId, Unique, Value};
use proptest::prelude::*;

use super::super::*;
use crate::testing::{INT8, numbers, scan_all};
use crate::{Applied, ColumnReader, EXPIRES_AT, Expiry, Mutation, Probe, ReadView};

const KEYS: i64 = 7;
/// A time in 2027, in milliseconds.
const START: i64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    Insert(i64, i64, Life),
    Upsert(i64, i64, Life),
    Update(i64, i64, Life),
    Delete(i64),
    Expire(i64, Life),
    Get(i64),
    Pass(i64),
    Options(u64, u64, Eviction),
    OpenSnapshot,
    DropSnapshot(usize),
    Begin,
    Put(i64, i64, Life),
    Remove(i64),
    Add(i64, i64),
    Commit,
    Evict(usize),
    Compact,
    Index,
    Unique,
}

/// What a write says: a time from now, or one of the others.
#[derive(Clone, Copy, Debug)]
enum Life {
    Unsaid,
    Keep,
    Table,
    Never,
    In(i64),
}

impl Life {
    fn expiry(self, now: i64) -> Option<Expiry> {
        match self {
            Self::Unsaid => None,
            Self::Keep => Some(Expiry::Keep),
            Self::Table => Some(Expiry::Table),
            Self::Never => Some(Expiry::Never),
            Self::In(millis) => Some(Expiry::At(now + millis)),
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..KEYS;
    // Few, so that rows want the same.
    let v = || prop_oneof![1 => any::<i64>(), 2 => 0..5i64];
    let life = || {
        prop_oneof![
            3 => Just(Life::Unsaid),
            1 => Just(Life::Keep),
            1 => Just(Life::Table),
            1 => Just(Life::Never),
            4 => (-20..300i64).prop_map(Life::In),
        ]
    };
    let eviction = prop_oneof![
        2 => Just(Eviction::None),
        1 => Just(Eviction::Lru),
        1 => Just(Eviction::Lfu),
        1 => Just(Eviction::Random)
    ];
    let ttl = || prop_oneof![Just(0u64), 50..400u64];
    let op = prop_oneof![
        6 => (key(), v(), life()).prop_map(|(key, v, life)| Op::Insert(key, v, life)),
        6 => (key(), v(), life()).prop_map(|(key, v, life)| Op::Upsert(key, v, life)),
        6 => (key(), v(), life()).prop_map(|(key, v, life)| Op::Update(key, v, life)),
        3 => key().prop_map(Op::Delete),
        6 => (key(), life()).prop_map(|(key, life)| Op::Expire(key, life)),
        4 => key().prop_map(Op::Get),
        12 => prop_oneof![1..20i64, 20..200i64].prop_map(Op::Pass),
        2 => (ttl(), ttl(), eviction).prop_map(|(ttl, idle, eviction)| Op::Options(ttl, idle, eviction)),
        4 => Just(Op::OpenSnapshot),
        3 => (0..4usize).prop_map(Op::DropSnapshot),
        2 => Just(Op::Begin),
        5 => (key(), v(), life()).prop_map(|(key, v, life)| Op::Put(key, v, life)),
        2 => key().prop_map(Op::Remove),
        3 => (key(), v()).prop_map(|(key, v)| Op::Add(key, v)),
        4 => Just(Op::Commit),
        1 => (1..4usize).prop_map(Op::Evict),
        5 => Just(Op::Compact),
        1 => Just(Op::Index),
        1 => Just(Op::Unique),
    ];
    proptest::collection::vec(op, 1..90)
}

/// A row of the twin.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    v: i64,
    /// Which write made it.
    number: u64,
    /// When it ends, and whether it was given that for itself.
    ends: Option<i64>,
    is_own: bool,
    used: i64,
}

type Table = BTreeMap<i64, Row>;

/// What becomes of each key: `None` it goes; and whether it must be new.
type Writes = BTreeMap<i64, (Option<(i64, Expiry)>, bool)>;

struct Transaction {
    set: WriteSet,
    snapshot: Snapshot,
    sees: Table,
    writes: Writes,
}

struct Model {
    store: Arc<Store>,
    region: Arc<Region>,
    wall: Arc<AtomicI64>,
    now: i64,
    options: LifeOptions,
    table: Table,
    number: u64,
    snapshots: Vec<(Snapshot, Table)>,
    transaction: Option<Transaction>,
    index: Option<Arc<IndexDef>>,
    /// Two rows may not have the same value.
    is_unique: bool,
}

impl Model {
    fn new(partitions: u16, segment_rows: u32) -> Self {
        let wall = Arc::new(AtomicI64::new(START * 1000));
        let store = Store::new(StoreConfig {
            partition_count: partitions,
            segment_rows_max: segment_rows,
            compaction_rows_min: 1,
            wall: Wall::Moved(Arc::clone(&wall)),
            ..StoreConfig::default()
        });
        let region = store.create_region(numbers(1)).unwrap();
        Self {
            store,
            region,
            wall,
            now: START,
            options: LifeOptions::default(),
            table: Table::new(),
            number: 0,
            snapshots: Vec::new(),
            transaction: None,
            index: None,
            is_unique: false,
        }
    }

    /// Whether another row that is there has a value, and may have it alone.
    fn clashes(&self, key: i64, v: i64) -> bool {
        self.is_unique && self.living().iter().any(|(other, row)| *other != key && row.v == v)
    }

    fn refused(&mut self, key: i64, done: Result<Applied>) {
        let error = done.unwrap_err();
        assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
        self.touch(key);
    }

    fn is_over(&self, row: &Row) -> bool {
        let idle = i64::try_from(self.options.max_idle_ms).unwrap();
        row.ends.is_some_and(|ends| ends <= self.now) || (idle > 0 && row.used + idle <= self.now)
    }

    /// What is there now.
    fn living(&self) -> Table {
        self.table.iter().filter(|(_, row)| !self.is_over(row)).map(|(key, row)| (*key, *row)).collect()
    }

    fn get(&self, key: i64) -> Option<Row> {
        self.table.get(&key).filter(|row| !self.is_over(row)).copied()
    }

    /// Any operation on a key uses its row.
    fn touch(&mut self, key: i64) {
        if self.get(key).is_some() {
            let now = self.now;
            self.table.get_mut(&key).unwrap().used = now;
        }
    }

    fn put(&mut self, key: i64, v: i64, expiry: Expiry) {
        self.number += 1;
        let old = self.get(key);
        let ttl = i64::try_from(self.options.ttl_ms).unwrap();
        let of_table = (if ttl > 0 { Some(self.now + ttl) } else { None }, false);
        let (ends, is_own) = match (expiry, old) {
            (Expiry::Keep, Some(old)) if old.is_own || ttl == 0 => (old.ends, old.is_own),
            (Expiry::Keep | Expiry::Table, _) => of_table,
            (Expiry::At(millis), _) => (Some(millis), true),
            (Expiry::Never, _) => (None, ttl > 0),
        };
        self.table.insert(key, Row { v, number: self.number, ends, is_own, used: self.now });
    }

    fn write(&mut self, key: i64, write: Mutation<'_>, life: Life) -> Result<Applied> {
        let asked = [Datum::Int8(key)];
        let expiry = life.expiry(self.now);
        self.region.entry(&asked, |entry| match expiry {
            Some(expiry) => entry.apply(Mutation::Living { write: &write, expiry }),
            None => entry.apply(write),
        })
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Insert(key, v, life) => {
                let done = self.write(key, Mutation::Insert { row: &[Datum::Int8(key), Datum::Int8(v)] }, life);
                if self.get(key).is_some() || self.clashes(key, v) {
                    self.refused(key, done);
                } else {
                    assert_eq!(done.unwrap(), Applied::Inserted);
                    self.put(key, v, life.expiry(self.now).unwrap_or(Expiry::Table));
                }
            }
            Op::Upsert(key, v, life) => {
                let done = self.write(key, Mutation::Upsert { row: &[Datum::Int8(key), Datum::Int8(v)] }, life);
                let known = self.get(key).is_some();
                if self.clashes(key, v) {
                    self.refused(key, done);
                    return;
                }
                assert_eq!(done.unwrap(), if known { Applied::Updated } else { Applied::Inserted });
                self.put(key, v, life.expiry(self.now).unwrap_or(Expiry::Table));
            }
            Op::Update(key, v, life) => {
                let asked = [Datum::Int8(key)];
                let done = self.write(key, Mutation::Update { key: &asked, changes: &[(1, Datum::Int8(v))] }, life);
                if self.get(key).is_some() && self.clashes(key, v) {
                    self.refused(key, done);
                    return;
                }
                self.updated(key, Some(v), done.unwrap(), life);
            }
            Op::Expire(key, life) => {
                let asked = [Datum::Int8(key)];
                let done = self.write(key, Mutation::Update { key: &asked, changes: &[] }, life);
                self.updated(key, None, done.unwrap(), life);
            }
            Op::Delete(key) => {
                let asked = [Datum::Int8(key)];
                let done = self.write(key, Mutation::Delete { key: &asked }, Life::Unsaid).unwrap();
                assert_eq!(done, if self.get(key).is_some() { Applied::Deleted } else { Applied::Nothing });
                self.table.remove(&key);
            }
            Op::Get(key) => {
                let found = self.region.get(&[Datum::Int8(key)], |row| row.map(|row| row.get(1).to_value()));
                assert_eq!(found, self.get(key).map(|row| Value::Int8(row.v)));
                self.touch(key);
            }
            Op::Pass(millis) => {
                self.now += millis;
                self.wall.store(self.now * 1000, Ordering::SeqCst);
            }
            Op::Options(ttl_ms, max_idle_ms, eviction) => {
                let options = LifeOptions { ttl_ms, max_idle_ms, eviction, memory_max: 0 };
                let mut schema = TableSchema::clone(&self.region.schema());
                let keeps = |options: &LifeOptions| (crate::life::Keep::of(options), options.max_idle_ms);
                // What is over stays so, whatever comes.
                self.table = self.living();
                if keeps(&options) != keeps(&self.options) {
                    let now = self.now;
                    self.table.values_mut().for_each(|row| row.used = now);
                }
                if self.options.max_idle_ms > 0 {
                    // Those that have ended by it are told so as if they had been given that time, older snapshots too.
                    self.snapshots.clear();
                }
                (schema.life, self.options) = (options, options);
                schema.version += 1;
                self.transaction = None;
                self.region.alter(Arc::new(schema)).unwrap();
            }
            Op::OpenSnapshot => self.snapshots.push((self.store.snapshot(), self.living())),
            Op::DropSnapshot(index) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(index % self.snapshots.len());
                }
            }
            Op::Begin => {
                let (snapshot, sees) = (self.store.snapshot(), self.living());
                let (set, writes) = (WriteSet::new(), BTreeMap::new());
                self.transaction = Some(Transaction { set, snapshot, sees, writes });
            }
            Op::Put(key, v, life) => {
                let (now, version) = (self.now, self.region.version());
                let Some(open) = &mut self.transaction else { return };
                let expiry = life.expiry(now).unwrap_or(Expiry::Keep);
                let row = [Datum::Int8(key), Datum::Int8(v)];
                open.set.put(&self.region, version, &open.snapshot, &row, expiry).unwrap();
                let before = open.writes.get(&key).copied();
                let kept = match (expiry, before) {
                    (Expiry::Keep, Some((Some((_, before)), _))) => before,
                    (Expiry::Keep, Some((None, _))) => Expiry::Table,
                    _ => expiry,
                };
                open.writes.insert(key, (Some((v, kept)), false));
            }
            Op::Add(key, v) => {
                let version = self.region.version();
                let Some(open) = &mut self.transaction else { return };
                let row = [Datum::Int8(key), Datum::Int8(v)];
                let done = open.set.insert(&self.region, version, &open.snapshot, &row);
                let before = open.writes.get(&key);
                let exists = before.map_or(open.sees.contains_key(&key), |(write, _)| write.is_some());
                if exists {
                    assert_eq!(done.unwrap_err().code(), ErrorCode::UniqueViolation);
                } else {
                    done.unwrap();
                    let is_new = before.is_none();
                    open.writes.insert(key, (Some((v, Expiry::Table)), is_new));
                }
            }
            Op::Remove(key) => {
                let version = self.region.version();
                let Some(open) = &mut self.transaction else { return };
                open.set.delete(&self.region, version, &open.snapshot, &[Datum::Int8(key)]).unwrap();
                open.writes.insert(key, (None, false));
            }
            Op::Commit => self.commit(),
            Op::Evict(count) => self.evict(count),
            Op::Compact => {
                self.store.compact();
            }
            Op::Index => {
                let columns = vec![self.region.schema().columns[1].id];
                let id = TableId(100);
                let index = Arc::new(IndexDef::plain(id, "i", IndexKind::Btree, columns));
                if self.index.is_none() {
                    self.region.add_index(&index);
                    self.region.build_index(&index).unwrap();
                    self.index = Some(index);
                }
            }
            Op::Unique => self.make_unique(),
        }
    }

    fn updated(&mut self, key: i64, v: Option<i64>, done: Applied, life: Life) {
        let Some(old) = self.get(key) else { return assert_eq!(done, Applied::Nothing) };
        assert_eq!(done, Applied::Updated);
        self.put(key, v.unwrap_or(old.v), life.expiry(self.now).unwrap_or(Expiry::Keep));
    }

    fn make_unique(&mut self) {
        if self.is_unique {
            return;
        }
        let unique = Some(Unique { nulls_distinct: true, is_constraint: false });
        let columns = vec![self.region.schema().columns[1].id];
        let index = IndexDef { unique, ..IndexDef::plain(TableId(101), "u", IndexKind::Btree, columns) };
        let index = Arc::new(index);
        self.region.add_index(&index);
        let done = self.region.build_index(&index);
        let living = self.living();
        let values: BTreeSet<i64> = living.values().map(|row| row.v).collect();
        if values.len() < living.len() {
            assert_eq!(done.unwrap_err().code(), ErrorCode::UniqueViolation);
            self.region.drop_index(&index);
            return;
        }
        done.unwrap();
        self.is_unique = true;
        self.index.get_or_insert(index);
    }

    /// Whether rows would have the same value once a transaction has written its own.
    fn would_clash(&self, writes: &Writes) -> bool {
        let mut after: BTreeMap<i64, i64> = self.living().iter().map(|(key, row)| (*key, row.v)).collect();
        for (key, (write, _)) in writes {
            after.remove(key);
            after.extend(write.map(|(v, _)| (*key, v)));
        }
        let mut written = writes.iter().filter_map(|(key, (write, _))| Some((key, write.as_ref()?.0)));
        self.is_unique && written.any(|(key, v)| after.iter().any(|(other, same)| other != key && *same == v))
    }

    fn commit(&mut self) {
        let Some(mut open) = self.transaction.take() else { return };
        let number = |row: Option<&Row>| row.map(|row| row.number);
        let living = self.living();
        let has_changed = |key: &i64| number(open.sees.get(key)) != number(living.get(key));
        let conflicts: Vec<bool> = open
            .writes
            .iter()
            .filter(|(key, _)| has_changed(key))
            .map(|(key, (_, is_new))| *is_new && !open.sees.contains_key(key))
            .collect();
        let clashes = self.would_clash(&open.writes);
        let done = self.store.commit(&mut open.set);
        if conflicts.is_empty() && clashes {
            let error = done.unwrap_err();
            assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
            return;
        }
        if conflicts.is_empty() {
            done.unwrap();
            for (key, (write, _)) in open.writes {
                match write {
                    Some((v, expiry)) => self.put(key, v, expiry),
                    None => {
                        self.table.remove(&key);
                    }
                }
            }
            return;
        }
        match done.unwrap_err().code() {
            ErrorCode::UniqueViolation => assert!(conflicts.contains(&true)),
            ErrorCode::SerializationFailure => {}
            code => panic!("{code:?}"),
        }
    }

    /// Nobody knows which rows go, but those that stay are as they were.
    fn evict(&mut self, count: usize) {
        let before = self.living();
        let mut gone = 0;
        for partition in (0..self.region.partition_count()).map(PartitionId) {
            if let Some(partition) = self.region.lock(partition).as_mut() {
                gone += partition.evict(count, self.region.common().stamp());
            }
        }
        assert!(self.options.eviction != Eviction::None || gone == 0);
        let left = self.scanned(&ReadView::committed(self.store.snapshot()));
        assert!(left.len() + gone >= before.len());
        self.table.retain(|key, row| before.contains_key(key) && left.get(key).is_some_and(|left| left.0 == row.v));
        assert_eq!(self.table.len(), left.len());
    }

    /// Values and ends of the rows that a view sees.
    fn scanned(&self, view: &ReadView) -> BTreeMap<i64, (i64, Option<i64>)> {
        let mut found = BTreeMap::new();
        for partition in (0..self.region.partition_count()).map(PartitionId) {
            for scanned in self.region.scan(view, partition, &[0, 1, EXPIRES_AT]).unwrap() {
                let ends = crate::expires_at_column().sql_type;
                let types = [INT8, INT8, ends];
                let readers: Vec<_> = types
                    .into_iter()
                    .enumerate()
                    .map(|(column, sql_type)| ColumnReader::new(scanned.batch.column(column), sql_type).unwrap())
                    .collect();
                for row in 0..scanned.batch.num_rows() {
                    if scanned.visible.as_ref().is_some_and(|visible| !visible.value(row)) {
                        continue;
                    }
                    let (Datum::Int8(key), Datum::Int8(v)) = (readers[0].datum(row), readers[1].datum(row)) else {
                        panic!("integers")
                    };
                    let ends = match readers[2].datum(row) {
                        Datum::Timestamp(micros) => Some(micros / 1000),
                        _ => None,
                    };
                    assert_eq!(found.insert(key, (v, ends)), None, "key {key} twice");
                }
            }
        }
        found
    }

    fn check(&self) {
        self.region.check();
        let living = self.living();
        assert_eq!(self.region.row_count(), living.len() as u64);
        // Those that are over and that nobody has ended are counted too.
        let ending = living.values().filter(|row| row.ends.is_some()).count() as u64;
        assert!((ending..=self.region.row_estimate()).contains(&self.region.expiring().rows));
        for key in 0..KEYS {
            let found =
                self.region.peek(&[Datum::Int8(key)], |row| row.map(|row| (row.get(1).to_value(), row.expires_at())));
            assert_eq!(found, living.get(&key).map(|row| (Value::Int8(row.v), row.ends)), "key {key}");
        }
        let named: BTreeSet<i64> = self.named();
        assert_eq!(named, living.keys().copied().collect());
        self.check_view(&ReadView::committed(self.store.snapshot()), &living);
        for (snapshot, table) in &self.snapshots {
            self.check_view(&ReadView::committed(snapshot.clone()), table);
        }
        if let Some(open) = &self.transaction {
            let view = ReadView { snapshot: open.snapshot.clone(), overlays: open.set.overlays() };
            let mut expected: BTreeMap<i64, i64> = open.sees.iter().map(|(key, row)| (*key, row.v)).collect();
            for (key, (write, _)) in &open.writes {
                expected.remove(key);
                expected.extend(write.map(|(v, _)| (*key, v)));
            }
            let scanned: BTreeMap<i64, i64> = self.scanned(&view).into_iter().map(|(key, (v, _))| (key, v)).collect();
            assert_eq!(scanned, expected);
        }
    }

    /// Keys as SCAN meets them.
    fn named(&self) -> BTreeSet<i64> {
        let mut named = BTreeSet::new();
        for partition in (0..self.region.partition_count()).map(PartitionId) {
            self.region.keys_in_bucket(partition, 0, 0, |row| {
                if let Datum::Int8(key) = row.get(0) {
                    named.insert(key);
                }
                true
            });
        }
        named
    }

    fn check_view(&self, view: &ReadView, table: &Table) {
        let expected: BTreeMap<i64, (i64, Option<i64>)> =
            table.iter().map(|(key, row)| (*key, (row.v, row.ends))).collect();
        assert_eq!(self.scanned(view), expected);
        // By every way that rows are found or counted, walks of indexes and lists of keys among them.
        let mut rows = scan_all(&self.region, view).unwrap();
        rows.sort_by_key(|row| format!("{:?}", row[0]));
        let mut seen: Vec<Vec<Value>> =
            table.iter().map(|(key, row)| vec![Value::Int8(*key), Value::Int8(row.v)]).collect();
        seen.sort_by_key(|row| format!("{:?}", row[0]));
        assert_eq!(rows, seen);
        let Some(index) = &self.index else { return };
        for row in table.values() {
            let open = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            let probe = Probe { index: Arc::clone(index), equal: vec![Value::Int8(row.v)], range: open };
            let mut found = 0;
            for partition in (0..self.region.partition_count()).map(PartitionId) {
                let version = self.region.version();
                assert!(self.region.probe(&view.snapshot, partition, version, &probe, 100, &mut |_| found += 1));
            }
            let same = table.iter().filter(|(_, other)| other.v == row.v).count();
            assert_eq!(found, same);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn rows_end_as_those_of_the_twin_do(
        ops in ops(),
        partitions in prop_oneof![Just(1u16), Just(4)],
        segment_rows in prop_oneof![Just(1u32), Just(3), Just(8)],
    ) {
        let mut model = Model::new(partitions, segment_rows);
        for op in &ops {
            model.run(op);
            model.check();
        }
        // Once all time is over, nothing is left, and nothing is asked any more.
        model.snapshots.clear();
        model.transaction = None;
        let rows = model.table.keys().copied().collect::<Vec<_>>();
        for key in rows {
            model.run(&Op::Expire(key, Life::In(5)));
        }
        model.run(&Op::Pass(100_000));
        model.check();
        model.store.compact();
        prop_assert_eq!(model.region.bytes(), 0);
        prop_assert_eq!(model.store.memory_used(), 0);
    }
}

fn moved() -> (Arc<AtomicI64>, StoreConfig) {
    let wall = Arc::new(AtomicI64::new(START * 1000));
    let config = StoreConfig { partition_count: 8, wall: Wall::Moved(Arc::clone(&wall)), ..StoreConfig::default() };
    (wall, config)
}

fn upsert(region: &Region, key: i64, expiry: Expiry) -> Result<Applied> {
    let row = [Datum::Int8(key), Datum::Int8(key)];
    let write = Mutation::Upsert { row: &row };
    region.entry(&row[..1], |entry| entry.apply(Mutation::Living { write: &write, expiry }))
}

#[test]
fn rows_without_expiry_keep_nothing_of_it() {
    let (_, config) = moved();
    let store = Store::new(config.clone());
    let other = Store::new(config);
    let (plain, said) = (store.create_region(numbers(1)).unwrap(), other.create_region(numbers(1)).unwrap());
    for key in 0..10_000 {
        upsert(&plain, key, Expiry::Table).unwrap();
        upsert(&said, key, Expiry::Keep).unwrap();
    }
    assert_eq!(plain.bytes(), said.bytes());
    upsert(&said, 3, Expiry::At(START + 1000)).unwrap();
    let more = said.bytes() - plain.bytes();
    assert!(more > 0 && more < 20_000, "one segment of eight partitions keeps deadlines: {more} bytes");
}

/// The thread gives the memory of a table back that nobody touches.
#[test]
fn an_idle_table_gives_its_memory_back() {
    let (wall, config) = moved();
    let store = Store::new(StoreConfig { compaction_interval_ms: 1, ..config });
    let region = store.create_region(numbers(1)).unwrap();
    for key in 0..20_000 {
        upsert(&region, key, Expiry::At(START + 1000 + key)).unwrap();
    }
    let handle = store.start_compactor();
    let full = region.bytes();
    wall.fetch_add(11_000_000, Ordering::SeqCst);
    let start = ashlar_base::clock::monotonic();
    while region.bytes() > full * 2 / 3 {
        assert!(start.elapsed().as_secs() < 60, "{} of {full} bytes are left", region.bytes());
        std::thread::yield_now();
    }
    wall.fetch_add(60_000_000, Ordering::SeqCst);
    assert_eq!(region.row_count(), 0, "at once");
    // They are counted when they have gone.
    while region.bytes() > 0 || store.ended().expired < 20_000 {
        assert!(start.elapsed().as_secs() < 60, "{} of {full} bytes are left", region.bytes());
        std::thread::yield_now();
    }
    assert_eq!(store.ended().expired, 20_000);
    drop(handle);
}

fn bounded(memory_max: u64, eviction: Eviction) -> (Arc<Store>, Arc<Region>) {
    let (_, config) = moved();
    let store = Store::new(config);
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life = LifeOptions { memory_max, eviction, ..LifeOptions::default() };
    let region = store.create_region(Arc::new(schema)).unwrap();
    (store, region)
}

#[test]
fn a_table_stays_below_its_bound_and_takes_every_write() {
    const MAX: u64 = 2 << 20;
    for eviction in [Eviction::Lru, Eviction::Lfu, Eviction::Random] {
        let (store, region) = bounded(MAX, eviction);
        let mut most = 0;
        for key in 0..400_000 {
            upsert(&region, key, Expiry::Table).unwrap_or_else(|error| panic!("{eviction:?}, {key}: {error}"));
            most = most.max(region.bytes());
        }
        assert!(most <= MAX, "{eviction:?}: {most}");
        assert!(region.bytes() > MAX / 2, "{eviction:?}: only {} bytes are used", region.bytes());
        region.check();
        assert_eq!(region.row_count() + store.ended().evicted, 400_000, "{eviction:?}");
    }
    // Without a policy the bound refuses, and says whose it is.
    let (_, region) = bounded(MAX, Eviction::None);
    let error = (0..400_000).find_map(|key| upsert(&region, key, Expiry::Table).err()).unwrap();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.fields().detail.as_deref().unwrap().contains("memory_max"), "{error:?}");
    assert!(region.bytes() <= MAX);
}

#[test]
fn what_is_used_stays() {
    for eviction in [Eviction::Lru, Eviction::Lfu] {
        let wall = Arc::new(AtomicI64::new(START * 1000));
        let store = Store::new(StoreConfig {
            partition_count: 8,
            wall: Wall::Moved(Arc::clone(&wall)),
            ..StoreConfig::default()
        });
        let mut schema = TableSchema::clone(&numbers(1));
        schema.life = LifeOptions { memory_max: 2 << 20, eviction, ..LifeOptions::default() };
        let region = store.create_region(Arc::new(schema)).unwrap();
        const WANTED: i64 = 2_000;
        for key in 0..300_000 {
            upsert(&region, key, Expiry::Table).unwrap();
            if key % 10 == 0 {
                wall.fetch_add(10_000, Ordering::SeqCst);
                store.advance_clock();
            }
            if key >= WANTED {
                region.get(&[Datum::Int8(key % WANTED)], |_| ());
            }
        }
        let left = (0..WANTED).filter(|key| region.peek(&[Datum::Int8(*key)], |row| row.is_some())).count();
        assert!(left > WANTED as usize * 9 / 10, "{eviction:?}: {left} of {WANTED} are left");
    }
}

#[test]
fn rows_say_how_they_are_used() {
    let used = |region: &Region, now: i64| {
        region.peek(&[Datum::Int8(1)], |row| row.map(|row| (row.idle_millis(now), row.frequency(now))).unwrap())
    };
    for eviction in [Eviction::None, Eviction::Lru, Eviction::Lfu] {
        let (wall, config) = moved();
        let store = Store::new(config);
        let mut schema = TableSchema::clone(&numbers(1));
        schema.life = LifeOptions { eviction, ..LifeOptions::default() };
        let region = store.create_region(Arc::new(schema)).unwrap();
        upsert(&region, 1, Expiry::Table).unwrap();
        wall.fetch_add(10_000_000, Ordering::SeqCst);
        store.advance_clock();
        let (idle, count) = used(&region, store.now_millis());
        let is_kept = eviction != Eviction::None;
        assert_eq!(idle.map(|idle| idle.div_ceil(1000)), is_kept.then_some(10), "{eviction:?}: {idle:?}");
        assert_eq!(count, (eviction == Eviction::Lfu).then_some(5), "{eviction:?}");
        region.get(&[Datum::Int8(1)], |_| ());
        assert_eq!(used(&region, store.now_millis()).0, is_kept.then_some(0), "{eviction:?}: a use");
        assert_eq!(used(&region, store.now_millis()).0, is_kept.then_some(0), "{eviction:?}: a look");
    }
}

/// The bound of the whole store is kept by those tables that let rows go.
#[test]
fn rows_of_a_cache_make_room_for_a_table_that_keeps_its_own() {
    let (_, config) = moved();
    let store = Store::new(StoreConfig { memory_max: 4 << 20, ..config });
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life = LifeOptions { eviction: Eviction::Lru, ..LifeOptions::default() };
    let cache = store.create_region(Arc::new(schema)).unwrap();
    let kept = store.create_region(numbers(2)).unwrap();
    (0..300_000).for_each(|key| assert!(upsert(&cache, key, Expiry::Table).is_ok()));
    assert!(store.memory_used() > 3 << 20);
    for first in (0..30_000i64).step_by(1000) {
        let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
        for key in first..first + 1000 {
            writes.insert(&kept, 1, &snapshot, &[Datum::Int8(key), Datum::Int8(0)]).unwrap();
        }
        drop(snapshot);
        store.commit(&mut writes).unwrap();
        store.compact();
    }
    assert_eq!(kept.row_count(), 30_000);
    assert!(store.memory_used() <= 4 << 20);
}

/// A snapshot keeps what has gone, so that letting more go is no help: it stops.
#[test]
fn what_a_snapshot_holds_does_not_empty_the_table() {
    let (store, region) = bounded(2 << 20, Eviction::Lru);
    (0..40_000).for_each(|key| assert!(upsert(&region, key, Expiry::Table).is_ok()));
    let snapshot = store.snapshot();
    let refused = (40_000..600_000).find_map(|key| upsert(&region, key, Expiry::Table).err().map(|error| (key, error)));
    let (_, error) = refused.unwrap();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(region.row_count() > 5_000, "{} rows are left", region.row_count());
    drop(snapshot);
    upsert(&region, 700_000, Expiry::Table).unwrap();
}

/// What gives memory back needs none.
#[test]
fn a_full_table_refuses_no_delete() {
    let (_, region) = bounded(1 << 20, Eviction::None);
    let count = (0..400_000).find(|key| upsert(&region, *key, Expiry::Table).is_err()).unwrap();
    // Rows end from now on, which is kept of none of them yet; and there is less than no room for it.
    let mut schema = TableSchema::clone(&region.schema());
    schema.version += 1;
    (schema.life.ttl_ms, schema.life.memory_max) = (60_000, region.bytes() - 1);
    region.alter(Arc::new(schema)).unwrap();
    assert_eq!(upsert(&region, 0, Expiry::Table).unwrap_err().code(), ErrorCode::OutOfMemory);
    for key in 0..count {
        let key = [Datum::Int8(key)];
        let applied = region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key }));
        assert_eq!(applied.unwrap(), Applied::Deleted);
    }
    assert_eq!(region.row_count(), 0);
}

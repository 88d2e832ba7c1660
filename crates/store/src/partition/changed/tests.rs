//! Whoever hears of every change knows the rows, whatever has changed them; and a change that nobody hears of is noticed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_base::clock::{Wall, millis_of};
use ashlar_base::{
    ColumnId, Datum, Eviction, IndexDef, IndexKind, LifeOptions, PartitionId, TableId, TableSchema, Unique, Value,
};
use proptest::prelude::*;

use super::*;
use crate::life::Deadline;
use crate::partition::{Located, Stamp};
use crate::testing::{numbers, scan_all, store, wait};
use crate::{Expiry, Mutation, ReadView, Region, RowBatch, Snapshot, Store, StoreConfig, Watch, WriteSet};

const KEYS: i64 = 9;
/// A time in 2027, in milliseconds.
const START: i64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    Insert(i64),
    /// When it ends, from now.
    Upsert(i64, Option<i64>),
    Update(i64),
    Expire(i64, i64),
    Delete(i64),
    Pass(i64),
    /// A transaction that truncates first, or does not; then keys that it writes, or deletes.
    Commit(bool, Vec<(i64, Option<Option<i64>>)>),
    /// The same with rows that arrive in bulk, where the table takes them so.
    Load(bool, i64, i64),
    Truncate,
    Evict(usize),
    Compact,
    OpenSnapshot,
    DropSnapshots,
    Watch(i64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..KEYS;
    let ends = || prop_oneof![2 => Just(None::<i64>), 3 => (-20..300i64).prop_map(Some)];
    let rarely = || prop_oneof![4 => Just(false), 1 => Just(true)];
    // Often more than a commit applies before it lets go.
    let writes = proptest::collection::vec(
        (key(), prop_oneof![1 => Just(None::<Option<i64>>), 3 => ends().prop_map(Some)]),
        0..9,
    );
    let op = prop_oneof![
        4 => key().prop_map(Op::Insert),
        8 => (key(), ends()).prop_map(|(key, ends)| Op::Upsert(key, ends)),
        6 => key().prop_map(Op::Update),
        4 => (key(), -20..300i64).prop_map(|(key, ends)| Op::Expire(key, ends)),
        4 => key().prop_map(Op::Delete),
        8 => (1..200i64).prop_map(Op::Pass),
        8 => (rarely(), writes).prop_map(|(truncates, writes)| Op::Commit(truncates, writes)),
        5 => (rarely(), key(), 1..7i64).prop_map(|(truncates, first, count)| Op::Load(truncates, first, count)),
        2 => Just(Op::Truncate),
        2 => (1..4usize).prop_map(Op::Evict),
        4 => Just(Op::Compact),
        4 => Just(Op::OpenSnapshot),
        3 => Just(Op::DropSnapshots),
        4 => key().prop_map(Op::Watch),
    ];
    proptest::collection::vec(op, 1..60)
}

/// The values of a row and when it ends.
type Seen = Option<(Vec<Value>, Option<i64>)>;

struct Model {
    store: Arc<Store>,
    region: Arc<Region>,
    wall: Arc<AtomicI64>,
    /// No two writes write the same.
    number: i64,
    snapshots: Vec<Snapshot>,
    /// What a key had when it began to be watched.
    watches: BTreeMap<i64, (Watch, Seen)>,
}

impl Model {
    fn new(partitions: u16, segment_rows: u32, evicts: bool, is_unique: bool) -> Self {
        let wall = Arc::new(AtomicI64::new(START * 1000));
        let store = Store::new(StoreConfig {
            partition_count: partitions,
            segment_rows_max: segment_rows,
            compaction_rows_min: 1,
            wall: Wall::Moved(Arc::clone(&wall)),
            ..StoreConfig::default()
        });
        let mut schema = TableSchema::clone(&numbers(1));
        if evicts {
            schema.life = LifeOptions { eviction: Eviction::Random, ..LifeOptions::default() };
        }
        let region = store.create_region(Arc::new(schema)).unwrap();
        if is_unique {
            let unique = Some(Unique { nulls_distinct: true, is_constraint: false });
            let columns = vec![ColumnId(1)];
            let index = IndexDef { unique, ..IndexDef::plain(TableId(100), "u", IndexKind::Btree, columns) };
            let index = Arc::new(index);
            region.add_index(&index);
            region.build_index(&index).unwrap();
        }
        Self { store, region, wall, number: 0, snapshots: Vec::new(), watches: BTreeMap::new() }
    }

    /// Another row of a key.
    fn row(&mut self, key: i64) -> [Datum<'static>; 2] {
        self.number += 1;
        [Datum::Int8(key), Datum::Int8(self.number)]
    }

    fn expiry(&self, ends: Option<i64>) -> Expiry {
        ends.map_or(Expiry::Table, |millis| Expiry::At(self.wall.load(Ordering::SeqCst) / 1000 + millis))
    }

    /// Whether it is refused is no matter: nobody hears of it then.
    fn write(&self, key: i64, write: Mutation<'_>) {
        self.region.entry(&[Datum::Int8(key)], |entry| entry.apply(write)).ok();
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Insert(key) => {
                let row = self.row(*key);
                self.write(*key, Mutation::Insert { row: &row });
            }
            Op::Upsert(key, ends) => {
                let row = self.row(*key);
                let (write, expiry) = (Mutation::Upsert { row: &row }, self.expiry(*ends));
                self.write(*key, Mutation::Living { write: &write, expiry });
            }
            Op::Update(key) => {
                let [asked, v] = self.row(*key);
                self.write(*key, Mutation::Update { key: &[asked], changes: &[(1, v)] });
            }
            Op::Expire(key, ends) => {
                let asked = [Datum::Int8(*key)];
                let (write, expiry) = (Mutation::Update { key: &asked, changes: &[] }, self.expiry(Some(*ends)));
                self.write(*key, Mutation::Living { write: &write, expiry });
            }
            Op::Delete(key) => self.write(*key, Mutation::Delete { key: &[Datum::Int8(*key)] }),
            Op::Pass(millis) => {
                self.wall.fetch_add(millis * 1000, Ordering::SeqCst);
            }
            Op::Commit(truncates, writes) => self.commit(*truncates, writes),
            Op::Load(truncates, first, count) => self.load(*truncates, *first..first + count),
            Op::Truncate => {
                self.region.truncate().unwrap();
            }
            Op::Evict(count) => {
                for partition in (0..self.region.partition_count()).map(PartitionId) {
                    if let Some(partition) = self.region.lock(partition).as_mut() {
                        partition.evict(*count, self.region.common().stamp());
                    }
                }
            }
            Op::Compact => {
                self.store.compact();
            }
            Op::OpenSnapshot => self.snapshots.push(self.store.snapshot()),
            Op::DropSnapshots => self.snapshots.clear(),
            Op::Watch(key) => {
                let (watch, seen) = (self.region.watch(&[Datum::Int8(*key)]).unwrap(), self.seen(*key));
                self.watches.insert(*key, (watch, seen));
            }
        }
    }

    fn commit(&mut self, truncates: bool, writes: &[(i64, Option<Option<i64>>)]) {
        let (mut set, snapshot) = (WriteSet::new(), self.store.snapshot());
        if truncates {
            set.truncate(&self.region, &snapshot).unwrap();
        }
        for (key, write) in writes {
            match write {
                Some(ends) => {
                    let (row, expiry) = (self.row(*key), self.expiry(*ends));
                    set.put(&self.region, 1, &snapshot, &row, expiry).unwrap();
                }
                None => set.delete(&self.region, 1, &snapshot, &[Datum::Int8(*key)]).unwrap(),
            }
        }
        drop(snapshot);
        self.store.commit(&mut set).unwrap();
    }

    fn load(&mut self, truncates: bool, keys: std::ops::Range<i64>) {
        let (mut set, mut batch, snapshot) = (WriteSet::new(), RowBatch::new(&self.region, 1), self.store.snapshot());
        if truncates {
            set.truncate(&self.region, &snapshot).unwrap();
        }
        let is_load = set.start_load(&self.region, 1, &snapshot).unwrap();
        for key in keys {
            let row = self.row(key);
            // A key that has a row is refused.
            let done = if is_load {
                wait(&mut batch, &row).unwrap();
                set.load_batch(&self.region, 1, &snapshot, &mut batch, 1).map(drop).map_err(|(_, error)| error)
            } else {
                set.insert(&self.region, 1, &snapshot, &row)
            };
            if done.is_err() {
                break;
            }
        }
        drop(snapshot);
        self.store.commit(&mut set).unwrap();
    }

    fn seen(&self, key: i64) -> Seen {
        self.region.peek(&[Datum::Int8(key)], |row| row.map(|row| (row.to_values(), row.expires_at())))
    }

    fn check(&self) {
        self.region.check();
        let view = ReadView::committed(self.store.snapshot());
        let mut there = scan_all(&self.region, &view).unwrap();
        let mut told = self.region.told_at(millis_of(view.snapshot.timestamp()));
        [&mut there, &mut told].into_iter().for_each(|rows| rows.sort_by_key(|row| format!("{row:?}")));
        assert_eq!(told, there, "what is told is what is read");
        for (key, (watch, then)) in &self.watches {
            let now = self.seen(*key);
            assert!(now == *then || watch.is_touched(&self.region), "key {key}: {then:?}, then {now:?}, untold");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whoever_hears_of_every_change_knows_every_row(
        ops in ops(),
        partitions in prop_oneof![Just(1u16), Just(4)],
        segment_rows in prop_oneof![Just(1u32), Just(3), Just(8)],
        evicts in any::<bool>(),
        is_unique in any::<bool>(),
    ) {
        let mut model = Model::new(partitions, segment_rows, evicts, is_unique);
        for op in &ops {
            model.run(op);
            model.check();
        }
    }
}

/// Changes the partition of a region that has row 1, past the place that tells of it. `change` gets where the row of `key`
/// is, or would be.
fn change_past_the_seam(key: i64, change: impl FnOnce(&mut Partition, Located, Stamp)) {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    let row = [Datum::Int8(1), Datum::Int8(10)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    region.check();
    let asked = [Datum::Int8(key)];
    let place = region.place_of(&asked).unwrap();
    let mut guard = region.lock(place.partition);
    let partition = region.partition_mut(place.partition, &mut guard);
    let located = partition.locate(place.hash, &asked);
    change(partition, located, region.common().stamp());
    drop(guard);
    region.check();
}

fn upsert(partition: &mut Partition, located: Located, stamp: Stamp, key: i64) {
    let row = [Datum::Int8(key), Datum::Int8(20)];
    partition.write(&Mutation::Upsert { row: &row }, located, stamp).unwrap();
}

#[test]
#[should_panic(expected = "nobody was told of [Int8(2), Int8(20)]")]
fn a_row_that_nobody_is_told_of_is_noticed() {
    change_past_the_seam(2, |partition, located, stamp| upsert(partition, located, stamp, 2));
}

#[test]
#[should_panic(expected = "nobody was told that column 1 is Int8(20)")]
fn a_value_that_nobody_is_told_of_is_noticed() {
    change_past_the_seam(1, |partition, located, stamp| upsert(partition, located, stamp, 1));
}

#[test]
#[should_panic(expected = "nobody was told of Deadline")]
fn a_deadline_that_nobody_is_told_of_is_noticed() {
    change_past_the_seam(1, |partition, located, _| {
        partition.rows.set_deadline(located.row.unwrap(), Deadline::of_row(START));
    });
}

#[test]
#[should_panic(expected = "nobody was told that rows have ended")]
fn an_end_that_nobody_is_told_of_is_noticed() {
    change_past_the_seam(1, |partition, located, stamp| {
        let row = located.row.unwrap();
        if partition.end(row, None, stamp) {
            partition.unindex(located.hash, row);
        }
    });
}

#[test]
#[should_panic(expected = "nobody was told that rows have ended")]
fn rows_that_go_at_once_and_nobody_is_told_of_are_noticed() {
    change_past_the_seam(1, |partition, _, _| {
        partition.rows.clear();
        partition.versions.clear();
    });
}

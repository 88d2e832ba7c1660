//! Indexes that are made step by step while rows come and go, against rows in a map.

use std::collections::BTreeMap;

use ashlar_base::{ColumnId, Datum, ErrorCode, IndexKind, PartitionId, TableId, Unique};
use proptest::prelude::*;

use super::*;
use crate::partition::Limits;
use crate::testing::{INT8, TEXT, index_key, is_same, lengths, numbers, scan_map, schema, store};
use crate::{Mutation, ReadView, Region, Snapshot, Store, WriteSet};

mod bytes;

const PARTITION: PartitionId = PartitionId(0);

/// `name` by `id`.
type Table = BTreeMap<i64, String>;

#[derive(Clone, Debug)]
enum Op {
    Put(i64, String),
    Update(i64, String),
    Delete(i64),
    /// Rows that are written, and deleted where there is no name.
    Commit(Vec<(i64, Option<String>)>),
    Truncate,
    OpenSnapshot,
    CloseSnapshots,
    Compact,
    /// The index gets so many rows.
    Step(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (id, name) = (|| 0..24i64, || "(all of them begin so )?[ab]{0,4}");
    let op = prop_oneof![
        6 => (id(), name()).prop_map(|(id, name)| Op::Put(id, name)),
        6 => (id(), name()).prop_map(|(id, name)| Op::Update(id, name)),
        4 => id().prop_map(Op::Delete),
        3 => prop::collection::vec((id(), prop::option::weighted(0.7, name())), 0..6).prop_map(Op::Commit),
        1 => Just(Op::Truncate),
        2 => Just(Op::OpenSnapshot),
        1 => Just(Op::CloseSnapshots),
        2 => Just(Op::Compact),
        8 => (1..5usize).prop_map(Op::Step),
    ];
    prop::collection::vec(op, 0..50)
}

/// On the name, ordered or by hash, on its length, on names of even length, or on the length of those.
fn index(form: u8, is_unique: bool) -> Arc<IndexDef> {
    let id = TableId(100);
    let index = match form {
        0 => IndexDef::plain(id, "i", IndexKind::Btree, vec![ColumnId(1)]),
        1 => IndexDef::plain(id, "i", IndexKind::Hash, vec![ColumnId(1)]),
        form => lengths(id, ColumnId(1), form != 3, form > 2),
    };
    let is_unique = is_unique && form != 1;
    Arc::new(IndexDef { unique: is_unique.then_some(Unique { nulls_distinct: true, is_constraint: false }), ..index })
}

struct Model {
    store: Arc<Store>,
    region: Arc<Region>,
    index: Arc<IndexDef>,
    now: Table,
    snapshots: Vec<(Snapshot, Table)>,
    /// The partition whose rows the index gets now. All have it once there is none.
    next: u16,
}

impl Model {
    fn new(form: u8, is_unique: bool, before: &[(i64, String)]) -> Self {
        let store = store(2, 4);
        let region = store.create_region(schema(1, "t", &[("id", INT8), ("name", TEXT)], &[0])).unwrap();
        let index = index(form, is_unique);
        let mut model = Self { store, region, index, now: Table::new(), snapshots: Vec::new(), next: 0 };
        before.iter().for_each(|(id, name)| model.run(&Op::Put(*id, name.clone())));
        model.region.add_index(&model.index);
        model
    }

    fn is_done(&self) -> bool {
        self.next == self.region.partition_count()
    }

    /// Whether any of these rows has in the unique index what another one has.
    fn repeats(&self, table: &Table, ids: impl Iterator<Item = i64>) -> bool {
        let schema = self.region.schema();
        let key = |id: i64, name: &String| {
            let row = [Value::Int8(id), Value::Text(name.clone().into())];
            index_key(&self.index, &schema, |ordinal| row[ordinal].clone())
        };
        let others = |id: i64| table.iter().filter(move |(other, _)| **other != id);
        let mut own = ids.filter_map(|id| Some((id, key(id, table.get(&id)?)?)));
        self.index.unique.is_some()
            && own.any(|(id, own)| {
                others(id).filter_map(|(other, name)| key(*other, name)).any(|other| is_same(&own, &other))
            })
    }

    /// Rows of these ids were written, or none was.
    fn wrote(&mut self, ids: &[i64], done: Result<()>, after: Table) {
        match done {
            Ok(()) => {
                assert!(!self.is_done() || !self.repeats(&after, after.keys().copied()), "{after:?}");
                self.now = after;
            }
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
                assert!(self.repeats(&after, ids.iter().copied()), "{error}: {after:?}");
            }
        }
    }

    fn run(&mut self, op: &Op) {
        let mut after = self.now.clone();
        match op {
            Op::Put(id, name) => {
                let row = [Datum::Int8(*id), Datum::Text(name)];
                let done = self.region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row }));
                after.insert(*id, name.clone());
                self.wrote(&[*id], done.map(drop), after);
            }
            Op::Update(id, name) => {
                let key = [Datum::Int8(*id)];
                let update = Mutation::Update { key: &key, changes: &[(1, Datum::Text(name))] };
                let done = self.region.entry(&key, |entry| entry.apply(update));
                after.entry(*id).and_modify(|before| before.clone_from(name));
                self.wrote(&[*id], done.map(drop), after);
            }
            Op::Delete(id) => {
                let key = [Datum::Int8(*id)];
                let done = self.region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key }));
                after.remove(id);
                self.wrote(&[], done.map(drop), after);
            }
            Op::Commit(rows) => {
                let (mut writes, snapshot) = (WriteSet::new(), self.store.snapshot());
                for (id, name) in rows {
                    let row = [Datum::Int8(*id), Datum::Text(name.as_deref().unwrap_or_default())];
                    if let Some(name) = name {
                        writes.upsert(&self.region, 1, &snapshot, &row).unwrap();
                        after.insert(*id, name.clone());
                    } else {
                        writes.delete(&self.region, 1, &snapshot, &row[..1]).unwrap();
                        after.remove(id);
                    }
                }
                drop(snapshot);
                let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
                let done = self.store.commit(&mut writes).map(drop);
                self.wrote(&ids, done, after);
            }
            Op::Truncate => {
                assert_eq!(self.region.truncate().unwrap(), self.now.len() as u64);
                self.now.clear();
            }
            Op::OpenSnapshot => self.snapshots.push((self.store.snapshot(), after)),
            Op::CloseSnapshots => self.snapshots.clear(),
            Op::Compact => drop(self.store.compact()),
            Op::Step(rows) => drop(self.step(*rows)),
        }
    }

    /// False: the index cannot be made.
    fn step(&mut self, rows: usize) -> bool {
        if self.is_done() {
            return true;
        }
        match self.region.build_index_of(PartitionId(self.next), &self.index, rows) {
            Ok(is_done) => {
                self.next += u16::from(is_done);
                if self.is_done() {
                    self.region.complete_index(&self.index);
                    assert!(!self.repeats(&self.now, self.now.keys().copied()), "{:?}", self.now);
                }
                true
            }
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
                assert!(error.message().starts_with("could not create unique index"), "{error}");
                assert!(self.repeats(&self.now, self.now.keys().copied()), "{error}: {:?}", self.now);
                false
            }
        }
    }

    /// What is read, with the index where it is whole and without it where it is not, is what there is.
    fn check(&self) {
        self.region.check();
        let committed = (self.store.snapshot(), self.now.clone());
        for (snapshot, table) in self.snapshots.iter().chain([&committed]) {
            let rows = scan_map(&self.region, &ReadView::committed(snapshot.clone())).unwrap();
            let mut found: Vec<String> = rows.values().map(|row| format!("{row:?}")).collect();
            let row = |(id, name): (&i64, &String)| [Value::Int8(*id), Value::Text(name.clone().into())];
            let mut expected: Vec<String> = table.iter().map(|pair| format!("{:?}", row(pair))).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn an_index_that_is_made_beside_writes_has_what_there_is(
        form in 0..5u8,
        is_unique in any::<bool>(),
        before in prop::collection::vec((0..24i64, "[ab]{0,4}"), 0..30),
        ops in ops(),
    ) {
        let mut model = Model::new(form, is_unique, &before);
        for op in &ops {
            match op {
                Op::Step(rows) if !model.step(*rows) => break,
                Op::Step(_) => {}
                op => model.run(op),
            }
            model.check();
        }
        while !model.is_done() && model.step(3) {}
        model.check();
        if !model.is_done() {
            model.region.drop_index(&model.index);
        }
        model.snapshots.clear();
        model.region.truncate().unwrap();
        model.store.compact();
        prop_assert_eq!(model.region.bytes(), 0);
    }
}

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn on_v() -> Arc<IndexDef> {
    Arc::new(IndexDef::plain(TableId(100), "i", IndexKind::Btree, vec![ColumnId(1)]))
}

fn entries(region: &Region) -> usize {
    let guard = region.lock(PARTITION);
    guard.as_ref().unwrap().indexes.first().map_or(0, |index| index.entries.len())
}

/// Whatever a partition has, a hold of its lock is for some hundred rows, and others have the lock in between.
#[test]
fn an_index_gets_few_rows_in_each_hold_of_the_lock() {
    const ROWS: i64 = 5_000;
    let store = store(1, 256);
    let region = store.create_region(numbers(1)).unwrap();
    // Few values, whose rows have to be compared.
    (0..ROWS).for_each(|id| put(&region, id, id % 3));
    let index = on_v();
    region.add_index(&index);
    let (mut steps, mut had) = (0, 0);
    loop {
        let is_done = region.build_index_step(PARTITION, &index).unwrap();
        assert!(!region.is_busy(PARTITION));
        let has = entries(&region);
        assert!(has - had <= 512, "{} rows in one hold", has - had);
        steps += 1;
        if is_done {
            break;
        }
        // One before, one behind what the index has got, and a new one.
        put(&region, steps, -1);
        put(&region, ROWS - steps, -1);
        put(&region, ROWS + steps, -1);
        region.check();
        had = entries(&region);
    }
    assert!(steps >= ROWS / 512, "{steps} steps");
    region.check();
    assert_eq!(entries(&region) as u64, region.row_count());
}

#[test]
fn rows_on_their_way_arrive_first_and_none_sets_out_meanwhile() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    (0..24).for_each(|id| put(&region, id, id % 3));
    let delete = |id: i64| {
        let key = [Datum::Int8(id)];
        region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    };
    (0..24).filter(|id| id % 2 == 0).for_each(delete);
    let limits = Limits::of_round(1, 1 << 20);
    let pick = || region.lock(PARTITION).as_mut().unwrap().pick(limits);
    let rewritten = pick().unwrap().build(&region.common().hasher);
    assert!(region.lock(PARTITION).as_mut().unwrap().swap(rewritten));
    let index = on_v();
    region.add_index(&index);
    let mut steps = 0;
    while !region.build_index_of(PARTITION, &index, 2).unwrap() {
        steps += 1;
        let is_there = !region.lock(PARTITION).as_ref().unwrap().indexes.is_empty();
        assert!(!is_there || pick().is_none(), "nothing moves while an index gets its rows");
        region.check();
    }
    assert!(steps > 6, "{steps}");
    region.check();
    assert_eq!(entries(&region), 12);
    // Afterwards rows move again.
    (1..24).filter(|id| id % 4 == 1).for_each(delete);
    store.compact();
    region.check();
    assert_eq!(entries(&region), 6);
}

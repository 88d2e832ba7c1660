//! Between two pieces of what a commit has left, whoever reads sees all of the commit or nothing of it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{KeyTransaction, Snapshot};

const V_BEFORE: i64 = 77;

/// A snapshot, and what it sees.
type Seen = (Snapshot, BTreeMap<i64, i64>);

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn remove(region: &Region, id: i64) {
    region.entry(&[Datum::Int8(id)], |entry| entry.apply(Mutation::Delete { key: &[Datum::Int8(id)] })).unwrap();
}

/// What keys have, by all ways to read one: the latest row, and what snapshots see.
fn check_keys(region: &Region, latest: &BTreeMap<i64, i64>, snapshots: &[Seen], keys: i64) {
    for id in 0..keys {
        let key = [Datum::Int8(id)];
        let of = |known: &BTreeMap<i64, i64>| known.get(&id).map(|v| Value::Int8(*v));
        assert_eq!(region.get(&key, |row| row.map(|row| row.get(1).to_value())), of(latest), "{id}");
        assert_eq!(
            region.peek(&key, |row| row.map(|row| row.to_values())),
            of(latest).map(|v| vec![Value::Int8(id), v])
        );
        for (snapshot, known) in snapshots {
            let read = |row: Option<crate::RowRef<'_>>| row.map(|row| row.get(1).to_value());
            assert_eq!(region.get_at(snapshot, &key, read), of(known), "{id} at {snapshot:?}");
            assert_eq!(region.peek_at(snapshot, &key, read), of(known), "{id} at {snapshot:?}");
        }
    }
}

fn check_scans(region: &Arc<Region>, snapshots: &[Seen]) {
    for (snapshot, known) in snapshots {
        let rows = scan_all(region, &ReadView::committed(snapshot.clone())).unwrap();
        let seen: BTreeMap<i64, i64> = rows.iter().map(|row| pair(row)).collect();
        assert_eq!((rows.len(), &seen), (known.len(), known), "at {snapshot:?}");
    }
}

fn pair(row: &[Value]) -> (i64, i64) {
    match row {
        [Value::Int8(id), Value::Int8(v)] => (*id, *v),
        other => panic!("{other:?}"),
    }
}

/// Partitions in which something is left.
fn undone(left: &[Left]) -> usize {
    left.iter().map(|left| left.work.undone.load(Ordering::Relaxed)).sum()
}

/// Updates, deletes and inserts of single rows that are left in all partitions, and snapshots from before and after.
fn left_beside(store: &Arc<Store>) -> (Arc<Region>, Vec<Left>, Vec<Seen>) {
    let region = store.create_region(numbers(1)).unwrap();
    let (mut latest, mut writes) = (BTreeMap::new(), WriteSet::new());
    for id in 0..ROWS / 2 {
        put(&region, id, V_BEFORE);
        latest.insert(id, V_BEFORE);
    }
    let before = (store.snapshot(), latest.clone());
    for id in 0..ROWS * 3 / 4 {
        if is_there(id) {
            writes.upsert(&region, 1, &before.0, &row(id)).unwrap();
            latest.insert(id, id % 50);
        } else {
            writes.delete(&region, 1, &before.0, &row(id)[..1]).unwrap();
            latest.remove(&id);
        }
    }
    let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
    assert_eq!(undone(&left), usize::from(PARTITIONS));
    let after = (store.snapshot(), latest);
    (region, left, vec![before, after])
}

#[test]
fn a_key_is_read_beside_what_is_left() {
    let store = store(PARTITIONS, 64);
    let (region, left, snapshots) = left_beside(&store);
    for _ in 0..4 {
        check_keys(&region, &snapshots[1].1, &snapshots, ROWS);
        // Whoever reads a key does nothing of it.
        assert_eq!(undone(&left), usize::from(PARTITIONS));
        for partition in (0..PARTITIONS).map(PartitionId) {
            assert!(region.do_piece(partition), "more is left than a few pieces");
        }
    }
    check_scans(&region, &snapshots);
    assert_eq!(undone(&left), 0, "a scan does what is left");
    drop(snapshots);
    finish(&store, &region, left);
}

/// What a load brings, or a truncation ends, is not found by a look at the writes.
#[test]
fn what_cannot_be_read_beside_is_done_first() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    let before = undone(&left);
    assert_eq!(region.get(&row(3)[..1], |row| row.map(|row| row.get(1).to_value())), Some(Value::Int8(3)));
    assert_eq!(undone(&left), before - 1);
    finish(&store, &region, left);
}

#[test]
fn a_writer_does_what_is_left_of_its_partition_alone() {
    let store = store(PARTITIONS, 64);
    let (region, left, snapshots) = left_beside(&store);
    put(&region, 3, 1000);
    assert_eq!(undone(&left), usize::from(PARTITIONS) - 1);
    let mut latest = snapshots[1].1.clone();
    latest.insert(3, 1000);
    check_keys(&region, &latest, &snapshots, ROWS);
    remove(&region, 3);
    left.into_iter().for_each(|left| left.finish().unwrap());
    latest.remove(&3);
    check_keys(&region, &latest, &snapshots, ROWS);
    check_scans(&region, &snapshots);
    region.check();
}

/// Whoever watches a key and then sees what a commit has written there has been told of it; and a transaction is refused for a key
/// that he has not looked at since.
#[test]
fn a_watch_is_told_of_what_is_read_beside() {
    let store = store(PARTITIONS, 64);
    let region = store.create_region(numbers(1)).unwrap();
    (0..ROWS).for_each(|id| put(&region, id, V_BEFORE));
    let [seen, unseen, untouched] = [3, 4, ROWS].map(|id| region.watch(&[Datum::Int8(id)]).unwrap());
    let mut early = KeyTransaction::new(&store);
    early.get(&region, &[Datum::Int8(5)], |row| assert!(row.is_some())).unwrap();
    early
        .entry(&region, &[Datum::Int8(ROWS)], |entry| entry.apply(Mutation::Upsert { row: &row(ROWS) }))
        .unwrap()
        .unwrap();
    let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
    (0..ROWS).for_each(|id| writes.upsert(&region, 1, &snapshot, &row(id)).unwrap());
    drop(snapshot);
    let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
    let read = |id: i64| region.get(&[Datum::Int8(id)], |row| row.map(|row| row.get(1).to_value()));
    assert_eq!(read(3), Some(Value::Int8(3)));
    assert_eq!(undone(&left), usize::from(PARTITIONS));
    assert!(seen.is_touched(&region));
    assert!(early.commit(&store).is_err(), "a key that it has read is another one");
    let commit = |watch: &crate::Watch| {
        let mut transaction = KeyTransaction::new(&store);
        transaction.watch(&region, watch).unwrap();
        transaction.commit(&store).is_ok()
    };
    assert_eq!([&seen, &unseen, &untouched].map(commit), [false, false, true]);
    // One that comes now reads what was committed, and nobody is in its way.
    let mut late = KeyTransaction::new(&store);
    late.get(&region, &[Datum::Int8(5)], |row| assert!(row.is_some_and(|row| row.get(1) == Datum::Int8(5)))).unwrap();
    late.entry(&region, &[Datum::Int8(6)], |entry| entry.apply(Mutation::Upsert { row: &row(6) })).unwrap().unwrap();
    assert!(late.commit(&store).is_ok());
    left.into_iter().for_each(|left| left.finish().unwrap());
    assert_eq!(read(6), Some(Value::Int8(6)));
    region.check();
}

/// Large values make a piece of few rows.
#[test]
fn a_piece_ends_after_so_many_bytes() {
    let store = store(1, 64);
    let region = store.create_region(crate::testing::kv()).unwrap();
    let value = vec![7u8; BYTES_IN_PIECE];
    let row = |id: &'static [u8]| [Datum::Bytea(id), Datum::Bytea(&value)];
    let keys: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
    let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
    for key in keys {
        writes.upsert(&region, 1, &snapshot, &row(key)).unwrap();
    }
    drop(snapshot);
    let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
    // A row for each, and nothing after the last.
    let pieces = (0..).take_while(|_| region.do_piece(PartitionId(0))).count();
    assert_eq!(pieces + 1, keys.len());
    left.into_iter().for_each(|left| left.finish().unwrap());
    assert_eq!(region.row_count(), keys.len() as u64);
    region.check();
}

const KEYS: i64 = 30;
const FEW: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    Piece(u16),
    Keys,
    Scans,
    Put(i64),
    Remove(i64),
    Compact,
    Snapshot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        9 => (0..FEW).prop_map(Step::Piece),
        3 => Just(Step::Keys),
        1 => Just(Step::Scans),
        1 => (0..KEYS).prop_map(Step::Put),
        1 => (0..KEYS).prop_map(Step::Remove),
        1 => Just(Step::Compact),
        1 => Just(Step::Snapshot),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// However much is done of what commits have left, and by whom, a key has what was last committed for it, and a snapshot sees all
    /// that was committed before it and nothing else.
    #[test]
    fn whoever_reads_sees_all_of_a_commit_or_nothing(
        there in proptest::collection::vec(0..KEYS, 0..20), has_index in any::<bool>(),
        commits in proptest::collection::vec(
            (proptest::collection::vec((0..KEYS, proptest::option::of(0..9i64)), 1..30), steps()), 1..4)
    ) {
        let store = store(FEW, 8);
        let region = store.create_region(numbers(1)).unwrap();
        if has_index {
            make(&region, &index(9, false));
        }
        let mut latest = BTreeMap::new();
        for id in there {
            put(&region, id, V_BEFORE);
            latest.insert(id, V_BEFORE);
        }
        let (mut snapshots, mut finished) = (Vec::new(), Vec::new());
        for (number, (written, steps)) in commits.into_iter().enumerate() {
            snapshots.push((store.snapshot(), latest.clone()));
            let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
            for (id, v) in written {
                match v {
                    Some(v) => {
                        writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
                        latest.insert(id, v);
                    }
                    None => {
                        writes.delete(&region, 1, &snapshot, &[Datum::Int8(id)]).unwrap();
                        latest.remove(&id);
                    }
                }
            }
            drop(snapshot);
            let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
            finished.extend(left);
            for step in steps {
                match step {
                    Step::Piece(partition) => _ = region.do_piece(PartitionId(partition)),
                    Step::Keys => check_keys(&region, &latest, &snapshots, KEYS),
                    Step::Scans => check_scans(&region, &snapshots),
                    Step::Put(id) => {
                        let v = 100 + number as i64;
                        put(&region, id, v);
                        latest.insert(id, v);
                    }
                    Step::Remove(id) => {
                        remove(&region, id);
                        latest.remove(&id);
                    }
                    Step::Compact => _ = store.compact(),
                    Step::Snapshot => snapshots.push((store.snapshot(), latest.clone())),
                }
            }
        }
        check_keys(&region, &latest, &snapshots, KEYS);
        finished.into_iter().for_each(|left| left.finish().unwrap());
        snapshots.push((store.snapshot(), latest.clone()));
        check_keys(&region, &latest, &snapshots, KEYS);
        check_scans(&region, &snapshots);
        region.check();
    }
}

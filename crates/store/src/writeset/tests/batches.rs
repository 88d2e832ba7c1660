//! Rows that wait for each other against rows that are inserted one by one: of all types, some of them with keys that are there.

use ashlar_base::{ColumnId, IndexDef, IndexKind, ScalarType, SqlType};
use proptest::prelude::*;

use super::*;
use crate::StoreConfig;
use crate::testing::{INT4, INT8, TEXT, any_value, datums, scan_all, scan_map, schema, types, wait};

/// A key by its number, and the values beside it.
type Row = (u8, [Value; 3]);

/// The first key of the rows that come; those of others are below it.
const FIRST: u8 = 100;

#[derive(Clone, Debug)]
struct Case {
    /// Which columns the key has: the one, the other, or both.
    key: usize,
    types: [SqlType; 3],
    /// Has an index in order and one by hash.
    is_indexed: bool,
    committed: Vec<Row>,
    pending: Vec<Row>,
    deleted: Vec<u8>,
    truncates: bool,
    rows: Vec<Row>,
    /// How many rows wait for each other, and how many of them are put away at once.
    sizes: Vec<usize>,
}

impl Case {
    fn region(&self, store: &Store) -> Arc<Region> {
        let [a, b, c] = self.types;
        let id = if self.key == 0 { INT8 } else { INT4 };
        let key: &[usize] = match self.key {
            0 => &[1],
            1 => &[3],
            _ => &[3, 1],
        };
        let columns = [("a", a), ("id", id), ("b", b), ("name", TEXT), ("c", c)];
        let region = store.create_region(schema(1, "t", &columns, key)).unwrap();
        for (id, kind, column) in [(10, IndexKind::Btree, 3), (11, IndexKind::Hash, 1)] {
            if self.is_indexed {
                let index = IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(column)]);
                region.add_index(&Arc::new(index));
            }
        }
        region
    }

    /// A row as the table has it.
    fn row(&self, (number, [a, b, c]): &Row) -> Vec<Value> {
        let (id, name) = match self.key {
            0 => (Value::Int8(i64::from(*number) << 33), *number),
            1 => (Value::Int4(i32::from(*number)), *number),
            // Neither is the key by itself.
            _ => (Value::Int4(i32::from(*number) / 2), number % 2),
        };
        vec![a.clone(), id, b.clone(), Value::Text(format!("name {name}").into()), c.clone()]
    }

    /// The key of a row, in the order of the key.
    fn key_of(&self, number: u8) -> Vec<Value> {
        let row = self.row(&(number, [Value::Null, Value::Null, Value::Null]));
        match self.key {
            0 => vec![row[1].clone()],
            1 => vec![row[3].clone()],
            _ => vec![row[3].clone(), row[1].clone()],
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let most = if cfg!(miri) { 12 } else { 70 };
    let types = proptest::sample::select(types().collect::<Vec<SqlType>>());
    (0..3usize, any::<bool>(), proptest::array::uniform3(types)).prop_flat_map(move |(key, is_indexed, types)| {
        let values = move || types.map(any_value);
        let others = move |first: u8| {
            let values = proptest::collection::vec(values(), 0..6);
            values.prop_map(move |all| (first..).zip(all).collect::<Vec<Row>>())
        };
        let rows = proptest::collection::vec(values(), 1..most);
        let clashes = proptest::collection::vec((any::<usize>(), 0..FIRST + 70), 0..3);
        let rows = (rows, clashes).prop_map(|(all, clashes)| {
            let mut rows: Vec<Row> = (FIRST..).zip(all).collect();
            for (place, number) in clashes {
                let place = place % rows.len();
                rows[place].0 = number;
            }
            rows
        });
        let deleted = proptest::collection::vec(0..FIRST + 70, 0..4);
        let sizes = proptest::collection::vec(1..30usize, 1..6);
        (others(0), others(20), deleted, any::<bool>(), rows, sizes).prop_map(
            move |(committed, pending, deleted, truncates, rows, sizes)| Case {
                key,
                types,
                is_indexed,
                committed,
                pending,
                deleted,
                truncates,
                rows,
                sizes,
            },
        )
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    OneByOne,
    Waiting,
    InBulk,
}

fn shown(error: &Error) -> String {
    format!("{error:?} {:?}", error.fields().detail)
}

/// Puts the rows in: the number of the first that is refused, and why.
fn put(
    case: &Case,
    way: Way,
    writes: &mut WriteSet,
    region: &Arc<Region>,
    snapshot: &Snapshot,
) -> Result<(), (usize, String)> {
    let rows: Vec<Vec<Value>> = case.rows.iter().map(|row| case.row(row)).collect();
    if way == Way::OneByOne {
        return rows.iter().enumerate().try_for_each(|(number, row)| {
            writes.insert(region, 1, snapshot, &datums(row)).map_err(|error| (number, shown(&error)))
        });
    }
    if way == Way::InBulk {
        assert!(writes.start_load(region, 1, snapshot).unwrap());
    }
    let (mut batch, mut sizes) = (RowBatch::new(region, 1), case.sizes.iter().copied().cycle());
    let (mut put, mut size) = (0, || sizes.next().unwrap());
    while put < rows.len() {
        let some = &rows[put..rows.len().min(put + size())];
        some.iter().for_each(|row| wait(&mut batch, &datums(row)).unwrap());
        assert_eq!(batch.len(), some.len());
        let at_once = size();
        loop {
            let done = match way {
                Way::InBulk => writes.load_batch(region, 1, snapshot, &mut batch, at_once),
                _ => writes.insert_batch(region, 1, snapshot, &mut batch, at_once),
            };
            if done.map_err(|(row, error)| (put + row, shown(&error)))? {
                break;
            }
        }
        assert!(batch.is_empty());
        put += some.len();
    }
    Ok(())
}

/// All that can be told afterwards, within the transaction and after it.
fn outcome(case: &Case, way: Way) -> String {
    let store = store(4, 8);
    let region = case.region(&store);
    let mut before = WriteSet::new();
    for row in &case.committed {
        before.insert(&region, 1, &store.snapshot(), &datums(&case.row(row))).unwrap();
    }
    store.commit(&mut before).unwrap();
    let (snapshot, mut writes) = (store.snapshot(), WriteSet::new());
    if case.truncates {
        writes.truncate(&region, &snapshot).unwrap();
    }
    for row in &case.pending {
        writes.upsert(&region, 1, &snapshot, &datums(&case.row(row))).unwrap();
    }
    for number in &case.deleted {
        writes.delete(&region, 1, &snapshot, &datums(&case.key_of(*number))).unwrap();
    }
    let mark = writes.mark();
    let done = put(case, way, &mut writes, &region, &snapshot);
    if done.is_err() {
        writes.rollback_to(mark);
    }
    let view = ReadView { snapshot, overlays: writes.overlays() };
    let within = scan_map(&region, &view).unwrap();
    drop(view);
    store.commit(&mut writes).unwrap();
    region.check();
    let after = scan_map(&region, &ReadView::committed(store.snapshot())).unwrap();
    format!("{done:?}\n{within:?}\n{after:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_wait_end_as_those_that_do_not(case in cases()) {
        let expected = outcome(&case, Way::OneByOne);
        prop_assert_eq!(&outcome(&case, Way::Waiting), &expected);
        prop_assert_eq!(&outcome(&case, Way::InBulk), &expected);
    }
}

/// More rows than are sorted together, into indexes that have some: in what they leave behind nothing is out of order, and what is charged is given
/// back.
#[test]
fn a_load_is_in_every_index_that_says_nothing_of_its_rows() {
    let most: i64 = if cfg!(miri) { 40 } else { 20_000 };
    let store = store(1, 4096);
    let region = store.create_region(numbers(1)).unwrap();
    for (id, kind) in [(10, IndexKind::Btree), (11, IndexKind::Hash)] {
        let index = Arc::new(IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(1)]));
        region.add_index(&index);
        region.build_index(&index).unwrap();
    }
    let rows = |ids: std::ops::Range<i64>| ids.map(|id| [Datum::Int8(id), Datum::Int8(id * 7919 % 1000)]);
    for ids in [0..most / 10, most / 10..most, most..most + 3] {
        let mut writes = load(&region, &store.snapshot(), rows(ids)).unwrap();
        store.commit(&mut writes).unwrap();
        region.check();
    }
    assert_eq!(region.row_count(), most as u64 + 3);
    region.truncate().unwrap();
    store.compact();
    assert_eq!(store.memory_used(), 0);
}

/// What is wrong with a row is told when it is there as a whole, a NULL before all else.
#[test]
fn what_is_wrong_with_a_row_is_told_at_its_end() {
    let store = store(1, 4);
    let mut schema = TableSchema::clone(&numbers(1));
    schema.columns[1].nullable = false;
    let region = store.create_region(Arc::new(schema)).unwrap();
    let refused = |values: &[(usize, Datum<'_>)]| {
        let mut batch = RowBatch::new(&region, 1);
        wait(&mut batch, &[Datum::Int8(1), Datum::Int8(1)]).unwrap();
        values.iter().for_each(|(column, datum)| batch.put(*column, datum).unwrap());
        let error = batch.end_row().unwrap_err();
        assert_eq!(batch.len(), 1);
        // Those before it are there all the same.
        let mut writes = WriteSet::new();
        assert!(writes.insert_batch(&region, 1, &store.snapshot(), &mut batch, 9).unwrap());
        assert_eq!((writes.overlay(&region).is_some(), batch.len()), (true, 0));
        format!("{:?} {:?}", error.code(), error.fields().column)
    };
    assert_eq!(refused(&[(0, Datum::Bool(true)), (1, Datum::Null)]), "NotNullViolation Some(\"v\")");
    assert_eq!(refused(&[(1, Datum::Bool(true)), (0, Datum::Bool(true))]), "DatatypeMismatch Some(\"id\")");
    assert_eq!(refused(&[(0, Datum::Int8(2))]), "InternalError None");
    assert_eq!(refused(&[(0, Datum::Int8(2)), (1, Datum::Int8(2)), (1, Datum::Int8(3))]), "InternalError None");
    // Rows for another shape of the table.
    let mut batch = RowBatch::new(&region, 2);
    assert_eq!(batch.put(0, &Datum::Int8(1)).unwrap_err().code(), ErrorCode::SerializationFailure);
}

/// A batch of two numbers each, as large as it may become.
fn grown(region: &Arc<Region>, rows_max: usize) -> RowBatch {
    let mut batch = RowBatch::new(region, 1);
    for id in 0.. {
        wait(&mut batch, &[Datum::Int8(id), Datum::Int8(-id)]).unwrap();
        if batch.is_full() && !batch.grow(rows_max) {
            break;
        }
    }
    batch
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn rows_wait_for_as_many_as_they_are_to_be() {
    let store = store(4, 65_536);
    let region = store.create_region(numbers(1)).unwrap();
    for rows_max in [512, 513, 20_000] {
        let (snapshot, mut writes) = (store.snapshot(), WriteSet::new());
        let mut batch = grown(&region, rows_max);
        assert_eq!(batch.len(), rows_max);
        assert!(writes.start_load(&region, 1, &snapshot).unwrap());
        while !writes.load_batch(&region, 1, &snapshot, &mut batch, 700).unwrap() {}
        // Those after them are fewer, and take what fewer take.
        let large = store.memory_used();
        batch.expect_many();
        assert_eq!(store.memory_used() < large, rows_max == 20_000, "{rows_max}");
        wait(&mut batch, &[Datum::Int8(-1), Datum::Int8(1)]).unwrap();
        while !writes.load_batch(&region, 1, &snapshot, &mut batch, 700).unwrap() {}
        let view = ReadView { snapshot, overlays: writes.overlays() };
        assert_eq!(scan_map(&region, &view).unwrap().len(), rows_max + 1);
    }
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn rows_do_not_wait_where_memory_is_short() {
    let bound = 1 << 20;
    let store = Store::new(StoreConfig { partition_count: 4, memory_max: bound, ..StoreConfig::default() });
    let region = store.create_region(numbers(1)).unwrap();
    let batch = grown(&region, 1 << 20);
    assert!((4_096..65_536).contains(&batch.len()), "{} rows", batch.len());
    assert!(store.memory_used() <= bound, "{} bytes", store.memory_used());
    drop(batch);
    let mut others = store.reservation();
    others.grow((bound - store.memory_used()) as usize - (128 << 10)).unwrap();
    assert_eq!(grown(&region, 1 << 20).len(), 512);
}

/// Values that are texts yet, against those that are none.
#[test]
fn a_value_that_is_a_text_yet_is_put_as_what_it_is() {
    let store = store(1, 64);
    let scalars = [
        ScalarType::Int8,
        ScalarType::Int2,
        ScalarType::Int4,
        ScalarType::Float8,
        ScalarType::Varchar { length: None },
        ScalarType::Varchar { length: Some(3) },
        ScalarType::Bool,
    ];
    let names = ["id", "small", "number", "double", "name", "short", "flag"];
    let columns: Vec<(&str, SqlType)> = names.into_iter().zip(scalars.map(SqlType::Scalar)).collect();
    let region = store.create_region(schema(1, "t", &columns, &[0])).unwrap();
    let mut batch = RowBatch::new(&region, 1);
    let first = [
        Datum::Int8(1),
        Datum::Int2(2),
        Datum::Null,
        Datum::Float8(0.5),
        Datum::Text("x"),
        Datum::Text("y"),
        Datum::Bool(false),
    ];
    assert!(!batch.put_text(0, b"1"), "there is no room yet");
    wait(&mut batch, &first).unwrap();
    // Those of the other form, of other types, and those that there is no room for.
    let others: [(usize, &[u8]); 12] = [
        (0, b"x"),
        (0, b""),
        (0, b" 1"),
        (1, b"40000"),
        (2, b"-3000000000"),
        (3, b"1e3"),
        (4, b"a\0b"),
        (4, b"a\xff"),
        (4, &[b'x'; 100]),
        (5, b"abc"),
        (6, b"t"),
        (7, b"1"),
    ];
    for (column, text) in others {
        assert!(!batch.put_text(column, text), "{text:?} in column {column}");
    }
    let given: [(usize, &str); 5] =
        [(0, "-12"), (1, "-32768"), (2, "2147483647"), (3, "-4711.042"), (4, "\u{fc}\u{1f}")];
    for (column, text) in given {
        assert!(batch.put_text(column, text.as_bytes()), "{text} in column {column}");
    }
    batch.put(5, &Datum::Null).unwrap();
    batch.put(6, &Datum::Bool(true)).unwrap();
    batch.end_row().unwrap();
    let second = [
        Datum::Int8(-12),
        Datum::Int2(-32768),
        Datum::Int4(2_147_483_647),
        Datum::Float8(-4711.042),
        Datum::Text("\u{fc}\u{1f}"),
        Datum::Null,
        Datum::Bool(true),
    ];
    let mut writes = WriteSet::new();
    assert!(writes.insert_batch(&region, 1, &store.snapshot(), &mut batch, 9).unwrap());
    store.commit(&mut writes).unwrap();
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!(rows, [first, second].map(|row| row.iter().map(Datum::to_value).collect::<Vec<Value>>()));
}

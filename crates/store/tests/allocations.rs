//! What the store promises about memory, with an allocator that counts: the key path allocates nothing, and what is
//! charged is what is allocated.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

#[path = "allocations/day.rs"]
mod day;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnId, Datum, IndexDef, IndexKind, ScalarType, SqlType, TableId, TableSchema, Value};
use ashlar_store::{Applied, Mutation, Probe, Region, Store, StoreConfig, WriteSet};

thread_local! {
    /// Allocations of this thread, and its bytes that are allocated now; other tests run on others.
    static COUNTED: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(allocations: u64, bytes: i64) {
    COUNTED.with(|counted| {
        let (total, live) = counted.get();
        counted.set((total + allocations, live + bytes));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, new_size as i64 - layout.size() as i64);
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations that `run` costs.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = COUNTED.get().0;
    run();
    COUNTED.get().0 - before
}

fn table(name: &str, columns: &[(&str, SqlType)]) -> Arc<TableSchema> {
    let column = |(ordinal, (name, sql_type)): (usize, &(&str, SqlType))| ColumnDef {
        id: ColumnId(ordinal as u32),
        name: (*name).to_owned(),
        sql_type: *sql_type,
        nullable: ordinal > 0,
        default: None,
    };
    Arc::new(TableSchema {
        id: TableId(1),
        name: name.to_owned(),
        version: 1,
        columns: columns.iter().enumerate().map(column).collect(),
        key: vec![0],
        key_name: format!("{name}_pkey"),
        partition_by: vec![0],
        hidden_key: false,
        life: Default::default(),
        checks: Vec::new(),
    })
}

const BYTEA: SqlType = SqlType::Scalar(ScalarType::Bytea);
const INT8: SqlType = SqlType::Scalar(ScalarType::Int8);

fn key_name(number: u32, buffer: &mut [u8; 8]) -> &[u8] {
    for (byte, shift) in buffer.iter_mut().zip((0..8).rev()) {
        *byte = b"0123456789abcdef"[number as usize >> (shift * 4) & 15];
    }
    buffer
}

#[test]
fn a_hundred_thousand_lookups_allocate_nothing() {
    const ROWS: u32 = 10_000;
    let store = Store::new(StoreConfig { partition_count: 64, ..StoreConfig::default() });
    let region = store.create_region(table("kv", &[("key", BYTEA), ("value", BYTEA), ("n", INT8)])).unwrap();
    let mut buffer = [0; 8];
    for number in 0..ROWS {
        let row = [Datum::Bytea(key_name(number, &mut buffer)), Datum::Bytea(b"0123456789"), Datum::Int8(0)];
        let applied = region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
        assert_eq!(applied, Applied::Inserted);
    }
    let snapshot = store.snapshot();
    let mut found = 0;
    let cost = allocations(|| {
        for number in 0..100_000 {
            let key = [Datum::Bytea(key_name(number % (ROWS * 2), &mut buffer))];
            let len = |datum: Datum<'_>| if let Datum::Bytea(bytes) = datum { bytes.len() } else { 0 };
            found += region.get(&key, |row| row.map_or(0, |row| len(row.get(1))));
            found += region.get_at(&snapshot, &key, |row| row.map_or(0, |row| len(row.get(1))));
            found += region.entry(&key, |entry| entry.row().map_or(0, |row| len(row.get(1))));
        }
    });
    assert_eq!((found, cost), (50_000 * 3 * 10, 0));
    drop(snapshot);
    // Writes allocate only where segments grow.
    let cost = allocations(|| {
        for number in 0..ROWS {
            let key = [Datum::Bytea(key_name(number, &mut buffer))];
            region.entry(&key, |entry| {
                entry.apply(Mutation::Update { key: &key, changes: &[(2, Datum::Int8(1))] }).unwrap();
                entry.apply(Mutation::Delete { key: &key }).unwrap();
            });
        }
    });
    assert!(cost < u64::from(ROWS) / 5, "{cost} allocations for {ROWS} updates and deletes");
    assert_eq!(region.row_count(), 0);
}

#[test]
fn integer_keys_are_looked_up_without_allocating_too() {
    let store = Store::new(StoreConfig::default());
    let text = SqlType::Scalar(ScalarType::Text);
    let region = store.create_region(table("flights", &[("id", INT8), ("name", text)])).unwrap();
    for id in 0..5_000 {
        let row = [Datum::Int8(id), Datum::Text("x")];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let cost = allocations(|| {
        for id in 0..100_000 {
            let there = region.get(&[Datum::Int8(id % 10_000)], |row| row.is_some());
            assert_eq!(there, id % 10_000 < 5_000);
        }
    });
    assert_eq!(cost, 0);
}

/// Charged and allocated differ by less than one in twenty.
fn assert_agrees(store: &Store, before: i64, what: &str) {
    let (charged, allocated) = (store.memory_used() as f64, (COUNTED.get().1 - before) as f64);
    assert!((charged - allocated).abs() < allocated / 20.0, "{what}: charged {charged}, allocated {allocated}");
}

fn load(region: &Arc<Region>, store: &Store, rows: impl Iterator<Item = Vec<Value>>, what: &str, before: i64) {
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    for row in rows {
        let row: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
        writes.upsert(region, 1, &snapshot, &row).expect("the row is right");
    }
    assert_agrees(store, before, &format!("{what}, buffered"));
    drop(snapshot);
    store.commit(&mut writes).expect("nobody else writes");
    assert_agrees(store, before, &format!("{what}, committed"));
}

/// On the second column.
fn index(region: &Region, id: u32, kind: IndexKind) {
    let index = Arc::new(IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(1)]));
    region.add_index(&index);
    region.build_index(&index).expect("there is memory");
}

fn delete(region: &Region, keys: impl Iterator<Item = Value>) {
    for key in keys {
        let key = [key.as_datum()];
        region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).expect("a delete does not fail");
    }
}

#[test]
fn what_is_charged_is_what_is_allocated() {
    let config = || StoreConfig { partition_count: 16, segment_rows_max: 4096, ..StoreConfig::default() };
    let key = |number: u32| Value::Bytea(number.to_be_bytes().into());

    let store = Store::new(config());
    let region = store.create_region(table("kv", &[("key", BYTEA), ("value", BYTEA)])).unwrap();
    let before = COUNTED.get().1;
    let value = |number: u32| Value::Bytea(vec![1; 50 + number as usize % 100].into());
    load(&region, &store, (0..100_000).map(|number| vec![key(number), value(number)]), "key and value", before);
    let without = store.memory_used();
    index(&region, 2, IndexKind::Btree);
    assert_agrees(&store, before, "with an index");
    let index_bytes = (store.memory_used() - without) as f64 / 100_000.0;
    assert!(index_bytes < 16.0, "{index_bytes} bytes an entry");
    let full = store.memory_used();
    delete(&region, (0..90_000).map(key));
    assert_agrees(&store, before, "after deletes");
    store.compact();
    assert_agrees(&store, before, "after compaction");
    assert!(store.memory_used() < full / 6, "{} of {full}", store.memory_used());
    delete(&region, (90_000..100_000).map(key));
    store.compact();
    assert_eq!(store.memory_used(), 0);
    let left = COUNTED.get().1 - before;
    assert!(left < 10_000, "{left} bytes are left");

    let store = Store::new(config());
    let columns = [
        ("id", SqlType::Scalar(ScalarType::Int4)),
        ("flag", SqlType::Scalar(ScalarType::Bool)),
        ("price", SqlType::Scalar(ScalarType::Numeric { precision: 12, scale: 2 })),
        ("name", SqlType::Scalar(ScalarType::Text)),
        ("tags", SqlType::Array(ScalarType::Text)),
        ("always_null", INT8),
    ];
    let region = store.create_region(table("wide", &columns)).unwrap();
    let before = COUNTED.get().1;
    index(&region, 4, IndexKind::Hash);
    let row = |id: i32| {
        let tag = |tag: i32| Value::Text(format!("tag{tag}").into());
        let flag = if id % 3 == 0 { Value::Null } else { Value::Bool(id % 2 == 0) };
        let tags = Value::Array((0..id % 4).map(tag).collect());
        let name = Value::Text(format!("name of {id}").into());
        vec![Value::Int4(id), flag, Value::Numeric(i128::from(id)), name, tags, Value::Null]
    };
    load(&region, &store, (0..50_000).map(row), "many types", before);
    let snapshot = store.snapshot();
    delete(&region, (0..40_000).map(Value::Int4));
    assert_agrees(&store, before, "with old versions");
    drop(snapshot);
    store.compact();
    assert_agrees(&store, before, "many types, after compaction");
}

/// Key and value bytes and at most 24 more a row, for a table of two columns.
#[test]
fn a_small_row_costs_at_most_24_bytes_more() {
    let store = Store::new(StoreConfig { partition_count: 16, ..StoreConfig::default() });
    let region = store.create_region(table("kv", &[("key", BYTEA), ("value", BYTEA)])).unwrap();
    let rows = 400_000u32;
    let value = [7u8; 8];
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    for number in 0..rows {
        let key = number.to_be_bytes();
        writes.upsert(&region, 1, &snapshot, &[Datum::Bytea(&key), Datum::Bytea(&value)]).unwrap();
    }
    drop(snapshot);
    store.commit(&mut writes).unwrap();
    drop(writes);
    let more = region.bytes() as f64 / f64::from(rows) - 12.0;
    assert!(more <= 24.0, "{more} bytes more a row");
}

#[test]
fn an_indexed_lookup_allocates_less_than_four_kilobytes() {
    const ROWS: u32 = 20_000;
    let store = Store::new(StoreConfig { partition_count: 256, ..StoreConfig::default() });
    let region = store.create_region(table("kv", &[("key", BYTEA), ("n", INT8)])).unwrap();
    index(&region, 2, IndexKind::Btree);
    let mut buffer = [0; 8];
    for number in 0..ROWS {
        let row = [Datum::Bytea(key_name(number, &mut buffer)), Datum::Int8(i64::from(number))];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    store.compact();
    let definition = region.indexes()[0].clone();
    let snapshot = store.snapshot();
    for number in [5, 77, 19_999, 50_000] {
        let (mut found, before) = (0, COUNTED.get());
        let open = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let probes = [Probe { index: Arc::clone(&definition), equal: vec![Value::Int8(number)], range: open }];
        let candidates = region.candidates(&snapshot, &probes).expect("the directory is made");
        for partition in candidates.iter() {
            assert!(region.probe(&snapshot, partition, 1, &probes[0], 64, &mut |_| found += 1));
        }
        assert_eq!(found, usize::from(number < i64::from(ROWS)));
        let allocated = COUNTED.get().1 - before.1;
        assert!(COUNTED.get().0 - before.0 < 20 && allocated < 4096, "{allocated} bytes");
    }
}

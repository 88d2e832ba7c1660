//! Steps end by bytes too, and what they compute is charged in time.

use ashlar_base::{Error, SqlType, TableSchema};
use parking_lot::Mutex;

use super::*;
use crate::memory::Account;
use crate::{Expiry, StoreConfig};

/// Rows with values of this length make a step of two, and one that goes beyond.
const LONG: i64 = 100_000;

/// Texts that are as long as `v` says: what is computed is far more than what is read.
#[derive(Debug)]
struct Repeated {
    inputs: [ColumnId; 1],
    types: [SqlType; 1],
    growth: Option<usize>,
    account: Arc<Account>,
    seen: Mutex<Seen>,
}

/// What was found whenever rows were computed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Bytes that have to be charged: those before the index, and what was computed since.
    there: u64,
    /// Most bytes of these that were not.
    late: u64,
    /// Most bytes that were charged.
    charged: u64,
    /// Most rows that were computed together.
    rows: usize,
}

impl IndexRows for Repeated {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn compute(&self, rows: &[Vec<Value>]) -> Result<Vec<Option<Box<[Value]>>>> {
        let mut texts: Vec<Option<Box<[Value]>>> = Vec::with_capacity(rows.len());
        for row in rows {
            let Value::Int8(length @ 0..) = row[0] else {
                return Err(Error::new(ErrorCode::InvalidParameterValue, "a text has a length"));
            };
            texts.push(Some(vec![Value::Text("x".repeat(length as usize).into())].into()));
        }
        let bytes: usize = texts.iter().flatten().map(|values| bytes_of(values)).sum();
        let copies = rows.len() * COPIES * size_of::<Value>();
        let before = if rows.len() > 1 { copies + bytes } else { copies };
        let (used, mut seen) = (self.account.used(), self.seen.lock());
        seen.late = seen.late.max((seen.there + before as u64).saturating_sub(used));
        seen.there += bytes as u64;
        seen.charged = seen.charged.max(used);
        seen.rows = seen.rows.max(rows.len());
        Ok(texts)
    }

    fn growth(&self) -> Option<usize> {
        self.growth
    }

    fn has_all_rows(&self) -> bool {
        true
    }

    fn types(&self) -> &[SqlType] {
        &self.types
    }

    fn text(&self, _: usize, _: &TableSchema) -> String {
        "repeat('x', v)".to_owned()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// An index on such texts, of a table whose rows are there.
fn repeated(region: &Region, growth: Option<usize>, is_unique: bool) -> (Arc<IndexDef>, Arc<Repeated>) {
    let account = Arc::clone(region.account());
    let seen = Mutex::new(Seen { there: account.used(), late: 0, charged: 0, rows: 0 });
    let computes = Arc::new(Repeated { inputs: [ColumnId(1)], types: [TEXT], growth, account, seen });
    let known = Arc::clone(&computes);
    let plain = IndexDef::plain(TableId(100), "i", IndexKind::Btree, vec![IndexDef::expression_id(0)]);
    let unique = is_unique.then_some(Unique { nulls_distinct: true, is_constraint: false });
    (Arc::new(IndexDef { unique, rows: Some(computes), ..plain }), known)
}

/// Makes an index in the only partition: the entries that came with each step.
fn steps(region: &Region, index: &Arc<IndexDef>) -> Vec<usize> {
    region.add_index(index);
    let (mut steps, mut had) = (Vec::new(), 0);
    loop {
        let is_done = region.build_index_step(PARTITION, index).unwrap();
        let has = entries(region);
        steps.push(has - had);
        had = has;
        if is_done {
            region.complete_index(index);
            return steps;
        }
    }
}

#[test]
fn what_is_computed_of_a_row_alone_is_charged_before_the_next_one() {
    const ROWS: usize = 40;
    for is_unique in [false, true] {
        let store = store(1, 256);
        let region = store.create_region(numbers(1)).unwrap();
        (0..ROWS as i64).for_each(|id| put(&region, id, LONG + id));
        let (index, computes) = repeated(&region, None, is_unique);
        let steps = steps(&region, &index);
        let seen = *computes.seen.lock();
        assert_eq!((seen.rows, seen.late), (1, 0), "{seen:?}");
        assert!(steps.iter().all(|rows| *rows <= 3), "{steps:?}");
        assert_eq!(steps.iter().sum::<usize>(), ROWS);
        region.check();
    }
}

#[test]
fn rows_that_are_computed_together_have_the_memory_before() {
    const ROWS: usize = 500;
    let store = store(1, 256);
    let region = store.create_region(numbers(1)).unwrap();
    (0..ROWS as i64).for_each(|id| put(&region, id, id * 50));
    // A row's one input counts 32 bytes, and what is computed of it less than a thousand times that.
    let (index, computes) = repeated(&region, Some(1000), false);
    let steps = steps(&region, &index);
    let seen = *computes.seen.lock();
    assert_eq!(seen.late, 0, "{seen:?}");
    assert!((2..=STEP_BYTES / (1000 * size_of::<Value>())).contains(&seen.rows), "{seen:?}");
    assert_eq!(steps.iter().sum::<usize>(), ROWS);
    assert!(steps.len() > ROWS * 50 * ROWS / 2 / (2 * STEP_BYTES), "{steps:?}");
    region.check();
}

#[test]
fn a_step_ends_where_long_values_were_read() {
    const ROWS: usize = 30;
    for is_unique in [false, true] {
        let store = store(1, 256);
        let region = store.create_region(schema(1, "t", &[("id", INT8), ("name", TEXT)], &[0])).unwrap();
        for id in 0..ROWS as i64 {
            let name = "y".repeat((LONG + id) as usize);
            let row = [Datum::Int8(id), Datum::Text(&name)];
            region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
        }
        let steps = steps(&region, &index(0, is_unique));
        assert!(steps.iter().all(|rows| *rows <= 3), "{steps:?}");
        assert_eq!(steps.iter().sum::<usize>(), ROWS);
        region.check();
    }
}

#[test]
fn an_index_that_computes_more_than_there_is_room_for_leaves_nothing() {
    const MEMORY: u64 = 4 << 20;
    for is_unique in [false, true] {
        let store = Store::new(StoreConfig { partition_count: 4, memory_max: MEMORY, ..StoreConfig::default() });
        let region = store.create_region(numbers(1)).unwrap();
        (0..100).for_each(|id| put(&region, id, LONG + id));
        let used = store.memory_used();
        let (index, computes) = repeated(&region, None, is_unique);
        region.add_index(&index);
        assert_eq!(region.build_index(&index).unwrap_err().code(), ErrorCode::OutOfMemory);
        let seen = *computes.seen.lock();
        assert_eq!(seen.late, 0, "{seen:?}");
        assert!((MEMORY / 2..=MEMORY).contains(&seen.charged), "{seen:?}");
        assert!(store.memory_used() <= MEMORY);
        // The index has what it had before the step that found no room.
        region.check();
        region.drop_index(&index);
        assert!(region.every_index().is_empty());
        assert_eq!(store.memory_used(), used);
        put(&region, 7, -7);
        region.check();
    }
}

#[test]
fn nothing_is_computed_of_rows_whose_time_has_come() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    let row = [Datum::Int8(1), Datum::Int8(-1)];
    let write = Mutation::Upsert { row: &row };
    let over = Mutation::Living { write: &write, expiry: Expiry::At(1) };
    region.entry(&row[..1], |entry| entry.apply(over)).unwrap();
    put(&region, 2, 2);
    let (index, _computes) = repeated(&region, None, false);
    region.add_index(&index);
    region.build_index(&index).unwrap();
    region.check();
    assert_eq!((entries(&region), region.row_count()), (1, 1));
    // The same row, with time left.
    let done = region.entry(&row[..1], |entry| entry.apply(write));
    assert_eq!(done.unwrap_err().code(), ErrorCode::InvalidParameterValue);
}

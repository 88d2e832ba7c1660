//! The store against a naive twin: random histories of key writes, transactions, savepoints, snapshots, alterations
//! and compactions, read back through every path after each step.

use std::collections::BTreeMap;

use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, Datum, ErrorCode, IndexDef, IndexKind, ScalarType, SqlType, TableId, Unique,
    Value,
};
use proptest::prelude::*;

use super::*;
use crate::testing::{INT4, INT8, TEXT, any_value, datums, index_key, is_same, lengths, scan_map, schema, store, wait};
use crate::{Applied, Mark, Mutation, Pending, ReadView, RowBatch, ScanBatch};

mod life;

/// Few, so that transactions meet.
const KEYS: u8 = 7;

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, Value, Value),
    Upsert(u8, Value, Value),
    Update(u8, Value),
    Delete(u8),
    OpenSnapshot,
    DropSnapshot(usize),
    Lend,
    TakeBack,
    TransactionUpsert(usize, u8, Value, Value),
    TransactionInsert(usize, u8, Value, Value),
    /// Rows for which a table takes a load whose indexes are neither unique nor compute anything.
    TransactionLoad(usize, Vec<(u8, Value, Value)>),
    TransactionDelete(usize, u8),
    TransactionTruncate(usize),
    NewStatement(usize),
    Savepoint(usize),
    RollbackTo(usize),
    Commit(usize),
    Abort(usize),
    Truncate,
    Compact,
    AddColumn(Value),
    DropColumn,
    Rename,
    AddIndex(IndexKind),
    /// Of which form, whether unique, whether NULLs are distinct.
    AddSpecial(u8, bool, bool),
    DropIndex(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..KEYS;
    // Often of one size, so that rows are overwritten where they lie.
    let few = || "[ab]{1,2}".prop_map(|text| Value::Text(text.into()));
    let name = || prop_oneof![any_value(TEXT), "[a-z]{3}".prop_map(|text| Value::Text(text.into())), few()];
    let tags = || prop_oneof![any_value(SqlType::Array(ScalarType::Text)), Just(Value::Null)];
    let transaction = || 0..2usize;
    let op = prop_oneof![
        6 => (key(), name(), tags()).prop_map(|(key, name, tags)| Op::Insert(key, name, tags)),
        6 => (key(), name(), tags()).prop_map(|(key, name, tags)| Op::Upsert(key, name, tags)),
        6 => (key(), name()).prop_map(|(key, name)| Op::Update(key, name)),
        6 => key().prop_map(Op::Delete),
        4 => Just(Op::OpenSnapshot),
        3 => (0..4usize).prop_map(Op::DropSnapshot),
        2 => Just(Op::Lend),
        2 => Just(Op::TakeBack),
        6 => (transaction(), key(), name(), tags()).prop_map(|(t, key, name, tags)| Op::TransactionUpsert(t, key, name, tags)),
        4 => (transaction(), key(), name(), tags()).prop_map(|(t, key, name, tags)| Op::TransactionInsert(t, key, name, tags)),
        4 => (transaction(), proptest::collection::vec((key(), name(), tags()), 0..5))
            .prop_map(|(t, rows)| Op::TransactionLoad(t, rows)),
        4 => (transaction(), key()).prop_map(|(t, key)| Op::TransactionDelete(t, key)),
        1 => transaction().prop_map(Op::TransactionTruncate),
        3 => transaction().prop_map(Op::NewStatement),
        3 => transaction().prop_map(Op::Savepoint),
        3 => transaction().prop_map(Op::RollbackTo),
        4 => transaction().prop_map(Op::Commit),
        1 => transaction().prop_map(Op::Abort),
        1 => Just(Op::Truncate),
        5 => Just(Op::Compact),
        1 => any_value(INT4).prop_map(Op::AddColumn),
        1 => Just(Op::DropColumn),
        1 => Just(Op::Rename),
        2 => prop_oneof![Just(IndexKind::Btree), Just(IndexKind::Hash)].prop_map(Op::AddIndex),
        2 => (0..4u8, any::<bool>(), any::<bool>()).prop_map(|(form, unique, distinct)| Op::AddSpecial(form, unique, distinct)),
        1 => (0..3usize).prop_map(Op::DropIndex),
    ];
    proptest::collection::vec(op, 1..70)
}

/// A row of the twin, and the number of the write that made it.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    number: u64,
    values: BTreeMap<ColumnId, Value>,
}

type Table = BTreeMap<u8, Version>;

#[derive(Clone, Default)]
struct Writes {
    /// The pending row, or that the key is to go.
    rows: BTreeMap<u8, Option<BTreeMap<ColumnId, Value>>>,
    /// The version that the first write of a key saw, and whether it was an insert.
    seen: BTreeMap<u8, (Option<u64>, bool)>,
    truncated: bool,
}

/// How a transaction writes a row.
#[derive(Clone, Copy, PartialEq)]
enum Put {
    Upsert,
    Insert,
    Load,
}

struct Transaction {
    set: WriteSet,
    writes: Writes,
    /// What the statement sees.
    snapshot: Snapshot,
    sees: Table,
    marks: Vec<(Mark, Writes)>,
    /// The schema version of the first write.
    version: Option<u32>,
}

struct Model {
    store: Arc<Store>,
    region: Arc<Region>,
    composite: bool,
    now: Table,
    number: u64,
    snapshots: Vec<(Snapshot, Table)>,
    /// Batches that a reader kept after its snapshot was closed, and how they read then.
    lent: Vec<(Vec<ScanBatch>, String)>,
    transactions: Vec<Transaction>,
    next_column: u32,
    next_index: u32,
}

const NAME: ColumnId = ColumnId(2);
const TAGS: ColumnId = ColumnId(3);

impl Model {
    fn new(composite: bool, partitions: u16, segment_rows: u32) -> Self {
        let store = store(partitions, segment_rows);
        let columns = [("a", TEXT), ("b", INT8), ("name", TEXT), ("tags", SqlType::Array(ScalarType::Text))];
        let mut schema = TableSchema::clone(&schema(7, "t", &columns, if composite { &[1, 0] } else { &[1] }));
        if composite {
            schema.partition_by = vec![0];
        } else {
            schema.columns[0].nullable = true;
        }
        let region = store.create_region(Arc::new(schema)).unwrap();
        let mut model = Self {
            store,
            region,
            composite,
            now: Table::new(),
            number: 0,
            snapshots: Vec::new(),
            lent: Vec::new(),
            transactions: Vec::new(),
            next_column: 4,
            next_index: 100,
        };
        for _ in 0..2 {
            let transaction = model.begin();
            model.transactions.push(transaction);
        }
        model
    }

    fn begin(&self) -> Transaction {
        Transaction {
            set: WriteSet::new(),
            writes: Writes::default(),
            snapshot: self.store.snapshot(),
            sees: self.now.clone(),
            marks: Vec::new(),
            version: None,
        }
    }

    fn key(&self, key: u8) -> Vec<Value> {
        let text = Value::Text(format!("k{}", key % 3).into());
        if self.composite { vec![Value::Int8(i64::from(key)), text] } else { vec![Value::Int8(i64::from(key))] }
    }

    fn row(&self, key: u8, name: &Value, tags: &Value) -> BTreeMap<ColumnId, Value> {
        let columns = &self.region.schema().columns;
        let value = |id: u32| match id {
            0 => Value::Text(format!("k{}", key % 3).into()),
            1 => Value::Int8(i64::from(key)),
            2 => name.clone(),
            3 => tags.clone(),
            id => Value::Int4(id as i32 * 100 + i32::from(key)),
        };
        columns.iter().map(|column| (column.id, value(column.id.0))).collect()
    }

    /// A row in the order of the schema.
    fn ordered(&self, values: &BTreeMap<ColumnId, Value>) -> Vec<Value> {
        self.region.schema().columns.iter().map(|column| values[&column.id].clone()).collect()
    }

    fn put(&mut self, key: u8, values: BTreeMap<ColumnId, Value>) {
        self.number += 1;
        self.now.insert(key, Version { number: self.number, values });
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Insert(key, name, tags) => {
                let values = self.row(*key, name, tags);
                let result = self.write(*key, &values, false);
                if let Some(old) = self.now.get(key) {
                    let error = result.unwrap_err();
                    assert_eq!(error.code(), ErrorCode::UniqueViolation, "{old:?}");
                    assert_eq!(error.fields().constraint.as_deref(), Some("t_pkey"));
                } else if self.clashes(&[(*key, Some(&values))], false) {
                    self.refused(result);
                } else {
                    assert_eq!(result.unwrap(), Applied::Inserted);
                    self.put(*key, values);
                }
            }
            Op::Upsert(key, name, tags) => {
                let values = self.row(*key, name, tags);
                let result = self.write(*key, &values, true);
                if self.clashes(&[(*key, Some(&values))], false) {
                    self.refused(result);
                    return;
                }
                let applied = result.unwrap();
                let known = self.now.contains_key(key);
                assert_eq!(applied, if known { Applied::Updated } else { Applied::Inserted });
                self.put(*key, values);
            }
            Op::Update(key, name) => {
                let ordinal = self.region.schema().column("name").unwrap();
                let (asked, change) = (self.key(*key), name.as_datum());
                let asked = datums(&asked);
                let mutation = Mutation::Update { key: &asked, changes: &[(ordinal, change)] };
                let result = self.region.entry(&asked, |entry| entry.apply(mutation));
                match self.now.get(key).cloned() {
                    None => assert_eq!(result.unwrap(), Applied::Nothing),
                    Some(mut version) => {
                        version.values.insert(NAME, name.clone());
                        if self.clashes(&[(*key, Some(&version.values))], false) {
                            self.refused(result);
                            return;
                        }
                        assert_eq!(result.unwrap(), Applied::Updated);
                        self.put(*key, version.values);
                    }
                }
            }
            Op::Delete(key) => {
                let asked = self.key(*key);
                let asked = datums(&asked);
                let applied = self.region.entry(&asked, |entry| {
                    let applied = entry.apply(Mutation::Delete { key: &asked }).unwrap();
                    assert!(entry.row().is_none());
                    applied
                });
                let known = self.now.remove(key).is_some();
                assert_eq!(applied, if known { Applied::Deleted } else { Applied::Nothing });
            }
            Op::OpenSnapshot => self.snapshots.push((self.store.snapshot(), self.now.clone())),
            Op::DropSnapshot(index) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(index % self.snapshots.len());
                }
            }
            Op::Lend => {
                let (view, columns) = (ReadView::committed(self.store.snapshot()), self.region.schema().columns.len());
                let columns: Vec<usize> = (0..columns).collect();
                let partitions = (0..self.region.partition_count()).map(ashlar_base::PartitionId);
                let batches: Vec<ScanBatch> =
                    partitions.flat_map(|partition| self.region.scan(&view, partition, &columns).unwrap()).collect();
                let text = format!("{batches:?}");
                self.lent.push((batches, text));
            }
            Op::TakeBack => self.lent.clear(),
            Op::TransactionUpsert(index, key, name, tags) => {
                self.transaction_put(*index, *key, name, tags, Put::Upsert);
            }
            Op::TransactionInsert(index, key, name, tags) => {
                self.transaction_put(*index, *key, name, tags, Put::Insert);
            }
            Op::TransactionLoad(index, rows) => self.transaction_load(*index, rows),
            Op::TransactionDelete(index, key) => self.transaction_delete(*index, *key),
            Op::TransactionTruncate(index) => {
                let version = self.region.schema().version;
                let transaction = &mut self.transactions[*index];
                let result = transaction.set.truncate(&self.region, &transaction.snapshot);
                if *transaction.version.get_or_insert(version) == version {
                    result.unwrap();
                    transaction.writes.rows.clear();
                    transaction.writes.truncated = true;
                } else {
                    assert_eq!(result.unwrap_err().code(), ErrorCode::SerializationFailure);
                }
            }
            Op::NewStatement(index) => {
                let (snapshot, sees) = (self.store.snapshot(), self.now.clone());
                let transaction = &mut self.transactions[*index];
                (transaction.snapshot, transaction.sees) = (snapshot, sees);
            }
            Op::Savepoint(index) => {
                let transaction = &mut self.transactions[*index];
                transaction.marks.push((transaction.set.mark(), transaction.writes.clone()));
            }
            Op::RollbackTo(index) => {
                let transaction = &mut self.transactions[*index];
                if let Some((mark, writes)) = transaction.marks.last() {
                    transaction.set.rollback_to(mark.clone());
                    transaction.writes = writes.clone();
                }
            }
            Op::Commit(index) => self.commit(*index),
            Op::Abort(index) => self.transactions[*index] = self.begin(),
            Op::Truncate => {
                assert_eq!(self.region.truncate().unwrap(), self.now.len() as u64);
                self.now.clear();
            }
            Op::Compact => {
                self.store.compact();
            }
            Op::AddColumn(default) => self.add_column(default),
            Op::DropColumn => {
                let mut schema = TableSchema::clone(&self.region.schema());
                if let Some(ordinal) = schema.columns.iter().position(|column| column.id.0 >= 4) {
                    let id = schema.columns.remove(ordinal).id;
                    self.alter(schema);
                    self.each_version(|values| {
                        values.remove(&id);
                    });
                }
            }
            Op::Rename => {
                let mut schema = TableSchema::clone(&self.region.schema());
                let tags = schema.columns.iter_mut().find(|column| column.id == TAGS).unwrap();
                tags.name.push('x');
                self.alter(schema);
            }
            Op::AddIndex(kind) => self.add_index(*kind),
            Op::AddSpecial(form, unique, distinct) => self.add_special(*form, *unique, *distinct),
            Op::DropIndex(which) => {
                if let Some(index) = self.region.every_index().get(*which) {
                    self.region.drop_index(index);
                }
            }
        }
    }

    /// On the name; in order also on a column that was added, in front of it.
    fn add_index(&mut self, kind: IndexKind) {
        self.next_index += 1;
        let added = self.region.schema().columns.iter().map(|column| column.id).find(|id| id.0 >= 4);
        let columns = added.filter(|_| kind == IndexKind::Btree).into_iter().chain([NAME]).collect();
        let id = TableId(self.next_index);
        let index = Arc::new(IndexDef::plain(id, format!("i{}", self.next_index), kind, columns));
        self.region.add_index(&index);
        self.region.build_index(&index).unwrap();
    }

    /// On the name, on its length, on names of even length, or on the length of those.
    fn add_special(&mut self, form: u8, is_unique: bool, nulls_distinct: bool) {
        self.next_index += 1;
        let id = TableId(self.next_index);
        let plain = || IndexDef::plain(id, format!("i{id}"), IndexKind::Btree, vec![NAME]);
        let index = if form == 0 { plain() } else { lengths(id, NAME, form != 2, form > 1) };
        let unique = is_unique.then_some(Unique { nulls_distinct, is_constraint: false });
        let index = Arc::new(IndexDef { unique, ..index });
        self.region.add_index(&index);
        let result = self.region.build_index(&index);
        let values = self.now.values().map(|version| &version.values);
        if self.repeats(&index, values) {
            let error = result.unwrap_err();
            assert_eq!(error.code(), ErrorCode::UniqueViolation);
            assert!(error.message().starts_with("could not create unique index"), "{error}");
            self.region.drop_index(&index);
        } else {
            result.unwrap();
        }
    }

    /// Whether two rows have the same in a unique index.
    fn repeats<'v>(&self, index: &IndexDef, rows: impl Iterator<Item = &'v BTreeMap<ColumnId, Value>>) -> bool {
        let Some(unique) = index.unique else { return false };
        let schema = self.region.schema();
        let key = |values: &BTreeMap<ColumnId, Value>| {
            index_key(index, &schema, |ordinal| values[&schema.columns[ordinal].id].clone())
        };
        let counts = |key: &Vec<Value>| !(unique.nulls_distinct && key.iter().any(Value::is_null));
        let keys: Vec<Vec<Value>> = rows.filter_map(key).filter(counts).collect();
        keys.iter().enumerate().any(|(number, key)| keys[..number].iter().any(|other| is_same(key, other)))
    }

    /// Whether the rows that are there would have the same in a unique index once these are written.
    fn clashes(&self, writes: &[(u8, Option<&BTreeMap<ColumnId, Value>>)], truncated: bool) -> bool {
        let mut after: BTreeMap<u8, &BTreeMap<ColumnId, Value>> = BTreeMap::new();
        if !truncated {
            after.extend(self.now.iter().map(|(key, version)| (*key, &version.values)));
        }
        for (key, values) in writes {
            match values {
                Some(values) => drop(after.insert(*key, *values)),
                None => drop(after.remove(key)),
            }
        }
        self.region.every_index().iter().any(|index| self.repeats(index, after.values().copied()))
    }

    fn refused<T: std::fmt::Debug>(&self, result: Result<T>) {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
        let name = error.fields().constraint.clone().unwrap();
        assert!(self.region.every_index().iter().any(|index| index.name == name && index.unique.is_some()), "{name}");
    }

    fn alter(&mut self, mut schema: TableSchema) {
        schema.version += 1;
        self.region.alter(Arc::new(schema)).unwrap();
    }

    fn add_column(&mut self, default: &Value) {
        let mut schema = TableSchema::clone(&self.region.schema());
        let id = ColumnId(self.next_column);
        self.next_column += 1;
        let constant = (!default.is_null()).then(|| ColumnDefault::Constant(default.clone()));
        // In front of others, so that ordinals move.
        schema
            .columns
            .insert(2, ColumnDef { id, name: format!("added{id}"), sql_type: INT4, nullable: true, default: constant });
        self.alter(schema);
        self.each_version(|values| {
            values.insert(id, default.clone());
        });
    }

    /// All rows that somebody may read, as the new shape shows them.
    fn each_version(&mut self, change: impl Fn(&mut BTreeMap<ColumnId, Value>)) {
        let tables = self.snapshots.iter_mut().map(|(_, table)| table);
        let tables = tables.chain(self.transactions.iter_mut().map(|transaction| &mut transaction.sees));
        for version in tables.chain([&mut self.now]).flat_map(|table| table.values_mut()) {
            change(&mut version.values);
        }
    }

    fn write(&self, key: u8, values: &BTreeMap<ColumnId, Value>, upsert: bool) -> Result<Applied> {
        let (row, key) = (self.ordered(values), self.key(key));
        let (row, key) = (datums(&row), datums(&key));
        let mutation = if upsert { Mutation::Upsert { row: &row } } else { Mutation::Insert { row: &row } };
        self.region.entry(&key, |entry| {
            let applied = entry.apply(mutation)?;
            assert_eq!(datums(&entry.row().unwrap().to_values()), row);
            Ok(applied)
        })
    }

    fn transaction_load(&mut self, index: usize, rows: &[(u8, Value, Value)]) {
        let version = self.region.schema().version;
        let has_checks = self.region.has_checks();
        let transaction = &mut self.transactions[index];
        let started = transaction.set.start_load(&self.region, version, &transaction.snapshot);
        if *transaction.version.get_or_insert(version) != version {
            assert_eq!(started.unwrap_err().code(), ErrorCode::SerializationFailure);
            return;
        }
        let put = if started.unwrap() { Put::Load } else { Put::Insert };
        assert_eq!(put == Put::Insert, has_checks);
        for (key, name, tags) in rows {
            self.transaction_put(index, *key, name, tags, put);
        }
    }

    fn transaction_put(&mut self, index: usize, key: u8, name: &Value, tags: &Value, put: Put) {
        let values = self.row(key, name, tags);
        let row = self.ordered(&values);
        let row = datums(&row);
        let version = self.region.schema().version;
        let transaction = &mut self.transactions[index];
        let (set, snapshot) = (&mut transaction.set, &transaction.snapshot);
        let result = match put {
            Put::Upsert => set.upsert(&self.region, version, snapshot, &row),
            Put::Insert => set.insert(&self.region, version, snapshot, &row),
            Put::Load => {
                let mut batch = RowBatch::new(&self.region, version);
                wait(&mut batch, &row).and_then(|()| {
                    let done = set.load_batch(&self.region, version, snapshot, &mut batch, 1);
                    done.map(drop).map_err(|(_, error)| error)
                })
            }
        };
        let insert = put != Put::Upsert;
        if *transaction.version.get_or_insert(version) != version {
            assert_eq!(result.unwrap_err().code(), ErrorCode::SerializationFailure);
            return;
        }
        let writes = &mut transaction.writes;
        let exists = match writes.rows.get(&key) {
            Some(pending) => pending.is_some(),
            None => !writes.truncated && transaction.sees.contains_key(&key),
        };
        if insert && exists {
            assert_eq!(result.unwrap_err().code(), ErrorCode::UniqueViolation);
            return;
        }
        result.unwrap();
        let seen = transaction.sees.get(&key).map(|version| version.number);
        if !writes.rows.contains_key(&key) {
            writes.seen.insert(key, (seen, insert));
        } else if !insert {
            writes.seen.entry(key).and_modify(|(_, inserted)| *inserted = false);
        }
        writes.rows.insert(key, Some(values));
    }

    fn transaction_delete(&mut self, index: usize, key: u8) {
        let asked = self.key(key);
        let asked = datums(&asked);
        let version = self.region.schema().version;
        let transaction = &mut self.transactions[index];
        let result = transaction.set.delete(&self.region, version, &transaction.snapshot, &asked);
        if *transaction.version.get_or_insert(version) != version {
            assert_eq!(result.unwrap_err().code(), ErrorCode::SerializationFailure);
            return;
        }
        result.unwrap();
        let seen = transaction.sees.get(&key).map(|version| version.number);
        let writes = &mut transaction.writes;
        if !writes.rows.contains_key(&key) {
            writes.seen.insert(key, (seen, false));
        } else {
            writes.seen.entry(key).and_modify(|(_, inserted)| *inserted = false);
        }
        writes.rows.insert(key, None);
    }

    fn commit(&mut self, index: usize) {
        let begun = self.begin();
        let mut transaction = std::mem::replace(&mut self.transactions[index], begun);
        let writes = &transaction.writes;
        let empty = writes.rows.is_empty() && !writes.truncated;
        let stale = transaction.version.is_some_and(|version| version != self.region.schema().version);
        let now = |key: &u8| self.now.get(key).map(|version| version.number);
        let conflicts: Vec<(bool, bool)> = writes
            .rows
            .keys()
            .filter(|_| !writes.truncated)
            .filter(|key| writes.seen[key].0 != now(key))
            .map(|key| (writes.seen[key].0.is_none(), writes.seen[key].1))
            .collect();
        let after: Vec<(u8, Option<&BTreeMap<ColumnId, Value>>)> =
            writes.rows.iter().map(|(key, values)| (*key, values.as_ref())).collect();
        let is_known = |values: &&BTreeMap<ColumnId, Value>| values.contains_key(&NAME);
        let clashes = !stale
            && after.iter().all(|(_, values)| values.as_ref().is_none_or(is_known))
            && self.clashes(&after, writes.truncated);
        let result = self.store.commit(&mut transaction.set);
        if empty {
            result.unwrap();
        } else if stale {
            assert_eq!(result.unwrap_err().code(), ErrorCode::SerializationFailure);
        } else if !conflicts.is_empty() {
            let code = result.unwrap_err().code();
            let appeared = conflicts.iter().any(|(absent, inserted)| *absent && *inserted);
            let serialization = conflicts.iter().any(|(absent, inserted)| !(*absent && *inserted));
            match code {
                ErrorCode::UniqueViolation => assert!(appeared),
                ErrorCode::SerializationFailure => assert!(serialization),
                code => panic!("{code:?}"),
            }
        } else if clashes {
            self.refused(result);
        } else {
            result.unwrap();
            if writes.truncated {
                self.now.clear();
            }
            for (key, values) in transaction.writes.rows {
                match values {
                    Some(values) => self.put(key, values),
                    None => {
                        self.now.remove(&key);
                    }
                }
            }
        }
    }

    fn check(&self) {
        self.region.check();
        assert_eq!(self.region.row_count(), self.now.len() as u64);
        let committed = ReadView::committed(self.store.snapshot());
        self.check_table(&self.now, &committed);
        for key in 0..KEYS {
            let asked = self.key(key);
            let found = self.region.get(&datums(&asked), |row| row.map(|row| row.to_values()));
            assert_eq!(found, self.now.get(&key).map(|version| self.ordered(&version.values)));
        }
        for (batches, text) in &self.lent {
            assert_eq!(format!("{batches:?}"), *text, "what is lent does not change");
        }
        for (snapshot, table) in &self.snapshots {
            self.check_table(table, &ReadView::committed(snapshot.clone()));
        }
        for transaction in &self.transactions {
            self.check_transaction(transaction);
        }
    }

    fn check_table(&self, table: &Table, view: &ReadView) {
        for key in 0..KEYS {
            let asked = self.key(key);
            let found = self.region.get_at(&view.snapshot, &datums(&asked), |row| row.map(|row| row.to_values()));
            assert_eq!(found, table.get(&key).map(|version| self.ordered(&version.values)), "key {key}");
        }
        let rows = table.values().map(|version| self.ordered(&version.values));
        self.check_scan(rows, view);
    }

    fn check_scan(&self, rows: impl Iterator<Item = Vec<Value>>, view: &ReadView) {
        let mut expected: Vec<String> = rows.map(|row| format!("{row:?}")).collect();
        let scanned = scan_map(&self.region, view).unwrap();
        let mut scanned: Vec<String> = scanned.values().map(|row| format!("{row:?}")).collect();
        expected.sort();
        scanned.sort();
        assert_eq!(scanned, expected);
    }

    fn check_transaction(&self, transaction: &Transaction) {
        let overlays = transaction.set.overlays();
        let view = ReadView { snapshot: transaction.snapshot.clone(), overlays };
        let writes = &transaction.writes;
        let stale = transaction.version.is_some_and(|version| version != self.region.schema().version);
        if stale {
            if !view.overlays.is_empty() {
                let error = scan_map(&self.region, &view).unwrap_err();
                assert_eq!(error.code(), ErrorCode::SerializationFailure);
            }
            return;
        }
        assert_eq!(view.overlays.is_empty(), writes.rows.is_empty() && !writes.truncated);
        let mut rows: BTreeMap<u8, Vec<Value>> = BTreeMap::new();
        if !writes.truncated {
            rows.extend(transaction.sees.iter().map(|(key, version)| (*key, self.ordered(&version.values))));
        }
        for (key, values) in &writes.rows {
            rows.remove(key);
            if let Some(values) = values {
                rows.insert(*key, self.ordered(values));
            }
        }
        for key in 0..KEYS {
            let asked = self.key(key);
            let pending = transaction.set.get(&self.region, &datums(&asked));
            match (pending, writes.rows.get(&key)) {
                (Pending::Untouched, None) => assert!(!writes.truncated),
                (Pending::Deleted, None) => assert!(writes.truncated),
                (Pending::Deleted, Some(None)) => {}
                (Pending::Row(row), Some(Some(values))) => assert_eq!(row.to_values(), self.ordered(values)),
                (_, expected) => panic!("key {key}: {expected:?}"),
            }
        }
        self.check_scan(rows.into_values(), &view);
    }
}

fn check(ops: &[Op], composite: bool, partitions: u16, segment_rows: u32) {
    let mut model = Model::new(composite, partitions, segment_rows);
    for (step, op) in ops.iter().enumerate() {
        model.run(op);
        if step % 3 == 0 {
            model.check();
        }
    }
    model.check();
    // Everything is given back.
    model.snapshots.clear();
    model.lent.clear();
    model.transactions.clear();
    model.check();
    model.region.truncate().unwrap();
    model.store.compact();
    assert_eq!(model.region.bytes(), 0);
    assert_eq!(model.store.memory_used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn every_path_reads_what_the_twin_holds(
        ops in ops(),
        composite in any::<bool>(),
        partitions in prop_oneof![Just(1u16), Just(4)],
        segment_rows in prop_oneof![Just(1u32), Just(3), Just(8)],
    ) {
        check(&ops, composite, partitions, segment_rows);
    }
}

#[test]
fn a_region_is_created_once_and_dropped() {
    let store = store(4, 8);
    let region = store.create_region(crate::testing::numbers(1)).unwrap();
    assert!(store.create_region(crate::testing::numbers(1)).is_err());
    let key = [Datum::Int8(1)];
    let row = [Datum::Int8(1), Datum::Int8(2)];
    region.entry(&key, |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
    let mut writes = WriteSet::new();
    writes.upsert(&region, 1, &store.snapshot(), &row).unwrap();
    let view = ReadView::committed(store.snapshot());
    let scanned = (0..4).flat_map(|p| region.scan(&view, ashlar_base::PartitionId(p), &[0, 1]).unwrap());
    let scanned: Vec<_> = scanned.collect();
    store.drop_region(TableId(1));
    assert!(store.region(TableId(1)).is_none());
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::SerializationFailure);
    let refused = region.entry(&key, |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::UndefinedTable);
    // A reader keeps what it borrows, and no more.
    assert_eq!(scanned.iter().map(|scanned| scanned.batch.num_rows()).sum::<usize>(), 1);
    assert!(store.memory_used() > 0);
    drop((scanned, writes));
    assert_eq!(store.memory_used(), 0);
}

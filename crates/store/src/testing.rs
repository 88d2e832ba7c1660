//! What the tests of this crate share: schemas, random values of every type, and whole tables read back.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{
    ColumnDef, ColumnId, Datum, Error, IndexDef, IndexKind, IndexRows, Interval, PartitionId, Result, ScalarType,
    SqlType, TableId, TableSchema, Value,
};
use proptest::prelude::*;

use crate::order::compare;
use crate::{ColumnReader, Probe, ReadView, Region, RowBatch, Snapshot, Store, StoreConfig, WriteSet};

/// Rows that arrive in bulk, from the start of the load to its last row.
pub(crate) fn load<const N: usize>(
    region: &Arc<Region>,
    snapshot: &Snapshot,
    rows: impl IntoIterator<Item = [Datum<'static>; N]>,
) -> Result<WriteSet, (usize, Error)> {
    let (mut writes, mut batch) = (WriteSet::new(), RowBatch::new(region, 1));
    let first = |error| (0, error);
    assert!(writes.start_load(region, 1, snapshot).map_err(first)?);
    batch.expect_many();
    for row in rows {
        wait(&mut batch, &row).map_err(first)?;
        while batch.is_full() && !writes.load_batch(region, 1, snapshot, &mut batch, 100)? {}
    }
    while !writes.load_batch(region, 1, snapshot, &mut batch, 7)? {}
    Ok(writes)
}

/// Has a row wait for others.
pub(crate) fn wait(batch: &mut RowBatch, row: &[Datum<'_>]) -> Result<()> {
    for (column, datum) in row.iter().enumerate() {
        batch.put(column, datum)?;
    }
    batch.end_row()
}

pub(crate) const INT8: SqlType = SqlType::Scalar(ScalarType::Int8);
pub(crate) const INT4: SqlType = SqlType::Scalar(ScalarType::Int4);
pub(crate) const TEXT: SqlType = SqlType::Scalar(ScalarType::Text);
pub(crate) const BYTEA: SqlType = SqlType::Scalar(ScalarType::Bytea);

/// One of every scalar type.
pub(crate) const SCALARS: [ScalarType; 19] = [
    ScalarType::Bool,
    ScalarType::Int2,
    ScalarType::Int4,
    ScalarType::Int8,
    ScalarType::Float4,
    ScalarType::Float8,
    ScalarType::Numeric { precision: 12, scale: 2 },
    ScalarType::Text,
    ScalarType::Varchar { length: Some(10) },
    ScalarType::Char { length: Some(10) },
    ScalarType::Bytea,
    ScalarType::Date,
    ScalarType::Time,
    ScalarType::Timestamp,
    ScalarType::Timestamptz,
    ScalarType::Interval,
    ScalarType::Uuid,
    ScalarType::Json,
    ScalarType::Jsonb,
];

/// Every scalar type and an array of it.
pub(crate) fn types() -> impl Iterator<Item = SqlType> {
    SCALARS.into_iter().flat_map(|scalar| [SqlType::Scalar(scalar), SqlType::Array(scalar)])
}

/// A table; key columns are those of `key`, not nullable, the others are.
pub(crate) fn schema(id: u32, name: &str, columns: &[(&str, SqlType)], key: &[usize]) -> Arc<TableSchema> {
    let column = |(ordinal, (name, sql_type)): (usize, &(&str, SqlType))| ColumnDef {
        id: ColumnId(ordinal as u32),
        name: (*name).to_owned(),
        sql_type: *sql_type,
        nullable: !key.contains(&ordinal),
        default: None,
    };
    Arc::new(TableSchema {
        id: TableId(id),
        name: name.to_owned(),
        version: 1,
        columns: columns.iter().enumerate().map(column).collect(),
        key: key.to_vec(),
        key_name: format!("{name}_pkey"),
        partition_by: key.to_vec(),
        hidden_key: false,
        life: Default::default(),
        checks: Vec::new(),
    })
}

/// `kv(key bytea primary key, value bytea)`.
pub(crate) fn kv() -> Arc<TableSchema> {
    schema(1, "kv", &[("key", BYTEA), ("value", BYTEA)], &[0])
}

/// `t(id bigint primary key, v bigint)`.
pub(crate) fn numbers(id: u32) -> Arc<TableSchema> {
    schema(id, "t", &[("id", INT8), ("v", INT8)], &[0])
}

pub(crate) fn store(partition_count: u16, segment_rows_max: u32) -> Arc<Store> {
    Store::new(StoreConfig { partition_count, segment_rows_max, compaction_rows_min: 1, ..StoreConfig::default() })
}

/// Every visible row of a view, through scans of all columns, in no order.
pub(crate) fn scan_all(region: &Arc<Region>, view: &ReadView) -> Result<Vec<Vec<Value>>> {
    let schema = region.schema();
    let columns: Vec<usize> = (0..schema.columns.len()).collect();
    let mut rows = Vec::new();
    for partition in 0..region.partition_count() {
        let mut count = 0;
        for scanned in region.scan(view, PartitionId(partition), &columns)? {
            let column =
                |ordinal: usize| ColumnReader::new(scanned.batch.column(ordinal), schema.columns[ordinal].sql_type);
            let readers = columns.iter().map(|&ordinal| column(ordinal)).collect::<Result<Vec<_>>>()?;
            for row in 0..scanned.batch.num_rows() {
                if scanned.visible.as_ref().is_none_or(|visible| visible.value(row)) {
                    rows.push(readers.iter().map(|reader| reader.datum(row).to_value()).collect());
                    count += 1;
                }
            }
        }
        // No columns, the same number of rows.
        let counted: usize = region
            .scan(view, PartitionId(partition), &[])?
            .iter()
            .map(|scanned| {
                scanned.visible.as_ref().map_or(scanned.batch.num_rows(), |visible| visible.count_set_bits())
            })
            .sum();
        assert_eq!(counted, count, "a scan without columns counts the same rows");
    }
    check_probes(region, view, &rows)?;
    check_computed(region, view, &rows)?;
    crate::region::wanted::tests::check(region, view, &rows)?;
    Ok(rows)
}

/// Every index finds what a look at all rows finds: for each value that is there, the rows with it, and those above.
fn check_probes(region: &Arc<Region>, view: &ReadView, rows: &[Vec<Value>]) -> Result<()> {
    let schema = region.schema();
    for index in region.indexes().iter() {
        let ordinals: Vec<usize> =
            index.columns.iter().filter_map(|id| schema.columns.iter().position(|column| column.id == *id)).collect();
        // What a block has altered is not what indexes are on.
        if ordinals.len() < index.columns.len() {
            continue;
        }
        for asked in rows.iter().filter(|row| ordinals.iter().all(|&ordinal| !row[ordinal].is_null())) {
            let values: Vec<Value> = ordinals.iter().map(|&ordinal| asked[ordinal].clone()).collect();
            let first = ordinals[0];
            let unbounded = (Bound::Unbounded, Bound::Unbounded);
            let equal = Probe { index: Arc::clone(index), equal: values.clone(), range: unbounded };
            let is_equal = |row: &Vec<Value>| {
                let mut pairs = ordinals.iter().zip(&values);
                pairs.all(|(&ordinal, value)| compare(&row[ordinal].as_datum(), &value.as_datum()).is_eq())
            };
            check_probe(region, view, rows, equal, is_equal)?;
            if index.kind == IndexKind::Btree {
                let unbounded = (Bound::Unbounded, Bound::Unbounded);
                let partly = Probe { index: Arc::clone(index), equal: vec![values[0].clone()], range: unbounded };
                let is_partly = |row: &Vec<Value>| compare(&row[first].as_datum(), &values[0].as_datum()).is_eq();
                check_probe(region, view, rows, partly, is_partly)?;
                let range = (Bound::Excluded(values[0].clone()), Bound::Unbounded);
                let above = Probe { index: Arc::clone(index), equal: Vec::new(), range };
                let is_above = |row: &Vec<Value>| {
                    !row[first].is_null() && compare(&row[first].as_datum(), &values[0].as_datum()).is_gt()
                };
                check_probe(region, view, rows, above, is_above)?;
            }
        }
    }
    Ok(())
}

/// The same of indexes with expressions and predicates.
fn check_computed(region: &Arc<Region>, view: &ReadView, rows: &[Vec<Value>]) -> Result<()> {
    let schema = region.schema();
    for index in region.every_index().iter().filter(|index| !index.is_plain() && schema.has_columns_of(index)) {
        let key_of = |row: &Vec<Value>| index_key(index, &schema, |ordinal| row[ordinal].clone());
        for asked in rows {
            let Some(key) = key_of(asked) else { continue };
            let probe =
                Probe { index: Arc::clone(index), equal: key.clone(), range: (Bound::Unbounded, Bound::Unbounded) };
            let is_equal = |row: &Vec<Value>| key_of(row).is_some_and(|other| is_same(&key, &other));
            check_probe(region, view, rows, probe, is_equal)?;
        }
    }
    Ok(())
}

pub(crate) fn is_same(left: &[Value], right: &[Value]) -> bool {
    left.iter().zip(right).all(|(left, right)| compare(&left.as_datum(), &right.as_datum()).is_eq())
}

/// What a row has in an index; `None`: it is not in it.
pub(crate) fn index_key(index: &IndexDef, schema: &TableSchema, value: impl Fn(usize) -> Value) -> Option<Vec<Value>> {
    let ordinal = |id: &ColumnId| schema.columns.iter().position(|column| column.id == *id).unwrap();
    let computed = match &index.rows {
        None => Box::default(),
        Some(rows) => {
            let inputs = rows.inputs().iter().map(|id| value(ordinal(id))).collect();
            rows.compute(&[inputs]).unwrap().pop().unwrap()?
        }
    };
    let of = |id: &ColumnId| match IndexDef::expression(*id) {
        Some(expression) => computed[expression].clone(),
        None => value(ordinal(id)),
    };
    Some(index.columns.iter().map(of).collect())
}

/// An index that computes: the length of a text, or the texts of even length alone, or both.
#[derive(Debug)]
pub(crate) struct Lengths {
    inputs: [ColumnId; 1],
    types: Vec<SqlType>,
    is_partial: bool,
}

/// An index on a column of texts: see [`Lengths`].
pub(crate) fn lengths(id: TableId, column: ColumnId, computes: bool, is_partial: bool) -> IndexDef {
    let columns = vec![if computes { IndexDef::expression_id(0) } else { column }];
    let types = if computes { vec![INT4] } else { Vec::new() };
    let rows: Arc<dyn IndexRows> = Arc::new(Lengths { inputs: [column], types, is_partial });
    IndexDef { rows: Some(rows), ..IndexDef::plain(id, format!("i{id}"), IndexKind::Btree, columns) }
}

impl IndexRows for Lengths {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn compute(&self, rows: &[Vec<Value>]) -> Result<Vec<Option<Box<[Value]>>>> {
        let compute = |row: &Vec<Value>| {
            let length = match &row[0] {
                Value::Text(text) => Some(text.len() as i32),
                _ => None,
            };
            let is_in = !self.is_partial || length.is_some_and(|length| length % 2 == 0);
            let value = length.map_or(Value::Null, Value::Int4);
            is_in.then(|| self.types.iter().map(|_| value.clone()).collect())
        };
        Ok(rows.iter().map(compute).collect())
    }

    /// Partial ones do not say so: one row is computed after the other.
    fn growth(&self) -> Option<usize> {
        (!self.is_partial).then_some(1)
    }

    fn has_all_rows(&self) -> bool {
        !self.is_partial
    }

    fn types(&self) -> &[SqlType] {
        &self.types
    }

    fn text(&self, _: usize, _: &TableSchema) -> String {
        "length(name)".to_owned()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn check_probe(
    region: &Arc<Region>,
    view: &ReadView,
    rows: &[Vec<Value>],
    probe: Probe,
    is_wanted: impl Fn(&Vec<Value>) -> bool,
) -> Result<()> {
    let schema = region.schema();
    let columns: Vec<usize> = (0..schema.columns.len()).collect();
    let mut found: Vec<String> = Vec::new();
    let probes = [probe];
    let is_committed = !view.overlays.contains_key(&region.id());
    let candidates = is_committed.then(|| region.candidates(&view.snapshot, &probes)).flatten();
    for partition in 0..region.partition_count() {
        if candidates.as_ref().is_some_and(|candidates| !candidates.contains(PartitionId(partition))) {
            continue;
        }
        for scanned in region.scan_probed(view, PartitionId(partition), &columns, None, &probes)? {
            let readers = columns
                .iter()
                .map(|&ordinal| ColumnReader::new(scanned.batch.column(ordinal), schema.columns[ordinal].sql_type))
                .collect::<Result<Vec<_>>>()?;
            for row in 0..scanned.batch.num_rows() {
                if scanned.visible.as_ref().is_none_or(|visible| visible.value(row)) {
                    let row: Vec<Value> = readers.iter().map(|reader| reader.datum(row).to_value()).collect();
                    found.extend(is_wanted(&row).then(|| format!("{row:?}")));
                }
            }
        }
    }
    let mut expected: Vec<String> = rows.iter().filter(|row| is_wanted(row)).map(|row| format!("{row:?}")).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "an index finds what a look at all rows finds");
    Ok(())
}

/// The same, by the text of the key.
pub(crate) fn scan_map(region: &Arc<Region>, view: &ReadView) -> Result<BTreeMap<String, Vec<Value>>> {
    let schema = region.schema();
    let mut map = BTreeMap::new();
    for row in scan_all(region, view)? {
        let key: Vec<&Value> = schema.key.iter().map(|&ordinal| &row[ordinal]).collect();
        let key = format!("{key:?}");
        assert!(map.insert(key.clone(), row).is_none(), "two rows of key {key}");
    }
    Ok(map)
}

pub(crate) fn datums(row: &[Value]) -> Vec<Datum<'_>> {
    row.iter().map(Value::as_datum).collect()
}

/// A value of the type that is not NULL.
pub(crate) fn value_of(scalar: ScalarType) -> BoxedStrategy<Value> {
    match scalar {
        ScalarType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ScalarType::Int2 => any::<i16>().prop_map(Value::Int2).boxed(),
        ScalarType::Int4 => any::<i32>().prop_map(Value::Int4).boxed(),
        ScalarType::Int8 => any::<i64>().prop_map(Value::Int8).boxed(),
        ScalarType::Float4 => (-1e6f32..1e6).prop_map(Value::Float4).boxed(),
        ScalarType::Float8 => (-1e6f64..1e6).prop_map(Value::Float8).boxed(),
        ScalarType::Numeric { precision, .. } => {
            let limit = 10i128.pow(u32::from(precision));
            (-limit + 1..limit).prop_map(Value::Numeric).boxed()
        }
        ScalarType::Varchar { length: Some(length) } => {
            let text = proptest::collection::vec(any::<char>(), 0..=length as usize);
            text.prop_map(|chars| Value::Text(chars.into_iter().collect::<String>().into())).boxed()
        }
        ScalarType::Char { length } => {
            let text = proptest::collection::vec(any::<char>(), 0..=length.unwrap_or(20) as usize);
            let kept = |chars: Vec<char>| chars.into_iter().collect::<String>().trim_end_matches(' ').to_owned();
            text.prop_map(move |chars| Value::Text(kept(chars).into())).boxed()
        }
        ScalarType::Text | ScalarType::Varchar { length: None } | ScalarType::Json | ScalarType::Jsonb => {
            any::<String>().prop_map(|text| Value::Text(text.into())).boxed()
        }
        ScalarType::Bytea => any::<Vec<u8>>().prop_map(|bytes| Value::Bytea(bytes.into())).boxed(),
        ScalarType::Date => any::<i32>().prop_map(Value::Date).boxed(),
        ScalarType::Time => (0..86_400_000_000i64).prop_map(Value::Time).boxed(),
        ScalarType::Timestamp | ScalarType::Timestamptz => any::<i64>().prop_map(Value::Timestamp).boxed(),
        ScalarType::Interval => {
            let far = (any::<i32>(), any::<i32>(), -1i64 << 52..1 << 52);
            // Of some others there are several that are equal.
            let near = (-1..=1i32, -1..=1i32, -1..=1i64).prop_map(|(months, thirties, halves)| {
                (months, thirties * 30 + (halves & 1) as i32, halves * 43_200_000_000)
            });
            let parts = prop_oneof![far, near];
            parts.prop_map(|(months, days, micros)| Value::Interval(Interval { months, days, micros })).boxed()
        }
        ScalarType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
    }
}

/// A value of the type, or NULL.
pub(crate) fn any_value(sql_type: SqlType) -> BoxedStrategy<Value> {
    let nullable = |scalar| prop_oneof![1 => Just(Value::Null), 5 => value_of(scalar)];
    match sql_type {
        SqlType::Scalar(scalar) => nullable(scalar).boxed(),
        SqlType::Array(element) => {
            let items = proptest::collection::vec(nullable(element), 0..5);
            prop_oneof![1 => Just(Value::Null), 5 => items.prop_map(|items| Value::Array(items.into()))].boxed()
        }
    }
}

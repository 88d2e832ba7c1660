//! The join keys found on one side of a join, as conditions for the shards that have the other side.
//!
//! ```text
//! join: all rows of its build side are there ──▶ few keys? ──▶ each shard: ... WHERE k = ANY ($1::int8[]), the keys that it may have
//!                                                        └──▶ too many: all rows, as without a join
//! ```
//!
//! Called by `scan`, for each stream when its first row is requested. The first stream that asks divides the keys among
//! all shards, so that the others find theirs. The join checks every row it receives, so a condition may let more rows
//! through than needed, but it must never exclude a row that has a match. Therefore it is only made for types whose
//! equality is PostgreSQL's, from values whose binary form both sides read alike. NULL is not a key: if the join matches
//! NULLs, no condition is made.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use ashlar_base::value::binary;
use ashlar_base::{Datum, ScalarType, SqlType};
use ashlar_functions::quoting::quote_ident;
use ashlar_operators::{KeysOfJoin, keys_of_join};
use ashlar_shard::rules::{Key, KeyClass, Placement, ShardId};
use ashlar_store::ColumnReader;
use ashlar_store::arrow_types::to_arrow_type;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use parking_lot::Mutex;

use super::scan::Scanned;

/// Keys that are sent. To look up one by an index takes a shard some microseconds, to send a row about one: where there are more
/// keys, reading in order is as good as a rule.
const KEYS_MAX: usize = 10_000;

/// Bytes of them, as the join has packed them: a message of this size is still little beside the rows that it saves.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Bytes of an array before its elements, in binary form: how many dimensions, whether NULL is among them, their type, how many there are,
/// and the number of the first. Of an element its length comes first.
const ARRAY_BYTES: usize = 20;
const COUNT: Range<usize> = 12..16;
const LENGTH_BYTES: usize = 4;

/// What a list takes while it is made, by its bytes: it grows by doubling, and is copied when it is whole.
const COPIES: usize = 3;

/// Days since 1970 of 0001-01-01 and 9999-12-31: somewhere beyond them are infinity, and the last days that PostgreSQL has.
const PLAIN_DAYS: RangeInclusive<i32> = -719_162..=2_932_896;

const DAY_MICROS: i64 = 86_400_000_000;

/// What a shard is asked for.
pub(super) enum Sought {
    /// What it was to be asked for anyway.
    All,
    /// Nothing: no row there has a match.
    Nothing,
    /// Rows that meet these conditions as well, whose parameters have these values.
    Keys {
        /// In SQL; all of them are to be met.
        conditions: Vec<String>,
        /// Of `$1`, `$2`, ..., in binary form.
        values: Vec<Arc<[u8]>>,
        /// How many keys there are in them.
        count: usize,
    },
}

/// How keys of a column are read, and sent.
struct Element {
    /// As what they are read.
    sql_type: SqlType,
    /// What PostgreSQL calls their type.
    name: &'static str,
    /// Its number there.
    oid: u32,
}

/// How keys of a column are sent. `None` where they might be equal there and not here, or have a form that is not theirs alone.
fn element(column: SqlType, keys: &DataType) -> Option<Element> {
    let SqlType::Scalar(scalar) = column else { return None };
    let (name, oid) = match scalar {
        // A join of integers of two widths has keys of the wider one; PostgreSQL compares them as they are.
        ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8 => {
            let (scalar, name) = match keys {
                DataType::Int16 => (ScalarType::Int2, "int2"),
                DataType::Int32 => (ScalarType::Int4, "int4"),
                DataType::Int64 => (ScalarType::Int8, "int8"),
                _ => return None,
            };
            return Some(Element { sql_type: SqlType::Scalar(scalar), name, oid: scalar.oid() });
        }
        ScalarType::Text | ScalarType::Varchar { .. } => ("text", ScalarType::Text.oid()),
        ScalarType::Bool => ("bool", scalar.oid()),
        ScalarType::Uuid => ("uuid", scalar.oid()),
        ScalarType::Date => ("date", scalar.oid()),
        ScalarType::Timestamp => ("timestamp", scalar.oid()),
        ScalarType::Timestamptz => ("timestamptz", scalar.oid()),
        ScalarType::Float4
        | ScalarType::Float8
        | ScalarType::Numeric { .. }
        | ScalarType::Char { .. }
        | ScalarType::Bytea
        | ScalarType::Time
        | ScalarType::Interval
        | ScalarType::Json
        | ScalarType::Jsonb => return None,
    };
    (*keys == to_arrow_type(column)).then_some(Element { sql_type: column, name, oid })
}

/// Bytes of whole numbers.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Int16 => Some(2),
        DataType::Int32 => Some(4),
        DataType::Int64 => Some(8),
        _ => None,
    }
}

impl Scanned {
    /// The column of the scan that a key of a join is, as it is or as wider integers, where its keys can be sent.
    pub(super) fn column_of_key(&self, key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let column = match key.downcast_ref::<Column>() {
            Some(column) => column.index(),
            None => {
                let cast = key.downcast_ref::<CastExpr>()?;
                let column = cast.expr().downcast_ref::<Column>()?.index();
                let from = width(self.schema.fields().get(column)?.data_type())?;
                if from >= width(cast.cast_type())? {
                    return None;
                }
                column
            }
        };
        let data_type = key.data_type(&self.schema).ok()?;
        // What tells versions apart is no column of the table.
        self.table.schema.columns.get(*self.ordinals.get(column)?)?;
        element(*self.types.get(column)?, &data_type).map(|_| column)
    }

    /// Whether what a filter of a join says can be sent to shards.
    pub(super) fn takes(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        filter.children().into_iter().any(|key| self.column_of_key(key).is_some())
    }

    /// What kind of key a column is by which alone rows are divided among the shards.
    fn class_of(&self, column: usize) -> Option<KeyClass> {
        let rule = &self.table.routed.rule;
        match (rule.placement(), rule.key(), rule.classes()) {
            (Placement::Sharded, [key], [class]) if self.ordinals.get(column) == Some(key) => Some(*class),
            _ => None,
        }
    }

    /// The keys of a column that each shard may have; one list for all shards where rows are divided among them by another one. `None` where
    /// a key is not of the column's type.
    fn lists(&self, column: usize, element: &Element, keys: &ArrayRef) -> Option<Vec<Option<List>>> {
        let (rule, class) = (&self.table.routed.rule, self.class_of(column));
        let reader = ColumnReader::new(keys, element.sql_type).ok()?;
        let count = if class.is_some() { rule.shards().len() } else { 1 };
        let mut lists: Vec<Option<Writing>> = (0..count).map(|_| Some(Writing::new(element))).collect();
        for row in 0..reader.len() {
            let key = reader.datum(row);
            let place = match class {
                None => 0,
                Some(class) => {
                    let key = Key::new(class, &key).ok()?;
                    // What no shard takes is nowhere.
                    let Ok(shard) = rule.shard_of_keys(&[key]) else { continue };
                    shard.index()
                }
            };
            let Some(list) = lists.get_mut(place) else { continue };
            if let Some(writing) = list
                && !writing.add(element.sql_type, &key)
            {
                *list = None;
            }
        }
        Some(lists.into_iter().map(|list| list.map(Writing::finish)).collect())
    }
}

/// Keys that a shard may have, as an array in binary form.
struct List {
    array: Arc<[u8]>,
    count: usize,
}

/// A list that is being made.
struct Writing {
    array: Vec<u8>,
    count: usize,
}

impl Writing {
    fn new(element: &Element) -> Self {
        let mut array = Vec::with_capacity(ARRAY_BYTES);
        // The number of elements is written when it is known.
        for word in [1, 0, element.oid, 0, 1] {
            array.extend_from_slice(&word.to_be_bytes());
        }
        Self { array, count: 0 }
    }

    /// Adds a key; `false` where it might be read otherwise.
    fn add(&mut self, sql_type: SqlType, key: &Datum<'_>) -> bool {
        if !is_plain(key) {
            return false;
        }
        let place = self.array.len();
        self.array.extend_from_slice(&[0; LENGTH_BYTES]);
        binary::encode(sql_type, key, &mut self.array);
        let length = (self.array.len() - place - LENGTH_BYTES) as u32;
        self.array[place..place + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        self.count += 1;
        true
    }

    fn finish(mut self) -> List {
        self.array[COUNT].copy_from_slice(&(self.count as u32).to_be_bytes());
        List { array: self.array.into(), count: self.count }
    }
}

/// Whether a key is certain to be the same to PostgreSQL.
fn is_plain(key: &Datum<'_>) -> bool {
    match key {
        // Of a table in memory or a file; no row of a shard has such a text.
        Datum::Text(text) => !text.contains('\0'),
        Datum::Date(days) => PLAIN_DAYS.contains(days),
        Datum::Timestamp(micros) => {
            i32::try_from(micros.div_euclid(DAY_MICROS)).is_ok_and(|days| PLAIN_DAYS.contains(&days))
        }
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Bool(_) | Datum::Uuid(_) => true,
        _ => false,
    }
}

/// What joins say to the streams of one execution: divided among the shards by the stream that asks first, and gone when all have asked.
#[derive(Default)]
pub(super) struct Division(Mutex<Option<Divided>>);

/// The keys that joins have named, for all shards.
struct Divided {
    /// Which state of each filter was read.
    generations: Vec<u64>,
    /// Whether no row of any shard has a match.
    is_nothing: bool,
    columns: Vec<Listed>,
    /// Streams that have asked.
    asked: usize,
    /// What the lists take.
    _memory: MemoryReservation,
}

/// The keys of one column.
struct Listed {
    /// Its name, as SQL has it.
    column: String,
    /// What PostgreSQL calls the type of its keys.
    element: &'static str,
    /// By shard, or one for all of them; `None` where a key might be read otherwise there.
    lists: Vec<Option<List>>,
}

impl Listed {
    fn of_shard(&self, shard: ShardId) -> Option<&List> {
        match &self.lists[..] {
            [of_all] => of_all.as_ref(),
            lists => lists.get(shard.index())?.as_ref(),
        }
    }
}

impl Divided {
    /// Reads what joins say now. What the keys take is charged before they are listed, and before they are written; where there is no memory
    /// for those of a column, it has none.
    fn new(
        scanned: &Scanned,
        told: &[Arc<dyn PhysicalExpr>],
        generations: Vec<u64>,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let (mut columns, mut is_nothing) = (Vec::new(), false);
        for filter in told {
            // As long as there is nothing but the keys themselves.
            let listed = memory.new_empty();
            let mut charge = |bytes: usize| listed.try_grow(bytes).is_ok();
            let found = match keys_of_join(filter, KEYS_MAX, KEY_BYTES_MAX, &mut charge)? {
                KeysOfJoin::Any => continue,
                KeysOfJoin::Nothing => {
                    is_nothing = true;
                    break;
                }
                KeysOfJoin::Among(found) => found,
            };
            for (key, keys) in found {
                let Some(column) = scanned.column_of_key(&key) else { continue };
                let Some(element) = element(scanned.types[column], keys.data_type()) else { continue };
                let arrays = scanned.table.routed.rule.shards().len() * ARRAY_BYTES;
                let bytes = COPIES * (arrays + keys.get_array_memory_size() + LENGTH_BYTES * keys.len());
                if memory.try_grow(bytes).is_err() {
                    continue;
                }
                let lists = scanned.lists(column, &element, &keys).unwrap_or_default();
                let kept: usize = lists.iter().flatten().map(|list| list.array.len()).sum();
                memory.shrink(bytes.saturating_sub(kept));
                let column = quote_ident(&scanned.table.schema.columns[scanned.ordinals[column]].name);
                columns.push(Listed { column, element: element.name, lists });
            }
        }
        Ok(Self { generations, is_nothing, columns, asked: 0, _memory: memory })
    }

    /// What a shard is asked for. Where there is no memory for the message that the keys make, they are left out.
    fn of_shard(&self, shard: ShardId, memory: &MemoryReservation) -> Sought {
        if self.is_nothing {
            return Sought::Nothing;
        }
        let (mut conditions, mut values, mut count) = (Vec::new(), Vec::new(), 0);
        for listed in &self.columns {
            let Some(list) = listed.of_shard(shard) else { continue };
            if list.count == 0 {
                return Sought::Nothing;
            }
            // It grows by doubling.
            if memory.try_grow(2 * list.array.len()).is_err() {
                continue;
            }
            count += list.count;
            values.push(Arc::clone(&list.array));
            conditions.push(format!("{} = ANY (${}::{}[])", listed.column, values.len(), listed.element));
        }
        if conditions.is_empty() { Sought::All } else { Sought::Keys { conditions, values, count } }
    }
}

/// What a shard is asked for, by what joins say now. The message is charged to `memory`; where there is none for it or for the lists, all
/// rows come.
///
/// # Errors
/// As [`keys_of_join`].
pub(super) fn sought(
    scanned: &Scanned,
    shard: ShardId,
    told: &[Arc<dyn PhysicalExpr>],
    division: &Division,
    memory: &MemoryReservation,
) -> Result<Sought> {
    if told.is_empty() {
        return Ok(Sought::All);
    }
    // Another build side, or one that is whole by now, is another state of the filter.
    let generations: Vec<u64> = told.iter().map(|filter| filter.snapshot_generation()).collect();
    let mut kept = division.0.lock();
    let mut divided = match kept.take().filter(|divided| divided.generations == generations) {
        Some(divided) => divided,
        None => Divided::new(scanned, told, generations, memory.new_empty())?,
    };
    divided.asked += 1;
    let sought = divided.of_shard(shard, memory);
    if divided.asked < scanned.parts.len() {
        *kept = Some(divided);
    }
    Ok(sought)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of one key, behind what is said of the array.
    fn element_of(scalar: ScalarType, key: &Datum<'_>) -> Option<Vec<u8>> {
        let element = element(SqlType::Scalar(scalar), &to_arrow_type(SqlType::Scalar(scalar)))?;
        let mut writing = Writing::new(&element);
        let is_added = writing.add(element.sql_type, key);
        let list = writing.finish();
        assert_eq!((list.count, &list.array[COUNT]), (usize::from(is_added), &[0, 0, 0, u8::from(is_added)][..]));
        is_added.then(|| list.array[ARRAY_BYTES..].to_vec())
    }

    #[test]
    fn elements_of_arrays_are_read_as_the_keys_that_they_are() {
        let micros = |micros: i64| [&[0, 0, 0, 8][..], &micros.to_be_bytes()].concat();
        let days = |days: i32| [&[0, 0, 0, 4][..], &days.to_be_bytes()].concat();
        for (scalar, key, expected) in [
            (ScalarType::Int8, Datum::Int8(i64::MIN), Some(micros(i64::MIN))),
            (ScalarType::Bool, Datum::Bool(true), Some(vec![0, 0, 0, 1, 1])),
            (ScalarType::Text, Datum::Text("NULL"), Some(b"\0\0\0\x04NULL".to_vec())),
            (ScalarType::Text, Datum::Text(""), Some(vec![0; 4])),
            (ScalarType::Text, Datum::Text("a\"b\\c,{d}"), Some(b"\0\0\0\x09a\"b\\c,{d}".to_vec())),
            (ScalarType::Text, Datum::Text("a\0"), None),
            (ScalarType::Date, Datum::Date(0), Some(days(-10_957))),
            (ScalarType::Date, Datum::Date(i32::MAX), None),
            (ScalarType::Date, Datum::Date(-719_163), None),
            (ScalarType::Timestamp, Datum::Timestamp(-1), Some(micros(-946_684_800_000_001))),
            (ScalarType::Timestamp, Datum::Timestamp(i64::MAX), None),
            (ScalarType::Timestamptz, Datum::Timestamp(0), Some(micros(-946_684_800_000_000))),
            (ScalarType::Float8, Datum::Float8(1.0), None),
        ] {
            assert_eq!(element_of(scalar, &key), expected, "{scalar} {key:?}");
        }
    }

    #[test]
    fn lists_say_what_their_elements_are() {
        let element = element(SqlType::Scalar(ScalarType::Varchar { length: None }), &DataType::Utf8).unwrap();
        let mut writing = Writing::new(&element);
        for key in ["a", "bc"] {
            assert!(writing.add(element.sql_type, &Datum::Text(key)));
        }
        let expected = b"\0\0\0\x01\0\0\0\0\0\0\0\x19\0\0\0\x02\0\0\0\x01\0\0\0\x01a\0\0\0\x02bc";
        assert_eq!(&writing.finish().array[..], expected);
    }

    #[test]
    fn only_keys_that_are_equal_alike_are_sent() {
        let of = |scalar, keys| element(SqlType::Scalar(scalar), &keys).map(|element| element.name);
        assert_eq!(of(ScalarType::Int4, DataType::Int32), Some("int4"));
        assert_eq!(of(ScalarType::Int4, DataType::Int64), Some("int8"));
        assert_eq!(of(ScalarType::Text, DataType::Utf8), Some("text"));
        assert_eq!(of(ScalarType::Date, DataType::Date32), Some("date"));
        assert_eq!(of(ScalarType::Date, DataType::Utf8), None);
        assert_eq!(of(ScalarType::Float8, DataType::Float64), None);
        assert_eq!(of(ScalarType::Jsonb, DataType::Utf8), None);
    }
}

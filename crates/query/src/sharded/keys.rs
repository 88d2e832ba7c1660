//! The join keys found on one side of a join, as conditions for the shards that have the other side.
//!
//! ```text
//! join: all rows of its build side are there ──▶ few keys? ──▶ each shard: ... WHERE k = ANY ($1::int8[]), the keys that it may have
//!                                                        └──▶ too many: all rows, as without a join
//! ```
//!
//! Called by `scan`, for each stream when its first row is requested. The join checks every row it receives, so a
//! condition may let more rows through than needed, but it must never exclude a row that has a match. Therefore it is
//! only made for types whose equality is PostgreSQL's, from values whose text both sides read alike. NULL is not a key:
//! if the join matches NULLs, no condition is made.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use ashlar_base::value::text::{self, TextStyle};
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

use super::scan::Scanned;

/// Keys that are sent. To look up one by an index takes a shard some microseconds, to send a row about one: where there are more
/// keys, reading in order is as good as a rule.
const KEYS_MAX: usize = 10_000;

/// Bytes of them, as the join has packed them: a message of this size is still little beside the rows that it saves.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Bytes of a key's text that are charged beside those of its value: numbers and times are shorter.
const TEXT_BYTES: usize = 64;

/// Days since 1970 of 0001-01-01 and 9999-12-31: between them dates and times have a text that all read alike.
const PLAIN_DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;

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
        /// Of `$1`, `$2`, ...
        values: Vec<String>,
        /// How many keys there are in them.
        count: usize,
    },
}

/// How keys of a column are read, and what PostgreSQL calls their type. `None` where they might be equal there and not here, or have
/// a text that is not theirs alone.
fn element(column: SqlType, keys: &DataType) -> Option<(SqlType, &'static str)> {
    let SqlType::Scalar(scalar) = column else { return None };
    let name = match scalar {
        // A join of integers of two widths has keys of the wider one; PostgreSQL compares them as they are.
        ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8 => {
            let (scalar, name) = match keys {
                DataType::Int16 => (ScalarType::Int2, "int2"),
                DataType::Int32 => (ScalarType::Int4, "int4"),
                DataType::Int64 => (ScalarType::Int8, "int8"),
                _ => return None,
            };
            return Some((SqlType::Scalar(scalar), name));
        }
        ScalarType::Text | ScalarType::Varchar { .. } => "text",
        ScalarType::Bool => "bool",
        ScalarType::Uuid => "uuid",
        ScalarType::Date => "date",
        ScalarType::Timestamp => "timestamp",
        ScalarType::Timestamptz => "timestamptz",
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
    (*keys == to_arrow_type(column)).then_some((column, name))
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

    /// The keys of a column that a shard may have, as the text of an array, and how many there are; `None` where one of them has no text
    /// that PostgreSQL is certain to read as that key.
    fn list(&self, shard: ShardId, column: usize, sql_type: SqlType, keys: &ArrayRef) -> Option<(String, usize)> {
        let (rule, class) = (&self.table.routed.rule, self.class_of(column));
        let reader = ColumnReader::new(keys, sql_type).ok()?;
        let (mut out, mut count) = (vec![b'{'], 0);
        for row in 0..reader.len() {
            let key = reader.datum(row);
            if let Some(class) = class {
                let key = Key::new(class, &key).ok()?;
                // What no shard takes is nowhere.
                if rule.shard_of_keys(&[key]).ok() != Some(shard) {
                    continue;
                }
            }
            if count > 0 {
                out.push(b',');
            }
            write_element(sql_type, &key, &mut out)?;
            count += 1;
        }
        out.push(b'}');
        String::from_utf8(out).ok().map(|text| (text, count))
    }
}

/// Appends a key as an element of an array; `None` where that might be read otherwise.
fn write_element(sql_type: SqlType, key: &Datum<'_>, out: &mut Vec<u8>) -> Option<()> {
    let is_plain = match key {
        // Of a table in memory or a file; no row of a shard has such a text.
        Datum::Text(text) => !text.contains('\0'),
        Datum::Date(days) => PLAIN_DAYS.contains(days),
        Datum::Timestamp(micros) => {
            let days = i32::try_from(micros.div_euclid(DAY_MICROS)).ok()?;
            PLAIN_DAYS.contains(&days)
        }
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Bool(_) | Datum::Uuid(_) => true,
        _ => false,
    };
    if !is_plain {
        return None;
    }
    out.push(b'"');
    match key {
        Datum::Text(text) => {
            for byte in text.bytes() {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
        }
        key => text::write(sql_type, key, &TextStyle::default(), out),
    }
    out.push(b'"');
    Some(())
}

/// What a shard is asked for, by what joins say now. What the keys take is charged to `memory` before they are listed, and before they
/// are written; where there is none for them, all rows come.
///
/// # Errors
/// As [`keys_of_join`].
pub(super) fn sought(
    scanned: &Scanned,
    shard: ShardId,
    told: &[Arc<dyn PhysicalExpr>],
    memory: &MemoryReservation,
) -> Result<Sought> {
    let (mut conditions, mut values, mut count) = (Vec::new(), Vec::new(), 0);
    for filter in told {
        // As long as there is nothing but the keys themselves.
        let listed = memory.new_empty();
        let mut charge = |bytes: usize| listed.try_grow(bytes).is_ok();
        let columns = match keys_of_join(filter, KEYS_MAX, KEY_BYTES_MAX, &mut charge)? {
            KeysOfJoin::Any => continue,
            KeysOfJoin::Nothing => return Ok(Sought::Nothing),
            KeysOfJoin::Among(columns) => columns,
        };
        for (key, keys) in columns {
            let Some(column) = scanned.column_of_key(&key) else { continue };
            let Some((sql_type, name)) = element(scanned.types[column], keys.data_type()) else { continue };
            // Their text, which is twice as long at most and grows by doubling, and the message with it.
            let bytes = 4 * keys.get_array_memory_size() + 2 * TEXT_BYTES * keys.len();
            if memory.try_grow(bytes).is_err() {
                continue;
            }
            let Some((list, length)) = scanned.list(shard, column, sql_type, &keys) else { continue };
            if length == 0 {
                return Ok(Sought::Nothing);
            }
            count += length;
            values.push(list);
            let column = &scanned.table.schema.columns[scanned.ordinals[column]].name;
            conditions.push(format!("{} = ANY (${}::{name}[])", quote_ident(column), values.len()));
        }
    }
    Ok(if conditions.is_empty() { Sought::All } else { Sought::Keys { conditions, values, count } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element_of(scalar: ScalarType, key: &Datum<'_>) -> Option<String> {
        let mut out = Vec::new();
        write_element(SqlType::Scalar(scalar), key, &mut out)?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn elements_of_arrays_are_read_as_the_keys_that_they_are() {
        for (scalar, key, expected) in [
            (ScalarType::Int8, Datum::Int8(i64::MIN), Some("\"-9223372036854775808\"")),
            (ScalarType::Bool, Datum::Bool(true), Some("\"t\"")),
            (ScalarType::Text, Datum::Text("NULL"), Some("\"NULL\"")),
            (ScalarType::Text, Datum::Text(""), Some("\"\"")),
            (ScalarType::Text, Datum::Text("a\"b\\c,{d}"), Some("\"a\\\"b\\\\c,{d}\"")),
            (ScalarType::Text, Datum::Text("a\0"), None),
            (ScalarType::Date, Datum::Date(0), Some("\"1970-01-01\"")),
            (ScalarType::Date, Datum::Date(i32::MAX), None),
            (ScalarType::Date, Datum::Date(-719_163), None),
            (ScalarType::Timestamp, Datum::Timestamp(-1), Some("\"1969-12-31 23:59:59.999999\"")),
            (ScalarType::Timestamp, Datum::Timestamp(i64::MAX), None),
            (ScalarType::Timestamptz, Datum::Timestamp(0), Some("\"1970-01-01 00:00:00+00\"")),
            (ScalarType::Float8, Datum::Float8(1.0), None),
        ] {
            assert_eq!(element_of(scalar, &key).as_deref(), expected, "{scalar} {key:?}");
        }
    }

    #[test]
    fn only_keys_that_are_equal_alike_are_sent() {
        let of = |scalar, keys| element(SqlType::Scalar(scalar), &keys).map(|(_, name)| name);
        assert_eq!(of(ScalarType::Int4, DataType::Int32), Some("int4"));
        assert_eq!(of(ScalarType::Int4, DataType::Int64), Some("int8"));
        assert_eq!(of(ScalarType::Text, DataType::Utf8), Some("text"));
        assert_eq!(of(ScalarType::Date, DataType::Date32), Some("date"));
        assert_eq!(of(ScalarType::Date, DataType::Utf8), None);
        assert_eq!(of(ScalarType::Float8, DataType::Float64), None);
        assert_eq!(of(ScalarType::Jsonb, DataType::Utf8), None);
    }
}

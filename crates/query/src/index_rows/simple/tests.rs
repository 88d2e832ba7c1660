//! The twin of each condition is what the engine computes.

use ashlar_base::{IndexRows, ScalarType, SqlType, Value};
use ashlar_store::condition_holds;

use crate::engine::Engine;
use crate::index_rows::IndexExpressions;
use crate::testing::{alone, engine_with};

const TABLE: &str = "CREATE TABLE t (a integer, s smallint, l bigint, n numeric(5,2), f float8, r real, b text, c varchar(5), h char(4), \
                     o boolean, d date, ts timestamp, tz timestamptz, y bytea, j jsonb, i interval, arr integer[])";

/// Some values of a type, those among them that conditions name.
fn values(sql_type: SqlType) -> Vec<Value> {
    let texts = ["", "a", "b", "ab", "é", "x", "éé"];
    let SqlType::Scalar(scalar) = sql_type else { return vec![Value::Null] };
    let mut values = match scalar {
        ScalarType::Bool => vec![Value::Bool(true), Value::Bool(false)],
        ScalarType::Int2 => [i16::MIN, -1, 0, 1, 5, i16::MAX].map(Value::Int2).into(),
        ScalarType::Int4 => [i32::MIN, -1, 0, 1, 5, i32::MAX].map(Value::Int4).into(),
        ScalarType::Int8 => [i64::MIN, -1, 0, 1, 5, i64::MAX].map(Value::Int8).into(),
        ScalarType::Numeric { .. } => [-99999, -1, 0, 1, 100, 150, 99999].map(Value::Numeric).into(),
        ScalarType::Float4 => [-1.5, 0.5, 1.0, f32::MAX].map(Value::Float4).into(),
        ScalarType::Float8 => [-1.5, 0.5, 1.0, f64::MAX].map(Value::Float8).into(),
        ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. } => {
            texts.map(|text| Value::Text(text.into())).into()
        }
        ScalarType::Date => [0, 10_957, 20_000].map(Value::Date).into(),
        ScalarType::Timestamp | ScalarType::Timestamptz => {
            [0, 946_684_800_000_000, 946_684_800_000_001].map(Value::Timestamp).into()
        }
        ScalarType::Bytea => vec![Value::Bytea(Box::from(&b""[..])), Value::Bytea(Box::from(&b"\x01"[..]))],
        _ => Vec::new(),
    };
    values.push(Value::Null);
    values
}

/// A condition is known, or is not; where it is, it is what the engine computes.
fn check(engine: &Engine, stated: &str, is_known: bool) {
    alone(engine, &format!("ALTER TABLE t ADD CONSTRAINT x CHECK ({stated})")).unwrap();
    let schema = engine.catalog().grid_table("t").unwrap().schema();
    alone(engine, "ALTER TABLE t DROP CONSTRAINT x").unwrap();
    let computed = IndexExpressions::of_check(&schema.checks[0]).unwrap();
    let Some(condition) = computed.condition() else {
        assert!(!is_known, "{stated} is not known");
        return;
    };
    assert!(is_known, "{stated} is known as {condition:?}");
    // All combinations.
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for &sql_type in &computed.input_types {
        let values = values(sql_type);
        rows = rows
            .iter()
            .flat_map(|row| values.iter().map(|value| [&row[..], std::slice::from_ref(value)].concat()))
            .collect();
    }
    let twins = computed.compute(&rows).unwrap();
    for (row, twin) in rows.iter().zip(twins) {
        let twin = match twin.as_deref() {
            Some([Value::Bool(held)]) => Some(*held),
            Some([Value::Null]) => None,
            other => panic!("{stated} is {other:?}"),
        };
        assert_eq!(condition_holds(condition, &|place: usize| row[place].as_datum()), twin, "{stated} of {row:?}");
    }
}

#[test]
fn what_is_known_is_what_the_engine_computes() {
    let engine = engine_with(&[TABLE]);
    for stated in [
        "a > 0",
        "0 >= a",
        "a <> 5",
        "a BETWEEN 1 AND 5",
        "a NOT BETWEEN 1 AND 5",
        "a IN (1, 5)",
        "a IN (5, 4, 3, 1, -1)",
        "a NOT IN (5, 4, 3, 1, -1)",
        "a = ANY (ARRAY[5, 4, 3, 1, -1])",
        "a < 10000000000",
        "a IS DISTINCT FROM 1",
        "a IS NOT DISTINCT FROM 1",
        "a IS NULL OR a > 1",
        "NOT (a > 1 AND b IS NULL)",
        "a > 0 AND a < 5 AND b <> ''",
        "a > 1 OR NULL",
        "a < l",
        "s >= a",
        "s < 100000",
        "l BETWEEN 0 AND 5",
        "n > 0",
        "n >= 1.5",
        "n BETWEEN 0 AND 100000",
        "f > 0",
        "f BETWEEN 0 AND 1",
        "r > 0.5",
        "r < f",
        "length(b) > 1",
        "char_length(c) BETWEEN 1 AND 2",
        "length(b) > 0 AND length(b) < 2",
        "b <> ''",
        "b >= 'b'",
        "b IN ('a', 'b', 'x', 'é', 'no')",
        "c IN ('a', 'b')",
        "c = 'a' OR c = 'b' OR b = c",
        "h = 'a '",
        "h IN ('a', 'b', 'x', 'ab')",
        "o",
        "NOT o",
        "o IS TRUE",
        "o IS NOT FALSE",
        "o IS NOT TRUE",
        "o IS FALSE",
        "o IS UNKNOWN",
        "o IS NOT UNKNOWN",
        "o IS NOT NULL",
        "o OR a = 1",
        "d > '2000-01-01'",
        "ts >= '2000-01-01'",
        "y <> ''",
        "j IS NOT NULL",
        "arr IS NULL",
        "true",
        "false",
        "NULL::boolean",
    ] {
        check(&engine, stated, true);
    }
}

#[test]
fn what_is_more_is_computed() {
    let engine = engine_with(&[TABLE]);
    for stated in [
        "a % 2 = 0",
        "a > 0 AND 10 / a > 1",
        "b LIKE 'a%'",
        "lower(b) = b",
        "n < 1.555",
        "a > n",
        "f IN (1, 2, 3, 4, 5)",
        "j = '1'",
        "i > '1 day'",
        "array_length(arr, 1) < 3",
    ] {
        check(&engine, stated, false);
    }
}

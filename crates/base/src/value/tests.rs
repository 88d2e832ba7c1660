//! Properties of all types: both forms read back what they write, and nothing that is read makes them panic.

use proptest::collection::vec;
use proptest::prelude::*;

use super::table::check_round_trips;
use super::text::{TextStyle, Zone};
use super::{binary, json, text};
use crate::{Interval, ScalarType, SqlType, Value};

const DAY_MICROS: i64 = 86_400_000_000;
/// 0001-01-02, far enough from the first day for every zone.
const FIRST_DAY: i32 = -719_161;
/// 262142-12-30
const LAST_DAY: i32 = 95_026_235;

fn scalar_types() -> impl Strategy<Value = ScalarType> {
    use ScalarType as T;
    let fixed = vec![
        T::Bool,
        T::Int2,
        T::Int4,
        T::Int8,
        T::Float4,
        T::Float8,
        T::Text,
        T::Varchar { length: None },
        T::Varchar { length: Some(5) },
        T::Char { length: None },
        T::Char { length: Some(5) },
        T::Bytea,
        T::Date,
        T::Time,
        T::Timestamp,
        T::Timestamptz,
        T::Interval,
        T::Uuid,
        T::Json,
        T::Jsonb,
    ];
    let numeric =
        (1u8..=38).prop_flat_map(|precision| (0..=precision).prop_map(move |scale| T::Numeric { precision, scale }));
    prop_oneof![4 => proptest::sample::select(fixed), 1 => numeric]
}

/// JSON with every escape, odd spacing and numbers in every form.
fn json_text() -> impl Strategy<Value = String> {
    let string = "(\\\\\"|\\\\n|\\\\u00e9|\\\\ud83d\\\\ude00|[a-c]|é){0,4}".prop_map(|inner| format!("\"{inner}\""));
    let number = "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?";
    let leaf = prop_oneof![string.clone(), number, "true|false|null"];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let key = "(\\\\u0061|[a-c]|é){0,3}".prop_map(|inner| format!("\"{inner}\""));
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|items| format!("[ {}]", items.join(" ,"))),
            vec((key, inner), 0..5).prop_map(|items| {
                let entries: Vec<String> = items.into_iter().map(|(key, value)| format!("{key}\t:{value}")).collect();
                format!("{{{}\n}}", entries.join(", "))
            }),
        ]
    })
}

fn scalar_value(scalar: ScalarType) -> BoxedStrategy<Value> {
    let text = "[a-zA-Z0-9 ,'\"{}\\\\()\n\tnulNUL€ü]{0,12}";
    let timestamp = (i64::from(FIRST_DAY) * DAY_MICROS..i64::from(LAST_DAY) * DAY_MICROS)
        .prop_union(-DAY_MICROS * 50_000..DAY_MICROS * 50_000);
    match scalar {
        ScalarType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ScalarType::Int2 => any::<i16>().prop_map(Value::Int2).boxed(),
        ScalarType::Int4 => any::<i32>().prop_map(Value::Int4).boxed(),
        ScalarType::Int8 => any::<i64>().prop_map(Value::Int8).boxed(),
        ScalarType::Float4 => prop_oneof![
            any::<u32>().prop_map(|bits| canonical_nan4(f32::from_bits(bits))),
            (any::<i32>(), 0..10i32).prop_map(|(number, places)| number as f32 / 10f32.powi(places)),
        ]
        .prop_map(Value::Float4)
        .boxed(),
        ScalarType::Float8 => prop_oneof![
            any::<u64>().prop_map(|bits| canonical_nan8(f64::from_bits(bits))),
            (any::<i64>(), 0..20i32).prop_map(|(number, places)| number as f64 / 10f64.powi(places)),
        ]
        .prop_map(Value::Float8)
        .boxed(),
        ScalarType::Numeric { precision, .. } => {
            let limit = 10i128.pow(u32::from(precision));
            (any::<i128>(), 0..39u32)
                .prop_map(move |(number, digits)| Value::Numeric(number % limit % 10i128.pow(digits)))
                .boxed()
        }
        ScalarType::Text | ScalarType::Varchar { length: None } => {
            text.prop_map(|text| Value::Text(text.into())).boxed()
        }
        ScalarType::Varchar { length: Some(length) } => text
            .prop_map(move |text: String| Value::Text(text.chars().take(length as usize).collect::<String>().into()))
            .boxed(),
        ScalarType::Char { length } => {
            let kept = move |text: String| -> String {
                text.chars().take(length.map_or(100, |length| length as usize)).collect()
            };
            text.prop_map(move |text| Value::Text(kept(text).trim_end_matches(' ').into())).boxed()
        }
        ScalarType::Bytea => vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytea(bytes.into())).boxed(),
        ScalarType::Date => (FIRST_DAY..LAST_DAY).prop_map(Value::Date).boxed(),
        ScalarType::Time => (0..=DAY_MICROS).prop_map(Value::Time).boxed(),
        ScalarType::Timestamp | ScalarType::Timestamptz => timestamp.prop_map(Value::Timestamp).boxed(),
        ScalarType::Interval => {
            // The text of i64::MIN microseconds is out of PostgreSQL's own range.
            let micros =
                prop_oneof![any::<i64>().prop_filter("opposite", |micros| *micros != i64::MIN), -5000..5000i64];
            (any::<i32>(), any::<i32>(), micros)
                .prop_map(|(months, days, micros)| Value::Interval(Interval { months, days, micros }))
                .boxed()
        }
        ScalarType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        ScalarType::Json => json_text().prop_map(|text| Value::Text(text.into())).boxed(),
        ScalarType::Jsonb => json_text().prop_map(|text| Value::Text(json::normalize(&text).unwrap().into())).boxed(),
    }
}

/// Text has one NaN.
fn canonical_nan4(number: f32) -> f32 {
    if number.is_nan() { f32::NAN } else { number }
}

fn canonical_nan8(number: f64) -> f64 {
    if number.is_nan() { f64::NAN } else { number }
}

/// A type and a value of it.
fn any_value() -> impl Strategy<Value = (SqlType, Value)> {
    scalar_types().prop_flat_map(|scalar| {
        let element = prop_oneof![5 => scalar_value(scalar), 1 => Just(Value::Null)];
        prop_oneof![
            3 => scalar_value(scalar).prop_map(move |value| (SqlType::Scalar(scalar), value)),
            1 => vec(element, 0..5).prop_map(move |values| (SqlType::Array(scalar), Value::Array(values.into()))),
        ]
    })
}

/// A type that can be a key and a value of it.
pub(super) fn any_key() -> impl Strategy<Value = (SqlType, Value)> {
    scalar_types()
        .prop_filter("can be a key", |scalar| scalar.can_be_key())
        .prop_flat_map(|scalar| scalar_value(scalar).prop_map(move |value| (SqlType::Scalar(scalar), value)))
}

fn any_type() -> impl Strategy<Value = SqlType> {
    (scalar_types(), any::<bool>())
        .prop_map(|(scalar, array)| if array { SqlType::Array(scalar) } else { SqlType::Scalar(scalar) })
}

/// Text that looks like some value, with small mistakes.
fn near_text() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "2020",
        "-",
        "01",
        "/",
        "02",
        " ",
        ":",
        "04:05:06",
        ".5",
        "T",
        "Z",
        "+",
        "08",
        "Jan",
        "PM",
        "BC",
        "UTC",
        "Europe/Berlin",
        "1",
        "day",
        "mon",
        "ago",
        "P",
        "1Y",
        "T1H",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "\\",
        "\\u",
        "d83d",
        "null",
        "true",
        "e",
        "9999999999",
        "NaN",
        "Infinity",
        "x",
        "é",
        "\u{0}",
        "'",
        "@",
        "<",
        ">",
        "now",
        "epoch",
    ]);
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn styles() -> impl Strategy<Value = TextStyle> {
    let named = proptest::sample::select(&chrono_tz::TZ_VARIANTS[..]).prop_map(Zone::Named);
    prop_oneof![Just(Zone::Utc), (-57_599..57_600i32).prop_map(Zone::Fixed), named].prop_map(|zone| TextStyle { zone })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_forms_read_what_they_write((sql_type, value) in any_value()) {
        check_round_trips(sql_type, &value, &TextStyle::default());
    }

    #[test]
    fn reading_text_never_panics(sql_type in any_type(), near in near_text(), far in "\\PC*", style in styles()) {
        for input in [near, far] {
            if let Ok(value) = text::parse(sql_type, &input, &style) {
                let mut out = Vec::new();
                text::write(sql_type, &value.as_datum(), &style, &mut out);
                // What was understood is written so that it is understood again.
                prop_assert!(std::str::from_utf8(&out).is_ok());
            }
        }
    }

    #[test]
    fn reading_bytes_never_panics(sql_type in any_type(), bytes in vec(any::<u8>(), 0..64)) {
        let _ = binary::decode(sql_type, &bytes);
    }

    #[test]
    fn damaged_bytes_are_a_value_or_an_error(
        (sql_type, value) in any_value(), at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        binary::encode(sql_type, &value.as_datum(), &mut bytes);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
        }
        if let Ok(value) = binary::decode(sql_type, &bytes) {
            let mut out = Vec::new();
            text::write(sql_type, &value.as_datum(), &TextStyle::default(), &mut out);
            prop_assert!(std::str::from_utf8(&out).is_ok());
        }
    }

    #[test]
    fn instants_read_back_on_every_clock(seconds in -5_000_000_000i64..8_000_000_000, style in styles()) {
        let sql_type = SqlType::Scalar(ScalarType::Timestamptz);
        let value = Value::Timestamp(seconds * 1_000_000);
        let mut out = Vec::new();
        text::write(sql_type, &value.as_datum(), &style, &mut out);
        // The offset stands in the text, so that the reader's zone does not matter.
        let again = text::parse(sql_type, std::str::from_utf8(&out).unwrap(), &TextStyle::default());
        prop_assert_eq!(again, Ok(value));
    }

    #[test]
    fn normalised_json_means_the_same_and_stays(text in json_text()) {
        let normal = json::normalize(&text).unwrap();
        prop_assert_eq!(json::normalize(&normal), Ok(normal.clone()));
        json::check(&text).unwrap();
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&normal).unwrap());
        prop_assert!(means_the_same(&before, &after), "{before} is not {after}");
    }
}

/// Equal, numbers but for the last digits of a double: serde_json takes a number with an exponent for a float, and is off
/// in the last digits of some.
fn means_the_same(left: &serde_json::Value, right: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64().unwrap(), right.as_f64().unwrap());
            (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| means_the_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| means_the_same(left, right)))
        }
        (left, right) => left == right,
    }
}

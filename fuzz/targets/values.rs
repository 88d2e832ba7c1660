//! Any bytes as a value of any type, in PostgreSQL's text and its binary form: what is read is written, and read again.
//!
//! The first byte chooses the type, the second the form and the zone, the rest is the value.

#![no_main]

use ashlar_base::value::text::{TextStyle, Zone};
use ashlar_base::value::{binary, text};
use ashlar_base::{ScalarType, SqlType, Value};
use libfuzzer_sys::fuzz_target;

const SCALARS: [ScalarType; 20] = [
    ScalarType::Bool,
    ScalarType::Int2,
    ScalarType::Int4,
    ScalarType::Int8,
    ScalarType::Float4,
    ScalarType::Float8,
    ScalarType::Numeric { precision: 12, scale: 2 },
    ScalarType::Numeric { precision: 38, scale: 0 },
    ScalarType::Numeric { precision: 38, scale: 38 },
    ScalarType::Text,
    ScalarType::Varchar { length: Some(3) },
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

fn written(sql_type: SqlType, value: &Value, style: &TextStyle) -> (String, Vec<u8>) {
    let (mut shown, mut sent) = (Vec::new(), Vec::new());
    text::write(sql_type, &value.as_datum(), style, &mut shown);
    binary::encode(sql_type, &value.as_datum(), &mut sent);
    (String::from_utf8(shown).expect("the text of a value is text"), sent)
}

/// The least number of microseconds is written, and not read: PostgreSQL reads the sign last, too.
fn is_extreme(sql_type: SqlType, text: &str) -> bool {
    sql_type.scalar() == ScalarType::Interval && text.contains("-2562047788:00:54.775808")
}

fuzz_target!(|input: &[u8]| {
    let [choice, form, data @ ..] = input else { return };
    let scalar = SCALARS[usize::from(choice % 20)];
    let sql_type = if choice / 20 % 2 == 0 { SqlType::Scalar(scalar) } else { SqlType::Array(scalar) };
    let zone = if form & 2 == 0 { Zone::Utc } else { Zone::parse("America/Santiago").expect("a zone") };
    let style = TextStyle { zone };
    let read = if form & 1 == 0 {
        let Ok(data) = text::utf8(data) else { return };
        text::parse(sql_type, data, &style)
    } else {
        binary::decode(sql_type, data)
    };
    let Ok(value) = read else { return };
    let (shown, sent) = written(sql_type, &value, &style);
    let again = binary::decode(sql_type, &sent).expect("what was sent is read");
    assert_eq!(written(sql_type, &again, &style), (shown.clone(), sent.clone()));
    if !is_extreme(sql_type, &shown) {
        let again = text::parse(sql_type, &shown, &style).expect("what was shown is read");
        assert_eq!(written(sql_type, &again, &style), (shown, sent));
    }
});

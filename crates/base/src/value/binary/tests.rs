//! The bytes that PostgreSQL 15 sends, read with `encode(numeric_send(...), 'hex')` and its like; and what is refused.

use super::*;
use crate::value::text::{self, TextStyle};

fn hex(sql_type: impl Into<SqlType>, input: &str) -> String {
    let sql_type = sql_type.into();
    let value = text::parse(sql_type, input, &TextStyle::default()).unwrap();
    let mut out = Vec::new();
    encode(sql_type, &value.as_datum(), &mut out);
    assert_eq!(decode(sql_type, &out), Ok(value), "{input}");
    out.iter().map(|byte| format!("{byte:02x}")).collect()
}

const fn numeric(precision: u8, scale: u8) -> ScalarType {
    ScalarType::Numeric { precision, scale }
}

#[test]
fn values_are_sent_as_postgresql_sends_them() {
    for (sql_type, input, expected) in [
        (ScalarType::Bool, "t", "01"),
        (ScalarType::Int2, "-2", "fffe"),
        (ScalarType::Int4, "-2", "fffffffe"),
        (ScalarType::Int8, "1099511627776", "0000010000000000"),
        (ScalarType::Float4, "1.5", "3fc00000"),
        (ScalarType::Float8, "-1.5", "bff8000000000000"),
        (ScalarType::Text, "aé", "61c3a9"),
        (ScalarType::Bytea, "\\x00ff", "00ff"),
        (ScalarType::Date, "2020-01-02", "00001c8a"),
        (ScalarType::Date, "1999-12-31", "ffffffff"),
        (ScalarType::Time, "04:05:06.789", "000000036c97ca88"),
        (ScalarType::Time, "24:00", "000000141dd76000"),
        (ScalarType::Timestamp, "2020-01-02 03:04:05.678", "00023e1e36f96bb0"),
        (ScalarType::Timestamp, "1969-12-31 23:59:59.999999", "fffca2fec4c81fff"),
        (ScalarType::Timestamptz, "2020-01-02 03:04:05+02", "00023e1c89c7cb40"),
        (ScalarType::Interval, "1 year 2 mons -3 days 04:05:06.789", "000000036c97ca88fffffffd0000000e"),
        (ScalarType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
        (ScalarType::Json, "{ \"a\":1}", "7b202261223a317d"),
        (ScalarType::Jsonb, "{ \"a\":1}", "017b2261223a20317d"),
        (numeric(5, 2), "0", "0000000000000002"),
        (numeric(5, 2), "1", "00010000000000020001"),
        (numeric(5, 2), "-1.5", "000200004000000200011388"),
        (numeric(5, 2), "0.01", "0001ffff000000020064"),
        (numeric(5, 2), "100", "00010000000000020064"),
        (numeric(10, 0), "10000", "00010001000000000001"),
        (numeric(10, 0), "1234567890", "0003000200000000000c0d801ed2"),
        (numeric(10, 4), "1.0001", "000200000000000400010001"),
        (numeric(10, 3), "1.001", "00020000000000030001000a"),
        (numeric(10, 1), "10000.1", "00030001000000010001000003e8"),
        (numeric(10, 5), "0.00001", "0001fffe0000000503e8"),
        (numeric(10, 8), "0.0001", "0001ffff000000080001"),
        (
            numeric(38, 0),
            "99999999999999999999999999999999999999",
            "000a0009000000000063270f270f270f270f270f270f270f270f270f",
        ),
        (
            numeric(38, 38),
            "-0.99999999999999999999999999999999999999",
            "000affff40000026270f270f270f270f270f270f270f270f270f26ac",
        ),
        (
            numeric(38, 37),
            "1.0000000000000000000000000000000000001",
            "000b000000000025000100000000000000000000000000000000000003e8",
        ),
        (
            numeric(38, 1),
            "1000000000000000000000000000000000000.1",
            "000b000900000001000100000000000000000000000000000000000003e8",
        ),
        (numeric(38, 19), "1e18", "00010004000000130064"),
    ] {
        assert_eq!(hex(sql_type, input), expected, "{sql_type} {input}");
    }
}

#[test]
fn arrays_are_sent_as_postgresql_sends_them() {
    for (element, input, expected) in [
        (ScalarType::Int4, "{}", "000000000000000000000017"),
        (
            ScalarType::Int4,
            "{1,NULL,3}",
            "00000001000000010000001700000003000000010000000400000001ffffffff0000000400000003",
        ),
        (
            ScalarType::Text,
            "{a,\"b c\",\"\"}",
            "000000010000000000000019000000030000000100000001610000000362206300000000",
        ),
        (
            numeric(5, 2),
            "{1.5,NULL}",
            "0000000100000001000006a400000002000000010000000c000200000000000200011388ffffffff",
        ),
        (
            ScalarType::Jsonb,
            "{\"{\\\"a\\\": 1}\"}",
            "000000010000000000000eda000000010000000100000009017b2261223a20317d",
        ),
        (
            ScalarType::Timestamptz,
            "{\"2020-01-01 00:00+02\"}",
            "0000000100000000000004a000000001000000010000000800023e05d99b1800",
        ),
    ] {
        assert_eq!(hex(SqlType::Array(element), input), expected, "{element} {input}");
    }
}

fn refused(sql_type: impl Into<SqlType>, bytes: &[u8]) -> (&'static str, String) {
    let error = decode(sql_type.into(), bytes).unwrap_err();
    (error.code().sqlstate(), error.message().to_owned())
}

#[test]
fn bytes_of_a_wrong_shape_are_refused() {
    let incorrect = ("22P03", "incorrect binary data format".to_owned());
    assert_eq!(refused(ScalarType::Int4, b"123"), incorrect);
    assert_eq!(refused(ScalarType::Int4, b"12345"), incorrect);
    assert_eq!(refused(ScalarType::Bool, b""), incorrect);
    assert_eq!(refused(ScalarType::Uuid, &[0; 15]), incorrect);
    assert_eq!(refused(ScalarType::Interval, &[0; 17]), incorrect);
    assert_eq!(refused(ScalarType::Jsonb, b""), incorrect);
    assert_eq!(refused(ScalarType::Jsonb, b"\x02{}"), ("22P03", "unsupported jsonb version number 2".to_owned()));
    assert_eq!(refused(ScalarType::Json, b"{"), ("22P02", "invalid input syntax for type json".to_owned()));
    assert_eq!(refused(ScalarType::Text, b"a\0").0, "22021");
    assert_eq!(refused(ScalarType::Text, b"\xff").0, "22021");
    let long = ScalarType::Varchar { length: Some(2) };
    assert_eq!(refused(long, b"abc"), ("22001", "value too long for type character varying(2)".to_owned()));
}

#[test]
fn times_out_of_range_are_refused() {
    assert_eq!(refused(ScalarType::Date, &i32::MAX.to_be_bytes()).0, "0A000");
    assert_eq!(refused(ScalarType::Date, &(i32::MAX - 1).to_be_bytes()), ("22008", "date out of range".to_owned()));
    assert_eq!(refused(ScalarType::Timestamp, &i64::MIN.to_be_bytes()).0, "0A000");
    let beyond = (i64::MAX - 1).to_be_bytes();
    assert_eq!(refused(ScalarType::Timestamptz, &beyond), ("22008", "timestamp out of range".to_owned()));
    // A day before 0001-01-01.
    assert_eq!(refused(ScalarType::Date, &(-730_120i32).to_be_bytes()).0, "0A000");
    assert_eq!(refused(ScalarType::Time, &(-1i64).to_be_bytes()), ("22008", "time out of range".to_owned()));
    assert_eq!(refused(ScalarType::Time, &(DAY_MICROS + 1).to_be_bytes()).0, "22008");
}

/// Count, weight, sign, scale and digits.
fn numeric_bytes(fields: &[u16]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.to_be_bytes()).collect()
}

#[test]
fn numerics_of_another_scale_are_rounded_and_checked() {
    let decoded = |fields: &[u16]| decode(numeric(5, 2).into(), &numeric_bytes(fields));
    // 1.005, 1.0049 cut to the three digits it shows, -0.005, 12 without digits after the point.
    assert_eq!(decoded(&[2, 0, 0, 3, 1, 50]), Ok(Value::Numeric(101)));
    assert_eq!(decoded(&[2, 0, 0, 3, 1, 49]), Ok(Value::Numeric(100)));
    assert_eq!(decoded(&[1, 0xffff, 0x4000, 3, 50]), Ok(Value::Numeric(-1)));
    assert_eq!(decoded(&[1, 0, 0, 0, 12]), Ok(Value::Numeric(1200)));
    assert_eq!(decoded(&[0, 0x7fff, 0, 0]), Ok(Value::Numeric(0)));
    let refused = |fields: &[u16]| refused(numeric(5, 2), &numeric_bytes(fields));
    assert_eq!(refused(&[1, 0, 0, 0, 1000]), ("22003", "numeric field overflow".to_owned()));
    assert_eq!(refused(&[0, 0, 0xc000, 0]).0, "0A000");
    assert_eq!(refused(&[0, 0, 0xd000, 0]), ("22003", "numeric field overflow".to_owned()));
    assert_eq!(refused(&[0, 0, 1, 0]), ("22P03", "invalid sign in external \"numeric\" value".to_owned()));
    assert_eq!(refused(&[0, 0, 0, 0x4000]), ("22P03", "invalid scale in external \"numeric\" value".to_owned()));
    assert_eq!(refused(&[1, 0, 0, 0, 10000]), ("22P03", "invalid digit in external \"numeric\" value".to_owned()));
    assert_eq!(refused(&[2, 0, 0, 0, 1]), ("22P03", "incorrect binary data format".to_owned()));
}

/// A header of integers and what follows it.
fn array_bytes(header: &[i32], rest: &[u8]) -> Vec<u8> {
    header.iter().flat_map(|field| field.to_be_bytes()).chain(rest.iter().copied()).collect()
}

#[test]
fn arrays_of_another_shape_are_refused() {
    let refused = |header: &[i32], rest: &[u8]| refused(SqlType::Array(ScalarType::Int4), &array_bytes(header, rest));
    let element = [0, 0, 0, 4, 0, 0, 0, 9];
    let good = array_bytes(&[1, 0, 23, 1, 1], &element);
    assert_eq!(decode(SqlType::Array(ScalarType::Int4), &good), Ok(Value::Array([Value::Int4(9)].into())));
    assert_eq!(refused(&[1, 0, 25, 1, 1], &element).0, "42804");
    assert_eq!(refused(&[2, 0, 23, 1, 1, 1, 1], &element).0, "0A000");
    assert_eq!(refused(&[1, 0, 23, 1, 0], &element).0, "0A000");
    assert_eq!(refused(&[7, 0, 23], &[]), ("22P03", "invalid number of dimensions: 7".to_owned()));
    assert_eq!(refused(&[-1, 0, 23], &[]).0, "22P03");
    assert_eq!(refused(&[1, 2, 23, 1, 1], &element), ("22P03", "invalid array flags".to_owned()));
    for (length, rest) in [(2, &element[..]), (1, &element[..7]), (0, &element), (-1, &element), (i32::MAX, &[])] {
        assert_eq!(refused(&[1, 0, 23, length, 1], rest), ("22P03", "incorrect binary data format".to_owned()));
    }
    assert_eq!(refused(&[1, 0, 23, 1, 1], &(-2i32).to_be_bytes()).0, "22P03");
}

#[test]
fn whatever_its_bits_a_nan_is_the_one_nan() {
    for bytes in ["7ff8000000000000", "fff8000000000000", "7ff0000000000001"] {
        let bytes = u64::from_str_radix(bytes, 16).unwrap().to_be_bytes();
        let Ok(Value::Float8(value)) = decode(ScalarType::Float8.into(), &bytes) else { panic!("a float comes") };
        assert_eq!(value.to_bits(), f64::NAN.to_bits());
    }
    let Ok(Value::Float4(value)) = decode(ScalarType::Float4.into(), &[0xff, 0xc0, 0, 1]) else {
        panic!("a float comes")
    };
    assert_eq!(value.to_bits(), f32::NAN.to_bits());
}

#[test]
fn what_is_borrowed_is_what_is_read() {
    let cases: [(ScalarType, &[u8]); 4] = [
        (ScalarType::Text, "aé".as_bytes()),
        (ScalarType::Text, b""),
        (ScalarType::Bytea, b"\x00\xff"),
        (ScalarType::Bytea, b""),
    ];
    for (scalar, bytes) in cases {
        let value = decode(scalar.into(), bytes).unwrap();
        assert_eq!(borrow(scalar.into(), bytes).unwrap().unwrap(), value.as_datum(), "{scalar} {bytes:?}");
    }
    for bytes in [&b"a\xff"[..], b"a\0"] {
        let (borrowed, read) =
            (borrow(ScalarType::Text.into(), bytes).unwrap(), decode(ScalarType::Text.into(), bytes));
        assert_eq!(borrowed.unwrap_err().code(), read.unwrap_err().code());
    }
    // Their bytes are read otherwise, or are not all of it.
    for scalar in [ScalarType::Int4, ScalarType::Varchar { length: Some(1) }, ScalarType::Json, ScalarType::Uuid] {
        assert!(borrow(scalar.into(), b"abcd").is_none(), "{scalar}");
    }
    assert!(borrow(SqlType::Array(ScalarType::Text), b"abcd").is_none());
}

#[test]
fn object_numbers_have_four_bytes() {
    let (one, many) = (SqlType::Scalar(ScalarType::Int8), SqlType::Array(ScalarType::Int8));
    let bytes = |oid: u32, sql_type: SqlType, value: Value| {
        let mut out = Vec::new();
        encode_announced(oid, sql_type, &value.as_datum(), &mut out);
        out
    };
    assert_eq!(bytes(26, one, Value::Int8(4_000_000_000)), 4_000_000_000u32.to_be_bytes());
    assert_eq!(bytes(20, one, Value::Int8(23)), 23i64.to_be_bytes());
    let numbers = Value::Array([Value::Int8(23), Value::Null].into());
    let sent = bytes(1028, many, numbers.clone());
    let shown: String = sent.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        shown,
        "00000001000000010000001a0000000200000001\
         0000000400000017ffffffff"
    );
    assert_eq!(decode(many, &sent), Ok(numbers));
    let none = Value::Array([].into());
    let sent = bytes(1028, many, none.clone());
    assert_eq!(decode(many, &sent), Ok(none));
}

//! What PostgreSQL 15 does when a value is stored in a column of another type.

use super::*;
use crate::value::table::show;
use crate::value::text::Zone;

fn check_in(zone: &str, from: impl Into<SqlType>, to: impl Into<SqlType>, rows: &[(&str, &str)]) {
    let (from, to) = (from.into(), to.into());
    let style = TextStyle { zone: Zone::parse(zone).unwrap() };
    for (input, expected) in rows {
        let value = parse(from, input, &style).unwrap();
        let result = coerce_with(value, from, to, &style);
        assert_eq!(show(to, &result, &style), *expected, "{from} {input:?} to {to}");
    }
}

fn check(from: impl Into<SqlType>, to: impl Into<SqlType>, rows: &[(&str, &str)]) {
    check_in("UTC", from, to, rows);
}

const fn numeric(precision: u8, scale: u8) -> ScalarType {
    ScalarType::Numeric { precision, scale }
}

#[test]
fn numbers_round_and_keep_to_the_range() {
    use ScalarType::{Float4, Float8, Int2, Int4, Int8};
    check(Int8, Int4, &[("5", "5"), ("2147483648", "22003: integer out of range")]);
    check(Int4, Int2, &[("-32768", "-32768"), ("32768", "22003: smallint out of range")]);
    check(Int2, Int8, &[("7", "7")]);
    // Halves go to the even neighbour from floats, and away from zero from numerics.
    check(Float8, Int4, &[("2.5", "2"), ("3.5", "4"), ("-2.5", "-2"), ("2147483647.4", "2147483647")]);
    check(Float8, Int4, &[("2147483647.5", "22003: integer out of range"), ("NaN", "22003: integer out of range")]);
    check(
        Float8,
        Int8,
        &[("9223372036854775808", "22003: bigint out of range"), ("inf", "22003: bigint out of range")],
    );
    check(Float8, Int8, &[("-9223372036854775808", "-9223372036854775808")]);
    check(numeric(5, 1), Int4, &[("2.5", "3"), ("-2.5", "-3"), ("2.4", "2")]);
    check(numeric(38, 0), Int8, &[("99999999999999999999", "22003: bigint out of range")]);
    check(Int4, numeric(5, 2), &[("12", "12.00"), ("1000", "22003: numeric field overflow")]);
    check(
        Int8,
        numeric(38, 38),
        &[("0", "0.00000000000000000000000000000000000000"), ("1", "22003: numeric field overflow")],
    );
    check(numeric(10, 4), numeric(5, 2), &[("1.2350", "1.24"), ("999.9950", "22003: numeric field overflow")]);
    check(
        Float8,
        numeric(38, 20),
        &[("0.1", "0.10000000000000000000"), ("0.30000000000000004", "0.30000000000000000000")],
    );
    check(Float4, numeric(38, 10), &[("0.1", "0.1000000000"), ("1234567", "1234570.0000000000")]);
    check(
        Float8,
        numeric(5, 2),
        &[("NaN", "0A000: numeric NaN is not supported"), ("inf", "22003: numeric field overflow")],
    );
    check(Float8, Float4, &[("0.1", "0.1"), ("1e300", "22003: value out of range: overflow")]);
    check(Float8, Float4, &[("1e-300", "22003: value out of range: underflow"), ("inf", "Infinity"), ("-0", "-0")]);
    check(Float4, Float8, &[("0.1", "0.10000000149011612")]);
    check(Int4, Float4, &[("16777217", "1.6777216e+07")]);
    check(numeric(20, 10), Float8, &[("0.1", "0.1")]);
}

#[test]
fn text_fits_or_is_refused() {
    use ScalarType::{Bool, Date, Int4, Text, Varchar};
    let three = Varchar { length: Some(3) };
    check(Text, three, &[("abc", "abc"), ("ab   ", "ab ")]);
    check(Text, three, &[("abcd", "22001: value too long for type character varying(3)")]);
    check(three, Text, &[("abc", "abc")]);
    check(Int4, Text, &[("42", "42")]);
    check(Int4, three, &[("1234", "22001: value too long for type character varying(3)")]);
    check(Bool, Text, &[("t", "true"), ("f", "false")]);
    check(Date, Text, &[("2020-01-02", "2020-01-02")]);
    check(SqlType::Array(Int4), Text, &[("{1,NULL}", "{1,NULL}")]);
}

#[test]
fn dates_and_times_follow_the_session() {
    use ScalarType::{Date, Interval, Time, Timestamp, Timestamptz};
    check_in("Europe/Berlin", Date, Timestamp, &[("2020-07-01", "2020-07-01 00:00:00")]);
    check_in("Europe/Berlin", Date, Timestamptz, &[("2020-07-01", "2020-07-01 00:00:00+02")]);
    check_in("Europe/Berlin", Timestamp, Timestamptz, &[("2020-03-29 02:30", "2020-03-29 03:30:00+02")]);
    check_in("Europe/Berlin", Timestamptz, Timestamp, &[("2020-07-01 23:00Z", "2020-07-02 01:00:00")]);
    check_in("Europe/Berlin", Timestamptz, Date, &[("2020-07-01 23:00Z", "2020-07-02")]);
    check_in("Europe/Berlin", Timestamptz, Time, &[("2020-07-01 23:00Z", "01:00:00")]);
    check(Timestamp, Date, &[("1969-12-31 23:59:59.5", "1969-12-31")]);
    check(Timestamp, Time, &[("1969-12-31 23:59:59.5", "23:59:59.5")]);
    check(Time, Interval, &[("04:05", "04:05:00")]);
    check(Interval, Time, &[("1 day 04:05", "04:05:00"), ("-1:00", "23:00:00")]);
    let utc = coerce(Value::Date(0), Date.into(), Timestamptz.into());
    assert_eq!(utc, Ok(Value::Timestamp(0)));
}

#[test]
fn json_and_jsonb_are_one_another() {
    use ScalarType::{Json, Jsonb};
    check(Json, Jsonb, &[("{\"b\":1,  \"a\":2}", "{\"a\": 2, \"b\": 1}")]);
    check(Jsonb, Json, &[("{\"b\":1,  \"a\":2}", "{\"a\": 2, \"b\": 1}")]);
}

#[test]
fn arrays_are_converted_element_by_element() {
    let (from, to) = (SqlType::Array(ScalarType::Int8), SqlType::Array(ScalarType::Int4));
    check(from, to, &[("{1,NULL}", "{1,NULL}"), ("{2147483648}", "22003: integer out of range")]);
}

#[test]
fn what_needs_an_explicit_cast_is_refused() {
    use ScalarType::{Bool, Bytea, Date, Int4, Interval, Json, Jsonb, Text, Time, Uuid};
    for (from, input, to) in [
        (Int4, "1", Bool),
        (Bool, "t", Int4),
        (Text, "1", Int4),
        (Text, "2020-01-01", Date),
        (Text, "{}", Jsonb),
        (Text, "x", Bytea),
        (Date, "2020-01-01", Time),
        (Int4, "1", Date),
        (Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", Bytea),
        (Json, "{}", Int4),
    ] {
        let value = parse(from.into(), input, &TextStyle::default()).unwrap();
        let error = coerce(value, from.into(), to.into()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::DatatypeMismatch, "{from} to {to}");
    }
    assert_eq!(coerce(Value::Null, Int4.into(), Interval.into()), Ok(Value::Null));
}

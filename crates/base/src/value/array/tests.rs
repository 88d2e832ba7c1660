//! What PostgreSQL 15 makes of the same inputs.

use crate::value::table::check;
use crate::{ScalarType, SqlType};

#[test]
fn arrays_of_numbers_are_read_and_written() {
    check(
        SqlType::Array(ScalarType::Int4),
        &[
            ("{}", "{}"),
            ("{ }", "{}"),
            (" {1,2} ", "{1,2}"),
            ("{1,NULL,3}", "{1,NULL,3}"),
            ("{1,null}", "{1,NULL}"),
            ("{ 1 , 2 }", "{1,2}"),
            ("{\"1\" , \"2\"}", "{1,2}"),
            ("{1,\"NULL\"}", "22P02: invalid input syntax for type integer: \"NULL\""),
            ("{1,,2}", "22P02: malformed array literal: \"{1,,2}\""),
            ("{1,}", "22P02: malformed array literal: \"{1,}\""),
            ("{,1}", "22P02: malformed array literal: \"{,1}\""),
            ("{", "22P02: malformed array literal: \"{\""),
            ("}", "22P02: malformed array literal: \"}\""),
            ("1,2", "22P02: malformed array literal: \"1,2\""),
            ("", "22P02: malformed array literal: \"\""),
            ("{1,2}x", "22P02: malformed array literal: \"{1,2}x\""),
            ("{1 2}", "22P02: invalid input syntax for type integer: \"1 2\""),
            ("{\"1\"2}", "22P02: malformed array literal: \"{\"1\"2}\""),
            ("{1\"2\"}", "22P02: malformed array literal: \"{1\"2\"}\""),
            ("{1,x}", "22P02: invalid input syntax for type integer: \"x\""),
            ("{1", "22P02: malformed array literal: \"{1\""),
            ("{1,", "22P02: malformed array literal: \"{1,\""),
            ("{\"1", "22P02: malformed array literal: \"{\"1\""),
            ("{1\\", "22P02: malformed array literal: \"{1\\\""),
            ("{99999999999}", "22003: value \"99999999999\" is out of range for type integer"),
            ("{}}", "22P02: malformed array literal: \"{}}\""),
        ],
    );
    check(SqlType::Array(ScalarType::Numeric { precision: 5, scale: 2 }), &[("{1,2.345,NULL}", "{1.00,2.35,NULL}")]);
    check(SqlType::Array(ScalarType::Float8), &[("{1.5,NaN,-0,1e20}", "{1.5,NaN,-0,1e+20}")]);
}

#[test]
fn text_elements_are_quoted_where_they_must_be() {
    check(
        SqlType::Array(ScalarType::Text),
        &[
            ("{a,b}", "{a,b}"),
            ("{\"a b\",c}", "{\"a b\",c}"),
            ("{a b, c d }", "{\"a b\",\"c d\"}"),
            ("{\"\",a}", "{\"\",a}"),
            ("{NULL,\"NULL\",null,nULl}", "{NULL,\"NULL\",NULL,NULL}"),
            ("{\\NULL}", "{\"NULL\"}"),
            ("{a\\ }", "{\"a \"}"),
            ("{\"a\\\"b\",\"c\\\\d\"}", "{\"a\\\"b\",\"c\\\\d\"}"),
            ("{a\\\"b}", "{\"a\\\"b\"}"),
            ("{\"{}\",\"[,]\"}", "{\"{}\",\"[,]\"}"),
            ("{é,\"ü ö\"}", "{é,\"ü ö\"}"),
            ("{\"a\nb\"}", "{\"a\nb\"}"),
            ("{ \t a}", "{a}"),
            ("{\"a\"b}", "22P02: malformed array literal: \"{\"a\"b}\""),
            ("{a\"b\"}", "22P02: malformed array literal: \"{a\"b\"}\""),
            ("{a{b}", "22P02: malformed array literal: \"{a{b}\""),
            ("{a\\,b}", "{\"a,b\"}"),
            ("{'a'}", "{'a'}"),
            ("{(1,2)}", "{(1,2)}"),
        ],
    );
    check(SqlType::Array(ScalarType::Bytea), &[("{\"\\\\x00ff\",\"\\\\x\"}", "{\"\\\\x00ff\",\"\\\\x\"}")]);
    check(
        SqlType::Array(ScalarType::Timestamp),
        &[("{2020-01-01,\"2020-01-01 04:05\"}", "{\"2020-01-01 00:00:00\",\"2020-01-01 04:05:00\"}")],
    );
    check(
        SqlType::Array(ScalarType::Jsonb),
        &[("{\"{\\\"a\\\": 1}\",NULL,\"[1,2]\"}", "{\"{\\\"a\\\": 1}\",NULL,\"[1, 2]\"}")],
    );
}

#[test]
fn what_a_value_cannot_hold_is_refused() {
    check(
        SqlType::Array(ScalarType::Int4),
        &[
            ("{{1,2},{3,4}}", "0A000: multi-dimensional arrays are not supported"),
            ("[0:1]={1,2}", "0A000: arrays with explicit bounds are not supported"),
        ],
    );
}

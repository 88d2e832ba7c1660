//! What PostgreSQL 15 makes of the same inputs.

use crate::ScalarType;
use crate::value::table::check;

#[test]
fn doubles_print_their_shortest_digits() {
    check(
        ScalarType::Float8,
        &[
            ("0", "0"),
            ("-0", "-0"),
            ("1", "1"),
            ("1.5", "1.5"),
            ("999999999999999", "999999999999999"),
            ("1e15", "1e+15"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("NaN", "NaN"),
            ("-nan", "NaN"),
            ("Infinity", "Infinity"),
            ("-inf", "-Infinity"),
            ("+infinity", "Infinity"),
            ("infinit", "22P02: invalid input syntax for type double precision: \"infinit\""),
            ("1e23", "9.999999999999999e+22"),
            ("9007199254740993", "9.007199254740992e+15"),
            ("18014398509481984", "1.8014398509481984e+16"),
            ("5e-324", "5e-324"),
            ("2e-324", "22003: \"2e-324\" is out of range for type double precision"),
            ("2.2250738585072014e-308", "2.2250738585072014e-308"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("1.7976931348623159e308", "22003: \"1.7976931348623159e308\" is out of range for type double precision"),
            ("1e400", "22003: \"1e400\" is out of range for type double precision"),
            ("-1e400", "22003: \"-1e400\" is out of range for type double precision"),
            ("1e-400", "22003: \"1e-400\" is out of range for type double precision"),
            ("0e999", "0"),
            ("0.0e-999", "0"),
            (".5", "0.5"),
            ("5.", "5"),
            (".", "22P02: invalid input syntax for type double precision: \".\""),
            ("e5", "22P02: invalid input syntax for type double precision: \"e5\""),
            ("1e", "22P02: invalid input syntax for type double precision: \"1e\""),
            ("", "22P02: invalid input syntax for type double precision: \"\""),
            ("  1.5  ", "1.5"),
            ("1.5x", "22P02: invalid input syntax for type double precision: \"1.5x\""),
            ("4.35", "4.35"),
            ("123456789.125", "123456789.125"),
            ("1223383794756801.2", "1.2233837947568012e+15"),
            ("869091177924752.2", "869091177924752.2"),
            ("2.9802322387695312e-08", "2.9802322387695312e-08"),
            ("9.5367431640625e-07", "9.5367431640625e-07"),
            ("16832073958751.062", "16832073958751.062"),
        ],
    );
}

#[test]
fn reals_print_their_shortest_digits() {
    check(
        ScalarType::Float4,
        &[
            ("0", "0"),
            ("-0", "-0"),
            ("1.5", "1.5"),
            ("123456", "123456"),
            ("1234567", "1.234567e+06"),
            ("1e6", "1e+06"),
            ("1e5", "100000"),
            ("0.1", "0.1"),
            ("16777216", "1.6777216e+07"),
            ("33554432", "3.3554432e+07"),
            ("8388608", "8.388608e+06"),
            ("3.4028235e38", "3.4028235e+38"),
            ("3.4028236e38", "22003: \"3.4028236e38\" is out of range for type real"),
            ("1e-45", "1e-45"),
            ("7e-46", "22003: \"7e-46\" is out of range for type real"),
            ("1e-46", "22003: \"1e-46\" is out of range for type real"),
            ("1.17549435e-38", "1.1754944e-38"),
            ("-2854276.25", "-2.8542762e+06"),
            ("0.000244140625", "0.00024414062"),
            ("0.00001", "1e-05"),
            ("1e50", "22003: \"1e50\" is out of range for type real"),
            ("x", "22P02: invalid input syntax for type real: \"x\""),
            ("NaN", "NaN"),
        ],
    );
}

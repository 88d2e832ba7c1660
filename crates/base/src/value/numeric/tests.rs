//! What PostgreSQL 15 makes of the same inputs.

use crate::ScalarType;
use crate::value::table::check;

use super::*;

const fn numeric(precision: u8, scale: u8) -> ScalarType {
    ScalarType::Numeric { precision, scale }
}

#[test]
fn numerics_round_half_away_from_zero_and_keep_their_precision() {
    check(
        numeric(5, 2),
        &[
            ("0", "0.00"),
            ("-0", "0.00"),
            ("1", "1.00"),
            ("1.5", "1.50"),
            ("-1.5", "-1.50"),
            ("1.005", "1.01"),
            ("1.004", "1.00"),
            ("-1.005", "-1.01"),
            ("999.99", "999.99"),
            ("999.994", "999.99"),
            ("999.995", "22003: numeric field overflow"),
            ("-999.995", "22003: numeric field overflow"),
            ("1000", "22003: numeric field overflow"),
            ("1e2", "100.00"),
            ("1e3", "22003: numeric field overflow"),
            ("1e-2", "0.01"),
            ("5e-3", "0.01"),
            ("4.9e-3", "0.00"),
            (".5", "0.50"),
            ("5.", "5.00"),
            (".", "22P02: invalid input syntax for type numeric: \".\""),
            ("", "22P02: invalid input syntax for type numeric: \"\""),
            ("1e", "22P02: invalid input syntax for type numeric: \"1e\""),
            ("1e+2", "100.00"),
            ("1e131072", "22003: value overflows numeric format"),
            ("1e1000000", "22003: value overflows numeric format"),
            ("1e-1000000", "22003: value overflows numeric format"),
            ("0e1000000", "0.00"),
            ("Infinity", "22003: numeric field overflow"),
            ("-inf", "22003: numeric field overflow"),
            ("+inf", "22003: numeric field overflow"),
            (" 12 ", "12.00"),
            ("12x", "22P02: invalid input syntax for type numeric: \"12x\""),
            ("1 2", "22P02: invalid input syntax for type numeric: \"1 2\""),
            ("--5", "22P02: invalid input syntax for type numeric: \"--5\""),
            ("00012.3400", "12.34"),
            ("1_0", "22P02: invalid input syntax for type numeric: \"1_0\""),
        ],
    );
    check(
        numeric(38, 0),
        &[
            ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
            ("-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"),
            ("99999999999999999999999999999999999999.4", "99999999999999999999999999999999999999"),
            ("99999999999999999999999999999999999999.5", "22003: numeric field overflow"),
            ("999999999999999999999999999999999999999", "22003: numeric field overflow"),
        ],
    );
    check(
        numeric(38, 38),
        &[
            ("0.99999999999999999999999999999999999999", "0.99999999999999999999999999999999999999"),
            ("-0.00000000000000000000000000000000000001", "-0.00000000000000000000000000000000000001"),
            ("0.999999999999999999999999999999999999995", "22003: numeric field overflow"),
            ("0.000000000000000000000000000000000000005", "0.00000000000000000000000000000000000001"),
            ("1", "22003: numeric field overflow"),
        ],
    );
    check(
        numeric(3, 3),
        &[
            ("0.1", "0.100"),
            ("0.9995", "22003: numeric field overflow"),
            ("-0.0005", "-0.001"),
            ("0.0004", "0.000"),
            ("1", "22003: numeric field overflow"),
        ],
    );
}

#[test]
fn an_overflow_names_the_limit() {
    let detail = |text, precision, scale| parse(text, precision, scale).unwrap_err().fields().detail.clone().unwrap();
    assert_eq!(
        detail("1000", 5, 2),
        "A field with precision 5, scale 2 must round to an absolute value less than 10^3."
    );
    assert_eq!(detail("1", 3, 3), "A field with precision 3, scale 3 must round to an absolute value less than 1.");
    assert_eq!(detail("inf", 5, 2), "A field with precision 5, scale 2 cannot hold an infinite value.");
}

#[test]
fn nan_is_refused() {
    check(numeric(5, 2), &[("NaN", "0A000: numeric NaN is not supported")]);
}

#[test]
fn a_change_of_scale_rounds() {
    assert_eq!(rescale(12345, 2, 10, 1), Ok(1235));
    assert_eq!(rescale(-12345, 2, 10, 1), Ok(-1235));
    assert_eq!(rescale(12344, 2, 10, 1), Ok(1234));
    assert_eq!(rescale(1, 0, 38, 37), Ok(10i128.pow(37)));
    assert!(rescale(1, 0, 38, 38).is_err());
    assert!(rescale(i128::MAX, 0, 38, 38).is_err());
    assert_eq!(rescale(10i128.pow(38) - 1, 38, 1, 0), Ok(1));
}

//! The binary format.

use super::{check_error, check_rows, decode_all};
use crate::copy::{DecodeError, Format, Options};

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

fn binary() -> Options {
    Options::new(Format::Binary)
}

fn with_header(rows: &[u8]) -> Vec<u8> {
    [HEADER, rows].concat()
}

#[test]
fn rows_decode() {
    let rows = b"\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x02\0\0\0\0\0\0\0\x01\x00\xff\xff";
    check_rows(&binary(), 2, &with_header(rows), "ab|~\n|\\x00");
    check_rows(&binary(), 2, &with_header(b"\xff\xff"), "");
    check_rows(&binary(), 0, &with_header(b"\0\0\0\0\xff\xff"), "\n");
    // The end of the data in place of the trailer.
    check_rows(&binary(), 1, &with_header(b"\0\x01\0\0\0\x01x"), "x");
    check_rows(&binary(), 1, HEADER, "");
}

#[test]
fn the_header_may_have_an_extension_and_harmless_flags() {
    let data = b"PGCOPY\n\xff\r\n\0\0\0\xff\xff\0\0\0\x03xyz\0\x01\0\0\0\x01a\xff\xff";
    check_rows(&binary(), 1, data, "a");
}

#[test]
fn wrong_headers_are_refused() {
    let signature = "COPY file signature not recognized";
    for data in [b"".as_slice(), b"1\t2\n", b"PGCOPY\n", b"PGCOPY\n\xff\n\0\0\0\0\0\0\0\0\0\0"] {
        check_error(&binary(), 1, data, 0, signature, None);
    }
    for (rest, text) in [
        (b"".as_slice(), "invalid COPY file header (missing flags)"),
        (b"\0\0\0", "invalid COPY file header (missing flags)"),
        (b"\0\x01\0\0\0\0\0\0", "invalid COPY file header (WITH OIDS)"),
        (b"\x80\0\0\0\0\0\0\0", "unrecognized critical flags in COPY file header"),
        (b"\0\0\0\0\0\0", "invalid COPY file header (missing length)"),
        (b"\0\0\0\0\xff\xff\xff\xff", "invalid COPY file header (missing length)"),
        (b"\0\0\0\0\0\0\0\x05abcd", "invalid COPY file header (wrong length)"),
    ] {
        check_error(&binary(), 1, &[&HEADER[..11], rest].concat(), 0, text, None);
    }
}

#[test]
fn wrong_rows_are_refused() {
    let good = b"\0\x01\0\0\0\x01x";
    for (rest, text) in [
        (b"\0\x02\0\0\0\x01".as_slice(), "row field count is 2, expected 1"),
        (b"\xff\xfe", "row field count is -2, expected 1"),
        (b"\0\x01\xff\xff\xff\xfe", "invalid field size"),
        (b"\0\x01\x80\0\0\0", "invalid field size"),
        (b"\0", "unexpected EOF in COPY data"),
        (b"\0\x01", "unexpected EOF in COPY data"),
        (b"\0\x01\0\0\0", "unexpected EOF in COPY data"),
        (b"\0\x01\0\0\0\x02x", "unexpected EOF in COPY data"),
    ] {
        check_error(&binary(), 1, &with_header(&[good, rest].concat()), 1, text, Some(2));
    }
    check_error(&binary(), 1, &with_header(b"\xff\xff\0"), 0, "received copy data after EOF marker", None);
}

#[test]
fn a_claimed_length_above_the_limit_is_refused_at_once() {
    let (rows, error) = decode_all(&binary(), 1, 1000, &[&with_header(b"\0\x01\x40\0\0\0")]);
    assert_eq!(rows.len(), 0);
    assert_eq!(error, Some(DecodeError::RowTooLong { limit_bytes: 1000, line: 1 }));
}

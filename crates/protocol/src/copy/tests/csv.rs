//! The csv format.

use super::{check_error, check_rows, decode_all};
use crate::copy::{Format, Header, Options};

fn csv() -> Options {
    Options::new(Format::Csv)
}

#[test]
fn fields_and_nulls_decode() {
    check_rows(&csv(), 3, b"1,ab,\n,,\"\"\n", "1|ab|~\n~|~|");
    check_rows(&csv(), 2, b"a,b", "a|b");
    check_rows(&csv(), 1, b"\n\"\"\n", "~\n");
    check_rows(&csv(), 2, b" a , \" b \" \n", " a |  b  ");
    let options = Options { null: b"NULL".to_vec(), ..csv() };
    check_rows(&options, 3, b"NULL,\"NULL\",\n", "~|NULL|");
    let options = Options { delimiter: b';', quote: b'\'', escape: b'\'', ..csv() };
    check_rows(&options, 3, b"a,b;'it''s';\"\n", "a,b|it\\'s|\\\"");
    check_rows(&csv(), 0, b"\n", "");
}

#[test]
fn quotes_hide_delimiters_line_ends_and_quotes() {
    check_rows(&csv(), 2, b"\"a,b\",\"c\nd\"\n\"e\"\"f\",\"\"\"\"\n", "a,b|c\\nd\ne\\\"f|\\\"");
    check_rows(&csv(), 2, b"a\"b,c\"d,\"\"\n", "ab,cd|");
    check_rows(&csv(), 2, b"\"a\"b\"c\",x\n", "abc|x");
    check_rows(&csv(), 1, b"\"a\r\nb\"\r\n\"c\nd\re\"\r\n", "a\\r\\nb\nc\\nd\\re");
}

#[test]
fn the_escape_may_differ_from_the_quote() {
    let options = Options { escape: b'\\', ..csv() };
    check_rows(&options, 2, b"\"a\\\"b\",\"c\\\\\"\n", "a\\\"b|c\\\\");
    check_rows(&options, 2, b"\"a\\b\",c\\d\n", "a\\\\b|c\\\\d");
    check_rows(&options, 1, b"\"a\\\"\nb\"\n", "a\\\"\\nb");
    check_rows(&options, 1, b"\"a\"\"b\"\n", "ab");
}

#[test]
fn backslashes_mean_nothing() {
    check_rows(&csv(), 1, b"a\\nb\nc\n\\N\n", "a\\\\nb\nc\n\\\\N");
}

#[test]
fn a_lone_backslash_and_dot_end_the_data_as_up_to_postgresql_17() {
    check_rows(&csv(), 1, b"a\n\\.\nb\n\"", "a");
    check_rows(&csv(), 1, b"a\r\n\\.\r\nb\r\n", "a");
    check_rows(&csv(), 1, b"a\r\\.\rb\r", "a");
    check_rows(&csv(), 2, b"\\.\n", "");
    // Not alone on the line, in quotes, or without a line end, they are data.
    check_rows(&csv(), 1, b"\\.b\nb\\.\n \\.\n", "\\\\.b\nb\\\\.\n \\\\.");
    check_rows(&csv(), 1, b"\"\\.\"\n\"a\n\\.\nb\"\n", "\\\\.\na\\n\\\\.\\nb");
    check_rows(&csv(), 2, b"\\.,x\n", "\\\\.|x");
    check_rows(&csv(), 1, b"a\n\\.", "a\n\\\\.");
    let style = "end-of-copy marker does not match previous newline style";
    check_error(&csv(), 1, b"a\n\\.\r\n", 1, style, Some(2));
    check_rows(&csv(), 1, b"a\r\nb\\.\r\n", "a\nb\\\\.");
}

#[test]
fn line_ends_are_those_of_the_first_line() {
    check_rows(&csv(), 2, b"a,b\r\nc,d\r\n", "a|b\nc|d");
    check_rows(&csv(), 2, b"a,b\rc,d", "a|b\nc|d");
    check_error(&csv(), 1, b"a\nb\r\n", 1, "unquoted carriage return found in data", Some(2));
    check_error(&csv(), 1, b"a\r\nb\n", 1, "unquoted newline found in data", Some(2));
}

#[test]
fn wrong_rows_are_refused_with_their_last_line() {
    check_error(&csv(), 2, b"a,b\n\"x\ny\"\n", 1, "missing data for column \"c2\"", Some(3));
    check_error(&csv(), 1, b"a\nb,\n", 1, "extra data after last expected column", Some(2));
    check_error(&csv(), 1, b"a\n\"b\nc\n", 1, "unterminated CSV quoted field", Some(4));
    let no_text = "invalid byte sequence for encoding \"UTF8\": 0xff";
    check_error(&csv(), 1, b"a\n\"b\xff\n", 1, no_text, Some(3));
    check_error(&csv(), 1, b"\"", 0, "unterminated CSV quoted field", Some(1));
}

#[test]
fn the_header_is_skipped_or_matched() {
    let options = Options { header: Header::Present, ..csv() };
    check_rows(&options, 2, b"\"two\nlines\",x\na,b\n", "a|b");
    let options = Options { header: Header::Match, ..csv() };
    check_rows(&options, 2, b"c1,\"c2\"\na,b\n", "a|b");
    let text = "column name mismatch in header line field 2: got null value (\"\"), expected \"c2\"";
    check_error(&options, 2, b"c1,\n", 0, text, Some(1));
    let text = "wrong number of fields in header line: got 1, expected 2";
    check_error(&options, 2, b"\"c1\r\nc2\"\n", 0, text, Some(2));
}

#[test]
fn lines_count_newlines_inside_of_quotes() {
    let (rows, error) = decode_all(&csv(), 1, 100, &[b"a\n\"b\n\nc\"\nd\n"]);
    assert_eq!(error, None);
    assert_eq!(rows.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 4, 5]);
}

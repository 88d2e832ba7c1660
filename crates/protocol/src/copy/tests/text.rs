//! The text format.

use ashlar_base::{Error, ErrorCode};

use super::{check_error, check_rows, decode_all, names, show};
use crate::copy::{Format, Header, Options, RowDecoder};

fn text() -> Options {
    Options::new(Format::Text)
}

#[test]
fn fields_and_nulls_decode() {
    check_rows(&text(), 3, b"1\tab\t\\N\n\t\t\n", "1|ab|~\n||");
    check_rows(&text(), 1, b"a\n\n\\N\n", "a\n\n~");
    check_rows(&text(), 1, b"no end", "no end");
    check_rows(&text(), 1, b"", "");
    check_rows(&text(), 1, "ä€😀\n".as_bytes(), "\\xc3\\xa4\\xe2\\x82\\xac\\xf0\\x9f\\x98\\x80");
    check_rows(&text(), 0, b"\n\n", "\n");
}

#[test]
fn null_is_what_was_sent_not_what_it_means() {
    check_rows(&text(), 3, b"\\\\N\t\\N\tN\n", "\\\\N|~|N");
    // \N beside anything else is the letter.
    check_rows(&text(), 2, b"\\Nx\tx\\N\n", "Nx|xN");
    let options = Options { null: b"n/a".to_vec(), ..text() };
    check_rows(&options, 3, b"n/a\tn\\/a\t\\N\n", "~|n/a|N");
    let options = Options { null: b"".to_vec(), ..text() };
    check_rows(&options, 2, b"\t\\N\n", "~|N");
}

#[test]
fn escapes_decode() {
    check_rows(&text(), 1, b"\\b\\f\\n\\r\\t\\v\\\\\\q\n", "\\x08\\x0c\\n\\r\\t\\x0b\\\\q");
    check_rows(&text(), 1, b"\\101\\60\\0603\\7z\\777\\8\n", "A003\\x07z\\xff8");
    check_rows(&text(), 1, b"\\x41\\x4a4\\xag\\xzz\\x\n", "AJ4\\ngxzzx");
    check_rows(&text(), 2, b"a\\\tb\tc\n", "a\\tb|c");
    check_rows(&text(), 1, b"a\\\nb\n", "a\\nb");
    check_rows(&text(), 1, b"a\\", "a");
    check_rows(&text(), 1, b"\\N\\", "~");
    check_rows(&text(), 2, b"a\\\\\tb\n", "a\\\\|b");
}

#[test]
fn delimiters_are_any_byte() {
    let options = Options { delimiter: b'|', ..text() };
    check_rows(&options, 3, b"a\t|\\||\\N\n", "a\\t|||~");
    let options = Options { delimiter: 1, ..text() };
    check_rows(&options, 2, b"a\x01b\n", "a|b");
}

#[test]
fn line_ends_are_those_of_the_first_line() {
    check_rows(&text(), 2, b"a\tb\r\nc\t\\N\r\n", "a|b\nc|~");
    check_rows(&text(), 2, b"a\tb\rc\td\r", "a|b\nc|d");
    check_rows(&text(), 1, b"a\r", "a");
    check_error(&text(), 1, b"a\nb\r\n", 1, "literal carriage return found in data", Some(2));
    check_error(&text(), 1, b"a\r\nb\rc", 1, "literal carriage return found in data", Some(2));
    check_error(&text(), 1, b"a\r\nb\n", 1, "literal newline found in data", Some(2));
    check_error(&text(), 1, b"a\rb\n", 1, "literal newline found in data", Some(2));
}

#[test]
fn data_ends_at_the_marker() {
    check_rows(&text(), 1, b"a\n\\.\nwhatever\t\t\\.\r", "a");
    check_rows(&text(), 1, b"a\r\n\\.\r\nb\r\n", "a");
    check_rows(&text(), 1, b"a\r\\.\rb\r", "a");
    check_rows(&text(), 1, b"\\.\n", "");
    check_rows(&text(), 1, b"\\\\.\n", "\\\\.");
    let alone = "end-of-copy marker is not alone on its line";
    check_error(&text(), 1, b"a\n\\.b\n", 1, alone, Some(2));
    check_error(&text(), 1, b"a\nb\\.\n", 1, alone, Some(2));
    check_error(&text(), 1, b"a\n\\.", 1, alone, Some(2));
    check_error(&text(), 1, b"a\r\n\\.x", 1, alone, Some(2));
    let style = "end-of-copy marker does not match previous newline style";
    check_error(&text(), 1, b"a\n\\.\r\n", 1, style, Some(2));
    check_error(&text(), 1, b"a\r\n\\.\n", 1, style, Some(2));
    check_error(&text(), 1, b"a\r\\.\n", 1, style, Some(2));
}

#[test]
fn rows_have_as_many_fields_as_columns() {
    check_error(&text(), 3, b"1\t2\t3\n1\t2\n", 1, "missing data for column \"c3\"", Some(2));
    check_error(&text(), 2, b"\n", 0, "missing data for column \"c2\"", Some(1));
    check_error(&text(), 2, b"1\t2\t\n", 0, "extra data after last expected column", Some(1));
    check_error(&text(), 0, b"\na\n", 1, "extra data after last expected column", Some(2));
}

#[test]
fn the_header_is_skipped_or_matched() {
    let options = Options { header: Header::Present, ..text() };
    check_rows(&options, 2, b"whatever\na\tb\n", "a|b");
    let options = Options { header: Header::Match, ..text() };
    check_rows(&options, 2, b"c1\t\\x632\na\tb\n", "a|b");
    let text = "wrong number of fields in header line: got 4, expected 2";
    check_error(&options, 2, b"c1\tc2\t\t\n", 0, text, Some(1));
    let text = "wrong number of fields in header line: got 1, expected 2";
    check_error(&options, 2, b"c1\n", 0, text, Some(1));
    check_error(&options, 2, b"", 0, text, Some(1));
    check_error(&options, 2, b"\\.\n", 0, text, Some(1));
    let text = "column name mismatch in header line field 2: got \"C2\", expected \"c2\"";
    check_error(&options, 2, b"c1\tC2\n", 0, text, Some(1));
    let text = "column name mismatch in header line field 1: got null value (\"\\N\"), expected \"c1\"";
    check_error(&options, 2, b"\\N\tc2\n", 0, text, Some(1));
}

#[test]
fn a_row_beyond_the_limit_is_refused_before_it_ends() {
    let pieces: Vec<&[u8]> = vec![b"1234\n", b"12345678", b"9"];
    let (rows, error) = decode_all(&text(), 1, 8, &pieces);
    assert_eq!(show(&rows), "1234");
    let error = Error::from(error.unwrap());
    assert_eq!(error.code(), ErrorCode::ProgramLimitExceeded);
    assert_eq!(error.message(), "COPY row exceeds the limit of 8 bytes");
    assert_eq!(error.fields().detail.as_deref(), Some("line 2 of the COPY data"));
    assert_eq!(decode_all(&text(), 1, 8, &[b"12345678\n"]).1, None);
}

#[test]
fn errors_carry_line_and_hint() {
    let mut decoder = RowDecoder::new(text(), names(1), 100);
    decoder.push(b"a\nb\r\n");
    assert_eq!(decoder.next_row().unwrap().unwrap().get(0), Some(b"a".as_slice()));
    let error = Error::from(decoder.next_row().unwrap_err());
    assert_eq!(format!("{error:?}"), "22P04 literal carriage return found in data");
    assert_eq!(error.fields().hint.as_deref(), Some("Use \"\\r\" to represent carriage return."));
    assert_eq!(error.fields().detail.as_deref(), Some("line 2 of the COPY data"));
}

#[test]
fn what_is_no_text_is_told_of_before_what_else_is_wrong() {
    let no_text = "invalid byte sequence for encoding \"UTF8\": 0xff";
    // A field too few and one too many, as sent and behind a backslash.
    check_error(&text(), 2, b"a\tb\n\xff\n", 1, no_text, Some(2));
    check_error(&text(), 1, b"a\n\xff\tb\n", 1, no_text, Some(2));
    check_error(&text(), 1, b"a\tb\xff\n", 0, no_text, Some(1));
    check_error(&text(), 1, b"\\xff\tb\n", 0, no_text, Some(1));
    // Line ends and markers count from where they are.
    check_error(&text(), 1, b"a\n\xffb\r\n", 1, no_text, Some(2));
    check_error(&text(), 1, b"a\n\xff\\.\n", 1, no_text, Some(2));
    check_error(&text(), 1, b"a\nb\rc\xff\n", 1, "literal carriage return found in data", Some(2));
    for header in [Header::Present, Header::Match] {
        check_error(&Options { header, ..text() }, 1, b"\xff\nv\n", 0, no_text, Some(1));
    }
    // Whoever reads fields asks where one is wrong.
    let mut decoder = RowDecoder::new(text(), names(2), 100);
    decoder.push(b"1\t\xff\n1\t\\xff\n1\t2\n");
    for expected in [Some(no_text), Some(no_text), None] {
        let row = decoder.next_row().unwrap().unwrap();
        assert_eq!(row.check_text().err().map(|error| error.to_string()).as_deref(), expected);
    }
}

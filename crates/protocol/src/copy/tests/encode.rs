//! Rows as bytes.

use crate::copy::{ForceQuote, Format, Header, Options, RowEncoder};

fn encode(options: &Options, rows: &[&[Option<&[u8]>]]) -> Vec<u8> {
    let columns = rows[0].len();
    let names = super::names(columns);
    let mut encoder = RowEncoder::new(options.clone(), columns);
    let mut out = b"before".to_vec();
    encoder.start(names.iter().map(String::as_str), &mut out);
    for row in rows {
        encoder.begin_row(&mut out);
        for field in *row {
            match field {
                None => encoder.null(&mut out),
                Some(value) => encoder.value(&mut out, |out| out.extend_from_slice(value)),
            }
        }
        encoder.end_row(&mut out);
    }
    encoder.finish(&mut out);
    out.split_off(6)
}

fn check(options: &Options, rows: &[&[Option<&[u8]>]], expected: &str) {
    assert_eq!(encode(options, rows).escape_ascii().to_string(), expected);
}

#[test]
fn text_rows_have_their_bytes() {
    let text = Options::new(Format::Text);
    check(
        &text,
        &[&[Some(b"1"), None, Some(b"")], &[Some(b"a b"), Some(b"\\N"), Some(b".")]],
        "1\\t\\\\N\\t\\na b\\t\\\\\\\\N\\t.\\n",
    );
    check(
        &text,
        &[&[Some(b"\x08\x0c\n\r\t\x0b\\"), Some(b"\x01\x7f|\"")]],
        "\\\\b\\\\f\\\\n\\\\r\\\\t\\\\v\\\\\\\\\\t\\x01\\x7f|\\\"\\n",
    );
    let options = Options { delimiter: b'|', null: b"".to_vec(), header: Header::Present, ..text };
    check(&options, &[&[Some(b"a|b\t"), None]], "c1|c2\\na\\\\|b\\\\t|\\n");
}

#[test]
fn csv_rows_have_their_bytes() {
    let csv = Options::new(Format::Csv);
    check(&csv, &[&[Some(b"1"), None, Some(b"")]], "1,,\\\"\\\"\\n");
    check(
        &csv,
        &[&[Some(b"a,b"), Some(b"c\"d"), Some(b"e\nf"), Some(b"g\rh"), Some(b" i\\."), Some(b"\\.")]],
        "\\\"a,b\\\",\\\"c\\\"\\\"d\\\",\\\"e\\nf\\\",\\\"g\\rh\\\", i\\\\.,\\\\.\\n",
    );
    check(&csv, &[&[Some(b"\\.")]], "\\\"\\\\.\\\"\\n");
    let options = Options { escape: b'\\', null: b"N".to_vec(), ..csv.clone() };
    check(
        &options,
        &[&[Some(b"a\\\"b"), Some(b"N"), None, Some(b"a\\b")]],
        "\\\"a\\\\\\\\\\\\\\\"b\\\",\\\"N\\\",N,a\\\\b\\n",
    );
    let options = Options { header: Header::Present, force_quote: ForceQuote::All, ..csv.clone() };
    check(&options, &[&[Some(b"a"), None]], "c1,c2\\n\\\"a\\\",\\n");
    let options = Options { force_quote: ForceQuote::Columns(vec![false, true]), ..csv };
    check(&options, &[&[Some(b"a"), Some(b"b")]], "a,\\\"b\\\"\\n");
}

#[test]
fn binary_rows_have_their_bytes() {
    check(
        &Options::new(Format::Binary),
        &[&[Some(b"ab"), None, Some(b"")]],
        "PGCOPY\\n\\xff\\r\\n\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\
         \\x00\\x03\\x00\\x00\\x00\\x02ab\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00\\xff\\xff",
    );
}

#[test]
#[should_panic(expected = "as many values as columns")]
fn a_row_short_of_a_value_is_never_sent() {
    let mut encoder = RowEncoder::new(Options::new(Format::Text), 2);
    let mut out = Vec::new();
    encoder.begin_row(&mut out);
    encoder.null(&mut out);
    encoder.end_row(&mut out);
}

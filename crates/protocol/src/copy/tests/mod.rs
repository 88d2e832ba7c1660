//! Tests of the rows of COPY: bytes against rows, both ways. What is right was asked of a real PostgreSQL.

mod binary;
mod csv;
mod encode;
mod properties;
mod text;

use super::{DecodeError, Format, Options, RowDecoder};

/// A row, owned.
type Fields = Vec<Option<Vec<u8>>>;

fn names(columns: usize) -> Vec<String> {
    (1..=columns).map(|column| format!("c{column}")).collect()
}

/// The rows of data that arrives in these pieces, and the error that ended it.
fn decode_all(
    options: &Options,
    columns: usize,
    row_bytes_max: usize,
    pieces: &[&[u8]],
) -> (Vec<(u64, Fields)>, Option<DecodeError>) {
    let mut decoder = RowDecoder::new(options.clone(), names(columns), row_bytes_max);
    let mut rows = Vec::new();
    for piece in pieces.iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => decoder.push(piece),
            None => decoder.finish(),
        }
        loop {
            match decoder.next_row() {
                Ok(Some(row)) => {
                    assert_eq!(row.len(), columns);
                    rows.push((row.line(), row.iter().map(|field| field.map(<[u8]>::to_vec)).collect()));
                }
                Ok(None) => break,
                Err(error) => return (rows, Some(error)),
            }
        }
    }
    (rows, None)
}

/// Rows as text: fields between bars, `~` for NULL.
fn show(rows: &[(u64, Fields)]) -> String {
    let field = |field: &Option<Vec<u8>>| match field {
        None => "~".to_owned(),
        Some(bytes) => bytes.escape_ascii().to_string(),
    };
    let row = |(_, fields): &(u64, Fields)| fields.iter().map(field).collect::<Vec<_>>().join("|");
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// Decodes data whole and byte by byte, and compares the rows.
fn check_rows(options: &Options, columns: usize, data: &[u8], expected: &str) {
    let (rows, error) = decode_all(options, columns, 1 << 20, &[data]);
    assert_eq!(error, None, "{}", data.escape_ascii());
    assert_eq!(show(&rows), expected, "{}", data.escape_ascii());
    assert_eq!(decode_all(options, columns, 1 << 20, &data.chunks(1).collect::<Vec<_>>()), (rows, None));
}

/// Decodes data whole and byte by byte: good rows, then an error.
fn check_error(options: &Options, columns: usize, data: &[u8], good_rows: usize, text: &str, line: Option<u64>) {
    let whole = decode_all(options, columns, 1 << 20, &[data]);
    let (rows, error) = &whole;
    let error = error.as_ref().unwrap_or_else(|| panic!("{} is accepted: {}", data.escape_ascii(), show(rows)));
    assert_eq!((rows.len(), error.to_string().as_str(), error.line()), (good_rows, text, line));
    assert_eq!(decode_all(options, columns, 1 << 20, &data.chunks(1).collect::<Vec<_>>()), whole);
}

#[test]
fn options_that_make_rows_ambiguous_are_refused() {
    let check = |options: Options, expected: &str| {
        let error = options.check().unwrap_err();
        assert_eq!(format!("{error:?}"), expected);
    };
    let (text, csv) = (Options::new(Format::Text), Options::new(Format::Csv));
    for format in [Format::Text, Format::Csv, Format::Binary] {
        assert_eq!(Options::new(format).check(), Ok(()));
    }
    check(Options { delimiter: b'\n', ..text.clone() }, "22023 COPY delimiter cannot be newline or carriage return");
    check(
        Options { null: b"a\r".to_vec(), ..csv.clone() },
        "22023 COPY null representation cannot use newline or carriage return",
    );
    check(Options { delimiter: b'n', ..text.clone() }, "22023 COPY delimiter cannot be \"n\"");
    check(Options { delimiter: b'\\', ..text.clone() }, "22023 COPY delimiter cannot be \"\\\"");
    assert_eq!(Options { delimiter: b'n', ..csv.clone() }.check(), Ok(()));
    check(Options { delimiter: b'"', ..csv.clone() }, "22023 COPY delimiter and quote must be different");
    check(
        Options { null: b"a,b".to_vec(), ..csv.clone() },
        "22023 COPY delimiter character must not appear in the NULL specification",
    );
    check(
        Options { null: b"\"".to_vec(), ..csv },
        "22023 CSV quote character must not appear in the NULL specification",
    );
    check(
        Options { header: super::Header::Present, ..Options::new(Format::Binary) },
        "0A000 cannot specify HEADER in BINARY mode",
    );
}

//! Any data of COPY FROM STDIN, whole and byte by byte; and rows that were read, written and read again.
//!
//! The first byte chooses format and options, the second the number of columns, the rest is the data.

#![no_main]

use ashlar_protocol::copy::{DecodeError, Format, Header, Options, RowDecoder, RowEncoder};
use libfuzzer_sys::fuzz_target;

const ROW_BYTES_MAX: usize = 1 << 12;

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn options(choice: u8) -> Options {
    let format = [Format::Text, Format::Csv, Format::Binary][usize::from(choice % 3)];
    let mut options = Options::new(format);
    if format == Format::Binary {
        return options;
    }
    if choice & 0x10 != 0 {
        options.delimiter = b'|';
    }
    if choice & 0x20 != 0 {
        (options.quote, options.escape) = (b'\'', b'\\');
    }
    if choice & 0x40 != 0 {
        options.header = Header::Present;
    } else if choice & 0x80 != 0 {
        options.header = Header::Match;
    }
    options
}

fn names(columns: usize) -> Vec<String> {
    (0..columns).map(|column| format!("c{column}")).collect()
}

fn rows(options: &Options, columns: usize, data: &[u8], piece_bytes: usize) -> (Rows, Option<DecodeError>) {
    let mut decoder = RowDecoder::new(options.clone(), names(columns), ROW_BYTES_MAX);
    let mut rows = Vec::new();
    for piece in data.chunks(piece_bytes).map(Some).chain([None]) {
        match piece {
            Some(piece) => decoder.push(piece),
            None => decoder.finish(),
        }
        loop {
            match decoder.next_row() {
                Ok(Some(row)) => rows.push(row.iter().map(|field| field.map(<[u8]>::to_vec)).collect()),
                Ok(None) => break,
                Err(error) => return (rows, Some(error)),
            }
        }
    }
    (rows, None)
}

fn written(options: &Options, columns: usize, rows: &Rows) -> Vec<u8> {
    let (mut encoder, mut out) = (RowEncoder::new(options.clone(), columns), Vec::new());
    let names = names(columns);
    encoder.start(names.iter().map(String::as_str), &mut out);
    for row in rows {
        encoder.begin_row(&mut out);
        for field in row {
            match field {
                None => encoder.null(&mut out),
                Some(value) => encoder.value(&mut out, |out| out.extend_from_slice(value)),
            }
        }
        encoder.end_row(&mut out);
    }
    encoder.finish(&mut out);
    out
}

fuzz_target!(|input: &[u8]| {
    let [choice, columns, data @ ..] = input else { return };
    let (options, columns) = (options(*choice), usize::from(*columns % 5));
    let whole = rows(&options, columns, data, 1 << 20);
    assert_eq!(whole, rows(&options, columns, data, 1));
    let again = written(&options, columns, &whole.0);
    // Escaping makes rows longer, at most fourfold with quotes: only those that surely fit are compared.
    if data.len() * 4 < ROW_BYTES_MAX {
        assert_eq!(rows(&options, columns, &again, 1 << 20), (whole.0, None));
    }
});

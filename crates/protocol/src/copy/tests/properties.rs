//! Whatever the bytes, and however they are cut: no panic, and the same rows. What is written is read back.

use proptest::prelude::*;

use super::{Fields, decode_all, names};
use crate::copy::{ForceQuote, Format, Header, Options, RowEncoder};

const ROW_BYTES_MAX: usize = 60;

fn formats() -> impl Strategy<Value = Options> {
    let odd_text =
        Options { delimiter: b'|', null: b"~".to_vec(), header: Header::Present, ..Options::new(Format::Text) };
    let odd_csv = Options {
        delimiter: b';',
        null: b"nil".to_vec(),
        quote: b'\'',
        escape: b'\\',
        header: Header::Match,
        force_quote: ForceQuote::Columns(vec![true]),
        ..Options::new(Format::Csv)
    };
    prop::sample::select(vec![
        Options::new(Format::Text),
        Options::new(Format::Csv),
        Options::new(Format::Binary),
        odd_text,
        odd_csv,
    ])
}

/// The data cut at these places.
fn cut<'a>(data: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (data.len() + 1)).collect();
    places.sort_unstable();
    let (mut pieces, mut start) = (Vec::new(), 0);
    for place in places {
        pieces.push(&data[start..place]);
        start = place;
    }
    pieces.push(&data[start..]);
    pieces
}

/// Bytes that often occur in the data of COPY.
fn nearly_rows() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        b"\t".as_slice(),
        b",",
        b"\n",
        b"\n",
        b"\r\n",
        b"\r",
        b"\\",
        b"\\.",
        b"\\N",
        b"\\x4",
        b"\\07",
        b"\"",
        b"\"",
        b"'",
        b"a",
        b"bc",
        b"|",
        b"~",
        b"c1",
        b"0123456789012345678901234567890123456789",
        b"\0\x02",
        b"\0\0\0\x01",
        b"\xff\xff",
        b"\xff\xff\xff\xff",
    ]);
    let binary = prop_oneof![Just(b"".as_slice()), Just(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".as_slice())];
    (binary, prop::collection::vec(part, 0..40)).prop_map(|(start, parts)| [start, &parts.concat()].concat())
}

fn field() -> impl Strategy<Value = Option<Vec<u8>>> {
    let special = prop::sample::select(b"\t,\n\r\\.N\"';|~x\x08\x0b\x0c\0\xff".to_vec());
    let value = prop_oneof![
        prop::collection::vec(special, 0..8),
        prop::collection::vec(any::<u8>(), 0..8),
        Just(b"nil".to_vec()),
        Just(b"\\.".to_vec()),
    ];
    prop::option::of(value)
}

fn encode(options: &Options, columns: usize, rows: &[Fields]) -> Vec<u8> {
    let names = names(columns);
    let (mut encoder, mut out) = (RowEncoder::new(options.clone(), columns), Vec::new());
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_bytes_cut_anywhere_decode_the_same(
        options in formats(),
        columns in 0usize..4,
        data in prop_oneof![prop::collection::vec(any::<u8>(), 0..100), nearly_rows()],
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let whole = decode_all(&options, columns, ROW_BYTES_MAX, &[&data]);
        prop_assert_eq!(&whole, &decode_all(&options, columns, ROW_BYTES_MAX, &cut(&data, &places)));
        let single: Vec<_> = data.chunks(1).collect();
        prop_assert_eq!(&whole, &decode_all(&options, columns, ROW_BYTES_MAX, &single));
    }

    #[test]
    fn rows_come_back_as_written(
        options in formats(),
        rows in prop::collection::vec(prop::collection::vec(field(), 3), 0..6),
        columns in 1usize..4,
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let rows: Vec<Fields> = rows.into_iter().map(|mut row| { row.truncate(columns); row }).collect();
        let data = encode(&options, columns, &rows);
        let (decoded, error) = decode_all(&options, columns, 1000, &cut(&data, &places));
        prop_assert_eq!(error, None);
        // In text data nothing tells NULL from a value that looks like it, unless a backslash does.
        let ambiguous = |field: &Option<Vec<u8>>| {
            options.format == Format::Text
                && field.as_ref().is_some_and(|value| *value == options.null && !value.contains(&b'\\'))
        };
        let field = |field: Option<Vec<u8>>| if ambiguous(&field) { None } else { field };
        let rows: Vec<Fields> = rows.into_iter().map(|row| row.into_iter().map(field).collect()).collect();
        prop_assert_eq!(decoded.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), rows);
    }
}

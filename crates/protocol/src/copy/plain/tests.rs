//! The short way against a look at each byte, and against the long way.

use proptest::prelude::*;

use super::*;
use crate::copy::{Format, RowDecoder};

fn text() -> Options {
    Options::new(Format::Text)
}

/// The fields of the line that data begins with, split the short way.
fn fields(options: &Options, columns: usize, data: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let mut row = Collector::of(columns);
    let length = split(data, options, &mut row)?;
    assert_eq!(data[length], b'\n');
    let field = |place: &Place| match *place {
        Place::Null => None,
        Place::Sent { start, length } => Some(data[start..start + length].to_vec()),
        Place::Unescaped { .. } => panic!("nothing is unescaped the short way"),
    };
    Some(row.fields.iter().map(field).collect())
}

/// What is behind the line that is looked at.
const REST: &str = "\n9\tanother line\n";

/// The fields of a line with others behind it.
fn line(options: &Options, columns: usize, line: &str) -> Option<Vec<Option<Vec<u8>>>> {
    fields(options, columns, format!("{line}{REST}").as_bytes())
}

#[test]
fn usual_lines_go_the_short_way() {
    let some = |field: &str| Some(field.as_bytes().to_vec());
    assert_eq!(line(&text(), 3, "1\ta b\t\u{e4}"), Some(vec![some("1"), some("a b"), some("\u{e4}")]));
    assert_eq!(line(&text(), 3, "\t\\N\t"), Some(vec![some(""), None, some("")]));
    assert_eq!(line(&text(), 2, "\\N\t\\N"), Some(vec![None, None]));
    assert_eq!(line(&text(), 1, "0123456789012345678901234567"), Some(vec![some("0123456789012345678901234567")]));
    let bars = Options { delimiter: b'|', null: b"~".to_vec(), ..text() };
    assert_eq!(line(&bars, 3, "a b|~|c"), Some(vec![some("a b"), None, some("c")]));
}

#[test]
fn other_lines_do_not() {
    for other in ["a\\tb\tc", "\\Nx\tc", "x\\N\tc", "\\.", "a\r", "a\rb", "\\", "a\\", "\u{1}"] {
        assert_eq!(line(&text(), 2, other), None, "{other:?}");
    }
    let backslashes = Options { null: b"\\\\".to_vec(), ..text() };
    for other in ["\\N\ta", "\\\\\ta"] {
        assert_eq!(line(&backslashes, 2, other), None, "{other:?}");
    }
    // Not there as a whole.
    for data in ["", "a", "a\tb\n", "a long line without an end\tand so on"] {
        assert_eq!(fields(&text(), 2, data.as_bytes()), None, "{data:?}");
    }
}

/// Rows, the number of the last one's line, and the error at the end, of data in these pieces.
type Decoded = (Vec<Vec<Option<Vec<u8>>>>, u64, Option<String>);

fn decode<'a>(columns: usize, row_bytes_max: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let names = (0..columns).map(|column| format!("c{column}")).collect();
    let mut decoder = RowDecoder::new(text(), names, row_bytes_max);
    let (mut rows, mut line) = (Vec::new(), 0);
    for piece in pieces.map(Some).chain([None]) {
        match piece {
            Some(piece) => decoder.push(piece),
            None => decoder.finish(),
        }
        loop {
            match decoder.next_row() {
                Ok(Some(row)) => {
                    line = row.line();
                    rows.push(row.iter().map(|field| field.map(<[u8]>::to_vec)).collect());
                }
                Ok(None) => break,
                Err(error) => return (rows, line, Some(format!("{error:?}"))),
            }
        }
    }
    (rows, line, None)
}

fn parts() -> impl Strategy<Value = String> {
    let usual =
        prop::sample::select(vec!["\t", "\t", "\t", "\n", "\n", "\\N", "17", "name-66113", "4711.042", "\u{20ac}"]);
    let odd = prop::sample::select(vec!["\\t", "\\", "\r", "\\.", "\\\n", "N", "\u{1}", "\u{c}", "\0", "\\N\\N"]);
    let part = prop_oneof![40 => usual, 1 => odd];
    prop::collection::vec(part, 0..120).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn what_is_of_importance_is_found(bytes in any::<[u8; STEP]>(), delimiter in any::<u8>(), few in any::<bool>()) {
        // Of few bytes, those at the borders come up.
        let near = [b'\r', b'\r' + 1, b'\n', b'\\', b'\\' + 1, delimiter, delimiter ^ 0x80, b'a'];
        let bytes = if few { bytes.map(|byte| near[usize::from(byte) % near.len()]) } else { bytes };
        let marks = specials(u64::from_le_bytes(bytes), delimiter);
        let expected = bytes.map(|byte| if byte < CONTROLS_END || byte == b'\\' || byte == delimiter { 0x80 } else { 0 });
        prop_assert_eq!(marks.to_le_bytes(), expected);
    }

    /// Byte by byte there is never a whole line to be looked at first.
    #[test]
    fn lines_are_the_same_either_way(
        lines in parts(), columns in 0usize..4, row_bytes_max in prop_oneof![8usize..60, Just(1 << 20)],
        cut in any::<usize>(),
    ) {
        let data = format!("{}\n{lines}", vec!["first"; columns].join("\t"));
        let data = data.as_bytes();
        let long = decode(columns, row_bytes_max, data.chunks(1));
        prop_assert_eq!(&decode(columns, row_bytes_max, [data].into_iter()), &long);
        let (before, after) = data.split_at(cut % (data.len() + 1));
        prop_assert_eq!(&decode(columns, row_bytes_max, [before, after].into_iter()), &long);
    }
}

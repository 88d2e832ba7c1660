//! Whatever the bytes, and however they are cut: no panic, and the same messages.

use proptest::prelude::*;

use super::message;
use crate::pg::frontend::{decode, decode_startup};
use crate::pg::{DecodeError, ValueFormat};

const LIMIT: usize = 1 << 16;

/// All messages of a stream that arrives in these pieces, printed, and the error that ended it. The connection goes
/// on behind malformed messages, as the door does.
fn decode_all(pieces: &[&[u8]]) -> (Vec<String>, Option<DecodeError>) {
    let (mut buffer, mut messages) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let used = match decode(&buffer, LIMIT) {
                Ok(None) => break,
                Ok(Some((message, used))) => {
                    messages.push(format!("{message:?}"));
                    used
                }
                Err(error) => match error.resume() {
                    Some((_, used)) => {
                        messages.push(error.to_string());
                        used
                    }
                    None => return (messages, Some(error)),
                },
            };
            assert!(used > 0 && used <= buffer.len());
            buffer.drain(..used);
        }
    }
    (messages, None)
}

/// The stream cut at these places.
fn cut<'a>(stream: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (stream.len() + 1)).collect();
    places.sort_unstable();
    let (mut pieces, mut start) = (Vec::new(), 0);
    for place in places {
        pieces.push(&stream[start..place]);
        start = place;
    }
    pieces.push(&stream[start..]);
    pieces
}

/// Bytes that are nearly messages: known tags, small lengths, bodies of strings, counts and numbers.
fn nearly_a_message() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        "[a-z$ ]{0,6}".prop_map(|text| [text.as_bytes(), b"\0"].concat()),
        any::<u8>().prop_map(|count| vec![0, count % 4]),
        (0u8..6).prop_map(|length| vec![0, 0, 0, length]),
        Just(vec![0xff; 4]),
        prop::collection::vec(any::<u8>(), 0..4),
        Just(vec![b'S']),
        Just(vec![b'P']),
    ];
    let tag = prop::sample::select(b"QPBDEHSXCdcfpF".to_vec());
    (tag, prop::collection::vec(part, 0..6)).prop_map(|(tag, parts)| message(tag, &parts.concat()))
}

/// A Bind message and what it should decode to.
type Param = (ValueFormat, Option<Vec<u8>>);

fn bind(params: &[Param], results: &[ValueFormat]) -> Vec<u8> {
    let mut body = b"p\0s\0".to_vec();
    body.extend_from_slice(&(params.len() as u16).to_be_bytes());
    for (format, _) in params {
        body.extend_from_slice(&format.code().to_be_bytes());
    }
    body.extend_from_slice(&(params.len() as u16).to_be_bytes());
    for (_, value) in params {
        match value {
            None => body.extend_from_slice(&[0xff; 4]),
            Some(value) => {
                body.extend_from_slice(&(value.len() as i32).to_be_bytes());
                body.extend_from_slice(value);
            }
        }
    }
    body.extend_from_slice(&(results.len() as u16).to_be_bytes());
    for format in results {
        body.extend_from_slice(&format.code().to_be_bytes());
    }
    message(b'B', &body)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_cut_anywhere_decode_the_same(
        stream in prop::collection::vec(any::<u8>(), 0..200),
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        prop_assert_eq!(decode_all(&[&stream]), decode_all(&cut(&stream, &places)));
    }

    #[test]
    fn nearly_messages_cut_anywhere_decode_the_same(
        messages in prop::collection::vec(nearly_a_message(), 0..8),
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let stream = messages.concat();
        let whole = decode_all(&[&stream]);
        prop_assert_eq!(whole.0.len(), messages.len());
        prop_assert_eq!(&whole, &decode_all(&cut(&stream, &places)));
    }

    #[test]
    fn parameters_come_back_as_sent(
        params in prop::collection::vec(
            (any::<bool>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..20))),
            0..20,
        ),
        results in prop::collection::vec(any::<bool>(), 0..5),
    ) {
        let format = |binary| if binary { ValueFormat::Binary } else { ValueFormat::Text };
        let params: Vec<Param> = params.into_iter().map(|(binary, value)| (format(binary), value)).collect();
        let results: Vec<ValueFormat> = results.into_iter().map(format).collect();
        let bytes = bind(&params, &results);
        let Ok(Some((crate::pg::frontend::Frontend::Bind(bind), used))) = decode(&bytes, LIMIT) else {
            return Err(TestCaseError::fail("not a Bind"));
        };
        prop_assert_eq!(used, bytes.len());
        let decoded: Vec<Param> = bind.params().map(|(format, value)| (format, value.map(<[u8]>::to_vec))).collect();
        prop_assert_eq!(decoded, params);
        prop_assert_eq!(bind.result_formats().collect::<Vec<_>>(), results);
    }

    #[test]
    fn any_startup_packet_is_decoded_or_refused(
        length in 0u8..64,
        code in prop_oneof![Just([0, 3, 0, 0]), Just([4, 210, 22, 46]), Just([4, 210, 22, 47]), any::<[u8; 4]>()],
        body in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..64),
    ) {
        let stream = [[0, 0, 0, length].as_slice(), &code, &body].concat();
        let whole = decode_startup(&stream, 10_000);
        if let Ok(Some((_, used))) = &whole {
            prop_assert_eq!(*used, usize::from(length));
        }
        // Fewer bytes: the same answer, or not yet.
        for end in 0..stream.len() {
            let part = decode_startup(&stream[..end], 10_000);
            prop_assert!(part == Ok(None) || part == whole);
        }
    }
}

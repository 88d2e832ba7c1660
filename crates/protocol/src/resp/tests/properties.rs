//! Whatever the bytes, and however they are cut: no panic, and the same commands.

use proptest::prelude::*;

use crate::resp::{CommandDecoder, DecodeError, Limits};

const LIMITS: Limits = Limits { args_max: 1000, bulk_bytes_max: 10_000, command_bytes_max: 100_000 };

type Commands = Vec<Vec<Vec<u8>>>;

/// All commands of a stream that arrives in these pieces, and the error that ended it.
fn decode_all(pieces: &[&[u8]]) -> (Commands, Option<DecodeError>) {
    let (mut decoder, mut buffer, mut commands) = (CommandDecoder::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let used = match decoder.decode(&buffer, &LIMITS) {
                Ok(None) => break,
                Ok(Some((command, used))) => {
                    let args = (0..command.len()).map(|index| command.get(index).unwrap().to_vec());
                    commands.push(args.collect());
                    used
                }
                Err(error) => return (commands, Some(error)),
            };
            assert!(used > 0 && used <= buffer.len());
            // The rest moves to the front, as in a real read buffer.
            buffer.drain(..used);
        }
    }
    (commands, None)
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

fn array(args: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A line that means these arguments, each in double quotes.
fn line(args: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for arg in args {
        bytes.push(b'"');
        for byte in arg {
            match byte {
                b'a'..=b'z' => bytes.push(*byte),
                b'\n' => bytes.extend_from_slice(b"\\n"),
                b'"' => bytes.extend_from_slice(b"\\\""),
                other => bytes.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
            }
        }
        bytes.extend_from_slice(b"\" ");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn args() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let short = prop::collection::vec(any::<u8>(), 0..12);
    let long = (0usize..3000).prop_map(|length| vec![b'x'; length]);
    prop::collection::vec(prop_oneof![9 => short, 1 => long], 0..6)
}

/// Bytes that often occur in commands.
fn nearly_commands() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "*",
        "$",
        "1",
        "2",
        "3",
        "10",
        "-1",
        "\r",
        "\n",
        "\r\n",
        "\r\n",
        "*1\r\n",
        "*2\r\n",
        "$1\r\nx\r\n",
        "$0\r\n\r\n",
        "$3\r\nGET\r\n",
        "\"",
        "'",
        "\\",
        "\\x4",
        " ",
        "a",
        "PING\r\n",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_bytes_cut_anywhere_decode_the_same(
        stream in prop_oneof![prop::collection::vec(any::<u8>(), 0..100), nearly_commands()],
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        prop_assert_eq!(decode_all(&[&stream]), decode_all(&cut(&stream, &places)));
        // One by one, too.
        prop_assert_eq!(decode_all(&[&stream]), decode_all(&stream.chunks(1).collect::<Vec<_>>()));
    }

    #[test]
    fn commands_come_back_as_sent(
        commands in prop::collection::vec((args(), any::<bool>()), 0..8),
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let stream: Vec<u8> =
            commands.iter().flat_map(|(args, inline)| if *inline { line(args) } else { array(args) }).collect();
        let expected: Commands = commands.into_iter().map(|(args, _)| args).collect();
        prop_assert_eq!(decode_all(&cut(&stream, &places)), (expected, None));
    }
}

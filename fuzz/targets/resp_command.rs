//! Any bytes on the RESP port, whole and byte by byte.

#![no_main]

use ashlar_protocol::resp::{CommandDecoder, DecodeError, Limits};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { args_max: 10_000, bulk_bytes_max: 1 << 16, command_bytes_max: 1 << 17 };

type Commands = Vec<Vec<Vec<u8>>>;

fn commands(stream: &[u8], piece_bytes: usize) -> (Commands, Option<DecodeError>) {
    let (mut decoder, mut start, mut commands) = (CommandDecoder::new(), 0, Vec::new());
    for end in (0..stream.len()).step_by(piece_bytes).chain([stream.len()]) {
        loop {
            match decoder.decode(&stream[start..end], &LIMITS) {
                Ok(None) => break,
                Ok(Some((command, used))) => {
                    assert!(used > 0 && used <= end - start);
                    assert_eq!(command.args().len(), command.len().saturating_sub(1));
                    commands
                        .push((0..command.len()).filter_map(|index| command.get(index)).map(<[u8]>::to_vec).collect());
                    start += used;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fuzz_target!(|stream: &[u8]| {
    assert_eq!(commands(stream, 1 << 20), commands(stream, 1));
});

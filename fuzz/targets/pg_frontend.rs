//! Any bytes on the PostgreSQL port: the startup packet, then messages; whole and byte by byte.

#![no_main]

use ashlar_protocol::pg::frontend::{self, Frontend};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 16;

/// What the stream decodes to, and whether it ended in an error.
fn messages(stream: &[u8], piece_bytes: usize) -> (Vec<String>, bool) {
    let (mut start, mut messages) = (0, Vec::new());
    for end in (0..stream.len()).step_by(piece_bytes).chain([stream.len()]) {
        loop {
            let used = match frontend::decode(&stream[start..end], LIMIT) {
                Ok(None) => break,
                Ok(Some((message, used))) => {
                    if let Frontend::Bind(bind) = &message {
                        // All that was counted is there.
                        assert_eq!(bind.params().count(), bind.params().len());
                        assert_eq!(bind.result_formats().count(), bind.result_formats().len());
                    }
                    messages.push(format!("{message:?}"));
                    used
                }
                Err(error) => {
                    messages.push(error.to_string());
                    match error.resume() {
                        Some((_, used)) => used,
                        None => return (messages, true),
                    }
                }
            };
            start += used;
        }
    }
    (messages, false)
}

fuzz_target!(|stream: &[u8]| {
    let startup = frontend::decode_startup(stream, LIMIT);
    for end in 0..stream.len().min(300) {
        // Fewer bytes: the same answer, or not yet.
        let part = frontend::decode_startup(&stream[..end], LIMIT);
        assert!(part == Ok(None) || part == startup);
    }
    let messages_start = startup.ok().flatten().map_or(0, |(_, used)| used);
    let rest = &stream[messages_start..];
    assert_eq!(messages(rest, 1 << 20), messages(rest, 1));
});

//! What is peeked is what will be decoded.

use proptest::prelude::*;

use crate::resp::{CommandDecoder, FirstArguments, Limits};

fn encoded(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for argument in command {
            bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

fn argument() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..12), proptest::collection::vec(any::<u8>(), 100..120)]
}

proptest! {
    #[test]
    fn first_arguments_are_those_of_the_decoder(
        commands in proptest::collection::vec(proptest::collection::vec(argument(), 1..4), 0..6),
        cut in 0..2000usize,
    ) {
        let bytes = encoded(&commands);
        let bytes = &bytes[..bytes.len() - cut.min(bytes.len())];
        let mut decoder = CommandDecoder::new();
        let (mut decoded, mut at) = (Vec::new(), 0);
        while let Ok(Some((command, used))) = decoder.decode(&bytes[at..], &Limits::default()) {
            decoded.push(command.get(1).map(<[u8]>::to_vec));
            at += used;
        }
        let peeked: Vec<_> = FirstArguments::new(bytes).map(|key| key.map(<[u8]>::to_vec)).collect();
        // The end of the last command's line is not looked at.
        prop_assert!(peeked == decoded || peeked[..peeked.len() - 1] == decoded[..], "{:?} {:?}", peeked, decoded);
    }

    #[test]
    fn garbage_ends_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(FirstArguments::new(&bytes).count() <= bytes.len() / 4);
    }
}

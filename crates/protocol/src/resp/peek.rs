//! What commands that have arrived, and that wait for their turn, will ask for.
//!
//! Called by the RESP door when several commands came at once. Reads a buffer that the decoder reads again: whatever is
//! not a whole array of bulk strings ends it, and is the decoder's to complain of.

use super::decode::{ARRAY, BULK, number};

/// The first arguments of the commands at the start of a buffer, in order: the keys of most commands.
#[derive(Clone, Debug)]
pub struct FirstArguments<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> FirstArguments<'a> {
    /// Of a buffer that starts with a command.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// A bulk string at the position.
    #[inline]
    fn bulk(&mut self) -> Option<&'a [u8]> {
        if self.bytes.get(self.position) != Some(&b'$') {
            return None;
        }
        let (length, start) = number(self.bytes, self.position + 1, &BULK).ok()??;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.position = end.checked_add(2)?;
        self.bytes.get(start..end)
    }
}

impl<'a> Iterator for FirstArguments<'a> {
    /// `None`: the command has no argument.
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        if self.bytes.get(self.position) != Some(&b'*') {
            return None;
        }
        let (count, start) = number(self.bytes, self.position + 1, &ARRAY).ok()??;
        self.position = start;
        let mut argument = None;
        for index in 0..count {
            let bulk = self.bulk()?;
            if index == 1 {
                argument = Some(bulk);
            }
        }
        Some(argument)
    }
}

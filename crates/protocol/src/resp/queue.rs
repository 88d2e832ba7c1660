//! Commands that wait: copied out of the read buffer, to be run later, in their order.
//!
//! Called by the session of a client that queues commands for a transaction.

use super::Command;
use super::decode::Span;

/// Commands in the order in which they came; their bytes lie one behind the other.
#[derive(Debug, Default)]
pub struct CommandQueue {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Of each command: where its arguments end in `spans`, and its bytes in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl CommandQueue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes that a command takes here: reserve them before [`CommandQueue::push`]. Growing may take as much again.
    pub fn bytes_of(command: &Command<'_>) -> usize {
        let arguments: usize = (0..command.len()).filter_map(|at| command.get(at)).map(<[u8]>::len).sum();
        arguments + command.len() * size_of::<Span>() + size_of::<(usize, usize)>()
    }

    /// Appends a command.
    pub fn push(&mut self, command: &Command<'_>) {
        let start = self.bytes.len();
        for argument in (0..command.len()).filter_map(|at| command.get(at)) {
            // Places count from the start of the command, which is shorter than 4 GiB.
            let place = (self.bytes.len() - start) as u32;
            self.spans.push(Span { start: place, length: argument.len() as u32 });
            self.bytes.extend_from_slice(argument);
        }
        self.ends.push((self.spans.len(), self.bytes.len()));
    }

    /// The commands, first in first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Command<'_>> {
        (0..self.ends.len()).map(|at| {
            let (first, start) = at.checked_sub(1).map_or((0, 0), |before| self.ends[before]);
            let (last, end) = self.ends[at];
            Command { bytes: &self.bytes[start..end], spans: &self.spans[first..last] }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{CommandDecoder, Limits};

    #[test]
    fn commands_come_back_as_they_were() {
        let lines: [&[u8]; 4] = [b"SET k v\r\n", b"GET \"\"\r\n", b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n", b"PING\r\n"];
        let (mut queue, mut given, mut bytes) = (CommandQueue::default(), Vec::new(), 0);
        let words = |command: Command<'_>| -> Vec<Vec<u8>> {
            (0..command.len()).filter_map(|at| command.get(at)).map(<[u8]>::to_vec).collect()
        };
        for line in lines {
            let mut decoder = CommandDecoder::new();
            let (command, _) = decoder.decode(line, &Limits::default()).unwrap().unwrap();
            bytes += CommandQueue::bytes_of(&command);
            queue.push(&command);
            given.push(words(command));
        }
        assert_eq!(queue.iter().map(words).collect::<Vec<_>>(), given);
        assert_eq!(queue.len(), lines.len());
        let spans = queue.spans.len() * size_of::<Span>() + queue.ends.len() * size_of::<(usize, usize)>();
        assert_eq!(bytes, queue.bytes.len() + spans);
    }
}

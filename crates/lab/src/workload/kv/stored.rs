//! What is stored under a key, and the commands that write and read it.

use crate::door::resp::RespClient;
use crate::workload::keys::{key, value};
use crate::workload::structured::{self, FIELDS, Structured};

/// The version of the values that are put in first.
pub(super) const FIRST_VERSION: u32 = 0;

/// What is stored under each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// A string of so many bytes.
    Bytes(usize),
    /// A hash: the fields of a row.
    Row,
}

impl Stored {
    /// Bytes of a value, at most.
    pub(super) fn bytes_max(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Row => structured::BYTES_MAX,
        }
    }
}

/// A value that is made to be written.
#[derive(Default)]
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
    row: Structured,
}

impl Made {
    /// Appends the command that stores a value.
    pub(super) fn write(&mut self, client: &mut RespClient, stored: Stored, number: u64, version: u32) {
        match stored {
            Stored::Bytes(bytes) => {
                value(number, version, bytes, &mut self.bytes);
                client.begin(3);
                [b"SET", &key(number)[..], &self.bytes].into_iter().for_each(|word| client.word(word));
            }
            Stored::Row => {
                self.row.set(number, version);
                client.begin(2 + 2 * FIELDS);
                client.word(b"HSET");
                client.word(structured::name(number).as_bytes());
                for (name, text) in self.row.fields() {
                    client.word(name.as_bytes());
                    client.word(text);
                }
            }
        }
    }
}

/// Appends the command that reads one.
pub(super) fn write_read(client: &mut RespClient, stored: Stored, number: u64) {
    client.begin(2);
    match stored {
        Stored::Bytes(_) => [b"GET", &key(number)[..]].into_iter().for_each(|word| client.word(word)),
        Stored::Row => {
            client.word(b"HGETALL");
            client.word(structured::name(number).as_bytes());
        }
    }
}

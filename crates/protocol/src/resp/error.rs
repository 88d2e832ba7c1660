//! What can be wrong with the bytes of a RESP client, in Redis's own words.
//!
//! Made by `decode`; the door sends it as an error reply and closes the connection, as Redis does: after any of these
//! nobody knows where the next command starts.

use ashlar_base::{Error, ErrorCode};

/// Why bytes are not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The number of arguments is no number, or above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// An argument does not begin with `$`.
    #[error("Protocol error: expected '$', got '{}'", shown(*.0))]
    ExpectedDollar(u8),
    /// An argument's length is no number, negative, or above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An argument is longer than it said: its end is not where its length puts it. (Redis does not look.)
    #[error("Protocol error: expected CRLF after bulk string")]
    ExpectedCrlf,
    /// The number of arguments does not end.
    #[error("Protocol error: too big mbulk count string")]
    CountTooLong,
    /// An argument's length does not end.
    #[error("Protocol error: too big bulk count string")]
    BulkCountTooLong,
    /// An inline command does not end.
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    /// A quote without its partner, or with more text right behind it.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The arguments together exceed the limit. (Redis closes without a word.)
    #[error("Protocol error: too big request")]
    CommandTooBig,
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(ErrorCode::ProtocolViolation, error.to_string())
    }
}

/// The byte itself, unless it would break the line of the reply, or the reply as text.
fn shown(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        // As Redis does.
        b'\r' | b'\n' => " ".to_owned(),
        _ => byte.escape_ascii().to_string(),
    }
}

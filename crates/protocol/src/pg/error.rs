//! What can be wrong with the bytes of a frontend, in PostgreSQL's own words.
//!
//! Made by `frontend`, read by the door, which asks one thing first: can the connection go on?

use ashlar_base::{Error, ErrorCode};

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The startup packet's length is negative, too small, or above the limit.
    #[error("invalid length of startup packet")]
    StartupLength,
    /// The startup packet's parameters do not end where they should, or have a name without a value.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    StartupLayout,
    /// The startup packet asks for a protocol other than version 3.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    UnsupportedProtocol {
        /// The major version asked for.
        major: u16,
        /// The minor version asked for.
        minor: u16,
    },
    /// A startup parameter is not UTF-8.
    #[error("{0}")]
    StartupEncoding(Problem),
    /// The first byte is the tag of no message.
    #[error("invalid frontend message type {0}")]
    UnknownMessage(u8),
    /// The length is below 4 or above the limit.
    #[error("invalid message length")]
    MessageLength {
        /// The message's tag.
        tag: u8,
        /// The length it claims.
        length: i32,
    },
    /// The message has its length, but not the form of its kind. The next message can be read.
    #[error("{problem}")]
    Malformed {
        /// The message's tag.
        tag: u8,
        /// Where the next message starts.
        used: usize,
        /// What is wrong.
        problem: Problem,
    },
}

/// What is wrong inside of a message whose length is right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It ends before its last field.
    #[error("insufficient data left in message")]
    InsufficientData,
    /// A string without its terminator.
    #[error("invalid string in message")]
    UnterminatedString,
    /// Bytes after the last field.
    #[error("invalid message format")]
    TrailingBytes,
    /// A string that is not UTF-8: its first wrong bytes, as PostgreSQL prints them.
    #[error("invalid byte sequence for encoding \"UTF8\": {0}")]
    InvalidEncoding(String),
    /// Neither a statement nor a portal.
    #[error("invalid {message} message subtype {subtype}")]
    InvalidTarget {
        /// `DESCRIBE` or `CLOSE`.
        message: &'static str,
        /// The byte that should have been `S` or `P`.
        subtype: u8,
    },
    /// As many formats as parameters, or one, or none; but not this.
    #[error("bind message has {formats} parameter formats but {parameters} parameters")]
    FormatCount {
        /// The formats given.
        formats: u16,
        /// The parameters given.
        parameters: u16,
    },
    /// Neither text nor binary.
    #[error("unsupported format code: {0}")]
    InvalidFormat(i16),
}

impl Problem {
    fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidEncoding(_) => ErrorCode::CharacterNotInRepertoire,
            Self::InvalidFormat(_) => ErrorCode::InvalidParameterValue,
            Self::InsufficientData
            | Self::UnterminatedString
            | Self::TrailingBytes
            | Self::InvalidTarget { .. }
            | Self::FormatCount { .. } => ErrorCode::ProtocolViolation,
        }
    }
}

impl DecodeError {
    /// The tag of the message at fault and the bytes to skip, if the connection can go on: report the error, and for a
    /// message of the extended protocol discard everything up to the next Sync. None: the stream is lost, report the
    /// error as FATAL and close.
    pub fn resume(&self) -> Option<(u8, usize)> {
        match self {
            Self::Malformed { tag, used, .. } => Some((*tag, *used)),
            Self::StartupLength
            | Self::StartupLayout
            | Self::UnsupportedProtocol { .. }
            | Self::StartupEncoding(_)
            | Self::UnknownMessage(_)
            | Self::MessageLength { .. } => None,
        }
    }

    /// The code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnsupportedProtocol { .. } => ErrorCode::FeatureNotSupported,
            Self::StartupEncoding(problem) | Self::Malformed { problem, .. } => problem.code(),
            Self::StartupLength | Self::StartupLayout | Self::UnknownMessage(_) | Self::MessageLength { .. } => {
                ErrorCode::ProtocolViolation
            }
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

//! Why a command was refused, and the line that says so.
//!
//! Returned by the command handlers, written by `mod.rs`. Redis's own texts stand here byte for byte; errors of
//! the store and of values keep PostgreSQL's wording behind the prefix that `base::error` gives their code.

use ashlar_base::{Error, ErrorCode};

/// A refused command.
#[derive(Debug)]
pub(super) enum KeyError {
    /// A line of Redis, prefix included.
    Redis(&'static str),
    /// A line of ours or of Redis with something of the request in it, prefix included. Bytes, as the request is.
    Line(Vec<u8>),
    /// An error that SQL would report as well.
    Sql(Error),
}

/// What a command handler returns.
pub(super) type Outcome<T = ()> = Result<T, KeyError>;

impl KeyError {
    pub(super) const NOT_AN_INTEGER: Self = Self::Redis("ERR value is not an integer or out of range");
    pub(super) const SYNTAX: Self = Self::Redis("ERR syntax error");
    pub(super) const OVERFLOW: Self = Self::Redis("ERR increment or decrement would overflow");
    pub(super) const WRONG_TYPE: Self =
        Self::Redis("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const TOO_LONG: Self = Self::Redis("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    /// The code that the counters of errors know.
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::Sql(error) => error.code(),
            Self::Redis(text) if text.starts_with("WRONGTYPE") => ErrorCode::WrongObjectType,
            Self::Redis(text) if text.starts_with("WRONGPASS") => ErrorCode::InvalidAuthorization,
            Self::Redis(_) | Self::Line(_) => ErrorCode::InvalidParameterValue,
        }
    }

    /// The number of arguments does not fit; `name` is the command's full name in lower case.
    pub(super) fn arity(name: impl std::fmt::Display) -> Self {
        Self::line(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// A line made for this request.
    pub(super) fn line(text: impl Into<Vec<u8>>) -> Self {
        Self::Line(text.into())
    }

    /// Appends the error reply.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'-');
        let start = out.len();
        self.write_text(out);
        while matches!(out.last(), Some(b'\r' | b'\n')) && out.len() > start {
            out.pop();
        }
        // An error is one line, whatever the request had in it; Redis puts spaces too, and cuts what is at the end.
        for byte in out[start..].iter_mut().filter(|byte| matches!(**byte, b'\r' | b'\n')) {
            *byte = b' ';
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_text(&self, line: &mut Vec<u8>) {
        match self {
            Self::Redis(text) => line.extend_from_slice(text.as_bytes()),
            Self::Line(text) => line.extend_from_slice(text),
            Self::Sql(error) if error.code() == ErrorCode::OutOfMemory => {
                line.extend_from_slice(b"OOM command not allowed when used memory > 'maxmemory'.");
            }
            Self::Sql(error) => {
                line.extend_from_slice(error.code().resp_prefix().as_bytes());
                line.push(b' ');
                line.extend_from_slice(error.message().as_bytes());
                // A line has no second line for these, and they are what helps.
                for more in [&error.fields().detail, &error.fields().hint].into_iter().flatten() {
                    line.extend_from_slice(b" (");
                    line.extend_from_slice(more.as_bytes());
                    line.push(b')');
                }
            }
        }
    }
}

impl From<Error> for KeyError {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(error: KeyError) -> String {
        let mut line = Vec::new();
        error.write(&mut line);
        let line = String::from_utf8(line).unwrap();
        line.strip_prefix('-').and_then(|line| line.strip_suffix("\r\n")).unwrap().to_owned()
    }

    #[test]
    fn an_error_is_one_line_with_a_prefix() {
        assert_eq!(line(KeyError::SYNTAX), "ERR syntax error");
        assert_eq!(line(KeyError::arity("get")), "ERR wrong number of arguments for 'get' command");
        let error = Error::new(ErrorCode::NotNullViolation, "null value\r\nhere").with_hint("give one");
        assert_eq!(line(error.into()), "ERR null value  here (give one)");
        assert_eq!(line(KeyError::line("ERR Unsupported option x\r\n\n")), "ERR Unsupported option x");
        assert_eq!(
            line(Error::new(ErrorCode::OutOfMemory, "x").into()),
            "OOM command not allowed when used memory > 'maxmemory'."
        );
        assert_eq!(line(Error::new(ErrorCode::SerializationFailure, "again").into()), "TRYAGAIN again");
    }
}

//! The rows of COPY FROM STDIN and COPY TO STDOUT, in PostgreSQL's three formats.
//!
//! Called by the session with the payload of CopyData messages. Knows columns by number and name only: what the bytes
//! of a field mean is the caller's business, and whether they are UTF-8, but for rows that are wrong in themselves.
//!
//! ```text
//! CopyData payloads, cut anywhere -> RowDecoder -> Row of Option<&[u8]>
//! values                          -> RowEncoder -> bytes for CopyData
//! ```

mod binary;
mod csv;
mod decode;
mod encode;
mod error;
mod line;
mod plain;
mod text;

#[cfg(test)]
mod tests;

use ashlar_base::{Error, ErrorCode, Result};

pub use decode::{Row, RowDecoder, RowFields};
pub use encode::RowEncoder;
pub use error::DecodeError;

/// The formats of COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines of delimited fields, special bytes behind backslashes.
    #[default]
    Text,
    /// Comma-separated values, special bytes in quotes.
    Csv,
    /// PostgreSQL's binary file format.
    Binary,
}

/// Whether the first line holds the names of the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It does not.
    #[default]
    Absent,
    /// It does: written by COPY TO, skipped by COPY FROM.
    Present,
    /// It does, and COPY FROM insists on the names.
    Match,
}

/// Values that COPY TO quotes although it need not. NULL is never quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForceQuote {
    /// None.
    #[default]
    None,
    /// Those of every column.
    All,
    /// Those of the columns that are true, in the order of the COPY.
    Columns(Vec<bool>),
}

/// What the options of a COPY statement ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// FORMAT.
    pub format: Format,
    /// DELIMITER.
    pub delimiter: u8,
    /// NULL.
    pub null: Vec<u8>,
    /// HEADER.
    pub header: Header,
    /// QUOTE, csv only.
    pub quote: u8,
    /// ESCAPE, csv only.
    pub escape: u8,
    /// FORCE_QUOTE, csv only.
    pub force_quote: ForceQuote,
}

impl Options {
    /// The format with PostgreSQL's defaults.
    pub fn new(format: Format) -> Self {
        let (delimiter, null) = match format {
            Format::Text | Format::Binary => (b'\t', b"\\N".to_vec()),
            Format::Csv => (b',', Vec::new()),
        };
        Self {
            format,
            delimiter,
            null,
            header: Header::Absent,
            quote: b'"',
            escape: b'"',
            force_quote: ForceQuote::None,
        }
    }

    /// Refuses options that would make rows ambiguous, as PostgreSQL does. To be called before rows are coded.
    pub fn check(&self) -> Result<()> {
        let csv = match self.format {
            Format::Text => false,
            Format::Csv => true,
            Format::Binary if self.header == Header::Absent => return Ok(()),
            Format::Binary => return Err(Error::unsupported("cannot specify HEADER in BINARY mode")),
        };
        let invalid = |message: String| Err(Error::new(ErrorCode::InvalidParameterValue, message));
        if matches!(self.delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return".to_owned());
        }
        if self.null.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return invalid("COPY null representation cannot use newline or carriage return".to_owned());
        }
        if !csv && matches!(self.delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') {
            return invalid(format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter)));
        }
        if csv && self.delimiter == self.quote {
            return invalid("COPY delimiter and quote must be different".to_owned());
        }
        if self.null.contains(&self.delimiter) {
            return invalid("COPY delimiter character must not appear in the NULL specification".to_owned());
        }
        if csv && self.null.contains(&self.quote) {
            return invalid("CSV quote character must not appear in the NULL specification".to_owned());
        }
        if csv && (matches!(self.quote, b'\n' | b'\r') || matches!(self.escape, b'\n' | b'\r')) {
            return Err(Error::unsupported("COPY quote and escape cannot be newline or carriage return"));
        }
        Ok(())
    }
}

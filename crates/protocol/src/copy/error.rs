//! What can be wrong with the rows of COPY FROM STDIN, in PostgreSQL's own words.
//!
//! Made by the decoders, sent to the client by the session. After any of these the COPY has failed.

use ashlar_base::{Error, ErrorCode};

/// Why bytes are not rows. `line` counts from 1 and is the last line of the row at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The row ends before this column.
    #[error("missing data for column \"{column}\"")]
    MissingColumn {
        /// The first column without a field.
        column: String,
        /// Where.
        line: u64,
    },
    /// The row goes on after its last column.
    #[error("extra data after last expected column")]
    ExtraData {
        /// Where.
        line: u64,
    },
    /// A carriage return among lines that end otherwise.
    #[error("{} carriage return found in data", if *.csv { "unquoted" } else { "literal" })]
    CarriageReturn {
        /// In which format.
        csv: bool,
        /// Where.
        line: u64,
    },
    /// A newline among lines that end with a carriage return.
    #[error("{} newline found in data", if *.csv { "unquoted" } else { "literal" })]
    Newline {
        /// In which format.
        csv: bool,
        /// Where.
        line: u64,
    },
    /// `\.` beside other data.
    #[error("end-of-copy marker is not alone on its line")]
    MarkerNotAlone {
        /// Where.
        line: u64,
    },
    /// `\.` with another line end than the lines before.
    #[error("end-of-copy marker does not match previous newline style")]
    MarkerNewline {
        /// Where.
        line: u64,
    },
    /// A quote that does not end.
    #[error("unterminated CSV quoted field")]
    UnterminatedQuote {
        /// Where.
        line: u64,
    },
    /// Bytes that are no text.
    #[error("{message}")]
    Encoding {
        /// Which bytes.
        message: String,
        /// Where.
        line: u64,
    },
    /// The header has more or fewer names than the COPY has columns.
    #[error("wrong number of fields in header line: got {got}, expected {expected}")]
    HeaderCount {
        /// Names in the header.
        got: usize,
        /// Columns of the COPY.
        expected: usize,
        /// Where.
        line: u64,
    },
    /// The header names another column.
    #[error("column name mismatch in header line field {field}: got {got}, expected \"{expected}\"")]
    HeaderName {
        /// The field, from 1.
        field: usize,
        /// What the header says, in quotes, or the null value.
        got: String,
        /// The column's name.
        expected: String,
        /// Where.
        line: u64,
    },
    /// A row longer than the caller's limit.
    #[error("COPY row exceeds the limit of {limit_bytes} bytes")]
    RowTooLong {
        /// The limit.
        limit_bytes: usize,
        /// Where.
        line: u64,
    },
    /// Binary: the first bytes are not those of the format.
    #[error("COPY file signature not recognized")]
    Signature,
    /// Binary: the header is cut or wrong.
    #[error("invalid COPY file header ({0})")]
    BinaryHeader(&'static str),
    /// Binary: flags that one may not ignore.
    #[error("unrecognized critical flags in COPY file header")]
    CriticalFlags,
    /// Binary: a row with another number of fields than the COPY has columns.
    #[error("row field count is {got}, expected {expected}")]
    FieldCount {
        /// Fields of the row.
        got: i16,
        /// Columns of the COPY.
        expected: usize,
        /// Which row.
        line: u64,
    },
    /// Binary: a negative length other than that of NULL.
    #[error("invalid field size")]
    FieldSize {
        /// Which row.
        line: u64,
    },
    /// Binary: the data ends inside of a row.
    #[error("unexpected EOF in COPY data")]
    UnexpectedEnd {
        /// Which row.
        line: u64,
    },
    /// Binary: data after the trailer.
    #[error("received copy data after EOF marker")]
    AfterEnd,
}

impl DecodeError {
    /// The line, or for binary data the row, at fault.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::MissingColumn { line, .. }
            | Self::ExtraData { line }
            | Self::CarriageReturn { line, .. }
            | Self::Newline { line, .. }
            | Self::MarkerNotAlone { line }
            | Self::MarkerNewline { line }
            | Self::UnterminatedQuote { line }
            | Self::Encoding { line, .. }
            | Self::HeaderCount { line, .. }
            | Self::HeaderName { line, .. }
            | Self::RowTooLong { line, .. }
            | Self::FieldCount { line, .. }
            | Self::FieldSize { line }
            | Self::UnexpectedEnd { line } => Some(*line),
            Self::Signature | Self::BinaryHeader(_) | Self::CriticalFlags | Self::AfterEnd => None,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::CarriageReturn { csv: false, .. } => Some("Use \"\\r\" to represent carriage return."),
            Self::Newline { csv: false, .. } => Some("Use \"\\n\" to represent newline."),
            Self::CarriageReturn { csv: true, .. } => Some("Use quoted CSV field to represent carriage return."),
            Self::Newline { csv: true, .. } => Some("Use quoted CSV field to represent newline."),
            Self::MissingColumn { .. }
            | Self::ExtraData { .. }
            | Self::MarkerNotAlone { .. }
            | Self::MarkerNewline { .. }
            | Self::UnterminatedQuote { .. }
            | Self::Encoding { .. }
            | Self::HeaderCount { .. }
            | Self::HeaderName { .. }
            | Self::RowTooLong { .. }
            | Self::Signature
            | Self::BinaryHeader(_)
            | Self::CriticalFlags
            | Self::FieldCount { .. }
            | Self::FieldSize { .. }
            | Self::UnexpectedEnd { .. }
            | Self::AfterEnd => None,
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::RowTooLong { .. } => ErrorCode::ProgramLimitExceeded,
            DecodeError::Encoding { .. } => ErrorCode::CharacterNotInRepertoire,
            _ => ErrorCode::BadCopyFormat,
        };
        let mut converted = Self::new(code, error.to_string());
        if let Some(line) = error.line() {
            converted = converted.with_detail(format!("line {line} of the COPY data"));
        }
        if let Some(hint) = error.hint() {
            converted = converted.with_hint(hint);
        }
        converted
    }
}

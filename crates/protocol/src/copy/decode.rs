//! Decodes COPY FROM STDIN: bytes in pieces of any size in, rows out.
//!
//! Called by the session for every CopyData message. Keeps what has not become a row yet, at most one row and one
//! piece; never allocates per row once its buffers have grown.
//!
//! ```text
//! pending   ....consumed....|the next row|following rows...|half a row
//!                           ^ start
//! unescaped  fields of this row whose bytes differ from those sent
//! fields     per column: NULL, a place in the row, or a place in `unescaped`
//! ```

use super::line::{Line, LineFinder};
use super::{DecodeError, Format, Header, Options, binary, csv, plain, text};

/// Where the bytes of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Null,
    /// In the row as sent, counted from its start.
    Sent {
        start: usize,
        length: usize,
    },
    /// In the buffer of unescaped fields.
    Unescaped {
        start: usize,
        length: usize,
    },
}

/// The fields of one row, being collected.
#[derive(Debug, Default)]
pub(super) struct Collector {
    pub(super) fields: Vec<Place>,
    pub(super) unescaped: Vec<u8>,
    columns: usize,
    /// Fields beyond the columns.
    extra: usize,
}

impl Collector {
    /// Of rows with so many columns.
    pub(super) fn of(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        self.fields.clear();
        self.unescaped.clear();
        self.extra = 0;
    }

    /// Adds a field; one too many is only counted, so that a line of nothing but delimiters costs nothing.
    pub(super) fn push(&mut self, place: Place) {
        if self.fields.len() < self.columns {
            self.fields.push(place);
        } else {
            self.extra += 1;
        }
    }
}

/// Decodes the rows of one COPY.
#[derive(Debug)]
pub struct RowDecoder {
    options: Options,
    columns: Vec<String>,
    pending: Vec<u8>,
    start: usize,
    ended: bool,
    header_due: bool,
    done: bool,
    lines: LineFinder,
    binary: binary::Reader,
    row: Collector,
    line: u64,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    sent: &'a [u8],
    unescaped: &'a [u8],
    fields: &'a [Place],
    line: u64,
}

/// The fields of a row, in the order of the COPY's columns; None is NULL.
#[derive(Clone, Debug)]
pub struct RowFields<'a> {
    row: Row<'a>,
    next: usize,
}

impl<'a> Row<'a> {
    /// The number of fields, which is that of the columns.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether the COPY has no columns.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A field; None is NULL. Panics if there is no such column.
    #[inline]
    pub fn get(&self, column: usize) -> Option<&'a [u8]> {
        match self.fields[column] {
            Place::Null => None,
            Place::Sent { start, length } => Some(&self.sent[start..start + length]),
            Place::Unescaped { start, length } => Some(&self.unescaped[start..start + length]),
        }
    }

    /// All fields.
    pub fn iter(&self) -> RowFields<'a> {
        RowFields { row: *self, next: 0 }
    }

    /// The row's last line, or for binary data its number; from 1.
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl<'a> IntoIterator for Row<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = RowFields<'a>;

    fn into_iter(self) -> RowFields<'a> {
        self.iter()
    }
}

impl<'a> Iterator for RowFields<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.row.len() {
            return None;
        }
        self.next += 1;
        Some(self.row.get(self.next - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.row.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for RowFields<'_> {}

impl RowDecoder {
    /// A decoder of rows with these columns, of at most so many bytes as sent.
    pub fn new(options: Options, columns: Vec<String>, row_bytes_max: usize) -> Self {
        Self {
            header_due: options.header != Header::Absent,
            lines: LineFinder::new(&options, row_bytes_max),
            binary: binary::Reader::new(row_bytes_max),
            row: Collector::of(columns.len()),
            options,
            columns,
            pending: Vec::new(),
            start: 0,
            ended: false,
            done: false,
            line: 0,
        }
    }

    /// Takes the next piece of data. Take all rows out of it before the next one: what is not taken piles up.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.done && self.options.format != Format::Binary {
            // Behind the end-of-copy marker: PostgreSQL reads and forgets it.
            return;
        }
        self.pending.drain(..self.start);
        self.start = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// There is no more data: what is left is the last row, or an error. Take the rows once more.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The next row, or None if there is none before more data is pushed. After an error, the COPY has failed.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, DecodeError> {
        let row_start = match self.options.format {
            Format::Text | Format::Csv => self.advance_line()?,
            Format::Binary => self.advance_binary()?,
        };
        Ok(row_start.map(|start| Row {
            sent: &self.pending[start..],
            unescaped: &self.row.unescaped,
            fields: &self.row.fields,
            line: self.line,
        }))
    }

    /// The place of the next row, its fields collected.
    fn advance_line(&mut self) -> Result<Option<usize>, DecodeError> {
        while !self.done {
            if let Some(row_start) = self.advance_plain() {
                self.check_fields()?;
                return Ok(Some(row_start));
            }
            let rest = &self.pending[self.start..];
            let Some(line) = self.lines.find(rest, self.ended)? else {
                return Ok(None);
            };
            let (length, used) = match line {
                Line::Data { length, used } => (length, used),
                Line::End => {
                    self.end()?;
                    return Ok(None);
                }
            };
            let row_start = self.start;
            self.start += used;
            self.line = self.lines.number();
            let header = std::mem::take(&mut self.header_due);
            if header && self.options.header == Header::Present {
                continue;
            }
            self.split(row_start, length)?;
            if header {
                self.match_header(row_start)?;
                continue;
            }
            self.check_fields()?;
            return Ok(Some(row_start));
        }
        Ok(None)
    }

    /// The place of the next row, its fields collected, if it is one for the short way.
    fn advance_plain(&mut self) -> Option<usize> {
        // Without columns an empty line has no field, not an empty one.
        if !self.lines.is_at_newlines() || self.columns.is_empty() {
            return None;
        }
        self.row.clear();
        let row_start = self.start;
        let length = plain::split(&self.pending[row_start..], &self.options, &mut self.row)?;
        if !self.lines.step_over(length) {
            return None;
        }
        self.start += length + 1;
        self.line = self.lines.number();
        Some(row_start)
    }

    /// A row has as many fields as there are columns.
    fn check_fields(&self) -> Result<(), DecodeError> {
        if self.row.extra > 0 {
            return Err(DecodeError::ExtraData { line: self.line });
        }
        match self.columns.get(self.row.fields.len()) {
            Some(column) => Err(DecodeError::MissingColumn { column: column.clone(), line: self.line }),
            None => Ok(()),
        }
    }

    /// The data of lines is over. Names that must match and are not there do not match.
    fn end(&mut self) -> Result<(), DecodeError> {
        self.done = true;
        self.pending.clear();
        self.start = 0;
        if std::mem::take(&mut self.header_due) && self.options.header == Header::Match {
            self.line = 1;
            self.split(0, 0)?;
            self.match_header(0)?;
        }
        Ok(())
    }

    /// Collects the fields of a line.
    fn split(&mut self, start: usize, length: usize) -> Result<(), DecodeError> {
        let sent = &self.pending[start..start + length];
        self.row.clear();
        if self.columns.is_empty() && sent.is_empty() {
            // Without columns the only good line is an empty one.
            return Ok(());
        }
        match self.options.format {
            Format::Csv => csv::split(sent, &self.options, &mut self.row, self.line)?,
            Format::Text | Format::Binary => text::split(sent, &self.options, &mut self.row),
        }
        Ok(())
    }

    fn advance_binary(&mut self) -> Result<Option<usize>, DecodeError> {
        let rest = &self.pending[self.start..];
        let step = self.binary.advance(rest, self.ended, self.columns.len(), &mut self.row)?;
        self.line = self.binary.row_number();
        let row_start = self.start + step.skipped;
        self.start = row_start + step.row_bytes;
        Ok(step.row.then_some(row_start))
    }

    /// HEADER MATCH: as many names as columns, each the column's own.
    fn match_header(&self, row_start: usize) -> Result<(), DecodeError> {
        let expected = self.columns.len();
        let header = Row {
            sent: &self.pending[row_start..],
            unescaped: &self.row.unescaped,
            fields: &self.row.fields,
            line: self.line,
        };
        let got = header.len() + self.row.extra;
        if got != expected {
            return Err(DecodeError::HeaderCount { got, expected, line: self.line });
        }
        for (index, (got, expected)) in header.iter().zip(&self.columns).enumerate() {
            if got == Some(expected.as_bytes()) {
                continue;
            }
            let got = match got {
                None => format!("null value (\"{}\")", String::from_utf8_lossy(&self.options.null)),
                Some(name) => format!("\"{}\"", String::from_utf8_lossy(name)),
            };
            return Err(DecodeError::HeaderName { field: index + 1, got, expected: expected.clone(), line: self.line });
        }
        Ok(())
    }
}

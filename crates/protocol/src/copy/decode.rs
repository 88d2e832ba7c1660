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

use ashlar_base::value::text::utf8;

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
    /// Bytes of the row, without the end of its line.
    length: usize,
    line: u64,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// All of it.
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

    /// Whether a line, and then what its escapes stand for, is text at all: PostgreSQL asks for that before anything else. It takes another
    /// look at each byte, and is for rows that are wrong in some way. Binary rows are no text.
    ///
    /// # Errors
    /// [`DecodeError::Encoding`]
    pub fn check_text(&self) -> Result<(), DecodeError> {
        check_text(self.sent, self.line)?;
        self.iter().flatten().try_for_each(|field| check_text(field, self.line))
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

fn check_text(bytes: &[u8], line: u64) -> Result<(), DecodeError> {
    utf8(bytes).map(|_| ()).map_err(|error| DecodeError::Encoding { message: error.message().to_owned(), line })
}

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
            length: 0,
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
        Ok(row_start.map(|start| self.row_at(start)))
    }

    /// The row at this place, its fields collected.
    fn row_at(&self, start: usize) -> Row<'_> {
        Row {
            sent: &self.pending[start..start + self.length],
            unescaped: &self.row.unescaped,
            fields: &self.row.fields,
            line: self.line,
        }
    }

    /// The place of the next row, its fields collected.
    fn advance_line(&mut self) -> Result<Option<usize>, DecodeError> {
        while !self.done {
            if let Some(row_start) = self.advance_plain() {
                self.check_fields(row_start)?;
                return Ok(Some(row_start));
            }
            let used = match self.find_line()? {
                None => return Ok(None),
                Some(Line::Data { length, used }) => {
                    self.length = length;
                    used
                }
                Some(Line::End) => {
                    self.end()?;
                    return Ok(None);
                }
            };
            let row_start = self.start;
            self.start += used;
            self.line = self.lines.number();
            let header = std::mem::take(&mut self.header_due);
            if header && self.options.header == Header::Present {
                check_text(&self.pending[row_start..row_start + self.length], self.line)?;
                continue;
            }
            self.split(row_start)?;
            if header {
                self.match_header(row_start)?;
                continue;
            }
            self.check_fields(row_start)?;
            return Ok(Some(row_start));
        }
        Ok(None)
    }

    /// The next line, if it is there. What comes before that with which it is wrong is text, or else it is that.
    fn find_line(&mut self) -> Result<Option<Line>, DecodeError> {
        let rest = &self.pending[self.start..];
        self.lines.find(rest, self.ended).map_err(|error| match error {
            // The limit may cut a character.
            DecodeError::RowTooLong { .. } => error,
            error => check_text(&rest[..self.lines.read()], self.lines.number()).err().unwrap_or(error),
        })
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
        self.length = length;
        self.line = self.lines.number();
        Some(row_start)
    }

    /// A row has as many fields as there are columns.
    fn check_fields(&self, row_start: usize) -> Result<(), DecodeError> {
        let wrong = match self.columns.get(self.row.fields.len()) {
            _ if self.row.extra > 0 => DecodeError::ExtraData { line: self.line },
            Some(column) => DecodeError::MissingColumn { column: column.clone(), line: self.line },
            None => return Ok(()),
        };
        self.row_at(row_start).check_text().and(Err(wrong))
    }

    /// The data of lines is over. Names that must match and are not there do not match.
    fn end(&mut self) -> Result<(), DecodeError> {
        self.done = true;
        self.pending.clear();
        self.start = 0;
        if std::mem::take(&mut self.header_due) && self.options.header == Header::Match {
            (self.length, self.line) = (0, 1);
            self.split(0)?;
            self.match_header(0)?;
        }
        Ok(())
    }

    /// Collects the fields of a line.
    fn split(&mut self, start: usize) -> Result<(), DecodeError> {
        let sent = &self.pending[start..start + self.length];
        self.row.clear();
        if self.columns.is_empty() && sent.is_empty() {
            // Without columns the only good line is an empty one.
            return Ok(());
        }
        match self.options.format {
            Format::Csv => csv::split(sent, &self.options, &mut self.row, self.line)
                .or_else(|wrong| check_text(sent, self.line).and(Err(wrong)))?,
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
        self.length = step.row_bytes;
        Ok(step.row.then_some(row_start))
    }

    /// HEADER MATCH: as many names as columns, each the column's own.
    fn match_header(&self, row_start: usize) -> Result<(), DecodeError> {
        let expected = self.columns.len();
        let header = self.row_at(row_start);
        header.check_text()?;
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

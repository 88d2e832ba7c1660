//! Finds the lines of text and csv data, as PostgreSQL's CopyReadLineText does.
//!
//! Called by `decode` with the bytes from the start of the current line on; remembers how far it looked, so that a
//! line which arrives in pieces is read once. Knows quotes and backslashes as far as they hide line ends, not fields.
//!
//! The first line end decides what a line end is: `\n`, `\r\n` or `\r`. Another kind later is an error, because it is
//! more likely a mangled file than data.

use super::{DecodeError, Format, Options};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line of so many bytes; with its end it takes `used`.
    Data { length: usize, used: usize },
    /// The end-of-copy marker, or the end of the data.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Unknown,
    Newline,
    CarriageReturn,
    Both,
}

/// Whether a line is the end-of-copy marker.
enum Marker {
    Found,
    Absent,
    /// That depends on bytes to come.
    Unknown,
}

/// The state between two calls.
#[derive(Debug)]
pub(super) struct LineFinder {
    csv: bool,
    quote: u8,
    /// None if it is the quote itself, which then simply toggles.
    escape: Option<u8>,
    row_bytes_max: usize,
    line_end: LineEnd,
    /// How far the current line has been read.
    offset: usize,
    in_quote: bool,
    last_was_escape: bool,
    /// Whether the current line has been counted.
    begun: bool,
    number: u64,
}

impl LineFinder {
    pub(super) fn new(options: &Options, row_bytes_max: usize) -> Self {
        Self {
            csv: options.format == Format::Csv,
            quote: options.quote,
            escape: (options.escape != options.quote).then_some(options.escape),
            row_bytes_max,
            line_end: LineEnd::Unknown,
            offset: 0,
            in_quote: false,
            last_was_escape: false,
            begun: false,
            number: 0,
        }
    }

    /// The number of the line last read, newlines inside of quotes counted.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes of the current line have been read: those before what is wrong with it.
    pub(super) fn read(&self) -> usize {
        self.offset
    }

    /// Whether a line of text data begins here whose end is a newline alone, if it is nothing else than the lines before.
    pub(super) fn is_at_newlines(&self) -> bool {
        !self.csv && self.line_end == LineEnd::Newline && !self.begun
    }

    /// Steps over a line of so many bytes that was found otherwise; false, and it has not, if it is too long.
    pub(super) fn step_over(&mut self, length: usize) -> bool {
        let fits = length <= self.row_bytes_max;
        self.number += u64::from(fits);
        fits
    }

    /// The line at the start of `rest`, or None if its end has not come yet.
    pub(super) fn find(&mut self, rest: &[u8], ended: bool) -> Result<Option<Line>, DecodeError> {
        if rest.is_empty() {
            return Ok(ended.then_some(Line::End));
        }
        if !self.begun {
            self.begun = true;
            self.number += 1;
        }
        let found = if self.csv { self.find_csv(rest, ended)? } else { self.find_text(rest, ended)? };
        let found = match found {
            None if ended && rest.len() <= self.row_bytes_max => {
                Some(Line::Data { length: rest.len(), used: rest.len() })
            }
            found => found,
        };
        if found.is_none() && self.offset > self.row_bytes_max {
            return Err(self.too_long());
        }
        if found.is_some() {
            self.offset = 0;
            self.in_quote = false;
            self.last_was_escape = false;
            self.begun = false;
        }
        Ok(found)
    }

    fn find_text(&mut self, rest: &[u8], ended: bool) -> Result<Option<Line>, DecodeError> {
        while let Some(step) = memchr::memchr3(b'\n', b'\r', b'\\', &rest[self.offset..]) {
            self.offset += step;
            if self.offset > self.row_bytes_max {
                return Err(self.too_long());
            }
            if rest[self.offset] != b'\\' {
                return self.end_line(rest, ended);
            }
            match rest.get(self.offset + 1) {
                Some(b'.') => return self.marker(rest, ended),
                // Whatever follows the backslash, a line end too, is data.
                Some(_) => self.offset += 2,
                None if ended => break,
                None => return Ok(None),
            }
        }
        self.offset = rest.len();
        Ok(None)
    }

    fn find_csv(&mut self, rest: &[u8], ended: bool) -> Result<Option<Line>, DecodeError> {
        if self.offset == 0 && rest[0] == b'\\' {
            match self.csv_marker(rest, ended)? {
                Marker::Found => return Ok(Some(Line::End)),
                Marker::Unknown => return Ok(None),
                Marker::Absent => {}
            }
        }
        let counted = if self.line_end == LineEnd::Newline { b'\n' } else { b'\r' };
        while let Some(&byte) = rest.get(self.offset) {
            if self.offset > self.row_bytes_max {
                return Err(self.too_long());
            }
            if matches!(byte, b'\n' | b'\r') && !self.in_quote {
                return self.end_line(rest, ended);
            }
            // An escape counts only inside of quotes, right before a quote, and not behind another escape.
            let is_escape = Some(byte) == self.escape;
            if is_escape && self.in_quote {
                self.last_was_escape = !self.last_was_escape;
            }
            if byte == self.quote && !self.last_was_escape {
                self.in_quote = !self.in_quote;
            }
            if !is_escape {
                self.last_was_escape = false;
            }
            if self.in_quote && byte == counted {
                self.number += 1;
            }
            self.offset += 1;
        }
        Ok(None)
    }

    /// At a carriage return or newline outside of quotes.
    fn end_line(&mut self, rest: &[u8], ended: bool) -> Result<Option<Line>, DecodeError> {
        let (csv, line, length) = (self.csv, self.number, self.offset);
        if rest[length] == b'\n' {
            return match self.line_end {
                LineEnd::Unknown | LineEnd::Newline => {
                    self.line_end = LineEnd::Newline;
                    Ok(Some(Line::Data { length, used: length + 1 }))
                }
                LineEnd::CarriageReturn | LineEnd::Both => Err(DecodeError::Newline { csv, line }),
            };
        }
        let newline_follows = match rest.get(length + 1) {
            Some(byte) => *byte == b'\n',
            None if ended => false,
            None => return Ok(None),
        };
        match (self.line_end, newline_follows) {
            (LineEnd::Unknown | LineEnd::Both, true) => {
                self.line_end = LineEnd::Both;
                Ok(Some(Line::Data { length, used: length + 2 }))
            }
            (LineEnd::Unknown | LineEnd::CarriageReturn, _) => {
                self.line_end = LineEnd::CarriageReturn;
                Ok(Some(Line::Data { length, used: length + 1 }))
            }
            (LineEnd::Newline, _) | (LineEnd::Both, false) => Err(DecodeError::CarriageReturn { csv, line }),
        }
    }

    /// At `\.` in text data.
    fn marker(&self, rest: &[u8], ended: bool) -> Result<Option<Line>, DecodeError> {
        let line = self.number;
        let mut following = rest[self.offset + 2..].iter().copied();
        if self.line_end == LineEnd::Both {
            match following.next() {
                Some(b'\r') => {}
                Some(b'\n') => return Err(DecodeError::MarkerNewline { line }),
                None if !ended => return Ok(None),
                _ => return Err(DecodeError::MarkerNotAlone { line }),
            }
        }
        let last = match following.next() {
            Some(last @ (b'\r' | b'\n')) => last,
            None if !ended => return Ok(None),
            _ => return Err(DecodeError::MarkerNotAlone { line }),
        };
        let expected = match self.line_end {
            LineEnd::Unknown => last,
            LineEnd::Newline | LineEnd::Both => b'\n',
            LineEnd::CarriageReturn => b'\r',
        };
        if last != expected {
            return Err(DecodeError::MarkerNewline { line });
        }
        if self.offset > 0 { Err(DecodeError::MarkerNotAlone { line }) } else { Ok(Some(Line::End)) }
    }

    /// At a backslash at the start of a csv row: `\.` alone on the line ends the data, as it does up to PostgreSQL 17,
    /// because psql up to 17 sends it. With anything else on the line it is data.
    fn csv_marker(&self, rest: &[u8], ended: bool) -> Result<Marker, DecodeError> {
        let missing = if ended { Marker::Absent } else { Marker::Unknown };
        let mut following = rest[1..].iter().copied();
        match following.next() {
            Some(b'.') => {}
            Some(_) => return Ok(Marker::Absent),
            None => return Ok(missing),
        }
        if self.line_end == LineEnd::Both {
            match following.next() {
                Some(b'\r') => {}
                Some(_) => return Ok(Marker::Absent),
                None => return Ok(missing),
            }
        }
        let expected = match self.line_end {
            LineEnd::Unknown => None,
            LineEnd::Newline | LineEnd::Both => Some(b'\n'),
            LineEnd::CarriageReturn => Some(b'\r'),
        };
        match following.next() {
            Some(last @ (b'\r' | b'\n')) if expected.is_none_or(|expected| expected == last) => Ok(Marker::Found),
            Some(b'\r' | b'\n') => Err(DecodeError::MarkerNewline { line: self.number }),
            Some(_) => Ok(Marker::Absent),
            None => Ok(missing),
        }
    }

    fn too_long(&self) -> DecodeError {
        DecodeError::RowTooLong { limit_bytes: self.row_bytes_max, line: self.number }
    }
}

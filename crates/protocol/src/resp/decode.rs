//! Decodes commands.
//!
//! Called by the RESP door with its read buffer, once per command, on the hottest path of the product. Allocates
//! nothing per command: the places of the arguments go into a vector that the decoder keeps. Never allocates because
//! of a number that a client sent: the vector grows with arguments that have arrived.
//!
//! ```text
//! array    *2 CRLF  $3 CRLF GET CRLF  $4 CRLF name CRLF
//! inline   GET "my key" LF                                 unquoted into the decoder's own buffer
//! ```

use super::{DecodeError, inline};

/// Longest line without an end that is still waited for: Redis's PROTO_INLINE_MAX_SIZE.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Argument places kept between commands; after a command with more, the rest is given back.
const SPANS_KEPT: usize = 4096;

/// Bytes kept between inline commands.
const INLINE_BYTES_KEPT: usize = 4096;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one command, its name included.
    pub args_max: usize,
    /// Bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Bytes of one command as sent. Never more than 4 GiB, whatever is written here.
    pub command_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { args_max: 1024 * 1024, bulk_bytes_max: 512 << 20, command_bytes_max: 1 << 30 }
    }
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// Decodes the commands of one connection.
///
/// It remembers how far it got with an incomplete command, so a long one that arrives in pieces is read once: after
/// `None`, call again with the same bytes and more behind them (they may have moved).
#[derive(Debug, Default)]
pub struct CommandDecoder {
    spans: Vec<Span>,
    /// Arguments of an inline command, unquoted, one behind the other.
    unquoted: Vec<u8>,
    /// Array: arguments still to come. 0: no array has begun.
    args_left: usize,
    /// How far the incomplete command has been read. Inline: where to look on for the end of the line.
    position: usize,
}

/// One command: its name and its arguments, borrowed from the read buffer.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Command<'a> {
    /// The number of arguments, the name included. 0 for an empty line or array, which gets no reply.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether this is an empty line or array, which gets no reply.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The name as sent, in any case; empty if the command is.
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// An argument; 0 is the name.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// The arguments behind the name.
    pub fn args(&self) -> Args<'a> {
        Args { bytes: self.bytes, spans: self.spans.get(1..).unwrap_or_default().iter() }
    }
}

/// The arguments behind the name of a command.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.spans.next().map(|span| span.of(self.bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }
}

impl ExactSizeIterator for Args<'_> {}

impl Span {
    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &bytes[start..start + self.length as usize]
    }
}

impl CommandDecoder {
    /// A decoder at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the command at the start of `buf`: the command and the bytes it took, or None if more are needed.
    ///
    /// After an error the connection is lost.
    #[inline]
    pub fn decode<'a>(
        &'a mut self,
        buf: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<(Command<'a>, usize)>, DecodeError> {
        match buf.first() {
            None => Ok(None),
            Some(b'*') => match self.decode_array(buf, limits)? {
                Some(used) => Ok(Some((Command { bytes: buf, spans: &self.spans }, used))),
                None => Ok(None),
            },
            Some(_) => match self.decode_line(buf)? {
                Some(used) => Ok(Some((Command { bytes: &self.unquoted, spans: &self.spans }, used))),
                None => Ok(None),
            },
        }
    }

    fn decode_array(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, DecodeError> {
        if self.args_left == 0 {
            self.spans.clear();
            self.spans.shrink_to(SPANS_KEPT);
            let Some((count, position)) = number(buf, 1, &ARRAY)? else {
                return Ok(None);
            };
            // Redis takes *0 and *-1 for empty commands.
            let Ok(count @ 1..) = usize::try_from(count) else {
                return Ok(Some(position));
            };
            if count > limits.args_max {
                return Err(DecodeError::InvalidMultibulkLength);
            }
            (self.args_left, self.position) = (count, position);
        }
        let command_bytes_max = limits.command_bytes_max.min(u32::MAX as usize);
        while self.args_left > 0 {
            match buf.get(self.position) {
                Some(b'$') => {}
                Some(&other) => return Err(DecodeError::ExpectedDollar(other)),
                None => return Ok(None),
            }
            let Some((length, start)) = number(buf, self.position + 1, &BULK)? else {
                return Ok(None);
            };
            let length = match usize::try_from(length) {
                Ok(length) if length <= limits.bulk_bytes_max => length,
                _ => return Err(DecodeError::InvalidBulkLength),
            };
            let end = start.saturating_add(length);
            if end > command_bytes_max {
                return Err(DecodeError::CommandTooBig);
            }
            match buf.get(end..) {
                Some([b'\r', b'\n', ..]) => {}
                Some([b'\r'] | []) | None => return Ok(None),
                Some(_) => return Err(DecodeError::ExpectedCrlf),
            }
            self.spans.push(Span { start: start as u32, length: length as u32 });
            self.position = end + 2;
            self.args_left -= 1;
        }
        Ok(Some(std::mem::take(&mut self.position)))
    }

    fn decode_line(&mut self, buf: &[u8]) -> Result<Option<usize>, DecodeError> {
        let window = &buf[..buf.len().min(LINE_BYTES_MAX)];
        let unread = window.get(self.position..).unwrap_or_default();
        let Some(end) = unread.iter().position(|byte| *byte == b'\n') else {
            if buf.len() >= LINE_BYTES_MAX {
                return Err(DecodeError::InlineTooLong);
            }
            self.position = window.len();
            return Ok(None);
        };
        let end = std::mem::take(&mut self.position) + end;
        self.spans.clear();
        self.unquoted.clear();
        self.unquoted.shrink_to(INLINE_BYTES_KEPT);
        let mut words = inline::Words::new(&buf[..end]);
        loop {
            let start = self.unquoted.len();
            if !words.next_into(&mut self.unquoted)? {
                return Ok(Some(end + 1));
            }
            // A line has at most 64 KiB, and unquoting makes it no longer.
            self.spans.push(Span { start: start as u32, length: (self.unquoted.len() - start) as u32 });
        }
    }
}

/// The two numbers of an array, and how they go wrong.
pub(super) struct Header {
    invalid: DecodeError,
    endless: DecodeError,
}

pub(super) const ARRAY: Header =
    Header { invalid: DecodeError::InvalidMultibulkLength, endless: DecodeError::CountTooLong };
pub(super) const BULK: Header =
    Header { invalid: DecodeError::InvalidBulkLength, endless: DecodeError::BulkCountTooLong };

/// The number at `start` and the place behind its CRLF, or None if more bytes are needed.
///
/// Numbers below 100, which are nearly all, are read in one go; the rest is left to `long_number`.
#[inline]
pub(super) fn number(buf: &[u8], start: usize, header: &Header) -> Result<Option<(i64, usize)>, DecodeError> {
    if let Some(&[a, b, c, ..]) = buf.get(start..) {
        let (tens, ones) = (b.wrapping_sub(b'0'), a.wrapping_sub(b'0'));
        if ones <= 9 && b == b'\r' && c == b'\n' {
            return Ok(Some((i64::from(ones), start + 3)));
        }
        if (1..=9).contains(&ones) && tens <= 9 && c == b'\r' && buf.get(start + 3) == Some(&b'\n') {
            return Ok(Some((i64::from(ones) * 10 + i64::from(tens), start + 4)));
        }
    }
    long_number(buf, start, header)
}

/// As Redis's string2ll: an optional minus, no plus, no spaces, no leading zeros, within 64 bits.
fn long_number(buf: &[u8], start: usize, header: &Header) -> Result<Option<(i64, usize)>, DecodeError> {
    let rest = buf.get(start..).unwrap_or_default();
    let window = &rest[..rest.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\r') else {
        return if rest.len() >= LINE_BYTES_MAX { Err(header.endless) } else { Ok(None) };
    };
    match rest.get(end + 1) {
        Some(b'\n') => {}
        Some(_) => return Err(header.invalid),
        None => return Ok(None),
    }
    let digits = &rest[..end];
    let strict = match digits {
        [b'0'] | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] => std::str::from_utf8(digits).ok(),
        _ => None,
    };
    let value = strict.and_then(|digits| digits.parse::<i64>().ok()).ok_or(header.invalid)?;
    Ok(Some((value, start + end + 2)))
}

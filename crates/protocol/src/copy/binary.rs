//! The binary format: a header, rows of sized fields, a trailer.
//!
//! Called by `decode` with the bytes from the start of the current row on, and by `encode`. Remembers how far it got
//! inside of a row.
//!
//! ```text
//! header   | "PGCOPY\n\xff\r\n\0" | flags u32 | extension length i32 | extension ... |
//! row      | fields i16 | length i32 | bytes ... | -1 (NULL) | ...
//! trailer  | -1 i16 |
//! ```

use super::DecodeError;
use super::decode::{Collector, Place};

/// Chosen by PostgreSQL to notice newline translation, lost high bits and stripped NULs.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Flags of the upper half are critical; this one (rows with OIDs) existed once.
const FLAG_OIDS: u32 = 1 << 16;
const FLAGS_CRITICAL: u32 = 0xffff_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    /// So many bytes of the header's extension are left to skip.
    Extension(usize),
    RowStart,
    /// In a row: fields left, and the place of the next one, counted from the row's start.
    Fields {
        left: usize,
        offset: usize,
    },
    Trailer,
}

/// The state between two calls.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    row_bytes_max: usize,
    row: u64,
}

/// What a call did: bytes skipped before the row, bytes of the row, and whether the row is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) skipped: usize,
    pub(super) row_bytes: usize,
    pub(super) row: bool,
}

impl Reader {
    pub(super) fn new(row_bytes_max: usize) -> Self {
        Self { state: State::Header, row_bytes_max, row: 0 }
    }

    /// The number of the current row, from 1.
    pub(super) fn row_number(&self) -> u64 {
        self.row
    }

    /// Goes on to the end of the next row, or as far as the data goes.
    pub(super) fn advance(
        &mut self,
        rest: &[u8],
        ended: bool,
        columns: usize,
        out: &mut Collector,
    ) -> Result<Step, DecodeError> {
        let mut skipped = 0;
        loop {
            let here = &rest[skipped..];
            match self.state {
                State::Header => {
                    let Some(extension_bytes) = header(here, ended)? else {
                        return Ok(Step::default());
                    };
                    skipped += HEADER_BYTES;
                    self.state = State::Extension(extension_bytes);
                }
                State::Extension(left) => {
                    let skip = left.min(here.len());
                    skipped += skip;
                    if skip < left {
                        self.state = State::Extension(left - skip);
                        return match ended {
                            true => Err(DecodeError::BinaryHeader("wrong length")),
                            false => Ok(Step { skipped, ..Step::default() }),
                        };
                    }
                    self.state = State::RowStart;
                }
                State::RowStart => {
                    let Some((count, _)) = here.split_first_chunk::<2>() else {
                        // PostgreSQL takes the end of the data in place of the trailer, and so do we.
                        return match here {
                            [_] if ended => Err(DecodeError::UnexpectedEnd { line: self.row + 1 }),
                            _ => Ok(Step { skipped, ..Step::default() }),
                        };
                    };
                    let count = i16::from_be_bytes(*count);
                    if count == -1 {
                        skipped += 2;
                        self.state = State::Trailer;
                        continue;
                    }
                    self.row += 1;
                    if usize::try_from(count) != Ok(columns) {
                        return Err(DecodeError::FieldCount { got: count, expected: columns, line: self.row });
                    }
                    out.clear();
                    self.state = State::Fields { left: columns, offset: 2 };
                }
                State::Fields { left, offset } => {
                    return Ok(match self.fields(here, ended, left, offset, out)? {
                        Some(row_bytes) => Step { skipped, row_bytes, row: true },
                        None => Step { skipped, ..Step::default() },
                    });
                }
                State::Trailer => {
                    return match here.is_empty() {
                        true => Ok(Step { skipped, ..Step::default() }),
                        false => Err(DecodeError::AfterEnd),
                    };
                }
            }
        }
    }

    /// The length of the row if it is complete.
    fn fields(
        &mut self,
        row: &[u8],
        ended: bool,
        mut left: usize,
        mut offset: usize,
        out: &mut Collector,
    ) -> Result<Option<usize>, DecodeError> {
        let line = self.row;
        while left > 0 {
            let place = match row.get(offset..).and_then(|rest| rest.first_chunk::<4>()) {
                None => None,
                Some(length) => match i32::from_be_bytes(*length) {
                    -1 => Some(Place::Null),
                    length => {
                        let length = usize::try_from(length).map_err(|_| DecodeError::FieldSize { line })?;
                        if offset + 4 + length > self.row_bytes_max {
                            return Err(DecodeError::RowTooLong { limit_bytes: self.row_bytes_max, line });
                        }
                        let start = offset + 4;
                        (start + length <= row.len()).then_some(Place::Sent { start, length })
                    }
                },
            };
            let Some(place) = place else {
                self.state = State::Fields { left, offset };
                return if ended { Err(DecodeError::UnexpectedEnd { line }) } else { Ok(None) };
            };
            offset = match place {
                Place::Sent { start, length } => start + length,
                Place::Null | Place::Unescaped { .. } => offset + 4,
            };
            out.push(place);
            left -= 1;
        }
        self.state = State::RowStart;
        Ok(Some(offset))
    }
}

const HEADER_BYTES: usize = SIGNATURE.len() + 8;

/// Checks as much of the header as is there; the length of its extension once all of it is.
fn header(bytes: &[u8], ended: bool) -> Result<Option<usize>, DecodeError> {
    let there = bytes.len().min(SIGNATURE.len());
    if bytes[..there] != SIGNATURE[..there] || (ended && there < SIGNATURE.len()) {
        return Err(DecodeError::Signature);
    }
    let word = |start: usize| bytes.get(start..).and_then(|rest| rest.first_chunk::<4>());
    let Some(flags) = word(SIGNATURE.len()) else {
        return if ended { Err(DecodeError::BinaryHeader("missing flags")) } else { Ok(None) };
    };
    let flags = u32::from_be_bytes(*flags);
    if flags & FLAG_OIDS != 0 {
        return Err(DecodeError::BinaryHeader("WITH OIDS"));
    }
    if flags & FLAGS_CRITICAL != 0 {
        return Err(DecodeError::CriticalFlags);
    }
    match word(SIGNATURE.len() + 4) {
        Some(length) => match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(DecodeError::BinaryHeader("missing length")),
        },
        None if ended => Err(DecodeError::BinaryHeader("missing length")),
        None => Ok(None),
    }
}

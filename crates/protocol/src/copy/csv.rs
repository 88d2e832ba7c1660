//! The csv format: fields between delimiters, special bytes in quotes, an empty field without quotes for NULL.
//!
//! Called by `decode` with whole rows, newlines inside of quotes included, and by `encode` with whole values. As
//! PostgreSQL's CopyReadAttributesCSV and CopyAttributeOutCSV.

use super::decode::{Collector, Place};
use super::{DecodeError, Options};

/// Splits a row into fields.
pub(super) fn split(row: &[u8], options: &Options, out: &mut Collector, line: u64) -> Result<(), DecodeError> {
    let mut start = 0;
    loop {
        let special = row[start..].iter().position(|byte| *byte == options.delimiter || *byte == options.quote);
        let end = match special {
            Some(at) if row[start + at] == options.quote => {
                let (place, end) = quoted_field(row, start, start + at, options, out)
                    .ok_or(DecodeError::UnterminatedQuote { line })?;
                out.push(place);
                end
            }
            _ => {
                let end = special.map_or(row.len(), |at| start + at);
                let null = row[start..end] == options.null;
                out.push(if null { Place::Null } else { Place::Sent { start, length: end - start } });
                end
            }
        };
        if end == row.len() {
            return Ok(());
        }
        start = end + 1;
    }
}

/// A field with its first quote at `quote`; returns its place and its end, or None if the quote does not end.
///
/// A field with quotes is never NULL. Quotes may begin and end anywhere: `a"b,c"d` is `ab,cd`.
fn quoted_field(
    row: &[u8],
    start: usize,
    quote: usize,
    options: &Options,
    out: &mut Collector,
) -> Option<(Place, usize)> {
    if start == quote
        && let Some((place, end)) = plainly_quoted(row, start, options)
    {
        return Some((place, end));
    }
    let unescaped_start = out.unescaped.len();
    out.unescaped.extend_from_slice(&row[start..quote]);
    let mut at = quote;
    let mut in_quote = false;
    while let Some(&byte) = row.get(at) {
        at += 1;
        if !in_quote {
            if byte == options.delimiter {
                at -= 1;
                break;
            } else if byte == options.quote {
                in_quote = true;
            } else {
                out.unescaped.push(byte);
            }
            continue;
        }
        // The escape is looked for first: it may be the quote itself.
        if byte == options.escape
            && let Some(&next) = row.get(at)
            && (next == options.escape || next == options.quote)
        {
            out.unescaped.push(next);
            at += 1;
        } else if byte == options.quote {
            in_quote = false;
        } else {
            out.unescaped.push(byte);
        }
    }
    if in_quote {
        return None;
    }
    Some((Place::Unescaped { start: unescaped_start, length: out.unescaped.len() - unescaped_start }, at))
}

/// The usual case, which needs no copy: quotes around the whole field and nothing special between them.
fn plainly_quoted(row: &[u8], start: usize, options: &Options) -> Option<(Place, usize)> {
    let inside = &row[start + 1..];
    let length = inside.iter().position(|byte| *byte == options.quote || *byte == options.escape)?;
    let end = start + 1 + length + 1;
    let closed = inside[length] == options.quote && row.get(end).is_none_or(|byte| *byte == options.delimiter);
    // With the delimiter as escape, the byte behind the quote would be ambiguous.
    (closed && options.escape != options.delimiter).then_some((Place::Sent { start: start + 1, length }, end))
}

/// Quotes the value that begins at `start` and ends `out`, if it must or should be.
pub(super) fn quote(
    out: &mut Vec<u8>,
    start: usize,
    options: &Options,
    force: bool,
    single_column: bool,
    scratch: &mut Vec<u8>,
) {
    let value = &out[start..];
    let special = |byte: &u8| *byte == options.delimiter || *byte == options.quote || matches!(byte, b'\n' | b'\r');
    // Older servers and psql take a lone `\.` for the end of the data.
    let needed = force || value == options.null || value.iter().any(special) || (single_column && value == b"\\.");
    if !needed {
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(value);
    out.truncate(start);
    out.push(options.quote);
    for &byte in scratch.iter() {
        if byte == options.quote || byte == options.escape {
            out.push(options.escape);
        }
        out.push(byte);
    }
    out.push(options.quote);
}

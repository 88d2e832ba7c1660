//! The short way for lines of text data as nearly all of them are: there as a whole, ended by a newline, and without a backslash but
//! in `\N`.
//!
//! Called by `decode` with the bytes from the start of a line on, once a line has ended with a newline. Looks at each byte once, eight
//! of them in a step, where the long way looks for the end of the line and then for its fields. Says nothing about any other line, and
//! never splits one in another way than `line` and `text` do.

use super::Options;
use super::decode::{Collector, Place};

/// Bytes of a step.
const STEP: usize = 8;

/// A one in each byte.
const ONES: u64 = u64::MAX / 255;
/// All bits of each byte but the top one.
const LOW: u64 = ONES * 0x7f;

/// Control characters below this one are looked at: tabs, newlines and carriage returns are among them.
const CONTROLS_END: u8 = b'\r' + 1;

/// What stands for NULL, unless something else is said.
const NULL: &[u8] = b"\\N";

/// Collects the fields of the line that `rest` begins with, which is followed by others or by nothing: its length, without the newline.
/// `None`: the long way has to look at it, and what was collected is worth nothing.
pub(super) fn split(rest: &[u8], options: &Options, row: &mut Collector) -> Option<usize> {
    let (delimiter, null) = (options.delimiter, options.null.as_slice());
    let (steps, _) = rest.as_chunks::<STEP>();
    let mut start = 0;
    for (step, bytes) in steps.iter().enumerate() {
        let mut marks = specials(u64::from_le_bytes(*bytes), delimiter);
        while marks != 0 {
            let at = step * STEP + marks.trailing_zeros() as usize / 8;
            marks &= marks - 1;
            let byte = rest[at];
            if byte == delimiter || byte == b'\n' {
                let length = at - start;
                row.push(if rest[start..at] == *null { Place::Null } else { Place::Sent { start, length } });
                if byte == b'\n' {
                    return Some(at);
                }
                start = at + 1;
            } else if !(at == start && null == NULL && is_alone(&rest[at..], delimiter)) {
                return None;
            }
        }
    }
    None
}

/// Whether bytes begin with `\N` as a whole field.
fn is_alone(field: &[u8], delimiter: u8) -> bool {
    matches!(field, [b'\\', b'N', end, ..] if *end == delimiter || *end == b'\n')
}

/// A bit at the top of each byte that may be of importance: delimiters, backslashes, control characters up to the carriage return.
#[inline]
fn specials(word: u64, delimiter: u8) -> u64 {
    // No byte carries into the next one.
    let not_below = |end: u8| ((word & LOW) + ONES * u64::from(0x80 - end)) | word;
    let differs = |byte: u8| {
        let different = word ^ (ONES * u64::from(byte));
        ((different & LOW) + LOW) | different
    };
    !(not_below(CONTROLS_END) & differs(b'\\') & differs(delimiter)) & !LOW
}

#[cfg(test)]
mod tests;

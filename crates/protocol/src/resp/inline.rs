//! Splits an inline command into words, as Redis's `sdssplitargs` does.
//!
//! Called by `decode` with one line. Appends to the decoder's buffer, never keeps anything.
//!
//! ```text
//! SET key value          three words
//! SET "my key" "\x00\n"  double quotes: \xHH \n \r \t \b \a, any other byte for itself
//! SET 'my key' 'it\'s'   single quotes: only \' is special
//! ```

use super::DecodeError;

/// The words of a line.
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Appends the next word to `out`, unquoted; false if there is none.
    pub(super) fn next_into(&mut self, out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        while let [first, rest @ ..] = self.rest
            && is_space(*first)
        {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return Ok(false);
        }
        loop {
            match self.rest {
                [] => return Ok(true),
                // Vertical tab and form feed separate words but do not end one: so does Redis.
                [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] => {
                    self.rest = rest;
                    return Ok(true);
                }
                [b'"', rest @ ..] => {
                    self.rest = double_quoted(rest, out)?;
                    return Ok(true);
                }
                [b'\'', rest @ ..] => {
                    self.rest = single_quoted(rest, out)?;
                    return Ok(true);
                }
                [byte, rest @ ..] => {
                    out.push(*byte);
                    self.rest = rest;
                }
            }
        }
    }
}

/// Returns what follows the closing quote.
fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], DecodeError> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                rest
            }
            [b'\\', byte, rest @ ..] => {
                out.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest
            }
            [b'"', rest @ ..] => return after_quote(rest),
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
            [] => return Err(DecodeError::UnbalancedQuotes),
        }
    }
}

/// Returns what follows the closing quote.
fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], DecodeError> {
    loop {
        rest = match rest {
            [b'\\', b'\'', rest @ ..] => {
                out.push(b'\'');
                rest
            }
            [b'\'', rest @ ..] => return after_quote(rest),
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
            [] => return Err(DecodeError::UnbalancedQuotes),
        }
    }
}

/// A closing quote ends the word: behind it comes a space or nothing.
fn after_quote(rest: &[u8]) -> Result<&[u8], DecodeError> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(DecodeError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// C's isspace.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

//! Cuts the text of a date, time or timestamp into tokens. Called by `datetime::parse`; knows no calendar.
//!
//! The rules are those of "Date/Time Input Interpretation" in PostgreSQL's manual: a token ends where its alphabet ends, and
//! the first separator in it tells a date from a time from a number.

/// What a token looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::value) enum Kind {
    /// Digits, perhaps with one point.
    Number,
    /// Digits with colons.
    Time,
    /// Something with hyphens, slashes or points in it: a date, a time with a zone, or the name of a zone.
    Date,
    /// Letters.
    Word,
    /// A sign and digits: an offset from UTC.
    Offset,
    /// A sign and letters: `-infinity`.
    Signed,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::value) struct Token<'a> {
    pub(in crate::value) kind: Kind,
    pub(in crate::value) text: &'a str,
}

/// Cuts the text; `None` where it has a character that no token has. `is_word` says whether letters directly followed
/// by digits are a word of their own, as the `T` of `T04:05` is, and not the start of a zone's name.
pub(in crate::value) fn cut(text: &str, is_word: impl Fn(&str) -> bool) -> Option<Vec<Token<'_>>> {
    let bytes = text.as_bytes();
    let run = |from: usize, accept: &dyn Fn(u8) -> bool| run(bytes, from, accept);
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let kind = match byte {
            b' ' | b'\t'..=b'\r' => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                let (kind, end) = numeric(bytes, at);
                at = end;
                kind
            }
            b'.' => {
                at = run(at + 1, &|byte| byte.is_ascii_digit());
                Kind::Number
            }
            b'a'..=b'z' | b'A'..=b'Z' => {
                at = run(at, &|byte| byte.is_ascii_alphabetic());
                let joined = match bytes.get(at) {
                    Some(b'-' | b'/' | b'.') => true,
                    Some(b'+' | b'0'..=b'9') => !is_word(&text[start..at]),
                    _ => false,
                };
                if joined {
                    at = run(at, &|byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
                    Kind::Date
                } else {
                    Kind::Word
                }
            }
            b'+' | b'-' => {
                at = run(at + 1, &|byte| byte == b' ' || (b'\t'..=b'\r').contains(&byte));
                match bytes.get(at)? {
                    b'0'..=b'9' => {
                        at = run(at, &|byte| byte.is_ascii_digit() || b":.-".contains(&byte));
                        Kind::Offset
                    }
                    b'a'..=b'z' | b'A'..=b'Z' => {
                        at = run(at, &|byte| byte.is_ascii_alphabetic());
                        Kind::Signed
                    }
                    _ => return None,
                }
            }
            _ if byte.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return None,
        };
        tokens.push(Token { kind, text: &text[start..at] });
    }
    Some(tokens)
}

/// What begins with a digit, and where it ends: a time, a date or a number.
fn numeric(bytes: &[u8], start: usize) -> (Kind, usize) {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let end = run(bytes, start, &is_digit);
    let separator = match bytes.get(end).copied() {
        Some(b':') => {
            return (Kind::Time, run(bytes, end, &|byte| byte.is_ascii_digit() || byte == b':' || byte == b'.'));
        }
        Some(separator @ (b'-' | b'/' | b'.')) => separator,
        _ => return (Kind::Number, end),
    };
    let start = end + 1;
    if !bytes.get(start).is_some_and(u8::is_ascii_digit) {
        return (Kind::Date, run(bytes, start, &|byte| byte.is_ascii_alphanumeric() || byte == separator));
    }
    let end = run(bytes, start, &is_digit);
    if bytes.get(end) == Some(&separator) {
        return (Kind::Date, run(bytes, end, &|byte| byte.is_ascii_digit() || byte == separator));
    }
    (if separator == b'.' { Kind::Number } else { Kind::Date }, end)
}

/// Where bytes that are accepted end.
fn run(bytes: &[u8], from: usize, accept: &dyn Fn(u8) -> bool) -> usize {
    from + bytes[from..].iter().take_while(|&&byte| accept(byte)).count()
}

//! Cuts JSON into tokens, with PostgreSQL's error details. Called by `json`.

use crate::{Error, ErrorCode, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    OpenObject,
    CloseObject,
    OpenArray,
    CloseArray,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
    Eof,
}

/// A token with its own text; a string with its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
}

/// 22P02 with a detail.
pub(super) fn invalid(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidTextRepresentation, "invalid input syntax for type json").with_detail(detail)
}

pub(super) fn too_deep(depth_max: usize) -> Error {
    Error::new(
        ErrorCode::ProgramLimitExceeded,
        format!("json values nested more than {depth_max} deep are not supported"),
    )
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token. `decode`: refuse escapes that have no meaning as text.
    pub(super) fn token(&mut self, decode: bool) -> Result<Token<'a>> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let single = |kind| (kind, start + 1);
        let (kind, end) = match bytes.get(start) {
            None => (TokenKind::Eof, start),
            Some(b'{') => single(TokenKind::OpenObject),
            Some(b'}') => single(TokenKind::CloseObject),
            Some(b'[') => single(TokenKind::OpenArray),
            Some(b']') => single(TokenKind::CloseArray),
            Some(b',') => single(TokenKind::Comma),
            Some(b':') => single(TokenKind::Colon),
            Some(b'"') => (TokenKind::String, self.string(start, decode)?),
            Some(b'-' | b'0'..=b'9') => (TokenKind::Number, self.number(start)?),
            Some(_) => self.word(start)?,
        };
        self.at = end;
        Ok(Token { kind, text: &self.text[start..end] })
    }

    /// Where the run of characters that make a word ends.
    fn word_end(&self, from: usize) -> usize {
        let rest = &self.text.as_bytes()[from..];
        from + rest.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80).count()
    }

    fn word(&self, start: usize) -> Result<(TokenKind, usize)> {
        let end = self.word_end(start);
        let kind = match &self.text[start..end] {
            "true" => TokenKind::True,
            "false" => TokenKind::False,
            "null" => TokenKind::Null,
            "" => {
                let char = self.text[start..].chars().next().unwrap_or_default();
                return Err(invalid(format!("Token \"{char}\" is invalid.")));
            }
            other => return Err(invalid(format!("Token \"{other}\" is invalid."))),
        };
        Ok((kind, end))
    }

    /// The end of a number: `-`? (`0` or digits) (`.` digits)? (`e` sign? digits)?
    fn number(&self, start: usize) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut valid = true;
        let mut end = start + usize::from(bytes[start] == b'-');
        let integer = end;
        end = if bytes.get(end) == Some(&b'0') { end + 1 } else { digits(end) };
        valid &= end > integer;
        if bytes.get(end) == Some(&b'.') {
            let fraction = end + 1;
            end = digits(fraction);
            valid &= end > fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let exponent = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            end = digits(exponent);
            valid &= end > exponent;
        }
        // A word that begins like a number is no number.
        let word_end = self.word_end(end);
        if valid && word_end == end {
            return Ok(end);
        }
        Err(invalid(format!("Token \"{}\" is invalid.", &self.text[start..word_end])))
    }

    /// The end of a string, after its closing quote.
    fn string(&self, start: usize, decode: bool) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let unterminated = || invalid(format!("Token \"{}\" is invalid.", &self.text[start..]));
        let mut at = start + 1;
        // A high surrogate waits for its low one.
        let mut high = false;
        loop {
            let byte = *bytes.get(at).ok_or_else(unterminated)?;
            if byte != b'\\' {
                if high {
                    return Err(invalid("Unicode low surrogate must follow a high surrogate."));
                }
                match byte {
                    b'"' => return Ok(at + 1),
                    0..=0x1f => return Err(invalid(format!("Character with value 0x{byte:02x} must be escaped."))),
                    _ => at += 1,
                }
                continue;
            }
            match *bytes.get(at + 1).ok_or_else(unterminated)? {
                b'u' => {
                    let code = bytes
                        .get(at + 2..at + 6)
                        .and_then(hex)
                        .ok_or_else(|| invalid("\"\\u\" must be followed by four hexadecimal digits."))?;
                    if decode {
                        high = check_code_unit(code, high)?;
                    }
                    at += 6;
                }
                _ if high => return Err(invalid("Unicode low surrogate must follow a high surrogate.")),
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                _ => {
                    let char = self.text[at + 1..].chars().next().unwrap_or_default();
                    return Err(invalid(format!("Escape sequence \"\\{char}\" is invalid.")));
                }
            }
        }
    }
}

/// Whether a low surrogate must follow.
fn check_code_unit(code: u16, high: bool) -> Result<bool> {
    match code {
        0 => Err(Error::new(ErrorCode::UntranslatableCharacter, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text.")),
        0xd800..=0xdbff if high => Err(invalid("Unicode high surrogate must not follow a high surrogate.")),
        0xd800..=0xdbff => Ok(true),
        0xdc00..=0xdfff if high => Ok(false),
        _ if high || (0xdc00..=0xdfff).contains(&code) => {
            Err(invalid("Unicode low surrogate must follow a high surrogate."))
        }
        _ => Ok(false),
    }
}

/// Four hexadecimal digits.
pub(super) fn hex(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |code: u16, &digit| Some(code << 4 | char::from(digit).to_digit(16)? as u16))
}

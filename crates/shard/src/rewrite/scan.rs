//! The few tokens of a statement's text that splicing has to find: names, parentheses, words, parameters.
//!
//! Only ever given text that PostgreSQL's own parser has accepted.

use std::ops::Range;

/// A token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A bare word: a keyword or a name.
    Word,
    /// A name in double quotes.
    Quoted,
    /// A string of any kind.
    String,
    /// `$1`
    Parameter,
    /// A number.
    Number,
    /// Any other character.
    Sign(u8),
}

/// The tokens of a text from a place on, without spaces and comments.
pub(crate) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    fn end_of(&self, from: usize, is_part: impl Fn(&u8) -> bool) -> usize {
        let bytes = self.text.as_bytes();
        from + bytes[from..].iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len() - from)
    }

    /// The byte behind a quoted token whose first quote is at `at`.
    fn end_of_quoted(&self, at: usize, quote: u8, has_escapes: bool) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = at + 1;
        while end < bytes.len() {
            match bytes[end] {
                b'\\' if has_escapes => end += 2,
                byte if byte == quote && bytes.get(end + 1) == Some(&quote) => end += 2,
                byte if byte == quote => return end + 1,
                _ => end += 1,
            }
        }
        bytes.len()
    }

    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(byte) if byte.is_ascii_whitespace() || *byte == 0x0b => self.at += 1,
                Some(b'-') if bytes.get(self.at + 1) == Some(&b'-') => {
                    self.at = self.end_of(self.at, |byte| !matches!(byte, b'\n' | b'\r'));
                }
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'*') => {
                    let mut depth = 0;
                    while self.at < bytes.len() {
                        match &bytes[self.at..] {
                            [b'/', b'*', ..] => (depth, self.at) = (depth + 1, self.at + 2),
                            [b'*', b'/', ..] => (depth, self.at) = (depth - 1, self.at + 2),
                            _ => self.at += 1,
                        }
                        if depth == 0 {
                            break;
                        }
                    }
                }
                _ => return,
            }
        }
    }
}

impl Iterator for Tokens<'_> {
    type Item = (Token, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_blanks();
        let bytes = self.text.as_bytes();
        let start = self.at;
        let first = *bytes.get(start)?;
        let second = bytes.get(start + 1).copied();
        let (token, end) = match first {
            b'\'' => (Token::String, self.end_of_quoted(start, b'\'', false)),
            b'"' => (Token::Quoted, self.end_of_quoted(start, b'"', false)),
            b'e' | b'E' if second == Some(b'\'') => (Token::String, self.end_of_quoted(start + 1, b'\'', true)),
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if second == Some(b'\'') => {
                (Token::String, self.end_of_quoted(start + 1, b'\'', false))
            }
            b'u' | b'U' if second == Some(b'&') && matches!(bytes.get(start + 2), Some(b'\'' | b'"')) => {
                let quote = bytes[start + 2];
                let token = if quote == b'"' { Token::Quoted } else { Token::String };
                (token, self.end_of_quoted(start + 2, quote, false))
            }
            b'$' if second.is_some_and(|byte| byte.is_ascii_digit()) => {
                (Token::Parameter, self.end_of(start + 1, u8::is_ascii_digit))
            }
            b'$' => {
                // A dollar quote ends where its tag comes again.
                let tag_end = self.end_of(start + 1, |byte| *byte != b'$') + 1;
                let tag = self.text.get(start..tag_end).unwrap_or("$");
                let body = self.text.get(tag_end..).unwrap_or("");
                (Token::String, body.find(tag).map_or(bytes.len(), |at| tag_end + at + tag.len()))
            }
            b'0'..=b'9' => {
                (Token::Number, self.end_of(start, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_')))
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
                (Token::Word, self.end_of(start, is_part))
            }
            sign => (Token::Sign(sign), start + 1),
        };
        self.at = end;
        Some((token, start..end))
    }
}

/// The bytes of a name that begins at `at`: `table`, `schema.table`, quoted or not; `None` where that is not what
/// stands there, or a star follows.
pub(crate) fn name(text: &str, at: usize) -> Option<Range<usize>> {
    let mut tokens = Tokens::new(text, at).peekable();
    let is_name = |token: Token| matches!(token, Token::Word | Token::Quoted);
    let (first, place) = tokens.next()?;
    if !is_name(first) || place.start != at {
        return None;
    }
    let mut end = place.end;
    while tokens.peek().is_some_and(|(token, _)| *token == Token::Sign(b'.')) {
        tokens.next();
        let (token, place) = tokens.next()?;
        if !is_name(token) {
            return None;
        }
        end = place.end;
    }
    match tokens.peek() {
        Some((Token::Sign(b'*'), _)) => None,
        _ => Some(at..end),
    }
}

/// Whether a table's name at `at` can be given no alias there: behind TABLE, or within ONLY (...).
pub(crate) fn takes_no_alias(text: &str, at: usize) -> bool {
    let mut before = ["", ""];
    for (_, place) in Tokens::new(text, 0).take_while(|(_, place)| place.start < at) {
        before = [before[1], &text[place]];
    }
    let is = |token: &str, word: &str| token.eq_ignore_ascii_case(word);
    match before {
        [first, "("] => is(first, "only"),
        [first, second] => is(second, "table") || (is(second, "only") && is(first, "table")),
    }
}

/// Parentheses at the outermost level from a place on: each with its parentheses, up to the first other token but a comma.
pub(crate) fn lists(text: &str, at: usize) -> Vec<Range<usize>> {
    let mut lists = Vec::new();
    let mut depth = 0_usize;
    let mut start = at;
    for (token, place) in Tokens::new(text, at) {
        match token {
            Token::Sign(b'(') => {
                if depth == 0 {
                    start = place.start;
                }
                depth += 1;
            }
            Token::Sign(b')') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    lists.push(start..place.end);
                }
            }
            Token::Sign(b',') if depth == 0 => {}
            _ if depth == 0 => break,
            _ => {}
        }
    }
    lists
}

/// The items of a list without its parentheses, cut at its commas.
pub(crate) fn items(text: &str, list: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut items = Vec::new();
    let mut depth = 0_i32;
    let mut item: Option<Range<usize>> = None;
    for (token, place) in Tokens::new(text.get(..list.end)?, list.start) {
        match token {
            Token::Sign(b',') if depth == 0 => {
                items.push(item.take()?);
                continue;
            }
            Token::Sign(b'(' | b'[') => depth += 1,
            Token::Sign(b')' | b']') => depth -= 1,
            _ => {}
        }
        item = Some(item.map_or(place.start, |item| item.start)..place.end);
    }
    items.push(item?);
    Some(items)
}

/// Where a word stands outside of parentheses, from a place on.
pub(crate) fn word(text: &str, at: usize, wanted: &str) -> Option<Range<usize>> {
    let mut depth = 0_i32;
    Tokens::new(text, at).find_map(|(token, place)| {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') => depth -= 1,
            Token::Word if depth == 0 && text[place.clone()].eq_ignore_ascii_case(wanted) => return Some(place),
            _ => {}
        }
        None
    })
}

/// The parameters of a part of a text: where each stands, and its number from 0.
pub(crate) fn parameters(text: &str) -> Vec<(Range<usize>, u16)> {
    Tokens::new(text, 0)
        .filter(|(token, _)| *token == Token::Parameter)
        .filter_map(|(_, place)| {
            let number: u16 = text[place.start + 1..place.end].parse().ok()?;
            Some((place, number.checked_sub(1)?))
        })
        .collect()
}

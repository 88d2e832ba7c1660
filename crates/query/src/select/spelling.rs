//! Spellings of PostgreSQL that DataFusion's parser does not know, in the words that it knows.
//!
//! Called for the text of a query or of DML, which PostgreSQL's own parser has accepted before; works on that
//! parser's tokens, so that nothing inside quotes or comments is touched. What a text means stays the same.

use std::borrow::Cow;

use ashlar_base::{Error, Result};
use pg_query::protobuf::{ScanToken, Token};

use crate::grammar::may_lock;

mod items;
mod json;
mod names;

/// Marks the operand of `BETWEEN` behind which `SYMMETRIC` was said: an operator that PostgreSQL has no more, and that
/// `rewrite` takes away again.
pub(super) const SYMMETRIC_MARK: &str = "!!";

/// Two of the four strengths of locks, as the first part of a name behind `OF` of the next stronger ones that the parser knows; no user can
/// write it.
pub(crate) const NO_KEY_UPDATE_MARK: &str = "\u{1}no key update";
/// See [`NO_KEY_UPDATE_MARK`].
pub(crate) const KEY_SHARE_MARK: &str = "\u{1}key share";

/// The text in plain spelling.
///
/// # Errors
/// 0A000 for a spelling that would be misread.
pub(super) fn plain(text: &str) -> Result<Cow<'_, str>> {
    let constructed = json::constructed(text)?;
    let assigned = items::assigned(constructed.as_deref().unwrap_or(text));
    match assigned.or(constructed) {
        Some(changed) => spelt(&changed).map(|plain| Cow::Owned(plain.into_owned())),
        None => spelt(text),
    }
}

fn spelt(text: &str) -> Result<Cow<'_, str>> {
    if !is_suspicious(text) {
        return Ok(Cow::Borrowed(text));
    }
    match wrapped(text) {
        Some(wrapped) => words(&wrapped).map(|plain| Cow::Owned(plain.into_owned())),
        None => words(text),
    }
}

/// What the words of a text become, each by itself.
fn words(text: &str) -> Result<Cow<'_, str>> {
    let Some(tokens) = scanned(text) else { return Ok(Cow::Borrowed(text)) };
    let mut plain = String::with_capacity(text.len());
    let mut end = 0;
    let tokens = &tokens[..];
    let mut number = 0;
    while let Some(token) = tokens.get(number) {
        let (start, token_end) = range(token);
        let Some(word) = text.get(start..token_end) else { return Ok(Cow::Borrowed(text)) };
        if let Some((replacement, behind)) = respelt(text, tokens, number, word)? {
            plain.push_str(&text[end..start]);
            plain.push_str(&replacement);
            number += behind;
            end = range(&tokens[number]).1;
        }
        number += 1;
    }
    plain.push_str(&text[end..]);
    Ok(Cow::Owned(plain))
}

/// The tokens of a text, comments left out: what stands around these belongs together.
fn scanned(text: &str) -> Option<Vec<ScanToken>> {
    let mut tokens = pg_query::scan(text).ok()?.tokens;
    tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
    Some(tokens)
}

/// The plain spelling of the token with this number, and how many tokens behind it belong to it; `None` if it is plain already.
fn respelt(text: &str, tokens: &[ScanToken], number: usize, word: &str) -> Result<Option<(String, usize)>> {
    let before = number.checked_sub(1).and_then(|before| tokens.get(before));
    let mut behind = 0;
    let replacement: Option<String> = match tokens[number].token() {
        _ if names::is_name(tokens, number, word) => Some(format!("\"{}\"", word.to_ascii_lowercase())),
        Token::Isnull => Some("IS NULL".to_owned()),
        Token::Notnull => Some("IS NOT NULL".to_owned()),
        Token::Symmetric => Some(SYMMETRIC_MARK.to_owned()),
        // PostgreSQL ends such operators before a sign: `a>-1` is `a > -1`, and `j->-1` is `j -> -1`.
        _ if is_operator(word)
            && tokens.get(number + 1).is_some_and(|next| {
                range(next).0 == range(&tokens[number]).1 && matches!(next.token(), Token::Ascii43 | Token::Ascii45)
            }) =>
        {
            Some(format!("{word} "))
        }
        // `trim(LEADING FROM x)` is of spaces, and so is `trim(FROM x)`.
        Token::Leading | Token::Trailing | Token::Both
            if tokens.get(number + 1).is_some_and(|next| next.token() == Token::From) =>
        {
            Some(format!("{word} ' '"))
        }
        Token::From
            if number >= 2
                && tokens[number - 1].token() == Token::Ascii40
                && tokens[number - 2].token() == Token::Trim =>
        {
            Some("BOTH ' ' FROM".to_owned())
        }
        // `TABLE t` is a query; in no query is TABLE anything else.
        Token::Table => Some("SELECT * FROM".to_owned()),
        Token::Only
            if before.is_some_and(|before| {
                matches!(
                    before.token(),
                    Token::From
                        | Token::Join
                        | Token::Update
                        | Token::Using
                        | Token::Table
                        | Token::Ascii44
                        | Token::Ascii40
                )
            }) =>
        {
            Some(String::new())
        }
        // Whether it may be said is the planner's to know.
        Token::Overriding => match (tokens.get(number + 1), tokens.get(number + 2)) {
            (Some(system), Some(value))
                if matches!(system.token(), Token::SystemP | Token::User) && matches!(value.token(), Token::ValueP) =>
            {
                behind = 2;
                Some(String::new())
            }
            _ => None,
        },
        // Which is what a window's frame does that says nothing of it.
        Token::Exclude => match (tokens.get(number + 1), tokens.get(number + 2)) {
            (Some(no), Some(others)) if no.token() == Token::No && others.token() == Token::Others => {
                behind = 2;
                Some(String::new())
            }
            _ => None,
        },
        Token::For => lock(tokens, number).map(|(lock, words)| {
            behind = words;
            lock
        }),
        Token::Sconst if word.contains(['\n', '\r']) => joined(word).map(|joined| joined.to_owned()),
        Token::Usconst | Token::Uident => {
            let mut escape = '\\';
            if let (Some(next), Some(of)) = (tokens.get(number + 1), tokens.get(number + 2))
                && matches!(next.token(), Token::Uescape)
            {
                let (start, end) = range(of);
                escape = text.get(start..end).and_then(|of| of.trim_matches('\'').chars().next()).unwrap_or('\\');
                behind = 2;
            }
            Some(unicode(word, escape)?)
        }
        Token::Iconst | Token::Fconst if word.contains(['x', 'X', 'o', 'O', 'b', 'B', '_']) => Some(number_of(word)?),
        _ => None,
    };
    Ok(replacement.map(|replacement| (replacement, behind)))
}

/// `FOR NO KEY UPDATE` and `FOR KEY SHARE`, where the token with this number begins one, and how many tokens behind it belong to it.
fn lock(tokens: &[ScanToken], number: usize) -> Option<(String, usize)> {
    let is = |place: usize, word: Token| tokens.get(number + place).is_some_and(|token| token.token() == word);
    let (strength, mark, words) = if is(1, Token::No) && is(2, Token::Key) && is(3, Token::Update) {
        ("UPDATE", NO_KEY_UPDATE_MARK, 3)
    } else if is(1, Token::Key) && is(2, Token::Share) {
        ("SHARE", KEY_SHARE_MARK, 2)
    } else {
        return None;
    };
    // Tables that are named stand behind the mark.
    let (dot, words) = if is(words + 1, Token::Of) { (".", words + 1) } else { ("", words) };
    Some((format!("FOR {strength} OF \"{mark}\"{dot}"), words))
}

/// The words before lists of groups: the last one of GROUPING SETS.
const LISTS: [&str; 3] = ["rollup", "cube", "sets"];

/// Elements of ROLLUP, CUBE and GROUPING SETS that begin with a parenthesis and go on behind it get one more pair: `ROLLUP ((a)::text)` would be
/// read as a list of columns, and something behind it. `None` where there are none.
fn wrapped(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    if !LISTS.iter().any(|list| lower.contains(list)) {
        return None;
    }
    let tokens = &scanned(text)?[..];
    let word = |number: usize| {
        let (start, end) = range(tokens.get(number)?);
        text.get(start..end)
    };
    let opens = |number: usize| word(number) == Some("(");
    let mut inserted: Vec<(usize, char)> = Vec::new();
    for number in 0..tokens.len() {
        let begins_list = word(number).is_some_and(|word| LISTS.iter().any(|list| word.eq_ignore_ascii_case(list)))
            && opens(number + 1);
        if !begins_list {
            continue;
        }
        let begin = number + 2;
        let (mut first, mut depth) = (begin, 0_usize);
        // Where the parenthesis ends that the element begins with.
        let mut closed = None;
        for place in begin..tokens.len() {
            let word = word(place);
            let is_end = depth == 0 && matches!(word, Some("," | ")"));
            match word {
                Some("(") => depth += 1,
                Some(")") if depth > 0 => {
                    depth -= 1;
                    if depth == 0 && closed.is_none() {
                        closed = Some(place);
                    }
                }
                _ => {}
            }
            if !is_end {
                continue;
            }
            if opens(first) && closed.is_some_and(|closed| closed + 1 < place) {
                inserted.push((range(&tokens[first]).0, '('));
                inserted.push((range(&tokens[place - 1]).1, ')'));
            }
            if word == Some(")") {
                break;
            }
            (first, closed) = (place + 1, None);
        }
    }
    if inserted.is_empty() {
        return None;
    }
    inserted.sort_by_key(|(place, _)| *place);
    let (mut result, mut end) = (String::with_capacity(text.len() + inserted.len()), 0);
    for (place, parenthesis) in inserted {
        result.push_str(text.get(end..place)?);
        result.push(parenthesis);
        end = place;
    }
    result.push_str(text.get(end..)?);
    Some(result)
}

/// Whether it is worth to look at the tokens.
fn is_suspicious(text: &str) -> bool {
    const WORDS: [&str; 13] = [
        "overriding",
        "isnull",
        "notnull",
        "symmetric",
        "table",
        "only",
        "u&'",
        "u&\"",
        "trim",
        "rollup",
        "cube",
        "grouping",
        "others",
    ];
    let lower = text.to_ascii_lowercase();
    let has_number = || {
        let bytes = lower.as_bytes();
        bytes.windows(2).any(|pair| {
            pair[0].is_ascii_digit()
                && (matches!(pair[1], b'_') || pair[0] == b'0' && matches!(pair[1], b'x' | b'o' | b'b'))
        })
    };
    // A comment is not one, nor is what begins one.
    let is_glued = |pair: &[u8]| OPERATORS.contains(&pair[0]) && matches!(pair[1], b'-' | b'+') && pair != b"--";
    WORDS.iter().any(|word| lower.contains(word))
        || names::may_be_there(&lower)
        || text.as_bytes().windows(2).any(is_glued)
        || (text.contains('\'') && text.contains(['\n', '\r']))
        || has_number()
        || (lower.contains("key") && may_lock(text))
}

/// What operators are made of.
const OPERATORS: &[u8] = b"+-*/<>=~!@#%^&|`?";

fn is_operator(word: &str) -> bool {
    word.bytes().all(|byte| OPERATORS.contains(&byte))
}

fn range(token: &ScanToken) -> (usize, usize) {
    (usize::try_from(token.start).unwrap_or(0), usize::try_from(token.end).unwrap_or(0))
}

/// `0x1F` and `1_000` in plain digits.
///
/// # Errors
/// 0A000 for one of more digits than a number of 128 bits has.
fn number_of(word: &str) -> Result<String> {
    let digits = word.replace('_', "");
    let lower = digits.to_ascii_lowercase();
    let based = [("0x", 16), ("0o", 8), ("0b", 2)];
    let Some((base, rest)) = based.iter().find_map(|(prefix, base)| Some((*base, lower.strip_prefix(prefix)?))) else {
        return Ok(digits);
    };
    let value = u128::from_str_radix(rest, base)
        .map_err(|_| Error::unsupported(format!("the number {word} is not supported: it is too large")))?;
    Ok(value.to_string())
}

/// A constant that goes on in the next line, in one piece; `None` where it does not.
fn joined(word: &str) -> Option<String> {
    let (prefix, quoted) = word.split_at(word.find('\'')?);
    let escapes = prefix.eq_ignore_ascii_case("e");
    if !prefix.is_empty() && !escapes {
        return None;
    }
    let mut result = String::from(prefix);
    result.push('\'');
    let mut characters = quoted.chars().skip(1).peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if escapes => {
                result.push(character);
                result.extend(characters.next());
            }
            '\'' if characters.peek() == Some(&'\'') => {
                result.push_str("''");
                characters.next();
            }
            '\'' => {
                // What lies between two pieces is white space, or a comment to the end of a line.
                let mut in_comment = false;
                for between in characters.by_ref() {
                    match between {
                        '\n' | '\r' => in_comment = false,
                        '-' => in_comment = true,
                        '\'' if !in_comment => break,
                        _ => {}
                    }
                }
            }
            other => result.push(other),
        }
    }
    result.push('\'');
    Some(result)
}

/// `U&'d\0061t'` and `U&"..."` with the characters themselves.
fn unicode(word: &str, escape: char) -> Result<String> {
    let wrong = || Error::new(ashlar_base::ErrorCode::SyntaxError, "invalid Unicode escape");
    let quoted = word.get(2..).ok_or_else(wrong)?;
    let mut result = String::new();
    let mut characters = quoted.chars().peekable();
    let mut units: Vec<u16> = Vec::new();
    while let Some(character) = characters.next() {
        if character != escape {
            if !units.is_empty() {
                return Err(wrong());
            }
            result.push(character);
            continue;
        }
        if characters.peek() == Some(&escape) {
            characters.next();
            result.push(escape);
            continue;
        }
        let digits = if characters.peek() == Some(&'+') {
            characters.next();
            6
        } else {
            4
        };
        let hex: String = characters.by_ref().take(digits).collect();
        let code = u32::from_str_radix(&hex, 16).map_err(|_| wrong())?;
        match (u16::try_from(code), char::from_u32(code)) {
            (_, Some('\'')) => result.push_str("''"),
            (_, Some(character)) if units.is_empty() => result.push(character),
            // Two halves of a surrogate pair.
            (Ok(unit), _) => {
                units.push(unit);
                if units.len() == 2 {
                    result.push_str(&String::from_utf16(&units).map_err(|_| wrong())?);
                    units.clear();
                }
            }
            _ => return Err(wrong()),
        }
    }
    if units.is_empty() { Ok(result) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;

//! `UPDATE t SET array[2] = x` as an assignment of the whole array: the engine's parser takes names of columns there only.
//!
//! ```text
//!   SET array[2] = x   ->   SET array = "array with item"(array, 2, x)
//! ```

use ashlar_functions::arrays::WITH_ITEM;
use pg_query::protobuf::Token;

use super::range;

/// The text with such assignments said otherwise; `None` where there are none, or where one is of another form: slices and several subscripts
/// are left to the parser, which refuses them.
pub(super) fn assigned(text: &str) -> Option<String> {
    if !text.contains('[') || !text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("update")) {
        return None;
    }
    let scanned = pg_query::scan(text).ok()?;
    let tokens = &scanned.tokens;
    let word = |number: usize| {
        let (start, end) = range(tokens.get(number)?);
        text.get(start..end)
    };
    let mut place = tokens.iter().position(|token| token.token() == Token::Set)? + 1;
    // What stands in the place of which part of the text.
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    loop {
        let mut value = place;
        if word(place + 1) == Some("[") {
            let close = closing(place + 1, &word)?;
            if word(close + 1) != Some("=") || (place + 2..close).any(|number| word(number) == Some(":")) {
                return None;
            }
            let (name_start, name_end) = range(tokens.get(place)?);
            let (first, last) = (range(tokens.get(place + 2)?).0, range(tokens.get(close - 1)?).1);
            let (name, subscript) = (text.get(name_start..name_end)?, text.get(first..last)?);
            let said = format!(" = \"{WITH_ITEM}\"({name}, {subscript},");
            edits.push((name_end, range(tokens.get(close + 1)?).1, said));
            value = close + 2;
        }
        let is_item = value > place;
        let mut depth = 0_usize;
        let mut end = value;
        while let Some(token) = tokens.get(end) {
            let is_end = match token.token() {
                Token::Where | Token::Returning => true,
                Token::From => end.checked_sub(1).is_none_or(|before| tokens[before].token() != Token::Distinct),
                _ => matches!(word(end), Some("," | ";")),
            };
            if depth == 0 && is_end {
                break;
            }
            match word(end) {
                Some("(" | "[") => depth += 1,
                Some(")" | "]") => depth = depth.checked_sub(1)?,
                _ => {}
            }
            end += 1;
        }
        if is_item {
            let behind = range(tokens.get(end.checked_sub(1)?)?).1;
            edits.push((behind, behind, ")".to_owned()));
        }
        if word(end) != Some(",") {
            break;
        }
        place = end + 1;
    }
    if edits.is_empty() {
        return None;
    }
    let (mut result, mut copied) = (String::with_capacity(text.len() + 32 * edits.len()), 0);
    for (start, end, said) in edits {
        result.push_str(text.get(copied..start)?);
        result.push_str(&said);
        copied = end;
    }
    result.push_str(text.get(copied..)?);
    Some(result)
}

/// The bracket that ends what begins with one.
fn closing<'t>(open: usize, word: &impl Fn(usize) -> Option<&'t str>) -> Option<usize> {
    let mut depth = 0_usize;
    let mut number = open;
    loop {
        match word(number)? {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            // Nothing in it is no subscript.
            return (number > open + 1).then_some(number);
        }
        number += 1;
    }
}

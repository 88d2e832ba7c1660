//! Rewrites patterns to the one form that the engine matches: LIKE with the backslash as escape, and regular
//! expressions.

use ashlar_base::{Error, ErrorCode, Result};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

use crate::select::nodes::call;

/// What a statement says about ESCAPE.
pub(super) enum Escape {
    /// Nothing, or the backslash.
    Backslash,
    /// Another character, or none at all.
    Of(Option<char>),
    /// NULL: so is the result.
    Null,
}

/// Reads ESCAPE.
pub(super) fn escape(value: Option<&ValueWithSpan>) -> Result<Escape> {
    let Some(value) = value else { return Ok(Escape::Backslash) };
    let text = match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
        Value::Null => return Ok(Escape::Null),
        _ => return Err(Error::unsupported("an ESCAPE that is not a constant is not supported")),
    };
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (None, _) => Ok(Escape::Of(None)),
        (Some('\\'), None) => Ok(Escape::Backslash),
        (Some(character), None) => Ok(Escape::Of(Some(character))),
        _ => Err(Error::new(ErrorCode::InvalidEscapeSequence, "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

/// A pattern of LIKE with the backslash for its escape; one that is not a constant is written so for each row.
pub(super) fn like(pattern: &Expr, escape: Option<char>) -> Result<Expr> {
    let Some(text) = text_of(pattern) else {
        let escape = escape.map(String::from).unwrap_or_default();
        return Ok(call("like_escape", vec![pattern.clone(), Expr::value(Value::SingleQuotedString(escape))]));
    };
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            match characters.next() {
                Some(escaped) => plain.extend(['\\', escaped]),
                None => {
                    return Err(Error::new(
                        ErrorCode::InvalidEscapeSequence,
                        "LIKE pattern must not end with escape character",
                    ));
                }
            }
        } else if character == '\\' {
            plain.push_str("\\\\");
        } else {
            plain.push(character);
        }
    }
    Ok(Expr::value(Value::SingleQuotedString(plain)))
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => text_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            Value::DollarQuotedString(quoted) => Some(&quoted.value),
            _ => None,
        },
        _ => None,
    }
}

/// `expr SIMILAR TO pattern` as a regular expression that must match the whole text.
pub(super) fn similar(expr: &Expr, pattern: &Expr, escape: Option<char>, negated: bool) -> Result<Expr> {
    let Some(text) = text_of(pattern) else {
        return Err(Error::unsupported("SIMILAR TO a pattern that is not a constant is not supported"));
    };
    let regex = Expr::value(Value::SingleQuotedString(regex(text, escape)?));
    let op = if negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let matched = Expr::BinaryOp { left: Box::new(expr.clone()), op, right: Box::new(regex) };
    Ok(Expr::Nested(Box::new(matched)))
}

/// Source: `similar_escape_internal` of PostgreSQL's regexp.c, as documented under "SIMILAR TO Regular Expressions".
fn regex(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut regex = String::from("^(?s:");
    let (mut in_brackets, mut in_braces) = (false, false);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let Some(escaped) = characters.next() else {
                return Err(Error::new(ErrorCode::InvalidEscapeSequence, "invalid escape sequence"));
            };
            if escaped == '"' {
                return Err(Error::unsupported("a pattern with an escaped double quote is not supported"));
            }
            push_literal(&mut regex, escaped);
            continue;
        }
        match character {
            ']' if in_brackets => {
                in_brackets = false;
                regex.push(']');
            }
            '\\' | '[' if in_brackets => regex.extend(['\\', character]),
            other if in_brackets => regex.push(other),
            '[' => {
                in_brackets = true;
                regex.push('[');
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '{' | '}' => {
                in_braces = character == '{';
                regex.push(character);
            }
            other if in_braces => regex.push(other),
            '|' | '*' | '+' | '?' | ')' => regex.push(character),
            other => push_literal(&mut regex, other),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

fn push_literal(regex: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(character);
}

#[cfg(test)]
mod tests;

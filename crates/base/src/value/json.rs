//! `json` is checked and kept as it was written; `jsonb` is normalised to the text that PostgreSQL shows.
//!
//! Called by `text` and `binary`. Never recurses: nesting is counted and refused beyond a depth.
//!
//! Normalised: no white space but one space after `:` and `,`; keys in order of their length, then of their bytes,
//! each once with its last value; numbers as `numeric` writes them; escapes only where JSON demands them.

use crate::Result;

mod lexer;
mod normal;

use lexer::{Lexer, Token, TokenKind};

/// Arrays and objects within each other; PostgreSQL's own limit depends on its stack and is some thousands.
const DEPTH_MAX: usize = 1000;

/// Checks that a text is JSON.
pub fn check(text: &str) -> Result<()> {
    walk(text, false, |_| Ok(()))
}

/// The normalised text of a JSON text.
pub fn normalize(text: &str) -> Result<String> {
    normal::normalize(text)
}

/// What a JSON text is made of, in order.
enum Event<'a> {
    /// A key or a value that is a string, with its quotes; `true` for a key.
    String(&'a str, bool),
    /// A number, `true`, `false` or `null`.
    Plain(&'a str, TokenKind),
    /// `{` or `[`
    Open(TokenKind),
    /// `}` or `]`
    Close(TokenKind),
}

/// What may come next within an array, an object or the whole text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    KeyOrEnd,
    /// After a comma in an object.
    Key,
    Colon,
    /// After a value in an array or object.
    CommaOrEnd,
    End,
}

/// Goes through a text and reports its events; `decode` checks what escapes mean, as `jsonb` does and `json` does not.
fn walk<'a>(text: &'a str, decode: bool, mut visit: impl FnMut(Event<'a>) -> Result<()>) -> Result<()> {
    let mut lexer = Lexer::new(text);
    // Whether each enclosing container is an object.
    let mut stack: Vec<bool> = Vec::new();
    let mut expect = Expect::Value;
    loop {
        let token = lexer.token(decode)?;
        let after_value = |stack: &[bool]| if stack.is_empty() { Expect::End } else { Expect::CommaOrEnd };
        expect = match (expect, token.kind) {
            (Expect::End, TokenKind::Eof) => return Ok(()),
            (Expect::Key | Expect::KeyOrEnd, TokenKind::String) => {
                visit(Event::String(token.text, true))?;
                Expect::Colon
            }
            (Expect::Colon, TokenKind::Colon) => Expect::Value,
            (Expect::Value | Expect::ValueOrEnd, TokenKind::String) => {
                visit(Event::String(token.text, false))?;
                after_value(&stack)
            }
            (
                Expect::Value | Expect::ValueOrEnd,
                kind @ (TokenKind::Number | TokenKind::True | TokenKind::False | TokenKind::Null),
            ) => {
                visit(Event::Plain(token.text, kind))?;
                after_value(&stack)
            }
            (Expect::Value | Expect::ValueOrEnd, kind @ (TokenKind::OpenObject | TokenKind::OpenArray)) => {
                if stack.len() == DEPTH_MAX {
                    return Err(lexer::too_deep(DEPTH_MAX));
                }
                visit(Event::Open(kind))?;
                let object = kind == TokenKind::OpenObject;
                stack.push(object);
                if object { Expect::KeyOrEnd } else { Expect::ValueOrEnd }
            }
            (Expect::KeyOrEnd, kind @ TokenKind::CloseObject) | (Expect::ValueOrEnd, kind @ TokenKind::CloseArray) => {
                visit(Event::Close(kind))?;
                stack.pop();
                after_value(&stack)
            }
            (Expect::CommaOrEnd, TokenKind::Comma) => {
                if stack.last() == Some(&true) {
                    Expect::Key
                } else {
                    Expect::Value
                }
            }
            (Expect::CommaOrEnd, kind @ (TokenKind::CloseObject | TokenKind::CloseArray))
                if stack.last() == Some(&(kind == TokenKind::CloseObject)) =>
            {
                visit(Event::Close(kind))?;
                stack.pop();
                after_value(&stack)
            }
            (expect, _) => return Err(unexpected(expect, token, stack.last().copied())),
        };
    }
}

fn unexpected(expect: Expect, token: Token<'_>, in_object: Option<bool>) -> crate::Error {
    if token.kind == TokenKind::Eof {
        return lexer::invalid("The input string ended unexpectedly.");
    }
    let wanted = match (expect, in_object) {
        (Expect::Value | Expect::ValueOrEnd, _) => "JSON value",
        (Expect::KeyOrEnd, _) => "string or \"}\"",
        (Expect::Key, _) => "string",
        (Expect::Colon, _) => "\":\"",
        (Expect::CommaOrEnd, Some(true)) => "\",\" or \"}\"",
        (Expect::CommaOrEnd, _) => "\",\" or \"]\"",
        (Expect::End, _) => "end of input",
    };
    lexer::invalid(format!("Expected {wanted}, but found \"{}\".", token.text))
}

#[cfg(test)]
mod tests;

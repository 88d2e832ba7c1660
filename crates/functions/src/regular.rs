//! Regular expressions of PostgreSQL's kind as the engine's spell them: what both know is passed through, what only one
//! of them knows is said in the other's words or refused.
//!
//! Source: PostgreSQL's documentation, "POSIX Regular Expressions", of advanced ones.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::DataType;
use ashlar_base::{Error, ErrorCode, Result};
use datafusion_common::{ScalarValue, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Cast, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::external;

/// How a pattern begins that was made of one of SIMILAR TO: it is in the engine's words already.
pub const SIMILAR: &str = "^(?s:";

/// What a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Whether there is a match.
    Answer,
    /// Where the match ends, or what is in it.
    Match,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spelling {
    wanted: Wanted,
    signature: Signature,
}

impl Spelling {
    fn udf(wanted: Wanted) -> Arc<ScalarUDF> {
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { wanted, signature }))
    }
}

static OF_ANSWERS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Spelling::udf(Wanted::Answer));
static OF_MATCHES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Spelling::udf(Wanted::Match));

/// The pattern as the engine spells it; an expression that is so already stays.
///
/// # Errors
/// As [`spelt_for`], of a constant.
pub fn pattern(expr: Expr, wanted: Wanted) -> Result<Option<Expr>> {
    match &expr {
        Expr::ScalarFunction(function) if function.func.name() == OF_ANSWERS.name() => return Ok(None),
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
            spelt_for(text, wanted)?;
        }
        Expr::Literal(ScalarValue::Utf8(None) | ScalarValue::Null, _) => return Ok(None),
        _ => {}
    }
    let text = Expr::Cast(Cast::new(Box::new(expr), DataType::Utf8));
    let func = match wanted {
        Wanted::Answer => &OF_ANSWERS,
        Wanted::Match => &OF_MATCHES,
    };
    Ok(Some(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(func), args: vec![text] })))
}

impl ScalarUDFImpl for Spelling {
    fn name(&self) -> &str {
        "regular expression"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> datafusion_common::Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion_common::Result<ColumnarValue> {
        let Some(pattern) = args.args.first() else { return internal_err!("one pattern") };
        if let ColumnarValue::Scalar(ScalarValue::Utf8(text)) = pattern {
            let text = text.as_deref().map(|text| spelt_for(text, self.wanted)).transpose().map_err(external)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(text)));
        }
        let patterns = pattern.to_array(args.number_rows)?;
        let mut builder = StringBuilder::new();
        for text in patterns.as_string::<i32>() {
            builder.append_option(text.map(|text| spelt_for(text, self.wanted)).transpose().map_err(external)?);
        }
        Ok(ColumnarValue::Array(Arc::new(builder.finish()) as ArrayRef))
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("{what} in a regular expression is not supported"))
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorCode::InvalidRegularExpression, format!("invalid regular expression: {what}"))
}

/// The pattern in the engine's words, for what is wanted of it.
///
/// # Errors
/// As [`spelt`]; 0A000 for a pattern whose match ends elsewhere than PostgreSQL's may.
pub fn spelt_for(pattern: &str, wanted: Wanted) -> Result<String> {
    let spelt = spelt(pattern)?;
    if wanted == Wanted::Match && !pattern.starts_with(SIMILAR) && is_mixed(pattern) {
        return Err(refused("a greedy quantifier beside one that is not"));
    }
    Ok(spelt)
}

/// Whether some quantifiers of a pattern are greedy and others are not: in PostgreSQL the first one says of the whole match whether it is the
/// longest or the shortest, in the engine each says it of its own part. It is the same where the match is all of the text.
fn is_mixed(pattern: &str) -> bool {
    let (mut is_greedy, mut is_lazy, mut has_branches) = (false, false, false);
    let mut characters = pattern.chars().peekable();
    let mut last = None;
    while let Some(character) = characters.next() {
        last = Some(character);
        match character {
            '\\' => {
                characters.next();
                last = None;
            }
            '[' => {
                // The first one is of the set, even a bracket.
                characters.next_if_eq(&'^');
                characters.next_if_eq(&']');
                let mut is_class = false;
                while let Some(inner) = characters.next() {
                    match inner {
                        '\\' => {
                            characters.next();
                        }
                        '[' if characters.next_if(|next| matches!(next, ':' | '.' | '=')).is_some() => is_class = true,
                        ']' if is_class => is_class = false,
                        ']' => break,
                        _ => {}
                    }
                }
            }
            '(' if characters.next_if_eq(&'?').is_some() => {
                characters.next();
            }
            '|' => has_branches = true,
            '{' if !characters.peek().is_some_and(char::is_ascii_digit) => {}
            '*' | '+' | '?' | '{' => {
                let mut is_exact = false;
                if character == '{' {
                    let count: String = characters.by_ref().take_while(|inner| *inner != '}').collect();
                    is_exact = !count.contains(',');
                }
                let is_of_few = characters.next_if_eq(&'?').is_some();
                is_lazy |= is_of_few && !is_exact;
                is_greedy |= !is_of_few && !is_exact;
            }
            _ => {}
        }
    }
    let is_whole = pattern.starts_with('^') && last == Some('$') && !has_branches;
    is_lazy && is_greedy && !is_whole
}

/// The pattern in the engine's words.
///
/// # Errors
/// 0A000 for what the engine has not, 2201B for what is no pattern.
pub fn spelt(pattern: &str) -> Result<String> {
    if pattern.starts_with(SIMILAR) {
        return Ok(pattern.to_owned());
    }
    if pattern.starts_with("***") {
        return Err(refused("a director"));
    }
    // The dot is any character, an end of line too.
    let mut out = String::with_capacity(pattern.len() + 4);
    if pattern.contains('.') {
        out.push_str("(?s)");
    }
    let mut characters = pattern.chars().peekable();
    let mut is_first = true;
    while let Some(character) = characters.next() {
        match character {
            '\\' => escape(&mut characters, &mut out)?,
            '[' => brackets(&mut characters, &mut out)?,
            '(' if characters.peek() == Some(&'?') => group(&mut characters, is_first, &mut out)?,
            // A brace that begins no count stands for itself.
            '{' if !characters.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            other => out.push(other),
        }
        is_first = false;
    }
    Ok(out)
}

/// `(?:` and, at the very beginning, `(?i)`.
fn group(characters: &mut Peekable<Chars<'_>>, is_first: bool, out: &mut String) -> Result<()> {
    characters.next();
    match characters.next() {
        Some(':') => out.push_str("(?:"),
        Some('=' | '!' | '<') => return Err(refused("a look ahead or behind")),
        Some(first) if is_first => {
            let mut flags = String::from(first);
            loop {
                match characters.next() {
                    Some(')') => break,
                    Some(flag) => flags.push(flag),
                    None => return Err(invalid("parentheses () not balanced")),
                }
            }
            match flags.as_str() {
                "i" => out.push_str("(?i)"),
                "c" | "s" => {}
                _ => return Err(refused("an embedded option other than i, c and s")),
            }
        }
        _ => return Err(invalid("quantifier operand invalid")),
    }
    Ok(())
}

fn escape(characters: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<()> {
    let Some(character) = characters.next() else { return Err(invalid("invalid escape \\ sequence")) };
    match character {
        'y' => out.push_str("\\b"),
        'Y' => out.push_str("\\B"),
        'm' => out.push_str("\\b{start}"),
        'M' => out.push_str("\\b{end}"),
        'A' => out.push_str("\\A"),
        'Z' => out.push_str("\\z"),
        'B' => out.push_str("\\\\"),
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        's' | 'S' | 'w' | 'W' => out.extend(['\\', character]),
        '1'..='9' => return Err(refused("a back reference")),
        other => out.push_str(&one(other)?),
    }
    Ok(())
}

/// An escape that stands for one character.
fn one(escaped: char) -> Result<String> {
    Ok(match escaped {
        'a' => "\\x07".to_owned(),
        'b' => "\\x08".to_owned(),
        'e' => "\\x1B".to_owned(),
        'f' | 'n' | 'r' | 't' | 'v' => format!("\\{escaped}"),
        other if other.is_ascii_alphanumeric() => return Err(refused(&format!("the escape \\{other}"))),
        other => literal(other),
    })
}

/// A character for itself, wherever it stands.
fn literal(character: char) -> String {
    if character.is_ascii_punctuation() { format!("\\{character}") } else { character.to_string() }
}

/// What stands between brackets, where the engine knows operators and brackets within.
fn brackets(characters: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<()> {
    let unbalanced = || invalid("brackets [] not balanced");
    let rest: String = characters.clone().take(6).collect();
    for (edge, word) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
        if rest == edge {
            characters.nth(5);
            out.push_str(word);
            return Ok(());
        }
    }
    out.push('[');
    if characters.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    loop {
        let character = characters.next().ok_or_else(unbalanced)?;
        match character {
            ']' if !is_first => break,
            '[' if matches!(characters.peek(), Some('.' | '=')) => return Err(refused("a collating element")),
            '[' if characters.next_if_eq(&':').is_some() => {
                let mut name = String::new();
                loop {
                    match characters.next().ok_or_else(unbalanced)? {
                        ':' => break,
                        letter => name.push(letter),
                    }
                }
                characters.next_if_eq(&']').ok_or_else(unbalanced)?;
                out.push_str(class(&name)?);
            }
            '\\' => match characters.next().ok_or_else(unbalanced)? {
                'd' => out.push_str("0-9"),
                class @ ('s' | 'w') => out.extend(['\\', class]),
                other => out.push_str(&one(other)?),
            },
            // Between two characters it makes a range of them.
            '-' if !is_first && characters.peek().is_some_and(|next| *next != ']') && !out.ends_with("\\-") => {
                out.push('-');
                if characters.next_if_eq(&'-').is_some() {
                    out.push_str("\\-");
                }
            }
            other => out.push_str(&literal(other)),
        }
        is_first = false;
    }
    out.push(']');
    Ok(())
}

/// A class of characters, as the system's C.UTF-8 has them.
fn class(name: &str) -> Result<&'static str> {
    Ok(match name {
        "alpha" => "\\p{Alphabetic}",
        "alnum" => "\\p{Alphabetic}0-9",
        "digit" => "0-9",
        "lower" => "\\p{Lowercase}",
        "upper" => "\\p{Uppercase}",
        "space" => "\\s",
        "word" => "\\w",
        "punct" => "[:punct:]",
        "blank" => "[:blank:]",
        "cntrl" => "[:cntrl:]",
        "xdigit" => "[:xdigit:]",
        "graph" | "print" => return Err(refused("this class of characters")),
        _ => return Err(invalid("invalid character class")),
    })
}

#[cfg(test)]
mod tests {
    use super::{is_mixed, spelt};

    #[test]
    fn quantifiers_of_two_kinds_are_told() {
        for pattern in
            ["Y*?([0-9]{1,3})", "([a-z]+?)([0-9]+)", "(.*?)X(.*)", "a{1,2}?b*", "^(a*?)(b*)", "^a*?b*$|c", "[]*?]+b*?"]
        {
            assert!(is_mixed(pattern), "{pattern}");
        }
        for pattern in ["<.*?>", "a+b*", "^(.*?)X(.*)$", "a{3}b*?", "[*?]+x", "a\\*?b+", "(?:a*)(b+)", "[[:alpha:]*?]+"]
        {
            assert!(!is_mixed(pattern), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_said_in_the_engines_words() {
        for (pattern, expected) in [
            ("a.b", "(?s)a.b"),
            ("[a&&b]", "[a\\&\\&b]"),
            ("[]a-z-]", "[\\]a-z\\-]"),
            ("[^[:alpha:]_]", "[^\\p{Alphabetic}\\_]"),
            ("\\mword\\M", "\\b{start}word\\b{end}"),
            ("a{", "a\\{"),
            ("a{2,3}", "a{2,3}"),
            ("x\\.y", "(?s)x\\.y"),
            ("^(?s:a)$", "^(?s:a)$"),
        ] {
            assert_eq!(
                spelt(pattern).map_err(|error| error.message().to_owned()),
                Ok(expected.to_owned()),
                "{pattern}"
            );
        }
        for refused in ["(a)\\1", "a(?=b)", "[[.a.]]", "***=a", "[a"] {
            assert!(spelt(refused).is_err(), "{refused}");
        }
    }
}

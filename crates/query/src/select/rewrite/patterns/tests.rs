//! Patterns in the form that the engine matches.

use super::{like, regex};
use datafusion::sql::sqlparser::ast::{Expr, Value};

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

#[test]
fn an_escape_becomes_the_backslash() {
    for (pattern, escape, expected) in [
        ("a!_c", Some('!'), r"a\_c"),
        ("a!!c", Some('!'), r"a\!c"),
        (r"a\c", Some('!'), r"a\\c"),
        (r"a\c", None, r"a\\c"),
        ("a%", None, "a%"),
    ] {
        assert_eq!(like(&text(pattern), escape).unwrap(), text(expected), "{pattern}");
    }
    assert!(like(&text("abc!"), Some('!')).is_err());
}

#[test]
fn similar_to_is_a_regular_expression_of_the_whole() {
    for (pattern, expected) in [
        ("(a|b)%", "^(?s:(?:a|b).*)$"),
        ("a.c", r"^(?s:a\.c)$"),
        ("_b_", "^(?s:.b.)$"),
        ("a{1,2}b", "^(?s:a{1,2}b)$"),
        ("[a-c]+", "^(?s:[a-c]+)$"),
        (r"a\%c", r"^(?s:a\%c)$"),
    ] {
        assert_eq!(regex(pattern, Some('\\')).unwrap(), expected, "{pattern}");
    }
}

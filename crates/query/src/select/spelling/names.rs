//! Names that are words of other databases to the parser, and that it would take for these: `SELECT a FROM t sample`.

use pg_query::protobuf::{ScanToken, Token};

use super::range;

/// Words that are names wherever PostgreSQL has them, but before a parenthesis.
const NAMES: [&str; 34] = [
    "anti",
    "asof",
    "cluster",
    "connect",
    "cube",
    "distribute",
    "div",
    "exists",
    "explain",
    "format",
    "global",
    "match",
    "member",
    "minus",
    "open",
    "operator",
    "output",
    "pivot",
    "prewhere",
    "qualify",
    "regexp",
    "rlike",
    "rollup",
    "sample",
    "semi",
    "settings",
    "sort",
    "start",
    "top",
    "trim",
    "unnest",
    "unpivot",
    "view",
    "xor",
];

/// Words that PostgreSQL has a meaning for in queries too.
const SOMETIMES: [&str; 9] =
    ["exclude", "interval", "isnull", "notnull", "only", "partition", "recursive", "symmetric", "table"];

/// Whether there may be such a name in a text in small letters.
pub(super) fn may_be_there(lower: &str) -> bool {
    NAMES.iter().chain(&SOMETIMES).any(|word| lower.contains(word))
}

/// Whether the token with this number is such a name. A quoted one is none of these words.
pub(super) fn is_name(tokens: &[ScanToken], number: usize, word: &str) -> bool {
    let is_one = |words: &[&str]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    let at = |place: usize| tokens.get(place).map(ScanToken::token);
    let (before, next) = (number.checked_sub(1).and_then(at), at(number + 1));
    if is_one(&NAMES) {
        // At the beginning of a text such a word is a command. `FORMAT JSON` belongs to what it stands behind, and `IF NOT EXISTS` to a command.
        let is_of_command = before == Some(Token::IfP)
            || before == Some(Token::Not) && number.checked_sub(2).and_then(at) == Some(Token::IfP);
        return before.is_some()
            && !is_of_command
            && next != Some(Token::Ascii40)
            && !(word.eq_ignore_ascii_case("format") && next == Some(Token::Json));
    }
    if !is_one(&SOMETIMES) {
        return false;
    }
    // What is said behind AS is a label, whatever word it is; but `CREATE TABLE ... AS TABLE t` has a query there.
    let is_label = before == Some(Token::As)
        && (tokens[number].token() != Token::Table
            || matches!(
                next,
                None | Some(
                    Token::From
                        | Token::Where
                        | Token::GroupP
                        | Token::Having
                        | Token::Order
                        | Token::Limit
                        | Token::Offset
                        | Token::Union
                        | Token::Except
                        | Token::Intersect
                        | Token::Ascii44
                        | Token::Ascii41
                        | Token::Ascii59
                )
            ));
    match tokens[number].token() {
        Token::Partition => next != Some(Token::By),
        Token::Exclude => !matches!(next, Some(Token::No | Token::CurrentP | Token::GroupP | Token::Ties)),
        // `WITH recursive AS (...)`
        Token::Recursive => next == Some(Token::As),
        // As a type it stands before its constant, or behind what is of it.
        Token::Interval => {
            !matches!(next, Some(Token::Sconst | Token::Usconst | Token::Ascii40))
                && before.is_some_and(|before| {
                    matches!(
                        before,
                        Token::Select
                            | Token::Distinct
                            | Token::All
                            | Token::Ascii44
                            | Token::Ascii40
                            | Token::By
                            | Token::Where
                            | Token::Having
                            | Token::On
                            | Token::And
                            | Token::Or
                            | Token::Not
                            | Token::Case
                            | Token::When
                            | Token::Then
                            | Token::Else
                            | Token::Set
                            | Token::Returning
                            | Token::InP
                            | Token::Between
                            | Token::Ascii91
                    ) || is_sign(tokens, number - 1)
                })
        }
        _ => is_label,
    }
}

/// Whether this token is an operator of one sign, or of several.
fn is_sign(tokens: &[ScanToken], number: usize) -> bool {
    let (start, end) = range(&tokens[number]);
    let is_one_sign = end == start + 1;
    match tokens[number].token() {
        Token::Op | Token::LessEquals | Token::GreaterEquals | Token::NotEquals => true,
        Token::Ascii37
        | Token::Ascii94
        | Token::Ascii43
        | Token::Ascii45
        | Token::Ascii42
        | Token::Ascii47
        | Token::Ascii60
        | Token::Ascii61
        | Token::Ascii62 => is_one_sign,
        _ => false,
    }
}

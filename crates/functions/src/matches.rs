//! Functions of regular expressions that look for several matches: where each of them begins and ends, as PostgreSQL
//! goes from one to the next.
//!
//! Source: `setup_regexp_matches` of PostgreSQL's regexp.c and `replace_text_regexp` of its varlena.c. What a pattern is
//! in the engine's words is said by [`super::regular`]; the other functions of patterns are the engine's own.

use std::cell::RefCell;
use std::rc::Rc;

use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};
use datafusion_functions::regex::compile_regex;

use super::catalog::{Body, Call, Function, Overload, R, RowFunction, T, function, of};
use super::lengths;
use super::regular::{Wanted, spelt_for};
use super::strings::{append, text, text_of};

const INT4: R = R::Is(T::Int4);
const TEXT: R = R::Is(T::Text);
const TEXTS: R = R::Is(T::Texts);

/// The name of `regexp_replace` where it says a place to begin at, which the engine's own has not.
pub const REPLACE_FROM: &str = "regexp_replace\u{1}";

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function(
        "regexp_count",
        &[
            of(&[T::Text, T::Text], INT4, Body::Strict(count)),
            of(&[T::Text, T::Text, T::Int4], INT4, Body::Strict(count)),
            of(&[T::Text, T::Text, T::Int4, T::Text], INT4, Body::Strict(count)),
        ],
    ),
    function(
        "regexp_instr",
        &[
            of(&[T::Text, T::Text], INT4, Body::Strict(place)),
            of(&[T::Text, T::Text, T::Int4], INT4, Body::Strict(place)),
            of(&[T::Text, T::Text, T::Int4, T::Int4], INT4, Body::Strict(place)),
            of(&[T::Text, T::Text, T::Int4, T::Int4, T::Int4], INT4, Body::Strict(place)),
            of(&[T::Text, T::Text, T::Int4, T::Int4, T::Int4, T::Text], INT4, Body::Strict(place)),
            of(&[T::Text, T::Text, T::Int4, T::Int4, T::Int4, T::Text, T::Int4], INT4, Body::Strict(place)),
        ],
    ),
    function(
        "regexp_substr",
        &[
            of(&[T::Text, T::Text], TEXT, Body::Strict(part)),
            of(&[T::Text, T::Text, T::Int4], TEXT, Body::Strict(part)),
            of(&[T::Text, T::Text, T::Int4, T::Int4], TEXT, Body::Strict(part)),
            of(&[T::Text, T::Text, T::Int4, T::Int4, T::Text], TEXT, Body::Strict(part)),
            of(&[T::Text, T::Text, T::Int4, T::Int4, T::Text, T::Int4], TEXT, Body::Strict(part)),
        ],
    ),
    function(
        REPLACE_FROM,
        &[
            of(&[T::Text, T::Text, T::Text, T::Int4], TEXT, Body::Strict(replace)),
            of(&[T::Text, T::Text, T::Text, T::Int4, T::Int4], TEXT, Body::Strict(replace)),
            of(&[T::Text, T::Text, T::Text, T::Int4, T::Int4, T::Text], TEXT, Body::Strict(replace)),
        ],
    ),
    // Of which FROM and the select list make rows: each text is that of an array.
    function("regexp_matches\u{1}", &[plain(matches), flagged(matches)]),
    function("regexp_match", &[plain(first_match), flagged(first_match)]),
    function("regexp_split_to_array", &[plain(split_to_array), flagged(split_to_array)]),
    function("regexp_split_to_table\u{1}", &[plain(split_to_table), flagged(split_to_table)]),
];

const fn plain(body: RowFunction) -> Overload {
    of(&[T::Text, T::Text], TEXTS, Body::Strict(body))
}

const fn flagged(body: RowFunction) -> Overload {
    of(&[T::Text, T::Text, T::Text], TEXTS, Body::Strict(body))
}

/// Where a match or one of its groups begins and ends, in bytes; `None` for a group that has no part in it.
type Place = Option<(usize, usize)>;

/// The first match that begins at a byte or behind it: all of it, then its groups.
type Search = Rc<dyn Fn(&str, usize) -> Option<Vec<Place>>>;

/// Patterns that a thread keeps: a function of a row has no other place for them.
const PATTERNS_MAX: usize = 4;

struct Known {
    pattern: String,
    ignores_case: bool,
    search: Search,
}

thread_local! {
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy, Default)]
struct Flags {
    is_global: bool,
    ignores_case: bool,
}

impl Flags {
    fn of(flags: Option<&Datum<'_>>) -> Result<Self> {
        let mut found = Self::default();
        for flag in flags.map(text_of).unwrap_or_default().chars() {
            match flag {
                'g' => found.is_global = true,
                'i' => found.ignores_case = true,
                'c' => found.ignores_case = false,
                // What every pattern is without them.
                's' | 't' => {}
                'b' | 'e' | 'm' | 'n' | 'p' | 'q' | 'w' | 'x' => {
                    return Err(Error::unsupported(format!(
                        "the option {flag} of regular expressions is not supported"
                    )));
                }
                _ => return Err(wrong(format!("invalid regular expression option: \"{flag}\""))),
            }
        }
        Ok(found)
    }

    /// Those of a function that looks for all matches by itself.
    fn of_all(flags: Option<&Datum<'_>>, function: &str) -> Result<Self> {
        let found = Self::of(flags)?;
        if found.is_global {
            return Err(wrong(format!("{function}() does not support the \"global\" option")));
        }
        Ok(found)
    }
}

/// 22023
fn wrong(message: String) -> Error {
    Error::new(ErrorCode::InvalidParameterValue, message)
}

fn search_for(pattern: &str, ignores_case: bool) -> Result<Search> {
    KNOWN.with_borrow_mut(|known| {
        let found = known.iter().find(|known| known.ignores_case == ignores_case && known.pattern == pattern);
        if let Some(found) = found {
            return Ok(Rc::clone(&found.search));
        }
        let spelt = spelt_for(pattern, Wanted::Match)?;
        let compiled = compile_regex(&spelt, ignores_case.then_some("i")).map_err(|_| {
            Error::new(ErrorCode::InvalidRegularExpression, "invalid regular expression: it does not parse")
        })?;
        let search: Search = Rc::new(move |text: &str, from: usize| -> Option<Vec<Place>> {
            let groups = compiled.captures_at(text, from)?;
            Some(groups.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect())
        });
        if known.len() == PATTERNS_MAX {
            known.remove(0);
        }
        known.push(Known { pattern: pattern.to_owned(), ignores_case, search: Rc::clone(&search) });
        Ok(search)
    })
}

/// The byte behind that of a character; more than the text's length behind the last.
fn behind(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

/// Shows every match from a byte on, until it is told to stop. A match of nothing moves one character on.
fn each_match(
    text: &str,
    search: &Search,
    from: usize,
    mut show: impl FnMut(&[Place], (usize, usize)) -> Result<bool>,
) -> Result<()> {
    let mut from = from;
    while from <= text.len() {
        let Some(places) = search(text, from) else { break };
        let Some(Some(whole)) = places.first().copied() else { break };
        if !show(&places, whole)? {
            break;
        }
        from = if whole.0 == whole.1 { behind(text, whole.1) } else { whole.1 };
    }
    Ok(())
}

fn int_of(datum: Option<&Datum<'_>>, default: i32) -> i32 {
    match datum {
        Some(Datum::Int4(value)) => *value,
        _ => default,
    }
}

/// An argument that is a number of at least `least`.
fn number(datum: Option<&Datum<'_>>, default: i32, least: i32, name: &str) -> Result<usize> {
    let value = int_of(datum, default);
    if value < least {
        return Err(wrong(format!("invalid value for parameter \"{name}\": {value}")));
    }
    usize::try_from(value).map_err(|_| wrong(format!("invalid value for parameter \"{name}\": {value}")))
}

/// The byte of the character that a search is to begin at; behind the text where there is none.
fn start(text: &str, datum: Option<&Datum<'_>>) -> Result<usize> {
    let start = number(datum, 1, 1, "start")? - 1;
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    Ok(places.nth(start).unwrap_or(text.len() + 1))
}

/// A byte as the place of a character, from 1.
fn character(text: &str, at: usize) -> Value {
    let before = text.get(..at).map_or(0, |before| before.chars().count());
    Value::Int4(i32::try_from(before + 1).unwrap_or(i32::MAX))
}

fn count(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let whole = text_of(&args[0]);
    let from = start(whole, args.get(2))?;
    let flags = Flags::of_all(args.get(3), "regexp_count")?;
    let mut found = 0_i32;
    each_match(whole, &search_for(text_of(&args[1]), flags.ignores_case)?, from, |_, _| {
        found = found.saturating_add(1);
        Ok(true)
    })?;
    Ok(Value::Int4(found))
}

/// The bytes of a match by its number, or of one of its groups.
fn wanted(
    whole: &str,
    pattern: &str,
    flags: Flags,
    from: usize,
    number: usize,
    group: usize,
) -> Result<Option<(usize, usize)>> {
    let mut left = number;
    let mut found = None;
    each_match(whole, &search_for(pattern, flags.ignores_case)?, from, |places, all| {
        left -= 1;
        if left == 0 {
            // A pattern without groups is its own first one.
            found = if group <= 1 && places.len() == 1 { Some(all) } else { places.get(group).copied().flatten() };
        }
        Ok(left > 0)
    })?;
    Ok(found)
}

fn place(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let whole = text_of(&args[0]);
    let from = start(whole, args.get(2))?;
    let nth = number(args.get(3), 1, 1, "n")?;
    let end = int_of(args.get(4), 0);
    if !matches!(end, 0 | 1) {
        return Err(wrong(format!("invalid value for parameter \"endoption\": {end}")));
    }
    let group = number(args.get(6), 0, 0, "subexpr")?;
    let flags = Flags::of_all(args.get(5), "regexp_instr")?;
    Ok(match wanted(whole, text_of(&args[1]), flags, from, nth, group)? {
        Some((start, stop)) => character(whole, if end == 1 { stop } else { start }),
        None => Value::Int4(0),
    })
}

fn part(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let whole = text_of(&args[0]);
    let from = start(whole, args.get(2))?;
    let nth = number(args.get(3), 1, 1, "n")?;
    let group = number(args.get(5), 0, 0, "subexpr")?;
    let flags = Flags::of_all(args.get(4), "regexp_substr")?;
    match wanted(whole, text_of(&args[1]), flags, from, nth, group)? {
        Some((start, stop)) => text(whole.get(start..stop).unwrap_or_default()),
        None => Ok(Value::Null),
    }
}

/// Appends what stands for a match: `\1` to `\9` are its groups, `\&` is all of it. Any other backslash is one.
fn put(replacement: &str, whole: &str, places: &[Place], out: &mut String) -> Result<()> {
    let group = |number: usize, out: &mut String| -> Result<()> {
        if let Some((start, stop)) = places.get(number).copied().flatten() {
            out.push_str(whole.get(start..stop).unwrap_or_default());
        }
        lengths::check(Some(out.len()))
    };
    let mut characters = replacement.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.peek().copied() {
            Some('&') => group(0, out)?,
            Some('\\') => out.push('\\'),
            Some(digit @ '1'..='9') => group(digit.to_digit(10).map_or(0, |digit| digit as usize), out)?,
            _ => {
                out.push('\\');
                continue;
            }
        }
        characters.next();
    }
    Ok(())
}

fn replace(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (whole, replacement) = (text_of(&args[0]), text_of(&args[2]));
    let from = start(whole, args.get(3))?;
    // All of them where it is 0.
    let nth = number(args.get(4), 1, 0, "n")?;
    let flags = Flags::of(args.get(5))?;
    let mut out = String::new();
    let (mut seen, mut copied) = (0, 0);
    each_match(whole, &search_for(text_of(&args[1]), flags.ignores_case)?, from, |places, (start, stop)| {
        seen += 1;
        if nth > 0 && seen != nth {
            return Ok(true);
        }
        out.push_str(whole.get(copied..start).unwrap_or_default());
        put(replacement, whole, places, &mut out)?;
        copied = stop;
        lengths::check(Some(out.len()))?;
        Ok(nth == 0)
    })?;
    out.push_str(whole.get(copied..).unwrap_or_default());
    text(out)
}

/// The groups of a match, or all of it where there are none.
fn groups_of(whole: &str, places: &[Place]) -> Result<Value> {
    let groups = if places.len() > 1 { &places[1..] } else { places };
    // Each of them may be nearly all of the text.
    lengths::check_items(groups.len(), groups.iter().flatten().map(|(start, stop)| stop - start).sum())?;
    let groups = groups.iter().map(|group| match group {
        Some((start, stop)) => Value::Text(whole.get(*start..*stop).unwrap_or_default().into()),
        None => Value::Null,
    });
    Ok(Value::Array(groups.collect()))
}

/// The groups of the first match of a pattern; NULL where there is none.
fn first_match(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let flags = Flags::of(args.get(2))?;
    if flags.is_global {
        return Err(Error::new(
            ErrorCode::InvalidParameterValue,
            "regexp_match() does not support the \"global\" option",
        )
        .with_hint("Use the regexp_matches function instead."));
    }
    let (whole, search) = (text_of(&args[0]), search_for(text_of(&args[1]), flags.ignores_case)?);
    search(whole, 0).map_or(Ok(Value::Null), |places| groups_of(whole, &places))
}

/// `substring(text from pattern)`: the first parenthesised part of the first match, or all of it where there is none. NULL too of a part
/// that is not in the match.
pub fn first_part(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (whole, search) = (text_of(&args[0]), search_for(text_of(&args[1]), false)?);
    let found = search(whole, 0).and_then(|places| places.get(1).or(places.first()).copied().flatten());
    match found {
        Some((start, stop)) => text(whole.get(start..stop).unwrap_or_default()),
        None => Ok(Value::Null),
    }
}

/// The matches of a pattern, each as the text of an array of its groups, or of all of it where there are none.
fn matches(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let whole = text_of(&args[0]);
    let flags = Flags::of(args.get(2))?;
    let mut found = Vec::new();
    let mut bytes = 0;
    each_match(whole, &search_for(text_of(&args[1]), flags.ignores_case)?, 0, |places, _| {
        let groups = groups_of(whole, places)?;
        let mut shown = String::new();
        append(SqlType::Array(ScalarType::Text), &groups.as_datum(), Zone::Utc, &mut shown);
        bytes += shown.len() + size_of::<Value>();
        lengths::check(Some(bytes))?;
        found.push(Value::Text(shown.into_boxed_str()));
        Ok(flags.is_global)
    })?;
    Ok(Value::Array(found.into_boxed_slice()))
}

fn split_to_array(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    split(args, "regexp_split_to_array")
}

fn split_to_table(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    split(args, "regexp_split_to_table")
}

/// What lies between the matches. One of nothing counts between two characters only, and not where the one before ends.
fn split(args: &[Datum<'_>], function: &str) -> Result<Value> {
    let whole = text_of(&args[0]);
    let flags = Flags::of_all(args.get(2), function)?;
    let mut parts = Vec::new();
    let (mut last_end, mut copied, mut bytes) = (0, 0, 0);
    each_match(whole, &search_for(text_of(&args[1]), flags.ignores_case)?, 0, |_, (start, stop)| {
        if start < whole.len() && stop > last_end {
            let part = whole.get(copied..start).unwrap_or_default();
            bytes += part.len() + size_of::<Value>();
            lengths::check(Some(bytes))?;
            parts.push(Value::Text(part.into()));
            copied = stop;
        }
        last_end = stop;
        Ok(true)
    })?;
    parts.push(Value::Text(whole.get(copied..).unwrap_or_default().into()));
    Ok(Value::Array(parts.into_boxed_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(function: RowFunction, args: &[Datum<'_>]) -> Result<Value> {
        let types = [SqlType::Scalar(ScalarType::Text)];
        let call = Call { args: &types, ret: SqlType::Scalar(ScalarType::Text), zone: Zone::Utc };
        function(&call, args)
    }

    #[test]
    fn a_match_of_nothing_moves_one_character_on() {
        for (whole, pattern, expected) in [("abc", "", 4), ("ab", "a*", 3), ("äö", "", 3), ("", "", 1), ("aaa", "a", 3)]
        {
            let found = run(count, &[Datum::Text(whole), Datum::Text(pattern)]).unwrap();
            assert_eq!(found, Value::Int4(expected), "{pattern} in {whole}");
        }
    }

    #[test]
    fn replacements_name_groups() {
        for (replacement, expected) in
            [("[\\1\\2]", "a[b]c"), ("\\&\\&", "abbc"), ("\\\\", "a\\c"), ("\\x\\", "a\\x\\c")]
        {
            let args = [Datum::Text("abc"), Datum::Text("(b)"), Datum::Text(replacement), Datum::Int4(1)];
            assert_eq!(run(replace, &args).unwrap(), Value::Text(expected.into()), "{replacement}");
        }
    }

    #[test]
    fn what_is_made_of_one_match_is_bounded() {
        let whole = "a".repeat(lengths::BATCH_BYTES_MAX / 100);
        let all = Some((0, whole.len()));
        let error = put(&"\\&".repeat(200), &whole, &[all], &mut String::new()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        let mut out = String::new();
        put("\\&", &whole, &[all], &mut out).unwrap();
        assert_eq!(out, whole);
        assert_eq!(groups_of(&whole, &[all; 110]).unwrap_err().code(), ErrorCode::OutOfMemory);
        assert_eq!(
            groups_of(&whole, &[all, all, None]).unwrap(),
            Value::Array([Value::Text(out.into()), Value::Null].into())
        );
    }

    #[test]
    fn more_patterns_than_are_kept_are_found_again() {
        for round in 0..2 {
            for letter in ["a", "b", "c", "d", "e", "f"] {
                let found = run(place, &[Datum::Text("abcdef"), Datum::Text(letter)]).unwrap();
                let expected = i32::from(letter.as_bytes()[0] - b'a') + 1;
                assert_eq!(found, Value::Int4(expected), "{letter} in round {round}");
            }
        }
        assert_eq!(KNOWN.with_borrow(Vec::len), PATTERNS_MAX);
    }
}

//! The constructors of SQL/JSON in the words of PostgreSQL's older functions, which make the same values:
//! `JSON_OBJECT('a': 1 RETURNING jsonb)` is `jsonb_build_object('a', 1)`.
//!
//! Works on the tokens of a text that PostgreSQL's parser has accepted. Calls of the functions `json_object(text[])` and
//! `json_object(text[], text[])` stay what they are.

use ashlar_base::{Error, Result};
use pg_query::protobuf::{ScanToken, Token};

use super::range;

/// What a constructor is called, and what to call instead: for `json`, and for `jsonb`.
const CONSTRUCTORS: [(&str, [&str; 2]); 4] = [
    ("json_object", ["json_build_object", "jsonb_build_object"]),
    ("json_array", ["json_build_array", "jsonb_build_array"]),
    ("json_objectagg", ["json_object_agg", "jsonb_object_agg"]),
    ("json_arrayagg", ["json_agg", "jsonb_agg"]),
];

/// Whether a text, in lower case, may have a constructor.
pub(super) fn may_construct(lower: &str) -> bool {
    lower.contains("json_object") || lower.contains("json_array")
}

/// The text with functions in the place of constructors; `None` where it has none.
///
/// # Errors
/// 0A000 for a constructor that no function is like.
pub(super) fn constructed(text: &str) -> Result<Option<String>> {
    if !may_construct(&text.to_ascii_lowercase()) {
        return Ok(None);
    }
    let Ok(scanned) = pg_query::scan(text) else { return Ok(None) };
    let tokens: Vec<Word<'_>> =
        scanned.tokens.iter().filter_map(|token| Word::of(text, token)).filter(|word| !word.is_comment()).collect();
    let mut edits = Vec::new();
    for number in 0..tokens.len() {
        let Some((name, functions)) = CONSTRUCTORS.iter().find(|(name, _)| tokens[number].is(name)) else { continue };
        let is_call = tokens.get(number + 1).is_some_and(|next| next.is("("));
        let is_part = number > 0 && tokens[number - 1].is(".");
        if is_call && !is_part {
            Call::of(&tokens, number).edit(name, functions, &mut edits)?;
        }
    }
    if edits.is_empty() {
        return Ok(None);
    }
    edits.sort_by_key(|edit| edit.start);
    let (mut result, mut end) = (String::with_capacity(text.len() + 16), 0);
    for Edit { start, end: edit_end, with } in edits {
        result.push_str(&text[end..start]);
        result.push_str(with);
        end = edit_end;
    }
    result.push_str(&text[end..]);
    Ok(Some(result))
}

/// A token and its place in the text.
struct Word<'t> {
    text: &'t str,
    token: Token,
    start: usize,
    end: usize,
}

impl<'t> Word<'t> {
    fn of(text: &'t str, token: &ScanToken) -> Option<Self> {
        let (start, end) = range(token);
        Some(Self { text: text.get(start..end)?, token: token.token(), start, end })
    }

    /// Whether it is this word, in any case.
    fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    fn is_comment(&self) -> bool {
        matches!(self.token, Token::SqlComment | Token::CComment)
    }
}

/// Bytes of the text to be replaced.
struct Edit {
    start: usize,
    end: usize,
    with: &'static str,
}

/// A constructor's call.
struct Call<'a, 't> {
    /// The word before the parenthesis.
    name: &'a Word<'t>,
    /// The words between the parentheses, with how deep in others each is.
    inside: Vec<(usize, &'a Word<'t>)>,
}

impl<'a, 't> Call<'a, 't> {
    /// The call whose name is the token of this number, which an opening parenthesis follows.
    fn of(tokens: &'a [Word<'t>], number: usize) -> Self {
        let mut depth = 0_usize;
        let mut inside = Vec::new();
        for word in &tokens[number + 2..] {
            match word.text {
                ")" | "]" if depth == 0 => break,
                ")" | "]" => depth -= 1,
                _ => {}
            }
            inside.push((depth, word));
            if matches!(word.text, "(" | "[") {
                depth += 1;
            }
        }
        Self { name: &tokens[number], inside }
    }

    /// Whether these words begin at a place, none of them in other parentheses.
    fn says(&self, place: usize, words: &[&str]) -> bool {
        let found = self.inside.get(place..place + words.len());
        found.is_some_and(|found| found.iter().zip(words).all(|((depth, word), said)| *depth == 0 && word.is(said)))
    }

    /// What stands between a key and its value: the first colon, or the first VALUE that is no column's name.
    fn separators(&self) -> Vec<&'a Word<'t>> {
        let (mut found, mut is_found, mut first) = (Vec::new(), false, true);
        let mut before = "";
        for (depth, word) in &self.inside {
            if *depth == 0 && word.text == "," {
                (is_found, first) = (false, true);
                before = ",";
                continue;
            }
            let separates = word.text == ":" || word.is("value") && !first && before != ".";
            if *depth == 0 && separates && !is_found {
                found.push(*word);
                is_found = true;
            }
            first = false;
            before = word.text;
        }
        found
    }

    /// What has to be replaced, where it is a constructor.
    fn edit(&self, name: &str, functions: &[&'static str; 2], edits: &mut Vec<Edit>) -> Result<()> {
        let is_of_pairs = name.starts_with("json_object");
        let refused =
            |what: &str| Err(Error::unsupported(format!("{}({what}) is not supported", name.to_ascii_uppercase())));
        let separators = if is_of_pairs { self.separators() } else { Vec::new() };
        // From where on the constructor says how it makes its value.
        let mut rest = self.inside.len();
        let mut absent = matches!(name, "json_array" | "json_arrayagg");
        let (mut is_jsonb, mut is_told) = (false, false);
        for place in 0..self.inside.len() {
            if self.says(place, &["null", "on", "null"]) {
                (absent, rest) = (false, rest.min(place));
            } else if self.says(place, &["absent", "on", "null"]) {
                (absent, rest) = (true, rest.min(place));
            } else if self.says(place, &["without", "unique"]) {
                rest = rest.min(place);
            } else if self.says(place, &["with", "unique"]) {
                return refused("... WITH UNIQUE KEYS");
            } else if self.says(place, &["format", "json"]) {
                return refused("... FORMAT JSON");
            } else if self.says(place, &["returning"]) {
                // A name of a column cannot be this word, which stands before the type alone.
                (is_told, rest) = (true, rest.min(place));
                is_jsonb = match self.inside.get(place + 1..) {
                    Some([(_, word)]) if word.is("jsonb") => true,
                    Some([(_, word)]) if word.is("json") => false,
                    _ => return refused("... RETURNING another type than json or jsonb"),
                };
            }
        }
        let is_empty = rest == 0;
        if name == "json_object" && separators.is_empty() && !(is_empty || is_told) {
            return Ok(());
        }
        if matches!(self.inside.first(), Some((_, word)) if word.is("select") || word.is("with") || word.is("values")) {
            return refused("SELECT ...");
        }
        if absent && !is_empty {
            return Err(Error::unsupported(format!(
                "{} that leaves out NULL is not supported",
                name.to_ascii_uppercase()
            ))
            .with_hint("Say NULL ON NULL."));
        }
        edits.push(Edit { start: self.name.start, end: self.name.end, with: functions[usize::from(is_jsonb)] });
        edits.extend(separators.iter().map(|word| Edit { start: word.start, end: word.end, with: "," }));
        if let (Some((_, first)), Some((_, last))) = (self.inside.get(rest), self.inside.last()) {
            edits.push(Edit { start: first.start, end: last.end, with: "" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_become_functions() {
        for (text, expected) in [
            ("select json_object('a' value 1, 'b': x)", "select json_build_object('a' , 1, 'b', x)"),
            (
                "select JSON_OBJECT((('t')::text) VALUE \"b\".\"value\", k : xs[1:2] RETURNING JSONB)",
                "select jsonb_build_object((('t')::text) , \"b\".\"value\", k , xs[1:2] )",
            ),
            (
                "select json_object(value value value, t.value value 2)",
                "select json_build_object(value , value, t.value , 2)",
            ),
            ("select json_object(), json_object(returning jsonb)", "select json_build_object(), jsonb_build_object()"),
            (
                "select json_object('a': json_array(1, json_object('b': null) null on null returning json))",
                "select json_build_object('a', json_build_array(1, json_build_object('b', null) ))",
            ),
            ("select json_array()", "select json_build_array()"),
            ("select json_objectagg(k : v) filter (where a)", "select json_object_agg(k , v) filter (where a)"),
            (
                "select json_arrayagg(x order by y null on null returning jsonb) from t",
                "select jsonb_agg(x order by y ) from t",
            ),
            ("select json_object(k: v null on null without unique keys)", "select json_build_object(k, v )"),
        ] {
            assert_eq!(constructed(text).unwrap().as_deref(), Some(expected), "{text}");
            assert!(pg_query::scan(expected).is_ok(), "{text}");
        }
        for text in [
            "select json_object('{a,1}')",
            "select json_object(array['a'], array['b'])",
            "select 'json_object(1: 2)', json_object_agg(a, b), json_array_length(j)",
            "select x.json_object from x -- json_array(1)",
        ] {
            assert_eq!(constructed(text).unwrap(), None, "{text}");
        }
        for text in [
            "select json_array(1, null)",
            "select json_arrayagg(x)",
            "select json_object('a': null absent on null)",
            "select json_object('a': 1 with unique keys)",
            "select json_object('a': '1' format json)",
            "select json_object('a': 1 returning text)",
            "select json_array(select 1)",
        ] {
            assert!(constructed(text).is_err(), "{text}");
        }
    }
}

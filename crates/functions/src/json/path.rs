//! One value out of a JSON text, found without reading the rest: what is not asked for is stepped over.
//!
//! Called by the operators that follow a path. The text is valid: it was checked when it became json. What is found is
//! a part of the text; [`super::tree`] reads whole documents, and is what the tests compare this with.

use std::borrow::Cow;

use memchr::{memchr2, memmem};

use super::tree::{place_in, unescaped};

/// Bytes of a key that is searched for as it stands.
const KEY_BYTES_MAX: usize = 60;

/// The value of a key, as it stands in the text; of equal keys the last. `is_normal`: the text is as `jsonb` writes it, no
/// key is there twice. None where there is no such key, or no object.
pub(super) fn member<'a>(text: &'a str, key: &str, is_normal: bool) -> Option<&'a str> {
    if is_normal && let Some(found) = searched(text, key) {
        return found;
    }
    let mut steps = Steps::into(text, b'{')?;
    let mut found = None;
    while steps.peek() == b'"' {
        let (name, is_plain) = steps.string();
        steps.pass(b':');
        steps.space();
        let is_it = if is_plain { name == key } else { unescaped(name) == key };
        let value = steps.value();
        if is_it {
            found = Some(value);
            if is_normal {
                break;
            }
        }
        steps.pass(b',');
    }
    found
}

/// The value of a key of a normal text, by a search for the key's text, which nothing else than a key looks like: the quotes
/// of a text within a text have a backslash before them. The outer None: what was found may be the key of an object within
/// this one, or the key does not stand as it is.
fn searched<'a>(text: &'a str, key: &str) -> Option<Option<&'a str>> {
    // What comes after the quote at the end of a text begins with one of four bytes: no key that begins so is searched for.
    let may_follow = key.starts_with([':', ',', ']', '}']);
    if key.len() > KEY_BYTES_MAX || may_follow || key.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        return None;
    }
    let mut wanted = [0; KEY_BYTES_MAX + 4];
    let (start, end) = (b"\"", b"\": ");
    let length = start.len() + key.len() + end.len();
    wanted[..1].copy_from_slice(start);
    wanted[1..=key.len()].copy_from_slice(key.as_bytes());
    wanted[1 + key.len()..length].copy_from_slice(end);
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let Some(at) = memmem::find(&bytes[from..], &wanted[..length]).map(|at| from + at) else { return Some(None) };
        if at > 0 && bytes[at - 1] == b'\\' {
            from = at + 1;
            continue;
        }
        if bytes[0] != b'{' || memchr2(b'{', b'[', &bytes[1..at]).is_some() {
            return None;
        }
        return Some(Some(Steps { text, at: at + length }.value()));
    }
}

/// The item at a place from 0, or from the end where negative. None where there is none, or no array.
pub(super) fn item(text: &str, place: i64) -> Option<&str> {
    let place = if place < 0 { place_in(items(text)?.count(), place)? } else { usize::try_from(place).ok()? };
    items(text)?.nth(place)
}

fn items(text: &str) -> Option<impl Iterator<Item = &str>> {
    let mut steps = Steps::into(text, b'[')?;
    Some(std::iter::from_fn(move || {
        if matches!(steps.peek(), b']' | 0) {
            return None;
        }
        let value = steps.value();
        steps.pass(b',');
        Some(value)
    }))
}

/// A step of a path: a key, or a place that is a number.
pub(super) fn step<'a>(text: &'a str, step: &str, is_normal: bool) -> Option<&'a str> {
    if Steps::into(text, b'[').is_some() {
        return item(text, step.trim().parse().ok()?);
    }
    member(text, step, is_normal)
}

/// A value as `->>` shows it: strings without quotes; None for null.
pub(super) fn shown(value: &str) -> Option<Cow<'_, str>> {
    if value == "null" {
        return None;
    }
    let Some(raw) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Some(Cow::Borrowed(value));
    };
    Some(if raw.contains('\\') { Cow::Owned(unescaped(raw)) } else { Cow::Borrowed(raw) })
}

/// A place in a text.
struct Steps<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Steps<'a> {
    /// Inside an object or an array, past its bracket; None where the text is something else.
    fn into(text: &'a str, bracket: u8) -> Option<Self> {
        let mut steps = Self { text, at: 0 };
        (steps.peek() == bracket).then(|| {
            steps.at += 1;
            steps
        })
    }

    fn space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is no space; 0 at the end.
    fn peek(&mut self) -> u8 {
        self.space();
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Over this byte, if it is the next that is no space.
    fn pass(&mut self, byte: u8) {
        if self.peek() == byte {
            self.at += 1;
        }
    }

    /// Over a string, at whose quote this is: what is between its quotes, and whether nothing in it is escaped.
    fn string(&mut self) -> (&'a str, bool) {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let (mut end, mut is_plain) = (start, true);
        while let Some(more) = bytes.get(end..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            end += more;
            if bytes[end] == b'"' {
                break;
            }
            is_plain = false;
            end += 2;
        }
        // Of a text that does not end.
        if bytes.get(end) != Some(&b'"') {
            end = bytes.len();
        }
        let end = end.min(bytes.len());
        self.at = (end + 1).min(bytes.len());
        (self.text.get(start..end).unwrap_or_default(), is_plain)
    }

    /// Over a value, at whose first byte this is.
    fn value(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.string();
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                // The end of what this value is in.
                b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        break;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tree::{Node, read};
    use super::*;

    /// Texts with the same keys again and again, every kind of value, escapes and spaces.
    fn document() -> impl Strategy<Value = String> {
        let string = prop_oneof![
            Just("a"),
            Just("b"),
            Just(""),
            Just(r"\u0061"),
            Just(r#"\"}"#),
            Just(r"\\"),
            Just("ß,]"),
            Just(r#"\"a\": 1"#),
            Just(r#"\"a"#),
            Just(": "),
            Just(", "),
            Just("}, ")
        ];
        let string = string.prop_map(|raw| format!("\"{raw}\"")).boxed();
        let scalar = prop_oneof![
            string.clone(),
            (-99i32..99).prop_map(|number| number.to_string()),
            prop_oneof![Just("true"), Just("false"), Just("null"), Just("1.5e-3")].prop_map(str::to_owned),
        ];
        let space = prop_oneof![Just(""), Just(" "), Just("\n\t")];
        scalar.prop_recursive(4, 40, 5, move |inner| {
            let list = |items: Vec<String>, open: char, close: char, space: &str| {
                format!("{open}{space}{}{space}{close}", items.join(&format!("{space},{space}")))
            };
            let entry = (string.clone(), inner.clone(), space.clone());
            let entry = entry.prop_map(|(key, value, space)| format!("{key}{space}:{space}{value}"));
            prop_oneof![
                (prop::collection::vec(inner, 0..5), space.clone())
                    .prop_map(move |(items, space)| list(items, '[', ']', space)),
                (prop::collection::vec(entry, 0..5), space.clone())
                    .prop_map(move |(items, space)| list(items, '{', '}', space)),
            ]
        })
    }

    fn text_of<'a>(node: Option<&Node<'a>>) -> Option<&'a str> {
        node.map(|node| node.text)
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_the_tree_has(text in document()) {
            let tree = read(&text);
            for key in ["a", "b", "", "\"}", "\\", "ß,]", "c"] {
                prop_assert_eq!(member(&text, key, false), text_of(tree.field(key)), "{}", key);
                prop_assert_eq!(step(&text, key, false), text_of(tree.step(key)), "{}", key);
            }
            let normal = ashlar_base::value::json::normalize(&text).unwrap();
            let normal_tree = read(&normal);
            for key in ["a", "b", "", "\"}", "\\", "ß,]", "c", "a\": ", "\": ", ": ", ", ", "}, "] {
                prop_assert_eq!(member(&normal, key, true), text_of(normal_tree.field(key)), "{} in {}", key, normal);
                prop_assert_eq!(step(&normal, key, true), text_of(normal_tree.step(key)), "{} in {}", key, normal);
            }
            for place in -6..6 {
                prop_assert_eq!(item(&text, place), text_of(tree.item(place)), "{}", place);
                let place = format!(" {place} ");
                prop_assert_eq!(step(&text, &place, false), text_of(tree.step(&place)), "{}", place);
            }
            prop_assert_eq!(shown(&text).map(Cow::into_owned), tree.shown());
        }
    }

    #[test]
    fn what_is_no_json_ends_too() {
        for text in ["", "{", "{\"a", "{\"a\\", "[", "[1", "[[", "{\"a\":", "]", "}", ",", "{\"a\":\"\\"] {
            assert_eq!(member(text, "b", false), None, "{text}");
            assert_eq!(item(text, 5), None, "{text}");
        }
    }
}

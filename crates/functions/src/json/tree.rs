//! JSON text as a tree whose nodes know their own text. The text is valid: it was checked when it became json.

use std::borrow::Cow;

/// A value and the text that it was read from.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// As it stands in the document.
    pub text: &'a str,
    /// What it is.
    pub value: Json<'a>,
}

/// What a JSON value is.
#[derive(Clone, Debug)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number's digits.
    Number(&'a str),
    /// A string without quotes and escapes.
    String(Cow<'a, str>),
    /// `[...]`
    Array(Vec<Node<'a>>),
    /// `{...}`, keys in the order of the text; of equal ones the last counts.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Reads a document.
pub fn read(text: &str) -> Node<'_> {
    let mut reader = Reader { text, at: 0 };
    reader.node()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    fn node(&mut self) -> Node<'a> {
        let first = self.peek();
        let start = self.at;
        let value = match first {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => Json::String(self.string()),
            _ => {
                let rest = &self.text[start..];
                let length = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
                self.at = start + length;
                match &rest[..length] {
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    "null" | "" => Json::Null,
                    digits => Json::Number(digits),
                }
            }
        };
        Node { text: &self.text[start..self.at], value }
    }

    fn array(&mut self) -> Json<'a> {
        self.at += 1;
        let mut items = Vec::new();
        while !matches!(self.peek(), b']' | 0) {
            items.push(self.node());
            if self.peek() == b',' {
                self.at += 1;
            }
        }
        self.at = self.text.len().min(self.at + 1);
        Json::Array(items)
    }

    fn object(&mut self) -> Json<'a> {
        self.at += 1;
        let mut entries = Vec::new();
        while self.peek() == b'"' {
            let key = self.string();
            if self.peek() == b':' {
                self.at += 1;
            }
            entries.push((key, self.node()));
            if self.peek() == b',' {
                self.at += 1;
            }
        }
        self.at = self.text.len().min(self.at + 1);
        Json::Object(entries)
    }

    fn string(&mut self) -> Cow<'a, str> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = start;
        let mut is_plain = true;
        while end < bytes.len() && bytes[end] != b'"' {
            if bytes[end] == b'\\' {
                is_plain = false;
                end += 1;
            }
            end += 1;
        }
        let end = end.min(bytes.len());
        self.at = (end + 1).min(bytes.len());
        let raw = &self.text[start..end];
        if is_plain { Cow::Borrowed(raw) } else { Cow::Owned(unescaped(raw)) }
    }
}

/// What stands between the quotes of a string, without its escapes.
pub(super) fn unescaped(raw: &str) -> String {
    let mut result = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    let unit = |chars: &mut std::str::Chars<'_>| {
        let digits: String = chars.by_ref().take(4).collect();
        u16::from_str_radix(&digits, 16).unwrap_or(0xfffd)
    };
    while let Some(character) = chars.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        match chars.next() {
            Some('n') => result.push('\n'),
            Some('t') => result.push('\t'),
            Some('r') => result.push('\r'),
            Some('b') => result.push('\u{8}'),
            Some('f') => result.push('\u{c}'),
            Some('u') => {
                let first = unit(&mut chars);
                let mut units = vec![first];
                if (0xd800..0xdc00).contains(&first) && chars.as_str().starts_with("\\u") {
                    chars.nth(1);
                    units.push(unit(&mut chars));
                }
                result.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
            Some(other) => result.push(other),
            None => {}
        }
    }
    result
}

impl<'a> Node<'a> {
    /// The value of a key; of equal ones the last.
    pub fn field(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Json::Object(entries) => entries.iter().rev().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The item at a place from 0, or from the end where negative.
    pub fn item(&self, place: i64) -> Option<&Self> {
        match &self.value {
            Json::Array(items) => items.get(place_in(items.len(), place)?),
            _ => None,
        }
    }

    /// A step of a path: a key, or a place that is a number.
    pub fn step(&self, step: &str) -> Option<&Self> {
        match &self.value {
            Json::Array(_) => self.item(step.trim().parse().ok()?),
            _ => self.field(step),
        }
    }

    /// As `->>` shows it: strings without quotes; `None` for null.
    pub fn shown(&self) -> Option<String> {
        match &self.value {
            Json::Null => None,
            Json::String(text) => Some(text.clone().into_owned()),
            _ => Some(self.text.to_owned()),
        }
    }

    /// Whether `@>` holds: every part of the other is in this one.
    pub fn contains(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Json::Object(_), Json::Object(wanted)) => {
                wanted.iter().all(|(key, node)| self.field(key).is_some_and(|found| found.contains_nested(node)))
            }
            (Json::Array(items), Json::Array(wanted)) => {
                wanted.iter().all(|node| items.iter().any(|item| item.contains_nested(node)))
            }
            (Json::Array(_), Json::Object(_)) => false,
            // A scalar may be asked of an array, at the top.
            (Json::Array(items), _) => items.iter().any(|item| item.is_equal(other)),
            _ => self.is_equal(other),
        }
    }

    fn contains_nested(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Json::Object(_), Json::Object(_)) | (Json::Array(_), Json::Array(_)) => self.contains(other),
            _ => self.is_equal(other),
        }
    }

    fn is_equal(&self, other: &Self) -> bool {
        super::order::key_of(self) == super::order::key_of(other)
    }
}

/// The index that a place means.
pub fn place_in(length: usize, place: i64) -> Option<usize> {
    if place >= 0 {
        usize::try_from(place).ok()
    } else {
        length.checked_sub(usize::try_from(place.unsigned_abs()).ok()?)
    }
}

//! The order of jsonb values as bytes: two keys compare as PostgreSQL compares the values.
//!
//! ```text
//!   document   container: 0x10 array or scalar, 0x11 object; count; 0 for a scalar, else 1; the parts
//!   parts      null 0; string 1, bytes, 0; number 2, digits; boolean 3, 0 or 1; array 0x10...; object 0x11...
//! ```
//! An array of documents is 1 and the document, or 2 for NULL, of each item, and 0: no key of a document begins another's.
//!
//! Numbers are equal by value: `1` and `1.0` have one key. Source: `compareJsonbContainers` in PostgreSQL's jsonb_util.c.

use super::tree::{Json, Node, read};

/// The key of a jsonb text.
pub fn key(text: &str) -> Vec<u8> {
    key_of(&read(text))
}

/// The key of an array of jsonb texts.
pub fn key_of_items<'t>(items: impl Iterator<Item = Option<&'t str>>) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Some(text) => {
                out.push(1);
                out.extend_from_slice(&key(text));
            }
            None => out.push(2),
        }
    }
    out.push(0);
    out
}

/// The key of a value as a document of its own.
pub fn key_of(node: &Node<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match &node.value {
        Json::Array(_) | Json::Object(_) => append(node, &mut out),
        // A scalar is an array of itself, before arrays of one item.
        _ => {
            out.push(0x10);
            out.extend_from_slice(&1u32.to_be_bytes());
            out.push(0);
            append(node, &mut out);
        }
    }
    out
}

fn append(node: &Node<'_>, out: &mut Vec<u8>) {
    let mut open = |kind: u8, count: usize| {
        out.push(kind);
        out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
        out.push(1);
    };
    match &node.value {
        Json::Null => out.push(0),
        Json::Bool(value) => out.extend_from_slice(&[3, u8::from(*value)]),
        Json::Number(digits) => {
            out.push(2);
            append_number(digits, out);
        }
        Json::String(text) => append_string(text, out),
        Json::Array(items) => {
            open(0x10, items.len());
            for item in items {
                append(item, out);
            }
        }
        Json::Object(entries) => {
            open(0x11, entries.len());
            for (key, value) in entries {
                append_string(key, out);
                append(value, out);
            }
        }
    }
}

/// jsonb holds no zero byte.
fn append_string(text: &str, out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Sign, place of the first digit, digits: bytes of a negative number are turned round.
fn append_number(text: &str, out: &mut Vec<u8>) {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    let Some(leading) = all().position(|digit| digit != b'0') else {
        return out.push(1);
    };
    let place = whole.len() as i64 - leading as i64;
    let mut significant: Vec<u8> = all().skip(leading).collect();
    while significant.last() == Some(&b'0') {
        significant.pop();
    }
    out.push(if is_negative { 0 } else { 2 });
    let start = out.len();
    out.extend_from_slice(&(place + (1 << 40)).to_be_bytes());
    out.extend_from_slice(&significant);
    out.push(0);
    if is_negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{key, key_of_items};

    #[test]
    fn arrays_are_ordered_item_by_item_and_then_by_their_length() {
        let ordered: [&[Option<&str>]; 9] = [
            &[],
            &[Some("null")],
            &[Some(r#""a""#)],
            &[Some("1")],
            &[Some("1"), Some("[]")],
            &[Some("1"), None],
            &[Some("10"), Some("null")],
            &[Some(r#"{"a": 1}"#)],
            &[None],
        ];
        let keys = ordered.map(|items| key_of_items(items.iter().copied()));
        assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]), "{keys:?}");
        assert_eq!(key_of_items([Some("1.0")].into_iter()), keys[3]);
    }

    #[test]
    fn documents_are_ordered_as_postgresql_orders_them() {
        let ordered = [
            "[]",
            "null",
            r#""""#,
            r#""a""#,
            r#""ab""#,
            "-10",
            "-9.5",
            "-0.01",
            "0",
            "0.001",
            "0.01",
            "9",
            "10",
            "100.5",
            "false",
            "true",
            "[null]",
            "[1]",
            "[true]",
            "[[]]",
            "[1, 2]",
            "[1, 3]",
            "[1, 2, 3]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            r#"{"b": 1}"#,
            r#"{"a": 1, "b": 1}"#,
        ];
        for pair in ordered.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn numbers_are_equal_by_value() {
        for (left, right) in [("1", "1.0"), ("0", "0.00"), ("-1.50", "-1.5"), (r#"{"a": [10]}"#, r#"{"a": [10.0]}"#)] {
            assert_eq!(key(left), key(right), "{left} = {right}");
        }
    }
}

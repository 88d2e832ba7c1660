//! The documents of `sql-json-sum`, in Hazelcast's shape: an id, a value, and fields that nobody asks for.
//!
//! ```text
//! {"id": 42, "value": 707312, "field_01": "5f1c03aa", ... "field_31": "09be77d1"}      about 760 bytes; of 22 fields 510
//! ```

use std::io::Write;

use super::rows::value_of;
use crate::numbers::mix;

/// Their table.
pub(super) const TABLE: &str = "ashlar_lab_documents";

/// Fields of a document, where nothing is said of them.
pub(super) const FIELDS: u32 = 33;

/// Fields that are asked for: the others are of no use but to be there.
const ASKED: u32 = 2;

/// Appends a line of COPY's text form: the id and the document of so many fields.
pub(super) fn line(id: u64, fields: u32, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{id}\t{{\"id\": {id}, \"value\": {}", value_of(id));
    for field in 1..=u64::from(fields.saturating_sub(ASKED)) {
        let _ = write!(out, ", \"field_{field:02}\": \"{:08x}\"", mix(id << 5 | field) as u32);
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_value_of_its_row_among_others() {
        for (fields, bytes_about) in [(FIELDS, 760), (22, 500), (2, 30)] {
            let mut bytes = Vec::new();
            line(42, fields, &mut bytes);
            let text = String::from_utf8(bytes).unwrap();
            let (id, document) = text.trim_end().split_once('\t').unwrap();
            assert!(document.len().abs_diff(bytes_about) < 20, "{} bytes", document.len());
            let document: serde_json::Value = serde_json::from_str(document).unwrap();
            assert_eq!((id, &document["value"]), ("42", &value_of(42).into()));
            assert_eq!(document.as_object().unwrap().len(), fields as usize);
            // A line of COPY: what has a backslash in it would have to be escaped.
            assert!(!text.contains('\\'));
        }
    }
}

//! The documents of `sql-json-sum`, in Hazelcast's shape: an id, a value, and 31 fields that nobody asks for.
//!
//! ```text
//! {"id": 42, "value": 707312, "field_01": "5f1c03aa", ... "field_31": "09be77d1"}      about 760 bytes
//! ```

use std::io::Write;

use super::rows::value_of;
use crate::numbers::mix;

/// Their table.
pub(super) const TABLE: &str = "ashlar_lab_documents";

/// Fields that nobody asks for.
const FILLERS: u64 = 31;

/// Appends a line of COPY's text form: the id and the document.
pub(super) fn line(id: u64, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{id}\t{{\"id\": {id}, \"value\": {}", value_of(id));
    for field in 1..=FILLERS {
        let _ = write!(out, ", \"field_{field:02}\": \"{:08x}\"", mix(id << 5 | field) as u32);
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_value_of_its_row_among_others() {
        let mut bytes = Vec::new();
        line(42, &mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (id, document) = text.trim_end().split_once('\t').unwrap();
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        assert_eq!((id, &document["value"]), ("42", &value_of(42).into()));
        assert_eq!(document.as_object().unwrap().len(), 33);
        // A line of COPY: what has a backslash in it would have to be escaped.
        assert!(!text.contains('\\'));
    }
}

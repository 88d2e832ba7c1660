//! What statements that are queued count as.

use ashlar_protocol::pg::{ValueFormat, client};

use super::{RawParameters, sent_bytes};

#[test]
fn a_statement_counts_as_what_it_takes_on_its_way() {
    let name = "a statement's name";
    for (nulls, formats) in [(0, 0), (0, 1600), (1, 1), (1000, 0), (60_000, 3)] {
        let mut raw = RawParameters { bytes: b"text".to_vec(), values: vec![(ValueFormat::Text, Some(0..4))] };
        raw.values.resize(1 + nulls, (ValueFormat::Binary, None));
        let formats = vec![ValueFormat::Binary; formats];
        let mut messages = Vec::new();
        client::bind(&mut messages, "", name, raw.iter(), &formats);
        client::execute(&mut messages, "", 0);
        let counted = sent_bytes(&raw, &formats);
        assert!((messages.len()..messages.len() + 64).contains(&counted), "{counted} for {}", messages.len());
    }
}

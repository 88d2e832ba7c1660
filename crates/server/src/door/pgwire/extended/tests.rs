//! Which messages leave statements ahead of their answers.

use ashlar_protocol::pg::Target;
use ashlar_protocol::pg::frontend::{self, Frontend};

use super::super::FLUSH_BYTES;
use super::stays_ahead;

/// Bind of a portal, without parameters.
fn bind(portal: &[u8]) -> Vec<u8> {
    let body = [portal, b"\0s\0", &[0; 6]].concat();
    let length = u32::try_from(4 + body.len()).unwrap();
    [&b"B"[..], &length.to_be_bytes(), &body].concat()
}

fn decoded(bytes: &[u8]) -> Frontend<'_> {
    frontend::decode(bytes, 1 << 20).unwrap().unwrap().0
}

#[test]
fn only_what_is_about_the_portal_without_a_name_leaves_statements_ahead() {
    let (unnamed, named) = (bind(b""), bind(b"p"));
    let describe = |kind, name| Frontend::Describe { kind, name };
    for (message, has_portal, expected) in [
        (decoded(&unnamed), true, true),
        (decoded(&unnamed), false, true),
        (decoded(&named), true, false),
        (describe(Target::Portal, ""), true, true),
        // It is ahead itself.
        (describe(Target::Portal, ""), false, false),
        (describe(Target::Portal, "p"), true, false),
        (describe(Target::Statement, ""), true, false),
        (Frontend::Execute { portal: "", max_rows: 0 }, true, true),
        (Frontend::Sync, true, false),
    ] {
        assert_eq!(stays_ahead(&message, 0, has_portal), expected, "{message:?} {has_portal}");
    }
}

#[test]
fn what_waits_to_be_told_behind_statements_that_are_ahead_has_a_bound() {
    let unnamed = bind(b"");
    for message in [decoded(&unnamed), Frontend::Describe { kind: Target::Portal, name: "" }] {
        assert!(stays_ahead(&message, FLUSH_BYTES - 1, true), "{message:?}");
        assert!(!stays_ahead(&message, FLUSH_BYTES, true), "{message:?}");
    }
}

//! Which conditions imply the predicate of an index.

use datafusion::logical_expr::{col, lit};

use super::*;

fn check(known: &[Expr], wanted: &Expr, expected: bool) {
    assert_eq!(implies(known, std::slice::from_ref(wanted)), expected, "{known:?} -> {wanted:?}");
}

#[test]
fn a_condition_implies_what_follows_from_it_alone() {
    let a = || col("a");
    let cases = [
        (a().gt(lit(5)), a().gt(lit(5)), true),
        (a().gt(lit(5)), a().gt(lit(3)), true),
        (a().gt(lit(5)), a().gt(lit(6)), false),
        (a().gt_eq(lit(5)), a().gt(lit(5)), false),
        (a().gt(lit(5)), a().gt_eq(lit(5)), true),
        (a().eq(lit(5)), a().gt_eq(lit(5)), true),
        (a().eq(lit(5)), a().gt(lit(5)), false),
        (lit(5).lt(a()), a().gt(lit(4)), true),
        (a().lt(lit(5)), a().lt_eq(lit(5)), true),
        (a().lt_eq(lit(5)), a().lt(lit(5)), false),
        (a().lt(lit(5)), a().not_eq(lit(5)), true),
        (a().eq(lit(4)), a().not_eq(lit(5)), true),
        (a().not_eq(lit(5)), a().not_eq(lit(5)), true),
        (a().not_eq(lit(5)), a().gt(lit(5)), false),
        (a().gt(lit(5)), a().is_not_null(), true),
        (a().in_list(vec![lit(7), lit(8)], false), a().gt(lit(5)), true),
        (a().in_list(vec![lit(7), lit(3)], false), a().gt(lit(5)), false),
        (a().eq(lit(7)), a().in_list(vec![lit(7), lit(8)], false), true),
        (a().in_list(vec![lit(7)], false), a().in_list(vec![lit(7), lit(8)], false), true),
        (a().between(lit(6), lit(9)), a().gt(lit(5)), true),
        (a().between(lit(6), lit(9)), a().between(lit(5), lit(9)), true),
        (a().eq(lit(1)), a().eq(lit(1)).or(col("b").is_null()), true),
        (col("b").gt(lit(5)), a().gt(lit(5)), false),
        (a().gt(lit(5i64)), a().gt(lit(3i32)), false),
        (a().is_null(), a().is_not_null(), false),
        (a().is_null(), a().is_null(), true),
    ];
    for (known, wanted, expected) in cases {
        check(&[known], &wanted, expected);
    }
    check(&[a().gt_eq(lit(5)), a().lt_eq(lit(6))], &a().between(lit(5), lit(6)), true);
    check(&[], &a().is_null(), false);
    assert!(implies(&[a().is_null()], &[]));
}

#[test]
fn a_pattern_says_what_texts_begin_with() {
    let cases = [
        ("ab%", "ab", Some("ac")),
        ("a_c", "a", Some("b")),
        ("ab", "ab", Some("ac")),
        (r"a\%b%", "a", Some("b")),
        ("%a", "", None),
        ("a\u{d7ff}%", "a\u{d7ff}", Some("a\u{e000}")),
        ("a\u{10ffff}%", "a\u{10ffff}", Some("b")),
        ("\u{10ffff}%", "\u{10ffff}", None),
    ];
    for (pattern, prefix, after) in cases {
        assert_eq!(prefix_of(pattern), prefix, "{pattern}");
        assert_eq!(after_prefix(prefix).as_deref(), after, "{pattern}");
        assert!(after.is_none_or(|after| after > prefix));
    }
}

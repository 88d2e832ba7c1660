//! What each comparison is called, and what it holds of.

use std::cmp::Ordering;

use super::Comparison;

#[test]
fn each_comparison_has_its_sign_and_the_orders_it_holds_of() {
    for (comparison, sign, less, equal, greater) in [
        (Comparison::Equal, "=", false, true, false),
        (Comparison::NotEqual, "<>", true, false, true),
        (Comparison::Less, "<", true, false, false),
        (Comparison::LessOrEqual, "<=", true, true, false),
        (Comparison::Greater, ">", false, false, true),
        (Comparison::GreaterOrEqual, ">=", false, true, true),
        (Comparison::Distinct, "IS DISTINCT FROM", true, false, true),
        (Comparison::NotDistinct, "IS NOT DISTINCT FROM", false, true, false),
    ] {
        assert_eq!(comparison.sign(), sign);
        let held = [Ordering::Less, Ordering::Equal, Ordering::Greater].map(|order| comparison.holds(order));
        assert_eq!(held, [less, equal, greater], "{sign}");
    }
}

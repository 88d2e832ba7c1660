//! Conditions of a row of a number, a text and a boolean.

use ashlar_base::{Comparison, Condition, Datum, Operand, Value};

use super::holds;

fn compared(left: Operand, comparison: Comparison, right: Operand) -> Condition {
    Condition::Compared(left, comparison, right)
}

fn is(condition: &Condition, row: &[Datum<'_>]) -> Option<bool> {
    holds(condition, &|place: usize| row[place].clone())
}

#[test]
fn comparisons_with_null_are_null_unless_they_ask_for_it() {
    let constant = || Operand::Constant(Value::Int4(3));
    for (comparison, of_two, of_three, of_four, of_null) in [
        (Comparison::Equal, false, true, false, None),
        (Comparison::NotEqual, true, false, true, None),
        (Comparison::Less, true, false, false, None),
        (Comparison::LessOrEqual, true, true, false, None),
        (Comparison::Greater, false, false, true, None),
        (Comparison::GreaterOrEqual, false, true, true, None),
        (Comparison::Distinct, true, false, true, Some(true)),
        (Comparison::NotDistinct, false, true, false, Some(false)),
    ] {
        let condition = compared(Operand::Input(0), comparison, constant());
        // Integers are compared whatever their widths.
        for (datum, expected) in [
            (Datum::Int4(2), Some(of_two)),
            (Datum::Int8(3), Some(of_three)),
            (Datum::Int2(4), Some(of_four)),
            (Datum::Null, of_null),
        ] {
            assert_eq!(is(&condition, std::slice::from_ref(&datum)), expected, "{datum:?} {comparison:?} 3");
        }
    }
    let both = compared(Operand::Input(0), Comparison::NotDistinct, Operand::Input(1));
    assert_eq!(is(&both, &[Datum::Null, Datum::Null]), Some(true));
}

#[test]
fn junctions_know_three_values() {
    let (yes, no, null) = (Condition::Always(Some(true)), Condition::Always(Some(false)), Condition::Always(None));
    let all = |parts: &[&Condition]| is(&Condition::All(parts.iter().copied().cloned().collect()), &[]);
    let any = |parts: &[&Condition]| is(&Condition::Any(parts.iter().copied().cloned().collect()), &[]);
    assert_eq!((all(&[&yes, &yes]), all(&[&yes, &null]), all(&[&null, &no])), (Some(true), None, Some(false)));
    assert_eq!((any(&[&no, &no]), any(&[&no, &null]), any(&[&null, &yes])), (Some(false), None, Some(true)));
    assert_eq!(is(&Condition::Not(Box::new(null)), &[]), None);
    assert_eq!(is(&Condition::Not(Box::new(no)), &[]), Some(true));
}

#[test]
fn lists_lengths_and_booleans() {
    let values = ["a", "b", "é"].map(|text| Value::Text(text.into()));
    let list = Condition::OneOf(Operand::Input(0), values.into());
    for (text, expected) in [("a", true), ("aa", false), ("", false), ("é", true), ("z", false)] {
        assert_eq!(is(&list, &[Datum::Text(text)]), Some(expected), "{text}");
    }
    assert_eq!(is(&list, &[Datum::Null]), None);
    let short = compared(Operand::Length(0), Comparison::Less, Operand::Constant(Value::Int4(3)));
    assert_eq!(is(&short, &[Datum::Text("éé")]), Some(true));
    assert_eq!(is(&short, &[Datum::Text("ééé")]), Some(false));
    assert_eq!(is(&short, &[Datum::Null]), None);
    assert_eq!(is(&Condition::Is(1), &[Datum::Null, Datum::Bool(true)]), Some(true));
    assert_eq!(is(&Condition::Is(0), &[Datum::Null]), None);
    assert_eq!(is(&Condition::IsNull(0), &[Datum::Null]), Some(true));
    assert_eq!(is(&Condition::IsNull(0), &[Datum::Int4(0)]), Some(false));
}

//! Conditions that are known of values as they are stored, without computing.
//!
//! Called by `checks` for each row that is written. Compares as [`crate::order`] does, which is how the engine compares values of one
//! type.

use ashlar_base::{Comparison, Condition, Datum, Operand};

use crate::order::compare;

/// Whether a condition holds of a row; `input` gives its values by the places that the condition names. `None` is NULL.
pub fn holds<'d>(condition: &Condition, input: &impl Fn(usize) -> Datum<'d>) -> Option<bool> {
    match condition {
        Condition::Always(held) => *held,
        Condition::Is(place) => match input(*place) {
            Datum::Bool(held) => Some(held),
            _ => None,
        },
        Condition::IsNull(place) => Some(input(*place).is_null()),
        Condition::Compared(left, comparison, right) => {
            compared(&value(left, input), *comparison, &value(right, input))
        }
        Condition::OneOf(operand, values) => {
            let wanted = value(operand, input);
            if wanted.is_null() {
                return None;
            }
            Some(values.binary_search_by(|value| compare(&value.as_datum(), &wanted)).is_ok())
        }
        Condition::Not(part) => holds(part, input).map(|held| !held),
        Condition::All(parts) => joined(parts, input, false),
        Condition::Any(parts) => joined(parts, input, true),
    }
}

/// AND and OR: one part may decide it; else it is NULL if one of them is.
fn joined<'d>(parts: &[Condition], input: &impl Fn(usize) -> Datum<'d>, decisive: bool) -> Option<bool> {
    let mut held = Some(!decisive);
    for part in parts {
        match holds(part, input) {
            Some(found) if found == decisive => return Some(decisive),
            Some(_) => {}
            None => held = None,
        }
    }
    held
}

fn value<'a, 'd: 'a>(operand: &'a Operand, input: &impl Fn(usize) -> Datum<'d>) -> Datum<'a> {
    match operand {
        Operand::Input(place) => input(*place),
        Operand::Length(place) => match input(*place) {
            Datum::Text(text) => Datum::Int8(text.chars().count() as i64),
            _ => Datum::Null,
        },
        Operand::Constant(value) => value.as_datum(),
    }
}

fn compared(left: &Datum<'_>, comparison: Comparison, right: &Datum<'_>) -> Option<bool> {
    let is_of_nulls = matches!(comparison, Comparison::Distinct | Comparison::NotDistinct);
    if !is_of_nulls && (left.is_null() || right.is_null()) {
        return None;
    }
    Some(comparison.holds(compare(left, right)))
}

#[cfg(test)]
mod tests;

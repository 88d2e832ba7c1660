//! Whether two answers are the same, each row and each value, though engines write numbers in different forms: `17.50`, `17.5`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::door::text::Rows;

/// What a value is, as the files of `tests/slt` have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    /// A number with a fraction.
    Real,
    /// Any of them: what is a number on both sides may be written differently.
    Any,
}

/// By how much a number with a fraction may be off, of itself: what engines that add up in binary fractions differ by.
const REAL_RATIO: f64 = 1e-9;

/// And where it was rounded to hundredths, because the query rounds what lay between two of them: see [`is_close`].
const REAL_STEP: f64 = 0.01;

impl Kind {
    /// Reads the letters `TIR`.
    pub(super) fn read(letters: &str) -> Option<Vec<Self>> {
        let kind = |letter| match letter {
            'T' => Some(Self::Text),
            'I' => Some(Self::Integer),
            'R' => Some(Self::Real),
            _ => None,
        };
        letters.chars().map(kind).collect()
    }

    fn is_same(self, expected: Option<&str>, found: Option<&str>) -> bool {
        let (Some(expected), Some(found)) = (expected, found) else {
            return expected == found;
        };
        match self {
            Self::Text => expected == found,
            Self::Integer => expected == found || whole(expected).is_some_and(|number| whole(found) == Some(number)),
            Self::Real | Self::Any => expected == found || is_close(expected, found),
        }
    }
}

/// An integer, which may be written as a fraction without one.
fn whole(text: &str) -> Option<i128> {
    let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|byte| byte == b'0').then(|| digits.parse().ok())?
}

/// Whether two numbers are the same but for rounding.
fn is_close(expected: &str, found: &str) -> bool {
    let (Ok(expected), Ok(found)) = (expected.parse::<f64>(), found.parse::<f64>()) else {
        return false;
    };
    let (off, size) = ((expected - found).abs(), expected.abs());
    // A hundredth is a rounding where it is a small part of the number; of a small number it is an error.
    off <= size * REAL_RATIO || (off <= REAL_STEP * (1.0 + REAL_RATIO) && off <= size * 1e-3)
}

/// What is different about an answer; `of_what` names what it is compared with.
pub(super) fn difference(
    kinds: &[Kind],
    expected: &[Vec<Option<String>>],
    found: &Rows,
    of_what: &str,
) -> Option<String> {
    if found.count != expected.len() as u64 {
        return Some(format!("{} rows instead of {}, {of_what}", found.count, expected.len()));
    }
    for (number, (expected, found)) in expected.iter().zip(&found.values).enumerate() {
        let same = |column: usize| {
            let value = |row: &[Option<String>]| row.get(column).cloned().flatten();
            let kind = kinds.get(column).copied().unwrap_or(Kind::Text);
            kind.is_same(value(expected).as_deref(), value(found).as_deref())
        };
        let all_same = expected.len() == found.len() && (0..expected.len()).all(same);
        if !all_same {
            let shown = |row: &[Option<String>]| {
                let values: Vec<&str> = row.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
                values.join(" | ")
            };
            return Some(format!("row {} is {} instead of {}, {of_what}", number + 1, shown(found), shown(expected)));
        }
    }
    None
}

/// Answers that are not stored: the first of a run is what all others are compared with, so targets must agree.
#[derive(Default)]
pub(super) struct FirstAnswers(Mutex<BTreeMap<usize, Vec<Vec<Option<String>>>>>);

impl FirstAnswers {
    /// What is different about an answer to the query of this number.
    pub(super) fn fault(&self, query: usize, kinds: &[Kind], rows: &Rows) -> Option<String> {
        if rows.count > rows.values.len() as u64 {
            return Some(format!("{} rows, more than can be compared", rows.count));
        }
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = first.entry(query).or_insert_with(|| rows.values.clone());
        difference(kinds, first, rows, "as was answered first")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|value| (*value != "NULL").then(|| (*value).to_owned())).collect()
    }

    fn rows(all: &[&[&str]]) -> Rows {
        Rows { count: all.len() as u64, values: all.iter().map(|values| row(values)).collect() }
    }

    #[test]
    fn the_same_number_in_another_form_is_the_same() {
        let kinds = Kind::read("TIR").unwrap();
        let expected = [row(&["a", "5", "1234.50"])];
        for same in [
            &["a", "5", "1234.5"][..],
            &["a", "5.00", "1.2345e3"],
            &["a", "5", "1234.500000001"],
            &["a", "5", "1234.51"],
        ] {
            assert_eq!(difference(&kinds, &expected, &rows(&[same]), "as stored"), None, "{same:?}");
        }
        for other in [
            &["A", "5", "1234.50"][..],
            &["a", "6", "1234.50"],
            &["a", "5.5", "1234.50"],
            &["a", "5", "1234.52"],
            &["a", "5"],
            &["a", "5", "NULL"],
        ] {
            assert!(difference(&kinds, &expected, &rows(&[other]), "as stored").is_some(), "{other:?}");
        }
        // A hundredth of five hundredths is no rounding.
        assert!(difference(&[Kind::Real], &[row(&["0.05"])], &rows(&[&["0.06"]]), "").is_some());
    }

    #[test]
    fn what_is_different_is_named() {
        let expected = [row(&["a", "1"]), row(&["b", "NULL"])];
        let kinds = Kind::read("TI").unwrap();
        let found = |all: &[&[&str]]| difference(&kinds, &expected, &rows(all), "as stored");
        assert_eq!(found(&[&["a", "1"]]).unwrap(), "1 rows instead of 2, as stored");
        assert_eq!(found(&[&["a", "1"], &["b", "2"]]).unwrap(), "row 2 is b | 2 instead of b | NULL, as stored");
        assert_eq!(found(&[&["b", "NULL"], &["a", "1"]]).unwrap(), "row 1 is b | NULL instead of a | 1, as stored");
        assert_eq!(found(&[&["a", "1"], &["b", "NULL"]]), None);
        assert_eq!(Kind::read("TX"), None);
    }
}

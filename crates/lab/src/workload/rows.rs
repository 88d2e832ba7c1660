//! The rows of the SQL workloads: every column follows from the primary key, so that each answer is known.
//!
//! ```text
//! id bigint primary key | value bigint | label text              | numbers int[]
//! 42                    | 0 .. 2^20    | row 0000000042 2f1c03aa | twenty, below a million
//! ```

use std::io::Write;

use crate::numbers::mix;

/// The table of the lab.
pub(super) const TABLE: &str = "ashlar_lab_rows";

/// Its columns.
pub(super) const COLUMNS: &str = "id bigint PRIMARY KEY, value bigint, label text, numbers int[]";

/// Integers in the array of a row.
const NUMBERS: u64 = 20;

/// The column `value` of the row `id`, as it was loaded.
pub(crate) fn value_of(id: u64) -> i64 {
    (mix(id) >> 44).cast_signed()
}

/// The column `label` of the row `id`; as it was loaded in version 0.
pub(crate) fn label_of(id: u64, version: u32) -> String {
    format!("row {id:010} {:08x}", mix(id ^ u64::from(version) << 32) as u32)
}

/// The column `numbers` of the row `id`.
pub(crate) fn numbers_of(id: u64) -> impl Iterator<Item = u64> {
    (0..NUMBERS).map(move |place| mix(id * NUMBERS + place) % 1_000_000)
}

/// Appends a line of COPY's text form.
pub(super) fn line(id: u64, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{id}\t{}\t{}\t{{", value_of(id), label_of(id, 0));
    for (place, number) in numbers_of(id).enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{number}");
    }
    out.extend_from_slice(b"}\n");
}

/// Sums of `value` over the first rows, so that any range is one subtraction.
pub(super) struct Sums(Vec<i64>);

impl Sums {
    /// Of this many rows; their ids begin with 0.
    pub(super) fn of(rows: u64) -> Self {
        let mut sum = 0;
        let mut sums = Vec::with_capacity(rows as usize + 1);
        sums.push(0);
        for id in 0..rows {
            sum += value_of(id);
            sums.push(sum);
        }
        Self(sums)
    }

    /// The sum from `first` to before `end`.
    pub(super) fn between(&self, first: u64, end: u64) -> i64 {
        self.0[end as usize] - self.0[first as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_the_functions_say() {
        let mut bytes = Vec::new();
        line(42, &mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let columns: Vec<&str> = text.trim_end().split('\t').collect();
        assert_eq!(columns[..3], ["42", &value_of(42).to_string(), &label_of(42, 0)]);
        assert_eq!(columns[3].split(',').count(), 20);
        assert!((0..1000).all(|id| (0..1 << 20).contains(&value_of(id))));
        assert_ne!(label_of(42, 0), label_of(42, 1));
    }

    #[test]
    fn sums_are_those_of_the_values() {
        let sums = Sums::of(100);
        assert_eq!(sums.between(10, 20), (10..20).map(value_of).sum::<i64>());
        assert_eq!(sums.between(0, 100), (0..100).map(value_of).sum::<i64>());
    }
}

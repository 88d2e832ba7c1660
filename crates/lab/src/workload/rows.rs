//! The rows of the SQL workloads: every column follows from the primary key, so that each answer is known.
//!
//! ```text
//! id bigint primary key | value bigint | label text              | numbers int[]
//! 42                    | 0 .. 2^20    | row 0000000042 2f1c03aa | twenty, below a million
//! ```

use std::io::Write;

use super::sizes::Columns;
use crate::numbers::mix;

/// The table of the lab.
pub(crate) const TABLE: &str = "ashlar_lab_rows";

/// Its primary key, and that of [`PICKS`].
pub(crate) const KEY: &str = "id";

/// Its columns.
pub(super) fn columns(columns: Columns) -> &'static str {
    match columns {
        Columns::All => "id bigint PRIMARY KEY, value bigint, label text, numbers int[]",
        Columns::Narrow => "id bigint PRIMARY KEY, value bigint, label text",
        Columns::Pair => "id bigint PRIMARY KEY, value bigint",
    }
}

/// The values of the column `value` are below this.
pub(super) const VALUES: u64 = 1 << 20;

/// Groups by the column `value`: those of the remainders.
pub(crate) const GROUPS: u64 = 1000;

/// Of each group that so many rows have: its number, and the sum and the number of its rows.
pub(crate) fn groups(rows: u64) -> impl Iterator<Item = (u64, i64, u64)> {
    let mut all = vec![(0, 0); GROUPS as usize];
    for value in (0..rows).map(value_of) {
        let (sum, count) = &mut all[(value.cast_unsigned() % GROUPS) as usize];
        *sum += value;
        *count += 1;
    }
    (0..GROUPS).zip(all).filter(|(_, (_, count))| *count > 0).map(|(group, (sum, count))| (group, sum, count))
}

/// The smaller table of a join.
pub(crate) const PICKS: &str = "ashlar_lab_picks";

/// Its columns: each of its rows names a row of [`TABLE`].
pub(super) const PICKS_COLUMNS: &str = "id bigint PRIMARY KEY, row_id bigint, amount bigint";

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

/// The row that a column `label` belongs to.
pub(crate) fn id_of(label: &str) -> Option<u64> {
    label.strip_prefix("row ")?.split(' ').next()?.parse().ok()
}

/// The columns `row_id` and `amount` of the row `id` of [`PICKS`], where [`TABLE`] has so many rows.
pub(crate) fn pick_of(id: u64, rows: u64) -> (u64, i64) {
    let (row, amount) = (mix(!id), mix(!id ^ 1 << 63));
    (row % rows, (amount % 1000).cast_signed())
}

/// What the join of both tables comes to: its rows, and the sum over them of `amount` and `value`.
pub(crate) fn joined(picks: u64, rows: u64) -> (u64, i64) {
    let sum = (0..picks).map(|id| {
        let (row, amount) = pick_of(id, rows);
        amount + value_of(row)
    });
    (picks, sum.sum())
}

/// The column `numbers` of the row `id`.
pub(crate) fn numbers_of(id: u64) -> impl Iterator<Item = u64> {
    (0..NUMBERS).map(move |place| mix(id * NUMBERS + place) % 1_000_000)
}

/// Appends a line of COPY's text form.
pub(super) fn line(id: u64, columns: Columns, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{id}\t{}", value_of(id));
    if columns == Columns::Pair {
        return out.push(b'\n');
    }
    let _ = write!(out, "\t{}", label_of(id, 0));
    if columns == Columns::Narrow {
        return out.push(b'\n');
    }
    out.extend_from_slice(b"\t{");
    for (place, number) in numbers_of(id).enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{number}");
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a line of COPY's text form for [`PICKS`].
pub(super) fn pick_line(id: u64, rows: u64, out: &mut Vec<u8>) {
    let (row, amount) = pick_of(id, rows);
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "{id}\t{row}\t{amount}");
}

/// The rows by their `value`: how many there are before each, and the sum of their ids, so that any range is one subtraction.
pub(super) struct ByValue {
    rows: Vec<u64>,
    ids: Vec<u64>,
}

impl ByValue {
    /// Of this many rows; their ids begin with 0.
    pub(super) fn of(rows: u64) -> Self {
        let (mut counts, mut ids) = (vec![0; VALUES as usize + 1], vec![0; VALUES as usize + 1]);
        for id in 0..rows {
            let next = value_of(id) as usize + 1;
            counts[next] += 1;
            ids[next] += id;
        }
        for value in 1..counts.len() {
            counts[value] += counts[value - 1];
            ids[value] += ids[value - 1];
        }
        Self { rows: counts, ids }
    }

    /// The value of the row at this place, from 0, in the order of values. There is such a row.
    pub(super) fn at(&self, place: u64) -> u64 {
        self.rows.partition_point(|before| *before <= place) as u64 - 1
    }

    /// How many rows there are from the value `first` to before `end`.
    pub(super) fn rows(&self, first: u64, end: u64) -> u64 {
        self.rows[end as usize] - self.rows[first as usize]
    }

    /// The sum of their ids.
    pub(super) fn ids(&self, first: u64, end: u64) -> i64 {
        (self.ids[end as usize] - self.ids[first as usize]).cast_signed()
    }
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
        for (columns, count) in [(Columns::Pair, 2), (Columns::Narrow, 3)] {
            bytes.clear();
            line(42, columns, &mut bytes);
            assert!(bytes.ends_with(b"\n") && bytes.split(|byte| *byte == b'\t').count() == count);
        }
        bytes.clear();
        line(42, Columns::All, &mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let columns: Vec<&str> = text.trim_end().split('\t').collect();
        assert_eq!(columns[..3], ["42", &value_of(42).to_string(), &label_of(42, 0)]);
        assert_eq!(columns[3].split(',').count(), 20);
        assert!((0..1000).all(|id| (0..1 << 20).contains(&value_of(id))));
        assert_ne!(label_of(42, 0), label_of(42, 1));
    }

    #[test]
    fn a_label_says_whose_it_is() {
        assert_eq!([0, 42, 199_999_999].map(|id| id_of(&label_of(id, 3))), [Some(0), Some(42), Some(199_999_999)]);
        assert_eq!((id_of("42"), id_of("row x")), (None, None));
    }

    #[test]
    fn rows_by_value_are_those_that_a_scan_finds() {
        let (rows, by_value) = (5000, ByValue::of(5000));
        let mut sorted: Vec<u64> = (0..rows).map(|id| value_of(id).cast_unsigned()).collect();
        sorted.sort_unstable();
        for (first, last) in [(0, 99), (1, 1), (4000, 4999), (4999, 4999)] {
            let (low, high) = (by_value.at(first), by_value.at(last));
            assert_eq!((low, high), (sorted[first as usize], sorted[last as usize]));
            let found: Vec<u64> =
                (0..rows).filter(|id| (low..=high).contains(&value_of(*id).cast_unsigned())).collect();
            assert!(found.len() as u64 > last - first);
            assert_eq!(by_value.rows(low, high + 1), found.len() as u64);
            assert_eq!(by_value.ids(low, high + 1), found.iter().sum::<u64>().cast_signed());
        }
        assert_eq!(by_value.rows(0, VALUES), rows);
    }

    #[test]
    fn a_join_is_what_a_nested_loop_finds() {
        let (picks, rows) = (50, 20);
        let mut lines = Vec::new();
        (0..picks).for_each(|id| pick_line(id, rows, &mut lines));
        let found: Vec<i64> = String::from_utf8(lines)
            .unwrap()
            .lines()
            .flat_map(|line| {
                let columns: Vec<i64> = line.split('\t').map(|column| column.parse().unwrap()).collect();
                let (row, amount) = (columns[1], columns[2]);
                (0..rows).filter(move |id| id.cast_signed() == row).map(move |id| amount + value_of(id))
            })
            .collect();
        assert_eq!(joined(picks, rows), (found.len() as u64, found.iter().sum()));
    }

    #[test]
    fn sums_are_those_of_the_values() {
        let sums = Sums::of(100);
        assert_eq!(sums.between(10, 20), (10..20).map(value_of).sum::<i64>());
        assert_eq!(sums.between(0, 100), (0..100).map(value_of).sum::<i64>());
    }
}

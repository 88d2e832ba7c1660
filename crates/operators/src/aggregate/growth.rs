//! Predicts how many groups a table will have in the end, from the rate at which new ones have appeared.
//!
//! ```text
//!   new groups a row  |__
//!                     |  `--.__   the rate of one lot of rows
//!                     |        `--.__   and of the next: from there it is taken to fall as it did
//!                     +---------------`--  groups
//! ```
//!
//! If keys are drawn uniformly from a fixed set, the rate falls by the same amount for each group that exists. If some
//! keys have most of the rows and the others are new, the rate does not fall, and future rows are assumed to make
//! groups as the last ones did. Rates are measured between two growths of a table; called when it grows.

/// How much more is expected: how many of the rows that came made a group is a matter of chance too.
const MARGIN: f64 = 1.0 / 32.0;
/// Rounds in which a rate and its fall are made to agree: each is a tenth as far off as the one before.
const ROUNDS: usize = 3;

/// See the module.
#[derive(Default)]
pub(super) struct Growth {
    /// Rows that had come when the table grew the last time.
    rows: u64,
    /// Groups at that time.
    groups: usize,
    /// What had been before.
    before: Option<Stretch>,
}

/// Rows between two growths.
#[derive(Clone, Copy)]
struct Stretch {
    /// Groups when half of its groups were there.
    middle: f64,
    /// New groups for each row, on average over its rows.
    rate: f64,
    /// New groups.
    groups: f64,
}

impl Stretch {
    /// The rate at its middle, if that falls by so much for each group. Most rows come late, when it is lower: the average over rows is the
    /// logarithmic mean of the rates at both ends, of which these are the first terms. It falls to nothing at most.
    fn at_middle(&self, fall: f64) -> f64 {
        let fallen = fall * self.groups;
        self.rate + (fallen.powi(2) / (12.0 * self.rate)).min(fallen / 2.0)
    }

    /// How much the rate has fallen from one stretch to this one, for each group.
    fn fall_since(&self, before: &Self) -> f64 {
        (0..ROUNDS).fold(0.0, |fall, _| {
            ((before.at_middle(fall) - self.at_middle(fall)) / (self.middle - before.middle)).max(0.0)
        })
    }
}

/// How the groups of a table will grow.
#[derive(Clone, Copy)]
pub(super) struct Forecast {
    groups: usize,
    /// New groups of a row now, and how much less of one later for each that is made.
    rate: f64,
    fall: f64,
}

impl Forecast {
    /// The groups after so many more rows.
    pub(super) fn after(&self, rows: f64) -> usize {
        let Self { groups, rate, fall } = *self;
        if rate <= 0.0 && fall <= 0.0 {
            return groups;
        }
        // The rate falls in proportion to itself.
        let made = if fall > 0.0 { rate / fall * -(-fall * rows).exp_m1() } else { rate * rows };
        let expected = groups as f64 + made;
        (expected + expected * MARGIN) as usize
    }
}

impl Growth {
    /// Of a table that has so many groups after so many rows, and is full. Where none has come since it was the last time, no more are expected.
    pub(super) fn forecast(&mut self, rows: u64, groups: usize) -> Forecast {
        if rows <= self.rows || groups <= self.groups {
            return Forecast { groups, rate: 0.0, fall: 0.0 };
        }
        let new = (groups - self.groups) as f64;
        let last =
            Stretch { middle: (groups + self.groups) as f64 / 2.0, rate: new / (rows - self.rows) as f64, groups: new };
        let fall = self.before.map_or(0.0, |before| last.fall_since(&before));
        *self = Self { rows, groups, before: Some(last) };
        Forecast { groups, rate: (last.at_middle(fall) - fall * new / 2.0).max(0.0), fall }
    }

    /// The groups of a table in the end, which has so many after so many rows, and is full; `to_come` rows are to come.
    #[cfg(test)]
    fn expected(&mut self, rows: u64, groups: usize, to_come: f64) -> usize {
        self.forecast(rows, groups).after(to_come)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::aggregate::tests::scrambled;

    /// What a table expects, each time that it has grown by a half, of rows with these keys, and how many groups it has in the end.
    fn expected(rows: u64, key: impl Fn(u64) -> u64) -> (Vec<(usize, usize)>, usize) {
        let (mut keys, mut growth, mut all, mut next) = (HashSet::new(), Growth::default(), Vec::new(), 64);
        for row in 0..rows {
            keys.insert(key(row));
            if keys.len() == next {
                all.push((next, growth.expected(row + 1, next, (rows - row - 1) as f64)));
                next += next / 2;
            }
        }
        (all, keys.len())
    }

    /// Holds what is expected, once a part of the groups is there, to what comes.
    fn check(what: &str, (all, groups): &(Vec<(usize, usize)>, usize), from: f64, off: f64) {
        let late = all.iter().filter(|(len, _)| *len as f64 > from * *groups as f64);
        assert!(late.clone().count() > 0, "{what}");
        for (len, expected) in late {
            let found = *expected as f64 / (*groups as f64 * (1.0 + MARGIN));
            assert!((found - 1.0).abs() < off, "{what}: {expected} are expected of {groups} when there are {len}");
        }
    }

    #[test]
    fn the_groups_of_keys_by_chance_are_foreseen() {
        for keys in [5_000, 20_000, 100_000] {
            check(&format!("of {keys}"), &expected(60_000, |row| scrambled(row) % keys), 0.4, 0.1);
        }
    }

    #[test]
    fn of_the_last_keys_no_more_are_expected_than_there_are() {
        // Half of the keys, and then all but a few: the rest is found by chance, after very many rows.
        let mut growth = Growth::default();
        growth.expected(693, 500, 1e6);
        let rows = |groups: f64| (1000.0 * (1000.0_f64 / (1000.0 - groups)).ln()) as u64;
        assert_eq!(rows(500.0), 693);
        let expected = growth.expected(rows(995.0), 995, 1e6) as f64;
        assert!((990.0..1150.0).contains(&expected), "{expected}");
    }

    #[test]
    fn rows_that_make_groups_as_before_go_on() {
        check("each another", &expected(50_000, |row| row), 0.0, 0.001);
        check("each four times", &expected(50_000, |row| row / 4), 0.05, 0.02);
        let half = |row: u64| if scrambled(row).is_multiple_of(2) { 1 << 40 } else { row };
        check("half of them equal", &expected(50_000, half), 0.4, 0.1);
    }

    #[test]
    fn what_has_changed_is_found_out() {
        let late = |row: u64| if row < 20_000 { row % 100 } else { row };
        check("few at first, then many", &expected(50_000, late), 0.1, 0.1);
    }

    #[test]
    fn without_rows_to_come_or_new_groups_there_is_what_there_is() {
        let mut growth = Growth::default();
        assert_eq!(growth.expected(0, 0, 1e6), 0);
        assert_eq!(growth.expected(100, 64, 0.0), 66);
        // Nothing has come since.
        assert_eq!(growth.expected(100, 64, 1e6), 64);
        assert_eq!(growth.expected(1000, 64, 1e6), 64);
    }
}

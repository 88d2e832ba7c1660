//! TPC-C's random values: clauses 2.1.5, 2.1.6, 4.3.2 and 4.3.3 of the specification, revision 5.11.

use crate::numbers::Numbers;

/// The constants `C` of [`nonuniform`], each from 0 to its `A`; one number for all connections of a run, as clause 2.1.6.1 has it.
const C_OF_CUSTOMERS: u64 = 259;
const C_OF_ITEMS: u64 = 7_911;

/// Of last names in the data, and of those that are asked for: their distance must be from 65 to 119, and neither 96 nor 112.
const C_OF_NAMES_LOADED: u64 = 157;
const C_OF_NAMES_ASKED: u64 = 223;

/// Different last names.
pub(super) const NAMES: u64 = 1000;

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Letters or digits that one number is good for: 62^10 is below 2^60.
const LETTERS_PER_NUMBER: u64 = 10;

/// A number from `first` to `last`.
pub(super) fn between(numbers: &mut Numbers, first: u64, last: u64) -> u64 {
    first + numbers.below(last - first + 1)
}

/// NURand(A, x, y) of clause 2.1.6.
fn nonuniform(numbers: &mut Numbers, a: u64, c: u64, (first, last): (u64, u64)) -> u64 {
    let spread = between(numbers, 0, a) | between(numbers, first, last);
    (spread + c) % (last - first + 1) + first
}

/// A customer of a district that has so many.
pub(super) fn customer(numbers: &mut Numbers, customers: u64) -> u64 {
    nonuniform(numbers, 1023, C_OF_CUSTOMERS, (1, customers))
}

/// An item of so many.
pub(super) fn item(numbers: &mut Numbers, items: u64) -> u64 {
    nonuniform(numbers, 8191, C_OF_ITEMS, (1, items))
}

/// The number of a last name for a customer that is loaded.
pub(super) fn name_loaded(numbers: &mut Numbers) -> u64 {
    nonuniform(numbers, 255, C_OF_NAMES_LOADED, (0, NAMES - 1))
}

/// The number of a last name that is asked for, where so many are there.
pub(super) fn name_asked(numbers: &mut Numbers, names: u64) -> u64 {
    nonuniform(numbers, 255, C_OF_NAMES_ASKED, (0, names - 1))
}

/// The last name of a number below [`NAMES`]: a syllable for each of its three digits.
pub(super) fn last_name(number: u64) -> String {
    [100, 10, 1].map(|place| SYLLABLES[(number / place % 10) as usize]).concat()
}

/// Letters and digits, as many as `first` to `last`.
pub(super) fn text(numbers: &mut Numbers, first: u64, last: u64) -> String {
    symbols(numbers, LETTERS, first, last)
}

/// Digits, so many.
pub(super) fn digits(numbers: &mut Numbers, count: u64) -> String {
    symbols(numbers, b"0123456789", count, count)
}

/// Upper-case letters, so many.
pub(super) fn capitals(numbers: &mut Numbers, count: u64) -> String {
    symbols(numbers, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", count, count)
}

fn symbols(numbers: &mut Numbers, alphabet: &[u8], first: u64, last: u64) -> String {
    let length = between(numbers, first, last);
    let (mut text, mut rest) = (String::with_capacity(length as usize), 0);
    for place in 0..length {
        if place % LETTERS_PER_NUMBER == 0 {
            rest = numbers.next();
        }
        text.push(char::from(alphabet[(rest % alphabet.len() as u64) as usize]));
        rest /= alphabet.len() as u64;
    }
    text
}

/// The text of I_DATA and S_DATA: one of ten has the word ORIGINAL somewhere in it.
pub(super) fn data(numbers: &mut Numbers) -> String {
    let mut text = text(numbers, 26, 50);
    if numbers.below(10) == 0 {
        let place = numbers.below(text.len() as u64 - 7) as usize;
        text.replace_range(place..place + 8, "ORIGINAL");
    }
    text
}

/// The numbers from 1 to `count` in an order of chance (Fisher and Yates).
pub(super) fn permutation(numbers: &mut Numbers, count: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (1..=count).collect();
    for place in (1..all.len()).rev() {
        all.swap(place, numbers.below(place as u64 + 1) as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_specification() {
        // The example of clause 4.3.2.3, and both ends.
        for (number, name) in [(371, "PRICALLYOUGHT"), (0, "BARBARBAR"), (999, "EINGEINGEING"), (40, "BARPRESBAR")] {
            assert_eq!(last_name(number), name);
        }
        // C_LAST has 16 letters at most.
        assert!((0..NAMES).all(|number| last_name(number).len() <= 16));
    }

    #[test]
    fn constants_keep_the_bounds_of_clause_2_1_6_1() {
        let distance = C_OF_NAMES_ASKED.abs_diff(C_OF_NAMES_LOADED);
        assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
        const {
            assert!(
                C_OF_NAMES_LOADED <= 255 && C_OF_NAMES_ASKED <= 255 && C_OF_CUSTOMERS <= 1023 && C_OF_ITEMS <= 8191
            );
        }
    }

    /// How often each value came, of those from `first` to `last`; others are refused.
    fn counts((first, last): (u64, u64), draw: &mut dyn FnMut(&mut Numbers) -> u64) -> Vec<u32> {
        let mut numbers = Numbers::new(5);
        let mut counts = vec![0; (last - first + 1) as usize];
        for _ in 0..300_000 {
            counts[(draw(&mut numbers) - first) as usize] += 1;
        }
        counts
    }

    #[test]
    fn choices_that_are_not_uniform_stay_within_their_bounds_and_follow_their_law() {
        let customers = counts((1, 3000), &mut |numbers| customer(numbers, 3000));
        let names = counts((0, 999), &mut |numbers| name_asked(numbers, 1000));
        for (found, a, c, first) in [(customers, 1023, C_OF_CUSTOMERS, 1), (names, 255, C_OF_NAMES_ASKED, 0)] {
            let values = found.len() as u64;
            // The exact law, by going through all pairs that are or-ed.
            let mut law = vec![0u64; found.len()];
            for left in 0..=a {
                for right in first..first + values {
                    law[(((left | right) + c) % values) as usize] += 1;
                }
            }
            let all: u64 = law.iter().sum();
            let mut distance = 0.0;
            for (found, law) in found.iter().zip(&law) {
                distance += (f64::from(*found) / 300_000.0 - *law as f64 / all as f64).abs();
            }
            // Of so many draws some 0.05 to 0.08 is chance; of a uniform choice it would be above 0.5.
            assert!(distance < 0.12, "{values}: {distance}");
            assert!(*found.iter().max().unwrap() > 3 * 300_000 / values as u32, "{values} is uniform");
        }
    }

    #[test]
    fn few_items_and_customers_are_chosen_too() {
        let mut numbers = Numbers::new(1);
        for count in [1, 2, 10, 100] {
            for _ in 0..1000 {
                assert!((1..=count).contains(&item(&mut numbers, count)));
                assert!((1..=count).contains(&customer(&mut numbers, count)));
                assert!(name_asked(&mut numbers, count) < count);
            }
        }
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut numbers = Numbers::new(1);
        let texts: Vec<String> = (0..20_000).map(|_| data(&mut numbers)).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        let original = texts.iter().filter(|text| text.contains("ORIGINAL")).count();
        assert!((1800..2200).contains(&original), "{original}");
        // At both ends too.
        assert!(texts.iter().any(|text| text.starts_with("ORIGINAL")));
        assert!(texts.iter().any(|text| text.ends_with("ORIGINAL")));
    }

    #[test]
    fn texts_have_their_lengths_and_a_permutation_has_all_numbers() {
        let mut numbers = Numbers::new(1);
        let lengths: Vec<usize> = (0..1000).map(|_| text(&mut numbers, 8, 16).len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&8), Some(&16)));
        assert_eq!(digits(&mut numbers, 16).len(), 16);
        let mut order = permutation(&mut numbers, 3000);
        assert!(order.windows(2).any(|pair| pair[0] > pair[1]));
        order.sort_unstable();
        assert_eq!(order, (1..=3000).collect::<Vec<u64>>());
    }
}

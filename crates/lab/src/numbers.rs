//! Numbers that look random and depend on a seed only, so that a run can be repeated.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of one part of something that has a seed: a thread of a repetition, say.
    pub(crate) fn of(seed: u64, parts: &[u64]) -> Self {
        Self(parts.iter().fold(seed, |seed, part| mix(seed ^ mix(*part))))
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `limit`, which is at least 1. The bias of the multiplication is below `limit` / 2^64.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from 0 to below 1, in steps of 2^-53.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A permutation of the 64-bit numbers that scatters neighbours: SplitMix64's output function.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_its_parts_others() {
        let first = |mut numbers: Numbers| (numbers.next(), numbers.next());
        assert_eq!(first(Numbers::new(7)), first(Numbers::new(7)));
        assert_ne!(first(Numbers::of(7, &[0, 1])), first(Numbers::of(7, &[1, 0])));
    }

    #[test]
    fn numbers_below_a_limit_reach_all_of_it_evenly() {
        let mut numbers = Numbers::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[numbers.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
    }
}

//! Which key comes next.

use super::sizes::Distribution;
use crate::numbers::Numbers;

/// The skew of YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010).
const SKEW: f64 = 0.99;

/// A prime: multiplying by it permutes the numbers below any count that it does not divide, so that popular keys are not neighbours.
const SCATTER: u64 = 0x1_0000_000f;

/// Chooses among the numbers below a count.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    Uniform(u64),
    Zipfian(Zipfian),
}

impl Choice {
    /// `count` is at least 1 and below [`SCATTER`].
    pub(super) fn of(distribution: Distribution, count: u64) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform(count),
            Distribution::Zipfian => Self::Zipfian(Zipfian::new(count)),
        }
    }

    #[inline]
    pub(super) fn next(&self, numbers: &mut Numbers) -> u64 {
        match self {
            Self::Uniform(count) => numbers.below(*count),
            Self::Zipfian(zipfian) => {
                let rank = zipfian.rank(numbers.fraction());
                ((u128::from(rank) * u128::from(SCATTER)) % u128::from(zipfian.count)) as u64
            }
        }
    }
}

/// Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994, section 3.
#[derive(Clone, Debug)]
pub(super) struct Zipfian {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    fn new(count: u64) -> Self {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-SKEW)).sum();
        let zeta_of_two = 1.0 + 2f64.powf(-SKEW);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - SKEW)) / (1.0 - zeta_of_two / zeta);
        Self { count, zeta, alpha: 1.0 / (1.0 - SKEW), eta }
    }

    /// The rank, from 0, that this part of all requests asks for.
    fn rank(&self, fraction: f64) -> u64 {
        let scaled = fraction * self.zeta;
        let rank = if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 2f64.powf(-SKEW) {
            1
        } else {
            (self.count as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha)) as u64
        };
        rank.min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn counts(distribution: Distribution, count: u64) -> Vec<u32> {
        let (choice, mut numbers) = (Choice::of(distribution, count), Numbers::new(11));
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for _ in 0..200_000 {
            let key = choice.next(&mut numbers);
            assert!(key < count);
            *seen.entry(key).or_default() += 1;
        }
        let mut counts: Vec<u32> = seen.into_values().collect();
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        counts
    }

    #[test]
    fn uniform_keys_are_alike() {
        let counts = counts(Distribution::Uniform, 100);
        assert!(counts.len() == 100 && counts[0] < 2300 && counts[99] > 1700, "{counts:?}");
    }

    #[test]
    fn zipfian_keys_follow_their_law() {
        let counts = counts(Distribution::Zipfian, 1000);
        // The exact law for the first rank, and for the tenth within what the method approximates.
        let zeta: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-SKEW)).sum();
        let expected = 200_000.0 / zeta;
        assert!((f64::from(counts[0]) / expected - 1.0).abs() < 0.03, "{} for {expected}", counts[0]);
        let tenth = expected / 10f64.powf(SKEW);
        assert!((f64::from(counts[9]) / tenth - 1.0).abs() < 0.2, "{} for {tenth}", counts[9]);
    }

    #[test]
    fn few_keys_are_chosen_too() {
        for count in 1..4 {
            assert!(counts(Distribution::Zipfian, count).len() as u64 <= count);
        }
    }
}

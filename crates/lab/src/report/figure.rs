//! What some repetitions say of a measure: their mean, and how sure it is.
//!
//! The mean is the geometric one, as `compare` has it, so that a table and a comparison of the same runs show the same figures.

use crate::record::Measurement;
use crate::record::measure::Measure;
use crate::statistics::{Mean, mean};

/// The confidence of the intervals on pages and in tables: that each by itself holds the true mean. Words are decided by
/// `compare`, whose intervals hold all together.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A half width above this ratio says no more than that nothing is known.
const HALF_MAX: f64 = 9.995;

/// A measure over some repetitions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) measure: Measure,
    /// The geometric mean.
    pub(crate) mean: f64,
    /// The ends of the interval; None of a single repetition.
    pub(crate) interval: Option<(f64, f64)>,
    /// The figure of each repetition.
    pub(crate) each: Vec<f64>,
}

impl Figure {
    /// Of those repetitions that are sound; None where it was not measured.
    pub(crate) fn of<'a>(measure: Measure, all: impl Iterator<Item = &'a Measurement>) -> Option<Self> {
        let sound: Vec<&Measurement> = all.filter(|one| one.is_sound()).collect();
        let each: Vec<f64> = sound.iter().filter_map(|one| measure.of(one)).collect();
        let resolution = sound.iter().filter_map(|one| measure.resolution(one)).fold(0.0, f64::max);
        let Mean { mean, interval } = mean(&each, CONFIDENCE, resolution)?;
        Some(Self { measure, mean, interval, each })
    }

    /// The mean for people.
    pub(crate) fn shown(&self) -> String {
        self.measure.shown(self.mean)
    }

    /// The interval for people.
    pub(crate) fn sureness(&self) -> Option<String> {
        sureness(&Mean { mean: self.mean, interval: self.interval })
    }
}

/// An interval for people: how far it reaches, in percent of the mean.
pub(super) fn sureness(mean: &Mean) -> Option<String> {
    let (_, high) = mean.interval?;
    let half = high / mean.mean - 1.0;
    Some(match half * 100.0 {
        _ if half > HALF_MAX => "\u{b1} over 999 %".to_owned(),
        percent if percent >= 9.95 => format!("\u{b1} {percent:.0} %"),
        percent => format!("\u{b1} {percent:.1} %"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::measurement;

    #[test]
    fn a_figure_is_the_mean_of_what_is_sound() {
        let mut all: Vec<Measurement> = (1..=4).map(|repetition| measurement("redis", 2, repetition)).collect();
        for (one, figure) in all.iter_mut().zip([100.0, 400.0, 200.0, 9e9]) {
            one.operations_per_second = figure;
        }
        all[3].errors = 1;
        let figure = Figure::of(Measure::Throughput, all.iter()).unwrap();
        assert!((figure.mean - 200.0).abs() < 1e-9);
        assert_eq!(figure.each, [100.0, 400.0, 200.0]);
        // Logarithms spread by ln 2 around the middle: t(0.975, 2) * ln 2 / sqrt 3 = 1.7219, e to that 5.595.
        let (low, high) = figure.interval.unwrap();
        assert!((high / 200.0 - 5.595).abs() < 0.01 && (low * high / 40_000.0 - 1.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(figure.sureness().unwrap(), "\u{b1} 459 %");
        assert_eq!(Figure::of(Measure::Throughput, all[..1].iter()).unwrap().sureness(), None);
        assert_eq!(Figure::of(Measure::Throughput, all[3..].iter()), None);
        let wild = Figure { interval: Some((1.0, 1e9)), ..figure };
        assert_eq!(wild.sureness().unwrap(), "\u{b1} over 999 %");
    }
}

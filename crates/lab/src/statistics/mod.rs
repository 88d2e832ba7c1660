//! What repetitions say: of one target about its mean, of two about their difference. No I/O; used by `compare` and `report`.

mod student;

/// The difference of two targets in one measure, as a ratio less one: 0.05 is five percent more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// Ratio of the geometric means, less one.
    pub(crate) estimate: f64,
    /// Lower end of the confidence interval.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
}

impl Interval {
    /// Whether the difference is surely more than none, and at least `least` large by the estimate.
    pub(crate) fn is_above(&self, least: f64) -> bool {
        self.low > 0.0 && self.estimate >= least
    }

    /// Whether the difference is surely less than none, and at least `least` large by the estimate.
    pub(crate) fn is_below(&self, least: f64) -> bool {
        self.high < 0.0 && self.estimate <= -least
    }
}

/// The difference of `test` from `base`, and the interval that holds the true one with this confidence; None unless both
/// have at least two figures, all above zero. `resolution` is the ratio by which the two may differ because they are counted in
/// steps: the interval is no narrower, for repetitions that agree by it agree by chance.
///
/// Welch's interval for the difference of two means with unequal variances (B. L. Welch, "The generalization of 'Student's'
/// problem when several different population variances are involved", Biometrika 34, 1947; the degrees of freedom after
/// Satterthwaite, 1946), of the logarithms, so that it is one for the ratio. Repetitions are what is repeated: the many
/// operations within one are not independent of each other (Georges, Buytaert, Eeckhout: "Statistically rigorous Java
/// performance evaluation", OOPSLA 2007). A bootstrap would not do: resampling five figures gives intervals that are too narrow.
pub(crate) fn difference(base: &[f64], test: &[f64], confidence: f64, resolution: f64) -> Option<Interval> {
    let (base, test) = (Sample::of_logarithms(base)?, Sample::of_logarithms(test)?);
    let difference = test.mean - base.mean;
    let (first, second) = (base.variance / base.count, test.variance / test.count);
    let error = (first + second).sqrt();
    let ratio = |logarithm: f64| logarithm.exp_m1();
    let mut half = resolution.ln_1p();
    if error > 0.0 {
        let freedom =
            (first + second).powi(2) / (first.powi(2) / (base.count - 1.0) + second.powi(2) / (test.count - 1.0));
        half = half.max(student::quantile(1.0 - (1.0 - confidence) / 2.0, freedom) * error);
    }
    Some(Interval { estimate: ratio(difference), low: ratio(difference - half), high: ratio(difference + half) })
}

/// The confidence that each of `comparisons` needs so that all of them together have `confidence`: Bonferroni's bound (Dunn,
/// "Multiple comparisons among means", JASA 56, 1961).
pub(crate) fn confidence_of_each(confidence: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - confidence) / comparisons.max(1) as f64
}

/// The mean of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    /// The geometric mean.
    pub(crate) mean: f64,
    /// The ends of its confidence interval; None of one figure.
    pub(crate) interval: Option<(f64, f64)>,
}

/// The geometric mean, and the interval that holds the true one with this confidence; None unless there are figures, all above zero.
/// The interval is Student's, of the logarithms, and no narrower than `resolution`, as in [`difference`].
pub(crate) fn mean(figures: &[f64], confidence: f64, resolution: f64) -> Option<Mean> {
    if figures.is_empty() || figures.iter().any(|figure| figure.is_nan() || *figure <= 0.0) {
        return None;
    }
    let interval = Sample::of_logarithms(figures).map(|sample| {
        let error = (sample.variance / sample.count).sqrt();
        let mut half = resolution.ln_1p();
        if error > 0.0 {
            half = half.max(student::quantile(1.0 - (1.0 - confidence) / 2.0, sample.count - 1.0) * error);
        }
        ((sample.mean - half).exp(), (sample.mean + half).exp())
    });
    Some(Mean { mean: geometric_mean(figures), interval })
}

/// The mean that intervals of ratios are about: that of the logarithms.
pub(crate) fn geometric_mean(figures: &[f64]) -> f64 {
    (figures.iter().map(|figure| figure.ln()).sum::<f64>() / figures.len() as f64).exp()
}

struct Sample {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Sample {
    fn of_logarithms(figures: &[f64]) -> Option<Self> {
        if figures.len() < 2 || figures.iter().any(|figure| figure.is_nan() || *figure <= 0.0) {
            return None;
        }
        let count = figures.len() as f64;
        let mean = figures.iter().map(|figure| figure.ln()).sum::<f64>() / count;
        let variance = figures.iter().map(|figure| (figure.ln() - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Equal figures differ in the last bit of their mean.
        Some(Self { count, mean, variance: if variance < 1e-24 { 0.0 } else { variance } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Logarithms 1, 2, 3 and 2, 4, 6: difference 2, error sqrt(1/3 + 4/3) = 1.29099, freedom 2.941, t(0.975) = 3.2182.
        let exponentials = |figures: [f64; 3]| figures.map(f64::exp);
        let interval = difference(&exponentials([1.0, 2.0, 3.0]), &exponentials([2.0, 4.0, 6.0]), 0.95, 0.001).unwrap();
        let logarithms = [interval.low, interval.estimate, interval.high].map(f64::ln_1p);
        for (found, expected) in logarithms.into_iter().zip([2.0 - 4.1547, 2.0, 2.0 + 4.1547]) {
            assert!((found - expected).abs() < 2e-3, "{logarithms:?}");
        }
    }

    #[test]
    fn the_interval_of_a_mean_is_that_of_the_textbook() {
        // Logarithms 1, 2, 3: mean 2, error 1 / sqrt(3) = 0.57735, t(0.975) with two degrees of freedom = 4.30265.
        let Mean { mean: middle, interval } = mean(&[1.0, 2.0, 3.0].map(f64::exp), 0.95, 0.001).unwrap();
        let (low, high) = interval.unwrap();
        for (found, expected) in [low, middle, high].map(f64::ln).into_iter().zip([2.0 - 2.4841, 2.0, 2.0 + 2.4841]) {
            assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
        }
        // Figures that agree do so within their steps.
        let (low, high) = mean(&[5.0, 5.0], 0.95, 0.01).unwrap().interval.unwrap();
        assert!((high - 5.05).abs() < 1e-9 && (low - 5.0 / 1.01).abs() < 1e-9);
        assert_eq!(mean(&[7.0], 0.95, 0.0).unwrap().interval, None);
        assert_eq!(mean(&[], 0.95, 0.0), None);
        assert_eq!(mean(&[1.0, 0.0], 0.95, 0.0), None);
    }

    #[test]
    fn too_few_figures_say_nothing() {
        assert_eq!(difference(&[1.0], &[1.0, 2.0], 0.95, 0.0), None);
        assert_eq!(difference(&[1.0, 0.0], &[1.0, 2.0], 0.95, 0.0), None);
    }

    #[test]
    fn figures_without_noise_are_as_sure_as_they_are_fine() {
        let interval = difference(&[3.0, 3.0, 3.0], &[3.3, 3.3], 0.99, 0.01).unwrap();
        assert!((interval.estimate - 0.1).abs() < 1e-12, "{interval:?}");
        assert!((interval.low - (1.1 / 1.01 - 1.0)).abs() < 1e-12 && (interval.high - 0.111).abs() < 1e-12);
        assert!(interval.is_above(0.01) && !interval.is_above(0.2) && !interval.is_below(0.01));
        // Two ticks of a clock and three differ by half, and may be the same.
        assert!(!difference(&[2.0, 2.0], &[3.0, 3.0], 0.99, 0.5 + 1.0 / 3.0).unwrap().is_above(0.01));
        let none = difference(&[7.1, 7.1], &[7.1, 7.1], 0.99, 0.0).unwrap();
        assert!(!none.is_above(0.0) && !none.is_below(0.0));
    }

    #[test]
    fn more_comparisons_need_more_confidence_each() {
        assert!((confidence_of_each(0.99, 8) - 0.99875).abs() < 1e-12);
        assert_eq!(confidence_of_each(0.99, 0), 0.99);
    }
}

//! Student's t distribution: the quantile that an interval needs.

use std::f64::consts::PI;

/// The value that the distribution does not exceed with this probability, which is above one half and below one.
pub(super) fn quantile(probability: f64, freedom: f64) -> f64 {
    // Bisection: the distribution function is monotonic, and this is called a few times a comparison.
    let (mut low, mut high) = (0.0, 1.0);
    while cumulative(high, freedom) < probability && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if cumulative(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The probability of at most `t`, which is not negative.
fn cumulative(t: f64, freedom: f64) -> f64 {
    1.0 - incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0
}

/// The regularised incomplete beta function by its continued fraction, with Lentz's method (Press et al., "Numerical
/// Recipes", 3rd edition, section 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges fast on this side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let bounded = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / bounded(1.0 + term * d);
            c = bounded(1.0 + term / c);
            change = d * c;
            result *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// Lanczos's approximation of the logarithm of the gamma function (coefficients for g = 7, n = 9; error below 1e-13).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let base = x + 7.5;
    let sum = COEFFICIENTS
        .iter()
        .zip(1..)
        .fold(0.999_999_999_999_809_9, |sum, (coefficient, place)| sum + coefficient / (x + f64::from(place)));
    0.5 * (2.0 * PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Tables of the t distribution, as in any handbook of statistics.
        for (probability, freedom, expected) in [
            (0.975, 1.0, 12.7062),
            (0.975, 2.0, 4.30265),
            (0.975, 4.0, 2.77645),
            (0.975, 8.0, 2.30600),
            (0.995, 8.0, 3.35539),
            (0.9995, 8.0, 5.04131),
            (0.975, 30.0, 2.04227),
            (0.975, 1e6, 1.95997),
        ] {
            let found = quantile(probability, freedom);
            assert!((found / expected - 1.0).abs() < 1e-5, "t({probability}, {freedom}) = {found}, not {expected}");
        }
    }

    #[test]
    fn the_gamma_function_is_right_where_it_is_known() {
        for (x, gamma) in [(0.5, PI.sqrt()), (1.0, 1.0), (5.0, 24.0), (10.0, 362_880.0)] {
            assert!((ln_gamma(x) - f64::ln(gamma)).abs() < 1e-12, "{x}");
        }
    }
}

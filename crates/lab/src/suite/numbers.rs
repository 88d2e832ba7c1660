//! Samples to medians, and numbers for people.

use std::time::Duration;

/// The middle sample; the mean of the two middle ones where their number is even. None of no samples.
pub(super) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => sorted.get(half).copied(),
        _ => Some((sorted.get(half - 1)? + sorted.get(half)?) / 2.0),
    }
}

/// `(largest - smallest) / median`, in percent: how far to trust the median. None of fewer than two samples.
pub(super) fn spread(samples: &[f64]) -> Option<f64> {
    let (low, high) =
        samples.iter().fold((f64::MAX, f64::MIN), |(low, high), &sample| (low.min(sample), high.max(sample)));
    median(samples).filter(|_| samples.len() > 1).map(|median| 100.0 * (high - low) / median)
}

/// A figure as people read it: `452 K/s`, `1.24 M/s`.
pub(super) fn rate(per_second: f64) -> String {
    format!("{}/s", short(per_second))
}

/// `78.1 K`, `1.24 M`, `950`, `7.25`.
pub(super) fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.2} M", number / 1e6),
        number if number >= 1e5 => format!("{:.0} K", number / 1e3),
        number if number >= 1e3 => format!("{:.1} K", number / 1e3),
        number if number >= 1e2 || number.fract() == 0.0 => format!("{number:.0}"),
        number if number >= 1e1 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

/// A size, without digits that are zeros: `1 M`, `100 K`, `20`.
pub(super) fn size(number: u64) -> String {
    match number {
        number if number >= 1_000_000 && number % 100_000 == 0 => format!("{} M", number as f64 / 1e6),
        number if number >= 1_000 && number % 100 == 0 => format!("{} K", number as f64 / 1e3),
        number => number.to_string(),
    }
}

/// `97.3 ms` of microseconds.
pub(super) fn time(micros: f64) -> String {
    format!("{:.1?}", Duration::from_secs_f64(micros / 1e6)).replace('µ', "u")
}

/// `1.24 GiB`, `312 MiB`.
pub(super) fn bytes(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.2} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

/// A length of time: `45 s`, `3 min 20 s`, `2 h 05 min`.
pub(super) fn spoken(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_follow_an_outlier() {
        assert_eq!(median(&[3.0, 1.0, 1000.0]), Some(3.0));
        assert_eq!(median(&[4.0, 2.0]), Some(3.0));
        assert_eq!(median(&[]), None);
        assert_eq!(spread(&[90.0, 100.0, 110.0]), Some(20.0));
        assert_eq!(spread(&[90.0]), None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(rate(452_123.0), "452 K/s");
        assert_eq!(rate(78_125.0), "78.1 K/s");
        assert_eq!(rate(1_240_000.0), "1.24 M/s");
        assert_eq!([208.4, 20.0, 20.25, 7.256].map(short), ["208", "20", "20.2", "7.26"]);
        assert_eq!(
            [1_000_000, 10_000_000, 100_000, 2_000, 1_234, 20].map(size),
            ["1 M", "10 M", "100 K", "2 K", "1234", "20"]
        );
        assert_eq!([16_700.0, 93.0, 1_300_000.0].map(time), ["16.7ms", "93.0us", "1.3s"]);
        assert_eq!(bytes(3.5 * 1024.0 * 1024.0 * 1024.0), "3.50 GiB");
        assert_eq!([45.0, 200.0, 7500.0].map(spoken), ["45 s", "3 min 20 s", "2 h 05 min"]);
    }
}

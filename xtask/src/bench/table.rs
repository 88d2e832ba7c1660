//! Samples to medians, medians to ratios, rows to Markdown.

/// One row of the result: a question, what each server answered, and how we stand.
pub(super) struct Row {
    pub(super) what: String,
    pub(super) wanted: &'static str,
    /// Server and figure, ours first.
    pub(super) figures: Vec<(String, String)>,
    /// `1.8 x Redis`, or why there is no number.
    pub(super) standing: String,
}

/// The middle sample; the mean of the two middle ones where their number is even.
pub(super) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// `(largest - smallest) / median`, in percent: how far to trust the median.
pub(super) fn spread(samples: &[f64]) -> f64 {
    let (low, high) =
        samples.iter().fold((f64::MAX, f64::MIN), |(low, high), &sample| (low.min(sample), high.max(sample)));
    100.0 * (high - low) / median(samples)
}

/// A figure as people read it: `452 K/s`, `1.24 M/s`.
pub(super) fn rate(per_second: f64) -> String {
    format!("{}/s", short(per_second))
}

/// `78.1 K`, `1.24 M`, `950`.
pub(super) fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.2} M", number / 1e6),
        number if number >= 1e5 => format!("{:.0} K", number / 1e3),
        number if number >= 1e3 => format!("{:.1} K", number / 1e3),
        number => format!("{number:.0}"),
    }
}

/// The rows as a Markdown table.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from("| what | wanted | figures | where we stand |\n|---|---|---|---|\n");
    for row in rows {
        let figures: Vec<String> = row.figures.iter().map(|(name, figure)| format!("{name} {figure}")).collect();
        let figures = if figures.is_empty() { "-".to_owned() } else { figures.join("<br>") };
        text.push_str(&format!(
            "| {} | {} | {figures} | {} |\n",
            row.what,
            row.wanted,
            row.standing.replace('\n', " ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_follow_an_outlier() {
        assert_eq!(median(&[3.0, 1.0, 1000.0]), 3.0);
        assert_eq!(median(&[4.0, 2.0]), 3.0);
        assert!(median(&[]).is_nan());
        assert_eq!(spread(&[90.0, 100.0, 110.0]), 20.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(rate(452_123.0), "452 K/s");
        assert_eq!(rate(78_125.0), "78.1 K/s");
        assert_eq!(rate(1_240_000.0), "1.24 M/s");
        assert_eq!(short(208.0), "208");
    }

    #[test]
    fn a_row_without_figures_gives_its_reason() {
        let row = Row { what: "index".into(), wanted: "2 x", figures: vec![], standing: "needs\nindexes".into() };
        assert!(markdown(&[row]).ends_with("| index | 2 x | - | needs indexes |\n"));
    }
}

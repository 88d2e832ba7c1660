//! Draws a plot of lines as SVG: two axes, each plain or logarithmic, a legend, nothing that runs.

use std::fmt::Write as _;

use super::html::escape;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;

/// Room of a line of the legend.
const LEGEND_LINE: f64 = 18.0;

/// Colours that people with any sight tell apart (Okabe and Ito, "Color universal design", 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// How figures lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Evenly, from zero.
    Plain,
    /// By their logarithm.
    Logarithmic,
}

/// An axis: its name, its scale, and how a figure is written beside it.
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) scale: Scale,
    pub(super) shown: fn(f64) -> String,
    /// Where marks are; none to let the scale decide.
    pub(super) marks: Vec<f64>,
}

/// A line.
pub(super) struct Series {
    /// What the legend says; lines of the same name have the same colour and one entry.
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// For each point the ends of an upright bar, or none at all.
    pub(super) bars: Vec<(f64, f64)>,
}

/// A plot.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// An axis with its ends.
struct Range<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
}

impl<'a> Range<'a> {
    fn of(axis: &'a Axis, figures: impl Iterator<Item = f64>) -> Option<Self> {
        let usable = |figure: &f64| figure.is_finite() && (axis.scale == Scale::Plain || *figure > 0.0);
        let (low, high) = figures
            .chain(axis.marks.iter().copied())
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), figure| (low.min(figure), high.max(figure)));
        if low > high {
            return None;
        }
        let (low, high) = match axis.scale {
            Scale::Plain => (low.min(0.0), high.max(low.min(0.0) + f64::MIN_POSITIVE)),
            Scale::Logarithmic if low == high => (low / 2.0, high * 2.0),
            Scale::Logarithmic => (low, high),
        };
        // Room above the highest line.
        let high = match (axis.scale, axis.marks.is_empty()) {
            (Scale::Plain, true) => high * 1.05,
            (Scale::Logarithmic, true) => high * 1.15,
            (_, false) => high,
        };
        Some(Self { axis, low, high })
    }

    /// Where a figure lies between the ends, from 0 to 1.
    fn share(&self, figure: f64) -> f64 {
        match self.axis.scale {
            Scale::Plain => (figure - self.low) / (self.high - self.low),
            Scale::Logarithmic => (figure / self.low).ln() / (self.high / self.low).ln(),
        }
        .clamp(0.0, 1.0)
    }

    fn marks(&self) -> Vec<f64> {
        if !self.axis.marks.is_empty() {
            return self.axis.marks.clone();
        }
        match self.axis.scale {
            Scale::Plain => {
                let step = round_step((self.high - self.low) / 5.0);
                (0..=10).map(|place| self.low + step * f64::from(place)).take_while(|mark| *mark <= self.high).collect()
            }
            Scale::Logarithmic => {
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let marks = (first..=last).flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
                marks.filter(|mark| (self.low..=self.high).contains(mark)).collect()
            }
        }
    }
}

/// The next of 1, 2, 5, 10, 20, ... that is not smaller.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step).unwrap_or(10.0);
    factor * power
}

impl Plot {
    /// The plot as an element; nothing if there is nothing to draw.
    pub(super) fn svg(&self) -> Result<String, std::fmt::Error> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let bars = || self.series.iter().flat_map(|series| &series.bars).flat_map(|(low, high)| [*low, *high]);
        let (Some(x), Some(y)) = (
            Range::of(&self.x, points().map(|(x, _)| *x)),
            Range::of(&self.y, points().map(|(_, y)| *y).chain(bars())),
        ) else {
            return Ok(String::new());
        };
        let mut names: Vec<&str> = Vec::new();
        for series in &self.series {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        let across = |figure: f64| LEFT + x.share(figure) * (WIDTH - LEFT - RIGHT);
        let down = |figure: f64| HEIGHT - BOTTOM - y.share(figure) * (HEIGHT - TOP - BOTTOM);
        let height = HEIGHT + LEGEND_LINE * names.len() as f64;
        let mut out = String::new();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>",
            escape(&self.title)
        )?;
        writeln!(out, "<text class=\"title\" x=\"{LEFT}\" y=\"20\">{}</text>", escape(&self.title))?;
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for mark in x.marks() {
            let (at, text) = (across(mark), escape(&(self.x.shown)(mark)));
            writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>")?;
            writeln!(
                out,
                "<text class=\"mark\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 18.0
            )?;
        }
        for mark in y.marks() {
            let (at, text) = (down(mark), escape(&(self.y.shown)(mark)));
            writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>")?;
            writeln!(
                out,
                "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 8.0,
                at + 4.0
            )?;
        }
        writeln!(
            out,
            "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 40.0,
            escape(self.x.name)
        )?;
        writeln!(
            out,
            "<text class=\"mark\" transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (TOP + bottom) / 2.0,
            escape(self.y.name)
        )?;
        for series in &self.series {
            let place = names.iter().position(|name| *name == series.name).unwrap_or(0);
            let colour = COLOURS[place % COLOURS.len()];
            let drawn: Vec<String> = series
                .points
                .iter()
                .filter(|(a, b)| a.is_finite() && b.is_finite())
                .map(|(a, b)| format!("{:.1},{:.1}", across(*a), down(*b)))
                .collect();
            writeln!(out, "<polyline class=\"line\" stroke=\"{colour}\" points=\"{}\"/>", drawn.join(" "))?;
            for ((at, _), (low, high)) in series.points.iter().zip(&series.bars) {
                let (at, low, high) = (across(*at), down(*low), down(*high));
                writeln!(
                    out,
                    "<line stroke=\"{colour}\" x1=\"{at:.1}\" y1=\"{low:.1}\" x2=\"{at:.1}\" y2=\"{high:.1}\"/>"
                )?;
            }
            if series.points.len() <= 20 {
                for (a, b) in &series.points {
                    writeln!(
                        out,
                        "<circle fill=\"{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                        across(*a),
                        down(*b)
                    )?;
                }
            }
        }
        for (place, name) in names.iter().enumerate() {
            let (at, colour) = (HEIGHT + LEGEND_LINE * place as f64, COLOURS[place % COLOURS.len()]);
            writeln!(
                out,
                "<line class=\"line\" stroke=\"{colour}\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\"/>",
                LEFT + 24.0
            )?;
            writeln!(
                out,
                "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT + 32.0,
                at + 4.0,
                escape(name)
            )?;
        }
        out.push_str("</svg>\n");
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within_the_axis() {
        let axis = |scale| Axis { name: "x", scale, shown: |figure| figure.to_string(), marks: vec![] };
        let plain = axis(Scale::Plain);
        let range = Range::of(&plain, [3.0, 97.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [0.0, 50.0, 100.0]);
        let logarithmic = axis(Scale::Logarithmic);
        let range = Range::of(&logarithmic, [40.0, 900.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert!(Range::of(&logarithmic, [0.0, f64::NAN].into_iter()).is_none());
    }

    #[test]
    fn figures_lie_where_the_scale_puts_them() {
        let axis =
            Axis { name: "x", scale: Scale::Logarithmic, shown: |figure| figure.to_string(), marks: vec![1.0, 100.0] };
        let range = Range::of(&axis, [10.0].into_iter()).unwrap();
        assert!((range.share(10.0) - 0.5).abs() < 1e-9);
        assert_eq!((range.share(1.0), range.share(100.0), range.share(1e9)), (0.0, 1.0, 1.0));
    }
}

//! Draws plots as SVG within a figure: a title, a legend above the drawing, two axes, what was measured, and a sentence below on how to
//! read it. Nothing here runs; the attributes `data-x` and `data-y` of a series are what a pointer over it is told.

use std::fmt::Write as _;

use super::figure::Figure;
use super::html::escape;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 348.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 64.0;

/// Room of a bar with its name and figure.
const ROW: f64 = 54.0;

/// Colours that the style has for targets.
const COLOURS: usize = 6;

/// Shapes of marks around the origin, one for each colour: whoever sees no colours, sees them.
const SHAPES: [&str; COLOURS] = [
    "M-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z",
    "M-3.5,-3.5h7v7h-7z",
    "M0,-5l5,8.5h-10z",
    "M0,-5.5l4.5,5.5l-4.5,5.5l-4.5,-5.5z",
    "M0,5l5,-8.5h-10z",
    "M-1.5,-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
];

/// The harness alone: small, for it is there to be compared with.
const HARNESS_SHAPE: &str = "M-3,0a3,3 0 1 0 6,0a3,3 0 1 0 -6,0z";

/// How a target looks in all plots of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// By its place among the targets.
    Target(usize),
    /// The target noop: gray and dashed.
    Harness,
}

impl Look {
    /// The class of the style.
    pub(super) fn class(self) -> String {
        match self {
            Self::Target(place) => format!("t{}", place % COLOURS),
            Self::Harness => "harness".to_owned(),
        }
    }

    fn shape(self) -> &'static str {
        match self {
            Self::Target(place) => SHAPES[place % COLOURS],
            Self::Harness => HARNESS_SHAPE,
        }
    }
}

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
    pub(super) name: String,
    pub(super) scale: Scale,
    pub(super) shown: fn(f64) -> String,
    /// Where marks are; none to let the scale decide.
    pub(super) marks: Vec<f64>,
}

/// A line.
pub(super) struct Series {
    /// What the legend says; lines of the same name have one entry.
    pub(super) name: String,
    /// The target; what a pointer over the line is told, it is told of.
    pub(super) target: String,
    /// What it is called, other than all others of the plot.
    pub(super) label: String,
    pub(super) look: Look,
    pub(super) points: Vec<(f64, f64)>,
    /// How many points have enough behind them; the line is dotted from the last of those on.
    pub(super) sure: usize,
    /// Figures with their intervals, drawn as marks: (across, figure).
    pub(super) figures: Vec<(f64, Figure)>,
}

/// What is drawn, and how it is read.
pub(super) struct About {
    /// What it is, for programs: `percentiles`, say.
    pub(super) kind: &'static str,
    /// The number of threads that it is of; None of all.
    pub(super) threads: Option<u32>,
    pub(super) title: String,
    pub(super) caption: String,
}

/// A plot of lines.
pub(super) struct Plot {
    pub(super) about: About,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// A plot of one figure for each target, as bars from zero on.
pub(super) struct Bars {
    pub(super) about: About,
    pub(super) rows: Vec<(String, Look, Figure)>,
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
        let (low, high) = match (axis.scale, axis.marks.is_empty()) {
            // Room above the highest line.
            (Scale::Plain, true) => (low.min(0.0), (high * 1.05).max(low.min(0.0) + f64::MIN_POSITIVE)),
            (Scale::Plain, false) => (low.min(0.0), high.max(low.min(0.0) + f64::MIN_POSITIVE)),
            // From mark to mark: an axis without marks says nothing.
            (Scale::Logarithmic, true) => (round_below(low), round_above(high * 1.02)),
            (Scale::Logarithmic, false) if low == high => (low / 2.0, high * 2.0),
            (Scale::Logarithmic, false) => (low, high),
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
                let step = round_step((self.high - self.low) / 6.0);
                (0..=10).map(|place| self.low + step * f64::from(place)).take_while(|mark| *mark <= self.high).collect()
            }
            Scale::Logarithmic => {
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let marks = (first..=last).flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
                // The ends are such marks, but for the last digits of a power.
                marks.filter(|mark| (self.low * 0.999..=self.high * 1.001).contains(mark)).collect()
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

/// The next of 1, 2, 5, 10, 20, ... that is larger.
fn round_above(figure: f64) -> f64 {
    let step = round_step(figure);
    if step > figure { step } else { round_step(figure * 1.01) }
}

/// The next of 1, 2, 5, 10, 20, ... that is smaller.
fn round_below(figure: f64) -> f64 {
    1.0 / round_above(1.0 / figure)
}

/// The mark of an axis: its figure, without the digits that say nothing.
fn mark_text(shown: &str) -> String {
    let Some(point) = shown.find('.') else { return shown.to_owned() };
    let end = shown[point + 1..].find(|digit: char| !digit.is_ascii_digit()).map_or(shown.len(), |at| point + 1 + at);
    let digits = shown[..end].trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{}", &shown[end..])
}

impl Plot {
    /// The plot as an element; nothing if there is nothing to draw.
    pub(super) fn html(&self) -> Result<String, std::fmt::Error> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let figures = || self.series.iter().flat_map(|series| &series.figures);
        let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
        // Of a wide interval as much is drawn as leaves the lines legible.
        let intervals = figures()
            .filter_map(|(_, figure)| {
                figure.interval.map(|(low, high)| [low.max(figure.mean / 2.0), high.min(highest * 1.5)])
            })
            .flatten();
        let each = figures().flat_map(|(_, figure)| figure.each.iter().copied());
        let (Some(x), Some(y)) = (
            Range::of(&self.x, points().map(|(x, _)| *x)),
            Range::of(&self.y, points().map(|(_, y)| *y).chain(intervals).chain(each)),
        ) else {
            return Ok(String::new());
        };
        let mut out = self.about.begin();
        self.legend(&mut out)?;
        self.about.begin_drawing(&mut out, HEIGHT)?;
        self.axes(&mut out, &x, &y)?;
        for series in &self.series {
            series.draw(&mut out, &x, &y)?;
        }
        out.push_str("</svg>\n<div class=\"tip\"></div>\n");
        self.about.end(&mut out);
        Ok(out)
    }

    /// A line and its mark for each name.
    fn legend(&self, out: &mut String) -> std::fmt::Result {
        let mut names: Vec<&str> = Vec::new();
        out.push_str("<ul class=\"legend\">\n");
        for series in &self.series {
            if names.contains(&series.name.as_str()) {
                continue;
            }
            names.push(&series.name);
            writeln!(
                out,
                "<li><svg class=\"{}\" viewBox=\"0 0 34 14\"><polyline class=\"line\" points=\"0,7 34,7\"/>\
                 <path class=\"dot\" transform=\"translate(17 7)\" d=\"{}\"/></svg> {}</li>",
                series.look.class(),
                series.look.shape(),
                escape(&series.name)
            )?;
        }
        out.push_str("</ul>\n");
        Ok(())
    }

    fn axes(&self, out: &mut String, x: &Range<'_>, y: &Range<'_>) -> std::fmt::Result {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (place, mark) in x.marks().into_iter().enumerate() {
            let (at, text) = (across(x, mark), escape(&mark_text(&(self.x.shown)(mark))));
            // Where there is little room only every second is written.
            let class = if place % 2 == 0 { "mark" } else { "mark second" };
            writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>")?;
            writeln!(
                out,
                "<text class=\"{class}\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 28.0
            )?;
        }
        for mark in y.marks() {
            let (at, text) = (down(y, mark), escape(&mark_text(&(self.y.shown)(mark))));
            writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>")?;
            writeln!(
                out,
                "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 7.0,
                at + 4.5
            )?;
        }
        writeln!(out, "<line class=\"cursor\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{bottom}\"/>")?;
        writeln!(out, "<text class=\"name\" x=\"0\" y=\"14\">{}</text>", escape(&self.y.name))?;
        writeln!(
            out,
            "<text class=\"name\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            HEIGHT - 6.0,
            escape(&self.x.name)
        )?;
        // What catches the pointer between the lines.
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" fill=\"none\" pointer-events=\"all\"/>",
            right - LEFT,
            bottom - TOP
        )
    }
}

impl Series {
    fn draw(&self, out: &mut String, x: &Range<'_>, y: &Range<'_>) -> std::fmt::Result {
        let points: Vec<(f64, f64)> =
            self.points.iter().copied().filter(|(a, b)| a.is_finite() && b.is_finite()).collect();
        let shown = |shown: fn(f64) -> String, figures: &mut dyn Iterator<Item = f64>| {
            escape(&figures.map(shown).collect::<Vec<_>>().join("|"))
        };
        writeln!(
            out,
            "<g class=\"series {0}\" data-look=\"{0}\" data-target=\"{1}\" data-name=\"{2}\" data-x=\"{3}\" data-y=\"{4}\">",
            self.look.class(),
            escape(&self.target),
            escape(&self.label),
            shown(x.axis.shown, &mut points.iter().map(|(a, _)| *a)),
            shown(y.axis.shown, &mut points.iter().map(|(_, b)| *b))
        )?;
        let places: Vec<String> =
            points.iter().map(|(a, b)| format!("{:.1},{:.1}", across(x, *a), down(y, *b))).collect();
        let sure = self.sure.clamp(1.min(places.len()), places.len());
        writeln!(out, "<polyline class=\"line\" points=\"{}\"/>", places[..sure].join(" "))?;
        if sure < places.len() {
            // From the last point that has enough behind it.
            writeln!(out, "<polyline class=\"line unsure\" points=\"{}\"/>", places[sure - 1..].join(" "))?;
        }
        for (at, figure) in &self.figures {
            let at = across(x, *at);
            if let Some((low, high)) = figure.interval {
                writeln!(out, "<path class=\"whisker\" d=\"M{at:.1},{:.1}V{:.1}\"/>", down(y, low), down(y, high))?;
            }
            writeln!(
                out,
                "<path class=\"dot\" transform=\"translate({at:.1} {:.1})\" d=\"{}\"/>",
                down(y, figure.mean),
                self.look.shape()
            )?;
        }
        if self.figures.is_empty() && points.len() == 1 {
            // A line of one point is not seen.
            writeln!(
                out,
                "<path class=\"dot\" transform=\"translate({:.1} {:.1})\" d=\"{}\"/>",
                across(x, points[0].0),
                down(y, points[0].1),
                self.look.shape()
            )?;
        }
        out.push_str("</g>\n");
        Ok(())
    }
}

impl Bars {
    /// The plot as an element; nothing if there is nothing to draw.
    pub(super) fn html(&self) -> Result<String, std::fmt::Error> {
        let longest = self.rows.iter().map(|(_, _, figure)| figure.mean).fold(0.0, f64::max);
        let ends =
            self.rows.iter().filter_map(|(_, _, figure)| figure.interval).map(|(_, high)| high.min(longest * 1.5));
        let end = ends.fold(longest, f64::max);
        if end <= 0.0 {
            return Ok(String::new());
        }
        let mut out = self.about.begin();
        let height = ROW * self.rows.len() as f64;
        self.about.begin_drawing(&mut out, height)?;
        let across = |figure: f64| (figure / end).clamp(0.0, 1.0) * (WIDTH - RIGHT);
        for (place, (name, look, figure)) in self.rows.iter().enumerate() {
            let top = ROW * place as f64;
            let sureness = figure.sureness().map_or(String::new(), |sureness| format!(" {sureness}"));
            writeln!(out, "<g class=\"series {0}\" data-name=\"{1}\">", look.class(), escape(name))?;
            writeln!(
                out,
                "<text class=\"value\" x=\"0\" y=\"{:.1}\">{}: {}{sureness}</text>",
                top + 18.0,
                escape(name),
                figure.shown()
            )?;
            writeln!(
                out,
                "<rect class=\"bar\" x=\"0\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\"/>",
                top + 26.0,
                across(figure.mean)
            )?;
            let middle = top + 35.0;
            if let Some((low, high)) = figure.interval {
                // Beside the bar in its colour, on the bar in the page's: both ends are seen.
                writeln!(
                    out,
                    "<path class=\"whisker\" d=\"M{0:.1},{middle:.1}H{1:.1}M{1:.1},{2:.1}v10\"/>\
                     <path class=\"whisker inside\" d=\"M{3:.1},{middle:.1}H{0:.1}M{3:.1},{2:.1}v10\"/>",
                    across(figure.mean),
                    across(high),
                    middle - 5.0,
                    across(low)
                )?;
            }
            for one in &figure.each {
                writeln!(out, "<circle class=\"each\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3\"/>", across(*one))?;
            }
            out.push_str("</g>\n");
        }
        out.push_str("</svg>\n");
        self.about.end(&mut out);
        Ok(out)
    }
}

impl About {
    fn begin(&self) -> String {
        let threads = self.threads.map_or(String::new(), |threads| format!(" data-threads=\"{threads}\""));
        format!("<figure class=\"plot\" data-kind=\"{}\"{threads}>\n<h4>{}</h4>\n", self.kind, escape(&self.title))
    }

    fn begin_drawing(&self, out: &mut String, height: f64) -> std::fmt::Result {
        writeln!(
            out,
            "<svg class=\"drawing\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        )
    }

    fn end(&self, out: &mut String) {
        out.push_str(&format!("<figcaption>{}</figcaption>\n</figure>\n", escape(&self.caption)));
    }
}

fn across(x: &Range<'_>, figure: f64) -> f64 {
    LEFT + x.share(figure) * (WIDTH - LEFT - RIGHT)
}

fn down(y: &Range<'_>, figure: f64) -> f64 {
    HEIGHT - BOTTOM - y.share(figure) * (HEIGHT - TOP - BOTTOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, marks: &[f64]) -> Axis {
        Axis { name: "x".to_owned(), scale, shown: |figure| figure.to_string(), marks: marks.to_vec() }
    }

    #[test]
    fn marks_are_round_and_reach_the_ends_of_a_logarithmic_axis() {
        let plain = axis(Scale::Plain, &[]);
        let range = Range::of(&plain, [3.0, 97.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let logarithmic = axis(Scale::Logarithmic, &[]);
        let range = Range::of(&logarithmic, [40.0, 900.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        // Figures that hardly differ have marks on both sides too.
        let range = Range::of(&logarithmic, [31.0, 32.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [20.0, 50.0]);
        assert!(Range::of(&logarithmic, [0.0, f64::NAN].into_iter()).is_none());
    }

    #[test]
    fn figures_lie_where_the_scale_puts_them() {
        let axis = axis(Scale::Logarithmic, &[1.0, 100.0]);
        let range = Range::of(&axis, [10.0].into_iter()).unwrap();
        assert!((range.share(10.0) - 0.5).abs() < 1e-9);
        assert_eq!((range.share(1.0), range.share(100.0), range.share(1e9)), (0.0, 1.0, 1.0));
    }

    #[test]
    fn marks_have_no_digits_that_say_nothing() {
        for (shown, mark) in [
            ("1.00 ms", "1 ms"),
            ("2.50 ms", "2.5 ms"),
            ("200 us", "200 us"),
            ("10.0 K/s", "10 K/s"),
            ("99.90 %", "99.9 %"),
        ] {
            assert_eq!(mark_text(shown), mark);
        }
    }
}

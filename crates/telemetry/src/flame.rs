//! Flame graphs: one page of SVG, which a browser zooms and searches in; nothing is fetched from elsewhere.
//!
//! Gregg: "The Flame Graph", Communications of the ACM 59 (6), 2016. A width is a value, not time passing from left to right.

use std::io;

use inferno::flamegraph::{Options, from_lines};

use crate::Stacks;

/// The page of one profile.
///
/// # Errors
/// Those of the writer; a profile without stacks has a page that says so.
pub fn page(stacks: &Stacks, title: &str, unit: &str) -> io::Result<Vec<u8>> {
    let mut options = options(title, unit);
    options.hash = true;
    draw(&mut options, &stacks.folded())
}

/// Which of two profiles gives the widths of their difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widths {
    /// The first: what the second does not do any more is seen.
    Base,
    /// The second: what the first did not do is seen.
    Test,
}

/// The difference of two profiles: red is more in the second, blue is less. Values of the first are multiplied by `scale`,
/// so that both are of as many operations.
///
/// # Errors
/// As of [`page`].
pub fn difference(
    base: &Stacks,
    scale: f64,
    test: &Stacks,
    widths: Widths,
    title: &str,
    unit: &str,
) -> io::Result<Vec<u8>> {
    let mut options = options(title, unit);
    let scaled = |stack: &str| base.values().get(stack).map_or(0, |value| (*value as f64 * scale) as u64);
    let of_test = |stack: &str| test.values().get(stack).copied().unwrap_or_default();
    let stacks = base.values().keys().chain(test.values().keys().filter(|stack| !base.values().contains_key(*stack)));
    let lines = stacks.map(|stack| match widths {
        // The last number gives the width, and red is where it is above the other.
        Widths::Test => format!("{stack} {} {}\n", scaled(stack), of_test(stack)),
        Widths::Base => format!("{stack} {} {}\n", of_test(stack), scaled(stack)),
    });
    let lines: String = lines.collect();
    options.negate_differentials = widths == Widths::Base;
    draw(&mut options, &lines)
}

fn options<'a>(title: &str, unit: &str) -> Options<'a> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    options.deterministic = true;
    // As wide as the window.
    options.image_width = None;
    options
}

fn draw(options: &mut Options<'_>, lines: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // An empty profile is drawn as a page with a sentence, and is called an error; it is an answer all the same.
    match from_lines(options, lines.lines(), &mut page) {
        Err(_) if lines.is_empty() && !page.is_empty() => Ok(page),
        drawn => drawn.map(|()| page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: Vec<u8>) -> String {
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn a_page_names_its_functions_and_fetches_nothing() {
        let stacks = Stacks::parse("main;run;<T as a::B>::c 5\nmain;idle 1\n").unwrap();
        let page = text(page(&stacks, "a & b", "ms").unwrap());
        assert!(page.contains("&lt;T as a::B&gt;::c (5 ms, 83.33%)"), "{page}");
        assert!(page.contains("a &amp; b"));
        for fetched in ["href=\"http", "src=\"", "url(http", "@import"] {
            assert!(!page.contains(fetched), "{page}");
        }
    }

    #[test]
    fn nothing_counted_is_a_page_too() {
        assert!(text(page(&Stacks::default(), "t", "ms").unwrap()).contains("<svg"));
    }

    #[test]
    fn a_difference_has_the_widths_of_one_side() {
        let base = Stacks::parse("main;old 10\nmain;both 10\n").unwrap();
        let test = Stacks::parse("main;both 10\nmain;new 30\n").unwrap();
        let draw = |widths| text(difference(&base, 1.0, &test, widths, "t", "ms").unwrap());
        let (by_test, by_base) = (draw(Widths::Test), draw(Widths::Base));
        assert!(by_test.contains("new (30 ms, 75.00%; +") && !by_test.contains("old ("), "{by_test}");
        assert!(by_base.contains("old (10 ms, 50.00%; -") && !by_base.contains("new ("), "{by_base}");
    }
}

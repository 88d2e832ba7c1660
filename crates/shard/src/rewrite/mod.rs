//! What a shard is sent: the statement's own text with a few bytes spliced.
//!
//! A [`Template`] is made once per statement text; filling it in copies the text once, or not at all where nothing
//! changes. Never makes text from a tree.

pub(crate) mod scan;

use std::borrow::Cow;
use std::ops::Range;

/// A text with places that are filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Template {
    /// In ascending order; they do not overlap.
    holes: Vec<Hole>,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hole {
    /// The bytes that are replaced.
    pub(crate) place: Range<usize>,
    /// Which value goes there.
    pub(crate) value: usize,
}

impl Template {
    /// A text with these holes.
    pub(crate) fn new(mut holes: Vec<Hole>) -> Self {
        holes.sort_by_key(|hole| hole.place.start);
        debug_assert!(holes.windows(2).all(|pair| pair[0].place.end <= pair[1].place.start));
        Self { holes }
    }

    /// Its holes, in ascending order.
    pub(crate) fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Whether a hole takes a value below this one.
    pub(crate) fn has_below(&self, value: usize) -> bool {
        self.holes.iter().any(|hole| hole.value < value)
    }

    /// The same holes where their bytes have moved to, in another text that has them.
    pub(crate) fn moved(&self, to: impl Fn(usize) -> usize) -> Self {
        let holes = self.holes.iter().map(|hole| {
            let start = to(hole.place.start);
            Hole { place: start..start + hole.place.len(), value: hole.value }
        });
        Self { holes: holes.collect() }
    }

    /// A part of the text with its holes filled; `None` for a value leaves what stands there.
    pub(crate) fn fill<'t>(
        &self,
        text: &'t str,
        part: Range<usize>,
        value: impl Fn(usize) -> Option<String>,
    ) -> Cow<'t, str> {
        let mut filled = String::new();
        let mut copied = part.start;
        for hole in self.holes.iter().filter(|hole| hole.place.start >= part.start && hole.place.end <= part.end) {
            if let Some(value) = value(hole.value) {
                filled.push_str(&text[copied..hole.place.start]);
                filled.push_str(&value);
                copied = hole.place.end;
            }
        }
        if copied == part.start {
            return Cow::Borrowed(&text[part]);
        }
        filled.push_str(&text[copied..part.end]);
        Cow::Owned(filled)
    }
}

/// A name, quoted as an identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests;

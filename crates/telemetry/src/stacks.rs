//! Call stacks, each with a value: what every profile is, whatever it counts.
//!
//! As text they are in the folded form of Gregg's flame graphs, which most tools read: a line for each stack, its frames from the
//! root on between semicolons, a space, the value.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The root of the stacks that are no thread's: the scopes that a task is in.
pub(crate) const TASKS: &str = "tasks";

/// How a leaf begins that is no function, but says what its thread or task is about: `[in futex]`, `[runs on query]`.
pub(crate) const BESIDE_CODE: &str = "[";

/// How the leaf of a task begins that a thread runs.
pub(crate) const RUNS_ON: &str = "[runs on ";

/// Stacks and their values. What a value counts (nanoseconds, bytes) the profile says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    values: BTreeMap<String, u64>,
}

impl Stacks {
    /// Adds to the value of a stack. Its frames come from the root on; they are names of functions, in which a semicolon, as of
    /// the type of an array, becomes a comma.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, value: u64) {
        let mut stack = String::new();
        for frame in frames {
            if !stack.is_empty() {
                stack.push(';');
            }
            stack.extend(frame.chars().map(|letter| match letter {
                ';' => ',',
                // Else a line would end in mid-name.
                letter if letter.is_control() => ' ',
                letter => letter,
            }));
        }
        if !stack.is_empty() && value > 0 {
            let sum = self.values.entry(stack).or_default();
            *sum = sum.saturating_add(value);
        }
    }

    /// Adds a stack that was sampled in this process, unless it is one of taking profiles: names of the last are looked up while
    /// the next is taken.
    pub(crate) fn add_sampled(&mut self, frames: &[String], value: u64) {
        if !frames.iter().any(|frame| frame.starts_with("ashlar_telemetry::profile::")) {
            self.add(frames.iter().map(String::as_str), value);
        }
    }

    /// The sum of all values.
    pub fn total(&self) -> u64 {
        self.values.values().fold(0, |sum, value| sum.saturating_add(*value))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Each stack, its frames from the root on, with its value.
    pub fn iter(&self) -> impl Iterator<Item = (std::str::Split<'_, char>, u64)> {
        self.values.iter().map(|(stack, value)| (stack.split(';'), *value))
    }

    /// The values of others are added.
    pub fn merge(&mut self, others: &Self) {
        for (stack, value) in &others.values {
            let sum = self.values.entry(stack.clone()).or_default();
            *sum = sum.saturating_add(*value);
        }
    }

    /// The folded form.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (stack, value) in &self.values {
            let _ = writeln!(text, "{stack} {value}");
        }
        text
    }

    /// Reads the folded form.
    ///
    /// # Errors
    /// A line that is no stack with a value, by its number and text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut stacks = Self::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let parsed = line.rsplit_once(' ').and_then(|(stack, value)| Some((stack, value.parse().ok()?)));
            let (stack, value) = parsed.ok_or_else(|| format!("line {} is no stack: {line:?}", number + 1))?;
            stacks.add(stack.split(';'), value);
        }
        Ok(stacks)
    }

    pub(crate) fn values(&self) -> &BTreeMap<String, u64> {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_semicolon_of_a_name_cuts_no_stack() {
        let mut stacks = Stacks::default();
        stacks.add(["main", "<[u8; 4]>::fill with spaces"], 3);
        stacks.add(["main", "<[u8; 4]>::fill with spaces"], 4);
        stacks.add(["main"], 0);
        assert_eq!(stacks.folded(), "main;<[u8, 4]>::fill with spaces 7\n");
        assert_eq!(stacks.total(), 7);
    }

    #[test]
    fn what_is_no_stack_is_said() {
        assert_eq!(Stacks::parse("a;b 1\nc\n"), Err("line 2 is no stack: \"c\"".into()));
        assert_eq!(Stacks::parse("a;b -1\n"), Err("line 1 is no stack: \"a;b -1\"".into()));
    }

    proptest! {
        #[test]
        fn the_folded_form_is_read_back(counts in prop::collection::vec((prop::collection::vec("[a-z ;\n]{1,5}", 1..4), 1..9u64), 0..20)) {
            let mut stacks = Stacks::default();
            for (frames, value) in &counts {
                stacks.add(frames.iter().map(String::as_str), *value);
            }
            prop_assert_eq!(stacks.total(), counts.iter().map(|(_, value)| value).sum::<u64>());
            prop_assert_eq!(Stacks::parse(&stacks.folded()), Ok(stacks));
        }
    }
}

//! The names that a plan gives to columns, and what a client sees of them.

/// Marks the end of the name that the client sees; what follows only keeps names apart inside a plan.
pub const NAME_END: char = '\u{1}';

/// The schema that a table of a query around is said with, so that no column is taken for it: none is called so.
pub const AROUND: &str = "\u{1}";

/// The part of a plan's column name that a client sees.
pub fn shown_name(name: &str) -> &str {
    name.split(NAME_END).next().unwrap_or(name)
}

//! Joins by equal keys: one table of the rows of the build side, of all its streams, looked up by all streams of the probe side.
//!
//! ```text
//!   left  stream -> chunks --\                      /- right stream -> probe -> output
//!   left  stream -> chunks ---+-> table, made once +-- right stream -> probe -> output
//!                                                   \- when all have ended: rows without a match -> output
//! ```
//!
//! No stream is divided by keys for it. `rule` puts the node of `exec` into plans; `spec` says what is joined and what is kept;
//! `chunk` holds the rows of the build side, `build` makes a table of them, `early` one of numbers while they come, `index` reads it; `probe` looks up, `output` puts
//! together what comes of it, `texts` says where that would be too much at once, and `run` is the work of the streams.
//!
//! What keys the build side has is told to the scans of the probe side by `filter`.
//!
//! Where memory has no room for the build side, rows of both sides go to `files`, and `parts` joins them part by part.

mod build;
mod chunk;
mod early;
pub(crate) mod exec;
mod files;
pub(crate) mod filter;
pub(crate) mod handing_down;
mod index;
mod output;
mod parts;
mod probe;
pub(crate) mod rule;
mod run;
mod spec;
#[cfg(test)]
pub(crate) mod tests;
mod texts;

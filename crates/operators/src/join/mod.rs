//! Equi-joins: the rows of all streams of the build side go into one table, in which all streams of the probe side look up their keys.
//!
//! ```text
//!   left  stream -> chunks --\                      /- right stream -> probe -> output
//!   left  stream -> chunks ---+-> table, made once +-- right stream -> probe -> output
//!                                                   \- when all have ended: rows without a match -> output
//! ```
//!
//! Streams are not divided by keys for it. `rule` puts the node of `exec` into plans, and `spec` describes the join. `chunk` holds the
//! rows of the build side, `build` makes a table of them, and `early` makes a table of integers while they arrive. `index` is the
//! interface to these tables, `probe` looks rows up, `output` assembles the resulting batches, `texts` keeps these from becoming too
//! large, and `run` is the work of the streams.
//!
//! `filter` tells the scans of the probe side which keys the build side has.
//!
//! If the build side does not fit in memory, the rows of both sides go to `files`, and `parts` joins them part by part.

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

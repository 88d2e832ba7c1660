//! Aggregation over groups: rows of all streams into one set of groups, without an exchange between two stages.
//!
//! ```text
//!   stream -> front (a table of its own) --\
//!   stream -> front                      ---+-> small (all of them together) ----------> output
//!              | too many groups            |
//!              +-> partitions, by bits of the hash, each behind a lock --> one after the other -> output
//!                       | too many bytes: the largest goes to its file
//!                       +-> the file of a partition -> partitions, by another hash -> output
//! ```
//!
//! `rule` puts the node of `exec` into plans; `spec` says what is aggregated; `states` holds what is known of each
//! group, `partition` one table, `growth` how many groups that will have, `partitions` many, and `run` is the work of a stream and of an output.

pub(crate) mod exec;
mod growth;
mod partition;
mod partitions;
pub(crate) mod rule;
mod run;
pub(crate) mod spec;
mod states;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;

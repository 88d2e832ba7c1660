//! Grouped aggregation: the rows of all streams go into one set of groups, without an exchange between two stages.
//!
//! ```text
//!   stream -> front (a table of its own) --\
//!   stream -> front                      ---+-> small (all of them together) ----------> output
//!              | too many groups            |
//!              +-> partitions, by bits of the hash, each behind a lock --> one after the other -> output
//!                       | with very many groups: rows wait for each until they are many beside its groups
//!                       | too many bytes: the largest goes to its file
//!                       +-> the file of a partition -> partitions, by another hash -> output
//! ```
//!
//! `rule` puts the node of `exec` into plans. `spec` describes the aggregation; `states` holds the aggregate states of the groups.
//! `partition` is one table, `partitions` are many, and `growth` predicts the size of a table. Rows
//! of a stream wait in `waiting` for others of all partitions, in `pending` for others of their own. `run` is the work of each input stream
//! and each output; `turns` says which output takes what.

pub(crate) mod exec;
mod growth;
mod partition;
mod partitions;
mod pending;
pub(crate) mod rule;
mod run;
pub(crate) mod spec;
mod states;
#[cfg(test)]
pub(crate) mod tests;
mod turns;
mod waiting;

//! Tables whose rows live in a fleet of ordinary PostgreSQL servers.
//!
//! In reading order: [`rules`] say on which shard a row is. [`route`] finds out, once per statement text, which shards
//! a statement needs and by which of its values. A shard is sent the original text with a few bytes spliced, never text
//! regenerated from a tree. The answers of several shards are merged into one without keeping their rows. Called by the
//! session and by the catalog. What the shards cannot answer exactly is either left to the engine or refused before
//! anything is sent.

#![forbid(unsafe_code)]

pub mod backend;
pub mod catalog;
pub mod collation;
pub mod deadlock;
pub mod fleet;
pub mod health;
pub mod merge;
mod own_tables;
pub mod pool;
mod rewrite;
pub mod route;
pub mod routes;
mod rows;
pub mod rules;
pub mod server;
pub mod snapshot;
pub mod two_phase;
pub mod workers;

// A catalogue of the tests (`route/tests/world.rs`) names this crate as those do that use it.
#[cfg(test)]
extern crate self as ashlar_shard;

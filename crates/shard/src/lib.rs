//! Tables whose rows live in a fleet of ordinary PostgreSQL servers.
//!
//! The order to read it in: [`rules`] say where a row is; [`route`] says, once per statement text, which shards a
//! statement needs and by which of its values; what a shard is sent is that text with a few bytes spliced, never text
//! made anew from a tree; several answers become one again without the rows being kept. Called by the session and by the
//! catalog. What cannot be answered exactly by the shards is either left to the engine or refused before anything
//! is sent.

#![forbid(unsafe_code)]

pub mod backend;
pub mod catalog;
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

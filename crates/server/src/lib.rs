//! The server: doors for clients, the session behind them, the threads they run on, and the command line.
//!
//! The binary `ashlar` is a few lines on top of [`cli::run`]. Data flows `door` -> `session` -> the query and store
//! crates; `runtime` owns the threads, `shutdown` the way to stop them.

#![forbid(unsafe_code)]
// Futures of statements lie within each other, and an optimised build works out how large they are.
#![recursion_limit = "256"]
#![warn(missing_docs, unreachable_pub)]

pub mod cli;
pub mod client;
pub mod demo;
mod door;
pub mod runtime;
pub mod session;
mod shard_memory;
pub mod shutdown;

//! Fixtures of the tests: the real `ashlar` process, a real PostgreSQL and a real Redis, and small clients for raw bytes.
//!
//! Used by the test binary `it` only. Nothing here links the engine: the server is met as a process, through its doors.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the tests drive real processes over real sockets in real time; there is no seam to go through, and a panic is a failed test"
)]

pub mod ashlar;
pub mod disk;
pub mod island;
pub mod pg;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod resp;
pub mod tools;

pub use ashlar::{Ashlar, Options};
pub use postgres::Postgres;
pub use redis::Redis;

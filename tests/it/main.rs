//! The one test binary: every test that needs a real server process, a real PostgreSQL or a real Redis.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests drive real processes over real sockets in real time; there is no seam to go through"
)]
#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

mod churn;
mod clients;
mod comparison;
mod conflicts;
mod copies;
mod dump;
mod examples;
mod faults;
mod fixtures;
mod http;
mod life;
mod limits;
mod locks;
mod model;
mod notify;
mod pg_wire;
mod pgbench;
mod plans;
mod psql;
mod query_memory;
mod random;
mod readme;
mod relations;
mod report;
mod resp_keys;
mod resp_wire;
mod sharded;
mod slt;
mod threeways;
mod tokio_postgres;
mod tpcds;
mod tpch;
mod turns;

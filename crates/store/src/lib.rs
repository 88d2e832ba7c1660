//! Grid tables in one member's memory: regions of partitions of columnar segments, with a hash index on the key,
//! snapshots that no writer blocks, and compaction that gives memory back.
//!
//! ```text
//!   Store -> Region -> Partition (one lock) -> segments of typed columns + key index
//!            get / entry: one key under the lock        scan: columns that Arrow borrows without copying
//!            WriteSet + commit: many keys, one timestamp, all or nothing
//!            KeyTransaction: gets and entries that are one commit
//! ```
//! Used by the query crate and the sessions. Knows Arrow arrays, and no query engine, no protocol, no disk.
#![deny(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod arrow_types;
mod build;
mod commit;
mod compactor;
mod counters;
mod directory;
mod entry;
mod eviction;
mod index;
#[cfg(all(test, shuttle))]
mod interleavings;
mod key;
mod key_parts;
mod key_transaction;
mod life;
mod locks;
mod lookahead;
mod memory;
mod mutation;
mod order;
mod ordered;
mod partition;
mod reader;
mod region;
mod row;
mod rows;
mod segment;
mod shape;
mod snapshot;
mod statistics;
mod store;
mod sync;
mod taken;
#[cfg(test)]
mod testing;
mod writeset;

pub use build::{ArrayBuilder, AsDatum, build_array};
pub use compactor::{CompactionReport, CompactorHandle};
pub use directory::Partitions;
pub use entry::Entry;
pub use key_transaction::{Failed, KeyMark, KeyTransaction};
pub use life::{EXPIRES_AT, Ended, Expiring, Expiry, expires_at_column};
pub use locks::{
    LockHolder, LockInfo, LockRequest, LockStatistics, LockWait, OtherLock, OtherLocks, OtherWait, OtherWaits,
    RowWaits, Strength, Watch, Way,
};
pub use lookahead::LOOKAHEAD_MAX;
pub use memory::Reservation;
pub use mutation::{Applied, Mutation};
pub use order::{compare as compare_datums, compare_values};
pub use partition::{Probe, Walk};
pub use reader::ColumnReader;
pub use region::{Region, ScanBatch};
pub use row::RowRef;
pub use shape::{Passed, holds as condition_holds, violated_by_some_row};
pub use snapshot::Snapshot;
pub use statistics::{Analysis, ColumnStatistics, TableStatistics};
pub use store::{Store, StoreConfig};
pub use writeset::{Mark, Overlay, Pending, ReadView, RowBatch, WriteSet};

//! What every other crate stands on: ids, the key -> slot -> partition function, SQL types and values with their
//! text and binary forms, error codes, configuration types, and the seams for time, randomness and sockets.
//!
//! Depends on nothing of ours. Performs no I/O except through [`net`], and holds no state of the server but where its
//! tasks are ([`scope`]).

pub mod clock;
pub mod config;
pub mod error;
pub mod ids;
pub mod net;
pub mod schema;
pub mod scope;
pub mod slot;
pub mod sync;
pub mod types;
pub mod value;

pub use error::{Error, ErrorCode, Result};
pub use ids::{ColumnId, PartitionId, Slot, TableId, Timestamp};
pub use schema::{
    CheckDef, ColumnDef, ColumnDefault, Eviction, IndexDef, IndexKind, IndexOrder, IndexRows, LifeOptions, Sequence,
    SequenceKind, TableSchema, Unique,
};
pub use types::{ScalarType, SqlType};
pub use value::{Datum, Interval, Items, Value};

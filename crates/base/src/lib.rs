//! The foundation of every other crate: ids, the function from key to slot to partition, SQL types and values with
//! their text and binary forms, error codes, configuration types, and the seams for time, randomness and sockets.
//!
//! Depends on no other crate of this workspace. Performs no I/O except through [`net`], and holds no server state
//! except where each task is waiting ([`scope`]).

pub mod clock;
pub mod condition;
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

pub use condition::{Comparison, Condition, Operand};
pub use error::{Error, ErrorCode, Result};
pub use ids::{ColumnId, PartitionId, Slot, TableId, Timestamp};
pub use schema::{
    CheckDef, ColumnDef, ColumnDefault, Eviction, IndexDef, IndexKind, IndexOrder, IndexRows, LifeOptions, Sequence,
    SequenceKind, TableSchema, Unique,
};
pub use types::{ScalarType, SqlType};
pub use value::{Datum, Interval, Items, Value};

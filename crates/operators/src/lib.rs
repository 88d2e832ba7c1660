//! Grouped aggregation and equi-joins as DataFusion plan nodes: compact hash tables, memory that is charged before it is
//! allocated, and temporary files for rows that do not fit in memory.
//!
//! `hash_table` knows rows and groups, but no plans; `aggregate` and `join` are the nodes. The optimizer rules [`HashAggregates`] and
//! [`HashJoins`] replace the engine's nodes with ours; [`NullExtensions`] corrects what the engine's nodes claim about their rows;
//! [`Widenings`] spares what aggregates take the check of casts that cannot fail.
//! [`in_stage`] does the replacement in parts of plans that are already divided among servers.

mod aggregate;
mod growing;
mod hash_table;
mod join;
mod memory;
mod null_extended;
mod outputs;
mod stage;
mod widened;

pub use aggregate::exec::HashAggregateExec;
pub use aggregate::rule::HashAggregates;
pub use join::exec::UnchainedHashJoinExec;
pub use join::filter::{KeysOfJoin, is_in_vain, is_of_join, keys_of_join};
pub use join::handing_down::is_clear;
pub use join::rule::HashJoins;
pub use null_extended::NullExtensions;
pub use stage::in_stage;
pub use widened::Widenings;

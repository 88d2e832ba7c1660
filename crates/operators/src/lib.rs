//! Aggregation over groups, and joins by equal keys, as plan nodes of the engine's: compact tables, memory charged before it
//! is taken, and files for what does not fit.
//!
//! `hash_table` knows rows and groups and nothing of plans; `aggregate` and `join` are the nodes. The rules that put them in the
//! place of the engine's own are [`HashAggregates`] and [`HashJoins`]; [`NullExtensions`] mends what the engine's own say of their rows.
//! [`in_stage`] puts them in parts of plans that are divided among servers already.

mod aggregate;
mod growing;
mod hash_table;
mod join;
mod memory;
mod null_extended;
mod outputs;
mod stage;

pub use aggregate::exec::HashAggregateExec;
pub use aggregate::rule::HashAggregates;
pub use join::exec::UnchainedHashJoinExec;
pub use join::filter::{KeysOfJoin, is_of_join, keys_of_join};
pub use join::rule::HashJoins;
pub use null_extended::NullExtensions;
pub use stage::in_stage;

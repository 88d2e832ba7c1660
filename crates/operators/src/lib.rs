//! Aggregation over groups as a plan node of the engine's: compact tables, memory charged before it is taken, and files
//! for what does not fit.
//!
//! `hash_table` knows rows and groups and nothing of plans; `aggregate` is the node. The rule that puts it in the place
//! of the engine's own is [`HashAggregates`].

mod aggregate;
mod hash_table;
mod memory;

pub use aggregate::exec::HashAggregateExec;
pub use aggregate::rule::HashAggregates;

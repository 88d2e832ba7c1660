//! SQL over the homes of a table: the grammar gate, the catalog, planning, and execution.
//!
//! `server::session` drives it: a statement text becomes a [`Statement`](statement::Statement) once, and is then
//! executed many times. Key lookups and key DML go from there straight to the store; everything else becomes a
//! DataFusion plan. Knows nothing of sockets, protocols or sessions.

mod access;
mod admission;
pub mod analyze;
pub mod assign;
pub mod catalog;
pub mod columns;
mod comments;
pub mod copy;
#[cfg(test)]
mod counting;
pub mod ddl;
pub mod dml;
pub mod engine;
mod estimate;
pub mod explain;
pub mod expressions;
mod fenced_limits;
pub mod files;
pub mod grammar;
pub mod grid_table;
mod guarded_projections;
mod held_filters;
pub mod identity;
pub mod index_plan;
mod index_rows;
mod index_text;
pub mod key_plan;
pub mod lift;
pub mod locking;
mod lookup_join;
mod measured;
mod memory;
mod node_rule;
pub mod object_columns;
mod operator_tasks;
pub mod parameters;
pub mod plan_cache;
mod priority;
mod probes;
mod program;
mod resources;
mod scan_filters;
pub mod select;
pub mod sequences;
pub mod sharded;
pub mod short_plan;
mod spill;
pub mod sql_types;
pub mod statement;
mod steps;
pub mod system_tables;
#[cfg(test)]
mod testing;
pub mod transaction;
mod turn;
mod whole_orders;

pub use ashlar_functions::error::from_datafusion;
pub use ashlar_functions::quoting::quote_ident;
pub use ashlar_functions::session::POSTGRES_VERSION;
pub use ashlar_functions::times::StatementTime;

pub use admission::{AdmissionConfig, AdmissionStatistics};
pub use catalog::{Catalog, CatalogState, Table};
pub use columns::Column;
pub use engine::{Engine, EngineConfig};
pub use identity::{Identity, ListSessions, OpenCursor, OpenSession, OpenSessions, Setting};
pub use resources::{Barrier, Interest, StatementResources};
pub use spill::{SpillConfig, SpillStatistics};
pub use statement::Statement;

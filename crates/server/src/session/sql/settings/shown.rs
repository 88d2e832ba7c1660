//! What SHOW, SHOW ALL and `pg_settings` tell of settings.
//!
//! Called by `settings`. The descriptions are PostgreSQL's.

use std::sync::Arc;

use ashlar_query::Setting;

use super::table::{Rule, SETTINGS, Told, usual};
use super::{Settings, duration, size};

/// What each setting is for.
const ABOUT: &[(&str, &str)] = &[
    ("application_name", "Sets the application name to be reported in statistics and logs."),
    ("bytea_output", "Sets the output format for bytea."),
    ("check_function_bodies", "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE."),
    ("client_encoding", "Sets the client's character set encoding."),
    ("client_min_messages", "Sets the message levels that are sent to the client."),
    ("DateStyle", "Sets the display format for date and time values."),
    ("deadlock_timeout", "Sets the time to wait on a lock before checking for deadlock."),
    (
        "default_sharding_servers",
        "Sets the servers of tables that are sharded by default, separated by commas; none means all.",
    ),
    ("default_table_access_method", "Sets the default table access method for new tables."),
    ("default_tablespace", "Sets the default tablespace to create tables and indexes in."),
    ("default_transaction_deferrable", "Sets the default deferrable status of new transactions."),
    ("default_transaction_isolation", "Sets the transaction isolation level of each new transaction."),
    ("default_transaction_read_only", "Sets the default read-only status of new transactions."),
    ("extra_float_digits", "Sets the number of digits displayed for floating-point values."),
    (
        "idle_in_transaction_session_timeout",
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    ("idle_session_timeout", "Sets the maximum allowed idle time between queries, when not in a transaction."),
    ("integer_datetimes", "Shows whether datetimes are integer based."),
    ("in_hot_standby", "Shows whether hot standby is currently active."),
    ("IntervalStyle", "Sets the display format for interval values."),
    ("is_superuser", "Shows whether the current user is a superuser."),
    ("jit", "Allow JIT compilation."),
    ("join_operators", "Sets whose operators join by equal keys: the server's own, or DataFusion's stock ones."),
    ("lock_timeout", "Sets the maximum allowed duration of any wait for a lock."),
    ("log_min_duration_statement", "Sets the minimum execution time above which all statements will be logged."),
    ("maintenance_work_mem", "Sets the maximum memory to be used for maintenance operations."),
    ("max_identifier_length", "Shows the maximum identifier length."),
    ("max_index_keys", "Shows the maximum number of index keys."),
    ("operators", "Sets whose hash operators plans are made of: the server's own, or DataFusion's stock ones."),
    ("query_memory_max", "Sets the maximum memory that one query may hold."),
    ("read_from", "Sets where rows of shards are read when nothing is written: on the primary, or on a replica."),
    ("role", "Sets the current role."),
    ("row_security", "Enable row security."),
    ("search_path", "Sets the schema search order for names that are not schema-qualified."),
    ("server_encoding", "Shows the server (database) character set encoding."),
    ("server_version", "Shows the server version."),
    ("server_version_num", "Shows the server version as an integer."),
    ("session_authorization", "Sets the session user name."),
    (
        "sharded_keyless_writes",
        "Sets whether UPDATE and DELETE may change rows of all shards without a sharding key that is given.",
    ),
    ("sharded_pool_mode", "Sets how long the session has a connection to a shard: for a transaction, or to its end."),
    ("sharded_reads", "Sets whether a query over several shards sees all of them as of one moment."),
    ("sharded_server", "Sets the server that statements go to as they are written; none where it is empty."),
    ("standard_conforming_strings", "Causes '...' strings to treat backslashes literally."),
    ("statement_timeout", "Sets the maximum allowed duration of any statement."),
    ("synchronous_commit", "Sets the current transaction's synchronization level."),
    ("TimeZone", "Sets the time zone for displaying and interpreting time stamps."),
    (
        "transaction_deferrable",
        "Whether to defer a read-only serializable transaction until it can be executed with no possible serialization failures.",
    ),
    ("transaction_isolation", "Sets the current transaction's isolation level."),
    ("transaction_read_only", "Sets the current transaction's read-only status."),
    (
        "transaction_timeout",
        "Sets the maximum allowed duration of any transaction within a session (not a prepared transaction).",
    ),
    ("work_mem", "Sets the maximum memory to be used for query workspaces."),
    (
        "xmloption",
        "Sets whether XML data in implicit parsing and serialization operations is to be considered as documents or content fragments.",
    ),
    ("constraint_exclusion", "Enables the planner to use constraints to optimize queries."),
    (
        "cpu_index_tuple_cost",
        "Sets the planner's estimate of the cost of processing each index entry during an index scan.",
    ),
    ("cpu_operator_cost", "Sets the planner's estimate of the cost of processing each operator or function call."),
    ("cpu_tuple_cost", "Sets the planner's estimate of the cost of processing each tuple (row)."),
    ("cursor_tuple_fraction", "Sets the planner's estimate of the fraction of a cursor's rows that will be retrieved."),
    ("default_statistics_target", "Sets the default statistics target."),
    ("effective_cache_size", "Sets the planner's assumption about the total size of the data caches."),
    (
        "effective_io_concurrency",
        "Number of simultaneous requests that can be handled efficiently by the disk subsystem.",
    ),
    ("enable_async_append", "Enables the planner's use of async append plans."),
    ("enable_bitmapscan", "Enables the planner's use of bitmap-scan plans."),
    ("enable_gathermerge", "Enables the planner's use of gather merge plans."),
    ("enable_hashagg", "Enables the planner's use of hashed aggregation plans."),
    ("enable_hashjoin", "Enables the planner's use of hash join plans."),
    ("enable_incremental_sort", "Enables the planner's use of incremental sort steps."),
    ("enable_indexonlyscan", "Enables the planner's use of index-only-scan plans."),
    ("enable_indexscan", "Enables the planner's use of index-scan plans."),
    ("enable_material", "Enables the planner's use of materialization."),
    ("enable_memoize", "Enables the planner's use of memoization."),
    ("enable_mergejoin", "Enables the planner's use of merge join plans."),
    ("enable_nestloop", "Enables the planner's use of nested-loop join plans."),
    ("enable_parallel_append", "Enables the planner's use of parallel append plans."),
    ("enable_parallel_hash", "Enables the planner's use of parallel hash plans."),
    ("enable_partition_pruning", "Enables plan-time and execution-time partition pruning."),
    ("enable_partitionwise_aggregate", "Enables partitionwise aggregation and grouping."),
    ("enable_partitionwise_join", "Enables partitionwise join."),
    ("enable_seqscan", "Enables the planner's use of sequential-scan plans."),
    ("enable_sort", "Enables the planner's use of explicit sort steps."),
    ("enable_tidscan", "Enables the planner's use of TID scan plans."),
    ("from_collapse_limit", "Sets the FROM-list size beyond which subqueries are not collapsed."),
    ("geqo", "Enables genetic query optimization."),
    ("geqo_threshold", "Sets the threshold of FROM items beyond which GEQO is used."),
    ("hash_mem_multiplier", "Multiple of work_mem to use for hash tables."),
    ("jit_above_cost", "Perform JIT compilation if query is more expensive."),
    ("jit_inline_above_cost", "Perform JIT inlining if query is more expensive."),
    ("jit_optimize_above_cost", "Optimize JIT-compiled functions if query is more expensive."),
    ("join_collapse_limit", "Sets the FROM-list size beyond which JOIN constructs are not flattened."),
    ("max_parallel_maintenance_workers", "Sets the maximum number of parallel processes per maintenance operation."),
    ("max_parallel_workers", "Sets the maximum number of parallel workers that can be active at one time."),
    ("max_parallel_workers_per_gather", "Sets the maximum number of parallel processes per executor node."),
    ("min_parallel_index_scan_size", "Sets the minimum amount of index data for a parallel scan."),
    ("min_parallel_table_scan_size", "Sets the minimum amount of table data for a parallel scan."),
    ("parallel_leader_participation", "Controls whether Gather and Gather Merge also run subplans."),
    (
        "parallel_setup_cost",
        "Sets the planner's estimate of the cost of starting up worker processes for parallel query.",
    ),
    (
        "parallel_tuple_cost",
        "Sets the planner's estimate of the cost of passing each tuple (row) from worker to leader backend.",
    ),
    ("plan_cache_mode", "Controls the planner's selection of custom or generic plan."),
    ("random_page_cost", "Sets the planner's estimate of the cost of a nonsequentially fetched disk page."),
    (
        "recursive_worktable_factor",
        "Sets the planner's estimate of the average size of a recursive query's working table.",
    ),
    ("seq_page_cost", "Sets the planner's estimate of the cost of a sequentially fetched disk page."),
];

/// A value as SHOW writes it.
pub(super) fn as_shown(number: usize, value: &str) -> String {
    let value = usual(number, value);
    // The user's own are any texts.
    let Some((_, _, rule, _)) = SETTINGS.get(number) else { return value.to_owned() };
    let shown = match rule {
        Rule::Milliseconds => value.parse().map(duration::shown),
        Rule::Kilobytes(_) => value.parse().map(size::shown),
        Rule::Blocks(_) => value.parse().map(size::shown_of_blocks),
        _ => return value.to_owned(),
    };
    shown.unwrap_or_else(|_| value.to_owned())
}

fn about(name: &str) -> &'static str {
    ABOUT.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about)
}

impl Settings {
    /// All settings in the order of their names.
    pub(super) fn all(&self) -> Arc<[Setting]> {
        Arc::clone(self.listed.get_or_init(|| self.list().into()))
    }

    fn list(&self) -> Vec<Setting> {
        let setting = |(number, (name, _, rule, _)): (usize, &(&'static str, &str, Rule, Told))| Setting {
            name,
            value: usual(number, &self.values[number]).to_owned(),
            shown: as_shown(number, &self.values[number]),
            // Until the session has begun its values are its first.
            reset: usual(number, self.initial.get(number).unwrap_or(&self.values[number])).to_owned(),
            unit: match rule {
                Rule::Milliseconds => Some("ms"),
                Rule::Kilobytes(_) => Some("kB"),
                Rule::Blocks(_) => Some("8kB"),
                _ => None,
            },
            kind: kind(name, *rule),
            is_fixed: matches!(rule, Rule::Fixed) && !name.starts_with("transaction_"),
            about: about(name),
        };
        let mut all: Vec<Setting> = SETTINGS.iter().enumerate().map(setting).collect();
        all.sort_by_key(|setting| setting.name.to_ascii_lowercase());
        all
    }
}

fn kind(name: &str, rule: Rule) -> &'static str {
    match (name, rule) {
        ("extra_float_digits" | "max_identifier_length" | "max_index_keys" | "server_version_num", _)
        | ("transaction_timeout", _)
        | (_, Rule::Milliseconds | Rule::Kilobytes(_) | Rule::Blocks(_) | Rule::Integer(..)) => "integer",
        (_, Rule::Real(..)) => "real",
        ("integer_datetimes" | "in_hot_standby" | "is_superuser" | "standard_conforming_strings", _)
        | ("transaction_deferrable" | "transaction_read_only", _)
        | (_, Rule::Bool) => "bool",
        ("bytea_output" | "IntervalStyle" | "transaction_isolation", _) => "enum",
        ("default_table_access_method", _) => "string",
        (_, Rule::OneOf(_) | Rule::Isolation) => "enum",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_says_what_it_is_for() {
        for (name, ..) in SETTINGS {
            assert!(!about(name).is_empty(), "{name}");
        }
        assert_eq!(ABOUT.len(), SETTINGS.len());
    }
}

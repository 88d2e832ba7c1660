//! The settings that there are: which values each may have, and who is told of them.
//!
//! Read by `settings`, which numbers them by their places here.

/// The rule for the values of a setting.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Any text.
    Any,
    /// One of these, ignoring case, stored as spelled here. The setting only names what the server does anyway.
    Only(&'static [&'static str]),
    /// One of these, ignoring case.
    OneOf(&'static [&'static str]),
    /// An encoding of text.
    Encoding,
    /// A time zone.
    Zone,
    /// Milliseconds, with an optional unit.
    Milliseconds,
    /// Kilobytes, at least this many, with an optional unit.
    Kilobytes(i64),
    /// Blocks of 8 kB, at least this many, with an optional unit.
    Blocks(i64),
    /// A whole number from the first to the second.
    Integer(i64, i64),
    /// A number from the first to the second.
    Real(f64, f64),
    /// An isolation level.
    Isolation,
    /// on or off.
    Bool,
    /// Can only be set to the value that it has.
    Own,
    /// Cannot be changed, or belongs to the transaction and is not changed here.
    Fixed,
}

/// The severities of messages to a client, the least severe first.
pub(super) const SEVERITIES: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];

/// The setting for the log of slow statements.
pub(super) const LOG_MIN_DURATION: &str = "log_min_duration_statement";

/// The setting that names the server to which all statements are sent as they are written.
pub(super) const SHARDED_SERVER: &str = "sharded_server";

/// Who is told a value, beside whoever asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Nobody.
    Nobody,
    /// The client, whenever it changes.
    Client,
    /// The shards that the session has connections to, where it was given. Where it was not, a shard has its own, and the session keeps an
    /// empty text.
    Shards,
}

/// The largest `int` and the largest `double precision`: most numbers have no other bound.
const INT: i64 = i32::MAX as i64;
const DOUBLE: f64 = f64::MAX;

/// Name, default, rule, and who is told.
pub(super) const SETTINGS: &[(&str, &str, Rule, Told)] = &[
    ("application_name", "", Rule::Any, Told::Client),
    ("bytea_output", "hex", Rule::Only(&["hex"]), Told::Nobody),
    ("check_function_bodies", "on", Rule::Bool, Told::Nobody),
    ("client_encoding", "UTF8", Rule::Encoding, Told::Client),
    ("client_min_messages", "notice", Rule::OneOf(SEVERITIES), Told::Nobody),
    (
        "DateStyle",
        "ISO, MDY",
        Rule::Only(&["iso, mdy", "iso", "iso,mdy", "mdy", "mdy, iso", "iso, us", "us"]),
        Told::Client,
    ),
    // Deadlocks are found when they arise: this is how long PostgreSQL waits before it looks.
    ("deadlock_timeout", "1000", Rule::Milliseconds, Told::Nobody),
    // Ours: the servers of tables that are sharded by default, with commas; all where it is empty.
    ("default_sharding_servers", "", Rule::Any, Told::Nobody),
    ("default_table_access_method", "grid", Rule::OneOf(&["grid", "heap", "sharded"]), Told::Nobody),
    ("default_tablespace", "", Rule::Only(&[""]), Told::Nobody),
    ("default_transaction_deferrable", "off", Rule::Bool, Told::Nobody),
    ("default_transaction_isolation", "read committed", Rule::Isolation, Told::Nobody),
    ("default_transaction_read_only", "off", Rule::Bool, Told::Client),
    ("extra_float_digits", "1", Rule::Only(&["1", "2", "3"]), Told::Nobody),
    ("idle_in_transaction_session_timeout", "0", Rule::Milliseconds, Told::Nobody),
    ("idle_session_timeout", "0", Rule::Milliseconds, Told::Nobody),
    ("integer_datetimes", "on", Rule::Fixed, Told::Client),
    ("in_hot_standby", "off", Rule::Fixed, Told::Client),
    ("IntervalStyle", "postgres", Rule::Only(&["postgres"]), Told::Client),
    ("is_superuser", "on", Rule::Fixed, Told::Client),
    // Ours: whose operators join, where `operators` is not 'stock'.
    ("join_operators", "own", Rule::OneOf(&["own", "stock"]), Told::Nobody),
    ("lock_timeout", "0", Rule::Milliseconds, Told::Nobody),
    // -1 for no limit.
    (LOG_MIN_DURATION, "-1", Rule::Milliseconds, Told::Nobody),
    ("max_identifier_length", "63", Rule::Fixed, Told::Nobody),
    ("max_index_keys", "32", Rule::Fixed, Told::Nobody),
    // Ours: whose hash operators plans are made of.
    ("operators", "own", Rule::OneOf(&["own", "stock"]), Told::Nobody),
    // Ours: what one query may hold; 0 and -1 for no limit but the server's.
    ("query_memory_max", "0", Rule::Kilobytes(-1), Told::Nobody),
    // Ours: where rows of shards are read outside of transactions that write.
    ("read_from", "primary", Rule::OneOf(&["primary", "replica"]), Told::Nobody),
    ("role", "none", Rule::Only(&["none"]), Told::Nobody),
    (
        "search_path",
        "public",
        Rule::Only(&["public", "", "\"$user\", public", "$user, public", "\"$user\",public"]),
        Told::Nobody,
    ),
    ("server_encoding", "UTF8", Rule::Fixed, Told::Client),
    ("server_version", "", Rule::Fixed, Told::Client),
    ("server_version_num", "180000", Rule::Fixed, Told::Nobody),
    ("session_authorization", "ashlar", Rule::Own, Told::Client),
    // Ours: whether all shards may be written to for want of a key.
    ("sharded_keyless_writes", "allow", Rule::OneOf(&["allow", "refuse"]), Told::Nobody),
    // Ours: how long the session has a connection to a shard.
    ("sharded_pool_mode", "transaction", Rule::OneOf(&["transaction", "session"]), Told::Nobody),
    // Ours: whether a query over several shards sees each of them as of a moment of its own, or all as of one.
    ("sharded_reads", "each", Rule::OneOf(&["each", "snapshot"]), Told::Nobody),
    // Ours: the server that statements go to as they are written; none where it is empty.
    (SHARDED_SERVER, "", Rule::Any, Told::Nobody),
    ("standard_conforming_strings", "on", Rule::Only(&["on"]), Told::Client),
    ("statement_timeout", "0", Rule::Milliseconds, Told::Nobody),
    ("TimeZone", "UTC", Rule::Zone, Told::Client),
    ("transaction_deferrable", "off", Rule::Fixed, Told::Nobody),
    ("transaction_isolation", "read committed", Rule::Fixed, Told::Nobody),
    ("transaction_read_only", "off", Rule::Fixed, Told::Nobody),
    ("transaction_timeout", "0", Rule::Only(&["0"]), Told::Nobody),
    // Of shards: tables of this server know none of it. What the server takes for its own queries is in its configuration.
    ("constraint_exclusion", "partition", Rule::OneOf(&["partition", "on", "off"]), Told::Shards),
    ("cpu_index_tuple_cost", "0.005", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("cpu_operator_cost", "0.0025", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("cpu_tuple_cost", "0.01", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("cursor_tuple_fraction", "0.1", Rule::Real(0.0, 1.0), Told::Shards),
    ("default_statistics_target", "100", Rule::Integer(1, 10000), Told::Shards),
    ("effective_cache_size", "524288", Rule::Blocks(1), Told::Shards),
    ("effective_io_concurrency", "1", Rule::Integer(0, 1000), Told::Shards),
    ("enable_async_append", "on", Rule::Bool, Told::Shards),
    ("enable_bitmapscan", "on", Rule::Bool, Told::Shards),
    ("enable_gathermerge", "on", Rule::Bool, Told::Shards),
    ("enable_hashagg", "on", Rule::Bool, Told::Shards),
    ("enable_hashjoin", "on", Rule::Bool, Told::Shards),
    ("enable_incremental_sort", "on", Rule::Bool, Told::Shards),
    ("enable_indexonlyscan", "on", Rule::Bool, Told::Shards),
    ("enable_indexscan", "on", Rule::Bool, Told::Shards),
    ("enable_material", "on", Rule::Bool, Told::Shards),
    ("enable_memoize", "on", Rule::Bool, Told::Shards),
    ("enable_mergejoin", "on", Rule::Bool, Told::Shards),
    ("enable_nestloop", "on", Rule::Bool, Told::Shards),
    ("enable_parallel_append", "on", Rule::Bool, Told::Shards),
    ("enable_parallel_hash", "on", Rule::Bool, Told::Shards),
    ("enable_partition_pruning", "on", Rule::Bool, Told::Shards),
    ("enable_partitionwise_aggregate", "off", Rule::Bool, Told::Shards),
    ("enable_partitionwise_join", "off", Rule::Bool, Told::Shards),
    ("enable_seqscan", "on", Rule::Bool, Told::Shards),
    ("enable_sort", "on", Rule::Bool, Told::Shards),
    ("enable_tidscan", "on", Rule::Bool, Told::Shards),
    ("from_collapse_limit", "8", Rule::Integer(1, INT), Told::Shards),
    ("geqo", "on", Rule::Bool, Told::Shards),
    ("geqo_threshold", "12", Rule::Integer(2, INT), Told::Shards),
    ("hash_mem_multiplier", "2", Rule::Real(1.0, 1000.0), Told::Shards),
    ("jit", "off", Rule::Bool, Told::Shards),
    ("jit_above_cost", "100000", Rule::Real(-1.0, DOUBLE), Told::Shards),
    ("jit_inline_above_cost", "500000", Rule::Real(-1.0, DOUBLE), Told::Shards),
    ("jit_optimize_above_cost", "500000", Rule::Real(-1.0, DOUBLE), Told::Shards),
    ("join_collapse_limit", "8", Rule::Integer(1, INT), Told::Shards),
    ("maintenance_work_mem", "65536", Rule::Kilobytes(1024), Told::Shards),
    ("max_parallel_maintenance_workers", "2", Rule::Integer(0, 1024), Told::Shards),
    ("max_parallel_workers", "8", Rule::Integer(0, 1024), Told::Shards),
    ("max_parallel_workers_per_gather", "2", Rule::Integer(0, 1024), Told::Shards),
    ("min_parallel_index_scan_size", "64", Rule::Blocks(0), Told::Shards),
    ("min_parallel_table_scan_size", "1024", Rule::Blocks(0), Told::Shards),
    ("parallel_leader_participation", "on", Rule::Bool, Told::Shards),
    ("parallel_setup_cost", "1000", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("parallel_tuple_cost", "0.1", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("plan_cache_mode", "auto", Rule::OneOf(&["auto", "force_generic_plan", "force_custom_plan"]), Told::Shards),
    ("random_page_cost", "4", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("recursive_worktable_factor", "10", Rule::Real(0.001, 1_000_000.0), Told::Shards),
    ("row_security", "on", Rule::Bool, Told::Shards),
    ("seq_page_cost", "1", Rule::Real(0.0, DOUBLE), Told::Shards),
    ("synchronous_commit", "on", Rule::OneOf(&["local", "remote_write", "remote_apply", "on", "off"]), Told::Shards),
    ("work_mem", "4096", Rule::Kilobytes(64), Told::Shards),
    ("xmloption", "content", Rule::OneOf(&["content", "document"]), Told::Shards),
];

/// What a parameter of the user's own has while it has no value: no text that a client can give.
pub(super) const NOT_GIVEN: &str = "\0";

/// What is told of a value: where none was given, the usual one, which is empty for the user's own.
pub(super) fn usual(number: usize, value: &str) -> &str {
    match SETTINGS.get(number) {
        Some((_, default, _, Told::Shards)) if value.is_empty() => default,
        None if value == NOT_GIVEN => "",
        _ => value,
    }
}

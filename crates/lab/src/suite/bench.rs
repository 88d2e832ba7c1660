//! The rows of docs/benchmarks.md: what is promised of the store and its keys, beside those who set the mark.

use super::{Group, Row, Shown, Step, Suite};

const KEYS: &str = "redis-benchmark=ashlar,redis-benchmark=redis,redis-benchmark=valkey,redis-benchmark=noop";

/// The suite.
pub(super) const SUITE: Suite = Suite {
    name: "bench",
    about: "Every row of docs/benchmarks.md: keys, memory, latency beside queries, SQL, scans, COPY, documents",
    wanted: "wanted",
    groups: &[
        Group {
            name: "get",
            long: false,
            steps: &[Step { name: "get", words: "kv-get --keys {keys} --threads 50 --target {resp}" }],
            rows: &[Row {
                what: "GET 100 B, 50 connections, no pipeline (redis-benchmark)",
                wanted: "1.2 x Redis and Valkey",
                of: &["get"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "set",
            long: false,
            steps: &[Step { name: "set", words: "kv-put --keys {keys} --threads 50 --target {resp}" }],
            rows: &[Row {
                what: "SET 100 B, 50 connections, no pipeline (redis-benchmark)",
                wanted: "1.2 x Redis and Valkey",
                of: &["set"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "get-16",
            long: false,
            steps: &[Step { name: "get", words: "kv-get --keys {keys} --threads 50 --pipeline 16 --target {resp}" }],
            rows: &[Row {
                what: "GET 100 B, 50 connections, pipeline 16 (redis-benchmark)",
                wanted: "2 x Redis, 1.5 x Valkey",
                of: &["get"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "set-16",
            long: false,
            steps: &[Step { name: "set", words: "kv-put --keys {keys} --threads 50 --pipeline 16 --target {resp}" }],
            rows: &[Row {
                what: "SET 100 B, 50 connections, pipeline 16 (redis-benchmark)",
                wanted: "2 x Redis, 1.5 x Valkey",
                of: &["set"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "mget",
            long: false,
            steps: &[Step {
                name: "mget",
                words: "kv-batch --read-percent 100 --batch 10 --keys {keys} --threads 50 --target {resp}",
            }],
            rows: &[Row {
                what: "MGET of 10 keys of 100 B, 50 connections, no pipeline (redis-benchmark), commands",
                wanted: "shown",
                of: &["mget"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "mset",
            long: false,
            steps: &[Step {
                name: "mset",
                words: "kv-batch --read-percent 0 --batch 10 --keys {keys} --threads 50 --target {resp}",
            }],
            rows: &[Row {
                what: "MSET of 10 keys of 100 B, 50 connections, no pipeline (redis-benchmark), commands",
                wanted: "shown",
                of: &["mset"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "connections",
            long: false,
            steps: &[Step { name: "get", words: "kv-get --keys {keys} --threads 32,512 --target {resp}" }],
            rows: &[Row {
                what: "GET, 512 connections against 32 (redis-benchmark)",
                wanted: "no loss over 5 %",
                of: &["get"],
                shown: Shown::Threads { from: 32, to: 512 },
            }],
        },
        Group {
            name: "cores",
            long: false,
            steps: &[
                Step {
                    name: "one",
                    words: "kv-get --keys {keys} --threads 50 --pipeline 16 --target redis-benchmark=ashlar --server-cores 0",
                },
                Step {
                    name: "two",
                    words: "kv-get --keys {keys} --threads 50 --pipeline 16 --target redis-benchmark=ashlar --server-cores 0,1",
                },
                Step {
                    name: "noop-one",
                    words: "kv-get --keys {keys} --threads 50 --pipeline 16 --target redis-benchmark=noop --server-cores 0",
                },
                Step {
                    name: "noop-two",
                    words: "kv-get --keys {keys} --threads 50 --pipeline 16 --target redis-benchmark=noop --server-cores 0,1",
                },
            ],
            rows: &[
                Row {
                    what: "GET, pipeline 16, two server cores against one (the client on one of them too)",
                    wanted: "1.6 x",
                    of: &["one", "two"],
                    shown: Shown::Steps { names: ["one core", "two cores"] },
                },
                Row {
                    what: "the same of the no-op server, with a thread for each core",
                    wanted: "what this machine allows",
                    of: &["noop-one", "noop-two"],
                    shown: Shown::Steps { names: ["one core", "two cores"] },
                },
            ],
        },
        Group {
            name: "puts",
            long: false,
            steps: &[
                Step { name: "programs", words: "kv-put --keys {keys} --value-bytes 8 --threads 16 --target {resp}" },
                Step {
                    name: "java",
                    words: "kv-put --keys {keys} --value-bytes 8 --threads 16 --target hazelcast,geode,lettuce=ashlar",
                },
            ],
            rows: &[Row {
                what: "put with 8-byte value, 16 connections of redis-benchmark, or 16 threads of the product's client in Java",
                wanted: "5 x Geode and Hazelcast",
                of: &["programs", "java"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "memory",
            long: false,
            steps: &[
                Step {
                    name: "100",
                    words: "kv-memory --keys {keys} --value-bytes 100 --churn {churn} --repeat {entry-repeats} --target ashlar,redis,valkey",
                },
                Step {
                    name: "8",
                    words: "kv-memory --keys {keys} --value-bytes 8 --churn {churn} --repeat {entry-repeats} --target ashlar,redis,valkey",
                },
            ],
            rows: &[
                Row {
                    what: "bytes an entry, {keys} keys of 16 B, values of 100 B",
                    wanted: "0.75 x Redis",
                    of: &["100"],
                    shown: Shown::Entries { after: "fresh" },
                },
                Row {
                    what: "the same after random overwrites of {churn} times the data, values of 100 B",
                    wanted: "within 25 % of fresh",
                    of: &["100"],
                    shown: Shown::Change { from: "fresh", to: "churned" },
                },
                Row {
                    what: "bytes an entry, {keys} keys of 16 B, values of 8 B",
                    wanted: "0.5 x Redis",
                    of: &["8"],
                    shown: Shown::Entries { after: "fresh" },
                },
                Row {
                    what: "the same after random overwrites of {churn} times the data, values of 8 B",
                    wanted: "within 25 % of fresh",
                    of: &["8"],
                    shown: Shown::Change { from: "fresh", to: "churned" },
                },
            ],
        },
        Group {
            name: "memory-grids",
            long: true,
            steps: &[
                Step {
                    name: "100",
                    words: "kv-memory --keys {keys} --value-bytes 100 --churn {churn} --repeat 1 --target ashlar,hazelcast,geode",
                },
                Step {
                    name: "8",
                    words: "kv-memory --keys {keys} --value-bytes 8 --churn {churn} --repeat 1 --target ashlar,hazelcast,geode",
                },
            ],
            rows: &[
                Row {
                    what: "bytes an entry beside Hazelcast and Geode (once), {keys} keys of 16 B, values of 100 B",
                    wanted: "shown",
                    of: &["100"],
                    shown: Shown::Entries { after: "fresh" },
                },
                Row {
                    what: "the same after random overwrites of {churn} times the data, values of 100 B",
                    wanted: "within 25 % of fresh",
                    of: &["100"],
                    shown: Shown::Change { from: "fresh", to: "churned" },
                },
                Row {
                    what: "bytes an entry beside Hazelcast and Geode (once), {keys} keys of 16 B, values of 8 B",
                    wanted: "shown",
                    of: &["8"],
                    shown: Shown::Entries { after: "fresh" },
                },
                Row {
                    what: "the same after random overwrites of {churn} times the data, values of 8 B",
                    wanted: "within 25 % of fresh",
                    of: &["8"],
                    shown: Shown::Change { from: "fresh", to: "churned" },
                },
            ],
        },
        Group {
            name: "latency",
            long: false,
            steps: &[
                Step { name: "most", words: "kv-get --keys {keys} --threads 8 --target ashlar" },
                Step { name: "noop", words: "kv-get --keys {keys} --threads 8 --rate {half:most} --target noop" },
                Step { name: "quiet", words: "kv-get --keys {keys} --threads 8 --rate {half:most} --target ashlar" },
                Step {
                    name: "guess",
                    words: "kv-get --keys {keys} --threads 8 --rate {half:most} --beside-rows {beside} --repeat 1 --target ashlar",
                },
                Step {
                    name: "busy",
                    words: "kv-get --keys {keys} --threads 8 --rate {half:most} --beside-rows {beside:guess} --seconds {beside-window} --target ashlar",
                },
            ],
            rows: &[Row {
                what: "GET at half the largest rate while queries of about 5 s each run on the same core",
                wanted: "p99.9 under 2 ms",
                of: &["noop", "quiet", "busy"],
                shown: Shown::Tails { names: &["no-op server, quiet", "quiet", "busy"] },
            }],
        },
        Group {
            name: "sql-key",
            long: false,
            steps: &[Step {
                name: "key",
                words: "sql-key --rows {keys} --columns narrow --threads 16 --target pgbench=ashlar,pgbench=postgres",
            }],
            rows: &[Row {
                what: "SELECT of two columns of one of {keys} rows by primary key, prepared, 16 connections (pgbench -M prepared, the lab's table and statement)",
                wanted: "2 x PostgreSQL",
                of: &["key"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "sql-update",
            long: false,
            steps: &[Step {
                name: "update",
                words: "sql-update --rows {keys} --columns narrow --threads 16 --target pgbench=ashlar,pgbench=postgres",
            }],
            rows: &[Row {
                what: "UPDATE of two columns of one of {keys} rows by key, prepared, 16 connections, nothing durable (pgbench)",
                wanted: "3 x PostgreSQL",
                of: &["update"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "sql-text",
            long: false,
            steps: &[Step {
                name: "text",
                words: "sql-key --protocol text --rows {keys} --columns narrow --threads 16 --target pgbench=ashlar,pgbench=postgres",
            }],
            rows: &[Row {
                what: "the same SELECT as plain text, 16 connections (pgbench -M simple)",
                wanted: "2 x PostgreSQL",
                of: &["text"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "sum",
            long: false,
            steps: &[Step {
                name: "sum",
                words: "sql-sum --rows {rows} --columns narrow --threads 1 --target ashlar,postgres,plain-loop",
            }],
            rows: &[Row {
                what: "sum of {rows} bigints in rows of three columns, one core, the loop asked over the same protocol",
                wanted: "50 % of a plain loop",
                of: &["sum"],
                shown: Shown::Times,
            }],
        },
        Group {
            name: "fetch",
            long: false,
            steps: &[Step { name: "rows", words: "sql-fetch --rows {few} --threads 1 --target ashlar,postgres,noop" }],
            rows: &[Row {
                what: "SELECT of all of {few} rows (bigint, bigint, text, int[20]) to one client, rows",
                wanted: "1.5 x PostgreSQL",
                of: &["rows"],
                shown: Shown::Rates { per: Some("rows") },
            }],
        },
        Group {
            name: "fetch-pairs",
            long: false,
            steps: &[Step {
                name: "pairs",
                words: "sql-fetch --rows {many} --columns pair --threads 1 --target ashlar,postgres,noop",
            }],
            rows: &[Row {
                what: "SELECT of all of {many} rows (bigint, bigint) to one client, rows",
                wanted: "1.5 x PostgreSQL, over 2.4 M rows/s",
                of: &["pairs"],
                shown: Shown::Rates { per: Some("rows") },
            }],
        },
        Group {
            name: "value",
            long: false,
            steps: &[
                Step {
                    name: "value",
                    words: "sql-value --index btree --rows {rows} --columns narrow --threads 1 --target ashlar,postgres,noop",
                },
                Step {
                    name: "values",
                    words: "sql-value --index btree --rows {rows} --columns narrow --threads 16 --target ashlar,postgres,noop",
                },
                Step {
                    name: "allocated",
                    words: "sql-value --index btree --rows {rows} --columns narrow --threads 1 --repeat 1 --profile allocations --target ashlar",
                },
            ],
            rows: &[
                Row {
                    what: "SQL by indexed value, one row of {rows}, one connection",
                    wanted: "2 x PostgreSQL",
                    of: &["value"],
                    shown: Shown::Rates { per: None },
                },
                Row {
                    what: "the same with 16 connections",
                    wanted: "2 x PostgreSQL",
                    of: &["values"],
                    shown: Shown::Rates { per: None },
                },
                Row {
                    what: "bytes that the server allocates for such a query, of samples (once)",
                    wanted: "under 4 KB",
                    of: &["allocated"],
                    shown: Shown::Allocated,
                },
            ],
        },
        Group {
            name: "copy",
            long: false,
            steps: &[Step { name: "copy", words: "copy-in --rows {rows} --target ashlar,postgres" }],
            rows: &[Row {
                what: "COPY in, {rows} rows of 4 columns with a primary key, unlogged, rows",
                wanted: "2 x PostgreSQL",
                of: &["copy"],
                shown: Shown::Rates { per: Some("rows") },
            }],
        },
        Group {
            name: "copy-parallel",
            long: false,
            steps: &[
                Step { name: "one", words: "copy-in --rows {rows} --server-cores 0,1 --target ashlar,postgres" },
                Step {
                    name: "two",
                    words: "copy-in --rows {rows} --connections 2 --server-cores 0,1 --target ashlar,postgres",
                },
                Step {
                    name: "four",
                    words: "copy-in --rows {rows} --connections 4 --server-cores 0,1 --target ashlar,postgres",
                },
            ],
            rows: &[
                Row {
                    what: "the same COPY by one connection to servers of two cores (the client on one of them too), rows",
                    wanted: "2 x PostgreSQL",
                    of: &["one"],
                    shown: Shown::Rates { per: Some("rows") },
                },
                Row {
                    what: "COPY of a half of the rows by each of two connections at once",
                    wanted: "2 x PostgreSQL",
                    of: &["two"],
                    shown: Shown::Rates { per: Some("rows") },
                },
                Row {
                    what: "COPY of a quarter of the rows by each of four connections at once",
                    wanted: "2 x PostgreSQL",
                    of: &["four"],
                    shown: Shown::Rates { per: Some("rows") },
                },
                Row {
                    what: "time of the load of all rows into Ashlar, by four connections against one",
                    wanted: "0.63 x",
                    of: &["one", "four"],
                    shown: Shown::StepTimes { names: ["one connection", "four connections"] },
                },
            ],
        },
        Group {
            name: "json",
            long: false,
            steps: &[
                Step {
                    name: "sql",
                    words: "sql-json-sum --rows {documents} --fields 22 --threads 1 --target ashlar,postgres",
                },
                Step {
                    name: "java",
                    words: "sql-json-sum --rows {documents} --fields 22 --threads 1 --target hazelcast-sql",
                },
            ],
            rows: &[Row {
                what: "sum of a JSON field over {documents} documents of 0.5 KB, Hazelcast by its SQL",
                wanted: "10 x Hazelcast",
                of: &["sql", "java"],
                shown: Shown::Times,
            }],
        },
    ],
};

/// Lists of targets, by the names that steps have for them.
pub(super) fn targets(name: &str) -> Option<&'static str> {
    (name == "resp").then_some(KEYS)
}

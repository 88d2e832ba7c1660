//! What stands between clients and PostgreSQL: TPC-C through each of them, and the least that a request costs there.

use super::{Group, Row, Shown, Step, Suite};

/// What many rows ask.
const COST: &str = "what a proxy costs";

/// What may be lost of TPC-C by a proxy before one server.
const LOSS: &str = "Ashlar as a proxy 0.85 x, 0.95 x the null relay, half of ShardingSphere-Proxy's loss";

/// What is wanted beside ShardingSphere-Proxy, which is the second of the two.
const SLOWER: &str = ">= 3 x";
const PROXIES: [&str; 2] = ["through Ashlar", "through ShardingSphere-Proxy"];

/// TPC-C through proxies. Everything has both cores: the client is never what waits, and whatever a proxy takes is taken from PostgreSQL.
pub(super) const TPCC: Suite = Suite {
    name: "tpcc",
    about: "TPC-C's transactions on PostgreSQL directly, through a null relay, PgBouncer, ShardingSphere-Proxy and Ashlar as a proxy, and on Ashlar",
    wanted: "wanted",
    groups: &[Group {
        name: "tpcc",
        long: false,
        steps: &[Step {
            name: "tpcc",
            words: "tpcc --warehouses {warehouses} --items {items} --customers {customers} --threads 8 --server-cores 0,1 --client-cores 0,1 --target postgres,relay,pgbouncer,shardingsphere,ashlar-proxy,ashlar-proxy-2,ashlar-proxy-4,ashlar",
        }],
        rows: &[
            Row {
                what: "New-Orders of TPC-C a minute, {warehouses} warehouses, 8 connections, no think times, all servers and the client on the same two cores",
                wanted: LOSS,
                of: &["tpcc"],
                shown: Shown::PerMinute { kind: "new-order" },
            },
            Row { what: "all transactions of it", wanted: LOSS, of: &["tpcc"], shown: Shown::RatesOfFirst },
        ],
    }],
};

/// Rows by their key through proxies.
pub(super) const PROXY: Suite = Suite {
    name: "proxy",
    about: "Rows by their key on PostgreSQL directly, through a null relay, PgBouncer and Ashlar as a proxy: throughput, CPU, latency, many connections; groups and joins over four shards, beside ShardingSphere-Proxy",
    wanted: "wanted",
    groups: &[
        Group {
            name: "pgbench",
            long: false,
            steps: &[Step {
                name: "key",
                words: "sql-key --rows {many} --threads 16 --target pgbench=postgres,pgbench=relay,pgbench=pgbouncer,pgbench=ashlar-proxy,pgbench=ashlar-proxy-2",
            }],
            rows: &[
                Row {
                    what: "one of {many} rows by its key, prepared, 16 connections (pgbench)",
                    wanted: COST,
                    of: &["key"],
                    shown: Shown::RatesOfFirst,
                },
                Row {
                    what: "CPU for each of these, of PostgreSQL and of what is before it",
                    wanted: COST,
                    of: &["key"],
                    shown: Shown::Cpu,
                },
                Row {
                    what: "CPU for each of these, of what is before PostgreSQL alone",
                    wanted: "Ashlar 15 us, or PgBouncer's",
                    of: &["key"],
                    shown: Shown::ProxyCpu,
                },
            ],
        },
        Group {
            name: "one",
            long: false,
            steps: &[Step {
                name: "one",
                words: "sql-key --rows {many} --threads 1 --target postgres,relay,pgbouncer,ashlar-proxy",
            }],
            rows: &[Row {
                what: "the same by one connection, its latency, and what is added to PostgreSQL's",
                wanted: "Ashlar 1.15 x what the null relay adds",
                of: &["one"],
                shown: Shown::Added,
            }],
        },
        Group {
            name: "connections",
            long: false,
            steps: &[Step {
                name: "many",
                words: "sql-key --rows {many} --threads 32,512 --target pgbench=postgres,pgbench=relay,pgbench=pgbouncer,pgbench=ashlar-proxy",
            }],
            rows: &[Row {
                what: "the same, 512 connections against 32 (pgbench)",
                wanted: "no loss over 5 %",
                of: &["many"],
                shown: Shown::Threads { from: 32, to: 512 },
            }],
        },
        Group {
            name: "update",
            long: false,
            steps: &[Step {
                name: "update",
                words: "sql-update --rows {many} --threads 16 --target pgbench=postgres,pgbench=relay,pgbench=pgbouncer,pgbench=ashlar-proxy,pgbench=ashlar-proxy-2",
            }],
            rows: &[Row {
                what: "two columns of one row by its key, prepared, 16 connections (pgbench)",
                wanted: COST,
                of: &["update"],
                shown: Shown::RatesOfFirst,
            }],
        },
        Group {
            name: "text",
            long: false,
            steps: &[Step {
                name: "key",
                words: "sql-key --rows {many} --threads 16 --protocol text --target pgbench=postgres,pgbench=relay,pgbench=pgbouncer,pgbench=ashlar-proxy,pgbench=ashlar-proxy-2",
            }],
            rows: &[
                Row {
                    what: "one of {many} rows by its key as plain text, which is parsed and routed, 16 connections (pgbench)",
                    wanted: COST,
                    of: &["key"],
                    shown: Shown::RatesOfFirst,
                },
                Row {
                    what: "CPU for each of these, of PostgreSQL and of what is before it",
                    wanted: COST,
                    of: &["key"],
                    shown: Shown::Cpu,
                },
            ],
        },
        Group {
            name: "routing",
            long: false,
            steps: &[Step {
                name: "key",
                words: "sql-key --rows {many} --threads 16 --protocol text --target pgbench=ashlar-proxy,pgbench-unrouted=ashlar-proxy,pgbench=relay,pgbench=pgbouncer",
            }],
            rows: &[
                Row {
                    what: "simple protocol, literals: routing on against routing off (`sharded_server`), one of {many} rows by its key, 16 connections (pgbench); a hop without any beside it",
                    wanted: ">= 0.95 x routing off",
                    of: &["key"],
                    shown: Shown::Rates { per: None },
                },
                Row {
                    what: "CPU for each of these, of what is before PostgreSQL alone",
                    wanted: "what routing costs",
                    of: &["key"],
                    shown: Shown::ProxyCpu,
                },
            ],
        },
        Group {
            name: "groups",
            long: false,
            steps: &[
                Step {
                    name: "part",
                    words: "sql-group --rows {quarter} --columns narrow --threads 4 --server-cores 0,1 --target postgres",
                },
                Step {
                    name: "whole",
                    words: "sql-group --rows {four-quarters} --columns narrow --threads 1 --server-cores 0,1 --target ashlar-proxy-4",
                },
                Step {
                    name: "other",
                    words: "sql-group --rows {four-quarters} --columns narrow --threads 1 --server-cores 0,1 --target shardingsphere-4",
                },
            ],
            rows: &[
                Row {
                    what: "a thousand groups of {four-quarters} rows on four shards, beside those of a quarter of the rows for each of four clients of one PostgreSQL, on two cores",
                    wanted: "<= 1.5 x",
                    of: &["part", "whole"],
                    shown: Shown::StepTimes { names: ["a quarter, four at once", "all through Ashlar"] },
                },
                Row {
                    what: "the same four shards through Ashlar and through ShardingSphere-Proxy",
                    wanted: SLOWER,
                    of: &["whole", "other"],
                    shown: Shown::StepTimes { names: PROXIES },
                },
            ],
        },
        Group {
            name: "join",
            long: false,
            steps: &[
                Step {
                    name: "part",
                    words: "sql-join --rows {quarter} --join-rows 250 --threads 4 --server-cores 0,1 --target postgres",
                },
                Step {
                    name: "whole",
                    words: "sql-join --rows {four-quarters} --join-rows 1000 --threads 1 --server-cores 0,1 --target ashlar-proxy-4",
                },
                Step {
                    name: "other",
                    words: "sql-join --rows {four-quarters} --join-rows 1000 --threads 1 --server-cores 0,1 --target shardingsphere-4",
                },
            ],
            rows: &[
                Row {
                    what: "a thousand rows joined with {four-quarters} on other shards, beside a quarter of both for each of four clients of one PostgreSQL, on two cores",
                    wanted: "<= 1.5 x",
                    of: &["part", "whole"],
                    shown: Shown::StepTimes { names: ["a quarter, four at once", "all through Ashlar"] },
                },
                Row {
                    what: "the same through Ashlar and through ShardingSphere-Proxy, which joins no rows of two servers and has the thousand on each",
                    wanted: SLOWER,
                    of: &["whole", "other"],
                    shown: Shown::StepTimes { names: PROXIES },
                },
            ],
        },
    ],
};

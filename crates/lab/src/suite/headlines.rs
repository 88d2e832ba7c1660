//! What three posts have shown of their products, made again on one machine, beside Ashlar. Their own figures, of other machines, stand in the
//! column that says so; nothing is compared with them.

use super::{Group, Row, Shown, Step, Suite};

/// What the column of other people's figures is called.
const THEIRS: &str = "what its makers showed";

/// Geode's four bars, and its curve.
pub(super) const GEODE: Suite = Suite {
    name: "geode",
    about: "Geode's four bars of throughput, get and put of 800 bytes in a partitioned and a replicated region, and its curve by threads",
    wanted: THEIRS,
    groups: &[
        Group {
            name: "get",
            long: false,
            steps: &[Step {
                name: "get",
                words: "kv-get --keys {keys} --value-bytes 800 --threads {threads} --target ashlar,lettuce=ashlar,geode,geode-replicated",
            }],
            rows: &[
                Row {
                    what: "get of 800 B, at the best number of threads",
                    wanted: "partitioned 692,725/s, replicated 736,022/s (203,855/s and 244,463/s before a lock had left the path); 360 threads, 36 cores, two servers",
                    of: &["get"],
                    shown: Shown::Best,
                },
                Row {
                    what: "the same by threads",
                    wanted: "more up to 32 threads before, up to 512 after",
                    of: &["get"],
                    shown: Shown::Scaling,
                },
            ],
        },
        Group {
            name: "put",
            long: false,
            steps: &[Step {
                name: "put",
                words: "kv-put --keys {keys} --value-bytes 800 --threads {threads} --target ashlar,lettuce=ashlar,geode,geode-replicated",
            }],
            rows: &[
                Row {
                    what: "put of 800 B, at the best number of threads",
                    wanted: "partitioned 357,507/s, replicated 372,430/s (181,655/s and 207,697/s before); likewise",
                    of: &["put"],
                    shown: Shown::Best,
                },
                Row {
                    what: "the same by threads",
                    wanted: "more up to 32 threads before, up to 512 after",
                    of: &["put"],
                    shown: Shown::Scaling,
                },
            ],
        },
        Group {
            name: "get-structured",
            long: true,
            steps: &[Step {
                name: "get",
                words: "kv-get --value-shape structured --keys {keys} --threads {threads} --target ashlar,lettuce=ashlar,geode,geode-replicated",
            }],
            rows: &[Row {
                what: "get of a structured value of 0.8 KB, at the best number of threads",
                wanted: "as above: theirs were objects of that size",
                of: &["get"],
                shown: Shown::Best,
            }],
        },
        Group {
            name: "put-structured",
            long: true,
            steps: &[Step {
                name: "put",
                words: "kv-put --value-shape structured --keys {keys} --threads {threads} --target ashlar,lettuce=ashlar,geode,geode-replicated",
            }],
            rows: &[Row {
                what: "put of a structured value of 0.8 KB, at the best number of threads",
                wanted: "likewise",
                of: &["put"],
                shown: Shown::Best,
            }],
        },
    ],
};

/// Hazelcast's five shapes of queries, by its SQL, its predicates, and Ashlar.
pub(super) const HAZELCAST: Suite = Suite {
    name: "hazelcast",
    about: "Hazelcast's five shapes of queries, its SQL against its predicates against Ashlar",
    wanted: THEIRS,
    groups: &[
        Group {
            name: "fetch",
            long: false,
            steps: &[Step {
                name: "fetch",
                words: "sql-fetch --rows {few} --threads 4 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "1: all of {few} entries to the client, queries",
                wanted: "24/s offered",
                of: &["fetch"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "count",
            long: false,
            steps: &[Step {
                name: "count",
                words: "sql-count --rows {many} --threads 4 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "2: count of {many} entries",
                wanted: "6/s offered",
                of: &["count"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "sum",
            long: false,
            steps: &[Step {
                name: "sum",
                words: "sql-sum --rows {many} --threads 4 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "3: sum of a number of {many} entries",
                wanted: "6 to 20/s offered",
                of: &["sum"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "json",
            long: false,
            steps: &[Step {
                name: "json",
                words: "sql-json-sum --rows {documents} --threads 4 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "4: sum of a field of {documents} JSON documents",
                wanted: "5/s offered",
                of: &["json"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "value",
            long: false,
            steps: &[Step {
                name: "value",
                words: "sql-value --index none --rows {many} --threads 4 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "5a: one of {many} entries by a value, without an index",
                wanted: "6/s offered",
                of: &["value"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "indexed",
            long: false,
            steps: &[Step {
                name: "indexed",
                words: "sql-value --index btree --rows {many} --threads 8 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "5b: one of {many} entries by an indexed value",
                wanted: "7,500/s offered, of 10 M",
                of: &["indexed"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "key",
            long: false,
            steps: &[Step {
                name: "key",
                words: "sql-key --rows {many} --threads 8 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "besides: one of {many} entries by its key",
                wanted: "25,000/s offered, of 10 M",
                of: &["key"],
                shown: Shown::Rates { per: None },
            }],
        },
        Group {
            name: "update",
            long: false,
            steps: &[Step {
                name: "update",
                words: "sql-update --rows {many} --threads 8 --target ashlar,hazelcast-sql,hazelcast-predicates",
            }],
            rows: &[Row {
                what: "besides: two columns of one of {many} entries changed by its key",
                wanted: "no figure",
                of: &["update"],
                shown: Shown::Rates { per: None },
            }],
        },
    ],
};

/// Impala's table of memory.
pub(super) const IMPALA: Suite = Suite {
    name: "impala",
    about: "Impala's table of memory: GROUP BY and join with very many keys, and its two layouts of buckets, written anew",
    wanted: THEIRS,
    groups: &[
        Group {
            name: "buckets",
            long: false,
            steps: &[
                Step { name: "100", words: "hash-build --rows {sales} --unique-percent 100 --target ashlar" },
                Step { name: "60", words: "hash-build --rows {sales} --unique-percent 60 --target ashlar" },
                Step { name: "20", words: "hash-build --rows {sales} --unique-percent 20 --target ashlar" },
            ],
            rows: &[
                Row {
                    what: "Impala's buckets, build side of {sales} rows, all keys unique",
                    wanted: "-25.0 % of filled buckets",
                    of: &["100"],
                    shown: Shown::Buckets,
                },
                Row {
                    what: "the same, 60 % unique",
                    wanted: "-28.6 % of filled buckets",
                    of: &["60"],
                    shown: Shown::Buckets,
                },
                Row {
                    what: "the same, 20 % unique",
                    wanted: "-30.6 % of filled buckets",
                    of: &["20"],
                    shown: Shown::Buckets,
                },
            ],
        },
        Group {
            name: "build",
            long: false,
            steps: &[Step {
                name: "base",
                words: "hash-build --rows {sales} --queries having --target ashlar,duckdb,datafusion,chdb",
            }],
            rows: &[Row {
                what: "GROUP BY of {sales} sales of 3 % as many items: memory above the data, and time",
                wanted: "peak -17 % by packed buckets, the same time",
                of: &["base"],
                shown: Shown::Memory { query: "having" },
            }],
        },
        Group {
            name: "build-60",
            long: false,
            steps: &[Step {
                name: "unique",
                words: "hash-build --rows {sales} --unique-percent 60 --queries having --target ashlar,duckdb,datafusion,chdb",
            }],
            rows: &[Row {
                what: "the same, 60 % of the sales with an item of their own",
                wanted: "peak smaller by packed buckets",
                of: &["unique"],
                shown: Shown::Memory { query: "having" },
            }],
        },
        Group {
            name: "probe",
            long: false,
            steps: &[Step {
                name: "base",
                words: "hash-probe --rows {sales} --queries join --target ashlar,duckdb,datafusion,chdb",
            }],
            rows: &[Row {
                what: "join of {sales} sales with 3 % as many items: memory above the data, and time",
                wanted: "2 to 3 % faster by packed buckets",
                of: &["base"],
                shown: Shown::Memory { query: "join" },
            }],
        },
    ],
};

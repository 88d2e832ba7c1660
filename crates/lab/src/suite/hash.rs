//! Tables of hashes: groups and joins of very many keys beside other engines: bytes of the structure, memory of the process, time.
//!
//! Every server and engine has all cores of the machine, and as many threads as cores. Where a join is to keep the smaller table, the other has
//! twice as many rows: of two that are equally long the planner keeps the one that is named first.

use super::{Group, Row, Shown, Step, Suite};

/// What is wanted of a group's bytes, and of queries: memory above the data beside the rival with the least, time beside the fastest.
const GROUP_BYTES: &str = "<= 20 B a group";
const GROUPING: &str = "memory 0.5 x the smallest, time 1.0 x the fastest";
const JOINING: &str = "memory 0.6 x the smallest, time 0.8 x the fastest";

/// What keys that are hard for a hash table may cost.
const NO_CLIFF: &str = "<= 3 x the time";

macro_rules! words {
    ($($part:literal),+) => {
        concat!($($part, " "),+, "--server-cores all")
    };
}

macro_rules! aggregation {
    ($name:literal, long $long:literal, $words:literal, $what:literal) => {
        Group {
            name: $name,
            long: $long,
            steps: &[Step {
                name: "groups",
                words: words!(
                    "hash-build --rows {hashed} --queries having --target ashlar,duckdb,datafusion,chdb,polars",
                    $words,
                    "--seconds {window}"
                ),
            }],
            rows: &[
                Row {
                    what: concat!("GROUP BY of {hashed} rows, ", $what, ": bytes a group"),
                    wanted: GROUP_BYTES,
                    of: &["groups"],
                    shown: Shown::Structure { query: "having", per: "keys" },
                },
                Row {
                    what: concat!("GROUP BY of {hashed} rows, ", $what),
                    wanted: GROUPING,
                    of: &["groups"],
                    shown: Shown::Peak { query: "having" },
                },
            ],
        }
    };
}

macro_rules! probe {
    ($name:literal, $ids:literal) => {
        Group {
            name: $name,
            long: false,
            steps: &[
                Step {
                    name: "own",
                    words: words!(
                        "hash-probe --rows {hashed} --items {groups} --queries join --target ashlar,duckdb,datafusion,chdb,polars",
                        "--seconds {window} --ids",
                        $ids
                    ),
                },
                Step {
                    name: "stock",
                    words: words!(
                        "hash-probe --rows {hashed} --items {groups} --queries join --operators stock --target ashlar",
                        "--seconds {window} --ids",
                        $ids
                    ),
                },
            ],
            rows: &[
                Row {
                    what: concat!("join of {hashed} rows with {groups}, ", $ids, " ids"),
                    wanted: JOINING,
                    of: &["own"],
                    shown: Shown::Peak { query: "join" },
                },
                Row {
                    what: concat!("the same in Ashlar by its own operators and by DataFusion's, ", $ids, " ids"),
                    wanted: "its own faster",
                    of: &["own", "stock"],
                    shown: Shown::Steps { names: ["own", "DataFusion's"] },
                },
            ],
        }
    };
}

macro_rules! build {
    ($step:literal, $words:literal) => {
        Step {
            name: $step,
            words: words!("hash-probe --items {build} --queries join", $words, "--warm-up 0 --seconds 1"),
        }
    };
}

/// Joins of which the smaller table is kept, and what it takes with duplicates and without.
const BUILD: Group = Group {
    name: "build",
    long: false,
    steps: &[
        build!("hashed", "--rows {twice-build} --ids hashed --target ashlar,duckdb,datafusion,chdb"),
        build!("dense", "--rows {twice-build} --ids dense --target ashlar,duckdb,datafusion,chdb"),
        build!("once", "--rows {build} --distinct-percent 100 --ids hashed --target ashlar"),
        Step {
            name: "four-times",
            words: words!(
                "hash-probe --rows {build} --items {build} --queries join --distinct-percent 25 --duplicates 4 --ids hashed",
                "--target ashlar,duckdb,datafusion,chdb,polars --seconds {window}"
            ),
        },
    ],
    rows: &[
        Row {
            what: "join that keeps {build} rows of integer and double, hashed ids: bytes a row, the 12 of the row among them",
            wanted: "<= 22 B",
            of: &["hashed"],
            shown: Shown::Structure { query: "join", per: "items" },
        },
        Row {
            what: "the same, dense ids",
            wanted: "<= 13 B",
            of: &["dense"],
            shown: Shown::Structure { query: "join", per: "items" },
        },
        Row {
            what: "join of {build} rows with {build}, each key four times on both sides (N:M), hashed ids",
            wanted: "time 1.0 x the fastest",
            of: &["four-times"],
            shown: Shown::Peak { query: "join" },
        },
        Row {
            what: "such a join in Ashlar, bytes a row where each key is there once on both sides, and four times",
            wanted: "1.0 x: none for a duplicate but its row",
            of: &["once", "four-times"],
            shown: Shown::StructureSteps { query: "join", per: "items", names: ["once", "four times"] },
        },
    ],
};

macro_rules! against {
    ($step:literal, $what:literal, $keys:literal) => {
        Row {
            what: concat!($what, $keys, ", against scattered ones"),
            wanted: NO_CLIFF,
            of: &["scattered", $step],
            shown: Shown::StepTimes { names: ["scattered", $keys] },
        }
    };
}

macro_rules! groups {
    ($step:literal, $words:literal) => {
        Step {
            name: $step,
            words: words!("hash-build --rows {build} --queries having --target ashlar --seconds {window}", $words),
        }
    };
}

/// Keys that are hard for a hash table, of groups.
const HARD_GROUPS: Group = Group {
    name: "hard-groups",
    long: false,
    steps: &[
        groups!("scattered", "--unique-percent 100 --ids hashed"),
        groups!("dense", "--unique-percent 100 --ids dense"),
        groups!("reversed", "--unique-percent 100 --ids reversed"),
        groups!("equal", "--items 1"),
        groups!("two", "--items 2"),
    ],
    rows: &[
        against!("dense", "GROUP BY of {build} rows, ", "keys that follow each other"),
        against!("reversed", "GROUP BY of {build} rows, ", "such keys with their bits reversed"),
        against!("equal", "GROUP BY of {build} rows, ", "one key for all"),
        against!("two", "GROUP BY of {build} rows, ", "two keys for all"),
    ],
};

macro_rules! joins {
    ($step:literal, $words:literal) => {
        Step {
            name: $step,
            words: words!("hash-probe --rows {twice-build} --queries join --target ashlar --seconds {window}", $words),
        }
    };
}

/// Likewise of joins.
const HARD_JOINS: Group = Group {
    name: "hard-joins",
    long: false,
    steps: &[
        joins!("scattered", "--items {build} --ids hashed"),
        joins!("dense", "--items {build} --ids dense"),
        joins!("reversed", "--items {build} --ids reversed"),
        joins!("equal", "--items 4 --duplicates 4"),
    ],
    rows: &[
        against!("dense", "join of {twice-build} rows with {build}, ", "keys that follow each other"),
        against!("reversed", "join of {twice-build} rows with {build}, ", "such keys with their bits reversed"),
        against!("equal", "join of {twice-build} rows with 4, ", "one key for all on both sides"),
    ],
};

macro_rules! wide {
    ($step:literal, $words:literal) => {
        Step { name: $step, words: words!("hash-wide --target ashlar --seconds {window}", $words) }
    };
}

/// Rows of many columns, and long texts: as many values, or bytes, in few rows as in many.
const WIDE: Group = Group {
    name: "wide",
    long: false,
    steps: &[
        wide!("fewer-columns", "--rows {wide} --payload-columns 20 --queries columns"),
        wide!("columns", "--rows {wide-tenth} --payload-columns 200 --queries columns"),
        wide!("texts", "--rows {texts} --payload-columns 1 --value-bytes 65536 --queries carried,names,groups"),
        wide!(
            "long-texts",
            "--rows {long-texts} --payload-columns 1 --value-bytes 1048576 --queries carried,names,groups"
        ),
    ],
    rows: &[
        Row {
            what: "join that keeps 200 columns, of {wide-tenth} rows with half as many, all columns added up; against 20 columns of {wide} rows",
            wanted: NO_CLIFF,
            of: &["fewer-columns", "columns"],
            shown: Shown::StepTimes { names: ["20 columns", "200 columns"] },
        },
        Row {
            what: "join that keeps texts of 1 MiB, of {long-texts} rows with half as many, their letters counted; against texts of 64 KiB of {texts} rows",
            wanted: NO_CLIFF,
            of: &["texts", "long-texts"],
            shown: Shown::QueryTimes { query: "carried", names: ["64 KiB", "1 MiB"] },
        },
        Row {
            what: "join by such texts, which differ in their last bytes",
            wanted: NO_CLIFF,
            of: &["texts", "long-texts"],
            shown: Shown::QueryTimes { query: "names", names: ["64 KiB", "1 MiB"] },
        },
        Row {
            what: "GROUP BY such texts",
            wanted: NO_CLIFF,
            of: &["texts", "long-texts"],
            shown: Shown::QueryTimes { query: "groups", names: ["64 KiB", "1 MiB"] },
        },
    ],
};

// `dense` is how many bytes of a key are kept where keys follow each other: none in a table whose places are the keys.
macro_rules! micro {
    ($name:literal, $percent:literal, $wanted:literal, dense $dense:literal) => {
        Group {
            name: $name,
            long: false,
            steps: &[
                Step {
                    name: "hashed",
                    words: words!(
                        "hash-probe --rows {twice-micro} --items {micro} --queries count --target ashlar",
                        "--warm-up 0 --seconds 1 --ids hashed --unique-percent",
                        $percent
                    ),
                },
                Step {
                    name: "dense",
                    words: words!(
                        "hash-probe --rows {twice-micro} --items {micro} --queries count --target ashlar",
                        "--warm-up 0 --seconds 1 --ids dense --unique-percent",
                        $percent
                    ),
                },
            ],
            rows: &[
                Row {
                    what: concat!(
                        "Impala's case of a join that keeps {micro} keys, ",
                        $percent,
                        " % unique, scattered: bytes a row of the table by Impala's metric, which leaves out tuples and the keys in them"
                    ),
                    wanted: $wanted,
                    of: &["hashed"],
                    shown: Shown::StructureOfBuckets { query: "count", per: "items", key_bytes: 4 },
                },
                Row {
                    what: concat!("the same, ", $percent, " % unique, keys that follow each other, as Impala's do"),
                    wanted: $wanted,
                    of: &["dense"],
                    shown: Shown::StructureOfBuckets { query: "count", per: "items", key_bytes: $dense },
                },
            ],
        }
    };
}

/// The suite.
pub(super) const SUITE: Suite = Suite {
    name: "hash",
    about: "GROUP BY and joins of very many keys beside DuckDB, DataFusion, ClickHouse and Polars, on all cores: bytes of the structure, memory, time",
    wanted: "wanted",
    groups: &[
        aggregation!("groups", long false, "--items {groups} --ids hashed", "{groups} groups, hashed ids"),
        aggregation!("groups-dense", long false, "--items {groups} --ids dense", "{groups} groups, dense ids"),
        aggregation!("many-groups", long false, "--items {many-groups} --ids hashed", "{many-groups} groups, hashed ids"),
        aggregation!("many-groups-dense", long false, "--items {many-groups} --ids dense", "{many-groups} groups, dense ids"),
        aggregation!(
            "distinct-30",
            long false,
            "--distinct-percent 30 --ids hashed",
            "30 % distinct keys (30 different ones in 100 rows, each as often as any other), hashed ids"
        ),
        aggregation!(
            "distinct-60",
            long false,
            "--distinct-percent 60 --ids hashed",
            "60 % distinct keys (60 different ones in 100 rows, each as often as any other), hashed ids"
        ),
        aggregation!(
            "distinct-30-dense",
            long true,
            "--distinct-percent 30 --ids dense",
            "30 % distinct keys (30 different ones in 100 rows, each as often as any other), dense ids"
        ),
        aggregation!(
            "distinct-60-dense",
            long true,
            "--distinct-percent 60 --ids dense",
            "60 % distinct keys (60 different ones in 100 rows, each as often as any other), dense ids"
        ),
        BUILD,
        probe!("probe", "hashed"),
        probe!("probe-dense", "dense"),
        HARD_GROUPS,
        HARD_JOINS,
        WIDE,
        micro!("micro-100", "100", "<= 9 B, 0.75 x its published 12 B", dense 0),
        micro!("micro-60", "60", "<= 12 B, 0.75 x its published 16 B", dense 4),
        micro!("micro-20", "20", "<= 15 B, 0.75 x its published 20 B", dense 4),
    ],
};

//! Tables of hashes: groups and joins of very many keys beside other engines: bytes of the structure, memory of the process, time.

use super::{Group, Row, Shown, Step, Suite};

/// What is wanted of a group's bytes, and of an aggregation.
const GROUP_BYTES: &str = "<= 20 B a group";
const GROUPING: &str = "0.5 x the smallest, 1.0 x the fastest";
const JOINING: &str = "0.6 x the smallest, 0.8 x the fastest";

macro_rules! aggregation {
    ($name:literal, $words:literal, $what:literal) => {
        Group {
            name: $name,
            long: false,
            steps: &[Step {
                name: "groups",
                words: concat!(
                    "hash-build --rows {hashed} --queries having --target ashlar,duckdb,datafusion,chdb,polars ",
                    $words
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

macro_rules! build {
    ($name:literal, $words:literal, $what:literal, $wanted:literal) => {
        Group {
            name: $name,
            long: false,
            steps: &[Step {
                name: "build",
                words: concat!(
                    "hash-probe --rows {build} --items {build} --target ashlar,duckdb,datafusion,chdb ",
                    $words
                ),
            }],
            rows: &[Row {
                what: concat!("join with {build} rows of integer and double, ", $what, ": bytes a row"),
                wanted: $wanted,
                of: &["build"],
                shown: Shown::Structure { query: "join", per: "items" },
            }],
        }
    };
}

macro_rules! probe {
    ($name:literal, $words:literal, $what:literal) => {
        Group {
            name: $name,
            long: false,
            steps: &[
                Step {
                    name: "own",
                    words: concat!(
                        "hash-probe --rows {hashed} --items {groups} --target ashlar,duckdb,datafusion,chdb,polars ",
                        $words
                    ),
                },
                Step {
                    name: "stock",
                    words: concat!(
                        "hash-probe --rows {hashed} --items {groups} --operators stock --target ashlar ",
                        $words
                    ),
                },
            ],
            rows: &[
                Row {
                    what: concat!("join of {hashed} rows with {groups}, ", $what),
                    wanted: JOINING,
                    of: &["own"],
                    shown: Shown::Peak { query: "join" },
                },
                Row {
                    what: concat!("the same in Ashlar by its own operators and by DataFusion's, ", $what),
                    wanted: "its own faster",
                    of: &["own", "stock"],
                    shown: Shown::Steps { names: ["own", "DataFusion's"] },
                },
            ],
        }
    };
}

macro_rules! adversary {
    ($step:literal, $what:literal) => {
        Row {
            what: concat!("GROUP BY of {build} rows, ", $what, ", against keys by chance"),
            wanted: "no slower",
            of: &["chance", $step],
            shown: Shown::Steps { names: ["by chance", $what] },
        }
    };
}

macro_rules! micro {
    ($name:literal, $percent:literal) => {
        Group {
            name: $name,
            long: false,
            steps: &[Step {
                name: "rows",
                words: concat!(
                    "hash-build --rows {micro} --queries having --target ashlar,duckdb,datafusion,chdb,polars --unique-percent ",
                    $percent
                ),
            }],
            rows: &[
                Row {
                    what: concat!("Impala's case of {micro} rows, ", $percent, " % unique: bytes a row"),
                    wanted: "0.75 x its buckets",
                    of: &["rows"],
                    shown: Shown::Structure { query: "having", per: "rows" },
                },
                Row {
                    what: concat!("its buckets with the same keys, ", $percent, " % unique"),
                    wanted: "what it is held against",
                    of: &["rows"],
                    shown: Shown::Buckets,
                },
            ],
        }
    };
}

/// The suite.
pub(super) const SUITE: Suite = Suite {
    name: "hash",
    about: "GROUP BY and joins of very many keys beside DuckDB, DataFusion, ClickHouse and Polars: bytes of the structure, memory, time",
    wanted: "wanted",
    groups: &[
        aggregation!("groups", "--items {groups} --ids hashed", "{groups} groups"),
        aggregation!("many-groups", "--items {many-groups} --ids hashed", "{many-groups} groups"),
        aggregation!("groups-30", "--unique-percent 30 --ids hashed", "30 % of them with a key of their own"),
        aggregation!("groups-60", "--unique-percent 60 --ids hashed", "60 % of them with a key of their own"),
        build!("build", "--ids hashed", "hashed ids", "<= 22 B"),
        build!("build-dense", "--ids dense", "dense ids", "<= 13 B"),
        probe!("probe", "--ids hashed", "hashed ids"),
        probe!("probe-dense", "--ids dense", "dense ids"),
        probe!("duplicates", "--ids hashed --duplicates 4", "each key four times"),
        Group {
            name: "adversaries",
            long: false,
            steps: &[
                Step {
                    name: "chance",
                    words: "hash-build --rows {build} --unique-percent 100 --ids hashed --queries having --target ashlar",
                },
                Step {
                    name: "dense",
                    words: "hash-build --rows {build} --unique-percent 100 --ids dense --queries having --target ashlar",
                },
                Step {
                    name: "reversed",
                    words: "hash-build --rows {build} --unique-percent 100 --ids reversed --queries having --target ashlar",
                },
                Step { name: "equal", words: "hash-build --rows {build} --items 1 --queries having --target ashlar" },
                Step { name: "two", words: "hash-build --rows {build} --items 2 --queries having --target ashlar" },
            ],
            rows: &[
                adversary!("dense", "keys that follow each other"),
                adversary!("reversed", "keys with their bits reversed"),
                adversary!("equal", "one key for all"),
                adversary!("two", "two keys for all"),
            ],
        },
        micro!("micro-100", "100"),
        micro!("micro-60", "60"),
        micro!("micro-20", "20"),
    ],
};

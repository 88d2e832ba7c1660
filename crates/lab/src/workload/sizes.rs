//! The flags that say how large a workload is. Each workload has some of them, and refuses the others.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// How keys are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distribution {
    /// Each as often as any other.
    #[default]
    Uniform,
    /// A few very often: the k-th most popular about 1 / k^0.99 as often as the first.
    Zipfian,
}

/// What is stored under a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ValueShape {
    /// Bytes that mean nothing: a string, by GET and SET.
    #[default]
    Bytes,
    /// A row with ten columns of eight types, some 0.8 KB: a hash, by HGETALL and HSET.
    Structured,
}

/// The index on a column that is not the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Index {
    /// There is none.
    None,
    /// By hash.
    Hash,
    /// By order.
    #[default]
    Btree,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Counted {
    /// All rows: `count(*)`.
    #[default]
    Rows,
    /// All rows by their key: `count(id)`.
    Keys,
    /// Rows that satisfy a condition, which no server can know beforehand.
    Matching,
}

/// The type of the column with documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Document {
    /// As text.
    Json,
    /// Taken apart.
    #[default]
    Jsonb,
}

/// How a statement names the field of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Field {
    /// In its text.
    #[default]
    Literal,
    /// By a parameter.
    Parameter,
}

/// The columns of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Columns {
    /// A number, a text and twenty integers beside the key.
    #[default]
    All,
    /// No integers.
    Narrow,
    /// The number only.
    Pair,
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    /// Prepared once, then executed with parameters.
    #[default]
    Prepared,
    /// Each time as text, with the values in it.
    Text,
}

/// What ids look like: engines have tables of their own for integers that lie close together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ids {
    /// 1, 2, 3 and so on.
    #[default]
    Dense,
    /// As many, scattered over all 32-bit integers.
    Hashed,
    /// 1, 2, 3 and so on with their bits in the other order: what differs is in the highest of them.
    Reversed,
}

/// Whose operators make groups and join in Ashlar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operators {
    /// As the server does of itself.
    #[default]
    Usual,
    /// The engine's: `SET operators = 'stock'`.
    Stock,
}

impl Operators {
    /// What a connection to Ashlar says first.
    pub(crate) fn on_ashlar(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Stock => &["SET operators = 'stock'"],
        }
    }
}

/// How large a workload is; what is not given has the workload's default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sizes of the workload")]
pub(crate) struct Sizes {
    /// Keys in the store [default: 1000000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=4_000_000_000))]
    pub(crate) keys: Option<u64>,
    /// What is stored under a key [default: bytes].
    #[arg(long, value_name = "NAME")]
    pub(crate) value_shape: Option<ValueShape>,
    /// Bytes of a value of the shape bytes [default: 100]; of a text of hash-wide [default: 8].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    pub(crate) value_bytes: Option<u32>,
    /// How keys are chosen [default: uniform].
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<Distribution>,
    /// Commands that are sent at once on a connection, whose replies are then awaited [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) pipeline: Option<u32>,
    /// Reads among a hundred commands [default: 50].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) read_percent: Option<u32>,
    /// Keys of one MGET or MSET [default: 100].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: Option<u32>,
    /// Rows of the table, or of the larger of two [default: 1000000; sql-fetch and hash-wide 100000, query-range 500000, hash-build and
    /// hash-probe 10000000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=200_000_000))]
    pub(crate) rows: Option<u64>,
    /// Connections that a COPY of all rows is spread over, each with as many rows as any other [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) connections: Option<u32>,
    /// Warehouses of TPC-C [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) warehouses: Option<u64>,
    /// tpcc: items, and stocks of each warehouse, from 20 to 100000; the specification has no other number than the default [default:
    /// 100000]. hash-build and hash-probe: rows of the smaller table, from whose ids those of the larger are chosen [default: 3 % of
    /// --rows; hash-wide half of them].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=200_000_000))]
    pub(crate) items: Option<u64>,
    /// Customers of each of a warehouse's ten districts; likewise [default: 3000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(10..=3_000))]
    pub(crate) customers: Option<u64>,
    /// Rows that one range has, or by a column that is not the key about has [default: 10000; query-range 100].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=200_000_000))]
    pub(crate) range_rows: Option<u64>,
    /// Rows of the smaller table of a join [default: 1000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=200_000_000))]
    pub(crate) join_rows: Option<u64>,
    /// The index on the column that is asked for [default: btree].
    #[arg(long, value_name = "NAME")]
    pub(crate) index: Option<Index>,
    /// Columns of a row; a narrow one has no array, a pair is the key and a number [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) columns: Option<Columns>,
    /// How the statement is sent [default: prepared].
    #[arg(long, value_name = "NAME")]
    pub(crate) protocol: Option<Protocol>,
    /// Rows of a table over which an analytic query runs again and again meanwhile, on a connection of its own; 0 for no such query.
    /// Of a server whose keys and rows are behind doors of one process [default: 0].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(0..=200_000_000))]
    pub(crate) beside_rows: Option<u64>,
    /// Random overwrites for each key [default: 20].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) churn: Option<u64>,
    /// What is counted [default: rows].
    #[arg(long, value_name = "NAME")]
    pub(crate) counted: Option<Counted>,
    /// The type of the column with documents [default: jsonb].
    #[arg(long, value_name = "TYPE")]
    pub(crate) document: Option<Document>,
    /// Fields of a document [default: 33].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..=33))]
    pub(crate) fields: Option<u32>,
    /// How the statement names the field of a document [default: literal].
    #[arg(long, value_name = "NAME")]
    pub(crate) field: Option<Field>,
    /// Rows of a hundred whose id no other row has, while each other id has two: of the larger table in hash-build [default:
    /// ids by chance], of the smaller in hash-probe [default: 100].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) unique_percent: Option<u32>,
    /// Different ids among a hundred rows of the larger table of hash-build and hash-probe, each in as many rows as any other [default:
    /// ids by chance].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) distinct_percent: Option<u32>,
    /// What ids look like [default: dense].
    #[arg(long, value_name = "NAME")]
    pub(crate) ids: Option<Ids>,
    /// Rows of the smaller table of hash-probe for each id, instead of --unique-percent [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) duplicates: Option<u32>,
    /// Integers of a row of the smaller table of hash-wide, all of which are added up [default: 200].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) payload_columns: Option<u32>,
    /// Whose operators make groups and join in Ashlar; other targets have their own [default: usual].
    #[arg(long, value_name = "NAME")]
    pub(crate) operators: Option<Operators>,
    /// tpch: the scale factor, which is about gigabytes, from 0.001 to 100 [default: 0.1]; tpcb: branches of the bank, each with ten
    /// tellers and 100,000 accounts, from 1 to 10000 [default: 10].
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub(crate) scale: Option<f64>,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale > 0.0 => Ok(scale),
        _ => Err("a number above 0 is needed".to_owned()),
    }
}

impl Sizes {
    /// Whether keys are to be chosen otherwise than evenly.
    pub(crate) fn is_zipfian(&self) -> bool {
        self.distribution == Some(Distribution::Zipfian)
    }

    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        [
            ("keys", self.keys.is_some()),
            ("value-shape", self.value_shape.is_some()),
            ("value-bytes", self.value_bytes.is_some()),
            ("distribution", self.distribution.is_some()),
            ("pipeline", self.pipeline.is_some()),
            ("read-percent", self.read_percent.is_some()),
            ("batch", self.batch.is_some()),
            ("rows", self.rows.is_some()),
            ("connections", self.connections.is_some()),
            ("range-rows", self.range_rows.is_some()),
            ("join-rows", self.join_rows.is_some()),
            ("index", self.index.is_some()),
            ("counted", self.counted.is_some()),
            ("document", self.document.is_some()),
            ("fields", self.fields.is_some()),
            ("field", self.field.is_some()),
            ("warehouses", self.warehouses.is_some()),
            ("items", self.items.is_some()),
            ("customers", self.customers.is_some()),
            ("unique-percent", self.unique_percent.is_some()),
            ("distinct-percent", self.distinct_percent.is_some()),
            ("ids", self.ids.is_some()),
            ("duplicates", self.duplicates.is_some()),
            ("payload-columns", self.payload_columns.is_some()),
            ("operators", self.operators.is_some()),
            ("scale", self.scale.is_some()),
            ("columns", self.columns.is_some()),
            ("protocol", self.protocol.is_some()),
            ("beside-rows", self.beside_rows.is_some()),
            ("churn", self.churn.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }
}

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

/// How large a workload is; what is not given has the workload's default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sizes of the workload")]
pub(crate) struct Sizes {
    /// Keys in the store [default: 1000000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=4_000_000_000))]
    pub(crate) keys: Option<u64>,
    /// Bytes of a value [default: 100].
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
    /// Rows of the table [default: 1000000; sql-fetch 100000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=200_000_000))]
    pub(crate) rows: Option<u64>,
    /// Warehouses of TPC-C [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) warehouses: Option<u64>,
    /// Items of TPC-C, and stocks of each warehouse; the specification has no other number than the default [default: 100000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(20..=100_000))]
    pub(crate) items: Option<u64>,
    /// Customers of each of a warehouse's ten districts; likewise [default: 3000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(10..=3_000))]
    pub(crate) customers: Option<u64>,
    /// Rows that one range has [default: 10000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=200_000_000))]
    pub(crate) range_rows: Option<u64>,
}

impl Sizes {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        [
            ("keys", self.keys.is_some()),
            ("value-bytes", self.value_bytes.is_some()),
            ("distribution", self.distribution.is_some()),
            ("pipeline", self.pipeline.is_some()),
            ("read-percent", self.read_percent.is_some()),
            ("batch", self.batch.is_some()),
            ("rows", self.rows.is_some()),
            ("range-rows", self.range_rows.is_some()),
            ("warehouses", self.warehouses.is_some()),
            ("items", self.items.is_some()),
            ("customers", self.customers.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }
}

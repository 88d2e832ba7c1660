//! Hazelcast and Apache Geode: one member each on the loopback interface, a cluster by itself, found by no multicast and calling nobody's home; no
//! backup, nothing on disk. Values are kept as the bytes they came in.
//!
//! Their settings are in `HazelcastMember.java` and `GeodeMember.java` of `crates/lab/grids`, and in `crate::java`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::metrics::Metrics;
use super::process::Process;
use super::{Running, Start};
use crate::java::Product;

/// How long an answer may take; full collections of a heap are one.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// Which interface of Hazelcast is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// A map's values by their keys.
    Entries,
    /// SQL over rows.
    Sql,
    /// Methods of a map over the same rows.
    Predicates,
}

impl Interface {
    /// The name of the target.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::Entries => "hazelcast",
            Self::Sql => "hazelcast-sql",
            Self::Predicates => "hazelcast-predicates",
        }
    }

    /// What its client is told.
    pub(super) fn argument(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Sql => "sql",
            Self::Predicates => "predicates",
        }
    }
}

/// How a region of Geode lies on its servers; of one server it is another code, not another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// In buckets, without redundant copies.
    Partitioned,
    /// Whole on each.
    Replicated,
}

impl Region {
    /// The name of the target.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::Partitioned => "geode",
            Self::Replicated => "geode-replicated",
        }
    }
}

/// Starts a member of Hazelcast, with its engine for SQL only where that is asked.
pub(super) fn start_hazelcast(interface: Interface, program: PathBuf, start: &Start<'_>) -> Result<Running> {
    let arguments: &[&str] = if interface == Interface::Sql { &["sql"] } else { &[] };
    let settings = ["backup-count 0", "in-memory-format BINARY", "no multicast", "phone home disabled"];
    start_member(Product::Hazelcast, program, start, arguments, &settings)
}

/// Starts a server of Geode.
pub(super) fn start_geode(region: Region, program: PathBuf, start: &Start<'_>) -> Result<Running> {
    let kind = match region {
        Region::Partitioned => "PARTITION",
        Region::Replicated => "REPLICATE",
    };
    let settings = ["redundant-copies 0", "no locator", "mcast-port 0", "max-connections 2000"];
    start_member(Product::Geode, program, start, &[kind], &settings)
}

fn start_member(
    product: Product,
    program: PathBuf,
    start: &Start<'_>,
    arguments: &[&str],
    settings: &[&str],
) -> Result<Running> {
    let (mut process, mut configuration) = product.start_member(start.cores, start.core_count()?, arguments)?;
    configuration.extend(settings.iter().map(|&setting| setting.to_owned()));
    let mut ask = |what: &str| process.ask(what, ANSWER_PATIENCE, &mut |_| Ok(()));
    let (version, port) = (ask("version")?, ask("port")?);
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().with_context(|| format!("the port is {port:?}"))?));
    Ok(Running {
        address,
        sql: None,
        version,
        program: Some(program),
        configuration,
        http: None,
        metrics: Metrics::Process,
        shards: None,
        process: Some(process),
    })
}

/// What full collections leave in the heap of a member.
pub(super) fn live_bytes(member: &mut Process) -> Result<u64> {
    let bytes = member.ask("heap", ANSWER_PATIENCE, &mut |_| Ok(()))?;
    bytes.parse().with_context(|| format!("the heap is {bytes:?}"))
}

/// What its JVM counts, a line each.
pub(super) fn metrics(member: &mut Process) -> Result<String> {
    let said = member.ask("metrics", ANSWER_PATIENCE, &mut |_| Ok(()))?;
    Ok(said.split(' ').flat_map(|pair| [pair, "\n"]).collect())
}

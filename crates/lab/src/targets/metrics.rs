//! What a server says of itself before and after a measurement: its page of metrics, INFO, or its views of statistics; of a JVM what it
//! counts. A text that the record keeps, in the words of the server.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Result, bail};

use super::process::Process;
use super::{Target, grids};
use crate::door::http;
use crate::door::pg::PgClient;
use crate::door::resp::{Reply, RespClient};
use crate::workload::Door;

/// Where the metrics of a server are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Metrics {
    /// It has none.
    None,
    /// A page as Prometheus reads it.
    Page(SocketAddr),
    /// The same of a proxy, and views of what is behind it.
    Proxy(SocketAddr, Vec<(&'static str, SocketAddr)>),
    /// INFO of Redis and Valkey.
    Info(SocketAddr),
    /// Views of one PostgreSQL or several, each with the name of its process.
    Views(Vec<(&'static str, SocketAddr)>),
    /// The process is asked for them, as it is for its heap.
    Process,
}

/// Views that are read, where the version has them.
const VIEWS: &[&str] = &[
    "pg_stat_database",
    "pg_stat_bgwriter",
    "pg_stat_checkpointer",
    "pg_stat_wal",
    "pg_stat_io",
    "pg_stat_user_tables",
    "pg_statio_user_tables",
    "pg_stat_user_indexes",
];

impl Metrics {
    /// Those of a server that the lab has started, at these doors.
    pub(super) fn of(
        target: &Target,
        process: &Process,
        resp: Option<SocketAddr>,
        sql: Option<SocketAddr>,
        http: Option<SocketAddr>,
    ) -> Self {
        match (target, resp, sql, http) {
            (Target::Ashlar | Target::Build(_), _, _, Some(page)) => Self::Page(page),
            (Target::Redis | Target::Valkey, Some(resp), ..) => Self::Info(resp),
            (Target::Postgres, _, Some(sql), _) => Self::Views(vec![("postgres", sql)]),
            (Target::AshlarProxy(_), _, _, Some(page)) => Self::Proxy(page, process.named_behind()),
            // What stands before them has no tables.
            (Target::Relay | Target::PgBouncer | Target::ShardingSphere(_), ..) => Self::Views(process.named_behind()),
            _ => Self::None,
        }
    }

    /// Those of a server that runs already, whatever it is.
    pub(super) fn of_remote(address: SocketAddr, door: Door) -> Self {
        match door {
            Door::Resp => Self::Info(address),
            Door::Sql | Door::Text => Self::Views(vec![("server", address)]),
        }
    }

    /// The text; None where there is none.
    pub(super) fn read(&self, process: Option<&mut Process>) -> Option<Result<String>> {
        match self {
            Self::None => None,
            Self::Page(address) => Some(http::get(*address, "/metrics", http::PATIENCE)),
            Self::Proxy(address, behind) => {
                Some(http::get(*address, "/metrics", http::PATIENCE).and_then(|page| Ok(page + &views(behind)?)))
            }
            Self::Info(address) => Some(info(*address)),
            Self::Views(servers) => Some(views(servers)),
            Self::Process => Some(grids::metrics(process?)),
        }
    }
}

fn info(address: SocketAddr) -> Result<String> {
    let mut client = RespClient::connect(address)?;
    match client.command(&["INFO", "everything"])? {
        Reply::Bulk(Some(text)) => Ok(String::from_utf8_lossy(text).replace("\r\n", "\n")),
        other => bail!("INFO was answered by {other}"),
    }
}

/// A line for each row: the server, the view, the row as JSON.
fn views(servers: &[(&'static str, SocketAddr)]) -> Result<String> {
    let mut text = String::new();
    let names: Vec<String> = VIEWS.iter().map(|view| format!("'{view}'")).collect();
    for (name, address) in servers {
        let mut client = PgClient::connect(*address)?;
        let there = client.query(&format!(
            "SELECT viewname FROM pg_catalog.pg_views WHERE schemaname = 'pg_catalog' AND viewname IN ({}) ORDER BY viewname",
            names.join(", ")
        ))?;
        for view in there.iter().filter_map(|row| row.first()) {
            for row in client.query(&format!("SELECT row_to_json(found)::text FROM pg_catalog.{view} found"))? {
                writeln!(text, "{name} {view} {}", row.first().map_or("", String::as_str))?;
            }
        }
    }
    Ok(text)
}

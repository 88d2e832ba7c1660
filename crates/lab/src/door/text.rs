//! One way to say SQL as text and to read rows as text, whichever of two protocols a target has: PostgreSQL's, or that of an
//! engine which the lab runs in a process of its own.

use std::time::Duration;

use anyhow::Result;

use super::engine::EngineClient;
use super::explained;
use super::pg::PgClient;
use crate::workload::Place;

/// How long one answer may take: a query of many joins over all rows of a slow engine.
const PATIENCE: Duration = Duration::from_secs(900);

/// Lines of a plan.
const PLAN_LINES_MAX: usize = 10_000;

/// What a statement answered.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rows {
    /// All rows that came.
    pub(crate) count: u64,
    /// As many of them as were to be kept, each value in text form; None is NULL.
    pub(crate) values: Vec<Vec<Option<String>>>,
}

/// A connection.
pub(crate) enum TextClient {
    Pg(PgClient),
    Engine(EngineClient),
}

impl TextClient {
    /// Connects, by the protocol that is spoken there.
    pub(crate) fn connect(place: Place) -> Result<Self> {
        Ok(if place.engine {
            Self::Engine(EngineClient::connect_within(place.address, PATIENCE)?)
        } else {
            Self::Pg(PgClient::connect_within(place.address, PATIENCE)?)
        })
    }

    /// Runs a statement: its rows, of which so many are kept, or what the target says is wrong with it. An error means that the
    /// connection is lost.
    pub(crate) fn ask(&mut self, sql: &str, rows_max: usize) -> Result<Result<Rows, String>> {
        let client = match self {
            Self::Engine(client) => return client.ask(sql, rows_max),
            Self::Pg(client) => client,
        };
        let mut rows = Rows::default();
        let tag = client.ask(sql, &mut |mut row| {
            rows.count += 1;
            if rows.values.len() < rows_max {
                let mut values = Vec::new();
                while !row.is_over() {
                    values.push(row.next().map(|value| String::from_utf8_lossy(value).into_owned()));
                }
                rows.values.push(values);
            }
        })?;
        Ok(tag.map(|_| rows))
    }

    /// Runs a statement once more: the bytes of memory that the target says it needed, if it says so. An error means that the
    /// connection is lost.
    pub(crate) fn engine_memory(&mut self, sql: &str) -> Result<Option<u64>> {
        if let Self::Engine(client) = self {
            return client.memory(sql);
        }
        let plan = self.ask(&format!("EXPLAIN (ANALYZE, COSTS off, TIMING off) {sql}"), PLAN_LINES_MAX)?;
        let lines = plan.unwrap_or_default().values;
        let text = lines.iter().filter_map(|line| line.first()?.as_deref());
        Ok(explained::memory(text))
    }
}

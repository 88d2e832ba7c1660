//! The log of slow statements, with the route of those about shards.

use std::sync::Arc;
use std::time::Instant;

use ashlar_base::clock;
use ashlar_query::Statement;
use ashlar_query::ddl::Ddl;
use ashlar_query::statement::Kind;

use super::SqlSession;
use super::doing::NOT_TOLD;

/// Bytes of a statement's text in the log.
const TEXT_BYTES_MAX: usize = 2048;

impl SqlSession {
    /// When a statement begins, where somebody wants to know how long it takes.
    pub(super) fn watch(&mut self) -> Option<(u64, Instant)> {
        let limit = self.settings.log_min_duration_ms?;
        self.route = None;
        self.asked.clear();
        Some((limit, clock::monotonic()))
    }

    /// Notes a server that the statement is sent to, once: of those that stand for each other the one that is at the other end.
    pub(super) fn note_asked(&mut self, server: &str) {
        if self.settings.log_min_duration_ms.is_some() && !self.asked.iter().any(|known| **known == *server) {
            self.asked.push(Arc::from(server));
        }
    }

    /// Tells of a statement that has taken too long: by its plan, and by its text where that is not the plan's.
    pub(super) fn tell_slow(
        &self,
        watch: Option<(u64, Instant)>,
        statement: Option<(&Statement, Option<&str>)>,
        is_ok: bool,
    ) {
        let (Some((limit, started)), Some((statement, own))) = (watch, statement) else { return };
        let took = clock::monotonic().duration_since(started);
        if took.as_millis() < u128::from(limit) {
            return;
        }
        let text = match &statement.kind {
            // There may be a password in it.
            Kind::Ddl(Ddl::Server(_)) => NOT_TOLD,
            _ => {
                let text = own.unwrap_or(&statement.text);
                &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
            }
        };
        let route = self.route.map_or("here", |route| route.name());
        let servers = self.asked.join(", ");
        tracing::info!(
            duration_ms = took.as_secs_f64() * 1000.0,
            route,
            servers,
            is_ok,
            statement = text,
            "a statement took long"
        );
    }
}

//! The HTTP door: metrics for Prometheus, liveness and readiness of this process, and profiles of it.
//!
//! Runs on a thread of its own, so that it answers while the other doors are busy. Read-only, except that it can take
//! a profile.

mod doorway;
mod profiles;
mod shards;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_telemetry::allocator;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use self::doorway::{Doorway, Lease};
use super::meters;
use super::seats::Seats;
use crate::session::Shared;
use crate::shutdown::{Phase, Stop};

/// What the pages are made from.
pub(crate) struct Pages {
    /// The engine, whose catalog names the tables.
    pub(crate) shared: Arc<Shared>,
    /// The process's recorder.
    pub(crate) recorder: PrometheusHandle,
    /// Each door's name and seats.
    pub(crate) seats: Vec<(&'static str, Arc<Seats>)>,
    /// This door's own.
    pub(crate) own_seats: Arc<Seats>,
    /// Whether the data that the server was started with is there.
    pub(crate) loaded: Arc<AtomicBool>,
    /// Whether the server is about to leave.
    pub(crate) stop: Stop,
}

/// Serves until `stop` says that the end has come; during the draining before it, `/readyz` says 503.
pub(crate) async fn serve(listener: TcpListener, pages: Pages) -> std::io::Result<()> {
    let mut stop = pages.stop.clone();
    let patience = Duration::from_millis(pages.shared.config.server.startup_timeout_ms);
    let doorway = Doorway::new(listener, Arc::clone(&pages.own_seats), patience);
    let router = Router::new()
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/debug/profile", get(profiles::list))
        .route("/debug/profile/{kind}", get(profiles::take))
        .with_state(Arc::new(pages));
    let server = axum::serve(doorway, router.into_make_service_with_connect_info::<Lease>()).into_future();
    tokio::select! {
        served = server => served,
        // Keep-alive connections would hold a graceful stop up; nothing is lost by cutting them.
        () = stop.reached(Phase::Ending) => Ok(()),
    }
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(pages): State<Arc<Pages>>) -> (StatusCode, &'static str) {
    if pages.stop.phase() > Phase::Running {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if !pages.loaded.load(Ordering::Acquire) {
        (StatusCode::SERVICE_UNAVAILABLE, "loading data\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

async fn metrics_page(State(pages): State<Arc<Pages>>) -> impl IntoResponse {
    meters::tell();
    let mut page = pages.recorder.render();
    pages.write_gauges(&mut page);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
}

impl Pages {
    /// What is true now. Not kept in the recorder, where a table that was dropped would stay for ever.
    fn write_gauges(&self, page: &mut String) {
        let open = self.seats.iter().map(|(door, seats)| (*door, u64::from(seats.seated())));
        gauge(page, "ashlar_server_connections_open", "connections with a session", "door", open);

        let memory = allocator::memory();
        let process = [("allocated", memory.allocated as u64), ("resident", memory.resident as u64)];
        gauge(page, "ashlar_process_memory_bytes", "what the allocator holds", "kind", process.into_iter());

        let store =
            [("used", self.shared.engine.store().memory_used()), ("max", self.shared.engine.store().memory_max())];
        gauge(page, "ashlar_store_memory_bytes", "rows and indexes, and their limit", "kind", store.into_iter());

        let queries = self.shared.engine.admission_statistics();
        let now = [("running", queries.running), ("waiting", queries.waiting)];
        gauge(page, "ashlar_query_queries", "queries that run, and that wait to", "state", now.into_iter());
        let ended = [
            ("admitted", queries.admitted),
            ("full", queries.refused_full),
            ("late", queries.refused_late),
            ("left", queries.left),
        ];
        let help = "queries let in, refused because many or for long had waited, and gone while they waited";
        counter(page, "ashlar_query_admissions_total", help, "outcome", ended.into_iter());
        let waits = [("admitted", queries.waited)];
        counter(page, "ashlar_query_waits_total", "queries that had to wait", "outcome", waits.into_iter());
        let waited = [("admitted", queries.waited_micros)];
        let help = "time that queries waited to be run";
        counter(page, "ashlar_query_wait_microseconds_total", help, "outcome", waited.into_iter());

        let spill = self.shared.engine.spill_statistics();
        let now = [("used", spill.bytes), ("max", spill.bytes_max)];
        gauge(page, "ashlar_query_spill_bytes", "temporary files of queries, and their limit", "kind", now.into_iter());
        let files = [("kept", spill.files)];
        gauge(page, "ashlar_query_spill_files", "temporary files of queries", "kind", files.into_iter());
        let written = [("files", spill.written)];
        let help = "bytes that queries have written to temporary files";
        counter(page, "ashlar_query_spill_written_bytes_total", help, "to", written.into_iter());

        let locks = self.shared.engine.store().lock_statistics();
        let now = [("held", locks.rows), ("waiting", locks.waiting)];
        let help = "rows that are locked or watched, and who waits for one";
        gauge(page, "ashlar_store_locks", help, "kind", now.into_iter());
        let waits = [("begun", locks.waits), ("abandoned", locks.abandoned), ("deadlock", locks.deadlocks)];
        let help = "waits for locked rows, and how they ended badly";
        counter(page, "ashlar_store_lock_waits_total", help, "kind", waits.into_iter());
        let waited = [("ended", locks.waited_micros)];
        let help = "time waited for locked rows";
        counter(page, "ashlar_store_lock_wait_microseconds_total", help, "kind", waited.into_iter());

        let tables = self.shared.engine.catalog().grid_tables();
        let names: Vec<_> = tables.iter().map(|table| table.schema()).collect();
        let rows = names.iter().zip(&tables).map(|(schema, table)| (schema.name.as_str(), table.row_count()));
        gauge(page, "ashlar_store_table_rows", "rows of a grid table", "table", rows);
        let bytes = names.iter().zip(&tables).map(|(schema, table)| (schema.name.as_str(), table.bytes()));
        gauge(page, "ashlar_store_table_bytes", "memory of a grid table", "table", bytes);

        let ended = self.shared.engine.store().ended();
        let ended = [("expired", ended.expired), ("evicted", ended.evicted)];
        let help = "rows whose time had come, and rows that made room for others";
        counter(page, "ashlar_store_rows_ended_total", help, "why", ended.into_iter());

        self.write_shards(page);
    }
}

fn gauge<'a>(page: &mut String, name: &str, help: &str, label: &'a str, of: impl Iterator<Item = (&'a str, u64)>) {
    series(page, name, ("gauge", help), of.map(|(key, value)| ([(label, key)], value)));
}

fn counter<'a>(page: &mut String, name: &str, help: &str, label: &'a str, of: impl Iterator<Item = (&'a str, u64)>) {
    series(page, name, ("counter", help), of.map(|(key, value)| ([(label, key)], value)));
}

/// Values by their labels.
fn series<'a, const LABELS: usize>(
    page: &mut String,
    name: &str,
    (kind, help): (&str, &str),
    of: impl Iterator<Item = ([(&'a str, &'a str); LABELS], u64)>,
) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in of {
        let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let _ = writeln!(page, "{name}{{{}}} {value}", labels.join(","));
    }
    page.push('\n');
}

/// As the exposition format writes a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_an_odd_name_keeps_the_page_readable() {
        let mut page = String::new();
        gauge(&mut page, "rows", "help", "table", [("a\"b\\c\nd", 7)].into_iter());
        assert_eq!(page, "# HELP rows help\n# TYPE rows gauge\nrows{table=\"a\\\"b\\\\c\\nd\"} 7\n\n");
    }
}

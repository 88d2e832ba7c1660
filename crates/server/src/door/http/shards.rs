//! The series of shards: connections to each server, whether it is up, what is in doubt there, and what routes have cost.
//!
//! Called for the page of metrics. Only servers that are known now have series, so that one that was dropped leaves none behind.

use super::{Pages, counter, gauge, series};

/// What is said of a server: one of these is 1.
const STATES: [&str; 3] = ["up", "down", "unknown"];

impl Pages {
    /// Nothing where there are no servers.
    pub(super) fn write_shards(&self, page: &mut String) {
        let Ok(fleet) = self.shared.engine.catalog().fleet() else { return };
        let servers = fleet.server_statistics();
        if servers.is_empty() {
            return;
        }
        let now = servers.iter().flat_map(|one| {
            let states = [("idle", one.idle), ("in_use", one.in_use)];
            states.map(|(state, count)| ([("server", one.server.as_str()), ("state", state)], count as u64))
        });
        series(page, "ashlar_shard_connections", ("gauge", "connections to a server"), now);
        let waiting = servers.iter().map(|one| (one.server.as_str(), one.waiting as u64));
        gauge(page, "ashlar_shard_statements_waiting", "statements that wait for a connection", "server", waiting);

        let made = servers.iter().map(|one| (one.server.as_str(), one.made));
        counter(page, "ashlar_shard_connections_made_total", "connections that were made", "server", made);
        let lent = servers.iter().map(|one| (one.server.as_str(), one.lent));
        counter(page, "ashlar_shard_connections_lent_total", "times that one was lent", "server", lent);
        let used = servers.iter().map(|one| (one.server.as_str(), one.used.as_micros() as u64));
        let help = "time for which connections were lent";
        counter(page, "ashlar_shard_connection_use_microseconds_total", help, "server", used);
        let taken = servers.iter().map(|one| (one.server.as_str(), one.taken));
        let help = "connections that one thread made for one that another thread closed";
        counter(page, "ashlar_shard_connections_taken_total", help, "server", taken);

        let waits = servers.iter().flat_map(|one| {
            let kinds = [("begun", one.waits), ("timeout", one.timeouts), ("refused", one.refused)];
            kinds.map(|(kind, count)| ([("server", one.server.as_str()), ("kind", kind)], count))
        });
        let help = "waits for a connection, those in vain, and those that many others left no room for";
        series(page, "ashlar_shard_connection_waits_total", ("counter", help), waits);
        let waited = servers.iter().map(|one| (one.server.as_str(), one.waited.as_micros() as u64));
        let help = "time waited for a connection";
        counter(page, "ashlar_shard_connection_wait_microseconds_total", help, "server", waited);

        let states = servers.iter().flat_map(|one| {
            STATES.map(|state| ([("server", one.server.as_str()), ("state", state)], u64::from(one.state == state)))
        });
        let help = "whether a server is up, as far as is known: one of its states is 1";
        series(page, "ashlar_shard_server_state", ("gauge", help), states);
        let in_doubt = servers.iter().map(|one| (one.server.as_str(), one.in_doubt as u64));
        let help = "transactions that were prepared and not finished at the last look";
        gauge(page, "ashlar_shard_in_doubt_transactions", help, "server", in_doubt);
        self.write_routes(page);
    }

    fn write_routes(&self, page: &mut String) {
        let Ok(fleet) = self.shared.engine.catalog().fleet() else { return };
        let routes = fleet.routes().statistics();
        let of = routes.iter().map(|route| [("route", route.kind.name()), ("tables", route.tables.as_str())]);
        let statements = of.clone().zip(routes.iter().map(|route| route.statements));
        let help = "statements by route and tables";
        series(page, "ashlar_shard_statements_total", ("counter", help), statements);
        let errors = of.clone().zip(routes.iter().map(|route| route.errors));
        let help = "those of them that failed";
        series(page, "ashlar_shard_statement_errors_total", ("counter", help), errors);
        let rows = of.clone().zip(routes.iter().map(|route| route.rows));
        let help = "rows that came back or were changed";
        series(page, "ashlar_shard_statement_rows_total", ("counter", help), rows);
        let micros = of.zip(routes.iter().map(|route| route.micros));
        let help = "time that statements took";
        series(page, "ashlar_shard_statement_microseconds_total", ("counter", help), micros);
    }
}

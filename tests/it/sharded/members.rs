//! Several Ashlars over the same shards, each with a directory of its own.

use std::sync::Arc;
use std::time::Duration;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::relay::{Relay, Wire};
use super::*;

/// How old what another one has prepared has to be before it is finished, and how often they look, in milliseconds.
pub(super) const RECOVER_AFTER_MS: u64 = 300;
const RECOVER_PERIOD_MS: u64 = 50;

/// What looks may take themselves: those of threads that give way to whatever else a machine does, which may be all other tests.
const LOOKS_MS: u64 = 25_000;

/// How long a transaction may be in doubt whose servers can be reached: the bound that docs/reference/sharding.md states.
pub(super) const IN_DOUBT_MAX: Duration = Duration::from_millis(RECOVER_AFTER_MS + RECOVER_PERIOD_MS + LOOKS_MS);

/// One of them.
pub(super) struct Member {
    pub(super) ashlar: Ashlar,
    pub(super) wire: Arc<Wire>,
    relays: Vec<Relay>,
    _data: TempDir,
    config: String,
}

impl Member {
    /// With an empty directory, through relays.
    pub(super) fn join(shards: &[Postgres]) -> Member {
        Member::with(shards, "")
    }

    /// The same with more lines in the section `[shard]`.
    pub(super) fn with(shards: &[Postgres], lines: &str) -> Member {
        let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
        let config = format!(
            "[server]\ncores = 1\n[shard]\ndata_dir = \"{}\"\nconnections_per_server_max = 16\n\
             recover_period_ms = {RECOVER_PERIOD_MS}\nrecover_after_ms = {RECOVER_AFTER_MS}\n{lines}\n",
            data.path().join("d").display()
        );
        let wire = Arc::new(Wire::default());
        let relays: Vec<Relay> = shards.iter().map(|shard| Relay::start(&wire, shard.address())).collect();
        let mut ashlar = start(&config);
        ashlar.expect_log(&["could not be committed yet on its shard"]);
        wire.aim(ashlar.pid());
        declare(&mut ashlar.connect(), relays.iter().map(Relay::address));
        Member { ashlar, wire, relays, _data: data, config }
    }

    /// Starts it again once it has died.
    pub(super) fn restart(&mut self) {
        self.ashlar.wait().unwrap();
        self.ashlar = start(&self.config);
        self.ashlar.expect_log(&["could not be committed yet on its shard"]);
        self.wire.aim(self.ashlar.pid());
    }

    /// The end of CREATE TABLE for a table with this key.
    pub(super) fn by(&self, key: &str) -> String {
        sharded_by(self.relays.len(), key)
    }

    /// Makes a table known to this one that another one has made: as if it were made, beside the one that is there.
    pub(super) fn know(&self, shards: &[Postgres], table: &str, columns: &str, key: &str) {
        for shard in shards {
            done(&mut direct(shard), &format!("ALTER TABLE {table} RENAME TO kept"));
        }
        done(&mut self.ashlar.connect(), &format!("CREATE TABLE {table} ({columns}) {}", self.by(key)));
        for shard in shards {
            done(&mut direct(shard), &format!("DROP TABLE {table}; ALTER TABLE kept RENAME TO {table}"));
        }
    }
}

/// A client of a shard itself.
pub(super) fn direct(shard: &Postgres) -> pg::Connection {
    let mut connected = pg::Connection::connect(shard.address());
    // Processes of clients that have gone have all places until they have noticed it.
    wait_for(PATIENCE, || {
        let is_full = connected.as_ref().is_err_and(|error| format!("{error:#}").contains("53300"));
        if is_full {
            connected = pg::Connection::connect(shard.address());
        }
        !is_full
    });
    connected.unwrap()
}

/// What all shards count together.
pub(super) fn total(shards: &[Postgres], count: &str) -> usize {
    shards.iter().map(|shard| direct(shard).value(count).unwrap().parse::<usize>().unwrap()).sum()
}

/// What is prepared on all shards and not finished.
pub(super) fn prepared(shards: &[Postgres]) -> usize {
    total(shards, "SELECT count(*) FROM pg_prepared_xacts")
}

/// Waits until nothing is: all shards can be reached, so it must not take longer than is stated.
pub(super) fn wait_until_finished(shards: &[Postgres]) {
    if !wait_for(IN_DOUBT_MAX, || prepared(shards) == 0) {
        let list = "SELECT gid, clock_timestamp() - prepared FROM pg_prepared_xacts";
        let left: Vec<_> = shards.iter().map(|shard| rows(&mut direct(shard), list)).collect();
        panic!("still prepared after {IN_DOUBT_MAX:?}: {left:?}");
    }
}

/// Waits until nobody is in a transaction on a shard, and nothing is prepared: all that was under way has come to its end.
pub(super) fn wait_until_over(shards: &[Postgres]) {
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()";
    // In this order: what is open may still be prepared.
    assert!(wait_for(PATIENCE, || total(shards, open) == 0), "a transaction stays open");
    wait_until_finished(shards);
}

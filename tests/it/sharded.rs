//! Sharded tables: the same statements on Ashlar over a fleet of PostgreSQL servers and on one PostgreSQL alone must have
//! the same answers, whatever happens to the fleet meanwhile; and what is refused is refused before anything changed.

mod altered;
mod answers;
mod attach;
mod bad_input;
mod bank;
mod blocks;
mod change_conflicts;
mod changes;
mod chaos;
mod collation;
mod colocated;
mod copies;
mod copy;
mod cursors;
mod ddl;
mod ddl_races;
mod deadlocks;
mod declared;
mod drift;
mod extended;
mod failures;
mod first_rows;
mod full;
mod gather;
mod grammar;
mod hint;
mod inserts;
mod keyless;
mod killed;
mod listen;
mod lookups;
mod maintain;
mod mappings;
mod members;
mod memory;
mod metrics;
mod network;
mod part_groups;
mod pgbench;
mod pipelines;
mod pools;
mod prepared;
mod relations;
mod relay;
mod repeatable;
mod replicas;
mod rules;
mod settings;
mod silence;
mod slt;
mod snapshots;
mod sysbench;
mod transactions;
mod twins;
mod two_phase;
mod types;
mod within_one;
mod workers;

use std::net::SocketAddr;
use std::process::Command;

use ashlar_tests::process::{PATIENCE, find_program, wait_for};
use ashlar_tests::{Ashlar, Options, Postgres, pg};
use tempfile::TempDir;

/// PostgreSQL servers, and Ashlar in front of them.
struct Fleet {
    ashlar: Ashlar,
    shards: Vec<Postgres>,
    data: TempDir,
    config: String,
}

impl Fleet {
    /// So many shards, `s0` and on, that everybody may use.
    fn start(shards: usize) -> Fleet {
        Fleet::with(shards, "")
    }

    /// The same with more lines in the section `[shard]`.
    fn with(shards: usize, lines: &str) -> Fleet {
        Fleet::over((0..shards).map(|_| Postgres::start().unwrap()).collect(), lines)
    }

    /// The same over these.
    fn over(shards: Vec<Postgres>, lines: &str) -> Fleet {
        let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
        let config = format!("[shard]\ndata_dir = \"{}\"\n{lines}\n", data.path().join("d").display());
        let ashlar = start(&config);
        declare(&mut ashlar.connect(), shards.iter().map(Postgres::address));
        Fleet { ashlar, shards, data, config }
    }

    /// `'s0,s1,...'`
    fn servers(&self) -> String {
        server_names(self.shards.len())
    }

    /// The end of CREATE TABLE for a table with this key.
    fn by(&self, key: &str) -> String {
        sharded_by(self.shards.len(), key)
    }

    fn client(&self) -> pg::Connection {
        self.ashlar.connect()
    }

    /// A client of a shard itself.
    fn shard(&self, number: usize) -> pg::Connection {
        members::direct(&self.shards[number])
    }

    /// Waits until a shard waits for whoever reads the rows of a statement: its process there.
    fn writing(&self, number: usize, sql: &str) -> String {
        let mut shard = self.shard(number);
        let writing = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity \
                       WHERE state = 'active' AND wait_event = 'ClientWrite' AND pid <> pg_backend_pid()";
        // One look: of none that writes any more the number is 0, which is a whole group of processes to `kill`.
        let mut pid = String::new();
        let is_writing = wait_for(PATIENCE, || {
            pid = shard.value(writing).unwrap();
            pid != "0"
        });
        assert!(is_writing, "{sql}: shard {number} has sent all of it");
        pid
    }

    /// Stops Ashlar and starts it again with what is on disk.
    fn restart(self) -> Fleet {
        let Fleet { ashlar, shards, data, config } = self;
        ashlar.stop();
        Fleet { ashlar: start(&config), shards, data, config }
    }

    /// As [`key_of_each`].
    fn keys(&self, table: &str) -> Vec<i64> {
        key_of_each(&mut self.client(), &self.shards, table)
    }
}

/// Makes servers at these addresses known, `s0` and on, that everybody may use.
fn declare(client: &mut pg::Connection, addresses: impl IntoIterator<Item = SocketAddr>) {
    for (number, address) in addresses.into_iter().enumerate() {
        let (host, port) = (address.ip(), address.port());
        done(
            client,
            &format!(
                "CREATE SERVER s{number} FOREIGN DATA WRAPPER postgres \
                 OPTIONS (host '{host}', port '{port}', dbname 'postgres')"
            ),
        );
        done(client, &format!("CREATE USER MAPPING FOR PUBLIC SERVER s{number} OPTIONS (user 'postgres')"));
    }
}

/// `s0,s1,...`, so many.
fn server_names(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
    names.join(",")
}

/// The end of CREATE TABLE for a table with this key on so many servers.
fn sharded_by(servers: usize, key: &str) -> String {
    let servers = server_names(servers);
    format!("PARTITION BY HASH ({key}) USING sharded WITH (servers = '{servers}', algorithm = 'hash_mod')")
}

/// A key of each shard for a table without rows that is sharded by an integer `k`, found where a row of it comes to lie.
fn key_of_each(client: &mut pg::Connection, shards: &[Postgres], table: &str) -> Vec<i64> {
    let count = format!("SELECT count(*) FROM {table}");
    let mut clients: Vec<pg::Connection> = shards.iter().map(members::direct).collect();
    let mut keys: Vec<Option<i64>> = vec![None; shards.len()];
    for key in 0.. {
        done(client, &format!("INSERT INTO {table} (k) VALUES ({key})"));
        let holder =
            clients.iter_mut().position(|shard| shard.value(&count).unwrap() == "1").expect("a shard has the row");
        done(client, &format!("DELETE FROM {table} WHERE k = {key}"));
        keys[holder].get_or_insert(key);
        if keys.iter().all(Option::is_some) {
            break;
        }
    }
    keys.into_iter().flatten().collect()
}

/// What a program says that has to succeed.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{said}");
    said
}

/// psql as it comes, at Ashlar's door. It ends with the first statement that fails.
fn psql(ashlar: &Ashlar) -> Command {
    let address = ashlar.pg();
    let mut command = Command::new(find_program(&["psql"]).unwrap());
    command.env("PGUSER", "ashlar").env("LC_ALL", "C.UTF-8").args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-d", "postgres"]);
    command
}

fn start(config: &str) -> Ashlar {
    Ashlar::start(Options { config: config.to_owned(), ..Options::default() }).unwrap()
}

/// A statement that must succeed.
fn done(client: &mut pg::Connection, sql: &str) {
    if let Err(error) = client.query(sql) {
        panic!("{sql}\n{error:#}");
    }
}

/// The error of a statement that must fail: SQLSTATE, message, detail and context.
fn refused(client: &mut pg::Connection, sql: &str) -> String {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let mut error: Option<String> = None;
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'E' => {
                let fields = [b'C', b'M', b'D', b'W'].into_iter().filter_map(|field| message.field(field));
                error.get_or_insert(fields.collect::<Vec<_>>().join("\n"));
            }
            b'Z' => break,
            _ => {}
        }
    }
    error.unwrap_or_else(|| panic!("{sql}\nsucceeded"))
}

fn rows(client: &mut pg::Connection, sql: &str) -> Vec<Vec<Option<String>>> {
    client.query(sql).unwrap_or_else(|error| panic!("{sql}\n{error:#}"))
}

//! Sharded tables: the same statements on Ashlar over a fleet of PostgreSQL servers and on one PostgreSQL alone must have
//! the same answers, whatever happens to the fleet meanwhile; and what is refused is refused before anything changed.

mod answers;
mod attach;
mod blocks;
mod chaos;
mod collation;
mod copy;
mod cursors;
mod ddl;
mod deadlocks;
mod declared;
mod drift;
mod extended;
mod failures;
mod gather;
mod grammar;
mod inserts;
mod lookups;
mod maintain;
mod members;
mod memory;
mod pgbench;
mod pools;
mod prepared;
mod relay;
mod replicas;
mod rules;
mod slt;
mod snapshots;
mod sysbench;
mod transactions;
mod twins;
mod two_phase;

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
        let shards: Vec<Postgres> = (0..shards).map(|_| Postgres::start().unwrap()).collect();
        let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
        let config = format!("[shard]\ndata_dir = \"{}\"\n{lines}\n", data.path().join("d").display());
        let ashlar = start(&config);
        let fleet = Fleet { ashlar, shards, data, config };
        let mut client = fleet.client();
        for (number, shard) in fleet.shards.iter().enumerate() {
            let (host, port) = (shard.address().ip(), shard.address().port());
            done(
                &mut client,
                &format!(
                    "CREATE SERVER s{number} FOREIGN DATA WRAPPER postgres \
                     OPTIONS (host '{host}', port '{port}', dbname 'postgres')"
                ),
            );
            done(&mut client, &format!("CREATE USER MAPPING FOR PUBLIC SERVER s{number} OPTIONS (user 'postgres')"));
        }
        fleet
    }

    /// `'s0,s1,...'`
    fn servers(&self) -> String {
        let names: Vec<String> = (0..self.shards.len()).map(|number| format!("s{number}")).collect();
        names.join(",")
    }

    /// The end of CREATE TABLE for a table with this key.
    fn by(&self, key: &str) -> String {
        format!("PARTITION BY HASH ({key}) USING sharded WITH (servers = '{}', algorithm = 'hash_mod')", self.servers())
    }

    fn client(&self) -> pg::Connection {
        self.ashlar.connect()
    }

    /// A client of a shard itself.
    fn shard(&self, number: usize) -> pg::Connection {
        pg::Connection::connect(self.shards[number].address()).unwrap()
    }

    /// Stops Ashlar and starts it again with what is on disk.
    fn restart(self) -> Fleet {
        let Fleet { ashlar, shards, data, config } = self;
        ashlar.stop();
        Fleet { ashlar: start(&config), shards, data, config }
    }

    /// A key of each shard for a table that is sharded by an integer `k`, found where a row of it comes to lie.
    fn keys(&self, table: &str) -> Vec<i64> {
        let mut client = self.client();
        let mut keys: Vec<Option<i64>> = vec![None; self.shards.len()];
        for key in 0.. {
            done(&mut client, &format!("INSERT INTO {table} (k) VALUES ({key})"));
            let holder = (0..self.shards.len())
                .find(|number| self.shard(*number).value(&format!("SELECT count(*) FROM {table}")).unwrap() == "1")
                .expect("a shard has the row");
            done(&mut client, &format!("DELETE FROM {table} WHERE k = {key}"));
            keys[holder].get_or_insert(key);
            if keys.iter().all(Option::is_some) {
                break;
            }
        }
        keys.into_iter().flatten().collect()
    }
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

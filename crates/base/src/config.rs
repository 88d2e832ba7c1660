//! Every value that a user can configure, as one table: a struct per room, and the same table for the file reader,
//! the environment, `ashlar config show` and the reference page.
//!
//! Called by the command line, once, at start; a room then receives its own section. Never read again after that,
//! and there is no global accessor. Performs no I/O: the caller reads the file.

mod reference;
mod resolve;
mod setting;

pub use reference::{default_file, reference_page};
pub use resolve::{ConfigFile, Origin, Problem, Resolved, Sources, Spot, resolve};
pub use setting::{KeylessWrites, LogFormat, LogLevel, PoolMode};

use setting::Setting;
use std::net::SocketAddr;

use crate::Eviction;

/// What is known about one configured value, apart from the value.
#[derive(Debug)]
pub struct Field {
    /// The section of the file, which is the room that receives it.
    pub room: &'static str,
    /// The name within the section; its unit is part of it.
    pub name: &'static str,
    /// The doc comment of the struct's field.
    pub doc: &'static str,
    /// What may be written, in words.
    pub accepts: &'static str,
    /// Least and greatest value of an integer.
    pub range: Option<(u64, u64)>,
    /// Whether the file writes it between quotation marks.
    pub quoted: bool,
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
    pub(crate) show: fn(&Config) -> String,
}

/// One section of the file.
#[derive(Debug)]
pub struct Room {
    /// Its name between the brackets.
    pub name: &'static str,
    /// The doc comment of its struct.
    pub doc: &'static str,
}

macro_rules! rooms {
    ($(
        $(#[doc = $room_doc:literal])*
        $room:ident: $Room:ident {
            $( $(#[doc = $doc:literal])* $field:ident: $type:ty = $default:expr $(, in $low:literal ..= $high:literal)? ; )*
        }
    )*) => {
        /// Everything that is configured: complete and validated, if it comes from [`resolve`].
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Config {
            $( $(#[doc = $room_doc])* pub $room: $Room, )*
        }

        $(
            $(#[doc = $room_doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $Room {
                $( $(#[doc = $doc])* pub $field: $type, )*
            }

            impl Default for $Room {
                fn default() -> Self {
                    Self { $( $field: $default, )* }
                }
            }
        )*

        /// The sections, in the order of the reference page.
        pub const ROOMS: &[Room] = &[
            $( Room { name: stringify!($room), doc: concat!($($room_doc, "\n"),*) }, )*
        ];

        /// The values, section by section.
        pub const FIELDS: &[Field] = &[
            $($( Field {
                room: stringify!($room),
                name: stringify!($field),
                doc: concat!($($doc, "\n"),*),
                accepts: <$type as Setting>::ACCEPTS,
                range: rooms!(@range $($low, $high)?),
                quoted: <$type as Setting>::QUOTED,
                set: |config, text| {
                    config.$room.$field = setting::read::<$type>(text, rooms!(@range $($low, $high)?))?;
                    Ok(())
                },
                show: |config| config.$room.$field.write(),
            }, )*)*
        ];
    };
    (@range) => { None };
    (@range $low:literal, $high:literal) => { Some(($low, $high)) };
}

rooms! {
    /// The doors: where clients connect, how many may, and what each may cost.
    server: ServerConfig {
        /// Address of the PostgreSQL door. Port 0 takes a free port, which the log and the ready file name.
        pg_address: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 5433));
        /// Address of the RESP door, for Redis clients.
        resp_address: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 6380));
        /// Address of the HTTP door: `/metrics`, `/healthz`, `/readyz`, `/debug/profile`.
        http_address: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8033));
        /// Whether a door may listen on an address that other machines can reach although it asks for no password.
        /// Anybody who can reach the port can then read and change everything.
        allow_remote_without_authentication: bool = false;
        /// Threads that serve connections of the PostgreSQL and RESP doors. 0 takes one per CPU.
        cores: u16 = 0, in 0..=1024;
        /// Connections that each of the PostgreSQL and RESP doors serves at once. One more is told so and closed:
        /// 53300 on PostgreSQL, `-ERR max number of clients reached` on RESP.
        connections_max: u32 = 10000, in 1..=1000000;
        /// Connections that the HTTP door serves at once. One more is answered 503 and closed.
        http_connections_max: u32 = 256, in 1..=1000000;
        /// Bytes of one message from a PostgreSQL client. A longer one ends the connection before it is read.
        pg_message_bytes_max: u32 = 268435456, in 65536..=1073741823;
        /// Bytes of one RESP argument. A longer one ends the connection before it is read.
        resp_bulk_bytes_max: u32 = 268435456, in 1024..=536870912;
        /// Milliseconds that a RESP command waits for a row that a transaction has locked, before it fails with `-TRYAGAIN`.
        resp_lock_timeout_ms: u64 = 10000, in 1..=86400000;
        /// KiB of replies that wait for one client. Beyond it the statement pauses until the client reads.
        write_buffer_kib_max: u32 = 256, in 16..=65536;
        /// Milliseconds that a new PostgreSQL connection has to send its startup message, and a connection of the HTTP
        /// door to send a request, or to take up more of the answer.
        startup_timeout_ms: u64 = 60000, in 100..=3600000;
        /// Milliseconds that a connection may stay idle outside a statement before it is closed; 0 for no limit.
        idle_timeout_ms: u64 = 0, in 0..=604800000;
        /// Milliseconds that running statements get to finish when the server is told to stop.
        shutdown_grace_ms: u64 = 10000, in 0..=3600000;
    }
    /// The tables in memory.
    store: StoreConfig {
        /// Partitions of each table; a power of two.
        partition_count: u16 = 256, in 1..=16384;
        /// MiB of rows and indexes. Beyond it writes fail with 53200 on PostgreSQL and `-OOM` on RESP. A sixteenth more is
        /// kept for statements, so that a full store can be read, and rows deleted.
        memory_mib_max: u64 = 4096, in 16..=16777216;
        /// Which plain keys of the RESP door, the rows of the table `kv`, make room for others where memory is nearly full:
        /// `maxmemory-policy`, with the words of a table's option `eviction`. With `none` writes fail. `CONFIG SET` and
        /// `ALTER TABLE kv SET (eviction = ...)` change it until the next start.
        plain_keys_eviction: Eviction = Eviction::None;
    }
    /// Planning and running SQL.
    query: QueryConfig {
        /// MiB that running queries share for sorts, joins and aggregates. A query that needs more fails with 53200.
        memory_mib_max: u64 = 2048, in 16..=16777216;
        /// MiB that one query may hold of these, unless the session sets `query_memory_max`; 0 for no limit but theirs. What can
        /// do with less then goes through files, and the query fails with 53200 where nothing can.
        query_memory_mib_max: u64 = 0, in 0..=2097151;
        /// Directory for what queries have no room for in their memory; each server has a folder of its own in it. Empty for one
        /// in the system's folder for temporary files. What servers that were killed have left there is removed at start.
        spill_dir: String = String::new();
        /// MiB that the temporary files of all queries may take. A query that wants more fails with 53100, the others go on.
        spill_mib_max: u64 = 102400, in 0..=1073741824;
        /// Queries that run at once, of those that are more than a few rows by a key or an index; further ones wait in the order
        /// in which they came. 0 for no limit.
        queries_max: u32 = 64, in 0..=65536;
        /// Queries that wait for that. One more fails with 53300.
        queries_waiting_max: u32 = 1000, in 0..=1000000;
        /// Milliseconds that a query waits for that, before it fails with 53300; 0 for no limit.
        query_wait_max_ms: u64 = 60000, in 0..=604800000;
        /// Threads that run queries other than key lookups. 0 takes one per CPU.
        threads: u16 = 0, in 0..=1024;
        /// MiB of plans that are kept for the next client that sends the same text, or one that differs only in constants.
        /// The least recently used go first. 0 keeps none.
        plan_cache_mib_max: u32 = 64, in 0..=65536;
        /// Milliseconds after which a statement is cancelled with 57014, unless the session sets
        /// `statement_timeout`; 0 for no limit.
        statement_timeout_ms: u64 = 0, in 0..=604800000;
        /// Rows that operators hand to each other at once.
        batch_rows: u32 = 8192, in 64..=65536;
    }
    /// Tables whose rows are in other PostgreSQL servers.
    shard: ShardConfig {
        /// Directory for what is known of servers, user mappings and sharded tables, in a file that its owner alone can read.
        /// Empty for none: then there can be none of them.
        data_dir: String = String::new();
        /// File of CREATE SERVER, CREATE USER MAPPING and CREATE TABLE ... USING sharded statements that are run at start. What is
        /// known already and alike stays as it is; what is known and differs keeps the server from starting. Where a password stands
        /// in it, so does a mode that lets others than its owner read it: chmod 600. Empty for none.
        declarations: String = String::new();
        /// The number of this server among those that make keys for the same tables (`key_generator = 'snowflake'`): no two have the same.
        /// 1024 for one that is leased of a shard; then it is so on all of these servers.
        worker: u16 = 1024, in 0..=1024;
        /// Milliseconds for which a worker number is leased at a time. It is renewed as long as its shard can be reached, and no key is
        /// made once a lease has ended.
        worker_lease_ms: u64 = 60000, in 1000..=3600000;
        /// How long a session has a connection to a server, unless it sets `sharded_pool_mode`: for a transaction, or from its first
        /// statement there to its end.
        pool_mode: PoolMode = PoolMode::Transaction;
        /// Whether an UPDATE or DELETE that gives no sharding key, and so is for all shards, is run, or refused with 21000, unless the
        /// session sets `sharded_keyless_writes`.
        keyless_writes: KeylessWrites = KeylessWrites::Allow;
        /// Connections to one server, of all threads together. A part of them is for queries over several servers alone: as many as each
        /// thread would have if they and queries had the same. Such queries have half of them at most. Threads take idle ones from each
        /// other, which are closed there and made anew: of fewer than two for each thread that costs time.
        connections_per_server_max: u32 = 64, in 2..=65536;
        /// Connections to one server that are there before anybody needs them, and stay though nobody does: made at start and where
        /// one breaks or has become too old, on all threads alike. 0 for none.
        connections_per_server_min: u32 = 0, in 0..=65536;
        /// Statements that wait for a connection to one server, of each thread. One more fails with 53300.
        connections_waiting_max: u32 = 1000, in 0..=1000000;
        /// Milliseconds that a statement waits for a connection, before it fails with 53300.
        connection_wait_max_ms: u64 = 10000, in 1..=3600000;
        /// Milliseconds that connecting to a server and logging in may take, before the statement fails with 08001.
        connect_timeout_ms: u64 = 5000, in 1..=600000;
        /// Milliseconds for which the machine of a server may acknowledge nothing, of what was sent or of the kernel's own questions,
        /// before its connections are lost and their statements fail with 08006. A server that is busy acknowledges all the same.
        silence_max_ms: u64 = 60000, in 2000..=3600000;
        /// Milliseconds between two looks at servers that have replicas, are replicas, or are down.
        health_check_ms: u64 = 1000, in 10..=600000;
        /// Failures to connect to a server, one after the other, after which statements are refused with 57P03 without asking it,
        /// until a look finds it again.
        failures_max: u32 = 3, in 1..=1000;
        /// Milliseconds that a replica may be behind to be read where `read_from = 'replica'`; 0 for no limit.
        replica_lag_max_ms: u64 = 10000, in 0..=86400000;
        /// Milliseconds after which a connection is closed that nobody has used; 0 for no limit.
        connection_idle_max_ms: u64 = 300000, in 0..=604800000;
        /// Milliseconds after which a connection is not lent again; 0 for no limit.
        connection_life_max_ms: u64 = 3600000, in 0..=604800000;
        /// Prepared statements that one connection keeps. The least recently used go first.
        statements_per_connection_max: u32 = 256, in 1..=65536;
        /// MiB of one row of a server that is not just passed on. A longer one ends the statement with 54000.
        row_mib_max: u32 = 64, in 1..=1024;
        /// Milliseconds between two looks at the transactions that servers have prepared and not finished.
        recover_period_ms: u64 = 5000, in 10..=3600000;
        /// Milliseconds after which a prepared transaction of another process is finished for it: committed if that was
        /// decided, rolled back if not, and then that process can decide no more.
        recover_after_ms: u64 = 10000, in 10..=86400000;
    }
    /// What the server writes to its standard error.
    log: LogConfig {
        /// The least severe event that is logged.
        level: LogLevel = LogLevel::Info;
        /// One line of text or one JSON object per event.
        format: LogFormat = LogFormat::Text;
    }
}

impl Config {
    /// What is wrong with the values taken together; each alone has been checked when it was set.
    pub(crate) fn contradictions(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut found = Vec::new();
        let doors = [
            ("pg_address", self.server.pg_address),
            ("resp_address", self.server.resp_address),
            ("http_address", self.server.http_address),
        ];
        for (place, (name, address)) in doors.into_iter().enumerate() {
            if !address.ip().is_loopback() && !self.server.allow_remote_without_authentication {
                found.push((
                    "server",
                    name,
                    format!(
                        "{address} can be reached by other machines, and this door asks for no password: listen on \
                         127.0.0.1, or set server.allow_remote_without_authentication = true to accept that anybody \
                         who reaches the port can read and change everything"
                    ),
                ));
            }
            let taken = doors[..place].iter().find(|(_, other)| address.port() != 0 && *other == address);
            if let Some((other, _)) = taken {
                found.push(("server", name, format!("{address} is already the {other}")));
            }
        }
        if !self.store.partition_count.is_power_of_two() {
            found.push(("store", "partition_count", format!("{} is not a power of two", self.store.partition_count)));
        }
        let (min, max) = (self.shard.connections_per_server_min, self.shard.connections_per_server_max);
        if min > max {
            let message = format!("{min} is more than connections_per_server_max, which is {max}");
            found.push(("shard", "connections_per_server_min", message));
        }
        found
    }
}

#[cfg(test)]
mod tests;

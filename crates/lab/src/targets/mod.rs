//! Targets: what a workload is run against. The lab starts them itself, each a private process on loopback with nothing kept
//! on disk, or meets one that is running already at `host:port`.
//!
//! Called by `run`, and by `list` to see which are present. The settings of each target stand in its file and nowhere else;
//! they go into the record.

mod ashlar;
mod ashlar_proxy;
mod engines;
mod grids;
mod metrics;
mod noop;
mod packaged;
mod pgbouncer;
mod postgres;
pub(crate) mod process;
mod redis;
mod relay;
mod shardingsphere;
mod usage;

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cores;
use crate::door::engine::EngineClient;
use crate::door::login;
use crate::door::pg::PgClient;
use crate::door::resp::{Reply, RespClient};
use crate::foreign::Program;
use crate::java::{self, Product};
use crate::record::ClientKind;
use crate::workload::{Door, Kind, Shards, Sizes};
pub(crate) use engines::Engine;
use grids::{Interface, Region};
use metrics::Metrics;
pub(crate) use noop::{Answers, Plant, serve as serve_noop};
pub(crate) use postgres::programs as postgres_programs;
use process::Process;
pub(crate) use process::on_path;
pub(crate) use relay::serve as serve_relay;
pub(crate) use usage::{
    Resident, Usage, cpu_seconds, cpu_seconds_of_ended_children, cpu_seconds_of_the_machine,
    cpu_seconds_of_this_process,
};

/// What `--target` may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Ours.
    Ashlar,
    /// Ours too, as this program: two builds are measured in turn.
    Build(PathBuf),
    /// Redis, in memory only.
    Redis,
    /// Valkey, in memory only.
    Valkey,
    /// PostgreSQL with unlogged tables.
    Postgres,
    /// The same behind a relay of the lab.
    Relay,
    /// The same behind PgBouncer.
    PgBouncer,
    /// So many of them behind ShardingSphere-Proxy.
    ShardingSphere(usize),
    /// So many of them behind ours.
    AshlarProxy(usize),
    /// An engine inside a process of the lab.
    Engine(Engine),
    /// A server of the lab that stores nothing: what the harness itself costs.
    Noop,
    /// Hazelcast, through one of its interfaces.
    Hazelcast(Interface),
    /// Apache Geode, with a region of one kind.
    Geode(Region),
    /// A running server.
    Remote(String),
    /// Another target, through a client in Java: what the client of Hazelcast and Geode is to be compared with.
    Lettuce(Box<Target>),
    /// Another target, loaded by a program that others made for that.
    Foreign(Program, Box<Target>),
    /// A server of the lab that answers one statement, by the plainest loop there is: what a scan could reach.
    PlainLoop,
}

/// The targets with a name, in the order in which they are listed, each with what it is.
pub(crate) const NAMED: &[(Target, &str)] = &[
    (Target::Ashlar, "this project's server"),
    (Target::Redis, "redis-server from the PATH or from a Python package, nothing saved"),
    (Target::Valkey, "valkey-server from the PATH or from a Python package, nothing saved"),
    (Target::Postgres, "PostgreSQL with a data folder of its own, unlogged tables, asynchronous commit"),
    (Target::Relay, "the same PostgreSQL behind a relay of the lab that passes bytes on: what a hop costs at least"),
    (Target::PgBouncer, "the same PostgreSQL behind PgBouncer"),
    (
        Target::ShardingSphere(2),
        "two such PostgreSQLs behind ShardingSphere-Proxy, for tpcc, sql-group and sql-join; its jars are fetched on its first run",
    ),
    (Target::ShardingSphere(4), "likewise four"),
    (Target::AshlarProxy(1), "the same PostgreSQL behind this project's server, as a proxy whose tables are sharded"),
    (Target::AshlarProxy(2), "two of them behind it, rows by their key modulo two"),
    (Target::AshlarProxy(4), "likewise four"),
    (Target::Engine(Engine::DuckDb), "DuckDB, in memory, inside a process of the lab"),
    (Target::Engine(Engine::DataFusion), "stock DataFusion, in memory, inside a process of the lab"),
    (Target::Engine(Engine::Chdb), "ClickHouse, in memory, inside a process of the lab (chdb)"),
    (Target::Engine(Engine::Polars), "Polars, in memory, inside a process of the lab"),
    (Target::Noop, "answers without storing anything: what the harness itself costs"),
    (Target::PlainLoop, "answers sql-sum by a plain loop over integers that lie side by side: the yardstick of a scan"),
    (Target::Hazelcast(Interface::Entries), "a member of Hazelcast, maps without a backup, its own client in Java"),
    (Target::Hazelcast(Interface::Sql), "likewise, through its SQL"),
    (Target::Hazelcast(Interface::Predicates), "likewise, through its predicates, projections and aggregations"),
    (Target::Geode(Region::Partitioned), "a server of Apache Geode, a partitioned region, its own client in Java"),
    (Target::Geode(Region::Replicated), "likewise, a replicated region"),
];

/// What the name of a [`Target::Build`] begins with.
const BUILD: &str = "ashlar=";

/// What the name of a [`Target::Lettuce`] begins with.
const LETTUCE: &str = "lettuce=";

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Build(program) => return write!(f, "{BUILD}{}", program.display()),
            Self::Lettuce(target) => return write!(f, "{LETTUCE}{target}"),
            Self::Foreign(program, target) => return write!(f, "{}={target}", program.name()),
            Self::Hazelcast(interface) => interface.target(),
            Self::Geode(region) => region.target(),
            Self::Ashlar => "ashlar",
            Self::Redis => "redis",
            Self::Valkey => "valkey",
            Self::Postgres => "postgres",
            Self::Relay => "relay",
            Self::PgBouncer => "pgbouncer",
            Self::ShardingSphere(2) => "shardingsphere",
            Self::ShardingSphere(shards) => return write!(f, "shardingsphere-{shards}"),
            Self::AshlarProxy(1) => "ashlar-proxy",
            Self::AshlarProxy(shards) => return write!(f, "ashlar-proxy-{shards}"),
            Self::Engine(engine) => engine.name(),
            Self::Noop => "noop",
            Self::PlainLoop => "plain-loop",
            Self::Remote(address) => address,
        })
    }
}

/// What a target needs to be started.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    /// The program of Ashlar, if one was named.
    pub(crate) ashlar: Option<PathBuf>,
    /// The cores of the server, as `taskset` takes them; None to leave it to the system.
    pub(crate) cores: Option<&'a str>,
    /// Bytes of a value, which the server without a store makes up.
    pub(crate) value_bytes: u32,
    /// What is planted into that server.
    pub(crate) plant: Option<Plant>,
    /// Whether it answers what a foreign program sends without looking at it, as a server that does nothing at all.
    pub(crate) unparsed: bool,
}

impl Start<'_> {
    /// How many cores the server has.
    fn core_count(&self) -> Result<usize> {
        match self.cores {
            Some(cores) => Ok(cores::count(cores)),
            None => Ok(std::thread::available_parallelism()?.get()),
        }
    }
}

/// A target that can be reached.
pub(crate) struct Running {
    /// The door of the workload.
    pub(crate) address: SocketAddr,
    /// Its PostgreSQL door, if it has one and the lab started it.
    pub(crate) sql: Option<SocketAddr>,
    /// The version that it reports.
    pub(crate) version: String,
    /// The program, if the lab started it.
    pub(crate) program: Option<PathBuf>,
    /// How it was started: arguments, then lines of its configuration file.
    pub(crate) configuration: Vec<String>,
    /// Its HTTP door, if it has one: metrics, and profiles of itself.
    pub(crate) http: Option<SocketAddr>,
    metrics: Metrics,
    /// The servers that data is put into directly.
    pub(crate) shards: Option<Shards>,
    process: Option<Process>,
}

/// What the module of a target hands over: a process whose doors are open.
struct Started {
    process: Process,
    resp: Option<SocketAddr>,
    sql: Option<SocketAddr>,
    http: Option<SocketAddr>,
    configuration: Vec<String>,
}

impl Target {
    /// Reads a name, `ashlar=PATH`, `lettuce=TARGET`, the like of other programs, or `host:port`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if let Some((target, _)) = NAMED.iter().find(|(target, _)| target.to_string() == text) {
            return Ok(target.clone());
        }
        if let Some(program) = text.strip_prefix(BUILD).filter(|program| !program.is_empty()) {
            return Ok(Self::Build(program.into()));
        }
        if let Some(target) = text.strip_prefix(LETTUCE) {
            return match Self::parse(target)? {
                other if other.product().is_some() => bail!("{other} has a client of its own in Java"),
                other if other.foreign().is_some() => bail!("{other} has a client of its own"),
                target => Ok(Self::Lettuce(Box::new(target))),
            };
        }
        for program in Program::ALL {
            let Some(target) = text.strip_prefix(program.name()).and_then(|rest| rest.strip_prefix('=')) else {
                continue;
            };
            return match Self::parse(target)? {
                other if other.product().is_some() || matches!(other, Self::Foreign(..)) => {
                    bail!("{other} has a client of its own")
                }
                target => Ok(Self::Foreign(program, Box::new(target))),
            };
        }
        if text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
            return Ok(Self::Remote(text.to_owned()));
        }
        let names: Vec<String> = NAMED.iter().map(|(target, _)| target.to_string()).collect();
        bail!(
            "there is no target {text:?}; there are {}, ashlar=PATH of another build, host:port of a running server, and lettuce=TARGET, redis-benchmark=TARGET, pgbench=TARGET and pgbench-unrouted=ashlar-proxy for one of them through another client",
            names.join(", ")
        );
    }

    /// Whether rows are kept by a PostgreSQL of the lab.
    pub(crate) fn is_postgres(&self) -> bool {
        match self {
            Self::Postgres | Self::Relay | Self::PgBouncer | Self::ShardingSphere(_) | Self::AshlarProxy(_) => true,
            Self::Ashlar
            | Self::Build(_)
            | Self::Redis
            | Self::Valkey
            | Self::Noop
            | Self::PlainLoop
            | Self::Engine(_)
            | Self::Hazelcast(_)
            | Self::Geode(_)
            | Self::Lettuce(_)
            | Self::Foreign(..)
            | Self::Remote(_) => false,
        }
    }

    /// Whether tables are made through it, if it spreads their rows over servers behind it.
    fn makes_tables(&self) -> Option<bool> {
        match self {
            Self::ShardingSphere(_) => Some(false),
            Self::AshlarProxy(_) => Some(true),
            _ => None,
        }
    }

    /// The product whose client in Java loads it, if threads of the lab do not.
    fn product(&self) -> Option<Product> {
        match self {
            Self::Hazelcast(_) => Some(Product::Hazelcast),
            Self::Geode(_) => Some(Product::Geode),
            Self::Lettuce(_) => Some(Product::Lettuce),
            Self::Ashlar
            | Self::Build(_)
            | Self::Redis
            | Self::Valkey
            | Self::Postgres
            | Self::Relay
            | Self::PgBouncer
            | Self::ShardingSphere(_)
            | Self::AshlarProxy(_)
            | Self::Engine(_)
            | Self::Noop
            | Self::PlainLoop
            | Self::Foreign(..)
            | Self::Remote(_) => None,
        }
    }

    /// The program of others that loads it, if one does.
    pub(crate) fn foreign(&self) -> Option<Program> {
        match self {
            Self::Foreign(program, _) => Some(*program),
            _ => None,
        }
    }

    /// Who makes the requests.
    pub(crate) fn client_kind(&self) -> ClientKind {
        match self.foreign() {
            Some(program) => program.client_kind(),
            None if self.product().is_some() => ClientKind::Java,
            None => ClientKind::Lab,
        }
    }

    /// The server, through whichever client.
    pub(crate) fn server(&self) -> &Self {
        match self {
            Self::Lettuce(target) | Self::Foreign(_, target) => target,
            other => other,
        }
    }

    /// Whether it can be had here for this workload: its program, or why not.
    pub(crate) fn presence(&self, kind: &Kind, sizes: &Sizes, ashlar: Option<&PathBuf>) -> Result<PathBuf, String> {
        let door = kind.door;
        let speaks = match self {
            Self::Ashlar | Self::Build(_) => true,
            Self::Noop | Self::Remote(_) => door != Door::Text,
            Self::PlainLoop => door == Door::Sql,
            Self::Redis | Self::Valkey => door == Door::Resp,
            Self::Postgres => door != Door::Resp,
            Self::Relay | Self::PgBouncer | Self::ShardingSphere(_) | Self::AshlarProxy(_) => door == Door::Sql,
            Self::Engine(_) => door == Door::Text,
            // Keys and values, which are behind RESP elsewhere, and rows.
            Self::Hazelcast(Interface::Entries) | Self::Geode(_) => door == Door::Resp,
            Self::Hazelcast(Interface::Sql | Interface::Predicates) => door == Door::Sql,
            Self::Lettuce(server) => {
                server.presence(kind, sizes, ashlar)?;
                door == Door::Resp
            }
            Self::Foreign(program, server) => {
                if *program == Program::PgbenchUnrouted && **server != Self::AshlarProxy(1) {
                    return Err("there is routing to be left out in ashlar-proxy alone".to_owned());
                }
                server.presence(kind, sizes, ashlar)?;
                program.takes(kind, sizes)?;
                if program == &Program::Pgbench && matches!(**server, Self::Noop | Self::PlainLoop) {
                    return Err("it does not describe its rows, which pgbench asks for".to_owned());
                }
                true
            }
        };
        if !speaks {
            return Err(match self {
                Self::Noop => "it knows no answers of these queries".to_owned(),
                // Its tables might have the names that those of the workload have.
                Self::Remote(_) => "the servers of this workload are started by the lab".to_owned(),
                Self::Hazelcast(Interface::Entries) | Self::Geode(_) => {
                    "it has keys and values; hazelcast-sql and hazelcast-predicates have rows".to_owned()
                }
                Self::Hazelcast(_) => "it has rows; hazelcast has keys and values".to_owned(),
                Self::Lettuce(_) => format!("its client does not speak {}", door.name()),
                _ => format!("it does not speak {}", door.name()),
            });
        }
        if self.product().is_some() {
            if !java::workloads(door).contains(&kind.name) {
                return Err(format!("the clients in Java have no {}", kind.name));
            }
            if *self == Self::Hazelcast(Interface::Predicates) && kind.name == "sql-join" {
                return Err("a predicate is about one map; hazelcast-sql joins two".to_owned());
            }
            if sizes.pipeline.is_some_and(|pipeline| pipeline > 1) {
                return Err("the threads of a client in Java send one request at a time".to_owned());
            }
            if sizes.columns.is_some() || sizes.protocol.is_some() {
                return Err("the clients in Java have whole rows and their own statements only".to_owned());
            }
            java::program()?;
        }
        if sizes.beside_rows.is_some_and(|rows| rows > 0) && !matches!(self, Self::Ashlar | Self::Build(_)) {
            return Err("it has no rows beside its keys, or its client asks for none".to_owned());
        }
        match self {
            Self::Engine(engine) => engines::install(*engine),
            Self::Valkey => packaged::VALKEY.install(),
            Self::Redis => packaged::REDIS.install(),
            Self::Postgres | Self::Relay | Self::PgBouncer | Self::ShardingSphere(_) | Self::AshlarProxy(_) => {
                postgres::install()?;
                self.program(ashlar)
            }
            Self::Lettuce(server) | Self::Foreign(_, server) => server.presence(kind, sizes, ashlar),
            _ => self.program(ashlar),
        }
    }

    /// The program that would be started, or why there is none.
    pub(crate) fn program(&self, ashlar: Option<&PathBuf>) -> Result<PathBuf, String> {
        match self {
            Self::Ashlar => ashlar::program(ashlar),
            Self::Build(program) => ashlar::program(Some(program)),
            Self::Redis => packaged::REDIS.program(),
            Self::Valkey => packaged::VALKEY.program(),
            Self::Postgres => postgres::programs().map(|folder| folder.join("postgres")),
            Self::PgBouncer => postgres::programs().and_then(|_| pgbouncer::program()),
            Self::ShardingSphere(_) => postgres::programs().and_then(|_| shardingsphere::program()),
            Self::AshlarProxy(_) => postgres::programs().and_then(|_| ashlar::program(ashlar)),
            Self::Relay => postgres::programs().and_then(|_| process::own_program()),
            Self::Engine(engine) => engines::program(*engine),
            Self::Noop | Self::PlainLoop => process::own_program(),
            Self::Hazelcast(_) | Self::Geode(_) => java::program(),
            Self::Remote(_) => Ok(PathBuf::new()),
            Self::Lettuce(target) | Self::Foreign(_, target) => target.program(ashlar),
        }
    }

    /// Starts it, or connects, and asks for its version.
    pub(crate) fn start(&self, door: Door, start: &Start<'_>) -> Result<Running> {
        let program = self.program(start.ashlar.as_ref()).map_err(anyhow::Error::msg)?;
        let started = match self {
            Self::Ashlar | Self::Build(_) => ashlar::start(&program, start)?,
            Self::Redis => redis::start("redis", &program, start)?,
            Self::Valkey => redis::start("valkey", &program, start)?,
            Self::Postgres => postgres::start(&program, start)?,
            Self::Relay => relay::start(start)?,
            Self::PgBouncer => pgbouncer::start(&program, start)?,
            Self::ShardingSphere(shards) => shardingsphere::start(*shards, &program, start)?,
            Self::AshlarProxy(shards) => ashlar_proxy::start(*shards, &program, start)?,
            Self::Engine(engine) => engines::start(*engine, &program, start)?,
            Self::Noop => noop::start(noop::Kind::Noop, start)?,
            Self::PlainLoop => noop::start(noop::Kind::PlainLoop, start)?,
            Self::Hazelcast(interface) => return grids::start_hazelcast(*interface, program, start),
            Self::Geode(region) => return grids::start_geode(*region, program, start),
            Self::Remote(address) => return Running::remote(address, door),
            Self::Lettuce(target) => return target.start(door, start),
            Self::Foreign(_, target) => return target.start(door, &Start { unparsed: true, ..start.clone() }),
        };
        let address = match door {
            Door::Resp => started.resp,
            Door::Sql | Door::Text => started.sql,
        };
        let address = address.with_context(|| format!("it does not speak {}", door.name()))?;
        Ok(Running {
            address,
            sql: started.sql,
            // Ashlar's own version is what its RESP door says; its PostgreSQL door says which PostgreSQL it is like.
            version: match (self, started.resp) {
                (Self::Engine(_), _) => EngineClient::connect(address)?.version()?,
                (_, Some(resp)) => version(resp, Door::Resp)?,
                (_, None) => version(address, door)?,
            },
            program: Some(program),
            configuration: started.configuration,
            http: started.http,
            metrics: Metrics::of(self, &started.process, started.resp, started.sql, started.http),
            shards: self.makes_tables().and_then(|made| Shards::of(&started.process.addresses_behind(), made)),
            process: Some(started.process),
        })
    }

    /// Starts the client in Java that loads what runs there; None where threads of the lab do.
    pub(crate) fn client(&self, running: &Running) -> Result<Option<java::Client>> {
        let Some(product) = self.product() else { return Ok(None) };
        let port = running.address.port().to_string();
        let arguments = match self {
            Self::Hazelcast(interface) => vec![port, interface.argument().to_owned()],
            Self::Lettuce(_) => vec![running.address.ip().to_string(), port],
            _ => vec![port],
        };
        java::Client::start(product, &arguments).map(Some)
    }
}

impl Running {
    fn remote(text: &str, door: Door) -> Result<Self> {
        let mut addresses = text.to_socket_addrs().with_context(|| format!("{text} is no address"))?;
        let address = addresses.next().with_context(|| format!("{text} has no address"))?;
        let configuration = login::take_from_environment(address, door);
        let version = version(address, door)?;
        Ok(Self {
            address,
            sql: None,
            version,
            program: None,
            configuration,
            http: None,
            metrics: Metrics::of_remote(address, door),
            shards: None,
            process: None,
        })
    }

    /// The process id, if the lab started it.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// What it has used so far, and from now on its peak of memory; nothing is known of a server that others started.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.process.as_ref().and_then(|process| Usage::begin(&process.ids()))
    }

    /// What is resident of it at this moment; nothing is known of a server that others started.
    pub(crate) fn resident(&self) -> Option<Resident> {
        self.process.as_ref().and_then(|process| usage::resident_now(&process.ids()))
    }

    /// The text of its metrics, if it has any.
    pub(crate) fn metrics(&mut self) -> Option<Result<String>> {
        self.metrics.read(self.process.as_mut())
    }

    /// What full collections leave in the heap of a server that runs on a JVM; None of any other.
    pub(crate) fn live_bytes(&mut self) -> Option<Result<u64>> {
        let process = self.process.as_mut().filter(|process| process.talks())?;
        Some(grids::live_bytes(process))
    }

    /// How it ended, if it has, with the end of its log: to be asked when a connection was lost.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        self.process.as_mut().and_then(Process::obituary_soon)
    }
}

/// What the server says of its version.
fn version(address: SocketAddr, door: Door) -> Result<String> {
    match door {
        Door::Sql | Door::Text => Ok(PgClient::connect(address)?.version().to_owned()),
        Door::Resp => {
            let mut client = RespClient::connect(address)?;
            let reply = match client.command(&["INFO", "server"])? {
                Reply::Bulk(Some(text)) => String::from_utf8_lossy(text).into_owned(),
                other => {
                    bail!("INFO was answered by {other}; REDISCLI_AUTH is the password at a server that runs already")
                }
            };
            let field = |name: &str| reply.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            // Of Redis's descendants each says its own version first and Redis's for compatibility.
            let known = ["ashlar_version:", "valkey_version:", "redis_version:"].into_iter().find_map(field);
            Ok(known.unwrap_or("unknown").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_by_name_or_by_address() {
        for (target, _) in NAMED {
            assert_eq!(&Target::parse(&target.to_string()).unwrap(), target);
        }
        assert_eq!(Target::parse("db.example:5432").unwrap(), Target::Remote("db.example:5432".into()));
        let build = Target::Build("old:8/ashlar".into());
        assert_eq!(Target::parse("ashlar=old:8/ashlar").unwrap(), build);
        assert_eq!(build.to_string(), "ashlar=old:8/ashlar");
        let through = Target::Lettuce(Box::new(Target::Redis));
        assert_eq!(Target::parse("lettuce=redis").unwrap(), through);
        assert_eq!((through.to_string(), through.server()), ("lettuce=redis".to_owned(), &Target::Redis));
        for java in ["geode", "hazelcast-sql", "lettuce=redis"] {
            let refusal = Target::parse(&format!("lettuce={java}")).unwrap_err().to_string();
            assert_eq!(refusal, format!("{java} has a client of its own in Java"));
        }
        let loaded = Target::Foreign(Program::Pgbench, Box::new(Target::Postgres));
        assert_eq!(Target::parse("pgbench=postgres").unwrap(), loaded);
        assert_eq!((loaded.to_string(), loaded.server()), ("pgbench=postgres".to_owned(), &Target::Postgres));
        let unrouted = Target::Foreign(Program::PgbenchUnrouted, Box::new(Target::AshlarProxy(1)));
        assert_eq!(Target::parse("pgbench-unrouted=ashlar-proxy").unwrap(), unrouted);
        assert_eq!(unrouted.to_string(), "pgbench-unrouted=ashlar-proxy");
        for twice in ["lettuce=redis-benchmark=redis", "pgbench=pgbench=postgres", "redis-benchmark=geode"] {
            assert!(Target::parse(twice).unwrap_err().to_string().contains("has a client of its own"), "{twice}");
        }
        for wrong in ["mysql", "", "host:", ":80", "host:99999", "ashlar=", "lettuce=", "lettuce=mysql", "pgbench="] {
            let refusal = Target::parse(wrong).unwrap_err().to_string();
            assert!(
                refusal
                    .contains("there are ashlar, redis, valkey, postgres, relay, pgbouncer, shardingsphere, shardingsphere-4, ashlar-proxy, ashlar-proxy-2, "),
                "{refusal}"
            );
        }
    }

    #[test]
    fn a_target_is_absent_where_it_does_not_speak_the_protocol() {
        let presence = |target: &Target, kind: &str, sizes: Sizes, ashlar: Option<&PathBuf>| {
            target.presence(Kind::find(kind).unwrap(), &sizes, ashlar)
        };
        let refusal = |target: Target, kind: &str| presence(&target, kind, Sizes::default(), None).unwrap_err();
        let duckdb = Target::Engine(Engine::DuckDb);
        assert_eq!(refusal(duckdb, "sql-key"), "it does not speak PostgreSQL");
        assert_eq!(refusal(Target::Redis, "tpch"), "it does not speak SQL text");
        assert!(refusal(Target::Noop, "tpch").contains("knows no answers"));
        assert!(refusal(Target::Remote("db.example:5432".into()), "tpch").contains("started by the lab"));
        let through = |target| Target::Lettuce(Box::new(target));
        assert_eq!(refusal(Target::Redis, "sql-key"), "it does not speak PostgreSQL");
        assert_eq!(refusal(Target::Postgres, "kv-get"), "it does not speak RESP");
        assert_eq!(refusal(through(Target::Noop), "sql-key"), "its client does not speak PostgreSQL");
        assert_eq!(refusal(through(Target::Postgres), "kv-get"), "it does not speak RESP");
        let unrouted = Target::Foreign(Program::PgbenchUnrouted, Box::new(Target::Postgres));
        assert!(refusal(unrouted, "sql-key").starts_with("there is routing to be left out"));
        assert!(refusal(Target::Geode(Region::Partitioned), "sql-key").starts_with("it has keys and values"));
        assert!(refusal(Target::Hazelcast(Interface::Sql), "kv-get").starts_with("it has rows"));
        assert_eq!(through(Target::Noop).product(), Some(Product::Lettuce));
        let pipelined = Sizes { pipeline: Some(2), ..Sizes::default() };
        let said = presence(&through(Target::Noop), "kv-get", pipelined, None).unwrap_err();
        assert_eq!(said, "the threads of a client in Java send one request at a time");
        let nowhere = PathBuf::from("nowhere/ashlar");
        for target in [Target::Ashlar, Target::Build(nowhere.clone())] {
            let said = presence(&target, "sql-key", Sizes::default(), Some(&nowhere)).unwrap_err();
            assert!(said.contains("nowhere/ashlar"), "{said}");
        }
    }
}

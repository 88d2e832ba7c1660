//! INFO, ROLE and TIME: true figures under Redis's names.
//!
//! Called through the command table. Fields of Redis whose values are not measured here are left out.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use ashlar_base::{Eviction, clock};
use ashlar_store::Expiring;

use super::arguments::{Args, integer, integer_or_error, is};
use super::error::{KeyError, Outcome};
use super::{KeyService, KeySession, Reply, keyspace};

/// The Redis version whose commands, replies and error texts are followed; clients choose their behaviour by it.
const REDIS_VERSION: &str = "7.0.15";

/// A section: its title and what writes its lines.
type Section = (&'static str, fn(&KeySession, &mut String) -> std::fmt::Result);

const SECTIONS: &[Section] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Keyspace", keyspace_section),
];

pub(super) fn info(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    // The counters of this batch are still the session's own.
    session.end_batch();
    let all = args.len() == 1
        || args.from(1).any(|name| ["all", "default", "everything"].into_iter().any(|word| is(name, word)));
    let mut text = String::new();
    for (title, write) in SECTIONS {
        if all || args.from(1).any(|name| is(name, title)) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let written = write!(text, "# {title}\r\n").and_then(|()| write(session, &mut text));
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
    }
    session.running.charge_work(keyspace::work(&session.service));
    reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn server(session: &KeySession, out: &mut String) -> std::fmt::Result {
    let uptime = clock::monotonic().duration_since(session.service.started).as_secs();
    write!(
        out,
        "server_name:ashlar\r\nashlar_version:{}\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
         os:{} {}\r\narch_bits:{}\r\nprocess_id:{}\r\ntcp_port:{}\r\nserver_time_usec:{}\r\n\
         uptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        usize::BITS,
        std::process::id(),
        session.client().local.port(),
        clock::wall_micros(),
        uptime / 86_400,
    )
}

fn clients(session: &KeySession, out: &mut String) -> std::fmt::Result {
    let service = &session.service;
    write!(
        out,
        "connected_clients:{}\r\nmaxclients:{}\r\nblocked_clients:0\r\n",
        service.clients.count(),
        service.shared.config.server.connections_max,
    )
}

fn memory(session: &KeySession, out: &mut String) -> std::fmt::Result {
    let service = &session.service;
    let process = ashlar_telemetry::allocator::memory();
    write!(out, "used_memory:{}\r\nused_memory_rss:{}\r\n", process.allocated, process.resident)?;
    let store = service.shared.engine.store();
    write!(
        out,
        "used_memory_dataset:{}\r\nmaxmemory:{}\r\nmaxmemory_policy:{}\r\nmem_allocator:jemalloc\r\n",
        store.memory_used(),
        store.memory_max(),
        policy(service),
    )
}

/// Which plain keys go where memory is full, in Redis's words.
pub(super) fn policy(service: &KeyService) -> &'static str {
    policy_name(service.kv.schema().life.eviction)
}

/// What Redis calls it.
pub(super) fn policy_name(eviction: Eviction) -> &'static str {
    match eviction {
        Eviction::None => "noeviction",
        Eviction::Lru => "allkeys-lru",
        Eviction::Lfu => "allkeys-lfu",
        Eviction::Random => "allkeys-random",
    }
}

fn persistence(_: &KeySession, out: &mut String) -> std::fmt::Result {
    // Rows are in memory only.
    write!(out, "loading:0\r\naof_enabled:0\r\nrdb_bgsave_in_progress:0\r\n")
}

fn stats(session: &KeySession, out: &mut String) -> std::fmt::Result {
    let service = &session.service;
    let (names, patterns) = service.channels.counts();
    let (ended, before) = (service.shared.engine.store().ended(), *service.ended_before.lock());
    write!(
        out,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ntotal_error_replies:{}\r\n\
         expired_keys:{}\r\nevicted_keys:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\n\
         pubsub_channels:{names}\r\npubsub_patterns:{patterns}\r\nashlar_rows_looked_ahead:{}\r\n",
        service.connections.load(Ordering::Relaxed),
        service.commands.load(Ordering::Relaxed),
        service.errors.load(Ordering::Relaxed),
        // A table that is being dropped is for a moment in none of the sums.
        ended.expired.saturating_sub(before.expired),
        ended.evicted.saturating_sub(before.evicted),
        service.hits.load(Ordering::Relaxed),
        service.misses.load(Ordering::Relaxed),
        service.looked_ahead.load(Ordering::Relaxed),
    )
}

fn replication(_: &KeySession, out: &mut String) -> std::fmt::Result {
    write!(out, "role:master\r\nconnected_slaves:0\r\n")
}

fn cluster(_: &KeySession, out: &mut String) -> std::fmt::Result {
    write!(out, "cluster_enabled:0\r\n")
}

/// As in Redis, those are among the keys whose time has come but that nobody has ended yet: then no key is looked at.
fn keyspace_section(session: &KeySession, out: &mut String) -> std::fmt::Result {
    let service = &session.service;
    let (mut keys, mut expiring) = (0, Expiring::default());
    for table in keyspace::tables(service) {
        // First what is a part of the other, so that others who write seldom make it the greater one.
        expiring = expiring.plus(table.region.expiring());
        keys += table.region.row_estimate();
    }
    if keys == 0 {
        return Ok(());
    }
    let now = u64::try_from(session.now()).unwrap_or(0);
    let (expires, ttl) = (expiring.rows.min(keys), expiring.average_left(now));
    write!(out, "db0:keys={keys},expires={expires},avg_ttl={ttl}\r\n")
}

/// ROLE: the only server there is, without replicas.
pub(super) fn role(_: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

pub(super) fn time(_: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let micros = clock::wall_micros();
    reply.array(2);
    for number in [micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000)] {
        reply.bulk(itoa::Buffer::new().format(number).as_bytes());
    }
    Ok(())
}

/// WAIT: no replica has what was written, and none will, however long one waits.
pub(super) fn wait(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    integer_or_error(args.at(1))?;
    let timeout = integer(args.at(2)).ok_or(KeyError::Redis("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(KeyError::Redis("ERR timeout is negative"));
    }
    reply.integer(0);
    Ok(())
}

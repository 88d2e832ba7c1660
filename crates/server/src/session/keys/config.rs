//! CONFIG: the Redis parameters that have a meaning here, and those that can be changed while the server runs.
//!
//! Called through the command table. Changes are not written anywhere: they are lost at the next start.

use std::sync::atomic::Ordering;

use ashlar_base::Eviction;
use ashlar_base::config::FIELDS;
use ashlar_query::ddl::set_eviction_of_plain_keys;

use super::access::Lookups;
use super::arguments::{Args, is};
use super::error::{KeyError, Outcome};
use super::info::{policy, policy_name};
use super::{KeySession, Reply, glob, printed};

/// The parameters of Redis that have a truth here.
fn parameters(session: &KeySession) -> [(&'static str, String); 9] {
    let (service, address) = (&session.service, session.client().local);
    let server = &service.shared.config.server;
    [
        ("appendonly", "no".to_owned()),
        ("bind", address.ip().to_string()),
        ("databases", "1".to_owned()),
        ("maxclients", server.connections_max.to_string()),
        ("maxmemory", service.shared.engine.store().memory_max().to_string()),
        ("maxmemory-policy", policy(service).to_owned()),
        ("port", address.port().to_string()),
        ("proto-max-bulk-len", server.resp_bulk_bytes_max.to_string()),
        ("save", String::new()),
    ]
}

/// Those of them that CONFIG SET takes. Of the last two it takes what they are.
const CHANGEABLE: [&str; 4] = ["maxmemory", "maxmemory-policy", "appendonly", "save"];

pub(super) fn get(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut found = Vec::new();
    for (name, value) in parameters(session) {
        let asked = args.from(2).find(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
        if let Some(asked) = asked {
            // A name without wildcards comes back as it was written.
            let plain = asked.eq_ignore_ascii_case(name.as_bytes());
            found.push((if plain { asked } else { name.as_bytes() }, value));
        }
    }
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// A change that may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    MemoryMax(u64),
    Policy(Eviction),
    /// It is so already.
    Nothing,
}

/// Why a parameter is not changed, after Redis's words for that.
fn refused(name: &[u8], why: &str) -> KeyError {
    let mut line = b"ERR CONFIG SET failed (possibly related to argument '".to_vec();
    line.extend_from_slice(printed(name, usize::MAX));
    line.extend_from_slice(format!("') - {why}").as_bytes());
    KeyError::line(line)
}

/// The bytes of `store.memory_mib_max` that may be configured.
fn memory_range() -> (u64, u64) {
    let field = FIELDS.iter().find(|field| field.room == "store" && field.name == "memory_mib_max");
    let range = field.and_then(|field| field.range);
    range.map_or((0, u64::MAX), |(low, high)| (low << 20, high << 20))
}

/// Bytes, with a unit or none, as Redis reads them.
fn memory_value(text: &[u8]) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("b", 1),
        ("k", 1000),
        ("kb", 1 << 10),
        ("m", 1_000_000),
        ("mb", 1 << 20),
        ("g", 1_000_000_000),
        ("gb", 1 << 30),
    ];
    let (digits, unit) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let (_, factor) = UNITS.into_iter().find(|(name, _)| is(unit, name))?;
    let number: u64 = if digits.is_empty() { 0 } else { std::str::from_utf8(digits).ok()?.parse().ok()? };
    number.checked_mul(factor)
}

/// What a value of one of [`CHANGEABLE`] changes, or why it does not.
fn change(name: &str, value: &[u8]) -> Result<Change, String> {
    match name {
        "maxmemory" => {
            let bytes = memory_value(value).ok_or("argument must be a memory value")?;
            let (low, high) = memory_range();
            if !(low..=high).contains(&bytes) {
                return Err(format!("argument must be between {low} and {high} inclusive"));
            }
            Ok(Change::MemoryMax(bytes))
        }
        "maxmemory-policy" => {
            let known = Eviction::ALL.into_iter().find(|eviction| is(value, policy_name(*eviction)));
            known.map(Change::Policy).ok_or_else(|| {
                let words = "allkeys-lru, allkeys-lfu, allkeys-random, noeviction";
                format!("argument(s) must be one of the following: {words}")
            })
        }
        "appendonly" if is(value, "no") => Ok(Change::Nothing),
        "appendonly" if !is(value, "yes") => Err("argument must be 'yes' or 'no'".to_owned()),
        "save" if value.is_empty() => Ok(Change::Nothing),
        _ => Err("keys are kept in memory only".to_owned()),
    }
}

pub(super) fn set(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err(KeyError::SYNTAX);
    }
    let known = parameters(session);
    let mut named: Vec<(&'static str, &[u8])> = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let (word, value) = (args.at(at), args.at(at + 1));
        let Some((name, _)) = known.iter().find(|(name, _)| is(word, name)) else {
            let mut line = b"ERR Unknown option or number of arguments for CONFIG SET - '".to_vec();
            line.extend_from_slice(printed(word, usize::MAX));
            line.push(b'\'');
            return Err(KeyError::line(line));
        };
        if !CHANGEABLE.contains(name) {
            return Err(refused(word, "can't set immutable config"));
        }
        if named.iter().any(|(other, _)| other == name) {
            return Err(refused(word, "duplicate parameter"));
        }
        named.push((*name, value));
    }
    let mut changes = Vec::with_capacity(named.len());
    for (name, value) in named {
        changes.push(change(name, value).map_err(|why| refused(name.as_bytes(), &why))?);
    }
    let engine = &session.service.shared.engine;
    // First what may fail: all of it is done, or nothing.
    for change in &changes {
        if let Change::Policy(eviction) = change {
            set_eviction_of_plain_keys(engine, *eviction)?;
        }
    }
    for change in &changes {
        if let Change::MemoryMax(bytes) = change {
            engine.store().set_memory_max(*bytes);
        }
    }
    reply.ok();
    Ok(())
}

/// CONFIG RESETSTAT: what INFO counts begins again; what `/metrics` counts does not.
pub(super) fn resetstat(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let service = &session.service;
    let lookups = [&service.hits, &service.misses, &service.looked_ahead];
    for counter in [&service.connections, &service.commands, &service.errors].into_iter().chain(lookups) {
        counter.store(0, Ordering::Relaxed);
    }
    *service.ended_before.lock() = service.shared.engine.store().ended();
    (session.commands, session.errors, session.looked_ahead) = (0, 0, 0);
    *session.running.lookups() = Lookups::default();
    reply.ok();
    Ok(())
}

/// CONFIG REWRITE: the file is written by whoever runs the server.
pub(super) fn rewrite(_: &mut KeySession, _: &Args<'_>, _: &mut Reply<'_>) -> Outcome {
    Err(KeyError::Redis("ERR Rewriting config file: what CONFIG SET changes holds until the server stops"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_redis_reads_it() {
        let good: &[(&str, u64)] = &[
            ("", 0),
            ("0", 0),
            ("17", 17),
            ("17b", 17),
            ("1k", 1000),
            ("1KB", 1024),
            ("2m", 2_000_000),
            ("2mB", 2 << 20),
            ("3G", 3_000_000_000),
            ("3gb", 3 << 30),
            ("mb", 0),
        ];
        for (text, bytes) in good {
            assert_eq!(memory_value(text.as_bytes()), Some(*bytes), "{text}");
        }
        for text in ["-1", " 1", "1 ", "1x", "1.5gb", "x", "99999999999999999999", "18446744073709551615gb"] {
            assert_eq!(memory_value(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_bound_of_memory_is_what_may_be_configured() {
        assert_eq!(memory_range(), (16 << 20, 16_777_216 << 20));
        assert_eq!(change("maxmemory", b"16mb"), Ok(Change::MemoryMax(16 << 20)));
        assert!(change("maxmemory", b"0").is_err(), "memory has a bound");
    }

    #[test]
    fn every_parameter_that_can_be_changed_takes_something() {
        for (name, value) in CHANGEABLE.into_iter().zip(["1gb", "ALLKEYS-LRU", "NO", ""]) {
            assert!(change(name, value.as_bytes()).is_ok(), "{name}");
            assert!(change(name, b"nonsense").is_err(), "{name}");
        }
        assert!(change("appendonly", b"yes").is_err(), "keys are not on a disk");
    }
}

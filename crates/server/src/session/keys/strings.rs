//! String commands: plain keys are rows of the table `kv(key bytea, value bytea)`.
//!
//! Called through the command table. GET and SET allocate nothing: the value goes from the store's memory into the
//! reply, and from the request into the store, under the lock of the key's partition.

use std::sync::Arc;

use ashlar_base::{Datum, Error};
use ashlar_store::{Entry, Expiry, LOOKAHEAD_MAX, Mutation, Region, RowRef, WriteSet};

use super::access::{self, Running, atomically};
use super::arguments::{Args, integer, integer_or_error, is, range};
use super::error::{KeyError, Outcome};
use super::expiry::{self, Unit};
use super::keyspace::named;
use super::{KeySession, Reply, SCRATCH_BYTES_KEPT};

/// The bytes of a row of `kv`.
pub(super) fn value_of(row: &RowRef<'_>, with: impl FnOnce(&[u8])) {
    if let Datum::Bytea(bytes) = row.get(1) {
        with(bytes);
    }
}

/// The length of a row's value.
fn length_of(row: &RowRef<'_>) -> usize {
    let mut length = 0;
    value_of(row, |bytes| length = bytes.len());
    length
}

fn write_value(row: Option<RowRef<'_>>, reply: &mut Reply<'_>) {
    match row {
        Some(row) => value_of(&row, |bytes| reply.bulk(bytes)),
        None => reply.null(),
    }
}

fn put(entry: &mut Entry<'_>, key: &[u8], value: &[u8]) -> Result<(), Error> {
    entry.apply(Mutation::Upsert { row: &[Datum::Bytea(key), Datum::Bytea(value)] })?;
    Ok(())
}

/// Like [`put`], with an expiry; a key that is there may keep its own.
pub(super) fn put_living(entry: &mut Entry<'_>, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Error> {
    let write = Mutation::Upsert { row: &[Datum::Bytea(key), Datum::Bytea(value)] };
    entry.apply(Mutation::Living { write: &write, expiry })?;
    Ok(())
}

/// The way to plain keys.
pub(super) struct Plain<'a> {
    kv: &'a Arc<Region>,
    running: &'a mut Running,
}

impl Plain<'_> {
    /// See [`access::read`].
    #[inline]
    pub(super) fn get<R>(self, key: &[Datum<'_>], f: impl FnOnce(Option<RowRef<'_>>) -> R) -> Outcome<R> {
        access::read(self.running, self.kv, key, f)
    }

    /// See [`access::change`].
    #[inline]
    pub(super) fn entry<R, E: From<Error>>(
        self,
        key: &[Datum<'_>],
        f: impl FnOnce(&mut Entry<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        access::change(self.running, self.kv, key, f)
    }
}

impl KeySession {
    /// The way to plain keys, once it is sure that `key` is one.
    #[inline]
    pub(super) fn plain(&mut self, key: &[u8]) -> Outcome<Plain<'_>> {
        if self.is_row_name(key) {
            return Err(KeyError::WRONG_TYPE);
        }
        Ok(self.plain_keys())
    }

    /// The same for a key of which that is known.
    #[inline]
    fn plain_keys(&mut self) -> Plain<'_> {
        Plain { kv: &self.service.kv, running: &mut self.running }
    }
}

pub(super) fn get(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = args.at(1);
    session.plain(key)?.get(&[Datum::Bytea(key)], |row| write_value(row, reply))
}

pub(super) fn strlen(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = args.at(1);
    let length = session.plain(key)?.get(&[Datum::Bytea(key)], |row| row.as_ref().map_or(0, length_of))?;
    reply.integer(length as i64);
    Ok(())
}

pub(super) fn getrange(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = args.at(1);
    let (start, end) = (integer_or_error(args.at(2))?, integer_or_error(args.at(3))?);
    session.plain(key)?.get(&[Datum::Bytea(key)], |row| match row {
        Some(row) => value_of(&row, |bytes| reply.bulk(&bytes[range(start, end, bytes.len())])),
        None => reply.bulk(b""),
    })
}

/// The options of SET behind key and value, or of GETEX behind the key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options<'a> {
    only_if_absent: bool,
    only_if_present: bool,
    return_old: bool,
    keep_expiry: bool,
    remove_expiry: bool,
    /// When the key is to end.
    time: Option<(Unit, &'a [u8])>,
}

impl<'a> Options<'a> {
    /// Of two options that exclude each other the second is an error; one that comes twice counts as it comes last.
    fn parse(mut words: impl Iterator<Item = &'a [u8]>, is_set: bool) -> Outcome<Self> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            if let Some(unit) = Unit::of_word(word) {
                let is_other = options.time.is_some_and(|(other, _)| other != unit);
                if options.keep_expiry || options.remove_expiry || is_other {
                    return Err(KeyError::SYNTAX);
                }
                options.time = Some((unit, words.next().ok_or(KeyError::SYNTAX)?));
            } else if is_set && is(word, "nx") && !options.only_if_present {
                options.only_if_absent = true;
            } else if is_set && is(word, "xx") && !options.only_if_absent {
                options.only_if_present = true;
            } else if is_set && is(word, "get") {
                options.return_old = true;
            } else if is_set && is(word, "keepttl") && options.time.is_none() {
                options.keep_expiry = true;
            } else if !is_set && is(word, "persist") && options.time.is_none() {
                options.remove_expiry = true;
            } else {
                return Err(KeyError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Whether the value is to be set where something has the name, or nothing has.
    fn hold(&self, exists: bool) -> bool {
        !(exists && self.only_if_absent || !exists && self.only_if_present)
    }

    /// The expiry that a value set with these has.
    fn expiry(&self, session: &KeySession, command: &str) -> Outcome<Expiry> {
        Ok(match self.time {
            Some((unit, amount)) => Expiry::At(expiry::time_given(session, unit, amount, command)?),
            None if self.keep_expiry => Expiry::Keep,
            None => Expiry::Table,
        })
    }
}

pub(super) fn set(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let kv_key = [Datum::Bytea(key)];
    if args.len() == 3 {
        session.plain(key)?.entry(&kv_key, |entry| put(entry, key, value))?;
        reply.ok();
        return Ok(());
    }
    let options = Options::parse(args.from(3), true)?;
    let expiry = options.expiry(session, "set")?;
    if session.is_row_name(key) {
        // No string takes a row's name, but a condition that does not hold is no error.
        let exists = named(session, key).exists(session, key)?;
        if options.hold(exists) || exists && options.return_old {
            return Err(KeyError::WRONG_TYPE);
        }
        reply.null();
        return Ok(());
    }
    let (exists, done) = session.plain_keys().entry(&kv_key, |entry| {
        let row = entry.row();
        let exists = row.is_some();
        if options.return_old {
            write_value(row, reply);
        }
        let wanted = options.hold(exists);
        if wanted {
            put_living(entry, key, value, expiry)?;
        }
        Ok::<_, Error>((exists, wanted))
    })?;
    if options.return_old {
        session.running.count_lookup(exists);
    }
    match (options.return_old, done) {
        (true, _) => {}
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

fn set_for(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>, unit: Unit, command: &str) -> Outcome {
    let (key, value) = (args.at(1), args.at(3));
    let at = expiry::time_given(session, unit, args.at(2), command)?;
    let kv_key = [Datum::Bytea(key)];
    session.plain(key)?.entry(&kv_key, |entry| put_living(entry, key, value, Expiry::At(at)))?;
    reply.ok();
    Ok(())
}

pub(super) fn setex(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_for(session, args, reply, Unit::EX, "setex")
}

pub(super) fn psetex(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_for(session, args, reply, Unit::PX, "psetex")
}

pub(super) fn getex(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = args.at(1);
    let options = Options::parse(args.from(2), false)?;
    let kv_key = [Datum::Bytea(key)];
    // A time that is wrong is an error of a key that is there only.
    let at = options.time.map(|(unit, amount)| expiry::time_given(session, unit, amount, "getex"));
    let now = session.now();
    let exists = session.plain(key)?.entry(&kv_key, |entry| {
        let Some(row) = entry.row() else {
            reply.null();
            return Ok(false);
        };
        let expires = row.expires_at().is_some();
        let at = at.transpose()?;
        write_value(Some(row), reply);
        match at {
            Some(at) if at <= now => {
                entry.apply(Mutation::Delete { key: &kv_key })?;
            }
            Some(at) => expiry::set_expiry(entry, &kv_key, Expiry::At(at))?,
            None if options.remove_expiry && expires => expiry::set_expiry(entry, &kv_key, Expiry::Never)?,
            None => {}
        }
        Ok::<_, KeyError>(true)
    })?;
    session.running.count_lookup(exists);
    Ok(())
}

pub(super) fn setnx(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    if session.is_row_name(key) {
        if !named(session, key).exists(session, key)? {
            return Err(KeyError::WRONG_TYPE);
        }
        reply.integer(0);
        return Ok(());
    }
    let done = session.plain_keys().entry(&[Datum::Bytea(key)], |entry| {
        let absent = entry.row().is_none();
        if absent {
            put(entry, key, value)?;
        }
        Ok::<_, Error>(absent)
    })?;
    reply.integer(i64::from(done));
    Ok(())
}

pub(super) fn getset(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let exists = session.plain(key)?.entry(&[Datum::Bytea(key)], |entry| {
        let row = entry.row();
        let exists = row.is_some();
        write_value(row, reply);
        put(entry, key, value)?;
        Ok::<_, Error>(exists)
    })?;
    session.running.count_lookup(exists);
    Ok(())
}

pub(super) fn getdel(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = args.at(1);
    let kv_key = [Datum::Bytea(key)];
    let exists = session.plain(key)?.entry(&kv_key, |entry| {
        let row = entry.row();
        let exists = row.is_some();
        write_value(row, reply);
        if exists {
            entry.apply(Mutation::Delete { key: &kv_key })?;
        }
        Ok::<_, Error>(exists)
    })?;
    session.running.count_lookup(exists);
    Ok(())
}

pub(super) fn incr(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(session, args.at(1), 1, reply)
}

pub(super) fn decr(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(session, args.at(1), -1, reply)
}

pub(super) fn incrby(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(session, args.at(1), integer_or_error(args.at(2))?, reply)
}

pub(super) fn decrby(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let amount = integer_or_error(args.at(2))?.checked_neg();
    add(session, args.at(1), amount.ok_or(KeyError::Redis("ERR decrement would overflow"))?, reply)
}

fn add(session: &mut KeySession, key: &[u8], amount: i64, reply: &mut Reply<'_>) -> Outcome {
    let sum = session.plain(key)?.entry(&[Datum::Bytea(key)], |entry| {
        let mut current = Some(0);
        if let Some(row) = entry.row() {
            value_of(&row, |bytes| current = integer(bytes));
        }
        let sum = current.ok_or(KeyError::NOT_AN_INTEGER)?.checked_add(amount).ok_or(KeyError::OVERFLOW)?;
        put_living(entry, key, itoa::Buffer::new().format(sum).as_bytes(), Expiry::Keep)?;
        Ok::<_, KeyError>(sum)
    })?;
    reply.integer(sum);
    Ok(())
}

pub(super) fn append(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let more = args.at(2);
    let longer = |length: usize| length.saturating_add(more.len());
    let length = edit(session, args.at(1), longer, |value| value.extend_from_slice(more))?;
    reply.integer(length as i64);
    Ok(())
}

pub(super) fn setrange(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let patch = args.at(3);
    let offset = integer_or_error(args.at(2))?;
    let offset = usize::try_from(offset).map_err(|_| KeyError::Redis("ERR offset is out of range"))?;
    if patch.is_empty() {
        // Changes nothing, and creates nothing.
        return strlen(session, args, reply);
    }
    let end = offset.saturating_add(patch.len());
    let longer = |length: usize| length.max(end);
    let length = edit(session, args.at(1), longer, |value| {
        value.resize(longer(value.len()), 0);
        value[offset..end].copy_from_slice(patch);
    })?;
    reply.integer(length as i64);
    Ok(())
}

/// Changes a value, empty if there is none, that becomes as long as `length_after` makes of its length; gives the new one.
/// The copy that is changed is paid for before it is made.
pub(super) fn edit(
    session: &mut KeySession,
    key: &[u8],
    length_after: impl Fn(usize) -> usize,
    change: impl FnOnce(&mut Vec<u8>),
) -> Outcome<usize> {
    let service = Arc::clone(&session.service);
    let mut scratch = std::mem::take(&mut session.scratch);
    let mut held = None;
    let outcome = session.plain(key).and_then(|kv| {
        kv.entry(&[Datum::Bytea(key)], |entry| {
            let before = entry.row().as_ref().map_or(0, length_of);
            let after = length_after(before);
            if after > before.max(service.value_bytes_max()) {
                return Err(KeyError::TOO_LONG);
            }
            scratch.clear();
            if after > SCRATCH_BYTES_KEPT {
                held.get_or_insert_with(|| service.shared.engine.store().reservation()).grow(after)?;
                scratch.reserve_exact(after);
            }
            if let Some(row) = entry.row() {
                value_of(&row, |bytes| scratch.extend_from_slice(bytes));
            }
            change(&mut scratch);
            put_living(entry, key, &scratch, Expiry::Keep)?;
            Ok(scratch.len())
        })
    });
    if scratch.capacity() > SCRATCH_BYTES_KEPT {
        scratch = Vec::new();
    }
    session.scratch = scratch;
    if let Ok(length) = outcome {
        // Copied, and written.
        session.running.charge_work(2 * length as u64);
    }
    outcome
}

pub(super) fn mget(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(args.len() - 1);
    if session.running.transaction.is_some() {
        return mget_in_transaction(session, args, reply);
    }
    // One snapshot for all keys: an MSET is seen whole or not at all.
    let snapshot = session.service.shared.engine.store().snapshot();
    let is_alone = args.len() == 2;
    for first in (1..args.len()).step_by(LOOKAHEAD_MAX) {
        let keys = (first..args.len().min(first + LOOKAHEAD_MAX)).map(|at| args.at(at));
        if !is_alone {
            session.look_ahead_for(keys.clone());
        }
        for key in keys {
            if session.is_row_name(key) {
                reply.null();
                continue;
            }
            let is_there = session.service.kv.get_at(&snapshot, &[Datum::Bytea(key)], |row| {
                write_value(row, reply);
                row.is_some()
            });
            session.running.look(is_there);
            super::check_length(reply)?;
        }
    }
    Ok(())
}

fn mget_in_transaction(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    for key in args.from(1) {
        if session.is_row_name(key) {
            reply.null();
        } else {
            session.plain(key)?.get(&[Datum::Bytea(key)], |row| write_value(row, reply))?;
            super::check_length(reply)?;
        }
    }
    Ok(())
}

/// The keys and values of MSET and MSETNX.
fn pairs<'a>(args: &Args<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let args = *args;
    (1..args.len()).step_by(2).map(move |at| (args.at(at), args.at(at + 1)))
}

/// Whether a row has one of the keys, or could have it.
fn has_row_names(session: &mut KeySession, args: &Args<'_>, name: &str) -> Outcome<bool> {
    if args.len().is_multiple_of(2) {
        return Err(KeyError::arity(name));
    }
    Ok(pairs(args).any(|(key, _)| session.is_row_name(key)))
}

pub(super) fn mset(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if has_row_names(session, args, "mset")? {
        return Err(KeyError::WRONG_TYPE);
    }
    if args.len() > 3 && session.running.transaction.is_none() {
        session.look_ahead_for_all(pairs(args).map(|(key, _)| key));
    }
    let service = &session.service;
    let store = service.shared.engine.store();
    let running = &mut session.running;
    match &mut running.transaction {
        None => {
            let rows: Vec<_> = pairs(args).map(|(key, value)| [Datum::Bytea(key), Datum::Bytea(value)]).collect();
            if service.kv.put_few(&rows)? {
                reply.ok();
                return Ok(());
            }
            let version = service.kv.schema().version;
            let (snapshot, mut writes) = (store.snapshot(), WriteSet::blind());
            if let Some(holder) = running.way.holder() {
                writes.set_owner(holder.id());
            }
            for row in &rows {
                writes.put(&service.kv, version, &snapshot, row, Expiry::Table)?;
            }
            let committed = store.commit(&mut writes);
            if let Some(request) = writes.take_stopped() {
                running.way.stop(request);
            }
            committed?;
        }
        Some(transaction) => {
            for (key, value) in pairs(args) {
                transaction.entry(&service.kv, &[Datum::Bytea(key)], |entry| put(entry, key, value))??;
            }
        }
    }
    reply.ok();
    Ok(())
}

pub(super) fn msetnx(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if has_row_names(session, args, "msetnx")? {
        for (key, _) in pairs(args) {
            if named(session, key).exists(session, key)? {
                reply.integer(0);
                return Ok(());
            }
        }
        return Err(KeyError::WRONG_TYPE);
    }
    let service = &session.service;
    let done = atomically(service, &mut session.running, |transaction| {
        for (key, _) in pairs(args) {
            if transaction.get(&service.kv, &[Datum::Bytea(key)], |row| row.is_some())? {
                return Ok(false);
            }
        }
        for (key, value) in pairs(args) {
            transaction.entry(&service.kv, &[Datum::Bytea(key)], |entry| put(entry, key, value))??;
        }
        Ok(true)
    })?;
    reply.integer(i64::from(done));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str, is_set: bool) -> Result<Options<'_>, String> {
        Options::parse(words.split_whitespace().map(str::as_bytes), is_set).map_err(|error| {
            let mut line = Vec::new();
            error.write(&mut line);
            String::from_utf8(line).unwrap().trim_end().to_owned()
        })
    }

    #[test]
    fn set_takes_conditions_expiry_and_get() {
        let expected = Options { only_if_absent: true, return_old: true, ..Options::default() };
        assert_eq!(options("NX get", true), Ok(expected));
        assert_eq!(options("xx", true), Ok(Options { only_if_present: true, ..Options::default() }));
        assert_eq!(options("", true), Ok(Options::default()));
        let until = Options { time: Some((Unit::PXAT, b"99")), ..Options::default() };
        assert_eq!(options("pxat 99", true), Ok(until));
        // The last of one unit counts.
        let twice = Options { time: Some((Unit::EX, b"2")), ..Options::default() };
        assert_eq!(options("ex 1 EX 2", true), Ok(twice));
        assert_eq!(options("keepttl KEEPTTL", true), Ok(Options { keep_expiry: true, ..Options::default() }));
    }

    #[test]
    fn what_excludes_each_other_is_refused() {
        for words in ["nx xx", "foo", "ex", "ex 1 px 1", "ex 1 keepttl", "keepttl ex 1", "nx xx ex 10", "persist"] {
            assert_eq!(options(words, true), Err("-ERR syntax error".to_owned()), "{words}");
        }
        for words in ["nx", "get", "keepttl", "ex 1 persist", "persist px 1", "ex 1 exat 1", "pxat"] {
            assert_eq!(options(words, false), Err("-ERR syntax error".to_owned()), "{words}");
        }
        assert_eq!(options("persist", false), Ok(Options { remove_expiry: true, ..Options::default() }));
    }
}

//! Lifetimes of keys and rows: EXPIRE, TTL, PERSIST and their variants, and the expiry options of SET and GETEX.
//!
//! Called through the command table, and by `strings`. Times are milliseconds of the store's clock, which never goes
//! back: a key that has expired stays so.

use ashlar_base::Datum;
use ashlar_store::{Entry, Expiry, Mutation};

use super::access;
use super::arguments::{Args, integer_or_error, is};
use super::error::{KeyError, Outcome};
use super::keyspace::{Named, delete, named};
use super::{KeySession, Reply, printed};

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) is_seconds: bool,
    /// From now, rather than from 1970.
    pub(super) is_relative: bool,
}

impl Unit {
    pub(super) const EX: Self = Self { is_seconds: true, is_relative: true };
    pub(super) const PX: Self = Self { is_seconds: false, is_relative: true };
    pub(super) const EXAT: Self = Self { is_seconds: true, is_relative: false };
    pub(super) const PXAT: Self = Self { is_seconds: false, is_relative: false };

    /// The unit of an option of SET or GETEX.
    pub(super) fn of_word(word: &[u8]) -> Option<Self> {
        let words = [("ex", Self::EX), ("px", Self::PX), ("exat", Self::EXAT), ("pxat", Self::PXAT)];
        words.into_iter().find(|(name, _)| is(word, name)).map(|(_, unit)| unit)
    }

    /// Milliseconds since 1970. None where they do not fit.
    fn millis(self, amount: i64, now: i64) -> Option<i64> {
        let millis = if self.is_seconds { amount.checked_mul(1000)? } else { amount };
        if self.is_relative { millis.checked_add(now) } else { Some(millis) }
    }
}

/// Redis's error for a time that there is not.
fn invalid(command: &str) -> KeyError {
    KeyError::line(format!("ERR invalid expire time in '{command}' command"))
}

/// The time that SET, GETEX and their kin are given, which must be above zero.
pub(super) fn time_given(session: &KeySession, unit: Unit, amount: &[u8], command: &str) -> Outcome<i64> {
    let amount = integer_or_error(amount)?;
    if amount <= 0 {
        return Err(invalid(command));
    }
    unit.millis(amount, session.now()).ok_or_else(|| invalid(command))
}

/// On which expiry a new one is set.
#[derive(Clone, Copy, Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Conditions {
    fn parse<'a>(words: impl Iterator<Item = &'a [u8]>) -> Outcome<Self> {
        let mut found = Self::default();
        for word in words {
            let flag = if is(word, "nx") {
                &mut found.if_none
            } else if is(word, "xx") {
                &mut found.if_any
            } else if is(word, "gt") {
                &mut found.if_later
            } else if is(word, "lt") {
                &mut found.if_sooner
            } else {
                let mut line = b"ERR Unsupported option ".to_vec();
                line.extend_from_slice(printed(word, usize::MAX));
                return Err(KeyError::line(line));
            };
            *flag = true;
        }
        if found.if_none && (found.if_any || found.if_later || found.if_sooner) {
            return Err(KeyError::Redis("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if found.if_later && found.if_sooner {
            return Err(KeyError::Redis("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(found)
    }

    /// Whether they hold. No expiry is later than any.
    fn hold(self, current: Option<i64>, new: i64) -> bool {
        match current {
            None => !self.if_any && !self.if_later,
            Some(_) if self.if_none => false,
            Some(current) => (new > current || !self.if_later) && (new < current || !self.if_sooner),
        }
    }
}

/// Reads and changes what a name stands for; none where nothing can have the name.
fn change<R>(
    session: &mut KeySession,
    name: &[u8],
    f: impl FnOnce(&mut Entry<'_>, &[Datum<'_>]) -> Outcome<R>,
) -> Outcome<Option<R>> {
    match named(session, name) {
        Named::Plain => {
            let key = [Datum::Bytea(name)];
            access::change(&mut session.running, &session.service.kv, &key, |entry| f(entry, &key)).map(Some)
        }
        Named::Row(row) => row.change(&mut session.running, f).map(Some),
        Named::Nothing => Ok(None),
    }
}

/// Says how long the row of an entry lives, and changes nothing else.
pub(super) fn set_expiry(entry: &mut Entry<'_>, key: &[Datum<'_>], expiry: Expiry) -> Outcome {
    entry.apply(Mutation::Living { write: &Mutation::Update { key, changes: &[] }, expiry })?;
    Ok(())
}

fn expire_by(
    session: &mut KeySession,
    args: &Args<'_>,
    reply: &mut Reply<'_>,
    (unit, command): (Unit, &str),
) -> Outcome {
    let conditions = Conditions::parse(args.from(3))?;
    let amount = integer_or_error(args.at(2))?;
    let now = session.now();
    let at = unit.millis(amount, now).ok_or_else(|| invalid(command))?;
    let done = change(session, args.at(1), |entry, key| {
        let Some(current) = entry.row().map(|row| row.expires_at()) else { return Ok(false) };
        if !conditions.hold(current, at) {
            return Ok(false);
        }
        if at <= now {
            delete(entry, key)?;
        } else {
            set_expiry(entry, key, Expiry::At(at))?;
        }
        Ok(true)
    })?;
    reply.integer(i64::from(done.unwrap_or(false)));
    Ok(())
}

pub(super) fn expire(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    expire_by(session, args, reply, (Unit::EX, "expire"))
}

pub(super) fn pexpire(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    expire_by(session, args, reply, (Unit::PX, "pexpire"))
}

pub(super) fn expireat(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    expire_by(session, args, reply, (Unit::EXAT, "expireat"))
}

pub(super) fn pexpireat(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    expire_by(session, args, reply, (Unit::PXAT, "pexpireat"))
}

/// When what a name stands for ends: none where nothing is there, none within where it does not end.
fn expires_at(session: &mut KeySession, name: &[u8]) -> Outcome<Option<Option<i64>>> {
    match named(session, name) {
        Named::Plain => access::peek(&mut session.running, &session.service.kv, &[Datum::Bytea(name)], |row| {
            row.map(|row| row.expires_at())
        }),
        Named::Row(row) => row.peek(&mut session.running, |row| row.map(|row| row.expires_at())),
        Named::Nothing => Ok(None),
    }
}

/// Milliseconds, as the unit of a reply shows them.
fn shown(unit: Unit, millis: i64) -> i64 {
    if unit.is_seconds { millis.saturating_add(500) / 1000 } else { millis }
}

fn time_left(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>, unit: Unit) -> Outcome {
    let found = expires_at(session, args.at(1))?;
    reply.integer(match found {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) if unit.is_relative => shown(unit, (at - session.now()).max(0)),
        Some(Some(at)) => shown(unit, at),
    });
    Ok(())
}

pub(super) fn ttl(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    time_left(session, args, reply, Unit::EX)
}

pub(super) fn pttl(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    time_left(session, args, reply, Unit::PX)
}

pub(super) fn expiretime(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    time_left(session, args, reply, Unit::EXAT)
}

pub(super) fn pexpiretime(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    time_left(session, args, reply, Unit::PXAT)
}

pub(super) fn persist(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let done = change(session, args.at(1), |entry, key| {
        let expires = entry.row().is_some_and(|row| row.expires_at().is_some());
        if expires {
            set_expiry(entry, key, Expiry::Never)?;
        }
        Ok(expires)
    })?;
    reply.integer(i64::from(done.unwrap_or(false)));
    Ok(())
}

impl KeySession {
    /// The time of the store, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.service.shared.engine.store().now_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_as_redis_does() {
        let hold = |words: &str, current, new| {
            Conditions::parse(words.split_whitespace().map(str::as_bytes)).unwrap().hold(current, new)
        };
        assert!(hold("", None, 5) && hold("", Some(9), 5));
        assert!(hold("nx", None, 5) && !hold("NX", Some(9), 5));
        assert!(!hold("xx", None, 5) && hold("xx", Some(9), 5));
        assert!(!hold("gt", None, 5) && !hold("gt", Some(5), 5) && hold("gt", Some(4), 5));
        assert!(hold("lt", None, 5) && !hold("lt", Some(5), 5) && hold("lt", Some(6), 5));
        assert!(!hold("xx lt", None, 5) && hold("xx lt", Some(6), 5));
    }

    #[test]
    fn times_that_do_not_fit_are_none() {
        assert_eq!(Unit::EX.millis(2, 1_000), Some(3_000));
        assert_eq!(Unit::EXAT.millis(2, 1_000), Some(2_000));
        assert_eq!(Unit::EX.millis(i64::MAX / 1000 + 1, 0), None);
        assert_eq!(Unit::PX.millis(i64::MAX, 1), None);
        assert_eq!(Unit::PXAT.millis(i64::MAX, 1), Some(i64::MAX));
    }
}

//! Commands about the connection itself: HELLO, AUTH, PING, ECHO, SELECT, CLIENT, RESET, QUIT.
//!
//! Called through the command table. Touches no key.

use ashlar_protocol::resp::Version;

use super::arguments::{Args, integer, integer_or_error, is};
use super::clients::{Client, Words};
use super::error::{KeyError, Outcome};
use super::{KeySession, Replies, Reply, check_bytes, printed};

pub(super) fn ping(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        // Among messages, it looks like one.
        1 | 2 if session.is_subscribed() && session.version == Version::Resp2 => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(args.at(1));
        }
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(KeyError::arity("ping")),
    }
    Ok(())
}

pub(super) fn echo(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(args.at(1));
    Ok(())
}

pub(super) fn quit(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    session.closing = true;
    reply.ok();
    Ok(())
}

pub(super) fn reset(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_version(session, Version::Resp2);
    session.replies = Replies::On;
    session.leave_transaction();
    session.leave_channels();
    session.client().change_words(|words| words.name.clear());
    reply.simple("RESET");
    Ok(())
}

/// Refuses the number of a database that is not there.
pub(super) fn check_database(number: &[u8]) -> Outcome {
    let index = integer_or_error(number)?;
    if i32::try_from(index).is_err() {
        let text = "ERR value is out of range, value must between -2147483648 and 2147483647";
        return Err(KeyError::Redis(text));
    }
    if index != 0 {
        return Err(KeyError::Redis("ERR DB index is out of range"));
    }
    Ok(())
}

pub(super) fn select(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    check_database(args.at(1))?;
    reply.ok();
    Ok(())
}

/// There are no passwords yet: as in a Redis whose default user has none, that user is always let in.
fn authenticate(user: &[u8]) -> Outcome {
    if user == b"default" {
        return Ok(());
    }
    Err(KeyError::Redis("WRONGPASS invalid username-password pair or user is disabled."))
}

pub(super) fn auth(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => {
            return Err(KeyError::Redis(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        3 => authenticate(args.at(1))?,
        _ => return Err(KeyError::SYNTAX),
    }
    reply.ok();
    Ok(())
}

pub(super) fn hello(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut version = session.version;
    if args.len() > 1 {
        let number = integer(args.at(1));
        let number = number.ok_or(KeyError::Redis("ERR Protocol version is not an integer or out of range"))?;
        version = match number {
            2 => Version::Resp2,
            3 => Version::Resp3,
            _ => return Err(KeyError::Redis("NOPROTO unsupported protocol version")),
        };
    }
    let (mut at, mut name) = (2, None);
    while at < args.len() {
        let (word, left) = (args.at(at), args.len() - at - 1);
        if is(word, "auth") && left >= 2 {
            authenticate(args.at(at + 1))?;
            at += 3;
        } else if is(word, "setname") && left >= 1 {
            name = Some(client_name(args.at(at + 1))?);
            at += 2;
        } else {
            let mut line = b"ERR Syntax error in HELLO option '".to_vec();
            line.extend_from_slice(printed(word, usize::MAX));
            line.push(b'\'');
            return Err(KeyError::line(line));
        }
    }
    // Everything is valid: only now does anything change.
    if let Some(name) = name {
        session.client().change_words(|words| words.name = name);
    }
    set_version(session, version);
    // The reply already speaks the new version, and the reply's writer the old one.
    let mut greeting = Vec::new();
    write_greeting(session, &mut Reply::new(&mut greeting, version));
    reply.append(&greeting);
    Ok(())
}

fn write_greeting(session: &KeySession, reply: &mut Reply<'_>) {
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"ashlar");
    reply.bulk(b"version");
    reply.bulk(env!("CARGO_PKG_VERSION").as_bytes());
    reply.bulk(b"proto");
    reply.integer(if session.version == Version::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(session.client().id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn set_version(session: &mut KeySession, version: Version) {
    session.version = version;
    session.client().speaks_resp3(version == Version::Resp3);
}

/// Bytes of a word that a client says about itself: it is kept, and CLIENT LIST shows it to everybody. (Redis has no such
/// bound.)
const WORD_BYTES_MAX: usize = 4096;

/// A word that CLIENT LIST can show without ambiguity; `None`: it cannot.
fn plain_word(word: &[u8]) -> Outcome<Option<String>> {
    if word.len() > WORD_BYTES_MAX {
        return Err(KeyError::line(format!("ERR what a client says about itself has {WORD_BYTES_MAX} bytes at most")));
    }
    let plain = word.iter().all(u8::is_ascii_graphic);
    Ok(plain.then(|| String::from_utf8_lossy(word).into_owned()))
}

fn client_name(name: &[u8]) -> Outcome<String> {
    plain_word(name)?.ok_or(KeyError::Redis("ERR Client names cannot contain spaces, newlines or special characters."))
}

pub(super) fn client_setname(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = client_name(args.at(2))?;
    session.client().change_words(|words| words.name = name);
    reply.ok();
    Ok(())
}

pub(super) fn client_getname(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match session.client().words() {
        Words { name, .. } if name.is_empty() => reply.null(),
        Words { name, .. } => reply.bulk(name.as_bytes()),
    }
    Ok(())
}

pub(super) fn client_setinfo(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (option, value) = (args.at(2), plain_word(args.at(3))?);
    let refused =
        |option: &str| KeyError::line(format!("ERR {option} cannot contain spaces, newlines or special characters."));
    if is(option, "lib-name") {
        let value = value.ok_or_else(|| refused("lib-name"))?;
        session.client().change_words(|words| words.library = value);
    } else if is(option, "lib-ver") {
        let value = value.ok_or_else(|| refused("lib-ver"))?;
        session.client().change_words(|words| words.library_version = value);
    } else {
        let mut line = b"ERR Unrecognized option '".to_vec();
        line.extend_from_slice(printed(option, usize::MAX));
        line.push(b'\'');
        return Err(KeyError::line(line));
    }
    reply.ok();
    Ok(())
}

pub(super) fn client_id(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(session.client().id as i64);
    Ok(())
}

pub(super) fn client_info(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut text = String::new();
    session.client().ran(session.last);
    session.client().line(&mut text);
    reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn client_list(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    session.client().ran(session.last);
    let clients = session.service.clients();
    let mut text = String::new();
    if args.len() >= 4 && is(args.at(2), "id") {
        // In the order in which they are asked for, and as often.
        for id in args.from(3) {
            let id = integer(id).ok_or(KeyError::Redis("ERR Invalid client ID"))?;
            if let Some(client) = u64::try_from(id).ok().and_then(|id| clients.find(id)) {
                client.line(&mut text);
                check_bytes(text.len())?;
            }
        }
    } else {
        let kind = match args.len() {
            2 => None,
            4 if is(args.at(2), "type") => Some(ClientKind::of_word(args.at(3))?),
            _ => return Err(KeyError::SYNTAX),
        };
        let all = clients.all();
        let wanted = all.iter().filter(|client| kind.is_none_or(|kind| kind.takes(client)));
        wanted.for_each(|client| client.line(&mut text));
    }
    reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// A type of clients.
#[derive(Clone, Copy)]
enum ClientKind {
    Normal,
    /// Those that listen to channels.
    Subscribers,
    /// One that no connection here has.
    Replication,
}

impl ClientKind {
    fn takes(self, client: &Client) -> bool {
        match self {
            Self::Normal => !client.is_listening(),
            Self::Subscribers => client.is_listening(),
            Self::Replication => false,
        }
    }

    /// An error if Redis does not know it either.
    fn of_word(name: &[u8]) -> Outcome<Self> {
        if is(name, "normal") {
            return Ok(Self::Normal);
        }
        if is(name, "pubsub") {
            return Ok(Self::Subscribers);
        }
        if ["master", "replica", "slave"].into_iter().any(|known| is(name, known)) {
            return Ok(Self::Replication);
        }
        let mut line = b"ERR Unknown client type '".to_vec();
        line.extend_from_slice(printed(name, usize::MAX));
        line.push(b'\'');
        Err(KeyError::line(line))
    }
}

/// Which clients CLIENT KILL closes: those that fit every filter given.
#[derive(Default)]
struct KillFilter {
    id: Option<u64>,
    address: Option<String>,
    local_address: Option<String>,
    kind: Option<ClientKind>,
    spare_me: bool,
}

impl KillFilter {
    fn parse(args: &Args<'_>) -> Outcome<Self> {
        let mut filter = Self { spare_me: true, ..Self::default() };
        let mut at = 2;
        while at < args.len() {
            if at + 1 == args.len() {
                return Err(KeyError::SYNTAX);
            }
            filter.add(args.at(at), args.at(at + 1))?;
            at += 2;
        }
        Ok(filter)
    }

    fn add(&mut self, option: &[u8], value: &[u8]) -> Outcome {
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        if is(option, "id") {
            let id = integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            self.id = Some(id.ok_or(KeyError::Redis("ERR client-id should be greater than 0"))?);
        } else if is(option, "addr") {
            self.address = text();
        } else if is(option, "laddr") {
            self.local_address = text();
        } else if is(option, "type") {
            self.kind = Some(ClientKind::of_word(value)?);
        } else if is(option, "user") {
            if value != b"default" {
                let mut line = b"ERR No such user '".to_vec();
                line.extend_from_slice(printed(value, usize::MAX));
                line.push(b'\'');
                return Err(KeyError::line(line));
            }
        } else if is(option, "skipme") && is(value, "yes") {
            self.spare_me = true;
        } else if is(option, "skipme") && is(value, "no") {
            self.spare_me = false;
        } else {
            return Err(KeyError::SYNTAX);
        }
        Ok(())
    }

    fn takes(&self, client: &Client, me: u64) -> bool {
        let spared = self.spare_me && client.id == me;
        !spared
            && self.kind.is_none_or(|kind| kind.takes(client))
            && self.id.is_none_or(|id| id == client.id)
            && self.address.as_ref().is_none_or(|address| *address == client.peer.to_string())
            && self.local_address.as_ref().is_none_or(|address| *address == client.local.to_string())
    }
}

pub(super) fn client_kill(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    // The old form, CLIENT KILL address, closes one connection or fails, and does not spare its own.
    let old_form = args.len() == 3;
    let filter = if old_form {
        KillFilter { address: Some(String::from_utf8_lossy(args.at(2)).into_owned()), ..KillFilter::default() }
    } else {
        KillFilter::parse(args)?
    };
    let me = session.client().id;
    let mut killed = 0;
    for client in session.service.clients().all() {
        if filter.takes(&client, me) {
            killed += 1;
            if client.id == me {
                // This reply still leaves.
                session.closing = true;
            } else {
                client.kill();
            }
        }
    }
    match (old_form, killed) {
        (true, 0) => return Err(KeyError::Redis("ERR No such client")),
        (true, _) => reply.ok(),
        (false, killed) => reply.integer(killed),
    }
    Ok(())
}

/// NO-EVICT and NO-TOUCH: switches for things that never happen here, so both positions are true already.
pub(super) fn client_switch(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if !is(args.at(2), "on") && !is(args.at(2), "off") {
        return Err(KeyError::SYNTAX);
    }
    reply.ok();
    Ok(())
}

pub(super) fn client_reply(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mode = args.at(2);
    if is(mode, "on") {
        session.replies = Replies::On;
        reply.ok();
    } else if is(mode, "off") {
        session.replies = Replies::Off;
    } else if is(mode, "skip") {
        // While replies are off, they stay off.
        if session.replies != Replies::Off {
            session.replies = Replies::SkipTwo;
        }
    } else {
        return Err(KeyError::SYNTAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_short_and_plain() {
        let longest = "n".repeat(WORD_BYTES_MAX);
        assert_eq!(client_name(longest.as_bytes()).unwrap(), longest);
        for name in [format!("{longest}n"), "two words".to_owned(), "line\n".to_owned()] {
            assert!(client_name(name.as_bytes()).is_err(), "{} bytes", name.len());
        }
    }
}

//! SUBSCRIBE, UNSUBSCRIBE and their variants for patterns, PUBLISH and PUBSUB.
//!
//! Called through the command table. Messages that a transaction publishes are sent when it has committed.

use std::sync::Arc;

use ashlar_protocol::resp::{ReplyWriter, Version};

use super::arguments::Args;
use super::error::{KeyError, Outcome};
use super::subscriptions::{Kind, PATTERN_WORK, Subscriptions};
use super::table::KnownCommand;
use super::{KeySession, Reply};

/// What a transaction is going to publish: channel and message.
pub(super) type Said = (Box<[u8]>, Box<[u8]>);

impl KeySession {
    /// Writes what others have published for this connection.
    pub fn deliver(&mut self, out: &mut Vec<u8>) {
        if let Some(subscriptions) = &self.subscriptions {
            subscriptions.deliver(&mut ReplyWriter::new(out, self.version));
            self.reply_memory.keep_anyway(out.capacity());
        }
    }

    /// Resolves when there is something to deliver; never for a connection that listens to nothing.
    pub async fn published(&self) {
        match &self.subscriptions {
            Some(subscriptions) => subscriptions.arrived().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the connection listens to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Whether the last command has said what is listened to.
    pub(super) fn has_pushed(&self) -> bool {
        ["subscribe", "unsubscribe", "psubscribe", "punsubscribe"].contains(&self.last.0)
    }

    /// Refuses what a connection cannot do that speaks RESP2 and listens: there, replies could not be told from messages.
    pub(super) fn check_listens_only(&self, command: &KnownCommand) -> Outcome {
        const ALLOWED: [&str; 7] = ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ping", "quit", "reset"];
        if self.version == Version::Resp3 || ALLOWED.contains(&command.name) {
            return Ok(());
        }
        let (name, subcommand) = self.last;
        let full_name = subcommand.map_or_else(|| name.to_owned(), |subcommand| format!("{name}|{subcommand}"));
        Err(KeyError::line(format!(
            "ERR Can't execute '{full_name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        )))
    }

    /// Says what a transaction had to say.
    pub(super) fn publish_said(&mut self, said: Vec<Said>) {
        for (channel, message) in said {
            let heard = self.service.channels.publish(&channel, &message);
            self.running.charge_work(heard.work);
        }
    }

    /// Listens to nothing any more.
    pub(super) fn leave_channels(&mut self) {
        self.subscriptions = None;
        self.client().listens(0, 0);
    }

    /// How many names and patterns it listens to. Where there are none, nothing is left of the rest.
    fn note_subscriptions(&mut self) -> usize {
        let (names, patterns) = self.subscriptions.as_ref().map_or((0, 0), |subscriptions| subscriptions.counts());
        if names + patterns == 0 {
            self.subscriptions = None;
        }
        self.client().listens(names, patterns);
        names + patterns
    }
}

/// Says that a name is listened to, or no more, and to how many it is.
fn confirm(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}

fn listen(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>, (kind, word): (Kind, &str)) -> Outcome {
    let service = Arc::clone(&session.service);
    let client = Arc::clone(session.client());
    let subscriptions = session.subscriptions.get_or_insert_with(|| {
        let store = service.shared.engine.store();
        Box::new(Subscriptions::new(&service.channels, &client, store.reservation(), store.reservation()))
    });
    if !subscriptions.may_add(kind, args.from(1)) {
        session.note_subscriptions();
        return Err(KeyError::Redis(
            "ERR too many patterns: a connection listens to 16384 at most, of 1048576 bytes together",
        ));
    }
    if let Err(error) = subscriptions.reserve(args.from(1)) {
        session.note_subscriptions();
        return Err(error.into());
    }
    for name in args.from(1) {
        subscriptions.add(kind, name);
        let (names, patterns) = subscriptions.counts();
        confirm(reply, word, Some(name), names + patterns);
    }
    session.note_subscriptions();
    Ok(())
}

fn unlisten(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>, (kind, word): (Kind, &str)) -> Outcome {
    let Some(subscriptions) = &mut session.subscriptions else {
        args.from(1).for_each(|name| confirm(reply, word, Some(name), 0));
        if args.len() == 1 {
            confirm(reply, word, None, 0);
        }
        return Ok(());
    };
    let all = if args.len() == 1 { subscriptions.all(kind) } else { Vec::new() };
    let mut gone: Vec<(&[u8], usize)> = Vec::new();
    for name in all.iter().map(|name| &**name).chain(args.from(1)) {
        subscriptions.remove(kind, name);
        let (names, patterns) = subscriptions.counts();
        gone.push((name, names + patterns));
    }
    // After these words nothing comes of what they name.
    subscriptions.deliver(reply);
    for (name, count) in &gone {
        confirm(reply, word, Some(name), *count);
    }
    let count = session.note_subscriptions();
    if gone.is_empty() {
        confirm(reply, word, None, count);
    }
    Ok(())
}

pub(super) fn subscribe(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen(session, args, reply, (Kind::Name, "subscribe"))
}

pub(super) fn psubscribe(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen(session, args, reply, (Kind::Pattern, "psubscribe"))
}

pub(super) fn unsubscribe(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    unlisten(session, args, reply, (Kind::Name, "unsubscribe"))
}

pub(super) fn punsubscribe(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    unlisten(session, args, reply, (Kind::Pattern, "punsubscribe"))
}

pub(super) fn publish(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (channel, message) = (args.at(1), args.at(2));
    let heard = if session.running.transaction.is_some() {
        session.running.said.push((channel.into(), message.into()));
        session.service.channels.receivers(channel)
    } else {
        session.service.channels.publish(channel, message)
    };
    session.running.charge_work(heard.work);
    reply.integer(heard.receivers as i64);
    Ok(())
}

pub(super) fn channels(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() > 3 {
        let mut line = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
        line.extend_from_slice(args.at(1));
        line.extend_from_slice(b"'. Try PUBSUB HELP.");
        return Err(KeyError::line(line));
    }
    let names = session.service.channels.names(if args.len() == 3 { args.at(2) } else { b"*" });
    // All are compared, which the reply does not say.
    let (all, _) = session.service.channels.counts();
    session.running.charge_work(PATTERN_WORK as u64 * all as u64);
    reply.array(names.len());
    for name in &names {
        reply.bulk(name);
        super::check_length(reply)?;
    }
    Ok(())
}

pub(super) fn numsub(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(2 * (args.len() - 2));
    for name in args.from(2) {
        reply.bulk(name);
        reply.integer(session.service.channels.subscribers(name) as i64);
    }
    Ok(())
}

pub(super) fn numpat(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (_, patterns) = session.service.channels.counts();
    reply.integer(patterns as i64);
    Ok(())
}

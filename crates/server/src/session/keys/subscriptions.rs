//! Channels of PUBLISH and SUBSCRIBE: the subscribers of each name and pattern, and the messages on their way to them.
//!
//! One instance for a server, separate from the channels of NOTIFY. A connection has its [`Subscriptions`]; publishers
//! put messages into its mailbox, from which its door takes them. Nobody waits for a subscriber: one that does not read
//! is disconnected, as in Redis.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ashlar_base::Error;
use ashlar_store::Reservation;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::clients::Client;
use super::{Reply, glob};

/// Bytes of messages that wait for one connection, after which it is closed.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Bytes of a message beside its texts, with its place in a mailbox.
const MESSAGE_BYTES: usize = 96;

/// Bytes of a name beside its text, in the lists that it is in.
const NAME_BYTES: usize = 256;

/// What is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One channel.
    Name,
    /// All channels whose names match.
    Pattern,
}

/// What is said to one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    /// What it listens to, if that is a pattern.
    pattern: Option<Arc<[u8]>>,
    channel: Arc<[u8]>,
    payload: Arc<[u8]>,
}

impl Message {
    fn bytes(&self) -> usize {
        MESSAGE_BYTES + self.channel.len() + self.payload.len()
    }

    fn write(&self, reply: &mut Reply<'_>) {
        match &self.pattern {
            Some(pattern) => {
                reply.push(4);
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
            None => {
                reply.push(3);
                reply.bulk(b"message");
            }
        }
        reply.bulk(&self.channel);
        reply.bulk(&self.payload);
    }
}

/// Messages that wait for one connection.
struct Waiting {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Pays for them; what it pays for more is given back when nothing waits.
    memory: Reservation,
}

/// A connection that listens, as others reach it.
struct Subscriber {
    client: Arc<Client>,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

impl Subscriber {
    /// Puts a message into the mailbox, or closes the connection where there is no room.
    fn put(&self, message: Message) {
        let bytes = message.bytes();
        let has_room = {
            let mut waiting = self.waiting.lock();
            // One alone may be as long as any value.
            let has_room = waiting.bytes == 0 || waiting.bytes + bytes <= WAITING_BYTES_MAX;
            let has_room = has_room && waiting.memory.grow_exactly(bytes).is_ok();
            if has_room {
                waiting.bytes += bytes;
                waiting.messages.push_back(message);
            }
            has_room
        };
        if has_room {
            // Leaves a permit behind where nobody waits yet.
            self.arrived.notify_one();
        } else {
            self.client.kill();
        }
    }

    /// What has arrived.
    fn take(&self) -> VecDeque<Message> {
        let mut waiting = self.waiting.lock();
        if waiting.messages.is_empty() {
            return VecDeque::new();
        }
        waiting.bytes = 0;
        waiting.memory.clear();
        std::mem::take(&mut waiting.messages)
    }

    fn has_mail(&self) -> bool {
        !self.waiting.lock().messages.is_empty()
    }
}

/// Those who listen, by the ids of their connections.
type Subscribers = BTreeMap<u64, Arc<Subscriber>>;

#[derive(Default)]
struct Listening {
    names: BTreeMap<Arc<[u8]>, Subscribers>,
    patterns: BTreeMap<Arc<[u8]>, Subscribers>,
}

impl Listening {
    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Arc<[u8]>, Subscribers> {
        match kind {
            Kind::Name => &mut self.names,
            Kind::Pattern => &mut self.patterns,
        }
    }

    /// The patterns that a channel's name matches, with those who listen to them.
    fn matching<'a>(&'a self, channel: &'a [u8]) -> impl Iterator<Item = (&'a Arc<[u8]>, &'a Subscribers)> {
        self.patterns.iter().filter(move |(pattern, _)| glob::matches(pattern, channel))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Channels(Mutex<Listening>);

impl Channels {
    /// Says something to everybody who listens: how often it was said.
    pub(super) fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let listening = self.0.lock();
        let mut count = 0;
        let mut texts: Option<[Arc<[u8]>; 2]> = None;
        let mut say = |pattern: Option<&Arc<[u8]>>, subscribers: &Subscribers| {
            // Copied once, and only if anybody hears it.
            let [channel, payload] = texts.get_or_insert_with(|| [channel.into(), payload.into()]);
            for subscriber in subscribers.values() {
                let (channel, payload) = (Arc::clone(channel), Arc::clone(payload));
                subscriber.put(Message { pattern: pattern.cloned(), channel, payload });
                count += 1;
            }
        };
        if let Some(subscribers) = listening.names.get(channel) {
            say(None, subscribers);
        }
        for (pattern, subscribers) in listening.matching(channel) {
            say(Some(pattern), subscribers);
        }
        count
    }

    /// How often something would be said on a channel.
    pub(super) fn receivers(&self, channel: &[u8]) -> usize {
        let listening = self.0.lock();
        let by_pattern: usize = listening.matching(channel).map(|(_, subscribers)| subscribers.len()).sum();
        listening.names.get(channel).map_or(0, Subscribers::len) + by_pattern
    }

    /// How many connections listen to a channel by its name.
    pub(super) fn subscribers(&self, channel: &[u8]) -> usize {
        self.0.lock().names.get(channel).map_or(0, Subscribers::len)
    }

    /// The channels that are listened to by their names, and match a pattern.
    pub(super) fn names(&self, pattern: &[u8]) -> Vec<Arc<[u8]>> {
        self.0.lock().names.keys().filter(|name| glob::matches(pattern, name)).cloned().collect()
    }

    /// How many names and how many patterns are listened to.
    pub(super) fn counts(&self) -> (usize, usize) {
        let listening = self.0.lock();
        (listening.names.len(), listening.patterns.len())
    }
}

/// What one connection listens to. It ends with this.
pub(super) struct Subscriptions {
    channels: Arc<Channels>,
    me: Arc<Subscriber>,
    names: BTreeSet<Arc<[u8]>>,
    patterns: BTreeSet<Arc<[u8]>>,
    /// Pays for the names, of which it has paid for so many bytes at once.
    memory: Reservation,
    bytes: usize,
    charged: usize,
}

impl Subscriptions {
    /// Of a connection that listens to nothing yet. `memory` pays for names, `mail` for what arrives.
    pub(super) fn new(channels: &Arc<Channels>, client: &Arc<Client>, memory: Reservation, mail: Reservation) -> Self {
        let waiting = Waiting { messages: VecDeque::new(), bytes: 0, memory: mail };
        let me = Subscriber { client: Arc::clone(client), waiting: Mutex::new(waiting), arrived: Notify::new() };
        Self {
            channels: Arc::clone(channels),
            me: Arc::new(me),
            names: BTreeSet::new(),
            patterns: BTreeSet::new(),
            memory,
            bytes: 0,
            charged: 0,
        }
    }

    /// How many names and how many patterns it listens to.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.names.len(), self.patterns.len())
    }

    /// All names of a kind.
    pub(super) fn all(&self, kind: Kind) -> Vec<Arc<[u8]>> {
        match kind {
            Kind::Name => self.names.iter().cloned().collect(),
            Kind::Pattern => self.patterns.iter().cloned().collect(),
        }
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeSet<Arc<[u8]>> {
        match kind {
            Kind::Name => &mut self.names,
            Kind::Pattern => &mut self.patterns,
        }
    }

    /// Charges names that are about to be listened to.
    ///
    /// # Errors
    /// 53200 over the bound; then nothing more is charged.
    pub(super) fn reserve<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) -> Result<(), Error> {
        let bytes = self.bytes + names.map(|name| NAME_BYTES + name.len()).sum::<usize>();
        if bytes > self.charged {
            self.memory.grow_exactly(bytes - self.charged)?;
            self.charged = bytes;
        }
        Ok(())
    }

    /// Listens to a name from now on, for which there was charged.
    pub(super) fn add(&mut self, kind: Kind, name: &[u8]) {
        if self.of(kind).contains(name) {
            return;
        }
        let text: Arc<[u8]> = name.into();
        self.bytes += NAME_BYTES + text.len();
        self.of(kind).insert(Arc::clone(&text));
        let mut listening = self.channels.0.lock();
        listening.of(kind).entry(text).or_default().insert(self.me.client.id, Arc::clone(&self.me));
    }

    /// The opposite.
    pub(super) fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.of(kind).remove(name) {
            self.bytes -= NAME_BYTES + name.len();
            self.leave(kind, name);
        }
    }

    fn leave(&self, kind: Kind, name: &[u8]) {
        let mut listening = self.channels.0.lock();
        let all = listening.of(kind);
        if let Some(subscribers) = all.get_mut(name) {
            subscribers.remove(&self.me.client.id);
            if subscribers.is_empty() {
                all.remove(name);
            }
        }
    }

    /// Writes what has arrived.
    pub(super) fn deliver(&self, reply: &mut Reply<'_>) {
        for message in self.me.take() {
            message.write(reply);
        }
    }

    /// Resolves when there is something to deliver.
    pub(super) async fn arrived(&self) {
        while !self.me.has_mail() {
            self.me.arrived.notified().await;
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| self.leave(Kind::Name, name));
        self.patterns.iter().for_each(|pattern| self.leave(Kind::Pattern, pattern));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ashlar_protocol::resp::Version;
    use ashlar_store::{Store, StoreConfig};

    use super::super::clients::Clients;
    use super::*;

    fn subscriptions(channels: &Arc<Channels>, clients: &Clients, store: &Store) -> Subscriptions {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let client = Arc::clone(clients.register(address, address).client());
        Subscriptions::new(channels, &client, store.reservation(), store.reservation())
    }

    fn delivered(subscriptions: &Subscriptions) -> String {
        let mut out = Vec::new();
        subscriptions.deliver(&mut Reply::new(&mut out, Version::Resp2));
        let text = String::from_utf8(out).unwrap();
        text.lines().filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_said_arrives_at_those_who_listen() {
        let (channels, clients) = (Arc::new(Channels::default()), Clients::default());
        let store = Store::new(StoreConfig::default());
        let mut first = subscriptions(&channels, &clients, &store);
        let mut second = subscriptions(&channels, &clients, &store);
        first.reserve([&b"a"[..]].into_iter()).unwrap();
        first.add(Kind::Name, b"a");
        first.add(Kind::Name, b"a");
        second.add(Kind::Name, b"b");
        second.add(Kind::Pattern, b"[ab]");
        assert_eq!(
            (channels.publish(b"a", b"1"), channels.publish(b"b", b"2"), channels.publish(b"c", b"3")),
            (2, 2, 0)
        );
        assert_eq!((channels.receivers(b"a"), channels.subscribers(b"a"), channels.counts()), (2, 1, (2, 1)));
        assert_eq!(delivered(&first), "message a 1");
        assert_eq!(delivered(&second), "pmessage [ab] a 1 message b 2 pmessage [ab] b 2");
        assert_eq!(delivered(&second), "");
        second.remove(Kind::Pattern, b"[ab]");
        second.remove(Kind::Pattern, b"other");
        assert_eq!(channels.publish(b"a", b"4"), 1);
        assert_eq!(second.counts(), (1, 0));
        assert_eq!(channels.names(b"*").len(), 2);
        drop((first, second));
        assert_eq!(channels.counts(), (0, 0));
        assert_eq!(store.memory_used(), 0);
    }

    #[test]
    fn who_does_not_read_is_closed_and_holds_nothing_more() {
        let (channels, clients) = (Arc::new(Channels::default()), Clients::default());
        let store = Store::new(StoreConfig::default());
        let mut sleeper = subscriptions(&channels, &clients, &store);
        sleeper.add(Kind::Name, b"a");
        let long = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            channels.publish(b"a", &long);
        }
        assert!(sleeper.me.client.is_killed());
        assert!(sleeper.me.waiting.lock().bytes <= WAITING_BYTES_MAX);
        assert!(store.memory_used() <= 2 * WAITING_BYTES_MAX as u64);
        assert!(!delivered(&sleeper).is_empty());
        assert_eq!(sleeper.me.waiting.lock().bytes, 0);
    }
}

//! Channels of PUBLISH and SUBSCRIBE: the subscribers of each name and pattern, and the messages on their way to them.
//!
//! One instance for a server, separate from the channels of NOTIFY. A connection has its [`Subscriptions`]; publishers
//! put messages into its mailbox, from which its door takes them. Nobody waits for a subscriber: one that does not read
//! is disconnected, as in Redis. Nor does anybody wait for patterns to be compared: a copy of the list is compared
//! outside the lock, and again if the list has changed meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ashlar_base::Error;
use ashlar_store::Reservation;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::clients::Client;
use super::{Reply, glob};

/// Bytes of messages that wait for one connection, after which it is closed.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Bytes of a message beside its texts, with its place in a mailbox.
const MESSAGE_BYTES: usize = 96;

/// Bytes of a name beside its text, in the lists that it is in.
const NAME_BYTES: usize = 256;

/// Patterns of one connection, and their bytes: each PUBLISH of anybody is compared with all of them.
const PATTERNS_MAX: usize = 1 << 14;
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// How often patterns are compared beside the lock for one PUBLISH, where others change them meanwhile, before that is done under it.
const ROUNDS: usize = 3;

/// What a pattern takes to be compared besides its bytes, as so many of them.
pub(super) const PATTERN_WORK: usize = 64;

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

/// The texts of patterns, in order.
type Texts = Arc<[Arc<[u8]>]>;

#[derive(Default)]
struct Listening {
    names: BTreeMap<Arc<[u8]>, Subscribers>,
    patterns: BTreeMap<Arc<[u8]>, Subscribers>,
    /// Those of the patterns, since somebody has asked: until one comes or goes.
    texts: Option<Texts>,
}

impl Listening {
    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Arc<[u8]>, Subscribers> {
        match kind {
            Kind::Name => &mut self.names,
            Kind::Pattern => &mut self.patterns,
        }
    }

    fn add(&mut self, kind: Kind, text: Arc<[u8]>, subscriber: &Arc<Subscriber>) {
        if kind == Kind::Pattern && !self.patterns.contains_key(&text) {
            self.texts = None;
        }
        self.of(kind).entry(text).or_default().insert(subscriber.client.id, Arc::clone(subscriber));
    }

    fn remove(&mut self, kind: Kind, text: &[u8], subscriber: &Subscriber) {
        let Some(subscribers) = self.of(kind).get_mut(text) else { return };
        subscribers.remove(&subscriber.client.id);
        if subscribers.is_empty() {
            self.of(kind).remove(text);
            if kind == Kind::Pattern {
                self.texts = None;
            }
        }
    }

    fn texts(&mut self) -> Texts {
        Arc::clone(self.texts.get_or_insert_with(|| self.patterns.keys().cloned().collect()))
    }

    fn has_still(&self, texts: &Texts) -> bool {
        self.texts.as_ref().is_some_and(|known| Arc::ptr_eq(known, texts))
    }
}

/// Those of some patterns that a channel's name matches.
fn matching(texts: &Texts, channel: &[u8]) -> Vec<Arc<[u8]>> {
    texts.iter().filter(|pattern| glob::matches(pattern, channel)).cloned().collect()
}

/// What became of what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// How often it was said.
    pub(super) receivers: usize,
    /// What that took, in bytes that one could go through meanwhile.
    pub(super) work: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Channels(Mutex<Listening>);

impl Channels {
    /// Locks who listens, with the patterns that a channel's name matches, and what it took to find them.
    fn listening(&self, channel: &[u8]) -> (MutexGuard<'_, Listening>, Vec<Arc<[u8]>>, usize) {
        let mut listening = self.0.lock();
        let mut work = 0;
        for round in 0..=ROUNDS {
            let texts = listening.texts();
            if texts.is_empty() {
                break;
            }
            work += texts.iter().map(|text| PATTERN_WORK + text.len()).sum::<usize>();
            if round == ROUNDS {
                let found = matching(&texts, channel);
                return (listening, found, work);
            }
            let found = MutexGuard::unlocked(&mut listening, || matching(&texts, channel));
            // Whoever has come or gone meanwhile has done so before anything is said.
            if listening.has_still(&texts) {
                return (listening, found, work);
            }
        }
        (listening, Vec::new(), work)
    }

    /// Says something to everybody who listens.
    pub(super) fn publish(&self, channel: &[u8], payload: &[u8]) -> Heard {
        let (listening, patterns, work) = self.listening(channel);
        let mut receivers = 0;
        let mut texts: Option<[Arc<[u8]>; 2]> = None;
        let mut say = |pattern: Option<&Arc<[u8]>>, subscribers: &Subscribers| {
            // Copied once, and only if anybody hears it.
            let [channel, payload] = texts.get_or_insert_with(|| [channel.into(), payload.into()]);
            for subscriber in subscribers.values() {
                let (channel, payload) = (Arc::clone(channel), Arc::clone(payload));
                subscriber.put(Message { pattern: pattern.cloned(), channel, payload });
                receivers += 1;
            }
        };
        if let Some(subscribers) = listening.names.get(channel) {
            say(None, subscribers);
        }
        for pattern in &patterns {
            if let Some(subscribers) = listening.patterns.get(pattern) {
                say(Some(pattern), subscribers);
            }
        }
        Heard { receivers, work: (work + receivers * MESSAGE_BYTES) as u64 }
    }

    /// How often something would be said on a channel.
    pub(super) fn receivers(&self, channel: &[u8]) -> Heard {
        let (listening, patterns, work) = self.listening(channel);
        let count = |pattern: &Arc<[u8]>| listening.patterns.get(pattern).map_or(0, Subscribers::len);
        let by_pattern: usize = patterns.iter().map(count).sum();
        let by_name = listening.names.get(channel).map_or(0, Subscribers::len);
        Heard { receivers: by_name + by_pattern, work: work as u64 }
    }

    /// How many connections listen to a channel by its name.
    pub(super) fn subscribers(&self, channel: &[u8]) -> usize {
        self.0.lock().names.get(channel).map_or(0, Subscribers::len)
    }

    /// The channels that are listened to by their names, and match a pattern.
    pub(super) fn names(&self, pattern: &[u8]) -> Vec<Arc<[u8]>> {
        let mut names: Vec<Arc<[u8]>> = self.0.lock().names.keys().cloned().collect();
        names.retain(|name| glob::matches(pattern, name));
        names
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

    /// Whether a connection may listen to these too.
    pub(super) fn may_add<'a>(&self, kind: Kind, names: impl Iterator<Item = &'a [u8]>) -> bool {
        if kind == Kind::Name {
            return true;
        }
        let known: usize = self.patterns.iter().map(|pattern| pattern.len()).sum();
        let new = names.filter(|name| !self.patterns.contains(*name));
        let (count, bytes) =
            new.fold((self.patterns.len(), known), |(count, bytes), name| (count + 1, bytes + name.len()));
        count <= PATTERNS_MAX && bytes <= PATTERN_BYTES_MAX
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
        self.channels.0.lock().add(kind, text, &self.me);
    }

    /// The opposite.
    pub(super) fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.of(kind).remove(name) {
            self.bytes -= NAME_BYTES + name.len();
            self.leave(kind, name);
        }
    }

    fn leave(&self, kind: Kind, name: &[u8]) {
        self.channels.0.lock().remove(kind, name, &self.me);
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
        let said = |channel: &[u8], payload: &[u8]| channels.publish(channel, payload).receivers;
        assert_eq!((said(b"a", b"1"), said(b"b", b"2"), said(b"c", b"3")), (2, 2, 0));
        assert_eq!((channels.receivers(b"a").receivers, channels.subscribers(b"a"), channels.counts()), (2, 1, (2, 1)));
        assert_eq!(delivered(&first), "message a 1");
        assert_eq!(delivered(&second), "pmessage [ab] a 1 message b 2 pmessage [ab] b 2");
        assert_eq!(delivered(&second), "");
        second.remove(Kind::Pattern, b"[ab]");
        second.remove(Kind::Pattern, b"other");
        assert_eq!(said(b"a", b"4"), 1);
        assert_eq!(second.counts(), (1, 0));
        assert_eq!(channels.names(b"*").len(), 2);
        drop((first, second));
        assert_eq!(channels.counts(), (0, 0));
        assert_eq!(store.memory_used(), 0);
    }

    #[test]
    fn patterns_have_a_bound_and_are_charged_to_who_publishes() {
        let (channels, clients) = (Arc::new(Channels::default()), Clients::default());
        let store = Store::new(StoreConfig::default());
        let mut listener = subscriptions(&channels, &clients, &store);
        let long = vec![b'x'; PATTERN_BYTES_MAX];
        assert!(listener.may_add(Kind::Pattern, [&long[..]].into_iter()));
        assert!(!listener.may_add(Kind::Pattern, [&long[..], b"y"].into_iter()));
        assert!(listener.may_add(Kind::Name, [&long[..], b"y"].into_iter()));
        let texts: Vec<Vec<u8>> = (0..PATTERNS_MAX).map(|number| format!("p{number}*").into_bytes()).collect();
        let names = || texts.iter().map(|text| &text[..]);
        assert!(listener.may_add(Kind::Pattern, names()));
        listener.reserve(names()).unwrap();
        names().for_each(|name| listener.add(Kind::Pattern, name));
        // What is listened to already is nothing more.
        assert!(listener.may_add(Kind::Pattern, names()) && !listener.may_add(Kind::Pattern, [&b"q"[..]].into_iter()));
        let said = channels.publish(b"p77", b"");
        assert_eq!(said.receivers, 2, "p7* and p77*");
        assert!(said.work > (PATTERNS_MAX * PATTERN_WORK) as u64);
        listener.remove(Kind::Pattern, b"p7*");
        assert_eq!(channels.publish(b"p77", b"").receivers, 1);
        assert!(listener.may_add(Kind::Pattern, [&b"q"[..]].into_iter()));
    }

    /// Who is confirmed hears all that is said from then on, and nothing once he has left, whoever comes and goes meanwhile.
    #[test]
    fn what_is_said_beside_others_that_come_and_go_is_heard() {
        const ROUNDS: usize = 300;
        let (channels, clients) = (Arc::new(Channels::default()), Clients::default());
        let store = Store::new(StoreConfig::default());
        let mut listener = subscriptions(&channels, &clients, &store);
        let mut other = subscriptions(&channels, &clients, &store);
        listener.add(Kind::Pattern, b"c*");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    other.add(Kind::Pattern, b"other*");
                    other.remove(Kind::Pattern, b"other*");
                }
            });
            for _ in 0..ROUNDS {
                assert_eq!(channels.publish(b"channel", b"x").receivers, 1);
            }
        });
        assert_eq!(delivered(&listener).matches("pmessage").count(), ROUNDS);
        listener.remove(Kind::Pattern, b"c*");
        assert_eq!(channels.publish(b"channel", b"x").receivers, 0);
        assert_eq!(delivered(&listener), "");
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

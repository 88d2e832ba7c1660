//! The open connections of the RESP door: what CLIENT LIST shows and CLIENT KILL closes.
//!
//! A session registers itself at its start and leaves with its [`Registration`]. Each entry is written by its own
//! connection's thread and read by others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use ashlar_base::clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// All open connections. Bounded by `server.connections_max`, which the acceptor holds.
#[derive(Default)]
pub struct Clients {
    open: Arc<Mutex<BTreeMap<u64, Arc<Client>>>>,
    last_id: AtomicU64,
}

/// One connection, as others may see it.
pub struct Client {
    pub(super) id: u64,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Microseconds since 1970.
    opened: i64,
    /// When the last batch of commands ended, in microseconds since 1970.
    active: AtomicU64,
    resp3: AtomicBool,
    /// Commands that wait for EXEC; -1 without a transaction.
    queued: AtomicI64,
    /// Names and patterns of channels that it listens to.
    names: AtomicUsize,
    patterns: AtomicUsize,
    killed: AtomicBool,
    kill: Notify,
    words: Mutex<Words>,
    last_command: Mutex<LastCommand>,
}

/// A command and, if it has one, its subcommand.
pub(super) type LastCommand = (&'static str, Option<&'static str>);

/// What the client said about itself.
#[derive(Clone, Default)]
pub(super) struct Words {
    pub(super) name: String,
    pub(super) library: String,
    pub(super) library_version: String,
}

/// A place in [`Clients`], given up when it is dropped.
pub(super) struct Registration {
    client: Arc<Client>,
    open: Arc<Mutex<BTreeMap<u64, Arc<Client>>>>,
}

impl Clients {
    /// How many connections are open.
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    pub(super) fn register(&self, peer: SocketAddr, local: SocketAddr) -> Registration {
        let now = clock::wall_micros();
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            opened: now,
            active: AtomicU64::new(now.max(0) as u64),
            resp3: AtomicBool::new(false),
            queued: AtomicI64::new(-1),
            names: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            killed: AtomicBool::new(false),
            kill: Notify::new(),
            words: Mutex::new(Words::default()),
            last_command: Mutex::new(("NULL", None)),
        });
        self.open.lock().insert(client.id, Arc::clone(&client));
        Registration { client, open: Arc::clone(&self.open) }
    }

    /// The one with this id, if it is open.
    pub(super) fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.open.lock().get(&id).cloned()
    }

    /// A copy of the list, by id.
    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        self.open.lock().values().cloned().collect()
    }
}

impl Registration {
    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.open.lock().remove(&self.client.id);
    }
}

impl Client {
    /// Resolves when another connection has killed this one.
    pub async fn killed(&self) {
        // `notify_one` leaves a permit behind, so a kill between two waits is not lost.
        while !self.is_killed() {
            self.kill.notified().await;
        }
    }

    /// Whether another connection has killed this one.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    pub(super) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.kill.notify_one();
    }

    /// Publishes what the connection did last, and that it was now.
    pub(super) fn ran(&self, command: LastCommand) {
        *self.last_command.lock() = command;
        self.active.store(clock::wall_micros().max(0) as u64, Ordering::Relaxed);
    }

    pub(super) fn speaks_resp3(&self, yes: bool) {
        self.resp3.store(yes, Ordering::Relaxed);
    }

    /// How many commands wait for EXEC; none without a transaction.
    pub(super) fn queued(&self, commands: Option<usize>) {
        self.queued.store(commands.map_or(-1, |commands| commands as i64), Ordering::Relaxed);
    }

    /// How many names and patterns of channels it listens to.
    pub(super) fn listens(&self, names: usize, patterns: usize) {
        self.names.store(names, Ordering::Relaxed);
        self.patterns.store(patterns, Ordering::Relaxed);
    }

    /// Whether it listens to any.
    pub(super) fn is_listening(&self) -> bool {
        self.names.load(Ordering::Relaxed) + self.patterns.load(Ordering::Relaxed) > 0
    }

    pub(super) fn words(&self) -> Words {
        self.words.lock().clone()
    }

    pub(super) fn change_words(&self, change: impl FnOnce(&mut Words)) {
        change(&mut self.words.lock());
    }

    /// The line of CLIENT LIST: the fields of Redis that are meaningful here.
    pub(super) fn line(&self, out: &mut String) {
        let now = clock::wall_micros();
        let seconds = |since: i64| (now - since).max(0) / 1_000_000;
        let active = i64::try_from(self.active.load(Ordering::Relaxed)).unwrap_or(now);
        let words = self.words();
        let queued = self.queued.load(Ordering::Relaxed);
        let (command, subcommand) = *self.last_command.lock();
        let bar = if subcommand.is_some() { "|" } else { "" };
        let (names, patterns) = (self.names.load(Ordering::Relaxed), self.patterns.load(Ordering::Relaxed));
        let flags = match (self.is_listening(), queued < 0) {
            (true, true) => "P",
            (true, false) => "Px",
            (false, true) => "N",
            (false, false) => "x",
        };
        let resp = if self.resp3.load(Ordering::Relaxed) { 3 } else { 2 };
        let line = write!(
            out,
            "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db=0 sub={names} psub={patterns} ssub=0 multi={queued} cmd={command}{bar}{} \
             user=default redir=-1 resp={resp} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            words.name,
            seconds(self.opened),
            seconds(active),
            subcommand.unwrap_or_default(),
            words.library,
            words.library_version,
        );
        debug_assert!(line.is_ok(), "writing to a string cannot fail");
        out.push('\n');
    }
}

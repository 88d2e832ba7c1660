//! The key-value session: Redis commands on the rows of the grid tables.
//!
//! The RESP door makes one [`KeySession`] for each connection and hands it every decoded command. A plain key is a
//! row of the table `kv`; `table:{key}` is a row of any table, as a hash of its columns. No SQL and no DataFusion
//! here, and a command waits for nothing but a row that a transaction has locked, or for another thread that removes all keys: it runs to
//! its end under the locks of the partitions it touches.

mod access;
mod arguments;
mod bits;
mod clients;
mod config;
mod connection;
mod copying;
mod describe;
mod error;
mod expiry;
mod extended;
mod floats;
mod glob;
mod hashes;
mod info;
mod keyspace;
mod lcs;
mod objects;
mod pubsub;
mod reply_memory;
mod row_name;
mod rows;
mod scan;
mod strings;
mod subscriptions;
mod table;
mod transaction;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ashlar_base::{Datum, Error, ErrorCode, clock};
use ashlar_protocol::resp::{Command, FirstArguments, ReplyWriter, Version};
use ashlar_store::{Ended, LOOKAHEAD_MAX, Region};
use parking_lot::Mutex;

use self::access::Running;
use self::arguments::Args;
pub use self::clients::{Client, Clients};
use self::clients::{LastCommand, Registration};
use self::error::{KeyError, Outcome};
use self::reply_memory::{ReplyBound, ReplyMemory};
use self::rows::TableCache;
use self::subscriptions::{Channels, Subscriptions};
use self::transaction::{Queue, Watches};
pub use self::waiting::Patience;
use super::Shared;

type Reply<'a> = ReplyWriter<'a>;

/// What all key-value sessions of the server share.
pub struct KeyService {
    shared: Arc<Shared>,
    /// The region of the table `kv`.
    kv: Arc<Region>,
    clients: Clients,
    /// The subscribers of PUBLISH.
    channels: Arc<Channels>,
    started: Instant,
    /// Connections since the start or since CONFIG RESETSTAT; so are the counts below.
    connections: AtomicU64,
    /// Commands, refused ones included.
    commands: AtomicU64,
    /// Commands answered with an error.
    errors: AtomicU64,
    /// Reads by key that found a row, and those that found none.
    hits: AtomicU64,
    misses: AtomicU64,
    /// Rows that were brought near before their commands ran.
    looked_ahead: AtomicU64,
    /// Counts of expired and evicted rows at that time.
    ended_before: Mutex<Ended>,
    /// The bound of the memory of replies that clients have not read.
    reply_bound: Arc<ReplyBound>,
}

impl KeyService {
    /// The one service of the process. The table `kv` must exist.
    pub fn new(shared: Arc<Shared>) -> Result<Arc<Self>, Error> {
        let kv = shared.engine.catalog().grid_table("kv");
        let kv = kv.ok_or_else(|| Error::internal("the table \"kv\" does not exist"))?;
        let reply_bound = ReplyBound::beside(shared.config.store.memory_mib_max << 20);
        Ok(Arc::new(Self {
            shared,
            kv,
            clients: Clients::default(),
            channels: Arc::default(),
            started: clock::monotonic(),
            connections: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            looked_ahead: AtomicU64::new(0),
            ended_before: Mutex::default(),
            reply_bound,
        }))
    }

    /// The connections that are open.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The longest string value, in bytes.
    fn value_bytes_max(&self) -> usize {
        self.shared.config.server.resp_bulk_bytes_max as usize
    }
}

/// What a command asks the door to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The door sends what was written and then closes the connection.
    pub close: bool,
    /// The code of the error, if the command was answered with one.
    pub error: Option<ErrorCode>,
    /// The command was not answered: it runs again when [`KeySession::wait`] has waited.
    pub waits: bool,
}

/// Whether replies are written, as CLIENT REPLY says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replies {
    On,
    Off,
    /// Neither this reply, of CLIENT REPLY SKIP, nor the next.
    SkipTwo,
    /// Not this reply.
    SkipOne,
}

/// The state of one connection.
pub struct KeySession {
    service: Arc<KeyService>,
    client: Registration,
    version: Version,
    replies: Replies,
    closing: bool,
    tables: TableCache,
    /// The commands between MULTI and EXEC.
    queue: Option<Box<Queue>>,
    /// The keys of WATCH.
    watches: Option<Box<Watches>>,
    /// The transaction that EXEC runs, and what the command waits for.
    running: Running,
    /// The channels that it subscribes to.
    subscriptions: Option<Box<Subscriptions>>,
    /// A buffer for texts and values, kept between commands up to [`SCRATCH_BYTES_KEPT`].
    scratch: Vec<u8>,
    /// The charge for its replies that have not been sent, if they are large.
    reply_memory: ReplyMemory,
    /// Counted here and added to the service once per batch, so that cores do not contend for a counter.
    commands: u64,
    errors: u64,
    looked_ahead: u64,
    last: LastCommand,
}

const SCRATCH_BYTES_KEPT: usize = 64 * 1024;

/// Bytes of one reply that consists of many values: a client that asks for the same key many times must not fill the memory.
const REPLY_BYTES_MAX: usize = 256 << 20;

/// Refuses a reply that has grown too long.
fn check_length(reply: &Reply<'_>) -> Result<(), KeyError> {
    check_bytes(reply.buffered_bytes())
}

/// Refuses a reply of so many bytes if that is too long.
fn check_bytes(bytes: usize) -> Result<(), KeyError> {
    if bytes > REPLY_BYTES_MAX {
        return Err(KeyError::Redis("ERR the reply is too long, ask for less at once"));
    }
    Ok(())
}

impl KeySession {
    /// A session for a new connection.
    pub fn new(service: Arc<KeyService>, peer: SocketAddr, local: SocketAddr) -> Self {
        service.connections.fetch_add(1, Ordering::Relaxed);
        let client = service.clients.register(peer, local);
        let reply_memory = ReplyMemory::of(&service.reply_bound);
        Self {
            service,
            client,
            version: Version::Resp2,
            replies: Replies::On,
            closing: false,
            tables: TableCache::default(),
            queue: None,
            watches: None,
            running: Running::default(),
            subscriptions: None,
            scratch: Vec::new(),
            reply_memory,
            commands: 0,
            errors: 0,
            looked_ahead: 0,
            last: ("NULL", None),
        }
    }

    /// What other connections see of this one.
    pub fn client(&self) -> &Arc<Client> {
        self.client.client()
    }

    /// Runs one command and appends its reply to `out`.
    #[inline]
    pub fn execute(&mut self, command: Command<'_>, out: &mut Vec<u8>) -> Answered {
        if command.is_empty() {
            // As in Redis, an empty line is what CLIENT REPLY SKIP has skipped.
            if self.replies == Replies::SkipOne {
                self.replies = Replies::On;
            }
            return Answered { close: false, error: None, waits: false };
        }
        self.commands += 1;
        let start = out.len();
        let args = Args::new(command);
        let outcome = match self.find(&args) {
            Ok(command) => {
                let mut reply = ReplyWriter::new(out, self.version);
                let done = if self.queue.is_some() && command.is_queued() {
                    self.enqueue(command, &args, &mut reply)
                } else if self.subscriptions.is_some()
                    && let Err(error) = self.check_listens_only(command)
                {
                    Err(error)
                } else {
                    (command.handler)(self, &args, &mut reply)
                };
                self.running.settle(command.is_read());
                done.and_then(|()| self.keep_reply(command, out.capacity()))
            }
            Err(error) => Err(self.refused(&args, error)),
        };
        self.answer(start, outcome, out)
    }

    /// The outcome of a command whose reply begins at `start`.
    #[inline]
    fn answer(&mut self, start: usize, outcome: Outcome, out: &mut Vec<u8>) -> Answered {
        let mut code = None;
        if let Err(error) = outcome {
            if self.running.is_stopped() {
                self.commands -= 1;
                out.truncate(start);
                return Answered { close: false, error: None, waits: true };
            }
            code = Some(error.code());
            self.errors += 1;
            // A handler that failed half way has written half a reply.
            out.truncate(start);
            if !self.reply_memory.covers(out.capacity()) {
                out.shrink_to(start);
            }
            error.write(out);
        }
        if self.replies != Replies::On {
            // What is listened to is no reply: it is said whatever CLIENT REPLY chose, as messages are.
            if code.is_some() || !self.has_pushed() {
                out.truncate(start);
            }
            self.replies = match self.replies {
                Replies::SkipTwo => Replies::SkipOne,
                Replies::SkipOne | Replies::On => Replies::On,
                Replies::Off => Replies::Off,
            };
        }
        Answered { close: self.closing, error: code, waits: false }
    }

    /// Charges the replies until they are sent. A command that only reads is refused if replies that other clients do not read leave no
    /// room.
    #[inline]
    fn keep_reply(&mut self, command: &table::KnownCommand, bytes: usize) -> Outcome {
        if self.reply_memory.covers(bytes) {
            return Ok(());
        }
        if command.flags.contains(&"readonly") {
            self.reply_memory.keep(bytes)?;
        } else {
            self.reply_memory.keep_anyway(bytes);
        }
        Ok(())
    }

    /// Called when every reply has been sent.
    #[inline]
    pub fn replies_sent(&mut self) {
        self.reply_memory.give_back();
    }

    /// Bytes that commands have worked through since the last call, including other work, converted by the time that it takes. The bytes
    /// that they were sent and have answered are not included.
    #[inline]
    pub fn take_work(&mut self) -> u64 {
        self.running.take_work()
    }

    /// Prefetches what the commands in the buffer will probably read, and returns the number of these commands.
    pub fn look_ahead(&mut self, unread: &[u8]) -> usize {
        let mut count = 0;
        let keys = FirstArguments::new(unread).take(LOOKAHEAD_MAX).inspect(|_| count += 1);
        self.look_ahead_for(keys.flatten());
        count
    }

    /// The same of keys, [`LOOKAHEAD_MAX`] at most.
    fn look_ahead_for<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        self.looked_ahead += self.service.kv.look_ahead(keys.map(Datum::Bytea)) as u64;
    }

    /// The same of all keys of a command that reads or writes them at its end.
    fn look_ahead_for_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            self.look_ahead_for(keys.by_ref().take(LOOKAHEAD_MAX));
        }
    }

    /// Ends the commands of one read: publishes the counters, and releases the memory that a large command needed.
    pub fn end_batch(&mut self) {
        let (commands, errors) = (std::mem::take(&mut self.commands), std::mem::take(&mut self.errors));
        if commands > 0 {
            self.service.commands.fetch_add(commands, Ordering::Relaxed);
            self.client.client().ran(self.last);
        }
        if errors > 0 {
            self.service.errors.fetch_add(errors, Ordering::Relaxed);
        }
        let looked_ahead = std::mem::take(&mut self.looked_ahead);
        if looked_ahead > 0 {
            self.service.looked_ahead.fetch_add(looked_ahead, Ordering::Relaxed);
        }
        let lookups = std::mem::take(self.running.lookups());
        if lookups.hits > 0 {
            self.service.hits.fetch_add(lookups.hits, Ordering::Relaxed);
        }
        if lookups.misses > 0 {
            self.service.misses.fetch_add(lookups.misses, Ordering::Relaxed);
        }
        if self.scratch.capacity() > SCRATCH_BYTES_KEPT {
            self.scratch = Vec::new();
        }
    }

    /// The command that a line names, after a check of its number of arguments.
    #[inline]
    fn find(&mut self, args: &Args<'_>) -> Result<&'static table::KnownCommand, KeyError> {
        let Some(command) = table::find(args.at(0)) else {
            // A web browser that was lured into posting to this port: as Redis does, close without a word.
            if ["post", "host:"].into_iter().any(|word| arguments::is(args.at(0), word)) {
                self.closing = true;
                self.replies = Replies::Off;
            }
            return Err(unknown_command(args));
        };
        if !command.subcommands.is_empty() && args.len() > 1 {
            let subcommand = find_subcommand(command, args)?;
            self.last = (command.name, Some(subcommand.name));
            return Ok(subcommand);
        }
        self.last = (command.name, None);
        if command.takes(args.len()) { Ok(command) } else { Err(KeyError::arity(command.name)) }
    }
}

fn find_subcommand(
    container: &'static table::KnownCommand,
    args: &Args<'_>,
) -> Result<&'static table::KnownCommand, KeyError> {
    let Some(command) = container.subcommand(args.at(1)) else {
        let mut line = b"ERR unknown subcommand '".to_vec();
        line.extend_from_slice(printed(args.at(1), 128));
        line.extend_from_slice(format!("'. Try {} HELP.", container.name.to_ascii_uppercase()).as_bytes());
        return Err(KeyError::line(line));
    };
    if command.takes(args.len()) {
        Ok(command)
    } else {
        Err(KeyError::arity(format_args!("{}|{}", container.name, command.name)))
    }
}

/// Redis's answer, which repeats the first arguments: at most 128 bytes of each and of all of them.
fn unknown_command(args: &Args<'_>) -> KeyError {
    let mut line = b"ERR unknown command '".to_vec();
    line.extend_from_slice(printed(args.at(0), 128));
    line.extend_from_slice(b"', with args beginning with: ");
    let start = line.len();
    for arg in args.from(1) {
        let room = 128usize.saturating_sub(line.len() - start);
        if room == 0 {
            break;
        }
        line.push(b'\'');
        line.extend_from_slice(printed(arg, room));
        line.extend_from_slice(b"' ");
    }
    KeyError::line(line)
}

/// As C's `%.*s` prints it: up to the first NUL, at most `limit` bytes.
fn printed(text: &[u8], limit: usize) -> &[u8] {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    &text[..text.len().min(limit)]
}

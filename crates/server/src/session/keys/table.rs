//! The one table of commands: dispatch, arity errors, COMMAND and CLIENT HELP are read from it.
//!
//! Called by `mod.rs` for every command. A command that is not in this table does not exist.

use super::{Args, KeySession, Reply};
use super::{
    bits, config, connection, copying, describe, error::Outcome, expiry, floats, hashes, info, keyspace, lcs, objects,
    pubsub, scan, strings, transaction,
};

/// What runs a command: reads the arguments, writes one reply, or returns the error to be written instead.
pub(super) type Handler = fn(&mut KeySession, &Args<'_>, &mut Reply<'_>) -> Outcome;

/// One command or subcommand.
pub(super) struct KnownCommand {
    /// In lower case; a subcommand's own word.
    pub(super) name: &'static str,
    /// Arguments, the name among them; negative for "at least".
    pub(super) arity: i32,
    /// Redis's names of the command's flags.
    pub(super) flags: &'static [&'static str],
    /// Where the keys stand.
    pub(super) keys: Keys,
    /// Redis's group.
    pub(super) group: Group,
    /// The Redis version that had it first.
    pub(super) since: &'static str,
    /// One line for a reader.
    pub(super) summary: &'static str,
    /// Its subcommands; empty for nearly all.
    pub(super) subcommands: &'static [Self],
    /// What runs it. Never called for a command with subcommands.
    pub(super) handler: Handler,
}

/// Positions of keys among the arguments; `last` counts from the end if negative. All zero: no keys.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) first: i32,
    pub(super) last: i32,
    pub(super) step: i32,
}

/// The groups of commands that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Bitmap,
    Connection,
    Generic,
    Hash,
    PubSub,
    Server,
    String,
    Transactions,
}

impl Group {
    /// As COMMAND DOCS names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Hash => "hash",
            Self::PubSub => "pubsub",
            Self::Server => "server",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }

    /// As the access control categories name it; server commands have none.
    pub(super) fn category(self) -> Option<&'static str> {
        match self {
            Self::Bitmap => Some("bitmap"),
            Self::Connection => Some("connection"),
            Self::Generic => Some("keyspace"),
            Self::Hash => Some("hash"),
            Self::PubSub => Some("pubsub"),
            Self::Server => None,
            Self::String => Some("string"),
            Self::Transactions => Some("transaction"),
        }
    }
}

impl KnownCommand {
    /// Whether a command line of `count` arguments, the name among them, fits.
    pub(super) fn takes(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let arity = i64::from(self.arity);
        if arity >= 0 { count == arity } else { count >= -arity }
    }

    /// Whether MULTI queues it: not what ends a transaction, or the connection, or cannot be in one.
    pub(super) fn is_queued(&self) -> bool {
        !["multi", "exec", "discard", "watch", "quit", "reset"].contains(&self.name)
    }

    /// Whether it only reads.
    pub(super) fn is_read(&self) -> bool {
        self.flags.first() == Some(&"readonly")
    }

    /// The subcommand of this name, in any case.
    pub(super) fn subcommand(&self, name: &[u8]) -> Option<&'static Self> {
        self.subcommands.iter().find(|sub| name.eq_ignore_ascii_case(sub.name.as_bytes()))
    }
}

/// The command of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static KnownCommand> {
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let mut at = hash(name);
    loop {
        let command = COMMANDS.get(usize::from(INDEX[usize::from(at)]))?;
        if name.eq_ignore_ascii_case(command.name.as_bytes()) {
            return Some(command);
        }
        at = at.wrapping_add(1);
    }
}

/// Open addressing with linear probing: name hash -> position in [`COMMANDS`]. An empty place holds `u8::MAX`.
static INDEX: [u8; 256] = index();

const NAME_LENGTH_MAX: usize = name_length_max();

const fn name_length_max() -> usize {
    let (mut longest, mut at) = (0, 0);
    while at < COMMANDS.len() {
        if COMMANDS[at].name.len() > longest {
            longest = COMMANDS[at].name.len();
        }
        at += 1;
    }
    longest
}

const fn hash(name: &[u8]) -> u8 {
    let (mut sum, mut at) = (name.len() as u32, 0);
    while at < name.len() {
        sum = sum.wrapping_mul(31).wrapping_add(name[at].to_ascii_lowercase() as u32);
        at += 1;
    }
    (sum ^ (sum >> 8)) as u8
}

const fn index() -> [u8; 256] {
    // Half of the places stay empty, so that a probe ends soon; `find` needs one empty place to end at all.
    assert!(COMMANDS.len() < 128);
    let mut places = [u8::MAX; 256];
    let mut command = 0;
    while command < COMMANDS.len() {
        let mut at = hash(COMMANDS[command].name.as_bytes());
        while places[at as usize] != u8::MAX {
            at = at.wrapping_add(1);
        }
        places[at as usize] = command as u8;
        command += 1;
    }
    places
}

const NO_KEYS: Keys = Keys { first: 0, last: 0, step: 0 };
const ONE_KEY: Keys = Keys { first: 1, last: 1, step: 1 };
const SECOND_KEY: Keys = Keys { first: 2, last: 2, step: 1 };
const TWO_KEYS: Keys = Keys { first: 1, last: 2, step: 1 };
const LATER_KEYS: Keys = Keys { first: 2, last: -1, step: 1 };
const ALL_KEYS: Keys = Keys { first: 1, last: -1, step: 1 };
const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };

/// Not between MULTI and EXEC: what looks at all keys looks past a transaction, and what acts on connections cannot be
/// done once more.
pub(super) const NO_MULTI: &str = "no_multi";

const READ: &[&str] = &["readonly"];
const READ_FAST: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write"];
const WRITE_FAST: &[&str] = &["write", "fast"];
const GROW: &[&str] = &["write", "denyoom"];
const GROW_FAST: &[&str] = &["write", "denyoom", "fast"];
const ADMIN: &[&str] = &["loading", "stale"];
const ADMIN_FAST: &[&str] = &["loading", "stale", "fast"];
const SCAN: &[&str] = &["readonly", NO_MULTI];
const FLUSH: &[&str] = &["write", NO_MULTI];
const COUNT: &[&str] = &["readonly", "fast", NO_MULTI];
const ALONE: &[&str] = &["loading", "stale", NO_MULTI];
const LISTEN: &[&str] = &["pubsub", "noscript", "loading", "stale", NO_MULTI];
const PUBLISH: &[&str] = &["pubsub", "loading", "stale", "fast"];
const CHANNELS: &[&str] = &["pubsub", "loading", "stale"];
const BLOCK: &[&str] = &["noscript", "loading", "stale", "fast", "allow_busy"];
const HELLO: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy", NO_MULTI];
const NO_AUTH: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];

/// A command without subcommands.
#[expect(clippy::too_many_arguments, reason = "the columns of the table below")]
const fn row(
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    keys: Keys,
    group: Group,
    since: &'static str,
    summary: &'static str,
    handler: Handler,
) -> KnownCommand {
    KnownCommand { name, arity, flags, keys, group, since, summary, subcommands: &[], handler }
}

/// A command that only has subcommands.
const fn container(
    name: &'static str,
    since: &'static str,
    group: Group,
    summary: &'static str,
    subcommands: &'static [KnownCommand],
    handler: Handler,
) -> KnownCommand {
    KnownCommand { name, arity: -2, flags: &[], keys: NO_KEYS, group, since, summary, subcommands, handler }
}

use Group::{Bitmap, Connection, Generic, Hash, PubSub, Server, String as Text, Transactions};

/// All commands. The order is that of COMMAND.
#[rustfmt::skip]
pub(super) static COMMANDS: &[KnownCommand] = {
    const TABLE: &[KnownCommand] = &[
    // Strings: rows of the table `kv`.
    row("append",   3, GROW_FAST,  ONE_KEY,  Text, "2.0.0", "Append a value to a key", strings::append),
    row("decr",     2, GROW_FAST,  ONE_KEY,  Text, "1.0.0", "Decrement the integer value of a key by one", strings::decr),
    row("decrby",   3, GROW_FAST,  ONE_KEY,  Text, "1.0.0", "Decrement the integer value of a key by the given number", strings::decrby),
    row("get",      2, READ_FAST,  ONE_KEY,  Text, "1.0.0", "Get the value of a key", strings::get),
    row("getdel",   2, WRITE_FAST, ONE_KEY,  Text, "6.2.0", "Get the value of a key and delete the key", strings::getdel),
    row("getex",   -2, WRITE_FAST, ONE_KEY,  Text, "6.2.0", "Get the value of a key, and set or remove its expiration", strings::getex),
    row("getrange", 4, READ,       ONE_KEY,  Text, "2.4.0", "Get a substring of the string stored at a key", strings::getrange),
    row("getset",   3, GROW_FAST,  ONE_KEY,  Text, "1.0.0", "Set the string value of a key and return its old value", strings::getset),
    row("incr",     2, GROW_FAST,  ONE_KEY,  Text, "1.0.0", "Increment the integer value of a key by one", strings::incr),
    row("incrby",   3, GROW_FAST,  ONE_KEY,  Text, "1.0.0", "Increment the integer value of a key by the given amount", strings::incrby),
    row("incrbyfloat", 3, GROW_FAST, ONE_KEY, Text, "2.6.0", "Increment the float value of a key by the given amount", floats::incrbyfloat),
    row("lcs",     -3, READ,       TWO_KEYS, Text, "7.0.0", "Find the longest common subsequence of two strings", lcs::lcs),
    row("mget",    -2, READ_FAST,  ALL_KEYS, Text, "1.0.0", "Get the values of all the given keys", strings::mget),
    row("mset",    -3, GROW,       PAIRS,    Text, "1.0.1", "Set multiple keys to multiple values", strings::mset),
    row("msetnx",  -3, GROW,       PAIRS,    Text, "1.0.1", "Set multiple keys to multiple values, only if none of the keys exist", strings::msetnx),
    row("psetex",   4, GROW,       ONE_KEY,  Text, "2.6.0", "Set the value of a key and its expiration in milliseconds", strings::psetex),
    row("set",     -3, GROW,       ONE_KEY,  Text, "1.0.0", "Set the string value of a key", strings::set),
    row("setex",    4, GROW,       ONE_KEY,  Text, "2.0.0", "Set the value of a key and its expiration in seconds", strings::setex),
    row("setnx",    3, GROW_FAST,  ONE_KEY,  Text, "1.0.0", "Set the value of a key, only if the key does not exist", strings::setnx),
    row("setrange", 4, GROW,       ONE_KEY,  Text, "2.2.0", "Overwrite part of a string at key starting at the specified offset", strings::setrange),
    row("strlen",   2, READ_FAST,  ONE_KEY,  Text, "2.2.0", "Get the length of the value stored in a key", strings::strlen),
    row("substr",   4, READ,       ONE_KEY,  Text, "1.0.0", "Get a substring of the string stored at a key", strings::getrange),
    // The same strings as bits.
    row("bitcount", -2, READ,      ONE_KEY,  Bitmap, "2.6.0", "Count the bits of a string that are set", bits::bitcount),
    row("bitop",   -4, GROW,       LATER_KEYS, Bitmap, "2.6.0", "Combine strings bit by bit, and keep the result as another", bits::bitop),
    row("bitpos",  -3, READ,       ONE_KEY,  Bitmap, "2.8.7", "Find the first bit of a string that is set, or that is not", bits::bitpos),
    row("getbit",   3, READ_FAST,  ONE_KEY,  Bitmap, "2.2.0", "Get a bit of a string", bits::getbit),
    row("setbit",   4, GROW,       ONE_KEY,  Bitmap, "2.2.0", "Set or clear a bit of a string", bits::setbit),
    // Hashes: rows of any table, as `table:{key}`.
    row("hdel",    -3, WRITE_FAST, ONE_KEY,  Hash, "2.0.0", "Set columns of a row to NULL", hashes::hdel),
    row("hexists",  3, READ_FAST,  ONE_KEY,  Hash, "2.0.0", "Determine if a column of a row is not NULL", hashes::hexists),
    row("hget",     3, READ_FAST,  ONE_KEY,  Hash, "2.0.0", "Get the value of a column of a row", hashes::hget),
    row("hgetall",  2, READ,       ONE_KEY,  Hash, "2.0.0", "Get all columns of a row that are not NULL, with their values", hashes::hgetall),
    row("hincrby",  4, GROW_FAST,  ONE_KEY,  Hash, "2.0.0", "Increment the integer value of a column by the given number", hashes::hincrby),
    row("hincrbyfloat", 4, GROW_FAST, ONE_KEY, Hash, "2.6.0", "Increment the float value of a column by the given number", floats::hincrbyfloat),
    row("hkeys",    2, READ,       ONE_KEY,  Hash, "2.0.0", "Get the names of the columns of a row that are not NULL", hashes::hkeys),
    row("hlen",     2, READ_FAST,  ONE_KEY,  Hash, "2.0.0", "Get the number of columns of a row that are not NULL", hashes::hlen),
    row("hmget",   -3, READ_FAST,  ONE_KEY,  Hash, "2.0.0", "Get the values of the given columns of a row", hashes::hmget),
    row("hmset",   -4, GROW_FAST,  ONE_KEY,  Hash, "2.0.0", "Set columns of a row, or insert it", hashes::hmset),
    row("hscan",   -3, READ,       ONE_KEY,  Hash, "2.8.0", "Iterate over the columns of a row that are not NULL, in one step", hashes::hscan),
    row("hset",    -4, GROW_FAST,  ONE_KEY,  Hash, "2.0.0", "Set columns of a row, or insert it", hashes::hset),
    row("hsetnx",   4, GROW_FAST,  ONE_KEY,  Hash, "2.0.0", "Set a column of a row, only if it is NULL", hashes::hsetnx),
    row("hstrlen",  3, READ_FAST,  ONE_KEY,  Hash, "3.2.0", "Get the length of the text of a column", hashes::hstrlen),
    row("hvals",    2, READ,       ONE_KEY,  Hash, "2.0.0", "Get the values of a row that are not NULL", hashes::hvals),
    // Keys and rows alike.
    row("copy",    -3, GROW,       TWO_KEYS, Generic, "6.2.0", "Copy a key to another key, or a row to another key of its table", copying::copy),
    row("dbsize",   1, COUNT,      NO_KEYS,  Server, "1.0.0", "Return the number of keys and addressable rows", keyspace::dbsize),
    row("del",     -2, WRITE,      ALL_KEYS, Generic, "1.0.0", "Delete keys or rows", keyspace::del),
    row("exists",  -2, READ_FAST,  ALL_KEYS, Generic, "1.0.0", "Count how many of the keys or rows exist", keyspace::exists),
    row("expire",  -3, WRITE_FAST, ONE_KEY,  Generic, "1.0.0", "Set the time to live of a key or row in seconds", expiry::expire),
    row("expireat", -3, WRITE_FAST, ONE_KEY, Generic, "1.2.0", "Set when a key or row expires, in seconds since 1970", expiry::expireat),
    row("expiretime", 2, READ_FAST, ONE_KEY, Generic, "7.0.0", "Get when a key or row expires, in seconds since 1970", expiry::expiretime),
    row("flushall", -1, FLUSH,     NO_KEYS,  Server, "1.0.0", "Delete all keys, where no other table has rows", keyspace::flush),
    row("flushdb",  -1, FLUSH,     NO_KEYS,  Server, "1.0.0", "Delete all keys, where no other table has rows", keyspace::flush),
    row("keys",     2, SCAN,       NO_KEYS,  Generic, "1.0.0", "Find all keys and rows whose name matches the given pattern", scan::keys),
    container("object", "2.2.3", Generic, "Container for commands about how a value is kept", OBJECT, describe::help),
    row("persist",  2, WRITE_FAST, ONE_KEY,  Generic, "2.2.0", "Remove the expiration from a key or row", expiry::persist),
    row("pexpire", -3, WRITE_FAST, ONE_KEY,  Generic, "2.6.0", "Set the time to live of a key or row in milliseconds", expiry::pexpire),
    row("pexpireat", -3, WRITE_FAST, ONE_KEY, Generic, "2.6.0", "Set when a key or row expires, in milliseconds since 1970", expiry::pexpireat),
    row("pexpiretime", 2, READ_FAST, ONE_KEY, Generic, "7.0.0", "Get when a key or row expires, in milliseconds since 1970", expiry::pexpiretime),
    row("pttl",     2, READ_FAST,  ONE_KEY,  Generic, "2.6.0", "Get the time to live of a key or row in milliseconds", expiry::pttl),
    row("randomkey", 1, SCAN,      NO_KEYS,  Generic, "1.0.0", "Return the name of any key or row", scan::randomkey),
    row("rename",   3, WRITE,      TWO_KEYS, Generic, "1.0.0", "Rename a key, or give a row another key", copying::rename),
    row("renamenx", 3, WRITE_FAST, TWO_KEYS, Generic, "1.0.0", "Rename a key, or give a row another key, only if nothing has the new name", copying::renamenx),
    row("scan",    -2, SCAN,       NO_KEYS,  Generic, "2.8.0", "Incrementally iterate over all keys and rows", scan::scan),
    row("touch",   -2, READ_FAST,  ALL_KEYS, Generic, "3.2.1", "Count how many of the keys or rows exist, and let them count as used", keyspace::touch),
    row("ttl",      2, READ_FAST,  ONE_KEY,  Generic, "1.0.0", "Get the time to live of a key or row in seconds", expiry::ttl),
    row("type",     2, READ_FAST,  ONE_KEY,  Generic, "1.0.0", "Determine the type stored at a name: string, hash (a row) or none", keyspace::type_of),
    row("unlink",  -2, WRITE_FAST, ALL_KEYS, Generic, "4.0.0", "Delete keys or rows", keyspace::del),
    // Several commands as one.
    row("discard",  1, BLOCK,      NO_KEYS,  Transactions, "2.0.0", "Forget the queued commands", transaction::discard),
    row("exec",     1, &["noscript", "loading", "stale", "skip_slowlog"], NO_KEYS, Transactions, "1.2.0", "Run the queued commands as one", transaction::exec),
    row("multi",    1, BLOCK,      NO_KEYS,  Transactions, "1.2.0", "Queue the commands that follow", transaction::multi),
    row("unwatch",  1, BLOCK,      NO_KEYS,  Transactions, "2.2.0", "Forget the watched keys", transaction::unwatch),
    row("watch",   -2, BLOCK,      ALL_KEYS, Transactions, "2.2.0", "Let EXEC do nothing if one of the keys or rows changes", transaction::watch),
    // Channels.
    row("psubscribe", -2, LISTEN,  NO_KEYS,  PubSub, "2.0.0", "Listen to the channels whose names match the given patterns", pubsub::psubscribe),
    row("publish",  3, PUBLISH,    NO_KEYS,  PubSub, "2.0.0", "Say something to all who listen to a channel", pubsub::publish),
    container("pubsub", "2.8.0", PubSub, "Container for commands about channels", PUBSUB, describe::help),
    row("punsubscribe", -1, LISTEN, NO_KEYS, PubSub, "2.0.0", "Listen no more to the given patterns, or to any", pubsub::punsubscribe),
    row("subscribe", -2, LISTEN,   NO_KEYS,  PubSub, "2.0.0", "Listen to the given channels", pubsub::subscribe),
    row("unsubscribe", -1, LISTEN, NO_KEYS,  PubSub, "2.0.0", "Listen no more to the given channels, or to any", pubsub::unsubscribe),
    // The connection and the server.
    row("auth",    -2, NO_AUTH,    NO_KEYS,  Connection, "1.0.0", "Authenticate to the server", connection::auth),
    container("client", "2.4.0", Connection, "Container for connection commands", CLIENT, describe::help),
    row("command", -1, ADMIN,      NO_KEYS,  Server, "2.8.13", "Get details about all commands", describe::command).with(COMMAND),
    container("config", "2.0.0", Server, "Container for configuration commands", CONFIG, describe::help),
    row("echo",     2, ADMIN_FAST, NO_KEYS,  Connection, "1.0.0", "Echo the given string", connection::echo),
    row("hello",   -1, HELLO,      NO_KEYS,  Connection, "6.0.0", "Handshake: choose the protocol version", connection::hello),
    row("info",    -1, ADMIN,      NO_KEYS,  Server, "1.0.0", "Get information and statistics about the server", info::info),
    container("memory", "4.0.0", Server, "Container for commands about memory", MEMORY, describe::help),
    row("ping",    -1, &["fast"],  NO_KEYS,  Connection, "1.0.0", "Ping the server", connection::ping),
    row("quit",    -1, NO_AUTH,    NO_KEYS,  Connection, "1.0.0", "Close the connection", connection::quit),
    row("reset",    1, NO_AUTH,    NO_KEYS,  Connection, "6.2.0", "Reset the connection", connection::reset),
    row("role",     1, ADMIN_FAST, NO_KEYS,  Server, "2.8.12", "Return the role of the server: master, without replicas", info::role),
    row("select",   2, ADMIN_FAST, NO_KEYS,  Connection, "1.0.0", "Select database 0, the only one", connection::select),
    row("time",     1, ADMIN_FAST, NO_KEYS,  Server, "2.6.0", "Return the server's time: seconds since 1970, and microseconds", info::time),
    row("wait",     3, &["noscript"], NO_KEYS, Generic, "3.0.0", "Return the number of replicas that have what was written: none", info::wait),
    ];
    TABLE
};

impl KnownCommand {
    const fn with(mut self, subcommands: &'static [Self]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

#[rustfmt::skip]
const CLIENT: &[KnownCommand] = &[
    row("getname",   2, ADMIN, NO_KEYS, Connection, "2.6.9", "Get the current connection name", connection::client_getname),
    row("help",      2, ADMIN, NO_KEYS, Connection, "5.0.0", "Show helpful text about the different subcommands", describe::help),
    row("id",        2, ADMIN, NO_KEYS, Connection, "5.0.0", "Return the client ID of the current connection", connection::client_id),
    row("info",      2, ADMIN, NO_KEYS, Connection, "6.2.0", "Return information about the current connection", connection::client_info),
    row("kill",     -3, ALONE, NO_KEYS, Connection, "2.4.0", "Close connections of other clients", connection::client_kill),
    row("list",     -2, ADMIN, NO_KEYS, Connection, "2.4.0", "Get the list of client connections", connection::client_list),
    row("no-evict",  3, ADMIN, NO_KEYS, Connection, "7.0.0", "Accepted: no connection is ever evicted", connection::client_switch),
    row("no-touch",  3, ADMIN, NO_KEYS, Connection, "7.2.0", "Accepted: reads count as uses all the same", connection::client_switch),
    row("reply",     3, ALONE, NO_KEYS, Connection, "3.2.0", "Instruct the server whether to reply to commands", connection::client_reply),
    row("setinfo",   4, ADMIN, NO_KEYS, Connection, "7.2.0", "Set the name or version of the client library", connection::client_setinfo),
    row("setname",   3, ADMIN, NO_KEYS, Connection, "2.6.9", "Set the current connection name", connection::client_setname),
];

#[rustfmt::skip]
const COMMAND: &[KnownCommand] = &[
    row("count",     2, ADMIN, NO_KEYS, Server, "2.8.13", "Get the number of commands", describe::count),
    row("docs",     -2, ADMIN, NO_KEYS, Server, "7.0.0",  "Get documentation of commands", describe::docs),
    row("getkeys",  -4, ADMIN, NO_KEYS, Server, "2.8.13", "Extract the keys of a full command line", describe::getkeys),
    row("help",      2, ADMIN, NO_KEYS, Server, "5.0.0",  "Show helpful text about the different subcommands", describe::help),
    row("info",     -2, ADMIN, NO_KEYS, Server, "2.8.13", "Get details of the given commands", describe::info),
    row("list",     -2, ADMIN, NO_KEYS, Server, "7.0.0",  "Get the names of commands", describe::list),
];

#[rustfmt::skip]
const CONFIG: &[KnownCommand] = &[
    row("get",      -3, ADMIN, NO_KEYS, Server, "2.0.0", "Get the values of configuration parameters", config::get),
    row("help",      2, ADMIN, NO_KEYS, Server, "5.0.0", "Show helpful text about the different subcommands", describe::help),
    row("resetstat", 2, ALONE, NO_KEYS, Server, "2.0.0", "Let what INFO counts begin again", config::resetstat),
    row("rewrite",   2, ALONE, NO_KEYS, Server, "2.8.0", "Refused: the file of the configuration is its operator's", config::rewrite),
    row("set",      -4, ALONE, NO_KEYS, Server, "2.0.0", "Change configuration parameters, until the server stops", config::set),
];

#[rustfmt::skip]
const MEMORY: &[KnownCommand] = &[
    row("help",      2, ADMIN, NO_KEYS,    Server, "4.0.0", "Show helpful text about the different subcommands", describe::help),
    row("usage",    -3, READ,  SECOND_KEY, Server, "4.0.0", "Get the bytes that a key or row takes, without its table's other indexes", objects::usage),
];

#[rustfmt::skip]
const OBJECT: &[KnownCommand] = &[
    row("encoding",  3, READ,  SECOND_KEY, Generic, "2.2.3", "Get the encoding that Redis would choose for the value of a key or row", objects::encoding),
    row("freq",      3, READ,  SECOND_KEY, Generic, "4.0.0", "Get how often a key or row is used, as a logarithm", objects::freq),
    row("help",      2, ADMIN, NO_KEYS,    Generic, "6.2.0", "Show helpful text about the different subcommands", describe::help),
    row("idletime",  3, READ,  SECOND_KEY, Generic, "2.2.3", "Get the seconds since a key or row was last used", objects::idletime),
    row("refcount",  3, READ,  SECOND_KEY, Generic, "2.2.3", "Get the references to the value of a key or row: one", objects::refcount),
];

#[rustfmt::skip]
const PUBSUB: &[KnownCommand] = &[
    row("channels", -2, CHANNELS, NO_KEYS, PubSub, "2.8.0", "Get the channels that are listened to by their names", pubsub::channels),
    row("help",      2, ADMIN,    NO_KEYS, PubSub, "6.2.0", "Show helpful text about the different subcommands", describe::help),
    row("numpat",    2, CHANNELS, NO_KEYS, PubSub, "2.8.0", "Get the number of patterns that are listened to", pubsub::numpat),
    row("numsub",   -2, CHANNELS, NO_KEYS, PubSub, "2.8.0", "Get how many connections listen to each of the given channels", pubsub::numsub),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for command in COMMANDS {
            for name in [command.name.to_owned(), command.name.to_uppercase()] {
                assert!(std::ptr::eq(find(name.as_bytes()).unwrap(), command), "{name}");
            }
        }
    }

    #[test]
    fn other_names_are_not_found() {
        for name in ["", "ge", "gett", "ssubscribe", "a name that is longer than any command's", "g\u{e9}t"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn arity_counts_the_name() {
        let get = find(b"get").unwrap();
        assert!(!get.takes(1) && get.takes(2) && !get.takes(3));
        let mget = find(b"mget").unwrap();
        assert!(!mget.takes(1) && mget.takes(2) && mget.takes(300));
    }

    #[test]
    fn the_page_for_users_names_every_command() {
        let page = include_str!("../../../../../docs/reference/redis.md");
        for command in COMMANDS {
            let name = command.name.to_uppercase();
            assert!(page.contains(&format!("`{name}`")) || page.contains(&format!("`{name} ")), "{name}");
        }
    }

    #[test]
    fn keys_and_arity_agree() {
        for command in COMMANDS {
            let needs = command.keys.first;
            assert!(command.arity.abs() > needs, "{} has no place for its first key", command.name);
            assert_eq!(command.keys.step == 0, needs == 0, "{}", command.name);
        }
    }
}

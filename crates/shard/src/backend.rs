//! A connection to a shard, from login to its last byte.
//!
//! ```text
//! queue messages into the write buffer ──▶ one write ──▶ answers, forwarded in spans ──▶ ReadyForQuery
//! ```
//!
//! Lent by `pool`, driven by a session or by a scan. A connection that broke, or that is in the middle of something, says so
//! and is not lent again. Rows are passed on as bytes; nothing here knows what they mean.

mod cancel;
mod copy;
mod described;
mod login;
mod memory;
mod numbered;
mod parts;
mod scan;
mod settings;
mod statements;
mod steps;
mod stream;

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode, Result, clock};
use ashlar_protocol::pg::client::{self, BadMessage, HEADER_BYTES};
use ashlar_protocol::pg::{CommandTag, TransactionStatus, ValueFormat};

pub use ashlar_protocol::pg::client::RowReader;

pub use self::cancel::Canceller;
pub use self::described::{Described, DescribedColumn, ReadType};
use self::memory::Paid;
pub use self::memory::{Memory, Payer};
pub use self::numbered::TextNumber;
pub use self::scan::check_columns;
pub use self::settings::{Carried, Given, Settings};
pub use self::statements::KEPT_TEXT_BYTES_MAX;
use self::statements::{StatementName, Statements};
pub use self::steps::{Progress, Step};
use self::stream::Stream;
use crate::pool::Card;
use crate::server::{Mapping, Server};
use crate::two_phase::Duties;

/// Room that is made before a read.
const READ_BYTES: usize = 16 * 1024;

/// A buffer that grew beyond this is given back once it is empty.
const KEEP_BYTES: usize = 128 * 1024;

/// Notices of one statement that are kept.
const NOTICES_MAX: usize = 100;

/// The tag of a message that needs nobody's attention any more.
const SETTLED: u8 = 0;

/// SQLSTATEs of a prepared statement that is not what it was: its table has changed, or somebody has taken it away.
const STALE: [&str; 2] = ["0A000", "26000"];

static READ: Name = Name::new("shard read");
static WRITE: Name = Name::new("shard write");

/// What one connection may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long connecting, logging in and giving up may take.
    pub connect: Duration,
    /// How long the machine of a shard may acknowledge nothing before its connections are lost.
    pub silence: Duration,
    /// Bytes of one message of the shard.
    pub message_bytes_max: usize,
    /// Prepared statements that it remembers.
    pub statements_max: usize,
}

/// A notice of a shard.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `WARNING`, `NOTICE` and so on.
    pub severity: &'static str,
    /// What it says.
    pub error: Error,
}

/// Takes what a shard answers, as bytes.
pub trait Taker {
    /// Whether rows that are longer than what a connection may hold for nothing come by [`Self::part`], as they arrive.
    const IN_PARTS: bool = false;

    /// RowDescription, whole.
    fn describe(&mut self, message: &[u8]);
    /// So many DataRows, whole, one after the other.
    fn rows(&mut self, messages: &[u8], count: u64);
    /// A part of a DataRow, of which so many bytes are still to come: these come next, or nothing does.
    fn part(&mut self, part: &[u8], left: usize) {
        let _ = (part, left);
    }
    /// BindComplete: what comes next is about the next statement.
    fn begin(&mut self) {}
    /// Notices of the statement whose CommandComplete comes next, in their order. What is left there is for [`Backend::take_notices`].
    fn notices(&mut self, notices: &mut Vec<Notice>) {
        let _ = notices;
    }
    /// CommandComplete, whole, with its tag.
    fn complete(&mut self, message: &[u8], tag: &CommandTag) {
        let _ = (message, tag);
    }
    /// Whether [`Self::ready`] would resolve at once and without an error: asked first, so that nothing is made to wait by.
    fn has_room(&self) -> bool {
        false
    }
    /// Resolves when there is room for more.
    fn ready(&mut self) -> impl Future<Output = Result<()>>;
}

/// Takes nothing: for statements without rows.
pub struct Nothing;

impl Taker for Nothing {
    const IN_PARTS: bool = true;

    fn describe(&mut self, _: &[u8]) {}
    fn rows(&mut self, _: &[u8], _: u64) {}
    fn has_room(&self) -> bool {
        true
    }
    async fn ready(&mut self) -> Result<()> {
        Ok(())
    }
}

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command tag of its last statement.
    Complete(CommandTag),
    /// The portal has more rows.
    Suspended,
    /// There was nothing to execute.
    Empty,
}

/// A connection to a shard.
pub struct Backend {
    stream: Stream,
    server: Arc<Server>,
    mapping: Arc<Mapping>,
    limits: Limits,
    inbox: Vec<u8>,
    paid: Paid,
    /// Everything before it has been consumed.
    start: usize,
    outbox: Vec<u8>,
    /// ReadyForQuery messages that are still to come.
    awaited: usize,
    /// Whether the shard may have heard of any of that.
    is_sent: bool,
    status: TransactionStatus,
    is_broken: bool,
    is_given_up: bool,
    /// A cancel request may be under way that nobody waits for any more.
    is_doubtful: bool,
    /// In force there, as far as it has been told.
    settings: Settings,
    /// Those that come back when the transaction there ends, where it has been told others.
    lasting: Option<Settings>,
    /// Names of the carried ones that the transaction there has been told of, and had before.
    told: Vec<Arc<str>>,
    /// Which of these are in force is not known: a savepoint has been gone back to since they were told.
    is_unsure: bool,
    statements: Statements,
    /// What the statement that is queued last has to look like, until it has said that it does.
    check: Option<Arc<Described>>,
    notices: Vec<Notice>,
    /// What the shard says of itself.
    parameters: Vec<(String, String)>,
    /// Whether the database compares texts byte by byte.
    is_c_collated: bool,
    /// Whether the server was a standby when it was connected to.
    is_standby: bool,
    /// What stops a statement of it: one for all of its statements, so that one that nobody stops makes none.
    canceller: Arc<Canceller>,
    /// What two-phase commit knows of its database.
    pub(crate) duties: Duties,
    /// What its pool tells of it.
    pub(crate) card: Option<Arc<Card>>,
    /// When it was made.
    pub(crate) made: Instant,
    /// When it was last given back.
    pub(crate) idle_since: Instant,
}

impl Backend {
    /// Connects and logs in.
    ///
    /// # Errors
    /// 08001 where nobody answers in time; what the shard says against the login, which never names the password.
    pub async fn connect(
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
        limits: Limits,
    ) -> Result<Self> {
        let connected = tokio::time::timeout(limits.connect, Self::open(server, mapping, settings, limits)).await;
        connected.unwrap_or_else(|_| Err(unreachable(server, "no answer in time")))
    }

    async fn open(server: &Arc<Server>, mapping: &Arc<Mapping>, settings: &Settings, limits: Limits) -> Result<Self> {
        let stream =
            Stream::open(server, limits.silence).await.map_err(|error| unreachable(server, &error.to_string()))?;
        let now = clock::monotonic();
        let mut backend = Self {
            stream,
            server: Arc::clone(server),
            mapping: Arc::clone(mapping),
            limits,
            inbox: Vec::new(),
            paid: Paid::default(),
            start: 0,
            outbox: Vec::new(),
            awaited: 0,
            is_sent: false,
            status: TransactionStatus::Idle,
            is_broken: false,
            is_given_up: false,
            is_doubtful: false,
            settings: Settings { carried: Carried::default(), ..settings.clone() },
            lasting: None,
            told: Vec::new(),
            is_unsure: false,
            statements: Statements::new(limits.statements_max),
            check: None,
            notices: Vec::new(),
            parameters: Vec::new(),
            is_c_collated: false,
            is_standby: false,
            canceller: Canceller::new(server, 0, &[], limits.connect),
            duties: Duties::default(),
            card: None,
            made: now,
            idle_since: now,
        };
        backend.log_in().await?;
        backend.look().await?;
        if !backend.has_settings(settings) {
            // In a box: nearly no session brings more than what it logs in with.
            Box::pin(backend.adopt(settings)).await?;
        }
        Ok(backend)
    }

    /// The server that it is connected to.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Who is logged in.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Whether a transaction is open there, as far as it has been told.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// The number of its process there.
    pub fn pid(&self) -> i32 {
        self.canceller.pid
    }

    /// What the shard says of itself under this name, such as `server_version`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is of no use any more.
    pub fn is_broken(&self) -> bool {
        self.is_broken || self.is_given_up
    }

    /// Whether it was lost, which whoever used it has been told.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_broken
    }

    /// Nobody waits for the rest of an answer: it is of no use any more, although its shard may be at work. Where nothing of it has been
    /// sent the shard knows nothing of that, and whoever is next goes on behind what is queued.
    pub fn give_up(&mut self) {
        self.is_given_up |= self.awaited > 0 && self.is_sent;
    }

    /// A cancel request may still come, which is none of whoever would have it next: it is of use to the end of its transaction, and
    /// not lent again.
    pub fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Nobody shall have it again: it is closed.
    pub(crate) fn discard(&mut self) {
        self.is_broken = true;
    }

    /// Whether an answer is still to come, or what was queued has no end yet.
    pub(crate) fn is_busy(&self) -> bool {
        (self.awaited > 0 || self.is_ahead()) && !self.is_broken
    }

    /// Whether its shard may be at work for it.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_busy() && self.is_sent
    }

    /// Whether a transaction is to begin, and the shard has not been told yet.
    pub(crate) fn is_about_to_begin(&self) -> bool {
        let is_alone = self.awaited == 1 && !self.is_sent && !self.is_ahead();
        is_alone && self.status == TransactionStatus::Idle && !self.is_broken
    }

    /// Whether statements are queued one after the other that are not answered.
    fn is_ahead(&self) -> bool {
        self.statements.ahead() > 0
    }

    /// Whether it may be lent: nothing is open, nothing is to come, and nothing has come that nobody asked for.
    pub(crate) fn is_clean(&self) -> bool {
        if self.is_broken || self.is_doubtful || self.awaited > 0 || self.status != TransactionStatus::Idle {
            return false;
        }
        if self.start < self.inbox.len() || !self.outbox.is_empty() || self.is_ahead() {
            return false;
        }
        // A shard that shuts down says so, or just closes: what can be read here is one or the other.
        matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Queues a string of statements. Their answers come with those of what is queued after them; no rows of theirs do.
    pub fn queue_query(&mut self, sql: &str) {
        client::query(&mut self.outbox, sql);
        self.awaited += 1;
    }

    /// Queues a statement of the extended protocol whose text will not come again, and of which nothing is expected: Parse, Bind, Execute,
    /// Sync.
    pub fn queue_once<'a>(
        &mut self,
        text: &str,
        types: &[u32],
        portal: (&str, i32),
        parameters: impl ExactSizeIterator<Item = (ValueFormat, Option<&'a [u8]>)> + Clone,
        formats: &[ValueFormat],
    ) {
        let name = self.statements.queue_unnamed(&mut self.outbox, text, types);
        self.queue_bound(name, portal, parameters, formats);
    }

    /// Bind, Execute and Sync of a statement that is parsed, or queued to be: in a portal of this name, up to so many rows, or 0 for all.
    fn queue_bound<'a>(
        &mut self,
        name: StatementName,
        (portal, rows_max): (&str, i32),
        parameters: impl ExactSizeIterator<Item = (ValueFormat, Option<&'a [u8]>)> + Clone,
        formats: &[ValueFormat],
    ) {
        client::bind(&mut self.outbox, portal, name.as_str(), parameters, formats);
        client::execute(&mut self.outbox, portal, rows_max);
        client::sync(&mut self.outbox);
        self.awaited += 1;
    }

    /// Queues a statement that the connection knows, and knows to look as expected, behind those that are queued in this way, before any of them
    /// is answered: Bind, Execute. [`Self::queue_sync`] ends them. Where one fails, those behind it are not carried out. `false`, and nothing is
    /// queued: it does not know that.
    pub fn queue_ahead<'a>(
        &mut self,
        text: (&str, TextNumber),
        types: &[u32],
        parameters: impl ExactSizeIterator<Item = (ValueFormat, Option<&'a [u8]>)> + Clone,
        formats: &[ValueFormat],
        expected: &Arc<Described>,
    ) -> bool {
        let zone = &self.settings.time_zone;
        let Some(name) = self.statements.queue_ahead(text, types, zone, expected) else { return false };
        client::bind(&mut self.outbox, "", name.as_str(), parameters, formats);
        client::execute(&mut self.outbox, "", 0);
        true
    }

    /// Queues the end of statements that are queued ahead.
    pub fn queue_sync(&mut self) {
        client::sync(&mut self.outbox);
        self.awaited += 1;
    }

    /// Bytes that are queued.
    pub fn queued(&self) -> usize {
        self.outbox.len()
    }

    /// Queues more of a portal.
    pub fn queue_more(&mut self, portal: &str, rows_max: i32) {
        client::execute(&mut self.outbox, portal, rows_max);
        client::sync(&mut self.outbox);
        self.awaited += 1;
    }

    /// Runs statements whose rows nobody wants: the last command tag.
    ///
    /// # Errors
    /// What the shard says; 08006 where it is gone.
    pub async fn run(&mut self, sql: &str) -> Result<CommandTag> {
        self.queue_query(sql);
        match self.answer(&mut Nothing).await? {
            Ended::Complete(tag) => Ok(tag),
            Ended::Suspended | Ended::Empty => Ok("".into()),
        }
    }

    /// Sends what is queued, and passes on what is answered until everything that was queued is answered. The first error
    /// counts; rows of what was queued before the last are not passed on.
    ///
    /// # Errors
    /// What the shard says; what the taker says, and then the connection is in the middle of something; 08006 where the
    /// shard is gone; 08P01 where it has left out an answer.
    pub async fn answer<T: Taker>(&mut self, taker: &mut T) -> Result<Ended> {
        // The futures here are made where they stay, and only where something has to be waited for: who awaits one copies it.
        if !self.send_some()? {
            pin!(self.flush()).await?;
        }
        let mut failure: Option<Error> = None;
        let mut ended = Ended::Empty;
        loop {
            let passes_on = self.awaited == 1;
            let is_wanted = passes_on && failure.is_none();
            // The head of what comes next is read once, and says what is done with it.
            let arrived = self.inbox.len() - self.start;
            let (tag, length) = match client::header(&self.inbox[self.start..]).map_err(|_| self.garbled())? {
                Some((b'D', length)) if length <= arrived => {
                    let (bytes, count) = self.rows(length)?;
                    if is_wanted {
                        taker.rows(&self.inbox[bytes.clone()], count);
                    }
                    self.consume(bytes.end - bytes.start);
                    if !taker.has_room() {
                        pin!(taker.ready()).await?;
                    }
                    continue;
                }
                Some((b'D', length)) if T::IN_PARTS && is_wanted && length > KEEP_BYTES => {
                    // In a box: nearly no answer needs room for it.
                    Box::pin(self.pass_parts(taker, length)).await?;
                    continue;
                }
                Some((tag, length)) if length <= arrived => (tag, length),
                // What comes next may be a row: only what has arrived is taken by itself.
                _ => {
                    self.peek()?;
                    pin!(self.fill()).await?;
                    continue;
                }
            };
            let (tag, range) = self.step_over(tag, length)?;
            let body = &self.inbox[range.clone()];
            match tag {
                b't' | b'T' | b'n' if passes_on && self.check.is_some() => {
                    if let Some(error) = self.compare(tag, range)? {
                        failure.get_or_insert(error);
                    }
                }
                b'T' if passes_on => taker.describe(&self.inbox[range.start - HEADER_BYTES..range.end]),
                b'2' if passes_on => taker.begin(),
                b'C' => {
                    let Some(tag) = tag_of(body) else { return Err(self.garbled()) };
                    if passes_on {
                        taker.notices(&mut self.notices);
                        taker.complete(&self.inbox[range.start - HEADER_BYTES..range.end], &tag);
                        self.statements.completed();
                    }
                    ended = Ended::Complete(tag);
                }
                b's' => ended = Ended::Suspended,
                b'E' => {
                    let error = self.failure_of(body);
                    failure.get_or_insert(error);
                }
                // A COPY that got through: refused here, so that the connection is of use again.
                b'G' => {
                    self.is_broken = true;
                    return Err(Error::unsupported("COPY FROM STDIN through a shard is not supported"));
                }
                b'H' => {
                    self.is_broken = true;
                    return Err(Error::unsupported("COPY TO STDOUT through a shard is not supported"));
                }
                _ => {}
            }
            if self.note(tag, failure.as_ref())? {
                break;
            }
        }
        failure.map_or(Ok(ended), Err)
    }

    /// Bytes that its buffers hold.
    pub fn bytes(&self) -> usize {
        self.inbox.capacity() + self.outbox.capacity()
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// 08006
    pub async fn flush(&mut self) -> Result<()> {
        while !self.send_some()? {
            if let Err(error) = scope(&WRITE, self.stream.writable()).await {
                return Err(self.lost(&error));
            }
        }
        Ok(())
    }

    /// Sends as much of what is queued as the kernel takes now; whether that was all.
    fn send_some(&mut self) -> Result<bool> {
        let mut sent = 0;
        while sent < self.outbox.len() {
            match self.stream.try_write(&self.outbox[sent..]) {
                Ok(count) => {
                    self.is_sent = true;
                    sent += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // What the kernel has must not be sent again by whoever goes on, this future or another one when it was dropped.
                    self.outbox.drain(..sent);
                    return Ok(false);
                }
                Err(error) => return Err(self.lost(&error)),
            }
        }
        self.outbox.clear();
        self.outbox.shrink_to(KEEP_BYTES);
        Ok(true)
    }

    /// What stops a statement of this connection from outside.
    pub fn canceller(&self) -> Arc<Canceller> {
        Arc::clone(&self.canceller)
    }

    /// Settles what a message tells about the connection itself; true when it was the last one awaited.
    fn note(&mut self, tag: u8, failure: Option<&Error>) -> Result<bool> {
        match tag {
            b'1' => self.statements.parsed().map_err(|BadMessage| self.garbled())?,
            b'E' => {
                let is_stale = failure.is_some_and(|error| STALE.contains(&error.sqlstate()));
                self.statements.failed(is_stale);
                if self.awaited == 1 {
                    self.check = None;
                }
            }
            b'Z' => {
                self.awaited = self.awaited.saturating_sub(1);
                if self.awaited == 0 {
                    if self.is_ahead() {
                        return Err(self.unanswered());
                    }
                    self.is_sent = false;
                    self.statements.settled();
                    self.check = None;
                }
                return Ok(self.awaited == 0);
            }
            _ => {}
        }
        Ok(false)
    }

    /// The run of whole DataRows that have arrived and come next, the first of which is so long: where, and how many.
    fn rows(&mut self, first: usize) -> Result<(Range<usize>, u64)> {
        let (mut end, mut count) = (self.start + first, 1);
        while let Some((b'D', length)) = client::header(&self.inbox[end..]).map_err(|_| self.garbled())? {
            if self.inbox.len() - end < length {
                break;
            }
            end += length;
            count += 1;
        }
        Ok((self.start..end, count))
    }

    /// The next message where it has arrived as a whole: its tag and length.
    fn peek(&mut self) -> Result<Option<(u8, usize)>> {
        let unread = &self.inbox[self.start..];
        match client::header(unread) {
            Ok(Some((tag, length))) if length <= unread.len() => Ok(Some((tag, length))),
            Ok(Some((_, length))) if length > self.limits.message_bytes_max => {
                self.is_broken = true;
                let message = format!("a row of shard \"{}\" is longer than shard.row_mib_max", self.server.name);
                Err(Error::new(ErrorCode::ProgramLimitExceeded, message).with_context(self.place()))
            }
            Ok(_) => Ok(None),
            Err(_) => Err(self.garbled()),
        }
    }

    /// Waits for the next message and steps over it: its tag, and where its body lies until the next call. One that can come at
    /// any time is settled here, and has the tag [`SETTLED`].
    async fn message(&mut self) -> Result<(u8, Range<usize>)> {
        let (tag, length) = loop {
            match self.peek()? {
                Some(found) => break found,
                None => self.fill().await?,
            }
        };
        self.step_over(tag, length)
    }

    /// The same of one that has arrived, with this tag and length.
    fn step_over(&mut self, tag: u8, length: usize) -> Result<(u8, Range<usize>)> {
        let range = self.start + HEADER_BYTES..self.start + length;
        // Not `consume`: the body is still to be read.
        self.start += length;
        match tag {
            b'S' => {
                let mut body = &self.inbox[range.clone()];
                let name = client::take_string(&mut body).map(str::to_owned);
                let value = client::take_string(&mut body).map(str::to_owned);
                let (Ok(name), Ok(value)) = (name, value) else { return Err(self.garbled()) };
                match self.parameters.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = value,
                    None => self.parameters.push((name, value)),
                }
                Ok((SETTLED, range))
            }
            b'N' => {
                let body = &self.inbox[range.clone()];
                let (severity, error) = (severity_of(body), self.failure_of(body));
                if self.notices.len() < NOTICES_MAX {
                    self.notices.push(Notice { severity, error });
                }
                Ok((SETTLED, range))
            }
            // Nobody listens.
            b'A' => Ok((SETTLED, range)),
            b'Z' => {
                let status = client::ready_status(&self.inbox[range.clone()]);
                self.status = status.map_err(|_| self.garbled())?;
                if self.status == TransactionStatus::Idle
                    && let Some(lasting) = self.lasting.take()
                {
                    (self.settings, self.is_unsure) = (lasting, false);
                    self.told.clear();
                }
                Ok((tag, range))
            }
            _ => Ok((tag, range)),
        }
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.tidy();
    }

    /// Gives back what is read, where that is all.
    fn tidy(&mut self) {
        if self.start == self.inbox.len() {
            self.inbox.clear();
            self.inbox.shrink_to(KEEP_BYTES);
            self.start = 0;
        }
    }

    /// Waits for bytes, and reads what the kernel has, once.
    async fn fill(&mut self) -> Result<()> {
        self.tidy();
        if self.start > 0 && self.inbox.capacity() - self.inbox.len() < READ_BYTES {
            self.inbox.drain(..self.start);
            self.start = 0;
        }
        // Doubled: a message of n bytes is moved a logarithmic number of times.
        if self.inbox.capacity() - self.inbox.len() < READ_BYTES {
            let more = READ_BYTES.max(self.inbox.len());
            self.paid.up_to(self.inbox.len() + more)?;
            self.inbox.reserve_exact(more);
        }
        match scope(&READ, self.stream.read(&mut self.inbox)).await {
            Ok(0) => Err(self.lost(&io::Error::new(io::ErrorKind::UnexpectedEof, "the shard closed the connection"))),
            Ok(_) => Ok(()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// 08006
    fn lost(&mut self, error: &io::Error) -> Error {
        self.is_broken = true;
        // A shard that shuts down has often said why before it went.
        if let Ok(Some((b'E', length))) = client::header(&self.inbox[self.start..])
            && let Some(body) = self.inbox.get(self.start + HEADER_BYTES..self.start + length)
        {
            return self.failure_of(body);
        }
        let message = format!("connection to shard \"{}\" was lost: {error}", self.server.name);
        Error::new(ErrorCode::ConnectionFailure, message).with_context(self.place())
    }

    fn garbled(&mut self) -> Error {
        self.is_broken = true;
        let message = format!("shard \"{}\" sent what is no message of the PostgreSQL protocol", self.server.name);
        Error::new(ErrorCode::ProtocolViolation, message).with_context(self.place())
    }

    /// 08P01 where statements were sent together, and fewer have come to an end: which ones nobody knows.
    fn unanswered(&mut self) -> Error {
        self.is_broken = true;
        let message = format!("shard \"{}\" has not answered every statement that it was sent", self.server.name);
        Error::new(ErrorCode::ProtocolViolation, message).with_context(self.place())
    }

    fn place(&self) -> String {
        format!("shard {}", self.server.name)
    }

    /// The error that a shard tells of, with the shard's name as the last place of its context.
    fn failure_of(&self, body: &[u8]) -> Error {
        let mut error = Error::of_shard(*b"XX000", "the shard gave no reason");
        let mut context = String::new();
        let (mut state, mut message) = (*b"XX000", String::new());
        let mut rest: Vec<(u8, &str)> = Vec::new();
        for (tag, text) in client::fields(body) {
            match tag {
                b'C' => state = <[u8; 5]>::try_from(text.as_bytes()).unwrap_or(state),
                b'M' => message = text.to_owned(),
                b'W' => context = format!("{text}\n"),
                _ => rest.push((tag, text)),
            }
        }
        if !message.is_empty() {
            error = Error::of_shard(state, message);
        }
        for (tag, text) in rest {
            error = match tag {
                b'D' => error.with_detail(text),
                b'H' => error.with_hint(text),
                b'P' => text.parse().map_or(error.clone(), |position| error.at(position)),
                b't' => error.with_table(text),
                b'c' => error.with_column(text),
                b'n' => error.with_constraint(text),
                _ => error,
            };
        }
        error.with_context(context + &self.place())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if !self.is_broken && (self.awaited == 0 || !self.is_sent) {
            let mut goodbye = Vec::new();
            client::terminate(&mut goodbye);
            // Where the kernel does not take it, the shard hears of the end anyway.
            let _ = self.stream.try_write(&goodbye);
        }
    }
}

/// The tag in the body of CommandComplete.
fn tag_of(mut body: &[u8]) -> Option<CommandTag> {
    client::take_string(&mut body).ok().and_then(CommandTag::read)
}

fn severity_of(body: &[u8]) -> &'static str {
    let severity = client::fields(body).find(|(tag, _)| *tag == b'V').map_or("NOTICE", |(_, text)| text);
    ["WARNING", "NOTICE", "INFO", "LOG", "DEBUG"].into_iter().find(|known| *known == severity).unwrap_or("NOTICE")
}

/// 08001
fn unreachable(server: &Server, why: &str) -> Error {
    let message = format!("could not connect to shard \"{}\": {why}", server.name);
    Error::new(ErrorCode::UnableToConnect, message).with_context(format!("shard {}", server.name))
}

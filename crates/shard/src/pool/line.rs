//! The connections of a pool to one server, and the queue of those waiting for one.
//!
//! ```text
//! enter ──▶ idle here ──or── a new one ──or── one that has long been idle in another pool ──or── the queue
//! leave ──▶ a waiter of another pool that has waited much longer ──or── the first in the queue here ──or── idle
//! ```
//!
//! A connection is driven by the runtime of its pool's thread, so it never moves to another pool. What moves is the
//! right to have one: the giving pool closes a connection, and the receiving one opens one.
//!
//! Why nobody waits while a connection is idle in another pool: a waiter that has waited for [`MOVE_AFTER`] says so
//! (`bound`), and then looks at all other pools, taking the lock of each. A borrower that gives a connection back
//! checks, under that lock, whether anybody has said so. If it takes the lock after the waiter, it sees the request; if
//! before, the waiter sees the connection. A right to open one is given back under the lock of the pool that had it,
//! and is what the waiter looks for last.
//!
//! Within a pool nobody is overtaken; a waiter of another pool is overtaken only by requests that came less than
//! [`MOVE_AFTER`] later.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, Result, clock};
use tokio::sync::oneshot;

use super::bound::{Bound, MOVE_AFTER, Purpose};
use super::{Pool, Slot, busy};
use crate::backend::Backend;
use crate::server::Server;

static WAIT: Name = Name::new("shard connection");

/// The lines of a pool. Each is for good, and at one place: who has that finds it without the server's name.
#[derive(Default)]
pub(super) struct Lines {
    places: HashMap<String, usize>,
    all: Vec<Line>,
}

impl Lines {
    pub(super) fn get_mut(&mut self, server: &str) -> Option<&mut Line> {
        let place = self.places.get(server)?;
        self.all.get_mut(*place)
    }

    /// The line at a place.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Line> {
        self.all.get_mut(place)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.all.iter_mut()
    }
}

/// See the module.
pub(super) struct Line {
    /// Its place among the lines of the pool.
    pub(super) place: usize,
    /// As it was declared when it was first needed: its name is the same for ever.
    pub(super) server: Arc<Server>,
    /// What was given back last is last.
    #[expect(clippy::vec_box, reason = "a lease has its box already, and is moved about")]
    pub(super) idle: Vec<Box<Backend>>,
    /// All of them, those that are being made among them.
    pub(super) open: usize,
    /// Since when each waits. There is nobody where something is idle.
    pub(super) waiting: VecDeque<(Instant, oneshot::Sender<Slot>)>,
    pub(super) counts: Counts,
    /// How often what was open has been forgotten: a connection of an earlier time is not lent again.
    pub(super) generation: u64,
    /// What all pools may have together.
    bound: Arc<Bound>,
    purpose: Purpose,
    /// The number of this pool there.
    member: usize,
    /// Who waits since then, or since earlier, has waited for long.
    overdue: Option<Instant>,
    /// What the other pools have been told of that.
    told: Option<Instant>,
}

/// What has happened since the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Connections that were made.
    pub(super) made: u64,
    /// Times that one was lent.
    pub(super) lent: u64,
    /// How long they were together.
    pub(super) used: Duration,
    /// Rights to have one that came from other pools.
    pub(super) taken: u64,
    /// Times that one was waited for, how long together, and how often in vain.
    pub(super) waits: u64,
    pub(super) waited: Duration,
    pub(super) timeouts: u64,
    /// Times that too many waited already.
    pub(super) refused: u64,
}

impl Line {
    fn new(place: usize, server: &Arc<Server>, bound: Arc<Bound>, pool: &Arc<Pool>) -> Self {
        let member = bound.join(pool);
        Self {
            place,
            server: Arc::clone(server),
            idle: Vec::new(),
            open: 0,
            waiting: VecDeque::new(),
            counts: Counts::default(),
            generation: 0,
            bound,
            purpose: pool.purpose,
            member,
            overdue: None,
            told: None,
        }
    }

    /// So many are closed, or are going to be.
    pub(super) fn close(&mut self, count: usize) {
        self.open -= count;
        self.bound.close(self.purpose, count);
    }

    /// Whether one that nobody needs may be closed, which is then counted.
    pub(super) fn close_needless(&mut self) -> bool {
        let may = self.bound.close_needless(self.purpose);
        self.open -= usize::from(may);
        may
    }

    /// Whether one may be made, which is then counted.
    fn may_make(&mut self) -> bool {
        let may = self.bound.open(self.purpose);
        self.open += usize::from(may);
        may
    }

    /// Tells the other pools of who has waited for long, where that has changed.
    fn tell(&mut self) {
        let first = self.waiting.front().map(|(since, _)| *since);
        let first = first.filter(|since| self.overdue.is_some_and(|overdue| *since <= overdue));
        if first != self.told {
            self.told = first;
            self.bound.tell(self.member, first);
        }
    }
}

/// What comes of asking for a place.
enum Entered<'p> {
    Place(Slot),
    /// One in line.
    Waits(Waiting<'p>),
}

/// For whom a place is that is given back.
enum Next {
    Nobody,
    /// Who is first in line, and the line's generation.
    Here(oneshot::Sender<Slot>, u64),
    /// The right to have a connection to the server is that pool's now.
    Elsewhere(Arc<Pool>, Arc<Server>),
}

impl Pool {
    /// A place among the connections to a server, with an idle one where there is one.
    pub(super) async fn enter(self: &Arc<Self>, server: &Arc<Server>) -> Result<Slot> {
        let waiting = match self.find(server) {
            Ok(slot) => return Ok(slot),
            Err(waiting) => waiting,
        };
        let is_full = waiting >= self.config.waiting_max;
        // Who waits here already has looked at the others. Where nobody can wait, what others will soon need again is taken too.
        if (waiting == 0 || is_full)
            && let Some(slot) = self.take(server, if is_full { Duration::ZERO } else { MOVE_AFTER })
        {
            return Ok(slot);
        }
        let mut waiting = match self.join(server)? {
            Entered::Place(slot) => return Ok(slot),
            Entered::Waits(waiting) => waiting,
        };
        scope::scope(&WAIT, waiting.wait()).await
    }

    /// A place that is free here; else how many wait for one, whom nobody overtakes.
    pub(super) fn find(self: &Arc<Self>, server: &Arc<Server>) -> Result<Slot, usize> {
        let mut lines = self.lines.lock();
        let line = self.line(&mut lines, server);
        self.free(line).ok_or(line.waiting.len())
    }

    fn free(self: &Arc<Self>, line: &mut Line) -> Option<Slot> {
        if !line.waiting.is_empty() {
            return None;
        }
        let backend = line.idle.pop();
        (backend.is_some() || line.may_make()).then(|| self.slot(line.place, backend, line.generation))
    }

    /// A place in line, or one that has become free meanwhile.
    fn join<'p>(self: &'p Arc<Self>, server: &'p Arc<Server>) -> Result<Entered<'p>> {
        let mut lines = self.lines.lock();
        let line = self.line(&mut lines, server);
        if let Some(slot) = self.free(line) {
            return Ok(Entered::Place(slot));
        }
        if line.waiting.len() >= self.config.waiting_max {
            line.counts.refused += 1;
            return Err(busy(server, "too many statements wait for one"));
        }
        let (since, (sender, receiver)) = (clock::monotonic(), oneshot::channel());
        line.waiting.push_back((since, sender));
        line.counts.waits += 1;
        Ok(Entered::Waits(Waiting { pool: self, server, since, receiver, is_served: false }))
    }

    /// The right to make a connection, for one that another pool closes: nobody there has needed it for so long.
    fn take(self: &Arc<Self>, server: &Arc<Server>, idle_min: Duration) -> Option<Slot> {
        let others = {
            let mut lines = self.lines.lock();
            let line = self.line(&mut lines, server);
            line.bound.others(line.member)
        };
        let closed = others.iter().find_map(|other| other.give_up(&server.name, self.purpose, idle_min))?;
        // Without a lock.
        drop(closed);
        Some(self.gain(server))
    }

    /// The connection that nobody has needed for longest, for a pool that may have another one instead.
    fn give_up(&self, server: &str, to: Purpose, idle_min: Duration) -> Option<Box<Backend>> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(server)?;
        let is_needed = line.idle.first()?.idle_since.elapsed() < idle_min;
        if is_needed || !line.bound.shift(line.purpose, to) {
            return None;
        }
        line.open -= 1;
        Some(line.idle.remove(0))
    }

    /// A place for a connection that another pool has given up.
    fn gain(self: &Arc<Self>, server: &Arc<Server>) -> Slot {
        let mut lines = self.lines.lock();
        let line = self.line(&mut lines, server);
        line.open += 1;
        line.counts.taken += 1;
        self.slot(line.place, None, line.generation)
    }

    /// The right to make a connection, whoever waits.
    fn make(self: &Arc<Self>, server: &Arc<Server>) -> Option<Slot> {
        let mut lines = self.lines.lock();
        let line = self.line(&mut lines, server);
        line.may_make().then(|| self.slot(line.place, None, line.generation))
    }

    /// The right to make a connection that nobody needs yet, where there are fewer than the minimum, and fewer than `share` here.
    pub(super) fn make_early(self: &Arc<Self>, server: &Arc<Server>, share: usize) -> Option<Slot> {
        let mut lines = self.lines.lock();
        let line = self.line(&mut lines, server);
        if line.open >= share || !line.bound.open_early(self.purpose) {
            return None;
        }
        line.open += 1;
        Some(self.slot(line.place, None, line.generation))
    }

    /// Takes a place in a line back, with its connection where that can be lent again, which was lent for this long.
    pub(super) fn leave(
        self: &Arc<Self>,
        line: usize,
        mut backend: Option<Box<Backend>>,
        (generation, mut used): (u64, Duration),
    ) {
        loop {
            let (next, closed) = self.next(line, &mut backend, (generation, std::mem::take(&mut used)));
            // Without the lock.
            drop(closed);
            match next {
                Next::Nobody => return,
                Next::Elsewhere(pool, server) => {
                    // Given back there at once: it is for the first in line.
                    drop(pool.gain(&server));
                    return;
                }
                Next::Here(first, now) => match first.send(self.slot(line, backend.take(), now)) {
                    Ok(()) => return,
                    // It has left the line meanwhile. What comes back must not leave once more by itself.
                    Err(mut slot) => {
                        backend = slot.backend.take();
                        slot.line = None;
                    }
                },
            }
        }
    }

    /// Decides for whom a place is that is given back; with a connection that is to be closed.
    fn next(
        &self,
        line: usize,
        backend: &mut Option<Box<Backend>>,
        (generation, used): (u64, Duration),
    ) -> (Next, Option<Box<Backend>>) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.at(line) else { return (Next::Nobody, backend.take()) };
        line.counts.used += used;
        let forgotten = if line.generation == generation { None } else { backend.take() };
        if line.bound.is_anybody_overdue() {
            let first = line.waiting.front().map(|(since, _)| *since);
            if let Some(pool) = line.bound.hand_over(line.member, first) {
                line.open -= 1;
                let server = Arc::clone(&line.server);
                return (Next::Elsewhere(pool, server), forgotten.or_else(|| backend.take()));
            }
        }
        if let Some((_, first)) = line.waiting.pop_front() {
            line.tell();
            return (Next::Here(first, line.generation), forgotten);
        }
        match backend.take() {
            Some(backend) => line.idle.push(backend),
            None => line.close(1),
        }
        (Next::Nobody, forgotten)
    }

    /// What it has of a server.
    fn line<'l>(self: &Arc<Self>, lines: &'l mut Lines, server: &Arc<Server>) -> &'l mut Line {
        let place = match lines.places.get(&server.name) {
            Some(place) => *place,
            None => {
                let place = lines.all.len();
                let bound = self.bounds.of(&server.name, &self.config);
                lines.all.push(Line::new(place, server, bound, self));
                lines.places.insert(server.name.clone(), place);
                place
            }
        };
        &mut lines.all[place]
    }
}

/// Somebody in line, who leaves it when this is dropped.
struct Waiting<'p> {
    pool: &'p Arc<Pool>,
    server: &'p Arc<Server>,
    since: Instant,
    receiver: oneshot::Receiver<Slot>,
    is_served: bool,
}

impl Waiting<'_> {
    /// Waits for a place.
    ///
    /// # Errors
    /// 53300 where there is none in time.
    async fn wait(&mut self) -> Result<Slot> {
        let wait_max = self.pool.config.wait_max;
        let mut came = tokio::time::timeout(wait_max.min(MOVE_AFTER), &mut self.receiver).await;
        if came.is_err() {
            came = match self.look_around() {
                Some(slot) => Ok(Ok(slot)),
                None => tokio::time::timeout(wait_max.saturating_sub(MOVE_AFTER), &mut self.receiver).await,
            };
        }
        match came {
            Ok(Ok(slot)) => {
                self.is_served = true;
                Ok(slot)
            }
            Ok(Err(_)) => Err(Error::internal("the line for connections was dropped")),
            Err(_) => {
                if let Some(line) = self.pool.lines.lock().get_mut(&self.server.name) {
                    line.counts.timeouts += 1;
                }
                Err(busy(self.server, "none became free in time"))
            }
        }
    }

    /// Says that it has waited for long, and looks for a place in other pools, and among those that nobody has.
    fn look_around(&mut self) -> Option<Slot> {
        while self.complain() {
            let found = self.pool.take(self.server, Duration::ZERO).or_else(|| self.pool.make(self.server))?;
            // As whatever is given back it is for the first in line, who may be another one.
            drop(found);
            if let Ok(slot) = self.receiver.try_recv() {
                return Some(slot);
            }
        }
        None
    }

    /// Says that it has waited for long. Whether it is still in line, or somebody before it: else a place is on its way.
    fn complain(&self) -> bool {
        let mut lines = self.pool.lines.lock();
        let line = self.pool.line(&mut lines, self.server);
        line.overdue = line.overdue.max(Some(self.since));
        line.tell();
        line.waiting.front().is_some_and(|(since, _)| *since <= self.since)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // What is sent later comes back to its sender, and what was sent goes back with the receiver.
        self.receiver.close();
        let mut lines = self.pool.lines.lock();
        let Some(line) = lines.get_mut(&self.server.name) else { return };
        line.counts.waited += self.since.elapsed();
        if !self.is_served {
            line.waiting.retain(|(_, sender)| !sender.is_closed());
            line.tell();
        }
    }
}

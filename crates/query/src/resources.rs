//! The resources of one statement: its clock reading, and what it may use of the server (memory, a slot, temporary
//! files).
//!
//! Created by the session for each statement, and again for each attempt of one that is retried. Everything that runs
//! for the statement shares it, and it is dropped with the statement. Statements that are answered without DataFusion
//! use none of it.

use std::sync::{Arc, OnceLock};

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::times::StatementTime;
use ashlar_shard::backend::{Carried, Settings};
use ashlar_shard::snapshot::Moment;
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::admission::Admission;
use crate::memory::QueryPool;
use crate::sharded::OwnRead;
use crate::turn::Turn;

/// The resources of one statement; see the module.
pub struct StatementResources {
    /// When the statement came.
    pub time: StatementTime,
    /// The session's user, who is mapped to a user on other servers.
    pub role: Arc<str>,
    /// The shards that this statement cannot read.
    pub barrier: Barrier,
    /// The common snapshot of all shards that it reads; `None` if it reads a snapshot of its own on each.
    pub moment: Option<Arc<Moment>>,
    /// Whether the snapshots of shards are fixed before the first row is requested, because other statements may run before the last one
    /// is.
    pub is_fixed: bool,
    /// Whether replicas of shards may be read.
    pub reads_replicas: bool,
    /// What the session gives shards of settings.
    pub carried: Carried,
    /// Requests to the session, for reads over its transaction's connections.
    asks: Mutex<Option<mpsc::Sender<OwnRead>>>,
    memory_max: Option<usize>,
    /// DataFusion's environment, shared by all queries.
    server: Arc<RuntimeEnv>,
    /// The query's own environment and memory pool, created on first use: most statements never need them.
    own: OnceLock<(Arc<QueryPool>, Arc<RuntimeEnv>)>,
    admission: Arc<Admission>,
    /// Its turn among the queries, created on first use.
    turn: OnceLock<Arc<Turn>>,
    /// Closed when nobody waits for the statement any more.
    interest: Option<watch::Sender<()>>,
    /// Tells the parts of the statement that must end by themselves to stop, and why; created if there are any.
    stop: OnceLock<watch::Sender<Option<Error>>>,
}

/// The shards that a statement cannot read without giving a wrong answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Barrier {
    /// All can be read.
    #[default]
    None,
    /// The transaction has written to these servers, and other connections do not see its changes.
    Written(Arc<[Arc<str>]>),
    /// The transaction reads one snapshot, and servers have no common snapshot.
    Snapshot,
}

/// The user if none was given.
fn nobody() -> &'static Arc<str> {
    static NOBODY: OnceLock<Arc<str>> = OnceLock::new();
    NOBODY.get_or_init(|| Arc::from(""))
}

/// Held by the session while it waits for the statement. Dropping it tells the statement that nobody waits any more.
#[must_use]
pub struct Interest {
    _receiver: watch::Receiver<()>,
}

/// Held by a part of a statement that has to reach its own end. Until it is dropped, the session does not drop the statement, and asks it
/// to stop by [`StatementResources::stop`].
#[must_use]
pub(crate) struct Ending {
    receiver: watch::Receiver<Option<Error>>,
}

impl Ending {
    /// Resolves with the reason when the part is asked to stop.
    pub(crate) fn asked(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut receiver = self.receiver.clone();
        async move {
            loop {
                let why = receiver.borrow_and_update().clone();
                if let Some(why) = why {
                    return why;
                }
                if receiver.changed().await.is_err() {
                    return Error::new(ErrorCode::QueryCanceled, "nobody waits for the statement any more");
                }
            }
        }
    }
}

impl StatementResources {
    pub(crate) fn new(
        time: StatementTime,
        server: &Arc<RuntimeEnv>,
        memory_max: Option<usize>,
        admission: &Arc<Admission>,
    ) -> Self {
        let (server, admission) = (Arc::clone(server), Arc::clone(admission));
        let role = Arc::clone(nobody());
        let barrier = Barrier::None;
        Self {
            time,
            role,
            barrier,
            moment: None,
            is_fixed: false,
            reads_replicas: false,
            carried: Carried::default(),
            asks: Mutex::new(None),
            memory_max,
            server,
            own: OnceLock::new(),
            admission,
            turn: OnceLock::new(),
            interest: None,
            stop: OnceLock::new(),
        }
    }

    fn own(&self) -> &(Arc<QueryPool>, Arc<RuntimeEnv>) {
        self.own.get_or_init(|| {
            let pool = Arc::new(QueryPool::new(Arc::clone(&self.server.memory_pool), self.memory_max));
            let mut runtime = self.server.as_ref().clone();
            runtime.memory_pool = Arc::<QueryPool>::clone(&pool);
            (pool, Arc::new(runtime))
        })
    }

    /// Returns a guard: once it is dropped, a statement that waits for its turn gives up. For statements that run in a task of their own,
    /// which does not notice that the client is gone.
    pub fn watch(&mut self) -> Interest {
        let (sender, receiver) = watch::channel(());
        self.interest = Some(sender);
        Interest { _receiver: receiver }
    }

    /// Begins a part of the statement that has to reach its own end, because it changes something whose outcome must be known here.
    pub(crate) fn ending(&self) -> Ending {
        Ending { receiver: self.stop.get_or_init(|| watch::Sender::new(None)).subscribe() }
    }

    /// Asks the statement to stop. Returns `true` if a part of it has to reach its own end: the statement then reports how it ended, and
    /// must not be dropped before.
    #[must_use]
    pub fn stop(&self, why: &Error) -> bool {
        self.stop.get().is_some_and(|stop| stop.send(Some(why.clone())).is_ok())
    }

    /// The settings of connections that work for it, other than those of its transaction.
    pub(crate) fn settings_of_shards(&self) -> Settings {
        Settings { carried: self.carried.clone(), ..Settings::default() }
    }

    /// Whether what its transaction has written to shards can be read together with what the statement sees elsewhere.
    pub fn reads_own(&self) -> bool {
        self.moment.as_ref().is_none_or(|moment| moment.has_own())
    }

    /// Returns the channel of the scans that the session has to run for the statement on its transaction's connections, until the channel
    /// is closed. It is closed before the first row comes, and not before the snapshots of other shards are fixed if they are to be.
    pub fn offer_own(&mut self) -> mpsc::Receiver<OwnRead> {
        // One scan after the other.
        let (sender, receiver) = mpsc::channel(1);
        *self.asks.get_mut() = Some(sender);
        receiver
    }

    /// The sender of these requests, once.
    pub(crate) fn take_own(&self) -> Option<mpsc::Sender<OwnRead>> {
        self.asks.lock().take()
    }

    /// Waits for the statement's turn; returns at once if it has it already.
    ///
    /// # Errors
    /// 53300 if too many statements wait; 57014 if nobody waits for the statement any more.
    pub(crate) async fn admit(&self) -> Result<()> {
        let begun = self.turn().begin();
        match &self.interest {
            None => begun.await,
            Some(interest) => tokio::select! {
                biased;
                begun = begun => begun,
                () = interest.closed() => Err(Error::new(ErrorCode::QueryCanceled, "the client is gone")),
            },
        }
    }

    /// The statement's turn, for streams that each wait for themselves.
    pub(crate) fn turn(&self) -> &Arc<Turn> {
        self.turn.get_or_init(|| Turn::new(&self.admission))
    }

    /// Gives up the turn while the statement waits for its client.
    pub fn pause(&self) {
        if let Some(turn) = self.turn.get() {
            turn.pause();
        }
    }

    /// Takes a turn again, as soon as there is one.
    ///
    /// # Errors
    /// XX000
    pub async fn resume(&self) -> Result<()> {
        match self.turn.get() {
            Some(turn) => turn.resume().await,
            None => Ok(()),
        }
    }

    /// The environment in which its operators run.
    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.own().1
    }

    /// Bytes that its operators may hold, if the session has set a limit.
    pub(crate) fn memory_max(&self) -> Option<usize> {
        self.memory_max
    }

    /// The most bytes that its operators held at once.
    pub(crate) fn most(&self) -> usize {
        self.own().0.most()
    }
}

impl Drop for StatementResources {
    /// Ends the turn: streams that still exist get none any more.
    fn drop(&mut self) {
        self.pause();
    }
}

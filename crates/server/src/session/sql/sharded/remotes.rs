//! A transaction's connections to shards: opened when it first touches a shard, ended together.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use ashlar_base::{Error, ErrorCode, Result, clock};
use ashlar_query::sharded::ShardedPlan;
use ashlar_shard::backend::{Ended, Nothing, Taker};
use ashlar_shard::deadlock::{self, Stand};
use ashlar_shard::pool::Lease;
use ashlar_shard::two_phase::{self, Committed};

use super::super::read_only::{only_reads, words_of_sharded};
use super::super::{Notice, RowSink, SqlSession};
use super::Forwarding;
use crate::session::CancelToken;

/// The connection that a transaction has to a shard.
pub(in crate::session::sql) struct Remote {
    pub(super) lease: Lease,
    pub(super) server: Arc<str>,
    /// Something may have been written there.
    pub(super) wrote: bool,
    /// Nothing can be: its transaction was begun as one that reads.
    reads_only: bool,
    /// When it was lent.
    pub(super) since: Instant,
}

impl SqlSession {
    /// What may keep a statement, whose first words are given, from writing to a shard.
    pub(super) fn check_remote_write(&self, what: &str) -> Result<()> {
        if self.is_read_only() {
            return Err(only_reads(what));
        }
        self.check_unmixed()
    }

    /// The same for a statement whose shard says itself what a transaction that only reads may not do, where it was named for it.
    pub(super) fn check_write_of(&self, plan: &ShardedPlan) -> Result<()> {
        if plan.route.named().is_some() {
            return self.check_unmixed();
        }
        self.check_remote_write(words_of_sharded(plan))
    }

    fn check_unmixed(&self) -> Result<()> {
        if self.transaction.as_ref().is_some_and(|transaction| !transaction.is_clean()) {
            return Err(Error::unsupported(
                "a transaction that has changed tables of this server cannot write to a shard",
            )
            .with_hint("Write to shards in a transaction of its own."));
        }
        Ok(())
    }

    /// The place of the transaction's connection to a server, with a transaction there; made now where there is none. The session's settings
    /// are its own for what is queued next.
    pub(super) async fn begin_remote(&mut self, server: &str) -> Result<usize> {
        if let Some(place) = self.remotes.iter().position(|remote| *remote.server == *server) {
            self.remotes[place].lease.queue_settings(&self.settings.of_shards);
            return Ok(place);
        }
        let (isolation, read_only) = match &self.transaction {
            Some(transaction) => (transaction.isolation, transaction.read_only),
            None => (self.settings.modes.isolation, self.settings.modes.read_only),
        };
        let access = if read_only { "READ ONLY" } else { "READ WRITE" };
        let mut begin = format!("BEGIN ISOLATION LEVEL {} {access}", isolation.name());
        let mut lease = match self.common_to_begin(isolation).await? {
            // The member that has the snapshot.
            Some(moment) => {
                let (member, import) = moment.import(server)?;
                begin.push_str("; ");
                begin.push_str(&import);
                self.lend(member).await?
            }
            None => self.lend_one(server, read_only && self.settings.reads_replicas).await?,
        };
        for savepoint in &self.savepoints {
            begin.push_str("; SAVEPOINT ");
            begin.push_str(&ashlar_query::quote_ident(savepoint.name()));
        }
        lease.queue_query(&begin);
        let (server, since) = (Arc::from(server), clock::monotonic());
        self.remotes.push(Remote { lease, server, wrote: false, reads_only: read_only, since });
        Ok(self.remotes.len() - 1)
    }

    /// Notes, where somebody wants to know, that the statement is sent to one of the transaction's connections.
    pub(super) fn note_remote(&mut self, place: usize) {
        if self.settings.log_min_duration_ms.is_some()
            && let Some(server) = self.remotes.get(place).map(|remote| Arc::clone(remote.lease.server()))
        {
            self.note_asked(&server.name);
        }
    }

    /// Runs what `queue` queues on one of the transaction's connections.
    pub(super) async fn on_remote<T: Taker>(
        &mut self,
        place: usize,
        is_write: bool,
        taker: &mut T,
        queue: impl FnOnce(&mut Lease),
    ) -> Result<Ended> {
        pin!(self.on_remote_unless(place, is_write, taker, queue, std::future::pending())).await
    }

    /// The same, and stops it where nobody wants its answer any more: the connection is of use afterwards.
    pub(super) async fn on_remote_unless<T: Taker>(
        &mut self,
        place: usize,
        is_write: bool,
        taker: &mut T,
        queue: impl FnOnce(&mut Lease),
        unwanted: impl Future<Output = Error>,
    ) -> Result<Ended> {
        self.note_remote(place);
        let Self { shared, remotes, cancel, .. } = self;
        let stand =
            remotes.first().and_then(|first| Stand::new(first.since, remotes.iter().map(|remote| &remote.lease)));
        let stand = match stand {
            None => None,
            Some(stand) => Some((Arc::clone(shared.engine.catalog().fleet()?), stand)),
        };
        let Some(remote) = remotes.get_mut(place) else { return Err(Error::internal("no such connection")) };
        if remote.lease.is_broken() {
            let message = format!("the connection to shard \"{}\" was lost with the transaction on it", remote.server);
            return Err(Error::new(ErrorCode::ConnectionFailure, message));
        }
        remote.wrote |= is_write && !remote.reads_only;
        queue(&mut remote.lease);
        let broken = async {
            match stand {
                None => unwanted.await,
                Some((fleet, stand)) => {
                    // In a box: nearly no transaction needs room for it.
                    let deadlock = Box::pin(deadlock::broken(fleet, stand));
                    tokio::select! {
                        error = unwanted => error,
                        error = deadlock => error,
                    }
                }
            }
        };
        let ended = pin!(answered(&mut remote.lease, taker, cancel, broken)).await;
        let notices = remote.lease.take_notices();
        self.pass_notices(notices);
        ended
    }

    /// Waits for the answer to what is queued on a connection that was lent for it, and passes it on.
    pub(super) async fn on_lent<S: RowSink>(
        &mut self,
        lease: &mut Lease,
        is_write: bool,
        sink: &mut S,
    ) -> Result<Ended> {
        let ended = {
            let (cancel, mut taker) = (&self.cancel, Forwarding(sink));
            // Nothing else stops it: of what only a transaction needs nothing is made.
            let stopped = async move {
                cancel.cancelled_here().await;
                cancel.error()
            };
            pin!(lease.answer_unless(&mut taker, stopped)).await
        };
        self.pass_notices(lease.take_notices());
        if is_write && ended.is_ok() {
            sink.settled();
        }
        ended.map_err(|error| if is_write { unheard(error, lease) } else { error })
    }

    /// SAVEPOINT, RELEASE and ROLLBACK TO, as the transaction's connections have to know them too.
    pub(in crate::session::sql) async fn tell_remote(&mut self, command: &str, savepoint: &str) -> Result<()> {
        for place in 0..self.remotes.len() {
            let sql = format!("{command} {}", ashlar_query::quote_ident(savepoint));
            let queue = |lease: &mut Lease| {
                lease.queue_query(&sql);
                if command.starts_with("ROLLBACK") {
                    lease.doubt_settings();
                }
            };
            self.on_remote(place, false, &mut Nothing, queue).await?;
        }
        Ok(())
    }

    /// COMMIT where the transaction is on shards: there, and nowhere else. On several that were written to it is on all or on none.
    ///
    /// # Errors
    /// What a shard says; 08007 where the only one does not say whether it has committed.
    pub(in crate::session::sql) async fn commit_remote(&mut self) -> Result<()> {
        (0..self.remotes.len()).for_each(|place| self.note_remote(place));
        self.common = None;
        let since = self.remotes.first().map_or_else(clock::monotonic, |first| first.since);
        let (mut writers, readers): (Vec<Remote>, Vec<Remote>) =
            std::mem::take(&mut self.remotes).into_iter().partition(|remote| remote.wrote);
        // Nothing depends on how these end.
        readers.into_iter().for_each(|remote| remote.lease.abandon());
        // What is deferred runs now, and sees them.
        writers.iter_mut().for_each(|remote| remote.lease.queue_settings(&self.settings.of_shards));
        if writers.len() > 1 {
            let fleet = self.fleet()?;
            let leases: Vec<Lease> = writers.into_iter().map(|remote| remote.lease).collect();
            // What is deferred may wait for others' rows, and they for those of this transaction.
            let (cancel, stand, watching) = (self.cancel.clone(), Stand::new(since, leases.iter()), Arc::clone(&fleet));
            let stop = async move {
                let stopped = async {
                    cancel.cancelled().await;
                    cancel.error()
                };
                let Some(stand) = stand else { return stopped.await };
                let deadlock = Box::pin(deadlock::broken(watching, stand));
                tokio::select! {
                    biased;
                    error = stopped => error,
                    error = deadlock => error,
                }
            };
            let Committed { left, notices } = pin!(two_phase::commit(&fleet, leases, stop)).await?;
            self.pass_notices(notices);
            if !left.is_empty() {
                let message = "the transaction is committed, and will be on some shards as soon as they can be reached";
                let error = Error::new(ErrorCode::SuccessfulCompletion, message);
                let error = error.with_detail(format!("These are: {}.", left.join(", ")));
                self.notices.push(Notice { severity: "WARNING", error });
            }
            return Ok(());
        }
        let Some(mut remote) = writers.pop() else { return Ok(()) };
        remote.lease.queue_query("COMMIT");
        let (lease, mut nobody) = (&mut remote.lease, Nothing);
        let ended = pin!(answered(lease, &mut nobody, &self.cancel, std::future::pending())).await;
        let notices = remote.lease.take_notices();
        self.pass_notices(notices);
        match ended {
            Ok(Ended::Complete(tag)) if tag == "COMMIT" => Ok(()),
            Ok(_) => Err(Error::new(
                ErrorCode::FailedTransaction,
                format!("shard \"{}\" has rolled the transaction back", remote.server),
            )),
            Err(error) if remote.lease.is_broken() => {
                let message = format!("the connection to shard \"{}\" was lost while it committed", remote.server);
                Err(Error::new(ErrorCode::TransactionResolutionUnknown, message)
                    .with_detail(error.message())
                    .with_hint("Whether the transaction is committed is for you to look."))
            }
            Err(error) => Err(error),
        }
    }

    /// A connection in the middle of a COPY that nobody goes on with is of no use any more.
    pub(in crate::session::sql) fn leave_copies(&mut self) {
        self.remotes.iter_mut().for_each(|remote| remote.lease.give_up());
    }

    /// ROLLBACK on the shards, beside the session.
    pub(in crate::session::sql) fn rollback_remote(&mut self) {
        self.common = None;
        self.remotes.drain(..).for_each(|remote| remote.lease.abandon());
    }

    pub(super) fn pass_notices(&mut self, notices: Vec<ashlar_shard::backend::Notice>) {
        self.notices.extend(notices.into_iter().map(Notice::from));
    }
}

impl From<ashlar_shard::backend::Notice> for Notice {
    fn from(notice: ashlar_shard::backend::Notice) -> Self {
        Self { severity: notice.severity, error: notice.error }
    }
}

/// What comes of a statement that writes, and that nothing takes back, where its answer did not come to its end because it was too long for
/// us: 08007.
fn unheard(error: Error, lease: &Lease) -> Error {
    let is_ours = matches!(error.code(), ErrorCode::OutOfMemory | ErrorCode::ProgramLimitExceeded);
    if !is_ours || !lease.is_broken() {
        return error;
    }
    let message = format!("the answer of shard \"{}\" could not be read", lease.server().name);
    Error::new(ErrorCode::TransactionResolutionUnknown, message)
        .with_detail(error.message())
        .with_hint("Whether the statement was carried out is for you to look.")
}

/// Waits for a statement's answer. Where it is to be stopped, by its client or because others could not go on, its shard is told,
/// and has so long to say that it has.
pub(super) async fn answered<T: Taker>(
    lease: &mut Lease,
    taker: &mut T,
    cancel: &CancelToken,
    broken: impl Future<Output = Error>,
) -> Result<Ended> {
    let stopped = async {
        tokio::select! {
            biased;
            () = cancel.cancelled_here() => cancel.error(),
            error = broken => error,
        }
    };
    pin!(lease.answer_unless(taker, stopped)).await
}

/// Stops what is awaited with the session's statement: its connection is closed then.
pub(super) async fn stoppable<T>(work: impl Future<Output = Result<T>>, cancel: &CancelToken) -> Result<T> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(cancel.error()),
        done = work => done,
    }
}

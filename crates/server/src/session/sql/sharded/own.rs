//! Scans that the engine requests from shards the transaction has written to: run one after the other on the
//! transaction's own connections, because only those see the changes.
//!
//! Called by `query`, `spread` and `change` before the first row is sent; also when there is no such scan but snapshots
//! of other shards are to be fixed meanwhile. Rows go to the query pool as they arrive, over a bounded channel; there
//! they are charged to the query and kept. A scan that nobody wants any more is cancelled on its shard and read to its
//! end, so that savepoints remain usable.

use std::sync::Arc;

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::sharded::{OwnRead, Piece};
use ashlar_query::{Barrier, Engine, StatementResources};
use ashlar_shard::backend::Taker;
use ashlar_shard::pool::Lease;
use ashlar_store::{ReadView, Reservation};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::super::rows::RowSource;
use super::SqlSession;

static WORK: Name = Name::new("rows for shards from the query pool");

/// Pieces of an answer that are under way at once: one in the channel, one before it and one behind.
const PIECES_MAX: usize = 3;

impl SqlSession {
    /// Where a statement of the engine needs the transaction's connections, or what it sees is fixed while the session waits: what it asks for.
    /// Each shard at a moment of its own, or at that of the transaction: a statement's own snapshot of several has none of these writes.
    pub(in crate::session::sql) fn offer_own(
        &self,
        resources: &mut StatementResources,
    ) -> Option<mpsc::Receiver<OwnRead>> {
        let has_written = matches!(&resources.barrier, Barrier::Written(written) if !written.is_empty());
        let is_asked = resources.is_fixed || (has_written && resources.reads_own());
        is_asked.then(|| resources.offer_own())
    }

    /// Reads what a query asks for, until it has all.
    pub(in crate::session::sql) async fn read_own(
        &mut self,
        mut source: RowSource,
        mut asked: mpsc::Receiver<OwnRead>,
    ) -> Result<RowSource> {
        let cancel = self.cancel.clone();
        loop {
            let read = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(cancel.error()),
                read = asked.recv() => read,
            };
            let Some(read) = read else { return Ok(source) };
            let Err(error) = self.read_one(&read).await else { continue };
            if cancel.is_cancelled() || !read.pieces.is_closed() {
                return Err(error);
            }
            // The query has failed meanwhile, and that is what the client is told.
            let failure = source.failure().await;
            return Err(
                failure.unwrap_or_else(|| Error::internal("a query has ended without the rows that it asked for"))
            );
        }
    }

    /// Does work on the query pool that computes what is to be written, as this transaction sees what it is computed from.
    pub(super) async fn work_with_own<T, F, W>(&mut self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Engine>, Arc<ReadView>, StatementResources) -> W + Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
    {
        let catalog = self.catalog();
        let engine = self.engine()?;
        let mut transaction = self.take_transaction();
        let snapshot = transaction.snapshot(engine.store());
        let view = transaction.view(snapshot, &catalog);
        let time = transaction.time;
        self.transaction = Some(transaction);
        let mut resources = self.resources(&engine, time);
        // Who writes goes by what is there, and not by what a replica has of it.
        resources.reads_replicas = false;
        let asked = self.offer_own(&mut resources);
        let _interest = resources.watch();
        let (pool, cancel) = (Arc::clone(&engine), self.cancel.clone());
        let done = engine.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(cancel.error()),
                done = work(pool, view, resources) => done,
            }
        })?;
        self.serve_own(done, asked).await
    }

    /// Waits for what work on the query pool comes to, and reads meanwhile what it asks for.
    async fn serve_own<T>(&mut self, work: JoinHandle<Result<T>>, asked: Option<mpsc::Receiver<OwnRead>>) -> Result<T> {
        let mut work = Work(work);
        if let Some(mut asked) = asked {
            // Closed when the work has all of it, or has ended, which it does when it is cancelled.
            while let Some(read) = asked.recv().await {
                let Err(error) = self.read_one(&read).await else { continue };
                // Where the work has failed meanwhile, that is what the client is told.
                let is_unwanted = read.pieces.is_closed() && !self.cancel.is_cancelled();
                drop(read);
                let failure = if is_unwanted { work.done().await.err() } else { None };
                return Err(failure.unwrap_or(error));
            }
        }
        work.done().await
    }

    async fn read_one(&mut self, read: &OwnRead) -> Result<()> {
        let place = self.remotes.iter().position(|remote| remote.server == read.server);
        let Some(place) = place else { return Err(Error::internal("a transaction has no connection to its shard")) };
        read.check_order(self.remotes[place].lease.is_c_collated())?;
        self.remotes[place].lease.queue_settings(&self.settings.of_shards);
        let stop = Notify::new();
        let memory = self.shared.engine.store().reservation();
        let mut passing = Passing { read, stop: &stop, waiting: Vec::new(), memory, charged: 0, failure: None };
        let over = async {
            tokio::select! {
                () = read.pieces.closed() => {}
                () = stop.notified() => {}
            }
            unwanted()
        };
        let queue = |lease: &mut Lease| lease.queue_taken_scan(&read.text);
        let ended = self.on_remote_unless(place, false, &mut passing, queue, over).await;
        if let Some(failure) = passing.failure {
            return Err(failure);
        }
        // The text is none of the client's.
        ended.map_err(Error::nowhere)?;
        read.pieces.send(Piece::End).await.map_err(|_| unwanted())
    }
}

/// Work on the query pool that ends where nobody waits for it any more.
struct Work<T>(JoinHandle<Result<T>>);

impl<T> Work<T> {
    async fn done(&mut self) -> Result<T> {
        let done = scope(&WORK, &mut self.0).await;
        done.map_err(|error| Error::internal(format!("a query task failed: {error}")))?
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Hands the rows of a shard to the query pool.
struct Passing<'a> {
    read: &'a OwnRead,
    /// Says that nothing more is wanted.
    stop: &'a Notify,
    /// Rows that have come and are not handed on.
    waiting: Vec<u8>,
    memory: Reservation,
    /// Bytes that pieces may have.
    charged: usize,
    failure: Option<Error>,
}

impl Passing<'_> {
    fn take(&mut self, messages: &[u8]) -> Result<()> {
        if messages.len() > self.charged {
            self.memory.grow(PIECES_MAX * (messages.len() - self.charged))?;
            self.charged = messages.len();
        }
        self.waiting = messages.to_vec();
        Ok(())
    }

    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.failure = Some(error);
            self.stop.notify_one();
        }
    }
}

impl Taker for Passing<'_> {
    fn describe(&mut self, message: &[u8]) {
        let done = self.read.check_columns(message);
        self.note(done);
    }

    fn rows(&mut self, messages: &[u8], _: u64) {
        if self.failure.is_none() {
            let done = self.take(messages);
            self.note(done);
        }
    }

    async fn ready(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            // Where nobody takes them the shard is told to stop, and what it sends until then is passed over.
            let _ = self.read.pieces.send(Piece::Rows(std::mem::take(&mut self.waiting))).await;
        }
        Ok(())
    }
}

/// 57014, in the place of what the query says itself.
fn unwanted() -> Error {
    Error::new(ErrorCode::QueryCanceled, "nobody wants the rows of a scan any more")
}

//! MULTI, EXEC, DISCARD, WATCH and UNWATCH: commands that are queued, and run as one commit of the store.
//!
//! ```text
//! WATCH    a flag that every writer of the key sets: no snapshot is held for a client that takes its time
//! MULTI    from now on commands are checked and queued
//! EXEC     a transaction of the store: watched keys, then every command, then the commit
//!             a watched key was changed  -> null, and nothing was done
//!             another key was changed    -> once more, from the start: nobody has seen anything; after some attempts with all
//!                                           keys locked, so that nobody is faster again
//! ```
//!
//! As in Redis, a command that fails in EXEC is answered with its error, and the others are executed all the same.

use std::collections::HashSet;
use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, Value};
use ashlar_protocol::resp::{CommandQueue, ReplyWriter};
use ashlar_query::Engine;
use ashlar_store::{Failed, KeyTransaction, Region, Reservation, Watch};

use super::arguments::{Args, is};
use super::error::{KeyError, Outcome};
use super::rows::Target;
use super::table::{self, KnownCommand};
use super::{KeySession, REPLY_BYTES_MAX, Reply};

/// What a short command takes, in bytes that one could go through meanwhile.
const COMMAND_WORK: u64 = 256;

/// Commands between MULTI and EXEC.
pub(super) struct Queue {
    commands: CommandQueue,
    held: Reservation,
    /// One of them was refused: EXEC will be too.
    is_broken: bool,
}

/// Keys that must not change until EXEC.
#[derive(Default)]
pub(super) struct Watches {
    keys: Vec<Watched>,
    /// Their names: what is watched already stays watched from then.
    names: HashSet<Box<[u8]>>,
    /// The epoch of the catalog in which they were named: a table that comes or goes changes what names mean.
    epoch: u64,
    held: Option<Reservation>,
}

/// A key that must not change: none where no row can have it.
struct Watched {
    region: Arc<Region>,
    watch: Option<Watch>,
}

impl Queue {
    fn new(held: Reservation) -> Self {
        Self { commands: CommandQueue::default(), held, is_broken: false }
    }
}

impl Watches {
    fn have_changed(&self, engine: &Engine) -> bool {
        let changed = |watched: &Watched| {
            let is_touched = |watch: &Watch| watch.is_touched(&watched.region);
            watched.region.is_dropped() || watched.watch.as_ref().is_some_and(is_touched)
        };
        !self.keys.is_empty() && (self.epoch != engine.catalog().epoch() || self.keys.iter().any(changed))
    }

    /// The keys become a part of what the commit checks.
    fn join(&self, transaction: &mut KeyTransaction) -> Result<(), Error> {
        for watched in &self.keys {
            if let Some(watch) = &watched.watch {
                transaction.watch(&watched.region, watch)?;
            }
        }
        Ok(())
    }
}

impl KeySession {
    /// Queues a command of a transaction. It was found, and its number of arguments is right.
    pub(super) fn enqueue(&mut self, command: &KnownCommand, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
        let Some(queue) = &mut self.queue else { return Err(KeyError::Redis("ERR no transaction has begun")) };
        if command.flags.contains(&table::NO_MULTI) {
            queue.is_broken = true;
            return Err(KeyError::Redis("ERR Command not allowed inside a transaction"));
        }
        // Twice: a list that grows is there in its old and in its new size.
        if let Err(error) = queue.held.grow(2 * CommandQueue::bytes_of(args.command())) {
            queue.is_broken = true;
            return Err(error.into());
        }
        queue.commands.push(args.command());
        self.client().queued(self.queue.as_ref().map(|queue| queue.commands.len()));
        reply.simple("QUEUED");
        Ok(())
    }

    /// A command that was refused before it ran: EXEC will be refused too, or has been.
    pub(super) fn refused(&mut self, args: &Args<'_>, error: KeyError) -> KeyError {
        let Some(queue) = &mut self.queue else { return error };
        if is(args.at(0), "exec") {
            self.leave_transaction();
            return KeyError::Redis(
                "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
            );
        }
        queue.is_broken = true;
        error
    }

    /// Forgets what was queued and what is watched.
    pub(super) fn leave_transaction(&mut self) {
        self.watches = None;
        if self.queue.take().is_some() {
            self.client().queued(None);
        }
    }

    /// Runs a command of a transaction and appends its reply.
    ///
    /// # Errors
    /// 40001: the whole has to be run again.
    fn run_queued(&mut self, args: &Args<'_>, out: &mut Vec<u8>) -> Outcome {
        let start = out.len();
        let mark = self.running.transaction.as_ref().map(|transaction| transaction.mark());
        let outcome = self.find(args).and_then(|command| {
            let mut reply = ReplyWriter::new(out, self.version);
            let done = (command.handler)(self, args, &mut reply);
            self.running.settle(command.is_read());
            done
        });
        if let Err(error) = outcome {
            if error.code() == ErrorCode::SerializationFailure {
                return Err(error);
            }
            self.errors += 1;
            out.truncate(start);
            error.write(out);
            if let (Some(transaction), Some(mark)) = (&mut self.running.transaction, mark) {
                transaction.rollback_to(mark);
            }
        }
        Ok(())
    }

    /// Runs a queue once: whether it was committed.
    ///
    /// # Errors
    /// What makes the whole impossible; within, 40001 where a key has changed meanwhile, and 55P03 where one is locked.
    fn run_queue(
        &mut self,
        queue: &Queue,
        watches: Option<&Watches>,
        out: &mut Vec<u8>,
    ) -> Outcome<Result<(), Failed>> {
        let service = Arc::clone(&self.service);
        let store = service.shared.engine.store();
        let mut transaction = Box::new(self.running.begin(&service));
        if let Some(watches) = watches
            && let Err(error) = watches.join(&mut transaction)
        {
            return Ok(Err(Failed { error, is_stopped: false, requests: transaction.requests() }));
        }
        self.running.transaction = Some(transaction);
        for command in queue.commands.iter() {
            let mut outcome = self.run_queued(&Args::new(command), out);
            if out.len() > REPLY_BYTES_MAX {
                outcome = Err(KeyError::Redis("ERR the replies are too long, ask for less in one transaction"));
            }
            // They are there twice when they are put behind those of earlier commands.
            let outcome = outcome.and_then(|()| self.reply_memory.keep(2 * out.capacity()).map_err(KeyError::from));
            if let Err(error) = outcome {
                let transaction = self.running.transaction.take();
                return match (error, transaction) {
                    (KeyError::Sql(error), Some(transaction)) if error.code() == ErrorCode::SerializationFailure => {
                        Ok(Err(Failed { error, is_stopped: false, requests: transaction.requests() }))
                    }
                    (error, _) => Err(error),
                };
            }
        }
        let engine = &service.shared.engine;
        match self.running.transaction.take() {
            // Names may have come to mean something else than what is watched: a change, which the next look finds.
            Some(transaction) if watches.is_some_and(|watches| watches.epoch != engine.catalog().epoch()) => {
                let error = Error::new(ErrorCode::SerializationFailure, "the catalog has changed");
                Ok(Err(Failed { error, is_stopped: false, requests: transaction.requests() }))
            }
            Some(transaction) => Ok(transaction.commit(store)),
            None => Err(KeyError::Redis("ERR the transaction is gone")),
        }
    }
}

pub(super) fn multi(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if session.queue.is_some() {
        return Err(KeyError::Redis("ERR MULTI calls can not be nested"));
    }
    let held = session.service.shared.engine.store().reservation();
    session.queue = Some(Box::new(Queue::new(held)));
    session.client().queued(Some(0));
    reply.ok();
    Ok(())
}

pub(super) fn discard(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if session.queue.is_none() {
        return Err(KeyError::Redis("ERR DISCARD without MULTI"));
    }
    session.leave_transaction();
    reply.ok();
    Ok(())
}

pub(super) fn exec(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(queue) = session.queue.take() else {
        return Err(KeyError::Redis("ERR EXEC without MULTI"));
    };
    let watches = session.watches.take();
    session.running.charge_work(COMMAND_WORK * queue.commands.len() as u64);
    session.client().queued(None);
    if queue.is_broken {
        return Err(KeyError::Redis("EXECABORT Transaction discarded because of previous errors."));
    }
    let service = Arc::clone(&session.service);
    let have_changed = || watches.as_ref().is_some_and(|watches| watches.have_changed(&service.shared.engine));
    let (errors, lookups) = (session.errors, *session.running.lookups());
    let mut attempt = 0;
    loop {
        if have_changed() {
            reply.null_array();
            return Ok(());
        }
        attempt += 1;
        session.errors = errors;
        *session.running.lookups() = lookups;
        let mut replies = Vec::new();
        let done = session.run_queue(&queue, watches.as_deref(), &mut replies);
        let said = std::mem::take(&mut session.running.said);
        match done? {
            Ok(()) => {
                session.publish_said(said);
                reply.array(queue.commands.len());
                reply.append(&replies);
                return Ok(());
            }
            Err(mut failed) => {
                if session.running.tries_again(&mut failed, attempt) {
                    continue;
                }
                if session.running.is_stopped() {
                    // It runs once more when it has its locks.
                    session.client().queued(Some(queue.commands.len()));
                    (session.queue, session.watches) = (Some(queue), watches);
                }
                return Err(failed.error.into());
            }
        }
    }
}

pub(super) fn watch(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if session.queue.is_some() {
        return Err(KeyError::Redis("ERR WATCH inside MULTI is not allowed"));
    }
    let service = Arc::clone(&session.service);
    let engine = &service.shared.engine;
    // Before the names are looked up: a table that comes between the two is noticed.
    let epoch = engine.catalog().epoch();
    let mut watches = session.watches.take().unwrap_or_else(|| Box::new(Watches { epoch, ..Watches::default() }));
    let mut outcome: Outcome = Ok(());
    for name in args.from(1) {
        if watches.names.contains(name) {
            continue;
        }
        let target = session.target(name);
        let held = watches.held.get_or_insert_with(|| engine.store().reservation());
        // The lists may grow to twice their size.
        let bytes = 2 * (size_of::<Watched>() + size_of::<Box<[u8]>>()) + Watch::BYTES + 2 * name.len();
        if let Err(error) = held.grow(bytes) {
            outcome = Err(error.into());
            break;
        }
        let (region, watch) = match target {
            Ok(Target::Plain) => (Arc::clone(&service.kv), service.kv.watch(&[Datum::Bytea(name)])),
            Ok(Target::Row(row)) => {
                let (region, key) = row.into_parts();
                let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
                let watch = region.watch(&key);
                (region, watch)
            }
            // Nothing has this name, and only a change of the catalog could change that.
            Err(_) => (Arc::clone(&service.kv), None),
        };
        watches.names.insert(name.into());
        watches.keys.push(Watched { region, watch });
    }
    session.watches = Some(watches);
    outcome?;
    reply.ok();
    Ok(())
}

pub(super) fn unwatch(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    session.watches = None;
    reply.ok();
    Ok(())
}

//! MULTI, EXEC, DISCARD, WATCH and UNWATCH: commands that are queued, and run as one commit of the store.
//!
//! ```text
//! WATCH    a snapshot: the key must be as it was then
//! MULTI    from now on commands are checked and queued
//! EXEC     a transaction of the store: watched keys, then every command, then the commit
//!             a watched key was changed  -> null, and nothing was done
//!             another key was changed    -> once more, from the start: nobody has seen anything; TRYAGAIN after a hundred times
//! ```
//!
//! As in Redis, a command that fails in EXEC is answered with its error, and the others are done all the same.

use std::collections::HashSet;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Value};
use ashlar_protocol::resp::{CommandQueue, ReplyWriter};
use ashlar_query::Engine;
use ashlar_store::{KeyTransaction, Region, Reservation, Snapshot};

use super::access::ATTEMPTS_MAX;
use super::arguments::{Args, is};
use super::error::{KeyError, Outcome};
use super::rows::Target;
use super::table::{self, KnownCommand};
use super::{KeySession, REPLY_BYTES_MAX, Reply};

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
    keys: Vec<Watch>,
    /// Their names: what is watched already stays watched from then.
    names: HashSet<Box<[u8]>>,
    /// The epoch of the catalog in which they were named: a table that comes or goes changes what names mean.
    epoch: u64,
    held: Option<Reservation>,
}

struct Watch {
    region: Arc<Region>,
    key: Box<[Value]>,
    since: Snapshot,
}

impl Queue {
    fn new(held: Reservation) -> Self {
        Self { commands: CommandQueue::default(), held, is_broken: false }
    }
}

impl Watches {
    fn have_changed(&self, engine: &Engine) -> bool {
        let changed = |watch: &Watch| {
            let key: Vec<_> = watch.key.iter().map(Value::as_datum).collect();
            watch.region.is_dropped() || watch.region.has_changed(&watch.since, &key)
        };
        !self.keys.is_empty() && (self.epoch != engine.catalog().epoch() || self.keys.iter().any(changed))
    }

    /// The keys become a part of what the commit checks.
    fn join(&self, transaction: &mut KeyTransaction) -> Result<(), Error> {
        for watch in &self.keys {
            let key: Vec<_> = watch.key.iter().map(Value::as_datum).collect();
            transaction.watch(&watch.region, &watch.since, &key)?;
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
        let mark = self.running.as_ref().map(|transaction| transaction.mark());
        let outcome = self.find(args).and_then(|command| {
            let mut reply = ReplyWriter::new(out, self.version);
            (command.handler)(self, args, &mut reply)
        });
        if let Err(error) = outcome {
            if error.code() == ErrorCode::SerializationFailure {
                return Err(error);
            }
            self.errors += 1;
            out.truncate(start);
            error.write(out);
            if let (Some(transaction), Some(mark)) = (&mut self.running, mark) {
                transaction.rollback_to(mark);
            }
        }
        Ok(())
    }

    /// Runs a queue once: whether it was committed.
    ///
    /// # Errors
    /// 40001 where a key has changed meanwhile; what makes the whole impossible.
    fn run_queue(&mut self, queue: &Queue, watches: Option<&Watches>, out: &mut Vec<u8>) -> Outcome {
        let service = Arc::clone(&self.service);
        let store = service.shared.engine.store();
        let mut transaction = Box::new(KeyTransaction::new(store));
        if let Some(watches) = watches {
            watches.join(&mut transaction)?;
        }
        self.running = Some(transaction);
        for command in queue.commands.iter() {
            let mut outcome = self.run_queued(&Args::new(command), out);
            if out.len() > REPLY_BYTES_MAX {
                outcome = Err(KeyError::Redis("ERR the replies are too long, ask for less in one transaction"));
            }
            if outcome.is_err() {
                self.running = None;
                return outcome;
            }
        }
        let engine = &service.shared.engine;
        match self.running.take() {
            // Names may have come to mean something else than what is watched: a change, which the next look finds.
            Some(_) if watches.is_some_and(|watches| watches.epoch != engine.catalog().epoch()) => {
                Err(Error::new(ErrorCode::SerializationFailure, "the catalog has changed").into())
            }
            Some(transaction) => Ok(transaction.commit(store)?),
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
    session.client().queued(None);
    if queue.is_broken {
        return Err(KeyError::Redis("EXECABORT Transaction discarded because of previous errors."));
    }
    let service = Arc::clone(&session.service);
    let have_changed = || watches.as_ref().is_some_and(|watches| watches.have_changed(&service.shared.engine));
    let errors = session.errors;
    let mut attempt = 0;
    loop {
        if have_changed() {
            reply.null_array();
            return Ok(());
        }
        attempt += 1;
        session.errors = errors;
        let mut replies = Vec::new();
        match session.run_queue(&queue, watches.as_deref(), &mut replies) {
            Ok(()) => {
                reply.array(queue.commands.len());
                reply.append(&replies);
                return Ok(());
            }
            Err(KeyError::Sql(error)) if error.code() == ErrorCode::SerializationFailure && attempt < ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
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
    let since = engine.store().snapshot();
    let mut watches = session.watches.take().unwrap_or_else(|| Box::new(Watches { epoch, ..Watches::default() }));
    let mut outcome: Outcome = Ok(());
    for name in args.from(1) {
        if watches.names.contains(name) {
            continue;
        }
        let (region, key) = match session.target(name) {
            Ok(Target::Plain) => (Arc::clone(&service.kv), Box::from([Value::Bytea(name.into())])),
            Ok(Target::Row(row)) => row.into_parts(),
            // Nothing has this name, and only a change of the catalog could change that.
            Err(_) => (Arc::clone(&service.kv), Box::from([])),
        };
        let held = watches.held.get_or_insert_with(|| engine.store().reservation());
        // The name, in the set and in the key; the lists may grow to twice their size.
        let bytes = 2 * (size_of::<Watch>() + size_of::<Box<[u8]>>()) + size_of_val(&*key) + 2 * name.len();
        if let Err(error) = held.grow(bytes) {
            outcome = Err(error.into());
            break;
        }
        watches.names.insert(name.into());
        watches.keys.push(Watch { region, key, since: since.clone() });
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

//! Commands about the session itself and its transaction: SET, SAVEPOINT, PREPARE, FETCH, LISTEN and their like.
//!
//! Called by `run`. One `match` carries out each command; what takes more than a line is in the file of its subject, or below.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, Value};
use ashlar_query::analyze::{self, Target};
use ashlar_query::sequences;
use ashlar_query::statement::{Kind, SessionCommand};

use super::cursor::{Given, no_cursor};
use super::portal::{Portal, Tag};
use super::prepared::SmallPrepared;
use super::rows::RowSource;
use super::{Executed, RowSink, SqlSession, no_statement};
use crate::session::channels::Wish;

impl SqlSession {
    /// Runs a command.
    ///
    /// # Errors
    /// Those of PostgreSQL for the same command.
    pub(super) async fn run_command<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        command: &SessionCommand,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        match command {
            SessionCommand::Begin(modes) => self.begin(*modes),
            SessionCommand::Start(modes) => {
                self.begin(*modes)?;
                complete("START TRANSACTION")
            }
            SessionCommand::Commit => self.commit_block().await,
            SessionCommand::Rollback => Ok(self.rollback_block()),
            SessionCommand::Chain { commits } => self.end_and_chain(*commits).await,
            SessionCommand::Savepoint(name) => {
                let executed = self.savepoint(name.clone())?;
                self.tell_remote("SAVEPOINT", name).await.map(|()| executed)
            }
            SessionCommand::Release(name) => {
                let executed = self.release(name)?;
                self.tell_remote("RELEASE SAVEPOINT", name).await.map(|()| executed)
            }
            SessionCommand::RollbackTo(name) => {
                let executed = self.rollback_to(name)?;
                self.tell_remote("ROLLBACK TO SAVEPOINT", name).await.map(|()| executed)
            }
            SessionCommand::SetTransaction(modes) => self.set_transaction(*modes),
            SessionCommand::SetCharacteristics(modes) => {
                self.settings.set_characteristics(*modes)?;
                complete("SET")
            }
            SessionCommand::Set { name, value, local } => {
                self.set_at_request(name, value.as_deref(), *local)?;
                complete("SET")
            }
            SessionCommand::Reset(name) => {
                self.set(name, None, false)?;
                complete("RESET")
            }
            SessionCommand::ResetAll => {
                self.settings.reset_all()?;
                complete("RESET")
            }
            SessionCommand::Show(name) => {
                let row = vec![Value::Text(self.show(name)?.into())];
                self.send_own_rows(portal, vec![row], Tag::Plain("SHOW"), rows_max, sink).await
            }
            SessionCommand::ShowAll => {
                let rows = self.show_all();
                self.send_own_rows(portal, rows, Tag::Plain("SHOW"), rows_max, sink).await
            }
            SessionCommand::Configure(items) => {
                let row = self.configure(items, &portal.parameters)?;
                self.send_own_rows(portal, vec![row], Tag::Counted("SELECT"), rows_max, sink).await
            }
            SessionCommand::SetNumber { sequence, value, is_called } => {
                let row = self.set_number(sequence, *value, *is_called)?;
                self.send_own_rows(portal, vec![row], Tag::Counted("SELECT"), rows_max, sink).await
            }
            SessionCommand::Call(items) => {
                let row = Box::pin(self.call(items, &portal.parameters)).await?;
                self.send_own_rows(portal, vec![row], Tag::Counted("SELECT"), rows_max, sink).await
            }
            SessionCommand::Nothing(tag) => complete(tag),
            SessionCommand::Listen(channel) => {
                self.wish(Wish::Listen(channel.clone()))?;
                complete("LISTEN")
            }
            SessionCommand::Unlisten(channel) => {
                self.wish(Wish::Unlisten(channel.clone()))?;
                complete("UNLISTEN")
            }
            SessionCommand::Notify { channel, payload } => {
                let wish = self.notification(channel, payload);
                self.wish(wish)?;
                complete("NOTIFY")
            }
            SessionCommand::DiscardAll => {
                self.discard_all()?;
                complete("DISCARD ALL")
            }
            SessionCommand::Prepare { name, types, text } => {
                self.prepare_now(name, text, types.iter().copied()).await?;
                complete("PREPARE")
            }
            SessionCommand::Execute { name, arguments } => {
                self.run_prepared(portal, name, arguments, rows_max, sink).await
            }
            SessionCommand::Deallocate(name) => self.deallocate(name.as_deref()),
            SessionCommand::Declare { name, text, hold } => {
                let given = Given::of(portal);
                self.declare(name, text, *hold, given).await
            }
            SessionCommand::Fetch { name, count, is_move } => self.fetch(portal, name, *count, *is_move, sink).await,
            SessionCommand::Close(name) => self.close_cursor(name.as_deref()),
            SessionCommand::Analyze(targets) => {
                self.analyze(targets).await?;
                complete("ANALYZE")
            }
            SessionCommand::Vacuum(analyzed) => {
                self.vacuum(analyzed.as_deref()).await?;
                complete("VACUUM")
            }
        }
    }

    /// SET, and a warning where it has no effect.
    fn set_at_request(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        if local && !self.is_in_block() {
            self.warn(ErrorCode::NoActiveTransaction, "SET LOCAL can only be used in transaction blocks");
        }
        self.set(name, value, local)
    }

    /// The row of a SELECT of `setval`.
    fn set_number(&mut self, sequence: &str, value: i64, is_called: bool) -> Result<Vec<Value>> {
        self.refuse_write(true, &Kind::Empty)?;
        sequences::set_number(&self.catalog(), sequence, value, is_called, &self.identity.numbers)?;
        Ok(vec![Value::Int8(value)])
    }

    /// Forgets a prepared statement; `None`: all that have a name.
    fn deallocate(&mut self, name: Option<&str>) -> Result<Executed> {
        let Some(name) = name else {
            self.prepared.retain(|name, _| name.is_empty());
            self.small_prepared = SmallPrepared::default();
            return complete("DEALLOCATE ALL");
        };
        match self.prepared.remove(name) {
            Some(_) => complete("DEALLOCATE"),
            None => Err(no_statement(name)),
        }
    }

    /// Closes a cursor; `None`: all.
    fn close_cursor(&mut self, name: Option<&str>) -> Result<Executed> {
        let Some(name) = name else {
            self.portals.retain(|portal| !portal.is_cursor);
            return complete("CLOSE CURSOR ALL");
        };
        match self.portals.close(name) {
            true => complete("CLOSE CURSOR"),
            false => Err(no_cursor(name)),
        }
    }

    /// A round of compaction; then statistics of these tables, where they are asked for.
    async fn vacuum(&mut self, analyzed: Option<&[Target]>) -> Result<()> {
        self.refuse_block("VACUUM")?;
        let store = Arc::clone(self.shared.engine.store());
        self.beside_pool(move || store.compact()).await?;
        match analyzed {
            Some(targets) => self.analyze(targets).await,
            None => Ok(()),
        }
    }

    /// 25001 in a transaction block.
    fn refuse_block(&self, what: &str) -> Result<()> {
        if self.is_in_block() {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(Error::new(ErrorCode::ActiveTransaction, message));
        }
        Ok(())
    }

    fn discard_all(&mut self) -> Result<()> {
        self.refuse_block("DISCARD ALL")?;
        self.prepared.clear();
        self.small_prepared = SmallPrepared::default();
        self.portals.clear();
        self.settings.reset_all()?;
        self.keep = None;
        self.identity.numbers.forget();
        self.advisory.unlock_all(&self.shared.advisory);
        self.listen_to_nothing();
        Ok(())
    }

    /// Gathers statistics of tables, on the query pool.
    async fn analyze(&mut self, targets: &[Target]) -> Result<()> {
        let (engine, catalog, targets) = (self.engine()?, self.catalog(), targets.to_vec());
        let (pool, cancel) = (Arc::clone(&engine), self.cancel.clone());
        let done = engine.on_pool(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(cancel.error()),
                done = analyze::run(&pool, &catalog, &targets) => done,
            }
        });
        done.await?
    }

    /// Rows of a command, for as many Executes as the client takes.
    async fn send_own_rows<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        rows: Vec<Vec<Value>>,
        tag: Tag,
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let Some(statement) = portal.statement.clone() else { return Ok(Executed::Empty) };
        self.send_values(portal, &statement, RowSource::values(rows), tag, rows_max, sink).await
    }
}

fn complete(tag: &str) -> Result<Executed> {
    Ok(Executed::Complete(tag.into()))
}

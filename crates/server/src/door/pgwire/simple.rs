//! The simple protocol: one string, any number of statements, one answer each, one ReadyForQuery.
//!
//! Called by the connection's loop. The statements of a string are one implicit transaction; the last one is reported
//! complete only after that transaction has committed, so that no client is told of a success that is then taken back.

use std::pin::pin;

use std::sync::Arc;

use ashlar_base::Error;
use ashlar_protocol::pg::{CommandTag, backend};

use super::sink::Sink;
use super::{Connection, End, Failure, attended};
use crate::door::turn::Turn;
use crate::session::{Executed, SimpleStatement, SqlSession};

impl Connection {
    /// Carries out a Query message.
    pub(super) async fn query(
        &mut self,
        session: &mut SqlSession,
        parsed: Result<Vec<Arc<SimpleStatement>>, Failure>,
    ) -> Result<(), End> {
        let done = match parsed {
            Ok(statements) => pin!(self.run_all(session, &statements)).await,
            Err(failure) => Err(failure),
        };
        match done {
            Ok(()) => self.ready(session),
            Err(Failure::Statement(error)) => {
                self.report(session, &error);
                pin!(self.end_turn(session)).await;
            }
            Err(Failure::End(end)) => return Err(end),
        }
        Ok(())
    }

    async fn run_all(&mut self, session: &mut SqlSession, statements: &[Arc<SimpleStatement>]) -> Result<(), Failure> {
        let Some((last, others)) = statements.split_last() else {
            session.sync().await?;
            backend::empty_query(self.outbox.buffer());
            return Ok(());
        };
        let mut turn = Turn::default();
        for statement in others {
            turn.step().await;
            let tag = pin!(self.run_one(session, statement)).await?;
            self.complete(session, tag);
        }
        let tag = pin!(self.run_one(session, last)).await?;
        if !session.sync_now() {
            pin!(session.sync()).await?;
        }
        self.complete(session, tag);
        Ok(())
    }

    fn complete(&mut self, session: &mut SqlSession, tag: Option<CommandTag>) {
        self.notices(session);
        match tag {
            Some(tag) => backend::command_complete(self.outbox.buffer(), &tag),
            None => backend::empty_query(self.outbox.buffer()),
        }
        self.outbox.seal();
    }

    /// The command tag; none for a statement that is empty.
    async fn run_one(
        &mut self,
        session: &mut SqlSession,
        statement: &Arc<SimpleStatement>,
    ) -> Result<Option<CommandTag>, Failure> {
        self.statements += 1;
        let mut sink = Sink::simple(&mut self.outbox, &self.stream, &self.context, session, &self.cancel);
        let executed = {
            let work = pin!(session.run_simple(statement, &mut sink));
            pin!(attended(work, &self.stream, &mut self.context)).await
        };
        self.rows += sink.finish()?;
        match executed? {
            Executed::Complete(tag) => Ok(Some(tag)),
            Executed::Empty => Ok(None),
            Executed::CopyIn { binary, columns } => {
                let tag = pin!(self.copy_in(session, binary, columns)).await?;
                Ok(Some(tag.as_str().into()))
            }
            Executed::Suspended => Err(Error::internal("a statement of the simple protocol was suspended").into()),
        }
    }
}

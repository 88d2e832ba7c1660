//! A portal: a statement with its parameters, somewhere between its first row and its last.

use std::sync::Arc;

use ashlar_base::Value;
use ashlar_protocol::pg::ValueFormat;
use ashlar_query::Column;
use ashlar_query::statement::{Kind, SessionCommand};
use ashlar_store::Reservation;

use super::rows::RowSource;
use super::sharded::RawParameters;

/// A statement in execution.
pub(super) struct Portal {
    /// `None` for an empty string.
    pub(super) statement: Option<Arc<ashlar_query::Statement>>,
    pub(super) parameters: Vec<Value>,
    /// The same as the client sent them, where a shard reads them.
    pub(super) raw: Option<RawParameters>,
    /// Pays for parameters that are long.
    pub(super) held: Option<Reservation>,
    /// One per result column.
    pub(super) formats: Arc<[ValueFormat]>,
    /// What it was bound from: planned again where the catalog has changed since.
    pub(super) source: Option<Arc<Source>>,
    pub(super) progress: Progress,
    /// Made by DECLARE: lives to the end of its block.
    pub(super) is_cursor: bool,
    /// Counts the session's portals in the order they were made.
    pub(super) number: u64,
}

/// The text of a prepared statement and the types it was declared with.
pub(super) struct Source {
    pub(super) sql: String,
    pub(super) declared: Vec<u32>,
}

/// How far a portal has come.
pub(super) enum Progress {
    /// Not executed.
    Fresh,
    /// Rows are left.
    Open(RowSource, Tag),
    /// A shard has more rows, in a portal of this name.
    Remote {
        /// The shard.
        server: Arc<str>,
        /// The portal's name there.
        portal: String,
    },
    /// All rows have been sent: a further Execute sends none.
    Ended(Tag),
    /// It had no rows to send, or has failed, and cannot be run again.
    Done,
}

/// The command tag of a portal that sends rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Followed by the rows that the Execute has sent.
    Counted(&'static str),
    /// As it is.
    Plain(&'static str),
}

impl Tag {
    /// The tag after so many rows.
    pub(super) fn after(self, rows: u64) -> String {
        match self {
            Self::Counted(words) => format!("{words} {rows}"),
            Self::Plain(words) => words.to_owned(),
        }
    }
}

impl Portal {
    pub(super) fn new(
        statement: Arc<ashlar_query::Statement>,
        parameters: Vec<Value>,
        formats: Arc<[ValueFormat]>,
    ) -> Self {
        Self {
            statement: Some(statement),
            parameters,
            raw: None,
            held: None,
            formats,
            source: None,
            progress: Progress::Fresh,
            is_cursor: false,
            number: 0,
        }
    }

    pub(super) fn empty() -> Self {
        Self {
            statement: None,
            parameters: Vec::new(),
            raw: None,
            held: None,
            formats: Vec::new().into(),
            source: None,
            progress: Progress::Fresh,
            is_cursor: false,
            number: 0,
        }
    }

    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.progress, Progress::Fresh)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.progress, Progress::Done)
    }

    pub(super) fn columns(&self) -> Option<Arc<[Column]>> {
        self.statement.as_ref()?.columns.clone()
    }

    /// Whether executing it has closed all portals.
    pub(super) fn ends_block(&self) -> bool {
        let Some(statement) = &self.statement else { return false };
        matches!(
            statement.kind,
            Kind::Session(
                SessionCommand::Commit
                    | SessionCommand::Rollback
                    | SessionCommand::RollbackTo(_)
                    | SessionCommand::DiscardAll
            )
        )
    }
}

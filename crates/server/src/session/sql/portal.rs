//! A portal: a statement with its parameters, somewhere between its first row and its last.

use std::sync::Arc;

use ashlar_base::Value;
use ashlar_protocol::pg::Format;
use ashlar_query::Column;
use ashlar_query::statement::{Kind, SessionCommand};

use super::rows::RowSource;

/// A statement in execution.
pub(super) struct Portal {
    /// `None` for an empty string.
    pub(super) statement: Option<Arc<ashlar_query::Statement>>,
    pub(super) parameters: Vec<Value>,
    /// One per result column.
    pub(super) formats: Arc<[Format]>,
    /// The prepared statement that it was bound from.
    pub(super) prepared_as: Option<String>,
    pub(super) progress: Progress,
    /// Made by DECLARE: lives to the end of its block.
    pub(super) is_cursor: bool,
}

/// How far a portal has come.
pub(super) enum Progress {
    /// Not executed.
    Fresh,
    /// Rows are left; so many have been sent.
    Open(RowSource, u64),
    /// At its end: the tag of a further Execute.
    Done(String),
}

impl Portal {
    pub(super) fn new(statement: Arc<ashlar_query::Statement>, parameters: Vec<Value>, formats: Arc<[Format]>) -> Self {
        Self {
            statement: Some(statement),
            parameters,
            formats,
            prepared_as: None,
            progress: Progress::Fresh,
            is_cursor: false,
        }
    }

    pub(super) fn empty() -> Self {
        Self {
            statement: None,
            parameters: Vec::new(),
            formats: Vec::new().into(),
            prepared_as: None,
            progress: Progress::Fresh,
            is_cursor: false,
        }
    }

    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.progress, Progress::Fresh)
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

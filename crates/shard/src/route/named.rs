//! Statements for an explicitly named server: the text is sent as it is written, whatever it is about.
//!
//! Called by the planner when a session names a server. Nothing is known of such a statement except its kind. Its
//! tables may be anybody's, and a query may call a function that writes, so it counts as a write.

use std::borrow::Cow;
use std::sync::Arc;

use pg_query::NodeEnum;

use super::{Kind, Route, Several, ShardStatement, Source};
use crate::backend::TextNumber;
use crate::rewrite::Template;
use crate::rules::ShardId;

impl Route {
    /// The route of a statement for this server; `None` for what is neither a query nor an INSERT, UPDATE or DELETE.
    pub fn of_server(source: &Source<'_>, server: &Arc<str>) -> Option<Self> {
        let (kind, has_rows) = match source.node {
            NodeEnum::SelectStmt(_) => (Kind::Select, true),
            NodeEnum::InsertStmt(insert) => (Kind::Insert, insert.returning_clause.is_some()),
            NodeEnum::UpdateStmt(update) => (Kind::Update, update.returning_clause.is_some()),
            NodeEnum::DeleteStmt(delete) => (Kind::Delete, delete.returning_clause.is_some()),
            _ => return None,
        };
        Some(Self::for_server(kind, has_rows, source.text, server))
    }

    fn for_server(kind: Kind, has_rows: bool, text: &str, server: &Arc<str>) -> Self {
        Self {
            named: Some(Arc::clone(server)),
            kind,
            text: text.into(),
            number: TextNumber::make(),
            has_rows,
            locks: false,
            locks_copies: false,
            changes: false,
            needs_one_server: false,
            names_elsewhere: false,
            fed: Vec::new(),
            occurrences: Vec::new(),
            template: Template::default(),
            lists: Vec::new(),
            columns: Vec::new(),
            stars: Vec::new(),
            texts: Vec::new(),
            names: Vec::new(),
            targets: Vec::new(),
            groups: Vec::new(),
            objection: None,
            several: Ok(Several::Apart),
            rows: None,
        }
    }

    /// The server that is named beside the statement; `None` for one that is routed.
    pub fn named(&self) -> Option<&Arc<str>> {
        self.named.as_ref()
    }

    /// The same route once more; `None` for a statement that is routed.
    pub(super) fn again(&self) -> Option<Self> {
        Some(Self::for_server(self.kind, self.has_rows, &self.text, self.named.as_ref()?))
    }

    /// What the server that is named is sent.
    pub(super) fn whole(&self) -> Option<ShardStatement<'_>> {
        let server = self.named.as_deref()?;
        let text = Cow::Borrowed(&*self.text);
        Some(ShardStatement { server, shard: ShardId(0), text, parameters: None, is_made: false })
    }
}

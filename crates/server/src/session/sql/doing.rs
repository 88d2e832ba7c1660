//! Notes what the session is doing, for those who ask `pg_stat_activity`.

use std::net::SocketAddr;
use std::sync::Arc;

use ashlar_query::ddl::Ddl;
use ashlar_query::grammar::ParsedStatement;
use ashlar_query::statement::Kind;

use super::SqlSession;
use super::portal::Portal;
use crate::session::registry::Who;

/// What is told instead of a text that there may be a password in.
pub(super) const NOT_TOLD: &str = "a statement about servers";

impl SqlSession {
    /// What others are told of the session, whose client is there.
    pub fn who(&self, client: Option<SocketAddr>) -> Who {
        let (user, database) = (self.identity.user.clone(), self.identity.database.clone());
        Who { user, database, client, activity: Arc::clone(&self.activity) }
    }

    /// Notes that the client may speak again.
    pub fn note_waiting(&self) {
        self.activity.wait(self.status());
    }

    /// Notes a parameter that the client is told.
    pub fn note_parameter(&self, name: &str, value: &str) {
        if name == "application_name" {
            self.activity.call(value);
        }
    }

    /// Notes that the statements of a query string begin.
    pub(super) fn note_string(&self, sql: &str, parsed: &[ParsedStatement]) {
        let is_told = !parsed.iter().any(ParsedStatement::may_hold_password);
        self.activity.begin(if is_told { sql } else { NOT_TOLD });
    }

    /// Notes that the statement of a portal begins, or goes on.
    pub(super) fn note_portal(&self, portal: &Portal) {
        let kind = portal.statement.as_ref().map(|statement| &statement.kind);
        match (kind, &portal.source) {
            (Some(Kind::Ddl(Ddl::Server(_))), _) => self.activity.begin(NOT_TOLD),
            (_, Some(source)) => self.activity.begin_kept(&source.sql),
            (_, None) => self.activity.begin(""),
        }
    }
}

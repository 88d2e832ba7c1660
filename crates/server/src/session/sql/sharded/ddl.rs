//! DDL of sharded tables that depends on the session: on its settings, which say where tables are placed, and on its
//! transaction.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::ddl::Ddl;
use ashlar_query::select::SelectPlan;
use ashlar_query::sharded::{by_default, is_open, read_by, truncating};
use ashlar_query::transaction::Isolation;
use ashlar_shard::backend::Nothing;

use super::super::portal::Portal;
use super::super::{Executed, SqlSession};

impl SqlSession {
    /// 0A000 where a statement that writes to these servers would need a snapshot of several of them.
    pub(super) fn check_several(&self, servers: &[&str]) -> Result<()> {
        let is_new = |server: &&str| self.remotes.iter().all(|remote| *remote.server != **server);
        let is_second = servers.len() > 1 || !self.remotes.is_empty();
        if is_second && servers.iter().any(is_new) && self.isolation() == Isolation::RepeatableRead {
            return Err(Error::unsupported(
                "writing to several shards at isolation level REPEATABLE READ is not supported",
            )
            .with_hint("Shards have no snapshot together: use READ COMMITTED."));
        }
        Ok(())
    }

    /// What a CREATE TABLE that does not say where its table is becomes by the session's settings; `None`: what it is.
    pub(in crate::session::sql) fn placed(&self, statement: &Ddl) -> Result<Option<Ddl>> {
        match statement {
            Ddl::Create(node) if self.settings.value("default_table_access_method") == "sharded" && is_open(node) => {
                by_default(&self.shared.engine, node, self.settings.value("default_sharding_servers")).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// 55006 for TRUNCATE of what a cursor or a portal of the session reads: the shard would wait for its scan, which is over another
    /// connection and goes on when the client asks for more.
    fn check_unread(&self, statement: &Ddl) -> Result<()> {
        let Ddl::Truncate(node) = statement else { return Ok(()) };
        let queries: Vec<&SelectPlan> = self.portals.iter().filter_map(Portal::reading).collect();
        match read_by(&self.catalog(), node, &queries)? {
            None => Ok(()),
            Some(name) => Err(Error::new(
                ErrorCode::ObjectInUse,
                format!("cannot TRUNCATE \"{name}\" because it is being used by active queries in this session"),
            )),
        }
    }

    /// TRUNCATE of sharded tables as a part of the transaction; `None`: it is of others, or of one by itself.
    pub(in crate::session::sql) async fn truncate_remote(
        &mut self,
        statement: &Ddl,
        in_block: bool,
    ) -> Result<Option<Executed>> {
        let Ddl::Truncate(node) = statement else { return Ok(None) };
        self.check_unread(statement)?;
        if !in_block && node.relations.len() < 2 {
            return Ok(None);
        }
        let Some(work) = truncating(&self.catalog(), node)? else { return Ok(None) };
        self.check_remote_write("TRUNCATE TABLE")?;
        self.check_several(&work.iter().map(|(server, _)| server.as_str()).collect::<Vec<_>>())?;
        for (server, sql) in work {
            let place = self.begin_remote(&server).await?;
            self.on_remote(place, true, &mut Nothing, |lease| lease.queue_query(&sql)).await?;
        }
        Ok(Some(Executed::Complete("TRUNCATE TABLE".into())))
    }
}

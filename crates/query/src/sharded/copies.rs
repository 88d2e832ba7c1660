//! ALTER TABLE ... SET (servers = ...) of a table with a full copy on each server: new servers get a copy, others lose
//! theirs, in one transaction that commits on all of them or on none.
//!
//! ```text
//! copies that stay are renamed, which locks them ──▶ compared ──▶ rows of the first ──▶ copies that come ──▶ commit on all
//! ```
//!
//! A concurrent writer waits at the first copy. Afterwards it finds neither the old name nor a copy that has been
//! removed, and so writes to none: it would have missed the new copies.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::backend::Ended;
use ashlar_shard::pool::Lease;
use ashlar_shard::rules::{Copies, Extension, Shard};

use super::ShardedTable;
use super::attach::{self, texts};
use super::ddl::physical;
use super::maintain::{Work, on_shard};
use super::rename::is_there;
use super::rule::making;
use super::stored_definition::StoredTable;
use crate::resources::StatementResources;

/// What is collected of rows before it is sent on.
const PIECE_BYTES: usize = 32 * 1024;

/// What COPY in binary form begins with: its signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What it ends with.
const TRAILER: &[u8] = &[0xff, 0xff];

/// See the module.
pub(super) struct CopyChange<'a> {
    /// The table as it is.
    pub(super) table: &'a ShardedTable,
    /// The same with its other servers.
    pub(super) altered: &'a ShardedTable,
    /// What would make that.
    pub(super) now: &'a StoredTable,
    /// The difference.
    pub(super) copies: &'a Copies,
}

impl CopyChange<'_> {
    /// Changes the copies. Returns the servers where that is still to come.
    ///
    /// # Errors
    /// 0A000 where a copy would go that was there before the table was known here; 55000 where copies differ; what a server says. Then all
    /// copies are as they were.
    pub(super) async fn carry_out(&self, resources: &StatementResources) -> Result<Vec<String>> {
        if self.table.attached && !self.copies.removed.is_empty() {
            let message = "a copy that was there before its table was attached cannot be taken away";
            return Err(Error::unsupported(message)
                .with_hint("Take it away where the table was made, and here after that with attach = true as well."));
        }
        let fleet = &self.table.fleet;
        let work = self.work()?;
        let ending = resources.ending();
        let mut stop = Box::pin(ending.asked());
        let begun = tokio::select! {
            biased;
            begun = self.begin(&work, resources) => begun,
            why = &mut stop => Err(why),
        };
        let ended = fleet.commit_on_all(begun?, stop).await.map_err(again);
        // What they have prepared is about names that are none any more.
        work.iter().for_each(|(server, _)| fleet.forget(server));
        ended
    }

    /// Looks at copies that somebody else has changed.
    ///
    /// # Errors
    /// 55000 where a copy that is to go is still there, or copies differ; as [`attach::check`].
    pub(super) async fn look(&self, rows: bool, resources: &StatementResources) -> Result<()> {
        attach::check(self.altered, &self.now.made, resources, false, &Extension::default()).await?;
        for shard in &self.copies.removed {
            let name = physical(shard);
            if is_there(self.table, shard, &name, resources).await? {
                let message = format!("table {name} is still on shard \"{}\"", shard.server);
                return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message)
                    .with_hint("Take it away where others write to it, and then here."));
            }
        }
        if !rows {
            return Ok(());
        }
        let shards = self.altered.routed.rule.shards();
        let locking = |shard: &Shard| format!("LOCK TABLE {} IN SHARE MODE", physical(shard));
        let work: Work = shards.iter().map(|shard| (shard.server.to_string(), locking(shard))).collect();
        let mut leases = self.table.fleet.begin_on_all(&resources.role, &work).await?;
        let names: Vec<&Shard> = shards.iter().collect();
        let compared = self.compare(&mut leases, &names).await;
        leases.into_iter().for_each(Lease::abandon);
        compared
    }

    /// What the servers are sent: those whose copies stay in the order of the rule, in which everybody writes to them; then those that go,
    /// and those that come.
    fn work(&self) -> Result<Work> {
        let mut work = Work::new();
        for (was, is) in &self.copies.kept {
            if was.table != is.table {
                work.push((was.server.to_string(), self.renaming(was, is)?));
            }
        }
        for shard in &self.copies.removed {
            work.push((shard.server.to_string(), format!("DROP TABLE IF EXISTS {};", physical(shard))));
        }
        for shard in &self.copies.added {
            work.push((shard.server.to_string(), making(self.altered, self.now, shard)?));
        }
        Ok(work)
    }

    /// Renames a copy, and its indexes, which have the end of its name.
    fn renaming(&self, was: &Shard, is: &Shard) -> Result<String> {
        let mut text = format!("ALTER TABLE {} RENAME TO {};", physical(was), quote_ident(&is.table));
        for index in &self.now.indexes {
            let from = on_shard(&index.idxname, self.table, was)?;
            let to = on_shard(&index.idxname, self.altered, is)?;
            let (schema, from, to) = (quote_ident(&was.schema), quote_ident(&from), quote_ident(&to));
            text.push_str(&format!("ALTER INDEX {schema}.{from} RENAME TO {to};"));
        }
        Ok(text)
    }

    /// All of it but the commit: the connections on which that is to be done.
    async fn begin(&self, work: &[(String, String)], resources: &StatementResources) -> Result<Vec<Lease>> {
        let mut leases = self.table.fleet.begin_on_all(&resources.role, work).await?;
        match self.fill(&mut leases).await {
            Ok(()) => Ok(leases),
            Err(error) => {
                leases.into_iter().for_each(Lease::abandon);
                Err(error)
            }
        }
    }

    /// Gives the copies that come their rows. All that there are have been renamed by then.
    async fn fill(&self, leases: &mut [Lease]) -> Result<()> {
        let copies = self.copies;
        if copies.added.is_empty() {
            return Ok(());
        }
        let (kept, others) = leases.split_at_mut(copies.kept.len());
        let names: Vec<&Shard> = copies.kept.iter().map(|(_, is)| is).collect();
        self.compare(kept, &names).await?;
        let (_, added) = others.split_at_mut(copies.removed.len());
        let (Some(source), Some(name)) = (kept.first_mut(), names.first()) else {
            return Err(Error::internal("a table that is on all servers has no copy"));
        };
        for (lease, shard) in added.iter_mut().zip(&copies.added) {
            self.copy_rows(source, name, lease, shard).await?;
        }
        Ok(())
    }

    fn columns(&self) -> String {
        let names = self.altered.schema.columns.iter().map(|column| quote_ident(&column.name));
        names.collect::<Vec<String>>().join(", ")
    }

    /// Sends all rows of a copy to another one, as they come.
    async fn copy_rows(&self, from: &mut Lease, source: &Shard, to: &mut Lease, target: &Shard) -> Result<()> {
        let columns = self.columns();
        let oids: Vec<u32> = self.altered.schema.columns.iter().map(|column| column.sql_type.oid()).collect();
        to.start_copy(&format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", physical(target))).await?;
        to.queue_copy(HEADER);
        from.queue_scan(&format!("SELECT {columns} FROM {}", physical(source)));
        from.flush().await?;
        let mut failure = None;
        while let Some(range) = from.next_row(&oids, &mut failure).await? {
            // A row of an answer has the form of one of COPY: the number of its values, and the length of each before it.
            to.queue_copy(from.row(&range));
            from.consume_row(&range);
            if to.queued() >= PIECE_BYTES {
                to.send_copy().await?;
            }
            tokio::task::coop::consume_budget().await;
        }
        to.queue_copy(TRAILER);
        to.send_copy().await?;
        match to.end_copy().await? {
            Ended::Complete(_) => Ok(()),
            Ended::Suspended | Ended::Empty => Err(Error::internal("a COPY has not come to its end")),
        }
    }

    /// Compares copies that nobody changes meanwhile with the first of them.
    ///
    /// # Errors
    /// 55000
    async fn compare(&self, leases: &mut [Lease], copies: &[&Shard]) -> Result<()> {
        let columns = self.columns();
        let mut first: Option<(&Shard, Option<String>)> = None;
        for (lease, shard) in leases.iter_mut().zip(copies) {
            // Rows in whatever order, each as the text of all of its values: how many, and the sum of their hashes.
            let sum = format!(
                "SELECT concat(count(*), ' ', sum(pg_catalog.hashtextextended(ROW({columns})::text, 0))) FROM {}",
                physical(shard)
            );
            let told = texts(lease, &sum).await?.into_iter().next().flatten();
            let Some((one, known)) = &first else {
                first = Some((*shard, told));
                continue;
            };
            if *known != told {
                let (own, one, other) = (&self.table.schema.name, &one.server, &shard.server);
                let message = format!("copies of table \"{own}\" on shards \"{one}\" and \"{other}\" have other rows");
                return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message)
                    .with_hint("SET sharded_server shows the rows of one of them, and mends them."));
            }
        }
        Ok(())
    }
}

fn again(error: Error) -> Error {
    let is_unknown = error.code() == ErrorCode::TransactionResolutionUnknown;
    if is_unknown {
        error.with_hint("Say it again, with attach = true as well where copies were to come.")
    } else {
        error
    }
}

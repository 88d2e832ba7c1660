//! Announces which connections belong to a transaction that has waited long, to every Ashlar process in front of the
//! same cluster.
//!
//! ```text
//! advisory lock (NUMBER, PROCESS), shared ── held by ──▶ a connection whose application_name is ashlar-waits-MEMBER-ROUND
//! ```
//!
//! The announcement is made on a connection of its own, so the transaction and its connections are left untouched, and
//! it disappears with that connection. It may be stale: only when a member has announced the next round but one after a
//! moment has it certainly looked, after that moment, at which transactions still wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ashlar_base::Result;

use super::cycles::{Cluster, Look, Name};
use crate::backend::{Backend, Limits, Settings};
use crate::rows::{INT4, INT8, TEXT, rows};
use crate::server::{Mapping, Server};

/// What one Ashlar tells a cluster at most: each is a lock of those that the cluster has room for.
pub(super) const CLAIMS_MAX: usize = 200;

/// How names of connections that tell it begin.
const PREFIX: &str = "ashlar-waits-";

/// Connections that tell it. PostgreSQL shows everybody what they are called.
const MEMBERS: &str = "SELECT pid, application_name FROM pg_catalog.pg_stat_activity \
    WHERE application_name LIKE 'ashlar-waits-%'";

/// Who waits for whom, of all that waits on a server.
const EDGES: &str = "SELECT w.pid, b.pid \
    FROM (SELECT DISTINCT pid FROM pg_catalog.pg_locks WHERE NOT granted) w \
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b(pid)";

/// That a process serves a transaction: the number of this one, and of the process.
pub(super) type Claim = (i32, i32);

/// A connection to a cluster that tells what this member has there, and reads what others tell.
pub(super) struct Watcher {
    backend: Backend,
    told: BTreeSet<Claim>,
}

impl Watcher {
    /// One that has told nothing.
    ///
    /// # Errors
    /// As [`Backend::connect`].
    pub(super) async fn connect(server: &Arc<Server>, mapping: &Arc<Mapping>, limits: Limits) -> Result<Self> {
        let backend = Backend::connect(server, mapping, &Settings::default(), limits).await?;
        Ok(Self { backend, told: BTreeSet::new() })
    }

    /// Tells these, and nothing else, in a round of this member. One whose lock somebody else has is told when it is free.
    ///
    /// # Errors
    /// What the server says, and then the watcher is of no use any more.
    pub(super) async fn tell(&mut self, claims: &BTreeSet<Claim>, member: &str, round: u64) -> Result<()> {
        let new = claims.difference(&self.told).map(|(number, pid)| format!("({number}, {pid})"));
        let new: Vec<String> = new.collect();
        if !new.is_empty() {
            let sql = format!(
                "SELECT c.number, c.pid FROM (VALUES {}) AS c (number, pid) \
                 WHERE pg_catalog.pg_try_advisory_lock_shared(c.number, c.pid)",
                new.join(", ")
            );
            let locked = rows(&mut self.backend, &sql, &[INT4, INT4]).await?;
            self.told.extend(locked.iter().filter_map(|row| Some((row.int4(0)?, row.int4(1)?))));
        }
        let old = self.told.difference(claims);
        let mut sql: String = old
            .map(|(number, pid)| format!("SELECT pg_catalog.pg_advisory_unlock_shared({number}, {pid}); "))
            .collect();
        // Last: who reads this round reads nothing then that was over before it.
        let name = name(member, round);
        sql.push_str(&format!("SELECT pg_catalog.set_config('application_name', '{name}', false)"));
        self.backend.run(&sql).await?;
        self.told.retain(|claim| claims.contains(claim));
        Ok(())
    }

    /// Reads who waits for whom on the cluster, and what others than this member tell.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub(super) async fn read(&mut self, cluster: &Cluster, member: &str, look: &mut Look) -> Result<()> {
        let mut others: BTreeMap<i32, (Arc<str>, u64)> = BTreeMap::new();
        for row in rows(&mut self.backend, MEMBERS, &[INT4, TEXT]).await? {
            let (Some(pid), Some(name)) = (row.int4(0), row.text(1)) else { continue };
            if let Some((other, round)) = parse(&name)
                && other != member
            {
                others.insert(pid, (Arc::from(other), round));
            }
        }
        // In this order: what is told of a round is read after the round, and before anything that it explains.
        if !others.is_empty() {
            let pids: Vec<String> = others.keys().map(ToString::to_string).collect();
            let sql = format!(
                "SELECT pid, classid::pg_catalog.int8, objid::pg_catalog.int8 FROM pg_catalog.pg_locks \
                 WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND pid IN ({})",
                pids.join(", ")
            );
            for row in rows(&mut self.backend, &sql, &[INT4, INT8, INT8]).await? {
                let number = row.int8(1).and_then(|number| i32::try_from(number).ok());
                let pid = row.int8(2).and_then(|pid| i32::try_from(pid).ok());
                let other = row.int4(0).and_then(|teller| others.get(&teller));
                let (Some(number), Some(pid), Some((other, round))) = (number, pid, other) else { continue };
                let name = Name { number, member: Arc::clone(other) };
                let last = look.rounds.entry(name.clone()).or_default();
                *last = (*last).max(*round);
                // What is ours we know ourselves.
                look.owners.entry((cluster.clone(), pid)).or_insert(name);
            }
        }
        for row in rows(&mut self.backend, EDGES, &[INT4, INT4]).await? {
            if let (Some(blocked), Some(by)) = (row.int4(0), row.int4(1)) {
                look.edges.push(((cluster.clone(), blocked), by));
            }
        }
        Ok(())
    }
}

/// What a connection is called that has told a round of a member.
fn name(member: &str, round: u64) -> String {
    format!("{PREFIX}{member}-{round:x}")
}

/// The member and the round; `None` where it is none of these connections.
fn parse(name: &str) -> Option<(&str, u64)> {
    let (member, round) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    Some((member, u64::from_str_radix(round, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_was_made_of_and_fits() {
        // A member that began in a thousand years, after ten of rounds.
        let member = format!("{:016x}-{:x}", u64::MAX, 1_000_i64 * 366 * 24 * 3600 * 1_000_000);
        let round = 10 * 366 * 24 * 3600 * 4;
        let name = name(&member, round);
        // PostgreSQL cuts off what is longer.
        assert!(name.len() < 64, "{name}");
        assert_eq!(parse(&name), Some((member.as_str(), round)));
        assert!(MEMBERS.contains(PREFIX));
    }

    #[test]
    fn what_others_are_called_says_nothing() {
        for name in ["", "ashlar", "psql", "ashlar-waits-", "ashlar-waits-1", "ashlar-waits-1-", "ashlar-waits-1-x"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}

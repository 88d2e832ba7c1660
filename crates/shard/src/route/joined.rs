//! Rows of several shards of one server, asked for in one statement, so that a server has one connection at work for a query whose rows are
//! put together.
//!
//! ```text
//!   SELECT v FROM "t_0" AS "t" ORDER BY v LIMIT 3           (SELECT v FROM "t_0" AS "t" ORDER BY v LIMIT 3
//!   SELECT v FROM "t_2" AS "t" ORDER BY v LIMIT 3    ──▶    ) UNION ALL (SELECT v FROM "t_2" AS "t" ORDER BY v LIMIT 3
//!                                                           ) ORDER BY 1 NULLS LAST
//! ```
//!
//! What each part says stays as it is: the rows of a server are those of its shards, in the order that all are put together in. Columns are
//! counted here: those of a star are named in the parts, and whoever asks makes sure that all parts have the same ones.

use std::borrow::Cow;

use super::{Forward, Merge, ShardStatement};
use crate::merge::{Place, RowMerge};

/// Bytes that the parts of one query may have together.
const PARTS_BYTES_MAX: usize = 1 << 20;

impl<'r> Forward<'r> {
    /// Whether its rows come from one connection to each server: each has one shard of them, or its shards' statements can be one.
    pub fn is_joinable(&self) -> bool {
        let bytes: usize = self.statements.iter().map(|one| one.text.len()).sum();
        let is_whole = self.statements.iter().all(|one| one.parameters.is_none());
        let is_open = match &self.merge {
            Merge::Rows(gathering) => {
                // A column of a client's that is called like one of ours could not be told from it.
                let are_ours =
                    |one: &ShardStatement<'_>| one.text.matches("_ashlar_").count() == gathering.merge.hidden;
                gathering.merge.has_open_stars || !self.statements.iter().all(are_ours)
            }
            _ => false,
        };
        self.servers().len() == self.statements.len() || (is_whole && !is_open && bytes <= PARTS_BYTES_MAX)
    }

    /// The same with one statement for each server; `None`: each has one already.
    pub fn by_server(&self) -> Option<Self> {
        let Merge::Rows(gathering) = &self.merge else { return None };
        let servers = self.servers();
        if servers.len() == self.statements.len() {
            return None;
        }
        let order = order_of(gathering.merge);
        let mut statements = Vec::with_capacity(servers.len());
        for server in servers {
            let own: Vec<&ShardStatement<'r>> = self.statements.iter().filter(|one| one.server == server).collect();
            let shard = own.first()?.shard;
            let text = match own[..] {
                [one] => one.text.clone(),
                // The last line of a text may be a comment.
                _ => {
                    let parts: Vec<String> = own.iter().map(|one| format!("({}\n)", one.text)).collect();
                    Cow::Owned(format!("{}{order}", parts.join(" UNION ALL ")))
                }
            };
            statements.push(ShardStatement { server, shard, text, parameters: None, is_made: false });
        }
        Some(Self { statements, merge: self.merge.clone(), outcome: self.outcome })
    }

    /// The servers that it asks, in the order of their names.
    fn servers(&self) -> Vec<&'r str> {
        let mut servers: Vec<&'r str> = self.statements.iter().map(|one| one.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

/// ORDER BY for rows of which each part is sorted so; empty where they are in any order.
fn order_of(merge: &RowMerge) -> String {
    let keys = if merge.aggregates.is_empty() { &merge.keys } else { &merge.streamed };
    if keys.is_empty() {
        return String::new();
    }
    let key = |key: &crate::merge::SortKey| {
        let column = match key.column {
            Place::FromStart(at) => (at + 1).to_string(),
            Place::FromEnd(at) => format!("\"_ashlar_{}\"", (merge.hidden + 1).saturating_sub(at)),
        };
        let direction = if key.is_descending { " DESC" } else { "" };
        let nulls = if key.nulls_first { "FIRST" } else { "LAST" };
        format!("{column}{direction} NULLS {nulls}")
    };
    let keys: Vec<String> = keys.iter().map(key).collect();
    format!(" ORDER BY {}", keys.join(", "))
}

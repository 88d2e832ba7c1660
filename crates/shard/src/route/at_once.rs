//! The way of most executions: one shard has all that matters, and its text is there already. Nothing is made.
//!
//! Says the same as [`Route::decide`] wherever it says something; the twin of the route's tests holds it to that.

use std::sync::Arc;

use super::condition::Only;
use super::decide::Spot;
use super::{Kind, Request, Route};
use crate::backend::TextNumber;
use crate::rules::{Placement, ShardId};

/// Where an execution goes that one shard carries out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtOnce<'r> {
    /// The server.
    pub server: &'r Arc<str>,
    /// The shard.
    pub shard: ShardId,
    /// What it is sent, with the client's parameters as they are.
    pub text: &'r str,
    /// The text's number.
    pub number: TextNumber,
    /// Whether that is the client's own text.
    pub is_as_sent: bool,
}

/// What one of the shards is sent where it calls the tables otherwise.
#[derive(Debug)]
pub(super) struct OfShard {
    text: Box<str>,
    number: TextNumber,
    is_as_sent: bool,
}

impl Route {
    /// Where an execution goes, if that is plain. `None`: [`Route::decide`] says it, or what is wrong.
    pub fn at_once(&self, request: &Request<'_>) -> Option<AtOnce<'_>> {
        let (server, shard) = self.only(request)?;
        if self.texts.is_empty() {
            return Some(AtOnce { server, shard, text: &self.text, number: self.number, is_as_sent: true });
        }
        let own = self.texts[shard.index()].get_or_init(|| {
            let spot = Spot { server, shards: vec![shard], is_one_of_several: false, counts_columns: false };
            let text: Box<str> = self.statement(&spot).text.into();
            let is_as_sent = text == self.text;
            OfShard { text, number: TextNumber::make(), is_as_sent }
        });
        Some(AtOnce { server, shard, text: &own.text, number: own.number, is_as_sent: own.is_as_sent })
    }

    /// The one shard that carries an execution out, if that is plain, and its server.
    pub(super) fn only(&self, request: &Request<'_>) -> Option<(&Arc<str>, ShardId)> {
        if let Some(server) = &self.named {
            return Some((server, ShardId(0)));
        }
        let [rule] = &self.groups[..] else { return None };
        let is_copied = self.kind != Kind::Select && self.occurrences[0].rule.placement() == Placement::Broadcast;
        if self.objection.is_some() || is_copied || !self.takes_fed(request) {
            return None;
        }
        let shard = match &self.rows {
            Some(_) if !self.targets.is_empty() => return None,
            Some(rows) => rows.only_shard(&self.occurrences[0], request)?,
            None => {
                let mut chosen: Option<ShardId> = None;
                for target in &self.targets {
                    match target.condition.only(rule, request) {
                        // No row matters: any shard says so.
                        Only::Nowhere => {}
                        Only::At(shard) if chosen.is_none_or(|other| other == shard) => chosen = Some(shard),
                        Only::At(_) | Only::Several => return None,
                    }
                }
                chosen?
            }
        };
        let server = &rule.shards()[shard.index()].server;
        let is_there = |table: &Arc<super::ShardedTable>| {
            table.rule.placement() == Placement::Sharded
                || table.rule.shards().iter().any(|shard| shard.server == *server)
        };
        self.occurrences.iter().all(is_there).then_some((server, shard))
    }
}

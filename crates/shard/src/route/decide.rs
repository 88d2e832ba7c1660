//! From a route and the values of an execution to what each shard is sent.

use std::borrow::Cow;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};

use super::insert::Placed;
use super::operand::{Known, Operand};
use super::several::Count;
use super::{
    Decision, Forward, Kind, List, Merge, Outcome, Request, Route, Several, ShardStatement, ShardedTable, Target,
};
use crate::merge::Gathering;
use crate::rewrite::{quoted, scan};
use crate::rules::{Key, KeyClass, Placement, Rule, ShardId, ShardSet};

/// One shard of each group of colocated tables, all on one server.
pub(super) struct Spot<'r> {
    pub(super) server: &'r Arc<str>,
    /// By group.
    pub(super) shards: Vec<ShardId>,
    /// Whether other shards are asked too, so that each is given its own constants of a list.
    pub(super) is_one_of_several: bool,
    /// Whether its columns are counted beside those of other shards, so that those of a star are named.
    pub(super) counts_columns: bool,
}

/// What LIMIT or OFFSET comes to.
#[derive(Clone, Copy)]
enum Counted {
    Rows(u64),
    /// NULL: as if it were not written.
    All,
    Unknown,
}

impl Counted {
    fn rows(self) -> Option<u64> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::All | Self::Unknown => None,
        }
    }
}

/// 21000: a change of a table's rows on all shards gives none of these columns, where it is to give them.
pub fn no_key(table: &str, columns: &[&str]) -> Error {
    let message = format!("this would change rows of table \"{table}\" on all shards: it gives no sharding key");
    Error::new(ErrorCode::CardinalityViolation, message).with_hint(format!(
        "Compare {} with values by = or IN, or SET sharded_keyless_writes = 'allow'.",
        columns.join(" and ")
    ))
}

impl Route {
    /// Where an execution goes.
    ///
    /// # Errors
    /// 0A000 for a write that cannot be divided among its shards, and what is wrong with values of sharding keys.
    pub fn decide(&self, request: &Request<'_>) -> Result<Decision<'_>> {
        if let Some(whole) = self.whole() {
            let (statements, outcome) = (vec![whole], Outcome::Named);
            return Ok(Decision::Forward(Forward { statements, merge: Merge::Pass, outcome }));
        }
        if let Some(objection) = &self.objection {
            return self.to_engine(objection);
        }
        let is_of_copies = self.kind != Kind::Select || self.locks_copies;
        if is_of_copies && self.occurrences[0].rule.placement() == Placement::Broadcast {
            return self.broadcast(request);
        }
        if !self.takes_fed(request) {
            return Err(Error::unsupported(
                "this statement concerns several shards, and no shard is known to take the sharding key of a row",
            )
            .with_hint("Give the row a key that a shard takes."));
        }
        if let Some(rows) = &self.rows {
            let placed = rows.place(&self.occurrences[0], request)?;
            return self.rows(&placed, request);
        }
        let sets = self.sets(request);
        if let Some(spot) = self.one(&sets, request) {
            let outcome = spot.shards.first().map_or(Outcome::AnyServer, |shard| Outcome::OneShard(*shard));
            let statements = vec![self.statement(&spot)];
            return Ok(Decision::Forward(Forward { statements, merge: Merge::Pass, outcome }));
        }
        match &self.several {
            Err(reason) => self.to_engine(reason),
            Ok(several) if self.groups.len() == 1 => self.several(&sets, several, request),
            Ok(_) => self.to_engine("its tables are not colocated"),
        }
    }

    /// Whether rows that are inserted are where their conditions say: no row that is read satisfies one about NULL, or about a value that no
    /// shard takes, but one that is written has to go somewhere.
    pub(super) fn takes_fed(&self, request: &Request<'_>) -> bool {
        self.fed.iter().all(|fed| {
            let rule = &self.occurrences[fed.occurrence].rule;
            let mut keys: Vec<Option<Key>> = Vec::with_capacity(fed.operands.len());
            for (operand, class) in fed.operands.iter().zip(rule.classes()) {
                match operand.as_ref().map(|operand| operand.key(*class, request)) {
                    Some(Known::Key(key)) => keys.push(Some(key)),
                    Some(Known::Null) => return false,
                    Some(Known::Unknown) | None => {}
                }
            }
            keys.len() < rule.classes().len() || rule.shard_of_keys(&keys).is_ok()
        })
    }

    /// By target: the shards that have rows which matter.
    fn sets(&self, request: &Request<'_>) -> Vec<ShardSet> {
        self.targets.iter().map(|target| target.condition.shards(&self.groups[target.group], request)).collect()
    }

    /// Whether the statement may change rows under these parameters, where it is not to change those of all shards for want of a key.
    ///
    /// # Errors
    /// 21000 for an UPDATE or DELETE of a divided table that gives no values of its sharding key, and is for all of its shards.
    pub fn check_key(&self, request: &Request<'_>) -> Result<()> {
        let Some(table) = self.occurrences.first() else { return Ok(()) };
        let rule = &table.rule;
        let is_divided = rule.placement() == Placement::Sharded && rule.shards().len() > 1;
        let (Kind::Update | Kind::Delete, true, [target, ..]) = (self.kind, is_divided, &self.targets[..]) else {
            return Ok(());
        };
        let condition = &target.condition;
        if condition.shards(rule, request) != rule.all() || condition.gives_keys(rule, request) {
            return Ok(());
        }
        let names: Vec<&str> = rule.key().iter().map(|at| table.columns[*at].name.as_str()).collect();
        Err(no_key(&table.name, &names))
    }

    fn to_engine<'r>(&'r self, reason: &'r str) -> Result<Decision<'r>> {
        if self.kind == Kind::Select && !self.locks && !self.changes && !self.needs_one_server {
            return Ok(Decision::Engine { reason: Cow::Borrowed(reason) });
        }
        Err(Error::unsupported(format!("this statement concerns several shards, and {reason}"))
            .with_hint("Give the sharding key's values, so that one shard does it."))
    }

    /// The one place that has all rows that matter.
    fn one<'r>(&'r self, sets: &[ShardSet], request: &Request<'_>) -> Option<Spot<'r>> {
        let mut chosen: Vec<Option<ShardId>> = vec![None; self.groups.len()];
        for (target, set) in self.targets.iter().zip(sets) {
            // No row matters: any shard says so.
            if set.is_empty() {
                continue;
            }
            let shard = set.only()?;
            match &mut chosen[target.group] {
                Some(other) if *other != shard => return None,
                other => *other = Some(shard),
            }
        }
        let server_of = |group: usize, shard: ShardId| &self.groups[group].shards()[shard.index()].server;
        let mut server: Option<&'r Arc<str>> = None;
        for (group, shard) in chosen.iter().enumerate().filter_map(|(group, shard)| Some((group, (*shard)?))) {
            let this = server_of(group, shard);
            if server.is_some_and(|other| other != this) {
                return None;
            }
            server = Some(this);
        }
        let spot = |server: &'r Arc<str>| {
            let shards = chosen.iter().enumerate().map(|(group, shard)| {
                shard.or_else(|| {
                    let at = self.groups[group].shards().iter().position(|shard| shard.server == *server)?;
                    u16::try_from(at).ok().map(ShardId)
                })
            });
            let spot = Spot {
                server,
                shards: shards.collect::<Option<_>>()?,
                is_one_of_several: false,
                counts_columns: false,
            };
            self.is_possible(&spot).then_some(spot)
        };
        match server {
            Some(server) => spot(server),
            None => {
                let all = self.occurrences[0].rule.shards().iter().map(|shard| &shard.server);
                let preferred = all.clone().filter(|server| Some(&***server) == request.preferred);
                preferred.chain(all).find_map(spot)
            }
        }
    }

    /// Whether all tables that are not divided are there.
    fn is_possible(&self, spot: &Spot<'_>) -> bool {
        let undivided = self.occurrences.iter().filter(|table| table.rule.placement() != Placement::Sharded);
        undivided.into_iter().all(|table| table.rule.shards().iter().any(|shard| shard.server == *spot.server))
    }

    /// Every shard for its own rows.
    fn several<'r>(&'r self, sets: &[ShardSet], several: &'r Several, request: &Request<'_>) -> Result<Decision<'r>> {
        let rule = &self.groups[0];
        let anchors = self.targets.iter().zip(sets).filter(|(target, _)| target.is_anchor);
        let needed = anchors.fold(rule.all(), |needed, (_, set)| needed.and(set));
        let needed = if needed.is_empty() { ShardSet::of(ShardId(0)) } else { needed };
        let mut gathering = None;
        if let (Several::Gathered(gathered, _), true) = (several, needed.len() > 1) {
            let count =
                |count: &Option<Count>, what| count.as_ref().map(|count| self.count(count, what, request)).transpose();
            let skip = count(&gathered.skip, "OFFSET")?.unwrap_or(Counted::All);
            let take = count(&gathered.take, "LIMIT")?.unwrap_or(Counted::All);
            let (take, skip) = match (take, skip) {
                (Counted::Unknown, _) | (_, Counted::Unknown) => {
                    return self.to_engine("it is not known how many rows are counted off");
                }
                (Counted::Rows(take), Counted::Rows(skip)) if i64::try_from(take.saturating_add(skip)).is_err() => {
                    return self.to_engine("more rows are counted off than there are numbers");
                }
                (take, skip) => (take.rows(), skip.rows().unwrap_or(0)),
            };
            gathering = Some(Gathering { merge: &gathered.merge, skip, take });
        }
        // What is asked of several shards of a server is one statement, in which their columns are counted.
        let counts_columns = gathering.is_some() && {
            let mut servers: Vec<&str> = needed.iter().map(|shard| &*rule.shards()[shard.index()].server).collect();
            servers.sort_unstable();
            servers.windows(2).any(|pair| pair[0] == pair[1])
        };
        let mut statements = Vec::with_capacity(needed.len());
        for shard in needed.iter() {
            let spot = Spot {
                server: &rule.shards()[shard.index()].server,
                shards: vec![shard],
                is_one_of_several: needed.len() > 1,
                counts_columns,
            };
            if !self.is_possible(&spot) {
                return self.to_engine("a table that it reads is not on all of their servers");
            }
            let mut statement = self.statement(&spot);
            if let (Several::Gathered(gathered, template), Some(_)) = (several, &gathering) {
                let all = 0..gathered.text.len();
                statement.text = template.fill(&gathered.text, all, |value| self.value(value, &spot));
            }
            statements.push(statement);
        }
        let outcome = match needed.only() {
            Some(shard) => Outcome::OneShard(shard),
            None if needed == rule.all() => Outcome::AllShards,
            None => Outcome::Shards(needed),
        };
        let merge = match (statements.len(), gathering) {
            (1, _) => Merge::Pass,
            (_, Some(gathering)) => Merge::Rows(gathering),
            _ if self.has_rows => Merge::Concat,
            _ => Merge::Count,
        };
        Ok(Decision::Forward(Forward { statements, merge, outcome }))
    }

    /// The number that LIMIT or OFFSET says.
    fn count(&self, count: &Count, clause: &str, request: &Request<'_>) -> Result<Counted> {
        let number = match count {
            Count::Constant(number) => *number,
            Count::Parameter(number) => match Operand::Parameter(*number).key(KeyClass::Integer, request) {
                Known::Key(Key::Number(number)) => number,
                Known::Null => return Ok(Counted::All),
                Known::Key(_) | Known::Unknown => return Ok(Counted::Unknown),
            },
        };
        u64::try_from(number).map(Counted::Rows).map_err(|_| {
            let code = if clause == "LIMIT" { ErrorCode::InvalidLimit } else { ErrorCode::InvalidOffset };
            Error::new(code, format!("{clause} must not be negative"))
        })
    }

    /// The same change on every server.
    fn broadcast(&self, request: &Request<'_>) -> Result<Decision<'_>> {
        let table = &self.occurrences[0];
        let placed = match &self.rows {
            // Generated once: the copies are the same.
            Some(rows) => Some(rows.place(table, request)?),
            None => None,
        };
        let mut statements = Vec::with_capacity(table.rule.shards().len());
        for (at, shard) in table.rule.shards().iter().enumerate() {
            let spot =
                Spot { server: &shard.server, shards: Vec::new(), is_one_of_several: false, counts_columns: false };
            if !self.is_possible(&spot) {
                return self.to_engine("a table that it reads is not on all servers");
            }
            let mut statement = match &placed {
                Some(placed) => self.some_rows(&spot, placed, |_| true),
                None => self.statement(&spot),
            };
            statement.shard = ShardId(u16::try_from(at).unwrap_or(u16::MAX));
            statements.push(statement);
        }
        let merge = if statements.len() == 1 { Merge::Pass } else { Merge::Identical };
        Ok(Decision::Forward(Forward { statements, merge, outcome: Outcome::Broadcast }))
    }

    /// The rows of VALUES, each to its shard.
    fn rows(&self, placed: &Placed, request: &Request<'_>) -> Result<Decision<'_>> {
        let rule = &self.occurrences[0].rule;
        // What is read beside the rows has to be where they go: in their cells, in ON CONFLICT and RETURNING.
        let sets = self.sets(request);
        if rule.placement() == Placement::Single {
            let server = &rule.shards()[0].server;
            let mut spot = Spot { server, shards: Vec::new(), is_one_of_several: false, counts_columns: false };
            if !sets.is_empty() {
                match self.one(&sets, request) {
                    Some(found) if found.server == server => spot = found,
                    _ => return self.to_engine("rows of sharded tables that it reads are on other servers"),
                }
            }
            if !self.is_possible(&spot) {
                return self.to_engine("a table that it reads is on another server");
            }
            let statements = vec![self.some_rows(&spot, placed, |_| true)];
            let outcome = Outcome::OneShard(ShardId(0));
            return Ok(Decision::Forward(Forward { statements, merge: Merge::Pass, outcome }));
        }
        let needed: ShardSet = placed.shards.iter().copied().collect();
        let is_read_at = |own: ShardId| sets.iter().all(|set| set.is_empty() || set.only() == Some(own));
        let is_at_hand = sets.is_empty() || self.groups.len() == 1 && needed.only().is_some_and(is_read_at);
        if !is_at_hand {
            return self.to_engine("its rows are computed from rows of sharded tables");
        }
        if let (Err(reason), None) = (&self.several, needed.only()) {
            return self.to_engine(reason);
        }
        let mut statements = Vec::with_capacity(needed.len());
        for shard in needed.iter() {
            let spot = Spot {
                server: &rule.shards()[shard.index()].server,
                shards: vec![shard],
                is_one_of_several: false,
                counts_columns: false,
            };
            if !self.is_possible(&spot) {
                return self.to_engine("a table that it reads is not on all of their servers");
            }
            statements.push(self.some_rows(&spot, placed, |row| placed.shards[row] == shard));
        }
        let (outcome, merge) = match needed.only() {
            Some(shard) => (Outcome::OneShard(shard), Merge::Pass),
            None if self.has_rows => {
                let order = placed.shards.iter().map(|shard| needed.iter().position(|other| other == *shard));
                let order = order.map(|at| at.and_then(|at| u16::try_from(at).ok()).unwrap_or(0)).collect();
                (Outcome::Shards(needed), Merge::Interleave(order))
            }
            None => (Outcome::Shards(needed), Merge::Count),
        };
        Ok(Decision::Forward(Forward { statements, merge, outcome }))
    }

    /// The statement with the physical names of a spot.
    pub(super) fn statement(&self, spot: &Spot<'_>) -> ShardStatement<'_> {
        ShardStatement {
            server: self.server(spot),
            shard: spot.shards.first().copied().unwrap_or(ShardId(0)),
            text: self.part(0..self.text.len(), spot),
            parameters: None,
            is_made: false,
        }
    }

    /// A server's name that lives as long as the route.
    fn server(&self, spot: &Spot<'_>) -> &str {
        let all = self.occurrences.iter().flat_map(|table| table.rule.shards());
        all.map(|shard| &shard.server).find(|server| *server == spot.server).map_or("", |server| server)
    }

    fn part(&self, part: std::ops::Range<usize>, spot: &Spot<'_>) -> Cow<'_, str> {
        self.template.fill(&self.text, part, |value| self.value(value, spot))
    }

    /// What goes into a hole of the template; `None` where the text stays.
    pub(super) fn value(&self, value: usize, spot: &Spot<'_>) -> Option<String> {
        let Some(further) = value.checked_sub(self.occurrences.len()) else { return self.physical(value, spot) };
        match self.lists.get(further) {
            Some(list) if spot.is_one_of_several => self.own_items(list, spot),
            Some(_) => None,
            None => {
                let named = further - self.lists.len();
                match named.checked_sub(self.columns.len()) {
                    Some(star) => self.stars.get(star).filter(|_| spot.counts_columns).cloned(),
                    None => self.columns.get(named).cloned(),
                }
            }
        }
    }

    /// The constants of a list that rows of this shard can be equal to. One is left in any case: an empty list is no SQL.
    fn own_items(&self, list: &List, spot: &Spot<'_>) -> Option<String> {
        let own = *spot.shards.get(self.group_of(list.occurrence))?;
        let is_own = |(_, shard): &&(std::ops::Range<usize>, Option<ShardId>)| *shard == Some(own);
        let mut kept: Vec<&str> =
            list.items.iter().filter(is_own).map(|(place, _)| &self.text[place.clone()]).collect();
        if kept.len() == list.items.len() {
            return None;
        }
        if kept.is_empty() {
            kept.extend(list.items.first().map(|(place, _)| &self.text[place.clone()]));
        }
        Some(kept.join(", "))
    }

    /// What a table's name becomes; `None` where it stays.
    fn physical(&self, occurrence: usize, spot: &Spot<'_>) -> Option<String> {
        let table = &self.occurrences[occurrence];
        let shard = match table.rule.placement() {
            Placement::Sharded => {
                let group = self.group_of(occurrence);
                &table.rule.shards()[spot.shards.get(group)?.index()]
            }
            Placement::Broadcast | Placement::Single => {
                table.rule.shards().iter().find(|shard| shard.server == *spot.server)?
            }
        };
        if shard.schema == table.schema && shard.table == table.name {
            return None;
        }
        let style = self.names[occurrence];
        let mut written = String::new();
        if style.has_schema || shard.schema != table.schema {
            written = format!("{}.", quoted(&shard.schema));
        }
        written.push_str(&quoted(&shard.table));
        if !style.has_alias {
            written.push_str(&format!(" AS {}", quoted(&table.name)));
        }
        Some(written)
    }

    fn group_of(&self, occurrence: usize) -> usize {
        let rule = &self.occurrences[occurrence].rule;
        self.groups.iter().position(|group| group.is_colocated_with(rule)).unwrap_or(0)
    }

    /// An INSERT with some of its rows.
    fn some_rows(&self, spot: &Spot<'_>, placed: &Placed, is_kept: impl Fn(usize) -> bool) -> ShardStatement<'_> {
        let Some(rows) = &self.rows else { return self.statement(spot) };
        let kept: Vec<usize> = (0..rows.places.len()).filter(|row| is_kept(*row)).collect();
        let is_whole = kept.len() == rows.places.len();
        if is_whole && placed.generated.iter().all(Option::is_none) {
            return self.statement(spot);
        }
        let (first, last) = (rows.places[0].start, rows.places[rows.places.len() - 1].end);
        let mut text = String::with_capacity(self.text.len());
        match rows.generated.as_ref().and_then(|generated| generated.column.as_ref()) {
            Some((at, column)) => {
                text.push_str(&self.part(0..*at, spot));
                text.push_str(column);
                text.push_str(&self.part(*at..first, spot));
            }
            None => text.push_str(&self.part(0..first, spot)),
        }
        for (number, row) in kept.iter().enumerate() {
            if number > 0 {
                text.push_str(", ");
            }
            let place = rows.places[*row].clone();
            let value = placed.generated.get(*row).and_then(Option::as_ref);
            let hole = rows.generated.as_ref().and_then(|generated| generated.values[*row].clone());
            match (value, hole) {
                (Some(value), Some(hole)) => {
                    text.push_str(&self.text[place.start..hole.start]);
                    if hole.is_empty() {
                        text.push_str(", ");
                    }
                    text.push_str(value);
                    text.push_str(&self.text[hole.end..place.end]);
                }
                _ => text.push_str(&self.text[place]),
            }
        }
        text.push_str(&self.part(last..self.text.len(), spot));
        let (text, parameters) = if is_whole { (text, None) } else { renumbered(text) };
        ShardStatement {
            server: self.server(spot),
            shard: spot.shards.first().copied().unwrap_or(ShardId(0)),
            text: Cow::Owned(text),
            parameters,
            is_made: true,
        }
    }

    /// Which shards have rows of each table that matter, in lines for EXPLAIN (ROUTE).
    pub fn explain_conditions(&self) -> impl Iterator<Item = String> {
        self.targets.iter().zip(1..).map(|(target, table)| {
            let names: Vec<&str> = target.keys(&self.occurrences, &self.groups);
            format!("Condition {table} on ({}): {}", names.join(", "), target.condition.explain(&names))
        })
    }

    /// What was decided and why, in lines for EXPLAIN (ROUTE).
    pub fn explain(&self, decision: &Decision<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        match decision {
            Decision::Engine { reason } => lines.push(format!("Route: engine, because {reason}")),
            Decision::Forward(forward) => {
                let which = match &forward.outcome {
                    Outcome::OneShard(shard) => format!("shard {shard}"),
                    Outcome::Shards(shards) => {
                        let shards: Vec<String> = shards.iter().map(|shard| shard.to_string()).collect();
                        format!("shards {}", shards.join(", "))
                    }
                    Outcome::AllShards => "all shards".to_owned(),
                    Outcome::AnyServer => "any server".to_owned(),
                    Outcome::Broadcast => "all servers, the same change".to_owned(),
                    Outcome::Named => "the server that sharded_server names".to_owned(),
                };
                lines.push(format!("Route: {which}"));
                if forward.statements.len() > 1 {
                    let merge = match &forward.merge {
                        Merge::Pass | Merge::Concat => "rows of all",
                        Merge::Count => "numbers of rows added",
                        Merge::Identical => "one answer of all",
                        Merge::Interleave(_) => "rows in the order of VALUES",
                        Merge::Rows(_) => "rows put together",
                    };
                    lines.push(format!("Merge: {merge}"));
                }
                for statement in &forward.statements {
                    let shard = match &forward.outcome {
                        // None is known of it.
                        Outcome::Named => String::new(),
                        _ => format!(" ({})", statement.shard),
                    };
                    lines.push(format!("  {}{shard}: {}", statement.server, statement.text));
                }
            }
        }
        lines.extend(self.explain_conditions());
        lines
    }

    /// Why no server can be asked what the statement looks like, nor may run it. `None`: one has something of each table.
    pub fn why_no_sample(&self) -> Option<&'static str> {
        if self.names_elsewhere {
            return Some("it reads a table of another home");
        }
        let has_sample = self.occurrences[0].rule.shards().iter().any(|shard| self.has_all(&shard.server));
        (!has_sample).then_some("no server has something of each of its tables")
    }

    fn has_all(&self, server: &str) -> bool {
        self.occurrences.iter().all(|table| table.rule.shards().iter().any(|shard| *shard.server == *server))
    }

    /// One shard's text with all parameters as they are, before any value is known: for asking what it looks like.
    pub fn sample(&self) -> ShardStatement<'_> {
        if let Some(whole) = self.whole() {
            return whole;
        }
        let rule = &self.occurrences[0].rule;
        let spots = rule.shards().iter().enumerate().map(|(at, shard)| {
            let own = ShardId(u16::try_from(at).unwrap_or(0));
            let shards = self.groups.iter().map(|group| {
                if group.is_colocated_with(rule) {
                    return own;
                }
                let at = group.shards().iter().position(|other| other.server == shard.server);
                ShardId(at.and_then(|at| u16::try_from(at).ok()).unwrap_or(0))
            });
            Spot { server: &shard.server, shards: shards.collect(), is_one_of_several: false, counts_columns: false }
        });
        let mut spots: Vec<Spot<'_>> = spots.collect();
        let best = spots.iter().position(|spot| self.has_all(spot.server)).unwrap_or(0);
        self.statement(&spots.swap_remove(best))
    }
}

impl Target {
    /// Names of the key's columns.
    fn keys<'t>(&self, tables: &'t [Arc<ShardedTable>], groups: &[Rule]) -> Vec<&'t str> {
        let table = tables.iter().find(|table| table.rule.is_colocated_with(&groups[self.group]));
        table.map_or(Vec::new(), |table| table.rule.key().iter().map(|at| table.columns[*at].name.as_str()).collect())
    }
}

/// A text with its parameters numbered from 1 without gaps, and which they were.
fn renumbered(text: String) -> (String, Option<Vec<u16>>) {
    let found = scan::parameters(&text);
    let mut kept: Vec<u16> = Vec::new();
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (place, number) in found {
        let at = kept.iter().position(|other| *other == number).unwrap_or_else(|| {
            kept.push(number);
            kept.len() - 1
        });
        out.push_str(&text[copied..place.start]);
        out.push_str(&format!("${}", at + 1));
        copied = place.end;
    }
    if kept.is_empty() {
        return (text, Some(kept));
    }
    out.push_str(&text[copied..]);
    (out, Some(kept))
}

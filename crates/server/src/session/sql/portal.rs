//! A portal: a statement with its parameters, somewhere between its first row and its last.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::{Result, Value};
use ashlar_protocol::pg::{CommandTag, ValueFormat};
use ashlar_query::Column;
use ashlar_query::select::SelectPlan;
use ashlar_query::sharded::ShardedPlan;
use ashlar_query::statement::{Kind, SessionCommand};
use ashlar_shard::route::Sent;
use ashlar_store::Reservation;

use super::rows::RowSource;
use super::sharded::RawParameters;

/// A statement in execution.
pub(super) struct Portal {
    /// `None` for an empty string.
    pub(super) statement: Option<Arc<ashlar_query::Statement>>,
    pub(super) parameters: Vec<Value>,
    /// The parameters as the client sent them, for a statement that a shard reads.
    pub(super) raw: Option<RawParameters>,
    /// What one shard is sent, if the plan was made for another text of the same shape.
    pub(super) sent: Option<Arc<Sent>>,
    /// The charge for its parameters.
    pub(super) held: Option<Reservation>,
    /// That for what else a portal with a name keeps.
    pub(super) own: Option<Reservation>,
    /// The formats of the result columns.
    pub(super) formats: Arc<[ValueFormat]>,
    /// What it was bound from: it is planned again if the catalog has changed since.
    pub(super) source: Option<Arc<Source>>,
    pub(super) progress: Progress,
    /// Whether DECLARE made it: then it lives to the end of its block, or longer.
    pub(super) is_cursor: bool,
    pub(super) hold: Hold,
    /// The number of the portal, in the order in which the session made them.
    pub(super) number: u64,
}

/// How long a portal lives, unless it is closed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// As long as its transaction.
    Transaction,
    /// As long as the session, if its transaction commits: a cursor `WITH HOLD`.
    Declared,
    /// As long as the session: its transaction has been committed.
    Session,
}

/// Places for portals that a session keeps: each statement has one, and one is for the next while that of the last is still there.
/// Pipelines have more.
const SPARE_MAX: usize = 32;

/// The portals of a session. The one without a name, which nearly every statement uses, is found without a lookup. Each stays where it
/// is while it is executed: it is large, and what is moved is its box.
#[derive(Default)]
pub(super) struct Portals {
    unnamed: Option<Box<Portal>>,
    named: HashMap<String, Box<Portal>>,
    /// Empty ones, kept for their memory.
    #[expect(clippy::vec_box, reason = "a portal has its box already, and is moved about")]
    spare: Vec<Box<Portal>>,
}

impl Portals {
    pub(super) fn len(&self) -> usize {
        self.named.len() + usize::from(self.unnamed.is_some())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_deref() } else { self.named.get(name).map(Box::as_ref) }
    }

    /// An empty portal, to be filled and inserted.
    pub(super) fn empty(&mut self) -> Box<Portal> {
        self.spare.pop().unwrap_or_else(|| Box::new(Portal::empty()))
    }

    /// Inserts a portal; one of the same name is replaced.
    pub(super) fn insert(&mut self, name: &str, portal: Box<Portal>) {
        let before =
            if name.is_empty() { self.unnamed.replace(portal) } else { self.named.insert(name.to_owned(), portal) };
        if let Some(before) = before {
            self.recycle(before);
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Box<Portal>> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    /// Removes a portal for good; whether there was one.
    pub(super) fn close(&mut self, name: &str) -> bool {
        let closed = self.remove(name);
        let was_there = closed.is_some();
        closed.into_iter().for_each(|closed| self.recycle(closed));
        was_there
    }

    /// Gives up what a portal holds, and keeps its memory.
    pub(super) fn recycle(&mut self, mut portal: Box<Portal>) {
        if self.spare.len() < SPARE_MAX {
            portal.empty_out();
            self.spare.push(portal);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Portal> {
        self.unnamed.iter().chain(self.named.values()).map(Box::as_ref)
    }

    pub(super) fn clear(&mut self) {
        self.close("");
        self.named.clear();
    }

    /// Closes the portals that live as long as their transaction, which commits.
    pub(super) fn end_transaction(&mut self) {
        self.close("");
        if !self.named.is_empty() {
            self.named.retain(|_, portal| portal.hold != Hold::Transaction);
        }
    }

    /// The transaction has been committed: cursors that it has declared `WITH HOLD` stay.
    pub(super) fn settle(&mut self) {
        self.named.values_mut().filter(|portal| portal.hold == Hold::Declared).for_each(|portal| {
            portal.hold = Hold::Session;
        });
    }

    /// Closes the portals of a transaction that is rolled back.
    pub(super) fn roll_back(&mut self) {
        self.close("");
        self.named.retain(|_, portal| portal.hold == Hold::Session);
    }

    /// The cursors that DECLARE has made, by name.
    pub(super) fn cursors(&self) -> impl Iterator<Item = (&str, &Portal)> {
        let cursors = self.named.iter().filter(|(_, portal)| portal.is_cursor);
        cursors.map(|(name, portal)| (name.as_str(), &**portal))
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&Portal) -> bool) {
        self.unnamed.take_if(|portal| !stays(portal));
        self.named.retain(|_, portal| stays(portal));
    }
}

/// The text of a prepared statement and the types it was declared with.
pub(super) struct Source {
    pub(super) sql: Arc<str>,
    pub(super) declared: Vec<u32>,
    /// The charge for the statement that was prepared from it, if that is large: portals may be left of it when it is closed.
    pub(super) held: Option<Arc<Reservation>>,
}

impl Source {
    /// Bytes of the text and the types: a client may declare 65,535 of them for a short text.
    pub(super) fn bytes(&self) -> usize {
        self.sql.len() + size_of_val(self.declared.as_slice())
    }
}

/// How far the execution of a portal is.
pub(super) enum Progress {
    /// It has not begun.
    Fresh,
    /// There are more rows.
    Open(RowSource, Tag),
    /// A shard has more rows, in a portal of its own.
    Remote {
        /// The shard.
        server: Arc<str>,
        /// The portal's name there.
        portal: String,
    },
    /// All rows have been sent: another Execute sends none.
    Ended(Tag),
    /// It has ended without rows to send, or failed, and cannot be run again.
    Done,
}

/// The command tag of a portal that sends rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Followed by the number of rows that the Execute has sent.
    Counted(&'static str),
    /// As it stands here.
    Plain(&'static str),
}

impl Tag {
    /// The tag after an Execute that sent this many rows.
    pub(super) fn after(self, rows: u64) -> CommandTag {
        match self {
            Self::Counted(words) => CommandTag::counted(words, rows),
            Self::Plain(words) => words.into(),
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
            sent: None,
            held: None,
            own: None,
            formats,
            source: None,
            progress: Progress::Fresh,
            is_cursor: false,
            hold: Hold::Transaction,
            number: 0,
        }
    }

    pub(super) fn empty() -> Self {
        Self {
            statement: None,
            parameters: Vec::new(),
            raw: None,
            sent: None,
            held: None,
            own: None,
            formats: Arc::default(),
            source: None,
            progress: Progress::Fresh,
            is_cursor: false,
            hold: Hold::Transaction,
            number: 0,
        }
    }

    /// Gives up all that it holds: it is as [`Self::empty`] afterwards, but for the formats, which are its statement's too.
    fn empty_out(&mut self) {
        self.statement = None;
        self.parameters = Vec::new();
        (self.raw, self.sent, self.source) = (None, None, None);
        (self.held, self.own) = (None, None);
        self.progress = Progress::Fresh;
        (self.is_cursor, self.hold, self.number) = (false, Hold::Transaction, 0);
    }

    /// Bytes that are kept for a portal of this name and charged to nobody else, without its parameters: its statement may be closed long
    /// before it, and the cache may drop the plan. There is only one without a name.
    pub(super) fn own_bytes(&self, name: &str) -> usize {
        if name.is_empty() {
            return 0;
        }
        size_of::<Self>() + name.len() + self.statement_bytes()
    }

    /// Those of them that its statement takes.
    pub(super) fn statement_bytes(&self) -> usize {
        match &self.source {
            // What was charged for the statement and its plan stays with them.
            Some(source) if source.held.is_some() => 0,
            source => {
                let of_plan = self.statement.as_ref().map_or(0, |statement| statement.bytes());
                of_plan + source.as_ref().map_or(0, |source| source.bytes())
            }
        }
    }

    /// Whether it has a name: there may be many such, and each is charged for all that it keeps.
    pub(super) fn has_name(&self) -> bool {
        self.own.is_some()
    }

    /// Charges one that has a name for more that it keeps: it was planned again, or another one is about to stand in its place.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(super) fn pay_for(&mut self, bytes: usize) -> Result<()> {
        self.own.as_mut().map_or(Ok(()), |own| own.grow_exactly(bytes))
    }

    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.progress, Progress::Fresh)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.progress, Progress::Done)
    }

    /// The engine's query whose tables the portal uses until it is closed, as in PostgreSQL: even after all rows have been sent. A cursor
    /// `WITH HOLD` uses none after its transaction.
    pub(super) fn reading(&self) -> Option<&SelectPlan> {
        if self.hold == Hold::Session {
            return None;
        }
        match (&self.progress, &self.statement.as_ref()?.kind) {
            (Progress::Open(RowSource::Query(_), _) | Progress::Ended(_), Kind::Select(plan)) => Some(plan),
            _ => None,
        }
    }

    /// The plan of a statement about shards.
    pub(super) fn sharded(&self) -> Option<&ShardedPlan> {
        match &self.statement.as_ref()?.kind {
            Kind::Sharded(plan) => Some(plan),
            _ => None,
        }
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
                    | SessionCommand::Chain { .. }
                    | SessionCommand::RollbackTo(_)
                    | SessionCommand::DiscardAll
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_is_charged_for_the_text_and_the_types_that_it_may_be_left_with() {
        let mut portal = Portal::empty();
        let bare = size_of::<Portal>() + 4;
        assert_eq!((portal.own_bytes(""), portal.own_bytes("name")), (0, bare));
        let source = Source { sql: "SELECT 1".into(), declared: vec![23; 65_535], held: None };
        assert_eq!(source.bytes(), 8 + 4 * 65_535);
        portal.source = Some(Arc::new(source));
        assert_eq!((portal.own_bytes(""), portal.own_bytes("name")), (0, bare + 8 + 4 * 65_535));
    }

    #[test]
    fn a_portal_with_a_name_pays_for_what_it_is_given_later() {
        let store = ashlar_store::Store::new(ashlar_store::StoreConfig::default());
        let mut portal = Portal::empty();
        portal.pay_for(1000).unwrap();
        assert!(!portal.has_name());
        let before = store.memory_used();
        portal.own = Some(store.reservation());
        portal.pay_for(1000).unwrap();
        portal.pay_for(500).unwrap();
        assert!(portal.has_name());
        assert_eq!(store.memory_used() - before, 1500);
        portal.empty_out();
        assert_eq!(store.memory_used(), before);
    }

    #[test]
    fn portals_are_replaced_and_their_places_used_again() {
        let mut portals = Portals::default();
        let fill = |portals: &mut Portals, number: u64| {
            let mut portal = portals.empty();
            assert!(portal.statement.is_none() && portal.is_fresh() && !portal.is_cursor && portal.number == 0);
            (portal.number, portal.is_cursor, portal.progress) = (number, true, Progress::Done);
            portal.parameters = vec![Value::Null];
            portal
        };
        for (number, name) in ["", "a", "", "a", "b"].into_iter().enumerate() {
            let portal = fill(&mut portals, number as u64);
            portals.insert(name, portal);
        }
        let number = |portals: &Portals, name: &str| portals.get(name).map(|portal| portal.number);
        let found = ["", "a", "b", "c"].map(|name| number(&portals, name));
        assert_eq!(found, [Some(2), Some(3), Some(4), None]);
        assert_eq!((portals.len(), portals.iter().count(), portals.spare.len()), (3, 3, 0));
        // Executed, and put back as it was.
        let taken = portals.remove("").unwrap();
        assert!(!portals.contains("") && taken.is_done());
        portals.insert("", taken);
        assert_eq!(number(&portals, ""), Some(2));
        assert!(portals.close("a") && !portals.close("a"));
        portals.retain(|portal| portal.number != 4);
        assert_eq!((portals.len(), portals.spare.len()), (1, 1));
        portals.clear();
        assert_eq!((portals.len(), portals.spare.len()), (0, 2));
        for (name, hold) in
            [("t", Hold::Transaction), ("d", Hold::Declared), ("s", Hold::Session), ("", Hold::Declared)]
        {
            let mut portal = portals.empty();
            (portal.hold, portal.is_cursor) = (hold, true);
            portals.insert(name, portal);
        }
        let names = |portals: &Portals| {
            let mut names: Vec<String> = portals.cursors().map(|(name, _)| name.to_owned()).collect();
            names.sort();
            names.concat()
        };
        portals.end_transaction();
        assert_eq!((names(&portals).as_str(), portals.len()), ("ds", 2));
        portals.roll_back();
        assert_eq!(names(&portals), "s");
        let mut portal = portals.empty();
        (portal.hold, portal.is_cursor) = (Hold::Declared, true);
        portals.insert("d", portal);
        portals.end_transaction();
        portals.settle();
        portals.roll_back();
        assert_eq!(names(&portals), "ds");
        portals.clear();
        assert_eq!(portals.len(), 0);
        portals.spare.clear();
        for number in 0..2 * SPARE_MAX as u64 {
            let portal = Box::new(Portal::empty());
            portals.recycle(portal);
            assert!(portals.spare.len() <= SPARE_MAX, "{number}");
        }
        fill(&mut portals, 0);
    }
}

//! Routes that texts share which differ in constants only: one of them is analysed, the others are neither parsed nor analysed.
//!
//! [`Route::share`] is asked once for a shape of texts, [`Shared`] for each text of it, with the places of its constants. Called by the
//! planner and its cache, who see to it that the rest of the text is the same, letter for letter. Says nothing where it is not certain that
//! parsing would say the same: the text is parsed then. A shard is sent the client's own constants, never what was read from them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pg_query::NodeEnum;
use pg_query::protobuf::{AExprKind, Node, ParamRef, a_const};

use super::decide::Spot;
use super::{Forward, Merge, Outcome, Parameter, Parameters, Request, Route, ShardStatement, Source, Tables, nodes};
use crate::rules::{KeyClass, ShardId};

/// OIDs of what PostgreSQL takes digits for; a quoted constant is of no type yet.
const INT4_OID: u32 = 23;
const INT8_OID: u32 = 20;
const OPEN_OID: u32 = 0;

/// What PostgreSQL's lexer takes a constant for: texts whose constants differ in this are other statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantKind {
    /// Digits of an `integer`.
    Integer,
    /// Digits of a `bigint` that is no `integer`.
    Bigint,
    /// A string between plain quotes.
    String,
}

impl ConstantKind {
    /// The kind of a constant as it is written, without a minus. `None`: a text that has it shares nothing.
    pub fn of(written: &str) -> Option<Self> {
        match written.as_bytes() {
            // The parser refuses this byte.
            [b'\'', ..] => (!written.contains('\0')).then_some(Self::String),
            [b'0'..=b'9', ..] if written.parse::<i32>().is_ok() => Some(Self::Integer),
            [b'0'..=b'9', ..] if written.parse::<i64>().is_ok() => Some(Self::Bigint),
            _ => None,
        }
    }
}

/// What a constant is in the texts of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantUse {
    /// It may be another one of its kind.
    Any,
    /// It is a part of the shape.
    Fixed,
}

/// The place of a text's constant, by its number from 0.
pub type PlaceOf<'a> = &'a dyn Fn(usize) -> Option<Range<usize>>;

/// What the texts of a shape have in common.
#[derive(Debug)]
pub struct Shared {
    /// Of the first text, with parameters where it has constants: their numbers are those of the constants.
    route: Route,
    /// Bytes of a text before its statement, and behind it: blanks and a semicolon.
    before: usize,
    behind: usize,
    /// By constant: how many bytes before it its minus stands; 0 where it has none.
    signs: Vec<usize>,
    /// Names that are others on some shard, and those that are not in the texts, in ascending order.
    names: Vec<Name>,
}

/// A table's name in the texts of a shape, or a place for names of columns.
#[derive(Debug)]
struct Name {
    /// Of the hole of the route's template.
    value: usize,
    /// How many constants stand before it, and how many bytes behind the last of them, or behind the statement's beginning, it begins.
    constants: usize,
    distance: usize,
    length: usize,
}

/// What one shard is sent for a text that was not parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// The server.
    pub server: Arc<str>,
    /// The shard.
    pub shard: ShardId,
    /// The client's statement.
    pub text: String,
    /// The same with the shard's names, where they are others.
    spliced: Option<String>,
}

impl Sent {
    /// What the shard is sent.
    pub fn written(&self) -> &str {
        self.spliced.as_ref().unwrap_or(&self.text)
    }

    /// Whether that is the client's own text.
    pub fn is_as_sent(&self) -> bool {
        self.spliced.is_none()
    }

    /// The same as [`Route::decide`] says it.
    pub fn forward(&self) -> Forward<'_> {
        let text = match &self.spliced {
            None => Cow::Borrowed(self.text.as_str()),
            Some(spliced) => Cow::Owned(spliced.clone()),
        };
        let (server, shard) = (&*self.server, self.shard);
        let statement = ShardStatement { server, shard, text, parameters: None, is_made: false };
        Forward { statements: vec![statement], merge: Merge::Pass, outcome: Outcome::OneShard(self.shard) }
    }
}

impl Route {
    /// What other texts share with this one, which is `source` in the string `sql`, with constants at `places` of it; and what each constant
    /// is in them. `None`: each text has to be parsed.
    pub fn share(
        &self,
        source: &Source<'_>,
        sql: &str,
        places: &[Range<usize>],
        tables: &dyn Tables,
    ) -> Option<(Shared, Vec<ConstantUse>)> {
        let behind = sql.len().checked_sub(source.offset + source.text.len())?;
        if let Some(route) = self.again() {
            // Whatever its constants are, it goes there.
            let (signs, names) = (vec![0; places.len()], Vec::new());
            let uses = vec![ConstantUse::Any; places.len()];
            return Some((Shared { route, before: source.offset, behind, signs, names }, uses));
        }
        let [rule] = &self.groups[..] else { return None };
        // A quoted constant beside a key of another class is read in the session's time zone, or has a type that a parameter has not.
        let is_timeless = |class: &KeyClass| matches!(class, KeyClass::Integer | KeyClass::Text | KeyClass::Uuid);
        if places.is_empty() || !rule.classes().iter().all(is_timeless) {
            return None;
        }
        let one = self.at_once(&Request::default())?;
        let mut node = source.node.clone();
        let mut lifter =
            Lifter { sql, places, uses: vec![None; places.len()], signs: vec![0; places.len()], is_refused: false };
        lifter.statement(&mut node);
        let Lifter { uses, signs, is_refused, .. } = lifter;
        let uses = uses.into_iter().collect::<Option<Vec<ConstantUse>>>().filter(|_| !is_refused)?;
        let lifted = Source { text: source.text, offset: source.offset, node: &node };
        let route = super::route(&lifted, tables).ok()??;
        let mut names = Vec::new();
        for hole in route.template.holes() {
            // A list of constants has its own hole, and there is none any more.
            if route.is_list(hole.value) {
                return None;
            }
            // Named for several shards only.
            if route.is_star(hole.value) {
                continue;
            }
            let start = hole.place.start + source.offset;
            let constants = places.iter().take_while(|place| place.end <= start).count();
            let last = constants.checked_sub(1).map_or(source.offset, |last| places[last].end);
            names.push(Name { value: hole.value, constants, distance: start - last, length: hole.place.len() });
        }
        let shared = Shared { route, before: source.offset, behind, signs, names };
        // It has to say of this text what was found by itself.
        let place = |number: usize| places.get(number).cloned();
        let sent = shared.sent(sql, &place, shared.shard(sql, &place)?)?;
        let is_same = (&sent.server, sent.shard, sent.written()) == (one.server, one.shard, one.text);
        (is_same && sent.text == source.text).then_some((shared, uses))
    }
}

impl Shared {
    /// The shard that carries out a text of the shape; `None`: the text has to be parsed.
    pub fn shard(&self, sql: &str, place: PlaceOf<'_>) -> Option<ShardId> {
        let written = Written { sql, place, signs: &self.signs };
        let request = Request { parameters: &written, ..Request::default() };
        self.route.only(&request).map(|(_, shard)| shard)
    }

    /// What that shard is sent.
    pub fn sent(&self, sql: &str, place: PlaceOf<'_>, shard: ShardId) -> Option<Sent> {
        let server = match (&self.route.named, &self.route.groups[..]) {
            (Some(server), _) => server,
            (None, [rule]) => &rule.shards().get(shard.index())?.server,
            (None, _) => return None,
        };
        let end = sql.len().checked_sub(self.behind)?;
        let text = sql.get(self.before..end)?;
        let mut spliced = None;
        if !self.names.is_empty() {
            let spot = Spot { server, shards: vec![shard], is_one_of_several: false, counts_columns: false };
            let (mut filled, mut copied) = (String::with_capacity(text.len() + 64), self.before);
            for name in &self.names {
                let Some(written) = self.route.value(name.value, &spot) else { continue };
                let last = match name.constants.checked_sub(1) {
                    Some(last) => place(last)?.end,
                    None => self.before,
                };
                let start = last + name.distance;
                filled.push_str(sql.get(copied..start)?);
                filled.push_str(&written);
                copied = start + name.length;
            }
            if copied > self.before {
                filled.push_str(sql.get(copied..end)?);
                spliced = Some(filled);
            }
        }
        Some(Sent { server: Arc::clone(server), shard, text: text.to_owned(), spliced })
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.route.bytes()
            + self.signs.len() * size_of::<usize>()
            + self.names.len() * size_of::<Name>()
    }
}

/// The constants of a text, as parameters.
struct Written<'a> {
    sql: &'a str,
    place: PlaceOf<'a>,
    signs: &'a [usize],
}

impl Parameters for Written<'_> {
    fn get(&self, number: usize) -> Option<Parameter<'_>> {
        let place = (self.place)(number)?;
        let written = self.sql.get(place.clone())?;
        let signed = || self.sql.get(place.start.checked_sub(*self.signs.get(number)?)?..place.end);
        let (oid, written) = match ConstantKind::of(written)? {
            ConstantKind::Integer => (INT4_OID, signed()?),
            ConstantKind::Bigint => (INT8_OID, signed()?),
            ConstantKind::String => (OPEN_OID, written.get(1..written.len() - 1)?),
        };
        // A quote in a string is doubled: it is not what is written. Nobody knows then, and asks the parser.
        let is_plain = oid != OPEN_OID || !written.contains('\'');
        is_plain.then_some(Parameter { oid, is_binary: false, bytes: Some(written.as_bytes()) })
    }
}

/// Makes parameters of a tree's constants, where the analysis asks of them nothing but their value, if at all.
struct Lifter<'a> {
    sql: &'a str,
    places: &'a [Range<usize>],
    /// By constant: what it is; none where it was not met.
    uses: Vec<Option<ConstantUse>>,
    signs: Vec<usize>,
    /// There is a constant that is not one of these.
    is_refused: bool,
}

impl Lifter<'_> {
    fn statement(&mut self, node: &mut NodeEnum) {
        match node {
            NodeEnum::SelectStmt(select) => {
                self.expression(select.where_clause.as_deref_mut());
                self.expression(select.limit_count.as_deref_mut());
                self.expression(select.limit_offset.as_deref_mut());
                let listed = select.target_list.iter().chain(&select.group_clause).chain(&select.sort_clause);
                listed.for_each(|node| self.output(node));
            }
            NodeEnum::UpdateStmt(update) => {
                self.assignments(&mut update.target_list);
                self.expression(update.where_clause.as_deref_mut());
            }
            NodeEnum::DeleteStmt(delete) => self.expression(delete.where_clause.as_deref_mut()),
            NodeEnum::InsertStmt(insert) => {
                let source = insert.select_stmt.as_deref_mut().and_then(|source| source.node.as_mut());
                if let Some(NodeEnum::SelectStmt(select)) = source
                    && let [row] = &mut select.values_lists[..]
                {
                    self.expression(Some(row));
                }
                if let Some(conflict) = insert.on_conflict_clause.as_deref_mut() {
                    self.assignments(&mut conflict.target_list);
                    self.expression(conflict.where_clause.as_deref_mut());
                }
            }
            _ => {}
        }
    }

    fn assignments(&mut self, targets: &mut [Node]) {
        for target in targets {
            if let Some(NodeEnum::ResTarget(target)) = &mut target.node {
                self.expression(target.val.as_deref_mut());
            }
        }
    }

    /// A constant that is an output or the number of one: it names a column, or makes its type.
    fn output(&mut self, node: &Node) {
        let inner = match &node.node {
            Some(NodeEnum::ResTarget(target)) => nodes::inner(&target.val),
            Some(NodeEnum::SortBy(sort)) => nodes::inner(&sort.node),
            other => other.as_ref(),
        };
        if let Some(NodeEnum::AConst(constant)) = inner
            && let Some((number, _)) = self.find(constant.location)
        {
            self.uses[number] = Some(ConstantUse::Fixed);
        }
    }

    /// What is not walked keeps its constants, and a text with one of them shares nothing.
    fn expression(&mut self, node: Option<&mut Node>) {
        let Some(inner) = node.and_then(|node| node.node.as_mut()) else { return };
        match inner {
            NodeEnum::AConst(constant) => {
                // NULL, true and false are words, and those belong to the shape.
                if matches!(constant.val, None | Some(a_const::Val::Boolval(_))) {
                    return;
                }
                let location = constant.location;
                let found = self.find(location);
                let parameter = found.and_then(|(number, sign)| Some((number, sign, i32::try_from(number + 1).ok()?)));
                let Some((number, sign, parameter)) = parameter else {
                    self.is_refused = true;
                    return;
                };
                self.uses[number] = Some(ConstantUse::Any);
                self.signs[number] = sign;
                *inner = NodeEnum::ParamRef(ParamRef { number: parameter, location });
            }
            NodeEnum::AExpr(expr) => match nodes::kind(expr) {
                AExprKind::AexprOp
                | AExprKind::AexprIn
                | AExprKind::AexprBetween
                | AExprKind::AexprLike
                | AExprKind::AexprIlike => {
                    self.expression(expr.lexpr.as_deref_mut());
                    self.expression(expr.rexpr.as_deref_mut());
                }
                _ => {}
            },
            NodeEnum::BoolExpr(expr) => self.all(&mut expr.args),
            NodeEnum::TypeCast(cast) => self.expression(cast.arg.as_deref_mut()),
            NodeEnum::List(list) => self.all(&mut list.items),
            NodeEnum::RowExpr(row) => self.all(&mut row.args),
            _ => {}
        }
    }

    fn all(&mut self, nodes: &mut [Node]) {
        nodes.iter_mut().for_each(|node| self.expression(Some(node)));
    }

    /// The number of the constant that the tree has at a place of the string, and how many bytes before it its minus stands.
    fn find(&self, location: i32) -> Option<(usize, usize)> {
        let at = nodes::offset(location)?;
        let number = self.places.iter().position(|place| place.start >= at)?;
        let start = self.places[number].start;
        if start == at {
            return Some((number, 0));
        }
        let is_minus = self.sql.as_bytes().get(at) == Some(&b'-')
            && self.sql.get(at + 1..start).is_some_and(|between| between.trim_ascii().is_empty());
        is_minus.then_some((number, start - at))
    }
}

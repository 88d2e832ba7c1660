//! Routes: which shards a statement needs, and what each of them is sent.
//!
//! [`route`] looks at a statement's tree once and makes a [`Route`], which a plan cache keeps; [`Route::decide`] takes the
//! values of an execution and says where it goes. Called by the planner and by the session. Never makes SQL text from a
//! tree, never asks a server, and never guesses: what is not certain to be right on the shards is left to the engine, or
//! refused.

mod analysis;
mod at_once;
mod condition;
mod decide;
mod functions;
mod grouped;
mod insert;
mod joined;
mod named;
mod nodes;
mod operand;
mod query;
mod scope;
mod several;
mod shared;
mod spread;
mod told;
mod write;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use ashlar_base::value::text::TextStyle;
use ashlar_base::{ColumnDef, ColumnDefault, Datum, Error, ErrorCode, Result, Value};
use pg_query::NodeEnum;

use analysis::{Analysis, Fed, Occurrence};
use at_once::OfShard;
use condition::Condition;
use grouped::About;
use insert::{Inserted, Rows};
use several::Gathered;

pub use at_once::AtOnce;
pub use decide::no_key;
pub use nodes::{column_references, columns_named};
pub use shared::{ConstantKind, ConstantUse, PlaceOf, Sent, Shared};
pub use spread::Spread;
pub use told::told_here;

use crate::backend::TextNumber;
use crate::merge::Gathering;
use crate::rewrite::{Hole, Template, scan};
use crate::rules::{Generator, Key, Placement, Rule, ShardId, ShardSet};

/// A table of a fleet, as the catalog has it.
#[derive(Debug)]
pub struct ShardedTable {
    /// Its schema.
    pub schema: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its columns.
    pub columns: Vec<ColumnDef>,
    /// Its primary key and its UNIQUE constraints.
    pub keys: Vec<NamedKey>,
    /// Where its rows are.
    pub rule: Rule,
}

/// A primary key or a UNIQUE constraint.
#[derive(Clone, Debug)]
pub struct NamedKey {
    /// What it is called here; shards may have other names for it.
    pub name: Box<str>,
    /// Its columns.
    pub columns: Vec<String>,
}

impl ShardedTable {
    /// The shard of a row with this key, given in the order of [`Rule::key`].
    ///
    /// # Errors
    /// As [`Rule::shard_of`], which names the table, and the column that is NULL.
    pub fn shard_of(&self, key: &[Datum<'_>]) -> Result<ShardId> {
        self.rule.shard_of(key).map_err(|error| self.at_null(error, key.iter().position(|datum| datum.is_null())))
    }

    /// The same of keys; `None` is NULL.
    fn shard_of_keys(&self, keys: &[Option<Key>]) -> Result<ShardId> {
        self.rule.shard_of_keys(keys).map_err(|error| self.at_null(error, keys.iter().position(Option::is_none)))
    }

    /// 23502 of this place in the key: as PostgreSQL words it, where the column itself must not be NULL.
    fn at_null(&self, error: Error, place: Option<usize>) -> Error {
        let ordinal = place.and_then(|place| self.rule.key().get(place));
        let column = ordinal.and_then(|ordinal| self.columns.get(*ordinal));
        let Some(column) = column.filter(|_| error.code() == ErrorCode::NotNullViolation) else { return error };
        let (name, table) = (&column.name, &self.name);
        let error = if column.nullable {
            error
        } else {
            let message =
                format!("null value in column \"{name}\" of relation \"{table}\" violates not-null constraint");
            Error::new(ErrorCode::NotNullViolation, message)
        };
        error.with_table(table.to_string()).with_column(name.clone())
    }
}

/// What a name in a statement means.
#[derive(Clone, Debug)]
pub enum Found {
    /// A table of a fleet.
    Sharded(Arc<ShardedTable>),
    /// A table of another home, or of the system.
    Elsewhere,
    /// Nothing.
    Unknown,
}

/// Where names are looked up.
pub trait Tables {
    /// What a table's name means, with its schema where one is written.
    fn find(&self, schema: Option<&str>, name: &str) -> Found;
}

/// A statement as the grammar gate has it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its own text, which the tree was made from.
    pub text: &'a str,
    /// Where that begins in the string that the tree's places count in, in bytes.
    pub offset: usize,
    /// The tree.
    pub node: &'a NodeEnum,
}

/// A parameter as it was bound.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'a> {
    /// Its type; 0 where nobody has declared it.
    pub oid: u32,
    /// Whether it is in PostgreSQL's binary form.
    pub is_binary: bool,
    /// `None`: NULL.
    pub bytes: Option<&'a [u8]>,
}

/// The parameters of a statement, wherever they lie.
pub trait Parameters {
    /// The parameter of this number, from 0.
    fn get(&self, number: usize) -> Option<Parameter<'_>>;
}

impl Parameters for &[Parameter<'_>] {
    fn get(&self, number: usize) -> Option<Parameter<'_>> {
        <[Parameter<'_>]>::get(self, number).copied()
    }
}

impl Parameters for Vec<Parameter<'_>> {
    fn get(&self, number: usize) -> Option<Parameter<'_>> {
        self.as_slice().get(number).copied()
    }
}

/// Of a statement that has none.
struct NoParameters;

impl Parameters for NoParameters {
    fn get(&self, _: usize) -> Option<Parameter<'_>> {
        None
    }
}

/// What a route is asked with.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The statement's parameters.
    pub parameters: &'a dyn Parameters,
    /// A server that is taken where any would do.
    pub preferred: Option<&'a str>,
    /// How texts of values are read.
    pub style: TextStyle,
    /// Makes values of key generators.
    pub generate: Option<&'a dyn Fn(Generator) -> Result<Value>>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self { parameters: &NoParameters, preferred: None, style: TextStyle::default(), generate: None }
    }
}

/// What was decided.
#[derive(Debug)]
pub enum Decision<'r> {
    /// The shards answer.
    Forward(Forward<'r>),
    /// The rows of several shards have to be put together by the engine: of SELECT only.
    Engine {
        /// Why the shards cannot.
        reason: Cow<'r, str>,
    },
}

/// Why changes in WITH are refused of tables of several homes.
pub const CHANGES_IN_WITH: &str = "WITH that changes rows is not supported for sharded tables";

/// What to do instead.
pub const ONE_BY_ONE: &str = "Write the changes as statements of their own, in one transaction.";

/// What the shards are sent.
#[derive(Debug)]
pub struct Forward<'r> {
    /// Never none. One: its answer is the statement's.
    pub statements: Vec<ShardStatement<'r>>,
    /// What becomes of the answers.
    pub merge: Merge<'r>,
    /// Which shards, for whoever asks why.
    pub outcome: Outcome,
}

/// What one shard is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardStatement<'r> {
    /// The server.
    pub server: &'r str,
    /// The shard, of the rule of the first divided table.
    pub shard: ShardId,
    /// The text.
    pub text: Cow<'r, str>,
    /// Which of the client's parameters it takes, from 0, in order; `None`: all as they are.
    pub parameters: Option<Vec<u16>>,
    /// Whether the text is of this execution only: of rows that are the shard's, or with keys that were made for them.
    pub is_made: bool,
}

/// How the answers of several shards become one.
#[derive(Clone, Debug, PartialEq)]
pub enum Merge<'r> {
    /// There is one answer.
    Pass,
    /// The numbers of rows are added.
    Count,
    /// The rows follow one another in any order; the numbers of rows are added.
    Concat,
    /// All say the same: the first is the answer, and another one an error.
    Identical,
    /// The rows of `INSERT ... RETURNING`, in the order of VALUES: the n-th is the next one of this statement.
    Interleave(Vec<u16>),
    /// To be put together row by row.
    Rows(Gathering<'r>),
}

/// Which shards answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// One.
    OneShard(ShardId),
    /// Several, not all.
    Shards(ShardSet),
    /// All.
    AllShards,
    /// Any server would do.
    AnyServer,
    /// Every server, with the same change.
    Broadcast,
    /// The server that is named beside the statement.
    Named,
}

/// What kind of statement a route is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Select,
    Insert,
    Update,
    Delete,
}

/// A statement's way to the shards, before its values are known.
#[derive(Debug)]
pub struct Route {
    /// The server that is named beside the statement: then its tables are not looked at, and there are none here.
    named: Option<Arc<str>>,
    kind: Kind,
    text: Box<str>,
    /// The number of that text.
    number: TextNumber,
    has_rows: bool,
    locks: bool,
    /// Whether those are rows that all servers have.
    locks_copies: bool,
    /// Whether WITH changes rows.
    changes: bool,
    /// Whether it calls what one server answers or nobody.
    needs_one_server: bool,
    /// Whether it names a table of another home.
    names_elsewhere: bool,
    /// Keys of rows that are inserted, as far as the statement itself says them.
    fed: Vec<Fed>,
    /// The tables, as often as they are named.
    occurrences: Vec<Arc<ShardedTable>>,
    /// What is spliced in the text: a hole's value is an occurrence whose name stands there, from their number on a list, and behind
    /// those names of columns.
    template: Template,
    /// Lists of constants of which each shard needs its own.
    lists: Vec<List>,
    /// Names of columns that the statement counts: spliced for every shard.
    columns: Vec<String>,
    /// The columns of its stars: spliced where the shards' columns are counted beside each other.
    stars: Vec<String>,
    /// By shard: the text of a statement that one of them carries out, once it has been. None where it is the statement's own there.
    texts: Vec<OnceLock<OfShard>>,
    /// By occurrence: what a name in the text becomes besides the physical one.
    names: Vec<NameStyle>,
    /// The distinct conditions on divided tables.
    targets: Vec<Target>,
    /// Rules that are not colocated with each other; targets refer to them.
    groups: Vec<Rule>,
    /// Why the statement's text cannot be given to a shard at all.
    objection: Option<String>,
    /// How several shards answer; the error is why they do not.
    several: Result<Several, String>,
    rows: Option<Rows>,
}

/// `k IN (...)`, with the shard of each item.
#[derive(Debug)]
struct List {
    occurrence: usize,
    items: Vec<(std::ops::Range<usize>, Option<ShardId>)>,
}

/// How a table's name is written.
#[derive(Clone, Copy, Debug)]
struct NameStyle {
    has_schema: bool,
    has_alias: bool,
}

/// A condition on the rows of divided tables.
#[derive(Debug)]
struct Target {
    group: usize,
    condition: Condition,
    /// Whether its rows divide the result.
    is_anchor: bool,
}

/// How several shards answer.
#[derive(Debug, PartialEq)]
enum Several {
    /// Each answers for its own rows.
    Apart,
    /// Their rows are put together.
    Gathered(Box<Gathered>, Template),
}

/// The route of a statement; `None` where it names no table of a fleet, or is of a kind that has none.
///
/// # Errors
/// 0A000 for what no shard may be asked, and what is wrong with the statement itself.
pub fn route(source: &Source<'_>, tables: &dyn Tables) -> Result<Option<Route>> {
    let mut analysis = Analysis::new(tables, source.text, source.offset);
    let mut walked = walk(&mut analysis, source.node)?;
    if !analysis.references.is_empty() {
        // Only now is it known how often each CTE is read.
        let references = std::mem::take(&mut analysis.references);
        analysis = Analysis::new(tables, source.text, source.offset);
        analysis.references = references;
        walked = walk(&mut analysis, source.node)?;
    }
    let Some(walked) = walked else { return Ok(None) };
    if analysis.occurrences.is_empty() {
        return Ok(None);
    }
    Route::new(source, analysis, walked).map(Some)
}

/// What the walk says of the statement as a whole.
struct Walked {
    kind: Kind,
    has_rows: bool,
    rows: Option<Rows>,
    /// Occurrences whose rows divide the result.
    anchors: Vec<usize>,
    several: Result<Several, String>,
}

fn walk(analysis: &mut Analysis<'_>, node: &NodeEnum) -> Result<Option<Walked>> {
    let changed = |kind, has_rows| Walked { kind, has_rows, rows: None, anchors: vec![0], several: Ok(Several::Apart) };
    match node {
        NodeEnum::SelectStmt(select) => {
            analysis.own_depth = 1;
            let query = analysis.query(select, None)?;
            let gathered = |gathered: Result<Gathered, String>| {
                gathered.map(|gathered| Several::Gathered(Box::new(gathered), Template::default()))
            };
            // Groups whose rows may be on several shards: each makes one row of those that it has. So does DISTINCT.
            let is_shared = query.anchors.is_empty() && !query.row_anchors.is_empty();
            let is_divided = query.is_grouped && is_shared;
            let is_folded = query.is_distinct && is_shared;
            let several = if query.is_limited && analysis.locks {
                Err("rows that are not counted would be locked too".to_owned())
            } else if query.is_aggregated || is_divided {
                let is_apart = |keyed: &Vec<usize>| keyed.iter().any(|anchor| analysis.divides(*anchor));
                let about = About {
                    text: analysis.text,
                    offset: analysis.offset,
                    inputs: query.inputs,
                    is_apart: query.keyed.iter().all(is_apart),
                };
                gathered(grouped::grouped(select, &about))
            } else if is_folded {
                gathered(several::distinct(select, analysis.text))
            } else if query.is_limited || !select.sort_clause.is_empty() {
                gathered(several::sorted(select, analysis.text))
            } else {
                Ok(Several::Apart)
            };
            let is_added = query.is_aggregated || is_divided || is_folded;
            let anchors = if is_added { query.row_anchors } else { query.anchors };
            Ok(Some(Walked { kind: Kind::Select, has_rows: true, rows: None, anchors, several }))
        }
        NodeEnum::UpdateStmt(update) => {
            if !is_ours(analysis, update.relation.as_ref()) {
                return Ok(None);
            }
            analysis.update(update)?;
            analysis.has_sources = !update.from_clause.is_empty();
            Ok(Some(changed(Kind::Update, update.returning_clause.is_some())))
        }
        NodeEnum::DeleteStmt(delete) => {
            if !is_ours(analysis, delete.relation.as_ref()) {
                return Ok(None);
            }
            analysis.delete(delete)?;
            Ok(Some(changed(Kind::Delete, delete.returning_clause.is_some())))
        }
        NodeEnum::InsertStmt(insert) => {
            if !is_ours(analysis, insert.relation.as_ref()) {
                return Ok(None);
            }
            analysis.own_depth = 1;
            let (inserted, _) = analysis.insert(insert, false)?;
            let mut walked = changed(Kind::Insert, insert.returning_clause.is_some());
            match inserted {
                Inserted::Rows(rows) => walked.rows = Some(rows),
                Inserted::Query(query) => {
                    // The rows that are read divide those that are written.
                    walked.anchors = query.anchors;
                    if query.is_limited || query.is_aggregated {
                        walked.several = Err("rows of several shards are counted off or added up".to_owned());
                    }
                }
                Inserted::Given => return Err(Error::internal("rows of WITH stand outside of it")),
                Inserted::Defaults => return Err(insert::no_defaults()),
            }
            Ok(Some(walked))
        }
        _ => Ok(None),
    }
}

/// Whether a column's default is computed for each row, by each server for itself.
fn is_computed(column: &ColumnDef) -> bool {
    matches!(column.default, Some(ColumnDefault::Expression(_) | ColumnDefault::Sequence(_)))
}

/// Whether the table that is written is of a fleet. A write of another table may read ours, which is the engine's affair.
fn is_ours(analysis: &Analysis<'_>, relation: Option<&pg_query::protobuf::RangeVar>) -> bool {
    relation.is_some_and(|relation| {
        let schema = Some(relation.schemaname.as_str()).filter(|schema| !schema.is_empty());
        matches!(analysis.tables.find(schema, &relation.relname), Found::Sharded(_))
    })
}

/// Why the statement's text cannot be given to a shard at all, as far as its tables say it.
fn objection_to(source: &Source<'_>, analysis: &Analysis<'_>) -> Option<String> {
    let mut objection = analysis.objection.clone();
    if analysis.is_elsewhere {
        objection.get_or_insert("a table of another home is named".to_owned());
    }
    let is_copied = |at: &Occurrence| at.table.rule.placement() == Placement::Broadcast;
    if analysis.locks_copies {
        // Each copy of a row is locked, so that all servers have to find the same rows.
        let is_same = analysis.is_same_everywhere && !analysis.has_limits && !analysis.skips_locked;
        if !is_same || !analysis.occurrences.iter().all(is_copied) || functions::names_a_moment(source.text) {
            objection.get_or_insert("a row of a broadcast table would be locked in one of its copies only".to_owned());
        }
    }
    if analysis.names_system && analysis.occurrences.iter().any(is_copied) {
        objection.get_or_insert("a column that a server makes for its rows is another in each copy".to_owned());
    }
    objection
}

/// The rules of divided tables that are not colocated with each other, and the distinct conditions on these tables. Occurrences before
/// `own` have no condition.
fn targets_of(analysis: &Analysis<'_>, divided: &[usize], anchors: &[usize], own: usize) -> (Vec<Rule>, Vec<Target>) {
    let mut groups: Vec<Rule> = Vec::new();
    let mut targets: Vec<Target> = Vec::new();
    for &at in divided {
        let rule = &analysis.occurrences[at].table.rule;
        let group = groups.iter().position(|group| group.is_colocated_with(rule)).unwrap_or_else(|| {
            groups.push(rule.clone());
            groups.len() - 1
        });
        if at < own {
            continue;
        }
        let condition = analysis.condition_of(at);
        let is_anchor = anchors.contains(&at);
        match targets.iter_mut().find(|target| target.group == group && target.condition == condition) {
            Some(target) => target.is_anchor |= is_anchor,
            None => targets.push(Target { group, condition, is_anchor }),
        }
    }
    (groups, targets)
}

/// A list of keys, with the shard of each.
fn placed(analysis: &Analysis<'_>, list: &analysis::List) -> List {
    let rule = &analysis.occurrences[list.occurrence].table.rule;
    let shard = |key: &Key| rule.shard_of_keys(&[Some(key.clone())]).ok();
    let items = list.items.iter().map(|(place, key)| (place.clone(), shard(key))).collect();
    List { occurrence: list.occurrence, items }
}

impl Route {
    fn new(source: &Source<'_>, mut analysis: Analysis<'_>, walked: Walked) -> Result<Self> {
        let Walked { kind, has_rows, rows, anchors, mut several } = walked;
        if analysis.takes_advisory_locks {
            return Err(Error::unsupported("advisory locks are not supported in statements on sharded tables")
                .with_hint("Each server would lock for itself: lock rows, or SET sharded_server to name the server."));
        }
        if analysis.changes_elsewhere {
            return Err(Error::unsupported(CHANGES_IN_WITH).with_hint(ONE_BY_ONE));
        }
        let mut objection = objection_to(source, &analysis);
        let divided: Vec<usize> = (0..analysis.occurrences.len())
            .filter(|at| analysis.occurrences[*at].table.rule.placement() == Placement::Sharded)
            .collect();
        let anchors: Vec<usize> =
            anchors.into_iter().filter(|at| divided.contains(at) && analysis.divides(*at)).collect();
        // The rows of VALUES are their own condition.
        let own = usize::from(rows.is_some());
        let (groups, targets) = targets_of(&analysis, &divided, &anchors, own);
        if analysis.differs || functions::names_a_moment(source.text) {
            several = Err("an expression would have another value on each server".to_owned());
        }
        if anchors.is_empty() && several.is_ok() && !divided.is_empty() {
            several = Err("its rows are not told apart by one sharding key".to_owned());
        }
        if analysis.changes {
            several = Err("rows are changed in WITH".to_owned());
        }
        let names = analysis.occurrences.iter().map(NameStyle::of).collect();
        let template = template(&analysis, kind, &mut objection)?;
        let texts = match &groups[..] {
            [rule] if template.has_below(analysis.occurrences.len()) || !analysis.named.is_empty() => {
                rule.shards().iter().map(|_| OnceLock::new()).collect()
            }
            _ => Vec::new(),
        };
        if let Ok(Several::Gathered(gathered, moved)) = &mut several {
            *moved = template.moved(|at| gathered.moved(at));
            gathered.merge.has_open_stars = analysis.stars.iter().any(Option::is_none);
        }
        let lists = analysis.lists.iter().map(|list| placed(&analysis, list)).collect();
        let route = Self {
            named: None,
            kind,
            text: source.text.into(),
            number: TextNumber::make(),
            has_rows,
            locks: analysis.locks,
            locks_copies: analysis.locks_copies,
            changes: analysis.changes,
            needs_one_server: analysis.needs_one_server,
            names_elsewhere: analysis.is_elsewhere,
            fed: std::mem::take(&mut analysis.fed),
            occurrences: analysis.occurrences.iter().map(|occurrence| Arc::clone(&occurrence.table)).collect(),
            template,
            lists,
            columns: analysis.named.iter().map(|(_, names)| names.clone()).collect(),
            stars: analysis.stars.iter().flatten().map(|(_, names)| names.clone()).collect(),
            texts,
            names,
            targets,
            groups,
            objection,
            several,
            rows,
        };
        route.check_write(&analysis)?;
        Ok(route)
    }

    /// What a write may not do, whatever its values are.
    fn check_write(&self, analysis: &Analysis<'_>) -> Result<()> {
        if self.kind == Kind::Select {
            return Ok(());
        }
        if let Some(objection) = &self.objection {
            return Err(Error::unsupported(format!("cannot be done on shards: {objection}")));
        }
        let target = &self.occurrences[0];
        if target.rule.placement() != Placement::Broadcast {
            return Ok(());
        }
        let refuse = |why: &str| {
            Err(Error::unsupported(format!("cannot change all copies of table \"{}\" alike: {why}", target.name))
                .with_hint("Write constants and parameters."))
        };
        if self.occurrences.iter().any(|table| table.rule.placement() != Placement::Broadcast) {
            return refuse("rows of other tables are not on every server");
        }
        if !analysis.is_same_everywhere {
            return refuse("an expression may have another value on each server");
        }
        if analysis.has_limits {
            return refuse("rows are taken by their number");
        }
        if analysis.has_sources {
            return refuse("one row of several may be taken for each");
        }
        if functions::names_a_moment(&self.text) {
            return refuse("a moment is written as a word");
        }
        if self.kind == Kind::Insert && target.columns.iter().any(is_computed) {
            return refuse("a column has a default that each server would compute for itself");
        }
        Ok(())
    }

    /// Whether rows are changed or locked, or may be: what is for a server that is named beside it is taken for a write, whatever it is.
    pub fn is_write(&self) -> bool {
        self.kind != Kind::Select || self.locks || self.changes || self.named.is_some()
    }

    /// What a change is called in messages; `None` for a query that changes nothing.
    pub fn verb(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Select => self.changes.then_some("SELECT"),
            Kind::Insert => Some("INSERT"),
            Kind::Update => Some("UPDATE"),
            Kind::Delete => Some("DELETE"),
        }
    }

    /// Whether it writes what a query finds: rows that it inserts, or that it changes.
    pub fn writes_found(&self) -> bool {
        self.kind != Kind::Select && self.rows.is_none()
    }

    /// Whether a hole of the template takes a list of constants.
    fn is_list(&self, value: usize) -> bool {
        value.checked_sub(self.occurrences.len()).is_some_and(|list| list < self.lists.len())
    }

    /// Whether a hole of the template takes the columns of a star.
    fn is_star(&self, value: usize) -> bool {
        value >= self.occurrences.len() + self.lists.len() + self.columns.len()
    }

    /// What makes keys for rows of VALUES that leave them out; `None` where none does.
    pub fn generator(&self) -> Option<Generator> {
        let generated = self.rows.as_ref()?.generated.as_ref()?;
        generated.values.iter().any(Option::is_some).then_some(generated.generator)
    }

    /// Whether it answers with rows.
    pub fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// The tables that it names, as often as it does.
    pub fn tables(&self) -> &[Arc<ShardedTable>] {
        &self.occurrences
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.text.len()
            + self.texts.len() * (self.text.len() + size_of::<OnceLock<OfShard>>())
            + self.occurrences.len() * 64
            + self.targets.iter().map(|target| target.condition.bytes() + size_of::<Target>()).sum::<usize>()
            + self.rows.as_ref().map_or(0, Rows::bytes)
            + self.lists.iter().map(|list| list.items.len() * 32).sum::<usize>()
            + self.columns.iter().chain(&self.stars).map(|names| names.len() + size_of::<String>()).sum::<usize>()
    }
}

impl NameStyle {
    fn of(occurrence: &Occurrence) -> Self {
        Self { has_schema: occurrence.has_schema, has_alias: occurrence.has_alias }
    }
}

/// Where names of tables stand that have other names on the shards, and what else is spliced.
fn template(analysis: &Analysis<'_>, kind: Kind, objection: &mut Option<String>) -> Result<Template> {
    let mut holes = Vec::new();
    let mut refuse = |reason: &str| -> Result<()> {
        if kind == Kind::Select {
            objection.get_or_insert(reason.to_owned());
            return Ok(());
        }
        Err(Error::unsupported(reason))
    };
    for (value, occurrence) in analysis.occurrences.iter().enumerate() {
        let table = &occurrence.table;
        if table.rule.shards().iter().all(|shard| shard.schema == table.schema && shard.table == table.name) {
            continue;
        }
        if analysis.has_schema_columns {
            refuse("columns named with their table's schema cannot be given to shards with other tables")?;
        }
        match scan::name(analysis.text, occurrence.at) {
            Some(_) if !occurrence.has_alias && scan::takes_no_alias(analysis.text, occurrence.at) => {
                refuse("a table's name stands where it cannot be given an alias")?;
            }
            Some(place) => holes.push(Hole { place, value }),
            None => refuse("a table's name cannot be found in the text")?,
        }
    }
    let further = analysis.lists.iter().map(|list| &list.place).chain(analysis.named.iter().map(|(place, _)| place));
    let further = further.chain(analysis.stars.iter().flatten().map(|(place, _)| place));
    for (place, value) in further.zip(analysis.occurrences.len()..) {
        holes.push(Hole { place: place.clone(), value });
    }
    Ok(Template::new(holes))
}

#[cfg(test)]
mod tests;

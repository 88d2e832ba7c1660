//! Statements with changes in their WITH: `WITH moved AS (DELETE FROM jobs ... RETURNING *) INSERT INTO done SELECT * FROM moved`.
//!
//! ```text
//! WITH a AS (SELECT ...), b AS (DELETE ... RETURNING x) INSERT ... SELECT ... FROM a, b
//!   step b:     DELETE ... RETURNING x                                            ─▶ rows of b
//!   statement:  WITH a AS (SELECT ...), b AS (rows of b) INSERT ... SELECT ... FROM a, b
//! ```
//!
//! Each step is planned as a statement of its own, before which stand the steps that it reads: WITH queries that select from tables which
//! nobody else knows, so that names mean what they mean in SQL. `dml::run` runs the steps in one picture of the tables, and puts rows into these
//! tables. As in PostgreSQL no step sees what another one has changed but by what that returns. A query that is read once, and would give the
//! same rows once more, is no step: it stays a WITH query of who reads it. Called by `statement`; runs nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, TableSchema};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::fields::field_of;
use ashlar_functions::quoting::quote_ident;
use ashlar_functions::walk;
use ashlar_shard::route::{CHANGES_IN_WITH, ONE_BY_ONE};
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::sql::sqlparser::ast::{TableFactor, Visitor};
use pg_query::NodeEnum;
use pg_query::protobuf::{CteMaterialize, RangeVar, Token, WithClause};

use super::changes::{self, Planned};
use super::{Kind, Statement, statement_text};
use crate::catalog::{CatalogState, Table};
use crate::columns::Column;
use crate::dml::Conflict;
use crate::engine::Engine;
use crate::grammar::{self, ParsedStatement};
use crate::key_plan::single;
use crate::locking;
use crate::select::{self, Planner, SelectPlan};
use crate::sharded::written_to;
use crate::sql_types::string_of;

/// See the module.
pub struct WithChanges {
    /// In the order in which they run.
    steps: Vec<Step>,
    /// Which of them is the statement itself.
    main: usize,
}

/// A WITH query, or the statement behind them.
pub struct Step {
    /// SELECT, with or without a locking clause, INSERT, UPDATE or DELETE.
    pub kind: Kind,
    /// The table that its rows become; `None` where nobody reads them.
    pub gives: Option<Given>,
}

/// A table that rows of a step become.
pub struct Given {
    /// Its name, which no user writes.
    pub name: String,
    /// Its columns.
    pub columns: Arc<[Column]>,
}

impl Given {
    /// Its columns as the engine has them.
    pub fn schema(&self) -> SchemaRef {
        let field = |(at, column): (usize, &Column)| field_of(&column_of(at), column.sql_type);
        Arc::new(Schema::new(self.columns.iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    /// The table before there are rows.
    fn empty(&self) -> Result<Arc<dyn TableProvider>> {
        let table = MemTable::try_new(self.schema(), vec![Vec::new()]).map_err(from_datafusion)?;
        Ok(Arc::new(table))
    }
}

impl WithChanges {
    /// The steps in the order in which they run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Which of them is the statement behind the WITH.
    pub fn main(&self) -> usize {
        self.main
    }

    /// What the statement behind the WITH does.
    pub fn main_kind(&self) -> &Kind {
        &self.steps[self.main].kind
    }
}

/// The WITH of a statement, where something in it is changed.
pub(super) fn clause(statement: &NodeEnum) -> Option<&WithClause> {
    with_of(statement).filter(|with| with.ctes.iter().any(is_change))
}

/// The WITH of a statement.
fn with_of(statement: &NodeEnum) -> Option<&WithClause> {
    match statement {
        NodeEnum::SelectStmt(node) => node.with_clause.as_ref(),
        NodeEnum::InsertStmt(node) => node.with_clause.as_ref(),
        NodeEnum::UpdateStmt(node) => node.with_clause.as_ref(),
        NodeEnum::DeleteStmt(node) => node.with_clause.as_ref(),
        _ => None,
    }
}

/// Whether a WITH query changes something.
fn is_change(query: &pg_query::Node) -> bool {
    let Some(NodeEnum::CommonTableExpr(query)) = &query.node else { return false };
    let query = query.ctequery.as_ref().and_then(|query| query.node.as_ref());
    !matches!(query, Some(NodeEnum::SelectStmt(_)))
}

/// Plans a statement with this WITH.
///
/// # Errors
/// 0A000 for changes of tables on shards, of one row twice, and for forms that are not offered; what planning the steps finds.
pub(super) fn plan(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    parsed: &ParsedStatement,
    with: &WithClause,
    declared: &[u32],
) -> Result<Statement> {
    let parts = parts_of(catalog, parsed, with)?;
    let (catalog_of_steps, declared) = (Arc::clone(catalog), declared.to_vec());
    let mut planning = Planning { engine, catalog: catalog_of_steps, known: Vec::new(), declared, types: Vec::new() };
    let mut steps = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let planned = planning.part(part)?;
        let times: usize = parts[at + 1..].iter().map(|later| later.times_read(&part.name)).sum();
        let stays = at + 1 < parts.len() && part.stays(&planned.kind, times);
        let reads = planning.steps_of(&part.reads);
        let columns = planned.columns.clone();
        if at + 1 < parts.len() {
            planning.know(part, planned.columns.as_ref(), stays)?;
        }
        if !stays {
            steps.push(PlannedStep { name: part.name.clone(), kind: planned.kind, columns, reads });
        }
    }
    let columns = steps.last().and_then(|main| main.columns.clone());
    refuse_changes_of_one_table(&steps)?;
    let (steps, main) = in_order(steps);
    refuse_locks_of_changed(&steps)?;
    let kind = Kind::WithChanges(Box::new(WithChanges { steps, main }));
    let types = planning.types.into_iter().map(|known| known.unwrap_or(SqlType::Scalar(ScalarType::Text))).collect();
    Ok(Statement::of_kind(engine, catalog, parsed, kind, types, columns))
}

/// A WITH query, or the statement behind them, which comes last, before it is planned.
struct Part {
    /// Empty for the statement.
    name: String,
    /// The names that are written for its columns.
    aliases: Vec<String>,
    node: NodeEnum,
    text: String,
    /// The WITH queries that it names in FROM, each as often as it does.
    reads: Vec<String>,
    /// It says MATERIALIZED.
    is_kept: bool,
}

impl Part {
    fn times_read(&self, name: &str) -> usize {
        self.reads.iter().filter(|read| *read == name).count()
    }

    /// Whether it stays a query within those that read it: one that would give the same rows once more.
    fn stays(&self, kind: &Kind, times: usize) -> bool {
        matches!(kind, Kind::Select(plan) if times < 2 && !self.is_kept && !plan.is_volatile())
    }
}

/// The parts of a statement.
///
/// # Errors
/// 42712 for a name that is there twice, 0A000 for tables on shards and for forms that are not offered.
fn parts_of(catalog: &CatalogState, parsed: &ParsedStatement, with: &WithClause) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    for query in &with.ctes {
        let Some(NodeEnum::CommonTableExpr(query)) = &query.node else {
            return Err(Error::internal("a WITH is a list of queries"));
        };
        if query.search_clause.is_some() || query.cycle_clause.is_some() {
            return Err(Error::unsupported("SEARCH and CYCLE are not supported"));
        }
        let name = query.ctename.clone();
        if parts.iter().any(|part| part.name == name) {
            let message = format!("WITH query name \"{name}\" specified more than once");
            return Err(Error::new(ErrorCode::DuplicateAlias, message));
        }
        let node = query.ctequery.as_ref().and_then(|query| query.node.clone());
        let node = node.ok_or_else(|| Error::internal("a WITH query is a query"))?;
        if with_of(&node).is_some_and(|with| !with.ctes.is_empty()) {
            return Err(Error::unsupported("a WITH in a WITH query beside one that changes rows is not supported")
                .with_hint("Put its queries into the outer WITH."));
        }
        let is_kept = query.ctematerialized() == CteMaterialize::Always;
        let aliases = query.aliascolnames.iter().filter_map(string_of).map(str::to_owned).collect();
        parts.push(Part { name, aliases, text: statement_text(&node)?, node, reads: Vec::new(), is_kept });
    }
    let main = without_with(&parsed.node);
    let text = statement_text(&main)?;
    parts.push(Part { name: String::new(), aliases: Vec::new(), text, node: main, reads: Vec::new(), is_kept: false });
    let names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
    for (at, part) in parts.iter_mut().enumerate() {
        let mut found = named(part)?;
        found.retain(|name| {
            let is_known = names.contains(name);
            is_known || matches!(catalog.table(name), Some(Table::Sharded(_)))
        });
        if found.iter().any(|name| !names.contains(name)) || written_to(catalog, target_of(&part.node)).is_some() {
            return Err(Error::unsupported(CHANGES_IN_WITH).with_hint(ONE_BY_ONE));
        }
        // Without RECURSIVE the name of what comes later, or of itself, is that of a table.
        if with.recursive && found.iter().any(|name| names[at..].contains(name)) {
            return Err(Error::unsupported("WITH RECURSIVE beside a WITH query that changes rows is not supported")
                .with_hint("Put the recursive query into a sub-query of the statement that reads it."));
        }
        found.retain(|name| names[..at].contains(name));
        part.reads = found;
    }
    Ok(parts)
}

/// A step that has been planned.
struct PlannedStep {
    /// The WITH query that it is; empty for the statement behind them.
    name: String,
    kind: Kind,
    columns: Option<Arc<[Column]>>,
    /// The steps that it reads, itself or by queries that stay in its text.
    reads: Vec<String>,
}

/// A WITH query that parts behind it may name.
struct Known {
    name: String,
    /// `name AS (...)`; None where it gives no rows.
    text: Option<String>,
    /// The WITH queries that this text names.
    reads: Vec<String>,
    /// Its rows are those of a table that a step gives.
    is_step: bool,
}

struct Planning<'a> {
    engine: &'a Engine,
    /// With the tables of the steps so far.
    catalog: Arc<CatalogState>,
    known: Vec<Known>,
    /// The types of parameters that are known to who plans: declared by the client, or found by a part before.
    declared: Vec<u32>,
    types: Vec<Option<SqlType>>,
}

impl Planning<'_> {
    /// Plans a part behind what it reads.
    ///
    /// # Errors
    /// 0A000 for what it reads of a WITH query without RETURNING; what planning finds.
    fn part(&mut self, part: &Part) -> Result<Planned> {
        let mut before = Vec::new();
        for known in self.reached(&part.reads) {
            before.push(known.text.as_deref().ok_or_else(|| {
                Error::unsupported(format!("WITH query \"{}\" does not have a RETURNING clause", known.name))
            })?);
        }
        let text = match before.is_empty() {
            true => part.text.clone(),
            false => format!("WITH {} {}", before.join(", "), part.text),
        };
        let parsed = grammar::only_one(grammar::parse(&text)?)?.ok_or_else(|| Error::internal("a part is there"))?;
        let planned = self.planned(&parsed)?;
        for number in numbers_of_parameters(&part.text) {
            if self.types.len() <= number {
                self.types.resize(number + 1, None);
            }
            if self.declared.len() <= number {
                self.declared.resize(number + 1, 0);
            }
            if self.types[number].is_none()
                && let Some(found) = planned.types.get(number)
            {
                self.types[number] = Some(*found);
                self.declared[number] = found.oid();
            }
        }
        Ok(planned)
    }

    fn planned(&self, parsed: &ParsedStatement) -> Result<Planned> {
        let (engine, catalog, declared) = (self.engine, &self.catalog, &self.declared[..]);
        match &parsed.node {
            NodeEnum::SelectStmt(node) => {
                if node.into_clause.is_some() {
                    return Err(Error::unsupported("SELECT INTO is not supported"));
                }
                if !node.locking_clause.is_empty() {
                    let plan = locking::plan_rows(engine, catalog, &parsed.text, declared)?;
                    let (types, columns) = (plan.parameter_types.clone(), Some(Arc::clone(&plan.columns)));
                    return Ok(Planned { kind: Kind::Lock(Box::new(plan)), types, columns });
                }
                let planner = Planner::new(engine, catalog).of_text(&parsed.text);
                let plan = SelectPlan::new(&planner, select::parse(&parsed.text)?, declared)?;
                let (types, columns) = (plan.parameter_types.clone(), Some(Arc::clone(&plan.columns)));
                Ok(Planned { kind: Kind::Select(Box::new(plan)), types, columns })
            }
            NodeEnum::InsertStmt(node) => {
                let plan = changes::insert_plan(engine, catalog, parsed, node, declared)?;
                let (types, columns) = (plan.parameter_types.clone(), changes::columns_of(&plan.returning));
                Ok(Planned { kind: Kind::Insert(Box::new(plan)), types, columns })
            }
            NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) => {
                changes::refuse_cursor(&parsed.node)?;
                changes::change_plan(engine, catalog, select::parse(&parsed.text)?, declared)
            }
            _ => Err(Error::unsupported("this statement behind a WITH query that changes rows is not supported")),
        }
    }

    /// Parts behind this one may name it. `stays`: it is a query in their text.
    ///
    /// # Errors
    /// 42P10 where more columns are named than there are.
    fn know(&mut self, part: &Part, columns: Option<&Arc<[Column]>>, stays: bool) -> Result<()> {
        let Part { name, aliases, reads, .. } = part;
        let alias = quote_ident(name);
        let mut known = Known { name: name.clone(), text: None, reads: Vec::new(), is_step: !stays };
        if stays {
            let list: Vec<String> = aliases.iter().map(|alias| quote_ident(alias)).collect();
            let list = if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) };
            known.text = Some(format!("{alias}{list} AS ({})", part.text));
            known.reads.clone_from(reads);
        } else if let Some(columns) = columns {
            if aliases.len() > columns.len() {
                let (has, wants) = (columns.len(), aliases.len());
                let message =
                    format!("WITH query \"{name}\" has {has} columns available but {wants} columns specified");
                return Err(Error::new(ErrorCode::InvalidColumnReference, message));
            }
            let given = given(name, columns);
            let column = |(at, column): (usize, &Column)| {
                let shown = aliases.get(at).unwrap_or(&column.name);
                format!("{} AS {}", quote_ident(&column_of(at)), quote_alias(shown))
            };
            let shown: Vec<String> = columns.iter().enumerate().map(column).collect();
            let table = quote_ident(&given.name);
            known.text = Some(format!("{alias} AS (SELECT {} FROM {table})", shown.join(", ")));
            self.catalog = self.catalog.with_given(given.name.clone(), given.empty()?);
        }
        self.known.push(known);
        Ok(())
    }

    /// The WITH queries that these names reach, in their order.
    fn reached(&self, names: &[String]) -> Vec<&Known> {
        let mut wanted = vec![false; self.known.len()];
        for at in (0..self.known.len()).rev() {
            let is_read = |read: &String| *read == self.known[at].name;
            let by_others =
                self.known.iter().zip(&wanted).any(|(other, wanted)| *wanted && other.reads.iter().any(is_read));
            wanted[at] = by_others || names.iter().any(is_read);
        }
        self.known.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(known, _)| known).collect()
    }

    /// Those of them that are steps.
    fn steps_of(&self, names: &[String]) -> Vec<String> {
        self.reached(names).into_iter().filter(|known| known.is_step).map(|known| known.name.clone()).collect()
    }
}

/// The table of what a WITH query of this name gives.
fn given(name: &str, columns: &Arc<[Column]>) -> Given {
    Given { name: format!("\u{1}with {name}"), columns: Arc::clone(columns) }
}

/// The name of a column of such a table: those of results may be there twice.
fn column_of(at: usize) -> String {
    format!("c{at}")
}

/// A name behind AS, where each word is one only in quotes.
fn quote_alias(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The names of tables in FROM, without that of the table that is changed.
fn named(part: &Part) -> Result<Vec<String>> {
    let mut names = Names(Vec::new());
    let _ = walk::visit(&select::parse_raw(&part.text)?, &mut names);
    // To the parser the target of an UPDATE or DELETE is in one.
    if let (NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_), Some(target)) = (&part.node, target_of(&part.node))
        && let Some(at) = names.0.iter().position(|name| *name == target.relname)
    {
        names.0.remove(at);
    }
    Ok(names.0)
}

/// The table that a statement changes.
fn target_of(node: &NodeEnum) -> Option<&RangeVar> {
    match node {
        NodeEnum::InsertStmt(node) => node.relation.as_ref(),
        NodeEnum::UpdateStmt(node) => node.relation.as_ref(),
        NodeEnum::DeleteStmt(node) => node.relation.as_ref(),
        _ => None,
    }
}

struct Names(Vec<String>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = table {
            self.0.extend(single(name));
        }
        ControlFlow::Continue(())
    }
}

/// The numbers from 0 of a text's parameters.
fn numbers_of_parameters(text: &str) -> Vec<usize> {
    let Ok(scanned) = pg_query::scan(text) else { return Vec::new() };
    let number = |token: &pg_query::protobuf::ScanToken| {
        let place = usize::try_from(token.start).ok()?..usize::try_from(token.end).ok()?;
        let number: usize = text.get(place)?.strip_prefix('$')?.parse().ok()?;
        number.checked_sub(1)
    };
    scanned.tokens.iter().filter(|token| token.token() == Token::Param).filter_map(number).collect()
}

/// The statement behind its WITH.
fn without_with(statement: &NodeEnum) -> NodeEnum {
    let mut statement = statement.clone();
    match &mut statement {
        NodeEnum::SelectStmt(node) => node.with_clause = None,
        NodeEnum::InsertStmt(node) => node.with_clause = None,
        NodeEnum::UpdateStmt(node) => node.with_clause = None,
        NodeEnum::DeleteStmt(node) => node.with_clause = None,
        _ => {}
    }
    statement
}

/// 0A000 where two steps might change one row: which of them does is open in PostgreSQL, where the other one is left out.
fn refuse_changes_of_one_table(steps: &[PlannedStep]) -> Result<()> {
    // The table, and whether rows of it are changed that are there.
    let changed = |step: &PlannedStep| match &step.kind {
        Kind::Insert(plan) => Some((Arc::clone(&plan.schema), matches!(plan.conflict, Conflict::Update { .. }))),
        Kind::Update(plan) => Some((Arc::clone(&plan.schema), true)),
        Kind::Delete(plan) => Some((Arc::clone(&plan.schema), true)),
        _ => None,
    };
    let mut known: Vec<_> = Vec::new();
    for (step, (schema, changes)) in steps.iter().filter_map(|step| Some((step, changed(step)?))) {
        let is_upsert = matches!(&step.kind, Kind::Insert(_)) && changes;
        let meets = |(other, others_change, others_upsert): &(Arc<TableSchema>, bool, bool)| {
            other.id == schema.id && (*others_change && changes || is_upsert || *others_upsert)
        };
        if known.iter().any(meets) {
            return Err(Error::unsupported(format!(
                "two changes of table \"{}\" in one statement are not supported, one of which may be of rows of the other",
                schema.name
            ))
            .with_hint("Run them one after the other, in one transaction."));
        }
        known.push((schema, changes, is_upsert));
    }
    Ok(())
}

/// 0A000 where a step locks rows of a table that a step before it changes: PostgreSQL passes over those that the statement has changed.
fn refuse_locks_of_changed(steps: &[Step]) -> Result<()> {
    let mut changed = Vec::new();
    for step in steps {
        match &step.kind {
            Kind::Lock(plan) => {
                if let Some(region) = plan.tables().find(|region| changed.contains(&region.id())) {
                    let name = &region.schema().name;
                    return Err(Error::unsupported(format!(
                        "a locking clause on table \"{name}\" behind a WITH query that changes it is not supported"
                    ))
                    .with_hint("Lock the rows before, in a WITH query that the change reads."));
                }
            }
            Kind::Insert(plan) => changed.push(plan.region.id()),
            Kind::Update(plan) => changed.push(plan.region.id()),
            Kind::Delete(plan) => changed.push(plan.region.id()),
            _ => {}
        }
    }
    Ok(())
}

/// The steps in the order in which they run, and the place of the last one: those that it reads, then itself, then changes whose rows it does
/// not ask for, the last of them first, as in PostgreSQL. What is not read and changes nothing is left out.
fn in_order(steps: Vec<PlannedStep>) -> (Vec<Step>, usize) {
    let last = steps.len() - 1;
    let mut order: Vec<usize> = Vec::new();
    let mut main = 0;
    for at in (0..steps.len()).rev() {
        let is_change = !matches!(steps[at].kind, Kind::Select(_) | Kind::Lock(_));
        if at != last && !is_change || order.contains(&at) {
            continue;
        }
        let mut wanted = vec![false; at + 1];
        wanted[at] = true;
        for reader in (0..=at).rev().filter(|reader| *reader <= at) {
            if wanted[reader] {
                let read = |name: &String| steps[..reader].iter().position(|step| step.name == *name);
                steps[reader].reads.iter().filter_map(read).for_each(|read| wanted[read] = true);
            }
        }
        order.extend((0..=at).filter(|place| wanted[*place] && !order.contains(place)).collect::<Vec<_>>());
        if at == last {
            main = order.len() - 1;
        }
    }
    let read: Vec<String> = order.iter().flat_map(|at| steps[*at].reads.clone()).collect();
    let mut all: Vec<Option<PlannedStep>> = steps.into_iter().map(Some).collect();
    let step = |at: usize| {
        let PlannedStep { name, kind, columns, .. } = all[at].take()?;
        let gives = columns.filter(|_| read.contains(&name)).map(|columns| given(&name, &columns));
        Some(Step { kind, gives })
    };
    (order.into_iter().filter_map(step).collect(), main)
}

//! A statement: parsed and planned once, executed many times.

pub mod calls;
mod changes;
mod commands;
pub mod configure;
mod modes;
mod named;
mod queries;
mod setval;
mod unsupported;
pub mod with_changes;

use std::sync::Arc;

use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode, Result, SqlType};
use pg_query::NodeEnum;
use pg_query::protobuf;

pub use self::modes::isolation;
pub use self::named::refused_by_name;
pub use self::with_changes::WithChanges;
use crate::analyze;
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::copy::CopyPlan;
use crate::ddl::{Ddl, relation_name};
use crate::dml::{Conflict, DeletePlan, InsertPlan, Outputs, ShardChangePlan, Source, SpreadPlan, UpdatePlan};
use crate::engine::Engine;
use crate::explain::ExplainOptions;
use crate::grammar::{self, ParsedStatement, position_of_name};
use crate::identity::Identity;
use crate::key_plan::{self, KeyPlan};
use crate::lift::{Lifting, Shape};
use crate::locking::{self, LockPlan};
use crate::object_columns;
use crate::select::{self, SelectPlan};
use crate::sharded::{ShardedPlan, maintain};
use crate::transaction::Isolation;

/// A planned statement.
pub struct Statement {
    /// Its text.
    pub text: String,
    /// What it does.
    pub kind: Kind,
    /// Types of `$1`, `$2`, ...
    pub parameter_types: Vec<SqlType>,
    /// The result columns; `None` if it returns no rows.
    pub columns: Option<Arc<[Column]>>,
    /// The epoch of the catalog version that it was planned against.
    pub epoch: u64,
    /// Its estimated size in bytes, for the cache of plans.
    bytes: usize,
    /// The time zone in which it was planned; `None` if that makes no difference.
    pub zone: Option<Zone>,
    /// The session that it was planned for, if its plan contains facts about the session or reads tables that do. It is then valid for
    /// that session only, and only while the session's settings stay the same.
    pub asked_by: Option<Identity>,
}

/// Bytes of a statement beside its text and its plan.
const STATEMENT_BYTES: usize = 1024;

/// Bytes for each parameter up to the last that a text names, of which even a short one may have 65,535: its type here and in the plan.
const PARAMETER_BYTES: usize = 2 * size_of::<SqlType>();

/// Bytes of a cell in a VALUES list.
const CELL_BYTES: usize = size_of::<crate::dml::Cell>() + 32;

/// What a statement does.
pub enum Kind {
    /// One row by its key.
    Key(Box<KeyPlan>),
    /// A query.
    Select(Box<SelectPlan>),
    /// A query that locks its rows.
    Lock(Box<LockPlan>),
    /// INSERT
    Insert(Box<InsertPlan>),
    /// INSERT into a sharded table of rows that are computed here.
    Spread(Box<SpreadPlan>),
    /// UPDATE
    Update(Box<UpdatePlan>),
    /// DELETE
    Delete(Box<DeletePlan>),
    /// A statement with changes in its WITH.
    WithChanges(Box<WithChanges>),
    /// UPDATE or DELETE of rows of a sharded table that are found here.
    ShardChange(Box<ShardChangePlan>),
    /// Changes of the catalog.
    Ddl(Ddl),
    /// COPY
    Copy(Box<CopyPlan>),
    /// EXPLAIN of a statement.
    Explain {
        /// The statement that is explained.
        inner: Arc<Statement>,
        /// The options of EXPLAIN.
        options: ExplainOptions,
        /// Why shards do not run it by themselves, in lines, where it is about sharded tables.
        because: Vec<String>,
    },
    /// A statement about sharded tables.
    Sharded(Box<ShardedPlan>),
    /// A command that the session executes itself.
    Session(SessionCommand),
    /// An empty string.
    Empty,
}

/// Statements about the session and its transaction.
#[derive(Clone, Debug)]
pub enum SessionCommand {
    /// BEGIN
    Begin(TransactionModes),
    /// START TRANSACTION
    Start(TransactionModes),
    /// COMMIT, END
    Commit,
    /// ROLLBACK, ABORT
    Rollback,
    /// COMMIT or ROLLBACK, AND CHAIN
    Chain {
        /// COMMIT
        commits: bool,
    },
    /// SAVEPOINT
    Savepoint(String),
    /// RELEASE SAVEPOINT
    Release(String),
    /// ROLLBACK TO SAVEPOINT
    RollbackTo(String),
    /// SET TRANSACTION
    SetTransaction(TransactionModes),
    /// SET SESSION CHARACTERISTICS
    SetCharacteristics(TransactionModes),
    /// SET; `None` for DEFAULT
    Set {
        /// The setting.
        name: String,
        /// The value.
        value: Option<String>,
        /// SET LOCAL
        local: bool,
    },
    /// RESET
    Reset(String),
    /// RESET ALL
    ResetAll,
    /// SHOW
    Show(String),
    /// SHOW ALL
    ShowAll,
    /// SELECT of `set_config` and `pg_notify`, perhaps with `current_setting` beside them, in the order of the select list.
    Configure(Vec<configure::Item>),
    /// SELECT of advisory locks and `pg_sleep`.
    Call(Vec<calls::Item>),
    /// SELECT of `setval`
    SetNumber {
        /// The name of the sequence, as it is written.
        sequence: String,
        /// The number.
        value: i64,
        /// Whether it counts as given to a row, so that the next one is greater.
        is_called: bool,
    },
    /// LISTEN
    Listen(String),
    /// UNLISTEN; `None` for all channels
    Unlisten(Option<String>),
    /// NOTIFY
    Notify {
        /// The channel.
        channel: String,
        /// The payload.
        payload: String,
    },
    /// DISCARD ALL
    DiscardAll,
    /// A command that resets what a session cannot have here, as drivers send it. It does nothing and is answered with this tag.
    Nothing(&'static str),
    /// PREPARE
    Prepare {
        /// The name.
        name: String,
        /// OIDs of declared parameter types, 0 where open.
        types: Vec<u32>,
        /// The statement.
        text: String,
    },
    /// EXECUTE
    Execute {
        /// The name.
        name: String,
        /// The arguments, as SQL expressions.
        arguments: Vec<String>,
    },
    /// DEALLOCATE; `None` for ALL
    Deallocate(Option<String>),
    /// DECLARE ... CURSOR FOR
    Declare {
        /// The name.
        name: String,
        /// The query.
        text: String,
        /// WITH HOLD
        hold: bool,
    },
    /// FETCH forward; `None` for ALL
    Fetch {
        /// The cursor.
        name: String,
        /// Rows.
        count: Option<u64>,
        /// MOVE instead of FETCH.
        is_move: bool,
    },
    /// CLOSE; `None` for ALL
    Close(Option<String>),
    /// VACUUM: a round of compaction; then, if it has the option ANALYZE, ANALYZE of these tables.
    Vacuum(Option<Vec<analyze::Target>>),
    /// ANALYZE of these tables; of all tables if none is named.
    Analyze(Vec<analyze::Target>),
}

/// Modes of a transaction; `None` for those that are not stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// ISOLATION LEVEL
    pub isolation: Option<Isolation>,
    /// READ ONLY, READ WRITE
    pub read_only: Option<bool>,
    /// DEFERRABLE, NOT DEFERRABLE
    pub deferrable: Option<bool>,
}

impl Kind {
    /// Bytes that it holds, as estimated.
    fn bytes(&self) -> Result<usize> {
        let select = |plan: Option<&SelectPlan>| plan.map_or(Ok(0), SelectPlan::bytes);
        Ok(match self {
            Self::Key(plan) => plan.bytes(),
            Self::Select(plan) => plan.bytes()?,
            Self::Lock(plan) => plan.bytes()?,
            Self::Insert(plan) => {
                let source = match &plan.source {
                    Source::Values { rows, computed } => {
                        let cells: usize = rows.iter().map(Vec::len).sum();
                        cells * CELL_BYTES + select(computed.as_deref())?
                    }
                    Source::Query(plan) => plan.bytes()?,
                };
                let returning = match plan.returning.as_ref().map(|returning| &returning.outputs) {
                    Some(Outputs::Query(plan)) => plan.bytes()?,
                    _ => 0,
                };
                let conflict = match &plan.conflict {
                    Conflict::Update { assignments, parameters, .. } => {
                        (assignments.len() + parameters.len() + 2) * CELL_BYTES * 8
                    }
                    Conflict::Fail | Conflict::Nothing => 0,
                };
                plan.defaults
                    .iter()
                    .try_fold(source + returning + conflict, |sum, (_, plan)| plan.bytes().map(|bytes| sum + bytes))?
            }
            Self::Spread(plan) => plan.bytes()?,
            Self::Update(plan) => plan.select.bytes()?,
            Self::Delete(plan) => plan.select.bytes()?,
            Self::WithChanges(plan) => {
                plan.steps().iter().try_fold(0, |sum, step| step.kind.bytes().map(|bytes| sum + bytes))?
            }
            Self::ShardChange(plan) => plan.bytes()?,
            Self::Explain { inner, .. } => inner.bytes,
            Self::Sharded(plan) => plan.bytes(),
            Self::Ddl(_) | Self::Copy(_) | Self::Session(_) | Self::Empty => 0,
        })
    }
}

impl Statement {
    /// Plans a parsed statement against a version of the catalog.
    ///
    /// # Errors
    /// Errors of planning, with the position of the name that is to blame, if one is.
    pub fn plan(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        parsed: &ParsedStatement,
        declared: &[u32],
    ) -> Result<Self> {
        let mut planned =
            Self::plan_inner(engine, catalog, parsed, declared).map_err(|error| place(error, &parsed.text))?;
        check_width(planned.columns.as_deref())?;
        planned.columns = planned.columns.map(|columns| object_columns::announced(columns, parsed));
        planned.bytes = STATEMENT_BYTES
            + 2 * planned.text.len()
            + PARAMETER_BYTES * planned.parameter_types.len()
            + planned.kind.bytes()?;
        Ok(planned)
    }

    /// Plans a statement for the engine, even if all its tables are on shards.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub(crate) fn plan_by_engine(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        parsed: &ParsedStatement,
        declared: &[u32],
    ) -> Result<Self> {
        let planned =
            Self::plan_local(engine, catalog, parsed, declared).map_err(|error| place(error, &parsed.text))?;
        check_width(planned.columns.as_deref())?;
        Ok(planned)
    }

    /// Bytes that it holds, as estimated.
    pub fn bytes(&self) -> usize {
        let told = if let Kind::Sharded(plan) = &self.kind { plan.described_bytes() } else { 0 };
        self.bytes + told
    }

    /// Plans a statement only if it is about one row by its key: light enough for a connection's own thread.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn plan_key(catalog: &Arc<CatalogState>, parsed: &ParsedStatement, declared: &[u32]) -> Result<Option<Self>> {
        match &parsed.node {
            // Each of its parts is planned by itself.
            node if with_changes::clause(node).is_some() => Ok(None),
            NodeEnum::SelectStmt(node) if !node.locking_clause.is_empty() => {
                let found =
                    locking::plan_key(catalog, &parsed.text, declared).map_err(|error| place(error, &parsed.text))?;
                let Some(plan) = found else { return Ok(None) };
                check_width(plan.columns.as_deref())?;
                Ok(Some(Self::of_key(catalog, &parsed.text, plan)))
            }
            NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) if grammar::may_lock(&parsed.text) => Ok(None),
            // Refused in words of our own.
            node if changes::is_of_cursor(node) => Ok(None),
            NodeEnum::SelectStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) => {
                let ast = select::parse(&parsed.text).map_err(|error| place(error, &parsed.text))?;
                let found = key_plan::recognise(catalog, &ast, declared).map_err(|error| place(error, &parsed.text))?;
                let Some(plan) = found else { return Ok(None) };
                check_width(plan.columns.as_deref())?;
                Ok(Some(Self::of_key(catalog, &parsed.text, plan)))
            }
            _ => Ok(None),
        }
    }

    /// Plans a statement only if it is about sharded tables and one shard can answer it alone: light enough for a connection's own
    /// thread.
    ///
    /// # Errors
    /// 0A000 for what neither shards nor the engine can do.
    pub fn plan_sharded(catalog: &Arc<CatalogState>, parsed: &ParsedStatement) -> Result<Option<Self>> {
        Ok(Self::plan_shared(catalog, parsed, None)?.map(|(planned, _)| planned))
    }

    /// The same for the first text of a shape, together with what tells whether other texts of the shape may use its plan; without that
    /// if none may.
    ///
    /// # Errors
    /// As [`Self::plan_sharded`].
    pub fn plan_shared(
        catalog: &Arc<CatalogState>,
        parsed: &ParsedStatement,
        shape: Option<&Shape<'_>>,
    ) -> Result<Option<(Self, Option<Lifting>)>> {
        if !catalog.has_sharded() {
            return Ok(None);
        }
        Ok(ShardedPlan::new(catalog, parsed)?.map(|plan| Self::of_shards(catalog, parsed, plan, shape)))
    }

    /// A statement for shards, together with what tells whether other texts of its shape may use its plan.
    fn of_shards(
        catalog: &CatalogState,
        parsed: &ParsedStatement,
        mut plan: ShardedPlan,
        shape: Option<&Shape<'_>>,
    ) -> (Self, Option<Lifting>) {
        let lifting = shape.and_then(|shape| plan.share(catalog, shape));
        let planned = Self {
            bytes: STATEMENT_BYTES + 2 * parsed.text.len() + plan.bytes(),
            text: parsed.text.clone(),
            kind: Kind::Sharded(Box::new(plan)),
            // Its shards know them.
            parameter_types: Vec::new(),
            columns: None,
            epoch: catalog.epoch(),
            zone: None,
            asked_by: None,
        };
        (planned, lifting)
    }

    fn of_key(catalog: &CatalogState, text: &str, plan: KeyPlan) -> Self {
        Self {
            text: text.to_owned(),
            parameter_types: plan.parameter_types.clone(),
            columns: plan.columns.clone(),
            bytes: STATEMENT_BYTES + 2 * text.len() + PARAMETER_BYTES * plan.parameter_types.len() + plan.bytes(),
            kind: Kind::Key(Box::new(plan)),
            epoch: catalog.epoch(),
            zone: None,
            asked_by: None,
        }
    }

    /// A statement for the engine. Its size in bytes is not computed yet.
    fn of_kind(
        engine: &Engine,
        catalog: &CatalogState,
        parsed: &ParsedStatement,
        kind: Kind,
        parameter_types: Vec<SqlType>,
        columns: Option<Arc<[Column]>>,
    ) -> Self {
        Self {
            text: parsed.text.clone(),
            kind,
            parameter_types,
            columns,
            epoch: catalog.epoch(),
            bytes: 0,
            zone: Some(engine.zone()),
            asked_by: catalog.asked_by(),
        }
    }

    fn plan_inner(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        parsed: &ParsedStatement,
        declared: &[u32],
    ) -> Result<Self> {
        if let Some(planned) = Self::plan_sharded(catalog, parsed)? {
            return Ok(planned);
        }
        Self::plan_local(engine, catalog, parsed, declared)
    }

    fn plan_local(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        parsed: &ParsedStatement,
        declared: &[u32],
    ) -> Result<Self> {
        let make = |kind: Kind, parameter_types: Vec<SqlType>, columns: Option<Arc<[Column]>>| {
            Self::of_kind(engine, catalog, parsed, kind, parameter_types, columns)
        };
        if let Some(with) = with_changes::clause(&parsed.node) {
            return with_changes::plan(engine, catalog, parsed, with, declared);
        }
        match &parsed.node {
            NodeEnum::SelectStmt(node) => queries::select(engine, catalog, parsed, node, declared),
            NodeEnum::InsertStmt(node) => changes::insert(engine, catalog, parsed, node, declared),
            NodeEnum::UpdateStmt(node) => changes::change(engine, catalog, parsed, node.relation.as_ref(), declared),
            NodeEnum::DeleteStmt(node) => changes::change(engine, catalog, parsed, node.relation.as_ref(), declared),
            NodeEnum::CreateStmt(node) if node.access_method == crate::sharded::ddl::ACCESS_METHOD => {
                let ddl = Ddl::CreateSharded(Box::new(node.clone()), parsed.text.clone());
                Ok(make(Kind::Ddl(ddl), vec![], None))
            }
            NodeEnum::CreateStmt(node) => Ok(make(Kind::Ddl(Ddl::Create(Box::new(node.clone()))), vec![], None)),
            NodeEnum::CreateForeignTableStmt(node) => {
                Ok(make(Kind::Ddl(Ddl::CreateForeign(Box::new(node.clone()))), vec![], None))
            }
            NodeEnum::CreateTableAsStmt(node) => {
                Ok(make(Kind::Ddl(queries::create_as(engine, catalog, node)?), vec![], None))
            }
            NodeEnum::IndexStmt(node) => Ok(make(Kind::Ddl(Ddl::CreateIndex(node.clone())), vec![], None)),
            NodeEnum::DropStmt(node) => Ok(make(Kind::Ddl(Ddl::Drop(node.clone())), vec![], None)),
            NodeEnum::AlterTableStmt(node) => Ok(make(Kind::Ddl(Ddl::Alter(node.clone())), vec![], None)),
            NodeEnum::RenameStmt(node) => Ok(make(Kind::Ddl(Ddl::Rename(node.clone())), vec![], None)),
            NodeEnum::CreateSeqStmt(_) | NodeEnum::AlterSeqStmt(_) => {
                Ok(make(Kind::Ddl(Ddl::Sequence(Box::new(parsed.node.clone()))), vec![], None))
            }
            NodeEnum::CommentStmt(node) => {
                let database = catalog.identity().database.clone();
                Ok(make(Kind::Ddl(Ddl::Comment { statement: node.clone(), database }), vec![], None))
            }
            NodeEnum::ReindexStmt(node) => {
                let (statement, database) = (Box::new(node.clone()), catalog.identity().database.clone());
                Ok(make(Kind::Ddl(Ddl::Reindex { statement, database }), vec![], None))
            }
            NodeEnum::CreateForeignServerStmt(_)
            | NodeEnum::AlterForeignServerStmt(_)
            | NodeEnum::CreateUserMappingStmt(_)
            | NodeEnum::AlterUserMappingStmt(_)
            | NodeEnum::DropUserMappingStmt(_) => {
                Ok(make(Kind::Ddl(Ddl::Server(Box::new(parsed.node.clone()))), vec![], None))
            }
            NodeEnum::VacuumStmt(node) if maintain::is_upkeep(catalog, node)? => {
                Ok(make(Kind::Ddl(Ddl::Upkeep(node.clone())), vec![], None))
            }
            NodeEnum::TruncateStmt(node) => Ok(make(Kind::Ddl(Ddl::Truncate(node.clone())), vec![], None)),
            NodeEnum::CopyStmt(node) => {
                let plan = CopyPlan::new(engine, catalog, node)?;
                Ok(make(Kind::Copy(Box::new(plan)), vec![], None))
            }
            NodeEnum::ExplainStmt(node) => queries::explain(engine, catalog, parsed, node, declared),
            NodeEnum::VariableShowStmt(node) if node.name == grammar::SHOWN_POOLS => {
                let view = grammar::only_one(grammar::parse("SELECT * FROM ashlar.pools ORDER BY server, pool")?)?;
                let view = view.ok_or_else(|| Error::internal("a view without a statement"))?;
                Self::plan_local(engine, catalog, &view, declared)
            }
            other => {
                if let NodeEnum::VacuumStmt(node) = other {
                    check_tables(catalog, &node.rels)?;
                }
                let command = commands::session_command(other, &parsed.text)?;
                let columns = match &command {
                    SessionCommand::Show(name) => Some(vec![Column::text(name)].into()),
                    SessionCommand::ShowAll => Some(["name", "setting", "description"].map(Column::text).into()),
                    _ => None,
                };
                let parameter_types = match &command {
                    SessionCommand::Declare { text, .. } if text.contains('$') => {
                        parameters_of(engine, catalog, text, declared)?
                    }
                    _ => vec![],
                };
                Ok(make(Kind::Session(command), parameter_types, columns))
            }
        }
    }
}

/// The types of the parameters of a cursor's query, as the engine runs it.
fn parameters_of(engine: &Engine, catalog: &Arc<CatalogState>, text: &str, declared: &[u32]) -> Result<Vec<SqlType>> {
    let parsed = grammar::only_one(grammar::parse(text)?)?;
    let parsed = parsed.ok_or_else(|| Error::internal("a cursor has a query"))?;
    Statement::plan_local(engine, catalog, &parsed, declared).map(|planned| planned.parameter_types)
}

/// PostgreSQL's bound on result columns; a message could not count more than 65,535.
const COLUMNS_MAX: usize = 1664;

fn check_width(columns: Option<&[Column]>) -> Result<()> {
    if columns.is_some_and(|columns| columns.len() > COLUMNS_MAX) {
        let message = format!("target lists can have at most {COLUMNS_MAX} entries");
        return Err(Error::new(ErrorCode::TooManyColumns, message));
    }
    Ok(())
}

/// The text of a statement inside another, from its tree.
pub(crate) fn statement_text(node: &NodeEnum) -> Result<String> {
    let statement = pg_query::Node { node: Some(node.clone()) };
    let parsed = protobuf::ParseResult {
        version: 0,
        stmts: vec![protobuf::RawStmt { stmt: Some(Box::new(statement)), stmt_location: 0, stmt_len: 0 }],
    };
    pg_query::deparse(&parsed, pg_query::DeparseOptions::default())
        .map_err(|error| Error::unsupported(format!("this statement is not supported here: {error}")))
}

/// 42P01 where one of the tables of VACUUM or ANALYZE is not there.
fn check_tables(catalog: &CatalogState, relations: &[pg_query::Node]) -> Result<()> {
    for relation in relations {
        let Some(NodeEnum::VacuumRelation(relation)) = &relation.node else { continue };
        let name = relation_name(relation.relation.as_ref())?;
        if catalog.table(&name).is_none() {
            return Err(ashlar_functions::error::undefined_table(&name));
        }
    }
    Ok(())
}

/// Adds the position of the name that an error is about.
fn place(error: Error, text: &str) -> Error {
    if error.fields().position.is_some() {
        return error;
    }
    let quoted = |message: &str| {
        let name = message.split('"').nth(1)?;
        Some(name.rsplit('.').next().unwrap_or(name).to_owned())
    };
    let name = match error.code() {
        ErrorCode::UndefinedTable | ErrorCode::AmbiguousColumn | ErrorCode::GroupingError => quoted(error.message()),
        ErrorCode::UndefinedColumn => quoted(error.message()).or_else(|| {
            let name = error.message().strip_prefix("column ")?.split(' ').next()?;
            Some(name.rsplit('.').next().unwrap_or(name).to_owned())
        }),
        ErrorCode::UndefinedFunction => {
            error.message().strip_prefix("function ").and_then(|rest| rest.split(['(', ' ']).next()).map(str::to_owned)
        }
        _ => None,
    };
    match name.and_then(|name| position_of_name(text, &name)) {
        Some(position) => error.at(position),
        None => error,
    }
}

/// A query of one value: the tree around an expression's.
pub(crate) fn selecting(node: &pg_query::Node) -> NodeEnum {
    let target = protobuf::ResTarget { val: Some(Box::new(node.clone())), ..Default::default() };
    NodeEnum::SelectStmt(Box::new(protobuf::SelectStmt {
        target_list: vec![pg_query::Node { node: Some(NodeEnum::ResTarget(Box::new(target))) }],
        limit_option: protobuf::LimitOption::Default.into(),
        op: protobuf::SetOperation::SetopNone.into(),
        ..Default::default()
    }))
}

/// An expression's text, from its tree.
pub(crate) fn expression_text(node: &pg_query::Node) -> Result<String> {
    let text = statement_text(&selecting(node))?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}

//! One SQL session: settings, the transaction block, prepared statements, portals.
//!
//! The PostgreSQL door drives it, message by message. It plans through `query`, runs key statements on the
//! connection's own thread and everything else on the query pool, and hands rows to the door's [`RowSink`].

mod block;
mod calls;
mod carried;
mod commands;
mod copy;
mod cursor;
mod ddl;
mod doing;
mod explain;
mod limit;
mod locks;
mod lost_digits;
mod notify;
mod parameters;
mod plans;
mod portal;
mod prepared;
mod read_only;
mod rows;
mod run;
mod settings;
mod sharded;
mod slow;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ashlar_base::value::text::TextStyle;
use ashlar_base::{Datum, Error, ErrorCode, Result, SqlType};
use ashlar_protocol::pg::{CommandTag, TransactionStatus, ValueFormat};
pub use ashlar_query::Column;
use ashlar_query::object_columns::announce_parameters;
use ashlar_query::statement::{Kind, SessionCommand};
use ashlar_query::transaction::Transaction;
use ashlar_query::{Engine, StatementResources, StatementTime, grammar};
use ashlar_query::{Identity, OpenCursor};
use ashlar_shard::snapshot::Moment;
use tokio::time::Instant;

use self::limit::in_time;
use self::parameters::{Charges, read_parameters};
use self::plans::Planned;
pub use self::plans::SimpleStatement;
use self::portal::{Portal, Portals, Source};
use self::settings::Settings;
use super::advisory::Holder;
use super::{Activity, CancelToken, Shared};

/// Prepared statements and portals that one session may hold.
const NAMED_MAX: usize = 10_000;

/// What came of executing.
#[derive(Debug)]
pub enum Executed {
    /// Done: the command tag.
    Complete(CommandTag),
    /// There was nothing to execute.
    Empty,
    /// The row limit was reached before the end.
    Suspended,
    /// The client must send the data of a COPY now.
    CopyIn {
        /// The binary form.
        binary: bool,
        /// Columns of the data.
        columns: usize,
    },
}

/// A message to the client in addition to the result.
#[derive(Debug)]
pub struct Notice {
    /// `NOTICE`, `WARNING`.
    pub severity: &'static str,
    /// Code and message.
    pub error: Error,
}

/// Where rows go. The door implements it.
pub trait RowSink {
    /// Before the first row of a statement.
    fn columns(&mut self, columns: &Arc<[Column]>);
    /// One row, to be encoded now; performs no I/O.
    fn row(&mut self, columns: &[Column], values: &mut dyn Iterator<Item = Datum<'_>>);
    /// Whole messages of a shard, which contain this many rows; performs no I/O.
    fn forward(&mut self, messages: &[u8], rows: u64);
    /// A part of a shard's row, with `left` bytes of it still to come before anything else; performs no I/O.
    fn forward_part(&mut self, part: &[u8], left: usize);
    /// A notice of a shard that must come before the rows that follow it; performs no I/O.
    fn notice(&mut self, notice: &Notice);
    /// The start of COPY TO STDOUT.
    fn copy_out_start(&mut self, binary: bool, columns: usize);
    /// One row of COPY TO STDOUT.
    fn copy_out_data(&mut self, bytes: &[u8]);
    /// The end of COPY TO STDOUT.
    fn copy_out_done(&mut self);
    /// Called when the change that the rows belong to is certain: a cancel request comes too late for it.
    fn settled(&mut self) {}
    /// Whether [`Self::ready`] would resolve at once and without an error: asked first, so that nothing is made to wait by.
    fn has_room(&self) -> bool {
        false
    }
    /// Resolves when the sink has room for more.
    fn ready(&mut self) -> impl Future<Output = Result<()>>;
}

/// The state of the transaction block, as the client knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Block {
    /// None: each statement, or each pipeline up to its Sync, is a transaction.
    #[default]
    None,
    /// Between BEGIN and COMMIT.
    Open,
    /// Between an error and the end of the block.
    Failed,
}

/// A prepared statement.
struct Prepared {
    source: Arc<Source>,
    /// The plan; `None` for an empty string.
    planned: Option<Arc<ashlar_query::Statement>>,
    /// The formats of the result's columns in the last Bind: the next one usually asks for the same.
    formats: Arc<[ValueFormat]>,
    /// Bytes of the name, the text, the types and the plan, as estimated.
    bytes: usize,
}

impl Prepared {
    /// The formats of the result columns, one for each.
    ///
    /// # Errors
    /// 08P01
    fn formats_for(&mut self, columns: usize, given: &[ValueFormat]) -> Result<Arc<[ValueFormat]>> {
        let last = &self.formats;
        let is_same = match given {
            [] => last.iter().all(|format| *format == ValueFormat::Text),
            [one] => last.iter().all(|format| format == one),
            many => **last == *many,
        };
        if !is_same || last.len() != columns {
            self.formats = expand_formats(given, columns)?;
        }
        Ok(Arc::clone(&self.formats))
    }
}

/// The columns of a result.
pub type Columns = Arc<[Column]>;

/// One session.
pub struct SqlSession {
    shared: Arc<Shared>,
    identity: Identity,
    settings: Settings,
    block: Block,
    transaction: Option<Transaction>,
    savepoints: Vec<block::Savepoint>,
    /// By name: each Bind asks for one. However alike the hashes of names are, there are at most [`NAMED_MAX`].
    prepared: HashMap<String, Prepared, foldhash::fast::RandomState>,
    /// The charge for the prepared statements that are small.
    small_prepared: prepared::SmallPrepared,
    portals: Portals,
    /// Portals made since the session began.
    portals_made: u64,
    copy: Option<copy::CopyIn>,
    /// The same for a COPY into shards.
    remote_copy: Option<sharded::copy::RemoteCopy>,
    /// What it listens to and sends on channels.
    mail: notify::Mail,
    /// The advisory locks that it holds.
    advisory: Holder,
    /// The route of the statement, if it is about sharded tables.
    route: Option<ashlar_shard::routes::RouteKind>,
    /// The servers that it was sent to, where somebody wants to know.
    asked: Vec<Arc<str>>,
    notices: Vec<Notice>,
    /// What others are told that it does.
    activity: Arc<Activity>,
    cancel: CancelToken,
    /// When the statement that has arrived must have ended.
    deadline: Option<Instant>,
    /// The transaction's connections to shards.
    remotes: Vec<sharded::Remote>,
    /// The moment as of which the transaction reads all shards, if it reads one.
    common: Option<Arc<Moment>>,
    /// Statements queued for one of them and not sent yet.
    ahead: sharded::Ahead,
    /// A buffer for the parameters of the next statement about sharded tables.
    spare: Option<sharded::RawParameters>,
    /// This thread's pool of connections to shards, from the first use on.
    pool: Option<Arc<ashlar_shard::pool::Pool>>,
    /// Connections that the session keeps between its transactions, if its settings say so.
    keep: Option<Arc<ashlar_shard::pool::Keep>>,
    /// The user's ways to shards, as they were looked up last.
    ways: ashlar_shard::fleet::Ways,
    /// The user, as whom shards are asked.
    role: Arc<str>,
    /// Whether the next statement is the only one of its transaction.
    alone: bool,
    /// Whether the next statement is one of several of a query string, which are one transaction.
    in_string: bool,
}

impl SqlSession {
    /// A session with the parameters of its startup message.
    ///
    /// # Errors
    /// 22023 for a parameter value that cannot be honoured; 42704 for a server that does not exist.
    pub fn new(shared: Arc<Shared>, parameters: &[(&str, &str)]) -> Result<Self> {
        let parameter = |wanted: &str| {
            parameters.iter().find(|(name, value)| *name == wanted && !value.is_empty()).map(|(_, value)| *value)
        };
        let Some(user) = parameter("user") else {
            return Err(Error::new(
                ErrorCode::InvalidAuthorization,
                "no PostgreSQL user name specified in startup packet",
            ));
        };
        let database = parameter("database").unwrap_or(user);
        let settings = Settings::new(&shared.config, parameters)?;
        sharded::check_named(&shared, settings.sharded_server.as_deref().unwrap_or_default())?;
        let (user, database) = (user.to_owned(), database.to_owned());
        let role = Arc::from(user.as_str());
        let advisory = Holder::new(0);
        let identity = Identity { user, database, sessions: shared.sessions.listed(), ..Identity::default() };
        Ok(Self {
            shared,
            identity,
            settings,
            block: Block::None,
            transaction: None,
            savepoints: Vec::new(),
            prepared: HashMap::default(),
            small_prepared: prepared::SmallPrepared::default(),
            portals: Portals::default(),
            portals_made: 0,
            copy: None,
            mail: notify::Mail::default(),
            advisory,
            route: None,
            asked: Vec::new(),
            remote_copy: None,
            notices: Vec::new(),
            activity: Arc::default(),
            cancel: CancelToken::new(),
            deadline: None,
            remotes: Vec::new(),
            common: None,
            ahead: sharded::Ahead::default(),
            spare: None,
            pool: None,
            keep: None,
            ways: ashlar_shard::fleet::Ways::default(),
            role,
            alone: false,
            in_string: false,
        })
    }

    /// Tells the session the number under which it is registered.
    pub fn set_pid(&mut self, pid: i32) {
        self.identity.pid = pid;
        self.advisory = Holder::new(pid);
    }

    /// The parameters that the client is told at the start.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        self.settings.reported()
    }

    /// The session's identity, with its present settings.
    fn identity(&self) -> Identity {
        let cursors = self.portals.cursors().map(|(name, portal)| OpenCursor {
            name: name.to_owned(),
            statement: portal.source.as_ref().map_or_else(Arc::default, |source| Arc::clone(&source.sql)),
            is_holdable: portal.hold != portal::Hold::Transaction,
        });
        let (settings, parameters) = (self.all_settings(), self.settings.own.clone());
        Identity { settings, parameters, cursors: cursors.collect(), ..self.identity.clone() }
    }

    /// How long the session may wait for its client's next statement, if it has a limit.
    pub fn patience(&self) -> Option<Duration> {
        let limit = match self.block {
            Block::None => self.settings.idle_session_timeout_ms,
            Block::Open | Block::Failed => self.settings.idle_in_transaction_timeout_ms,
        };
        (limit > 0).then(|| Duration::from_millis(limit))
    }

    /// 57P05 or 25P03: the error for a client that has been idle for too long.
    pub fn out_of_patience(&self) -> Error {
        let (code, what) = match self.block {
            Block::None => (ErrorCode::IdleSessionTimeout, "idle-session"),
            Block::Open | Block::Failed => (ErrorCode::IdleInTransactionSessionTimeout, "idle-in-transaction"),
        };
        Error::new(code, format!("terminating connection due to {what} timeout"))
    }

    /// Settings that have changed since the last call, among those that clients are told.
    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        self.settings.take_changes()
    }

    /// Messages to the client in addition to results.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.retain(|notice| self.settings.min_severity.tells(notice.severity));
        notices
    }

    /// The transaction block, as ReadyForQuery reports it.
    pub fn status(&self) -> TransactionStatus {
        match self.block {
            Block::None => TransactionStatus::Idle,
            Block::Open => TransactionStatus::InBlock,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// The text form of values in this session.
    pub fn style(&self) -> &TextStyle {
        self.settings.style()
    }

    /// The engine for this session's time zone and operators.
    fn engine(&self) -> Result<Arc<Engine>> {
        self.shared.engine.of_session(self.style().zone, self.settings.operators)
    }

    /// The resources of a statement that began at this time.
    fn resources(&self, engine: &Engine, time: StatementTime) -> StatementResources {
        let mut resources = engine.resources(time, self.settings.query_memory_max);
        self.set_barrier(&mut resources, self.isolation());
        resources
    }

    /// The same for a statement that writes to tables of this server or locks their rows: it holds the transaction, and the session does
    /// not.
    fn resources_to_write(&self, engine: &Engine, transaction: &Transaction) -> StatementResources {
        let mut resources = engine.resources(transaction.time, self.settings.query_memory_max);
        self.set_barrier(&mut resources, transaction.isolation);
        // Who writes goes by what is there, and not by what a replica has of it.
        resources.reads_replicas = false;
        resources
    }

    /// The token that cancels what the session is running.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Says whether the next statement is the only one of its transaction, because a Sync follows at once. Then a write to one row goes
    /// straight to its partition.
    pub fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
        self.in_string = false;
    }

    /// Whether a portal's statement runs differently if it is the only one of its transaction.
    pub fn may_stand_alone(&self, portal: &str) -> bool {
        let statement = self.portals.get(portal).and_then(|portal| portal.statement.as_ref());
        self.block == Block::None
            && statement.is_some_and(|statement| match &statement.kind {
                Kind::Insert(_)
                | Kind::Update(_)
                | Kind::Delete(_)
                | Kind::WithChanges(_)
                | Kind::Ddl(_)
                | Kind::Sharded(_) => true,
                Kind::Key(plan) => !plan.is_read(),
                _ => false,
            })
    }

    /// Runs one statement of a simple query.
    ///
    /// # Errors
    /// Errors of planning and running it.
    pub async fn run_simple<S: RowSink>(&mut self, statement: &Arc<SimpleStatement>, sink: &mut S) -> Result<Executed> {
        self.check_cancel()?;
        let (limit, watch) = (self.arrive(), self.watch());
        let mut ran = None;
        let executed = {
            // Pinned where it is: who waits for it would copy it.
            let work = pin!(async {
                let Planned { statement: planned, values, sent } = self.plan_simple(statement).await?;
                if watch.is_some() {
                    ran = Some((Arc::clone(&planned), sent.clone()));
                }
                if values.len() < planned.parameter_types.len() {
                    return Err(Error::new(ErrorCode::UndefinedParameter, "there is no parameter $1"));
                }
                let mut portal = Portal::new(planned, values, Vec::new().into());
                portal.sent = sent;
                pin!(self.run(&mut portal, 0, sink, true)).await
            });
            in_time(limit, work).await
        };
        let ran = ran.as_ref().map(|(planned, sent)| (&**planned, sent.as_ref().map(|sent| sent.text.as_str())));
        self.tell_slow(watch, ran, executed.is_ok());
        self.done(executed)
    }

    /// Ends a statement, unless the data of its COPY is still to come.
    fn done(&mut self, executed: Result<Executed>) -> Result<Executed> {
        if !matches!(executed, Ok(Executed::CopyIn { .. })) {
            self.deadline = None;
        }
        executed
    }

    /// Parse: plans a statement and keeps it under a name.
    ///
    /// # Errors
    /// 42601, 42P05, and errors of planning.
    pub async fn prepare(&mut self, name: &str, sql: &str, types: impl Iterator<Item = u32>) -> Result<()> {
        self.check_cancel()?;
        let limit = self.arrive();
        in_time(limit, self.prepare_now(name, sql, types)).await
    }

    async fn prepare_now(&mut self, name: &str, sql: &str, types: impl Iterator<Item = u32>) -> Result<()> {
        if name.is_empty() {
            self.prepared.remove("");
        } else if self.prepared.contains_key(name) {
            return Err(Error::new(
                ErrorCode::DuplicatePreparedStatement,
                format!("prepared statement \"{name}\" already exists"),
            ));
        } else if self.prepared.len() >= NAMED_MAX {
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, "too many prepared statements"));
        }
        let declared: Vec<u32> = types.collect();
        let planned = self.plan_prepared(sql, &declared).await?;
        // A plan that the cache has dropped lives on here.
        let of_plan = planned.as_ref().map_or(0, |planned| planned.bytes());
        let mut source = Source { sql: sql.into(), declared, held: None };
        let bytes = name.len() + source.bytes() + of_plan;
        source.held = self.pay_for_prepared(name, bytes)?.map(Arc::new);
        let (source, formats) = (Arc::new(source), Arc::default());
        self.prepared.insert(name.to_owned(), Prepared { source, planned, formats, bytes });
        Ok(())
    }

    fn prepared(&self, name: &str) -> Result<&Prepared> {
        self.prepared.get(name).ok_or_else(|| no_statement(name))
    }

    /// The types of a statement's parameters and its result columns.
    ///
    /// # Errors
    /// 26000
    pub fn describe_statement(&mut self, name: &str) -> Result<(Vec<u32>, Option<Columns>)> {
        let prepared = self.prepared(name)?;
        let Some(planned) = &prepared.planned else { return Ok((Vec::new(), None)) };
        if let Kind::Sharded(plan) = &planned.kind {
            let (types, columns) = plan.described().ok_or_else(|| Error::internal("a shard has not been asked"))?;
            return Ok((types.clone(), columns.clone()));
        }
        let mut types: Vec<u32> = planned.parameter_types.iter().map(|sql_type| sql_type.oid()).collect();
        announce_parameters(&prepared.source.sql, &planned.parameter_types, &mut types);
        // A declared type is told back as it was declared.
        for (known, oid) in types.iter_mut().zip(&prepared.source.declared) {
            if *oid != 0 && SqlType::from_oid(*oid).is_some() {
                *known = *oid;
            }
        }
        Ok((types, self.columns_of(planned)))
    }

    /// Result columns; those of FETCH are its cursor's.
    fn columns_of(&self, planned: &ashlar_query::Statement) -> Option<Arc<[Column]>> {
        match &planned.kind {
            Kind::Session(SessionCommand::Fetch { name, is_move: false, .. }) => self.portals.get(name)?.columns(),
            Kind::Session(SessionCommand::Execute { name, .. }) => {
                self.columns_of(self.prepared.get(name)?.planned.as_ref()?)
            }
            Kind::Sharded(plan) => plan.described()?.1.clone(),
            _ => planned.columns.clone(),
        }
    }

    /// Bind: a portal for a statement with values for its parameters.
    ///
    /// # Errors
    /// 26000, 42P03, 08P01 for a wrong number of values, 22P02 and 22P03 for values that cannot be read.
    pub fn bind<'a>(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: impl Iterator<Item = (ValueFormat, Option<&'a [u8]>)>,
        result_formats: &[ValueFormat],
    ) -> Result<()> {
        // Found once for all that is asked of it.
        let prepared = self.prepared.get_mut(statement).ok_or_else(|| no_statement(statement))?;
        if let Some(planned) = &prepared.planned
            && self.block == Block::Failed
            && !run::ends_failed_block(&planned.kind)
        {
            return Err(block::aborted());
        }
        if !portal.is_empty() && self.portals.contains(portal) {
            return Err(Error::new(ErrorCode::DuplicateCursor, format!("cursor \"{portal}\" already exists")));
        }
        if self.portals.len() >= NAMED_MAX {
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, "too many portals"));
        }
        let Some(planned) = &prepared.planned else {
            let empty = self.portals.empty();
            return self.insert_portal(portal, empty);
        };
        let mut charges = Charges::new(self.shared.engine.store(), portal);
        if matches!(planned.kind, Kind::Sharded(_)) {
            let mut bound = self.portals.empty();
            let prepared = (statement, prepared);
            sharded::bind(&mut bound, &mut self.spare, charges, prepared, parameters, result_formats)?;
            return self.insert_portal(portal, bound);
        }
        let (planned, source) = (Arc::clone(planned), Arc::clone(&prepared.source));
        let (values, given) = read_parameters(&planned.parameter_types, parameters, self.style(), &mut charges)?;
        let held = charges.finish()?;
        if given != planned.parameter_types.len() {
            return Err(Error::new(
                ErrorCode::ProtocolViolation,
                format!(
                    "bind message supplies {given} parameters, but prepared statement \"{statement}\" requires {}",
                    planned.parameter_types.len()
                ),
            ));
        }
        let columns = self.columns_of(&planned).map_or(0, |columns| columns.len());
        let formats = match self.prepared.get_mut(statement) {
            Some(prepared) => prepared.formats_for(columns, result_formats)?,
            None => expand_formats(result_formats, columns)?,
        };
        let mut bound = self.portals.empty();
        (bound.statement, bound.parameters, bound.formats) = (Some(planned), values, formats);
        (bound.source, bound.held) = (Some(source), held);
        self.insert_portal(portal, bound)
    }

    /// Inserts a portal, and replaces the one of the same name.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    fn insert_portal(&mut self, name: &str, mut portal: Box<Portal>) -> Result<()> {
        let bytes = portal.own_bytes(name);
        if bytes > 0 {
            let mut own = self.shared.engine.store().reservation();
            own.grow_exactly(bytes)?;
            portal.own = Some(own);
        }
        self.portals_made += 1;
        portal.number = self.portals_made;
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Result columns and formats of a portal.
    ///
    /// # Errors
    /// 34000
    pub fn describe_portal(&mut self, name: &str) -> Result<Option<(Columns, Arc<[ValueFormat]>)>> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        let Some(planned) = &portal.statement else { return Ok(None) };
        Ok(self.columns_of(planned).map(|columns| (columns, Arc::clone(&portal.formats))))
    }

    /// The formats of the result columns of a portal: text where it says nothing of one.
    ///
    /// # Errors
    /// 34000
    pub fn portal_formats(&self, name: &str) -> Result<Arc<[ValueFormat]>> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        Ok(Arc::clone(&portal.formats))
    }

    /// Whether there is a portal of this name. One that is ahead of its answer does not count until it is answered.
    pub fn has_portal(&self, name: &str) -> bool {
        self.portals.contains(name)
    }

    /// Whether a portal's statement would be planned again as it was.
    fn is_current(&self, portal: &Portal) -> bool {
        let Some(planned) = &portal.statement else { return true };
        let needs_catalog = !matches!(planned.kind, Kind::Session(_) | Kind::Ddl(_) | Kind::Empty);
        let is_outdated = matches!(&planned.kind, Kind::Sharded(plan) if plan.is_outdated());
        // What a statement was told of the session at Parse may be another thing now.
        !is_outdated
            && self.is_for_named(planned)
            && (!needs_catalog || planned.epoch == self.epoch())
            && self.is_in_zone(planned)
            && planned.asked_by.as_ref().is_none_or(|asker| *asker == self.identity())
    }

    /// Whether a statement was planned in the present time zone, if the zone matters.
    fn is_in_zone(&self, planned: &ashlar_query::Statement) -> bool {
        match planned.kind {
            Kind::Session(_) | Kind::Empty => true,
            _ => planned.zone.is_none_or(|zone| zone == self.style().zone),
        }
    }

    /// Plans a portal's statement again: the catalog, the time zone or a shard's table has changed since it was prepared.
    async fn refresh(&mut self, portal: &mut Portal) -> Result<()> {
        let Some(planned) = &portal.statement else { return Ok(()) };
        let in_zone = self.is_in_zone(planned);
        let Some(source) = portal.source.clone() else { return Ok(()) };
        if !in_zone && grammar::holds_local_time(&source.sql) {
            return Err(Error::unsupported(
                "this statement was prepared in another time zone, with a time of that zone",
            )
            .with_hint("Prepare it again, or write the offset with the time."));
        }
        let Some(mut again) = self.plan_prepared(&source.sql, &source.declared).await? else { return Ok(()) };
        let mut kept = Arc::clone(&source);
        if let (Some(told), _) = parameters_of(planned)
            && parameters_of(&again).0.is_some_and(|types| types != told)
        {
            // A column has another type by now. Parameters have those that the client was told of, as in PostgreSQL.
            let (sql, held) = (Arc::clone(&source.sql), source.held.clone());
            kept = Arc::new(Source { sql, declared: told.to_vec(), held });
            let Some(as_told) = self.plan_prepared(&kept.sql, &kept.declared).await? else { return Ok(()) };
            again = as_told;
        }
        if matches!(again.kind, Kind::Sharded(_)) != matches!(planned.kind, Kind::Sharded(_)) {
            return Err(Error::unsupported("cached plan must not change the home of its tables"));
        }
        let result = |planned: &ashlar_query::Statement| {
            let columns = self.columns_of(planned)?;
            Some(columns.iter().map(|column| (column.name.clone(), column.oid, column.typmod)).collect::<Vec<_>>())
        };
        if result(&again) != result(planned) || parameters_of(&again) != parameters_of(planned) {
            return Err(Error::unsupported("cached plan must not change result type"));
        }
        for prepared in self.prepared.values_mut().filter(|prepared| Arc::ptr_eq(&prepared.source, &source)) {
            prepared.planned = Some(Arc::clone(&again));
            prepared.source = Arc::clone(&kept);
        }
        let before = portal.statement_bytes();
        (portal.statement, portal.source) = (Some(again), Some(kept));
        portal.pay_for(portal.statement_bytes().saturating_sub(before))
    }

    /// Close of a statement; its portals stay.
    pub fn close_statement(&mut self, name: &str) {
        self.prepared.remove(name);
    }

    /// Close of a portal.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.close(name);
    }
}

/// The types of a statement's parameters: those that a shard has reported, for a statement about sharded tables, or those that were
/// planned.
fn parameters_of(planned: &ashlar_query::Statement) -> (Option<&[u32]>, &[SqlType]) {
    let told = match &planned.kind {
        Kind::Sharded(plan) => plan.described().map(|(types, _)| types.as_slice()),
        _ => None,
    };
    (told, planned.parameter_types.as_slice())
}

fn no_statement(name: &str) -> Error {
    let message = if name.is_empty() {
        "unnamed prepared statement does not exist".to_owned()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    Error::new(ErrorCode::InvalidStatementName, message)
}

/// 55000
fn cannot_run(name: &str) -> Error {
    Error::new(ErrorCode::ObjectNotInPrerequisiteState, format!("portal \"{name}\" cannot be run"))
}

fn no_portal(name: &str) -> Error {
    Error::new(ErrorCode::InvalidCursorName, format!("portal \"{name}\" does not exist"))
}

fn expand_formats(formats: &[ValueFormat], columns: usize) -> Result<Arc<[ValueFormat]>> {
    // Collected, and not made of a vector: the length is known, so that it is one allocation.
    let all = |format: ValueFormat| std::iter::repeat_n(format, columns).collect();
    match formats {
        [] => Ok(all(ValueFormat::Text)),
        [one] => Ok(all(*one)),
        many if many.len() == columns => Ok(many.into()),
        many => Err(Error::new(
            ErrorCode::ProtocolViolation,
            format!("bind message has {} result formats but query has {columns} columns", many.len()),
        )),
    }
}

//! Plans for statements: from the cache, or made now.
//!
//! Called for each statement of a simple query and for each Parse. Rows about one key are planned on this thread,
//! everything else beside the query pool.

use std::sync::Arc;

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, Result, Value};
use ashlar_query::grammar::{self, ParsedStatement};
use ashlar_query::lift::{self, Lifting, Shape};
use ashlar_query::plan_cache::Found;
use ashlar_query::statement::Kind;
use ashlar_shard::route::Sent;

use super::SqlSession;
use super::limit::in_time;

/// Statements longer than this are planned each time: such a text rarely comes twice, and its plan is large.
const CACHED_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Statements for which more types are declared are planned each time, too: a text of that length has fewer parameters.
const CACHED_TYPES_MAX: usize = CACHED_TEXT_BYTES_MAX / 4;

/// Statements longer than this are not looked at on the connection's own thread, whose stack is small.
const LIGHT_TEXT_BYTES_MAX: usize = 16 * 1024;

/// Separates the text from the rest of a cache key: no text contains it.
const BEHIND_TEXT: char = '\u{0}';

static PARSE: Name = Name::new("parse");
static PLAN: Name = Name::new("plan");

/// A statement of a simple query.
pub struct SimpleStatement(pub(super) Stage);

/// How far the planning of a statement of a simple query is.
pub(super) enum Stage {
    /// It has passed the grammar gate, and is planned when its turn comes. With the whole query string, if it is the only statement in
    /// it.
    Parsed(Arc<ParsedStatement>, Option<String>),
    /// The cache had a plan for texts of its shape.
    Planned(Planned),
}

/// A plan, and what it is executed with.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) statement: Arc<ashlar_query::Statement>,
    /// The values of the parameters that constants have become.
    pub(super) values: Vec<Value>,
    /// What one shard is sent instead of the plan's own text.
    pub(super) sent: Option<Arc<Sent>>,
}

impl Planned {
    fn new(statement: Arc<ashlar_query::Statement>, values: Vec<Value>) -> Self {
        Self { statement, values, sent: None }
    }
}

impl SqlSession {
    /// The statements of a simple query.
    ///
    /// # Errors
    /// 42601: one syntax error fails all. 57014
    pub async fn parse_simple(&mut self, sql: &str) -> Result<Vec<Arc<SimpleStatement>>> {
        self.portals.close("");
        self.prepared.remove("");
        if let Some(shape) = self.shape_of(sql)
            && let Some(found) = self.shared.engine.cache().lifted(&shape, self.epoch(), self.style())
        {
            (self.alone, self.in_string) = (true, false);
            self.note_string(sql, &[]);
            let Found { statement, values, sent } = found;
            let planned = Planned { statement, values, sent: sent.map(Arc::new) };
            return Ok(vec![Arc::new(SimpleStatement(Stage::Planned(planned)))]);
        }
        self.check_cancel()?;
        let limit = self.arrive();
        let parsed = in_time(limit, self.parse(sql)).await?;
        self.note_string(sql, &parsed);
        (self.alone, self.in_string) = (parsed.len() == 1, parsed.len() > 1);
        let whole = self.alone.then(|| sql.to_owned());
        let stages = parsed.into_iter().map(|parsed| Stage::Parsed(Arc::new(parsed), whole.clone()));
        Ok(stages.map(|stage| Arc::new(SimpleStatement(stage))).collect())
    }

    /// Parses a text: on this thread, or beside the pool if it is long.
    async fn parse(&self, sql: &str) -> Result<Vec<ParsedStatement>> {
        if sql.len() <= LIGHT_TEXT_BYTES_MAX {
            return grammar::parse(sql);
        }
        let text = sql.to_owned();
        scope(&PARSE, self.beside_pool(move || grammar::parse(&text))).await?
    }

    /// Does work that takes long and cannot be stopped, on a thread of its own. If the statement is cancelled meanwhile, it does not wait
    /// for the work.
    pub(super) async fn beside_pool<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(self.cancel.error()),
            done = self.shared.engine.beside_pool(work) => done,
        }
    }

    /// The plan of a statement of a simple query.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) async fn plan_simple(&mut self, statement: &SimpleStatement) -> Result<Planned> {
        match &statement.0 {
            Stage::Parsed(parsed, _) => self.check_block(parsed.ends_failed_block())?,
            Stage::Planned(..) => self.check_block(false)?,
        }
        let parsed = match &statement.0 {
            Stage::Planned(planned) if !self.is_for_engine(planned) => return Ok(planned.clone()),
            // What was found is of another text, which the engine must not be given.
            Stage::Planned(planned) => {
                let text = planned.sent.as_ref().map_or("", |sent| sent.text.as_str());
                let parsed = grammar::only_one(Box::pin(self.parse(text)).await?)?;
                Arc::new(parsed.ok_or_else(|| Error::internal("a text without a statement was planned"))?)
            }
            Stage::Parsed(parsed, sql) => {
                let shape = sql.as_deref().filter(|_| parsed.is_plan_kept()).and_then(|sql| self.shape_of(sql));
                if let Some(shape) = shape {
                    return self.plan_shape(shape.sql, &shape, parsed).await;
                }
                Arc::clone(parsed)
            }
        };
        Ok(Planned::new(self.plan_now(&parsed, &[]).await?, Vec::new()))
    }

    /// Whether the engine has to read what was planned for one shard.
    fn is_for_engine(&self, planned: &Planned) -> bool {
        match (&planned.statement.kind, &planned.sent) {
            (Kind::Sharded(plan), Some(sent)) => self.is_read_elsewhere(plan, &sent.server),
            _ => false,
        }
    }

    /// Plans a text for all texts of its shape if that means the same, and for itself otherwise.
    async fn plan_shape(&mut self, sql: &str, shape: &Shape<'_>, parsed: &Arc<ParsedStatement>) -> Result<Planned> {
        let of_shards = match &self.settings.sharded_server {
            Some(server) => ashlar_query::Statement::plan_named(&self.catalog(), parsed, server, Some(shape))?,
            None => ashlar_query::Statement::plan_shared(&self.catalog(), parsed, Some(shape))?,
        };
        // A shard is sent the text as it is: nothing becomes a parameter, and others of the shape need not be looked at any more.
        if let Some((planned, lifting)) = of_shards {
            let planned = Arc::new(planned);
            if let Some(lifting) = lifting {
                self.keep(&shape.key, lifting, &planned);
            }
            return Ok(Planned::new(planned, Vec::new()));
        }
        let engine = Arc::clone(&self.shared.engine);
        if !engine.cache().is_fixed(shape, self.epoch(), self.style().zone)
            && let Some(lifted) = lift::lift(sql, shape, parsed)
            && let Ok(planned) = self.plan_now(&Arc::new(lifted.parsed.clone()), &lifted.declared).await
            && lifted.is_faithful(&planned)
            && let Some(values) = lifted.lifting.values(&shape.constants, &planned.parameter_types, self.style())
        {
            self.keep(&shape.key, lifted.lifting, &planned);
            return Ok(Planned::new(planned, values));
        }
        let planned = self.plan_now(parsed, &[]).await?;
        self.keep(&shape.key, Lifting::none(shape), &planned);
        Ok(Planned::new(planned, Vec::new()))
    }

    /// The plan of a statement that comes with parameters: Parse, PREPARE, DECLARE. `None` for an empty one.
    ///
    /// # Errors
    /// 42601, 25P02 in a failed block, and errors of planning.
    pub(super) async fn plan_prepared(
        &mut self,
        sql: &str,
        declared: &[u32],
    ) -> Result<Option<Arc<ashlar_query::Statement>>> {
        let is_cached = sql.len() <= CACHED_TEXT_BYTES_MAX && declared.len() <= CACHED_TYPES_MAX;
        let key = is_cached.then(|| cache_key(sql, declared, self.settings.sharded_server.as_deref()));
        if let Some(key) = &key
            && let Some(planned) = self.shared.engine.cache().prepared(key, self.epoch(), self.style().zone)
        {
            self.check_block(false)?;
            self.describe_planned(&planned, declared).await?;
            return Ok(Some(planned));
        }
        let Some(parsed) = grammar::only_one(self.parse(sql).await?)?.map(Arc::new) else { return Ok(None) };
        self.check_block(parsed.ends_failed_block())?;
        let planned = self.plan_now(&parsed, declared).await?;
        self.describe_planned(&planned, declared).await?;
        if let Some(key) = key.filter(|_| parsed.is_plan_kept()) {
            self.keep(&key, Lifting::default(), &planned);
        }
        Ok(Some(planned))
    }

    /// Asks a shard for the parameters and columns of a statement about sharded tables.
    async fn describe_planned(&mut self, planned: &ashlar_query::Statement, declared: &[u32]) -> Result<()> {
        match &planned.kind {
            Kind::Sharded(plan) => Box::pin(self.describe_sharded(plan, declared)).await,
            _ => Ok(()),
        }
    }

    /// Caches a plan, unless it was made against changes that a transaction has not committed yet.
    fn keep(&self, key: &str, lifting: Lifting, planned: &Arc<ashlar_query::Statement>) {
        let engine = &self.shared.engine;
        // What tells this session's user must not be found by another session.
        if planned.epoch == engine.catalog().epoch() && planned.asked_by.is_none() {
            engine.cache().put(key, lifting, Arc::clone(planned));
        }
    }

    /// Plans a statement against the version of the catalog that the session sees.
    async fn plan_now(
        &mut self,
        parsed: &Arc<ParsedStatement>,
        declared: &[u32],
    ) -> Result<Arc<ashlar_query::Statement>> {
        if let Some(server) = self.settings.sharded_server.clone()
            && let Some(planned) = Box::pin(self.plan_for(server, parsed)).await?
        {
            return Ok(planned);
        }
        let engine = self.engine()?;
        let catalog = self.catalog();
        if parsed.text.len() <= LIGHT_TEXT_BYTES_MAX {
            // Before the engine's own grammar looks at it: what a shard answers by itself need not be in that.
            if let Some(planned) = ashlar_query::Statement::plan_sharded(&catalog, parsed)? {
                return Ok(Arc::new(planned));
            }
            if let Some(planned) = ashlar_query::Statement::plan_key(&catalog, parsed, declared)? {
                return Ok(Arc::new(planned));
            }
        }
        let catalog = catalog.seen_by(self.identity());
        // The threads beside the pool run behind all doors; a COMMIT must not queue there.
        if parsed.is_command() {
            return Ok(Arc::new(ashlar_query::Statement::plan(&engine, &catalog, parsed, declared)?));
        }
        let (parsed, declared) = (Arc::clone(parsed), declared.to_vec());
        let plan = move || ashlar_query::Statement::plan(&engine, &catalog, &parsed, &declared);
        Ok(Arc::new(scope(&PLAN, self.beside_pool(plan)).await??))
    }

    /// The plan of a statement for the server that the session names; `None` for a command of the session itself.
    async fn plan_for(
        &self,
        server: Arc<str>,
        parsed: &Arc<ParsedStatement>,
    ) -> Result<Option<Arc<ashlar_query::Statement>>> {
        let catalog = self.catalog();
        let planned = if parsed.text.len() <= LIGHT_TEXT_BYTES_MAX {
            ashlar_query::Statement::plan_named(&catalog, parsed, &server, None)?
        } else {
            let parsed = Arc::clone(parsed);
            let plan = move || ashlar_query::Statement::plan_named(&catalog, &parsed, &server, None);
            scope(&PLAN, self.beside_pool(plan)).await??
        };
        Ok(planned.map(|(planned, _)| Arc::new(planned)))
    }

    /// The shape under which a text may be in the cache. It includes the server, if the session names one.
    fn shape_of<'s>(&self, sql: &'s str) -> Option<Shape<'s>> {
        if sql.len() > CACHED_TEXT_BYTES_MAX {
            return None;
        }
        let mut shape = lift::shape(sql)?;
        if let Some(server) = &self.settings.sharded_server {
            // Behind what no key of a statement with parameters has.
            shape.key.extend([BEHIND_TEXT, '\u{1}']);
            shape.key.push_str(server);
        }
        Some(shape)
    }
}

/// The cache key of a statement with parameters: its text, their declared types, and the server that its session names.
fn cache_key(text: &str, declared: &[u32], server: Option<&str>) -> String {
    use std::fmt::Write;
    let mut key = format!("{text}{BEHIND_TEXT}");
    for oid in declared {
        // Writing to a String cannot fail.
        let _ = write!(key, " {oid}");
    }
    if let Some(server) = server {
        key.push(BEHIND_TEXT);
        key.push_str(server);
    }
    key
}

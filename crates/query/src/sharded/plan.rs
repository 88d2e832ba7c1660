//! Plans of statements about sharded tables: everything that does not depend on the values of parameters.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use ashlar_shard::backend::{Described, DescribedColumn};
use ashlar_shard::route::{self, Decision, Merge, Request, Route, Sent, Shared};
use ashlar_shard::routes::{Counters, RouteKind, Routes};
use ashlar_shard::rules::ShardId;
use pg_query::NodeEnum;

use super::Names;
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::engine::Engine;
use crate::grammar::ParsedStatement;
use crate::lift::{self, Lifting};
use crate::statement::Statement;

/// A shard's description of a statement: the types of its parameters, and its result columns, if it has any.
type Shape = (Vec<u32>, Option<Arc<[Column]>>);

/// A statement about sharded tables, with its route.
pub struct ShardedPlan {
    /// Which shards it needs, depending on the values of its parameters.
    pub route: Route,
    /// What one of its shards says that it looks like, as clients are told it and as it came; asked for once.
    described: OnceLock<(Shape, Arc<Described>)>,
    /// Set when a shard turns out to describe the statement differently: the next session that plans it asks again.
    is_outdated: AtomicBool,
    /// The same statement as the engine runs it, where more than one shard has to be asked: made when that is so, for parameters of
    /// these types.
    by_engine: OnceLock<(Box<[u32]>, Arc<Statement>)>,
    /// A shard's description of the rows that are merged, with the columns that the client does not see.
    gathered: OnceLock<Arc<Described>>,
    /// The costs so far, by kind of route.
    counters: [OnceLock<Arc<Counters>>; RouteKind::ALL.len()],
    /// How other texts of the same shape are routed without being parsed, if they can be.
    shared: Option<Box<Shared>>,
    parsed: ParsedStatement,
}

impl ShardedPlan {
    /// The plan of a statement that a shard can answer by itself, if its parameters say so; `None`: the engine plans it.
    ///
    /// # Errors
    /// 0A000 if neither the shards nor the engine can run the statement.
    pub(crate) fn new(catalog: &CatalogState, parsed: &ParsedStatement) -> Result<Option<Self>> {
        if !matches!(
            parsed.node,
            NodeEnum::SelectStmt(_) | NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_)
        ) {
            return Ok(None);
        }
        let source = route::Source { text: &parsed.text, offset: parsed.offset, node: &parsed.node };
        let route = match route::route(&source, &Names(catalog)) {
            Ok(Some(route)) => route,
            Ok(None) => return Ok(None),
            Err(error) if is_computed_here(parsed, &error) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Nobody could say what it looks like, and whatever its parameters are no shard has all that it reads.
        if route.why_no_sample().is_some() {
            if is_change(parsed) && changes_in_with(&parsed.node) {
                return Err(Error::unsupported(
                    "WITH that changes rows of tables on different servers is not supported",
                )
                .with_hint(route::ONE_BY_ONE));
            }
            return Ok(None);
        }
        // Without a parameter nothing is left to be known.
        if !parsed.text.contains('$') && !route.is_write() {
            let decision = route.decide(&Request::default())?;
            if !is_one_shard(&decision) && !is_gathered(&decision) {
                return Ok(None);
            }
        }
        // A shard need not know the tables that such a statement reads: it is not asked what it looks like.
        if !parsed.text.contains('$')
            && route.writes_found()
            && let Err(error) = route.decide(&Request::default())
            && is_computed_here(parsed, &error)
        {
            return Ok(None);
        }
        Ok(Some(Self::of(route, parsed)))
    }

    /// The plan of a statement for this server, whatever it is about; `None` for what is neither a query nor an INSERT, UPDATE or DELETE.
    pub(crate) fn of_server(parsed: &ParsedStatement, server: &Arc<str>) -> Option<Self> {
        let source = route::Source { text: &parsed.text, offset: parsed.offset, node: &parsed.node };
        Route::of_server(&source, server).map(|route| Self::of(route, parsed))
    }

    fn of(route: Route, parsed: &ParsedStatement) -> Self {
        let (described, by_engine, gathered) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let counters = [const { OnceLock::new() }; RouteKind::ALL.len()];
        let (is_outdated, shared, parsed) = (AtomicBool::new(false), None, parsed.clone());
        Self { route, described, is_outdated, by_engine, gathered, counters, shared, parsed }
    }

    /// Lets other texts of its shape be sent to their shards without being parsed. `None` if they have to be parsed.
    pub(crate) fn share(&mut self, catalog: &CatalogState, shape: &lift::Shape<'_>) -> Option<Lifting> {
        let source = route::Source { text: &self.parsed.text, offset: self.parsed.offset, node: &self.parsed.node };
        let places: Vec<Range<usize>> = (0..shape.constants.len()).filter_map(|number| shape.place(number)).collect();
        let (shared, uses) = self.route.share(&source, shape.sql, &places, &Names(catalog))?;
        let lifting = Lifting::of_shards(shape, &uses)?;
        self.shared = Some(Box::new(shared));
        Some(lifting)
    }

    /// The one shard that runs another text of the same shape. `None` if that text has to be parsed.
    pub(crate) fn shard_of(&self, shape: &lift::Shape<'_>) -> Option<ShardId> {
        self.shared.as_ref()?.shard(shape.sql, &|number| shape.place(number))
    }

    /// The text that this shard is sent.
    pub(crate) fn sent(&self, shape: &lift::Shape<'_>, shard: ShardId) -> Option<Sent> {
        self.shared.as_ref()?.sent(shape.sql, &|number| shape.place(number), shard)
    }

    /// Whether the engine computes the rows of this change, and divides them, where shards have no way to.
    pub fn is_computed_here(&self, why: &Error) -> bool {
        is_computed_here(&self.parsed, why)
    }

    /// The kind of its route if one server answers.
    pub fn kind_of_one(&self) -> RouteKind {
        if self.route.named().is_some() { RouteKind::Named } else { RouteKind::OneShard }
    }

    /// The counters of its costs by this kind of route: those of its tables, or of the server that the session has named.
    pub fn counters(&self, routes: &Routes, kind: RouteKind) -> &Arc<Counters> {
        self.counters[kind as usize].get_or_init(|| {
            if let Some(server) = self.route.named() {
                return routes.of(kind, server);
            }
            let mut tables: Vec<&str> = self.route.tables().iter().map(|table| &*table.name).collect();
            tables.sort_unstable();
            tables.dedup();
            routes.of(kind, &tables.join(","))
        })
    }

    /// The same counters, if they have been looked up.
    pub fn known_counters(&self, kind: RouteKind) -> Option<&Arc<Counters>> {
        self.counters[kind as usize].get()
    }

    /// The statement's own text.
    pub fn text(&self) -> &str {
        &self.parsed.text
    }

    /// The description of the rows that are merged, once a shard has given it.
    pub fn gathered(&self) -> Option<&Arc<Described>> {
        self.gathered.get()
    }

    /// Keeps a shard's description of the rows that are merged.
    pub fn describe_gathered(&self, described: &Arc<Described>) {
        let _ = self.gathered.set(Arc::clone(described));
    }

    /// The same statement as the engine runs it, with parameters of these types.
    ///
    /// # Errors
    /// Errors of planning.
    pub fn by_engine(&self, engine: &Engine, catalog: &Arc<CatalogState>, types: &[u32]) -> Result<Arc<Statement>> {
        // What was planned in another time zone may mean other times, and with other types of parameters, other operators.
        if let Some((declared, planned)) = self.by_engine.get()
            && **declared == *types
            && planned.zone.is_none_or(|zone| zone == engine.zone())
        {
            return Ok(Arc::clone(planned));
        }
        let planned = Arc::new(Statement::plan_by_engine(engine, catalog, &self.parsed, types)?);
        // What tells of its session is for that session.
        if planned.asked_by.is_none() {
            let _ = self.by_engine.set((types.into(), Arc::clone(&planned)));
        }
        Ok(planned)
    }

    /// The types of its parameters, and its columns, once a shard has described them.
    pub fn described(&self) -> Option<&Shape> {
        self.described.get().map(|(shape, _)| shape)
    }

    /// The same as every shard has to see it.
    pub fn expected(&self) -> Option<&Arc<Described>> {
        self.described.get().map(|(_, described)| described)
    }

    /// Keeps a shard's description.
    pub fn describe(&self, described: Described) {
        let column = |column: &DescribedColumn| Column {
            // Where it has none of ours nothing but its bytes is passed on.
            sql_type: SqlType::from_oid(column.oid).unwrap_or(SqlType::Scalar(ScalarType::Text)),
            name: column.name.clone(),
            oid: column.oid,
            typlen: column.typlen,
            typmod: column.typmod,
            table_oid: 0,
            column_number: 0,
        };
        let columns = described.columns.as_ref().map(|columns| columns.iter().map(column).collect());
        let shape: Shape = (described.parameters.clone(), columns);
        let _ = self.described.set((shape, Arc::new(described)));
    }

    /// Notes that a shard describes the statement differently.
    pub fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
    }

    /// Whether one does, as far as is known: it is of no use for who has not been told what it looks like.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }

    /// Bytes of what a shard says that it looks like: as clients are told it, and as it came. It is known later than the rest.
    pub(crate) fn described_bytes(&self) -> usize {
        let Some((types, columns)) = self.described() else { return 0 };
        let columns = columns.as_deref().unwrap_or_default();
        let names: usize = columns.iter().map(|column| column.name.len()).sum();
        2 * (size_of_val(types.as_slice()) + names)
            + columns.len() * (size_of::<Column>() + size_of::<DescribedColumn>())
    }

    /// The estimated size of the plan in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.route.bytes() + 4 * self.parsed.text.len() + self.shared.as_ref().map_or(0, |shared| shared.bytes())
    }
}

/// Why the engine runs a statement about sharded tables that has no plan for shards, in lines for EXPLAIN; none where it names no such table.
pub(crate) fn why_by_engine(catalog: &CatalogState, parsed: &ParsedStatement) -> Vec<String> {
    let source = route::Source { text: &parsed.text, offset: parsed.offset, node: &parsed.node };
    // What the engine does for a change is told above this.
    let line = |reason: &str| {
        let head = if is_change(parsed) { "Because:" } else { "Route: engine, because" };
        format!("{head} {reason}")
    };
    let route = match route::route(&source, &Names(catalog)) {
        Ok(Some(route)) => route,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![line(error.message())],
    };
    let first = match route.why_no_sample() {
        Some(reason) => line(reason),
        None => match route.decide(&Request::default()) {
            Ok(Decision::Engine { reason }) => line(&reason),
            Ok(Decision::Forward(_)) => line("a server would have to be asked more than once"),
            Err(error) => line(error.message()),
        },
    };
    std::iter::once(first).chain(route.explain_conditions()).collect()
}

/// Whether the engine computes the rows of a change that the router refuses.
fn is_computed_here(parsed: &ParsedStatement, why: &Error) -> bool {
    is_change(parsed) && why.code() == ErrorCode::FeatureNotSupported && !changes_in_with(&parsed.node)
}

/// Whether WITH changes rows, which the engine never does.
fn changes_in_with(node: &NodeEnum) -> bool {
    let with = match node {
        NodeEnum::InsertStmt(insert) => &insert.with_clause,
        NodeEnum::UpdateStmt(update) => &update.with_clause,
        NodeEnum::DeleteStmt(delete) => &delete.with_clause,
        _ => return false,
    };
    with.iter().flat_map(|with| &with.ctes).any(|cte| {
        let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { return false };
        let query = cte.ctequery.as_ref().and_then(|query| query.node.as_ref());
        !matches!(query, Some(NodeEnum::SelectStmt(_)))
    })
}

fn is_change(parsed: &ParsedStatement) -> bool {
    matches!(parsed.node, NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_))
}

/// Whether the answer of one shard is the answer to the statement.
pub fn is_one_shard(decision: &Decision<'_>) -> bool {
    matches!(decision, Decision::Forward(forward) if forward.statements.len() == 1 && matches!(forward.merge, Merge::Pass))
}

/// Whether several shards answer, and their rows become the statement's by putting them together: each server's from one connection where
/// they are sorted.
pub fn is_gathered(decision: &Decision<'_>) -> bool {
    let Decision::Forward(forward) = decision else { return false };
    match &forward.merge {
        Merge::Concat => true,
        Merge::Rows(_) => forward.is_joinable(),
        Merge::Pass | Merge::Count | Merge::Identical | Merge::Interleave(_) => false,
    }
}

//! The locking clause: its strength and policy, the tables it refers to, and the queries in which PostgreSQL refuses it.
//!
//! Called by the planner of queries that lock. The refusals have PostgreSQL's words.

use std::ops::ControlFlow;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk;
use ashlar_store::{Region, Strength};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LockClause, LockType, NonBlock, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Visitor,
};
use pg_query::NodeEnum;
use pg_query::protobuf::{LockClauseStrength, LockWaitPolicy, SelectStmt};

use crate::catalog::{CatalogState, Table};
use crate::key_plan::single;
use crate::select::joins::nullable_sides;
use crate::select::names::folded;
use crate::select::{KEY_SHARE_MARK, NO_KEY_UPDATE_MARK};
use crate::transaction::Policy;

/// One clause of a query.
pub(super) struct Clause {
    pub(super) strength: Strength,
    policy: Policy,
    /// OF; empty: all tables.
    of: Vec<String>,
}

/// A table whose rows are to be locked.
pub(super) struct Found {
    pub(super) region: Arc<Region>,
    /// The name by which its columns are meant.
    pub(super) alias: String,
    pub(super) strength: Strength,
    pub(super) policy: Policy,
}

/// The clauses of a query, from PostgreSQL's tree.
pub(super) fn of_tree(node: &SelectStmt) -> Result<Vec<Clause>> {
    let mut clauses = Vec::new();
    for node in &node.locking_clause {
        let Some(NodeEnum::LockingClause(clause)) = &node.node else { continue };
        let strength = match LockClauseStrength::try_from(clause.strength) {
            Ok(LockClauseStrength::LcsForkeyshare) => Strength::KeyShare,
            Ok(LockClauseStrength::LcsForshare) => Strength::Share,
            Ok(LockClauseStrength::LcsFornokeyupdate) => Strength::NoKeyUpdate,
            _ => Strength::Update,
        };
        let policy = match LockWaitPolicy::try_from(clause.wait_policy) {
            Ok(LockWaitPolicy::LockWaitSkip) => Policy::Skip,
            Ok(LockWaitPolicy::LockWaitError) => Policy::Fail,
            _ => Policy::Wait,
        };
        let mut of = Vec::new();
        for relation in &clause.locked_rels {
            let Some(NodeEnum::RangeVar(relation)) = &relation.node else { continue };
            if !relation.schemaname.is_empty() || !relation.catalogname.is_empty() {
                let message = format!("{} must specify unqualified relation names", strength.clause());
                return Err(Error::new(ErrorCode::SyntaxError, message));
            }
            of.push(relation.relname.clone());
        }
        clauses.push(Clause { strength, policy, of });
    }
    Ok(clauses)
}

/// The clauses of a subquery, from DataFusion's tree, which knows two of the four: of the others the spelling is a name in OF.
pub(super) fn of_query(locks: &[LockClause]) -> Result<Vec<Clause>> {
    let clause = |lock: &LockClause| {
        let parts = lock.of.iter().flat_map(|name| &name.0).filter_map(|part| part.as_ident());
        let mut of: Vec<String> = parts.map(folded).collect();
        let marked = match of.first().map(String::as_str) {
            Some(NO_KEY_UPDATE_MARK) => Some(Strength::NoKeyUpdate),
            Some(KEY_SHARE_MARK) => Some(Strength::KeyShare),
            _ => None,
        };
        if marked.is_some() {
            of.remove(0);
        }
        let strength = marked.unwrap_or(match lock.lock_type {
            LockType::Update => Strength::Update,
            LockType::Share => Strength::Share,
        });
        let policy = match lock.nonblock {
            None => Policy::Wait,
            Some(NonBlock::SkipLocked) => Policy::Skip,
            Some(NonBlock::Nowait) => Policy::Fail,
        };
        if of.len() > 1 {
            let message = format!("{} must specify unqualified relation names", strength.clause());
            return Err(Error::new(ErrorCode::SyntaxError, message));
        }
        Ok(Clause { strength, policy, of })
    };
    locks.iter().map(clause).collect()
}

/// 0A000 where a row of the result is no row of a table.
pub(super) fn check(state: &SessionState, query: &Query, clause: &str) -> Result<()> {
    let refused = |what: &str| Err(Error::unsupported(format!("{clause} is not allowed with {what}")));
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return refused("UNION/INTERSECT/EXCEPT"),
        SetExpr::Values(_) => return Err(Error::unsupported(format!("{clause} cannot be applied to VALUES"))),
        _ => return Err(Error::unsupported(format!("{clause} of this form of query is not supported"))),
    };
    if select.distinct.is_some() {
        return refused("DISTINCT clause");
    }
    match &select.group_by {
        GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty() => {}
        _ => return refused("GROUP BY clause"),
    }
    if select.having.is_some() {
        return refused("HAVING clause");
    }
    let mut functions = Functions { state, depth: 0, aggregates: false, windows: false };
    let _ = walk::visit(query, &mut functions);
    if functions.aggregates {
        return refused("aggregate functions");
    }
    if functions.windows {
        return refused("window functions");
    }
    if select.projection.iter().any(returns_a_set) {
        return refused("set-returning functions in the target list");
    }
    Ok(())
}

/// Functions of a query itself that make rows which are no rows of a table.
struct Functions<'a> {
    state: &'a SessionState,
    /// Queries around.
    depth: usize,
    aggregates: bool,
    windows: bool,
}

impl Visitor for Functions<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let (1, Expr::Function(function)) = (self.depth, expr) {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
            let is_window = function.over.is_some();
            self.windows |= is_window;
            self.aggregates |= !is_window && self.state.aggregate_functions().contains_key(&name);
        }
        ControlFlow::Continue(())
    }
}

/// Whether an item of the select list gives several rows for one.
fn returns_a_set(item: &SelectItem) -> bool {
    const SETS: [&str; 10] = [
        "unnest",
        "generate_series",
        "generate_subscripts",
        "json_array_elements",
        "jsonb_array_elements",
        "json_array_elements_text",
        "jsonb_array_elements_text",
        "regexp_matches",
        "regexp_split_to_table",
        "string_to_table",
    ];
    let (SelectItem::UnnamedExpr(Expr::Function(function))
    | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. }) = item
    else {
        return false;
    };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
    SETS.contains(&name.as_str())
}

/// Something in FROM.
struct Item {
    name: String,
    kind: Kind,
    /// An outer join may put NULLs in its place.
    is_nullable: bool,
}

enum Kind {
    /// A table in memory; whether FROM gives other names to its columns.
    Grid(Arc<Region>, bool),
    /// A query, whose tables would be locked.
    Query,
    /// What has no rows to lock, by PostgreSQL's name for it.
    Rowless(&'static str),
    /// Rows that cannot be locked here.
    Foreign,
}

/// The tables that the clauses of a query mean.
///
/// # Errors
/// 42P01 for a name that is not in FROM, 0A000 for what cannot be locked.
pub(super) fn tables(catalog: &CatalogState, query: &Query, clauses: &[Clause]) -> Result<Vec<Found>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(Vec::new()) };
    let ctes = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name)).collect();
    let mut sources = Sources { catalog, ctes, items: Vec::new() };
    sources.select(select);
    let mut found: Vec<(usize, Found)> = Vec::new();
    for clause in clauses {
        let what = clause.strength.clause();
        let mut meant = Vec::new();
        for name in &clause.of {
            let Some(place) = sources.items.iter().position(|item| item.name == *name) else {
                let message = format!("relation \"{name}\" in {what} clause not found in FROM clause");
                return Err(Error::new(ErrorCode::UndefinedTable, message));
            };
            meant.push(place);
        }
        if clause.of.is_empty() {
            meant.extend(0..sources.items.len());
        }
        for place in meant {
            let Item { name, kind, is_nullable } = &sources.items[place];
            let (region, has_names) = match kind {
                Kind::Grid(region, has_names) => (region, *has_names),
                // Without OF what has no rows is passed over.
                Kind::Rowless(_) if clause.of.is_empty() => continue,
                Kind::Rowless(kind) => return Err(Error::unsupported(format!("{what} cannot be applied to {kind}"))),
                Kind::Query => {
                    return Err(Error::unsupported(format!("{what} of a query in FROM is not supported"))
                        .with_hint("Name the tables to lock with OF, or lock them in a query of their own."));
                }
                Kind::Foreign => {
                    return Err(Error::unsupported(format!("{what} of \"{name}\" is not supported"))
                        .with_hint("Only rows of tables in memory can be locked: name those with OF."));
                }
            };
            if *is_nullable {
                let message = format!("{what} cannot be applied to the nullable side of an outer join");
                return Err(Error::unsupported(message));
            }
            if has_names {
                return Err(Error::unsupported(format!("{what} of a table with other names for its columns")));
            }
            match found.iter_mut().find(|(known, _)| *known == place) {
                // The strongest counts, and whoever does not want to wait does not.
                Some((_, known)) => {
                    known.strength = known.strength.max(clause.strength);
                    known.policy = known.policy.max(clause.policy);
                }
                None => found.push((
                    place,
                    Found {
                        region: Arc::clone(region),
                        alias: name.clone(),
                        strength: clause.strength,
                        policy: clause.policy,
                    },
                )),
            }
        }
    }
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

/// What is in FROM.
struct Sources<'a> {
    catalog: &'a CatalogState,
    /// Names of WITH queries.
    ctes: Vec<String>,
    items: Vec<Item>,
}

impl Sources<'_> {
    fn select(&mut self, select: &Select) {
        for table in &select.from {
            self.joined(table, false);
        }
    }

    fn joined(&mut self, table: &TableWithJoins, is_nullable: bool) {
        let start = self.items.len();
        self.factor(&table.relation, is_nullable);
        for join in &table.joins {
            let (left, right) = nullable_sides(&join.join_operator);
            for item in &mut self.items[start..] {
                item.is_nullable |= left;
            }
            self.factor(&join.relation, is_nullable || right);
        }
    }

    fn factor(&mut self, factor: &TableFactor, is_nullable: bool) {
        let named = |alias: &Option<TableAlias>| alias.as_ref().map(|alias| folded(&alias.name));
        let (name, kind) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let single = single(name);
                let known = named(alias).or_else(|| single.clone()).unwrap_or_else(|| name.to_string());
                let has_names = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                let is_cte = name.0.len() == 1 && single.as_ref().is_some_and(|name| self.ctes.contains(name));
                let table = single.as_deref().and_then(|name| self.catalog.table(name));
                let kind = match table {
                    _ if is_cte => Kind::Rowless("a WITH query"),
                    Some(Table::Grid(region)) => Kind::Grid(Arc::clone(region), has_names),
                    _ => Kind::Foreign,
                };
                (known, kind)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let is_values = matches!(subquery.body.as_ref(), SetExpr::Values(_));
                let kind = if is_values { Kind::Rowless("VALUES") } else { Kind::Query };
                (named(alias).unwrap_or_default(), kind)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.joined(table_with_joins, is_nullable);
            }
            TableFactor::NestedJoin { alias, .. } => (named(alias).unwrap_or_default(), Kind::Rowless("a join")),
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => (named(alias).unwrap_or_default(), Kind::Rowless("a function")),
            _ => (String::new(), Kind::Foreign),
        };
        self.items.push(Item { name, kind, is_nullable });
    }
}

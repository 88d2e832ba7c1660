//! `SELECT ... FOR UPDATE`, `FOR NO KEY UPDATE`, `FOR SHARE` and `FOR KEY SHARE`: planned here, run in `locking::run`.
//!
//! The query is planned without its LIMIT; the keys of the tables whose rows are to be locked follow its columns. Each row is
//! locked as it comes. If one has changed since the query's snapshot, the statement begins again, so that the rows which are
//! returned are those which are locked. LIMIT and OFFSET count locked rows, as in PostgreSQL. One row by its key is locked by
//! its [`KeyPlan`].

mod clause;
mod run;
mod subqueries;

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value};
use ashlar_functions::names::NAME_END;
use ashlar_store::{Region, Strength};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, ObjectName, Query, SelectItem, SetExpr, Statement as AstStatement, TableAlias,
    TableFactor, TableWithJoins,
};
use pg_query::NodeEnum;

use crate::assign::Literal;
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::ddl::HIDDEN_KEY;
use crate::engine::Engine;
use crate::grammar;
use crate::grid_table::GridTable;
use crate::key_plan::{self, KeyPlan};
use crate::select::names::folded;
use crate::select::{self, Planner, SelectPlan};
use crate::statement::statement_text;
use crate::transaction::Policy;

use clause::{Clause, Found};
pub(crate) use subqueries::{Subqueries, take_out};

/// The name of a table without a primary key in the query that finds its rows, which no user can write: there its hidden
/// key is visible.
const TARGET: &str = "\u{1}locked";

/// See the module.
pub struct LockPlan {
    select: SelectPlan,
    /// Of its outputs, those that come back.
    outputs: Vec<usize>,
    targets: Vec<Target>,
    limit: Count,
    offset: Count,
    strength: Strength,
    /// Types of `$1`, `$2`, ...
    pub parameter_types: Vec<SqlType>,
    /// What comes out.
    pub columns: Arc<[Column]>,
}

/// A table whose rows are locked.
struct Target {
    region: Arc<Region>,
    /// The outputs that are the key of its row.
    key: Vec<usize>,
    strength: Strength,
    policy: Policy,
}

/// LIMIT or OFFSET.
#[derive(Clone, Copy)]
enum Count {
    /// There is none, or it is NULL.
    None,
    Rows(i64),
    /// The parameter of this number from 0.
    Parameter(usize),
}

/// What a query that locks became.
pub(crate) enum Planned {
    /// One row by its key.
    Key(KeyPlan),
    /// Any rows.
    Rows(Box<LockPlan>),
}

/// Plans a query with a locking clause.
///
/// # Errors
/// 0A000 where rows cannot be locked, 42P01 and 42601 for what the clause names, and what planning finds.
pub(crate) fn plan(engine: &Engine, catalog: &Arc<CatalogState>, text: &str, declared: &[u32]) -> Result<Planned> {
    let (clauses, statement) = parse(text)?;
    match by_key(catalog, &statement, &clauses, declared)? {
        Some(plan) => Ok(Planned::Key(plan)),
        None => Ok(Planned::Rows(Box::new(LockPlan::new(engine, catalog, statement, &clauses, declared)?))),
    }
}

/// Plans a query with a locking clause whose rows the engine finds, also where that is one row by its key.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_rows(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    text: &str,
    declared: &[u32],
) -> Result<LockPlan> {
    let (clauses, statement) = parse(text)?;
    LockPlan::new(engine, catalog, statement, &clauses, declared)
}

/// Plans a query with a locking clause only if it is about one row by its key.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_key(catalog: &CatalogState, text: &str, declared: &[u32]) -> Result<Option<KeyPlan>> {
    let (clauses, statement) = parse(text)?;
    by_key(catalog, &statement, &clauses, declared)
}

/// What the clauses say, and the query as it would be if it locked nothing: DataFusion's parser knows two of the four. The
/// tree of the text itself is needed, whose constants may be parameters where the statement's were lifted.
fn parse(text: &str) -> Result<(Vec<Clause>, AstStatement)> {
    let parsed = grammar::only_one(grammar::parse(text)?)?;
    let Some(NodeEnum::SelectStmt(mut node)) = parsed.map(|parsed| parsed.node) else {
        return Err(Error::internal("a query that locks is a query"));
    };
    let clauses = clause::of_tree(&node)?;
    node.locking_clause.clear();
    Ok((clauses, select::parse(&statement_text(&NodeEnum::SelectStmt(node))?)?))
}

fn by_key(
    catalog: &CatalogState,
    statement: &AstStatement,
    clauses: &[Clause],
    declared: &[u32],
) -> Result<Option<KeyPlan>> {
    let AstStatement::Query(query) = statement else { return Ok(None) };
    let Some(plan) = key_plan::recognise(catalog, statement, declared)? else { return Ok(None) };
    let found = clause::tables(catalog, query, clauses)?;
    let [Found { strength, policy, .. }] = found[..] else { return Ok(None) };
    Ok(Some(plan.locking(strength, policy)))
}

impl LockPlan {
    fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        statement: AstStatement,
        clauses: &[Clause],
        declared: &[u32],
    ) -> Result<Self> {
        let AstStatement::Query(mut query) = statement else {
            return Err(Error::internal("only a query has a locking clause"));
        };
        let strength = clauses.iter().map(|clause| clause.strength).max().unwrap_or(Strength::Update);
        if let Some(first) = clauses.first() {
            clause::check(engine.state(), &query, first.strength.clause())?;
        }
        let found = match clause::tables(catalog, &query, clauses) {
            Ok(found) => found,
            // As in PostgreSQL, what is wrong with the query itself is told first.
            Err(error) => {
                SelectPlan::new(&Planner::new(engine, catalog), AstStatement::Query(query), declared)?;
                return Err(error);
            }
        };
        let (limit, offset) = counts(&mut query)?;
        let SetExpr::Select(select) = query.body.as_mut() else {
            return Err(Error::internal("a query that locks is a SELECT"));
        };
        let mut own: Option<&Arc<Region>> = None;
        let mut keys: Vec<usize> = Vec::new();
        for table in &found {
            let schema = table.region.schema();
            if schema.hidden_key {
                if own.replace(&table.region).is_some() {
                    let what = table.strength.clause();
                    return Err(Error::unsupported(format!("{what} of several tables without a key is not supported")));
                }
                let is_renamed = select.from.iter_mut().any(|from| rename(from, &table.alias));
                if !is_renamed {
                    return Err(Error::internal("a table that was found is in FROM"));
                }
            }
            keys.push(schema.key.len());
            for &ordinal in &schema.key {
                let column = Ident::with_quote('"', schema.columns[ordinal].name.clone());
                select.projection.push(SelectItem::ExprWithAlias {
                    expr: Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.alias.clone()), column]),
                    alias: Ident::with_quote('"', format!("k{NAME_END}{}", select.projection.len())),
                });
            }
        }
        let planner = match own {
            Some(region) => Planner::with_table(engine, catalog, TARGET, Arc::new(GridTable::new(region, true))),
            None => Planner::new(engine, catalog),
        };
        let select = SelectPlan::new(&planner, AstStatement::Query(query), declared)?;
        let mut next = select.columns.len() - keys.iter().sum::<usize>();
        // A star means the hidden key too.
        let schema = select.schema();
        let outputs: Vec<usize> = (0..next).filter(|&output| schema.field(output).name() != HIDDEN_KEY).collect();
        let targets = found.into_iter().zip(keys).map(|(table, columns)| {
            let key = (next..next + columns).collect();
            next += columns;
            Target { region: table.region, key, strength: table.strength, policy: table.policy }
        });
        let targets = targets.collect();
        let columns = outputs.iter().map(|&output| select.columns[output].clone()).collect();
        let parameter_types = parameter_types(&select, [limit, offset], declared)?;
        Ok(Self { select, outputs, targets, limit, offset, strength, parameter_types, columns })
    }

    /// The tables whose rows it locks.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Region>> {
        self.targets.iter().map(|target| &target.region)
    }

    /// The query that finds the rows.
    pub fn select(&self) -> &SelectPlan {
        &self.select
    }

    /// Bytes that it holds, as estimated.
    ///
    /// # Errors
    /// As [`SelectPlan::bytes`].
    pub(crate) fn bytes(&self) -> Result<usize> {
        Ok(self.select.bytes()? + self.targets.len() * size_of::<Target>() + self.columns.len() * size_of::<Column>())
    }

    /// How its clause locks, at the strongest.
    pub fn strength(&self) -> Strength {
        self.strength
    }
}

/// Lets a table of FROM be the one that is known as [`TARGET`]; false where it is another.
fn rename(from: &mut TableWithJoins, alias: &str) -> bool {
    let factors = std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation));
    for factor in factors {
        let is_renamed = match factor {
            TableFactor::Table { name, alias: own, args: None, .. } => {
                let known = own.as_ref().map(|own| folded(&own.name)).or_else(|| key_plan::single(name));
                let is_it = known.as_deref() == Some(alias);
                if is_it {
                    let name_of = Ident::with_quote('"', alias);
                    *own = Some(TableAlias { explicit: true, name: name_of, columns: Vec::new(), at: None });
                    *name = ObjectName::from(vec![Ident::with_quote('"', TARGET)]);
                }
                is_it
            }
            TableFactor::NestedJoin { table_with_joins, .. } => rename(table_with_joins, alias),
            _ => false,
        };
        if is_renamed {
            return true;
        }
    }
    false
}

/// Takes LIMIT and OFFSET out of a query.
fn counts(query: &mut Query) -> Result<(Count, Count)> {
    let unsupported = || Error::unsupported("this form of LIMIT is not supported with a locking clause");
    if query.fetch.is_some() {
        return Err(unsupported());
    }
    let count = |expr: Option<Expr>| match expr {
        None => Ok(Count::None),
        Some(expr) => match (key_plan::parameter(&expr), key_plan::literal(&expr)) {
            (Some(number), _) => Ok(Count::Parameter(number)),
            (None, Some(Literal::Null)) => Ok(Count::None),
            (None, Some(Literal::Number(digits))) => digits.parse().map(Count::Rows).map_err(|_| unsupported()),
            _ => Err(unsupported()),
        },
    };
    match query.limit_clause.take() {
        None => Ok((Count::None, Count::None)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            Ok((count(limit)?, count(offset.map(|offset| offset.value))?))
        }
        Some(_) => Err(unsupported()),
    }
}

/// The types of the parameters: those of the query, and of its counts.
fn parameter_types(select: &SelectPlan, counts: [Count; 2], declared: &[u32]) -> Result<Vec<SqlType>> {
    let mut types = select.parameter_types.clone();
    for count in counts {
        let Count::Parameter(number) = count else { continue };
        if types.len() <= number {
            types.resize(number + 1, SqlType::Scalar(ScalarType::Text));
        }
        if !select.parameters_used.get(number).copied().unwrap_or(false) {
            let declared = declared.get(number).copied().and_then(SqlType::from_oid);
            types[number] = declared.unwrap_or(SqlType::Scalar(ScalarType::Int8));
        }
        let is_integer = matches!(types[number].scalar(), ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8);
        if !is_integer || types[number].is_array() {
            return Err(Error::unsupported("a LIMIT that is no integer is not supported with a locking clause"));
        }
    }
    Ok(types)
}

impl Count {
    /// The number under these parameters; `None` where there is no bound.
    fn value(self, parameters: &[Value], code: ErrorCode, clause: &str) -> Result<Option<usize>> {
        let rows = match self {
            Self::None => return Ok(None),
            Self::Rows(rows) => rows,
            Self::Parameter(number) => match parameters.get(number) {
                None => return Err(key_plan::missing_parameter(number)),
                Some(Value::Int2(rows)) => i64::from(*rows),
                Some(Value::Int4(rows)) => i64::from(*rows),
                Some(Value::Int8(rows)) => *rows,
                Some(_) => return Ok(None),
            },
        };
        match usize::try_from(rows) {
            Ok(rows) => Ok(Some(rows)),
            Err(_) => Err(Error::new(code, format!("{clause} must not be negative"))),
        }
    }
}

//! Locking subqueries in the WHERE of an UPDATE or DELETE, or in a WITH before it: how a job is taken from a queue in one
//! statement.
//!
//! In `DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)` the subquery runs
//! first, once, and its value becomes a parameter of the statement. `IN` works the same way with a list. Of a WITH query,
//! as in `WITH next AS (SELECT ... FOR UPDATE SKIP LOCKED) DELETE FROM jobs USING next WHERE jobs.id = next.id`, each
//! column becomes a parameter, an array, and the rows are unnested out of these. Other forms are refused.

use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value, value::coerce};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, Expr, FromTable, Ident, Query, SetExpr, Statement as AstStatement, TableFactor,
    Value as AstValue, Visitor,
};

use super::{LockPlan, clause};
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::dml::run::Run;
use crate::engine::Engine;
use crate::key_plan;
use crate::select::names::folded;
use crate::select::nodes::cast;
use crate::select::{self, SelectPlan};
use crate::sql_types::ast_of;

/// The subqueries of a statement, in the order of the parameters that stand in their places.
#[derive(Default)]
pub struct Subqueries {
    list: Vec<Subquery>,
    /// The number from 0 of the first of these parameters.
    first: usize,
}

struct Subquery {
    plan: LockPlan,
    gives: Gives,
}

/// What the rows of a subquery become.
enum Gives {
    /// The value of its one row: of this type.
    Value(SqlType),
    /// The values of its one column, of this type: IN.
    List(SqlType),
    /// For each column an array: a WITH query. The types of the arrays' items.
    Rows(Vec<ScalarType>),
}

/// A statement without its subqueries that lock.
pub(crate) struct Without {
    /// The rest.
    pub(crate) statement: AstStatement,
    /// What was taken out.
    pub(crate) subqueries: Subqueries,
    /// The declared types of the parameters, those in place of subqueries among them.
    pub(crate) declared: Vec<u32>,
}

/// Whether a statement holds a query that locks.
fn locks(statement: &AstStatement) -> bool {
    struct Locks;
    impl Visitor for Locks {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    walk::visit(statement, &mut Locks).is_break()
}

/// Where the name of a WITH query stands.
struct Named<'n> {
    name: &'n str,
    /// How often it is read in FROM, and is what is changed, which is a table in any case.
    reads: usize,
    targets: usize,
    /// How many WITH queries have it.
    queries: usize,
}

impl<'n> Named<'n> {
    fn of(query: &Query, name: &'n str) -> Self {
        let mut named = Self { name, reads: 0, targets: 0, queries: 0 };
        let _ = walk::visit(query, &mut named);
        named
    }

    fn is_it(&self, factor: &TableFactor) -> bool {
        let TableFactor::Table { name, args: None, .. } = factor else { return false };
        matches!(&name.0[..], [part] if part.as_ident().map(folded).as_deref() == Some(self.name))
    }
}

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries += ctes.filter(|cte| folded(&cte.alias.name) == self.name).count();
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &AstStatement) -> ControlFlow<()> {
        let targets = match statement {
            AstStatement::Update(update) => slice::from_ref(&update.table),
            AstStatement::Delete(delete) => match &delete.from {
                FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => tables.as_slice(),
            },
            _ => &[],
        };
        self.targets += targets.iter().filter(|target| self.is_it(&target.relation)).count();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.reads += usize::from(self.is_it(factor));
        ControlFlow::Continue(())
    }
}

/// Parses an UPDATE or a DELETE, and takes the queries that lock out of its WITH, or else out of its WHERE.
///
/// # Errors
/// 0A000 for one that stands elsewhere, and what planning them finds.
pub(crate) fn take_out(engine: &Engine, catalog: &Arc<CatalogState>, text: &str, declared: &[u32]) -> Result<Without> {
    let mut statement = select::parse_raw(text)?;
    let mut subqueries = Subqueries::default();
    let mut all_declared = declared.to_vec();
    if locks(&statement) {
        let mut count = declared.len();
        let _ = walk::expressions(&statement, |expr| {
            count = count.max(key_plan::parameter(expr).map_or(0, |number| number + 1));
            ControlFlow::<()>::Continue(())
        });
        subqueries.first = count;
        all_declared.resize(count, 0);
        if let Some(cte) = with_query(&mut statement) {
            let plan = plan_of(engine, catalog, cte.query.clone(), declared)?;
            let kept = plan.columns.iter().map(kept_as).collect::<Result<Vec<_>>>()?;
            cte.query = rows_out_of(count, &plan.columns, &kept)?;
            subqueries.list.push(Subquery { plan, gives: Gives::Rows(kept) });
        } else {
            for (query, is_list) in of_condition(&mut statement, count)? {
                subqueries.list.push(Subquery::new(engine, catalog, query, is_list, declared)?);
            }
        }
        all_declared.extend(subqueries.list.iter().flat_map(Subquery::oids));
    }
    Ok(Without { statement: select::settled(statement)?, subqueries, declared: all_declared })
}

/// The WITH query before a change that can run by itself before all else: the only one that locks, not of a recursive WITH, which reads
/// no other one and is read. PostgreSQL does not run one that nothing reads.
fn with_query(statement: &mut AstStatement) -> Option<&mut Cte> {
    let AstStatement::Query(query) = statement else { return None };
    let with = query.with.as_ref().filter(|with| !with.recursive)?;
    let number = with.cte_tables.iter().position(|cte| !cte.query.locks.is_empty())?;
    let name = folded(&with.cte_tables[number].alias.name);
    let own = &with.cte_tables[number].query;
    let mut others = with.cte_tables.iter().map(|cte| folded(&cte.alias.name)).filter(|other| *other != name);
    let (all, within) = (Named::of(query, &name), Named::of(own, &name));
    let is_read = all.reads > within.reads + all.targets;
    let is_alone = all.queries == 1 && is_read && !others.any(|other| Named::of(own, &other).reads > 0);
    query.with.as_mut().filter(|_| is_alone)?.cte_tables.get_mut(number)
}

/// Takes the subqueries that lock out of the condition of a change, and puts the parameters from this number on, counted from 0, in their
/// places; tells of each whether it is a list. Those that read a WITH query stay.
fn of_condition(statement: &mut AstStatement, first: usize) -> Result<Vec<(Box<Query>, bool)>> {
    let with = match &*statement {
        AstStatement::Query(query) => query.with.as_ref(),
        _ => None,
    };
    let names: Vec<String> = with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name)).collect();
    let is_taken =
        |query: &Query| !query.locks.is_empty() && names.iter().all(|name| Named::of(query, name).reads == 0);
    let mut taken: Vec<(Box<Query>, bool)> = Vec::new();
    let _ = walk::expressions_mut(condition(statement)?, |expr| {
        let placeholder = placeholder(first + taken.len());
        match expr {
            Expr::Subquery(query) if is_taken(query) => {
                taken.push((query.clone(), false));
                *expr = placeholder;
            }
            Expr::InSubquery { expr: left, subquery, negated: false } if is_taken(subquery) => {
                taken.push((subquery.clone(), true));
                let left = left.clone();
                let right = Box::new(placeholder);
                *expr = Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false };
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(taken)
}

/// The parameter of a number that is counted from 0.
fn placeholder(number: usize) -> Expr {
    Expr::value(AstValue::Placeholder(format!("${}", number + 1)))
}

/// WHERE of an UPDATE or a DELETE, which may have a WITH before it.
fn condition(statement: &mut AstStatement) -> Result<&mut Option<Expr>> {
    match statement {
        AstStatement::Update(update) => Ok(&mut update.selection),
        AstStatement::Delete(delete) => Ok(&mut delete.selection),
        AstStatement::Query(query) => match query.body.as_mut() {
            SetExpr::Update(change) | SetExpr::Delete(change) => condition(change),
            _ => Err(not_a_change()),
        },
        _ => Err(not_a_change()),
    }
}

fn not_a_change() -> Error {
    Error::internal("only UPDATE and DELETE are looked through for subqueries that lock")
}

/// Plans a query that locks by itself.
fn plan_of(engine: &Engine, catalog: &Arc<CatalogState>, mut query: Box<Query>, declared: &[u32]) -> Result<LockPlan> {
    let clauses = clause::of_query(&query.locks)?;
    query.locks.clear();
    let statement = select::settled(AstStatement::Query(query))?;
    LockPlan::new(engine, catalog, statement, &clauses, declared)
}

/// The type of an array's items in which the values of a column are kept. Of types that say more than an array of parameters does, such as
/// how many decimals a numeric has, they are texts.
fn kept_as(column: &Column) -> Result<ScalarType> {
    match column.sql_type {
        SqlType::Scalar(
            ScalarType::Numeric { .. } | ScalarType::Char { .. } | ScalarType::Json | ScalarType::Jsonb,
        ) => Ok(ScalarType::Text),
        SqlType::Scalar(ScalarType::Varchar { .. }) => Ok(ScalarType::Varchar { length: None }),
        SqlType::Scalar(scalar) => Ok(scalar),
        SqlType::Array(_) => {
            let message =
                format!("an array in a WITH query that locks, as column \"{}\", is not supported", column.name);
            Err(Error::unsupported(message).with_hint("Select the key alone, and join the table by it."))
        }
    }
}

/// `SELECT c0 AS "id", CAST(c1 AS numeric(10,2)) AS "price" FROM unnest($3::integer[], $4::text[]) AS kept (c0, c1)`: rows out of the
/// parameters from this number on, counted from 0.
fn rows_out_of(first: usize, columns: &[Column], kept: &[ScalarType]) -> Result<Box<Query>> {
    if columns.is_empty() {
        return Err(Error::unsupported("a WITH query that locks and selects no column is not supported"));
    }
    let names: Vec<String> = (0..columns.len()).map(|number| format!("c{number}")).collect();
    let arrays: Vec<String> = (0..columns.len()).map(|number| placeholder(first + number).to_string()).collect();
    let item = |((column, kept), name): ((&Column, &ScalarType), &String)| {
        let is_told = *kept == ScalarType::Text && column.sql_type != SqlType::Scalar(ScalarType::Text);
        let value = if is_told { format!("CAST({name} AS {})", ast_of(column.sql_type)) } else { name.clone() };
        format!("{value} AS {}", Ident::with_quote('"', column.name.clone()))
    };
    let items: Vec<String> = columns.iter().zip(kept).zip(&names).map(item).collect();
    let (items, arrays, names) = (items.join(", "), arrays.join(", "), names.join(", "));
    let text = format!("SELECT {items} FROM unnest({arrays}) AS kept ({names})");
    let AstStatement::Query(mut query) = select::parse_raw(&text)? else {
        return Err(Error::internal("a SELECT is a query"));
    };
    let _ = walk::expressions_mut(query.as_mut(), |expr| {
        let item = key_plan::parameter(expr).and_then(|number| kept.get(number.checked_sub(first)?));
        if let Some(item) = item {
            *expr = cast(expr.clone(), SqlType::Array(*item));
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(query)
}

impl Subquery {
    /// In a condition.
    fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        query: Box<Query>,
        is_list: bool,
        declared: &[u32],
    ) -> Result<Self> {
        let plan = plan_of(engine, catalog, query, declared).map_err(alone)?;
        let [column] = &plan.columns[..] else {
            let message =
                if is_list { "subquery has too many columns" } else { "subquery must return only one column" };
            return Err(Error::new(ErrorCode::SyntaxError, message));
        };
        let sql_type = column.sql_type;
        if is_list && sql_type.is_array() {
            return Err(Error::unsupported("a subquery that locks and gives arrays is not supported with IN"));
        }
        Ok(Self { plan, gives: if is_list { Gives::List(sql_type) } else { Gives::Value(sql_type) } })
    }

    /// The types of the parameters in its place.
    fn oids(&self) -> Vec<u32> {
        match &self.gives {
            Gives::Value(sql_type) => vec![sql_type.oid()],
            Gives::List(sql_type) => vec![sql_type.scalar().array_oid()],
            Gives::Rows(kept) => kept.iter().map(|kept| kept.array_oid()).collect(),
        }
    }
}

/// A name that the subquery does not know may be one of the statement around it.
fn alone(error: Error) -> Error {
    match error.code() {
        ErrorCode::UndefinedColumn | ErrorCode::UndefinedTable if error.message().contains("column") => {
            let message = error.message().to_owned();
            error.with_hint(format!("{message}: a subquery that locks cannot read the row around it."))
        }
        _ => error,
    }
}

impl Subqueries {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The types of a statement's own parameters, of which `select` is the rest.
    ///
    /// # Errors
    /// 0A000 where a parameter has one type here and another there.
    pub(crate) fn parameter_types(&self, select: &SelectPlan) -> Result<Vec<SqlType>> {
        let mut types = select.parameter_types.clone();
        if self.is_empty() {
            return Ok(types);
        }
        types.truncate(self.first);
        for subquery in &self.list {
            for (number, &sql_type) in subquery.plan.parameter_types.iter().enumerate() {
                if types.len() <= number {
                    types.push(sql_type);
                    continue;
                }
                let is_used = select.parameters_used.get(number).copied().unwrap_or(false);
                let uses = subquery.plan.select.parameters_used.get(number).copied().unwrap_or(true);
                if is_used && uses && types[number] != sql_type {
                    let message = format!("parameter ${} has two types in this statement", number + 1);
                    return Err(Error::unsupported(message).with_hint("Cast it where it stands."));
                }
                if !is_used {
                    types[number] = sql_type;
                }
            }
        }
        Ok(types)
    }
}

impl Run<'_> {
    /// Runs the subqueries that lock: the statement's parameters, and behind them what came of these.
    ///
    /// # Errors
    /// As [`Run::lock`], and 21000 for more than one row where one is meant.
    pub(crate) async fn lock_subqueries(&mut self, subqueries: &Subqueries, select: &SelectPlan) -> Result<Vec<Value>> {
        let mut values = self.parameters.to_vec();
        values.resize(subqueries.first, Value::Null);
        for subquery in &subqueries.list {
            let outcome = self.lock(&subquery.plan).await?;
            let to = |number: usize| select.parameter_types.get(number).copied();
            match &subquery.gives {
                Gives::Value(sql_type) => {
                    let mut found = outcome.rows.into_iter().filter_map(|mut row| row.pop());
                    let value = found.next().unwrap_or(Value::Null);
                    if found.next().is_some() {
                        let message = "more than one row returned by a subquery used as an expression";
                        return Err(Error::new(ErrorCode::CardinalityViolation, message));
                    }
                    let to = to(values.len()).unwrap_or(*sql_type);
                    values.push(coerce(value, *sql_type, to)?);
                }
                Gives::List(sql_type) => {
                    let found = outcome.rows.into_iter().filter_map(|mut row| row.pop());
                    let to = SqlType::Scalar(to(values.len()).unwrap_or(*sql_type).scalar());
                    let items = found.map(|value| coerce(value, *sql_type, to)).collect::<Result<Vec<_>>>()?;
                    values.push(Value::Array(items.into()));
                }
                Gives::Rows(kept) => {
                    let mut arrays: Vec<Vec<Value>> = vec![Vec::new(); kept.len()];
                    let columns = &subquery.plan.columns;
                    for row in outcome.rows {
                        for (number, value) in row.into_iter().enumerate() {
                            let value = coerce(value, columns[number].sql_type, SqlType::Scalar(kept[number]))?;
                            arrays[number].push(value);
                        }
                    }
                    values.extend(arrays.into_iter().map(|items| Value::Array(items.into())));
                }
            }
        }
        Ok(values)
    }
}

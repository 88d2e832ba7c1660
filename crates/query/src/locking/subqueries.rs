//! Locking subqueries in the WHERE of an UPDATE or DELETE: how a job is taken from a queue in one statement.
//!
//! In `DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)` the subquery runs
//! first, once, and its value becomes a parameter of the statement. `IN` works the same way with a list. Other forms
//! are refused.

use std::ops::ControlFlow;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, SqlType, Value, value::coerce};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, Statement as AstStatement, Value as AstValue};

use super::{LockPlan, clause};
use crate::catalog::CatalogState;
use crate::dml::run::Run;
use crate::engine::Engine;
use crate::key_plan;
use crate::select::{self, SelectPlan};

/// The subqueries of a statement, in the order of the parameters that stand in their places.
#[derive(Default)]
pub struct Subqueries {
    list: Vec<Subquery>,
    /// The number from 0 of the first of these parameters.
    first: usize,
}

struct Subquery {
    plan: LockPlan,
    /// A list of values: IN.
    is_list: bool,
    /// The type of a value.
    sql_type: SqlType,
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
    impl datafusion::sql::sqlparser::ast::Visitor for Locks {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    walk::visit(statement, &mut Locks).is_break()
}

/// Parses an UPDATE or a DELETE, and takes the subqueries that lock out of its WHERE.
///
/// # Errors
/// 0A000 for one that stands elsewhere, and what planning them finds.
pub(crate) fn take_out(engine: &Engine, catalog: &Arc<CatalogState>, text: &str, declared: &[u32]) -> Result<Without> {
    let mut statement = select::parse_raw(text)?;
    let mut subqueries = Subqueries::default();
    let mut all_declared = declared.to_vec();
    if locks(&statement) {
        let mut taken: Vec<(Box<Query>, bool)> = Vec::new();
        let mut count = declared.len();
        let _ = walk::expressions(&statement, |expr| {
            count = count.max(key_plan::parameter(expr).map_or(0, |number| number + 1));
            ControlFlow::<()>::Continue(())
        });
        let selection = match &mut statement {
            AstStatement::Update(update) => &mut update.selection,
            AstStatement::Delete(delete) => &mut delete.selection,
            _ => return Err(Error::internal("only UPDATE and DELETE are looked through for subqueries that lock")),
        };
        let _ = walk::expressions_mut(selection, |expr| {
            let placeholder = Expr::value(AstValue::Placeholder(format!("${}", count + taken.len() + 1)));
            match expr {
                Expr::Subquery(query) if !query.locks.is_empty() => {
                    taken.push((query.clone(), false));
                    *expr = placeholder;
                }
                Expr::InSubquery { expr: left, subquery, negated: false } if !subquery.locks.is_empty() => {
                    taken.push((subquery.clone(), true));
                    let left = left.clone();
                    let right = Box::new(placeholder);
                    *expr = Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false };
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        subqueries.first = count;
        all_declared.resize(count, 0);
        for (query, is_list) in taken {
            let subquery = Subquery::new(engine, catalog, query, is_list, declared)?;
            let sql_type = if is_list { SqlType::Array(subquery.sql_type.scalar()) } else { subquery.sql_type };
            all_declared.push(sql_type.oid());
            subqueries.list.push(subquery);
        }
    }
    Ok(Without { statement: select::settled(statement)?, subqueries, declared: all_declared })
}

impl Subquery {
    fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        mut query: Box<Query>,
        is_list: bool,
        declared: &[u32],
    ) -> Result<Self> {
        let clauses = clause::of_query(&query.locks)?;
        query.locks.clear();
        let statement = select::settled(AstStatement::Query(query))?;
        let plan = LockPlan::new(engine, catalog, statement, &clauses, declared).map_err(alone)?;
        let [column] = &plan.columns[..] else {
            let message =
                if is_list { "subquery has too many columns" } else { "subquery must return only one column" };
            return Err(Error::new(ErrorCode::SyntaxError, message));
        };
        let sql_type = column.sql_type;
        if is_list && sql_type.is_array() {
            return Err(Error::unsupported("a subquery that locks and gives arrays is not supported with IN"));
        }
        Ok(Self { plan, is_list, sql_type })
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
            let to = select.parameter_types.get(values.len()).copied().unwrap_or(subquery.sql_type);
            let mut found = outcome.rows.into_iter().filter_map(|mut row| row.pop());
            values.push(if subquery.is_list {
                let to = SqlType::Scalar(to.scalar());
                let items = found.map(|value| coerce(value, subquery.sql_type, to)).collect::<Result<Vec<_>>>()?;
                Value::Array(items.into())
            } else {
                let value = found.next().unwrap_or(Value::Null);
                if found.next().is_some() {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(Error::new(ErrorCode::CardinalityViolation, message));
                }
                coerce(value, subquery.sql_type, to)?
            });
        }
        Ok(values)
    }
}

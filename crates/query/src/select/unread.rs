//! Parameters in WITH queries that nobody reads. The engine drops such a query, but a client binds its parameters all the same, and their
//! places give them their types.
//!
//! Called by `SelectPlan::new`, before and after the statement is planned.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ashlar_base::{Result, ScalarType, SqlType};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement, Value, With};

use super::Planner;
use crate::parameters;

/// The parameters of a WITH query, by number from 0, and a query that reads it.
pub(super) struct Candidate {
    numbers: BTreeSet<usize>,
    reader: Box<Query>,
}

/// The WITH queries of a statement that have parameters.
pub(super) fn candidates(statement: &Statement) -> Result<Vec<Candidate>> {
    let Statement::Query(query) = statement else { return Ok(Vec::new()) };
    let Some(with) = &query.with else { return Ok(Vec::new()) };
    let mut candidates = Vec::new();
    for (place, table) in with.cte_tables.iter().enumerate() {
        let numbers = numbers_in(&table.query);
        if numbers.is_empty() {
            continue;
        }
        let Statement::Query(mut reader) = super::parse(&format!("SELECT * FROM {}", table.alias.name))? else {
            continue;
        };
        // Those of a recursive list may read later ones.
        let known = if with.recursive { with.cte_tables.len() } else { place + 1 };
        reader.with = Some(With { cte_tables: with.cte_tables[..known].to_vec(), ..with.clone() });
        candidates.push(Candidate { numbers, reader });
    }
    Ok(candidates)
}

fn numbers_in(query: &Query) -> BTreeSet<usize> {
    let mut numbers = BTreeSet::new();
    // It goes through to the end.
    let _ = walk::expressions(query, |expr| {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(id) = &value.value
        {
            numbers.extend(parameters::number_of(id));
        }
        ControlFlow::<()>::Continue(())
    });
    numbers
}

/// Adds the types of parameters that only WITH queries have which nobody reads. Returns whether there are any.
///
/// # Errors
/// What is wrong with such a query.
pub(super) fn add_types(
    planner: &Planner<'_>,
    candidates: Vec<Candidate>,
    declared: &[u32],
    (types, used): (&mut Vec<SqlType>, &mut Vec<bool>),
) -> Result<bool> {
    let mut has_any = false;
    for Candidate { numbers, reader } in candidates {
        let is_known = |number: &usize| used.get(*number).copied().unwrap_or(false);
        if numbers.iter().all(is_known) {
            continue;
        }
        let plan = planner.logical(Statement::Query(reader), declared)?;
        let (_, found, _) = parameters::settle(plan)?;
        for number in numbers {
            if types.len() <= number {
                types.resize(number + 1, SqlType::Scalar(ScalarType::Text));
                used.resize(number + 1, false);
            }
            if !used[number]
                && let Some(sql_type) = found.get(number)
            {
                types[number] = *sql_type;
                has_any = true;
            }
        }
    }
    Ok(has_any)
}

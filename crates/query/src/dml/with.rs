//! WITH before INSERT, UPDATE and DELETE.
//!
//! The parser takes such a statement for a query whose body is a change. Called by `statement`, which has refused WITH
//! queries that change something themselves, and by the plans, which put the WITH before the queries that they make.

use ashlar_base::Result;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement as AstStatement, With};

use super::select_of;

/// The WITH before a change, and the change; any other statement as it is.
pub fn split(statement: AstStatement) -> (Option<With>, AstStatement) {
    let mut query = match statement {
        AstStatement::Query(query) => *query,
        other => return (None, other),
    };
    match *query.body {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => (query.with, change),
        body => {
            query.body = Box::new(body);
            (None, AstStatement::Query(Box::new(query)))
        }
    }
}

/// A query behind a WITH; one that has a WITH of its own hides names of the outer one.
pub(super) fn before(with: Option<With>, mut query: Box<Query>) -> Result<Box<Query>> {
    if with.is_none() {
        return Ok(query);
    }
    if query.with.is_none() {
        query.with = with;
        return Ok(query);
    }
    let mut outer = select_of(with, Vec::new(), Vec::new(), None)?;
    *outer.body = SetExpr::Query(query);
    Ok(Box::new(outer))
}

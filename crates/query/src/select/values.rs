//! VALUES lists: each column has one type over all rows, by PostgreSQL's rules, and open literals take it.
//!
//! Called by the planner for each query before it is planned; INSERT ... VALUES does not come here, for its cells take
//! the types of the table's columns.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use ashlar_functions::catalog::{common_numeric, digits_in, numeric};
use ashlar_functions::rules::conditions::common_type;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, UnaryOperator, Value,
    Values, VisitorMut,
};

use super::Planner;
use super::nodes::cast;
use crate::parameters::number_of;

/// Gives the columns of every VALUES list in a query their types.
///
/// # Errors
/// 42804 where the rows' types do not go together, 42601 for rows of different lengths.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query, declared: &[u32]) -> Result<()> {
    walk::outcome(walk::visit_mut(query, &mut Settle { planner, declared }))
}

struct Settle<'a, 'b> {
    planner: &'a Planner<'b>,
    /// Types of the statement's parameters.
    declared: &'a [u32],
}

impl VisitorMut for Settle<'_, '_> {
    type Break = Error;

    // A list inside a cell of another comes first: the cell's type follows from it.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        walk::flow(self.body(&mut query.body))
    }
}

/// What is known of a cell's type.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Null,
    /// A parameter that nothing is known of.
    Open,
    /// A quoted literal, which is read as the column's type.
    Quoted(&'a str),
    /// A number or a boolean as it is written.
    Literal(SqlType),
    /// A cast to a type.
    Cast(SqlType),
    /// Anything else.
    Typed(SqlType),
}

impl Settle<'_, '_> {
    fn body(&self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left)?;
                self.body(right)
            }
            SetExpr::Values(values) => {
                if self.list(values)? {
                    *body = as_union(values)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a column remains whose type only the planner can tell.
    fn list(&self, values: &mut Values) -> Result<bool> {
        let width = values.rows.first().map_or(0, |row| row.len());
        if values.rows.iter().any(|row| row.len() != width) {
            return Err(Error::new(ErrorCode::SyntaxError, "VALUES lists must all be the same length"));
        }
        let mut is_mixed = false;
        for column in 0..width {
            let cells: Vec<Option<Cell<'_>>> = values.rows.iter().map(|row| self.cell(&row[column])).collect();
            // A cell that reads columns from around the list.
            if cells.iter().any(Option::is_none) {
                // The engine wants the same to be known of all cells, and of a column more is known than of what is made of it.
                let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                is_mixed |= values.rows.len() > 1 && !values.rows.iter().all(|row| is_column(&row[column]));
                continue;
            }
            let cells: Vec<Cell<'_>> = cells.into_iter().flatten().collect();
            let Some(common) = common(&cells)? else { continue };
            let is_plain = |cell: &Cell<'_>| matches!(cell, Cell::Literal(found) if *found == common);
            if cells.iter().all(is_plain) {
                continue;
            }
            // The engine compares what it knows of the cells' fields besides their types: a cast makes them alike.
            let is_cast = |cell: &Cell<'_>| matches!(cell, Cell::Cast(found) if *found == common);
            let is_cast: Vec<bool> = cells.iter().map(is_cast).collect();
            for (row, is_cast) in values.rows.iter_mut().zip(is_cast) {
                if !is_cast {
                    let item = std::mem::replace(&mut row[column], Expr::value(Value::Null));
                    row[column] = cast(item, common);
                }
            }
        }
        Ok(is_mixed)
    }

    /// `None` where the cell cannot be looked at by itself.
    fn cell<'e>(&self, expr: &'e Expr) -> Option<Cell<'e>> {
        match expr {
            Expr::Nested(inner) => self.cell(inner),
            Expr::Value(value) => match &value.value {
                Value::Null => Some(Cell::Null),
                Value::SingleQuotedString(text) => Some(Cell::Quoted(text)),
                Value::Boolean(_) => Some(Cell::Literal(ScalarType::Bool.into())),
                Value::Number(digits, _) => Some(Cell::Literal(type_of_number(digits, false))),
                Value::Placeholder(id) => {
                    let declared = number_of(id).and_then(|number| self.declared.get(number));
                    Some(declared.and_then(|oid| SqlType::from_oid(*oid)).map_or(Cell::Open, Cell::Typed))
                }
                _ => self.planned(expr),
            },
            Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: inner } => {
                match inner.as_ref() {
                    Expr::Value(value) if let Value::Number(digits, _) = &value.value => {
                        Some(Cell::Literal(type_of_number(digits, *op == UnaryOperator::Minus)))
                    }
                    _ => self.planned(expr),
                }
            }
            Expr::Cast { data_type, kind: CastKind::Cast | CastKind::DoubleColon, .. } => {
                crate::expressions::sql_type_of(data_type).ok().flatten().map(Cell::Cast)
            }
            Expr::TypedString(typed) => {
                crate::expressions::sql_type_of(&typed.data_type).ok().flatten().map(Cell::Cast)
            }
            other => self.planned(other),
        }
    }

    fn planned<'e>(&self, expr: &Expr) -> Option<Cell<'e>> {
        self.planner.type_of(expr.clone(), self.declared).map(Cell::Typed)
    }
}

/// `VALUES (a, 1), (2, b)` as `SELECT a AS column1, 1 AS column2 UNION ALL SELECT 2, b`: the types of a union's columns are
/// found where those of the columns around it are known.
fn as_union(values: &Values) -> Result<SetExpr> {
    let unexpected = || Error::internal("a template is a query");
    let mut union: Option<SetExpr> = None;
    for row in &values.rows {
        let Ok(Statement::Query(mut query)) = super::parse("SELECT 1") else { return Err(unexpected()) };
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
        let items = row.iter().zip(1..).map(|(expr, number)| SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', format!("column{number}")),
        });
        select.projection = items.collect();
        union = Some(match union {
            None => *query.body,
            Some(before) => SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left: Box::new(before),
                right: query.body,
            },
        });
    }
    union.ok_or_else(unexpected)
}

/// The type of a number as it is written.
fn type_of_number(digits: &str, is_negative: bool) -> SqlType {
    let whole = digits.parse::<i128>().map(|value| if is_negative { -value } else { value });
    match whole {
        Ok(value) if i32::try_from(value).is_ok() => ScalarType::Int4.into(),
        Ok(value) if i64::try_from(value).is_ok() => ScalarType::Int8.into(),
        _ => digits_in(digits),
    }
}

/// The type of a column; `None` where all of its cells are open.
///
/// # Errors
/// 42804
fn common(cells: &[Cell<'_>]) -> Result<Option<SqlType>> {
    let mut types: Vec<SqlType> = Vec::new();
    let mut has_open = false;
    for cell in cells {
        match cell {
            Cell::Literal(found) | Cell::Cast(found) | Cell::Typed(found) => {
                if !types.contains(found) {
                    types.push(*found);
                }
            }
            Cell::Null | Cell::Open | Cell::Quoted(_) => has_open = true,
        }
    }
    let Some(mut common) = common_type("VALUES", &types)? else { return Ok(None) };
    if !has_open {
        return Ok(Some(common));
    }
    match common {
        // What is open keeps its own digits, and its own length.
        SqlType::Scalar(ScalarType::Numeric { .. }) => {
            for cell in cells {
                let digits = match cell {
                    Cell::Quoted(text) => digits_in(text),
                    Cell::Open => numeric(38, i32::from(SqlType::NUMERIC_PARAMETER_SCALE)),
                    _ => continue,
                };
                common = common_numeric(common, digits).unwrap_or(common);
            }
        }
        SqlType::Scalar(ScalarType::Varchar { .. }) => common = ScalarType::Varchar { length: None }.into(),
        SqlType::Scalar(ScalarType::Char { .. }) => {
            return Err(Error::unsupported("VALUES of character(n) and another type are not supported")
                .with_hint("Cast character(n) to text."));
        }
        _ => {}
    }
    Ok(Some(common))
}

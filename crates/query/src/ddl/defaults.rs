//! DEFAULT of a column: checked when it is stated, computed for each row that does not name the column.

use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, Error, ErrorCode, Result};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::tree::{any_part, each_expression_of, each_node};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use pg_query::protobuf::a_const;
use pg_query::{NodeEnum, NodeRef};

use super::named_sequence;
use crate::assign::{Assigned, Literal};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::select::{Planner, SelectPlan, is_moment};
use crate::sql_types;
use crate::statement::{expression_text, selecting};

/// A DEFAULT: a constant of the column's type, or an expression kept as text.
///
/// # Errors
/// What PostgreSQL finds wrong with it when the table is made: 22P02 and the like where a constant is not of the
/// type, 42804 where an expression is not, 0A000 and 42803 for what a default may not read.
pub(super) fn of(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    expr: &pg_query::Node,
    column: &ColumnDef,
) -> Result<Option<ColumnDefault>> {
    if let Some(literal) = constant(expr, column) {
        return Ok(match literal.assign(column, engine.zone())? {
            ashlar_base::Value::Null => None,
            value => Some(ColumnDefault::Constant(value)),
        });
    }
    let text = text_of(expr)?;
    check(engine, catalog, &text, column)?;
    Ok(Some(ColumnDefault::Expression(text)))
}

/// Finds what would keep every INSERT from computing the default.
///
/// # Errors
/// As [`of`], for an expression.
pub(super) fn check(engine: &Engine, catalog: &Arc<CatalogState>, text: &str, column: &ColumnDef) -> Result<()> {
    let planner = Planner::new(engine, catalog);
    let statement = crate::select::parse(&format!("SELECT ({text})"))?;
    let logical = planner.logical(statement, &[])?;
    let mut refused = None;
    let mut has_query = false;
    let walked = each_node(&logical, |node| {
        refused = match node {
            LogicalPlan::Aggregate(_) => Some((ErrorCode::GroupingError, "aggregate functions are")),
            LogicalPlan::Window(_) => Some((ErrorCode::WindowingError, "window functions are")),
            LogicalPlan::Unnest(_) => Some((ErrorCode::FeatureNotSupported, "set-returning functions are")),
            _ => None,
        };
        each_expression_of(node, |expr| {
            has_query |= any_part(expr, |part| {
                Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(from_datafusion)?;
    if has_query {
        return Err(no_read("subquery"));
    }
    if let Some((code, what)) = refused {
        return Err(Error::new(code, format!("{what} not allowed in DEFAULT expressions")));
    }
    let plan = SelectPlan::from_logical(engine.state(), logical)?;
    if !plan.parameter_types.is_empty() {
        return Err(Error::new(ErrorCode::UndefinedParameter, "there is no parameter $1"));
    }
    let schema = plan.schema();
    let empty = arrow::array::new_empty_array(schema.field(0).data_type());
    Assigned::new(&empty, schema.field(0), column, engine.zone()).map(drop).map_err(|error| {
        let message = error.message().replace(" but expression is of type ", " but default expression is of type ");
        Error::new(error.code(), message).with_hint("You will need to rewrite or cast the expression.")
    })
}

/// A constant that means the same in the column as where it stands.
fn constant(node: &pg_query::Node, column: &ColumnDef) -> Option<Literal> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => Some(Literal::Null),
        NodeEnum::AConst(constant) => Some(match constant.val.as_ref()? {
            a_const::Val::Ival(value) => Literal::Number(value.ival.to_string()),
            a_const::Val::Fval(value) => Literal::Number(value.fval.clone()),
            a_const::Val::Boolval(value) => Literal::Bool(value.boolval),
            a_const::Val::Sval(value) => Literal::String(value.sval.clone()),
            a_const::Val::Bsval(_) => return None,
        }),
        NodeEnum::TypeCast(cast) => match constant(cast.arg.as_ref()?, column)? {
            text @ (Literal::String(_) | Literal::Null) => {
                let cast_to = sql_types::resolve(cast.type_name.as_ref()?).ok()?;
                (cast_to == column.sql_type).then_some(text)
            }
            _ => None,
        },
        NodeEnum::AExpr(expr) if expr.lexpr.is_none() => {
            let minus = expr.name.iter().filter_map(sql_types::string_of).eq(["-"]);
            match constant(expr.rexpr.as_ref()?, column)? {
                Literal::Number(digits) if minus => Some(Literal::Number(format!("-{digits}"))),
                _ => None,
            }
        }
        _ => None,
    }
}

fn no_read(what: &str) -> Error {
    Error::unsupported(format!("cannot use {what} in DEFAULT expression"))
}

/// An expression's text, as PostgreSQL's deparser writes it.
///
/// # Errors
/// 0A000 where it reads columns or tables.
fn text_of(expr: &pg_query::Node) -> Result<String> {
    for (node, ..) in selecting(expr).nodes() {
        let what = match node {
            NodeRef::ColumnRef(_) => "column reference",
            NodeRef::SubLink(_) => "subquery",
            NodeRef::TypeCast(cast) => {
                // PostgreSQL reads the word once, when the default is made.
                let written = cast.arg.as_ref().and_then(|arg| named_sequence::text_of(arg));
                if written.is_some_and(is_moment) {
                    return Err(Error::unsupported("a default that names a moment as a constant is not supported")
                        .with_hint("Use current_date or current_timestamp."));
                }
                continue;
            }
            _ => continue,
        };
        return Err(no_read(what));
    }
    expression_text(expr)
}

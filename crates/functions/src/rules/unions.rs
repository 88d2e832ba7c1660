//! The rows of a UNION have one type a column, and what a plan says of them holds whatever becomes of its parts.
//!
//! Called by the rule that settles aggregates, from the leaves up: the parts have their final types by then, and what stands above
//! has not yet looked at the union's. What is said of the columns besides follows at the end of all rules.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{Cast, Expr, LogicalPlan, Projection, Union};
use datafusion_optimizer::AnalyzerRule;

use super::conditions::common_type;
use crate::error::external;
use crate::fields::field_of;
use crate::tree::{any_node_with_subqueries, rewrite_nodes_with_subqueries};

/// What a union says of its columns besides their types, in the metadata of their fields, is what its parts say, as in the plan that
/// runs. The engine keeps what it said at first, when a part was an expression that knew its SQL type and not yet the function in its
/// place that does not: an aggregation above is planned only if both plans say the same.
///
/// Runs last, when nothing is replaced any more. A part that reads a row around it is another one when it runs: it stays as it is.
#[derive(Debug)]
pub struct UnionFields;

impl AnalyzerRule for UnionFields {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !any_node_with_subqueries(&plan, |node| Ok(matches!(node, LogicalPlan::Union(_))))? {
            return Ok(plan);
        }
        rewrite_nodes_with_subqueries(plan, |node| {
            Ok(Transformed::yes(match node.recompute_schema()? {
                LogicalPlan::Union(union) if union.inputs.iter().all(|input| input.all_out_ref_exprs().is_empty()) => {
                    LogicalPlan::Union(with_fields_of_parts(union)?)
                }
                other => other,
            }))
        })
    }

    fn name(&self) -> &str {
        "union_fields"
    }
}

fn with_fields_of_parts(union: Union) -> Result<Union> {
    let fields = union.schema.iter().enumerate().map(|(column, (qualifier, field))| {
        let mut metadata = HashMap::new();
        for of_part in union.inputs.iter().filter_map(|input| input.schema().fields().get(column)) {
            metadata.extend(of_part.metadata().clone());
        }
        (qualifier.cloned(), Arc::new(field.as_ref().clone().with_metadata(metadata)))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
    Ok(Union { schema: Arc::new(schema), inputs: union.inputs })
}

/// Quoted literals among a union's rows take the type of the others, which must match.
///
/// # Errors
/// 42804 where they do not.
pub(super) fn matched(union: Union) -> Result<Union> {
    let width = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(union);
    }
    let mut inputs: Vec<LogicalPlan> = union.inputs.iter().map(|input| input.as_ref().clone()).collect();
    let mut changed = false;
    for column in 0..width {
        let mut types: Vec<SqlType> = Vec::new();
        let mut is_known = true;
        for input in &inputs {
            let field = input.schema().field(column);
            if *field.data_type() == DataType::Null || literal_at(input, column).is_some() {
                continue;
            }
            match sql_type_of(field) {
                Some(sql_type) => types.push(sql_type),
                None => is_known = false,
            }
        }
        if !is_known {
            continue;
        }
        let Some(common) = common_type("UNION", &types).map_err(external)? else { continue };
        let wanted = field_of("column", common);
        for input in &mut inputs {
            let found = input.schema().field(column);
            // Texts of different types are one to the engine: the plan and the nodes that run it would take another one each.
            let is_other = found.data_type() != wanted.data_type() || sql_type_of(found) != Some(common);
            // A text is no json, whatever it holds.
            let is_read = *wanted.data_type() != DataType::Utf8
                || matches!(common, SqlType::Scalar(ScalarType::Json | ScalarType::Jsonb));
            if literal_at(input, column).is_some() && is_read {
                *input = with_cast(input, column, &wanted)?;
                changed = true;
            } else if is_other && *found.data_type() != DataType::Null && literal_at(input, column).is_none() {
                *input = all_cast(input, column, &wanted)?;
                changed = true;
            }
        }
    }
    let is_stale = union.inputs.iter().any(|input| {
        let fields = input.schema().fields().iter().zip(union.schema.fields());
        fields.into_iter().any(|(input, output)| input.data_type() != output.data_type())
    });
    if !changed && !is_stale {
        return nullable(union);
    }
    let inputs = inputs.into_iter().map(Arc::new).collect();
    nullable(Union::try_new_with_loose_types(inputs)?)
}

/// The union, any column of which may be NULL. The engine keeps a union's schema while rules change its inputs: what it said when a
/// part was a sum of columns that are never NULL would still stand when a function has taken the place of that sum, of which nobody
/// knows so much. An aggregate above is planned only if its input is NULL nowhere but where the plan said so.
fn nullable(union: Union) -> Result<Union> {
    if union.schema.fields().iter().all(|field| field.is_nullable()) {
        return Ok(union);
    }
    let fields = union.schema.iter().map(|(qualifier, field)| {
        let field = field.as_ref().clone().with_nullable(true);
        (qualifier.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
    Ok(Union { inputs: union.inputs, schema: Arc::new(schema) })
}

/// The quoted literal that a projection gives for a column.
fn literal_at(input: &LogicalPlan, column: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(projection) = input else { return None };
    let mut expr = projection.expr.get(column)?;
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _)).then_some(expr)
}

/// The rows with one column as another type.
fn all_cast(input: &LogicalPlan, column: usize, to: &FieldRef) -> Result<LogicalPlan> {
    let columns = input.schema().iter().enumerate().map(|(at, (qualifier, field))| {
        let expr = Expr::from((qualifier, field));
        if at != column {
            return expr;
        }
        let cast = Expr::Cast(Cast { expr: Box::new(expr), field: FieldRef::clone(to) });
        cast.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input.clone()))?))
}

fn with_cast(input: &LogicalPlan, column: usize, to: &FieldRef) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = input else { return Ok(input.clone()) };
    let name = projection.schema.field(column).name().clone();
    let mut exprs = projection.expr.clone();
    let literal = exprs[column].clone().unalias();
    let cast = Expr::Cast(Cast { expr: Box::new(literal), field: FieldRef::clone(to) });
    exprs[column] = cast.alias(name);
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&projection.input))?))
}

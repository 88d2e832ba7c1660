//! Statement parameters: their types, and values on their way into plans.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::fields::{field_of, scalar};
use ashlar_functions::rules::conditions::common_type;
use ashlar_functions::tree::{
    any_expression, any_node_with_subqueries, rewrite_expressions, rewrite_expressions_of,
    rewrite_nodes_with_subqueries, rewrite_parts, rewrite_parts_down,
};
use ashlar_store::arrow_types::sql_type_of;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, Projection, Union};

/// The declared types of a statement's parameters: by number from 0, `None` where the client left it open.
pub fn declared_fields(declared: &[u32]) -> Vec<Option<FieldRef>> {
    declared.iter().map(|oid| SqlType::from_oid(*oid).map(|sql_type| field_of("parameter", sql_type))).collect()
}

/// Parameters that a Bind message can count.
const PARAMETERS_MAX: usize = 65_535;

/// The parameter's number from 0, of an id such as `$1`; `None` beyond what a client can bind.
pub fn number_of(id: &str) -> Option<usize> {
    let number = id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
    (number < PARAMETERS_MAX).then_some(number)
}

/// Gives each open placeholder of a plan a type (text, as PostgreSQL does), and tells the types of all.
///
/// # Errors
/// As DataFusion's traversal.
pub fn settle(plan: LogicalPlan) -> Result<(LogicalPlan, Vec<SqlType>, Vec<bool>)> {
    let plan = of_unions(infer(plan)?)?;
    let plan = widen_numerics(plan)?;
    let fields: HashMap<String, Option<FieldRef>> = plan.get_parameter_fields().map_err(from_datafusion)?;
    let mut types: Vec<SqlType> = Vec::new();
    let mut used: Vec<bool> = Vec::new();
    for (id, field) in &fields {
        let Some(number) = number_of(id) else {
            return Err(Error::new(ErrorCode::UndefinedParameter, format!("there is no parameter {id}")));
        };
        if types.len() <= number {
            types.resize(number + 1, SqlType::Scalar(ScalarType::Text));
            used.resize(number + 1, false);
        }
        used[number] = true;
        if let Some(sql_type) = field.as_ref().and_then(|field| sql_type_of(field)) {
            types[number] = sql_type;
        }
    }
    let plan = rewrite_nodes_with_subqueries(plan, |node| {
        let rewritten = rewrite_expressions_of(node, |expr| {
            rewrite_parts(expr, |expr| match &expr {
                Expr::Placeholder(Placeholder { id, field }) => {
                    let Some(sql_type) = number_of(id).and_then(|number| types.get(number)) else {
                        return Ok(Transformed::no(expr));
                    };
                    let settled = field_of(id, *sql_type);
                    if field.as_ref().is_some_and(|field| field.data_type() == settled.data_type()) {
                        return Ok(Transformed::no(expr));
                    }
                    Ok(Transformed::yes(Expr::Placeholder(Placeholder { id: id.clone(), field: Some(settled) })))
                }
                _ => Ok(Transformed::no(expr)),
            })
        })?;
        rewritten.map_data(LogicalPlan::recompute_schema)
    })
    .map_err(from_datafusion)?;
    Ok((plan, types, used))
}

/// A parameter compared with a `numeric(p, s)` is a numeric, not one that is rounded to that scale: `d < $1` with 1.555. Nor has
/// what is compared with a `character(n)` its length.
/// Only a cast around it says how many decimals it has.
fn widen_numerics(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| {
        let rewritten = rewrite_expressions_of(node, |expr| {
            rewrite_parts_down(expr, |expr| match expr {
                Expr::Cast(cast) if matches!(*cast.expr, Expr::Placeholder(_)) => {
                    Ok(Transformed::new(Expr::Cast(cast), false, TreeNodeRecursion::Jump))
                }
                Expr::Placeholder(Placeholder { id, field: Some(field) }) => {
                    let wide = match field.data_type() {
                        DataType::Decimal128(_, scale) => Some(numeric_parameter(*scale)),
                        DataType::Utf8 => unlimited(&field),
                        _ => None,
                    };
                    let Some(wide) = wide else {
                        return Ok(Transformed::no(Expr::Placeholder(Placeholder { id, field: Some(field) })));
                    };
                    let field = Some(field_of("parameter", wide));
                    Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field })))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        rewritten.map_data(LogicalPlan::recompute_schema)
    })
    .map_err(from_datafusion)
}

/// `character(n)` without its length.
fn unlimited(field: &FieldRef) -> Option<SqlType> {
    match sql_type_of(field)? {
        SqlType::Scalar(ScalarType::Char { length: Some(_) }) => Some(ScalarType::Char { length: None }.into()),
        _ => None,
    }
}

/// The type of a numeric parameter whose place has so many decimals.
fn numeric_parameter(scale: i8) -> SqlType {
    let scale = u8::try_from(scale).unwrap_or(0).max(SqlType::NUMERIC_PARAMETER_SCALE);
    SqlType::Scalar(ScalarType::Numeric { precision: 38, scale })
}

fn is_open(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(placeholder) if placeholder.field.is_none())
}

fn typed(expr: Expr, field: FieldRef) -> Expr {
    match expr {
        Expr::Placeholder(placeholder) => Expr::Placeholder(Placeholder { field: Some(field), ..placeholder }),
        other => other,
    }
}

/// The type of a value that says one: neither an open placeholder nor a quoted literal.
fn known(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _) => None,
        // A whole number that fits is an integer; the planner has not narrowed it yet.
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok() => {
            Some(ScalarType::Int4.into())
        }
        other if is_open(other) => None,
        other => {
            let (_, field) = other.to_field(schema).ok()?;
            if *field.data_type() == DataType::Null { None } else { sql_type_of(&field) }
        }
    }
}

/// Values that meet, the open placeholders among them of the type in which the others do.
fn met(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let types: Vec<SqlType> = values.iter().filter_map(|value| known(value, schema)).collect();
    let Ok(Some(common)) = common_type("a parameter", &types) else { return values };
    let field = field_of("parameter", common);
    let settled =
        values.into_iter().map(|value| if is_open(&value) { typed(value, FieldRef::clone(&field)) } else { value });
    settled.collect()
}

/// Functions of values that meet.
const MEETING: [&str; 5] = ["coalesce", "nullif", "greatest", "least", "make_array"];

fn has_open(case: &Case) -> bool {
    let pairs = case.when_then_expr.iter().flat_map(|(when, then)| [when, then]);
    case.expr.iter().chain(&case.else_expr).chain(pairs).any(|part| is_open(part))
}

/// CASE whose conditions are booleans, or meet what they are compared with, and whose results meet.
fn of_case(case: Case, schema: &DFSchema) -> Case {
    let (whens, thens): (Vec<Expr>, Vec<Expr>) =
        case.when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let (base, whens) = match case.expr {
        None => {
            let condition = field_of("parameter", ScalarType::Bool.into());
            let whens = whens
                .into_iter()
                .map(|when| if is_open(&when) { typed(when, FieldRef::clone(&condition)) } else { when });
            (None, whens.collect())
        }
        Some(base) => {
            let mut all = met(std::iter::once(*base).chain(whens).collect(), schema);
            let base = all.remove(0);
            (Some(Box::new(base)), all)
        }
    };
    let count = thens.len();
    let mut results = met(thens.into_iter().chain(case.else_expr.map(|other| *other)).collect(), schema);
    let other = results.split_off(count).pop();
    let pairs = whens.into_iter().zip(results).map(|(when, then): (Expr, Expr)| (Box::new(when), Box::new(then)));
    Case::new(base, pairs.collect(), other.map(Box::new))
}

/// What the place of an open placeholder says about its type: the target of a cast around it, the values that it meets in CASE, COALESCE and
/// the like, and in `x = ANY($1)` an array of what it is compared with.
fn infer(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_expressions(plan, |expr, schema| {
        Ok(match expr {
            Expr::Case(case) if has_open(&case) => Transformed::yes(Expr::Case(of_case(case, schema))),
            // Asked of the lower bound first, as PostgreSQL does.
            Expr::Between(mut between) if is_open(&between.expr) => {
                match known(&between.low, schema).or_else(|| known(&between.high, schema)) {
                    Some(sql_type) => {
                        between.expr = Box::new(typed(*between.expr, field_of("parameter", sql_type)));
                        Transformed::yes(Expr::Between(between))
                    }
                    None => Transformed::no(Expr::Between(between)),
                }
            }
            Expr::Not(inner) if is_open(&inner) => {
                let condition = field_of("parameter", ScalarType::Bool.into());
                Transformed::yes(Expr::Not(Box::new(typed(*inner, condition))))
            }
            Expr::ScalarFunction(mut function)
                if MEETING.contains(&function.func.name()) && function.args.iter().any(is_open) =>
            {
                function.args = met(function.args, schema);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            // What stands in for a row that is not there is a value like those of the others.
            Expr::WindowFunction(mut function)
                if matches!(function.fun.name(), "lag" | "lead")
                    && function.params.args.get(2).is_some_and(is_open) =>
            {
                if let [value, _, other] = &mut function.params.args[..]
                    && let Some(sql_type) = known(value, schema)
                {
                    *other = typed(other.clone(), field_of("parameter", sql_type));
                }
                Transformed::yes(Expr::WindowFunction(function))
            }
            Expr::Cast(mut cast) if is_open(&cast.expr) => {
                cast.expr = Box::new(typed(*cast.expr, FieldRef::clone(&cast.field)));
                Transformed::yes(Expr::Cast(cast))
            }
            Expr::ScalarFunction(mut function) if function.args.iter().any(is_open) => {
                let fields = function
                    .args
                    .iter()
                    .map(|arg| arg.to_field(schema).map(|(_, field)| field))
                    .collect::<datafusion::common::Result<Vec<FieldRef>>>()?;
                let types = ashlar_functions::planner::argument_types(&function, &fields)?;
                let args = function.args.into_iter().zip(types);
                let is_known = |sql_type: Option<SqlType>| sql_type.map(|sql_type| field_of("parameter", sql_type));
                function.args = args
                    .map(|(arg, sql_type)| match is_known(sql_type) {
                        Some(field) if is_open(&arg) => typed(arg, field),
                        _ => arg,
                    })
                    .collect();
                Transformed::yes(Expr::ScalarFunction(function))
            }
            other => Transformed::no(other),
        })
    })
    .map_err(from_datafusion)
}

/// What a part of a union selects and has no type, is of the one that another part has there.
fn of_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_union = |node: &LogicalPlan| Ok(matches!(node, LogicalPlan::Union(_)));
    let has_any = any_node_with_subqueries(&plan, is_union)
        .and_then(|has_union| Ok(has_union && any_expression(&plan, |expr| Ok(is_open(expr)))?));
    if !has_any.map_err(from_datafusion)? {
        return Ok(plan);
    }
    let typed = rewrite_nodes_with_subqueries(plan, |node| {
        Ok(Transformed::yes(match node.recompute_schema()? {
            LogicalPlan::Union(union) => LogicalPlan::Union(with_types_of_others(union)?),
            other => other,
        }))
    });
    typed.map_err(from_datafusion)
}

fn with_types_of_others(union: Union) -> datafusion::common::Result<Union> {
    let width = union.schema.fields().len();
    let mut inputs: Vec<LogicalPlan> = union.inputs.iter().map(|input| input.as_ref().clone()).collect();
    let mut changed = false;
    for column in 0..width {
        let known = inputs.iter().find_map(|input| {
            let field = input.schema().fields().get(column)?;
            if *field.data_type() == DataType::Null { None } else { sql_type_of(field) }
        });
        let sql_type: SqlType = match known {
            // It does not have the length of a column beside it.
            Some(SqlType::Scalar(ScalarType::Varchar { .. })) => ScalarType::Varchar { length: None }.into(),
            Some(sql_type) => sql_type,
            None => continue,
        };
        for input in &mut inputs {
            let LogicalPlan::Projection(projection) = &*input else { continue };
            let Some(output) = projection.expr.get(column) else { continue };
            if !is_open(&output.clone().unalias()) {
                continue;
            }
            let mut exprs = projection.expr.clone();
            let name = projection.schema.field(column).name().clone();
            exprs[column] = typed(output.clone().unalias(), field_of("parameter", sql_type)).alias(name);
            let again = Projection::try_new(exprs, Arc::clone(&projection.input))?;
            *input = LogicalPlan::Projection(again);
            changed = true;
        }
    }
    if !changed {
        return Ok(union);
    }
    Union::try_new_with_loose_types(inputs.into_iter().map(Arc::new).collect())
}

/// The values for a plan.
///
/// # Errors
/// XX000 where a value is not of its type.
pub fn values_for(types: &[SqlType], used: &[bool], values: &[Value]) -> Result<ParamValues> {
    // Numbers that the plan does not use belong to another part of the statement, which knows their types.
    let scalars = types
        .iter()
        .zip(used)
        .zip(values)
        .map(|((sql_type, used), value)| if *used { scalar(*sql_type, value) } else { Ok(ScalarValue::Null) });
    Ok(ParamValues::from(scalars.collect::<Result<Vec<ScalarValue>>>()?))
}

//! Aggregates of numbers with PostgreSQL's types and digits: `sum(bigint)` and averages are numeric and exact,
//! `sum(real)` is real, `variance` and its like of exact numbers are numeric. And unions of them, in the same walk: each may read
//! the other, and takes its types from it. What else the planner could not know a type of is retyped on the way.
//!
//! Runs before type coercion. What an aggregate gives is finished by a projection above it:
//!
//! ```text
//!   avg(x)   ->   numeric_div(sum(x), count(x))   over   sum(x), count(x)
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_base::{Error, ErrorCode, SqlType};
use ashlar_store::arrow_types::to_arrow_type;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, ScalarFunction, Sort, WindowFunction};
use datafusion_expr::{
    Aggregate, AggregateUDF, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Window, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_optimizer::AnalyzerRule;

use super::{distances, retyped, unions};
use crate::catalog::numeric;
use crate::decimals::{AVERAGE_SCALE, NumericOperation};
use crate::error::external;
use crate::float_extremes;
use crate::float_sum;
use crate::floats::FloatCheck;
use crate::framed;
use crate::integer_sum;
use crate::percentile;
use crate::shift;
use crate::tree::rewrite_nodes_with_subqueries;
use crate::variance::{self, Variance};

/// Of what a `sum(DISTINCT bigint)` adds up: room for 10^19 rows of the greatest bigint.
const SUM_TYPE: DataType = DataType::Decimal128(38, 0);
/// Digits of numerics whose sums fit 38 digits for any number of rows: ten digits count rows.
const NARROW_PRECISION_MAX: u8 = 28;

/// See the module.
#[derive(Debug)]
pub struct NumericAggregates;

impl AnalyzerRule for NumericAggregates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if retyped::is_needed(&plan)? {
            return retyped::from_below(plan, &mut of_node);
        }
        rewrite_nodes_with_subqueries(plan, |node| of_node(node).map(Transformed::yes))
    }

    fn name(&self) -> &str {
        "numeric_aggregates"
    }
}

fn of_node(node: LogicalPlan) -> Result<LogicalPlan> {
    // An input whose columns changed their types is seen by the nodes above. So are literals that were narrowed below a union.
    match node.recompute_schema()? {
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
        LogicalPlan::Window(window) => of_window(window),
        LogicalPlan::Union(union) => Ok(LogicalPlan::Union(unions::matched(union)?)),
        other => Ok(other),
    }
}

/// How the result of an aggregate comes from what is computed.
enum Finish {
    /// It is what is computed.
    Same,
    /// Cast to another type, which fails where it does not fit.
    Cast(DataType),
    /// A float of this type, checked by the sum of its inputs' marks.
    Float(DataType),
    /// A sum of floats, checked likewise, divided by a count.
    FloatAverage,
    /// A sum divided by a count.
    Quotient(SqlType, i32),
}

/// An aggregate and what it is of.
type Computed = (Arc<AggregateUDF>, Expr);

/// What to compute, and how to finish it; `None` where the engine's own is right.
fn plan_of(name: &str, args: &[Expr], is_distinct: bool, schema: &DFSchema) -> Result<Option<(Vec<Computed>, Finish)>> {
    let [arg] = args else { return Ok(None) };
    let Ok(arg_type) = arg.get_type(schema) else { return Ok(None) };
    let cast = |to: DataType| Expr::Cast(Cast::new(Box::new(arg.clone()), to));
    let is_integer = matches!(arg_type, DataType::Int16 | DataType::Int32 | DataType::Int64);
    // Ours is fast and knows nothing of DISTINCT.
    let integers = |arg: Expr| match is_distinct {
        true => (sum_udaf(), cast(SUM_TYPE)),
        false => (integer_sum::udaf(), arg),
    };
    Ok(Some(match (name, &arg_type) {
        ("sum", DataType::Int64) => (vec![integers(arg.clone())], Finish::Same),
        ("sum" | "avg", DataType::Float32 | DataType::Float64) => {
            let double = cast(DataType::Float64);
            let mark = ScalarFunction { func: Arc::new(FloatCheck::mark()), args: vec![double.clone()] };
            let sum = vec![(sum_udaf(), double), (sum_udaf(), Expr::ScalarFunction(mark))];
            match name {
                "sum" => (sum, Finish::Float(arg_type.clone())),
                _ => ([sum, vec![(count_udaf(), arg.clone())]].concat(), Finish::FloatAverage),
            }
        }
        (name, DataType::Float32 | DataType::Float64) if let Some(extreme) = float_extremes::udaf(name) => {
            (vec![(extreme, arg.clone())], Finish::Same)
        }
        ("sum", DataType::Decimal128(precision, scale)) if *precision > NARROW_PRECISION_MAX => {
            let wide = cast(DataType::Decimal256(*precision, *scale));
            (vec![(sum_udaf(), wide)], Finish::Cast(DataType::Decimal128(38, *scale)))
        }
        ("avg", DataType::Decimal128(precision, scale)) => {
            let arg = if *precision > NARROW_PRECISION_MAX {
                cast(DataType::Decimal256(*precision, *scale))
            } else {
                arg.clone()
            };
            let to = numeric(38, AVERAGE_SCALE.max(i32::from(*scale)));
            (vec![(sum_udaf(), arg.clone()), (count_udaf(), arg)], Finish::Quotient(to, i32::from(*scale)))
        }
        ("avg", _) if is_integer => {
            let sums = vec![integers(cast(DataType::Int64)), (count_udaf(), arg.clone())];
            (sums, Finish::Quotient(numeric(38, AVERAGE_SCALE), 0))
        }
        (name, DataType::Decimal128(_, scale)) if let Some(variance) = Variance::named(name) => {
            let arg = cast(DataType::Decimal128(38, *scale));
            (vec![(variance::udaf(variance, *scale), arg)], Finish::Same)
        }
        (name, _) if is_integer && let Some(variance) = Variance::named(name) => {
            (vec![(variance::udaf(variance, 0), cast(SUM_TYPE))], Finish::Same)
        }
        _ => return Ok(None),
    }))
}

/// The expression over the computed columns.
fn finished(finish: &Finish, computed: &[Expr]) -> Expr {
    match (finish, computed) {
        (Finish::Cast(to), [value]) => Expr::Cast(Cast::new(Box::new(value.clone()), to.clone())),
        (Finish::Float(to), [value, marks]) => {
            let args = vec![value.clone(), marks.clone()];
            let checked = Expr::ScalarFunction(ScalarFunction { func: Arc::new(FloatCheck::result()), args });
            if *to == DataType::Float64 { checked } else { Expr::Cast(Cast::new(Box::new(checked), to.clone())) }
        }
        (Finish::FloatAverage, [_, _, _]) => {
            let args = computed.to_vec();
            Expr::ScalarFunction(ScalarFunction { func: Arc::new(FloatCheck::average()), args })
        }
        (Finish::Quotient(to, scale), [sum, count]) => {
            let cast = |expr: &Expr, to: SqlType| Expr::Cast(Cast::new(Box::new(expr.clone()), to_arrow_type(to)));
            let args = vec![cast(sum, numeric(38, *scale)), cast(count, numeric(19, 0))];
            let func = Arc::new(NumericOperation::udf(Operator::Divide, *to));
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        (_, computed) => computed.first().cloned().unwrap_or_default(),
    }
}

/// The computed column of this number.
fn computed_name(at: usize) -> String {
    format!("aggregate value {at}")
}

/// What a projection over these shows of them. Which grouping set a row belongs to is between an aggregate and the engine's own
/// rule, which runs later and takes the column away: who names it here names nothing there.
fn shown_inputs(columns: &[Column]) -> Vec<Expr> {
    let is_shown = |column: &&Column| column.name != Aggregate::INTERNAL_GROUPING_ID;
    columns.iter().filter(is_shown).cloned().map(Expr::Column).collect()
}

fn of_aggregate(aggregate: Aggregate) -> Result<LogicalPlan> {
    let schema = Arc::clone(aggregate.input.schema());
    let outputs = aggregate.schema.columns();
    let groups = outputs.len() - aggregate.aggr_expr.len();
    let mut computed = Vec::with_capacity(aggregate.aggr_expr.len());
    let mut shown = shown_inputs(&outputs[..groups]);
    let mut changed = false;
    for (expr, output) in aggregate.aggr_expr.iter().zip(&outputs[groups..]) {
        let other = match exact_percentile(expr, &schema)? {
            Some(exact) => Some(exact),
            None => sorted_distinct(expr, &schema)?,
        };
        if let Some(other) = other {
            changed = true;
            let name = computed_name(computed.len());
            computed.push(other.alias(&name));
            let result = Expr::Column(Column::new_unqualified(name));
            shown.push(result.alias_qualified(output.relation.clone(), &output.name));
            continue;
        }
        let plan = match expr.clone().unalias() {
            Expr::AggregateFunction(AggregateFunction { func, params }) => {
                plan_of(func.name(), &params.args, params.distinct, &schema)?.map(|plan| (plan, params))
            }
            _ => None,
        };
        let Some(((parts, finish), params)) = plan else {
            computed.push(expr.clone());
            shown.push(Expr::Column(output.clone()));
            continue;
        };
        changed = true;
        let mut columns = Vec::with_capacity(parts.len());
        for (func, arg) in parts {
            let name = computed_name(computed.len());
            let mut params = params.clone();
            params.args = vec![arg];
            computed.push(Expr::AggregateFunction(AggregateFunction { func, params }).alias(&name));
            columns.push(Expr::Column(Column::new_unqualified(name)));
        }
        let result = finished(&finish, &columns);
        shown.push(result.alias_qualified(output.relation.clone(), &output.name));
    }
    if !changed {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let plan = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, aggregate.group_expr, computed)?);
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}

fn of_window(window: Window) -> Result<LogicalPlan> {
    let schema = Arc::clone(window.input.schema());
    let outputs = window.schema.columns();
    let inputs = outputs.len() - window.window_expr.len();
    let mut computed = Vec::with_capacity(window.window_expr.len());
    let mut shown = shown_inputs(&outputs[..inputs]);
    let mut changed = false;
    for (at, output) in outputs.iter().enumerate().skip(inputs) {
        let expr = &window.window_expr[at - inputs];
        let is_counted = *window.schema.field(at).data_type() == DataType::UInt64;
        let framed = match by_peers(expr, &schema)? {
            Some(framed) => Some(framed),
            None => distances::settled(expr, &schema)?,
        };
        let framed = match by_row(framed.as_ref().unwrap_or(expr), &schema)? {
            Some(other) => Some(other),
            None => framed,
        };
        let is_same = framed.is_none() && !is_counted;
        let expr = framed.as_ref().unwrap_or(expr);
        let plan = match expr.clone().unalias() {
            Expr::WindowFunction(function) => match &function.fun {
                WindowFunctionDefinition::AggregateUDF(func) => {
                    plan_of(func.name(), &function.params.args, function.params.distinct, &schema)?
                        .map(|plan| (plan, function))
                }
                WindowFunctionDefinition::WindowUDF(_) => None,
            },
            _ => None,
        };
        let Some(((parts, finish), function)) = plan else {
            let anew = aggregated_anew(expr);
            let is_as_before = is_same && anew.is_none();
            let part = anew.unwrap_or_else(|| expr.clone().unalias());
            if is_as_before && name_in(&computed, &part).is_none() {
                computed.push(expr.clone());
                shown.push(Expr::Column(output.clone()));
                continue;
            }
            changed = true;
            // Frames that are written otherwise may be the same: those that have no rows, and offsets with quotes and without.
            let name = name_of(part, &mut computed);
            let result = Expr::Column(Column::new_unqualified(name));
            // PostgreSQL has no unsigned integers.
            let result = if is_counted {
                let to = if is_ntile(expr) { DataType::Int32 } else { DataType::Int64 };
                Expr::Cast(Cast::new(Box::new(result), to))
            } else {
                result
            };
            shown.push(result.alias_qualified(output.relation.clone(), &output.name));
            continue;
        };
        changed = true;
        let mut columns = Vec::with_capacity(parts.len());
        for (func, arg) in parts {
            let is_of_floats = func.name() == "sum" && arg.get_type(&schema)? == DataType::Float64;
            let func = if is_of_floats { float_sum::udaf() } else { func };
            let mut params = function.params.clone();
            params.args = vec![arg];
            let fun = WindowFunctionDefinition::AggregateUDF(func);
            let part = Expr::WindowFunction(Box::new(WindowFunction { fun, params }));
            columns.push(Expr::Column(Column::new_unqualified(name_of(part, &mut computed))));
        }
        let result = finished(&finish, &columns);
        shown.push(result.alias_qualified(output.relation.clone(), &output.name));
    }
    if !changed {
        return Ok(LogicalPlan::Window(window));
    }
    let plan = LogicalPlan::Window(Window::try_new(computed, window.input)?);
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}

/// The name under which a window function is computed: that of the same one, if there is one, for the engine would compute what two have in
/// common beneath the window, where there are no window functions.
fn name_of(part: Expr, computed: &mut Vec<Expr>) -> String {
    name_in(computed, &part).unwrap_or_else(|| {
        let name = computed_name(computed.len());
        computed.push(part.alias(&name));
        name
    })
}

/// The name of the same one among these.
fn name_in(computed: &[Expr], part: &Expr) -> Option<String> {
    computed.iter().find_map(|one| match one {
        Expr::Alias(alias) if *alias.expr == *part => Some(alias.name.clone()),
        one if one == part => Some(one.schema_name().to_string()),
        _ => None,
    })
}

/// `percentile_cont` of numbers, which is one of doubles. The engine's other ones are refused by it.
fn exact_percentile(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expr.clone().unalias() else {
        return Ok(None);
    };
    let [value, part] = &params.args[..] else { return Ok(None) };
    let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|found| found.is_numeric() || found.is_null());
    if func.name() != "percentile_cont" || !is_number(value) || !is_number(part) {
        return Ok(None);
    }
    if let Expr::Literal(part, _) = part
        && let Ok(ScalarValue::Float64(Some(part))) = part.cast_to(&DataType::Float64)
    {
        percentile::check(part)?;
    }
    let double = |expr: &Expr| Expr::Cast(Cast::new(Box::new(expr.clone()), DataType::Float64));
    let is_descending = params.order_by.first().is_some_and(|sort| !sort.asc);
    params.args = vec![double(value), double(part)];
    params.order_by.clear();
    let func = percentile::udaf(is_descending);
    Ok(Some(Expr::AggregateFunction(AggregateFunction { func, params })))
}

/// `array_agg(DISTINCT x)` and `string_agg(DISTINCT x, ',')`, which PostgreSQL finds by sorting.
fn sorted_distinct(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expr.clone().unalias() else {
        return Ok(None);
    };
    let Some(value) = params.args.first() else { return Ok(None) };
    let is_concerned = params.distinct && params.order_by.is_empty();
    if !is_concerned || !matches!(func.name(), "array_agg" | "string_agg") || value.get_type(schema)?.is_null() {
        return Ok(None);
    }
    params.order_by = vec![Sort::new(value.clone(), true, false)];
    Ok(Some(Expr::AggregateFunction(AggregateFunction { func, params })))
}

/// An aggregate from which nothing can be taken away exactly when it leaves a frame: the engine can with some of them, and would leave what
/// rounding had made of it, NaN for ever.
fn aggregated_anew(expr: &Expr) -> Option<Expr> {
    let Expr::WindowFunction(mut function) = expr.clone().unalias() else { return None };
    let WindowFunctionDefinition::AggregateUDF(inner) = &function.fun else { return None };
    let around = framed::udaf(inner)?;
    function.fun = WindowFunctionDefinition::AggregateUDF(around);
    Some(Expr::WindowFunction(function))
}

/// `lag` and `lead` with an offset or a default that is not the same for all rows, or with no offset at all: NULL.
fn by_row(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::WindowFunction(mut function) = expr.clone().unalias() else { return Ok(None) };
    let WindowFunctionDefinition::WindowUDF(inner) = &function.fun else { return Ok(None) };
    let is_lead = inner.name() == "lead";
    if !is_lead && inner.name() != "lag" || shift::is_one(inner) {
        return Ok(None);
    }
    let [value, offset, others @ ..] = &function.params.args[..] else { return Ok(None) };
    let is_unknown = is_null(offset);
    // A parameter may be NULL when it comes.
    let is_parameter =
        matches!(offset, Expr::Placeholder(_)) && offset.get_type(schema).is_ok_and(|found| found.is_integer());
    let varies = |expr: &Expr| !expr.column_refs().is_empty();
    if !is_unknown && !is_parameter && !varies(offset) && !others.iter().any(varies) {
        return Ok(None);
    }
    let (value_type, offset_type) = (value.get_type(schema)?, offset.get_type(schema)?);
    if !is_unknown && !offset_type.is_integer() {
        let message = format!("function {} does not exist", inner.name());
        return Err(external(Error::new(ErrorCode::UndefinedFunction, message)));
    }
    let cast = |expr: &Expr, to: &DataType| Expr::Cast(Cast::new(Box::new(expr.clone()), to.clone()));
    let mut args = vec![value.clone(), cast(offset, &DataType::Int64)];
    for other in others {
        let other_type = other.get_type(schema)?;
        // Those that meet in another type than the value's have been cast to it before.
        let is_fitting = other_type.is_null()
            || other_type.is_numeric() && value_type.is_numeric()
            || matches!(other, Expr::Literal(..) | Expr::Placeholder(_)) && other_type == DataType::Utf8;
        args.push(match other_type == value_type {
            true => other.clone(),
            false if is_fitting => cast(other, &value_type),
            false => {
                let message = format!("{} of a value and a default of two types is not supported", inner.name());
                return Err(external(Error::unsupported(message).with_hint("Cast the default to the value's type.")));
            }
        });
    }
    function.params.args = args;
    function.fun = WindowFunctionDefinition::WindowUDF(shift::udwf(is_lead));
    Ok(Some(Expr::WindowFunction(function)))
}

/// Whether it is NULL as it is written, of whatever type.
fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// A window over values that have an order and no distance, such as uuids and texts, which may be documents that are ordered by their keys later: its
/// frame is said in groups of equal rows, which means the same where no distance is named.
fn by_peers(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::WindowFunction(mut function) = expr.clone().unalias() else { return Ok(None) };
    let frame = &function.params.window_frame;
    let Some(first) = function.params.order_by.first() else { return Ok(None) };
    let has_distance = !matches!(
        first.expr.get_type(schema)?,
        DataType::FixedSizeBinary(_)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
    );
    let end = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(WindowFrameBound::CurrentRow),
        WindowFrameBound::Preceding(distance) if distance.is_null() => {
            Some(WindowFrameBound::Preceding(ScalarValue::UInt64(None)))
        }
        WindowFrameBound::Following(distance) if distance.is_null() => {
            Some(WindowFrameBound::Following(ScalarValue::UInt64(None)))
        }
        WindowFrameBound::Preceding(_) | WindowFrameBound::Following(_) => None,
    };
    let (Some(start), Some(end)) = (end(&frame.start_bound), end(&frame.end_bound)) else { return Ok(None) };
    if has_distance || frame.units != WindowFrameUnits::Range {
        return Ok(None);
    }
    function.params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Ok(Some(Expr::WindowFunction(function)))
}

fn is_ntile(expr: &Expr) -> bool {
    matches!(expr.clone().unalias(), Expr::WindowFunction(function) if function.fun.name() == "ntile")
}

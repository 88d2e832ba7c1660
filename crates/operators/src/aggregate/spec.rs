//! The description of an aggregation: its keys, its aggregates and their inputs.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_expr::GroupsAccumulator;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, PhysicalGroupBy, aggregate_expressions, evaluate_group_by};

use super::states::{
    Counts, Distinct, Habit, State, Stock, Sums, is_ordered, lists_of, of_extremes, of_float_sums, pairs_of,
};
use crate::hash_table::keys::{Packed, Packing};
use crate::memory::Memory;
use crate::widened::widened;

mod expected;

/// An aggregate.
struct Aggregate {
    expr: Arc<AggregateFunctionExpr>,
    args: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    kind: Kind,
    /// Of values that are counted once: how pairs of groups and values of this type are kept, and the aggregate without DISTINCT.
    distinct: Option<(Packing, DataType, Arc<AggregateFunctionExpr>)>,
    /// Columns of what is known of a group.
    state_fields: Vec<FieldRef>,
}

/// Whose state an aggregate has.
#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Count,
    /// With results of this type.
    Sum(DataType),
    FloatSum,
    /// Of values of this type.
    Min(DataType),
    Max(DataType),
    /// The engine's.
    Stock,
}

impl Kind {
    fn of(name: &str, types: &[DataType], result: &DataType) -> Self {
        match (name, types) {
            ("count", [_]) => Self::Count,
            ("sum", [value]) if Sums::can(value, result) => Self::Sum(result.clone()),
            ("sum", [DataType::Float64]) if *result == DataType::Float64 => Self::FloatSum,
            ("min", [value]) if is_ordered(value) && value == result => Self::Min(value.clone()),
            ("max", [value]) if is_ordered(value) && value == result => Self::Max(value.clone()),
            _ => Self::Stock,
        }
    }

    /// The type of what is known of a group; `None` where the engine says what that is.
    fn state_type(&self) -> Option<DataType> {
        match self {
            Self::Count => Some(DataType::Int64),
            Self::Sum(result) => Some(Sums::state_type(result)),
            Self::FloatSum => Some(DataType::Float64),
            Self::Min(value) | Self::Max(value) => Some(value.clone()),
            Self::Stock => None,
        }
    }

    /// The same of the engine's first stage, of what is ours. Of sums it is the result.
    fn state_type_of_stock(&self) -> Option<DataType> {
        match self {
            Self::Sum(result) => Some(result.clone()),
            other => other.state_type(),
        }
    }
}

/// See the module.
pub(crate) struct Spec {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Columns of a key: of grouping sets there is one more, which says of which set it is.
    key_columns: usize,
    /// Where there are several sets of keys, with the schema of the input.
    sets: Option<(PhysicalGroupBy, SchemaRef)>,
    pub(crate) packing: Packing,
    aggregates: Vec<Aggregate>,
    /// Whether the rows of the input are what the engine's first stage knows of groups.
    is_of_states: bool,
    /// Of the results.
    pub(crate) schema: SchemaRef,
    /// Of groups with what is known of them, as files have them.
    pub(crate) partial_schema: SchemaRef,
}

/// Rows, as groups take them: with their inputs, or with what others know of their groups.
pub(crate) struct Rows {
    pub(crate) packed: Packed,
    /// Of each aggregate.
    pub(crate) values: Vec<Vec<ArrayRef>>,
    /// Of each aggregate.
    pub(crate) filters: Vec<Option<BooleanArray>>,
    /// Whether the values are states.
    pub(crate) is_partial: bool,
}

impl Spec {
    /// Of an aggregation that the engine has planned, with the inputs of its first stage; `None` where the engine's own
    /// has to do it.
    ///
    /// # Errors
    /// What expressions say of their types.
    pub(crate) fn of(first: &AggregateExec, schema: SchemaRef) -> Result<Option<Self>> {
        Self::made(first, schema, false)
    }

    /// Of the last stage of one, whose input is what the engine's first stage knows of groups; `None` as there.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn of_states(last: &AggregateExec) -> Result<Option<Self>> {
        // What is left out of a set of keys is NULL by now.
        if !last.group_expr().is_single() {
            return Ok(None);
        }
        Self::made(last, last.schema(), true)
    }

    fn made(planned: &AggregateExec, schema: SchemaRef, is_of_states: bool) -> Result<Option<Self>> {
        let (group_by, input) = (planned.group_expr(), planned.input().schema());
        if group_by.is_true_no_grouping() {
            return Ok(None);
        }
        let (mut keys, mut types, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (expr, _)) in group_by.expr().iter().enumerate() {
            let is_left_out = group_by.groups().iter().any(|set| set[place]);
            types.push((expr.data_type(&input)?, is_left_out || expr.nullable(&input)?));
            keys.push(Arc::clone(expr));
        }
        if !group_by.is_single() {
            types.push((schema.field(keys.len()).data_type().clone(), false));
        }
        fields.extend(schema.fields().iter().take(types.len()).cloned());
        let Some(packing) = Packing::of(&types) else { return Ok(None) };
        // What comes out is what was promised.
        if types.iter().zip(&fields).any(|((found, _), field)| found != field.data_type()) {
            return Ok(None);
        }
        let mut aggregates = Vec::new();
        let inputs = aggregate_expressions(planned.aggr_expr(), planned.mode(), types.len())?;
        for ((expr, filter), inputs) in planned.aggr_expr().iter().zip(planned.filter_expr()).zip(inputs) {
            if !expr.order_bys().is_empty() {
                return Ok(None);
            }
            let aggregate = if is_of_states {
                Aggregate::of_states(expr, inputs, &planned.input_schema())?
            } else {
                Aggregate::of(expr, filter.clone(), &input)?
            };
            fields.extend(aggregate.state_fields.iter().cloned());
            aggregates.push(aggregate);
        }
        let partial_schema = Arc::new(Schema::new(fields));
        let sets = (!group_by.is_single()).then(|| (group_by.clone(), input));
        let key_columns = types.len();
        Ok(Some(Self { keys, key_columns, sets, packing, aggregates, is_of_states, schema, partial_schema }))
    }

    /// How many groups a row belongs to.
    pub(crate) fn sets(&self) -> usize {
        self.sets.as_ref().map_or(1, |(sets, _)| sets.groups().len())
    }

    /// The columns of the results that every group has from a column of the input with the same name; `None` where there is a group without
    /// rows.
    pub(crate) fn plain_keys(&self, input: &Schema) -> Option<HashSet<usize>> {
        let sets = self.sets.as_ref().map_or(&[][..], |(sets, _)| sets.groups());
        if sets.iter().any(|set| is_empty_set(set)) {
            return None;
        }
        let is_plain = |place: &usize| {
            let name = self.schema.field(*place).name();
            let column = self.keys[*place].downcast_ref::<Column>();
            let is_named = |column: &Column| {
                column.name() == name && input.index_of(name).is_ok_and(|place| place == column.index())
            };
            column.is_some_and(is_named) && !sets.iter().any(|set| set[*place])
        };
        Some((0..self.keys.len()).filter(is_plain).collect())
    }

    /// The expressions over the input.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let of_aggregates = self.aggregates.iter().flat_map(|one| one.args.iter().chain(&one.filter));
        self.keys.iter().chain(of_aggregates)
    }

    /// What EXPLAIN shows.
    pub(crate) fn describe(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let aggregates: Vec<&str> =
            self.aggregates.iter().map(|one| one.expr.human_display().unwrap_or_else(|| one.expr.name())).collect();
        let sets = if self.sets.is_some() { format!(", sets={}", self.sets()) } else { String::new() };
        format!("keys=[{}]{sets}, aggregates=[{}]", keys.join(", "), aggregates.join(", "))
    }

    /// The states of no groups yet.
    ///
    /// # Errors
    /// What the aggregates find.
    pub(crate) fn states(&self, memory: &Arc<Memory>) -> Result<Vec<Box<dyn State>>> {
        self.aggregates.iter().map(|one| one.state(memory)).collect()
    }

    /// Rows of the input, for each set of keys: packed when it is their turn, since all of them are as many bytes as there are sets.
    ///
    /// # Errors
    /// What evaluating finds; of each, where a batch has more bytes of keys than 32 bits count.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<impl Iterator<Item = Result<Rows>>> {
        let count = batch.num_rows();
        let array = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(count);
        let keys = match &self.sets {
            None => vec![self.keys.iter().map(array).collect::<Result<Vec<_>>>()?],
            Some((sets, _)) => evaluate_group_by(sets, batch)?,
        };
        let mut values = Vec::with_capacity(self.aggregates.len());
        let mut filters = Vec::with_capacity(self.aggregates.len());
        for one in &self.aggregates {
            let inputs = one.args.iter().map(array).collect::<Result<Vec<_>>>()?;
            values.push(if self.is_of_states { one.states(inputs)? } else { inputs });
            filters.push(match &one.filter {
                Some(filter) => Some(array(filter)?.as_boolean().clone()),
                None => None,
            });
        }
        Ok(keys.into_iter().map(move |keys| self.of_keys(&keys, &values, &filters)))
    }

    fn of_keys(&self, keys: &[ArrayRef], values: &[Vec<ArrayRef>], filters: &[Option<BooleanArray>]) -> Result<Rows> {
        let packed = self.packing.pack(keys)?;
        Ok(Rows { packed, values: values.to_vec(), filters: filters.to_vec(), is_partial: self.is_of_states })
    }

    /// Of an input without rows, those that make the groups that there are all the same: of sets without keys. No aggregate takes
    /// them.
    ///
    /// # Errors
    /// What evaluating finds.
    pub(crate) fn rows_of_nothing(&self) -> Result<Vec<Rows>> {
        let Some((sets, input)) = &self.sets else { return Ok(Vec::new()) };
        if !sets.groups().iter().any(|set| is_empty_set(set)) {
            return Ok(Vec::new());
        }
        let fields: Vec<FieldRef> =
            input.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect();
        let columns = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        let null = |arg: &Arc<dyn PhysicalExpr>| Ok(new_null_array(&arg.data_type(input)?, 1));
        let values = self.aggregates.iter().map(|one| one.args.iter().map(null).collect::<Result<Vec<_>>>());
        let values = values.collect::<Result<Vec<_>>>()?;
        let filters = vec![Some(BooleanArray::from(vec![false])); self.aggregates.len()];
        let keys = evaluate_group_by(sets, &row)?.into_iter().zip(sets.groups());
        keys.filter(|(_, set)| is_empty_set(set)).map(|(keys, _)| self.of_keys(&keys, &values, &filters)).collect()
    }

    /// Rows of groups that were written with what was known of them.
    ///
    /// # Errors
    /// Where there are more bytes than a batch has.
    pub(crate) fn partial_rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let (keys, mut states) = batch.columns().split_at(self.key_columns);
        let mut values = Vec::with_capacity(self.aggregates.len());
        for one in &self.aggregates {
            let (own, rest) = states.split_at(one.state_fields.len());
            values.push(own.to_vec());
            states = rest;
        }
        let filters = vec![None; self.aggregates.len()];
        Ok(Rows { packed: self.packing.pack(keys)?, values, filters, is_partial: true })
    }
}

/// Whether a set of keys is without any: all rows are one group of it, even if there are none.
fn is_empty_set(set: &[bool]) -> bool {
    set.iter().all(|is_left_out| *is_left_out)
}

impl Aggregate {
    fn of(expr: &Arc<AggregateFunctionExpr>, filter: Option<Arc<dyn PhysicalExpr>>, input: &SchemaRef) -> Result<Self> {
        let mut args = expr.expressions();
        let is_constant = |arg: &Arc<dyn PhysicalExpr>| {
            arg.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
        };
        let types = args.iter().map(|arg| arg.data_type(input)).collect::<Result<Vec<_>>>()?;
        let distinct = if expr.is_distinct() { Self::distinct(expr, &types, input)? } else { None };
        // The least of values is the same however often each is there.
        let counts_once = expr.is_distinct() && !matches!(expr.fun().name(), "min" | "max");
        let kind = match (counts_once, &distinct) {
            (true, None) => Kind::Stock,
            _ => Kind::of(expr.fun().name(), &types, expr.field().data_type()),
        };
        if kind == Kind::Count && distinct.is_none() && args.iter().all(is_constant) {
            args.clear();
        }
        let own = distinct.as_ref().map(|(_, value, _)| lists_of(value)).or_else(|| kind.state_type());
        let state_fields = state_fields(expr, own)?;
        for arg in &mut args {
            *arg = widened(arg, input)?.data;
        }
        Ok(Self { expr: Arc::clone(expr), args, filter, kind, distinct, state_fields })
    }

    /// Of what the engine's first stage knows of groups, in the columns `args`; `input` is what that stage was made of. Ours where the
    /// engine knows the same.
    fn of_states(
        expr: &Arc<AggregateFunctionExpr>,
        args: Vec<Arc<dyn PhysicalExpr>>,
        input: &SchemaRef,
    ) -> Result<Self> {
        let types = expr.expressions().iter().map(|arg| arg.data_type(input)).collect::<Result<Vec<_>>>()?;
        let counts_once = expr.is_distinct() && !matches!(expr.fun().name(), "min" | "max");
        let kind = Kind::of(expr.fun().name(), &types, expr.field().data_type());
        let known = expr.state_fields()?;
        let is_same = matches!(&known[..], [field] if kind.state_type_of_stock().as_ref() == Some(field.data_type()));
        let kind = if counts_once || !is_same { Kind::Stock } else { kind };
        let state_fields = state_fields(expr, kind.state_type())?;
        Ok(Self { expr: Arc::clone(expr), args, filter: None, kind, distinct: None, state_fields })
    }

    /// What the engine's first stage knows of groups, as it is kept here.
    fn states(&self, known: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let Kind::Sum(result) = &self.kind else { return Ok(known) };
        // To more digits, of which no value has too many.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let wide = |sums: &ArrayRef| Ok(cast_with_options(sums, &Sums::state_type(result), &options)?);
        known.iter().map(wide).collect()
    }

    /// How values of an aggregate with DISTINCT are kept, and the aggregate without; `None` where the engine's has to do it.
    fn distinct(
        expr: &Arc<AggregateFunctionExpr>,
        types: &[DataType],
        input: &SchemaRef,
    ) -> Result<Option<(Packing, DataType, Arc<AggregateFunctionExpr>)>> {
        let ([value], "count" | "sum" | "avg") = (types, expr.fun().name()) else { return Ok(None) };
        let Some(packing) = pairs_of(value) else { return Ok(None) };
        let plain = AggregateExprBuilder::new(Arc::new(expr.fun().clone()), expr.expressions());
        let plain = plain.schema(Arc::clone(input)).alias(expr.name()).build()?;
        let is_same = plain.field().data_type() == expr.field().data_type();
        Ok(is_same.then(|| (packing, value.clone(), Arc::new(plain))))
    }

    fn state(&self, memory: &Arc<Memory>) -> Result<Box<dyn State>> {
        let Some((packing, value, plain)) = &self.distinct else { return self.plain_state(&self.expr, memory) };
        let inner = self.plain_state(plain, memory)?;
        let (pairs, scratch) = (memory.charge(), memory.charge());
        Ok(Box::new(Distinct::new(packing.clone(), value.clone(), inner, pairs, scratch)))
    }

    fn plain_state(&self, expr: &Arc<AggregateFunctionExpr>, memory: &Arc<Memory>) -> Result<Box<dyn State>> {
        let charge = memory.charge();
        Ok(match &self.kind {
            Kind::Count => Box::new(Counts::new(charge)),
            Kind::Sum(result) => Box::new(Sums::new(result.clone(), charge)),
            Kind::FloatSum => of_float_sums(charge),
            Kind::Min(value) => of_extremes(value, false, charge)?,
            Kind::Max(value) => of_extremes(value, true, charge)?,
            Kind::Stock => Box::new(Stock::new(accumulator(expr)?, Habit::of(expr)?, charge)),
        })
    }
}

/// The columns of what is known of a group: one of a type of ours, or those of the engine's.
fn state_fields(expr: &AggregateFunctionExpr, own: Option<DataType>) -> Result<Vec<FieldRef>> {
    match own {
        Some(own) => Ok(vec![Arc::new(Field::new(format!("{}[state]", expr.name()), own, true))]),
        None => expr.state_fields(),
    }
}

fn accumulator(expr: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if expr.groups_accumulator_supported() {
        return expr.create_groups_accumulator();
    }
    let expr = Arc::clone(expr);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
}

//! What is aggregated: the keys, the aggregates and their inputs.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_expr::GroupsAccumulator;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::expressions::Literal;
use datafusion_physical_plan::aggregates::AggregateExec;

use super::states::{Counts, State, Stock, Sums, is_ordered, of_extremes, of_float_sums};
use crate::hash_table::keys::{Packed, Packing};
use crate::memory::Memory;

/// An aggregate.
struct Aggregate {
    expr: Arc<AggregateFunctionExpr>,
    args: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    kind: Kind,
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
}

/// See the module.
pub(crate) struct Spec {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) packing: Packing,
    aggregates: Vec<Aggregate>,
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
    pub(crate) fn of(first: &AggregateExec, schema: SchemaRef) -> Result<Option<Self>> {
        let (group_by, input) = (first.group_expr(), first.input().schema());
        if !group_by.is_single() || group_by.is_empty() {
            return Ok(None);
        }
        let (mut keys, mut types, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (expr, _)) in group_by.expr().iter().enumerate() {
            types.push((expr.data_type(&input)?, expr.nullable(&input)?));
            keys.push(Arc::clone(expr));
            fields.push(Arc::new(schema.field(place).clone()));
        }
        let Some(packing) = Packing::of(&types) else { return Ok(None) };
        // What comes out is what was promised.
        if types.iter().zip(&fields).any(|((found, _), field)| found != field.data_type()) {
            return Ok(None);
        }
        let mut aggregates = Vec::new();
        for (expr, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
            if !expr.order_bys().is_empty() {
                return Ok(None);
            }
            let aggregate = Aggregate::of(expr, filter.clone(), &input)?;
            fields.extend(aggregate.state_fields.iter().cloned());
            aggregates.push(aggregate);
        }
        let partial_schema = Arc::new(Schema::new(fields));
        Ok(Some(Self { keys, packing, aggregates, schema, partial_schema }))
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
        format!("keys=[{}], aggregates=[{}]", keys.join(", "), aggregates.join(", "))
    }

    /// The states of no groups yet.
    ///
    /// # Errors
    /// What the aggregates find.
    pub(crate) fn states(&self, memory: &Arc<Memory>) -> Result<Vec<Box<dyn State>>> {
        self.aggregates.iter().map(|one| one.state(memory)).collect()
    }

    /// Rows of the input.
    ///
    /// # Errors
    /// What evaluating finds.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let count = batch.num_rows();
        let array = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(count);
        let keys = self.keys.iter().map(array).collect::<Result<Vec<_>>>()?;
        let mut values = Vec::with_capacity(self.aggregates.len());
        let mut filters = Vec::with_capacity(self.aggregates.len());
        for one in &self.aggregates {
            values.push(one.args.iter().map(array).collect::<Result<Vec<_>>>()?);
            filters.push(match &one.filter {
                Some(filter) => Some(array(filter)?.as_boolean().clone()),
                None => None,
            });
        }
        Ok(Rows { packed: self.packing.pack(&keys)?, values, filters, is_partial: false })
    }

    /// Rows of groups that were written with what was known of them.
    ///
    /// # Errors
    /// Where there are more bytes than a batch has.
    pub(crate) fn partial_rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let (keys, mut states) = batch.columns().split_at(self.keys.len());
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

impl Aggregate {
    fn of(expr: &Arc<AggregateFunctionExpr>, filter: Option<Arc<dyn PhysicalExpr>>, input: &Schema) -> Result<Self> {
        let mut args = expr.expressions();
        let is_constant = |arg: &Arc<dyn PhysicalExpr>| {
            arg.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
        };
        let types = args.iter().map(|arg| arg.data_type(input)).collect::<Result<Vec<_>>>()?;
        let kind = match expr.is_distinct() {
            true => Kind::Stock,
            false => Kind::of(expr.fun().name(), &types, expr.field().data_type()),
        };
        if kind == Kind::Count && args.iter().all(is_constant) {
            args.clear();
        }
        let own = |data_type| vec![Arc::new(Field::new(format!("{}[state]", expr.name()), data_type, true))];
        let state_fields = match &kind {
            Kind::Count => own(DataType::Int64),
            Kind::Sum(result) => own(Sums::state_type(result)),
            Kind::FloatSum => own(DataType::Float64),
            Kind::Min(value) | Kind::Max(value) => own(value.clone()),
            Kind::Stock => expr.state_fields()?,
        };
        Ok(Self { expr: Arc::clone(expr), args, filter, kind, state_fields })
    }

    fn state(&self, memory: &Arc<Memory>) -> Result<Box<dyn State>> {
        let charge = memory.charge();
        Ok(match &self.kind {
            Kind::Count => Box::new(Counts::new(charge)),
            Kind::Sum(result) => Box::new(Sums::new(result.clone(), charge)),
            Kind::FloatSum => of_float_sums(charge),
            Kind::Min(value) => of_extremes(value, false, charge)?,
            Kind::Max(value) => of_extremes(value, true, charge)?,
            Kind::Stock => Box::new(Stock::new(self.accumulator()?, charge)),
        })
    }

    fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>> {
        if self.expr.groups_accumulator_supported() {
            return self.expr.create_groups_accumulator();
        }
        let expr = Arc::clone(&self.expr);
        Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
    }
}

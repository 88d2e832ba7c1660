//! `sum`, `avg`, `min` and `max` that know intervals, and averages and variances that say what they are of exact numbers: numerics, which a
//! rule puts in their place. Of everything else they are DataFusion's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalUnit};
use ashlar_base::value::interval::arithmetic::{Total, order};
use ashlar_base::{Datum, Error, Interval, ScalarType, Value};
use ashlar_store::ColumnReader;
use ashlar_store::arrow_types::to_arrow_type;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    StatisticsArgs, Volatility,
};

use crate::catalog::numeric;
use crate::decimals::AVERAGE_SCALE;
use crate::error::external;
use crate::fields::scalar;
use crate::variance;

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
    Least,
    Greatest,
    /// Variances and standard deviations, of numbers only.
    Variance,
}

/// An aggregate of DataFusion's, and what it is of intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntervalAware {
    kind: Kind,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// Wraps the aggregates.
///
/// # Errors
/// As the registry's.
pub fn register(registry: &mut dyn datafusion_expr::registry::FunctionRegistry) -> Result<()> {
    for (name, kind) in [
        ("sum", Kind::Sum),
        ("avg", Kind::Average),
        ("min", Kind::Least),
        ("max", Kind::Greatest),
        ("var", Kind::Variance),
        ("var_pop", Kind::Variance),
        ("stddev", Kind::Variance),
        ("stddev_pop", Kind::Variance),
    ] {
        let inner = registry.udaf(name)?;
        let signature = Signature::user_defined(Volatility::Immutable);
        registry.register_udaf(Arc::new(AggregateUDF::from(IntervalAware { kind, inner, signature })))?;
    }
    Ok(())
}

/// The scale of an aggregate of exact numbers that is of doubles to the engine, where the arguments are such. What the planner makes of
/// such an aggregate, by operators and functions, is of numerics from the start.
fn scale_of_exact(kind: Kind, types: &[DataType]) -> Option<i32> {
    let least = match kind {
        Kind::Average => AVERAGE_SCALE,
        Kind::Variance => return is_exact(types).map(|_| i32::from(variance::SCALE)),
        Kind::Sum | Kind::Least | Kind::Greatest => return None,
    };
    is_exact(types).map(|scale| least.max(scale))
}

/// The scale of one argument that is an exact number.
fn is_exact(types: &[DataType]) -> Option<i32> {
    match types {
        [DataType::Int16 | DataType::Int32 | DataType::Int64] => Some(0),
        [DataType::Decimal128(_, scale)] => Some(i32::from(*scale)),
        _ => None,
    }
}

fn is_interval(field: Option<&FieldRef>) -> bool {
    field.is_some_and(|field| matches!(field.data_type(), DataType::Interval(_)))
}

impl AggregateUDFImpl for IntervalAware {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_of_intervals = self.kind != Kind::Variance && matches!(types, [DataType::Interval(_)]);
        if is_of_intervals || scale_of_exact(self.kind, types).is_some() {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|data_type| Arc::new(Field::new("f", data_type.clone(), true))).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if let Some(scale) = scale_of_exact(self.kind, types) {
            return Ok(to_arrow_type(numeric(38, scale)));
        }
        match types {
            [DataType::Interval(_)] => Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
            _ => self.inner.return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !is_interval(args.input_fields.first()) {
            return self.inner.state_fields(args);
        }
        let field = |name: &str, data_type: DataType| Arc::new(Field::new(name, data_type, true));
        Ok(match self.kind {
            Kind::Sum | Kind::Average => vec![
                field("months", DataType::Int64),
                field("days", DataType::Int64),
                field("micros", DataType::Decimal128(38, 0)),
                field("count", DataType::Int64),
            ],
            Kind::Least | Kind::Greatest | Kind::Variance => {
                vec![field("extreme", DataType::Interval(IntervalUnit::MonthDayNano))]
            }
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_interval(args.expr_fields.first()) {
            return self.inner.accumulator(args);
        }
        Ok(match self.kind {
            Kind::Sum | Kind::Average if args.is_distinct => {
                return Err(external(Error::unsupported("sums of distinct intervals are not supported")));
            }
            Kind::Sum | Kind::Average => {
                Box::new(Summed { total: Total::default(), is_average: self.kind == Kind::Average })
            }
            Kind::Least | Kind::Greatest => Box::new(Extreme { found: None, is_greatest: self.kind == Kind::Greatest }),
            Kind::Variance => return internal_err!("{} is not of intervals", self.name()),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !is_interval(args.expr_fields.first()) && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_interval(args.expr_fields.first()) {
            return self.inner.create_sliding_accumulator(args);
        }
        match self.kind {
            Kind::Sum | Kind::Average => self.accumulator(args),
            Kind::Least | Kind::Greatest | Kind::Variance => {
                Err(external(Error::unsupported("min and max of intervals over a moving frame are not supported")))
            }
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, statistics_args: &StatisticsArgs) -> Option<ScalarValue> {
        match statistics_args.return_type {
            // Statistics know another order.
            DataType::Interval(_) => None,
            _ => self.inner.value_from_stats(statistics_args),
        }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        match data_type {
            DataType::Interval(_) => SetMonotonicity::NotMonotonic,
            _ => self.inner.inner().set_monotonicity(data_type),
        }
    }
}

fn for_each(values: &[ArrayRef], mut take: impl FnMut(Interval)) -> Result<()> {
    let Some(array) = values.first() else { return Ok(()) };
    let reader = ColumnReader::new(array, ScalarType::Interval.into()).map_err(external)?;
    for row in 0..array.len() {
        if let Datum::Interval(interval) = reader.datum(row) {
            take(interval);
        }
    }
    Ok(())
}

fn interval_scalar(interval: Option<Interval>) -> Result<ScalarValue> {
    let value = match interval {
        Some(interval) if interval.micros.checked_mul(1000).is_none() => {
            return Err(external(Error::unsupported("intervals with more than 2562047 hours are not supported")));
        }
        Some(interval) => Value::Interval(interval),
        None => Value::Null,
    };
    scalar(ScalarType::Interval.into(), &value).map_err(external)
}

#[derive(Debug)]
struct Summed {
    total: Total,
    is_average: bool,
}

impl Accumulator for Summed {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(values, |interval| self.total.add(interval, 1))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(values, |interval| self.total.add(interval, -1))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [months, days, micros, counts] = states else {
            return datafusion_common::internal_err!("the state of a sum of intervals has four parts");
        };
        let (months, days) = (months.as_primitive::<Int64Type>(), days.as_primitive::<Int64Type>());
        let (micros, counts) = (micros.as_primitive::<Decimal128Type>(), counts.as_primitive::<Int64Type>());
        for row in 0..counts.len() {
            self.total.months += months.value(row);
            self.total.days += days.value(row);
            self.total.micros += micros.value(row);
            self.total.count += counts.value(row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Total { months, days, micros, count } = self.total;
        Ok(vec![
            ScalarValue::Int64(Some(months)),
            ScalarValue::Int64(Some(days)),
            ScalarValue::Decimal128(Some(micros), 38, 0),
            ScalarValue::Int64(Some(count)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = if self.is_average { self.total.average() } else { self.total.sum() };
        interval_scalar(result.map_err(external)?)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug)]
struct Extreme {
    found: Option<Interval>,
    is_greatest: bool,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_each(values, |interval| {
            // Of equals the last one is told, as in PostgreSQL.
            let keeps = self.found.is_some_and(|found| {
                if self.is_greatest { order(found) > order(interval) } else { order(found) < order(interval) }
            });
            if !keeps {
                self.found = Some(interval);
            }
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        interval_scalar(self.found)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

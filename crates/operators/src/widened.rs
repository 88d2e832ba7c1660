//! Casts between numbers that cannot fail, computed without asking each value whether it did.
//!
//! The engine's cast of an integer to a double looks at each value whether it fits, which keeps the loop from being made of vector
//! instructions: about a nanosecond a value, more than a sum of them takes. Of types whose every value has one in the other there is nothing to
//! look at.
//!
//! This is done for what aggregates take, and nowhere else: nothing is known of the order of that, or of how it is divided, and nobody looks
//! for casts there. The engine would ask a cast in a projection for both. EXPLAIN shows them as it shows any cast.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema};
use datafusion_common::Result;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::CastExpr;
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateInputMode};

/// The rule; see the module. It runs after those that divide aggregations into stages, and is for the engine's: ours do it when they are made.
#[derive(Debug)]
pub struct Widenings;

impl PhysicalOptimizerRule for Widenings {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let own = plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            Ok(of_aggregate(aggregate)?.map_or_else(|| Transformed::no(node), Transformed::yes))
        });
        own.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "widenings"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same aggregation with such casts; `None` where it has none.
fn of_aggregate(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(None);
    }
    let schema = aggregate.input().schema();
    let mut changed = false;
    let mut own = Vec::with_capacity(aggregate.aggr_expr().len());
    for one in aggregate.aggr_expr() {
        let args: Vec<Transformed<Arc<dyn PhysicalExpr>>> =
            one.expressions().iter().map(|arg| widened(arg, &schema)).collect::<Result<_>>()?;
        // What an aggregate puts into an order stays as it is, with that order.
        let is_plain = one.order_bys().is_empty() && args.iter().any(|arg| arg.transformed);
        let args = args.into_iter().map(|arg| arg.data).collect();
        match if is_plain { one.with_new_expressions(args, Vec::new()) } else { None } {
            Some(with) => {
                changed = true;
                own.push(Arc::new(with));
            }
            None => own.push(Arc::clone(one)),
        }
    }
    Ok(changed.then(|| Arc::new(aggregate.with_new_aggr_exprs(own)) as Arc<dyn ExecutionPlan>))
}

/// An expression over rows of a schema in which casts that cannot fail ask nothing.
///
/// # Errors
/// What expressions say of their types.
pub(crate) fn widened(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    Arc::clone(expr).transform_up(|part| {
        let Some(cast) = part.downcast_ref::<CastExpr>() else { return Ok(Transformed::no(part)) };
        Ok(match can_widen(&cast.expr().data_type(schema)?, cast.cast_type()) {
            true => Transformed::yes(Arc::new(Widened { cast: Arc::new(cast.clone()) }) as Arc<dyn PhysicalExpr>),
            false => Transformed::no(part),
        })
    })
}

/// A cast that cannot fail; but for its loop it is the engine's in everything.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Widened {
    cast: Arc<CastExpr>,
}

impl fmt::Display for Widened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt(f)
    }
}

impl PhysicalExpr for Widened {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.cast.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.cast.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.cast.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.cast.expr().evaluate(batch)?;
        let wide = match &value {
            ColumnarValue::Array(array) => wide_of(array, self.cast.cast_type()),
            ColumnarValue::Scalar(_) => None,
        };
        match wide {
            Some(wide) => Ok(ColumnarValue::Array(wide)),
            None => value.cast_to(self.cast.cast_type(), Some(self.cast.cast_options())),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.cast.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Arc::clone(&self.cast).with_new_children(children)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt_sql(f)
    }
}

/// Every value of a type as one of another, value by value.
fn each<From, To>(array: &ArrayRef, wide: impl Fn(From::Native) -> To::Native) -> ArrayRef
where
    From: ArrowPrimitiveType,
    To: ArrowPrimitiveType,
{
    let wide: PrimitiveArray<To> = array.as_primitive::<From>().unary(wide);
    Arc::new(wide)
}

macro_rules! pairs {
    ($($from:ident, $from_type:ident => $to:ident, $to_type:ident: $wide:expr;)+) => {
        /// Whether every value of a type has one in the other; the nearest, where doubles are fewer than integers.
        fn can_widen(from: &DataType, to: &DataType) -> bool {
            matches!((from, to), $((DataType::$from, DataType::$to))|+)
        }

        /// The same values in that type; `None` where [`can_widen`] says no.
        fn wide_of(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
            match (array.data_type(), to) {
                $((DataType::$from, DataType::$to) => Some(each::<$from_type, $to_type>(array, $wide)),)+
                _ => None,
            }
        }

        #[cfg(test)]
        const PAIRS: &[(DataType, DataType)] = &[$((DataType::$from, DataType::$to)),+];
    };
}

pairs! {
    Int16, Int16Type => Int32, Int32Type: i32::from;
    Int16, Int16Type => Int64, Int64Type: i64::from;
    Int16, Int16Type => Float32, Float32Type: f32::from;
    Int16, Int16Type => Float64, Float64Type: f64::from;
    Int32, Int32Type => Int64, Int64Type: i64::from;
    Int32, Int32Type => Float64, Float64Type: f64::from;
    Int64, Int64Type => Float64, Float64Type: |value| value as f64;
    Float32, Float32Type => Float64, Float64Type: f64::from;
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array, Int64Array};
    use arrow::compute::cast;
    use arrow::datatypes::Field;
    use datafusion_functions_aggregate::sum::sum_udaf;
    use datafusion_physical_expr::aggregate::AggregateExprBuilder;
    use datafusion_physical_expr::expressions::{BinaryExpr, col, lit};
    use datafusion_physical_plan::aggregates::{AggregateMode, PhysicalGroupBy};
    use datafusion_physical_plan::displayable;
    use datafusion_physical_plan::empty::EmptyExec;

    use super::*;

    /// Numbers at the ends of all types, and none.
    fn numbers(of: &DataType) -> ArrayRef {
        let float = |value: i64| value as f32 * 1.000_001;
        let ends = [i64::MIN, i64::MAX, (1 << 53) + 1, 0, -1, i64::from(i32::MIN), i64::from(i16::MAX)];
        match of {
            DataType::Float32 => {
                let more = [f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, -0.0, 0.1].map(Some);
                Arc::new(
                    ends.map(|end| Some(float(end))).into_iter().chain(more).chain([None]).collect::<Float32Array>(),
                )
            }
            of => {
                let all: Int64Array = ends.into_iter().map(Some).chain([None]).collect();
                // Those that fit, NULL for others.
                cast(&all, of).unwrap()
            }
        }
    }

    #[test]
    fn values_are_those_of_the_engines_cast() {
        for (from, to) in PAIRS {
            let array = numbers(from);
            assert!(array.null_count() < array.len());
            let schema = Arc::new(Schema::new(vec![Field::new("a", from.clone(), true)]));
            let cast: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(col("a", &schema).unwrap(), to.clone(), None));
            let own = widened(&cast, &schema).unwrap();
            assert!(own.transformed && own.data.to_string() == cast.to_string());
            assert_eq!(own.data.return_field(&schema).unwrap(), cast.return_field(&schema).unwrap());
            for batch in [
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&array)]).unwrap(),
                RecordBatch::new_empty(Arc::clone(&schema)),
            ] {
                let [found, wanted] =
                    [&own.data, &cast].map(|one| one.evaluate(&batch).unwrap().into_array(0).unwrap());
                // By their bits: NaN is not itself.
                assert_eq!(found.to_data(), wanted.to_data(), "{from} {to}");
            }
        }
        // Of others nothing is changed.
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let narrow: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(col("a", &schema).unwrap(), DataType::Int32, None));
        assert!(!widened(&narrow, &schema).unwrap().transformed);
    }

    #[test]
    fn sums_have_them_and_say_the_same() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Float64, false),
        ]));
        let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let double = CastExpr::new(col("a", &schema).unwrap(), DataType::Float64, None);
        let times = datafusion_expr::Operator::Multiply;
        let product: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(Arc::new(double), times, col("b", &schema).unwrap()));
        let sum = AggregateExprBuilder::new(sum_udaf(), vec![product]).schema(Arc::clone(&schema)).alias("s");
        let (sum, groups) = (Arc::new(sum.build().unwrap()), PhysicalGroupBy::default());
        let mode = AggregateMode::Single;
        let aggregate = AggregateExec::try_new(mode, groups, vec![sum], vec![None], input, schema).unwrap();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(aggregate);
        let own = Widenings.optimize(Arc::clone(&plan), &ConfigOptions::default()).unwrap();
        assert!(!Arc::ptr_eq(&own, &plan));
        assert_eq!(own.schema(), plan.schema());
        let shown = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        assert_eq!(shown(&own), shown(&plan));
        // Once is enough.
        assert!(Arc::ptr_eq(&Widenings.optimize(Arc::clone(&own), &ConfigOptions::default()).unwrap(), &own));
        // A constant is cast as the engine does.
        let one = lit(1_i32);
        let cast: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(one, DataType::Float64, None));
        let empty = Schema::empty();
        let own = widened(&cast, &empty).unwrap().data;
        let rows = RecordBatch::new_empty(Arc::new(empty));
        let found = own.evaluate(&rows).unwrap().into_array(1).unwrap();
        assert_eq!(found.as_primitive::<Float64Type>(), &Float64Array::from(vec![1.0]));
    }
}

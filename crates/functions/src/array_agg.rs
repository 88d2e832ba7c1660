//! `array_agg` that keeps the type of its elements where the engine knows only how their values are stored: `jsonb[]`,
//! `varchar[]`.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::SqlType;
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;

use crate::fields::field_of;

/// The engine's aggregate, with the field of its result.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayAgg {
    inner: Arc<AggregateUDF>,
}

/// The aggregate.
pub fn udaf() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(ArrayAgg { inner: array_agg_udaf() }))
}

impl AggregateUDFImpl for ArrayAgg {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(fields)?;
        let Some(SqlType::Scalar(element)) = fields.first().and_then(|field| sql_type_of(field)) else {
            return Ok(field);
        };
        let known = field_of(field.name(), SqlType::Array(element));
        Ok(Arc::new(field.as_ref().clone().with_metadata(known.metadata().clone())))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn with_beneficial_ordering(self: Arc<Self>, is_beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(is_beneficial)?;
        Ok(inner.map(|inner| Arc::new(Self { inner: Arc::new(inner) }) as Arc<dyn AggregateUDFImpl>))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Self { inner }))),
            other => other,
        }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}

//! `array_agg` and `string_agg`. The type of an array's elements is kept where the engine knows only how their values are stored: `jsonb[]`,
//! `varchar[]`. And either sorts what it takes by itself where the rows come in another order, so that one query may have several of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::SqlType;
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::Result;
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::string_agg::string_agg_udaf;

use crate::fields::field_of;
use crate::inner_aggregate::answers_of_inner_aggregate;

/// The engine's aggregate, with the field of its result.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathered {
    inner: Arc<AggregateUDF>,
}

/// The aggregates.
pub fn all() -> [Arc<AggregateUDF>; 2] {
    [array_agg_udaf(), string_agg_udaf()].map(|inner| Arc::new(AggregateUDF::from(Gathered { inner })))
}

impl AggregateUDFImpl for Gathered {
    answers_of_inner_aggregate!();

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(fields)?;
        if !matches!(field.data_type(), DataType::List(_)) {
            return Ok(field);
        }
        let Some(SqlType::Scalar(element)) = fields.first().and_then(|field| sql_type_of(field)) else {
            return Ok(field);
        };
        let known = field_of(field.name(), SqlType::Array(element));
        Ok(Arc::new(field.as_ref().clone().with_metadata(known.metadata().clone())))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !args.is_distinct || !args.is_reversed {
            return self.inner.accumulator(args);
        }
        // The engine turns the order around for rows that come the other way, and does not turn the values around that it has sorted itself.
        let order: Vec<_> = args.order_bys.iter().map(|sort| sort.reverse()).collect();
        self.inner.accumulator(AccumulatorArgs { order_bys: &order, is_reversed: false, ..args })
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
        // Texts are always sorted by who joins them.
        let inner = inner.map_or_else(|| Arc::clone(&self.inner), Arc::new);
        Ok(Some(Arc::new(Self { inner })))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        // The engine says of texts that the rows must come in their order, and refuses two orders; but it sorts them itself.
        AggregateOrderSensitivity::SoftRequirement
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Self { inner }))),
            other => other,
        }
    }
}

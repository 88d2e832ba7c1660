//! `min` and `max` of floats, of which NaN is the greatest. The engine's accumulator of many groups passes over NaN; the one of a single
//! group does not, and so there is one for each group.
//!
//! The rule `NumericAggregates` puts these in place of the engine's. Nodes of `ashlar-operators` have accumulators of their own.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl};
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};

use crate::inner_aggregate::answers_of_inner_aggregate;

/// The aggregate of this name; `None` where it is neither of them.
pub fn udaf(name: &str) -> Option<Arc<AggregateUDF>> {
    let inner = match name {
        "min" => min_udaf(),
        "max" => max_udaf(),
        _ => return None,
    };
    Some(Arc::new(AggregateUDF::from(FloatExtreme { inner })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatExtreme {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for FloatExtreme {
    answers_of_inner_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        false
    }
}

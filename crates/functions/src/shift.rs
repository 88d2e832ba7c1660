//! `lag` and `lead` whose offset or whose default each row says for itself: the engine's know constants only, and take an unknown offset for
//! one row.
//!
//! The rule `NumericAggregates` puts them in place of the engine's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{FieldRef, Int64Type};
use datafusion_common::{Result, internal_err};
use datafusion_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::{PartitionEvaluator, Signature, TypeSignature, Volatility, WindowUDF, WindowUDFImpl};

/// `lead` or `lag` of a value, an offset that is a bigint, and a default of the value's type.
pub fn udwf(is_lead: bool) -> Arc<WindowUDF> {
    let signature = Signature::one_of(vec![TypeSignature::Any(2), TypeSignature::Any(3)], Volatility::Immutable);
    Arc::new(WindowUDF::new_from_impl(Shift { is_lead, signature }))
}

/// Whether this is one of those.
pub fn is_one(function: &WindowUDF) -> bool {
    function.inner().downcast_ref::<Shift>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    is_lead: bool,
    signature: Signature,
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        if self.is_lead { "lead" } else { "lag" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Shifted { is_lead: self.is_lead }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let Some(value) = args.get_input_field(0) else { return internal_err!("a value is shifted") };
        Ok(Arc::new(value.as_ref().clone().with_name(args.name()).with_nullable(true)))
    }
}

#[derive(Debug)]
struct Shifted {
    is_lead: bool,
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        const VALUE: usize = 0;
        const NOTHING: usize = 1;
        const DEFAULT: usize = 2;
        let [value, offsets, others @ ..] = values else { return internal_err!("a value is shifted by an offset") };
        let offsets = offsets.as_primitive::<Int64Type>();
        let nothing = new_null_array(value.data_type(), 1);
        let other = others.first().unwrap_or(&nothing);
        let place = |row: usize| {
            if offsets.is_null(row) {
                return (NOTHING, 0);
            }
            let offset = i128::from(offsets.value(row));
            let wanted = row as i128 + if self.is_lead { offset } else { -offset };
            match usize::try_from(wanted) {
                Ok(wanted) if wanted < rows => (VALUE, wanted),
                _ if others.is_empty() => (NOTHING, 0),
                _ => (DEFAULT, row),
            }
        };
        let places: Vec<(usize, usize)> = (0..rows).map(place).collect();
        Ok(interleave(&[value.as_ref(), nothing.as_ref(), other.as_ref()], &places)?)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn shifted(is_lead: bool, offsets: [Option<i64>; 4], others: Option<[Option<i32>; 4]>) -> Vec<Option<i32>> {
        let mut values: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(10), None, Some(30), Some(40)])),
            Arc::new(Int64Array::from(offsets.to_vec())),
        ];
        values.extend(others.map(|others| Arc::new(Int32Array::from(others.to_vec())) as ArrayRef));
        let found = Shifted { is_lead }.evaluate_all(&values, 4).unwrap();
        found.as_primitive::<Int32Type>().iter().collect()
    }

    #[test]
    fn each_row_says_how_far() {
        assert_eq!(shifted(false, [Some(1), Some(1), Some(0), Some(3)], None), [None, Some(10), Some(30), Some(10)]);
        assert_eq!(shifted(true, [Some(2), Some(-1), None, Some(1)], None), [Some(30), Some(10), None, None]);
        assert_eq!(
            shifted(false, [Some(i64::MIN), Some(i64::MAX), Some(2), Some(2)], None),
            [None, None, Some(10), None]
        );
    }

    #[test]
    fn a_default_is_for_rows_that_are_not_there() {
        let others = Some([Some(1), Some(2), Some(3), None]);
        assert_eq!(shifted(false, [Some(1), Some(1), None, Some(2)], others), [Some(1), Some(10), None, None]);
        assert_eq!(shifted(true, [Some(1), Some(3), Some(9), Some(1)], others), [None, Some(2), Some(3), None]);
    }
}

//! Aggregates over frames that lose rows, where nothing can be taken away from an aggregate again, or not exactly: each frame is aggregated
//! anew, from its first row, as PostgreSQL does it.
//!
//! The rule `NumericAggregates` puts it around such an aggregate in windows alone. Rows are never taken in another order than the window's.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::FieldRef;
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF};

use crate::error::external;
use crate::inner_aggregate::answers_of_inner_aggregate;
use crate::variance::Variance;

/// Bytes of the texts and arrays that the frames of one partition may be given as results: those of neighbours have nearly all in common,
/// and nobody else counts them.
const RESULT_BYTES_MAX: usize = 256 << 20;

/// Rows come one by one where a frame moves: so many pieces are put together.
const PIECES_MAX: usize = 32;

/// The aggregate, for windows; `None` where the engine's is right.
pub fn udaf(inner: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    let name = inner.name();
    let is_other =
        matches!(name, "bool_and" | "bool_or" | "every" | "bit_and" | "bit_or" | "array_agg" | "string_agg" | "corr");
    let is_rounded = Variance::named(name).is_some() || name.starts_with("covar") || name.starts_with("regr_");
    if !is_other && !is_rounded || inner.inner().downcast_ref::<Framed>().is_some() {
        return None;
    }
    Some(Arc::new(AggregateUDF::from(Framed { inner: Arc::clone(inner) })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Framed {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Framed {
    answers_of_inner_aggregate!();

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let inner = Arc::clone(&self.inner);
        let (return_field, schema) = (Arc::clone(&args.return_field), args.schema.clone());
        let (exprs, expr_fields) = (args.exprs.to_vec(), args.expr_fields.to_vec());
        let (order, name) = (args.order_bys.to_vec(), args.name.to_owned());
        let (ignore_nulls, is_reversed, is_distinct) = (args.ignore_nulls, args.is_reversed, args.is_distinct);
        let make = move || {
            inner.accumulator(AccumulatorArgs {
                return_field: Arc::clone(&return_field),
                schema: &schema,
                ignore_nulls,
                order_bys: &order,
                is_reversed,
                name: &name,
                is_distinct,
                exprs: &exprs,
                expr_fields: &expr_fields,
            })
        };
        Ok(Box::new(Frame::new(Box::new(make))))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        // A frame that only grows would be one that loses rows, and arrays would have them the other way around.
        ReversedUDAF::NotSupported
    }
}

/// Makes an accumulator that has taken nothing yet.
type Maker = Box<dyn Fn() -> Result<Box<dyn Accumulator>> + Send + Sync>;

/// The rows of a frame: pieces of the columns that the window holds.
struct Frame {
    make: Maker,
    /// In the order of the rows, none of them empty.
    pieces: VecDeque<Vec<ArrayRef>>,
    /// Rows of the first one that are in the frame no more.
    gone: usize,
    /// Bytes of the results so far.
    given: usize,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("pieces", &self.pieces.len()).field("gone", &self.gone).finish_non_exhaustive()
    }
}

fn rows_of(piece: &[ArrayRef]) -> usize {
    piece.first().map_or(0, |column| column.len())
}

impl Frame {
    fn new(make: Maker) -> Self {
        Self { make, pieces: VecDeque::new(), gone: 0, given: 0 }
    }

    /// Cuts off what has left the frame, and makes one piece of many.
    fn settle(&mut self) -> Result<()> {
        if self.gone > 0
            && let Some(first) = self.pieces.front_mut()
        {
            let rows = rows_of(first) - self.gone;
            for column in first.iter_mut() {
                *column = column.slice(self.gone, rows);
            }
            self.gone = 0;
        }
        if self.pieces.len() <= PIECES_MAX {
            return Ok(());
        }
        let columns = self.pieces.front().map_or(0, Vec::len);
        let mut whole = Vec::with_capacity(columns);
        for place in 0..columns {
            let parts: Vec<&dyn Array> = self.pieces.iter().map(|piece| piece[place].as_ref()).collect();
            whole.push(concat(&parts)?);
        }
        self.pieces.clear();
        self.pieces.push_back(whole);
        Ok(())
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if rows_of(values) > 0 {
            self.pieces.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.gone += rows_of(values);
        while let Some(first) = self.pieces.front()
            && rows_of(first) <= self.gone
        {
            self.gone -= rows_of(first);
            self.pieces.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.settle()?;
        let mut inner = (self.make)()?;
        for piece in &self.pieces {
            inner.update_batch(piece)?;
        }
        let value = inner.evaluate()?;
        self.given += value.size().saturating_sub(size_of::<ScalarValue>());
        if self.given > RESULT_BYTES_MAX {
            let message = format!("the frames of a window have more than {} MiB of results", RESULT_BYTES_MAX >> 20);
            return Err(external(Error::new(ErrorCode::OutOfMemory, message)));
        }
        Ok(value)
    }

    fn size(&self) -> usize {
        let pieces = self.pieces.iter().flatten().map(|column| column.get_array_memory_size());
        size_of::<Self>() + pieces.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame is aggregated in one piece")
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    /// Joins what it takes, in its order.
    #[derive(Debug, Default)]
    struct Joined(Vec<i32>);

    impl Accumulator for Joined {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            self.0.extend(values[0].as_primitive::<Int32Type>().values());
            Ok(())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::Utf8(Some(format!("{:?}", self.0))))
        }

        fn size(&self) -> usize {
            size_of::<Self>()
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(vec![self.evaluate()?])
        }

        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            internal_err!("nothing is merged")
        }
    }

    fn column(values: impl IntoIterator<Item = i32>) -> [ArrayRef; 1] {
        [Arc::new(Int32Array::from_iter_values(values))]
    }

    fn frame() -> Frame {
        Frame::new(Box::new(|| Ok(Box::new(Joined::default()))))
    }

    fn said(frame: &mut Frame) -> String {
        frame.evaluate().unwrap().to_string()
    }

    #[test]
    fn a_frame_has_the_rows_that_are_in_it_in_their_order() {
        let mut frame = frame();
        assert_eq!(said(&mut frame), "[]");
        frame.update_batch(&column([1, 2, 3])).unwrap();
        frame.update_batch(&column([])).unwrap();
        frame.retract_batch(&column([1])).unwrap();
        assert_eq!(said(&mut frame), "[2, 3]");
        frame.update_batch(&column([4])).unwrap();
        frame.retract_batch(&column([2, 3])).unwrap();
        assert_eq!(said(&mut frame), "[4]");
        frame.update_batch(&column([5, 6])).unwrap();
        frame.retract_batch(&column([4, 5])).unwrap();
        assert_eq!(said(&mut frame), "[6]");
        frame.retract_batch(&column([6])).unwrap();
        assert_eq!(said(&mut frame), "[]");
    }

    #[test]
    fn a_frame_of_many_pieces_is_the_same() {
        let mut frame = frame();
        for row in 0..200 {
            frame.update_batch(&column([row])).unwrap();
            if row >= 50 {
                frame.retract_batch(&column([row - 50])).unwrap();
            }
            let expected: Vec<i32> = ((row - 49).max(0)..=row).collect();
            assert_eq!(said(&mut frame), format!("{expected:?}"));
        }
    }

    #[test]
    fn what_the_engine_takes_away_exactly_stays_the_engines() {
        use datafusion_functions_aggregate::bool_and_or::bool_or_udaf;
        use datafusion_functions_aggregate::count::count_udaf;
        assert!(udaf(&count_udaf()).is_none());
        let around = udaf(&bool_or_udaf()).unwrap();
        assert_eq!(around.name(), "bool_or");
        assert!(udaf(&around).is_none());
    }
}

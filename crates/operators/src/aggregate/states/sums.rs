//! Exact sums: of integers and of decimals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use arrow::error::ArrowError;
use datafusion_common::Result;

use super::numbers::Numbers;
use super::seen::Seen;
use super::{State, counted};
use crate::memory::{Charge, Wish};

/// The sums of each group. Those that are on their way have 38 digits; values of 28 digits, of which 2^32 are added up,
/// do not need more.
pub(crate) struct Sums {
    /// Until a sum might need more than 64 bits.
    sums: Numbers<i64, i128>,
    /// No sum is further from zero than this.
    bound: u128,
    seen: Seen,
    /// Of the results: `bigint` or a decimal.
    result: DataType,
    charge: Charge,
}

/// What is added up.
trait Addend: Copy {
    fn distance(self) -> u128;
    /// Where it is known to fit.
    fn narrow(self) -> i64;
    fn wide(self) -> i128;
}

impl Addend for i64 {
    #[inline]
    fn distance(self) -> u128 {
        u128::from(self.unsigned_abs())
    }
    #[inline]
    fn narrow(self) -> i64 {
        self
    }
    #[inline]
    fn wide(self) -> i128 {
        i128::from(self)
    }
}

impl Addend for i128 {
    #[inline]
    fn distance(self) -> u128 {
        self.unsigned_abs()
    }
    #[inline]
    fn narrow(self) -> i64 {
        self as i64
    }
    #[inline]
    fn wide(self) -> i128 {
        self
    }
}

impl Sums {
    /// Digits of decimals of which any number can be added up.
    const PRECISION_MAX: u8 = 28;

    /// Whether values of a type are added up to one of another.
    pub(crate) fn can(value: &DataType, result: &DataType) -> bool {
        match (value, result) {
            (DataType::Int64, DataType::Int64 | DataType::Decimal128(_, 0)) => true,
            (DataType::Decimal128(precision, scale), DataType::Decimal128(_, same)) => {
                *precision <= Self::PRECISION_MAX && scale == same
            }
            _ => false,
        }
    }

    /// What is known of groups, with results of this type.
    pub(crate) fn state_type(result: &DataType) -> DataType {
        DataType::Decimal128(38, if let DataType::Decimal128(_, scale) = result { *scale } else { 0 })
    }

    pub(crate) fn new(result: DataType, charge: Charge) -> Self {
        Self { sums: Numbers::new(), bound: 0, seen: Seen::default(), result, charge }
    }

    /// Values of these groups are about to come, of which the distances from zero add up to no more than `bound`.
    fn expect(&mut self, bound: u128, are_all: bool, ids: &[usize], groups: usize) {
        self.seen.expect(are_all, ids, self.sums.len(), groups);
        self.bound = self.bound.saturating_add(bound);
        if self.bound > i64::MAX as u128 {
            self.sums.widen(&mut self.charge);
        }
        self.sums.resize(groups);
        self.settle();
    }

    fn settle(&mut self) {
        self.charge.settle(self.sums.bytes() + self.seen.bytes());
    }

    fn add<T>(&mut self, values: &ArrayRef, ids: &[usize], filter: Option<&BooleanArray>, groups: usize)
    where
        T: ArrowPrimitiveType,
        T::Native: Addend,
    {
        let array = values.as_primitive::<T>();
        let values: &[T::Native] = array.values();
        let furthest = values.iter().fold(0, |furthest: u128, value| furthest.max(value.distance()));
        let counted = counted(array.nulls(), filter);
        self.expect(furthest.saturating_mul(values.len() as u128), counted.is_none(), ids, groups);
        let rows = values.iter().zip(ids);
        match (counted, &mut self.sums) {
            (None, Numbers::Narrow(sums)) => rows.for_each(|(value, &id)| sums[id] += value.narrow()),
            (None, Numbers::Wide(sums)) => rows.for_each(|(value, &id)| sums[id] += value.wide()),
            (Some(is_counted), sums) => {
                for (_, (value, &id)) in rows.enumerate().filter(|(row, _)| is_counted(*row)) {
                    match sums {
                        Numbers::Narrow(sums) => sums[id] += value.narrow(),
                        Numbers::Wide(sums) => sums[id] += value.wide(),
                    }
                    self.seen.mark(id);
                }
            }
        }
    }

    /// All sums, as what is known of groups, which are gone then.
    fn take(&mut self) -> Result<Decimal128Array> {
        let sums: ScalarBuffer<i128> = self.sums.take().into();
        self.bound = 0;
        Ok(Decimal128Array::new(sums, self.seen.take()).with_data_type(Self::state_type(&self.result)))
    }
}

impl State for Sums {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        self.sums.reserve(groups, &mut self.charge, wish)?;
        self.seen.reserve(groups, &mut self.charge, wish)?;
        self.settle();
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        match values[0].data_type() {
            DataType::Int64 => self.add::<Int64Type>(&values[0], ids, filter, groups),
            _ => self.add::<Decimal128Type>(&values[0], ids, filter, groups),
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        self.add::<Decimal128Type>(&states[0], ids, None, groups);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        let sums = self.take()?;
        Ok(match self.result {
            DataType::Int64 => {
                let fit =
                    |sum| i64::try_from(sum).map_err(|_| ArrowError::ArithmeticOverflow("bigint out of range".into()));
                let sums: Int64Array = sums.try_unary(fit)?;
                Arc::new(sums)
            }
            ref result => Arc::new(sums.with_data_type(result.clone())),
        })
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take()?)])
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

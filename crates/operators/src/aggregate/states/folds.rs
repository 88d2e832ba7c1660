//! Aggregates that combine two values into one: `min` and `max` of values of fixed width, and sums of `double precision`.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion_common::{Result, internal_err};

use super::byte_extremes::{ByteExtremes, is_bytes};
use super::seen::Seen;
use super::{State, counted};
use crate::hash_table::account::Account;
use crate::memory::{Charge, Wish};

/// Values that have an order, PostgreSQL's: NaN is the greatest float.
trait Ordered: Copy + Send {
    const LEAST: Self;
    const GREATEST: Self;
    fn is_less(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($native:ty),*) => {$(
        impl Ordered for $native {
            const LEAST: Self = <$native>::MIN;
            const GREATEST: Self = <$native>::MAX;
            #[inline]
            fn is_less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}
ordered!(i16, i32, i64, i128);

macro_rules! ordered_float {
    ($($native:ty),*) => {$(
        impl Ordered for $native {
            const LEAST: Self = <$native>::NEG_INFINITY;
            const GREATEST: Self = <$native>::NAN;
            #[inline]
            fn is_less(self, other: Self) -> bool {
                self < other || (other.is_nan() && !self.is_nan())
            }
        }
    )*};
}
ordered_float!(f32, f64);

/// How two values make one.
trait Fold<V>: Send {
    /// What is there before the first value, and makes no difference to it.
    const NOTHING: V;
    fn fold(known: V, value: V) -> V;
}

struct Sum;
struct Least;
struct Greatest;

impl Fold<f64> for Sum {
    /// Zero would make a zero of the sum of negative zeros.
    const NOTHING: f64 = -0.0;
    #[inline]
    fn fold(known: f64, value: f64) -> f64 {
        known + value
    }
}

impl<V: Ordered> Fold<V> for Least {
    const NOTHING: V = V::GREATEST;
    #[inline]
    fn fold(known: V, value: V) -> V {
        if value.is_less(known) { value } else { known }
    }
}

impl<V: Ordered> Fold<V> for Greatest {
    const NOTHING: V = V::LEAST;
    #[inline]
    fn fold(known: V, value: V) -> V {
        if known.is_less(value) { value } else { known }
    }
}

/// What the values of each group make.
struct Folds<T: ArrowPrimitiveType, F> {
    values: Vec<T::Native>,
    seen: Seen,
    data_type: DataType,
    charge: Charge,
    fold: PhantomData<F>,
}

/// Sums of `double precision`.
pub(crate) fn of_float_sums(charge: Charge) -> Box<dyn State> {
    Box::new(Folds::<Float64Type, Sum>::new(&DataType::Float64, charge))
}

/// Whether values of a type are compared here.
pub(crate) fn is_ordered(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(..)
            | DataType::Date32
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond, _)
    ) || is_bytes(data_type)
}

/// `max`, else `min`, of values of a type, which [`is_ordered`].
///
/// # Errors
/// Where it is not.
pub(crate) fn of_extremes(data_type: &DataType, is_max: bool, charge: Charge) -> Result<Box<dyn State>> {
    fn make<T: ArrowPrimitiveType>(data_type: &DataType, is_max: bool, charge: Charge) -> Box<dyn State>
    where
        T::Native: Ordered,
    {
        if is_max {
            Box::new(Folds::<T, Greatest>::new(data_type, charge))
        } else {
            Box::new(Folds::<T, Least>::new(data_type, charge))
        }
    }
    Ok(match data_type {
        DataType::Int16 => make::<Int16Type>(data_type, is_max, charge),
        DataType::Int32 => make::<Int32Type>(data_type, is_max, charge),
        DataType::Int64 => make::<Int64Type>(data_type, is_max, charge),
        DataType::Float32 => make::<Float32Type>(data_type, is_max, charge),
        DataType::Float64 => make::<Float64Type>(data_type, is_max, charge),
        DataType::Decimal128(..) => make::<Decimal128Type>(data_type, is_max, charge),
        DataType::Date32 => make::<Date32Type>(data_type, is_max, charge),
        DataType::Time64(TimeUnit::Microsecond) => make::<Time64MicrosecondType>(data_type, is_max, charge),
        DataType::Timestamp(TimeUnit::Microsecond, _) => make::<TimestampMicrosecondType>(data_type, is_max, charge),
        bytes if is_bytes(bytes) => Box::new(ByteExtremes::new(bytes, is_max, charge)),
        other => return internal_err!("values of type {other} are not compared"),
    })
}

impl<T: ArrowPrimitiveType, F: Fold<T::Native>> Folds<T, F> {
    fn new(data_type: &DataType, charge: Charge) -> Self {
        let data_type = data_type.clone();
        Self { values: Vec::new(), seen: Seen::default(), data_type, charge, fold: PhantomData }
    }

    fn settle(&mut self) {
        self.charge.settle(self.values.capacity() * size_of::<T::Native>() + self.seen.bytes());
    }
}

impl<T: ArrowPrimitiveType, F: Fold<T::Native>> State for Folds<T, F> {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        self.charge.room(&mut self.values, groups, wish)?;
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
        let array = values[0].as_primitive::<T>();
        let counted = counted(array.nulls(), filter);
        self.seen.expect(counted.is_none(), ids, self.values.len(), groups);
        self.values.resize(groups, F::NOTHING);
        self.settle();
        let rows = array.values().iter().zip(ids);
        match counted {
            None => rows.for_each(|(value, &id)| self.values[id] = F::fold(self.values[id], *value)),
            Some(is_counted) => {
                for (_, (value, &id)) in rows.enumerate().filter(|(row, _)| is_counted(*row)) {
                    self.values[id] = F::fold(self.values[id], *value);
                    self.seen.mark(id);
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        let values = std::mem::take(&mut self.values).into();
        Ok(Arc::new(PrimitiveArray::<T>::new(values, self.seen.take()).with_data_type(self.data_type.clone())))
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

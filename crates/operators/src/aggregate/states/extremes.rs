//! `min` and `max` of values of fixed width.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion_common::{Result, internal_err};

use super::seen::Seen;
use super::{State, counted};
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

/// The least or the greatest value of each group.
struct Extremes<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    seen: Seen,
    is_max: bool,
    data_type: DataType,
    charge: Charge,
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
    )
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
        let data_type = data_type.clone();
        Box::new(Extremes::<T> { values: Vec::new(), seen: Seen::default(), is_max, data_type, charge })
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
        other => return internal_err!("values of type {other} are not compared"),
    })
}

impl<T: ArrowPrimitiveType> Extremes<T>
where
    T::Native: Ordered,
{
    fn settle(&mut self) {
        self.charge.settle(self.values.capacity() * size_of::<T::Native>() + self.seen.bytes());
    }

    /// What every value takes the place of.
    fn nothing(&self) -> T::Native {
        if self.is_max { T::Native::LEAST } else { T::Native::GREATEST }
    }

    fn take(&mut self) -> ArrayRef {
        let values = std::mem::take(&mut self.values).into();
        Arc::new(PrimitiveArray::<T>::new(values, self.seen.take()).with_data_type(self.data_type.clone()))
    }
}

impl<T: ArrowPrimitiveType> State for Extremes<T>
where
    T::Native: Ordered,
{
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
        let nothing = self.nothing();
        self.values.resize(groups, nothing);
        self.settle();
        let is_max = self.is_max;
        let replaces = |old: T::Native, new: T::Native| if is_max { old.is_less(new) } else { new.is_less(old) };
        for (row, (value, &id)) in array.values().iter().zip(ids).enumerate() {
            if counted.as_ref().is_none_or(|is_counted| is_counted(row)) {
                if replaces(self.values[id], *value) {
                    self.values[id] = *value;
                }
                self.seen.mark(id);
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        self.update(states, ids, None, groups)
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        Ok(self.take())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take()])
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

//! `count(*)` and `count(column)`.
//!
//! A count has a byte for as long as those of its table are small, then 4 bytes until 2^32 rows have come, then 8. Where there are very many groups
//! few have many rows, and of few groups it does not matter.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::Int64Type;
use datafusion_common::Result;

use super::numbers::Numbers;
use super::{State, counted};
use crate::hash_table::account::Account;
use crate::memory::{Charge, Wish};

/// A count from which on a reservation makes room for greater ones: most come to it long before they are too great for a byte.
const HALF: u8 = 1 << 7;
/// Bytes that counts may have for which nobody is asked when they get wider: those of a front.
const LITTLE_BYTES: usize = 64 << 10;

/// See the module.
pub(crate) struct Counts {
    counts: Kept,
    /// Rows that came, which no count is greater than.
    rows: u64,
    charge: Charge,
    /// The greatest count, while counts are bytes.
    most: u8,
}

enum Kept {
    Bytes(Vec<u8>),
    /// Narrow until more rows have come than 32 bits count.
    Numbers(Numbers<u32, i64>),
}

impl Counts {
    pub(crate) fn new(charge: Charge) -> Self {
        Self { counts: Kept::Bytes(Vec::new()), rows: 0, charge, most: 0 }
    }

    fn held(&self) -> usize {
        match &self.counts {
            Kept::Bytes(counts) => counts.capacity(),
            Kept::Numbers(counts) => counts.bytes(),
        }
    }

    /// So many rows are about to come.
    fn expect(&mut self, rows: u64) {
        self.rows = self.rows.saturating_add(rows);
        if let Kept::Numbers(counts) = &mut self.counts
            && self.rows > u64::from(u32::MAX)
        {
            counts.widen(&mut self.charge);
            self.charge.settle(self.held());
        }
    }

    /// Is of so many groups from now on, which there is room for.
    fn resize(&mut self, groups: usize) {
        match &mut self.counts {
            Kept::Bytes(counts) => counts.resize(groups, 0),
            Kept::Numbers(counts) => counts.resize(groups),
        }
        self.charge.settle(self.held());
    }

    /// Adds to counts, one after the other.
    #[inline]
    fn add(&mut self, mut added: impl Iterator<Item = (usize, u64)>) {
        if let Kept::Bytes(counts) = &mut self.counts {
            let over = added.find(|&(id, more)| {
                let sum = u64::from(counts[id]) + more;
                let is_over = sum > u64::from(u8::MAX);
                if !is_over {
                    counts[id] = sum as u8;
                    self.most = self.most.max(sum as u8);
                }
                is_over
            });
            let Some((id, more)) = over else { return };
            // One group has more than a hundred of these rows: too late to ask.
            self.charge.take(self.bytes_of_wide());
            self.widen();
            self.add_to_numbers(std::iter::once((id, more)));
        }
        self.add_to_numbers(added);
    }

    /// The same where no count is a byte.
    #[inline]
    fn add_to_numbers(&mut self, added: impl Iterator<Item = (usize, u64)>) {
        match &mut self.counts {
            Kept::Bytes(_) => {}
            // Below 2^32, as all of them together are.
            Kept::Numbers(Numbers::Narrow(counts)) => added.for_each(|(id, more)| counts[id] += more as u32),
            Kept::Numbers(Numbers::Wide(counts)) => added.for_each(|(id, more)| counts[id] += more as i64),
        }
    }

    /// Bytes that bytes have when they are numbers.
    fn bytes_of_wide(&self) -> usize {
        match &self.counts {
            Kept::Bytes(counts) => counts.capacity() * size_of::<u32>(),
            Kept::Numbers(_) => 0,
        }
    }

    /// Has no bytes from now on; what it is then has been charged.
    #[cold]
    fn widen(&mut self) {
        let Kept::Bytes(counts) = &self.counts else { return };
        let mut wide = Vec::with_capacity(counts.capacity());
        wide.extend(counts.iter().map(|count| u32::from(*count)));
        self.counts = Kept::Numbers(Numbers::Narrow(wide));
        self.charge.settle(self.held());
        // Counts of so many rows are wider still.
        self.expect(0);
    }
}

impl State for Counts {
    fn reserve(&mut self, groups: usize, wish: Wish) -> Result<()> {
        if self.most >= HALF && self.bytes_of_wide() > 0 {
            let bytes = self.bytes_of_wide();
            self.charge.grow(bytes, if bytes <= LITTLE_BYTES { Wish::Anyway } else { wish })?;
            self.widen();
        }
        match &mut self.counts {
            Kept::Bytes(counts) => self.charge.room(counts, groups, wish)?,
            Kept::Numbers(counts) => counts.reserve(groups, &mut self.charge, wish)?,
        }
        self.charge.settle(self.held());
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        ids: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.expect(ids.len() as u64);
        self.resize(groups);
        let nulls = values.first().and_then(|array| array.logical_nulls());
        match counted(nulls.as_ref(), filter) {
            None => self.add(ids.iter().map(|&id| (id, 1))),
            Some(is_counted) => {
                self.add(ids.iter().enumerate().map(|(row, &id)| (id, u64::from(is_counted(row)))));
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], ids: &[usize], groups: usize) -> Result<()> {
        let known = states[0].as_primitive::<Int64Type>().values();
        self.expect(known.iter().map(|count| *count as u64).sum());
        self.resize(groups);
        self.add(ids.iter().zip(known.iter()).map(|(&id, count)| (id, *count as u64)));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        (self.rows, self.most) = (0, 0);
        let counts: Vec<i64> = match std::mem::replace(&mut self.counts, Kept::Bytes(Vec::new())) {
            Kept::Bytes(counts) => {
                self.charge.take(counts.len() * size_of::<i64>());
                counts.into_iter().map(i64::from).collect()
            }
            Kept::Numbers(mut counts) => {
                if let Numbers::Narrow(counts) = &counts {
                    self.charge.take(counts.len() * size_of::<i64>());
                }
                counts.take()
            }
        };
        // They are with whoever asked from now on, as long as this is there.
        self.charge.settle(counts.capacity() * size_of::<i64>());
        Ok(Arc::new(Int64Array::new(counts.into(), None)))
    }

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    /// Rows of groups by `ids`, in batches, of which every seventh is not counted; and what others know of them.
    fn check(ids: &[usize], groups: usize, known: &[i64]) {
        let mut counts = Counts::new(Memory::unlimited().charge());
        let mut twin = vec![0_i64; groups];
        for (number, ids) in ids.chunks(97).enumerate() {
            counts.reserve(groups, Wish::IfFree).unwrap();
            let filter: BooleanArray = (0..ids.len()).map(|row| Some(row % 7 != 3)).collect();
            let filter = (number % 2 == 1).then_some(filter);
            for (row, id) in ids.iter().enumerate() {
                twin[*id] += i64::from(filter.as_ref().is_none_or(|filter| filter.value(row)));
            }
            counts.update(&[], ids, filter.as_ref(), groups).unwrap();
            assert_eq!(counts.bytes(), counts.held());
        }
        let states: ArrayRef = Arc::new(Int64Array::from(known.to_vec()));
        let of: Vec<usize> = (0..known.len()).map(|place| place % groups).collect();
        of.iter().zip(known).for_each(|(id, count)| twin[*id] += count);
        counts.merge(&[states], &of, groups).unwrap();
        assert_eq!(counts.bytes(), counts.held());
        let found = counts.evaluate().unwrap();
        assert_eq!(found.as_primitive::<Int64Type>().values(), &twin[..]);
    }

    #[test]
    fn counts_go_beyond_each_number_of_bits() {
        // In one batch, so that all are counted: 90 each.
        let even: Vec<usize> = (0..90).map(|_| 1).collect();
        for more in [&[][..], &[0, 165], &[0, 166], &[3, 165, 1], &[1, 100, 300, 66], &[0, 100, 255, 65, 256]] {
            check(&even, 3, more);
        }
        // One group with nearly all rows.
        let skewed: Vec<usize> = (0..3_000).map(|row| if row % 100 == 0 { row / 100 } else { 7 }).collect();
        check(&skewed, 40, &[1 << 31, 1 << 31, 3, 1 << 31]);
        check(&[], 1, &[1 << 40]);
        check(&[0; 300], 1, &[(1 << 32) - 301]);
        check(&[], 3, &[(1 << 32) - 1, 1]);
    }

    #[test]
    fn room_for_greater_counts_is_asked_for_before_they_come() {
        use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
        use datafusion_physical_plan::metrics::Gauge;
        let counts_of = |groups: usize, limit: usize| {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
            let memory = Memory::new(MemoryConsumer::new("test").register(&pool), Gauge::new());
            let mut counts = Counts::new(Arc::new(memory).charge());
            counts.reserve(groups, Wish::IfFree).unwrap();
            counts.update(&[], &[7; 127], None, groups).unwrap();
            counts.reserve(groups, Wish::IfFree).unwrap();
            counts.update(&[], &[7], None, groups).unwrap();
            assert_eq!((counts.bytes(), pool.reserved()), (groups, groups));
            (counts, pool)
        };
        let many = LITTLE_BYTES / size_of::<u32>() + 1;
        let (mut counts, pool) = counts_of(many, 2 * many);
        for _ in 0..2 {
            assert!(counts.reserve(many, Wish::IfFree).is_err());
            assert_eq!((counts.bytes(), pool.reserved()), (many, many));
        }
        // Who takes rows nevertheless has them counted.
        counts.update(&[], &[7; 128], None, many).unwrap();
        assert_eq!((counts.bytes(), pool.reserved()), (4 * many, 4 * many));
        assert_eq!(counts.evaluate().unwrap().as_primitive::<Int64Type>().value(7), 256);
        assert_eq!(pool.reserved(), 8 * many);
        let (mut counts, pool) = counts_of(many, 10 * many);
        counts.reserve(many, Wish::IfFree).unwrap();
        assert_eq!((counts.bytes(), pool.reserved()), (4 * many, 4 * many));
        // A little is not asked for.
        let (mut counts, pool) = counts_of(many - 1, many);
        counts.reserve(many - 1, Wish::IfFree).unwrap();
        assert_eq!(pool.reserved(), 4 * (many - 1));
    }
}

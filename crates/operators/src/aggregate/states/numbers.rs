//! One integer for each group, stored in half the bits for as long as these are enough.

use datafusion_common::Result;

use crate::hash_table::account::Account;
use crate::memory::{Charge, Wish};

/// See the module.
pub(super) enum Numbers<N, W> {
    Narrow(Vec<N>),
    Wide(Vec<W>),
}

impl<N: Copy + Default + Into<W>, W: Copy + Default> Numbers<N, W> {
    pub(super) fn new() -> Self {
        Self::Narrow(Vec::new())
    }

    /// Groups that have one.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Narrow(numbers) => numbers.len(),
            Self::Wide(numbers) => numbers.len(),
        }
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Narrow(numbers) => numbers.capacity() * size_of::<N>(),
            Self::Wide(numbers) => numbers.capacity() * size_of::<W>(),
        }
    }

    /// Room for so many groups, charged before it is taken.
    ///
    /// # Errors
    /// Where the pool has none left.
    pub(super) fn reserve(&mut self, groups: usize, charge: &mut Charge, wish: Wish) -> Result<()> {
        match self {
            Self::Narrow(numbers) => charge.room(numbers, groups, wish),
            Self::Wide(numbers) => charge.room(numbers, groups, wish),
        }
    }

    /// Has all the bits from now on.
    pub(super) fn widen(&mut self, charge: &mut Charge) {
        if let Self::Narrow(numbers) = self {
            // There is no way back from here, and the next reservation finds that there is no room.
            charge.take(numbers.capacity() * size_of::<W>());
            let mut wide = Vec::with_capacity(numbers.capacity());
            wide.extend(numbers.iter().map(|number| (*number).into()));
            *self = Self::Wide(wide);
        }
    }

    /// Is of so many groups from now on, new ones with nothing.
    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            Self::Narrow(numbers) => numbers.resize(groups, N::default()),
            Self::Wide(numbers) => numbers.resize(groups, W::default()),
        }
    }

    /// All of them, of which none are left.
    pub(super) fn take(&mut self) -> Vec<W> {
        match std::mem::replace(self, Self::new()) {
            Self::Narrow(numbers) => numbers.into_iter().map(Into::into).collect(),
            Self::Wide(numbers) => numbers,
        }
    }
}

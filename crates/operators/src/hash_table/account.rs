//! Who is asked for memory before it is taken.
//!
//! A table knows how much it is about to take, and nobody who has memory: the operator that holds it brings one who does.

use arrow::error::ArrowError;

/// What becomes of a wish for memory where there is none left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is refused.
    IfFree,
    /// It is granted and charged: somebody who has nothing left to put out of memory takes one more batch, so that what
    /// he does comes to an end.
    Anyway,
}

/// The bytes that somebody holds, as whoever has the memory knows them. They are given back when it goes.
pub(crate) trait Account {
    /// How a wish is refused, by whoever has the memory or by a table that can be no larger.
    type Error: From<ArrowError>;

    /// Bytes that are charged.
    fn charged(&self) -> usize;

    /// Charges bytes that are about to be taken.
    ///
    /// # Errors
    /// Where there are none left.
    fn charge(&mut self, bytes: usize, wish: Wish) -> Result<(), Self::Error>;

    /// Is of so many bytes from now on: those that are held, whether there are as many or not.
    fn correct(&mut self, bytes: usize);

    /// Makes room for so many values and no more, charged before it is taken: the old ones are held meanwhile. Who calls
    /// corrects the account afterwards, and knows how many there will be.
    ///
    /// # Errors
    /// Where there is no memory left.
    fn room<T>(&mut self, values: &mut Vec<T>, count: usize, wish: Wish) -> Result<(), Self::Error> {
        if count <= values.capacity() {
            return Ok(());
        }
        self.charge(count * size_of::<T>(), wish)?;
        values.reserve_exact(count - values.len());
        Ok(())
    }

    /// The same for so many values more, and for a quarter more than there are.
    ///
    /// # Errors
    /// As there.
    fn room_for_more<T>(&mut self, values: &mut Vec<T>, more: usize, wish: Wish) -> Result<(), Self::Error> {
        let count = values.len() + more;
        if count <= values.capacity() {
            return Ok(());
        }
        let count = count.max(values.len() + values.len() / 4);
        self.room(values, count, wish)
    }
}

/// So many bytes may be charged, and the most that ever were.
#[cfg(test)]
pub(crate) struct Budget {
    charged: usize,
    pub(crate) most: usize,
    pub(crate) limit: usize,
}

#[cfg(test)]
impl Budget {
    pub(crate) fn of(limit: usize) -> Self {
        Self { charged: 0, most: 0, limit }
    }

    pub(crate) fn unlimited() -> Self {
        Self::of(usize::MAX)
    }
}

#[cfg(test)]
impl Account for Budget {
    type Error = ArrowError;

    fn charged(&self) -> usize {
        self.charged
    }

    fn charge(&mut self, bytes: usize, wish: Wish) -> Result<(), ArrowError> {
        if wish == Wish::IfFree && self.charged + bytes > self.limit {
            return Err(ArrowError::ComputeError("nothing left".to_owned()));
        }
        self.charged += bytes;
        self.most = self.most.max(self.charged);
        Ok(())
    }

    fn correct(&mut self, bytes: usize) {
        self.charged = bytes;
        self.most = self.most.max(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_not_taken() {
        let mut budget = Budget::of(1000);
        let mut values: Vec<u64> = Vec::new();
        budget.room(&mut values, 100, Wish::IfFree).unwrap();
        assert_eq!((values.capacity(), budget.charged()), (100, 800));
        // Room that is there already costs nothing.
        budget.room(&mut values, 100, Wish::IfFree).unwrap();
        assert_eq!(budget.charged(), 800);
        values.resize(100, 7);
        // The old ones are held while the new ones come.
        assert!(budget.room(&mut values, 101, Wish::IfFree).is_err());
        assert!(budget.room_for_more(&mut values, 1, Wish::IfFree).is_err());
        assert_eq!((values.capacity(), budget.charged(), budget.most), (100, 800, 800));
        budget.room_for_more(&mut values, 1, Wish::Anyway).unwrap();
        assert_eq!((values.capacity(), budget.charged()), (125, 1800));
        budget.correct(values.capacity() * size_of::<u64>());
        assert_eq!((budget.charged(), budget.most), (1000, 1800));
    }
}

//! Sets of shards: what a rule answers with, and what a route computes with.

use std::fmt;

/// A shard: its position among those of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

impl ShardId {
    /// As an index into the rule's shards.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Physical tables that a rule can have.
pub const SHARDS_MAX: usize = 1024;

const WORDS: usize = SHARDS_MAX / 64;

/// A set of shards, without memory of its own: it is made for every statement that runs.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSet([u64; WORDS]);

impl ShardSet {
    /// No shard.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The first `count` shards: all those of a rule.
    pub fn first(count: usize) -> Self {
        let mut set = Self::EMPTY;
        for (at, word) in set.0.iter_mut().enumerate() {
            *word = match count.saturating_sub(at * 64) {
                0 => 0,
                left @ 1..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
        }
        set
    }

    /// One shard.
    pub fn of(shard: ShardId) -> Self {
        let mut set = Self::EMPTY;
        set.insert(shard);
        set
    }

    /// Adds a shard, which is less than [`SHARDS_MAX`].
    pub fn insert(&mut self, shard: ShardId) {
        self.0[shard.index() / 64] |= 1 << (shard.index() % 64);
    }

    /// Whether the shard is in it.
    pub fn contains(&self, shard: ShardId) -> bool {
        self.0.get(shard.index() / 64).is_some_and(|word| word >> (shard.index() % 64) & 1 == 1)
    }

    /// How many shards are in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no shard is in it.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The shard, where there is exactly one.
    pub fn only(&self) -> Option<ShardId> {
        let mut shards = self.iter();
        let first = shards.next()?;
        shards.next().is_none().then_some(first)
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then(|| ShardId((at * 64) as u16 + bit as u16))
            })
        })
    }

    /// Those in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Those in either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|shard| shard.0)).finish()
    }
}

impl FromIterator<ShardId> for ShardSet {
    fn from_iter<I: IntoIterator<Item = ShardId>>(shards: I) -> Self {
        let mut set = Self::EMPTY;
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARDS_MAX, ShardId, ShardSet};

    #[test]
    fn sets_hold_what_was_put_into_them() {
        for count in [0, 1, 63, 64, 65, 128, SHARDS_MAX] {
            let all = ShardSet::first(count);
            assert_eq!(all.len(), count);
            assert_eq!(all.iter().map(|shard| shard.index()).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
            assert_eq!(all.only().is_some(), count == 1);
        }
        let some: ShardSet = [ShardId(3), ShardId(64), ShardId(1023)].into_iter().collect();
        assert!(some.contains(ShardId(64)) && !some.contains(ShardId(65)) && !some.contains(ShardId(u16::MAX)));
        assert_eq!(some.and(&ShardSet::first(65)).len(), 2);
        assert_eq!(some.or(&ShardSet::first(65)).len(), 66);
        assert!(some.and(&ShardSet::of(ShardId(4))).is_empty());
    }
}

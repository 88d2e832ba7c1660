//! Hashes of keys: 64 bits by folded multiplication, with a secret, so that nobody can choose keys that collide.
//!
//! Of a hash, the upper half says where a table is searched first, the lowest byte is the tag in a directory, and the bits
//! above that byte divide rows among partitions.

use std::hash::{BuildHasher, RandomState};

use super::machine::equal_words;

const FIRST: u64 = 0x9E37_79B9_7F4A_7C15;
const SECOND: u64 = 0xD6E8_FEB8_6659_FD93;

/// What hashes of one level are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret(u64);

impl Secret {
    /// Known to nobody.
    pub(crate) fn random() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    /// Another one: what collided by this one does not by that.
    pub(crate) fn next(self) -> Self {
        #[cfg(test)]
        if self.0 == STUCK {
            return self;
        }
        Self(fold(self.0 ^ SECOND, FIRST).wrapping_add(SECOND))
    }

    /// By which all words have the same hash.
    #[cfg(test)]
    pub(crate) fn colliding() -> Self {
        Self(COLLIDING)
    }

    /// By which all words have the same hash, as by any that comes of it: nothing is divided by them.
    #[cfg(test)]
    pub(crate) fn stuck() -> Self {
        Self(STUCK)
    }

    /// By which words have hashes of their own but for the bits that tags are made of: chunks and slots are found as by any other, and tags
    /// tell no entry from another one.
    #[cfg(test)]
    pub(crate) fn same_tag() -> Self {
        Self(SAME_TAG)
    }

    /// The hash that a test has asked for, where one has; `hash` gives that of the same by another secret.
    #[cfg(test)]
    fn asked_for(self, hash: impl Fn(Self) -> u64) -> Option<u64> {
        match self.0 {
            COLLIDING | STUCK => Some(FIRST),
            SAME_TAG => Some((hash(Self(SECOND)) & !TAG_BITS) | TAG),
            _ => None,
        }
    }

    /// The hash of NULL, where that is no part of a key's bytes.
    pub(crate) fn of_null(self) -> u64 {
        fold(self.0.rotate_left(17), SECOND)
    }
}

#[cfg(test)]
const COLLIDING: u64 = 0xC011_1DE5;
#[cfg(test)]
const STUCK: u64 = COLLIDING + 1;
#[cfg(test)]
const SAME_TAG: u64 = COLLIDING + 2;
/// The bits that tags are made of: eight of a directory's, ten of a table's of all rows.
#[cfg(test)]
const TAG_BITS: u64 = (1 << 10) - 1;
/// What they are by [`SAME_TAG`].
#[cfg(test)]
const TAG: u64 = 0xA3;

/// The two halves of a product, one over the other.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// What a group is known by.
pub(crate) trait Word: Copy + Eq + Default + Send + 'static {
    /// Its hash.
    fn hash(self, secret: Secret) -> u64;
    /// The lowest bits of a wide word.
    fn narrow(wide: u128) -> Self;
    /// All its bits.
    fn widen(self) -> u128;
    /// How many are compared at once: a power of two.
    const TOGETHER: usize = 4;
    /// A bit for each of as many, or of others that a table has together, that is `self`, the first one lowest. Of 32 bits they are eight.
    #[inline]
    fn places_in(self, together: &[Self]) -> u32 {
        together.iter().enumerate().fold(0, |bits, (at, known)| bits | u32::from(*known == self) << at)
    }
}

impl Word for u32 {
    const TOGETHER: usize = 8;

    #[inline]
    fn places_in(self, together: &[Self]) -> u32 {
        together.first_chunk().map_or(0, |together| equal_words(together, self))
    }

    #[inline]
    fn hash(self, secret: Secret) -> u64 {
        u64::from(self).hash(secret)
    }

    #[inline]
    fn narrow(wide: u128) -> Self {
        wide as Self
    }

    #[inline]
    fn widen(self) -> u128 {
        u128::from(self)
    }
}

impl Word for u64 {
    #[inline]
    fn hash(self, secret: Secret) -> u64 {
        #[cfg(test)]
        if let Some(asked_for) = secret.asked_for(|other| self.hash(other)) {
            return asked_for;
        }
        fold(self ^ secret.0, FIRST)
    }

    #[inline]
    fn narrow(wide: u128) -> Self {
        wide as Self
    }

    #[inline]
    fn widen(self) -> u128 {
        u128::from(self)
    }
}

impl Word for u128 {
    #[inline]
    fn hash(self, secret: Secret) -> u64 {
        #[cfg(test)]
        if let Some(asked_for) = secret.asked_for(|other| self.hash(other)) {
            return asked_for;
        }
        let low = fold(self as u64 ^ secret.0, FIRST);
        fold(low ^ (self >> 64) as u64, SECOND)
    }

    #[inline]
    fn narrow(wide: u128) -> Self {
        wide
    }

    #[inline]
    fn widen(self) -> u128 {
        self
    }
}

/// The hash of bytes of any length.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8], secret: Secret) -> u64 {
    #[cfg(test)]
    if let Some(asked_for) = secret.asked_for(|other| of_bytes(bytes, other)) {
        return asked_for;
    }
    let mut hash = fold(secret.0 ^ bytes.len() as u64, SECOND);
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first_chunk::<8>() {
        hash = fold(hash ^ u64::from_le_bytes(*first), FIRST);
        rest = behind;
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = fold(hash ^ u64::from_le_bytes(last), FIRST);
    }
    // Where the last product was of few bits, the tag would be too.
    fold(hash ^ secret.0, SECOND)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_that_follow_each_other_are_spread() {
        let secret = Secret::random();
        for step in [1_u64, 1 << 8, 1 << 32, 1 << 56] {
            let hashes: Vec<u64> = (0..256).map(|number| (number * step).hash(secret)).collect();
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 256, "{step}");
            for shift in [0, 8, 56] {
                let seen: HashSet<u64> = hashes.iter().map(|hash| hash >> shift & 0xFF).collect();
                // Of 256 draws out of 256, 162 are different by chance.
                assert!(seen.len() > 120, "{step} {shift}: {}", seen.len());
            }
        }
    }

    #[test]
    fn hashes_of_one_tag_differ_elsewhere() {
        let secret = Secret::same_tag();
        let texts = (0..256_u64).map(|number| of_bytes(&number.to_le_bytes()[..2], secret));
        let hashes: [Vec<u64>; 4] = [
            (0..256_u32).map(|number| number.hash(secret)).collect(),
            (0..256_u64).map(|number| number.hash(secret)).collect(),
            (0..256_u128).map(|number| number.hash(secret)).collect(),
            texts.collect(),
        ];
        for hashes in hashes {
            assert!(hashes.iter().all(|hash| hash & TAG_BITS == TAG), "{hashes:?}");
            assert_eq!(hashes.iter().map(|hash| hash >> 32).collect::<HashSet<u64>>().len(), 256);
        }
        // By the next one tags are different again.
        let tags: HashSet<u64> = (0..256_u64).map(|number| number.hash(secret.next()) & TAG_BITS).collect();
        assert!(tags.len() > 120, "{}", tags.len());
    }

    #[test]
    fn every_bit_of_bytes_counts() {
        let secret = Secret::random();
        let mut bytes = vec![7; 21];
        let whole = of_bytes(&bytes, secret);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_ne!(of_bytes(&bytes, secret), whole, "{at}");
            bytes[at] ^= 1;
        }
        assert_ne!(of_bytes(&bytes[..20], secret), whole);
        assert_ne!(of_bytes(&[0; 3], secret), of_bytes(&[0; 4], secret));
        assert_ne!(of_bytes(&bytes, secret.next()), whole);
    }
}

//! Numbers of texts that come again, and what a connection has found by them: its statements are found without their texts being read.
//!
//! Called by `statements`, which holds what is found here against what it knows: a number only shortens the way there.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many numbers have been given.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// The number of a text that is sent to shards, which no other text has. One text may have several: each plan gives its texts its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextNumber(u64);

impl TextNumber {
    /// A number that no text has.
    pub fn make() -> Self {
        Self(GIVEN.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where a statement was when it was last asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    /// The place among those that the connection knows.
    pub(super) place: usize,
    /// The statement's name, which no other has had: another one at that place is not it.
    pub(super) name: u64,
}

struct Found {
    /// The same text with parameters of other types, or in another time zone, is another statement.
    types: Box<[u32]>,
    zone: Arc<str>,
    at: At,
}

impl Found {
    fn is_of(&self, types: &[u32], zone: &Arc<str>) -> bool {
        // The zone is nearly always the text that the connection had then.
        *self.types == *types && (Arc::ptr_eq(&self.zone, zone) || self.zone == *zone)
    }
}

/// Where statements were, by the number of their text.
#[derive(Default)]
pub(super) struct Numbered(HashMap<TextNumber, Found, BuildHasherDefault<NumberHasher>>);

impl Numbered {
    /// Where the statement was, if it has been kept.
    pub(super) fn find(&self, number: TextNumber, types: &[u32], zone: &Arc<str>) -> Option<At> {
        self.0.get(&number).filter(|found| found.is_of(types, zone)).map(|found| found.at)
    }

    /// Keeps where it is. There are at most `max`: then all others are forgotten, and found by their texts when they come next. Those that
    /// come again are soon there again, and numbers of plans that are gone are not.
    pub(super) fn keep(&mut self, number: TextNumber, types: &[u32], zone: &Arc<str>, at: At, max: usize) {
        let found = || Found { types: types.into(), zone: Arc::clone(zone), at };
        match self.0.get_mut(&number) {
            Some(before) if before.is_of(types, zone) => before.at = at,
            Some(before) => *before = found(),
            None => {
                if self.0.len() >= max {
                    self.0.clear();
                }
                self.0.insert(number, found());
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Hashes numbers that are given one after the other. They differ in their lowest bits, by which the table has its places; the
/// product differs in the highest too, by which it tells apart what meets at one.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 by the golden ratio.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_found_by_number_types_and_zone_and_there_is_a_bound() {
        let mut numbered = Numbered::default();
        let (utc, berlin): (Arc<str>, Arc<str>) = ("UTC".into(), "Europe/Berlin".into());
        let (one, other) = (TextNumber::make(), TextNumber::make());
        assert_ne!(one, other);
        let at = |place| At { place, name: 7 };
        assert_eq!(numbered.find(one, &[], &utc), None);
        numbered.keep(one, &[], &utc, at(1), 2);
        assert_eq!(numbered.find(one, &[], &utc), Some(at(1)));
        // The same zone, written elsewhere.
        assert_eq!(numbered.find(one, &[], &"UTC".into()), Some(at(1)));
        assert_eq!(numbered.find(one, &[23], &utc), None);
        assert_eq!(numbered.find(one, &[], &berlin), None);
        assert_eq!(numbered.find(other, &[], &utc), None);
        // The last one counts.
        numbered.keep(one, &[], &utc, at(2), 2);
        numbered.keep(other, &[23], &utc, at(3), 2);
        assert_eq!((numbered.find(one, &[], &utc), numbered.find(other, &[23], &utc)), (Some(at(2)), Some(at(3))));
        // One that is there already takes nobody's place, whatever its types are.
        numbered.keep(other, &[25], &utc, at(5), 2);
        assert_eq!((numbered.find(one, &[], &utc), numbered.find(other, &[25], &utc)), (Some(at(2)), Some(at(5))));
        assert_eq!(numbered.find(other, &[23], &utc), None);
        numbered.keep(TextNumber::make(), &[], &utc, at(4), 2);
        assert_eq!((numbered.0.len(), numbered.find(one, &[], &utc)), (1, None));
        numbered.clear();
        assert_eq!(numbered.0.len(), 0);
    }
}

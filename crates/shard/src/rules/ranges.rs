//! Ranges of keys, each with a shard: what `range`, `boundary`, `volume` and `interval` all are in the end.
//!
//! ```text
//!   boundary '10,20':   ... 10 ......... 20 ...        range '0..10; 20..30':   0 .... 10    20 .... 30
//!                        0  |     1      |  2                                      0    gap     1
//! ```

use std::ops::Bound;

use ashlar_base::{Error, ErrorCode, Result};

use super::{Key, ShardId, ShardSet};

/// Ranges that do not overlap, in ascending order; a range has its low end and not its high end.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges(Vec<Range>);

#[derive(Clone, Debug, PartialEq)]
struct Range {
    /// `None` where there is no lowest.
    low: Option<Key>,
    high: Option<Key>,
    shard: ShardId,
}

impl Ranges {
    /// Ranges from one boundary to the next, with all below the first and all from the last on: one more than boundaries.
    ///
    /// # Errors
    /// 22023 where the boundaries do not ascend.
    pub(super) fn between(boundaries: Vec<Key>) -> Result<Self> {
        let lows = std::iter::once(None).chain(boundaries.iter().cloned().map(Some));
        let highs = boundaries.iter().cloned().map(Some).chain([None]);
        Self::new(lows.zip(highs).collect())
    }

    /// The n-th range belongs to the n-th shard.
    ///
    /// # Errors
    /// 22023 for an empty range, and where two overlap.
    pub(super) fn new(ranges: Vec<(Option<Key>, Option<Key>)>) -> Result<Self> {
        let wrong = |message: &str| {
            Error::new(ErrorCode::InvalidParameterValue, message)
                .with_hint("A range holds its lower end and not its upper end; ranges may touch and may not overlap.")
        };
        let mut made = Vec::with_capacity(ranges.len());
        for (at, (low, high)) in ranges.into_iter().enumerate() {
            if let (Some(low), Some(high)) = (&low, &high)
                && low >= high
            {
                return Err(wrong("the ranges of the sharding rule do not ascend"));
            }
            let shard = ShardId(u16::try_from(at).map_err(|_| wrong("too many ranges"))?);
            made.push(Range { low, high, shard });
        }
        made.sort_by(|a, b| a.low.cmp(&b.low));
        for pair in made.windows(2) {
            let touches = match (&pair[0].high, &pair[1].low) {
                (Some(high), Some(low)) => high <= low,
                _ => false,
            };
            if !touches {
                return Err(wrong("two ranges of the sharding rule overlap"));
            }
        }
        Ok(Self(made))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The ends of a shard's range; `None`: it has none.
    pub(super) fn of_shard(&self, shard: ShardId) -> Option<(Option<&Key>, Option<&Key>)> {
        let range = self.0.iter().find(|range| range.shard == shard)?;
        Some((range.low.as_ref(), range.high.as_ref()))
    }

    /// The shard whose range holds the key.
    pub(super) fn find(&self, key: &Key) -> Option<ShardId> {
        let after = self.0.partition_point(|range| range.low.as_ref().is_none_or(|low| low <= key));
        let range = self.0.get(after.checked_sub(1)?)?;
        range.high.as_ref().is_none_or(|high| key < high).then_some(range.shard)
    }

    /// The shards whose ranges hold a key between these.
    pub(super) fn overlapping(&self, low: Bound<&Key>, high: Bound<&Key>) -> ShardSet {
        let reaches_up = |range: &Range| match (&range.high, low) {
            (None, _) | (_, Bound::Unbounded) => true,
            (Some(end), Bound::Included(low) | Bound::Excluded(low)) => low < end,
        };
        let reaches_down = |range: &Range| match (&range.low, high) {
            (None, _) | (_, Bound::Unbounded) => true,
            (Some(start), Bound::Included(high)) => start <= high,
            (Some(start), Bound::Excluded(high)) => start < high,
        };
        self.0.iter().filter(|range| reaches_up(range) && reaches_down(range)).map(|range| range.shard).collect()
    }
}

//! What is drawn by lot for the twins of aggregations and of joins: numbers, and columns of keys of each type that is packed
//! in a way of its own.

use std::hash::{BuildHasher, RandomState};

use super::*;

/// Seeds that one run has alone.
const SEEDS_ONCE: u64 = 20;

/// Of shapes with a limit one in so many goes to files at least. By their seeds more do: the limit is 16 KiB at least, which half of the shapes have
/// too few rows for, and some too few groups.
const ONE_IN_FILES: usize = 10;

/// Columns of keys, by name.
const KEYS: [&str; 12] =
    ["short", "int", "long", "real", "double", "text", "bytes", "uuid", "born", "seen", "wide", "yes"];

/// Numbers by lot.
pub(crate) struct Lot(u64);

impl Lot {
    /// Those of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(scrambled(seed))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        scrambled(self.0) % bound
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Between one and three columns of keys, one more often than several.
    pub(crate) fn columns(&mut self) -> Vec<&'static str> {
        let (first, step, count) = (self.below(12), self.one_of(&[1_u64, 5, 7, 11]), self.one_of(&[1_u64, 1, 2, 3]));
        (0..count).map(|at| KEYS[((first + at * step) % 12) as usize]).collect()
    }
}

/// What rows are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) seed: u64,
    pub(crate) rows: u64,
    /// Different keys that a column has, at most and beside one.
    pub(crate) keys: u64,
    /// One key in so many is NULL; 0 for none.
    pub(crate) null: u64,
    /// Of so many rows all but one have the same key; 0 for none.
    pub(crate) skew: u64,
    pub(crate) streams: usize,
    pub(crate) batch_rows: usize,
}

impl Drawn {
    /// So many rows, of which a column has at most so many different keys beside one.
    pub(crate) fn of(lot: &mut Lot, seed: u64, rows: u64, keys: u64) -> Self {
        Self {
            seed,
            rows,
            keys,
            null: lot.one_of(&[0, 30, 3, 1]),
            skew: lot.one_of(&[0, 0, 3, 20]),
            streams: lot.one_of(&[1, 2, 3]),
            batch_rows: lot.one_of(&[7, 100, 1000]),
        }
    }

    /// A number of a row, of as many as there are.
    pub(crate) fn any(&self, row: u64, number: u64) -> u64 {
        scrambled(scrambled(self.seed).wrapping_add(row * 64 + number))
    }

    fn key(&self, row: u64, column: u64) -> Option<u64> {
        let any = self.any(row, column) >> 8;
        let key = if self.skew > 0 && !any.is_multiple_of(self.skew) { 3 } else { any / 64 % self.keys };
        let is_null = self.null > 0 && self.any(row, column + 16).is_multiple_of(self.null);
        (!is_null).then_some(key)
    }

    /// Columns of keys by their names, and whether some may be NULL.
    pub(crate) fn key_columns(&self) -> impl Iterator<Item = (&'static str, ArrayRef, bool)> {
        let has_nulls = self.null > 0;
        let columns = key_columns(self.rows, &|row, column| self.key(row, column));
        KEYS.into_iter().zip(columns).map(move |(name, array)| (name, array, has_nulls))
    }

    /// Its rows as an input.
    pub(crate) fn table(&self, rows: &RecordBatch) -> Arc<dyn ExecutionPlan> {
        table(rows, self.streams, self.batch_rows)
    }
}

/// Has what comes of seeds checked: of the first ones, and of such that this run has alone. With `ASHLAR_TWIN_SEED` there is that one alone.
/// `check` says whether files were written, where there was a limit: of the first ones some must have been.
pub(crate) fn for_each_seed(seeds: u64, check: impl Fn(u64) -> Option<bool>) {
    if let Ok(seed) = std::env::var("ASHLAR_TWIN_SEED") {
        check(seed.parse().unwrap());
        return;
    }
    let with_limit: Vec<bool> = (0..seeds).filter_map(&check).collect();
    let in_files = with_limit.iter().filter(|is_written| **is_written).count();
    let limits = with_limit.len();
    assert!(in_files * ONE_IN_FILES >= limits.max(1), "of {limits} shapes with a limit {in_files} go to files");
    let first = RandomState::new().hash_one(0);
    for seed in 0..SEEDS_ONCE {
        check(first.wrapping_add(seed));
    }
}

/// Compares what a plan gives that may take all memory, and what one gives that may take one part in `share` of what the first has taken.
/// Whether the second wrote files; `None` where it may take all, too.
pub(crate) fn compare_in_files(
    shape: &dyn fmt::Debug,
    share: usize,
    plan: &dyn Fn() -> Arc<dyn ExecutionPlan>,
    compare: &dyn Fn(&Arc<dyn ExecutionPlan>, usize),
) -> Option<bool> {
    let free = plan();
    compare(&free, 1 << 30);
    assert_eq!(files(&free), 0, "{shape:?}");
    if share == 1 {
        return None;
    }
    let less = plan();
    compare(&less, (peak(&free) / share).max(1 << 14));
    Some(files(&less) > 0)
}

/// Columns of keys in the order of [`KEYS`]: `key` says by row and column which, and where there is none.
fn key_columns(rows: u64, key: &dyn Fn(u64, u64) -> Option<u64>) -> Vec<ArrayRef> {
    let of = |column: u64| (0..rows).map(move |row| key(row, column));
    let double = |key: u64| match key {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        4 => -f64::NAN,
        other => other as f64 / 4.0,
    };
    let text = |key: u64| format!("{}{}", "x".repeat(key as usize % 23), key / 2);
    let bytes = |key: u64| scrambled(key).to_le_bytes()[..key as usize % 9].to_vec();
    let uuid = |key: u64| [scrambled(key).to_le_bytes(), key.to_le_bytes()].concat();
    let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(of(7).map(|key| key.map(uuid)), 16);
    let seen = of(9).map(|key| key.map(|key| (key as i64 - 5) * 1_000_003)).collect::<TimestampMicrosecondArray>();
    let wide = of(10).map(|key| key.map(|key| i128::from(key) - 50)).collect::<Decimal128Array>();
    vec![
        Arc::new(of(0).map(|key| key.map(|key| key as i16 - 100)).collect::<Int16Array>()),
        Arc::new(of(1).map(|key| key.map(|key| key as i32 - 2)).collect::<Int32Array>()),
        Arc::new(of(2).map(|key| key.map(|key| key as i64 * 1_000_003)).collect::<Int64Array>()),
        Arc::new(of(3).map(|key| key.map(|key| double(key) as f32)).collect::<Float32Array>()),
        Arc::new(of(4).map(|key| key.map(double)).collect::<Float64Array>()),
        Arc::new(of(5).map(|key| key.map(text)).collect::<StringArray>()),
        Arc::new(of(6).map(|key| key.map(bytes)).collect::<BinaryArray>()),
        Arc::new(uuids.unwrap()),
        Arc::new(of(8).map(|key| key.map(|key| key as i32 - 50)).collect::<Date32Array>()),
        Arc::new(seen.with_timezone("+00:00")),
        Arc::new(wide.with_precision_and_scale(20, 2).unwrap()),
        Arc::new(of(11).map(|key| key.map(|key| key % 2 == 1)).collect::<BooleanArray>()),
    ]
}

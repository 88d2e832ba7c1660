//! What is drawn by lot for the twins of aggregations and of joins: numbers, and columns of keys of each type that is packed
//! in a way of its own.

use super::*;

/// Columns of keys, by name.
pub(crate) const KEYS: [&str; 12] =
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

/// Columns of keys in the order of [`KEYS`]: `key` says by row and column which, and where there is none.
pub(crate) fn key_columns(rows: u64, key: &dyn Fn(u64, u64) -> Option<u64>) -> Vec<ArrayRef> {
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

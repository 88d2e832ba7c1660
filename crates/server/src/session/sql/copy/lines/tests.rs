//! Runs of lines against a list of them.

use ashlar_store::{Store, StoreConfig};

use super::*;

#[test]
fn a_row_has_the_line_that_it_came_with() {
    let store = Store::new(StoreConfig::default());
    let mut lines = Lines::charged_to(store.reservation());
    assert_eq!(lines.of(0), 0);
    // One after the other, some of several lines, and a header before them.
    for all in [&[1, 2, 3][..], &[2, 3, 4, 7, 8, 10, 13, 14, 15], &[9], &[1, 3, 5, 7, 9, 11, 13]] {
        all.iter().for_each(|line| lines.push(*line).unwrap());
        for (row, line) in all.iter().enumerate() {
            assert_eq!(lines.of(row), *line, "{all:?}");
        }
        lines.clear();
    }
}

#[test]
fn what_runs_take_is_charged_before_it_is_taken() {
    let store = Store::new(StoreConfig { memory_max: 1 << 20, ..StoreConfig::default() });
    let mut lines = Lines::charged_to(store.reservation());
    let mut line = 0;
    let error = loop {
        line += 2;
        if let Err(error) = lines.push(line) {
            break error;
        }
        assert!(store.memory_used() >= (lines.runs.capacity() * size_of::<(usize, u64)>()) as u64);
        assert!(line < 1 << 20, "there is no bound");
    };
    assert_eq!(error.code(), ashlar_base::ErrorCode::OutOfMemory);
    // All that were taken are there.
    assert_eq!(lines.of(lines.rows - 1), line - 2);
}

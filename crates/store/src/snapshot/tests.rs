//! The registry: who is seen, what is kept, and how slots come back.

use super::*;

#[test]
fn a_horizon_is_of_the_snapshots_before_the_writer() {
    let registry = Registry::new();
    let before = registry.tick();
    assert_eq!(registry.horizon(before), Horizon { oldest: before, newest: Timestamp(0) });
    let first = registry.open();
    assert_eq!(first.timestamp(), before);
    let between = registry.tick();
    let second = registry.open();
    let writer = registry.tick();
    assert_eq!(registry.horizon(writer), Horizon { oldest: before, newest: between });
    assert_eq!(registry.oldest(), before);
    // A later snapshot includes the writer, and does not count.
    let third = registry.open();
    assert_eq!(registry.horizon(writer).newest, between);
    let clone = first.clone();
    drop(first);
    assert_eq!(registry.horizon(writer).oldest, before);
    drop(clone);
    assert_eq!(registry.horizon(writer), Horizon { oldest: between, newest: between });
    drop((second, third));
    assert_eq!(registry.horizon(writer), Horizon { oldest: writer, newest: Timestamp(0) });
    assert_eq!(registry.oldest(), writer);
}

#[test]
fn a_hold_keeps_every_timestamp_after_the_oldest() {
    let registry = Registry::new();
    registry.tick();
    let snapshot = registry.open();
    let hold = registry.hold();
    let writer = registry.tick();
    assert_eq!(registry.horizon(writer), Horizon { oldest: snapshot.timestamp(), newest: Timestamp(writer.0 - 1) });
    drop(hold);
    assert_eq!(registry.horizon(writer).newest, snapshot.timestamp());
}

#[test]
fn slots_are_found_in_every_chunk_and_used_again() {
    let registry = Registry::new();
    registry.tick();
    let count = if cfg!(miri) { 200 } else { 1000 };
    for _ in 0..2 {
        let open: Vec<Snapshot> = (0..count).map(|_| registry.open()).collect();
        let mut slots: Vec<usize> = open.iter().map(|snapshot| snapshot.0.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), count);
        assert!(slots.iter().all(|&slot| slot < count + FIRST_CHUNK));
        assert_eq!(registry.open.load(Ordering::SeqCst), count);
    }
    assert_eq!(registry.open.load(Ordering::SeqCst), 0);
}

/// A burst of snapshots does not make every later write slow.
#[test]
fn a_writer_looks_only_where_snapshots_are() {
    let registry = Registry::new();
    registry.tick();
    let count = if cfg!(miri) { 200 } else { 10_000 };
    let many: Vec<Snapshot> = (0..count).map(|_| registry.open()).collect();
    assert!(registry.looked_at() >= count);
    drop(many);
    assert_eq!(registry.looked_at(), 0);
    let one = registry.open();
    assert_eq!(registry.looked_at(), FIRST_CHUNK);
    let writer = registry.tick();
    assert_eq!(registry.horizon(writer).oldest, one.timestamp());
}

#[test]
fn timestamps_catch_up_with_the_wall_clock_and_never_go_back() {
    let registry = Registry::new();
    let first = registry.tick();
    registry.advance();
    let second = registry.tick();
    assert!(second.0 >> 12 > 1_700_000_000_000_000 && second > first);
    let third = registry.tick();
    assert_eq!(third.0, second.0 + 1);
}

#[test]
fn threads_open_and_close_without_losing_one() {
    let registry = Registry::new();
    let rounds = if cfg!(miri) { 10 } else { 2_000 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let snapshot = registry.open();
                    let writer = registry.tick();
                    assert!(registry.horizon(writer).oldest <= snapshot.timestamp());
                }
            });
        }
    });
    let writer = registry.tick();
    assert_eq!(registry.horizon(writer).oldest, writer);
}

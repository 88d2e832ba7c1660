//! Deadlines and uses as numbers.

use super::*;

#[test]
fn deadlines_order_by_time_and_the_last_ones_never_come() {
    let own = Deadline::of_row(1000);
    let given = Deadline::of_table(1000);
    assert!(own.is_own() && !given.is_own());
    assert!(given < own && own < Deadline::of_row(1001));
    for deadline in [own, given] {
        assert_eq!(deadline.millis(), Some(1000));
        assert!(deadline.has_passed(1000) && !deadline.has_passed(999));
    }
    for never in [Deadline::NONE, Deadline::NEVER] {
        assert_eq!((never.millis(), never.datum()), (None, Datum::Null));
        assert!(!never.has_passed(i64::MAX as u64 - 1));
        assert!(Deadline::of_row(i64::MAX) < never);
    }
    assert_eq!((Deadline::of_row(-5).millis(), Deadline::of_row(-5).has_passed(1)), (Some(1), true));
    assert_eq!(Deadline::of_row(i64::MAX).millis(), Some(i64::MAX));
    assert!(Deadline::of_row(i64::MAX - 1) < Deadline::of_row(i64::MAX));
    assert_eq!(Deadline::of_table(u64::MAX), Deadline::NONE);
    assert_eq!(Deadline::of_row(i64::MAX).datum(), Datum::Timestamp(LAST_MICROS));
}

#[test]
fn a_write_keeps_a_life_of_the_rows_own_and_renews_that_of_the_table() {
    let (own, table) = (Deadline::of_row(70), Deadline::of_table(70));
    let given = Deadline::given;
    for (expiry, old, with_ttl, without) in [
        (Expiry::Keep, Some(own), own, own),
        (Expiry::Keep, Some(table), Deadline::of_table(110), table),
        (Expiry::Keep, None, Deadline::of_table(110), Deadline::NONE),
        (Expiry::Table, Some(own), Deadline::of_table(110), Deadline::NONE),
        (Expiry::At(90), Some(table), Deadline::of_row(90), Deadline::of_row(90)),
        (Expiry::Never, Some(own), Deadline::NEVER, Deadline::NONE),
        (Expiry::Keep, Some(Deadline::NEVER), Deadline::NEVER, Deadline::NEVER),
    ] {
        assert_eq!(given(expiry, old, 10, 100), with_ttl, "{expiry:?} {old:?}");
        assert_eq!(given(expiry, old, 0, 100), without, "{expiry:?} {old:?}");
    }
}

#[test]
fn rows_that_end_are_counted_with_the_sum_of_their_times() {
    let mut some = Expiring::default();
    assert_eq!((some.rows, some.average_left(0)), (0, 0));
    for deadline in [Deadline::of_row(300), Deadline::of_table(500), Deadline::NONE, Deadline::NEVER] {
        some.add(deadline);
    }
    assert_eq!((some.rows, some.average_left(100), some.average_left(1000)), (2, 300, 0));
    let last = Deadline::of_row(i64::MAX);
    let mut many = some;
    (0..5).for_each(|_| many.add(last));
    assert_eq!(many.plus(some).rows, 9);
    (0..5).for_each(|_| many.remove(last));
    many.remove(Deadline::NEVER);
    assert_eq!(many, some);
}

#[test]
fn the_unit_of_uses_follows_from_the_time_without_use() {
    let unit = |max_idle_ms| Unit::of(&LifeOptions { max_idle_ms, ..LifeOptions::default() });
    assert_eq!(unit(0), Unit::COARSE);
    assert_eq!(unit(1000), Unit(0));
    let year = 365 * 86_400_000;
    assert_eq!(unit(year), Unit(11));
    let now = 1_800_000_000_000;
    for (unit, after) in [(unit(1000), 1000), (unit(year), year), (Unit::COARSE, 600_000)] {
        let since = unit.since(unit.stamp(now), now + after);
        assert!(since.abs_diff(after) <= 1 << unit.0, "{since} of {after}");
        assert_eq!(unit.since(unit.stamp(now), now - 200), 0, "a use in the future");
    }
}

#[test]
fn a_count_rises_slowly_and_falls_with_time() {
    assert_eq!(frequency::used(frequency::NEW, 12_345), frequency::NEW + 1);
    let rises = (0..1000).filter(|random| frequency::used(15, *random) == 16).count();
    assert_eq!(rises, 10, "one of 101");
    assert_eq!(frequency::used(255, 0), 255);
    assert_eq!(frequency::decayed(10, 59_999), 10);
    assert_eq!(frequency::decayed(10, 180_000), 7);
    assert_eq!(frequency::decayed(10, u64::MAX), 0);
}

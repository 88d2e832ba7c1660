//! Accounts add up, and stop at the bound.

use super::*;

#[test]
fn charges_add_up_and_are_given_back() {
    let total = Total::new(100);
    let (one, two) = (Account::new(&total), Account::new(&total));
    let mut first = Charge::new(&one, 60).unwrap();
    let second = Charge::new(&two, 40).unwrap();
    assert_eq!((one.used(), two.used(), total.used()), (60, 40, 100));
    assert_eq!(first.try_resize(61).unwrap_err().code(), ErrorCode::OutOfMemory);
    assert_eq!((first.bytes(), total.used()), (60, 100));
    first.try_resize(10).unwrap();
    assert_eq!((one.used(), total.used()), (10, 50));
    drop(second);
    assert_eq!((two.used(), total.used()), (0, 10));
}

#[test]
fn what_is_handed_over_is_charged_once_and_goes_with_its_new_holder() {
    let total = Total::new(100);
    let account = Account::new(&total);
    let (mut from, mut to) = (Charge::new(&account, 100).unwrap(), Charge::empty(&account));
    from.hand_over(60, &mut to);
    assert_eq!((from.bytes(), to.bytes(), account.used(), total.used()), (40, 60, 100, 100));
    from.hand_over(60, &mut to);
    assert_eq!((from.bytes(), to.bytes()), (0, 100), "no more than there is");
    drop(from);
    assert_eq!(total.used(), 100);
    drop(to);
    assert_eq!((account.used(), total.used()), (0, 0));
}

#[test]
fn what_frees_memory_may_go_over_the_bound() {
    let total = Total::new(3 << 20);
    let account = Account::new(&total);
    let full = Charge::new(&account, 3 << 20).unwrap();
    let over = Charge::forced(&account, 5);
    assert_eq!(total.used(), (3 << 20) + 5);
    let error = Charge::new(&account, 1).unwrap_err();
    assert_eq!(error.fields().detail.as_deref(), Some("memory limit of 3 MiB reached"));
    assert!(error.fields().hint.as_deref().unwrap().contains("store.memory_mib_max"));
    drop((full, over));
    assert_eq!(total.used(), 0);
}

#[test]
fn a_reservation_stays_within_the_bound_and_gives_everything_back() {
    let total = Total::new(100_000);
    let mut first = Reservation::new(&total);
    (0..10).for_each(|_| first.grow(1_000).unwrap());
    assert!((10_000..=100_000).contains(&total.used()), "charged ahead: {}", total.used());
    first.grow(88_000).unwrap();
    assert!((98_000..=100_000).contains(&total.used()));
    let mut second = Reservation::new(&total);
    let used = total.used();
    assert_eq!(second.grow(2_001).unwrap_err().code(), ErrorCode::OutOfMemory);
    assert_eq!(total.used(), used, "nothing more is charged");
    first.clear();
    assert_eq!(total.used(), 0);
    first.grow(1).unwrap();
    drop((first, second));
    assert_eq!(total.used(), 0);
}

#[test]
fn rows_leave_room_for_statements_even_where_they_are_over_the_bound() {
    let total = Total::new(1600);
    let (rows, statement) = (Account::new(&total), Account::of_statement(&total));
    let full = (Charge::new(&rows, 1600).unwrap(), Charge::forced(&rows, 500));
    drop(Charge::new(&rows, 0).unwrap());
    assert!(Charge::new(&statement, 1).is_err(), "rows that a statement is about to write");
    statement.take_kept(true);
    let mut kept = Charge::new(&statement, 100).unwrap();
    assert_eq!(kept.try_resize(101).unwrap_err().code(), ErrorCode::OutOfMemory);
    assert!(Charge::of_statement(&rows, 1).is_err());
    kept.try_resize(40).unwrap();
    drop(Charge::of_statement(&rows, 60).unwrap());
    assert!(Charge::new(&rows, 1).is_err(), "no more rows");
    statement.take_kept(false);
    assert!(kept.try_resize(41).is_err());
    drop((full, kept));
    assert_eq!((total.used(), total.by_statements.load(Ordering::Relaxed)), (0, 0));
}

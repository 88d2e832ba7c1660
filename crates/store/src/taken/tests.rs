//! What is taken, value by value and all at once.

use std::slice::from_ref;

use ashlar_base::{Interval, Value};

use super::*;
use crate::memory::Total;

fn taken(index: u32, account: &Arc<Account>) -> Arc<Taken> {
    Taken::new(TableId(index), account, &RandomState::default())
}

fn account(bytes: u64) -> Arc<Account> {
    Account::new(&Total::new(bytes))
}

fn fingerprint(taken: &Taken, values: &[Value]) -> Fingerprint {
    taken.fingerprint(values.iter().map(Value::as_datum))
}

#[test]
fn values_are_told_apart_and_equal_ones_are_not() {
    let taken = taken(1, &account(u64::MAX));
    let text = |text: &str| Value::Text(text.into());
    let array = |items: Vec<Value>| Value::Array(items.into());
    let interval = |months, days, micros| Value::Interval(Interval { months, days, micros });
    let different: Vec<Vec<Value>> = vec![
        vec![Value::Null],
        vec![Value::Null, Value::Null],
        vec![Value::Bool(false)],
        vec![Value::Bool(true)],
        vec![Value::Int8(0)],
        vec![Value::Int8(1)],
        vec![Value::Int8(-1)],
        vec![Value::Int8(i64::MIN)],
        vec![Value::Int8(i64::MAX)],
        vec![Value::Int8(1), Value::Int8(2)],
        vec![Value::Int8(2), Value::Int8(1)],
        vec![Value::Numeric(i128::MAX)],
        vec![Value::Numeric(i128::MIN)],
        vec![text("")],
        vec![text(""), text("")],
        vec![text("a"), text("b")],
        vec![text("ab"), text("")],
        vec![text(""), text("ab")],
        vec![text("exactly 15 byte")],
        vec![text("rather more than fifteen bytes")],
        vec![text("rather more than fifteen bytes, and then some")],
        vec![text(&"x".repeat(200))],
        vec![text(&"x".repeat(201))],
        vec![Value::Uuid([1; 16])],
        vec![Value::Uuid([2; 16])],
        vec![Value::Float8(1.5)],
        vec![array(vec![])],
        vec![array(vec![Value::Null])],
        vec![array(vec![text("a"), text("b")])],
        vec![array(vec![text("ab")])],
        vec![array(vec![text("a")]), text("b")],
        vec![array(vec![text("a")]), array(vec![text("b")])],
        vec![array(vec![text("rather more than"), text("fifteen bytes")])],
        vec![array(vec![Value::Int4(1); 200])],
        vec![array(vec![Value::Int4(1); 201])],
        vec![interval(1, 0, 0)],
        vec![interval(1, 0, -1)],
        vec![interval(i32::MAX, i32::MAX, i64::MAX)],
        vec![interval(i32::MIN, i32::MIN, i64::MIN)],
    ];
    for (number, left) in different.iter().enumerate() {
        for (other, right) in different.iter().enumerate() {
            let is_same = fingerprint(&taken, left) == fingerprint(&taken, right);
            assert_eq!(is_same, number == other, "{left:?} and {right:?}");
        }
    }
    let equal = [
        (Value::Float8(0.0), Value::Float8(-0.0)),
        (Value::Float8(f64::NAN), Value::Float8(-f64::NAN)),
        (Value::Float4(1.5), Value::Float8(1.5)),
        (Value::Int2(7), Value::Int8(7)),
        (array(vec![Value::Float8(0.0)]), array(vec![Value::Float8(-0.0)])),
        (array(vec![interval(1, 0, 0), Value::Null]), array(vec![interval(0, 30, 0), Value::Null])),
        (interval(1, 0, 0), interval(0, 30, 0)),
        (interval(1, -29, 0), interval(0, 0, 86_400_000_000)),
    ];
    for (left, right) in equal {
        let (one, other) = (fingerprint(&taken, from_ref(&left)), fingerprint(&taken, from_ref(&right)));
        assert_eq!(one, other, "{left:?} and {right:?}");
    }
}

#[test]
fn claims_are_taken_together_or_not_at_all() {
    let account = account(u64::MAX);
    let (first, second) = (taken(1, &account), taken(2, &account));
    let value = |number: i64| [Value::Int8(number)];
    let claim_of = |taken: &Arc<Taken>, number: i64, known_by: usize| {
        Claim::new(taken, fingerprint(taken, &value(number)), PartitionId(3), known_by)
    };
    let mut one = vec![claim_of(&first, 1, 0), claim_of(&second, 1, 1)];
    assert!(matches!(claim(&mut one).unwrap(), Claimed::All));
    assert_eq!((first.len(), second.len()), (1, 1));
    // The second of two is there.
    let mut clash = vec![claim_of(&first, 2, 0), claim_of(&second, 1, 1)];
    assert_eq!(claim(&mut clash).unwrap(), Claimed::Clash { index: TableId(2), number: 1, is_own: false });
    assert_eq!((first.len(), second.len()), (1, 1));
    // Two of them are the same.
    let mut same = vec![claim_of(&first, 5, 0), claim_of(&first, 5, 1)];
    assert_eq!(claim(&mut same).unwrap(), Claimed::Clash { index: TableId(1), number: 1, is_own: true });
    // Claims of one row have its number: the index tells them apart.
    let mut row = vec![claim_of(&first, 2, 7), claim_of(&second, 1, 7)];
    assert_eq!(claim(&mut row).unwrap(), Claimed::Clash { index: TableId(2), number: 7, is_own: false });
    // One that the same commit gives back has two rows for a while.
    let mut moved = vec![claim_of(&first, 1, 0)];
    moved[0].is_released = true;
    moved[0].partition = PartitionId(4);
    assert!(matches!(claim(&mut moved).unwrap(), Claimed::All));
    let held = fingerprint(&first, &value(1));
    assert_eq!((first.holder(held), first.is_settled()), (Some(PartitionId(4)), false));
    unclaim(&moved);
    assert_eq!((first.holder(held), first.is_settled()), (Some(PartitionId(3)), true));
    assert!(matches!(claim(&mut moved).unwrap(), Claimed::All));
    first.release(held);
    assert_eq!((first.holder(held), first.is_settled()), (Some(PartitionId(4)), true));
    first.release(held);
    second.release(fingerprint(&second, &value(1)));
    assert_eq!((first.len(), second.len()), (0, 0));
    first.shrink();
    second.shrink();
    assert_eq!(account.used(), 0);
}

#[test]
fn without_memory_nothing_is_taken() {
    let account = account(10_000);
    let taken = taken(1, &account);
    let many = |from: i64, count: i64| -> Vec<Claim> {
        let of = |number: i64| Claim::new(&taken, fingerprint(&taken, &[Value::Int8(number)]), PartitionId(0), 0);
        (from..from + count).map(of).collect()
    };
    assert!(matches!(claim(&mut many(0, 10)).unwrap(), Claimed::All));
    let used = account.used();
    assert!(claim(&mut many(10, 5_000)).is_err());
    assert_eq!(taken.len(), 10);
    assert!(account.used() <= 10_000 && account.used() >= used);
    assert!(matches!(claim(&mut many(10, 10)).unwrap(), Claimed::All));
}

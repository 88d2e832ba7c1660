//! The arena against a `Vec`, with readers that keep what they were lent.

use proptest::prelude::*;

use super::*;
use crate::memory::Total;

#[derive(Clone, Debug)]
enum Op {
    Push(Vec<u8>),
    PushValue(i64),
    PushWithin(usize, usize),
    Share(usize),
    DropShare(usize),
    Shrink,
    Clear,
    Overwrite(usize, Vec<u8>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Op::Push),
        2 => any::<i64>().prop_map(Op::PushValue),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(from, count)| Op::PushWithin(from, count)),
        2 => any::<usize>().prop_map(Op::Share),
        1 => any::<usize>().prop_map(Op::DropShare),
        1 => Just(Op::Shrink),
        1 => Just(Op::Clear),
        2 => (any::<usize>(), proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(at, bytes)| Op::Overwrite(at, bytes)),
    ];
    proptest::collection::vec(op, 0..if cfg!(miri) { 12 } else { 80 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_those_of_a_vec_and_lent_ones_do_not_change(ops in ops()) {
        let total = Total::new(u64::MAX);
        let account = Account::new(&total);
        let mut arena = Arena::new(&account);
        let mut twin: Vec<u8> = Vec::new();
        let mut lent: Vec<(Buffer, Vec<u8>)> = Vec::new();
        for op in ops {
            match op {
                Op::Push(bytes) => {
                    arena.reserve(bytes.len(), usize::MAX).unwrap();
                    arena.push(&bytes);
                    twin.extend_from_slice(&bytes);
                }
                Op::PushValue(value) => {
                    arena.reserve(8, usize::MAX).unwrap();
                    arena.push_value(value);
                    twin.extend_from_slice(&value.to_ne_bytes());
                }
                Op::PushWithin(from, count) => {
                    let from = from % (twin.len() + 1);
                    let count = count % (twin.len() - from + 1);
                    arena.reserve(count, usize::MAX).unwrap();
                    arena.push_within(from, count);
                    twin.extend_from_within(from..from + count);
                }
                Op::Share(len) => {
                    let len = len % (twin.len() + 1);
                    lent.push((arena.share(len), twin[..len].to_vec()));
                }
                Op::DropShare(index) => {
                    if !lent.is_empty() {
                        lent.swap_remove(index % lent.len());
                    }
                }
                Op::Shrink => arena.shrink(),
                Op::Clear if arena.is_unshared() => {
                    arena.clear();
                    twin.clear();
                }
                Op::Clear => prop_assert!(!lent.is_empty()),
                Op::Overwrite(at, bytes) => {
                    let at = at % (twin.len() + 1);
                    let bytes = &bytes[..bytes.len().min(twin.len() - at)];
                    // Empty buffers hold the memory too.
                    if arena.is_unshared() {
                        arena.overwrite(at, bytes);
                        twin[at..at + bytes.len()].copy_from_slice(bytes);
                    } else {
                        prop_assert!(!lent.is_empty());
                    }
                }
            }
            prop_assert_eq!(arena.bytes(), &twin[..]);
            prop_assert!(arena.capacity() >= arena.len());
            for (buffer, expected) in &lent {
                prop_assert_eq!(buffer.as_slice(), &expected[..]);
            }
        }
        for index in 0..twin.len() / 8 {
            let value = i64::from_ne_bytes(twin[index * 8..][..8].try_into().unwrap());
            prop_assert_eq!(arena.value::<i64>(index), value);
        }
        // Lent memory outlives the arena, and stays charged until it goes.
        drop(arena);
        for (buffer, expected) in &lent {
            prop_assert_eq!(buffer.as_slice(), &expected[..]);
        }
        prop_assert!(total.used() > 0 || lent.iter().all(|(buffer, _)| buffer.is_empty()));
        drop(lent);
        prop_assert_eq!(total.used(), 0);
    }
}

#[test]
fn readers_on_other_threads_see_what_was_published() {
    let account = Account::unbounded();
    let mut arena = Arena::new(&account);
    let (rounds, per_round) = if cfg!(miri) { (4, 16) } else { (200, 500) };
    std::thread::scope(|scope| {
        for round in 0..rounds {
            for value in 0..per_round {
                arena.reserve(8, usize::MAX).unwrap();
                arena.push_value(i64::from(round * per_round + value));
            }
            let buffer = arena.share(arena.len());
            scope.spawn(move || {
                let values = buffer.typed_data::<i64>();
                assert!(values.iter().copied().eq(0..values.len() as i64));
            });
        }
    });
}

#[test]
fn growth_stops_at_the_bound_and_changes_nothing() {
    let total = Total::new(100);
    let account = Account::new(&total);
    let mut arena = Arena::new(&account);
    arena.reserve(60, usize::MAX).unwrap();
    arena.push(&[7; 60]);
    let used = total.used();
    let error = arena.reserve(50, usize::MAX).unwrap_err();
    assert_eq!(error.code(), ashlar_base::ErrorCode::OutOfMemory);
    assert_eq!((arena.bytes(), total.used()), (&[7; 60][..], used));
    // What a reader keeps is charged beside what takes its place; memory that nobody keeps just grows.
    let lent = arena.share(60);
    assert!(arena.reserve(30, usize::MAX).is_err());
    drop(lent);
    arena.reserve(30, usize::MAX).unwrap();
    assert_eq!((arena.bytes(), total.used()), (&[7; 60][..], 96));
}

#[test]
fn twice_the_room_is_taken_where_there_is_memory_for_it() {
    let total = Total::new(1500);
    let account = Account::new(&total);
    let mut arena = Arena::new(&account);
    let mut capacities = Vec::new();
    for value in 0..120i64 {
        arena.reserve_twice(8, 960).unwrap();
        arena.push_value(value);
        if capacities.last() != Some(&arena.capacity()) {
            capacities.push(arena.capacity());
        }
    }
    // From 512 on twice as much is above the ceiling.
    assert_eq!(capacities, [16, 32, 64, 128, 256, 512, 960]);
    assert_eq!(total.used(), 960);
    // Where twice as much is beyond the bound, half as much again has to do.
    arena.reserve_twice(24, 2000).unwrap();
    assert_eq!((arena.capacity(), total.used()), (1440, 1440));
    arena.push(&[7; 24]);
    assert_eq!(arena.reserve_twice(600, 2000).unwrap_err().code(), ashlar_base::ErrorCode::OutOfMemory);
    assert_eq!((arena.len(), total.used()), (984, 1440));
    assert!((0..120).all(|index| arena.value::<i64>(index) == index as i64));
}

#[test]
fn a_ceiling_leaves_no_room_to_spare() {
    let account = Account::unbounded();
    let mut arena = Arena::new(&account);
    let count = if cfg!(miri) { 1_024 } else { 65_536 };
    for value in 0..count as i64 {
        arena.reserve(8, count * 8).unwrap();
        arena.push_value(value);
    }
    assert_eq!(arena.capacity(), count * 8);
}

#[test]
fn what_is_gathered_is_read_from_another_arena() {
    let account = Account::unbounded();
    let (mut source, mut target) = (Arena::new(&account), Arena::new(&account));
    source.reserve(800, usize::MAX).unwrap();
    (0..100i64).for_each(|value| source.push_value(value * 3));
    // Where nothing is, nothing is gathered.
    target.gather::<i64>(&source, &[]);
    target.reserve(33, usize::MAX).unwrap();
    target.push(b"x");
    target.gather::<i64>(&source, &[99, 0, 7, 7]);
    let values = [297i64, 0, 21, 21].into_iter().flat_map(i64::to_ne_bytes);
    assert_eq!(target.bytes(), b"x".iter().copied().chain(values).collect::<Vec<u8>>());
}

#[test]
#[should_panic(expected = "values are read below the length")]
fn what_is_unwritten_is_not_gathered() {
    let account = Account::unbounded();
    let (mut source, mut target) = (Arena::new(&account), Arena::new(&account));
    source.reserve(64, usize::MAX).unwrap();
    source.push_value(1i64);
    target.reserve(64, usize::MAX).unwrap();
    target.gather::<i64>(&source, &[0, 1]);
}

/// A reader on another thread lets go, and the writer, which sees it, writes over what the reader read.
#[test]
fn what_is_given_back_is_overwritten_and_what_is_lent_is_not() {
    let account = Account::unbounded();
    let mut arena = Arena::new(&account);
    arena.reserve(8, usize::MAX).unwrap();
    arena.push_value(0i64);
    let rounds = if cfg!(miri) { 4 } else { 200 };
    for round in 0..rounds {
        let buffer = arena.share(8);
        assert!(!arena.is_unshared());
        let reader = std::thread::spawn(move || assert_eq!(buffer.typed_data::<i64>(), [round]));
        while !arena.is_unshared() {
            std::thread::yield_now();
        }
        arena.overwrite(0, &(round + 1).to_ne_bytes());
        reader.join().unwrap();
    }
    assert_eq!(arena.value::<i64>(0), rounds);
}

#[test]
#[should_panic(expected = "memory that is lent is not overwritten")]
fn lent_memory_is_never_overwritten() {
    let account = Account::unbounded();
    let mut arena = Arena::new(&account);
    arena.reserve(1, usize::MAX).unwrap();
    arena.push(&[1]);
    let _lent = arena.share(1);
    arena.overwrite(0, &[2]);
}

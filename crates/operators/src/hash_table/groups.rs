//! The groups of a table: their keys, and a number for each.
//!
//! ```text
//!   words       | w w w, ids | w w w, ids | ...      hash -> id, with the key beside it, of 4 or 8 bytes; 12.2 or 17.1 bytes a group when full
//!
//!   directory   | tags, ids | tags, ids | ...        hash -> id of other keys; 6.1 bytes a group when full
//!                       id |
//!                          v
//!   keys        | k k k k k k k k | ...              16 bytes each, at the place of the id: their hashes are made again
//!   or bytes    | key | key | ...                    their bytes, and 4 where each ends
//!   hashes      | h   | h   | ...                    8 bytes each, beside bytes alone, which are not read again when it grows
//!
//!   states      | s   | s   | ...                    of the caller, at the place of the id
//! ```
//!
//! An id is the number of groups before it, so that results leave as the arrays that keys and states are. The group of NULL, of a column alone, has
//! an id and a key that means nothing, and is found by neither.

use arrow::error::ArrowError;

use super::account::{Account, Wish};
use super::directory::Directory;
use super::hash::{Secret, Word};
use super::keys::{ByteKeys, Keys, Packed, Packing};
use super::machine::ask_for;
use super::words::{Words, Words32, Words64};

/// Rows whose places are asked for together, and that are taken together or not at all.
pub(crate) const TOGETHER: usize = 64;

/// Bytes that keys have which are bytes: those of one array. Where nobody can leave any more, as many as are counted, 4 GiB: keys that nobody asks
/// for as a column, as values that are counted once, may have them.
const KEY_BYTES: usize = if cfg!(test) { 16 << 20 } else { i32::MAX as usize };

/// By what groups are found, and what is kept beside that: for wide words nothing, from which hashes are made again, and the hash for bytes.
enum Stored {
    Word32(Words32),
    Word64(Words64),
    Word128(Directory, Vec<u128>),
    Bytes(Directory, ByteKeys, Vec<u64>),
}

/// See the module.
pub(crate) struct Groups<A> {
    stored: Stored,
    /// Groups.
    len: usize,
    /// The group of NULL, of a column alone.
    null: Option<u32>,
    secret: Secret,
    /// Is asked for all that is held.
    account: A,
}

/// Room for a table that will have `goal` groups, as far as somebody knows: by an eighth at least, so that little growing is
/// much, and twice as much at most, so that little is lost where it was wrong.
fn grown(len: usize, more: usize, goal: usize) -> usize {
    (len + more).max(step(len, goal).clamp(len + len / 8, len * 2))
}

/// Where a table goes on its way to `goal` groups, if no step is to be to more than twice as many: steps are as few as can be and equal. Else
/// the last of them, which moves the most, may be for next to nothing.
fn step(len: usize, goal: usize) -> usize {
    let times = goal as f64 / len.max(1) as f64;
    if times <= 2.0 {
        return goal;
    }
    (len as f64 * times.powf(times.log2().ceil().recip())) as usize
}

impl<A: Account> Groups<A> {
    /// None yet; without memory.
    pub(crate) fn new(packing: &Packing, secret: Secret, account: A) -> Self {
        let stored = match packing.none() {
            Keys::Word32(_) => Stored::Word32(Words32::default()),
            Keys::Word64(_) => Stored::Word64(Words64::default()),
            Keys::Word128(words) => Stored::Word128(Directory::default(), words),
            Keys::Bytes(keys) => Stored::Bytes(Directory::default(), keys, Vec::new()),
        };
        Self { stored, len: 0, null: None, secret, account }
    }

    /// Groups.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.account.charged()
    }

    /// Bytes of the keys, where they are bytes.
    pub(crate) fn bytes_of_keys(&self) -> usize {
        if let Stored::Bytes(_, keys, _) = &self.stored { keys.bytes.len() } else { 0 }
    }

    fn held(&self) -> usize {
        match &self.stored {
            Stored::Word32(words) => words.bytes(),
            Stored::Word64(words) => words.bytes(),
            Stored::Word128(directory, words) => directory.bytes() + words.capacity() * size_of::<u128>(),
            Stored::Bytes(directory, keys, hashes) => {
                let beside = keys.ends.capacity() * size_of::<u32>() + hashes.capacity() * size_of::<u64>();
                directory.bytes() + keys.bytes.capacity() + beside
            }
        }
    }

    /// Groups that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        match &self.stored {
            Stored::Word32(words) => words.capacity(),
            Stored::Word64(words) => words.capacity(),
            Stored::Word128(directory, _) | Stored::Bytes(directory, ..) => directory.capacity(),
        }
    }

    /// Makes room for so many more groups, whose keys have so many bytes if they are bytes, in a table of which `goal` groups
    /// are expected. What is taken is charged before.
    ///
    /// # Errors
    /// Where there is not as much memory, or there are more keys, or longer ones, than a table may have; no row has been taken then.
    pub(crate) fn reserve(&mut self, more: usize, bytes: usize, goal: usize, wish: Wish) -> Result<(), A::Error> {
        let len = self.len();
        if u32::try_from(len + more).is_err() {
            let what = "a partition of an aggregation has more than 2^32 groups".to_owned();
            return Err(ArrowError::MemoryError(what).into());
        }
        let most = if wish == Wish::IfFree { KEY_BYTES } else { u32::MAX as usize };
        if self.bytes_of_keys() + bytes > most {
            let what = format!("a partition of an aggregation has more than {most} bytes of keys");
            return Err(ArrowError::MemoryError(what).into());
        }
        let made = self.make_room(more, bytes, goal, wish);
        // Where one part was refused, others may have grown.
        let held = self.held();
        self.account.correct(held);
        made
    }

    fn make_room(&mut self, more: usize, bytes: usize, goal: usize, wish: Wish) -> Result<(), A::Error> {
        let len = self.len();
        if len + more > self.capacity() {
            let bytes_for = match &self.stored {
                Stored::Word32(_) => Words32::bytes_for,
                Stored::Word64(_) => Words64::bytes_for,
                Stored::Word128(..) | Stored::Bytes(..) => Directory::bytes_for,
            };
            let mut entries = grown(len, more, goal);
            if self.account.charge(bytes_for(entries), Wish::IfFree).is_err() {
                entries = grown(len, more, 0);
                self.account.charge(bytes_for(entries), wish)?;
            }
            let secret = self.secret;
            match &mut self.stored {
                Stored::Word32(words) => words.grow(entries, secret),
                Stored::Word64(words) => words.grow(entries, secret),
                Stored::Word128(directory, words) => directory.grow(entries, |id| words[id as usize].hash(secret)),
                Stored::Bytes(directory, _, hashes) => directory.grow(entries, |id| hashes[id as usize]),
            }
        }
        let groups = self.capacity();
        match &mut self.stored {
            Stored::Word32(_) | Stored::Word64(_) => {}
            Stored::Word128(_, words) => self.account.room(words, groups, wish)?,
            Stored::Bytes(_, keys, hashes) => {
                self.account.room_for_more(&mut keys.bytes, bytes, wish)?;
                self.account.room(&mut keys.ends, groups, wish)?;
                self.account.room(hashes, groups, wish)?;
            }
        }
        Ok(())
    }

    /// More groups that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.capacity().saturating_sub(self.len())
    }

    /// The groups of some rows of a batch, with those that are new: of all rows where there is room for as many groups, else of the
    /// first of them, as long as there is room for [`TOGETHER`] more. Keys that are bytes have room for those of all.
    pub(crate) fn of_rows(&mut self, batch: &Packed, hashes: &[u64], rows: &[u32], ids: &mut Vec<usize>) {
        ids.clear();
        ids.reserve(rows.len());
        let new = New { null: &mut self.null, len: &mut self.len, batch, hashes, rows, ids };
        match (&mut self.stored, &batch.keys) {
            (Stored::Word32(words), Keys::Word32(keys)) => of_words(words, keys, new),
            (Stored::Word64(words), Keys::Word64(keys)) => of_words(words, keys, new),
            (Stored::Word128(directory, stored), Keys::Word128(keys)) => of_wide_words(directory, stored, keys, new),
            (Stored::Bytes(directory, stored, known), Keys::Bytes(keys)) => {
                of_bytes(directory, (stored, known), keys, new);
            }
            // A packing packs all batches in one way.
            _ => {}
        }
    }

    /// Whether it has the group of a row of a batch, whose hash this is.
    pub(crate) fn has(&self, batch: &Packed, hash: u64, row: usize) -> bool {
        if batch.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return self.null.is_some();
        }
        match (&self.stored, &batch.keys) {
            (Stored::Word32(words), Keys::Word32(keys)) => words.has(hash, keys[row]),
            (Stored::Word64(words), Keys::Word64(keys)) => words.has(hash, keys[row]),
            (Stored::Word128(directory, stored), Keys::Word128(keys)) => {
                directory.has(hash, |id| stored[id as usize] == keys[row])
            }
            (Stored::Bytes(directory, stored, _), Keys::Bytes(keys)) => {
                directory.has(hash, |id| stored.get(id as usize) == keys.get(row))
            }
            // A packing packs all batches in one way.
            _ => false,
        }
    }

    /// The keys, and which of them stands for NULL. Their bytes stay charged until `self` goes.
    pub(crate) fn take(&mut self) -> TakenKeys {
        let (held, len) = (self.held(), std::mem::take(&mut self.len));
        let copied = match &self.stored {
            Stored::Word32(_) => len * size_of::<u32>(),
            Stored::Word64(_) => len * size_of::<u64>(),
            Stored::Word128(..) | Stored::Bytes(..) => 0,
        };
        // What they are copied to is there beside them for a moment. Somebody who has his groups taken is about to have less.
        let is_charged = self.account.charge(copied, Wish::Anyway).is_ok();
        let keys = match &mut self.stored {
            Stored::Word32(words) => Keys::Word32(std::mem::take(words).in_order(len)),
            Stored::Word64(words) => Keys::Word64(std::mem::take(words).in_order(len)),
            Stored::Word128(directory, words) => {
                *directory = Directory::default();
                Keys::Word128(std::mem::take(words))
            }
            Stored::Bytes(directory, keys, hashes) => {
                *directory = Directory::default();
                hashes.clear();
                let bytes = std::mem::take(&mut keys.bytes);
                Keys::Bytes(ByteKeys { bytes, ends: std::mem::take(&mut keys.ends) })
            }
        };
        if is_charged && copied > 0 {
            // Columns may be made of the words.
            self.account.correct(held);
        }
        TakenKeys { keys, null: self.null.take().map(|null| null as usize) }
    }

    /// Has no groups any more. Their bytes stay charged until `self` goes.
    pub(crate) fn clear(&mut self) {
        self.stored = match &self.stored {
            Stored::Word32(_) => Stored::Word32(Words32::default()),
            Stored::Word64(_) => Stored::Word64(Words64::default()),
            Stored::Word128(..) => Stored::Word128(Directory::default(), Vec::new()),
            Stored::Bytes(..) => {
                Stored::Bytes(Directory::default(), ByteKeys { bytes: Vec::new(), ends: Vec::new() }, Vec::new())
            }
        };
        (self.len, self.null) = (0, None);
    }

    /// Groups to make room for where nobody knows how many there will be in the end.
    pub(crate) fn goal_of_unknown(&self) -> usize {
        match &self.stored {
            // They have little to do when they grow, and what is empty of them is as wide as what is full.
            Stored::Word32(_) | Stored::Word64(_) => self.len + self.len / 3,
            Stored::Word128(..) | Stored::Bytes(..) => self.len + self.len / 2,
        }
    }
}

/// Keys of groups.
pub(crate) struct TakenKeys {
    pub(crate) keys: Keys,
    pub(crate) null: Option<usize>,
}

/// Rows whose groups are looked for, and what new ones change.
struct New<'r> {
    null: &'r mut Option<u32>,
    len: &'r mut usize,
    batch: &'r Packed,
    hashes: &'r [u64],
    rows: &'r [u32],
    ids: &'r mut Vec<usize>,
}

impl New<'_> {
    /// The groups of the rows, as long as there is room for [`TOGETHER`]: `find_or_insert` is told a row, and the id of its group if that is new.
    /// `ask_for` asks for memory before, of as many rows.
    #[inline]
    fn of_each<T>(
        self,
        room: usize,
        table: &mut T,
        ask_for: impl Fn(&T, &[u32]),
        mut find_or_insert: impl FnMut(&mut T, usize, u32) -> u32,
        mut add_null: impl FnMut(&mut T),
    ) {
        let Self { null, len, batch, rows, ids, .. } = self;
        for together in rows.chunks(TOGETHER) {
            if *len + together.len() > room {
                break;
            }
            ask_for(table, together);
            for &row in together {
                let (row, next) = (row as usize, *len as u32);
                let id = if batch.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    let id = *null.get_or_insert(next);
                    if id == next {
                        add_null(table);
                    }
                    id
                } else {
                    find_or_insert(table, row, next)
                };
                *len += usize::from(id == next);
                ids.push(id as usize);
            }
        }
    }
}

#[inline]
fn of_words<W: Word, const LANES: usize, const PLACES: usize>(
    words: &mut Words<W, LANES, PLACES>,
    keys: &[W],
    new: New<'_>,
) {
    let (room, hashes) = (words.capacity(), new.hashes);
    new.of_each(
        room,
        words,
        |words, together| together.iter().for_each(|&row| words.ask_for(hashes[row as usize])),
        |words, row, next| words.find_or_insert(hashes[row], keys[row], next),
        |_| {},
    );
}

#[inline]
fn of_wide_words(directory: &mut Directory, stored: &mut Vec<u128>, keys: &[u128], new: New<'_>) {
    let (is_far, room, hashes) = (directory.is_far(), directory.capacity(), new.hashes);
    new.of_each(
        room,
        &mut (directory, stored),
        // Each loop asks for what the next one reads, so that the processor waits for all of it at once.
        |(directory, stored), together| {
            together.iter().for_each(|&row| directory.ask_for(hashes[row as usize]));
            if is_far {
                together.iter().for_each(|&row| ask_for(stored, directory.first_look(hashes[row as usize]) as usize));
            }
        },
        |(directory, stored), row, next| {
            let id = directory.find_or_insert(hashes[row], next, |id| stored[id as usize] == keys[row]);
            if id == next {
                stored.push(keys[row]);
            }
            id
        },
        |(_, stored)| stored.push(0),
    );
}

/// Of bytes, with their hashes.
#[inline]
fn of_bytes(directory: &mut Directory, (stored, known): (&mut ByteKeys, &mut Vec<u64>), keys: &ByteKeys, new: New<'_>) {
    let (is_far, room, hashes) = (directory.is_far(), directory.capacity(), new.hashes);
    let add = |stored: &mut ByteKeys, known: &mut Vec<u64>, key: &[u8], hash: u64| {
        stored.bytes.extend_from_slice(key);
        // Within 4 GiB, as was made sure when room was made.
        stored.ends.push(stored.bytes.len() as u32);
        known.push(hash);
    };
    new.of_each(
        room,
        &mut (directory, stored, known),
        |(directory, stored, _), together| {
            together.iter().for_each(|&row| directory.ask_for(hashes[row as usize]));
            if is_far {
                together.iter().for_each(|&row| {
                    ask_for(&stored.ends, directory.first_look(hashes[row as usize]) as usize);
                });
            }
        },
        |(directory, stored, known), row, next| {
            let key = keys.get(row);
            let id = directory.find_or_insert(hashes[row], next, |id| stored.get(id as usize) == key);
            if id == next {
                add(stored, known, key, hashes[row]);
            }
            id
        },
        |(_, stored, known)| add(stored, known, &[], 0),
    );
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{Array, Int64Array};
    use arrow::compute::cast;
    use arrow::datatypes::DataType;

    use super::*;
    use crate::hash_table::account::Budget;

    #[test]
    fn there_is_room_for_what_comes_and_for_no_more_than_is_expected() {
        for len in [0, 1, 7, 100, 12_345, 1 << 20] {
            for more in [1, 64, 8192] {
                for goal in [0, len, len + len / 2, 2 * len, 50 * len + 3] {
                    let room = grown(len, more, goal);
                    assert!(room >= len + more && room >= len + len / 8, "{len} {more} {goal}: {room}");
                    assert!(room <= (len + more).max(goal).max(len + len / 8), "{len} {more} {goal}: {room}");
                    assert!(room <= (len + more).max(2 * len), "{len} {more} {goal}: {room}");
                }
            }
        }
    }

    #[test]
    fn a_table_is_as_large_as_expected_after_equal_steps() {
        let (mut len, mut steps) = (300, Vec::new());
        while len < 10_000 {
            let next = grown(len, 1, 10_000);
            steps.push(next as f64 / len as f64);
            len = next;
        }
        // 33 times as many: six steps, each to 1.8 times as many.
        assert_eq!(steps.len(), 6, "{steps:?}");
        assert!(steps.iter().all(|step| (1.75..1.85).contains(step)), "{steps:?}");
        assert!(len < 10_020, "{len}");
    }

    #[test]
    fn rows_are_taken_as_long_as_there_is_room() {
        let secret = Secret::random();
        for data_type in [DataType::Int32, DataType::Int64, DataType::Decimal128(30, 0), DataType::Utf8] {
            let packing = Packing::of(&[(data_type.clone(), true)]).unwrap();
            let mut groups = Groups::new(&packing, secret, Budget::unlimited());
            // Half of the rows make groups, one of them is NULL.
            let count: u32 = if cfg!(miri) { 400 } else { 3000 };
            let number = |row: i64| (row != 70).then_some(if row % 2 == 0 { row } else { 1 });
            let numbers: Int64Array = (0..i64::from(count)).map(number).collect();
            let packed = packing.pack(&[cast(&numbers, &data_type).unwrap()]).unwrap();
            let rows: Vec<u32> = (0..count).collect();
            let (mut hashes, mut ids, mut found) = (Vec::new(), Vec::new(), Vec::new());
            packed.hashes(secret, &mut hashes);
            let mut twin = HashMap::new();
            let bytes = packed.bytes();
            assert!(!(0..rows.len()).any(|row| groups.has(&packed, hashes[row], row)));
            while found.len() < rows.len() {
                let rest = &rows[found.len()..];
                let least = rest.len().min(TOGETHER);
                if groups.room() < least {
                    let len = groups.len();
                    groups.reserve(least, bytes, len + len / 4, Wish::IfFree).unwrap();
                }
                let (before, room) = (groups.len(), groups.room());
                groups.of_rows(&packed, &hashes, rest, &mut ids);
                assert!(ids.len() >= least, "{} of {least} rows at {before} groups", ids.len());
                assert!(groups.len() <= before + room, "{} groups in {before} and {room}", groups.len());
                // Nothing is left over that would fit.
                assert!(ids.len() == rest.len() || groups.room() < TOGETHER, "{} is room", groups.room());
                found.extend_from_slice(&ids);
                assert!((0..found.len()).all(|row| groups.has(&packed, hashes[row], row)));
                let next = (found.len()..rows.len()).find(|row| row % 2 == 0 && *row != 70);
                assert!(!next.is_some_and(|row| groups.has(&packed, hashes[row], row)));
            }
            for (row, id) in found.iter().enumerate() {
                let next = twin.len();
                let key = numbers.is_valid(row).then(|| numbers.value(row));
                assert_eq!(*id, *twin.entry(key).or_insert(next), "row {row} of {data_type}");
            }
            assert_eq!(twin.len(), groups.len());
        }
    }

    #[test]
    fn keys_have_as_many_bytes_as_an_array_unless_none_can_leave() {
        let packing = Packing::of(&[(DataType::Utf8, false)]).unwrap();
        let mut groups = Groups::new(&packing, Secret::random(), Budget::unlimited());
        for (bytes, wish, is_refused) in [
            (KEY_BYTES, Wish::IfFree, false),
            (KEY_BYTES + 1, Wish::IfFree, true),
            (KEY_BYTES + 1, Wish::Anyway, false),
            (1 << 32, Wish::Anyway, true),
        ] {
            let reserved = groups.reserve(1, bytes, 0, wish);
            assert_eq!(matches!(reserved, Err(ArrowError::MemoryError(_))), is_refused, "{bytes} {wish:?}");
            assert_eq!(groups.bytes(), groups.held());
        }
    }

    #[test]
    fn a_table_of_which_nobody_knows_the_end_grows_below_doubling() {
        let count = if cfg!(miri) { 2_000_u64 } else { 300_000 };
        let (packing, secret) = (Packing::of(&[(DataType::Int64, false)]).unwrap(), Secret::random());
        let mut groups = Groups::new(&packing, secret, Budget::unlimited());
        let rows: Vec<u32> = (0..50).collect();
        let (mut hashes, mut ids, mut growths) = (Vec::new(), Vec::new(), 0);
        for start in (0..count).step_by(rows.len()) {
            let keys: Vec<u64> = (start..start + rows.len() as u64).collect();
            let packed = Packed { keys: Keys::Word64(keys), nulls: None };
            packed.hashes(secret, &mut hashes);
            let (len, before) = (groups.len(), groups.capacity());
            // As for a partition of an input without statistics.
            groups.reserve(rows.len(), 0, len + len / 2, Wish::IfFree).unwrap();
            assert!(groups.capacity() >= len + rows.len());
            if groups.capacity() > before && len > 500 {
                growths += 1;
                assert!(groups.capacity() < 2 * before, "from {before} to {}", groups.capacity());
            }
            assert_eq!(groups.bytes(), groups.held());
            groups.of_rows(&packed, &hashes, &rows, &mut ids);
            assert!(ids.iter().zip(start..).all(|(id, key)| *id as u64 == key), "new keys have the next ids");
        }
        assert!(growths > 2, "it has grown {growths} times");
    }
    #[test]
    fn memory_is_asked_for_before_it_is_taken() {
        for data_type in [DataType::Utf8, DataType::Int32, DataType::Int64, DataType::Decimal128(30, 0)] {
            let packing = Packing::of(&[(data_type, false)]).unwrap();
            let mut groups = Groups::new(&packing, Secret::random(), Budget::of(100_000));
            let (mut more, mut granted) = (64, 0);
            while groups.reserve(more, more * 10, more, Wish::IfFree).is_ok() {
                assert!(groups.capacity() >= more && groups.bytes() == groups.held());
                granted = more;
                more += more / 2;
            }
            assert!(granted > 64, "{granted}");
            // What was refused in part has grown in part, and all of it within what may be had.
            assert!(groups.held() == groups.bytes() && groups.account.most <= 100_000, "{}", groups.account.most);
            groups.reserve(more, more * 10, more, Wish::Anyway).unwrap();
            assert!(groups.capacity() >= more && groups.held() == groups.bytes());
        }
    }

    #[test]
    fn keys_leave_in_the_order_in_which_they_came() {
        for data_type in [DataType::Int32, DataType::Int64, DataType::Decimal128(30, 0)] {
            let packing = Packing::of(&[(data_type.clone(), true)]).unwrap();
            let mut groups = Groups::new(&packing, Secret::random(), Budget::unlimited());
            let count: u32 = if cfg!(miri) { 100 } else { 2000 };
            let numbers: Int64Array =
                (0..i64::from(count)).map(|row| (row != 33).then_some(row * 7919 % i64::from(count))).collect();
            let packed = packing.pack(&[cast(&numbers, &data_type).unwrap()]).unwrap();
            let (rows, mut hashes, mut ids): (Vec<u32>, _, _) = ((0..count).collect(), Vec::new(), Vec::new());
            packed.hashes(groups.secret, &mut hashes);
            // Twice: what was taken can be filled again.
            for _ in 0..2 {
                groups.reserve(rows.len(), 0, rows.len(), Wish::IfFree).unwrap();
                groups.of_rows(&packed, &hashes, &rows, &mut ids);
                assert_eq!((ids.len(), groups.len()), (rows.len(), rows.len()));
                let held = groups.bytes();
                let taken = groups.take();
                assert_eq!((groups.len(), groups.bytes(), taken.null), (0, held, Some(33)));
                // The copy was charged beside what it was made of.
                let copied = match &taken.keys {
                    Keys::Word32(words) => size_of_val(words.as_slice()),
                    Keys::Word64(words) => size_of_val(words.as_slice()),
                    Keys::Word128(_) | Keys::Bytes(_) => 0,
                };
                assert!(groups.account.most >= held + copied, "{} of {held}", groups.account.most);
                let columns = packing.unpack(taken.keys, taken.null).unwrap();
                assert_eq!(cast(&columns[0], &DataType::Int64).unwrap().to_data(), numbers.to_data());
            }
            groups.clear();
            assert!(groups.len() == 0 && !groups.has(&packed, hashes[0], 0));
        }
    }
}

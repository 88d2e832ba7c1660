//! The rows of shards that a statement is going to change: which of them are locked as they were read, and which have
//! to be read again.
//!
//! Filled by the plan and queried by the session; does no I/O. Memory for the rows is charged before they are kept.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, Value};
use ashlar_functions::error::from_datafusion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::dml::run::bytes_of;
use crate::dml::spread::PIECE_BYTES_MAX;

/// Bytes of a row besides its texts: its place in a list and in a table, either of which may be half empty, its places in lists of what
/// shards are told, and what its three texts take of the allocator.
const ROW_BYTES: usize = 2 * (size_of::<Row>() + size_of::<((usize, Arc<str>), Known)>() + 4 * size_of::<usize>()) + 96;

/// Bytes of a row in a statement besides its constants: its number, parentheses and commas.
const BETWEEN_BYTES: usize = 28;

/// A row that was found, its values as constants of SQL with commas between them.
pub(super) struct Row {
    /// Which of the rule's shards has it.
    pub(super) shard: usize,
    /// Which is to have it.
    pub(super) target: usize,
    /// Its primary key.
    pub(super) key: Arc<str>,
    /// Which version of it was read.
    pub(super) version: Box<str>,
    /// What is set; of a row that goes to another shard, all that it has then.
    pub(super) values: Box<str>,
    /// What comes back.
    pub(super) returned: Vec<Value>,
    /// How far it is.
    pub(super) state: State,
}

/// How far a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has to be locked.
    Asked,
    /// It is locked, and what was computed of it holds.
    Settled,
    /// It is another one, or none, by now.
    Dismissed,
}

/// What is known of a row by its shard and its key.
enum Known {
    /// It is in the list.
    Found,
    /// It is locked, in another version than was read: what is read from now on is what is locked.
    Locked,
    /// Its shard has not given it, in this version.
    Gone(Box<str>),
}

/// Rows of one shard that one statement is about.
pub struct Batch {
    /// Which of the rule's shards.
    pub shard: usize,
    rows: Vec<usize>,
    bytes: usize,
}

impl Batch {
    /// How many there are; never none.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of them in a statement, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// See the module.
pub struct ChangedRows {
    rows: Vec<Row>,
    known: HashMap<(usize, Arc<str>), Known>,
    memory: MemoryReservation,
    /// Some rows have to be read again.
    is_again: bool,
    /// Some of those were not there any more.
    has_gone: bool,
}

impl ChangedRows {
    pub(super) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let memory = MemoryConsumer::new("rows of shards that change").register(pool);
        Self { rows: Vec::new(), known: HashMap::new(), memory, is_again: false, has_gone: false }
    }

    /// The rows are about to be read, once more or for the first time.
    pub(super) fn begin(&mut self) {
        (self.is_again, self.has_gone) = (false, false);
    }

    /// Whether a row that was read is to be kept.
    pub(super) fn is_wanted(&self, shard: usize, key: &Arc<str>, version: &str) -> bool {
        match self.known.get(&(shard, Arc::clone(key))) {
            None | Some(Known::Locked) => true,
            Some(Known::Found) => false,
            // The shard shows the row and does not let it be changed, as by a policy of its table: PostgreSQL passes over it too.
            Some(Known::Gone(gone)) => **gone != *version,
        }
    }

    /// Keeps a row that is wanted.
    ///
    /// # Errors
    /// 53200
    pub(super) fn push(&mut self, mut row: Row) -> Result<()> {
        let texts = row.key.len() + row.version.len() + row.values.len();
        self.memory.try_grow(ROW_BYTES + texts + bytes_of(&row.returned)).map_err(from_datafusion)?;
        let before = self.known.insert((row.shard, Arc::clone(&row.key)), Known::Found);
        row.state = if matches!(before, Some(Known::Locked)) { State::Settled } else { State::Asked };
        self.rows.push(row);
        Ok(())
    }

    /// Rows that have to be locked, in statements of one shard each. In an order that is the same for all who lock them so: none of them
    /// has a row that another one waits for while it waits for one of his.
    pub fn to_lock(&self) -> Vec<Batch> {
        let mut asked: Vec<usize> = (0..self.rows.len()).filter(|at| self.rows[*at].state == State::Asked).collect();
        asked.sort_by(|a, b| self.rows[*a].key.cmp(&self.rows[*b].key));
        self.cut(asked.into_iter(), |row| (row.shard, row.key.len()), false)
    }

    /// What a shard has answered to `locking` of these rows.
    ///
    /// # Errors
    /// 08P01; `twice` where it has several rows with one primary key.
    pub fn locked(&mut self, batch: &Batch, answers: &[String], twice: impl FnOnce() -> Error) -> Result<()> {
        let mut is_there = vec![false; batch.rows.len()];
        for answer in answers {
            let (number, version) = answer.split_once(' ').ok_or_else(broken)?;
            let number: usize = number.parse().map_err(|_| broken())?;
            let at = *batch.rows.get(number).ok_or_else(broken)?;
            if mem::replace(&mut is_there[number], true) {
                return Err(twice());
            }
            if *self.rows[at].version == *version {
                self.rows[at].state = State::Settled;
            } else {
                self.dismiss(at, Known::Locked);
            }
        }
        for (at, _) in batch.rows.iter().zip(is_there).filter(|(_, is_there)| !is_there) {
            let version = self.rows[*at].version.clone();
            self.has_gone = true;
            self.dismiss(*at, Known::Gone(version));
        }
        Ok(())
    }

    fn dismiss(&mut self, at: usize, known: Known) {
        let row = &mut self.rows[at];
        row.state = State::Dismissed;
        self.known.insert((row.shard, Arc::clone(&row.key)), known);
        self.is_again = true;
    }

    /// Whether the rows have to be read once more, since somebody has changed some of them meanwhile.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Whether some of those have gone, maybe to another shard.
    pub fn has_gone(&self) -> bool {
        self.has_gone
    }

    /// Rows that are changed, or are to be locked for that.
    pub(super) fn present(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.state != State::Dismissed)
    }

    /// Rows that are changed.
    pub(super) fn settled(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.state == State::Settled)
    }

    /// The same, and there is no need of them any more.
    pub(super) fn into_settled(self) -> impl Iterator<Item = Row> {
        self.rows.into_iter().filter(|row| row.state == State::Settled)
    }

    /// Rows that are changed, and of them those that are meant, in statements of one shard each, shard by shard, in the order in which they
    /// were found. `size`: whose a row is, and its bytes. `is_whole`: those of one shard are one statement, however long.
    pub(super) fn batches(
        &self,
        is_meant: impl Fn(&Row) -> bool,
        size: impl Fn(&Row) -> (usize, usize),
        is_whole: bool,
    ) -> Vec<Batch> {
        let is_meant = |at: &usize| self.rows[*at].state == State::Settled && is_meant(&self.rows[*at]);
        self.cut((0..self.rows.len()).filter(is_meant), size, is_whole)
    }

    fn cut(
        &self,
        places: impl Iterator<Item = usize>,
        size: impl Fn(&Row) -> (usize, usize),
        is_whole: bool,
    ) -> Vec<Batch> {
        let mut by_shard: BTreeMap<usize, Vec<Batch>> = BTreeMap::new();
        for at in places {
            let (shard, bytes) = size(&self.rows[at]);
            let bytes = bytes + BETWEEN_BYTES;
            let batches = by_shard.entry(shard).or_default();
            match batches.last_mut() {
                Some(batch) if is_whole || batch.bytes + bytes <= PIECE_BYTES_MAX => {
                    batch.rows.push(at);
                    batch.bytes += bytes;
                }
                _ => batches.push(Batch { shard, rows: vec![at], bytes }),
            }
        }
        by_shard.into_values().flatten().collect()
    }

    /// The rows of a statement, as VALUES has them; `write` is told how many were before.
    pub(super) fn list(&self, batch: &Batch, write: impl Fn(usize, &Row) -> String) -> String {
        let mut list = String::with_capacity(batch.bytes);
        for (number, at) in batch.rows.iter().enumerate() {
            if number > 0 {
                list.push_str(", ");
            }
            list.push_str(&write(number, &self.rows[*at]));
        }
        list
    }
}

/// 08P01
fn broken() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent what cannot be read")
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn none() -> ChangedRows {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        ChangedRows::new(&pool)
    }

    fn row(shard: usize, key: &str, version: &str, values: &str) -> Row {
        Row {
            shard,
            target: shard,
            key: key.into(),
            version: version.into(),
            values: values.into(),
            returned: Vec::new(),
            state: State::Asked,
        }
    }

    /// One reading of some rows: shard, key, version, values.
    fn read(rows: &mut ChangedRows, found: &[(usize, &str, &str, &str)]) {
        rows.begin();
        for (shard, key, version, values) in found {
            if rows.is_wanted(*shard, &Arc::from(*key), version) {
                rows.push(row(*shard, key, version, values)).unwrap();
            }
        }
    }

    fn twice() -> Error {
        Error::new(ErrorCode::ObjectNotInPrerequisiteState, "rows with one primary key")
    }

    /// Locks what has to be; by shard, number and version of what is given.
    fn lock(rows: &mut ChangedRows, answers: &[(usize, &[&str])]) {
        let batches = rows.to_lock();
        let asked: Vec<usize> = batches.iter().map(|batch| batch.shard).collect();
        assert_eq!(asked, answers.iter().map(|(shard, _)| *shard).collect::<Vec<usize>>());
        for (batch, (_, answers)) in batches.iter().zip(answers) {
            let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
            rows.locked(batch, &answers, twice).unwrap();
        }
    }

    fn settled(rows: &ChangedRows) -> Vec<(usize, &str, &str)> {
        rows.settled().map(|row| (row.shard, &*row.key, &*row.values)).collect()
    }

    #[test]
    fn rows_that_nobody_has_changed_are_read_once() {
        let mut rows = none();
        // The same key on two shards is two rows; a row that is found twice is one, as it was found first.
        let found = [(1, "'5'", "a", "'x'"), (0, "'5'", "b", "'y'"), (1, "'5'", "a", "'z'"), (0, "'6'", "c", "'w'")];
        read(&mut rows, &found);
        lock(&mut rows, &[(0, &["1 c", "0 b"]), (1, &["0 a"])]);
        assert!(!rows.is_again());
        assert!(rows.to_lock().is_empty());
        assert_eq!(settled(&rows), [(1, "'5'", "'x'"), (0, "'5'", "'y'"), (0, "'6'", "'w'")]);
    }

    #[test]
    fn rows_that_others_have_changed_are_what_they_are_when_they_are_locked() {
        let mut rows = none();
        let found = [("'1'", "a"), ("'2'", "b"), ("'3'", "c"), ("'4'", "d")];
        read(&mut rows, &found.map(|(key, version)| (0, key, version, "old")));
        // The first is as it was, the second another one, the third has gone, the fourth is another one.
        lock(&mut rows, &[(0, &["0 a", "1 B", "3 D"])]);
        assert!(rows.is_again());
        assert_eq!(settled(&rows), [(0, "'1'", "old")]);
        // The fourth does not meet the conditions any more; the third has another key, and is still to be locked.
        read(&mut rows, &[(0, "'1'", "a", "new"), (0, "'2'", "B", "new"), (0, "'33'", "C", "new")]);
        lock(&mut rows, &[(0, &["0 C"])]);
        assert!(!rows.is_again());
        assert_eq!(settled(&rows), [(0, "'1'", "old"), (0, "'2'", "new"), (0, "'33'", "new")]);
    }

    #[test]
    fn rows_that_a_shard_does_not_give_are_asked_for_once() {
        let mut rows = none();
        read(&mut rows, &[(0, "'1'", "a", "x")]);
        lock(&mut rows, &[(0, &[])]);
        assert!(rows.is_again() && rows.has_gone());
        read(&mut rows, &[(0, "'1'", "a", "x")]);
        lock(&mut rows, &[]);
        assert!(!rows.is_again() && !rows.has_gone());
        assert!(settled(&rows).is_empty());
        // Another version of it is another row.
        read(&mut rows, &[(0, "'1'", "b", "y")]);
        lock(&mut rows, &[(0, &["0 b"])]);
        assert_eq!(settled(&rows), [(0, "'1'", "y")]);
    }

    #[test]
    fn rows_are_locked_in_one_order() {
        let mut rows = none();
        read(&mut rows, &[(0, "'3'", "c", "x"), (0, "'1'", "a", "x"), (0, "'2'", "b", "x")]);
        let batches = rows.to_lock();
        assert_eq!(rows.list(&batches[0], |number, row| format!("{number}={}", row.key)), "0='1', 1='2', 2='3'");
    }

    #[test]
    fn answers_that_are_none_are_refused() {
        for answer in ["", "0", "x a", "1 a", "-1 a"] {
            let mut rows = none();
            read(&mut rows, &[(0, "'1'", "a", "x")]);
            let batches = rows.to_lock();
            let error = rows.locked(&batches[0], &[answer.to_owned()], twice).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ProtocolViolation, "{answer}");
        }
    }

    #[test]
    fn rows_that_a_key_does_not_tell_apart_are_refused() {
        for answers in [["0 a", "0 b"], ["0 b", "0 a"], ["0 b", "0 c"]] {
            let mut rows = none();
            read(&mut rows, &[(0, "'1'", "a", "x"), (0, "'1'", "b", "y")]);
            let batches = rows.to_lock();
            let error = rows.locked(&batches[0], &answers.map(str::to_owned), twice).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ObjectNotInPrerequisiteState, "{answers:?}");
        }
    }

    #[test]
    fn statements_have_a_length_unless_they_have_to_be_one() {
        let mut rows = none();
        let long = "x".repeat(PIECE_BYTES_MAX / 2);
        for key in 0..3 {
            rows.push(row(0, &key.to_string(), "v", &long)).unwrap();
        }
        lock(&mut rows, &[(0, &["0 v", "1 v", "2 v"])]);
        let counts = |is_whole| {
            let batches = rows.batches(|_| true, |row| (row.shard, row.values.len()), is_whole);
            batches.iter().map(Batch::count).collect::<Vec<usize>>()
        };
        assert_eq!(counts(false), [1, 1, 1]);
        assert_eq!(counts(true), [3]);
    }

    #[test]
    fn rows_are_charged() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
        let mut rows = ChangedRows::new(&pool);
        rows.push(row(0, "'1'", "a", &"x".repeat(5000))).unwrap();
        let error = rows.push(row(0, "'2'", "a", &"x".repeat(5000))).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        assert!(pool.reserved() > 5000);
        drop(rows);
        assert_eq!(pool.reserved(), 0);
    }
}

//! What the partitions of a region have told, replayed into a map: the rows as somebody knows them who hears of every
//! change and looks at no row afterwards. `Region::check` compares it with the rows.

use std::collections::HashMap;
use std::sync::Mutex;

use ashlar_base::{ColumnId, Value};

use super::{Changed, End};
use crate::life::{Deadline, Ended};
use crate::partition::Partition;
use crate::region::Region;

/// See the module. The machine's mutex, which is no point where a scheduler of threads goes on with another: it is only
/// taken with a partition locked, or all of them.
#[derive(Default)]
pub(crate) struct Record(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// By partition, and by the hash of the key: keys that are equal may differ in how they are written.
    rows: HashMap<u16, HashMap<u64, Row>>,
    ended: Ended,
}

/// A row as it was when it was written. Its columns by their ids, which stay when the table's shape changes.
struct Row {
    values: Vec<(ColumnId, Value)>,
    deadline: Deadline,
}

impl Row {
    fn of(partition: &Partition, row: u32) -> Self {
        let stored = partition.row(row);
        let columns = stored.schema().columns.iter().enumerate();
        let values = columns.map(|(ordinal, column)| (column.id, stored.get(ordinal).to_value())).collect();
        Self { values, deadline: stored.deadline() }
    }

    fn check(&self, partition: &Partition, row: u32) {
        let stored = Self::of(partition, row);
        for (id, value) in &stored.values {
            // A column that has come since reads as its default in the rows that were there.
            let Some((_, told)) = self.values.iter().find(|(told, _)| told == id) else { continue };
            let is_same = told == value || format!("{told:?}") == format!("{value:?}");
            assert!(is_same, "nobody was told that column {id} is {value:?}: it was {told:?}");
        }
        // Where the table no longer ends rows that are not used, those that it has ended get the deadline that they had by that.
        let is_same = self.deadline == stored.deadline || partition.is_over(row);
        assert!(is_same, "nobody was told of {:?}: it was {:?}", stored.deadline, self.deadline);
    }
}

impl Record {
    pub(super) fn note(&self, partition: &Partition, changed: Changed<'_>) {
        let mut told = self.0.lock().unwrap();
        let Told { rows, ended } = &mut *told;
        let rows = rows.entry(partition.id.0).or_default();
        match changed {
            Changed::Written { hash, row, old } => {
                assert_eq!(hash, partition.rows.hash_of(row), "the hash is that of the row's key");
                let before = rows.insert(hash, Row::of(partition, row));
                assert_eq!(before.is_some(), old.is_some(), "whether the key had a row");
            }
            Changed::Ended { hash, row, why } => {
                let known = partition.rows.hash_of(row);
                assert_eq!(hash.unwrap_or(known), known, "the hash is that of the row's key");
                assert!(rows.remove(&known).is_some(), "a row has ended that nobody was told of");
                match why {
                    End::Deleted => {}
                    End::Expired => ended.expired += 1,
                    End::Evicted => ended.evicted += 1,
                }
            }
            Changed::Adopted(loaded) => {
                for row in loaded.living() {
                    let before = rows.insert(loaded.rows.hash_of(row), Row::of(loaded, row));
                    assert!(before.is_none(), "the key of a row of a load has none");
                }
            }
            Changed::Truncated => rows.clear(),
        }
    }
}

impl Region {
    /// Who has heard of every change knows every row that is there, and no other.
    pub(crate) fn check_told(&self) {
        let guards = self.lock_all();
        if self.is_dropped() {
            return;
        }
        let ended = self.ended();
        let told = self.listeners().record.0.lock().unwrap();
        let mut count = 0;
        for partition in guards.iter().filter_map(|guard| guard.as_deref()) {
            let rows = told.rows.get(&partition.id.0);
            for row in partition.living() {
                let known = rows.and_then(|rows| rows.get(&partition.rows.hash_of(row)));
                let Some(known) = known else { panic!("nobody was told of {:?}", partition.row(row).to_values()) };
                known.check(partition, row);
                count += 1;
            }
        }
        let known: usize = told.rows.values().map(HashMap::len).sum();
        assert_eq!(count, known, "nobody was told that rows have ended");
        assert_eq!(told.ended, ended, "rows that have ended by themselves");
    }

    /// The values of the rows that are known to whoever has heard of every change and whose time has not come at a time in
    /// milliseconds since 1970. In no order; as the table's columns were when each row was written.
    pub(crate) fn told_at(&self, millis: u64) -> Vec<Vec<Value>> {
        let told = self.listeners().record.0.lock().unwrap();
        let rows = told.rows.values().flat_map(HashMap::values).filter(|row| !row.deadline.has_passed(millis));
        rows.map(|row| row.values.iter().map(|(_, value)| value.clone()).collect()).collect()
    }
}

//! One table of groups with their aggregate states, and the file of the groups that have left memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_physical_plan::SpillManager;
use datafusion_physical_plan::metrics::{Count, Gauge};

use super::growth::Growth;
use super::pending::{Pending, Source};
use super::spec::{Rows, Spec};
use super::states::State;
use crate::growing::Growing;
use crate::hash_table::groups::{Groups, TOGETHER};
use crate::hash_table::hash::Secret;
use crate::hash_table::keys::{Keys, Packed};
use crate::memory::{Charge, Memory, Wish};

/// Bytes of rows that wait for each of the groups that are there, at most.
const PENDING_MOST: usize = 6;

/// See the module.
pub(crate) struct Partition {
    groups: Groups<Charge>,
    states: Vec<Box<dyn State>>,
    /// Rows that came.
    rows: u64,
    /// What it was when it grew.
    growth: Growth,
    /// Groups that were expected in the end when it grew, where somebody knows how many rows are to come.
    expected: Option<usize>,
    /// Rows that it is to take.
    pub(super) pending: Pending,
    /// Groups that were put out of memory, some of them several times.
    pub(crate) file: Growing,
}

/// Rows that a table takes: some of a batch, with the values of those, in their order.
pub(crate) struct Portion<'a> {
    pub(crate) batch: &'a Rows,
    pub(crate) hashes: &'a [u64],
    pub(crate) rows: &'a [u32],
    pub(crate) values: &'a [Vec<ArrayRef>],
    pub(crate) filters: &'a [Option<BooleanArray>],
    /// How many rows are expected to follow for each that came; `None`: nobody knows.
    pub(crate) to_come: Option<f64>,
    /// How many there are, these among them, that the table has not taken and that came.
    pub(crate) came: usize,
}

impl Portion<'_> {
    /// Those of them from one on, which `take` takes with their values.
    pub(super) fn rest<T>(&self, at: usize, take: impl FnOnce(&Portion<'_>) -> T) -> T {
        let count = self.rows.len() - at;
        let slice = |array: &ArrayRef| array.slice(at, count);
        let values: Vec<Vec<ArrayRef>> = self.values.iter().map(|arrays| arrays.iter().map(slice).collect()).collect();
        let filters: Vec<Option<BooleanArray>> =
            self.filters.iter().map(|filter| filter.as_ref().map(|filter| filter.slice(at, count))).collect();
        let (rows, came) = (&self.rows[at..], self.came.saturating_sub(at));
        take(&Portion { rows, values: &values, filters: &filters, came, ..*self })
    }
}

impl Partition {
    /// No groups yet.
    ///
    /// # Errors
    /// What the aggregates find.
    pub(crate) fn new(spec: &Spec, secret: Secret, memory: &Arc<Memory>) -> Result<Self> {
        let groups = Groups::new(&spec.packing, secret, memory.charge());
        let (states, pending) = (spec.states(memory)?, Pending::new(memory.charge()));
        Ok(Self {
            groups,
            states,
            rows: 0,
            growth: Growth::default(),
            expected: None,
            pending,
            file: Growing::default(),
        })
    }

    /// Groups in memory.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Bytes that are charged for groups.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.bytes() + self.states.iter().map(|state| state.bytes()).sum::<usize>()
    }

    /// Those of them that keys and values have, of which few groups may have very many: what is made of these when they leave is there beside
    /// them for a moment.
    pub(crate) fn bytes_of_values(&self) -> usize {
        self.groups.bytes_of_keys() + self.states.iter().map(|state| state.bytes_of_values()).sum::<usize>()
    }

    /// Has the first of some rows wait, as long as there is memory: how many.
    pub(super) fn postpone(&mut self, source: &Source<'_>, rows: &[u32]) -> usize {
        let groups = self.bytes();
        self.pending.push(source, rows, groups)
    }

    /// Whether so many rows wait that it is time to take them. They may have half the bytes that groups are expected to have in the end, or as many
    /// where no others come then; or a sixteenth of those that groups have where nobody knows. What is expected is known anew when they are taken:
    /// where that is far away it may be wrong. `to_come` as in [`Portion`].
    pub(super) fn is_due(&self, to_come: Option<f64>) -> bool {
        let (waiting, held) = (self.pending.full_bytes(), self.bytes());
        let enough = match (self.expected, to_come) {
            (Some(expected), Some(to_come)) => {
                let in_the_end = held as f64 * expected as f64 / self.len().max(1) as f64;
                let pending = self.pending.rows() as f64;
                let all = waiting as f64 * (1.0 + (self.rows as f64 + pending) * to_come / pending.max(1.0));
                if all <= in_the_end { in_the_end as usize } else { in_the_end as usize / 2 }
            }
            _ => held / 16,
        };
        waiting > 0 && waiting >= enough.clamp(held / 16, held * PENDING_MOST)
    }

    /// Takes rows. What `ids` has is of no interest before and after.
    ///
    /// # Errors
    /// Where the pool has no memory for them: then none was taken. What the aggregates find.
    pub(crate) fn add(&mut self, rows: &Portion<'_>, wish: Wish, ids: &mut Vec<usize>) -> Result<()> {
        self.make_room(rows, rows.rows.len(), wish)?;
        self.take(rows, ids)?;
        Ok(())
    }

    /// Takes the first of some rows, as many as there is room for; it grows where that is for too few. How many were taken: of rows one at
    /// least.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn add_some(&mut self, rows: &Portion<'_>, wish: Wish, ids: &mut Vec<usize>) -> Result<usize> {
        let count = rows.rows.len();
        let least = count.min(TOGETHER);
        // What is small grows once for all of them.
        let is_small = self.groups.room() < least && self.len() < count;
        self.make_room(rows, if is_small { count } else { least }, wish)?;
        self.take(rows, ids)
    }

    /// Takes rows of groups that it has: it grows by no group, and so asks for nothing but what is kept of rows.
    ///
    /// # Errors
    /// Where the pool has no memory for that: then none was taken. What the aggregates find.
    pub(crate) fn add_known(&mut self, rows: &Portion<'_>, wish: Wish, ids: &mut Vec<usize>) -> Result<()> {
        let (count, len) = (rows.rows.len(), self.len());
        // Rows are looked up together if there is room for as many groups, which nobody takes.
        self.groups.reserve(count.min(TOGETHER), 0, len, Wish::Anyway)?;
        for (state, values) in self.states.iter_mut().zip(rows.values) {
            state.reserve(self.groups.capacity(), Wish::Anyway)?;
            state.ready_for(values, count, rows.batch.is_partial, wish)?;
        }
        self.take(rows, ids)?;
        Ok(())
    }

    /// Whether it has the group of a row of a batch, whose hash this is.
    pub(crate) fn has(&self, batch: &Packed, hash: u64, row: usize) -> bool {
        self.groups.has(batch, hash, row)
    }

    /// Makes room for so many more groups, and for what else some rows need.
    fn make_room(&mut self, rows: &Portion<'_>, more: usize, wish: Wish) -> Result<()> {
        let bytes = match &rows.batch.packed.keys {
            Keys::Bytes(keys) => rows.rows.iter().map(|&row| keys.get(row as usize).len()).sum(),
            _ => 0,
        };
        let goal = self.goal(more, rows.to_come, rows.came);
        self.groups.reserve(more, bytes, goal, wish)?;
        for (state, values) in self.states.iter_mut().zip(rows.values) {
            state.reserve(self.groups.capacity(), wish)?;
            state.ready_for(values, more, rows.batch.is_partial, wish)?;
        }
        Ok(())
    }

    /// Takes the first of some rows, as many as there is room for: how many.
    fn take(&mut self, rows: &Portion<'_>, ids: &mut Vec<usize>) -> Result<usize> {
        self.groups.of_rows(&rows.batch.packed, rows.hashes, rows.rows, ids);
        let (taken, groups) = (ids.len(), self.groups.len());
        self.rows += taken as u64;
        for ((state, values), filter) in self.states.iter_mut().zip(rows.values).zip(rows.filters) {
            let first: Vec<ArrayRef> = values.iter().map(|array| array.slice(0, taken)).collect();
            if rows.batch.is_partial {
                state.merge(&first, ids, groups)?;
            } else {
                let filter = filter.as_ref().map(|filter| filter.slice(0, taken));
                state.update(&first, ids, filter.as_ref(), groups)?;
            }
        }
        Ok(taken)
    }

    /// Groups that are expected in the end, if room for so many more is wanted and not there.
    fn goal(&mut self, more: usize, to_come: Option<f64>, came: usize) -> usize {
        let len = self.len();
        if len + more <= self.groups.capacity() {
            return len;
        }
        let Some(to_come) = to_come else { return self.groups.goal_of_unknown() };
        let (rows, came) = (self.rows as f64, came as f64);
        let forecast = self.growth.forecast(self.rows, len);
        let expected = forecast.after(came + (rows + came) * to_come);
        self.expected = Some(expected);
        // What has not come waits for as much again.
        if came > 0.0 { forecast.after(came) } else { expected }
    }

    /// Its groups, as rows for another table. Their bytes stay charged until `self` goes.
    ///
    /// # Errors
    /// What the aggregates find.
    pub(crate) fn take_rows(&mut self) -> Result<Rows> {
        let values = self.states.iter_mut().map(|state| state.state()).collect::<Result<Vec<_>>>()?;
        let filters = vec![None; values.len()];
        let taken = self.groups.take();
        let packed = Packed::of_groups(taken.keys, taken.null);
        Ok(Rows { packed, values, filters, is_partial: true })
    }

    /// The results, or what is known of the groups, by the schema.
    ///
    /// # Errors
    /// What the aggregates find.
    pub(crate) fn take_batch(&mut self, spec: &Spec, schema: &SchemaRef, is_partial: bool) -> Result<RecordBatch> {
        let rows = self.len();
        let taken = self.groups.take();
        let mut columns = spec.packing.unpack(taken.keys, taken.null)?;
        for state in &mut self.states {
            if is_partial {
                columns.extend(state.state()?);
            } else {
                columns.push(state.evaluate()?);
            }
        }
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    /// Writes its groups to its file; then it has none.
    ///
    /// # Errors
    /// Where the disk has no room for them.
    pub(crate) fn spill(&mut self, spec: &Spec, secret: Secret, files: &Files) -> Result<()> {
        let batch = self.take_batch(spec, &spec.partial_schema, true)?;
        let mut empty = Self::new(spec, secret, &files.memory)?;
        (empty.file, empty.pending) = (std::mem::take(&mut self.file), self.pending.take());
        for start in (0..batch.num_rows()).step_by(files.batch_rows) {
            let rows = files.batch_rows.min(batch.num_rows() - start);
            empty.file.append(&files.manager, "groups", &batch.slice(start, rows))?;
        }
        // Its bytes are given back now, and the batch's with them.
        *self = empty;
        self.file.charge(&files.memory);
        Ok(())
    }
}

/// Where groups go that have no room in memory.
pub(crate) struct Files {
    pub(crate) manager: SpillManager,
    pub(crate) memory: Arc<Memory>,
    pub(crate) batch_rows: usize,
    /// How often groups were divided among files, each time by another hash: those that were divided most often.
    pub(crate) levels: Gauge,
    /// Blocks of groups that neither have room in memory nor can be divided.
    pub(crate) blocks: Count,
}

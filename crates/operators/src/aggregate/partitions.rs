//! Many tables of groups, chosen by some bits of the hash. Each has a lock, which is held for some rows of a batch at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::take;
use datafusion_common::{DataFusionError, Result};
use parking_lot::Mutex;

use super::partition::{Files, Partition, Portion};
use super::pending::{Pending, Source};
use super::spec::{Rows, Spec};
use crate::hash_table::hash::Secret;
use crate::hash_table::keys::Packed;
use crate::memory::{Charge, Memory, Wish, is_array_full, is_full};

/// Bits of the hash that say which table a row belongs to.
const BITS: u32 = 6;
/// Tables.
pub(crate) const PARTITIONS: usize = 1 << BITS;
/// The bits behind the tag.
const SHIFT: u32 = 8;
/// Bytes of groups for which [`wish_of`] asks no pool.
const GROUPS_BYTES: usize = 4 << 20;

/// See the module.
pub(crate) struct Partitions {
    tables: Vec<Mutex<Partition>>,
    pub(crate) secret: Secret,
    /// How often its rows have been through files.
    level: usize,
    /// Groups that were made, those that have left memory among them, some of them several times.
    made: AtomicUsize,
    /// Whether memory has run out: no rows wait any more.
    is_short: AtomicBool,
    /// Of rows that came from a file: the hash of the first of them, and whether there were others.
    one: OnceLock<u64>,
    is_several: AtomicBool,
}

/// The order of a batch by its partitions, kept to be used again; charged.
#[derive(Default)]
pub(crate) struct Order {
    hashes: Vec<u64>,
    rows: Vec<u32>,
    ids: Vec<usize>,
    charge: Option<Charge>,
}

impl Order {
    /// Puts the rows of a batch in the order of their partitions: where each of these begins, and where the last one ends.
    fn put(&mut self, batch: &Packed, secret: Secret, memory: &Arc<Memory>) -> [usize; PARTITIONS + 1] {
        self.pay(batch.len(), 0, memory);
        make_room(&mut self.hashes, batch.len());
        make_room(&mut self.rows, batch.len());
        batch.hashes(secret, &mut self.hashes);
        let mut starts = [0; PARTITIONS + 1];
        self.hashes.iter().for_each(|hash| starts[partition_of(*hash) + 1] += 1);
        let most = starts.iter().copied().max().unwrap_or(0);
        self.pay(batch.len(), most, memory);
        make_room(&mut self.ids, most);
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut next = starts;
        // Each of them is written.
        self.rows.resize(self.hashes.len(), 0);
        for (row, hash) in self.hashes.iter().enumerate() {
            let next = &mut next[partition_of(*hash)];
            self.rows[*next] = row as u32;
            *next += 1;
        }
        starts
    }

    /// The rows of a batch as they are, all of them for one table.
    fn put_all(&mut self, batch: &Packed, secret: Secret, memory: &Arc<Memory>) {
        let count = batch.len();
        self.pay(count, count, memory);
        make_room(&mut self.hashes, count);
        make_room(&mut self.ids, count);
        batch.hashes(secret, &mut self.hashes);
        make_room(&mut self.rows, count);
        self.rows.clear();
        all_rows(&mut self.rows, count);
    }

    /// Charges what it is about to be with so many rows of a batch, of which one table gets so many: some bytes for each, with which the batch
    /// came and was not asked for.
    fn pay(&mut self, rows: usize, of_table: usize, memory: &Arc<Memory>) {
        let Self { hashes, rows: order, ids, .. } = self;
        let bytes = scratch_bytes_for(rows, of_table, hashes, order, ids);
        self.charge.get_or_insert_with(|| memory.charge()).settle(bytes);
    }
}

/// What there will be for so many rows of a batch, of which one table gets so many, beside what there is.
pub(crate) fn scratch_bytes_for(
    count: usize,
    of_table: usize,
    hashes: &Vec<u64>,
    rows: &Vec<u32>,
    ids: &Vec<usize>,
) -> usize {
    hashes.capacity().max(count) * size_of::<u64>()
        + rows.capacity().max(count) * size_of::<u32>()
        + ids.capacity().max(of_table) * size_of::<usize>()
}

/// What is kept for the rows of a batch.
pub(crate) fn scratch_bytes(hashes: &Vec<u64>, rows: &Vec<u32>, ids: &Vec<usize>) -> usize {
    hashes.capacity() * size_of::<u64>() + rows.capacity() * size_of::<u32>() + ids.capacity() * size_of::<usize>()
}

/// Room for so many values and no more. What was there is of no interest any more: it is not copied.
fn make_room<T>(values: &mut Vec<T>, count: usize) {
    if values.capacity() < count {
        *values = Vec::new();
        values.reserve_exact(count);
    }
}

/// All partitions, this one first.
fn from(first: usize) -> impl Iterator<Item = usize> {
    (0..PARTITIONS).map(move |step| (first + step) % PARTITIONS)
}

#[inline]
fn partition_of(hash: u64) -> usize {
    (hash >> SHIFT) as usize % PARTITIONS
}

impl Partitions {
    /// Empty ones.
    ///
    /// # Errors
    /// What the aggregates find.
    pub(crate) fn new(spec: &Spec, secret: Secret, files: &Files, level: usize) -> Result<Self> {
        let table = |_| Partition::new(spec, secret, &files.memory).map(Mutex::new);
        Ok(Self {
            tables: (0..PARTITIONS).map(table).collect::<Result<_>>()?,
            secret,
            level,
            made: AtomicUsize::new(0),
            is_short: AtomicBool::new(false),
            one: OnceLock::new(),
            is_several: AtomicBool::new(false),
        })
    }

    /// Groups that were made so far.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Takes rows; `to_come` as in [`Portion`]. `first` is where it begins: whoever adds at the same time had better begin
    /// elsewhere.
    ///
    /// # Errors
    /// Where neither memory nor the disk has room for them, as where one group alone has more than there is memory; what the aggregates find.
    pub(crate) fn add(
        &self,
        spec: &Spec,
        files: &Files,
        batch: &Rows,
        to_come: Option<f64>,
        first: usize,
        order: &mut Order,
    ) -> Result<()> {
        let starts = order.put(&batch.packed, self.secret, &files.memory);
        self.look_at(&order.hashes);
        // Numbers of rows are lent to an array and not copied.
        let indices = UInt32Array::from(std::mem::take(&mut order.rows));
        let taken = |array: &ArrayRef| Ok(take(array, &indices, None)?);
        let values = batch.values.iter().map(|arrays| arrays.iter().map(taken).collect::<Result<Vec<_>>>());
        let values = values.collect::<Result<Vec<_>>>();
        let filter = |filter: &Option<BooleanArray>| match filter {
            Some(filter) => Ok(Some(take(filter, &indices, None)?.as_boolean().clone())),
            None => Ok::<_, DataFusionError>(None),
        };
        let filters = batch.filters.iter().map(filter).collect::<Result<Vec<_>>>();
        order.rows = Vec::from(indices.into_parts().1);
        let (values, filters) = (values?, filters?);
        let Order { hashes, rows, ids, .. } = order;
        for partition in from(first) {
            let (at, end) = (starts[partition], starts[partition + 1]);
            let slice = |array: &ArrayRef| array.slice(at, end - at);
            let values: Vec<Vec<ArrayRef>> = values.iter().map(|arrays| arrays.iter().map(slice).collect()).collect();
            let filters: Vec<Option<BooleanArray>> =
                filters.iter().map(|filter| filter.as_ref().map(|filter| filter.slice(at, end - at))).collect();
            let (rows, values, filters) = (&rows[at..end], &values[..], &filters[..]);
            let portion = Portion { batch, hashes, rows, values, filters, to_come, came: 0 };
            self.add_portion(spec, files, partition, &portion, ids)?;
        }
        Ok(())
    }

    /// Takes rows that one table gets.
    fn add_portion(
        &self,
        spec: &Spec,
        files: &Files,
        partition: usize,
        all: &Portion<'_>,
        ids: &mut Vec<usize>,
    ) -> Result<()> {
        let (mut at, mut wish) = (0, Wish::IfFree);
        while at < all.rows.len() {
            at += all.rest(at, |rows| {
                let mut table = self.tables[partition].lock();
                let before = table.len();
                let added = table.add_some(rows, wish, ids);
                self.made.fetch_add(table.len() - before, Ordering::Relaxed);
                drop(table);
                match added {
                    Err(error) if is_full(&error) && wish == Wish::IfFree => {
                        self.is_short.store(true, Ordering::Relaxed);
                        wish = self.make_room(spec, files, rows.values, error)?;
                        Ok(0)
                    }
                    other => other,
                }
            })?;
        }
        Ok(())
    }

    /// Takes rows of the input, or has them wait for others of their tables; as [`Self::add`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn postpone(
        &self,
        spec: &Spec,
        files: &Files,
        source: &Source<'_>,
        to_come: Option<f64>,
        first: usize,
        (order, own): (&mut Order, &mut Order),
    ) -> Result<()> {
        let starts = order.put(&source.batch.packed, self.secret, &files.memory);
        for partition in from(first) {
            let rows = &order.rows[starts[partition]..starts[partition + 1]];
            let mut table = self.tables[partition].lock();
            let taken = table.postpone(source, rows);
            if taken == rows.len() && !table.is_due(to_come) {
                continue;
            }
            let pending = table.pending.take();
            drop(table);
            self.add_pending(spec, files, partition, pending, to_come, own)?;
            if taken < rows.len() {
                self.is_short.store(true, Ordering::Relaxed);
                let rest = source.rows(&rows[taken..])?;
                own.put_all(&rest.packed, self.secret, &files.memory);
                let Order { hashes, rows, ids, .. } = &mut *own;
                self.add_portion(spec, files, partition, &whole(&rest, hashes, rows, to_come), ids)?;
            }
        }
        Ok(())
    }

    /// Whether memory has run out, so that no more rows are to wait for each table.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Takes all rows that wait.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn take_all_pending(
        &self,
        spec: &Spec,
        files: &Files,
        to_come: Option<f64>,
        first: usize,
        own: &mut Order,
    ) -> Result<()> {
        for partition in from(first) {
            let pending = self.tables[partition].lock().pending.take();
            self.add_pending(spec, files, partition, pending, to_come, own)?;
        }
        Ok(())
    }

    /// Takes rows that have waited for a table.
    fn add_pending(
        &self,
        spec: &Spec,
        files: &Files,
        partition: usize,
        pending: Pending,
        to_come: Option<f64>,
        own: &mut Order,
    ) -> Result<()> {
        let add = |all: &Portion<'_>, ids: &mut Vec<usize>| self.add_portion(spec, files, partition, all, ids);
        each_pending(pending, (self.secret, to_come), files, own, add)
    }

    /// Notes whether rows from a file are of more than one group.
    fn look_at(&self, hashes: &[u64]) {
        if self.level == 0 || self.is_several.load(Ordering::Relaxed) {
            return;
        }
        let Some(first) = hashes.first() else { return };
        let one = self.one.get_or_init(|| *first);
        if hashes.iter().any(|hash| hash != one) {
            self.is_several.store(true, Ordering::Relaxed);
        }
    }

    /// Puts groups out of memory, for rows with these values that had no room in it: how they are to be taken then.
    ///
    /// # Errors
    /// `why` they had none, where all that is there is a part of the one group that they belong to; where the disk has no room.
    fn make_room(&self, spec: &Spec, files: &Files, values: &[Vec<ArrayRef>], why: DataFusionError) -> Result<Wish> {
        // Groups that came from a file leave with others: their next file has fewer of them then.
        let least = if self.level == 0 { 1 } else { 2 };
        if self.spill_largest(spec, files, least)? {
            return Ok(Wish::IfFree);
        }
        // Of rows of the input a part of one batch, and nothing else is there.
        if self.level == 0 {
            return Ok(Wish::Anyway);
        }
        let bytes = bytes_with(self.tables.iter().map(|table| held(table, 1)).sum(), values)?;
        if wish_of(bytes) == Wish::Anyway {
            return Ok(Wish::Anyway);
        }
        if self.is_several.load(Ordering::Relaxed) {
            // Each has a file of its own in the end. With none in memory these are a part of one batch as well.
            let has_left = self.spill_largest(spec, files, 1)?;
            return Ok(if has_left { Wish::IfFree } else { Wish::Anyway });
        }
        // Its keys may be too many for one array, and not for memory: they grow by a quarter, beside those that there are.
        if is_array_full(&why) && files.memory.has(bytes / 4 * 5) { Ok(Wish::Anyway) } else { Err(why) }
    }

    /// Puts the groups of the table with the most bytes out of memory, of those that have so many groups; whether there was one.
    fn spill_largest(&self, spec: &Spec, files: &Files, least: usize) -> Result<bool> {
        let size = |table: &Mutex<Partition>| held(table, least);
        let largest = self.tables.iter().map(|table| (size(table), table)).max_by_key(|(bytes, _)| *bytes);
        let Some((_, table)) = largest.filter(|(bytes, _)| *bytes > 0) else { return Ok(false) };
        let mut table = table.lock();
        // Another stream may have been faster.
        if table.len() >= least {
            table.spill(spec, self.secret, files)?;
        }
        Ok(true)
    }

    /// The tables, when all rows have come.
    pub(crate) fn into_tables(self) -> impl Iterator<Item = Partition> {
        self.tables.into_iter().map(Mutex::into_inner)
    }
}

/// Has a table take the rows that wait for it, when no others come: groups that there is no room for beside them go to its file.
///
/// # Errors
/// Where the disk has no room for them; what the aggregates find.
pub(crate) fn take_pending(
    table: &mut Partition,
    spec: &Spec,
    secret: Secret,
    files: &Files,
    own: &mut Order,
) -> Result<()> {
    let pending = table.pending.take();
    each_pending(pending, (secret, Some(0.0)), files, own, |all, ids| {
        let (mut at, mut wish) = (0, Wish::IfFree);
        while at < all.rows.len() {
            match all.rest(at, |rows| table.add_some(rows, wish, ids)) {
                Ok(taken) => at += taken,
                Err(error) if is_full(&error) && wish == Wish::IfFree => match table.len() {
                    0 => wish = Wish::Anyway,
                    _ => table.spill(spec, secret, files)?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Has `take` take rows that have waited for a table, those first that came first, and gives back what they have. A table grows for these and no others:
/// before more come as many have to wait.
fn each_pending(
    mut pending: Pending,
    (secret, to_come): (Secret, Option<f64>),
    files: &Files,
    own: &mut Order,
    mut take: impl FnMut(&Portion<'_>, &mut Vec<usize>) -> Result<()>,
) -> Result<()> {
    loop {
        let came = pending.rows();
        let Some((rows, bytes)) = pending.pop()? else { return Ok(()) };
        own.put_all(&rows.packed, secret, &files.memory);
        let Order { hashes, rows: numbers, ids, .. } = &mut *own;
        take(&Portion { came, ..whole(&rows, hashes, numbers, to_come) }, ids)?;
        drop(rows);
        pending.give_back(bytes);
    }
}

/// Bytes of groups that have so many, with these values that come to them.
///
/// # Errors
/// None for the types that values have.
pub(super) fn bytes_with(held: usize, values: &[Vec<ArrayRef>]) -> Result<usize> {
    let mut bytes = held;
    for array in values.iter().flatten() {
        bytes = bytes.saturating_add(array.to_data().get_slice_memory_size()?);
    }
    Ok(bytes)
}

/// How groups that came from a file take rows where they have so many bytes with these, and none of them may leave: a group has to be there as a
/// whole once, so little is taken whether the pool has it or not. One that is larger fails where the pool has no more.
pub(super) fn wish_of(bytes: usize) -> Wish {
    if bytes <= GROUPS_BYTES { Wish::Anyway } else { Wish::IfFree }
}

/// Bytes of a table that has so many groups; none of one that has fewer.
fn held(table: &Mutex<Partition>, least: usize) -> usize {
    let table = table.lock();
    if table.len() < least { 0 } else { table.bytes() }
}

/// All rows of a batch, for a table of its own.
pub(crate) fn whole<'a>(batch: &'a Rows, hashes: &'a [u64], rows: &'a [u32], to_come: Option<f64>) -> Portion<'a> {
    Portion { batch, hashes, rows, values: &batch.values, filters: &batch.filters, to_come, came: 0 }
}

/// The rows 0, 1, ... of a batch.
pub(crate) fn all_rows(rows: &mut Vec<u32>, count: usize) {
    if rows.len() < count {
        rows.extend(rows.len() as u32..count as u32);
    }
    rows.truncate(count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_table::keys::Keys;

    #[test]
    fn the_order_of_a_batch_is_charged_as_it_is_held() {
        let (mut order, memory) = (Order::default(), Memory::unlimited());
        for rows in [1000, 10, 5000] {
            let packed = Packed { keys: Keys::Word64((0..rows).collect()), nulls: None };
            let starts = order.put(&packed, Secret::random(), &memory);
            assert_eq!(starts[PARTITIONS], rows as usize);
            let charged = order.charge.as_ref().map_or(0, Charge::bytes);
            assert_eq!(charged, scratch_bytes(&order.hashes, &order.rows, &order.ids), "{rows}");
        }
    }
}

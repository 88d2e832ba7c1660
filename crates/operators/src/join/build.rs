//! Builds the join's table from its chunks, and says beforehand how much memory that will take.
//!
//! Called when the last row of a build side has arrived, and for each part of one that went to files.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use datafusion_common::{DataFusionError, Result, internal_err};
use datafusion_common_runtime::JoinSet;

use super::chunk::{CHUNK_ROWS, COUNTED_BITS, Chunk, place_of, row_number};
use super::early::Early;
use super::index::{
    Index, KeyWord, Numbers, Texts, Words, only_table_of, scatter, scatter_texts, table_of, table_of_texts,
};
use super::output::gather_numbers;
use super::spec::{Alone, Spec};
use super::texts::{BYTES_MAX, Lengths};
use crate::hash_table::direct::{Counting, Direct};
use crate::hash_table::hash::Secret;
use crate::hash_table::keys::Keys;
use crate::hash_table::runs::Runs;
use crate::hash_table::unchained::Unchained;
use crate::memory::{Charge, Memory, Wish};

/// Rows of a part: so many are in a cache of the processor while their table is made.
const PART_ROWS: usize = if cfg!(test) { 1 << 9 } else { 1 << 15 };

/// Parts of more rows than one table is made of, for each thread, as long as there are bits to tell them apart: what is held beside parts while their
/// tables are made is little beside all of them then.
const PARTS_FOR_THREAD: usize = 32;

/// Rows of which one table is made: who looks up in one table computes no part for each row, and has what it is made of in registers. Of more rows it would be
/// made by one thread for too long, and looking up waits for memory anyway. Of so many rows what is kept may be copied, too, into the order of the table.
const ALONE_ROWS: usize = if cfg!(test) { 1 << 10 } else { 1 << 19 };

/// Bytes of columns that are copied into the order of a table, at most: a few milliseconds, which looking up has to make good, and little beside what a join
/// of so many rows takes.
const COPIED_BYTES: usize = 4 << 20;

/// The build side of a join, when all of it is there.
pub(crate) struct Built {
    pub(crate) index: Box<dyn Index>,
    /// Rows that have a NULL among their keys, and are in no index: where NULL is a key like others, or what matches nothing is
    /// wanted.
    pub(crate) nulls: Vec<u32>,
    /// What is kept of the rows: of each column, the arrays of the chunks; or one array in which the number of a row is its place, where rows are
    /// numbered in the order of the index.
    pub(crate) kept: Vec<Vec<ArrayRef>>,
    /// Which rows have had a match, where that is of interest.
    matched: Vec<AtomicU64>,
    /// Bytes that no row has more of in the columns that are kept, where their values are of any length.
    longest: usize,
    pub(crate) rows: usize,
    /// Rows that have a key.
    pub(crate) findable: usize,
    /// The places of the least and of the greatest key, where keys are counted.
    pub(crate) bounds: Option<(u64, u64)>,
    pub(crate) seen: Arc<Seen>,
    _charges: Vec<Charge>,
}

/// What has been seen of the probe side by now.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether a row has come.
    pub(crate) any: AtomicBool,
    /// Whether one has come whose key is NULL.
    pub(crate) null: AtomicBool,
}

impl Built {
    /// Whether what is kept of some rows, with so many bytes for each beside it at most, may be more than a batch that comes out is to have.
    #[inline]
    pub(crate) fn may_be_long(&self, rows: usize, beside: usize) -> bool {
        (self.longest + beside).saturating_mul(rows) > BYTES_MAX
    }

    /// Bytes of a column that is kept of some rows, where its values are of any length.
    pub(crate) fn bytes_of(&self, column: usize, rows: &[u32]) -> usize {
        let chunks: Option<Vec<Lengths<'_>>> =
            self.kept[column].iter().map(|chunk| Lengths::of(chunk.as_ref())).collect();
        let of_row = |chunks: &[Lengths<'_>], row: u32| {
            let (chunk, place) = place_of(row);
            chunks[chunk].of_row(place)
        };
        chunks.map_or(0, |chunks| rows.iter().map(|row| of_row(&chunks, *row)).sum())
    }

    /// Whether all that is kept of some rows is more than a batch that comes out is to have.
    pub(crate) fn is_long(&self, rows: &[u32]) -> bool {
        self.may_be_long(rows.len(), 0)
            && (0..self.kept.len()).map(|column| self.bytes_of(column, rows)).sum::<usize>() > BYTES_MAX
    }

    #[inline]
    fn bit(row: u32) -> (usize, u64) {
        let (chunk, place) = place_of(row);
        let bit = chunk * CHUNK_ROWS + place;
        (bit / 64, 1 << (bit % 64))
    }

    /// Notes that a row has a match; whether that is new.
    #[inline]
    pub(crate) fn note(&self, row: u32) -> bool {
        let (word, bit) = Self::bit(row);
        let word = &self.matched[word];
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether a row has had a match.
    #[inline]
    pub(crate) fn is_noted(&self, row: u32) -> bool {
        let (word, bit) = Self::bit(row);
        self.matched[word].load(Ordering::Relaxed) & bit != 0
    }
}

/// The kind of a table, of what its keys are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Word32,
    Word64,
    Word128,
    Bytes,
}

/// What a table will be, with its memory.
pub(crate) struct Plan {
    kind: Kind,
    /// Where keys are counted and close together: how, and the least and the greatest of them.
    direct: Option<(Counting, (u64, u64))>,
    bits: u32,
    rows_of: Vec<usize>,
    /// Whether one table is made of all parts, if each key is there once.
    is_alone: bool,
    nulls: usize,
    charge: Charge,
}

impl Plan {
    /// Bytes that a table takes for a row beside what is kept of it and its key, at most: what it holds, key and number once more while it is made, and
    /// where some keys are there several times as many lines as if none were. The key of the chunk has gone by then.
    pub(crate) fn bytes_for_row(spec: &Spec) -> usize {
        let number = size_of::<u32>();
        match spec.packing.none() {
            Keys::Bytes(_) => 12 + size_of::<u32>() + number,
            // What a place is of a line, twice.
            Keys::Word32(_) => 2 * 13 + number,
            Keys::Word64(_) => 2 * 18 + number,
            Keys::Word128(_) => 2 * 29 + number,
        }
    }

    /// Charges what the table of these chunks will take, and what making it does.
    ///
    /// # Errors
    /// Where the pool has not as much.
    pub(crate) fn of(
        spec: &Spec,
        chunks: &[Chunk],
        memory: &Arc<Memory>,
        threads: usize,
        wish: Wish,
        early: Option<&Early>,
    ) -> Result<Self> {
        let mut charge = memory.charge();
        let rows: usize = chunks.iter().map(|chunk| chunk.rows).sum();
        let findable: usize = chunks.iter().flat_map(|chunk| &chunk.counts).map(|count| *count as usize).sum();
        let kind = match spec.packing.none() {
            Keys::Word32(_) => Kind::Word32,
            Keys::Word64(_) => Kind::Word64,
            Keys::Word128(_) => Kind::Word128,
            Keys::Bytes(_) => Kind::Bytes,
        };
        let nulls = if spec.null_is_equal || spec.wants_unmatched_left() { rows - findable } else { 0 };
        charge.grow(nulls * size_of::<u32>(), wish)?;
        if spec.left_alone() != Alone::Nothing {
            charge.grow(chunks.len() * CHUNK_ROWS / 8, wish)?;
        }
        let without_parts = |direct, charge| {
            let (bits, rows_of, is_alone) = (0, Vec::new(), false);
            Self { kind, direct, bits, rows_of, is_alone, nulls, charge }
        };
        if early.is_some() {
            return Ok(without_parts(None, charge));
        }
        let direct = direct(spec, chunks, findable, &mut charge)?;
        if let Some((counting, bounds)) = direct {
            let table = Direct::new(counting, bounds);
            let mut touched = table.segments_of(bounds);
            touched.touch_all();
            charge.grow(table.missing_bytes(&touched), wish)?;
            return Ok(without_parts(direct, charge));
        }
        let are_few = findable <= ALONE_ROWS && !matches!(kind, Kind::Bytes);
        let parts =
            findable.div_ceil(PART_ROWS).max(if findable > ALONE_ROWS { PARTS_FOR_THREAD * threads } else { 1 });
        let bits = parts.next_power_of_two().ilog2().min(COUNTED_BITS);
        let (rows_of, [bytes, bytes_alone]) = parts_of(kind, chunks, bits, threads);
        let is_alone = are_few && charge.grow(bytes_alone, Wish::IfFree).is_ok();
        if !is_alone {
            charge.grow(bytes, wish)?;
        }
        Ok(Self { kind, direct: None, bits, rows_of, is_alone, nulls, charge })
    }

    /// Makes the table.
    ///
    /// # Errors
    /// Where a task fails, which is a bug.
    pub(crate) async fn build(
        self,
        spec: &Spec,
        mut chunks: Vec<Chunk>,
        secret: Secret,
        threads: usize,
        seen: Arc<Seen>,
        early: Option<Early>,
    ) -> Result<Built> {
        let rows = chunks.iter().map(|chunk| chunk.rows).sum();
        let mut nulls = Vec::with_capacity(self.nulls);
        if self.nulls > 0 {
            for (number, chunk) in chunks.iter().enumerate() {
                let Some(valid) = &chunk.valid else { continue };
                let places = valid.iter().enumerate().filter(|(_, is_valid)| !is_valid);
                nulls.extend(places.map(|(place, _)| row_number(number, place)));
            }
        }
        let count = chunks.len();
        let matched = match spec.left_alone() {
            Alone::Nothing => Vec::new(),
            Alone::Matched | Alone::Unmatched | Alone::Marked => {
                (0..count * CHUNK_ROWS / 64).map(|_| AtomicU64::new(0)).collect()
            }
        };
        let mut kept: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(count); spec.kept.len()];
        for chunk in &mut chunks {
            for (kept, array) in kept.iter_mut().zip(std::mem::take(&mut chunk.kept)) {
                kept.push(array);
            }
        }
        let longest = chunks.iter().map(|chunk| chunk.longest).max().unwrap_or(0);
        let findable: usize = chunks.iter().flat_map(|chunk| &chunk.counts).map(|count| *count as usize).sum();
        let bounds = bounds_of(&chunks);
        let made = match self.kind {
            Kind::Word32 => self.words::<u32, 8, 7>(chunks, secret, threads, early).await?,
            Kind::Word64 => self.words::<u64, 5, 5>(chunks, secret, threads, early).await?,
            Kind::Word128 => self.words::<u128, 3, 3>(chunks, secret, threads, None).await?,
            Kind::Bytes => self.texts(chunks, secret, threads).await?,
        };
        let Made { mut index, mut charges, given, mut charge, mut bytes } = made;
        // Nobody asks for rows by the numbers that they came with where all that matters of them is found by keys.
        let is_by_key = spec.left_alone() == Alone::Nothing && nulls.is_empty();
        let beside = nulls.capacity() * size_of::<u32>() + matched.capacity() * size_of::<u64>();
        // Until now what is held in the place of keys was in their charges.
        let of_given = given.iter().map(Charge::bytes).sum();
        drop(given);
        charge.take(of_given);
        charge.settle(bytes + beside);
        let mut of_chunks = Vec::new();
        if is_by_key
            && (1..=ALONE_ROWS).contains(&findable)
            && let Some(of_all) = put_in_order(index.as_mut(), &mut kept, findable, &mut charge)?
        {
            (bytes, of_chunks) = (of_all, std::mem::take(&mut charges));
        }
        charge.settle(bytes + beside);
        charges.push(charge);
        // What they held is in this charge by now.
        drop(of_chunks);
        Ok(Built { index, nulls, kept, matched, longest, rows, findable, bounds, seen, _charges: charges })
    }

    /// `LANES` and `PLACES` are those of lines of such words.
    async fn words<W: KeyWord, const LANES: usize, const PLACES: usize>(
        self,
        chunks: Vec<Chunk>,
        secret: Secret,
        threads: usize,
        early: Option<Early>,
    ) -> Result<Made> {
        if let Some(early) = early {
            let charges = chunks.into_iter().map(|chunk| chunk.charges.1).collect();
            let (table, of_table) = early.into_table();
            // In one charge with the rest, as of tables that are made at the end.
            let (mut charge, bytes) = (self.charge, of_table.bytes());
            drop(of_table);
            charge.take(bytes);
            let bytes = table.bytes();
            let index = Box::new(Numbers { table, word: PhantomData::<fn() -> W> });
            return Ok(Made { index, charges, given: Vec::new(), charge, bytes });
        }
        if let Some((counting, bounds)) = self.direct {
            let mut table = Direct::new(counting, bounds);
            let mut touched = table.segments_of(bounds);
            touched.touch_all();
            table.add_segments(&touched);
            let mut charges = Vec::with_capacity(chunks.len());
            for (number, chunk) in chunks.into_iter().enumerate() {
                for (place, key) in W::of(&chunk.keys.keys).iter().enumerate() {
                    if chunk.valid.as_ref().is_none_or(|valid| valid.is_valid(place)) {
                        table.add(key.widen() as u64, row_number(number, place));
                    }
                }
                charges.push(chunk.charges.1);
            }
            let bytes = table.bytes();
            let index = Box::new(Numbers { table, word: PhantomData::<fn() -> W> });
            return Ok(Made { index, charges, given: Vec::new(), charge: self.charge, bytes });
        }
        let (bits, is_alone) = (self.bits, self.is_alone);
        let (chunks, rows_of) = (Arc::new(chunks), Arc::new(self.rows_of));
        let scattered = in_ranges(rows_of.len(), threads, |parts| {
            let (chunks, rows_of) = (Arc::clone(&chunks), Arc::clone(&rows_of));
            move || scatter::<W>(&chunks, parts, bits, secret, &rows_of)
        });
        let scattered = scattered.await?;
        let Some(chunks) = Arc::into_inner(chunks) else { return internal_err!("a task of a join has not ended") };
        // The keys go, and what is made now is held in their place.
        let (given, charges) = chunks.into_iter().map(|chunk| chunk.charges).unzip();
        let only = if is_alone {
            // Parts divide its lines, so that they are written one after the other.
            let rows: usize = scattered.iter().map(|(_, rows)| rows.len()).sum();
            only_table_of(room_of_few(rows), scattered.iter().flat_map(|(keys, rows)| pairs(keys, rows)), secret)
        } else {
            None
        };
        let (parts, bits): (Vec<Runs<W, LANES, PLACES>>, u32) = match only {
            Some(only) => (vec![only], 0),
            None => {
                let table = move |keys: Vec<W>, rows: Vec<u32>| table_of(rows.len(), pairs(&keys, &rows), bits, secret);
                (tables(scattered, threads, table).await?, bits)
            }
        };
        let bytes = parts.iter().map(Runs::bytes).sum();
        let index = Box::new(Words { parts, bits, secret, is_rare: AtomicBool::new(false) });
        Ok(Made { index, charges, given, charge: self.charge, bytes })
    }

    async fn texts(self, chunks: Vec<Chunk>, secret: Secret, threads: usize) -> Result<Made> {
        let bits = self.bits;
        let (chunks, rows_of) = (Arc::new(chunks), Arc::new(self.rows_of));
        let scattered = in_ranges(rows_of.len(), threads, |parts| {
            let (chunks, rows_of) = (Arc::clone(&chunks), Arc::clone(&rows_of));
            move || scatter_texts(&chunks, parts, bits, secret, &rows_of)
        });
        let scattered = scattered.await?;
        let Some(chunks) = Arc::into_inner(chunks) else { return internal_err!("a task of a join has not ended") };
        let mut charges = Vec::with_capacity(2 * chunks.len());
        let mut keys = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            keys.push(chunk.keys);
            charges.extend([chunk.charges.0, chunk.charges.1]);
        }
        let keys = Arc::new(keys);
        let known = Arc::clone(&keys);
        let parts = tables(scattered, threads, move |keys, rows| table_of_texts(keys, rows, bits, &known)).await?;
        let bytes = parts.iter().map(Unchained::bytes).sum();
        let index = Box::new(Texts { parts, bits, secret, keys });
        Ok(Made { index, charges, given: Vec::new(), charge: self.charge, bytes })
    }
}

struct Made {
    index: Box<dyn Index>,
    charges: Vec<Charge>,
    /// Of what has gone, and was not charged anew for what was made in its place.
    given: Vec<Charge>,
    charge: Charge,
    bytes: usize,
}

/// Puts what is kept in the order of an index, where that has one: then the number of a row is its place in an array, and who has found a key has its row.
/// Bytes of both from then on; `None`: nothing has changed.
fn put_in_order(
    index: &mut dyn Index,
    kept: &mut [Vec<ArrayRef>],
    rows: usize,
    charge: &mut Charge,
) -> Result<Option<usize>> {
    // Where nothing is kept there is nothing to find sooner. Of other columns it would take more memory, and those who measure texts know chunks.
    if kept.is_empty() || !kept.iter().all(|chunks| gather_numbers(chunks, &[]).is_some()) {
        return Ok(None);
    }
    let of_column = |chunks: &Vec<ArrayRef>| chunks.iter().map(|array| array.get_array_memory_size()).sum::<usize>();
    let of_columns: Vec<usize> = kept.iter().map(of_column).collect();
    if of_columns.iter().sum::<usize>() > COPIED_BYTES {
        return Ok(None);
    }
    // Columns are copied one by one, and go then; and rows have two numbers.
    let more = of_columns.into_iter().max().unwrap_or(0) + rows * size_of::<u32>();
    let renumbered = index.renumber(&mut || charge.grow(more, Wish::IfFree).is_ok());
    let Some((order, of_index)) = renumbered else { return Ok(None) };
    let mut of_columns = 0;
    for chunks in kept {
        let Some(column) = gather_numbers(chunks, &order) else { return internal_err!("a column of numbers is none") };
        of_columns += column.get_array_memory_size();
        *chunks = vec![column];
    }
    Ok(Some(of_index + of_columns))
}

/// Room for rows of which one table is made: more of its places are empty than of others, so that hardly any search goes on to a second line. Where all lines are in
/// a cache that is what costs time, and they are few.
fn room_of_few(rows: usize) -> usize {
    rows + if rows <= PART_ROWS { rows / 2 } else { rows / 4 }
}

/// The rows of each part by so many bits of their hashes, and bytes that tables of them take while they are made: each by itself, and one of all of them
/// besides.
fn parts_of(kind: Kind, chunks: &[Chunk], bits: u32, threads: usize) -> (Vec<usize>, [usize; 2]) {
    let mut rows_of = vec![0; 1 << bits];
    for chunk in chunks {
        for (prefix, count) in chunk.counts.iter().enumerate() {
            rows_of[prefix >> (COUNTED_BITS - bits)] += *count as usize;
        }
    }
    // What is made at the same time are the largest, at worst.
    let mut largest = rows_of.clone();
    largest.sort_unstable_by(|one, other| other.cmp(one));
    largest.truncate(workers(rows_of.len(), threads));
    let all: usize = rows_of.iter().sum();
    let width: usize = match kind {
        Kind::Word32 | Kind::Bytes => 4,
        Kind::Word64 => 8,
        Kind::Word128 => 16,
    };
    // What a table holds, and what is held beside it and its keys and rows while it is made.
    let bytes_for = |rows: usize| match kind {
        Kind::Word32 => (Runs::<u32, 8, 7>::bytes_for(rows), Runs::<u32, 8, 7>::bytes_beside(rows)),
        Kind::Word64 => (Runs::<u64, 5, 5>::bytes_for(rows), Runs::<u64, 5, 5>::bytes_beside(rows)),
        Kind::Word128 => (Runs::<u128, 3, 3>::bytes_for(rows), Runs::<u128, 3, 3>::bytes_beside(rows)),
        Kind::Bytes => (Unchained::<u32>::bytes_for(rows), 0),
    };
    let bytes: usize = rows_of.iter().map(|rows| bytes_for(*rows).0).sum();
    // Words of chunks are given up before tables are made: what the one takes, the other has then.
    let given: usize = match kind {
        Kind::Bytes => 0,
        Kind::Word32 | Kind::Word64 | Kind::Word128 => chunks.iter().map(|chunk| chunk.keys.held()).sum(),
    };
    let pairs = all * (width + size_of::<u32>());
    let scratch: usize = largest.iter().map(|rows| rows * (width + size_of::<u32>()) + bytes_for(*rows).1).sum();
    // In one table all pairs are put while they are there; it goes if a key is there twice.
    let alone = (bytes_for(room_of_few(all)).0 + pairs).max(bytes + scratch);
    let most = [bytes + scratch, alone].map(|most| most.saturating_sub(given).max(pairs));
    (rows_of, most)
}

/// The places of the least and of the greatest key of all, where keys are counted.
fn bounds_of(chunks: &[Chunk]) -> Option<(u64, u64)> {
    let bounds = chunks.iter().filter_map(|chunk| chunk.bounds);
    bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// How a table of numbers close together would be made, if they are and each is there once.
fn direct(
    spec: &Spec,
    chunks: &[Chunk],
    findable: usize,
    charge: &mut Charge,
) -> Result<Option<(Counting, (u64, u64))>> {
    let Some(counting) = spec.packing.counting() else { return Ok(None) };
    let Some(bounds) = bounds_of(chunks) else { return Ok(None) };
    let Some(slots) = Direct::slots_for(findable, bounds) else { return Ok(None) };
    let bytes = slots.div_ceil(64) * size_of::<u64>();
    if charge.grow(bytes, Wish::IfFree).is_err() {
        return Ok(None);
    }
    let mut seen = vec![0_u64; slots.div_ceil(64)];
    let mut is_once = true;
    for chunk in chunks {
        let mut see = |place: usize, key: u64| {
            if chunk.valid.as_ref().is_none_or(|valid| valid.is_valid(place)) {
                let slot = (counting.place(key) - bounds.0) as usize;
                is_once &= seen[slot / 64] >> (slot % 64) & 1 == 0;
                seen[slot / 64] |= 1 << (slot % 64);
            }
        };
        match &chunk.keys.keys {
            Keys::Word32(words) => words.iter().enumerate().for_each(|(place, key)| see(place, u64::from(*key))),
            Keys::Word64(words) => words.iter().enumerate().for_each(|(place, key)| see(place, *key)),
            _ => is_once = false,
        }
        if !is_once {
            break;
        }
    }
    drop(seen);
    let rest = charge.bytes() - bytes;
    charge.settle(rest);
    Ok(is_once.then_some((counting, bounds)))
}

/// Tasks for so many parts.
fn workers(parts: usize, threads: usize) -> usize {
    // Few rows are not worth a task.
    if parts < 4 { 1 } else { threads.clamp(1, parts) }
}

/// Does some work for all parts, in ranges of them at the same time.
async fn in_ranges<T: Send + 'static, F: FnOnce() -> Vec<T> + Send + 'static>(
    parts: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> F,
) -> Result<Vec<T>> {
    let workers = workers(parts, threads);
    if workers == 1 {
        return Ok(work(0..parts)());
    }
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        let range = worker * parts / workers..(worker + 1) * parts / workers;
        let work = work(range);
        tasks.spawn(async move { (worker, work()) });
    }
    let mut found: Vec<(usize, Vec<T>)> = Vec::with_capacity(workers);
    while let Some(ended) = tasks.join_next().await {
        found.push(ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?);
    }
    found.sort_unstable_by_key(|(worker, _)| *worker);
    Ok(found.into_iter().flat_map(|(_, made)| made).collect())
}

/// Keys with their rows.
fn pairs<W: KeyWord>(keys: &[W], rows: &[u32]) -> impl Iterator<Item = (W, u32)> + Clone {
    keys.iter().copied().zip(rows.iter().copied())
}

/// The tables of all parts.
async fn tables<W: KeyWord, T: Send + 'static>(
    scattered: Vec<(Vec<W>, Vec<u32>)>,
    threads: usize,
    make: impl Fn(Vec<W>, Vec<u32>) -> T + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let parts = scattered.len();
    let left: Vec<_> = scattered.into_iter().map(|part| parking_lot::Mutex::new(Some(part))).collect();
    let left = Arc::new(left);
    in_ranges(parts, threads, |range| {
        let (left, make) = (Arc::clone(&left), make.clone());
        move || range.filter_map(|part| left[part].lock().take()).map(|(keys, rows)| make(keys, rows)).collect()
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::hash_table::hash::Word;

    #[test]
    fn parts_are_made_by_all_workers_at_the_same_time() {
        let (threads, secret) = (4, Secret::random());
        // More than there are tasks: none waits behind another one.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2 * threads).build().unwrap();
        for parts in [4_u32, 12] {
            // Nobody leaves it until all workers are in it: if one began after another had ended, this would not end.
            let barrier = Arc::new(Barrier::new(threads));
            let make = move |keys: Vec<u32>, rows: Vec<u32>| {
                barrier.wait();
                Unchained::new(keys, rows, 0, |key: u32| key.hash(secret), |left, right| left.0.cmp(&right.0))
            };
            let scattered: Vec<(Vec<u32>, Vec<u32>)> = (0..parts).map(|part| (vec![7], vec![part])).collect();
            let made = runtime.block_on(tables(scattered, threads, make)).unwrap();
            // In the order of the parts, whoever made them.
            assert!(made.iter().map(|table| table.row(0)).eq(0..parts));
        }
    }
}

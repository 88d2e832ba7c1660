//! Looks up rows of the probe side in a table, and returns what the type of the join demands.
//!
//! There is one for each stream of the probe side; all of them read one table. Called by `run`, batch by batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use datafusion_common::Result;

use super::build::Built;
use super::index::{Cursor, Found, Ones, Reached, pairs};
use super::output::{Output, Picked, Probed, Sides};
use super::spec::{Alone, Source, Spec};
use super::texts::{BYTES_MAX, Lengths, longest};
use crate::hash_table::keys::{Keys, Packed};
use crate::hash_table::unchained::Run;
use crate::memory::Charge;

/// The part of rows whose key is NULL, where that is a key.
const NULLS: u32 = u32::MAX;

/// A batch that is being looked up.
struct Looked {
    batch: RecordBatch,
    keys: Vec<ArrayRef>,
    /// Of what was found, how many have a key; those behind have none that is not NULL.
    with_keys: usize,
    reached: Reached,
    /// Pairs of the keys that are there once which have been given out.
    ones_done: usize,
    /// Bytes of the longest values of the columns that are asked for, where their values are of any length.
    longest: usize,
    /// Which rows have a match, where that is of interest.
    matched: Vec<bool>,
}

/// See the module.
pub(crate) struct Probe {
    spec: Arc<Spec>,
    built: Arc<Built>,
    batch_rows: usize,
    current: Option<Looked>,
    /// Kept to be used again, and charged.
    found: Vec<Found>,
    ones: Ones,
    rows: Vec<u32>,
    probed: Vec<u32>,
    charge: Charge,
    pub(crate) output: Output,
    /// Whether rows that come without another one are to be asked for when other blocks have been looked up.
    pub(crate) is_deferred: bool,
    /// What the rows of the last batch have found then.
    deferred: Vec<bool>,
}

impl Probe {
    pub(crate) fn new(spec: &Arc<Spec>, built: &Arc<Built>, batch_rows: usize, charge: Charge) -> Self {
        let output = Output::new(&spec.schema, batch_rows, charge.another());
        Self {
            spec: Arc::clone(spec),
            built: Arc::clone(built),
            batch_rows,
            current: None,
            found: Vec::new(),
            ones: Ones::default(),
            rows: Vec::new(),
            probed: Vec::new(),
            charge,
            output,
            is_deferred: false,
            deferred: Vec::new(),
        }
    }

    /// Whether rows of the probe side come to nothing, whatever they are.
    pub(crate) fn is_idle(&self) -> bool {
        let Built { rows, findable, .. } = *self.built;
        let has_matches = findable > 0 || (self.spec.null_is_equal && !self.built.nulls.is_empty());
        self.spec.is_empty_without_left() && (rows == 0 || (!has_matches && !self.spec.wants_unmatched_left()))
    }

    /// Looks up a batch; the one before is done.
    ///
    /// # Errors
    /// Where a batch has more bytes of keys than 32 bits count.
    pub(crate) fn begin(&mut self, batch: RecordBatch, keys: Vec<ArrayRef>) -> Result<()> {
        let Self { spec, built, found, ones, charge, batch_rows, .. } = self;
        found.clear();
        ones.rows.clear();
        ones.probed.clear();
        let findable = spec.findable(&keys);
        if spec.null_aware && batch.num_rows() > 0 {
            spec.see(&built.seen, &findable);
            if built.seen.null.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        let rows = batch.num_rows();
        let matched = if spec.right_alone() == Alone::Nothing { 0 } else { rows };
        let bytes_of = |keys: usize, ones: &Ones, found: usize, rows: usize| {
            let of_pairs = ones.rows.capacity().max(rows) + ones.probed.capacity().max(rows) + 2 * *batch_rows;
            keys + matched + of_pairs * size_of::<u32>() + found * size_of::<Found>()
        };
        // Charged before it is taken, whether the pool has it or not: the rows have come.
        let of_keys = spec.packing.bytes_for(&keys);
        charge.settle(bytes_of(of_keys, ones, found.capacity(), rows));
        let packed: Packed = spec.packing.pack(&keys)?;
        let nulls = findable.as_ref().or(packed.nulls.as_ref());
        if !built.index.find_ones(&packed, nulls, ones) {
            charge.settle(bytes_of(of_keys, ones, found.capacity().max(rows), rows));
            found.reserve(rows);
            built.index.find(&packed, nulls, found);
        }
        let with_keys = found.len();
        if let (true, Some(nulls), false) = (spec.null_is_equal, nulls, built.nulls.is_empty()) {
            let run = Run { start: 0, end: built.nulls.len() as u32 };
            let rows = nulls.iter().enumerate().filter(|(_, is_valid)| !is_valid);
            found.extend(rows.map(|(row, _)| Found { row: row as u32, part: NULLS, run }));
        }
        if matched > 0 || spec.filter.is_some() {
            ones.name();
        }
        charge.settle(bytes_of(packed.held(), ones, found.capacity(), 0));
        // Of keys that are there once, a row comes once.
        let of_column = |array: &ArrayRef| longest(array.as_ref());
        let of_all = || asked_for(&self.spec, &batch, &keys).map(of_column).sum::<usize>();
        let longest = if self.found.is_empty() { 0 } else { of_all() };
        let (reached, ones_done, matched) = (Reached::default(), 0, vec![false; matched]);
        self.current = Some(Looked { batch, keys, with_keys, reached, ones_done, longest, matched });
        Ok(())
    }

    /// Goes on with the batch; whether it is done. What comes of it is in the output.
    ///
    /// # Errors
    /// What the condition finds; where rows do not fit one array.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let Some(mut looked) = self.current.take() else { return Ok(true) };
        if self.spec.filter.is_none() && !self.spec.gives_pairs() {
            self.note_keys(&mut looked);
        } else if looked.ones_done < self.ones.rows.len() {
            self.ones(&mut looked)?;
            self.current = Some(looked);
            return Ok(false);
        } else if looked.reached.keys < self.found.len() {
            self.pairs(&mut looked)?;
            self.current = Some(looked);
            return Ok(false);
        }
        if self.is_deferred {
            self.deferred = looked.matched;
        } else {
            self.alone_of(&looked.batch, &looked.keys, &looked.matched)?;
        }
        Ok(true)
    }

    /// Which rows of the last batch have a match.
    pub(crate) fn deferred(&self) -> &[bool] {
        &self.deferred
    }

    /// Notes who has a match, where any match will do.
    fn note_keys(&mut self, looked: &mut Looked) {
        let Self { spec, built, found, ones, rows, .. } = self;
        if !looked.matched.is_empty() {
            ones.probed.iter().for_each(|row| looked.matched[*row as usize] = true);
            found.iter().for_each(|found| looked.matched[found.row as usize] = true);
        }
        if spec.left_alone() == Alone::Nothing {
            return;
        }
        ones.rows.iter().for_each(|row| {
            built.note(*row);
        });
        for found in found {
            // All rows of a key are noted together, by whom the first was new to.
            let mut from = found.run.start;
            let mut is_first = true;
            while from < found.run.end {
                rows.clear();
                let count = if is_first { 1 } else { self.batch_rows };
                from = rows_of(built, found, from, count, rows);
                let mut is_new = false;
                for row in rows.iter() {
                    is_new |= built.note(*row);
                }
                if is_first && !is_new {
                    break;
                }
                is_first = false;
            }
        }
    }

    /// Some pairs of rows whose keys are there once.
    fn ones(&mut self, looked: &mut Looked) -> Result<()> {
        let Self { built, ones, rows, probed, batch_rows, .. } = self;
        rows.clear();
        probed.clear();
        let start = looked.ones_done;
        let mut end = ones.rows.len().min(start + *batch_rows);
        while end - start > 1 && built.is_long(&ones.rows[start..end]) {
            end = start + (end - start).div_ceil(2);
        }
        looked.ones_done = end;
        rows.extend_from_slice(&ones.rows[start..end]);
        probed.extend_from_slice(ones.probed.get(start..end).unwrap_or_default());
        // Unless a condition leaves some out.
        let is_row_by_row = ones.is_whole && self.spec.filter.is_none();
        self.put(looked, is_row_by_row.then_some(start))
    }

    /// Some pairs of rows with equal keys.
    fn pairs(&mut self, looked: &mut Looked) -> Result<()> {
        let (before, mut count) = (looked.reached, self.batch_rows);
        loop {
            let Self { built, found, rows, probed, .. } = self;
            rows.clear();
            probed.clear();
            let Looked { with_keys, reached, .. } = looked;
            *reached = before;
            if reached.keys < *with_keys {
                built.index.pairs(&found[..*with_keys], reached, count, rows, probed);
            }
            if reached.keys >= *with_keys {
                let nulls = &built.nulls;
                pairs(found, reached, count, rows, probed, |_, run| &nulls[run.start as usize..run.end as usize]);
            }
            if rows.len() < 2 || !self.is_long(looked) {
                break;
            }
            count = self.rows.len().div_ceil(2);
        }
        self.put(looked, None)
    }

    /// Whether the pairs that have been put together are more than a batch that comes out is to have.
    fn is_long(&self, looked: &Looked) -> bool {
        let Self { spec, built, rows, probed, .. } = self;
        if !built.may_be_long(rows.len(), looked.longest) {
            return false;
        }
        let of_column = |array: &ArrayRef| {
            let lengths = Lengths::of(array.as_ref());
            lengths.map_or(0, |lengths| probed.iter().map(|row| lengths.of_row(*row as usize)).sum::<usize>())
        };
        let of_probe: usize = asked_for(spec, &looked.batch, &looked.keys).map(of_column).sum();
        let of_built: usize = (0..built.kept.len()).map(|column| built.bytes_of(column, rows)).sum();
        of_probe + of_built > BYTES_MAX
    }

    /// What comes of the pairs that have been put together. Those of all rows of the probe side from `row_by_row` on need not be named, where
    /// nobody asks for them.
    fn put(&mut self, looked: &mut Looked, row_by_row: Option<usize>) -> Result<()> {
        let Self { spec, built, rows, probed, .. } = self;
        if let Some(filter) = &spec.filter {
            let right = UInt32Array::from(probed.clone());
            let of_probe = Probed { batch: &looked.batch, keys: &looked.keys };
            let sides = Sides {
                count: rows.len(),
                left: Some(rows),
                left_keys: None,
                right: Some((of_probe, Picked::of(&right, looked.batch.num_rows()))),
                marks: None,
            };
            let batch = sides.batch(built, &filter.schema, &filter.columns)?;
            let met = filter.expr.evaluate(&batch)?.into_array(batch.num_rows())?;
            let met = met.as_boolean();
            let mut kept = 0;
            for at in 0..rows.len() {
                if met.is_valid(at) && met.value(at) {
                    (rows[kept], probed[kept]) = (rows[at], probed[at]);
                    kept += 1;
                }
            }
            rows.truncate(kept);
            probed.truncate(kept);
        }
        if spec.left_alone() != Alone::Nothing {
            rows.iter().for_each(|row| {
                built.note(*row);
            });
        }
        if !looked.matched.is_empty() {
            probed.iter().for_each(|row| looked.matched[*row as usize] = true);
        }
        if spec.gives_pairs() && !rows.is_empty() {
            let right = UInt32Array::from(probed.clone());
            let picked = match row_by_row {
                Some(start) => Picked::From(start),
                None => Picked::of(&right, looked.batch.num_rows()),
            };
            let of_probe = Probed { batch: &looked.batch, keys: &looked.keys };
            let sides = Sides {
                count: rows.len(),
                left: Some(rows),
                left_keys: None,
                right: Some((of_probe, picked)),
                marks: None,
            };
            self.output.push(&sides.batch(built, &spec.schema, &spec.columns)?)?;
        }
        Ok(())
    }

    /// Rows of a batch that come without another one.
    ///
    /// # Errors
    /// Where rows do not fit one array.
    pub(crate) fn alone_of(&mut self, batch: &RecordBatch, keys: &[ArrayRef], matched: &[bool]) -> Result<()> {
        let rows = 0..batch.num_rows() as u32;
        let is_matched = |row: &u32| matched[*row as usize];
        let (rows, marks): (Vec<u32>, _) = match self.spec.right_alone() {
            Alone::Nothing => return Ok(()),
            Alone::Matched => (rows.filter(is_matched).collect(), None),
            Alone::Unmatched => (rows.filter(|row| !is_matched(row)).collect(), None),
            Alone::Marked => (rows.collect(), Some(BooleanArray::from(matched.to_vec()))),
        };
        if rows.is_empty() {
            return Ok(());
        }
        let (count, right) = (rows.len(), UInt32Array::from(rows));
        let of_probe = Probed { batch, keys };
        let right = Some((of_probe, Picked::of(&right, batch.num_rows())));
        let sides = Sides { count, left: None, left_keys: None, right, marks };
        self.output.push(&sides.batch(&self.built, &self.spec.schema, &self.spec.columns)?)
    }
}

/// The columns of the probe side that come out, or that the condition is about.
fn asked_for<'a>(spec: &'a Spec, batch: &'a RecordBatch, keys: &'a [ArrayRef]) -> impl Iterator<Item = &'a ArrayRef> {
    let of_filter = spec.filter.iter().flat_map(|filter| &filter.columns);
    spec.columns.iter().chain(of_filter).filter_map(move |source| match source {
        Source::Probe(column) => Some(batch.column(*column)),
        Source::Key(key) => Some(&keys[*key]),
        Source::Kept(_) | Source::Mark => None,
    })
}

/// The rows of a key.
fn rows_of(built: &Built, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
    if found.part != NULLS {
        return built.index.rows(found, from, count, rows);
    }
    let more = (count - rows.len()).min((found.run.end - from) as usize);
    rows.extend(&built.nulls[from as usize..from as usize + more]);
    from + more as u32
}

/// Rows of the build side that come without another one, when all of the probe side have been looked up.
pub(crate) struct Rest {
    spec: Arc<Spec>,
    built: Arc<Built>,
    batch_rows: usize,
    cursor: Cursor,
    /// Of the rows without a key.
    next_null: usize,
}

impl Rest {
    pub(crate) fn new(spec: &Arc<Spec>, built: &Arc<Built>, batch_rows: usize) -> Self {
        let (spec, built) = (Arc::clone(spec), Arc::clone(built));
        Self { spec, built, batch_rows, cursor: Cursor::default(), next_null: 0 }
    }

    /// The next of them.
    ///
    /// # Errors
    /// Where rows do not fit one array.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (spec, built) = (Arc::clone(&self.spec), Arc::clone(&self.built));
        let alone = spec.left_alone();
        if alone == Alone::Nothing || (spec.null_aware && built.seen.null.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let wanted = |row: u32| match alone {
            Alone::Nothing => false,
            Alone::Matched => built.is_noted(row),
            Alone::Unmatched => !built.is_noted(row),
            Alone::Marked => true,
        };
        let (mut rows, keys) = self.with_keys(&wanted);
        let has_keys = !rows.is_empty();
        if !has_keys {
            // NULL is not unequal to what there is, unless there is nothing.
            if spec.null_aware && built.seen.any.load(Ordering::Relaxed) {
                return Ok(None);
            }
            rows = self.without_keys(&wanted);
            if rows.is_empty() {
                return Ok(None);
            }
        }
        let wants_keys = has_keys && spec.columns.iter().any(|source| matches!(source, Source::Key(_)));
        let keys = match wants_keys {
            true => Some(spec.packing.columns(Packed { keys, nulls: None })?),
            false => None,
        };
        let marks = (alone == Alone::Marked).then(|| {
            let marks = BooleanBuffer::from_iter(rows.iter().map(|row| built.is_noted(*row)));
            BooleanArray::new(marks, None)
        });
        let sides = Sides { count: rows.len(), left: Some(&rows), left_keys: keys.as_deref(), right: None, marks };
        Ok(Some(sides.batch(&built, &spec.schema, &spec.columns)?))
    }

    /// The next rows that have keys, with these: as many as a batch is to have.
    fn with_keys(&mut self, wanted: &dyn Fn(u32) -> bool) -> (Vec<u32>, Keys) {
        let Self { spec, built, batch_rows, cursor, .. } = self;
        let (before, mut count) = (*cursor, *batch_rows);
        loop {
            let (mut rows, mut keys) = (Vec::new(), spec.packing.none());
            *cursor = before;
            built.index.walk(cursor, count, wanted, &mut rows, &mut keys);
            if rows.len() < 2 || !built.is_long(&rows) {
                return (rows, keys);
            }
            count = rows.len().div_ceil(2);
        }
    }

    /// The next rows without keys, the same.
    fn without_keys(&mut self, wanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let Self { built, batch_rows, next_null, .. } = self;
        let (before, mut count) = (*next_null, *batch_rows);
        loop {
            let mut rows = Vec::new();
            *next_null = before;
            while rows.len() < count
                && let Some(row) = built.nulls.get(*next_null)
            {
                *next_null += 1;
                if wanted(*row) {
                    rows.push(*row);
                }
            }
            if rows.len() < 2 || !built.is_long(&rows) {
                return rows;
            }
            count = rows.len().div_ceil(2);
        }
    }
}

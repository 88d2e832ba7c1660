//! The work of an aggregation: each input stream adds its rows to groups; when all have ended, the outputs return the groups.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{take, take_record_batch};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{SendableRecordBatchStream, SpillFile};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::partition::{Files, Partition, Portion};
use super::partitions::{
    Order, PARTITIONS, Partitions, all_rows, bytes_with, scratch_bytes, scratch_bytes_for, take_pending, whole, wish_of,
};
use super::pending::Source;
use super::spec::{Rows, Spec};
use super::turns::{Turn, Turns};
use super::waiting::Waiting;
use crate::growing::{Growing, is_little};
use crate::hash_table::hash::Secret;
use crate::memory::{Charge, Wish, is_full};

/// Groups of a front: so many with their states are in a cache of the processor.
const FRONT_GROUPS: usize = if cfg!(test) { 1 << 10 } else { 16 << 10 };
/// Groups from which on caches hold few of them, so that rows wait for each table: to put them aside costs more than it brings before.
const FAR_GROUPS: usize = if cfg!(test) { 1 << 10 } else { 512 << 10 };
/// Bytes that keys and values may have in a front beside what there is for each group: where rows are kept, or texts are long, those of few groups
/// may be very many. What leaves is there twice for a moment, and must fit one array. Values that are counted once do not count here: streams
/// would wait for each other to look each of them up in one table.
const FRONT_BYTES: usize = if cfg!(test) { 1 << 20 } else { 8 << 20 };

/// A hash that divides nothing so often is none.
const LEVELS_MAX: usize = 10;

/// One execution, shared by its streams.
pub(crate) struct Run {
    pub(crate) spec: Arc<Spec>,
    pub(crate) files: Files,
    secret: Secret,
    /// The groups of streams that ended with few.
    small: Mutex<Option<Partition>>,
    /// The groups of the others.
    large: OnceLock<Partitions>,
    /// Whether memory has run out: what streams have for themselves is put together then.
    is_short: AtomicBool,
    /// Rows that the input has, as far as it knows.
    expected: Option<usize>,
    /// Rows that tables have taken, or that wait for them.
    came: AtomicU64,
}

/// Groups that are ready, or a file of which they are made.
pub(crate) enum Work {
    Table(Box<Partition>),
    File { file: Arc<dyn SpillFile>, secret: Secret, level: usize },
}

impl Run {
    pub(crate) fn new(spec: Arc<Spec>, files: Files, secret: Secret, expected: Option<usize>) -> Self {
        Self {
            spec,
            files,
            secret,
            small: Mutex::new(None),
            large: OnceLock::new(),
            is_short: AtomicBool::new(false),
            expected,
            came: AtomicU64::new(0),
        }
    }

    /// Tables have taken so many more rows of the input.
    fn has_taken(&self, rows: usize) {
        self.came.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// How many rows are to come for each that tables have.
    fn to_come(&self) -> Option<f64> {
        let came = self.came.load(Ordering::Relaxed).max(1);
        let expected = self.expected.map(|expected| expected.saturating_mul(self.spec.sets()));
        expected.map(|expected| (expected as u64).saturating_sub(came) as f64 / came as f64)
    }

    /// Takes the rows of a stream.
    ///
    /// # Errors
    /// What the stream, expressions and aggregates find; where neither memory nor the disk has room.
    pub(crate) async fn consume(&self, mut input: SendableRecordBatchStream, number: usize) -> Result<()> {
        let mut stream = Stream {
            run: self,
            front: Some(Partition::new(&self.spec, self.secret, &self.files.memory)?),
            first: number * PARTITIONS / 3,
            hashes: Vec::new(),
            rows: Vec::new(),
            ids: Vec::new(),
            charge: self.files.memory.charge(),
            orders: Default::default(),
            has_taken_pending: false,
            waiting: Waiting::new(self.files.memory.charge()),
        };
        while let Some(batch) = input.next().await.transpose()? {
            if batch.num_rows() > 0 {
                for rows in self.spec.rows(&batch)? {
                    stream.add(rows?)?;
                }
            }
        }
        stream.finish()
    }

    /// The tables of many groups.
    fn large(&self) -> Result<&Partitions> {
        if let Some(large) = self.large.get() {
            return Ok(large);
        }
        let made = Partitions::new(&self.spec, self.secret, &self.files, 0)?;
        Ok(self.large.get_or_init(|| made))
    }

    /// What there is to be given out, when all rows have come.
    ///
    /// # Errors
    /// Where neither memory nor the disk has room.
    pub(crate) fn work(mut self) -> Result<Left> {
        if *self.came.get_mut() == 0 {
            for rows in self.spec.rows_of_nothing()? {
                self.large()?.add(&self.spec, &self.files, &rows, Some(0.0), 0, &mut Order::default())?;
            }
        }
        // Of no groups some accumulators have nothing to say.
        let small = self.small.get_mut().take().filter(|small| small.len() > 0);
        let Some(large) = self.large.take() else {
            return Ok(self.left(small.map(|small| Work::Table(Box::new(small))).into_iter().collect()));
        };
        if let Some(mut small) = small {
            let rows = small.take_rows()?;
            large.add(&self.spec, &self.files, &rows, Some(0.0), 0, &mut Order::default())?;
        }
        let work = settled(large, &self.spec, &self.files, 0)?;
        Ok(self.left(work))
    }

    fn left(self, work: Vec<Work>) -> Left {
        Left { spec: self.spec, secret: self.secret, files: self.files, turns: Arc::new(Turns::new(work)) }
    }
}

/// Tables to which nothing will be added. Whoever takes them one by one, from the end, has those that are in memory first: there is room when
/// files are read.
fn settled(tables: Partitions, spec: &Spec, files: &Files, level: usize) -> Result<Vec<Work>> {
    let secret = tables.secret;
    let (mut work, mut in_memory, mut own) = (Vec::new(), Vec::new(), Order::default());
    for mut table in tables.into_tables() {
        if !table.file.is_empty() {
            take_pending(&mut table, spec, secret, files, &mut own)?;
        }
        if let Some(left) = left_of(&mut table, spec, secret, files, level)? {
            work.push(left);
        } else if table.len() > 0 || table.pending.rows() > 0 {
            in_memory.push(Work::Table(Box::new(table)));
        }
    }
    work.extend(in_memory);
    Ok(work)
}

/// The file of a table of which some groups have left memory, with all others; `None` where all are there.
fn left_of(table: &mut Partition, spec: &Spec, secret: Secret, files: &Files, level: usize) -> Result<Option<Work>> {
    // What is still in memory belongs to the same groups.
    if !table.file.is_empty() && table.len() > 0 {
        table.spill(spec, secret, files)?;
    }
    let file = std::mem::take(&mut table.file).finish()?;
    Ok(file.map(|file| {
        files.levels.set_max(level + 1);
        Work::File { file, secret: secret.next(), level: level + 1 }
    }))
}

/// The work of a stream.
struct Stream<'a> {
    run: &'a Run,
    /// Until it has too many groups.
    front: Option<Partition>,
    /// The partition that it begins with.
    first: usize,
    /// Of the rows that come to the front.
    hashes: Vec<u64>,
    rows: Vec<u32>,
    ids: Vec<usize>,
    charge: Charge,
    /// Of a batch, and of rows that have waited for one table.
    orders: (Order, Order),
    has_taken_pending: bool,
    /// Rows that go to the large tables soon, of those that do not wait for each of them.
    waiting: Waiting,
}

impl Stream<'_> {
    fn add(&mut self, batch: Rows) -> Result<()> {
        if self.front.is_some() && self.run.is_short.load(Ordering::Relaxed) {
            self.leave_front()?;
        }
        let Some(front) = &mut self.front else {
            let large = self.run.large.get();
            let groups = large.map_or(0, Partitions::made);
            if groups >= FAR_GROUPS
                && !self.has_taken_pending
                && let Some(source) = Source::of(&batch)
            {
                match large.is_some_and(Partitions::is_short) {
                    false => return self.postpone(&source),
                    true => self.take_pending()?,
                }
            }
            return if self.waiting.push(batch, groups) { self.add_waiting() } else { Ok(()) };
        };
        let count = batch.packed.len();
        self.charge.settle(scratch_bytes_for(count, count, &self.hashes, &self.rows, &self.ids));
        batch.packed.hashes(self.run.secret, &mut self.hashes);
        all_rows(&mut self.rows, count);
        let rows = whole(&batch, &self.hashes, &self.rows, self.run.to_come());
        let added = front.add(&rows, Wish::IfFree, &mut self.ids);
        self.charge.settle(scratch_bytes(&self.hashes, &self.rows, &self.ids));
        match added {
            Err(error) if is_full(&error) => {
                self.run.is_short.store(true, Ordering::Relaxed);
                self.leave_front()?;
                self.add_to_large(&batch)?;
            }
            Ok(()) if front.len() > FRONT_GROUPS || front.bytes_of_values() > FRONT_BYTES => self.leave_front()?,
            other => other?,
        }
        self.run.has_taken(batch.packed.len());
        Ok(())
    }

    /// Has tables take what waits for each: memory has run out, and nothing waits so any more.
    fn take_pending(&mut self) -> Result<()> {
        let (Run { spec, files, .. }, mut own) = (self.run, std::mem::take(&mut self.orders.1));
        self.run.large()?.take_all_pending(spec, files, self.run.to_come(), self.first, &mut own)?;
        self.has_taken_pending = true;
        Ok(())
    }

    /// Has rows wait for each of the large tables.
    fn postpone(&mut self, source: &Source<'_>) -> Result<()> {
        self.add_waiting()?;
        let (Run { spec, files, .. }, (order, own)) = (self.run, &mut self.orders);
        self.run.large()?.postpone(spec, files, source, self.run.to_come(), self.first, (order, own))?;
        self.run.has_taken(source.batch.packed.len());
        Ok(())
    }

    fn add_to_large(&mut self, batch: &Rows) -> Result<()> {
        let Run { spec, files, .. } = self.run;
        self.run.large()?.add(spec, files, batch, self.run.to_come(), self.first, &mut self.orders.0)
    }

    fn add_waiting(&mut self) -> Result<()> {
        for rows in self.waiting.take()? {
            self.add_to_large(&rows)?;
            self.run.has_taken(rows.packed.len());
        }
        self.waiting.settle();
        Ok(())
    }

    fn leave_front(&mut self) -> Result<()> {
        let Some(mut front) = self.front.take().filter(|front| front.len() > 0) else { return Ok(()) };
        (self.hashes, self.rows, self.ids) = (Vec::new(), Vec::new(), Vec::new());
        self.charge.settle(0);
        let rows = front.take_rows()?;
        // Of more rows than a batch has: what they need is not kept.
        let mut order = Order::default();
        let Run { spec, files, .. } = self.run;
        self.run.large()?.add(spec, files, &rows, self.run.to_come(), self.first, &mut order)
    }

    fn finish(mut self) -> Result<()> {
        self.add_waiting()?;
        let Some(mut front) = self.front.take().filter(|front| front.len() > 0) else { return Ok(()) };
        let mut small = self.run.small.lock();
        let Some(together) = small.as_mut() else {
            *small = Some(front);
            return Ok(());
        };
        let rows = front.take_rows()?;
        rows.packed.hashes(self.run.secret, &mut self.hashes);
        all_rows(&mut self.rows, rows.packed.len());
        let taken = whole(&rows, &self.hashes, &self.rows, Some(0.0));
        match together.add(&taken, Wish::IfFree, &mut self.ids) {
            Err(error) if is_full(&error) => {
                drop(small);
                self.add_to_large(&rows)
            }
            other => other,
        }
    }
}

/// What is left to be given out, shared by the outputs.
pub(crate) struct Left {
    pub(crate) spec: Arc<Spec>,
    /// Of the tables.
    pub(crate) secret: Secret,
    pub(crate) files: Files,
    pub(crate) turns: Arc<Turns>,
}

/// What was made of a file.
enum Made {
    /// Tables of its groups, by their hashes.
    Divided(Partitions),
    /// A table of some of its groups, and those that had no room in it.
    Block(Box<Partition>, Growing),
}

impl Left {
    /// Batches of results, until there is no work left.
    pub(crate) fn batches(self: Arc<Self>) -> impl futures::Stream<Item = Result<RecordBatch>> {
        let turn = Turn::of(&self.turns);
        futures::stream::try_unfold((self, turn), |(left, mut turn)| async move {
            loop {
                let Some(taken) = turn.take() else { return Ok::<_, DataFusionError>(None) };
                match taken.work {
                    Work::Table(mut table) => {
                        // Rows of the input alone wait.
                        if table.pending.rows() > 0 {
                            let Left { spec, secret, files, .. } = left.as_ref();
                            take_pending(&mut table, spec, *secret, files, &mut Order::default())?;
                            if let Some(file) = left_of(&mut table, spec, *secret, files, 0)? {
                                drop(table);
                                left.turns.add(vec![file]);
                                continue;
                            }
                        }
                        let batch = table.take_batch(&left.spec, &left.spec.schema, false)?;
                        let rows = left.files.batch_rows;
                        let slices: Vec<Result<RecordBatch>> = (0..batch.num_rows())
                            .step_by(rows)
                            .map(|start| Ok(batch.slice(start, rows.min(batch.num_rows() - start))))
                            .collect();
                        // Charged until the last has gone.
                        let slices = futures::stream::iter(slices).inspect_ok(move |_| {
                            let _charged = &table;
                        });
                        return Ok(Some((slices, (left, turn))));
                    }
                    Work::File { ref file, secret, level } => {
                        let read = left.read(file, secret, level).await;
                        match read {
                            Ok(made) => {
                                // The file goes before the last of what was made of it is written.
                                drop(taken);
                                left.turns.add(left.work_of(made, secret, level)?);
                            }
                            Err(error) if is_full(&error) => {
                                if turn.give_back(taken, error)? {
                                    return Ok(None);
                                }
                            }
                            Err(error) => return Err(error),
                        }
                    }
                }
            }
        })
        .try_flatten()
    }

    /// Makes tables of a file, which stays as it is.
    async fn read(&self, file: &Arc<dyn SpillFile>, secret: Secret, level: usize) -> Result<Made> {
        if is_little(file) {
            return Ok(Made::Block(Box::new(self.read_little(file, secret).await?), Growing::default()));
        }
        if level > LEVELS_MAX {
            return self.read_block(file, secret).await;
        }
        let tables = Partitions::new(&self.spec, secret, &self.files, level)?;
        let mut order = Order::default();
        let mut batches = self.files.manager.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
        while let Some(batch) = batches.next().await.transpose()? {
            let rows = self.spec.partial_rows(&batch)?;
            tables.add(&self.spec, &self.files, &rows, None, 0, &mut order)?;
        }
        Ok(Made::Divided(tables))
    }

    /// The work with what was made of a file that was divided so often.
    fn work_of(&self, made: Made, secret: Secret, level: usize) -> Result<Vec<Work>> {
        match made {
            Made::Divided(tables) => settled(tables, &self.spec, &self.files, level),
            Made::Block(table, others) => {
                let left = others.finish()?.map(|file| Work::File { file, secret, level });
                Ok(left.into_iter().chain([Work::Table(table)]).collect())
            }
        }
    }

    /// Makes a table of some groups of a file that no hash divides: of as many as there is room for, and of those of one batch at least.
    /// Rows of the others are left in another file, which has its turn when the table has gone.
    async fn read_block(&self, file: &Arc<dyn SpillFile>, secret: Secret) -> Result<Made> {
        let Files { manager, memory, blocks, .. } = &self.files;
        blocks.add(1);
        let mut table = Partition::new(&self.spec, secret, memory)?;
        let (mut hashes, mut rows, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut charge = memory.charge();
        let (mut others, mut has_room) = (Growing::default(), true);
        let mut batches = manager.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
        while let Some(batch) = batches.next().await.transpose()? {
            let partial = self.spec.partial_rows(&batch)?;
            let count = partial.packed.len();
            charge.settle(scratch_bytes_for(count, count, &hashes, &rows, &ids));
            partial.packed.hashes(secret, &mut hashes);
            all_rows(&mut rows, count);
            if has_room {
                // Who has nothing takes something, so that what he does comes to an end.
                let wish = if table.len() == 0 { Wish::Anyway } else { Wish::IfFree };
                match table.add(&whole(&partial, &hashes, &rows, None), wish, &mut ids) {
                    Err(error) if is_full(&error) && wish == Wish::IfFree => has_room = false,
                    other => other?,
                }
            }
            if !has_room {
                let is_known = |row: &u32| table.has(&partial.packed, hashes[*row as usize], *row as usize);
                let (known, unknown): (Vec<u32>, Vec<u32>) = rows.iter().copied().partition(is_known);
                add_known(&mut table, &partial, &hashes, known, &mut ids)?;
                if !unknown.is_empty() {
                    let left = take_record_batch(&batch, &UInt32Array::from(unknown))?;
                    others.append(manager, "groups", &left)?;
                    others.charge(memory);
                }
            }
            charge.settle(scratch_bytes(&hashes, &rows, &ids));
        }
        Ok(Made::Block(Box::new(table), others))
    }

    /// Makes a table of a file that is not worth dividing.
    async fn read_little(&self, file: &Arc<dyn SpillFile>, secret: Secret) -> Result<Partition> {
        let mut table = Partition::new(&self.spec, secret, &self.files.memory)?;
        let (mut hashes, mut rows, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut charge = self.files.memory.charge();
        let mut batches = self.files.manager.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
        while let Some(batch) = batches.next().await.transpose()? {
            let batch = self.spec.partial_rows(&batch)?;
            let count = batch.packed.len();
            charge.settle(scratch_bytes_for(count, count, &hashes, &rows, &ids));
            batch.packed.hashes(secret, &mut hashes);
            all_rows(&mut rows, count);
            table.add(&whole(&batch, &hashes, &rows, None), Wish::Anyway, &mut ids)?;
            charge.settle(scratch_bytes(&hashes, &rows, &ids));
        }
        Ok(table)
    }
}

/// Adds some rows of groups that a table has: there are no more groups then.
///
/// # Errors
/// Where what the groups keep of each row grows beyond memory, and is more than a little.
fn add_known(
    table: &mut Partition,
    partial: &Rows,
    hashes: &[u64],
    known: Vec<u32>,
    ids: &mut Vec<usize>,
) -> Result<()> {
    if known.is_empty() {
        return Ok(());
    }
    let known = UInt32Array::from(known);
    let taken = |array: &ArrayRef| Ok(take(array, &known, None)?);
    let values = partial.values.iter().map(|arrays| arrays.iter().map(taken).collect::<Result<Vec<_>>>());
    let values = values.collect::<Result<Vec<_>>>()?;
    let (rows, filters) = (&known.values()[..], &partial.filters[..]);
    let portion = Portion { batch: partial, hashes, rows, values: &values, filters, to_come: None, came: 0 };
    let wish = wish_of(bytes_with(table.bytes(), &values)?);
    table.add_known(&portion, wish, ids)
}

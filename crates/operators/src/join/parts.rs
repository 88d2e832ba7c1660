//! A join part by part, when both sides are in files.
//!
//! ```text
//!   files of the build side   | 0 | 1 | 2 | ...      a part has the rows of both sides whose hash begins with its number
//!   files of the probe side   | 0 | 1 | 2 | ...
//!
//!   part -> fits in memory, or is little   -> a table, looked up by its rows of the probe side
//!        -> does not, and can be divided   -> parts, by another hash
//!        -> nor that: one key has it all   -> block after block of its rows in a table, looked up by all rows of the probe side
//! ```
//!
//! What a row of the probe side has found in any of the blocks is a bit each, until the last block is done.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::JoinSet;
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_plan::metrics::{Count, Gauge};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::build::{Built, Plan, Seen};
use super::chunk::{CHUNKS_MAX, Chunk, Pending, Rows};
use super::files::{Files, Side, Written};
use super::probe::{Probe, Rest};
use super::spec::{Alone, Spec};
use crate::growing::is_little;
use crate::hash_table::hash::Secret;
use crate::memory::{Charge, Memory, Wish, is_full};

/// A hash that divides nothing so often is none.
const LEVELS_MAX: usize = 6;
/// Where so much of what was divided is in one part still, dividing it again is in vain: hundredths of its rows.
const TOO_MUCH: u64 = 70;

/// What all parts of a join share.
pub(crate) struct Shared {
    pub(crate) spec: Arc<Spec>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) secret: Secret,
    pub(crate) threads: usize,
    pub(crate) left: Side,
    pub(crate) right: Side,
    pub(crate) batch_rows: usize,
    pub(crate) seen: Arc<Seen>,
    /// How often rows were divided among files, each time by another hash: those that were divided most often.
    pub(crate) levels: Gauge,
    /// Blocks of parts that neither have room in memory nor can be divided.
    pub(crate) blocks: Count,
}

/// Rows of both sides that may match each other.
pub(crate) struct Part {
    left: Written,
    right: Written,
    /// By which it can be divided.
    secret: Secret,
    level: usize,
    /// Whether it is most of what it was divided from.
    is_whole: bool,
}

/// The parts of what was divided by a hash.
pub(crate) fn parts(left: Vec<Written>, right: Vec<Written>, secret: Secret, level: usize) -> Vec<Part> {
    let all: u64 = left.iter().map(|written| written.rows).sum();
    let both = left.into_iter().zip(right).filter(|(left, right)| left.rows + right.rows > 0);
    let part = |(left, right): (Written, Written)| {
        let is_whole = left.rows * 100 > all * TOO_MUCH;
        Part { left, right, secret: secret.next(), level, is_whole }
    };
    both.map(part).collect()
}

/// Batches of all parts: some of them at the same time.
pub(crate) fn batches(shared: Arc<Shared>, parts: Vec<Part>) -> impl Stream<Item = Result<RecordBatch>> {
    let (sender, receiver) = mpsc::channel(1);
    let queue = Arc::new(Mutex::new(parts));
    let mut tasks = JoinSet::new();
    for _ in 0..shared.threads.max(1) {
        let (shared, queue, sender) = (Arc::clone(&shared), Arc::clone(&queue), sender.clone());
        tasks.spawn(async move {
            loop {
                let Some(part) = queue.lock().pop() else { return };
                match shared.join(part, &sender).await {
                    Ok(more) => queue.lock().extend(more),
                    Err(error) => {
                        // Who does not read any more does not want it either.
                        let _ = sender.send(Err(error)).await;
                        return;
                    }
                }
            }
        });
    }
    // The tasks end with the stream.
    futures::stream::unfold((receiver, tasks), |(mut receiver, mut tasks)| async move {
        if let Some(batch) = receiver.recv().await {
            return Some((batch, (receiver, tasks)));
        }
        // All senders have gone: with tasks that have done what there was, or with one that has panicked, whose part nobody has joined.
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                return Some((Err(DataFusionError::ExecutionJoin(Box::new(error))), (receiver, tasks)));
            }
        }
        None
    })
}

type Sender = mpsc::Sender<Result<RecordBatch>>;

/// Nobody wants more.
fn unwanted() -> DataFusionError {
    DataFusionError::Execution("the results of a join are not wanted any more".to_owned())
}

/// Rows of the build side that are loaded.
struct Block {
    chunks: Vec<Chunk>,
    is_last: bool,
}

/// The build side of a part, as it is read.
struct Loading {
    input: Option<SendableRecordBatchStream>,
    /// What was read and had no room any more.
    held: Option<Rows>,
    /// What becomes of rows behind the first where memory has no room.
    wish: Wish,
}

impl Shared {
    fn read(&self, side: &Side, written: &Written) -> Result<Option<SendableRecordBatchStream>> {
        let file = written.file.as_ref();
        file.map(|file| side.manager.read_spill_as_stream_unbuffered(Arc::clone(file), None)).transpose()
    }

    /// Joins a part, or divides it.
    async fn join(&self, part: Part, sender: &Sender) -> Result<Vec<Part>> {
        if part.left.rows == 0 && self.spec.is_empty_without_left() {
            return Ok(Vec::new());
        }
        // Nothing at all is little too: without rows to look up in there is nothing to divide.
        let is_little = part.left.file.as_ref().is_none_or(is_little);
        let can_divide = part.level < LEVELS_MAX && !part.is_whole && !is_little;
        let wish = if is_little { Wish::Anyway } else { Wish::IfFree };
        let mut loading = Loading { input: self.read(&self.left, &part.left)?, held: None, wish };
        // Rows of the probe side that have found something in a block that is done.
        let mut matched: Vec<u64> = Vec::new();
        let mut bits = self.memory.charge();
        let mut is_first = true;
        loop {
            let mut ahead = self.memory.charge();
            let block = self.load(&mut loading, &mut ahead).await?;
            if can_divide && !block.is_last {
                return self.divide(&part, block, loading).await;
            }
            ahead.settle(0);
            let wish = if can_divide { Wish::IfFree } else { Wish::Anyway };
            let plan = match Plan::of(&self.spec, &block.chunks, &self.memory, 1, wish, None) {
                Err(error) if is_full(&error) => return self.divide(&part, block, loading).await,
                other => other?,
            };
            let built = plan.build(&self.spec, block.chunks, self.secret, 1, Arc::clone(&self.seen), None).await?;
            let built = Arc::new(built);
            let is_only = is_first && block.is_last;
            if !is_only {
                self.blocks.add(1);
            }
            if !is_only && matched.is_empty() && self.spec.right_alone() != Alone::Nothing {
                let words = part.right.rows.div_ceil(64) as usize;
                bits.take(words * size_of::<u64>());
                matched = vec![0; words];
            }
            let mut probe = Probe::new(&self.spec, &built, self.batch_rows, self.memory.charge());
            probe.is_deferred = !is_only;
            self.look_up(&part, &mut probe, &mut matched, sender).await?;
            let mut rest = Rest::new(&self.spec, &built, self.batch_rows);
            while let Some(batch) = rest.next()? {
                sender.send(Ok(batch)).await.map_err(|_| unwanted())?;
            }
            if block.is_last {
                if !is_only {
                    self.alone(&part, &built, &matched, sender).await?;
                }
                return Ok(Vec::new());
            }
            is_first = false;
        }
    }

    /// Rows of the build side until memory has no room for more, at least some.
    async fn load(&self, loading: &mut Loading, ahead: &mut Charge) -> Result<Block> {
        let mut pending = Pending::new(&self.memory);
        let mut chunks = Vec::new();
        let mut is_last = false;
        loop {
            let rows = match (loading.held.take(), &mut loading.input) {
                (Some(rows), _) => rows,
                (None, None) => {
                    is_last = true;
                    break;
                }
                (None, Some(input)) => match input.next().await.transpose()? {
                    Some(batch) => Rows::of_file(&self.spec, &batch),
                    None => {
                        loading.input = None;
                        is_last = true;
                        break;
                    }
                },
            };
            // Who has nothing takes something, so that what he does comes to an end.
            let wish = if chunks.is_empty() && pending.is_empty() { Wish::Anyway } else { loading.wish };
            let reserved = pending
                .reserve(&rows, wish)
                .and_then(|()| ahead.grow(rows.count * Plan::bytes_for_row(&self.spec), wish));
            match reserved {
                Err(error) if is_full(&error) => {
                    loading.held = Some(rows);
                    break;
                }
                other => other?,
            }
            pending.push(rows);
            while pending.is_enough() {
                chunks.push(pending.take(&self.spec, self.secret, &self.memory, Wish::Anyway)?);
            }
            if chunks.len() >= CHUNKS_MAX {
                break;
            }
        }
        while !pending.is_empty() {
            chunks.push(pending.take(&self.spec, self.secret, &self.memory, Wish::Anyway)?);
        }
        Ok(Block { chunks, is_last })
    }

    /// Looks up all rows of the probe side of a part.
    async fn look_up(&self, part: &Part, probe: &mut Probe, matched: &mut [u64], sender: &Sender) -> Result<()> {
        let mut input = self.read(&self.right, &part.right)?;
        let mut first = 0;
        while let Some(input) = &mut input
            && let Some(batch) = input.next().await.transpose()?
        {
            let rows = batch.num_rows();
            let (batch, keys) = self.spec.right_of_file(&batch)?;
            probe.begin(batch, keys)?;
            while !probe.step()? {
                tokio::task::yield_now().await;
                while let Some(batch) = probe.output.next() {
                    sender.send(Ok(batch)).await.map_err(|_| unwanted())?;
                }
            }
            while let Some(batch) = probe.output.next() {
                sender.send(Ok(batch)).await.map_err(|_| unwanted())?;
            }
            if !matched.is_empty() {
                for (row, _) in probe.deferred().iter().enumerate().filter(|(_, is_matched)| **is_matched) {
                    matched[(first + row) / 64] |= 1 << ((first + row) % 64);
                }
            }
            first += rows;
        }
        probe.output.finish()?;
        while let Some(batch) = probe.output.next() {
            sender.send(Ok(batch)).await.map_err(|_| unwanted())?;
        }
        Ok(())
    }

    /// Rows of the probe side that come without another one, when all blocks are done.
    async fn alone(&self, part: &Part, built: &Arc<Built>, matched: &[u64], sender: &Sender) -> Result<()> {
        if self.spec.right_alone() == Alone::Nothing {
            return Ok(());
        }
        let mut probe = Probe::new(&self.spec, built, self.batch_rows, self.memory.charge());
        let mut input = self.read(&self.right, &part.right)?;
        let mut first = 0;
        while let Some(input) = &mut input
            && let Some(batch) = input.next().await.transpose()?
        {
            let (batch, keys) = self.spec.right_of_file(&batch)?;
            let is_matched = |row: usize| matched[row / 64] >> (row % 64) & 1 == 1;
            let rows = first..first + batch.num_rows();
            first = rows.end;
            probe.alone_of(&batch, &keys, &rows.map(is_matched).collect::<Vec<bool>>())?;
            while let Some(batch) = probe.output.next() {
                sender.send(Ok(batch)).await.map_err(|_| unwanted())?;
            }
        }
        probe.output.finish()?;
        while let Some(batch) = probe.output.next() {
            sender.send(Ok(batch)).await.map_err(|_| unwanted())?;
        }
        Ok(())
    }

    /// Divides a part by another hash.
    async fn divide(&self, part: &Part, block: Block, loading: Loading) -> Result<Vec<Part>> {
        let (left, right) = (Files::new(part.secret), Files::new(part.secret));
        for chunk in block.chunks {
            let (rows, _charges) = chunk.rows(&self.spec)?;
            left.write_left(&self.spec, &self.left, &rows)?;
        }
        if let Some(rows) = loading.held {
            left.write_left(&self.spec, &self.left, &rows)?;
        }
        let mut input = loading.input;
        while let Some(input) = &mut input
            && let Some(batch) = input.next().await.transpose()?
        {
            left.write_left(&self.spec, &self.left, &Rows::of_file(&self.spec, &batch))?;
        }
        let mut input = self.read(&self.right, &part.right)?;
        while let Some(input) = &mut input
            && let Some(batch) = input.next().await.transpose()?
        {
            let (batch, keys) = self.spec.right_of_file(&batch)?;
            right.write_right(&self.spec, &self.right, &batch, &keys)?;
        }
        let level = part.level + 1;
        self.levels.set_max(level + 1);
        Ok(parts(left.finish()?, right.finish()?, part.secret, level))
    }
}

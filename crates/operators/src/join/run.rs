//! The work of a join: the streams of the build side collect rows, then the streams of the probe side look up theirs.
//!
//! Called by the node. When a charge is refused, the rows of the build side go to files, including those that are in memory, and the
//! rows of the probe side follow; the last stream of the probe side returns the results of the parts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{filter, filter_record_batch};
use datafusion_common::{DataFusionError, Result, internal_err, resources_err};
use datafusion_execution::SendableRecordBatchStream;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use super::build::{Built, Plan};
use super::chunk::{CHUNKS_MAX, Chunk, Pending, Rows};
use super::early::{Early, TOGETHER};
use super::files::{Files, Written};
use super::parts::{self, Shared, parts};
use super::probe::{Probe, Rest};
use super::spec::{Alone, Spec};
use crate::memory::{Wish, is_full};

/// One execution, shared by the streams of the build side.
pub(crate) struct Run {
    shared: Arc<Shared>,
    kept: Mutex<Kept>,
    /// Rows that the build side has, as far as it knows.
    expected: Option<usize>,
    /// Where rows go since memory has run out.
    files: OnceLock<Files>,
}

/// Rows that are in memory.
#[derive(Default)]
struct Kept {
    chunks: Vec<Chunk>,
    early: Attempt,
}

/// A table that is made while rows come.
#[derive(Default)]
enum Attempt {
    #[default]
    NotYet,
    Going(Early),
    No,
}

impl Kept {
    /// Takes a chunk, and its keys into the table if there is one.
    ///
    /// # Errors
    /// Where keys have to be kept again and there is no memory for them.
    fn add(&mut self, mut chunk: Chunk, shared: &Shared, expected: Option<usize>) -> Result<()> {
        if matches!(self.early, Attempt::NotYet) {
            let early = Early::begin(&shared.spec, &chunk, expected, &shared.memory);
            self.early = early.map_or(Attempt::No, Attempt::Going);
        }
        if let Attempt::Going(early) = &mut self.early {
            let is_added = early.add(self.chunks.len(), &mut chunk);
            if !matches!(is_added, Ok(true)) {
                self.chunks.push(chunk);
                return self.give_up(shared).and(is_added.map(drop));
            }
        }
        self.chunks.push(chunk);
        Ok(())
    }

    /// Chunks have their keys again, and a table is made when all have come.
    ///
    /// # Errors
    /// Where there is no memory for the keys: then they are still in the table.
    fn give_up(&mut self, shared: &Shared) -> Result<()> {
        if let Attempt::Going(early) = &self.early {
            let mut charge = shared.memory.charge();
            charge.grow(Early::bytes_of_keys(&self.chunks, &shared.spec), Wish::IfFree)?;
            charge.settle(0);
            early.give_back(&shared.spec, 0, &mut self.chunks);
        }
        self.early = Attempt::No;
        Ok(())
    }
}

impl Run {
    pub(crate) fn new(shared: Shared, expected: Option<usize>) -> Self {
        Self { shared: Arc::new(shared), kept: Mutex::default(), expected, files: OnceLock::new() }
    }

    /// Takes the rows of a stream of the build side.
    ///
    /// # Errors
    /// What the stream and expressions find; where the disk has no room.
    pub(crate) async fn consume(&self, mut input: SendableRecordBatchStream) -> Result<()> {
        let Shared { spec, memory, .. } = self.shared.as_ref();
        let mut pending = Pending::new(memory);
        while let Some(batch) = input.next().await.transpose()? {
            let rows = Rows::of_batch(spec, &batch)?;
            if rows.count == 0 {
                continue;
            }
            if let Some(files) = self.files.get() {
                self.write(files, &mut pending)?;
                files.write_left(spec, &self.shared.left, &rows)?;
                continue;
            }
            let reserved = pending.reserve(&rows, Wish::IfFree);
            pending.push(rows);
            let kept = reserved.and_then(|()| self.keep(&mut pending, false));
            match kept {
                Err(error) if is_full(&error) => self.write(self.leave_memory()?, &mut pending)?,
                other => other?,
            }
        }
        match self.files.get() {
            Some(files) => self.write(files, &mut pending),
            None => match self.keep(&mut pending, true) {
                Err(error) if is_full(&error) => self.write(self.leave_memory()?, &mut pending),
                other => other,
            },
        }
    }

    /// Makes chunks of what there is enough of, or of all.
    fn keep(&self, pending: &mut Pending, is_all: bool) -> Result<()> {
        let Shared { spec, memory, secret, .. } = self.shared.as_ref();
        while pending.is_enough() || (is_all && !pending.is_empty()) {
            // Those that streams make at this moment are counted too; more go to files.
            if self.kept.lock().chunks.len() + self.shared.threads >= CHUNKS_MAX {
                return resources_err!("a join has more than {CHUNKS_MAX} chunks of rows to keep");
            }
            let chunk = pending.take(spec, *secret, memory, Wish::IfFree)?;
            self.kept.lock().add(chunk, &self.shared, self.expected)?;
        }
        Ok(())
    }

    /// Rows go to files from now on, those that are kept too.
    fn leave_memory(&self) -> Result<&Files> {
        self.shared.levels.set_max(1);
        let files = self.files.get_or_init(|| Files::new(self.shared.secret.next()));
        let Kept { mut chunks, early } = std::mem::replace(
            &mut *self.kept.lock(),
            // Of chunks that others still bring, none is looked at for a table.
            Kept { chunks: Vec::new(), early: Attempt::No },
        );
        let mut first = 0;
        while !chunks.is_empty() {
            let rest = chunks.split_off(chunks.len().min(TOGETHER));
            if let Attempt::Going(early) = &early {
                early.give_back(&self.shared.spec, first, &mut chunks);
            }
            first += chunks.len();
            for chunk in std::mem::replace(&mut chunks, rest) {
                let (rows, _charges) = chunk.rows(&self.shared.spec)?;
                files.write_left(&self.shared.spec, &self.shared.left, &rows)?;
            }
        }
        Ok(files)
    }

    fn write(&self, files: &Files, pending: &mut Pending) -> Result<()> {
        for rows in pending.drain() {
            files.write_left(&self.shared.spec, &self.shared.left, &rows)?;
        }
        pending.settle();
        Ok(())
    }

    /// The build side, when all streams have ended; so many streams will look up in it.
    ///
    /// # Errors
    /// Where the disk has no room.
    pub(crate) async fn ready(mut self, probes: usize) -> Result<Ready> {
        let mut built = None;
        if self.files.get().is_none() {
            let Shared { spec, memory, secret, threads, seen, .. } = self.shared.as_ref();
            let plan = {
                let mut kept = self.kept.lock();
                let is_close = matches!(&kept.early, Attempt::Going(early) if early.is_whole());
                let ready = if is_close { Ok(()) } else { kept.give_up(&self.shared) };
                let early = if let Attempt::Going(early) = &kept.early { Some(early) } else { None };
                ready.and_then(|()| Plan::of(spec, &kept.chunks, memory, *threads, Wish::IfFree, early))
            };
            match plan {
                Err(error) if is_full(&error) => {}
                other => {
                    let Kept { chunks, early } = std::mem::take(&mut *self.kept.lock());
                    let early = if let Attempt::Going(early) = early { Some(early) } else { None };
                    let seen = Arc::clone(seen);
                    built = Some(other?.build(spec, chunks, *secret, *threads, seen, early).await?);
                }
            }
        }
        let side = match built {
            Some(built) => BuildSide::Table(Arc::new(built)),
            None => {
                // Somebody may have kept a chunk while another one began with files.
                self.leave_memory()?;
                let Some(files) = self.files.take() else { return internal_err!("a join without files") };
                let probed = Files::new(self.shared.secret.next());
                BuildSide::Files { left: Mutex::new(files.finish()?), right: probed }
            }
        };
        Ok(Ready { shared: self.shared, side, probes: AtomicUsize::new(probes) })
    }
}

/// The build side, for the streams of the probe side.
pub(crate) struct Ready {
    shared: Arc<Shared>,
    side: BuildSide,
    /// Streams that have not ended.
    probes: AtomicUsize,
}

enum BuildSide {
    Table(Arc<Built>),
    Files { left: Mutex<Vec<Written>>, right: Files },
}

/// Where a stream of the probe side is.
enum State {
    Looking(Box<Probe>, SendableRecordBatchStream),
    Writing(SendableRecordBatchStream),
    /// Gives out what is left of the build side.
    Rest(Rest),
    /// Gives out what comes of the parts.
    Parts(BoxStream<'static, Result<RecordBatch>>),
    Ended,
}

impl Ready {
    /// The table, where the build side is in memory.
    pub(crate) fn table(&self) -> Option<&Arc<Built>> {
        match &self.side {
            BuildSide::Table(built) => Some(built),
            BuildSide::Files { .. } => None,
        }
    }

    /// Notes that a stream has ended, and whether it is the last: that one knows what the others have seen.
    fn is_last(&self) -> bool {
        self.probes.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Writes the rows of a stream.
    async fn write(&self, files: &Files, mut input: SendableRecordBatchStream) -> Result<()> {
        let Shared { spec, right, seen, .. } = self.shared.as_ref();
        while let Some(batch) = input.next().await.transpose()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let mut keys = spec.right_keys_of(&batch)?;
            let findable = spec.findable(&keys);
            spec.see(seen, &findable);
            let mut batch = batch;
            if let (Some(findable), Alone::Nothing | Alone::Matched) = (findable, spec.right_alone()) {
                let mask = BooleanArray::new(findable.into_inner(), None);
                batch = filter_record_batch(&batch, &mask)?;
                let filtered = |key: &ArrayRef| Ok(filter(key, &mask)?);
                keys = keys.iter().map(filtered).collect::<Result<_>>()?;
            }
            files.write_right(spec, right, &batch, &keys)?;
        }
        Ok(())
    }
}

/// The batches that come of a stream of the probe side.
pub(crate) fn batches(ready: Arc<Ready>, input: SendableRecordBatchStream) -> impl Stream<Item = Result<RecordBatch>> {
    let Shared { spec, memory, batch_rows, .. } = ready.shared.as_ref();
    let state = match &ready.side {
        BuildSide::Table(built) => {
            State::Looking(Box::new(Probe::new(spec, built, *batch_rows, memory.charge())), input)
        }
        BuildSide::Files { .. } => State::Writing(input),
    };
    futures::stream::try_unfold((ready, state), move |(ready, mut state)| async move {
        loop {
            state = match (state, &ready.side) {
                (State::Looking(mut probe, mut input), BuildSide::Table(built)) => {
                    let shared = &ready.shared;
                    match look(&shared.spec, &mut probe, &mut input).await? {
                        Some(batch) => return Ok(Some((batch, (ready, State::Looking(probe, input))))),
                        None if ready.is_last() => State::Rest(Rest::new(&shared.spec, built, shared.batch_rows)),
                        None => State::Ended,
                    }
                }
                (State::Writing(input), BuildSide::Files { left, right }) => {
                    ready.write(right, input).await?;
                    if ready.is_last() {
                        let left = std::mem::take(&mut *left.lock());
                        let shared = &ready.shared;
                        let parts = parts(left, right.finish_shared()?, shared.secret.next(), 0);
                        State::Parts(parts::batches(Arc::clone(shared), parts).boxed())
                    } else {
                        State::Ended
                    }
                }
                (State::Rest(mut rest), _) => match rest.next()? {
                    Some(batch) => return Ok(Some((batch, (ready, State::Rest(rest))))),
                    None => State::Ended,
                },
                (State::Parts(mut batches), _) => match batches.next().await.transpose()? {
                    Some(batch) => return Ok(Some((batch, (ready, State::Parts(batches))))),
                    None => State::Ended,
                },
                _ => return Ok::<_, DataFusionError>(None),
            };
        }
    })
}

/// The next batch of those that have the rows of a stream in them.
async fn look(spec: &Spec, probe: &mut Probe, input: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>> {
    loop {
        if let Some(batch) = probe.output.next() {
            return Ok(Some(batch));
        }
        if !probe.step()? {
            // There may be many pairs of which none meets the condition: others get their turn, and somebody may have given up. Who takes
            // batches gives them their turn himself.
            if !probe.output.has_next() {
                tokio::task::yield_now().await;
            }
            continue;
        }
        if probe.output.has_next() {
            continue;
        }
        let next = if probe.is_idle() { None } else { input.next().await.transpose()? };
        let Some(batch) = next else {
            probe.output.finish()?;
            return Ok(probe.output.next());
        };
        if batch.num_rows() > 0 {
            let keys = spec.right_keys_of(&batch)?;
            probe.begin(batch, keys)?;
        }
    }
}

//! The work of a join: what each stream of the build side does, and what each stream of the probe side does then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion_common::{DataFusionError, Result, resources_err};
use datafusion_execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use super::build::{Built, Plan};
use super::chunk::{CHUNKS_MAX, Chunk, Pending, Rows};
use super::probe::{Probe, Rest};
use super::spec::Spec;
use crate::hash_table::hash::Secret;
use crate::memory::{Memory, Wish};

/// One execution, shared by the streams of the build side.
pub(crate) struct Run {
    spec: Arc<Spec>,
    memory: Arc<Memory>,
    secret: Secret,
    threads: usize,
    chunks: Mutex<Vec<Chunk>>,
}

impl Run {
    pub(crate) fn new(spec: Arc<Spec>, memory: Arc<Memory>, secret: Secret, threads: usize) -> Self {
        Self { spec, memory, secret, threads, chunks: Mutex::new(Vec::new()) }
    }

    /// Takes the rows of a stream of the build side.
    ///
    /// # Errors
    /// What the stream and expressions find; where memory has no room.
    pub(crate) async fn consume(&self, mut input: SendableRecordBatchStream) -> Result<()> {
        let mut pending = Pending::new(&self.memory);
        while let Some(batch) = input.next().await.transpose()? {
            let rows = Rows::of_batch(&self.spec, &batch)?;
            if rows.count == 0 {
                continue;
            }
            pending.reserve(&rows, Wish::IfFree)?;
            pending.push(rows);
            while pending.is_enough() {
                self.add(pending.take(&self.spec, self.secret, &self.memory, Wish::IfFree)?)?;
            }
        }
        while !pending.is_empty() {
            self.add(pending.take(&self.spec, self.secret, &self.memory, Wish::IfFree)?)?;
        }
        Ok(())
    }

    fn add(&self, chunk: Chunk) -> Result<()> {
        let mut chunks = self.chunks.lock();
        if chunks.len() == CHUNKS_MAX {
            return resources_err!("a join has more than {CHUNKS_MAX} chunks of rows to keep");
        }
        chunks.push(chunk);
        Ok(())
    }

    /// The table, when all streams have ended; `probes` streams will look up in it.
    ///
    /// # Errors
    /// Where memory has no room.
    pub(crate) async fn ready(self, probes: usize) -> Result<Ready> {
        let Self { spec, memory, secret, threads, chunks } = self;
        let chunks = chunks.into_inner();
        let plan = Plan::of(&spec, &chunks, &memory, threads, Wish::IfFree)?;
        let built = Arc::new(plan.build(&spec, chunks, secret, threads).await?);
        Ok(Ready { spec, memory, built, probes: AtomicUsize::new(probes) })
    }
}

/// The build side, for the streams of the probe side.
pub(crate) struct Ready {
    spec: Arc<Spec>,
    memory: Arc<Memory>,
    built: Arc<Built>,
    /// Streams that have not ended.
    probes: AtomicUsize,
}

/// Where a stream of the probe side is.
enum State {
    Looking(Probe, SendableRecordBatchStream),
    /// Gives out what is left of the build side.
    Rest(Rest),
    Ended,
}

/// The batches that come of a stream of the probe side.
pub(crate) fn batches(
    ready: Arc<Ready>,
    input: SendableRecordBatchStream,
    batch_rows: usize,
) -> impl Stream<Item = Result<RecordBatch>> {
    let probe = Probe::new(&ready.spec, &ready.built, batch_rows, ready.memory.charge());
    let state = State::Looking(probe, input);
    futures::stream::try_unfold((ready, state), move |(ready, mut state)| async move {
        loop {
            match state {
                State::Looking(mut probe, mut input) => {
                    let next = look(&ready.spec, &mut probe, &mut input).await?;
                    if let Some(batch) = next {
                        return Ok(Some((batch, (ready, State::Looking(probe, input)))));
                    }
                    // Who is the last knows what the others have seen.
                    let is_last = ready.probes.fetch_sub(1, Ordering::AcqRel) == 1;
                    state = match is_last {
                        true => State::Rest(Rest::new(&ready.spec, &ready.built, batch_rows)),
                        false => State::Ended,
                    };
                }
                State::Rest(mut rest) => match rest.next()? {
                    Some(batch) => return Ok(Some((batch, (ready, State::Rest(rest))))),
                    None => state = State::Ended,
                },
                State::Ended => return Ok::<_, DataFusionError>(None),
            }
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

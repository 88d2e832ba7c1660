//! The outputs of a node: the work that has begun for them, and the end of the last one.
//!
//! A plan and its nodes live as long as the query. What the outputs of a node share, such as a table or the node's memory, is freed as
//! soon as none of them needs it any more: the nodes above may still have much to do, and then have more memory.
//!
//! Called by the nodes of `aggregate` and `join`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Poll;

use datafusion_common::{DataFusionError, Result, internal_err};
use datafusion_common_runtime::SpawnedTask;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What has come of the inputs of a node: nothing yet, what is ready to be given out, or an error.
type Outcome<R> = Option<Result<Arc<R>, Arc<DataFusionError>>>;

/// What reads inputs of a node until it has made of them what outputs give out.
pub(crate) struct Started<R> {
    outcome: watch::Receiver<Outcome<R>>,
    /// Ends when the plan is gone, or nobody wants an output any more that it is for.
    _task: SpawnedTask<()>,
}

impl<R: Send + Sync + 'static> Started<R> {
    /// Begins with some work.
    pub(crate) fn new(work: impl Future<Output = Result<Arc<R>>> + Send + 'static) -> Self {
        let (sender, outcome) = watch::channel(None);
        let task = SpawnedTask::spawn(async move {
            let found = work.await.map_err(Arc::new);
            // Nobody may want it any more.
            let _ = sender.send(Some(found));
        });
        Self { outcome, _task: task }
    }
}

/// What has begun for the outputs of a node: when the first batch of one was asked for.
pub(crate) struct Begun<R> {
    /// Whether each output has something of its own; else what begins is for all of them together.
    is_by_output: bool,
    /// By the output that it is for; what is for all of them, as for the first.
    started: Mutex<BTreeMap<usize, Started<R>>>,
    ended: Ended,
}

impl<R> Begun<R> {
    pub(crate) fn new(is_by_output: bool) -> Self {
        Self { is_by_output, started: Mutex::new(BTreeMap::new()), ended: Ended::default() }
    }

    /// What is going to come for an output, to be waited for by [`ready`]. It begins where nobody else has begun it: what `begin` does is done
    /// once.
    ///
    /// # Errors
    /// Those of `begin`.
    pub(crate) fn outcome(
        &self,
        output: usize,
        begin: impl FnOnce() -> Result<Started<R>>,
    ) -> Result<watch::Receiver<Outcome<R>>> {
        let number = if self.is_by_output { output } else { 0 };
        let mut started = self.started.lock();
        if let Some(known) = started.get(&number) {
            return Ok(known.outcome.clone());
        }
        let new = begin()?;
        let outcome = new.outcome.clone();
        started.insert(number, new);
        Ok(outcome)
    }

    /// Lets go of what is for this output alone.
    pub(crate) fn let_go(&self, output: usize) {
        if self.is_by_output {
            let gone = self.started.lock().remove(&output);
            // Not under the lock: streams of the inputs end with it.
            drop(gone);
        }
    }

    /// One of so many outputs has ended, or nobody wants it any more: with it goes what no other one wants, and with the last one what they
    /// share.
    pub(crate) fn end(&self, output: usize, outputs: usize) {
        if self.is_by_output {
            self.let_go(output);
        } else if self.ended.note(output, outputs) {
            let gone = std::mem::take(&mut *self.started.lock());
            // As there.
            drop(gone);
        }
    }
}

/// Waits for what comes.
///
/// # Errors
/// What has failed, which is told to every output.
pub(crate) async fn ready<R>(mut outcome: watch::Receiver<Outcome<R>>) -> Result<Arc<R>> {
    let found = outcome.wait_for(Option::is_some).await;
    let found = found.map_err(|_| DataFusionError::Internal("the work for an output was given up".to_owned()))?;
    match found.as_ref() {
        Some(Ok(ready)) => Ok(Arc::clone(ready)),
        Some(Err(error)) => Err(DataFusionError::Shared(Arc::clone(error))),
        None => internal_err!("the work for an output has no outcome"),
    }
}

/// Which outputs of a node have ended.
#[derive(Default)]
struct Ended(Mutex<BTreeSet<usize>>);

impl Ended {
    /// Notes that an output has ended; whether all of so many have. Then it begins again.
    fn note(&self, output: usize, outputs: usize) -> bool {
        let mut ended = self.0.lock();
        ended.insert(output);
        let are_all = ended.len() >= outputs;
        if are_all {
            ended.clear();
        }
        are_all
    }
}

/// The items of a stream, with something to do when they have ended, or when nobody wants more of them: then the stream itself is gone.
pub(crate) fn and_then<S: Stream>(items: S, done: impl FnOnce()) -> impl Stream<Item = S::Item> {
    let mut last = Some(Last(Some(done)));
    items.chain(futures::stream::poll_fn(move |_| {
        drop(last.take());
        Poll::Ready(None)
    }))
}

/// Does something when it goes.
struct Last<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Last<F> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_last_output_is_the_last_whichever_it_is() {
        let ended = Ended::default();
        for _ in 0..2 {
            assert!(!ended.note(2, 3));
            assert!(!ended.note(2, 3));
            assert!(!ended.note(0, 3));
            assert!(ended.note(1, 3));
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        // One thread: a task that has said what it found has ended before anybody hears it.
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn what_has_begun_goes_with_its_output_or_with_the_last_of_all() {
        block_on(async {
            for is_by_output in [false, true] {
                let begun = Begun::<usize>::new(is_by_output);
                let count = Cell::new(0);
                let mut held = Vec::new();
                for output in [0, 1, 1, 0] {
                    let outcome = begun.outcome(output, || {
                        count.set(count.get() + 1);
                        Ok(Started::new(async move { Ok(Arc::new(output)) }))
                    });
                    let found = ready(outcome.unwrap()).await.unwrap();
                    assert_eq!(*found, if is_by_output { output } else { 0 });
                    held.push(Arc::downgrade(&found));
                }
                assert_eq!(count.get(), if is_by_output { 2 } else { 1 });
                begun.end(0, 2);
                assert_eq!(held[0].upgrade().is_none(), is_by_output);
                assert!(held[1].upgrade().is_some());
                begun.end(1, 2);
                assert!(held.iter().all(|found| found.upgrade().is_none()));
            }
        });
    }

    #[test]
    fn an_output_lets_go_of_what_is_its_own() {
        block_on(async {
            for is_by_output in [false, true] {
                let begun = Begun::<usize>::new(is_by_output);
                let outcome = begun.outcome(1, || Ok(Started::new(async { Ok(Arc::new(7)) }))).unwrap();
                let found = Arc::downgrade(&ready(outcome).await.unwrap());
                begun.let_go(0);
                assert!(found.upgrade().is_some());
                begun.let_go(1);
                assert_eq!(found.upgrade().is_none(), is_by_output);
            }
        });
    }

    #[test]
    fn what_fails_is_told_to_every_output() {
        block_on(async {
            let begun = Begun::<usize>::new(false);
            let refused = begun.outcome(0, || internal_err!("not now"));
            assert!(refused.is_err());
            for output in 0..2 {
                let outcome = begun.outcome(output, || Ok(Started::new(async { internal_err!("no rows") }))).unwrap();
                let error = ready(outcome).await.unwrap_err();
                assert!(matches!(&error, DataFusionError::Shared(_)), "{error}");
            }
        });
    }

    #[test]
    fn something_is_done_once_at_the_end_or_where_nobody_wants_more() {
        let done = &Cell::new(0);
        let items = || and_then(futures::stream::iter([1, 2]), move || done.set(done.get() + 1));
        assert_eq!(items().collect::<Vec<_>>().now_or_never().unwrap(), [1, 2]);
        assert_eq!(done.get(), 1);

        let mut some = Box::pin(items());
        assert_eq!(some.next().now_or_never().unwrap(), Some(1));
        assert_eq!(done.get(), 1);
        drop(some);
        assert_eq!(done.get(), 2);

        // Not asked for anything at all, and asked for more behind the end.
        drop(items());
        let mut all = Box::pin(items());
        while all.next().now_or_never().unwrap().is_some() {}
        assert_eq!(done.get(), 4);
        assert_eq!(all.next().now_or_never().unwrap(), None);
        drop(all);
        assert_eq!(done.get(), 4);
    }
}

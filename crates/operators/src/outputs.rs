//! The outputs of a node, and when the last of them has ended.
//!
//! A plan lives as long as its query, and its nodes with it. What the outputs of one share, as a table or the node's part in the memory of the
//! query, goes when none of them wants it any more: what is above may still have much to do, and has more memory for it then.
//!
//! Called by the nodes of `aggregate` and `join`.

use std::collections::BTreeSet;
use std::task::Poll;

use futures::{Stream, StreamExt};
use parking_lot::Mutex;

/// Which outputs of a node have ended.
#[derive(Default)]
pub(crate) struct Ended(Mutex<BTreeSet<usize>>);

impl Ended {
    /// Notes that an output has ended; whether all of so many have. Then it begins again.
    pub(crate) fn note(&self, output: usize, outputs: usize) -> bool {
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

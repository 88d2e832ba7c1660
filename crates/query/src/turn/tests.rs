//! Turns of statements whose streams wait for shards.

use futures::FutureExt;
use tokio::sync::oneshot;

use super::*;
use crate::admission::AdmissionConfig;

/// Long enough for whatever does not happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A queue with one place, and a statement that has it.
async fn begun() -> (Arc<Admission>, Arc<Turn>) {
    let admission = Admission::new(AdmissionConfig { running_max: 1, waiting_max: 10, wait_max: Some(PATIENCE) });
    let turn = Turn::new(&admission);
    turn.begin().await.unwrap();
    assert_eq!(admission.statistics().running, 1);
    (admission, turn)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("somebody waits in vain") });
}

#[test]
fn while_a_stream_waits_for_a_shard_it_is_the_turn_of_others() {
    run(async {
        let (admission, turn) = begun().await;
        let (answer, shard) = oneshot::channel();
        let stream = async {
            let mut at_work = turn.work().await.unwrap();
            assert_eq!(at_work.wait(shard).await.unwrap(), Ok(7));
            assert_eq!(admission.statistics().running, 1);
        };
        let other = async {
            let slot = admission.enter(Entry::First).await.unwrap();
            answer.send(7).unwrap();
            // The stream has its answer, and goes on when it is its turn.
            tokio::task::yield_now().await;
            drop(slot);
        };
        tokio::join!(stream, other);
        assert_eq!(admission.statistics().running, 1);
        drop(turn);
        assert_eq!(admission.statistics().running, 0);
    });
}

#[test]
fn the_turn_is_kept_for_what_comes_soon() {
    run(async {
        let (admission, turn) = begun().await;
        let mut at_work = turn.work().await.unwrap();
        // All of these waits together have little time; on a busy machine this thread alone may lose more.
        assert_eq!(at_work.patience, KEPT);
        at_work.patience = PATIENCE;
        for number in 0..100 {
            assert_eq!(at_work.wait(std::future::ready(number)).await.unwrap(), number);
            at_work.wait(tokio::task::yield_now()).await.unwrap();
        }
        let mut other = pin!(admission.enter(Entry::First));
        assert!(futures::poll!(other.as_mut()).is_pending());
        at_work.wait(tokio::task::yield_now()).await.unwrap();
        assert_eq!((admission.statistics().running, admission.statistics().waiting), (1, 1));
    });
}

#[test]
fn a_stream_at_work_keeps_the_turn_and_the_last_one_gives_it_back() {
    run(async {
        let (admission, turn) = begun().await;
        let (answer, shard) = oneshot::channel();
        let waiting = async {
            let mut at_work = turn.work().await.unwrap();
            at_work.wait(shard).await.unwrap().unwrap();
            assert_eq!(admission.statistics().running, 1);
        };
        let working = async {
            // By then the other one waits, and has no turn.
            drop(admission.enter(Entry::First).await.unwrap());
            assert_eq!(admission.statistics().running, 0);
            for _ in 0..3 {
                let at_work = turn.work().await.unwrap();
                assert_eq!(admission.statistics().running, 1);
                drop(at_work);
                assert_eq!(admission.statistics().running, 0);
            }
            // To send rows that are there it needs none.
            turn.pause();
            turn.resume().await.unwrap();
            assert_eq!(admission.statistics().running, 0);
            answer.send(()).unwrap();
        };
        tokio::join!(waiting, working);
        // Nothing waits for a shard any more: the statement computes.
        assert_eq!(admission.statistics().running, 1);
    });
}

#[test]
fn who_waits_for_the_client_or_has_ended_is_given_no_turn_by_its_streams() {
    run(async {
        let (admission, turn) = begun().await;
        turn.pause();
        let at_work = turn.work().await.unwrap();
        assert_eq!(admission.statistics().running, 0);
        turn.resume().await.unwrap();
        assert_eq!(admission.statistics().running, 1);
        drop(at_work);
        assert_eq!(admission.statistics().running, 1);
        turn.pause();
        drop(turn.work().await.unwrap());
        assert_eq!(admission.statistics().running, 0);
        // Nor does one that was never let in.
        let unasked = Turn::new(&admission);
        drop(unasked.work().await.unwrap());
        unasked.pause();
        unasked.resume().await.unwrap();
        assert_eq!(admission.statistics().running, 0);
    });
}

#[test]
fn a_stream_that_nobody_asks_any_more_keeps_no_other_one_from_going_on() {
    run(async {
        let (admission, turn) = begun().await;
        turn.pause();
        let running = admission.enter(Entry::First).await.unwrap();
        assert!(turn.resume().now_or_never().is_none());
        // Both wait for the turn; of the first nobody wants to know any more, and it is there all the same.
        let mut first = pin!(turn.work());
        assert!(futures::poll!(first.as_mut()).is_pending());
        let mut second = pin!(turn.work());
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(running);
        drop(second.await.unwrap());
        assert_eq!(admission.statistics().running, 1);
        drop(first.await.unwrap());
    });
}

#[test]
fn who_waits_for_the_turn_while_the_statement_is_paused_goes_on_without() {
    run(async {
        let (admission, turn) = begun().await;
        turn.pause();
        let running = admission.enter(Entry::First).await.unwrap();
        assert!(turn.resume().now_or_never().is_none());
        let mut stream = pin!(turn.work());
        assert!(futures::poll!(stream.as_mut()).is_pending());
        turn.pause();
        drop(stream.await.unwrap());
        drop(running);
        // The one who asked for it has left the queue.
        while admission.statistics().waiting > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.statistics().running, 0);
    });
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_leaves_nothing_behind() {
    run(async {
        let (admission, turn) = begun().await;
        let waiting = async {
            let mut at_work = turn.work().await.unwrap();
            at_work.wait(std::future::pending::<()>()).await.unwrap();
        };
        tokio::select! {
            () = waiting => panic!("nobody answers"),
            slot = admission.enter(Entry::First) => drop(slot.unwrap()),
        }
        let at_work = turn.work().await.unwrap();
        assert_eq!(admission.statistics().running, 1);
        drop(at_work);
        assert_eq!(admission.statistics().running, 1);
        let state = turn.state.lock();
        assert_eq!((state.at_work, state.away), (0, 0));
    });
}

//! Regressions that are planted into the server that stores nothing, one of which it has if it is told so: tests then see
//! whether the lab finds it, and calls it by its name.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use ashlar_base::clock::monotonic;
use ashlar_base::scope::{Name, scope};

/// How long a command takes longer, or is kept from its turn.
const LONGER: Duration = Duration::from_micros(200);

/// How long the lock is held: whoever comes waits for half of it, which has to be seen among all the threads that wait for work.
const HELD: Duration = Duration::from_millis(1);

/// How much a command allocates.
const ALLOCATED_BYTES: usize = 64 << 10;

/// What is done at every command beside answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Plant {
    /// It computes for nothing.
    Spin,
    /// It sleeps.
    Sleep,
    /// It waits for a lock that somebody else has.
    Lock,
    /// Its task waits, and no thread does.
    Wait,
    /// It allocates, and forgets.
    Allocate,
}

static CONTENDED: Mutex<()> = Mutex::new(());

/// Starts what a plant needs beside the commands.
pub(super) fn begin(plant: Option<Plant>) -> Result<()> {
    if plant == Some(Plant::Lock) {
        std::thread::Builder::new().name("lock holder".to_owned()).spawn(|| {
            loop {
                hold_the_lock();
            }
        })?;
    }
    Ok(())
}

/// Does it once.
pub(super) async fn strike(plant: Plant) {
    match plant {
        Plant::Wait => wait().await,
        Plant::Spin => spin(),
        Plant::Sleep => sleep(),
        Plant::Lock => wait_for_the_lock(),
        Plant::Allocate => allocate(),
    }
}

/// For a thousandth of a second at least: no timer of a task is finer.
async fn wait() {
    static WAIT: Name = Name::new("noop::plant::wait");
    scope(&WAIT, tokio::time::sleep(LONGER)).await;
}

// Each is a function of its own in the program, so that a profile can name it.

#[inline(never)]
fn spin() {
    let end = monotonic() + LONGER;
    while monotonic() < end {
        // Its own time, not the clock's: differential flame graphs colour a function by that.
        let mut turn = 0;
        while turn < 10_000 {
            turn = black_box(turn + 1);
        }
    }
}

#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "a thread that sleeps where it should not is what is to be found")]
fn sleep() {
    std::thread::sleep(LONGER);
    stay();
}

#[inline(never)]
fn wait_for_the_lock() {
    drop(CONTENDED.lock().unwrap_or_else(PoisonError::into_inner));
    stay();
}

#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "a lock that is held for long is what is to be found")]
fn hold_the_lock() {
    let held = CONTENDED.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::sleep(HELD);
    drop(held);
    // A mutex is not fair: without a pause its holder would have it again at once.
    std::thread::yield_now();
    stay();
}

#[inline(never)]
fn allocate() {
    drop(black_box(vec![1u8; ALLOCATED_BYTES]));
    stay();
}

/// The last thing that a planted function does, so that a call before it is no jump, which would leave no frame on the stack.
fn stay() {
    black_box(());
}

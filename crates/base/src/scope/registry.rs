//! What all scopes of the process share: the table of names, and the slots of tasks.
//!
//! Called when a name is first used, when a task begins, is first polled and ends, and by the samplers that watch.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::{NAMES, Place, Slot, WATCHED};

/// Tasks that are seen at once; 64 bytes each, which are kept for later ones. Connections and the operators of queries are fewer.
const SLOTS_MAX: usize = 1 << 16;

/// The number of all names for which there is none left.
const OTHERS: u8 = u8::MAX;

/// The name with number `n` is at place `n - 1`.
static TABLE: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

static SLOTS: Mutex<Slots> = Mutex::new(Slots { watches: 0, all: Vec::new(), free: Vec::new() });

struct Slots {
    /// Those who watch.
    watches: usize,
    all: Vec<&'static Slot>,
    free: Vec<&'static Slot>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a name, which is put into the table if it is new. The table is never emptied: names are in the program, and there
/// is one for each kind of thread.
pub(super) fn number_of(text: &str) -> u8 {
    let mut table = lock(&TABLE);
    let place = table.iter().position(|known| *known == text).unwrap_or(table.len());
    let number = u8::try_from(place + 1).unwrap_or(OTHERS);
    if place == table.len() && number < OTHERS {
        table.push(Box::leak(Box::<str>::from(text)));
    }
    number
}

/// The name with this number.
pub(super) fn name_of(number: u8) -> &'static str {
    lock(&TABLE).get(usize::from(number).wrapping_sub(1)).copied().unwrap_or("others")
}

/// Somebody watches from now on. If nobody did until now, all words are out of date, and tasks write them anew.
pub(super) fn begin_watch() {
    let mut wakers = Vec::new();
    {
        let mut slots = lock(&SLOTS);
        slots.watches += 1;
        if slots.watches > 1 {
            return;
        }
        // First, so that a task that is polled for the first time after its slot was looked at sees it.
        WATCHED.store(true, Ordering::Relaxed);
        for slot in &slots.all {
            if let Some(waker) = &*lock(&slot.waker) {
                slot.word.store(slot.root.load(Ordering::Relaxed), Ordering::Relaxed);
                wakers.push(waker.clone());
            }
        }
    }
    // Not with the lock: whatever a waker does, it may end tasks.
    wakers.into_iter().for_each(Waker::wake);
}

/// One of those who watched does not any more.
pub(super) fn end_watch() {
    let mut slots = lock(&SLOTS);
    slots.watches -= 1;
    if slots.watches == 0 {
        WATCHED.store(false, Ordering::Relaxed);
    }
}

/// Looks at every task.
pub(super) fn look(mut see: impl FnMut(Place)) {
    let slots = lock(&SLOTS);
    let words = slots.all.iter().map(|slot| slot.word.load(Ordering::Relaxed));
    // A free one has no names.
    words.filter(|word| word & NAMES != 0).for_each(|word| see(Place(word)));
}

/// The slot of a task, given back when dropped.
#[derive(Debug)]
pub(super) struct Held(Option<&'static Slot>);

impl Held {
    /// A slot for a task that waits in this place; none where there are too many.
    pub(super) fn take(place: u64) -> Self {
        let mut slots = lock(&SLOTS);
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.all.len() < SLOTS_MAX => {
                let slot: &'static Slot = Box::leak(Box::new(Slot::default()));
                slots.all.push(slot);
                slot
            }
            None => return Self(None),
        };
        slot.root.store(place, Ordering::Relaxed);
        slot.word.store(place, Ordering::Relaxed);
        Self(Some(slot))
    }

    #[inline]
    pub(super) fn slot(&self) -> Option<&'static Slot> {
        self.0
    }

    /// Who begins to watch wakes the task.
    #[cold]
    pub(super) fn is_woken_by(&self, waker: &Waker) {
        if let Some(slot) = self.0 {
            let waker = waker.clone();
            // What was there is dropped without the lock: it may be the last that holds a task, which gives up its own slot when it ends.
            let before = lock(&slot.waker).replace(waker);
            drop(before);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            // Dropped at the end, without a lock: it may be the last that holds something.
            let _waker = lock(&slot.waker).take();
            let mut slots = lock(&SLOTS);
            slot.word.store(0, Ordering::Relaxed);
            slots.free.push(slot);
        }
    }
}

#[cfg(test)]
pub(super) fn slots_made() -> usize {
    lock(&SLOTS).all.len()
}

//! Named scopes: what each task is doing or waiting for, visible from outside at a glance.
//!
//! A task that waits is on no thread's stack, so a profiler that samples threads does not see it. Here each [`task`]
//! has a word of memory that records which scopes it is in and, while it runs, on which kind of thread. A sampler that
//! [`watch`]es reads the words of all tasks.
//!
//! ```text
//! bit  0..8      8..16      ...   48..56    56..64
//!      outermost next one         seventh   thread that runs it; 0 while it waits
//! ```
//!
//! Used by everything that waits for something with a name: sockets, channels, locks, the query pool. Read by
//! `telemetry`, for profiles. Entering a scope allocates nothing, takes no lock and writes nothing but the task's own
//! word. While nobody watches, it costs one read of a flag.
//!
//! Tasks that started to wait before sampling began must be seen too, so a sampler wakes every task once when it
//! begins, and each task records its scopes again when it is polled. Until then a task is shown where it began. The
//! same is true of a task that is polled without end, and of one that is not polled when woken because it is part of a
//! set of futures with wakers of their own.
//!
//! If one task waits in several scopes at once, as in the branches of a `select!`, the scope that was polled last is
//! shown.

mod registry;

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use registry::Held;

/// Names that one word has room for. A scope that is further in is not seen; its task is seen in those around it.
pub const DEPTH_MAX: u32 = 7;

/// The bits of a word that hold names.
const NAMES: u64 = (1 << (8 * DEPTH_MAX)) - 1;

/// The name of a scope. Made once, as a `static` next to the code that it names.
#[derive(Debug)]
pub struct Name {
    text: &'static str,
    /// Its number in the table of names; 0 until it is first used.
    number: AtomicU8,
}

impl Name {
    /// A name, as people read it: `socket read`. Two that have the same text are one.
    pub const fn new(text: &'static str) -> Self {
        Self { text, number: AtomicU8::new(0) }
    }

    fn number(&self) -> u8 {
        match self.number.load(Ordering::Relaxed) {
            0 => self.first_use(),
            number => number,
        }
    }

    #[cold]
    fn first_use(&self) -> u8 {
        let number = registry::number_of(self.text);
        self.number.store(number, Ordering::Relaxed);
        number
    }
}

/// Where a task is, as it was seen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(u64);

impl Place {
    /// The names of the scopes that the task is in, the outermost first.
    pub fn names(self) -> Vec<&'static str> {
        let numbers = self.0.to_le_bytes();
        let names = numbers.into_iter().take(DEPTH_MAX as usize).take_while(|number| *number > 0);
        names.map(registry::name_of).collect()
    }

    /// The kind of thread that runs it, by the name of the thread without its number; none while it waits.
    pub fn runs_on(self) -> Option<&'static str> {
        let [.., thread] = self.0.to_le_bytes();
        (thread > 0).then(|| registry::name_of(thread))
    }
}

/// Whether anybody watches: looked at by every scope, written by the first [`Watch`] and the last.
static WATCHED: AtomicBool = AtomicBool::new(false);

#[inline]
fn is_watched() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

/// See [`watch`].
#[derive(Debug)]
#[must_use = "nothing is seen once it is dropped"]
pub struct Watch(());

/// From now until what it gives is dropped, tasks say in which scopes they are. All are woken once to say it.
pub fn watch() -> Watch {
    registry::begin_watch();
    Watch(())
}

impl Watch {
    /// Looks at every task that there is. They go on meanwhile.
    pub fn look(&self, see: impl FnMut(Place)) {
        registry::look(see);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        registry::end_watch();
    }
}

/// What others see of a task, on a cache line of its own: it is written whenever the task is polled, if anybody watches.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Slot {
    word: AtomicU64,
    /// The scopes in which the task began.
    root: AtomicU64,
    /// Wakes the task; none of what is not polled, or has not been yet.
    waker: Mutex<Option<Waker>>,
}

/// What a thread knows of the task that it runs.
struct Here {
    slot: Cell<Option<&'static Slot>>,
    /// The scopes that are being polled, in the form of a word.
    word: Cell<u64>,
    /// The number of this kind of thread, in the highest byte; 0 until it is first needed.
    thread: Cell<u64>,
}

thread_local! {
    static HERE: Here = const { Here { slot: Cell::new(None), word: Cell::new(0), thread: Cell::new(0) } };
}

/// The word with one name more.
#[inline]
fn within(word: u64, name: &Name) -> u64 {
    let number = u64::from(name.number());
    let used = u64::BITS - (word & NAMES).leading_zeros();
    let depth = used.div_ceil(8);
    // What calls itself is one place: operators that start operators, say.
    let is_same = depth > 0 && (word >> (8 * (depth - 1))) & 0xff == number;
    if depth == DEPTH_MAX || is_same { word } else { word | number << (8 * depth) }
}

/// The scopes that what is called now is in; a task that is started here is in them too.
fn around() -> u64 {
    HERE.with(|here| here.word.get() & NAMES)
}

impl Here {
    fn is_at(&self, slot: &Slot, word: u64) {
        self.word.set(word);
        slot.word.store(word, Ordering::Relaxed);
    }

    fn thread(&self) -> u64 {
        match self.thread.get() {
            0 => self.first_task(),
            thread => thread,
        }
    }

    #[cold]
    fn first_task(&self) -> u64 {
        let current = std::thread::current();
        let name = current.name().unwrap_or("a thread without a name");
        let kind = name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('-');
        let thread = u64::from(registry::number_of(kind)) << 56;
        self.thread.set(thread);
        thread
    }
}

/// This thread runs a task, until it is dropped.
struct Running {
    slot: &'static Slot,
    outer: (Option<&'static Slot>, u64),
    /// Whether the word says so.
    is_seen: bool,
}

impl Running {
    #[inline]
    fn begin(slot: &'static Slot, is_seen: bool) -> Self {
        HERE.with(|here| {
            // Also while nobody watches: what the task starts is within its root.
            let root = slot.root.load(Ordering::Relaxed);
            let outer = (here.slot.replace(Some(slot)), here.word.replace(root));
            if is_seen {
                seen_running(here, slot, root);
            }
            Self { slot, outer, is_seen }
        })
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        if self.is_seen {
            seen_waiting(self.slot);
        }
        HERE.with(|here| {
            here.slot.set(self.outer.0);
            here.word.set(self.outer.1);
        });
    }
}

#[cold]
fn seen_running(here: &Here, slot: &Slot, root: u64) {
    here.is_at(slot, root | here.thread());
}

#[cold]
fn seen_waiting(slot: &Slot) {
    // It waits in the scope that said so last.
    let word = slot.word.load(Ordering::Relaxed) & NAMES;
    slot.word.store(word, Ordering::Relaxed);
}

pin_project! {
    /// See [`task`].
    #[derive(Debug)]
    #[must_use = "a task does nothing unless it is polled"]
    pub struct Task<F> {
        held: Held,
        // Whether its slot has its waker.
        is_known: bool,
        #[pin]
        future: F,
    }
}

/// A future that is polled by itself: handed to `spawn`, or to `block_on`. It is visible from now on until it is dropped, within the scopes
/// of the task that starts it; while nobody watches, these are only the scopes in which that task itself began.
pub fn task<F: Future>(name: &Name, future: F) -> Task<F> {
    Task { held: Held::take(within(around(), name)), is_known: false, future }
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !*this.is_known {
            *this.is_known = true;
            this.held.is_woken_by(context.waker());
        }
        let _running = this.held.slot().map(|slot| Running::begin(slot, is_watched()));
        this.future.poll(context)
    }
}

/// Work for a thread that may block: visible while it runs, within the scopes of the task that requests it.
pub fn work<T>(name: &'static Name, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let root = within(around(), name);
    move || {
        let held = Held::take(root);
        // Nobody can wake it, so it always says that it runs.
        let _running = held.slot().map(|slot| Running::begin(slot, true));
        work()
    }
}

pin_project! {
    /// See [`scope`].
    #[derive(Debug)]
    #[must_use = "a scope does nothing unless it is polled"]
    pub struct Scope<F> {
        name: &'static Name,
        // Whether its task waits in it.
        waits: bool,
        #[pin]
        future: F,
    }

    impl<F> PinnedDrop for Scope<F> {
        fn drop(this: Pin<&mut Self>) {
            if this.waits {
                given_up();
            }
        }
    }
}

/// A future with a name: while it is polled and while it is waited for, its task is seen in it.
#[inline]
pub fn scope<F: Future>(name: &'static Name, future: F) -> Scope<F> {
    Scope { name, waits: false, future }
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outer = if is_watched() { begin(this.name) } else { None };
        // If this panics, the words are wrong until the task is polled again.
        let polled = this.future.poll(context);
        if let Some(outer) = outer {
            *this.waits = polled.is_pending();
            end(outer, *this.waits);
        }
        polled
    }
}

/// Where a task was before it entered a scope.
#[derive(Clone, Copy, Debug)]
struct Outer {
    slot: &'static Slot,
    word: u64,
}

/// The task that runs enters a scope. None outside of a task: nobody looks there.
#[cold]
fn begin(name: &Name) -> Option<Outer> {
    HERE.with(|here| {
        let outer = Outer { slot: here.slot.get()?, word: here.word.get() };
        here.is_at(outer.slot, within(outer.word, name));
        Some(outer)
    })
}

/// It goes on in what is around, and is seen there unless it `waits` in the scope.
#[cold]
fn end(outer: Outer, waits: bool) {
    HERE.with(|here| here.word.set(outer.word));
    if !waits {
        outer.slot.word.store(outer.word, Ordering::Relaxed);
    }
}

/// A scope that was waited in is dropped: the task that drops it is where it does so.
#[cold]
fn given_up() {
    HERE.with(|here| {
        if let Some(slot) = here.slot.get() {
            slot.word.store(here.word.get(), Ordering::Relaxed);
        }
    });
}

/// See [`enter`].
#[derive(Debug)]
#[must_use = "it leaves the scope when it is dropped"]
pub struct Entered {
    outer: Option<Outer>,
    /// It belongs to the poll in which it was made.
    _here: PhantomData<*const ()>,
}

/// From here until what it gives is dropped, on this thread and not across an `await`, the task is seen in this scope.
#[inline]
pub fn enter(name: &'static Name) -> Entered {
    Entered { outer: if is_watched() { begin(name) } else { None }, _here: PhantomData }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            end(outer, false);
        }
    }
}

#[cfg(test)]
mod tests;

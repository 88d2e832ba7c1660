//! What was sampled, before anything has a name: stacks of threads as addresses, and the places of tasks.
//!
//! Bounded, however long is sampled: stacks and places beyond a number are not told apart.

use std::collections::HashMap;
use std::hash::Hash;

use ashlar_base::scope::Place;

use super::symbols::Symbols;
use crate::Stacks;
use crate::stacks::{BESIDE_CODE, RUNS_ON, TASKS};

/// Stacks that are told apart, some hundred bytes each.
const STACKS_MAX: usize = 1 << 15;

/// Places of tasks that are told apart: more than a program has.
const PLACES_MAX: usize = 1 << 12;

/// Frames that are looked at for what a thread waits for: the call of the system, what wraps it, and who called that.
const WAIT_FRAMES: usize = 4;

/// Samples of one profile.
#[derive(Default)]
pub(super) struct Samples {
    /// How often, by the name of the thread and the addresses, the leaf first; no addresses are all beyond the bound.
    stacks: HashMap<(String, Box<[usize]>), u64>,
    /// How often; none is all beyond the bound.
    places: HashMap<Option<Place>, u64>,
    /// What a sample counts, in nanoseconds.
    pub(super) value: u64,
}

impl Samples {
    pub(super) fn add(&mut self, thread: &[u8], frames: Box<[usize]>, count: u64) {
        let name = thread_name(thread);
        let beyond = (name.clone(), Box::default());
        add(&mut self.stacks, (name, frames), beyond, STACKS_MAX, count);
    }

    pub(super) fn see(&mut self, place: Place) {
        add(&mut self.places, Some(place), None, PLACES_MAX, 1);
    }

    /// Looks up the names: a while, the first time, for the table of symbols is read then.
    pub(super) fn stacks(self) -> Stacks {
        let mut symbols = Symbols::default();
        let mut stacks = Stacks::default();
        for ((thread, addresses), count) in self.stacks {
            let mut frames = vec![thread];
            frames.extend(addresses.iter().rev().flat_map(|address| symbols.at(*address).to_vec()));
            if addresses.is_empty() {
                frames.push("stacks beyond those that are told apart".to_owned());
            }
            frames.extend(waits_in(&frames).map(|call| format!("{BESIDE_CODE}in {call}]")));
            stacks.add_sampled(&frames, count * self.value);
        }
        for (place, count) in self.places {
            let names = place.map_or(vec!["places beyond those that are told apart"], Place::names);
            let runs = place.and_then(Place::runs_on).map(|thread| format!("{RUNS_ON}{thread}]"));
            let frames = [TASKS].into_iter().chain(names).chain(runs.as_deref());
            stacks.add(frames, count * self.value);
        }
        stacks
    }
}

/// Adds to a count, or to that of all that there is no room for.
fn add<K: Eq + Hash>(counts: &mut HashMap<K, u64>, key: K, beyond: K, most: usize, count: u64) {
    let has_room = counts.len() < most || counts.contains_key(&key);
    *counts.entry(if has_room { key } else { beyond }).or_default() += count;
}

/// Threads that do the same have one name.
fn thread_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).replace(' ', "_");
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('-').to_owned()
}

/// Calls of the system in which a thread may wait, as the C library names the functions that make them.
const CALLS: &str = "\
    accept accept4 clock_nanosleep close connect epoll_pwait epoll_wait fdatasync flock fsync ftruncate futex \
    getrandom ioctl lseek madvise mmap mprotect mremap munmap nanosleep open open64 openat openat64 pause poll \
    ppoll pread pread64 preadv pwrite pwrite64 pwritev read readv recv recvfrom recvmsg rename sched_yield \
    select send sendfile sendmsg sendto sync_file_range unlink unlinkat usleep wait4 waitid waitpid write writev";

/// The call of the system that a stack, from the root on, ends in. A thread that computes ends in none.
fn waits_in(frames: &[String]) -> Option<&'static str> {
    let leaf = bare(frames.last()?);
    let near = &frames[frames.len().saturating_sub(WAIT_FRAMES)..];
    let of_locks =
        |frame: &String| ["futex", "parking_lot", "condvar", "mutex"].iter().any(|word| frame.contains(word));
    match leaf {
        // What has no function of its own is called by this one. Nearly always that is a lock, or a thread that waits for work.
        "syscall" if near.iter().any(of_locks) => Some("futex"),
        "syscall" => Some("a call of the system"),
        _ if leaf.starts_with("futex_") || leaf.starts_with("lll_lock") || leaf.starts_with("pthread_cond") => {
            Some("futex")
        }
        _ => CALLS.split_whitespace().find(|call| *call == leaf),
    }
}

/// A function of the C library without what its inner names have before and after: `__GI___libc_write`, `read@GLIBC_2.2.5`.
fn bare(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or(name);
    let name = name.trim_start_matches("__GI_").trim_start_matches('_');
    name.strip_prefix("libc_").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_kind_have_one_name() {
        let names = ["ashlar-door-0", "ashlar-door-12", "compactor", "a b 1"].map(|name| thread_name(name.as_bytes()));
        assert_eq!(names, ["ashlar-door", "ashlar-door", "compactor", "a_b_"]);
    }

    #[test]
    fn a_thread_that_waits_is_seen_to_wait_in_a_call_of_the_system() {
        let wait = |stack: &str| waits_in(&stack.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (stack, call) in [
            ("run mio::poll::Poll::poll epoll_wait", Some("epoll_wait")),
            ("run std::sys::net::send __libc_send", Some("send")),
            ("run __GI___libc_write", Some("write")),
            ("run clock_nanosleep@GLIBC_2.2.5", Some("clock_nanosleep")),
            ("run parking_lot::raw_mutex::RawMutex::lock_slow syscall", Some("futex")),
            ("run __futex_abstimed_wait_common64", Some("futex")),
            ("run a::b syscall", Some("a call of the system")),
            ("run a::read", None),
            ("run memcpy", None),
        ] {
            assert_eq!(wait(stack), call, "{stack}");
        }
        assert_eq!(waits_in(&[]), None);
    }

    #[test]
    fn stacks_beyond_the_bound_are_counted_together() {
        let mut counts = HashMap::new();
        for key in [1, 2, 3, 1, 4] {
            add(&mut counts, key, 0, 2, 10);
        }
        assert_eq!(counts, HashMap::from([(1, 20), (2, 10), (0, 20)]));
    }
}

//! What differs between two profiles, function by function.
//!
//! A function is charged with what it does itself and with what it has the standard library, the allocator and the system do for
//! it: that `malloc` costs more says little, who calls it says all.

use std::collections::HashMap;

use crate::Stacks;
use crate::stacks::{BESIDE_CODE, RUNS_ON, TASKS};

/// What a function cost in two profiles, in the unit of the profiles per operation, or per whatever they were divided by.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The function; closures in it count as the function itself.
    pub function: String,
    /// Before.
    pub base: f64,
    /// After.
    pub test: f64,
}

impl Change {
    /// How much more it costs.
    pub fn more(&self) -> f64 {
        self.test - self.base
    }
}

/// The functions whose cost differs, those that differ most first. Each profile comes with what it is divided by, its number of
/// operations say: two processes that did not do as much in the same time are compared by what one operation costs.
pub fn changes(base: (&Stacks, f64), test: (&Stacks, f64)) -> Vec<Change> {
    let mut costs: HashMap<&str, (f64, f64)> = HashMap::new();
    let (base_parts, test_parts) = (base.1.max(1.0), test.1.max(1.0));
    for (frames, value) in base.0.iter() {
        if let Some(function) = charged(frames) {
            costs.entry(function).or_default().0 += value as f64 / base_parts;
        }
    }
    for (frames, value) in test.0.iter() {
        if let Some(function) = charged(frames) {
            costs.entry(function).or_default().1 += value as f64 / test_parts;
        }
    }
    let change = |(function, (base, test)): (&str, (f64, f64))| Change { function: function.to_owned(), base, test };
    let mut changes: Vec<Change> = costs.into_iter().map(change).filter(|change| change.more() != 0.0).collect();
    changes.sort_by(|a, b| b.more().abs().total_cmp(&a.more().abs()).then_with(|| a.function.cmp(&b.function)));
    changes
}

/// The function that a stack is charged to: the last that is no library's, or the last of all. Of a task the innermost scope; of one
/// that runs none, for it is on the stack of its thread as well, by the functions that it is in, and would be charged twice.
fn charged<'a>(frames: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (mut last, mut last_of_ours) = ("", None);
    let mut frames = frames.peekable();
    let is_task = frames.peek() == Some(&TASKS);
    for frame in frames {
        if frame.starts_with(BESIDE_CODE) {
            if is_task && frame.starts_with(RUNS_ON) {
                return None;
            }
            continue;
        }
        last = frame;
        if is_task || !is_library(frame) {
            last_of_ours = Some(frame);
        }
    }
    let function = last_of_ours.unwrap_or(last);
    // `a::b::{{closure}}::{{closure}}` is `a::b`.
    Some(function.split("::{{closure}}").next().unwrap_or(function))
}

/// Crates that work for whoever calls them: what they cost is decided there.
const LIBRARIES: &[&str] = &[
    "std",
    "core",
    "alloc",
    "hashbrown",
    "bytes",
    "parking_lot",
    "parking_lot_core",
    "lock_api",
    "mio",
    "tokio",
    "futures_util",
    "stacker",
];

/// Whether a function works for whoever calls it: of such a library, or written in C.
fn is_library(function: &str) -> bool {
    // `<TYPE as TRAIT>::method` is of a library if both are, or if the type is none of any crate.
    let (own, of) = match function.strip_prefix('<').and_then(|rest| rest.split_once(" as ")) {
        Some((own, of)) => (own, of),
        None => (function, ""),
    };
    is_of_a_library(own) && is_of_a_library(of)
}

/// Whether a path begins with the name of such a crate, or with none.
fn is_of_a_library(path: &str) -> bool {
    let path = path.trim_start_matches(['<', '&', '*', '[', '(']).trim_start_matches("mut ").trim_start_matches("dyn ");
    match path.split_once("::") {
        Some((root, _)) => LIBRARIES.contains(&root),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Stacks {
        Stacks::parse(text).unwrap()
    }

    #[test]
    fn the_function_that_has_more_done_for_it_is_named_first() {
        let base = of("main;a::run;a::decode 50\nmain;a::run;a::answer;memcpy 50\n");
        let test = of("main;a::run;a::decode 50\nmain;a::run;a::answer;memcpy 50\n\
                       main;a::run;a::answer;a::grow::{{closure}};<alloc::vec::Vec<T> as core::clone::Clone>::clone;malloc 100\n");
        let changes = changes((&base, 10.0), (&test, 10.0));
        assert_eq!(changes, [Change { function: "a::grow".into(), base: 0.0, test: 10.0 }]);
    }

    #[test]
    fn an_operation_that_costs_the_same_is_no_change_however_many_there_were() {
        let (base, test) = (of("main;a::run 100\n"), of("main;a::run 50\n"));
        assert_eq!(changes((&base, 10.0), (&test, 5.0)), []);
        let changes = changes((&base, 10.0), (&test, 10.0));
        assert_eq!(changes[0].more(), -5.0);
    }

    #[test]
    fn what_libraries_do_is_their_callers() {
        for library in [
            "malloc",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<&mio::net::tcp::stream::TcpStream as std::io::Write>::write",
            "<&mut T as core::fmt::Write>::write_str",
            "<std::sys::thread::unix::Thread>::new",
        ] {
            assert!(is_library(library), "{library}");
        }
        for ours in [
            "ashlar_store::region::Region::get",
            "<ashlar_base::Value as core::clone::Clone>::clone",
            "<T as ashlar_query::walk::Walk>::walk",
            "<arrow_array::array::Array as core::fmt::Debug>::fmt",
            "alloc_of_ours::x",
        ] {
            assert!(!is_library(ours), "{ours}");
        }
    }

    #[test]
    fn a_task_is_charged_to_the_scope_that_it_is_in_and_a_thread_that_waits_to_its_function() {
        let base = of("tasks;connection;socket read 4\nquery;a::run;syscall;[in futex] 2\n");
        let test = of("tasks;connection;socket read 1\ntasks;connection;statement;planted wait 2\n\
                       query;a::run;syscall;[in futex] 3\n");
        let changes = changes((&base, 1.0), (&test, 1.0));
        let named: Vec<(&str, f64)> = changes.iter().map(|change| (&change.function[..], change.more())).collect();
        assert_eq!(named, [("socket read", -3.0), ("planted wait", 2.0), ("a::run", 1.0)]);
    }

    #[test]
    fn a_task_that_runs_is_charged_once_on_its_thread() {
        let base = of("tasks;connection;socket read 4\ndoor;a::poll;syscall;[in epoll_wait] 4\n");
        let test = of("tasks;connection;[runs on door] 4\ndoor;a::poll;a::stuck;syscall;[in futex] 4\n");
        let changes = changes((&base, 1.0), (&test, 1.0));
        let named: Vec<&str> = changes.iter().map(|change| &change.function[..]).collect();
        assert_eq!(named, ["a::poll", "a::stuck", "socket read"]);
    }

    #[test]
    fn a_stack_of_libraries_alone_is_charged_to_its_last() {
        let changes = changes((&of("clone3;start_thread 1\n"), 1.0), (&Stacks::default(), 1.0));
        assert_eq!(changes[0].function, "start_thread");
    }
}

//! Rules about single source files.

use std::collections::BTreeMap;

use super::tree::{Tree, code_lines, has_word};

/// Files longer than this are listed in the ratchet and may only shrink.
const LINES_MAX: usize = 800;
const RATCHET: &str = "xtask/ratchet.txt";

/// The rules themselves and their tests have to name what they forbid.
const OURSELVES: &str = "xtask/src/tidy";

/// Marks of work that is not done.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!", "FIXME", "TODO", "#[ignore"];

/// Places that may sleep, each with its reason.
const SLEEPERS: &[(&str, &str)] = &[
    ("crates/server/src/door/http/doorway.rs", "as the two below: the time of a request, and no file handles"),
    (
        "crates/lab/src/clock.rs",
        "load is offered at given moments, and the servers of the lab are polled until they answer",
    ),
    ("crates/server/src/door/idle.rs", "the idle limit of a connection is a length of time"),
    (
        "crates/server/src/runtime.rs",
        "backs off when the system has no file handles, and bounds the goodbye at the end",
    ),
    ("crates/query/src/sharded/ddl.rs", "what takes a change back has a length of time for it"),
    ("crates/server/src/session/sql/calls.rs", "pg_sleep is a length of time"),
    ("crates/server/src/session/sql/limit.rs", "statement_timeout is a length of time"),
    ("crates/shard/src/pool.rs", "connections that nobody uses are closed after a time"),
    ("crates/shard/src/fleet/warm.rs", "servers are looked at from time to time for connections that are missing"),
    ("crates/shard/src/deadlock.rs", "who waits is looked at when he has waited for a length of time"),
    ("crates/shard/src/two_phase.rs", "a shard that is away is asked again after a time"),
    ("crates/shard/src/health.rs", "servers are looked at from time to time"),
    ("crates/shard/src/workers.rs", "a lease is renewed a length of time before it ends"),
    ("crates/lab/src/targets/noop/plant.rs", "a sleep where none should be is what the lab has to find"),
    ("crates/telemetry/src/profile/cpu.rs", "a profile is of a length of time"),
    ("crates/telemetry/src/profile/heap.rs", "a profile is of a length of time"),
    ("crates/telemetry/src/profile/wall.rs", "threads are sampled so many times a second"),
    ("tests/it/faults.rs", "measures CPU time over a length of time, and repeats a request that may come too early"),
    ("tests/src/process.rs", "polls another process with a deadline; there is no event to wait for"),
];

/// Where unsafe code may live. The tests count allocations, and an allocator is unsafe to write.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/store/src/segment",
    "crates/operators/src/hash_table/machine.rs",
    "crates/query/src/counting.rs",
    "crates/telemetry/src/profile/sampler.rs",
    "crates/store/tests/allocations.rs",
    "crates/protocol/tests/allocations.rs",
    "crates/server/tests/allocations.rs",
    "crates/operators/tests/memory.rs",
];

/// How packages and compiled programs are named.
const PACKAGES: &[&str] = &[".whl", ".jar", ".zip", ".gz", ".xz", ".deb", ".crate", ".so", ".class", ".exe"];

/// Starts of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/work/", "/root/", "/home/", "/Users/"];

/// Each file starts by saying what it is.
pub(super) fn headers(tree: &Tree) -> Vec<String> {
    let silent = tree.ending(".rs").filter(|(_, text)| !text.starts_with("//! "));
    silent.map(|(path, _)| format!("{path}:1: the first line must be `//!` and say what the file is")).collect()
}

/// The ratchet: no file grows beyond the limit, and listed files only shrink.
pub(super) fn length(tree: &Tree) -> Vec<String> {
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in tree.text(RATCHET).unwrap_or("").lines().filter(|line| !line.starts_with('#')) {
        if let Some((count, path)) = line.split_once(' ')
            && let Ok(count) = count.parse()
        {
            listed.insert(path, count);
        }
    }
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let lines = text.lines().count();
        match listed.remove(path) {
            None if lines > LINES_MAX => {
                problems.push(format!(
                    "{path}: {lines} lines; at {LINES_MAX} ask what second thing it does, and divide it"
                ));
            }
            Some(limit) if lines > limit => {
                problems.push(format!("{path}: {lines} lines; it is in {RATCHET} with {limit} and may only shrink"));
            }
            Some(limit) if lines <= LINES_MAX || lines < limit => {
                problems.push(format!(
                    "{RATCHET}: {path} has {lines} lines now: write that, or take it out at {LINES_MAX}"
                ));
            }
            _ => {}
        }
    }
    problems.extend(listed.keys().map(|path| format!("{RATCHET}: {path} does not exist")));
    problems
}

/// Nothing is left for later in the source.
pub(super) fn words(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !path.starts_with(OURSELVES)) {
        for (index, line) in text.lines().enumerate() {
            for word in UNFINISHED.iter().filter(|word| contains_mark(line, word)) {
                problems.push(format!("{path}:{}: {word}", index + 1));
            }
        }
    }
    problems
}

/// What a test prints is shown only where it fails: that it cannot be done here it says by a function, and is counted.
pub(super) fn skips(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !path.starts_with(OURSELVES)) {
        for (number, line) in code_lines(text) {
            let line = line.to_lowercase();
            if line.contains("print!(\"skip") || line.contains("println!(\"skip") {
                problems.push(format!("{path}:{number}: a test that cannot be done says so by `skipped`"));
            }
        }
    }
    problems
}

/// Waiting is for events. The few places that must poll are listed with their reason.
pub(super) fn sleeps(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !path.starts_with(OURSELVES)) {
        if SLEEPERS.iter().any(|(place, _)| *place == path) {
            continue;
        }
        for (number, line) in code_lines(text) {
            if line.contains("thread::sleep") || line.contains("time::sleep") {
                problems.push(format!(
                    "{path}:{number}: sleeps; wait for the event, or list the place with its reason in tidy"
                ));
            }
        }
    }
    problems
}

/// `unsafe` only where it was decided to be.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    let outside = |path: &str| !path.starts_with(OURSELVES) && !UNSAFE_ROOMS.iter().any(|room| path.starts_with(room));
    for (path, text) in tree.ending(".rs").filter(|(path, _)| outside(path)) {
        for (number, line) in code_lines(text) {
            if ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern"]
                .iter()
                .any(|form| line.contains(form))
            {
                problems.push(format!("{path}:{number}: unsafe code outside its rooms ({})", UNSAFE_ROOMS.join(", ")));
            }
        }
    }
    problems
}

/// The repository works wherever it is cloned.
pub(super) fn machine_paths(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in tree.all().filter(|(path, _)| !path.starts_with(OURSELVES)) {
        for (index, line) in text.lines().enumerate() {
            for start in MACHINE_PATHS.iter().filter(|start| starts_a_path(line, start)) {
                problems.push(format!("{path}:{}: names a path under {start}", index + 1));
            }
        }
    }
    problems
}

/// What a package manager delivers is fetched by `./x setup`, and what a compiler makes is made again.
pub(super) fn packages(tree: &Tree) -> Vec<String> {
    let is_one = |path: &&str| PACKAGES.iter().any(|ending| path.ends_with(ending));
    let found = tree.all().map(|(path, _)| path).filter(is_one);
    found.map(|path| format!("{path}: a package or a program; let `./x setup` fetch it, or build it")).collect()
}

/// `TODO` is a mark, `TODOS` and `mastodon!` are not.
fn contains_mark(line: &str, mark: &str) -> bool {
    if mark.ends_with(['!', '[']) || mark.starts_with('#') {
        return line.match_indices(mark).any(|(at, _)| {
            !line[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_')
        });
    }
    has_word(line, mark)
}

/// Whether an absolute path begins with `start` here: what stands before is no part of a longer path.
fn starts_a_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "._-/~}*".contains(before))
    })
}

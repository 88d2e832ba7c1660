//! The program says which function is to blame: regressions are planted into its own server, and found by their names.
//!
//! So few requests that the servers are mostly idle: these tests run beside others, though not beside each other.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A short run under a small load, with the cores left to the system.
const SMALL: &[&str] = &[
    "run",
    "kv-get",
    "--target",
    "noop",
    "--keys",
    "100",
    "--threads",
    "2",
    "--rate",
    "800",
    "--warm-up",
    "0",
    "--seconds",
    "2",
    "--repeat",
    "2",
    "--server-cores",
    "none",
    "--client-cores",
    "none",
];

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ashlar-lab")).args(arguments).output().unwrap()
}

/// Standard output of a call that may end with status 1: something became slower.
#[track_caller]
fn text(arguments: &[&str]) -> String {
    let output = lab(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The folder of a run with these arguments besides.
fn run(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let out = folder.join(name);
    text(&[SMALL, arguments, &["--out", out.to_str().unwrap()]].concat());
    out
}

/// The functions that grew most, from the table under this title: what they took, others may have lost.
fn grown(table: &str, title: &str) -> Vec<String> {
    let rows = table.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let rows = rows.take_while(|line| line.starts_with(&" ".repeat(30)));
    let cells = rows.map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<&str>>());
    cells.filter(|cells| cells[2].starts_with('+')).map(|cells| cells[3].to_owned()).collect()
}

/// One run at a time: beside each other they would find what disturbs them.
static ALONE: Mutex<()> = Mutex::new(());

/// Tries to find a plant. Where others have used the machine a run may have fallen behind, and what it was slow in may be they.
const TRIES: usize = 4;

/// Among so many functions that a difference names must be the one that was planted.
const FIRST: usize = 3;

/// A profile of this kind names the function of each plant among the first.
fn is_found(kind: &str, title: &str, plants: &[(&str, &str)]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // One run without a plant for all of them.
    let mut base = without_plant(kind);
    for plant in plants {
        for tries_left in (0..TRIES).rev() {
            let Err(found) = look_for(kind, title, plant, &base) else { break };
            assert!(tries_left > 0 && found.contains("DISTURBED"), "{found}");
            // It may be this one that others were in the way of.
            base = without_plant(kind);
        }
    }
}

/// The folder of a run without a plant, in one that goes with it.
struct Base {
    _folder: tempfile::TempDir,
    run: PathBuf,
}

fn without_plant(kind: &str) -> Base {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "base", &["--profile", kind]);
    Base { _folder: folder, run }
}

/// What was found instead, if the function is not among the first.
fn look_for(kind: &str, title: &str, (plant, function): &(&str, &str), base: &Base) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let base = &base.run;
    let test = run(folder.path(), plant, &["--profile", kind, "--plant", plant]);
    let output = lab(&["compare", base.to_str().unwrap(), test.to_str().unwrap()]);
    let table = String::from_utf8(output.stdout).unwrap();
    let said = format!("{table}\n{}", String::from_utf8_lossy(&output.stderr));
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(said);
    }
    let grown = grown(&table, title);
    let is_planted = |name: &String| name.ends_with(&format!("noop::plant::{function}"));
    if !grown.iter().take(FIRST).any(is_planted) {
        return Err(format!("{plant} is not among the first {FIRST}:\n{said}"));
    }
    let page = std::fs::read_to_string(test.join(format!("difference-noop-2-{kind}-test.svg"))).unwrap();
    assert!(page.contains(&format!("noop::plant::{function}")), "{plant}");
    Ok(())
}

#[test]
fn a_function_that_computes_is_found_by_processor_time() {
    is_found("cpu", "CPU per operation", &[("spin", "spin")]);
}

#[test]
fn a_function_that_waits_and_a_scope_in_which_a_task_does_are_found_by_the_time_of_threads_and_tasks() {
    // The thread that has the lock is as new as the one that waits for it, and has it for longer.
    let plants = [("sleep", "sleep"), ("lock", "wait_for_the_lock"), ("wait", "wait")];
    is_found("wall", "threads and tasks at a time", &plants);
}

#[test]
fn a_function_that_allocates_is_found_by_what_was_allocated() {
    is_found("allocations", "memory allocated per operation", &[("allocate", "allocate")]);
}

#[test]
fn a_run_with_profiles_is_unlike_one_without() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (with, without) = (run(folder.path(), "with", &["--profile", "cpu"]), run(folder.path(), "without", &[]));
    let output = lab(&["compare", with.to_str().unwrap(), without.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("unlike") && text.contains("profiled [\"cpu\"]"), "{text}");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = ashlar_base::net::connect_blocking(address, Duration::from_secs(5)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The media type and the body of a page, for a client that would like this best.
fn page(address: SocketAddr, path: &str, accept: &str) -> (String, Vec<u8>) {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.0\r\nHost: lab\r\nAccept: {accept}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    assert_eq!(head.split(' ').nth(1), Some("200"), "{head}");
    let media = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap().to_owned();
    (media, answer.split_off(end))
}

/// The first of a few that has what it should: a second of a busy machine may pass without a sample of what takes little of it.
fn with<T>(take: impl Fn() -> T, has: impl Fn(&T) -> bool) -> T {
    (1..TRIES).map(|_| take()).find(has).unwrap_or_else(take)
}

/// The numbers of the outermost fields of a protocol buffer, and its texts: those of field 6.
fn fields(mut bytes: &[u8]) -> (BTreeSet<u64>, Vec<String>) {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().position(|byte| *byte < 128).unwrap() + 1;
        let (number, rest) = bytes.split_at(length);
        *bytes = rest;
        number.iter().rev().fold(0, |all, byte| (all << 7) | u64::from(byte & 127))
    }
    let (mut numbers, mut texts) = (BTreeSet::new(), Vec::new());
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        numbers.insert(tag >> 3);
        match tag & 7 {
            0 => drop(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                if tag >> 3 == 6 {
                    texts.push(String::from_utf8(value.to_vec()).unwrap());
                }
            }
            other => panic!("wire type {other}"),
        }
    }
    (numbers, texts)
}

/// Ends what it is of, whatever becomes of the test.
struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn every_profile_is_given_to_pprof_and_drawn_for_browsers() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let mut server = Command::new(env!("CARGO_BIN_EXE_ashlar-lab"))
        .args(["noop-server", "--value-bytes", "8", "--plant", "allocate", "--ready-file"])
        .arg(&ready)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Guard(|| {
        server.kill().unwrap();
        server.wait().unwrap();
    });
    let doors: Vec<SocketAddr> = loop {
        match std::fs::read_to_string(&ready) {
            Ok(text) => break text.lines().map(|line| line.parse().unwrap()).collect(),
            Err(_) => std::thread::yield_now(),
        }
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Commands, so that there is something to see.
        scope.spawn(|| {
            let (mut stream, mut reply) = (connect(doors[0]), [0; 5]);
            while !over.load(Ordering::Relaxed) {
                stream.write_all(b"*3\r\n$3\r\nSET\r\n$16\r\nlab:000000000001\r\n$1\r\nx\r\n").unwrap();
                stream.read_exact(&mut reply).unwrap();
            }
        });
        let _commands = Guard(|| over.store(true, Ordering::Relaxed));
        for (kind, value, named) in [
            ("cpu", "cpu", "noop::plant::allocate"),
            ("wall", "wall", "socket read"),
            ("allocations", "alloc_space", "noop::plant::allocate"),
            ("heap", "inuse_space", ""),
        ] {
            let path = format!("/debug/profile/{kind}?seconds=1");
            let taken = || {
                let (media, body) = page(doors[2], &path, "*/*");
                assert_eq!(media, "application/octet-stream", "{kind}");
                fields(&body)
            };
            let (numbers, texts) = with(taken, |(_, texts)| texts.iter().any(|text| text.ends_with(named)));
            assert!(numbers.contains(&1) && numbers.contains(&10), "{kind}: {numbers:?}");
            assert!(texts[0].is_empty() && texts.iter().any(|text| text == value), "{kind}: {texts:?}");
            assert!(texts.iter().any(|text| text.ends_with(named)), "{kind}: {texts:?}");
            let drawn = || {
                let (media, body) = page(doors[2], &path, "text/html,application/xhtml+xml");
                assert_eq!(media, "image/svg+xml", "{kind}");
                String::from_utf8(body).unwrap()
            };
            let drawing = with(drawn, |drawing| drawing.contains(named));
            assert!(drawing.contains("<svg") && drawing.contains(named), "{kind}: {drawing}");
            let fetched = ["href=\"http", "src=\"http", "@import"].iter().any(|part| drawing.contains(part));
            assert!(!fetched, "{kind}: {drawing}");
        }
    });
}

//! Memory: jemalloc notes the stack of one allocation in so many bytes while it is told to, and what has become of it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tikv_jemalloc_ctl::{Access, AsName};
use tokio::sync::MutexGuard;
use tokio::task::spawn_blocking;

use super::symbols::Symbols;
use crate::Stacks;

/// Which bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Those that are still held.
    Held,
    /// All that were allocated.
    Allocated,
}

/// What jemalloc has written.
pub(super) struct Dump(String);

/// `taking` is as of processor time.
pub(super) async fn take(time: Duration, taking: MutexGuard<'static, ()>) -> Result<Dump> {
    let can = b"opt.prof\0"[..].name().read().unwrap_or(false);
    if !can {
        bail!("this program was not built or not started with jemalloc's profiling");
    }
    // What earlier profiles noted is forgotten.
    let size: usize = b"opt.lg_prof_sample\0"[..].name().read().map_err(told("say how it samples"))?;
    b"prof.reset\0"[..].name().write(size).map_err(told("forget its samples"))?;
    let sampling = Sampling::start()?;
    tokio::time::sleep(time).await;
    drop(sampling);
    spawn_blocking(move || {
        let _taking = taking;
        dump().map(Dump)
    })
    .await?
}

impl Dump {
    /// Looks up the names, as samples of time do.
    pub(super) fn stacks(&self, of: Of) -> Result<Stacks> {
        let mut symbols = Symbols::default();
        stacks(&self.0, of, |address| symbols.at(address).to_vec())
    }
}

/// An error of jemalloc, which is none of the standard library's.
fn told(what: &str) -> impl Fn(tikv_jemalloc_ctl::Error) -> anyhow::Error {
    move |error| anyhow!("jemalloc does not {what}: {error}")
}

/// Samples while it lives.
struct Sampling;

impl Sampling {
    fn start() -> Result<Self> {
        b"prof.active\0"[..].name().write(true).map_err(told("start to sample"))?;
        Ok(Self)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        if let Err(error) = b"prof.active\0"[..].name().write(false) {
            tracing::warn!(%error, "jemalloc goes on sampling");
        }
    }
}

/// What jemalloc writes of its samples, into a folder that nobody else can look into.
fn dump() -> Result<String> {
    /// The folder's path, and its file's in the form that jemalloc takes. Chosen once, for jemalloc wants a name that stays.
    static PLACE: OnceLock<(PathBuf, String)> = OnceLock::new();
    if PLACE.get().is_none() {
        let folder = tempfile::Builder::new().prefix("ashlar-heap-").tempdir()?;
        let path = folder.path().to_owned();
        let file = format!("{}/samples\0", path.display());
        // Another thread cannot have been here: one profile is taken at a time.
        let _ = PLACE.set((path, file));
    }
    let (folder, file) = PLACE.get().context("there is no folder for temporary files")?;
    // Fails where somebody else has made one of this name.
    DirBuilder::new().mode(0o700).create(folder).with_context(|| folder.display().to_string())?;
    let written = "prof.dump\0".name().write(file.as_str()).map_err(told("write its samples"));
    let text = written.and_then(|()| Ok(std::fs::read_to_string(file.trim_end_matches('\0'))?));
    std::fs::remove_dir_all(folder)?;
    text
}

/// Reads `heap_v2`, jemalloc's format.
///
/// ```text
/// heap_v2/524288                      bytes from one sample to the next, on average
///   t*: 3: 96 [7: 224]                everything: objects and bytes held [and allocated]
/// @ 0x40 0x30 0x20                    a stack, the leaf first
///   t*: 3: 96 [7: 224]                what was sampled of it; then a line for each thread
/// MAPPED_LIBRARIES:                   ...
/// ```
fn stacks(text: &str, of: Of, mut names: impl FnMut(usize) -> Vec<String>) -> Result<Stacks> {
    let mut lines = text.lines();
    let head = lines.next().and_then(|line| line.strip_prefix("heap_v2/")).context("no heap profile of jemalloc")?;
    let rate: f64 = head.trim().parse()?;
    let mut stacks = Stacks::default();
    let mut stack: Vec<usize> = Vec::new();
    for line in lines.take_while(|line| !line.starts_with("MAPPED_LIBRARIES")) {
        if let Some(addresses) = line.strip_prefix('@') {
            let address = |text: &str| usize::from_str_radix(text.trim_start_matches("0x"), 16);
            stack = addresses.split_whitespace().map(address).collect::<Result<_, _>>()?;
        } else if let Some(counts) = line.trim_start().strip_prefix("t*:")
            && !stack.is_empty()
        {
            let numbers: Vec<f64> = counts
                .split(|letter: char| !letter.is_ascii_digit())
                .filter(|number| !number.is_empty())
                .map(str::parse)
                .collect::<Result<_, _>>()?;
            let [held, held_bytes, allocated, allocated_bytes] = numbers[..] else { bail!("no counts: {line:?}") };
            let (objects, bytes) = match of {
                Of::Held => (held, held_bytes),
                Of::Allocated => (allocated, allocated_bytes),
            };
            let mut frames: Vec<String> = stack.iter().rev().flat_map(|address| names(*address)).collect();
            frames.retain(|name| !is_of_the_allocator(name));
            stacks.add_sampled(&frames, unsampled(objects, bytes, rate));
            stack.clear();
        }
    }
    Ok(stacks)
}

/// What there was, as far as samples tell: an allocation of `size` bytes is sampled with the probability `1 - e^(-size / rate)`.
fn unsampled(objects: f64, bytes: f64, rate: f64) -> u64 {
    if objects == 0.0 || bytes == 0.0 {
        return 0;
    }
    let probability = 1.0 - (-(bytes / objects) / rate).exp();
    (bytes / probability).round() as u64
}

/// Frames below the allocation that everything has.
fn is_of_the_allocator(name: &str) -> bool {
    name.starts_with("prof_backtrace") || name.starts_with("_rjem_") || name.starts_with("je_") || name == "imalloc"
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "heap_v2/524288\n  t*: 4: 1048600 [7: 3145752]\n  t0: 4: 1048600 [7: 3145752]\n\
        @ 0x41 0x31 0x21\n  t*: 1: 1048576 [3: 3145728]\n  t0: 1: 1048576 [3: 3145728]\n\
        @ 0x51 0x21\n  t*: 0: 0 [1: 24]\n\nMAPPED_LIBRARIES:\n@ 0x1\n";

    fn read(of: Of) -> Stacks {
        stacks(DUMP, of, |address| vec![format!("f{address:x}")]).unwrap()
    }

    #[test]
    fn samples_stand_for_what_they_were_drawn_from() {
        let held = read(Of::Held);
        // One of a megabyte is sampled nearly always: 1 / (1 - e^-2).
        assert_eq!(held.folded(), "f21;f31;f41 1212697\n");
        let allocated = read(Of::Allocated);
        let values: Vec<u64> = allocated.iter().map(|(_, value)| value).collect();
        // One of 24 bytes stands for half a megabyte of them.
        assert_eq!(values, [3_638_090, 524_300]);
    }

    #[test]
    fn what_is_no_dump_is_refused() {
        assert!(stacks("", Of::Held, |_| Vec::new()).is_err());
        assert!(stacks("heap_v2/8\n@ 0x1\n  t*: 1: 1\n", Of::Held, |_| Vec::new()).is_err());
    }
}

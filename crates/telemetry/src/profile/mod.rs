//! Profiles of this process, taken while it works: of its processors' time, of the time of its threads and tasks, and of its memory.
//!
//! One is taken at a time. Nothing is spent while none is; after the first, some 20 MB stay with the sampler. However long one takes,
//! what it keeps is bounded.

mod cpu;
mod heap;
pub mod request;
mod sampler;
mod samples;
mod symbols;
mod wall;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::pprof::ValueType;
use crate::{Stacks, flame, pprof};

/// The longest that a profile may take, in seconds.
pub const SECONDS_MAX: u32 = 600;

/// Samples a second of the profiles of time. No divisor of what else happens so many times a second.
const HERTZ: i32 = 99;

/// What is profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What the processors do: samples of threads that run.
    Cpu,
    /// What the threads and the tasks do, waiting included: samples of all of them.
    Wall,
    /// What was allocated meanwhile, and is still held at the end.
    Heap,
    /// What was allocated meanwhile, whatever became of it.
    Allocations,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Wall, Self::Heap, Self::Allocations];

    /// Its name in addresses and in names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::Heap => "heap",
            Self::Allocations => "allocations",
        }
    }

    /// What its values count.
    pub fn value_type(self) -> ValueType {
        let (kind, unit) = match self {
            Self::Cpu => ("cpu", "nanoseconds"),
            Self::Wall => ("wall", "nanoseconds"),
            Self::Heap => ("inuse_space", "bytes"),
            Self::Allocations => ("alloc_space", "bytes"),
        };
        ValueType { kind, unit }
    }

    /// What it shows, in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "processor time",
            Self::Wall => "time of all threads and tasks, waiting included",
            Self::Heap => "memory allocated and still held",
            Self::Allocations => "memory allocated",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no profile {text:?}; there are {names}")
        })
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Another one is being taken.
    #[error("another profile is being taken; ask again when it has ended")]
    Busy,
    /// This build or this machine cannot.
    #[error("{0}")]
    Unavailable(String),
}

/// A profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What it is of.
    pub kind: Kind,
    /// How long was sampled.
    pub took: Duration,
    /// Nanoseconds or bytes.
    pub stacks: Stacks,
}

/// The form in which a profile is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The protocol buffer of `pprof`.
    Pprof,
    /// A page of SVG.
    FlameGraph,
    /// A line for each stack.
    Folded,
}

impl Format {
    const ALL: [(&'static str, Self); 3] =
        [("pprof", Self::Pprof), ("flamegraph", Self::FlameGraph), ("folded", Self::Folded)];

    /// As HTTP names it.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Pprof => "application/octet-stream",
            Self::FlameGraph => "image/svg+xml",
            Self::Folded => "text/plain; charset=utf-8",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(|(name, _)| name).join(", ");
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| format).ok_or_else(|| format!("there is no format {text:?}; there are {names}"))
    }
}

/// One at a time: there is one signal, one timer and one switch of the allocator.
static TAKING: Mutex<()> = Mutex::const_new(());

/// How long one waits for another that is about to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was noted, and is still to be read: no profile has to wait for that of another.
enum Noted {
    Samples(samples::Samples),
    Heap(heap::Dump),
}

/// Takes a profile of this process, which goes on working, for so long. Reading the names of its functions takes longer the first
/// time.
///
/// # Errors
/// [`ProfileError::Busy`] while another one is being taken; [`ProfileError::Unavailable`] where this build or machine cannot.
pub async fn take(kind: Kind, time: Duration) -> Result<Profile, ProfileError> {
    let unavailable = |error: anyhow::Error| ProfileError::Unavailable(format!("{error:#}"));
    let taking = tokio::time::timeout(PATIENCE, TAKING.lock()).await.map_err(|_| ProfileError::Busy)?;
    let noted = match kind {
        Kind::Cpu => cpu::take(time, taking).await.map(Noted::Samples),
        Kind::Wall => wall::take(time, taking).await.map(Noted::Samples),
        Kind::Heap | Kind::Allocations => heap::take(time, taking).await.map(Noted::Heap),
    }
    .map_err(unavailable)?;
    let read = move || match noted {
        Noted::Samples(samples) => Ok(samples.stacks()),
        Noted::Heap(dump) => dump.stacks(if kind == Kind::Heap { heap::Of::Held } else { heap::Of::Allocated }),
    };
    let stacks = tokio::task::spawn_blocking(read).await.map_err(anyhow::Error::from).and_then(|read| read);
    Ok(Profile { kind, took: time, stacks: stacks.map_err(unavailable)? })
}

impl Profile {
    /// Its bytes in a format.
    ///
    /// # Errors
    /// Those of drawing, which is into memory: none that is known.
    pub fn write(&self, format: Format) -> std::io::Result<Vec<u8>> {
        Ok(match format {
            Format::Pprof => {
                let took = i64::try_from(self.took.as_nanos()).unwrap_or(i64::MAX);
                let now = ashlar_base::clock::wall_micros().saturating_mul(1000);
                pprof::encode(&self.stacks, self.kind.value_type(), now, took)
            }
            Format::FlameGraph => flame::page(&self.stacks, self.kind.title(), self.kind.value_type().unit)?,
            Format::Folded => self.stacks.folded().into_bytes(),
        })
    }
}

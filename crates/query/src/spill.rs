//! Temporary files for what does not fit in memory: one folder for each process, in a directory that the configuration names.
//!
//! ```text
//! query.spill_dir/          made with access for its owner alone
//!     lock                  held while somebody starts
//!     ashlar-4711-0/        the files of process 4711
//!         lock              held while it lives
//!         0, 1, 2, ...      gone when whoever wrote them no longer wants them
//! ```
//!
//! A process that is killed leaves its folder behind; the next one that starts finds that nobody holds its lock any more, and removes
//! it. Created once, by the engine; DataFusion's operators and ours write through it. The bytes of all files together are bounded, and
//! so is the number of open files: a file is opened when it is written or read, and closed when another one needs its place. `writer`
//! describes how bytes come into a file.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::error::{disk_full, external, from_io};
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use parking_lot::Mutex;

mod writer;

use writer::Writer;

/// Begins the name of a process's folder.
const PREFIX: &str = "ashlar-";
/// The file that says, by whether somebody holds it, whether somebody is there.
const LOCK: &str = "lock";
/// Bytes that are read of a file at once: fewer hops between threads than with less, and no faster with more.
const READ_BYTES: u64 = 128 << 10;
/// Files that are open at once, however many there are. Operators that have little memory keep many files, each of them until
/// its turn to be read comes, and a process often has 1,024 descriptors for all that it does: clients need the most of them.
const OPEN_MAX: usize = 128;

/// Where files go, and how many.
#[derive(Clone, Debug)]
pub struct SpillConfig {
    /// The directory under which each process has its folder. None for one of the user's own, in the system's folder for
    /// temporary files.
    pub dir: Option<PathBuf>,
    /// Bytes of the files of all queries.
    pub bytes_max: u64,
}

/// What the files take, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillStatistics {
    /// Bytes of the files that there are, with those that are on their way to them.
    pub bytes: u64,
    /// Files that there are.
    pub files: u64,
    /// Bytes written since the start.
    pub written: u64,
    /// Bytes that they may take.
    pub bytes_max: u64,
}

/// The folder of this process.
pub(crate) struct SpillDir(Arc<Folder>);

struct Folder {
    path: PathBuf,
    bytes_max: u64,
    bytes: AtomicU64,
    files: AtomicU64,
    written: AtomicU64,
    named: AtomicU64,
    /// Those that are open: each file has its place by its number, so that files of one operator, which were made one after the
    /// other, are in nobody's way.
    places: Box<[Place]>,
    /// Held while the process lives.
    _lock: File,
}

/// A file that is open, with its number. Locked while it is written or read: then no more are open than there are places.
type Place = Mutex<Option<(u64, File)>>;

/// The directory where none is configured: this user's own, in the system's folder for temporary files.
pub(crate) fn default_dir() -> PathBuf {
    std::env::temp_dir().join(format!("ashlar-spill-{}", user()))
}

#[cfg(target_os = "linux")]
fn user() -> String {
    rustix::process::getuid().as_raw().to_string()
}

#[cfg(not(target_os = "linux"))]
fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "files".to_owned())
}

impl SpillDir {
    /// Makes the folder of this process, and removes those of processes that are gone.
    ///
    /// # Errors
    /// 58030 where the directory cannot be made, or is the default one and another user's.
    pub(crate) fn open(config: &SpillConfig) -> Result<Self> {
        let dir = config.dir.clone().unwrap_or_else(default_dir);
        made(&dir, config.dir.is_none()).and_then(|()| open(&dir, config.bytes_max)).map(Self).map_err(|error| {
            let message = format!("the directory for temporary files cannot be used: {}: {error}", dir.display());
            Error::new(ErrorCode::IoError, message).with_hint("Set query.spill_dir.")
        })
    }

    /// What the files take.
    pub(crate) fn statistics(&self) -> SpillStatistics {
        SpillStatistics {
            bytes: self.0.bytes.load(Ordering::Relaxed),
            files: self.0.files.load(Ordering::Relaxed),
            written: self.0.written.load(Ordering::Relaxed),
            bytes_max: self.0.bytes_max,
        }
    }

    /// For DataFusion.
    pub(crate) fn factory(&self) -> Arc<dyn TempFileFactory> {
        Arc::new(Factory(Arc::clone(&self.0)))
    }
}

/// Makes the directory, if there is none. In a folder that everybody can write in, somebody else may have been there first.
fn made(dir: &Path, must_be_ours: bool) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    if must_be_ours && !is_ours(&fs::symlink_metadata(dir)?) {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    Ok(())
}

fn open(dir: &Path, bytes_max: u64) -> io::Result<Arc<Folder>> {
    // Whoever starts is alone: a folder without a lock is then nobody's.
    let starting = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK))?;
    starting.lock()?;
    remove_abandoned(dir)?;
    let process = std::process::id();
    let mut number = 0;
    let path = loop {
        let path = dir.join(format!("{PREFIX}{process}-{number}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => break path,
            // Another engine of this process, or a process that lives in another container.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    let lock = File::create_new(path.join(LOCK))?;
    lock.lock()?;
    let none = || AtomicU64::new(0);
    let (bytes, files, written, named) = (none(), none(), none(), none());
    let places = (0..OPEN_MAX).map(|_| Place::default()).collect();
    Ok(Arc::new(Folder { path, bytes_max, bytes, files, written, named, places, _lock: lock }))
}

#[cfg(target_os = "linux")]
fn is_ours(found: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(found) == rustix::process::getuid().as_raw()
}

#[cfg(not(target_os = "linux"))]
fn is_ours(_: &fs::Metadata) -> bool {
    true
}

/// Removes the folders whose locks nobody holds.
fn remove_abandoned(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        // Held until the folder is gone.
        let _lock = match locked(&path.join(LOCK)) {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "temporary files are left as they are");
                continue;
            }
        };
        match fs::remove_dir_all(&path) {
            Ok(()) => tracing::info!(path = %path.display(), "removed the temporary files of a process that is gone"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(path = %path.display(), %error, "temporary files cannot be removed"),
        }
    }
    Ok(())
}

/// The lock of a folder, where nobody holds it; none where the folder has not even one.
fn locked(path: &Path) -> std::result::Result<Option<File>, TryLockError> {
    match File::options().write(true).open(path) {
        Ok(lock) => lock.try_lock().map(|()| Some(lock)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TryLockError::Error(error)),
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is removed by the next that starts.
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the folder of temporary files is left");
        }
    }
}

impl Folder {
    /// Charges bytes that are about to be written.
    ///
    /// # Errors
    /// 53100
    fn charge(&self, bytes: u64) -> Result<()> {
        let max = self.bytes_max;
        let more = |used: u64| used.checked_add(bytes).filter(|total| *total <= max);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(disk_full(&format!("temporary files would take more than query.spill_mib_max, {} MiB", max >> 20))
                    .with_hint("Raise query.spill_mib_max, or let the query have more memory, or make it smaller."))
            }
        }
    }

    fn place(&self, number: u64) -> &Place {
        &self.places[number as usize % OPEN_MAX]
    }

    /// Does something with a file, which is opened if it is not open; `is_new` where there is none of that name yet.
    fn with_open<T>(
        &self,
        number: u64,
        path: &Path,
        is_new: bool,
        work: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut place = self.place(number).lock();
        // Another one that is open there is closed before.
        let own = place.take().filter(|(open, _)| *open == number);
        let mut file = match own {
            Some((_, file)) => file,
            // What is written comes behind what is there, wherever somebody has read.
            None => File::options().read(true).append(true).create_new(is_new).open(path)?,
        };
        let done = work(&mut file);
        *place = Some((number, file));
        done
    }

    /// Closes a file, if it is open.
    fn close(&self, number: u64) {
        let mut place = self.place(number).lock();
        if place.as_ref().is_some_and(|(open, _)| *open == number) {
            *place = None;
        }
    }
}

/// Makes the files.
struct Factory(Arc<Folder>);

impl TempFileFactory for Factory {
    fn create_temp_file(&self, _: &str) -> datafusion::common::Result<Arc<dyn SpillFile>> {
        let folder = &self.0;
        let number = folder.named.fetch_add(1, Ordering::Relaxed);
        let path = folder.path.join(number.to_string());
        folder.with_open(number, &path, true, |_| Ok(())).map_err(|error| external(from_io(&error)))?;
        folder.files.fetch_add(1, Ordering::Relaxed);
        let (bytes, is_broken) = (AtomicU64::new(0), AtomicBool::new(false));
        let content = Content { folder: Arc::clone(folder), number, path, bytes, is_broken };
        Ok(Arc::new(Spilled(Arc::new(content))))
    }
}

/// A file.
struct Spilled(Arc<Content>);

/// What is in a file; it goes with the last who writes or wants to read it.
struct Content {
    folder: Arc<Folder>,
    number: u64,
    path: PathBuf,
    /// Those that are there: what a writer keeps back is not.
    bytes: AtomicU64,
    /// Whether something could not be written: then nobody is to take what is there for all.
    is_broken: AtomicBool,
}

impl Content {
    fn with_open<T>(&self, work: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        self.folder.with_open(self.number, &self.path, false, work)
    }

    /// Looks whether all that was to be written is there, or on its way.
    ///
    /// # Errors
    /// 58030 where something is missing. Why, was told to whoever wrote it.
    fn must_be_whole(&self) -> Result<()> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorCode::IoError, "a temporary file lacks what could not be written to it"));
        }
        Ok(())
    }

    /// So many bytes from there on, if there are as many.
    fn read(&self, start: u64, count: u64) -> io::Result<Bytes> {
        let mut bytes = Vec::with_capacity(count as usize);
        self.with_open(|file| {
            file.seek(SeekFrom::Start(start))?;
            file.take(count).read_to_end(&mut bytes)
        })?;
        Ok(Bytes::from(bytes))
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.folder.close(self.number);
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a temporary file cannot be removed");
        }
        self.folder.bytes.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.folder.files.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SpillFile for Spilled {
    fn path(&self) -> Option<&Path> {
        Some(&self.0.path)
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(
        &self,
    ) -> datafusion::common::Result<Pin<Box<dyn Stream<Item = datafusion::common::Result<Bytes>> + Send>>> {
        let reader = (Arc::clone(&self.0), 0);
        Ok(Box::pin(futures::stream::try_unfold(reader, |(content, start): (Arc<Content>, u64)| async move {
            if let Err(error) = content.must_be_whole() {
                return Err(external(error));
            }
            let there = content.bytes.load(Ordering::Relaxed).saturating_sub(start);
            if there == 0 {
                return Ok::<_, DataFusionError>(None);
            }
            let read = tokio::task::spawn_blocking(move || {
                let bytes = content.read(start, there.min(READ_BYTES))?;
                Ok::<_, io::Error>((bytes, content))
            });
            let read = read.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            let (bytes, content) = read.map_err(|error| external(from_io(&error)))?;
            let start = start + bytes.len() as u64;
            Ok((!bytes.is_empty()).then_some((bytes, (content, start))))
        })))
    }

    fn open_writer(&self) -> datafusion::common::Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer::new(&self.0)))
    }
}

#[cfg(test)]
mod tests;

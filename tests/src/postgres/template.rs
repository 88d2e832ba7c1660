//! The cluster that the others are copies of: `initdb` runs once in a test process, and not once for each of its hundreds of servers.
//!
//! Called by `postgres` for every new cluster. A copy takes a tenth of the processor time of `initdb`, and has a system identifier of its
//! own, as what `initdb` makes has: a member tells its shards apart by it, and two alike would be taken for one.

use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;

use super::{initdb, owned, run};

/// What is known here of the files of a cluster is known of this version.
const VERSION: &str = "15";

/// The control file: the identifier is its first eight bytes.
const CONTROL: &str = "global/pg_control";

/// Where the checksum of all that is before it stands in the control file: `crc` of PostgreSQL's `ControlFileData`.
const CRC_AT: usize = 288;

/// Where a segment of the write-ahead log names the identifier: `xlp_sysid` of PostgreSQL's `XLogLongPageHeaderData`. The header of a page
/// has no checksum.
const NAMED_AT: u64 = 24;

/// Bits of an identifier that are of the process that made it; above them are microseconds.
const PROCESS_BITS: u32 = 12;

/// A cluster that never runs, in a folder that is gone when the test process has ended.
pub(super) struct Template {
    dir: TempDir,
    identifier: u64,
    copies: AtomicU64,
    _keeper: Child,
}

impl Template {
    /// That of this process; `None` where its copies could not be given identifiers, because PostgreSQL is of another version.
    pub(super) fn shared(bin: &Path, owner: Option<(u32, u32)>) -> Result<Option<&'static Template>> {
        static SHARED: OnceLock<Result<Option<Template>, String>> = OnceLock::new();
        match SHARED.get_or_init(|| Template::make(bin, owner).map_err(|error| format!("{error:#}"))) {
            Ok(template) => Ok(template.as_ref()),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    fn make(bin: &Path, owner: Option<(u32, u32)>) -> Result<Option<Template>> {
        let dir = tempfile::Builder::new().prefix("ashlar-template-").tempdir()?;
        if let Some((uid, gid)) = owner {
            chown(dir.path(), Some(uid), Some(gid))?;
        }
        let keeper = keep(dir.path())?;
        let data = dir.path().join("data");
        initdb(bin, &data, owner)?;
        if std::fs::read_to_string(data.join("PG_VERSION"))?.trim() != VERSION {
            return Ok(None);
        }
        let mut identifier = [0; 8];
        File::open(data.join(CONTROL))?.read_exact_at(&mut identifier, 0)?;
        let identifier = u64::from_ne_bytes(identifier);
        Ok(Some(Template { dir, identifier, copies: AtomicU64::new(0), _keeper: keeper }))
    }

    /// Makes a cluster in `data`, which is an empty folder or none yet.
    pub(super) fn copy(&self, data: &Path, owner: Option<(u32, u32)>) -> Result<()> {
        // Without options for holes or times: a segment of the log has its room on the disk, as one of `initdb` has.
        let mut command = owned(Command::new("cp"), owner);
        run(command.current_dir(self.dir.path()).args(["-R", "data/."]).arg(data))?;
        // Of a folder that was there, too: PostgreSQL refuses one that others may look into.
        std::fs::set_permissions(data, Permissions::from_mode(0o700))?;
        // As though `initdb` had run a microsecond later for each.
        let number = self.copies.fetch_add(1, Ordering::Relaxed) + 1;
        identify(data, self.identifier, self.identifier + (number << PROCESS_BITS))
    }
}

/// Gives a cluster that was shut down in good order another identifier: in the control file and in its log, which no server takes
/// that has another one. PostgreSQL checks both when it starts.
fn identify(data: &Path, old: u64, new: u64) -> Result<()> {
    let file = open(&data.join(CONTROL))?;
    let mut control = [0; CRC_AT + 4];
    file.read_exact_at(&mut control, 0)?;
    ensure!(control.ends_with(&crc32c(&control[..CRC_AT]).to_ne_bytes()), "the checksum of {CONTROL} is elsewhere");
    control[..8].copy_from_slice(&new.to_ne_bytes());
    let sum = crc32c(&control[..CRC_AT]).to_ne_bytes();
    control[CRC_AT..].copy_from_slice(&sum);
    file.write_all_at(&control, 0)?;
    for entry in std::fs::read_dir(data.join("pg_wal"))? {
        let path = entry?.path();
        if path.is_file() {
            let segment = open(&path)?;
            let mut named = [0; 8];
            segment.read_exact_at(&mut named, NAMED_AT)?;
            ensure!(u64::from_ne_bytes(named) == old, "{} names another identifier", path.display());
            segment.write_all_at(&new.to_ne_bytes(), NAMED_AT)?;
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    File::options().read(true).write(true).open(path).with_context(|| path.display().to_string())
}

/// CRC-32C, bit by bit: it is asked for a few hundred bytes a cluster.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            let is_odd = sum & 1 == 1;
            sum >>= 1;
            if is_odd {
                sum ^= 0x82f6_3b78;
            }
        }
    }
    !sum
}

/// A shell that waits for the end of its input, which is the end of this process however it comes, and then removes the folder: what is
/// in a static is never dropped.
fn keep(dir: &Path) -> Result<Child> {
    Command::new("sh")
        .args(["-c", r#"read -r _; rm -rf "$0""#])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("sh")
}

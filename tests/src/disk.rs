//! A disk of a few mebibytes, for servers that are to find it full: a file system in memory. To mount one takes root.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::postgres::unprivileged_user;
use crate::tools::run;

/// What takes the room that nobody shall have.
const FILLER: &str = "filler";

/// Bytes of one page of the file system.
const PAGE_BYTES: usize = 4096;

/// A mounted disk that belongs to the user whom PostgreSQL runs as; gone when dropped, and also when the test process dies.
pub struct SmallDisk {
    dir: TempDir,
    keeper: Child,
}

impl SmallDisk {
    /// Mounts an empty one of so many mebibytes. Fails where that is not permitted.
    pub fn mount(mebibytes: u32) -> Result<SmallDisk> {
        let (uid, gid) = unprivileged_user()?.context("to mount a file system takes root")?;
        let dir = tempfile::Builder::new().prefix("ashlar-disk-").tempdir()?;
        let options = format!("size={mebibytes}m,mode=0700,uid={uid},gid={gid}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "ashlar-disk"]).arg(dir.path()))?;
        // A shell that waits for the end of its input, which is the end of this or of the whole process however it comes. What is
        // still open there goes with whoever has it open.
        let keeper = Command::new("sh")
            .args(["-c", r#"read -r _; umount -l "$0" && rmdir "$0""#])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("sh")?;
        Ok(SmallDisk { dir, keeper })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes all room that is left, to the last page.
    pub fn fill(&self) -> Result<()> {
        let mut filler = File::create(self.path().join(FILLER))?;
        let mut bytes = 0;
        loop {
            match filler.write_all(&[0; PAGE_BYTES]) {
                Ok(()) => bytes += PAGE_BYTES,
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error).with_context(|| format!("after {bytes} bytes")),
            }
        }
    }

    /// Gives back what [`SmallDisk::fill`] has taken.
    pub fn free(&self) -> Result<()> {
        let filler = self.path().join(FILLER);
        ensure!(filler.is_file(), "it was not filled");
        std::fs::remove_file(filler)?;
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

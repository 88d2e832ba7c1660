//! Folders of the repository and of the build, and running a program of somebody else with its output kept.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{find_program, wait_for};

/// The root of the repository.
pub fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the crate lies in the repository").to_owned()
}

/// Where the drivers of the client programs are kept between runs: `target/clients`.
pub fn client_cache() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable");
    let target = test.ancestors().nth(3).expect("target/PROFILE/deps/it-HASH");
    target.join("clients")
}

/// Says that the test that calls this cannot be done on this machine, and why. `./x test` reads that, and counts it as skipped.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED  {}: {why}\n", thread.name().unwrap_or("a test"));
    // Written and not printed: what a test prints is shown only where it fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long an installation from the network may take.
const INSTALL_PATIENCE: Duration = Duration::from_secs(900);

/// Runs a command to its end; its standard output, or a failure with everything it printed.
pub fn run(command: &mut Command) -> Result<String> {
    run_within(PATIENCE, command)
}

/// [`run`] for a command that fetches something from the network.
pub fn install(command: &mut Command) -> Result<String> {
    run_within(INSTALL_PATIENCE, command)
}

fn run_within(patience: Duration, command: &mut Command) -> Result<String> {
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let outcome = wait(patience, &mut child);
    let read = |file: &mut File| -> Result<String> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (out, err) = (read(&mut stdout)?, read(&mut stderr)?);
    let status = outcome.with_context(|| format!("{command:?}\n{out}{err}"))?;
    if !status.success() {
        bail!("{command:?}: {status}\n{out}{err}");
    }
    Ok(out)
}

fn wait(patience: Duration, child: &mut Child) -> Result<ExitStatus> {
    let mut status = None;
    let ended = wait_for(patience, || {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    if !ended {
        child.kill()?;
        child.wait()?;
        bail!("had not ended after {patience:?}");
    }
    status.context("ended")
}

/// Does `install` once for these `inputs` (files that name versions): a stamp in `dir` remembers the inputs' text.
/// Several tests may ask at once, of this process and of others.
pub fn install_once(dir: &Path, inputs: &[PathBuf], install: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut wanted = Vec::new();
    for input in inputs {
        wanted.extend(std::fs::read(input).with_context(|| input.display().to_string())?);
    }
    std::fs::create_dir_all(dir)?;
    let lock = File::create(dir.with_extension("lock"))?;
    lock.lock()?;
    let stamp = dir.join("installed");
    if std::fs::read(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    std::fs::remove_dir_all(dir)?;
    std::fs::create_dir_all(dir)?;
    install()?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

/// A folder with the packages of the `package-lock.json` in this folder.
pub fn node_modules(folder: &Path) -> Result<PathBuf> {
    let dir = client_cache().join(folder.file_name().context("a folder with a name")?);
    let inputs = ["package.json", "package-lock.json"].map(|name| folder.join(name));
    install_once(&dir, &inputs, || {
        for input in &inputs {
            std::fs::copy(input, dir.join(input.file_name().unwrap_or_default()))?;
        }
        let mut npm = Command::new(find_program(&["npm"])?);
        install(npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&dir))?;
        Ok(())
    })?;
    Ok(dir.join("node_modules"))
}

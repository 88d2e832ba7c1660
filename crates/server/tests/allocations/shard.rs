//! A PostgreSQL for the tests of this folder: of the machine's newest version, without fsync, on a port that was free.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ashlar_base::{clock, net};

use super::PATIENCE;

/// A running server, and the folder that it is in: both end with it.
pub(super) struct Shard {
    process: Child,
    dir: PathBuf,
    pub(super) address: SocketAddr,
}

impl Shard {
    pub(super) fn start() -> Shard {
        let dir = std::env::temp_dir().join(format!("ashlar-allocations-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let owner = owner();
        if let Some((uid, gid)) = owner {
            chown(&dir, Some(uid), Some(gid)).unwrap();
        }
        let data = dir.join("data");
        let mut init = program("initdb", &dir, owner);
        init.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]);
        assert!(init.arg(&data).status().unwrap().success(), "initdb");
        let deadline = clock::monotonic() + PATIENCE;
        loop {
            #[expect(clippy::disallowed_methods, reason = "asks the system for a free port, and listens to nobody")]
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut serve = program("postgres", &dir, owner);
            serve.arg("-D").arg(&data).args(["-p", &address.port().to_string()]);
            for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "timezone=UTC"] {
                serve.args(["-c", setting]);
            }
            let mut process = serve.spawn().unwrap();
            // It ends at once where another process has taken the port meanwhile.
            while process.try_wait().unwrap().is_none() {
                if lets_in(address) {
                    return Shard { process, dir, address };
                }
                assert!(clock::monotonic() < deadline, "PostgreSQL does not start");
                std::thread::yield_now();
            }
            assert!(clock::monotonic() < deadline, "PostgreSQL does not start");
        }
    }
}

/// Whether it lets somebody in: it listens before it does.
fn lets_in(address: SocketAddr) -> bool {
    let Ok(mut stream) = net::connect_blocking(address, PATIENCE) else { return false };
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = (body.len() as u32 + 4).to_be_bytes();
    let mut kind = [0];
    let answers = stream.set_read_timeout(Some(PATIENCE)).is_ok()
        && stream.write_all(&[&length[..], body].concat()).is_ok()
        && stream.read_exact(&mut kind).is_ok();
    answers && kind == *b"R"
}

impl Drop for Shard {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// One of PostgreSQL's programs: Debian keeps them off the PATH, one folder a version.
fn program(name: &str, dir: &Path, owner: Option<(u32, u32)>) -> Command {
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = debian.filter(|path| path.join("bin").join(name).is_file()).max_by_key(version);
    let mut command = Command::new(newest.map_or_else(|| name.into(), |path| path.join("bin").join(name)));
    command.env("LC_ALL", "C.UTF-8").env("TZ", "UTC").current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
    command
}

/// PostgreSQL does not run as root: then it is the user `postgres`, or else `nobody`.
fn owner() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let of = |wanted: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let mut numbers = line.split(':').skip(2).map(|number| number.parse::<u32>().unwrap());
        Some((numbers.next()?, numbers.next()?))
    };
    of("postgres").or_else(|| of("nobody"))
}

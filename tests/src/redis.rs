//! A private Redis server: the oracle of the RESP tests. In memory only, loopback only.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::process::{Process, find_program, free_port};
use crate::resp;

/// A running Redis (or Valkey).
pub struct Redis {
    process: Process,
    address: SocketAddr,
}

impl Redis {
    /// Starts a server of its own.
    pub fn start() -> Result<Redis> {
        let program = find_program(&["redis-server", "valkey-server"])?;
        let mut failures = String::new();
        // Another process may take the free port before the server does.
        for _ in 0..3 {
            let dir = tempfile::Builder::new().prefix("ashlar-redis-").tempdir()?;
            let address = free_port()?;
            let mut command = Command::new(&program);
            command
                .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(dir.path());
            let mut process = Process::spawn("redis", "TERM", command, dir)?;
            let answers = |_: &std::path::Path| {
                let mut client = resp::Client::connect(address).ok()?;
                (client.command(&["PING"]).ok()? == resp::Reply::Simple("PONG".to_owned())).then_some(())
            };
            match process.wait_until(answers) {
                Ok(()) => return Ok(Redis { process, address }),
                Err(error) => failures.push_str(&format!("{error:#}\n")),
            }
        }
        bail!("Redis did not start:\n{failures}");
    }

    /// The server that the tests of this process share; separate tests use separate key names.
    pub fn shared() -> &'static Redis {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(|| Redis::start().unwrap_or_else(|error| panic!("{error:#}")))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

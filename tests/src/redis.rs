//! A private Redis server: the oracle of the RESP tests. In memory only, loopback only.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::Result;

use crate::process::{Port, Process, find_program};
use crate::resp;

/// A running Redis (or Valkey).
pub struct Redis {
    process: Process,
    port: Port,
}

impl Redis {
    /// Starts a server of its own.
    pub fn start() -> Result<Redis> {
        let program = find_program(&["redis-server", "valkey-server"])?;
        let dir = tempfile::Builder::new().prefix("ashlar-redis-").tempdir()?;
        let port = Port::hold()?;
        let address = port.address();
        let mut command = Command::new(&program);
        command
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(dir.path());
        let mut process = Process::spawn("redis", "TERM", command, dir)?;
        process.wait_until(|_| {
            let mut client = resp::Client::connect(address).ok()?;
            (client.command(&["PING"]).ok()? == resp::Reply::Simple("PONG".to_owned())).then_some(())
        })?;
        Ok(Redis { process, port })
    }

    /// The server that the tests of this process share; separate tests use separate key names.
    pub fn shared() -> &'static Redis {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(|| Redis::start().unwrap_or_else(|error| panic!("{error:#}")))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

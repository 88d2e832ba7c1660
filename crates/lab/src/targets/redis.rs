//! Redis and Valkey: in memory only.

use std::path::Path;

use anyhow::Result;

use super::process::{Process, folder, free_address, pinned};
use super::{Start, Started};
use crate::door::PROBE_TIMEOUT;
use crate::door::resp::{Reply, RespClient};

/// Starts it and waits until it answers.
pub(super) fn start(name: &'static str, program: &Path, start: &Start<'_>) -> Result<Started> {
    let folder = folder(name)?;
    let address = free_address()?;
    let port = address.port().to_string();
    let arguments = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let mut command = pinned(start.cores, program);
    command.args(arguments).arg("--dir").arg(folder.path());
    let mut process = Process::spawn(name, command, folder)?;
    process.wait_for(|| {
        let mut client = RespClient::connect_within(address, PROBE_TIMEOUT).ok()?;
        (client.command(&["PING"]).ok()? == Reply::Simple(b"PONG")).then_some(())
    })?;
    let configuration = arguments[4..].chunks(2).map(|pair| format!("{} {:?}", pair[0], pair[1])).collect();
    Ok(Started { process, resp: Some(address), sql: None, http: None, configuration })
}

//! A network of its own for a server whose machine is to fall silent: a namespace, and a cable to it. To make one takes root, `unshare` and
//! `nsenter` of util-linux, and `ip` of iproute2.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::postgres::unprivileged_user;
use crate::tools::run;

/// A network with one address; gone when dropped and no process is in it any more, and also when the test process dies.
pub struct Island {
    /// A shell in it that waits for the end of its input, which is the end of this or of the whole process however it comes.
    keeper: Child,
    /// The end of the cable that is here.
    near: Ipv4Addr,
    /// The end that is there.
    far: Ipv4Addr,
}

impl Island {
    /// Makes one. Fails where that is not permitted.
    pub fn make() -> Result<Island> {
        unprivileged_user()?.context("to make a network takes root")?;
        let keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo made; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("unshare")?;
        let number = std::process::id();
        // Four addresses of those that are kept for measuring networks (RFC 2544), other ones for each process of tests.
        let [_, _, high, low] = ((number % 0x4000) * 4).to_be_bytes();
        let at = |end: u8| Ipv4Addr::new(198, 18, high, low + end);
        let mut island = Island { keeper, near: at(1), far: at(2) };
        let mut said = String::new();
        BufReader::new(island.keeper.stdout.take().context("its output")?).read_line(&mut said)?;
        ensure!(said == "made\n", "unshare has made no network");

        let (cable, keeper) = (format!("ashlar{number}"), island.keeper.id().to_string());
        let ip = |words: &[&str]| run(Command::new("ip").args(words)).map(drop);
        ip(&["link", "add", &cable, "type", "veth", "peer", "name", "cable", "netns", &keeper])?;
        ip(&["address", "add", &format!("{}/30", island.near), "dev", &cable])?;
        ip(&["link", "set", &cable, "up"])?;
        island.ip(&["address", "add", &format!("{}/30", island.far), "dev", "cable"])?;
        island.ip(&["link", "set", "cable", "up"])?;
        island.ip(&["link", "set", "lo", "up"])?;
        Ok(island)
    }

    /// The address of what is there.
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.far)
    }

    /// The file by which a process gets into it.
    pub(crate) fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.keeper.id()).into()
    }

    /// From now on nothing comes from there, no acknowledgement either, as from a machine without power.
    pub fn fall_silent(&self) -> Result<()> {
        self.ip(&["route", "add", "blackhole", &format!("{}/32", self.near)])
    }

    /// Ends that.
    pub fn speak(&self) -> Result<()> {
        self.ip(&["route", "del", "blackhole", &format!("{}/32", self.near)])
    }

    /// Runs `ip` there.
    fn ip(&self, words: &[&str]) -> Result<()> {
        let network = format!("--net={}", self.file().display());
        run(Command::new("nsenter").args([network.as_str(), "--", "ip"]).args(words)).map(drop)
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

//! The null relay: a process of the lab's own program between a client and a PostgreSQL, which passes bytes on both ways and does not
//! look at them. What a hop costs at least is measured with it; what a proxy costs beyond that is the proxy's own.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

use super::process::{Process, folder, pinned, running_program};
use super::{Start, Started, postgres};

/// Room of each direction of a connection.
const BUFFER_BYTES: usize = 64 * 1024;

/// Starts a PostgreSQL and the relay before it, and waits for the relay's address.
pub(super) fn start(start: &Start<'_>) -> Result<Started> {
    let (behind, mut configuration) = postgres::start_behind("postgres", start)?;
    let folder = folder("relay")?;
    let ready = folder.path().join("ready");
    let mut command = pinned(start.cores, &running_program());
    command.args(["relay", "--to", &behind.address.to_string(), "--ready-file"]).arg(&ready);
    let mut process = Process::spawn("relay", command, folder)?.before(vec![behind]);
    let address = process.wait_for(|| std::fs::read_to_string(&ready).ok()?.trim().parse::<SocketAddr>().ok())?;
    configuration.insert(0, format!("relay: one thread, {BUFFER_BYTES} bytes each way"));
    Ok(Started { process, resp: None, sql: Some(address), http: None, configuration })
}

/// What that process does, until it is ended: one thread for all connections. The file gets the address where it listens.
pub(crate) fn serve(to: SocketAddr, ready: PathBuf) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = ashlar_base::net::adopt(ashlar_base::net::listen(any)?)?;
        // Renamed, so that nobody reads half of it.
        let part = ready.with_extension("part");
        std::fs::write(&part, format!("{}\n", listener.local_addr()?))?;
        std::fs::rename(part, ready)?;
        loop {
            let (client, _) = listener.accept().await?;
            ashlar_base::net::tune(&client)?;
            // Not joined: it ends with its connections.
            tokio::spawn(async move {
                if let Err(error) = pass(client, to).await {
                    crate::say::note(&format!("{error:#}"));
                }
            });
        }
    })
}

async fn pass(mut client: TcpStream, to: SocketAddr) -> Result<()> {
    let mut server = ashlar_base::net::connect(to).await?;
    copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES).await?;
    Ok(())
}

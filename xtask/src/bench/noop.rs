//! What the client alone reaches: a server that answers without doing anything, as a ceiling beside the figures of real ones.
//!
//! Used by the rows about keys. The server is `xtask/bench/noop_server.c`, compiled with optimisation, which xtask itself is not.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::program::Program;
use super::servers::{SERVER_CORE, free_port, pinned};
use crate::run;

/// The column of the table.
pub(super) const NAME: &str = "no-op server";

const START_MAX: Duration = Duration::from_secs(10);

/// Runs until it is dropped.
pub(super) struct Noop {
    /// Where it answers whatever it is asked.
    pub(super) address: SocketAddr,
    _program: Program,
}

impl Noop {
    /// A server whose every reply is a value of `value_bytes`, or OK where that is 0.
    pub(super) fn start(value_bytes: u32) -> Result<Noop> {
        let folder = std::path::absolute(run::target_dir().join("bench"))?;
        std::fs::create_dir_all(&folder)?;
        let program = folder.join("noop_server");
        compile(Path::new("xtask/bench/noop_server.c"), &program)?;
        Noop::run(pinned(SERVER_CORE, &program), value_bytes)
    }

    fn run(mut command: Command, value_bytes: u32) -> Result<Noop> {
        let address = free_port()?;
        command.args([address.port().to_string(), value_bytes.to_string()]);
        let program = Program::start(&format!("no-op server of {value_bytes} B"), command, START_MAX)?;
        Ok(Noop { address, _program: program })
    }
}

fn compile(source: &Path, program: &Path) -> Result<()> {
    let mut compiler = Command::new("cc");
    run::read(compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program).arg(source)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn it_answers_every_command_once() {
        let program = std::env::temp_dir().join(format!("ashlar-noop-{}", std::process::id()));
        compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/noop_server.c"), &program).unwrap();
        for (value_bytes, reply) in [(0, "+OK\r\n"), (3, "$3\r\nxxx\r\n")] {
            let server = Noop::run(Command::new(&program), value_bytes).unwrap();
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(START_MAX)).unwrap();
            // More than one read delivers, and in the last write a command that is cut in two.
            let command = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n";
            stream.write_all(command.repeat(3000).as_bytes()).unwrap();
            stream.write_all(&command.as_bytes()[..9]).unwrap();
            stream.write_all(&command.as_bytes()[9..]).unwrap();
            let mut replies = vec![0; reply.len() * 3001];
            stream.read_exact(&mut replies).unwrap();
            assert_eq!(String::from_utf8(replies).unwrap(), reply.repeat(3001));
            stream.set_nonblocking(true).unwrap();
            assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        }
        std::fs::remove_file(program).unwrap();
    }
}

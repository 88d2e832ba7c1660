//! The programs under `clients/`: each against Ashlar, and against the server that its client was made for.
//!
//! Drivers are installed once into `target/clients` and found there afterwards, without a network.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use ashlar_tests::process::find_program;
use ashlar_tests::tools::{client_cache, install, install_once, node_modules, repository, run};
use ashlar_tests::{Ashlar, Postgres, Redis};

/// The table whose rows the RESP programs see as `fruit:{...}`.
const FRUIT: &str = "CREATE TABLE IF NOT EXISTS fruit (id bigint PRIMARY KEY, name text, grams integer, ripe boolean)";

/// Which server a program meets.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    Ashlar,
    Peer,
}

/// A PostgreSQL client's program against both servers. The peer first: when that fails, the program is wrong.
fn sql_program(program: impl Fn(SocketAddr) -> Result<()>) {
    program(Postgres::shared().address()).unwrap_or_else(|error| panic!("on PostgreSQL: {error:#}"));
    let ashlar = Ashlar::shared();
    program(ashlar.pg()).unwrap_or_else(|error| panic!("on Ashlar: {error:#}"));
}

/// A Redis client's program against both servers.
fn key_program(program: impl Fn(SocketAddr, Server) -> Result<()>) {
    program(Redis::shared().address(), Server::Peer).unwrap_or_else(|error| panic!("on Redis: {error:#}"));
    let ashlar = Ashlar::shared();
    ashlar.connect().query(FRUIT).unwrap();
    program(ashlar.resp(), Server::Ashlar).unwrap_or_else(|error| panic!("on Ashlar: {error:#}"));
}

#[test]
fn psql_takes_its_tour() {
    sql_program(|address| {
        let folder = folder("psql");
        let psql = find_program(&["psql"])?;
        // Standard error in the same stream, in the order in which the lines were written.
        let mut command = Command::new("sh");
        command.args(["-c", r#""$0" -X -q -f tour.sql 2>&1"#]).arg(psql).current_dir(&folder);
        expect_output(&run(with_server(&mut command, address))?, &folder.join("tour.expected"))
    });
}

#[test]
fn psycopg_takes_its_tour() {
    sql_program(|address| {
        let python = python("psycopg")?;
        expect_ok(&run(with_server(&mut Command::new(python), address).arg(folder("psycopg").join("tour.py")))?)
    });
}

#[test]
fn asyncpg_takes_its_tour() {
    sql_program(|address| {
        let python = python("asyncpg")?;
        expect_ok(&run(with_server(&mut Command::new(python), address).arg(folder("asyncpg").join("tour.py")))?)
    });
}

#[test]
fn pgjdbc_takes_its_tour() {
    sql_program(|address| expect_ok(&run(with_server(&mut java("pgjdbc")?, address))?));
}

#[test]
fn node_postgres_takes_its_tour() {
    sql_program(|address| {
        let folder = folder("node-postgres");
        let modules = node_modules(&folder)?;
        let mut command = Command::new(find_program(&["node", "nodejs"])?);
        command.env("NODE_PATH", modules).arg(folder.join("tour.js"));
        expect_ok(&run(with_server(&mut command, address))?)
    });
}

#[test]
fn redis_cli_takes_its_tour() {
    key_program(|address, _| {
        let folder = folder("redis-cli");
        let cli = find_program(&["redis-cli", "valkey-cli"])?;
        for (version, expected) in [("-2", "tour.expected"), ("-3", "tour3.expected")] {
            let mut command = Command::new("sh");
            command
                .args(["-c", r#""$0" -h "$REDIS_HOST" -p "$REDIS_PORT" "$1" --no-raw < tour.redis"#])
                .args([&cli, Path::new(version)])
                .current_dir(&folder);
            expect_output(&run(with_server(&mut command, address))?, &folder.join(expected))?;
        }
        Ok(())
    });
}

#[test]
fn redis_py_takes_its_tour() {
    key_program(|address, server| {
        let mut command = Command::new(python("redis-py")?);
        command.arg(folder("redis-py").join("tour.py"));
        tell_server(&mut command, server);
        expect_ok(&run(with_server(&mut command, address))?)
    });
}

#[test]
fn jedis_takes_its_tour() {
    key_program(|address, server| {
        let mut command = java("jedis")?;
        tell_server(&mut command, server);
        expect_ok(&run(with_server(&mut command, address))?)
    });
}

fn folder(client: &str) -> PathBuf {
    repository().join("clients").join(client)
}

/// Tells a program where its server is, and hides what the machine's user has configured.
fn with_server(command: &mut Command, address: SocketAddr) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        if ["PG", "REDIS", "ASHLAR"].iter().any(|prefix| shown.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    command.envs([("PGHOST", &host), ("PGPORT", &port), ("REDIS_HOST", &host), ("REDIS_PORT", &port)]).envs([
        ("PGUSER", "postgres"),
        ("PGDATABASE", "postgres"),
        ("TZ", "UTC"),
        ("LC_ALL", "C.UTF-8"),
    ])
}

/// What a program may show depends on the server.
fn tell_server(command: &mut Command, server: Server) {
    if server == Server::Ashlar {
        command.env("ON_ASHLAR", "1");
    }
}

fn expect_ok(output: &str) -> Result<()> {
    ensure!(output.trim() == "ok", "the program ended well without saying so: {output}");
    Ok(())
}

/// Compares with a file, and shows the first line that differs.
fn expect_output(output: &str, path: &Path) -> Result<()> {
    let expected = std::fs::read_to_string(path)?;
    for (index, (expected, got)) in expected.lines().zip(output.lines()).enumerate() {
        let number = index + 1;
        ensure!(expected == got, "{}:{number}:\nexpected {expected}\n     got {got}\nin\n{output}", path.display());
    }
    let (expected, got) = (expected.lines().count(), output.lines().count());
    ensure!(expected == got, "{got} lines instead of {expected}:\n{output}");
    Ok(())
}

/// A Python with what `requirements.txt` asks for, in an environment of its own.
fn python(client: &str) -> Result<PathBuf> {
    let dir = client_cache().join(client);
    let requirements = folder(client).join("requirements.txt");
    install_once(&dir, std::slice::from_ref(&requirements), || {
        run(Command::new(find_program(&["python3"])?).args(["-m", "venv"]).arg(dir.join("venv")))?;
        let mut pip = Command::new(dir.join("venv/bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        install(pip.arg(&requirements))?;
        Ok(())
    })?;
    Ok(dir.join("venv/bin/python"))
}

/// A Java that runs the client's `Tour.java` with what `pom.xml` asks for.
fn java(client: &str) -> Result<Command> {
    let dir = client_cache().join(client);
    let pom = folder(client).join("pom.xml");
    install_once(&dir, std::slice::from_ref(&pom), || {
        std::fs::copy(&pom, dir.join("pom.xml"))?;
        let mut maven = Command::new(find_program(&["mvn"])?);
        maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"]);
        install(maven.current_dir(&dir))?;
        Ok(())
    })?;
    let mut command = Command::new(find_program(&["java"])?);
    command
        .arg("-cp")
        .arg(format!("{}/*", dir.join("lib").display()))
        .arg(folder(client).join("src/main/java/Tour.java"));
    Ok(command)
}

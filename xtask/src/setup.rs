//! What the machine must have besides Rust, and installing it: Debian and Ubuntu packages, through apt-get.
//!
//! Called by every verb with the needs it has. Installs nothing that is already there, and says what it installs and
//! why. What is only convenient never stops a verb.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::check::DENY_INSTALL;
use crate::run;

/// Something the machine must have.
pub(crate) struct Need {
    name: &'static str,
    why: &'static str,
    packages: &'static [&'static str],
    found: fn() -> bool,
}

/// What building the server needs. `protoc` is not on the list on purpose: pg_query's build script would then write
/// its generated sources anew into cargo's registry.
pub(crate) const BUILD: &[Need] = &[
    Need {
        name: "a C compiler and make",
        why: "libpg_query, jemalloc and zstd are C",
        packages: &["build-essential"],
        found: || run::on_path("cc") && run::on_path("make"),
    },
    Need {
        name: "libclang",
        why: "the bindings of PostgreSQL's parser are generated with it",
        packages: &["clang", "libclang-dev"],
        found: libclang,
    },
];

/// What one wants beside a running server.
pub(crate) const CLIENTS: &[Need] = &[
    Need {
        name: "psql",
        why: "to talk SQL to the server",
        packages: &["postgresql-client"],
        found: || run::on_path("psql"),
    },
    Need {
        name: "redis-cli",
        why: "to talk to the same rows by key",
        packages: &["redis-tools"],
        found: || run::on_path("redis-cli"),
    },
];

/// The servers that tables are sharded over, and that the tests compare with.
pub(crate) const POSTGRES: &[Need] = &[Need {
    name: "PostgreSQL's server programs",
    why: "the demo shards a table over two of them, and the tests compare answers with a real PostgreSQL",
    packages: &["postgresql"],
    found: postgres_server,
}];

/// What else the tests compare with, and the languages of the client programs.
pub(crate) const TEST: &[Need] = &[
    Need {
        name: "redis-server",
        why: "the tests compare answers with a real Redis",
        packages: &["redis-server"],
        found: || run::on_path("redis-server") || run::on_path("valkey-server"),
    },
    Need {
        name: "sysbench",
        why: "the tests run its transactions on sharded tables",
        packages: &["sysbench"],
        found: || run::on_path("sysbench"),
    },
    Need {
        name: "Python with venv",
        why: "the client programs for psycopg, asyncpg and redis-py",
        packages: &["python3", "python3-venv"],
        found: || succeeds("python3", &["-c", "import venv, ensurepip"]),
    },
    Need {
        name: "Node.js and npm",
        why: "the client program for node-postgres, and what looks at reports in a browser",
        packages: &["nodejs", "npm"],
        found: || run::on_path("node") && run::on_path("npm"),
    },
    Need {
        name: "Chromium",
        why: "the tests look at the lab's reports in a real browser",
        packages: &["chromium"],
        found: || run::on_path("chromium") || run::on_path("google-chrome"),
    },
];

/// What programs in Java need; benchmarks go on without them.
pub(crate) const JAVA: &[Need] = &[Need {
    name: "a JDK and Maven",
    why: "the client programs for pgJDBC and Jedis, and Hazelcast and Geode beside Ashlar",
    packages: &["default-jdk-headless", "maven"],
    found: || run::on_path("javac") && run::on_path("mvn"),
}];

/// What the lab measures beside what the tests and the clients need.
pub(crate) const LAB: &[Need] = &[Need {
    name: "PgBouncer",
    why: "the lab measures PostgreSQL behind it; its system service is not needed",
    packages: &["pgbouncer"],
    found: || run::on_path("pgbouncer") || Path::new("/usr/sbin/pgbouncer").is_file(),
}];

/// Makes sure of everything in `needs`; fails with what to do by hand when something cannot be installed.
pub(crate) fn require(needs: &[&[Need]]) -> Result<()> {
    warn_about_protoc();
    let missing: Vec<&Need> = needs.iter().copied().flatten().filter(|need| !(need.found)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let installed = install(&missing);
    let still: Vec<&Need> = missing.into_iter().filter(|need| !(need.found)()).collect();
    if still.is_empty() {
        return Ok(());
    }
    for need in &still {
        eprintln!("x: missing: {} ({}); Debian's packages: {}", need.name, need.why, need.packages.join(" "));
    }
    installed?;
    bail!("install what is missing with your package manager, then run this command again")
}

/// Tries to install `needs`; without them the verb goes on.
pub(crate) fn prefer(needs: &[Need]) {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.found)()).collect();
    if missing.is_empty() {
        return;
    }
    if let Err(error) = install(&missing) {
        let names: Vec<_> = missing.iter().map(|need| need.name).collect();
        eprintln!("x: going on without {} ({error:#})", names.join(" and "));
    }
}

/// `./x setup`, and `./x setup lab` with what only the lab wants.
pub(crate) fn setup(for_lab: bool) -> Result<()> {
    let needs = [BUILD, CLIENTS, POSTGRES, TEST, JAVA, if for_lab { LAB } else { &[] }];
    let done = require(&needs);
    for need in needs.into_iter().flatten() {
        println!("{:<8}{:<30}{}", if (need.found)() { "found" } else { "MISSING" }, need.name, need.why);
    }
    if !run::on_path("cargo-deny") {
        println!("{:<8}{:<30}./x check looks at licences with it: {DENY_INSTALL}", "without", "cargo-deny");
    }
    done
}

fn install(missing: &[&Need]) -> Result<()> {
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    if !run::on_path("apt-get") {
        bail!("only Debian's and Ubuntu's packages can be installed automatically (there is no apt-get here)");
    }
    let root = run::read(Command::new("id").arg("-u"))?.trim() == "0";
    if !root && !run::on_path("sudo") {
        bail!("installing packages needs root; run: apt-get install {}", packages.join(" "));
    }
    eprintln!("x: installing Debian packages{} (takes a few minutes):", if root { "" } else { " with sudo" });
    for need in missing {
        eprintln!("x:   {:<40} {}: {}", need.packages.join(" "), need.name, need.why);
    }
    let apt = |arguments: &[&str]| -> Result<()> {
        // Variables through env: sudo drops those of the caller.
        let mut words = if root { vec![] } else { vec!["sudo"] };
        words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
        words.extend(arguments);
        // Quiet while it goes well; sudo asks for its password at the terminal itself.
        run::read(Command::new(words[0]).args(&words[1..])).map(drop)
    };
    let began = Instant::now();
    apt(&["update"])?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"];
    arguments.extend(packages);
    apt(&arguments)?;
    eprintln!("x: installed in {}", run::spoken(began.elapsed()));
    Ok(())
}

/// libclang itself, and the compiler's own headers, without which it cannot read `stddef.h`.
fn libclang() -> bool {
    let in_folder = |dir: &Path| {
        std::fs::read_dir(dir).is_ok_and(|mut files| {
            files.any(|file| file.is_ok_and(|file| is_libclang(&file.file_name().to_string_lossy())))
        })
    };
    if std::env::var_os("LIBCLANG_PATH").is_some() {
        return true;
    }
    let Ok(versions) = std::fs::read_dir("/usr/lib") else {
        return false;
    };
    run::on_path("clang")
        && versions.flatten().any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            (name.starts_with("llvm") && in_folder(&entry.path().join("lib")))
                || (name.ends_with("-linux-gnu") && in_folder(&entry.path()))
        })
}

fn is_libclang(file: &str) -> bool {
    file.starts_with("libclang.so") || (file.starts_with("libclang-") && file.contains(".so") && !file.contains("cpp"))
}

/// Debian keeps the server's programs off the PATH, one folder a version.
fn postgres_server() -> bool {
    let in_folder = |dir: &Path| dir.join("initdb").is_file() && dir.join("postgres").is_file();
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .is_ok_and(|versions| versions.flatten().any(|version| in_folder(&version.path().join("bin"))));
    debian || run::find("initdb").is_some_and(|initdb| initdb.parent().is_some_and(in_folder))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn warn_about_protoc() {
    if run::on_path("protoc") {
        eprintln!(
            "x: note: protoc is on the PATH, so pg_query's build will generate its messages anew (slower, harmless)"
        );
    }
}

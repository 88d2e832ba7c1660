//! Servers, user mappings and sharded tables that a file declares.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A fleet whose servers only a file knows: PostgreSQL servers, a directory, and the configuration that names the file.
struct Declared {
    shards: Vec<Postgres>,
    dir: TempDir,
}

impl Declared {
    fn new() -> Declared {
        let shards: Vec<Postgres> = (0..2).map(|_| Postgres::start().unwrap()).collect();
        Declared { shards, dir: tempfile::tempdir().unwrap() }
    }

    fn config(&self) -> String {
        let dir = self.dir.path().display();
        format!("[shard]\ndata_dir = \"{dir}/d\"\ndeclarations = \"{dir}/fleet.sql\"\n")
    }

    fn declare(&self, more: &str) {
        let mut text = String::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let (host, port) = (shard.address().ip(), shard.address().port());
            text.push_str(&format!(
                "CREATE SERVER s{number} FOREIGN DATA WRAPPER postgres OPTIONS (host '{host}', port '{port}', dbname 'postgres');\n\
                 CREATE USER MAPPING FOR PUBLIC SERVER s{number} OPTIONS (user 'postgres', password 'sesame');\n"
            ));
        }
        std::fs::write(self.path(), text + more).unwrap();
        // There are passwords in it.
        self.allow(0o600);
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("fleet.sql")
    }

    /// Who may do what with the file.
    fn allow(&self, mode: u32) {
        std::fs::set_permissions(self.path(), Permissions::from_mode(mode)).unwrap();
    }

    /// Starts a server that must not come up: what it says.
    fn refused(&self) -> String {
        let config = self.dir.path().join("refused.toml");
        std::fs::write(&config, self.config()).unwrap();
        let mut command: Command = ashlar_tests::ashlar::command();
        command.args(["serve", "--pg", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config"]);
        let output = command.arg(config).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
    }
}

const TABLE: &str = "CREATE TABLE t (k bigint PRIMARY KEY, v text) PARTITION BY HASH (k) \
                     USING sharded WITH (servers = 's0,s1', algorithm = 'hash_mod');\n";

#[test]
fn what_a_file_declares_is_there_and_what_differs_keeps_the_server_down() {
    let declared = Declared::new();
    declared.declare(TABLE);
    let ashlar = start(&declared.config());
    let mut client = ashlar.connect();
    done(&mut client, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')");
    done(&mut client, "ALTER TABLE t ADD COLUMN w int");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "4");
    ashlar.stop();
    // With the column it is the same table; without it, another one.
    let error = declared.refused();
    assert!(error.contains("55000") && error.contains("table \"t\" is declared otherwise"), "{error}");
    declared.declare(&TABLE.replace("v text)", "v text, w int)"));
    let ashlar = start(&declared.config());
    assert_eq!(ashlar.connect().value("SELECT count(*) FROM t").unwrap(), "4");
    done(&mut ashlar.connect(), "CREATE SERVER other FOREIGN DATA WRAPPER postgres OPTIONS (host 'h', dbname 'd')");
    done(&mut ashlar.connect(), "ALTER SERVER s1 OPTIONS (SET dbname 'template1')");
    ashlar.stop();
    let error = declared.refused();
    assert!(error.contains("server \"s1\" is declared otherwise") && error.contains("fleet.sql"), "{error}");
    assert!(!error.contains("sesame"), "{error}");
    for (more, told) in [
        ("CREATE TABLE g (k int PRIMARY KEY);", "0A000"),
        ("CREATE USER MAPPING FOR CURRENT_USER SERVER s0 OPTIONS (user 'x');", "0A000"),
        ("CREATE SERVER", "42601"),
    ] {
        // The server that was altered comes last: what is wrong before it is told first.
        std::fs::write(declared.path(), more).unwrap();
        let error = declared.refused();
        assert!(error.contains(told), "{more}: {error}");
    }
    std::fs::remove_file(declared.path()).unwrap();
    let error = declared.refused();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn a_file_with_passwords_that_others_can_read_keeps_the_server_down() {
    let declared = Declared::new();
    declared.declare("");
    for mode in [0o644, 0o640, 0o604, 0o660] {
        declared.allow(mode);
        let error = declared.refused();
        assert!(error.contains("has passwords in it") && error.contains("chmod 600"), "{mode:o}: {error}");
        assert!(error.contains(&format!("{mode:04o}")) && !error.contains("sesame"), "{mode:o}: {error}");
    }
    declared.allow(0o600);
    let ashlar = start(&declared.config());
    assert_eq!(ashlar.connect().value("SELECT count(*) FROM ashlar.shards").unwrap(), "2");
    ashlar.stop();
    // Without one it is nobody's secret.
    let mapping = "CREATE USER MAPPING FOR somebody SERVER s0 OPTIONS (user 'postgres', password '');";
    std::fs::write(declared.path(), mapping).unwrap();
    declared.allow(0o644);
    start(&declared.config()).stop();
}

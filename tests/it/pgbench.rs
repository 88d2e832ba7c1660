//! pgbench as it comes, over tables in memory: it makes its tables, fills them, and its transactions leave the books balanced.

use std::process::Command;

use ashlar_tests::process::find_program;
use ashlar_tests::tools::run;
use ashlar_tests::{Ashlar, Options, pg};

fn pgbench(ashlar: &Ashlar, arguments: &[&str]) -> String {
    let address = ashlar.pg();
    let mut command = Command::new(find_program(&["pgbench"]).unwrap());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("PGUSER", "postgres").env("LC_ALL", "C.UTF-8");
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]).args(arguments).arg("postgres");
    run(&mut command).unwrap()
}

fn number(client: &mut pg::Connection, sql: &str) -> i64 {
    client.value(sql).unwrap().parse().unwrap()
}

#[test]
fn pgbench_makes_its_tables_and_its_books_balance() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut client = ashlar.connect();
    // The later ones find tables there; rows are made by the client and by the server, keys when the rows are there.
    for how in [&["-i", "-q"][..], &["-i", "-q", "-F", "90", "--unlogged-tables"], &["-i", "-I", "dtGvp"]] {
        pgbench(&ashlar, how);
        assert_eq!(number(&mut client, "SELECT count(*) FROM pgbench_accounts"), 100_000, "{how:?}");
        let keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conname LIKE 'pgbench%'";
        assert_eq!(number(&mut client, keys), 3, "{how:?}");
    }
    for mode in ["simple", "extended", "prepared"] {
        let said = pgbench(&ashlar, &["-M", mode, "-c", "2", "-t", "20"]);
        assert!(said.contains("number of transactions actually processed: 40/40"), "{said}");
        assert!(said.contains("number of failed transactions: 0"), "{said}");
        let accounts = number(&mut client, "SELECT sum(abalance) FROM pgbench_accounts");
        assert_eq!(number(&mut client, "SELECT sum(tbalance) FROM pgbench_tellers"), accounts);
        assert_eq!(number(&mut client, "SELECT sum(bbalance) FROM pgbench_branches"), accounts);
        assert_eq!(number(&mut client, "SELECT sum(delta) FROM pgbench_history"), accounts);
        // Without -n it empties its history before each run.
        assert_eq!(number(&mut client, "SELECT count(*) FROM pgbench_history"), 40);
        client.query("UPDATE pgbench_accounts SET abalance = 0 WHERE abalance <> 0").unwrap();
        client.query("UPDATE pgbench_tellers SET tbalance = 0").unwrap();
        client.query("UPDATE pgbench_branches SET bbalance = 0").unwrap();
    }
    for builtin in ["-S", "-N"] {
        let said = pgbench(&ashlar, &[builtin, "-c", "2", "-t", "50"]);
        assert!(said.contains("number of transactions actually processed: 100/100"), "{said}");
    }
    ashlar.stop();
}

//! pgbench as it comes: it makes its tables, fills them, and its transactions leave the books balanced.

use super::*;

/// Runs pgbench against Ashlar: what it says.
fn pgbench(fleet: &Fleet, settings: &str, arguments: &[&str]) -> String {
    let address = fleet.ashlar.pg();
    let mut command = Command::new(find_program(&["pgbench"]).unwrap());
    for variable in ["PGDATABASE", "PGPASSWORD", "PGPASSFILE", "PGSERVICE"] {
        command.env_remove(variable);
    }
    command.env("PGOPTIONS", settings).env("PGUSER", "ashlar").env("LC_ALL", "C.UTF-8");
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]).args(arguments).arg("postgres");
    said(&mut command)
}

/// What every transaction of TPC-B adds to one of each adds up to the same, and history knows each.
fn check_books(client: &mut pg::Connection, transactions: u64) {
    let sum = |client: &mut pg::Connection, sql: &str| client.value(sql).unwrap().parse::<i64>().unwrap();
    let accounts = sum(client, "SELECT sum(abalance) FROM pgbench_accounts");
    assert_eq!(sum(client, "SELECT sum(tbalance) FROM pgbench_tellers"), accounts);
    assert_eq!(sum(client, "SELECT sum(bbalance) FROM pgbench_branches"), accounts);
    assert_eq!(sum(client, "SELECT sum(delta) FROM pgbench_history"), accounts);
    assert_eq!(sum(client, "SELECT count(*) FROM pgbench_history"), transactions as i64);
    assert_eq!(sum(client, "SELECT count(*) FROM pgbench_accounts"), 100_000);
}

#[test]
fn pgbench_makes_its_tables_on_shards_and_its_books_balance() {
    for shards in [1, 2, 4] {
        let fleet = Fleet::start(shards);
        let sharded = "-c default_table_access_method=sharded";
        // Twice: the second time its tables are there.
        for _ in 0..2 {
            let said = pgbench(&fleet, sharded, &["-i", "-s", "1", "-q"]);
            assert!(said.contains("done in"), "{said}");
        }
        let mut client = fleet.client();
        assert_eq!(client.value("SELECT count(*) FROM ashlar.tables WHERE name LIKE 'pgbench%'").unwrap(), "4");
        let there = "SELECT count(*) > 0 FROM pgbench_accounts";
        assert!((0..shards).all(|shard| fleet.shard(shard).value(there).unwrap() == "t"));
        assert_eq!(client.value("SELECT filler FROM pgbench_accounts WHERE aid = 7").unwrap(), " ".repeat(84));
        let mut transactions = 0;
        for mode in ["simple", "extended", "prepared"] {
            let said = pgbench(&fleet, "", &["-n", "-M", mode, "-c", "4", "-j", "2", "-t", "50"]);
            assert!(said.contains("number of transactions actually processed: 200/200"), "{said}");
            assert!(said.contains("number of failed transactions: 0"), "{said}");
            transactions += 200;
            check_books(&mut client, transactions);
        }
        let said = pgbench(&fleet, "", &["-S", "-M", "prepared", "-c", "2", "-t", "100"]);
        assert!(said.contains("number of transactions actually processed: 200/200"), "{said}");
        fleet.ashlar.check_log();
    }
}

#[test]
fn pgbench_fills_tables_that_were_made_beforehand() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    for (table, columns, key) in [
        ("pgbench_branches", "bid int PRIMARY KEY, bbalance int, filler char(88)", "bid"),
        ("pgbench_tellers", "tid int PRIMARY KEY, bid int, tbalance int, filler char(84)", "tid"),
        ("pgbench_accounts", "aid int PRIMARY KEY, bid int, abalance int, filler char(84)", "aid"),
        ("pgbench_history", "tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)", "aid"),
    ] {
        let rule = format!("USING sharded WITH (servers = '{servers}', algorithm = 'hash_mod')");
        done(&mut client, &format!("CREATE TABLE {table} ({columns}) PARTITION BY HASH ({key}) {rule}"));
    }
    pgbench(&fleet, "", &["-i", "-I", "gv", "-s", "1", "-q"]);
    let said = pgbench(&fleet, "", &["-c", "2", "-t", "50"]);
    assert!(said.contains("number of transactions actually processed: 100/100"), "{said}");
    check_books(&mut client, 100);
    fleet.ashlar.check_log();
}

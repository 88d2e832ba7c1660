//! sysbench as it comes, on shards: its tables, its bulk loads, its prepared statements and transactions.

use std::collections::BTreeMap;

use super::*;

/// Rows of each table.
const ROWS: u64 = 2000;

const TABLES: [&str; 2] = ["sbtest1", "sbtest2"];

/// Runs sysbench against Ashlar: what it says.
fn sysbench(fleet: &Fleet, arguments: &[&str]) -> String {
    let address = fleet.ashlar.pg();
    let mut command = Command::new(find_program(&["sysbench"]).unwrap());
    command.env("PGOPTIONS", "-c default_table_access_method=sharded").env("LC_ALL", "C.UTF-8");
    command.args(["--db-driver=pgsql", "--pgsql-user=ashlar", "--pgsql-db=postgres", "--tables=2", "--auto-inc=off"]);
    command.args([format!("--pgsql-host={}", address.ip()), format!("--pgsql-port={}", address.port())]);
    command.arg(format!("--table-size={ROWS}")).args(arguments);
    said(&mut command)
}

/// Runs a workload: how many of its statements have changed something.
fn run(fleet: &Fleet, workload: &str, events: u64) -> u64 {
    let events_max = format!("--events={events}");
    let said = sysbench(fleet, &["--threads=4", &events_max, "--time=0", workload, "run"]);
    let figure = |name: &str| -> u64 {
        let rest = said.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let figure = rest.and_then(|rest| rest.trim().parse().ok());
        figure.unwrap_or_else(|| panic!("{workload}: {name}\n{said}"))
    };
    assert_eq!(figure("total number of events:"), events, "{workload}: {said}");
    figure("write:")
}

/// What the shards themselves have in a column, by table and `id`.
fn column(fleet: &Fleet, name: &str) -> BTreeMap<(&'static str, i64), String> {
    let mut all = BTreeMap::new();
    for table in TABLES {
        for shard in 0..fleet.shards.len() {
            for row in rows(&mut fleet.shard(shard), &format!("SELECT id, {name} FROM {table}")) {
                let row: Vec<String> = row.into_iter().flatten().collect();
                let id: i64 = row[0].parse().unwrap();
                assert_eq!(all.insert((table, id), row[1].clone()), None, "{table}: {id} is on two shards");
            }
        }
    }
    all
}

/// The numbers of all rows, added up on the shards and by Ashlar.
fn sum_of_numbers(fleet: &Fleet, numbers: &BTreeMap<(&'static str, i64), String>) -> i64 {
    let there: i64 = numbers.values().map(|number| number.parse::<i64>().unwrap()).sum();
    let mut client = fleet.client();
    let mut of = |table: &str| client.value(&format!("SELECT sum(k) FROM {table}")).unwrap().parse::<i64>().unwrap();
    assert_eq!(TABLES.into_iter().map(&mut of).sum::<i64>(), there);
    there
}

#[test]
fn sysbench_reads_and_writes_shards() {
    for shards in [1, 2, 4] {
        let fleet = Fleet::start(shards);
        sysbench(&fleet, &["oltp_read_write", "prepare"]);
        let mut client = fleet.client();
        let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename LIKE 'sbtest%'";
        assert!((0..shards).all(|shard| fleet.shard(shard).value(indexes).unwrap() == "4"));
        assert_eq!(run(&fleet, "oltp_point_select", 400), 0);
        // They meet at few rows: a transaction that is ended since it waits for another one that waits for it is run again.
        run(&fleet, "oltp_read_write", 200);
        // What it deletes it inserts again.
        for table in TABLES {
            let rows = client.value(&format!("SELECT count(*) || ' ' || max(id) FROM {table}")).unwrap();
            assert_eq!(rows, format!("{ROWS} {ROWS}"));
        }
        one_kind_of_change_each(&fleet);
        sysbench(&fleet, &["oltp_read_write", "cleanup"]);
        assert_eq!(client.value("SELECT count(*) FROM ashlar.tables WHERE name LIKE 'sbtest%'").unwrap(), "0");
        fleet.ashlar.check_log();
    }
}

/// The workloads of one statement: what the shards have afterwards is what sysbench says that it has changed.
fn one_kind_of_change_each(fleet: &Fleet) {
    let (numbers, texts) = (column(fleet, "k"), column(fleet, "c"));
    let before = sum_of_numbers(fleet, &numbers);
    // Each adds one.
    assert_eq!(run(fleet, "oltp_update_index", 200), 200);
    let numbers = column(fleet, "k");
    assert_eq!(sum_of_numbers(fleet, &numbers), before + 200);
    assert_eq!(column(fleet, "c"), texts);
    // Each writes another text, some of them to the same row.
    assert_eq!(run(fleet, "oltp_update_non_index", 200), 200);
    assert_eq!(column(fleet, "k"), numbers);
    let changed = column(fleet, "c").into_iter().filter(|(id, text)| texts[id] != *text).count();
    assert!((1..=200).contains(&changed), "{changed} rows have another text");
    let inserted = run(fleet, "oltp_insert", 200);
    let more = column(fleet, "k");
    assert_eq!(more.len() as u64, numbers.len() as u64 + inserted);
    assert!(numbers.iter().all(|(id, number)| more.get(id) == Some(number)));
    sum_of_numbers(fleet, &more);
    // Of those that are deleted already nothing is.
    let deleted = run(fleet, "oltp_delete", 200);
    let left = column(fleet, "k");
    assert!((1..=200).contains(&deleted), "{deleted} rows are deleted");
    assert_eq!(left.len() as u64, more.len() as u64 - deleted);
    assert!(left.iter().all(|(id, number)| more.get(id) == Some(number)));
    sum_of_numbers(fleet, &left);
}

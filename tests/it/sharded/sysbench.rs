//! sysbench as it comes, on shards: its tables, its bulk loads, its prepared statements and transactions.

use super::*;

/// Rows of each table.
const ROWS: u64 = 2000;

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

#[test]
fn sysbench_reads_and_writes_shards() {
    for shards in [1, 2, 4] {
        let fleet = Fleet::start(shards);
        sysbench(&fleet, &["oltp_read_write", "prepare"]);
        let mut client = fleet.client();
        let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename LIKE 'sbtest%'";
        assert!((0..shards).all(|shard| fleet.shard(shard).value(indexes).unwrap() == "4"));
        let said = sysbench(&fleet, &["--threads=4", "--events=400", "--time=0", "oltp_point_select", "run"]);
        assert!(said.contains("total number of events:              400"), "{said}");
        // They meet at few rows: a transaction that is ended since it waits for another one that waits for it is run again.
        let said = sysbench(&fleet, &["--threads=4", "--events=200", "--time=0", "oltp_read_write", "run"]);
        assert!(said.contains("total number of events:              200"), "{said}");
        // What it deletes it inserts again.
        for table in ["sbtest1", "sbtest2"] {
            let rows = client.value(&format!("SELECT count(*) || ' ' || max(id) FROM {table}")).unwrap();
            assert_eq!(rows, format!("{ROWS} {ROWS}"));
        }
        sysbench(&fleet, &["oltp_read_write", "cleanup"]);
        assert_eq!(client.value("SELECT count(*) FROM ashlar.tables WHERE name LIKE 'sbtest%'").unwrap(), "0");
        fleet.ashlar.check_log();
    }
}

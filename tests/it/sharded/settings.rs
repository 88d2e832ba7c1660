//! Settings that a session gives its shards: in force on the connections that it has, and on nobody else's.

use super::*;

/// One connection for sessions and one for queries, and a table.
fn start() -> (Fleet, pg::Connection) {
    let fleet = Fleet::with(1, "connections_per_server_max = 2\n[server]\ncores = 1");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    (fleet, client)
}

/// What a shard has, in one text.
const IN_FORCE: &str = "concat_ws(' ', current_setting('synchronous_commit'), current_setting('work_mem'), \
     current_setting('random_page_cost'), current_setting('enable_seqscan'), current_setting('row_security'))";

/// Has a shard write into each new row what is in force.
fn have_told(fleet: &Fleet, in_force: &str) {
    let function = format!(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := {in_force}; RETURN NEW; END $$"
    );
    let mut shard = fleet.shard(0);
    done(&mut shard, &function);
    done(&mut shard, "CREATE TRIGGER tell BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell()");
}

/// What is in force for a client.
fn told(client: &mut pg::Connection) -> String {
    done(client, "DELETE FROM t WHERE k = 1");
    client.value("INSERT INTO t (k) VALUES (1) RETURNING v").unwrap()
}

#[test]
fn what_a_session_sets_for_shards_is_in_force_there_for_it_alone() {
    let (fleet, mut client) = start();
    have_told(&fleet, IN_FORCE);
    let usual = fleet.shard(0).value(&format!("SELECT {IN_FORCE}")).unwrap();
    let mut other = fleet.client();
    assert_eq!(told(&mut other), usual);
    for sql in [
        "SET synchronous_commit = off",
        "SET work_mem = '1GB'",
        "SET random_page_cost = 1.5",
        "SET enable_seqscan = off",
        "SET row_security = off",
    ] {
        done(&mut client, sql);
    }
    // In turn, over one connection.
    for _ in 0..3 {
        assert_eq!(told(&mut client), "off 1GB 1.5 off off");
        assert_eq!(told(&mut other), usual);
    }

    // What is told behind a savepoint is gone with it, whether it was set or reset.
    done(&mut client, "BEGIN");
    assert_eq!(told(&mut client), "off 1GB 1.5 off off");
    done(&mut client, "SAVEPOINT a");
    done(&mut client, "SET LOCAL work_mem = '512MB'");
    done(&mut client, "RESET row_security");
    assert_eq!(told(&mut client), "off 512MB 1.5 off on");
    done(&mut client, "ROLLBACK TO a");
    assert_eq!(told(&mut client), "off 1GB 1.5 off off");
    done(&mut client, "RESET random_page_cost");
    done(&mut client, "SAVEPOINT b");
    assert_eq!(told(&mut client), "off 1GB 4 off off");
    done(&mut client, "SET random_page_cost = 2");
    assert_eq!(told(&mut client), "off 1GB 2 off off");
    done(&mut client, "RESET random_page_cost");
    done(&mut client, "ROLLBACK TO b");
    assert_eq!(told(&mut client), "off 1GB 4 off off");
    done(&mut client, "ROLLBACK");
    assert_eq!(told(&mut client), "off 1GB 1.5 off off");
    done(&mut client, "RESET ALL");
    assert_eq!(told(&mut client), usual);
    assert_eq!(other.value("SELECT sum(made) <= 2 FROM ashlar.pools").unwrap(), "t");

    // What a session brings is not what others go back to on a connection that is made for it.
    done(&mut fleet.shard(0), "CREATE ROLE plain LOGIN; GRANT ALL ON t TO plain");
    done(&mut client, "ALTER USER MAPPING FOR PUBLIC SERVER s0 OPTIONS (SET user 'plain')");
    let (address, names) = (fleet.ashlar.pg(), [("user", "test"), ("options", "-c work_mem=2MB")]);
    let mut first = pg::Connection::open(address, &names).unwrap();
    assert!(told(&mut first).contains(" 2MB "));
    assert_eq!(told(&mut other), usual);
    fleet.ashlar.check_log();
}

#[test]
fn a_setting_that_a_shard_refuses_is_refused_until_it_is_reset() {
    let (fleet, mut client) = start();
    let mut other = fleet.client();
    // Its bound there is a third of this.
    done(&mut client, "SET min_parallel_table_scan_size = 2147483647");
    for _ in 0..2 {
        let error = refused(&mut client, "SELECT count(*) FROM t WHERE k = 1");
        assert!(error.starts_with("22023") && error.contains("min_parallel_table_scan_size"), "{error}");
        assert_eq!(other.value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "0");
    }
    done(&mut client, "RESET min_parallel_table_scan_size");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "0");
    fleet.ashlar.check_log();
}

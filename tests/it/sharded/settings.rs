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

#[test]
fn parameters_of_a_session_s_own_are_those_of_its_shards() {
    let (fleet, mut client) = start();
    have_told(&fleet, "coalesce(nullif(current_setting('app.tenant', true), ''), '-')");
    let mut other = fleet.client();
    done(&mut other, "SET app.other = 'x'");
    for value in ["5", "it''s; DROP TABLE t; --", r"\", r"\''; DROP TABLE t; --", "grüße \"$$\" $1"] {
        done(&mut client, &format!("SET app.tenant = '{value}'"));
        assert_eq!(told(&mut client), value.replace("''", "'"));
        assert_eq!(told(&mut other), "-");
    }
    done(&mut client, "SET app.tenant = 'a'");
    done(&mut client, "BEGIN");
    assert_eq!(told(&mut client), "a");
    done(&mut client, "SAVEPOINT s");
    assert_eq!(client.value("SELECT set_config('app.tenant', 'b', true)").unwrap(), "b");
    assert_eq!(told(&mut client), "b");
    done(&mut client, "ROLLBACK TO s");
    assert_eq!(told(&mut client), "a");
    done(&mut client, "SET app.tenant = 'c'");
    assert_eq!(told(&mut client), "c");
    done(&mut client, "ROLLBACK");
    assert_eq!(told(&mut client), "a");
    for reset in ["RESET app.tenant", "RESET ALL", "DISCARD ALL"] {
        done(&mut client, "SET app.tenant = 'a'");
        assert_eq!(told(&mut client), "a");
        done(&mut client, reset);
        assert_eq!(told(&mut client), "-", "{reset}");
    }
    // One that an extension of the shard's has goes back to its own value there, which an empty text is not.
    done(&mut client, "SET plpgsql.variable_conflict = 'use_column'");
    assert_eq!(told(&mut client), "-");
    done(&mut client, "RESET plpgsql.variable_conflict");
    assert_eq!(client.value("SHOW plpgsql.variable_conflict").unwrap(), "");
    assert_eq!(told(&mut client), "-");
    assert_eq!(other.value("SELECT sum(made) <= 2 FROM ashlar.pools").unwrap(), "t");

    // A session that keeps its connection has them there too, and leaves none behind.
    done(&mut client, "SET sharded_pool_mode = 'session'");
    done(&mut client, "SET app.tenant = 'd'");
    assert_eq!(told(&mut client), "d");
    drop(client);
    assert_eq!(told(&mut other), "-");
    fleet.ashlar.check_log();
}

#[test]
fn what_one_session_leaves_is_not_refused_to_another() {
    let (fleet, mut client) = start();
    have_told(&fleet, "'-'");
    let mut other = fleet.client();
    // A shard takes any such name until the language is loaded that has them all, with its first row: from then on not even DEFAULT.
    done(&mut client, "SET plpgsql.nothing = 'x'");
    assert_eq!(told(&mut client), "-");
    assert_eq!(told(&mut other), "-");
    done(&mut client, "RESET plpgsql.nothing");
    assert_eq!(told(&mut client), "-");
    fleet.ashlar.check_log();
}

/// Notes in what way a row is committed that is new.
const NOTE: &str = "CREATE TABLE noted (what text); \
     CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$; \
     CREATE CONSTRAINT TRIGGER note AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()";

#[test]
fn what_is_decided_for_several_shards_is_at_least_as_safe_as_what_they_commit_by_themselves() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k")));
    let keys = key_of_each(&mut client, &fleet.shards, "t");
    (0..2).for_each(|number| done(&mut fleet.shard(number), NOTE));
    let noted = |number: usize| fleet.shard(number).value("DELETE FROM noted RETURNING what").unwrap();
    let usual = fleet.shard(0).value("SHOW synchronous_commit").unwrap();
    let usual = usual.as_str();
    let mut other = fleet.client();
    for (wanted, promised) in
        [("off", usual), ("local", usual), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
    {
        done(&mut client, &format!("SET synchronous_commit = {wanted}"));
        done(&mut client, "BEGIN");
        keys.iter().for_each(|key| done(&mut client, &format!("INSERT INTO t VALUES ({key})")));
        done(&mut client, "COMMIT");
        let decided = if promised == "off" { "on" } else { promised };
        assert_eq!([noted(0), noted(1)], [decided, promised], "{wanted}");
        // By itself each of them commits as the session wants it, and others' as ever.
        for (by, expected) in [(&mut client, wanted), (&mut other, usual)] {
            for (number, key) in keys.iter().enumerate() {
                done(by, &format!("DELETE FROM t WHERE k = {key}"));
                done(by, &format!("INSERT INTO t VALUES ({key})"));
                assert_eq!(noted(number), expected, "{wanted}");
            }
        }
        done(&mut client, "DELETE FROM t");
    }
    fleet.ashlar.check_log();
}

#[test]
fn policies_of_shards_go_by_parameters_of_the_session_in_whatever_is_read() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, tenant text) {}", fleet.by("k")));
    for number in 0..2 {
        let mut shard = fleet.shard(number);
        done(&mut shard, "CREATE ROLE plain LOGIN; GRANT ALL ON t TO plain; ALTER TABLE t ENABLE ROW LEVEL SECURITY");
        done(&mut shard, "CREATE POLICY own ON t USING (tenant = current_setting('app.tenant', true))");
        let mapping = format!("ALTER USER MAPPING FOR PUBLIC SERVER s{number} OPTIONS (SET user 'plain')");
        done(&mut client, &mapping);
    }
    let (mut a, mut b) = (fleet.client(), fleet.client());
    done(&mut a, "SET app.tenant = 'a'");
    done(&mut b, "SET app.tenant = 'b'");
    (0..10).for_each(|key| done(&mut a, &format!("INSERT INTO t VALUES ({key}, 'a')")));
    (10..30).for_each(|key| done(&mut b, &format!("INSERT INTO t VALUES ({key}, 'b')")));
    assert!(refused(&mut a, "INSERT INTO t VALUES (30, 'b')").starts_with("42501"));
    // Put together of the shards' answers, and read by the engine: in turn, over the same pools.
    for reads in ["each", "snapshot"] {
        for sql in ["SELECT count(*) FROM t", "SELECT count(*) FROM t AS x JOIN t AS y ON x.k + 0 = y.k + 0"] {
            for (who, expected) in [(&mut a, "10"), (&mut b, "20"), (&mut client, "0")] {
                done(who, &format!("SET sharded_reads = '{reads}'"));
                assert_eq!(who.value(sql).unwrap(), expected, "{reads}: {sql}");
                done(who, "BEGIN");
                done(who, "SET LOCAL app.tenant = 'b'");
                assert_eq!(who.value(sql).unwrap(), "20", "{reads}: {sql}");
                done(who, "ROLLBACK");
                done(who, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
                assert_eq!(who.value(sql).unwrap(), expected, "{reads}: {sql}");
                done(who, "COMMIT");
            }
        }
    }
    fleet.ashlar.check_log();
}

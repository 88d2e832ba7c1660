//! Prepared statements over pooled connections: their names are the client's, whoever had the connection before; what a shard has refused or
//! forgotten is asked again; and what a shard says beside an answer reaches the client.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::extended::{Answer, Form, Told, ask, describe, parse, prepare, query, run};
use super::pools::{kill, pids};
use super::*;

/// One server with one connection for all sessions, and a table with a row.
fn fleet_of_one_connection() -> Fleet {
    let fleet = Fleet::with(1, "connections_per_server_max = 2\n[server]\ncores = 1");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    fleet
}

/// The only value of the only row.
fn value(told: Told) -> Result<String, String> {
    let rows = told?.texts();
    assert_eq!(rows.len(), 1, "{rows:?}");
    Ok(rows[0][0].clone().unwrap_or_else(|| "NULL".to_owned()))
}

fn run_text(client: &mut pg::Connection, name: &str, parameter: &str) -> Result<String, String> {
    value(run(client, name, &[parameter.as_bytes()], Form::Text))
}

const BACKENDS: &str = "SELECT count(*) FROM ashlar.backends WHERE server = 's0' AND pool LIKE 'ashlar-door%'";

#[test]
fn sessions_that_share_a_connection_have_names_of_their_own() {
    let fleet = fleet_of_one_connection();
    let (mut a, mut b) = (fleet.client(), fleet.client());
    prepare(&mut a, "s", "SELECT v FROM t WHERE k = $1").unwrap();
    prepare(&mut b, "s", "SELECT v || '!' FROM t WHERE k = $1").unwrap();
    for _ in 0..3 {
        assert_eq!(run_text(&mut a, "s", "1").unwrap(), "one");
        assert_eq!(run_text(&mut b, "s", "2").unwrap(), "two!");
    }
    assert!(prepare(&mut a, "s", "SELECT k FROM t WHERE k = $1").unwrap_err().contains("42P05"));
    // What one session forgets the other one still has, and the name is free.
    done(&mut a, "DEALLOCATE s");
    assert!(run_text(&mut a, "s", "1").unwrap_err().contains("26000"));
    assert_eq!(run_text(&mut b, "s", "1").unwrap(), "one!");
    prepare(&mut a, "s", "SELECT k + 10 FROM t WHERE k = $1").unwrap();
    assert_eq!(run_text(&mut a, "s", "1").unwrap(), "11");
    for forget in ["DISCARD ALL", "DEALLOCATE ALL"] {
        done(&mut b, forget);
        assert!(run_text(&mut b, "s", "1").unwrap_err().contains("26000"), "{forget}");
        assert_eq!(run_text(&mut a, "s", "2").unwrap(), "12");
        // The same text as before: the connection may know it still.
        prepare(&mut b, "s", "SELECT v || '!' FROM t WHERE k = $1").unwrap();
        assert_eq!(run_text(&mut b, "s", "2").unwrap(), "two!");
    }
    assert_eq!(a.value(BACKENDS).unwrap(), "1");
    fleet.ashlar.check_log();
}

/// What becomes of the only connection, which was told of a statement, before the statement is asked about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The shard ends its process.
    Killed,
    /// Another session has it, whose statement has the same name.
    Lent,
}

#[test]
fn a_statement_is_described_and_runs_where_the_connection_that_knew_it_is_gone() {
    let fleet = fleet_of_one_connection();
    let (mut client, mut other, mut watcher) = (fleet.client(), fleet.client(), fleet.client());
    prepare(&mut other, "s", "SELECT v || '?' FROM t WHERE k = $1").unwrap();
    // How many connections it befell: of those that are gone nobody may have asked for another one.
    let mut befall = |fate: Fate| -> usize {
        if fate == Fate::Killed {
            let there = pids(&mut watcher);
            if !there.is_empty() {
                kill(&fleet, &there);
            }
            return there.len();
        }
        assert_eq!(run_text(&mut other, "s", "2").unwrap(), "two?");
        done(&mut other, "BEGIN");
        done(&mut other, "UPDATE t SET v = v WHERE k = 2");
        done(&mut other, "COMMIT");
        1
    };
    // Each text is a new one, or what is told of it were known from before.
    for (fates, sql, column, expected) in [
        ([Fate::Killed, Fate::Killed], "SELECT v FROM t WHERE k = $1", ("v", 25), "one"),
        ([Fate::Lent, Fate::Lent], "SELECT v || '!' AS loud FROM t WHERE k = $1", ("loud", 25), "one!"),
        ([Fate::Killed, Fate::Lent], "SELECT k + 10 AS more FROM t WHERE k = $1", ("more", 20), "11"),
        ([Fate::Lent, Fate::Killed], "UPDATE t SET v = v WHERE k = $1 RETURNING upper(v) AS high", ("high", 25), "ONE"),
    ] {
        let what = format!("{fates:?}: {sql}");
        let parsed = parse(&mut client, "s", sql).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(parsed, Answer::default(), "{what}");
        for fate in fates {
            assert!(befall(fate) > 0, "{what}");
            let told = describe(&mut client, "s").unwrap_or_else(|error| panic!("{what}: {error}"));
            let columns: Vec<(&str, i32)> = told.columns.iter().map(|(name, oid, _)| (name.as_str(), *oid)).collect();
            assert_eq!(columns, [column], "{what}");
            // Between the two as well.
            befall(fate);
            assert_eq!(run_text(&mut client, "s", "1").as_deref(), Ok(expected), "{what}");
            assert_eq!(run_text(&mut client, "s", "1").as_deref(), Ok(expected), "{what}");
        }
        done(&mut client, "DEALLOCATE s");
        assert!(describe(&mut client, "s").unwrap_err().contains("26000"), "{what}");
    }
    assert_eq!(client.value(BACKENDS).unwrap(), "1");
    fleet.ashlar.check_log();
}

#[test]
fn a_connection_that_is_made_as_new_is_told_statements_again() {
    let fleet = fleet_of_one_connection();
    let mut client = fleet.client();
    done(&mut client, "SET sharded_pool_mode = 'session'");
    for _ in 0..3 {
        prepare(&mut client, "s", "SELECT v FROM t WHERE k = $1").unwrap();
        prepare(&mut client, "change", "UPDATE t SET v = v WHERE k = $1 RETURNING v").unwrap();
        for _ in 0..2 {
            assert_eq!(run_text(&mut client, "s", "1").unwrap(), "one");
            assert_eq!(run_text(&mut client, "change", "2").unwrap(), "two");
        }
        // Of the shard too, where nothing of a session stays on a connection that another one has next.
        done(&mut client, "DISCARD ALL");
        done(&mut client, "SET sharded_pool_mode = 'session'");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_table_that_was_dropped_is_known_to_no_connection_any_more() {
    for drop in ["DROP TABLE t", "DROP TABLE t, other"] {
        let fleet = fleet_of_one_connection();
        let mut client = fleet.client();
        done(&mut client, &format!("CREATE TABLE other (k bigint PRIMARY KEY) {}", fleet.by("k")));
        let sql = "SELECT v FROM t WHERE k = $1";
        prepare(&mut client, "before", sql).unwrap();
        assert_eq!(run_text(&mut client, "before", "1").unwrap(), "one");
        done(&mut client, drop);
        done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v int) {}", fleet.by("k")));
        done(&mut client, "INSERT INTO t VALUES (1, 7)");
        // The same text is about another table.
        prepare(&mut client, "behind", sql).unwrap();
        assert_eq!(run_text(&mut client, "behind", "1").unwrap(), "7", "{drop}");
        fleet.ashlar.check_log();
    }
}

#[test]
fn a_plan_is_of_the_table_as_it_is() {
    let fleet = fleet_of_one_connection();
    let (mut early, mut late) = (fleet.client(), fleet.client());
    let (all, sql) = ("SELECT * FROM t WHERE k = $1", "SELECT v FROM t WHERE k = $1");
    let change = "UPDATE t SET v = $2 WHERE k = $1 RETURNING *";
    let change_both = |client: &mut pg::Connection| run(client, "change", &[b"1", b"7"], Form::Text);
    for (name, sql) in [("all", all), ("one", sql), ("change", change)] {
        prepare(&mut early, name, sql).unwrap();
    }
    assert_eq!(run_text(&mut early, "all", "1").unwrap(), "1");
    assert_eq!(run_text(&mut early, "one", "1").unwrap(), "one");
    assert_eq!(change_both(&mut early).unwrap().texts()[0][1].as_deref(), Some("7"));
    done(&mut fleet.shard(0), "UPDATE t SET v = k; ALTER TABLE t ALTER COLUMN v TYPE int USING v::int");
    // Whoever was told of another column is refused, again and again, and nothing has changed.
    for _ in 0..2 {
        for refused in [run_text(&mut early, "all", "1"), run_text(&mut early, "one", "1")] {
            assert!(refused.clone().unwrap_err().contains("0A000"), "{refused:?}");
        }
        let error = change_both(&mut early).unwrap_err();
        assert!(error.contains("0A000") || error.contains("42804"), "{error}");
        assert_eq!(fleet.shard(0).value("SELECT string_agg(v::text, ' ' ORDER BY k) FROM t").unwrap(), "1 2");
    }
    // In a block it has failed, and that is all.
    prepare(&mut early, "again", "SELECT k, v FROM t WHERE k = $1").unwrap();
    done(&mut fleet.shard(0), "ALTER TABLE t ALTER COLUMN v TYPE smallint");
    done(&mut early, "BEGIN");
    done(&mut early, "SAVEPOINT here");
    let error = run_text(&mut early, "again", "1").unwrap_err();
    assert!(error.contains("s0") && (error.contains("0A000") || error.contains("42804")), "{error}");
    done(&mut early, "ROLLBACK TO here");
    assert_eq!(early.value("SELECT v FROM t WHERE k = 2").unwrap(), "2");
    done(&mut early, "COMMIT");
    // What is kept of a text may be of before: whoever is told that is refused once, and asks again.
    for (name, sql, columns) in [("all", all, 2), ("one", sql, 1)] {
        let mut told = prepare(&mut late, name, sql).unwrap();
        if run(&mut late, name, &[b"2"], Form::Text).is_err() {
            done(&mut late, &format!("DEALLOCATE \"{name}\""));
            told = prepare(&mut late, name, sql).unwrap();
        }
        assert_eq!((told.columns.len(), told.columns[columns - 1].1), (columns, 21), "{sql}");
    }
    for _ in 0..2 {
        assert_eq!(run(&mut late, "all", &[b"2"], Form::Text).unwrap().texts()[0][1].as_deref(), Some("2"));
        assert_eq!(run_text(&mut late, "one", "2").unwrap(), "2");
    }
    assert_eq!(late.value(BACKENDS).unwrap(), "1");
    fleet.ashlar.check_log();
}

#[test]
fn a_text_that_was_refused_is_parsed_again() {
    let fleet = fleet_of_one_connection();
    let mut client = fleet.client();
    let sql = "SELECT late FROM t WHERE k = $1";
    for _ in 0..2 {
        let error = prepare(&mut client, "s", sql).unwrap_err();
        assert!(error.contains("42703") && error.contains("s0"), "{error}");
        assert!(run_text(&mut client, "s", "1").unwrap_err().contains("26000"));
    }
    done(&mut client, "BEGIN");
    assert!(prepare(&mut client, "s", sql).unwrap_err().contains("42703"));
    assert!(prepare(&mut client, "s", "SELECT v FROM t WHERE k = $1").unwrap_err().contains("25P02"));
    done(&mut client, "ROLLBACK");
    done(&mut client, "ALTER TABLE t ADD COLUMN late int DEFAULT 5");
    prepare(&mut client, "s", sql).unwrap();
    assert_eq!(run_text(&mut client, "s", "1").unwrap(), "5");
    // An execution that fails leaves the statement where it is.
    prepare(&mut client, "divided", "SELECT 10 / (k - $1) FROM t WHERE k = 1").unwrap();
    assert!(run_text(&mut client, "divided", "1").unwrap_err().contains("22012"));
    assert_eq!(run_text(&mut client, "divided", "0").unwrap(), "10");
    assert!(prepare(&mut client, "no", "SELECT v FROM t WHERE k = $1 AND").unwrap_err().contains("42601"));
    assert_eq!(run_text(&mut client, "s", "2").unwrap(), "5");
    assert_eq!(client.value(BACKENDS).unwrap(), "1");
    fleet.ashlar.check_log();
}

/// The tag of a prepared statement without rows.
fn tag(client: &mut pg::Connection, name: &str, parameters: &[&[u8]]) -> String {
    run(client, name, parameters, Form::Text).unwrap_or_else(|error| panic!("{name}: {error}")).tag
}

#[test]
fn a_block_is_begun_and_ended_by_prepared_statements() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys: Vec<String> = fleet.keys("t").iter().map(i64::to_string).collect();
    for (name, sql) in [
        ("begin", "BEGIN"),
        ("insert", "INSERT INTO t VALUES ($1, 'v')"),
        ("update", "UPDATE t SET v = $1"),
        ("count", "SELECT count(*) FROM t"),
        ("savepoint", "SAVEPOINT here"),
        ("back", "ROLLBACK TO SAVEPOINT here"),
        ("commit", "COMMIT"),
        ("rollback", "ROLLBACK"),
    ] {
        prepare(&mut client, name, sql).unwrap();
    }
    let mut other = fleet.client();
    for (keys, ends) in [(&keys[..1], "commit"), (&keys[..], "rollback"), (&keys[1..], "commit")] {
        let before: usize = other.value("SELECT count(*) FROM t").unwrap().parse().unwrap();
        assert_eq!(tag(&mut client, "begin", &[]), "BEGIN");
        let mut inserted = 0;
        for key in keys {
            // A key that is there ends the block: it is left out.
            if other.value(&format!("SELECT count(*) FROM t WHERE k = {key}")).unwrap() == "0" {
                assert_eq!(tag(&mut client, "insert", &[key.as_bytes()]), "INSERT 0 1");
                inserted += 1;
            }
        }
        assert_eq!(tag(&mut client, "savepoint", &[]), "SAVEPOINT");
        assert_eq!(tag(&mut client, "update", &[b"x"]), format!("UPDATE {}", before + inserted));
        assert_eq!(tag(&mut client, "back", &[]), "ROLLBACK");
        let count = value(run(&mut client, "count", &[], Form::Text)).unwrap();
        assert_eq!(count, (before + inserted).to_string());
        assert_eq!(other.value("SELECT count(*) FROM t").unwrap(), before.to_string());
        assert_eq!(tag(&mut client, ends, &[]), ends.to_uppercase());
        let after = if ends == "commit" { before + inserted } else { before };
        assert_eq!(other.value("SELECT count(*) FROM t").unwrap(), after.to_string(), "{ends}");
    }
    // On both shards at once.
    assert_eq!(tag(&mut client, "begin", &[]), "BEGIN");
    assert_eq!(tag(&mut client, "update", &[b"both"]), "UPDATE 2");
    assert_eq!(tag(&mut client, "commit", &[]), "COMMIT");
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value("SELECT v FROM t").unwrap(), "both");
    }
    // A block that has failed ends by COMMIT as by ROLLBACK.
    assert_eq!(tag(&mut client, "begin", &[]), "BEGIN");
    assert!(run(&mut client, "insert", &[keys[0].as_bytes()], Form::Text).unwrap_err().contains("23505"));
    assert!(run(&mut client, "count", &[], Form::Text).unwrap_err().contains("25P02"));
    assert_eq!(tag(&mut client, "commit", &[]), "ROLLBACK");
    fleet.ashlar.check_log();
}

/// Notes in each row that is written how long the longest text is that its connection keeps.
const KEEPING: &str = "
    CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.n := (SELECT coalesce(max(length(statement)), 0) FROM pg_prepared_statements);
        RETURN NEW;
    END $$;
    CREATE TRIGGER keeps BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION keeps()";

#[test]
fn a_long_text_is_not_kept_by_connections() {
    // One connection to each shard for all sessions.
    let fleet = Fleet::with(2, "connections_per_server_max = 2\n[server]\ncores = 1");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, n int, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    done(&mut client, "INSERT INTO t SELECT i, 1, 'v' FROM generate_series(1000, 1019) AS s(i)");
    for shard in 0..2 {
        done(&mut fleet.shard(shard), KEEPING);
    }
    for (form, other) in [("short", "x".to_owned()), ("long", "x".repeat(10_000))] {
        let [all, read, change] = ["all", "read", "change"].map(|name| format!("{form} {name}"));
        let groups = format!("SELECT n, count(*) FROM t WHERE v <> '{other}' GROUP BY n");
        prepare(&mut client, &all, &groups).unwrap();
        prepare(&mut client, &read, &format!("SELECT v FROM t WHERE k = $1 AND v <> '{other}'")).unwrap();
        prepare(&mut client, &change, &format!("UPDATE t SET v = v WHERE k = $1 AND v <> '{other}'")).unwrap();
        for block in [false, true] {
            if block {
                done(&mut client, "BEGIN");
            }
            for key in 1000..1010 {
                assert_eq!(tag(&mut client, &change, &[key.to_string().as_bytes()]), "UPDATE 1");
                assert_eq!(run_text(&mut client, &read, &key.to_string()).unwrap(), "v");
            }
            if block {
                done(&mut client, "COMMIT");
            }
            let counted = [[Some("1".to_owned()), Some("20".to_owned())]];
            assert_eq!(rows(&mut client, &groups), counted);
            assert_eq!(run(&mut client, &all, &[], Form::Text).unwrap().texts(), counted);
        }
        // What is short it keeps.
        for key in &keys {
            let insert = format!("INSERT INTO t VALUES ({key}, 0, 'v') RETURNING n");
            let longest = client.value(&insert).unwrap().parse::<usize>().unwrap();
            assert!((1..=8 * 1024).contains(&longest), "{form}: {longest}");
            done(&mut client, &format!("DELETE FROM t WHERE k = {key}"));
        }
    }
    fleet.ashlar.check_log();
}

/// Says something of each row that is written, and once more when its transaction commits.
const SPEAKING: &str = "
    CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE NOTICE '% %', TG_ARGV[0], NEW.k; RETURN NEW; END $$;
    CREATE TRIGGER at_once BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION say('row');
    CREATE CONSTRAINT TRIGGER at_end AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION say('end');";

#[test]
fn what_a_shard_says_beside_its_answer_reaches_the_client() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    let (near, far) = (keys[0], keys[1]);
    for shard in 0..2 {
        done(&mut fleet.shard(shard), SPEAKING);
    }
    let said = |told: Told| {
        let Answer { notices, .. } = told.unwrap_or_else(|error| panic!("{error}"));
        notices
    };
    let of = |words: &[(&str, i64)]| words.iter().map(|(word, key)| format!("{word} {key}")).collect::<Vec<String>>();
    for form in [Form::Simple, Form::Text, Form::Binary] {
        // One shard, by itself and in a block.
        for key in keys.iter().copied() {
            let insert = format!("INSERT INTO t VALUES ({key}, 'v')");
            assert_eq!(said(ask(&mut client, &insert, form)), of(&[("row", key)]), "{form:?}");
            let update = format!("UPDATE t SET v = 'w' WHERE k = {key} RETURNING k");
            for _ in 0..2 {
                assert_eq!(said(ask(&mut client, &update, form)), of(&[("row", key), ("end", key)]), "{form:?}");
            }
            done(&mut client, "BEGIN");
            assert_eq!(said(ask(&mut client, &update, form)), of(&[("row", key)]), "{form:?}");
            assert_eq!(said(ask(&mut client, "COMMIT", form)), of(&[("end", key)]), "{form:?}");
        }
        // Two of them, one after the other, and both at the end.
        let both = of(&[("row", near), ("row", far)]);
        let update = "UPDATE t SET v = 'x'";
        let mut all = said(ask(&mut client, update, form));
        assert_eq!(all.drain(..2).collect::<Vec<String>>(), both, "{form:?}");
        all.sort();
        let mut ends = of(&[("end", near), ("end", far)]);
        ends.sort();
        assert_eq!(all, ends, "{form:?}");
        done(&mut client, "BEGIN");
        assert_eq!(said(ask(&mut client, update, form)), both, "{form:?}");
        let mut all = said(ask(&mut client, "COMMIT", form));
        all.sort();
        assert_eq!(all, ends, "{form:?}");
        done(&mut client, "DELETE FROM t");
        let inserts = format!("INSERT INTO t VALUES ({near}, 'v'), ({far}, 'v') RETURNING k");
        assert_eq!(said(ask(&mut client, &inserts, form)), both, "{form:?}");
        done(&mut client, "DELETE FROM t");
        // Rows that the engine has computed.
        let from = format!("generate_series(0, {}) AS s(i) WHERE i IN ({near}, {far})", near.max(far));
        assert_eq!(said(ask(&mut client, &format!("INSERT INTO t SELECT i, 'v' FROM {from}"), form)), both, "{form:?}");
        done(&mut client, "DELETE FROM t");
    }
    // A client that does not want to hear them is told none.
    done(&mut client, &format!("INSERT INTO t VALUES ({near}, 'v')"));
    done(&mut client, "SET client_min_messages = warning");
    assert!(said(query(&mut client, "UPDATE t SET v = 'y'")).is_empty());
    fleet.ashlar.check_log();
}

#[test]
fn a_shard_that_was_not_asked_is_not_lost_with_the_one_that_failed() {
    // A session has one connection to each shard, and is told where it has lost one.
    let fleet = Fleet::with(2, "pool_mode = \"session\"");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v int) {}", fleet.by("k")));
    let keys = key_of_each(&mut client, &fleet.shards, "t");
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 5), ({}, 5)", keys[0], keys[1]));
    prepare(&mut client, "divide", "UPDATE t SET v = 10 / (v - $1) WHERE v > 0 RETURNING k").unwrap();
    let divide = |client: &mut pg::Connection, by: &str| run(client, "divide", &[by.as_bytes()], Form::Text);
    let put_back = "UPDATE t SET v = 5";
    let fives = "SELECT count(*) FROM t WHERE v = 5";
    let pids = "SELECT string_agg(pid::text, ' ' ORDER BY server) FROM ashlar.backends WHERE state = 'kept'";
    let mut watcher = fleet.client();
    // Both connections know the statement from here on: nothing has to be asked of them before it runs.
    assert_eq!(divide(&mut client, "4").unwrap().rows.len(), 2);
    done(&mut client, put_back);
    // A session has them back behind the answer.
    let mut before = String::new();
    let are_kept = wait_for(PATIENCE, || {
        before = watcher.value(pids).unwrap();
        before.split(' ').count() == 2
    });
    assert!(are_kept, "{before}");
    // By itself, in a block, and in a savepoint, after which the block goes on.
    let blocks: [(&[&str], Option<&str>); 3] =
        [(&[], None), (&["BEGIN"], Some("ROLLBACK")), (&["BEGIN", "SAVEPOINT s"], Some("ROLLBACK TO s"))];
    for (begins, ends) in blocks {
        begins.iter().for_each(|sql| done(&mut client, sql));
        let error = divide(&mut client, "5").unwrap_err();
        assert!(error.starts_with("22012") && error.contains("shard s0"), "{begins:?}: {error}");
        ends.iter().for_each(|sql| done(&mut client, sql));
        assert_eq!(client.value(fives).unwrap(), "2", "{begins:?}");
    }
    assert_eq!(divide(&mut client, "4").unwrap().rows.len(), 2);
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 10").unwrap(), "2");
    let are_the_same = wait_for(PATIENCE, || watcher.value(pids).unwrap() == before);
    assert!(are_the_same, "{before}: {:?}", watcher.value(pids));
    fleet.ashlar.check_log();
}

#[test]
fn parameters_keep_their_types_when_a_column_gets_another() {
    let fleet = Fleet::start(2);
    let (mut client, mut other) = (fleet.client(), fleet.client());
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, g int) {}", fleet.by("k")));
    prepare(&mut client, "put", "INSERT INTO t VALUES ($1, $2)").unwrap();
    let put = |client: &mut pg::Connection, k: i64| {
        run(client, "put", &[k.to_string().as_bytes(), b"7"], Form::Text)
            .unwrap_or_else(|error| panic!("{k}: {error}"));
    };
    put(&mut client, 0);
    for (round, new) in ["bigint", "smallint", "numeric(9,2)"].into_iter().enumerate() {
        done(&mut other, &format!("ALTER TABLE t ALTER COLUMN g TYPE {new}"));
        for k in 1..=8 {
            put(&mut client, 100 * round as i64 + k);
        }
    }
    let found = rows(&mut client, "SELECT count(*), sum(g)::int FROM t");
    assert_eq!(found, [[Some("25".to_owned()), Some("175".to_owned())]]);
    // What is told anew has the new type.
    prepare(&mut other, "put", "INSERT INTO t VALUES ($1, $2)").unwrap();
    run(&mut other, "put", &[b"500", b"7.25"], Form::Text).unwrap();
    assert_eq!(client.value("SELECT g FROM t WHERE k = 500").unwrap(), "7.25");
    fleet.ashlar.check_log();
}

//! Who one is on the shards: each user by a mapping of their own, and everybody else by that for PUBLIC, with the passwords that servers
//! ask for. A connection that was made for one user is never another one's.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;

/// All but the administrator are asked for a password.
const RULES: &str = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// Logins hash a password thousands of times, and many of them come at once here: a machine without instructions for that, which does something
/// else meanwhile, takes seconds for one.
const PATIENT: &str = "connect_timeout_ms = 60000";

/// How what asks for a password begins: AuthenticationSASL.
const ASKS: &str = "message 'R'";

/// Two shards with roles that have passwords and a table that notes by whom a row was written, and a key of each. Who has no mapping of
/// their own is `everybody` there.
fn start_with_roles() -> (Fleet, Vec<i64>) {
    let fleet = Fleet::with(2, PATIENT);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for (number, shard) in fleet.shards.iter().enumerate() {
        let mut own = fleet.shard(number);
        done(&mut own, "ALTER TABLE t ALTER v SET DEFAULT current_user");
        // Not every version does so by itself, and what is kept otherwise is no password by these rules.
        done(&mut own, "SET password_encryption = 'scram-sha-256'");
        for role in ["alice", "bob", "bob_there", "everybody"] {
            done(&mut own, &format!("CREATE ROLE {role} LOGIN PASSWORD '{role} sesame'"));
            done(&mut own, &format!("GRANT SELECT, INSERT, DELETE ON t TO {role}"));
        }
        shard.set_rules(RULES).unwrap();
        let asks = || as_user(shard.address(), "alice").is_err_and(|error| format!("{error:#}").contains(ASKS));
        assert!(wait_for(PATIENCE, asks), "shard {number} asks for no password:\n{}", shard.log());
        let everybody = "OPTIONS (SET user 'everybody', SET password 'everybody sesame')";
        done(&mut client, &format!("ALTER USER MAPPING FOR PUBLIC SERVER s{number} {everybody}"));
    }
    (fleet, keys)
}

fn as_user(address: SocketAddr, user: &str) -> anyhow::Result<pg::Connection> {
    pg::Connection::open(address, &[("user", user), ("database", "postgres")])
}

fn client_of(fleet: &Fleet, user: &str) -> pg::Connection {
    as_user(fleet.ashlar.pg(), user).unwrap()
}

/// Gives a user here the role of the same name on all shards.
fn map(fleet: &Fleet, user: &str) {
    for number in 0..fleet.shards.len() {
        let options = format!("OPTIONS (user '{user}', password '{user} sesame')");
        done(&mut fleet.client(), &format!("CREATE USER MAPPING FOR {user} SERVER s{number} {options}"));
    }
}

/// Who a client is on the shard of each of these keys, as the shard says.
fn who(client: &mut pg::Connection, keys: &[i64]) -> Vec<String> {
    let of = |key: &i64| {
        done(client, &format!("DELETE FROM t WHERE k = {key}"));
        client.value(&format!("INSERT INTO t (k) VALUES ({key}) RETURNING v")).unwrap()
    };
    keys.iter().map(of).collect()
}

#[test]
fn a_mapping_of_ones_own_comes_before_that_for_public() {
    let (fleet, keys) = start_with_roles();
    let (mut alice, mut bob) = (client_of(&fleet, "alice"), client_of(&fleet, "bob"));
    for client in [&mut alice, &mut bob] {
        assert_eq!(who(client, &keys), ["everybody", "everybody"]);
    }
    // For a name, whoever says it.
    map(&fleet, "alice");
    assert_eq!(who(&mut alice, &keys), ["alice", "alice"]);
    assert_eq!(who(&mut bob, &keys), ["everybody", "everybody"]);
    // For whoever says it: on one server, under another name; on the other one as here, where nothing else is said.
    done(
        &mut bob,
        "CREATE USER MAPPING FOR CURRENT_USER SERVER s0 OPTIONS (user 'bob_there', password 'bob_there sesame')",
    );
    assert_eq!(who(&mut bob, &keys), ["bob_there", "everybody"]);
    done(&mut bob, "CREATE USER MAPPING FOR USER SERVER s1 OPTIONS (password 'bob sesame')");
    assert!(refused(&mut bob, "CREATE USER MAPPING FOR bob SERVER s1 OPTIONS (password 'x')").starts_with("42710"));
    // In turn, over the same pools.
    for _ in 0..3 {
        assert_eq!(who(&mut bob, &keys), ["bob_there", "bob"]);
        assert_eq!(who(&mut alice, &keys), ["alice", "alice"]);
        assert_eq!(who(&mut client_of(&fleet, "carol"), &keys), ["everybody", "everybody"]);
    }
    // One user's wrong password is nobody else's trouble.
    done(&mut bob, "ALTER USER MAPPING FOR CURRENT_USER SERVER s1 OPTIONS (SET password 'wrong guess')");
    let error = refused(&mut bob, &format!("SELECT v FROM t WHERE k = {}", keys[1]));
    assert!(error.starts_with("28P01") && error.contains("bob") && !error.contains("wrong guess"), "{error}");
    assert_eq!(who(&mut alice, &keys), ["alice", "alice"]);
    // Without it one is as everybody else again.
    done(&mut bob, "DROP USER MAPPING FOR bob SERVER s1");
    assert_eq!(who(&mut bob, &keys), ["bob_there", "everybody"]);
    drop((alice, bob));
    assert!(!fleet.ashlar.log().contains("sesame"));

    let fleet = fleet.restart();
    let (mut alice, mut bob, mut carol) =
        (client_of(&fleet, "alice"), client_of(&fleet, "bob"), client_of(&fleet, "carol"));
    assert_eq!(who(&mut alice, &keys), ["alice", "alice"]);
    assert_eq!(who(&mut bob, &keys), ["bob_there", "everybody"]);
    done(&mut carol, "DROP USER MAPPING FOR PUBLIC SERVER s0");
    let error = refused(&mut carol, &format!("SELECT v FROM t WHERE k = {}", keys[0]));
    assert!(error.starts_with("42704") && error.contains("\"carol\"") && error.contains("\"s0\""), "{error}");
    assert_eq!(who(&mut carol, &keys[1..]), ["everybody"]);
    assert_eq!(who(&mut alice, &keys), ["alice", "alice"]);
    assert_eq!(who(&mut bob, &keys), ["bob_there", "everybody"]);
    assert!(!fleet.ashlar.log().contains("sesame"));
    fleet.ashlar.check_log();
}

#[test]
fn what_concerns_several_shards_is_done_as_the_user_too() {
    let (fleet, keys) = start_with_roles();
    map(&fleet, "alice");
    for number in 0..2 {
        let mut own = fleet.shard(number);
        // Who decides a transaction keeps a table for that.
        done(&mut own, "CREATE SCHEMA IF NOT EXISTS ashlar");
        done(&mut own, "GRANT USAGE, CREATE ON SCHEMA ashlar TO alice");
        done(&mut own, "GRANT ALL ON ALL TABLES IN SCHEMA ashlar TO alice");
        done(&mut own, "REVOKE SELECT ON t FROM everybody");
    }
    let (mut alice, mut bob) = (client_of(&fleet, "alice"), client_of(&fleet, "bob"));
    done(&mut alice, &format!("INSERT INTO t (k) VALUES ({}), ({})", keys[0], keys[1]));
    for number in 0..2 {
        assert_eq!(fleet.shard(number).value("SELECT v FROM t").unwrap(), "alice");
    }
    // Put together of the shards' answers, and read by the engine: the one may and the other one may not, again and again.
    for sql in ["SELECT count(*) FROM t", "SELECT count(*) FROM t AS a JOIN t AS b ON a.k + 0 = b.k + 0"] {
        for _ in 0..2 {
            assert_eq!(alice.value(sql).unwrap(), "2", "{sql}");
            let error = refused(&mut bob, sql);
            assert!(error.starts_with("42501"), "{sql}: {error}");
        }
    }
    fleet.ashlar.check_log();
}

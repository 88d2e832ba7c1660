//! LISTEN and NOTIFY before shards: among clients of one Ashlar. Neither those of another one over the same shards hear of it, nor those of a
//! shard; and what is said on a shard, by a client or by a trigger, is for clients of that shard.

use super::*;

/// What a client that listens hears next, without saying anything.
fn heard(listener: &mut pg::Connection) -> String {
    let message = listener.read().unwrap();
    assert_eq!(message.kind, b'A', "{}", pg::describe(&message));
    let mut body = pg::Cursor(&message.body);
    let _pid = body.i32();
    let (channel, payload) = (body.string(), body.string());
    format!("{channel} {payload}")
}

/// Whoever inserts a row says so.
const TRIGGER: &str = "
    CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN PERFORM pg_notify('changed', 'by a trigger'); RETURN NULL; END$$;
    CREATE TRIGGER tells AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell()";

#[test]
fn what_is_said_is_heard_by_clients_of_the_same_server_alone() {
    let fleet = Fleet::start(2);
    let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
    let second = start(&format!("[shard]\ndata_dir = \"{}\"\n", data.path().join("d").display()));
    declare(&mut second.connect(), fleet.shards.iter().map(Postgres::address));
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    let (mut here, mut there, mut below) = (fleet.client(), second.connect(), fleet.shard(0));
    for listener in [&mut here, &mut there, &mut below] {
        done(listener, "LISTEN changed");
    }
    let (mut client_there, mut client_below) = (second.connect(), fleet.shard(0));

    // By a transaction on both shards.
    let insert = |client: &mut pg::Connection, key: i64| done(client, &format!("INSERT INTO t (k) VALUES ({key})"));
    done(&mut client, "BEGIN");
    keys.iter().for_each(|key| insert(&mut client, *key));
    done(&mut client, "NOTIFY changed, 'by Ashlar'");
    done(&mut client, "COMMIT");
    assert_eq!(heard(&mut here), "changed by Ashlar");
    // What the others hear first has been said after it.
    done(&mut client_there, "NOTIFY changed, 'by the second'");
    assert_eq!(heard(&mut there), "changed by the second");
    done(&mut client_below, "NOTIFY changed, 'by a client of the shard'");
    assert_eq!(heard(&mut below), "changed by a client of the shard");

    // By a trigger of the shard, for whoever inserts a row there.
    done(&mut client, "DELETE FROM t");
    done(&mut fleet.shard(0), TRIGGER);
    insert(&mut client, keys[0]);
    assert_eq!(heard(&mut below), "changed by a trigger");
    done(&mut client, "NOTIFY changed, 'behind the trigger'");
    assert_eq!(heard(&mut here), "changed behind the trigger");
    done(&mut client_there, "NOTIFY changed, 'behind it too'");
    assert_eq!(heard(&mut there), "changed behind it too");

    // A shard that has said something cannot promise to commit, which it need not where it decides.
    done(&mut client, "DELETE FROM t");
    done(&mut client, "BEGIN");
    [keys[1], keys[0]].into_iter().for_each(|key| insert(&mut client, key));
    let error = refused(&mut client, "COMMIT");
    assert!(error.starts_with("0A000") && error.contains("shard s0"), "{error}");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "0");
    done(&mut client, "BEGIN");
    [keys[0], keys[1]].into_iter().for_each(|key| insert(&mut client, key));
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    // Of what was rolled back nothing was heard.
    assert_eq!(heard(&mut below), "changed by a trigger");
    done(&mut client_below, "NOTIFY changed, 'last'");
    assert_eq!(heard(&mut below), "changed last");
    second.check_log();
    fleet.ashlar.check_log();
}

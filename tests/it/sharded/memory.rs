//! What is held of shards' answers has a bound, and only who reaches it fails.

use super::*;

#[test]
fn long_rows_of_shards_are_paid_for() {
    let fleet = Fleet::with(2, "[store]\nmemory_mib_max = 32");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for (shard, key) in keys.iter().enumerate() {
        let mebibytes = if shard == 0 { 60 } else { 4 };
        let sql = format!("INSERT INTO t VALUES ({key}, repeat('x', {mebibytes} << 20))");
        done(&mut fleet.shard(shard), &sql);
    }
    let length = |client: &mut pg::Connection, key: i64| {
        client.value(&format!("SELECT length(v) FROM t WHERE k = {key}")).unwrap()
    };
    for sql in [
        format!("SELECT v FROM t WHERE k = {}", keys[0]),
        "SELECT v FROM t".to_owned(),
        "SELECT v FROM t ORDER BY k".to_owned(),
        "SELECT max(length(v || a.k)) FROM t a GROUP BY length(v) % 2".to_owned(),
    ] {
        let error = refused(&mut client, &sql);
        assert!(error.contains("53200"), "{sql}: {error}");
        // Who asks for less is answered, by the same connections or by others.
        assert_eq!(length(&mut client, keys[0]), (60 << 20).to_string());
        let row = rows(&mut client, &format!("SELECT v FROM t WHERE k = {}", keys[1])).remove(0);
        assert_eq!(row[0].as_ref().unwrap().len(), 4 << 20);
    }
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    fleet.ashlar.check_log();
}

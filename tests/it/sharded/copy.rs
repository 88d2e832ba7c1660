//! COPY into sharded tables and out of them: the rows are where INSERTs would have put them, all of them or none.

use super::*;

/// Runs a COPY FROM STDIN with these pieces of data: its tag, or its error's SQLSTATE, message, detail and context.
pub(super) fn copy_in(client: &mut pg::Connection, sql: &str, pieces: &[&[u8]]) -> Result<String, String> {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let (mut tag, mut error) = (String::new(), None);
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'G' => {
                for piece in pieces {
                    client.send(&pg::message(b'd', &[piece])).unwrap();
                }
                client.send(&pg::message(b'c', &[])).unwrap();
            }
            b'C' => tag = String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned(),
            b'E' => {
                let fields = [b'C', b'M', b'D', b'W'].into_iter().filter_map(|field| message.field(field));
                error.get_or_insert(fields.collect::<Vec<_>>().join("\n"));
            }
            b'Z' => return error.map_or(Ok(tag), Err),
            _ => {}
        }
    }
}

/// The data of a COPY TO STDOUT.
fn copy_out(client: &mut pg::Connection, sql: &str) -> Vec<u8> {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let mut data = Vec::new();
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'd' => data.extend_from_slice(&message.body),
            b'E' => panic!("{sql}\n{:?}", message.field(b'M')),
            b'Z' => return data,
            _ => {}
        }
    }
}

fn sorted_lines(data: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(data).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

const COLUMNS: &str = "(k bigint PRIMARY KEY, v text, n numeric(10,2), at timestamptz, c char(5), raw bytea)";

/// Rows in COPY's text form with everything in them that has to be escaped.
fn text_rows(count: i64) -> Vec<u8> {
    let mut data = String::new();
    for k in 0..count {
        let text = ["plain", "tab\\there", "line\\nbreak", "back\\\\slash", "", "\\N", "日本語, \"quoted\""];
        let text = text[(k % 7) as usize];
        data.push_str(&format!(
            "{k}\t{text}\t{k}.25\t2026-01-02 03:04:05.{k:06}+02\tc{}\t\\\\x00ff{:02x}\n",
            k % 10,
            k % 256
        ));
    }
    data.into_bytes()
}

#[test]
fn copied_rows_are_where_inserts_would_have_put_them() {
    // Two of the four shards are on each server: one COPY gives way to the other.
    for rule in ["algorithm = 'hash_mod'", "algorithm = 'hash_mod', shards = '4'"] {
        let fleet = Fleet::start(2);
        let oracle = Postgres::start().unwrap();
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        let servers = fleet.servers();
        let end = format!("PARTITION BY HASH (k) USING sharded WITH (servers = '{servers}', {rule})");
        done(&mut alone, &format!("CREATE TABLE t {COLUMNS}"));
        done(&mut client, &format!("CREATE TABLE t {COLUMNS} {end}"));
        let data = text_rows(6000);
        // Cut anywhere.
        let pieces: Vec<&[u8]> = data.chunks(777).collect();
        let all = "SELECT * FROM t ORDER BY k";
        assert_eq!(copy_in(&mut client, "COPY t FROM STDIN", &pieces).unwrap(), "COPY 6000");
        copy_in(&mut alone, "COPY t FROM STDIN", &pieces).unwrap();
        assert_eq!(rows(&mut client, all), rows(&mut alone, all));
        // By its key, each is asked of one shard.
        for k in (0..6000).step_by(501) {
            let one = format!("SELECT v, c FROM t WHERE k = {k}");
            assert_eq!(rows(&mut client, &one), rows(&mut alone, &one));
        }
        // Out in each form, and in again.
        for (form, from) in
            [("text", ""), ("csv", ", HEADER, DELIMITER ';', QUOTE '''', NULL 'nothing'"), ("binary", "")]
        {
            let options = format!("WITH (FORMAT {form}{from})");
            let out = copy_out(&mut client, &format!("COPY t TO STDOUT {options}"));
            if form != "binary" {
                let expected = copy_out(&mut alone, &format!("COPY t TO STDOUT {options}"));
                assert_eq!(sorted_lines(&out), sorted_lines(&expected), "{form}");
            }
            done(&mut client, "TRUNCATE t");
            let pieces: Vec<&[u8]> = out.chunks(4096).collect();
            assert_eq!(copy_in(&mut client, &format!("COPY t FROM STDIN {options}"), &pieces).unwrap(), "COPY 6000");
            assert_eq!(rows(&mut client, all), rows(&mut alone, all), "{form}");
        }
        // Some columns, in another order; the others have their defaults.
        let some = "COPY t (v, k) FROM STDIN (FORMAT csv)";
        assert_eq!(copy_in(&mut client, some, &[b"x,10001\n\"y, z\",10002\n"]).unwrap(), "COPY 2");
        assert_eq!(copy_in(&mut alone, some, &[b"x,10001\n\"y, z\",10002\n"]).unwrap(), "COPY 2");
        assert_eq!(rows(&mut client, all), rows(&mut alone, all));
        let query = "COPY (SELECT k, v FROM t WHERE k > 5990 ORDER BY k) TO STDOUT";
        assert_eq!(copy_out(&mut client, query), copy_out(&mut alone, query));
        fleet.ashlar.check_log();
    }
}

#[test]
fn a_copy_is_on_all_shards_or_on_none() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text, n int) {}", fleet.by("k")));
    let count = "SELECT count(*) FROM t";
    let mut data: Vec<u8> = (0..3000).flat_map(|k| format!("{k}\tv{k}\t{k}\n").into_bytes()).collect();
    let good = data.clone();
    // The shard finds it.
    data.extend_from_slice(b"17\tagain\t1\n");
    let error = copy_in(&mut client, "COPY t FROM STDIN", &[&data]).unwrap_err();
    assert!(error.starts_with("23505") && error.contains("COPY t, line") && error.contains("shard s"), "{error}");
    assert_eq!(client.value(count).unwrap(), "0");
    // A row that is refused long before the data ends.
    let mut early = b"5\tx\tno number\n".to_vec();
    early.extend_from_slice(&good);
    let error = copy_in(&mut client, "COPY t FROM STDIN", &early.chunks(1000).collect::<Vec<_>>()).unwrap_err();
    assert!(error.starts_with("22P02") && error.contains("no number"), "{error}");
    // The key is read here, and its line is the data's.
    let error = copy_in(&mut client, "COPY t FROM STDIN", &[b"1\ta\t1\n2\tb\t2\nthree\tc\t3\n"]).unwrap_err();
    assert!(error.starts_with("22P02") && error.contains("line 3, column k"), "{error}");
    let error = copy_in(&mut client, "COPY t FROM STDIN", &[b"1\ta\t1\n\\N\tb\t2\n"]).unwrap_err();
    assert!(error.starts_with("23502"), "{error}");
    let error = copy_in(&mut client, "COPY t FROM STDIN", &[b"1\ta\n"]).unwrap_err();
    assert!(error.starts_with("22P04"), "{error}");
    assert_eq!(client.value(count).unwrap(), "0");
    // In a transaction: what follows a savepoint goes, the rest stays.
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (-1, 'before', 0)");
    done(&mut client, "SAVEPOINT a");
    copy_in(&mut client, "COPY t FROM STDIN", &[&data]).unwrap_err();
    assert!(refused(&mut client, count).starts_with("25P02"));
    done(&mut client, "ROLLBACK TO a");
    assert_eq!(copy_in(&mut client, "COPY t FROM STDIN", &[&good]).unwrap(), "COPY 3000");
    assert_eq!(fleet.client().value(count).unwrap(), "0");
    done(&mut client, "COMMIT");
    assert_eq!(client.value(count).unwrap(), "3001");
    done(&mut client, "BEGIN");
    done(&mut client, "TRUNCATE t");
    assert_eq!(copy_in(&mut client, "COPY t FROM STDIN WITH (FREEZE on)", &[b"1\ta\t1\n2\tb\t2\n"]).unwrap(), "COPY 2");
    done(&mut client, "ROLLBACK");
    assert_eq!(client.value(count).unwrap(), "3001");
    // The client gives up.
    client.send(&pg::message(b'Q', &[b"COPY t FROM STDIN\0"])).unwrap();
    assert_eq!(client.read().unwrap().kind, b'G');
    client.send(&pg::message(b'd', &[b"5000\tx\t1\n"])).unwrap();
    client.send(&pg::message(b'f', &[b"no more\0"])).unwrap();
    let error = client.read().unwrap();
    assert_eq!(error.field(b'C').as_deref(), Some("57014"));
    assert_eq!(client.read().unwrap().kind, b'Z');
    assert_eq!(client.value(count).unwrap(), "3001");
    // In a transaction that only reads.
    done(&mut client, "BEGIN READ ONLY");
    assert!(copy_in(&mut client, "COPY t FROM STDIN", &[]).unwrap_err().starts_with("25006"));
    done(&mut client, "ROLLBACK");
    fleet.ashlar.check_log();
}

#[test]
fn a_shard_that_goes_away_in_the_middle_leaves_no_row() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    client.send(&pg::message(b'Q', &[b"COPY t FROM STDIN\0"])).unwrap();
    assert_eq!(client.read().unwrap().kind, b'G');
    let data: Vec<u8> = (0..20_000).flat_map(|k| format!("{k}\tsome text of row {k}\n").into_bytes()).collect();
    client.send(&pg::message(b'd', &[&data])).unwrap();
    // All of it: a process that it leaves behind may bring the COPY to its end, and keeps another server from starting there.
    fleet.shards[1].kill().unwrap();
    client.send(&pg::message(b'd', &[b"100000\tlast\n"])).unwrap();
    client.send(&pg::message(b'c', &[])).unwrap();
    let error = client.read().unwrap();
    assert_eq!(error.kind, b'E', "{}", pg::describe(&error));
    assert_eq!(client.read().unwrap().kind, b'Z');
    fleet.shards[1].start_again().unwrap();
    assert_eq!(fleet.shard(0).value("SELECT count(*) FROM t").unwrap(), "0");
    assert_eq!(fleet.shard(1).value("SELECT count(*) FROM t").unwrap(), "0");
}

#[test]
fn copies_of_a_table_get_all_rows_and_one_shard_gets_the_bytes() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    done(
        &mut client,
        &format!("CREATE TABLE b (k int PRIMARY KEY, v text) USING sharded WITH (servers = '{servers}', broadcast)"),
    );
    done(&mut client, "CREATE TABLE s (k int PRIMARY KEY, v text) USING sharded WITH (servers = 's1', single)");
    let data = b"k,v\n1,one\n2,\"two, or\nmore\"\n";
    for table in ["b", "s"] {
        let copy = format!("COPY {table} FROM STDIN WITH (FORMAT csv, HEADER)");
        assert_eq!(copy_in(&mut client, &copy, &[&data[..7], &data[7..]]).unwrap(), "COPY 2", "{table}");
        assert_eq!(client.value(&format!("SELECT v FROM {table} WHERE k = 2")).unwrap(), "two, or\nmore");
        let error = copy_in(&mut client, &copy, &[b"k,v\n3,three\n1,again\n"]).unwrap_err();
        assert!(error.starts_with("23505"), "{error}");
        assert_eq!(client.value(&format!("SELECT count(*) FROM {table}")).unwrap(), "2");
    }
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM b").unwrap(), "2");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_header_is_a_message_as_each_row_is() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')");
    let sql = "COPY (SELECT k, v FROM t ORDER BY k) TO STDOUT WITH (FORMAT csv, HEADER)";
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let mut lines = Vec::new();
    loop {
        let message = client.read().unwrap();
        match message.kind {
            b'd' => lines.push(String::from_utf8(message.body).unwrap()),
            b'Z' => break,
            _ => {}
        }
    }
    assert_eq!(lines, ["k,v\n", "1,a\n", "2,\n", "3,c\n"]);
    fleet.ashlar.check_log();
}

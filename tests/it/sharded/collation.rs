//! The order of texts is that of the servers' collation, or there is no answer.

use super::*;

/// The same shards with databases whose collation is not that of bytes.
fn with_icu(shards: usize) -> (Fleet, Postgres, pg::Connection) {
    let fleet = Fleet::start(shards);
    let oracle = Postgres::start().unwrap();
    let make = "CREATE DATABASE icu LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8' TEMPLATE template0";
    let mut client = fleet.client();
    for shard in 0..shards {
        done(&mut fleet.shard(shard), make);
        done(&mut client, &format!("ALTER SERVER s{shard} OPTIONS (SET dbname 'icu')"));
    }
    done(&mut pg::Connection::connect(oracle.address()).unwrap(), make);
    let alone = pg::Connection::open(oracle.address(), &[("user", "postgres"), ("database", "icu")]).unwrap();
    (fleet, oracle, alone)
}

const WORDS: &[&str] =
    &["a", "B", "b", "Zebra", "äpfel", "apfel", "éclair", "_x", "10", "9", "ñ", "Straße", "strasse", "A", "z", ""];

fn fill(clients: &mut [&mut pg::Connection]) {
    for (k, word) in WORDS.iter().enumerate() {
        let word = if word.is_empty() { "NULL".to_owned() } else { format!("'{word}'") };
        clients.iter_mut().for_each(|client| done(client, &format!("INSERT INTO t VALUES ({k}, {word}, {})", k % 3)));
    }
}

#[test]
fn texts_of_several_shards_are_never_in_another_order_than_those_of_one_server() {
    let (fleet, _oracle, mut alone) = with_icu(2);
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut alone, &mut client]);
    // The order is another one than that of bytes.
    let by_bytes = rows(&mut alone, "SELECT k FROM t ORDER BY v COLLATE \"C\", k");
    assert_ne!(rows(&mut alone, "SELECT k FROM t ORDER BY v, k"), by_bytes);
    for sql in [
        "SELECT k FROM t ORDER BY v COLLATE \"C\", k",
        "SELECT k, v FROM t ORDER BY k",
        "SELECT v FROM t WHERE k = 4 ORDER BY v",
        "SELECT count(*) FROM t WHERE v < 'm'",
        "SELECT k FROM t WHERE v >= 'b' ORDER BY k",
        "SELECT v, count(*) FROM t GROUP BY v, g ORDER BY count(*), g LIMIT 0",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.v = b.v AND a.g = b.g ORDER BY 1, 2",
        "SELECT g, count(DISTINCT v) FROM t GROUP BY g ORDER BY g",
    ] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    for sql in [
        "SELECT k FROM t ORDER BY v, k",
        "SELECT k FROM t ORDER BY upper(v), k LIMIT 3",
        "SELECT min(v) FROM t",
        "SELECT g, max(v) FROM t GROUP BY g",
        "SELECT a.k FROM t a JOIN t b ON a.g = b.g AND a.v < b.v",
        "SELECT k, rank() OVER (ORDER BY v) FROM t",
        "SELECT string_agg(v, ',' ORDER BY v) FROM t",
        "SELECT DISTINCT ON (g) g, v FROM t ORDER BY g, v",
        "SELECT greatest(v, 'm') FROM t a WHERE g IN (SELECT g FROM t b)",
        "SELECT k FROM t WHERE g IN (SELECT g FROM t b WHERE v BETWEEN 'a' AND 'm')",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000"), "{sql}: {error}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn where_texts_are_compared_byte_by_byte_they_are_merged() {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut alone, &mut client]);
    for sql in [
        "SELECT k, v FROM t ORDER BY v, k",
        "SELECT k FROM t ORDER BY v DESC NULLS LAST, k LIMIT 5 OFFSET 2",
        "SELECT min(v), max(v) FROM t",
        "SELECT g, string_agg(v, ',' ORDER BY v) FROM t GROUP BY g ORDER BY g",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.g = b.g AND a.v < b.v ORDER BY 1, 2",
    ] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    fleet.ashlar.check_log();
}

//! What types columns of sharded tables may have: those that the reference page lists, whoever reads them, and no others.

use super::*;

/// Types, each with a value.
const TYPES: &[(&str, &str)] = &[
    ("boolean", "true"),
    ("smallint", "-7"),
    ("integer", "7"),
    ("bigint", "9007199254740993"),
    ("real", "1.5"),
    ("double precision", "-2.25"),
    ("numeric(38,10)", "12345.6789"),
    ("numeric(5)", "123"),
    ("text", "'it''s'"),
    ("varchar", "'v'"),
    ("varchar(7)", "'v 7'"),
    ("character(5)", "'c'"),
    ("bytea", "'\\x00ff'"),
    ("date", "'2026-02-28'"),
    ("time", "'12:34:56.789'"),
    ("timestamp", "'2026-02-28 12:34:56'"),
    ("timestamptz", "'2026-02-28 12:34:56+02'"),
    ("interval", "'1 mon 2 days 03:04:05'"),
    ("uuid", "'00000000-0000-0000-0000-000000000007'"),
    ("json", "'{\"b\":  1, \"a\": 2}'"),
    ("jsonb", "'{\"b\":  1, \"a\": 2}'"),
    ("integer[]", "'{1,NULL,3}'"),
    ("numeric(6,2)[]", "'{1.50,2}'"),
    ("text[]", "'{a,\"b c\"}'"),
];

/// Types of PostgreSQL's that they may not have.
const OTHERS: &[&str] = &[
    "numeric",
    "numeric(39,0)",
    "numeric(5,-2)",
    "timetz",
    "time(0)",
    "timestamp(3)",
    "timestamptz(3)",
    "interval(3)",
    "interval year",
    "money",
    "inet",
    "bit(3)",
    "xml",
    "tsvector",
    "int4range",
    "oid",
    "point",
    "integer[][]",
    "character(3)[]",
    "text COLLATE \"C\"",
];

/// Values that columns of a shard have and the engine has not.
const ODD: &[(&str, &str)] =
    &[("d", "'infinity'"), ("at", "'-infinity'"), ("n", "'NaN'"), ("a", "'{{1,2},{3,4}}'"), ("a", "'[0:1]={1,2}'")];

/// The columns of the table, from both of its sides: so that the engine reads them.
fn by_engine(table: &str, columns: &str) -> String {
    format!("SELECT {columns} FROM {table} a JOIN {table} b ON a.k + 0 = b.k + 0")
}

#[test]
fn columns_have_the_types_that_the_page_lists() {
    let fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let columns: Vec<String> = TYPES.iter().enumerate().map(|(at, (name, _))| format!("c{at} {name}")).collect();
    let values: Vec<&str> = TYPES.iter().map(|(_, value)| *value).collect();
    let create = format!("CREATE TABLE t (k bigint PRIMARY KEY, {})", columns.join(", "));
    done(&mut alone, &create);
    done(&mut client, &format!("{create} {}", fleet.by("k")));
    for client in [&mut alone, &mut client] {
        done(client, "SET TimeZone = 'UTC'");
        done(client, &format!("INSERT INTO t VALUES (1, {})", values.join(", ")));
        done(client, "INSERT INTO t (k) VALUES (2)");
    }
    let engine = by_engine("t", "a.*") + " ORDER BY a.k";
    for sql in ["SELECT * FROM t WHERE k = 1", "SELECT * FROM t ORDER BY k", engine.as_str()] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    let create = |name: &str| format!("CREATE TABLE u (k bigint PRIMARY KEY, x {name}) {}", fleet.by("k"));
    for name in OTHERS {
        let error = refused(&mut client, &create(name));
        assert!(error.starts_with("0A000"), "{name}: {error}");
    }
    // One of somebody's own, which the shards have.
    (0..2).for_each(|shard| done(&mut fleet.shard(shard), "CREATE TYPE mood AS ENUM ('good')"));
    let error = refused(&mut client, &create("mood"));
    assert!(error.starts_with("42704"), "{error}");
    fleet.ashlar.check_log();
}

#[test]
fn values_that_the_engine_has_not_are_those_of_their_shard_alone() {
    let fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let create = "CREATE TABLE odd (k bigint PRIMARY KEY, d date, at timestamptz, n numeric(6,2), a int[])";
    done(&mut alone, create);
    done(&mut client, &format!("{create} {}", fleet.by("k")));
    for (column, value) in ODD {
        for client in [&mut alone, &mut client] {
            done(client, &format!("INSERT INTO odd (k, {column}) VALUES (1, {value})"));
        }
        let sql = format!("SELECT {column} FROM odd WHERE k = 1");
        assert_eq!(rows(&mut client, &sql), rows(&mut alone, &sql), "{column}: {value}");
        let error = refused(&mut client, &by_engine("odd", &format!("a.{column}")));
        assert!(error.starts_with("0A000"), "{column}: {value}: {error}");
        for client in [&mut alone, &mut client] {
            done(client, "DELETE FROM odd WHERE k = 1");
        }
    }
    fleet.ashlar.check_log();
}

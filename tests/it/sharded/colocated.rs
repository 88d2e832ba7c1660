//! Tables that take over the rule of another one by `colocate_with`: equal keys of both are on one shard, so that joins by them are the
//! shards' own, and their rows are those of one server.

use super::*;

/// What the first table is sharded by: the strategy, and parameters besides the servers.
const RULES: &[(&str, &str)] =
    &[("HASH", "algorithm = 'hash_mod'"), ("HASH", "algorithm = 'mod'"), ("RANGE", "ranges = '0..30; 30..60; 60..'")];

/// Joins by the key that each shard answers for its own rows.
const OF_EACH: &[&str] = &[
    "SELECT c.id, c.name, o.o, o.v FROM customers c JOIN orders o ON o.c = c.id ORDER BY c.id, o.o",
    "SELECT c.id, o.v FROM orders o JOIN customers c ON o.c = c.id ORDER BY o.v DESC, o.o LIMIT 9 OFFSET 3",
    "SELECT c.id, o.o FROM customers c LEFT JOIN orders o ON o.c = c.id AND o.v > 7",
    "SELECT count(*), sum(o.v), max(c.id) FROM customers c JOIN orders o ON o.c = c.id",
    "SELECT o.v, count(*) FROM customers c JOIN orders o ON o.c = c.id GROUP BY o.v ORDER BY o.v",
    "SELECT id FROM customers WHERE EXISTS (SELECT 1 FROM orders WHERE orders.c = customers.id AND orders.v > 8)",
];

/// A change of the rows of one table by those of the other.
const CHANGE: &str = "UPDATE orders SET v = v + 100 FROM customers c WHERE c.id = orders.c AND c.id > 10";

/// The same tables on three shards and on one server: customers, their orders, which take over the customers' rule, and orders that
/// have one of their own, with equal keys on other servers.
fn make(client: &mut pg::Connection, alone: &mut pg::Connection, (strategy, rule): (&str, &str)) {
    let orders = "(o bigint, c bigint, v int, PRIMARY KEY (c, o))";
    for (table, columns, key, with) in [
        ("customers", "(id int PRIMARY KEY, name text)", "id", format!("servers = 's0,s1,s2', {rule}")),
        ("orders", orders, "c", "colocate_with = 'customers'".to_owned()),
        ("apart", orders, "c", format!("servers = 's1,s2,s0', {rule}")),
    ] {
        done(alone, &format!("CREATE TABLE {table} {columns}"));
        let by = format!("PARTITION BY {strategy} ({key}) USING sharded WITH ({with})");
        done(client, &format!("CREATE TABLE {table} {columns} {by}"));
    }
    for sql in [
        "INSERT INTO customers SELECT i, 'name ' || i FROM generate_series(0, 89) AS s(i)",
        // Some of nobody.
        "INSERT INTO orders SELECT i, i / 3, i % 11 FROM generate_series(0, 299) AS s(i)",
        "INSERT INTO apart SELECT i, i / 3, i % 11 FROM generate_series(0, 299) AS s(i)",
    ] {
        done(alone, sql);
        done(client, sql);
    }
}

/// The servers that a statement is sent to, and what they are sent.
fn sent(client: &mut pg::Connection, sql: &str) -> Vec<(String, String)> {
    let explained = rows(client, &format!("EXPLAIN (ROUTE) {sql}"));
    let lines: Vec<String> = explained.into_iter().flatten().flatten().collect();
    assert!(lines[0].starts_with("Route: ") && !lines[0].contains("engine"), "{sql}: {lines:?}");
    let to = lines.iter().filter_map(|line| line.strip_prefix("  ")?.split_once(" ("));
    to.map(|(server, text)| (server.to_owned(), text.to_owned())).collect()
}

/// Both have the same rows for a query.
fn agree(client: &mut pg::Connection, alone: &mut pg::Connection, sql: &str) {
    let (mut expected, mut found) = (rows(alone, sql), rows(client, sql));
    if !sql.contains("ORDER BY") {
        expected.sort();
        found.sort();
    }
    assert_eq!(found, expected, "{sql}");
}

/// Joins of what [`make`] has made.
fn join(fleet: &Fleet, client: &mut pg::Connection, alone: &mut pg::Connection) {
    for number in 0..3 {
        let mut shard = fleet.shard(number);
        let strays = "SELECT count(*) FROM orders WHERE c < 90 AND c NOT IN (SELECT id FROM customers)";
        assert_eq!(shard.value(strays).unwrap(), "0", "shard {number}");
        assert_ne!(shard.value("SELECT count(*) FROM orders").unwrap(), "0", "shard {number}");
    }
    for sql in OF_EACH.iter().copied().chain([CHANGE]) {
        let sent = sent(client, sql);
        let servers: Vec<&str> = sent.iter().map(|(server, _)| server.as_str()).collect();
        assert_eq!(servers, ["s0", "s1", "s2"], "{sql}");
        for (server, text) in &sent {
            assert!(text.contains("customers") && text.contains("orders"), "{sql}, {server}: {text}");
        }
    }
    OF_EACH.iter().for_each(|sql| agree(client, alone, sql));
    // A key of either table is one of both.
    for key in [0, 29, 30, 61, 89, 95] {
        let count = format!("SELECT count(*) FROM orders WHERE c = {key}");
        let has_them = |number: &usize| fleet.shard(*number).value(&count).unwrap() == "3";
        let holder = (0..3).find(has_them).expect("a shard has them");
        for condition in [format!("c.id = {key}"), format!("o.c = {key}")] {
            let joined = "SELECT c.name, o.v FROM customers c JOIN orders o ON o.c = c.id";
            let sql = format!("{joined} WHERE {condition} ORDER BY o.o");
            let sent = sent(client, &sql);
            assert_eq!(sent.len(), 1, "{sql}: {sent:?}");
            assert_eq!(sent[0].0, format!("s{holder}"), "{sql}");
            agree(client, alone, &sql);
        }
    }
    for client in [&mut *client, &mut *alone] {
        done(client, CHANGE);
    }
    agree(client, alone, "SELECT o, c, v FROM orders ORDER BY c, o");
    // Equal keys that are elsewhere are brought together here.
    let elsewhere = "SELECT c.id, a.v FROM customers c JOIN apart a ON a.c = c.id ORDER BY c.id, a.o";
    let explained = rows(client, &format!("EXPLAIN (ROUTE) {elsewhere}"));
    assert!(explained.concat().iter().flatten().any(|line| line.contains("HashJoinExec")), "{explained:?}");
    agree(client, alone, elsewhere);
}

#[test]
fn joins_of_colocated_tables_are_the_shards_own() {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let (mut client, mut alone) = (fleet.client(), pg::Connection::connect(oracle.address()).unwrap());
    for rule in RULES {
        make(&mut client, &mut alone, *rule);
        join(&fleet, &mut client, &mut alone);
        for table in ["orders", "apart", "customers"] {
            done(&mut client, &format!("DROP TABLE {table}"));
            done(&mut alone, &format!("DROP TABLE {table}"));
        }
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_rule_that_was_taken_over_is_known_after_a_restart() {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    make(&mut fleet.client(), &mut alone, RULES[0]);
    let fleet = fleet.restart();
    let mut client = fleet.client();
    join(&fleet, &mut client, &mut alone);
    for (key, with, code) in [
        ("bigint", "colocate_with = 'nothing'", "42P01"),
        ("text", "colocate_with = 'customers'", "42804"),
        ("bigint", "colocate_with = 'customers', servers = 's0'", "22023"),
    ] {
        let sql = format!("CREATE TABLE x (k {key} PRIMARY KEY) PARTITION BY HASH (k) USING sharded WITH ({with})");
        let error = refused(&mut client, &sql);
        assert!(error.starts_with(code), "{sql}\n{error}");
        assert_eq!(fleet.shard(0).value("SELECT to_regclass('x')").unwrap(), "NULL");
    }
    fleet.ashlar.check_log();
}

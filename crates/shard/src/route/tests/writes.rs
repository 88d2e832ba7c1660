//! INSERT, UPDATE and DELETE, and what the shards are sent.

use ashlar_base::ErrorCode;

use super::{Parameter, Request, World, check, text};

#[test]
fn writes_go_where_their_rows_are() {
    check(&[
        ("UPDATE a SET x = 1 WHERE k = 4", "1"),
        ("UPDATE a SET x = 1 WHERE k IN (4, 5)", "1,2 Count"),
        ("UPDATE a SET x = 1", "0,1,2 Count"),
        ("UPDATE a SET x = x + 1 RETURNING k", "0,1,2 Concat"),
        ("UPDATE a SET k = 5 WHERE k = 4", "0A000: column \"k\" is of the sharding key..."),
        ("UPDATE a SET (x, k) = (1, 2) WHERE k = 4", "0A000..."),
        ("UPDATE a SET k = k WHERE a.k = 4", "1"),
        ("UPDATE a SET x = y FROM b WHERE a.k = b.k", "0,1,2 Count"),
        ("UPDATE a SET x = y FROM b WHERE a.k = 4 AND b.k = 7", "1"),
        ("UPDATE a SET x = y FROM b WHERE a.x = b.y", "0A000..."),
        ("UPDATE a SET x = (SELECT max(y) FROM b WHERE b.k = a.k)", "0,1,2 Count"),
        ("UPDATE a SET x = (SELECT max(y) FROM b) WHERE k = 4", "0A000..."),
        ("UPDATE a SET x = nextval('s') WHERE k = 4", "0A000..."),
        ("UPDATE a SET t = now()::text WHERE k = 4", "1"),
        ("UPDATE a SET t = now()::text", "0A000..."),
        ("UPDATE a SET x = random() * 5", "0,1,2 Count"),
        ("INSERT INTO a (k, t) VALUES (4, now()), (5, now())", "0A000..."),
        ("INSERT INTO a (k, t) VALUES (4, now()), (7, now())", "1"),
        ("DELETE FROM a WHERE k = 4", "1"),
        ("DELETE FROM a USING b WHERE a.k = b.k AND b.y = 1", "0,1,2 Count"),
        ("DELETE FROM a WHERE k IN (SELECT k FROM b WHERE y = 1)", "0,1,2 Count"),
        ("DELETE FROM a WHERE x IN (SELECT y FROM b)", "0A000..."),
        ("DELETE FROM a WHERE x IN (SELECT id FROM local) AND k = 4", "0A000..."),
        ("WITH q AS (SELECT k FROM b WHERE k = 4) DELETE FROM a USING q WHERE a.k = q.k", "1"),
        ("UPDATE one SET name = 'x'", "0"),
        ("UPDATE one SET name = 'x' FROM a WHERE a.x = one.id", "0A000..."),
    ]);
}

#[test]
fn changes_of_all_shards_without_a_key_are_told_from_others() {
    let world = World::new();
    let is_refused = |sql: &str, parameters: &[Parameter<'_>]| {
        let route = world.route(sql).unwrap().unwrap();
        let request = Request { parameters: &parameters, ..Request::default() };
        match route.check_key(&request) {
            Ok(()) => false,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::CardinalityViolation, "{sql}: {error}");
                assert!(error.message().contains("on all shards") && error.fields().hint.is_some(), "{sql}: {error}");
                true
            }
        }
    };
    let (four, several) = ([text(20, "4")], [text(1016, "{4,5,6}")]);
    let cases: &[(&str, &[Parameter<'_>], bool)] = &[
        ("UPDATE a SET x = 1", &[], true),
        ("DELETE FROM a", &[], true),
        ("DELETE FROM a WHERE x = 1 AND t > 'x'", &[], true),
        ("DELETE FROM a WHERE k = x", &[], true),
        ("DELETE FROM a WHERE k = 4 OR x = 1", &[], true),
        ("DELETE FROM a WHERE k IN (SELECT k FROM b WHERE y = 1)", &[], true),
        ("UPDATE a SET x = y FROM b WHERE a.k = b.k", &[], true),
        // A range that is on all shards gives no key.
        ("DELETE FROM a WHERE k > 4", &[], true),
        ("DELETE FROM r WHERE k > 4", &[], true),
        ("DELETE FROM r WHERE x > 4", &[], true),
        // Not all columns of the key.
        ("DELETE FROM p WHERE m = 4", &[], true),
        ("DELETE FROM a WHERE k = 4", &[], false),
        ("DELETE FROM a WHERE k IN (4, 5)", &[], false),
        // Whichever shards they are on.
        ("DELETE FROM a WHERE k IN (4, 5, 6)", &[], false),
        ("DELETE FROM a WHERE (k = 4 OR k = 5 OR k = 6) AND x = 1", &[], false),
        ("DELETE FROM a WHERE k = ANY ($1)", &several, false),
        ("DELETE FROM a WHERE k = $1", &four, false),
        ("DELETE FROM a WHERE k = NULL", &[], false),
        ("DELETE FROM a WHERE k BETWEEN 4 AND 5", &[], false),
        ("DELETE FROM r WHERE k > 15", &[], false),
        ("DELETE FROM r WHERE k < 10", &[], false),
        ("DELETE FROM p WHERE m IN (1, 2, 3) AND n IN ('a', 'b', 'c')", &[], false),
        ("UPDATE a SET x = y FROM b WHERE a.k = b.k AND b.k = 4", &[], false),
        // On every server, or on one: no key would help.
        ("UPDATE \"all\" SET name = 'x'", &[], false),
        ("UPDATE one SET name = 'x'", &[], false),
        // Nothing is changed.
        ("SELECT * FROM a", &[], false),
        ("INSERT INTO a SELECT * FROM c", &[], false),
    ];
    for (sql, parameters, expected) in cases {
        assert_eq!(is_refused(sql, parameters), *expected, "{sql}");
    }
}

#[test]
fn rows_of_an_insert_go_each_to_its_shard() {
    check(&[
        ("INSERT INTO a VALUES (4, 1, 'x')", "1"),
        ("INSERT INTO a (x, k) VALUES (1, 5)", "2"),
        ("INSERT INTO a (x, k) VALUES (1, 4), (2, 5), (3, 7)", "1,2 Count"),
        ("INSERT INTO a (x, k) VALUES (1, 4), (2, 5), (3, 7) RETURNING x", "1,2 Interleave([0, 1, 0])"),
        ("INSERT INTO a (k) VALUES (4) ON CONFLICT (k) DO UPDATE SET x = excluded.x, k = excluded.k", "1"),
        ("INSERT INTO a (k) VALUES (4) ON CONFLICT (k) DO UPDATE SET k = 5", "0A000..."),
        ("INSERT INTO a (x) VALUES (4)", "23502..."),
        ("INSERT INTO a (k) VALUES (NULL)", "23502..."),
        ("INSERT INTO a (k) VALUES (1 + 1)", "0A000..."),
        ("INSERT INTO a (k) VALUES ($1)", "0A000..."),
        ("INSERT INTO a (nothing) VALUES (4)", "42703..."),
        ("INSERT INTO a DEFAULT VALUES", "0A000..."),
        ("INSERT INTO c (x) VALUES (4)", "1"),
        ("INSERT INTO c (k, x) VALUES (DEFAULT, 4), (5, 5)", "1,2 Count"),
        ("INSERT INTO a (k, x) VALUES (4, (SELECT max(y) FROM b))", "0A000..."),
        ("INSERT INTO a (k, x) VALUES (4, (SELECT max(id) FROM \"all\"))", "1"),
        ("INSERT INTO a SELECT * FROM c", "0,1,2 Count"),
        ("INSERT INTO a SELECT * FROM c WHERE k = 4", "1"),
        ("INSERT INTO a SELECT k + 1, x, t FROM c", "0A000..."),
        ("INSERT INTO a SELECT x, k::int4, t FROM c", "0A000..."),
        ("INSERT INTO a SELECT 4, x, t FROM c WHERE k = 7", "1"),
        ("INSERT INTO a SELECT 5, x, t FROM c WHERE k = 7", "0A000..."),
        ("INSERT INTO a SELECT * FROM c LIMIT 3", "0A000..."),
        ("INSERT INTO a (k, x) SELECT k, count(*) FROM c GROUP BY k", "0,1,2 Count"),
        ("INSERT INTO local SELECT * FROM a", "elsewhere"),
        ("INSERT INTO one VALUES (1, 'x')", "0"),
        ("INSERT INTO one VALUES (1, (SELECT max(name) FROM \"all\"))", "0"),
    ]);
}

#[test]
fn rows_are_written_where_all_is_that_is_read_beside_them() {
    check(&[
        ("INSERT INTO one VALUES (1, (SELECT max(t) FROM a))", "0A000..."),
        ("INSERT INTO one VALUES (1, (SELECT t FROM a WHERE k = 4))", "1"),
        ("INSERT INTO one VALUES (1, (SELECT t FROM a WHERE k = 5))", "0A000..."),
        ("INSERT INTO one VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = (SELECT max(t) FROM a)", "0A000..."),
        ("INSERT INTO one VALUES (1, 'x') RETURNING (SELECT count(*) FROM a)", "0A000..."),
        ("INSERT INTO a (k, x) VALUES (4, (SELECT y FROM b WHERE k = 7))", "1"),
        ("INSERT INTO a (k, x) VALUES (4, (SELECT y FROM b WHERE k = 5))", "0A000..."),
        ("INSERT INTO a (k, x) VALUES (4, 1), (7, (SELECT y FROM b WHERE k = 4))", "1"),
        ("INSERT INTO a (k, x) VALUES (4, 1), (5, (SELECT y FROM b WHERE k = 4))", "0A000..."),
        ("INSERT INTO a (k) VALUES (4) ON CONFLICT (k) DO UPDATE SET x = (SELECT y FROM b WHERE b.k = 4)", "1"),
        (
            "INSERT INTO a (k) VALUES (4) ON CONFLICT (k) DO UPDATE SET x = (SELECT y FROM b WHERE b.k = a.k)",
            "0A000...",
        ),
        ("INSERT INTO a (k) VALUES (4) RETURNING (SELECT count(*) FROM b)", "0A000..."),
    ]);
}

#[test]
fn rows_are_changed_in_with_where_one_shard_has_all() {
    check(&[
        ("WITH d AS (DELETE FROM b WHERE k = 4 RETURNING *) SELECT count(*) FROM d", "1"),
        ("WITH d AS (DELETE FROM c WHERE k = 4 RETURNING *) INSERT INTO a SELECT * FROM d", "1"),
        ("WITH d (i, j) AS (DELETE FROM c WHERE k = 4 RETURNING k, x) INSERT INTO a (k, x) SELECT i, j FROM d", "1"),
        ("WITH n AS (INSERT INTO b VALUES (1, 4, 2) RETURNING k) INSERT INTO a (k) SELECT k FROM n", "1"),
        ("WITH n AS (INSERT INTO b (id, k) VALUES (1, 4), (2, 7)) SELECT x FROM a WHERE k = 4", "1"),
        ("WITH n AS (INSERT INTO c (x) VALUES (1)) SELECT x FROM a WHERE k = 4", "1"),
        ("WITH n AS (INSERT INTO a SELECT * FROM c WHERE k = 4 RETURNING k) SELECT * FROM n", "1"),
        ("WITH n AS (UPDATE a SET x = 1 WHERE k = 4 RETURNING k, x) DELETE FROM b USING n WHERE b.k = n.k", "1"),
        ("WITH n AS (UPDATE one SET name = 'x' RETURNING id) SELECT * FROM n", "0"),
        (
            "WITH q AS (SELECT k FROM c WHERE k = 7), n AS (DELETE FROM b USING q WHERE b.k = q.k) \
             SELECT 1 FROM a WHERE k = 4",
            "1",
        ),
        // Whoever reads them, all rows are changed.
        ("WITH d AS (DELETE FROM b WHERE k = 4 RETURNING *) SELECT count(*) FROM d WHERE false", "1"),
        ("WITH d AS (DELETE FROM b WHERE k = 4 RETURNING *) SELECT count(*) FROM d WHERE k = 5", "1"),
        (
            "WITH d AS (DELETE FROM b RETURNING *) SELECT count(*) FROM d WHERE k = 4",
            "0A000: this statement concerns several shards, and rows are changed in WITH",
        ),
        (
            "WITH d AS (DELETE FROM b RETURNING k) SELECT * FROM a WHERE a.k = 4 AND a.k IN (SELECT k FROM d)",
            "0A000...",
        ),
        ("WITH d AS (DELETE FROM b RETURNING k) SELECT * FROM a JOIN d ON a.k = d.k WHERE a.k = 4", "0A000..."),
        ("WITH n AS (UPDATE a SET x = 1 RETURNING k) DELETE FROM b USING n WHERE b.k = n.k AND b.k = 4", "0A000..."),
        (
            "WITH q AS (SELECT k FROM c), n AS (DELETE FROM b USING q WHERE b.k = q.k) SELECT 1 FROM a WHERE k = 4",
            "0A000...",
        ),
        ("WITH d AS (DELETE FROM c WHERE k = 5 RETURNING *) INSERT INTO a (k, x) VALUES (4, 1)", "0A000..."),
        ("WITH d AS (DELETE FROM c WHERE k = 7 RETURNING *) INSERT INTO a (k, x) VALUES (4, 1)", "1"),
        ("WITH n AS (INSERT INTO b (id, k) VALUES (1, 4), (2, 5)) SELECT x FROM a WHERE k = 4", "0A000..."),
        ("WITH n AS (INSERT INTO b (id, k) VALUES (1, NULL)) SELECT x FROM a WHERE k = 4", "0A000..."),
        ("WITH n AS (INSERT INTO b (id) VALUES (1)) SELECT x FROM a WHERE k = 4", "0A000..."),
        ("WITH n AS (INSERT INTO made (x) VALUES (1)) SELECT x FROM a WHERE k = 4", "0A000..."),
        ("WITH n AS (UPDATE a SET k = 5 WHERE k = 4) SELECT 1 FROM b WHERE k = 4", "0A000..."),
        (
            "WITH n AS (UPDATE \"all\" SET name = 'x') SELECT 1 FROM a WHERE k = 4",
            "0A000: WITH that changes rows of all copies of table \"all\" is not supported",
        ),
        (
            "WITH n AS (UPDATE local SET x = 1) SELECT 1 FROM a WHERE k = 4",
            "0A000: WITH that changes rows is not supported for sharded tables",
        ),
    ]);
    let world = World::new();
    assert_eq!(
        world.texts("WITH d AS (DELETE FROM h WHERE k = 6 RETURNING *) INSERT INTO h SELECT d.* FROM d")[0].1,
        "WITH d AS (DELETE FROM \"h_2\" AS \"h\" WHERE k = 6 RETURNING \"h\".\"k\", \"h\".\"x\", \"h\".\"t\") \
         INSERT INTO \"h_2\" AS \"h\" (\"k\", \"x\", \"t\") SELECT \"d\".\"k\", \"d\".\"x\", \"d\".\"t\" FROM d"
    );
    let route = world.route("WITH d AS (DELETE FROM b WHERE k = 4) SELECT 1").unwrap().unwrap();
    assert!(route.is_write());
    assert_eq!(route.verb(), Some("SELECT"));
}

#[test]
fn a_key_that_is_null_is_of_no_shard_that_is_read() {
    check(&[
        ("INSERT INTO c (k, x) SELECT NULL, x FROM a WHERE k = 4", "0A000..."),
        ("INSERT INTO a (x) SELECT x FROM c WHERE k = 4", "0A000..."),
        ("INSERT INTO c (x) SELECT x FROM a WHERE k = 4", "1"),
        ("INSERT INTO a (k) SELECT c.k FROM b JOIN c ON b.k = c.k WHERE b.k = 4", "1"),
        ("INSERT INTO a (k) SELECT c.k FROM b LEFT JOIN c ON b.k = c.k WHERE b.k = 4", "0A000..."),
        ("INSERT INTO a (k, x) SELECT k, count(*) FROM c WHERE k = 4 GROUP BY ROLLUP (k)", "0A000..."),
    ]);
    let world = World::new();
    let sql = "INSERT INTO a (k, x) SELECT $1, x FROM c WHERE k = 4";
    assert_eq!(world.goes(sql, &[text(20, "7")]), "1");
    let null = [Parameter { oid: 20, is_binary: false, bytes: None }];
    assert!(world.goes(sql, &null).starts_with("0A000"), "{}", world.goes(sql, &null));
}

#[test]
fn columns_that_a_server_makes_are_those_of_one_shard() {
    check(&[
        ("SELECT tableoid, ctid, xmin FROM a WHERE k = 4", "1"),
        ("UPDATE a SET x = 1 WHERE k = 4 AND ctid = '(0,1)'", "1"),
        ("DELETE FROM a WHERE ctid = '(0,1)'", "0A000..."),
        ("SELECT ctid FROM a", "engine..."),
        ("SELECT ctid FROM \"all\"", "engine..."),
        ("DELETE FROM \"all\" WHERE ctid = '(0,1)'", "0A000..."),
    ]);
}

#[test]
fn all_copies_of_a_broadcast_table_change_alike() {
    check(&[
        ("INSERT INTO \"all\" VALUES (1, 'x')", "0,1,2 Identical"),
        ("UPDATE \"all\" SET name = upper(name)", "0,1,2 Identical"),
        ("UPDATE \"all\" SET name = random()::text", "0A000..."),
        ("UPDATE \"all\" SET name = current_timestamp::text", "0A000..."),
        ("INSERT INTO \"all\" (name) VALUES ('now')", "0A000..."),
        ("UPDATE \"all\" SET name = o.name FROM \"all\" AS o WHERE o.id = \"all\".id + 1", "0A000..."),
        ("INSERT INTO \"all\" SELECT DISTINCT ON (name) id, name FROM \"all\"", "0A000..."),
        ("INSERT INTO \"all\" SELECT max(id) + 1, 'x' FROM \"all\"", "0,1,2 Identical"),
        ("INSERT INTO \"all\" SELECT 1, string_agg(name, ',') FROM \"all\"", "0A000..."),
        ("DELETE FROM \"all\" WHERE id IN (SELECT k FROM a)", "0A000..."),
        ("DELETE FROM \"all\" WHERE id IN (SELECT id FROM \"all\" LIMIT 1)", "0A000..."),
    ]);
}

#[test]
fn a_default_that_each_server_computes_is_given_to_no_copy() {
    check(&[
        ("UPDATE stamped SET made_at = DEFAULT", "0A000: cannot change all copies of table \"stamped\" alike..."),
        ("UPDATE stamped SET name = DEFAULT", "0,1,2 Identical"),
        ("UPDATE stamped SET (name, made_at) = (DEFAULT, 'x')", "0,1,2 Identical"),
        ("UPDATE stamped SET (name, made_at) = ('x', DEFAULT)", "0A000..."),
        ("UPDATE stamped SET (made_at) = ROW(DEFAULT)", "0A000..."),
        ("UPDATE stamped SET made_at = 'x', name = DEFAULT WHERE made_at = 'y'", "0,1,2 Identical"),
    ]);
    let world = World::new();
    let conflict = |set: &str| {
        let sql = format!("INSERT INTO stamped SELECT x, t, t FROM c ON CONFLICT (id) DO UPDATE SET {set}");
        world.spread(&sql).map(|_| ()).map_err(|error| error.code())
    };
    assert_eq!(conflict("made_at = 'x', name = DEFAULT"), Ok(()));
    assert_eq!(conflict("(made_at, name) = ('x', DEFAULT)"), Ok(()));
    assert_eq!(conflict("made_at = DEFAULT"), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(conflict("(made_at, name) = (DEFAULT, 'x')"), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(conflict("name = DEFAULT, made_at = DEFAULT WHERE stamped.id > 3"), Err(ErrorCode::FeatureNotSupported));
}

#[test]
fn each_shard_is_sent_its_own_rows() {
    let world = World::new();
    let sent = world.texts("INSERT INTO a (k, x) VALUES (4, $1), (5, $2), /* c */ (7, $3) ON CONFLICT DO NOTHING");
    assert_eq!(
        sent,
        [
            (
                "s1".into(),
                "INSERT INTO a (k, x) VALUES (4, $1), (7, $2) ON CONFLICT DO NOTHING".into(),
                Some(vec![0, 2])
            ),
            ("s2".into(), "INSERT INTO a (k, x) VALUES (5, $1) ON CONFLICT DO NOTHING".into(), Some(vec![1])),
        ]
    );
    let sent = world.texts("INSERT INTO h VALUES (4, 1, 'a'), (5, 2, 'b')");
    assert_eq!(sent[0].1, "INSERT INTO \"h_0\" AS \"h\" (\"k\", \"x\", \"t\") VALUES (4, 1, 'a')");
    assert_eq!(sent[1].1, "INSERT INTO \"h_1\" AS \"h\" (\"k\", \"x\", \"t\") VALUES (5, 2, 'b')");
    let sent = world.texts("SELECT h.x FROM public.h WHERE h.k = 6");
    assert_eq!((&*sent[0].0, &*sent[0].1), ("s0", "SELECT h.x FROM \"public\".\"h_2\" AS \"h\" WHERE h.k = 6"));
    let sent = world.texts("UPDATE h AS z SET x = 1 WHERE z.k = 7");
    assert_eq!((&*sent[0].0, &*sent[0].1), ("s1", "UPDATE \"h_3\" AS z SET x = 1 WHERE z.k = 7"));
    let sent = world.texts("SELECT * FROM a WHERE k = 4");
    assert_eq!(sent[0].1, "SELECT * FROM a WHERE k = 4");
}

#[test]
fn a_constraint_of_a_table_with_other_names_is_told_by_its_columns() {
    let world = World::new();
    let sent = |sql: &str| world.texts(sql).into_iter().map(|one| one.1).collect::<Vec<_>>();
    assert_eq!(
        sent("INSERT INTO h (k) VALUES (4), (5) ON CONFLICT /* c */ on constraint \"h_pkey\" DO UPDATE SET x = 1"),
        [
            "INSERT INTO \"h_0\" AS \"h\" (k) VALUES (4) ON CONFLICT /* c */ (\"k\") DO UPDATE SET x = 1",
            "INSERT INTO \"h_1\" AS \"h\" (k) VALUES (5) ON CONFLICT /* c */ (\"k\") DO UPDATE SET x = 1",
        ]
    );
    let others = [
        ("INSERT INTO h (k) VALUES (4) ON CONFLICT ON CONSTRAINT other DO NOTHING", "other"),
        ("INSERT INTO a (k) VALUES (4) ON CONFLICT ON CONSTRAINT h_pkey DO NOTHING", "h_pkey"),
    ];
    for (sql, name) in others {
        assert!(sent(sql)[0].ends_with(&format!("ON CONFLICT ON CONSTRAINT {name} DO NOTHING")), "{sql}");
    }
    let spread = world
        .spread("INSERT INTO h SELECT k + 1, x, t FROM h ON CONFLICT ON CONSTRAINT h_pkey DO NOTHING RETURNING $1");
    let tail = spread.unwrap().tail(|number| Ok(format!("<{number}>"))).unwrap();
    assert_eq!(tail, "ON CONFLICT (\"k\") DO NOTHING RETURNING <0>");
}

#[test]
fn what_several_columns_are_assigned_together_stands_in_the_text_once() {
    let world = World::new();
    let sent = |sql: &str| world.texts(sql).into_iter().map(|one| one.1).collect::<Vec<_>>();
    assert_eq!(
        sent("UPDATE h SET (x, t) = (SELECT i.x, i.t FROM h AS i WHERE i.k = h.k) WHERE k = 7"),
        ["UPDATE \"h_3\" AS \"h\" SET (x, t) = (SELECT i.x, i.t FROM \"h_3\" AS i WHERE i.k = h.k) WHERE k = 7"]
    );
    assert_eq!(
        sent("UPDATE h SET (x, t) = ROW((SELECT i.x FROM h AS i WHERE i.k = h.k), 'z'), x = 1 WHERE k = 6"),
        [
            "UPDATE \"h_2\" AS \"h\" SET (x, t) = ROW((SELECT i.x FROM \"h_2\" AS i WHERE i.k = h.k), 'z'), x = 1 WHERE k = 6"
        ]
    );
    assert_eq!(
        sent("UPDATE a SET (x, t) = (CASE WHEN k IN (4, 5) THEN 1 END, 'z')"),
        [
            "UPDATE a SET (x, t) = (CASE WHEN k IN (4) THEN 1 END, 'z')",
            "UPDATE a SET (x, t) = (CASE WHEN k IN (4) THEN 1 END, 'z')",
            "UPDATE a SET (x, t) = (CASE WHEN k IN (5) THEN 1 END, 'z')",
        ]
    );
}

#[test]
fn columns_that_an_insert_counts_are_sent_by_their_names() {
    let world = World::new();
    let sent = |sql: &str| world.texts(sql)[0].1.clone();
    let all = [
        ("INSERT INTO a VALUES (4, 1)", "INSERT INTO a (\"k\", \"x\") VALUES (4, 1)"),
        (
            "INSERT INTO public.h AS \"Z\" /* c */ VALUES (4, $1, DEFAULT) RETURNING *",
            "INSERT INTO \"public\".\"h_0\" AS \"Z\" (\"k\", \"x\", \"t\") /* c */ VALUES (4, $1, DEFAULT) RETURNING *",
        ),
        ("INSERT INTO made VALUES (DEFAULT)", "INSERT INTO made (\"id\") VALUES (7)"),
        (
            "INSERT INTO a SELECT * FROM c z WHERE k = 4",
            "INSERT INTO a (\"k\", \"x\", \"t\") SELECT \"z\".\"k\", \"z\".\"x\", \"z\".\"t\" FROM c z WHERE k = 4",
        ),
        (
            "INSERT INTO a SELECT c.* FROM b, c WHERE b.k = 4 AND c.k = 4",
            "INSERT INTO a (\"k\", \"x\", \"t\") SELECT \"c\".\"k\", \"c\".\"x\", \"c\".\"t\" FROM b, c \
             WHERE b.k = 4 AND c.k = 4",
        ),
        (
            "WITH n AS (SELECT * FROM h WHERE k = 4) INSERT INTO h (SELECT n.* FROM n)",
            "WITH n AS (SELECT \"h\".\"k\", \"h\".\"x\", \"h\".\"t\" FROM \"h_0\" AS \"h\" WHERE k = 4) \
             INSERT INTO \"h_0\" AS \"h\" (\"k\", \"x\", \"t\") (SELECT \"n\".\"k\", \"n\".\"x\", \"n\".\"t\" FROM n)",
        ),
        ("INSERT INTO a (k) VALUES (4) RETURNING *", "INSERT INTO a (k) VALUES (4) RETURNING *"),
    ];
    for (sql, expected) in all {
        assert_eq!(sent(sql), expected);
    }
    check(&[
        ("INSERT INTO a SELECT * FROM c JOIN b USING (k) WHERE k = 4", "0A000..."),
        ("INSERT INTO a TABLE c", "0A000..."),
    ]);
}

#[test]
fn rows_that_are_computed_here_are_sent_with_what_stands_behind_them() {
    let world = World::new();
    let sql = "INSERT INTO h (k, t) SELECT k + 1, t FROM h ON CONFLICT (k) DO UPDATE SET x = $2 + h.x RETURNING k, $1";
    let spread = world.spread(sql).unwrap();
    assert!(spread.has_tail() && spread.is_whole() && spread.has_parameters());
    let tail = spread.tail(|number| Ok(format!("<{number}>"))).unwrap();
    let table = world.0.iter().find(|table| &*table.name == "h").unwrap();
    assert_eq!(
        spread.text(&table.rule.shards()[1], &[0, 2], "('1', 'a'), ('5', NULL)", &tail),
        "INSERT INTO \"public\".\"h_1\" AS \"h\" (\"k\", \"t\") VALUES ('1', 'a'), ('5', NULL) \
         ON CONFLICT (k) DO UPDATE SET x = <1> + h.x RETURNING k, <0>"
    );
    let spread = world.spread("INSERT INTO a AS z SELECT id, 1, name FROM local").unwrap();
    assert!(!spread.has_tail() && !spread.is_whole() && spread.alias() == "z");
    let spread = world.spread("INSERT INTO h (k) OVERRIDING SYSTEM VALUE SELECT k + 1 FROM h RETURNING k").unwrap();
    let tail = spread.tail(|number| Ok(format!("<{number}>"))).unwrap();
    assert_eq!(
        spread.text(&table.rule.shards()[0], &[0], "('1')", &tail),
        "INSERT INTO \"public\".\"h_0\" AS \"h\" (\"k\") OVERRIDING SYSTEM VALUE VALUES ('1') RETURNING k"
    );
    for sql in [
        "INSERT INTO a SELECT x, x, t FROM c RETURNING (SELECT max(y) FROM b)",
        "INSERT INTO a SELECT x, x, t FROM c RETURNING (SELECT max(id) FROM local)",
        "INSERT INTO a SELECT x, x, t FROM c RETURNING k, now()",
        "INSERT INTO a SELECT x, x, t FROM c RETURNING nextval('s')",
        "INSERT INTO a SELECT x, x, t FROM c RETURNING public.a.k",
        "INSERT INTO a SELECT x, x, t FROM c ON CONFLICT (k) DO UPDATE SET k = 5",
        "INSERT INTO a SELECT x, x, t FROM c ON CONFLICT (k) DO UPDATE SET t = ctid::text",
        "INSERT INTO \"all\" SELECT x, t FROM c ON CONFLICT (id) DO UPDATE SET name = random()::text",
    ] {
        assert_eq!(world.spread(sql).unwrap_err().code(), ErrorCode::FeatureNotSupported, "{sql}");
    }
}

#[test]
fn keys_are_made_for_rows_that_have_none() {
    let world = World::new();
    let sent = |sql: &str| world.texts(sql).into_iter().map(|one| one.1).collect::<Vec<_>>();
    assert_eq!(sent("INSERT INTO made (x) VALUES ($1)"), ["INSERT INTO made (x, \"id\") VALUES ($1, 7)"]);
    assert_eq!(
        sent("INSERT INTO made (id, x) VALUES (DEFAULT, 2), (6, 3)"),
        ["INSERT INTO made (id, x) VALUES (6, 3)", "INSERT INTO made (id, x) VALUES (7, 2)"]
    );
    assert_eq!(sent("INSERT INTO made VALUES (6, 3)"), ["INSERT INTO made (\"id\", \"x\") VALUES (6, 3)"]);
    assert_eq!(world.goes("INSERT INTO made (id) VALUES ($1)", &[text(20, "5")]), "2");
}

#[test]
fn a_sample_keeps_all_parameters() {
    let world = World::new();
    let route = world.route("INSERT INTO h (k, x) VALUES ($1, $2), ($3, $4)").unwrap().unwrap();
    assert_eq!(route.sample().text, "INSERT INTO \"h_0\" AS \"h\" (k, x) VALUES ($1, $2), ($3, $4)");
    let route = world.route("SELECT * FROM one, \"all\", a WHERE a.k = $1").unwrap().unwrap();
    assert_eq!(route.sample().server, "s1");
}

#[test]
fn a_statement_about_tables_of_different_servers_or_homes_has_no_sample() {
    let world = World::new();
    let has_sample = |sql: &str| world.route(sql).unwrap().unwrap().why_no_sample().is_none();
    assert!(has_sample("INSERT INTO a SELECT k + $1, x, t FROM h"));
    assert!(has_sample("INSERT INTO h SELECT id + $1, 1, name FROM one"));
    assert!(!has_sample("INSERT INTO a SELECT k + $1, x, t FROM far"));
    assert!(!has_sample("INSERT INTO far SELECT id + $1, 1, name FROM one"));
    assert!(has_sample("SELECT a.x FROM a JOIN h ON h.k = a.k WHERE a.k = $1"));
    assert!(!has_sample("SELECT a.x FROM a JOIN far ON far.id = a.k WHERE a.k = $1"));
    assert!(!has_sample("SELECT a.x FROM a JOIN of_another_home o ON o.k = a.k WHERE a.k = $1"));
    assert!(!has_sample("SELECT (SELECT max(k) FROM of_another_home) FROM a WHERE a.k = $1"));
}

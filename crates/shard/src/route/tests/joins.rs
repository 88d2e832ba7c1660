//! Joins, sub-queries and CTEs: which restrictions reach which table.

use super::check;

#[test]
fn a_key_is_handed_on_by_equality() {
    check(&[
        ("SELECT * FROM a JOIN b ON a.k = b.k WHERE a.k = 4", "1"),
        ("SELECT * FROM a JOIN b USING (k) WHERE k = 4", "1"),
        ("SELECT * FROM a, b WHERE a.k = b.k AND b.k = 4", "1"),
        ("SELECT * FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND c.k = 4", "1"),
        ("SELECT * FROM a, b WHERE a.k = b.id AND b.k = b.id AND a.k = 4", "1"),
        ("SELECT * FROM a, b WHERE a.k = 4 AND b.k = 7", "1"),
        ("SELECT * FROM a, b WHERE a.k = 4 AND b.k = 5", "engine..."),
        ("SELECT * FROM a, b WHERE a.k = 4", "engine..."),
        ("SELECT * FROM a JOIN b ON a.k = b.k", "0,1,2 Concat"),
        ("SELECT * FROM a JOIN b ON a.x = b.y", "engine..."),
        ("SELECT * FROM a, b WHERE a.k = b.k OR a.x = 1", "engine..."),
        ("SELECT * FROM a, r WHERE a.k = r.k", "engine..."),
        ("SELECT * FROM a, r WHERE a.k = 4 AND r.k = 10", "1"),
        ("SELECT * FROM a, r WHERE a.k = 4 AND r.k = 1", "engine..."),
        ("SELECT * FROM a NATURAL JOIN c WHERE a.k = 4", "engine..."),
        ("SELECT * FROM a NATURAL JOIN c WHERE a.k = 4 AND c.k = 4", "1"),
    ]);
}

#[test]
fn outer_joins_hand_a_key_to_the_side_that_may_be_missing() {
    check(&[
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k WHERE a.k = 4", "1"),
        ("SELECT * FROM a RIGHT JOIN b ON a.k = b.k WHERE b.k = 4", "1"),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k WHERE b.k = 4", "0,1,2 Concat"),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k AND b.k = 4", "0,1,2 Concat"),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k AND a.k = 4", "0,1,2 Concat"),
        ("SELECT * FROM a LEFT JOIN b ON b.k = 4 WHERE a.k = 4", "1"),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k", "0,1,2 Concat"),
        ("SELECT * FROM a FULL JOIN b ON a.k = b.k", "engine..."),
        ("SELECT * FROM a FULL JOIN b ON a.k = b.k AND a.k = 4 AND b.k = 4", "engine..."),
        ("SELECT * FROM a FULL JOIN b USING (k) WHERE k = 4", "engine..."),
        ("SELECT * FROM a LEFT JOIN b USING (k) WHERE k = 4", "1"),
        ("SELECT * FROM a LEFT JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k WHERE a.k = 4", "1"),
        ("SELECT b.k, count(*) FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.k", "0,1,2 Rows 0+all"),
        ("SELECT a.k, count(*) FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k", "0,1,2 Concat"),
        ("SELECT * FROM \"all\" LEFT JOIN b ON b.k = \"all\".id", "engine..."),
        ("SELECT * FROM b LEFT JOIN \"all\" ON b.k = \"all\".id", "0,1,2 Concat"),
    ]);
}

#[test]
fn sub_queries_are_restricted_at_every_level() {
    check(&[
        ("SELECT * FROM a WHERE k = 4 AND x = (SELECT max(y) FROM b WHERE k = 7)", "1"),
        ("SELECT * FROM a WHERE k = 4 AND x = (SELECT max(y) FROM b WHERE k = 5)", "engine..."),
        ("SELECT * FROM a WHERE k = 4 AND x = (SELECT max(y) FROM b)", "engine..."),
        ("SELECT * FROM a WHERE k = 4 AND EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", "1"),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y > x)", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k OR y = 1)", "engine..."),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE k = k)", "engine..."),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b)", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b) OR x = 1", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k NOT IN (SELECT k FROM b)", "engine..."),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM b)", "engine..."),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b LIMIT 1)", "engine..."),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b WHERE k = 4)", "1"),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b WHERE k = 4) OR x = 1", "0,1,2 Concat"),
        ("SELECT k, (SELECT max(y) FROM b WHERE b.k = a.k) FROM a", "0,1,2 Concat"),
        ("SELECT (SELECT count(*) FROM a)", "engine..."),
        ("SELECT * FROM (SELECT * FROM a) AS d WHERE d.k = 4", "1"),
        ("SELECT * FROM (SELECT k AS q, max(x) FROM a GROUP BY k) AS d WHERE q = 4", "1"),
        ("SELECT * FROM (SELECT * FROM a LIMIT 5) AS d WHERE d.k = 4", "engine..."),
        ("SELECT * FROM (SELECT k, row_number() OVER () FROM a) AS d WHERE d.k = 4", "engine..."),
        ("SELECT * FROM (SELECT * FROM a WHERE k = 4 LIMIT 5) AS d", "1"),
        ("SELECT * FROM (SELECT count(*) FROM a) AS d", "engine..."),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.k = a.k ORDER BY y LIMIT 1) AS d", "0,1,2 Concat"),
        ("SELECT * FROM (SELECT k, count(*) FROM a GROUP BY k) d JOIN b ON b.k = d.k", "0,1,2 Concat"),
        ("SELECT * FROM b JOIN (SELECT x, count(*) FROM a GROUP BY x) d ON b.k = d.x", "engine..."),
        ("SELECT * FROM (SELECT * FROM a WHERE k = 4) AS d JOIN b ON b.k = d.k", "1"),
        ("SELECT * FROM b LEFT JOIN (SELECT * FROM a WHERE k = 4) AS d ON b.k = d.k", "0,1,2 Concat"),
        (
            "SELECT * FROM b LEFT JOIN (SELECT * FROM a WHERE k = 4) AS d ON b.k = d.k JOIN c ON c.k = d.k",
            "0,1,2 Concat",
        ),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = 4 AND b.k = a.k)", "0,1,2 Concat"),
        // That one query has no rows says nothing of another one's.
        ("SELECT x > ALL (SELECT y FROM b WHERE false) FROM a", "engine..."),
        ("SELECT ARRAY(SELECT x FROM a), ARRAY(SELECT y FROM b WHERE NULL)", "engine..."),
        ("SELECT x > ALL (SELECT y FROM b WHERE false AND b.k = a.k) FROM a", "0,1,2 Concat"),
        // An inner name hides an outer one.
        ("SELECT * FROM a WHERE k = 4 AND EXISTS (SELECT 1 FROM (SELECT 1 AS k) d WHERE k = 5)", "1"),
        (
            "SELECT count(*) FROM (SELECT s.x FROM a AS s WHERE s.k = 4 AND s.x < 10 AND s.x IN \
             (SELECT y FROM b JOIN c ON c.k = b.k AND c.x = b.id WHERE b.k = 4)) AS l",
            "1",
        ),
    ]);
}

#[test]
fn ctes_are_restricted_where_they_are_read_once() {
    check(&[
        ("WITH q AS (SELECT * FROM a WHERE k = 4) SELECT * FROM q", "1"),
        ("WITH q AS (SELECT * FROM a) SELECT * FROM q WHERE k = 4", "1"),
        ("WITH q AS (SELECT * FROM a) SELECT * FROM q WHERE k = 4 AND EXISTS (SELECT 1 FROM q)", "engine..."),
        ("WITH q AS (SELECT * FROM b) SELECT * FROM a, q WHERE a.k = q.k AND a.k = 4", "1"),
        (
            "WITH q AS (SELECT * FROM b), z AS (SELECT * FROM c) SELECT * FROM q LEFT JOIN z ON z.k = q.k WHERE q.k = 4",
            "1",
        ),
        (
            "WITH z AS (SELECT * FROM b), q AS (SELECT * FROM c) SELECT * FROM q LEFT JOIN z ON z.k = q.k AND z.k = 4",
            "0,1,2 Concat",
        ),
        ("WITH q AS (SELECT * FROM a WHERE k = 4) SELECT * FROM q JOIN q AS z ON true", "1"),
        ("WITH q AS (SELECT * FROM a) SELECT * FROM q JOIN q AS z ON true", "engine..."),
        ("WITH a AS (SELECT 1 AS k) SELECT * FROM a", "elsewhere"),
        ("WITH a AS (SELECT * FROM a WHERE k = 4) SELECT * FROM a", "1"),
        (
            "WITH RECURSIVE q AS (SELECT k, x FROM a WHERE k = 4 UNION ALL SELECT q.k, q.x + 1 FROM q WHERE q.x < 9) \
             SELECT * FROM q",
            "1",
        ),
        ("WITH RECURSIVE q AS (SELECT * FROM a), a AS (SELECT 1 AS k) SELECT * FROM q", "elsewhere"),
        ("WITH q AS (DELETE FROM a WHERE k = 4 RETURNING *) SELECT * FROM q", "1"),
    ]);
}

#[test]
fn broadcast_and_single_tables_are_where_they_are() {
    check(&[
        ("SELECT * FROM \"all\"", "0"),
        ("SELECT * FROM \"all\" JOIN a ON a.x = \"all\".id", "0,1,2 Concat"),
        ("SELECT * FROM \"all\" JOIN a ON a.x = \"all\".id WHERE a.k = 4", "1"),
        ("SELECT * FROM one", "0"),
        ("SELECT * FROM one, a WHERE a.k = 4", "1"),
        ("SELECT * FROM one, a WHERE a.k = 5", "engine..."),
        ("SELECT * FROM one, a", "engine..."),
        ("SELECT * FROM one, \"all\"", "0"),
        ("SELECT * FROM \"all\" FOR UPDATE", "0,1,2 Identical"),
        ("SELECT id FROM \"all\" WHERE id IN (1, 2) ORDER BY id FOR SHARE NOWAIT", "0,1,2 Identical"),
        ("SELECT * FROM \"all\" FOR UPDATE SKIP LOCKED", "0A000..."),
        ("SELECT * FROM \"all\" LIMIT 1 FOR UPDATE", "0A000..."),
        ("SELECT * FROM \"all\" WHERE random() < 0.5 FOR UPDATE", "0A000..."),
        ("SELECT * FROM a, \"all\" WHERE k = 4 FOR UPDATE", "0A000..."),
        ("SELECT * FROM a, \"all\" WHERE k = 4 FOR UPDATE OF a", "1"),
    ]);
}
